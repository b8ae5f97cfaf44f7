//! Rows events: finds row boundaries and identifying keys, and determines each row's change.
//!
//! In: a rows event and its table's plan. Out: ops in lanes. Never here: a value unpacked; a row read under a
//! definition other than its table map's; an allocation per row once the piece's buffers are warm.

use std::sync::Arc;

use binlog::{EventHeader, PartialUpdateImage, RowsEvent, RowsKind, TableMapEvent, row_flags};
use catalog::{NamedTable, TableDef};
use observe::Category;
use values::binary_protocol::comparable_image;
use values::{OFFSET_ABSENT, OFFSET_NULL};

use crate::decode::{Decoder, Fault, binlog_fault, corrupt, unsupported};
use crate::piece::{
    BEFORE_CHECKED, BEFORE_UNCHECKED, CASCADES_LOGGED, LAST_OF_EVENT, OpKind, SPACE_BYTES, Span, part, rest, short,
};
use crate::plan::{KeyPlan, TablePlan};
use crate::stop::StopClass;
use crate::work::{Cascade, LeftOut, Merged, Place, RowsWork, Work, all_present};

/// One of a row's two images.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Image {
    Before,
    After,
}

/// Location of a key's parts in an image.
enum KeyPlace {
    /// Adjacent: start and length.
    Together(usize, usize),
    Apart,
    /// The image lacks a part.
    Missing,
}

impl Decoder {
    /// Decodes one rows event, whose body begins at `body_at` of the buffer that `tag` names.
    pub(crate) fn rows(
        &mut self,
        work: &mut Work<'_>,
        header: &EventHeader,
        body: &[u8],
        body_at: usize,
        tag: u32,
    ) -> Result<(), Fault> {
        let event = RowsEvent::parse(header.event_type, body).map_err(binlog_fault)?;
        if !self.options.for_stamps {
            work.statements.see(&event);
            self.rows_of(work, header, &event, body_at + body.len(), tag)?;
            if event.ends_statement() {
                work.statements.end();
            }
            return Ok(());
        }
        let entry = work.tables.iter().find(|entry| entry.table_id == event.table_id);
        let name = entry.and_then(|entry| entry.name.clone());
        let is_known = entry.is_none_or(|entry| matches!(entry.plan, Ok(Some(_))) && entry.merged.is_none());
        let outcome = match is_known {
            true => self.rows_of(work, header, &event, body_at + body.len(), tag),
            false => Err(unsupported("rows of an unknown table")),
        };
        match (outcome, name) {
            (Err((class, _)), Some(name)) if class != StopClass::Corrupt => {
                // What was decoded before the fault stays: claims too many do no harm.
                if !work.out.unknown.contains(&name) {
                    work.out.unknown.push(name);
                }
                work.count(header.event_type, Category::Control);
                Ok(())
            }
            (outcome, _) => outcome,
        }
    }

    /// Like `rows`, for a parsed event whose body ends at `body_end`.
    fn rows_of(
        &mut self,
        work: &mut Work<'_>,
        header: &EventHeader,
        event: &RowsEvent<'_>,
        body_end: usize,
        tag: u32,
    ) -> Result<(), Fault> {
        let Some(plan) = self.plan_of_rows(work, header, event)? else { return Ok(()) };
        self.decode_each(work, header, event, &plan, tag, body_end)
    }

