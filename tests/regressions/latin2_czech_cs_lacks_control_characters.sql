-- latin2_czech_cs has conversion tables of its own, without 0x7f to 0x9f: they became these characters instead of question
-- marks (seed 53). Between collations of latin2 bytes stay as they are, those that are cut too.
-- session 1
SET SESSION sql_mode = '';
CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(9) CHARACTER SET utf8mb4, w TEXT CHARACTER SET utf16le, l VARCHAR(9) CHARACTER SET latin1, a VARCHAR(9) CHARACTER SET latin2, z VARCHAR(9) CHARACTER SET latin2 COLLATE latin2_czech_cs, x VARCHAR(9) CHARACTER SET tis620);
INSERT INTO t VALUES (1, _utf32 x'0000007F000000810000010500000041', _utf32 x'000000410000009F000000FC', x'81418D7F', x'8141B1FF7F', x'7F8141B17F9F', x'A0A1FF');
INSERT INTO t VALUES (2, 'plain', '', NULL, x'7F', x'7F', _utf32 x'0000FFFD');
CREATE TABLE v LIKE t;
INSERT INTO v SELECT * FROM t;
ALTER TABLE t CONVERT TO CHARACTER SET latin2 COLLATE latin2_czech_cs;
UPDATE t SET id = id + 10;
ALTER TABLE v MODIFY a VARCHAR(2) CHARACTER SET latin2 COLLATE latin2_czech_cs, MODIFY z VARCHAR(9) CHARACTER SET utf8mb4, MODIFY u VARCHAR(9) CHARACTER SET tis620;
UPDATE v SET id = id + 10;
ALTER TABLE v CONVERT TO CHARACTER SET utf8mb4;
UPDATE v SET id = id + 10;
