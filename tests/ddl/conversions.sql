-- Values that ALTER TABLE makes anew: converted, or numbered. Where a form ends in a copy, its reason follows.

== integers to dates and times : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a BIGINT, b INT UNSIGNED, c BIGINT, d INT, e BIGINT); INSERT INTO {t} VALUES (1, 20240229102030, 20240229, 20240229102030, 102030, 240229), (2, 240229102030, 691231, 19700101000001, -8385959, 700101), (3, 20240229, 991231, 20000101, 59, 991231), (4, NULL, NULL, NULL, NULL, NULL)
----
ALTER TABLE {t} MODIFY a DATETIME(2), MODIFY b DATE, MODIFY c TIMESTAMP NULL, MODIFY d TIME(3), MODIFY e DATE
----
UPDATE {t} SET a = '2020-01-01' WHERE id = 2; DELETE FROM {t} WHERE d = '10:20:30'

== integers to dates and times, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a BIGINT, b INT, c BIGINT UNSIGNED, d INT); INSERT INTO {t} VALUES (1, 20240230102030, 20241301, 20380119031408, 106000), (2, -1, -20240229, 18446744073709551615, 8395959), (3, 1, 99, 20240200000000, -99999999), (4, 99991231235959, 20240200, 19700101000000, 2147483647)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a DATETIME, MODIFY b DATE, MODIFY c TIMESTAMP NULL, MODIFY d TIME
----
SET sql_mode = DEFAULT; UPDATE {t} SET d = '00:00:01' WHERE id = 3

== DECIMAL, FLOAT and DOUBLE to dates and times : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DECIMAL(20,6), b DOUBLE, c DECIMAL(12,3), d FLOAT); INSERT INTO {t} VALUES (1, 20240229102030.5, 20240229, 102030.123, 5959), (2, 20240229.25, 20240229102030, -1.5, 30), (3, 0.5, 1e20, 9999999.5, 102030.9)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a DATETIME(3), MODIFY b DATE, MODIFY c TIME(2), MODIFY d TIME(1)
----
SET sql_mode = DEFAULT; DELETE FROM {t} WHERE id = 2

== VARCHAR to TIMESTAMP, DATETIME, DATE and TIME : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(40), b VARCHAR(40), c VARCHAR(40), d VARCHAR(40)); INSERT INTO {t} VALUES (1, '2024-02-29 10:20:30', '2024-2-3 1:2:3', '20240229', '10:20:30.5'), (2, '2024-02-29 10:20:30.123456', '2024-02-29 10:20:30.9999995', '24-02-29', '1 10:20:30'), (3, '20240229102030', '2024-02-29T10:20:30', '2024/02/29', '-838:59:59'), (4, '2024-02-29 10:20:30+05:30', '2024-02-29 10:20:30-01:00', '2024.02.29', '102030')
----
SET time_zone = '+03:00'; ALTER TABLE {t} MODIFY a TIMESTAMP(3) NULL, MODIFY b DATETIME(6), MODIFY c DATE, MODIFY d TIME
----
SET time_zone = DEFAULT; UPDATE {t} SET c = '2020-01-01' WHERE a > '2024-02-29 07:00:00'

== VARCHAR to TIMESTAMP, DATETIME, DATE and TIME, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(40), b VARCHAR(40), c TEXT, d CHAR(40)); INSERT INTO {t} VALUES (1, '2024-02-30', 'nothing', '', '10:60:00'), (2, '2038-01-19 03:14:08', '2024-02-29 24:00:00', '2024-02', '839:00:00'), (3, '2024-02-29 10:20:30x', '2024-02-00', '2024-13-01', 'x'), (4, ' 2024-02-29 ', '9999-12-31 23:59:59.9999999', '1-1-1', '10:20x'), (5, '0000-00-00', '0000-00-00 00:00:01', '69-1-1', '2024-02-29 10:20:30')
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a TIMESTAMP NULL, MODIFY b DATETIME(6), MODIFY c DATE, MODIFY d TIME
----
SET sql_mode = DEFAULT; DELETE FROM {t} WHERE id = 2

