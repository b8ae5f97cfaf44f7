-- XA: committed in another transaction's place, rolled back, in one phase, and one left prepared.
CREATE DATABASE d; USE d; CREATE TABLE t (a INT PRIMARY KEY, b INT);
XA START 'one'; INSERT INTO t VALUES (1, 1); XA END 'one'; XA PREPARE 'one'; XA COMMIT 'one';
XA START 'two', x'00ff', 5; INSERT INTO t VALUES (2, 2); XA END 'two', x'00ff', 5; XA PREPARE 'two', x'00ff', 5; XA ROLLBACK 'two', x'00ff', 5;
XA START 'phase'; UPDATE t SET b = 3; XA END 'phase'; XA COMMIT 'phase' ONE PHASE;
XA START 'left'; INSERT INTO t VALUES (4, 4); XA END 'left'; XA PREPARE 'left';
FLUSH BINARY LOGS;
