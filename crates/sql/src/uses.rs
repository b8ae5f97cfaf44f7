//! What each variable is to this server: whether sessions may set it, whose value they begin with, which code works by
//! it.
//!
//! In: names. Out: a row of the table, for variables that are more than a recorded value here. Never here: values. A
//! variable that is in neither list is one that nobody has judged yet, and a test fails.

use Mark::{Asked, First, Kept, OfSource, Told};
use Rule::{
    AsItIs, Choice, ClientCharset, Collation, ConnectionCharset, Gtids, Integer, Mode, Names, Off, ResultsCharset,
    Switch, Zone,
};

/// What values a variable takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The value that it has, and no other.
    AsItIs,
    /// ON or OFF.
    Switch,
    /// OFF only: ON changes answers that are not implemented.
    Off,
    /// An integer within the recorded bounds; others are brought into them with a warning.
    Integer,
    /// One of these, by name or number.
    Choice(&'static [&'static str]),
    /// A character set of a client.
    ClientCharset,
    /// A character set, or NULL.
    ResultsCharset,
    /// A character set, whose default collation counts.
    ConnectionCharset,
    Collation,
    /// A list of modes.
    Mode,
    Zone,
    Names,
    Gtids,
}

/// Where a session's value comes from, and where else it must be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Sessions begin with the source's global value, since it changes answers.
    First,
    /// The source's global value is asked for when it is connected to, as that of those with [`First`](Mark::First).
    Asked,
    /// A session keeps its value when it gets another connection to the source: every user may set it, it changes what
    /// statements do or answer, and a MySQL 8.0 has it.
    Kept,
    /// The value is the session's own here, and the source's session has the same.
    Told,
    /// Only the source's own session is about it: what it tells of it changes nothing here.
    OfSource,
}

/// A variable that is more than a recorded value here.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) name: &'static str,
    pub(crate) rule: Rule,
    pub(crate) marks: &'static [Mark],
    /// The file below `crates` that works by it, or why no answer depends on it.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test holds it against the files"))]
    by: &'static str,
}

const fn of(name: &'static str, rule: Rule, marks: &'static [Mark], by: &'static str) -> Use {
    Use { name, rule, marks, by }
}

/// What cannot matter concerns…
const PLANS: &str = "which way MySQL takes to the rows, not which rows it finds";
const REFUSED: &str = "only constructs that are refused here, or go to the source";
const DEFINES: &str = "what statements that define objects make of it; the log or SHOW CREATE says that";
const WRITES: &str = "only statements that write";
const SHOWN: &str = "only shown";

const CONSISTENCIES: &[&str] = &["EVENTUAL", "SESSION", "GLOBAL", "BOUNDED"];
const EXPLAIN_FORMATS: &[&str] = &["TRADITIONAL", "TRADITIONAL_STRICT", "TREE", "JSON"];
const ISOLATIONS: &[&str] = &["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"];
const TRACKED_GTIDS: &[&str] = &["OFF", "OWN_GTID", "ALL_GTIDS"];
const TRANSACTION_INFO: &[&str] = &["OFF", "STATE", "CHARACTERISTICS"];

