//! The functions that are answered: one table of names, arguments and kernels.

mod dates;
mod failover;
mod gtids;
mod texts;
mod times;

pub use dates::{KNOWS_UTC, to_protocol};
use wire::response::column_flag;
use wire::row::type_code;

use crate::Result;
use crate::ast::Expression;
use crate::bind::{Bind, Bound, Field, Value, is_parameter};
use crate::error::SqlError;
use crate::waits::Called;

/// utf8mb3_general_ci: the collation of names and of texts about the session.
const SYSTEM_COLLATION: u16 = 33;
/// Characters of a user with host, at most.
const USER_LENGTH: u32 = 288;
/// Characters of a list of roles, as MySQL counts them.
const ROLES_LENGTH: u32 = 50_331_648;
/// Characters of a schema's name, at most.
const NAME_LENGTH: u32 = 64;

/// A function that is answered.
struct Function {
    /// Names, in upper case.
    names: &'static [&'static str],
    /// Least and largest number of arguments.
    arguments: (usize, usize),
    kernel: Kernel,
}

/// Type and value from those of the arguments.
#[derive(Clone, Copy)]
enum Kernel {
    Value(fn(&Bind<'_>, &Arguments<'_>) -> Result<Bound>),
    Waits(fn(&Bind<'_>, &Arguments<'_>) -> Result<Called>),
}

const fn function(
    names: &'static [&'static str],
    arguments: (usize, usize),
    kernel: fn(&Bind<'_>, &Arguments<'_>) -> Result<Bound>,
) -> Function {
    Function { names, arguments, kernel: Kernel::Value(kernel) }
}

const fn waiting(
    names: &'static [&'static str],
    arguments: (usize, usize),
    kernel: fn(&Bind<'_>, &Arguments<'_>) -> Result<Called>,
) -> Function {
    Function { names, arguments, kernel: Kernel::Waits(kernel) }
}

