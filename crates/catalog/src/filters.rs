//! Replication filters with MySQL's names and semantics: which databases and tables are replicated, and under what
//! name.
//!
//! In: names as the log or the source has them. Out: the name on this replica, and whether it is replicated. Never
//! here: statement text (the parser reads it), a decision per row.
//!
//! Evaluation order is MySQL's (manual, "How Servers Evaluate Replication Filtering Rules"; `sql/rpl_filter.cc`),
//! checked on 9.7.4:
//!
//! 1. The database is rewritten.
//! 2. `do-db`, or `ignore-db` if there are no `do-db` rules, decides about the database: the table's for row events,
//!    the session's default for statements.
//! 3. Over the tables that a statement changes, in the order it names them, the first hit of `do-table`,
//!    `ignore-table`, `wild-do-table`, `wild-ignore-table` (in this order) decides. Without a hit the answer is no if
//!    there are do-rules for tables, otherwise yes.
//!
//! Names are compared as the source's `lower_case_table_names` demands.

use std::fmt;

/// Most characters of a rule. Names have 64, so a longer rule can match nothing and is refused.
const RULE_CHARS_MAX: usize = 1024;

/// The rules of all filter options. Each option may be given several times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicationFilters {
    /// From, to; the first rule that matches applies.
    rewrite_db: Vec<(String, String)>,
    do_db: Vec<String>,
    ignore_db: Vec<String>,
    do_table: Vec<(String, String)>,
    ignore_table: Vec<(String, String)>,
    /// LIKE patterns over `db.table`.
    wild_do_table: Vec<String>,
    wild_ignore_table: Vec<String>,
}

impl ReplicationFilters {
    /// The rules of one option as SHOW REPLICA STATUS lists them, behind commas; empty for other names.
    #[must_use]
    pub fn text(&self, option: &str) -> String {
        let names = |tables: &[(String, String)]| -> Vec<String> {
            tables.iter().map(|(database, table)| format!("{database}.{table}")).collect()
        };
        let rules = match option {
            "replicate-rewrite-db" => self.rewrite_db.iter().map(|(from, to)| format!("({from},{to})")).collect(),
            "replicate-do-db" => self.do_db.clone(),
            "replicate-ignore-db" => self.ignore_db.clone(),
            "replicate-do-table" => names(&self.do_table),
            "replicate-ignore-table" => names(&self.ignore_table),
            "replicate-wild-do-table" => self.wild_do_table.clone(),
            "replicate-wild-ignore-table" => self.wild_ignore_table.clone(),
            _ => Vec::new(),
        };
        rules.join(",")
    }

    /// Adds one rule: an option's name with dashes, and its value in the syntax of MySQL's option. A rule given twice
    /// counts once.
    ///
    /// # Errors
    /// What is wrong with the value or the name, in words.
    pub fn add(&mut self, option: &str, value: &str) -> Result<(), String> {
        if value.chars().count() > RULE_CHARS_MAX || value.chars().any(char::is_control) {
            return Err("no database or table has such a name".into());
        }
        match option {
            "replicate-rewrite-db" => {
                let (from, to) = value.split_once("->").ok_or("it is FROM->TO")?;
                let (from, to) = (from.trim().to_owned(), to.trim().to_owned());
                if from.is_empty() || to.is_empty() {
                    return Err("it is FROM->TO, two names of databases".into());
                }
                put(&mut self.rewrite_db, (from, to));
            }
            "replicate-do-db" => put(&mut self.do_db, database(value)?),
            "replicate-ignore-db" => put(&mut self.ignore_db, database(value)?),
            "replicate-do-table" => put(&mut self.do_table, table(value)?),
            "replicate-ignore-table" => put(&mut self.ignore_table, table(value)?),
            "replicate-wild-do-table" => put(&mut self.wild_do_table, pattern(value)?),
            "replicate-wild-ignore-table" => put(&mut self.wild_ignore_table, pattern(value)?),
            other => return Err(format!("there is no option {other}")),
        }
        // Order has no meaning in these lists. Sorted, equal rule sets have equal texts.
        for rules in [&mut self.do_db, &mut self.ignore_db, &mut self.wild_do_table, &mut self.wild_ignore_table] {
            rules.sort();
        }
        self.do_table.sort();
        self.ignore_table.sort();
        Ok(())
    }

