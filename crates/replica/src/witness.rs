//! `source-last`: what the newest received transaction looks like at the source, so that a later connection can tell
//! whether the source's history is still the one that this replica follows.
//!
//! ```text
//! server_uuid=3e11fa47-71ca-11e1-9e33-c80aa9429562
//! file=binlog.000003
//! offset=1234
//! event=a1b2...
//! ```
//! Any transaction of this replica's will do: the file lags by some seconds while transactions arrive.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use source::history::PastEvent;

use crate::exit::{Exit, Failure};
use crate::folder::{read_small, removal, write_atomically};

const FILE: &str = "source-last";

/// A past event and the server_uuid of the source that sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Witness {
    pub server_uuid: String,
    pub event: PastEvent,
}

pub(crate) struct WitnessFile {
    path: PathBuf,
    /// What it has; locked while it is written.
    kept: Mutex<Option<Witness>>,
}

impl WitnessFile {
    /// The file of a data folder. A damaged one must not count as none: a source with another history would then pass
    /// unnoticed.
    ///
    /// # Errors
    /// Code 7 if the file is damaged; 8 for disk errors.
    pub(crate) fn open(data: &Path) -> Result<WitnessFile, Failure> {
        let path = data.join(FILE);
        let kept = match read_small(&path)? {
            Some(text) => Some(decode(&text).ok_or_else(|| damaged(&path))?),
            None => None,
        };
        Ok(WitnessFile { path, kept: Mutex::new(kept) })
    }

    /// What the file has.
    #[must_use]
    pub(crate) fn kept(&self) -> Option<Witness> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stores a witness durably, if it is another one.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub(crate) fn keep(&self, witness: Witness) -> Result<(), Failure> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref() != Some(&witness) {
            write_atomically(&self.path, encode(&witness).as_bytes())?;
            *kept = Some(witness);
        }
        Ok(())
    }
}

fn damaged(path: &Path) -> Failure {
    let text = format!("{}: not the received transaction that Slipstream keeps there", path.display());
    let then =
        "the source's history is then not checked at the next start: slipstream verify tells whether rows differ";
    Failure::new(Exit::Corrupt, text).with_hint(removal(path, then))
}

fn encode(witness: &Witness) -> String {
    let PastEvent { file, offset, bytes } = &witness.event;
    let mut text = format!("server_uuid={}\nfile={file}\noffset={offset}\nevent=", witness.server_uuid);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    text
}

fn decode(text: &str) -> Option<Witness> {
    let value = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    let digits = value("event")?.as_bytes();
    let bytes = digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    let event = PastEvent {
        file: value("file")?.to_owned(),
        offset: value("offset")?.parse().ok()?,
        bytes: bytes.collect::<Option<_>>()?,
    };
    Some(Witness { server_uuid: value("server_uuid")?.to_owned(), event })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let event = PastEvent { file: "b.000001".into(), offset: 1 << 33, bytes: vec![0, 171, 255] };
        let witness = Witness { server_uuid: "u".into(), event };
        let file = WitnessFile::open(dir.path()).unwrap();
        assert_eq!(file.kept(), None);
        file.keep(witness.clone()).unwrap();
        assert_eq!(WitnessFile::open(dir.path()).unwrap().kept(), Some(witness));
        for text in ["", "file=x\n", "server_uuid=u\nfile=b\noffset=1\nevent=0g\n"] {
            assert_eq!(decode(text), None, "{text}");
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let Err(failure) = WitnessFile::open(dir.path()) else { panic!("{text} is taken") };
            assert_eq!(failure.exit, Exit::Corrupt);
            assert!(failure.text.contains("/source-last: ") && failure.hint.unwrap().contains("verify"), "{text}");
        }
    }
}