    /// The plan by which the rows of an event are decoded. None if they are not: they are left out, or their table is
    /// left to its copy.
    fn plan_of_rows(
        &mut self,
        work: &mut Work<'_>,
        header: &EventHeader,
        event: &RowsEvent<'_>,
    ) -> Result<Option<Arc<TablePlan>>, Fault> {
        let Some(entry) = work.tables.iter().find(|entry| entry.table_id == event.table_id) else {
            if event.table_id == TableMapEvent::DUMMY_TABLE_ID && event.rows.is_empty() {
                work.count(header.event_type, Category::Control);
                return Ok(None);
            }
            return Err(corrupt(format!("a rows event of table id {} without a table map", event.table_id)));
        };
        if let Some(missing) = &entry.missing {
            let missing = Arc::clone(missing);
            return match self.leave_missing_to_copy(work, event.table_id, &missing)? {
                true => self.plan_of_rows(work, header, event),
                false => Ok(None),
            };
        }
        if let Some(merged) = &entry.merged
            && !(merged.inserts
                && event.kind == RowsKind::Write
                && all_present(event.after_columns, event.column_count))
        {
            let merged = Arc::clone(merged);
            return self.leave_members_to_copy(work, header, &merged).map(|()| None);
        }
        let Some(plan) = entry.plan.clone()? else {
            let left_out = entry.left_out;
            if left_out.cascades && is_unlogged(event) && event.kind != RowsKind::Write {
                return Err(unsupported(
                    "the log does not hold what a foreign key does to rows that refer to a table that is being copied or \
                     is left out by filters",
                ));
            }
            work.count(header.event_type, left_out.category);
            return Ok(None);
        };
        check_columns(&plan, event)?;
        if event.kind == RowsKind::Write
            && !all_present(event.after_columns, event.column_count)
            && let Some(why) = plan.lacks_default(event.after_columns)
        {
            return self.leave_to_copy(work, header, event.table_id, &plan, why).map(|()| None);
        }
        if plan.def.misplaced_rows
            && event.kind != RowsKind::Write
            && !all_present(event.before_columns, event.column_count)
        {
            let why = format!(
                "the row event leaves out columns, but {} has rows outside their partition's rule, which only whole \
                 images tell apart (binlog_row_image=FULL)",
                plan.def.full_name()
            );
            return self.leave_to_copy(work, header, event.table_id, &plan, why).map(|()| None);
        }
        Ok(Some(plan))
    }

    /// Decodes every row of an event whose body ends at `body_end`.
    fn decode_each(
        &mut self,
        work: &mut Work<'_>,
        header: &EventHeader,
        event: &RowsEvent<'_>,
        plan: &Arc<TablePlan>,
        tag: u32,
        body_end: usize,
    ) -> Result<(), Fault> {
        let Some(open) = &mut work.open else { return Err(corrupt("a rows event outside a transaction")) };
        let rows_before = open.rows;
        // The rows are the last part of the body.
        let rows_at = body_end - event.rows.len();
        if rows_at + event.rows.len() > SPACE_BYTES {
            return Err(unsupported("a piece of the log of more than 1 GiB"));
        }
        let shape = work.shape(header.event_type, plan, event)?;
        let mut rows = RowsWork {
            shape,
            plan,
            all: event.rows,
            base: tag | short(rows_at),
            before_present: event.before_columns,
            after_present: event.after_columns,
            before_full: all_present(event.before_columns, event.column_count),
            after_full: all_present(event.after_columns, event.column_count),
            flags: logged_cascades(plan, event),
            in_log_order: false,
            cascade: Cascade::No,
            last: None,
        };
        let unlogged = is_unlogged(event);
        let cut = work.out.piece.cut_statement && work.statements.is_first();
        if cut && plan.changed_by_cascade {
            // An earlier piece may have changed these rows by a cascade of the same statement.
            rows.flags |= BEFORE_CHECKED;
            rows.in_log_order = unlogged;
        }
        if rows.flags & CASCADES_LOGGED != 0 && event.kind != RowsKind::Write {
            work.statements.may_be_twice(cut || plan.follows_itself);
        }
        if unlogged && event.kind == RowsKind::Delete && plan.cascades_on_delete {
            rows.cascade = Cascade::OnDelete;
        }
        let updates = matches!(event.kind, RowsKind::Update | RowsKind::PartialUpdate);
        // Only a table with such foreign keys pays for comparing the images of every update.
        let watch_update = unlogged && updates && !plan.cascades_on_update_of.is_empty();
        let mut at = 0;
        let mut count = rows_before;
        if is_row_of_defaults(event) {
            self.write_row(work, &mut rows, 0)?;
            count = count.saturating_add(1);
        }
        while at < event.rows.len() {
            if watch_update {
                let cascades = self.update_cascades(&rows, at, event.kind)?;
                rows.cascade = if cascades { Cascade::OnUpdate } else { Cascade::No };
            }
            let used = match event.kind {
                RowsKind::Write => self.write_row(work, &mut rows, at)?,
                RowsKind::Update | RowsKind::PartialUpdate => self.update_row(work, &mut rows, at, event.kind)?,
                RowsKind::Delete => self.delete_row(work, &mut rows, at)?,
            };
            if used == 0 {
                return Err(corrupt("a row image of no length"));
            }
            at += used;
            count = count.saturating_add(1);
        }
        let last = match rows.last {
            Some((Place::Lane(lane), index)) => work.out.lanes.get_mut(lane).and_then(|ops| ops.get_mut(index)),
            Some((Place::Barrier, index)) => work.out.barrier.get_mut(index),
            None => None,
        };
        let counted_by = match last {
            Some(op) => {
                op.flags |= LAST_OF_EVENT;
                Category::Seen
            }
            None => Category::Control,
        };
        work.count(header.event_type, counted_by);
        if let Some(open) = &mut work.open {
            open.rows = count;
        }
        Ok(())
    }

