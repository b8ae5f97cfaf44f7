//! The front half of replay: splits a log into pieces and decodes them, each stage in threads of its own.
//!
//! In: a log that is followed or read to its end. Out: pieces in log order, or decoded pieces in any order. Split
//! reserves memory in log order, so a full queue can never hold what an earlier piece waits for. The thread that
//! takes the pieces sequences them and publishes each epoch's catalog; dropping the front half ends its threads.
//! Never here: a store.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::LogPosition;
use base::queue::{self, Received, Waker, queue};
use catalog::Catalog;
use crossbeam_channel::{Receiver, Sender, bounded};
use decode::{
    DecodeOptions, DecodePiece, DecodedPiece, Decoder, MemoryGate, Piece, SharedCatalog, SpareBuffers, SplitOptions,
    Splitter,
};
use relay_log::{RelayError, TailItem};

use crate::shutdown::Shutdown;
use crate::stages::SplitStage;
use crate::threads::Threads;

/// Reads the relay log; waits at most the given time for more.
pub type LogSource = Box<dyn FnMut(Duration) -> Result<TailItem, RelayError> + Send>;

/// Queue lengths in pieces; memory is bounded by the gate, so these only bound wake-ups.
pub(crate) const QUEUE_PIECES: usize = 64;
/// A sleeping stage is woken once this many pieces are queued, or when the stage before it runs out of work. A higher
/// number would save system calls, but queued pieces would drop out of the cores' caches.
pub(crate) const WAKE_PIECES: usize = 8;
/// The same for sequencing, which does little work per piece.
pub(crate) const WAKE_SEQUENCE_PIECES: usize = 16;
/// Emptied buffers kept per decoder for reuse.
const SPARE_PER_DECODER: usize = 4;
/// Longest wait for input before a stage checks whether replay ends.
pub(crate) const IDLE_WAIT: Duration = Duration::from_millis(100);

/// How a log is split and decoded.
pub struct FrontOptions {
    /// Decoder threads, at least 1.
    pub decoders: usize,
    /// Limit, in bytes, of all pieces between split and the end of apply.
    pub memory_bytes: u64,
    pub sizes: SplitOptions,
    pub decode: DecodeOptions,
    /// Table definitions at the start of the log.
    pub catalog: Catalog,
}

/// What the front half's threads share with the thread that takes their pieces.
pub struct Feed {
    /// Bytes in flight.
    pub gate: Arc<MemoryGate>,
    /// Catalog of each epoch: the sequencing thread publishes it, decoders wait for it.
    pub catalogs: Arc<SharedCatalog>,
    /// Relay log position up to which split has handed on pieces.
    position: Arc<Mutex<LogPosition>>,
    shutdown: Arc<Shutdown>,
}

impl Feed {
    /// Relay log position up to which the log was read.
    pub(crate) fn position(&self) -> Arc<Mutex<LogPosition>> {
        Arc::clone(&self.position)
    }
}

impl Drop for Feed {
    /// Unblocks everybody: the splitter (pieces left in queues hold its memory) and decoders that wait for an epoch
    /// that will never be published.
    fn drop(&mut self) {
        self.shutdown.close();
        self.gate.open();
        self.catalogs.close();
    }
}

pub struct Split {
    /// Shared state; dropping it ends the splitter.
    pub feed: Feed,
    /// In log order.
    pub pieces: queue::Receiver<Piece>,
}

/// A running splitter with its decoders. `T` is what a decoder makes of a piece.
pub struct Front<T = DecodedPiece> {
    /// Shared state; dropping it ends splitter and decoders.
    pub feed: Feed,
    /// In any order.
    pub pieces: queue::Receiver<T>,
    /// Returns buffers of completed pieces to the decoders.
    pub spare: Sender<SpareBuffers>,
    waker: Waker<T>,
}

impl Split {
    /// Starts the splitter's thread.
    #[must_use]
    pub fn start(
        source: LogSource,
        memory_bytes: u64,
        sizes: SplitOptions,
        catalog: Catalog,
        threads: &Arc<Threads>,
    ) -> Split {
        let gate = MemoryGate::new(memory_bytes);
        let catalogs = Arc::new(SharedCatalog::new(catalog));
        let position = Arc::new(Mutex::new(LogPosition { file: Arc::from(""), offset: 0 }));
        threads.on_failure({
            let (gate, catalogs) = (Arc::clone(&gate), Arc::clone(&catalogs));
            move || {
                gate.open();
                catalogs.close();
            }
        });
        let (output, pieces) = queue::<Piece>(QUEUE_PIECES, WAKE_PIECES);
        gate.flush_before_waiting({
            let waker = output.waker();
            move || waker.flush()
        });
        threads.spawn("split", {
            let (threads, position) = (Arc::clone(threads), Arc::clone(&position));
            let splitter = Splitter::with_options(Arc::clone(&gate), sizes);
            move || split(source, &threads, &position, splitter, &output)
        });
        Split { feed: Feed { gate, catalogs, position, shutdown: Arc::clone(threads.shutdown()) }, pieces }
    }

