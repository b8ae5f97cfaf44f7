//! A replica and its disk: what waits for space, what the log says of it, and trouble that needs a new engine.
//!
//! In: free space, waits of receiving and replay, errors of relay log and store. Out: log lines, texts for status, the
//! trouble for the one who starts engines. Never here: a wait.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use apply::CutWait;
use observe::{bytes_text, duration_text, utc_text};
use relay_log::{RelayError, RelayPosition};
use store::FreeSpace;

use crate::config::OnStop;
use crate::exit::{DiskTrouble, Failure};
use crate::failure::relay_failure;
use crate::log::{self, Code};
use crate::receiver::Receive;
use crate::receiver::link::LinkState;
use crate::replica::Replica;
use crate::room::{SpaceNeed, SpaceTrend};

/// Time before the disk is full from which on the log warns.
const WARN_BEFORE: Duration = Duration::from_secs(24 * 3600);
/// The log warns when less than this many times the reserve is free, and again after it was more.
const WARN_AT_RESERVES: u64 = 2;

/// What the log has said of the disk.
#[derive(Debug, Default)]
pub(crate) struct SpaceWatch {
    trend: SpaceTrend,
    waited: Waiting,
    nearly_full_said: bool,
}

/// What waits for disk space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Waiting {
    receiving: bool,
    replay: bool,
}

impl Waiting {
    fn any(self) -> bool {
        self.receiving || self.replay
    }
}

/// Trouble with the disk that stopped relay log or store, and from which a new engine recovers.
pub struct StoppedByDisk {
    /// What the disk did.
    pub trouble: DiskTrouble,
    /// What failed, for the log.
    pub text: String,
    /// If the relay log failed: end of what is certainly durable of it.
    pub keep_up_to: Option<RelayPosition>,
}

impl Replica {
    /// Trouble with the disk that stopped relay log or store; None too while threads of replay still end, and where the
    /// process ends with its exit code.
    #[must_use]
    pub fn stopped_by_disk(&self) -> Option<StoppedByDisk> {
        if self.on_stop == OnStop::Exit {
            return None;
        }
        if let Some((error, keep_up_to)) = self.relay_trouble() {
            let failure = relay_failure(error);
            return Some(StoppedByDisk { trouble: failure.disk?, text: failure.text, keep_up_to: Some(keep_up_to) });
        }
        let failure = self.sql_failure().filter(|_| self.replay.pipeline.is_finished())?;
        Some(StoppedByDisk { trouble: failure.disk?, text: failure.text, keep_up_to: None })
    }

    /// The failure, with a hint that nothing needs to be done if that is so.
    pub(crate) fn by_itself(&self, failure: Failure) -> Failure {
        match failure.disk {
            Some(trouble) if self.on_stop == OnStop::Stay => failure.with_hint(goes_on(trouble)),
            _ => failure,
        }
    }

    fn relay_trouble(&self) -> Option<(RelayError, RelayPosition)> {
        let sync = &self.inbound.relay_sync;
        Some((sync.poison()?, sync.synced_whole()))
    }

    /// How receiving begins in the engine that follows trouble with the disk: as if there had been none.
    #[must_use]
    pub fn receive_after_disk(&self, stopped: &StoppedByDisk) -> Receive {
        if self.inbound.is_stopped() {
            return Receive::Stopped(None);
        }
        if stopped.keep_up_to.is_some() { Receive::Again } else { self.receive_again() }
    }

    /// The space of the data folder's file system; None if the system does not say.
    #[must_use]
    pub fn space(&self) -> Option<FreeSpace> {
        self.upkeep.space.look()
    }

    /// Time until only the reserve is free.
    pub(crate) fn full_in(&self) -> Option<Duration> {
        let space = self.space()?;
        let watch = self.upkeep.space_watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.trend.full_in(Instant::now(), &space)
    }

    /// What waits for disk space, in words; None if nothing does.
    pub(crate) fn waits_for_space(&self, link: &LinkState) -> Option<String> {
        let receiving = receiving_waits(link);
        let replay = (self.replay.pipeline.waits_for() == CutWait::Space).then(|| {
            let wanted = self.replay.pipeline.store.disk().map_or(0, |disk| disk.merge_wants_bytes());
            match (wanted, self.replay.pipeline.cut_state().waiting_bytes()) {
                (0, 0) => "replay waits for disk space to write the store".to_owned(),
                (0, bytes) => {
                    format!("replay waits for disk space to write the store, which may need {}", bytes_text(bytes))
                }
                (bytes, _) => {
                    format!("replay waits for a merge of the store, which needs {} of disk space", bytes_text(bytes))
                }
            }
        });
        match (receiving, replay) {
            (Some(receiving), Some(replay)) => Some(format!("{receiving}; {replay}")),
            (receiving, replay) => receiving.or(replay),
        }
    }

