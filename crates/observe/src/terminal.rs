//! Text for a terminal. Names, versions and error texts come from servers and files that others write.
//!
//! In: any text. Out: the same with `?` for control characters, which would steer the reader's terminal. Never here: a
//! text's own lines that could pass for ours.

use std::io::{self, Write};

/// First byte of U+0080 to U+009F in UTF-8, which some terminals take for control sequences.
const C1_FIRST: u8 = 0xc2;

/// A text of outside within a line: a blank for each line end and tab, `?` for each other control character.
#[must_use]
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { without_control(c) }).collect()
}

/// A message as lines that begin with `prefix`, further ones indented: none of them looks like another message.
#[must_use]
pub fn prefixed_lines(prefix: &str, text: &str) -> String {
    let mut shown = String::new();
    for (number, line) in text.trim_end().split('\n').enumerate() {
        shown.push_str(prefix);
        shown.push_str(if number == 0 { "" } else { "    " });
        shown.push_str(&one_line(line.trim_end_matches('\r')));
        shown.push('\n');
    }
    shown
}

pub(crate) fn without_control(c: char) -> char {
    if c.is_control() { '?' } else { c }
}

/// Passes text on with `?` for control characters, but for line ends and tabs.
#[derive(Debug)]
pub struct PlainText<W> {
    to: W,
    /// The last byte was [`C1_FIRST`], and is not passed on yet.
    held: bool,
}

impl<W: Write> PlainText<W> {
    /// A writer on another one.
    pub fn new(to: W) -> PlainText<W> {
        PlainText { to, held: false }
    }
}

impl<W: Write> Write for PlainText<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut plain = Vec::with_capacity(bytes.len() + 1);
        let mut held = self.held;
        for byte in bytes {
            if std::mem::take(&mut held) {
                if (0x80..0xa0).contains(byte) {
                    plain.push(b'?');
                    continue;
                }
                plain.push(C1_FIRST);
            }
            match *byte {
                C1_FIRST => held = true,
                b'\n' | b'\t' => plain.push(*byte),
                0..0x20 | 0x7f => plain.push(b'?'),
                byte => plain.push(byte),
            }
        }
        self.to.write_all(&plain)?;
        self.held = held;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.held) {
            self.to.write_all(&[C1_FIRST])?;
        }
        self.to.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\u{1b}[31mb\u{9b}2J\u{7f}\u{7}é\u{a0}";

    #[test]
    fn control_characters_are_marked() {
        assert_eq!(one_line(HOSTILE), "a?[31mb?2J??é\u{a0}");
        assert_eq!(one_line("a\r\nb\tc"), "a  b c");
        let text = "no\nslipstream: hint: yes\r\n\u{1b}c";
        assert_eq!(prefixed_lines("s: ", text), "s: no\ns:     slipstream: hint: yes\ns:     ?c\n");
    }

    #[test]
    fn a_writer_marks_them_wherever_writes_are_cut() {
        let text = format!("{HOSTILE}\n\t{HOSTILE}");
        for step in 1..=text.len() {
            let mut out = PlainText::new(Vec::new());
            for part in text.as_bytes().chunks(step) {
                out.write_all(part).unwrap();
            }
            out.flush().unwrap();
            assert_eq!(String::from_utf8(out.to).unwrap(), "a?[31mb?2J??é\u{a0}\n\ta?[31mb?2J??é\u{a0}");
        }
    }
}