    /// True if everything is replicated under its own name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == ReplicationFilters::default()
    }

    /// Name on this replica of a database of the source.
    #[must_use]
    pub fn rewritten<'a>(&'a self, db: &'a str, lower_case_table_names: u8) -> &'a str {
        let rule = self.rewrite_db.iter().find(|(from, _)| same(from, db, lower_case_table_names));
        rule.map_or(db, |(_, to)| to)
    }

    /// True if any database is renamed.
    #[must_use]
    pub fn renames(&self) -> bool {
        !self.rewrite_db.is_empty()
    }

    /// Applies the database rules alone: `do-db` and `ignore-db`. `db` is the name after rewriting, empty for a session
    /// without a default database.
    #[must_use]
    pub fn database_passes(&self, db: &str, lower_case_table_names: u8) -> bool {
        let is_in = |rules: &[String]| rules.iter().any(|rule| same(rule, db, lower_case_table_names));
        if self.do_db.is_empty() { !is_in(&self.ignore_db) } else { is_in(&self.do_db) }
    }

    /// Applies the table rules alone to the tables that a statement changes, in its order and by their names after
    /// rewriting. True if it changes no table.
    #[must_use]
    pub fn tables_pass<'a>(
        &self,
        tables: impl IntoIterator<Item = (&'a str, &'a str)>,
        lower_case_table_names: u8,
    ) -> bool {
        if !self.has_table_rules() {
            return true;
        }
        let mut any = false;
        for (db, table) in tables {
            any = true;
            if let Some(decided) = self.table_hit(db, table, lower_case_table_names) {
                return decided;
            }
        }
        !any || (self.do_table.is_empty() && self.wild_do_table.is_empty())
    }

    /// True if rows of the table are replicated. Names are those after rewriting.
    #[must_use]
    pub fn replicates(&self, db: &str, table: &str, lower_case_table_names: u8) -> bool {
        self.database_passes(db, lower_case_table_names) && self.tables_pass([(db, table)], lower_case_table_names)
    }

    /// Like [`replicates`](Self::replicates), for a table by its name on the source. Returns its database's name after
    /// rewriting if it is replicated.
    #[must_use]
    pub fn place_of<'a>(&'a self, db: &'a str, table: &str, lower_case_table_names: u8) -> Option<&'a str> {
        let db = self.rewritten(db, lower_case_table_names);
        self.replicates(db, table, lower_case_table_names).then_some(db)
    }

    /// True if CREATE, ALTER or DROP DATABASE of `name` is executed: by the database rules, or if there are none, by
    /// the patterns that match `name.`.
    #[must_use]
    pub fn database_statement_passes(&self, name: &str, lower_case_table_names: u8) -> bool {
        if !self.do_db.is_empty() || !self.ignore_db.is_empty() {
            return self.database_passes(name, lower_case_table_names);
        }
        let text = format!("{name}.");
        let hit = |rules: &[String]| rules.iter().any(|rule| like(rule, &text, lower_case_table_names));
        hit(&self.wild_do_table) || (!hit(&self.wild_ignore_table) && self.wild_do_table.is_empty())
    }

    fn has_table_rules(&self) -> bool {
        !(self.do_table.is_empty()
            && self.ignore_table.is_empty()
            && self.wild_do_table.is_empty()
            && self.wild_ignore_table.is_empty())
    }

    /// Verdict of the first matching table rule; None if none matches.
    fn table_hit(&self, db: &str, table: &str, lower: u8) -> Option<bool> {
        let named = |rules: &[(String, String)]| {
            rules.iter().any(|rule| same(&rule.0, db, lower) && same(&rule.1, table, lower))
        };
        let full = format!("{db}.{table}");
        let wild = |rules: &[String]| rules.iter().any(|rule| like(rule, &full, lower));
        if named(&self.do_table) {
            Some(true)
        } else if named(&self.ignore_table) {
            Some(false)
        } else if wild(&self.wild_do_table) {
            Some(true)
        } else if wild(&self.wild_ignore_table) {
            Some(false)
        } else {
            None
        }
    }

    /// All rules as pairs of option and value.
    pub fn rules(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        let renamed = self.rewrite_db.iter().map(|(from, to)| ("replicate-rewrite-db", format!("{from}->{to}")));
        let databases = |option, rules: &'_ [String]| {
            rules.iter().map(move |rule| (option, rule.clone())).collect::<Vec<(&'static str, String)>>()
        };
        let tables = |option, rules: &'_ [(String, String)]| {
            let text = |(db, table): &(String, String)| (option, format!("{db}.{table}"));
            rules.iter().map(text).collect::<Vec<(&'static str, String)>>()
        };
        renamed
            .chain(databases("replicate-do-db", &self.do_db))
            .chain(databases("replicate-ignore-db", &self.ignore_db))
            .chain(tables("replicate-do-table", &self.do_table))
            .chain(tables("replicate-ignore-table", &self.ignore_table))
            .chain(databases("replicate-wild-do-table", &self.wild_do_table))
            .chain(databases("replicate-wild-ignore-table", &self.wild_ignore_table))
    }

    /// Parses what [`Display`](fmt::Display) wrote: one rule per line, `option=value`.
    ///
    /// # Errors
    /// Names the first line that is not a rule.
    pub fn from_text(text: &str) -> Result<ReplicationFilters, String> {
        let mut filters = ReplicationFilters::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let wrong = |reason: String| format!("'{line}': {reason}");
            let (option, value) = line.split_once('=').ok_or_else(|| wrong("no rule".into()))?;
            filters.add(option, value).map_err(wrong)?;
        }
        Ok(filters)
    }
}