== bytes to numbers and dates : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARBINARY(40), b BLOB, c VARBINARY(40), d BINARY(10)); INSERT INTO {t} VALUES (1, '12', '1.5e2', '2024-02-29', '2024-02-29'), (2, '-3', '-.5', '20240229', '2023-02-01'), (3, NULL, NULL, NULL, NULL)
----
ALTER TABLE {t} MODIFY a INT, MODIFY b DOUBLE, MODIFY c DATETIME, MODIFY d DATE
----
UPDATE {t} SET a = 4 WHERE id = 2

== TIME to numbers : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a TIME(3), b TIME(6), c TIME, d TIME(2)); INSERT INTO {t} VALUES (1, '10:20:30.5', '10:20:30.123456', '-838:59:59', '00:59:59.5'), (2, '-10:20:30.5', '-00:00:00.000001', '00:00:59', '-23:59:59.99'), (3, '00:00:59.499', '838:59:59', '01:00:00', '00:00:00')
----
ALTER TABLE {t} MODIFY a INT, MODIFY b DECIMAL(20,8), MODIFY c BIGINT, MODIFY d DOUBLE
----
UPDATE {t} SET a = 1 WHERE id = 2; DELETE FROM {t} WHERE a = 10203

== DATETIME, DATE and TIMESTAMP to numbers : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DATETIME(3), b DATETIME(6), c DATE, d TIMESTAMP(2) NULL, e DATE, f DATETIME); INSERT INTO {t} VALUES (1, '2024-02-29 23:59:59.5', '2024-02-29 10:20:30.123456', '2024-02-29', '2024-02-29 23:59:59.99', '9999-12-31', '2024-02-29 10:20:30'), (2, '2024-02-29 10:20:30.499', '1000-01-01', '1000-01-01', '1970-01-01 00:00:01', '2000-01-01', '1999-12-31 23:59:59')
----
SET time_zone = '-05:00'; ALTER TABLE {t} MODIFY a BIGINT, MODIFY b DECIMAL(20,4), MODIFY c INT, MODIFY d BIGINT UNSIGNED, MODIFY e DOUBLE, MODIFY f DECIMAL(30,2)
----
SET time_zone = DEFAULT; UPDATE {t} SET c = 7 WHERE id = 1

== dates and times to numbers that are too small, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DATETIME, b DATE, c TIME, d DATE, e TIMESTAMP NULL); INSERT INTO {t} VALUES (1, '2024-02-29 10:20:30', '2024-02-29', '-10:20:30', '2024-02-29', '2024-02-29 10:20:30'), (2, '2000-01-01', '2000-01-01', '00:20:24', '2000-01-01', NULL)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a INT, MODIFY b SMALLINT UNSIGNED, MODIFY c TINYINT UNSIGNED, MODIFY d YEAR, MODIFY e FLOAT
----
SET sql_mode = DEFAULT; DELETE FROM {t} WHERE id = 2

== TIME to DATETIME, DATE and TIMESTAMP : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a TIME(3), b TIME, c TIME); INSERT INTO {t} VALUES (1, '10:20:30.5', '23:59:59', '01:02:03'), (2, '-10:20:30.5', '-00:00:01', '48:00:00'), (3, '838:59:59', '-838:59:59', '00:00:00')
----
SET timestamp = 1709251200; SET time_zone = '+03:00'; ALTER TABLE {t} MODIFY a DATETIME(3), MODIFY b DATE, MODIFY c TIMESTAMP NULL
----
SET timestamp = DEFAULT; SET time_zone = DEFAULT; UPDATE {t} SET b = '2020-01-01' WHERE id = 1

== text to numbers : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(40), b VARCHAR(40), c CHAR(40), d TEXT, e VARCHAR(40)); INSERT INTO {t} VALUES (1, ' 12', '1.5e2', '1e2', '-0.5', '.5'), (2, '1.5', '123456789012345678901', '2.5', '99999.995', '1e-2'), (3, '-2.5', '0.000001', '15e-1', '+7', '12345.678')
----
ALTER TABLE {t} MODIFY a INT, MODIFY b DOUBLE, MODIFY c BIGINT UNSIGNED, MODIFY d DECIMAL(9,2), MODIFY e FLOAT
----
UPDATE {t} SET a = a + 1; DELETE FROM {t} WHERE id = 2

