//! What a node that is alone keeps near: past the table, not before what waits there, and in the table as soon as others come.

mod rig;

use campanile_model::ExecutionId;
use campanile_model::action::{ActionKind, Runner};
use campanile_model::job::Priority;
use campanile_model::queue::{Depth, Dispatch, Queue, Receive};
use campanile_pg::{Options, Pool};
use campanile_queue::{NearQueue, TableQueue};
use campanile_testkit::conformance::queue::{any, batch, dispatch, pulled_batch, worker};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Long enough for whatever should happen at once.
const SOON: Duration = Duration::from_secs(20);

async fn open(options: &Options, is_alone: bool) -> Arc<NearQueue> {
    let queue = NearQueue::new(TableQueue::open(options).await.unwrap());
    queue.alone(is_alone);
    Arc::new(queue)
}

fn other(options: &Options) -> Options {
    Options { node: "node:b".into(), ..options.clone() }
}

async fn rows(options: &Options) -> i64 {
    let rows = Pool::new(options).unwrap().query("SELECT count(*) FROM ready", &[]).await.unwrap();
    rows[0].get(0)
}

async fn receive(queue: &NearQueue, want: Receive) -> Vec<Dispatch> {
    timeout(SOON, queue.receive(&want)).await.expect("something is there").unwrap()
}

async fn eventually<F: Future<Output = bool>>(what: &str, mut is_so: impl FnMut() -> F) {
    let deadline = Instant::now() + SOON;
    while !is_so().await {
        assert!(Instant::now() < deadline, "{what}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn ids(items: &[Dispatch]) -> BTreeSet<ExecutionId> {
    items.iter().map(|item| item.execution).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_alone_puts_nothing_into_the_table() {
    let options = rig::schema("node:a").await;
    let queue = open(&options, true).await;
    let items = batch(0, 100, 1, Priority::Normal);
    queue.publish(items.clone()).await.unwrap();
    assert_eq!((rows(&options).await, queue.depth(Runner::Node).await.unwrap().waiting), (0, 100));
    let taken = receive(&queue, any(40)).await;
    queue.release(taken).await.unwrap();
    assert_eq!((rows(&options).await, queue.depth(Runner::Node).await.unwrap()), (0, Depth { waiting: 100, taken: 0 }));
    let nobody = ExecutionId::from_bytes([9; 16]);
    let missing = queue.missing(&[items[99].execution, nobody, items[0].execution]).await.unwrap();
    assert_eq!(missing, [nobody], "what is near is not lost, and what is nowhere is");
    assert_eq!(ids(&receive(&queue, any(100)).await), ids(&items));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_the_table_goes_before_what_comes_later() {
    let options = rig::schema("node:a").await;
    let queue = open(&options, false).await;
    let item = |n| dispatch(n, 1, Priority::Normal, "short", ActionKind::Noop);
    queue.publish(vec![item(1), item(2)]).await.unwrap();
    queue.alone(true);
    queue.publish(vec![item(3)]).await.unwrap();
    assert_eq!(rows(&options).await, 3, "as long as something waits there");
    assert_eq!(receive(&queue, any(1)).await, [item(1)]);
    let mut rest = receive(&queue, any(2)).await;
    if rest.len() < 2 {
        rest.extend(receive(&queue, any(1)).await);
    }
    assert_eq!(rest, [item(2), item(3)]);
    queue.publish(vec![item(4)]).await.unwrap();
    assert_eq!((rows(&options).await, receive(&queue, any(1)).await), (0, vec![item(4)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn others_get_what_was_near_when_they_come() {
    let options = rig::schema("node:a").await;
    let (first, second) = (open(&options, true).await, open(&other(&options), false).await);
    let nodes = batch(0, 3_000, 1, Priority::Normal);
    let workers = pulled_batch(0, 50, 2, Priority::High, "mail");
    first.publish(nodes.clone()).await.unwrap();
    first.publish(workers.clone()).await.unwrap();
    let taken = receive(&first, any(7)).await;
    assert_eq!(rows(&options).await, 0);
    first.alone(false);
    eventually("all of it is in the table", || async { rows(&options).await == 3_043 }).await;
    let depth = first.depth(Runner::Node).await.unwrap();
    assert_eq!(depth, Depth { waiting: 2_993, taken: 7 }, "moving is not taking");
    let mut seen = ids(&taken);
    while seen.len() < 3_000 {
        let more = ids(&receive(&second, any(1_000)).await);
        assert!(seen.is_disjoint(&more), "once");
        seen.extend(more);
    }
    assert_eq!(seen, ids(&nodes));
    assert_eq!(ids(&receive(&second, worker(&["mail"], 100)).await), ids(&workers));
    first.release(taken).await.unwrap();
    assert_eq!(receive(&second, any(100)).await.len(), 7, "what comes back is for everybody, too");
    assert_eq!(first.depth(Runner::Node).await.unwrap().taken, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_while_others_come_is_not_left_behind() {
    let options = rig::schema("node:a").await;
    let (first, second) = (open(&options, true).await, open(&other(&options), false).await);
    let publishing = {
        let first = Arc::clone(&first);
        tokio::spawn(async move {
            for n in 0..500 {
                first.publish(vec![dispatch(n, 1, Priority::Normal, "short", ActionKind::Noop)]).await.unwrap();
            }
        })
    };
    while first.depth(Runner::Node).await.unwrap().waiting < 50 {
        tokio::task::yield_now().await;
    }
    first.alone(false);
    // Nobody receives here: what stayed near would be seen by nobody.
    let mut seen = BTreeSet::new();
    while seen.len() < 500 {
        seen.extend(ids(&receive(&second, any(100)).await));
    }
    publishing.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_put_into_the_table_is_kept() {
    let options = rig::schema("node:a").await;
    let wire = rig::Wire::to(&options).await;
    let (first, second) = (open(&wire.options, true).await, open(&other(&options), false).await);
    first.publish(batch(0, 2_000, 1, Priority::Normal)).await.unwrap();
    wire.cut(true);
    first.alone(false);
    sleep(Duration::from_millis(100)).await;
    let here = receive(&first, any(500)).await;
    assert_eq!(here.len(), 500, "this node has it while the database is gone");
    wire.cut(false);
    let mut seen = ids(&here);
    while seen.len() < 2_000 {
        seen.extend(ids(&receive(&second, any(1_000)).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_at_both_ends_is_counted_together() {
    let options = rig::schema("node:a").await;
    let (first, second) = (open(&options, true).await, open(&other(&options), false).await);
    let item = |n, pool| dispatch(n, 1, Priority::Normal, pool, ActionKind::Noop);
    first.publish(vec![item(1, "short"), item(2, "bulk")]).await.unwrap();
    second.publish(vec![item(3, "short")]).await.unwrap();
    first.alone(false);
    eventually("all of it is in the table", || async { rows(&options).await == 3 }).await;
    let pools = first.pools().await.unwrap();
    let counts: Vec<(&str, usize)> = pools.iter().map(|depth| (&*depth.pool, depth.waiting)).collect();
    assert_eq!(counts, [("bulk", 1), ("short", 2)]);
    assert_eq!(first.missing(&[item(1, "short").execution, ExecutionId::from_bytes([9; 16])]).await.unwrap().len(), 1);
}
