//! The traced folder on the real disk: created, followed, cut.
//!
//! In: a folder, commands to trace, seeds. Out: the folder rebuilt. Never here: changes to a folder that
//! [`PowerCut::new`] did not create.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use base::Random;

use crate::journal::{
    self, JOURNAL_FILE, LINKS_FOLDER, Operation, PLAN_VARIABLE, ROOT_VARIABLE, Record, SHADOW_VARIABLE, SKIP_VARIABLE,
};
use crate::model::{Model, Node, NodeId, NodeKind, ROOT, Survival, bytes_after, names_after};

/// A folder that can lose its power.
///
/// It has a folder of its own: `disk/` is the traced folder, `shadow/` holds the journal. Everything inside folders of
/// `disk/` is traced. Files directly in `disk/` are left alone, so that a log file can be there. Sockets are gone after
/// a cut.
#[derive(Debug)]
pub struct PowerCut {
    disk: PathBuf,
    shadow: PathBuf,
    next: PathBuf,
    skip: String,
    plan: String,
}

/// What a cut did.
#[derive(Clone, Debug, Default)]
pub struct Cut {
    /// The seed; None for a strict cut.
    pub seed: Option<u64>,
    /// What was not durable and what became of it, one line each.
    pub lines: Vec<String>,
    /// Syncs that succeeded since the last cut.
    pub syncs: usize,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seed {
            Some(seed) => write!(f, "power cut with seed {seed}, after {} syncs:", self.syncs)?,
            None => write!(f, "strict power cut, after {} syncs:", self.syncs)?,
        }
        self.lines.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl PowerCut {
    /// A seed for this run, or that of SLIPSTREAM_POWER_CUT_SEED.
    #[must_use]
    pub fn seed() -> u64 {
        let given = std::env::var("SLIPSTREAM_POWER_CUT_SEED").ok();
        let given = given.map(|text| text.parse().expect("a seed is a number"));
        given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 >> 10)
    }

    /// Sets up in this folder, which is created and must be on one file system.
    #[must_use]
    pub fn new(folder: &Path) -> PowerCut {
        let made = |name: &str| {
            fs::create_dir_all(folder.join(name)).unwrap();
            folder.join(name).canonicalize().unwrap()
        };
        let cut = PowerCut {
            disk: made("disk"),
            shadow: made("shadow"),
            next: made("next"),
            skip: String::new(),
            plan: String::new(),
        };
        cut.begin();
        cut
    }

    /// The traced folder. Give the program a folder inside it.
    #[must_use]
    pub fn disk(&self) -> &Path {
        &self.disk
    }

    /// Plants a fault: from the next process on, syncs that `rules` name report success and make nothing durable. See
    /// [`journal::skips`].
    pub fn skip_syncs(&mut self, rules: &str) {
        rules.clone_into(&mut self.skip);
    }

    /// From the next process on, calls fail, or the process dies at one, according to the plan: see [`journal::Plan`].
    /// Empty for none.
    pub fn plan(&mut self, plan: &str) {
        assert!(journal::Plan::parse(plan).is_some(), "not a plan: {plan}");
        plan.clone_into(&mut self.plan);
    }

    /// Traces a process. Every process that may change the folder must be traced, including readers that tidy up. One
    /// at a time: the previous one has ended or was killed, and what it left that is not durable stays so.
    pub fn trace(&self, command: &mut Command) {
        self.compact_until_idle();
        command.env("LD_PRELOAD", shim_library()).env(ROOT_VARIABLE, &self.disk).env(SHADOW_VARIABLE, &self.shadow);
        command.env(SKIP_VARIABLE, &self.skip).env(PLAN_VARIABLE, &self.plan);
    }

    /// Number of processes traced since the last cut. One that is killed at once may not have got that far.
    #[must_use]
    pub fn processes(&self) -> usize {
        let records = journal::read(&self.shadow).unwrap();
        records.iter().filter(|record| matches!(record, Record::Hello { .. })).count()
    }

    /// Cuts the power. The traced process must be dead (kill -9). `disk` becomes exactly what is durable: each file's
    /// content as last synced, each folder's names as last synced.
    ///
    /// # Panics
    /// No process was traced, or the folder differs from the journal: something changed it without the shim.
    pub fn cut_strictly(&self) -> Cut {
        self.cut_with(None)
    }

    /// As [`cut_strictly`](Self::cut_strictly), except that part of what is not durable survives, chosen by the seed:
    /// see `model`.
    ///
    /// # Panics
    /// As [`cut_strictly`](Self::cut_strictly).
    pub fn cut(&self, seed: u64) -> Cut {
        self.cut_with(Some(seed))
    }

