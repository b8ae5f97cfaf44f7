//! One test for each rule of a replica-side dependency builder (`c01` to `c18`), and for the edge cases of rows in a
//! tracker (`d18` and so on); the numbers are those of docs/invariants.md.

use base::Uuid;
use binlog::{XaPrepare, XaXid, row_flags};
use decode::trackers::{Rules, TrackerKind, TrackerOptions};
use testkit::log::{
    Author, Change, DOUBLE, INT, JSON, NULL, Stored, VARCHAR, delete, double, insert, int, update, varchar,
};
use testkit::stamps::stamps;

/// A log written by hand, with the clock of a serial source.
pub(crate) fn new_script() -> Author {
    let mut script = Author::new(Uuid([5; 16]));
    script.sql("CREATE DATABASE d");
    script
}

/// last_committed of each transaction.
pub(crate) struct Parents(Vec<u64>);

impl Parents {
    fn own(script: Author) -> Parents {
        Parents::of(script, TrackerKind::Writeset, Rules::Own)
    }

    pub(crate) fn of(script: Author, kind: TrackerKind, rules: Rules) -> Parents {
        let options = TrackerOptions { kind, rules, ..TrackerOptions::default() };
        let (stamps, _) = stamps(&[script.events()], options, |_| {});
        Parents(stamps.into_iter().map(|stamp| stamp.last_committed).collect())
    }

    #[track_caller]
    pub(crate) fn waits(&self, later: u64, earlier: u64) {
        let parent = self.0[later as usize - 1];
        assert!(parent >= earlier, "{later} must wait for {earlier}, and waits for {parent}");
    }

    #[track_caller]
    pub(crate) fn is_free_of(&self, later: u64, earlier: u64) {
        let parent = self.0[later as usize - 1];
        assert!(parent < earlier, "{later} need not wait for {earlier}, and waits for {parent}");
    }
}

pub(crate) const USERS: &str = "id INT PRIMARY KEY, u INT UNIQUE, v INT";

pub(crate) fn user(id: i32, u: i32) -> [Stored; 3] {
    [int(id), int(u), int(0)]
}

#[test]
fn c01_a_key_is_table_index_and_value_and_an_update_has_two() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    script.table("s", &[INT; 3], USERS);
    let first = script.rows(&[insert("t", &user(1, 2))]);
    let other_table = script.rows(&[insert("s", &user(1, 2))]);
    let other_key = script.rows(&[insert("t", &user(2, 1))]);
    let moves = script.rows(&[update("t", &user(2, 1), &user(2, 9))]);
    let takes_old = script.rows(&[insert("t", &user(3, 1))]);
    let takes_new = script.rows(&[update("t", &user(2, 9), &user(2, 7)), insert("t", &user(4, 9))]);
    let parents = Parents::own(script);
    parents.is_free_of(other_table, first);
    parents.is_free_of(other_key, first);
    parents.waits(moves, other_key);
    parents.waits(takes_old, moves);
    parents.waits(takes_new, moves);
    parents.is_free_of(takes_new, takes_old);
}

#[test]
fn c02_rows_before_and_after_a_change_of_keys_never_overlap() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let before = script.rows(&[insert("t", &user(1, 2))]);
    let alter = script.sql("ALTER TABLE t DROP INDEX u, ADD UNIQUE INDEX u (v)");
    let behind = script.rows(&[insert("t", &[int(5), int(2), int(6)])]);
    let same_value = script.rows(&[insert("t", &[int(6), int(2), int(7)])]);
    let parents = Parents::own(script);
    parents.waits(alter, before);
    parents.waits(behind, alter);
    // `u` is a different key now.
    parents.is_free_of(same_value, behind);
}

fn names(collation: &str) -> String {
    format!("id INT PRIMARY KEY, name VARCHAR(20) COLLATE {collation}, UNIQUE (name)")
}

