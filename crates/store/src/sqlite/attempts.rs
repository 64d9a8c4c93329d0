//! Attempts: claim, extend, complete, and whose lease is over.
//!
//! I4: only the current attempt completes. Every write is guarded by the states of its event, the attempt's number and
//! its fence, in the `WHERE` of the statement that writes.

use super::counters;
use super::executions::{both, guard, in_order};
use super::failure::{Done, Failure};
use super::rows::{self, Columns, Texts};
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::error::{Error, Kind};
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, FireKind};
use campanile_model::job::JobState;
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::store::{
    Applied, AttemptFence, Claim, Claimed, Completion, CompletionOf, Expired, Extension, Granted, discard_reason,
};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, Row, params};
use std::collections::HashSet;
use std::sync::Arc;

/// Starts attempts.
pub(super) fn claim(connection: &Connection, claims: &[Claim]) -> Done<Vec<Claimed>> {
    let first_fence = counters::take(connection, counters::FENCE, claims.len())?;
    let mut ready = Ready::prepare(connection, include_str!("sql/attempts/get_for_claim.sql"))?;
    let mut claim = connection.prepare_cached(include_str!("sql/attempts/claim.sql"))?;
    let mut texts = Texts::default();
    let mut verdicts: Vec<Option<Claimed>> = vec![None; claims.len()];
    for (i, fence) in in_order(claims, |claim| claim.execution).into_iter().zip(first_fence..) {
        verdicts[i] = Some(match ready.judge(&claims[i], |row| granted(row, &claims[i], fence, &mut texts))? {
            Judged::Ready(granted) => {
                start(&mut claim, &claims[i], &granted)?;
                Claimed::Granted(Box::new(granted))
            }
            Judged::Discarded(reason) => Claimed::Discarded(reason),
            Judged::Stale(state) => Claimed::Stale { state },
            Judged::Gone => Claimed::Gone,
        });
    }
    Ok(verdicts.into_iter().flatten().collect())
}

/// The write of a claim that was judged in the same transaction.
fn start(statement: &mut CachedStatement<'_>, claim: &Claim, granted: &Granted) -> Done<()> {
    statement.raw_bind_parameter(1, claim.execution.as_bytes())?;
    statement.raw_bind_parameter(2, lifecycle::sources(Event::Claim).mask())?;
    statement.raw_bind_parameter(3, claim.attempt)?;
    statement.raw_bind_parameter(4, lifecycle::target(Event::Claim).code())?;
    statement.raw_bind_parameter(5, granted.fence.fence as i64)?;
    statement.raw_bind_parameter(6, &*claim.worker)?;
    statement.raw_bind_parameter(7, claim.now.millis())?;
    statement.raw_bind_parameter(8, granted.lease_until.millis())?;
    expect_one(statement.raw_execute()?, claim.execution)
}

/// Whether an execution may start, and the statements that find out.
struct Ready<'c> {
    get: CachedStatement<'c>,
    discard: CachedStatement<'c>,
}

/// The answer.
enum Judged<T> {
    Ready(T),
    Discarded(Reason),
    Stale(State),
    Gone,
}

impl<'c> Ready<'c> {
    /// `get` selects what `stale` reads first, and then what else the caller wants.
    fn prepare(connection: &'c Connection, get: &str) -> Done<Self> {
        Ok(Self {
            get: connection.prepare_cached(get)?,
            discard: connection.prepare_cached(include_str!("sql/executions/discard.sql"))?,
        })
    }

