//! One test for each rule of stamps for stock replicas ([`Rules::InnoDb`]).

use base::SequenceNumber;
use binlog::{XaPrepare, XaXid, row_flags};
use decode::trackers::{Claims, Facts, Rules, SourceStamp, Tracker, TrackerKind, TrackerOptions};
use testkit::log::{Author, Change, INT, NULL, delete, insert, int, update};
use testkit::stamps::stamps;

use crate::trackers::rules::{Parents, USERS, family, new_script, user};

fn innodb(script: Author) -> Parents {
    Parents::of(script, TrackerKind::Writeset, Rules::InnoDb)
}

#[test]
fn any_change_of_a_parent_conflicts_with_a_child_that_takes_or_leaves_it() {
    let mut script = family("");
    let parent = script.rows(&[insert("p", &[int(1), int(0)])]);
    let one = script.rows(&[insert("c", &[int(1), int(1)])]);
    let two = script.rows(&[insert("c", &[int(2), int(1)])]);
    let quiet = script.rows(&[update("p", &[int(1), int(0)], &[int(1), int(5)])]);
    let three = script.rows(&[insert("c", &[int(3), int(1)])]);
    let leaves = script.rows(&[delete("c", &[int(2), int(1)])]);
    let gone = script.rows(&[update("p", &[int(1), int(5)], &[int(1), int(6)])]);
    let other = script.rows(&[insert("c", &[int(9), NULL])]);
    let parents = innodb(script);
    parents.waits(one, parent);
    parents.is_free_of(two, one);
    parents.waits(quiet, two);
    parents.waits(three, quiet);
    parents.waits(gone, leaves);
    parents.is_free_of(leaves, three);
    parents.is_free_of(other, gone);
}

#[test]
fn a_child_looks_its_parent_up_when_an_index_of_the_foreign_key_is_written() {
    let mut script = new_script();
    script.table("p", &[INT; 2], "id INT PRIMARY KEY, v INT");
    let columns = "id INT PRIMARY KEY, pid INT, k INT, v INT, KEY (pid, k), FOREIGN KEY (pid) REFERENCES p (id)";
    script.table("c", &[INT; 4], columns);
    let row = |id, k, v| [int(id), int(1), int(k), int(v)];
    script.rows(&[insert("p", &[int(1), int(0)])]);
    script.rows(&[insert("c", &row(1, 1, 1)), insert("c", &row(2, 1, 1)), insert("c", &row(3, 1, 1))]);
    let quiet = script.rows(&[update("p", &[int(1), int(0)], &[int(1), int(5)])]);
    let value = script.rows(&[update("c", &row(1, 1, 1), &row(1, 1, 2))]);
    let moved = script.rows(&[update("c", &row(2, 1, 1), &row(8, 1, 1))]);
    let indexed = script.rows(&[update("c", &row(3, 1, 1), &row(3, 2, 1))]);
    let parents = innodb(script);
    parents.is_free_of(value, quiet);
    parents.waits(moved, quiet);
    parents.waits(indexed, quiet);
}

/// MINIMAL images of a table that is referred to by a column other than its primary key do not show the value.
#[test]
fn a_parent_whose_image_lacks_the_value_claims_all_values() {
    let mut script = new_script();
    script.table("p", &[INT; 3], "id INT PRIMARY KEY, u INT UNIQUE, v INT");
    script.table("c", &[INT; 2], "id INT PRIMARY KEY, pu INT, FOREIGN KEY (pu) REFERENCES p (u)");
    let one = script.rows(&[insert("c", &[int(1), int(7)])]);
    let parent = script.rows(&[update("p", &user(1, 3), &[int(1), int(3), int(9)]).minimal(&[0])]);
    let two = script.rows(&[insert("c", &[int(2), int(8)])]);
    let leaves = script.rows(&[delete("c", &[int(1), int(7)]).minimal(&[0])]);
    let parents = innodb(script);
    parents.waits(parent, one);
    parents.waits(two, parent);
    parents.waits(leaves, two);
}