/// Sorted by name. The others cannot matter: the test below says why, one by one.
const USES: &[Use] = &[
    of("auto_increment_increment", AsItIs, &[Kept], WRITES),
    of("auto_increment_offset", AsItIs, &[Kept], WRITES),
    of("autocommit", Switch, &[First, Kept], "sql/src/settings/typed.rs"),
    of("bind_address", AsItIs, &[], "door/src/server.rs"),
    of("binlog_checksum", AsItIs, &[], "source/src/replication.rs"),
    of("binlog_encryption", AsItIs, &[], "source/src/preflight.rs"),
    of("binlog_expire_logs_auto_purge", AsItIs, &[], "source/src/copy_check.rs"),
    of("binlog_expire_logs_seconds", AsItIs, &[], "source/src/copy_check.rs"),
    of("binlog_format", AsItIs, &[], "source/src/preflight.rs"),
    of("binlog_order_commits", AsItIs, &[Asked], "door/src/connection/split.rs"),
    of("binlog_row_image", AsItIs, &[], "source/src/preflight.rs"),
    of("binlog_row_value_options", AsItIs, &[], "source/src/preflight.rs"),
    of("binlog_transaction_compression", AsItIs, &[], "source/src/preflight.rs"),
    of("block_encryption_mode", AsItIs, &[Kept], REFUSED),
    of("character_set_client", ClientCharset, &[Asked, Told], "sql/src/settings.rs"),
    of("character_set_connection", ConnectionCharset, &[Told], "sql/src/settings.rs"),
    of("character_set_database", AsItIs, &[Told], "session/src/client.rs"),
    of("character_set_results", ResultsCharset, &[Asked, Told], "sql/src/settings.rs"),
    of("character_set_server", AsItIs, &[Asked], "session/src/client.rs"),
    of("collation_connection", Collation, &[Asked, Told], "sql/src/settings.rs"),
    of("collation_database", AsItIs, &[Told], "session/src/client.rs"),
    of("collation_server", AsItIs, &[Asked], "session/src/client.rs"),
    of("completion_type", AsItIs, &[Kept], REFUSED),
    of("connect_timeout", AsItIs, &[], "door/src/server.rs"),
    of("connection_memory_limit", AsItIs, &[], "door/src/server.rs"),
    of("cte_max_recursion_depth", AsItIs, &[Kept], REFUSED),
    of("datadir", AsItIs, &[], "engine/src/open_door.rs"),
    of("default_collation_for_utf8mb4", AsItIs, &[Asked], SHOWN),
    of("default_storage_engine", AsItIs, &[Kept], DEFINES),
    of("default_week_format", AsItIs, &[Asked, Kept], REFUSED),
    of("div_precision_increment", AsItIs, &[Asked, Kept], REFUSED),
    of("enforce_gtid_consistency", AsItIs, &[], "door/src/server.rs"),
    of("error_count", AsItIs, &[], "session/src/client.rs"),
    of("event_scheduler", AsItIs, &[], "copy/src/lock.rs"),
    of("explain_format", Choice(EXPLAIN_FORMATS), &[], "sql/src/settings/typed.rs"),
    of("explicit_defaults_for_timestamp", AsItIs, &[Kept], DEFINES),
    of("foreign_key_checks", Switch, &[Kept], WRITES),
    of("group_concat_max_len", Integer, &[First, Kept], REFUSED),
    of("gtid_executed", AsItIs, &[], "session/src/client.rs"),
    of("gtid_mode", AsItIs, &[], "door/src/server.rs"),
    of("gtid_owned", AsItIs, &[], "session/src/client.rs"),
    of("gtid_purged", AsItIs, &[], "session/src/client.rs"),
    of("hostname", AsItIs, &[], "engine/src/open_door.rs"),
    of("identity", AsItIs, &[OfSource], "session/src/client/elsewhere.rs"),
    of("information_schema_stats_expiry", Integer, &[], "copy/src/definitions.rs"),
    of("init_connect", AsItIs, &[], "door/src/source/open.rs"),
    of("innodb_flush_log_at_trx_commit", AsItIs, &[], "source/src/preflight.rs"),
    of("innodb_lock_wait_timeout", Integer, &[Kept], WRITES),
    of("insert_id", AsItIs, &[OfSource], WRITES),
    of("interactive_timeout", Integer, &[], "session/src/client.rs"),
    of("last_insert_id", AsItIs, &[OfSource], "session/src/client/elsewhere.rs"),
    of("lc_messages", AsItIs, &[], "texts of errors, which are English here"),
    of("lc_time_names", AsItIs, &[Asked, Kept], "sql/src/functions/dates.rs"),
    of("local_infile", AsItIs, &[], "door/src/server.rs"),
    of("lock_wait_timeout", Integer, &[Kept], WRITES),
    of("log_bin", AsItIs, &[], "door/src/server.rs"),
    of("log_replica_updates", AsItIs, &[], "door/src/server.rs"),
    of("log_slave_updates", AsItIs, &[], "door/src/server.rs"),
    of("low_priority_updates", Switch, &[], "session/src/client/set.rs"),
    of("lower_case_table_names", AsItIs, &[], "replica/src/source_facts.rs"),
    of("max_allowed_packet", AsItIs, &[], "door/src/server.rs"),
    of("max_connections", AsItIs, &[], "door/src/server.rs"),
    of("max_error_count", AsItIs, &[Kept], "its default is always in force here"),
    of("max_execution_time", Integer, &[Kept], "sql/src/settings/typed.rs"),
    of("max_join_size", Integer, &[First, Kept], "sql/src/settings/typed.rs"),
    of("max_sort_length", AsItIs, &[Kept], REFUSED),
    of("net_read_timeout", Integer, &[], "when the source ends a session; here the idle timeouts do"),
    of("net_write_timeout", Integer, &[], "sql/src/settings/typed.rs"),
    of("optimizer_switch", AsItIs, &[Kept], PLANS),
    of("partial_revokes", AsItIs, &[], "door/src/source/grants.rs"),
    of("port", AsItIs, &[], "door/src/server.rs"),
    of("pseudo_replica_mode", AsItIs, &[], "sql/src/deprecated.rs"),
    of("pseudo_slave_mode", AsItIs, &[], "sql/src/deprecated.rs"),
    of("pseudo_thread_id", AsItIs, &[Told], "session/src/client.rs"),
    of("rand_seed1", AsItIs, &[OfSource], "sql/src/settings.rs"),
    of("rand_seed2", AsItIs, &[OfSource], "sql/src/settings.rs"),
    of("read_only", AsItIs, &[], "door/src/server.rs"),
    of("report_host", AsItIs, &[], "source/src/group.rs"),
    of("report_port", AsItIs, &[], "door/src/server.rs"),
    of("require_secure_transport", AsItIs, &[], "door/src/server.rs"),
    of("resultset_metadata", AsItIs, &[], "sent always here; NONE needs a capability that is not offered"),
    of("rpl_semi_sync_master_enabled", AsItIs, &[], "door/src/server.rs"),
    of("rpl_semi_sync_source_enabled", AsItIs, &[], "door/src/server.rs"),
    of("server_id", AsItIs, &[], "engine/src/open_door.rs"),
    of("server_uuid", AsItIs, &[], "door/src/source/open.rs"),
    of("session_track_gtids", Choice(TRACKED_GTIDS), &[], "sql/src/settings/typed.rs"),
    of("session_track_schema", Switch, &[], "sql/src/settings/typed.rs"),
    of("session_track_state_change", Switch, &[], "sql/src/settings/typed.rs"),
    of("session_track_system_variables", Names, &[], "sql/src/settings.rs"),
    of("session_track_transaction_info", Choice(TRANSACTION_INFO), &[], "sql/src/settings/typed.rs"),
    of("show_create_table_skip_secondary_engine", Switch, &[], "session/src/client/creates.rs"),
    of("show_create_table_verbosity", Switch, &[], "session/src/client/creates.rs"),
    of("show_gipk_in_create_table_and_information_schema", Switch, &[First], "session/src/client/creates.rs"),
    of("slipstream_last_served_by", AsItIs, &[], "session/src/client.rs"),
    of("slipstream_read_consistency", Choice(CONSISTENCIES), &[], "sql/src/settings/typed.rs"),
    of("slipstream_read_gtids", Gtids, &[], "session/src/client/freshness.rs"),
    of("slipstream_read_staleness", Integer, &[], "sql/src/settings/typed.rs"),
    of("slipstream_read_timeout", Integer, &[], "sql/src/settings/typed.rs"),
    of("socket", AsItIs, &[], "door/src/server.rs"),
    of("sql_auto_is_null", Off, &[Asked, Kept], REFUSED),
    of("sql_big_selects", Switch, &[First, Kept], "sql/src/settings/typed.rs"),
    of("sql_buffer_result", Switch, &[], PLANS),
    of("sql_log_off", Switch, &[], "session/src/client/set.rs"),
    of("sql_mode", Mode, &[First, Kept], "sql/src/settings/typed.rs"),
    of("sql_notes", Switch, &[], "sql/src/settings/typed.rs"),
    of("sql_quote_show_create", Switch, &[First, Kept], "session/src/client/creates.rs"),
    of("sql_safe_updates", Switch, &[First, Kept], WRITES),
    of("sql_select_limit", Integer, &[First, Kept], "sql/src/settings/typed.rs"),
    of("sql_warnings", Switch, &[], WRITES),
    of("statement_id", AsItIs, &[OfSource], SHOWN),
    of("super_read_only", AsItIs, &[], "door/src/server.rs"),
    of("sync_binlog", AsItIs, &[], "source/src/preflight.rs"),
    of("system_time_zone", AsItIs, &[Asked], "sql/src/table/zone.rs"),
    of("time_zone", Zone, &[First, Kept], "sql/src/table/zone.rs"),
    of("timestamp", AsItIs, &[Told], "sql/src/settings.rs"),
    of("transaction_isolation", Choice(ISOLATIONS), &[First, Kept], "sql/src/settings/typed.rs"),
    of("transaction_read_only", Switch, &[First, Kept], "sql/src/settings/typed.rs"),
    of("unique_checks", Switch, &[Kept], WRITES),
    of("updatable_views_with_limit", AsItIs, &[Kept], WRITES),
    of("version", AsItIs, &[], "door/src/server.rs"),
    of("version_comment", AsItIs, &[], "door/src/server.rs"),
    of("wait_timeout", Integer, &[], "sql/src/settings/typed.rs"),
    of("warning_count", AsItIs, &[], "session/src/client.rs"),
    of("windowing_use_high_precision", AsItIs, &[Kept], REFUSED),
];

