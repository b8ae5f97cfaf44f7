//! What the writer writes the reader reads, and so does MySQL's own `mysqlbinlog`.

use binlog::reader::BinlogFile;
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, ParsedEvent, QueryKind, event_type};
use testkit::log;

#[test]
fn lengths_positions_and_values() {
    for checksum in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::None] {
        let log = log::sample_log(checksum);
        let mut file = BinlogFile::new("own", &log[..]).unwrap();
        assert_eq!(file.format(), &FormatDescription::new("9.7.4", checksum));
        let mut transaction = None;
        let mut checked = 0;
        let mut kinds = Vec::new();
        while let Some(event) = file.next_event().unwrap() {
            assert_eq!(u64::from(event.header.log_pos), event.end_offset());
            assert_eq!(event.header.server_id, 42);
            let ends_here = |(start, length): (u64, u64)| assert_eq!(start + length, event.offset);
            match ParsedEvent::parse(&event.header, event.body().unwrap()).unwrap() {
                ParsedEvent::Gtid(gtid) => {
                    if let Some(previous) = transaction.replace((event.offset, gtid.transaction_length.unwrap())) {
                        ends_here(previous);
                        checked += 1;
                    }
                }
                ParsedEvent::Rotate(rotate) => {
                    assert_eq!(rotate.file, b"binlog.000002");
                    ends_here(transaction.unwrap());
                }
                ParsedEvent::Query(query) => kinds.push(QueryKind::of(query.sql)),
                ParsedEvent::TableMap(map) => assert_eq!(map, log::item()),
                _ => {}
            }
        }
        assert_eq!(checked, 6);
        use QueryKind::*;
        assert_eq!(kinds, [Other, Begin, Begin, XaStart, XaEnd, XaCommit, Other]);
    }
}

#[test]
fn transaction_length_at_every_width() {
    // The length counts itself: look at both sides of each step of its encoding.
    for size in [1, 100, 150, 200, 65_300, 65_400, 65_450, 65_500, 1 << 24] {
        let mut writer = BinlogWriter::new(1, ChecksumAlgorithm::Crc32, 4);
        let sql = vec![b'x'; size];
        writer.transaction(&GtidEvent::new(log::gtid(b"", 1), 0, 1), |w| {
            w.query(&binlog::QueryEvent { sql: &sql, ..log::ddl(b"") });
        });
        let bytes = writer.take();
        let body = binlog::EventHeader::parse(&bytes).unwrap().event_len as usize;
        let body = binlog::event_body(&bytes[..body], ChecksumAlgorithm::Crc32).unwrap();
        let gtid = GtidEvent::parse(event_type::GTID, body).unwrap();
        assert_eq!(gtid.transaction_length, Some(bytes.len() as u64));
        assert_eq!(writer.position(), 4 + bytes.len() as u64);
    }
}

#[test]
fn a_new_format_description_changes_the_checksum() {
    let mut writer = BinlogWriter::start_file(1, 0, &FormatDescription::new("8.0.40", ChecksumAlgorithm::Crc32));
    writer.xid(1);
    writer.format_description(&FormatDescription::new("9.7.4", ChecksumAlgorithm::None), 0);
    writer.xid(2);
    writer.format_description(&FormatDescription::new("5.5.60", ChecksumAlgorithm::None), 0);
    writer.xid(3);
    let log = writer.take();
    let mut file = BinlogFile::new("relay", &log[..]).unwrap();
    let mut xids = Vec::new();
    while let Some(event) = file.next_event().unwrap() {
        if event.header.event_type == event_type::XID {
            xids.push((binlog::Xid::parse(event.body().unwrap()).unwrap().xid, event.checksum));
        }
    }
    use ChecksumAlgorithm::*;
    assert_eq!(xids, [(1, Crc32), (2, None), (3, None)]);
    assert_eq!(file.format().server_version, "5.5.60");
}

#[test]
fn mysqlbinlog_reads_what_we_write() {
    if !testkit::servers() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for checksum in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::None] {
        let path = folder.path().join("binlog.000001");
        std::fs::write(&path, log::sample_log(checksum)).unwrap();
        let testkit::Ran { code, out: text, err: errors } =
            testkit::server::mysqlbinlog(&["--verify-binlog-checksum", "-vv"], &path);
        assert_eq!(code, 0, "{errors}\n{text}");
        assert!(!errors.contains("ERROR") && !text.contains("ERROR"), "{errors}\n{text}");
        for expected in [
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-4",
            "GTID_NEXT= '3e11fa47-71ca-11e1-9e33-c80aa9429562:tag_1:1'",
            "GTID_NEXT= 'ANONYMOUS'",
            "CREATE TABLE item",
            "INSERT INTO `shop`.`item`",
            "UPDATE `shop`.`item`",
            "DELETE FROM `shop`.`item`",
            "original_server_version=80040",
            "XA PREPARE X'78',X'',1",
            "XA COMMIT X'78',X'',1",
            "Transaction_Payload",
            "Rotate to binlog.000002  pos: 4",
        ] {
            assert!(text.contains(expected), "no {expected:?} in\n{text}");
        }
        if checksum == ChecksumAlgorithm::Crc32 {
            assert!(text.contains("CRC32 0x"));
        }
    }
}
