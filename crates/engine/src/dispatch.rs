//! Step 6, dispatch: executions whose instant has come go to the queue. Before: fire. After: admit.
//!
//! Executions are made durable ahead of their instant, so this part decides how punctual Campanile is: it holds what is
//! durable and not yet due in a wheel of its own, and releases it to the millisecond, never early. Backoffs end here
//! too. A crash loses nothing: the store knows everything that waits, and the next start loads it.

use crate::calls;
use crate::context::Context;
use crate::wheel::{Entry, Wheel};
use campanile_model::action::Runner;
use campanile_model::fault::{Bug, planted};
use campanile_model::job::Priority;
use campanile_model::queue::Dispatch;
use campanile_model::store::Waiting;
use campanile_model::{ExecutionId, Timestamp};
use std::collections::HashSet;
use tokio::sync::mpsc;

/// Executions that are published at once. It bounds how long what is critical waits for it.
const PUBLISH_MAX: usize = 1_024;
/// No wait is longer than this, so that a jump of the wall clock or a laptop's sleep is noticed.
const WAIT_MS_MAX: u64 = 1_000;

/// Runs until every `Dispatcher` is gone.
pub async fn run(ctx: Context, mut inbox: mpsc::UnboundedReceiver<Vec<Waiting>>) {
    let mut ready = Ready::new(ctx.clock.now());
    let mut batches = Vec::new();
    loop {
        let mut now = ctx.clock.now();
        loop {
            let batch = ready.release(now, PUBLISH_MAX);
            if batch.is_empty() {
                break;
            }
            ctx.metrics.dispatched.add(batch.len() as u64);
            ctx.metrics.waiting.set(ready.len() as u64);
            for refused in publish(&ctx, batch).await {
                let wake_at = now.saturating_add_ms(WAIT_MS_MAX as i64);
                ready.insert(Waiting { dispatch: refused, wake_at });
            }
            // What has come or become due meanwhile may be more urgent than what is left of a stampede.
            now = ctx.clock.now();
            while let Ok(waiting) = inbox.try_recv() {
                waiting.into_iter().for_each(|waiting| ready.insert(waiting));
            }
        }
        ctx.metrics.waiting.set(ready.len() as u64);
        // quartznet#3148: sleeps what the wall clock says, and a clock that was set back makes that long.
        let longest = if planted(Bug("sleeps-by-the-wall-clock")) { u64::MAX } else { WAIT_MS_MAX };
        let wait = ready.next_at().map_or(WAIT_MS_MAX, |at| at.ms_since(now).min(longest));
        tokio::select! {
            biased;
            received = inbox.recv_many(&mut batches, 64) => {
                if received == 0 {
                    return;
                }
            }
            () = ctx.clock.sleep_ms(wait) => {}
        }
        batches.drain(..).flatten().for_each(|waiting| ready.insert(waiting));
    }
}

/// Publishes a batch, each kind of runner alone: work that nobody pulls must not hold up what nodes run. Returns what is to
/// be tried again; what external workers have no room for is left to the reaper, who finds it when they have.
async fn publish(ctx: &Context, batch: Vec<Dispatch>) -> Vec<Dispatch> {
    let (workers, nodes): (Vec<_>, Vec<_>) = batch.into_iter().partition(|d| d.action.runner() == Runner::Worker);
    if !workers.is_empty()
        && let Err(error) = ctx.queue.publish(workers.clone()).await
    {
        if error.code() != QUEUE_FULL {
            calls::failed(ctx, "publish executions", &error);
            return workers.into_iter().chain(nodes).collect();
        }
        tracing::warn!(%error, executions = workers.len(), "no room for what external workers should run");
    }
    if !nodes.is_empty()
        && let Err(error) = ctx.queue.publish(nodes.clone()).await
    {
        match error.code() {
            QUEUE_FULL => tracing::warn!(%error, executions = nodes.len(), "no room in the queue; trying again"),
            _ => calls::failed(ctx, "publish executions", &error),
        }
        return nodes;
    }
    Vec::new()
}

/// The code of a queue's refusal for want of room.
const QUEUE_FULL: &str = "queue_full";

/// What a dispatch was sent for: an execution, fired by a version, before an attempt.
type Sent = (ExecutionId, u32, u32);

fn sent(dispatch: &Dispatch) -> Sent {
    (dispatch.execution, dispatch.job_version, dispatch.attempt)
}

/// What is durable and waits for its instant. Pure.
struct Ready {
    critical: Line,
    others: Line,
    /// The last batch was critical: a flood of those does not hold up the others.
    others_next: bool,
}

impl Ready {
    fn new(now: Timestamp) -> Self {
        Self { critical: Line::new(now), others: Line::new(now), others_next: false }
    }

    fn len(&self) -> usize {
        self.critical.wheel.len() + self.others.wheel.len()
    }

    fn next_at(&self) -> Option<Timestamp> {
        self.critical.wheel.next_at().into_iter().chain(self.others.wheel.next_at()).min()
    }

    fn insert(&mut self, waiting: Waiting) {
        match waiting.dispatch.priority {
            Priority::Critical => self.critical.insert(waiting),
            _ => self.others.insert(waiting),
        }
    }

    /// Takes out what is due, at most `max`; what is critical first, in batches of its own, in turn with the others.
    fn release(&mut self, now: Timestamp, max: usize) -> Vec<Dispatch> {
        let others_next = std::mem::take(&mut self.others_next);
        let (first, second) = match others_next {
            true => (&mut self.others, &mut self.critical),
            false => (&mut self.critical, &mut self.others),
        };
        let mut batch = first.release(now, max);
        if batch.is_empty() {
            batch = second.release(now, max);
        }
        self.others_next = batch.first().is_some_and(|dispatch| dispatch.priority == Priority::Critical);
        batch
    }
}

