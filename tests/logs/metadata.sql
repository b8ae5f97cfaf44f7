-- FULL metadata: names, signs, charsets, members of ENUM and SET, keys, geometry types, visibility, vector dimensions.
SET GLOBAL binlog_row_metadata = FULL;
CREATE DATABASE d; USE d; SET sql_mode = '';
CREATE TABLE s (id INT UNSIGNED, a CHAR(5), b VARCHAR(300) CHARACTER SET latin1, c BINARY(4), e TEXT CHARACTER SET utf8mb3, g ENUM('x','y','😀'), h SET('p','ß'), i DECIMAL(9,2) UNSIGNED, p POINT, v VECTOR(4), k INT INVISIBLE, PRIMARY KEY (id, a(2)));
INSERT INTO s VALUES (1,'a','ü',x'01','e','😀','p,ß',1.5,POINT(1,2),STRING_TO_VECTOR('[1,2,3,4]')),(2,'b',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
UPDATE s SET e = 'new', k = 7 WHERE id = 1; DELETE FROM s WHERE id = 2;
CREATE TABLE bits (a BIT(1), b BIT(8), c BIT(13), d BIT(64)); INSERT INTO bits VALUES (1, 255, 4097, 18446744073709551615), (0, 0, 0, 0), (NULL, NULL, NULL, NULL);
CREATE TABLE shapes (a LINESTRING, b MULTIPOINT, c GEOMETRYCOLLECTION); INSERT INTO shapes VALUES (ST_GeomFromText('LINESTRING(0 0,1 1)'), NULL, NULL);
FLUSH BINARY LOGS;
