//! Context of a statement that is not in its text: Intvar, RAND and User var events.

use crate::BinlogError;
use crate::cursor::Cursor;
use crate::event_type;

/// Variable that an Intvar event sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntvarKind {
    /// LAST_INSERT_ID().
    LastInsertId,
    /// The first AUTO_INCREMENT value.
    InsertId,
}

/// An integer for the next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intvar {
    /// Variable to set.
    pub kind: IntvarKind,
    /// Value of the variable.
    pub value: u64,
}

impl Intvar {
    /// Reads the body of an Intvar event.
    pub fn parse(body: &[u8]) -> Result<Intvar, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::INTVAR), body);
        let kind = match body.u8("kind")? {
            1 => IntvarKind::LastInsertId,
            2 => IntvarKind::InsertId,
            code => return Err(body.value("kind", u64::from(code))),
        };
        let value = body.u64("value")?;
        body.finish("value")?;
        Ok(Intvar { kind, value })
    }
}

/// Seeds of RAND() for the next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rand {
    /// First seed.
    pub seed1: u64,
    /// Second seed.
    pub seed2: u64,
}

impl Rand {
    /// Reads the body of a RAND event.
    pub fn parse(body: &[u8]) -> Result<Rand, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::RAND), body);
        let rand = Rand { seed1: body.u64("first seed")?, seed2: body.u64("second seed")? };
        body.finish("second seed")?;
        Ok(rand)
    }
}

/// Value of a user variable, as encoded in the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserVarValue<'a> {
    /// Result type: 0 string, 1 real, 2 integer, 3 row, 4 decimal.
    pub result_type: u8,
    /// Collation id of a string.
    pub collation: u32,
    /// The value: text, a double, an integer, a packed decimal.
    pub bytes: &'a [u8],
    /// Bit 0: the integer is unsigned.
    pub flags: u8,
}

/// A user variable for the next statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserVar<'a> {
    /// Name, without `@`.
    pub name: &'a [u8],
    /// Value; `None` for NULL.
    pub value: Option<UserVarValue<'a>>,
}

impl<'a> UserVar<'a> {
    /// Reads the body of a User var event.
    pub fn parse(body: &'a [u8]) -> Result<UserVar<'a>, BinlogError> {
        let mut body = Cursor::new(event_type::name(event_type::USER_VAR), body);
        let name_len = body.u32("length of the name")? as usize;
        let name = body.bytes(name_len, "name")?;
        if body.u8("is null")? != 0 {
            return Ok(UserVar { name, value: None });
        }
        let result_type = body.u8("type")?;
        if result_type > 4 {
            return Err(body.value("type", u64::from(result_type)));
        }
        let collation = body.u32("collation")?;
        let value_len = body.u32("length of the value")? as usize;
        let bytes = body.bytes(value_len, "value")?;
        // Servers before 5.5 wrote no flags.
        let flags = if body.is_empty() { 0 } else { body.u8("flags")? };
        Ok(UserVar { name, value: Some(UserVarValue { result_type, collation, bytes, flags }) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables() {
        let intvar = Intvar::parse(&[2, 7, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(intvar, Intvar { kind: IntvarKind::InsertId, value: 7 });
        assert!(Intvar::parse(&[3, 7, 0, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(Rand::parse(&[0; 15]).is_err());
        assert_eq!(Rand::parse(&[0; 16]).unwrap(), Rand { seed1: 0, seed2: 0 });
        let var = UserVar::parse(b"\x01\0\0\0v\0\0\xff\0\0\0\x02\0\0\0hi\0").unwrap();
        assert_eq!((var.name, var.value.unwrap().bytes, var.value.unwrap().collation), (&b"v"[..], &b"hi"[..], 255));
        assert_eq!(UserVar::parse(b"\x01\0\0\0v\x01").unwrap().value, None);
        assert!(UserVar::parse(b"\xff\xff\xff\xffv\x01").is_err());
    }
}
