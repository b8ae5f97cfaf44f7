"""What a Python client is told: `client.py DRIVER HOST PORT USER PASSWORD TLS`, TLS 1 or 0. See ../README.md."""

import hashlib
import ssl
import struct
import sys
import threading
import time


class PyMySQL:
    def __init__(self, host, port, user, password, tls):
        import pymysql
        from pymysql.constants import CLIENT

        context = None
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self.error = pymysql.MySQLError
        self.connection = pymysql.connect(
            host=host, port=port, user=user, password=password, ssl=context, ssl_disabled=not tls,
            client_flag=CLIENT.MULTI_STATEMENTS, max_allowed_packet=1 << 30,
        )

    def query(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            results = [(cursor.description, cursor.fetchall())]
            while cursor.nextset():
                results.append((cursor.description, cursor.fetchall()))
            return results

    def prepared(self, sql, runs):
        """This client puts the parameters into the text."""
        with self.connection.cursor() as cursor:
            for parameter in runs:
                cursor.execute(sql.replace("?", "%s"), (parameter,))
                yield cursor.description, cursor.fetchall()


class Connector:
    def __init__(self, host, port, user, password, tls, pure):
        import mysql.connector

        self.error = mysql.connector.Error
        self.connection = mysql.connector.connect(
            host=host, port=port, user=user, password=password, ssl_disabled=not tls, use_pure=pure,
        )

    def query(self, sql):
        cursor = self.connection.cursor()
        cursor.execute(sql)
        results = []
        while True:
            results.append((cursor.description, cursor.fetchall()))
            if not cursor.nextset():
                break
        cursor.close()
        return results

    def prepared(self, sql, runs):
        cursor = self.connection.cursor(prepared=True)
        for parameter in runs:
            cursor.execute(sql, (parameter,))
            yield cursor.description, cursor.fetchall()
        cursor.close()


class Alchemy:
    def __init__(self, host, port, user, password, tls):
        import sqlalchemy
        import sqlalchemy.exc

        url = sqlalchemy.URL.create("mysql+pymysql", user, password, host, port)
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        arguments = {"ssl": context} if tls else {"ssl_disabled": True}
        arguments["max_allowed_packet"] = 1 << 30
        self.text = sqlalchemy.text
        self.error = sqlalchemy.exc.DBAPIError
        self.connection = sqlalchemy.create_engine(url, connect_args=arguments).connect()

    def query(self, sql):
        results = []
        for one in sql.split("; "):
            result = self.connection.exec_driver_sql(one)
            results.append((result.cursor.description, [tuple(row) for row in result.fetchall()]))
        return results

    def prepared(self, sql, runs):
        for parameter in runs:
            result = self.connection.execute(self.text(sql.replace("?", ":p")), {"p": parameter})
            yield result.cursor.description, [tuple(row) for row in result.fetchall()]


DRIVERS = {
    "pymysql": PyMySQL,
    "connector-pure": lambda *to: Connector(*to, True),
    "connector-c": lambda *to: Connector(*to, False),
    "sqlalchemy": Alchemy,
}


def shown(results):
    for description, rows in results:
        print("columns", *(tuple(column) for column in description))
        for row in rows:
            print(repr(row))


def tried(call):
    """Prints the rows, or that this client cannot read them: then it is opened anew."""
    try:
        shown(call())
    except (UnicodeDecodeError, struct.error, ValueError, IndexError) as error:
        print("this client fails:", type(error).__name__)
        return False
    return True


def refused(driver, call):
    try:
        call()
    except driver.error as error:
        error = getattr(error, "orig", error)
        print("error", error.args[0], getattr(error, "sqlstate", ""))
    else:
        print("no error")


def main(name, host, port, user, password, tls):
    to = (host, int(port), user, password, tls == "1")
    driver = DRIVERS[name](*to)
    print("## tls", bool(driver.query("SHOW STATUS LIKE 'Ssl_cipher'")[0][1][0][1]))
    print("## tables")
    tables = "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'types' ORDER BY TABLE_NAME"
    for (table,) in driver.query(tables)[0][1]:
        table = table.decode() if isinstance(table, (bytes, bytearray)) else table
        if not table.startswith("t_"):
            continue
        print("#", table)
        if not tried(lambda: driver.query(f"SELECT * FROM types.{table} ORDER BY id")):
            driver = DRIVERS[name](*to)
        if not tried(lambda: driver.prepared(f"SELECT * FROM types.{table} WHERE id = ?", [202, 500, 202])):
            driver = DRIVERS[name](*to)
    print("## several results")
    shown(driver.query("SELECT 1 AS a; SELECT 'two' AS b, 3.50 AS c, NULL AS d"))
    print("## no such table")
    refused(driver, lambda: driver.query("SELECT * FROM types.absent"))
    print("## a large row")
    large = driver.query("SELECT v FROM big.t WHERE id = 1")[0][1][0][0]
    large = large if isinstance(large, (bytes, bytearray)) else large.encode()
    print(len(large), hashlib.sha256(large).hexdigest())
    print("## a killed statement")
    number = driver.query("SELECT CONNECTION_ID()")[0][1][0][0]
    other = DRIVERS[name](*to)

    def kill():
        time.sleep(0.5)
        without_rows(other, f"KILL QUERY {number}")

    thread = threading.Thread(target=kill)
    thread.start()
    refused(driver, lambda: driver.query(
        "SELECT WAIT_FOR_EXECUTED_GTID_SET('aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:9', 20)"))
    thread.join()
    shown(driver.query("SELECT 'goes on' AS a"))
    print("## a wrong password")
    refused(driver, lambda: DRIVERS[name](to[0], to[1], user, "not " + password, to[4]))


def without_rows(driver, sql):
    if isinstance(driver, Alchemy):
        driver.connection.exec_driver_sql(sql)
    else:
        cursor = driver.connection.cursor()
        cursor.execute(sql)
        cursor.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
