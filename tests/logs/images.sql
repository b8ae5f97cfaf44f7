-- Row images: MINIMAL, NOBLOB, and documents written as differences.
CREATE DATABASE d; USE d; SET sql_mode = '', time_zone = '+00:00', sql_require_primary_key = OFF;
CREATE TABLE j (id INT PRIMARY KEY, a JSON, b JSON, e TEXT);
CREATE TABLE n (a INT, b BIGINT, c VARCHAR(20));
CREATE TABLE s (id INT PRIMARY KEY, a CHAR(5), b VARCHAR(300), f LONGBLOB, t TEXT);
INSERT INTO j VALUES (1,'{"a": [1, -2.5, true, null, "x"], "k": "v", "long": "0123456789012345678901234567890123456789"}','[]','e'),(2,'{"d": 1, "k": "another value to replace"}','[1]',NULL);
INSERT INTO n VALUES (1,2,'x'),(3,NULL,'y'),(3,NULL,'y');
INSERT INTO s VALUES (1,'a','b','blob','text'),(2,'c','d',NULL,NULL);
SET SESSION binlog_row_value_options = PARTIAL_JSON;
UPDATE j SET a = JSON_SET(a, '$.k', 'w'), e = 'new' WHERE id = 1;
UPDATE j SET a = JSON_REMOVE(a, '$.a[0]'), b = JSON_ARRAY_APPEND(b, '$', 1);
UPDATE j SET a = JSON_SET(a, '$.long', 'short'), b = JSON_SET(b, '$[0]', 5) WHERE id = 1;
SET SESSION binlog_row_image = MINIMAL;
UPDATE j SET e = 'x' WHERE id = 2; UPDATE j SET a = JSON_REPLACE(a, '$.k', 'u') WHERE id = 1; UPDATE j SET a = NULL WHERE id = 1;
DELETE FROM j WHERE id = 2; UPDATE n SET a = 5; DELETE FROM n LIMIT 1; INSERT INTO s (id, b) VALUES (3, 'some');
UPDATE s SET id = 4 WHERE id = 3; DELETE FROM s WHERE id = 4;
SET SESSION binlog_row_value_options = '', binlog_row_image = NOBLOB;
UPDATE s SET a = 'z'; UPDATE s SET f = 'other' WHERE id = 1; UPDATE n SET c = 'w'; DELETE FROM s WHERE id = 1;
FLUSH BINARY LOGS;
