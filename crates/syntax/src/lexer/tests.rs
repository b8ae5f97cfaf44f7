use super::*;

fn kinds(text: &[u8], settings: Settings) -> Vec<(Kind, Vec<u8>)> {
    let mut lexer = Lexer::new(text, settings);
    let mut found = Vec::new();
    loop {
        let token = lexer.next_token();
        if token.kind == Kind::End {
            return found;
        }
        found.push((token.kind, token.span.of(text).to_vec()));
        if matches!(token.kind, Kind::Wrong(_)) {
            return found;
        }
    }
}

fn only_kinds(text: &str) -> Vec<Kind> {
    kinds(text.as_bytes(), Settings::default()).into_iter().map(|(kind, _)| kind).collect()
}

fn mode(sql_mode: u64) -> Settings {
    Settings::new(sql_mode, 90_704, "utf8mb4")
}

#[test]
fn a_word_beside_a_dot_is_a_name() {
    let dot = Kind::Byte(b'.');
    assert_eq!(only_kinds("select.a"), [Kind::Name, dot, Kind::Name]);
    assert_eq!(only_kinds("a.select"), [Kind::Name, dot, Kind::Name]);
    assert_eq!(only_kinds("select .a"), [Kind::Word, dot, Kind::Name]);
    assert_eq!(only_kinds("t.1a t.5"), [Kind::Name, dot, Kind::Name, Kind::Name, dot, Kind::Name]);
    assert_eq!(only_kinds("t .5"), [Kind::Word, Kind::Decimal]);
    assert_eq!(only_kinds("`t`.5"), [Kind::Name, Kind::Decimal]);
}

#[test]
fn signs_that_make_no_operator_are_wrong() {
    let wrong = Kind::Wrong(Wrong::Operator);
    for text in ["1=!2", "1==1", "1=<2", "1<!2", "1<=!2", "1<<!2", "1>!2"] {
        assert_eq!(only_kinds(text).last(), Some(&wrong), "{text}");
    }
    for text in ["1>=!2", "1!=!2", "1<=>!2", "!!1", "1=-2", "1<-2", "1&&!2"] {
        assert!(!only_kinds(text).contains(&wrong), "{text}");
    }
    assert_eq!(only_kinds("-> ->> :="), [Sign::Arrow, Sign::DoubleArrow, Sign::Assign].map(Kind::Sign));
}

#[test]
fn numbers_and_literals() {
    assert_eq!(only_kinds("1 1.5 .5 1. 1e5 1.e-3 1e"), {
        use Kind::{Decimal, Float, Integer, Name};
        [Integer, Decimal, Decimal, Decimal, Float, Float, Name]
    });
    assert_eq!(only_kinds("0x41 x'41' 0X41 0b1 b'1' 0xg"), {
        use Kind::{Bits, Hex, Name};
        [Hex, Hex, Name, Bits, Bits, Name]
    });
    for text in ["x'1'", "x'gg'", "b'2'"] {
        assert_eq!(only_kinds(text), [Kind::Wrong(Wrong::Literal)], "{text}");
    }
    assert_eq!(only_kinds("_latin1'a' _foo n'b'"), [Kind::Introducer, Kind::Text, Kind::Word, Kind::NationalText]);
}

#[test]
fn comments_of_versions() {
    assert_eq!(only_kinds("a /*! b */ /*!99999 c */ /*!050100 d */ /*!50100 e*/ f").len(), 5);
    // Six digits are a version only where a blank follows.
    assert_eq!(kinds(b"/*!501000*/", Settings::default()), [(Kind::Integer, b"0".to_vec())]);
    assert_eq!(only_kinds("/*! a"), [Kind::Word, Kind::Wrong(Wrong::OpenComment)]);
    assert_eq!(only_kinds("/*!99999 /* x */ a */ b"), [Kind::Word]);
    assert_eq!(only_kinds("a -- x\n# y\nb --1").len(), 5);
}

#[test]
fn hints_stand_behind_verbs_only() {
    assert_eq!(only_kinds("SELECT /*+ x */ 1"), [Kind::Word, Kind::Hint, Kind::Integer]);
    assert_eq!(only_kinds("SELECT 1 /*+ x */"), [Kind::Word, Kind::Integer]);
}

#[test]
fn second_bytes_that_look_like_quotes() {
    let of = |charset: &str, text: &[u8]| kinds(text, Settings::new(0, 90_704, charset));
    assert_eq!(of("gbk", b"'\x81\x5c' a").len(), 2);
    assert_eq!(of("latin1", b"'\x81\x5c' a").len(), 1, "open: the backslash escapes");
    assert_eq!(of("sjis", b"`\x83\x60` a")[0].1, b"`\x83\x60`");
    assert_eq!(of("gbk", b"'\x81' a").len(), 2);
    assert!(!Settings::new(0, 90_704, "klingon").charset_is_known());
}

#[test]
fn quotes_and_backslashes_by_mode() {
    assert_eq!(kinds(b"\"a\"", mode(sql_mode::ANSI_QUOTES))[0].0, Kind::Name);
    assert_eq!(kinds(b"'a\\'", mode(sql_mode::NO_BACKSLASH_ESCAPES))[0].0, Kind::Text);
    assert_eq!(kinds(b"'a\\'", mode(0))[0].0, Kind::Wrong(Wrong::OpenString));
    assert_eq!(resolved(br"'a''b\'\n\%\\'", mode(0)), b"a'b'\n\\%\\");
    assert_eq!(resolved(br"'a\n'", mode(sql_mode::NO_BACKSLASH_ESCAPES)), br"a\n");
    assert_eq!(resolved(b"@`a``b`", mode(0)), b"a`b");
    assert_eq!(resolved(b"N'a'", mode(0)), b"a");
}

#[test]
fn variables() {
    assert_eq!(only_kinds("@a.b @'x y' @ @@x"), {
        use Kind::{System, UserVariable, Word};
        [UserVariable, UserVariable, UserVariable, System, Word]
    });
    assert_eq!(only_kinds("@@ x"), [Kind::System, Kind::Wrong(Wrong::Variable)]);
}

#[test]
fn text_between_dollars() {
    assert_eq!(only_kinds("$$ a; b $$ c"), [Kind::DollarText, Kind::Word]);
    assert_eq!(only_kinds("$x$ a $$ $x$"), [Kind::DollarText]);
    assert_eq!(only_kinds("a$b$c $1"), [Kind::Word, Kind::Word]);
    assert_eq!(kinds(b"$$", Settings::new(0, 80_045, "utf8mb4"))[0].0, Kind::Word);
}

#[test]
fn a_nul_byte_ends_a_text_at_its_end_only() {
    assert_eq!(only_kinds("a\0"), [Kind::Word]);
    assert_eq!(only_kinds("a\0\0"), [Kind::Word, Kind::Byte(0)]);
    assert_eq!(kinds(b"`a\0b` c", mode(0))[0].0, Kind::Wrong(Wrong::OpenName));
    assert_eq!(only_kinds("'a\0b' c"), [Kind::Text, Kind::Word]);
}
