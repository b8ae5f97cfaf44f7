//! Works out from the journal what is durable.
//!
//! In: the journal's records in order. Out: for each folder the durable names and the changes since, for each file the
//! changes since its last sync, with what undoes them. Never here: I/O.
//!
//! The rules are POSIX's and not those of one file system. A file's bytes and length are durable once an fsync or
//! fdatasync of that file that began after the change has ended. A name is durable (or gone for good) once an fsync of
//! its folder that began after the change has ended. Syncing a file does not make its name durable. What is not durable
//! may survive in part: each page of a file as of any moment since the sync, the length as of any moment. Of a folder's
//! changes any subset may survive that keeps the order of changes to the same name (a rename counts for both its
//! names), each whole or not at all, as on journaling file systems.

use std::collections::BTreeMap;
use std::collections::HashMap;

use base::Random;

use crate::journal::{Operation, Record};

/// Index of a file or folder in the model. Inode numbers of folders may be reused; these are not.
pub(crate) type NodeId = usize;
pub(crate) type Names = BTreeMap<Vec<u8>, NodeId>;

/// A change of a file, and what undoes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// Offset of the first byte of `old`.
    pub offset: u64,
    /// End of the written bytes; `offset` for a length set.
    pub end: u64,
    pub old_len: u64,
    pub new_len: u64,
    pub old: Vec<u8>,
}

/// A change of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameChange {
    /// Position in the journal, which orders changes of different folders.
    pub at: usize,
    /// Name removed.
    pub gone: Option<Vec<u8>>,
    /// Name added.
    pub new: Option<(Vec<u8>, NodeId)>,
}

#[derive(Debug)]
pub(crate) struct FileNode {
    pub len: u64,
    pub changes: Vec<Change>,
    /// Number of changes that are durable.
    pub synced: usize,
}

#[derive(Debug)]
pub(crate) struct FolderNode {
    pub durable: Names,
    /// Changes since `durable`.
    pub pending: Vec<NameChange>,
    pub current: Names,
    /// Number of changes made durable, so `pending[0]` is change number `synced`.
    synced: usize,
}

#[derive(Debug)]
pub(crate) enum NodeKind {
    File(FileNode),
    Folder(FolderNode),
}

#[derive(Debug)]
pub(crate) struct Node {
    pub inode: u64,
    pub kind: NodeKind,
}

/// State of the traced folder after a journal.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub nodes: Vec<Node>,
    by_inode: HashMap<u64, NodeId>,
    /// Operations of the current process that have begun, with the number of changes their node had.
    open: BTreeMap<u64, (Operation, usize)>,
    pub processes: usize,
    /// Number of successful syncs.
    pub syncs: usize,
    at: usize,
}

/// The traced folder itself.
pub(crate) const ROOT: NodeId = 0;

impl Model {
    /// Builds the model from a whole journal.
    pub(crate) fn of(records: &[Record]) -> Model {
        let mut model = Model::default();
        for record in records {
            model.take(record);
        }
        model
    }

    /// The change, with its number, that the last process had begun when it was killed, if any.
    pub(crate) fn interrupted(&self) -> Option<(u64, &Operation)> {
        let mut open = self.open.iter().filter(|(_, (operation, _))| !matches!(operation, Operation::Sync { .. }));
        let found = open.next().map(|(id, (operation, _))| (*id, operation));
        assert!(open.next().is_none(), "two changes at a time");
        found
    }

    pub(crate) fn node(&self, inode: u64) -> NodeId {
        *self.by_inode.get(&inode).unwrap_or_else(|| panic!("inode {inode} is in no record"))
    }

    pub(crate) fn folder(&self, node: NodeId) -> &FolderNode {
        match &self.nodes[node].kind {
            NodeKind::Folder(folder) => folder,
            NodeKind::File(_) => panic!("node {node} is a file"),
        }
    }

    fn folder_mut(&mut self, inode: u64) -> &mut FolderNode {
        let node = self.node(inode);
        match &mut self.nodes[node].kind {
            NodeKind::Folder(folder) => folder,
            NodeKind::File(_) => panic!("node {node} is a file"),
        }
    }

    fn file_mut(&mut self, inode: u64) -> &mut FileNode {
        let node = self.node(inode);
        match &mut self.nodes[node].kind {
            NodeKind::File(file) => file,
            NodeKind::Folder(_) => panic!("node {node} is a folder"),
        }
    }

