//! Reads of a transaction that is begun here and continues elsewhere.

use std::time::Instant;

use accounts::{GrantNames, SourceGrants};
use base::{GtidSet, SequenceNumber};
use catalog::StatementContext;
use sql::OwnValues;
use store::Store;

use super::super::tests::{admin, error, packets};
use super::super::{After, Forwarding};
use super::*;
use crate::gtids::{Gtids, Position, Readable, Registration, SourceSet, Waker};
use crate::world::{SchemaState, Statistics};
use crate::{Output, ReplicaStatus};

/// A server with tables, whose source has nothing else.
struct Kept {
    store: Arc<Store>,
    /// Replay has not come that far.
    is_late: std::cell::Cell<bool>,
}

impl OwnValues for Kept {
    fn own_value(&self, name: &str) -> Option<String> {
        (name == "version").then(|| "9.7.4-test".to_owned())
    }
}

impl World for Kept {
    fn own_values(&self) -> &dyn OwnValues {
        self
    }

    fn schema(&self, _: &str) -> SchemaState {
        SchemaState::There(Some(255))
    }

    fn gtids(&self) -> &dyn Gtids {
        if self.is_late.get() { &Late } else { &InTime }
    }

    fn pin(&self) -> Result<Arc<Snapshot>, SqlError> {
        Ok(Arc::new(Snapshot::pin(&self.store)))
    }

    fn reload_tls(&self) -> Result<(), String> {
        Err("no files".to_owned())
    }

    fn replica_status(&self) -> ReplicaStatus {
        ReplicaStatus::default()
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    fn take_statement(&self) -> bool {
        true
    }

    fn give_statements(&self, _: usize) {}
}

struct InTime;
struct Late;

impl Gtids for InTime {
    fn readable(&self) -> Result<(), SqlError> {
        Ok(())
    }

    fn visible(&self) -> Result<GtidSet, SqlError> {
        Ok(GtidSet::new())
    }

    fn when_visible(&self, _: &GtidSet, _: Waker) -> Option<Registration> {
        None
    }

    fn source_set(&self, _: Instant, _: Instant, _: Waker) -> SourceSet {
        SourceSet::Known(Arc::default())
    }

    fn when_position(&self, _: &str, _: u64, _: Waker) -> Position {
        Position::NotRunning
    }
}

impl Gtids for Late {
    fn readable(&self) -> Result<(), SqlError> {
        Ok(())
    }

    fn visible(&self) -> Result<GtidSet, SqlError> {
        Ok(GtidSet::new())
    }

    fn when_visible(&self, _: &GtidSet, _: Waker) -> Option<Registration> {
        Some(Registration::new(|| ()))
    }

    fn when_readable(&self, _: &GtidSet, _: Waker) -> Readable {
        Readable::Awaited(Registration::new(|| ()))
    }

    fn source_set(&self, _: Instant, _: Instant, _: Waker) -> SourceSet {
        SourceSet::Known(Arc::default())
    }

