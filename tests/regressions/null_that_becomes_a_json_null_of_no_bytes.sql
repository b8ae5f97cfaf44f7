-- ADD COLUMN JSON NOT NULL puts a JSON null of no bytes into rows. Copied over NULL under PARTIAL_JSON it is logged as a
-- difference without any change.
-- session 1
SET SESSION binlog_row_value_options = 'PARTIAL_JSON', sql_mode = '';
CREATE TABLE `diffa`.`no_bytes` (`id` INT PRIMARY KEY);
INSERT INTO `diffa`.`no_bytes` VALUES (1), (2), (3);
ALTER TABLE `diffa`.`no_bytes` ADD COLUMN `j` JSON NOT NULL;
CREATE TABLE `diffa`.`over_null` (`id` INT PRIMARY KEY, `j` JSON NULL, `u` INT, UNIQUE KEY (`u`));
CREATE TABLE `diffa`.`over_null_keyless` (`id` INT, `j` JSON NULL, `u` INT);
INSERT INTO `diffa`.`over_null` VALUES (1, NULL, 1), (2, '{}', 2), (3, NULL, 3), (4, 'null', 4);
INSERT INTO `diffa`.`over_null_keyless` SELECT * FROM `diffa`.`over_null`;
REPLACE INTO `diffa`.`over_null` SELECT `id` + 10, `j`, `id` FROM `diffa`.`no_bytes` WHERE `id` < 3;
UPDATE `diffa`.`over_null` x JOIN `diffa`.`no_bytes` y ON x.`u` = y.`id` SET x.`j` = y.`j` WHERE x.`u` = 3;
UPDATE `diffa`.`over_null_keyless` x JOIN `diffa`.`no_bytes` y ON x.`u` = y.`id` SET x.`j` = y.`j`;
SET SESSION binlog_row_image = MINIMAL;
UPDATE `diffa`.`over_null` SET `j` = NULL;
REPLACE INTO `diffa`.`over_null` SELECT `id` + 20, `j`, `id` FROM `diffa`.`no_bytes`;
UPDATE `diffa`.`over_null` SET `j` = JSON_SET('{}', '$.a', 1) WHERE `u` > 1;
