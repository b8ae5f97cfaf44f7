-- Rows that hold 0 or NULL in a column that becomes AUTO_INCREMENT get numbers: here they kept 0 and NULL, or replay
-- stopped with 1062 at a new primary key.
-- tables copied again: 9
-- session 1
SET SESSION sql_mode = '';
-- Without a key only the source knows the order of rows: copied again, unless every order gives the same.
CREATE TABLE a4 (a INT, v INT, KEY (a));
INSERT INTO a4 VALUES (NULL, 1), (NULL, 2), (7, 3), (0, 4);
ALTER TABLE a4 MODIFY a INT NOT NULL AUTO_INCREMENT;
CREATE TABLE c4 (b INT, a INT NOT NULL);
INSERT INTO c4 VALUES (1, 0), (2, 0), (3, 0);
ALTER TABLE c4 MODIFY a INT NOT NULL AUTO_INCREMENT PRIMARY KEY;
CREATE TABLE same_rows (b INT, a INT NOT NULL);
INSERT INTO same_rows VALUES (1, 0), (1, 0), (1, 0);
ALTER TABLE same_rows MODIFY a INT NOT NULL AUTO_INCREMENT PRIMARY KEY;
INSERT INTO same_rows (b) VALUES (9);
UPDATE same_rows SET b = 5 WHERE a = 2;
CREATE TABLE no_zeros (b INT, a INT NOT NULL);
INSERT INTO no_zeros VALUES (1, 4), (1, -2);
ALTER TABLE no_zeros MODIFY a INT NOT NULL AUTO_INCREMENT PRIMARY KEY;
UPDATE no_zeros SET b = 6 WHERE a = -2;
-- In the order of the key, whatever the order of the INSERTs; also after changes in memory and on disk.
CREATE TABLE by_key (k INT PRIMARY KEY, a INT NULL);
INSERT INTO by_key VALUES (5, NULL), (3, -7), (1, -1), (2, NULL), (4, 0), (9, NULL), (6, 9), (8, 4), (7, NULL), (-3, 0);
UPDATE by_key SET k = 20 WHERE k = 5;
ALTER TABLE by_key MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
UPDATE by_key SET k = k + 100;
CREATE TABLE by_text (k VARCHAR(10) PRIMARY KEY, a INT NULL);
INSERT INTO by_text VALUES ('b', 0), ('A', 0), ('C', 0), ('a1', 0);
ALTER TABLE by_text CHANGE a n SMALLINT UNSIGNED AUTO_INCREMENT FIRST, ADD UNIQUE (n);
UPDATE by_text SET k = CONCAT(k, '-', n);
CREATE TABLE by_unique_desc (a INT NULL, k INT NOT NULL, UNIQUE (k DESC));
INSERT INTO by_unique_desc VALUES (0, 1), (0, 2), (0, 3);
ALTER TABLE by_unique_desc MODIFY a INT NOT NULL AUTO_INCREMENT, ADD PRIMARY KEY (a);
CREATE TABLE by_prefix (k VARCHAR(20), a INT, PRIMARY KEY (k(2)));
INSERT INTO by_prefix VALUES ('bc', 0), ('ab', 0), ('a', 0);
ALTER TABLE by_prefix MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
CREATE TABLE old_order (a INT NULL, k INT PRIMARY KEY, g INT, UNIQUE (g));
INSERT INTO old_order VALUES (0, 3, 3), (0, 2, 1), (0, 1, 2);
ALTER TABLE old_order DROP PRIMARY KEY, MODIFY g INT NOT NULL, MODIFY a INT NOT NULL AUTO_INCREMENT PRIMARY KEY;
-- ORDER BY counts only where the new table has no key to order by.
CREATE TABLE order_ignored (a INT NULL, k INT PRIMARY KEY);
INSERT INTO order_ignored VALUES (0, 1), (0, 2), (0, 3);
ALTER TABLE order_ignored MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a), ORDER BY k DESC;
CREATE TABLE order_taken (a INT NULL, k INT PRIMARY KEY);
INSERT INTO order_taken VALUES (0, 1), (0, 2), (0, 3);
ALTER TABLE order_taken DROP PRIMARY KEY, MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a), ORDER BY k DESC;
-- Conversions come first.
CREATE TABLE from_text (k INT PRIMARY KEY, a VARCHAR(10) NULL);
INSERT INTO from_text VALUES (1, '0'), (2, NULL), (3, '3'), (4, '0'), (5, '12');
ALTER TABLE from_text MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
CREATE TABLE from_double (k INT PRIMARY KEY, a DOUBLE NULL);
INSERT INTO from_double VALUES (1, 0.3), (2, NULL), (3, 0.6);
ALTER TABLE from_double MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
CREATE TABLE negative_to_unsigned (k INT PRIMARY KEY, a BIGINT NULL);
INSERT INTO negative_to_unsigned VALUES (1, -300), (2, 0), (3, 4);
ALTER TABLE negative_to_unsigned MODIFY a TINYINT UNSIGNED NOT NULL AUTO_INCREMENT, ADD KEY (a);
CREATE TABLE large (k INT PRIMARY KEY, a BIGINT UNSIGNED NULL);
INSERT INTO large VALUES (1, 0), (2, NULL), (3, 9223372036854775808), (4, 0);
ALTER TABLE large MODIFY a SERIAL;
-- A number beyond the column: copied again.
CREATE TABLE too_large (k INT PRIMARY KEY, a TINYINT NULL);
INSERT INTO too_large VALUES (1, 127), (2, 0);
ALTER TABLE too_large MODIFY a TINYINT NOT NULL AUTO_INCREMENT, ADD KEY (a);
-- Where the counter starts.
CREATE TABLE option_of_create (k INT PRIMARY KEY, a INT NULL) AUTO_INCREMENT = 100;
INSERT INTO option_of_create VALUES (1, 0), (2, NULL), (3, 5);
ALTER TABLE option_of_create MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
CREATE TABLE option_of_alter (k INT PRIMARY KEY, a INT NULL);
INSERT INTO option_of_alter VALUES (1, 0), (2, NULL), (3, 5);
ALTER TABLE option_of_alter MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a), AUTO_INCREMENT = 50;
-- The counter of the column that was AUTO_INCREMENT goes on, and only the source knows it.
CREATE TABLE counter_goes_on (k INT PRIMARY KEY AUTO_INCREMENT, a INT NULL) AUTO_INCREMENT = 77;
INSERT INTO counter_goes_on VALUES (NULL, 0), (NULL, NULL), (NULL, 5);
ALTER TABLE counter_goes_on MODIFY k INT NOT NULL, MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
CREATE TABLE counter_given (k INT PRIMARY KEY AUTO_INCREMENT, a INT NULL) AUTO_INCREMENT = 77;
INSERT INTO counter_given VALUES (NULL, 0), (NULL, NULL), (NULL, 5);
ALTER TABLE counter_given MODIFY k INT NOT NULL, MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a), AUTO_INCREMENT 20;
CREATE TABLE counter_dropped (k INT PRIMARY KEY AUTO_INCREMENT, g INT NOT NULL UNIQUE, a INT NULL) AUTO_INCREMENT = 77;
INSERT INTO counter_dropped VALUES (NULL, 3, 0), (NULL, 2, NULL), (NULL, 1, 5);
ALTER TABLE counter_dropped DROP COLUMN k, MODIFY a INT NOT NULL AUTO_INCREMENT, ADD PRIMARY KEY (a);
-- A column that was AUTO_INCREMENT keeps its zeros.
SET SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
CREATE TABLE was (k INT PRIMARY KEY AUTO_INCREMENT, a INT);
INSERT INTO was VALUES (0, 1), (5, 2);
CREATE TABLE zeros_kept (k INT PRIMARY KEY, a INT NULL);
INSERT INTO zeros_kept VALUES (1, 0), (2, NULL), (3, 5), (4, NULL), (5, 0);
ALTER TABLE zeros_kept MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
SET SESSION sql_mode = '';
ALTER TABLE was CHANGE k kk BIGINT NOT NULL AUTO_INCREMENT;
ALTER TABLE was MODIFY kk BIGINT NOT NULL;
ALTER TABLE was MODIFY kk BIGINT NOT NULL AUTO_INCREMENT;
UPDATE was SET a = a + 1;
-- Partition after partition.
CREATE TABLE parts (k INT PRIMARY KEY, a INT NULL) PARTITION BY HASH (k) PARTITIONS 3;
INSERT INTO parts VALUES (1, -1), (2, NULL), (3, 10), (4, NULL), (5, 0), (6, 0), (7, 2), (8, -1), (9, 0);
ALTER TABLE parts MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a) REMOVE PARTITIONING;
UPDATE parts SET k = k + 1 ORDER BY k DESC;
CREATE TABLE subparts (k INT PRIMARY KEY, a INT NULL) PARTITION BY RANGE (k) SUBPARTITION BY HASH (k) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE);
INSERT INTO subparts VALUES (1, 0), (2, NULL), (3, 0), (4, NULL), (5, 0), (6, 0), (7, 0), (8, 0), (9, 0);
ALTER TABLE subparts MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
-- Steps and offsets of the session.
SET SESSION auto_increment_increment = 5, SESSION auto_increment_offset = 3;
CREATE TABLE steps (k INT PRIMARY KEY, a INT NULL);
INSERT INTO steps VALUES (1, 0), (2, NULL), (3, 10), (4, NULL), (5, 0), (6, 13), (7, 0), (8, -3), (9, 0), (10, -1), (11, 0);
ALTER TABLE steps MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
CREATE TABLE steps_from (k INT PRIMARY KEY, a INT NULL);
INSERT INTO steps_from VALUES (1, 0), (2, NULL), (3, 10), (4, NULL), (5, 0), (6, 93), (7, 0), (8, 0);
ALTER TABLE steps_from MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a), AUTO_INCREMENT = 40;
CREATE TABLE steps_in_parts (k INT PRIMARY KEY, a INT NULL) PARTITION BY HASH (k) PARTITIONS 3;
INSERT INTO steps_in_parts VALUES (1, 0), (2, NULL), (3, 10), (4, NULL), (5, 0), (6, 0), (7, 2), (8, -1), (9, 0), (10, 77);
ALTER TABLE steps_in_parts MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
SET SESSION auto_increment_increment = 3, SESSION auto_increment_offset = 10;
CREATE TABLE offset_above (k INT PRIMARY KEY, a INT NULL);
INSERT INTO offset_above VALUES (1, 0), (2, NULL), (3, 20), (4, NULL), (5, 0), (6, 25), (7, 0);
ALTER TABLE offset_above MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
SET SESSION auto_increment_increment = 1, SESSION auto_increment_offset = 10;
CREATE TABLE offset_alone (k INT PRIMARY KEY, a INT NULL);
INSERT INTO offset_alone VALUES (1, 0), (2, NULL), (3, 20), (4, NULL), (5, 0), (6, 25), (7, 0);
ALTER TABLE offset_alone MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
SET SESSION auto_increment_increment = 1, SESSION auto_increment_offset = 1;
-- Other engines: the order of MyISAM's rows is not known, and MyISAM counts each group of a key alone.
CREATE TABLE from_myisam (a INT NULL, k INT PRIMARY KEY) ENGINE = MyISAM;
INSERT INTO from_myisam VALUES (0, 3), (0, 2), (0, 1);
ALTER TABLE from_myisam ENGINE = InnoDB, MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
CREATE TABLE to_groups (g INT, k INT PRIMARY KEY, a INT NULL);
INSERT INTO to_groups VALUES (1, 1, 0), (2, 2, 0), (1, 3, 0), (2, 4, 0);
ALTER TABLE to_groups MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (g, a), ENGINE = MyISAM;
CREATE TABLE to_myisam (k INT PRIMARY KEY, a INT NULL);
INSERT INTO to_myisam VALUES (3, 0), (2, NULL), (1, -4), (4, 0), (5, 20), (6, 0);
ALTER TABLE to_myisam ENGINE = MyISAM, MODIFY a INT NOT NULL AUTO_INCREMENT, ADD KEY (a);
