//! Parser of ALTER TABLE, CREATE INDEX and DROP INDEX.
//!
//! In: a parser positioned after the statement's first words. Out: the actions, in order. Never here: their effect
//! (`effect`).

use crate::create::{self, Element};
use crate::declared::DeclaredKey;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;
use crate::partition;
use crate::syntax::{
    AlterAction, CharsetSpec, DefaultSpec, KeyKind, PartitionAction, Position, Statement, TableName, TableOptions,
    TableSpec,
};

mod algorithm;
mod effect;
mod partitions_effect;
mod rows_effect;

pub(crate) use effect::{alter, rename_parents};
pub(crate) use partitions_effect::PartitionsEffect;
pub(crate) use rows_effect::RowsEffect;

/// Called after CREATE, at `[UNIQUE|FULLTEXT|SPATIAL] INDEX`.
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
    let mut declared = DeclaredKey::default();
    while parser.is_any_word(&["USING", "TYPE"])? {
        parser.take()?;
        create::using(parser, &mut declared)?;
    }
    parser.expect_word("ON")?;
    let name = parser.table_name()?;
    let mut key = create::key_rest(parser, kind, Some(index_name))?;
    if let Some(structure) = declared.options.get("USING").filter(|_| key.declared.options.get("USING").is_none()) {
        key.declared.options.set("USING", structure);
    }
    index_statement(parser, name, AlterAction::AddKey(key))
}

/// Called after DROP INDEX.
pub(crate) fn drop_index(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    let index_name = parser.name()?;
    parser.expect_word("ON")?;
    let name = parser.table_name()?;
    index_statement(parser, name, AlterAction::DropKey(index_name))
}

/// Parses the end of CREATE INDEX and DROP INDEX.
fn index_statement(parser: &mut Parser<'_>, name: TableName, action: AlterAction) -> Result<Statement, Problem> {
    let mut actions = vec![action];
    actions.extend(std::iter::from_fn(|| algorithm_or_lock(parser).transpose()).collect::<Result<Vec<_>, _>>()?);
    Ok(Statement::AlterTable { name, actions })
}

/// ALGORITHM and LOCK: how the source executed the statement.
fn algorithm_or_lock(parser: &mut Parser<'_>) -> Result<Option<AlterAction>, Problem> {
    if !parser.is_any_word(&["ALGORITHM", "LOCK"])? {
        return Ok(None);
    }
    parser.take()?;
    parser.eat_punct(b'=')?;
    let action = match parser.word_upper()?.as_str() {
        "COPY" => AlterAction::Copies,
        "INPLACE" | "INSTANT" | "NONE" => AlterAction::InPlace,
        _ => AlterAction::Nothing,
    };
    parser.take()?;
    Ok(Some(action))
}

/// Called after ALTER TABLE.
pub(crate) fn alter_table(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    let name = parser.table_name()?;
    let mut actions = Vec::new();
    while !parser.at_end()? && !parser.is_punct(b';')? {
        let first = actions.len();
        let action = action(parser, &mut actions)?;
        actions.insert(first, action);
        if !parser.eat_punct(b',')? {
            // Options of the same kind may follow each other without commas.
            if !parser.at_end()? && !parser.is_punct(b';')? && parser.word_upper()?.is_empty() {
                return parser.wrong("',' or the end of the statement expected");
            }
        }
    }
    Ok(Statement::AlterTable { name, actions })
}

