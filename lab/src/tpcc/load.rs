//! The initial population (clause 4.3.3), by multi-row INSERT, warehouses in parallel.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use client::ConnectOptions;

use super::random::{C_LAST_LOAD, Random, last_name, non_uniform};
use super::schema::{PROCEDURES, TABLES, create_table};
use super::session::{Session, cents_text};
use super::{DISTRICTS, Population, Style, TpccOptions};

/// Text length at which an INSERT is sent: well below the smallest max_allowed_packet in use (1 MiB on old servers).
const STATEMENT_BYTES: usize = 256 << 10;
/// Time written where the specification says "now", so that the same seed gives the same rows.
const LOAD_TIME: &str = "2026-01-01 00:00:00";

pub(crate) fn prepare(options: &TpccOptions, out: &mut dyn Write) -> Result<()> {
    ensure!(options.warehouses > 0, "at least one warehouse");
    ensure!(options.scale > 0.0 && options.scale <= 1.0, "--scale is a fraction above 0, at most 1");
    let server = options.connect_options()?;
    let population = Population::scaled(options.warehouses, options.scale);
    let started = Instant::now();
    if !population.is_spec_scale() {
        writeln!(
            out,
            "tpcc: NOT the specification's scale: {} items, {} customers a district (--scale {})",
            population.items, population.customers, options.scale
        )?;
    }
    let mut session = Session::connect(&server, None, &options.session_variables).context("connecting to load")?;
    let database = &options.database;
    session.text(&format!("DROP DATABASE IF EXISTS {database}"))?;
    session.text(&format!("CREATE DATABASE {database}"))?;
    session.text(&format!("USE {database}"))?;
    for index in 0..TABLES.len() {
        session.text(&create_table(index, options.foreign_keys))?;
    }
    if options.style == Style::Procedures {
        create_procedures(&mut session)?;
    }
    load_items(&mut session, &population, &mut Random::new(options.seed, 0))?;
    writeln!(out, "tpcc: tables and {} items, {:.1} s", population.items, started.elapsed().as_secs_f64())?;
    load_warehouses(options, &server, &population, out)?;
    let name = &options.server;
    writeln!(
        out,
        "tpcc: {} warehouses loaded into {name} in {:.1} s",
        population.warehouses,
        started.elapsed().as_secs_f64()
    )?;
    Ok(())
}

/// Drops and creates the five procedures.
pub(crate) fn create_procedures(session: &mut Session) -> Result<()> {
    for (name, sql) in PROCEDURES {
        session.text(&format!("DROP PROCEDURE IF EXISTS {name}"))?;
        session.text(sql).with_context(|| format!("creating {name}"))?;
    }
    Ok(())
}

fn load_warehouses(
    options: &TpccOptions,
    server: &ConnectOptions,
    population: &Population,
    out: &mut dyn Write,
) -> Result<()> {
    let next = AtomicU32::new(1);
    let threads = options.load_threads.clamp(1, population.warehouses as usize);
    let (done, loaded) = mpsc::channel::<Result<(u32, f64)>>();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                loop {
                    let warehouse = next.fetch_add(1, Ordering::Relaxed);
                    if warehouse > population.warehouses {
                        return;
                    }
                    let started = Instant::now();
                    let result = Session::connect(server, Some(&options.database), &options.session_variables)
                        .context("connecting to load")
                        .and_then(|mut session| load_warehouse(&mut session, population, options.seed, warehouse))
                        .with_context(|| format!("loading warehouse {warehouse}"))
                        .map(|()| (warehouse, started.elapsed().as_secs_f64()));
                    if result.is_err() {
                        // The others finish their current warehouse and take no new one.
                        next.store(population.warehouses + 1, Ordering::Relaxed);
                    }
                    if done.send(result).is_err() {
                        return;
                    }
                }
            });
        }
        drop(done);
        for result in loaded {
            let (warehouse, seconds) = result?;
            writeln!(out, "tpcc: warehouse {warehouse} of {}, {seconds:.1} s", population.warehouses)?;
            out.flush()?;
        }
        Ok(())
    })
}

