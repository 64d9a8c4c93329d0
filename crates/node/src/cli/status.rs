//! `campanile status`: how the server is.

use super::Globals;
use super::exit::Failure;
use super::output::{Output, bytes, rough};

/// Shows how the server is.
pub async fn run(globals: &Globals, out: &Output) -> Result<(), Failure> {
    let status = globals.client()?.status().await?;
    out.print(
        &status,
        || vec![globals.url.clone()],
        |out| {
            let late = &status.lateness;
            out.pairs(&[
                ("server", format!("{} at {}", status.version, globals.url)),
                ("node", status.node.clone()),
                ("ready", if status.ready { "yes".into() } else { "no: it does not fire yet".into() }),
                ("up", rough(status.uptime_ms)),
                ("clock", status.now.clone()),
                ("zones", status.zone_database.clone()),
                (
                    "store",
                    format!("{} at {}, schema {}", status.store.kind, status.store.location, status.store.schema),
                ),
                ("size", bytes(status.store.bytes)),
                ("jobs", format!("{} stored, {} of them fire within the hour", status.store.jobs, status.wheel_size)),
                (
                    "queue",
                    format!(
                        "{} ready, {} wait for their instant, {} running",
                        status.queue_depth, status.waiting, status.running
                    ),
                ),
                (
                    "late",
                    format!("p50 {}ms, p99 {}ms, max {}ms since the start", late.p50_ms, late.p99_ms, late.max_ms),
                ),
                (
                    "counters",
                    status
                        .counters
                        .iter()
                        .map(|(name, count)| format!("{name} {count}"))
                        .collect::<Vec<_>>()
                        .join(", "),
                ),
            ])
        },
    )
}