/// What waits, in the order of time.
struct Line {
    wheel: Wheel,
    slots: Vec<Option<Dispatch>>,
    free: Vec<u32>,
    /// Who is here: shards that are opened again load what waits again.
    known: HashSet<Sent>,
}

impl Line {
    fn new(now: Timestamp) -> Self {
        Self { wheel: Wheel::new(now), slots: Vec::new(), free: Vec::new(), known: HashSet::new() }
    }

    fn insert(&mut self, waiting: Waiting) {
        if !self.known.insert(sent(&waiting.dispatch)) {
            return;
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(waiting.dispatch);
                slot
            }
            None => {
                self.slots.push(Some(waiting.dispatch));
                (self.slots.len() - 1) as u32
            }
        };
        self.wheel.insert(Entry { at: waiting.wake_at, slot, generation: 0 });
    }

    /// Takes out what is due, at most `max`.
    fn release(&mut self, now: Timestamp, max: usize) -> Vec<Dispatch> {
        let mut entries = Vec::new();
        self.wheel.pop(now, max, &mut entries);
        self.free.extend(entries.iter().map(|entry| entry.slot));
        let mut batch = Vec::with_capacity(entries.len());
        for entry in &entries {
            let Some(dispatch) = self.slots[entry.slot as usize].take() else { continue };
            self.known.remove(&sent(&dispatch));
            batch.push(Dispatch { queued_at: Some(now), ..dispatch });
        }
        if self.wheel.is_empty() {
            // A stampede is over: give its memory back.
            self.slots = Vec::new();
            self.free = Vec::new();
            self.known = HashSet::new();
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::action::ActionKind;
    use campanile_model::store::ChangeSeq;
    use campanile_model::{ExecutionId, JobId, TenantId};

    fn waiting(at: i64) -> Waiting {
        let (job, fire_at) = (JobId::from_bytes([1; 16]), Timestamp::from_millis(at));
        let dispatch = Dispatch {
            execution: ExecutionId::scheduled(TenantId::DEFAULT, job, fire_at),
            job,
            fire_at,
            pool: "short".into(),
            tenant: TenantId::DEFAULT,
            job_version: 1,
            attempt: 0,
            priority: Priority::Normal,
            action: ActionKind::Noop,
            target: "".into(),
            queued_at: None,
            as_of: ChangeSeq::default(),
        };
        Waiting { dispatch, wake_at: fire_at }
    }

    #[test]
    fn releases_at_the_instant_and_not_before() {
        let mut ready = Ready::new(Timestamp::from_millis(1_000));
        [1_500, 1_200, 900].into_iter().for_each(|at| ready.insert(waiting(at)));
        let mut released = |now| {
            let batch = ready.release(Timestamp::from_millis(now), 10);
            batch.iter().map(|d| d.fire_at.millis()).collect::<Vec<_>>()
        };
        assert_eq!(released(1_000), [900]);
        assert_eq!(released(1_199), [0; 0]);
        assert_eq!(released(1_200), [1_200]);
        // The clock goes back: what waits keeps waiting.
        assert_eq!(released(1_100), [0; 0]);
        assert_eq!(released(1_500), [1_500]);
    }

    #[test]
    fn what_is_critical_goes_before_a_stampede() {
        let mut ready = Ready::new(Timestamp::from_millis(1_000));
        (1_001..1_009).for_each(|at| ready.insert(waiting(at)));
        for at in 1_009..1_015 {
            let mut critical = waiting(at);
            critical.dispatch.priority = Priority::Critical;
            ready.insert(critical);
        }
        assert_eq!((ready.len(), ready.next_at()), (14, Some(Timestamp::from_millis(1_001))));
        let mut sizes = Vec::new();
        let mut release = |now| {
            let batch = ready.release(Timestamp::from_millis(now), 5);
            sizes.push((batch.len(), batch.iter().filter(|d| d.priority == Priority::Critical).count()));
        };
        [1_005, 1_009, 1_020, 1_020, 1_020].into_iter().for_each(&mut release);
        assert_eq!(
            sizes,
            [(5, 0), (1, 1), (3, 0), (5, 5), (0, 0)],
            "not before its instant, then at once, and in turn"
        );
    }

    #[test]
    fn what_is_handed_over_again_is_held_once() {
        let mut ready = Ready::new(Timestamp::from_millis(1_000));
        (0..3).for_each(|_| ready.insert(waiting(1_500)));
        let mut retry = waiting(1_500);
        retry.dispatch.attempt = 1;
        ready.insert(retry);
        assert_eq!(ready.len(), 2, "its next attempt is another");
        assert_eq!(ready.release(Timestamp::from_millis(1_500), 10).len(), 2);
        ready.insert(waiting(1_500));
        assert_eq!(ready.release(Timestamp::from_millis(1_500), 10).len(), 1, "it may come again");
    }

    #[test]
    fn a_clock_that_went_back_does_not_release_early() {
        let mut ready = Ready::new(Timestamp::from_millis(10_000));
        assert!(ready.release(Timestamp::from_millis(10_000), 10).is_empty());
        ready.insert(waiting(7_000));
        assert!(ready.release(Timestamp::from_millis(5_000), 10).is_empty());
        assert_eq!(ready.release(Timestamp::from_millis(7_000), 10).len(), 1);
    }
}
