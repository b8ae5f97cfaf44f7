-- Another PRIMARY KEY over the same columns, with other prefixes: rows stand elsewhere on disk; a DELETE did not find its row.
-- session 1
CREATE TABLE t (a VARCHAR(100) NOT NULL, b VARCHAR(100) COLLATE utf8mb4_general_ci NOT NULL, PRIMARY KEY (b (20), a (2) DESC)) COLLATE utf8mb4_bin;
INSERT INTO t VALUES ('漢字', '9-g'), (REPEAT('A', 33), 'ä-g'), ('z ', 'a-g'), ('C', REPEAT('é', 12));
DO SLEEP(0.5);
ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b (2), a (16) DESC);
DELETE FROM t WHERE a = '漢字';
INSERT INTO t VALUES ('A', 'G');
UPDATE t SET a = 'D' WHERE a = 'C';
DO SLEEP(0.5);
ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (b, a);
DELETE FROM t WHERE a = 'D';
