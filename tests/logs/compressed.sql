-- Compressed transactions; among them rows and documents too large to be stored otherwise here.
CREATE DATABASE d; USE d; SET SESSION binlog_transaction_compression = ON;
CREATE TABLE s (id INT PRIMARY KEY, a VARCHAR(300), f LONGBLOB);
CREATE TABLE j (id INT PRIMARY KEY, a JSON);
INSERT INTO s VALUES (1, 'small', 'blob');
INSERT INTO s VALUES (2, REPEAT('ü', 300), REPEAT(x'00ff', 40000)), (3, NULL, NULL);
INSERT INTO j VALUES (1, JSON_ARRAY(REPEAT('x', 40000), REPEAT('y', 40000), 1.5, 70000, JSON_OBJECT('k', 'v')));
INSERT INTO j VALUES (2, JSON_OBJECT('long', REPEAT('z', 70000), 'i', 1, 'n', NULL));
BEGIN; UPDATE s SET a = 'zip'; DELETE FROM s WHERE id = 3; UPDATE j SET id = 3 WHERE id = 2; COMMIT;
SET SESSION binlog_row_value_options = PARTIAL_JSON; UPDATE j SET a = JSON_SET(a, '$[2]', 2.5) WHERE id = 1;
SET SESSION binlog_transaction_compression = OFF; DELETE FROM s WHERE id = 1;
FLUSH BINARY LOGS;
