//! `relay-log.state`: the position up to which the log is known to be durable, and whether it was closed cleanly.
//!
//! ```text
//! slipstream relay log state 1
//! file relay-bin.000003
//! synced 1048576
//! whole 1048000
//! clean no
//! crc32 c812af30
//! ```
//! If the file is absent or not exactly of this form, nothing is known. It may lag (it is written at most every 50 ms)
//! but is never ahead: it is lowered before the log is truncated below it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::disk::RelayFs;
use crate::names::{file_name, file_number};
use crate::{RelayError, RelayPosition};

pub(crate) const NAME: &str = "relay-log.state";
const FIRST_LINE: &str = "slipstream relay log state 1";

/// Content of the state file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Everything before it is durable; always the end of an event.
    pub synced: RelayPosition,
    /// End of the last whole transaction before `synced`, in the same file. Recovery never truncates below it.
    pub whole: u64,
    pub clean: bool,
}

impl State {
    /// Durable up to `synced`, the end of a transaction.
    pub(crate) fn at(synced: RelayPosition, clean: bool) -> State {
        State { synced, whole: synced.offset, clean }
    }

    pub(crate) fn encode(self) -> String {
        let clean = if self.clean { "yes" } else { "no" };
        let text = format!(
            "{FIRST_LINE}\nfile {}\nsynced {}\nwhole {}\nclean {clean}\n",
            file_name(self.synced.file_number),
            self.synced.offset,
            self.whole,
        );
        let crc = crc32fast::hash(text.as_bytes());
        format!("{text}crc32 {crc:08x}\n")
    }

    fn decode(text: &str) -> Option<State> {
        let mut lines = text.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let name = lines.next()?.strip_prefix("file ")?;
        let file_number = if name == file_name(0) { 0 } else { file_number(name)? };
        let offset = lines.next()?.strip_prefix("synced ")?.parse().ok()?;
        let whole = lines.next()?.strip_prefix("whole ")?.parse().ok()?;
        let clean = match lines.next()?.strip_prefix("clean ")? {
            "yes" => true,
            "no" => false,
            _ => return None,
        };
        let state = State { synced: RelayPosition { file_number, offset }, whole, clean };
        // The checksum and everything else must be exactly what we would write.
        (state.encode() == text).then_some(state)
    }

    /// None if the file is absent or incomplete.
    pub(crate) fn read(dir: &Path) -> Result<Option<State>, RelayError> {
        let path = dir.join(NAME);
        match fs::read(&path) {
            Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(State::decode)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(RelayError::io("read", &path, &e)),
        }
    }
}

/// The state file, which the writer and the sync thread write in turn.
#[derive(Debug)]
pub(crate) struct StateFile {
    disk: RelayFs,
    dir: PathBuf,
    path: PathBuf,
    last: Option<State>,
    /// True if the folder was synced after the file got its name.
    durable: bool,
}

impl StateFile {
    pub(crate) fn new(disk: &RelayFs, dir: &Path, last: Option<State>) -> StateFile {
        StateFile { disk: disk.clone(), dir: dir.to_path_buf(), path: dir.join(NAME), last, durable: last.is_some() }
    }

    pub(crate) fn write(&mut self, state: State) -> Result<(), RelayError> {
        if self.last == Some(state) {
            return Ok(());
        }
        self.disk.replace(&self.path, state.encode().as_bytes())?;
        (self.last, self.durable) = (Some(state), false);
        Ok(())
    }

    /// As [`write`](Self::write), but a power cut cannot bring back an older state file afterwards.
    pub(crate) fn write_durably(&mut self, state: State) -> Result<(), RelayError> {
        self.write(state)?;
        if !self.durable {
            self.disk.sync_folder(&self.dir)?;
            self.durable = true;
        }
        Ok(())
    }

    /// Stops claiming bytes after `position`, the end of a transaction, before they are truncated.
    pub(crate) fn lower(&mut self, position: RelayPosition) -> Result<(), RelayError> {
        match self.last {
            Some(last) if last.synced > position => self.write_durably(State::at(position, false)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_round_trips_and_any_change_is_noticed() {
        for file_number in [0, 3] {
            let state = State { synced: RelayPosition { file_number, offset: 77 }, whole: 70, clean: true };
            let text = state.encode();
            assert_eq!(State::decode(&text), Some(state));
            for at in 0..text.len() {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1;
                assert_eq!(std::str::from_utf8(&bytes).ok().and_then(State::decode), None);
                assert_eq!(State::decode(&text[..at]), None);
            }
        }
    }
}
