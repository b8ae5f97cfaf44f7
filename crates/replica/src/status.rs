//! Status of a running replica for `slipstream status`.
//!
//! In: the current state of the replica's parts. Out: a report. Never here: a wait.

use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use apply::CutWait;
use catalog::Catalog;
use observe::{
    Backlog, BeforeReport, ComparedReport, ConnectionState, DiskReport, GtidReport, HeardReport, LagReport,
    MemoryReport, PositionReport, ProcessFacts, RatesReport, ReplayReport, ReplayState, ServedReport, SilenceReport,
    SourceReport, StatusReport, StoreReport, UntilReport, WaitReport, now_us, steady_us, utc_text,
};
use relay_log::RelayPosition;

use crate::disk_trouble::receiving_waits;
use crate::receiver::link::LinkState;
use crate::replica::{Replica, quarantined};

/// What replay waits for, in MySQL's words.
const DELAYED: &str = "Waiting until SOURCE_DELAY seconds after source executed event";

/// What has been received from the source.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// GTIDs in the relay log.
    pub gtids: base::GtidSet,
    /// The place behind them in the source's log, as `file:offset`; None before the first event.
    pub source_position: Option<String>,
}

impl Replica {
    /// What has been received.
    #[must_use]
    pub fn received(&self) -> Received {
        let link = self.inbound.link.lock();
        Received { gtids: link.received.retrieved.clone(), source_position: link.received.source_position.clone() }
    }

    /// `server_uuid` of the source that was connected to last; empty if there was none.
    #[must_use]
    pub fn followed(&self) -> String {
        self.inbound.link.lock().source.facts.server_uuid.clone()
    }

    /// What replay waits for, in words; empty if nothing.
    fn waits_for(&self) -> String {
        if self.inbound.relay.space().waiting.is_some() {
            return "receiving is waiting for relay log space".into();
        }
        if self.replay.pipeline.publisher.is_read_locked() {
            return "waiting for a client's FLUSH TABLES WITH READ LOCK to be released".into();
        }
        if let Some(gtid) = self.replay.pipeline.publisher.unacknowledged() {
            return format!("waiting until the source has executed {gtid} (--show=acknowledged)");
        }
        match self.replay.pipeline.waits_for() {
            CutWait::None => match self.replay.pipeline.store.readable() {
                Err(error) => error.to_string(),
                Ok(()) if self.replay.pipeline.remaining_delay().is_some() => DELAYED.into(),
                Ok(()) => String::new(),
            },
            CutWait::Cut => "waiting for a cut".into(),
            CutWait::Compaction => "waiting for compaction".into(),
            CutWait::Space => "waiting for free disk space".into(),
            CutWait::Damage => "waiting for compaction, which no damaged file of the store may enter".into(),
        }
    }

    fn store_report(&self, stats: &store::StoreStats) -> StoreReport {
        let last = self.replay.last_cut();
        let tree = stats.disk.unwrap_or_default();
        StoreReport {
            last_cut: self.replay.pipeline.store.last_cut(),
            last_cut_at: (last.at_us > 0).then(|| utc_text(last.at_us)),
            last_backup_us: self.upkeep.backups.last_us(),
            cuts: last.cuts,
            sealed_generations: stats.sealed,
            tree_bytes: tree.bytes,
            written_bytes: tree.written_bytes,
            compaction_debt_bytes: tree.debt_bytes,
            compaction_debt_runs: tree.debt_runs,
            l0_runs: tree.l0_runs,
            compactions: tree.compactions,
            reader_waits: wait_report(self.replay.pipeline.store.lane_waits().0),
            replay_waits: wait_report(self.replay.pipeline.store.lane_waits().1),
        }
    }

    fn disk_report(&self, relay_log_bytes: u64, link: &LinkState) -> DiskReport {
        let space = self.space();
        DiskReport {
            free_bytes: space.map(|space| space.free_bytes),
            reserve_bytes: space.map(|space| space.reserve_bytes),
            full_in_us: self.full_in().map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            waits: self.waits_for_space(link).is_some(),
            ..disk(self.folder().path(), relay_log_bytes)
        }
    }

    /// `visible`: the relay log position after the newest visible transaction.
    fn backlog(&self, transactions: u64, visible: Option<RelayPosition>, lag_us: Option<u64>, steady: u64) -> Backlog {
        let bytes = self.inbound.relay.unread_bytes(visible) + self.replay.pipeline.gate.used();
        // Below this lag, replay is limited by the source's rate rather than by its own speed.
        let behind =
            transactions > 0 && lag_us.is_none_or(|lag_us| lag_us >= 1_000_000) && !self.replay.pipeline.is_paused();
        let replayed = if behind { self.replay.pipeline.rates.bytes_per_s_now(steady) } else { None };
        let received_per_s = self.inbound.link.received.bytes_per_s_now(steady).unwrap_or(0.0);
        let catch_up_us = replayed.and_then(|per_s| Backlog::catch_up_us_of(bytes, per_s, received_per_s));
        Backlog { transactions, bytes, catch_up_us }
    }

