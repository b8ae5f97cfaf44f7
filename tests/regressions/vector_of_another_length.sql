-- Another number of entries makes the source copy the table, and a date that the session rejects become zero: here it
-- stayed, and the next change stopped replay with 1032.
-- session 1
SET SESSION sql_mode = 'ALLOW_INVALID_DATES';
CREATE TABLE v1 (d DATETIME(2), n INT, v VECTOR(3));
CREATE TABLE v2 (d DATE, n INT, v VECTOR);
INSERT INTO v1 VALUES ('2024-02-30', -6, NULL), ('2024-02-30 10:00:00.5', 1, STRING_TO_VECTOR('[1,2,3]'));
INSERT INTO v2 VALUES ('2024-02-30', -6, NULL), ('2024-02-30', 1, STRING_TO_VECTOR('[1,2,3]'));
SET SESSION sql_mode = 'ANSI';
ALTER TABLE v1 MODIFY v VECTOR(4) NULL;
ALTER TABLE v2 MODIFY v VECTOR(2048) NULL;
UPDATE v1 SET n = n + 23;
UPDATE v2 SET n = n + 23;
SET SESSION sql_mode = 'ALLOW_INVALID_DATES';
INSERT INTO v2 VALUES ('2024-04-31', 3, NULL);
SET SESSION sql_mode = 'ANSI';
ALTER TABLE v2 MODIFY v VECTOR(100);
DELETE FROM v2 WHERE n = 3;
