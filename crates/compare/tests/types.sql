-- Every column type, with values at its edges, keys of many kinds. Loaded with sql_mode='' so that odd values go in.
SET NAMES utf8mb4;
SET sql_mode = '', time_zone = '+03:00';
CREATE DATABASE types DEFAULT CHARACTER SET utf8mb4;
USE types;

CREATE TABLE ints (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  a TINYINT, b TINYINT UNSIGNED, c SMALLINT, d SMALLINT UNSIGNED, e MEDIUMINT, f MEDIUMINT UNSIGNED,
  g INT, h INT UNSIGNED, i BIGINT, j BIGINT UNSIGNED, k BOOL);
INSERT INTO ints VALUES
  (-5, -128, 255, -32768, 65535, -8388608, 16777215, -2147483648, 4294967295, -9223372036854775808, 18446744073709551615, 1),
  (1, 127, 0, 32767, 0, 8388607, 0, 2147483647, 0, 9223372036854775807, 0, 0),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (300, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, 1);

CREATE TABLE numbers (
  id INT PRIMARY KEY, a DECIMAL(10,2), b DECIMAL(65,30), c DECIMAL(5,0) UNSIGNED, d DECIMAL(30,30), e FLOAT, f DOUBLE,
  g FLOAT UNSIGNED, h DOUBLE UNSIGNED, i BIT(1), j BIT(9), k BIT(64));
INSERT INTO numbers VALUES
  (1, -12345678.91, 99999999999999999999999999999999999.999999999999999999999999999999, 99999, 0.000000000000000000000000000001,
   16777217, 0.1, 1.5, 1e300, b'1', b'101010101', b'1111111111111111111111111111111111111111111111111111111111111111'),
  (2, 0.01, -0.000000000000000000000000000001, 0, -0.999999999999999999999999999999, -3.40282e38, -1.7976931348623157e308, 0, 0,
   b'0', 0, 0),
  (3, 0, 0, 1, 0, 1e-38, 5e-324, 0.333333333, 2.2250738585072014e-308, NULL, NULL, 0x8000000000000000),
  (4, NULL, NULL, NULL, NULL, -0e0, -0e0, NULL, NULL, NULL, NULL, NULL),
  (5, 1.005, 1e20, 12, 0.5, 123456789, 1e15, 1e-5, 1e16, b'1', b'1', 1),
  (6, -0.005, -1, 7, 0.25, 1234567, 123456789012345678, 999999.5, 1e-15, b'1', b'1', 1);

CREATE TABLE temporal (
  id INT PRIMARY KEY, a DATE, b TIME, c TIME(1), d TIME(3), e TIME(6), f DATETIME, g DATETIME(2), h DATETIME(6),
  i TIMESTAMP NULL, j TIMESTAMP(3) NULL, k TIMESTAMP(6) NULL, l YEAR);
INSERT INTO temporal VALUES
  (1, '2026-11-21', '-838:59:59', '-00:00:00.1', '-838:59:58.999', '-00:00:00.000001', '2026-11-21 10:11:12',
   '1000-01-01 00:00:00.01', '9999-12-31 23:59:59.999999', '2026-11-21 10:11:12', '1970-01-01 03:00:01.001',
   '2038-01-19 03:14:07.999999', 2026),
  (2, '0000-00-00', '838:59:59', '00:00:00.1', '12:00:00.500', '23:59:59.999999', '0000-00-00 00:00:00',
   '0000-00-00 00:00:00.00', '2020-02-29 12:34:56.000001', '0000-00-00 00:00:00', '0000-00-00 00:00:00.000',
   '2000-01-01 00:00:00.000000', 0),
  (3, '1000-01-01', '00:00:00', '-00:00:01.0', '-00:00:01.000', '-12:34:56.654321', '1969-12-31 23:59:59',
   '2026-01-01 00:00:00.99', '2026-01-01 00:00:00', '2026-07-01 00:00:00', '2026-07-01 00:00:00.5', '2026-07-01 00:00:00.5', 1901),
  (4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (5, '2026-00-00', '01:02:03', '01:02:03.4', '01:02:03.456', '01:02:03.456789', '2026-05-00 00:00:00', '2155-01-01', '2026-05-06',
   '2024-02-29 23:59:59', '2024-02-29 23:59:59.999', '2024-02-29 23:59:59.123456', 2155);

CREATE TABLE texts (
  id INT PRIMARY KEY, a CHAR(10), b CHAR(255), c VARCHAR(10), d VARCHAR(300), e VARCHAR(10) CHARACTER SET latin1,
  f CHAR(10) CHARACTER SET latin1, g TINYTEXT, h TEXT, i MEDIUMTEXT, j LONGTEXT, k TEXT CHARACTER SET latin1,
  l VARCHAR(20) CHARACTER SET ascii, m VARCHAR(20) COLLATE utf8mb4_bin, n CHAR(8) CHARACTER SET utf8mb3);
INSERT INTO texts VALUES
  (1, 'a  ', REPEAT('é', 255), 'tab\there', REPEAT('日', 300), 'Zürich€', 'ß  ', 'tiny', REPEAT('x', 65535),
   REPEAT('y', 70000), REPEAT('z', 300000), 'Ä\nÖ', 'plain', 'Bin', 'utf3é'),
  (2, '', '', '', '', '', '', '', '', '', '', '', '', '', ''),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, '😀', 'quote\'s "two"', 'back\\slash', 'NULL', 'x ', ' y', '\0nul', 'a\0b', '\Z', '%_', 'latin', 'tail ', 'tail ', 'tail ');

