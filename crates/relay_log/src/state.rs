//! `relay-log.state`: up to where the log is known to be durable, and whether it was closed cleanly.
//!
//! ```text
//! slipstream relay log state 1
//! file relay-bin.000003
//! synced 1048576
//! whole 1048000
//! clean no
//! crc32 1c291ca3
//! ```
//! Absent, or not exactly of this form: nothing is known. It may be behind the truth (it is written at most every
//! 50 ms, and its name is made durable only where that matters), never ahead of it: it is lowered, durably, before a
//! file is cut below it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::names::{file_name, file_number, replace, sync_dir};
use crate::{RelayError, RelayPosition};

const NAME: &str = "relay-log.state";
const FIRST_LINE: &str = "slipstream relay log state 1";

/// What the state file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// All before it is durable; always the end of an event.
    pub synced: RelayPosition,
    /// In the same file: the end of the last whole transaction before `synced`. Recovery never cuts below it.
    pub whole: u64,
    pub clean: bool,
}

impl State {
    /// Durable up to the end of a transaction.
    pub(crate) fn at(synced: RelayPosition, clean: bool) -> State {
        State { synced, whole: synced.offset, clean }
    }

    fn encode(self) -> String {
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
        // The checksum and everything else must be what we would write.
        (state.encode() == text).then_some(state)
    }

    /// None when the file is absent or not whole.
    pub(crate) fn read(dir: &Path) -> Result<Option<State>, RelayError> {
        let path = dir.join(NAME);
        match fs::read(&path) {
            Ok(bytes) => Ok(std::str::from_utf8(&bytes).ok().and_then(State::decode)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(RelayError::io("read", &path, &e)),
        }
    }
}

/// The state file as the writer and the sync thread write it, one at a time.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    last: Option<State>,
    /// `last` may be gone after a power loss, and an older state there.
    unsynced_name: bool,
}

impl StateFile {
    pub(crate) fn new(dir: &Path, last: Option<State>) -> StateFile {
        StateFile { path: dir.join(NAME), last, unsynced_name: true }
    }

    pub(crate) fn write(&mut self, state: State) -> Result<(), RelayError> {
        if self.last == Some(state) {
            return Ok(());
        }
        replace(&self.path, state.encode().as_bytes())?;
        self.last = Some(state);
        self.unsynced_name = true;
        Ok(())
    }

    /// The same, and durable when it returns.
    pub(crate) fn write_durably(&mut self, state: State) -> Result<(), RelayError> {
        self.write(state)?;
        if self.unsynced_name
            && let Some(dir) = self.path.parent()
        {
            sync_dir(dir)?;
            self.unsynced_name = false;
        }
        Ok(())
    }

    /// Takes back what is said about bytes behind `position`, the end of a transaction, before they are cut off.
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