impl fmt::Display for ReplicationFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rules().try_for_each(|(option, value)| writeln!(f, "{option}={value}"))
    }
}

fn put<T: PartialEq>(rules: &mut Vec<T>, rule: T) {
    if !rules.contains(&rule) {
        rules.push(rule);
    }
}

fn database(value: &str) -> Result<String, String> {
    if value.is_empty() { Err("it is the name of a database".into()) } else { Ok(value.to_owned()) }
}

/// Splits at the first dot, as MySQL does.
fn table(value: &str) -> Result<(String, String), String> {
    match value.split_once('.') {
        Some((db, table)) if !db.is_empty() && !table.is_empty() => Ok((db.to_owned(), table.to_owned())),
        _ => Err("it is DATABASE.TABLE".into()),
    }
}

fn pattern(value: &str) -> Result<String, String> {
    match value.split_once('.') {
        Some((db, _)) if !db.is_empty() => Ok(value.to_owned()),
        _ => Err("it is DATABASE.TABLE with % and _ as LIKE has them".into()),
    }
}

fn same(left: &str, right: &str, lower_case_table_names: u8) -> bool {
    left == right || (lower_case_table_names > 0 && left.to_lowercase() == right.to_lowercase())
}

/// SQL LIKE: `%` matches any text, `_` one character, and `\` takes the next character literally.
fn like(pattern: &str, text: &str, lower_case_table_names: u8) -> bool {
    let chars = |text: &str| -> Vec<char> {
        if lower_case_table_names > 0 { text.to_lowercase().chars().collect() } else { text.chars().collect() }
    };
    let (pattern, text) = (chars(pattern), chars(text));
    let (mut p, mut t) = (0, 0);
    // Pattern position after the last `%`, and the text position up to which that `%` matches so far.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let step = match pattern.get(p) {
            Some('%') => {
                retry = Some((p + 1, t));
                p += 1;
                continue;
            }
            Some('_') => text.get(t).map(|_| 1),
            Some('\\') if p + 1 < pattern.len() => (pattern.get(p + 1) == text.get(t)).then_some(2),
            Some(wanted) => (Some(wanted) == text.get(t)).then_some(1),
            None if t == text.len() => return true,
            None => None,
        };
        match (step, retry) {
            (Some(step), _) => {
                p += step;
                t += 1;
            }
            // Mismatch: let the last % match one more character.
            (None, Some((after, from))) if from < text.len() => {
                retry = Some((after, from + 1));
                (p, t) = (after, from + 1);
            }
            (None, _) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(rules: &str) -> ReplicationFilters {
        let mut filters = ReplicationFilters::default();
        for rule in rules.split_whitespace() {
            let (option, value) = rule.split_once('=').unwrap();
            filters.add(&format!("replicate-{option}"), value).unwrap();
        }
        filters
    }

    #[test]
    fn patterns_are_those_of_like() {
        for (pattern, text, is) in [
            ("d%.t", "db.t", true),
            ("d%.t", "d.t", true),
            ("d_.t%", "db.t", true),
            ("d_.t%", "d.t", false),
            (r"my\_db.%", "my_db.x", true),
            (r"my\_db.%", "myxdb.x", false),
            (r"a.100\%", "a.100%", true),
            (r"a.100\%", "a.1000", false),
            ("%.%", "a.", true),
            ("%a%b%.c", "xxaxxbxx.c", true),
            ("%a%b%.c", "xxbxxaxx.c", false),
            ("foo%.bar%", "foofoo.barbar", true),
            ("a.b", "a.bc", false),
            (r"a.b\", r"a.b\", true),
            ("é_.%", "éé.x", true),
        ] {
            assert_eq!(like(pattern, text, 0), is, "{pattern} {text}");
        }
        assert!(like("D.T%", "d.t1", 1) && !like("D.T%", "d.t1", 0));
    }

    /// The manual's "Evaluation of Database-Level Replication and Binary Logging Options".
    #[test]
    fn rules_of_databases() {
        for (rules, db, passes) in [
            ("", "a", true),
            ("do-db=a do-db=b", "b", true),
            ("do-db=a", "c", false),
            ("do-db=a", "A", false),
            // Run on 9.7.4: a session without a default database matches no do-db.
            ("do-db=a", "", false),
            ("ignore-db=a", "a", false),
            ("ignore-db=a", "b", true),
            ("ignore-db=a", "", true),
            // With do-rules, the ignore-rules for databases have no effect.
            ("do-db=a ignore-db=a", "a", true),
            ("do-db=a ignore-db=c", "b", false),
        ] {
            assert_eq!(filters(rules).database_passes(db, 0), passes, "{rules} {db}");
        }
        assert!(filters("do-db=a").database_passes("A", 1));
    }

    /// The manual's "Evaluation of Table-Level Replication Options", and results of 9.7.4.
    #[test]
    fn rules_of_tables() {
        for (rules, tables, passes) in [
            ("", "d.t", true),
            ("do-table=d.t", "d.t", true),
            ("do-table=d.t", "d.u", false),
            ("do-table=d.t", "d.T", false),
            ("ignore-table=d.t", "d.t", false),
            ("ignore-table=d.t", "d.u", true),
            ("do-table=d.t ignore-table=d.t", "d.t", true),
            ("ignore-table=d.t wild-do-table=d.%", "d.t", false),
            ("ignore-table=d.t wild-do-table=d.%", "d.u", true),
            ("ignore-table=d.t wild-do-table=d.%", "e.u", false),
            ("wild-do-table=d.% wild-ignore-table=d.t%", "d.t1", true),
            ("wild-ignore-table=d.t%", "d.t1", false),
            ("wild-ignore-table=d.t%", "d.u", true),
            ("do-table=d.t wild-ignore-table=d.%", "d.t", true),
            ("do-table=d.t wild-ignore-table=d.%", "e.t", false),
            // Several tables: the first hit decides. Run on 9.7.4 with DROP TABLE t, u and a RENAME of four names.
            ("ignore-table=a.t", "a.t a.u", false),
            ("ignore-table=a.t", "a.u a.w a.t a.x", false),
            ("ignore-table=a.t do-table=a.u", "a.u a.t", true),
            ("ignore-table=a.t do-table=a.u", "a.t a.u", false),
            // A statement that changes no table passes.
            ("do-table=a.t", "", true),
        ] {
            let tables: Vec<(&str, &str)> =
                tables.split_whitespace().map(|name| name.split_once('.').unwrap()).collect();
            assert_eq!(filters(rules).tables_pass(tables.iter().copied(), 0), passes, "{rules} {tables:?}");
        }
        assert!(filters("do-table=D.T").tables_pass([("d", "t")], 1));
        // Both levels must let a row pass.
        let both = filters("do-db=a ignore-table=a.x");
        assert!(both.replicates("a", "t", 0) && !both.replicates("a", "x", 0) && !both.replicates("b", "t", 0));
    }

    #[test]
    fn statements_about_databases() {
        for (rules, db, passes) in [
            ("", "a", true),
            ("do-db=a", "a", true),
            ("do-db=a", "b", false),
            ("ignore-db=a", "a", false),
            ("wild-do-table=a.%", "a", true),
            ("wild-do-table=a.t%", "a", false),
            ("wild-do-table=a.%", "b", false),
            ("wild-ignore-table=a.%", "a", false),
            ("wild-ignore-table=a.t%", "a", true),
            // Table rules without wildcards do not affect databases.
            ("do-table=a.t", "b", true),
            ("ignore-db=c wild-ignore-table=a.%", "a", true),
        ] {
            assert_eq!(filters(rules).database_statement_passes(db, 0), passes, "{rules} {db}");
        }
    }

    #[test]
    fn names_are_rewritten_first() {
        let filters = filters("rewrite-db=a->b rewrite-db=a->c do-db=b ignore-table=b.x");
        assert_eq!((filters.rewritten("a", 0), filters.rewritten("b", 0), filters.rewritten("z", 0)), ("b", "b", "z"));
        assert_eq!(filters.place_of("a", "t", 0), Some("b"));
        assert_eq!(filters.place_of("a", "x", 0), None);
        assert_eq!(filters.place_of("c", "t", 0), None);
        assert_eq!(filters.rewritten("A", 0), "A");
        assert_eq!(filters.rewritten("A", 1), "b");
    }

    #[test]
    fn kept_as_text() {
        let one = filters("do-db=b do-db=a do-db=b rewrite-db=x->y wild-do-table=%.t");
        let other = filters("wild-do-table=%.t do-db=a rewrite-db=x->y do-db=b");
        assert_eq!(one.to_string(), other.to_string());
        assert_eq!(ReplicationFilters::from_text(&one.to_string()).unwrap(), other);
        assert!(ReplicationFilters::from_text("").unwrap().is_empty() && !one.is_empty());
        for wrong in ["nonsense", "replicate-do-table=t", "replicate-rewrite-db=a", "replicate-do-db=", "server-id=1"] {
            assert!(ReplicationFilters::from_text(wrong).is_err(), "{wrong}");
        }
        assert!(ReplicationFilters::default().add("replicate-do-db", "a\nb").is_err());
    }
}