#[test]
fn ddl_waits_for_the_tables_at_the_other_end_of_its_foreign_keys() {
    let mut script = new_script();
    script.table("p", &[INT; 2], "id INT PRIMARY KEY, v INT");
    script.table("c", &[INT; 3], "id INT PRIMARY KEY, pid INT, v INT");
    script.table("t", &[INT; 3], USERS);
    let of_parent = script.rows(&[insert("p", &[int(1), int(0)])]);
    let of_t = script.rows(&[insert("t", &user(1, 1))]);
    let alter = script.sql("ALTER TABLE c ADD FOREIGN KEY (pid) REFERENCES p (id)");
    let behind = script.rows(&[insert("p", &[int(2), int(0)])]);
    let of_child = script.rows(&[update("c", &[int(1), int(2), int(0)], &[int(1), int(2), int(1)])]);
    let comment = script.sql("ALTER TABLE p COMMENT = 'x'");
    let child = script.rows(&[update("c", &[int(1), int(2), int(1)], &[int(1), int(2), int(2)])]);
    let parents = innodb(script);
    parents.waits(alter, of_parent);
    parents.is_free_of(alter, of_t);
    parents.waits(behind, alter);
    parents.waits(comment, of_child);
    parents.waits(child, comment);
}

fn xid(name: u8) -> (String, XaPrepare) {
    let of = XaPrepare { one_phase: false, xid: XaXid::new(1, &[name], b"").unwrap() };
    (format!("X'{name:02x}',X'',1"), of)
}

fn prepare(script: &mut Author, name: u8, changes: &[Change], one_phase: bool) -> u64 {
    script.transaction(|events| {
        let (id, prepare) = xid(name);
        events.sql(&format!("XA START {id}"));
        changes.iter().for_each(|change| events.change(change));
        events.sql(&format!("XA END {id}"));
        events.writer.xa_prepare(&XaPrepare { one_phase, ..prepare });
    })
}

#[test]
fn xa_prepare_claims_its_rows_where_it_stands_and_xa_commit_claims_them_again() {
    for compressed in [false, true] {
        for end in ["COMMIT", "ROLLBACK"] {
            let mut script = new_script();
            script.table("t", &[INT; 3], USERS);
            script.compressed = compressed;
            let before = script.rows(&[insert("t", &user(1, 1))]);
            let prepared = prepare(&mut script, b'a', &[update("t", &user(1, 1), &user(1, 2))], false);
            let between = script.rows(&[insert("t", &user(5, 5))]);
            script.compressed = false;
            let commit = script.sql(&format!("XA {end} X'61',X'',1"));
            let behind = script.rows(&[update("t", &user(1, 2), &user(1, 3))]);
            let beside = script.rows(&[insert("t", &user(6, 6))]);
            let parents = innodb(script);
            parents.waits(prepared, before);
            parents.is_free_of(between, prepared);
            parents.waits(commit, prepared);
            parents.is_free_of(commit, between);
            parents.waits(behind, commit);
            parents.is_free_of(beside, commit);
        }
    }
}

#[test]
fn an_xa_transaction_of_no_rows_is_committed_after_it_is_prepared() {
    for kind in [TrackerKind::Writeset, TrackerKind::CommitOrder] {
        let mut script = new_script();
        script.table("t", &[INT; 3], USERS);
        let prepared = prepare(&mut script, b'a', &[], false);
        // As a source that knows nothing of the two would stamp it.
        let commit = script.sql_after(1, "XA COMMIT X'61',X'',1");
        Parents::of(script, kind, Rules::InnoDb).waits(commit, prepared);
    }
}

#[test]
fn an_identifier_is_in_use_from_xa_prepare_to_xa_commit() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let first = prepare(&mut script, b'a', &[insert("t", &user(1, 1))], false);
    let other = prepare(&mut script, b'b', &[insert("t", &user(2, 2))], false);
    let commit = script.sql("XA COMMIT X'61',X'',1");
    let again = prepare(&mut script, b'a', &[insert("t", &user(3, 3))], false);
    let commit_again = script.sql("XA COMMIT X'61',X'',1");
    let at_once = prepare(&mut script, b'a', &[insert("t", &user(4, 4))], true);
    let parents = innodb(script);
    parents.is_free_of(other, first);
    parents.waits(again, commit);
    parents.waits(at_once, commit_again);
}

