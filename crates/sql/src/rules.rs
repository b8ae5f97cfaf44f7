//! To what a session may set a variable.
//!
//! In: a variable, its rule and a new value. Out: the value as `SELECT @@name` prints it. Never here: the effect of a
//! value, which variables have which rule.

use values::collation::{self, Collation};

use crate::Result;
use crate::bind::Value;
use crate::charsets::Charsets;
use crate::error::{SqlError, Warning};
use crate::invalid::utf8mb3_of;
use crate::uses::Rule;
use crate::variables::Variable;
use crate::{deprecated, modes};

/// The value under a rule, as `SELECT @@name` prints it; None is NULL.
///
/// # Errors
/// 1231, 1232, and those of character sets and time zones.
pub(crate) fn checked(
    variable: &Variable,
    rule: Rule,
    value: &Value,
    warnings: &mut Vec<Warning>,
) -> Result<Option<String>> {
    let name = variable.name;
    let text = value.text().map(|text| utf8mb3_of(&text).0);
    let wrong = || SqlError::wrong_value(name, text.as_deref().unwrap_or("NULL"));
    if text.is_none() && matches!(rule, Rule::ResultsCharset | Rule::Names) {
        return Ok(None);
    }
    if !takes_type(rule, value) {
        return Err(SqlError::wrong_type(name));
    }
    // Without its invalid bytes it may be empty, which would be no mode.
    if rule == Rule::Mode && value.text().is_some_and(|text| std::str::from_utf8(&text).is_err()) {
        return Err(wrong());
    }
    if rule == Rule::Integer {
        return integer(variable, value, warnings).map(Some);
    }
    if matches!(rule, Rule::ClientCharset | Rule::ResultsCharset | Rule::ConnectionCharset)
        && let Some(found) = collation_by_number(value)
    {
        let found = found.map_err(|number| SqlError::unknown_charset(&number.to_string()))?;
        if rule == Rule::ClientCharset && !Charsets::is_of_clients(found.charset) {
            warnings.extend(deprecated::charset(found.charset));
            return Err(wrong());
        }
        // Answers are announced in the collation of that number.
        if Charsets::by_name(found.charset)?.id != found.id {
            return Err(SqlError::not_supported(&format!("SET {name} to the number of a collation")));
        }
        return Ok(Some(found.charset.to_owned()));
    }
    let given = text.as_deref().ok_or_else(wrong)?;
    let number = match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::UInt(number) => Some(*number),
        _ => None,
    };
    let checked = match rule {
        Rule::Switch => switch(given).ok_or_else(wrong)?.to_owned(),
        Rule::Off => match switch(given).ok_or_else(wrong)? {
            "0" => "0".to_owned(),
            _ => return Err(SqlError::not_supported(&format!("SET {name}=1"))),
        },
        Rule::Choice(choices) => choice(choices, given, number).ok_or_else(wrong)?.to_owned(),
        Rule::ClientCharset => Charsets::of_client(given)?.charset.to_owned(),
        Rule::ResultsCharset | Rule::ConnectionCharset => Charsets::by_name(given)?.charset.to_owned(),
        Rule::Collation => match collation_by_number(value) {
            Some(Ok(found)) => found.name.to_owned(),
            Some(Err(number)) => return Err(SqlError::unknown_collation(&number.to_string())),
            None => Charsets::collation(given)?.name.to_owned(),
        },
        Rule::Mode => {
            let bits = number.map_or_else(|| modes::bits(given), modes::of_number)?;
            warnings.extend(modes::warnings(bits));
            modes::text(bits)
        }
        Rule::Zone => zone(given)?,
        Rule::Names => given.to_owned(),
        Rule::Gtids => match given.parse::<base::GtidSet>() {
            Ok(set) => set.to_string(),
            Err(_) => return Err(wrong()),
        },
        Rule::Integer | Rule::AsItIs => return Err(wrong()),
    };
    Ok(Some(checked))
}

pub(crate) fn is_integer(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::UInt(_))
}

