//! The archive of a backup: a tar stream that ends with the checksums of everything in it.
//!
//! In: names, contents, and a writer that may stall; or the bytes of an archive. Out: the archive; or its members, each
//! named with what is wrong. Never here: which files a backup has, a member that counts before all checksums were
//! compared.
//!
//! `tar` unpacks it, and `sha256sum -c SHA256SUMS` checks what was unpacked. docs/formats.md describes the members.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

use crate::exit::{Exit, Failure};

/// The last member: a line for each of the others.
pub(crate) const SUMS: &str = "SHA256SUMS";
/// Begins the last line of [`SUMS`], which has the checksum of the lines before.
const SUMS_END: &str = "# the lines above: ";
/// Largest accepted [`SUMS`], in bytes: a line takes about 90.
const SUMS_BYTES_MAX: u64 = 256 << 20;
/// Most zeros after an archive, in bytes: programs that copy tar archives fill the last record.
const ZEROS_MAX: u64 = 1 << 20;
/// Size of a tar block, in bytes.
const BLOCK: u64 = 512;
/// Size of the buffer for contents, in bytes.
const BUFFER: usize = 256 << 10;
/// Interval at which a writer looks whether it must end.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Where a backup goes, and when it ends without being complete.
pub(crate) struct Output<'a> {
    /// May return `WouldBlock`: nothing was taken yet.
    pub out: &'a mut dyn Write,
    /// Time without a byte taken after which the reader counts as stalled.
    pub stalled_after: Duration,
    /// Asked several times a second: an error ends the backup.
    pub check: &'a dyn Fn() -> Result<(), Failure>,
    /// Counts the bytes taken.
    pub written: &'a AtomicU64,
}

pub(crate) struct ArchiveWriter<'a> {
    output: Output<'a>,
    /// When a byte was last taken, and `check` last asked.
    moved: Instant,
    checked: Instant,
    sums: String,
    /// Modification time of the members, seconds since 1970.
    time: u64,
    bytes: u64,
}

