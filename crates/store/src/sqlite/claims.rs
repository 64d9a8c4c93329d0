//! Claims: whether an execution may start, and its start.
//!
//! A claim is judged in one transaction with its write, in this order: state, number of attempts, instant; whether its job
//! still wants it (`discard_reason`); whether its pool has room; whether another run of its job is in its way
//! (`overlap::decide`). The last two depend on who came before. So a batch is judged twice: first, in the order of ids, those
//! to which neither applies, which are nearly all; then the others, in the order of the batch.

use super::capacities::Pools;
use super::counters;
use super::effects::{Effects, Subject, Transition};
use super::executions::{self, Current};
use super::failure::{Done, Failure, expect_one};
use super::overlaps::{self, Turn};
use super::progress;
use super::remembered;
use super::rows::{Columns, Texts};
use super::watches;
use crate::rules::{after, in_order, lease_ms, time_limit_ms};
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::execution::Reason;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::{ExecutionId, FireKind};
use campanile_model::job::JobState;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::notify::WatchKind;
use campanile_model::overlap::Overlap;
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{AttemptFence, Claim, Claimed, Granted, Waiting, discard_reason};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, params};
use std::sync::Arc;

/// Starts attempts. Answers also with executions that may start because a claim found that another must not.
pub(super) fn claim(connection: &Connection, claims: &[Claim]) -> Done<(Vec<Claimed>, Vec<Waiting>)> {
    let mut fences = counters::take(connection, counters::FENCE, claims.len())?..;
    let mut judge = Judge::prepare(connection, include_str!("sql/attempts/get_for_claim.sql"))?;
    let mut start = connection.prepare_cached(include_str!("sql/attempts/claim.sql"))?;
    let mut effects = Effects::new(connection);
    let mut verdicts: Vec<Option<Claimed>> = vec![None; claims.len()];
    let mut contended = Vec::new();
    let mut one = |i: usize, last: bool, effects: &mut Effects<'_>| -> Done<bool> {
        let claim = &claims[i];
        verdicts[i] = Some(match judge.judge(effects, claim, last, offer)? {
            Judged::Ready { candidate, rest, terminated } => {
                let fence = fences.next().unwrap_or_default();
                let mut granted = grant(connection, claim, fence, &candidate, rest)?;
                granted.terminated = terminated;
                begin(effects, &mut start, claim, &candidate, &granted)?;
                Claimed::Granted(Box::new(granted))
            }
            Judged::Contended => return Ok(false),
            Judged::Discarded(reason) => Claimed::Discarded(reason),
            Judged::Held { by, cancel } => Claimed::Held { by, cancel },
            Judged::Deferred(reason, _) => Claimed::Deferred(reason),
            Judged::Early(wake_at, _) => Claimed::Early { wake_at },
            Judged::Stale(state) => Claimed::Stale { state },
            Judged::Gone => Claimed::Gone,
        });
        Ok(true)
    };
    for i in in_order(claims, |claim| claim.execution) {
        if !one(i, false, &mut effects)? {
            contended.push(i);
        }
    }
    contended.sort_unstable();
    for i in contended {
        one(i, true, &mut effects)?;
    }
    let ready = std::mem::take(&mut judge.ready);
    effects.apply()?;
    Ok((verdicts.into_iter().flatten().collect(), ready))
}

/// The states in which an execution can be claimed.
fn claimable() -> u16 {
    // rq#1669: what was cancelled after it was queued starts all the same.
    let cancelled = if planted(Bug("starts-after-cancel")) { 1 << State::Cancelled.code() } else { 0 };
    lifecycle::sources(Event::Claim).mask() | cancelled
}

