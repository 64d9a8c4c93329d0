//! `bench lateness`: from the instant to the start, under a steady rate of one-off jobs, one every so many microseconds.

use super::lab::{self, Lab, Place};
use super::report::{Report, Target};

pub async fn run(place: Place, rate: usize, seconds: usize) -> Result<Report, String> {
    let lab = Lab::new(&place)?;
    let store = lab.store().await?;
    let jobs = rate * seconds;
    let (service, recorder, metrics) = lab::engine(&lab, store.clone()).await?;
    let created = lab::now();
    // The first fire is far enough away that registration does not run into it.
    let first = created.saturating_add_ms(3_000 + jobs as i64 / 50);
    let at = |n: usize| first.saturating_add_ms((n * 1_000 / rate) as i64);
    lab::put(&store, (0..jobs).map(|n| lab::one_off(n, at(n), created)), jobs).await?;
    lab::wait("firing", jobs, 10_000, || metrics.succeeded.get() as usize).await?;
    service.stop().await.map_err(lab::text)?;
    let starts = recorder.starts();
    let mut report = Report::new("lateness");
    lab::verify(&store, &starts, jobs).await?.into_iter().for_each(|fact| report.verified(fact));
    let mut late: Vec<u64> = starts.iter().map(|start| start.at.ms_since(start.fire_at)).collect();
    late.sort_unstable();
    report.row("fires", jobs as f64, "", None);
    report.row("rate", rate as f64, "fires/s", None);
    report.row("lateness p50", lab::quantile(&late, 0.5), "ms", None);
    report.row(
        "lateness p99",
        lab::quantile(&late, 0.99),
        "ms",
        Some(Target::AtMost(if place.is_shared() { 25.0 } else { 10.0 })),
    );
    report.row("lateness p99.9", lab::quantile(&late, 0.999), "ms", None);
    report.row("lateness max", lab::quantile(&late, 1.0), "ms", None);
    Ok(report)
}
