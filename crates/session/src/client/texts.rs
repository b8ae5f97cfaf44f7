//! Texts that a client sends again with other literals: parsed once, and their columns described once.
//!
//! In: texts of COM_QUERY. Out: what they are parsed as, and what was known of their columns. Never here: a text that
//! came once only; more than [`KEPT_MAX`] texts or [`KEPT_BYTES_MAX`] bytes a session; a text while clients' memory is
//! short; what an account may, which is asked at every execution.

use sql::{Charsets, Parsed, Purse, Settings, TEMPLATE_BYTES_MAX, Template, template_key};

use super::tables::Known;

/// Texts that are kept. One of a row by its key takes 4 KiB, with its columns' definitions.
const KEPT_MAX: usize = 16;
/// Bytes of their texts together; their trees take some twenty times as much.
const KEPT_BYTES_MAX: usize = 2048;
/// Texts that are remembered by their keys.
const SEEN_MAX: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Those used last are at the end.
    kept: Vec<Kept>,
    /// Keys of texts that came once, or that are not kept, the latest at the end.
    seen: Vec<(u64, Seen)>,
    /// Bytes of those that are kept.
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Once,
    NotKept,
}

/// A text that may come again.
#[derive(Debug)]
pub(super) struct Kept {
    key: u64,
    template: Template,
    sql_mode: u64,
    charsets: Charsets,
    /// Of the last execution.
    known: Option<Known>,
}

impl Kept {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.template.bytes() + self.known.as_ref().map_or(0, Known::bytes)
    }

    /// Takes the literals of a text, if it is such a one.
    pub(super) fn fill(&mut self, sql: &[u8]) -> bool {
        self.template.fill(sql).is_some()
    }

    /// The tree of the text whose literals it took last, and what is known of its columns.
    pub(super) fn parsed(&mut self) -> (&Parsed, &mut Option<Known>) {
        (self.template.filled(), &mut self.known)
    }
}

/// Statements of a text that have not run yet.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) sql: Vec<u8>,
    pub(super) at: usize,
}

impl Rest {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.sql.len()
    }

    /// The text from its next statement on.
    pub(super) fn text(&self) -> &[u8] {
        self.sql.get(self.at..).unwrap_or_default()
    }
}

/// A statement of a text that is being answered.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) tree: Tree,
    /// Offset of the next statement behind it, if the client is to get its result too.
    pub(super) next: Option<usize>,
}

/// What a statement was parsed as.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a box would be an allocation of each statement whose text is kept")]
pub(super) enum Tree {
    Parsed(Parsed),
    /// A text that came before with other literals.
    Kept(Kept),
}

impl Begun {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        match &self.tree {
            Tree::Parsed(parsed) => parsed.tree_bytes,
            Tree::Kept(kept) => kept.bytes(),
        }
    }
}

/// The key of a text that may be kept: a short SELECT.
pub(super) fn key_of(sql: &[u8]) -> Option<u64> {
    let is_select = sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case(b"SELECT"));
    (is_select && sql.len() <= TEMPLATE_BYTES_MAX).then(|| template_key(sql))
}

impl Texts {
    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Forgets all that is kept; false if nothing was.
    pub(super) fn clear(&mut self) -> bool {
        self.bytes = 0;
        !std::mem::take(&mut self.kept).is_empty()
    }

    /// Takes a kept text out; [`put`](Self::put) it back. One that was parsed under other settings is gone then.
    pub(super) fn take(&mut self, key: u64, settings: &Settings) -> Option<Kept> {
        // Most often it is the one that was used last.
        let at = self.kept.iter().rposition(|kept| kept.key == key)?;
        let kept = self.kept.remove(at);
        self.bytes -= kept.bytes();
        (kept.sql_mode == settings.typed().sql_mode && kept.charsets == *settings.charsets()).then_some(kept)
    }

    pub(super) fn put(&mut self, kept: Kept) {
        self.bytes += kept.bytes();
        self.kept.push(kept);
    }

