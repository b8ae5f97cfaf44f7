-- INSERT INTO t () VALUES () under MINIMAL: an event without a column and without a byte of rows is one row.
-- session 1
SET SESSION binlog_row_image = MINIMAL;
CREATE TABLE `diffa`.`without_key` (`a` INT DEFAULT 5, `b` VARCHAR(10) DEFAULT 'six');
CREATE TABLE `diffa`.`with_key` (`a` INT NOT NULL DEFAULT 7, `b` INT, PRIMARY KEY (`a`));
CREATE TABLE `diffa`.`counted` (`a` INT NOT NULL AUTO_INCREMENT, `b` INT DEFAULT 3, PRIMARY KEY (`a`));
INSERT INTO `diffa`.`without_key` () VALUES ();
INSERT INTO `diffa`.`without_key` () VALUES ();
INSERT INTO `diffa`.`with_key` () VALUES ();
INSERT INTO `diffa`.`counted` () VALUES (), ();
DELETE FROM `diffa`.`without_key` LIMIT 1;
