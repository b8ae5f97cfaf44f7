//! START, STOP, CHANGE and RESET REPLICA.

use catalog::lexer::Tok;

use super::Parser;
use crate::Result;
use crate::ast::Statement;
use crate::orders::{FilterRules, OptionValue, ReplicaOrder, SourceOption, ThreadOrder, UntilText};

/// Options of CHANGE REPLICATION SOURCE TO whose values are strings.
const TEXTS: &[&str] = &[
    "SOURCE_HOST",
    "SOURCE_USER",
    "SOURCE_PASSWORD",
    "SOURCE_SSL_CA",
    "SOURCE_SSL_CERT",
    "SOURCE_SSL_KEY",
    "SOURCE_PUBLIC_KEY_PATH",
];

/// Those whose values are numbers.
const NUMBERS: &[&str] = &[
    "SOURCE_PORT",
    "SOURCE_CONNECT_RETRY",
    "SOURCE_RETRY_COUNT",
    "SOURCE_HEARTBEAT_PERIOD",
    "SOURCE_DELAY",
    "SOURCE_SSL",
    "SOURCE_SSL_VERIFY_SERVER_CERT",
    "GET_SOURCE_PUBLIC_KEY",
    "SOURCE_AUTO_POSITION",
    "SOURCE_CONNECTION_AUTO_FAILOVER",
];

/// Those that MySQL has and that are not taken here.
const NOT_TAKEN: &[&str] = &[
    "ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS",
    "GTID_ONLY",
    "IGNORE_SERVER_IDS",
    "NETWORK_NAMESPACE",
    "PRIVILEGE_CHECKS_USER",
    "RELAY_LOG_FILE",
    "RELAY_LOG_POS",
    "REQUIRE_ROW_FORMAT",
    "REQUIRE_TABLE_PRIMARY_KEY_CHECK",
    "SOURCE_BIND",
    "SOURCE_COMPRESSION_ALGORITHMS",
    "SOURCE_LOG_FILE",
    "SOURCE_LOG_POS",
    "SOURCE_SSL_CAPATH",
    "SOURCE_SSL_CIPHER",
    "SOURCE_SSL_CRL",
    "SOURCE_SSL_CRLPATH",
    "SOURCE_TLS_CIPHERSUITES",
    "SOURCE_TLS_VERSION",
    "SOURCE_ZSTD_COMPRESSION_LEVEL",
];

/// What a filter's rules are made of.
#[derive(Clone, Copy)]
enum Rule {
    Database,
    Table,
    Pattern,
    Rewrite,
}

/// Options of CHANGE REPLICATION FILTER, each with the program's option.
const FILTERS: &[(&str, &str, Rule)] = &[
    ("REPLICATE_DO_DB", "replicate-do-db", Rule::Database),
    ("REPLICATE_IGNORE_DB", "replicate-ignore-db", Rule::Database),
    ("REPLICATE_DO_TABLE", "replicate-do-table", Rule::Table),
    ("REPLICATE_IGNORE_TABLE", "replicate-ignore-table", Rule::Table),
    ("REPLICATE_WILD_DO_TABLE", "replicate-wild-do-table", Rule::Pattern),
    ("REPLICATE_WILD_IGNORE_TABLE", "replicate-wild-ignore-table", Rule::Pattern),
    ("REPLICATE_REWRITE_DB", "replicate-rewrite-db", Rule::Rewrite),
];

