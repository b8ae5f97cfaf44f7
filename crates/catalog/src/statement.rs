//! Classification of statements, and parsing of the short ones.
//!
//! In: a parser at the first token. Out: a [`Statement`], or the problem with the clause named. Never here: the
//! catalog's state. Statements that cannot affect a table's definition or rows are recognised by their first words
//! alone, so that their text, however unusual, never stops replay.

use crate::context::StatementContext;
use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;
use crate::syntax::{CharsetSpec, Statement, TableName};
use crate::{alter, create};

/// Most tokens to read before it is clear what a CREATE with DEFINER, ALGORITHM or SQL SECURITY creates.
const CREATE_ATTRIBUTE_TOKENS_MAX: usize = 64;

pub(crate) fn parse(context: &StatementContext, sql: &[u8]) -> Result<Statement, Problem> {
    let mut parser = Parser::new(context, sql);
    while parser.eat_punct(b';')? {}
    if parser.at_end()? {
        return Ok(Statement::NoEffect("empty or comment"));
    }
    let first = parser.word_upper()?;
    if let Some(known) = by_first_word(&first) {
        return Ok(known);
    }
    match first.as_str() {
        "SET" => return set(&mut parser),
        // OPTIMIZE is logged whatever its result, so names that cannot be parsed are not an error.
        "OPTIMIZE" => return Ok(optimize(&mut parser).unwrap_or(Statement::NoEffect("OPTIMIZE"))),
        "CREATE" | "DROP" | "ALTER" | "RENAME" => {
            if let Some(recorded) = recorded_object(&mut parser)? {
                return Ok(recorded);
            }
        }
        "TRUNCATE" => {}
        "" => return parser.wrong("a statement expected"),
        _ => return unsupported(&first),
    }
    parser.take()?;
    let statement = match first.as_str() {
        "CREATE" => create_object(&mut parser)?,
        "DROP" => drop_object(&mut parser)?,
        "ALTER" => alter_object(&mut parser)?,
        "RENAME" => rename_table(&mut parser)?,
        _ => {
            parser.eat_word("TABLE")?;
            Statement::Truncate(parser.table_name()?)
        }
    };
    parser.expect_end()?;
    Ok(statement)
}

fn by_first_word(word: &str) -> Option<Statement> {
    Some(match word {
        "ANALYZE" => Statement::NoEffect("ANALYZE"),
        "REPAIR" => Statement::NoEffect("REPAIR"),
        "FLUSH" => Statement::NoEffect("FLUSH"),
        "CHECK" | "CHECKSUM" => Statement::NoEffect("CHECK"),
        "CACHE" => Statement::NoEffect("CACHE INDEX"),
        "RESET" => Statement::NoEffect("RESET"),
        "GRANT" => Statement::Recorded("grant"),
        "REVOKE" => Statement::Recorded("revoke"),
        "INSTALL" | "UNINSTALL" => Statement::Recorded("plugin or component"),
        _ => return None,
    })
}

fn unsupported<T>(word: &str) -> Result<T, Problem> {
    match word {
        "INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD" | "WITH" | "CALL" | "DO" | "SELECT" | "TABLE"
        | "VALUES" | "IMPORT" | "HANDLER" => Problem::unsupported(format!(
            "{word} as statement text (the session used binlog_format=STATEMENT or MIXED); only row events can be replayed"
        )),
        _ => Problem::unsupported(format!("the statement {word}")),
    }
}

fn optimize(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    parser.take()?;
    alter::no_write_to_binlog(parser)?;
    let _ = parser.eat_word("TABLE")? || parser.eat_word("TABLES")?;
    Ok(Statement::Optimize(table_names(parser)?))
}

/// The only SET statements in the log concern passwords, roles and resource groups.
fn set(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    if parser.is_word_at(1, "PASSWORD")? {
        return Ok(Statement::Recorded("user"));
    }
    if parser.is_word_at(1, "ROLE")? || (parser.is_word_at(1, "DEFAULT")? && parser.is_word_at(2, "ROLE")?) {
        return Ok(Statement::Recorded("role"));
    }
    if parser.is_word_at(1, "RESOURCE")? {
        return Ok(Statement::Recorded("resource group"));
    }
    Problem::unsupported("SET as statement text")
}

