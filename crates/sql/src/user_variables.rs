//! User variables of a session: `@name`.
//!
//! In: values that SET gave them. Out: their values, typed as MySQL types them. Never here: more than [`COUNT_MAX`]
//! variables, or values longer than [`LENGTH_MAX`].

use std::collections::BTreeMap;

use values::collation::BINARY;
use values::weight_string;
use wire::response::column_flag;
use wire::row::type_code;

use crate::Result;
use crate::bind::{Bound, Field, NOT_FIXED, Value, is_text};
use crate::charsets::{Charsets, bytes_a_character, text_as_sql};
use crate::error::SqlError;

/// Variables of a session, at most: MySQL has no limit, a session's memory has.
const COUNT_MAX: usize = 1_000;
/// Bytes of a value, at most, for the same reason: a result may name a variable in each of its columns.
const LENGTH_MAX: usize = 16 << 10;
/// utf8mb3_general_ci, in which names are compared.
const NAMES: u16 = 33;
/// Characters of a name, at most.
const NAME_MAX: usize = 64;
/// Characters that MySQL announces for a text in a variable, and bytes for what is not text.
const TEXT_LENGTH: u32 = 16_777_215;
/// Bytes that MySQL announces for a variable that was never set, less those that make no whole character.
const UNSET_LENGTH: u32 = 65_535;

/// The variables of one session.
#[derive(Debug, Clone, Default)]
pub struct UserVariables {
    list: BTreeMap<String, Bound>,
    bytes: usize,
}

/// Bytes of a variable without its name and value.
const ENTRY_BYTES: usize = 160;

impl UserVariables {
    /// Bytes that they hold.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn insert(&mut self, name: String, bound: Bound) {
        self.bytes += ENTRY_BYTES + name.len() + held(&bound.value);
        let key_len = name.len();
        if let Some(old) = self.list.insert(name, bound) {
            self.bytes -= ENTRY_BYTES + key_len + held(&old.value);
        }
    }

    /// Those that are not as they were, with SQL in ASCII of their value, type and collation; true: with that type and
    /// collation the variable is NULL.
    pub fn changed_since<'a>(&'a self, before: &'a UserVariables) -> impl Iterator<Item = (&'a str, String, bool)> {
        let changed = self.list.iter().filter(|(name, bound)| before.list.get(*name) != Some(*bound));
        changed.map(|(name, bound)| (name.as_str(), as_sql(bound), bound.value == Value::Null))
    }

    /// The variable of this name, as written.
    pub(crate) fn read(&self, name: &[u8], charsets: &Charsets) -> Result<Bound> {
        let found = self.list.get(&normal_name(name)?).cloned();
        Ok(found.unwrap_or_else(|| {
            let character = bytes_a_character(charsets.connection);
            let field = Field::text(column_flag::BINARY, UNSET_LENGTH / character * character, BINARY);
            Bound { field, value: Value::Null }
        }))
    }

    /// Whether there is a variable of this name, as written.
    pub(crate) fn has(&self, name: &[u8]) -> Result<bool> {
        Ok(self.list.contains_key(&normal_name(name)?))
    }

    /// Gives a variable that there is NULL of the type that it has; false if there is none.
    pub(crate) fn set_null(&mut self, name: &[u8]) -> Result<bool> {
        let name = normal_name(name)?;
        let Some(field) = self.list.get(&name).map(|bound| bound.field) else { return Ok(false) };
        self.insert(name, Bound { field, value: Value::Null });
        Ok(true)
    }

    /// NULL that is assigned to a variable, with the collation that it gets.
    pub(crate) fn null_of(&self, name: &[u8], bound: Bound) -> Result<Bound> {
        let old = self.list.get(&normal_name(name)?).filter(|old| is_text(&old.field));
        Ok(match old {
            Some(old) if is_text(&bound.field) => Bound { field: old.field, ..bound },
            _ => bound,
        })
    }

    /// NULL as text of the connection.
    pub(crate) fn unset(charsets: &Charsets) -> Bound {
        Bound { field: Field::long_text(0, TEXT_LENGTH, charsets.connection), value: Value::Null }
    }

    /// Whether SQL in ASCII can give a variable the value that it has: it cannot make text that is invalid in its
    /// character set.
    #[must_use]
    pub fn can_be_told(&self, name: &[u8]) -> bool {
        let found = normal_name(name).ok().and_then(|name| self.list.get(&name));
        let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
        found.is_none_or(|bound| match &bound.value {
            Value::Text(bytes) => bound.field.collation == BINARY || is_text(bytes),
            _ => true,
        })
    }

    /// The value of a variable, by its name in lower case, as text; None if it is not set, or NULL.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        let text = self.list.get(name)?.value.text()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// Sets a variable by its name as written.
    ///
    /// # Errors
    /// 3061 for a name that is not one; 1235 for more or longer values than are kept here.
    pub(crate) fn set(&mut self, name: &[u8], bound: Bound, charsets: &Charsets) -> Result<()> {
        let name = checked_name(name)?;
        if bound.value.text().is_some_and(|text| text.len() > LENGTH_MAX) {
            return Err(SqlError::not_supported("user variables of more than 16 KiB"));
        }
        if self.list.len() == COUNT_MAX && !self.list.contains_key(&name) {
            return Err(SqlError::not_supported("more than 1,000 user variables"));
        }
        self.insert(name, kept(bound, charsets.connection));
        Ok(())
    }

    /// What a SET leaves of a variable that it named and did not come to: NULL, as text of the connection.
    pub fn touch(&mut self, name: &[u8], charsets: &Charsets) {
        if let Ok(name) = checked_name(name)
            && self.list.len() < COUNT_MAX
            && !self.list.contains_key(&name)
        {
            self.insert(name, UserVariables::unset(charsets));
        }
    }
}