/// The write of a claim that was judged in the same transaction.
fn begin(
    effects: &mut Effects<'_>,
    statement: &mut CachedStatement<'_>,
    claim: &Claim,
    candidate: &Current,
    granted: &Granted,
) -> Done<()> {
    statement.raw_bind_parameter(1, claim.execution.as_bytes())?;
    let unguarded = planted(Bug("claim_unguarded"));
    statement.raw_bind_parameter(2, if unguarded { u16::MAX } else { claimable() })?;
    statement.raw_bind_parameter(3, candidate.attempt)?;
    statement.raw_bind_parameter(4, lifecycle::target(Event::Claim).code())?;
    statement.raw_bind_parameter(5, granted.fence.fence as i64)?;
    statement.raw_bind_parameter(6, &*claim.worker)?;
    statement.raw_bind_parameter(7, claim.now.millis())?;
    statement.raw_bind_parameter(8, granted.lease_until.millis())?;
    statement.raw_bind_parameter(9, claim.queued_at.map(Timestamp::millis))?;
    expect_one(statement.raw_execute()?, claim.execution)?;
    let (of, from) = (&candidate.of, Some(candidate.state));
    effects.note(&Transition { of, from, event: Event::Claim, at: claim.now, reason: None, attempt: None })?;
    if of.overlap != Overlap::Allow {
        overlaps::enter(effects.connection(), of.job, of.id, true)?;
    }
    if of.watched & 1 << WatchKind::Start.code() != 0 && candidate.first_start().is_none() {
        watches::started(effects.connection(), of.id)?;
    }
    let first_started_at = candidate.first_start();
    remembered::note(granted.fence.fence, Subject { first_started_at, ..of.clone() });
    Ok(())
}

/// Whether executions may start, and the statements that find out.
pub(super) struct Judge<'c> {
    get: CachedStatement<'c>,
    texts: Texts,
    pub(super) pools: Pools,
    /// Executions that got a turn because another one must not have it.
    pub(super) ready: Vec<Waiting>,
}

/// The answer.
pub(super) enum Judged<T> {
    /// It may start; another run was ended for it.
    Ready { candidate: Current, rest: T, terminated: Option<ExecutionId> },
    /// It depends on who comes before it: ask again.
    Contended,
    /// It was skipped.
    Discarded(Reason),
    /// It waits for another run, which was asked to stop or not.
    Held { by: ExecutionId, cancel: bool },
    /// It may not start now.
    Deferred(Reason, State),
    /// Its time has not come.
    Early(Timestamp, State),
    /// It cannot start in this state.
    Stale(State),
    /// There is none.
    Gone,
}

impl<'c> Judge<'c> {
    /// `get` selects what is judged by, as `judge.sql` does, and then what else the caller wants.
    pub(super) fn prepare(connection: &'c Connection, get: &str) -> Done<Self> {
        let get = connection.prepare_cached(get)?;
        Ok(Self { get, texts: Texts::default(), pools: Pools::default(), ready: Vec::new() })
    }

