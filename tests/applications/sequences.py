"""Two sessions send statements drawn from a seed; a line for each with its whole answer. Statements that leave out the
log, and locks of tables against other sessions, are not among them: who answers those says.

usage: sequences.py PORT PASSWORD SEEDS
"""
import random
import sys

import pymysql

ROWS = """
    DROP DATABASE IF EXISTS d
    CREATE DATABASE d
    USE d
    CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(20), n INT)
    INSERT INTO t VALUES (1,'one',1),(2,'two',2),(3,NULL,3)
    CREATE TABLE u (id INT PRIMARY KEY, n INT)
    INSERT INTO u VALUES (1,10),(2,20)
    CREATE TABLE m (id INT PRIMARY KEY, n INT) ENGINE=MyISAM
    INSERT INTO m VALUES (1,5)
    CREATE TABLE p (id INT PRIMARY KEY)
    INSERT INTO p VALUES (1),(2)
    CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p(id) ON DELETE CASCADE)
    INSERT INTO c VALUES (1,1),(2,2)
    CREATE TABLE l (id INT PRIMARY KEY AUTO_INCREMENT, n INT)
    CREATE TRIGGER g AFTER UPDATE ON u FOR EACH ROW INSERT INTO l (n) VALUES (NEW.n)
    CREATE PROCEDURE pr() BEGIN UPDATE t SET n=n+1 WHERE id=1; SELECT n FROM t WHERE id=1; END
    CREATE PROCEDURE bad() BEGIN INSERT INTO t (a,n) VALUES ('bad',9); COMMIT; SELECT nothing FROM t; END
    CREATE FUNCTION f() RETURNS INT READS SQL DATA BEGIN DECLARE x INT; SELECT n INTO x FROM t WHERE id=1; SET @f=x; RETURN x; END
    CREATE FUNCTION w() RETURNS INT MODIFIES SQL DATA BEGIN UPDATE t SET n=n+1 WHERE id=2; RETURN 1; END
    CREATE VIEW v AS SELECT id,n FROM t WHERE n<100
"""
READS = """
    SELECT id,a,n FROM t WHERE id=1
    SELECT id,a,n FROM t ORDER BY id
    SELECT n FROM u WHERE id=2
    SELECT * FROM u ORDER BY id
    SELECT n FROM m WHERE id=1
    SELECT * FROM c ORDER BY id
    SELECT * FROM l ORDER BY id
    SELECT COUNT(*) FROM t
    SELECT t.id,u.n FROM t JOIN u USING(id) ORDER BY 1
    SELECT * FROM v ORDER BY id
    SELECT MAX(n) FROM t
    SELECT a FROM t WHERE n=3
    SELECT @x
    SELECT @f
    SELECT @x, n FROM u WHERE id=1
    SELECT ROW_COUNT()
    SELECT LAST_INSERT_ID()
    SHOW WARNINGS
    SELECT @@warning_count, @@error_count
    SELECT DATABASE()
    SELECT @@sql_mode
    SELECT @@autocommit, @@transaction_isolation, @@transaction_read_only
    SELECT @@sql_select_limit
    SELECT * FROM tmp
    SELECT 1/0
    SELECT 'x'+1
    SELECT CAST('x' AS SIGNED), n FROM u WHERE id=1
    SELECT n FROM t WHERE id=1 FOR UPDATE NOWAIT
    SELECT n FROM t WHERE id=1 FOR SHARE NOWAIT
    SELECT f()
    SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 1
    SELECT nothing FROM t
    SELECT * FROM missing
    SELECT IS_USED_LOCK('k') IS NULL
    SELECT "a" FROM t WHERE id=1
    SELECT n INTO @x FROM u WHERE id=1
    SHOW TABLES
    SELECT id, n FROM t WHERE a = 'ONE'
    SELECT a FROM t WHERE a LIKE 'o%'
    SELECT COLLATION(@x), @x IS NULL
    SELECT @@character_set_client, @@collation_connection
    SELECT DEFAULT(n) FROM t LIMIT 1
    HANDLER h READ FIRST
    SELECT @@last_insert_id, @@identity
    EXECUTE s
    SELECT @@time_zone, @@lc_time_names
    SELECT FORMAT(n, 2) FROM t WHERE id=1
    SELECT n/3 FROM u ORDER BY id
    SELECT w()
"""
WRITES = """
    UPDATE t SET n=n+1 WHERE id=1
    UPDATE t SET n=n
    UPDATE u SET n=n+1 WHERE id=2
    INSERT INTO t (a,n) VALUES ('new',7)
    INSERT IGNORE INTO u VALUES (1,1)
    INSERT INTO u VALUES (1,1)
    DELETE FROM t WHERE a='new'
    DELETE FROM p WHERE id=1
    UPDATE m SET n=n+1
    REPLACE INTO u VALUES (3,30)
    CALL pr()
    CALL bad()
    DO f()
    SELECT w()
    INSERT INTO t (a,n) SELECT a,n FROM t WHERE id<3
    TRUNCATE l
    UPDATE t SET n=LAST_INSERT_ID(n+5) WHERE id=3
    ALTER TABLE u COMMENT 'x'
    CREATE TABLE IF NOT EXISTS z (a INT)
    DROP TABLE IF EXISTS z
    UPDATE t SET a='toolongtoolongtoolongtoolong' WHERE id=2
"""
STATE = """
    BEGIN
    START TRANSACTION READ ONLY
    START TRANSACTION WITH CONSISTENT SNAPSHOT
    COMMIT
    COMMIT
    ROLLBACK
    SET autocommit=0
    SET autocommit=1
    SAVEPOINT s1
    ROLLBACK TO s1
    RELEASE SAVEPOINT s1
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED
    SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED
    SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ
    SET TRANSACTION READ ONLY
    SET @x=5
    SET @x='text'
    SET @x=NULL
    SET @x=1.50
    SET @x=(SELECT MAX(n) FROM t)
    SET sql_mode='ANSI_QUOTES'
    SET sql_mode=DEFAULT
    SET sql_mode='STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'
    SET sql_select_limit=2
    SET sql_select_limit=DEFAULT
    SET NAMES latin1
    SET NAMES utf8mb4
    USE d
    USE mysql
    USE nowhere
    CREATE TEMPORARY TABLE tmp (a INT)
    CREATE TEMPORARY TABLE u (a INT)
    DROP TEMPORARY TABLE IF EXISTS tmp
    DROP TEMPORARY TABLE IF EXISTS u
    INSERT INTO tmp VALUES (1)
    SELECT GET_LOCK('k',0)
    DO RELEASE_ALL_LOCKS()
    HANDLER t OPEN AS h
    HANDLER h CLOSE
    PREPARE s FROM 'SELECT n FROM u WHERE id=1'
    DEALLOCATE PREPARE s
    SET time_zone='+05:00'
    SET lc_time_names='de_DE'
    SET div_precision_increment=8
    SET div_precision_increment=DEFAULT
    SET @@session.timestamp=1000000000
    SET @@session.timestamp=DEFAULT
    XA START 'q'
    XA END 'q'
    XA ROLLBACK 'q'
    SET innodb_lock_wait_timeout=1
    SELECT @x:=n FROM u WHERE id=1
    SELECT 1; SELECT 2
    SET foreign_key_checks=0
    SET unique_checks=0
    RESET
    LOCK TABLES t READ
    UNLOCK TABLES
"""
# COM_RESET_CONNECTION, which pools send.
RESET = 0x1F