    /// Judges a claim. One that must not run any more is skipped here; for one that may, `read` takes what it needs
    /// from the row.
    fn judge<T>(&mut self, claim: &Claim, read: impl FnOnce(&Row<'_>) -> Done<T>) -> Done<Judged<T>> {
        let reason = {
            let mut found = self.get.query([claim.execution.as_bytes()])?;
            let Some(row) = found.next()? else { return Ok(Judged::Gone) };
            let mut columns = Columns::of(row);
            let (state, attempt) = (columns.state()?, columns.next::<u32>()?);
            let wake_at = columns.instant()?;
            let allowed = lifecycle::sources(Event::Claim).contains(state);
            if !allowed || attempt != claim.attempt || wake_at > claim.now {
                return Ok(Judged::Stale(state));
            }
            match stale(&mut columns, attempt)? {
                None => return Ok(Judged::Ready(read(row)?)),
                Some(reason) => reason,
            }
        };
        let changed = self.discard.execute(params![
            claim.execution.as_bytes(),
            lifecycle::target(Event::Discard).code(),
            reason.code(),
            lifecycle::sources(Event::Discard).mask(),
            claim.attempt,
            claim.now.millis(),
        ])?;
        expect_one(changed, claim.execution)?;
        Ok(Judged::Discarded(reason))
    }
}

/// Why an execution must not run, by its job as it is now. The columns stand at `kind`.
fn stale(columns: &mut Columns<'_, '_>, attempt: u32) -> Done<Option<Reason>> {
    let kind = columns.code("fire kind", FireKind::from_code)?;
    let (job_version, fire_at) = (columns.next()?, columns.instant()?);
    columns.skip(1);
    let Some(state) = columns.code_or_none("job state", JobState::from_code)? else {
        return Ok(Some(Reason::JobDeleted));
    };
    let (version, updated_at) = (columns.next()?, columns.instant()?);
    Ok(discard_reason((kind, job_version, fire_at, attempt), (state, version, updated_at)))
}

/// What a runner needs, by the job as it is now.
fn granted(row: &Row<'_>, claim: &Claim, fence: u64, texts: &mut Texts) -> Done<Granted> {
    let mut columns = Columns::of(row);
    columns.skip(5);
    let (fire_at, job) = (columns.instant()?, columns.job_id()?);
    columns.skip(1);
    let job_version = columns.next()?;
    columns.skip(1);
    let tenant = columns.tenant()?;
    let job_name: Arc<str> = columns.text()?.into();
    let kind = columns.code("action", ActionKind::from_code)?;
    let action = ActionSpec { kind, config: texts.share(columns.text()?) };
    let retry = columns.retry()?;
    let timeout_ms = columns.number()?;
    let lease_ms = i64::try_from(timeout_ms.saturating_add(claim.lease_ms)).unwrap_or(i64::MAX);
    Ok(Granted {
        fence: AttemptFence { execution: claim.execution, attempt: claim.attempt + 1, fence },
        tenant,
        job,
        job_version,
        job_name,
        action,
        payload: texts.share(columns.text()?),
        retry,
        timeout_ms,
        fire_at,
        lease_until: claim.now.saturating_add_ms(lease_ms),
    })
}

/// Prolongs leases.
pub(super) fn extend(connection: &Connection, extensions: &[Extension]) -> Done<Vec<Applied>> {
    let mut extend = connection.prepare_cached(include_str!("sql/attempts/extend.sql"))?;
    let mut verdicts = Vec::with_capacity(extensions.len());
    for Extension { fence, lease_until } in extensions {
        let changed = extend.execute(params![
            fence.execution.as_bytes(),
            RUNS,
            fence.attempt,
            fence.fence as i64,
            lease_until.millis(),
        ])?;
        verdicts.push(match changed {
            1 => Applied::Done,
            _ => guard(connection, fence.execution)?.map_or(Applied::Gone, |row| Applied::Stale { state: row.state }),
        });
    }
    Ok(verdicts)
}

/// The states in which an attempt runs, and so may end or be prolonged.
const RUNS: u16 = lifecycle::sources(Event::Succeed).mask();

/// Ends attempts.
pub(super) fn complete(connection: &Connection, completions: &[Completion]) -> Done<Vec<Applied>> {
    let unclaimed = completions.iter().filter(|c| matches!(c.of, CompletionOf::Unclaimed(_))).count();
    let mut fences = match unclaimed {
        0 => 0..,
        count => counters::take(connection, counters::FENCE, count)?..,
    };
    let mut statements = Statements::prepare(connection)?;
    let mut verdicts = vec![Applied::Gone; completions.len()];
    for i in in_order(completions, |completion| completion.execution()) {
        let completion = &completions[i];
        verdicts[i] = match &completion.of {
            CompletionOf::Running(fence) => statements.running(completion, fence)?,
            CompletionOf::Unclaimed(claim) => {
                let fence = fences.next().unwrap_or_default();
                statements.unclaimed(completion, claim, fence)?
            }
        };
    }
    Ok(verdicts)
}

struct Statements<'c> {
    connection: &'c Connection,
    ready: Ready<'c>,
    complete: CachedStatement<'c>,
    complete_unclaimed: CachedStatement<'c>,
    insert_attempt: CachedStatement<'c>,
    put_response: CachedStatement<'c>,
}