#[test]
fn c03_equal_under_the_collation_is_equal() {
    for (collation, pads) in [("utf8mb4_0900_ai_ci", false), ("utf8mb4_general_ci", true)] {
        let mut script = new_script();
        script.table("t", &[INT, VARCHAR], &names(collation));
        let first = script.rows(&[delete("t", &[int(1), varchar("a")])]);
        let upper = script.rows(&[insert("t", &[int(2), varchar("A")])]);
        let padded = script.rows(&[insert("t", &[int(3), varchar("a ")])]);
        let other = script.rows(&[insert("t", &[int(4), varchar("b")])]);
        let parents = Parents::own(script);
        parents.waits(upper, first);
        match pads {
            true => parents.waits(padded, upper),
            false => parents.is_free_of(padded, first),
        }
        parents.is_free_of(other, first);
    }
    // No weights are known: freeing a value claims the key exclusively, taking one shares it.
    let mut script = new_script();
    script.table("t", &[INT, VARCHAR], &names("utf8mb4_hungarian_ci"));
    let one = script.rows(&[insert("t", &[int(1), varchar("x")])]);
    let two = script.rows(&[insert("t", &[int(2), varchar("y")])]);
    let freed = script.rows(&[delete("t", &[int(9), varchar("z")])]);
    let taken = script.rows(&[insert("t", &[int(3), varchar("Z")])]);
    let elsewhere = script.rows(&[update("t", &[int(8), varchar("w")], &[int(8), varchar("w")])]);
    let parents = Parents::own(script);
    parents.is_free_of(two, one);
    parents.waits(freed, two);
    parents.waits(taken, freed);
    parents.is_free_of(elsewhere, freed);
}

#[test]
fn c04_zero_has_no_sign() {
    let mut script = new_script();
    script.table("t", &[INT, DOUBLE], "id INT PRIMARY KEY, f DOUBLE UNIQUE");
    let first = script.rows(&[delete("t", &[int(1), double(0.0)])]);
    let negative = script.rows(&[insert("t", &[int(2), double(-0.0)])]);
    let other = script.rows(&[insert("t", &[int(3), double(1.5)])]);
    let parents = Parents::own(script);
    parents.waits(negative, first);
    parents.is_free_of(other, first);
}

#[test]
fn c05_null_is_equal_to_nothing_and_still_a_row_of_the_table() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let first = script.rows(&[insert("t", &[int(1), NULL, int(0)])]);
    let second = script.rows(&[insert("t", &[int(2), NULL, int(0)])]);
    let ddl = script.sql("ALTER TABLE t COMMENT = 'x'");
    let parents = Parents::own(script);
    parents.is_free_of(second, first);
    parents.waits(ddl, second);
}

#[test]
fn c06_a_prefix_is_of_characters() {
    let mut script = new_script();
    let columns = "id INT PRIMARY KEY, name VARCHAR(20) COLLATE utf8mb4_0900_as_cs, UNIQUE (name(2))";
    script.table("t", &[INT, VARCHAR], columns);
    let first = script.rows(&[delete("t", &[int(1), varchar("éax")])]);
    let same_prefix = script.rows(&[insert("t", &[int(2), varchar("éay")])]);
    // The same first two bytes, but a different second character.
    let other = script.rows(&[insert("t", &[int(3), varchar("ébx")])]);
    let parents = Parents::own(script);
    parents.waits(same_prefix, first);
    parents.is_free_of(other, first);
}

/// MySQL keeps the commit parent for such tables. If every row claimed the whole table, that would be coarser.
#[test]
fn c07_rows_without_a_key_come_together_and_go_alone() {
    for columns in ["a INT, b INT", "a INT UNIQUE, b INT"] {
        let mut script = new_script();
        script.table("t", &[INT; 2], columns);
        script.table("s", &[INT; 3], USERS);
        let first = script.rows(&[insert("t", &[int(1), int(1)])]);
        let elsewhere = script.rows(&[insert("s", &user(1, 1))]);
        let second = script.rows(&[insert("t", &[int(2), int(2)])]);
        let gone = script.rows(&[delete("t", &[int(1), int(1)])]);
        let changed = script.rows(&[update("t", &[int(2), int(2)], &[int(2), int(3)])]);
        let third = script.rows(&[insert("t", &[int(4), int(4)])]);
        let parents = Parents::own(script);
        parents.is_free_of(elsewhere, first);
        parents.is_free_of(second, first);
        parents.waits(gone, second);
        parents.waits(changed, gone);
        parents.waits(third, changed);
    }
}

