//! Rows that one statement's events name twice, as sources log them around their cascades.
//!
//! Each case ends with deletions of every row, and every before image is compared: replay goes on only if the rows were
//! as they say.

use base::Random;
use binlog::{RowsKind, row_flags};
use decode::StopClass;
use store::CheckImages;
use testkit::history::{Column, Event, History, Shape, shapes};
use testkit::log::{BIG, NULL, Row, big, bits, full_image, image, int, text, varchar};

use crate::run::{Setup, chunks, closing, follow};

/// Map ids of the child, `planted` (id, v, n, t), and of the parent its `n` refers to.
const CHILD: u64 = 5;
const PARENT: u64 = 6;

const CASCADE: u16 = row_flags::NO_FOREIGN_KEY_CHECKS | row_flags::USE_SQL_FOREIGN_KEY;
const OWN: u16 = row_flags::USE_SQL_FOREIGN_KEY;
const END: u16 = row_flags::STMT_END;

fn parent() -> Shape {
    let id = Column { name: "id", ty: BIG, nullable: false, default: None };
    Shape { columns: vec![id], key: vec![0], unique_only: false }
}

fn row(id: i32, n: i64) -> Row {
    vec![int(id), varchar("v"), big(n), NULL]
}

fn with(id: i32, n: i64, t: &str) -> Row {
    vec![int(id), varchar("v"), big(n), text(t)]
}

fn change(id: u64, kind: RowsKind, images: &[Row], flags: u16) -> Event {
    let columns = if id == CHILD { 4 } else { 1 };
    let all = bits(&vec![true; columns]);
    let bits_if = |has: bool| if has { all.clone() } else { vec![] };
    let rows = images.iter().flat_map(|row| full_image(row)).collect();
    let (before, after) = (bits_if(kind.has_before()), bits_if(kind.has_after()));
    Event::Rows { kind, id, columns, before, after, rows, flags }
}

fn insert(rows: &[Row]) -> Event {
    change(CHILD, RowsKind::Write, rows, OWN | END)
}

fn delete(rows: &[Row], flags: u16) -> Event {
    change(CHILD, RowsKind::Delete, rows, flags)
}

fn update(before: Row, after: Row, flags: u16) -> Event {
    change(CHILD, RowsKind::Update, &[before, after], flags)
}

fn parent_gone(flags: u16) -> Event {
    change(PARENT, RowsKind::Delete, &[vec![big(10)]], OWN | flags)
}

fn parent_changed(flags: u16) -> Event {
    change(PARENT, RowsKind::Update, &[vec![big(10)], vec![big(11)]], OWN | flags)
}

/// A MINIMAL update: the key before, and one column after.
fn minimal(id: i32, column: usize, value: &Row, flags: u16) -> Event {
    let (mut key, mut only) = ([false; 4], [false; 4]);
    (key[0], only[column]) = (true, true);
    let mut rows = image(&row(id, 0), &key);
    rows.extend(image(value, &only));
    Event::Rows { kind: RowsKind::Update, id: CHILD, columns: 4, before: bits(&key), after: bits(&only), rows, flags }
}

/// Replays the events in a transaction, and returns how replay stopped, and how many changes it passed over.
fn replay(events: &[Event], actions: &str, seed: u64) -> (Option<(StopClass, String)>, u64) {
    let mut random = Random::new(seed);
    let mut history = History::generate(seed + 90);
    let sql = |sql: String| vec![Event::Query { db: "d".into(), sql }];
    history.plant(7, sql(parent().sql("d", "planted_parent")), Some("d.planted_parent"));
    let child = shapes()[0].sql("d", "planted");
    let (body, _) = child.rsplit_once(')').unwrap();
    let child = format!("{body}, FOREIGN KEY (`n`) REFERENCES `planted_parent` (`id`) {actions})");
    history.plant(8, sql(child), Some("d.planted"));
    let map = |id, table: &str, shape| Event::Map { id, db: "d".into(), table: table.into(), shape };
    let mut all = vec![Event::Query { db: "d".into(), sql: "BEGIN".into() }];
    let parents = change(PARENT, RowsKind::Write, &[vec![big(10)], vec![big(20)]], OWN | END);
    let mut begins = true;
    for event in std::iter::once(&parents).chain(events) {
        if begins {
            all.extend([map(CHILD, "planted", shapes()[0].clone()), map(PARENT, "planted_parent", parent())]);
        }
        begins = matches!(event, Event::Rows { flags, .. } if flags & END != 0);
        all.push(event.clone());
    }
    all.push(Event::Xid);
    history.plant(12, all, None);
    let mut setup = Setup::random(&mut random);
    setup.check = CheckImages::All;
    // Decode settles a statement within one slice.
    setup.sizes.slice_bytes = setup.sizes.slice_bytes.max(2_000);
    let pipeline = setup.start(closing(chunks(history.files(), &mut random)));
    let publisher = std::sync::Arc::clone(&pipeline.publisher);
    let (finished, _, _) = follow(pipeline, &history.states).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    (finished.stop.map(|stop| (stop.class, stop.reason)), publisher.logged_twice().rows())
}

