//! `campanile status`: how the server is.

use super::Globals;
use super::exit::Failure;
use super::output::{Output, bytes, rough};
use campanile_client::Client;
use campanile_model::lifecycle::State;

/// Shows how the server is.
pub async fn run(globals: &Globals, out: &Output) -> Result<(), Failure> {
    let client = globals.client()?;
    let status = client.status().await?;
    let states = if out.is_table() { states(&client).await } else { String::new() };
    out.print(
        &status,
        || vec![globals.url.clone()],
        |out| {
            let late = &status.lateness;
            let mut pairs = vec![
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
                ("workers", format!("{} heard of within the last hour", status.workers)),
                ("executions", states),
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
            ];
            pairs.retain(|(_, value)| !value.is_empty());
            out.pairs(&pairs)
        },
    )
}

/// Executions by state, those that are at work first.
async fn states(client: &Client) -> String {
    const FIRST: [&str; 3] = ["RUNNING", "PENDING", "RETRYING"];
    // The rest of the answer is worth showing where this one is not to be had.
    let Ok(counts) = client.counts().await else { return String::new() };
    let in_state = |state: &str| -> u64 {
        counts.data.iter().filter(|count| count.state == state).map(|count| count.executions).sum()
    };
    let rest = State::ALL.into_iter().map(State::as_str).filter(|state| !FIRST.contains(state));
    let parts = FIRST.into_iter().chain(rest).map(|state| (state, in_state(state))).filter(|(_, count)| *count > 0);
    parts.map(|(state, count)| format!("{state} {count}")).collect::<Vec<_>>().join(", ")
}