def statements(text):
    return [line.strip() for line in text.strip().splitlines()]


def connect(port, password):
    multi = pymysql.constants.CLIENT.MULTI_STATEMENTS
    return pymysql.connect(host="127.0.0.1", port=port, user="app", password=password, autocommit=None, client_flag=multi)


def results(connection, statement):
    """Rows, columns, counts and warnings of each result, or the error."""
    if statement == "RESET":
        connection._execute_command(RESET, b"")
        return connection._read_packet().is_ok_packet()
    cursor, all_of = connection.cursor(), []
    try:
        cursor.execute(statement)
        while True:
            rows = cursor.fetchall() if cursor.description else None
            if rows and "ORDER" not in statement:
                rows = sorted(rows, key=repr)
            columns = [column[:2] for column in cursor.description or []]
            changed = (cursor.rowcount, cursor.lastrowid) if rows is None else None
            all_of.append((rows, columns, changed, cursor._result.warning_count))
            if not cursor.nextset():
                return all_of
    except pymysql.MySQLError as error:
        return [*all_of, error.args]


def main():
    port, password, seeds = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    reads, writes, state = statements(READS), statements(WRITES), statements(STATE)
    for seed in range(seeds):
        draw = random.Random(seed)
        setup = connect(port, password)
        for statement in statements(ROWS):
            setup.cursor().execute(statement)
        setup.close()
        sessions = [connect(port, password) for _ in range(2)]
        for session in sessions:
            session.cursor().execute("USE d")
            session.cursor().execute("SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 1")
        for step in range(draw.randint(8, 30)):
            kind, number = draw.random(), int(draw.random() < 0.3)
            statement = draw.choice(reads if kind < 0.5 else writes if kind < 0.72 else state)
            answer = results(sessions[number], statement)
            print(f"{seed}.{step} session {number}: {statement}: {answer!r}")
        for session in sessions:
            session.close()


main()
