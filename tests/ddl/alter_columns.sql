-- Forms of ALTER TABLE that change columns. A form: its name and what becomes of it, then what stands before the
-- statement, the statement, and what stands behind it, divided by lines of four dashes. {t} is the form's own table; it
-- is made with the columns id, a, b and three rows unless the first part makes it.

== ADD COLUMN : replayed
----
ALTER TABLE {t} ADD COLUMN c INT
----
INSERT INTO {t} VALUES (10, 1, 'x', 3); UPDATE {t} SET c = 7 WHERE id = 1; UPDATE {t} SET b = 'kept' WHERE id = 2; DELETE FROM {t} WHERE id = 3

== ADD COLUMN … DEFAULT constant : replayed
----
ALTER TABLE {t} ADD c VARCHAR(20) NOT NULL DEFAULT 'dflt', ADD d DECIMAL(9,2) DEFAULT -1.5, ADD e DATETIME(3) DEFAULT '2020-01-02 03:04:05.678'
----
UPDATE {t} SET d = d + 1 WHERE id < 3; INSERT INTO {t} (id) VALUES (11); DELETE FROM {t} WHERE id = 3

== ADD COLUMN FIRST : replayed
----
ALTER TABLE {t} ADD COLUMN c BIGINT UNSIGNED DEFAULT 18446744073709551615 FIRST
----
UPDATE {t} SET a = a + 1; INSERT INTO {t} VALUES (1, 12, 2, 'y')

== ADD COLUMN AFTER : replayed
----
ALTER TABLE {t} ADD COLUMN c BIT(9) DEFAULT b'101' AFTER a
----
UPDATE {t} SET c = 3 WHERE id = 2; INSERT INTO {t} VALUES (13, 2, 1, 'y')

== ADD COLUMN (several) : replayed
----
ALTER TABLE {t} ADD COLUMN (c TINYINT DEFAULT 5, d SET('x','y') DEFAULT 'x,y', e ENUM('p','q') NOT NULL, KEY (c))
----
UPDATE {t} SET d = 'y' WHERE id = 1; INSERT INTO {t} (id, e) VALUES (14, 'q')

== ADD COLUMN NOT NULL without DEFAULT : replayed
----
ALTER TABLE {t} ADD c INT NOT NULL, ADD d VARCHAR(5) NOT NULL, ADD e DOUBLE NOT NULL, ADD f TIME NOT NULL, ADD g BINARY(4) NOT NULL
----
UPDATE {t} SET e = e + 1 WHERE id = 1

== ADD COLUMN of every kind with NULL : replayed
----
ALTER TABLE {t} ADD c JSON, ADD d TEXT, ADD e GEOMETRY, ADD f BLOB, ADD g YEAR, ADD h TIMESTAMP NULL, ADD i FLOAT
----
UPDATE {t} SET c = '{"k": [1, 2]}', d = 'text', e = POINT(1, 2) WHERE id = 1

== ADD COLUMN INVISIBLE : replayed
----
ALTER TABLE {t} ADD c INT DEFAULT 4 INVISIBLE
----
INSERT INTO {t} VALUES (15, 1, 'z')

== ADD COLUMN … TIMESTAMP DEFAULT CURRENT_TIMESTAMP : replayed
----
ALTER TABLE {t} ADD c TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, ADD d TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6)
----
UPDATE {t} SET a = a + 1 WHERE id = 1

== ADD COLUMN … DATETIME DEFAULT CURRENT_TIMESTAMP : replayed
SET time_zone = '+05:30'
----
SET time_zone = '+05:30'; ALTER TABLE {t} ADD c DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
----
UPDATE {t} SET a = a + 1 WHERE id = 1

== ADD COLUMN … UNIQUE : replayed
----
ALTER TABLE {t} ADD c INT UNIQUE
----
UPDATE {t} SET c = id; INSERT INTO {t} VALUES (16, 1, 'z', 99)

== ADD COLUMN … DEFAULT (expression) : not known
----
ALTER TABLE {t} ADD c INT DEFAULT (a + 1)

== ADD COLUMN … DEFAULT (expression), no rows : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT)
----
ALTER TABLE {t} ADD c INT DEFAULT (1 + 1)
----
INSERT INTO {t} (id) VALUES (1)

== ADD COLUMN … AUTO_INCREMENT : replayed
----
ALTER TABLE {t} ADD c INT AUTO_INCREMENT UNIQUE
----
INSERT INTO {t} (id) VALUES (9); UPDATE {t} SET a = 5 WHERE c = 2

== ADD COLUMN … GENERATED STORED : not known
----
ALTER TABLE {t} ADD c INT AS (a + 1) STORED