/// Parses one action. What it says of CHECK constraints goes to `more`; the action returned is what the server does.
fn action(parser: &mut Parser<'_>, more: &mut Vec<AlterAction>) -> Result<AlterAction, Problem> {
    if let Some(action) = algorithm_or_lock(parser)? {
        return Ok(action);
    }
    let word = parser.word_upper()?;
    match word.as_str() {
        "ADD" => {
            parser.take()?;
            add(parser, more)
        }
        "DROP" => {
            parser.take()?;
            drop_something(parser, more)
        }
        "MODIFY" | "CHANGE" => {
            parser.take()?;
            parser.eat_word("COLUMN")?;
            change_column(parser, word == "CHANGE", more)
        }
        "RENAME" => {
            parser.take()?;
            rename(parser)
        }
        "ALTER" => {
            parser.take()?;
            alter_something(parser, more)
        }
        "CONVERT" => {
            parser.take()?;
            parser.expect_word("TO")?;
            convert_to(parser)
        }
        "ORDER" => {
            parser.take()?;
            parser.expect_word("BY")?;
            order_by(parser)
        }
        "DISCARD" if parser.is_word_at(1, "TABLESPACE")? => {
            parser.take()?;
            parser.take()?;
            Ok(AlterAction::Discards)
        }
        "DISABLE" | "ENABLE" => {
            parser.take()?;
            parser.expect_word("KEYS")?;
            Ok(AlterAction::Nothing)
        }
        "WITH" | "WITHOUT" => {
            parser.take()?;
            parser.expect_word("VALIDATION")?;
            Ok(if word == "WITH" { AlterAction::Copies } else { AlterAction::Nothing })
        }
        "FORCE" => {
            parser.take()?;
            Ok(AlterAction::Rebuilds)
        }
        "SECONDARY_LOAD" | "SECONDARY_UNLOAD" => {
            parser.take()?;
            Ok(AlterAction::Nothing)
        }
        "PARTITION" => {
            let (text, _) = create::partition_by(parser)?;
            Ok(AlterAction::Partitions(PartitionAction::By(text)))
        }
        "REMOVE" => {
            parser.take()?;
            parser.expect_word("PARTITIONING")?;
            Ok(AlterAction::Partitions(PartitionAction::Remove))
        }
        "TRUNCATE" | "EXCHANGE" | "REORGANIZE" | "COALESCE" | "ANALYZE" | "CHECK" | "OPTIMIZE" | "REBUILD"
        | "REPAIR"
            if parser.is_word_at(1, "PARTITION")? =>
        {
            parser.take()?;
            parser.take()?;
            partitions(parser, &word)
        }
        "" => parser.wrong("an ALTER TABLE clause expected"),
        _ => {
            // Table options need no introducing word, so anything else must be one.
            let mut options = TableOptions::default();
            if !create::table_option(parser, &mut options)? {
                return refuse(&word);
            }
            create::forget_folders(&mut options);
            Ok(AlterAction::Options(options))
        }
    }
}

fn refuse<T>(clause: &str) -> Result<T, Problem> {
    Problem::unsupported(format!("ALTER TABLE … {clause}"))
}

fn add(parser: &mut Parser<'_>, more: &mut Vec<AlterAction>) -> Result<AlterAction, Problem> {
    if parser.eat_word("PARTITION")? {
        no_write_to_binlog(parser)?;
        let action = if parser.eat_word("PARTITIONS")? {
            PartitionAction::AddNumbered(parser.unsigned()?)
        } else {
            PartitionAction::Add(partition::definitions(parser)?)
        };
        return Ok(AlterAction::Partitions(action));
    }
    match create::key_element(parser)? {
        Some(Element::Key(key)) => return Ok(AlterAction::AddKey(key)),
        Some(Element::Check(check)) => {
            let enforced = check.enforced;
            more.push(AlterAction::AddChecks(vec![check]));
            return Ok(if enforced { AlterAction::Copies } else { AlterAction::Nothing });
        }
        None => {}
    }
    parser.eat_word("COLUMN")?;
    let mut table = TableSpec::default();
    if parser.eat_punct(b'(')? {
        create::table_elements(parser, &mut table)?;
        parser.expect_punct(b')')?;
        add_checks(&mut table, more);
        return Ok(AlterAction::AddColumns { columns: table.columns, keys: table.keys, position: None });
    }
    create::column(parser, &mut table)?;
    add_checks(&mut table, more);
    let position = position(parser)?;
    Ok(AlterAction::AddColumns { columns: table.columns, keys: table.keys, position })
}

fn add_checks(table: &mut TableSpec, more: &mut Vec<AlterAction>) {
    if !table.checks.is_empty() {
        more.push(AlterAction::AddChecks(std::mem::take(&mut table.checks)));
    }
}

