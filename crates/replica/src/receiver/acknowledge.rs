//! Acknowledgements to a semi-synchronous source.
//!
//! In: positions up to which it waits, the end of the relay log, acknowledgements of replicas behind us. Out: packets
//! to the source. Never here: an acknowledgement before the sync.

use std::time::Duration;

use base::LogPosition;
use relay_log::{RelayPosition, RelayWriter};
use source::DumpStream;

use crate::after_replicas::AfterReplicas;
use crate::failure::{SourceTrouble as Trouble, relay_failure, trouble};

/// How long an acknowledgement waits for our sync; after that the source's own timeout decides.
const SYNC_WAIT: Duration = Duration::from_secs(60);
/// Time limit of a read while replicas are waited for: only what is there is taken.
const LOOK_FOR_EVENTS: Duration = Duration::from_millis(1);
/// The same while too few are connected.
const LOOK_FOR_REPLICAS: Duration = Duration::from_millis(50);

#[derive(Default)]
pub(super) struct Acknowledger {
    /// None: the source is acknowledged after our sync.
    after_replicas: Option<AfterReplicas>,
}

impl Acknowledger {
    pub(super) fn new(after_replicas: Option<AfterReplicas>) -> Acknowledger {
        Acknowledger { after_replicas }
    }

    /// Forgets what waits: the connection that asked has ended.
    pub(super) fn clear(&mut self) {
        self.after_replicas.iter_mut().for_each(AfterReplicas::clear);
    }

    pub(super) fn waits_for_replicas(&self) -> bool {
        self.after_replicas.is_some()
    }

    /// Acknowledges what enough replicas have acknowledged, if the source waits for them and sends nothing. Returns for
    /// how long to wait for more of it.
    pub(super) fn acknowledge_after_replicas(&mut self, stream: &mut DumpStream) -> Result<Option<Duration>, Trouble> {
        let Some(after) = &mut self.after_replicas else { return Ok(None) };
        if after.is_empty() || stream.buffered() {
            return Ok((!after.is_empty()).then_some(LOOK_FOR_EVENTS));
        }
        if let Some(position) = after.ready() {
            stream.ack(&position.file, position.offset).map_err(|e| trouble(&e))?;
        }
        Ok(match (after.is_empty(), after.has_too_few()) {
            (true, _) => None,
            (false, true) => Some(LOOK_FOR_REPLICAS),
            (false, false) => Some(LOOK_FOR_EVENTS),
        })
    }

    /// Tells a semi-synchronous source that everything up to `position` is durable here, once it is; or notes it down
    /// until replicas have it too. `end`: where it ends in the relay log; None: at the log's end.
    pub(super) fn acknowledge(
        &mut self,
        stream: &mut DumpStream,
        writer: &RelayWriter,
        end: Option<RelayPosition>,
        position: &LogPosition,
    ) -> Result<(), Trouble> {
        let sync = writer.sync();
        let end = end.unwrap_or_else(|| writer.position());
        sync.request_sync();
        let synced = sync.wait_synced(end, SYNC_WAIT).map_err(|e| Trouble::Fatal(relay_failure(e)))?;
        match &mut self.after_replicas {
            Some(after) if synced => after.add(position.clone(), writer.retrieved().clone()),
            None if synced => stream.ack(&position.file, position.offset).map_err(|e| trouble(&e))?,
            _ => {}
        }
        Ok(())
    }
}
