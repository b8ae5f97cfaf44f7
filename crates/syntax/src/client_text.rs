//! How MySQL's lexer reads bytes in the character set of the client (`lex_init_state_maps`, strings/sql_chars.cc).
//!
//! In: a character set that may be `character_set_client`. Out: which bytes separate words, which belong to one, and
//! how many make one character. Never here: a conversion. Everything in the tables was tried on a 9.7 server, byte by
//! byte; ucs2, utf16, utf16le and utf32 cannot be the client's.

/// The character set of a statement's text, as far as the lexer must know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientText {
    trail: Trail,
    /// The byte beyond ASCII that is a blank; 0 for none.
    blank: u8,
    /// Bytes beyond ASCII that may follow `--` in a comment, besides `blank`.
    controls: &'static [u8],
    /// The first byte that is in no word.
    words_end: u16,
    /// In swe7 brackets, braces, backslash, `^` and `~` are letters.
    swe7: bool,
}

/// Character sets in which the second byte of a character may be an ASCII character, such as a quote or a backslash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trail {
    /// None of them: a lexer that works byte by byte reads the same.
    Never,
    Big5,
    /// sjis and cp932.
    Sjis,
    Gbk,
    Gb18030,
}

/// Text of ASCII or UTF-8, and of every character set that is not named below.
pub const PLAIN: ClientText =
    ClientText { trail: Trail::Never, blank: 0, controls: &[], words_end: 0x100, swe7: false };

impl ClientText {
    pub fn of(charset: &str) -> ClientText {
        let blank = |blank| ClientText { blank, ..PLAIN };
        let trail = |trail| ClientText { trail, ..PLAIN };
        match charset {
            "big5" => trail(Trail::Big5),
            "sjis" | "cp932" => trail(Trail::Sjis),
            "gbk" => ClientText { words_end: 0xff, ..trail(Trail::Gbk) },
            "gb18030" => trail(Trail::Gb18030),
            "swe7" => ClientText { swe7: true, ..PLAIN },
            "utf8mb4" | "utf8mb3" => ClientText { words_end: 0xf8, ..PLAIN },
            "armscii8" | "dec8" | "geostd8" | "greek" | "latin1" | "latin2" | "latin5" => blank(0xa0),
            "cp852" | "cp866" | "keybcs2" => blank(0xff),
            "cp1250" => ClientText { controls: &[0x81, 0x83, 0x88, 0x90, 0x98], ..blank(0xa0) },
            "hebrew" => ClientText { controls: &[0xfd, 0xfe], ..blank(0xa0) },
            "latin7" => ClientText {
                controls: &[0x81, 0x83, 0x88, 0x8a, 0x8c, 0x90, 0x98, 0x9a, 0x9c, 0x9f, 0xa1, 0xa5],
                ..blank(0xa0)
            },
            "cp850" => ClientText { controls: &[0xff], ..PLAIN },
            "hp8" => ClientText { controls: HP8_CONTROLS, ..PLAIN },
            "macroman" => ClientText { controls: &[0x80, 0xcb, 0xe5], ..PLAIN },
            _ => PLAIN,
        }
    }

    pub fn is_blank(self, byte: u8) -> bool {
        matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c) || (byte == self.blank && byte != 0)
    }

    /// True if `--` and this byte begin a comment.
    pub fn is_blank_or_control(self, byte: u8) -> bool {
        self.is_blank(byte) || byte.is_ascii_control() || self.controls.contains(&byte)
    }

    /// True for a byte of a name without quotes. Some bytes beyond ASCII are not, and no statement in a log has those.
    pub fn is_word(self, byte: u8) -> bool {
        byte.is_ascii_alphanumeric()
            || byte == b'_'
            || byte == b'$'
            || (byte >= 0x80 && byte != self.blank && u16::from(byte) < self.words_end)
            || (self.swe7 && matches!(byte, b'[' | b'\\' | b']' | b'^' | b'{' | b'}' | b'~'))
    }

    /// Bytes of the character at the beginning of the text, if its second byte may be ASCII; 1 for all others, and for
    /// bytes that are no whole character.
    pub fn character_len(self, text: &[u8]) -> usize {
        let [head, trail, ..] = *text else { return 1 };
        if head < 0x80 {
            return 1;
        }
        let two = match self.trail {
            Trail::Never => false,
            Trail::Big5 => matches!(head, 0xa1..=0xf9) && matches!(trail, 0x40..=0x7e | 0xa1..=0xfe),
            Trail::Sjis => matches!(head, 0x81..=0x9f | 0xe0..=0xfc) && matches!(trail, 0x40..=0x7e | 0x80..=0xfc),
            Trail::Gbk | Trail::Gb18030 => matches!(head, 0x81..=0xfe) && matches!(trail, 0x40..=0x7e | 0x80..=0xfe),
        };
        if two {
            return 2;
        }
        match text {
            [0x81..=0xfe, 0x30..=0x39, 0x81..=0xfe, 0x30..=0x39, ..] if self.trail == Trail::Gb18030 => 4,
            _ => 1,
        }
    }

    /// Bytes of the word at the beginning of the text.
    pub fn word_len(self, text: &[u8]) -> usize {
        let mut at = 0;
        while let Some(rest) = text.get(at..)
            && let Some(first) = rest.first()
        {
            match self.character_len(rest) {
                1 if !self.is_word(*first) => break,
                len => at += len,
            }
        }
        at
    }
}

const HP8_CONTROLS: &[u8] = &[
    0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d, 0x8e, 0x8f, 0x90, 0x91, 0x92,
    0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9e, 0x9f, 0xa0, 0xb1, 0xb2, 0xf2, 0xf3, 0xf4,
    0xf5, 0xff,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_bytes_that_look_like_ascii() {
        for (charset, text, len) in [
            ("big5", &b"\xa5\x5c"[..], 2),
            ("sjis", b"\x95\x5c", 2),
            ("cp932", b"\x83\x60", 2),
            ("gbk", b"\x81\x5c", 2),
            ("gb18030", b"\x81\x60", 2),
            ("gb18030", b"\x95\x32\x82\x36", 4),
            ("gb18030", b"\x95\x32\x82", 1),
            ("gbk", b"\x95\x32", 1),
            // Half a character, another character set, a single byte of sjis.
            ("gbk", b"\x81\x27", 1),
            ("gbk", b"\x81", 1),
            ("big5", b"\x81\x5c", 1),
            ("sjis", b"\xb1\x5c", 1),
            ("latin1", b"\x81\x5c", 1),
            ("utf8mb4", "é".as_bytes(), 1),
        ] {
            assert_eq!(ClientText::of(charset).character_len(text), len, "{charset} {text:x?}");
        }
    }

    #[test]
    fn words_and_blanks() {
        assert_eq!(ClientText::of("latin1").word_len(b"a\xe9\xa0b"), 2);
        assert_eq!(ClientText::of("koi8r").word_len(b"a\xa0b"), 3);
        assert_eq!(ClientText::of("sjis").word_len(b"\x95\x5c\x83\x5c2 b"), 5);
        assert_eq!(ClientText::of("swe7").word_len(b"f[r~{}\\^].x"), 9);
        assert_eq!(PLAIN.word_len(b"f[r"), 1);
        assert_eq!((PLAIN.word_len(b"a\xffb"), ClientText::of("utf8mb4").word_len(b"a\xffb\xc3\xa4")), (3, 1));
        assert!(ClientText::of("cp866").is_blank(0xff) && !PLAIN.is_blank(0));
    }
}