/// An expression with the type and collation of a variable, and with its value unless that is NULL.
fn as_sql(bound: &Bound) -> String {
    let Bound { field, value } = bound;
    let integer = if field.flags & column_flag::UNSIGNED != 0 { "UNSIGNED" } else { "SIGNED" };
    match (value, field.type_code) {
        (Value::Null, type_code::LONGLONG) => format!("CAST(0 AS {integer})"),
        (Value::Null, type_code::NEWDECIMAL) => "0.0".to_owned(),
        (Value::Null, type_code::DOUBLE) => "0e0".to_owned(),
        (Value::Int(number), _) => format!("CAST({number} AS {integer})"),
        (Value::UInt(number), _) => format!("CAST({number} AS {integer})"),
        (Value::Double(number), _) => format!("{number:e}"),
        (Value::Decimal(digits), _) => digits.clone(),
        (value, _) => text_as_sql(&value.text().unwrap_or_default(), field.collation),
    }
}

/// Bytes of a value outside its place.
fn held(value: &Value) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Decimal(text) => text.len(),
        _ => 0,
    }
}

/// A name without `@` and quotes as names are compared: ASCII in lower case, other letters by their weights.
fn normal_name(written: &[u8]) -> Result<String> {
    let name = written.strip_prefix(b"@").unwrap_or(written);
    let name = match name {
        [quote @ (b'`' | b'\'' | b'"'), inner @ .., _] => unquoted(inner, *quote),
        name => name.to_vec(),
    };
    if name.is_ascii() {
        return Ok(String::from_utf8_lossy(&name).to_ascii_lowercase());
    }
    let mut weights = Vec::new();
    weight_string(NAMES, &name, &mut weights).map_err(|error| SqlError::unreadable(&error))?;
    let weights = weights.chunks_exact(2).map(|pair| pair.iter().fold(0, |all, byte| all << 8 | u32::from(*byte)));
    let letters = weights.map(|weight| char::from_u32(weight).unwrap_or(char::REPLACEMENT_CHARACTER));
    Ok(letters.collect::<String>().to_ascii_lowercase())
}

fn checked_name(written: &[u8]) -> Result<String> {
    let name = normal_name(written)?;
    if name.is_empty() || name.chars().count() > NAME_MAX || name.ends_with(' ') {
        return Err(SqlError::new(3061, "42000", format!("User variable name '{name}' is illegal")));
    }
    Ok(name)
}

