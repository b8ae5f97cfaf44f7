//! Packages that are linked into the program: none that only the lab needs.
//!
//! In: the workspace's manifests and its lock file. Out: a fault for each package that the program must not have. Never
//! here: dependencies of tests, which the program does not have.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Fault, Repository, fault};

/// Package of the program.
const PROGRAM: &str = "slipstream";
/// TPC-C's driver and all else of the lab is in `lab`.
const FORBIDDEN: [&str; 4] = ["lab", "plotters", "plotters-svg", "inferno"];

/// Faults of the program's dependencies, by the manifests and the text of the lock file.
#[must_use]
pub fn forbidden(repository: &Repository, lock_file: &str) -> Vec<Fault> {
    let own = manifests(repository);
    let locked = locked(lock_file);
    let mut reached = BTreeSet::new();
    let mut open = vec![PROGRAM.to_owned()];
    while let Some(name) = open.pop() {
        if reached.insert(name.clone()) {
            // Of our own packages the lock file lists what tests need, too.
            open.extend(own.get(&name).or_else(|| locked.get(&name)).into_iter().flatten().cloned());
        }
    }
    let mut faults: Vec<Fault> = FORBIDDEN
        .iter()
        .filter(|name| reached.contains(**name))
        .map(|name| fault("crates/slipstream/Cargo.toml", 1, format!("{name} is linked into the program")))
        .collect();
    if reached.len() < own.len() / 2 {
        faults.push(fault("Cargo.toml", 1, format!("only {} packages are seen to be linked", reached.len())));
    }
    faults
}

/// Names in `[dependencies]` of each of our packages.
fn manifests(repository: &Repository) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for file in repository.files.iter().filter(|file| file.path.ends_with("/Cargo.toml")) {
        let (mut section, mut name, mut needed) = (String::new(), None, Vec::new());
        for line in file.text.lines() {
            let key = line.split(['=', '.', ' ']).next().unwrap_or_default();
            match line.strip_prefix('[') {
                Some(header) => section = header.trim_end_matches(']').to_owned(),
                None if section == "package" && key == "name" => {
                    name = line.split('"').nth(1).map(str::to_owned);
                }
                None if section == "dependencies" && !key.is_empty() && key != "#" => needed.push(key.to_owned()),
                None => {}
            }
        }
        found.extend(name.map(|name| (name, needed)));
    }
    found
}

/// Dependencies of each package in the lock file, of all its versions together.
fn locked(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in text.split("[[package]]").skip(1) {
        let name = package.lines().find_map(|line| line.strip_prefix("name = ")).unwrap_or_default();
        let needed = package.lines().filter_map(|line| line.strip_prefix(" \"")?.split(['"', ' ']).next());
        found.entry(name.trim_matches('"').to_owned()).or_default().extend(needed.map(str::to_owned));
    }
    found
}
