//! Boundary tests with every shape of transaction in a log.

use base::{Gtid, Tag};
use binlog::writer::BinlogWriter;
use binlog::{FormatDescription, GtidEvent, XaPrepare, XaXid, event_type, flags};
use relay_log::boundary::{BoundaryError, BoundaryTracker, StepKind};

use crate::common::*;

/// One letter per event: `B`egin, body `.`, end `E`, begin and end in one event `X`, control `c`.
fn letters(bytes: &[u8], tracker: &mut BoundaryTracker) -> Result<String, BoundaryError> {
    let mut rest = bytes;
    let mut text = String::new();
    while !rest.is_empty() {
        let len = binlog::EventHeader::parse(rest).unwrap().event_len as usize;
        let step = tracker.step(&rest[..len])?;
        assert_eq!(tracker.in_transaction(), step.kind != StepKind::Control && !step.transaction_ends);
        text.push(match (step.kind, step.transaction_ends) {
            (StepKind::Control, false) => 'c',
            (StepKind::Begin, false) => 'B',
            (StepKind::Body, false) => '.',
            (StepKind::Body, true) => 'E',
            (StepKind::Begin, true) => 'X',
            (StepKind::Control, true) => unreachable!(),
        });
        rest = &rest[len..];
    }
    Ok(text)
}

fn shape(write: impl Fn(&mut BinlogWriter)) -> String {
    let mut shapes = [CRC, NONE].map(|checksum| {
        let mut writer = BinlogWriter::new(1, checksum, 4);
        write(&mut writer);
        letters(&writer.take(), &mut BoundaryTracker::new(checksum)).unwrap()
    });
    assert_eq!(shapes[0], shapes[1]);
    std::mem::take(&mut shapes[0])
}

fn begin(writer: &mut BinlogWriter) {
    writer.gtid(&GtidEvent::new(Some(gtid(5)), 0, 1));
}

fn raw(writer: &mut BinlogWriter, event_type: u8) {
    writer.event(event_type, 0, |out| out.extend([0; 30]));
}

#[test]
fn transactions_of_every_shape() {
    let plain = |end: &'static dyn Fn(&mut BinlogWriter)| {
        shape(|w| {
            begin(w);
            w.statement(b"d", b"BEGIN");
            raw(w, event_type::ROWS_QUERY);
            raw(w, event_type::TABLE_MAP);
            raw(w, event_type::WRITE_ROWS);
            end(w);
        })
    };
    assert_eq!(plain(&|w| w.xid(9)), "B....E");
    assert_eq!(plain(&|w| w.statement(b"d", b"COMMIT")), "B....E");
    assert_eq!(plain(&|w| w.statement(b"d", b"ROLLBACK")), "B....E");
    let savepoints = plain(&|w| {
        w.statement(b"d", b"SAVEPOINT `a`");
        raw(w, event_type::UPDATE_ROWS);
        w.statement(b"d", b"ROLLBACK TO `a`");
        w.statement(b"d", b"INSERT INTO t VALUES (1)");
        w.xid(9);
    });
    assert_eq!(savepoints, "B........E");
    let ddl = shape(|w| {
        begin(w);
        w.statement(b"d", b"CREATE TABLE t (a INT)");
    });
    assert_eq!(ddl, "BE");
    let create_select = shape(|w| {
        begin(w);
        w.statement(b"d", b"BEGIN");
        w.statement(b"d", b"CREATE TABLE t (a INT) START TRANSACTION");
        raw(w, event_type::TABLE_MAP);
        raw(w, event_type::WRITE_ROWS);
        w.xid(9);
    });
    assert_eq!(create_select, "B....E");
    let statement_with_variables = shape(|w| {
        begin(w);
        raw(w, event_type::INTVAR);
        raw(w, event_type::USER_VAR);
        w.statement(b"d", b"INSERT INTO t VALUES (1)");
    });
    assert_eq!(statement_with_variables, "B..E");
    assert_eq!(shape(|w| w.compressed_transaction(&GtidEvent::new(None, 0, 1), |w| w.xid(1)).unwrap()), "BE");
    let tagged = shape(|w| {
        let gtid = Gtid { tag: Tag::new(b"blue").unwrap(), ..gtid(3) };
        w.transaction(&GtidEvent::new(Some(gtid), 0, 1), |w| w.statement(b"", b"DROP DATABASE x"));
    });
    assert_eq!(tagged, "BE");
    let incident = shape(|w| {
        begin(w);
        w.incident(1, b"lost");
    });
    assert_eq!(incident, "BE");
    let old = shape(|w| {
        w.statement(b"d", b"BEGIN");
        raw(w, event_type::WRITE_ROWS);
        w.xid(1);
        w.statement(b"d", b"DROP TABLE t");
    });
    assert_eq!(old, "B.EX");
}

