//! Due jobs in the order of their cursors, from an index that is not in that order.
//!
//! The index has slots of some minutes, and within a slot the order of jobs, so that writing it is cheap (see the
//! migration). To read a page, a slot is read whole and sorted. What the page leaves over is kept for the next one,
//! which mostly follows at once: a slot may hold a million jobs that are due at the same full hour.
//!
//! What is kept is a hint like any other position in a list: every row is read again when its turn comes, and one whose
//! cursor moved or that is not active is passed over. New versions of jobs make it worthless; `load_changed` has those.

use super::counters;
use super::failure::Done;
use super::rows::{self, Columns, Texts};
use super::versions;
use crate::core::rules::one_page;
use crate::core::shards::ShardSet;
use campanile_model::JobId;
use campanile_model::job::JobState;
use campanile_model::store::{DueQuery, PlannedJob};
use campanile_model::time::Timestamp;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
use std::cmp::Reverse;

/// Width of a slot: 2^18 ms. The same number stands in the index and in its queries.
const SLOT_BITS: u32 = 18;

/// A cursor in a slot, in the order of loading: instant, job, row.
type Entry = (i64, [u8; 16], i64);

/// What the last page left over.
#[derive(Default)]
pub(super) struct Rest(Mutex<Option<Kept>>);

struct Kept {
    /// The query that goes on here: the same end, and this position.
    before: i64,
    after: (i64, [u8; 16]),
    /// Jobs were written since, if this is not the newest change.
    change: u64,
    slot: Slot,
}

/// The cursors of a slot after some position, last one first.
struct Slot {
    number: i64,
    entries: Vec<Entry>,
}

/// Reads a page of versions that fire, in the order of (next_fire_at, id): active jobs, and what superseded versions still owe.
pub(super) fn load(connection: &Connection, query: &DueQuery, rest: &Rest) -> Done<Vec<PlannedJob>> {
    let owed = versions::load_due(connection, query)?;
    let jobs = load_jobs(connection, query, rest)?;
    Ok(one_page(jobs, owed, query.limit))
}

/// Reads a page of active jobs, in the order of (next_fire_at, id).
fn load_jobs(connection: &Connection, query: &DueQuery, rest: &Rest) -> Done<Vec<PlannedJob>> {
    let change = counters::get(connection, counters::CHANGE_SEQ)?;
    let mut page =
        Page { connection, shards: ShardSet::filter(&query.shards), texts: Texts::default(), jobs: Vec::new() };
    let (mut after, mut next_slot) = match query.after {
        Some((at, id)) => ((at.millis(), *id.as_bytes()), at.millis() >> SLOT_BITS),
        None => ((i64::MIN, [0; 16]), i64::MIN),
    };
    let before = query.before.millis();
    let kept = rest.0.lock().take().filter(|kept| (kept.before, kept.after, kept.change) == (before, after, change));
    let mut slot = kept.map(|kept| kept.slot);
    while page.jobs.len() < query.limit {
        let mut current = match slot.take() {
            Some(slot) => slot,
            None => match read_slot(connection, next_slot, before, after)? {
                Some(slot) => slot,
                None => return Ok(page.jobs),
            },
        };
        next_slot = current.number.saturating_add(1);
        let wanted = query.limit - page.jobs.len();
        let from = current.entries.len().saturating_sub(wanted);
        let chunk = current.entries.split_off(from);
        if let Some(&(at, id, _)) = chunk.first() {
            after = (at, id);
        }
        page.read(chunk)?;
        if !current.entries.is_empty() {
            slot = Some(current);
        }
    }
    // The position that the caller will name is that of the last job it got.
    if let (Some(slot), Some(last)) = (slot, page.jobs.last())
        && last.cursor.next_fire_at == Some(Timestamp::from_millis(after.0))
        && *last.id.as_bytes() == after.1
    {
        *rest.0.lock() = Some(Kept { before, after, change, slot });
    }
    Ok(page.jobs)
}

/// The first slot from `from` on that has cursors before `before`: those after `after`.
fn read_slot(connection: &Connection, from: i64, before: i64, after: (i64, [u8; 16])) -> Done<Option<Slot>> {
    let mut next = connection.prepare_cached(include_str!("sql/jobs/next_slot.sql"))?;
    let Some(number) = next.query_row([from], |row| row.get::<_, i64>(0)).optional()? else { return Ok(None) };
    if number > before.saturating_sub(1) >> SLOT_BITS {
        return Ok(None);
    }
    let mut load = connection.prepare_cached(include_str!("sql/jobs/load_slot.sql"))?;
    let mut found = load.query([number])?;
    let mut entries: Vec<Entry> = Vec::new();
    while let Some(row) = found.next()? {
        let entry: Entry = (row.get(0)?, row.get(1)?, row.get(2)?);
        if (entry.0, entry.1) > after && entry.0 < before {
            entries.push(entry);
        }
    }
    // As a number an id is compared in place; as bytes, by a call.
    entries.sort_unstable_by_key(|&(at, id, _)| Reverse((at, u128::from_be_bytes(id))));
    Ok(Some(Slot { number, entries }))
}

/// A page in the making.
struct Page<'c> {
    connection: &'c Connection,
    shards: Option<ShardSet>,
    texts: Texts,
    jobs: Vec<PlannedJob>,
}

impl Page<'_> {
    /// Reads the rows of `chunk` that are still as the slot told.
    fn read(&mut self, mut chunk: Vec<Entry>) -> Done<()> {
        let mut get = self.connection.prepare_cached(include_str!("sql/jobs/get_planned.sql"))?;
        if let Some(shards) = &self.shards {
            chunk.retain(|&(_, id, _)| shards.has_job(JobId::from_bytes(id)));
        }
        // Read in the order of the table, where neighbours share pages, and laid down in that of the chunk.
        let mut order: Vec<(i64, usize)> = chunk.iter().enumerate().map(|(i, &(.., row))| (row, i)).collect();
        order.sort_unstable();
        let mut read: Vec<Option<PlannedJob>> = Vec::new();
        read.resize_with(chunk.len(), || None);
        for (row, i) in order {
            let (at, id, _) = chunk[i];
            let mut found = get.query(params![row, JobState::Active.code(), id, at])?;
            if let Some(row) = found.next()? {
                read[i] = Some(rows::planned(&mut Columns::of(row), &mut self.texts)?);
            }
        }
        // The last one of a chunk is the first.
        self.jobs.extend(read.into_iter().rev().flatten());
        Ok(())
    }
}
