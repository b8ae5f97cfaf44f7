use binlog::writer::BinlogWriter;
use binlog::{FormatDescription, GtidEvent};
use proptest::prelude::*;

use super::*;

/// A file with these events after its head; returns where each begins that has a position of its own.
fn file(dir: &tempfile::TempDir, events: impl FnOnce(&mut BinlogWriter)) -> (ListedFile, Vec<u64>) {
    let mut writer = BinlogWriter::new(7, ChecksumAlgorithm::Crc32, FIRST);
    writer.format_description(&FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32), 0);
    let mut at = FIRST + writer.bytes().len() as u64;
    events(&mut writer);
    let bytes = [b"\xfebin", writer.take().as_slice()].concat();
    let mut places = Vec::new();
    while let Some(header) = bytes.get(to_usize(at)..).and_then(|rest| EventHeader::parse(rest).ok()) {
        places.push(at);
        at += u64::from(header.event_len);
    }
    let path = dir.path().join("relay-bin.000001");
    std::fs::write(&path, &bytes).unwrap();
    (ListedFile { name: "relay-bin.000001".into(), path, bytes: bytes.len() as u64 }, places)
}

fn all(list: &mut EventList) -> Result<Vec<String>, ListError> {
    let mut lines = Vec::new();
    loop {
        match list.step()? {
            ListStep::Event(event) => {
                lines.push(format!("{} {} {} {}", event.position, event.event_type, event.server_id, event.info));
            }
            ListStep::Passed => {}
            ListStep::End => return Ok(lines),
        }
    }
}

fn open(file: &ListedFile, from: u64) -> EventList {
    EventList::open(file, from, 1 << 20).unwrap()
}

#[test]
fn the_list_begins_at_an_event_or_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let (file, places) = file(&dir, |writer| [1, 2, 3].iter().for_each(|xid| writer.xid(*xid)));
    let whole = all(&mut open(&file, 0)).unwrap();
    assert_eq!(whole.len(), 4, "{whole:?}");
    assert_eq!(whole[0], "4 Format_desc 7 Server ver: 9.7.4, Binlog ver: 4");
    assert_eq!(whole[2], format!("{} Xid 7 COMMIT /* xid=2 */", places[1]));
    assert_eq!(all(&mut open(&file, places[1])).unwrap(), whole[2..]);
    assert_eq!(all(&mut open(&file, places[1] + 1)).unwrap(), whole[3..]);
    assert!(all(&mut open(&file, u64::MAX)).unwrap().is_empty());
    // An event that was received in part is none.
    for less in 1..30 {
        let part = ListedFile { bytes: file.bytes - less, ..file.clone() };
        assert_eq!(all(&mut open(&part, 0)).unwrap(), whole[..3], "{less} bytes less");
    }
}

#[test]
fn events_of_a_compressed_transaction_stand_at_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = file(&dir, |writer| {
        let commits = |inner: &mut BinlogWriter| (1..=40_000).for_each(|xid| inner.xid(xid));
        writer.compressed_transaction(&GtidEvent::new(None, 0, 1), commits).unwrap();
        writer.xid(0);
    });
    let lines = all(&mut open(&file, 0)).unwrap();
    assert_eq!(lines.len(), 2 + 1 + 40_000 + 1);
    assert!(
        lines[2].ends_with("Transaction_payload 7 compression='ZSTD', decompressed_size=1080000 bytes"),
        "{}",
        lines[2]
    );
    let end = lines[40_003].split(' ').next().unwrap();
    assert_eq!(lines[3], format!("{end} Xid 7 COMMIT /* xid=1 */"));
    assert_eq!(lines[40_002], format!("{end} Xid 7 COMMIT /* xid=40000 */"));
}

#[test]
fn a_large_event_is_refused_unless_its_head_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let long = vec![b'x'; 100_000];
    let rows = |writer: &mut BinlogWriter| writer.event(event_type::WRITE_ROWS, 0, |out| out.extend(&long));
    let (listed, _) = file(&dir, rows);
    let mut list = EventList::open(&listed, 0, 50_000).unwrap();
    assert_eq!(all(&mut list).unwrap().len(), 2);
    assert!(list.window.capacity() <= 2 * READ_BYTES, "{}", list.window.capacity());
    let query = |writer: &mut BinlogWriter| writer.rows_query(&long);
    let (listed, places) = file(&dir, query);
    let error = all(&mut EventList::open(&listed, 0, 50_000).unwrap()).unwrap_err();
    assert!(matches!(error, ListError::TooLarge { position, bytes } if position == places[0] && bytes > 100_000));
    let (listed, _) = file(&dir, |writer| {
        writer.compressed_transaction(&GtidEvent::new(None, 0, 1), |inner| inner.rows_query(&long)).unwrap();
    });
    let error = all(&mut EventList::open(&listed, 0, 50_000).unwrap()).unwrap_err();
    assert!(matches!(error, ListError::TooLarge { .. }), "{error}");
}

#[test]
fn secrets_are_masked() {
    let dir = tempfile::tempdir().unwrap();
    let (file, _) = file(&dir, |writer| {
        writer.statement(b"d", b"CREATE USER u IDENTIFIED BY 'geheim'");
        writer.rows_query(b"insert into accounts(password) values ('geheim')");
    });
    let text = all(&mut open(&file, 0)).unwrap().concat();
    assert!(text.contains("IDENTIFIED BY '***'") && !text.contains("geheim"), "{text}");
}

proptest! {
    #[test]
    fn damaged_files_end_in_an_error_or_early(at in 4usize..2_000, with: u8, cut in 0u64..500) {
        let dir = tempfile::tempdir().unwrap();
        let (file, _) = file(&dir, |writer| {
            writer.statement(b"d", b"create table t (a int)");
            writer.compressed_transaction(&GtidEvent::new(None, 0, 1), |inner| inner.xid(1)).unwrap();
            writer.rows_query(b"insert into t values (1)");
            writer.event(event_type::WRITE_ROWS, 0, |out| out.extend([7; 40]));
        });
        let mut bytes = std::fs::read(&file.path).unwrap();
        let at = at % bytes.len();
        bytes[at] ^= with;
        std::fs::write(&file.path, &bytes[..bytes.len().saturating_sub(to_usize(cut)).max(5)]).unwrap();
        let mut list = open(&file, 0);
        let mut steps = 0;
        while let Ok(ListStep::Event(_) | ListStep::Passed) = list.step() {
            steps += 1;
            prop_assert!(steps < 100);
        }
    }
}