    fn take(&mut self, record: &Record) {
        self.at += 1;
        match record {
            Record::Base { inode, folder, name, len } => {
                let node = self.add(*inode, *len);
                if *folder != 0 {
                    let parent = self.folder_mut(*folder);
                    parent.durable.insert(name.clone(), node);
                    parent.current.insert(name.clone(), node);
                }
            }
            Record::Hello { .. } => {
                assert!(self.interrupted().is_none(), "an interrupted change was not settled");
                self.open.clear();
                self.processes += 1;
            }
            Record::Begin { id, operation } => {
                let covers = match operation {
                    Operation::Sync { inode } => self.changes_of(*inode),
                    _ => 0,
                };
                self.open.insert(*id, (operation.clone(), covers));
            }
            Record::End { id, result, inode } => {
                let (operation, covers) = self.open.remove(id).unwrap_or_else(|| panic!("no begin of {id}"));
                if *result >= 0 {
                    self.carry_out(operation, *result, *inode, covers);
                }
            }
        }
    }

    fn add(&mut self, inode: u64, len: Option<u64>) -> NodeId {
        let kind = match len {
            Some(len) => NodeKind::File(FileNode { len, changes: Vec::new(), synced: 0 }),
            None => NodeKind::Folder(FolderNode {
                durable: Names::new(),
                pending: Vec::new(),
                current: Names::new(),
                synced: 0,
            }),
        };
        self.nodes.push(Node { inode, kind });
        self.by_inode.insert(inode, self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn changes_of(&self, inode: u64) -> usize {
        match &self.nodes[self.node(inode)].kind {
            NodeKind::File(file) => file.changes.len(),
            NodeKind::Folder(folder) => folder.synced + folder.pending.len(),
        }
    }

    fn carry_out(&mut self, operation: Operation, result: i64, inode: u64, covers: usize) {
        match operation {
            Operation::Create { folder, name } => {
                let node = self.add(inode, Some(0));
                self.rename(folder, None, Some((name, node)));
            }
            Operation::MakeFolder { folder, name } => {
                let node = self.add(inode, None);
                self.rename(folder, None, Some((name, node)));
            }
            Operation::Rename { folder, from, to } => {
                let current = &self.folder_mut(folder).current;
                let shown = || (String::from_utf8_lossy(&from), String::from_utf8_lossy(&to));
                let node = *current.get(&from).unwrap_or_else(|| panic!("{:?}: no such name in {current:?}", shown()));
                self.rename(folder, Some(from), Some((to, node)));
            }
            Operation::Remove { folder, name } => self.rename(folder, Some(name), None),
            Operation::Write { inode, offset, old_len, mut old, .. } => {
                let end = offset + result.cast_unsigned();
                old.truncate(usize::try_from(result).unwrap_or(0));
                self.file_mut(inode).change(Change { offset, end, old_len, new_len: old_len.max(end), old });
            }
            Operation::SetLen { inode, old_len, new_len, old } => {
                let offset = new_len.min(old_len);
                self.file_mut(inode).change(Change { offset, end: offset, old_len, new_len, old });
            }
            Operation::Sync { inode } => {
                self.syncs += 1;
                let node = self.node(inode);
                match &mut self.nodes[node].kind {
                    NodeKind::File(file) => file.synced = file.synced.max(covers),
                    NodeKind::Folder(folder) => folder.make_durable(covers),
                }
            }
        }
    }

    fn rename(&mut self, folder: u64, gone: Option<Vec<u8>>, new: Option<(Vec<u8>, NodeId)>) {
        let at = self.at;
        let folder = self.folder_mut(folder);
        let change = NameChange { at, gone, new };
        change.apply(&mut folder.current);
        folder.pending.push(change);
    }
}

impl FileNode {
    fn change(&mut self, change: Change) {
        assert_eq!(self.len, change.old_len, "a file's length changed without a record");
        self.len = change.new_len;
        self.changes.push(change);
    }

    /// Changes that are not durable.
    pub(crate) fn unsynced(&self) -> &[Change] {
        &self.changes[self.synced..]
    }
}

impl FolderNode {
    fn make_durable(&mut self, covers: usize) {
        let count = covers.saturating_sub(self.synced);
        for change in self.pending.drain(..count) {
            change.apply(&mut self.durable);
        }
        self.synced += count;
    }
}

impl NameChange {
    pub(crate) fn apply(&self, names: &mut Names) {
        if let Some(gone) = &self.gone {
            names.remove(gone);
        }
        if let Some((name, node)) = &self.new {
            names.insert(name.clone(), *node);
        }
    }

    fn names(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.gone.iter().chain(self.new.iter().map(|(name, _)| name))
    }
}

/// Which of the changes since the last sync survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Survival {
    /// Nothing.
    Nothing,
    /// All, as after a kill.
    All,
    /// Those up to some moment in between.
    Prefix,
    /// Any part of them.
    Some,
    /// For a file: its new length, and zeros.
    LengthOnly,
}

impl Survival {
    pub(crate) fn of_file(random: &mut Random) -> Survival {
        match random.below(8) {
            0 => Survival::Nothing,
            1 => Survival::All,
            2 | 3 => Survival::Prefix,
            4 => Survival::LengthOnly,
            _ => Survival::Some,
        }
    }

