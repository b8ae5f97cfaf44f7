//! Limits that concern more than one crate, each with the reason for its value.

/// Largest event that a MySQL source can write, bytes: 1 GiB plus room for headers (`max_allowed_packet` of a replica,
/// binlog_event.h).
pub const EVENT_LEN_MAX: usize = (1 << 30) + (1 << 20);

/// A transaction above this many bytes travels in slices, so that its whole size is never needed in memory.
pub const TRANSACTION_SLICE_BYTES: usize = 16 << 20;

/// Bytes of a slice of a transaction whose Gtid event announces a size above `TRANSACTION_SLICE_BYTES`. Small enough
/// that one slice is received while another is decoded and a third applied; large enough that its fixed cost in each
/// worker is negligible.
pub const LARGE_SLICE_BYTES: usize = 1 << 20;

/// Target bytes of a piece of whole transactions. Large enough that the cost of handing it over is negligible per row;
/// small enough that several pieces per worker stay within reach of the second-level cache and memory is accounted in
/// small steps.
pub const PIECE_BYTES: usize = 256 << 10;

/// Bytes read from a relay file at a time while replay lags. As large as the receiver's buffers, so that each can be
/// reused for the other.
pub const READ_CHUNK_BYTES: usize = 512 << 10;

/// Most columns of a MySQL table (manual, "Limits on table column count").
pub const COLUMNS_MAX: usize = 4096;

/// Most keys of a MySQL table: 64, or up to 255 where the server was built so (`MAX_INDEXES`).
pub const KEYS_MAX: usize = 255;

/// Most bytes of prepared XA transactions kept in memory: as much as a compressed transaction may expand to. Replay
/// stops rather than keep more.
pub const PREPARED_BYTES_MAX: usize = 1 << 30;

const _: () = {
    assert!(EVENT_LEN_MAX <= u32::MAX as usize, "an event's header holds its length in 32 bits");
    assert!(PIECE_BYTES <= READ_CHUNK_BYTES, "a read makes at least one batch");
    assert!(PIECE_BYTES <= LARGE_SLICE_BYTES, "a slice is larger than an unsliced transaction");
    assert!(LARGE_SLICE_BYTES <= TRANSACTION_SLICE_BYTES && TRANSACTION_SLICE_BYTES < EVENT_LEN_MAX);
    assert!(PREPARED_BYTES_MAX > TRANSACTION_SLICE_BYTES, "what travels in slices may be prepared");
    assert!(COLUMNS_MAX <= u16::MAX as usize, "columns have numbers of 16 bits");
};

/// Most intervals accepted in one GTID set from outside; a larger text or binary form is refused.
pub const GTID_INTERVALS_MAX: usize = 16 << 20;
