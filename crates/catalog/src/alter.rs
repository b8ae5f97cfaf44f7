//! ALTER TABLE, CREATE INDEX and DROP INDEX as text.
//!
//! In: a parser behind the statement's first words. Out: the actions, in order. Never here: their effect. ALTER
//! TABLE's other actions are refused by their clause: each gets an [`AlterAction`] of its own when it is carried out.

use crate::create::{self, Element};
use crate::error::Problem;
use crate::parser::Parser;
use crate::syntax::{AlterAction, KeyKind, KeySpec, Statement, TableOptions};

/// Behind CREATE, at `[UNIQUE|FULLTEXT|SPATIAL] INDEX`.
pub(crate) fn create_index(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    let kind = match parser.word_upper()?.as_str() {
        "UNIQUE" => KeyKind::Unique,
        "FULLTEXT" => KeyKind::FullText,
        "SPATIAL" => KeyKind::Spatial,
        _ => KeyKind::Plain,
    };
    if kind != KeyKind::Plain {
        parser.take()?;
    }
    parser.expect_word("INDEX")?;
    let index_name = parser.name()?;
    while parser.is_any_word(&["USING", "TYPE"])? {
        parser.take()?;
        parser.name()?;
    }
    parser.expect_word("ON")?;
    let name = parser.table_name()?;
    let key = create::key_rest(parser, kind, Some(index_name))?;
    while algorithm_or_lock(parser)? {}
    Ok(Statement::AlterTable { name, actions: vec![AlterAction::AddKey(key)] })
}

/// Behind DROP INDEX.
pub(crate) fn drop_index(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    let index_name = parser.name()?;
    parser.expect_word("ON")?;
    let name = parser.table_name()?;
    while algorithm_or_lock(parser)? {}
    Ok(Statement::AlterTable { name, actions: vec![AlterAction::DropKey(index_name)] })
}

/// ALGORITHM and LOCK say how the source went about it, not what it did.
fn algorithm_or_lock(parser: &mut Parser<'_>) -> Result<bool, Problem> {
    if !parser.is_any_word(&["ALGORITHM", "LOCK"])? {
        return Ok(false);
    }
    parser.take()?;
    parser.eat_punct(b'=')?;
    parser.take()?;
    Ok(true)
}

/// Behind ALTER TABLE.
pub(crate) fn alter_table(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    let name = parser.table_name()?;
    let mut actions = Vec::new();
    while !parser.at_end()? && !parser.is_punct(b';')? {
        actions.push(action(parser)?);
        if !parser.eat_punct(b',')? {
            // Options of one kind may follow each other without commas.
            if !parser.at_end()? && !parser.is_punct(b';')? && parser.word_upper()?.is_empty() {
                return parser.wrong("',' or the end of the statement expected");
            }
        }
    }
    Ok(Statement::AlterTable { name, actions })
}

fn action(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    if algorithm_or_lock(parser)? {
        return Ok(AlterAction::Nothing);
    }
    let word = parser.word_upper()?;
    match word.as_str() {
        "ADD" => {
            parser.take()?;
            add(parser)
        }
        "DROP" => {
            parser.take()?;
            drop_something(parser)
        }
        "RENAME" => {
            parser.take()?;
            rename(parser)
        }
        "ALTER" => {
            parser.take()?;
            alter_something(parser)
        }
        "DISABLE" | "ENABLE" => {
            parser.take()?;
            parser.expect_word("KEYS")?;
            Ok(AlterAction::Nothing)
        }
        "WITH" | "WITHOUT" => {
            parser.take()?;
            parser.expect_word("VALIDATION")?;
            Ok(AlterAction::Nothing)
        }
        "FORCE" => {
            parser.take()?;
            Ok(AlterAction::Nothing)
        }
        "ENGINE" => engine(parser),
        "COMMENT" => {
            parser.take()?;
            parser.eat_punct(b'=')?;
            Ok(AlterAction::Comment(parser.string_utf8()?))
        }
        // They change how the source stores or counts, nothing a row or a definition here holds.
        "AUTO_INCREMENT" | "AVG_ROW_LENGTH" | "COMPRESSION" | "ENCRYPTION" | "KEY_BLOCK_SIZE" | "MAX_ROWS"
        | "MIN_ROWS" | "ROW_FORMAT" | "STATS_AUTO_RECALC" | "STATS_PERSISTENT" | "STATS_SAMPLE_PAGES"
        | "AUTOEXTEND_SIZE" => {
            create::table_option(parser, &mut TableOptions::default())?;
            Ok(AlterAction::Nothing)
        }
        "" => parser.wrong("an ALTER TABLE clause expected"),
        _ => refuse(&word),
    }
}

fn refuse<T>(clause: &str) -> Result<T, Problem> {
    Problem::unsupported(format!("ALTER TABLE … {clause}"))
}

fn engine(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    let mut options = TableOptions::default();
    create::table_option(parser, &mut options)?;
    match options.engine {
        Some(engine) if engine.eq_ignore_ascii_case("InnoDB") => Ok(AlterAction::Nothing),
        engine => refuse(&format!("ENGINE={}", engine.unwrap_or_default())),
    }
}