    /// Handles rows of table map `table_id` that are sound but cannot be decoded here: the table's copy must bring
    /// them.
    fn leave_to_copy(
        &mut self,
        work: &mut Work<'_>,
        header: &EventHeader,
        table_id: u64,
        plan: &TablePlan,
        why: String,
    ) -> Result<(), Fault> {
        if self.options.for_stamps {
            return Err(unsupported(why));
        }
        let transaction = work.out.transactions.len();
        let Some(sink) = &mut work.sink else {
            work.out.needs_serial = true;
            return Ok(());
        };
        let table = (plan.def.db.clone(), plan.def.name.clone());
        if !sink.leave_to_copy(&table, transaction, &why) {
            return Err(unsupported(why));
        }
        let changed = sink.catalog();
        self.switch_catalog(work, changed);
        let left_out = LeftOut {
            category: Category::SupersededByCopy,
            cascades: plan.cascades_on_delete || !plan.cascades_on_update_of.is_empty(),
        };
        if let Some(entry) = work.tables.iter_mut().find(|entry| entry.table_id == table_id) {
            (entry.plan, entry.left_out) = (Ok(None), left_out);
        }
        work.count(header.event_type, left_out.category);
        Ok(())
    }

    /// Quarantines a table that is not here: its copy must bring its rows. False if the piece must be decoded in order.
    fn leave_missing_to_copy(&mut self, work: &mut Work<'_>, table_id: u64, table: &NamedTable) -> Result<bool, Fault> {
        let transaction = work.out.transactions.len();
        let Some(sink) = &mut work.sink else {
            work.out.needs_serial = true;
            return Ok(false);
        };
        if !sink.leave_missing(table, transaction) {
            return Err(unsupported(format!("`{}`.`{}` is not here and cannot be copied", table.0, table.1)));
        }
        let changed = sink.catalog();
        self.switch_catalog(work, changed);
        if let Some(entry) = work.tables.iter_mut().find(|entry| entry.table_id == table_id) {
            (entry.missing, entry.left_out.category) = (None, Category::SupersededByCopy);
        }
        Ok(true)
    }

    /// Handles rows that were changed through a MERGE table: nobody says in which member each is, so they are all
    /// copied.
    fn leave_members_to_copy(
        &mut self,
        work: &mut Work<'_>,
        header: &EventHeader,
        merged: &Merged,
    ) -> Result<(), Fault> {
        let transaction = work.out.transactions.len();
        let Some(sink) = &mut work.sink else {
            work.out.needs_serial = true;
            return Ok(());
        };
        let why =
            format!("rows were changed through {}, a MERGE table of which it is a member", merged.def.full_name());
        for member in &merged.members {
            if !sink.written_through(member, transaction, &why) {
                let (db, name) = member;
                return Err(unsupported(format!("`{db}`.`{name}` must be copied: {why}")));
            }
        }
        let changed = sink.catalog();
        self.switch_catalog(work, changed);
        let is_member = |def: &TableDef| merged.members.iter().any(|(db, name)| *db == def.db && *name == def.name);
        for entry in &mut work.tables {
            if entry.plan.as_ref().is_ok_and(|plan| plan.as_ref().is_some_and(|plan| is_member(&plan.def))) {
                (entry.plan, entry.left_out) =
                    (Ok(None), LeftOut { category: Category::SupersededByCopy, cascades: false });
            }
        }
        let none_here = merged.members.is_empty();
        work.count(header.event_type, if none_here { Category::Filtered } else { Category::SupersededByCopy });
        Ok(())
    }