    fn cut_with(&self, seed: Option<u64>) -> Cut {
        self.compact_until_idle();
        let records = journal::read(&self.shadow).unwrap();
        let model = Model::of(&records);
        assert!(model.processes > 0, "no process was traced: was the shim loaded?");
        self.compare(&model, ROOT, &self.disk);
        let mut random = Random::new(seed.unwrap_or(0));
        let of_names = seed.map_or(Survival::Nothing, |_| Survival::of_names(&mut random));
        let until = random.below(records.len() as u64 + 1) as usize;
        let mut work = Rebuild {
            power: self,
            model: &model,
            strict: seed.is_none(),
            of_names,
            until,
            random,
            cut: Cut { seed, lines: vec![format!("names: {of_names:?}")], syncs: model.syncs },
        };
        empty(&self.next);
        work.folder(ROOT, &self.next, Path::new(""));
        let cut = work.cut;
        for entry in entries(&self.disk).into_values().filter(|path| path.is_dir()) {
            fs::remove_dir_all(entry).unwrap();
        }
        for (name, path) in entries(&self.next) {
            fs::rename(path, self.disk.join(std::ffi::OsStr::new(&name))).unwrap();
        }
        self.begin();
        cut
    }

    /// Starts a new journal: everything present is durable.
    fn begin(&self) {
        empty(&self.shadow);
        fs::create_dir(self.shadow.join(LINKS_FOLDER)).unwrap();
        let mut journal = File::create(self.shadow.join(JOURNAL_FILE)).unwrap();
        let inode = fs::metadata(&self.disk).unwrap().ino();
        let mut records = vec![Record::Base { inode, folder: 0, name: vec![], len: None }];
        for path in entries(&self.disk).into_values().filter(|path| path.is_dir()) {
            self.base(&path, inode, &mut records);
        }
        for record in records {
            journal.write_all(&record.encode()).unwrap();
        }
    }

    fn base(&self, path: &Path, folder: u64, records: &mut Vec<Record>) {
        use std::os::unix::ffi::OsStrExt as _;
        let facts = fs::symlink_metadata(path).unwrap();
        let (inode, name) = (facts.ino(), path.file_name().unwrap().as_bytes().to_vec());
        if facts.is_dir() {
            records.push(Record::Base { inode, folder, name, len: None });
            entries(path).into_values().for_each(|path| self.base(&path, inode, records));
        } else if facts.is_file() {
            fs::hard_link(path, self.link(inode)).unwrap();
            records.push(Record::Base { inode, folder, name, len: Some(facts.len()) });
        }
    }

    fn link(&self, inode: u64) -> PathBuf {
        self.shadow.join(LINKS_FOLDER).join(inode.to_string())
    }

    /// Completes the journal: a kill may have come between a change and its second record. Finds out what became of it
    /// and writes that record.
    fn compact_until_idle(&self) {
        let records = journal::read(&self.shadow).unwrap();
        let model = Model::of(&records);
        // A record truncated by the kill is removed: the next process appends.
        let whole: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        let journal = File::options().append(true).open(self.shadow.join(JOURNAL_FILE)).unwrap();
        journal.set_len(whole.len() as u64).unwrap();
        let Some((id, operation)) = model.interrupted() else { return };
        let facts = |folder: u64, name: &[u8]| {
            fs::symlink_metadata(self.folder_path(&model, folder).join(os(name))).ok().map(|facts| facts.ino())
        };
        let (mut result, mut inode) = (-1, 0);
        match operation {
            Operation::Create { folder, name } | Operation::MakeFolder { folder, name } => {
                // Not by its inode number, which may be that of a removed folder, reused.
                let is_new = !model.folder(model.node(*folder)).current.contains_key(name);
                if let Some(found) = facts(*folder, name).filter(|_| is_new) {
                    (result, inode) = (0, found);
                    let path = self.folder_path(&model, *folder).join(os(name));
                    if path.is_file() && !self.link(found).exists() {
                        fs::hard_link(path, self.link(found)).unwrap();
                    }
                }
            }
            Operation::Rename { folder, from, .. } => result = if facts(*folder, from).is_none() { 0 } else { -1 },
            Operation::Remove { folder, name } => result = if facts(*folder, name).is_none() { 0 } else { -1 },
            Operation::Write { inode, offset, len, old_len, .. } => {
                let now = fs::metadata(self.link(*inode)).unwrap().len();
                // Any part of it may be there within the old length: undoing it is right either way.
                let end = if offset + len <= *old_len { offset + len } else { now.max(*offset) };
                result = (end - offset).cast_signed();
            }
            Operation::SetLen { inode, new_len, .. } => {
                let now = fs::metadata(self.link(*inode)).unwrap().len();
                result = if now == *new_len { 0 } else { -1 };
            }
            Operation::Sync { .. } => {}
        }
        let mut journal = journal;
        journal.write_all(&Record::End { id, result, inode }.encode()).unwrap();
    }

    fn folder_path(&self, model: &Model, inode: u64) -> PathBuf {
        fn find(model: &Model, at: NodeId, wanted: NodeId, path: &Path) -> Option<PathBuf> {
            if at == wanted {
                return Some(path.to_owned());
            }
            let folders = model.folder(at).current.iter();
            let folders = folders.filter(|(_, node)| matches!(model.nodes[**node].kind, NodeKind::Folder(_)));
            folders.into_iter().find_map(|(name, node)| find(model, *node, wanted, &path.join(os(name))))
        }
        find(model, ROOT, model.node(inode), &self.disk).expect("a folder with a name")
    }