impl<'c> Statements<'c> {
    fn prepare(connection: &'c Connection) -> Done<Self> {
        Ok(Self {
            connection,
            ready: Ready::prepare(connection, include_str!("sql/attempts/judge.sql"))?,
            complete: connection.prepare_cached(include_str!("sql/attempts/complete.sql"))?,
            complete_unclaimed: connection.prepare_cached(include_str!("sql/attempts/complete_unclaimed.sql"))?,
            insert_attempt: connection.prepare_cached(include_str!("sql/attempts/insert.sql"))?,
            put_response: connection.prepare_cached(include_str!("sql/attempts/put_response.sql"))?,
        })
    }

    /// Ends an attempt that was claimed.
    fn running(&mut self, completion: &Completion, fence: &AttemptFence) -> Done<Applied> {
        let event = completion.event;
        // An attempt can only end while it runs, also by events that may happen in other states (`Cancel`).
        let sources = both(lifecycle::sources(event), lifecycle::sources(Event::Succeed));
        let target = lifecycle::target(event);
        let s = &mut self.complete;
        s.raw_bind_parameter(1, fence.execution.as_bytes())?;
        s.raw_bind_parameter(2, sources)?;
        s.raw_bind_parameter(3, fence.attempt)?;
        s.raw_bind_parameter(4, fence.fence as i64)?;
        s.raw_bind_parameter(5, target.code())?;
        s.raw_bind_parameter(6, completion.reason.map(Reason::code))?;
        // A snooze burns no attempt.
        s.raw_bind_parameter(7, u8::from(event == Event::Snooze))?;
        s.raw_bind_parameter(8, completion.wake_at.millis())?;
        s.raw_bind_parameter(9, completion.started_at.millis())?;
        s.raw_bind_parameter(10, completion.finished_at.millis())?;
        s.raw_bind_parameter(11, completion.outcome.code())?;
        s.raw_bind_parameter(12, completion.error.as_ref().map(|error| &*error.kind))?;
        s.raw_bind_parameter(13, completion.error.as_ref().map(|error| &*error.message))?;
        if s.raw_execute()? == 0 {
            return self.explain(completion, fence.fence);
        }
        if !target.is_final() {
            self.keep_attempt(completion, fence)?;
        }
        self.keep_rest(completion, fence.fence)?;
        Ok(Applied::Done)
    }

    /// Claims and ends an attempt in one write.
    fn unclaimed(&mut self, completion: &Completion, claim: &Claim, fence: u64) -> Done<Applied> {
        if completion.event != Event::Succeed {
            let message = format!("an unclaimed attempt cannot {:?}", completion.event);
            return Err(Error::new(Kind::Bug, message).into());
        }
        match self.ready.judge(claim, |_| Ok(()))? {
            Judged::Ready(()) => {}
            Judged::Discarded(_) => return Ok(Applied::Stale { state: lifecycle::target(Event::Discard) }),
            Judged::Stale(_) => return self.explain_unclaimed(completion, claim),
            Judged::Gone => return Ok(Applied::Gone),
        }
        let s = &mut self.complete_unclaimed;
        s.raw_bind_parameter(1, claim.execution.as_bytes())?;
        s.raw_bind_parameter(2, lifecycle::sources(Event::Claim).mask())?;
        s.raw_bind_parameter(3, claim.attempt)?;
        s.raw_bind_parameter(4, lifecycle::target(completion.event).code())?;
        s.raw_bind_parameter(5, fence as i64)?;
        s.raw_bind_parameter(6, &*claim.worker)?;
        s.raw_bind_parameter(7, completion.started_at.millis())?;
        s.raw_bind_parameter(8, completion.finished_at.millis())?;
        s.raw_bind_parameter(9, completion.outcome.code())?;
        s.raw_bind_parameter(10, completion.reason.map(Reason::code))?;
        s.raw_bind_parameter(11, completion.error.as_ref().map(|error| &*error.kind))?;
        s.raw_bind_parameter(12, completion.error.as_ref().map(|error| &*error.message))?;
        expect_one(s.raw_execute()?, claim.execution)?;
        self.keep_rest(completion, fence)?;
        Ok(Applied::Done)
    }

