//! The specification's nine tables (clause 1.3), with the keys and secondary indexes that implementations have.

/// Every table, parents before children.
pub(crate) const TABLES: [&str; 9] =
    ["item", "warehouse", "district", "stock", "customer", "history", "orders", "new_order", "order_line"];

const CREATE_TABLES: [&str; 9] = [
    "CREATE TABLE item (
        i_id INT NOT NULL, i_im_id INT NOT NULL, i_name VARCHAR(24) NOT NULL, i_price DECIMAL(5,2) NOT NULL,
        i_data VARCHAR(50) NOT NULL, PRIMARY KEY (i_id))",
    "CREATE TABLE warehouse (
        w_id INT NOT NULL, w_name VARCHAR(10) NOT NULL, w_street_1 VARCHAR(20) NOT NULL, w_street_2 VARCHAR(20) NOT NULL,
        w_city VARCHAR(20) NOT NULL, w_state CHAR(2) NOT NULL, w_zip CHAR(9) NOT NULL, w_tax DECIMAL(4,4) NOT NULL,
        w_ytd DECIMAL(12,2) NOT NULL, PRIMARY KEY (w_id))",
    "CREATE TABLE district (
        d_id TINYINT NOT NULL, d_w_id INT NOT NULL, d_name VARCHAR(10) NOT NULL, d_street_1 VARCHAR(20) NOT NULL,
        d_street_2 VARCHAR(20) NOT NULL, d_city VARCHAR(20) NOT NULL, d_state CHAR(2) NOT NULL, d_zip CHAR(9) NOT NULL,
        d_tax DECIMAL(4,4) NOT NULL, d_ytd DECIMAL(12,2) NOT NULL, d_next_o_id INT NOT NULL, PRIMARY KEY (d_w_id, d_id))",
    "CREATE TABLE stock (
        s_i_id INT NOT NULL, s_w_id INT NOT NULL, s_quantity SMALLINT NOT NULL, s_dist_01 CHAR(24) NOT NULL,
        s_dist_02 CHAR(24) NOT NULL, s_dist_03 CHAR(24) NOT NULL, s_dist_04 CHAR(24) NOT NULL, s_dist_05 CHAR(24) NOT NULL,
        s_dist_06 CHAR(24) NOT NULL, s_dist_07 CHAR(24) NOT NULL, s_dist_08 CHAR(24) NOT NULL, s_dist_09 CHAR(24) NOT NULL,
        s_dist_10 CHAR(24) NOT NULL, s_ytd DECIMAL(8,0) NOT NULL, s_order_cnt INT NOT NULL, s_remote_cnt INT NOT NULL,
        s_data VARCHAR(50) NOT NULL, PRIMARY KEY (s_w_id, s_i_id))",
    "CREATE TABLE customer (
        c_id INT NOT NULL, c_d_id TINYINT NOT NULL, c_w_id INT NOT NULL, c_first VARCHAR(16) NOT NULL,
        c_middle CHAR(2) NOT NULL, c_last VARCHAR(16) NOT NULL, c_street_1 VARCHAR(20) NOT NULL,
        c_street_2 VARCHAR(20) NOT NULL, c_city VARCHAR(20) NOT NULL, c_state CHAR(2) NOT NULL, c_zip CHAR(9) NOT NULL,
        c_phone CHAR(16) NOT NULL, c_since DATETIME NOT NULL, c_credit CHAR(2) NOT NULL, c_credit_lim DECIMAL(12,2) NOT NULL,
        c_discount DECIMAL(4,4) NOT NULL, c_balance DECIMAL(12,2) NOT NULL, c_ytd_payment DECIMAL(12,2) NOT NULL,
        c_payment_cnt INT NOT NULL, c_delivery_cnt INT NOT NULL, c_data VARCHAR(500) NOT NULL,
        PRIMARY KEY (c_w_id, c_d_id, c_id), KEY customer_last_name (c_w_id, c_d_id, c_last, c_first))",
    // No key: the specification gives HISTORY none.
    "CREATE TABLE history (
        h_c_id INT NOT NULL, h_c_d_id TINYINT NOT NULL, h_c_w_id INT NOT NULL, h_d_id TINYINT NOT NULL, h_w_id INT NOT NULL,
        h_date DATETIME NOT NULL, h_amount DECIMAL(6,2) NOT NULL, h_data VARCHAR(24) NOT NULL)",
    "CREATE TABLE orders (
        o_id INT NOT NULL, o_d_id TINYINT NOT NULL, o_w_id INT NOT NULL, o_c_id INT NOT NULL, o_entry_d DATETIME NOT NULL,
        o_carrier_id TINYINT NULL, o_ol_cnt TINYINT NOT NULL, o_all_local TINYINT NOT NULL,
        PRIMARY KEY (o_w_id, o_d_id, o_id), KEY orders_customer (o_w_id, o_d_id, o_c_id, o_id))",
    "CREATE TABLE new_order (
        no_o_id INT NOT NULL, no_d_id TINYINT NOT NULL, no_w_id INT NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id))",
    "CREATE TABLE order_line (
        ol_o_id INT NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id INT NOT NULL, ol_number TINYINT NOT NULL,
        ol_i_id INT NOT NULL, ol_supply_w_id INT NOT NULL, ol_delivery_d DATETIME NULL, ol_quantity TINYINT NOT NULL,
        ol_amount DECIMAL(6,2) NOT NULL, ol_dist_info CHAR(24) NOT NULL,
        PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))",
];

