//! Replicas that have what the source lacks.
//!
//! In: what replicas had when they asked for the log, what was received, the source's executed set. Out: a warning for
//! each, once. Never here: a refusal: such a replica is served, as a stock intermediate serves it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use base::GtidSet;
use base::periods::LOOK_FOR_ERRANT;
use client::Connection;
use serve::ReplicaLine;
use source::preflight;

use super::replica_text;
use crate::failure::shown_set;
use crate::log::{self, Code};
use crate::login::SourceLogin;

#[derive(Default)]
pub(crate) struct ErrantWatch {
    /// GTIDs that the source lacks, by the replica's server_uuid.
    found: Mutex<BTreeMap<String, GtidSet>>,
    looked: Mutex<Option<Instant>>,
    asks: AtomicBool,
}

impl ErrantWatch {
    /// The GTIDs of a replica that the source lacks, as far as they are known.
    pub(crate) fn of(&self, server_uuid: &str) -> Option<GtidSet> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).get(server_uuid).cloned()
    }

    /// Looks whether replicas are ahead of what was received, and asks the source about them on a thread of its own.
    pub(crate) fn look(self: &Arc<Self>, replicas: Vec<ReplicaLine>, retrieved: &GtidSet, login: &Arc<SourceLogin>) {
        let ahead: Vec<(ReplicaLine, GtidSet)> = replicas
            .into_iter()
            .filter_map(|line| {
                let known = self.of(&line.server_uuid).unwrap_or_default();
                let ahead = line.executed.as_ref()?.subtract(retrieved).subtract(&known);
                (!ahead.is_empty()).then_some((line, ahead))
            })
            .collect();
        if ahead.is_empty() {
            return;
        }
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_some_and(|looked| looked.elapsed() < LOOK_FOR_ERRANT.get())
            || self.asks.swap(true, Ordering::AcqRel)
        {
            return;
        }
        *looked = Some(Instant::now());
        drop(looked);
        let (watch, login) = (Arc::clone(self), Arc::clone(login));
        let ask = move || {
            watch.ask(&ahead, &login);
            watch.asks.store(false, Ordering::Release);
        };
        if std::thread::Builder::new().name("errant".into()).spawn(ask).is_err() {
            self.asks.store(false, Ordering::Release);
        }
    }

    fn ask(&self, ahead: &[(ReplicaLine, GtidSet)], login: &SourceLogin) {
        // A source that cannot be asked, or cannot say, is asked again.
        let Ok(mut source) = Connection::connect(&login.for_question()) else { return };
        let mut of_any = GtidSet::new();
        ahead.iter().for_each(|(_, ahead)| of_any.union_with(ahead));
        let Ok(Ok(lacks)) = preflight::errant(&mut source, &of_any) else { return };
        for (line, ahead) in ahead {
            let errant = ahead.intersection(&lacks);
            if errant.is_empty() {
                continue;
            }
            let text = format!(
                "the replica {} has GTIDs that the source lacks (errant): {}; it is still served",
                replica_text(line),
                shown_set(&errant)
            );
            log::write(Code::ErrantGtids, "Stamp", &text);
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            found.entry(line.server_uuid.clone()).or_default().union_with(&errant);
        }
    }
}
