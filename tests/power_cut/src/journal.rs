//! Journal of a traced process: every change of the traced folder, in order, with what it takes to undo it.
//!
//! In: operations (from the shim), a journal's bytes (from the model). Out: bytes, records. Never here: file contents,
//! except bytes that an operation overwrites or cuts off, so that appending to a large file costs a few bytes.
//!
//! A change is recorded before it is made ([`Record::Begin`]) and after ([`Record::End`]). The process makes one change
//! at a time, so at most the last one lacks its end. Syncs run in parallel with others: a sync covers what had ended
//! when it began, and counts once it has ended.

use std::path::Path;
use std::{fs, io};

/// Names the folder whose files are traced.
pub const ROOT_VARIABLE: &str = "SLIPSTREAM_POWER_CUT_ROOT";
/// Names the folder with the journal and a link to every traced file's content.
pub const SHADOW_VARIABLE: &str = "SLIPSTREAM_POWER_CUT_SHADOW";
/// Syncs that are reported as done and not done: see [`skips`].
pub const SKIP_VARIABLE: &str = "SLIPSTREAM_POWER_CUT_SKIP";
/// Calls that fail, and where the process dies: see [`Plan`].
pub const PLAN_VARIABLE: &str = "SLIPSTREAM_POWER_CUT_PLAN";
/// Journal's name in the shadow folder.
pub const JOURNAL_FILE: &str = "journal";
/// In the shadow folder: hard links to all traced files, named by inode number. They keep unlinked files, and keep
/// inode numbers from being reused.
pub const LINKS_FOLDER: &str = "inodes";

/// One change, or one sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new, empty file.
    Create {
        /// Inode number of its folder.
        folder: u64,
        /// Its name there.
        name: Vec<u8>,
    },
    /// A new folder.
    MakeFolder {
        /// Inode number of the folder it is in.
        folder: u64,
        /// Its name there.
        name: Vec<u8>,
    },
    /// A name of the folder moved to another name of the same folder.
    Rename {
        /// Inode number of the folder.
        folder: u64,
        /// The old name.
        from: Vec<u8>,
        /// The new name, which may have belonged to another file.
        to: Vec<u8>,
    },
    /// The name of a file or empty folder removed.
    Remove {
        /// Inode number of its folder.
        folder: u64,
        /// Name removed.
        name: Vec<u8>,
    },
    /// Bytes written.
    Write {
        /// Inode number of the file.
        inode: u64,
        /// Offset of the first byte.
        offset: u64,
        /// Bytes requested.
        len: u64,
        /// Length of the file before.
        old_len: u64,
        /// Overwritten bytes, up to the old length.
        old: Vec<u8>,
    },
    /// A length set.
    SetLen {
        /// Inode number of the file.
        inode: u64,
        /// Length before.
        old_len: u64,
        /// Length requested.
        new_len: u64,
        /// The bytes cut off.
        old: Vec<u8>,
    },
    /// fsync or fdatasync of a file or folder.
    Sync {
        /// Inode number.
        inode: u64,
    },
}

/// One entry of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Present, and durable, before the process: first the traced folder itself (`folder` 0), then each folder before
    /// its content.
    Base {
        /// Inode number.
        inode: u64,
        /// Inode number of its folder; 0 for the traced folder.
        folder: u64,
        /// Its name there.
        name: Vec<u8>,
        /// A file's length; None for a folder.
        len: Option<u64>,
    },
    /// A traced process has started.
    Hello {
        /// Its process id.
        process: u64,
    },
    /// An operation is about to be made.
    Begin {
        /// Repeated in its end; numbering restarts with each process.
        id: u64,
        /// The operation itself.
        operation: Operation,
    },
    /// The operation was made, or failed.
    End {
        /// Number of its `Begin`.
        id: u64,
        /// Result of the system call: bytes written, 0 or more for success, negative for failure.
        result: i64,
        /// Inode number of what was created; otherwise 0.
        inode: u64,
    },
}