== ADD COLUMN … GENERATED VIRTUAL : not known
----
ALTER TABLE {t} ADD c INT AS (a + 1) VIRTUAL

== ADD COLUMN, table without a key : replayed
CREATE TABLE {t} (a INT, b VARCHAR(5)); INSERT INTO {t} VALUES (1, 'x'), (1, 'x'), (2, NULL)
----
ALTER TABLE {t} ADD c INT DEFAULT 5
----
DELETE FROM {t} WHERE a = 1 LIMIT 1; UPDATE {t} SET c = 6 WHERE a = 2

== DROP COLUMN : replayed
----
ALTER TABLE {t} DROP COLUMN a
----
UPDATE {t} SET b = 'dropped' WHERE id = 1; INSERT INTO {t} VALUES (17, 'n'); DELETE FROM {t} WHERE id = 2

== DROP COLUMN of a key : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, c INT, KEY k (a, b), KEY l (b)); INSERT INTO {t} VALUES (1, 1, 1, 1), (2, 2, 2, 2)
----
ALTER TABLE {t} DROP b
----
UPDATE {t} SET c = 9 WHERE id = 1

== DROP COLUMN, table without a key : replayed
CREATE TABLE {t} (a INT, b INT); INSERT INTO {t} VALUES (1, 1), (1, 2), (3, 3)
----
ALTER TABLE {t} DROP b
----
DELETE FROM {t} WHERE a = 1 LIMIT 1

== RENAME COLUMN : replayed
----
ALTER TABLE {t} RENAME COLUMN a TO c, RENAME COLUMN b TO a
----
UPDATE {t} SET c = 9, a = 'renamed' WHERE id = 1

== RENAME COLUMN that a foreign key refers to : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT); CREATE TABLE {t}_child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {t} (id)); INSERT INTO {t} VALUES (1, 1); INSERT INTO {t}_child VALUES (1, 1)
----
ALTER TABLE {t} RENAME COLUMN id TO ident
----
INSERT INTO {t} VALUES (2, 2); INSERT INTO {t}_child VALUES (2, 2); UPDATE {t} SET a = 5

== MODIFY COLUMN, wider integer : replayed
----
ALTER TABLE {t} MODIFY a BIGINT
----
UPDATE {t} SET a = 5000000000 WHERE id = 1; UPDATE {t} SET b = 'w' WHERE id = 2; DELETE FROM {t} WHERE id = 3

== MODIFY COLUMN, narrower integer : replayed
----
ALTER TABLE {t} MODIFY a TINYINT
----
UPDATE {t} SET a = 5 WHERE id = 1

== MODIFY COLUMN, narrower integer, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT); INSERT INTO {t} VALUES (1, 300, -300), (2, -300, 5), (3, NULL, NULL)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a TINYINT NOT NULL, MODIFY b TINYINT UNSIGNED
----
UPDATE {t} SET a = 5 WHERE id = 1

== MODIFY COLUMN, unsigned : replayed
----
ALTER TABLE {t} MODIFY a INT UNSIGNED
----
UPDATE {t} SET a = 4000000000 WHERE id = 1

== MODIFY COLUMN, integer to DECIMAL and back : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b DECIMAL(10,3)); INSERT INTO {t} VALUES (1, -7, 1.500), (2, 100, -2.499), (3, NULL, 2.5)
----
ALTER TABLE {t} MODIFY a DECIMAL(12,2), MODIFY b INT
----
UPDATE {t} SET a = a + 0.25, b = b + 1 WHERE id < 3

== MODIFY COLUMN, DECIMAL of another scale : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DECIMAL(10,3), b DECIMAL(5,1)); INSERT INTO {t} VALUES (1, 1.005, 1.5), (2, -1.995, -9.9)
----
ALTER TABLE {t} MODIFY a DECIMAL(8,2), MODIFY b DECIMAL(9,4)
----
UPDATE {t} SET a = a + 1 WHERE id = 1

== MODIFY COLUMN, integer to text : replayed
----
ALTER TABLE {t} MODIFY a VARCHAR(30)
----
UPDATE {t} SET a = CONCAT(a, 'x') WHERE id = 1

== MODIFY COLUMN, text to integer : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b CHAR(10)); INSERT INTO {t} VALUES (1, '42', '-1'), (2, '0007', '12'), (3, NULL, '5')
----
ALTER TABLE {t} MODIFY a INT, MODIFY b DECIMAL(6,2)
----
UPDATE {t} SET a = a + 1 WHERE id = 1

== MODIFY COLUMN, longer and shorter text : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(300), c TEXT); INSERT INTO {t} VALUES (1, 'abc', 'defg', REPEAT('x', 100)), (2, 'ä€', '', NULL)
----
ALTER TABLE {t} MODIFY a VARCHAR(400), MODIFY b VARCHAR(10), MODIFY c VARCHAR(120)
----
UPDATE {t} SET a = REPEAT('ö', 300) WHERE id = 1; UPDATE {t} SET b = 'new' WHERE id = 2

