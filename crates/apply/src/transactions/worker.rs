//! A worker that applies whole transactions.
//!
//! In: jobs from its queue. Out: rows in whatever lanes they belong to, each lane locked for one row; the transaction
//! committed. Never here: rows of a transaction whose dependencies are not done; a commit out of order, where the
//! order is preserved.

use std::ops::Range;
use std::sync::Arc;

use catalog::TableId;
use crossbeam_channel::Sender;
use decode::{DecodedPiece, SpareBuffers};
use store::Store;

use super::low_water_mark::{LowWaterMark, Waited};
use super::queue::{Job, PendingJobs, Task, WorkerQueue};
use super::{CommitOrder, HandOff, TransactionCounters, TransactionOptions, WaitAt, add};
use crate::in_flight::InFlight;
use crate::publish::Publisher;
use crate::shutdown::Shutdown;
use crate::worker::{Worker, fail, lane_of};

/// One worker of the grain of transactions.
pub(super) struct TransactionWorker {
    pub worker: Worker,
    pub store: Arc<Store>,
    pub publisher: Arc<Publisher>,
    pub options: TransactionOptions,
    pub queue: Arc<WorkerQueue>,
    pub mark: Arc<LowWaterMark>,
    pub pending: Arc<PendingJobs>,
    pub counters: Arc<TransactionCounters>,
    pub shutdown: Arc<Shutdown>,
    pub spare: Sender<SpareBuffers>,
    /// Per lane, whether the piece in hand touched it.
    pub touched: Vec<bool>,
    pub tables: Vec<TableId>,
    /// True if replay gave up inside the piece in hand.
    pub given_up: bool,
}

impl TransactionWorker {
    /// Runs until the queue is closed and empty.
    pub(super) fn run(mut self) {
        while let Some(job) = self.queue.pop() {
            self.step(job);
        }
    }

    pub(super) fn step(&mut self, job: Job) {
        let Job { task, ops, first, last, .. } = job;
        if first {
            self.given_up = !self.begin(&task);
        }
        if !self.given_up {
            self.apply(&task.flight, ops);
        }
        if self.options.hand_off == HandOff::Event {
            self.pending.removed(&self.counters);
        }
        if last && !self.given_up {
            self.end(task);
        }
    }

    /// Waits for the piece's dependencies, then drops and completes the tables that its statement names. False when
    /// replay gives up.
    fn begin(&mut self, task: &Task) -> bool {
        if self.options.wait == WaitAt::Worker {
            match self.mark.wait(task.placed.last_committed, &self.shutdown) {
                Waited::No => {}
                Waited::Yes => add(&self.counters.worker_waits),
                Waited::GivenUp => return false,
            }
        }
        let flight = &task.flight;
        if !self.worker.begin_alone(flight) {
            return false;
        }
        let (dropped, altered) = (&flight.piece().dropped, &flight.piece().altered);
        if !dropped.is_empty() || !altered.is_empty() {
            let oldest_needed = self.store.visibility().oldest_needed();
            // No lock beyond the lane's is needed: the statement claims its tables, so everybody who wrote to them is
            // done.
            let stands = flight.piece().first.0 < self.publisher.limit();
            for (index, touched) in self.touched.iter_mut().enumerate() {
                let mut lane = match lane_of(flight.layers(), index) {
                    Ok(lane) => lane,
                    Err(error) => {
                        fail(&self.publisher, flight, &error.to_string());
                        break;
                    }
                };
                for (at, table) in dropped.iter().filter(|_| stands) {
                    lane.drop_table(*table, at.0);
                }
                self.worker.complete_deltas(flight, index, &mut lane, oldest_needed);
                *touched = true;
            }
        }
        true
    }

    fn apply(&mut self, flight: &InFlight, ops: Range<usize>) {
        let (store, touched, publisher) = (&self.store, &mut self.touched, &self.publisher);
        each_list(&flight.piece().decoded, ops, |ops| {
            for op in ops {
                let lane = store.lane_of(op.hash);
                match touched.get_mut(lane) {
                    Some(touched) => *touched = true,
                    None => _ = fail(publisher, flight, "a row change of a lane that the store does not have"),
                }
            }
            self.worker.apply_in_log_order(flight, ops);
        });
    }

    fn end(&mut self, task: Arc<Task>) {
        self.tidy(&task.flight);
        let placed = task.placed;
        if placed.ends && self.options.commit_order == CommitOrder::Preserved {
            match self.mark.wait(placed.number - 1, &self.shutdown) {
                Waited::No => {}
                Waited::Yes => add(&self.counters.commit_waits),
                Waited::GivenUp => {
                    self.given_up = true;
                    return;
                }
            }
        }
        self.worker.finish(&task.flight);
        if placed.ends {
            if !self.mark.finish(placed.number) {
                fail(&self.publisher, &task.flight, &format!("transaction {} ended twice", placed.number));
            }
            self.queue.is_done_with_one();
        }
        let flight = Arc::into_inner(task).and_then(|task| Arc::into_inner(task.flight));
        if let Some(flight) = flight {
            // Fails when the decoders are gone or have enough buffers; the buffers are freed then.
            let _ = self.spare.try_send(flight.into_spare());
        }
    }

    fn tidy(&mut self, flight: &InFlight) {
        self.tables.clear();
        for shape in &flight.piece().decoded.shapes {
            let id = shape.plan.def.id;
            if !self.tables.contains(&id) {
                self.tables.push(id);
            }
        }
        let oldest_needed = self.store.visibility().oldest_needed();
        for (index, touched) in self.touched.iter_mut().enumerate() {
            if !std::mem::take(touched) {
                continue;
            }
            match lane_of(flight.layers(), index) {
                Ok(mut lane) => lane.tidy(self.tables.iter().copied(), oldest_needed),
                Err(error) => _ = fail(&self.publisher, flight, &error.to_string()),
            }
        }
    }
}

/// Calls `each` with the parts of a piece's op lists that a range over all of them covers.
pub(super) fn each_list(decoded: &DecodedPiece, range: Range<usize>, mut each: impl FnMut(&[decode::RowOp])) {
    let mut start = 0;
    for ops in decoded.lanes.iter().chain(std::iter::once(&decoded.barrier)) {
        let end = start + ops.len();
        let part = range.start.max(start)..range.end.min(end);
        if part.start < part.end {
            each(&ops[part.start - start..part.end - start]);
        }
        start = end;
    }
}