CREATE TABLE bytes (
  id INT PRIMARY KEY, a BINARY(4), b VARBINARY(9), c TINYBLOB, d BLOB, e MEDIUMBLOB, f LONGBLOB, g BINARY(255), h VARBINARY(700));
INSERT INTO bytes VALUES
  (1, 'ab', 'cd\0', 'e', REPEAT(UNHEX('00FF27'), 1000), REPEAT('m', 70000), REPEAT(UNHEX('80'), 17000000), 'x', REPEAT('v', 700)),
  (2, UNHEX('00000000'), '', '', '', '', '', '', ''),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, UNHEX('20202020'), UNHEX('20'), UNHEX('0D0A09'), UNHEX('5C27'), UNHEX('FFFE'), '0', UNHEX('FF00FF'), UNHEX('C3'));

CREATE TABLE lists (
  id INT PRIMARY KEY, a ENUM('red', 'green', 'it''s', ''), b SET('x', 'y', 'z'), c ENUM('ä', 'ö') CHARACTER SET latin1,
  d SET('a1','a2','a3','a4','a5','a6','a7','a8','a9','a10','a11','a12','a13','a14','a15','a16','a17','a18','a19','a20','a21','a22',
        'a23','a24','a25','a26','a27','a28','a29','a30','a31','a32','a33','a34','a35','a36','a37','a38','a39','a40','a41','a42','a43',
        'a44','a45','a46','a47','a48','a49','a50','a51','a52','a53','a54','a55','a56','a57','a58','a59','a60','a61','a62','a63','a64'));
INSERT INTO lists VALUES
  (1, 'red', 'x,z', 'ä', 'a1,a64'), (2, 'it''s', '', 'ö', ''), (3, NULL, NULL, NULL, NULL),
  (4, 'no such', 'y', 2, 18446744073709551615), (5, '', 7, 1, 9007199254740993), (6, 2, 1, 1, 1);

CREATE TABLE beyond (
  id INT PRIMARY KEY, a ENUM('', 'a', 'ß', '😀', '?') NOT NULL DEFAULT '😀', `b``ü` SET('😀', '?', 'it''s', '😁\\\n') COMMENT '  `a` enum(''?'')',
  c ENUM('?', '𝔘') CHARACTER SET utf16 DEFAULT '𝔘', d VARCHAR(9) DEFAULT '😀', e VARCHAR(20) AS (CONCAT(d, '😁')) STORED);
INSERT INTO beyond (id, a, `b``ü`, c, d) VALUES (1, '😀', '😀,😁\\\n', '𝔘', '😁'), (2, '?', '?', '?', '?');
INSERT INTO beyond (id) VALUES (3);

CREATE TABLE documents (id INT PRIMARY KEY, j JSON, k JSON NOT NULL);
INSERT INTO documents VALUES
  (1, '{"b": 1, "aa": [1, 2.5, -3, 1e100, "text", null, true, false, {}, []]}', '[]'),
  (2, NULL, 'null'),
  (3, JSON_OBJECT('dt', CAST('2026-11-21 10:11:12.123456' AS DATETIME(6)), 'd', CAST('2026-11-21' AS DATE),
      't', CAST('-10:11:12.5' AS TIME(6)), 'dec', CAST(123.450 AS DECIMAL(10,3)), 'blob', CAST(UNHEX('00FF') AS BINARY),
      'u', 18446744073709551615, 'i', -9223372036854775808, 'ts', TIMESTAMP('2020-01-01 00:00:00')), '1.0'),
  (4, CONCAT('"', REPEAT('é', 40000), '"'), '"\\u0000\\"\\\\/\\b\\f\\n\\r\\t\\u001f😀"'),
  (5, JSON_ARRAY(0.1e0, 1e15, 1e16, 1e-7, 100, 16777217, 3.0e0, -0.0e0, CAST(0.1 AS FLOAT)), '{"": ""}'),
  (6, JSON_ARRAY(CAST(b'101' AS UNSIGNED), CAST(2026 AS YEAR), ST_GeomFromText('POINT(1 2)')), '[[[[[[1]]]]]]');