    /// A text was parsed: from its second time on it is kept, if it can be.
    pub(super) fn parsed(&mut self, key: u64, sql: &[u8], parsed: &Parsed, settings: &Settings, memory: &Purse) {
        if !memory.is_ample() || self.kept.iter().any(|kept| kept.key == key) {
            return;
        }
        let seen = self.seen.iter().position(|(seen, _)| *seen == key);
        let state = seen.map(|at| self.seen.remove(at).1);
        let template = match state {
            Some(Seen::Once) => Template::of(sql, parsed, settings.typed().sql_mode, settings.charsets()),
            _ => None,
        };
        if let Some(template) = template {
            let bytes = |kept: &[Kept]| kept.iter().map(|kept| kept.template.text_len()).sum::<usize>();
            while self.kept.len() >= KEPT_MAX || bytes(&self.kept) + sql.len() > KEPT_BYTES_MAX {
                self.bytes -= self.kept.remove(0).bytes();
            }
            let (sql_mode, charsets) = (settings.typed().sql_mode, *settings.charsets());
            self.put(Kept { key, template, sql_mode, charsets, known: None });
            return;
        }
        if self.seen.len() >= SEEN_MAX {
            self.seen.remove(0);
        }
        self.seen.push((key, if state.is_some() { Seen::NotKept } else { Seen::Once }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a text came out of those that are kept; if not, it was parsed.
    fn ask(texts: &mut Texts, sql: &str, settings: &Settings) -> bool {
        let key = key_of(sql.as_bytes()).unwrap();
        let wanted = sql::parse(sql.as_bytes(), settings.typed().sql_mode, settings.charsets()).unwrap();
        let kept = texts.take(key, settings);
        let was_kept = kept.is_some();
        let mut filled = false;
        if let Some(mut kept) = kept {
            if kept.fill(sql.as_bytes()) {
                assert_eq!(*kept.parsed().0, wanted, "{sql}");
                filled = true;
            }
            texts.put(kept);
        }
        if !filled {
            texts.parsed(key, sql.as_bytes(), &wanted, settings, &Purse::default());
        }
        assert_eq!(texts.bytes, texts.kept.iter().map(Kept::bytes).sum::<usize>());
        assert!(texts.kept.len() <= KEPT_MAX && texts.seen.len() <= SEEN_MAX);
        assert!(was_kept || !filled);
        filled
    }

    fn settings(collation: u16) -> Settings {
        Settings::new(Charsets::of_login(collation).unwrap())
    }

    #[test]
    fn the_third_time_a_text_is_not_parsed() {
        let (mut texts, settings) = (Texts::default(), settings(255));
        let asked: Vec<bool> =
            (0..5).map(|id| ask(&mut texts, &format!("SELECT c FROM t WHERE id = {id}"), &settings)).collect();
        assert_eq!(asked, [false, false, true, true, true]);
        // Of the same key, but not of the same type.
        assert!(!ask(&mut texts, "SELECT c FROM t WHERE id = 99999999999999999999", &settings));
        assert!(ask(&mut texts, "SELECT c FROM t WHERE id = 9", &settings));
        // Nothing to put in.
        for _ in 0..4 {
            assert!(!ask(&mut texts, "SELECT c FROM t", &settings));
        }
        assert_eq!((texts.kept.len(), texts.seen.len()), (1, 1));
        for sql in ["INSERT INTO t VALUES (1)", "SELEC", "", "SHOW TABLES"] {
            assert_eq!(key_of(sql.as_bytes()), None, "{sql}");
        }
        assert_eq!(key_of(format!("SELECT {}", "1".repeat(TEMPLATE_BYTES_MAX)).as_bytes()), None);
    }

    #[test]
    fn those_used_last_are_kept() {
        let (mut texts, settings) = (Texts::default(), settings(255));
        let text = |table: usize| format!("SELECT c FROM t_{table} WHERE id = 1");
        for table in 0..KEPT_MAX {
            assert_eq!([(); 3].map(|()| ask(&mut texts, &text(table), &settings)), [false, false, true]);
        }
        assert!(ask(&mut texts, &text(0), &settings));
        for _ in 0..3 {
            ask(&mut texts, &text(KEPT_MAX), &settings);
        }
        assert!(ask(&mut texts, &text(0), &settings) && ask(&mut texts, &text(KEPT_MAX), &settings));
        assert!(!ask(&mut texts, &text(1), &settings));
        // Many that come once leave those that are kept.
        for table in 100..1_000 {
            assert!(!ask(&mut texts, &text(table), &settings));
        }
        assert!(ask(&mut texts, &text(0), &settings));
        // Long ones leave room for few.
        let list = format!("SELECT c FROM t WHERE id IN (1{})", ", 2".repeat(300));
        assert_eq!([(); 3].map(|()| ask(&mut texts, &list, &settings)), [false; 3], "too many literals");
        let long = |table: usize| format!("SELECT {} FROM t_{table} WHERE id = 1", "c, ".repeat(300) + "c");
        for table in 0..4 {
            assert_eq!([(); 3].map(|()| ask(&mut texts, &long(table), &settings)), [false, false, true]);
        }
        assert_eq!(texts.kept.len(), 2);
    }

    #[test]
    fn under_other_character_sets_a_text_is_parsed_anew() {
        let (mut texts, utf8, latin1) = (Texts::default(), settings(255), settings(8));
        let sql = "SELECT c FROM t WHERE c = 'x'";
        assert_eq!([(); 3].map(|()| ask(&mut texts, sql, &utf8)), [false, false, true]);
        assert_eq!([(); 3].map(|()| ask(&mut texts, sql, &latin1)), [false, false, true]);
        assert!(!ask(&mut texts, sql, &utf8));
    }
}
