//! Texts that differ from an earlier one in literals only: parsed by putting the literals into its tree.
//!
//! In: a text that was parsed, then other texts. Out: for a text with the same bytes but for unsigned integers and
//! plain strings behind FROM, the tree that [`parse`] would give; None for all others. Never here: a guess. What is put
//! where is known from a second parse with other literals, and only literals that cannot change how the rest is read are
//! put in.

use std::hash::Hasher;
use std::ops::Range;

use catalog::lexer::{Lexer, Tok};

use crate::Charsets;
use crate::ast::{Expression, Select, Statement};
use crate::parse::{Parsed, SERVER_VERSION, parse};

/// Longest text that is kept, in bytes.
pub const TEMPLATE_BYTES_MAX: usize = 1024;
/// Digits of a number that is put in: more would be another type.
const DIGITS_MAX: usize = 18;
/// Literals that are put in.
const SLOTS_MAX: usize = 64;

/// A text with places for literals.
#[derive(Debug, Clone)]
pub struct Template {
    text: Vec<u8>,
    slots: Vec<Slot>,
    parsed: Parsed,
    /// Of each literal of the tree, in the order in which [`each_literal`] comes to it, its slot; None: it stays.
    places: Vec<Option<usize>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Slot {
    /// The digits, or what is between the quotes.
    range: Range<usize>,
    is_text: bool,
}

/// A number under which a text's template is found: that of texts in which other literals stand.
#[must_use]
pub fn template_key(sql: &[u8]) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    let (mut at, mut from, mut is_in_word) = (0, 0, false);
    while let Some(byte) = sql.get(at) {
        let len = match byte {
            b'0'..=b'9' if !is_in_word => digits(sql, at),
            b'\'' => {
                let inner = sql.get(at + 1..).unwrap_or_default();
                let len = inner.iter().take_while(|byte| is_plain(**byte)).count();
                // From an escape on nothing is left out.
                if inner.get(len) != Some(&b'\'') {
                    break;
                }
                len + 2
            }
            _ => {
                is_in_word = byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'`' | 0x80..);
                at += 1;
                continue;
            }
        };
        hasher.write(sql.get(from..at).unwrap_or_default());
        hasher.write_u8(*byte & 0xf0);
        at += len;
        (from, is_in_word) = (at, false);
    }
    hasher.write(sql.get(from..).unwrap_or_default());
    hasher.finish()
}

impl Template {
    /// The template of a text that was parsed; None if it has no place for another literal, or is none that is kept.
    #[must_use]
    pub fn of(sql: &[u8], parsed: &Parsed, sql_mode: u64, charsets: &Charsets) -> Option<Template> {
        let Statement::Select(select) = &parsed.statement else { return None };
        if sql.len() > TEMPLATE_BYTES_MAX || parsed.parameters > 0 || parsed.next.is_some() || select.from.is_none() {
            return None;
        }
        let slots = slots(sql, select, sql_mode, charsets)?;
        // With a value of its own for each slot, its place in the tree is seen.
        let mut probe = Vec::with_capacity(sql.len() + 8 * slots.len());
        let mut at = 0;
        for (number, slot) in slots.iter().enumerate() {
            probe.extend_from_slice(sql.get(at..slot.range.start).unwrap_or_default());
            probe.extend_from_slice(probe_of(number).as_bytes());
            at = slot.range.end;
        }
        probe.extend_from_slice(sql.get(at..).unwrap_or_default());
        if template_key(&probe) != template_key(sql) {
            return None;
        }
        let mut probed = parse(&probe, sql_mode, charsets).ok()?;
        let mut places = Vec::new();
        each_literal(&mut probed.statement, &mut |literal| {
            let slot = slots.iter().enumerate().position(|(number, slot)| literal.is(slot.is_text, &probe_of(number)));
            places.push(slot);
        });
        let mut found: Vec<usize> = places.iter().copied().flatten().collect();
        found.sort_unstable();
        if !found.into_iter().eq(0..slots.len()) {
            return None;
        }
        let mut template = Template { text: sql.to_vec(), slots, parsed: probed, places };
        let is_right = template.fill(sql) == Some(parsed);
        is_right.then_some(template)
    }

