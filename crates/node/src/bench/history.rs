//! `bench history`: how fast a page of history is read when there is much of it. The store is filled through its own verbs,
//! opened again, and asked for pages of fifty all over the time that it covers.

use super::lab::{self, Lab, Place, text};
use super::report::{Report, Target};
use super::store::{IN_FLIGHT, claim, completion, dispatch, fire_of};
use campanile_model::execution::{AttemptError, AttemptOutcome, Execution};
use campanile_model::filter::Filter;
use campanile_model::job::Job;
use campanile_model::lifecycle::{Event, State};
use campanile_model::queue::Dispatch;
use campanile_model::shard::{self, ShardFence};
use campanile_model::store::{
    Applied, Claimed, Completion, CompletionOf, ExecutionQuery, FireBatch, FireVerdict, Store,
};
use campanile_model::{TenantId, Timestamp, limits};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::sync::Arc;

/// Each job fires so often.
const EVERY_MS: i64 = 60_000;
/// Executions written together.
const BATCH: usize = 2_000;
/// One in so many is dead.
const DEAD_EVERY: usize = 50;
/// Pages of each kind that are read.
const PAGES: usize = 200;

/// What the store holds.
struct Filled {
    jobs: Vec<Job>,
    first: Timestamp,
    rounds: usize,
    dead: u64,
}

pub async fn run(place: Place, executions: usize) -> Result<Report, String> {
    let lab = Lab::new(&place)?;
    let (fill_s, filled) = lab::seconds(async {
        let store = lab.store().await?;
        fill(&store, executions).await
    })
    .await?;
    let store = lab.store().await?;
    let total = (filled.jobs.len() * filled.rounds) as u64;
    let counts = store.counts(None).await.map_err(text)?;
    let in_state = |state| counts.iter().filter(|count| count.state == state).map(|count| count.executions).sum();
    let (succeeded, dead): (u64, u64) = (in_state(State::Succeeded), in_state(State::Dead));
    if (succeeded + dead, dead) != (total, filled.dead) {
        return Err(format!("of {total} executions {succeeded} succeeded and {dead} are dead"));
    }
    let mut report = Report::new("history");
    report.verified(format!("{total} executions of {} jobs, {dead} of them dead", filled.jobs.len()));
    report.row("executions", total as f64, "", None);
    report.row("filled", total as f64 / fill_s, "exec/s", None);
    report.row("size of the store", store.status().await.map_err(text)?.bytes as f64 / 1e6, "MB", None);
    for (name, target_ms, queries) in filled.questions(&store).await? {
        let mut took = [Vec::new(), Vec::new()];
        let mut items = 0;
        for took in &mut took {
            for query in &queries {
                let (seconds, page) = lab::seconds(async { store.list_executions(query).await.map_err(text) }).await?;
                verify(query, &page.items)?;
                items += page.items.len();
                took.push((seconds * 1e6) as u64);
            }
            took.sort_unstable();
        }
        report.verified(format!(
            "{name}: {} pages of what was asked for, newest first, {items} items",
            2 * queries.len()
        ));
        let [first, again] = &took;
        let ms = |times: &[u64], share| lab::quantile(times, share) / 1e3;
        report.row(format!("{name}, first time p50"), ms(first, 0.5), "ms", None);
        report.row(format!("{name}, first time p99"), ms(first, 0.99), "ms", target_ms.map(Target::AtMost));
        report.row(format!("{name}, again p99"), ms(again, 0.99), "ms", None);
    }
    Ok(report)
}

/// All that a page may contain wrongly.
fn verify(query: &ExecutionQuery, items: &[Execution]) -> Result<(), String> {
    let wanted = |execution: &Execution| {
        query.job.is_none_or(|job| job == execution.job)
            && query.to.is_none_or(|to| execution.fire_at < to)
            && (query.states.is_empty() || query.states.contains(&execution.state))
    };
    let ordered = items.windows(2).all(|pair| pair[0].fire_at >= pair[1].fire_at);
    if items.is_empty() || !ordered || !items.iter().all(wanted) {
        return Err(format!("a page of {} items is not what was asked for: {query:?}", items.len()));
    }
    Ok(())
}

/// Every job has fired once a minute; most executions succeeded at once, some died.
async fn fill(store: &Arc<dyn Store>, executions: usize) -> Result<Filled, String> {
    let count = (executions / 1_000).clamp(10, 10_000);
    let rounds = (executions / count).max(1);
    let now = lab::now();
    let first = now.saturating_add_ms(-(rounds as i64) * EVERY_MS);
    let jobs: Vec<Job> = (0..count).map(|n| lab::recurring(n, EVERY_MS as u64, 0, first)).collect();
    lab::put(store, jobs.iter().cloned(), count).await?;
    let shards: Vec<_> = shard::all().collect();
    let fences: Arc<[_]> = store.seize_shards(&shards, "bench").await.map_err(text)?.into();
    let bar = lab::progress("filling", rounds * count);
    let (bar, jobs_of, fences) = (&bar, &jobs, &fences);
    let batches = (0..rounds).flat_map(move |round| {
        let at = first.saturating_add_ms(round as i64 * EVERY_MS);
        let mut fires: Vec<(Dispatch, bool)> =
            jobs_of.iter().enumerate().map(|(n, job)| (dispatch(job, at), (n + round) % DEAD_EVERY == 0)).collect();
        // In the order of their ids: the store at its best.
        fires.sort_by_key(|(dispatch, _)| dispatch.execution);
        fires.chunks(BATCH).map(<[_]>::to_vec).collect::<Vec<_>>()
    });
    let written = stream::iter(batches).map(|batch| async move {
        let count = batch.len();
        let dead = write(store, fences, batch).await?;
        bar.inc(count as u64);
        Ok::<u64, String>(dead)
    });
    let dead = written.buffer_unordered(IN_FLIGHT).try_fold(0, |sum, dead| async move { Ok(sum + dead) }).await?;
    bar.finish_and_clear();
    Ok(Filled { jobs, first, rounds, dead })
}

