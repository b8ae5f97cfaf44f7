//! `mysql_common` reads the same bytes and must see the same: in recorded logs, in our own, and in random events.

use binlog::reader::BinlogFile;
use binlog::writer::BinlogWriter;
use binlog::{
    ChecksumAlgorithm, FormatDescription, GtidEvent, IntvarKind, ParsedEvent, QueryEvent, RowsEvent, RowsKind,
    TableMapEvent,
};
use mysql_common::binlog::consts::BinlogVersion;
use mysql_common::binlog::events::{self, EventData, OptionalMetaExtractor, RowsEventData};
use mysql_common::binlog::{BinlogFile as OracleFile, EventStreamReader};
use proptest::prelude::*;
use testkit::log;

/// Walks a log with both readers; gives how many events were compared.
fn compare_log(name: &str, bytes: &[u8]) -> usize {
    let mut ours = BinlogFile::new(name, bytes).unwrap();
    let mut theirs = OracleFile::new(BinlogVersion::Version4, bytes).unwrap();
    let mut compared = 0;
    while let Some(event) = ours.next_event().unwrap() {
        let oracle = theirs.next().unwrap().unwrap();
        let header = oracle.header();
        assert_eq!(event.header.event_type, header.event_type_raw(), "{name}:{}", event.offset);
        assert_eq!(event.header.timestamp, header.timestamp());
        assert_eq!(event.header.server_id, header.server_id());
        assert_eq!(event.header.event_len, header.event_size());
        assert_eq!(event.header.log_pos, header.log_pos());
        assert_eq!(event.header.flags, header.flags_raw());
        let parsed = ParsedEvent::parse(&event.header, event.body().unwrap()).unwrap();
        compared += compare(&parsed, &oracle.read_data().unwrap().unwrap(), name);
        if let (ParsedEvent::TransactionPayload(payload), Ok(Some(EventData::TransactionPayloadEvent(other)))) =
            (&parsed, oracle.read_data())
        {
            let mut unpacked = Vec::new();
            payload.decompress_into(&mut unpacked, 1 << 24).unwrap();
            assert_eq!(unpacked, other.clone().danger_decompress());
            compared += compare_payload(payload, &other, theirs.reader_mut(), name);
        }
    }
    assert!(theirs.next().is_none());
    compared
}

fn compare_payload(
    payload: &binlog::TransactionPayload<'_>,
    other: &events::TransactionPayloadEvent<'_>,
    reader: &mut EventStreamReader,
    name: &str,
) -> usize {
    let mut events = payload.events(1 << 24).unwrap();
    let mut theirs = other.decompressed().unwrap();
    let mut compared = 0;
    while let Some((header, bytes)) = events.next().unwrap() {
        let oracle = reader.read_decompressed(&mut theirs).unwrap().unwrap();
        let body = binlog::event_body(bytes, ChecksumAlgorithm::None).unwrap();
        let parsed = ParsedEvent::parse(&header, body).unwrap();
        compared += compare(&parsed, &oracle.read_data().unwrap().unwrap(), name);
    }
    compared
}