== text that is no number or ends otherwise, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(60), b VARCHAR(60), c VARCHAR(60), d VARCHAR(60), e VARCHAR(60)); INSERT INTO {t} VALUES (1, '12abc', '1e400', '-1', 'abc', '1e39'), (2, '', '1.5.5', '99999999999999999999', '12abc', 'x'), (3, '-', '', '1e19', '1e9', '-5'), (4, '1e', '2e3x', '0x10', '', '1e-50'), (5, '9e18', '.', '1.', '-1e-9', '1 2')
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a INT, MODIFY b DOUBLE, MODIFY c BIGINT UNSIGNED, MODIFY d DECIMAL(9,2), MODIFY e FLOAT UNSIGNED
----
SET sql_mode = DEFAULT; UPDATE {t} SET a = 0 WHERE id = 5

== text and numbers to YEAR : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(10), b INT UNSIGNED, c DECIMAL(6,1), d DOUBLE); INSERT INTO {t} VALUES (1, '0', 0, 1999.4, 69), (2, '0000', 70, 12.5, 1901), (3, '69', 2155, 0, 0), (4, '2024', 1, 99, 2000)
----
ALTER TABLE {t} MODIFY a YEAR, MODIFY b YEAR, MODIFY c YEAR, MODIFY d YEAR
----
UPDATE {t} SET a = 2020 WHERE id = 1

== text, numbers and dates to BIT : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(10), b INT, c DECIMAL(6,1), d DATE, e YEAR); INSERT INTO {t} VALUES (1, '12', -1, 2.5, '2024-02-29', 2024), (2, '1.9', 300, 3.5, '1000-01-01', 1901), (3, 'x', 0, -1, NULL, 0)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a BIT(10), MODIFY b BIT(8), MODIFY c BIT(64), MODIFY d BIT(30), MODIFY e BIT(12)
----
SET sql_mode = DEFAULT; DELETE FROM {t} WHERE id = 2

== BIT to text and bytes : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a BIT(12), b BIT(20), c BIT(64), d BIT(7), e BIT(9)); INSERT INTO {t} VALUES (1, 0, 1, 18446744073709551615, 65, 300), (2, 4095, 1048575, 0, 127, 65), (3, NULL, NULL, 97, 1, 0)
----
ALTER TABLE {t} MODIFY a VARCHAR(20), MODIFY b BLOB, MODIFY c CHAR(20), MODIFY d VARBINARY(5), MODIFY e BINARY(4)
----
UPDATE {t} SET d = 'x' WHERE id = 1; DELETE FROM {t} WHERE a = '4095'

== BIT to other numbers : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a BIT(12), b BIT(20), c BIT(64), d BIT(11)); INSERT INTO {t} VALUES (1, 0, 1, 18446744073709551615, 0), (2, 4095, 1048575, 0, 99), (3, NULL, NULL, 97, 1)
----
ALTER TABLE {t} MODIFY a DECIMAL(6,2), MODIFY b FLOAT, MODIFY c DOUBLE, MODIFY d YEAR
----
UPDATE {t} SET a = 1 WHERE id = 1

== FLOAT and DOUBLE to DECIMAL : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a FLOAT, b DOUBLE, c DOUBLE, d FLOAT); INSERT INTO {t} VALUES (1, 0.1, 0.1, 1e20, -0.5), (2, 16777217, 123456.789, -1e-20, 1.005), (3, 3.4e10, 1e10, 0, 99.995)
----
ALTER TABLE {t} MODIFY a DECIMAL(40,20), MODIFY b DECIMAL(20,2), MODIFY c DECIMAL(40,15), MODIFY d DECIMAL(5,2)
----
UPDATE {t} SET d = 1 WHERE id = 1; DELETE FROM {t} WHERE id = 3

== FLOAT and DOUBLE to text : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a FLOAT, b DOUBLE, c DOUBLE, d FLOAT(9,2), e DOUBLE(14,3)); INSERT INTO {t} VALUES (1, 0.1, 0.1, 1e20, -0.5, 1), (2, 16777217, 123456.789, -1e-20, 1.005, 0.0005), (3, 3.4e10, 1e15, 0, 99.995, -123456.7895)
----
ALTER TABLE {t} MODIFY a VARCHAR(40), MODIFY b TEXT, MODIFY c CHAR(40), MODIFY d VARCHAR(20), MODIFY e VARCHAR(40) CHARACTER SET utf16
----
UPDATE {t} SET a = 'x' WHERE id = 1; DELETE FROM {t} WHERE id = 3

