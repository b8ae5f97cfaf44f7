//! Parser for my.cnf syntax, compatible with MySQL's programs.
//!
//! In: the text of an option file. Out: the settings of one section, each with its place. Never here: the meaning of a
//! key. `!include` and `!includedir` are refused, so that one file shows all settings in force.

use std::path::{Path, PathBuf};

/// Largest accepted option file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One `key = value` line of the section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Key with dashes, whatever the file has, and without `loose-`.
    pub key: String,
    /// Value with quotes and escapes resolved; None if the line has no `=`.
    pub value: Option<String>,
    /// Place of the line as `file:line`.
    pub place: String,
    /// True if the key began with `loose-`: it is skipped if unknown.
    pub loose: bool,
}

/// Errors of an option file.
#[derive(Debug, thiserror::Error)]
pub enum OptionFileError {
    /// A line that is not a comment, section, or setting.
    #[error("{place}: {reason}")]
    Syntax {
        /// Place of the line as `file:line`.
        place: String,
        /// Description of the error.
        reason: &'static str,
    },
    /// The file cannot be read.
    #[error("option file {path}: {error}")]
    Read {
        /// Path of the file.
        path: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The file is world-writable: MySQL's programs ignore such files, and so must we.
    #[error("option file {path} is world-writable; chmod o-w it")]
    WorldWritable {
        /// Path of the file.
        path: String,
    },
}

/// The option file of the Debian package's service.
pub(crate) const PACKAGE_FILE: &str = "/etc/slipstream/slipstream.cnf";

/// The files read by default, in order; later ones override. They are those of MySQL's programs and the package's, so
/// that its data folder is found.
#[must_use]
pub fn default_files() -> Vec<PathBuf> {
    let mut files = ["/etc/my.cnf", "/etc/mysql/my.cnf", PACKAGE_FILE].map(PathBuf::from).to_vec();
    if let Some(home) = std::env::var_os("HOME") {
        files.push(Path::new(&home).join(".my.cnf"));
    }
    files
}

/// A number that changes when one of the files is changed, replaced, created or removed.
#[must_use]
pub(crate) fn stamp(paths: &[PathBuf]) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let of = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.ino(), file.len(), file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()))
    };
    let facts: Vec<_> = paths.iter().map(of).collect();
    let mut hasher = std::hash::DefaultHasher::new();
    std::hash::Hash::hash(&facts, &mut hasher);
    std::hash::Hasher::finish(&hasher)
}

/// Reads the settings of `section` from the file.
///
/// # Errors
/// The file cannot be read, is world-writable, or has an invalid line.
pub fn read(path: &Path, section: &str) -> Result<Vec<Setting>, OptionFileError> {
    let name = path.display().to_string();
    let failed = |error| OptionFileError::Read { path: name.clone(), error };
    let metadata = std::fs::metadata(path).map_err(failed)?;
    use std::os::unix::fs::PermissionsExt as _;
    if metadata.is_file() && metadata.permissions().mode() & 0o002 != 0 {
        return Err(OptionFileError::WorldWritable { path: name });
    }
    let bytes = base::own_files::read_within(path, FILE_BYTES_MAX).map_err(failed)?;
    parse(&String::from_utf8_lossy(&bytes), &name, section)
}

/// Parses the settings of `section` in the text of a file called `name`. A file without that section yields nothing,
/// whatever else it contains: system-wide files are full of `!includedir` lines for other programs.
///
/// # Errors
/// The first invalid line, with its place.
pub fn parse(text: &str, name: &str, section: &str) -> Result<Vec<Setting>, OptionFileError> {
    let is_header = |line: &str| section_name(line.trim()).is_some_and(|found| found == section);
    if !text.lines().any(is_header) {
        return Ok(Vec::new());
    }
    let mut settings = Vec::new();
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start_matches('\u{feff}').trim();
        let syntax = |reason| OptionFileError::Syntax { place: format!("{name}:{}", index + 1), reason };
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if line.starts_with('!') {
            return Err(syntax("!include and !includedir are not supported: put the settings into this file"));
        }
        if line.starts_with('[') {
            inside = section_name(line).ok_or_else(|| syntax("a section is [name]"))? == section;
            continue;
        }
        if !inside {
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(unquote(value.trim()).map_err(syntax)?)),
            None => (line.split_once('#').map_or(line, |(key, _)| key).trim(), None),
        };
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(syntax("a setting is key = value"));
        }
        let key = dashes(key);
        let (key, loose) = match key.strip_prefix("loose-") {
            Some(key) => (key.to_owned(), true),
            None => (key, false),
        };
        settings.push(Setting { key, value, place: format!("{name}:{}", index + 1), loose });
    }
    Ok(settings)
}

/// True if users other than the file's owner and group can read it.
#[must_use]
pub(crate) fn others_may_read(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|facts| facts.permissions().mode() & 0o004 != 0)
}

