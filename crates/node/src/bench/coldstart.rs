//! `bench coldstart`: a new process on a store with many jobs. How long from exec to the first on-time fire, how fast it loads
//! the jobs of the next hour, how much memory a registered job costs, how much processor time a node needs when nothing is due.
//!
//! The parent prepares the stores and starts this binary again as the child; the child says when it saw its first on-time
//! fire, when it had loaded everything, and at the end how large it is.

use super::lab::{self, Lab, Place};
use super::machine;
use super::report::{Report, Target};
use campanile_model::schedule::zone_database_version;
use campanile_model::store::ZoneDatabase;
use std::path::PathBuf;
use std::process::Stdio;

const DAY_MS: i64 = 86_400_000;
/// A fire that starts at most this late is on time.
const ON_TIME_MS: u64 = 50;
/// How long the children linger once everything is loaded.
const LINGER_S: u64 = 15;

struct Child {
    first_fire_s: f64,
    loaded_s: f64,
    resident: f64,
    idle_cpu: f64,
}

pub async fn run(place: Place, jobs: usize) -> Result<Report, String> {
    if place.is_shared() {
        return Err("this measures an embedded store only: leave --store out".into());
    }
    // One store with a ticking job alone: the base. One with all jobs within the horizon, one with all beyond it.
    let base = measure(&prepare(&place, 0, 0).await?, 0).await?;
    let near = measure(&prepare(&place, jobs, 600_000).await?, jobs).await?;
    let far = measure(&prepare(&place, jobs, 30 * DAY_MS).await?, 0).await?;
    let mut report = Report::new("coldstart");
    report.verified("the first on-time fire of a ticking job was seen by the process itself");
    report.row("registered jobs", jobs as f64, "", None);
    report.row(
        "exec to first on-time fire, all due within the hour",
        near.first_fire_s,
        "s",
        Some(Target::AtMost(3.0)),
    );
    report.row("exec to first on-time fire, none due for 30 days", far.first_fire_s, "s", Some(Target::AtMost(3.0)));
    report.row("exec to first on-time fire, no other jobs", base.first_fire_s, "s", None);
    report.row("exec to all loaded, within the horizon", near.loaded_s, "s", None);
    // From when a node without other jobs fires: that is what it takes to start.
    let load_s = (near.loaded_s - base.first_fire_s).max(1e-3);
    report.row("loading of the horizon", jobs as f64 / load_s, "jobs/s", Some(Target::AtLeast(1_000_000.0)));
    let per_job = |child: &Child| (child.resident - base.resident).max(0.0) / jobs.max(1) as f64;
    report.row("memory per job within the horizon", per_job(&near), "B", Some(Target::AtMost(200.0)));
    report.row("memory per job beyond the horizon", per_job(&far), "B", None);
    report.row("resident in all, jobs within the horizon", near.resident / 1e6, "MB", None);
    report.row(
        "processor time when none is due, within the horizon",
        near.idle_cpu * 100.0,
        "% core",
        Some(Target::AtMost(1.0)),
    );
    report.row("processor time when none is due, beyond it", far.idle_cpu * 100.0, "% core", Some(Target::AtMost(1.0)));
    Ok(report)
}

/// A store with `jobs` daily jobs, the first due `from_ms` from now, and one that ticks. Those of another day are one-off: a daily
/// job is due within a day.
async fn prepare(place: &Place, jobs: usize, from_ms: i64) -> Result<Lab, String> {
    let lab = Lab::new(place)?;
    let store = lab.store().await?;
    let now = lab::now();
    let tick = lab::recurring(0, 50, 0, now);
    let others = (1..=jobs).map(|n| {
        // Spread over half an hour, so that those within the horizon stay in memory and none comes due meanwhile.
        let first = now.saturating_add_ms(from_ms + 300_000 + (n % 1_800) as i64 * 1_000);
        match from_ms < DAY_MS {
            true => lab::recurring(n, DAY_MS as u64, first.millis() as u64 % DAY_MS as u64, now),
            false => lab::one_off(n, first, now),
        }
    });
    lab::put(&store, std::iter::once(tick).chain(others), jobs + 1).await?;
    // As an engine does when it creates the store; otherwise the child would take the zone database for a new one.
    let zones = ZoneDatabase { version: zone_database_version().to_owned() };
    store.put_record(zones.into(), None).await.map_err(lab::text)?;
    Ok(lab)
}

async fn measure(lab: &Lab, planned: usize) -> Result<Child, String> {
    let binary = std::env::current_exe().map_err(lab::text)?;
    let started = lab::now();
    let output = tokio::process::Command::new(binary)
        .args(["bench", "coldstart-child", "--linger", &LINGER_S.to_string()])
        .args(["--planned", &planned.to_string(), "--dir"])
        .arg(lab.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start a child: {e}"))?
        .wait_with_output()
        .await
        .map_err(lab::text)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.and_then(|v| v.parse::<f64>().ok()).ok_or_else(|| format!("the child said nothing about {key}: {text}"))
    };
    Ok(Child {
        first_fire_s: (value("first_fire_at")? - started.millis() as f64) / 1e3,
        loaded_s: (value("loaded_at")? - started.millis() as f64) / 1e3,
        resident: value("resident")?,
        idle_cpu: value("idle_cpu")?,
    })
}

/// The child: runs an engine, and prints what it saw.
pub async fn child(dir: PathBuf, planned: usize, linger: u64) -> Result<Report, String> {
    let (service, recorder, metrics) = lab::engine_in(&dir).await?;
    let first = loop {
        let starts = recorder.starts();
        match starts.iter().find(|start| start.at.ms_since(start.fire_at) <= ON_TIME_MS) {
            Some(start) => break start.at,
            None => tokio::time::sleep(std::time::Duration::from_millis(5)).await,
        }
    };
    lab::wait("loading", planned, 60_000, || metrics.planned_jobs.get() as usize).await?;
    let loaded = lab::now();
    // The ticking job has done its part; what is measured from here on is a node at rest.
    let tick = campanile_model::store::JobKey::Name("bench-000000000".into());
    let handle = service.handle();
    handle.delete(campanile_model::TenantId::DEFAULT, &tick, Default::default()).await.map_err(lab::text)?;
    tokio::time::sleep(std::time::Duration::from_secs(linger / 3)).await;
    let cpu = machine::cpu_ms();
    let rest = linger - linger / 3;
    tokio::time::sleep(std::time::Duration::from_secs(rest)).await;
    println!("first_fire_at={}", first.millis());
    println!("loaded_at={}", loaded.millis());
    println!("resident={}", machine::resident_bytes());
    println!("idle_cpu={}", (machine::cpu_ms() - cpu) as f64 / (rest as f64 * 1e3));
    service.stop().await.map_err(lab::text)?;
    std::process::exit(0);
}
