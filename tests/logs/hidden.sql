-- Columns that are not all shown: invisible, generated, behind a functional index, of a generated invisible primary key.
CREATE DATABASE d; USE d;
CREATE TABLE i (a INT PRIMARY KEY, b INT INVISIBLE DEFAULT 3, c INT); INSERT INTO i VALUES (1, 2); INSERT INTO i (a, b, c) VALUES (2, 5, 6); UPDATE i SET c = 7;
CREATE TABLE g (a INT PRIMARY KEY, v INT AS (a + 1) VIRTUAL, s VARCHAR(20) AS (CONCAT('n', a)) STORED, KEY (v)); INSERT INTO g (a) VALUES (1), (2); UPDATE g SET a = 3 WHERE a = 1;
CREATE TABLE f (a INT PRIMARY KEY, name VARCHAR(20), j JSON, KEY lower_name ((LOWER(name))), KEY elements ((CAST(j AS UNSIGNED ARRAY)))); INSERT INTO f VALUES (1, 'Name', '[1, 2]'); UPDATE f SET name = 'Other'; DELETE FROM f;
SET sql_generate_invisible_primary_key = ON; CREATE TABLE k (b VARCHAR(5)); INSERT INTO k VALUES ('x'), ('y'); UPDATE k SET b = 'z' WHERE b = 'x'; DELETE FROM k;
FLUSH BINARY LOGS;
