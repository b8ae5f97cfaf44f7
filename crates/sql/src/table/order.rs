//! ORDER BY over columns.

use super::condition::is_constant;
use super::plan::Scope;
use crate::Result;
use crate::ast::{Expression, Item, Order};
use crate::error::SqlError;

/// A column by which rows are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct By {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

/// The columns of ORDER BY; constants order nothing.
///
/// # Errors
/// 1054 for a name or number that is no column; 1235 for other expressions.
pub(crate) fn bind(scope: &Scope<'_>, order: &[Order], items: &[Item]) -> Result<Vec<By>> {
    let mut all = Vec::new();
    for Order { expression, descending } in order {
        if let Some(column) = column(scope, expression, items)? {
            all.push(By { column, descending: *descending });
        }
    }
    Ok(all)
}

fn column(scope: &Scope<'_>, expression: &Expression, items: &[Item]) -> Result<Option<usize>> {
    match expression {
        Expression::Name(parts) => {
            let aliased = match parts.as_slice() {
                [name] => {
                    items.iter().find(|item| item.alias.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(name)))
                }
                _ => None,
            };
            match aliased {
                Some(item) => of_item(scope, item),
                None => scope.resolve(parts, "order clause").map(Some),
            }
        }
        Expression::Number(digits) => {
            let place = digits.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            let has_star = items.iter().any(|item| matches!(item.expression, Expression::Star(_)));
            match place.and_then(|place| items.get(place)) {
                _ if has_star => Err(SqlError::not_supported("ORDER BY a number together with *")),
                Some(item) => of_item(scope, item),
                None => {
                    let text = format!("Unknown column '{digits}' in 'order clause'");
                    Err(SqlError::new(1054, "42S22", text))
                }
            }
        }
        _ => Err(SqlError::not_supported("ORDER BY an expression")),
    }
}

fn of_item(scope: &Scope<'_>, item: &Item) -> Result<Option<usize>> {
    match &item.expression {
        Expression::Name(parts) => scope.resolve(parts, "order clause").map(Some),
        other if is_constant(other) => Ok(None),
        _ => Err(SqlError::not_supported("ORDER BY an expression")),
    }
}
