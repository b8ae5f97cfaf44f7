-- Characters that the new character set lacks become question marks where sql_mode is not strict; the table was copied.
-- session 1
SET SESSION sql_mode = '';
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10), b TEXT, c CHAR(5)) CHARACTER SET utf8mb4;
INSERT INTO t VALUES (1, 'か😀a', 'ıé', '日'), (2, 'plain', '', NULL);
ALTER TABLE t CONVERT TO CHARACTER SET latin1;
UPDATE t SET c = 'x' WHERE id = 1;
CREATE TABLE u (id INT PRIMARY KEY, a VARCHAR(10) CHARACTER SET utf8mb4, b VARCHAR(10) CHARACTER SET utf8mb4);
INSERT INTO u VALUES (1, 'か😀a', 'か😀a');
ALTER TABLE u MODIFY a VARCHAR(10) CHARACTER SET ucs2, MODIFY b VARCHAR(10) CHARACTER SET gbk;
UPDATE u SET id = 2;
