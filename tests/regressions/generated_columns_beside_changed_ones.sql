-- Columns change their types beside generated columns that do not read them: the table was copied.
-- session 1
CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(10), g INT AS (a + 1) STORED, h INT AS (g * 2) VIRTUAL) CHARACTER SET latin1;
INSERT INTO t (id, a, b) VALUES (1, 5, 'é'), (2, NULL, 'x');
ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4;
UPDATE t SET a = a + 1;
ALTER TABLE t CHANGE b c VARCHAR(300) CHARACTER SET latin1;
UPDATE t SET a = 9 WHERE id = 2;
