//! What a Query event's statement means for the transaction around it.
//!
//! Only statements that are completely understood get a kind of their own. Anything else in the text (more words, a
//! second statement, a version comment) makes it `Other`. A stage that cuts work there loses a little time; one that
//! took a statement for a COMMIT would lose data. The exception is XA: no other statement begins with these words, and
//! who takes XA START for a transaction of its own loses the end of the real one. An identifier that cannot be read is
//! missing then, and the kind is still right.

use crate::XaXid;

/// Kind of a statement in the binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryKind {
    /// BEGIN.
    Begin,
    /// COMMIT.
    Commit,
    /// ROLLBACK of the whole transaction.
    Rollback,
    /// SAVEPOINT name.
    Savepoint,
    /// ROLLBACK TO name.
    RollbackTo,
    /// RELEASE SAVEPOINT name.
    ReleaseSavepoint,
    /// XA START xid.
    XaStart,
    /// XA END xid.
    XaEnd,
    /// XA PREPARE xid.
    XaPrepare,
    /// XA COMMIT xid.
    XaCommit,
    /// XA ROLLBACK xid.
    XaRollback,
    /// Any other statement: DDL, a row-changing statement, administration.
    Other,
}

impl QueryKind {
    /// Kind of a statement.
    #[inline]
    pub fn of(sql: &[u8]) -> QueryKind {
        // The forms that servers write need no scanning.
        match sql {
            b"BEGIN" => return QueryKind::Begin,
            b"COMMIT" => return QueryKind::Commit,
            _ => {}
        }
        QueryKind::with_xid(sql).0
    }

    /// Kind of a statement; for the XA kinds also the identifier in it, if all of the text is understood.
    pub fn with_xid(sql: &[u8]) -> (QueryKind, Option<XaXid>) {
        // MySQL takes a NUL byte at the end for the end of the text.
        let sql = skip_space(sql.strip_suffix(&[0]).unwrap_or(sql));
        // Quick exit for nearly all statements.
        if !matches!(sql.first(), Some(b'B' | b'b' | b'C' | b'c' | b'R' | b'r' | b'S' | b's' | b'X' | b'x')) {
            return (QueryKind::Other, None);
        }
        if let Some(rest) = keyword(sql, b"XA") {
            return xa(rest).unwrap_or((QueryKind::Other, None));
        }
        (plain(sql).unwrap_or(QueryKind::Other), None)
    }

    /// True for statements that belong to the transaction around row events: everything except `Other`.
    #[inline]
    pub fn is_control(self) -> bool {
        self != QueryKind::Other
    }
}

fn plain(sql: &[u8]) -> Option<QueryKind> {
    let optional = |rest, word: &[u8]| keyword(rest, word).unwrap_or(rest);
    if let Some(rest) = keyword(sql, b"BEGIN") {
        return ends(optional(rest, b"WORK")).then_some(QueryKind::Begin);
    }
    if let Some(rest) = keyword(sql, b"COMMIT") {
        return ends(optional(rest, b"WORK")).then_some(QueryKind::Commit);
    }
    if let Some(rest) = keyword(sql, b"ROLLBACK") {
        let rest = optional(rest, b"WORK");
        if let Some(rest) = keyword(rest, b"TO") {
            // A savepoint may itself be called SAVEPOINT.
            let named = keyword(rest, b"SAVEPOINT").is_some_and(is_name);
            return (named || is_name(rest)).then_some(QueryKind::RollbackTo);
        }
        return ends(rest).then_some(QueryKind::Rollback);
    }
    if let Some(rest) = keyword(sql, b"SAVEPOINT") {
        return is_name(rest).then_some(QueryKind::Savepoint);
    }
    let rest = keyword(keyword(sql, b"RELEASE")?, b"SAVEPOINT")?;
    is_name(rest).then_some(QueryKind::ReleaseSavepoint)
}

fn xa(rest: &[u8]) -> Option<(QueryKind, Option<XaXid>)> {
    let verbs: [(&[u8], QueryKind); 6] = [
        (b"START", QueryKind::XaStart),
        (b"BEGIN", QueryKind::XaStart),
        (b"END", QueryKind::XaEnd),
        (b"PREPARE", QueryKind::XaPrepare),
        (b"COMMIT", QueryKind::XaCommit),
        (b"ROLLBACK", QueryKind::XaRollback),
    ];
    let (kind, rest) = verbs.iter().find_map(|(verb, kind)| keyword(rest, verb).map(|rest| (*kind, rest)))?;
    Some((kind, whole_xid(kind, rest)))
}