impl Record {
    /// Encodes the record: its length (u32), then its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let out = Writer(vec![0; 4]);
        let out = match self {
            Record::Base { inode, folder, name, len } => {
                let out = out.tag(0).number(*inode).number(*folder).bytes(name);
                out.number(u64::from(len.is_some())).number(len.unwrap_or(0))
            }
            Record::Hello { process } => out.tag(1).number(*process),
            Record::End { id, result, inode } => out.tag(2).number(*id).number(result.cast_unsigned()).number(*inode),
            Record::Begin { id, operation } => encode_operation(out.tag(3).number(*id), operation),
        };
        let mut bytes = out.0;
        let len = u32::try_from(bytes.len() - 4).expect("an operation of less than 4 GiB");
        bytes.splice(..4, len.to_le_bytes());
        bytes
    }
}

fn encode_operation(out: Writer, operation: &Operation) -> Writer {
    match operation {
        Operation::Create { folder, name } => out.tag(0).number(*folder).bytes(name),
        Operation::MakeFolder { folder, name } => out.tag(1).number(*folder).bytes(name),
        Operation::Rename { folder, from, to } => out.tag(2).number(*folder).bytes(from).bytes(to),
        Operation::Remove { folder, name } => out.tag(3).number(*folder).bytes(name),
        Operation::Write { inode, offset, len, old_len, old } => {
            out.tag(4).number(*inode).number(*offset).number(*len).number(*old_len).bytes(old)
        }
        Operation::SetLen { inode, old_len, new_len, old } => {
            out.tag(5).number(*inode).number(*old_len).number(*new_len).bytes(old)
        }
        Operation::Sync { inode } => out.tag(6).number(*inode),
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn tag(mut self, tag: u8) -> Writer {
        self.0.push(tag);
        self
    }

    fn number(mut self, number: u64) -> Writer {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn bytes(self, bytes: &[u8]) -> Writer {
        let mut out = self.number(bytes.len() as u64);
        out.0.extend(bytes);
        out
    }
}

/// Reads the journal of a shadow folder. A record truncated by the end of its process is left out.
///
/// # Errors
/// The file cannot be read or is not a journal.
pub fn read(shadow: &Path) -> io::Result<Vec<Record>> {
    let bytes = fs::read(shadow.join(JOURNAL_FILE))?;
    let mut records = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some((head, body)) = rest.split_first_chunk::<4>() {
        let Some((record, next)) = body.split_at_checked(u32::from_le_bytes(*head) as usize) else { break };
        records.push(decode(record).ok_or_else(|| io::Error::other("a damaged journal"))?);
        rest = next;
    }
    Ok(records)
}

fn decode(bytes: &[u8]) -> Option<Record> {
    let mut reader = Reader(bytes);
    let record = match reader.tag()? {
        0 => {
            let (inode, folder, name) = (reader.number()?, reader.number()?, reader.bytes()?);
            let (is_file, len) = (reader.number()? == 1, reader.number()?);
            Record::Base { inode, folder, name, len: is_file.then_some(len) }
        }
        1 => Record::Hello { process: reader.number()? },
        2 => Record::End { id: reader.number()?, result: reader.number()?.cast_signed(), inode: reader.number()? },
        3 => Record::Begin { id: reader.number()?, operation: decode_operation(&mut reader)? },
        _ => return None,
    };
    reader.0.is_empty().then_some(record)
}

fn decode_operation(reader: &mut Reader<'_>) -> Option<Operation> {
    Some(match reader.tag()? {
        0 => Operation::Create { folder: reader.number()?, name: reader.bytes()? },
        1 => Operation::MakeFolder { folder: reader.number()?, name: reader.bytes()? },
        2 => Operation::Rename { folder: reader.number()?, from: reader.bytes()?, to: reader.bytes()? },
        3 => Operation::Remove { folder: reader.number()?, name: reader.bytes()? },
        4 => Operation::Write {
            inode: reader.number()?,
            offset: reader.number()?,
            len: reader.number()?,
            old_len: reader.number()?,
            old: reader.bytes()?,
        },
        5 => Operation::SetLen {
            inode: reader.number()?,
            old_len: reader.number()?,
            new_len: reader.number()?,
            old: reader.bytes()?,
        },
        6 => Operation::Sync { inode: reader.number()? },
        _ => return None,
    })
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn tag(&mut self) -> Option<u8> {
        let (tag, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*tag)
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }
}

/// True if a sync is to be left out. `list` holds rules separated by `;`: an optional `fsync ` or `fdatasync `, then a
/// path relative to the traced folder in which `*` stands for any text, then an optional `@` and the last operation.
///
/// A folder's path ends with `/`. Its last operation is the name that was added last, or `-` and the name that was
/// removed. A file's last operation, as far as this process knows, is one of `new` (created by it, never synced), `own`
/// (created by it), `old` (created by an earlier one, written by this one), `cut` (its length set), `untouched`.
#[must_use]
pub fn skips(list: &str, call: &str, path: &str, last: &str) -> bool {
    list.split(';').filter(|rule| !rule.is_empty()).any(|rule| {
        let (only, rule) = rule.split_once(' ').unwrap_or((call, rule));
        let (pattern, done) = rule.split_once('@').unwrap_or((rule, "*"));
        only == call && matches(pattern, path) && matches(done, last)
    })
}

fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text
            .strip_prefix(start)
            .is_some_and(|text| (0..=text.len()).any(|at| text.get(at..).is_some_and(|text| matches(rest, text)))),
    }
}

