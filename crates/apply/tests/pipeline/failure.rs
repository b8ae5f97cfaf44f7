//! Faults stop replay: everything before is visible, nothing after, and the ledger balances. If the operator skips
//! the transaction, replay continues.

use apply::Pipeline;
use base::{Gtid, GtidSet, Random};
use binlog::{ChecksumAlgorithm, EventHeader, RowsKind, XaXid, event_type, row_flags};
use decode::StopClass;
use relay_log::boundary::BoundaryTracker;
use testkit::history::{Event, Flavour, History, Shape, shapes};
use testkit::log::{self, NULL, Row, big, bits, full_image, image, int, varchar};
use testkit::seeds;

use crate::run::{Setup, check, check_ledger, chunks, closing, count_events, follow, quiet};

const TABLE: &str = "planted";

/// Leading INT key, a VARCHAR, a BIGINT, a TEXT.
fn shape() -> Shape {
    shapes()[0].clone()
}

fn row(id: i32, text: &str) -> Row {
    vec![int(id), varchar(text), big(1), NULL]
}

fn query(sql: &str) -> Event {
    Event::Query { db: "d".into(), sql: sql.into() }
}

fn map_of(table: &str, shape: Shape) -> Event {
    Event::Map { id: 5, db: "d".into(), table: table.into(), shape }
}

fn rows(kind: RowsKind, before: &[bool], after: &[bool], images: Vec<u8>) -> Event {
    Event::Rows {
        kind,
        id: 5,
        columns: 4,
        before: if kind.has_before() { bits(before) } else { vec![] },
        after: if kind.has_after() { bits(after) } else { vec![] },
        rows: images,
        flags: row_flags::STMT_END,
    }
}

fn full(rows: &[Row]) -> Vec<u8> {
    rows.iter().flat_map(|row| full_image(row)).collect()
}

fn bracket(events: Vec<Event>) -> Vec<Event> {
    let mut all = vec![query("BEGIN"), map_of(TABLE, shape())];
    all.extend(events);
    all.push(Event::Xid);
    all
}

