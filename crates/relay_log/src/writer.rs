//! Opening and writing the log: one writer, one write per append, new files only between transactions.
//!
//! In: whole events. Out: files on disk, chunks in memory for the reader. Never here: a wait for a sync (except for a
//! new file's header and a truncation), a file that does not begin with what its reader needs.

use std::fs::{DirBuilder, File, OpenOptions};
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use base::{GtidSet, LogPosition};
use binlog::ChecksumAlgorithm;

use crate::cut_back::cut_back;
use crate::disk::RelayFs;
use crate::file_header::{SourceHeaders, closing_rotate, own_head};
use crate::names::file_name;
use crate::recover::{Scan, StoreState, mend, scan};
use crate::shared::{ChunkEnd, Next, RelayShared};
use crate::state::State;
use crate::sync::{RelaySync, SyncStep, Syncer};
use crate::{
    AppendMeta, Chunk, Damage, MAGIC, OnDamage, ReaderOptions, Recovery, RelayError, RelayOptions, RelayPosition,
    RelayReader, StartPoint, TruncateReport,
};

#[derive(Debug)]
pub struct RelayLog;

impl RelayLog {
    /// Recovers and opens the log in `options.dir`. The first file is created by [`RelayWriter::note_source_headers`],
    /// not here.
    ///
    /// # Errors
    /// Files are damaged or missing, or the operating system fails.
    pub fn open(options: RelayOptions) -> Result<(RelayWriter, Recovery), RelayError> {
        let (mut writer, recovery) = RelayLog::open_without_sync(&options)?;
        let syncer = Syncer::new(writer.shared());
        let thread = options
            .affinity
            .spawn("relay-sync", move || syncer.run())
            .map_err(|e| RelayError::io("start a thread for", &options.dir, &e))?;
        writer.thread = Some(thread);
        Ok((writer, recovery))
    }

    /// As [`open`](Self::open), for a driver that syncs in its own steps, whatever the policy: no thread is started.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_stepped(options: &RelayOptions) -> Result<(RelayWriter, Recovery, SyncStep), RelayError> {
        let (writer, recovery) = RelayLog::open_without_sync(options)?;
        let sync = SyncStep::new(writer.shared());
        Ok((writer, recovery, sync))
    }

    fn open_without_sync(options: &RelayOptions) -> Result<(RelayWriter, Recovery), RelayError> {
        let dir = &options.dir;
        DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(dir)
            .map_err(|e| RelayError::io("make folder", dir, &e))?;
        if let Some(above) = dir.parent().filter(|above| !above.as_os_str().is_empty()) {
            // The folder's own name must be durable before anything in it counts.
            RelayFs::default().sync_folder(above)?;
        }
        let (scan, shared, start) = recover(options)?;
        let recovery = scan.recovery(start);
        let mut end = scan.end();
        if scan.files.is_empty() {
            end.file_number = scan.last_used;
        }
        let writer = RelayWriter {
            sync: Arc::new(RelaySync::new(Arc::clone(&shared))),
            shared,
            thread: None,
            max_file_bytes: options.max_file_bytes,
            server_id: options.server_id,
            file: None,
            number: end.file_number,
            name: file_name(end.file_number).into(),
            len: end.offset,
            committed: end.offset,
            last_is_closed: scan.last_is_closed || scan.files.is_empty(),
            file_checksum: scan.checksum,
            headers: None,
            source_position: scan.source_position,
            retrieved: scan.retrieved,
        };
        Ok((writer, recovery))
    }
}

