//! What the suite for all queues leaves open: the exact shares and turns, the bound, who is woken, and what is left behind.

mod random;

use super::*;
use crate::shares::QUANTUM;
use campanile_model::action::ActionKind;
use campanile_model::job::Priority;
use campanile_testkit::conformance::queue::{any, batch, dispatch, from, pulled, pulled_batch, worker};
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::task::Poll;

async fn is_pending<F: Future + ?Sized>(future: &mut Pin<&mut F>) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn priorities_get_exactly_their_shares() {
    let queue = MemoryQueue::new();
    for (n, priority) in Priority::ALL.into_iter().enumerate() {
        queue.publish(batch(n as u64 * 1_000, 100, 1, priority)).await.unwrap();
    }
    let first = queue.receive(&any(15)).await.unwrap();
    let order: String = first.iter().map(|item| &item.priority.as_str()[..1]).collect();
    assert_eq!(order, "CHCNCHCLCHCNCHC");
    let next = queue.receive(&any(150)).await.unwrap();
    let counts = Priority::ALL.map(|priority| next.iter().filter(|item| item.priority == priority).count());
    assert_eq!(counts, [80, 40, 20, 10]);
}

#[tokio::test]
async fn priorities_get_exactly_their_shares_of_what_a_worker_may_take() {
    let queue = MemoryQueue::new();
    for (n, priority) in Priority::ALL.into_iter().enumerate() {
        for (h, handler) in ["mail", "bill", "scan"].into_iter().enumerate() {
            let from = n as u64 * 10_000 + h as u64 * 1_000;
            queue.publish(pulled_batch(from, 200, 1, priority, handler)).await.unwrap();
        }
    }
    // Batches of others in between change nothing.
    let mut received = Vec::new();
    for limit in [1, 5, 9, 15, 120] {
        received.extend(queue.receive(&worker(&["mail", "bill"], limit)).await.unwrap());
        queue.receive(&worker(&["scan"], 8)).await.unwrap();
        queue.receive(&worker(&[], 7)).await.unwrap();
    }
    let order: String = received[..15].iter().map(|item| &item.priority.as_str()[..1]).collect();
    assert_eq!(order, "CHCNCHCLCHCNCHC");
    let counts = Priority::ALL.map(|priority| received.iter().filter(|item| item.priority == priority).count());
    assert_eq!(counts, [80, 40, 20, 10]);
}

#[tokio::test]
async fn a_priority_that_has_nothing_earns_nothing_for_later() {
    let queue = MemoryQueue::new();
    queue.publish(pulled_batch(0, 20, 1, Priority::Critical, "mail")).await.unwrap();
    queue.publish(pulled_batch(100, 1, 1, Priority::Low, "mail")).await.unwrap();
    let letters = async |handlers, limit| -> String {
        let items = queue.receive(&worker(handlers, limit)).await.unwrap();
        items.iter().map(|item| &item.priority.as_str()[..1]).collect()
    };
    assert_eq!(letters(&["mail"], 4).await, "CCCC");
    assert_eq!(letters(&[], 5).await, "CCCCL");
    assert_eq!(letters(&["mail"], 1).await, "C");
    queue.publish(pulled_batch(101, 1, 1, Priority::Low, "mail")).await.unwrap();
    assert_eq!(letters(&["mail"], 1).await, "C", "the turn it had before is over");
}

#[tokio::test]
async fn targets_and_tenants_take_turns_that_outlast_a_batch() {
    let queue = MemoryQueue::new();
    for (h, handler) in ["mail", "bill", "scan"].into_iter().enumerate() {
        for tenant in 1..=2u32 {
            let from = h as u64 * 10_000 + u64::from(tenant) * 1_000;
            queue.publish(pulled_batch(from, 8, tenant, Priority::Normal, handler)).await.unwrap();
        }
    }
    let mut order = String::new();
    for limit in [1, 2, 3, 7, 3] {
        for item in queue.receive(&worker(&["scan", "mail"], limit)).await.unwrap() {
            order += &format!("{}{} ", &item.target[..1], item.tenant.0);
        }
    }
    assert_eq!(order, "m1 s1 m1 s1 m1 s1 m1 s1 m2 s2 m2 s2 m2 s2 m2 s2 ");
    // Who was served longest ago is next, also for a worker with other handlers.
    let next = queue.receive(&worker(&[], 4)).await.unwrap();
    let order: Vec<_> = next.iter().map(|item| &*item.target).collect();
    assert_eq!(order, ["bill", "mail", "scan", "bill"]);
}

#[tokio::test]
async fn what_is_for_nodes_is_not_split_by_target() {
    let queue = MemoryQueue::new();
    let origin = |n| format!("https://{}.example.com", n % 7).into();
    let sent: Vec<_> = batch(0, 100, 1, Priority::Normal)
        .into_iter()
        .zip(0..)
        .map(|(d, n)| Dispatch { target: origin(n), ..d })
        .collect();
    queue.publish(sent.clone()).await.unwrap();
    let want = Receive { targets: vec!["https://1.example.com".into()], ..any(60) };
    assert_eq!([queue.receive(&want).await.unwrap(), queue.receive(&any(60)).await.unwrap()].concat(), sent);
}