const BOTH: &str = "ON DELETE CASCADE ON UPDATE CASCADE";

#[track_caller]
fn goes_on(name: &str, events: &[Event], passed: u64) {
    for seed in 0..6 {
        let (stop, counted) = replay(events, BOTH, seed);
        assert_eq!(stop, None, "{name}, seed {seed}");
        assert_eq!(counted, passed, "{name}, seed {seed}");
    }
}

#[track_caller]
fn stops(name: &str, events: &[Event], foreign_key: &str, told: &str) {
    for seed in 0..3 {
        let (stop, counted) = replay(events, foreign_key, seed);
        let (class, reason) = stop.unwrap_or_else(|| panic!("{name} goes on"));
        assert_eq!((class, counted), (StopClass::DataDiffers, 0), "{name}: {reason}");
        assert!(reason.contains("(1032)") && reason.contains(told), "{name}: {reason}");
    }
}

/// The model knows no row of these tables, so that parents go too.
fn parents_left(rows: &[i64]) -> Event {
    let rows: Vec<Row> = rows.iter().map(|id| vec![big(*id)]).collect();
    change(PARENT, RowsKind::Delete, &rows, OWN | END)
}

#[test]
fn a_row_that_is_gone_is_deleted_once() {
    let gone = || vec![row(1, 10), row(2, 10)];
    let two = insert(&[row(1, 10), row(2, 10), row(3, 20)]);
    let rest = || [delete(&[row(3, 20)], OWN | END), parents_left(&[20])];
    // DELETE d, s FROM d JOIN s; a trigger of s.
    let own = [two.clone(), delete(&gone(), CASCADE), parent_gone(0), delete(&gone(), OWN | END)];
    goes_on("both", &[&own[..], &rest()[..]].concat(), 2);
    // Rows of the statement itself may stand in the event of a cascade.
    let joined = [two.clone(), delete(&[row(1, 10), row(2, 10), row(1, 10)], CASCADE), parent_gone(END)];
    goes_on("in one event", &[&joined[..], &rest()[..]].concat(), 1);
    // As may a cascade's in an event of the statement itself.
    let first = [delete(&[row(1, 10), row(2, 10)], OWN), parent_gone(0), delete(&[row(2, 10)], OWN | END)];
    goes_on("after another row", &[&[two.clone()][..], &first[..], &rest()[..]].concat(), 1);
    // A row inserted again is there to be deleted.
    let again = [
        two,
        delete(&gone(), CASCADE),
        parent_gone(0),
        change(CHILD, RowsKind::Write, &[row(1, 20)], OWN),
        delete(&[row(1, 20)], OWN | END),
    ];
    goes_on("inserted again", &[&again[..], &rest()[..]].concat(), 0);
}

