//! Limits in one place, each with the reason for its number.

/// Largest event a MySQL source can write: 1 GiB plus header room (`max_allowed_packet` of a replica, binlog_event.h).
pub const EVENT_LEN_MAX: usize = (1 << 30) + (1 << 20);

/// A transaction above this travels in slices, so that one transaction never needs its whole size in memory.
pub const TRANSACTION_SLICE_BYTES: usize = 16 << 20;

/// Slices of a transaction whose Gtid event says beforehand that it is above `TRANSACTION_SLICE_BYTES`: small enough that one is
/// received while another is decoded and a third applied, large enough that what each costs all workers is nothing.
pub const LARGE_SLICE_BYTES: usize = 1 << 20;

/// Target size of a batch of whole transactions: large enough to make hand-over costs vanish per row, small enough
/// that several batches per worker fit into the second-level cache's reach and memory stays fine-grained.
pub const BATCH_BYTES: usize = 256 << 10;

/// Bytes read from a relay file at once when replay is behind; as many as a buffer that is received into has room for, so
/// that each is used for the other.
pub const READ_CHUNK_BYTES: usize = 512 << 10;

/// Columns in a MySQL table at most (manual, "Limits on table column count").
pub const COLUMNS_MAX: usize = 4096;

/// Bytes of prepared XA transactions kept at most: as much as a compressed transaction may expand to. Replay stops before it
/// keeps more.
pub const PREPARED_BYTES_MAX: usize = 1 << 30;

const _: () = {
    assert!(EVENT_LEN_MAX <= u32::MAX as usize, "an event's header holds its length in 32 bits");
    assert!(BATCH_BYTES <= READ_CHUNK_BYTES, "a read makes at least one batch");
    assert!(BATCH_BYTES <= LARGE_SLICE_BYTES, "a slice is larger than what is not sliced");
    assert!(LARGE_SLICE_BYTES <= TRANSACTION_SLICE_BYTES && TRANSACTION_SLICE_BYTES < EVENT_LEN_MAX);
    assert!(PREPARED_BYTES_MAX > TRANSACTION_SLICE_BYTES, "what travels in slices may be prepared");
    assert!(COLUMNS_MAX <= u16::MAX as usize, "columns have numbers of 16 bits");
};

/// Intervals accepted in one GTID set from outside; beyond it the text or binary form is refused.
pub const GTID_INTERVALS_MAX: usize = 16 << 20;