    /// Judges a claim. One that must not run any more is skipped here, and one that must wait is held; of one that may start,
    /// `read` takes what else there is in the row. What depends on who comes before it is judged only when `last` is set.
    pub(super) fn judge<T>(
        &mut self,
        effects: &mut Effects<'_>,
        claim: &Claim,
        last: bool,
        read: impl FnOnce(&mut Columns<'_, '_>, &mut Texts) -> Done<T>,
    ) -> Done<Judged<T>> {
        let (candidate, wanted) = {
            let mut found = self.get.query([claim.execution.as_bytes()])?;
            let Some(row) = found.next()? else { return Ok(Judged::Gone) };
            let mut columns = Columns::of(row);
            let (kind, job_version) = (columns.code("fire kind", FireKind::from_code)?, columns.next()?);
            let wake_at = columns.instant()?;
            let candidate = Current::read(&mut columns, claim.execution, &mut self.texts)?;
            if planted(Bug("claim-by-insert")) {
                // Sketch S1: the row is there, so somebody else must have been faster.
                const CLAIM: &str =
                    "INSERT INTO executions SELECT * FROM executions WHERE id = ?1 ON CONFLICT DO NOTHING";
                if effects.connection().execute(CLAIM, [claim.execution.as_bytes()])? == 0 {
                    return Ok(Judged::Stale(candidate.state));
                }
            }
            let allowed = claimable() & 1 << candidate.state.code() != 0;
            let taken = candidate.state == lifecycle::target(Event::Claim) && planted(Bug("claim_unguarded"));
            // quartz#29: a trigger that was fired and set again in between is taken for the one that was read.
            let another = candidate.attempt != claim.attempt && !planted(Bug("claim-of-any-attempt"));
            if !taken && (!allowed || another) {
                return Ok(Judged::Stale(candidate.state));
            }
            if wake_at > claim.now && !taken && !planted(Bug("early_unguarded")) {
                return Ok(Judged::Early(wake_at, candidate.state));
            }
            let of = &candidate.of;
            let contended =
                of.overlap != Overlap::Allow || self.pools.is_limited(effects.connection(), of.tenant, &of.pool)?;
            if contended && !last {
                return Ok(Judged::Contended);
            }
            match stale(&mut columns, (kind, job_version), &candidate)? {
                None => (candidate, Ok(read(&mut columns, &mut self.texts)?)),
                Some(reason) => (candidate, Err(reason)),
            }
        };
        let rest = match wanted {
            Ok(rest) => rest,
            Err(reason) => {
                self.skip(effects, &candidate, reason, claim.now)?;
                return Ok(Judged::Discarded(reason));
            }
        };
        let of = &candidate.of;
        // Without limits and policies, which is nearly always, that was it.
        if !last {
            return Ok(Judged::Ready { candidate, rest, terminated: None });
        }
        if let Some(reason) = self.pools.refuses(effects, of.tenant, &of.pool)? {
            return Ok(Judged::Deferred(reason, candidate.state));
        }
        if of.overlap == Overlap::Allow {
            return Ok(Judged::Ready { candidate, rest, terminated: None });
        }
        match overlaps::judge(effects, (of.overlap, of.job, of.id), claim.now)? {
            Turn::Start { terminated } => Ok(Judged::Ready { candidate, rest, terminated }),
            Turn::Skip(reason) => {
                self.skip(effects, &candidate, reason, claim.now)?;
                Ok(Judged::Discarded(reason))
            }
            Turn::Wait { by, cancel } => {
                hold(effects, &candidate, claim.now)?;
                Ok(Judged::Held { by, cancel })
            }
        }
    }

    /// It never runs.
    fn skip(&mut self, effects: &mut Effects<'_>, candidate: &Current, reason: Reason, now: Timestamp) -> Done<()> {
        let of = &candidate.of;
        executions::end(effects, candidate, Event::Discard, (reason, None), now)?;
        match of.overlap {
            Overlap::Allow => Ok(()),
            _ => overlaps::over(effects, (of.job, of.id), now, &mut self.ready),
        }
    }
}

/// It waits for another run of its job.
fn hold(effects: &mut Effects<'_>, candidate: &Current, now: Timestamp) -> Done<()> {
    let of = &candidate.of;
    let changed = effects.connection().prepare_cached(include_str!("sql/executions/hold.sql"))?.execute(params![
        of.id.as_bytes(),
        lifecycle::target(Event::Hold).code(),
        Reason::DependencyWaiting.code(),
        lifecycle::sources(Event::Hold).mask(),
        candidate.attempt,
    ])?;
    expect_one(changed, of.id)?;
    overlaps::enter(effects.connection(), of.job, of.id, false)?;
    let reason = Some(Reason::DependencyWaiting);
    effects.note(&Transition { of, from: Some(candidate.state), event: Event::Hold, at: now, reason, attempt: None })
}

