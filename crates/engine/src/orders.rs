//! Orders to the replica by SQL, from a client or from the command line.
//!
//! In: a parsed order. Out: what is carried out, or the error that MySQL gives for it. Never here: parsing; threads; a
//! password in a text.

use std::path::PathBuf;
use std::sync::Arc;

use base::UntilGtids;
use base::units::parse_number;
use catalog::{LetIn, ReplicationFilters};
use client::SslMode;
use door::Ordered;
use replica::config::{Failover, FailoverSource, ManagedGroup, Secret, ServerOptions, SourceSpec};
use replica::log::{self, Code};
use replica::{Failure, Replica, SourceOrders};
use sql::{
    Charsets, FailoverOrder, FilterRules, OptionValue, ReplicaOrder, SourceOption, SqlError, Statement, ThreadOrder,
};

use crate::engine::{Engine, ReplicaThread};
use crate::gtids::not_now;

/// Longest SOURCE_PASSWORD, as MySQL's replicas have it.
const PASSWORD_CHARS_MAX: usize = 32;
/// Longest SOURCE_HEARTBEAT_PERIOD in seconds, as MySQL has it.
const HEARTBEAT_S_MAX: f64 = 4_294_967.0;
/// Longest SOURCE_DELAY in seconds, as MySQL has it.
const DELAY_S_MAX: u64 = i32::MAX as u64;

/// Servers that lists of asynchronous connection failover may name: candidates are tried one after the other, for up to
/// 3 s each.
const FAILOVER_SOURCES_MAX: usize = 32;

/// Carries out an order.
///
/// # Errors
/// As MySQL where it has an error for it, else 1105 with the reason.
pub(crate) fn carry_out(engine: &Engine, order: ReplicaOrder) -> Result<Ordered, SqlError> {
    match order {
        ReplicaOrder::Threads(order) => threads(engine, order).map_err(|failure| told(&failure)),
        ReplicaOrder::ChangeSource(options) => {
            keeps_auto_position(engine, &options)?;
            change_source(engine, &source_orders(&options)?)
        }
        ReplicaOrder::ChangeFilter(changes) => change_filter(engine, &changes),
        ReplicaOrder::Reset { all } => reset(engine, all),
        ReplicaOrder::Failover(order) => change_failover(engine, order),
    }
}

/// As [`carry_out`], for the command line: what there is to say.
///
/// # Errors
/// As [`carry_out`].
pub fn carried_out(engine: &Engine, order: ReplicaOrder) -> Result<&'static str, SqlError> {
    Ok(match carry_out(engine, order)? {
        Ordered::Done => "done",
        Ordered::Already => "there was nothing to do",
        Ordered::DoneWithoutUntil => "done; replay was already running, so its UNTIL does not apply",
    })
}

/// The order of a text.
///
/// # Errors
/// As MySQL; 1235 for a statement that is no order to the replica.
pub fn parse(statement: &str) -> Result<ReplicaOrder, SqlError> {
    let charsets = Charsets::of_login(UTF8MB4).ok_or_else(|| not_now("no character set"))?;
    let parsed = sql::parse(statement.as_bytes(), 0, &charsets)?;
    match parsed.statement {
        Statement::Replica { mut order, until, channel } => {
            if let Some(name) = channel.filter(|name| !name.is_empty()) {
                let text = format!("Replica channel '{}' does not exist.", String::from_utf8_lossy(&name));
                return Err(SqlError::new(3074, "HY000", text));
            }
            let until = until.as_ref().map(sql::until).transpose()?;
            if let ReplicaOrder::Threads(order) = &mut order {
                order.until = until.filter(|_| order.sql);
            }
            Ok(order)
        }
        Statement::Refused(error) => Err(error),
        _ => Err(SqlError::not_supported("statements other than START, STOP, CHANGE and RESET REPLICA")),
    }
}

