-- Virtual columns are what a session reads, so rows without a key are found without them: a BLOB whose after image the
-- source logs wrongly, and values that depend on time_zone, lc_time_names and sql_mode. DELETE stopped with 1032.
-- tables copied again: 1
-- session 0
SET sql_mode = '';
CREATE TABLE `diffa`.`p3` (id INT, a BLOB, b BLOB, g BLOB AS (a - b) VIRTUAL, h BLOB AS (a / b) VIRTUAL, c TEXT, i BLOB AS (h / g) VIRTUAL, KEY (c(10), g(5)), KEY (c(10), i(5)));
INSERT INTO `diffa`.`p3` (id, a, b, c) VALUES (1, REPEAT('a', 20), REPEAT('a', 20), REPEAT('a', 20)), (2, 30, 10, 'x'), (2, 30, 10, 'x');
UPDATE `diffa`.`p3` SET a = 50;
UPDATE `diffa`.`p3` SET b = 7 WHERE id = 2 LIMIT 1;
DELETE FROM `diffa`.`p3` WHERE id = 1;
SET time_zone = '+00:00';
CREATE TABLE `diffa`.`zones` (id INT, ts TIMESTAMP NULL, j JSON, v VARCHAR(30) AS (CONCAT(ts, '')) VIRTUAL, w JSON AS (JSON_OBJECT('t', ts)) VIRTUAL, m VARCHAR(30) AS (MONTHNAME(ts)) VIRTUAL NOT NULL, s VARCHAR(30) AS (CONCAT(ts, '')) STORED);
INSERT INTO `diffa`.`zones` (id, ts, j) VALUES (1, '2020-01-01', '[1]'), (2, '2020-02-01', '{"a": 1}'), (3, '2020-03-01', NULL);
SET time_zone = '+05:00', lc_time_names = 'de_DE';
UPDATE `diffa`.`zones` SET j = '[2]' WHERE id = 1;
UPDATE `diffa`.`zones` SET ts = '2021-02-01' WHERE id = 2;
DELETE FROM `diffa`.`zones` WHERE id = 3;
SET SESSION binlog_row_image = MINIMAL;
UPDATE `diffa`.`zones` SET j = '[3]' WHERE id = 1;
SET time_zone = '+00:00', lc_time_names = 'en_US', SESSION binlog_row_image = NOBLOB;
UPDATE `diffa`.`zones` SET ts = '2022-02-01' WHERE id = 2;
DELETE FROM `diffa`.`zones` WHERE id = 1;
SET SESSION binlog_row_image = FULL;
CREATE TABLE `diffa`.`padded` (c CHAR(10), v VARCHAR(30) AS (CONCAT(c, '|')) VIRTUAL);
INSERT INTO `diffa`.`padded` (c) VALUES ('ab'), ('ab'), ('x');
SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH';
DELETE FROM `diffa`.`padded` LIMIT 1;
UPDATE `diffa`.`padded` SET c = 'y' WHERE c = 'x';
SET sql_mode = '';
ALTER TABLE `diffa`.`padded` ADD COLUMN n INT DEFAULT 4, ADD COLUMN w VARCHAR(40) AS (CONCAT(v, n)) VIRTUAL;
UPDATE `diffa`.`padded` SET n = 5 LIMIT 1;
ALTER TABLE `diffa`.`padded` DROP COLUMN w, DROP COLUMN v;
DELETE FROM `diffa`.`padded` WHERE c = 'y';
CREATE TABLE `diffa`.`parts` (a INT, v INT AS (a * 2) VIRTUAL) PARTITION BY RANGE (a) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO `diffa`.`parts` (a) VALUES (1), (1), (20), (30);
ALTER TABLE `diffa`.`parts` TRUNCATE PARTITION p0;
DELETE FROM `diffa`.`parts` WHERE a = 20;
CREATE TABLE `diffa`.`placed` (a INT, v INT AS (a * 2) VIRTUAL) PARTITION BY RANGE (v) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO `diffa`.`placed` (a) VALUES (1), (1), (20), (30);
ALTER TABLE `diffa`.`placed` DROP PARTITION p0;
DELETE FROM `diffa`.`placed` WHERE a = 20;