/// Repairs the folder and finds the start.
fn recover(options: &RelayOptions) -> Result<(Scan, Arc<RelayShared>, StartPoint), RelayError> {
    let disk = RelayFs::new(options.disk_watch.clone());
    if let Some(end) = options.keep_up_to {
        cut_back(&disk, &options.dir, end)?;
    }
    let mut held = StoreState {
        executed: Some(&options.executed),
        resume_at: options.resume_at.as_ref().and_then(RelayPosition::of),
        on_damage: options.on_damage,
    };
    let mut before: Option<Scan> = None;
    loop {
        let mut found = scan(&options.dir, held)?;
        let state_file = mend(&disk, &options.dir, &found)?;
        if let Some(before) = before {
            found.add_reports_of(before);
        }
        let shared = Arc::new(RelayShared::new(options, disk.clone(), &found.files, Some(state_file)));
        let start = shared.start_point(&options.executed, options.resume_at.as_ref())?;
        // Bytes that are replayed although the store named a later position were not verified.
        if options.on_damage == OnDamage::Refuse
            || held.resume_at.is_none_or(|verified_from| start.position >= verified_from)
        {
            return Ok((found, shared, start));
        }
        held.resume_at = Some(start.position);
        before = Some(found);
    }
}

/// The only writer of a log.
#[derive(Debug)]
pub struct RelayWriter {
    shared: Arc<RelayShared>,
    sync: Arc<RelaySync>,
    thread: Option<JoinHandle<()>>,
    max_file_bytes: u64,
    server_id: u32,
    /// The current file; None until the first file of this run is created.
    file: Option<Arc<File>>,
    number: u64,
    name: Arc<str>,
    len: u64,
    committed: u64,
    /// True if the last file on disk ends with its closing ROTATE (or there is no file).
    last_is_closed: bool,
    /// Checksum algorithm of the events in the last file.
    file_checksum: ChecksumAlgorithm,
    headers: Option<SourceHeaders>,
    source_position: Option<LogPosition>,
    retrieved: GtidSet,
}

impl RelayWriter {
    /// Stores and writes the first events from a source: its (artificial) ROTATE and its FORMAT_DESCRIPTION event, each
    /// whole, with header. Only outside a transaction. Called before the first [`append`](Self::append), after every
    /// reconnect, and at every new file of the source. The events are repeated at the start of each of our later files.
    ///
    /// # Errors
    /// The events are of other types or damaged, a transaction is open, or writing fails.
    pub fn note_source_headers(&mut self, rotate: &[u8], fde: &[u8]) -> Result<(), RelayError> {
        self.check()?;
        if self.len > self.committed {
            return Err(RelayError::Misuse("a source's file cannot begin inside a transaction"));
        }
        let headers = SourceHeaders::parse(rotate, fde)?;
        let same_file = self.file.is_some() && self.file_checksum == headers.checksum && self.len < self.max_file_bytes;
        let bytes = headers.events(None);
        self.source_position = Some(headers.position.clone());
        let checksum = headers.checksum;
        self.headers = Some(headers);
        if same_file { self.write(bytes, ChunkEnd::Control, Next::Append) } else { self.start_file(bytes, checksum) }
    }

    /// Writes whole events with one write and hands them to the reader. Returns the end. Begins a new file first if the
    /// last append exceeded the size limit and no transaction is open. Waits before a transaction while the files
    /// exceed [`RelayOptions::space_limit_bytes`], see [`RelayShared::space`] and [`RelayShared::end_space_wait`].
    ///
    /// # Errors
    /// The log is poisoned (any failed write poisons it; the file is truncated to its last whole transaction), or the
    /// caller violates the contract of [`AppendMeta`].
    pub fn append(&mut self, data: Vec<u8>, meta: AppendMeta<'_>) -> Result<RelayPosition, RelayError> {
        self.append_before(Next::Wait, data, meta)
    }

