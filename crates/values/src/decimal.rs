//! DECIMAL: digits in groups of nine, big-endian, sign bit inverted.
//!
//! In: stored bytes or decimal text. Out: the other form. Mirrors the format of strings/decimal.cc.

use crate::error::ValueError;

/// Bytes of a group of 0 to 9 digits.
const GROUP_LEN: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Digits of the largest precision, plus a spare group.
const DIGITS_MAX: usize = 81;

/// Length in bytes of a stored DECIMAL.
pub(crate) fn stored_len(precision: u8, scale: u8) -> usize {
    let (precision, scale) = (usize::from(precision), usize::from(scale));
    group_bytes(precision.saturating_sub(scale)) + group_bytes(scale)
}

fn group_bytes(digits: usize) -> usize {
    digits / 9 * 4 + GROUP_LEN.get(digits % 9).copied().unwrap_or(0)
}

/// Appends the number as text with all digits of its scale.
pub(crate) fn write_text(precision: u8, scale: u8, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let whole_digits = usize::from(precision.saturating_sub(scale));
    let scale_digits = usize::from(scale);
    if stored.is_empty() || stored.len() != stored_len(precision, scale) || stored.len() > DIGITS_MAX {
        return Err(ValueError::WrongLength { what: "DECIMAL", len: stored.len() });
    }
    let negative = stored.first().is_some_and(|byte| byte & 0x80 == 0);
    let flip = if negative { 0xff } else { 0 };
    let mut groups = Groups { bytes: stored.iter(), flip, sign: 0x80 };
    let mut digits = [0u8; DIGITS_MAX];
    let mut at = 0;
    let mut push = |group: Option<u32>, count: usize| -> Result<(), ValueError> {
        let mut value = group.ok_or(ValueError::Invalid { what: "DECIMAL" })?;
        for slot in digits.get_mut(at..at + count).unwrap_or(&mut []).iter_mut().rev() {
            *slot = b'0' + (value % 10) as u8;
            value /= 10;
        }
        at += count;
        if value == 0 { Ok(()) } else { Err(ValueError::Invalid { what: "DECIMAL" }) }
    };
    for count in std::iter::once(whole_digits % 9).chain(std::iter::repeat_n(9, whole_digits / 9)) {
        push(groups.next(count), count)?;
    }
    for count in std::iter::repeat_n(9, scale_digits / 9).chain(std::iter::once(scale_digits % 9)) {
        push(groups.next(count), count)?;
    }
    let whole = digits.get(..whole_digits).unwrap_or(&[]);
    let fraction = digits.get(whole_digits..whole_digits + scale_digits).unwrap_or(&[]);
    if negative {
        out.push(b'-');
    }
    let leading = whole.iter().take_while(|digit| **digit == b'0').count();
    match whole.get(leading..) {
        Some([]) | None => out.push(b'0'),
        Some(rest) => out.extend_from_slice(rest),
    }
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
    Ok(())
}

struct Groups<'a> {
    bytes: std::slice::Iter<'a, u8>,
    flip: u8,
    /// Bit to invert in the first byte.
    sign: u8,
}

impl Groups<'_> {
    fn next(&mut self, digits: usize) -> Option<u32> {
        let mut value = 0u32;
        for _ in 0..*GROUP_LEN.get(digits)? {
            let byte = self.bytes.next()? ^ std::mem::take(&mut self.sign);
            value = value << 8 | u32::from(byte ^ self.flip);
        }
        Some(value)
    }
}

