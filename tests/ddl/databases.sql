-- Databases; RENAME TABLE, DROP TABLE and TRUNCATE in their longer forms.

== CREATE DATABASE with every option : replayed
CREATE TABLE {t} (id INT PRIMARY KEY)
----
CREATE DATABASE {t}_a DEFAULT CHARACTER SET = latin1 DEFAULT COLLATE = latin1_bin ENCRYPTION = 'N'; CREATE SCHEMA IF NOT EXISTS {t}_b CHARSET utf8mb3 DEFAULT ENCRYPTION 'n'; CREATE DATABASE IF NOT EXISTS {t}_a CHARSET ascii; CREATE TABLE {t}_a.x (a VARCHAR(9)); CREATE TABLE {t}_b.x (a VARCHAR(9)); INSERT INTO {t}_a.x VALUES ('ä'); INSERT INTO {t}_b.x VALUES ('ő')
----
RENAME TABLE {t}_a.x TO {t}_x, {t}_b.x TO {t}_y; DROP DATABASE {t}_a; DROP SCHEMA {t}_b

== ALTER DATABASE with every option : replayed
CREATE TABLE {t} (id INT PRIMARY KEY); CREATE DATABASE {t}_a
----
ALTER DATABASE {t}_a CHARACTER SET latin1; CREATE TABLE {t}_a.x (a VARCHAR(9)); ALTER SCHEMA {t}_a DEFAULT COLLATE = cp1251_bin; CREATE TABLE {t}_a.y (a VARCHAR(9)); ALTER DATABASE {t}_a ENCRYPTION 'N'; ALTER DATABASE {t}_a READ ONLY = 1; ALTER DATABASE {t}_a READ ONLY DEFAULT; USE {t}_a; ALTER DATABASE DEFAULT CHARSET latin2 COLLATE latin2_bin; ALTER SCHEMA COLLATE latin2_general_ci; CREATE TABLE z (a VARCHAR(9)); INSERT INTO x VALUES ('é'); INSERT INTO y VALUES ('ж'); INSERT INTO z VALUES ('ő')
----
RENAME TABLE {t}_a.x TO {t}_x, {t}_a.y TO {t}_y, {t}_a.z TO {t}_z; DROP DATABASE {t}_a

== DROP DATABASE with tables, views and foreign keys : replayed
CREATE TABLE {t} (id INT PRIMARY KEY); CREATE DATABASE {t}_a
----
CREATE TABLE {t}_a.p (id INT PRIMARY KEY); CREATE TABLE {t}_a.c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES p (id)); CREATE VIEW {t}_a.v AS SELECT * FROM {t}_a.p; CREATE PROCEDURE {t}_a.pr() SELECT 1; INSERT INTO {t}_a.p VALUES (1); INSERT INTO {t}_a.c VALUES (1); DROP DATABASE IF EXISTS {t}_a; DROP DATABASE IF EXISTS {t}_a
----
CREATE DATABASE {t}_a; CREATE TABLE {t}_a.p (x VARCHAR(3)); INSERT INTO {t}_a.p VALUES ('new'); RENAME TABLE {t}_a.p TO {t}_p; DROP DATABASE {t}_a

== names of databases and tables in odd quoting : replayed
CREATE TABLE {t} (id INT PRIMARY KEY)
----
CREATE DATABASE `{t} a.b``c"d-é€`; CREATE TABLE `{t} a.b``c"d-é€`.`select 'x' -- /* {t}` (`a b` INT PRIMARY KEY, `ä;ö` VARCHAR(9), KEY `k``k` (`ä;ö`)); INSERT INTO `{t} a.b``c"d-é€`.`select 'x' -- /* {t}` VALUES (1, 'x'); ALTER TABLE `{t} a.b``c"d-é€`.`select 'x' -- /* {t}` ADD `#` INT DEFAULT 3, DROP KEY `k``k`; RENAME TABLE `{t} a.b``c"d-é€`.`select 'x' -- /* {t}` TO {t}_x; DROP DATABASE `{t} a.b``c"d-é€`
----
UPDATE {t}_x SET `#` = 4

== RENAME TABLES, several, a ring : replayed
CREATE TABLE {t} (a INT); CREATE TABLE {t}_b (b INT); CREATE TABLE {t}_c (c INT); INSERT INTO {t} VALUES (1); INSERT INTO {t}_b VALUES (2); INSERT INTO {t}_c VALUES (3)
----
RENAME TABLES {t} TO {t}_x, {t}_b TO {t}, {t}_c TO {t}_b, {t}_x TO {t}_c
----
INSERT INTO {t} (b) VALUES (20); INSERT INTO {t}_b (c) VALUES (30); INSERT INTO {t}_c (a) VALUES (10)

