//! What every queue must do.

use campanile_model::action::{ActionKind, Runner};
use campanile_model::job::Priority;
use campanile_model::queue::{Depth, Dispatch, Queue, Receive};
use campanile_model::{ExecutionId, JobId, TenantId, Timestamp};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

/// Makes a module of tests of this suite: `queue_suite!(memory, Arc::new(MemoryQueue::new()))`. The expression is
/// evaluated once per test, may await, and gives an `Arc<dyn Queue>` that is empty.
#[macro_export]
macro_rules! queue_suite {
    ($name:ident, $make:expr) => {
        mod $name {
            use super::*;
            use $crate::conformance::queue as suite;
            $crate::facts!(
                $make,
                [
                    what_was_published_is_received_unchanged,
                    receive_waits_until_something_is_there,
                    a_limit_is_kept,
                    one_tenant_is_served_in_order_within_a_priority,
                    urgent_work_overtakes,
                    no_priority_starves,
                    a_full_tenant_does_not_hold_up_the_others,
                    pools_and_runners_are_separate,
                    several_pools_all_get_their_share,
                    what_is_released_comes_again,
                    duplicates_are_allowed,
                    concurrent_receivers_get_disjoint_items,
                    every_waiting_receiver_is_served,
                    who_waits_for_another_pool_takes_no_turn_away,
                    a_dropped_receiver_loses_nothing,
                    receivers_aborted_in_a_race_lose_nothing,
                    depth_counts_what_waits_and_what_is_taken,
                ]
            );
        }
    };
}

/// A ready execution, the `n`th of its kind; all of them differ.
pub fn dispatch(n: u64, tenant: u32, priority: Priority, pool: &str, action: ActionKind) -> Dispatch {
    let fire_at = Timestamp::from_millis(1_794_794_400_000);
    let job = JobId::new(fire_at, 0, n);
    Dispatch {
        execution: ExecutionId::scheduled(TenantId(tenant), job, fire_at),
        job,
        fire_at,
        pool: pool.into(),
        tenant: TenantId(tenant),
        job_version: 3,
        attempt: 1,
        priority,
        action,
    }
}

/// A batch of one tenant and priority for nodes, in the pool `short`, numbered from `from`.
pub fn batch(from: u64, count: u64, tenant: u32, priority: Priority) -> Vec<Dispatch> {
    (from..from + count).map(|n| dispatch(n, tenant, priority, "short", ActionKind::Noop)).collect()
}

/// What a node with slots in any pool asks for.
pub fn any(limit: usize) -> Receive {
    Receive { runner: Runner::Node, pools: Vec::new(), limit }
}

/// What a node with slots in one pool asks for.
pub fn from(pool: &str, limit: usize) -> Receive {
    Receive { runner: Runner::Node, pools: vec![pool.into()], limit }
}

async fn receive_exactly(queue: &dyn Queue, want: &Receive, count: usize) -> Vec<Dispatch> {
    let mut received = Vec::new();
    while received.len() < count {
        let limit = want.limit.min(count - received.len());
        let items = queue.receive(&Receive { limit, ..want.clone() }).await.unwrap();
        assert!(!items.is_empty() && items.len() <= limit, "asked for 1 to {limit}, got {}", items.len());
        received.extend(items);
    }
    received
}

async fn assert_nothing_there(queue: &dyn Queue, want: &Receive) {
    let mut receive = pin!(queue.receive(want));
    for _ in 0..10 {
        let pending = std::future::poll_fn(|cx| Poll::Ready(receive.as_mut().poll(cx).is_pending())).await;
        assert!(pending, "something was received that should not be there");
        tokio::task::yield_now().await;
    }
}

fn ids(items: &[Dispatch]) -> BTreeSet<ExecutionId> {
    items.iter().map(|item| item.execution).collect()
}

