-- ADD and MODIFY … FIRST of a table with a generated invisible primary key go behind that key while it is invisible.
-- session 1
SET SESSION sql_generate_invisible_primary_key = 1;
CREATE TABLE t (a INT, b INT);
INSERT INTO t VALUES (1, 2), (3, 4);
ALTER TABLE t ADD c INT DEFAULT 7 FIRST;
ALTER TABLE t MODIFY b INT FIRST;
INSERT INTO t VALUES (5, 6, 7);
ALTER TABLE t ADD d CHAR(3) FIRST, ALTER COLUMN a SET INVISIBLE;
UPDATE t SET d = 'x' WHERE b = 2;
ALTER TABLE t ALTER my_row_id SET VISIBLE;
ALTER TABLE t ADD e INT FIRST;
UPDATE t SET e = 1;
