//! The repository's files.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// Not part of the repository: build output and fuzzing results.
const LEFT_OUT: [&str; 5] = ["target", "corpus", "artifacts", ".git", "third_party"];
/// Endings of files whose text is read; of all others only the name counts.
const READ: [&str; 4] = ["rs", "md", "toml", "sh"];
/// Also read: they have comments and no ending.
const READ_WITHOUT_ENDING: [&str; 8] = [
    "Makefile",
    ".ci/run",
    "fuzz/run",
    "tests/helgrind/run",
    "benches/dist",
    "testbed/mysql",
    "testbed/mariadb",
    "testbed/group",
];

/// A file that was read.
#[derive(Debug, Clone)]
pub struct File {
    /// Path from the root, with slashes.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl File {
    /// Lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// True if its name has this ending.
    #[must_use]
    pub fn is(&self, ending: &str) -> bool {
        ending_of(&self.path) == Some(ending)
    }
}

/// Names of all files and folders, and the texts of some.
#[derive(Debug, Clone, Default)]
pub struct Repository {
    /// Files with their texts.
    pub files: Vec<File>,
    /// Every file and folder, from the root.
    pub paths: BTreeSet<String>,
}

impl Repository {
    /// Reads everything below `root`.
    ///
    /// # Errors
    /// A file or folder cannot be read.
    pub fn read(root: &Path) -> io::Result<Repository> {
        let mut repository = Repository::default();
        repository.read_folder(root, "")?;
        repository.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(repository)
    }

    fn read_folder(&mut self, folder: &Path, name: &str) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let own = entry.file_name().to_string_lossy().into_owned();
            let path = if name.is_empty() { own.clone() } else { format!("{name}/{own}") };
            let kind = entry.file_type()?;
            if kind.is_dir() && !LEFT_OUT.contains(&own.as_str()) {
                self.paths.insert(path.clone());
                self.read_folder(&entry.path(), &path)?;
            } else if kind.is_file() {
                if is_read(&path) {
                    self.files.push(File { path: path.clone(), text: fs::read_to_string(entry.path())? });
                }
                self.paths.insert(path);
            }
        }
        Ok(())
    }

    /// A repository of texts that are not on disk, for tests.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Repository {
        let mut repository = Repository::default();
        for (path, text) in files {
            for (at, _) in path.match_indices('/') {
                repository.paths.insert(path[..at].to_owned());
            }
            repository.paths.insert((*path).to_owned());
            repository.files.push(File { path: (*path).to_owned(), text: (*text).to_owned() });
        }
        repository
    }

    /// A file by its path.
    #[must_use]
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Markdown documents.
    pub fn documents(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is("md"))
    }

    /// True if there is a file or folder of this path.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        self.paths.contains(path.trim_end_matches('/'))
    }

    /// True if the path of any file ends with these components.
    #[must_use]
    pub fn has_ending(&self, path: &str) -> bool {
        self.paths.iter().any(|known| ends_with(known, path))
    }
}

/// True if `path` is `tail`, or ends with it after a slash.
pub(crate) fn ends_with(path: &str, tail: &str) -> bool {
    path.strip_suffix(tail).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

pub(crate) fn ending_of(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?;
    name.rsplit_once('.').map(|(_, ending)| ending)
}

fn is_read(path: &str) -> bool {
    ending_of(path).is_some_and(|ending| READ.contains(&ending)) || READ_WITHOUT_ENDING.contains(&path)
}