    fn walk(&mut self, rows: &RowsWork<'_>, at: usize, which: Image, offsets: Offsets) -> Result<usize, Fault> {
        let image = rest(rows.all, at);
        let (full, present, out) = match which {
            Image::Before => (rows.before_full, rows.before_present, &mut self.offsets_before),
            Image::After => (rows.after_full, rows.after_present, &mut self.offsets_after),
        };
        let layout = &rows.plan.layout;
        let walked = match (full, rows.plan.key, offsets) {
            (true, KeyPlan::Columns, _) | (true, _, Offsets::All) => layout.walk_offsets(image, out),
            (true, _, Offsets::ForKey) => layout.walk(image),
            (false, ..) => layout.walk_present(present, image, out),
        };
        walked.map_err(|e| corrupt(format!("a row of {}: {e}", rows.plan.def.full_name())))
    }

    /// Returns the identifying key of an image that was just walked; None if the image lacks a part of it.
    fn key(
        &self,
        work: &mut Work<'_>,
        rows: &RowsWork<'_>,
        at: usize,
        len: usize,
        which: Image,
    ) -> Result<Option<Span>, Fault> {
        let (full, offsets) = match which {
            Image::Before => (rows.before_full, &self.offsets_before),
            Image::After => (rows.after_full, &self.offsets_after),
        };
        let image = part(rows.all, at..at + len);
        match rows.plan.key {
            KeyPlan::WholeImage if !full => Ok(None),
            KeyPlan::WholeImage => whole_image(work, rows, at, image).map(Some),
            KeyPlan::Leading { len } if full => {
                let (start, len) = leading_key(rows.plan, image, len)?;
                Ok(Some(rows.span(at + start, len)))
            }
            _ => match place_key(rows.plan, offsets)? {
                KeyPlace::Missing => Ok(None),
                KeyPlace::Together(start, len) => Ok(Some(rows.span(at + start, len))),
                KeyPlace::Apart => {
                    let from = work.out.side.len();
                    for column in &rows.plan.key_columns {
                        if let Some(&(start, len)) = offsets.get(*column) {
                            work.out.side.extend_from_slice(column_part(image, start, len));
                        }
                    }
                    work.side_span(from).map(Some)
                }
            },
        }
    }

    fn write_row(&mut self, work: &mut Work<'_>, rows: &mut RowsWork<'_>, at: usize) -> Result<usize, Fault> {
        let len = self.walk(rows, at, Image::After, Offsets::ForKey)?;
        let (key, after) = if rows.after_full {
            (self.key(work, rows, at, len, Image::After)?, rows.span(at, len))
        } else {
            // Columns that the INSERT did not log get their default.
            let from = work.out.side.len();
            let image = part(rows.all, at..at + len);
            fill_defaults(rows.plan, image, &self.offsets_after, &mut work.out.side)?;
            let after = work.side_span(from)?;
            (self.key_of_side(work, rows.plan, from, after)?, after)
        };
        let Some(key) = key else { return Err(missing_key(rows.plan)) };
        let kind = if rows.plan.key == KeyPlan::WholeImage { OpKind::AddOne } else { OpKind::Insert };
        work.push(rows, kind, key, Span::default(), after);
        Ok(len)
    }

    /// Returns the key of a full image in the side buffer, from byte `from` on.
    fn key_of_side(
        &mut self,
        work: &mut Work<'_>,
        plan: &TablePlan,
        from: usize,
        image: Span,
    ) -> Result<Option<Span>, Fault> {
        if plan.keyless_built {
            let image = rest(&work.out.side, from).to_vec();
            return built_image(work, plan, &image).map(Some);
        }
        if plan.key == KeyPlan::WholeImage {
            return Ok(Some(image));
        }
        let bytes = rest(&work.out.side, from);
        plan.layout.walk_offsets(bytes, &mut self.offsets_after).map_err(corrupt)?;
        match place_key(plan, &self.offsets_after)? {
            KeyPlace::Missing => Ok(None),
            KeyPlace::Together(start, len) => Ok(Some(Span { offset: image.offset + short(start), len: short(len) })),
            KeyPlace::Apart => {
                let end = work.out.side.len();
                for column in &plan.key_columns {
                    if let Some(&(start, len)) = self.offsets_after.get(*column) {
                        let start = from + start as usize;
                        work.out.side.extend_from_within(start..start + len as usize);
                    }
                }
                work.side_span(end).map(Some)
            }
        }
    }

