//! docs/operating/reference.md, made of the program's own tables.
//!
//! In: clap's commands, the table of options, exit and log codes. Out: the document, or how it differs from them. Never
//! here: a name, default or meaning written by hand.

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use replica::{Exit, log::Code};

use crate::cli::Cli;
use crate::options::{self, Default as OptionDefault, Kind, OPTIONS, OptionDef};

const WRITTEN: &str = include_str!("../../../docs/operating/reference.md");
const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operating/reference.md");
/// As tests/tidy wants documents.
const COLUMNS: usize = 120;

const HEAD: &str = "\
# Reference

For the one who looks something up. Generated from the program (crates/slipstream/src/reference.rs): change texts there,
then renew this document by `SLIPSTREAM_WRITE_EXPECTED=1 cargo test -p slipstream --lib reference`.
";
const COMMANDS: &str = "
## Commands

Each with the options that it alone has. `--help` shows all options of a command.

";
const OPTIONS_TEXT: &str = "
## Options

`replica` and `check` have all of these but those marked otherwise. [Options](start.md#options) in start.md says how they
are spelled and where they may stand.
";
const EXIT_CODES: &str = "
## Exit codes

| Code | Meaning |
|---|---|
";
const LOG_CODES: &str = "
## Log codes

Each log line carries a code, such as `SLIP-000001`, for alerts. A number keeps its meaning, and a meaning has one
level; ERROR means that a person must act. `--log-format json` writes the objects of mysqld's JSON sink.

| Code | Level | Meaning | What to do |
|---|---|---|---|
";

/// A list's item, broken into lines; code spans stay whole.
fn item(indent: usize, text: &str) -> String {
    let mut lines = vec![format!("{:indent$}-", "")];
    let mut quoted = false;
    let breakable: String = text
        .chars()
        .map(|c| {
            quoted ^= c == '`';
            if c == ' ' && !quoted { '\n' } else { c }
        })
        .collect();
    for word in breakable.split('\n') {
        let last = lines.last_mut().unwrap();
        if last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("{:indent$}  {word}", ""));
        } else {
            *last += &format!(" {word}");
        }
    }
    lines.join("\n") + "\n"
}

/// Sentences, each closed by a full stop.
fn sentences(parts: impl IntoIterator<Item = String>) -> String {
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts.map(|part| if part.ends_with('.') { part } else { part + "." }).collect::<Vec<_>>().join(" ")
}

fn codes<'a>(names: impl IntoIterator<Item = &'a str>, mark: &str) -> String {
    names.into_iter().map(|name| format!("`{mark}{name}`")).collect::<Vec<_>>().join(", ")
}

/// Texts with a label, none if there are none.
fn labelled(label: &str, texts: String) -> String {
    if texts.is_empty() { texts } else { format!("{label} {texts}") }
}

fn short(letter: Option<char>) -> String {
    letter.map(|letter| format!(", `-{letter}`")).unwrap_or_default()
}

/// An argument that only its command has.
fn argument(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default().join(" ");
    let is_flag = !arg.get_action().takes_values();
    let name = match arg.get_long() {
        Some(long) if is_flag => format!("--{long}"),
        Some(long) => format!("--{long} {values}"),
        None => values,
    };
    let hidden = is_flag || arg.get_long().is_none();
    let possible = arg.get_possible_values();
    let possible = codes(possible.iter().filter(|_| !is_flag).map(|value| value.get_name()), "");
    let defaults = arg.get_default_values().iter().filter(|_| !hidden).filter_map(|value| value.to_str());
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let repeatable = if matches!(arg.get_action(), ArgAction::Append) { "Repeatable" } else { "" };
    let parts = [help, labelled("One of", possible), labelled("Default:", codes(defaults, "")), repeatable.to_owned()];
    format!("`{name}`{}: {}", short(arg.get_short()), sentences(parts))
}

/// True if an argument is an option of the table; a command may have another one of that name.
fn is_option(arg: &Arg, option: &OptionDef) -> bool {
    arg.get_id() == option.name && arg.get_help().is_some_and(|help| help.to_string().starts_with(option.help))
}

fn is_own(command: &Command, arg: &Arg) -> bool {
    let id = arg.get_id().as_str();
    let inherited = arg.is_global_set() && command.get_name() != "slipstream";
    let is_shared = options::find(id).is_some_and(|option| is_option(arg, option));
    !["help", "version"].contains(&id) && !inherited && !is_shared
}

fn command_items(command: &Command, into: &mut String) {
    let usage = command.clone().render_usage().to_string().replace(['<', '>'], "");
    let usages = usage.trim_start_matches("Usage:").lines().map(str::trim);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    into.push_str(&item(0, &format!("{}: {}", codes(usages, ""), sentences([about]))));
    let own = command.get_arguments().filter(|arg| is_own(command, arg));
    own.for_each(|arg| into.push_str(&item(2, &argument(arg))));
    for below in command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set()) {
        command_items(below, into);
    }
}

