//! `bench store`: the raw batch verbs, several batches in flight. What the rest of the engine can at best reach.

use super::lab::{self, Lab, Place, text};
use super::report::Report;
use campanile_model::execution::AttemptOutcome;
use campanile_model::ids::FireKind;
use campanile_model::job::Job;
use campanile_model::lifecycle::Event;
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::queue::Dispatch;
use campanile_model::shard;
use campanile_model::store::{
    Applied, Claim, Claimed, Completion, CompletionOf, CursorMove, Fire, FireBatch, FireVerdict, Fired, Lease, Store,
};
use campanile_model::{ExecutionId, Timestamp};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::sync::Arc;

/// Batches in flight: enough for the group commit to gather while it syncs.
pub const IN_FLIGHT: usize = 4;

/// Rows per second of each verb.
pub struct Rates {
    pub put: f64,
    pub fire: f64,
    pub claim: f64,
    pub complete: f64,
    pub claim_and_complete: f64,
    pub advance: f64,
}

impl Rates {
    /// Executions per second through fire, claim and complete, one after the other.
    pub fn life(&self) -> f64 {
        1.0 / (1.0 / self.fire + 1.0 / self.claim + 1.0 / self.complete)
    }
}

pub async fn run(place: Place, jobs: usize, batch: usize) -> Result<Report, String> {
    let rates = measure(&Lab::new(&place)?, jobs, batch.clamp(1, 100_000)).await?;
    let mut report = Report::new("store");
    report.verified(format!("{} of {} rows applied by every verb; a second claim of each was refused", jobs, jobs));
    report.row("put_jobs", rates.put, "rows/s", None);
    report.row("fire", rates.fire, "rows/s", None);
    report.row("claim", rates.claim, "rows/s", None);
    report.row("complete", rates.complete, "rows/s", None);
    report.row("claim + complete in one write", rates.claim_and_complete, "rows/s", None);
    report.row("advance (cursors)", rates.advance, "rows/s", None);
    report.row("fire + claim + complete", rates.life(), "exec/s", None);
    Ok(report)
}

/// Measures each verb on a store of its own.
pub async fn measure(lab: &Lab, jobs: usize, batch: usize) -> Result<Rates, String> {
    let store = lab.store().await?;
    let now = lab::now();
    let at = now.saturating_add_ms(-1_000);
    let all: Vec<Job> = (0..jobs).map(|n| lab::one_off(n, at, now)).collect();
    let (put, ()) = lab::seconds(lab::put(&store, all.iter().cloned(), jobs)).await?;
    let shards: Vec<_> = shard::all().collect();
    let fences: Arc<[_]> = store.seize_shards(&shards, "bench").await.map_err(text)?.into();
    // In the order of their ids, as the engine hands a stampede over: the store at its best.
    let mut dispatches: Vec<Dispatch> = all.iter().map(|job| dispatch(job, at)).collect();
    dispatches.sort_by_key(|dispatch| dispatch.execution);
    // Half of them goes through claim and complete, half through both in one write.
    let (claimed, unclaimed) = dispatches.split_at(jobs / 2);

    let (fire, ()) = lab::seconds(each(&dispatches, batch, |chunk| {
        let fires = chunk.iter().map(fire_of).collect();
        let batch = FireBatch { fences: fences.clone(), fires, skips: Vec::new(), now, idempotency: None };
        let (store, count) = (store.clone(), chunk.len());
        async move {
            match store.fire(batch).await.map_err(text)? {
                FireVerdict::Fired(v) if v.verdicts.len() == count && v.verdicts.iter().all(|v| *v == Fired::New) => {
                    Ok(())
                }
                other => Err(format!("a fire was refused: {other:?}")),
            }
        }
    }))
    .await?;

    let granted = Arc::new(parking_lot::Mutex::new(Vec::with_capacity(claimed.len())));
    let (claim_s, ()) = lab::seconds(each(claimed, batch, |chunk| {
        let claims = chunk.iter().map(|d| claim(d, now)).collect();
        let (store, granted) = (store.clone(), granted.clone());
        async move {
            for verdict in store.claim(claims).await.map_err(text)?.verdicts {
                match verdict {
                    Claimed::Granted(grant) => granted.lock().push(grant.fence),
                    other => return Err(format!("a claim was refused: {other:?}")),
                }
            }
            Ok(())
        }
    }))
    .await?;
    for chunk in claimed.chunks(batch) {
        let again = store.claim(chunk.iter().map(|d| claim(d, now)).collect()).await.map_err(text)?;
        if again.verdicts.iter().any(|verdict| matches!(verdict, Claimed::Granted(_))) {
            return Err("an execution was claimed twice".into());
        }
    }

    let mut fences_of_attempts = std::mem::take(&mut *granted.lock());
    fences_of_attempts.sort_by_key(|fence| fence.execution);
    let running: Vec<CompletionOf> = fences_of_attempts.into_iter().map(CompletionOf::Running).collect();
    let (complete_s, ()) = lab::seconds(each(&running, batch, |chunk| complete(&store, chunk, now))).await?;
    let direct: Vec<CompletionOf> = unclaimed.iter().map(|d| CompletionOf::Unclaimed(claim(d, now))).collect();
    let (both_s, ()) = lab::seconds(each(&direct, batch, |chunk| complete(&store, chunk, now))).await?;

    let moves: Vec<CursorMove> = all
        .iter()
        .map(|job| CursorMove {
            job: job.id,
            version: 1,
            superseded: false,
            cursor: campanile_model::job::Cursor::default(),
        })
        .collect();
    let (advance, ()) = lab::seconds(each(&moves, batch, |chunk| {
        let (store, fences, moves) = (store.clone(), fences.clone(), chunk.to_vec());
        async move { store.advance(fences, moves).await.map_err(text) }
    }))
    .await?;
    let half = (jobs / 2) as f64;
    Ok(Rates {
        put: jobs as f64 / put,
        fire: jobs as f64 / fire,
        claim: half / claim_s,
        complete: half / complete_s,
        claim_and_complete: (jobs as f64 - half) / both_s,
        advance: jobs as f64 / advance,
    })
}

