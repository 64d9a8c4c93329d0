//! Executions: fire, load, cancel, get, list.

use super::failure::Done;
use super::history;
use super::jobs::insert_skip;
use super::keys::{Keys, Used};
use super::rows::{self, Columns, Texts};
use super::shards::{self, ShardSet};
use campanile_model::execution::{Attempt, AttemptOutcome, Execution, Reason};
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::lifecycle::{self, Event, State, StateSet};
use campanile_model::shard::shard_of;
use campanile_model::store::{
    Applied, ExecutionQuery, Fire, FireBatch, FireVerdict, Fired, Idempotency, Page, Skip, Waiting, WaitingQuery,
};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, params};

/// Inserts executions and skips, all or nothing.
pub(super) fn fire(connection: &Connection, batch: &FireBatch) -> Done<FireVerdict> {
    let jobs = batch.fires.iter().map(|fire| (fire.dispatch.job, fire.kind == FireKind::Manual));
    let jobs = jobs.chain(batch.skips.iter().map(|skip| (skip.job, false)));
    // Manual fires need no fence where there is none: nothing repeats them.
    let unfenced = batch.fences.is_empty();
    let guarded = ShardSet::of(jobs.filter(|(_, manual)| !(unfenced && *manual)).map(|(job, _)| shard_of(job)));
    let lost = shards::lost(connection, &guarded, &batch.fences)?;
    if !lost.is_empty() {
        return Ok(FireVerdict::EpochLost(lost));
    }
    if let Some(verdict) = replay(connection, batch)? {
        return Ok(verdict);
    }
    let mut insert = connection.prepare_cached(include_str!("sql/executions/fire.sql"))?;
    let mut verdicts = vec![Fired::Exists; batch.fires.len()];
    // In id order, so that the trees append; the answers stay in the order of the batch.
    for i in in_order(&batch.fires, |fire| fire.dispatch.execution) {
        verdicts[i] = fire_one(&mut insert, &batch.fires[i], batch.now)?;
    }
    let fired = batch.fires.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Fired::New);
    history::append(connection, fired.map(|(fire, _)| (fire.dispatch.job, fire.dispatch.execution)))?;
    let mut put_skip = connection.prepare_cached(include_str!("sql/skips/insert.sql"))?;
    for skip in &batch.skips {
        insert_skip(&mut put_skip, skip)?;
    }
    Ok(FireVerdict::Fired(verdicts))
}

/// The answer to a batch whose key was used before; otherwise the key is remembered with what the batch does.
fn replay(connection: &Connection, batch: &FireBatch) -> Done<Option<FireVerdict>> {
    let (Some(key), Some(fire)) = (&batch.idempotency, batch.fires.first()) else { return Ok(None) };
    let mut keys = Keys::prepare(connection)?;
    match keys.find(fire.dispatch.tenant, key, batch.now)? {
        Some(Used::Same(answer)) => Ok(Some(FireVerdict::Replayed(answer))),
        Some(Used::Other) => Ok(Some(FireVerdict::KeyReused)),
        None => keys.remember(fire.dispatch.tenant, key).map(|()| None),
    }
}

fn fire_one(insert: &mut CachedStatement<'_>, fire: &Fire, now: Timestamp) -> Done<Fired> {
    let dispatch = &fire.dispatch;
    insert.raw_bind_parameter(1, dispatch.execution.as_bytes())?;
    insert.raw_bind_parameter(2, dispatch.tenant.0)?;
    insert.raw_bind_parameter(3, dispatch.job.as_bytes())?;
    insert.raw_bind_parameter(4, dispatch.job_version)?;
    insert.raw_bind_parameter(5, dispatch.fire_at.millis())?;
    insert.raw_bind_parameter(6, fire.kind.code())?;
    insert.raw_bind_parameter(7, lifecycle::target(Event::Refire).code())?;
    insert.raw_bind_parameter(8, dispatch.priority.code())?;
    insert.raw_bind_parameter(9, &*dispatch.pool)?;
    insert.raw_bind_parameter(10, dispatch.action.code())?;
    insert.raw_bind_parameter(11, now.millis())?;
    insert.raw_bind_parameter(12, lifecycle::sources(Event::Refire).mask())?;
    insert.raw_bind_parameter(13, Reason::StaleVersion.code())?;
    Ok(if insert.raw_execute()? == 1 { Fired::New } else { Fired::Exists })
}