/// Called after the verb and PARTITION.
fn partitions(parser: &mut Parser<'_>, word: &str) -> Result<AlterAction, Problem> {
    no_write_to_binlog(parser)?;
    Ok(AlterAction::Partitions(match word {
        "TRUNCATE" => PartitionAction::Truncate(if parser.eat_word("ALL")? { None } else { Some(names(parser)?) }),
        "EXCHANGE" => {
            let partition = parser.name()?;
            parser.expect_word("WITH")?;
            parser.expect_word("TABLE")?;
            let with = parser.table_name()?;
            let validated = parser.eat_word("WITH")? || !parser.eat_word("WITHOUT")?;
            let _ = parser.eat_word("VALIDATION")?;
            PartitionAction::Exchange { partition, with, validated }
        }
        "REORGANIZE" => {
            // REORGANIZE PARTITION without names, for HASH and KEY: results in one partition, as without PARTITIONS
            // (seen on 9.7).
            if parser.at_end()? || parser.is_punct(b';')? {
                return Ok(AlterAction::Partitions(PartitionAction::Renumber));
            }
            let partitions = names(parser)?;
            parser.expect_word("INTO")?;
            PartitionAction::Reorganize { partitions, into: partition::definitions(parser)? }
        }
        "COALESCE" => PartitionAction::Coalesce(parser.unsigned()?),
        _ => {
            if !parser.eat_word("ALL")? {
                names(parser)?;
            }
            // Options of CHECK and REPAIR.
            while parser
                .is_any_word(&["FOR", "UPGRADE", "QUICK", "FAST", "MEDIUM", "EXTENDED", "CHANGED", "USE_FRM"])?
            {
                parser.take()?;
            }
            let remakes = matches!(word, "REBUILD" | "OPTIMIZE");
            return Ok(if remakes { AlterAction::Remakes } else { AlterAction::Nothing });
        }
    }))
}

pub(crate) fn no_write_to_binlog(parser: &mut Parser<'_>) -> Result<(), Problem> {
    let _ = parser.eat_word("LOCAL")? || parser.eat_word("NO_WRITE_TO_BINLOG")?;
    Ok(())
}

fn names(parser: &mut Parser<'_>) -> Result<Vec<String>, Problem> {
    let mut names = vec![parser.name()?];
    while parser.eat_punct(b',')? {
        names.push(parser.name()?);
    }
    Ok(names)
}

/// Called after MODIFY or CHANGE.
fn change_column(parser: &mut Parser<'_>, renames: bool, more: &mut Vec<AlterAction>) -> Result<AlterAction, Problem> {
    let old_name = if renames { Some(parser.name()?) } else { None };
    let mut table = TableSpec::default();
    create::column(parser, &mut table)?;
    add_checks(&mut table, more);
    let position = position(parser)?;
    let Some(column) = table.columns.pop() else { return parser.wrong("a column expected") };
    let name = old_name.unwrap_or_else(|| column.name.clone());
    Ok(AlterAction::ChangeColumn { name, column: Box::new(column), keys: table.keys, position })
}

fn position(parser: &mut Parser<'_>) -> Result<Option<Position>, Problem> {
    if parser.eat_word("FIRST")? {
        return Ok(Some(Position::First));
    }
    Ok(if parser.eat_word("AFTER")? { Some(Position::After(parser.name()?)) } else { None })
}

fn drop_something(parser: &mut Parser<'_>, more: &mut Vec<AlterAction>) -> Result<AlterAction, Problem> {
    match parser.word_upper()?.as_str() {
        "INDEX" | "KEY" => {
            parser.take()?;
            Ok(AlterAction::DropKey(parser.name()?))
        }
        "PRIMARY" => {
            parser.take()?;
            parser.expect_word("KEY")?;
            Ok(AlterAction::DropPrimaryKey)
        }
        "FOREIGN" => {
            parser.take()?;
            parser.expect_word("KEY")?;
            Ok(AlterAction::DropForeignKey(parser.name()?))
        }
        "CHECK" => {
            parser.take()?;
            more.push(AlterAction::DropCheck(parser.name()?));
            Ok(AlterAction::Remakes)
        }
        "CONSTRAINT" => {
            parser.take()?;
            Ok(AlterAction::DropConstraint(parser.name()?))
        }
        "PARTITION" => {
            parser.take()?;
            Ok(AlterAction::Partitions(PartitionAction::Drop(names(parser)?)))
        }
        word => {
            if word == "COLUMN" {
                parser.take()?;
            }
            let name = parser.name()?;
            let _ = parser.eat_word("RESTRICT")? || parser.eat_word("CASCADE")?;
            Ok(AlterAction::DropColumn(name))
        }
    }
}

fn rename(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    // COLUMN, INDEX and KEY are reserved words, so here they cannot be the new name of the table.
    let column = parser.eat_word("COLUMN")?;
    if column || parser.eat_word("INDEX")? || parser.eat_word("KEY")? {
        let from = parser.name()?;
        parser.expect_word("TO")?;
        let to = parser.name()?;
        return Ok(if column { AlterAction::RenameColumn { from, to } } else { AlterAction::RenameKey { from, to } });
    }
    let _ = parser.eat_word("TO")? || parser.eat_word("AS")? || parser.eat_punct(b'=')?;
    Ok(AlterAction::RenameTo(parser.table_name()?))
}