impl<'a> ArchiveWriter<'a> {
    /// Begins an archive at this time (seconds since 1970).
    pub(crate) fn new(output: Output<'a>, time: u64) -> ArchiveWriter<'a> {
        let now = Instant::now();
        ArchiveWriter { output, moved: now, checked: now, sums: String::new(), time, bytes: 0 }
    }

    /// Adds a small member.
    ///
    /// # Errors
    /// The writer stalls or fails, or `check` fails.
    pub(crate) fn add(&mut self, name: &str, content: &[u8]) -> Result<(), Failure> {
        self.begin(name, content.len() as u64)?;
        self.put(content)?;
        self.sum(name, &Sha256::digest(content));
        self.pad(content.len() as u64)
    }

    /// Adds the first `len` bytes of a file; `seen` gets them too.
    ///
    /// # Errors
    /// As [`add`](Self::add); the file ends before, or cannot be read.
    pub(crate) fn add_file(
        &mut self,
        name: &str,
        path: &Path,
        len: u64,
        seen: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Failure> {
        let failed = |error: io::Error| Failure::io(path.display(), &error);
        let mut content = File::open(path).map_err(failed)?.take(len);
        self.begin(name, len)?;
        let (mut hash, mut buffer, mut left) = (Sha256::new(), vec![0; BUFFER], len);
        while left > 0 {
            let read = match content.read(&mut buffer) {
                Ok(0) => {
                    let text = format!("{} ends {left} bytes too early", path.display());
                    return Err(Failure::new(Exit::Corrupt, text));
                }
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            let bytes = buffer.get(..read).unwrap_or_default();
            hash.update(bytes);
            seen(bytes);
            self.put(bytes)?;
            left -= read as u64;
        }
        self.sum(name, &hash.finalize());
        self.pad(len)
    }

    /// Completes the archive with the checksums. Returns its size in bytes.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub(crate) fn finish(mut self) -> Result<u64, Failure> {
        let mut sums = std::mem::take(&mut self.sums);
        let end = hex(&Sha256::digest(sums.as_bytes()));
        let _ = writeln!(sums, "{SUMS_END}{end}");
        self.begin(SUMS, sums.len() as u64)?;
        self.put(sums.as_bytes())?;
        self.pad(sums.len() as u64)?;
        self.put(&[0; 2 * BLOCK as usize])?;
        loop {
            match self.output.out.flush() {
                Ok(()) => return Ok(self.bytes),
                Err(error) => self.after(&error)?,
            }
        }
    }

    fn begin(&mut self, name: &str, len: u64) -> Result<(), Failure> {
        let mut header = Header::new_ustar();
        header.set_path(name).map_err(|error| Failure::error(format!("{name}: {error}")))?;
        header.set_entry_type(EntryType::Regular);
        header.set_mode(0o600);
        header.set_mtime(self.time);
        header.set_size(len);
        header.set_cksum();
        self.put(header.as_bytes())
    }

    fn pad(&mut self, len: u64) -> Result<(), Failure> {
        let zeros = len.next_multiple_of(BLOCK) - len;
        self.put([0; BLOCK as usize].get(..usize::try_from(zeros).unwrap_or(0)).unwrap_or_default())
    }

    fn sum(&mut self, name: &str, digest: &[u8]) {
        let _ = writeln!(self.sums, "{}  {name}", hex(digest));
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        while !bytes.is_empty() {
            match self.output.out.write(bytes) {
                Ok(0) => return Err(Failure::output(&ErrorKind::WriteZero.into())),
                Ok(taken) => {
                    self.moved = Instant::now();
                    self.bytes += taken as u64;
                    self.output.written.store(self.bytes, Ordering::Relaxed);
                    bytes = bytes.get(taken..).unwrap_or_default();
                }
                Err(error) => self.after(&error)?,
            }
            self.look()?;
        }
        Ok(())
    }

    /// What an error of the writer means: try again, or why the backup ends.
    fn after(&mut self, error: &io::Error) -> Result<(), Failure> {
        match error.kind() {
            ErrorKind::Interrupted => Ok(()),
            ErrorKind::WouldBlock | ErrorKind::TimedOut if self.moved.elapsed() < self.output.stalled_after => {
                self.look()
            }
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(Failure::error(format!(
                "nobody has read the backup for {} s (--stalled-after); it was abandoned",
                self.output.stalled_after.as_secs_f64()
            ))),
            _ => Err(Failure::output(error)),
        }
    }

    fn look(&mut self) -> Result<(), Failure> {
        if self.checked.elapsed() < CHECK_EVERY {
            return Ok(());
        }
        self.checked = Instant::now();
        (self.output.check)()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Reads a member while its checksum is computed.
struct Summed<'a, R: Read> {
    inner: &'a mut R,
    hash: Sha256,
    /// Bytes that are still to come.
    left: u64,
}

impl<R: Read> Read for Summed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if read == 0 && self.left > 0 && !buffer.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.hash.update(buffer.get(..read).unwrap_or_default());
        self.left = self.left.saturating_sub(read as u64);
        Ok(read)
    }
}

/// Reads an archive: hands each member to `place`, which reads it to its end, and then compares all checksums.
///
/// # Errors
/// Code 7 with the name of the member that is damaged, missing, unknown, or in which the archive ends; `place`'s own.
/// What `place` got does not count then.
pub(crate) fn read(
    from: &mut dyn Read,
    place: &mut dyn FnMut(&str, &mut dyn Read) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut archive = tar::Archive::new(from);
    let mut found = BTreeMap::new();
    let mut last = "its beginning".to_owned();
    let mut sums = None;
    // Raw: as a part of another entry a long name would be read into memory, however long it is. No backup has one.
    let entries = archive.entries().map_err(|error| not_one(&error.to_string()))?.raw(true);
    for entry in entries {
        let mut entry = entry.map_err(|error| damaged_after(&last, &error))?;
        let name = entry.path_bytes().into_owned();
        let name = String::from_utf8(name).map_err(|_| not_one("a name that is no text"))?;
        if entry.header().entry_type() != EntryType::Regular {
            return Err(unknown(&name, "it is not a file"));
        }
        if sums.is_some() {
            return Err(unknown(&name, &format!("it comes after {SUMS}")));
        }
        let len = entry.size();
        if name == SUMS {
            let mut text = String::new();
            let read = (&mut entry).take(SUMS_BYTES_MAX).read_to_string(&mut text);
            match read {
                Ok(read) if read as u64 == len => sums = Some(text),
                Ok(_) => return Err(cut_off(SUMS)),
                Err(error) => return Err(damaged(SUMS, &error.to_string())),
            }
            continue;
        }
        let mut content = Summed { inner: &mut entry, hash: Sha256::new(), left: len };
        place(&name, &mut content)?;
        if content.left > 0 {
            return Err(damaged(&name, "it is longer than its content"));
        }
        let hash = hex(&content.hash.finalize());
        if found.insert(name.clone(), hash).is_some() {
            return Err(unknown(&name, "it is there twice"));
        }
        last = name;
    }
    let Some(sums) = sums else {
        if found.is_empty() {
            return Err(not_one("it has no members"));
        }
        return Err(Failure::new(
            Exit::Corrupt,
            format!("the backup is incomplete: it ends after {last}, without {SUMS}"),
        ));
    };
    nothing_follows(archive.into_inner())?;
    compare(&found, &sums)
}

/// What follows the archive was never compared with anything: another archive, or what somebody hides there.
fn nothing_follows(rest: &mut dyn Read) -> Result<(), Failure> {
    let (mut buffer, mut zeros) = (vec![0; BUFFER], 0);
    loop {
        let read = match rest.read(&mut buffer) {
            Ok(read) => buffer.get(..read).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(damaged_after(SUMS, &error)),
        };
        zeros += read.len() as u64;
        if read.iter().any(|byte| *byte != 0) || zeros > ZEROS_MAX {
            return Err(Failure::new(Exit::Corrupt, format!("the backup ends after {SUMS}, and more bytes follow it"))
                .with_hint("restore the file that slipstream backup wrote, without what was appended to it"));
        }
        if read.is_empty() {
            return Ok(());
        }
    }
}

/// Compares checksums with those of the last member.
fn compare(found: &BTreeMap<String, String>, sums: &str) -> Result<(), Failure> {
    let end = sums.rfind(SUMS_END).ok_or_else(|| damaged(SUMS, "its last line is missing"))?;
    let (lines, end) = sums.split_at(end);
    let own = hex(&Sha256::digest(lines.as_bytes()));
    if end.strip_prefix(SUMS_END).and_then(|end| end.strip_suffix('\n')) != Some(own.as_str()) {
        return Err(damaged(SUMS, "its checksum does not match"));
    }
    let mut listed = BTreeSet::new();
    for line in lines.lines() {
        let (hash, name) = line.split_once("  ").ok_or_else(|| damaged(SUMS, "a malformed line"))?;
        match found.get(name) {
            None => return Err(Failure::new(Exit::Corrupt, format!("{name} is missing in the backup"))),
            Some(found) if found == hash => listed.insert(name),
            Some(_) => return Err(damaged(name, "its checksum does not match")),
        };
    }
    match found.keys().find(|name| !listed.contains(name.as_str())) {
        Some(name) => Err(unknown(name, &format!("{SUMS} does not list it"))),
        None => Ok(()),
    }
}

fn not_one(reason: &str) -> Failure {
    Failure::new(Exit::Corrupt, format!("this is not a backup that slipstream backup wrote: {reason}"))
        .with_hint("a compressed one is unpacked first: zstd -dc FILE | slipstream restore-folder --from - --data DIR")
}

/// A member that no backup of this program has.
pub(crate) fn unknown(name: &str, reason: &str) -> Failure {
    Failure::new(Exit::Corrupt, format!("{} does not belong into a backup: {reason}", name.escape_debug()))
}

fn damaged(name: &str, reason: &str) -> Failure {
    Failure::new(Exit::Corrupt, format!("{name} in the backup is damaged: {reason}"))
}

/// The archive ends in a member.
pub(crate) fn cut_off(name: &str) -> Failure {
    Failure::new(Exit::Corrupt, format!("the backup is incomplete: it ends in {name}"))
}

fn damaged_after(last: &str, error: &io::Error) -> Failure {
    let text = error.to_string();
    if text.contains("entire block") || error.kind() == ErrorKind::UnexpectedEof {
        return Failure::new(Exit::Corrupt, format!("the backup is incomplete: it ends after {last}"));
    }
    Failure::new(Exit::Corrupt, format!("the backup is damaged after {last}: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let output =
            Output { out: &mut out, stalled_after: Duration::ZERO, check: &|| Ok(()), written: &AtomicU64::new(0) };
        let mut archive = ArchiveWriter::new(output, 1_700_000_000);
        for (name, content) in members {
            archive.add(name, content).unwrap();
        }
        let bytes = archive.finish().unwrap();
        assert_eq!(bytes, out.len() as u64);
        out
    }

    fn all(mut bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let mut members = Vec::new();
        read(&mut bytes, &mut |name, content| {
            let mut all = Vec::new();
            content.read_to_end(&mut all).map_err(|_| cut_off(name))?;
            members.push((name.to_owned(), all));
            Ok(())
        })?;
        Ok(members)
    }

    const MEMBERS: &[(&str, &[u8])] = &[("one", b"first"), ("two/2", &[7; 1500]), ("empty", b"")];

    #[test]
    fn what_is_written_is_read() {
        let read = all(&written(MEMBERS)).unwrap();
        let expected: Vec<_> = MEMBERS.iter().map(|(name, content)| ((*name).to_owned(), content.to_vec())).collect();
        assert_eq!(read, expected);
    }

    /// Every byte, but padding that nothing depends on; every length.
    #[test]
    fn a_changed_or_torn_archive_is_refused() {
        let whole = written(MEMBERS);
        let intact = all(&whole).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x10;
            match all(&changed) {
                Err(failure) => assert_eq!(failure.exit, Exit::Corrupt, "byte {at}: {}", failure.text),
                Ok(members) => assert_eq!(members, intact, "byte {at}"),
            }
        }
        // The last two blocks only say that nothing follows.
        for len in 0..whole.len() - 1024 {
            let failure = all(&whole[..len]).expect_err("torn");
            assert_eq!(failure.exit, Exit::Corrupt, "{len} bytes: {}", failure.text);
        }
        assert!(all(&whole[..512 + 3]).unwrap_err().text.contains("ends in one"));
        assert!(all(&whole[..1024]).unwrap_err().text.contains("ends after one"));
        let mut changed = whole;
        changed[512] ^= 1;
        assert!(all(&changed).unwrap_err().text.contains("one in the backup is damaged"));
    }

    #[test]
    fn a_member_more_or_less_is_named() {
        let sums = |bytes: &[u8]| {
            let at = bytes.windows(SUMS.len()).position(|part| part == SUMS.as_bytes()).unwrap();
            bytes[at..].to_vec()
        };
        let (two, three) = (written(&MEMBERS[..2]), written(MEMBERS));
        // The members of one, the checksums of the other.
        let body = |bytes: &[u8]| bytes[..bytes.len() - sums(bytes).len()].to_vec();
        let failure = all(&[body(&two), sums(&three)].concat()).unwrap_err();
        assert_eq!(failure.text, "empty is missing in the backup");
        let failure = all(&[body(&three), sums(&two)].concat()).unwrap_err();
        assert!(failure.text.starts_with("empty does not belong into a backup"), "{}", failure.text);
        let failure = all(&[body(&three), body(&three)].concat()).unwrap_err();
        assert!(failure.text.contains("twice"), "{}", failure.text);
        assert!(all(b"").unwrap_err().text.contains("not a backup"));
        // After its end: a second archive, a byte, zeros.
        for more in [three.clone(), b"x".to_vec(), [&[0; 5000][..], b"x"].concat(), vec![0; 2 << 20]] {
            let failure = all(&[three.clone(), more].concat()).unwrap_err();
            assert!(failure.exit == Exit::Corrupt && failure.text.contains("more bytes follow"), "{}", failure.text);
        }
        assert!(all(&[three.clone(), vec![0; 9 << 10]].concat()).is_ok());
        assert!(all(&[0x28; 4096]).unwrap_err().text.contains("damaged after its beginning"));
    }

    /// Counts what is read of an endless archive.
    struct Endless {
        head: io::Cursor<Vec<u8>>,
        read: usize,
    }

    impl Read for Endless {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = match self.head.read(buffer)? {
                0 => {
                    buffer.fill(b'x');
                    buffer.len()
                }
                read => read,
            };
            self.read += read;
            Ok(read)
        }
    }

