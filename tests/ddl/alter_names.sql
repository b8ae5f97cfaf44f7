-- Names that belong to another column, key or constraint after a statement than before it. The forms are written as in
-- alter_columns.sql. What is computed from another column is not known here; what follows its columns is.

== generated column over a column that is dropped and added : not known, the values of the generated column `g`
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 10) STORED); INSERT INTO {t} (id, a, b) VALUES (1, 1, 2), (2, 3, 4)
----
ALTER TABLE {t} DROP COLUMN a, ADD COLUMN a INT DEFAULT 0, MODIFY g INT AS (a + 10) STORED

== virtual column over two columns that exchange their names : not known, the values of the generated column `g`
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 10) VIRTUAL, KEY (g)); INSERT INTO {t} (id, a, b) VALUES (1, 1, 2), (2, 3, 4)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY g INT AS (a + 10) VIRTUAL

== generated column over a name that another column takes, without a key : not known, the values of the generated column `g`
CREATE TABLE {t} (a INT, b INT, g INT AS (a + 10) STORED); INSERT INTO {t} (a, b) VALUES (1, 2), (3, 4)
----
ALTER TABLE {t} DROP COLUMN a, RENAME COLUMN b TO a, MODIFY g INT AS (a + 10) STORED

== generated column over one over exchanged columns : not known, the values of the generated column `g`
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 10) STORED, h INT AS (g * 2) STORED); INSERT INTO {t} (id, a, b) VALUES (1, 1, 5)
----
ALTER TABLE {t} CHANGE a b INT, CHANGE b a INT, MODIFY g INT AS (a + 10) STORED

== stored column over a virtual one over exchanged columns, without a key : not known, the generated column `h` over columns
CREATE TABLE {t} (a INT, b INT, g INT AS (a + 10) VIRTUAL, h INT AS (g * 2) STORED); INSERT INTO {t} (a, b) VALUES (1, 5)
----
ALTER TABLE {t} CHANGE a b INT, CHANGE b a INT, MODIFY g INT AS (a + 10) VIRTUAL, MODIFY h INT AS (g * 2) STORED

== stored column over a virtual one of another expression, without a key : not known, the generated column `h` over columns
CREATE TABLE {t} (a INT, b INT, g INT AS (a + 10) VIRTUAL, h INT AS (g * 2) STORED); INSERT INTO {t} (a, b) VALUES (1, 5)
----
ALTER TABLE {t} MODIFY g INT AS (b + 10) VIRTUAL

== generated column over the default of a column that is dropped and added : not known, the values of the generated column `g`
CREATE TABLE {t} (id INT PRIMARY KEY, a INT DEFAULT 1, g INT AS (DEFAULT(a) + 10) STORED); INSERT INTO {t} (id) VALUES (1)
----
ALTER TABLE {t} DROP COLUMN a, ADD COLUMN a INT DEFAULT 5, MODIFY g INT AS (DEFAULT(a) + 10) STORED

== primary key of a generated column over exchanged columns : not known, the values of the generated column `g`
CREATE TABLE {t} (a INT, b INT, g INT AS (a + 10) STORED NOT NULL, PRIMARY KEY (g)); INSERT INTO {t} (a, b) VALUES (1, 2), (3, 4)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY g INT AS (a + 10) STORED NOT NULL

== partitions by a generated column over exchanged columns : not known, the values of the generated column `g`
CREATE TABLE {t} (id INT, a INT, b INT, g INT AS (a MOD 2) STORED, KEY (id)) PARTITION BY LIST (g) (PARTITION p0 VALUES IN (0), PARTITION p1 VALUES IN (1)); INSERT INTO {t} (id, a, b) VALUES (1, 1, 2), (2, 4, 3)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY g INT AS (a MOD 2) STORED

== MyISAM, generated column over exchanged columns : not known, the values of the generated column `g`
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 10) STORED) ENGINE=MyISAM; INSERT INTO {t} (id, a, b) VALUES (1, 1, 2)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY g INT AS (a + 10) STORED