fn compare(ours: &ParsedEvent<'_>, theirs: &EventData<'_>, name: &str) -> usize {
    match (ours, theirs) {
        (ParsedEvent::Query(ours), EventData::QueryEvent(theirs)) => compare_query(ours, theirs),
        (ParsedEvent::Gtid(ours), EventData::GtidEvent(theirs)) => compare_gtid(ours, theirs),
        (ParsedEvent::Gtid(ours), EventData::AnonymousGtidEvent(theirs)) => {
            assert_eq!(ours.gtid, None);
            compare_gtid(ours, &theirs.0);
        }
        (ParsedEvent::Rotate(ours), EventData::RotateEvent(theirs)) => {
            assert_eq!((ours.position, ours.file), (theirs.position(), theirs.name_raw()));
        }
        (ParsedEvent::Intvar(ours), EventData::IntvarEvent(theirs)) => {
            assert_eq!(ours.value, theirs.value());
            assert_eq!(if ours.kind == IntvarKind::LastInsertId { 1 } else { 2 }, theirs.subtype() as u8);
        }
        (ParsedEvent::UserVar(ours), EventData::UserVarEvent(theirs)) => {
            assert_eq!((ours.name, ours.value.is_none()), (theirs.name_raw(), theirs.is_null()));
            if let Some(value) = &ours.value {
                assert_eq!((value.bytes, value.collation), (theirs.value(), theirs.charset()));
            }
        }
        (ParsedEvent::Xid(ours), EventData::XidEvent(theirs)) => assert_eq!(ours.xid, theirs.xid),
        (ParsedEvent::TableMap(ours), EventData::TableMapEvent(theirs)) => compare_table_map(ours, theirs, name),
        (ParsedEvent::Rows(ours), EventData::RowsEvent(theirs)) => compare_rows(ours, theirs),
        (ParsedEvent::RowsQuery(ours), EventData::RowsQueryEvent(theirs)) => assert_eq!(ours.sql, theirs.query_raw()),
        (ParsedEvent::Incident(ours), EventData::IncidentEvent(theirs)) => {
            assert_eq!(ours.message, theirs.message_raw());
        }
        (ParsedEvent::PreviousGtids(ours), EventData::PreviousGtidsEvent(theirs)) => {
            let mut total = 0;
            for sid in theirs.sids() {
                for interval in sid.intervals() {
                    total += interval.end() - interval.start();
                    let tag =
                        sid.tag().map_or(base::Tag::EMPTY, |tag| base::Tag::new(tag.as_str().as_bytes()).unwrap());
                    for gno in [interval.start(), interval.end() - 1] {
                        assert!(ours.set.contains(&base::Gtid { uuid: base::Uuid(sid.uuid()), tag, gno }));
                    }
                }
            }
            assert_eq!(ours.set.count(), total);
        }
        (ParsedEvent::TransactionPayload(ours), EventData::TransactionPayloadEvent(theirs)) => {
            assert_eq!(ours.payload, theirs.payload_raw());
            assert_eq!(ours.uncompressed_size, Some(theirs.uncompressed_size()));
        }
        _ => return 0,
    }
    1
}

fn compare_gtid(ours: &GtidEvent, theirs: &events::GtidEvent) {
    let gtid =
        ours.gtid.map_or(([0; 16], 0, String::new()), |gtid| (gtid.uuid.0, gtid.gno, gtid.tag.as_str().to_owned()));
    let tag = theirs.tag().map_or(String::new(), |tag| tag.as_str().to_owned());
    assert_eq!(gtid, (theirs.sid(), theirs.gno(), tag));
    assert_eq!(ours.flags, theirs.flags_raw());
    assert_eq!(ours.last_committed as u64, theirs.last_committed());
    assert_eq!(ours.sequence_number as u64, theirs.sequence_number());
    assert_eq!(ours.immediate_commit_timestamp_us, theirs.immediate_commit_timestamp());
    assert_eq!(ours.original_commit_timestamp_us, theirs.original_commit_timestamp());
    assert_eq!(ours.transaction_length.unwrap_or(0), theirs.tx_length());
    if let (Some(immediate), Some(original)) = (ours.immediate_server_version, ours.original_server_version) {
        assert_eq!((immediate, original), (theirs.immediate_server_version(), theirs.original_server_version()));
    }
    if let Some(ticket) = ours.commit_group_ticket {
        assert_eq!(ticket, theirs.commit_group_ticket());
    }
}

