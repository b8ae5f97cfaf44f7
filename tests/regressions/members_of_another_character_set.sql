-- ENUM and SET columns that get another character set stay in place where the old names, byte by byte, are the new ones to the
-- new collation; CONVERT TO keeps the bytes of names, whatever they say then. In place, dates that the session would not take
-- stay as they are.
-- session 0
CREATE TABLE `diffa`.`s` (id INT NOT NULL, s SET('one','two','Three') CHARACTER SET latin2 COLLATE latin2_czech_cs, d DATETIME(4), KEY (id)) DEFAULT CHARSET latin2;
CREATE TABLE `diffa`.`e` (id INT NOT NULL PRIMARY KEY, e ENUM('é','b','C') DEFAULT 'b', d DATE) DEFAULT CHARSET utf8mb4;
CREATE TABLE `diffa`.`m` (id INT NOT NULL PRIMARY KEY, e ENUM('a','b') CHARACTER SET ucs2, d DATE) DEFAULT CHARSET utf8mb4;
CREATE TABLE `diffa`.`c` (id INT NOT NULL PRIMARY KEY, e ENUM('a','b') COLLATE utf8mb4_bin, d DATE) DEFAULT CHARSET utf8mb4;
SET SESSION sql_mode = 'ALLOW_INVALID_DATES';
INSERT INTO `diffa`.`s` VALUES (1, 'one,Three', '2024-02-30'), (2, NULL, '0000-00-00'), (3, 'two', '2024-04-31');
INSERT INTO `diffa`.`e` VALUES (1, 'é', '2024-02-30'), (2, 'b', '2024-02-30'), (3, 'C', NULL);
INSERT INTO `diffa`.`m` VALUES (1, 'a', '2024-02-30'), (2, 'b', NULL);
INSERT INTO `diffa`.`c` VALUES (1, 'a', '2024-02-30'), (2, 'b', NULL);
SET SESSION sql_mode = '';
ALTER TABLE `diffa`.`s` CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
UPDATE `diffa`.`s` SET s = 'two,Three' WHERE id = 1;
DELETE FROM `diffa`.`s` WHERE id = 3;
ALTER TABLE `diffa`.`e` CONVERT TO CHARACTER SET latin1;
INSERT INTO `diffa`.`e` (id) VALUES (4);
ALTER TABLE `diffa`.`e` MODIFY e ENUM('Ã©','B','c','d') CHARACTER SET latin1;
UPDATE `diffa`.`e` SET e = 'd' WHERE id = 2;
ALTER TABLE `diffa`.`m` MODIFY e ENUM('A','b') CHARACTER SET utf8mb4;
ALTER TABLE `diffa`.`c` MODIFY e ENUM('A','b') COLLATE utf8mb4_0900_ai_ci;
-- Here the names differ to the new collation: a copy.
ALTER TABLE `diffa`.`c` MODIFY e ENUM('a','b') COLLATE utf8mb4_bin;
ALTER TABLE `diffa`.`m` MODIFY e ENUM('A','b') CHARACTER SET ucs2;