/// Positions of `items` in the order of `key`; equal ones stay in their order.
pub(super) fn in_order<T>(items: &[T], key: impl Fn(&T) -> ExecutionId) -> Vec<usize> {
    let mut order: Vec<usize> = (0..items.len()).collect();
    if !items.is_sorted_by_key(&key) {
        order.sort_by_key(|&i| key(&items[i]));
    }
    order
}

/// Reads executions that wait.
pub(super) fn load_waiting(connection: &Connection, query: &WaitingQuery) -> Done<Vec<Waiting>> {
    let shards = ShardSet::filter(&query.shards);
    let mut load = connection.prepare_cached(include_str!("sql/executions/load_waiting.sql"))?;
    let (after_at, after_id) = query.after.unwrap_or((Timestamp::MIN, ExecutionId::from_bytes([0; 16])));
    let mut found = load.query(params![
        query.before.millis(),
        after_at.millis(),
        after_id.as_bytes(),
        lifecycle::sources(Event::Claim).mask(),
    ])?;
    let mut texts = Texts::default();
    let mut waiting = Vec::new();
    while waiting.len() < query.limit {
        let Some(row) = found.next()? else { break };
        let mut columns = Columns::of(row);
        let dispatch = rows::dispatch(&mut columns, &mut texts)?;
        if shards.as_ref().is_none_or(|shards| shards.has_job(dispatch.job)) {
            waiting.push(Waiting { dispatch, wake_at: columns.instant()? });
        }
    }
    Ok(waiting)
}

/// A row's guard: what a refused write is explained by.
pub(super) struct Guard {
    pub(super) tenant: TenantId,
    pub(super) state: State,
    pub(super) attempt: u32,
    pub(super) fence: u64,
    pub(super) outcome: Option<AttemptOutcome>,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) worker: Option<String>,
}