== FLOAT and DOUBLE that are too large or below zero, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DOUBLE, b DOUBLE, c FLOAT, d DOUBLE, e DOUBLE); INSERT INTO {t} VALUES (1, 1e300, -1.5, -1, 1e300, 1e19), (2, -1e39, 1.5, 3e38, -1e30, -1e19)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a FLOAT, MODIFY b DOUBLE UNSIGNED, MODIFY c FLOAT UNSIGNED, MODIFY d DECIMAL(10,2), MODIFY e BIGINT
----
SET sql_mode = DEFAULT; UPDATE {t} SET b = 2 WHERE id = 1

== numbers to FLOAT(M,D) and DOUBLE(M,D) : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a DOUBLE, b DECIMAL(12,5), c VARCHAR(20), d INT); INSERT INTO {t} VALUES (1, 1.005, 2.34567, '1.255', 7), (2, 123456.789, -0.00005, '-99.995', 1234567), (3, 1e9, 99999.99999, '1e9', -8)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a FLOAT(8,2), MODIFY b DOUBLE(9,3), MODIFY c DOUBLE(7,2), MODIFY d FLOAT(6,1)
----
SET sql_mode = DEFAULT; UPDATE {t} SET d = 2 WHERE id = 1

== FLOAT and DOUBLE to other decimals : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a FLOAT, b DOUBLE, c FLOAT(9,3), d DOUBLE(12,4)); INSERT INTO {t} VALUES (1, 1.005, 2.34567, 1.255, 7.12345), (2, 1234.789, -0.00005, -99.995, 12345.6789)
----
ALTER TABLE {t} MODIFY a FLOAT(8,2), MODIFY b DOUBLE(9,3), MODIFY c FLOAT, MODIFY d DOUBLE(12,1)
----
UPDATE {t} SET d = 2 WHERE id = 1

== YEAR to other types : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a YEAR, b YEAR, c YEAR, d YEAR, e YEAR, f YEAR); INSERT INTO {t} VALUES (1, 2024, 0, 1901, 2155, 2024, 2023), (2, 0, 1999, 2000, NULL, 0, 1999)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a DOUBLE, MODIFY b DECIMAL(6,1), MODIFY c VARCHAR(5), MODIFY d FLOAT, MODIFY e DATE, MODIFY f TIME
----
SET sql_mode = DEFAULT; DELETE FROM {t} WHERE id = 2

== ENUM and SET to numbers : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a ENUM('x','y','2'), b SET('p','q','r'), c ENUM('x','y'), d SET('p','q'), e ENUM('7','8')); INSERT INTO {t} VALUES (1, 'x', 'p,r', 'y', 'p', '7'), (2, '2', '', 'x', 'p,q', '8'), (3, NULL, 'q', NULL, NULL, NULL)
----
ALTER TABLE {t} MODIFY a INT, MODIFY b DECIMAL(4,1), MODIFY c DOUBLE, MODIFY d BIT(4), MODIFY e YEAR
----
UPDATE {t} SET a = 9 WHERE id = 1

== text and numbers to ENUM and SET : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), c INT, d INT, e SET('p','q'), f ENUM('p','q')); INSERT INTO {t} VALUES (1, 'y', 'q,p', 1, 5, 'q', 'q'), (2, 'X', 'r', 2, 3, 'p', 'p'), (3, '2', '3', 12, 0, 'p,q', NULL)
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a ENUM('x','y'), MODIFY b SET('p','q','r'), MODIFY c ENUM('7','12','x'), MODIFY d SET('a','b','c'), MODIFY e ENUM('q','p'), MODIFY f SET('q','z','p')
----
SET sql_mode = DEFAULT; UPDATE {t} SET a = 'x' WHERE id = 3

== JSON to text : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a JSON, b JSON, c JSON); INSERT INTO {t} VALUES (1, '{"b": [1, 2.50, true, null], "a": "é"}', '"text"', '12'), (2, '[]', '1e3', '"é😀"'), (3, 'null', NULL, '{}')
----
ALTER TABLE {t} MODIFY a VARCHAR(200), MODIFY b TEXT, MODIFY c LONGTEXT CHARACTER SET utf16
----
UPDATE {t} SET a = 'x' WHERE id = 1; DELETE FROM {t} WHERE b = '"text"'