/// The specification's references. Optional, because most published implementations leave them out.
const FOREIGN_KEYS: [(&str, &str); 10] = [
    ("district", "CONSTRAINT district_warehouse FOREIGN KEY (d_w_id) REFERENCES warehouse (w_id)"),
    ("stock", "CONSTRAINT stock_warehouse FOREIGN KEY (s_w_id) REFERENCES warehouse (w_id)"),
    ("stock", "CONSTRAINT stock_item FOREIGN KEY (s_i_id) REFERENCES item (i_id)"),
    ("customer", "CONSTRAINT customer_district FOREIGN KEY (c_w_id, c_d_id) REFERENCES district (d_w_id, d_id)"),
    (
        "history",
        "CONSTRAINT history_customer FOREIGN KEY (h_c_w_id, h_c_d_id, h_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
    ),
    ("history", "CONSTRAINT history_district FOREIGN KEY (h_w_id, h_d_id) REFERENCES district (d_w_id, d_id)"),
    (
        "orders",
        "CONSTRAINT orders_of_customer FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer (c_w_id, c_d_id, c_id)",
    ),
    (
        "new_order",
        "CONSTRAINT new_order_orders FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
    ),
    (
        "order_line",
        "CONSTRAINT order_line_orders FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders (o_w_id, o_d_id, o_id)",
    ),
    (
        "order_line",
        "CONSTRAINT order_line_stock FOREIGN KEY (ol_supply_w_id, ol_i_id) REFERENCES stock (s_w_id, s_i_id)",
    ),
];

/// Statement that creates the table at `index` in `TABLES`.
pub(crate) fn create_table(index: usize, foreign_keys: bool) -> String {
    let mut sql = CREATE_TABLES[index].to_string();
    if foreign_keys {
        sql.pop();
        for (_, clause) in FOREIGN_KEYS.iter().filter(|(table, _)| *table == TABLES[index]) {
            sql.push_str(", ");
            sql.push_str(clause);
        }
        sql.push(')');
    }
    sql
}

/// Signalled by the procedure style for the 1 % of New-Order transactions that roll back (clause 2.4.1.4).
pub(crate) const UNUSED_ITEM: &str = "tpcc: unused item";

