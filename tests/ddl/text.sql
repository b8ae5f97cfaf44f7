-- The same statements as text: comments, hints, modes, character sets, names.

== versioned comments of every kind : replayed
----
ALTER TABLE {t} /*!50100 ADD c INT */ /*!80000 DEFAULT 3 *//*!99999 nonsense, DROP b *//*! , ADD d INT */ /*!080023 INVISIBLE */; CREATE /*!32302 TABLE */ {t}_1 (a INT /*!40100 COMMENT 'it''s /* here' */, b INT /*!80016 NOT NULL */ /* plain , */) /*!50100 PARTITION BY HASH (b) PARTITIONS 2 */; ALTER /*M! nonsense */ TABLE {t} COMMENT '/*!80000 x */'
----
INSERT INTO {t} (id) VALUES (4); INSERT INTO {t}_1 VALUES (1, 1), (2, 2)

== optimizer hints, comments everywhere : replayed
----
CREATE TABLE {t}_1 (a INT) SELECT /*+ NO_RANGE_OPTIMIZATION({t}) */ id FROM {t}; ALTER # to the end of the line
TABLE -- and here
{t}/**/ADD/* x */COLUMN/*;*/c/**/INT-- 
; RENAME /* from */ TABLE {t}_1 /* to */ TO /*;*/ {t}_2
----
INSERT INTO {t} VALUES (4, 4, 'four', 4)

== ANSI_QUOTES, PIPES_AS_CONCAT, the mode ANSI : replayed
----
SET sql_mode = 'ANSI'; ALTER TABLE "ddl"."{t}" ADD COLUMN "order" VARCHAR(20) DEFAULT 'a"b', ADD "x`y" INT DEFAULT 1 COMMENT 'c', ADD INDEX "k ""1""" ("order"); CREATE TABLE "{t}_""q""" ("a""b" INT PRIMARY KEY, c REAL DEFAULT 1.5); CREATE TABLE {t}_real (a REAL); INSERT INTO {t}_real VALUES (1.25)
----
SET sql_mode = 'ANSI'; UPDATE {t} SET "order" = 'x' || 'y' WHERE id = 1; INSERT INTO "{t}_""q""" ("a""b") VALUES (1)

== REAL_AS_FLOAT : replayed
CREATE TABLE {t} (id INT PRIMARY KEY)
----
SET sql_mode = 'REAL_AS_FLOAT'; CREATE TABLE {t}_1 (id INT PRIMARY KEY, a REAL, b REAL(7,2)); INSERT INTO {t}_1 VALUES (1, 1.1, 2.2)
----
ALTER TABLE {t}_1 ADD c REAL DEFAULT 1.5; UPDATE {t}_1 SET c = 2.5

== NO_BACKSLASH_ESCAPES : replayed
----
SET sql_mode = 'NO_BACKSLASH_ESCAPES'; ALTER TABLE {t} ADD c VARCHAR(20) DEFAULT 'a\' COMMENT 'b\', ADD d VARCHAR(20) DEFAULT '\n''\'; SET sql_mode = ''; ALTER TABLE {t} ADD e VARCHAR(20) DEFAULT 'a\'b\\c\n\t\0\x\%' COMMENT "d\"e'f"
----
INSERT INTO {t} (id) VALUES (4); UPDATE {t} SET e = 'x' WHERE id = 1

== strings side by side, of other character sets and in hexadecimal : replayed
----
ALTER TABLE {t} ADD c VARCHAR(20) DEFAULT 'one' ' two' "  three", ADD d VARCHAR(20) DEFAULT _utf8mb4'ä', ADD e VARCHAR(20) CHARACTER SET latin1 DEFAULT _latin1'', ADD f VARBINARY(9) DEFAULT X'00ff', ADD g VARBINARY(9) DEFAULT 0x61, ADD h VARCHAR(9) DEFAULT n'national', ADD i BIT(6) DEFAULT B'101', ADD j VARCHAR(9) DEFAULT _utf16 0x00e4
----
INSERT INTO {t} (id) VALUES (4)

== a latin1 client : replayed
----
SET NAMES latin1; ALTER TABLE {t} ADD `Ã¤` VARCHAR(9) DEFAULT 'Ã¶', COMMENT 'Ã¼'; CREATE TABLE `{t}_Ã©` (a INT)
----
INSERT INTO {t} (id) VALUES (4)

