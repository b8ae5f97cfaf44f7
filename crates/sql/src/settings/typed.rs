//! The variables that sessions work by, as values.
//!
//! In: a variable's text, once it is set. Out: what statements are carried out by. Never here: the text, which
//! `SELECT @@name` shows; a variable that only sql_mode's or a character set's reader understands.

use std::sync::OnceLock;
use std::time::Duration;

use crate::ast::{ExplainFormat, Isolation};
use crate::{Result, modes, variables};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Typed {
    pub autocommit: bool,
    /// None where the format is JSON, which is not answered.
    pub explain_format: Option<ExplainFormat>,
    pub interactive_timeout_s: u64,
    /// `sql_big_selects`; without it MySQL fails a SELECT that it expects to read more than `join_rows_max` rows.
    pub big_selects: bool,
    /// `max_join_size`
    pub join_rows_max: u64,
    /// `max_execution_time`; None: no limit.
    pub execution_limit: Option<Duration>,
    pub net_write_timeout_s: u64,
    pub notes: bool,
    pub sql_mode: u64,
    /// `sql_select_limit`
    pub rows_max: u64,
    pub tracks_gtids: TrackedGtids,
    pub tracks_schema: bool,
    pub tracks_state: bool,
    pub tracks_transaction: TrackedTransaction,
    pub read_consistency: ReadConsistency,
    pub read_staleness: Duration,
    pub read_timeout: Duration,
    pub isolation: Isolation,
    pub read_only: bool,
    pub wait_timeout_s: u64,
}

/// `session_track_gtids`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackedGtids {
    Off,
    Own,
    All,
}

/// `session_track_transaction_info`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrackedTransaction {
    Off,
    State,
    Characteristics,
}

/// `slipstream_read_consistency`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadConsistency {
    Eventual,
    Session,
    Global,
    Bounded,
}

/// Variables whose texts are not kept next to their values.
const WITHOUT_TEXT: [&str; 2] = ["autocommit", "sql_mode"];

impl Typed {
    /// The values that MySQL's sessions begin with.
    pub(super) fn recorded() -> Typed {
        static RECORDED: OnceLock<Typed> = OnceLock::new();
        *RECORDED.get_or_init(|| {
            let mut typed = Typed {
                autocommit: true,
                explain_format: Some(ExplainFormat::Traditional),
                interactive_timeout_s: u64::MAX,
                big_selects: true,
                join_rows_max: u64::MAX,
                execution_limit: None,
                net_write_timeout_s: u64::MAX,
                notes: true,
                sql_mode: 0,
                rows_max: u64::MAX,
                tracks_gtids: TrackedGtids::Off,
                tracks_schema: false,
                tracks_state: false,
                tracks_transaction: TrackedTransaction::Off,
                read_consistency: ReadConsistency::Eventual,
                read_staleness: Duration::ZERO,
                read_timeout: Duration::ZERO,
                isolation: Isolation::RepeatableRead,
                read_only: false,
                wait_timeout_s: u64::MAX,
            };
            for variable in variables::variables().iter().filter(|variable| variable.session) {
                // Each is a value of its variable: a test says so.
                let _ = typed.take(variable.name, variable.value.unwrap_or_default());
            }
            typed
        })
    }

    /// Takes the text of a variable that was set, which its rule has let through; true if that is kept too.
    ///
    /// # Errors
    /// 1231 for an unknown mode.
    pub(super) fn take(&mut self, name: &str, text: &str) -> Result<bool> {
        let is_on = || text == "1";
        let number = || text.parse().unwrap_or(u64::MAX);
        let span = || Duration::from_millis(number());
        match name {
            "autocommit" => self.autocommit = is_on(),
            "explain_format" => {
                self.explain_format = match text {
                    "TRADITIONAL" | "TRADITIONAL_STRICT" => Some(ExplainFormat::Traditional),
                    "JSON" => None,
                    _ => Some(ExplainFormat::Tree),
                }
            }
            "interactive_timeout" => self.interactive_timeout_s = number(),
            "max_join_size" => self.join_rows_max = number(),
            "sql_big_selects" => self.big_selects = is_on(),
            "max_execution_time" => self.execution_limit = Some(span()).filter(|limit| !limit.is_zero()),
            "net_write_timeout" => self.net_write_timeout_s = number(),
            "session_track_gtids" => {
                self.tracks_gtids = match text {
                    "OWN_GTID" => TrackedGtids::Own,
                    "ALL_GTIDS" => TrackedGtids::All,
                    _ => TrackedGtids::Off,
                }
            }
            "session_track_schema" => self.tracks_schema = is_on(),
            "session_track_state_change" => self.tracks_state = is_on(),
            "session_track_transaction_info" => {
                self.tracks_transaction = match text {
                    "STATE" => TrackedTransaction::State,
                    "CHARACTERISTICS" => TrackedTransaction::Characteristics,
                    _ => TrackedTransaction::Off,
                }
            }
            "slipstream_read_consistency" => {
                self.read_consistency = match text {
                    "SESSION" => ReadConsistency::Session,
                    "GLOBAL" => ReadConsistency::Global,
                    "BOUNDED" => ReadConsistency::Bounded,
                    _ => ReadConsistency::Eventual,
                }
            }
            "slipstream_read_staleness" => self.read_staleness = span(),
            "slipstream_read_timeout" => self.read_timeout = span(),
            "sql_notes" => self.notes = is_on(),
            "sql_mode" => self.sql_mode = modes::bits(text)?,
            "sql_select_limit" => self.rows_max = number(),
            "transaction_isolation" => {
                self.isolation = Isolation::by_name(text).unwrap_or(Isolation::RepeatableRead);
            }
            "transaction_read_only" => self.read_only = is_on(),
            "wait_timeout" => self.wait_timeout_s = number(),
            _ => {}
        }
        Ok(!WITHOUT_TEXT.contains(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_begins_with_the_recorded_values() {
        let first = Typed::recorded();
        assert_eq!((first.wait_timeout_s, first.net_write_timeout_s, first.rows_max), (28_800, 60, u64::MAX));
        assert!(first.autocommit && first.tracks_schema && !first.tracks_state && first.sql_mode != 0);
        assert_eq!((first.execution_limit, first.isolation), (None, Isolation::RepeatableRead));
        assert_eq!(first.read_timeout, Duration::from_secs(10));
    }

    #[test]
    fn each_choice_is_a_value_of_its_own() {
        for name in ["session_track_gtids", "session_track_transaction_info", "slipstream_read_consistency"] {
            let crate::uses::Rule::Choice(choices) = variables::find(name).unwrap().rule else { panic!("{name}") };
            let mut seen = Vec::new();
            for choice in choices {
                let mut typed = Typed::recorded();
                assert!(typed.take(name, choice).unwrap());
                assert!(!seen.contains(&typed), "{name} = {choice}");
                seen.push(typed);
            }
        }
    }
}
