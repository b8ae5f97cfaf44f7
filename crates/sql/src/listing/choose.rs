//! Rows that a statement chooses of a listing, in its order.

use std::sync::Arc;

use values::collation::BINARY;
use values::sort_key::{SortKeyColumn, SortKeyPlan};
use values::{ColumnType, DateTimeValue, DateValue, constant, type_code as t};

use crate::Result;
use crate::bind::Value;
use crate::error::SqlError;
use crate::memory::Purse;
use crate::table::{By, Filter, Output, Plan, Weighed};

use super::{members_of, text};

/// Values of a row that are made before they are counted.
const OUTPUTS_A_STEP: usize = 64;

/// The values of the result: the rows that fulfil the plan's conditions, in its order, within its LIMIT.
///
/// # Errors
/// A value that is none of its column's type; 1041.
pub fn chosen(plan: &Plan, rows: Vec<Vec<Value>>, memory: &Purse) -> Result<Vec<Vec<Value>>> {
    if plan.never {
        return if plan.counts { result(plan, Vec::new(), memory) } else { Ok(Vec::new()) };
    }
    let mut kept = Vec::new();
    let mut weighed = Weighed::default();
    let mut held = 0;
    for row in rows {
        if fulfils(plan, &row, &mut weighed)? {
            let bytes = bytes_of(&row);
            memory.work_with(bytes)?;
            held += bytes;
            kept.push(row);
        }
    }
    if !plan.sorted_by.is_empty() {
        let key = SortKey::of(plan)?;
        let mut keyed = Vec::with_capacity(kept.len());
        for row in kept {
            let key = key.of_row(plan, &row)?;
            let bytes = key.len() + size_of::<(Vec<u8>, Vec<Value>)>();
            memory.work_with(bytes)?;
            held += bytes;
            keyed.push((key, row));
        }
        keyed.sort_by(|one, other| one.0.cmp(&other.0));
        kept = keyed.into_iter().map(|(_, row)| row).collect();
    }
    let result = result(plan, kept, memory);
    memory.drop_working(held);
    result
}

/// Bytes of a row.
#[must_use]
pub fn bytes_of(row: &[Value]) -> usize {
    let outside = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Decimal(text) => text.len(),
        _ => 0,
    };
    size_of::<Vec<Value>>() + size_of_val(row) + row.iter().map(outside).sum::<usize>()
}

