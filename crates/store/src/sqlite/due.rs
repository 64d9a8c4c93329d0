//! Due jobs in the order of their cursors, from an index that is not in that order.
//!
//! The index has slots of some minutes, and within a slot the order of jobs, so that writing it is cheap (see the
//! migration). So a *segment* of a slot is read in the order of the index, where neighbours share pages, and sorted. What a page
//! leaves over is kept for the next one, which mostly follows at once: a slot may hold a million jobs that are due at the
//! same full hour. The first segment is small, so that what is near is there soon; each further one is twice as large.
//!
//! What is kept must not tell what was true once. New versions of jobs make it worthless (`load_changed` has those). Moves of
//! cursors are noted here after their commit and before they are answered ([`Moving`]), and a job that was moved is looked at
//! again when its turn comes.

use super::counters;
use super::failure::Done;
use super::rows::{self, Columns, Texts};
use super::versions;
use crate::core::rules::one_page;
use crate::core::shards::ShardSet;
use campanile_model::JobId;
use campanile_model::job::JobState;
use campanile_model::store::{CursorMove, DueQuery, PlannedJob};
use campanile_model::time::Timestamp;
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

/// Width of a slot: 2^18 ms. The same number stands in the index and in its queries.
const SLOT_BITS: u32 = 18;
/// Jobs in a segment. A job takes some 100 bytes there. (Unit tests have small ones, of which there are many.)
const SEGMENT_MIN: usize = if cfg!(test) { 8 } else { 32_768 };
const SEGMENT_MAX: usize = if cfg!(test) { 32 } else { 1_048_576 };
/// Moves that are remembered. With more of them, what is kept is worthless.
const MOVED_MAX: usize = if cfg!(test) { 16 } else { 65_536 };

/// A place in the order of loading: instant, job.
type Position = (i64, [u8; 16]);
const BEGINNING: Position = (i64::MIN, [0; 16]);
const END: Position = (i64::MAX, [0xff; 16]);

/// What the last page left over, and the cursors that were moved meanwhile.
#[derive(Default)]
pub(super) struct Rest(Mutex<State>);

#[derive(Default)]
struct State {
    kept: Option<(Asked, Segment)>,
    /// The number of the newest load.
    loads: u64,
    /// Jobs whose cursors were moved, with the newest load of that time.
    moved: HashMap<JobId, u64>,
    /// Moves of loads before this one are forgotten.
    remembers_from: u64,
}

/// A question that goes on where a segment was left: the same end, and this position, with this newest change of jobs.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Asked {
    before: i64,
    after: Position,
    change: u64,
}

/// Jobs of a slot in the order of loading, last one first.
struct Segment {
    jobs: Vec<PlannedJob>,
    /// Where it ends; the next one begins there.
    end: Position,
    /// The load that read it.
    load: u64,
    /// How many jobs it could have held.
    size: usize,
}

impl Rest {
    /// Begins a load; to be called before its snapshot is taken. Moves that are committed later are noted for it.
    pub(super) fn begin(&self) -> u64 {
        let mut state = self.0.lock();
        state.loads += 1;
        state.loads
    }

    fn take(&self, asked: Asked) -> Option<Segment> {
        let (for_what, segment) = self.0.lock().kept.take()?;
        (for_what == asked).then_some(segment)
    }

    fn keep(&self, asked: Asked, segment: Segment) {
        self.0.lock().kept = Some((asked, segment));
    }

    /// Those of these jobs that may have been moved since this load.
    fn moved(&self, jobs: &[PlannedJob], load: u64) -> Vec<usize> {
        let state = self.0.lock();
        if state.moved.is_empty() && load >= state.remembers_from {
            return Vec::new();
        }
        let is_moved = |job: &PlannedJob| state.moved.get(&job.id).is_some_and(|&at| at >= load);
        let all = load < state.remembers_from;
        (0..jobs.len()).filter(|&i| all || is_moved(&jobs[i])).collect()
    }

    fn note(&self, jobs: &[JobId]) {
        let mut state = self.0.lock();
        if state.moved.len() + jobs.len() > MOVED_MAX {
            state.moved.clear();
            state.kept = None;
            state.remembers_from = state.loads + 1;
        }
        let load = state.loads;
        state.moved.extend(jobs.iter().map(|&job| (job, load)));
    }
}

/// Cursors that are being moved. To be dropped when that is committed, and before it is answered.
pub(super) struct Moving {
    jobs: Vec<JobId>,
    rest: Arc<Rest>,
}

impl Moving {
    pub(super) fn new(rest: &Arc<Rest>, cursors: &[CursorMove]) -> Self {
        Self { jobs: cursors.iter().map(|cursor| cursor.job).collect(), rest: rest.clone() }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.rest.note(&self.jobs);
    }
}

/// Reads a page of versions that fire, in the order of (next_fire_at, id): active jobs, and what superseded versions still owe.
pub(super) fn load(connection: &Connection, query: &DueQuery, rest: &Rest, load: u64) -> Done<Vec<PlannedJob>> {
    let owed = versions::load_due(connection, query)?;
    let jobs = load_jobs(connection, query, rest, load)?;
    Ok(one_page(jobs, owed, query.limit))
}

