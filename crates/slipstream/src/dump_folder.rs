//! `slipstream dump --to FOLDER`: the files of a dump in parts.
//!
//! In: the stream of a dump in parts. Out: the folder under its name once all its files are whole and durable. Never
//! here: what a dump consists of; a folder under its final name that is not whole, or one that was there before.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use compare::{DumpContents, MANIFEST, PartEvent, PartStream};
use observe::bytes_text;
use observe::fail_point::{self, Phase};
use replica::Failure;
use rustix::fs::{FlockOperation, flock};

use crate::backup::{part_of, refuse_existing};

/// File that marks a folder as an unfinished dump, which may be removed. Locked while the dump runs.
const MARK: &str = ".unfinished-dump";

/// Writes a dump into a folder that does not exist yet; `dump` writes its stream.
///
/// # Errors
/// Code 2 if the folder exists; code 8 if the disk is full; as `dump`.
pub(crate) fn dump_to(
    to: &Path,
    dump: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let began = Instant::now();
    let mut folder = Unfinished::open(to)?;
    let dumped = dump(&mut folder);
    // The stream's error is only that it could not be written.
    folder.failure.take().map_or(dumped, Err)?;
    let contents = folder.keep(to)?;
    let bytes: u64 = contents.files.iter().map(|file| file.bytes).sum();
    let set = if contents.gtid_executed.is_empty() { "(none)" } else { &contents.gtid_executed };
    let told = writeln!(
        out,
        "dump {}: {} tables, {} rows, {} in {} files, GTIDs {set}, in {:.1} s",
        to.display(),
        contents.tables,
        contents.rows,
        bytes_text(bytes),
        contents.files.len(),
        began.elapsed().as_secs_f64()
    );
    told.map_err(|error| Failure::output(&error))
}

/// A folder that gets its name once it is whole. It is removed when it is dropped before.
struct Unfinished {
    path: PathBuf,
    /// Holds the lock.
    _mark: File,
    stream: PartStream,
    open: HashMap<u32, (PathBuf, File)>,
    has_manifest: bool,
    /// Why a write failed, with the file's path.
    failure: Option<Failure>,
    kept: bool,
}

impl Unfinished {
    fn open(to: &Path) -> Result<Unfinished, Failure> {
        refuse_existing(to, "folder")?;
        let path = part_of(to);
        let failed = |error: io::Error| Failure::io(path.display(), &error);
        let mark = path.join(MARK);
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && !mark.exists() => {
                let text = format!("{} exists, and is no unfinished dump", path.display());
                return Err(Failure::usage(text).with_hint("remove it, or name another folder with --to"));
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => {}
        }
        let file = File::options().write(true).create(true).truncate(false).mode(0o600).open(&mark).map_err(failed)?;
        // What a killed dump left is removed, what a running one writes is not.
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::error(format!("{}: another dump writes it", path.display())));
        }
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            if entry.file_name() != MARK {
                fs::remove_file(entry.path()).map_err(|error| Failure::io(entry.path().display(), &error))?;
            }
        }
        Ok(Unfinished {
            path,
            _mark: file,
            stream: PartStream::default(),
            open: HashMap::new(),
            has_manifest: false,
            failure: None,
            kept: false,
        })
    }

    fn keep(mut self, to: &Path) -> Result<DumpContents, Failure> {
        if !self.has_manifest || !self.open.is_empty() {
            return Err(Failure::error("the dump ended before it was whole"));
        }
        let path = self.path.join(MANIFEST);
        let failed = |error: io::Error| Failure::io(path.display(), &error);
        let contents: DumpContents = serde_json::from_slice(&fs::read(&path).map_err(failed)?)
            .map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
        let failed = |error: io::Error| Failure::io(to.display(), &error);
        fs::remove_file(self.path.join(MARK)).map_err(failed)?;
        File::open(&self.path).and_then(|folder| folder.sync_all()).map_err(failed)?;
        refuse_existing(to, "folder")?;
        fs::rename(&self.path, to).map_err(failed)?;
        self.kept = true;
        let above = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(above).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(contents)
    }
}

/// Carries out a step of the stream.
fn write_event(
    folder: &Path,
    open: &mut HashMap<u32, (PathBuf, File)>,
    has_manifest: &mut bool,
    event: &PartEvent<'_>,
) -> Result<(), Failure> {
    let part_of = |part: &u32| Failure::error(format!("a dump in parts: part {part} is not open"));
    match event {
        PartEvent::Begin { part, name } => {
            let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
            if !is_name {
                return Err(Failure::error(format!("a dump in parts: {name:?} is no file's name")));
            }
            let path = folder.join(name);
            let made = File::options().write(true).create_new(true).mode(0o600).open(&path);
            let file = made.map_err(|error| Failure::io(path.display(), &error))?;
            open.insert(*part, (path, file));
        }
        PartEvent::More { part, bytes } => {
            fail_point::enter(Phase::Save);
            let (path, file) = open.get_mut(part).ok_or_else(|| part_of(part))?;
            file.write_all(bytes).map_err(|error| Failure::io(path.display(), &error))?;
        }
        PartEvent::End { part } => {
            let (path, file) = open.remove(part).ok_or_else(|| part_of(part))?;
            file.sync_all().map_err(|error| Failure::io(path.display(), &error))?;
            *has_manifest |= path.ends_with(MANIFEST);
        }
    }
    Ok(())
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Unfinished { path, stream, open, has_manifest, failure, .. } = self;
        if let Some(why) = failure {
            return Err(io::Error::other(why.text.clone()));
        }
        let mut each = |event: PartEvent<'_>| {
            write_event(path, open, has_manifest, &event).map_err(|why| {
                let text = why.text.clone();
                *failure = Some(why);
                io::Error::other(text)
            })
        };
        stream.feed(bytes, &mut each).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, part: u32, bytes: &[u8]) -> Vec<u8> {
        let length = u32::try_from(bytes.len()).unwrap();
        [&[kind][..], &part.to_le_bytes(), &length.to_le_bytes(), bytes].concat()
    }

    /// Names that lead elsewhere, parts that are not open, no list at the end, somebody else's folder.
    #[test]
    fn only_a_whole_dump_gets_its_name_and_nothing_else_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("dump");
        let tried = |bytes: &[u8]| {
            let dump = |out: &mut dyn Write| out.write_all(bytes).map_err(|error| Failure::output(&error));
            let failure = dump_to(&to, dump, &mut io::sink()).unwrap_err();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{failure}");
            failure.text
        };
        for name in ["../x", "/tmp/x", ".x", ""] {
            assert!(tried(&record(1, 0, name.as_bytes())).contains("no file's name"), "{name}");
        }
        assert!(tried(&record(2, 7, b"x")).contains("part 7 is not open"));
        assert!(tried(&[]).contains("before it was whole"));
        assert!(tried(&record(1, 0, MANIFEST.as_bytes())).contains("before it was whole"));

        fs::create_dir(folder.path().join("dump.part")).unwrap();
        fs::write(folder.path().join("dump.part/mine"), "x").unwrap();
        let failure = dump_to(&to, |_| Ok(()), &mut io::sink()).unwrap_err();
        assert!(failure.text.contains("no unfinished dump"), "{failure}");
        assert!(folder.path().join("dump.part/mine").exists());
    }
}