/// The order in words, without values.
pub fn about(order: &ReplicaOrder) -> String {
    match order {
        ReplicaOrder::Threads(order) => {
            let until = order.until.as_ref().map(until_text).unwrap_or_default();
            let verb = if order.start { "start" } else { "stop" };
            format!("{verb} {}{until}", named(thread_of(order)))
        }
        ReplicaOrder::ChangeSource(options) => {
            let names: Vec<&str> = options.iter().map(|option| option.name).collect();
            format!("change {} (CHANGE REPLICATION SOURCE TO)", names.join(", "))
        }
        ReplicaOrder::ChangeFilter(rules) => {
            let names: Vec<&str> = rules.iter().map(|rules| rules.option).collect();
            format!("change {} (CHANGE REPLICATION FILTER)", names.join(", "))
        }
        ReplicaOrder::Reset { all } => format!("RESET REPLICA{}", if *all { " ALL" } else { "" }),
        ReplicaOrder::Failover(order) => format!("{}()", order.function()),
    }
}

/// A condition, as a log line ends with it.
pub fn until_text(until: &UntilGtids) -> String {
    format!(" until {} = '{}'", until.name(), until.set())
}

pub fn named(thread: Option<ReplicaThread>) -> &'static str {
    match thread {
        None => "receiving and replay",
        Some(ReplicaThread::Io) => "receiving",
        Some(ReplicaThread::Sql) => "replay",
    }
}

/// Logs that an operator gave the order.
pub fn log_operators(order: &ReplicaOrder) {
    log::write(Code::OperatorCommand, "Control", &format!("operator asked to {}", about(order)));
}

/// An error, as MySQL's client shows it.
pub fn error_text(error: &SqlError) -> String {
    format!("ERROR {}: {}", error.code, error.message)
}

/// Collation utf8mb4_0900_ai_ci.
const UTF8MB4: u16 = 255;

fn told(failure: &Failure) -> SqlError {
    let hint = failure.hint.as_ref().map(|hint| format!("; hint: {hint}")).unwrap_or_default();
    not_now(&replica::config::mask_passwords(&format!("{}{hint}", failure.text)))
}

/// The thread that is meant; None for both.
fn thread_of(order: &ThreadOrder) -> Option<ReplicaThread> {
    match (order.io, order.sql) {
        (true, false) => Some(ReplicaThread::Io),
        (false, true) => Some(ReplicaThread::Sql),
        _ => None,
    }
}

/// Whether receiving and replay run. Replay that is on its way to where it is stopped does not: what it applies was
/// visible before the engine started again.
fn running(engine: &Engine) -> (bool, bool) {
    let report = engine.engine_status();
    let is_bound = engine.replica().is_ok_and(|replica| replica.stopped_at().is_some());
    (report.source.state.as_mysql() != "No", report.replay.state.as_mysql() == "Yes" && !is_bound)
}

/// Starts or stops. A condition counts where replay did not run before.
fn threads(engine: &Engine, order: ThreadOrder) -> Result<Ordered, Failure> {
    let (io, sql) = running(engine);
    let already = (!order.io || io == order.start) && (!order.sql || sql == order.start);
    let (thread, ignored) = (thread_of(&order), order.until.is_some() && sql);
    if order.start && order.sql && sql {
        // Replay that runs goes on as it was told.
        if order.io {
            engine.start_threads(Some(ReplicaThread::Io), None)?;
        }
    } else if order.start {
        // One that waits for its next try does so at once.
        engine.start_threads(thread, order.until)?;
    } else {
        for (wanted, runs, thread) in [(order.io, io, ReplicaThread::Io), (order.sql, sql, ReplicaThread::Sql)] {
            if wanted && runs {
                engine.stop_thread(thread)?;
            }
        }
    }
    Ok(match (already, ignored) {
        (true, _) => Ordered::Already,
        (false, true) => Ordered::DoneWithoutUntil,
        (false, false) => Ordered::Done,
    })
}

const IO_MUST_STOP: (u16, &str) = (
    3021,
    "This operation cannot be performed with a running replica io thread; run STOP REPLICA IO_THREAD FOR CHANNEL '' \
     first.",
);
const SQL_MUST_STOP: (u16, &str) = (
    3085,
    "This operation cannot be performed with a running replica sql thread; run STOP REPLICA SQL_THREAD FOR CHANNEL '' \
     first.",
);
const BOTH_MUST_STOP: (u16, &str) = (
    3081,
    "This operation cannot be performed with running replication threads; run STOP REPLICA FOR CHANNEL '' first",
);