fn compare_query(ours: &QueryEvent<'_>, theirs: &events::QueryEvent<'_>) {
    use mysql_common::binlog::events::StatusVarVal;
    assert_eq!((ours.sql, ours.db), (theirs.query_raw(), theirs.schema_raw()));
    assert_eq!(
        (ours.thread_id, ours.exec_time, ours.error_code),
        (theirs.thread_id(), theirs.execution_time(), theirs.error_code())
    );
    let status = &ours.status;
    for variable in theirs.status_vars().iter() {
        match variable.get_value() {
            Ok(StatusVarVal::Flags2(flags)) => assert_eq!(status.flags2, Some(flags.0)),
            Ok(StatusVarVal::SqlMode(mode)) => assert_eq!(status.sql_mode, Some(mode.0)),
            Ok(StatusVarVal::AutoIncrement { increment, offset }) => {
                assert_eq!(status.auto_increment.map(|auto| (auto.increment, auto.offset)), Some((increment, offset)));
            }
            Ok(StatusVarVal::Charset { charset_client, collation_connection, collation_server }) => {
                assert_eq!(status.charset_client, Some(charset_client));
                assert_eq!(status.collation_connection, Some(collation_connection));
                assert_eq!(status.collation_server, Some(collation_server));
            }
            Ok(StatusVarVal::TimeZone(zone)) => assert_eq!(status.time_zone, Some(zone.as_bytes())),
            Ok(StatusVarVal::CatalogNz(catalog)) => assert_eq!(status.catalog, Some(catalog.as_bytes())),
            Ok(StatusVarVal::LcTimeNames(names)) => assert_eq!(status.lc_time_names, Some(names)),
            Ok(StatusVarVal::CharsetDatabase(id)) => assert_eq!(status.charset_database, Some(id)),
            Ok(StatusVarVal::TableMapForUpdate(map)) => assert_eq!(status.table_map_for_update, Some(map)),
            Ok(StatusVarVal::Invoker { username, hostname }) => {
                let invoker = status.invoker.unwrap();
                assert_eq!((invoker.user, invoker.host), (username.as_bytes(), hostname.as_bytes()));
            }
            Ok(StatusVarVal::Microseconds(value)) => assert_eq!(status.microseconds, Some(value)),
            Ok(StatusVarVal::DdlLoggedWithXid(xid)) => assert_eq!(status.ddl_xid, Some(xid)),
            Ok(StatusVarVal::DefaultCollationForUtf8mb4(id)) => {
                assert_eq!(status.default_collation_for_utf8mb4, Some(id));
            }
            Ok(StatusVarVal::SqlRequirePrimaryKey(on)) => {
                assert_eq!(status.sql_require_primary_key, Some(on != 0));
            }
            Ok(StatusVarVal::DefaultTableEncryption(on)) => {
                assert_eq!(status.default_table_encryption, Some(on != 0));
            }
            Ok(StatusVarVal::ExplicitDefaultsForTimestamp(on)) => {
                assert_eq!(status.explicit_defaults_for_timestamp, Some(on));
            }
            _ => {}
        }
    }
}

fn compare_table_map(ours: &TableMapEvent<'_>, theirs: &events::TableMapEvent<'_>, name: &str) {
    assert_eq!(ours.table_id, theirs.table_id());
    assert_eq!((ours.db, ours.table), (theirs.database_name_raw(), theirs.table_name_raw()));
    assert_eq!(ours.column_count() as u64, theirs.columns_count());
    for (index, (code, metadata)) in ours.columns().enumerate() {
        assert_eq!(code, theirs.get_raw_column_type(index).unwrap().unwrap() as u8);
        // Theirs leaves out the real type in front of an array's or string's own metadata.
        let other = theirs.get_column_metadata(index).unwrap();
        assert!(metadata.ends_with(other), "{metadata:?} {other:?}");
        assert_eq!(ours.is_nullable(index), theirs.null_bitmask()[index]);
    }
    // Their reader does not know that VECTOR columns count as character columns.
    if name.contains("vector") {
        return;
    }
    let details = ours.optional_metadata().unwrap().details(ours).unwrap();
    let other = OptionalMetaExtractor::new(theirs.iter_optional_meta()).unwrap();
    let signs: Vec<bool> = details.iter().filter_map(|column| column.unsigned).collect();
    assert_eq!(signs, other.iter_signedness().collect::<Vec<_>>(), "{name}");
    let is_list = |code| matches!(code, 247 | 248);
    let collations: Vec<u16> =
        details.iter().filter(|column| !is_list(column.real_type)).filter_map(|column| column.collation).collect();
    let theirs_collations: Vec<u16> = other.iter_charset().map(Result::unwrap).take(collations.len()).collect();
    assert_eq!(collations, theirs_collations);
    let names: Vec<Vec<u8>> = details.iter().filter_map(|column| column.name.map(<[u8]>::to_vec)).collect();
    let theirs_names: Vec<Vec<u8>> = other.iter_column_name().map(|name| name.unwrap().name_raw().to_vec()).collect();
    assert_eq!(names, theirs_names);
    if let Some(key) = ours.optional_metadata().unwrap().primary_key(ours.column_count()).unwrap() {
        let key: Vec<u64> = key.iter().map(|part| part.column as u64).collect();
        assert_eq!(key, other.iter_primary_key().map(Result::unwrap).collect::<Vec<_>>());
    }
}