/// Kind of call on a traced file or folder that is counted for a [`Plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// write, pwrite, writev, ftruncate.
    Write,
    /// fsync, fdatasync.
    Sync,
    /// read, pread, readv.
    Read,
    /// A name created, changed or removed.
    Name,
    /// What exists is opened.
    Open,
    /// posix_fadvise with POSIX_FADV_DONTNEED: the file is begun to be written to disk.
    Advice,
}

/// What happens instead of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// It fails with this errno and does nothing.
    Fail(i32),
    /// Half of the bytes are written, and their number is returned.
    Short,
    /// The process is killed before the call or, for a write, with half of the bytes written.
    Kill,
}

/// One rule of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Planned {
    /// None for any that may change something.
    call: Option<Call>,
    /// Number of the call, from 1, among those this rule counts in this process.
    number: u64,
    /// True for all calls from that one on, not only that one.
    on: bool,
    instead: Instead,
    seen: u64,
}

/// Calls that misbehave: `CALL:NUMBER:WHAT`, separated by `;`. CALL is `write`, `sync`, `name`, `any` of these three,
/// `read`, `open` or `advice`. NUMBER counts them from 1 in the process; a `+` after it means all from there on. WHAT
/// is `ENOSPC`, `EIO`, `short` or `kill`.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    rules: Vec<Planned>,
}

impl Plan {
    /// Parses the variable's text; None if it is not a plan.
    #[must_use]
    pub fn parse(text: &str) -> Option<Plan> {
        let rules: Option<Vec<Planned>> = text.split(';').filter(|rule| !rule.is_empty()).map(Planned::parse).collect();
        Some(Plan { rules: rules? })
    }

    /// True if a rule counts these calls alone.
    #[must_use]
    pub fn counts(&self, call: Call) -> bool {
        self.rules.iter().any(|rule| rule.call == Some(call))
    }

    /// Counts a call that is about to be made, and says what happens instead.
    pub fn take(&mut self, call: Call) -> Option<Instead> {
        let mut found = None;
        for rule in &mut self.rules {
            if rule.call.map_or(matches!(call, Call::Write | Call::Sync | Call::Name), |only| only == call) {
                rule.seen += 1;
                if rule.seen == rule.number || rule.on && rule.seen > rule.number {
                    found = found.or(Some(rule.instead));
                }
            }
        }
        found
    }
}

