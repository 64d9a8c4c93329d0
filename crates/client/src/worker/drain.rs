//! The whole life of a worker, and its orderly end.
//!
//! Ending: claim nothing more, give back what was not started, let running attempts finish within the grace, then tell them to
//! stop, then drop them, and at last tell the server how all of them ended. A second signal skips the first wait.

use super::completions;
use super::heartbeat;
use super::running::Stop;
use super::shared::{Shared, count};
use super::{Counts, claims};
use crate::Result;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// How long the last ends may take to be told.
const SETTLE: Duration = Duration::from_secs(10);
/// What attempts need beyond the grace to notice that they were dropped.
const SLACK: Duration = Duration::from_secs(1);

/// Works until `stop`, or until the server says so, and ends in order.
pub(super) async fn work(
    shared: Arc<Shared>,
    stop: impl Future<Output = ()>,
    hurry: impl Future<Output = ()>,
) -> Result<Counts> {
    // Whoever drops this future drops these sets, and with them all tasks.
    let (mut loops, mut attempts) = (JoinSet::new(), JoinSet::new());
    let (ended, ends) = mpsc::unbounded_channel();
    loops.spawn(heartbeat::run(shared.clone()));
    let mut settled = JoinSet::new();
    settled.spawn(completions::run(shared.clone(), ends));
    tracing::info!(worker = %shared.options.worker_id, server = shared.client.base_url(), "working");
    let result = {
        let mut claims = pin!(claims::run(&shared, &ended, &mut attempts));
        tokio::select! {
            biased;
            result = &mut claims => result,
            () = stop => {
                shared.drain();
                claims.await
            }
        }
    };
    finish(&shared, &mut attempts, hurry).await;
    // With the last sender the other loop ends, once it has told everything.
    drop((ended, attempts));
    if tokio::time::timeout(SETTLE, settled.join_next()).await.is_err() {
        settled.shutdown().await;
        let left = shared.options.concurrency + super::shared::UNANSWERED_MAX - shared.unanswered.available_permits();
        count(&shared.counters.unanswered, left as u64);
    }
    let counts = shared.counts();
    tracing::info!(?counts, "ended");
    result.map(|()| counts)
}

/// Waits for running attempts: first as they are, then told to stop.
async fn finish(shared: &Shared, attempts: &mut JoinSet<()>, hurry: impl Future<Output = ()>) {
    let running = shared.registry.all().len();
    if running > 0 {
        tracing::info!(running, grace = ?shared.options.grace, "finishing what runs");
    }
    tokio::select! {
        biased;
        () = all(attempts) => return,
        () = hurry => {}
        () = tokio::time::sleep(shared.options.grace) => {}
    }
    for running in shared.registry.all() {
        running.stop(Stop::Draining);
    }
    let longest = shared.options.cancel_grace.max(shared.options.timeout_grace) + SLACK;
    if tokio::time::timeout(longest, all(attempts)).await.is_err() {
        // They block their threads; dropping them is all that is left, and happens when they let go.
        tracing::error!(running = attempts.len(), "handlers that block are left behind");
    }
}

async fn all(attempts: &mut JoinSet<()>) {
    while attempts.join_next().await.is_some() {}
}

/// How many signals to end have come. Listens as long as somebody wants to know.
pub(super) fn signals() -> io::Result<watch::Receiver<u32>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = sender.closed() => return,
            }
            sender.send_modify(|count| *count += 1);
        }
    });
    Ok(receiver)
}