#[test]
fn c08_values_that_minimal_images_lack() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    // (a) Other columns change: the unique value is irrelevant.
    let quiet = |id: i32| update("t", &user(id, 5), &[int(id), int(5), int(1)]).minimal(&[0]);
    let one = script.rows(&[quiet(1)]);
    let two = script.rows(&[quiet(2)]);
    // (b) The log does not show the freed value: nobody may take a value concurrently.
    let freed = script.rows(&[delete("t", &user(3, 7)).minimal(&[0])]);
    let quiet_beside = script.rows(&[quiet(4)]);
    let taken = script.rows(&[insert("t", &user(5, 7))]);
    let taken_too = script.rows(&[insert("t", &user(6, 8))]);
    let moved = script.rows(&[update("t", &user(7, 20), &user(7, 21)).minimal(&[0])]);
    let takes_moved = script.rows(&[insert("t", &user(8, 20))]);
    let parents = Parents::own(script);
    parents.is_free_of(two, one);
    parents.is_free_of(quiet_beside, freed);
    parents.waits(taken, freed);
    parents.waits(taken_too, freed);
    parents.is_free_of(taken_too, taken);
    parents.waits(moved, taken_too);
    parents.waits(takes_moved, moved);
}

/// Tables `p` and `c`; `pid` of `c` references `p`.
pub(crate) fn family(action: &str) -> Author {
    let mut script = new_script();
    script.table("p", &[INT; 2], "id INT PRIMARY KEY, v INT");
    let columns = format!("id INT PRIMARY KEY, pid INT, FOREIGN KEY (pid) REFERENCES p (id) {action}");
    script.table("c", &[INT; 2], &columns);
    script
}

#[test]
fn c09_children_share_what_their_parent_changes_alone() {
    let mut script = family("");
    let parent = script.rows(&[insert("p", &[int(1), int(0)])]);
    let one = script.rows(&[insert("c", &[int(1), int(1)])]);
    let two = script.rows(&[insert("c", &[int(2), int(1)])]);
    let quiet = script.rows(&[update("p", &[int(1), int(0)], &[int(1), int(5)])]);
    let gone = script.rows(&[delete("c", &[int(1), int(1)]), delete("c", &[int(2), int(1)])]);
    let parent_gone = script.rows(&[delete("p", &[int(1), int(5)])]);
    let other_child = script.rows(&[insert("c", &[int(3), NULL])]);
    let parents = Parents::own(script);
    parents.waits(one, parent);
    parents.waits(two, parent);
    parents.is_free_of(two, one);
    // No referenced column changes.
    parents.is_free_of(quiet, one);
    parents.waits(gone, two);
    parents.waits(parent_gone, gone);
    parents.is_free_of(other_child, parent_gone);
    // MySQL's rules clear the history at every change of a parent.
    let mut script = family("");
    script.rows(&[insert("p", &[int(1), int(0)])]);
    let parent = script.rows(&[insert("p", &[int(2), int(0)])]);
    let child = script.rows(&[insert("c", &[int(1), NULL])]);
    Parents::of(script, TrackerKind::Writeset, Rules::Stock).waits(child, parent);
}

#[test]
fn c09_a_cascade_that_is_not_logged_claims_the_tables_it_reaches() {
    for action in ["ON DELETE CASCADE", "ON DELETE SET NULL"] {
        let mut script = family(action);
        let child = script.rows(&[insert("c", &[int(7), int(3)])]);
        let gone = script.rows(&[delete("p", &[int(1), int(0)])]);
        let other = script.rows(&[insert("c", &[int(8), int(4)])]);
        let parents = Parents::own(script);
        parents.waits(gone, child);
        parents.waits(other, gone);
    }
}

#[test]
fn c10_a_cascade_that_is_logged_claims_its_rows_only() {
    let mut script = family("ON DELETE CASCADE");
    script.flags |= row_flags::USE_SQL_FOREIGN_KEY;
    let child = script.rows(&[insert("c", &[int(7), int(3)])]);
    let gone = script.rows(&[delete("c", &[int(1), int(1)]), delete("p", &[int(1), int(0)])]);
    let other = script.rows(&[insert("c", &[int(8), int(4)])]);
    let own_child = script.rows(&[insert("c", &[int(1), int(5)])]);
    let parents = Parents::own(script);
    parents.is_free_of(gone, child);
    parents.is_free_of(other, gone);
    parents.waits(own_child, gone);
}