    fn replay_report(&self, state: ReplayState, catalog: &Catalog, rows: u64) -> ReplayReport {
        let until = self.replay.until();
        let remaining_delay = self.replay.pipeline.remaining_delay();
        let (comparison, missing) = self.upkeep.all_tables.report(catalog);
        ReplayReport {
            state,
            detail: self.waits_for(),
            barriers: self.replay.pipeline.barriers.load(Ordering::Relaxed) as u64,
            tables: catalog.table_count() as u64,
            rows,
            table_copy: self.upkeep.copies.running.progress(),
            tables_copied: self.upkeep.copies.done.load(Ordering::Relaxed),
            tables_copied_by_itself: self.upkeep.copies.done_by_itself.load(Ordering::Relaxed),
            filters: Vec::new(),
            quarantined: quarantined(catalog, &[]),
            rows_logged_twice: self.replay.pipeline.publisher.logged_twice().rows(),
            logged_twice_last: self.replay.logged_twice_last(),
            compared: ComparedReport {
                comparison,
                missing,
                definitions_unsettled: catalog.unsettled_definitions().count() as u64,
                definitions_read: self.upkeep.all_tables.definitions.are_read(catalog),
                definitions_asked: self.upkeep.all_tables.definitions.asked(),
            },
            copy: self.upkeep.all_tables.when().name().to_owned(),
            drifted: self.drifted().iter().map(ToString::to_string).collect(),
            moves: self.inbound.link.moves.report(catalog),
            check_images: self.replay.check_images.name().to_owned(),
            ended: self.replay.pipeline.is_finished(),
            damaged: self.damaged(),
            scrub: self.upkeep.scrub.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            until: UntilReport {
                condition: until.as_ref().map(|until| until.name().to_owned()).unwrap_or_default(),
                gtids: until.as_ref().map(|until| until.set().to_string()).unwrap_or_default(),
            },
            delay_s: self.replay.pipeline.delay().as_secs(),
            remaining_delay_us: remaining_delay.map(|left| u64::try_from(left.as_micros()).unwrap_or(u64::MAX)),
        }
    }

    /// How far rows are behind the source, now and lately, and how far its clock is from ours.
    fn lag_report(&self, current_us: Option<u64>, link: &LinkState, steady: u64) -> LagReport {
        LagReport {
            current_us,
            overall: self.replay.pipeline.lag.overall(),
            last_1s: self.replay.pipeline.lag.last_seconds(1, steady),
            last_10s: self.replay.pipeline.lag.last_seconds(10, steady),
            parts: self.replay.pipeline.lag_by_part.report(steady),
            ..self.inbound.clock_report(link)
        }
    }

