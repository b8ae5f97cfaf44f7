//! What a figure's run is given.
//!
//! In: options, and where MySQL's programs are. Out: the same. Never here: a measurement.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};

use crate::servers::{NO_MYSQLD, Programs};

/// What a figure's run is given.
pub struct Context<'a> {
    pub(super) quick: bool,
    pub(super) rounds: u32,
    pub(super) programs: Option<&'a Programs>,
    pub(super) mysqld_bin: Option<PathBuf>,
    /// Two builds of our program, where they were given.
    pub(super) binaries: &'a [PathBuf],
    /// For this figure alone; removed after it.
    pub(super) folder: PathBuf,
    pub(super) stop: &'a AtomicBool,
    pub(super) told: &'a dyn Fn(&str),
}

impl<'a> Context<'a> {
    pub(super) fn programs(&self) -> Result<&'a Programs> {
        self.programs.context(NO_MYSQLD)
    }

    /// The same, for a part of the figure.
    pub(super) fn again(&self) -> Context<'a> {
        Context { mysqld_bin: self.mysqld_bin.clone(), folder: self.folder.clone(), ..*self }
    }

    pub(super) fn tell(&self, line: &str) {
        (self.told)(line);
    }
}