/// The error for threads that run, and must not.
fn must_stop((io, sql): (bool, bool)) -> Result<(), SqlError> {
    let (code, text) = match (io, sql) {
        (false, false) => return Ok(()),
        (true, false) => IO_MUST_STOP,
        (false, true) => SQL_MUST_STOP,
        (true, true) => BOTH_MUST_STOP,
    };
    Err(SqlError::new(code, "HY000", text))
}

fn change_source(engine: &Engine, more: &SourceOrders) -> Result<Ordered, SqlError> {
    let _alone = engine.changes();
    let (io, sql) = running(engine);
    // Either thread is in the way of it, as in MySQL.
    let both = more.auto_failover.is_some() && (io || sql);
    must_stop((both || io && more.concern_receiving(), both || sql && more.delay_s.is_some()))?;
    let failed = |failure: Failure| told(&failure);
    let kept = SourceOrders::of(engine.folder()).map_err(failed)?;
    let all = kept.with(more);
    let (before, after) =
        (kept.over(engine.start_config()).map_err(failed)?, all.over(engine.start_config()).map_err(failed)?);
    match (&before.source, &after.source) {
        (SourceSpec::Server(before), SourceSpec::Server(after)) => {
            let places = |server: &ServerOptions| -> Result<Vec<(String, u16)>, Failure> {
                let each = server.each()?;
                each.iter().map(|one| one.connect_options().map(|of| (of.host, of.port))).collect()
            };
            let (from, to) = (places(before).map_err(failed)?, places(after).map_err(failed)?);
            let is_known = |host: &str| from.iter().any(|(known, _)| known == host);
            let names_new = !to.iter().all(|(host, _)| is_known(host));
            if names_new && more.host.is_none() {
                may_send_password(&all, after)?;
            } else if names_new && (more.user.is_none() || more.password.is_none()) {
                let text = "Incorrect arguments to CHANGE REPLICATION SOURCE TO: a new SOURCE_HOST needs SOURCE_USER and \
                            SOURCE_PASSWORD in the same statement";
                return Err(SqlError::new(1210, "HY000", text));
            }
            if from != to {
                engine.replica().and_then(|replica| replica.try_source(after)).map_err(failed)?;
            }
        }
        _ if more.concern_receiving() => {
            return Err(SqlError::not_supported("CHANGE REPLICATION SOURCE TO where the source is files"));
        }
        _ => {}
    }
    all.keep(engine.folder()).map_err(failed)?;
    engine.put_in_force(&all, &after).map_err(failed)?;
    Ok(Ordered::Done)
}

/// Servers that a list names get the password, so it is one that was given by SQL too, or they are verified.
fn may_send_password(orders: &SourceOrders, server: &ServerOptions) -> Result<(), SqlError> {
    let options = server.each().and_then(|each| each.first().unwrap_or(server).connect_options());
    let is_verified =
        matches!(options.map_err(|failure| told(&failure))?.ssl_mode, SslMode::VerifyCa | SslMode::VerifyIdentity);
    if is_verified || orders.user.is_some() && orders.password.is_some() {
        return Ok(());
    }
    let text = "Incorrect arguments to SOURCE_CONNECTION_AUTO_FAILOVER: servers at other hosts need SOURCE_USER and \
                SOURCE_PASSWORD by CHANGE REPLICATION SOURCE TO, or SOURCE_SSL_VERIFY_SERVER_CERT = 1";
    Err(SqlError::new(1210, "HY000", text))
}

