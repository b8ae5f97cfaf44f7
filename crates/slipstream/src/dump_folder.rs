//! `slipstream dump --to FOLDER`: the files of a dump in parts.
//!
//! In: the stream of a dump in parts. Out: the folder under its name once all its files are whole and durable. Never
//! here: what a dump consists of; a folder under its final name that is not whole, or one that was there before.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

use base::own_files::OpenFolder;
use compare::{DumpContents, MANIFEST, PartEvent, PartStream};
use observe::bytes_text;
use observe::fail_point::{self, Phase};
use replica::{Exit, Failure};
use rustix::fs::{FlockOperation, flock};

use crate::backup::Place;

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
    let dumped = folder.failure.take().map_or(dumped, Err);
    if dumped.as_ref().is_err_and(|failure| failure.exit != Exit::DefinitionsLeftOut) {
        return dumped;
    }
    let contents = folder.keep()?;
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
    told.map_err(|error| Failure::output(&error))?;
    dumped
}

/// A folder that gets its name once it is whole. It is removed when it is dropped before.
struct Unfinished {
    place: Place,
    /// All its names are looked up here, wherever somebody moves it.
    folder: OpenFolder,
    _mark: File,
    stream: PartStream,
    open: HashMap<u32, (OsString, File)>,
    has_manifest: bool,
    /// Why a write failed, with the file's path.
    failure: Option<Failure>,
    kept: bool,
}

impl Unfinished {
    fn open(to: &Path) -> Result<Unfinished, Failure> {
        let place = Place::of(to, "folder")?;
        let not_ours = |error: io::Error| place.not_ours(&error);
        let (folder, mark) = match place.above.create_folder(&place.part) {
            Ok(folder) => {
                let mark = folder.create(OsStr::new(MARK), 0o600);
                (folder, mark)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let folder = place.above.reopen_folder(&place.part).map_err(not_ours)?;
                let mark = folder.reopen(OsStr::new(MARK));
                (folder, mark)
            }
            Err(error) => return Err(not_ours(error)),
        };
        let mark = mark.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::usage(format!("{} exists and is not an unfinished dump", place.shown()))
                    .with_hint("remove it, or name another folder with --to")
            }
            _ => place.not_ours(&error),
        })?;
        // What a killed dump left is removed, what a running one writes is not.
        if flock(&mark, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(Failure::error(format!("{}: another dump writes it", place.shown())));
        }
        remove_all_but(&folder, MARK).map_err(|error| Failure::io(place.shown(), &error))?;
        Ok(Unfinished {
            place,
            folder,
            _mark: mark,
            stream: PartStream::default(),
            open: HashMap::new(),
            has_manifest: false,
            failure: None,
            kept: false,
        })
    }

    fn keep(mut self) -> Result<DumpContents, Failure> {
        if !self.has_manifest || !self.open.is_empty() {
            return Err(Failure::error("the dump ended before it was complete"));
        }
        let path = self.place.to.join(MANIFEST);
        let failed = |error: io::Error| Failure::io(path.display(), &error);
        let manifest = self.folder.reopen(OsStr::new(MANIFEST)).map_err(failed)?;
        let contents: DumpContents = serde_json::from_reader(io::BufReader::new(manifest))
            .map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
        let failed = |error: io::Error| Failure::io(self.place.shown(), &error);
        self.folder.remove(OsStr::new(MARK)).and_then(|()| self.folder.sync()).map_err(failed)?;
        self.place.keep(&self.folder, "folder")?;
        self.kept = true;
        self.place.sync()?;
        Ok(contents)
    }
}

/// Removes all files but this one.
fn remove_all_but(folder: &OpenFolder, kept: &str) -> io::Result<()> {
    folder.names()?.iter().filter(|name| *name != kept).try_for_each(|name| folder.remove(name))
}

/// Carries out a step of the stream.
fn write_event(
    (place, folder): (&Place, &OpenFolder),
    open: &mut HashMap<u32, (OsString, File)>,
    has_manifest: &mut bool,
    event: &PartEvent<'_>,
) -> Result<(), Failure> {
    let failed = |name: &OsStr, error: io::Error| Failure::io(format!("{}/{}", place.shown(), name.display()), &error);
    let part_of = |part: &u32| Failure::error(format!("a dump in parts: part {part} is not open"));
    match event {
        PartEvent::Begin { part, name } => {
            let is_name = !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\0']);
            if !is_name {
                return Err(Failure::error(format!("a dump in parts: {name:?} is no file's name")));
            }
            let name = OsString::from(name);
            let file = folder.create(&name, 0o600).map_err(|error| failed(&name, error))?;
            open.insert(*part, (name, file));
        }
        PartEvent::More { part, bytes } => {
            fail_point::enter(Phase::Save);
            let (name, file) = open.get_mut(part).ok_or_else(|| part_of(part))?;
            file.write_all(bytes).map_err(|error| failed(name, error))?;
        }
        PartEvent::End { part } => {
            let (name, file) = open.remove(part).ok_or_else(|| part_of(part))?;
            file.sync_all().map_err(|error| failed(&name, error))?;
            *has_manifest |= name == MANIFEST;
        }
    }
    Ok(())
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Unfinished { place, folder, stream, open, has_manifest, failure, .. } = self;
        if let Some(why) = failure {
            return Err(io::Error::other(why.text.clone()));
        }
        let mut each = |event: PartEvent<'_>| {
            write_event((place, folder), open, has_manifest, &event).map_err(|why| {
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
            let _ = remove_all_but(&self.folder, MARK).and_then(|()| self.folder.remove(OsStr::new(MARK)));
            if self.place.above.is(&self.place.part, &self.folder).unwrap_or(false) {
                let _ = self.place.above.remove_folder(&self.place.part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        assert!(tried(&[]).contains("before it was complete"));
        assert!(tried(&record(1, 0, MANIFEST.as_bytes())).contains("before it was complete"));

        OpenFolder::open(folder.path()).unwrap().create_folder(OsStr::new("dump.part")).unwrap();
        fs::write(folder.path().join("dump.part/mine"), "x").unwrap();
        let failure = dump_to(&to, |_| Ok(()), &mut io::sink()).unwrap_err();
        assert!(failure.text.contains("not an unfinished dump"), "{failure}");
        assert!(folder.path().join("dump.part/mine").exists());
    }
}
