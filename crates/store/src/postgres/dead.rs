//! Dead executions: their groups, and the two ways out: `replay` and `bury`. How groups are read is in `reads`.

use super::rows::{Columns, Texts, storable};
use super::sheet::{Against, KeptAttempt, Record, Shape, Sheet, column, job_ids};
use crate::sums::Grown;
use campanile_model::action::ActionKind;
use campanile_model::execution::Reason;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::job::{JobState, Priority};
use campanile_model::lifecycle::{self, Event};
use campanile_model::overlap::Overlap;
use campanile_model::store::{Applied, Moved, Replay};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Tx, Uuid};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Runs dead executions again. The last attempt gets a row of its own, since the execution's row will hold the next
/// one; and the retry policy counts from here.
pub(super) async fn replay(tx: &Tx<'_>, tenant: TenantId, replays: &[Replay], now: Timestamp) -> Done<Moved> {
    // A dead run is over: no turn is taken or given by this.
    let mut sheet = Sheet::load(tx, Against::Rows, replays.iter().map(|replay| replay.execution)).await?;
    let jobs = Targets::load(tx, &sheet).await?;
    let mut verdicts = Vec::with_capacity(replays.len());
    for replay in replays {
        verdicts.push(match dead(&sheet, tenant, replay.execution, Event::Replay) {
            Err(verdict) => verdict,
            Ok(found) => match jobs.0.get(&found.of.job) {
                // Its job is deleted: there is nothing to run it by.
                None => Applied::Stale { state: found.state },
                Some(target) => {
                    run_again(&mut sheet, replay, target, now)?;
                    Applied::Done
                }
            },
        });
    }
    let ready = sheet.write(tx).await?;
    Ok(Moved { verdicts, ready })
}

fn run_again(sheet: &mut Sheet<'_>, replay: &Replay, target: &Target, now: Timestamp) -> Done<()> {
    let id = replay.execution;
    let kept = newest(sheet.at(id)?);
    sheet.attempts.extend(kept);
    let record = left(sheet, id, Event::Replay, now)?;
    let (state, tenant) = (Some(record.state), record.of.tenant);
    let pool = std::mem::replace(&mut record.of.pool, target.pool.clone());
    record.of.target = target.target.clone();
    (record.action, record.priority) = (target.action, target.priority);
    // It waits for other runs of its job, whatever the policy says: neither must a replay be skipped, nor end what
    // runs.
    if record.of.overlap != Overlap::Allow {
        record.of.overlap = Overlap::BufferAll;
    }
    record.of.first_started_at = record.first_start();
    (record.wake_at, record.attempts_from, record.losses) = (replay.wake_at, record.attempt, 0);
    (record.reason, record.finished_at, record.outcome, record.error) = (None, None, None, None);
    (record.cancel_requested_at, record.cancel_reason) = (None, None);
    record.touch(Shape::Whole);
    let waiting = record.waiting();
    sheet.ready.push(waiting);
    if pool != target.pool {
        sheet.effects.sums.count(tenant, &pool, state, None);
        sheet.effects.sums.count(tenant, &target.pool, None, state);
    }
    Ok(())
}

/// The attempt in the execution's row, as a row of its own.
fn newest(record: &Record) -> Option<KeptAttempt> {
    Some(KeptAttempt {
        execution: record.of.id,
        fence: Some(record.fence).filter(|fence| *fence > 0)?,
        tenant: record.of.tenant.0,
        attempt: record.attempt,
        worker: record.worker.clone(),
        started_at: record.started_at?,
        finished_at: record.finished_at?,
        outcome: record.outcome?,
        error: record.error.clone(),
    })
}

/// What is done, where and for whom, by job.
struct Targets(HashMap<JobId, Target>);

struct Target {
    action: ActionKind,
    target: Arc<str>,
    pool: Arc<str>,
    priority: Priority,
}

impl Targets {
    /// Those of the jobs that are not deleted.
    async fn load(tx: &Tx<'_>, sheet: &Sheet<'_>) -> Done<Self> {
        let jobs = job_ids(sheet.records().map(|record| record.of.job));
        let deleted = i16::from(JobState::Deleted.code());
        let rows = match jobs.is_empty() {
            true => Vec::new(),
            false => tx.query(include_str!("sql/dead/load_jobs.sql"), &[&jobs, &deleted]).await?,
        };
        let (mut targets, mut texts) = (HashMap::new(), Texts::default());
        for row in &rows {
            let mut columns = Columns::of(row);
            let job = columns.job_id()?;
            let action = columns.code("action", ActionKind::from_code)?;
            let (target, pool) = (texts.share(columns.text()?), texts.share(columns.text()?));
            let priority = columns.code("priority", Priority::from_code)?;
            targets.insert(job, Target { action, target, pool, priority });
        }
        Ok(Self(targets))
    }
}

/// Gives dead executions up.
pub(super) async fn bury(
    tx: &Tx<'_>,
    tenant: TenantId,
    executions: &[ExecutionId],
    note: &str,
    now: Timestamp,
) -> Done<Vec<Applied>> {
    let mut sheet = Sheet::load(tx, Against::Rows, executions.iter().copied()).await?;
    let mut verdicts = Vec::with_capacity(executions.len());
    for &execution in executions {
        if let Err(verdict) = dead(&sheet, tenant, execution, Event::Bury) {
            verdicts.push(verdict);
            continue;
        }
        // The instant at which its last attempt ended stays.
        let record = left(&mut sheet, execution, Event::Bury, now)?;
        (record.reason, record.note) = (Some(Reason::DiscardedByUser), Some(note.to_owned()));
        record.touch(Shape::Whole);
        verdicts.push(Applied::Done);
    }
    sheet.write(tx).await?;
    Ok(verdicts)
}