== JSON to numbers and dates, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a JSON, b JSON, c JSON, d JSON, e JSON); INSERT INTO {t} VALUES (1, '12', '1.5', '20240229', '-1.255', '2024'), (2, '"12"', '[1]', '"2024-02-29"', '9223372036854775806', '69'), (3, 'true', '1e20', '102030', '0', '"x"')
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a INT, MODIFY b DOUBLE, MODIFY c DATE, MODIFY d DECIMAL(10,2), MODIFY e YEAR
----
SET sql_mode = DEFAULT; UPDATE {t} SET a = 9 WHERE id = 1

== text to JSON : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(200), b TEXT CHARACTER SET utf16, c VARCHAR(200) CHARACTER SET latin1); INSERT INTO {t} VALUES (1, '{"bb": [1, -2, 32768, 2147483648, 9223372036854775808], "a": "x\\u00e9\\n"}', '"é😀"', '"é"'), (2, ' [ 1.5, 1e3, true, false, null, {"k": 1, "k": 2} ] ', '[]', '0.1'), (3, '-5', NULL, '{}')
----
ALTER TABLE {t} MODIFY a JSON, MODIFY b JSON, MODIFY c JSON
----
UPDATE {t} SET a = JSON_SET(a, '$.a', 'other') WHERE id = 1; DELETE FROM {t} WHERE id = 3

== text to JSON in a table without a key : replayed
CREATE TABLE {t} (a VARCHAR(200), b INT); INSERT INTO {t} VALUES ('{"x": 1, "a": [70000, 1.25]}', 1), ('{"x": 1, "a": [70000, 1.25]}', 1), ('"text"', 2)
----
ALTER TABLE {t} MODIFY a JSON
----
UPDATE {t} SET b = 3 WHERE b = 2; DELETE FROM {t} WHERE b = 1 LIMIT 1

== numbers to JSON : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b BIGINT UNSIGNED, c DOUBLE, d DECIMAL(10,2), e YEAR, f FLOAT); INSERT INTO {t} VALUES (1, 12, 18446744073709551615, 0.1, 1.50, 2024, 0.1), (2, -40000, 4294967296, 1e20, -3, 1999, -2.5), (3, 2147483647, 0, -0.5, 100, NULL, 3)
----
ALTER TABLE {t} MODIFY a JSON, MODIFY b JSON, MODIFY c JSON, MODIFY d JSON, MODIFY e JSON, MODIFY f JSON
----
UPDATE {t} SET a = JSON_ARRAY(a, 1) WHERE id = 1; DELETE FROM {t} WHERE id = 2

== ucs2, utf16, utf16le and utf32 : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET ucs2, b CHAR(10) CHARACTER SET utf16, c TEXT CHARACTER SET utf32, d VARCHAR(20) CHARACTER SET utf16le, e VARCHAR(20) CHARACTER SET utf16); INSERT INTO {t} VALUES (1, 'aé日', 'a😀', '日😀x', 'é😀', '日'), (2, '', ' x ', '', ' ', 'y'), (3, NULL, NULL, NULL, NULL, NULL)
----
ALTER TABLE {t} MODIFY a VARCHAR(20) CHARACTER SET utf16, MODIFY b CHAR(10) CHARACTER SET utf32, MODIFY c TEXT CHARACTER SET utf16le, MODIFY d VARCHAR(20) CHARACTER SET utf8mb4, MODIFY e VARCHAR(20) CHARACTER SET ucs2
----
UPDATE {t} SET a = '😀' WHERE id = 2; DELETE FROM {t} WHERE id = 3

== characters that ucs2 and utf8mb3 lack, not strict : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET utf16, b VARCHAR(20) CHARACTER SET utf32, c VARCHAR(20) CHARACTER SET utf8mb4); INSERT INTO {t} VALUES (1, 'a😀b', '😀', 'x😀'), (2, '日', 'é', '日')
----
SET sql_mode = ''; ALTER TABLE {t} MODIFY a VARCHAR(20) CHARACTER SET ucs2, MODIFY b VARCHAR(20) CHARACTER SET utf8mb3, MODIFY c CHAR(5) CHARACTER SET sjis
----
SET sql_mode = DEFAULT; UPDATE {t} SET a = 'x' WHERE id = 2

