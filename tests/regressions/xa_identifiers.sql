-- XA identifiers of every kind: an empty one stopped replay for ever, and one with a format id beyond 32 bits left its XA COMMIT
-- without a transaction.
-- session 1
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(9));
-- unit
XA START '';
INSERT INTO t (v) VALUES ('prepared');
XA END '';
XA PREPARE '';
INSERT INTO t (v) VALUES ('between');
XA COMMIT '';
XA START '';
UPDATE t SET v = 'one';
XA END '';
XA COMMIT '' ONE PHASE;
-- unit
SET SESSION binlog_transaction_compression = 0;
XA START '', '';
INSERT INTO t (v) VALUES ('prepared');
XA END '', '';
XA PREPARE '', '';
INSERT INTO t (v) VALUES ('between');
XA ROLLBACK '', '';
XA START '', '';
UPDATE t SET v = 'one';
XA END '', '';
XA COMMIT '', '' ONE PHASE;
-- unit
XA START '', 'b';
INSERT INTO t (v) VALUES ('prepared');
XA END '', 'b';
XA PREPARE '', 'b';
INSERT INTO t (v) VALUES ('between');
XA COMMIT '', 'b';
XA START '', 'b';
UPDATE t SET v = 'one';
XA END '', 'b';
XA COMMIT '', 'b' ONE PHASE;
-- unit
SET SESSION binlog_transaction_compression = 1;
XA START x'', x'', 0;
INSERT INTO t (v) VALUES ('prepared');
XA END x'', x'', 0;
XA PREPARE x'', x'', 0;
INSERT INTO t (v) VALUES ('between');
XA COMMIT x'', x'', 0;
XA START x'', x'', 0;
UPDATE t SET v = 'one';
XA END x'', x'', 0;
XA COMMIT x'', x'', 0 ONE PHASE;
-- unit
XA START 'a', 'b', 4294967295;
INSERT INTO t (v) VALUES ('prepared');
XA END 'a', 'b', 4294967295;
XA PREPARE 'a', 'b', 4294967295;
INSERT INTO t (v) VALUES ('between');
XA ROLLBACK 'a', 'b', 4294967295;
XA START 'a', 'b', 4294967295;
UPDATE t SET v = 'one';
XA END 'a', 'b', 4294967295;
XA COMMIT 'a', 'b', 4294967295 ONE PHASE;
-- unit
SET SESSION binlog_transaction_compression = 0;
XA START 'a', 'b', 4294967296;
INSERT INTO t (v) VALUES ('prepared');
XA END 'a', 'b', 4294967296;
XA PREPARE 'a', 'b', 4294967296;
INSERT INTO t (v) VALUES ('between');
XA COMMIT 'a', 'b', 4294967296;
XA START 'a', 'b', 4294967296;
UPDATE t SET v = 'one';
XA END 'a', 'b', 4294967296;
XA COMMIT 'a', 'b', 4294967296 ONE PHASE;
-- unit
XA START 'a', 'b', 9223372036854775807;
INSERT INTO t (v) VALUES ('prepared');
XA END 'a', 'b', 9223372036854775807;
XA PREPARE 'a', 'b', 9223372036854775807;
INSERT INTO t (v) VALUES ('between');
XA COMMIT 'a', 'b', 9223372036854775807;
XA START 'a', 'b', 9223372036854775807;
UPDATE t SET v = 'one';
XA END 'a', 'b', 9223372036854775807;
XA COMMIT 'a', 'b', 9223372036854775807 ONE PHASE;
-- unit
SET SESSION binlog_transaction_compression = 1;
XA START 0x61, 0x62, 0x100000007;
INSERT INTO t (v) VALUES ('prepared');
XA END 0x61, 0x62, 0x100000007;
XA PREPARE 0x61, 0x62, 0x100000007;
INSERT INTO t (v) VALUES ('between');
XA ROLLBACK 0x61, 0x62, 0x100000007;
XA START 0x61, 0x62, 0x100000007;
UPDATE t SET v = 'one';
XA END 0x61, 0x62, 0x100000007;
XA COMMIT 0x61, 0x62, 0x100000007 ONE PHASE;
-- unit
XA START b'0110000101100001';
INSERT INTO t (v) VALUES ('prepared');
XA END b'0110000101100001';
XA PREPARE b'0110000101100001';
INSERT INTO t (v) VALUES ('between');
XA COMMIT b'0110000101100001';
XA START b'0110000101100001';
UPDATE t SET v = 'one';
XA END b'0110000101100001';
XA COMMIT b'0110000101100001' ONE PHASE;
-- unit
SET SESSION binlog_transaction_compression = 0;
XA START 'a''b', "c""d";
INSERT INTO t (v) VALUES ('prepared');
XA END 'a''b', "c""d";
XA PREPARE 'a''b', "c""d";
INSERT INTO t (v) VALUES ('between');
XA COMMIT 'a''b', "c""d";
XA START 'a''b', "c""d";
UPDATE t SET v = 'one';
XA END 'a''b', "c""d";
XA COMMIT 'a''b', "c""d" ONE PHASE;
-- unit
XA START x'0027ff5c60', '\\\'';
INSERT INTO t (v) VALUES ('prepared');
XA END x'0027ff5c60', '\\\'';
XA PREPARE x'0027ff5c60', '\\\'';
INSERT INTO t (v) VALUES ('between');
XA ROLLBACK x'0027ff5c60', '\\\'';
XA START x'0027ff5c60', '\\\'';
UPDATE t SET v = 'one';
XA END x'0027ff5c60', '\\\'';
XA COMMIT x'0027ff5c60', '\\\'' ONE PHASE;
-- unit
SET SESSION binlog_transaction_compression = 1;
XA START 'a⟨00⟩b';
INSERT INTO t (v) VALUES ('prepared');
XA END 'a⟨00⟩b';
XA PREPARE 'a⟨00⟩b';
INSERT INTO t (v) VALUES ('between');
XA COMMIT 'a⟨00⟩b';
XA START 'a⟨00⟩b';
UPDATE t SET v = 'one';
XA END 'a⟨00⟩b';
XA COMMIT 'a⟨00⟩b' ONE PHASE;
-- unit
XA START 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb';
INSERT INTO t (v) VALUES ('prepared');
XA END 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb';
XA PREPARE 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb';
INSERT INTO t (v) VALUES ('between');
XA COMMIT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb';
XA START 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb';
UPDATE t SET v = 'one';
XA END 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb';
XA COMMIT 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb' ONE PHASE;
-- unit
SET SESSION binlog_transaction_compression = 0;
XA START 'é', '表';
INSERT INTO t (v) VALUES ('prepared');
XA END 'é', '表';
XA PREPARE 'é', '表';
INSERT INTO t (v) VALUES ('between');
XA ROLLBACK 'é', '表';
XA START 'é', '表';
UPDATE t SET v = 'one';
XA END 'é', '表';
XA COMMIT 'é', '表' ONE PHASE;