fn compare_rows(ours: &RowsEvent<'_>, theirs: &RowsEventData<'_>) {
    assert_eq!(ours.table_id, theirs.table_id());
    assert_eq!(ours.column_count as u64, theirs.num_columns());
    assert_eq!(ours.rows, theirs.rows_data());
    let bits = |bitmap: &[u8]| {
        (0..ours.column_count).map(|index| bitmap[index / 8] >> (index % 8) & 1 != 0).collect::<Vec<bool>>()
    };
    if let Some(other) = theirs.columns_before_image() {
        assert_eq!(bits(ours.before_columns), other.iter().map(|bit| *bit).collect::<Vec<bool>>());
    }
    if let Some(other) = theirs.columns_after_image() {
        assert_eq!(bits(ours.after_columns), other.iter().map(|bit| *bit).collect::<Vec<bool>>());
    }
}

#[test]
fn recorded_logs() {
    let mut compared = 0;
    for log in log::recorded_logs() {
        let name = log.file_stem().unwrap().to_string_lossy();
        let bytes = std::fs::read(&log).unwrap();
        let mut probe = match BinlogFile::new(&name, &bytes[..]) {
            Ok(file) => file,
            Err(_) => continue,
        };
        let mut sound = true;
        loop {
            match probe.next_event() {
                Ok(Some(event)) => sound &= ParsedEvent::parse(&event.header, event.body().unwrap()).is_ok(),
                Ok(None) => break,
                Err(_) => sound = false,
            }
            if !sound {
                break;
            }
        }
        if sound {
            compared += compare_log(&name, &bytes);
        }
    }
    println!("{compared} events compared");
    assert!(compared > 300, "{compared}");
}

#[test]
fn our_own_log() {
    for checksum in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::None] {
        assert!(compare_log("own", &log::sample_log(checksum)) > 100);
    }
}

/// A log with just these events, for both readers.
fn log_with(events: impl FnOnce(&mut BinlogWriter)) -> Vec<u8> {
    let format = FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32);
    let mut writer = BinlogWriter::start_file(1, 2, &format);
    events(&mut writer);
    writer.take()
}

fn any_gtid() -> impl Strategy<Value = GtidEvent> {
    let id = (any::<[u8; 16]>(), proptest::option::of("[a-z_][a-z0-9_]{0,31}"), 1u64..1 << 62);
    let clock = (0i64..i64::MAX, 0i64..i64::MAX, 0u64..1 << 55, 0u64..1 << 55);
    let tail = (1u64..=1 << 62, 50_000u32..1 << 31, 50_000u32..1 << 31);
    (id, clock, tail).prop_map(|((uuid, tag, gno), clock, tail)| {
        let tag = tag.map_or(base::Tag::EMPTY, |tag| base::Tag::new(tag.as_bytes()).unwrap());
        GtidEvent {
            immediate_commit_timestamp_us: clock.2,
            original_commit_timestamp_us: clock.3,
            transaction_length: Some(tail.0),
            immediate_server_version: Some(tail.1),
            original_server_version: Some(tail.2),
            ..GtidEvent::new(Some(base::Gtid { uuid: base::Uuid(uuid), tag, gno }), clock.0, clock.1)
        }
    })
}