#[test]
fn c11_generated_columns_are_in_the_image_and_expressions_are_not() {
    let mut script = new_script();
    script.table("g", &[INT; 2], "id INT PRIMARY KEY, w INT GENERATED ALWAYS AS (id % 10) VIRTUAL, UNIQUE (w)");
    script.table("x", &[INT; 2], "id INT PRIMARY KEY, v INT, UNIQUE ((v + 1))");
    let first = script.rows(&[delete("g", &[int(1), int(1)])]);
    let same = script.rows(&[insert("g", &[int(11), int(1)])]);
    let other = script.rows(&[insert("g", &[int(12), int(2)])]);
    let one = script.rows(&[insert("x", &[int(1), int(1)])]);
    let two = script.rows(&[insert("x", &[int(2), int(2)])]);
    let changed = script.rows(&[update("x", &[int(8), int(8)], &[int(8), int(9)])]);
    let taken = script.rows(&[insert("x", &[int(3), int(8)])]);
    let parents = Parents::own(script);
    parents.waits(same, first);
    parents.is_free_of(other, first);
    parents.is_free_of(two, one);
    parents.waits(changed, two);
    parents.waits(taken, changed);
}

#[test]
fn c13_ddl_claims_what_it_names_and_its_neighbours() {
    let mut script = family("");
    script.table("t", &[INT; 3], USERS);
    let of_t = script.rows(&[insert("t", &user(1, 1))]);
    let of_c = script.rows(&[insert("c", &[int(1), NULL])]);
    let index = script.sql("CREATE INDEX i ON c (pid)");
    let beside = script.rows(&[insert("t", &user(2, 2))]);
    let behind = script.rows(&[insert("c", &[int(2), NULL])]);
    let of_parent = script.rows(&[insert("p", &[int(9), int(9)])]);
    let rename = script.sql("RENAME TABLE t TO t2");
    let parents = Parents::own(script);
    parents.waits(index, of_c);
    parents.is_free_of(beside, index);
    parents.waits(behind, index);
    parents.waits(of_parent, index);
    parents.waits(rename, beside);
    parents.is_free_of(rename, of_parent);
    parents.is_free_of(beside, of_t);
    // MySQL's rules block everything after it.
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let ddl = script.table("s", &[INT; 3], USERS);
    let beside = script.rows(&[insert("t", &user(1, 1))]);
    Parents::of(script, TrackerKind::Writeset, Rules::Stock).waits(beside, ddl);
}

#[test]
fn c14_a_prepared_transaction_claims_its_rows_where_it_is_committed() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let before = script.rows(&[insert("t", &user(1, 1))]);
    script.transaction(|events| {
        events.sql("XA START X'61',X'',1");
        events.change(&update("t", &user(1, 1), &user(1, 2)));
        events.sql("XA END X'61',X'',1");
        events.writer.xa_prepare(&XaPrepare { one_phase: false, xid: XaXid::new(1, b"a", b"").unwrap() });
    });
    let between = script.rows(&[insert("t", &user(5, 5))]);
    let commit = script.sql("XA COMMIT X'61',X'',1");
    let behind = script.rows(&[update("t", &user(1, 2), &user(1, 3))]);
    let beside = script.rows(&[insert("t", &user(6, 6))]);
    let parents = Parents::own(script);
    parents.is_free_of(between, before);
    parents.waits(commit, before);
    parents.is_free_of(commit, between);
    parents.waits(behind, commit);
    parents.is_free_of(beside, commit);
}

#[test]
fn c15_a_statement_of_unknown_effect_is_between_all_others() {
    for rules in [Rules::Own, Rules::Stock] {
        let mut script = new_script();
        script.table("t", &[INT; 3], USERS);
        let before = script.rows(&[insert("t", &user(1, 1))]);
        let statement = script.sql("CREATE USER u");
        let behind = script.rows(&[insert("t", &user(2, 2))]);
        let parents = Parents::of(script, TrackerKind::Writeset, rules);
        parents.waits(statement, before);
        parents.waits(behind, statement);
    }
}

#[test]
fn c16_a_partial_update_of_json_is_a_claim_of_its_row() {
    let mut script = new_script();
    script.table("t", &[INT, JSON], "id INT PRIMARY KEY, doc JSON");
    let document: Stored = Some([&4u32.to_le_bytes()[..], &[0, 1, 2, 3]].concat());
    let changed: Stored = Some([&3u32.to_le_bytes()[..], &[2, 1, 36]].concat());
    let change = |id| {
        let full = update("t", &[int(id), document.clone()], &[int(id), changed.clone()]);
        Change { partial: true, ..full.minimal(&[0]) }
    };
    let one = script.rows(&[change(1)]);
    let other = script.rows(&[change(2)]);
    let again = script.rows(&[change(1)]);
    let parents = Parents::own(script);
    parents.is_free_of(other, one);
    parents.waits(again, one);
    parents.is_free_of(again, other);
}