/// The five transactions as procedures: one round trip each. `p_lines` lists item:warehouse:quantity, comma-separated.
pub(crate) const PROCEDURES: [(&str, &str); 5] = [
    (
        "tpcc_new_order",
        "CREATE PROCEDURE tpcc_new_order(p_w_id INT, p_d_id INT, p_c_id INT, p_ol_cnt INT, p_all_local INT, p_lines TEXT)
BEGIN
    DECLARE v_discount, v_w_tax, v_d_tax DECIMAL(4,4);
    DECLARE v_last VARCHAR(16);
    DECLARE v_credit CHAR(2);
    DECLARE v_o_id, v_i_id, v_supply, v_quantity, v_stock INT;
    DECLARE v_number INT DEFAULT 1;
    DECLARE v_price DECIMAL(5,2);
    DECLARE v_name VARCHAR(24);
    DECLARE v_i_data, v_s_data VARCHAR(50);
    DECLARE v_dist CHAR(24);
    DECLARE v_line VARCHAR(40);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    DECLARE EXIT HANDLER FOR NOT FOUND BEGIN ROLLBACK; SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'tpcc: unused item'; END;
    START TRANSACTION;
    SELECT c_discount, c_last, c_credit INTO v_discount, v_last, v_credit FROM customer
        WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = p_c_id;
    SELECT w_tax INTO v_w_tax FROM warehouse WHERE w_id = p_w_id;
    SELECT d_tax, d_next_o_id INTO v_d_tax, v_o_id FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id FOR UPDATE;
    UPDATE district SET d_next_o_id = v_o_id + 1 WHERE d_w_id = p_w_id AND d_id = p_d_id;
    INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
        VALUES (v_o_id, p_d_id, p_w_id, p_c_id, NOW(), p_ol_cnt, p_all_local);
    INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (v_o_id, p_d_id, p_w_id);
    WHILE v_number <= p_ol_cnt DO
        SET v_line = SUBSTRING_INDEX(SUBSTRING_INDEX(p_lines, ',', v_number), ',', -1);
        SET v_i_id = SUBSTRING_INDEX(v_line, ':', 1);
        SET v_supply = SUBSTRING_INDEX(SUBSTRING_INDEX(v_line, ':', 2), ':', -1);
        SET v_quantity = SUBSTRING_INDEX(v_line, ':', -1);
        SELECT i_price, i_name, i_data INTO v_price, v_name, v_i_data FROM item WHERE i_id = v_i_id;
        SELECT s_quantity, s_data, CASE p_d_id WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
                WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06 WHEN 7 THEN s_dist_07
                WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09 ELSE s_dist_10 END
            INTO v_stock, v_s_data, v_dist FROM stock WHERE s_w_id = v_supply AND s_i_id = v_i_id FOR UPDATE;
        UPDATE stock SET s_quantity = v_stock - v_quantity + IF(v_stock >= v_quantity + 10, 0, 91),
                s_ytd = s_ytd + v_quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (v_supply <> p_w_id)
            WHERE s_w_id = v_supply AND s_i_id = v_i_id;
        INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,
                ol_dist_info)
            VALUES (v_o_id, p_d_id, p_w_id, v_number, v_i_id, v_supply, v_quantity, v_quantity * v_price, v_dist);
        SET v_number = v_number + 1;
    END WHILE;
    COMMIT;
END",
    ),
    (
        "tpcc_payment",
        "CREATE PROCEDURE tpcc_payment(p_w_id INT, p_d_id INT, p_c_w_id INT, p_c_d_id INT, p_c_id INT, p_c_last VARCHAR(16),
    p_amount DECIMAL(6,2))
BEGIN
    DECLARE v_w_name, v_d_name VARCHAR(10);
    DECLARE v_c_id, v_count INT;
    DECLARE v_credit CHAR(2);
    DECLARE v_half INT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    UPDATE warehouse SET w_ytd = w_ytd + p_amount WHERE w_id = p_w_id;
    SELECT w_name INTO v_w_name FROM warehouse WHERE w_id = p_w_id;
    UPDATE district SET d_ytd = d_ytd + p_amount WHERE d_w_id = p_w_id AND d_id = p_d_id;
    SELECT d_name INTO v_d_name FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
    SET v_c_id = p_c_id;
    IF p_c_last IS NOT NULL THEN
        SELECT COUNT(*) INTO v_count FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;
        SET v_half = (v_count - 1) DIV 2;
        SELECT c_id INTO v_c_id FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last
            ORDER BY c_first LIMIT v_half, 1;
    END IF;
    SELECT c_credit INTO v_credit FROM customer
        WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = v_c_id FOR UPDATE;
    IF v_credit = 'BC' THEN
        UPDATE customer SET c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount,
                c_payment_cnt = c_payment_cnt + 1,
                c_data = LEFT(CONCAT(c_id, ' ', c_d_id, ' ', c_w_id, ' ', p_d_id, ' ', p_w_id, ' ', p_amount, '|', c_data), 500)
            WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = v_c_id;
    ELSE
        UPDATE customer SET c_balance = c_balance - p_amount, c_ytd_payment = c_ytd_payment + p_amount,
                c_payment_cnt = c_payment_cnt + 1
            WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = v_c_id;
    END IF;
    INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
        VALUES (v_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, NOW(), p_amount, CONCAT(v_w_name, '    ', v_d_name));
    COMMIT;
