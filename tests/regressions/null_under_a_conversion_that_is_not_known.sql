-- A column that becomes NOT NULL outside strict mode, by a conversion that is not known for values (FLOAT to DECIMAL): NULL
-- stayed NULL.
-- session 1
SET SESSION sql_mode = '';
CREATE TABLE `diffa`.`v` (`id` INT PRIMARY KEY, `x` INT, `f` FLOAT NULL, `j` JSON NULL);
INSERT INTO `diffa`.`v` VALUES (1, 1, NULL, NULL), (2, 2, NULL, NULL);
ALTER TABLE `diffa`.`v` MODIFY COLUMN `f` DECIMAL(20,5) NOT NULL;
UPDATE `diffa`.`v` SET `x` = 3 WHERE `id` = 2;
ALTER TABLE `diffa`.`v` MODIFY COLUMN `j` VARCHAR(20) CHARACTER SET latin1 NOT NULL;
