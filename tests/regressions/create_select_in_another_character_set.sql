-- CREATE TABLE … SELECT is logged with a definition in UTF-8 under the session's own character set: defaults and members of ENUM were read in that one.
-- session 1
SET SESSION binlog_row_image = MINIMAL;
CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10) CHARACTER SET utf8mb4 DEFAULT 'ä', b VARCHAR(10) CHARACTER SET latin1 DEFAULT 'é', c ENUM('ä', 'x') CHARACTER SET latin1);
INSERT INTO t VALUES (1, 'ö', 'ü', 'ä');
SET NAMES latin1;
CREATE TABLE u (PRIMARY KEY (id)) SELECT * FROM t;
INSERT INTO u (id) VALUES (2);
INSERT INTO u (id, c) VALUES (3, 1);
SET NAMES cp1251;
CREATE TABLE w (PRIMARY KEY (id), x VARCHAR(5) DEFAULT 'q') SELECT * FROM t;
INSERT INTO w (id) VALUES (4);
