-- Transactions without GTIDs, and no checksums; among them one that rolls back to a savepoint over a table that cannot.
SET GLOBAL gtid_mode = ON_PERMISSIVE; SET GLOBAL gtid_mode = OFF_PERMISSIVE; SET GLOBAL gtid_mode = OFF; SET GLOBAL enforce_gtid_consistency = OFF; SET GLOBAL binlog_checksum = NONE;
RESET BINARY LOGS AND GTIDS;
CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, b VARCHAR(10)); INSERT INTO d.t VALUES (1, 'x'), (2, NULL); UPDATE d.t SET b = 'y'; DELETE FROM d.t WHERE a = 1;
CREATE TABLE d.m (a INT) ENGINE = MyISAM; BEGIN; INSERT INTO d.t VALUES (3, 'kept'); SAVEPOINT `a b`; UPDATE d.t SET b = 'back' WHERE a = 2; INSERT INTO d.m VALUES (1); ROLLBACK TO `a b`; COMMIT;
FLUSH BINARY LOGS;
