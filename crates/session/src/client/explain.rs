//! EXPLAIN of a SELECT from one table: the way that this server reads it.
//!
//! In: a bound SELECT, the number of rows in its table. Out: one row as a 9.7 describes it, in the formats TRADITIONAL
//! and TREE. Never here: costs, which nothing here is chosen by; a statement that is carried out.

use std::fmt::Write as _;

use catalog::Key;
use sql::table::{Path, Plan};
use sql::{Column, ExplainFormat, Field, Select, SqlError, Value};
use store::Snapshot;
use wire::response::column_flag::{NOT_NULL, UNSIGNED};
use wire::row::type_code;

use super::execute::{number_column, text_column};
use super::results::Rows;
use super::{Parameters, Session};
use crate::world::World;

/// What the rows of an index lookup or range are taken for, as MySQL does without statistics: a tenth of the table.
const PART_OF_TABLE: u64 = 10;

/// How a table is read.
struct Way<'a> {
    kind: &'static str,
    key: Option<&'a Key>,
    /// Columns of the key that hold to a value.
    constants: usize,
    rows: u64,
}

impl Session {
    /// # Errors
    /// Those of binding the SELECT; 1235 for JSON.
    pub(super) fn explain(
        &self,
        format: Option<ExplainFormat>,
        select: &Select,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Rows, SqlError> {
        let format =
            format.or(self.settings.typed().explain_format).ok_or_else(|| SqlError::not_supported("EXPLAIN"))?;
        if select.from.is_none() {
            return Ok(none(format, "No tables used", "Rows fetched before execution"));
        }
        let snapshot = self.snapshot(world)?;
        let plan = self.plan(select, sql, parameters, &snapshot, None, world)?;
        if plan.never {
            return Ok(none(format, "Impossible WHERE", "Zero rows (Impossible WHERE)"));
        }
        let way = Way::of(&plan, snapshot.estimated_rows(plan.table.id));
        Ok(match format {
            ExplainFormat::Traditional => traditional(&plan, &way),
            ExplainFormat::Tree => tree(&plan, &way),
        })
    }
}

/// Whether MySQL may expect this to read more rows than that, by statistics that are old.
pub(super) fn may_read_more(plan: &Plan, rows_max: u64, snapshot: &Snapshot) -> bool {
    if plan.never {
        return false;
    }
    let all = snapshot.estimated_rows(plan.table.id);
    match Way::of(plan, all).kind {
        "const" => rows_max == 0,
        _ => all.saturating_mul(2) > rows_max,
    }
}

impl Way<'_> {
    fn of(plan: &Plan, all: u64) -> Way<'_> {
        let path = plan.paths.first();
        let Some((path, key)) = path.and_then(|path| Some((path, plan.table.keys.get(path.key?)?))) else {
            return Way { kind: "ALL", key: None, constants: 0, rows: all };
        };
        let steps = path.steps() as u64;
        let constants = match &path.points {
            Some(_) => key.parts.len(),
            None => path.prefixes.first().map_or(0, Vec::len),
        };
        let is_row = key.unique && constants == key.parts.len();
        let (kind, rows) = match (is_row, is_range(path), path.is_whole_table()) {
            (_, _, true) => ("index", all),
            (true, false, _) if steps == 1 => ("const", 1),
            (true, false, _) => ("range", steps),
            (false, false, _) if steps == 1 => ("ref", (all / PART_OF_TABLE).max(1)),
            _ => ("range", (all / PART_OF_TABLE).max(1)),
        };
        Way { kind, key: Some(key), constants, rows: rows.min(all.max(1)) }
    }
}

fn is_range(path: &Path) -> bool {
    path.low.is_some() || path.high.is_some()
}

/// The answer for a statement that reads no table.
fn none(format: ExplainFormat, extra: &str, node: &str) -> Rows {
    match format {
        ExplainFormat::Traditional => {
            let mut row = vec![Value::UInt(1), text("SIMPLE")];
            row.extend(std::iter::repeat_n(Value::Null, 9));
            row.push(text(extra));
            Rows::new(columns(), vec![row])
        }
        ExplainFormat::Tree => Rows::new(tree_column(), vec![vec![text(&format!("-> {node}\n"))]]),
    }
}

fn traditional(plan: &Plan, way: &Way<'_>) -> Rows {
    let key = way.key.map_or(Value::Null, |key| text(&key.name));
    let reference = match way.kind {
        "const" | "ref" => text(&vec!["const"; way.constants].join(",")),
        _ => Value::Null,
    };
    let filtered = plan.filters.iter().enumerate().any(|(place, _)| !plan.paths.iter().any(|path| path.fulfils(place)));
    let row = vec![
        Value::UInt(1),
        text("SIMPLE"),
        Value::Text(plan.origin.table.clone()),
        Value::Null,
        text(way.kind),
        if way.kind == "index" { Value::Null } else { key.clone() },
        key,
        Value::Null,
        reference,
        Value::UInt(way.rows),
        Value::Double(100.0),
        if filtered { text("Using where") } else { Value::Null },
    ];
    Rows::new(columns(), vec![row])
}

fn tree(plan: &Plan, way: &Way<'_>) -> Rows {
    let (table, rows) = (String::from_utf8_lossy(&plan.origin.table), way.rows);
    let mut node = match (way.kind, way.key) {
        ("const", _) => "Rows fetched before execution".to_owned(),
        ("ref", Some(key)) => format!("Index lookup on {table} using {}", key.name),
        ("index", Some(key)) => format!("Index scan on {table} using {}", key.name),
        (_, Some(key)) => format!("Index range scan on {table} using {}", key.name),
        (_, None) if plan.counts => format!("Count rows in {table}"),
        (_, None) => format!("Table scan on {table}"),
    };
    let _ = write!(node, "  (rows={rows})");
    Rows::new(tree_column(), vec![vec![text(&format!("-> {node}\n"))]])
}

fn text(text: &str) -> Value {
    Value::Text(text.as_bytes().to_vec())
}

fn tree_column() -> Vec<Column> {
    vec![text_column("EXPLAIN", NOT_NULL, 78)]
}

/// Columns with the lengths that a 9.7 announces, in characters.
fn columns() -> Vec<Column> {
    let id = number_column("id", NOT_NULL | UNSIGNED, type_code::LONGLONG, 4);
    let rows = number_column("rows", UNSIGNED, type_code::LONGLONG, 11);
    let mut filtered = number_column("filtered", 0, type_code::DOUBLE, 4);
    filtered.field = Field { decimals: 2, ..filtered.field };
    let mut partitions = text_column("partitions", 0, 6_316_032);
    partitions.field = Field { type_code: type_code::MEDIUM_BLOB, ..partitions.field };
    vec![
        id,
        text_column("select_type", NOT_NULL, 19),
        text_column("table", 0, 64),
        partitions,
        text_column("type", 0, 10),
        text_column("possible_keys", 0, 4_096),
        text_column("key", 0, 64),
        text_column("key_len", 0, 4_096),
        text_column("ref", 0, 1_024),
        rows,
        filtered,
        text_column("Extra", NOT_NULL, 255),
    ]
}
