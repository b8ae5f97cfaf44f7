-- A generated column that is NOT NULL holds 0 outside strict mode where its expression is NULL; made one that may be NULL, it is
-- computed anew. Here it stayed 0, and a row of a table without a key was not found (exit 9).
-- tables copied again: 2
-- session 1
SET SESSION sql_mode = '';
CREATE TABLE `diffa`.`again` (`a` INT NOT NULL, `c` TINYINT NULL, `g` DOUBLE AS (`c` / 2) STORED NOT NULL, UNIQUE KEY (`a`, `g`));
INSERT IGNORE INTO `diffa`.`again` (`a`, `c`) VALUES (1, NULL), (2, 3), (3, NULL);
ALTER TABLE `diffa`.`again` MODIFY COLUMN `g` DOUBLE AS (`c` / 2) STORED NULL;
DELETE FROM `diffa`.`again` ORDER BY `a` DESC LIMIT 1;
CREATE TABLE `diffa`.`again_virtual` (`a` INT PRIMARY KEY, `c` TINYINT NULL, `g` DOUBLE AS (`c` / 2) VIRTUAL NOT NULL);
INSERT IGNORE INTO `diffa`.`again_virtual` (`a`, `c`) VALUES (1, NULL), (2, 3), (3, NULL);
ALTER TABLE `diffa`.`again_virtual` MODIFY COLUMN `g` DOUBLE AS (`c` / 2) VIRTUAL NULL;
DELETE FROM `diffa`.`again_virtual` ORDER BY `a` DESC LIMIT 1;