/// Every fault: a name, the transaction, the class of the stop.
fn faults() -> Vec<(&'static str, Vec<Event>, StopClass)> {
    let all = [true; 4];
    let key_only = [true, false, false, false];
    let insert = |images| rows(RowsKind::Write, &all, &all, images);
    let other = shapes()[1].clone();
    let mut nullable_key = shape();
    nullable_key.columns[0].nullable = true;
    let mut null_key = row(1, "a");
    null_key[0] = NULL;
    let mut cut = full(&[row(1, "a")]);
    cut.truncate(cut.len() - 1);
    let mut minimal = image(&row(1, ""), &key_only);
    minimal.extend(image(&row(2, ""), &key_only));
    let mut keyless_before = image(&row(1, ""), &[false, true, false, false]);
    keyless_before.extend(image(&row(2, ""), &[false, true, false, false]));
    let mut wide = insert(full(&[row(1, "a")]));
    if let Event::Rows { columns, .. } = &mut wide {
        *columns = 3;
    }
    use StopClass::{Corrupt, DataDiffers, NotSupported};
    vec![
        ("delete of no row", bracket(vec![rows(RowsKind::Delete, &all, &[], full(&[row(1, "a")]))]), DataDiffers),
        (
            "update of no row",
            bracket(vec![rows(RowsKind::Update, &all, &all, full(&[row(1, "a"), row(1, "b")]))]),
            DataDiffers,
        ),
        ("row twice", bracket(vec![insert(full(&[row(3, "a"), row(4, "a"), row(3, "b")]))]), DataDiffers),
        (
            "other row than the log says",
            bracket(vec![
                insert(full(&[row(1, "a")])),
                rows(RowsKind::Update, &all, &all, full(&[row(1, "x"), row(1, "b")])),
            ]),
            DataDiffers,
        ),
        ("move of no row", bracket(vec![rows(RowsKind::Update, &key_only, &key_only, minimal)]), DataDiffers),
        (
            "image without its key",
            bracket(vec![rows(
                RowsKind::Update,
                &[false, true, false, false],
                &[false, true, false, false],
                keyless_before,
            )]),
            NotSupported,
        ),
        ("image cut off", bracket(vec![insert(cut)]), Corrupt),
        ("column count", bracket(vec![wide]), DataDiffers),
        (
            "table map that disagrees",
            vec![query("BEGIN"), map_of(TABLE, other), insert(full(&[row(1, "a")])), Event::Xid],
            DataDiffers,
        ),
        (
            "rows of an unknown table",
            vec![query("BEGIN"), map_of("nowhere", shape()), insert(full(&[row(1, "a")])), Event::Xid],
            DataDiffers,
        ),
        (
            "rows of a schema that is the server's own but for its case",
            vec![
                query("BEGIN"),
                Event::Map { id: 5, db: "MySQL".into(), table: TABLE.into(), shape: shape() },
                insert(full(&[row(1, "a")])),
                Event::Xid,
            ],
            DataDiffers,
        ),
        ("rows without a table map", vec![query("BEGIN"), insert(full(&[row(1, "a")])), Event::Xid], Corrupt),
        ("statement", vec![query("INSERT INTO planted VALUES (1, 'a', 1, NULL)")], NotSupported),
        (
            "statement among rows",
            bracket(vec![insert(full(&[row(1, "a")])), query("UPDATE planted SET v = 'b'")]),
            NotSupported,
        ),
        // An Incident: LOST_EVENTS without a message.
        ("the source lost events", bracket(vec![Event::Raw(event_type::INCIDENT, 0, vec![1, 0, 0])]), NotSupported),
        ("an event of no known type", bracket(vec![Event::Raw(60, 0, vec![1, 2, 3])]), NotSupported),
        (
            "key column that may be NULL at the source",
            vec![query("BEGIN"), map_of(TABLE, nullable_key), insert(full(&[row(1, "a")])), Event::Xid],
            DataDiffers,
        ),
        ("XA COMMIT of nothing", vec![query("XA COMMIT X'61',X'',1")], DataDiffers),
        ("XA ROLLBACK of nothing", vec![query("XA ROLLBACK X'',X'',4294967296")], DataDiffers),
        ("XA COMMIT of what cannot be read", vec![query("XA COMMIT ???")], NotSupported),
        (
            "XA ONE PHASE, delete of no row",
            vec![
                query("XA START X'',X'',1"),
                map_of(TABLE, shape()),
                rows(RowsKind::Delete, &all, &[], full(&[row(1, "a")])),
                query("XA END X'',X'',1"),
                xa_prepare(true, &XaXid::new(1, b"", b"").unwrap()),
            ],
            DataDiffers,
        ),
        (
            "XA ONE PHASE of what cannot be read, a statement",
            vec![
                query("XA START ???"),
                query("UPDATE planted SET v = 'b'"),
                query("XA END ???"),
                xa_prepare(true, &XaXid::new(1, b"a", b"").unwrap()),
            ],
            NotSupported,
        ),
        ("NULL in a key that has none", bracket(vec![insert(full(&[null_key]))]), Corrupt),
    ]
}

/// The event that ends an XA transaction.
fn xa_prepare(one_phase: bool, xid: &XaXid) -> Event {
    let (gtrid, bqual) = (xid.gtrid(), xid.bqual());
    let mut body = vec![u8::from(one_phase)];
    for number in [xid.format_id(), gtrid.len() as u32, bqual.len() as u32] {
        body.extend(number.to_le_bytes());
    }
    body.extend([gtrid, bqual].concat());
    Event::Raw(event_type::XA_PREPARE, 0, body)
}