const FUNCTIONS: &[Function] = &[
    function(&["VERSION"], (0, 0), version),
    function(&["CONNECTION_ID"], (0, 0), connection_id),
    function(&["DATABASE", "SCHEMA"], (0, 0), database),
    function(&["USER", "SESSION_USER", "SYSTEM_USER"], (0, 0), user),
    function(&["CURRENT_USER"], (0, 0), current_user),
    function(&["CURRENT_ROLE"], (0, 0), current_role),
    function(&["LAST_INSERT_ID"], (0, 0), last_insert_id),
    function(&["ROW_COUNT"], (0, 0), row_count),
    function(&["FOUND_ROWS"], (0, 0), found_rows),
    function(&["NOW", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP"], (0, 1), times::now),
    function(&["SYSDATE"], (0, 1), times::sysdate),
    function(&["CURDATE", "CURRENT_DATE"], (0, 0), times::current_date),
    function(&["CURTIME", "CURRENT_TIME"], (0, 1), times::current_time),
    function(&["UTC_TIMESTAMP"], (0, 1), times::utc_timestamp),
    function(&["UTC_DATE"], (0, 0), times::utc_date),
    function(&["UTC_TIME"], (0, 1), times::utc_time),
    function(&["UNIX_TIMESTAMP"], (0, 1), times::unix_timestamp),
    function(&["CONCAT"], (1, usize::MAX), texts::concat),
    function(&["COALESCE"], (1, usize::MAX), texts::coalesce),
    function(&["IFNULL"], (2, 2), texts::coalesce),
    function(&["FIND_IN_SET"], (2, 2), texts::find_in_set),
    // MySQL parses it by a rule of its own: another number of arguments is an error of syntax there.
    function(&["LEFT"], (0, usize::MAX), texts::left),
    function(&["INSTR"], (2, 2), texts::instr),
    function(&["CONVERT_TZ"], (3, 3), dates::convert_tz),
    function(&["TIMEDIFF"], (2, 2), dates::timediff),
    function(&["DATE_FORMAT"], (2, 2), dates::date_format),
    function(&["TIME_FORMAT"], (2, 2), dates::time_format),
    function(&["GTID_SUBSET"], (2, 2), gtids::subset),
    function(&["GTID_SUBTRACT"], (2, 2), gtids::subtract),
    waiting(&["WAIT_FOR_EXECUTED_GTID_SET"], (1, 2), gtids::wait_for_executed),
    waiting(&["SOURCE_POS_WAIT"], (2, 4), gtids::source_pos_wait),
    waiting(&["MASTER_POS_WAIT"], (2, 4), gtids::master_pos_wait),
    waiting(&["SLEEP"], (1, 1), gtids::sleep),
    // Loadable functions of MySQL's: they count their arguments themselves.
    waiting(&["ASYNCHRONOUS_CONNECTION_FAILOVER_ADD_SOURCE"], (0, usize::MAX), failover::add_source),
    waiting(&["ASYNCHRONOUS_CONNECTION_FAILOVER_DELETE_SOURCE"], (0, usize::MAX), failover::delete_source),
    waiting(&["ASYNCHRONOUS_CONNECTION_FAILOVER_ADD_MANAGED"], (0, usize::MAX), failover::add_managed),
    waiting(&["ASYNCHRONOUS_CONNECTION_FAILOVER_DELETE_MANAGED"], (0, usize::MAX), failover::delete_managed),
    waiting(&["ASYNCHRONOUS_CONNECTION_FAILOVER_RESET"], (0, usize::MAX), failover::reset),
];

/// True for a function of the current date and time.
#[must_use]
pub fn reads_clock(name: &str) -> bool {
    const THESE: &[&str] = &["NOW", "SYSDATE", "LOCALTIME", "LOCALTIMESTAMP", "CURDATE", "CURTIME", "UNIX_TIMESTAMP"];
    let upper = name.to_ascii_uppercase();
    THESE.contains(&upper.as_str()) || ["CURRENT_TIME", "CURRENT_DATE", "UTC_"].iter().any(|it| upper.starts_with(it))
}

/// The collation in which arguments are compared or joined.
///
/// # Errors
/// 1235 for binary strings, and for several character sets where MySQL does not simply take one of them.
pub(crate) fn collation(bind: &Bind<'_>, arguments: &Arguments<'_>, function: &str) -> Result<u16> {
    texts::collation(bind, arguments, function)
}

/// Arguments of a call.
pub(crate) struct Arguments<'a> {
    pub(crate) expressions: &'a [Expression],
    /// Their types and values.
    pub(crate) bound: Vec<Bound>,
}

impl Arguments<'_> {
    /// NOT_NULL where no argument can be NULL. USER() and variables are described as not NULL, and count here as if
    /// they might be.
    pub(crate) fn not_null(&self) -> u16 {
        let counts = |one: &Expression| is_users_name(one) || matches!(one, Expression::Variable { .. });
        let may_be_null = self.expressions.iter().any(|one| one.any(&counts));
        let not_null = if may_be_null { 0 } else { column_flag::NOT_NULL };
        self.bound.iter().fold(not_null, |flags, bound| flags & bound.field.flags)
    }
}

fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.names.iter().any(|own| own.eq_ignore_ascii_case(name)))
}

/// Whether calls of this function wait.
pub(crate) fn waits(name: &str) -> bool {
    find(name).is_some_and(|function| matches!(function.kernel, Kernel::Waits(_)))
}

/// Number of calls in an expression that wait, but for those in arguments of others.
pub(crate) fn waits_number(expression: &Expression) -> usize {
    match expression {
        Expression::Call { name, .. } if waits(name) => 1,
        other => other.operands().into_iter().map(waits_number).sum(),
    }
}

pub(crate) fn waits_in(expression: &Expression) -> bool {
    expression.any(&|one| matches!(one, Expression::Call { name, .. } if waits(name)))
}

/// Binds a call.
///
/// # Errors
/// 1582 for a wrong number of arguments, 1235 for a function that is not in the table, and for one that waits where no
/// statement can.
pub(crate) fn call(bind: &Bind<'_>, name: &str, arguments: &[Expression]) -> Result<Bound> {
    let (kernel, upper) = kernel(name, arguments)?;
    if matches!(kernel, Kernel::Waits(_))
        && let Some(given) = bind.waits.take()
    {
        return Ok(given);
    }
    // A text that is invalid in its character set is joined unchanged.
    let bound = |argument: &Expression| match upper.as_str() {
        "CONCAT" => bind.as_it_is(argument),
        _ => bind.expression(argument),
    };
    let bound = arguments.iter().map(bound).collect::<Result<Vec<_>>>()?;
    let arguments = Arguments { expressions: arguments, bound };
    match kernel {
        Kernel::Value(kernel) => kernel(bind, &arguments),
        Kernel::Waits(kernel) => match kernel(bind, &arguments)? {
            Called::Value(bound) => Ok(bound),
            Called::Waits(..) => Err(SqlError::not_supported(&format!("{upper}() in a SELECT from a table"))),
        },
    }
}

