//! Due jobs in the order of their cursors, from an index that is not in that order.
//!
//! The index has slots of some minutes, and within a slot the order of jobs, so that writing it is cheap (see the
//! migration). To read a page, a slot is read whole and sorted. What the page leaves over is kept for the next one,
//! which mostly follows at once: a slot may hold a million jobs that are due at the same full hour.
//!
//! A slot is read for its cursors alone, from the index, by whoever begins to load, and if it is too large to be kept otherwise; the
//! rows of a page are then looked up one by one. A slot that is reached by a page that goes on is read with its rows, which costs half
//! as much for each job, since the neighbours of the index are neighbours in the table.
//!
//! What is kept must not tell what was true once. New versions of jobs make it worthless (`load_changed` has those). Where only
//! cursors are kept, a row is read when its turn comes, and passed over if its cursor moved. Where rows are kept, moves of cursors
//! are noted after their commit and before they are answered ([`Moving`]), and a job that was moved is looked at again. One that was
//! moved to a later place in the slot is not seen there: whoever moves a cursor knows the job, and keeps it if it fires soon.
//!
//! A crash loses what is kept, which is nothing but reading.

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
use std::collections::HashMap;
use std::sync::Arc;

/// Width of a slot: 2^18 ms. The same number stands in the index and in its queries.
const SLOT_BITS: u32 = 18;
/// Jobs of a slot that are kept with their rows, at some 100 bytes each, and more where jobs do not share their texts. (In unit
/// tests slots are small.)
const ROWS_MAX: usize = if cfg!(test) { 100 } else { 1_048_576 };
/// Moves that are remembered. With more of them, rows that are kept are worthless.
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
    kept: Option<(Asked, Slot)>,
    /// The number of the newest load, and how many are under way.
    loads: u64,
    under_way: usize,
    /// Jobs whose cursors were moved, with the newest load of that time.
    moved: HashMap<JobId, u64>,
    /// Moves of loads before this one are forgotten.
    remembers_from: u64,
}

/// A question that goes on where a slot was left: the same end, and this position, with this newest change of jobs.
#[derive(Copy, Clone, PartialEq, Eq)]
struct Asked {
    before: i64,
    after: Position,
    change: u64,
}

/// What is left of a slot.
struct Slot {
    left: Left,
    /// Where it ends; the next one begins there.
    end: Position,
    /// The load that read it.
    load: u64,
}

/// Jobs in the order of loading, last one first.
enum Left {
    /// Cursors, with the numbers of their rows.
    Cursors(Vec<(Position, i64)>),
    Jobs(Vec<PlannedJob>),
}

/// A load that is under way.
pub(super) struct Load {
    rest: Arc<Rest>,
    number: u64,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.rest.0.lock().under_way -= 1;
    }
}

impl Rest {
    /// Begins a load; to be called before its snapshot is taken. Moves that are committed later are noted for it.
    pub(super) fn begin(self: &Arc<Self>) -> Load {
        let mut state = self.0.lock();
        state.loads += 1;
        state.under_way += 1;
        Load { rest: self.clone(), number: state.loads }
    }

    fn take(&self, asked: Asked) -> Option<Slot> {
        let (kept, remembers_from) = {
            let mut state = self.0.lock();
            (state.kept.take(), state.remembers_from)
        };
        let (for_what, slot) = kept?;
        let is_worthless = matches!(slot.left, Left::Jobs(_)) && slot.load < remembers_from;
        (for_what == asked && !is_worthless).then_some(slot)
    }

