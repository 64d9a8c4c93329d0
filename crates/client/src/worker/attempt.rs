//! One attempt: its handler, its time limit, and being told to stop.
//!
//! Before: `claims`. After: `completions`. The handler's future lives in this task, so that dropping it here ends it. A panic
//! is caught where it happens; it fails the attempt and nothing else.

use super::completions::Ended;
use super::ctx::Ctx;
use super::ending::{self, Ending};
use super::handlers::{Handler, HandlerFuture};
use super::heartbeat;
use super::outcome::millis;
use super::running::{Running, Stop};
use super::shared::{Shared, count};
use crate::wire::{CompleteStatus, Completion};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedSender;

/// An attempt that starts.
pub(super) struct Attempt {
    pub shared: Arc<Shared>,
    pub running: Arc<Running>,
    pub handler: Handler,
    pub slot: OwnedSemaphorePermit,
    pub unanswered: OwnedSemaphorePermit,
}

impl Attempt {
    /// Runs it, and hands over how it ended.
    pub(super) async fn run(self, ended: UnboundedSender<Ended>) {
        let Attempt { shared, running, handler, slot, unanswered } = self;
        // However this task ends, nothing is left of it.
        let listed = Listed { shared: &shared, running: &running };
        let ending = supervise(&shared, &running, handler(Ctx::new(running.clone()))).await;
        let duration = running.started.elapsed();
        let execution = &running.execution;
        let complete = ending::complete(ending, running.stopping(), execution.timeout_ms);
        let failed = complete.as_ref().is_some_and(|complete| complete.status != CompleteStatus::Succeeded);
        if failed && running.news.lock().has_checkpoint() {
            // A completion carries no checkpoint, and the next attempt should find this one.
            heartbeat::flush(&shared, &running).await;
        }
        let Some(mut complete) = complete.filter(|_| running.stopping() != Some(Stop::Stale)) else {
            tracing::info!(execution = %execution.execution_id, fence = execution.fence_token, "lost; its end is not told");
            return count(&shared.counters.stale, 1);
        };
        drop(listed);
        drop(slot);
        let mut news = std::mem::take(&mut *running.news.lock());
        complete.output = news.output.take();
        complete.logs = news.lines();
        complete.fence_token = Some(execution.fence_token);
        complete.worker_id = Some(shared.options.worker_id.clone());
        complete.duration_ms = Some(millis(duration));
        tracing::debug!(execution = %execution.execution_id, status = ?complete.status, ?duration, "ended");
        let weight = news.weight();
        let completion = Completion { id: execution.execution_id.clone(), complete };
        // Nobody takes it only when the worker was dropped as a whole.
        let _ = ended.send(Ended { completion, weight, _unanswered: unanswered });
    }
}

/// An attempt's place in the registry.
struct Listed<'a> {
    shared: &'a Shared,
    running: &'a Arc<Running>,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.shared.registry.remove(self.running);
    }
}

/// Runs a handler until it returns, or must not go on.
async fn supervise(shared: &Shared, running: &Running, handler: HandlerFuture) -> Ending {
    let mut handler = pin!(caught(handler));
    let limit = async {
        match running.deadline() {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        ending = &mut handler => return ending,
        () = running.stopped(Stop::Draining) => {}
        () = limit => running.stop(Stop::TimedOut),
    }
    let grace = match running.stopping() {
        Some(Stop::Stale) => Duration::ZERO,
        Some(Stop::TimedOut) => shared.options.timeout_grace,
        _ => shared.options.cancel_grace,
    };
    tokio::select! {
        biased;
        () = running.stopped(Stop::Stale) => Ending::Dropped,
        ending = &mut handler => ending,
        () = tokio::time::sleep(grace) => Ending::Dropped,
    }
}

/// A handler's end, a panic included.
async fn caught(mut handler: HandlerFuture) -> Ending {
    let poll = std::future::poll_fn(|cx| {
        // What the panic leaves half done is dropped with the future, and never polled again.
        match catch_unwind(AssertUnwindSafe(|| handler.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(returned)) => Poll::Ready(Ending::Returned(returned)),
            Err(panic) => Poll::Ready(Ending::Panicked(words(&*panic))),
        }
    });
    poll.await
}

/// What a panic said.
fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "the handler panicked".to_owned())
}
