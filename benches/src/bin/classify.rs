//! What it costs to know of a text what it is: `cargo run --release -p stage_benches --bin classify`.
//!
//! Out: nanoseconds a statement, the least of nine turns, for each of a few; and for reading its tokens alone. Never
//! here: a time compared with a limit.

use std::hint::black_box;
use std::time::Instant;

use syntax::{Kind, Lexer, Settings, classify};

const TURNS: usize = 9;
const EACH: u32 = 20_000;

const STATEMENTS: &[&str] = &[
    "BEGIN",
    "SET NAMES utf8mb4",
    "SELECT c FROM sbtest1 WHERE id=?",
    "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 100 AND 199",
    "UPDATE sbtest1 SET k=k+1 WHERE id=5",
    "INSERT INTO sbtest1 (id, k, c, pad) VALUES (1, 2, 'a', 'b')",
    "SELECT DISTINCT t.term_id, tr.object_id FROM wp_terms AS t INNER JOIN wp_term_taxonomy AS tt ON t.term_id = tt.term_id \
     INNER JOIN wp_term_relationships AS tr ON tr.term_taxonomy_id = tt.term_taxonomy_id WHERE tt.taxonomy IN ('a', 'b') \
     AND tr.object_id IN (1, 2, 3) ORDER BY t.name ASC",
];

fn least(work: impl Fn()) -> f64 {
    let turn = |_| {
        let begun = Instant::now();
        (0..EACH).for_each(|_| work());
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(EACH)
    };
    (0..TURNS).map(turn).fold(f64::INFINITY, f64::min)
}

fn main() {
    let settings = Settings::default();
    println!("{:>10} {:>10}  statement", "classified", "tokens");
    for text in STATEMENTS {
        let classified = least(|| drop(black_box(classify(black_box(text.as_bytes()), settings))));
        let tokens = least(|| {
            let mut lexer = Lexer::new(black_box(text.as_bytes()), settings);
            while black_box(lexer.next_token()).kind != Kind::End {}
        });
        println!("{classified:>7.0} ns {tokens:>7.0} ns  {}", text.get(..60).unwrap_or(text));
    }
}
