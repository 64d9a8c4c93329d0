//! The loop that takes work: as much as there is room for, with one long poll at a time.
//!
//! After: `attempt`. What was claimed and cannot be started (no such handler, more than was asked for, the worker ends) is
//! given back. A crash between a claim and its start leaves a lease that ends.

use super::attempt;
use super::backoff::{Backoff, jittered, may_work_later};
use super::completions::Ended;
use super::limits::CLAIM_ITEMS_MAX;
use super::shared::{Shared, count};
use crate::wire::{ClaimRequest, ClaimResponse, ClaimedExecution, ReleaseRequest};
use crate::{Error, Result};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// One long poll.
const WAIT: Duration = Duration::from_secs(30);
/// How long a poll may go on when the worker ends. A claim that is being answered arrives within it and is given back; a
/// poll that waits is not worth waiting for.
const LAST_POLL: Duration = Duration::from_secs(1);
/// The pause after an empty answer that came early: a server that does not wait must not be asked all the time.
const EMPTY_PAUSE: Duration = Duration::from_millis(200);
/// The pause after work that we cannot do.
const UNFIT_PAUSE: Duration = Duration::from_secs(1);

/// Claims until the worker ends. Fails where the server refuses us for good.
pub(super) async fn run(
    shared: &Arc<Shared>,
    ended: &UnboundedSender<Ended>,
    attempts: &mut JoinSet<()>,
) -> Result<()> {
    let mut backoff = Backoff::default();
    while let Some(room) = room(shared).await {
        // Those that have ended are only in the set until somebody looks.
        while let Some(attempt) = attempts.try_join_next() {
            if let Err(error) = attempt {
                tracing::error!(%error, "an attempt broke off; its lease ends by itself");
            }
        }
        let asked = Instant::now();
        match poll(shared, room).await {
            None => break,
            Some(Ok(response)) => {
                backoff.reset();
                shared.follow(response.directive);
                count(&shared.counters.claimed, response.executions.len() as u64);
                if response.executions.is_empty() && asked.elapsed() < WAIT / 2 {
                    pause(shared, jittered(EMPTY_PAUSE, 50)).await;
                }
                for execution in response.executions {
                    start(shared, ended, attempts, execution);
                }
            }
            Some(Err(error)) if may_work_later(&error) => {
                if backoff.is_fresh() {
                    tracing::warn!(%error, "cannot claim; trying again");
                }
                pause(shared, backoff.next()).await;
            }
            Some(Err(error)) => {
                tracing::error!(%error, "claims are refused for good");
                shared.drain();
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Waits until something can be started, and says how much; `None` when the worker ends.
async fn room(shared: &Shared) -> Option<usize> {
    let free = async {
        while let Some(until) = shared.quiet_until() {
            tokio::time::sleep_until(until).await;
        }
        // Nobody else takes permits, so that those which are free now are free until we start something.
        drop(shared.unanswered.acquire().await);
        drop(shared.slots.acquire().await);
        shared.slots.available_permits().min(shared.unanswered.available_permits()).clamp(1, CLAIM_ITEMS_MAX)
    };
    tokio::select! {
        biased;
        () = shared.draining() => None,
        room = free => Some(room),
    }
}

/// Asks for work. `None` where the worker ends meanwhile and nothing came.
async fn poll(shared: &Shared, room: usize) -> Option<Result<ClaimResponse>> {
    let request = ClaimRequest {
        worker_id: shared.options.worker_id.clone(),
        capacity: room as u32,
        pools: shared.options.pools.clone(),
        handlers: shared.handlers.names(),
        wait_ms: WAIT.as_millis() as u64,
        sdk: Some(concat!("rust/", env!("CARGO_PKG_VERSION")).to_owned()),
    };
    let mut call = pin!(shared.client.claim(&request));
    tokio::select! {
        biased;
        answer = &mut call => Some(answer),
        () = shared.draining() => tokio::time::timeout(LAST_POLL, call).await.ok(),
    }
}

/// Starts an attempt, or gives it back.
fn start(
    shared: &Arc<Shared>,
    ended: &UnboundedSender<Ended>,
    attempts: &mut JoinSet<()>,
    execution: ClaimedExecution,
) {
    let handler = shared.handlers.find(&execution.handler);
    let slot = shared.slots.clone().try_acquire_owned();
    let unanswered = shared.unanswered.clone().try_acquire_owned();
    match (handler, slot, unanswered) {
        (Some(handler), Ok(slot), Ok(unanswered)) if !shared.is_draining() => {
            let running = shared.registry.insert(execution);
            let attempt = attempt::Attempt { shared: shared.clone(), running, handler, slot, unanswered };
            attempts.spawn(attempt.run(ended.clone()));
        }
        (handler, ..) => {
            if handler.is_none() {
                tracing::warn!(execution = %execution.execution_id, handler = %execution.handler, "no such handler here");
                shared.quiet(UNFIT_PAUSE);
            }
            attempts.spawn(release(shared.clone(), execution));
        }
    }
}

/// Gives back what was not started. If it cannot be told, the lease ends by itself.
async fn release(shared: Arc<Shared>, execution: ClaimedExecution) {
    let request = ReleaseRequest { fence_token: execution.fence_token, worker_id: shared.options.worker_id.clone() };
    let mut backoff = Backoff::default();
    for _ in 0..3 {
        match shared.client.release(&execution.execution_id, &request).await {
            Ok(_) => return count(&shared.counters.released, 1),
            Err(Error::Refused(problem)) if problem.status == 409 => return count(&shared.counters.stale, 1),
            Err(error) if may_work_later(&error) => tokio::time::sleep(backoff.next()).await,
            Err(error) => {
                return tracing::warn!(execution = %execution.execution_id, %error, "cannot give back");
            }
        }
    }
}

/// Waits, unless the worker ends.
async fn pause(shared: &Shared, duration: Duration) {
    tokio::select! {
        () = shared.draining() => {}
        () = tokio::time::sleep(duration) => {}
    }
}