    fn update_row(
        &mut self,
        work: &mut Work<'_>,
        rows: &mut RowsWork<'_>,
        at: usize,
        kind: RowsKind,
    ) -> Result<usize, Fault> {
        let before_len = self.walk(rows, at, Image::Before, Offsets::ForKey)?;
        let head = match kind {
            RowsKind::PartialUpdate => Some(partial_head(rows, at + before_len)?),
            _ => None,
        };
        let after_at = at + before_len + head.map_or(0, |head| head.len);
        let after_len = self.walk(rows, after_at, Image::After, Offsets::ForKey)?;
        let (before, after) = (rows.span(at, before_len), rows.span(after_at, after_len));
        let used = after_at + after_len - at;
        if let Some(head) = head.filter(|head| head.partial_columns.is_some()) {
            self.update_json(work, rows, (at, before_len), (after_at, after_len), head)?;
            return Ok(used);
        }
        let Some(old_key) = self.key(work, rows, at, before_len, Image::Before)? else {
            return Err(missing_key(rows.plan));
        };
        if rows.plan.key == KeyPlan::WholeImage {
            let new_image = match self.key(work, rows, after_at, after_len, Image::After)? {
                Some(image) => image,
                None => complete(work, rows, before, after)?,
            };
            push_pair(work, rows, (OpKind::RemoveOne, old_key, before), (OpKind::AddOne, new_image, new_image));
            return Ok(used);
        }
        let new_key = if rows.after_full || self.after_touches_key(rows.plan) {
            self.new_key(work, rows, after_at, after_len, old_key)?
        } else {
            None
        };
        match new_key {
            None if rows.after_full => work.push(rows, OpKind::Update, old_key, before, after),
            None => work.push(rows, OpKind::Merge, old_key, before, after),
            Some(new_key) if rows.after_full => {
                push_pair(work, rows, (OpKind::Delete, old_key, before), (OpKind::Insert, new_key, after));
            }
            Some(new_key) => {
                work.push_barrier(rows, OpKind::MoveFrom, old_key, before, Span::default());
                work.push_barrier(rows, OpKind::MoveTo, new_key, Span::default(), after);
            }
        }
        Ok(used)
    }

    /// Decodes an update whose after image holds differences of JSON documents. If the before image is full, the
    /// documents are merged here; otherwise by the worker, which has the stored row.
    fn update_json(
        &mut self,
        work: &mut Work<'_>,
        rows: &mut RowsWork<'_>,
        (at, before_len): (usize, usize),
        (after_at, after_len): (usize, usize),
        head: PartialUpdateImage<'_>,
    ) -> Result<(), Fault> {
        let before = rows.span(at, before_len);
        let Some(old_key) = self.key(work, rows, at, before_len, Image::Before)? else {
            return Err(missing_key(rows.plan));
        };
        let keyless = rows.plan.key == KeyPlan::WholeImage;
        let changed = !keyless && (rows.after_full || self.after_touches_key(rows.plan));
        let new_key = if changed { self.new_key(work, rows, after_at, after_len, old_key)? } else { None };
        if !rows.before_full {
            // No keyless row gets here: without a full before image, `key` above finds no key and the update fails.
            let after = rows.span(after_at - head.len, head.len + after_len);
            match new_key {
                None => work.push(rows, OpKind::MergeJson, old_key, before, after),
                Some(new_key) => {
                    work.push_barrier(rows, OpKind::MoveFrom, old_key, before, Span::default());
                    work.push_barrier(rows, OpKind::MoveToJson, new_key, Span::default(), after);
                }
            }
            return Ok(());
        }
        let from = work.out.side.len();
        let image = |at: usize, len: usize| part(rows.all, at..at + len);
        let (plan, present) = (rows.plan, (!rows.after_full).then_some(rows.after_present));
        let (stored, logged) = (image(at, before_len), image(after_at, after_len));
        let partial = |column| head.is_partial(column);
        let out = &mut work.out.side;
        plan.layout.merge_partial(&plan.types, stored, present, partial, logged, out).map_err(corrupt)?;
        if keyless {
            let image = work.out.side.split_off(from);
            let new_image = built_image(work, plan, &image)?;
            push_pair(work, rows, (OpKind::RemoveOne, old_key, before), (OpKind::AddOne, new_image, new_image));
            return Ok(());
        }
        let after = work.side_span(from)?;
        match new_key {
            None => work.push(rows, OpKind::Update, old_key, before, after),
            Some(new_key) => {
                push_pair(work, rows, (OpKind::Delete, old_key, before), (OpKind::Insert, new_key, after));
            }
        }
        Ok(())
    }