== MODIFY COLUMN, CHAR and VARCHAR : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a CHAR(10), b VARCHAR(10), c BINARY(4), d VARBINARY(4)); INSERT INTO {t} VALUES (1, 'a ', 'b ', 'c', 'd'), (2, '', ' ', '', '')
----
ALTER TABLE {t} MODIFY a VARCHAR(10), MODIFY b CHAR(10), MODIFY c VARBINARY(4), MODIFY d BINARY(6)
----
UPDATE {t} SET a = 'q ', b = 'r ' WHERE id = 1

== MODIFY COLUMN, text cut where not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20)); INSERT INTO {t} VALUES (1, 'abcdefghij'), (2, 'äöü€ß')
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a VARCHAR(3)
----
UPDATE {t} SET a = 'x' WHERE id = 1

== MODIFY COLUMN, character set : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1, b VARCHAR(20), c TEXT, d CHAR(5) CHARACTER SET utf16); INSERT INTO {t} VALUES (1, 'é', 'ü', 'ß', 'ab'), (2, '€', '', NULL, ' ')
----
ALTER TABLE {t} MODIFY a VARCHAR(20) CHARACTER SET utf8mb4, MODIFY b VARCHAR(20) CHARACTER SET latin1, MODIFY c TEXT CHARACTER SET utf16, MODIFY d CHAR(5) CHARACTER SET utf8mb4
----
UPDATE {t} SET a = 'ñ', b = 'ñ' WHERE id = 1

== MODIFY COLUMN, text and bytes : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b VARBINARY(20), c BLOB); INSERT INTO {t} VALUES (1, 'é', 'plain', 'more'), (2, '', NULL, '')
----
ALTER TABLE {t} MODIFY a VARBINARY(80), MODIFY b VARCHAR(20), MODIFY c LONGTEXT
----
UPDATE {t} SET a = 0xff WHERE id = 1

== MODIFY COLUMN, fractions of seconds : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DATETIME(6), b TIME(3), c TIMESTAMP(6) NULL, d DATETIME); INSERT INTO {t} VALUES (1, '1999-12-31 23:59:59.999999', '-12:59:59.950', '2020-02-29 23:59:59.5', '2001-02-03 04:05:06'), (2, '2020-01-01 00:00:00.49', '838:59:59', NULL, NULL)
----
ALTER TABLE {t} MODIFY a DATETIME, MODIFY b TIME(1), MODIFY c TIMESTAMP NULL, MODIFY d DATETIME(4)
----
UPDATE {t} SET d = '2001-01-01 00:00:00.1234' WHERE id = 1

== MODIFY COLUMN, fractions cut off : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DATETIME(6), b TIME(6)); INSERT INTO {t} VALUES (1, '1999-12-31 23:59:59.999999', '12:59:59.95')
----
SET sql_mode = 'TIME_TRUNCATE_FRACTIONAL'; ALTER TABLE {t} MODIFY a DATETIME, MODIFY b TIME
----
UPDATE {t} SET a = NULL WHERE id = 1

== MODIFY COLUMN, dates and times : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DATE, b DATETIME, c DATETIME, d VARCHAR(30)); INSERT INTO {t} VALUES (1, '2020-02-03', '2020-02-03 00:00:00', '2021-05-06 07:08:09', '2022-03-04 05:06:07'), (2, NULL, NULL, NULL, NULL)
----
ALTER TABLE {t} MODIFY a DATETIME, MODIFY b DATE, MODIFY c VARCHAR(40), MODIFY d DATETIME
----
UPDATE {t} SET a = '2000-01-01 01:01:01' WHERE id = 1

== MODIFY COLUMN, DATETIME and TIMESTAMP : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DATETIME, b TIMESTAMP NULL); SET time_zone = '+03:00'; INSERT INTO {t} VALUES (1, '2020-02-03 04:05:06', '2020-02-03 04:05:06'), (2, NULL, NULL)
----
SET time_zone = '+03:00'; ALTER TABLE {t} MODIFY a TIMESTAMP NULL, MODIFY b DATETIME
----
UPDATE {t} SET a = '2000-01-01 01:01:01' WHERE id = 1

== MODIFY COLUMN, ENUM and SET with more members : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a ENUM('x','y'), b SET('p','q')); INSERT INTO {t} VALUES (1, 'x', 'p'), (2, 'y', 'p,q'), (3, NULL, '')
----
ALTER TABLE {t} MODIFY a ENUM('x','y','z'), MODIFY b SET('p','q','r','s','t','u','v','w','x')
----
UPDATE {t} SET a = 'z', b = 'x' WHERE id = 1; UPDATE {t} SET a = 'x' WHERE id = 2