impl Parser<'_> {
    /// `[thread [, thread]…] [UNTIL …] [FOR CHANNEL 'name']`, without threads both. What else START has is refused by
    /// its name.
    pub(super) fn replica(&mut self, start: bool) -> Result<Statement> {
        self.advance()?;
        let mut order = ThreadOrder { start, io: false, sql: false, until: None };
        if self.is_one_of(&["IO_THREAD", "RELAY_THREAD", "SQL_THREAD"]) {
            loop {
                if self.accept("IO_THREAD")? || self.accept("RELAY_THREAD")? {
                    order.io = true;
                } else {
                    self.expect("SQL_THREAD")?;
                    order.sql = true;
                }
                if !self.accept_punct(b',')? {
                    break;
                }
            }
        } else {
            (order.io, order.sql) = (true, true);
        }
        let until = if start && self.accept("UNTIL")? {
            match self.until()? {
                Ok(until) => Some(until),
                Err(what) => return Ok(self.refused(format!("START REPLICA UNTIL {what}"))),
            }
        } else {
            None
        };
        if start && self.is_one_of(&["USER", "PASSWORD", "DEFAULT_AUTH", "PLUGIN_DIR"]) {
            return Ok(self.refused(format!("START REPLICA {}", self.word())));
        }
        Ok(Statement::Replica { order: ReplicaOrder::Threads(order), until, channel: self.channel()? })
    }

    /// `SQL_BEFORE_GTIDS = 'set'` or `SQL_AFTER_GTIDS = 'set'`; or the name of a condition that is not answered.
    fn until(&mut self) -> Result<std::result::Result<UntilText, String>> {
        const POSITIONS: &[&str] = &[
            "SOURCE_LOG_FILE",
            "MASTER_LOG_FILE",
            "SOURCE_LOG_POS",
            "MASTER_LOG_POS",
            "RELAY_LOG_FILE",
            "RELAY_LOG_POS",
        ];
        if self.is("SQL_AFTER_MTS_GAPS") || self.is_one_of(POSITIONS) {
            return Ok(Err(self.word()));
        }
        let before = self.accept("SQL_BEFORE_GTIDS")?;
        if !before {
            self.expect("SQL_AFTER_GTIDS")?;
        }
        self.expect_punct(b'=')?;
        let text = self.text_literal()?;
        if self.accept_punct(b',')? {
            if !self.is_one_of(POSITIONS) {
                return Err(self.syntax());
            }
            // Nothing of it counts.
            while !self.at_end() {
                self.advance()?;
            }
            return Ok(Ok(UntilText::Contradiction));
        }
        Ok(Ok(if before { UntilText::Before(text) } else { UntilText::After(text) }))
    }

    /// `CHANGE REPLICATION SOURCE TO option = value [, …]` or `CHANGE REPLICATION FILTER option = (rules) [, …]`
    pub(super) fn change(&mut self) -> Result<Statement> {
        self.advance()?;
        let is_master = self.accept("MASTER")?;
        if !is_master {
            self.expect("REPLICATION")?;
        }
        let order = if !is_master && self.accept("FILTER")? {
            ReplicaOrder::ChangeFilter(self.filters()?)
        } else {
            if !is_master {
                self.expect("SOURCE")?;
            }
            self.expect("TO")?;
            match self.source_options()? {
                Ok(options) => ReplicaOrder::ChangeSource(options),
                Err(name) => return Ok(self.refused(format!("CHANGE REPLICATION SOURCE TO {name}"))),
            }
        };
        Ok(Statement::Replica { order, until: None, channel: self.channel()? })
    }

    /// Options and values; or the name of an option that is not taken.
    fn source_options(&mut self) -> Result<std::result::Result<Vec<SourceOption>, &'static str>> {
        let mut options = Vec::new();
        loop {
            // Tools that write CHANGE MASTER TO, as before 8.4, write its options' names so.
            let word = self.word().replace("MASTER_", "SOURCE_");
            let known = |names: &[&'static str]| names.iter().find(|name| **name == word).copied();
            if let Some(name) = known(NOT_TAKEN) {
                return Ok(Err(name));
            }
            let (text, name) = match (known(TEXTS), known(NUMBERS)) {
                (Some(name), _) => (true, name),
                (None, Some(name)) => (false, name),
                (None, None) => return Err(self.syntax()),
            };
            self.advance()?;
            self.expect_punct(b'=')?;
            let is_switch = matches!(&self.current.tok, Tok::Number(number) if number == "0" || number == "1");
            if name == "SOURCE_CONNECTION_AUTO_FAILOVER" && !is_switch {
                return Err(self.syntax());
            }
            let value =
                if text { OptionValue::Text(self.text_literal()?) } else { OptionValue::Number(self.digits()?) };
            options.push(SourceOption { name, value });
            if !self.accept_punct(b',')? {
                return Ok(Ok(options));
            }
        }
    }

    /// A number as it is written.
    fn digits(&mut self) -> Result<String> {
        let Tok::Number(number) = &self.current.tok else { return Err(self.syntax()) };
        let number = number.clone();
        self.advance()?;
        Ok(number)
    }

    fn filters(&mut self) -> Result<Vec<FilterRules>> {
        let mut all = Vec::new();
        loop {
            let word = self.word();
            let Some((_, option, rule)) = FILTERS.iter().find(|(name, ..)| *name == word) else {
                return Err(self.syntax());
            };
            self.advance()?;
            self.expect_punct(b'=')?;
            self.expect_punct(b'(')?;
            let mut rules = Vec::new();
            while !self.is_punct(b')') {
                rules.push(self.filter_rule(*rule)?);
                if !self.accept_punct(b',')? {
                    break;
                }
                if self.is_punct(b')') {
                    return Err(self.syntax());
                }
            }
            self.expect_punct(b')')?;
            all.push(FilterRules { option, rules });
            if !self.accept_punct(b',')? {
                return Ok(all);
            }
        }
    }

    /// One rule, in the syntax of the program's option.
    fn filter_rule(&mut self, rule: Rule) -> Result<Vec<u8>> {
        match rule {
            Rule::Database => self.name(),
            Rule::Pattern => self.text_literal(),
            Rule::Table => {
                let mut name = self.name()?;
                self.expect_punct(b'.')?;
                name.push(b'.');
                name.extend(self.name()?);
                Ok(name)
            }
            Rule::Rewrite => {
                self.expect_punct(b'(')?;
                let mut rule = self.name()?;
                self.expect_punct(b',')?;
                rule.extend(b"->");
                rule.extend(self.name()?);
                self.expect_punct(b')')?;
                Ok(rule)
            }
        }
    }

    /// RESET REPLICA [ALL]. There is no binary log here.
    pub(super) fn reset(&mut self) -> Result<Statement> {
        self.advance()?;
        if self.accept("REPLICA")? {
            let all = self.accept("ALL")?;
            return Ok(Statement::Replica {
                order: ReplicaOrder::Reset { all },
                until: None,
                channel: self.channel()?,
            });
        }
        let name = if self.is("BINARY") { "RESET BINARY LOGS AND GTIDS".to_owned() } else { "RESET".to_owned() };
        Ok(self.refused(name))
    }

    /// PURGE BINARY LOGS. There is no binary log here.
    pub(super) fn purge(&mut self) -> Result<Statement> {
        self.advance()?;
        self.expect("BINARY")?;
        self.expect("LOGS")?;
        Ok(self.refused("PURGE BINARY LOGS"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Charsets, SqlError};

    fn parsed(sql: &str) -> Result<Statement> {
        crate::parse(sql.as_bytes(), 0, &Charsets::of_login(255).unwrap()).map(|parsed| parsed.statement)
    }

    fn order(sql: &str) -> ReplicaOrder {
        match parsed(sql) {
            Ok(Statement::Replica { order, .. }) => order,
            other => panic!("{sql}: {other:?}"),
        }
    }

    #[test]
    fn options_of_the_source() {
        let ReplicaOrder::ChangeSource(options) = order(
            "change replication source to source_host = 'h', SOURCE_PORT=3307, source_password='geheim', \
             source_heartbeat_period = 0.5, source_delay=0 for channel ''",
        ) else {
            panic!()
        };
        let names: Vec<&str> = options.iter().map(|option| option.name).collect();
        assert_eq!(names, ["SOURCE_HOST", "SOURCE_PORT", "SOURCE_PASSWORD", "SOURCE_HEARTBEAT_PERIOD", "SOURCE_DELAY"]);
        assert_eq!(options[3].value, OptionValue::Number("0.5".to_owned()));
        assert!(!format!("{options:?}").contains("geheim"));
        let Statement::Replica { order: ReplicaOrder::ChangeSource(options), .. } =
            parsed("CHANGE MASTER TO MASTER_HOST='h', MASTER_AUTO_POSITION=1, GET_MASTER_PUBLIC_KEY=1").unwrap()
        else {
            panic!()
        };
        let names: Vec<&str> = options.iter().map(|option| option.name).collect();
        assert_eq!(names, ["SOURCE_HOST", "SOURCE_AUTO_POSITION", "GET_SOURCE_PUBLIC_KEY"]);
        for sql in [
            "change replication source to",
            "change replication source to source_delay = -1",
            "change replication source to source_delay = 'a'",
            "change replication source to source_host = h",
            "change replication source to source_foo = 1",
            "change replication source to source_delay = 1,",
            "change master to",
            "change master filter replicate_do_db = (a)",
            "change replication source to source_connection_auto_failover = 2",
            "change replication source to source_connection_auto_failover = on",
        ] {
            assert_eq!(parsed(sql).unwrap_err().code, 1064, "{sql}");
        }
        for name in NOT_TAKEN {
            let sql = format!("CHANGE REPLICATION SOURCE TO SOURCE_DELAY=1, {name} = 1");
            let Ok(Statement::Refused(error)) = parsed(&sql) else { panic!("{sql}") };
            assert_eq!(error.message, SqlError::not_supported(&format!("CHANGE REPLICATION SOURCE TO {name}")).message);
        }
    }

    #[test]
    fn rules_of_filters() {
        let ReplicaOrder::ChangeFilter(all) = order(
            "change replication filter replicate_do_db = (a, `b c`), replicate_do_table=(d.t), \
             replicate_wild_ignore_table = ('d%.x'), replicate_rewrite_db = ((a, b), (c,d)), replicate_ignore_db=()",
        ) else {
            panic!()
        };
        let shown: Vec<String> = all
            .iter()
            .map(|rules| {
                let texts: Vec<_> = rules.rules.iter().map(|rule| String::from_utf8_lossy(rule)).collect();
                format!("{}: {}", rules.option, texts.join("; "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "replicate-do-db: a; b c",
                "replicate-do-table: d.t",
                "replicate-wild-ignore-table: d%.x",
                "replicate-rewrite-db: a->b; c->d",
                "replicate-ignore-db: "
            ]
        );
        for sql in
            ["replicate_do_table=(t)", "replicate_wild_do_table=(a.b)", "replicate_foo=(a)", "replicate_do_db=(a,)"]
        {
            assert_eq!(parsed(&format!("change replication filter {sql}")).unwrap_err().code, 1064, "{sql}");
        }
    }

    #[test]
    fn resets_and_purges() {
        assert_eq!(order("reset replica"), ReplicaOrder::Reset { all: false });
        assert_eq!(order("RESET REPLICA ALL FOR CHANNEL ''"), ReplicaOrder::Reset { all: true });
        for (sql, name) in [
            ("reset binary logs and gtids", "RESET BINARY LOGS AND GTIDS"),
            ("purge binary logs to 'x'", "PURGE BINARY LOGS"),
            ("purge binary logs before now()", "PURGE BINARY LOGS"),
        ] {
            let Ok(Statement::Refused(error)) = parsed(sql) else { panic!("{sql}") };
            assert_eq!(error.message, SqlError::not_supported(name).message);
        }
        for sql in ["reset replica, master", "purge logs", "reset replica all all"] {
            assert_eq!(parsed(sql).unwrap_err().code, 1064, "{sql}");
        }
    }
}