== generated column of another expression over a date, outside strict mode : not known, the values of the generated column `g`
SET sql_mode = 'ALLOW_INVALID_DATES'; CREATE TABLE {t} (id INT PRIMARY KEY, d DATE, g INT AS (YEAR(d)) STORED); INSERT INTO {t} (id, d) VALUES (1, '2024-03-01'), (2, '2024-02-28')
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY g INT AS (MONTH(d)) STORED

== generated columns and the columns they follow : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 10) STORED, h INT AS (g * 2) VIRTUAL, KEY (g)); INSERT INTO {t} (id, a, b) VALUES (1, 1, 2), (2, 3, 4)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY g INT AS (b + 10) STORED, MODIFY h INT AS (g * 2) VIRTUAL; ALTER TABLE {t} RENAME COLUMN b TO c, MODIFY h INT AS (`G` * 2) VIRTUAL, CHANGE g g INT AS (((`C`) + 10)) STORED; ALTER TABLE {t} CHANGE g h INT AS (c + 10) STORED, CHANGE h g INT AS (h * 2) VIRTUAL
----
UPDATE {t} SET c = 7 WHERE id = 1; INSERT INTO {t} (id, c, a) VALUES (3, 5, 6)

== generated columns that exchange their names : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 1) STORED, h INT AS (b * 2) STORED, KEY (h)); INSERT INTO {t} (id, a, b) VALUES (1, 2, 3)
----
ALTER TABLE {t} RENAME COLUMN g TO h, RENAME COLUMN h TO g; ALTER TABLE {t} CHANGE h g INT AS (a + 1) STORED, CHANGE g h INT AS (b * 2) STORED FIRST
----
INSERT INTO {t} (id, a, b) VALUES (2, 5, 6)

== generated column beside columns whose names it has a part of : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, ab INT, a_b INT, g INT AS (ab + a_b) STORED); INSERT INTO {t} (id, a, b, ab, a_b) VALUES (1, 1, 2, 3, 4)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a, MODIFY g INT AS (ab + a_b) STORED
----
UPDATE {t} SET ab = 9

== unit of an interval that is a column's name too : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, `day` INT, `week` INT, g DATE AS ('2020-01-01' + INTERVAL `day` DAY) STORED); INSERT INTO {t} (id, `day`, `week`) VALUES (1, 2, 3)
----
ALTER TABLE {t} RENAME COLUMN `day` TO `week`, RENAME COLUMN `week` TO `day`, MODIFY g DATE AS ('2020-01-01' + INTERVAL `week` DAY) STORED

== the same unit under another column's name : not known, the values of the generated column `g`
CREATE TABLE {t} (id INT PRIMARY KEY, `day` INT, `week` INT, g DATE AS ('2020-01-01' + INTERVAL `day` DAY) STORED); INSERT INTO {t} (id, `day`, `week`) VALUES (1, 2, 3)
----
ALTER TABLE {t} RENAME COLUMN `day` TO `week`, RENAME COLUMN `week` TO `day`, MODIFY g DATE AS ('2020-01-01' + INTERVAL `day` WEEK) STORED

== rename of a generated column's column alone : refused
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 10) STORED)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a

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

== key of a generated column that is dropped and added : not known, the values of the added generated column `g`
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, g INT AS (a + 1) STORED, KEY (g)); INSERT INTO {t} (id, a, b) VALUES (1, 2, 3)
----
ALTER TABLE {t} DROP COLUMN g, ADD COLUMN g INT AS (b + 1) STORED

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

== CHECK over exchanged columns, and checks that exchange their names : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, CONSTRAINT {t}_c CHECK (a > 0), CONSTRAINT {t}_d CHECK (b > 1)); INSERT INTO {t} VALUES (1, 7, 70)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a, DROP CHECK {t}_c, DROP CHECK {t}_d, ADD CONSTRAINT {t}_d CHECK (a > 0), ADD CONSTRAINT {t}_c CHECK (b > 1)
----
INSERT INTO {t} VALUES (2, 8, 70)

== CHECK of a column that is dropped and added : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, CONSTRAINT {t}_c CHECK (a > 0)); INSERT INTO {t} VALUES (1, 7, 70)
----
ALTER TABLE {t} DROP COLUMN a, ADD COLUMN a INT CHECK (a > 3)
----
INSERT INTO {t} VALUES (2, 8, 70); ALTER TABLE {t} DROP COLUMN a, ADD COLUMN a INT