/// Returns the history with a fault at a random place, its GTID, and the number of transactions before it.
fn planted(seed: u64, events: &[Event], random: &mut Random) -> (History, Gtid, usize) {
    let mut history = History::generate(seed);
    history.plant(8, vec![query(&shape().sql("d", TABLE))], Some("d.planted"));
    let at = 9 + random.below(history.transactions.len() - 8);
    let gtid = history.plant(at, events.to_vec(), None);
    (history, gtid, at)
}

#[test]
fn everything_before_a_failure_is_visible_and_nothing_after() {
    for (number, (name, events, class)) in faults().into_iter().enumerate() {
        for seed in seeds(3) {
            let mut random = Random::new(seed * 100 + number as u64);
            let (history, gtid, at) = planted(seed * 31 + number as u64, &events, &mut random);
            let setup = Setup::random(&mut random);
            let files = history.files();
            let items = chunks(files.clone(), &mut random);
            // A live source does not end; replay must stop all the same.
            let source = if random.one_in(2) { quiet(items) } else { closing(items) };
            let told = format!("{name}, seed {seed}, {:?}", setup.sizes);
            let (finished, visible, outcome) =
                follow(setup.start(source), &history.states).unwrap_or_else(|e| panic!("{told}: {e}"));
            let stop = finished.stop.unwrap_or_else(|| panic!("{told}: not noticed"));
            assert_eq!(stop.gtid, Some(gtid), "{told}: {stop}");
            assert_eq!(stop.class, class, "{told}: {stop}");
            assert!(stop.help().contains("skip") || class == StopClass::Corrupt, "{told}: {}", stop.help());
            assert_eq!(visible, at, "{told}: {stop}");
            assert!(outcome.ledger.balanced(), "{told}: {:?}", outcome.ledger.unbalanced().collect::<Vec<_>>());
            assert!(outcome.ledger.totals().refused > 0, "{told}");

            // The remedy.
            let mut setup = Setup::random(&mut random);
            setup.skip.add(gtid);
            let outcome = check(&history, &setup, &mut random).unwrap_or_else(|e| panic!("{told}, skipped: {e}"));
            let inside = events.len() as u64;
            let counted = outcome.ledger.totals().skipped_by_operator;
            // The Gtid event and, if compressed, the payload.
            assert!((inside + 1..=inside + 2).contains(&counted), "{told}: {counted} of {inside}");
        }
    }
}