/// Fires a batch and ends all of it; says how many died.
async fn write(
    store: &Arc<dyn Store>,
    fences: &Arc<[ShardFence]>,
    batch: Vec<(Dispatch, bool)>,
) -> Result<u64, String> {
    let now = batch[0].0.fire_at;
    let fires = batch.iter().map(|(dispatch, _)| fire_of(dispatch)).collect();
    let fired = FireBatch { fences: fences.clone(), fires, skips: Vec::new(), now, idempotency: None };
    match store.fire(fired).await.map_err(text)? {
        FireVerdict::Fired(_) => {}
        other => return Err(format!("a fire was refused: {other:?}")),
    }
    let (bad, good): (Vec<_>, Vec<_>) = batch.iter().partition(|(_, dies)| *dies);
    let mut ends: Vec<Completion> =
        good.iter().map(|(dispatch, _)| completion(&CompletionOf::Unclaimed(claim(dispatch, now)), now)).collect();
    let claims = bad.iter().map(|(dispatch, _)| claim(dispatch, now)).collect();
    for (i, claimed) in store.claim(claims).await.map_err(text)?.verdicts.into_iter().enumerate() {
        let Claimed::Granted(granted) = claimed else { return Err(format!("a claim was refused: {claimed:?}")) };
        let error = AttemptError { kind: format!("http_5{:02}", i % 30), message: "the target said no".into() };
        ends.push(Completion {
            event: Event::FailFinal,
            outcome: AttemptOutcome::Failed,
            error: Some(error),
            ..completion(&CompletionOf::Running(granted.fence), now)
        });
    }
    ends.sort_by_key(Completion::execution);
    let verdicts = store.complete(ends).await.map_err(text)?.verdicts;
    match verdicts.into_iter().find(|verdict| *verdict != Applied::Done) {
        Some(verdict) => Err(format!("a completion was refused: {verdict:?}")),
        None => Ok(bad.len() as u64),
    }
}

impl Filled {
    /// What is asked, with the bound on its time where there is one.
    async fn questions(
        &self,
        store: &Arc<dyn Store>,
    ) -> Result<Vec<(&'static str, Option<f64>, Vec<ExecutionQuery>)>, String> {
        let groups = store.dead_groups(TenantId::DEFAULT, 1).await.map_err(text)?;
        let group = groups.first().ok_or("there is no group of dead executions")?.fingerprint;
        let filter = Filter::parse(&format!("fp:{group:016x}"), self.first).map_err(text)?;
        let all = ExecutionQuery {
            tenant: TenantId::DEFAULT,
            job: None,
            states: Vec::new(),
            from: None,
            to: None,
            filter: Filter::default(),
            before: None,
            limit: limits::PAGE_ITEMS_DEFAULT,
        };
        // Jobs and instants all over; a page from the later half on is a full one.
        let job = |i: usize| Some(self.jobs[i * 7_919 % self.jobs.len()].id);
        let instant = |i: usize| {
            let round = self.rounds / 2 + i * 37 % PAGES * (self.rounds - self.rounds / 2) / PAGES;
            Some(self.first.saturating_add_ms(round as i64 * EVERY_MS + 1))
        };
        let each = |make: &dyn Fn(usize) -> ExecutionQuery| (0..PAGES).map(make).collect::<Vec<_>>();
        let dead = || vec![State::Dead];
        Ok(vec![
            ("a job, newest", Some(20.0), each(&|i| ExecutionQuery { job: job(i), ..all.clone() })),
            (
                "a job, before an instant",
                Some(20.0),
                each(&|i| ExecutionQuery { job: job(i + PAGES), to: instant(i), ..all.clone() }),
            ),
            (
                "dead ones of a job",
                Some(20.0),
                each(&|i| ExecutionQuery { job: job(i + 2 * PAGES), states: dead(), ..all.clone() }),
            ),
            (
                "dead, before an instant",
                None,
                each(&|i| ExecutionQuery { states: dead(), to: instant(i), ..all.clone() }),
            ),
            (
                "dead of a fingerprint",
                None,
                each(&|i| ExecutionQuery { states: dead(), to: instant(i), filter: filter.clone(), ..all.clone() }),
            ),
        ])
    }
}
