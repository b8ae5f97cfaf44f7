-- Changes of rows as text, with what belongs to them: INSERT_ID, a random seed, variables.
CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY AUTO_INCREMENT, b DOUBLE, c VARCHAR(20));
SET SESSION binlog_format = STATEMENT; SET @name = 'ü'; INSERT INTO t (b, c) VALUES (RAND(), @name); UPDATE t SET c = LAST_INSERT_ID();
FLUSH BINARY LOGS;