/// An event of a later server that is marked ignorable passes, even between rows. Those rows are rolled back, since
/// the model does not know them.
#[test]
fn an_unknown_event_that_is_ignorable_passes() {
    let later = || Event::Raw(60, binlog::flags::IGNORABLE, vec![1, 2, 3]);
    let insert = |id| rows(RowsKind::Write, &[], &[true; 4], full_image(&row(id, "a")));
    let map = map_of(TABLE, shape());
    let events = [query("BEGIN"), later(), map, insert(1), later(), insert(2), query("ROLLBACK")];
    for seed in seeds(3) {
        let mut random = Random::new(seed);
        let (history, _, _) = planted(seed * 13, &events, &mut random);
        let mut setup = Setup::random(&mut random);
        setup.sizes.slice_bytes = 16 << 20;
        check(&history, &setup, &mut random).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

/// ROLLBACK and ROLLBACK TO SAVEPOINT in the log undo changes of tables that can roll back, and every event is
/// counted once.
#[test]
fn rollbacks_in_the_log_leave_nothing() {
    let insert = |id| rows(RowsKind::Write, &[], &[true; 4], full_image(&row(id, "a")));
    let map = || map_of(TABLE, shape());
    let transactions = [
        vec![query("BEGIN"), map(), insert(1), insert(2), query("ROLLBACK")],
        vec![
            query("BEGIN"),
            query("SAVEPOINT `a`"),
            map(),
            insert(3),
            query("SAVEPOINT b"),
            insert(4),
            query("ROLLBACK TO SAVEPOINT b"),
            query("ROLLBACK TO `a`"),
            Event::Xid,
        ],
    ];
    for (number, events) in transactions.iter().enumerate() {
        for seed in seeds(3) {
            let mut random = Random::new(seed * 100 + number as u64);
            let (history, _, _) = planted(seed * 17 + number as u64, events, &mut random);
            let mut setup = Setup::random(&mut random);
            setup.sizes.slice_bytes = 16 << 20;
            check(&history, &setup, &mut random).unwrap_or_else(|e| panic!("{number}, seed {seed}: {e}"));
        }
    }
}

/// What the log line says of a transaction that the operator skipped is the same whether its events were compressed.
#[test]
fn a_skipped_transaction_is_summed_up_in_words() {
    for compressed in [false, true] {
        let mut author = log::Author::new(base::Uuid([7; 16]));
        author.table("t", &[log::INT], "id INT PRIMARY KEY");
        author.compressed = compressed;
        let number = author.transaction(|events| {
            events.sql("BEGIN");
            events.change(&log::insert("t", &[int(1)]));
            events.change(&log::insert("t", &[int(2)]));
            events.writer.xid(1);
        });
        let gtid = author.gtid_of(number);
        let mut setup = Setup::random(&mut Random::new(1));
        setup.sizes = decode::SplitOptions { piece_bytes: 256 << 10, slice_bytes: 16 << 20 };
        setup.skip.add(gtid);
        let options = setup.options();
        let skip = options.skip.clone();
        let items = chunks(vec![("binlog.000001".into(), author.events())], &mut Random::new(2));
        let pipeline = Pipeline::start_with(closing(items), options, setup.sizes);
        let finished = pipeline.join();
        assert!(finished.stop.is_none(), "{:?}", finished.stop);
        let (skipped, more) = skip.take_skipped(&setup.skip);
        let [told] = &skipped[..] else { panic!("{skipped:?}") };
        assert!(told.gtid == gtid && more == 0, "{told:?}");
        assert!(told.held.contains("; 2 rows events of `d`.`t`") && !told.held.contains("statement"), "{}", told.held);
    }
}

/// A member of a group logs each view as a transaction of its own (8.0), and may log what certification was given.
#[test]
fn a_view_of_a_group_has_its_gtid_and_changes_nothing() {
    let mut author = log::Author::new(base::Uuid([7; 16]));
    author.table("t", &[log::INT], "id INT PRIMARY KEY");
    // view_id in 40 bytes, a sequence number, a count of certification's entries.
    let view = |out: &mut Vec<u8>| {
        out.extend(format!("{:\0<40}", "17960055559725797:3").as_bytes());
        out.extend(9_u64.to_le_bytes());
        out.extend(0_u32.to_le_bytes());
    };
    let number = author.transaction(|events| {
        events.sql("BEGIN");
        events.writer.event(event_type::VIEW_CHANGE, 0, view);
        events.sql("COMMIT");
    });
    let last = author.rows(&[log::insert("t", &[int(1)])]);
    let (of_view, of_row) = (author.gtid_of(number), author.gtid_of(last));
    let setup = Setup::random(&mut Random::new(1));
    let files = vec![("binlog.000001".to_owned(), author.events())];
    let expected = count_events(&files);
    let items = chunks(files, &mut Random::new(2));
    let pipeline = Pipeline::start_with(closing(items), setup.options(), setup.sizes);
    let (store, ledger) = (std::sync::Arc::clone(&pipeline.store), std::sync::Arc::clone(&pipeline.ledger));
    let finished = pipeline.join();
    assert!(finished.stop.is_none(), "{:?}", finished.stop);
    let executed = store.visibility().executed();
    assert!(executed.contains(&of_view) && executed.contains(&of_row), "{executed}");
    check_ledger(&ledger.snapshot(event_type::name), &expected).unwrap();
}

/// A huge transaction is left out as a whole, whichever decoder has which slice.
#[test]
fn a_transaction_in_slices_is_left_out_whole() {
    let flavour = Flavour { transactions: 40, partial_images: true, ddl: true, huge: true, ..Flavour::PLAIN };
    for seed in seeds(3) {
        let mut random = Random::new(seed);
        let mut history = History::with(Random::new(seed), flavour);
        history.plant(8, vec![query(&shape().sql("d", TABLE))], Some("d.planted"));
        let many = (0..60).map(|id| rows(RowsKind::Write, &[], &[true; 4], full(&[row(id, "long enough")]))).collect();
        let gtid = history.plant(20, bracket(many), None);
        let mut setup = Setup::random(&mut random);
        setup.sizes.slice_bytes = 150;
        setup.skip.add(gtid);
        check(&history, &setup, &mut random).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        // The same, because it is executed already.
        setup.skip = GtidSet::new();
        setup.executed.add(gtid);
        for state in &mut history.states {
            state.executed.add(gtid);
        }
        check(&history, &setup, &mut random).unwrap_or_else(|e| panic!("seed {seed}, executed: {e}"));
    }
}

/// Number of transactions that end before a byte, by the relay log's offsets.
fn transactions_before(files: &[(String, Vec<u8>)], file: usize, byte: usize) -> usize {
    let mut ended = 0;
    for (number, (_, bytes)) in files.iter().enumerate().take(file + 1) {
        let mut tracker = BoundaryTracker::new(ChecksumAlgorithm::Crc32);
        let mut at = 0;
        while at < bytes.len() {
            let len = EventHeader::parse(&bytes[at..]).unwrap().event_len as usize;
            if number == file && at + len > byte {
                break;
            }
            ended += usize::from(tracker.step(&bytes[at..at + len]).unwrap().transaction_ends);
            at += len;
        }
    }
    ended
}

/// A flipped byte anywhere in a log with checksums is noticed, and a prefix is visible then.
#[test]
fn a_flipped_byte_stops_replay_at_a_prefix() {
    for seed in seeds(40) {
        let mut random = Random::new(seed + 7);
        let mut history = History::generate(seed);
        history.always_checksums = true;
        let mut files = history.files();
        let file = random.below(files.len());
        let at = random.below(files[file].1.len());
        let before = transactions_before(&files, file, at);
        files[file].1[at] ^= 1 << random.below(8);
        let setup = Setup::random(&mut random);
        let pipeline = setup.start(closing(chunks(files, &mut random)));
        let (finished, visible, outcome) =
            follow(pipeline, &history.states).unwrap_or_else(|e| panic!("seed {seed}, byte {at}: {e}"));
        let stop = finished.stop.unwrap_or_else(|| panic!("seed {seed}: byte {at} of file {file} is not noticed"));
        assert_eq!(visible, before, "seed {seed}: byte {at} of file {file}: {stop}");
        assert!(outcome.ledger.balanced(), "seed {seed}");
    }
}

/// Even without checksums nothing panics or hangs, whatever the bytes.
#[test]
fn a_broken_log_without_checksums_never_panics_or_hangs() {
    for seed in seeds(30) {
        let mut random = Random::new(seed + 70);
        let history = History::generate(seed);
        let mut files = history.files();
        for _ in 0..1 + random.below(4) {
            let file = random.below(files.len());
            let bytes = &mut files[file].1;
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.any() as u8,
                1 => bytes.truncate(at.max(1)),
                _ => {
                    let from = random.below(bytes.len());
                    let len = random.below(40).min(bytes.len() - from.max(at));
                    bytes.copy_within(from..from + len, at);
                }
            }
        }
        let mut setup = Setup::random(&mut random);
        setup.check = store::CheckImages::Off;
        let pipeline = setup.start(closing(chunks(files, &mut random)));
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !pipeline.is_finished() {
            assert!(std::time::Instant::now() < deadline, "seed {seed} hangs");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if let Some(stop) = pipeline.join().stop {
            assert!(!stop.reason.contains("defect"), "seed {seed}: {stop}");
        }
    }
}

/// A stop found far ahead must not prevent an earlier barrier from being applied (such a barrier was once passed
/// over).
#[test]
fn a_barrier_before_a_failure_is_applied() {
    let mut random = Random::new(1);
    let mut history =
        History::with(Random::new(2), Flavour { transactions: 80, partial_images: true, ..Flavour::PLAIN });
    let end = history.transactions.len();
    history.plant(end, vec![query("CALL planted()")], None);
    let mut setup = Setup::random(&mut random);
    (setup.workers, setup.sizes.piece_bytes, setup.memory_bytes) = (3, 1 << 20, 1 << 30);
    let files = history.files();
    let pipeline = setup.start(closing(chunks(files.clone(), &mut random)));
    let barriers = std::sync::Arc::clone(&pipeline.barriers);
    let (finished, visible, outcome) = follow(pipeline, &history.states).unwrap();
    assert!(finished.stop.is_some());
    assert_eq!(visible, end);
    assert!(barriers.load(std::sync::atomic::Ordering::Relaxed) > 0);
    assert!(outcome.ledger.balanced());
    // All events up to the failing statement were seen.
    check_ledger(&outcome.ledger, &{
        let mut counts = count_events(&files);
        // The Rotate after it is not reached.
        *counts.get_mut(&4).unwrap() -= 1;
        counts
    })
    .unwrap();
}

/// Foreign key actions are logged, or child rows are looked for; here no row references those that change.
#[test]
fn cascades_that_are_not_logged_are_looked_for() {
    let all = [true; 4];
    let change = |kind, images: &[Row], more: u16| {
        let mut event = rows(kind, &all, &all, full(images));
        if let Event::Rows { flags, .. } = &mut event {
            *flags |= more;
        }
        event
    };
    let insert = || change(RowsKind::Write, &[row(1, "a"), row(2, "b")], 0);
    let both = |flag| change(RowsKind::Delete, &[row(1, "a"), row(2, "b")], flag);
    let logged = row_flags::USE_SQL_FOREIGN_KEY;
    let unchecked = row_flags::NO_FOREIGN_KEY_CHECKS;
    let other_column = change(RowsKind::Update, &[row(2, "b"), row(2, "c"), row(2, "c"), row(2, "b")], 0);
    let key = |flag| change(RowsKind::Update, &[row(2, "b"), row(3, "b"), row(3, "b"), row(2, "b")], flag);
    let logged = [
        vec![insert(), other_column, both(logged)],
        vec![insert(), key(logged), both(logged)],
        vec![insert(), key(unchecked), both(unchecked)],
    ];
    let unlogged = [vec![insert(), both(0)], vec![insert(), key(0), both(0)]];
    let child = "CREATE TABLE child (id INT PRIMARY KEY, p INT, \
                 FOREIGN KEY (p) REFERENCES planted (id) ON DELETE CASCADE ON UPDATE SET NULL)";
    for (number, events) in logged.into_iter().chain(unlogged).enumerate() {
        let mut random = Random::new(number as u64);
        let mut history = History::generate(number as u64 + 50);
        history.plant(8, vec![query(&shape().sql("d", TABLE))], Some("d.planted"));
        history.plant(9, vec![query(child)], Some("d.child"));
        history.plant(12, bracket(events), None);
        let setup = Setup::random(&mut random);
        let pipeline = setup.start(closing(chunks(history.files(), &mut random)));
        let barriers = std::sync::Arc::clone(&pipeline.barriers);
        let (finished, visible, _) = follow(pipeline, &history.states).unwrap_or_else(|e| panic!("{number}: {e}"));
        assert!(finished.stop.is_none(), "{number}: {:?}", finished.stop);
        assert!(visible > 12);
        if number >= 3 {
            assert!(barriers.load(std::sync::atomic::Ordering::Relaxed) > 0, "{number}");
        }
    }
}