    /// Starts `decoders` threads, each with a decoder from `make`. A sleeping receiver of the pieces is woken for
    /// every `wake` of them, or when the decoders run out of work.
    #[must_use]
    pub fn decode<D: DecodePiece + Send + 'static>(
        self,
        decoders: usize,
        wake: usize,
        make: impl Fn() -> D,
        threads: &Arc<Threads>,
    ) -> Front<D::Decoded> {
        let Split { feed, pieces: from_split } = self;
        let (output, pieces) = queue::<D::Decoded>(QUEUE_PIECES, wake);
        let (to_spare, spare) = spare_buffers(decoders);
        let waker = output.waker();
        for i in 0..decoders {
            let (input, output, spare) = (from_split.clone(), output.clone(), spare.clone());
            let (decoder, catalogs) = (make(), Arc::clone(&feed.catalogs));
            threads.spawn(&format!("decode-{i}"), move || decode(decoder, &input, &output, &spare, &catalogs));
        }
        Front { feed, pieces, spare: to_spare, waker }
    }
}

impl Front {
    /// Starts the splitter and the decoders of row changes.
    #[must_use]
    pub fn start(source: LogSource, options: FrontOptions, threads: &Arc<Threads>) -> Front {
        let FrontOptions { decoders, memory_bytes, sizes, decode, catalog } = options;
        let split = Split::start(source, memory_bytes, sizes, catalog, threads);
        split.decode(decoders.max(1), WAKE_SEQUENCE_PIECES, || Decoder::new(decode.clone()), threads)
    }
}

impl<T> Front<T> {
    /// Returns a handle that wakes the receiver of the pieces.
    #[must_use]
    pub fn waker(&self) -> Waker<T> {
        self.waker.clone()
    }
}

/// Creates the channel that returns emptied buffers to this many decoders.
pub(crate) fn spare_buffers(decoders: usize) -> (Sender<SpareBuffers>, Receiver<SpareBuffers>) {
    bounded(SPARE_PER_DECODER * decoders.max(1))
}

fn split(
    mut source: LogSource,
    threads: &Threads,
    position: &Mutex<LogPosition>,
    splitter: Splitter,
    output: &queue::Sender<Piece>,
) {
    let mut wanted = true;
    let mut stage = SplitStage::new(splitter);
    // Take what is available. If there is nothing, flush the pieces already split before waiting: the stages after
    // this one must not wait for a wake-up batch to fill.
    let mut next = || match source(Duration::ZERO) {
        Ok(TailItem::Idle) => {
            output.flush();
            source(IDLE_WAIT)
        }
        item => item,
    };
    let result = loop {
        if threads.shutdown().stops_reading() || !wanted {
            return;
        }
        let item = match next() {
            Ok(TailItem::Closed) => return,
            Ok(item) => item,
            Err(error) => break stage.stop_of(&error),
        };
        let moves = matches!(item, TailItem::Chunk(_));
        let done = stage.step(item, &mut |piece| {
            wanted = output.send(piece).is_ok();
            wanted
        });
        if moves {
            stage.position().clone_into(&mut position.lock().unwrap_or_else(PoisonError::into_inner));
        }
        if let Err(stop) = done {
            break *stop;
        }
    };
    if wanted {
        threads.set_fault(result);
    }
}

fn decode<D: DecodePiece>(
    mut decoder: D,
    input: &queue::Receiver<Piece>,
    output: &queue::Sender<D::Decoded>,
    spare: &Receiver<SpareBuffers>,
    catalogs: &SharedCatalog,
) {
    loop {
        let piece = match input.try_recv() {
            Received::Item(piece) => piece,
            Received::Ended => {
                // Another decoder may wait for the epoch that a piece sent just now leads to.
                output.flush();
                return;
            }
            Received::Nothing => {
                output.flush();
                match input.recv() {
                    Some(piece) => piece,
                    None => return,
                }
            }
        };
        let decoded = decode_one(&mut decoder, piece, spare, catalogs, || output.flush());
        if decoded.is_none_or(|decoded| output.send(decoded).is_err()) {
            return;
        }
    }
}

/// Decodes one piece, reusing returned buffers. None when the catalog of its epoch will never be published.
pub(crate) fn decode_one<D: DecodePiece>(
    decoder: &mut D,
    piece: Piece,
    spare: &Receiver<SpareBuffers>,
    catalogs: &SharedCatalog,
    before_waiting: impl FnOnce(),
) -> Option<D::Decoded> {
    if let Ok(buffers) = spare.try_recv() {
        decoder.recycle(buffers);
    }
    let epoch = piece.epoch_to_decode();
    let (catalog, version) = catalogs.get(epoch).or_else(|| {
        before_waiting();
        catalogs.wait(epoch)
    })?;
    Some(decoder.decode(piece, &catalog, version))
}