    /// As [`append`](Self::append), for a caller that knows its next action.
    pub(crate) fn append_before(
        &mut self,
        next: Next,
        data: Vec<u8>,
        meta: AppendMeta<'_>,
    ) -> Result<RelayPosition, RelayError> {
        self.check()?;
        if !meta.ends_transaction && !meta.gtids.is_empty() {
            return Err(RelayError::Misuse("an append with a completed transaction must end after it"));
        }
        if self.headers.is_none() {
            return Err(RelayError::Misuse("append before note_source_headers"));
        }
        let outside = self.len == self.committed;
        let more = data.len() as u64;
        let must_wait = outside && more > 0 && self.shared.must_wait(more);
        // A closed file can be purged, the current file cannot.
        let is_due = |more| self.len >= self.max_file_bytes || more > 0 && self.shared.take_rotation();
        if outside && is_due(more) || must_wait && self.shared.last_holds_transactions() {
            self.start_next_file()?;
        }
        if must_wait {
            self.shared.wait_for_space(more)?;
        }
        if !data.is_empty() {
            let anonymous = meta.gtids.is_empty();
            let count = meta.gtids.len().max(1) as u64;
            let end = if meta.ends_transaction { ChunkEnd::Transaction { anonymous, count } } else { ChunkEnd::Open };
            self.write(data, end, next)?;
        }
        if meta.ends_transaction {
            for gtid in meta.gtids {
                self.retrieved.add(*gtid);
            }
            self.source_position = Some(meta.source_position);
        }
        Ok(self.position())
    }

    /// Begins a new file if the last one holds transactions and none is open, so that a purge can free it.
    ///
    /// # Errors
    /// The log is poisoned or the new file cannot be written, which poisons it.
    pub(crate) fn close_file(&mut self) -> Result<(), RelayError> {
        self.check()?;
        if self.len == self.committed && self.shared.last_holds_transactions() {
            self.start_next_file()?;
        }
        Ok(())
    }

    /// Begins the next file of the same file of the source; the caller knows that no transaction is open.
    fn start_next_file(&mut self) -> Result<(), RelayError> {
        // Nothing was received yet, so the log has no file of this run to follow.
        let Some(headers) = &self.headers else { return Ok(()) };
        let at = self.source_position.as_ref().unwrap_or(&headers.position);
        let (bytes, checksum) = (headers.events(Some(at)), headers.checksum);
        self.start_file(bytes, checksum)
    }

    /// Truncates the file to its last whole transaction, durably; None if no transaction was open.
    ///
    /// # Errors
    /// The log is poisoned or the truncation fails.
    pub fn abort_partial(&mut self) -> Result<Option<RelayPosition>, RelayError> {
        self.check()?;
        if self.len == self.committed {
            return Ok(None);
        }
        self.truncate_open().map_err(|e| self.shared.poison(e))?;
        Ok(Some(self.position()))
    }

    /// Truncates the log to the whole transactions before a damage; `executed` is the store's GTID set at its last
    /// durable cut. The caller then requests from the source what follows [`retrieved`](Self::retrieved), and passes
    /// its headers before the next append. A reader that was given bytes after that position gets
    /// [`RelayError::Truncated`]; the next one is opened at a new [`RelayShared::start_point`].
    ///
    /// # Errors
    /// The log is poisoned or the operating system fails (which poisons it).
    pub fn truncate_to(&mut self, damage: &Damage, executed: &GtidSet) -> Result<TruncateReport, RelayError> {
        self.abort_partial()?;
        let len = self.shared.files().iter().find(|(number, _)| file_name(*number) == damage.file).map_or(0, |f| f.1);
        self.shared.truncate_to_damage(damage).map_err(|e| self.shared.poison(e))?;
        let end = damage.whole_up_to;
        self.file = None;
        self.headers = None;
        self.retrieved.clone_from(&damage.retrieved_before);
        self.retrieved.union_with(executed);
        match &damage.kept {
            Some(kept) => {
                self.number = end.file_number;
                self.last_is_closed = kept.closed;
                self.file_checksum = kept.checksum;
                self.source_position.clone_from(&kept.source_position);
            }
            // The number is kept, so that the next file gets a new one.
            None => (self.last_is_closed, self.source_position) = (true, None),
        }
        self.name = file_name(self.number).into();
        (self.len, self.committed) = (end.offset, end.offset);
        Ok(damage.report(len))
    }

    /// A vector for the next append, with capacity for `capacity` bytes; its content is arbitrary.
    #[must_use]
    pub fn spare_buffer(&self, capacity: usize) -> Vec<u8> {
        self.shared.buffers.take(capacity)
    }

