//! A command of another server leaves everything as it was.

use super::super::tests::{Nowhere, admin, error, packets, query};
use super::*;

fn ask(session: &mut Session, sql: &str) -> (After, Option<NotHere>) {
    let mut out = Output::default();
    let after = session.command(&[b"\x03", sql.as_bytes()].concat(), &Nowhere, &mut out);
    assert!(after != After::NotHere || out.is_empty(), "{sql}");
    (after, session.take_not_here())
}

#[test]
fn what_does_not_bind_is_anothers_and_changes_nothing() {
    let mut session = admin(0);
    session.set_forwarding(Forwarding::All);
    query(&mut session, "set @a = 7");
    query(&mut session, "select instr('a', 'b', 'c')");
    let warnings = query(&mut session, "show warnings");
    for (sql, why, may_write) in [
        ("select uuid()", Why::Unsupported, false),
        ("select no_such_function(1)", Why::Unsupported, true),
        ("select a from t1 join t2 using (a)", Why::Unsupported, false),
        ("insert into t values (1)", Why::Writes, true),
        ("create table t (a int)", Why::Writes, true),
        ("call p()", Why::Unsupported, true),
        ("set @a = (select 1)", Why::Unsupported, false),
        ("set @a = 8, @b = uuid()", Why::Unsupported, false),
        ("set @c = 8, div_precision_increment = 9", Why::Unsupported, false),
        ("select get_lock('a', 1)", Why::Unsupported, true),
        ("start transaction with consistent snapshot", Why::Transaction, false),
        ("lock tables t read", Why::Locks, true),
        ("select 1; select 2", Why::Several, false),
        ("select @@max_allowed_packet", Why::Variable, false),
        ("select @@global.sql_mode", Why::Variable, false),
        ("show variables", Why::OfServer, false),
        ("use nowhere", Why::Unknown, false),
        ("select sleep(3600), uuid()", Why::Unsupported, false),
        ("select 1 from", Why::Unsupported, true),
    ] {
        let multi = sql.contains(';');
        session.capabilities = if multi { wire::handshake::capability::MULTI_STATEMENTS } else { 0 };
        let (after, not_here) = ask(&mut session, sql);
        assert_eq!(after, After::NotHere, "{sql}");
        let not_here = not_here.unwrap();
        assert_eq!((not_here.why, not_here.payload.is_none()), (why, true), "{sql}");
        assert_eq!(not_here.may_write, may_write, "{sql}");
        session.capabilities = 0;
        assert_eq!(query(&mut session, "show warnings"), warnings, "{sql}");
    }
    // No statement could tell the source of it.
    assert_eq!(session.command(b"\x03set @d = '\xff'", &Nowhere, &mut Output::default()), After::NotHere);
    assert!(session.take_not_here().is_some());
    // Expressions that are too deep here.
    let deep = format!("select {}1", "- ".repeat(20_000));
    assert_eq!(ask(&mut session, &deep).1.unwrap().construct, "3950");
    assert_eq!(packets_of(&mut session, "select @a, @b, @c"), b"\x017\xfb\xfb");
    // Nobody takes it: the error of a session that may not forward.
    let (_, not_here) = ask(&mut session, "insert into t values (1)");
    let mut out = Output::default();
    assert_eq!(session.refuse_not_here(&not_here.unwrap(), &mut out), After::Next);
    assert_eq!(error(&packets(&mut out)).code, 1290);
}

fn packets_of(session: &mut Session, sql: &str) -> Vec<u8> {
    let all = query(session, sql);
    all[all.len() - 2].clone()
}