    /// Length of the text that it was made from, in bytes.
    #[must_use]
    pub fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        // The text, and the texts in its tree.
        self.text.len() * 2 + self.parsed.tree_bytes + self.slots.len() * size_of::<Slot>() + self.places.len() * 16
    }

    /// What [`fill`](Self::fill) gave last.
    #[must_use]
    pub fn filled(&self) -> &Parsed {
        &self.parsed
    }

    /// What [`parse`] gives for a text, if it is one of these.
    pub fn fill(&mut self, sql: &[u8]) -> Option<&Parsed> {
        let mut found: [(usize, usize); SLOTS_MAX] = [(0, 0); SLOTS_MAX];
        let (mut at, mut of_text) = (0, 0);
        for (slot, found) in self.slots.iter().zip(&mut found) {
            let fixed = self.text.get(of_text..slot.range.start)?;
            if !sql.get(at..)?.starts_with(fixed) {
                return None;
            }
            at += fixed.len();
            let len = match slot.is_text {
                true => sql.get(at..)?.iter().take_while(|byte| is_plain(**byte)).count(),
                false => digits(sql, at),
            };
            if !slot.is_text && !(1..=DIGITS_MAX).contains(&len) {
                return None;
            }
            *found = (at, at + len);
            at += len;
            of_text = slot.range.end;
        }
        if sql.get(at..)? != self.text.get(of_text..)? {
            return None;
        }
        let mut places = self.places.iter();
        each_literal(&mut self.parsed.statement, &mut |literal| {
            let Some(Some(slot)) = places.next() else { return };
            let range = found.get(*slot).map_or(0..0, |(start, end)| *start..*end);
            literal.put(sql.get(range).unwrap_or_default());
        });
        Some(&self.parsed)
    }
}

fn digits(sql: &[u8], at: usize) -> usize {
    sql.get(at..).unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Bytes that stand for themselves in a string, in each character set that a client can have.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'\'' | b'\\')
}

fn probe_of(number: usize) -> String {
    format!("90909090{number}")
}

/// The literals behind the select list that may be others; None if the text has something that is not looked through.
fn slots(sql: &[u8], select: &Select, sql_mode: u64, charsets: &Charsets) -> Option<Vec<Slot>> {
    let behind = select.items.last()?.span.end;
    let mut lexer = Lexer::new(sql, sql_mode, SERVER_VERSION).in_charset(charsets.client_charset());
    let (mut slots, mut is_behind_from, mut end, mut follows_text) = (Vec::new(), false, 0, false);
    loop {
        let token = lexer.next_token().ok()?;
        // Comments may be statements, and may depend on what follows them.
        if !sql.get(end..token.start)?.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            return None;
        }
        end = token.end;
        let text = sql.get(token.start..token.end)?;
        let is_text = matches!(token.tok, Tok::Str { .. });
        match &token.tok {
            Tok::End => break,
            Tok::Word(word) if token.start >= behind && word.eq_ignore_ascii_case(b"FROM") => is_behind_from = true,
            // Adjacent strings are one, whose name is the first.
            Tok::Str { .. } if is_behind_from && follows_text => return None,
            Tok::Str { introducer: None, .. } if is_behind_from => {
                if let [b'\'', inner @ .., b'\''] = text
                    && inner.iter().all(|byte| is_plain(*byte))
                {
                    slots.push(Slot { range: token.start + 1..token.end - 1, is_text });
                }
            }
            Tok::Number(_) if is_behind_from && text.len() <= DIGITS_MAX && text.iter().all(u8::is_ascii_digit) => {
                slots.push(Slot { range: token.start..token.end, is_text });
            }
            _ => {}
        }
        follows_text = is_text;
    }
    (end <= sql.len() && !slots.is_empty() && slots.len() <= SLOTS_MAX).then_some(slots)
}

/// A literal of a tree.
enum Literal<'a> {
    Number(&'a mut String),
    Text(&'a mut Vec<u8>, &'a mut usize),
}

impl Literal<'_> {
    fn is(&self, is_text: bool, value: &str) -> bool {
        match self {
            Literal::Number(digits) => !is_text && **digits == value,
            Literal::Text(bytes, _) => is_text && **bytes == value.as_bytes(),
        }
    }

    fn put(self, value: &[u8]) {
        match self {
            Literal::Number(digits) => {
                digits.clear();
                digits.extend(value.iter().map(|byte| char::from(*byte)));
            }
            Literal::Text(bytes, first_len) => {
                bytes.clear();
                bytes.extend_from_slice(value);
                *first_len = value.len();
            }
        }
    }
}