    /// Keeps an attempt that another one follows; the execution's row will hold that one.
    fn keep_attempt(&mut self, completion: &Completion, fence: &AttemptFence) -> Done<()> {
        let changed = self.insert_attempt.execute(params![
            fence.execution.as_bytes(),
            fence.fence as i64,
            fence.attempt,
            completion.started_at.millis(),
            completion.finished_at.millis(),
            completion.outcome.code(),
            completion.error.as_ref().map(|error| &*error.kind),
            completion.error.as_ref().map(|error| &*error.message),
        ])?;
        expect_one(changed, fence.execution)
    }

    /// Keeps the response.
    fn keep_rest(&mut self, completion: &Completion, fence: u64) -> Done<()> {
        let execution = completion.execution();
        if let Some(response) = &completion.response {
            let changed = self.put_response.execute(params![
                execution.as_bytes(),
                fence as i64,
                response.status,
                response.truncated,
                response.body,
            ])?;
            expect_one(changed, execution)?;
        }
        Ok(())
    }

    /// Why a completion did not happen. The same one again, after an answer that was lost, is done.
    fn explain(&mut self, completion: &Completion, fence: u64) -> Done<Applied> {
        let Some(row) = guard(self.connection, completion.execution())? else { return Ok(Applied::Gone) };
        let same = row.state == lifecycle::target(completion.event)
            && row.fence == fence
            && row.outcome == Some(completion.outcome)
            && row.finished_at == Some(completion.finished_at);
        Ok(if same { Applied::Done } else { Applied::Stale { state: row.state } })
    }

    /// The same for an attempt that was not claimed: its fence is not known, but who, which one and when.
    fn explain_unclaimed(&mut self, completion: &Completion, claim: &Claim) -> Done<Applied> {
        let Some(row) = guard(self.connection, claim.execution)? else { return Ok(Applied::Gone) };
        let same = row.state == lifecycle::target(completion.event)
            && row.attempt == claim.attempt + 1
            && row.worker.as_deref() == Some(&*claim.worker)
            && row.outcome == Some(completion.outcome)
            && row.finished_at == Some(completion.finished_at);
        Ok(if same { Applied::Done } else { Applied::Stale { state: row.state } })
    }
}

/// Reads running attempts whose node is gone, or whose lease is over where the runner is no node.
pub(super) fn load_expired(
    connection: &Connection,
    now: Timestamp,
    live_nodes: &HashSet<String>,
    limit: usize,
) -> Done<Vec<Expired>> {
    let mut load = connection.prepare_cached(include_str!("sql/executions/load_expired.sql"))?;
    let mut found = load.query([])?;
    let mut texts = Texts::default();
    let mut expired = Vec::new();
    while expired.len() < limit {
        let Some(row) = found.next()? else { break };
        let mut columns = Columns::of(row);
        let dispatch = rows::dispatch(&mut columns, &mut texts)?;
        let lease_over = columns.instant()? < now;
        let fence = columns.number()?;
        let started_at = columns.instant()?;
        let worker: Option<String> = columns.next()?;
        // A node bounds its attempts by its monotonic clock; the lease, an instant of the wall clock, would end early when
        // that jumps. It counts only for runners that cannot be asked whether they live.
        let lost =
            match worker.as_deref().and_then(|worker| worker.strip_prefix(NODE_PREFIX).map(|node| (worker, node))) {
                Some((worker, node)) => !live_nodes.contains(node) && !live_nodes.contains(worker),
                None => lease_over,
            };
        if lost {
            let fence = AttemptFence { execution: dispatch.execution, attempt: dispatch.attempt, fence };
            expired.push(Expired { fence, dispatch, retry: columns.retry()?, started_at });
        }
    }
    Ok(expired)
}

/// How the name of a runner starts that is a node itself; its lease ends with the node.
const NODE_PREFIX: &str = "node:";

/// A guarded write that was judged in the same transaction must find its row.
fn expect_one(changed: usize, execution: ExecutionId) -> Done<()> {
    match changed {
        1 => Ok(()),
        _ => Err(Failure::Ours(Error::new(Kind::Bug, format!("execution {execution} changed under its writer")))),
    }
}