#[tokio::test]
async fn pools_share_a_batch_evenly_and_leave_the_rest_to_others() {
    let queue = MemoryQueue::new();
    for (p, (pool, count)) in [("a", 100), ("b", 2), ("c", 100)].into_iter().enumerate() {
        let items = (0..count).map(|n| dispatch(p as u64 * 1_000 + n, 1, Priority::Normal, pool, ActionKind::Noop));
        queue.publish(items.collect()).await.unwrap();
    }
    let mut counts = Vec::new();
    for limit in [4, 10, 3, 3, 1, 1] {
        let taken = queue.receive(&any(limit)).await.unwrap();
        counts.push(["a", "b", "c"].map(|pool| taken.iter().filter(|item| &*item.pool == pool).count()));
    }
    assert_eq!(counts, [[2, 1, 1], [4, 1, 5], [1, 0, 2], [2, 0, 1], [0, 0, 1], [1, 0, 0]]);
}

#[tokio::test]
async fn many_pools_take_turns_that_outlast_a_batch() {
    let queue = MemoryQueue::new();
    for n in 0..40 {
        queue
            .publish(vec![dispatch(n, 1, Priority::Normal, &format!("pool-{}", n % 5), ActionKind::Noop)])
            .await
            .unwrap();
    }
    let mut counts = BTreeMap::new();
    for round in 1..=4 {
        for _ in 0..5 {
            for item in queue.receive(&any(2)).await.unwrap() {
                *counts.entry(item.pool).or_insert(0) += 1;
            }
        }
        assert!(counts.len() == 5 && counts.values().all(|&count| count == 2 * round), "{counts:?}");
    }
}

#[tokio::test]
async fn tenants_take_turns_that_outlast_a_batch() {
    let queue = MemoryQueue::new();
    for tenant in 1..=3u32 {
        queue.publish(batch(u64::from(tenant) * 1_000, 8, tenant, Priority::Normal)).await.unwrap();
    }
    let mut order = Vec::new();
    for limit in [1, 2, 3, 5, 13] {
        order.extend(queue.receive(&any(limit)).await.unwrap().iter().map(|item| item.tenant.0));
    }
    let turn = |tenant| [tenant; QUANTUM as usize];
    assert_eq!(order, [1, 2, 3, 1, 2, 3].map(turn).concat());
}

#[tokio::test]
async fn what_is_released_goes_back_to_the_front_in_its_order() {
    let queue = MemoryQueue::new();
    let sent = batch(0, 2_000, 1, Priority::Normal);
    queue.publish(sent.clone()).await.unwrap();
    let taken = queue.receive(&any(700)).await.unwrap();
    queue.release(taken).await.unwrap();
    assert_eq!(queue.receive(&any(2_000)).await.unwrap(), sent);
}

#[tokio::test]
async fn a_full_queue_refuses_whole_batches_and_always_takes_back() {
    let queue = MemoryQueue::bounded(10);
    queue.publish(batch(0, 8, 1, Priority::Normal)).await.unwrap();
    let error = queue.publish(batch(100, 3, 1, Priority::Normal)).await.expect_err("too many");
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "queue_full"));
    assert_eq!(queue.depth(Runner::Node).await.unwrap().waiting, 8);
    let taken = queue.receive(&any(8)).await.unwrap();
    queue.publish(batch(100, 10, 1, Priority::Normal)).await.unwrap();
    queue.release(taken).await.unwrap();
    assert_eq!(queue.depth(Runner::Node).await.unwrap(), Depth { waiting: 18, taken: 0 });
}

#[tokio::test]
async fn nothing_is_left_of_a_burst() {
    let queue = MemoryQueue::new();
    for tenant in 0..100u32 {
        let pool: Arc<str> = format!("pool-{}", tenant % 7).into();
        let burst = (0..1_000).map(|n| {
            let item = pulled(
                u64::from(tenant) * 10_000 + n,
                tenant,
                Priority::ALL[n as usize % 4],
                ["mail", "bill"][n as usize % 2],
            );
            Dispatch { pool: Arc::clone(&pool), ..item }
        });
        queue.publish(burst.collect()).await.unwrap();
    }
    let mut count = 0;
    for handlers in [&["bill"][..], &[]] {
        for _ in 0..51 {
            count += queue.receive(&worker(handlers, 999)).await.unwrap().len();
        }
        if !handlers.is_empty() {
            assert_eq!(count, 50_000);
        }
    }
    assert_eq!(count, 100_000);
    let mut state = queue.state.lock();
    for runner in RUNNERS {
        let side = state.side(runner);
        assert_eq!((side.waiting(), side.pools().count(), side.waiters().counts()), (0, 0, (0, 0)));
    }
}