/// Every field arrives as it was sent.
pub async fn what_was_published_is_received_unchanged(queue: Arc<dyn Queue>) {
    let mut sent = Vec::new();
    for n in 0..64 {
        let priority = Priority::ALL[n as usize % 4];
        let mut item = dispatch(n, n as u32 % 3, priority, ["short", "long"][n as usize % 2], ActionKind::Webhook);
        item.attempt = n as u32;
        item.job_version = n as u32 * 7;
        sent.push(item);
    }
    queue.publish(sent.clone()).await.unwrap();
    queue.publish(Vec::new()).await.unwrap();
    let mut received = receive_exactly(&*queue, &any(10), sent.len()).await;
    received.sort_by_key(|item| item.attempt);
    assert_eq!(received, sent);
    assert_nothing_there(&*queue, &any(10)).await;
}

/// A receiver that came first gets what comes later.
pub async fn receive_waits_until_something_is_there(queue: Arc<dyn Queue>) {
    assert_nothing_there(&*queue, &any(1)).await;
    let waiting = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.receive(&any(5)).await }
    });
    tokio::task::yield_now().await;
    let sent = batch(0, 1, 1, Priority::Low);
    queue.publish(sent.clone()).await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), sent);
}

/// Nobody gets more than asked for, and who asks for nothing does not wait.
pub async fn a_limit_is_kept(queue: Arc<dyn Queue>) {
    assert_eq!(queue.receive(&any(0)).await.unwrap(), []);
    queue.publish(batch(0, 100, 1, Priority::Normal)).await.unwrap();
    assert_eq!(queue.receive(&any(0)).await.unwrap(), []);
    for limit in [1, 7, 30] {
        assert!(queue.receive(&any(limit)).await.unwrap().len() <= limit);
    }
}

/// First in, first out, for one tenant and priority in one pool.
pub async fn one_tenant_is_served_in_order_within_a_priority(queue: Arc<dyn Queue>) {
    let sent = batch(0, 2_000, 1, Priority::Normal);
    for part in sent.chunks(300) {
        queue.publish(part.to_vec()).await.unwrap();
    }
    assert_eq!(receive_exactly(&*queue, &any(64), sent.len()).await, sent);
}

/// What is critical is soon through, however much else waited before it.
pub async fn urgent_work_overtakes(queue: Arc<dyn Queue>) {
    queue.publish(batch(0, 3_000, 1, Priority::Low)).await.unwrap();
    queue.publish(batch(3_000, 3_000, 1, Priority::Normal)).await.unwrap();
    queue.publish(batch(6_000, 100, 1, Priority::Critical)).await.unwrap();
    let first = receive_exactly(&*queue, &any(16), 250).await;
    assert_eq!(first.iter().filter(|item| item.priority == Priority::Critical).count(), 100);
}

/// The low priorities have a share while the high ones never run dry.
pub async fn no_priority_starves(queue: Arc<dyn Queue>) {
    for (n, priority) in Priority::ALL.into_iter().enumerate() {
        queue.publish(batch(n as u64 * 10_000, 2_000, 1, priority)).await.unwrap();
    }
    let first = receive_exactly(&*queue, &any(16), 1_000).await;
    let mut last = usize::MAX;
    for priority in Priority::ALL {
        let count = first.iter().filter(|item| item.priority == priority).count();
        assert!(count >= 20, "{priority:?} got {count} of 1,000");
        assert!(count <= last, "{priority:?} got more than the one before it");
        last = count;
    }
}

/// A tenant with a burst waits for itself, not the others for it.
pub async fn a_full_tenant_does_not_hold_up_the_others(queue: Arc<dyn Queue>) {
    queue.publish(batch(0, 5_000, 1, Priority::Normal)).await.unwrap();
    for tenant in 2..=6u32 {
        queue.publish(batch(u64::from(tenant) * 10_000, 20, tenant, Priority::Normal)).await.unwrap();
    }
    let first = receive_exactly(&*queue, &any(16), 240).await;
    for tenant in 2..=6 {
        let count = first.iter().filter(|item| item.tenant == TenantId(tenant)).count();
        assert_eq!(count, 20, "tenant {tenant} still waits behind a burst of another");
    }
}

