-- VARCHAR(15) of utf8mb3 becomes VARCHAR(12) of utf8mb4 in place, since it has no fewer bytes: the source keeps 15
-- characters there until it copies the table for another reason. Here they were cut off at once.
-- session 1
SET SESSION sql_mode = '';
CREATE TABLE w1 (id INT PRIMARY KEY, v VARCHAR(15) CHARACTER SET utf8mb3, n INT);
CREATE TABLE w2 (v VARCHAR(15) CHARACTER SET utf8mb3, n INT);
CREATE TABLE w3 (id INT PRIMARY KEY, v VARCHAR(15) CHARACTER SET utf8mb3, n INT);
INSERT INTO w1 VALUES (1, 'abcdefghijklmno', 1), (2, 'かきくけこさしすせそたちつてと', 2), (3, 'short', 3), (4, NULL, 4);
INSERT INTO w2 SELECT v, n FROM w1;
INSERT INTO w3 SELECT * FROM w1;
ALTER TABLE w1 MODIFY v VARCHAR(12) CHARACTER SET utf8mb4 AFTER n;
ALTER TABLE w2 MODIFY v VARCHAR(12) CHARACTER SET utf8mb4;
ALTER TABLE w3 MODIFY v VARCHAR(12) CHARACTER SET utf8mb4;
UPDATE w1 SET n = n + 1;
UPDATE w2 SET n = n + 1 WHERE n = 1;
DELETE FROM w2 WHERE n = 2 LIMIT 1;
ALTER TABLE w3 ADD COLUMN x INT DEFAULT 5;
UPDATE w3 SET x = 6 WHERE id = 2;
ALTER TABLE w3 MODIFY n BIGINT;
UPDATE w3 SET n = n + 1;
ALTER TABLE w1 FORCE;
UPDATE w1 SET n = n + 1 WHERE id = 1;