/// Collects rows of one table into statements of about `STATEMENT_BYTES`.
struct Insert<'a> {
    session: &'a mut Session,
    head: &'static str,
    sql: String,
}

impl<'a> Insert<'a> {
    fn new(session: &'a mut Session, head: &'static str) -> Self {
        Insert { session, head, sql: String::with_capacity(STATEMENT_BYTES + (4 << 10)) }
    }

    /// Appends a row; `fill` writes the values without the parentheses.
    fn row(&mut self, fill: impl FnOnce(&mut String)) -> Result<()> {
        self.sql.push_str(if self.sql.is_empty() { self.head } else { "," });
        self.sql.push('(');
        fill(&mut self.sql);
        self.sql.push(')');
        if self.sql.len() >= STATEMENT_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        if !self.sql.is_empty() {
            self.session.text(&self.sql).with_context(|| self.head.to_owned())?;
            self.sql.clear();
        }
        Ok(())
    }
}

/// Appends `,'text'` of random characters.
fn push_quoted(sql: &mut String, random: &mut Random, length_min: u64, length_max: u64) {
    sql.push_str(",'");
    random.push_text(sql, length_min, length_max);
    sql.push('\'');
}

/// Streets, city, state and zip code (clause 4.3.2.7).
fn push_address(sql: &mut String, random: &mut Random) {
    for _ in 0..3 {
        push_quoted(sql, random, 10, 20);
    }
    push_quoted(sql, random, 2, 2);
    sql.push_str(",'");
    random.push_digits(sql, 4);
    sql.push_str("11111'");
}

// Writing into a String cannot fail, but the macro's result must be used.
macro_rules! push {
    ($sql:expr, $($arg:tt)*) => { let _ = write!($sql, $($arg)*); };
}

fn load_items(session: &mut Session, population: &Population, random: &mut Random) -> Result<()> {
    let mut insert = Insert::new(session, "INSERT INTO item (i_id, i_im_id, i_name, i_price, i_data) VALUES ");
    for id in 1..=population.items {
        insert.row(|sql| {
            push!(sql, "{id},{}", random.uniform(1, 10_000));
            push_quoted(sql, random, 14, 24);
            push!(sql, ",{},'", cents_text(random.uniform(100, 10_000) as i64));
            random.push_data(sql);
            sql.push('\'');
        })?;
    }
    insert.flush()
}

fn load_warehouse(session: &mut Session, population: &Population, seed: u64, warehouse: u32) -> Result<()> {
    let random = &mut Random::new(seed, u64::from(warehouse));
    load_warehouse_and_districts(session, population, random, warehouse)?;
    load_stock(session, population, random, warehouse)?;
    for district in 1..=DISTRICTS {
        load_customers(session, population, random, warehouse, district)?;
        load_orders(session, population, random, warehouse, district)?;
    }
    Ok(())
}

fn load_warehouse_and_districts(
    session: &mut Session,
    population: &Population,
    random: &mut Random,
    warehouse: u32,
) -> Result<()> {
    let mut insert = Insert::new(
        session,
        "INSERT INTO warehouse (w_id, w_name, w_street_1, w_street_2, w_city, w_state, w_zip, w_tax, w_ytd) VALUES ",
    );
    insert.row(|sql| {
        push!(sql, "{warehouse}");
        push_quoted(sql, random, 6, 10);
        push_address(sql, random);
        push!(sql, ",0.{:04},300000.00", random.uniform(0, 2000));
    })?;
    insert.flush()?;
    let mut insert = Insert::new(
        session,
        "INSERT INTO district (d_id, d_w_id, d_name, d_street_1, d_street_2, d_city, d_state, d_zip, d_tax, d_ytd, \
         d_next_o_id) VALUES ",
    );
    for district in 1..=DISTRICTS {
        insert.row(|sql| {
            push!(sql, "{district},{warehouse}");
            push_quoted(sql, random, 6, 10);
            push_address(sql, random);
            push!(sql, ",0.{:04},30000.00,{}", random.uniform(0, 2000), population.customers + 1);
        })?;
    }
    insert.flush()
}

