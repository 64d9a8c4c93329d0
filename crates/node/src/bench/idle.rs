//! `bench idle`: a node with many registered jobs of which none is due. What it asks of the database, as that counts it.

use super::lab::{self, Lab, Place};
use super::machine;
use super::report::{Report, Target};
use std::time::Duration;

/// How long the node gets to load and settle.
const SETTLE_S: u64 = 10;

pub async fn run(place: Place, jobs: usize, seconds: u64) -> Result<Report, String> {
    if !place.is_shared() {
        return Err("there is nothing to ask an embedded store from outside: name a server with --store".into());
    }
    let lab = Lab::new(&place)?;
    let store = lab.store().await?;
    let now = lab::now();
    let first = now.saturating_add_ms(30 * 86_400_000);
    let phase_ms = first.millis() as u64 % 86_400_000;
    lab::put(&store, (0..jobs).map(|n| lab::recurring(n, 86_400_000, phase_ms, now)), jobs).await?;
    let (service, ..) = lab::engine(&lab, store.clone()).await?;
    tokio::time::sleep(Duration::from_secs(SETTLE_S)).await;
    let (before, cpu) = (lab.transactions().await?, machine::cpu_ms());
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let (after, busy_ms) = (lab.transactions().await?, machine::cpu_ms() - cpu);
    service.stop().await.map_err(lab::text)?;
    let mut report = Report::new("idle");
    report.verified(format!("{jobs} jobs registered, none due; the server's own count of transactions"));
    // One is the question itself.
    let per_second = (after - before).saturating_sub(1) as f64 / seconds as f64;
    report.row("transactions of the node", per_second, "per s", Some(Target::AtMost(5.0)));
    report.row("processor time of the node", busy_ms as f64 / (seconds as f64 * 1e3), "cores", None);
    Ok(report)
}
