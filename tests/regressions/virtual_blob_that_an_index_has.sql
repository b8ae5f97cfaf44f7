-- A virtual BLOB with an index on it: the after image of an UPDATE of the primary key has bytes of another row's value
-- (9.7.4), also in rows that are kept when the index goes. verify said DIFFERENT.
-- session 0
CREATE TABLE `diffa`.`b1` (id INT PRIMARY KEY, a TEXT, g LONGBLOB AS (CONCAT(a)) VIRTUAL, KEY (g(10)));
CREATE TABLE `diffa`.`b2` (id INT PRIMARY KEY, a TEXT, g LONGBLOB AS (CONCAT(a)) VIRTUAL, e INT DEFAULT 3, KEY k (e DESC, id, g(10)));
INSERT INTO `diffa`.`b1` (id, a) VALUES (9, 'line 5 é'), (25, 'äA');
INSERT INTO `diffa`.`b2` (id, a) VALUES (9, 'line 5 é'), (25, 'äA');
UPDATE `diffa`.`b1` SET id = 111 WHERE id = 9;
UPDATE `diffa`.`b1` SET id = 9 WHERE id = 25;
UPDATE `diffa`.`b1` SET id = 25 WHERE id = 111;
UPDATE `diffa`.`b2` SET id = 111 WHERE id = 9;
UPDATE `diffa`.`b2` SET id = 9 WHERE id = 25;
UPDATE `diffa`.`b2` SET id = 25 WHERE id = 111;
ALTER TABLE `diffa`.`b2` DROP KEY k;
UPDATE `diffa`.`b2` SET e = 4 WHERE id = 9;