/// Normalises an option name: dash and underscore are equivalent, case matters.
#[must_use]
pub fn dashes(key: &str) -> String {
    key.replace('_', "-")
}

fn section_name(line: &str) -> Option<&str> {
    let inner = line.trim_start_matches('\u{feff}').strip_prefix('[')?;
    let (name, rest) = inner.split_once(']')?;
    let rest = rest.trim();
    (rest.is_empty() || rest.starts_with('#')).then_some(name.trim())
}

/// Removes quotes and a trailing comment, and resolves MySQL's escapes \b \t \n \r \\ \s. Other escapes are kept.
fn unquote(value: &str) -> Result<String, &'static str> {
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
    let mut text = String::with_capacity(value.len());
    let mut chars = value.chars();
    if quote.is_some() {
        chars.next();
    }
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some('b') => text.push('\u{8}'),
                Some('t') => text.push('\t'),
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('s') => text.push(' '),
                Some('\\') => text.push('\\'),
                Some(c) if Some(c) == quote => text.push(c),
                Some(c) => text.extend(['\\', c]),
                None => text.push('\\'),
            },
            c if Some(c) == quote => {
                let rest = chars.as_str().trim();
                return if rest.is_empty() || rest.starts_with('#') {
                    Ok(text)
                } else {
                    Err("text after the closing quote")
                };
            }
            '#' if quote.is_none() => {
                text.truncate(text.trim_end().len());
                return Ok(text);
            }
            c => text.push(c),
        }
    }
    if quote.is_some() { Err("the quote is not closed") } else { Ok(text) }
}

/// Number of insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
pub(crate) fn edit_distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().take(64).collect(), to.chars().take(64).collect());
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, b) in to.iter().enumerate() {
            let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&last, j) + usize::from(a != b)).min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && from.get(i - 1) == Some(b) && to.get(j - 1) == Some(a);
            if swapped {
                best = best.min(at(&before_last, j - 1) + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(String, Option<String>)> {
        parse(text, "t.cnf", "slipstream").unwrap().into_iter().map(|s| (s.key, s.value)).collect()
    }

    #[test]
    fn what_mysqls_programs_read() {
        let text = "\u{feff}# comment\n[mysqld]\nserver_id=9\n[slipstream]  # ours\n; comment\n data = /a b/c \n\
                    server_id=7 # seven\npassword='a#b\\'c'\nssl_ca=\"x\\sy\\z\"\nsemi_sync\nloose_new_thing=1\n\
                    [mysql]\nuser=x\n[slipstream]\nempty=\n";
        let wanted = [
            ("data", Some("/a b/c")),
            ("server-id", Some("7")),
            ("password", Some("a#b'c")),
            ("ssl-ca", Some("x y\\z")),
            ("semi-sync", None),
            ("new-thing", Some("1")),
            ("empty", Some("")),
        ];
        let wanted: Vec<_> = wanted.map(|(k, v)| (k.to_owned(), v.map(str::to_owned))).into();
        assert_eq!(pairs(text), wanted);
        let settings = parse(text, "t.cnf", "slipstream").unwrap();
        assert_eq!(settings[0].place, "t.cnf:6");
        assert!(settings[5].loose && !settings[0].loose);
    }

    #[test]
    fn wrong_lines_are_named() {
        for (line, place) in [("!include /etc/x", "2"), ("a b = c", "2"), ("= c", "2"), ("x = 'y", "2"), ("[open", "2")]
        {
            let error = parse(&format!("[slipstream]\n{line}\n"), "t.cnf", "slipstream").unwrap_err().to_string();
            assert!(error.starts_with(&format!("t.cnf:{place}: ")), "{error}");
        }
        assert!(parse("!includedir /etc/mysql/conf.d/\n[mysqld]\nx y z\n", "t.cnf", "slipstream").unwrap().is_empty());
    }

    #[test]
    fn world_writable_files_are_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "[slipstream]\ndata=/x\n").unwrap();
        assert_eq!(read(file.path(), "slipstream").unwrap().len(), 1);
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(matches!(read(file.path(), "slipstream"), Err(OptionFileError::WorldWritable { .. })));
        assert!(matches!(read(Path::new("/no/file"), "slipstream"), Err(OptionFileError::Read { .. })));
    }

    #[test]
    fn any_bytes_are_an_error_or_settings_never_a_panic() {
        let pieces = ["[", "]", "slipstream", "=", "'", "\"", "\\", "#", "\n", "!", "loose-", "é", "\u{0}"];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    let _ = parse(&format!("[slipstream]\n{a}{b}{c}"), "t", "slipstream");
                    let _ = parse(&format!("{a}{b}{c}"), "t", "slipstream");
                }
            }
        }
    }
}