/// Commands that have an option, other than `replica` and `check`.
fn owners(command: &Command, path: &str, option: &OptionDef, into: &mut Vec<String>) {
    if command.get_arguments().any(|arg| is_option(arg, option)) {
        into.push(path.to_owned());
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        owners(below, format!("{path} {}", below.get_name()).trim_start(), option, into);
    }
}

/// Which commands have an option, unless these are `replica` and `check`.
fn said_owners(program: &Command, option: &OptionDef) -> String {
    if option.group == options::DATA {
        return "Almost every command has it".to_owned();
    }
    let mut found = Vec::new();
    owners(program, "", option, &mut found);
    let others = codes(found.iter().map(String::as_str).filter(|path| !["replica", "check"].contains(path)), "");
    if option.short.is_none() && option.group == 0 {
        return "Only in option files; on the command line `-p`".to_owned();
    }
    labelled(if found.iter().any(|path| path == "replica") { "Also of" } else { "Only of" }, others)
}

fn option(program: &Command, option: &OptionDef) -> String {
    let mark = if option.group == 0 { "" } else { "--" };
    let default = match option.default {
        OptionDefault::None => String::new(),
        OptionDefault::Is(text) | OptionDefault::Said(text) => format!("Default: {text}"),
    };
    let repeatable = if matches!(option.kind, Kind::List(_)) { "Repeatable" } else { "" };
    let mysql = if option.mysql.is_empty() { String::new() } else { format!("MySQL: {}", option.mysql) };
    let parts = [
        option.help.to_owned(),
        default,
        repeatable.to_owned(),
        labelled("Also", codes(option.aliases.iter().copied(), mark)),
        labelled("In option files also", codes(option.file_names.iter().copied(), "")),
        mysql,
        said_owners(program, option),
    ];
    format!("`{mark}{} {}`{}: {}", option.name, option.value, short(option.short), sentences(parts))
}

/// The anchor of a heading, as links name it.
fn anchor(heading: &str) -> String {
    heading.to_lowercase().replace(' ', "-")
}

fn reference() -> String {
    let mut program = Cli::command();
    program.build();
    let mut headings: Vec<&str> = Vec::new();
    OPTIONS.iter().for_each(|option| {
        if !headings.contains(&option.heading) {
            headings.push(option.heading);
        }
    });
    let titles = headings.iter().copied().filter(|heading| !heading.is_empty());
    let below = titles.map(|title| format!("  - [{title}](#{})\n", anchor(title))).collect::<String>();
    let entry = |title: &str| format!("- [{title}](#{})\n", anchor(title));
    let mut out = format!("{HEAD}\n{}{}{below}", entry("Commands"), entry("Options"));
    out += &(entry("Exit codes") + &entry("Log codes"));
    out += COMMANDS;
    command_items(&program, &mut out);
    out += OPTIONS_TEXT;
    for heading in headings {
        let title = if heading.is_empty() { String::new() } else { format!("\n### {heading}\n") };
        out += &format!("{title}\n");
        let own = OPTIONS.iter().filter(|option| option.heading == heading);
        own.for_each(|own| out += &item(0, &option(&program, own)));
    }
    out += EXIT_CODES;
    let row = |cells: &[&str]| format!("| {} |\n", cells.join(" | "));
    let plain = |text: &'static str| text.trim_end_matches('.');
    Exit::ALL.iter().for_each(|exit| out += &row(&[&exit.code().to_string(), plain(exit.meaning())]));
    out += LOG_CODES;
    for code in Code::ALL {
        out += &row(&[&code.to_string(), code.level().label(), plain(code.meaning()), code.action()]);
    }
    out
}

#[test]
fn the_reference_is_that_of_the_program() {
    let found = reference();
    if std::env::var_os("SLIPSTREAM_WRITE_EXPECTED").is_some() {
        std::fs::write(PATH, &found).unwrap();
        return;
    }
    let difference = crate::interface::difference(WRITTEN, &found);
    assert!(
        found == WRITTEN,
        "docs/operating/reference.md is not the program's (- written, + found; none: another order):\n{difference}\n\
         Renew it: SLIPSTREAM_WRITE_EXPECTED=1 cargo test -p slipstream --lib reference"
    );
}

#[test]
fn items_are_broken_between_words_and_code_spans_stay_whole() {
    let text = format!("`{}` {}", "a ".repeat(30), "word ".repeat(30).trim_end());
    let item = item(2, &text);
    assert!(item.lines().all(|line| line.chars().count() <= COLUMNS && line.matches('`').count() % 2 == 0), "{item}");
    assert_eq!(item.split_whitespace().count(), 1 + text.split_whitespace().count());
}
