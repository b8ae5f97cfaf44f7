-- Names that belong to another column, key or constraint after a statement than before it. The forms are written as in
-- alter_columns.sql. What is computed from another column is not known here; what follows its columns is.

== key of a column that is dropped and added : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, KEY k (a, b), UNIQUE KEY l (b)); INSERT INTO {t} VALUES (1, 1, 2), (2, 3, 4)
----
ALTER TABLE {t} DROP COLUMN a, ADD COLUMN a INT DEFAULT 7; ALTER TABLE {t} DROP COLUMN b, ADD COLUMN B INT
----
UPDATE {t} SET b = id; INSERT INTO {t} (id, a, b) VALUES (3, 4, 5)

== primary key of a column that is dropped and added : replayed
CREATE TABLE {t} (id INT AUTO_INCREMENT, b INT, PRIMARY KEY (id)); INSERT INTO {t} VALUES (7, 70), (3, 30), (5, 50)
----
ALTER TABLE {t} DROP COLUMN id, ADD COLUMN id INT AUTO_INCREMENT
----
UPDATE {t} SET b = 31 WHERE id = 1; DELETE FROM {t} WHERE id = 2; INSERT INTO {t} (b) VALUES (80)

== primary key of a column that is added with a default : replayed
CREATE TABLE {t} (a INT NOT NULL, b INT, PRIMARY KEY (a, b)); INSERT INTO {t} VALUES (7, 70), (8, 80)
----
ALTER TABLE {t} DROP COLUMN a, ADD COLUMN a INT DEFAULT 3
----
UPDATE {t} SET a = 4 WHERE b = 70; DELETE FROM {t} WHERE b = 80

== primary key that goes over to a column added before it : replayed
CREATE TABLE {t} (a INT NOT NULL, b INT, PRIMARY KEY (a)); INSERT INTO {t} VALUES (7, 70)
----
ALTER TABLE {t} RENAME COLUMN a TO c, ADD COLUMN a INT DEFAULT 3 FIRST
----
UPDATE {t} SET c = 4 WHERE a = 3; INSERT INTO {t} VALUES (4, 7, 1)

== key that stays with a renamed column : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, KEY k (a, b)); INSERT INTO {t} VALUES (1, 7, 70)
----
ALTER TABLE {t} RENAME COLUMN a TO c, ADD COLUMN a INT DEFAULT 3; ALTER TABLE {t} RENAME COLUMN c TO b, RENAME COLUMN b TO c

== key that goes over to a column added before it : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, UNIQUE KEY k (a, b)); INSERT INTO {t} VALUES (1, 7, 70)
----
ALTER TABLE {t} DROP COLUMN a, ADD COLUMN a INT, CHANGE b c INT AFTER id, ADD COLUMN b INT FIRST
----
UPDATE {t} SET b = 5, a = 6

== key of text that goes over to a longer column : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b INT, c VARBINARY(20), d TEXT, KEY (a), KEY (b), KEY (c), KEY (d(7))); INSERT INTO {t} VALUES (1, 'x', 2, 'y', 'z')
----
ALTER TABLE {t} DROP a, DROP b, DROP c, DROP d, ADD a VARCHAR(30) CHARACTER SET latin1, ADD b VARCHAR(30), ADD c TINYBLOB, ADD d VARCHAR(7)
----
UPDATE {t} SET a = 'a', b = 'b', c = 'c', d = 'd'

== key of a dropped column whose name another one takes : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, KEY a (a), KEY b (b)); INSERT INTO {t} VALUES (1, 7, 70)
----
ALTER TABLE {t} DROP COLUMN a, RENAME COLUMN b TO a

== FULLTEXT key of a column that is dropped and added : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a TEXT, FULLTEXT KEY (a)); INSERT INTO {t} VALUES (1, 'x')
----
ALTER TABLE {t} DROP COLUMN a, ADD COLUMN a TEXT

== keys that exchange their names : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, KEY x (a), KEY y (b), KEY z (a, b)); INSERT INTO {t} VALUES (1, 7, 70)
----
ALTER TABLE {t} RENAME INDEX x TO y, RENAME INDEX y TO x; ALTER TABLE {t} RENAME INDEX x TO y, RENAME INDEX y TO z, RENAME INDEX z TO x; ALTER TABLE {t} DROP INDEX x, RENAME INDEX y TO x, ADD INDEX y (b, a)
----
UPDATE {t} SET a = 8; ALTER TABLE {t} ALTER INDEX y INVISIBLE, RENAME INDEX x TO X

== index that is renamed and made invisible : refused
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, KEY x (a))
----
ALTER TABLE {t} RENAME INDEX x TO y, ALTER INDEX x INVISIBLE

== functional key over exchanged columns : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, KEY k ((a + 1)), UNIQUE KEY u ((b + 1))); INSERT INTO {t} VALUES (1, 7, 70)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a, DROP KEY k, ADD KEY k ((a + 1)), DROP KEY u, ADD UNIQUE KEY u ((b + 1))
----
INSERT INTO {t} VALUES (2, 8, 70)

== functional key over exchanged columns that stays : refused
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, KEY k ((a + 1)))
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a