/// Whether a variable takes values of this type, whatever they are.
fn takes_type(rule: Rule, value: &Value) -> bool {
    match rule {
        Rule::Integer | Rule::AsItIs => true,
        Rule::Zone | Rule::Names => !is_integer(value) && !is_fraction(value),
        _ => !is_fraction(value),
    }
}

fn is_fraction(value: &Value) -> bool {
    matches!(value, Value::Decimal(_) | Value::Double(_))
}

/// The collation whose number a value is, as 32 bits; None: the value is no number.
fn collation_by_number(value: &Value) -> Option<std::result::Result<Collation, i32>> {
    #[expect(clippy::cast_possible_truncation, reason = "MySQL takes the lower bits")]
    let number = match value {
        Value::Int(number) => *number as i32,
        Value::UInt(number) => *number as i32,
        _ => return None,
    };
    let found = u16::try_from(number).ok().and_then(collation::by_id);
    Some(found.ok_or(number))
}

fn switch(text: &str) -> Option<&'static str> {
    let is = |word: &&str| text.eq_ignore_ascii_case(word);
    match text {
        _ if ["ON", "TRUE", "1"].iter().any(is) => Some("1"),
        _ if ["OFF", "FALSE", "0"].iter().any(is) => Some("0"),
        _ => None,
    }
}

fn choice(choices: &[&'static str], text: &str, number: Option<u64>) -> Option<&'static str> {
    let by_number = number.and_then(|number| choices.get(usize::try_from(number).ok()?));
    by_number.or_else(|| choices.iter().find(|choice| choice.eq_ignore_ascii_case(text))).copied()
}

pub(crate) fn integer(variable: &Variable, value: &Value, warnings: &mut Vec<Warning>) -> Result<String> {
    let given = match value {
        Value::Int(value) => i128::from(*value),
        Value::UInt(value) => i128::from(*value),
        _ => return Err(SqlError::wrong_type(variable.name)),
    };
    let kept = given.clamp(variable.least, variable.most.max(variable.least));
    if kept != given {
        warnings.push(Warning::new(1292, format!("Truncated incorrect {} value: '{given}'", variable.name)));
    }
    Ok(kept.to_string())
}

/// SYSTEM, or an offset from -13:59 to +14:00.
pub(crate) fn zone(text: &str) -> Result<String> {
    let unknown = || SqlError::new(1298, "HY000", format!("Unknown or incorrect time zone: '{text}'"));
    if text.eq_ignore_ascii_case("SYSTEM") {
        return Ok("SYSTEM".to_owned());
    }
    let (sign, rest) = match text.as_bytes().first() {
        Some(b'+') => (1, text.get(1..)),
        Some(b'-') => (-1, text.get(1..)),
        _ => return Err(unknown()),
    };
    let (hours, minutes) = rest.and_then(|rest| rest.split_once(':')).ok_or_else(unknown)?;
    let digits = |text: &str, most: usize| {
        let fits = !text.is_empty() && text.len() <= most && text.bytes().all(|byte| byte.is_ascii_digit());
        if fits { text.parse::<i32>().ok() } else { None }
    };
    let hours = digits(hours, 2).ok_or_else(unknown)?;
    let minutes = digits(minutes, 2).filter(|minutes| *minutes < 60).ok_or_else(unknown)?;
    let offset = sign * (hours * 60 + minutes);
    if !(-(13 * 60 + 59)..=14 * 60).contains(&offset) {
        return Err(unknown());
    }
    let shown = if offset < 0 { '-' } else { '+' };
    Ok(format!("{shown}{hours:02}:{minutes:02}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zones() {
        for (given, shown) in [("+00:00", "+00:00"), ("-0:00", "+00:00"), ("+5:30", "+05:30"), ("system", "SYSTEM")] {
            assert_eq!(zone(given).unwrap(), shown);
        }
        for wrong in ["", "+", "5:30", "+15:00", "-14:00", "+1:60", "+1:5x", "Europe/Berlin", "+001:00"] {
            assert_eq!(zone(wrong).unwrap_err().code, 1298, "{wrong}");
        }
    }
}
