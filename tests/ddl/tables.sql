-- CREATE, DROP, RENAME and TRUNCATE of tables and databases, indexes.

== CREATE TABLE with every kind of column : replayed
CREATE TABLE {t} (id INT PRIMARY KEY)
----
CREATE TABLE {t}_k (a BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, b DECIMAL(30,10), c DOUBLE, d BIT(7), e YEAR, f DATETIME(6), g TIMESTAMP(3) NULL, h TIME(2), i CHAR(9), j VARBINARY(99), k MEDIUMTEXT, l TINYBLOB, m ENUM('a','b'), n SET('x','y'), o JSON, p POINT, q INT AS (YEAR(f) + 1) STORED, r INT AS (s + 2) VIRTUAL, s INT INVISIBLE DEFAULT 5, KEY (b), UNIQUE (c), FULLTEXT (k))
----
INSERT INTO {t}_k (b, k, o) VALUES (1.5, 'text', '{"a": 1}'), (NULL, NULL, NULL); UPDATE {t}_k SET b = 2 WHERE a = 1

== CREATE TABLE … LIKE : replayed
----
CREATE TABLE {t}_l LIKE {t}
----
INSERT INTO {t}_l SELECT * FROM {t}

== CREATE TABLE … LIKE, older columns, partitions : replayed
CREATE TABLE {t} (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (5), PARTITION b VALUES LESS THAN (9)); INSERT INTO {t} VALUES (1); ALTER TABLE {t} ADD c INT DEFAULT 3
----
CREATE TABLE {t}_l LIKE {t}
----
INSERT INTO {t}_l VALUES (1, 1), (7, 7); ALTER TABLE {t}_l DROP PARTITION a

== CREATE TABLE … SELECT : replayed
----
CREATE TABLE {t}_s (KEY (n)) SELECT id AS n, b, 1.5 AS d, NOW() AS w FROM {t}
----
INSERT INTO {t}_s (n, w) VALUES (9, NOW()); ALTER TABLE {t}_s ADD x INT DEFAULT 1; UPDATE {t}_s SET x = 2 WHERE n = 1

== CREATE TABLE IF NOT EXISTS : replayed
----
CREATE TABLE IF NOT EXISTS {t} (never INT); CREATE TABLE IF NOT EXISTS {t}_n (x INT)
----
INSERT INTO {t}_n VALUES (1), (1)

== CREATE TEMPORARY TABLE : replayed
----
CREATE TEMPORARY TABLE {t}_tmp (x INT); INSERT INTO {t}_tmp VALUES (77); INSERT INTO {t} (id) SELECT x FROM {t}_tmp; DROP TEMPORARY TABLE {t}_tmp
----
DELETE FROM {t} WHERE id = 1

== comments and hints : replayed
----
/* first */ ALTER /*!80000 TABLE */ {t} /*!99999 nonsense */ ADD /*+ none */ c INT -- last
 DEFAULT 3 # end

----
UPDATE {t} SET c = 4 WHERE id = 1

== ANSI_QUOTES : replayed
----
SET sql_mode = 'ANSI_QUOTES,STRICT_TRANS_TABLES'; ALTER TABLE "{t}" ADD "quoted ""name""" VARCHAR(9) DEFAULT 'x', RENAME COLUMN "a" TO "A b"
----
SET sql_mode = 'ANSI_QUOTES'; UPDATE {t} SET "A b" = 5 WHERE id = 1

== RENAME TABLE swap : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT); CREATE TABLE {t}_o (id INT PRIMARY KEY, b VARCHAR(5)); INSERT INTO {t} VALUES (1, 1); INSERT INTO {t}_o VALUES (2, 'x')
----
RENAME TABLE {t} TO {t}_tmp, {t}_o TO {t}, {t}_tmp TO {t}_o
----
INSERT INTO {t} VALUES (3, 'y'); INSERT INTO {t}_o VALUES (4, 4)

== RENAME TABLE after a column change : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT); INSERT INTO {t} VALUES (1, 1); ALTER TABLE {t} ADD c INT DEFAULT 9 FIRST
----
RENAME TABLE {t} TO {t}_r
----
UPDATE {t}_r SET a = 2; ALTER TABLE {t}_r DROP c; INSERT INTO {t}_r VALUES (2, 2)

== DROP TABLE, several : replayed
CREATE TABLE {t} (id INT); CREATE TABLE {t}_1 (id INT); CREATE TABLE {t}_2 (id INT); INSERT INTO {t}_1 VALUES (1)
----
DROP TABLE {t}_1, {t}_2; DROP TABLE IF EXISTS {t}_3, {t}_4
----
CREATE TABLE {t}_1 (x VARCHAR(3)); INSERT INTO {t}_1 VALUES ('new')