#[test]
fn the_end_of_an_unknown_xa_transaction_is_between_all_others() {
    for kind in [TrackerKind::Writeset, TrackerKind::WritesetSession, TrackerKind::CommitOrder] {
        let mut script = new_script();
        script.table("t", &[INT; 3], USERS);
        let before = script.rows(&[insert("t", &user(1, 1))]);
        let commit = script.sql_after(before - 1, "XA COMMIT X'61',X'',1");
        let behind = script.rows(&[insert("t", &user(2, 2))]);
        let parents = Parents::of(script, kind, Rules::InnoDb);
        parents.waits(commit, before);
        parents.waits(behind, commit);
    }
}

#[test]
fn more_claims_than_half_the_history_are_a_floor() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let before = script.rows(&[insert("t", &user(1, 1))]);
    let many: Vec<Change> = (10..20).map(|id| insert("t", &user(id, id))).collect();
    let large = script.rows(&many);
    let behind = script.rows(&[insert("t", &user(2, 2))]);
    let beside = script.rows(&[insert("t", &user(3, 3))]);
    let options = TrackerOptions { kind: TrackerKind::Writeset, rules: Rules::InnoDb, history_size: 30 };
    let (stamps, _) = stamps(&[script.events()], options, |_| {});
    let parent = |number: u64| stamps[number as usize - 1].last_committed;
    assert_eq!(parent(large), before);
    assert_eq!(parent(behind), large);
    assert_eq!(parent(beside), large);
}

/// `unknown` was created before the log begins.
fn unknown(script: &mut Author) {
    script.table("t", &[INT; 3], USERS);
    script.know("unknown", &[INT; 2]);
}

#[test]
fn of_a_table_without_a_definition_the_source_s_clock_is_kept() {
    let mut script = new_script();
    unknown(&mut script);
    let first = script.rows(&[insert("t", &user(1, 1))]);
    let second = script.rows(&[insert("t", &user(2, 2))]);
    let of_unknown = script.rows_after(first, &[insert("unknown", &[int(1), int(1)])]);
    let mixed = script.rows_after(second, &[insert("unknown", &[int(2), int(2)]), insert("t", &user(3, 3))]);
    let value = script.rows(&[update("t", &user(3, 3), &user(3, 4))]);
    let parents = innodb(script);
    parents.waits(of_unknown, first);
    parents.is_free_of(of_unknown, second);
    parents.waits(mixed, second);
    parents.is_free_of(mixed, of_unknown);
    parents.waits(value, mixed);
}

/// The unknown table may refer to any other.
#[test]
fn what_follows_rows_of_an_unknown_table_waits_for_them() {
    let mut script = new_script();
    unknown(&mut script);
    let of_unknown = script.rows(&[insert("unknown", &[int(1), int(1)])]);
    let waits = script.rows(&[delete("t", &user(1, 1))]);
    // The source knows better.
    let beside = script.rows_after(of_unknown - 1, &[delete("t", &user(2, 2))]);
    let parents = innodb(script);
    parents.waits(waits, of_unknown);
    parents.is_free_of(beside, of_unknown);
}

/// A row of the unknown parent may have gone by a cascade of its own parent's, and taken rows of the child with it.
#[test]
fn a_child_of_an_unknown_table_is_unknown() {
    let mut script = new_script();
    unknown(&mut script);
    script.table("c", &[INT; 2], "id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES unknown (id)");
    let first = script.rows(&[delete("t", &user(1, 1))]);
    let child = script.rows(&[insert("c", &[int(1), NULL])]);
    let parents = innodb(script);
    parents.waits(child, first);
}