pub(crate) fn use_of(name: &str) -> Option<&'static Use> {
    USES.binary_search_by(|one| one.name.cmp(name)).ok().and_then(|at| USES.get(at))
}

/// The variables with this mark, sorted by name.
pub fn marked(mark: Mark) -> impl Iterator<Item = &'static str> {
    USES.iter().filter(move |one| one.marks.contains(&mark)).map(|one| one.name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::variables::variables;

    /// Variables that no code here works by, and why no answer depends on them. Those that every user may set for a
    /// session at the source keep it there once they have another value.
    const UNUSED: &[(&str, &str)] = &[
        (
            PLANS,
            "big_tables enable_secondary_engine_statistics eq_range_index_dive_limit \
             histogram_generation_max_mem_size innodb_parallel_read_threads innodb_stats_auto_recalc \
             innodb_stats_include_delete_marked innodb_stats_method innodb_stats_on_metadata innodb_stats_persistent \
             innodb_stats_persistent_sample_pages innodb_stats_transient_sample_pages \
             internal_tmp_mem_storage_engine join_buffer_size max_length_for_sort_data max_seeks_for_key \
             optimizer_max_subgraph_pairs optimizer_prune_level optimizer_search_depth optimizer_trace \
             optimizer_trace_features optimizer_trace_limit optimizer_trace_max_mem_size optimizer_trace_offset \
             range_optimizer_max_mem_size read_buffer_size read_rnd_buffer_size secondary_engine_cost_threshold \
             set_operations_buffer_size sort_buffer_size temptable_max_mmap temptable_max_ram tmp_table_size \
             use_secondary_engine",
        ),
        (
            REFUSED,
            "end_markers_in_json explain_json_format_version external_table_secondary_storage_engine \
             external_table_storage_engine ft_boolean_syntax ft_max_word_len ft_min_word_len \
             ft_query_expansion_limit ft_stopword_file generated_random_password_length innodb_ft_aux_table \
             innodb_ft_cache_size innodb_ft_enable_diag_print innodb_ft_enable_stopword innodb_ft_max_token_size \
             innodb_ft_min_token_size innodb_ft_num_word_optimize innodb_ft_result_cache_limit \
             innodb_ft_server_stopword_table innodb_ft_sort_pll_degree innodb_ft_total_cache_size \
             innodb_ft_user_stopword_table innodb_optimize_fulltext_only max_points_in_geometry \
             max_sp_recursion_depth myisam_stats_method ngram_token_size profiling profiling_history_size \
             regexp_stack_limit regexp_time_limit secure_file_priv select_into_buffer_size select_into_disk_sync \
             select_into_disk_sync_delay",
        ),
        (
            DEFINES,
            "automatic_sp_privileges character_set_filesystem default_table_encryption default_tmp_storage_engine \
             disabled_storage_engines innodb_ddl_buffer_size innodb_ddl_threads innodb_default_row_format \
             innodb_directories innodb_file_per_table innodb_online_alter_log_max_size innodb_strict_mode \
             innodb_validate_tablespace_paths keep_files_on_create log_bin_trust_function_creators old_alter_table \
             print_identified_with_as_hex restrict_fk_on_non_standard_key sql_generate_invisible_primary_key \
             sql_require_primary_key table_encryption_privilege_check",
        ),
        (
            WRITES,
            "bulk_insert_buffer_size concurrent_insert delayed_insert_limit delayed_insert_timeout \
             delayed_queue_size enable_cascade_triggers gtid_next immediate_server_version innodb_autoinc_lock_mode \
             innodb_commit_concurrency innodb_deadlock_detect innodb_native_foreign_keys innodb_rollback_on_timeout \
             innodb_table_locks max_delayed_threads max_heap_table_size max_insert_delayed_threads \
             max_write_lock_count original_commit_timestamp original_server_version transaction_allow_batching \
             xa_detach_on_prepare",
        ),
        (
            "who may log in at the source, what they may there, and how that is encrypted",
            "activate_all_roles_on_login activate_mandatory_roles admin_address admin_port admin_ssl_ca \
             admin_ssl_capath admin_ssl_cert admin_ssl_cipher admin_ssl_crl admin_ssl_crlpath admin_ssl_key \
             admin_tls_ciphersuites admin_tls_version authentication_policy auto_generate_certs \
             caching_sha2_password_auto_generate_rsa_keys caching_sha2_password_digest_rounds \
             caching_sha2_password_enforce_storage_format caching_sha2_password_private_key_path \
             caching_sha2_password_proxy_users caching_sha2_password_public_key_path \
             caching_sha2_password_storage_format check_proxy_users create_admin_listener_thread \
             default_password_lifetime disconnect_on_expired_password external_user host_cache_size \
             keyring_operations mandatory_roles max_connect_errors max_user_connections offline_mode \
             password_history password_require_current password_reuse_interval persist_only_admin_x509_subject \
             persist_sensitive_variables_in_plaintext protocol_compression_algorithms proxy_user \
             sha256_password_auto_generate_rsa_keys sha256_password_private_key_path sha256_password_proxy_users \
             sha256_password_public_key_path skip_name_resolve skip_networking skip_show_database ssl_ca ssl_capath \
             ssl_cert ssl_cipher ssl_crl ssl_crlpath ssl_fips_mode ssl_key ssl_session_cache_mode \
             ssl_session_cache_timeout tls_certificates_enforced_validation tls_ciphersuites tls_version",
        ),
        (
            "the source's own part in replication, whose outcome its log shows",
            "binlog_cache_size binlog_direct_non_transactional_updates binlog_error_action \
             binlog_group_commit_sync_delay binlog_group_commit_sync_no_delay_count binlog_gtid_simple_recovery \
             binlog_max_flush_queue_time binlog_rotate_encryption_master_key_at_startup \
             binlog_row_event_max_size binlog_row_metadata binlog_rows_query_log_events binlog_stmt_cache_size \
             binlog_transaction_compression_level_zstd binlog_transaction_dependency_history_size \
             group_replication_consistency gtid_executed_compression_period init_replica init_slave log_bin_basename \
             log_bin_index master_verify_checksum max_binlog_cache_size max_binlog_size max_binlog_stmt_cache_size \
             max_relay_log_size rbr_exec_mode relay_log relay_log_basename relay_log_index relay_log_purge \
             relay_log_recovery relay_log_space_limit replica_allow_batching replica_allow_higher_version_source \
             replica_checkpoint_group replica_checkpoint_period replica_compressed_protocol replica_exec_mode \
             replica_load_tmpdir replica_max_allowed_packet replica_net_timeout replica_parallel_workers \
             replica_pending_jobs_size_max replica_preserve_commit_order replica_skip_errors \
             replica_sql_verify_checksum replica_transaction_retries replica_type_conversions \
             replication_optimize_for_static_plugin_config replication_sender_observe_commit_only report_password \
             report_user require_row_format rpl_read_size rpl_stop_replica_timeout rpl_stop_slave_timeout \
             server_id_bits skip_replica_start skip_slave_start slave_allow_batching slave_checkpoint_group \
             slave_checkpoint_period slave_compressed_protocol slave_exec_mode slave_load_tmpdir \
             slave_max_allowed_packet slave_net_timeout slave_parallel_workers slave_pending_jobs_size_max \
             slave_preserve_commit_order slave_skip_errors slave_sql_verify_checksum slave_transaction_retries \
             slave_type_conversions source_verify_checksum sql_log_bin sql_replica_skip_counter \
             sql_slave_skip_counter sync_master_info sync_relay_log sync_relay_log_info sync_source_info",
        ),
        (
            "how the source's engines keep rows and logs",
            "delay_key_write flush flush_time innodb_adaptive_flushing innodb_adaptive_flushing_lwm \
             innodb_adaptive_hash_index innodb_adaptive_hash_index_parts innodb_adaptive_max_sleep_delay \
             innodb_api_bk_commit_interval innodb_api_disable_rowlock innodb_api_enable_binlog innodb_api_enable_mdl \
             innodb_api_trx_level innodb_autoextend_increment innodb_buffer_pool_chunk_size \
             innodb_buffer_pool_dump_at_shutdown innodb_buffer_pool_dump_now innodb_buffer_pool_dump_pct \
             innodb_buffer_pool_filename innodb_buffer_pool_in_core_file innodb_buffer_pool_instances \
             innodb_buffer_pool_load_abort innodb_buffer_pool_load_at_startup innodb_buffer_pool_load_now \
             innodb_buffer_pool_size innodb_change_buffer_max_size innodb_change_buffering innodb_checksum_algorithm \
             innodb_cmp_per_index_enabled innodb_compression_failure_threshold_pct innodb_compression_level \
             innodb_compression_pad_pct_max innodb_concurrency_tickets innodb_data_file_path innodb_data_home_dir \
             innodb_dedicated_server innodb_disable_sort_file_cache innodb_doublewrite innodb_doublewrite_batch_size \
             innodb_doublewrite_dir innodb_doublewrite_files innodb_doublewrite_pages innodb_extend_and_initialize \
             innodb_fast_shutdown innodb_fill_factor innodb_flush_log_at_timeout innodb_flush_method \
             innodb_flush_neighbors innodb_flush_sync innodb_flushing_avg_loops innodb_force_load_corrupted \
             innodb_force_recovery innodb_fsync_threshold innodb_idle_flush_pct innodb_io_capacity \
             innodb_io_capacity_max innodb_log_buffer_size innodb_log_checksums innodb_log_compressed_pages \
             innodb_log_group_home_dir innodb_log_spin_cpu_abs_lwm innodb_log_spin_cpu_pct_hwm \
             innodb_log_wait_for_flush_spin_hwm innodb_log_write_ahead_size innodb_log_writer_threads \
             innodb_lru_scan_depth innodb_max_dirty_pages_pct innodb_max_dirty_pages_pct_lwm innodb_max_purge_lag \
             innodb_max_purge_lag_delay innodb_max_undo_log_size innodb_monitor_disable innodb_monitor_enable \
             innodb_monitor_reset innodb_monitor_reset_all innodb_numa_interleave innodb_old_blocks_pct \
             innodb_old_blocks_time innodb_open_files innodb_page_cleaners innodb_page_size \
             innodb_print_all_deadlocks innodb_print_ddl_logs innodb_purge_batch_size \
             innodb_purge_rseg_truncate_frequency innodb_purge_threads innodb_random_read_ahead \
             innodb_read_ahead_threshold innodb_read_io_threads innodb_read_only innodb_redo_log_archive_dirs \
             innodb_redo_log_capacity innodb_redo_log_encrypt innodb_replication_delay innodb_rollback_segments \
             innodb_segment_reserve_factor innodb_sort_buffer_size innodb_spin_wait_delay \
             innodb_spin_wait_pause_multiplier innodb_status_output innodb_status_output_locks \
             innodb_sync_array_size innodb_sync_spin_loops innodb_temp_data_file_path innodb_temp_tablespaces_dir \
             innodb_thread_concurrency innodb_thread_sleep_delay innodb_tmpdir innodb_undo_directory \
             innodb_undo_log_encrypt innodb_undo_log_truncate innodb_use_fdatasync innodb_use_native_aio \
             innodb_version innodb_write_io_threads key_buffer_size key_cache_age_threshold key_cache_block_size \
             key_cache_division_limit myisam_data_pointer_size myisam_max_sort_file_size myisam_mmap_size \
             myisam_recover_options myisam_sort_buffer_size myisam_use_mmap",
        ),
        (
            "what the source writes to logs, and counts of itself",
            "core_file general_log general_log_file log_error log_error_services log_error_suppression_list \
             log_error_verbosity log_output log_queries_not_using_indexes log_raw log_slow_admin_statements \
             log_slow_extra log_slow_replica_statements log_slow_slave_statements log_statements_unsafe_for_binlog \
             log_throttle_queries_not_using_indexes log_timestamps long_query_time max_digest_length \
             min_examined_row_limit performance_schema performance_schema_accounts_size \
             performance_schema_digests_size performance_schema_error_size \
             performance_schema_events_stages_history_long_size performance_schema_events_stages_history_size \
             performance_schema_events_statements_history_long_size \
             performance_schema_events_statements_history_size \
             performance_schema_events_transactions_history_long_size \
             performance_schema_events_transactions_history_size performance_schema_events_waits_history_long_size \
             performance_schema_events_waits_history_size performance_schema_hosts_size \
             performance_schema_max_cond_classes performance_schema_max_cond_instances \
             performance_schema_max_digest_length performance_schema_max_digest_sample_age \
             performance_schema_max_file_classes performance_schema_max_file_handles \
             performance_schema_max_file_instances performance_schema_max_index_stat \
             performance_schema_max_logger_classes performance_schema_max_memory_classes \
             performance_schema_max_metadata_locks performance_schema_max_meter_classes \
             performance_schema_max_metric_classes performance_schema_max_mutex_classes \
             performance_schema_max_mutex_instances performance_schema_max_prepared_statements_instances \
             performance_schema_max_program_instances performance_schema_max_rwlock_classes \
             performance_schema_max_rwlock_instances performance_schema_max_socket_classes \
             performance_schema_max_socket_instances performance_schema_max_sql_text_length \
             performance_schema_max_stage_classes performance_schema_max_statement_classes \
             performance_schema_max_statement_stack performance_schema_max_table_handles \
             performance_schema_max_table_instances performance_schema_max_table_lock_stat \
             performance_schema_max_thread_classes performance_schema_max_thread_instances \
             performance_schema_session_connect_attrs_size performance_schema_setup_actors_size \
             performance_schema_setup_objects_size performance_schema_show_processlist performance_schema_users_size \
             slow_launch_time slow_query_log slow_query_log_file",
        ),
        (
            "memory, threads, files and connections of the source's process",
            "back_log basedir character_sets_dir connection_memory_chunk_size connection_memory_status_limit \
             container_aware global_connection_memory_limit global_connection_memory_status_limit \
             global_connection_memory_tracking init_file large_files_support large_page_size large_pages \
             lc_messages_dir locked_in_memory max_prepared_stmt_count net_buffer_length net_retry_count \
             open_files_limit parser_max_mem_size persisted_globals_load pid_file plugin_dir preload_buffer_size \
             query_alloc_block_size query_prealloc_size range_alloc_block_size schema_definition_cache server_memory \
             skip_external_locking stored_program_cache stored_program_definition_cache table_definition_cache \
             table_open_cache table_open_cache_instances table_open_cache_triggers tablespace_definition_cache \
             thread_cache_size thread_handling thread_stack tmpdir transaction_alloc_block_size \
             transaction_prealloc_size",
        ),
        (
            SHOWN,
            "build_id character_set_system have_compress have_dynamic_loading have_geometry have_profiling \
             have_query_cache have_rtree_keys have_statement_timeout have_symlink license lower_case_file_system \
             protocol_version terminology_use_previous version_compile_machine version_compile_os \
             version_compile_zlib version_with_update",
        ),
    ];

    #[test]
    fn each_variable_is_used_somewhere_or_cannot_matter() {
        let unused: Vec<&str> = UNUSED.iter().flat_map(|(_, names)| names.split(' ')).collect();
        let listed: BTreeSet<&str> = USES.iter().map(|one| one.name).chain(unused.iter().copied()).collect();
        assert_eq!(listed.len(), USES.len() + unused.len(), "one is listed twice");
        let all: BTreeSet<&str> = variables().iter().map(|variable| variable.name).collect();
        assert_eq!(all.difference(&listed).collect::<Vec<_>>(), [&""; 0], "nobody has judged these");
        assert_eq!(listed.difference(&all).collect::<Vec<_>>(), [&""; 0], "MySQL has no such variable");
    }

    #[test]
    fn a_file_that_is_said_to_work_by_a_variable_names_it() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for one in USES.iter().filter(|one| one.by.ends_with(".rs")) {
            let text = std::fs::read_to_string(crates.join(one.by)).unwrap_or_default();
            assert!(text.contains(one.name), "{} in {}", one.name, one.by);
        }
        assert!(USES.iter().all(|one| !one.by.is_empty()));
    }

    #[test]
    fn rules_are_of_variables_that_sessions_have() {
        assert!(USES.windows(2).all(|pair| pair[0].name < pair[1].name));
        for one in USES.iter().filter(|one| one.rule != AsItIs || one.marks.contains(&Kept)) {
            assert!(variables().iter().any(|variable| variable.name == one.name && variable.session), "{}", one.name);
        }
    }
}