    pub(crate) fn of_names(random: &mut Random) -> Survival {
        match random.below(6) {
            0 => Survival::Nothing,
            1 => Survival::All,
            2 => Survival::Prefix,
            _ => Survival::Some,
        }
    }
}

/// A folder's names after the cut. With `Prefix`, changes from `until` on in the journal are lost, in all folders.
pub(crate) fn names_after(folder: &FolderNode, survival: Survival, until: usize, random: &mut Random) -> Names {
    let mut names = folder.durable.clone();
    let mut lost: Vec<&Vec<u8>> = Vec::new();
    for change in &folder.pending {
        let kept = match survival {
            Survival::Nothing | Survival::LengthOnly => false,
            Survival::All => true,
            Survival::Prefix => change.at < until,
            // Changes to one name keep their order: those after a lost one are lost.
            Survival::Some => !change.names().any(|name| lost.contains(&name)) && random.below(2) == 0,
        };
        if kept {
            change.apply(&mut names);
        } else {
            lost.extend(change.names());
        }
    }
    names
}

/// Pages are written one at a time; a page may be torn at a sector.
const PAGE: u64 = 4096;
const SECTOR: u64 = 512;

/// A file's bytes after the cut, from its bytes at the kill and the changes that are not durable.
pub(crate) fn bytes_after(now: Vec<u8>, unsynced: &[Change], survival: Survival, random: &mut Random) -> Vec<u8> {
    match survival {
        Survival::All => now,
        Survival::Nothing => undo(now, unsynced),
        Survival::Prefix => {
            let kept = random.below(unsynced.len() as u64 + 1) as usize;
            let Some((next, rest)) = unsynced[kept..].split_first() else { return now };
            // Part of the change in progress is there.
            let during = undo(now, rest);
            let done = next.offset + random.below((next.end - next.offset).max(1));
            let end = usize::try_from(done).unwrap_or(0).min(during.len());
            let part = during[usize::try_from(next.offset).unwrap_or(0).min(end)..end].to_vec();
            let mut bytes = undo(during, std::slice::from_ref(next));
            put(&mut bytes, next.offset, &part);
            bytes
        }
        Survival::LengthOnly => {
            let len = now.len();
            let mut bytes = undo(now, unsynced);
            bytes.resize(len, 0);
            bytes
        }
        Survival::Some => mixed(now, unsynced, random),
    }
}

/// Each page as of its own moment, the length as of another.
fn mixed(now: Vec<u8>, unsynced: &[Change], random: &mut Random) -> Vec<u8> {
    let unit = if random.below(4) == 0 { SECTOR } else { PAGE } as usize;
    let moments = unsynced.len() as u64 + 1;
    let longest = unsynced.iter().map(|change| change.old_len).max().unwrap_or(0).max(now.len() as u64);
    let pages = usize::try_from(longest).unwrap_or(0).div_ceil(unit);
    // 0: as last synced. A page that was never written back is likelier than one of a moment in between.
    let of_page: Vec<usize> =
        (0..pages).map(|_| if random.below(2) == 0 { 0 } else { random.below(moments) as usize }).collect();
    let of_length = if random.below(2) == 0 { unsynced.len() } else { random.below(moments) as usize };
    let mut out = vec![0u8; pages * unit];
    let (mut len, mut bytes) = (0, now);
    for moment in (0..=unsynced.len()).rev() {
        for (page, _) in of_page.iter().enumerate().filter(|(_, of)| **of == moment) {
            let start = (page * unit).min(bytes.len());
            let end = (start + unit).min(bytes.len());
            out[page * unit..page * unit + (end - start)].copy_from_slice(&bytes[start..end]);
        }
        if moment == of_length {
            len = bytes.len();
        }
        if moment > 0 {
            bytes = undo(bytes, &unsynced[moment - 1..moment]);
        }
    }
    out.resize(len, 0);
    out
}

fn undo(mut bytes: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for change in changes.iter().rev() {
        bytes.resize(usize::try_from(change.old_len).unwrap_or(0), 0);
        put(&mut bytes, change.offset, &change.old);
    }
    bytes
}

fn put(bytes: &mut Vec<u8>, offset: u64, part: &[u8]) {
    if part.is_empty() {
        return; // return; // after a hole, `offset` is beyond the end
    }
    let start = usize::try_from(offset).unwrap_or(0);
    if bytes.len() < start + part.len() {
        bytes.resize(start + part.len(), 0);
    }
    bytes[start..start + part.len()].copy_from_slice(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOLDER: u64 = 10;
    const FILE: u64 = 20;

    fn base() -> Vec<Record> {
        vec![
            Record::Base { inode: FOLDER, folder: 0, name: vec![], len: None },
            Record::Base { inode: FILE, folder: FOLDER, name: b"f".to_vec(), len: Some(0) },
            Record::Hello { process: 1 },
        ]
    }

    fn begin(id: u64, operation: Operation) -> Record {
        Record::Begin { id, operation }
    }

    fn end(id: u64, result: i64) -> Record {
        Record::End { id, result, inode: 0 }
    }

    fn write(offset: u64) -> Operation {
        Operation::Write { inode: FILE, offset, len: 5, old_len: offset, old: vec![] }
    }

    fn unsynced(records: Vec<Record>) -> usize {
        let records: Vec<Record> = base().into_iter().chain(records).collect();
        let model = Model::of(&records);
        match &model.nodes[model.node(FILE)].kind {
            NodeKind::File(file) => file.unsynced().len(),
            NodeKind::Folder(_) => panic!("a folder"),
        }
    }

    #[test]
    fn a_sync_covers_what_was_done_when_it_began_once_it_has_ended_well() {
        let sync = || Operation::Sync { inode: FILE };
        let first = || vec![begin(0, write(0)), end(0, 5)];
        let with = |more: Vec<Record>| unsynced(first().into_iter().chain(more).collect());
        assert_eq!(with(vec![]), 1);
        assert_eq!(with(vec![begin(1, sync()), end(1, 0)]), 0);
        assert_eq!(with(vec![begin(1, sync())]), 1, "killed while it syncs");
        assert_eq!(with(vec![begin(1, sync()), end(1, -1)]), 1, "a sync that failed");
        assert_eq!(with(vec![begin(1, sync()), begin(2, write(5)), end(2, 5), end(1, 0)]), 1, "written meanwhile");
        assert_eq!(with(vec![begin(1, sync()), Record::Hello { process: 2 }]), 1);
        assert_eq!(with(vec![begin(1, write(5)), end(1, -1)]), 1, "a write that failed changed nothing");
        // Another thread's sync that began later may end earlier.
        let two = vec![begin(1, sync()), begin(2, write(5)), end(2, 5), begin(3, sync()), end(3, 0), end(1, 0)];
        assert_eq!(with(two), 0);
    }

    #[test]
    fn a_short_write_is_as_long_as_it_was() {
        let records: Vec<Record> = base().into_iter().chain([begin(0, write(0)), end(0, 2)]).collect();
        let model = Model::of(&records);
        let NodeKind::File(file) = &model.nodes[model.node(FILE)].kind else { panic!("a folder") };
        assert_eq!((file.len, file.unsynced()[0].end), (2, 2));
    }

    #[test]
    fn names_are_durable_with_their_folder_only() {
        let create = Operation::Create { folder: FOLDER, name: b"g".to_vec() };
        let mut records = base();
        records.extend([begin(0, create), Record::End { id: 0, result: 0, inode: 30 }]);
        records.extend([begin(1, Operation::Sync { inode: 30 }), end(1, 0)]);
        let names = |records: &[Record]| Model::of(records).folder(ROOT).durable.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&records), [b"f".to_vec()]);
        records.extend([begin(2, Operation::Sync { inode: FOLDER }), end(2, 0)]);
        assert_eq!(names(&records), [b"f".to_vec(), b"g".to_vec()]);
    }

    #[test]
    fn undoing_takes_back_every_change() {
        let steps = [
            Change { offset: 2, end: 6, old_len: 4, new_len: 6, old: b"cd".to_vec() },
            Change { offset: 1, end: 1, old_len: 6, new_len: 1, old: b"bWXYZ".to_vec() },
            Change { offset: 3, end: 4, old_len: 1, new_len: 4, old: vec![] },
        ];
        let now = b"a\0\0!".to_vec();
        assert_eq!(undo(now.clone(), &steps[2..]), b"a");
        assert_eq!(undo(now.clone(), &steps[1..]), b"abWXYZ");
        assert_eq!(undo(now, &steps), b"abcd");
    }
}