/// Reads a row's guard.
pub(super) fn guard(connection: &Connection, execution: ExecutionId) -> Done<Option<Guard>> {
    let mut get = connection.prepare_cached(include_str!("sql/executions/get_state.sql"))?;
    let mut found = get.query([execution.as_bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let mut columns = Columns::of(row);
    Ok(Some(Guard {
        tenant: columns.tenant()?,
        state: columns.state()?,
        attempt: columns.next()?,
        fence: columns.number()?,
        outcome: columns.code_or_none("outcome", AttemptOutcome::from_code)?,
        finished_at: columns.instant_or_none()?,
        worker: columns.next()?,
    }))
}

/// Cancels executions. One that runs loses its attempt: its runner's completion comes too late.
pub(super) fn cancel(
    connection: &Connection,
    tenant: TenantId,
    executions: &[ExecutionId],
    now: Timestamp,
    idempotency: Option<&Idempotency>,
) -> Done<Vec<Applied>> {
    let mut cancel = connection.prepare_cached(include_str!("sql/executions/cancel.sql"))?;
    let mut verdicts = Vec::with_capacity(executions.len());
    for &execution in executions {
        let Some(guard) = guard(connection, execution)?.filter(|guard| guard.tenant == tenant) else {
            verdicts.push(Applied::Gone);
            continue;
        };
        // The attempt that ends with it is the newest one, if that is running.
        let runs = lifecycle::sources(Event::Succeed).contains(guard.state);
        let changed = cancel.execute(params![
            execution.as_bytes(),
            tenant.0,
            lifecycle::target(Event::Cancel).code(),
            lifecycle::sources(Event::Cancel).mask(),
            Reason::CancelledByUser.code(),
            now.millis(),
            runs.then_some(AttemptOutcome::Cancelled.code()),
        ])?;
        verdicts.push(if changed == 1 { Applied::Done } else { Applied::Stale { state: guard.state } });
    }
    if let Some(key) = idempotency.filter(|_| verdicts.iter().all(|verdict| *verdict == Applied::Done)) {
        Keys::prepare(connection)?.remember(tenant, key)?;
    }
    Ok(verdicts)
}

/// Reads executions.
pub(super) fn get(connection: &Connection, tenant: TenantId, ids: &[ExecutionId]) -> Done<Vec<Option<Execution>>> {
    let mut get = connection.prepare_cached(include_str!("sql/executions/get.sql"))?;
    let mut texts = Texts::default();
    let mut executions = Vec::with_capacity(ids.len());
    for id in ids {
        let mut found = get.query(params![id.as_bytes(), tenant.0])?;
        executions.push(found.next()?.map(|row| rows::execution(row, &mut texts)).transpose()?);
    }
    Ok(executions)
}

/// Lists executions, newest first.
pub(super) fn list(connection: &Connection, query: &ExecutionQuery) -> Done<Page<Execution>> {
    let from = query.from.map_or([0; 16], |from| *ExecutionId::floor(from).as_bytes());
    let to = query.to.map_or([0xff; 16], |to| *ExecutionId::floor(to).as_bytes());
    let end = query.before.map_or(to, |before| to.min(*before.as_bytes()));
    let states = mask(&query.states);
    let tenant = query.tenant.0;
    let mut texts = Texts::default();
    let mut items = Vec::new();
    if let Some(job) = query.job {
        let mut get = connection.prepare_cached(include_str!("sql/executions/get.sql"))?;
        history::newest_first(connection, job, (from, end), |id| {
            let mut found = get.query(params![id.as_bytes(), tenant])?;
            if let Some(row) = found.next()? {
                let execution = rows::execution(row, &mut texts)?;
                if states & (1 << execution.state.code()) != 0 {
                    items.push(execution);
                }
            }
            Ok(items.len() <= query.limit)
        })?;
    } else {
        let unhappy = states & !mask(&UNHAPPY) == 0;
        let mut list = match unhappy {
            true => connection.prepare_cached(include_str!("sql/executions/list_unhappy.sql"))?,
            false => connection.prepare_cached(include_str!("sql/executions/list.sql"))?,
        };
        let mut found = list.query(params![from, end, tenant, states, query.limit as i64 + 1])?;
        while let Some(row) = found.next()? {
            items.push(rows::execution(row, &mut texts)?);
        }
    }
    let has_more = items.len() > query.limit;
    items.truncate(query.limit);
    Ok(Page { items, has_more })
}

/// Final states other than success: rare, and often asked for. They have an index of their own.
pub(super) const UNHAPPY: [State; 3] = [State::Dead, State::Cancelled, State::Skipped];

/// The mask of `states`; of all when there are none.
fn mask(states: &[State]) -> u16 {
    let states = if states.is_empty() { &State::ALL[..] } else { states };
    states.iter().fold(0, |mask, state| mask | 1 << state.code())
}

/// A mask as a guard of states in which both events may happen.
pub(super) const fn both(a: StateSet, b: StateSet) -> u16 {
    a.mask() & b.mask()
}

/// Lists the attempts of an execution: those with rows of their own, then the one in the execution's row.
pub(super) fn list_attempts(connection: &Connection, tenant: TenantId, execution: ExecutionId) -> Done<Vec<Attempt>> {
    let mut list = connection.prepare_cached(include_str!("sql/attempts/list.sql"))?;
    let mut newest = connection.prepare_cached(include_str!("sql/attempts/get_newest.sql"))?;
    let key = params![execution.as_bytes(), tenant.0];
    let mut attempts = Vec::new();
    let mut found = list.query(key)?;
    while let Some(row) = found.next()? {
        attempts.push(rows::attempt(row)?);
    }
    let mut found = newest.query(key)?;
    if let Some(row) = found.next()? {
        let newest = rows::attempt(row)?;
        // After a failure that is tried again, it has a row of its own.
        if attempts.last().is_none_or(|last: &Attempt| last.fence != newest.fence) {
            attempts.push(newest);
        }
    }
    Ok(attempts)
}

/// Lists the skips of a job, newest first.
pub(super) fn list_skips(connection: &Connection, tenant: TenantId, job: JobId, limit: usize) -> Done<Vec<Skip>> {
    let mut list = connection.prepare_cached(include_str!("sql/skips/list.sql"))?;
    let mut found = list.query(params![job.as_bytes(), tenant.0, limit as i64])?;
    let mut skips = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        skips.push(Skip {
            tenant,
            job,
            to: columns.instant()?,
            from: columns.instant()?,
            reason: columns.code("reason", Reason::from_code)?,
            recorded_at: columns.instant()?,
        });
    }
    Ok(skips)
}