/// Reads a page of active jobs, in the order of (next_fire_at, id).
fn load_jobs(connection: &Connection, query: &DueQuery, rest: &Rest, load: u64) -> Done<Vec<PlannedJob>> {
    let change = counters::get(connection, counters::CHANGE_SEQ)?;
    let shards = ShardSet::filter(&query.shards);
    let before = query.before.millis();
    let mut after = query.after.map_or(BEGINNING, |(at, id)| (at.millis(), *id.as_bytes()));
    let mut kept = rest.take(Asked { before, after, change });
    let (mut size, mut room) = (SEGMENT_MIN, Vec::new());
    let mut page = Vec::with_capacity(query.limit.min(SEGMENT_MIN));
    loop {
        let next = match kept.take() {
            Some(segment) => Some(segment),
            None => read_segment(connection, (after, before), (load, size), std::mem::take(&mut room))?,
        };
        let Some(mut segment) = next else { return Ok(page) };
        size = (segment.size * 2).min(SEGMENT_MAX);
        while page.len() < query.limit && !segment.jobs.is_empty() {
            let from = segment.jobs.len().saturating_sub(query.limit - page.len());
            let there = page.len();
            page.extend(segment.jobs.drain(from..).rev());
            let moved = rest.moved(&page[there..], segment.load);
            pass_over_moved(connection, &mut page, moved.into_iter().map(|i| there + i))?;
            if let Some(shards) = &shards {
                page.retain(|job| shards.has_job(job.id));
            }
        }
        after = segment.end;
        if page.len() == query.limit {
            // The position that the caller will name is that of the last job it got.
            if let Some(last) = page.last() {
                rest.keep(Asked { before, after: position(last), change }, segment);
            }
            return Ok(page);
        }
        // Fresh memory costs as much as what is read into it.
        room = segment.jobs;
    }
}

fn position(job: &PlannedJob) -> Position {
    (job.cursor.next_fire_at.map_or(i64::MAX, Timestamp::millis), *job.id.as_bytes())
}

/// The next jobs after a position whose cursors lie before `before`: `size` of them, or what there is in a slot. The list that
/// they come in has `room`.
fn read_segment(
    connection: &Connection,
    (after, before): (Position, i64),
    (load, size): (u64, usize),
    room: Vec<PlannedJob>,
) -> Done<Option<Segment>> {
    let last = (before.saturating_sub(1), END.1);
    // Nothing lies between the last place of an instant and the next instant.
    let from = if after.1 == END.1 { after.0.saturating_add(1) } else { after.0 };
    let mut next_slot = connection.prepare_cached(include_str!("sql/jobs/next_slot.sql"))?;
    let found = next_slot.query_row([from >> SLOT_BITS], |row| row.get::<_, i64>(0)).optional()?;
    let Some(slot) = found.filter(|&slot| after < last && slot <= last.0 >> SLOT_BITS) else { return Ok(None) };
    let slot_end = ((slot + 1).saturating_mul(1 << SLOT_BITS).saturating_sub(1), END.1);
    let mut exceeds = connection.prepare_cached(include_str!("sql/jobs/slot_exceeds.sql"))?;
    let end = match exceeds.exists(params![slot, after.0, after.1, size as i64])? {
        true => nth(connection, slot, after, size)?.min(last),
        false => slot_end.min(last),
    };
    let jobs = read(connection, slot, (after, end), room)?;
    Ok(Some(Segment { jobs, end, load, size }))
}

/// The position of the `n`th cursor of a slot after a position.
fn nth(connection: &Connection, slot: i64, after: Position, n: usize) -> Done<Position> {
    let mut load = connection.prepare_cached(include_str!("sql/jobs/load_slot_keys.sql"))?;
    let mut found = load.query(params![slot, after.0, after.1])?;
    // The first n of them, the last one on top.
    let mut first: BinaryHeap<Position> = BinaryHeap::with_capacity(n + 1);
    while let Some(row) = found.next()? {
        let position = (row.get(0)?, row.get(1)?);
        if first.len() < n {
            first.push(position);
        } else if let Some(mut last) = first.peek_mut()
            && position < *last
        {
            *last = position;
        }
    }
    Ok(first.peek().copied().unwrap_or(END))
}

/// The active jobs of a slot after one position and up to another, last one first, in a list that was empty.
fn read(
    connection: &Connection,
    slot: i64,
    (after, end): (Position, Position),
    mut jobs: Vec<PlannedJob>,
) -> Done<Vec<PlannedJob>> {
    let mut load = connection.prepare_cached(include_str!("sql/jobs/load_slot.sql"))?;
    let mut found = load.query(params![slot, JobState::Active.code(), after.0, after.1, end.0, end.1])?;
    let mut texts = Texts::default();
    while let Some(row) = found.next()? {
        jobs.push(rows::planned(&mut Columns::of(row), &mut texts)?);
    }
    // As a number an id is compared in place; as bytes, by a call.
    jobs.sort_unstable_by_key(|job| Reverse((job.cursor.next_fire_at, u128::from_be_bytes(*job.id.as_bytes()))));
    Ok(jobs)
}

/// Takes those out of a page that were moved and are not as they were read.
fn pass_over_moved(
    connection: &Connection,
    page: &mut Vec<PlannedJob>,
    moved: impl ExactSizeIterator<Item = usize>,
) -> Done<()> {
    if moved.len() == 0 {
        return Ok(());
    }
    let mut is_due = connection.prepare_cached(include_str!("sql/jobs/is_due.sql"))?;
    let mut gone = Vec::new();
    for i in moved {
        let job = &page[i];
        let key = params![job.id.as_bytes(), JobState::Active.code(), job.version, position(job).0];
        if !is_due.exists(key)? {
            gone.push(i);
        }
    }
    let mut gone = gone.into_iter().peekable();
    let mut at = 0;
    page.retain(|_| {
        at += 1;
        gone.next_if_eq(&(at - 1)).is_none()
    });
    Ok(())
}