    /// Logs when something begins or ends to wait for space, and warns before.
    pub(crate) fn tell_of_space(&self) {
        let Some(space) = self.space() else { return };
        let (text, waiting) = {
            let link = self.inbound.link.lock();
            let receiving = link.received.waits_for_space.is_some();
            let replay = self.replay.pipeline.waits_for() == CutWait::Space;
            (self.waits_for_space(&link), Waiting { receiving, replay })
        };
        let mut watch = self.upkeep.space_watch.lock().unwrap_or_else(PoisonError::into_inner);
        watch.trend.note(Instant::now(), space.free_bytes);
        let waited = watch.waited;
        // What has been stopped waits no more, and does not go on.
        let goes_on =
            (waited.receiving && !self.inbound.link.must_end()) || (waited.replay && !self.replay.pipeline.is_ending());
        match text {
            Some(what) if !waited.any() => {
                let text = format!("{what}; {}. It continues by itself", free_text(&space));
                log::write(Code::WaitsForSpace, "Server", &text);
            }
            None if waited.any() && goes_on => {
                let text = format!("disk space is free again, and writing continues; {}", free_text(&space));
                log::write(Code::GoesOnWithSpace, "Server", &text);
            }
            _ => {}
        }
        let is_waiting = waiting.any();
        watch.waited = waiting;
        let full_in = watch.trend.full_in(Instant::now(), &space);
        let low = space.free_bytes < space.reserve_bytes.saturating_mul(WARN_AT_RESERVES);
        let nearly_full = low || full_in.is_some_and(|time| time < WARN_BEFORE);
        if nearly_full && !watch.nearly_full_said && !is_waiting {
            let when = full_in.map_or_else(String::new, |time| {
                format!(", and full in about {} at the rate of the last hour", short(time))
            });
            log::write(
                Code::DiskNearlyFull,
                "Server",
                &format!("the disk is nearly full: {}{when}", free_text(&space)),
            );
        }
        watch.nearly_full_said = nearly_full;
    }
}

/// What an operator may do where the process goes on by itself.
fn goes_on(trouble: DiskTrouble) -> &'static str {
    match trouble {
        DiskTrouble::Full => "free space in the data folder's file system; it then continues by itself",
        DiskTrouble::SyncFailed => "check the disk; it continues by itself, from its last durable state",
    }
}

/// What receiving waits for, in words.
pub(crate) fn receiving_waits(link: &LinkState) -> Option<String> {
    let SpaceNeed { transaction_bytes, begun_s, lacks_bytes } = link.received.waits_for_space?;
    let purge = link.source.log_expires_s.filter(|_| begun_s > 0).map_or_else(String::new, |expires_s| {
        let at = utc_text((begun_s + expires_s).saturating_mul(1_000_000));
        format!(", and the source may purge it from {at} on (binlog_expire_logs_seconds)")
    });
    Some(format!(
        "receiving waits for {} more of disk space: the next transaction has {}{purge}",
        bytes_text(lacks_bytes),
        bytes_text(transaction_bytes)
    ))
}

/// Free space, and how much of it is above the reserve.
fn free_text(space: &FreeSpace) -> String {
    let FreeSpace { free_bytes, total_bytes, reserve_bytes } = *space;
    let (free, total, reserve) = (bytes_text(free_bytes), bytes_text(total_bytes), bytes_text(reserve_bytes));
    match space.above_reserve() {
        _ if reserve_bytes == 0 => format!("{free} free of {total}"),
        0 => format!("{free} free of {total}, less than the reserve of {reserve}"),
        above => format!("{free} free of {total}, {} above the reserve of {reserve}", bytes_text(above)),
    }
}

fn short(time: Duration) -> String {
    duration_text(u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_told_beside_the_reserve() {
        let told = |free_mib: u64, reserve_mib: u64| {
            let [free_bytes, total_bytes, reserve_bytes] = [free_mib, 160, reserve_mib].map(|mib| mib << 20);
            free_text(&FreeSpace { free_bytes, total_bytes, reserve_bytes })
        };
        assert_eq!(told(5, 8), "5.00 MiB free of 160 MiB, less than the reserve of 8.00 MiB");
        assert_eq!(told(20, 8), "20.0 MiB free of 160 MiB, 12.0 MiB above the reserve of 8.00 MiB");
        assert_eq!(told(20, 0), "20.0 MiB free of 160 MiB");
    }
}