/// Comes to the literals of a SELECT behind its list, always in the same order.
fn each_literal(statement: &mut Statement, see: &mut dyn FnMut(Literal<'_>)) {
    let Statement::Select(select) = statement else { return };
    let Select { from, limit, .. } = select;
    if let Some(from) = from {
        from.filter.iter_mut().for_each(|filter| of_expression(filter, see));
        from.order.iter_mut().for_each(|order| of_expression(&mut order.expression, see));
    }
    of_expression(&mut limit.offset, see);
    limit.rows.iter_mut().for_each(|rows| of_expression(rows, see));
}

fn of_expression(expression: &mut Expression, see: &mut dyn FnMut(Literal<'_>)) {
    match expression {
        Expression::Number(digits) => see(Literal::Number(digits)),
        Expression::Text { bytes, first_len, introducer: None } => see(Literal::Text(bytes, first_len)),
        Expression::Negative(inner) | Expression::IsNull { value: inner, .. } => of_expression(inner, see),
        Expression::And(list) => list.iter_mut().for_each(|one| of_expression(one, see)),
        Expression::Chain { first, rest } => {
            of_expression(first, see);
            rest.iter_mut().for_each(|(_, operand)| of_expression(operand, see));
        }
        Expression::Compare { sides, .. } => {
            of_expression(&mut sides.0, see);
            of_expression(&mut sides.1, see);
        }
        Expression::In { value, list, .. } => {
            of_expression(value, see);
            list.iter_mut().for_each(|one| of_expression(one, see));
        }
        Expression::Between { value, bounds, .. } => {
            of_expression(value, see);
            of_expression(&mut bounds.0, see);
            of_expression(&mut bounds.1, see);
        }
        Expression::Like { sides, .. } => sides.iter_mut().for_each(|side| of_expression(side, see)),
        Expression::Call { arguments: operands, .. } | Expression::Other { operands, .. } => {
            operands.iter_mut().for_each(|one| of_expression(one, see));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charsets(collation: u16) -> Charsets {
        Charsets::of_login(collation).unwrap()
    }

    #[test]
    fn literals_are_put_where_they_are_read() {
        let charsets = charsets(255);
        for (first, others) in [
            ("SELECT c FROM t WHERE id=1", &["SELECT c FROM t WHERE id=22", "SELECT c FROM t WHERE id=0"][..]),
            (
                "SELECT c, 1 FROM t WHERE a = 'x' AND b IN (1,2) LIMIT 5, 6",
                &["SELECT c, 1 FROM t WHERE a = '' AND b IN (99,1) LIMIT 0, 18"],
            ),
            (
                "select * from t where a between -3 and 4 order by 1 limit 2 offset 9",
                &["select * from t where a between -33 and 44 order by 2 limit 1 offset 0"],
            ),
        ] {
            let parsed = parse(first.as_bytes(), 0, &charsets).unwrap();
            let mut template = Template::of(first.as_bytes(), &parsed, 0, &charsets).unwrap();
            for other in others {
                assert_eq!(template_key(first.as_bytes()), template_key(other.as_bytes()), "{other}");
                let wanted = parse(other.as_bytes(), 0, &charsets).unwrap();
                assert_eq!(template.fill(other.as_bytes()), Some(&wanted), "{other}");
            }
            for other in [
                "SELECT c FROM t WHERE id=1 ",
                "SELECT c FROM t WHERE id=1.5",
                "SELECT c FROM t WHERE id=1e5",
                "SELECT c FROM t WHERE id=1234567890123456789",
                "SELECT c FROM t WHERE id=",
                "SELECT c FROM u WHERE id=1",
                "SELECT c, 1 FROM t WHERE a = 'x''y' AND b IN (1,2) LIMIT 5, 6",
                "SELECT c, 1 FROM t WHERE a = 'x\\'' AND b IN (1,2) LIMIT 5, 6",
                "SELECT c, 2 FROM t WHERE a = 'x' AND b IN (1,2) LIMIT 5, 6",
            ] {
                assert_eq!(template.fill(other.as_bytes()), None, "{other}");
            }
        }
    }

    const LITERALS: &[&str] = &[
        "1",
        "0",
        "23",
        "00",
        "'a'",
        "''",
        "'b c'",
        "'it''s'",
        "'\\n'",
        "'\u{e9}'",
        "\"q\"",
        "1.5",
        "1e5",
        "0x41",
        "x'41'",
        "999999999999999999",
        "9999999999999999999",
        "-4",
        "- 5",
        "--6",
        "(7)",
        "NULL",
        "TRUE",
        "N'x'",
        "_utf8mb4'x'",
        "'a' 'b'",
        "@@x",
        "MOD(7, 3)",
        "+8",
        "CAST(9 AS CHAR(3))",
        "id",
        "t.`3`",
        ".5",
        "5.",
        "b'1'",
        "/*!1 5*/ 6",
        "/* 7 */ 8",
    ];
    const FORMS: &[&str] = &[
        "id = {}",
        "{} <= id",
        "id IN ({}, {})",
        "id IN({})",
        "id BETWEEN {} AND {}",
        "name LIKE {}",
        "name<>{}",
        "id IS NULL",
        "id={}\tAND\nid>{}",
        "{} = {}",
        "{}",
        "NOT id = {}",
        "id + {} > {}",
        "t.id = {}",
    ];
    const ENDS: &[&str] = &[
        "",
        " ORDER BY id",
        " ORDER BY 1, {} DESC",
        " LIMIT 5",
        " LIMIT 6, 7",
        " LIMIT 8 OFFSET 9",
        " ORDER BY {} LIMIT 1",
        ";",
        " ; ",
        " -- {}",
        "\0",
        " FOR UPDATE",
        " limit {}",
    ];

    /// Whatever a template fills is what the text is parsed as.
    #[test]
    fn what_is_filled_is_what_is_parsed() {
        let mut random = base::Random::new(5);
        let (mut templates, mut filled) = (0, 0);
        for _ in 0..40_000 {
            let charsets = charsets(random.pick(&[255, 8, 13, 28, 248]));
            let mode = random.pick(&[0, catalog::sql_mode::ANSI_QUOTES, catalog::sql_mode::NO_BACKSLASH_ESCAPES]);
            let list = random.pick(&["*", "c", "c, 1", "c 'x'", "COUNT(*)", "1 FROM", "id a5"]);
            let conditions: Vec<&str> = (0..random.below(4u8)).map(|_| random.pick(FORMS)).collect();
            let frame = match conditions.is_empty() {
                true => format!("SELECT {list} FROM t{}", random.pick(ENDS)),
                false => format!("SELECT {list} FROM t WHERE {}{}", conditions.join(" AND "), random.pick(ENDS)),
            };
            // Mostly literals that are put in.
            let text = |random: &mut base::Random| {
                let mut text = frame.clone();
                while text.contains("{}") {
                    let few = if random.one_in(3) { LITERALS.len() } else { 7 };
                    text = text.replacen("{}", random.pick(&LITERALS[..few]), 1);
                }
                text
            };
            let first = text(&mut random);
            let Ok(parsed) = parse(first.as_bytes(), mode, &charsets) else { continue };
            let Some(mut template) = Template::of(first.as_bytes(), &parsed, mode, &charsets) else { continue };
            templates += 1;
            for _ in 0..4 {
                let mut other = text(&mut random).into_bytes();
                // Digits anywhere are others, and now and then a byte.
                for byte in &mut other {
                    if byte.is_ascii_digit() && random.one_in(4) {
                        *byte = b'0' + random.below(10u8);
                    } else if random.one_in(400) {
                        *byte = random.pick(&["'", "\\", "5", "e", ".", " ", "-", "\u{e9}"]).as_bytes()[0];
                    }
                }
                if let Some(filled_in) = template.fill(&other) {
                    let wanted = parse(&other, mode, &charsets);
                    let shown = String::from_utf8_lossy(&other);
                    assert_eq!(Ok(filled_in), wanted.as_ref(), "{shown} of {first}");
                    assert_eq!(template_key(&other), template_key(first.as_bytes()), "{shown} of {first}");
                    filled += 1;
                }
            }
        }
        assert!(templates > 10_000 && filled > 10_000, "{templates} {filled}");
        println!("{templates} {filled}");
    }
}