fn load_stock(session: &mut Session, population: &Population, random: &mut Random, warehouse: u32) -> Result<()> {
    let mut insert = Insert::new(
        session,
        "INSERT INTO stock (s_i_id, s_w_id, s_quantity, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, \
         s_dist_07, s_dist_08, s_dist_09, s_dist_10, s_ytd, s_order_cnt, s_remote_cnt, s_data) VALUES ",
    );
    for item in 1..=population.items {
        insert.row(|sql| {
            push!(sql, "{item},{warehouse},{}", random.uniform(10, 100));
            for _ in 0..DISTRICTS {
                push_quoted(sql, random, 24, 24);
            }
            sql.push_str(",0,0,0,'");
            random.push_data(sql);
            sql.push('\'');
        })?;
    }
    insert.flush()
}

fn load_customers(
    session: &mut Session,
    population: &Population,
    random: &mut Random,
    warehouse: u32,
    district: u64,
) -> Result<()> {
    let mut insert = Insert::new(
        session,
        "INSERT INTO customer (c_id, c_d_id, c_w_id, c_last, c_middle, c_first, c_street_1, c_street_2, c_city, c_state, \
         c_zip, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, \
         c_delivery_cnt, c_data) VALUES ",
    );
    for customer in 1..=population.customers {
        let name = match customer {
            1..=1000 => customer - 1,
            _ => non_uniform(random, 255, C_LAST_LOAD, 0, 999),
        };
        insert.row(|sql| {
            push!(sql, "{customer},{district},{warehouse},'{}','OE'", last_name(name));
            push_quoted(sql, random, 8, 16);
            push_address(sql, random);
            sql.push_str(",'");
            random.push_digits(sql, 16);
            let credit = if random.percent(10) { "BC" } else { "GC" };
            let discount = random.uniform(0, 5000);
            push!(sql, "','{LOAD_TIME}','{credit}',50000.00,0.{discount:04},-10.00,10.00,1,0");
            push_quoted(sql, random, 300, 500);
        })?;
    }
    insert.flush()?;
    let mut insert = Insert::new(
        session,
        "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES ",
    );
    for customer in 1..=population.customers {
        insert.row(|sql| {
            push!(sql, "{customer},{district},{warehouse},{district},{warehouse},'{LOAD_TIME}',10.00");
            push_quoted(sql, random, 12, 24);
        })?;
    }
    insert.flush()
}

fn load_orders(
    session: &mut Session,
    population: &Population,
    random: &mut Random,
    warehouse: u32,
    district: u64,
) -> Result<()> {
    let first_undelivered = population.first_undelivered();
    let customers = random.permutation(population.customers);
    let line_counts: Vec<u64> = customers.iter().map(|_| random.uniform(5, 15)).collect();
    let mut insert = Insert::new(
        session,
        "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) VALUES ",
    );
    for ((order, customer), lines) in (1..).zip(&customers).zip(&line_counts) {
        insert.row(|sql| {
            push!(sql, "{order},{district},{warehouse},{customer},'{LOAD_TIME}',");
            match order < first_undelivered {
                true => {
                    push!(sql, "{}", random.uniform(1, 10));
                }
                false => sql.push_str("NULL"),
            }
            push!(sql, ",{lines},1");
        })?;
    }
    insert.flush()?;
    let mut insert = Insert::new(session, "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ");
    for order in first_undelivered..=population.customers {
        insert.row(|sql| {
            push!(sql, "{order},{district},{warehouse}");
        })?;
    }
    insert.flush()?;
    let mut insert = Insert::new(
        session,
        "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, \
         ol_amount, ol_dist_info) VALUES ",
    );
    for (order, lines) in (1u64..).zip(line_counts) {
        for number in 1..=lines {
            insert.row(|sql| {
                let item = random.uniform(1, population.items);
                push!(sql, "{order},{district},{warehouse},{number},{item},{warehouse},");
                if order < first_undelivered {
                    push!(sql, "'{LOAD_TIME}',5,0.00");
                } else {
                    push!(sql, "NULL,5,{}", cents_text(random.uniform(1, 999_999) as i64));
                }
                push_quoted(sql, random, 24, 24);
            })?;
        }
    }
    insert.flush()
}