/// Appends the stored form of decimal text (`[-]digits[.digits]`). Digits beyond the scale are rounded half away from
/// zero, as on the server.
///
/// # Errors
/// The text is not a number, or it has more whole digits than the column.
pub(crate) fn from_text(precision: u8, scale: u8, text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let bad = || ValueError::BadLiteral { what: "DECIMAL", literal: String::from_utf8_lossy(text).into() };
    let (negative, unsigned) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let point = unsigned.iter().position(|byte| *byte == b'.').unwrap_or(unsigned.len());
    let whole = unsigned.get(..point).unwrap_or(&[]);
    let fraction = unsigned.get(point + 1..).unwrap_or(&[]);
    if whole.len() + fraction.len() == 0 || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return Err(bad());
    }
    let zeros = whole.iter().take_while(|digit| **digit == b'0').count();
    let whole = whole.get(zeros..).unwrap_or(&[]);
    let (whole_digits, scale_digits) = (usize::from(precision.saturating_sub(scale)), usize::from(scale));
    if whole.len() > whole_digits || whole_digits + scale_digits > DIGITS_MAX - 1 {
        return Err(bad());
    }
    // One leading digit for the carry of rounding.
    let mut digits = [0u8; DIGITS_MAX];
    let used = 1 + whole_digits + scale_digits;
    for (slot, digit) in digits.iter_mut().skip(1 + whole_digits - whole.len()).zip(whole) {
        *slot = digit - b'0';
    }
    for (slot, digit) in digits.iter_mut().take(used).skip(1 + whole_digits).zip(fraction) {
        *slot = digit - b'0';
    }
    if fraction.get(scale_digits).is_some_and(|digit| *digit >= b'5') {
        for slot in digits.iter_mut().take(used).rev() {
            *slot += 1;
            if *slot < 10 {
                break;
            }
            *slot = 0;
        }
    }
    if digits.first() != Some(&0) {
        return Err(bad());
    }
    let digits = digits.get(1..used).unwrap_or(&[]);
    let negative = negative && digits.iter().any(|digit| *digit != 0);
    let flip = if negative { 0xff } else { 0 };
    let start = out.len();
    let (whole, fraction) = digits.split_at_checked(whole_digits).unwrap_or((digits, &[]));
    let (first, rest) = whole.split_at_checked(whole_digits % 9).unwrap_or((whole, &[]));
    for group in std::iter::once(first).chain(rest.chunks(9)).chain(fraction.chunks(9)) {
        let value = group.iter().fold(0u32, |value, digit| value * 10 + u32::from(*digit));
        let len = GROUP_LEN.get(group.len()).copied().unwrap_or(4);
        out.extend(value.to_be_bytes().iter().skip(4 - len).map(|byte| byte ^ flip));
    }
    if let Some(byte) = out.get_mut(start) {
        *byte ^= 0x80;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(precision: u8, scale: u8, stored: &[u8]) -> String {
        let mut out = Vec::new();
        write_text(precision, scale, stored, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn stored(precision: u8, scale: u8, text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        from_text(precision, scale, text.as_bytes(), &mut out).unwrap();
        out
    }

    #[test]
    fn known_bytes() {
        assert_eq!(stored(14, 4, "1234567890.1234"), [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2]);
        assert_eq!(stored(14, 4, "-1234567890.1234"), [0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d]);
        assert_eq!(text(14, 4, &[0x7e, 0xf2, 0x04, 0xc7, 0x2d, 0xfb, 0x2d]), "-1234567890.1234");
        assert_eq!(text(5, 5, &stored(5, 5, "-.5")), "-0.50000");
        assert_eq!(text(5, 2, &stored(5, 2, "-0.001")), "0.00");
        assert_eq!(text(5, 2, &stored(5, 2, "9.995")), "10.00");
        assert_eq!(text(65, 30, &stored(65, 30, "1")), "1.000000000000000000000000000000");
        for (text, scale) in [("1000", 2), ("", 2), (".", 2), ("1e5", 2), ("999.995", 2), ("--1", 0)] {
            assert!(from_text(5, scale, text.as_bytes(), &mut Vec::new()).is_err(), "{text}");
        }
        // A group above 999999999; a partial group above the maximum of its digits.
        assert!(write_text(9, 0, &[0xff, 0xff, 0xff, 0xff], &mut Vec::new()).is_err());
        assert!(write_text(1, 0, &[0x80 | 10], &mut Vec::new()).is_err());
        assert!(write_text(9, 0, &[0x80], &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn round_trip(precision in 1u8..=65, scale in 0u8..=30, negative: bool, digits in "[0-9]{65}") {
            let scale = scale.min(precision);
            let (whole, rest) = digits.split_at(usize::from(precision - scale));
            let fraction = &rest[..usize::from(scale)];
            let whole = whole.trim_start_matches('0');
            let zero = whole.is_empty() && fraction.bytes().all(|b| b == b'0');
            let sign = if negative && !zero { "-" } else { "" };
            let point = if scale > 0 { "." } else { "" };
            let whole = if whole.is_empty() { "0" } else { whole };
            let number = format!("{sign}{whole}{point}{fraction}");
            prop_assert_eq!(text(precision, scale, &stored(precision, scale, &number)), number);
        }

        #[test]
        fn never_panics(precision: u8, scale: u8, bytes: Vec<u8>) {
            let _ = write_text(precision, scale, &bytes, &mut Vec::new());
            let _ = from_text(precision, scale, &bytes, &mut Vec::new());
        }
    }
}
