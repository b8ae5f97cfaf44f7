//! The five transactions (clause 2): their inputs, and both ways of running them.

use std::fmt;

use client::{ClientError, Param};

use super::random::{NonUniform, Random, last_name};
use super::schema::UNUSED_ITEM;
use super::session::{Cell, Session, cents_text};
use super::{DISTRICTS, Population, Style};

/// The specification's transaction types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionType {
    /// Enters an order of 5 to 15 lines.
    NewOrder,
    /// Books a customer's payment.
    Payment,
    /// Reads a customer's last order.
    OrderStatus,
    /// Delivers the oldest order of each district.
    Delivery,
    /// Counts recently sold items with low stock.
    StockLevel,
}

impl TransactionType {
    /// In the specification's order.
    pub const ALL: [TransactionType; 5] = [
        TransactionType::NewOrder,
        TransactionType::Payment,
        TransactionType::OrderStatus,
        TransactionType::Delivery,
        TransactionType::StockLevel,
    ];

    /// True if it changes rows.
    pub fn writes(self) -> bool {
        matches!(self, TransactionType::NewOrder | TransactionType::Payment | TransactionType::Delivery)
    }

    /// The standard mix (clause 5.2.3): 45, 43, 4, 4, 4 of 100.
    pub(crate) fn draw(random: &mut Random) -> Self {
        match random.uniform(1, 100) {
            1..=45 => TransactionType::NewOrder,
            46..=88 => TransactionType::Payment,
            89..=92 => TransactionType::OrderStatus,
            93..=96 => TransactionType::Delivery,
            _ => TransactionType::StockLevel,
        }
    }
}

impl fmt::Display for TransactionType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TransactionType::NewOrder => "New-Order",
            TransactionType::Payment => "Payment",
            TransactionType::OrderStatus => "Order-Status",
            TransactionType::Delivery => "Delivery",
            TransactionType::StockLevel => "Stock-Level",
        })
    }
}

/// A customer, chosen by number (40 %) or last name (60 %).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Customer {
    Id(u64),
    LastName(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderLine {
    item: u64,
    supply_warehouse: u64,
    quantity: u64,
}

/// Input of a transaction, drawn before its clock starts; a retry reuses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    NewOrder { district: u64, customer: u64, lines: Vec<OrderLine> },
    Payment { district: u64, customer_warehouse: u64, customer_district: u64, customer: Customer, amount_cents: i64 },
    OrderStatus { district: u64, customer: Customer },
    Delivery { carrier: u64 },
    StockLevel { threshold: u64 },
}

