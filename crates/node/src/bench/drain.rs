//! `bench drain`: jobs that are due are fired, dispatched, run (a no-op) and durably completed by the whole engine. Its
//! measure is the raw store of the same run: what the engine adds on top of the writes.

use super::cost::{Cost, Meter};
use super::lab::{self, Lab, Place, Recorder};
use super::report::{Report, Target};
use super::store;
use std::sync::Arc;

pub async fn run(place: Place, jobs: usize, repeat: usize) -> Result<Report, String> {
    let mut report = Report::new("drain");
    let (mut ratios, mut rates, mut costs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=repeat.max(1) {
        let raw = store::measure(&Lab::new(&place)?, jobs, 2_000).await?.life();
        let Drained { rate, cost, facts } = drain(&Lab::new(&place)?, jobs).await?;
        facts.into_iter().for_each(|fact| report.verified(format!("round {round}: {fact}")));
        report.row(format!("raw store, fire + claim + complete, round {round}"), raw, "exec/s", None);
        report.row(format!("drain, round {round}"), rate, "exec/s", None);
        ratios.push(rate / raw);
        rates.push(rate);
        costs.push(cost);
    }
    ratios.sort_by(f64::total_cmp);
    rates.sort_by(f64::total_cmp);
    report.row("drain, median", rates[rates.len() / 2], "exec/s", None);
    report.figure("rate", rates[rates.len() / 2]);
    report.figure("ratio", ratios[ratios.len() / 2]);
    report.row(
        "drain / raw store, median",
        ratios[ratios.len() / 2],
        "ratio",
        Some(Target::AtLeast(if place.is_shared() { 0.5 } else { 0.4 })),
    );
    report.row("drain / raw store, lowest", ratios[0], "ratio", None);
    report.row("drain / raw store, highest", ratios[ratios.len() - 1], "ratio", None);
    Cost::median(costs).report(&mut report, "the node");
    Ok(report)
}

/// How a drain went.
pub struct Drained {
    /// Executions per second.
    pub rate: f64,
    pub cost: Cost,
    /// What was verified.
    pub facts: Vec<String>,
}

/// Drains `jobs` due jobs, and verifies it.
pub async fn drain(lab: &Lab, jobs: usize) -> Result<Drained, String> {
    let store = lab.store().await?;
    let now = lab::now();
    lab::put(&store, (0..jobs).map(|n| lab::one_off(n, now, now)), jobs).await?;
    let (recorder, metrics) = (Arc::new(Recorder::default()), Arc::default());
    let meter = Meter::start(lab, &metrics).await?;
    let (elapsed, service) = lab::seconds(async {
        let service = lab::engine_with(lab, store.clone(), lab::recording(&recorder), metrics.clone()).await?;
        lab::wait("draining", jobs, 0, || metrics.succeeded.get() as usize).await?;
        Ok(service)
    })
    .await?;
    let cost = meter.stop(jobs).await?;
    service.stop().await.map_err(lab::text)?;
    let facts = lab::verify(&store, &recorder.starts(), jobs).await?;
    Ok(Drained { rate: jobs as f64 / elapsed, cost, facts })
}