    /// True if a partial after image holds a column of the key.
    fn after_touches_key(&self, plan: &TablePlan) -> bool {
        let present = |column: &usize| self.offsets_after.get(*column).is_some_and(|o| o.0 != OFFSET_ABSENT);
        plan.key_columns.iter().any(present)
    }

    /// Returns the key after an update if it differs from `old_key`. Parts that the after image lacks are unchanged.
    fn new_key(
        &mut self,
        work: &mut Work<'_>,
        rows: &RowsWork<'_>,
        at: usize,
        len: usize,
        old_key: Span,
    ) -> Result<Option<Span>, Fault> {
        let side_from = work.out.side.len();
        let span = match self.key(work, rows, at, len, Image::After)? {
            Some(span) => span,
            None => {
                let image = part(rows.all, at..at + len);
                let mut old_at = 0;
                for &column in &rows.plan.key_columns {
                    // Stored key parts are self-delimiting: walk along the old key.
                    let old = rest(work.bytes_of(rows, old_key), old_at);
                    let old_len = rows.plan.layout.stored_len(column, old).map_err(corrupt)?;
                    match self.offsets_after.get(column) {
                        Some(&(OFFSET_NULL, _)) => return Err(null_in_key(rows.plan)),
                        Some(&(start, len)) if start < OFFSET_ABSENT => {
                            work.out.side.extend_from_slice(column_part(image, start, len));
                        }
                        _ => work.copy_to_side(rows, old_key, old_at, old_at + old_len),
                    }
                    old_at += old_len;
                }
                work.side_span(side_from)?
            }
        };
        if work.bytes_of(rows, span) == work.bytes_of(rows, old_key) {
            work.out.side.truncate(side_from);
            return Ok(None);
        }
        Ok(Some(span))
    }

    fn delete_row(&mut self, work: &mut Work<'_>, rows: &mut RowsWork<'_>, at: usize) -> Result<usize, Fault> {
        let len = self.walk(rows, at, Image::Before, Offsets::ForKey)?;
        let Some(key) = self.key(work, rows, at, len, Image::Before)? else { return Err(missing_key(rows.plan)) };
        let kind = if rows.plan.key == KeyPlan::WholeImage { OpKind::RemoveOne } else { OpKind::Delete };
        work.push(rows, kind, key, rows.span(at, len), Span::default());
        Ok(len)
    }