#[tokio::test]
async fn one_item_wakes_one_of_many() {
    let queue = MemoryQueue::new();
    let want = any(1);
    let mut receivers: Vec<_> = (0..100).map(|_| queue.receive(&want)).collect();
    for receiver in &mut receivers {
        assert!(is_pending(&mut receiver.as_mut()).await);
    }
    queue.publish(batch(0, 1, 1, Priority::Normal)).await.unwrap();
    assert_eq!(in_line_and_called(&queue, Runner::Node), (99, 1));
    // The longest waiting one gives up without having looked: the next one is woken in its place.
    drop(receivers.remove(0));
    assert_eq!(in_line_and_called(&queue, Runner::Node), (98, 1));
    assert_eq!(receivers.remove(0).await.unwrap().len(), 1);
    assert_eq!(queue.depth(Runner::Node).await.unwrap(), Depth { waiting: 0, taken: 1 });
    drop(receivers);
    assert_eq!(in_line_and_called(&queue, Runner::Node), (0, 0));
}

fn in_line_and_called(queue: &MemoryQueue, runner: Runner) -> (usize, usize) {
    queue.state.lock().side(runner).waiters().counts()
}

#[tokio::test]
async fn nobody_is_woken_for_what_it_does_not_want() {
    let queue = MemoryQueue::new();
    let in_pools = |pools: &[&str], want| Receive { pools: pools.iter().map(|&pool| pool.into()).collect(), ..want };
    let others = [
        worker(&["bill"], 9),
        in_pools(&["long"], worker(&["mail"], 9)),
        in_pools(&["long", "gpu"], worker(&[], 9)),
        Receive { except: vec!["short".into()], ..worker(&[], 9) },
        Receive { except: vec!["long".into(), "short".into()], ..in_pools(&["short"], worker(&["mail"], 9)) },
        any(9),
    ];
    let want = Receive { except: vec!["gpu".into()], ..in_pools(&["gpu", "short"], worker(&["bill", "mail"], 2)) };
    let mut receivers: Vec<_> = others.iter().map(|want| queue.receive(want)).collect();
    let mut receiver = queue.receive(&want);
    for receiver in receivers.iter_mut().chain([&mut receiver]) {
        assert!(is_pending(&mut receiver.as_mut()).await);
    }
    queue.publish(pulled_batch(0, 5, 1, Priority::Normal, "mail")).await.unwrap();
    assert_eq!(in_line_and_called(&queue, Runner::Worker), (5, 1));
    assert_eq!(in_line_and_called(&queue, Runner::Node), (1, 0));
    assert_eq!(receiver.await.unwrap(), pulled_batch(0, 2, 1, Priority::Normal, "mail"));
    // Nor for what has waited for nobody when something else comes.
    queue.publish(pulled_batch(10, 1, 1, Priority::Normal, "scan")).await.unwrap();
    assert_eq!(in_line_and_called(&queue, Runner::Worker), (5, 0));
}

#[tokio::test]
async fn what_is_laid_down_is_kept_and_more_of_it_comes_along() {
    let queue = MemoryQueue::new();
    let (want, other) = (from("short", 5), any(5));
    let mut waiting = pin!(queue.receive(&want));
    assert!(is_pending(&mut waiting).await);
    queue.publish(batch(0, 3, 1, Priority::Normal)).await.unwrap();
    assert!(is_pending(&mut pin!(queue.receive(&other))).await, "whoever waited longer has it");
    queue.publish(batch(3, 10, 1, Priority::Normal)).await.unwrap();
    assert_eq!(waiting.await.unwrap(), batch(0, 5, 1, Priority::Normal));
    assert_eq!(queue.receive(&other).await.unwrap(), batch(5, 5, 1, Priority::Normal));
}

#[tokio::test]
async fn what_was_laid_down_for_one_who_gave_up_goes_to_the_next_who_wants_it_in_its_order() {
    let queue = MemoryQueue::new();
    let wants = [worker(&["mail", "bill"], 10), worker(&["bill"], 10), worker(&["mail"], 2)];
    let mut receivers: Vec<_> = wants.iter().map(|want| queue.receive(want)).collect();
    for receiver in &mut receivers {
        assert!(is_pending(&mut receiver.as_mut()).await);
    }
    let sent = pulled_batch(0, 4, 1, Priority::Normal, "mail");
    queue.publish(sent.clone()).await.unwrap();
    assert_eq!(in_line_and_called(&queue, Runner::Worker), (2, 1));
    drop(receivers.remove(0));
    assert_eq!(in_line_and_called(&queue, Runner::Worker), (1, 1));
    assert_eq!(queue.depth(Runner::Worker).await.unwrap(), Depth { waiting: 2, taken: 2 });
    assert_eq!(receivers.remove(1).await.unwrap(), sent[..2]);
    assert_eq!(queue.receive(&worker(&[], 10)).await.unwrap(), sent[2..]);
}