    /// Checks that the folder is what the journal says.
    fn compare(&self, model: &Model, folder: NodeId, path: &Path) {
        let current = &model.folder(folder).current;
        for (name, real) in entries(path) {
            let facts = fs::symlink_metadata(&real).unwrap();
            let traced = (facts.is_file() && folder != ROOT) || facts.is_dir();
            let bytes = std::os::unix::ffi::OsStringExt::into_vec(name);
            assert!(!traced || current.contains_key(&bytes), "{} came past the shim", real.display());
        }
        for (name, node) in current {
            let path = path.join(os(name));
            let facts = fs::symlink_metadata(&path);
            let facts = facts.unwrap_or_else(|error| {
                panic!("{} went past the shim: {error}; was every process traced?", path.display())
            });
            let node_facts = &model.nodes[*node];
            assert_eq!(facts.ino(), node_facts.inode, "{} was replaced past the shim", path.display());
            match &node_facts.kind {
                NodeKind::Folder(_) => self.compare(model, *node, &path),
                NodeKind::File(file) => {
                    assert_eq!(facts.len(), file.len, "{} was written past the shim", path.display());
                }
            }
        }
    }
}

fn os(name: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(name)
}

fn entries(path: &Path) -> BTreeMap<std::ffi::OsString, PathBuf> {
    let list = fs::read_dir(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    list.map(|entry| entry.unwrap()).map(|entry| (entry.file_name(), entry.path())).collect()
}

fn empty(path: &Path) {
    for path in entries(path).into_values() {
        if path.is_dir() { fs::remove_dir_all(path).unwrap() } else { fs::remove_file(path).unwrap() }
    }
}

/// Builds the folder as after the cut.
struct Rebuild<'a> {
    power: &'a PowerCut,
    model: &'a Model,
    strict: bool,
    of_names: Survival,
    until: usize,
    random: Random,
    cut: Cut,
}

impl Rebuild<'_> {
    fn folder(&mut self, node: NodeId, to: &Path, shown: &Path) {
        let folder = self.model.folder(node);
        let names = names_after(folder, self.of_names, self.until, &mut self.random);
        for change in &folder.pending {
            let text =
                |name: Option<&Vec<u8>>| name.map_or("-".into(), |name| String::from_utf8_lossy(name).into_owned());
            let new = change.new.as_ref();
            let kept = match new {
                Some((name, node)) => names.get(name) == Some(node),
                None => change.gone.as_ref().is_some_and(|name| !names.contains_key(name)),
            };
            let (gone, new) = (text(change.gone.as_ref()), text(new.map(|(name, _)| name)));
            let kept = if kept { "there" } else { "lost" };
            self.cut.lines.push(format!("{}/: {gone} -> {new}: {kept}", shown.display()));
        }
        for (name, node) in &names {
            let (to, shown) = (to.join(os(name)), shown.join(os(name)));
            match &self.model.nodes[*node].kind {
                NodeKind::Folder(_) => {
                    fs::create_dir(&to).unwrap();
                    self.folder(*node, &to, &shown);
                }
                NodeKind::File(_) => self.file(*node, &to, &shown),
            }
        }
    }

    fn file(&mut self, node: NodeId, to: &Path, shown: &Path) {
        let Node { inode, kind: NodeKind::File(file) } = &self.model.nodes[node] else { return };
        let link = self.power.link(*inode);
        if file.unsynced().is_empty() {
            // Linked, not copied: the link that kept it is its only other name and disappears with the journal.
            fs::hard_link(link, to).unwrap();
            return;
        }
        let survival = if self.strict { Survival::Nothing } else { Survival::of_file(&mut self.random) };
        let now = fs::read(link).unwrap();
        let was = now.len();
        let bytes = bytes_after(now, file.unsynced(), survival, &mut self.random);
        let line = format!(
            "{}: {} unsynced changes, {was} bytes before, {} after: {survival:?}",
            shown.display(),
            file.unsynced().len(),
            bytes.len()
        );
        self.cut.lines.push(line);
        fs::write(to, bytes).unwrap();
    }
}

/// The shim, built at first use.
#[must_use]
pub fn shim_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // TARGET/debug/deps/this-test, or TARGET/debug/this-program
        let program = std::env::current_exe().unwrap();
        let profile = program.ancestors().skip(1).find(|folder| !folder.ends_with("deps")).unwrap();
        let target = profile.parent().unwrap();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--locked", "-p", "power_cut_shim", "--target-dir"]).arg(target);
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env_remove("LD_PRELOAD");
        assert!(command.status().unwrap().success(), "the shim could not be built");
        let library = target.join("debug/libpower_cut_shim.so");
        assert!(library.exists(), "no {}", library.display());
        library
    })
}
