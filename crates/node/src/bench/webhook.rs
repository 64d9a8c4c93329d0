//! `bench webhook`: real work. Webhooks that are due at once, or at a steady rate, to a sink in a process of its own; every
//! claim durable before its call, every outcome after it.
//!
//! Its measure is the raw limit of the same run: what the same HTTP client does against the same sink without a scheduler.
//! Node, sink and database share the cores of this machine.

use super::cost::{Cost, Meter};
use super::lab::{self, Lab, Place, text};
use super::report::{Report, Target};
use super::sink::{Seen, Sink};
use campanile_actions::{Client, Options};
use campanile_model::job::Job;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::sync::Arc;

/// What is sent.
#[derive(Copy, Clone)]
pub struct Load {
    /// Webhooks due at once.
    pub jobs: usize,
    /// Instead: webhooks per second, and for how many seconds.
    pub steady: Option<(usize, usize)>,
    /// How long the sink waits before it answers.
    pub delay_ms: u64,
}

/// Requests under way at the same time when the client runs alone.
const RAW_IN_FLIGHT: usize = 64;
/// Headers of a webhook, as the raw client sends them.
const RAW_HEADERS: [(&str, &str); 10] = [
    ("webhook-id", "exec_00000000000000000000000000000000"),
    ("webhook-timestamp", "1700000000"),
    ("x-execution-id", "exec_00000000000000000000000000000000"),
    ("idempotency-key", "exec_00000000000000000000000000000000"),
    ("x-fence-token", "1"),
    ("x-job-id", "job_00000000000000000000000000"),
    ("x-job-name", "bench-000000000"),
    ("x-attempt", "1"),
    ("x-max-attempts", "12"),
    ("x-deadline-ms", "60000"),
];

pub async fn run(place: Place, load: Load, repeat: usize) -> Result<Report, String> {
    let mut report = Report::new("webhook");
    let (mut ratios, mut rates, mut raws) = (Vec::new(), Vec::new(), Vec::new());
    let mut costs = Vec::new();
    for round in 1..=repeat.max(1) {
        let sink = Sink::start(load.delay_ms).await?;
        let raw = raw(&sink, load.jobs).await?;
        let sent = send(&Lab::new(&place)?, &sink, load).await?;
        sent.facts.into_iter().for_each(|fact| report.verified(format!("round {round}: {fact}")));
        report.row(format!("HTTP client alone, round {round}"), raw, "calls/s", None);
        report.row(format!("webhooks, round {round}"), sent.rate, "exec/s", None);
        report.row(format!("connections opened, round {round}"), sent.connections as f64, "", None);
        report.row(format!("lateness p50, round {round}"), sent.late_ms.0, "ms", None);
        report.row(format!("lateness p99, round {round}"), sent.late_ms.1, "ms", None);
        report.row(format!("processor time of the sink, round {round}"), sent.sink_us, "us/exec", None);
        ratios.push(sent.rate / raw);
        rates.push(sent.rate);
        raws.push(raw);
        costs.push(sent.cost);
    }
    for figures in [&mut ratios, &mut rates, &mut raws] {
        figures.sort_by(f64::total_cmp);
    }
    let median = |figures: &[f64]| figures[figures.len() / 2];
    let least = if place.is_shared() { 5_000.0 } else { 10_000.0 };
    // At a steady rate, or with a slow target, neither the rate nor its share of the raw one is ours.
    let at_once = load.steady.is_none() && load.delay_ms == 0;
    report.row("webhooks, median", median(&rates), "exec/s", at_once.then_some(Target::AtLeast(least)));
    let share = (at_once && !place.is_shared()).then_some(Target::AtLeast(0.4));
    report.row("webhooks / client alone, median", median(&ratios), "ratio", share);
    report.row("webhooks / client alone, lowest", ratios[0], "ratio", None);
    report.row("webhooks / client alone, highest", ratios[ratios.len() - 1], "ratio", None);
    report.figure("rate", median(&rates));
    report.figure("raw_rate", median(&raws));
    report.figure("ratio", median(&ratios));
    Cost::median(costs).report(&mut report, "the node");
    Ok(report)
}

/// Calls per second of the client alone.
async fn raw(sink: &Sink, calls: usize) -> Result<f64, String> {
    let client = Client::new(Options::dev());
    let url = sink.url();
    let post = || async { client.post(&url, &RAW_HEADERS, "{}").await };
    // The connections are there before the clock runs, as they are for a node that has been up for a while.
    stream::iter(0..RAW_IN_FLIGHT).map(|_| Ok(post())).try_for_each_concurrent(RAW_IN_FLIGHT, |call| call).await?;
    let all = stream::iter(0..calls).map(|_| Ok(post())).try_for_each_concurrent(RAW_IN_FLIGHT, |call| call);
    let (elapsed, ()) = lab::seconds(all).await?;
    sink.report().await?;
    Ok(calls as f64 / elapsed)
}

struct Sent {
    rate: f64,
    cost: Cost,
    /// Half of them, and 99 of 100, arrived within so much of their instant.
    late_ms: (f64, f64),
    connections: usize,
    sink_us: f64,
    facts: Vec<String>,
}

async fn send(lab: &Lab, sink: &Sink, load: Load) -> Result<Sent, String> {
    let store = lab.store().await?;
    let actions = campanile_actions::standard(Options::dev());
    let created = lab::now();
    let jobs = load.steady.map_or(load.jobs, |(rate, seconds)| rate * seconds);
    // A steady load begins when it is registered and the engine has loaded it.
    let first = created.saturating_add_ms(load.steady.map_or(0, |_| 5_000 + jobs as i64 / 20));
    let at = |n: usize| match load.steady {
        Some((rate, _)) => first.saturating_add_ms((n * 1_000 / rate) as i64),
        None => first,
    };
    let spec = lab::webhook_to(&actions, &sink.url())?;
    let job = |n: usize| -> Job { lab::with_action(lab::one_off(n, at(n), created), &spec) };
    lab::put(&store, (0..jobs).map(job), jobs).await?;
    let metrics = Arc::default();
    let meter = Meter::start(lab, &metrics).await?;
    let (elapsed, service) = lab::seconds(async {
        let service = lab::engine_with(lab, store.clone(), actions, metrics.clone()).await?;
        let patience_ms = first.ms_since(lab::now());
        lab::wait("sending", jobs, patience_ms, || metrics.succeeded.get() as usize).await?;
        Ok(service)
    })
    .await?;
    let elapsed = load.steady.map_or(elapsed, |_| lab::now().ms_since(first) as f64 / 1e3);
    let cost = meter.stop(jobs).await?;
    service.stop().await.map_err(text)?;
    let Seen { starts, connections, cpu_ms } = sink.report().await?;
    let facts = lab::verify(&store, &starts, jobs).await?;
    let mut late: Vec<u64> = starts.iter().map(|start| start.at.ms_since(start.fire_at)).collect();
    late.sort_unstable();
    Ok(Sent {
        rate: jobs as f64 / elapsed,
        cost,
        late_ms: (lab::quantile(&late, 0.5), lab::quantile(&late, 0.99)),
        connections,
        sink_us: cpu_ms as f64 * 1e3 / jobs.max(1) as f64,
        facts,
    })
}
