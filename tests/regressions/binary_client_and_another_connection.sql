-- Under SET NAMES binary literals are taken as bytes of collation_connection, names as UTF-8.
-- session 0
SET NAMES binary;
SET SESSION collation_connection = latin1_bin;
CREATE TABLE `t_⟨e8a1a8⟩` (`⟨c3a9⟩` INT PRIMARY KEY COMMENT '⟨c3a9⟩', v VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT '⟨c3a9e8a1a8⟩', l VARCHAR(9) CHARACTER SET latin1 DEFAULT '⟨c3a9⟩', b VARBINARY(9) DEFAULT '⟨c3a9⟩', e ENUM('⟨c3a9e8a1a8⟩', 'x⟨c3a9⟩') CHARACTER SET utf8mb4 DEFAULT 'x⟨c3a9⟩');
INSERT INTO `t_⟨e8a1a8⟩` (`⟨c3a9⟩`) VALUES (1), (2);
ALTER TABLE `t_⟨e8a1a8⟩` ADD `x⟨c3a9⟩` VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT '⟨c3a9⟩''⟨e8a1a8⟩', ALTER v SET DEFAULT '⟨e8a1a8⟩';
INSERT INTO `t_⟨e8a1a8⟩` (`⟨c3a9⟩`) VALUES (3);
SET SESSION collation_connection = gbk_bin;
CREATE TABLE g (a INT PRIMARY KEY, v VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT '⟨c3a9⟩', e ENUM('⟨c3a9⟩', 'x') CHARACTER SET utf8mb4 DEFAULT '⟨c3a9⟩');
INSERT INTO g (a) VALUES (1), (2);
SET SESSION collation_connection = utf16le_bin;
CREATE TABLE w (a INT PRIMARY KEY, v VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT 'abcd', e ENUM('abcd', 'xy') CHARACTER SET utf8mb4 DEFAULT 'xy');
INSERT INTO w (a) VALUES (1), (2);
SET NAMES utf8mb4;
CREATE TABLE p (a INT PRIMARY KEY, u VARCHAR(9) CHARACTER SET ucs2 DEFAULT x'616263', f VARCHAR(9) CHARACTER SET utf32 DEFAULT x'61');
INSERT INTO p (a) VALUES (1), (2);
