//! `bench sustain`: many registered jobs, and a steady rate of fires for minutes. Every job has a phase of its own, so that each
//! millisecond has its share; nothing is prepared that a node would not prepare by itself.

use super::cost::Meter;
use super::lab::{self, Lab, Place, Recorder, text};
use super::report::{Report, Target};
use campanile_model::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// From when everything is loaded to the first fire that is measured: what was due while it was loaded is over by then.
const SETTLE_MS: i64 = 15_000;
/// How long after the last measured fire the executions get to end.
const END_MS: i64 = 5_000;

pub async fn run(place: Place, jobs: usize, rate: usize, seconds: usize) -> Result<Report, String> {
    let lab = Lab::new(&place)?;
    let store = lab.store().await?;
    let every_ms = (jobs as u64 * 1_000).div_ceil(rate as u64).max(1);
    let phase_ms = |n: usize| n as u64 * 1_000 / rate as u64 % every_ms;
    let created = lab::now();
    // No cursor lies behind: a job fires for the first time after it was registered.
    let (register_s, ()) =
        lab::seconds(lab::put(&store, (0..jobs).map(|n| lab::recurring(n, every_ms, phase_ms(n), created)), jobs))
            .await?;
    let (recorder, metrics) = (Arc::new(Recorder::default()), Arc::default());
    let service = lab::engine_with(&lab, store.clone(), lab::recording(&recorder), Arc::clone(&metrics)).await?;
    let (load_s, ()) = lab::seconds(lab::wait("loading", jobs, 60_000, || metrics.planned_jobs.get() as usize)).await?;
    let from = lab::now().saturating_add_ms(SETTLE_MS);
    let to = from.saturating_add_ms(seconds as i64 * 1_000);
    sleep_until(from).await;
    let meter = Meter::start(&lab, &metrics).await?;
    let before = metrics.succeeded.get();
    sleep_until(to).await;
    let (cost, ended) = (meter, metrics.succeeded.get() - before);
    let cost = cost.stop(ended as usize).await?;
    sleep_until(to.saturating_add_ms(END_MS)).await;
    service.stop().await.map_err(text)?;
    let within = |at: Timestamp| from <= at && at < to;
    let starts: Vec<_> = recorder.starts().into_iter().filter(|start| within(start.fire_at)).collect();
    let expected = (0..jobs).map(|n| fires(every_ms, phase_ms(n), from, to)).sum::<u64>() as usize;
    let mut report = Report::new("sustain");
    let facts = lab::verify_within(&store, &starts, expected, Some((from, to))).await?;
    facts.into_iter().for_each(|fact| report.verified(fact));
    let mut late: Vec<u64> = starts.iter().map(|start| start.at.ms_since(start.fire_at)).collect();
    late.sort_unstable();
    report.row("registered jobs", jobs as f64, "", None);
    report.row("registration", jobs as f64 / register_s, "jobs/s", None);
    report.row("loading", jobs as f64 / load_s, "jobs/s", None);
    report.row("fires", expected as f64, "", None);
    let rate = expected as f64 / seconds as f64;
    report.row("rate", rate, "fires/s", None);
    report.row("lateness p50", lab::quantile(&late, 0.5), "ms", None);
    report.row("lateness p99", lab::quantile(&late, 0.99), "ms", Some(Target::AtMost(100.0)));
    report.row("lateness p99.9", lab::quantile(&late, 0.999), "ms", None);
    report.row("lateness max", lab::quantile(&late, 1.0), "ms", None);
    report.row("memory of the node", super::machine::resident_bytes() as f64 / 1e6, "MB", None);
    report.figure("rate", rate);
    report.figure("p99_ms", lab::quantile(&late, 0.99));
    cost.report(&mut report, "the node");
    Ok(report)
}

async fn sleep_until(at: Timestamp) {
    tokio::time::sleep(Duration::from_millis(at.ms_since(lab::now()))).await;
}

/// How often a period comes round between two instants, the last one excluded.
fn fires(every_ms: u64, phase_ms: u64, from: Timestamp, to: Timestamp) -> u64 {
    let until = |at: Timestamp| (at.millis() - 1 - phase_ms as i64).div_euclid(every_ms as i64);
    (until(to) - until(from)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_counted_as_it_fires() {
        let t = Timestamp::from_millis;
        for (from, to) in [(0, 1), (0, 10), (3, 4), (3, 10), (4, 13), (7, 1_007)] {
            let walked = (from..to).filter(|at| at % 10 == 3).count() as u64;
            assert_eq!(fires(10, 3, t(from), t(to)), walked, "{from}..{to}");
        }
    }
}