    fn when_position(&self, _: &str, _: u64, _: Waker) -> Position {
        Position::NotRunning
    }
}

fn world() -> Kept {
    let statements = [
        "CREATE DATABASE d",
        "CREATE TABLE d.a (id INT PRIMARY KEY)",
        "CREATE TABLE d.b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
        "CREATE TABLE d.c (id INT PRIMARY KEY)",
        "CREATE TABLE d.audited (id INT PRIMARY KEY)",
        "CREATE DEFINER=root@localhost TRIGGER g BEFORE INSERT ON audited FOR EACH ROW SET @a = 1",
        "CREATE TABLE d.m (id INT PRIMARY KEY) ENGINE=MyISAM",
    ];
    let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
    let apply = |catalog: Catalog, sql: &&str| catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
    let catalog = statements.iter().fold(Catalog::new(0).with_definitions(Vec::new(), true), apply);
    Kept { store: Arc::new(Store::new(1, catalog)), is_late: std::cell::Cell::new(false) }
}

impl Kept {
    /// A transaction changes a table.
    fn changes(&self, table: &str) {
        let now = self.store.visibility().watermark().0 + 1;
        let id = self.pin().unwrap().catalog().table("d", table).unwrap().id;
        self.store.changes().note([id].into_iter(), now);
        self.store.visibility().advance(SequenceNumber(now), |_| ());
    }
}

fn session() -> Session {
    let mut session = admin(0);
    session.set_forwarding(Forwarding::All);
    let grants = SourceGrants::read(["GRANT SELECT ON *.* TO `a`@`%`"].into_iter(), GrantNames::default());
    session.set_source_grants(Some(Arc::new(grants)));
    session
}

/// True if a statement is answered here.
fn is_here(session: &mut Session, sql: &str, world: &Kept) -> bool {
    let mut out = Output::default();
    let after = session.command(&[b"\x03", sql.as_bytes()].concat(), world, &mut out);
    assert!(matches!(after, After::Next | After::NotHere), "{sql}: {after:?}");
    if after == After::Next {
        let first = &packets(&mut out)[0];
        assert_ne!(first[0], 0xff, "{sql}: {}", error(std::slice::from_ref(first)).message);
    }
    after == After::Next
}

#[test]
fn plain_reads_come_before_what_is_written_there() {
    let (world, mut session) = (world(), session());
    assert!(is_here(&mut session, "BEGIN", &world) && session.begins_split() && !session.is_split());
    assert!(!is_here(&mut session, "SAVEPOINT s", &world), "back to it the view is another");
    assert!(!is_here(&mut session, "SELECT * FROM d.m", &world));
    assert!(is_here(&mut session, "SELECT * FROM d.a", &world) && session.is_split());
    assert!(is_here(&mut session, "SAVEPOINT s", &world));
    let open = session.transaction.open().unwrap();
    assert!(open.consistent && open.savepoints.len() == 1, "the view there has what was read here");
    let mut goes = |sql: &[u8]| session.goes_elsewhere(Some(sql), false);
    assert!(!goes(b"DELETE FROM d.a WHERE id = 1") && !goes(b"SELECT * FROM d.c FOR UPDATE"));
    assert!(goes(b"SELECT * FROM d.v FOR UPDATE"), "of a view");
    assert!(session.is_split_elsewhere());
    session.ended_elsewhere();
    assert!(!session.is_split());
}

#[test]
fn levels_that_no_other_server_keeps_for_us_are_not_split() {
    let (world, mut session) = (world(), session());
    for level in ["READ UNCOMMITTED", "SERIALIZABLE"] {
        assert!(is_here(&mut session, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"), &world));
        assert!(!is_here(&mut session, "BEGIN", &world), "{level}");
    }
    assert!(is_here(&mut session, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", &world));
    assert!(!is_here(&mut session, "START TRANSACTION WITH CONSISTENT SNAPSHOT", &world));
    for begin in ["START TRANSACTION READ ONLY", "START TRANSACTION READ WRITE", "SET autocommit = 0"] {
        assert!(is_here(&mut session, begin, &world) && is_here(&mut session, "SELECT * FROM d.a", &world), "{begin}");
        assert!(session.is_split(), "{begin}");
        assert!(is_here(&mut session, "COMMIT", &world) && !session.is_split());
    }
    assert!(is_here(&mut session, "SELECT * FROM d.a", &world));
    let begun: Vec<String> = session.transaction.open().map(super::super::Change::Transaction).unwrap().statements();
    let expected = ["SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"];
    assert_eq!(begun, expected, "of autocommit=0, too");
}

/// A session that has read a table and then something else is to be read at the source.
fn read_one(world: &Kept) -> Session {
    let mut session = session();
    assert!(is_here(&mut session, "BEGIN", world) && is_here(&mut session, "SELECT * FROM d.a", world));
    assert!(session.goes_elsewhere(Some(b"SELECT COUNT(*) FROM d.c"), true));
    session
}

#[test]
fn reads_on_both_sides_are_of_one_view_or_fail() {
    let count: Option<&[u8]> = Some(b"SELECT COUNT(*) FROM d.c");
    let world = world();
    assert_eq!(read_one(&world).proves(count, &world), Proof::Holds);
    let mut session = read_one(&world);
    world.changes("c");
    assert_eq!(session.proves(count, &world), Proof::Holds, "what was read here is the same there");
    world.changes("a");
    world.changes("c");
    assert_eq!(session.proves(None, &world), Proof::Holds, "and stays so in the view there");
    let mut session = read_one(&world);
    world.changes("a");
    assert_eq!(session.proves(count, &world), Proof::Holds, "what is read there is the same here");
    assert_eq!(session.proves(None, &world), Proof::Fails, "which that is must be known");
    assert_eq!(session.proves(Some(b"SELECT COUNT(*) FROM d.c, d.v"), &world), Proof::Fails, "a view");
    world.changes("c");
    assert_eq!(session.proves(count, &world), Proof::Fails);
    session.gives_up_transaction();
    assert!(!session.transaction.is_open() && !session.is_split());
    assert_eq!(conflict().code, 1213);
}

#[test]
fn a_proof_waits_for_replay() {
    let world = world();
    let mut session = read_one(&world);
    world.is_late.set(true);
    assert_eq!(session.proves(None, &world), Proof::Waits);
    assert!(session.waiting().is_some_and(|waiting| waiting.until.is_some()));
    world.changes("a");
    session.proof_waited(Ended::Met(0));
    world.is_late.set(false);
    assert_eq!(session.proves(None, &world), Proof::Fails, "it was changed in between");
    let mut session = read_one(&world);
    world.is_late.set(true);
    assert_eq!(session.proves(None, &world), Proof::Waits);
    session.proof_waited(Ended::TimedOut);
    assert_eq!(session.proves(None, &world), Proof::Fails);
    assert!(session.waiting().is_none());
}
