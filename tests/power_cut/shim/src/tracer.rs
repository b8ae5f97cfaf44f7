//! The process's knowledge of the traced folder, and its journal.
//!
//! In: operations the hooks are about to make. Out: records, each with one write, before and after the operation. Never
//! here: two changes at a time. The lock is held from before a change to after it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use power_cut::journal::{self, Call, Operation, Plan, Record};

use crate::hooks;

/// The process's only tracer; unset during start, and in a process that is not traced.
static TRACER: OnceLock<Tracer> = OnceLock::new();

/// Fixed facts about the traced folder, and the state behind the lock.
pub(crate) struct Tracer {
    /// The traced folder.
    pub root: PathBuf,
    /// Folder of the links.
    pub links: PathBuf,
    /// Rules for syncs to leave out.
    pub skip: String,
    /// True if reads are counted.
    pub counts_reads: bool,
    /// True if it is counted what is opened.
    pub counts_opens: bool,
    /// Device number of the traced folder.
    pub device: u64,
    state: Mutex<State>,
}

/// State behind the lock.
pub(crate) struct State {
    journal: File,
    next_id: u64,
    /// Calls that fail.
    pub plan: Plan,
    /// Inode numbers of all traced files and folders.
    pub known: HashSet<u64>,
    /// Those created by this process.
    own: HashSet<u64>,
    /// The last operation on each, see `journal::skips`.
    last: HashMap<u64, String>,
}

impl Tracer {
    /// The tracer, if this process is traced.
    pub(crate) fn get() -> Option<&'static Tracer> {
        TRACER.get()
    }

    /// Called once, before `main`.
    pub(crate) fn start() {
        let Some(root) = std::env::var_os(journal::ROOT_VARIABLE).map(PathBuf::from) else { return };
        match Tracer::open(root) {
            Ok(tracer) => drop(TRACER.set(tracer)),
            Err(error) => refuse(&format!("cannot begin: {error}")),
        }
    }

    fn open(root: PathBuf) -> std::io::Result<Tracer> {
        let shadow = std::env::var_os(journal::SHADOW_VARIABLE).map(PathBuf::from);
        let shadow = shadow.ok_or_else(|| std::io::Error::other(format!("no {}", journal::SHADOW_VARIABLE)))?;
        let device = std::fs::metadata(&root)?.dev();
        let mut known = HashSet::new();
        for record in journal::read(&shadow)? {
            match record {
                Record::Base { inode, .. } => drop(known.insert(inode)),
                Record::End { inode, .. } if inode != 0 => drop(known.insert(inode)),
                _ => {}
            }
        }
        let journal = File::options().append(true).open(shadow.join(journal::JOURNAL_FILE))?;
        // Records are in the order of changes only if there is one writer.
        journal.try_lock().map_err(|_| std::io::Error::other("another process is traced into this journal"))?;
        let plan = std::env::var(journal::PLAN_VARIABLE).unwrap_or_default();
        let plan = Plan::parse(&plan).ok_or_else(|| std::io::Error::other(format!("not a plan: {plan}")))?;
        let (counts_reads, counts_opens) = (plan.counts(Call::Read), plan.counts(Call::Open));
        let mut state = State { journal, next_id: 0, plan, known, own: HashSet::new(), last: HashMap::new() };
        state.write(&Record::Hello { process: std::process::id().into() });
        let skip = std::env::var(journal::SKIP_VARIABLE).unwrap_or_default();
        Ok(Tracer {
            root,
            links: shadow.join(journal::LINKS_FOLDER),
            skip,
            counts_reads,
            counts_opens,
            device,
            state: Mutex::new(state),
        })
    }

    /// Takes the lock; held during every change.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Records the start of an operation; returns its number.
    pub(crate) fn begin(&mut self, operation: Operation) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.note(&operation);
        self.write(&Record::Begin { id, operation });
        id
    }

    /// Records the end of an operation.
    pub(crate) fn end(&mut self, id: u64, result: i64, inode: u64) {
        if inode != 0 {
            self.own.insert(inode);
            self.last.insert(inode, "new".into());
        }
        self.write(&Record::End { id, result, inode });
    }

    /// Describes the last operation on a file or folder, of which a sync follows or is left out.
    pub(crate) fn last(&mut self, inode: u64) -> String {
        let last = self.last.get(&inode).cloned().unwrap_or_else(|| "untouched".into());
        if last == "new" {
            self.last.insert(inode, "own".into());
        }
        last
    }

    fn note(&mut self, operation: &Operation) {
        let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let (inode, last) = match operation {
            Operation::Create { folder, name } | Operation::MakeFolder { folder, name } => (*folder, text(name)),
            Operation::Rename { folder, to, .. } => (*folder, text(to)),
            Operation::Remove { folder, name } => (*folder, format!("-{}", text(name))),
            Operation::Write { inode, .. } if self.own.contains(inode) => (*inode, "own".into()),
            Operation::Write { inode, .. } => (*inode, "old".into()),
            Operation::SetLen { inode, .. } => (*inode, "cut".into()),
            Operation::Sync { .. } => return,
        };
        let is_new = self.last.get(&inode).is_some_and(|last| last == "new");
        if !is_new || !matches!(operation, Operation::Write { .. } | Operation::SetLen { .. }) {
            self.last.insert(inode, last);
        }
    }

    fn write(&mut self, record: &Record) {
        if !hooks::write_all(self.journal.as_raw_fd(), &record.encode()) {
            refuse("cannot write the journal");
        }
    }
}

/// Ends the process: an operation that cannot be followed would make every statement about a power cut worthless.
pub(crate) fn refuse(what: &str) -> ! {
    hooks::write_all(2, format!("power-cut shim: {what}\n").as_bytes());
    std::process::abort();
}