== TRUNCATE TABLE : replayed
----
TRUNCATE TABLE {t}
----
INSERT INTO {t} VALUES (1, 2, 'again')

== CREATE and DROP INDEX : replayed
----
CREATE UNIQUE INDEX u ON {t} (a) ALGORITHM = INPLACE LOCK = NONE; CREATE INDEX i ON {t} (b(3), (a + 1)) COMMENT 'x' INVISIBLE; DROP INDEX u ON {t}
----
INSERT INTO {t} VALUES (4, 1, 'dup'); DROP INDEX i ON {t}

== CREATE UNIQUE INDEX that identifies rows : replayed
CREATE TABLE {t} (a INT NOT NULL, b INT); INSERT INTO {t} VALUES (1, 1), (2, 2)
----
CREATE UNIQUE INDEX u ON {t} (a)
----
UPDATE {t} SET b = 3 WHERE a = 1; DROP INDEX u ON {t}; INSERT INTO {t} VALUES (1, 3); DELETE FROM {t} WHERE a = 1 LIMIT 1

== CREATE, ALTER and DROP DATABASE : replayed
CREATE TABLE {t} (id INT PRIMARY KEY)
----
CREATE DATABASE {t}_db CHARACTER SET latin1; ALTER DATABASE {t}_db COLLATE utf8mb4_bin; CREATE TABLE {t}_db.x (a VARCHAR(9)); INSERT INTO {t}_db.x VALUES ('é'); DROP DATABASE {t}_db
----
CREATE SCHEMA IF NOT EXISTS {t}_db DEFAULT CHARACTER SET utf8mb4; CREATE TABLE {t}_db.x (b INT); DROP SCHEMA IF EXISTS {t}_db

== ANALYZE, OPTIMIZE, CHECK, REPAIR, FLUSH : replayed
----
ANALYZE TABLE {t}; OPTIMIZE TABLE {t}; CHECK TABLE {t}; FLUSH TABLES {t}; ANALYZE TABLE {t} UPDATE HISTOGRAM ON a
----
INSERT INTO {t} (id) VALUES (50)

== CREATE, ALTER and DROP VIEW : recorded
----
CREATE VIEW {t}_v AS SELECT id FROM {t}; ALTER VIEW {t}_v AS SELECT a FROM {t}; CREATE OR REPLACE VIEW {t}_v AS SELECT 1 AS one; DROP VIEW {t}_v
----
CREATE TABLE {t}_v (x INT)

== routines : recorded
----
CREATE PROCEDURE {t}_p() SELECT 1; ALTER PROCEDURE {t}_p COMMENT 'x'; CREATE FUNCTION {t}_f() RETURNS INT DETERMINISTIC RETURN 1; DROP PROCEDURE {t}_p; DROP FUNCTION {t}_f

== triggers : recorded
----
CREATE TRIGGER {t}_t BEFORE INSERT ON {t} FOR EACH ROW SET NEW.a = 99; INSERT INTO {t} (id) VALUES (60); DROP TRIGGER {t}_t

== events : recorded
----
CREATE EVENT {t}_e ON SCHEDULE EVERY 1 YEAR DO SELECT 1; ALTER EVENT {t}_e DISABLE; DROP EVENT {t}_e

== users, roles, grants : recorded
----
CREATE USER {t}_u@localhost IDENTIFIED BY 'Secret-7'; CREATE ROLE {t}_r; GRANT SELECT ON ddl.* TO {t}_r; GRANT {t}_r TO {t}_u@localhost; SET DEFAULT ROLE ALL TO {t}_u@localhost; ALTER USER {t}_u@localhost PASSWORD EXPIRE; REVOKE {t}_r FROM {t}_u@localhost; DROP ROLE {t}_r; DROP USER {t}_u@localhost

== servers, tablespaces, spatial reference systems : recorded
----
CREATE SERVER {t}_s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'u', HOST 'h', PASSWORD 'Secret-8'); DROP SERVER {t}_s; CREATE SPATIAL REFERENCE SYSTEM 40000 NAME '{t}' DEFINITION 'GEOGCS["x",DATUM["y",SPHEROID["z",6378137,298.25]],PRIMEM["g",0],UNIT["degree",0.0174532925199433],AXIS["Lat",NORTH],AXIS["Lon",EAST]]'; DROP SPATIAL REFERENCE SYSTEM 40000
