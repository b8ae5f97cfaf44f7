-- Names of ENUM and SET that the column's character set lacks become question marks, in strict mode too; the table was copied.
-- session 1
CREATE TABLE t (id INT PRIMARY KEY, a ENUM('fünf', 'six') CHARACTER SET ascii, b SET('one', '漢字', 'ü') CHARACTER SET latin1);
INSERT INTO t VALUES (1, 1, 7), (2, 'six', 'one');
UPDATE t SET a = 1, b = 2 WHERE id = 2;
