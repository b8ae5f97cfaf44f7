-- Default values are literals: characters that collation_connection's set lacks became question marks at the source only.
-- session 1
SET SESSION binlog_row_image = MINIMAL;
SET SESSION collation_connection = latin2_czech_cs;
CREATE TABLE t (i INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT 'Яaß', b VARBINARY(20) DEFAULT 'Яaß', d VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT _utf8mb4'Яaß', f ENUM('Я','ß') CHARACTER SET utf8mb4 DEFAULT 'ß');
INSERT INTO t (i) VALUES (1);
SET SESSION collation_connection = utf16_general_ci;
CREATE TABLE u (i INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT 'Яaß漢ä', b VARBINARY(20) DEFAULT 'Яa', c INT DEFAULT '12');
INSERT INTO u (i) VALUES (1);
SET SESSION collation_connection = gbk_chinese_ci;
ALTER TABLE u ADD g VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT 'Яaß漢ä' FIRST, ALTER a SET DEFAULT '漢ä';
INSERT INTO u (i) VALUES (2);
SET SESSION collation_connection = binary;
ALTER TABLE t ADD k VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT 'Яa';
INSERT INTO t (i) VALUES (2);
