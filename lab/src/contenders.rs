//! Contenders: MySQL with some options, or ours, each by one option of the command line.
//!
//! In: `NAME:OPTIONS`. Out: the same as fields, and the programs that run it. Never here: a run.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, ensure};

use crate::servers::Programs;

/// Whose a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    Mysql,
    Slipstream,
}

/// A contender, as the command line describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    pub name: String,
    pub whose: Whose,
    /// Options of the server that differ from how it ships.
    pub options: Vec<String>,
    /// A library that a stock server loads first, or several, with colons between.
    pub preload: Option<PathBuf>,
    /// CPUs to which it is bound, as `taskset` takes them.
    pub cpus: Option<String>,
}

impl FromStr for Contender {
    type Err = String;

    /// `NAME:OPTIONS`. The name begins with `mysql` or `slipstream`; options are words, and
    /// `CPUS=LIST` and (of MySQL) `LD_PRELOAD=FILE` are among them.
    fn from_str(text: &str) -> Result<Contender, String> {
        let (name, words) = text.split_once(':').unwrap_or((text, ""));
        let whose = match name {
            name if name.starts_with("mysql") => Whose::Mysql,
            name if name.starts_with("slipstream") => Whose::Slipstream,
            _ => return Err(format!("'{name}': a contender's name begins with mysql or slipstream")),
        };
        let mut contender = Contender::new(name, whose, Vec::new());
        for word in words.split_whitespace() {
            match word.split_once('=') {
                Some(("LD_PRELOAD", file)) if whose == Whose::Mysql => contender.preload = Some(file.into()),
                Some(("LD_PRELOAD", _)) => return Err(format!("'{name}': only MySQL takes LD_PRELOAD")),
                Some(("CPUS", list)) => contender.cpus = Some(list.to_owned()),
                _ => contender.options.push(word.to_owned()),
            }
        }
        Ok(contender)
    }
}

impl Contender {
    /// One with these options, and nothing else that differs from how it ships.
    pub(crate) fn new(name: &str, whose: Whose, options: Vec<String>) -> Contender {
        Contender { name: name.to_owned(), whose, options, preload: None, cpus: None }
    }

    /// MySQL's programs, bound to its CPUs and with its library loaded first.
    ///
    /// # Errors
    /// The library is not there.
    pub(crate) fn programs(&self, programs: &Programs) -> Result<Programs> {
        let mut programs = programs.clone();
        if let Some(cpus) = &self.cpus {
            programs = programs.bound_to(cpus);
        }
        if let Some(preload) = &self.preload {
            let libraries = preload.to_string_lossy();
            for library in libraries.split(':') {
                ensure!(Path::new(library).is_file(), "{}: no library {library}", self.name);
            }
            programs = programs.preloading(preload, &[]);
        }
        Ok(programs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_is_one_option() {
        let contender: Contender =
            "mysql, both 0:--sync-binlog=0 --innodb-flush-log-at-trx-commit=0 CPUS=1 LD_PRELOAD=/lib/j.so"
                .parse()
                .unwrap();
        assert_eq!((contender.name.as_str(), contender.whose), ("mysql, both 0", Whose::Mysql));
        assert_eq!(contender.options, ["--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0"]);
        assert_eq!((contender.cpus.as_deref(), contender.preload), (Some("1"), Some("/lib/j.so".into())));
        let ours: Contender = "slipstream".parse().unwrap();
        assert_eq!((ours.whose, ours.options.len()), (Whose::Slipstream, 0));
        for bad in ["postgres:", "slipstream:LD_PRELOAD=/x", ""] {
            assert!(bad.parse::<Contender>().is_err(), "{bad}");
        }
    }
}