/// An execution that `event` may happen to, or the verdict.
fn dead<'s>(sheet: &'s Sheet<'_>, tenant: TenantId, id: ExecutionId, event: Event) -> Result<&'s Record, Applied> {
    match sheet.get(id).filter(|found| found.of.tenant == tenant) {
        None => Err(Applied::Gone),
        Some(found) if !lifecycle::sources(event).contains(found.state) => Err(Applied::Stale { state: found.state }),
        Some(found) => Ok(found),
    }
}

/// An execution is dead no more.
fn left<'s>(sheet: &'s mut Sheet<'_>, id: ExecutionId, event: Event, now: Timestamp) -> Done<&'s mut Record> {
    let record = sheet.at(id)?;
    let (tenant, fingerprint) = (record.of.tenant, record.fingerprint.take());
    if let Some(fingerprint) = fingerprint {
        sheet.effects.risen.push((tenant, fingerprint, id));
    }
    sheet.change(id, event, (now, None), None)
}

/// Writes what a batch adds to groups.
pub(super) async fn grow(tx: &Tx<'_>, dead: &HashMap<(TenantId, u64), Grown>) -> Done<()> {
    if dead.is_empty() {
        return Ok(());
    }
    let dead: Vec<_> = dead.iter().collect();
    tx.execute(
        include_str!("sql/dead/grow.sql"),
        &[
            &column(&dead, |((tenant, _), _)| i64::from(tenant.0)),
            &column(&dead, |((_, fingerprint), _)| *fingerprint as i64),
            &column(&dead, |(_, grown)| &*grown.target),
            &column(&dead, |(_, grown)| storable(&grown.kind)),
            &column(&dead, |(_, grown)| storable(&grown.message)),
            &column(&dead, |(_, grown)| grown.count),
            &column(&dead, |(_, grown)| grown.first_at.millis()),
            &column(&dead, |(_, grown)| grown.last_at.millis()),
            &column(&dead, |(_, grown)| Uuid::from(grown.sample)),
        ],
    )
    .await?;
    Ok(())
}

/// A group that has lost members.
struct Shrunk {
    key: (i64, i64),
    count: i64,
    lost_sample: bool,
    /// The newest member, and its message, where the sample left.
    newest: Option<(Uuid, String)>,
}

/// These executions are dead no more, and their rows say so already. The last one takes its group with it.
pub(super) async fn shrink(tx: &Tx<'_>, left: &[(TenantId, u64, ExecutionId)]) -> Done<()> {
    if left.is_empty() {
        return Ok(());
    }
    let mut lost: BTreeMap<(i64, i64), Vec<Uuid>> = BTreeMap::new();
    for (tenant, fingerprint, id) in left {
        lost.entry((i64::from(tenant.0), *fingerprint as i64)).or_default().push((*id).into());
    }
    let (tenants, fingerprints): (Vec<i64>, Vec<i64>) = lost.keys().copied().unzip();
    let mut groups = Vec::new();
    for row in &tx.query(include_str!("sql/dead/lock.sql"), &[&tenants, &fingerprints]).await? {
        let mut columns = Columns::of(row);
        let key = (columns.next()?, columns.next()?);
        let lost = lost.get(&key).map_or(&[][..], |lost| lost);
        let count = columns.next::<i64>()? - lost.len() as i64;
        groups.push(Shrunk { key, count, lost_sample: lost.contains(&columns.next()?), newest: None });
    }
    resample(tx, &mut groups).await?;
    let is_left = |group: &Shrunk| group.count > 0 && (!group.lost_sample || group.newest.is_some());
    let (stay, go): (Vec<Shrunk>, Vec<Shrunk>) = groups.into_iter().partition(is_left);
    if !go.is_empty() {
        let (tenants, fingerprints): (Vec<i64>, Vec<i64>) = go.iter().map(|group| group.key).unzip();
        tx.execute(include_str!("sql/dead/drop.sql"), &[&tenants, &fingerprints]).await?;
    }
    if !stay.is_empty() {
        let (tenants, fingerprints): (Vec<i64>, Vec<i64>) = stay.iter().map(|group| group.key).unzip();
        tx.execute(
            include_str!("sql/dead/shrink.sql"),
            &[
                &tenants,
                &fingerprints,
                &column(&stay, |group| group.count),
                &column(&stay, |group| group.newest.as_ref().map(|(sample, _)| *sample)),
                &column(&stay, |group| group.newest.as_ref().map(|(_, message)| message.as_str())),
            ],
        )
        .await?;
    }
    Ok(())
}

/// Finds the newest members of groups whose sample has left.
async fn resample(tx: &Tx<'_>, groups: &mut [Shrunk]) -> Done<()> {
    let without = groups.iter().filter(|group| group.count > 0 && group.lost_sample);
    let (tenants, fingerprints): (Vec<i64>, Vec<i64>) = without.map(|group| group.key).unzip();
    if tenants.is_empty() {
        return Ok(());
    }
    for row in &tx.query(include_str!("sql/dead/newest.sql"), &[&tenants, &fingerprints]).await? {
        let mut columns = Columns::of(row);
        let key = (columns.next()?, columns.next()?);
        let newest = (columns.next()?, columns.next::<Option<String>>()?.unwrap_or_default());
        if let Some(group) = groups.iter_mut().find(|group| group.key == key) {
            group.newest = Some(newest);
        }
    }
    Ok(())
}
