-- A MINIMAL image leaves out a VECTOR that a statement gave no value: an empty one. Replay stopped: default not known.
-- session 1
SET SESSION sql_mode = '', binlog_row_image = MINIMAL;
CREATE TABLE t (id INT PRIMARY KEY, v VECTOR(3) NOT NULL, n INT);
INSERT IGNORE INTO t (id, n) VALUES (1, 1), (2, 2);
UPDATE t SET v = STRING_TO_VECTOR('[1,2,3]') WHERE id = 2;
REPLACE INTO t (id) VALUES (2), (3);
CREATE TABLE u (id INT PRIMARY KEY);
INSERT INTO u VALUES (1), (2);
ALTER TABLE u ADD v VECTOR(2) NOT NULL, ADD n INT;
UPDATE u SET n = 1 WHERE id = 1;
