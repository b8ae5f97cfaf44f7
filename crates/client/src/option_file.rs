//! Parser for MySQL option files, limited to what a password needs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::{ClientError, Result};

/// Largest accepted file, in bytes.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Groups, keys and values of an option file, in file order. Underscores in keys are stored as dashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptionFile {
    entries: Vec<(String, String, String)>,
}

impl OptionFile {
    /// Reads a file. A world-writable file is refused.
    pub fn read(path: &Path) -> Result<Self> {
        let file_error = |error| ClientError::File { path: path.to_owned(), error };
        let metadata = std::fs::metadata(path).map_err(file_error)?;
        if metadata.permissions().mode() & 0o002 != 0 {
            return Err(ClientError::usage(format!(
                "{}: anybody may write to this option file; chmod o-w it",
                path.display()
            )));
        }
        if metadata.len() > FILE_LEN_MAX {
            return Err(ClientError::usage(format!("{}: too large for an option file", path.display())));
        }
        let bytes = base::own_files::read_within(path, FILE_LEN_MAX).map_err(file_error)?;
        Ok(OptionFile::parse(&String::from_utf8_lossy(&bytes)))
    }

    /// Parses text. Lines that are neither a group nor an option (`!include`) are skipped, like the keys of other
    /// programs.
    pub fn parse(text: &str) -> Self {
        let mut file = OptionFile::default();
        let mut group = String::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';', '!']) {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                group = name.split(']').next().unwrap_or_default().trim().to_ascii_lowercase();
                continue;
            }
            let (key, value) = line.split_once('=').unwrap_or((line.split('#').next().unwrap_or_default(), ""));
            file.entries.push((group.clone(), key.trim().replace('_', "-"), unquote(value.trim())));
        }
        file
    }

    /// The last value of `key` in any of these groups.
    pub fn value(&self, groups: &[&str], key: &str) -> Option<&str> {
        self.entries
            .iter()
            .rev()
            .find(|(group, name, _)| groups.contains(&group.as_str()) && name == key)
            .map(|(_, _, value)| value.as_str())
    }
}

/// Removes quotes, or the trailing comment of an unquoted value, and resolves escapes.
fn unquote(value: &str) -> String {
    let quoted = value.chars().next().filter(|first| matches!(first, '"' | '\''));
    let value = match quoted {
        Some(quote) => {
            let inner = value.get(1..).unwrap_or_default();
            match inner.rfind(quote) {
                Some(end) => inner.get(..end).unwrap_or_default(),
                None => value,
            }
        }
        None => value.split(" #").next().unwrap_or_default().trim_end(),
    };
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(char) = chars.next() {
        if char != '\\' {
            out.push(char);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('b') => out.push('\u{8}'),
            Some('r') => out.push('\r'),
            Some('s') => out.push(' '),
            Some(escaped @ ('\\' | '"' | '\'')) => out.push(escaped),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_quotes_comments_escapes() {
        let file = OptionFile::parse(
            "# c\n[mysqld]\npassword=no\n!include /x\n[client]\n user = a\npassword=\"p#\\\"w\\s\" # c\nssl_mode=x # y\nquick\n\
             [slipstream]\npassword='two'\n",
        );
        assert_eq!(file.value(&["client"], "password"), Some("p#\"w "));
        assert_eq!(file.value(&["client", "slipstream"], "password"), Some("two"));
        assert_eq!(file.value(&["client"], "ssl-mode"), Some("x"));
        assert_eq!(file.value(&["client"], "quick"), Some(""));
        assert_eq!(file.value(&["client"], "nothing"), None);
        assert_eq!(OptionFile::parse("[client]\npassword=\"x").value(&["client"], "password"), Some("\"x"));
    }

    #[test]
    fn world_writable_files_are_refused() {
        let path = std::env::temp_dir().join(format!("slipstream-option-file-{}", std::process::id()));
        std::fs::write(&path, "[client]\npassword=x\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let read = OptionFile::read(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let refused = OptionFile::read(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.value(&["client"], "password"), Some("x"));
        assert!(matches!(refused, Err(ClientError::Usage { .. })));
    }
}
