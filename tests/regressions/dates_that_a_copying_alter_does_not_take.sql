-- Dates that the session of an ALTER TABLE does not take become zero where it copies the table; here they stayed.
-- session 1
SET SESSION sql_mode = 'ALLOW_INVALID_DATES';
CREATE TABLE t (id INT PRIMARY KEY, a INT, d DATETIME(3), e DATE, KEY (e));
INSERT INTO t VALUES (1, 1, '2024-02-30 10:00:00.123', '2024-06-31'), (2, 2, '2024-02-29 10:00:00.999', '2024-02-00');
SET SESSION sql_mode = '';
ALTER TABLE t MODIFY d DATETIME(1);
UPDATE t SET a = 5 WHERE id = 1;
SET SESSION sql_mode = 'NO_ZERO_IN_DATE,ALLOW_INVALID_DATES';
INSERT INTO t VALUES (3, 3, '2024-04-31', '2024-04-31');
ALTER TABLE t MODIFY a BIGINT;
DELETE FROM t WHERE e = '2024-04-31';
UPDATE t SET a = 6;
