//! FLOAT and DOUBLE as the server prints them.
//!
//! DOUBLE has the fewest digits that read back as the same value, FLOAT six significant digits (ties to even), both
//! without trailing zeros. Exponent form is used for whole numbers of more than 15 digits and where more than 14 zeros
//! would follow the decimal point (found by comparison with a 9.7 server).

use std::io::Write as _;

/// Digits of a DOUBLE that always survive a round trip through text; the bounds of the plain form follow from it.
const PLAIN_DIGITS_MAX: i32 = 15;

/// Shorter forms than this have no ties: their neighbours are too far apart to be equally near.
const DIGITS_WITH_TIES: usize = 15;

/// Appends a DOUBLE. The server cannot store NaN and infinities and prints them as 0; so does this.
pub(crate) fn write_f64(value: f64, out: &mut Vec<u8>) {
    let mut text = Scratch::default();
    // The scratch buffer is larger than any float in this form.
    let _ = write!(text, "{value:e}");
    let digits = text.bytes().iter().take_while(|byte| **byte != b'e').filter(|byte| byte.is_ascii_digit()).count();
    if digits >= DIGITS_WITH_TIES {
        // Two shortest forms can be equally near; the server takes the one with the even digit.
        let mut even = Scratch::default();
        let _ = write!(even, "{value:.0$e}", digits - 1);
        let same = std::str::from_utf8(even.bytes()).ok().and_then(|text| text.parse::<f64>().ok()) == Some(value);
        if same {
            text = even;
        }
    }
    write_scientific(value.is_finite(), text.bytes(), out);
}

/// Text of a DOUBLE, of any length.
#[must_use]
pub fn text_of_f64(value: f64) -> String {
    let mut out = Vec::new();
    write_f64(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Appends a FLOAT with six significant digits.
pub(crate) fn write_f32(value: f32, out: &mut Vec<u8>) {
    let mut text = Scratch::default();
    let _ = write!(text, "{:.5e}", f64::from(value));
    write_scientific(value.is_finite(), text.bytes(), out);
}

/// Appends a FLOAT with enough digits to restore it when parsed as a DOUBLE first, as the server does.
pub(crate) fn write_f32_exact(value: f32, out: &mut Vec<u8>) {
    let mut text = Scratch::default();
    let _ = write!(text, "{value:e}");
    let through_double = std::str::from_utf8(text.bytes()).ok().and_then(|text| text.parse::<f64>().ok());
    if through_double.map(nearest_f32) == Some(value) {
        write_scientific(value.is_finite(), text.bytes(), out);
    } else {
        write_f64(f64::from(value), out);
    }
}

/// The FLOAT nearest to a DOUBLE; infinite beyond FLOAT's range.
#[allow(clippy::cast_possible_truncation, reason = "rounds")]
pub(crate) fn nearest_f32(value: f64) -> f32 {
    value as f32
}

/// Converts `-d.ddde-7` to the server's form.
fn write_scientific(finite: bool, text: &[u8], out: &mut Vec<u8>) {
    if !finite {
        out.push(b'0');
        return;
    }
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let mut halves = text.splitn(2, |byte| *byte == b'e');
    let mantissa = halves.next().unwrap_or(&[]);
    let exponent = halves.next().and_then(|e| std::str::from_utf8(e).ok()).and_then(|e| e.parse::<i32>().ok());
    let exponent = exponent.unwrap_or(0);
    let mut digits = [b'0'; 24];
    let mut count = 0;
    for (slot, digit) in digits.iter_mut().zip(mantissa.iter().filter(|byte| **byte != b'.')) {
        *slot = *digit;
        count += 1;
    }
    while count > 1 && digits.get(count - 1) == Some(&b'0') {
        count -= 1;
    }
    let digits = digits.get(..count).unwrap_or(&[]);
    if negative {
        out.push(b'-');
    }
    // Digits before the decimal point.
    let point = exponent + 1;
    if digits == b"0" {
        out.push(b'0');
    } else if (point > PLAIN_DIGITS_MAX && digits.len() <= point.unsigned_abs() as usize)
        || point < 1 - PLAIN_DIGITS_MAX
    {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((digits, &[]));
        out.extend_from_slice(first);
        if !rest.is_empty() {
            out.push(b'.');
            out.extend_from_slice(rest);
        }
        let _ = write!(out, "e{exponent}");
    } else if point <= 0 {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
        out.extend_from_slice(digits);
    } else {
        let whole = point.unsigned_abs() as usize;
        match digits.split_at_checked(whole) {
            Some((front, rest)) => {
                out.extend_from_slice(front);
                if !rest.is_empty() {
                    out.push(b'.');
                    out.extend_from_slice(rest);
                }
            }
            None => {
                out.extend_from_slice(digits);
                out.extend(std::iter::repeat_n(b'0', whole - digits.len()));
            }
        }
    }
}

/// Buffer for formatting a float without allocating.
#[derive(Default)]
struct Scratch {
    buffer: [u8; 32],
    len: usize,
}

impl Scratch {
    fn bytes(&self) -> &[u8] {
        self.buffer.get(..self.len).unwrap_or(&[])
    }
}

impl std::io::Write for Scratch {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let free = self.buffer.get_mut(self.len..).unwrap_or(&mut []);
        let written = { free }.write(bytes)?;
        self.len += written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
// Literals show the stored value, the text its printed form.
#[allow(clippy::excessive_precision)]
mod tests {
    use super::*;

    fn double(value: f64) -> String {
        let mut out = Vec::new();
        write_f64(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn float(bits: u32) -> String {
        let mut out = Vec::new();
        write_f32(f32::from_bits(bits), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_as_a_server_printed_them() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1e14, "100000000000000"),
            (1e15, "1e15"),
            (123456789012345.0, "123456789012345"),
            (1234567890123456.0, "1.234567890123456e15"),
            (999999999999999.9, "999999999999999.9"),
            (1e-14, "0.00000000000001"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
            (1.5e-7, "0.00000015"),
            (2f64.powi(-44), "0.00000000000005684341886080802"),
            (9007199254740993.0, "9.007199254740992e15"),
            (-1e-100, "-1e-100"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e308"),
            (123456789.123456789, "123456789.12345679"),
            (-1.5, "-1.5"),
            (100.0, "100"),
            (-3935469305152814.5, "-3935469305152814.5"),
            (-773588070693711.25, "-773588070693711.2"),
            (f64::NAN, "0"),
        ] {
            assert_eq!(double(value), text);
        }
    }

    #[test]
    fn floats_as_a_server_printed_them() {
        for (bits, text) in [
            (0x4b800000, "16777200"),
            (0x34210fb0, "0.00000015"),
            (0x60ad78ec, "1e20"),
            (0x49742450, "1000000"),
            (0x497424f0, "1000020"),
            (0x49742590, "1000020"),
            (0x00000001, "1.4013e-45"),
            (0x80000000, "-0"),
            (0x58635fa9, "1e15"),
            (0x56b5e621, "100000000000000"),
            (0x24e69595, "1e-16"),
            (0x4640e69a, "12345.7"),
            (0xd7fdfa7d, "-558505000000000"),
            (0xb18aab4d, "-0.0000000040358"),
        ] {
            assert_eq!(float(bits), text, "{bits:x}");
        }
    }
}
