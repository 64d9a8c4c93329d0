//! What the loops of the engine share: calls of the store that are tried until it answers, and what is waited
//! for.

use crate::context::Context;
use crate::outage::Failed;
use campanile_model::{Error, Kind, Result};
use futures_util::future::BoxFuture;
use tokio::sync::watch;

/// A call of the store or the queue has failed, and its caller tries again or looks again later: counts it, and says so where that is
/// news.
pub fn failed(ctx: &Context, call: &str, error: &Error) {
    ctx.metrics.store_errors.add(1);
    if !matches!(error.kind(), Kind::Unavailable | Kind::OutcomeUnknown) {
        tracing::warn!(%error, call, "call failed, retrying");
        return;
    }
    let said = ctx.outage.lock().failed(ctx.clock.monotonic_ms());
    match said {
        Failed::First => tracing::warn!(%error, call, "call failed, retrying"),
        Failed::Still { failures, for_ms } => {
            tracing::warn!(%error, call, failures, seconds = for_ms / 1_000, "calls still fail, retrying");
        }
        Failed::Known => tracing::debug!(%error, call, "call failed, retrying"),
    }
}

/// A call was answered: says so, if the store was away.
pub fn answered(ctx: &Context) {
    let back = ctx.outage.lock().answered(ctx.clock.monotonic_ms());
    if let Some((failures, for_ms)) = back {
        tracing::info!(failures, seconds = for_ms / 1_000, "calls are answered again");
    }
}

/// Calls the store until it answers. An outage delays work; it must not lose it.
pub async fn persist<T, F: Future<Output = Result<T>>>(ctx: &Context, what: &str, call: impl Fn() -> F) -> Result<T> {
    persist_noting(ctx, what, call).await.map(|(answer, _)| answer)
}

/// The same; says also whether an earlier try may have happened although it was not answered.
pub async fn persist_noting<T, F: Future<Output = Result<T>>>(
    ctx: &Context,
    what: &str,
    call: impl Fn() -> F,
) -> Result<(T, bool)> {
    let mut delay_ms = 20;
    let mut unknown = false;
    loop {
        match call().await {
            Err(error) if matches!(error.kind(), Kind::Unavailable | Kind::OutcomeUnknown) => {
                unknown |= error.kind() == Kind::OutcomeUnknown;
                failed(ctx, what, &error);
                ctx.clock.sleep_ms(delay_ms).await;
                delay_ms = (delay_ms * 2).min(1_000);
            }
            answer => return answer.map(|answer| (answer, unknown)),
        }
    }
}

/// The future in `slot`, or one that never ends.
pub async fn optional<T>(slot: &mut Option<BoxFuture<'static, T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

/// Waits until the engine is told to stop.
pub async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a stop too.
    let _ = stop.wait_for(|&stop| stop).await;
}

/// Runs something to its end, also when whoever asked hangs up on the way: what a commit has made possible must be
/// dispatched.
pub async fn to_the_end<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err(Error::new(Kind::Bug, "a request panicked")))
}