    /// True if an UPDATE changes a column that another table's foreign key references.
    fn update_cascades(&mut self, rows: &RowsWork<'_>, at: usize, kind: RowsKind) -> Result<bool, Fault> {
        let before_len = self.walk(rows, at, Image::Before, Offsets::All)?;
        let mut after_at = at + before_len;
        if kind == RowsKind::PartialUpdate {
            after_at += partial_head(rows, after_at)?.len;
        }
        self.walk(rows, after_at, Image::After, Offsets::All)?;
        let value = |offsets: &[(u32, u32)], at: usize, column: usize| match offsets.get(column) {
            Some(&(OFFSET_ABSENT, _)) | None => None,
            Some(&(OFFSET_NULL, _)) => Some(None),
            Some(&(start, len)) => Some(rows.all.get(at + start as usize..at + (start + len) as usize)),
        };
        for &column in &rows.plan.cascades_on_update_of {
            let after = value(&self.offsets_after, after_at, column);
            // A column that the after image lacks did not change; one that only it holds did.
            if after.is_some() && after != value(&self.offsets_before, at, column) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Pushes both halves of an update that gives a row another key: kind, key and image of each.
fn push_pair(
    work: &mut Work<'_>,
    rows: &mut RowsWork<'_>,
    (old_kind, old_key, before): (OpKind, Span, Span),
    (new_kind, new_key, after): (OpKind, Span, Span),
) {
    if rows.flags & CASCADES_LOGGED != 0 {
        work.statements.pair(old_key, new_key);
    }
    work.push(rows, old_kind, old_key, before, Span::default());
    work.push(rows, new_kind, new_key, Span::default(), after);
}

/// Parses what precedes a partial update's after image, at `at`.
fn partial_head<'a>(rows: &RowsWork<'a>, at: usize) -> Result<PartialUpdateImage<'a>, Fault> {
    PartialUpdateImage::parse(rest(rows.all, at), rows.plan.json_columns).map_err(binlog_fault)
}

/// Columns whose offsets a walk must produce.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offsets {
    ForKey,
    All,
}

fn check_columns(plan: &TablePlan, event: &RowsEvent<'_>) -> Result<(), Fault> {
    if event.column_count == plan.def.columns.len() {
        return Ok(());
    }
    let (of_event, of_table) = (event.column_count, plan.def.columns.len());
    let reason = format!("a rows event of {} has {of_event} columns, the table has {of_table}", plan.def.full_name());
    Err((StopClass::DataDiffers, reason))
}

/// Returns a column's stored bytes, at offsets found by walking this image.
#[inline]
fn column_part(image: &[u8], start: u32, len: u32) -> &[u8] {
    part(image, start as usize..(start + len) as usize)
}

/// Uses the whole image as key. Copies of a row are found by their bytes, but servers differ in the null bits after
/// the last column, so an image with such bits set is copied and they are cleared. For rows with JSON values see
/// `TablePlan::keyless_built`.
fn whole_image(work: &mut Work<'_>, rows: &RowsWork<'_>, at: usize, image: &[u8]) -> Result<Span, Fault> {
    if rows.plan.keyless_built {
        return built_image(work, rows.plan, image);
    }
    let unused = rows.plan.unused_null_bits();
    let last = rows.plan.bitmap_len().saturating_sub(1);
    if image.get(last).is_none_or(|byte| byte & unused == 0) {
        return Ok(rows.span(at, image.len()));
    }
    let from = work.out.side.len();
    work.out.side.extend_from_slice(image);
    if let Some(byte) = work.out.side.get_mut(from + last) {
        *byte &= !unused;
    }
    work.side_span(from)
}

/// Finds a key made of the first columns of a full image: start and length.
fn leading_key(plan: &TablePlan, image: &[u8], len: Option<usize>) -> Result<(usize, usize), Fault> {
    let null = |column: usize| image.get(column / 8).is_some_and(|byte| byte >> (column % 8) & 1 != 0);
    let columns = plan.key_columns.len();
    if (0..columns).any(null) {
        return Err(null_in_key(plan));
    }
    let start = plan.bitmap_len();
    let len = match len {
        Some(len) => len,
        None => {
            let mut end = start;
            for column in 0..columns {
                end += plan.layout.stored_len(column, rest(image, end)).map_err(corrupt)?;
            }
            end - start
        }
    };
    if image.len() < start + len {
        return Err(corrupt("a row image shorter than its key"));
    }
    Ok((start, len))
}

