//! Names of the files in a relay log folder, and the index that lists them (MySQL's format: one path per line).
//!
//! The index is always replaced as a whole (temporary file, sync, rename, sync of the folder), before the first event
//! is written to a new file and before a purged or truncated file is deleted. So a file that is not listed holds
//! nothing.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::RelayError;
use crate::disk::RelayFs;

const PREFIX: &str = "relay-bin.";
pub(crate) const INDEX: &str = "relay-bin.index";

/// An index above this is not ours: a line takes 19 bytes, so this is half a million files.
const INDEX_BYTES_MAX: u64 = 10 << 20;

/// Name of the file with this number, e.g. `relay-bin.000001`.
pub fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:06}")
}

/// The number in a relay file's name.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?;
    let number: u64 = digits.bytes().all(|c| c.is_ascii_digit()).then(|| digits.parse().ok())??;
    (number > 0 && file_name(number) == name).then_some(number)
}

pub(crate) fn index_path(dir: &Path) -> PathBuf {
    dir.join(INDEX)
}

/// Content of an index of these files.
pub(crate) fn index_text(numbers: impl Iterator<Item = u64>) -> String {
    numbers.fold(String::new(), |text, number| text + "./" + &file_name(number) + "\n")
}

pub(crate) fn write_index(disk: &RelayFs, dir: &Path, numbers: impl Iterator<Item = u64>) -> Result<(), RelayError> {
    let text = index_text(numbers);
    disk.replace(&index_path(dir), text.as_bytes())?;
    disk.sync_folder(dir)
}

/// Deletes files that no index names any more; some may be gone already.
pub(crate) fn remove_files(
    disk: &RelayFs,
    dir: &Path,
    numbers: impl IntoIterator<Item = u64>,
) -> Result<(), RelayError> {
    for number in numbers {
        let path = dir.join(file_name(number));
        match disk.remove(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(RelayError::io("delete", &path, &e)),
            _ => {}
        }
    }
    Ok(())
}

/// The numbers in the index, in order and without gaps; None if there is no index or it is empty.
pub(crate) fn read_index(dir: &Path) -> Result<Option<Vec<u64>>, RelayError> {
    let path = index_path(dir);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(RelayError::io("open", &path, &e)),
    };
    let mut bytes = Vec::new();
    file.take(INDEX_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|e| RelayError::io("read", &path, &e))?;
    if bytes.len() as u64 > INDEX_BYTES_MAX {
        return Err(RelayError::Index { line: 1, reason: "it is far too large".into() });
    }
    let numbers = parse_index(&bytes)?;
    Ok((!numbers.is_empty()).then_some(numbers))
}

/// Parses the bytes of an index.
///
/// # Errors
/// A line is not `relay-bin.NNNNNN` or not the successor of the number before it; the error carries the line.
pub fn parse_index(bytes: &[u8]) -> Result<Vec<u64>, RelayError> {
    let mut numbers: Vec<u64> = Vec::new();
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return Ok(numbers);
    }
    for (i, raw) in bytes.split(|&b| b == b'\n').enumerate() {
        let shown = || String::from_utf8_lossy(raw.get(..80).unwrap_or(raw)).into_owned();
        let fail = |reason: String| RelayError::Index { line: i + 1, reason };
        let name = raw.strip_prefix(b"./").unwrap_or(raw);
        let number = std::str::from_utf8(name)
            .ok()
            .and_then(file_number)
            .ok_or_else(|| fail(format!("{:?} is not ./relay-bin.NNNNNN", shown())))?;
        if let Some(last) = numbers.last()
            && last.checked_add(1) != Some(number)
        {
            return Err(fail(format!("{:?} does not follow {}", shown(), file_name(*last))));
        }
        numbers.push(number);
    }
    Ok(numbers)
}

/// Numbers of all relay files in the folder, in ascending order.
pub(crate) fn list_files(dir: &Path) -> Result<Vec<u64>, RelayError> {
    let io = |e| RelayError::io("list", dir, &e);
    let mut numbers = Vec::new();
    for entry in fs::read_dir(dir).map_err(io)? {
        if let Some(number) = entry.map_err(io)?.file_name().to_str().and_then(file_number) {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_odd_ones_are_refused() {
        for number in [1, 999_999, 1_000_000, u64::MAX] {
            assert_eq!(file_number(&file_name(number)), Some(number));
        }
        for name in ["relay-bin.000000", "relay-bin.1", "relay-bin.0000001", "relay-bin.index", "relay-bin.00000a", ""]
        {
            assert_eq!(file_number(name), None, "{name}");
        }
    }

    #[test]
    fn odd_indexes_are_refused() {
        assert_eq!(parse_index(b"./relay-bin.000009\nrelay-bin.000010\n").unwrap(), [9, 10]);
        assert!(parse_index(b"").unwrap().is_empty());
        for bytes in [
            &b"../relay-bin.000001\n"[..],
            b"/etc/passwd\n",
            b"./relay-bin.000001\n\n./relay-bin.000002\n",
            b"./relay-bin.000001\n./relay-bin.000003\n",
            b"./relay-bin.000001\n./relay-bin.000001\n",
            b"./relay-bin.000001\n./relay-bin.00000",
            b"\xff\xfe\x00",
            b"\0\0\0\0",
        ] {
            assert!(matches!(parse_index(bytes), Err(RelayError::Index { .. })), "{bytes:?}");
        }
    }
}