END",
    ),
    (
        "tpcc_order_status",
        "CREATE PROCEDURE tpcc_order_status(p_w_id INT, p_d_id INT, p_c_id INT, p_c_last VARCHAR(16))
BEGIN
    DECLARE v_c_id, v_count, v_o_id, v_carrier, v_lines, v_half INT;
    DECLARE v_balance DECIMAL(12,2);
    DECLARE v_entry DATETIME;
    DECLARE v_total DECIMAL(12,2);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION READ ONLY;
    SET v_c_id = p_c_id;
    IF p_c_last IS NOT NULL THEN
        SELECT COUNT(*) INTO v_count FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last;
        SET v_half = (v_count - 1) DIV 2;
        SELECT c_id INTO v_c_id FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_last = p_c_last
            ORDER BY c_first LIMIT v_half, 1;
    END IF;
    SELECT c_balance INTO v_balance FROM customer WHERE c_w_id = p_w_id AND c_d_id = p_d_id AND c_id = v_c_id;
    SELECT o_id, o_carrier_id, o_entry_d INTO v_o_id, v_carrier, v_entry FROM orders
        WHERE o_w_id = p_w_id AND o_d_id = p_d_id AND o_c_id = v_c_id ORDER BY o_id DESC LIMIT 1;
    SELECT COUNT(*), SUM(ol_amount) INTO v_lines, v_total FROM order_line
        WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id = v_o_id;
    COMMIT;
END",
    ),
    (
        "tpcc_delivery",
        "CREATE PROCEDURE tpcc_delivery(p_w_id INT, p_carrier INT)
BEGIN
    DECLARE v_d_id INT DEFAULT 1;
    DECLARE v_o_id, v_c_id INT;
    DECLARE v_total DECIMAL(12,2);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION;
    WHILE v_d_id <= 10 DO
        SET v_o_id = (SELECT no_o_id FROM new_order WHERE no_w_id = p_w_id AND no_d_id = v_d_id
            ORDER BY no_o_id LIMIT 1 FOR UPDATE);
        IF v_o_id IS NOT NULL THEN
            DELETE FROM new_order WHERE no_w_id = p_w_id AND no_d_id = v_d_id AND no_o_id = v_o_id;
            SELECT o_c_id INTO v_c_id FROM orders WHERE o_w_id = p_w_id AND o_d_id = v_d_id AND o_id = v_o_id FOR UPDATE;
            UPDATE orders SET o_carrier_id = p_carrier WHERE o_w_id = p_w_id AND o_d_id = v_d_id AND o_id = v_o_id;
            UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = p_w_id AND ol_d_id = v_d_id AND ol_o_id = v_o_id;
            SELECT SUM(ol_amount) INTO v_total FROM order_line
                WHERE ol_w_id = p_w_id AND ol_d_id = v_d_id AND ol_o_id = v_o_id;
            UPDATE customer SET c_balance = c_balance + v_total, c_delivery_cnt = c_delivery_cnt + 1
                WHERE c_w_id = p_w_id AND c_d_id = v_d_id AND c_id = v_c_id;
        END IF;
        SET v_d_id = v_d_id + 1;
    END WHILE;
    COMMIT;
END",
    ),
    (
        "tpcc_stock_level",
        "CREATE PROCEDURE tpcc_stock_level(p_w_id INT, p_d_id INT, p_threshold INT)
BEGIN
    DECLARE v_next, v_low INT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;
    START TRANSACTION READ ONLY;
    SELECT d_next_o_id INTO v_next FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
    SELECT COUNT(DISTINCT s_i_id) INTO v_low FROM order_line JOIN stock ON s_w_id = p_w_id AND s_i_id = ol_i_id
        WHERE ol_w_id = p_w_id AND ol_d_id = p_d_id AND ol_o_id >= v_next - 20 AND ol_o_id < v_next
        AND s_quantity < p_threshold;
    COMMIT;
END",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_table_has_its_statement_in_order() {
        for (table, sql) in TABLES.iter().zip(CREATE_TABLES) {
            assert!(sql.starts_with(&format!("CREATE TABLE {table} (")), "{table}");
        }
    }

    #[test]
    fn the_procedure_signals_what_the_driver_expects() {
        assert!(PROCEDURES[0].1.contains(UNUSED_ITEM));
    }
}