#[test]
fn what_is_of_this_server_or_writes_under_reads_keeps_its_error() {
    let mut session = admin(0);
    session.set_forwarding(Forwarding::Reads);
    for (sql, code) in [
        ("insert into t values (1)", 1290),
        ("create table t (a int)", 1290),
        ("set global wait_timeout = 1", 1235),
        ("shutdown", 1235),
        ("set slipstream_read_consistency = (select 1)", 1235),
        ("select no_such_function(1)", 1235),
    ] {
        let (after, _) = ask(&mut session, sql);
        assert_eq!(after, After::Next, "{sql}");
        let mut out = Output::default();
        session.command(&[b"\x03", sql.as_bytes()].concat(), &Nowhere, &mut out);
        assert_eq!(error(&packets(&mut out)).code, code, "{sql}");
    }
    assert_eq!(ask(&mut session, "select uuid()").0, After::NotHere);
    session.set_forwarding(Forwarding::Off);
    assert_eq!(error(&query(&mut session, "select uuid()")).code, 1235);
}

#[test]
fn prepared_statements_are_anothers_when_they_are_prepared_or_executed() {
    let mut session = admin(wire::handshake::capability::DEPRECATE_EOF);
    session.set_forwarding(Forwarding::All);
    let mut out = Output::default();
    assert_eq!(session.command(b"\x16insert into t values (?)", &Nowhere, &mut out), After::NotHere);
    let not_here = session.take_not_here().unwrap();
    assert!(not_here.may_write && not_here.statement_id.is_none() && out.is_empty());
    assert_eq!(session.command(b"\x16select last_insert_id()", &Nowhere, &mut out), After::Next);
    out.taken();
    session.took(&super::super::OkFacts::default(), &Nowhere);
    let id = session.statements.last_number();
    let execute = [&b"\x17"[..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat();
    assert_eq!(session.command(&execute, &Nowhere, &mut out), After::NotHere);
    let not_here = session.take_not_here().unwrap();
    assert_eq!((not_here.statement_id, session.prepared_text(id)), (Some(id), Some(&b"select last_insert_id()"[..])));
    assert_eq!(session.take_statement_number(), id + 1);
}

#[test]
fn a_session_says_who_answered_its_last_statement() {
    let mut session = admin(0);
    session.set_forwarding(Forwarding::All);
    let by = |session: &mut Session| packets_of(session, "select @@slipstream_last_served_by")[1..].to_vec();
    assert_eq!(by(&mut session), b"replica");
    session.took(&super::super::OkFacts::default(), &Nowhere);
    assert_eq!(by(&mut session), b"source");
    assert_eq!(by(&mut session), b"replica", "the question itself");
    session.took(&super::super::OkFacts::default(), &Nowhere);
    assert_eq!(ask(&mut session, "select uuid()").0, After::NotHere);
    assert_eq!(by(&mut session), b"source", "the statement before: nobody has answered this one yet");
    session.took(&super::super::OkFacts::default(), &Nowhere);
    query(&mut session, "select 1");
    assert_eq!(by(&mut session), b"replica");
    assert_eq!(error(&query(&mut session, "set slipstream_last_served_by = 'source'")).code, 1238);
}

#[test]
fn what_is_not_here_has_a_name_and_a_place() {
    let mut session = admin(0);
    session.set_forwarding(Forwarding::All);
    for (sql, construct, place) in [
        ("select 1, uuid()", "UUID()", "uuid()"),
        ("/* a */ select a from t where b = 1 group by a", "SELECT … GROUP", "group"),
        ("select (select 1)", "subquery", "select"),
        ("insert into t values (1) ", "1290", "insert into t values (1)"),
        ("select @@global.sql_mode", "@@sql_mode", "select @@global.sql_mode"),
        ("select 1 from t where a = 1 set", "syntax near SET", ""),
        ("select 1 from", "syntax", ""),
        ("show extended columns from t", "SHOW EXTENDED COLUMNS", "columns"),
        ("show variables", "SHOW of the source", "show variables"),
        ("set insert_id = 0", "SET insert_id", "set insert_id = 0"),
    ] {
        let not_here = ask(&mut session, sql).1.unwrap();
        assert_eq!((not_here.construct.as_str(), &sql[not_here.span]), (construct, place), "{sql}");
    }
}
