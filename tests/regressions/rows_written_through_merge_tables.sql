-- Rows written through a MERGE table are its members': an INSERT goes to the first or the last one, anything else to
-- nobody knows which, so that all are copied. They were kept as rows of the MERGE table.
-- tables copied again: 3
-- session 1
CREATE TABLE m1 (a INT PRIMARY KEY, v VARCHAR(5)) ENGINE=MyISAM;
CREATE TABLE m2 (a INT PRIMARY KEY, v VARCHAR(5)) ENGINE=MyISAM;
CREATE TABLE mm (a INT NOT NULL, v VARCHAR(5), KEY (a)) ENGINE=MERGE UNION=(m1, m2) INSERT_METHOD=LAST;
CREATE TABLE mf LIKE mm;
ALTER TABLE mf INSERT_METHOD=FIRST;
INSERT INTO mm VALUES (1, 'last');
INSERT INTO mf VALUES (1, 'first'), (2, 'first');
UPDATE m2 SET v = 'm2' WHERE a = 1;
DELETE FROM m1 WHERE a = 2;
TRUNCATE TABLE mf;
INSERT INTO mm VALUES (1, 'again');
INSERT INTO m1 VALUES (1, 'again');
CREATE TABLE k1 (a INT, v VARCHAR(5)) ENGINE=MyISAM;
CREATE TABLE k2 (a INT, v VARCHAR(5)) ENGINE=MyISAM;
CREATE TABLE kk (a INT, v VARCHAR(5)) ENGINE=MRG_MYISAM UNION=(k1) INSERT_METHOD=FIRST;
INSERT INTO kk VALUES (1, 'a'), (1, 'a');
ALTER TABLE kk UNION=(k1, k2), INSERT_METHOD=LAST;
INSERT INTO kk VALUES (1, 'a'), (2, 'b');
INSERT INTO k2 VALUES (2, 'b');
DELETE FROM k2 LIMIT 1;
ALTER TABLE kk UNION=(k2);
ALTER TABLE kk ENGINE=MyISAM;
INSERT INTO kk VALUES (3, 'own');
UPDATE mm, k1 SET mm.v = 'upd', k1.v = 'k' WHERE mm.a = k1.a;
INSERT INTO mm VALUES (5, 'x');
DELETE FROM mf WHERE a = 5;
DROP TABLE mm;
INSERT INTO m1 VALUES (6, 'y');