/// SOURCE_AUTO_POSITION stays on where the next source may be followed.
fn keeps_auto_position(engine: &Engine, options: &[SourceOption]) -> Result<(), SqlError> {
    let is = |name: &str, value: &str| {
        let is_it =
            |option: &SourceOption| option.name == name && option.value == OptionValue::Number(value.to_owned());
        options.iter().any(is_it)
    };
    if !is("SOURCE_AUTO_POSITION", "0") {
        return Ok(());
    }
    let kept = SourceOrders::of(engine.folder()).map_err(|failure| told(&failure))?;
    let (number, text) = if is("SOURCE_CONNECTION_AUTO_FAILOVER", "1") {
        let text = "Failed to enable Asynchronous Replication Connection Failover feature. The CHANGE REPLICATION SOURCE \
                    TO SOURCE_CONNECTION_AUTO_FAILOVER = 1 can only be set when SOURCE_AUTO_POSITION option of CHANGE \
                    REPLICATION SOURCE TO is enabled.";
        (3991, text)
    } else if kept.auto_failover == Some(true) && !is("SOURCE_CONNECTION_AUTO_FAILOVER", "0") {
        let text = "CHANGE REPLICATION SOURCE TO SOURCE_AUTO_POSITION = 0 cannot be executed because Asynchronous \
                    Replication Connection Failover is enabled i.e. CHANGE REPLICATION SOURCE TO \
                    SOURCE_CONNECTION_AUTO_FAILOVER = 1.";
        (3993, text)
    } else {
        return Ok(());
    };
    Err(SqlError::new(number, "HY000", text))
}

/// Changes the lists of servers that may be followed, while receiving continues.
fn change_failover(engine: &Engine, order: FailoverOrder) -> Result<Ordered, SqlError> {
    let _alone = engine.changes();
    let failed = |failure: Failure| told(&failure);
    let kept = SourceOrders::of(engine.folder()).map_err(failed)?;
    let mut all = kept.clone();
    let refused = order.refused();
    let lists = &mut all.failover;
    let done = match order {
        FailoverOrder::AddSource { host, port, weight } => {
            lists.add_source(FailoverSource { host, port, weight, managed_name: String::new() })
        }
        FailoverOrder::DeleteSource { host, port } => lists.delete_source(&host, port),
        FailoverOrder::AddManaged { name, host, port, primary_weight, secondary_weight } => {
            if lists.managed.iter().any(|of| !of.name.eq_ignore_ascii_case(&name)) {
                return Err(SqlError::not_supported("a second managed group"));
            }
            lists.add_managed(ManagedGroup { name, primary_weight, secondary_weight }, host, port)
        }
        FailoverOrder::DeleteManaged { name } => lists.delete_managed(&name),
        FailoverOrder::Reset => {
            *lists = Failover::default();
            true
        }
    };
    if !done {
        return Err(refused);
    }
    if lists.sources.len() > FAILOVER_SOURCES_MAX {
        return Err(SqlError::not_supported(&format!("more than {FAILOVER_SOURCES_MAX} servers to follow")));
    }
    let after = all.over(engine.start_config()).map_err(failed)?;
    let SourceSpec::Server(server) = &after.source else {
        return Err(SqlError::not_supported("asynchronous connection failover where the source is files"));
    };
    if server.auto_failover && all.failover.sources.len() > kept.failover.sources.len() {
        may_send_password(&all, server)?;
    }
    all.keep(engine.folder()).map_err(failed)?;
    engine.relist(&all, &after).map_err(failed)?;
    Ok(Ordered::Done)
}

/// Takes other filters. Tables that they let in are copied, and those that they leave out are here no more.
fn change_filter(engine: &Engine, changes: &[FilterRules]) -> Result<Ordered, SqlError> {
    let _alone = engine.changes();
    must_stop((false, running(engine).1))?;
    let failed = |failure: Failure| told(&failure);
    let now = engine.config().map_err(failed)?.filters;
    let next = filters(&now, changes)?;
    let options = changes.iter().map(|rules| rules.option);
    let kept = engine.filter_orders();
    if next == *now {
        let orders = kept.named(options, &next);
        orders.keep(engine.folder()).map_err(failed)?;
        engine.put_filters_in_force(orders).map_err(failed)?;
        return Ok(Ordered::Done);
    }
    let replica = engine.replica().map_err(failed)?;
    let let_in = let_in(engine, &replica, &now, &next)?;
    let orders = kept.settled(&replica.cut_executed()).changed(options, &next, let_in);
    let shown = replica.stopped_at().unwrap_or_else(|| replica.pipeline().store.visibility().executed());
    drop(replica);
    orders.keep(engine.folder()).map_err(failed)?;
    engine.put_filters_in_force(orders).map_err(failed)?;
    engine.restart_under_filters(shown).map_err(failed)?;
    Ok(Ordered::Done)
}