== CONVERT TO CHARACTER SET utf16 : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARCHAR(20), b TEXT, c CHAR(5), d ENUM('é','x'), KEY (a)) CHARACTER SET ucs2; INSERT INTO {t} VALUES (1, 'aé日', '日', 'x ', 'é'), (2, '', '', '', 'x')
----
ALTER TABLE {t} CONVERT TO CHARACTER SET utf16
----
UPDATE {t} SET a = '😀' WHERE id = 2

== bytes to ucs2 and utf16 : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a VARBINARY(20), b BLOB); INSERT INTO {t} VALUES (1, x'00610062', x'D83DDE00'), (2, x'65E5', x'0061')
----
ALTER TABLE {t} MODIFY a VARCHAR(20) CHARACTER SET ucs2, MODIFY b TEXT CHARACTER SET utf16
----
UPDATE {t} SET a = 'x' WHERE id = 2

== ZEROFILL to text : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT(7) ZEROFILL, b DECIMAL(8,2) ZEROFILL, c DOUBLE ZEROFILL, d FLOAT(9,2) ZEROFILL); INSERT INTO {t} VALUES (1, 12, 1.5, 0.1, 2.345), (2, 12345678, 123456.78, 1e20, 0)
----
ALTER TABLE {t} MODIFY a VARCHAR(20), MODIFY b CHAR(20), MODIFY c VARCHAR(40), MODIFY d TEXT
----
UPDATE {t} SET a = 'x' WHERE id = 2

== TIMESTAMP to DATETIME under a named time zone : not known, the conversion of TIMESTAMP to DATETIME
CREATE TABLE {t} (id INT PRIMARY KEY, a TIMESTAMP NULL); INSERT INTO {t} VALUES (1, '2024-02-29 10:20:30')
----
SET time_zone = 'SYSTEM'; ALTER TABLE {t} MODIFY a DATETIME

== SET of 64 members, some of them twice : replayed
SET sql_mode = ''; CREATE TABLE {t} (id INT PRIMARY KEY, s SET('m0','m1','m2','m3','m4','m5','m6','m7','m8','m9','m10','m11','m12','m13','m14','m15','m16','m17','m18','m19','m20','m21','m22','m23','m24','m25','m26','m27','m28','m29','m30','m31','m32','m33','m34','m35','m36','m37','m38','m39','m40','m41','m42','m43','m44','m45','m46','m47','m48','m49','m50','m51','m52','m53','m54','m55','m56','m57','m58','m59','m60','m61','m62','m63','m63','m0')); INSERT INTO {t} VALUES (1, 'm0,m63'), (2, 'm5'), (3, '')
----
ALTER TABLE {t} ADD c INT DEFAULT 1
----
SET sql_mode = DEFAULT; UPDATE {t} SET s = 'm1,m62' WHERE id = 2; DELETE FROM {t} WHERE id = 3

== FLOAT(10.3) : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a FLOAT(10.3), b INT(4.2), c CHAR(5.9)); INSERT INTO {t} VALUES (1, 1.25, 7, 'abc')
----
ALTER TABLE {t} ADD d FLOAT(30.5) DEFAULT 1.5
----
UPDATE {t} SET a = 0.1

== defaults with seven digits after the second : replayed
CREATE TABLE {t} (id INT PRIMARY KEY); INSERT INTO {t} VALUES (1)
----
ALTER TABLE {t} ADD a DATETIME(6) DEFAULT '2020-01-01 10:20:30.1234567', ADD b TIME(6) DEFAULT '10:20:30.9999995', ADD c DATETIME DEFAULT '2020-01-01 10:20:30.4999999', ADD d TIMESTAMP(3) DEFAULT '2020-01-01 10:20:30.1234567'
----
INSERT INTO {t} (id) VALUES (2); UPDATE {t} SET a = NULL WHERE id = 1

== DROP FOREIGN KEY of a MyISAM table : replayed
CREATE TABLE {t} (id INT PRIMARY KEY, a INT, b INT, KEY k (a), FOREIGN KEY fk (a) REFERENCES nowhere (id)) ENGINE = MyISAM; INSERT INTO {t} VALUES (1, 1, 1)
----
ALTER TABLE {t} DROP FOREIGN KEY fk; ALTER TABLE {t} DROP FOREIGN KEY other, ADD c INT
----
INSERT INTO {t} VALUES (2, 2, 2, 2)

