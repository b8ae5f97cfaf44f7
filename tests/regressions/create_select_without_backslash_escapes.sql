-- CREATE TABLE … SELECT is logged with a definition that has backslashes as escapes, also under NO_BACKSLASH_ESCAPES.
-- session 1
SET SESSION binlog_row_image = MINIMAL;
CREATE TABLE `diffa`.`a` (`i` INT, `n` BINARY(19) DEFAULT 'a', `m` VARCHAR(20) DEFAULT 'x\\y''z\n', `e` ENUM('a\\b', 'c''d') DEFAULT 'a\\b', `k` INT COMMENT 'q\\r');
INSERT INTO `diffa`.`a` (`i`) VALUES (1);
SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES';
CREATE TABLE "diffa"."b" SELECT * FROM "diffa"."a";
INSERT INTO "diffa"."b" ("i") VALUES (2);
CREATE TABLE "diffa"."c" ("i" INT, "m" VARCHAR(20) DEFAULT 'x\');
INSERT INTO "diffa"."c" ("i") VALUES (3);