/// Column types with their metadata, as a server writes them.
fn any_columns() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let column = prop_oneof![
        proptest::sample::select(vec![1u8, 2, 3, 8, 9, 10, 13]).prop_map(|code| (code, vec![])),
        (0u8..7)
            .prop_flat_map(|fsp| proptest::sample::select(vec![17u8, 18, 19]).prop_map(move |code| (code, vec![fsp]))),
        any::<[u8; 2]>().prop_map(|meta| (15, meta.to_vec())),
        (1u8..66, 0u8..31).prop_map(|(precision, scale)| (246, vec![precision, scale])),
        proptest::sample::select(vec![245u8, 252, 255])
            .prop_flat_map(|code| (Just(code), 1u8..5).prop_map(|(code, len)| (code, vec![len]))),
        Just((254, vec![254, 30])),
        Just((254, vec![247, 1])),
        Just((254, vec![248, 8])),
        Just((4, vec![4])),
        Just((5, vec![8])),
    ];
    proptest::collection::vec(column, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn gtid_events(event in any_gtid()) {
        prop_assert_eq!(compare_log("gtid", &log_with(|writer| writer.gtid(&event))), 1);
    }

    #[test]
    fn table_maps_and_rows(
        columns in any_columns(),
        table_id in 0u64..1 << 48,
        names in ("[a-z]{1,64}", "[a-z]{1,64}"),
        nulls: u8,
        images in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let types: Vec<u8> = columns.iter().map(|column| column.0).collect();
        let metadata: Vec<u8> = columns.iter().flat_map(|column| column.1.clone()).collect();
        let bitmap = vec![nulls; types.len().div_ceil(8)];
        let numeric = types.iter().filter(|code| matches!(code, 1..=5 | 8 | 9 | 13 | 246)).count();
        let mut optional = vec![1, numeric.div_ceil(8) as u8];
        optional.extend(vec![nulls; numeric.div_ceil(8)]);
        optional.extend([2, 3, 252, 255, 0]);
        let map = TableMapEvent {
            table_id,
            flags: 1,
            db: names.0.as_bytes(),
            table: names.1.as_bytes(),
            column_types: &types,
            metadata: &metadata,
            null_bitmap: &bitmap,
            optional: &optional,
        };
        let log = log_with(|writer| {
            writer.table_map(&map);
            for kind in [RowsKind::Write, RowsKind::Update, RowsKind::Delete] {
                writer.rows(&RowsEvent {
                    kind,
                    table_id,
                    flags: 1,
                    partition: None,
                    column_count: types.len(),
                    before_columns: if kind.has_before() { &bitmap } else { &[] },
                    after_columns: if kind.has_after() { &bitmap } else { &[] },
                    rows: &images,
                });
            }
        });
        prop_assert_eq!(compare_log("table map", &log), 4);
    }

    #[test]
    fn gtid_sets(ranges in proptest::collection::vec((any::<[u8; 16]>(), proptest::option::of("[a-z]{1,32}"), 1u64..1 << 40, 0u64..1 << 20), 0..20)) {
        let mut set = base::GtidSet::new();
        for (uuid, tag, first, more) in ranges {
            let tag = tag.map_or(base::Tag::EMPTY, |tag| base::Tag::new(tag.as_bytes()).unwrap());
            set.add_range(base::Uuid(uuid), tag, first, first + more);
        }
        prop_assert_eq!(compare_log("sets", &log_with(|writer| writer.previous_gtids(&set))), 1);
    }

    #[test]
    fn queries(sql in "[ -~]{0,300}", db in "[a-z]{0,60}", mode: u64, thread_id: u32) {
        let mut event = log::ddl(b"");
        event.sql = sql.as_bytes();
        event.db = db.as_bytes();
        event.thread_id = thread_id;
        event.status.sql_mode = Some(mode);
        prop_assert_eq!(compare_log("query", &log_with(|writer| writer.query(&event))), 1);
    }
}
