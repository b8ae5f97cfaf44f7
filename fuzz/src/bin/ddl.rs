//! Statements of the log, under any session settings.
#![no_main]

use std::sync::OnceLock;

use catalog::{Catalog, StatementContext, masked};
use fuzz::{Input, join, long, seeds};
use values::ColumnType;

fn statements() -> Vec<Vec<u8>> {
    let long: [&[u8]; 3] = [
        b"create table x (a int, b int as (a\x0e + 1\x0f\xe0\x0e is null\x0f\x0a), check (a\x0e or a = 1\x0f\xe0))",
        b"create table x (a int) partition by range (a\x0e + 1\x0f\xe0) (partition p values less than (1\x0e + 1\x0f\xe0))",
        b"create view x as select 1\x0e + 1\x0f\xe0 from t where \x0e(\x0f\x0da\x0e)\x0f\x0d",
    ];
    seeds::statements().iter().map(Vec::as_slice).chain(long).map(|sql| join(&[&[0; 8], sql])).collect()
}

/// Odd settings: two bytes of collations, two of SQL mode, and what may be missing.
fn context(input: &mut Input<'_>) -> StatementContext {
    let (client, other, modes, flags) = (input.u16(), input.u16(), input.u16(), input.u16());
    let collation = |id: u16, bit: u16| (flags & bit != 0).then_some(id);
    StatementContext {
        default_db: if flags & 1 == 0 { "shop".to_owned() } else { String::new() },
        sql_mode: u64::from(modes & 0xff) | u64::from(modes >> 8) << 16,
        collation_client: collation(client, 2),
        collation_connection: collation(other, 4),
        collation_server: collation(other, 8),
        collation_database: collation(client, 16),
        default_collation_for_utf8mb4: collation(other, 32),
        explicit_defaults_for_timestamp: [None, Some(true), Some(false), None][usize::from(flags >> 6 & 3)],
        time_zone: (flags & 256 != 0).then(|| "+02:00".to_owned()),
        server_version: (flags & 512 != 0).then_some(50_700 + u32::from(flags >> 10) * 1_000),
        timestamp_us: (flags & 128 != 0).then_some(u64::from(client) << 40 | u64::from(other)),
        ..StatementContext::default()
    }
}

fn check(catalog: &Catalog) {
    for table in catalog.tables() {
        let (types, metadata) = table.expected_table_map();
        let map = binlog::TableMapEvent {
            table_id: 1,
            flags: 0,
            db: b"",
            table: b"",
            column_types: &types,
            metadata: &metadata,
            null_bitmap: &[],
            optional: &[],
        };
        let columns: Option<Vec<_>> =
            map.columns().map(|(code, raw)| ColumnType::from_table_map(code, raw).ok()).collect();
        let columns = columns.expect("types a table map can hold");
        table.matches(&types, &columns).expect("the table map the source would write");
        table.columns.iter().for_each(|column| drop(column.omitted_value()));
    }
}

fuzz::fuzz_target!(init: seeds::write(statements), |data: &[u8]| {
    static SHOP: OnceLock<Catalog> = OnceLock::new();
    let shop = SHOP.get_or_init(seeds::shop);
    let mut input = Input::new(data);
    let context = context(&mut input);
    let sql = &long(input.rest());
    match shop.apply(&context, sql) {
        Ok(outcome) => check(&outcome.catalog),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    masked(&String::from_utf8_lossy(sql));
});
