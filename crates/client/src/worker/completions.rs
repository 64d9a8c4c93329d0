//! Tells the server how attempts ended: in batches, again and again until it answers.
//!
//! Before: `attempt`. The server answers the same completion the same way however often it comes, so that sending again is
//! safe after any failure. What waits here is bounded by the permits that it holds. A crash here loses the end, not the
//! execution: its lease ends, and it is tried again.

use super::backoff::{Backoff, is_passing, may_work_later};
use super::limits::{COMPLETIONS_MAX, REQUEST_BYTES_MAX};
use super::shared::{Shared, count};
use crate::wire::{CompleteBatchRequest, CompleteResult, Completion};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// How long the first of a batch waits for others.
const GATHER: Duration = Duration::from_millis(2);

/// An attempt that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub completion: Completion,
    /// What it weighs in a request, roughly; its result comes on top.
    pub weight: usize,
    /// Free when it is answered.
    pub _unanswered: OwnedSemaphorePermit,
}

/// Sends until nobody can end any more. What must be sent again goes behind the others, so that trouble with some holds up
/// nobody else.
pub(super) async fn run(shared: Arc<Shared>, mut ended: UnboundedReceiver<Ended>) {
    let mut waiting = VecDeque::new();
    let mut backoff = Backoff::default();
    while gather(&shared, &mut ended, &mut waiting).await {
        let batch = batch(&mut waiting);
        let sent = batch.len();
        let again = send(&shared, batch).await;
        if again.len() < sent {
            backoff.reset();
        } else {
            if backoff.is_fresh() {
                tracing::warn!(waiting = again.len(), "cannot tell how attempts ended; trying again");
            }
            tokio::time::sleep(backoff.next()).await;
        }
        waiting.extend(again);
    }
}

/// Waits for the next batch. Says whether there is one.
async fn gather(shared: &Shared, ended: &mut UnboundedReceiver<Ended>, waiting: &mut VecDeque<Ended>) -> bool {
    if waiting.is_empty() {
        let Some(first) = ended.recv().await else { return false };
        waiting.push_back(first);
    }
    let until = Instant::now() + GATHER;
    while waiting.len() < COMPLETIONS_MAX {
        match ended.try_recv() {
            Ok(next) => waiting.push_back(next),
            // Nothing runs that could end soon.
            Err(_) if shared.registry.is_empty() => break,
            Err(_) => match tokio::time::timeout_at(until, ended.recv()).await {
                Ok(Some(next)) => waiting.push_back(next),
                Ok(None) | Err(_) => break,
            },
        }
    }
    true
}

/// Takes what fits into one request, at least one.
fn batch(waiting: &mut VecDeque<Ended>) -> Vec<Ended> {
    let mut batch = Vec::new();
    let mut room = REQUEST_BYTES_MAX;
    while let Some(next) = waiting.front() {
        let weight = next.weight + result_bytes(&next.completion);
        if !batch.is_empty() && (batch.len() >= COMPLETIONS_MAX || weight > room) {
            break;
        }
        room = room.saturating_sub(weight);
        batch.extend(waiting.pop_front());
    }
    batch
}

fn result_bytes(completion: &Completion) -> usize {
    let result = completion.complete.result.as_ref().map_or(0, |result| result.to_string().len());
    result + completion.complete.output.as_ref().map_or(0, String::len)
}

/// Sends a batch once, and returns what must be sent again. One that is refused as a whole is taken apart, so that one bad item
/// does not take the others with it.
async fn send(shared: &Shared, batch: Vec<Ended>) -> Vec<Ended> {
    let mut again = Vec::new();
    let mut parts = vec![batch];
    while let Some(part) = parts.pop() {
        let completions = part.iter().map(|ended| ended.completion.clone()).collect();
        match shared.client.complete_batch(&CompleteBatchRequest { completions }).await {
            Ok(response) => again.extend(judge(shared, part, &response.results)),
            Err(error) if may_work_later(&error) => {
                tracing::debug!(%error, "completions failed");
                again.extend(part);
            }
            Err(error) if part.len() == 1 => {
                tracing::error!(execution = %part[0].completion.id, %error, "a completion is refused");
                count(&shared.counters.unanswered, 1);
            }
            Err(_) => parts.extend(part.into_iter().map(|ended| vec![ended])),
        }
    }
    again
}

/// Counts what was answered, and returns what must be sent again.
fn judge(shared: &Shared, part: Vec<Ended>, results: &[CompleteResult]) -> Vec<Ended> {
    let mut again = Vec::new();
    for (i, ended) in part.into_iter().enumerate() {
        let execution = &ended.completion.id;
        match results.get(i).map_or(0, |result| result.status) {
            200..=299 => count(&shared.counters.completed, 1),
            404 | 409 => {
                tracing::info!(%execution, "the attempt was not ours any more");
                count(&shared.counters.stale, 1);
            }
            status if is_passing(status) => again.push(ended),
            status => {
                tracing::error!(%execution, status, "a completion is refused");
                count(&shared.counters.unanswered, 1);
            }
        }
    }
    again
}

#[cfg(test)]
mod tests {
    use super::super::handlers::Handlers;
    use super::super::shared::Options;
    use super::*;
    use crate::Client;
    use crate::wire::{CompleteRequest, CompleteStatus};
    use serde_json::json;

    fn shared() -> Arc<Shared> {
        Shared::new(Client::new("http://127.0.0.1:1").unwrap(), Options::default(), Handlers::default())
    }

    fn ended(shared: &Shared, id: usize, result: usize) -> Ended {
        let result = Some(json!("x".repeat(result)));
        let complete = CompleteRequest { result, ..CompleteRequest::new(CompleteStatus::Succeeded) };
        let completion = Completion { id: id.to_string(), complete };
        Ended { completion, weight: 200, _unanswered: shared.unanswered.clone().try_acquire_owned().unwrap() }
    }

    #[test]
    fn batches_are_bounded_in_items_and_bytes() {
        let shared = shared();
        let mut light: VecDeque<Ended> = (0..150).map(|n| ended(&shared, n, 1)).collect();
        assert_eq!((batch(&mut light).len(), batch(&mut light).len(), light.len()), (100, 50, 0));
        let mut heavy: VecDeque<Ended> = (0..30).map(|n| ended(&shared, n, 60_000)).collect();
        assert_eq!((batch(&mut heavy).len(), heavy.len()), (17, 13));
        let mut huge = VecDeque::from([ended(&shared, 0, 2_000_000), ended(&shared, 1, 1)]);
        assert_eq!(batch(&mut huge).len(), 1);
    }

    #[test]
    fn each_answer_counts_and_passing_trouble_is_sent_again() {
        let shared = shared();
        let part: Vec<Ended> = (0..6).map(|n| ended(&shared, n, 1)).collect();
        let statuses = [200, 409, 503, 404, 422];
        let result = |(id, status): (usize, u16)| CompleteResult {
            id: id.to_string(),
            status,
            state: None,
            next_attempt_at: None,
            error: None,
        };
        let results: Vec<CompleteResult> = statuses.into_iter().enumerate().map(result).collect();
        let again = judge(&shared, part, &results);
        assert_eq!(again.iter().map(|ended| ended.completion.id.as_str()).collect::<Vec<_>>(), ["2"]);
        let counts = shared.counts();
        assert_eq!((counts.completed, counts.stale, counts.unanswered), (1, 2, 2));
    }
}
