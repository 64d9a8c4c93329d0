//! `bench pull`: the same as `drain`, but the work is done outside: workers over loopback HTTP claim it in batches, do
//! nothing, and complete it in batches. Every claim and every completion is durable before it is answered.
//!
//! Its measure is the in-process drain of the same run, round by round, since both share what this machine can do at the
//! moment. Server and workers share its cores, as they would on one host.

use super::cost::{Cost, Meter};
use super::drain;
use super::lab::{self, HANDLER, Lab, Place, Recorder, Start, text};
use super::report::{Report, Target};
use campanile_client::Client;
use campanile_client::wire::{
    ClaimRequest, CompleteBatchRequest, CompleteBatchResponse, CompleteRequest, CompleteStatus, Completion,
};
use campanile_model::job::POOL_SHORT;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::JoinSet;

/// How many workers there are, and how much each takes.
#[derive(Copy, Clone)]
pub struct Workers {
    pub count: usize,
    pub batch: usize,
}

/// How long a claim waits when there is nothing.
const WAIT_MS: u64 = 5_000;

/// What the workers did together.
#[derive(Default)]
struct Done {
    completed: AtomicUsize,
    claims: AtomicUsize,
    starts: Mutex<Vec<Start>>,
}

pub async fn run(place: Place, jobs: usize, workers: Workers, repeat: usize) -> Result<Report, String> {
    let mut report = Report::new("pull");
    let (mut ratios, mut rates, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=repeat.max(1) {
        let drained = drain::drain(&Lab::new(&place)?, jobs).await?;
        drained.facts.into_iter().for_each(|fact| report.verified(format!("round {round}, drain: {fact}")));
        let pulled = pull(&Lab::new(&place)?, jobs, workers).await?;
        pulled.facts.into_iter().for_each(|fact| report.verified(format!("round {round}, pull: {fact}")));
        report.row(format!("drain in process, round {round}"), drained.rate, "exec/s", None);
        report.row(format!("pull over HTTP, round {round}"), pulled.rate, "exec/s", None);
        report.row(format!("executions per claim, round {round}"), pulled.per_claim, "", None);
        ratios.push(pulled.rate / drained.rate);
        rates.push(pulled.rate);
        costs.push(pulled.cost);
    }
    ratios.sort_by(f64::total_cmp);
    rates.sort_by(f64::total_cmp);
    report.figure("rate", rates[rates.len() / 2]);
    report.figure("ratio", ratios[ratios.len() / 2]);
    report.row("workers", workers.count as f64, "", None);
    report.row("pull / drain, median", ratios[ratios.len() / 2], "ratio", Some(Target::AtLeast(0.6)));
    report.row("pull / drain, lowest", ratios[0], "ratio", None);
    report.row("pull / drain, highest", ratios[ratios.len() - 1], "ratio", None);
    Cost::median(costs).report(&mut report, "node and workers");
    Ok(report)
}

struct Pulled {
    rate: f64,
    cost: Cost,
    per_claim: f64,
    facts: Vec<String>,
}

async fn pull(lab: &Lab, jobs: usize, workers: Workers) -> Result<Pulled, String> {
    let store = lab.store().await?;
    let now = lab::now();
    lab::put(&store, (0..jobs).map(|n| lab::for_workers(n, now, now)), jobs).await?;
    let done = Arc::new(Done::default());
    let metrics = Arc::default();
    let meter = Meter::start(lab, &metrics).await?;
    let (elapsed, service) = lab::seconds(async {
        let actions = lab::recording(&Arc::new(Recorder::default()));
        let service = lab::engine_with(lab, store.clone(), actions, metrics.clone()).await?;
        let address = crate::node::serve_for_bench(service.handle()).await.map_err(text)?;
        let client = Client::new(&format!("http://{address}")).map_err(text)?;
        let mut running = JoinSet::new();
        for n in 0..workers.count.max(1) {
            running.spawn(worker(client.clone(), n, workers.batch.max(1), done.clone()));
        }
        tokio::select! {
            biased;
            ended = running.join_next() => match ended {
                Some(Ok(Err(error))) => return Err(error),
                ended => return Err(format!("a worker ended: {ended:?}")),
            },
            waited = lab::wait("pulling", jobs, 0, || done.completed.load(Ordering::Relaxed)) => waited?,
        }
        // Those that wait for more are ended with the set.
        Ok(service)
    })
    .await?;
    let cost = meter.stop(jobs).await?;
    service.stop().await.map_err(text)?;
    let starts = std::mem::take(&mut *done.starts.lock());
    let facts = lab::verify(&store, &starts, jobs).await?;
    let per_claim = jobs as f64 / done.claims.load(Ordering::Relaxed).max(1) as f64;
    Ok(Pulled { rate: jobs as f64 / elapsed, cost, per_claim, facts })
}

/// One worker: claims, does nothing, completes; until it is ended.
async fn worker(client: Client, n: usize, batch: usize, done: Arc<Done>) -> Result<(), String> {
    let claim = ClaimRequest {
        worker_id: format!("bench-{n}"),
        capacity: batch as u32,
        pools: vec![POOL_SHORT.into()],
        handlers: vec![HANDLER.into()],
        wait_ms: WAIT_MS,
        ..ClaimRequest::default()
    };
    loop {
        let claimed = client.claim(&claim).await.map_err(text)?.executions;
        if claimed.is_empty() {
            continue;
        }
        let at = lab::now();
        let mut starts = Vec::with_capacity(claimed.len());
        let mut completions = Vec::with_capacity(claimed.len());
        for execution in claimed {
            let (id, fire_at) = (execution.execution_id.parse().map_err(text)?, execution.scheduled_at.parse());
            starts.push(Start { execution: id, fire_at: fire_at.map_err(text)?, at });
            let complete = CompleteRequest {
                fence_token: Some(execution.fence_token),
                ..CompleteRequest::new(CompleteStatus::Succeeded)
            };
            completions.push(Completion { id: execution.execution_id, complete });
        }
        done.claims.fetch_add(1, Ordering::Relaxed);
        done.starts.lock().extend(starts);
        let CompleteBatchResponse { results } =
            client.complete_batch(&CompleteBatchRequest { completions }).await.map_err(text)?;
        if let Some(refused) = results.iter().find(|result| result.state.as_deref() != Some("SUCCEEDED")) {
            return Err(format!("a completion was refused: {refused:?}"));
        }
        done.completed.fetch_add(results.len(), Ordering::Relaxed);
    }
}
