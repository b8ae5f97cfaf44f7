//! Manual pages and completions of shells, made of the command line's own description.
//!
//! In: a folder. Out: `man1/slipstream*.1`, `completions/` with a file for each shell. Never here: a text of its own.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use base::own_files::OpenFolder;
use clap::{Command, CommandFactory as _};
use clap_complete::{Generator as _, Shell};
use replica::Failure;

use crate::cli::Cli;

/// The program's name, also in names of files.
const NAME: &str = "slipstream";
/// Mode of the files.
const MODE: u32 = 0o644;

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
    let open = |name: &str| {
        let path = folder.join(name);
        // Everybody reads them, only the owner writes them, whatever the umask.
        DirBuilder::new().recursive(true).mode(0o755).create(&path)?;
        OpenFolder::open(&path)
    };
    let (pages, completions) = (open("man1")?, open("completions")?);
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let count = write_pages(command, &pages)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Cli::command(), NAME, &mut text);
        completions.replace(OsStr::new(&shell.file_name(NAME)), MODE, &text)?;
    }
    Ok(count)
}

/// Writes the page of a command and those of its own commands; returns their number.
fn write_pages(command: Command, pages: &OpenFolder) -> io::Result<usize> {
    let mut count = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        count += write_pages(below.clone(), pages)?;
    }
    let page = clap_mangen::Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    pages.replace(OsStr::new(&page.get_filename()), MODE, &text)?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

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

    #[test]
    fn nobody_else_may_write_them_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        fs::create_dir(at("man1")).unwrap();
        fs::write(at("mine"), "precious").unwrap();
        symlink("../mine", at("man1/slipstream.1")).unwrap();
        symlink("../mine", at("man1/slipstream.1.new")).unwrap();
        write(folder.path(), &mut io::sink()).unwrap();
        assert_eq!(fs::read_to_string(at("mine")).unwrap(), "precious");
        let mode = |path: &str| fs::symlink_metadata(at(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode("man1/slipstream.1") & 0o022, 0);
        assert_eq!(mode("completions") & 0o022, 0);
    }
}