/// Doubled quotes are one.
fn unquoted(inner: &[u8], quote: u8) -> Vec<u8> {
    let mut text = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        text.push(*byte);
        if *byte == quote {
            bytes.next();
        }
    }
    text
}

/// A value with the type that a variable has of it, in a session with this collation of the connection.
fn kept(bound: Bound, connection: u16) -> Bound {
    let Bound { field, value } = bound;
    let (unsigned, decimals) = (field.flags & column_flag::UNSIGNED, field.decimals);
    let field = match field.type_code {
        type_code::TINY | type_code::SHORT | type_code::LONG | type_code::INT24 | type_code::LONGLONG => {
            Field::number(type_code::LONGLONG, unsigned, 21)
        }
        type_code::NEWDECIMAL => Field { decimals: 30, ..Field::number(type_code::NEWDECIMAL, 0, 67) },
        type_code::FLOAT | type_code::DOUBLE => {
            Field { decimals: NOT_FIXED, ..Field::number(type_code::DOUBLE, 0, 23) }
        }
        // The moment is text; a date or time that a client sends is not.
        type_code::DATE | type_code::DATETIME | type_code::TIME if field.flags & column_flag::NOT_NULL != 0 => {
            Field { type_code: type_code::MEDIUM_BLOB, ..Field::text(0, TEXT_LENGTH, connection) }
        }
        _ if is_text(&field) && field.collation != BINARY => Field::long_text(0, TEXT_LENGTH, field.collation),
        _ => Field::long_text(column_flag::BINARY, TEXT_LENGTH, BINARY),
    };
    Bound { field, value: as_text(value, decimals) }
}

/// Dates and times are kept as text, with so many digits of their seconds.
fn as_text(value: Value, decimals: u8) -> Value {
    match value {
        Value::DateTime(..) | Value::Time(_) => value.text_with(decimals).map_or(Value::Null, Value::Text),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charsets() -> Charsets {
        Charsets::of_login(255).unwrap()
    }

    fn text(text: &str) -> Bound {
        Bound { field: Field::text(0, 1, 255), value: Value::Text(text.as_bytes().to_vec()) }
    }

    #[test]
    fn names_ignore_case_and_quotes() {
        let mut variables = UserVariables::default();
        variables.set(b"@A", text("x"), &charsets()).unwrap();
        for name in [&b"@a"[..], b"@`A`", b"@'a'", b"@\"a\""] {
            assert_eq!(variables.read(name, &charsets()).unwrap().value, text("x").value);
        }
        variables.set(b"@`a``b`", text("y"), &charsets()).unwrap();
        assert_eq!(variables.read(b"@'a`b'", &charsets()).unwrap().value, text("y").value);
        assert_eq!(variables.read(b"@c", &charsets()).unwrap().value, Value::Null);
        assert_eq!(variables.set(b"@", text("x"), &charsets()).unwrap_err().code, 3061);
        for (one, other) in [("@`ä`", "@A"), ("@`Ä`", "@ä"), ("@`ß`", "@s")] {
            variables.set(one.as_bytes(), text("z"), &charsets()).unwrap();
            assert_eq!(variables.read(other.as_bytes(), &charsets()).unwrap().value, text("z").value, "{one}");
        }
        let long = [b'a'; 66];
        assert_eq!(variables.set(&long, text("x"), &charsets()).unwrap_err().code, 3061);
    }

    #[test]
    fn their_number_and_length_are_bounded() {
        let mut variables = UserVariables::default();
        for number in 0..COUNT_MAX {
            variables.set(format!("@a{number}").as_bytes(), text("x"), &charsets()).unwrap();
        }
        assert_eq!(variables.set(b"@b", text("x"), &charsets()).unwrap_err().code, 1235);
        variables.set(b"@a7", text("y"), &charsets()).unwrap();
        let before = variables.bytes();
        variables.set(b"@a7", text(&"z".repeat(LENGTH_MAX)), &charsets()).unwrap();
        variables.touch(b"@a7", &charsets());
        assert_eq!(variables.bytes(), before + LENGTH_MAX - 1);
        assert_eq!(variables.set(b"@a7", text(&"x".repeat(LENGTH_MAX + 1)), &charsets()).unwrap_err().code, 1235);
    }
}