#[test]
fn xa_transactions() {
    let xid = || XaXid::new(1, b"x", b"").unwrap();
    let prepared = shape(|w| {
        begin(w);
        w.statement(b"d", b"XA START X'78',X'',1");
        raw(w, event_type::WRITE_ROWS);
        w.statement(b"d", b"XA END X'78',X'',1");
        w.xa_prepare(&XaPrepare { one_phase: false, xid: xid() });
        begin(w);
        w.statement(b"d", b"XA COMMIT X'78',X'',1");
        begin(w);
        w.statement(b"d", b"XA ROLLBACK X'78',X'',1");
    });
    assert_eq!(prepared, "B...EBEBE");
}

/// As members of a group log them (8.0).
#[test]
fn a_view_is_a_transaction_and_its_context_comes_before_it() {
    let view = shape(|w| {
        raw(w, event_type::TRANSACTION_CONTEXT);
        begin(w);
        w.statement(b"", b"BEGIN");
        raw(w, event_type::VIEW_CHANGE);
        w.statement(b"", b"COMMIT");
    });
    assert_eq!(view, "cB..E");
}

#[test]
fn control_events_between_transactions() {
    let mut source = Source::new(CRC);
    let (rotate, fde) = source.headers();
    let mut tracker = BoundaryTracker::new(CRC);
    let mut bytes = rotate.clone();
    bytes.extend(&fde);
    let mut writer = BinlogWriter::new(1, CRC, 4);
    writer.previous_gtids(&gtids(3));
    writer.event(event_type::HEARTBEAT, 0, |_| {});
    writer.event(200, flags::IGNORABLE, |_| {});
    raw(&mut writer, event_type::TRANSACTION_CONTEXT);
    writer.stop();
    bytes.extend(writer.take());
    bytes.extend(source.transaction(10));
    assert_eq!(letters(&bytes, &mut tracker).unwrap(), "cccccccB..E");
    assert_eq!(tracker.gtid(), Some(gtid(1)));
}

#[test]
fn a_format_description_changes_how_events_end() {
    let mut tracker = BoundaryTracker::new(CRC);
    let mut writer = BinlogWriter::new(1, CRC, 4);
    writer.format_description(&FormatDescription::new("8.0.40", NONE), 0);
    writer.statement(b"d", b"BEGIN");
    writer.statement(b"d", b"COMMIT");
    assert_eq!(letters(&writer.take(), &mut tracker).unwrap(), "cBE");
    assert_eq!(tracker.checksum(), NONE);
}

#[test]
fn what_cannot_stand_there_is_refused() {
    let mut source = Source::new(CRC);
    let (rotate, fde) = source.headers();
    let next = source.transaction(10);
    for intruder in [rotate, fde, next] {
        let mut writer = BinlogWriter::new(1, CRC, 4);
        begin(&mut writer);
        let mut bytes = writer.take();
        bytes.extend(intruder);
        let mut tracker = BoundaryTracker::new(CRC);
        let error = letters(&bytes, &mut tracker).unwrap_err();
        assert!(matches!(error, BoundaryError::InsideTransaction { .. }), "{error}");
        assert!(error.to_string().contains(&gtid(5).to_string()), "{error}");
        tracker.reset();
        assert!(!tracker.in_transaction());
    }
    let mut writer = BinlogWriter::new(1, CRC, 4);
    writer.event(162, 0, |_| {});
    let error = letters(&writer.take(), &mut BoundaryTracker::new(CRC)).unwrap_err();
    assert!(matches!(error, BoundaryError::NotSupported(_)), "{error}");
}

#[test]
fn no_cut_off_or_flipped_event_panics() {
    let mut writer = BinlogWriter::new(1, CRC, 4);
    begin(&mut writer);
    writer.statement(b"d", b"BEGIN");
    writer.xid(4);
    let bytes = writer.take();
    for at in 0..bytes.len() {
        for flip in [1u8, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let mut tracker = BoundaryTracker::new(CRC);
            let mut rest = &damaged[..];
            while let Ok(header) = binlog::EventHeader::parse(rest) {
                let len = (header.event_len as usize).min(rest.len());
                if tracker.step(&rest[..len]).is_err() {
                    break;
                }
                rest = &rest[len..];
            }
        }
        let _ = BoundaryTracker::new(NONE).step(&bytes[..at]);
    }
}

#[test]
fn recorded_logs_end_between_transactions() {
    let (mut whole, mut transactions) = (0, 0);
    for path in testkit::log::recorded_logs() {
        let Ok(mut file) = binlog::reader::BinlogFile::open(&path) else { continue };
        let mut tracker = BoundaryTracker::new(file.format().checksum);
        let result = loop {
            match file.next_event() {
                Ok(Some(event)) => match tracker.step(event.bytes) {
                    Ok(step) => transactions += u64::from(step.transaction_ends),
                    Err(e) => break Err(format!("{} at {}", e, event.offset)),
                },
                Ok(None) => break Ok(tracker.in_transaction()),
                Err(e) => break Err(e.to_string()),
            }
        };
        println!("{}: {result:?}", path.file_name().unwrap().display());
        whole += u64::from(result == Ok(false));
    }
    assert!(whole > 10 && transactions > 100, "{whole} {transactions}");
}