CREATE TABLE shapes (id INT PRIMARY KEY, g GEOMETRY, p POINT SRID 4326, l LINESTRING, y POLYGON, c GEOMETRYCOLLECTION, v VECTOR(3));
INSERT INTO shapes VALUES
  (1, ST_GeomFromText('POINT(1 2)'), ST_GeomFromText('POINT(10 20)', 4326), ST_GeomFromText('LINESTRING(0 0,1 1,2 0)'),
   ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))'), ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 1))'), STRING_TO_VECTOR('[1,-2.5,3e10]')),
  (2, NULL, NULL, NULL, NULL, NULL, NULL);

CREATE TABLE made (
  a INT NOT NULL, b INT NOT NULL, v INT AS (a + b) VIRTUAL, s VARCHAR(30) AS (CONCAT(a, '-', b)) STORED,
  w JSON AS (JSON_OBJECT('a', a)) VIRTUAL, hidden INT INVISIBLE DEFAULT 7, n VARCHAR(20), PRIMARY KEY (b, a), KEY (v));
INSERT INTO made (a, b, n) VALUES (1, 2, 'x'), (-3, 4, NULL), (2, 1, 'y');
INSERT INTO made (a, b, hidden) VALUES (9, 9, 10), (0, 0, NULL);

CREATE TABLE functional (id INT PRIMARY KEY, a INT, t VARCHAR(10), KEY f ((a * 2)), KEY g ((LOWER(t))));
INSERT INTO functional VALUES (1, 2, 'A'), (2, NULL, NULL);

CREATE TABLE keyless (a INT, b VARCHAR(10), f FLOAT, j JSON);
INSERT INTO keyless VALUES (1, 'x', 16777217, '{"a": 1}'), (1, 'x', 16777217, '{"a": 1}'), (1, 'X', 16777216, '{"a": 1}'),
  (NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL), (NULL, NULL, NULL, NULL), (2, '', -0e0, '[]');

CREATE TABLE unique_not_null (a INT, k VARCHAR(20) NOT NULL, u INT NOT NULL, UNIQUE (a), UNIQUE ku (k, u));
INSERT INTO unique_not_null VALUES (NULL, 'b', 1), (2, 'B ', 2), (3, 'é', 3);

CREATE TABLE text_key (k VARCHAR(20) PRIMARY KEY, v INT);
INSERT INTO text_key VALUES ('a', 1), ('b', 2), ('Z', 3), ('', 4), ('a b', 5);

CREATE TABLE binary_key (k VARBINARY(20) PRIMARY KEY, v INT);
INSERT INTO binary_key VALUES ('a', 1), ('a\0', 2), ('Z', 3), ('', 4), ('ab', 5), (UNHEX('FF'), 6);

CREATE TABLE fixed_binary_key (k BINARY(3) PRIMARY KEY);
INSERT INTO fixed_binary_key VALUES ('a'), (UNHEX('000000')), ('abc'), (UNHEX('610001'));

CREATE TABLE time_key (k DATETIME(3), d DATE, PRIMARY KEY (d, k));
INSERT INTO time_key VALUES ('2026-01-01 00:00:00.001', '2026-01-02'), ('2025-01-01', '2026-01-02'), ('2026-01-01', '0000-00-00');

CREATE TABLE decimal_key (k DECIMAL(12,4) PRIMARY KEY);
INSERT INTO decimal_key VALUES (-1.5), (0), (1.5), (-99999999.9999), (10), (9);

CREATE TABLE parts (id INT, d INT, PRIMARY KEY (id, d)) PARTITION BY HASH (d) PARTITIONS 4;
INSERT INTO parts VALUES (1, 1), (1, 2), (2, 3), (3, 4);

CREATE TABLE empty_table (id INT PRIMARY KEY, v TEXT);
CREATE TABLE `odd ``name` (`select` INT PRIMARY KEY, `a b` INT, `ü` INT);
INSERT INTO `odd ``name` VALUES (1, 2, 3);

CREATE TABLE many (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(40), n INT, KEY (n));
INSERT INTO many (v, n)
  WITH RECURSIVE seq AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM seq WHERE x < 900) SELECT CONCAT('value ', x), x % 7 FROM seq;
INSERT INTO many (v, n) SELECT v, n FROM many;
INSERT INTO many (v, n) SELECT v, n FROM many;
INSERT INTO many (v, n) SELECT v, n FROM many;

-- Changes on top, so that rows come from update and delete images too.
UPDATE ints SET a = a + 1 WHERE id = 300;
UPDATE documents SET j = JSON_SET(j, '$.b', 2) WHERE id = 1;
UPDATE texts SET c = 'changed', h = 'shorter' WHERE id = 1;
UPDATE made SET a = a + 10 WHERE b = 4;
DELETE FROM many WHERE id % 3 = 0;
UPDATE many SET v = CONCAT(v, '!') WHERE id % 5 = 0;
DELETE FROM keyless WHERE a IS NULL LIMIT 1;
UPDATE temporal SET k = '2026-01-01 00:00:00.000001', l = 1999 WHERE id = 4;