== MODIFY COLUMN, ENUM and SET in another order : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a ENUM('x','y','z'), b SET('p','q','r')); INSERT INTO {t} VALUES (1, 'x', 'p'), (2, 'y', 'r,q'), (3, NULL, '')
----
ALTER TABLE {t} MODIFY a ENUM('w','y','x'), MODIFY b SET('r','q','p')
----
UPDATE {t} SET a = 'w' WHERE id = 2

== MODIFY COLUMN, ENUM to text and back : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a ENUM('x','yy'), b VARCHAR(10)); INSERT INTO {t} VALUES (1, 'x', 'one'), (2, 'yy', 'two'), (3, NULL, NULL)
----
ALTER TABLE {t} MODIFY a VARCHAR(10), MODIFY b ENUM('two','one')
----
UPDATE {t} SET a = 'w', b = 'two' WHERE id = 1

== MODIFY COLUMN, NULL to NOT NULL : replayed
----
ALTER TABLE {t} MODIFY a INT NOT NULL DEFAULT 3
----
INSERT INTO {t} (id, b) VALUES (18, 'n')

== MODIFY COLUMN, NULL to NOT NULL, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b VARCHAR(5)); INSERT INTO {t} VALUES (1, NULL, NULL), (2, 2, 'x')
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a INT NOT NULL, MODIFY b VARCHAR(5) NOT NULL
----
UPDATE {t} SET a = a + 1

== MODIFY COLUMN, FLOAT and DOUBLE : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a FLOAT, b DOUBLE, c DOUBLE, d INT); INSERT INTO {t} VALUES (1, 1.5, 2.25, 2.5, 16777217), (2, -0.1, 1e10, -3.5, 3)
----
ALTER TABLE {t} MODIFY a DOUBLE, MODIFY b FLOAT, MODIFY c INT, MODIFY d DOUBLE
----
UPDATE {t} SET a = a + 1

== MODIFY COLUMN, BIT and YEAR : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a BIT(5), b YEAR, c INT, d BIT(3)); INSERT INTO {t} VALUES (1, 21, 1999, 2005, 5), (2, 0, 0, 0, 1)
----
ALTER TABLE {t} MODIFY a BIT(20), MODIFY b INT, MODIFY c YEAR, MODIFY d INT
----
UPDATE {t} SET a = 1000 WHERE id = 1

== MODIFY COLUMN FIRST and AFTER : replayed
----
ALTER TABLE {t} MODIFY b VARCHAR(20) FIRST, MODIFY id INT NOT NULL AFTER a
----
UPDATE {t} SET a = 77 WHERE id = 1; INSERT INTO {t} (id, b) VALUES (19, 'm')

== MODIFY COLUMN of the primary key : replayed
----
ALTER TABLE {t} MODIFY id BIGINT NOT NULL AUTO_INCREMENT
----
INSERT INTO {t} (a) VALUES (5); UPDATE {t} SET a = 6 WHERE id = 1

== MODIFY COLUMN, collation of the primary key : replayed
CREATE TABLE {t} (id VARCHAR(10) PRIMARY KEY, a INT); INSERT INTO {t} VALUES ('a', 1), ('B', 2), ('c', 3)
----
ALTER TABLE {t} MODIFY id VARCHAR(10) COLLATE utf8mb4_bin
----
UPDATE {t} SET a = 9 WHERE id = 'B'; INSERT INTO {t} VALUES ('A', 4)

== CHANGE COLUMN : replayed
----
ALTER TABLE {t} CHANGE a c BIGINT, CHANGE COLUMN b `some text` TEXT
----
UPDATE {t} SET c = 10000000000, `some text` = 'x' WHERE id = 1

== CHANGE COLUMN swap : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT); INSERT INTO {t} VALUES (1, 2, 3)
----
ALTER TABLE {t} CHANGE a b INT, CHANGE b a INT
----
UPDATE {t} SET a = 4 WHERE id = 1

== ALTER COLUMN SET DEFAULT : replayed
----
ALTER TABLE {t} ALTER COLUMN a SET DEFAULT 42, ALTER b SET DEFAULT 'new default'
----
INSERT INTO {t} (id) VALUES (20)

== ALTER COLUMN DROP DEFAULT : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT DEFAULT 3)
----
ALTER TABLE {t} ALTER a DROP DEFAULT
----
INSERT INTO {t} VALUES (20, 1)

== ALTER COLUMN SET INVISIBLE : replayed
----
ALTER TABLE {t} ALTER COLUMN a SET INVISIBLE
----
INSERT INTO {t} VALUES (20, 'only two')

