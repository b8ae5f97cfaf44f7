//! Manual pages and completions of shells, made of the command line's own description.
//!
//! In: a folder. Out: `man1/slipstream*.1`, `completions/` with a file for each shell. Never here: a text of its own.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory as _;
use clap_complete::Shell;
use replica::Failure;

use crate::cli::Cli;

/// Writes all files, and a line that says where.
///
/// # Errors
/// Code 1 or 8 if the folder cannot be written.
pub(crate) fn write(folder: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let count = write_files(folder).map_err(|error| Failure::io(folder.display(), &error))?;
    let line = format!("{count} pages in {0}/man1, completions in {0}/completions", folder.display());
    writeln!(out, "{line}").map_err(|error| Failure::output(&error))
}

fn write_files(folder: &Path) -> io::Result<usize> {
    let (pages, completions) = (folder.join("man1"), folder.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    clap_mangen::generate_to(Cli::command(), &pages)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut Cli::command(), "slipstream", &completions)?;
    }
    Ok(fs::read_dir(&pages)?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_its_page_and_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let mut said = Vec::new();
        write(&folder.path().join("new"), &mut said).unwrap();
        let read = |path: &str| fs::read_to_string(folder.path().join("new").join(path)).unwrap();
        let bash = read("completions/slipstream.bash");
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            assert!(
                read(&format!("man1/slipstream-{name}.1"))
                    .contains(&format!("slipstream\\-{}", name.replace('-', "\\-"))),
                "{name}"
            );
            assert!(bash.contains(&format!("slipstream,{name})")), "{name}");
        }
        assert!(read("man1/slipstream-replica.1").contains("source\\-connect\\-retry"));
        assert!(read("completions/_slipstream").starts_with("#compdef slipstream"));
        assert!(read("completions/slipstream.fish").contains("complete -c slipstream"));
        assert!(String::from_utf8(said).unwrap().contains(" pages in "));
    }
}
