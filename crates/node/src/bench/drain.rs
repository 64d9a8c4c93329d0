//! `bench drain`: jobs that are due are fired, dispatched, run (a no-op) and durably completed by the whole engine. Its
//! measure is the raw store of the same run: what the engine adds on top of the writes.

use super::lab::{self, Lab, Place};
use super::report::{Report, Target};
use super::store;

pub async fn run(place: Place, jobs: usize, repeat: usize) -> Result<Report, String> {
    let mut report = Report::new("drain");
    let mut ratios = Vec::new();
    for round in 1..=repeat.max(1) {
        let raw = store::measure(&Lab::new(&place)?, jobs, 2_000).await?.life();
        let (rate, facts) = drain(&Lab::new(&place)?, jobs).await?;
        facts.into_iter().for_each(|fact| report.verified(format!("round {round}: {fact}")));
        report.row(format!("raw store, fire + claim + complete, round {round}"), raw, "exec/s", None);
        report.row(format!("drain, round {round}"), rate, "exec/s", None);
        ratios.push(rate / raw);
    }
    ratios.sort_by(f64::total_cmp);
    report.row(
        "drain / raw store, median",
        ratios[ratios.len() / 2],
        "ratio",
        Some(Target::AtLeast(if place.is_shared() { 0.5 } else { 0.4 })),
    );
    report.row("drain / raw store, lowest", ratios[0], "ratio", None);
    report.row("drain / raw store, highest", ratios[ratios.len() - 1], "ratio", None);
    Ok(report)
}

/// Drains `jobs` due jobs, and verifies it: executions per second, and what was verified.
pub async fn drain(lab: &Lab, jobs: usize) -> Result<(f64, Vec<String>), String> {
    let store = lab.store().await?;
    let now = lab::now();
    lab::put(&store, (0..jobs).map(|n| lab::one_off(n, now, now)), jobs).await?;
    let (elapsed, (service, recorder)) = lab::seconds(async {
        let (service, recorder, metrics) = lab::engine(lab, store.clone()).await?;
        lab::wait("draining", jobs, 0, || metrics.succeeded.get() as usize).await?;
        Ok((service, recorder))
    })
    .await?;
    service.stop().await.map_err(lab::text)?;
    let facts = lab::verify(&store, &recorder.starts(), jobs).await?;
    Ok((jobs as f64 / elapsed, facts))
}