/// Who asks for a pool gets nothing of another, and a node nothing that is for an external worker.
pub async fn pools_and_runners_are_separate(queue: Arc<dyn Queue>) {
    let short = dispatch(1, 1, Priority::Normal, "short", ActionKind::Webhook);
    let long = dispatch(2, 1, Priority::Normal, "long", ActionKind::Webhook);
    let pulled = dispatch(3, 1, Priority::Critical, "long", ActionKind::Worker);
    queue.publish(vec![short.clone(), long.clone(), pulled.clone()]).await.unwrap();
    assert_nothing_there(&*queue, &from("gpu", 10)).await;
    assert_eq!(queue.receive(&from("long", 10)).await.unwrap(), [long]);
    assert_nothing_there(&*queue, &from("long", 10)).await;
    assert_eq!(queue.receive(&any(10)).await.unwrap(), [short]);
    assert_nothing_there(&*queue, &any(10)).await;
    let worker = Receive { runner: Runner::Worker, ..any(10) };
    assert_eq!(queue.receive(&worker).await.unwrap(), [pulled]);
}

/// A full pool does not hide another from a receiver of both.
pub async fn several_pools_all_get_their_share(queue: Arc<dyn Queue>) {
    let pools = ["a", "b", "c"];
    let mut sent = Vec::new();
    for (p, pool) in pools.into_iter().enumerate() {
        sent.extend((0..200).map(|n| dispatch(p as u64 * 1_000 + n, 1, Priority::Normal, pool, ActionKind::Noop)));
    }
    queue.publish(sent).await.unwrap();
    for limit in [1, 2, 30] {
        let want = Receive { pools: pools.map(Into::into).to_vec(), ..any(limit) };
        let received = receive_exactly(&*queue, &want, 60).await;
        for pool in pools {
            let count = received.iter().filter(|item| &*item.pool == pool).count();
            assert!(count >= 5, "pool {pool} got {count} of 60, {limit} at a time");
        }
    }
}

/// What was received and not tried is received again.
pub async fn what_is_released_comes_again(queue: Arc<dyn Queue>) {
    let sent = batch(0, 20, 1, Priority::High);
    queue.publish(sent.clone()).await.unwrap();
    let mut received = receive_exactly(&*queue, &any(20), 20).await;
    let given_back = received.split_off(12);
    queue.release(given_back.clone()).await.unwrap();
    queue.ack(Runner::Node, &received.iter().map(|item| item.execution).collect::<Vec<_>>()).await.unwrap();
    let again = receive_exactly(&*queue, &any(20), 8).await;
    assert_eq!(ids(&again), ids(&given_back));
    assert_nothing_there(&*queue, &any(20)).await;
}

/// Publishing what is already there is no mistake: the claim decides.
pub async fn duplicates_are_allowed(queue: Arc<dyn Queue>) {
    let sent = batch(0, 10, 1, Priority::Normal);
    queue.publish(sent.clone()).await.unwrap();
    queue.publish(sent.clone()).await.unwrap();
    let mut seen = BTreeSet::new();
    while seen.len() < sent.len() {
        let items = queue.receive(&any(3)).await.unwrap();
        queue.ack(Runner::Node, &items.iter().map(|item| item.execution).collect::<Vec<_>>()).await.unwrap();
        seen.extend(ids(&items));
    }
    assert_eq!(seen, ids(&sent));
}

/// One execution goes to one receiver.
pub async fn concurrent_receivers_get_disjoint_items(queue: Arc<dyn Queue>) {
    const ITEMS: u64 = 20_000;
    let (seen, mut results) = tokio::sync::mpsc::unbounded_channel();
    let receivers: Vec<_> = (0..8)
        .map(|n| {
            let (queue, seen) = (Arc::clone(&queue), seen.clone());
            tokio::spawn(async move {
                while let Ok(items) = queue.receive(&any(1 + n * 7)).await {
                    for item in items {
                        seen.send(item.execution).unwrap();
                    }
                }
            })
        })
        .collect();
    let publishers: Vec<_> = (0..4)
        .map(|n| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move {
                for part in batch(n * ITEMS, ITEMS / 4, n as u32, Priority::Normal).chunks(97) {
                    queue.publish(part.to_vec()).await.unwrap();
                }
            })
        })
        .collect();
    let mut received = BTreeSet::new();
    for _ in 0..ITEMS {
        let execution = results.recv().await.expect("receivers run");
        assert!(received.insert(execution), "{execution} was received twice");
    }
    for publisher in publishers {
        publisher.await.unwrap();
    }
    assert_nothing_there(&*queue, &any(1)).await;
    receivers.iter().for_each(|receiver| receiver.abort());
}

