-- A virtual generated column becomes NOT NULL in strict mode: rows where it is NULL are not looked at, and read as 0.
-- A column that others are computed from becomes a narrower integer in strict mode: what is stored fits, and stays as it is.
-- session 1
SET SESSION sql_mode = 'STRICT_TRANS_TABLES';
CREATE TABLE `diffa`.`no_nulls` (`a` TINYINT NULL, `b` BINARY(17) NULL, `g` DOUBLE AS (`a` / 2) VIRTUAL NULL, `h` VARCHAR(20) CHARACTER SET utf8mb4 AS (CONCAT(`a`, 'x')) VIRTUAL NULL);
INSERT INTO `diffa`.`no_nulls` (`a`, `b`) VALUES (NULL, x'0d'), (3, x'0e'), (NULL, x'0f'), (NULL, x'1f');
ALTER TABLE `diffa`.`no_nulls` CHANGE COLUMN `g` `g2` DOUBLE AS (`a` / 2) VIRTUAL NOT NULL AFTER `a`, MODIFY COLUMN `h` VARCHAR(20) CHARACTER SET utf8mb4 AS (CONCAT(`a`, 'x')) VIRTUAL NOT NULL;
DELETE FROM `diffa`.`no_nulls` WHERE `b` LIKE BINARY x'0d25';
DELETE FROM `diffa`.`no_nulls` WHERE `a` IS NULL LIMIT 1;
CREATE TABLE `diffa`.`narrower` (`a` INT UNSIGNED NOT NULL, `g` DOUBLE AS (`a` / 2) STORED, PRIMARY KEY (`a`));
INSERT INTO `diffa`.`narrower` (`a`) VALUES (5), (70000);
ALTER TABLE `diffa`.`narrower` MODIFY COLUMN `a` BIGINT NOT NULL;
ALTER TABLE `diffa`.`narrower` MODIFY COLUMN `a` MEDIUMINT UNSIGNED NOT NULL;
UPDATE `diffa`.`narrower` SET `a` = `a` + 1 ORDER BY `a` DESC;
