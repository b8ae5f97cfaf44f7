-- A BIT is set to its DEFAULT where images leave the next column out. MyISAM would write over that one (mysql-bugs.md).
-- session 0
SET SESSION binlog_row_image = MINIMAL;
CREATE TABLE i (id INT PRIMARY KEY, b BIT(23) DEFAULT b'1010', e ENUM('one', 'two', 'Three', 'eight') DEFAULT 'Three', n BIT(3), v VARCHAR(9) DEFAULT 'v') ENGINE=InnoDB;
CREATE TABLE m (id INT PRIMARY KEY, b BIT(16) DEFAULT b'1010', e ENUM('one', 'two', 'Three', 'eight') DEFAULT 'Three', n BIT(8), v VARCHAR(9) DEFAULT 'v') ENGINE=MyISAM;
CREATE TABLE h (id INT PRIMARY KEY, b BIT(23) DEFAULT b'1010', e ENUM('one', 'two', 'Three', 'eight') DEFAULT 'Three', n BIT(3), v VARCHAR(9) DEFAULT 'v') ENGINE=MEMORY;
INSERT INTO i VALUES (1, b'10001101', 'eight', b'101', 'w'), (2, NULL, 'one', NULL, NULL);
INSERT INTO m VALUES (1, b'10001101', 'eight', b'101', 'w'), (2, NULL, 'one', NULL, NULL);
INSERT INTO h VALUES (1, b'10001101', 'eight', b'101', 'w'), (2, NULL, 'one', NULL, NULL);
UPDATE i SET b = DEFAULT;
UPDATE m SET b = DEFAULT;
UPDATE h SET b = DEFAULT;
SET SESSION binlog_row_image = NOBLOB;
UPDATE i SET n = DEFAULT;
UPDATE m SET n = DEFAULT;
UPDATE h SET n = DEFAULT;