== ALTER COLUMN SET VISIBLE : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT INVISIBLE)
----
ALTER TABLE {t} ALTER COLUMN a SET VISIBLE
----
INSERT INTO {t} VALUES (20, 1)

== CONVERT TO CHARACTER SET : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b TEXT, c ENUM('a','b'), d CHAR(3), e TINYTEXT, f BLOB) CHARACTER SET latin1; INSERT INTO {t} VALUES (1, 'é', 'ü', 'a', 'x', 'y', 0xff), (2, NULL, NULL, NULL, NULL, NULL, NULL)
----
ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4
----
UPDATE {t} SET a = '€', b = '漢字' WHERE id = 1; INSERT INTO {t} (id, a) VALUES (3, '😀')

== CONVERT TO CHARACTER SET … COLLATE, narrower : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b TEXT, c MEDIUMTEXT); INSERT INTO {t} VALUES (1, 'é', 'ü', 'z')
----
ALTER TABLE {t} CONVERT TO CHARACTER SET latin1 COLLATE latin1_bin
----
UPDATE {t} SET a = 'ñ' WHERE id = 1

== CONVERT TO CHARACTER SET, text in the key : replayed
CREATE TABLE {t} (id VARCHAR(10) PRIMARY KEY, a INT) CHARACTER SET latin1; INSERT INTO {t} VALUES ('é', 1), ('b', 2)
----
ALTER TABLE {t} CONVERT TO CHARACTER SET utf8mb4
----
UPDATE {t} SET a = 3 WHERE id = 'é'; DELETE FROM {t} WHERE id = 'b'

== DEFAULT CHARACTER SET : replayed
----
ALTER TABLE {t} DEFAULT CHARACTER SET latin1 COLLATE latin1_bin, ADD c VARCHAR(10) DEFAULT 'é'
----
INSERT INTO {t} (id, c) VALUES (21, 'ñ')

== ADD PRIMARY KEY : replayed
CREATE TABLE {t} (a INT, b VARCHAR(5)); INSERT INTO {t} VALUES (1, 'x'), (2, 'x')
----
ALTER TABLE {t} ADD PRIMARY KEY (a)
----
UPDATE {t} SET b = 'y' WHERE a = 1; INSERT INTO {t} VALUES (3, NULL)

== DROP PRIMARY KEY : replayed
----
ALTER TABLE {t} DROP PRIMARY KEY
----
INSERT INTO {t} VALUES (1, 1, 'one'); UPDATE {t} SET a = 3 WHERE id = 2

== DROP PRIMARY KEY, ADD PRIMARY KEY : replayed
----
ALTER TABLE {t} DROP PRIMARY KEY, ADD PRIMARY KEY (a, id)
----
UPDATE {t} SET b = 'q' WHERE id = 2; UPDATE {t} SET a = a + 10

== ADD and DROP keys : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b VARCHAR(30), KEY gone (a)); INSERT INTO {t} VALUES (1, 1, 'x')
----
ALTER TABLE {t} ADD INDEX i1 (a, b(5) DESC), ADD UNIQUE KEY u1 (b), ADD FULLTEXT INDEX f1 (b), DROP INDEX gone, ADD INDEX fn ((a * 2))
----
INSERT INTO {t} VALUES (2, 2, 'y'); UPDATE {t} SET b = 'z' WHERE id = 1

== ADD and DROP FOREIGN KEY, CHECK : replayed
CREATE TABLE {t}_p (id INT PRIMARY KEY); CREATE TABLE {t} (id INT PRIMARY KEY, p INT, CHECK (p > 0)); INSERT INTO {t}_p VALUES (1); INSERT INTO {t} VALUES (1, 1)
----
ALTER TABLE {t} ADD CONSTRAINT {t}_fk FOREIGN KEY (p) REFERENCES {t}_p (id), ADD CONSTRAINT {t}_ck CHECK (p < 100) NOT ENFORCED
----
INSERT INTO {t} VALUES (2, 1); ALTER TABLE {t} DROP FOREIGN KEY {t}_fk, DROP CHECK {t}_ck, DROP KEY {t}_fk; INSERT INTO {t} VALUES (3, 55)

== RENAME INDEX, ALTER INDEX : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, KEY k (a))
----
ALTER TABLE {t} RENAME INDEX k TO kk; ALTER TABLE {t} ALTER INDEX kk INVISIBLE
----
INSERT INTO {t} VALUES (1, 1)

== options : replayed
----
ALTER TABLE {t} COMMENT = 'x', AUTO_INCREMENT = 100, ROW_FORMAT = COMPACT, STATS_PERSISTENT = 0, KEY_BLOCK_SIZE 0, ENGINE = InnoDB
----
INSERT INTO {t} VALUES (22, 1, 'o')