== an sjis and a gbk client : replayed
----
SET NAMES sjis; ALTER TABLE {t} ADD c VARCHAR(9) DEFAULT 'abc', COMMENT 'plain'; SET NAMES gbk; ALTER TABLE {t} ADD d VARCHAR(9) DEFAULT 'def'
----
INSERT INTO {t} (id) VALUES (4)

== a binary client, character_set_connection of another kind : replayed
----
SET NAMES binary; ALTER TABLE {t} ADD c VARCHAR(9) DEFAULT 'abc'; SET NAMES utf8mb4; SET character_set_connection = latin1; ALTER TABLE {t} ADD d VARCHAR(9) DEFAULT 'ä', ADD e ENUM('ö', 'x') DEFAULT 'ö'
----
INSERT INTO {t} (id) VALUES (4)

== names that are words, numbers, beyond ASCII : replayed
CREATE TABLE {t} (id INT PRIMARY KEY)
----
CREATE TABLE {t}_1 (comment INT, status INT, date DATE, time TIME, year YEAR, text TEXT, enum ENUM('a'), value INT, action INT, bit INT, no INT, timestamp TIMESTAMP NULL, 1a INT, `2` INT, $x INT, _y INT, überzahl INT, 列 INT, offset INT, `default` INT, position INT, first INT, after INT, visible INT, `key` INT, data INT, type INT, user INT, role INT, event INT, `check` INT, partition_ INT, begin INT, end INT, KEY visible (visible), KEY comment (comment)); ALTER TABLE {t}_1 DROP comment, DROP 列, MODIFY value BIGINT AFTER first, RENAME COLUMN after TO before_, ADD last INT AFTER first, ADD column_ INT FIRST, ALTER visible SET DEFAULT 5, CHANGE `2` `3` INT
----
INSERT INTO {t}_1 (first, überzahl, `3`) VALUES (1, 2, 3); UPDATE {t}_1 SET 1a = 5

== names in other case : replayed
CREATE TABLE {t} (Id INT PRIMARY KEY, Ä INT, KEY K (Ä)); INSERT INTO {t} VALUES (1, 1)
----
ALTER TABLE {t} MODIFY ID BIGINT, RENAME COLUMN ä TO ö, DROP KEY k, ADD KEY kk (Ö); alter table {t} add C int default 3, add check (C > 0); aLtEr TaBlE {t} DrOp c
----
UPDATE {t} SET ö = 3

== the longest names : replayed
CREATE TABLE {t} (id INT PRIMARY KEY)
----
CREATE TABLE {t}_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa (éééééééééééééééééééééééééééééééééééééééééééééééééé INT, KEY éééééééééééééééééééééééééééééééééééééééééééééééééé (éééééééééééééééééééééééééééééééééééééééééééééééééé))
----
INSERT INTO {t}_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa VALUES (1)

== the default database and another one : replayed
CREATE DATABASE {t}_db; CREATE TABLE {t} (id INT PRIMARY KEY)
----
USE {t}_db; CREATE TABLE ddl.{t}_1 (a INT); CREATE TABLE x (a INT); ALTER TABLE ddl.{t}_1 ADD b INT; CREATE TABLE y LIKE ddl.{t}_1; RENAME TABLE x TO ddl.{t}_2; ALTER TABLE ddl.{t}_2 RENAME TO z; DROP TABLE y; CREATE TABLE ddl.{t}_3 LIKE z
----
USE ddl; DROP DATABASE {t}_db; INSERT INTO {t}_1 VALUES (1, 2); INSERT INTO {t}_3 VALUES (1)

== IF EXISTS clauses that a MySQL server does not have : refused
----
ALTER TABLE {t} DROP COLUMN IF EXISTS nothing

== CONVERT TO beside added and changed columns that name a character set : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1, b VARCHAR(5)) CHARSET=latin1; INSERT INTO {t} VALUES (1, 'ä', 'x'), (2, 'b', 'y')
----
ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb3, ADD COLUMN (c VARCHAR(27) CHARACTER SET latin1), ADD d TEXT CHARACTER SET latin1 FIRST, ADD e ENUM('p') COLLATE latin1_bin, ADD f VARCHAR(9) CHARACTER SET binary, MODIFY b VARCHAR(6) CHARACTER SET latin1
----
INSERT INTO {t} VALUES ('ö', 3, 'ü', 'z', 'é', 'p', x'ff'); UPDATE {t} SET c = 'q' WHERE id = 1