/// The log's clock is serial. It binds trackers that use it, and ours where rows show less.
#[test]
fn c17_the_source_s_clock_is_obeyed_on_demand() {
    let log = || {
        let mut script = new_script();
        script.table("t", &[INT; 3], USERS);
        let one = script.rows(&[insert("t", &user(1, 1))]);
        let two = script.rows(&[insert("t", &user(2, 2))]);
        (script, one, two)
    };
    let (script, one, two) = log();
    Parents::own(script).is_free_of(two, one);
    for (kind, rules) in [
        (TrackerKind::Source, Rules::Own),
        (TrackerKind::CommitOrder, Rules::Own),
        (TrackerKind::CommitOrder, Rules::Stock),
    ] {
        let (script, one, two) = log();
        Parents::of(script, kind, rules).waits(two, one);
    }
    // Writesets can only lower the source's parent.
    let (script, one, two) = log();
    Parents::of(script, TrackerKind::Writeset, Rules::Stock).is_free_of(two, one);
}

#[test]
fn d18_keys_swapped_in_one_transaction_and_a_key_deleted_and_inserted_in_two() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let two = script.rows(&[insert("t", &user(2, 20))]);
    let elsewhere = script.rows(&[insert("t", &user(7, 70))]);
    let swap = script.rows(&[
        update("t", &user(1, 10), &user(3, 10)),
        update("t", &user(2, 20), &user(1, 20)),
        update("t", &user(3, 10), &user(2, 10)),
    ]);
    let third = script.rows(&[insert("t", &user(3, 30))]);
    let gone = script.rows(&[delete("t", &user(7, 70))]);
    let again = script.rows(&[insert("t", &user(7, 71))]);
    let parents = Parents::own(script);
    parents.waits(swap, two);
    parents.is_free_of(swap, elsewhere);
    parents.waits(third, swap);
    parents.is_free_of(gone, swap);
    parents.waits(gone, elsewhere);
    parents.waits(again, gone);
}

#[test]
fn d19_a_cascade_over_three_tables_and_into_itself() {
    let mut script = family("ON DELETE CASCADE");
    let columns = "id INT PRIMARY KEY, cid INT, FOREIGN KEY (cid) REFERENCES c (id) ON DELETE SET NULL";
    script.table("g", &[INT; 2], columns);
    let itself = "id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES s (id) ON DELETE CASCADE";
    script.table("s", &[INT; 2], itself);
    let grandchild = script.rows(&[insert("g", &[int(1), int(1)])]);
    let gone = script.rows(&[delete("p", &[int(5), int(0)])]);
    let other = script.rows(&[insert("g", &[int(2), NULL])]);
    let leaf = script.rows(&[insert("s", &[int(2), int(1)])]);
    let root_gone = script.rows(&[delete("s", &[int(9), NULL])]);
    let parents = Parents::own(script);
    parents.waits(gone, grandchild);
    parents.waits(other, gone);
    parents.is_free_of(leaf, gone);
    parents.waits(root_gone, leaf);
}

#[test]
fn d20_truncate_is_between_the_rows_of_its_table() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    script.table("s", &[INT; 3], USERS);
    let before = script.rows(&[insert("t", &user(1, 1))]);
    let truncate = script.sql("TRUNCATE TABLE t");
    let beside = script.rows(&[insert("s", &user(1, 1))]);
    let again = script.rows(&[insert("t", &user(2, 2))]);
    let parents = Parents::own(script);
    parents.waits(truncate, before);
    parents.is_free_of(beside, truncate);
    parents.waits(again, truncate);
}

#[test]
fn d23_create_select_claims_its_table_and_rows() {
    let mut script = new_script();
    script.table("t", &[INT; 3], USERS);
    let beside = script.rows(&[insert("t", &user(1, 1))]);
    script.know("n", &[INT; 3]);
    let create = script.transaction(|events| {
        events.sql("BEGIN");
        events.sql(&format!("CREATE TABLE n ({USERS}) START TRANSACTION"));
        events.change(&insert("n", &user(1, 1)));
        events.writer.xid(1);
    });
    let behind = script.rows(&[insert("n", &user(2, 2))]);
    let other = script.rows(&[insert("t", &user(2, 2))]);
    let parents = Parents::own(script);
    parents.is_free_of(create, beside);
    parents.waits(behind, create);
    parents.is_free_of(other, create);
}