== CHECK over exchanged columns that stays : refused
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, CHECK (a > 0))
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a

== DEFAULT over exchanged columns : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, c INT, b INT DEFAULT (a + 1), d INT DEFAULT (c + 1)); INSERT INTO {t} (id, a, c) VALUES (1, 3, 2)
----
ALTER TABLE {t} RENAME COLUMN a TO c, RENAME COLUMN c TO a, MODIFY b INT DEFAULT (a + 1), ALTER d SET DEFAULT (c + 1)
----
INSERT INTO {t} (id, a, c) VALUES (2, 5, 8)

== DEFAULT over exchanged columns that stays : refused
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, c INT, b INT DEFAULT (a + 1))
----
ALTER TABLE {t} RENAME COLUMN a TO c, RENAME COLUMN c TO a

== foreign keys of columns that exchange their names, there and here : replayed
CREATE TABLE {t}p (id INT PRIMARY KEY, x INT, y INT, UNIQUE KEY (x, y)); CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, UNIQUE KEY (a), FOREIGN KEY (a, b) REFERENCES {t}p (x, y), FOREIGN KEY (b) REFERENCES {t} (a)); INSERT INTO {t}p VALUES (1, 2, 2); INSERT INTO {t} VALUES (1, 2, 2)
----
ALTER TABLE {t}p CHANGE x y INT, CHANGE y x INT; ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a
----
INSERT INTO {t}p VALUES (2, 3, 2); INSERT INTO {t} VALUES (2, 3, 2)

== partitions by columns that exchange their names : replayed
CREATE TABLE {t} (id INT, a INT, b INT) PARTITION BY HASH (a) PARTITIONS 3; INSERT INTO {t} VALUES (1, 1, 2), (2, 3, 4)
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (3), PARTITION q VALUES LESS THAN MAXVALUE); ALTER TABLE {t} TRUNCATE PARTITION p

== partitions by columns that exchange their names and stay : refused
CREATE TABLE {t} (id INT, a INT, b INT) PARTITION BY HASH (a) PARTITIONS 3
----
ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a

== partitions by KEY () of a primary key that is dropped and added : replayed
CREATE TABLE {t} (id INT, a INT NOT NULL, b INT, PRIMARY KEY (id, b)) PARTITION BY KEY () PARTITIONS 3; INSERT INTO {t} VALUES (1, 1, 2), (2, 3, 4)
----
ALTER TABLE {t} DROP COLUMN id, ADD COLUMN id INT NOT NULL DEFAULT 6; ALTER TABLE {t} TRUNCATE PARTITION p1
----
INSERT INTO {t} VALUES (5, 6, 7)

== partitions that exchange their names : replayed
CREATE TABLE {t} (id INT, a INT) PARTITION BY LIST (a) (PARTITION p VALUES IN (1), PARTITION q VALUES IN (2)); INSERT INTO {t} VALUES (1, 1), (2, 2)
----
ALTER TABLE {t} REORGANIZE PARTITION p, q INTO (PARTITION q VALUES IN (1), PARTITION p VALUES IN (2)); ALTER TABLE {t} TRUNCATE PARTITION p

== tables that exchange their names, with keys, checks and rows : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, CHECK (a > 0)); CREATE TABLE {t}u (id INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES {t} (id), CHECK (b > 1)); INSERT INTO {t} VALUES (2, 2); INSERT INTO {t}u VALUES (3, 2)
----
RENAME TABLE {t} TO {t}x, {t}u TO {t}, {t}x TO {t}u
----
INSERT INTO {t}u VALUES (4, 4); INSERT INTO {t} VALUES (5, 4)

== views that exchange their names : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT); CREATE VIEW {t}v AS SELECT id FROM {t}; CREATE VIEW {t}w AS SELECT a FROM {t}
----
RENAME TABLE {t}v TO {t}x, {t}w TO {t}v, {t}x TO {t}w; DROP VIEW {t}w; CREATE TABLE {t}w (id INT PRIMARY KEY)
----
INSERT INTO {t}w VALUES (1)
