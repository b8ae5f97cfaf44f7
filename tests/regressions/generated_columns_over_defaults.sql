-- A generated column that names DEFAULT(col) changes with that default: SET DEFAULT, MODIFY and CHANGE compute both
-- kinds again. The replica kept 6. An expression that only has a column of that name keeps its rows.
-- tables copied again: 5
-- session 0
CREATE TABLE `diffa`.`tzz` (a INT DEFAULT 5, gc1 INT AS (a + DEFAULT(a)) VIRTUAL, gc2 INT AS (a + DEFAULT(a)) STORED, KEY k1 (gc1));
INSERT INTO `diffa`.`tzz` (a) VALUES (1);
ALTER TABLE `diffa`.`tzz` MODIFY COLUMN a INT DEFAULT 6;
CREATE TABLE `diffa`.`k1` (id INT PRIMARY KEY, a INT DEFAULT 5, b INT, v INT AS (a + DEFAULT(a)) VIRTUAL, s INT AS (v + 1) STORED);
INSERT INTO `diffa`.`k1` (id, a) VALUES (1, 1);
ALTER TABLE `diffa`.`k1` ALTER COLUMN a SET DEFAULT 6;
CREATE TABLE `diffa`.`k2` (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'x', v VARCHAR(20) AS (CONCAT(a, DEFAULT(a))) VIRTUAL);
INSERT INTO `diffa`.`k2` (id) VALUES (1);
ALTER TABLE `diffa`.`k2` CHANGE COLUMN a a VARCHAR(9) DEFAULT 'y';
CREATE TABLE `diffa`.`k3` (id INT PRIMARY KEY, a INT DEFAULT 5, v INT AS (COALESCE(a, DEFAULT(a))) STORED);
INSERT INTO `diffa`.`k3` (id, a) VALUES (1, NULL);
ALTER TABLE `diffa`.`k3` MODIFY a INT;
CREATE TABLE `diffa`.`k4` (id INT PRIMARY KEY, a INT DEFAULT 5, v INT AS (a + 1) STORED);
INSERT INTO `diffa`.`k4` (id) VALUES (1);
ALTER TABLE `diffa`.`k4` ALTER COLUMN a SET DEFAULT 6;
CREATE TABLE `diffa`.`k5` (id INT PRIMARY KEY, a INT DEFAULT 5, b INT DEFAULT 1, v INT AS (a + DEFAULT(a)) STORED);
INSERT INTO `diffa`.`k5` (id) VALUES (1);
ALTER TABLE `diffa`.`k5` ALTER COLUMN b SET DEFAULT 6;
ALTER TABLE `diffa`.`k5` RENAME COLUMN b TO c, ADD COLUMN d INT DEFAULT 3;
CREATE TABLE `diffa`.`k6` (id INT PRIMARY KEY, ts TIMESTAMP NULL, s VARCHAR(30) AS (CONCAT(ts, '')) STORED);
SET time_zone = '+00:00';
INSERT INTO `diffa`.`k6` (id, ts) VALUES (1, '2020-01-01');
SET time_zone = '+05:00';
ALTER TABLE `diffa`.`k6` FORCE;
OPTIMIZE TABLE `diffa`.`k6`;
ALTER TABLE `diffa`.`k6` FORCE, ALGORITHM = COPY;