/// CREATE, DROP, ALTER and RENAME of objects other than tables and databases.
fn recorded_object(parser: &mut Parser<'_>) -> Result<Option<Statement>, Problem> {
    for ahead in 1..CREATE_ATTRIBUTE_TOKENS_MAX {
        let word = match parser.peek_at(ahead)? {
            Tok::Word(word) => String::from_utf8_lossy(word).to_ascii_uppercase(),
            Tok::End => return Ok(None),
            // Values of the attributes below.
            _ if ahead > 1 => continue,
            _ => return Ok(None),
        };
        let kind = match word.as_str() {
            "VIEW" => return Ok(Some(view(parser, ahead).unwrap_or(Statement::Recorded("view")))),
            "PROCEDURE" | "FUNCTION" | "AGGREGATE" | "LIBRARY" => "routine",
            "TRIGGER" => "trigger",
            "EVENT" => "event",
            "USER" => "user",
            "ROLE" => "role",
            "SERVER" => "server",
            "TABLESPACE" | "UNDO" | "LOGFILE" => "tablespace",
            "RESOURCE" => "resource group",
            "INSTANCE" => "instance",
            "SPATIAL" if parser.is_word_at(ahead + 1, "REFERENCE")? => "spatial reference system",
            "TABLE" | "TABLES" | "TEMPORARY" | "DATABASE" | "SCHEMA" | "INDEX" | "UNIQUE" | "FULLTEXT" | "SPATIAL" => {
                return Ok(None);
            }
            "OR" | "REPLACE" | "DEFINER" | "ALGORITHM" | "SQL" | "SECURITY" | "JSON" | "RELATIONAL" | "DUALITY" => {
                continue;
            }
            // A word that is not an attribute is the value of one. Directly after the verb it is unknown.
            _ if ahead > 1 => continue,
            _ => return Ok(None),
        };
        return Ok(Some(Statement::Recorded(kind)));
    }
    Ok(None)
}

/// Parses the names in a view statement whose word VIEW is `ahead` tokens further.
fn view(parser: &mut Parser<'_>, ahead: usize) -> Result<Statement, Problem> {
    let creates = parser.is_word("CREATE")?;
    let drops = parser.is_word("DROP")?;
    for _ in 0..=ahead {
        parser.take()?;
    }
    let _ = parser.eat(&["IF", "NOT", "EXISTS"])? || parser.eat(&["IF", "EXISTS"])?;
    if creates {
        return Ok(Statement::CreateView(parser.table_name()?));
    }
    if drops {
        return Ok(Statement::DropView(table_names(parser)?));
    }
    Ok(Statement::Recorded("view"))
}

fn create_object(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    if parser.eat(&["TEMPORARY", "TABLE"])? {
        // A temporary table belongs to its session; with row-based logging its rows are never in the log.
        parser.rest()?;
        return Ok(Statement::NoEffect("temporary table"));
    }
    if parser.eat_word("TABLE")? {
        return Ok(Statement::CreateTable(Box::new(create::create_table(parser)?)));
    }
    if parser.eat_word("DATABASE")? || parser.eat_word("SCHEMA")? {
        let if_not_exists = parser.eat(&["IF", "NOT", "EXISTS"])?;
        let name = parser.database_name()?;
        let options = database_options(parser)?;
        return Ok(Statement::CreateDatabase { name, if_not_exists, options });
    }
    if parser.is_any_word(&["INDEX", "UNIQUE", "FULLTEXT", "SPATIAL"])? {
        return alter::create_index(parser);
    }
    let word = parser.word_upper()?;
    Problem::unsupported(format!("CREATE {word}"))
}

fn drop_object(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    if parser.eat_word("TEMPORARY")? {
        parser.rest()?;
        return Ok(Statement::NoEffect("temporary table"));
    }
    if parser.eat_word("TABLE")? || parser.eat_word("TABLES")? {
        let if_exists = parser.eat(&["IF", "EXISTS"])?;
        let names = table_names(parser)?;
        let _ = parser.eat_word("RESTRICT")? || parser.eat_word("CASCADE")?;
        return Ok(Statement::DropTable { if_exists, names });
    }
    if parser.eat_word("DATABASE")? || parser.eat_word("SCHEMA")? {
        let if_exists = parser.eat(&["IF", "EXISTS"])?;
        return Ok(Statement::DropDatabase { name: parser.name()?, if_exists });
    }
    if parser.eat_word("INDEX")? {
        return alter::drop_index(parser);
    }
    let word = parser.word_upper()?;
    Problem::unsupported(format!("DROP {word}"))
}

fn alter_object(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    if parser.eat_word("TABLE")? {
        return alter::alter_table(parser);
    }
    if parser.eat_word("DATABASE")? || parser.eat_word("SCHEMA")? {
        let options_follow =
            parser.is_any_word(&["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION", "READ"])?;
        let name = if options_follow { None } else { Some(parser.database_name()?) };
        return Ok(Statement::AlterDatabase { name, options: database_options(parser)? });
    }
    let word = parser.word_upper()?;
    Problem::unsupported(format!("ALTER {word}"))
}

fn rename_table(parser: &mut Parser<'_>) -> Result<Statement, Problem> {
    if !(parser.eat_word("TABLE")? || parser.eat_word("TABLES")?) {
        let word = parser.word_upper()?;
        return Problem::unsupported(format!("RENAME {word}"));
    }
    let mut pairs = Vec::new();
    loop {
        let from = parser.table_name()?;
        parser.expect_word("TO")?;
        pairs.push((from, parser.table_name()?));
        if !parser.eat_punct(b',')? {
            return Ok(Statement::RenameTable(pairs));
        }
    }
}

fn table_names(parser: &mut Parser<'_>) -> Result<Vec<TableName>, Problem> {
    let mut names = vec![parser.table_name()?];
    while parser.eat_punct(b',')? {
        names.push(parser.table_name()?);
    }
    Ok(names)
}

