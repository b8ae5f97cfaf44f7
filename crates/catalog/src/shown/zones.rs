//! The time zones in which the source's sessions give times.
//!
//! In: the rules of its zones, as far as they are known. Out: a zone by an event's name for it. Never here: a guess.

use std::sync::Arc;

use values::{Zone, Zones};

use crate::default_value;

/// Zones of the source by the names that its sessions use.
#[derive(Debug, Clone, Default)]
pub struct SourceZones {
    system: Option<Zone>,
    named: Arc<Zones>,
}

impl SourceZones {
    /// `system_time_zone` is the source's variable. Where it is not UTC, `named` may have the rules of SYSTEM.
    #[must_use]
    pub fn new(system_time_zone: &str, named: Arc<Zones>) -> SourceZones {
        let system = match system_time_zone {
            "UTC" => Some(Zone::UTC),
            _ => named.named("SYSTEM").and_then(|(_, zone)| zone.cloned()),
        };
        SourceZones { system, named }
    }

    /// The zone of this name; None if it is not known.
    #[must_use]
    pub fn zone(&self, name: &str) -> Option<Zone> {
        if name.eq_ignore_ascii_case("SYSTEM") {
            return self.system.clone();
        }
        let fixed = default_value::offset_seconds(name).map(|offset| Zone::Fixed(offset.into()));
        fixed.or_else(|| self.named.named(name)?.1.cloned())
    }
}
