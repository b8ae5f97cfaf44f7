//! A small web shop with every column type of "Follow a real MySQL primary": its tables, and a seeded load of
//! statements.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::{Random, Server};

/// Creates the shop's tables; `db` is dropped and created.
#[must_use]
pub fn schema(db: &str) -> String {
    format!(
        "DROP DATABASE IF EXISTS {db}; CREATE DATABASE {db} CHARACTER SET utf8mb4; USE {db};
CREATE TABLE customer (
  id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, email VARCHAR(120) NOT NULL, name VARCHAR(80) CHARACTER SET latin1,
  country CHAR(2) CHARACTER SET latin1 NOT NULL DEFAULT 'DE', salutation CHAR(12), notes TEXT, score FLOAT, balance DOUBLE,
  created DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  changed TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  birthday DATE, wakes TIME(2), since YEAR, level ENUM('new','regular','gold','ürlaub') NOT NULL DEFAULT 'new',
  profile JSON, photo BLOB, UNIQUE KEY (email), KEY (country, since));
CREATE TABLE product (
  sku VARCHAR(24) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY, name VARCHAR(200) NOT NULL,
  price DECIMAL(12,4) NOT NULL, weight FLOAT, stock MEDIUMINT NOT NULL DEFAULT 0, tags JSON, body LONGTEXT,
  thumb TINYBLOB, manual MEDIUMTEXT CHARACTER SET latin1, KEY (price));
CREATE TABLE purchase (
  customer INT UNSIGNED NOT NULL, number SMALLINT UNSIGNED NOT NULL, placed DATETIME(3) NOT NULL, paid TIMESTAMP NULL,
  state ENUM('open','paid','sent') NOT NULL, total DECIMAL(20,2) NOT NULL DEFAULT 0, PRIMARY KEY (customer, number),
  CONSTRAINT {db}_buys FOREIGN KEY (customer) REFERENCES customer (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE line (
  customer INT UNSIGNED NOT NULL, number SMALLINT UNSIGNED NOT NULL, position TINYINT NOT NULL,
  sku VARCHAR(24) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, pieces INT NOT NULL, PRIMARY KEY (customer, number, position),
  CONSTRAINT {db}_line FOREIGN KEY (customer, number) REFERENCES purchase (customer, number) ON DELETE CASCADE ON UPDATE CASCADE,
  CONSTRAINT {db}_sku FOREIGN KEY (sku) REFERENCES product (sku) ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE number (
  a TINYINT NOT NULL, b VARCHAR(16) NOT NULL, t TINYINT UNSIGNED, s SMALLINT, su SMALLINT UNSIGNED, m MEDIUMINT, mu MEDIUMINT UNSIGNED,
  i INT, iu INT UNSIGNED, l BIGINT, lu BIGINT UNSIGNED, d DECIMAL(65,30), e DECIMAL(5,0) UNSIGNED, f FLOAT, g DOUBLE, h BOOLEAN,
  t0 TIME, t6 TIME(6), d0 DATETIME, d1 DATETIME(1), s6 TIMESTAMP(6) NULL, PRIMARY KEY (b, a));
CREATE TABLE visit (at DATETIME(3) NOT NULL, page VARCHAR(40) NOT NULL, agent CHAR(20) CHARACTER SET latin1, ms INT);
CREATE TABLE shelf (code CHAR(4) NOT NULL, place INT NOT NULL, note VARCHAR(20), UNIQUE KEY code (code));
CREATE TABLE swap (id INT NOT NULL PRIMARY KEY, v VARCHAR(30), body TEXT);
INSERT INTO swap VALUES (1,'one','uno'),(2,'two','due'),(3,'three',NULL),(4,'four','quattro');
INSERT INTO shelf VALUES ('a001',1,NULL),('a002',2,'x'),('a003',3,'y'),('A00ä',4,'z');
INSERT INTO number (a,b,t,s,su,m,mu,i,iu,l,lu,d,e,f,g,h,t0,t6,d0,d1,s6) VALUES
 (-128,'least',0,-32768,0,-8388608,0,-2147483648,0,-9223372036854775808,0,-99999999999999999999999999999999999.999999999999999999999999999999,0,-3.4e38,-1.7976931348623157e308,0,'-838:59:59','-838:59:59.000000','1000-01-01','1000-01-01 00:00:00.1','1970-01-01 00:00:01.000001'),
 (127,'most',255,32767,65535,8388607,16777215,2147483647,4294967295,9223372036854775807,18446744073709551615,99999999999999999999999999999999999.999999999999999999999999999999,99999,3.4e38,1.7976931348623157e308,1,'838:59:59','838:59:58.999999','9999-12-31 23:59:59','9999-12-31 23:59:59.9','2038-01-19 03:14:07.499999'),
 (0,'zero',0,0,0,0,0,0,0,0,0,0,0,0,0,0,'00:00:00','-00:00:00.000001','2000-02-29 00:00:00','2000-02-29 12:00:00.5',NULL),
 (1,'null',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL),
 (2,'small',1,-1,1,-1,1,-1,1,-1,1,-0.000000000000000000000000000001,1,16777217,0.1,1,'-00:00:01','00:00:00.1','2024-06-01','2024-06-01 01:02:03.4','2024-03-31 01:30:00');
"
    )
}

/// `transactions` transactions of a busy day. The same seed and range give the same statements; `first` keeps keys
/// apart.
#[must_use]
pub fn load(db: &str, seed: u64, first: u64, transactions: u64) -> String {
    let mut random = Random::new(seed);
    let mut sql = format!("USE {db};\n");
    for n in first..first + transactions {
        one_transaction(&mut sql, &mut random, n);
    }
    sql
}

/// Runs `body` while the shop `db` is busy.
pub fn under_load(server: &Server, db: &str, body: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0.. {
                server.sql(&load(db, n, n * 25, 25));
                if ended.load(SeqCst) {
                    return;
                }
            }
        });
        let _ended = crate::SetAtEnd(&ended);
        body();
    });
}