/// What filters let in that others left out, as the source has it; said in the log.
///
/// # Errors
/// 1235 where tables cannot be copied, or databases would be renamed otherwise; 1105 if the source cannot be asked.
fn let_in(
    engine: &Engine,
    replica: &Replica,
    now: &ReplicationFilters,
    next: &ReplicationFilters,
) -> Result<LetIn, SqlError> {
    let renames = |filters: &ReplicationFilters| filters.text("replicate-rewrite-db");
    if renames(now) != renames(next) {
        let what = "CHANGE REPLICATION FILTER REPLICATE_REWRITE_DB, to others than the data folder was filled with";
        return Err(SqlError::not_supported(what));
    }
    let Some(login) = engine.login() else {
        return Err(SqlError::not_supported("CHANGE REPLICATION FILTER where the source is files"));
    };
    let catalog = replica.pipeline().store.visibility().current().catalog;
    let lower = catalog.lower_case_table_names();
    let asked = copy::let_in(&login.for_try(), now, &Arc::new(next.clone()), lower);
    let (let_in, notes) = asked.map_err(|error| {
        not_now(&format!(
            "the source cannot be asked for its tables: \
        {error}"
        ))
    })?;
    let gone = catalog.tables().filter(|table| !next.replicates(&table.db, &table.name, lower));
    let text = format!(
        "replication filters change: {} tables are added and will be copied, {} excluded tables are removed",
        let_in.tables.len(),
        gone.count()
    );
    log::write(Code::FiltersChanged, "Server", &text);
    for note in notes {
        log::write(Code::InitialCopyNote, "Copy", &note);
    }
    Ok(let_in)
}

fn reset(engine: &Engine, all: bool) -> Result<Ordered, SqlError> {
    let _alone = engine.changes();
    if running(engine) != (false, false) {
        return must_stop((true, true)).map(|()| Ordered::Done);
    }
    let failed = |failure: Failure| told(&failure);
    let replica = engine.replica().map_err(failed)?;
    if engine.engine_status().replay.state.as_mysql() == "Yes" {
        return Err(not_now(
            "rows that were visible before a restart are still being replayed; try again once they are",
        ));
    }
    replica.cut_all().map_err(failed)?;
    let shown = replica.pipeline().store.visibility().executed();
    if all {
        reset_filters(engine, &replica)?;
    }
    drop(replica);
    if all {
        let left = SourceOrders::forget(engine.folder()).map_err(failed)?;
        let config = left.over(engine.start_config()).map_err(failed)?;
        engine.put_in_force(&left, &config).map_err(failed)?;
    }
    engine.restart_without_relay_log(shown).map_err(failed)?;
    Ok(Ordered::Done)
}

/// Puts the filters of the start in force again.
fn reset_filters(engine: &Engine, replica: &Replica) -> Result<(), SqlError> {
    let kept = engine.filter_orders();
    if kept.names().is_empty() {
        return Ok(());
    }
    let failed = |failure: Failure| told(&failure);
    let (now, next) = (engine.config().map_err(failed)?.filters, &engine.start_config().filters);
    let orders = match now == *next {
        true => kept.unnamed(),
        false => {
            let let_in = let_in(engine, replica, &now, next)?;
            kept.settled(&replica.cut_executed()).replaced(next, let_in)
        }
    };
    orders.keep(engine.folder()).map_err(failed)?;
    engine.put_filters_in_force(orders).map_err(failed)
}

