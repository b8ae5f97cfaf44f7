//! Large transactions are cut into slices.

use std::sync::Arc;

use base::Uuid;
use base::limits::{LARGE_SLICE_BYTES, TRANSACTION_SLICE_BYTES};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, RowsKind};
use decode::{MemoryGate, Splitter};
use testkit::log::{Author, INT, Table};

const EVENT_BYTES: usize = 8192;

/// Returns the lengths of the pieces of a transaction of about this many bytes, and whether each is unfinished.
fn pieces(bytes: usize, says_its_length: bool) -> Vec<(usize, bool)> {
    let mut author = Author::at(Uuid([4; 16]), ChecksumAlgorithm::None, 4);
    let table = Table::new(9, "t", &[INT]);
    let write = |writer: &mut BinlogWriter| {
        writer.statement(b"d", b"BEGIN");
        table.map(writer);
        for _ in 0..bytes / EVENT_BYTES {
            table.rows_of(writer, RowsKind::Write, [&[], &[true]], 0, &[0; EVENT_BYTES]);
        }
        writer.xid(1);
    };
    let gtid = author.gtid();
    if says_its_length {
        author.writer.transaction(&gtid, write);
    } else {
        author.writer.gtid(&gtid);
        write(&mut author.writer);
    }
    let (mut found, mut splitter) = (Vec::new(), Splitter::new(MemoryGate::new(1 << 30)));
    let whole = author.writer.take();
    let mut offset = 4;
    for chunk in whole.chunks(300_000) {
        let data = Arc::new(chunk.to_vec().into());
        let emit = &mut |piece: decode::Piece| {
            found.push((piece.end - piece.start, piece.unfinished));
            true
        };
        splitter.step(&Arc::from("f"), offset, &data, true, emit).unwrap();
        offset += chunk.len() as u64;
    }
    splitter.end_of_file().unwrap();
    assert_eq!(found.iter().map(|(len, _)| len).sum::<usize>(), whole.len());
    found
}

#[test]
fn one_that_says_that_it_is_large_is_cut_small_from_its_first_slice_on() {
    let found = pieces(TRANSACTION_SLICE_BYTES + (2 << 20), true);
    let (last, slices) = found.split_last().unwrap();
    assert!(!last.1 && slices.len() >= 17, "{found:?}");
    let size = LARGE_SLICE_BYTES..LARGE_SLICE_BYTES + 2 * EVENT_BYTES;
    assert!(slices.iter().all(|(len, unfinished)| *unfinished && size.contains(len)), "{found:?}");
}

#[test]
fn others_are_whole_up_to_the_size_of_a_slice() {
    assert_eq!(pieces(TRANSACTION_SLICE_BYTES / 2, true).len(), 1);
    let found = pieces(TRANSACTION_SLICE_BYTES + (2 << 20), false);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].0 >= TRANSACTION_SLICE_BYTES && found[0].1 && !found[1].1);
}