fn add(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    if parser.is_word("PARTITION")? {
        return refuse("ADD PARTITION");
    }
    match create::key_element(parser)? {
        Some(Element::Key(KeySpec { kind: KeyKind::Primary, .. })) => {
            refuse("ADD PRIMARY KEY (it changes what identifies a row)")
        }
        Some(Element::Key(key)) => Ok(AlterAction::AddKey(key)),
        Some(Element::Check) => Ok(AlterAction::Nothing),
        None => refuse("ADD COLUMN"),
    }
}

fn drop_something(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    match parser.word_upper()?.as_str() {
        "INDEX" | "KEY" => {
            parser.take()?;
            Ok(AlterAction::DropKey(parser.name()?))
        }
        "PRIMARY" => refuse("DROP PRIMARY KEY (it changes what identifies a row)"),
        "FOREIGN" => {
            parser.take()?;
            parser.expect_word("KEY")?;
            Ok(AlterAction::DropForeignKey(parser.name()?))
        }
        "CHECK" => {
            parser.take()?;
            parser.name()?;
            Ok(AlterAction::Nothing)
        }
        "CONSTRAINT" => {
            parser.take()?;
            Ok(AlterAction::DropConstraint(parser.name()?))
        }
        "PARTITION" => refuse("DROP PARTITION"),
        _ => refuse("DROP COLUMN"),
    }
}

fn rename(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    if parser.is_word("COLUMN")? {
        return refuse("RENAME COLUMN");
    }
    // INDEX and KEY are reserved, so they cannot be the new name of the table here.
    if parser.eat_word("INDEX")? || parser.eat_word("KEY")? {
        let from = parser.name()?;
        parser.expect_word("TO")?;
        return Ok(AlterAction::RenameKey { from, to: parser.name()? });
    }
    let _ = parser.eat_word("TO")? || parser.eat_word("AS")? || parser.eat_punct(b'=')?;
    Ok(AlterAction::RenameTo(parser.table_name()?))
}

/// ALTER … inside ALTER TABLE: of an index, a check, a column's default.
fn alter_something(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    match parser.word_upper()?.as_str() {
        "INDEX" => {
            parser.take()?;
            let name = parser.name()?;
            let invisible = parser.eat_word("INVISIBLE")?;
            if !invisible {
                parser.expect_word("VISIBLE")?;
            }
            Ok(AlterAction::KeyVisibility { name, invisible })
        }
        "CHECK" | "CONSTRAINT" => {
            parser.take()?;
            parser.name()?;
            parser.eat_word("NOT")?;
            parser.expect_word("ENFORCED")?;
            Ok(AlterAction::Nothing)
        }
        _ => refuse("ALTER COLUMN"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::StatementContext;
    use crate::statement::parse;

    fn actions(sql: &str) -> Vec<AlterAction> {
        match parse(&StatementContext::default(), sql.as_bytes()).unwrap() {
            Statement::AlterTable { actions, .. } => actions,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_carried_out() {
        assert!(matches!(
            actions("create unique index i using btree on t (a(3), (b+1) desc) comment 'x' lock=none")[..],
            [AlterAction::AddKey(KeySpec { kind: KeyKind::Unique, .. })]
        ));
        assert_eq!(actions("drop index i on d.t algorithm = inplace"), [AlterAction::DropKey("i".to_owned())]);
        assert_eq!(actions("alter table t add key (a), drop index b, rename to c, alter index d invisible, comment='x', auto_increment=7 row_format=compact, engine=innodb").len(), 8);
        assert_eq!(actions("alter table t add constraint c foreign key (a) references p (b) on delete cascade, drop foreign key d, add check (a>1), drop check c, drop constraint e, disable keys").len(), 6);
        assert_eq!(
            actions("alter table t rename index a to b, rename key c to d, algorithm=inplace, lock=none").len(),
            4
        );
        assert_eq!(actions("alter table t"), []);
    }

    #[test]
    fn what_is_refused_names_its_clause() {
        for (sql, clause) in [
            ("alter table t add c int", "ADD COLUMN"),
            ("alter table t add column (c int)", "ADD COLUMN"),
            ("alter table t drop c", "DROP COLUMN"),
            ("alter table t modify c int", "MODIFY"),
            ("alter table t change c d int", "CHANGE"),
            ("alter table t add primary key (a)", "ADD PRIMARY KEY"),
            ("alter table t drop primary key", "DROP PRIMARY KEY"),
            ("alter table t rename column a to b", "RENAME COLUMN"),
            ("alter table t engine=myisam", "ENGINE=myisam"),
            ("alter table t convert to character set latin1", "CONVERT"),
            ("alter table t charset latin1", "CHARSET"),
            ("alter table t alter a set default 1", "ALTER COLUMN"),
            ("alter table t truncate partition p", "TRUNCATE"),
            ("alter table t add partition (partition p values less than (1))", "ADD PARTITION"),
            ("alter table t order by a", "ORDER"),
        ] {
            let error = parse(&StatementContext::default(), sql.as_bytes()).unwrap_err();
            assert!(
                matches!(&error, crate::error::Problem::NotSupported(what) if what.contains(clause)),
                "{sql}: {error:?}"
            );
        }
    }
}