fn database_options(parser: &mut Parser<'_>) -> Result<CharsetSpec, Problem> {
    let mut options = CharsetSpec::default();
    loop {
        parser.eat_word("DEFAULT")?;
        if create::charset_option(parser, &mut options)? {
            continue;
        }
        if parser.eat_word("ENCRYPTION")? {
            parser.eat_punct(b'=')?;
            parser.string()?;
        } else if parser.eat(&["READ", "ONLY"])? {
            parser.eat_punct(b'=')?;
            parser.take()?;
        } else {
            return Ok(options);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Result<Statement, Problem> {
        parse(&StatementContext::default(), sql.as_bytes())
    }

    #[test]
    fn kinds() {
        for (sql, kind) in [
            ("ALTER ALGORITHM=MERGE DEFINER=a@b SQL SECURITY INVOKER VIEW v AS select 1", "view"),
            ("create view 'no name' as select 1", "view"),
            ("CREATE DEFINER=`root`@`localhost` PROCEDURE `p`()\nselect 1", "routine"),
            ("CREATE DEFINER=`table`@`%` FUNCTION `f`() RETURNS int DETERMINISTIC return 1", "routine"),
            ("CREATE DEFINER=root@localhost trigger tr before insert on k6 for each row set new.c=1", "trigger"),
            ("CREATE DEFINER=`root`@`localhost` event e on schedule every 1 day do select 1", "event"),
            ("create function f returns string soname 'x.so'", "routine"),
            ("CREATE USER 'u'@'localhost' IDENTIFIED WITH 'caching_sha2_password' AS 'x'", "user"),
            ("create role r", "role"),
            ("drop user u@localhost", "user"),
            ("rename user a to b", "user"),
            ("ALTER DEFINER=`a`@`b` EVENT e DISABLE", "event"),
            ("alter user x password expire", "user"),
            ("GRANT SELECT ON *.* TO 'u'@'localhost'", "grant"),
            ("revoke all on *.* from x", "revoke"),
            ("set password for u = 'x'", "user"),
            ("SET DEFAULT ROLE r TO u", "role"),
            ("create spatial reference system 1 name 'x'", "spatial reference system"),
            ("create tablespace t add datafile 'x'", "tablespace"),
            ("ALTER INSTANCE ROTATE INNODB MASTER KEY", "instance"),
            ("install plugin x soname 'y'", "plugin or component"),
        ] {
            assert_eq!(parsed(sql), Ok(Statement::Recorded(kind)), "{sql}");
        }
        let view = TableName { db: None, name: "v".to_owned() };
        for sql in [
            "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v` AS select 1",
            "create or replace view if not exists v (a) as select 1",
            "create json relational duality view v as select json_duality_object('a': b) from t",
        ] {
            assert_eq!(parsed(sql), Ok(Statement::CreateView(view.clone())), "{sql}");
        }
        assert_eq!(parsed("DROP VIEW IF EXISTS v, v"), Ok(Statement::DropView(vec![view.clone(), view])));
        for sql in [
            "",
            " ; ",
            "/* only */",
            "# Dummy event",
            "-- x\n",
            "analyze table t",
            "repair table t",
            "flush tables",
            "check table t",
            "create temporary table x (a int)",
            "drop temporary table if exists x",
            "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `x`",
        ] {
            assert!(matches!(parsed(sql), Ok(Statement::NoEffect(_))), "{sql}");
        }
        for sql in [
            "insert into t values (1)",
            "update t set a=1",
            "delete from t",
            "replace t values (1)",
            "load data infile 'x' into table t",
            "call p()",
            "nonsense",
            "set names x",
            "create thing x",
            "select 1",
            "alter table t add column",
            "drop table t where",
        ] {
            assert!(parsed(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn short_ones() {
        let table = |name: &str| TableName { db: None, name: name.to_owned() };
        assert_eq!(parsed("truncate t"), Ok(Statement::Truncate(table("t"))));
        assert_eq!(
            parsed("TRUNCATE TABLE `a`.t /* generated by server */"),
            Ok(Statement::Truncate(TableName { db: Some("a".to_owned()), name: "t".to_owned() }))
        );
        assert_eq!(
            parsed("DROP TABLE IF EXISTS `t`,`u` /* generated by server */"),
            Ok(Statement::DropTable { if_exists: true, names: vec![table("t"), table("u")] })
        );
        assert_eq!(
            parsed("rename table a to b, b to a;"),
            Ok(Statement::RenameTable(vec![(table("a"), table("b")), (table("b"), table("a"))]))
        );
        let options =
            CharsetSpec { charset: Some("latin1".to_owned()), collation: Some("latin1_bin".to_owned()), binary: false };
        assert_eq!(
            parsed("create schema if not exists d default character set = latin1 collate latin1_bin encryption='N'"),
            Ok(Statement::CreateDatabase { name: "d".to_owned(), if_not_exists: true, options: options.clone() })
        );
        assert_eq!(
            parsed("alter database charset latin1 default collate='latin1_bin' read only=1"),
            Ok(Statement::AlterDatabase { name: None, options })
        );
        assert_eq!(
            parsed("drop database if exists d"),
            Ok(Statement::DropDatabase { name: "d".to_owned(), if_exists: true })
        );
    }
}
