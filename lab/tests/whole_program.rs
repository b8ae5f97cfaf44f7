//! The TPC-C driver and `lab record` against real servers. Runs only with SLIPSTREAM_TEST_SERVER=1. Its name is that of
//! the program's own tests: whoever builds these gets `slipstream-lab`, which they start.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use client::{ConnectOptions, Connection};
use lab::record::{self, RecordOptions};
use lab::tpcc::{self, Limit, Style, TpccOptions};
use testkit::{Server, servers};

fn tpcc(server: &Server) -> TpccOptions {
    let mut options = TpccOptions::new(server.login("root"));
    (options.warehouses, options.terminals, options.scale) = (2, 4, 0.01);
    options.limit = Limit::Transactions(400);
    options
}

fn connect(options: &TpccOptions) -> Connection {
    let server = ConnectOptions { database: Some(options.database.clone()), ..options.server.clone() };
    Connection::connect(&server).unwrap()
}

fn number(connection: &mut Connection, sql: &str) -> i64 {
    connection.query_value(sql).unwrap().unwrap().parse().unwrap()
}

/// Prepares, runs and checks; rows must agree with the driver's counts.
fn exercise(options: &TpccOptions) {
    let mut told = Vec::new();
    tpcc::prepare(options, &mut told).unwrap();
    assert!(String::from_utf8(told).unwrap().contains("NOT the specification's scale"));
    assert!(tpcc::check(options).unwrap().is_consistent(), "after the load");
    let mut connection = connect(options);
    let orders_loaded = number(&mut connection, "SELECT COUNT(*) FROM orders");
    let report = tpcc::run(options, &mut Vec::new()).unwrap();
    assert_eq!(report.completed, 400, "{report}");
    let check = tpcc::check(options).unwrap();
    assert!(check.is_consistent(), "{check}");
    let count = |name: &str| report.transactions.iter().find(|line| line.name == name).unwrap().clone();
    let orders = number(&mut connection, "SELECT COUNT(*) FROM orders") - orders_loaded;
    let new_order = count("New-Order");
    assert_eq!(orders as u64, new_order.completed - new_order.rolled_back);
    let payments = number(&mut connection, "SELECT COUNT(*) FROM history") - orders_loaded;
    assert_eq!(payments as u64, count("Payment").completed);
    // Payments agree between customers and warehouses (clauses 3.3.2.8 and 3.3.2.9, in sum).
    let paid = number(&mut connection, "SELECT SUM(w_ytd) * 100 DIV 1 FROM warehouse") - 2 * 30_000_000;
    let booked = number(&mut connection, "SELECT SUM(c_ytd_payment - 10) * 100 DIV 1 FROM customer");
    assert!(paid > 0 && paid == booked, "{paid} paid, {booked} booked");
    let delivered = number(&mut connection, "SELECT SUM(c_delivery_cnt) FROM customer");
    assert!(delivered > 0 && delivered as u64 <= 10 * count("Delivery").completed);
}

#[test]
fn both_styles_leave_consistent_books() {
    let Some(server) = Server::or_skip("lab-tpcc", &[]) else { return };
    let mut options = tpcc(&server);
    exercise(&options);
    options.style = Style::Procedures;
    options.foreign_keys = true;
    exercise(&options);
}

/// Delivery must find orders entered after its snapshot, once nothing older is left.
#[test]
fn deliveries_catch_up_with_new_orders() {
    let Some(server) = Server::or_skip("lab-backlog", &[]) else { return };
    for style in [Style::Statements, Style::Procedures] {
        let mut options = tpcc(&server);
        (options.style, options.warehouses, options.terminals) = (style, 1, 8);
        options.limit = Limit::Transactions(3_000);
        tpcc::prepare(&options, &mut Vec::new()).unwrap();
        let mut connection = connect(&options);
        connection.exec("DELETE FROM new_order").unwrap();
        tpcc::run(&options, &mut Vec::new()).unwrap();
        assert!(tpcc::check(&options).unwrap().is_consistent());
        // Clause 3.3.2.10 in sum: delivered minus paid.
        let delivered = "SELECT SUM(ol_amount) * 100 DIV 1 FROM order_line WHERE ol_delivery_d > '2026-01-01 00:00:00'";
        let booked = "SELECT SUM(c_balance + c_ytd_payment) * 100 DIV 1 FROM customer";
        assert_eq!(number(&mut connection, delivered), number(&mut connection, booked), "{style:?}");
    }
}

