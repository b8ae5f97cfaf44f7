-- NULL in an ENUM that becomes NOT NULL is its error value, not its first member: replay stopped at the next change.
-- session 1
SET SESSION sql_mode = '';
CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b') NULL, f ENUM('x') CHARACTER SET gb18030 NULL, s SET('a','b') NULL);
INSERT INTO t VALUES (1, NULL, NULL, NULL), (2, 'b', 'x', 'b');
ALTER TABLE t MODIFY e ENUM('a','b','c') NOT NULL, MODIFY f ENUM('x') CHARACTER SET gb18030 NOT NULL, MODIFY s SET('a','b') NOT NULL;
UPDATE t SET id = id + 10;
DELETE FROM t WHERE id = 11;