== ORDER BY : replayed
CREATE TABLE {t} (a INT, b INT); INSERT INTO {t} VALUES (3, 1), (1, 2)
----
ALTER TABLE {t} ORDER BY a DESC, b
----
DELETE FROM {t} WHERE a = 3

== FORCE, ALGORITHM, LOCK : replayed
----
ALTER TABLE {t} FORCE, ALGORITHM = COPY, LOCK = SHARED
----
INSERT INTO {t} VALUES (23, 1, 'o')

== RENAME with column changes : replayed
----
ALTER TABLE {t} RENAME TO {t}_renamed, ADD c INT DEFAULT 1, DROP a
----
UPDATE {t}_renamed SET c = 2 WHERE id = 1

== several at once : replayed
----
ALTER TABLE {t} ADD c INT NOT NULL DEFAULT 7 AFTER ident, DROP COLUMN a, MODIFY b VARCHAR(200) FIRST, ADD KEY (c), COMMENT 'many', RENAME COLUMN id TO ident
----
UPDATE {t} SET c = 8 WHERE ident = 1; INSERT INTO {t} VALUES ('b', 24, 1); DELETE FROM {t} WHERE ident = 2

== again and again : replayed
----
ALTER TABLE {t} ADD c INT DEFAULT 1; ALTER TABLE {t} ADD d INT DEFAULT 2 FIRST; UPDATE {t} SET c = 10 WHERE id = 1; ALTER TABLE {t} DROP c; ALTER TABLE {t} MODIFY d BIGINT AFTER id; ALTER TABLE {t} ADD e VARCHAR(3) DEFAULT 'e'
----
UPDATE {t} SET d = d + 1 WHERE id = 2; UPDATE {t} SET id = 40 WHERE id = 3

== row images of some columns : replayed
SET binlog_row_image = MINIMAL; CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b VARCHAR(20), c TEXT); INSERT INTO {t} VALUES (1, 1, 'x', 'y'), (2, 2, 'z', NULL)
----
ALTER TABLE {t} ADD d INT DEFAULT 5 AFTER id, MODIFY a BIGINT
----
SET binlog_row_image = MINIMAL; UPDATE {t} SET b = 'one' WHERE id = 1; UPDATE {t} SET id = 20 WHERE id = 2; INSERT INTO {t} (id) VALUES (30)

== JSON to and from text : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(100)); INSERT INTO {t} VALUES (1, '{"a": 1}')
----
ALTER TABLE {t} MODIFY a JSON; ALTER TABLE {t} MODIFY a TEXT
----
UPDATE {t} SET a = 'x'

== CHANGE COLUMN to the same, other attributes : replayed
----
ALTER TABLE {t} CHANGE a a INT NOT NULL DEFAULT 0 COMMENT 'now with a comment' INVISIBLE AFTER b, CHANGE b b VARCHAR(30) CHECK (b <> ''), MODIFY COLUMN id INT UNIQUE
----
INSERT INTO {t} (id, b) VALUES (4, 'four'); UPDATE {t} SET a = 9 WHERE id = 1

== MODIFY of a key column in place : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(10), b INT, KEY (a, b)); INSERT INTO {t} VALUES (1, 'a', 1), (2, 'B', NULL)
----
ALTER TABLE {t} MODIFY a VARCHAR(20) COLLATE utf8mb4_bin, MODIFY b BIGINT
----
UPDATE {t} SET a = 'A' WHERE id = 2; INSERT INTO {t} VALUES (3, 'a', 3)

== MODIFY of a column with foreign keys : replayed
CREATE TABLE {t}_p (id INT PRIMARY KEY, x INT); CREATE TABLE {t} (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES {t}_p (id) ON DELETE SET NULL); INSERT INTO {t}_p VALUES (1, 1), (2, 2); INSERT INTO {t} VALUES (1, 1), (2, 2)
----
ALTER TABLE {t} MODIFY p INT NULL COMMENT 'x', CHANGE id ident INT; ALTER TABLE {t}_p CHANGE id pid INT NOT NULL
----
DELETE FROM {t}_p WHERE pid = 1

== ALTER COLUMN SET DEFAULT (expression), NULL, a function : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b DATETIME, c JSON, d VARCHAR(9) NOT NULL DEFAULT 'x'); INSERT INTO {t} (id) VALUES (1)
----
ALTER TABLE {t} ALTER a SET DEFAULT (5 * 2), ALTER COLUMN b SET DEFAULT (NOW()), ALTER c SET DEFAULT (JSON_ARRAY()), ALTER d DROP DEFAULT
----
INSERT INTO {t} (id, d) VALUES (2, 'y'); ALTER TABLE {t} ALTER a SET DEFAULT NULL; INSERT INTO {t} (id, d) VALUES (3, 'z')