/// Begins a call of a function that waits.
///
/// # Errors
/// Those of [`call`], as they are.
pub(crate) fn begin(bind: &Bind<'_>, name: &str, arguments: &[Expression]) -> Result<Called> {
    let (kernel, _) = kernel(name, arguments)?;
    let bound = arguments.iter().map(|argument| bind.expression(argument)).collect::<Result<Vec<_>>>()?;
    let arguments = Arguments { expressions: arguments, bound };
    match kernel {
        Kernel::Value(kernel) => kernel(bind, &arguments).map(Called::Value),
        Kernel::Waits(kernel) => kernel(bind, &arguments),
    }
}

/// What computes a call, and its name in upper case.
fn kernel(name: &str, arguments: &[Expression]) -> Result<(Kernel, String)> {
    let upper = name.to_ascii_uppercase();
    let function = find(&upper).ok_or_else(|| SqlError::not_supported(&format!("{upper}()")))?;
    let (least, most) = function.arguments;
    if arguments.len() < least || arguments.len() > most {
        let text = format!("Incorrect parameter count in the call to native function '{name}'");
        return Err(SqlError::new(1582, "42000", text));
    }
    if arguments.iter().any(is_parameter) {
        return Err(SqlError::not_supported(&format!("a parameter of {upper}()")));
    }
    Ok((function.kernel, upper))
}

/// True for USER(), CURRENT_USER() and their other names.
fn is_users_name(expression: &Expression) -> bool {
    matches!(expression, Expression::Call { name, .. } if name.to_uppercase().ends_with("USER"))
}

fn system_text(value: Option<&str>, flags: u16, length: u32) -> Bound {
    let value = value.map_or(Value::Null, |text| Value::Text(text.as_bytes().to_vec()));
    Bound { field: Field::text(flags, length, SYSTEM_COLLATION), value }
}

fn version(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    let version = bind.own.own_value("version").unwrap_or_default();
    let length = u32::try_from(version.len()).unwrap_or(u32::MAX);
    Ok(system_text(Some(&version), column_flag::NOT_NULL, length))
}

fn connection_id(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    let flags = column_flag::NOT_NULL | column_flag::UNSIGNED;
    Ok(Bound { field: Field::number(type_code::LONGLONG, flags, 21), value: Value::UInt(bind.connection_id) })
}

fn database(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    Ok(system_text(bind.schema, 0, NAME_LENGTH))
}

fn user(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    let (user, host) = bind.user;
    Ok(system_text(Some(&format!("{user}@{host}")), 0, USER_LENGTH))
}

fn current_user(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    Ok(system_text(Some(bind.current_user), 0, USER_LENGTH))
}

/// There are no roles here.
fn current_role(_: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    let mut bound = system_text(Some("NONE"), 0, ROLES_LENGTH);
    bound.field.type_code = type_code::LONG_BLOB;
    Ok(bound)
}

/// Nothing is inserted here.
fn last_insert_id(_: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    let flags = column_flag::NOT_NULL | column_flag::UNSIGNED;
    Ok(Bound { field: Field::number(type_code::LONGLONG, flags, 21), value: Value::UInt(0) })
}

/// Rows of the SELECT before. Where that is not known, the function does not exist.
fn found_rows(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    let Some(rows) = bind.found_rows else { return Err(SqlError::not_supported("FOUND_ROWS()")) };
    let field = Field::number(type_code::LONGLONG, column_flag::NOT_NULL, 21);
    Ok(Bound { field, value: Value::Int(i64::try_from(rows).unwrap_or(i64::MAX)) })
}

fn row_count(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    let field = Field::number(type_code::LONGLONG, column_flag::NOT_NULL, 21);
    Ok(Bound { field, value: Value::Int(bind.row_count) })
}
