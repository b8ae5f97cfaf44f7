//! Pieces and numbers that break the publisher's invariants: each must stop replay before it becomes visible.

use base::{PreparedSet, Tag, Uuid};
use catalog::{Catalog, TableId};
use decode::{DecodedPiece, Transaction, TransactionKind};
use store::{PinnedLayers, Store};

use super::*;
use crate::in_flight::InFlight;

fn publisher() -> (Arc<Store>, Publisher) {
    let store = Arc::new(Store::new(1, Catalog::new(0)));
    let (lag, rates) = (Arc::new(LagMeter::new()), Arc::new(RateMeter::new()));
    let publisher = Publisher::new(Watermark::of(&store), lag, rates, Arc::default());
    (store, publisher)
}

fn gtid(number: u64) -> Gtid {
    Gtid { uuid: Uuid([7; 16]), tag: Tag::EMPTY, gno: number }
}

/// A piece of so many transactions, numbered as their GTIDs are.
fn piece(first: u64, count: u64) -> SequencedPiece {
    let mut decoded = DecodedPiece::empty(1);
    (decoded.piece.file, decoded.piece.offset) = (Arc::from("f"), first * 100);
    decoded.transactions.extend((first..first + count).map(|number| Transaction {
        gtid: Some(gtid(number)),
        commit_us: 0,
        start: 0,
        end: 0,
        rows: 0,
        kind: TransactionKind::Rows,
        skipped: None,
    }));
    SequencedPiece {
        decoded,
        first: SequenceNumber(first),
        catalogs: Vec::new(),
        dropped: Vec::new(),
        altered: Vec::new(),
        rewrites: Vec::new(),
        prepared: PreparedSet::default(),
    }
}

fn with(mut piece: SequencedPiece, how: impl FnOnce(&mut SequencedPiece)) -> SequencedPiece {
    how(&mut piece);
    piece
}

/// Publishes these pieces. Returns the last visible number, and why replay failed.
fn publish(pieces: &[SequencedPiece]) -> (u64, Option<Stop>) {
    let (store, publisher) = publisher();
    for piece in pieces {
        let index = publisher.enqueue(piece, false);
        publisher.complete(index);
    }
    (store.visibility().watermark().0, publisher.failure())
}

#[track_caller]
fn assert_defect(stop: Option<Stop>, number: u64, what: &str) {
    let stop = stop.unwrap();
    assert_eq!(stop.class, StopClass::Defect, "{stop}");
    assert_eq!(stop.gtid, Some(gtid(number)), "{stop}");
    assert_eq!(&*stop.position.file, "f", "{stop}");
    let from = format!("{what} (crates/apply/src/publish.rs:");
    assert!(stop.reason.starts_with(&from) && stop.reason.ends_with(", a defect of Slipstream)"), "{stop}");
}

#[test]
fn numbers_follow_each_other() {
    let (visible, stop) = publish(&[piece(1, 2), piece(3, 0), piece(3, 1)]);
    assert!(stop.is_none() && visible == 3, "{stop:?}");
    let (visible, stop) = publish(&[piece(1, 1), piece(3, 1), piece(4, 1)]);
    assert_defect(stop, 3, "transaction 3 was sequenced in the place of transaction 2");
    assert_eq!(visible, 1);
    let (visible, stop) = publish(&[piece(1, 2), piece(2, 1)]);
    assert_defect(stop, 2, "transaction 2 was sequenced in the place of transaction 3");
    assert_eq!(visible, 2);
}

#[test]
fn a_transaction_s_slices_belong_together() {
    let unfinished = |piece| with(piece, |piece| piece.decoded.piece.unfinished = true);
    let continues = |piece| with(piece, |piece| piece.decoded.piece.continues = true);
    let (visible, stop) =
        publish(&[unfinished(piece(1, 2)), unfinished(continues(piece(2, 1))), continues(piece(2, 2))]);
    assert!(stop.is_none() && visible == 3, "{stop:?}");
    let (visible, stop) = publish(&[piece(1, 1), continues(piece(2, 1))]);
    assert_defect(stop, 2, "a piece at transaction 2, which is not open");
    assert_eq!(visible, 1);
    let (visible, stop) = publish(&[unfinished(piece(1, 2)), piece(2, 1)]);
    assert_defect(stop, 2, "a piece at transaction 2, which is open");
    assert_eq!(visible, 1);
    let (visible, stop) =
        publish(&[unfinished(with(piece(1, 0), |piece| piece.decoded.piece.begun.gtid = Some(gtid(9))))]);
    assert_defect(stop, 9, "a slice without a transaction, after transaction 0");
    assert_eq!(visible, 0);
}