    #[test]
    fn a_name_without_end_is_not_read() {
        for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader, EntryType::XGlobalHeader] {
            let mut header = Header::new_gnu();
            header.set_path("././@LongLink").unwrap();
            header.set_entry_type(kind);
            header.set_size(700 << 20);
            header.set_cksum();
            let mut from = Endless { head: io::Cursor::new(header.as_bytes().to_vec()), read: 0 };
            let failure = read(&mut from, &mut |_, _| Ok(())).unwrap_err();
            assert!(failure.exit == Exit::Corrupt && failure.text.contains("not a file"), "{}", failure.text);
            assert!(from.read < 1 << 20, "{} bytes were read", from.read);
        }
    }

    /// A reader that takes a few bytes, and then nothing.
    struct Stalling(usize);

    impl Write for Stalling {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stalls_ends_it_and_so_does_a_check() {
        let mut out = Stalling(700);
        let output = Output {
            out: &mut out,
            stalled_after: Duration::from_millis(1),
            check: &|| Ok(()),
            written: &AtomicU64::new(0),
        };
        let failure = ArchiveWriter::new(output, 0).add("name", &[1; 5000]).unwrap_err();
        assert!(failure.text.contains("nobody has read the backup for 0.001 s"), "{}", failure.text);
        let mut out = Stalling(700);
        let check = || Err(Failure::error("the disk"));
        let output = Output {
            out: &mut out,
            stalled_after: Duration::from_secs(3600),
            check: &check,
            written: &AtomicU64::new(0),
        };
        assert_eq!(ArchiveWriter::new(output, 0).add("name", &[1; 5000]).unwrap_err().text, "the disk");
    }
}