const WORDS: &[&str] =
    &["Stuhl", "chaise", "стул", "椅子", "🪑 chair", "Zwölf", "", "a\\tb", "o''clock", "naïve", " end "];
const LATIN: &[&str] = &["Müller", "Åse", "O''Neil", "", "ß", "plain", "é\\nè"];

fn one_transaction(sql: &mut String, random: &mut Random, n: u64) {
    let word = |random: &mut Random| WORDS[random.below(WORDS.len() as u64) as usize];
    let some = |random: &mut Random| 1 + random.below(n + 1);
    let rollback = random.below(20) == 0;
    sql.push_str("BEGIN;\n");
    let _ = match random.below(14) {
        0 | 1 => writeln!(
            sql,
            "INSERT INTO customer (id, email, name, salutation, notes, score, balance, birthday, wakes, since, level, profile, photo, created) VALUES \
             ({}, 'c{n}@example.org', '{}', '{}', REPEAT('{}', {}), {}, {}, DATE_ADD('1950-01-01', INTERVAL {} DAY), SEC_TO_TIME({}.25), {}, {}, {}, {}, '2024-05-06 07:08:09.{:06}');",
            1 + n,
            LATIN[random.below(LATIN.len() as u64) as usize],
            word(random).chars().take(6).collect::<String>().trim_end_matches('\\'),
            word(random),
            random.below(60),
            random.below(1_000_000) as f64 / 7.0,
            random.below(1_000_000_000) as f64 / -3.0,
            random.below(20_000),
            random.below(80_000),
            1901 + random.below(250),
            1 + random.below(4),
            json(random, n),
            if random.below(3) == 0 { "NULL".to_owned() } else { format!("UNHEX('{:x}{:08x}00ff')", 16 + n % 200, random.below(1 << 31)) },
            random.below(1_000_000),
        ),
        2 | 3 => writeln!(
            sql,
            "INSERT IGNORE INTO product (sku, name, price, weight, stock, tags, body, thumb, manual) VALUES \
             ('sku-{n}', '{} {n}', {}.{:04}, {}.5, {}, {}, REPEAT('{}', {}), UNHEX(SHA2('{n}', 256)), '{}');",
            word(random),
            random.below(100_000),
            random.below(10_000),
            random.below(900),
            random.below(5000),
            json(random, n),
            word(random),
            random.below(700),
            LATIN[random.below(LATIN.len() as u64) as usize],
        ),
        4..=6 => writeln!(
            sql,
            "INSERT IGNORE INTO purchase SELECT id, {}, '2024-01-02 03:04:05.678', FROM_UNIXTIME({}), {}, {}.25 FROM customer WHERE id >= {} LIMIT 2;
INSERT IGNORE INTO line SELECT p.customer, p.number, {}, (SELECT sku FROM product WHERE stock >= {} LIMIT 1), {} FROM purchase p WHERE p.customer >= {} LIMIT 3;
UPDATE product SET stock = stock - 1 WHERE stock > {} LIMIT 4;",
            n % 60_000,
            1_700_000_000 + random.below(1_000_000),
            1 + random.below(3),
            random.below(100_000),
            some(random),
            random.below(100),
            random.below(4000),
            random.below(50),
            some(random),
            random.below(5000),
        ),
        7 => writeln!(
            sql,
            "INSERT INTO visit VALUES ('2024-01-01 00:00:00.1{:02}', '/p/{}', 'agent', {}), ('2024-01-01 00:00:00.1{:02}', '/p/{}', 'agent', {}),
 ('2024-01-01', '/', 'dup', 1), ('2024-01-01', '/', 'dup', 1), ('2024-01-01', '/', NULL, NULL), ('2024-01-01', '/', NULL, NULL);",
            random.below(3), random.below(3), random.below(2), random.below(3), random.below(3), random.below(2)
        ),
        8 => writeln!(
            sql,
            "DELETE FROM visit WHERE agent = 'dup' LIMIT {};\nUPDATE visit SET ms = IFNULL(ms, 0) + 1 WHERE page = '/p/{}' LIMIT 2;\nUPDATE visit SET agent = 'dup' WHERE agent IS NULL LIMIT 1;",
            1 + random.below(3),
            random.below(3)
        ),
        9 => writeln!(
            sql,
            "UPDATE customer SET profile = {}, score = score * 1.1, level = {}, notes = NULL WHERE id % 11 = {};
UPDATE product SET price = price * 1.01, tags = JSON_SET(tags, '$.n', {n}) WHERE sku LIKE '%{}';",
            json(random, n),
            1 + random.below(4),
            random.below(11),
            random.below(10)
        ),
        // Key changes: of a parent with cascades, of a case-insensitive key to another spelling, by swapping.
        10 => writeln!(
            sql,
            "UPDATE IGNORE customer SET id = id + 1000000 WHERE id = {};\nUPDATE product SET sku = UPPER(sku) WHERE sku = 'sku-{}';\nUPDATE IGNORE product SET sku = CONCAT('n', sku) WHERE sku = 'sku-{}';",
            some(random), some(random), some(random)
        ),
        11 => writeln!(
            sql,
            "UPDATE swap SET id = -1 WHERE id = {a}; UPDATE swap SET id = {a} WHERE id = {b}; UPDATE swap SET id = {b} WHERE id = -1;
UPDATE shelf SET code = 'tmp', place = place + 1 WHERE code = 'a001'; UPDATE shelf SET code = 'a001' WHERE code = 'a002'; UPDATE shelf SET code = 'a002' WHERE code = 'tmp';
UPDATE number SET a = a + 1 WHERE a < 100 ORDER BY a DESC; UPDATE number SET lu = lu >> 1, g = g / 3, t6 = IF(t6 > 0, TIME(t6), t6) WHERE b <> 'null';",
            a = 1 + random.below(2),
            b = 3 + random.below(2)
        ),
        12 => writeln!(
            sql,
            "SAVEPOINT s;\nDELETE FROM customer WHERE id = {};\nROLLBACK TO s;\nDELETE FROM customer WHERE id = {};\nDELETE FROM product WHERE sku = 'sku-{}';",
            some(random), some(random), some(random)
        ),
        _ => writeln!(
            sql,
            "REPLACE INTO swap VALUES ({}, 'replaced {n}', REPEAT('r', {}));
INSERT INTO customer (id, email) VALUES ({}, 'c{n}@example.org') ON DUPLICATE KEY UPDATE balance = {n}, name = 'upsert';",
            5 + random.below(5),
            random.below(300),
            1 + n
        ),
    };
    sql.push_str(if rollback { "ROLLBACK;\n" } else { "COMMIT;\n" });
}

fn json(random: &mut Random, n: u64) -> String {
    match random.below(6) {
        0 => "NULL".into(),
        1 => format!("'[{n}, -1, 1.5, true, null, \"ü 🪑\", 18446744073709551615, -9223372036854775808]'"),
        2 => format!(
            "JSON_OBJECT('n', {n}, 'd', CAST({n}.250 AS DECIMAL(12,3)), 'at', CAST('2024-02-03 04:05:06.07' AS DATETIME(2)), 'x', CAST(1 AS JSON))"
        ),
        3 => format!(
            "JSON_OBJECT('long', REPEAT('x', {}), 'deep', JSON_ARRAY(JSON_OBJECT('a', JSON_ARRAY(1, 2, {n}))))",
            random.below(400)
        ),
        4 => format!("'{{\"e\": 1e300, \"small\": 0.1, \"key {n}\": {{}}, \"list\": [], \"q\": \"\\\\\"\"}}'"),
        _ => "'\"scalar\"'".into(),
    }
}
