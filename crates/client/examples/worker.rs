//! A worker with a typed payload, progress, checkpoints and cancel.
//!
//! ```sh
//! campanile dev &
//! cargo run -p campanile-client --example worker &
//! campanile job create invoices --manual --handler generate_invoices --pool billing --timeout 5m \
//!     --payload '{"tenant": "acme", "customers": 100}'
//! campanile job run invoices --wait
//! ```
//!
//! Stop the worker in the middle and start it again: it goes on where it was.

use campanile_client::worker::{Ctx, Outcome, Worker};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the job says.
#[derive(Deserialize)]
struct Invoices {
    tenant: String,
    customers: u32,
}

/// What comes of it.
#[derive(Serialize)]
struct Report {
    tenant: String,
    sent: u32,
}

/// Where a later attempt goes on.
#[derive(Serialize, Deserialize, Default)]
struct Place {
    next: u32,
}

async fn generate_invoices(p: Invoices, ctx: Ctx) -> Result<Report, Outcome> {
    if p.customers == 0 {
        return Err(Outcome::Permanent("there is nobody to bill".into()));
    }
    let mut place: Place = ctx.last_checkpoint()?.unwrap_or_default();
    if place.next > 0 {
        ctx.log("info", format!("attempt {} goes on at customer {}", ctx.attempt(), place.next));
    }
    while place.next < p.customers {
        tokio::select! {
            // Cancelled, too late, or this worker ends. What was said so far stays.
            () = ctx.cancelled() => return Err(Outcome::Cancelled),
            sent = send_invoice(&p.tenant, place.next, ctx.fence()) => sent?,
        }
        place.next += 1;
        ctx.checkpoint(&place)?;
        ctx.progress_with(f64::from(place.next) / f64::from(p.customers), format!("{} sent", place.next));
    }
    Ok(Report { tenant: p.tenant, sent: p.customers })
}

/// Something that takes time. A service that remembers the largest fence can refuse what an older attempt still sends.
async fn send_invoice(_tenant: &str, _customer: u32, _fence: u64) -> std::io::Result<()> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok(())
}

#[tokio::main]
async fn main() -> campanile_client::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let worker = Worker::from_env()?.pools(["billing"]).concurrency(10);
    let counts = worker.handler("generate_invoices", generate_invoices).run().await?;
    println!("{} claimed, {} completed", counts.claimed, counts.completed);
    Ok(())
}