== MODIFY of generated columns : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a + 2) STORED); INSERT INTO {t} (id, a) VALUES (1, 1)
----
ALTER TABLE {t} MODIFY v INT AS (a + 1) VIRTUAL COMMENT 'x' AFTER id, RENAME COLUMN s TO t
----
INSERT INTO {t} (id, a) VALUES (2, 2); UPDATE {t} SET a = 7 WHERE id = 1

== MODIFY of a generated column's expression : not known
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, s INT AS (a + 2) STORED); INSERT INTO {t} (id, a) VALUES (1, 1)
----
ALTER TABLE {t} MODIFY s INT AS (a + 3) STORED

== DROP of generated and base columns : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (id + 2) STORED, KEY (v)); INSERT INTO {t} (id, a) VALUES (1, 1)
----
ALTER TABLE {t} DROP v; ALTER TABLE {t} DROP a, DROP COLUMN s
----
INSERT INTO {t} VALUES (2)

== ADD COLUMN to a table with generated columns : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, v INT AS (a + 1) VIRTUAL, s INT AS (a + 2) STORED); INSERT INTO {t} (id, a) VALUES (1, 1)
----
ALTER TABLE {t} ADD b INT DEFAULT 4 AFTER id, ADD c VARCHAR(5) FIRST
----
INSERT INTO {t} (id, a) VALUES (2, 2); UPDATE {t} SET a = 7 WHERE id = 1

== ADD COLUMN … VIRTUAL to a table without rows : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT)
----
ALTER TABLE {t} ADD v INT AS (a + 1), ADD s INT AS (a + 2) STORED, ADD KEY (v)
----
INSERT INTO {t} (id, a) VALUES (1, 1)

== DROP COLUMN RESTRICT, CASCADE, the last of a key : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, c INT, KEY k (a), UNIQUE u (a, b)); INSERT INTO {t} VALUES (1, 1, 1, 1)
----
ALTER TABLE {t} DROP COLUMN a RESTRICT; ALTER TABLE {t} DROP b CASCADE
----
UPDATE {t} SET c = 2

== DROP COLUMN of the primary key : replayed
CREATE TABLE {t} (id INT, a INT, b INT, PRIMARY KEY (id, a)); INSERT INTO {t} VALUES (1, 1, 1), (2, 1, 1)
----
ALTER TABLE {t} DROP COLUMN a
----
UPDATE {t} SET b = 2 WHERE id = 1

== columns of a table whose key is UNIQUE : replayed
CREATE TABLE {t} (a INT NOT NULL, b INT, UNIQUE u (a)); INSERT INTO {t} VALUES (1, 1), (2, 2)
----
ALTER TABLE {t} ADD c INT DEFAULT 3 FIRST; UPDATE {t} SET b = 5 WHERE a = 1; ALTER TABLE {t} MODIFY a INT NULL
----
DELETE FROM {t} WHERE a = 1; INSERT INTO {t} VALUES (1, NULL, 1), (1, NULL, 1)

== CONVERT TO CHARACTER SET DEFAULT : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(9)) CHARSET latin1; INSERT INTO {t} VALUES (1, 'ä')
----
ALTER TABLE {t} CONVERT TO CHARACTER SET DEFAULT; ALTER TABLE {t} CONVERT TO CHARSET utf8mb4 COLLATE utf8mb4_unicode_ci
----
INSERT INTO {t} VALUES (2, '€')

== MODIFY to TIMESTAMP NOT NULL where values are NULL : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a TIMESTAMP NULL, b DATETIME NULL, c INT); INSERT INTO {t} VALUES (1, NULL, NULL, NULL), (2, '2020-01-02 03:04:05', '2021-01-02 03:04:05', 5); SET SESSION sql_mode = ''
----
ALTER TABLE {t} MODIFY a TIMESTAMP NOT NULL, MODIFY b TIMESTAMP NOT NULL
----
UPDATE {t} SET c = 1 WHERE id = 1; SET SESSION sql_mode = DEFAULT

== ADD COLUMN TIMESTAMP, explicit_defaults_for_timestamp=OFF : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT); INSERT INTO {t} VALUES (1, 1), (2, 2); SET SESSION explicit_defaults_for_timestamp = 0, sql_mode = ''
----
ALTER TABLE {t} ADD c TIMESTAMP FIRST, ADD d TIMESTAMP NOT NULL, ADD e TIMESTAMP NULL
----
UPDATE {t} SET a = 5 WHERE id = 1; SET SESSION explicit_defaults_for_timestamp = DEFAULT, sql_mode = DEFAULT