#[test]
fn a_table_that_becomes_known_is_a_floor_for_its_rows() {
    let mut script = new_script();
    unknown(&mut script);
    let of_unknown = script.rows(&[insert("unknown", &[int(1), int(1)])]);
    script.sql("DROP TABLE unknown");
    let create = script.sql("CREATE TABLE unknown (id INT PRIMARY KEY, v INT)");
    let known = script.rows(&[insert("unknown", &[int(1), int(1)])]);
    let beside = script.rows(&[insert("unknown", &[int(2), int(1)])]);
    let parents = innodb(script);
    parents.waits(create, of_unknown);
    parents.waits(known, create);
    parents.is_free_of(beside, known);
}

#[test]
fn a_table_map_that_disagrees_makes_its_table_unknown() {
    let mut script = new_script();
    script.know("t", &[INT; 3]);
    script.sql("CREATE TABLE t (id INT PRIMARY KEY, u BIGINT UNIQUE, v INT)");
    let first = script.rows(&[insert("t", &user(1, 1))]);
    let second = script.rows(&[insert("t", &user(2, 2))]);
    let third = script.rows_after(first, &[insert("t", &user(3, 3))]);
    let parents = innodb(script);
    parents.waits(second, first);
    parents.is_free_of(third, second);
}

#[test]
fn a_statement_that_cannot_be_interpreted_makes_its_table_unknown() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    script.table("s", &[INT; 3], USERS);
    script.rows(&[insert("t", &user(1, 1))]);
    let odd = script.sql("ALTER TABLE t FROBNICATE v");
    let first = script.rows(&[insert("t", &user(2, 2))]);
    let second = script.rows(&[insert("t", &user(3, 3))]);
    let parents = innodb(script);
    parents.waits(first, odd);
    parents.waits(second, first);
}

#[test]
fn a_statement_that_may_change_anything_makes_all_tables_unknown() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let before = script.rows(&[insert("t", &user(1, 1))]);
    let odd = script.sql("FROBNICATE EVERYTHING");
    let first = script.rows(&[insert("t", &user(2, 2))]);
    let second = script.rows(&[insert("t", &user(3, 3))]);
    let parents = innodb(script);
    parents.waits(odd, before);
    parents.waits(first, odd);
    parents.waits(second, first);
}

#[test]
fn the_source_s_commit_parent_is_an_upper_bound() {
    let mut script = new_script();
    script.table("t", &[INT; 3], "a INT, b INT, c INT");
    let one = script.rows(&[delete("t", &user(1, 1))]);
    let two = script.rows_after(one - 1, &[delete("t", &user(2, 2))]);
    let three = script.rows(&[delete("t", &user(3, 3))]);
    let parents = innodb(script);
    parents.is_free_of(two, one);
    parents.waits(three, two);
}

/// In the middle of a file a parent of 0 may also be that of a transaction that waits for all.
#[test]
fn a_parent_of_0_bounds_nothing() {
    let mut tracker = Tracker::new(
        TrackerOptions { kind: TrackerKind::Writeset, rules: Rules::InnoDb, history_size: 100 },
        SequenceNumber::ZERO,
    );
    let facts = |last_committed, sequence_number, claims| Facts {
        clock: Some(SourceStamp { last_committed, sequence_number }),
        claims,
        ..Facts::default()
    };
    tracker.begin(&facts(0, 1, Claims::default()));
    assert_eq!(tracker.begin(&facts(0, 2, Claims::of_anything())).last_committed, 1);
    assert_eq!(tracker.begin(&facts(2, 3, Claims::default())).last_committed, 2);
}

/// A cascade that the log does not hold is carried out by the replica's engine.
#[test]
fn a_cascade_that_is_not_logged_claims_the_tables_it_reaches() {
    let mut script = family("ON DELETE CASCADE");
    let child = script.rows(&[insert("c", &[int(7), int(3)])]);
    let gone = script.rows(&[delete("p", &[int(1), int(0)])]);
    script.flags |= row_flags::USE_SQL_FOREIGN_KEY;
    let other = script.rows(&[delete("p", &[int(2), int(0)])]);
    let beside = script.rows(&[insert("c", &[int(8), int(4)])]);
    let parents = innodb(script);
    parents.waits(gone, child);
    parents.waits(beside, gone);
    parents.is_free_of(beside, other);
}
