//! What the suite for all queues leaves open: the exact shares, the bound, and what is left behind.

use super::*;
use campanile_model::action::ActionKind;
use campanile_testkit::conformance::queue::{any, batch, dispatch, from};
use std::pin::pin;
use std::task::Poll;

async fn is_pending<F: Future + ?Sized>(future: &mut std::pin::Pin<&mut F>) -> bool {
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
        let pool = format!("pool-{}", tenant % 7);
        let burst = (0..1_000).map(|n| {
            let priority = Priority::ALL[n as usize % 4];
            dispatch(u64::from(tenant) * 10_000 + n, tenant, priority, &pool, ActionKind::Worker)
        });
        queue.publish(burst.collect()).await.unwrap();
    }
    let mut count = 0;
    while count < 100_000 {
        count += queue.receive(&Receive { runner: Runner::Worker, pools: Vec::new(), limit: 999 }).await.unwrap().len();
    }
    let state = queue.state.lock();
    assert!(state.sides.iter().all(|side| side.waiting == 0));
    assert!(state.sides.iter().all(|side| side.pools.is_empty() && side.line.is_empty() && side.woken.is_empty()));
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
    assert_eq!(in_line_and_woken(&queue), (99, 1));
    // The longest waiting one gives up without having looked: the next one is woken in its place.
    drop(receivers.remove(0));
    assert_eq!(in_line_and_woken(&queue), (98, 1));
    assert_eq!(receivers.remove(0).await.unwrap().len(), 1);
    drop(receivers);
    assert_eq!(in_line_and_woken(&queue), (0, 0));
}

fn in_line_and_woken(queue: &MemoryQueue) -> (usize, usize) {
    let state = queue.state.lock();
    (state.sides[0].line.len(), state.sides[0].woken.len())
}

#[tokio::test]
async fn a_promise_broken_by_somebody_faster_is_no_loss() {
    let queue = MemoryQueue::new();
    let want = from("short", 5);
    let mut waiting = pin!(queue.receive(&want));
    assert!(is_pending(&mut waiting).await);
    queue.publish(batch(0, 3, 1, Priority::Normal)).await.unwrap();
    assert_eq!(queue.receive(&any(5)).await.unwrap().len(), 3, "whoever comes first takes it");
    assert!(is_pending(&mut waiting).await);
    queue.publish(batch(10, 2, 1, Priority::Normal)).await.unwrap();
    assert_eq!(waiting.await.unwrap().len(), 2);
}

#[tokio::test]
async fn who_was_woken_for_one_pool_and_took_from_another_lets_others_have_it() {
    let queue = MemoryQueue::new();
    let (any_one, only_short) = (any(1), from("short", 1));
    let mut first = pin!(queue.receive(&any_one));
    let mut second = pin!(queue.receive(&only_short));
    assert!(is_pending(&mut first).await && is_pending(&mut second).await);
    queue.publish(vec![dispatch(1, 1, Priority::Normal, "short", ActionKind::Noop)]).await.unwrap();
    queue.publish(vec![dispatch(2, 1, Priority::Normal, "long", ActionKind::Noop)]).await.unwrap();
    let taken = first.await.unwrap();
    let left = if &*taken[0].pool == "short" { queue.receive(&any_one).await } else { second.await };
    assert_eq!(left.unwrap().len(), 1);
}
