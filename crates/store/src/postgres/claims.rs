//! Claims: whether an execution may start, and its start.
//!
//! A claim is judged while its row is locked, in this order: state, number of attempts, instant; whether its job still
//! wants it (`discard_reason`); whether its pool has room; whether another run of its job is in its way
//! (`overlap::decide`). The last two depend on who came before. So a batch is judged twice: first, in the order of ids,
//! those to which neither applies, which are nearly all; then the others, in the order of the batch. Whoever counts the
//! slots of a pool has the row of its limits locked, so that what he counts is what there is.

use super::Locks;
use super::executions;
use super::overlaps::{self, Turn};
use super::progress;
use super::rows::{Columns, Texts};
use super::sheet::{Against, Guard, Ids, Record, Shape, Sheet, column, job_ids};
use crate::rules::{after, in_order, lease_ms, time_limit_ms};
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::capacity::Scope;
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::lifecycle::{self, Event, State};
use campanile_model::notify::WatchKind;
use campanile_model::overlap::Overlap;
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{AttemptFence, Claim, Claimed, Granted, Waiting};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Failure, Tx, Uuid};
use futures_util::try_join;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Starts attempts. Answers also with executions that may start because a claim found that another must not.
pub(super) async fn claim(tx: &Tx<'_>, locks: Locks, claims: &[Claim]) -> Done<(Vec<Claimed>, Vec<Waiting>)> {
    let mut sheet = Sheet::load(tx, Against::Jobs(locks), claims.iter().map(|claim| claim.execution)).await?;
    let wanted: Vec<&Record> = claims.iter().filter_map(|claim| startable(&sheet, claim)).collect();
    let (offers, mut judge, first_starts, checkpoints) = try_join!(
        Offers::load(tx, &wanted),
        Judge::prepare(tx, &wanted),
        first_starts(tx, &wanted),
        progress::checkpoints(tx, wanted.iter().filter(|record| record.deliveries > 0).map(|record| record.of.id)),
    )?;
    sheet.guards.extend(offers.of.iter().map(|(job, (guard, _))| (*job, *guard)));
    let mut verdicts: Vec<Option<Claimed>> = vec![None; claims.len()];
    let mut one = |i: usize, last: bool, sheet: &mut Sheet<'_>| -> Done<bool> {
        let claim = &claims[i];
        verdicts[i] = Some(match judge.judge(sheet, claim, last)? {
            Judged::Ready { terminated } => {
                let fence = judge.fence()?;
                let record = sheet.at(claim.execution)?;
                let first_start = match record.attempts_from {
                    0 => record.first_start(),
                    // Attempts before a replay do not count.
                    _ => first_starts.get(&claim.execution).copied(),
                };
                let mut granted = offers.grant(record, claim, fence, first_start)?;
                granted.checkpoint = checkpoints.get(&claim.execution).cloned();
                granted.terminated = terminated;
                begin(sheet, claim, &granted)?;
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
    let mut contended = Vec::new();
    for i in in_order(claims, |claim| claim.execution) {
        if !one(i, false, &mut sheet)? {
            contended.push(i);
        }
    }
    contended.sort_unstable();
    for i in contended {
        one(i, true, &mut sheet)?;
    }
    let ready = sheet.write(tx).await?;
    Ok((verdicts.into_iter().flatten().collect(), ready))
}

/// The execution of a claim, if it is in a state to start and the attempt is the right one: the others need nothing
/// more.
pub(super) fn startable<'s>(sheet: &'s Sheet<'_>, claim: &Claim) -> Option<&'s Record> {
    let record = sheet.get(claim.execution)?;
    let allowed = lifecycle::sources(Event::Claim).contains(record.state);
    (allowed && record.attempt == claim.attempt).then_some(record)
}

/// The start of an attempt.
fn begin(sheet: &mut Sheet<'_>, claim: &Claim, granted: &Granted) -> Done<()> {
    let record = sheet.change(claim.execution, Event::Claim, (claim.now, None), None)?;
    let first = record.first_start();
    record.of.first_started_at = first;
    record.attempt += 1;
    record.fence = granted.fence.fence;
    record.worker = Some(claim.worker.clone());
    (record.claimed_at, record.started_at) = (Some(claim.now), Some(claim.now));
    (record.wake_at, record.queued_at) = (granted.lease_until, claim.queued_at);
    record.deliveries += 1;
    (record.reason, record.finished_at, record.outcome, record.error) = (None, None, None, None);
    (record.cancel_requested_at, record.cancel_reason) = (None, None);
    record.touch(Shape::Started);
    let (id, job, overlap, watched) = (record.of.id, record.of.job, record.of.overlap, record.of.watched);
    if overlap != Overlap::Allow {
        sheet.runs.enter(job, id, true);
    }
    if watched & 1 << WatchKind::Start.code() != 0 && first.is_none() {
        sheet.effects.watches.started(id);
    }
    Ok(())
}

/// Whether executions may start, and what that depends on.
#[derive(Default)]
pub(super) struct Judge {
    pools: Vec<Pool>,
    fences: std::vec::IntoIter<u64>,
}

/// A pool that has limits.
struct Pool {
    tenant: TenantId,
    name: Box<str>,
    paused: bool,
    /// How many may run, and how many did before this batch.
    slots: Option<(i64, i64)>,
}

/// The answer.
pub(super) enum Judged {
    /// It may start; another run was ended for it.
    Ready { terminated: Option<ExecutionId> },
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

impl Judge {
    /// Reads the limits of the pools of executions that may start, and takes fences for them.
    pub(super) async fn prepare(tx: &Tx<'_>, wanted: &[&Record]) -> Done<Self> {
        if wanted.is_empty() {
            return Ok(Self::default());
        }
        let (pools, fences) = try_join!(limited(tx, wanted), take_fences(tx, wanted.len()))?;
        Ok(Self { pools, fences: fences.into_iter() })
    }

    /// A fence that nobody has had. There is one for every execution that may start.
    pub(super) fn fence(&mut self) -> Done<u64> {
        self.fences.next().ok_or_else(|| Failure::corrupt("fence"))
    }

    /// Judges a claim. One that must not run any more is skipped here, and one that must wait is held. What depends on
    /// who comes before it is judged only when `last` is set.
    pub(super) fn judge(&self, sheet: &mut Sheet<'_>, claim: &Claim, last: bool) -> Done<Judged> {
        let Some(record) = sheet.get(claim.execution) else { return Ok(Judged::Gone) };
        let state = record.state;
        if startable(sheet, claim).is_none() {
            return Ok(Judged::Stale(state));
        }
        if record.wake_at > claim.now {
            return Ok(Judged::Early(record.wake_at, state));
        }
        let of = &record.of;
        let pool = self.pools.iter().find(|pool| pool.tenant == of.tenant && *pool.name == *of.pool);
        if (of.overlap != Overlap::Allow || pool.is_some()) && !last {
            return Ok(Judged::Contended);
        }
        if let Some(reason) = sheet.stale(record) {
            skip(sheet, claim.execution, reason, claim.now)?;
            return Ok(Judged::Discarded(reason));
        }
        if let Some(reason) = pool.and_then(|pool| pool.refuses(sheet, &of.pool)) {
            return Ok(Judged::Deferred(reason, state));
        }
        if of.overlap == Overlap::Allow {
            return Ok(Judged::Ready { terminated: None });
        }
        match overlaps::judge(sheet, (of.overlap, of.job, of.id), claim.now)? {
            Turn::Start { terminated } => Ok(Judged::Ready { terminated }),
            Turn::Skip(reason) => {
                skip(sheet, claim.execution, reason, claim.now)?;
                Ok(Judged::Discarded(reason))
            }
            Turn::Wait { by, cancel } => {
                hold(sheet, claim.execution, claim.now)?;
                Ok(Judged::Held { by, cancel })
            }
        }
    }
}

impl Pool {
    /// Why nothing more of the pool may start now.
    fn refuses(&self, sheet: &Sheet<'_>, name: &Arc<str>) -> Option<Reason> {
        let changed = || sheet.effects.sums.changed(self.tenant, name, lifecycle::target(Event::Claim));
        match self.slots {
            _ if self.paused => Some(Reason::Paused),
            Some((slots, ran)) if ran + changed() >= slots => Some(Reason::QuotaDeferred),
            _ => None,
        }
    }
}

/// So many fences, in their order.
async fn take_fences(tx: &Tx<'_>, count: usize) -> Done<Vec<u64>> {
    let rows = tx.query(include_str!("sql/attempts/take_fences.sql"), &[&(count as i64)]).await?;
    let mut fences: Vec<u64> = rows.iter().map(|row| row.get::<_, i64>(0) as u64).collect();
    fences.sort_unstable();
    Ok(fences)
}

/// Locks and reads the limits of those pools that have any.
async fn limited(tx: &Tx<'_>, wanted: &[&Record]) -> Done<Vec<Pool>> {
    let names: BTreeSet<(i64, &str)> = wanted.iter().map(|r| (i64::from(r.of.tenant.0), &*r.of.pool)).collect();
    let (tenants, names): (Vec<i64>, Vec<&str>) = names.into_iter().unzip();
    let scope = i16::from(Scope::Pool.code());
    let mut pools = Vec::new();
    for row in &tx.query(include_str!("sql/capacities/lock.sql"), &[&tenants, &names, &scope]).await? {
        let mut columns = Columns::of(row);
        let (tenant, name) = (columns.tenant()?, columns.text()?.into());
        let slots = columns.next::<Option<i64>>()?.map(|slots| (slots, 0));
        pools.push(Pool { tenant, name, paused: columns.next()?, slots });
    }
    let counted: Vec<&mut Pool> = pools.iter_mut().filter(|pool| pool.slots.is_some()).collect();
    if !counted.is_empty() {
        count(tx, counted).await?;
    }
    Ok(pools)
}

/// Counts how many of these pools run, once their limits are locked.
async fn count(tx: &Tx<'_>, mut pools: Vec<&mut Pool>) -> Done<()> {
    let tenants: Vec<i64> = pools.iter().map(|pool| i64::from(pool.tenant.0)).collect();
    let names: Vec<String> = pools.iter().map(|pool| pool.name.to_string()).collect();
    let running = i16::from(lifecycle::target(Event::Claim).code());
    for row in &tx.query(include_str!("sql/counts/get.sql"), &[&tenants, &names, &running]).await? {
        let mut columns = Columns::of(row);
        let (tenant, name, running) = (columns.tenant()?, columns.text()?, columns.next::<i64>()?);
        let of = |pool: &&mut &mut Pool| pool.tenant == tenant && *pool.name == *name;
        if let Some((_, ran)) = pools.iter_mut().find(of).and_then(|pool| pool.slots.as_mut()) {
            *ran = running;
        }
    }
    Ok(())
}

/// It never runs.
fn skip(sheet: &mut Sheet<'_>, id: ExecutionId, reason: Reason, now: Timestamp) -> Done<()> {
    executions::end(sheet, id, Event::Discard, (reason, None), now)?;
    let of = &sheet.at(id)?.of;
    match of.overlap {
        Overlap::Allow => Ok(()),
        _ => {
            let job = of.job;
            overlaps::over(sheet, (job, id), now)
        }
    }
}

/// It waits for another run of its job.
fn hold(sheet: &mut Sheet<'_>, id: ExecutionId, now: Timestamp) -> Done<()> {
    let reason = Some(Reason::DependencyWaiting);
    let record = sheet.change(id, Event::Hold, (now, reason), None)?;
    record.reason = reason;
    record.touch(Shape::Whole);
    let job = record.of.job;
    sheet.runs.enter(job, id, false);
    Ok(())
}

/// What runners get of jobs.
#[derive(Default)]
struct Offers {
    of: HashMap<JobId, (Guard, Offer)>,
}

/// What a runner gets of a job.
struct Offer {
    name: Arc<str>,
    action: ActionSpec,
    retry: RetryPolicy,
    timeout_ms: u64,
    payload: Arc<str>,
}

impl Offers {
    async fn load(tx: &Tx<'_>, wanted: &[&Record]) -> Done<Self> {
        let mut offers = Self::default();
        let jobs = job_ids(wanted.iter().map(|record| record.of.job));
        if jobs.is_empty() {
            return Ok(offers);
        }
        let mut texts = Texts::default();
        for row in &tx.query(include_str!("sql/attempts/load_offers.sql"), &[&jobs]).await? {
            let mut columns = Columns::of(row);
            let (job, guard) = (columns.job_id()?, Guard::read(&mut columns)?);
            let name = columns.text()?.into();
            let kind = columns.code("action", ActionKind::from_code)?;
            let action = ActionSpec { kind, config: texts.share(columns.text()?) };
            let (retry, timeout_ms) = (columns.retry()?, columns.number()?);
            let payload = texts.share(columns.text()?);
            offers.of.insert(job, (guard, Offer { name, action, retry, timeout_ms, payload }));
        }
        Ok(offers)
    }

    /// What a runner gets; the checkpoint is the caller's to add.
    fn grant(&self, record: &Record, claim: &Claim, fence: u64, first_start: Option<Timestamp>) -> Done<Granted> {
        let of = &record.of;
        let (guard, offer) = self.of.get(&of.job).ok_or_else(|| Failure::corrupt("job"))?;
        let first_started_at = first_start.unwrap_or(claim.now);
        let total_ms = offer.retry.total_timeout_ms;
        let timeout_ms = time_limit_ms(offer.timeout_ms, total_ms, first_started_at, claim.now);
        Ok(Granted {
            fence: AttemptFence { execution: of.id, attempt: claim.attempt + 1, fence },
            tenant: of.tenant,
            job: of.job,
            job_version: guard.version,
            job_name: offer.name.clone(),
            action: offer.action.clone(),
            payload: offer.payload.clone(),
            retry: offer.retry,
            timeout_ms,
            fire_at: of.fire_at,
            lease_until: after(claim.now, lease_ms(claim.lease, timeout_ms)),
            covers_from: record.covers_from,
            attempts_from: record.attempts_from,
            losses: record.losses,
            first_started_at,
            checkpoint: None,
            terminated: None,
        })
    }
}

/// When the first attempts after their replay started, of those executions that were replayed and tried since.
pub(super) async fn first_starts(tx: &Tx<'_>, records: &[&Record]) -> Done<HashMap<ExecutionId, Timestamp>> {
    let replayed: BTreeSet<(ExecutionId, u32)> =
        records.iter().filter(|r| r.attempts_from > 0).map(|r| (r.of.id, r.attempts_from)).collect();
    let replayed: Vec<(ExecutionId, u32)> = replayed.into_iter().collect();
    let Some(ids) = Ids::of(replayed.iter().map(|(id, _)| *id)) else { return Ok(HashMap::new()) };
    let from = column(&replayed, |(_, from)| i64::from(*from));
    let executions = column(&replayed, |(id, _)| Uuid::from(*id));
    let sql = include_str!("sql/attempts/first_since.sql");
    let rows = tx.query(sql, &[&ids.first, &ids.last, &executions, &from]).await?;
    let read = |row| {
        let mut columns = Columns::of(row);
        Ok((columns.execution_id()?, columns.instant()?))
    };
    rows.iter().map(read).collect()
}
