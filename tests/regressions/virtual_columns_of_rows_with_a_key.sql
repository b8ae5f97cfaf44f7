-- Virtual columns that the log tells wrongly: a BLOB that another generated column reads, whose after image has bytes
-- of the old value; under NOBLOB a column that reads such a one; values of another time_zone. verify said DIFFERENT.
-- session 0
SET sql_mode = '', time_zone = '+00:00';
CREATE TABLE `diffa`.`p3` (id INT PRIMARY KEY, a BLOB, b BLOB, g BLOB AS (a - b) VIRTUAL, h BLOB AS (a / b) VIRTUAL, c TEXT, i BLOB AS (h / g) VIRTUAL, KEY (c(10), g(5)), KEY (c(10), i(5)));
INSERT INTO `diffa`.`p3` (id, a, b, c) VALUES (1, REPEAT('a', 20), REPEAT('a', 20), REPEAT('a', 20));
UPDATE `diffa`.`p3` SET a = 50;
CREATE TABLE `diffa`.`t23` (id INT PRIMARY KEY, a TEXT, b BLOB, g0 LONGBLOB AS (IF(LENGTH(a) > 3, a, 'z')) VIRTUAL, g1 DECIMAL(20,4) AS (g0 / g0) VIRTUAL, g2 TINYBLOB AS (g0 - g1) VIRTUAL, KEY (a(5)), KEY (b(5)), KEY (g1), KEY (g2(5)));
INSERT INTO `diffa`.`t23` (id, a, b) VALUES (1, 'x', 2), (2, 'y', 3);
UPDATE `diffa`.`t23` SET a = 'aaaaaaaaaa';
UPDATE `diffa`.`t23` SET b = 'b';
CREATE TABLE `diffa`.`t35` (id INT PRIMARY KEY, a INT, g TEXT AS (REVERSE(a)) VIRTUAL, d DECIMAL(20,4) AS (UPPER(g)) VIRTUAL, e INT AS (a + 1) VIRTUAL);
INSERT INTO `diffa`.`t35` (id, a) VALUES (1, 77), (2, 99);
SET SESSION binlog_row_image = NOBLOB;
UPDATE `diffa`.`t35` SET id = id + 50;
SET SESSION binlog_row_image = FULL;
CREATE TABLE `diffa`.`zones` (id INT PRIMARY KEY, ts TIMESTAMP NULL, x INT, v VARCHAR(30) AS (CONCAT(ts, '')) VIRTUAL, s VARCHAR(30) AS (CONCAT(ts, '')) STORED);
SET time_zone = '+05:00';
INSERT INTO `diffa`.`zones` (id, ts, x) VALUES (1, '2020-01-01', 1), (2, '2020-02-01', 1);
UPDATE `diffa`.`zones` SET x = 2 WHERE id = 1;
SET time_zone = '+00:00';
UPDATE `diffa`.`zones` SET x = 3;
DELETE FROM `diffa`.`zones` WHERE id = 2;
