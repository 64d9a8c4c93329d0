//! `bench stampede`: a million jobs due in the same second, registered two minutes ahead.

use super::lab::{self, Lab, Place};
use super::report::{Report, Target};

pub async fn run(place: Place, jobs: usize, ahead: u64) -> Result<Report, String> {
    let lab = Lab::new(&place)?;
    let store = lab.store().await?;
    let (service, recorder, metrics) = lab::engine(&lab, store.clone()).await?;
    let created = lab::now();
    let second = created.saturating_add_ms(ahead as i64 * 1_000);
    let at = |n: usize| second.saturating_add_ms((n * 1_000 / jobs) as i64);
    let put = lab::put(&store, (0..jobs).map(|n| lab::one_off(n, at(n), created)), jobs);
    let (registered, ()) = lab::seconds(put).await?;
    if lab::now() >= second {
        return Err(format!("registration took {registered:.0} s, longer than --ahead {ahead}"));
    }
    let patience_ms = second.ms_since(lab::now());
    lab::wait("firing", jobs, patience_ms, || metrics.succeeded.get() as usize).await?;
    let durable_s = lab::now().ms_since(second) as f64 / 1e3;
    let fired_ahead = jobs as f64;
    service.stop().await.map_err(lab::text)?;
    let starts = recorder.starts();
    let mut report = Report::new("stampede");
    lab::verify(&store, &starts, jobs).await?.into_iter().for_each(|fact| report.verified(fact));
    let mut late: Vec<u64> = starts.iter().map(|start| start.at.ms_since(start.fire_at)).collect();
    late.sort_unstable();
    let last_s = starts.iter().map(|start| start.at.ms_since(second)).max().unwrap_or(0) as f64 / 1e3;
    // The targets of a million, and of the four millions that the queue once could not hold.
    let many = jobs > 1_000_000;
    report.row("jobs due in one second", fired_ahead, "", None);
    report.row("registration", jobs as f64 / registered, "jobs/s", None);
    report.row(
        "last start after the second began",
        last_s,
        "s",
        Some(Target::AtMost(if place.is_shared() || many { 20.0 } else { 10.0 })),
    );
    report.row(
        "all durable after the second began",
        durable_s,
        "s",
        (!place.is_shared()).then_some(Target::AtMost(if many { 30.0 } else { 20.0 })),
    );
    report.row("lateness p50", lab::quantile(&late, 0.5), "ms", None);
    report.row("lateness p99", lab::quantile(&late, 0.99), "ms", None);
    Ok(report)
}