/// The changes that options ask for; of one given twice the last counts.
///
/// # Errors
/// As MySQL: 1210, 1624, 1729, 3056; 1235 for a value that is not taken here.
pub(crate) fn source_orders(options: &[SourceOption]) -> Result<SourceOrders, SqlError> {
    let mut orders = SourceOrders::default();
    for SourceOption { name, value } in options {
        let text = || match value {
            OptionValue::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            OptionValue::Number(number) => number.clone(),
        };
        let number = |most: u64| parse_number(&text(), 0, most).map_err(|_| incorrect(name));
        let path = || Some(PathBuf::from(text()));
        match *name {
            "SOURCE_HOST" if text().is_empty() => return Err(incorrect(name)),
            "SOURCE_HOST" => orders.host = Some(text()),
            "SOURCE_PORT" => match number(65_535)? {
                0 => return Err(incorrect(name)),
                port => orders.port = Some(narrow(port)?),
            },
            "SOURCE_USER" if text().is_empty() => return Err(incorrect(name)),
            "SOURCE_USER" => orders.user = Some(text()),
            "SOURCE_PASSWORD" if text().chars().count() > PASSWORD_CHARS_MAX => {
                let text = "The password provided for the replication user exceeds the maximum length of 32 characters";
                return Err(SqlError::new(3056, "HY000", text));
            }
            "SOURCE_PASSWORD" => orders.password = Some(Secret(text())),
            "SOURCE_SSL" => orders.ssl = Some(number(u64::MAX)? > 0),
            "SOURCE_SSL_VERIFY_SERVER_CERT" => orders.ssl_verify = Some(number(u64::MAX)? > 0),
            "GET_SOURCE_PUBLIC_KEY" => orders.get_public_key = Some(number(u64::MAX)? > 0),
            "SOURCE_SSL_CA" => orders.ssl_ca = path(),
            "SOURCE_SSL_CERT" => orders.ssl_cert = path(),
            "SOURCE_SSL_KEY" => orders.ssl_key = path(),
            "SOURCE_PUBLIC_KEY_PATH" => orders.public_key_path = path(),
            "SOURCE_CONNECT_RETRY" => orders.connect_retry_s = Some(narrow(number(u32::MAX.into())?)?),
            "SOURCE_RETRY_COUNT" => orders.retry_count = Some(number(u64::MAX)?),
            "SOURCE_HEARTBEAT_PERIOD" => orders.heartbeat_ms = Some(heartbeat_ms(&text())?),
            "SOURCE_DELAY" => match number(u64::MAX)? {
                seconds if seconds > DELAY_S_MAX => {
                    let text =
                        format!("The requested value {seconds} for the source delay exceeds the maximum {DELAY_S_MAX}");
                    return Err(SqlError::new(1729, "HY000", text));
                }
                seconds => orders.delay_s = Some(narrow(seconds)?),
            },
            "SOURCE_CONNECTION_AUTO_FAILOVER" => orders.auto_failover = Some(number(1)? > 0),
            // There is no other way here.
            "SOURCE_AUTO_POSITION" if number(u64::MAX)? == 1 => {}
            name => return Err(SqlError::not_supported(&format!("CHANGE REPLICATION SOURCE TO {name} = {}", text()))),
        }
    }
    Ok(orders)
}

fn narrow<T: TryFrom<u64>>(number: u64) -> Result<T, SqlError> {
    T::try_from(number).map_err(|_| incorrect("CHANGE REPLICATION SOURCE TO"))
}

fn incorrect(to: &str) -> SqlError {
    SqlError::new(1210, "HY000", format!("Incorrect arguments to {to}"))
}