== ADD COLUMN … AUTO_INCREMENT : replayed
CREATE TABLE {t} (k INT PRIMARY KEY, a INT); INSERT INTO {t} VALUES (30, 1), (10, 2), (20, 3), (-5, 4)
----
ALTER TABLE {t} ADD c INT NOT NULL AUTO_INCREMENT UNIQUE
----
INSERT INTO {t} (k, a) VALUES (5, 5); UPDATE {t} SET a = 9 WHERE c = 1; DELETE FROM {t} WHERE c = 3

== ADD COLUMN … AUTO_INCREMENT FIRST as the primary key : replayed
CREATE TABLE {t} (k VARCHAR(10) NOT NULL, a INT, UNIQUE KEY (k)); INSERT INTO {t} VALUES ('b', 1), ('a', 2), ('C', 3)
----
ALTER TABLE {t} ADD id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY FIRST, AUTO_INCREMENT = 100
----
INSERT INTO {t} (k, a) VALUES ('0', 5); UPDATE {t} SET a = 9 WHERE id = 101

== DROP PRIMARY KEY, ADD COLUMN … AUTO_INCREMENT PRIMARY KEY : replayed
CREATE TABLE {t} (a INT, b INT, PRIMARY KEY (a DESC, b)); INSERT INTO {t} VALUES (1, 2), (1, 1), (3, 0), (2, 5)
----
ALTER TABLE {t} DROP PRIMARY KEY, ADD id INT AUTO_INCREMENT PRIMARY KEY
----
INSERT INTO {t} (a, b) VALUES (9, 9); DELETE FROM {t} WHERE id = 2

== ADD COLUMN … AUTO_INCREMENT with steps : replayed
CREATE TABLE {t} (k INT PRIMARY KEY, a INT); INSERT INTO {t} VALUES (3, 1), (1, 2), (2, 3)
----
SET auto_increment_increment = 10, auto_increment_offset = 3; ALTER TABLE {t} ADD c INT AUTO_INCREMENT, ADD KEY (c)
----
INSERT INTO {t} (k, a) VALUES (5, 5); SET auto_increment_increment = DEFAULT, auto_increment_offset = DEFAULT; UPDATE {t} SET a = 9 WHERE c = 13

== ADD COLUMN … AUTO_INCREMENT that copies the table : replayed
CREATE TABLE {t} (k INT PRIMARY KEY, a INT); INSERT INTO {t} VALUES (3, 1), (1, 2), (2, 3)
----
ALTER TABLE {t} ADD c INT AUTO_INCREMENT UNIQUE, MODIFY a BIGINT, ALGORITHM = COPY
----
INSERT INTO {t} (k, a) VALUES (5, 5); UPDATE {t} SET a = 9 WHERE c = 2

== ADD COLUMN … AUTO_INCREMENT of a partitioned table : replayed
CREATE TABLE {t} (k INT PRIMARY KEY, a INT) PARTITION BY HASH (k) PARTITIONS 3; INSERT INTO {t} VALUES (3, 1), (1, 2), (2, 3), (4, 4), (6, 5), (5, 6)
----
ALTER TABLE {t} ADD c INT AUTO_INCREMENT, ADD KEY (c)
----
INSERT INTO {t} (k, a) VALUES (7, 5); UPDATE {t} SET a = 9 WHERE c = 2

== ADD COLUMN … AUTO_INCREMENT, rows without a key that are alike : replayed
CREATE TABLE {t} (a INT, b INT); INSERT INTO {t} VALUES (1, 1), (1, 1), (1, 1)
----
ALTER TABLE {t} ADD c INT AUTO_INCREMENT PRIMARY KEY
----
INSERT INTO {t} (a) VALUES (7); UPDATE {t} SET a = 9 WHERE c = 2

== ADD COLUMN … AUTO_INCREMENT, rows without a key : not known, no key orders them
CREATE TABLE {t} (a INT, b INT); INSERT INTO {t} VALUES (1, 1), (2, 1)
----
ALTER TABLE {t} ADD c INT AUTO_INCREMENT PRIMARY KEY
