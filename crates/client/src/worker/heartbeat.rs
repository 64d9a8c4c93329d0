//! One task that keeps all running attempts alive: their signs of life, their news, and what comes back for them.
//!
//! Sent together, as often as the most impatient one needs, a little early so that workers do not beat in step. News that
//! nobody answered are told again. A beat that fails is repeated soon: the lease has room for two.

use super::backoff::{Backoff, jittered};
use super::limits::{BEATS_MAX, REQUEST_BYTES_MAX};
use super::news::News;
use super::running::{Running, Stop};
use super::shared::Shared;
use crate::wire::{Beat, BeatStatus, HeartbeatRequest, HeartbeatResponse};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Urgent news wait this long for others.
const URGENT_PAUSE: Duration = Duration::from_secs(1);
/// An answer may take as long as a period, within these bounds: well below a lease.
const ANSWER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));
/// A beat that failed is repeated after this at the latest.
const AGAIN: Duration = Duration::from_secs(1);
/// Tries to get a checkpoint across before the end of its attempt is told.
const FLUSHES: u32 = 3;

/// The reason of a `CANCEL` that nobody wished: by the server's clock, the time of the attempt is over.
const TIMEOUT: &str = "TIMEOUT";

/// Beats for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut last = Instant::now();
    let mut failed = false;
    loop {
        let Some(period) = shared.registry.period() else {
            shared.registry.hurried().await;
            last = Instant::now();
            continue;
        };
        let pause = if failed { AGAIN.min(period / 4) } else { period };
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(last + jittered(pause, 20)) => {}
            () = shared.registry.hurried() => {
                if !shared.registry.is_urgent() {
                    continue;
                }
                tokio::time::sleep_until(last + URGENT_PAUSE.min(pause)).await;
            }
        }
        let all = shared.registry.all();
        let answered = beat(&shared, &all, period).await;
        if !answered && !failed {
            tracing::warn!(running = all.len(), "heartbeats are not answered; trying again");
        }
        (failed, last) = (!answered, Instant::now());
    }
}

/// Gets the news of one attempt across before its end is told. Gives up after a few tries: the end is worth more.
pub(super) async fn flush(shared: &Shared, running: &Arc<Running>) {
    let mut backoff = Backoff::default();
    for _ in 0..FLUSHES {
        if beat(shared, std::slice::from_ref(running), ANSWER.0).await {
            return;
        }
        tokio::time::sleep(backoff.next()).await;
    }
}

/// Sends signs of life, and does what comes back. Says whether all were answered.
async fn beat(shared: &Shared, running: &[Arc<Running>], period: Duration) -> bool {
    let mut answered = true;
    for part in parts(running.iter().map(|running| (running.clone(), running.news.lock().take()))) {
        let executions = part.iter().map(|(running, news)| sign(running, news)).collect();
        let worker_id = shared.options.worker_id.clone();
        let request = HeartbeatRequest { worker_id, executions, execution_ids: Vec::new() };
        let call = shared.client.heartbeat(&request);
        match tokio::time::timeout(period.clamp(ANSWER.0, ANSWER.1), call).await {
            Ok(Ok(response)) => {
                shared.follow(response.directive);
                obey(&part, &response);
                for (running, news) in part {
                    running.news.lock().arrived(&news);
                }
            }
            failed => {
                if let Ok(Err(error)) = failed {
                    tracing::debug!(%error, "a heartbeat failed");
                }
                answered = false;
                for (running, news) in part {
                    running.news.lock().put_back(news);
                }
            }
        }
    }
    answered
}

/// Those that fit into one request each.
fn parts(all: impl Iterator<Item = (Arc<Running>, News)>) -> Vec<Vec<(Arc<Running>, News)>> {
    let mut parts: Vec<Vec<(Arc<Running>, News)>> = Vec::new();
    let mut room = 0;
    for (running, news) in all {
        let weight = news.weight();
        match parts.last_mut() {
            Some(part) if part.len() < BEATS_MAX && weight <= room => {
                room -= weight;
                part.push((running, news));
            }
            _ => {
                room = REQUEST_BYTES_MAX.saturating_sub(weight);
                parts.push(vec![(running, news)]);
            }
        }
    }
    parts
}

fn sign(running: &Running, news: &News) -> Beat {
    Beat {
        id: running.execution.execution_id.clone(),
        fence_token: running.execution.fence_token,
        progress: news.progress,
        message: news.message.clone(),
        checkpoint: news.checkpoint.clone(),
        logs: news.lines(),
    }
}

/// Stops those that may not go on. The answer is about the attempts that were sent, which need not be the newest any more.
fn obey(part: &[(Arc<Running>, News)], response: &HeartbeatResponse) {
    let sent: HashMap<&str, &Running> =
        part.iter().map(|(running, _)| (running.execution.execution_id.as_str(), &**running)).collect();
    for result in &response.results {
        let Some(running) = sent.get(result.id.as_str()) else { continue };
        match result.status {
            BeatStatus::Extended => {}
            BeatStatus::Cancel if result.reason.as_deref() == Some(TIMEOUT) => running.stop(Stop::TimedOut),
            BeatStatus::Cancel => running.stop(Stop::Cancelled),
            BeatStatus::Stale => running.stop(Stop::Stale),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::running::Registry;
    use super::super::running::tests::claimed;
    use super::*;
    use crate::wire::BeatResult;

    fn many(count: usize, line: usize) -> Vec<(Arc<Running>, News)> {
        let registry = Registry::default();
        let one = |n: usize| {
            let mut news = News::default();
            news.log("info", "x".repeat(line));
            (registry.insert(claimed(&format!("e{n}"), 1)), news)
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn requests_are_bounded_in_items_and_bytes() {
        let light = parts(many(1_201, 1).into_iter());
        assert_eq!(light.iter().map(Vec::len).collect::<Vec<_>>(), [500, 500, 201]);
        let heavy = parts(many(1_000, 4_000).into_iter());
        assert!(heavy.len() > 3 && heavy.iter().map(Vec::len).sum::<usize>() == 1_000);
        let weight = |part: &Vec<(Arc<Running>, News)>| part.iter().map(|(_, news)| news.weight()).sum::<usize>();
        assert!(heavy.iter().all(|part| weight(part) <= REQUEST_BYTES_MAX));
        assert!(parts(std::iter::empty()).is_empty());
    }

    #[test]
    fn what_comes_back_is_obeyed() {
        let part = many(4, 1);
        let result = |id: &str, status| BeatResult { id: id.into(), status, lease_ms: 1, reason: None };
        let late = BeatResult { reason: Some("TIMEOUT".into()), ..result("e3", BeatStatus::Cancel) };
        let results = vec![
            result("e0", BeatStatus::Extended),
            result("e1", BeatStatus::Cancel),
            result("e2", BeatStatus::Stale),
            result("unknown", BeatStatus::Stale),
            late,
        ];
        obey(&part, &HeartbeatResponse { results, ..Default::default() });
        let stops: Vec<Option<Stop>> = part.iter().map(|(running, _)| running.stopping()).collect();
        assert_eq!(stops, [None, Some(Stop::Cancelled), Some(Stop::Stale), Some(Stop::TimedOut)]);
    }
}