/// The identifier, if nothing but it and ONE PHASE follows.
fn whole_xid(kind: QueryKind, rest: &[u8]) -> Option<XaXid> {
    let (xid, rest) = XaXid::parse_text(rest)?;
    let mut rest = skip_space(rest);
    if kind == QueryKind::XaCommit
        && let Some(after) = keyword(rest, b"ONE")
    {
        rest = keyword(after, b"PHASE")?;
    }
    ends(rest).then_some(xid)
}

/// Text after `word`, if the text starts with that whole word in any case.
#[inline]
fn keyword<'t>(text: &'t [u8], word: &[u8]) -> Option<&'t [u8]> {
    let (head, rest) = text.split_at_checked(word.len())?;
    if !head.eq_ignore_ascii_case(word) || rest.first().is_some_and(|&byte| is_word_byte(byte)) {
        return None;
    }
    Some(skip_space(rest))
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

/// True if nothing is left but an optional semicolon.
fn ends(rest: &[u8]) -> bool {
    let rest = rest.strip_prefix(b";").map_or(rest, skip_space);
    rest.is_empty()
}

/// True if exactly one identifier is left.
fn is_name(text: &[u8]) -> bool {
    let Some(&first) = text.first() else {
        return false;
    };
    let len = match first {
        b'`' | b'"' => match quoted_len(text, first) {
            Some(len) if len > 2 => len,
            _ => return false,
        },
        byte if is_word_byte(byte) => text.iter().take_while(|&&byte| is_word_byte(byte)).count(),
        _ => return false,
    };
    text.get(len..).is_some_and(|rest| ends(skip_space(rest)))
}