/// Why an execution must not run, by its job as it is now. The columns stand at the job's state.
fn stale(
    columns: &mut Columns<'_, '_>,
    (kind, job_version): (FireKind, u32),
    candidate: &Current,
) -> Done<Option<Reason>> {
    let Some(state) = columns.code_or_none("job state", JobState::from_code)? else {
        return Ok(Some(Reason::JobDeleted));
    };
    let job = (state, columns.next()?, columns.instant()?);
    // A snooze leaves no attempt behind, and yet it was tried.
    let tried = candidate.attempt.max(u32::from(candidate.first_start().is_some()));
    Ok(discard_reason((kind, job_version, candidate.of.fire_at, tried), job))
}

/// Why an execution must not run that has waited for its turn.
pub(super) fn stale_now(connection: &Connection, id: ExecutionId) -> Done<Option<Reason>> {
    let mut get = connection.prepare_cached(include_str!("sql/attempts/judge.sql"))?;
    let mut found = get.query([id.as_bytes()])?;
    let row = found.next()?.ok_or_else(|| Failure::corrupt("overlap"))?;
    let mut columns = Columns::of(row);
    let fired = (columns.code("fire kind", FireKind::from_code)?, columns.next()?);
    columns.skip(1);
    let candidate = Current::read(&mut columns, id, &mut Texts::default())?;
    stale(&mut columns, fired, &candidate)
}

/// What a runner needs of the row beyond what a claim is judged by.
struct Offer {
    covers_from: Option<Timestamp>,
    attempts_from: u32,
    losses: u32,
    job_version: u32,
    job_name: Arc<str>,
    action: ActionSpec,
    retry: RetryPolicy,
    timeout_ms: u64,
    payload: Arc<str>,
}

fn offer(columns: &mut Columns<'_, '_>, texts: &mut Texts) -> Done<Offer> {
    let job_version = columns.back(2).next()?;
    columns.skip(1);
    Ok(Offer {
        job_version,
        covers_from: columns.instant_or_none()?,
        attempts_from: columns.next()?,
        losses: columns.next()?,
        job_name: columns.text()?.into(),
        action: ActionSpec {
            kind: columns.code("action", ActionKind::from_code)?,
            config: texts.share(columns.text()?),
        },
        retry: columns.retry()?,
        timeout_ms: columns.number()?,
        payload: texts.share(columns.text()?),
    })
}

/// What a runner gets.
fn grant(connection: &Connection, claim: &Claim, fence: u64, candidate: &Current, offer: Offer) -> Done<Granted> {
    let of = &candidate.of;
    let first_start = match offer.attempts_from {
        0 => candidate.first_start(),
        // Attempts before a replay do not count.
        from => first_since(connection, of.id, from)?,
    };
    let first_started_at = first_start.unwrap_or(claim.now);
    let timeout_ms = time_limit_ms(offer.timeout_ms, offer.retry.total_timeout_ms, first_started_at, claim.now);
    let checkpoint = match candidate.deliveries {
        0 => None,
        _ => progress::checkpoint(connection, of.id)?,
    };
    Ok(Granted {
        fence: AttemptFence { execution: of.id, attempt: claim.attempt + 1, fence },
        tenant: of.tenant,
        job: of.job,
        job_version: offer.job_version,
        job_name: offer.job_name,
        action: offer.action,
        payload: offer.payload,
        retry: offer.retry,
        timeout_ms,
        fire_at: of.fire_at,
        lease_until: after(claim.now, lease_ms(claim.lease, timeout_ms)),
        covers_from: offer.covers_from,
        attempts_from: offer.attempts_from,
        losses: offer.losses,
        first_started_at,
        checkpoint,
        terminated: None,
    })
}

fn first_since(connection: &Connection, id: ExecutionId, attempts_from: u32) -> Done<Option<Timestamp>> {
    let mut first = connection.prepare_cached(include_str!("sql/attempts/first_since.sql"))?;
    let first: Option<i64> = first.query_row(params![id.as_bytes(), attempts_from], |row| row.get(0))?;
    Ok(first.map(Timestamp::from_millis))
}
