//! Loading a working set: everything a batch is about, from the writer's cache or by a statement per row. What is judged by it
//! is in `core`, and how it is written in `write`. There is one writer, so nothing has to be locked.

use super::cache;
use super::counters;
use super::failure::Done;
use super::rows::{self, Columns, Texts};
use crate::core::change::Subject;
use crate::core::pools::Pool;
use crate::core::record::Record;
use crate::core::reports::Reports;
use crate::core::set::WorkingSet;
use campanile_model::action::ActionKind;
use campanile_model::execution::{AttemptOutcome, Reason};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::job::version::InForce;
use campanile_model::job::{JobState, Priority};
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::store::RecordKind;
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// From so many rows on that are in no cache, it is tried to read them as neighbours.
const SCAN_MIN: usize = 64;

/// Loads executions, and those that stand in line with them.
pub(super) fn load<'b>(connection: &Connection, ids: impl IntoIterator<Item = ExecutionId>) -> Done<WorkingSet<'b>> {
    let mut loading = Loading::prepare(connection)?;
    let ids = ids.into_iter();
    loading.set.reserve(ids.size_hint().0);
    let mut uncached = Vec::new();
    for id in ids {
        match cache::take(id) {
            Some(record) => loading.insert_cached(record)?,
            None if loading.set.get(id).is_none() => uncached.push(id),
            // It is in the batch twice.
            None => {}
        }
    }
    uncached.sort_unstable();
    uncached.dedup();
    for id in loading.scan(connection, uncached)? {
        loading.load(id)?;
    }
    loading.load_runs(connection)?;
    Ok(loading.set)
}

/// A set that is being filled.
struct Loading<'b, 'c> {
    set: WorkingSet<'b>,
    get: CachedStatement<'c>,
    texts: Texts,
    /// Jobs of which runs must not overlap, and are not loaded yet.
    jobs: Vec<JobId>,
}

impl<'c> Loading<'_, 'c> {
    fn prepare(connection: &'c Connection) -> Done<Self> {
        let get = connection.prepare_cached(include_str!("sql/executions/load.sql"))?;
        Ok(Self { set: WorkingSet::default(), get, texts: Texts::default(), jobs: Vec::new() })
    }

    fn load(&mut self, id: ExecutionId) -> Done<()> {
        if self.set.get(id).is_some() {
            return Ok(());
        }
        if let Some(record) = cache::take(id) {
            return self.insert_cached(record);
        }
        if let Some(record) = self.read(id)? {
            self.insert(Box::new(record));
        }
        Ok(())
    }

    /// Takes in what the cache had. In tests it is compared with the row each time.
    fn insert_cached(&mut self, record: Box<Record>) -> Done<()> {
        debug_assert_eq!(self.read(record.of.id)?.as_ref(), Some(&*record), "the cache differs from the row");
        self.insert(record);
        Ok(())
    }

    fn insert(&mut self, record: Box<Record>) {
        if record.of.overlap != Overlap::Allow {
            self.jobs.push(record.of.job);
        }
        self.set.insert(record);
    }

    /// Reads rows that may be neighbours, as those of a stampede are, by one scan: a statement for each would look for its place
    /// in the tree again. Once it has passed over as many rows as are wanted, they are no neighbours: it returns those that are
    /// left. `ids` are in order.
    fn scan(&mut self, connection: &Connection, mut ids: Vec<ExecutionId>) -> Done<Vec<ExecutionId>> {
        let (Some(first), Some(last)) = (ids.first(), ids.last()) else { return Ok(ids) };
        if ids.len() < SCAN_MIN {
            return Ok(ids);
        }
        let mut scan = connection.prepare_cached(include_str!("sql/executions/load_range.sql"))?;
        let mut found = scan.query([first.as_bytes(), last.as_bytes()])?;
        let (mut at, mut passed_over) = (0, 0);
        while let Some(row) = found.next()? {
            let id = Columns::of(row).execution_id()?;
            at += ids[at..].iter().take_while(|wanted| **wanted < id).count();
            if ids.get(at) == Some(&id) {
                let record = read(row, &mut self.texts)?;
                self.insert(Box::new(record));
                at += 1;
                continue;
            }
            passed_over += 1;
            if passed_over > ids.len() {
                return Ok(ids.split_off(at));
            }
        }
        Ok(Vec::new())
    }

    fn read(&mut self, id: ExecutionId) -> Done<Option<Record>> {
        let mut found = self.get.query([id.as_bytes()])?;
        found.next()?.map(|row| read(row, &mut self.texts)).transpose()
    }

    /// Loads the runs of jobs that must not overlap, their executions, and the jobs of which somebody waits.
    fn load_runs(&mut self, connection: &Connection) -> Done<()> {
        while let Some(job) = self.jobs.pop() {
            if self.set.runs.has_job(job) {
                continue;
            }
            self.set.runs.insert_job(job);
            let mut list = connection.prepare_cached(include_str!("sql/overlaps/list.sql"))?;
            let mut found = list.query([job.as_bytes()])?;
            let mut runs = Vec::new();
            while let Some(row) = found.next()? {
                let mut columns = Columns::of(row);
                runs.push((columns.execution_id()?, columns.next()?));
            }
            for (execution, started) in runs {
                self.set.runs.insert(job, execution, started);
                self.load(execution)?;
            }
        }
        let waited_for: Vec<JobId> = self.set.runs.waited_for().collect();
        load_versions(connection, &mut self.set, waited_for)
    }
}