/// ALTER inside ALTER TABLE: of an index, a check or a column.
fn alter_something(parser: &mut Parser<'_>, more: &mut Vec<AlterAction>) -> Result<AlterAction, Problem> {
    match parser.word_upper()?.as_str() {
        "INDEX" => {
            parser.take()?;
            let name = parser.name()?;
            let invisible = visibility(parser)?;
            Ok(AlterAction::KeyVisibility { name, invisible })
        }
        "CHECK" | "CONSTRAINT" => {
            parser.take()?;
            let name = parser.name()?;
            // MySQL would not copy the table if the check were enforced already. Checks are not tracked, so a copy is
            // assumed.
            let enforced = !parser.eat_word("NOT")?;
            parser.expect_word("ENFORCED")?;
            more.push(AlterAction::EnforceCheck { name, enforced });
            Ok(if enforced { AlterAction::Copies } else { AlterAction::Remakes })
        }
        _ => {
            parser.eat_word("COLUMN")?;
            let name = parser.name()?;
            if parser.eat(&["DROP", "DEFAULT"])? {
                return Ok(AlterAction::ColumnDefault { name, default: None });
            }
            parser.expect_word("SET")?;
            if parser.eat_word("DEFAULT")? {
                let default = match create::default_value(parser)? {
                    DefaultSpec::Expression { text, spelled } => match create::constant(parser, &text) {
                        Some(constant) => constant,
                        None => DefaultSpec::Expression { text, spelled },
                    },
                    other => other,
                };
                return Ok(AlterAction::ColumnDefault { name, default: Some(default) });
            }
            let invisible = visibility(parser)?;
            Ok(AlterAction::ColumnVisibility { name, invisible })
        }
    }
}

/// Parses VISIBLE or INVISIBLE; true for INVISIBLE.
fn visibility(parser: &mut Parser<'_>) -> Result<bool, Problem> {
    let invisible = parser.eat_word("INVISIBLE")?;
    if !invisible {
        parser.expect_word("VISIBLE")?;
    }
    Ok(invisible)
}

/// Called after CONVERT TO.
fn convert_to(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    let mut charset = CharsetSpec::default();
    if !create::charset_option(parser, &mut charset)? {
        return parser.wrong("CHARACTER SET expected");
    }
    if parser.is_word("COLLATE")? {
        create::charset_option(parser, &mut charset)?;
    }
    Ok(AlterAction::ConvertTo(charset))
}

/// Called after ORDER BY. The physical order of rows at the source has no meaning here, except that they may be numbered
/// in it. A comma belongs to the list as
/// long as a column follows it.
fn order_by(parser: &mut Parser<'_>) -> Result<AlterAction, Problem> {
    loop {
        parser.table_name()?;
        let _ = parser.eat_word("ASC")? || parser.eat_word("DESC")?;
        let column_follows = match parser.peek_at(1)? {
            Tok::Quoted(_) => true,
            Tok::Word(word) => !ACTIONS.iter().any(|action| word.eq_ignore_ascii_case(action.as_bytes())),
            _ => false,
        };
        if !(parser.is_punct(b',')? && column_follows) {
            return Ok(AlterAction::OrderBy);
        }
        parser.take()?;
    }
}