    fn keep(&self, asked: Asked, slot: Slot) {
        self.0.lock().kept = Some((asked, slot));
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
        if state.kept.is_none() && state.under_way == 0 {
            // Whoever loads from now on sees them moved.
            state.moved = HashMap::new();
            return;
        }
        if state.moved.len() + jobs.len() > MOVED_MAX {
            state.moved.clear();
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
pub(super) fn load(connection: &Connection, query: &DueQuery, load: &Load) -> Done<Vec<PlannedJob>> {
    let owed = versions::load_due(connection, query)?;
    let jobs = load_jobs(connection, query, load)?;
    Ok(one_page(jobs, owed, query.limit))
}

/// Reads a page of active jobs, in the order of (next_fire_at, id).
fn load_jobs(connection: &Connection, query: &DueQuery, load: &Load) -> Done<Vec<PlannedJob>> {
    let rest = &load.rest;
    let change = counters::get(connection, counters::CHANGE_SEQ)?;
    let before = query.before.millis();
    let mut after = query.after.map_or(BEGINNING, |(at, id)| (at.millis(), *id.as_bytes()));
    let mut page = Page {
        connection,
        shards: ShardSet::filter(&query.shards),
        texts: Texts::default(),
        jobs: Vec::new(),
        limit: query.limit,
    };
    let mut kept = rest.take(Asked { before, after, change });
    // Whoever has just begun to load wants the nearest soon, and may have been told that jobs have changed, for each page anew.
    let goes_on = kept.is_some();
    let mut room = goes_on.then(Vec::new);
    loop {
        let next = match kept.take() {
            Some(slot) => Some(slot),
            None => read_slot(connection, (after, before), load.number, room.take())?,
        };
        let Some(mut slot) = next else { return Ok(page.jobs) };
        while page.jobs.len() < page.limit && !slot.left.is_empty() {
            match &mut slot.left {
                Left::Cursors(cursors) => page.look_up(cursors)?,
                Left::Jobs(jobs) => page.take(jobs, |jobs| rest.moved(jobs, slot.load))?,
            }
        }
        after = slot.end;
        if page.jobs.len() == page.limit {
            // The position that the caller will name is that of the last job it got.
            if let Some(last) = page.jobs.last() {
                rest.keep(Asked { before, after: position(last), change }, slot);
            }
            return Ok(page.jobs);
        }
        // Fresh memory costs as much as what is read into it.
        room = goes_on.then(|| slot.left.into_room());
    }
}

fn position(job: &PlannedJob) -> Position {
    (job.cursor.next_fire_at.map_or(i64::MAX, Timestamp::millis), *job.id.as_bytes())
}

impl Left {
    /// The list of jobs, which is empty by now.
    fn into_room(self) -> Vec<PlannedJob> {
        match self {
            Left::Cursors(_) => Vec::new(),
            Left::Jobs(jobs) => jobs,
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Left::Cursors(cursors) => cursors.is_empty(),
            Left::Jobs(jobs) => jobs.is_empty(),
        }
    }
}

/// The next slot that has cursors between two positions. It is read with its rows if there is `room`, which is an empty list, and
/// if there are not too many.
fn read_slot(
    connection: &Connection,
    (after, before): (Position, i64),
    load: u64,
    room: Option<Vec<PlannedJob>>,
) -> Done<Option<Slot>> {
    let last = (before.saturating_sub(1), END.1);
    // Nothing lies between the last place of an instant and the next instant.
    let from = if after.1 == END.1 { after.0.saturating_add(1) } else { after.0 };
    let mut next_slot = connection.prepare_cached(include_str!("sql/jobs/next_slot.sql"))?;
    let found = next_slot.query_row([from >> SLOT_BITS], |row| row.get::<_, i64>(0)).optional()?;
    let Some(number) = found.filter(|&slot| after < last && slot <= last.0 >> SLOT_BITS) else { return Ok(None) };
    let end = ((number + 1).saturating_mul(1 << SLOT_BITS).saturating_sub(1), END.1).min(last);
    let mut exceeds = connection.prepare_cached(include_str!("sql/jobs/slot_exceeds.sql"))?;
    let left = match room {
        Some(room) if !exceeds.exists(params![number, after.0, after.1, ROWS_MAX as i64])? => {
            Left::Jobs(read_jobs(connection, number, (after, end), room)?)
        }
        _ => Left::Cursors(read_cursors(connection, number, (after, end))?),
    };
    Ok(Some(Slot { left, end, load }))
}

fn read_cursors(connection: &Connection, slot: i64, (after, end): (Position, Position)) -> Done<Vec<(Position, i64)>> {
    let mut load = connection.prepare_cached(include_str!("sql/jobs/load_slot_cursors.sql"))?;
    let mut found = load.query(params![slot, after.0, after.1, end.0, end.1])?;
    let mut cursors: Vec<(Position, i64)> = Vec::new();
    while let Some(row) = found.next()? {
        cursors.push(((row.get(0)?, row.get(1)?), row.get(2)?));
    }
    // As a number an id is compared in place; as bytes, by a call.
    cursors.sort_unstable_by_key(|&((at, id), _)| Reverse((at, u128::from_be_bytes(id))));
    Ok(cursors)
}

fn read_jobs(
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
    jobs.sort_unstable_by_key(|job| Reverse((job.cursor.next_fire_at, u128::from_be_bytes(*job.id.as_bytes()))));
    Ok(jobs)
}

/// A page in the making.
struct Page<'c> {
    connection: &'c Connection,
    shards: Option<ShardSet>,
    texts: Texts,
    jobs: Vec<PlannedJob>,
    limit: usize,
}

impl Page<'_> {
    /// Fills itself with the rows of these cursors that are still as the slot told.
    fn look_up(&mut self, cursors: &mut Vec<(Position, i64)>) -> Done<()> {
        let from = cursors.len().saturating_sub(self.limit - self.jobs.len());
        let mut chunk: Vec<(Position, i64)> = cursors.drain(from..).rev().collect();
        if let Some(shards) = &self.shards {
            chunk.retain(|&((_, id), _)| shards.has_job(JobId::from_bytes(id)));
        }
        let mut get = self.connection.prepare_cached(include_str!("sql/jobs/get_planned.sql"))?;
        // Read in the order of the table, where neighbours share pages, and laid down in that of the chunk.
        let mut order: Vec<(i64, usize)> = chunk.iter().enumerate().map(|(i, &(_, row))| (row, i)).collect();
        order.sort_unstable();
        let mut read: Vec<Option<PlannedJob>> = Vec::new();
        read.resize_with(chunk.len(), || None);
        for (row, i) in order {
            let ((at, id), _) = chunk[i];
            let mut found = get.query(params![row, JobState::Active.code(), id, at])?;
            if let Some(row) = found.next()? {
                read[i] = Some(rows::planned(&mut Columns::of(row), &mut self.texts)?);
            }
        }
        self.jobs.extend(read.into_iter().flatten());
        Ok(())
    }

    /// Fills itself with these jobs, but for those of `moved` that are not as they were read.
    fn take(&mut self, jobs: &mut Vec<PlannedJob>, moved: impl FnOnce(&[PlannedJob]) -> Vec<usize>) -> Done<()> {
        let (from, there) = (jobs.len().saturating_sub(self.limit - self.jobs.len()), self.jobs.len());
        self.jobs.extend(jobs.drain(from..).rev());
        let moved = moved(&self.jobs[there..]);
        if !moved.is_empty() {
            let mut is_due = self.connection.prepare_cached(include_str!("sql/jobs/is_due.sql"))?;
            let mut gone = Vec::new();
            for i in moved.into_iter().map(|i| there + i) {
                let job = &self.jobs[i];
                let key = params![job.id.as_bytes(), JobState::Active.code(), job.version, position(job).0];
                if !is_due.exists(key)? {
                    gone.push(i);
                }
            }
            let (mut at, mut gone) = (0, gone.into_iter().peekable());
            self.jobs.retain(|_| {
                at += 1;
                gone.next_if_eq(&(at - 1)).is_none()
            });
        }
        if let Some(shards) = &self.shards {
            self.jobs.retain(|job| shards.has_job(job.id));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_testkit::generate as g;

    const ASKED: Asked = Asked { before: 100, after: BEGINNING, change: 1 };

    fn planned(n: u64) -> PlannedJob {
        let job = g::job(n);
        PlannedJob {
            id: job.id,
            tenant: job.tenant,
            version: job.version,
            state: job.state,
            ended_at: None,
            cursor: job.cursor,
            plan: job.plan.clone(),
            firing: job.firing().into(),
        }
    }

    fn slot(load: u64) -> Slot {
        Slot { left: Left::Jobs(vec![planned(1), planned(2)]), end: END, load }
    }

    #[test]
    fn a_move_counts_for_the_loads_that_may_not_have_seen_it() {
        let rest = Arc::new(Rest::default());
        let jobs = [planned(1), planned(2)];
        rest.note(&[jobs[0].id]);
        assert!(rest.0.lock().moved.is_empty(), "nobody loads, and nothing is kept");
        let first = rest.begin();
        rest.note(&[jobs[1].id]);
        assert_eq!(rest.moved(&jobs, first.number), [1]);
        let second = rest.begin();
        assert!(rest.moved(&jobs, second.number).is_empty(), "it was noted before the second began");
        rest.keep(ASKED, slot(second.number));
        let number = second.number;
        drop((first, second));
        rest.note(&[jobs[0].id]);
        assert_eq!(rest.moved(&jobs, number), [0], "what is kept is told of moves, too");
        assert!(rest.take(Asked { change: 2, ..ASKED }).is_none());
        rest.note(&[jobs[1].id]);
        assert!(rest.0.lock().moved.is_empty(), "nothing is kept any more");
    }

    #[test]
    fn with_too_many_moves_rows_that_were_read_before_are_worthless() {
        let rest = Arc::new(Rest::default());
        let jobs = [planned(1), planned(2)];
        let load = rest.begin();
        let many: Vec<JobId> = (10..=10 + MOVED_MAX as u64).map(|n| planned(n).id).collect();
        rest.note(&many[1..]);
        rest.note(&many[..1]);
        assert_eq!(rest.moved(&jobs, load.number), [0, 1], "any of them may have been moved");
        rest.keep(ASKED, slot(load.number));
        assert!(rest.take(ASKED).is_none());
        let next = rest.begin();
        assert!(rest.moved(&jobs, next.number).is_empty());
        rest.keep(ASKED, slot(next.number));
        assert!(rest.take(ASKED).is_some());
    }
}