    /// The report for `slipstream status`.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        let (now, steady) = (now_us(), steady_us());
        let publisher = self.replay.pipeline.publisher.status();
        let (io_error, sql_error) = (self.io_error(), self.sql_error());
        let link = self.inbound.link.lock();
        let visible = self.replay.pipeline.store.visibility().current();
        let stats = self.replay.pipeline.store.stats();
        let process = ProcessFacts::read();
        let relay_bytes = self.inbound.relay.total_bytes();
        let mut waiting = link.received.retrieved.subtract(&visible.executed).count();
        waiting = waiting.max(publisher.pending_transactions);
        let at = publisher.position.as_ref().and_then(RelayPosition::of);
        // Not looked at again: a state without its error would be reported.
        let state = if sql_error.is_some() {
            ReplayState::Failed
        } else if self.is_stopping() {
            ReplayState::Stopping
        } else if self.replay.is_stopped() {
            ReplayState::Paused
        } else if !self.replay.recovered.is_subset_of(&visible.executed) {
            ReplayState::Recovering
        } else if waiting == 0 {
            ReplayState::CaughtUp
        } else {
            ReplayState::Running
        };
        let pending_us = || {
            let oldest = self.replay.pipeline.oldest_pending_commit_us();
            oldest.map(|commit| self.inbound.link.source_clock.now_us().saturating_sub(commit))
        };
        let silent = link.source.is_silent();
        let current_us = match (link.source.connection, state) {
            (_, ReplayState::Failed | ReplayState::Stopping | ReplayState::Stopped) => None,
            // Nothing waits, paused or not.
            (ConnectionState::Connected | ConnectionState::Files, _) if waiting == 0 && !silent => Some(0),
            // Without a connection that lives, the end of the relay log says nothing about the lag to the source.
            _ if waiting == 0 => None,
            // No transaction is held yet: the last one becomes older while the next one waits.
            (_, ReplayState::Recovering) => pending_us()
                .or_else(|| self.replay.pipeline.lag.last().map(|(lag, at)| lag + steady.saturating_sub(at))),
            // The lag of the last visible transaction ages during a pause, so it says nothing.
            (_, ReplayState::Paused) => pending_us(),
            _ => pending_us().or_else(|| self.replay.pipeline.lag.last().map(|(lag, _)| lag)),
        };
        let served = self.served.as_ref().map(|(serving, stamping)| {
            let report = serving.report(&stamping.state(), link.source.semi_sync);
            ServedReport { beside_replay: true, ..report }
        });
        let to_skip = self.replay.skip.current().subtract(&visible.executed);
        StatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            at: utc_text(now),
            running: true,
            pid: Some(std::process::id()),
            uptime_us: self.started.elapsed().as_micros() as u64,
            data: self.folder().path().display().to_string(),
            server_id: self.server_id,
            server_uuid: self.folder().server_uuid().to_string(),
            unanswered: None,
            source: self.inbound.source_report(&link, now),
            replay: self.replay_report(state, &visible.catalog, stats.memory.rows),
            gtid: GtidReport {
                retrieved: link.received.retrieved.to_string(),
                executed: visible.executed.to_string(),
                to_skip: to_skip.to_string(),
                lacks: link.source.lacks(&link.received.retrieved, &visible.executed),
            },
            position: PositionReport {
                source_received: link.received.source_position.clone(),
                source_executed: if waiting == 0 { link.received.source_position.clone() } else { None },
                relay_received: Some(self.inbound.received_up_to()),
                relay_executed: publisher.position.map(|end| end.to_string()),
                watermark: visible.sequence.0,
            },
            lag: self.lag_report(current_us, &link, steady),
            backlog: self.backlog(waiting, at, current_us, steady),
            rates: RatesReport {
                last_1s: self.replay.pipeline.rates.last_seconds(1, steady),
                last_10s: self.replay.pipeline.rates.last_seconds(10, steady),
                total: self.replay.pipeline.rates.total(),
            },
            last_error: sql_error.clone().or_else(|| io_error.clone()),
            last_io_error: io_error,
            last_sql_error: sql_error,
            ledger: self.replay.pipeline.ledger.snapshot(binlog::event_type::name),
            memory: MemoryReport {
                rss_bytes: process.rss_bytes,
                rss_peak_bytes: process.rss_peak_bytes,
                store_bytes: stats.memory.bytes,
                limit_bytes: self.memory.limit_bytes,
                queue_bytes: self.replay.pipeline.gate.used(),
                queue_limit_bytes: self.memory.queue_bytes,
            },
            clients: None,
            http: None,
            backups: self.upkeep.backups.report(),
            served,
            store: self.store_report(&stats),
            disk: self.disk_report(relay_bytes, &link),
            cpu_us: process.cpu_us,
            threads: process.threads,
        }
    }
}

/// The source and the connection to it.
pub(crate) fn source_report(uri: &str, link: &LinkState) -> SourceReport {
    let last_received_us = Some(link.received.last_received_us).filter(|us| *us > 0);
    SourceReport {
        uri: uri.to_owned(),
        state: link.source.connection,
        server_version: link.source.facts.version.clone(),
        server_id: link.source.facts.server_id,
        server_uuid: link.source.facts.server_uuid.clone(),
        tls: link.source.tls.clone(),
        semi_sync: link.source.semi_sync,
        waits: receiving_waits(link).unwrap_or_default(),
        next_try: (link.source.next_try_us > 0).then(|| utc_text(link.source.next_try_us)),
        since: (link.source.since_us > 0).then(|| utc_text(link.source.since_us)),
        before: link
            .source
            .facts
            .before
            .as_ref()
            .map(|before| BeforeReport { server_uuid: before.server_uuid.clone(), until: utc_text(before.until_us) }),
        reconnects: link.source.reconnects,
        heard: HeardReport {
            last_received: last_received_us.map(utc_text),
            last_received_us,
            silence: SilenceReport {
                us: link.source.silence().map(|silence| u64::try_from(silence.as_micros()).unwrap_or(u64::MAX)),
                too_long: link.source.is_silent(),
            },
        },
        ..SourceReport::default()
    }
}

pub(crate) fn disk(data: &Path, relay_log_bytes: u64) -> DiskReport {
    let free = rustix::fs::statvfs(data).ok().map(|fs| fs.f_bavail * fs.f_frsize);
    let folder_bytes = observe::folder_bytes(data);
    DiskReport { folder_bytes, relay_log_bytes, free_bytes: free, ..DiskReport::default() }
}

fn wait_report(waits: store::WaitStats) -> WaitReport {
    let us = |ns: u64| ns / 1000;
    WaitReport { count: waits.count, p50_us: us(waits.p50_ns), p99_us: us(waits.p99_ns), max_us: us(waits.max_ns) }
}
