//! Broken rewrites of a table: replay stops before the statement, and none of its rows is lost or mixed.

use decode::StopClass;

use super::*;
use crate::transactions::lost_op_tests::{Grain, Replay, author, in_memory};
use testkit::log::{INT, inserts, int};

/// Number of the statement that rewrites the table.
const REWRITES: u64 = 4;

/// Replays up to the statement, which waits to be carried out.
fn waiting() -> Replay {
    let mut author = author();
    author.sql("CREATE DATABASE d");
    author.table("t", &[INT; 2], "id INT PRIMARY KEY, v INT");
    author.rows(&[inserts("t", (0..9).map(|id| vec![int(id), int(id)]))]);
    assert_eq!(author.sql("ALTER TABLE t MODIFY id BIGINT"), REWRITES);
    let mut replay = in_memory(Grain::Lanes);
    replay.run_log(author.writer.take(), |_| {});
    assert!(replay.publisher.failure().is_none() && replay.stage.rewrite_waits());
    replay
}

/// Carries the rewrite out; false if replay ends with it.
fn carry_out(replay: &mut Replay) -> bool {
    let mut flights = Vec::new();
    let goes_on = replay.stage.rewrite(&|| false, &mut |flight| flights.push(Arc::clone(flight)));
    flights.into_iter().for_each(|flight| replay.apply(flight));
    goes_on
}

fn assert_defect(replay: &Replay, what: &str) {
    let stop = replay.publisher.failure().unwrap();
    assert_eq!(stop.class, StopClass::Defect, "{stop}");
    assert_eq!(stop.gtid, Some(author().gtid_of(REWRITES)), "{stop}");
    assert!(stop.position.offset > 4 && stop.reason.contains(what), "{stop}");
    assert_eq!(replay.visible(), REWRITES - 1);
    let catalog = replay.store.visibility().current().catalog;
    assert_eq!(catalog.table("d", "t").map(|table| table.id), Some(TableId(1)), "the table of before is there");
}

#[test]
fn a_rewrite_that_is_not_broken_is_carried_out() {
    let mut replay = waiting();
    assert!(carry_out(&mut replay));
    assert!(replay.publisher.failure().is_none());
    assert_eq!(replay.visible(), REWRITES);
}

#[test]
fn a_broken_rewrite_stops_replay_before_its_statement() {
    type Plant = fn(&mut catalog::Rewrite);
    let plants: [(Plant, &str); 4] = [
        (|rewrite| drop(rewrite.sources.pop()), "1 sources for 2 columns out of 2 in the rewrite of `d`.`t`"),
        (|rewrite| rewrite.sources[1] = catalog::ColumnSource::Kept(2), "2 sources for 2 columns out of 2"),
        (
            |rewrite| rewrite.to = Arc::clone(&rewrite.from),
            "the rewrite of `d`.`t` keeps its id 1, and so its old rows",
        ),
        (
            |rewrite| rewrite.from = Arc::new(TableDef { id: TableId(9), ..TableDef::clone(&rewrite.from) }),
            "a rewrite of `d`.`t`, id 9, which is not the table before the statement",
        ),
    ];
    for (plant, what) in plants {
        let mut replay = waiting();
        plant(&mut replay.stage.rewriting.as_mut().unwrap().0.rewrites[0]);
        assert!(!carry_out(&mut replay), "{what}");
        assert_defect(&replay, what);
    }
}

#[test]
fn a_rewrite_is_not_passed_over() {
    let mut replay = waiting();
    let (piece, _) = replay.stage.rewriting.take().unwrap();
    let flight = replay.stage.hand_on(piece);
    replay.apply(flight);
    assert_defect(&replay, "a piece is handed on before the rewrite of `d`.`t`");
}