    /// End of the written bytes.
    #[must_use]
    pub fn position(&self) -> RelayPosition {
        RelayPosition { file_number: self.number, offset: self.len }
    }

    /// GTIDs of all whole transactions retrieved, purged files included.
    #[must_use]
    pub fn retrieved(&self) -> &GtidSet {
        &self.retrieved
    }

    /// End of the last whole transaction, in the source's log.
    #[must_use]
    pub fn source_position(&self) -> Option<&LogPosition> {
        self.source_position.as_ref()
    }

    /// The part that other threads use: for [`RelayReader::open`], purging, sizes.
    #[must_use]
    pub fn shared(&self) -> Arc<RelayShared> {
        Arc::clone(&self.shared)
    }

    /// Synced positions, waits and requests for a sync.
    #[must_use]
    pub fn sync(&self) -> Arc<RelaySync> {
        Arc::clone(&self.sync)
    }

    /// A replay reader from the start of the first file.
    #[must_use]
    pub fn reader(&self) -> RelayReader {
        RelayReader::open(self.shared(), ReaderOptions::REPLAY)
    }

    /// Total bytes of all files.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.shared.total_bytes()
    }

    /// Truncates an open transaction, syncs, and marks the log as cleanly closed. A writer that is dropped instead
    /// leaves the log as a crash would.
    ///
    /// # Errors
    /// The log is poisoned or the operating system fails.
    pub fn close(mut self) -> Result<(), RelayError> {
        self.abort_partial()?;
        self.stop_thread();
        let files = {
            let state = self.shared.lock();
            state.check()?;
            state.sync.unsynced.clone()
        };
        for (number, file) in files {
            let path = self.shared.path(number);
            let io = |e| self.shared.poison(RelayError::io("sync", &path, &e));
            self.shared.disk.sync_data(&file, &path).map_err(io)?;
        }
        let synced = self.position();
        {
            // Readers of synced bytes see all of them.
            let mut state = self.shared.lock();
            (state.sync.synced, state.sync.synced_whole) = (synced, self.committed);
        }
        self.shared.note_synced(synced);
        match self.shared.lock_state_file().as_mut() {
            Some(state_file) => state_file.write(State::at(synced, true))?,
            None => return Err(RelayError::Closed),
        }
        self.shared.disk.sync_folder(&self.shared.dir)
    }

    fn check(&self) -> Result<(), RelayError> {
        self.shared.lock().check()
    }

    fn stop_thread(&mut self) {
        self.shared.lock().sync.stopping = true;
        self.shared.sync_condvar.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed; there is nothing to clean up.
            let _ = thread.join();
        }
    }

    /// Makes one write at the end of the current file. A failure truncates the file and poisons the log.
    fn write(&mut self, data: Vec<u8>, end: ChunkEnd, next: Next) -> Result<(), RelayError> {
        let Some(file) = &self.file else { return Err(RelayError::Misuse("no relay log file is open")) };
        let path = self.shared.path(self.number);
        if let Err(e) = self.shared.disk.write_at(file, &path, &data, self.len) {
            let error = RelayError::io("write to", &path, &e);
            // Truncated bytes must first count as written, so that all who share the state see them removed.
            let truncated = self.truncate_open();
            let error = self.shared.poison(error);
            return Err(truncated.err().unwrap_or(error));
        }
        let chunk = Chunk {
            file_number: self.number,
            file: Arc::clone(&self.name),
            offset: self.len,
            data: self.shared.buffers.share(data),
            hot: true,
        };
        self.len += chunk.data.len() as u64;
        if end != ChunkEnd::Open {
            self.committed = self.len;
        }
        self.shared.publish(chunk, end, next);
        Ok(())
    }

    fn truncate_open(&mut self) -> Result<(), RelayError> {
        self.shared.truncate_open()?;
        self.len = self.committed;
        let Some(file) = &self.file else { return Ok(()) };
        let path = self.shared.path(self.number);
        let io = |e| RelayError::io("cut", &path, &e);
        self.shared.disk.truncate(file, &path, self.committed).map_err(io)?;
        self.shared.disk.sync_all(file, &path).map_err(|e| RelayError::io("sync", &path, &e))
    }

    /// Closes the current file and begins the next one with our header and the source's two events.
    fn start_file(&mut self, source_events: Vec<u8>, checksum: ChecksumAlgorithm) -> Result<(), RelayError> {
        self.try_start_file(source_events, checksum).map_err(|e| self.shared.poison(e))
    }

    fn try_start_file(&mut self, source_events: Vec<u8>, checksum: ChecksumAlgorithm) -> Result<(), RelayError> {
        let next = self.number + 1;
        let next_name = file_name(next);
        if !self.last_is_closed {
            self.close_last(&next_name)?;
        }
        let path = self.shared.path(next);
        let io = |e| RelayError::io("create", &path, &e);
        let disk = self.shared.disk.clone();
        let file = disk.create_new(&path).map_err(io)?;
        let mut head = own_head(self.server_id, checksum, &self.retrieved);
        head.extend(source_events);
        let written = disk.write_at(&file, &path, &head, 0).map_err(io);
        let synced = |()| disk.sync_all(&file, &path).map_err(|e| RelayError::io("sync", &path, &e));
        if let Err(error) = written.and_then(synced) {
            let _ = disk.remove(&path);
            return Err(error);
        }
        // The name must be durable before the index has it: otherwise a power cut can keep the index and lose the file.
        disk.sync_folder(&self.shared.dir)?;
        // The index makes the file count: until then a crash leaves a file that the next start deletes. If this fails,
        // the index may name the file or not, so the file is kept.
        let shared = Arc::clone(&self.shared);
        let index = shared.lock_index();
        shared.add_to_index(&index, next)?;
        let file = Arc::new(file);
        self.file = Some(Arc::clone(&file));
        self.number = next;
        self.name = next_name.into();
        self.len = head.len() as u64;
        self.committed = self.len;
        self.last_is_closed = false;
        self.file_checksum = checksum;
        head.drain(..MAGIC.len());
        let chunk = Chunk {
            file_number: next,
            file: Arc::clone(&self.name),
            offset: MAGIC.len() as u64,
            data: Arc::new(head.into()),
            hot: true,
        };
        shared.publish_file(&index, file, self.retrieved.clone(), chunk, checksum == ChecksumAlgorithm::None);
        Ok(())
    }

    /// Ends the last file with a ROTATE that names the next one: a file without it was cut off.
    fn close_last(&mut self, next_name: &str) -> Result<(), RelayError> {
        let path = self.shared.path(self.number);
        let io = |e| RelayError::io("close", &path, &e);
        let file = match &self.file {
            Some(file) => Arc::clone(file),
            // A file of an earlier run.
            None => Arc::new(OpenOptions::new().read(true).write(true).open(&path).map_err(io)?),
        };
        let event = closing_rotate(self.server_id, self.len, next_name, self.file_checksum);
        let disk = &self.shared.disk;
        if let Err(e) = disk.write_at(&file, &path, &event, self.len) {
            // Keeps the file valid; the log is poisoned either way.
            let _ = disk.truncate(&file, &path, self.len);
            return Err(io(e));
        }
        if self.file.is_none() {
            // The sync thread does not know this file.
            disk.sync_all(&file, &path).map_err(|e| RelayError::io("sync", &path, &e))?;
        }
        let chunk = Chunk {
            file_number: self.number,
            file: Arc::clone(&self.name),
            offset: self.len,
            data: Arc::new(event.into()),
            hot: true,
        };
        self.len += chunk.data.len() as u64;
        self.committed = self.len;
        self.last_is_closed = true;
        self.shared.publish(chunk, ChunkEnd::Control, Next::Wait);
        Ok(())
    }
}

impl Drop for RelayWriter {
    fn drop(&mut self) {
        self.stop_thread();
        self.shared.lock().closed = true;
        self.shared.wake_all();
    }
}
