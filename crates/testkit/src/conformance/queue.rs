//! What every queue must do.

use campanile_model::action::{ActionKind, Runner};
use campanile_model::job::Priority;
use campanile_model::queue::{Depth, Dispatch, PoolDepth, Queue, Receive};
use campanile_model::store::ChangeSeq;
use campanile_model::{ExecutionId, JobId, TenantId, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
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
                    receivers_of_different_pools_do_not_skip_each_others,
                    pools_that_are_excepted_are_left_alone,
                    urgent_work_can_be_asked_for_alone,
                    a_worker_gets_only_its_handlers,
                    priorities_of_other_handlers_do_not_count,
                    no_priority_of_a_handler_starves,
                    receivers_of_different_handlers_keep_their_shares,
                    handlers_take_turns,
                    a_full_tenant_does_not_hold_up_the_others_of_its_handler,
                    what_is_released_comes_again,
                    duplicates_are_allowed,
                    concurrent_receivers_get_disjoint_items,
                    every_waiting_receiver_is_served,
                    who_waits_for_another_pool_takes_no_turn_away,
                    who_waits_for_another_handler_takes_no_turn_away,
                    every_kind_of_receiver_gets_what_is_for_it,
                    a_dropped_receiver_loses_nothing,
                    receivers_aborted_in_a_race_lose_nothing,
                    depth_counts_what_waits_and_what_is_taken,
                    pools_show_what_waits_and_since_when,
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
        target: if action == ActionKind::Webhook { "https://example.com".into() } else { "".into() },
        queued_at: None,
        as_of: ChangeSeq::default(),
    }
}

/// A ready execution for a worker's handler in the pool `short`, the `n`th of its kind; all of them differ.
pub fn pulled(n: u64, tenant: u32, priority: Priority, handler: &str) -> Dispatch {
    Dispatch { target: handler.into(), ..dispatch(n, tenant, priority, "short", ActionKind::Worker) }
}

/// A batch of one tenant and priority for a worker's handler, in the pool `short`, numbered from `from`.
pub fn pulled_batch(from: u64, count: u64, tenant: u32, priority: Priority, handler: &str) -> Vec<Dispatch> {
    (from..from + count).map(|n| pulled(n, tenant, priority, handler)).collect()
}

/// A batch of one tenant and priority for nodes, in the pool `short`, numbered from `from`.
pub fn batch(from: u64, count: u64, tenant: u32, priority: Priority) -> Vec<Dispatch> {
    (from..from + count).map(|n| dispatch(n, tenant, priority, "short", ActionKind::Noop)).collect()
}

/// What a node with slots in any pool asks for.
pub fn any(limit: usize) -> Receive {
    let (pools, except, targets) = (Vec::new(), Vec::new(), Vec::new());
    Receive { runner: Runner::Node, pools, except, targets, least: Priority::Low, limit }
}

/// What a node with slots in one pool asks for.
pub fn from(pool: &str, limit: usize) -> Receive {
    Receive { pools: vec![pool.into()], ..any(limit) }
}

