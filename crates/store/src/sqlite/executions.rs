//! Executions: fire, load, get; and what every write of one execution needs: to find it, to end it, to ask it to stop.

use super::effects::{Effects, EndedAttempt, Subject, Transition};
use super::failure::{Done, Failure, expect_one};
use super::history;
use super::jobs::insert_skip;
use super::keys::{Keys, Used};
use super::overlaps;
use super::remembered;
use super::rows::{self, Columns, Texts};
use super::shards;
use super::watches;
use crate::rules::{in_order, watched};
use crate::shard_set::ShardSet;
use campanile_model::execution::{Attempt, AttemptOutcome, Execution, Reason};
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{ExecutionId, FireKind, TenantId};
use campanile_model::lifecycle::{self, Event, State, StateSet};
use campanile_model::overlap::Overlap;
use campanile_model::shard::shard_of;
use campanile_model::store::{Fire, FireBatch, FireVerdict, Fired, Waiting, WaitingQuery};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, params};
use std::borrow::Cow;
use std::sync::Arc;

/// Inserts executions and skips, all or nothing. Answers also with executions that may start because a newer version of their
/// job gave up a turn.
pub(super) fn fire(connection: &Connection, batch: &FireBatch) -> Done<(FireVerdict, Vec<Waiting>)> {
    let jobs = batch.fires.iter().map(|fire| (fire.dispatch.job, fire.kind != FireKind::Schedule));
    let jobs = jobs.chain(batch.skips.iter().map(|skip| (skip.job, false)));
    // What somebody asked for needs no fence where there is none: no schedule repeats it.
    let unfenced = batch.fences.is_empty();
    let guarded = ShardSet::of(jobs.filter(|(_, asked)| !(unfenced && *asked)).map(|(job, _)| shard_of(job)));
    let lost = shards::lost(connection, &guarded, &batch.fences)?;
    if !lost.is_empty() && !planted(Bug("epoch_unchecked")) {
        return Ok((FireVerdict::EpochLost(lost), Vec::new()));
    }
    if let Some(verdict) = replay(connection, batch)? {
        return Ok((verdict, Vec::new()));
    }
    let mut insert = connection.prepare_cached(include_str!("sql/executions/fire.sql"))?;
    let mut effects = Effects::new(connection);
    let mut ready = Vec::new();
    let mut verdicts = vec![Fired::Exists; batch.fires.len()];
    // In id order, so that the trees append; the answers stay in the order of the batch.
    for i in in_order(&batch.fires, |fire| fire.dispatch.execution) {
        let fire = &batch.fires[i];
        let born = insert_one(&mut insert, fire, lifecycle::target(Event::Refire), batch.now)?;
        if born {
            effects.count(fire.dispatch.tenant, &fire.dispatch.pool, None, Some(lifecycle::target(Event::Refire)));
        }
        if born || refire(&mut effects, fire, batch.now, &mut ready)? {
            watches::begin(connection, fire)?;
            remembered::fired(fire);
            verdicts[i] = Fired::New;
        }
    }
    let fired = batch.fires.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Fired::New);
    history::append(connection, fired.map(|(fire, _)| (fire.dispatch.job, fire.dispatch.execution)))?;
    let mut put_skip = connection.prepare_cached(include_str!("sql/skips/insert.sql"))?;
    for skip in &batch.skips {
        insert_skip(&mut put_skip, skip)?;
    }
    effects.apply()?;
    Ok((FireVerdict::Fired(verdicts), ready))
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

/// Inserts an execution by `fire.sql`, in this state. Says whether there was none.
pub(super) fn insert_one(insert: &mut CachedStatement<'_>, fire: &Fire, state: State, now: Timestamp) -> Done<bool> {
    let dispatch = &fire.dispatch;
    insert.raw_bind_parameter(1, dispatch.execution.as_bytes())?;
    insert.raw_bind_parameter(2, dispatch.tenant.0)?;
    insert.raw_bind_parameter(3, dispatch.job.as_bytes())?;
    insert.raw_bind_parameter(4, dispatch.job_version)?;
    insert.raw_bind_parameter(5, dispatch.fire_at.millis())?;
    insert.raw_bind_parameter(6, fire.kind.code())?;
    insert.raw_bind_parameter(7, state.code())?;
    insert.raw_bind_parameter(8, dispatch.priority.code())?;
    insert.raw_bind_parameter(9, &*dispatch.pool)?;
    insert.raw_bind_parameter(10, dispatch.action.code())?;
    insert.raw_bind_parameter(11, fire.wake_at.millis())?;
    insert.raw_bind_parameter(12, now.millis())?;
    insert.raw_bind_parameter(13, &*dispatch.target)?;
    insert.raw_bind_parameter(14, fire.overlap.code())?;
    insert.raw_bind_parameter(15, fire.covers_from.map(Timestamp::millis))?;
    insert.raw_bind_parameter(16, watched(&fire.expect))?;
    Ok(insert.raw_execute()? == 1)
}

