//! A statement's meaning for its transaction; the identifiers in XA statements.
#![no_main]

use binlog::QueryKind;
use fuzz::seeds;

fn statements() -> Vec<Vec<u8>> {
    let own = [
        "BEGIN",
        "commit work",
        "ROLLBACK TO SAVEPOINT `a b`",
        "savepoint x",
        "release savepoint x",
        "/* c */ BEGIN -- x",
        "XA START X'6162',X'',1",
        "XA END 'a','b',7",
        "XA COMMIT X'61' ONE PHASE",
        "xa prepare 'x'",
        "XA ROLLBACK X'00',X'01',4294967295",
    ];
    seeds::texts(&own).into_iter().chain(seeds::statements()).collect()
}

fuzz::fuzz_target!(init: seeds::write(statements), |sql: &[u8]| {
    let (kind, xid) = QueryKind::with_xid(sql);
    assert_eq!(QueryKind::of(sql), kind);
    if let Some(xid) = xid {
        let again = format!("XA COMMIT {xid}");
        assert_eq!(QueryKind::with_xid(again.as_bytes()), (QueryKind::XaCommit, Some(xid)));
    }
});