== RENAME TABLE across databases and back with another : replayed
CREATE TABLE {t} (a INT PRIMARY KEY); INSERT INTO {t} VALUES (1); CREATE DATABASE {t}_db; CREATE TABLE {t}_db.{t} (b VARCHAR(5)); INSERT INTO {t}_db.{t} VALUES ('x')
----
RENAME TABLE ddl.{t} TO {t}_db.tmp, {t}_db.{t} TO ddl.{t}, {t}_db.tmp TO {t}_db.{t}; INSERT INTO {t}_db.{t} VALUES (2); INSERT INTO {t} VALUES ('y')
----
RENAME TABLE {t}_db.{t} TO {t}_2; DROP DATABASE {t}_db; INSERT INTO {t}_2 VALUES (3)

== RENAME TABLE with foreign keys on both sides : replayed
CREATE TABLE {t} (id INT PRIMARY KEY); CREATE TABLE {t}_c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {t} (id) ON DELETE CASCADE); INSERT INTO {t} VALUES (1), (2); INSERT INTO {t}_c VALUES (1, 1), (2, 2)
----
RENAME TABLE {t} TO {t}_p, {t}_c TO {t}_d
----
DELETE FROM {t}_p WHERE id = 1; ALTER TABLE {t}_d DROP FOREIGN KEY {t}_d_ibfk_1; DELETE FROM {t}_p

== RENAME TABLE of a view and a table with a trigger : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT); CREATE VIEW {t}_v AS SELECT id FROM {t}; CREATE TRIGGER {t}_tr BEFORE INSERT ON {t} FOR EACH ROW SET NEW.a = NEW.id
----
RENAME TABLE {t}_v TO {t}_w, {t} TO {t}_n; DROP VIEW {t}_w
----
INSERT INTO {t}_n (id) VALUES (3)

== DROP TABLE in its spellings : replayed
CREATE TABLE {t} (id INT); CREATE TABLE {t}_1 (id INT); CREATE TABLE {t}_2 (id INT); CREATE TABLE {t}_3 (id INT); INSERT INTO {t}_1 VALUES (1)
----
DROP TABLES {t}_1 RESTRICT; DROP TABLE IF EXISTS {t}_1, ddl.{t}_2 CASCADE; DROP TABLE `{t}_3` /* comment */
----
CREATE TABLE {t}_1 (x VARCHAR(3)); INSERT INTO {t}_1 VALUES ('new')

== DROP TABLE of parent and child together : replayed
CREATE TABLE {t} (id INT); CREATE TABLE {t}_p (id INT PRIMARY KEY); CREATE TABLE {t}_c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES {t}_p (id))
----
DROP TABLE {t}_p, {t}_c
----
CREATE TABLE {t}_p (x INT); INSERT INTO {t}_p VALUES (1)

== DROP TABLE without its parent's checks : replayed
CREATE TABLE {t} (id INT PRIMARY KEY); CREATE TABLE {t}_c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {t} (id) ON DELETE CASCADE); INSERT INTO {t} VALUES (1); INSERT INTO {t}_c VALUES (1, 1)
----
SET foreign_key_checks = 0; DROP TABLE {t}; CREATE TABLE {t} (id INT PRIMARY KEY); SET foreign_key_checks = 1; INSERT INTO {t} VALUES (1), (2)
----
INSERT INTO {t}_c VALUES (2, 2); DELETE FROM {t} WHERE id = 1

== CREATE of a child before its parent : replayed
CREATE TABLE {t} (id INT)
----
SET foreign_key_checks = 0; CREATE TABLE {t}_c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {t}_p (id) ON UPDATE CASCADE); INSERT INTO {t}_c VALUES (1, 1); CREATE TABLE {t}_p (id INT PRIMARY KEY); INSERT INTO {t}_p VALUES (1)
----
UPDATE {t}_p SET id = 2

== TRUNCATE in its spellings : replayed
CREATE TABLE {t} (id INT AUTO_INCREMENT PRIMARY KEY, a INT) PARTITION BY HASH (id) PARTITIONS 2; INSERT INTO {t} (a) VALUES (1), (2)
----
TRUNCATE {t}; INSERT INTO {t} (a) VALUES (3); TRUNCATE TABLE ddl.{t}
----
INSERT INTO {t} (a) VALUES (4)

== TRUNCATE of a table without a key and of a MEMORY table : replayed
CREATE TABLE {t} (a INT); INSERT INTO {t} VALUES (1), (1); CREATE TABLE {t}_m (a INT) ENGINE = MEMORY; INSERT INTO {t}_m VALUES (1)
----
TRUNCATE TABLE {t}; TRUNCATE TABLE {t}_m
----
INSERT INTO {t} VALUES (2), (2); INSERT INTO {t}_m VALUES (2)
