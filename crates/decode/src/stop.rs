//! Why replay stops: one value that carries the class, the reason, the place and the remedy.

use base::{Gtid, LogPosition};

/// The command that starts replay again in the process that stopped it.
pub const START_SQL: &str = "slipstream start sql --data DIR";
/// Next step when the store is damaged beyond what copies of tables repair.
pub const START_ANEW: &str = "the store is damaged, the relay log is not to blame: start the replica with --start-anew, \
     which puts the damaged store aside and copies everything from the source again; uuid, options and the skip list stay";

/// Class of a stop; the program maps each to its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopClass {
    /// An event, statement or column type that is not supported.
    NotSupported,
    /// The relay log contains bytes that no source writes.
    Corrupt,
    /// A file of the store does not contain what was written.
    StoreDamaged,
    /// The stored rows or tables differ from what the log expects.
    DataDiffers,
    /// A file could not be read or written.
    Io,
    /// The disk is full.
    DiskFull,
    /// The disk did not take what was to be made durable.
    SyncFailed,
    /// An internal check of Slipstream failed: neither the log nor the data are at fault.
    Defect,
}

/// The reason of a stop for a broken invariant; ends with the line of the caller.
#[track_caller]
pub(crate) fn defect_reason(what: &str) -> String {
    let at = std::panic::Location::caller();
    format!("{what} ({}:{}, a defect of Slipstream)", at.file(), at.line())
}

/// Reason why replay stopped. Everything before it becomes visible, nothing after it does.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}{}", self.place())]
pub struct Stop {
    /// Class of the stop.
    pub class: StopClass,
    /// Relay log position of the event, or of the transaction when the event is inside a compressed payload.
    pub position: LogPosition,
    /// GTID of the transaction, if known.
    pub gtid: Option<Gtid>,
    /// The reason, in words.
    pub reason: String,
}

impl Stop {
    /// Builds the stop for a panic of a stage.
    #[must_use]
    pub fn of_panic(stage: &str, message: &str) -> Stop {
        Stop {
            class: StopClass::Defect,
            position: LogPosition { file: std::sync::Arc::from(""), offset: 0 },
            gtid: None,
            reason: format!("stage {stage} failed: {message} (a defect of Slipstream)"),
        }
    }

    /// Builds the stop for a broken invariant that a stage found at this place of the log. `what` names the structure
    /// and the value; the reason ends with the line of the caller, which checked it.
    #[must_use]
    #[track_caller]
    pub fn of_defect(position: LogPosition, gtid: Option<Gtid>, what: &str) -> Stop {
        Stop { class: StopClass::Defect, position, gtid, reason: defect_reason(what) }
    }

    /// Where it stopped, for the message. Empty when the fault has no place in the log: in a merge, before the start.
    fn place(&self) -> String {
        let gtid = self.gtid.as_ref().map(|gtid| format!(", GTID {gtid}")).unwrap_or_default();
        if self.position.file.is_empty() { gtid } else { format!("; at relay log {}{gtid}", self.position) }
    }

    /// Returns the next step for the operator, as a command where there is one.
    #[must_use]
    pub fn help(&self) -> String {
        match (self.class, &self.gtid) {
            (StopClass::Defect, _) => {
                "start the replica again; if it stops at the same place, report it with this message".into()
            }
            (StopClass::NotSupported, Some(gtid)) => format!(
                "to leave this transaction out: slipstream skip {gtid} --data DIR, then {START_SQL} (the replica then \
                 lacks its changes)"
            ),
            (StopClass::DataDiffers, Some(gtid)) => format!(
                "to leave this transaction out: slipstream skip {gtid} --data DIR, then {START_SQL}, then slipstream verify \
                 and slipstream copy for each table that differs"
            ),
            (StopClass::Corrupt, _) => {
                "the relay log is damaged: stop the replica, remove the folder and start with an empty one to fetch \
                 the log from the source again"
                    .into()
            }
            (StopClass::StoreDamaged, _) => START_ANEW.into(),
            (StopClass::Io | StopClass::SyncFailed, _) => format!("check the disk, then {START_SQL}"),
            (StopClass::DiskFull, _) => format!("free space in the data folder's file system, then {START_SQL}"),
            _ => "remove the event's cause on the source, or start with an empty folder".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_defect_tells_the_line_that_noticed_it() {
        let position = LogPosition { file: std::sync::Arc::from("relay-bin.000001"), offset: 4 };
        let line = line!() + 1;
        let stop = Stop::of_defect(position, None, "a planted fault");
        let told = format!("a planted fault (crates/decode/src/stop.rs:{line}, a defect of Slipstream)");
        assert_eq!((stop.class, &stop.reason), (StopClass::Defect, &told));
        assert!(stop.to_string().contains("; at relay log relay-bin.000001:4"), "{stop}");
    }
}