/// Calls `work` on chunks of `items`, several at a time.
async fn each<'a, T, F>(items: &'a [T], batch: usize, work: impl Fn(&'a [T]) -> F) -> Result<(), String>
where
    F: Future<Output = Result<(), String>>,
{
    stream::iter(items.chunks(batch)).map(work).buffer_unordered(IN_FLIGHT).try_collect().await
}

/// The execution of a job at an instant.
pub fn dispatch(job: &Job, at: Timestamp) -> Dispatch {
    job.dispatch(ExecutionId::scheduled(job.tenant, job.id, at), at)
}

/// Its fire.
pub fn fire_of(dispatch: &Dispatch) -> Fire {
    Fire {
        dispatch: dispatch.clone(),
        kind: FireKind::Schedule,
        wake_at: dispatch.fire_at,
        overlap: Overlap::Allow,
        covers_from: None,
        expect: Expectation::default(),
    }
}

/// Its claim.
pub fn claim(dispatch: &Dispatch, now: Timestamp) -> Claim {
    let lease = Lease::BeyondTimeout(10_000);
    let (execution, job_version, as_of) = (dispatch.execution, dispatch.job_version, dispatch.as_of);
    Claim { execution, job_version, attempt: 0, worker: "bench".into(), now, lease, queued_at: Some(now), as_of }
}

fn complete(
    store: &Arc<dyn Store>,
    chunk: &[CompletionOf],
    now: Timestamp,
) -> impl Future<Output = Result<(), String>> + use<> {
    let completions = chunk.iter().map(|of| completion(of, now));
    let (completions, store): (Vec<Completion>, _) = (completions.collect(), store.clone());
    async move {
        let moved = store.complete(completions).await.map_err(text)?;
        match moved.verdicts.into_iter().find(|verdict| *verdict != Applied::Done) {
            Some(verdict) => Err(format!("a completion was refused: {verdict:?}")),
            None => Ok(()),
        }
    }
}

/// The end of an attempt that succeeded.
pub fn completion(of: &CompletionOf, now: Timestamp) -> Completion {
    Completion {
        of: of.clone(),
        event: Event::Succeed,
        reason: None,
        outcome: AttemptOutcome::Succeeded,
        started_at: now,
        finished_at: now,
        wake_at: now,
        attempt: 1,
        error: None,
        response: None,
        logs: Vec::new(),
    }
}