/// What a worker with these handlers asks for, from any pool; without handlers, for all of them.
pub fn worker(handlers: &[&str], limit: usize) -> Receive {
    let targets = handlers.iter().map(|&handler| handler.into()).collect();
    Receive { runner: Runner::Worker, targets, ..any(limit) }
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

/// A receiver that found nothing and waits.
pub async fn in_line(queue: &Arc<dyn Queue>, want: Receive) -> tokio::task::JoinHandle<Vec<Dispatch>> {
    let queue = Arc::clone(queue);
    let mut receive = Box::pin(async move { queue.receive(&want).await.unwrap() });
    // Looked after here, so that it has its place before anything else happens.
    let pending = std::future::poll_fn(|cx| Poll::Ready(receive.as_mut().poll(cx).is_pending())).await;
    assert!(pending, "something was received that should not be there");
    tokio::spawn(receive)
}

async fn assert_nothing_there(queue: &dyn Queue, want: &Receive) {
    let mut receive = pin!(queue.receive(want));
    for _ in 0..10 {
        let pending = std::future::poll_fn(|cx| Poll::Ready(receive.as_mut().poll(cx).is_pending())).await;
        assert!(pending, "something was received that should not be there");
        tokio::task::yield_now().await;
    }
}

fn count_of(items: &[Dispatch], is_counted: impl Fn(&Dispatch) -> bool) -> usize {
    items.iter().filter(|item| is_counted(item)).count()
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
        item.target = format!("https://{}.example.com", n % 5).into();
        item.queued_at = (n % 3 > 0).then(|| item.fire_at.saturating_add_ms(n as i64));
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
    let waiting = in_line(&queue, any(5)).await;
    let sent = batch(0, 1, 1, Priority::Low);
    queue.publish(sent.clone()).await.unwrap();
    assert_eq!(waiting.await.unwrap(), sent);
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
    assert_eq!(queue.receive(&worker(&[], 10)).await.unwrap(), [pulled]);
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

/// Small batches of receivers that each want two pools reach all four.
pub async fn receivers_of_different_pools_do_not_skip_each_others(queue: Arc<dyn Queue>) {
    let pools = ["a", "b", "c", "d"];
    for (p, pool) in pools.into_iter().enumerate() {
        let items = (0..100).map(|n| dispatch(p as u64 * 1_000 + n, 1, Priority::Normal, pool, ActionKind::Noop));
        queue.publish(items.collect()).await.unwrap();
    }
    let mut received = Vec::new();
    for _ in 0..30 {
        for pair in pools.chunks(2) {
            let want = Receive { pools: pair.iter().map(|&pool| pool.into()).collect(), ..any(1) };
            received.extend(queue.receive(&want).await.unwrap());
        }
    }
    for pool in pools {
        let count = count_of(&received, |item| &*item.pool == pool);
        assert!(count >= 5, "pool {pool} got {count} of 60");
    }
}

/// Who leaves a pool out gets nothing of it, neither at once nor after waiting, and others get it.
pub async fn pools_that_are_excepted_are_left_alone(queue: Arc<dyn Queue>) {
    let of = |n, pool| dispatch(n, 1, Priority::Normal, pool, ActionKind::Webhook);
    queue.publish(vec![of(1, "short"), of(2, "long"), of(3, "gpu")]).await.unwrap();
    let but = |pools: &[&str], limit| Receive { except: pools.iter().map(|&pool| pool.into()).collect(), ..any(limit) };
    assert_eq!(receive_exactly(&*queue, &but(&["long", "gpu", "other"], 10), 1).await, [of(1, "short")]);
    assert_nothing_there(&*queue, &but(&["gpu", "long"], 10)).await;
    assert_nothing_there(&*queue, &Receive { pools: vec!["gpu".into()], ..but(&["gpu"], 10) }).await;
    let waiting = in_line(&queue, but(&["gpu", "long"], 10)).await;
    queue.publish(vec![of(4, "long"), of(5, "gpu")]).await.unwrap();
    queue.publish(vec![of(6, "short")]).await.unwrap();
    assert_eq!(waiting.await.unwrap(), [of(6, "short")]);
    let both = Receive { pools: vec!["long".into(), "gpu".into()], ..but(&["gpu"], 10) };
    assert_eq!(receive_exactly(&*queue, &both, 2).await, [of(2, "long"), of(4, "long")]);
    assert_eq!(receive_exactly(&*queue, &any(10), 2).await, [of(3, "gpu"), of(5, "gpu")]);
}

/// Who asks for urgent work gets nothing else, neither at once nor after waiting; and who takes everything keeps its shares.
pub async fn urgent_work_can_be_asked_for_alone(queue: Arc<dyn Queue>) {
    let urgent = |limit| Receive { least: Priority::Critical, ..any(limit) };
    queue.publish(batch(1, 3, 1, Priority::High)).await.unwrap();
    assert_nothing_there(&*queue, &urgent(10)).await;
    let waiting = in_line(&queue, urgent(10)).await;
    queue.publish(batch(10, 2, 1, Priority::Normal)).await.unwrap();
    queue.publish(batch(20, 2, 1, Priority::Critical)).await.unwrap();
    assert_eq!(waiting.await.unwrap(), batch(20, 2, 1, Priority::Critical));
    queue.publish(batch(30, 40, 1, Priority::Critical)).await.unwrap();
    let mut others = Vec::new();
    for n in 0..15 {
        assert_eq!(
            receive_exactly(&*queue, &urgent(1), 1).await,
            batch(30 + 2 * n - others.len() as u64, 1, 1, Priority::Critical)
        );
        let item = receive_exactly(&*queue, &any(1), 1).await.remove(0);
        if item.priority != Priority::Critical {
            others.push(item.priority);
        }
    }
    assert!(others.contains(&Priority::High) && others.contains(&Priority::Normal), "{others:?}");
}

/// A worker that names handlers gets nothing for another, one that names none gets all.
pub async fn a_worker_gets_only_its_handlers(queue: Arc<dyn Queue>) {
    for (n, handler) in ["mail", "bill", "scan"].into_iter().enumerate() {
        queue.publish(pulled_batch(n as u64 * 1_000, 50, 1, Priority::Normal, handler)).await.unwrap();
    }
    assert_nothing_there(&*queue, &worker(&["other"], 10)).await;
    assert_nothing_there(&*queue, &Receive { pools: vec!["long".into()], ..worker(&["mail"], 10) }).await;
    let mail = receive_exactly(&*queue, &worker(&["mail", "other"], 7), 50).await;
    assert_eq!(mail, pulled_batch(0, 50, 1, Priority::Normal, "mail"));
    assert_nothing_there(&*queue, &worker(&["mail", "other"], 7)).await;
    let both = receive_exactly(&*queue, &worker(&["scan", "mail", "scan"], 7), 20).await;
    assert!(both.iter().all(|item| &*item.target == "scan"));
    let rest = receive_exactly(&*queue, &worker(&[], 7), 80).await;
    let counts = ["bill", "scan"].map(|handler| count_of(&rest, |item| &*item.target == handler));
    assert_eq!(counts, [50, 30]);
    assert_nothing_there(&*queue, &worker(&[], 7)).await;
}

/// What is urgent for others does not make less room for what a worker can do.
pub async fn priorities_of_other_handlers_do_not_count(queue: Arc<dyn Queue>) {
    queue.publish(pulled_batch(0, 1_000, 1, Priority::Critical, "bill")).await.unwrap();
    queue.publish(pulled_batch(1_000, 1_000, 1, Priority::High, "bill")).await.unwrap();
    queue.publish(pulled_batch(2_000, 100, 1, Priority::Low, "mail")).await.unwrap();
    let mail = receive_exactly(&*queue, &worker(&["mail"], 10), 100).await;
    assert_eq!(mail, pulled_batch(2_000, 100, 1, Priority::Low, "mail"));
}

/// Of what a worker may take, urgent work goes first and the low priorities have a share, whichever handlers they are for.
pub async fn no_priority_of_a_handler_starves(queue: Arc<dyn Queue>) {
    let handlers = ["mail", "scan", "bill", "mail"];
    for (n, (priority, handler)) in Priority::ALL.into_iter().zip(handlers).enumerate() {
        let from = n as u64 * 10_000;
        queue.publish(pulled_batch(from, 1_000, 1, priority, handler)).await.unwrap();
        queue.publish(pulled_batch(from + 5_000, 1_000, 1, priority, "other")).await.unwrap();
    }
    for limit in [1, 15, 16] {
        let first = receive_exactly(&*queue, &worker(&["mail", "scan", "bill"], limit), 300).await;
        assert!(first.iter().all(|item| &*item.target != "other"));
        let counts = Priority::ALL.map(|priority| count_of(&first, |item| item.priority == priority));
        assert!(counts[0] > 150, "{counts:?} of 300, {limit} at a time");
        assert!(counts[3] >= 5, "{counts:?} of 300, {limit} at a time");
        assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?} of 300, {limit} at a time");
    }
}

/// However batches of different sizes alternate, no receiver's share of a priority falls to another.
pub async fn receivers_of_different_handlers_keep_their_shares(queue: Arc<dyn Queue>) {
    for (n, handler) in ["mail", "bill"].into_iter().enumerate() {
        let from = n as u64 * 10_000;
        queue.publish(pulled_batch(from, 2_000, 1, Priority::Critical, handler)).await.unwrap();
        queue.publish(pulled_batch(from + 5_000, 2_000, 1, Priority::Low, handler)).await.unwrap();
    }
    let mut received = Vec::new();
    for _ in 0..150 {
        received.extend(receive_exactly(&*queue, &worker(&["mail"], 8), 8).await);
        received.extend(receive_exactly(&*queue, &worker(&["bill"], 1), 1).await);
    }
    for (handler, sum) in [("mail", 1_200), ("bill", 150)] {
        let low = count_of(&received, |item| &*item.target == handler && item.priority == Priority::Low);
        assert!(low >= sum / 30 && low < sum / 2, "LOW got {low} of {sum} for {handler}");
    }
}

/// A handler with a burst does not hide another from a worker of both.
pub async fn handlers_take_turns(queue: Arc<dyn Queue>) {
    queue.publish(pulled_batch(0, 5_000, 1, Priority::Normal, "mail")).await.unwrap();
    queue.publish(pulled_batch(10_000, 100, 1, Priority::Normal, "bill")).await.unwrap();
    queue.publish(pulled_batch(20_000, 100, 1, Priority::Normal, "scan")).await.unwrap();
    for want in [worker(&["mail", "scan"], 1), worker(&[], 1), worker(&["scan", "mail"], 16)] {
        let received = receive_exactly(&*queue, &want, 60).await;
        let count = count_of(&received, |item| &*item.target == "scan");
        assert!((10..=40).contains(&count), "`scan` got {count} of 60, {} at a time", want.limit);
    }
}

/// Fairness between tenants holds for each handler.
pub async fn a_full_tenant_does_not_hold_up_the_others_of_its_handler(queue: Arc<dyn Queue>) {
    for (h, handler) in ["mail", "bill", "scan"].into_iter().enumerate() {
        let from = h as u64 * 100_000;
        queue.publish(pulled_batch(from, 2_000, 1, Priority::Normal, handler)).await.unwrap();
        for tenant in 2..=4u32 {
            let from = from + u64::from(tenant) * 10_000;
            queue.publish(pulled_batch(from, 20, tenant, Priority::Normal, handler)).await.unwrap();
        }
    }
    let first = receive_exactly(&*queue, &worker(&["bill", "mail"], 16), 240).await;
    for tenant in 2..=4 {
        for handler in ["mail", "bill"] {
            let count = count_of(&first, |item| item.tenant == TenantId(tenant) && &*item.target == handler);
            assert_eq!(count, 20, "tenant {tenant} still waits behind a burst of another for `{handler}`");
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
    let mut waiting = Vec::new();
    for _ in 0..100 {
        waiting.push(in_line(&queue, any(1)).await);
    }
    let sent = batch(0, 100, 1, Priority::Normal);
    for part in sent.chunks(33) {
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
    let mut others = Vec::new();
    for _ in 0..50 {
        others.push(in_line(&queue, from("long", 1)).await);
    }
    let waiting = in_line(&queue, from("short", 1)).await;
    let sent = batch(0, 1, 1, Priority::Normal);
    queue.publish(sent.clone()).await.unwrap();
    assert_eq!(waiting.await.unwrap(), sent);
    others.iter().for_each(|other| other.abort());
}

/// A doorbell rung for one handler reaches who has that handler, however many wait for another.
pub async fn who_waits_for_another_handler_takes_no_turn_away(queue: Arc<dyn Queue>) {
    let mut others = Vec::new();
    for _ in 0..50 {
        others.push(in_line(&queue, worker(&["bill", "scan"], 1)).await);
    }
    let mut waiting = Vec::new();
    for handlers in [&["mail", "other"][..], &["mail"], &["mail"], &["mail", "bill"]] {
        waiting.push(in_line(&queue, worker(handlers, 1)).await);
    }
    let sent = pulled_batch(0, 4, 1, Priority::Normal, "mail");
    queue.publish(sent.clone()).await.unwrap();
    let mut received = Vec::new();
    for receiver in waiting {
        received.extend(receiver.await.unwrap());
    }
    assert_eq!(ids(&received), ids(&sent));
    others.iter().for_each(|other| other.abort());
}

/// Receivers that want this and that come, wait and give up at any moment; whatever was published reaches one who wants
/// it, as long as one is there.
pub async fn every_kind_of_receiver_gets_what_is_for_it(queue: Arc<dyn Queue>) {
    const POOLS: [&str; 3] = ["short", "long", "gpu"];
    const HANDLERS: [&str; 4] = ["mail", "bill", "scan", "sign"];
    const ITEMS: u64 = 6_000;
    let (seen, mut results) = tokio::sync::mpsc::unbounded_channel();
    let receivers: Vec<_> = (0..36u64)
        .map(|n| {
            let (queue, seen) = (Arc::clone(&queue), seen.clone());
            let (pool, handler) = (POOLS[n as usize % 3], HANDLERS[n as usize % 4]);
            tokio::spawn(async move {
                let mut dice = Dice(n);
                loop {
                    // For one cell, always; for more, now and then. Whoever starts anew has given up before.
                    let mut want = worker(&[handler], 1 + dice.below(4));
                    want.pools = vec![pool.into()];
                    match dice.below(5) {
                        0 => want.pools.clear(),
                        1 => want.targets.clear(),
                        2 => want.targets.push(HANDLERS[dice.below(4)].into()),
                        3 => (want.pools, want.except) = (Vec::new(), vec![POOLS[(n as usize + 1) % 3].into()]),
                        _ => {}
                    }
                    let patience = dice.below(6);
                    let receive = async { queue.receive(&want).await.unwrap() };
                    let give_up = async {
                        for _ in 0..patience {
                            tokio::task::yield_now().await;
                        }
                        if patience == 5 {
                            std::future::pending::<()>().await;
                        }
                    };
                    let items = tokio::select! { items = receive => items, () = give_up => Vec::new() };
                    for item in items {
                        let is_wanted = |names: &[Arc<str>], name| names.is_empty() || names.contains(name);
                        assert!(is_wanted(&want.pools, &item.pool) && !want.except.contains(&item.pool), "{want:?}");
                        assert!(is_wanted(&want.targets, &item.target), "{want:?}");
                        let _ = seen.send(item.execution);
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut dice = Dice(4_711);
    let mut sent = 0;
    let mut received = BTreeSet::new();
    while sent < ITEMS {
        // Small and large ones; each is waited for, so that receivers are in line when the next one comes.
        let count = [1, 1, 2, 40][dice.below(4)].min(ITEMS - sent);
        let batch = (sent..sent + count).map(|n| {
            let priority = Priority::ALL[dice.below(4)];
            let item = pulled(n, dice.below(3) as u32, priority, HANDLERS[dice.below(4)]);
            Dispatch { pool: POOLS[dice.below(3)].into(), ..item }
        });
        queue.publish(batch.collect()).await.unwrap();
        sent += count;
        while received.len() < sent as usize {
            let execution = results.recv().await.expect("receivers run");
            assert!(received.insert(execution), "{execution} was received twice");
        }
    }
    assert_eq!(queue.depth(Runner::Worker).await.unwrap().waiting, 0);
    for receiver in receivers {
        assert!(!receiver.is_finished(), "a receiver got what it did not want");
        receiver.abort();
    }
}

/// Numbers that look random and are the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
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

/// Each pool that is not empty is told apart by runner, with its count and the first instant.
pub async fn pools_show_what_waits_and_since_when(queue: Arc<dyn Queue>) {
    assert_eq!(queue.pools().await.unwrap(), []);
    let start = Timestamp::from_millis(1_794_794_400_000);
    let queued = |item: Dispatch, ms| Dispatch { queued_at: Some(start.saturating_add_ms(ms)), ..item };
    let node = |n, pool| dispatch(n, n as u32, Priority::ALL[n as usize % 4], pool, ActionKind::Webhook);
    let mut batch = vec![queued(node(1, "short"), 40), queued(node(2, "short"), 30), node(3, "short"), node(4, "long")];
    batch.extend([(1, "mail", 80), (2, "mail", 70), (1, "bill", 60), (3, "mail", 90)].map(|(tenant, handler, ms)| {
        let item = pulled(10 + ms as u64, tenant, Priority::Low, handler);
        queued(item, ms)
    }));
    queue.publish(batch).await.unwrap();
    let check = async |expected: &[(&str, Runner, usize, Option<i64>)]| {
        let key = |depth: PoolDepth| ((depth.pool, depth.runner), (depth.waiting, depth.oldest_queued_at));
        let depths: BTreeMap<_, _> = queue.pools().await.unwrap().into_iter().map(key).collect();
        let expected = expected.iter().map(|&(pool, runner, waiting, oldest)| PoolDepth {
            pool: pool.into(),
            runner,
            waiting,
            oldest_queued_at: oldest.map(|ms| start.saturating_add_ms(ms)),
        });
        assert_eq!(depths, expected.map(key).collect());
    };
    let long = ("long", Runner::Node, 1, None);
    check(&[("short", Runner::Node, 3, Some(30)), long, ("short", Runner::Worker, 4, Some(60))]).await;
    let bill = receive_exactly(&*queue, &worker(&["bill"], 10), 1).await;
    check(&[("short", Runner::Node, 3, Some(30)), long, ("short", Runner::Worker, 3, Some(70))]).await;
    receive_exactly(&*queue, &from("short", 10), 3).await;
    check(&[long, ("short", Runner::Worker, 3, Some(70))]).await;
    queue.release(bill).await.unwrap();
    receive_exactly(&*queue, &from("long", 10), 1).await;
    check(&[("short", Runner::Worker, 4, Some(60))]).await;
}