#[test]
fn an_update_older_than_a_cascade_sets_what_differs() {
    let cascade = |id| update(row(id, 10), row(id, 11), CASCADE);
    let begin = || vec![insert(&[row(1, 10), row(2, 10)]), cascade(1), cascade(2), parent_changed(0)];
    let end = |rows: &[Row]| vec![delete(rows, OWN | END), parents_left(&[11, 20])];
    let own = vec![update(row(1, 10), with(1, 10, "set"), OWN), update(row(2, 11), with(2, 11, "seen"), OWN | END)];
    goes_on("stale", &[begin(), own, end(&[with(1, 11, "set"), with(2, 11, "seen")])].concat(), 1);
    let same = vec![update(row(1, 10), row(1, 11), OWN | END)];
    goes_on("the same again", &[begin(), same, end(&[row(1, 11), row(2, 11)])].concat(), 1);
    let key = vec![update(row(1, 10), with(9, 10, "moved"), OWN | END)];
    goes_on("another key", &[begin(), key, end(&[with(9, 11, "moved"), row(2, 11)])].concat(), 1);
    let minimal_one = vec![minimal(1, 3, &with(1, 0, "set"), OWN | END)];
    goes_on("MINIMAL", &[begin(), minimal_one, end(&[with(1, 11, "set"), row(2, 11)])].concat(), 0);
    let deleted = vec![delete(&[row(1, 10)], OWN | END)];
    goes_on("deleted", &[begin(), deleted, end(&[row(2, 11)])].concat(), 0);
}

#[test]
fn what_the_log_does_not_prove_stops_replay() {
    let two = || insert(&[row(1, 10), row(2, 10)]);
    let gone = || delete(&[row(1, 10)], CASCADE);
    let twice = |end| [two(), gone(), parent_gone(end), delete(&[row(1, 10)], OWN | END)];
    let missing = "the row to change is not in the replica";
    stops("another statement", &twice(END), BOTH, missing);
    stops("no cascade in the table", &twice(0), "", missing);
    stops("no cascade on DELETE", &twice(0), "ON UPDATE CASCADE", missing);
    let native = [two(), delete(&[row(1, 10)], END), delete(&[row(1, 10)], END)];
    stops("no cascades in the log", &native, BOTH, missing);
    let changed = |before, after| {
        vec![two(), update(row(1, 10), row(1, 11), CASCADE), parent_changed(0), update(before, after, OWN | END)]
    };
    let updated = [two(), gone(), parent_gone(0), update(row(1, 10), with(1, 10, "set"), OWN | END)];
    stops(
        "an update of a row that is gone",
        &updated,
        BOTH,
        "updates a row that a cascade of the same statement deleted",
    );
    stops("neither", &changed(row(1, 12), row(1, 13)), BOTH, "which columns the source wrote");
    let key = [
        two(),
        update(row(1, 10), row(7, 11), CASCADE),
        parent_changed(0),
        update(row(1, 10), with(1, 10, "set"), OWN | END),
    ];
    stops("another key by the cascade", &key, BOTH, "by a key that a cascade");
    let set_back =
        [two(), update(row(1, 10), row(1, 11), CASCADE), parent_changed(0), minimal(1, 2, &row(1, 10), OWN | END)];
    stops("MINIMAL sets the column", &set_back, BOTH, "which columns the source wrote");
}

/// The source leaves the cascade to the replica.
#[test]
fn cascades_carried_out_here_count_as_the_sources() {
    let native = |id, kind, rows: &[Row], flags| change(id, kind, rows, flags);
    let begin = || native(CHILD, RowsKind::Write, &[row(1, 10), row(2, 20)], END);
    let parent_of = |flags| native(PARENT, RowsKind::Delete, &[vec![big(10)]], flags);
    let rest = || {
        [native(CHILD, RowsKind::Delete, &[row(2, 20)], END), native(PARENT, RowsKind::Delete, &[vec![big(20)]], END)]
    };
    let own = |flags| native(CHILD, RowsKind::Delete, &[row(1, 10)], flags);
    goes_on("deleted", &[&[begin(), parent_of(0), own(END)][..], &rest()[..]].concat(), 1);
    let missing = "the row to change is not in the replica";
    stops("another statement", &[begin(), parent_of(END), own(END)], BOTH, missing);
    let moved = native(PARENT, RowsKind::Update, &[vec![big(10)], vec![big(11)]], 0);
    let set = native(CHILD, RowsKind::Update, &[row(1, 10), with(1, 10, "set")], END);
    let left = native(CHILD, RowsKind::Delete, &[with(1, 11, "set"), row(2, 20)], END);
    let parents = native(PARENT, RowsKind::Delete, &[vec![big(11)], vec![big(20)]], END);
    goes_on("changed", &[begin(), moved, set, left, parents], 1);
    let gone = native(CHILD, RowsKind::Update, &[row(1, 10), with(1, 10, "set")], END);
    stops("updated", &[begin(), parent_of(0), gone], BOTH, "updates a row that a cascade");
}