impl Input {
    pub(crate) fn transaction_type(&self) -> TransactionType {
        match self {
            Input::NewOrder { .. } => TransactionType::NewOrder,
            Input::Payment { .. } => TransactionType::Payment,
            Input::OrderStatus { .. } => TransactionType::OrderStatus,
            Input::Delivery { .. } => TransactionType::Delivery,
            Input::StockLevel { .. } => TransactionType::StockLevel,
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    /// The 1 % of New-Order that ask for an unused item; they count as completed.
    RolledBack,
}

/// A terminal: its home warehouse and its random numbers.
#[derive(Clone, Debug)]
pub(crate) struct Terminal {
    pub population: Population,
    pub non_uniform: NonUniform,
    pub random: Random,
    pub warehouse: u64,
    /// District for Stock-Level: the terminal's own (clause 2.8.1.1).
    pub district: u64,
}

impl Terminal {
    pub(crate) fn new(population: Population, seed: u64, number: u64) -> Self {
        let warehouses = u64::from(population.warehouses);
        Terminal {
            population,
            non_uniform: NonUniform::new(seed),
            // Streams below 2^32 belong to the load.
            random: Random::new(seed, (1 << 32) + number),
            warehouse: number % warehouses + 1,
            district: number / warehouses % DISTRICTS + 1,
        }
    }

    pub(crate) fn draw(&mut self) -> Input {
        match TransactionType::draw(&mut self.random) {
            TransactionType::NewOrder => self.draw_new_order(),
            TransactionType::Payment => self.draw_payment(),
            TransactionType::OrderStatus => {
                let district = self.random.uniform(1, DISTRICTS);
                Input::OrderStatus { district, customer: self.draw_customer() }
            }
            TransactionType::Delivery => Input::Delivery { carrier: self.random.uniform(1, 10) },
            TransactionType::StockLevel => Input::StockLevel { threshold: self.random.uniform(10, 20) },
        }
    }

    fn draw_new_order(&mut self) -> Input {
        let district = self.random.uniform(1, DISTRICTS);
        let customer = self.non_uniform.customer(&mut self.random, self.population.customers);
        let count = self.random.uniform(5, 15);
        let rolls_back = self.random.percent(1);
        let mut lines: Vec<OrderLine> = (0..count).map(|_| self.draw_line()).collect();
        // All terminals take stock rows in the same order, for fewer deadlocks.
        lines.sort_unstable_by_key(|line| (line.supply_warehouse, line.item));
        if rolls_back && let Some(last) = lines.last_mut() {
            last.item = self.population.items + 1;
        }
        Input::NewOrder { district, customer, lines }
    }

    fn draw_line(&mut self) -> OrderLine {
        let item = self.non_uniform.item(&mut self.random, self.population.items);
        let remote = self.random.percent(1);
        OrderLine {
            item,
            supply_warehouse: if remote { self.other_warehouse() } else { self.warehouse },
            quantity: self.random.uniform(1, 10),
        }
    }

    fn draw_payment(&mut self) -> Input {
        let district = self.random.uniform(1, DISTRICTS);
        let (customer_warehouse, customer_district) = match self.random.percent(15) {
            true => (self.other_warehouse(), self.random.uniform(1, DISTRICTS)),
            false => (self.warehouse, district),
        };
        let customer = self.draw_customer();
        let amount_cents = self.random.uniform(100, 500_000) as i64;
        Input::Payment { district, customer_warehouse, customer_district, customer, amount_cents }
    }

    fn draw_customer(&mut self) -> Customer {
        match self.random.percent(60) {
            true => {
                let number = self.non_uniform.last_name(&mut self.random, self.population.customers);
                Customer::LastName(last_name(number))
            }
            false => Customer::Id(self.non_uniform.customer(&mut self.random, self.population.customers)),
        }
    }

    /// Any warehouse except the home; the home if it is the only one.
    fn other_warehouse(&mut self) -> u64 {
        let warehouses = u64::from(self.population.warehouses);
        if warehouses == 1 {
            return 1;
        }
        let other = self.random.uniform(1, warehouses - 1);
        if other >= self.warehouse { other + 1 } else { other }
    }

    /// Runs a transaction with `input` to its commit or rollback.
    pub(crate) fn perform(&self, session: &mut Session, input: &Input, style: Style) -> Result<Outcome, ClientError> {
        if style == Style::Procedures {
            return self.call(session, input);
        }
        let result = match input {
            Input::NewOrder { district, customer, lines } => self.new_order(session, *district, *customer, lines),
            Input::Payment { district, customer_warehouse, customer_district, customer, amount_cents } => {
                let customer_home = (*customer_warehouse, *customer_district);
                self.payment(session, *district, customer_home, customer, *amount_cents)
            }
            Input::OrderStatus { district, customer } => self.order_status(session, *district, customer),
            Input::Delivery { carrier } => self.delivery(session, *carrier),
            Input::StockLevel { threshold } => self.stock_level(session, *threshold),
        };
        if let Err(ClientError::Server { .. } | ClientError::UnexpectedAnswer { .. }) = &result {
            // A lock wait that timed out has undone only its statement. The first error is the one to report.
            let _ = session.text("ROLLBACK");
        }
        result
    }

    fn call(&self, session: &mut Session, input: &Input) -> Result<Outcome, ClientError> {
        let by = |customer: &Customer| match customer {
            Customer::Id(id) => format!("{id},NULL"),
            Customer::LastName(name) => format!("0,'{name}'"),
        };
        let home = self.warehouse;
        let sql = match input {
            Input::NewOrder { district, customer, lines } => {
                let all_local = i32::from(lines.iter().all(|line| line.supply_warehouse == home));
                let text: Vec<String> = lines
                    .iter()
                    .map(|line| format!("{}:{}:{}", line.item, line.supply_warehouse, line.quantity))
                    .collect();
                let count = lines.len();
                format!("CALL tpcc_new_order({home},{district},{customer},{count},{all_local},'{}')", text.join(","))
            }
            Input::Payment { district, customer_warehouse, customer_district, customer, amount_cents } => format!(
                "CALL tpcc_payment({home},{district},{customer_warehouse},{customer_district},{},{})",
                by(customer),
                cents_text(*amount_cents)
            ),
            Input::OrderStatus { district, customer } => {
                format!("CALL tpcc_order_status({home},{district},{})", by(customer))
            }
            Input::Delivery { carrier } => format!("CALL tpcc_delivery({home},{carrier})"),
            Input::StockLevel { threshold } => format!("CALL tpcc_stock_level({home},{},{threshold})", self.district),
        };
        match session.text(&sql) {
            Ok(()) => Ok(Outcome::Committed),
            Err(ClientError::Server { message, .. }) if message == UNUSED_ITEM => Ok(Outcome::RolledBack),
            Err(error) => Err(error),
        }
    }

    fn new_order(
        &self,
        session: &mut Session,
        district: u64,
        customer: u64,
        lines: &[OrderLine],
    ) -> Result<Outcome, ClientError> {
        let home = self.warehouse;
        session.text("START TRANSACTION")?;
        session.row(
            "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[home.into(), district.into(), customer.into()],
        )?;
        session.row("SELECT w_tax FROM warehouse WHERE w_id = ?", &[home.into()])?;
        let found = session.row(
            "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE",
            &[home.into(), district.into()],
        )?;
        let order = int(&found, 0, "district")?;
        session.execute(
            "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?",
            &[(order + 1).into(), home.into(), district.into()],
        )?;
        let all_local = i64::from(lines.iter().all(|line| line.supply_warehouse == home));
        let count = lines.len() as u64;
        session.execute(
            "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
             VALUES (?, ?, ?, ?, NOW(), ?, ?)",
            &[order.into(), district.into(), home.into(), customer.into(), count.into(), all_local.into()],
        )?;
        session.execute(
            "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)",
            &[order.into(), district.into(), home.into()],
        )?;
        for (number, line) in (1u64..).zip(lines) {
            let item = session.row("SELECT i_price, i_name, i_data FROM item WHERE i_id = ?", &[line.item.into()])?;
            let Some(price) = item.as_ref().and_then(|row| row.first()).and_then(Cell::cents) else {
                session.text("ROLLBACK")?;
                return Ok(Outcome::RolledBack);
            };
            let dist_info = self.take_stock(session, district, line)?;
            let amount = cents_text(price * line.quantity as i64);
            session.execute(
                "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, \
                 ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                &[
                    order.into(),
                    district.into(),
                    home.into(),
                    number.into(),
                    line.item.into(),
                    line.supply_warehouse.into(),
                    line.quantity.into(),
                    amount.as_str().into(),
                    dist_info.as_slice().into(),
                ],
            )?;
        }
        session.text("COMMIT")?;
        Ok(Outcome::Committed)
    }

    /// Deducts a line's quantity from the stock; returns the district's S_DIST text.
    fn take_stock(&self, session: &mut Session, district: u64, line: &OrderLine) -> Result<Vec<u8>, ClientError> {
        let index = (district - 1) as usize % SELECT_STOCK.len();
        let key = [Param::from(line.supply_warehouse), line.item.into()];
        let found = session.row(SELECT_STOCK[index], &key)?;
        let stock = int(&found, 0, "stock")?;
        let quantity = line.quantity as i64;
        let left = if stock >= quantity + 10 { stock - quantity } else { stock - quantity + 91 };
        let remote = i64::from(line.supply_warehouse != self.warehouse);
        session.execute(
            "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1, \
             s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?",
            &[left.into(), quantity.into(), remote.into(), line.supply_warehouse.into(), line.item.into()],
        )?;
        Ok(found.as_ref().and_then(|row| row.get(1)).map(|cell| cell.text().to_vec()).unwrap_or_default())
    }

    fn payment(
        &self,
        session: &mut Session,
        district: u64,
        (c_warehouse, c_district): (u64, u64),
        customer: &Customer,
        amount_cents: i64,
    ) -> Result<Outcome, ClientError> {
        let home = self.warehouse;
        let amount = cents_text(amount_cents);
        session.text("START TRANSACTION")?;
        session
            .execute("UPDATE warehouse SET w_ytd = w_ytd + ? WHERE w_id = ?", &[amount.as_str().into(), home.into()])?;
        let warehouse = session.row(
            "SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip FROM warehouse WHERE w_id = ?",
            &[home.into()],
        )?;
        session.execute(
            "UPDATE district SET d_ytd = d_ytd + ? WHERE d_w_id = ? AND d_id = ?",
            &[amount.as_str().into(), home.into(), district.into()],
        )?;
        let district_row = session.row(
            "SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip FROM district WHERE d_w_id = ? AND d_id = ?",
            &[home.into(), district.into()],
        )?;
        let id = customer_id(session, c_warehouse, c_district, customer)?;
        let key = [Param::from(c_warehouse), c_district.into(), id.into()];
        let found = session.row(
            "SELECT c_credit, c_data, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, \
             c_since, c_credit_lim, c_discount, c_balance FROM customer \
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ? FOR UPDATE",
            &key,
        )?;
        let [credit, data] = [text(&found, 0), text(&found, 1)];
        if credit == b"BC" {
            let mut data_new = format!("{id} {c_district} {c_warehouse} {district} {home} {amount}|").into_bytes();
            data_new.extend_from_slice(data);
            data_new.truncate(500);
            session.execute(
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
                 c_payment_cnt = c_payment_cnt + 1, c_data = ? WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                &[
                    amount.as_str().into(),
                    amount.as_str().into(),
                    data_new.as_slice().into(),
                    c_warehouse.into(),
                    c_district.into(),
                    id.into(),
                ],
            )?;
        } else {
            session.execute(
                "UPDATE customer SET c_balance = c_balance - ?, c_ytd_payment = c_ytd_payment + ?, \
                 c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                &[amount.as_str().into(), amount.as_str().into(), c_warehouse.into(), c_district.into(), id.into()],
            )?;
        }
        let h_data = [text(&warehouse, 0), b"    ", text(&district_row, 0)].concat();
        session.execute(
            "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
             VALUES (?, ?, ?, ?, ?, NOW(), ?, ?)",
            &[
                id.into(),
                c_district.into(),
                c_warehouse.into(),
                district.into(),
                home.into(),
                amount.as_str().into(),
                h_data.as_slice().into(),
            ],
        )?;
        session.text("COMMIT")?;
        Ok(Outcome::Committed)
    }

    fn order_status(&self, session: &mut Session, district: u64, customer: &Customer) -> Result<Outcome, ClientError> {
        let home = self.warehouse;
        session.text("START TRANSACTION READ ONLY")?;
        let id = customer_id(session, home, district, customer)?;
        session.row(
            "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            &[home.into(), district.into(), id.into()],
        )?;
        let order = session.row(
            "SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ? \
             ORDER BY o_id DESC LIMIT 1",
            &[home.into(), district.into(), id.into()],
        )?;
        let order = int(&order, 0, "last order")?;
        session.rows(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            &[home.into(), district.into(), order.into()],
        )?;
        session.text("COMMIT")?;
        Ok(Outcome::Committed)
    }

    fn delivery(&self, session: &mut Session, carrier: u64) -> Result<Outcome, ClientError> {
        let home = self.warehouse;
        session.text("START TRANSACTION")?;
        for district in 1..=DISTRICTS {
            let oldest = session.row(
                "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE",
                &[home.into(), district.into()],
            )?;
            // A district without undelivered orders is skipped (clause 2.7.4.2).
            let Some(order) = oldest.as_ref().and_then(|row| row.first()).and_then(Cell::int) else { continue };
            let key = [Param::from(home), district.into(), order.into()];
            session.execute("DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", &key)?;
            // Locking, as above: a plain read would use the snapshot taken for the first district, older than the
            // order.
            let found = session
                .row("SELECT o_c_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ? FOR UPDATE", &key)?;
            let customer = int(&found, 0, "order")?;
            session.execute(
                "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
                &[carrier.into(), home.into(), district.into(), order.into()],
            )?;
            session.execute(
                "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
                &key,
            )?;
            let sum = session
                .row("SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?", &key)?;
            session.execute(
                "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1 \
                 WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
                &[text(&sum, 0).into(), home.into(), district.into(), customer.into()],
            )?;
        }
        session.text("COMMIT")?;
        Ok(Outcome::Committed)
    }

    fn stock_level(&self, session: &mut Session, threshold: u64) -> Result<Outcome, ClientError> {
        let (home, district) = (self.warehouse, self.district);
        session.text("START TRANSACTION READ ONLY")?;
        let found = session
            .row("SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", &[home.into(), district.into()])?;
        let next = int(&found, 0, "district")?;
        session.row(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ? AND s_i_id = ol_i_id \
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_quantity < ?",
            &[home.into(), home.into(), district.into(), (next - 20).into(), next.into(), threshold.into()],
        )?;
        session.text("COMMIT")?;
        Ok(Outcome::Committed)
    }
}

macro_rules! select_stock {
    ($($district:literal)*) => {
        [$(concat!("SELECT s_quantity, s_dist_", $district, ", s_data FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE")),*]
    };
}

/// One statement per district: each S_DIST_xx is a column of its own.
const SELECT_STOCK: [&str; 10] = select_stock!("01" "02" "03" "04" "05" "06" "07" "08" "09" "10");

/// Among customers of one last name it is the middle one by first name, rounded up (clause 2.5.2.2).
fn customer_id(session: &mut Session, warehouse: u64, district: u64, customer: &Customer) -> Result<i64, ClientError> {
    match customer {
        Customer::Id(id) => Ok(*id as i64),
        Customer::LastName(name) => {
            let found = session.rows(
                "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first",
                &[warehouse.into(), district.into(), name.as_str().into()],
            )?;
            let middle = found.len().div_ceil(2).checked_sub(1).and_then(|index| found.into_iter().nth(index));
            int(&middle, 0, "customer of that last name")
        }
    }
}

fn int(row: &Option<Vec<Cell>>, column: usize, what: &'static str) -> Result<i64, ClientError> {
    row.as_ref().and_then(|row| row.get(column)).and_then(Cell::int).ok_or(ClientError::UnexpectedAnswer { what })
}

fn text(row: &Option<Vec<Cell>>, column: usize) -> &[u8] {
    row.as_ref().and_then(|row| row.get(column)).map_or(&[], Cell::text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terminal(warehouses: u32) -> Terminal {
        Terminal::new(Population::scaled(warehouses, 1.0), 11, 3)
    }

    #[test]
    fn the_mix_is_the_standard_one() {
        let mut random = Random::new(1, 1);
        let mut counts = [0u32; 5];
        for _ in 0..100_000 {
            counts[TransactionType::draw(&mut random) as usize] += 1;
        }
        for (count, percent) in counts.iter().zip([45, 43, 4, 4, 4]) {
            assert!(count.abs_diff(percent * 1000) < 500, "{counts:?}");
        }
    }

    #[test]
    fn one_in_a_hundred_new_orders_asks_for_an_unused_item_as_its_last_line() {
        let mut terminal = terminal(4);
        let (mut orders, mut unused, mut remote, mut all_lines) = (0u32, 0u32, 0u32, 0u32);
        for _ in 0..40_000 {
            let Input::NewOrder { lines, district, .. } = terminal.draw() else { continue };
            orders += 1;
            assert!((5..=15).contains(&lines.len()) && (1..=10).contains(&district));
            let items = terminal.population.items;
            assert!(lines[..lines.len() - 1].iter().all(|line| (1..=items).contains(&line.item)));
            unused += u32::from(lines.last().is_some_and(|line| line.item > items));
            all_lines += lines.len() as u32;
            remote += lines.iter().filter(|line| line.supply_warehouse != terminal.warehouse).count() as u32;
        }
        assert!((orders / 140..orders / 70).contains(&unused), "{unused} of {orders}");
        assert!((all_lines / 120..all_lines / 85).contains(&remote), "{remote} of {all_lines}");
    }

    #[test]
    fn fifteen_percent_of_payments_are_for_a_remote_customer_sixty_by_name() {
        let mut terminal = terminal(4);
        let (mut payments, mut remote, mut by_name) = (0u32, 0u32, 0u32);
        for _ in 0..40_000 {
            let Input::Payment { customer_warehouse, customer, amount_cents, .. } = terminal.draw() else { continue };
            payments += 1;
            assert!((100..=500_000).contains(&amount_cents));
            remote += u32::from(customer_warehouse != terminal.warehouse);
            by_name += u32::from(matches!(customer, Customer::LastName(_)));
        }
        assert!((payments * 14 / 100..payments * 16 / 100).contains(&remote), "{remote} of {payments}");
        assert!((payments * 58 / 100..payments * 62 / 100).contains(&by_name), "{by_name} of {payments}");
    }

    #[test]
    fn one_warehouse_has_no_remote() {
        let mut terminal = terminal(1);
        for _ in 0..5_000 {
            match terminal.draw() {
                Input::NewOrder { lines, .. } => assert!(lines.iter().all(|line| line.supply_warehouse == 1)),
                Input::Payment { customer_warehouse, .. } => assert_eq!(customer_warehouse, 1),
                _ => {}
            }
        }
    }

    #[test]
    fn the_same_seed_draws_the_same_inputs() {
        let (mut one, mut same) = (terminal(2), terminal(2));
        for _ in 0..500 {
            assert_eq!(one.draw(), same.draw());
        }
    }

    #[test]
    fn terminals_spread_over_warehouses_then_districts() {
        let homes: Vec<_> = (0..5)
            .map(|number| Terminal::new(Population::scaled(2, 1.0), 1, number))
            .map(|terminal| (terminal.warehouse, terminal.district))
            .collect();
        assert_eq!(homes, [(1, 1), (2, 1), (1, 2), (2, 2), (1, 3)]);
    }
}
