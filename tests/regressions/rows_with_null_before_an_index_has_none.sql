-- A row with NULL is changed or deleted, then its column becomes NOT NULL (strict mode: no NULL is left), all within one cut:
-- the index over the column is another one from then on, and the row as it was has no place in it. Two indexes, so that one
-- goes on. With a primary key and without.
-- session 1
SET SESSION sql_mode = 'STRICT_TRANS_TABLES';
CREATE TABLE `diffa`.`nulls_a` (`a` INT, `b` VARBINARY(262) NULL, `c` INT, KEY `k` (`a`, `b`(7)), KEY `k2` (`c`));
CREATE TABLE `diffa`.`nulls_b` (`a` INT PRIMARY KEY, `b` INT NULL, `c` INT, KEY `k` (`b`), KEY `k2` (`c`));
INSERT INTO `diffa`.`nulls_a` VALUES (1, NULL, 1), (2, 'x', 2), (3, NULL, 3), (4, NULL, 4);
INSERT INTO `diffa`.`nulls_b` VALUES (1, NULL, 1), (2, 2, 2), (3, NULL, 3), (4, NULL, 4);
SELECT SLEEP(0.5);
DELETE FROM `diffa`.`nulls_a` WHERE `a` = 4;
UPDATE `diffa`.`nulls_a` SET `b` = 'C' WHERE `b` IS NULL;
ALTER TABLE `diffa`.`nulls_a` MODIFY COLUMN `b` VARBINARY(262) NOT NULL DEFAULT '', ALGORITHM=COPY;
DELETE FROM `diffa`.`nulls_b` WHERE `a` = 4;
UPDATE `diffa`.`nulls_b` SET `b` = 7 WHERE `b` IS NULL;
ALTER TABLE `diffa`.`nulls_b` MODIFY COLUMN `b` INT NOT NULL, ALGORITHM=COPY;
SELECT SLEEP(0.5);
INSERT INTO `diffa`.`nulls_a` VALUES (5, 'y', 5);
INSERT INTO `diffa`.`nulls_b` VALUES (5, 5, 5);