impl Planned {
    fn parse(text: &str) -> Option<Planned> {
        let mut parts = text.split(':');
        let call = match parts.next()? {
            "write" => Some(Call::Write),
            "sync" => Some(Call::Sync),
            "read" => Some(Call::Read),
            "name" => Some(Call::Name),
            "open" => Some(Call::Open),
            "advice" => Some(Call::Advice),
            "any" => None,
            _ => return None,
        };
        let number = parts.next()?;
        let on = number.ends_with('+');
        let number = number.trim_end_matches('+').parse().ok()?;
        let instead = match parts.next()? {
            // The same on all of Linux's architectures.
            "EIO" => Instead::Fail(5),
            "ENOSPC" => Instead::Fail(28),
            "short" => Instead::Short,
            "kill" => Instead::Kill,
            _ => return None,
        };
        parts.next().is_none().then_some(Planned { call, number, on, instead, seen: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_counts_each_kind_of_call_by_itself() {
        let mut plan = Plan::parse("write:2:short;sync:1+:EIO;any:5:kill").unwrap();
        let calls = [Call::Write, Call::Read, Call::Sync, Call::Write, Call::Sync, Call::Name, Call::Write];
        let found: Vec<_> = calls.into_iter().map(|call| plan.take(call)).collect();
        let failed = Some(Instead::Fail(5));
        assert_eq!(found, [None, None, failed, Some(Instead::Short), failed, Some(Instead::Kill), None]);
        assert_eq!(plan.take(Call::Advice), None);
        assert_eq!(Plan::parse("advice:1:kill").unwrap().take(Call::Advice), Some(Instead::Kill));
        assert_eq!(plan.take(Call::Open), None);
        assert!(!plan.counts(Call::Read));
        assert!(Plan::parse("read:1:EIO").unwrap().counts(Call::Read));
        for wrong in ["write", "write:x:EIO", "write:1:EPERM", "link:1:EIO", "write:1:EIO:2"] {
            assert!(Plan::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn records_round_trip_and_a_torn_end_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let name = b"na\xffme".to_vec();
        let operations = [
            Operation::Create { folder: 1, name: name.clone() },
            Operation::MakeFolder { folder: 2, name: vec![] },
            Operation::Rename { folder: 3, from: name.clone(), to: b"to".to_vec() },
            Operation::Remove { folder: 4, name: name.clone() },
            Operation::Write { inode: 5, offset: 6, len: 7, old_len: 8, old: vec![9; 2] },
            Operation::SetLen { inode: 5, old_len: 8, new_len: 6, old: vec![1, 2] },
            Operation::Sync { inode: u64::MAX },
        ];
        let mut records = vec![
            Record::Base { inode: 1, folder: 0, name: vec![], len: None },
            Record::Base { inode: 2, folder: 1, name, len: Some(0) },
            Record::Hello { process: 77 },
        ];
        for (id, operation) in (0..).zip(operations) {
            records.push(Record::Begin { id, operation });
            records.push(Record::End { id, result: -1, inode: 3 });
        }
        let bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        for torn in [0, 1, 5] {
            fs::write(dir.path().join(JOURNAL_FILE), &bytes[..bytes.len() - torn]).unwrap();
            assert_eq!(read(dir.path()).unwrap(), records[..records.len() - usize::from(torn > 0)]);
        }
    }

    #[test]
    fn rules_name_calls_and_paths() {
        for (rules, yes) in [
            ("data/log/a.1", true),
            ("data/log/a.*", true),
            ("*", true),
            ("d*/a*1", true),
            ("fsync data/log/*", true),
            ("fdatasync data/log/*", false),
            ("x;data/*", true),
            ("data/log/", false),
            ("data/log/a", false),
            ("", false),
        ] {
            assert_eq!(skips(rules, "fsync", "data/log/a.1", "new"), yes, "{rules}");
        }
        assert!(skips("data/log/", "fsync", "data/log/", "-a"));
        assert!(skips("data/log/@-*", "fsync", "data/log/", "-a"));
        assert!(!skips("data/log/@a", "fsync", "data/log/", "-a"));
    }
}