/// A source that sends no heartbeats cannot be told from one that is gone, so here they cannot be switched off.
fn heartbeat_ms(text: &str) -> Result<u64, SqlError> {
    let seconds: f64 = text.parse().map_err(|_| incorrect("SOURCE_HEARTBEAT_PERIOD"))?;
    if !(0.0..=HEARTBEAT_S_MAX).contains(&seconds) {
        let text = "The requested value for the heartbeat period is either negative or exceeds the maximum allowed (4294967 seconds).";
        return Err(SqlError::new(1624, "HY000", text));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is within the bounds above")]
    let ms = (seconds * 1000.0).round() as u64;
    if ms == 0 {
        return Err(SqlError::not_supported("CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 0"));
    }
    Ok(ms)
}

/// The filters that rules lead to, over those in force: each option named has these rules alone.
///
/// # Errors
/// 3067 and 1210, as MySQL, for a rule that is none.
pub(crate) fn filters(now: &ReplicationFilters, changes: &[FilterRules]) -> Result<ReplicationFilters, SqlError> {
    let mut filters = ReplicationFilters::default();
    let is_changed = |option: &str| changes.iter().any(|rules| rules.option == option);
    let kept = now.rules().filter(|(option, _)| !is_changed(option));
    for (option, rule) in kept {
        filters.add(option, &rule).map_err(|why| SqlError::new(1105, "HY000", why))?;
    }
    for (at, FilterRules { option, rules }) in changes.iter().enumerate() {
        // Of one given twice the last counts.
        if changes.iter().skip(at + 1).any(|later| later.option == *option) {
            continue;
        }
        for rule in rules {
            let rule = String::from_utf8_lossy(rule);
            filters.add(option, &rule).map_err(|why| match option.contains("wild") {
                true => {
                    let text = "Supplied filter list contains a value which is not in the required format \
                                'db_pattern.table_pattern'";
                    SqlError::new(3067, "HY000", text)
                }
                false => SqlError::new(1210, "HY000", format!("Incorrect arguments to {option}: {why}")),
            })?;
        }
    }
    Ok(filters)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders(options: &[(&'static str, &str)]) -> Result<SourceOrders, u16> {
        let is_text = |name: &str| name.ends_with("HOST") || name.ends_with("USER") || name.ends_with("PASSWORD");
        let options: Vec<SourceOption> = (options.iter())
            .map(|(name, value)| SourceOption {
                name,
                value: match is_text(name) {
                    true => OptionValue::Text(value.as_bytes().to_vec()),
                    false => OptionValue::Number((*value).to_owned()),
                },
            })
            .collect();
        source_orders(&options).map_err(|error| error.code)
    }

    #[test]
    fn values_are_checked_as_mysql_checks_them() {
        let orders = |name, value| orders(&[(name, value)]);
        assert_eq!(orders("SOURCE_DELAY", "2147483647").unwrap().delay_s, Some(2_147_483_647));
        assert_eq!(orders("SOURCE_DELAY", "2147483648"), Err(1729));
        assert_eq!(orders("SOURCE_HOST", ""), Err(1210));
        assert_eq!(orders("SOURCE_PORT", "70000"), Err(1210));
        assert_eq!(orders("SOURCE_PORT", "0"), Err(1210));
        assert_eq!(orders("SOURCE_HEARTBEAT_PERIOD", "0.5").unwrap().heartbeat_ms, Some(500));
        assert_eq!(orders("SOURCE_HEARTBEAT_PERIOD", "4294968"), Err(1624));
        assert_eq!(orders("SOURCE_HEARTBEAT_PERIOD", "0"), Err(1235));
        let long = "x".repeat(33);
        assert_eq!(orders("SOURCE_PASSWORD", &long), Err(3056));
        assert_eq!(orders("SOURCE_AUTO_POSITION", "1"), Ok(SourceOrders::default()));
        assert_eq!(orders("SOURCE_AUTO_POSITION", "0"), Err(1235));
    }

    #[test]
    fn the_last_of_two_counts() {
        assert_eq!(orders(&[("SOURCE_DELAY", "1"), ("SOURCE_DELAY", "2")]).unwrap().delay_s, Some(2));
        let mut now = ReplicationFilters::default();
        now.add("replicate-do-db", "a").unwrap();
        now.add("replicate-do-table", "a.t").unwrap();
        let rules = |option, rules: &[&str]| FilterRules {
            option,
            rules: rules.iter().map(|rule| rule.as_bytes().to_vec()).collect(),
        };
        let changed =
            filters(&now, &[rules("replicate-do-db", &["b"]), rules("replicate-do-db", &["c", "d"])]).unwrap();
        assert_eq!((changed.text("replicate-do-db"), changed.text("replicate-do-table")), ("c,d".into(), "a.t".into()));
        assert_eq!(filters(&now, &[rules("replicate-do-db", &[])]).unwrap().text("replicate-do-db"), "");
        assert_eq!(filters(&now, &[rules("replicate-wild-do-table", &["ab"])]).unwrap_err().code, 3067);
    }
}
