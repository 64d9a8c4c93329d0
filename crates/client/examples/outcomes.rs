//! Every way in which a handler can end: the payload says which.
//!
//! ```sh
//! campanile dev &
//! cargo run -p campanile-client --example outcomes &
//! campanile job create flaky --manual --handler outcome --pool examples --payload '"retry"'
//! campanile job run flaky --wait
//! ```

use campanile_client::worker::{Ctx, Failure, Outcome, Stop, Worker};
use std::time::Duration;

/// Payloads are these words, in quotes.
#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wish {
    Succeed,
    Retry,
    RetryAfter,
    Snooze,
    Permanent,
    Panic,
    Wait,
}

async fn outcome(wish: Wish, ctx: Ctx) -> Result<String, Outcome> {
    match wish {
        Wish::Succeed => Ok(format!("{} succeeded", ctx.execution_id())),
        // Any error: the job's retry policy decides.
        Wish::Retry => Ok(std::fs::read_to_string("/does/not/exist")?),
        // The same, no earlier than somebody asked for.
        Wish::RetryAfter => Err(Outcome::RetryAfter(Duration::from_secs(90), "the bank is busy".into())),
        // Not yet: tried again later, without using up an attempt.
        Wish::Snooze => Err(Outcome::Snooze(Duration::from_secs(60))),
        // No use in trying again. The kind is what failures are grouped by.
        Wish::Permanent => Err(Outcome::Permanent(Failure::new("no_such_tenant", "there is no tenant acme"))),
        // Fails this attempt, and nothing else.
        Wish::Panic => panic!("a bug"),
        // Until it is cancelled. When the worker ends, somebody else should go on, and the attempt should not count.
        Wish::Wait => {
            ctx.cancelled().await;
            match ctx.stopping() {
                Some(Stop::Draining) => Err(Outcome::Snooze(Duration::ZERO)),
                _ => Err(Outcome::Cancelled),
            }
        }
    }
}

#[tokio::main]
async fn main() -> campanile_client::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let worker = Worker::from_env()?.pools(["examples"]).concurrency(4).grace(Duration::from_secs(10));
    worker.handler("outcome", outcome).run().await?;
    Ok(())
}
