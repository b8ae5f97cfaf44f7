//! What a server logged.
#![allow(dead_code)]

use std::collections::HashMap;
use std::path::PathBuf;

use binlog::reader::BinlogFile;
use binlog::{RowsEvent, RowsKind, TableMapEvent, event_type};
use client::Connection;
use testkit::Server;
use values::{ColumnType, OFFSET_NULL, RowLayout};

/// The mysqld option with which [`logged_rows`] can read the log.
pub(crate) const DESCRIBED: &[&str] = &["--binlog-row-metadata=FULL"];

/// A connection as root with settings that show values as they are.
pub(crate) fn connect(server: &Server) -> Connection {
    let mut connection = server.connect();
    for sql in ["SET NAMES utf8mb4", "SET time_zone = '+00:00'", "SET sql_mode = ''"] {
        connection.exec(sql).unwrap();
    }
    connection
}

fn log_files(server: &Server) -> Vec<PathBuf> {
    let folder = server.dir();
    (1..).map(|n| folder.join(format!("binlog.{n:06}"))).take_while(|f| f.exists()).collect()
}

/// The columns of a table as its table map describes them, and the images of all rows ever inserted.
pub(crate) fn logged_rows(server: &Server, table: &str) -> (Vec<ColumnType>, Vec<Vec<u8>>) {
    let mut types = Vec::new();
    let mut table_id = None;
    let mut images = Vec::new();
    for file in log_files(server) {
        let mut log = BinlogFile::open(file).unwrap();
        while let Some(event) = log.next_event().unwrap() {
            let body = event.body().unwrap();
            match event.header.event_type {
                event_type::TABLE_MAP => {
                    let map = TableMapEvent::parse(body).unwrap();
                    table_id = (map.table == table.as_bytes()).then_some(map.table_id);
                    if table_id.is_some() {
                        types = column_types(&map);
                    }
                }
                event_type::WRITE_ROWS => {
                    let event = RowsEvent::parse(event_type::WRITE_ROWS, body).unwrap();
                    assert_eq!(event.kind, RowsKind::Write);
                    if Some(event.table_id) != table_id {
                        continue;
                    }
                    let layout = RowLayout::new(&types);
                    let mut rest = event.rows;
                    while !rest.is_empty() {
                        let (image, behind) = rest.split_at(layout.walk(rest).unwrap());
                        images.push(image.to_vec());
                        rest = behind;
                    }
                }
                _ => {}
            }
        }
    }
    (types, images)
}

pub(crate) fn column_types(map: &TableMapEvent<'_>) -> Vec<ColumnType> {
    let details = map.optional_metadata().unwrap().details(map).unwrap();
    let read = |(code, metadata): (u8, &[u8]), details: &binlog::ColumnDetails<'_>| {
        let mut ty = ColumnType::from_table_map(code, metadata).unwrap();
        ty.unsigned = details.unsigned.unwrap_or(false);
        ty.collation = details.collation.unwrap_or(63);
        if let Some(members) = details.members {
            ty.members = members.map(Box::from).collect();
        }
        ty
    };
    map.columns().zip(&details).map(|(column, details)| read(column, details)).collect()
}

pub(crate) fn stored(image: &[u8], (at, len): (u32, u32)) -> Option<&[u8]> {
    (at != OFFSET_NULL).then(|| &image[at as usize..(at + len) as usize])
}

/// A table's rows before an ALTER TABLE, and after it.
#[derive(Default)]
pub(crate) struct Logged {
    pub(crate) before_types: Vec<ColumnType>,
    pub(crate) before: Vec<Vec<u8>>,
    pub(crate) after_types: Vec<ColumnType>,
    pub(crate) after: Vec<Vec<u8>>,
}

/// Every table's rows as UPDATEs of all rows last logged them before and after the types changed: those logged under
/// the first types, then those of the last UPDATE.
pub(crate) fn logged_tables(server: &Server) -> HashMap<String, Logged> {
    let mut tables: HashMap<String, Logged> = HashMap::new();
    let mut map: Option<(String, Vec<ColumnType>)> = None;
    for file in log_files(server) {
        let mut log = BinlogFile::open(file).unwrap();
        while let Some(event) = log.next_event().unwrap() {
            let body = event.body().unwrap();
            let kind = event.header.event_type;
            match kind {
                event_type::TABLE_MAP => {
                    let parsed = TableMapEvent::parse(body).unwrap();
                    let name = String::from_utf8(parsed.table.to_vec()).unwrap();
                    map = Some((name, column_types(&parsed)));
                }
                event_type::WRITE_ROWS | event_type::UPDATE_ROWS => {
                    let (name, types) = map.as_ref().unwrap();
                    let event = RowsEvent::parse(kind, body).unwrap();
                    let layout = RowLayout::new(types);
                    let table = tables.entry(name.clone()).or_default();
                    let mut rest = event.rows;
                    let mut images = Vec::new();
                    while !rest.is_empty() {
                        let (image, behind) = rest.split_at(layout.walk(rest).unwrap());
                        images.push(image.to_vec());
                        rest = behind;
                    }
                    let id = |image: &[u8]| {
                        let mut offsets = Vec::new();
                        layout.walk_offsets(image, &mut offsets).unwrap();
                        let bytes = stored(image, offsets[0]).unwrap();
                        u32::from_le_bytes(bytes.try_into().unwrap())
                    };
                    if kind == event_type::WRITE_ROWS {
                        table.before_types.clone_from(types);
                        table.before.extend(images);
                        continue;
                    }
                    for pair in images.chunks(2) {
                        let number = id(&pair[1]);
                        if number > 1_000_000 {
                            table.after_types.clone_from(types);
                            table.after.push(pair[1].clone());
                        } else if *types == table.before_types {
                            let place = table.before.iter().position(|image| id(image) == number).unwrap();
                            table.before[place] = pair[1].clone();
                        }
                    }
                }
                _ => {}
            }
        }
    }
    tables
}