/// False for a table of which the plan chooses no row, whatever else is in it, or without a name for a schema of such
/// tables only: a server with many tables is asked about one of them most of the time.
///
/// # Errors
/// As [`chosen`].
pub fn may_choose(plan: &Plan, schema: &str, table: Option<&str>) -> Result<bool> {
    let mut weighed = Weighed::default();
    let mut may = |filters: &[Filter]| {
        for filter in filters {
            let Some(column) = plan.table.columns.get(filter.column) else { continue };
            let value = match (column.name.as_str(), table) {
                ("TABLE_SCHEMA" | "CONSTRAINT_SCHEMA", _) => text(schema),
                ("TABLE_NAME", Some(table)) => text(table),
                _ => continue,
            };
            let value = stored(&column.ty, &value)?;
            if !filter.holds(value.as_deref(), &mut weighed).map_err(|error| SqlError::unreadable(&error))? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    for filters in plan.alternatives() {
        if may(filters)? {
            return Ok(!plan.never);
        }
    }
    Ok(false)
}

fn result(plan: &Plan, kept: Vec<Vec<Value>>, memory: &Purse) -> Result<Vec<Vec<Value>>> {
    let count = Value::Int(i64::try_from(kept.len()).unwrap_or(i64::MAX));
    let rows = if plan.counts { vec![Vec::new()] } else { kept };
    let limited = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let chosen = rows.into_iter().skip(limited(plan.offset)).take(limited(plan.rows_max));
    chosen
        .map(|row| {
            let value = |output: &Output| match output {
                Output::Column(position) => row.get(*position).unwrap_or(&Value::Null).clone(),
                Output::Constant(value) => value.clone(),
                Output::Count => count.clone(),
            };
            let mut values = Vec::new();
            // A column may stand in a result thousands of times: counted before it is copied as often.
            for outputs in plan.outputs.chunks(OUTPUTS_A_STEP) {
                let of_step: Vec<Value> = outputs.iter().map(value).collect();
                memory.work_with(bytes_of(&of_step))?;
                values.extend(of_step);
            }
            Ok(values)
        })
        .collect()
}

/// True if the row fulfils the plan's conditions; `weighed` is kept for its allocation.
///
/// # Errors
/// As [`chosen`].
pub fn fulfils(plan: &Plan, row: &[Value], weighed: &mut Weighed) -> Result<bool> {
    weighed.next_row();
    let mut of_column = None;
    let mut all_hold = |filters: &[Filter]| {
        for filter in filters {
            let value = match &of_column {
                Some((column, value)) if *column == filter.column => value,
                _ => &of_column.insert((filter.column, stored_at(plan, row, filter.column)?)).1,
            };
            if !filter.holds(value.as_deref(), weighed).map_err(|error| SqlError::unreadable(&error))? {
                return Ok(false);
            }
        }
        Ok(true)
    };
    for filters in plan.alternatives() {
        if all_hold(filters)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn stored_at(plan: &Plan, row: &[Value], position: usize) -> Result<Option<Vec<u8>>> {
    let column = plan.table.columns.get(position);
    match (column, row.get(position)) {
        (Some(column), Some(value)) => stored(&column.ty, value),
        _ => Err(SqlError::defect("a column beyond the listing's last one")),
    }
}

/// The bytes that a row of this type would hold; None is NULL.
fn stored(ty: &ColumnType, value: &Value) -> Result<Option<Vec<u8>>> {
    let wrong = || SqlError::defect(format!("a listed value is no {}", ty.name()));
    let bytes = match value {
        Value::Null => return Ok(None),
        Value::Int(value) => constant::integer(ty, i128::from(*value)).map_err(|error| SqlError::unreadable(&error))?,
        Value::UInt(value) => {
            constant::integer(ty, i128::from(*value)).map_err(|error| SqlError::unreadable(&error))?
        }
        Value::Text(text) => {
            // Longer ones, which are shown whole, are compared by their beginning.
            let most = if ty.code == t::VARCHAR { usize::from(ty.meta) } else { usize::MAX };
            constant::content(ty, text.get(..most.min(text.len())).unwrap_or_default()).ok_or_else(wrong)?
        }
        Value::DateTime(at, _) => {
            let date = DateValue { year: at.year.into(), month: at.month.into(), day: at.day.into() };
            let (hour, minute, second) = (u32::from(at.hour), u32::from(at.minute), u32::from(at.second));
            let at = DateTimeValue { date, hour, minute, second, micros: at.micros };
            constant::date_time(ty, at).map_err(|error| SqlError::unreadable(&error))?
        }
        _ => return Err(wrong()),
    };
    Ok(Some(bytes))
}

/// How rows are ordered.
struct SortKey {
    plan: SortKeyPlan,
    /// For each column of the order the members of an ENUM, which are ordered by their numbers.
    members: Vec<Option<Vec<&'static str>>>,
}

/// BIGINT, which numbers of members are compared as.
fn number_type() -> ColumnType {
    ColumnType { code: t::LONGLONG, meta: 0, unsigned: false, collation: BINARY, members: Arc::new([]) }
}

/// The number of an ENUM's member; 0 for what is none.
fn number_of(members: &[&str], value: &Value) -> Value {
    let place = match value {
        Value::Null => return Value::Null,
        Value::Text(text) => members.iter().position(|member| member.as_bytes() == text.as_slice()),
        _ => None,
    };
    Value::Int(place.and_then(|place| i64::try_from(place + 1).ok()).unwrap_or(0))
}

impl SortKey {
    fn of(plan: &Plan) -> Result<SortKey> {
        let name = format!("{}.{}", plan.table.db, plan.table.name);
        let (mut columns, mut members) = (Vec::new(), Vec::new());
        for By { column, descending } in &plan.sorted_by {
            let Some(column) = plan.table.columns.get(*column) else { continue };
            let of = members_of(&name, &column.name);
            let ty = if of.is_some() { number_type() } else { column.ty.clone() };
            columns.push(SortKeyColumn { ty, nullable: true, descending: *descending, prefix_len: None });
            members.push(of);
        }
        let key = SortKeyPlan::new(&columns).map_err(|error| SqlError::unreadable(&error))?;
        if !key.is_ordered() {
            return Err(SqlError::not_supported("ORDER BY this column"));
        }
        Ok(SortKey { plan: key, members })
    }

    fn of_row(&self, plan: &Plan, row: &[Value]) -> Result<Vec<u8>> {
        let value = |(by, members): (&By, &Option<Vec<&str>>)| match (members, row.get(by.column)) {
            (Some(members), Some(value)) => stored(&number_type(), &number_of(members, value)),
            _ => stored_at(plan, row, by.column),
        };
        let values = plan.sorted_by.iter().zip(&self.members).map(value).collect::<Result<Vec<_>>>()?;
        let mut key = Vec::new();
        self.plan
            .append(values.iter().map(Option::as_deref), &mut key)
            .map_err(|error| SqlError::unreadable(&error))?;
        Ok(key)
    }
}
