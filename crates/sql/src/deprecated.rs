//! What MySQL 9.7 says of names that it is going to drop: variables, character sets, collations.
//!
//! In: a name. Out: the warning of a statement that uses it. Never here: when a statement gets it.

use crate::Charsets;
use crate::error::Warning;

/// Deprecated variables, each with the one that takes its place; empty: none does. The list is that of a real server
/// (`crates/sql/tests/recorded.rs`).
const VARIABLES: &[(&str, &str)] = &[
    ("binlog_format", ""),
    ("binlog_max_flush_queue_time", ""),
    ("delayed_insert_limit", ""),
    ("delayed_insert_timeout", ""),
    ("delayed_queue_size", ""),
    ("have_profiling", ""),
    ("have_query_cache", ""),
    ("init_slave", "init_replica"),
    ("log_bin_trust_function_creators", ""),
    ("log_slave_updates", "log_replica_updates"),
    ("log_slow_slave_statements", "log_slow_replica_statements"),
    ("log_statements_unsafe_for_binlog", ""),
    ("master_verify_checksum", "source_verify_checksum"),
    ("max_delayed_threads", ""),
    ("max_insert_delayed_threads", ""),
    ("max_length_for_sort_data", ""),
    ("profiling", ""),
    ("profiling_history_size", ""),
    ("pseudo_slave_mode", "pseudo_replica_mode"),
    ("query_prealloc_size", ""),
    ("rpl_stop_slave_timeout", "rpl_stop_replica_timeout"),
    ("skip_slave_start", "skip_replica_start"),
    ("slave_allow_batching", "replica_allow_batching"),
    ("slave_checkpoint_group", "replica_checkpoint_group"),
    ("slave_checkpoint_period", "replica_checkpoint_period"),
    ("slave_compressed_protocol", "replica_compressed_protocol"),
    ("slave_exec_mode", "replica_exec_mode"),
    ("slave_load_tmpdir", "replica_load_tmpdir"),
    ("slave_max_allowed_packet", "replica_max_allowed_packet"),
    ("slave_net_timeout", "replica_net_timeout"),
    ("slave_parallel_workers", "replica_parallel_workers"),
    ("slave_pending_jobs_size_max", "replica_pending_jobs_size_max"),
    ("slave_preserve_commit_order", "replica_preserve_commit_order"),
    ("slave_skip_errors", "replica_skip_errors"),
    ("slave_sql_verify_checksum", "replica_sql_verify_checksum"),
    ("slave_transaction_retries", "replica_transaction_retries"),
    ("slave_type_conversions", "replica_type_conversions"),
    ("sql_slave_skip_counter", "sql_replica_skip_counter"),
    ("ssl_fips_mode", ""),
    ("sync_master_info", "sync_source_info"),
    ("sync_relay_log_info", ""),
    ("terminology_use_previous", ""),
    ("transaction_prealloc_size", ""),
];

/// What MySQL says of a variable that is set to its default, though it is not changed by that. The list is that of a
/// real server, as the one above.
const SET_TO_DEFAULT: &[(&str, u16, &str)] = &[
    (
        "character_set_database",
        1681,
        "Updating 'character_set_database' is deprecated. It will be made read-only in a future release.",
    ),
    (
        "collation_database",
        1681,
        "Updating 'collation_database' is deprecated. It will be made read-only in a future release.",
    ),
    (
        "default_collation_for_utf8mb4",
        1681,
        "Updating 'default_collation_for_utf8mb4' is deprecated. It will be made read-only in a future release.",
    ),
    (
        "enable_cascade_triggers",
        4166,
        "'enable_cascade_triggers' is deprecated and will be removed in a future release. Triggers on child table will \
         not fire during foreign key cascade.",
    ),
    ("pseudo_replica_mode", 1231, "'pseudo_replica_mode' change was ineffective."),
    ("pseudo_slave_mode", 1231, "'pseudo_replica_mode' change was ineffective."),
    (
        "restrict_fk_on_non_standard_key",
        1681,
        "'restrict_fk_on_non_standard_key' is deprecated and will be removed in a future release.",
    ),
];

/// Character sets that MySQL 9 warns of.
const CHARSETS: &[&str] = &["dec8", "hp8", "macce", "macroman", "ucs2", "utf8mb3"];

/// What MySQL says of a variable, by its name in lower case, whether it is read or set.
#[must_use]
pub fn deprecated_variable(name: &str) -> Option<Warning> {
    let found = VARIABLES.binary_search_by(|(own, _)| (*own).cmp(name)).ok()?;
    let (name, other) = VARIABLES.get(found)?;
    let instead = if other.is_empty() { String::new() } else { format!(" Please use {other} instead.") };
    Some(Warning::new(1287, format!("'@@{name}' is deprecated and will be removed in a future release.{instead}")))
}

/// What MySQL says of a variable, by its name in lower case, that is set to its default.
#[must_use]
pub fn set_to_default(name: &str) -> Option<Warning> {
    let (_, code, text) = SET_TO_DEFAULT.iter().find(|(own, ..)| *own == name)?;
    Some(Warning::new(*code, *text))
}

/// What MySQL says of a character set's name.
pub(crate) fn charset(name: &str) -> Option<Warning> {
    if name.eq_ignore_ascii_case("utf8") {
        let text = "'utf8' is currently an alias for the character set UTF8MB3, but will be an alias for UTF8MB4 in a \
                    future release. Please consider using UTF8MB4 in order to be unambiguous.";
        return Some(Warning::new(3719, text));
    }
    let own = CHARSETS.iter().find(|own| own.eq_ignore_ascii_case(name))?;
    let text = format!("'{own}' is deprecated and will be removed in a future release. Please use utf8mb4 instead");
    Some(Warning::new(1287, text))
}

/// What MySQL says of a collation's name.
pub(crate) fn collation(name: &str) -> Option<Warning> {
    let found = Charsets::collation(name).ok().filter(|found| CHARSETS.contains(&found.charset))?;
    let (number, charset, other) = match found.charset {
        "utf8mb3" => (3778, "UTF8MB3", "UTF8MB4"),
        charset => (4079, charset, "utf8mb4"),
    };
    let text = format!(
        "'{}' is a collation of the deprecated character set {charset}. Please consider using {other} with an \
         appropriate collation instead.",
        found.name
    );
    Some(Warning::new(number, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variables;

    #[test]
    fn deprecated_variables_are_known_and_sorted() {
        assert!(VARIABLES.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (name, other) in VARIABLES {
            assert!(variables::find(name).is_some(), "{name}");
            assert!(other.is_empty() || variables::find(other).is_some() && deprecated_variable(other).is_none());
        }
        let text = deprecated_variable("init_slave").unwrap().message;
        assert!(text.ends_with("in a future release. Please use init_replica instead."), "{text}");
        assert_eq!(deprecated_variable("init_replica"), None);
    }
}