== dates that the session of the ALTER TABLE does not take : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, d DATE, dt DATETIME(6), v VARCHAR(40), KEY (d), KEY (a, dt)); SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; INSERT INTO {t} VALUES (1, 1, '2024-02-30', '2024-04-31 10:59:59.6', '2024-02-30'), (2, 2, '2024-02-00', '2024-12-00 01:00:00.6', '2024-00-10 10:00:00.5'), (3, 3, '2024-02-29', '2023-12-31 23:59:59.999999', '0000-00-00'), (4, 4, NULL, '9999-12-31 23:59:59.9', '2024-02-29 12:30:30.7'), (5, 5, '0000-00-00', '0000-00-00', NULL), (6, 6, '0000-00-05', '0000-12-31 23:59:59.9999', '0000-00-05')
----
SET SESSION sql_mode = ''; ALTER TABLE {t} MODIFY dt DATETIME(1), MODIFY v DATETIME(2)
----
UPDATE {t} SET a = a + 1 WHERE d = 0; UPDATE {t} SET d = '2020-02-02' WHERE id = 1; DELETE FROM {t} WHERE id = 5; SET SESSION sql_mode = DEFAULT

== dates kept by a session that takes them, rounded up to the next second : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, x DATETIME(6), v VARCHAR(40)); SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; INSERT INTO {t} (id, x) VALUES (1, '2024-04-31 10:59:59.6'), (2, '0000-06-05 10:00:00.7'), (3, '0000-02-28 23:59:59.9'), (4, '2023-02-31 01:02:03.5'), (5, '2024-02-31 01:02:03.4'), (6, '9999-12-31 23:59:59.9'), (7, '2024-12-00 01:00:00.6'); UPDATE {t} SET v = x
----
ALTER TABLE {t} MODIFY x DATETIME, MODIFY v DATE
----
UPDATE {t} SET v = NULL WHERE id = 2; SET SESSION sql_mode = DEFAULT

== dates of columns that a copying ALTER TABLE does not name : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, d DATE, dt DATETIME, ts TIMESTAMP NULL, KEY (d)); SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; INSERT INTO {t} VALUES (1, 1, '2024-02-30', '2024-04-31 10:00:00', '2024-01-01'), (2, 2, '2024-02-00', '2024-00-00 10:00:00', NULL), (3, 3, '2024-02-29', NULL, '2024-01-01'); SET SESSION sql_mode = 'NO_ZERO_IN_DATE'
----
ALTER TABLE {t} MODIFY a BIGINT
----
INSERT INTO {t} VALUES (4, 4, '2024-02-29', NULL, NULL); UPDATE {t} SET a = 9 WHERE id < 3; DELETE FROM {t} WHERE d = 0 AND id = 2; SET SESSION sql_mode = DEFAULT

== dates where CREATE INDEX copies the table, then work in place : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, d DATE); SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; INSERT INTO {t} VALUES (1, 1, '2024-02-30'), (2, 2, '2024-02-00')
----
SET SESSION sql_mode = ''; CREATE INDEX i ON {t} (d) ALGORITHM = COPY; UPDATE {t} SET a = 5 WHERE d = 0; SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; INSERT INTO {t} VALUES (3, 3, '2024-06-31'); SET SESSION sql_mode = ''
----
ALTER TABLE {t} FORCE; ALTER TABLE {t} ADD x INT FIRST, DROP a, ADD KEY (x), COMMENT = 'in place', CHANGE d e DATE AFTER id; UPDATE {t} SET x = 1; SET SESSION sql_mode = DEFAULT

== dates in a primary key that a copying ALTER TABLE makes zero : replayed
CREATE TABLE {t} (d DATE, id INT, a INT, PRIMARY KEY (d, id)); SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; INSERT INTO {t} VALUES ('2024-02-30', 1, 1), ('2024-02-29', 1, 2), ('2024-06-31', 2, 3)
----
SET SESSION sql_mode = ''; ALTER TABLE {t} ADD b INT DEFAULT 3, ALGORITHM = COPY
----
UPDATE {t} SET a = 7 WHERE d = 0 AND id = 2; DELETE FROM {t} WHERE d = '2024-02-29'; SET SESSION sql_mode = DEFAULT

== dates of a table without a key, DROP PRIMARY KEY : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, d DATE, g INT AS (MONTH(d)) STORED); SET SESSION sql_mode = 'ALLOW_INVALID_DATES'; INSERT INTO {t} (id, d) VALUES (1, '2024-02-28'), (2, '2024-02-29')
----
SET SESSION sql_mode = ''; ALTER TABLE {t} DROP PRIMARY KEY; ALTER TABLE {t} MODIFY id BIGINT
----
DELETE FROM {t} WHERE id = 1; SET SESSION sql_mode = DEFAULT