/// Loads what decides about starts: the newest versions of these jobs, and of executions that those do not govern, the versions that
/// do.
pub(super) fn load_versions(
    connection: &Connection,
    set: &mut WorkingSet<'_>,
    jobs: impl IntoIterator<Item = JobId>,
) -> Done<()> {
    let mut get = connection.prepare_cached(include_str!("sql/jobs/get_in_force.sql"))?;
    let jobs = jobs.into_iter();
    set.newest.reserve(jobs.size_hint().0);
    for job in jobs {
        let Entry::Vacant(newest) = set.newest.entry(job) else { continue };
        let mut found = get.query([job.as_bytes()])?;
        if let Some(row) = found.next()? {
            newest.insert(in_force(&mut Columns::of(row))?);
        }
    }
    load_governing(connection, set)
}

/// Loads what attempts of these versions run by, with what decides about starts.
pub(super) fn load_definitions(
    connection: &Connection,
    set: &mut WorkingSet<'_>,
    versions: impl IntoIterator<Item = (JobId, u32)>,
) -> Done<()> {
    let mut get = connection.prepare_cached(include_str!("sql/jobs/get_newest.sql"))?;
    let mut texts = Texts::default();
    for (job, version) in versions {
        if set.definitions.contains_key(&(job, version)) {
            continue;
        }
        let mut found = get.query([job.as_bytes()])?;
        let Some(row) = found.next()? else { continue };
        let mut columns = Columns::of(row);
        let newest = in_force(&mut columns)?;
        set.newest.insert(job, newest);
        // Found here: an attempt takes what its job is now, and not what it was when it fired.
        if newest.version == version || planted(Bug("attempt-takes-the-newest")) {
            set.definitions.insert((job, newest.version), rows::definition(&mut columns, &mut texts)?);
            continue;
        }
        let mut older = connection.prepare_cached(include_str!("sql/versions/get_definition.sql"))?;
        let mut found = older.query(params![job.as_bytes(), version])?;
        if let Some(row) = found.next()? {
            set.definitions.insert((job, version), rows::definition(&mut Columns::of(row), &mut texts)?);
        }
    }
    load_governing(connection, set)
}

/// Loads the superseded versions that govern executions.
fn load_governing(connection: &Connection, set: &mut WorkingSet<'_>) -> Done<()> {
    let mut governing = Vec::new();
    for record in set.records() {
        let fired = record.fired_under();
        let needs_older = set.newest.get(&record.of.job).is_some_and(|newest| fired.needs_older(newest));
        if needs_older && !set.governing.contains_key(&record.of.id) {
            let mut get = connection.prepare_cached(include_str!("sql/versions/get_governing.sql"))?;
            let mut found = get.query(params![record.of.job.as_bytes(), fired.version, fired.fire_at.millis()])?;
            if let Some(row) = found.next()? {
                governing.push((record.of.id, in_force(&mut Columns::of(row))?));
            }
        }
    }
    set.governing.extend(governing);
    Ok(())
}

/// Loads what every start needs: the limits of its pool, and a fence. `starting` are the pools of those that may start.
pub(super) fn load_starts(
    connection: &Connection,
    set: &mut WorkingSet<'_>,
    starting: &[(TenantId, Arc<str>)],
) -> Done<()> {
    if starting.is_empty() {
        return Ok(());
    }
    let first = counters::take(connection, counters::FENCE, starting.len())?;
    set.fences = (first..first + starting.len() as u64).collect::<Vec<u64>>().into_iter();
    let mut seen: Vec<&(TenantId, Arc<str>)> = Vec::new();
    for of in starting {
        let is_same =
            |other: &&&(TenantId, Arc<str>)| other.0 == of.0 && (Arc::ptr_eq(&other.1, &of.1) || other.1 == of.1);
        // Batches are of few pools, and most have no limits.
        if seen.iter().rev().find(is_same).is_none() {
            seen.push(of);
            set.pools.extend(load_pool(connection, of.0, &of.1)?);
        }
    }
    Ok(())
}