fn place_key(plan: &TablePlan, offsets: &[(u32, u32)]) -> Result<KeyPlace, Fault> {
    let mut together = None;
    let mut apart = false;
    for column in &plan.key_columns {
        let (start, len) = match offsets.get(*column) {
            Some(&(OFFSET_NULL, _)) => return Err(null_in_key(plan)),
            Some(&(start, len)) if start < OFFSET_ABSENT => (start as usize, len as usize),
            _ => return Ok(KeyPlace::Missing),
        };
        together = match together {
            None => Some((start, len)),
            Some((first, so_far)) => {
                apart |= first + so_far != start;
                Some((first, so_far + len))
            }
        };
    }
    Ok(match together {
        Some((start, len)) if !apart => KeyPlace::Together(start, len),
        Some(_) => KeyPlace::Apart,
        None => KeyPlace::Missing,
    })
}

/// Builds the full after image of a keyless row from both images of the event.
fn complete(work: &mut Work<'_>, rows: &RowsWork<'_>, before: Span, after: Span) -> Result<Span, Fault> {
    let from = work.out.side.len();
    let of = |span: Span| {
        let at = (span.offset - rows.base) as usize;
        part(rows.all, at..at + span.len as usize)
    };
    let merged = rows.plan.layout.merge(of(before), rows.after_present, of(after), &mut work.out.side);
    merged.map_err(corrupt)?;
    if rows.plan.keyless_built {
        let image = work.out.side.split_off(from);
        return built_image(work, rows.plan, &image);
    }
    work.side_span(from)
}

/// Appends the image that identifies a keyless row: each JSON document replaced by its text, virtual columns by NULL.
fn built_image(work: &mut Work<'_>, plan: &TablePlan, image: &[u8]) -> Result<Span, Fault> {
    let from = work.out.side.len();
    let mut offsets = Vec::new();
    let out = &mut work.out.side;
    comparable_image(&plan.types, &plan.layout, &plan.left_out, image, &mut offsets, out).map_err(corrupt)?;
    work.side_span(from)
}

fn missing_key(plan: &TablePlan) -> Fault {
    unsupported(format!(
        "a row event of {} lacks columns of its identifying key (binlog_row_image and the key do not fit)",
        plan.def.full_name()
    ))
}

fn null_in_key(plan: &TablePlan) -> Fault {
    corrupt(format!("a row of {} with NULL in a column of its identifying key", plan.def.full_name()))
}

/// True for an event without bytes that stands for one row: INSERT INTO t () VALUES () under binlog_row_image=MINIMAL
/// logs no column (seen on 9.7.4, which refuses a second such row in the statement with error 1534; a replica applies
/// one).
fn is_row_of_defaults(event: &RowsEvent<'_>) -> bool {
    event.kind == RowsKind::Write && event.rows.is_empty() && event.after_columns.iter().all(|byte| *byte == 0)
}

/// True if the actions of foreign keys on other rows are not in the log.
fn is_unlogged(event: &RowsEvent<'_>) -> bool {
    event.flags & (row_flags::USE_SQL_FOREIGN_KEY | row_flags::NO_FOREIGN_KEY_CHECKS) == 0
}

/// Flags of an event's ops about cascades that the log holds.
fn logged_cascades(plan: &TablePlan, event: &RowsEvent<'_>) -> u8 {
    if event.flags & row_flags::USE_SQL_FOREIGN_KEY == 0 {
        return 0;
    }
    // Seen on 9.7.4: the DELETE of a row that references itself is logged as an update of that column to NULL, followed
    // by a deletion with the column's old value.
    let unchecked = if plan.follows_itself { BEFORE_UNCHECKED } else { 0 };
    if plan.changed_by_cascade { unchecked | CASCADES_LOGGED } else { unchecked }
}

fn fill_defaults(plan: &TablePlan, image: &[u8], offsets: &[(u32, u32)], out: &mut Vec<u8>) -> Result<(), Fault> {
    let nulls_at = out.len();
    // Bits after the last column stay 0, because copies of a keyless row are found by their bytes.
    out.resize(nulls_at + plan.bitmap_len(), 0);
    for (column, &(start, len)) in offsets.iter().enumerate() {
        let null = if start == OFFSET_ABSENT {
            plan.default_of(column, out).map_err(unsupported)?
        } else if start == OFFSET_NULL {
            true
        } else {
            out.extend_from_slice(column_part(image, start, len));
            false
        };
        if null && let Some(byte) = out.get_mut(nulls_at + column / 8) {
            *byte |= 1 << (column % 8);
        }
    }
    Ok(())
}
