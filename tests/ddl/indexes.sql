-- CREATE INDEX and DROP INDEX.

== CREATE INDEX USING in both places : replayed
----
CREATE INDEX i USING BTREE ON {t} (a); CREATE INDEX j ON {t} (b) USING BTREE; CREATE INDEX k TYPE BTREE ON {t} (a, b)
----
UPDATE {t} SET a = 5 WHERE id = 1

== CREATE INDEX of prefixes, ASC and DESC : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(300), b TEXT, c BLOB, d VARBINARY(100)); INSERT INTO {t} VALUES (1, 'ä', 'text', 'blob', 'bytes')
----
CREATE INDEX i ON {t} (a(10) ASC, b(5) DESC, c(3), d(7)); CREATE UNIQUE INDEX u ON {t} (a(20) DESC)
----
UPDATE {t} SET a = 'new', b = NULL WHERE id = 1; INSERT INTO {t} VALUES (2, 'other', 'x', 'y', 'z')

== CREATE INDEX with every option : replayed
----
CREATE INDEX i ON {t} (a) KEY_BLOCK_SIZE = 8 USING BTREE COMMENT 'comment ; -- here' INVISIBLE ALGORITHM = COPY LOCK = SHARED
----
INSERT INTO {t} VALUES (4, 4, 'four')

== CREATE FULLTEXT INDEX, with a parser : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a TEXT, b VARCHAR(100)); INSERT INTO {t} VALUES (1, 'some words', 'more words')
----
CREATE FULLTEXT INDEX f ON {t} (a, b) WITH PARSER ngram; DROP INDEX f ON {t}; CREATE FULLTEXT INDEX g ON {t} (a)
----
INSERT INTO {t} VALUES (2, 'x', 'y'); UPDATE {t} SET b = 'z' WHERE id = 1

== CREATE SPATIAL INDEX : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, g POINT NOT NULL SRID 4326); INSERT INTO {t} VALUES (1, ST_SRID(POINT(1, 2), 4326))
----
CREATE SPATIAL INDEX s ON {t} (g) COMMENT 'x'
----
INSERT INTO {t} VALUES (2, ST_SRID(POINT(3, 4), 4326))

== CREATE INDEX of expressions, unique too : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), j JSON); INSERT INTO {t} VALUES (1, 'One', '{"k": "v"}'), (2, NULL, NULL)
----
CREATE INDEX i ON {t} ((LOWER(a))); CREATE UNIQUE INDEX u ON {t} ((CONCAT(a, ')', "(", `id`)), id DESC); CREATE INDEX j ON {t} ((CAST(j->>'$.k' AS CHAR(10)) COLLATE utf8mb4_bin))
----
UPDATE {t} SET a = 'Two' WHERE id = 1; INSERT INTO {t} VALUES (3, 'x', '{"k": 5}'); DROP INDEX i ON {t}; DELETE FROM {t} WHERE id = 2

== CREATE INDEX of an array in a document : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, j JSON); INSERT INTO {t} VALUES (1, '[1, 2, 3]')
----
CREATE INDEX m ON {t} ((CAST(j AS SIGNED ARRAY)))
----
UPDATE {t} SET j = '[4]' WHERE id = 1; UPDATE {t} SET j = JSON_ARRAY_APPEND(j, '$', 5) WHERE id = 1; INSERT INTO {t} VALUES (2, '[]')

== CREATE INDEX of a generated column : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, v INT AS (a * 2) VIRTUAL, s INT AS (a * 3) STORED); INSERT INTO {t} (id, a) VALUES (1, 1)
----
CREATE INDEX i ON {t} (v); CREATE UNIQUE INDEX u ON {t} (s)
----
UPDATE {t} SET a = 5; INSERT INTO {t} (id, a) VALUES (2, 2)

== CREATE INDEX HASH of a MEMORY table : replayed
CREATE TABLE {t} (id INT, a INT) ENGINE = MEMORY; INSERT INTO {t} VALUES (1, 1), (2, 2)
----
CREATE INDEX h USING HASH ON {t} (a)
----
UPDATE {t} SET a = 3 WHERE id = 1; DELETE FROM {t} WHERE id = 2

== DROP INDEX of the primary key : replayed
----
DROP INDEX `PRIMARY` ON {t}
----
INSERT INTO {t} VALUES (1, 1, 'one'); DELETE FROM {t} WHERE id = 2

== DROP INDEX ALGORITHM LOCK : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, KEY k (a), KEY l (a, id)); INSERT INTO {t} VALUES (1, 1)
----
DROP INDEX k ON {t} ALGORITHM INPLACE LOCK NONE; DROP INDEX l ON ddl.{t} LOCK = DEFAULT ALGORITHM = DEFAULT
----
INSERT INTO {t} VALUES (2, 1)

== CREATE INDEX of a table in another database : replayed
CREATE TABLE {t} (id INT PRIMARY KEY); CREATE DATABASE {t}_db; CREATE TABLE {t}_db.x (a INT NOT NULL)
----
CREATE UNIQUE INDEX u ON {t}_db.x (a); INSERT INTO {t}_db.x VALUES (1), (2); DROP INDEX u ON {t}_db.x; DELETE FROM {t}_db.x WHERE a = 1
----
DROP DATABASE {t}_db