/// With one terminal and one seed, both styles must leave the same rows, except for times of day.
#[test]
fn both_styles_do_the_same_work() {
    let Some(server) = Server::or_skip("lab-styles", &[]) else { return };
    let mut books = Vec::new();
    for style in [Style::Statements, Style::Procedures] {
        let mut options = tpcc(&server);
        (options.style, options.terminals, options.limit) = (style, 1, Limit::Transactions(300));
        tpcc::prepare(&options, &mut Vec::new()).unwrap();
        tpcc::run(&options, &mut Vec::new()).unwrap();
        let mut connection = connect(&options);
        let tables = [
            "SELECT * FROM warehouse ORDER BY 1",
            "SELECT * FROM district ORDER BY d_w_id, d_id",
            "SELECT * FROM stock ORDER BY s_w_id, s_i_id",
            "SELECT * FROM customer ORDER BY c_w_id, c_d_id, c_id",
            "SELECT h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_amount, h_data FROM history ORDER BY 1, 2, 3, 4, 5, 6, 7",
            "SELECT o_id, o_d_id, o_w_id, o_c_id, o_carrier_id, o_ol_cnt, o_all_local FROM orders ORDER BY 3, 2, 1",
            "SELECT * FROM new_order ORDER BY 3, 2, 1",
            "SELECT ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d IS NULL, ol_quantity, \
             ol_amount, ol_dist_info FROM order_line ORDER BY 3, 2, 1, 4",
        ];
        books.push(tables.map(|sql| connection.query(sql).unwrap().rows));
    }
    for (table, (statements, procedures)) in books[0].iter().zip(&books[1]).enumerate() {
        assert!(statements == procedures, "table {table} differs");
    }
}

/// A checker counts once it has caught a planted fault, one for each condition.
#[test]
fn each_condition_catches_its_planted_fault() {
    let Some(server) = Server::or_skip("lab-faults", &[]) else { return };
    let options = tpcc(&server);
    tpcc::prepare(&options, &mut Vec::new()).unwrap();
    let mut connection = connect(&options);
    let faults = [
        (0, "UPDATE warehouse SET w_ytd = w_ytd + 0.01 WHERE w_id = 2"),
        (1, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 7"),
        (2, "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 3 AND no_o_id = 25"),
        (3, "DELETE FROM order_line WHERE ol_w_id = 2 AND ol_d_id = 1 AND ol_o_id = 4 AND ol_number = 2"),
    ];
    for (broken, sql) in faults {
        assert_eq!(connection.exec(sql).unwrap().affected_rows, 1, "{sql}");
        let report = tpcc::check(&options).unwrap();
        assert!(!report.is_consistent() && report.conditions[broken].broken == 1, "{sql}\n{report}");
    }
}

#[test]
fn a_run_outlives_a_killed_server() {
    // A server that does not flush each commit loses the last second of the load when killed.
    if !servers() {
        return;
    }
    let server = Server::start("lab-killed", &[]);
    let mut options = tpcc(&server);
    tpcc::prepare(&options, &mut Vec::new()).unwrap();
    options.limit = Limit::Duration(Duration::from_secs(6));
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| tpcc::run(&options, &mut Vec::new()));
        let mut connection = connect(&options);
        let loaded = number(&mut connection, "SELECT COUNT(*) FROM history");
        while number(&mut connection, "SELECT COUNT(*) FROM history") < loaded + 20 {
            std::thread::yield_now();
        }
        server.kill();
        server.restart(&[]);
        run.join().unwrap().unwrap()
    });
    assert!(!report.errors.is_empty(), "{report}");
    let check = tpcc::check(&options).unwrap();
    assert!(check.is_consistent(), "{check}");
}

#[test]
fn mariadb_runs_it_too() {
    let Some(server) = Server::mariadb_or_skip("lab-tpcc", &[]) else { return };
    let mut options = tpcc(&server);
    exercise(&options);
    options.style = Style::Procedures;
    exercise(&options);
}

#[test]
fn a_recording_is_the_log_byte_for_byte() {
    let Some(server) = Server::or_skip("lab-record", &[]) else { return };
    let mut connection = Connection::connect(&tpcc(&server).server).unwrap();
    for sql in ["CREATE DATABASE d", "CREATE TABLE d.t (a INT PRIMARY KEY)", "INSERT INTO d.t VALUES (1), (2)"] {
        connection.exec(sql).unwrap();
        connection.exec("FLUSH BINARY LOGS").unwrap();
    }
    let data = server.dir();
    let folder = data.parent().unwrap().join("recorded");
    let source = server.login("repl");
    let options = RecordOptions { source, folder: folder.clone(), server_id: 4_294_000_001 };
    let report = record::record(&options).unwrap();
    assert_eq!(report.files, 4, "{report}");
    let index = std::fs::read_to_string(folder.join(record::INDEX)).unwrap();
    let names: Vec<&str> = index.lines().collect();
    assert_eq!(names, ["binlog.000001", "binlog.000002", "binlog.000003", "binlog.000004"]);
    for name in names {
        let (mine, mut theirs) = (std::fs::read(folder.join(name)).unwrap(), std::fs::read(data.join(name)).unwrap());
        // The open file's format description says "in use"; the dump clears that bit.
        theirs[4 + 17] &= !1;
        assert!(mine == theirs, "{name}");
    }
    assert!(record::record(&options).unwrap_err().to_string().contains("already holds"));
    connection.exec("PURGE BINARY LOGS TO 'binlog.000003'").unwrap();
    let elsewhere = RecordOptions { folder: data.parent().unwrap().join("again"), ..options };
    assert!(record::record(&elsewhere).unwrap_err().to_string().contains("first statement"));
}
