//! Pieces and tables that may not come where they come: a stop in their place.

use super::*;
use crate::stop::Stop;

fn sequencer(catalog: &Catalog) -> (Sequencer, SharedCatalog) {
    let options = DecodeOptions { lanes: 1, ..DecodeOptions::default() };
    let sequencer = Sequencer::new(options, catalog.clone(), GtidSet::new(), SequenceNumber(4));
    (sequencer, SharedCatalog::new(catalog.clone()))
}

fn piece(number: u64) -> DecodedPiece {
    let mut decoded = DecodedPiece::empty(1);
    (decoded.piece.number, decoded.piece.file) = (number, Arc::from("f"));
    decoded
}

#[track_caller]
fn assert_defect(stop: Option<Stop>, what: &str) {
    let stop = stop.unwrap();
    assert_eq!((stop.class, &*stop.position.file), (StopClass::Defect, "f"), "{stop}");
    assert!(stop.reason.starts_with(&format!("{what} (crates/decode/src/sequence.rs:")), "{stop}");
}

#[test]
fn a_piece_is_taken_once() {
    let catalog = Catalog::new(0);
    let (mut sequencer, shared) = sequencer(&catalog);
    sequencer.take(piece(0));
    assert!(sequencer.next(&shared).unwrap().decoded.stop.is_none());
    sequencer.take(piece(2));
    sequencer.take(piece(2));
    sequencer.take(piece(1));
    let stopped = sequencer.next(&shared).unwrap();
    assert_eq!(stopped.first, SequenceNumber(5));
    assert_defect(stopped.decoded.stop, "piece 2 was decoded twice");
    assert!(sequencer.next(&shared).is_none());

    let (mut sequencer, shared) = self::sequencer(&catalog);
    for number in [0, 0] {
        sequencer.take(piece(number));
        if number == 0 && sequencer.coming().is_some() {
            assert!(sequencer.next(&shared).unwrap().decoded.stop.is_none());
        }
    }
    sequencer.take(piece(1));
    assert_defect(sequencer.next(&shared).unwrap().decoded.stop, "piece 0 was decoded twice");
}

#[test]
fn a_copied_table_takes_its_place_under_a_reserved_id() {
    let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
    let catalog = Catalog::new(0).apply(&context, b"CREATE TABLE t (i INT)").unwrap().catalog;
    let (mut sequencer, shared) = sequencer(&catalog);
    let old = Arc::clone(catalog.table("d", "t").unwrap());
    let id = sequencer.reserve_table_id().unwrap();
    let copied = |id| Arc::new(TableDef { id, ..TableDef::clone(&old) });
    let good = sequencer.switch_table(&copied(id), piece(0), &shared);
    assert!(good.decoded.stop.is_none());
    assert_eq!(good.dropped, [(SequenceNumber(5), old.id)]);
    for planted in [id, TableId(9)] {
        let broken = sequencer.switch_table(&copied(planted), piece(0), &shared);
        assert!(broken.catalogs.is_empty() && broken.dropped.is_empty());
        assert_defect(broken.decoded.stop, &format!("id {planted} of the copied table `d`.`t` is not a reserved one"));
        assert!(sequencer.catalog().table("d", "t").is_some_and(|table| table.id == id));
    }
}