/// As many receivers go on as there are items for them.
pub async fn every_waiting_receiver_is_served(queue: Arc<dyn Queue>) {
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.receive(&any(1)).await.unwrap() })
        })
        .collect();
    let sent = batch(0, 100, 1, Priority::Normal);
    for part in sent.chunks(33) {
        tokio::task::yield_now().await;
        queue.publish(part.to_vec()).await.unwrap();
    }
    let mut received = BTreeSet::new();
    for receiver in waiting {
        received.extend(ids(&receiver.await.unwrap()));
    }
    assert_eq!(received, ids(&sent));
}

/// A doorbell rung for one pool reaches who waits for that pool, however many wait for another.
pub async fn who_waits_for_another_pool_takes_no_turn_away(queue: Arc<dyn Queue>) {
    let others: Vec<_> = (0..50)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { queue.receive(&from("long", 1)).await.map(drop) })
        })
        .collect();
    tokio::task::yield_now().await;
    let waiting = tokio::spawn({
        let queue = Arc::clone(&queue);
        async move { queue.receive(&from("short", 1)).await.unwrap() }
    });
    tokio::task::yield_now().await;
    let sent = batch(0, 1, 1, Priority::Normal);
    queue.publish(sent.clone()).await.unwrap();
    assert_eq!(waiting.await.unwrap(), sent);
    others.iter().for_each(|other| other.abort());
}

/// Giving up on a call takes nothing out.
pub async fn a_dropped_receiver_loses_nothing(queue: Arc<dyn Queue>) {
    for _ in 0..3 {
        assert_nothing_there(&*queue, &any(100)).await; // Polls, then drops the call.
    }
    drop(queue.receive(&any(100)));
    let sent = batch(0, 50, 1, Priority::Normal);
    queue.publish(sent.clone()).await.unwrap();
    drop(queue.receive(&any(100)));
    assert_eq!(ids(&receive_exactly(&*queue, &any(100), 50).await), ids(&sent));
}

/// A receiver aborted at any moment has either answered or taken nothing.
pub async fn receivers_aborted_in_a_race_lose_nothing(queue: Arc<dyn Queue>) {
    const ROUNDS: u64 = 500;
    let mut received = BTreeSet::new();
    for round in 0..ROUNDS {
        let receiver = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.receive(&any(10)).await.unwrap() }
        });
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        queue.publish(batch(round * 10, 3, 1, Priority::Normal)).await.unwrap();
        receiver.abort();
        if let Ok(items) = receiver.await {
            received.extend(ids(&items));
        }
    }
    let left = ROUNDS as usize * 3 - received.len();
    received.extend(ids(&receive_exactly(&*queue, &any(100), left).await));
    assert_eq!(received.len(), ROUNDS as usize * 3);
}

/// The depth follows every call.
pub async fn depth_counts_what_waits_and_what_is_taken(queue: Arc<dyn Queue>) {
    let depth = async |waiting, taken| {
        assert_eq!(queue.depth(Runner::Node).await.unwrap(), Depth { waiting, taken });
    };
    depth(0, 0).await;
    queue.publish(batch(0, 10, 1, Priority::Normal)).await.unwrap();
    depth(10, 0).await;
    let mut received = receive_exactly(&*queue, &any(6), 6).await;
    depth(4, 6).await;
    queue.release(received.split_off(4)).await.unwrap();
    depth(6, 4).await;
    queue.ack(Runner::Node, &received.iter().map(|item| item.execution).collect::<Vec<_>>()).await.unwrap();
    depth(6, 0).await;
}
