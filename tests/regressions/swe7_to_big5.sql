-- The client's character set is swe7, its collation_connection big5: each byte that swe7 lacks becomes a question mark.
-- session 1
SET NAMES swe7;
SET SESSION collation_connection = big5_bin;
CREATE TABLE t1 (id INT PRIMARY KEY, v VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT '⟨e8a1a8⟩', e ENUM('⟨e8a1a8⟩', 'x⟨e8a1a8⟩') CHARACTER SET utf8mb4 DEFAULT 'x⟨e8a1a8⟩', w VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT '⟨e8a1a8c3a9e8a1a86131⟩');
INSERT INTO t1 (id) VALUES (1), (2);
ALTER TABLE t1 ADD x VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT '⟨e8a1a8c3a9e8a1a86131⟩''⟨e8a1a8⟩';