/// Length of a quoted name, quotes included; a doubled quote stands for one inside.
fn quoted_len(text: &[u8], quote: u8) -> Option<usize> {
    let mut at = 1;
    loop {
        at += text.get(at..)?.iter().position(|&byte| byte == quote)? + 1;
        if text.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

/// Skips white space and comments, but not version comments (`/*!`), which are code.
fn skip_space(mut text: &[u8]) -> &[u8] {
    loop {
        text = text.trim_ascii_start();
        let is_line_comment = match text {
            [b'#', ..] => true,
            [b'-', b'-', next, ..] => next.is_ascii_whitespace() || next.is_ascii_control(),
            [b'-', b'-'] => true,
            _ => false,
        };
        let after = if is_line_comment {
            match text.iter().position(|&byte| byte == b'\n') {
                Some(end) => text.get(end + 1..),
                None => Some(&[][..]),
            }
        } else if text.starts_with(b"/*") && !matches!(text.get(2), Some(b'!' | b'+')) {
            text.get(2..).and_then(|rest| {
                let end = rest.windows(2).position(|pair| pair == b"*/")?;
                rest.get(end + 2..)
            })
        } else {
            None
        };
        match after {
            Some(after) => text = after,
            None => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statements_of_the_log() {
        use QueryKind::*;
        for (sql, kind) in [
            ("BEGIN", Begin),
            ("begin work", Begin),
            ("  /* app */ BEGIN ;", Begin),
            ("-- note\nBEGIN", Begin),
            ("#x\n COMMIT", Commit),
            ("COMMIT", Commit),
            ("COMMIT WORK", Commit),
            ("COMMIT -- done", Commit),
            ("COMMIT /* XID 4 */", Commit),
            ("BEGIN\0", Begin),
            ("BEGIN;\0", Begin),
            ("begin /* a\0b */ -- c\0", Begin),
            ("COMMIT\0", Commit),
            ("ROLLBACK TO `x`\0", RollbackTo),
            ("SAVEPOINT x\0", Savepoint),
            ("XA PREPARE 'a'\0", XaPrepare),
            ("XA COMMIT X'61',X'',1 ONE PHASE\0", XaCommit),
            ("ROLLBACK", Rollback),
            ("SAVEPOINT `x`", Savepoint),
            ("SAVEPOINT `a``b c`", Savepoint),
            ("SAVEPOINT \"x\"", Savepoint),
            ("SAVEPOINT x1", Savepoint),
            ("SAVEPOINT`x`", Savepoint),
            ("ROLLBACK TO `x`", RollbackTo),
            ("ROLLBACK TO SAVEPOINT x", RollbackTo),
            ("ROLLBACK WORK TO SAVEPOINT `x`", RollbackTo),
            ("ROLLBACK TO savepoint", RollbackTo),
            ("RELEASE SAVEPOINT `x`", ReleaseSavepoint),
            ("XA START X'61',X'62',1", XaStart),
            ("XA BEGIN X'61'", XaStart),
            ("XA END X'61',X'',1", XaEnd),
            ("XA PREPARE 'a'", XaPrepare),
            ("XA COMMIT X'61',X'',1", XaCommit),
            ("XA COMMIT X'61',X'',1 ONE PHASE", XaCommit),
            ("XA ROLLBACK X'61',X'',1", XaRollback),
        ] {
            assert_eq!(QueryKind::of(sql.as_bytes()), kind, "{sql}");
        }
    }

    #[test]
    fn anything_else_is_other() {
        for sql in [
            "",
            " ",
            "BEGIN NOT ATOMIC",
            "BEGINX",
            "BEGIN; DROP TABLE t",
            "BEGIN\0\0",
            "BEGIN\0; DROP TABLE t",
            "BEGIN \0 WORK",
            "SAVEPOINT `x\0",
            "COMMIT AND CHAIN",
            "COMMIT RELEASE",
            "COMMITTED",
            "COMMIT PREPARED",
            "ROLLBACK AND CHAIN",
            "ROLLBACK TO",
            "ROLLBACK TO SAVEPOINT",
            "ROLLBACK TO SAVEPOINT a b",
            "SAVEPOINT",
            "SAVEPOINT ``",
            "SAVEPOINT `x",
            "SAVEPOINT `x` y",
            "SAVEPOINT `x`; DROP TABLE t",
            "RELEASE",
            "RELEASE `x`",
            "XA",
            "XA RECOVER",
            "XA STARTX'61'",
            "XACOMMIT 'a'",
            "/*!50000 BEGIN */",
            "/*! COMMIT */",
            "/* open BEGIN",
            "--COMMIT\nBEGIN",
            "START TRANSACTION",
            "CREATE TABLE `BEGIN` (a int)",
            "SAVE POINT x",
            "BÉGIN",
            "COMMIT\u{e9}",
            "DROP TABLE t /* COMMIT */",
            "SET @x = 'COMMIT'",
        ] {
            let kind = QueryKind::of(sql.as_bytes());
            let expected = if sql == "ROLLBACK TO SAVEPOINT" { QueryKind::RollbackTo } else { QueryKind::Other };
            assert_eq!(kind, expected, "{sql}");
        }
    }

    #[test]
    fn xid_comes_with_the_kind() {
        let (kind, xid) = QueryKind::with_xid(b"XA COMMIT X'6162',X'01',1");
        assert_eq!(kind, QueryKind::XaCommit);
        assert_eq!(xid.unwrap(), XaXid::new(1, b"ab", &[1]).unwrap());
        assert_eq!(QueryKind::with_xid(b"COMMIT"), (QueryKind::Commit, None));
        let empty = XaXid::new(1, b"", b"");
        assert_eq!(QueryKind::with_xid(b"XA START X'',X'',1"), (QueryKind::XaStart, empty));
    }

    #[test]
    fn an_xid_that_cannot_be_read_leaves_the_kind() {
        for (sql, kind) in [
            ("XA START", QueryKind::XaStart),
            ("XA START X'6'", QueryKind::XaStart),
            ("XA START X'61' COMMIT", QueryKind::XaStart),
            ("XA END ???", QueryKind::XaEnd),
            ("XA COMMIT X'61',X'',1 ONE", QueryKind::XaCommit),
            ("XA COMMIT 'a'\0 ONE PHASE", QueryKind::XaCommit),
        ] {
            assert_eq!(QueryKind::with_xid(sql.as_bytes()), (kind, None), "{sql}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(sql in "(BEGIN|COMMIT|XA|SAVEPOINT|TO|ROLLBACK|X'|`|\"|'|,|/\\*|\\*/|-- |#|[ -~]|\n){0,12}") {
            QueryKind::of(sql.as_bytes());
        }

        #[test]
        fn savepoint_names_are_whole(name in "[^`\0]{1,20}", tail in "[a-z;`'.]{1,5}") {
            let sql = format!("SAVEPOINT `{name}`");
            prop_assert_eq!(QueryKind::of(sql.as_bytes()), QueryKind::Savepoint);
            let with_more = format!("{sql} {tail}");
            if tail != ";" {
                prop_assert_eq!(QueryKind::of(with_more.as_bytes()), QueryKind::Other);
            }
        }

        #[test]
        fn a_word_more_is_other(word in "[a-z]{1,8}", which in 0usize..3) {
            prop_assume!(word != "work" && word != "to");
            let sql = format!("{} {word}", ["BEGIN", "COMMIT", "ROLLBACK"][which]);
            prop_assert_eq!(QueryKind::of(sql.as_bytes()), QueryKind::Other);
        }
    }
}