/// Gives an execution that is there to a newer version of its job, if that may take it over: it has not begun, and was not
/// skipped for another reason than its version. Says whether it did.
fn refire(effects: &mut Effects<'_>, fire: &Fire, now: Timestamp, ready: &mut Vec<Waiting>) -> Done<bool> {
    let connection = effects.connection();
    let dispatch = &fire.dispatch;
    let (state, pool, overlap) = {
        let mut get = connection.prepare_cached(include_str!("sql/executions/get_fired.sql"))?;
        let mut found = get.query([dispatch.execution.as_bytes()])?;
        let row = found.next()?.ok_or_else(|| Failure::corrupt("execution"))?;
        let mut columns = Columns::of(row);
        let (state, version, attempt) = (columns.state()?, columns.next::<u32>()?, columns.next::<u32>()?);
        let reason = columns.code_or_none("reason", Reason::from_code)?;
        let (newest, first) = (columns.instant_or_none()?, columns.instant_or_none()?);
        let given_way = !state.is_final() || reason == Some(Reason::StaleVersion);
        let begun = attempt > 0 || newest.is_some() || first.is_some();
        let legal = lifecycle::sources(Event::Refire).contains(state);
        let forbidden = !legal || !given_way || begun || version >= dispatch.job_version;
        if forbidden && !planted(Bug("fired-again-after-restart")) {
            return Ok(false);
        }
        let pool: Arc<str> = columns.text()?.into();
        (state, pool, columns.overlap()?)
    };
    let (mut sql, mut states) =
        (Cow::from(include_str!("sql/executions/refire.sql")), lifecycle::sources(Event::Refire).mask());
    if planted(Bug("fired-again-after-restart")) {
        // airflow#23520: after a restart, what ran already is fired again.
        (sql, states) = (sql.replace(" AND job_version < ?2 AND attempt = 0", "").into(), u16::MAX);
    }
    let changed = connection.prepare_cached(&sql)?.execute(params![
        dispatch.execution.as_bytes(),
        dispatch.job_version,
        lifecycle::target(Event::Refire).code(),
        dispatch.priority.code(),
        &*dispatch.pool,
        dispatch.action.code(),
        fire.wake_at.millis(),
        now.millis(),
        &*dispatch.target,
        fire.overlap.code(),
        fire.covers_from.map(Timestamp::millis),
        states,
        watched(&fire.expect),
    ])?;
    expect_one(changed, dispatch.execution)?;
    effects.count(dispatch.tenant, &pool, Some(state), None);
    effects.count(dispatch.tenant, &dispatch.pool, None, Some(lifecycle::target(Event::Refire)));
    // What waited for its turn asks for it again, by its new policy.
    let leaves = fire.overlap == Overlap::Allow || state == State::Held;
    if overlap != Overlap::Allow && leaves {
        overlaps::over(effects, (dispatch.job, dispatch.execution), now, ready)?;
    }
    Ok(true)
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
        query.fired_until.millis(),
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

/// An execution as it is.
pub(super) struct Current {
    pub(super) of: Subject,
    pub(super) state: State,
    pub(super) attempt: u32,
    pub(super) started_at: Option<Timestamp>,
    pub(super) deliveries: u32,
}

impl Current {
    /// Reads the columns `state, attempt, started_at, deliveries, tenant, job_id, pool, target, overlap, watched, fire_at,
    /// first_started_at`.
    pub(super) fn read(columns: &mut Columns<'_, '_>, id: ExecutionId, texts: &mut Texts) -> Done<Self> {
        let (state, attempt) = (columns.state()?, columns.next()?);
        let (started_at, deliveries) = (columns.instant_or_none()?, columns.next()?);
        let of = Subject {
            id,
            tenant: columns.tenant()?,
            job: columns.job_id()?,
            pool: texts.share(columns.text()?),
            target: texts.share(columns.text()?),
            overlap: columns.overlap()?,
            watched: columns.next()?,
            fire_at: columns.instant()?,
            first_started_at: columns.instant_or_none()?,
        };
        Ok(Self { of, state, attempt, started_at, deliveries })
    }

    /// When its first attempt started, if there was one.
    pub(super) fn first_start(&self) -> Option<Timestamp> {
        self.of.first_started_at.or(self.started_at)
    }

    /// Whether an attempt runs.
    pub(super) fn runs(&self) -> bool {
        lifecycle::sources(Event::Succeed).contains(self.state)
    }
}

/// An execution with all that a write is judged by.
pub(super) struct Found {
    pub(super) now: Current,
    pub(super) fence: u64,
    pub(super) wake_at: Timestamp,
    pub(super) outcome: Option<AttemptOutcome>,
    pub(super) finished_at: Option<Timestamp>,
    pub(super) cancel_requested_at: Option<Timestamp>,
    pub(super) fingerprint: Option<u64>,
    pub(super) worker: Option<String>,
}

impl std::ops::Deref for Found {
    type Target = Current;

    fn deref(&self) -> &Current {
        &self.now
    }
}

/// Finds an execution.
pub(super) fn find(connection: &Connection, id: ExecutionId, texts: &mut Texts) -> Done<Option<Found>> {
    find_by(&mut connection.prepare_cached(FIND)?, id, texts)
}

/// The statement of `find_by`.
pub(super) const FIND: &str = include_str!("sql/executions/find.sql");

/// Finds an execution by a statement that is used many times.
pub(super) fn find_by(find: &mut CachedStatement<'_>, id: ExecutionId, texts: &mut Texts) -> Done<Option<Found>> {
    let mut found = find.query([id.as_bytes()])?;
    let Some(row) = found.next()? else { return Ok(None) };
    let mut columns = Columns::of(row);
    Ok(Some(Found {
        now: Current::read(&mut columns, id, texts)?,
        fence: columns.number()?,
        wake_at: columns.instant()?,
        outcome: columns.code_or_none("outcome", AttemptOutcome::from_code)?,
        finished_at: columns.instant_or_none()?,
        cancel_requested_at: columns.instant_or_none()?,
        fingerprint: columns.number_or_none()?,
        worker: columns.next()?,
    }))
}

/// Ends an execution that was found in the same transaction and that no completion ends; the attempt that runs ends with it,
/// as cancelled. Whoever waited for it is the caller's business.
pub(super) fn end(
    effects: &mut Effects<'_>,
    current: &Current,
    event: Event,
    (reason, note): (Reason, Option<&str>),
    now: Timestamp,
) -> Done<()> {
    let Current { of, state, attempt, started_at, .. } = current;
    let runs = current.runs();
    let mut end = effects.connection().prepare_cached(include_str!("sql/executions/end.sql"))?;
    let changed = end.execute(params![
        of.id.as_bytes(),
        lifecycle::target(event).code(),
        reason.code(),
        now.millis(),
        runs.then_some(AttemptOutcome::Cancelled.code()),
        note,
        lifecycle::sources(event).mask(),
        attempt,
    ])?;
    expect_one(changed, of.id)?;
    let attempt = started_at.filter(|_| runs).map(|started_at| EndedAttempt {
        number: *attempt,
        started_at,
        error: None,
        fingerprint: None,
    });
    effects.note(&Transition { of, from: Some(*state), event, at: now, reason: Some(reason), attempt })
}

/// Asks a running attempt to stop until `until`, and answers when its lease ends now. Asking again only makes it earlier.
pub(super) fn ask(
    connection: &Connection,
    found: &Found,
    (reason, note): (Reason, Option<&str>),
    until: Timestamp,
    now: Timestamp,
) -> Done<Timestamp> {
    let mut ask = connection.prepare_cached(include_str!("sql/executions/ask.sql"))?;
    let until = ask.query_row(
        params![
            found.of.id.as_bytes(),
            until.millis(),
            now.millis(),
            reason.code(),
            lifecycle::sources(Event::Succeed).mask(),
            found.fence as i64,
            note,
        ],
        |row| row.get(0),
    )?;
    Ok(Timestamp::from_millis(until))
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
