-- Bytes that become text outside strict mode end before the first one that is no character, also where CONVERT TO names the
-- character set in the end; the table is not copied again.
-- session 1
SET SESSION sql_mode = '';
CREATE TABLE `diffa`.`bytes` (`id` INT PRIMARY KEY, `a` VARBINARY(20), `b` BLOB, `c` BINARY(6), `d` VARBINARY(20), `e` VARBINARY(20)) CHARACTER SET latin1;
INSERT INTO `diffa`.`bytes` VALUES (1, 'abc', 'abc', 'abc', 'abc', 'abc'), (2, x'e4', x'e4', x'e4', x'e4', x'e4'), (3, x'41e442', x'41e442', x'41e442', x'41e442', x'41e442'), (4, x'c3a4', x'c3a4', x'c3a4', x'c3a4', x'c3a4'), (5, x'41eda08042', x'41eda08042', x'41eda08042', x'41eda08042', x'41eda08042'), (6, x'41f09f988042', x'41f09f988042', x'41f09f988042', x'41f09f988042', x'41f09f988042'), (7, x'41f490808042', x'41f490808042', x'41f490808042', x'41f490808042', x'41f490808042'), (8, x'41c08042', x'41c08042', x'41c08042', x'41c08042', x'41c08042'), (9, x'41e0808042', x'41e0808042', x'41e0808042', x'41e0808042', x'41e0808042'), (10, x'4120c3', x'4120c3', x'4120c3', x'4120c3', x'4120c3'), (11, x'414243e4', x'414243e4', x'414243e4', x'414243e4', x'414243e4'), (12, NULL, NULL, NULL, NULL, NULL), (13, x'41efbfbf42', x'41efbfbf42', x'41efbfbf42', x'41efbfbf42', x'41efbfbf42');
ALTER TABLE `diffa`.`bytes` MODIFY COLUMN `a` VARCHAR(20) CHARACTER SET latin1, CONVERT TO CHARACTER SET utf8mb4;
ALTER TABLE `diffa`.`bytes` MODIFY COLUMN `b` TEXT CHARACTER SET utf8mb4, MODIFY COLUMN `c` CHAR(6) CHARACTER SET utf8mb4;
ALTER TABLE `diffa`.`bytes` MODIFY COLUMN `d` VARCHAR(20) CHARACTER SET utf8mb3, MODIFY COLUMN `e` VARCHAR(2) CHARACTER SET utf8mb4;
UPDATE `diffa`.`bytes` SET `a` = CONCAT(`a`, 'x'), `d` = CONCAT(`d`, 'x');