#[test]
fn a_catalog_is_of_a_transaction_of_its_piece() {
    let catalogs = |numbers: &[u64]| {
        let catalogs = numbers.iter().map(|number| (SequenceNumber(*number), Catalog::new(0))).collect();
        with(piece(1, 2), |piece| piece.catalogs = catalogs)
    };
    assert!(publish(&[catalogs(&[1, 1, 2])]).1.is_none());
    for outside in [0, 3] {
        let (visible, stop) = publish(&[catalogs(&[outside])]);
        assert_defect(stop, 1, &format!("a catalog of transaction {outside} in a piece of 1..3"));
        assert_eq!(visible, 0);
    }
    assert_defect(publish(&[catalogs(&[2, 1])]).1, 1, "catalogs out of order at transaction 1");
    let dropped = with(piece(1, 1), |piece| piece.dropped.push((SequenceNumber(2), TableId(1))));
    assert_defect(publish(&[dropped]).1, 1, "a catalog of transaction 2 in a piece of 1..2");
    // The statement that replay stops at may have left one.
    let stop = Stop { class: StopClass::NotSupported, ..piece(3, 0).decoded.defect(0, "planted") };
    let (visible, stop) = publish(&[with(catalogs(&[3]), |piece| piece.decoded.stop = Some(stop))]);
    assert_eq!((visible, stop.unwrap().class), (2, StopClass::NotSupported));
}

#[test]
fn a_piece_ends_once() {
    let (store, publisher) = publisher();
    let enqueue = |piece: SequencedPiece| {
        let index = publisher.enqueue(&piece, false);
        InFlight::new(piece, index, 1, PinnedLayers::pin(&store))
    };
    let (first, second) = (enqueue(piece(1, 1)), enqueue(piece(2, 1)));
    first.complete(&publisher);
    first.complete(&publisher);
    let stop = publisher.failure().unwrap();
    assert_eq!((stop.class, stop.gtid, stop.position.offset), (StopClass::Defect, Some(gtid(1)), 100), "{stop}");
    assert!(stop.reason.starts_with("piece 0 ended twice (crates/apply/src/in_flight.rs:"), "{stop}");
    second.complete(&publisher);
    assert_eq!(store.visibility().watermark().0, 1, "nothing after it becomes visible");
}

#[test]
fn a_piece_that_ends_was_enqueued() {
    let (store, publisher) = publisher();
    let first = publisher.enqueue(&piece(1, 1), false);
    publisher.complete(first);
    let second = publisher.enqueue(&piece(2, 1), false);
    publisher.complete(second + 1);
    assert_defect(publisher.failure(), 1, "piece 2 ended, and 2 were enqueued");
    publisher.complete(second);
    assert_eq!(store.visibility().watermark().0, 1);
}

#[test]
fn what_becomes_visible_follows_what_is() {
    for planted in [1, 3] {
        let (store, publisher) = publisher();
        let first = publisher.enqueue(&piece(1, 1), false);
        publisher.complete(first);
        let second = publisher.enqueue(&piece(2, 1), false);
        publisher.lock().queue.front_mut().unwrap().first = SequenceNumber(planted);
        publisher.complete(second);
        let what = format!("transaction {planted} becomes visible after transaction 1");
        assert_defect(publisher.failure(), 2, &what);
        assert_eq!(store.visibility().watermark().0, 1);
        assert!(!publisher.is_drained() && !publisher.wait_passed(second, Duration::ZERO));
    }
}

/// What a copy brought waits as well, and is no transaction of the source.
#[test]
fn what_waits_is_counted_by_where_it_came_from() {
    let (_store, publisher) = publisher();
    let pending = || {
        let status = publisher.status();
        (status.pending, status.pending_transactions)
    };
    publisher.take_read_lock();
    assert_eq!(pending(), (false, 0));
    let copied = publisher.enqueue(&piece(1, 1), true);
    publisher.complete(copied);
    assert_eq!(pending(), (true, 0));
    let own = publisher.enqueue(&piece(2, 2), false);
    publisher.complete(own);
    assert_eq!(pending(), (true, 2));
    publisher.release_read_lock();
    assert_eq!(pending(), (false, 0));
}

/// The source's log is ahead of its gtid_executed: nothing of that is shown, and each answer shows more.
#[test]
fn what_the_source_has_not_executed_is_not_shown() {
    let (store, publisher) = publisher();
    let now = Duration::ZERO;
    publisher.show_only_acknowledged();
    assert_eq!(publisher.wait_unacknowledged(now), None);
    let indexes: Vec<u64> = [piece(1, 2), piece(3, 2)].iter().map(|piece| publisher.enqueue(piece, false)).collect();
    publisher.complete(indexes[1]);
    assert_eq!(publisher.wait_unacknowledged(now), None, "the first is not applied");
    publisher.complete(indexes[0]);
    assert_eq!((store.visibility().watermark().0, publisher.wait_unacknowledged(now)), (0, Some(gtid(1))));
    let upto = |last| {
        let mut set = GtidSet::new();
        set.add_range(gtid(1).uuid, Tag::EMPTY, 1, last);
        set
    };
    assert_eq!(publisher.waiting(), upto(4));
    publisher.acknowledge(upto(1));
    assert_eq!(publisher.waiting().to_string(), upto(4).subtract(&upto(1)).to_string());
    assert_eq!((store.visibility().watermark().0, publisher.wait_unacknowledged(now)), (1, Some(gtid(2))));
    // The prefix that verify asks for is not exceeded, nor the answer for its sake.
    assert!(!publisher.advance_to(&upto(3), now) && store.visibility().watermark().0 == 1);
    publisher.acknowledge(upto(9));
    assert!(publisher.advance_to(&upto(3), now) && store.visibility().watermark().0 == 3);
    publisher.release();
    assert_eq!((store.visibility().watermark().0, publisher.wait_unacknowledged(now)), (4, None));
    assert!(publisher.waiting().is_empty());
}