/// Reserved words that start an action.
const ACTIONS: [&str; 9] = ["ADD", "ALTER", "CHANGE", "CONVERT", "DROP", "FORCE", "ORDER", "RENAME", "MODIFY"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::StatementContext;
    use crate::statement::parse;
    use crate::syntax::KeySpec;

    fn actions(sql: &str) -> Vec<AlterAction> {
        match parse(&StatementContext::default(), sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error:?}")) {
            Statement::AlterTable { actions, .. } => actions,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_carried_out() {
        assert!(matches!(
            actions("create unique index i using btree on t (a(3), (b+1) desc) comment 'x' lock=none")[..],
            [AlterAction::AddKey(KeySpec { kind: KeyKind::Unique, .. }), AlterAction::InPlace]
        ));
        assert_eq!(
            actions("drop index i on d.t algorithm = inplace lock default"),
            [AlterAction::DropKey("i".to_owned()), AlterAction::InPlace, AlterAction::Nothing]
        );
        assert_eq!(actions("alter table t add key (a), drop index b, rename to c, alter index d invisible, comment='x', auto_increment=7 row_format=compact, engine=innodb").len(), 8);
        assert_eq!(actions("alter table t add constraint c foreign key (a) references p (b) on delete cascade, drop foreign key d, add check (a>1), drop check c, drop constraint e, disable keys").len(), 8);
        assert_eq!(
            actions("alter table t rename index a to b, rename key c to d, algorithm=inplace, lock=none").len(),
            4
        );
        assert_eq!(actions("alter table t"), []);
    }

    #[test]
    fn columns_and_places() {
        let column = |action: &AlterAction| match action {
            AlterAction::AddColumns { columns, keys, position } => {
                (columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>().join(","), keys.len(), position.clone())
            }
            AlterAction::ChangeColumn { name, column, keys, position } => {
                (format!("{name}>{}", column.name), keys.len(), position.clone())
            }
            other => panic!("{other:?}"),
        };
        let of = |sql: &str| column(&actions(sql)[0]);
        assert_eq!(of("alter table t add c int first"), ("c".into(), 0, Some(Position::First)));
        assert_eq!(
            of("alter table t add column c int unique not null after `b c`"),
            ("c".into(), 1, Some(Position::After("b c".into())))
        );
        assert_eq!(of("alter table t add (c int primary key, d char(3), key (d))"), ("c,d".into(), 2, None));
        assert_eq!(
            of("alter table t modify column c bigint after d"),
            ("c>c".into(), 0, Some(Position::After("d".into())))
        );
        assert_eq!(of("alter table t change c `first` text"), ("c>first".into(), 0, None));
        assert_eq!(
            actions("alter table t order by a, `b` desc, c, drop column x, rename column y to z"),
            [
                AlterAction::OrderBy,
                AlterAction::DropColumn("x".into()),
                AlterAction::RenameColumn { from: "y".into(), to: "z".into() }
            ]
        );
        assert_eq!(actions("alter table t alter a set default (1+1), alter column b drop default, alter c set invisible, drop primary key, default charset latin1 collate=latin1_bin, convert to character set utf8mb4 collate utf8mb4_bin").len(), 7);
    }

    #[test]
    fn partitions_of_a_table() {
        let of = |sql: &str| match &actions(sql)[..] {
            [AlterAction::Partitions(action)] => action.clone(),
            other => panic!("{other:?}"),
        };
        let all = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(of("alter table t drop partition a, `b`"), PartitionAction::Drop(all(&["a", "b"])));
        assert_eq!(of("alter table t truncate partition all"), PartitionAction::Truncate(None));
        assert!(matches!(
            of("alter table t add partition (partition p values less than (7) engine = innodb, partition q values less than maxvalue)"),
            PartitionAction::Add(partitions) if partitions.len() == 2
        ));
        assert_eq!(of("alter table t add partition partitions 3"), PartitionAction::AddNumbered(3));
        assert_eq!(of("alter table t coalesce partition 2"), PartitionAction::Coalesce(2));
        assert!(matches!(
            of("alter table t exchange partition p with table d.u without validation"),
            PartitionAction::Exchange { validated: false, .. }
        ));
        for validated in ["", " with validation"] {
            let sql = format!("alter table t exchange partition p with table d.u{validated}");
            assert!(matches!(of(&sql), PartitionAction::Exchange { validated: true, .. }), "{sql}");
        }
        assert!(matches!(
            of("alter table t reorganize partition p, q into (partition r values in (1, 2))"),
            PartitionAction::Reorganize { partitions, into } if partitions.len() == 2 && into.len() == 1
        ));
        assert!(matches!(of("alter table t partition by hash (a) partitions 4"), PartitionAction::By(_)));
        assert_eq!(of("alter table t remove partitioning"), PartitionAction::Remove);
        assert_eq!(of("alter table t reorganize partition"), PartitionAction::Renumber);
        for (sql, action) in [
            ("alter table t rebuild partition p, q", AlterAction::Remakes),
            ("alter table t optimize partition all", AlterAction::Remakes),
            ("alter table t check partition p for upgrade", AlterAction::Nothing),
        ] {
            assert_eq!(actions(sql), [action], "{sql}");
        }
    }

    #[test]
    fn what_is_refused_names_its_clause() {
        for (sql, clause) in
            [("alter table t discard partition p tablespace", "DISCARD"), ("alter table t import tablespace", "IMPORT")]
        {
            let error = parse(&StatementContext::default(), sql.as_bytes()).unwrap_err();
            assert!(
                matches!(&error, crate::error::Problem::NotSupported(what) if what.contains(clause)),
                "{sql}: {error:?}"
            );
        }
    }
}
