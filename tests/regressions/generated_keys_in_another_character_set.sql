-- A CREATE TABLE that the source gives a primary key is logged as a definition in UTF-8, with backslash escapes, under the session's own character set and sql_mode.
-- session 0
SET SESSION binlog_row_image = MINIMAL, sql_generate_invisible_primary_key = 1;
SET NAMES sjis;
CREATE TABLE g (a INT, `⟨955c⟩` INT, v VARCHAR(8) CHARACTER SET sjis DEFAULT '⟨955c⟩', u VARCHAR(8) CHARACTER SET utf8mb4 DEFAULT 'x⟨955c⟩', e ENUM('⟨955c⟩', 'b') CHARACTER SET utf8mb4 COMMENT '⟨955c⟩');
INSERT INTO g (a, e) VALUES (1, 1);
CREATE TABLE IF NOT EXISTS `⟨955c⟩` (a INT, `⟨955c⟩` INT, u VARCHAR(8) CHARACTER SET utf8mb4 DEFAULT 'x⟨955c⟩') ENGINE=MyISAM COMMENT '⟨955c⟩';
INSERT INTO `⟨955c⟩` (a) VALUES (1);
CREATE TABLE IF NOT EXISTS g (a INT, `⟨955c⟩b` INT);
SET NAMES latin1;
CREATE TABLE h (a INT, v VARCHAR(8) CHARACTER SET latin2 DEFAULT '⟨e9⟩', u VARCHAR(8) CHARACTER SET utf8mb4 DEFAULT '⟨e9⟩', e ENUM('⟨e9⟩', 'b') CHARACTER SET utf8mb4 COMMENT '⟨e9⟩');
INSERT INTO h (a, e) VALUES (1, 1);
SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES');
CREATE TABLE aq (a INT, "⟨e9⟩" VARCHAR(8) CHARACTER SET utf8mb4 DEFAULT '⟨e9⟩"');
INSERT INTO aq (a) VALUES (1);
SET SESSION sql_mode = CONCAT(@@sql_mode, ',NO_BACKSLASH_ESCAPES');
CREATE TABLE nb (a INT, u VARCHAR(8) CHARACTER SET utf8mb4 DEFAULT '\', e ENUM('\⟨e9⟩', 'b') CHARACTER SET utf8mb4 COMMENT '\');
INSERT INTO nb (a, e) VALUES (1, 1);
SET SESSION sql_mode = 'STRICT_ALL_TABLES';
ALTER TABLE h ADD x VARCHAR(5) DEFAULT '⟨e9⟩';
INSERT INTO h (a, e) VALUES (2, 1);
