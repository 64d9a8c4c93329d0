//! The way to complete: attempts that ended, from whoever ran them or found them lost.

use campanile_model::Timestamp;
use campanile_model::execution::{LogLine, Outcome};
use campanile_model::fault::{Bug, planted};
use campanile_model::lifecycle::Ended;
use campanile_model::queue::Dispatch;
use campanile_model::retry::RetryPolicy;
use campanile_model::store::{CompletionOf, RunningAttempt};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Batches of outcomes on their way here. Few: who is behind should not receive more.
const OUTCOME_BATCHES_MAX: usize = 8;

/// An attempt that ended.
pub struct Finished {
    pub dispatch: Dispatch,
    /// The right to end it.
    pub of: CompletionOf,
    pub outcome: Outcome,
    /// How it is tried again.
    pub retry: RetryPolicy,
    pub started_at: Timestamp,
    /// What else there is to know about it.
    pub ended: Ended,
    /// What it logged at last.
    pub logs: Vec<LogLine>,
    /// The slot that it has in this node until its outcome is durable; none for attempts of others.
    pub slot: Option<OwnedSemaphorePermit>,
}

impl Finished {
    /// The end of an attempt as the store knows it.
    pub fn of(attempt: RunningAttempt, outcome: Outcome, finished_at: Timestamp) -> Self {
        let ended = Ended {
            attempt: attempt.fence.attempt,
            attempts_from: attempt.attempts_from,
            // Sketch S14, pipeshub#3037: the count travels with the message, which a crash delivers again as it was.
            losses: if planted(Bug("deliveries-in-the-message")) { 0 } else { attempt.losses },
            first_started_at: attempt.first_started_at,
            finished_at: finished_at.max(attempt.started_at),
            cancel_requested: attempt.cancel_requested.map(|(_, reason)| reason),
        };
        Self {
            dispatch: attempt.dispatch,
            of: CompletionOf::Running(attempt.fence),
            outcome,
            retry: attempt.retry,
            started_at: attempt.started_at,
            ended,
            logs: Vec::new(),
            slot: None,
        }
    }
}

/// Where outcomes are sent.
#[derive(Clone)]
pub struct Outcomes {
    batches: mpsc::Sender<Vec<Finished>>,
    singles: mpsc::Sender<Finished>,
}

pub struct Inbox {
    batches: mpsc::Receiver<Vec<Finished>>,
    singles: mpsc::Receiver<Finished>,
    /// What the last write had no room for.
    rest: Vec<Finished>,
}

/// The sending and the receiving end, for a node with so many slots.
pub fn channel(slots: usize) -> (Outcomes, Inbox) {
    let (batches, batches_in) = mpsc::channel(OUTCOME_BATCHES_MAX);
    // Each holds a slot, so there is always room.
    let (singles, singles_in) = mpsc::channel(slots.max(1));
    (Outcomes { batches, singles }, Inbox { batches: batches_in, singles: singles_in, rest: Vec::new() })
}

impl Outcomes {
    /// Hands a batch over; waits while the writes are behind. The receiver is gone only when the engine stops: the store
    /// still knows the executions then.
    pub async fn send(&self, finished: Vec<Finished>) {
        if !finished.is_empty() {
            let _ = self.batches.send(finished).await;
        }
    }

    /// Hands over the end of an attempt that has a slot in this node.
    pub async fn send_one(&self, finished: Finished) {
        let _ = self.singles.send(finished).await;
    }
}

impl Inbox {
    /// Waits for an outcome, and takes all that are there with it, within bounds. None when every sender is gone.
    pub(crate) async fn next(&mut self, rows_max: usize) -> Option<Vec<Finished>> {
        let mut finished = std::mem::take(&mut self.rest);
        tokio::select! {
            biased;
            () = std::future::ready(()), if !finished.is_empty() => {}
            Some(batch) = self.batches.recv() => finished = batch,
            count = self.singles.recv_many(&mut finished, rows_max) => {
                if count == 0 {
                    // The senders are gone together; what they have left may be in the other half.
                    finished = self.batches.recv().await?;
                }
            }
        }
        while finished.len() < rows_max {
            match (self.singles.try_recv(), self.batches.try_recv()) {
                (Err(_), Err(_)) => break,
                (single, batch) => {
                    finished.extend(single);
                    finished.extend(batch.into_iter().flatten());
                }
            }
        }
        self.rest = finished.split_off(rows_max.min(finished.len()));
        Some(finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::action::ActionKind;
    use campanile_model::job::Priority;
    use campanile_model::store::{AttemptFence, ChangeSeq};
    use campanile_model::{ExecutionId, JobId, TenantId};

    const ROWS_MAX: usize = 1_000;

    fn finished(n: u8, slot: Option<OwnedSemaphorePermit>) -> Finished {
        let (execution, now) = (ExecutionId::from_bytes([n; 16]), Timestamp::from_millis(0));
        let dispatch = Dispatch {
            execution,
            job: JobId::from_bytes([n; 16]),
            fire_at: now,
            pool: "short".into(),
            tenant: TenantId::DEFAULT,
            job_version: 1,
            attempt: 0,
            priority: Priority::Normal,
            action: ActionKind::Webhook,
            target: "".into(),
            queued_at: None,
            as_of: ChangeSeq::default(),
        };
        let ended = Ended {
            attempt: 1,
            attempts_from: 0,
            losses: 0,
            first_started_at: now,
            finished_at: now,
            cancel_requested: None,
        };
        let of = CompletionOf::Running(AttemptFence { execution, attempt: 1, fence: 1 });
        let outcome = Outcome::Succeeded { response: None };
        let (retry, logs) = (RetryPolicy::default(), Vec::new());
        Finished { dispatch, of, outcome, retry, started_at: now, ended, logs, slot }
    }

    #[tokio::test]
    async fn a_write_takes_all_that_has_ended() {
        let (outcomes, mut inbox) = channel(10);
        for n in 0..3 {
            outcomes.send_one(finished(n, None)).await;
        }
        outcomes.send(vec![finished(3, None), finished(4, None)]).await;
        assert_eq!(inbox.next(ROWS_MAX).await.map(|taken| taken.len()), Some(5));
        outcomes.send_one(finished(5, None)).await;
        drop(outcomes);
        assert_eq!(inbox.next(ROWS_MAX).await.map(|taken| taken.len()), Some(1));
        assert!(inbox.next(ROWS_MAX).await.is_none(), "every sender is gone");
    }

    #[tokio::test]
    async fn a_write_is_bounded_and_leaves_the_rest_for_the_next() {
        let (outcomes, mut inbox) = channel(2 * ROWS_MAX);
        for _ in 0..ROWS_MAX + 10 {
            outcomes.send_one(finished(1, None)).await;
        }
        assert_eq!(inbox.next(ROWS_MAX).await.map(|taken| taken.len()), Some(ROWS_MAX));
        assert_eq!(inbox.next(ROWS_MAX).await.map(|taken| taken.len()), Some(10));
        // A batch that is larger, such as the reaper's, is divided too; and nothing of it is left behind at the end.
        outcomes.send((0..2 * ROWS_MAX + 5).map(|_| finished(1, None)).collect()).await;
        outcomes.send_one(finished(1, None)).await;
        drop(outcomes);
        let mut sizes = Vec::new();
        while let Some(taken) = inbox.next(ROWS_MAX).await {
            sizes.push(taken.len());
        }
        assert_eq!(sizes, [ROWS_MAX, ROWS_MAX, 6]);
    }
}