/// The limits of a pool, if it has any.
fn load_pool(connection: &Connection, tenant: TenantId, name: &Arc<str>) -> Done<Option<Pool>> {
    let mut get = connection.prepare_cached(include_str!("sql/capacities/get.sql"))?;
    let limits =
        get.query_row(params![tenant.0, RecordKind::Pool.code(), &**name], |row| Ok((row.get(0)?, row.get(1)?)));
    let Some((slots, paused)) = limits.optional()? else { return Ok(None) };
    let slots: Option<i64> = slots;
    let slots = match slots {
        None => None,
        Some(slots) => {
            let running = lifecycle::target(Event::Claim).code();
            let mut get = connection.prepare_cached(include_str!("sql/counts/get.sql"))?;
            let ran = get.query_row(params![tenant.0, &**name, running], |row| row.get(0)).optional()?;
            Some((slots, ran.unwrap_or(0)))
        }
    };
    Ok(Some(Pool { tenant, name: name.clone(), paused, slots }))
}

/// Loads when the first attempts after their replay started, of those executions that were replayed and tried since.
pub(super) fn load_first_starts(
    connection: &Connection,
    set: &mut WorkingSet<'_>,
    replayed: impl IntoIterator<Item = (ExecutionId, u32)>,
) -> Done<()> {
    for (id, attempts_from) in replayed {
        let mut first = connection.prepare_cached(include_str!("sql/attempts/first_since.sql"))?;
        let first: Option<i64> = first.query_row(params![id.as_bytes(), attempts_from], |row| row.get(0))?;
        set.first_starts.extend(first.map(|first| (id, Timestamp::from_millis(first))));
    }
    Ok(())
}

/// Loads the checkpoints that next attempts are given.
pub(super) fn load_checkpoints(
    connection: &Connection,
    set: &mut WorkingSet<'_>,
    tried: impl IntoIterator<Item = ExecutionId>,
) -> Done<()> {
    for id in tried {
        let mut get = connection.prepare_cached(include_str!("sql/progress/get_checkpoint.sql"))?;
        let found = get.query_row([id.as_bytes()], |row| row.get::<_, Option<String>>(0)).optional()?;
        set.checkpoints.extend(found.flatten().map(|checkpoint| (id, Arc::from(checkpoint))));
    }
    Ok(())
}

/// Loads how many lines executions have that will log.
pub(super) fn load_reports<'b>(
    connection: &Connection,
    logging: impl IntoIterator<Item = ExecutionId>,
) -> Done<Reports<'b>> {
    let mut reports = Reports::default();
    for id in logging {
        let mut last = connection.prepare_cached(include_str!("sql/logs/last.sql"))?;
        reports.lines.insert(id, last.query_row([id.as_bytes()], |row| row.get(0))?);
    }
    Ok(reports)
}

/// Reads the columns `version, state, effective_at`.
fn in_force(columns: &mut Columns<'_, '_>) -> Done<InForce> {
    Ok(InForce {
        version: columns.next()?,
        state: columns.code("job state", JobState::from_code)?,
        effective_at: columns.instant()?,
    })
}

/// Reads an execution, by the columns of `load.sql` and `load_range.sql`.
fn read(row: &Row<'_>, texts: &mut Texts) -> Done<Record> {
    let mut columns = Columns::of(row);
    let of = Subject {
        id: columns.execution_id()?,
        tenant: columns.tenant()?,
        job: columns.job_id()?,
        pool: texts.share(columns.text()?),
        target: texts.share(columns.text()?),
        overlap: columns.overlap()?,
        watched: columns.next()?,
        fire_at: columns.instant()?,
        first_started_at: columns.instant_or_none()?,
    };
    let (kind, job_version) = (columns.code("fire kind", FireKind::from_code)?, columns.next()?);
    let state = columns.state()?;
    let reason = columns.code_or_none("reason", Reason::from_code)?;
    let (attempt, fence) = (columns.next()?, columns.number()?);
    Ok(Record {
        of,
        kind,
        job_version,
        state,
        reason,
        attempt,
        fence,
        priority: columns.code("priority", Priority::from_code)?,
        action: columns.code("action", ActionKind::from_code)?,
        wake_at: columns.instant()?,
        fired_at: columns.instant()?,
        started_at: columns.instant_or_none()?,
        finished_at: columns.instant_or_none()?,
        worker: columns.text_or_none()?.map(|worker| texts.share(worker)),
        outcome: columns.code_or_none("outcome", AttemptOutcome::from_code)?,
        error: columns.error()?,
        covers_from: columns.instant_or_none()?,
        queued_at: columns.instant_or_none()?,
        claimed_at: columns.instant_or_none()?,
        fingerprint: columns.number_or_none()?,
        deliveries: columns.next()?,
        losses: columns.next()?,
        attempts_from: columns.next()?,
        cancel_requested_at: columns.instant_or_none()?,
        cancel_reason: columns.code_or_none("reason", Reason::from_code)?,
        note: columns.next()?,
        response: None,
        changed: None,
        stored: (state, fence),
        seen: None,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_row_and_a_range_are_read_by_the_same_columns() {
        let columns = |sql: &str| sql[sql.find("SELECT").unwrap()..sql.find("WHERE").unwrap()].to_owned();
        let (one, range) = (include_str!("sql/executions/load.sql"), include_str!("sql/executions/load_range.sql"));
        assert_eq!(columns(one), columns(range));
    }
}
