//! One table, two nodes: what is published at one reaches whoever waits at the other, once, in turn, and soon. And what
//! happens while the database is gone.

mod rig;

use campanile_model::action::{ActionKind, Runner};
use campanile_model::job::Priority;
use campanile_model::queue::{Depth, Dispatch, PoolDepth, Queue, Receive};
use campanile_model::{ExecutionId, Kind, Result, TenantId};
use campanile_pg::Options;
use campanile_queue::TableQueue;
use campanile_testkit::conformance::queue::{any, batch, dispatch, in_line, pulled_batch, worker};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

async fn two_nodes() -> [Arc<TableQueue>; 2] {
    let options = rig::schema("node:a").await;
    let other = Options { node: "node:b".into(), ..options.clone() };
    [open(&options).await, open(&other).await]
}

async fn open(options: &Options) -> Arc<TableQueue> {
    Arc::new(TableQueue::open(options).await.unwrap())
}

/// Two nodes as one queue: published at one, received at either.
struct Pair {
    nodes: [Arc<TableQueue>; 2],
    calls: AtomicUsize,
}

#[async_trait::async_trait]
impl Queue for Pair {
    async fn publish(&self, batch: Vec<Dispatch>) -> Result<()> {
        self.nodes[0].publish(batch).await
    }

    async fn receive(&self, want: &Receive) -> Result<Vec<Dispatch>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.nodes[1 - call % 2].receive(want).await
    }

    async fn ack(&self, runner: Runner, executions: &[ExecutionId]) -> Result<()> {
        self.nodes[1].ack(runner, executions).await
    }

    async fn release(&self, batch: Vec<Dispatch>) -> Result<()> {
        self.nodes[1].release(batch).await
    }

    async fn depth(&self, runner: Runner) -> Result<Depth> {
        self.nodes[1].depth(runner).await
    }

    async fn pools(&self) -> Result<Vec<PoolDepth>> {
        self.nodes[1].pools().await
    }
}

/// What every queue must do, except that the depth follows every call: what another node does is seen a second later.
mod two_nodes_are_one_queue {
    use super::*;
    use campanile_testkit::conformance::queue as suite;
    campanile_testkit::facts!(
        Arc::new(Pair { nodes: two_nodes().await, calls: AtomicUsize::new(0) }),
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
            a_dropped_receiver_loses_nothing,
            receivers_aborted_in_a_race_lose_nothing,
            pools_show_what_waits_and_since_when,
        ]
    );
}

/// Long enough for whatever must happen, and much less than the wait between two looks.
const SOON: Duration = Duration::from_millis(200);
const LONG: Duration = Duration::from_secs(30);

fn waiting(queue: &Arc<TableQueue>, want: Receive) -> JoinHandle<Result<Vec<Dispatch>>> {
    let queue = Arc::clone(queue);
    tokio::spawn(async move { queue.receive(&want).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_is_received_once_by_either() {
    const ITEMS: u64 = 20_000;
    let nodes = two_nodes().await;
    let (seen, mut results) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..8 {
        let (queue, seen) = (Arc::clone(&nodes[n % 2]), seen.clone());
        tokio::spawn(async move {
            while let Ok(items) = queue.receive(&any(1 + n * 30)).await {
                items.into_iter().for_each(|item| seen.send((n % 2, item.execution)).unwrap_or_default());
            }
        });
    }
    for (queue, from) in nodes.iter().zip([0, ITEMS]) {
        let queue = Arc::clone(queue);
        tokio::spawn(async move {
            for part in batch(from, ITEMS / 2, 1, Priority::Normal).chunks(100) {
                queue.publish(part.to_vec()).await.unwrap();
            }
        });
    }
    let mut received = BTreeMap::new();
    for _ in 0..ITEMS {
        let (node, execution) = timeout(LONG, results.recv()).await.unwrap().unwrap();
        assert_eq!(received.insert(execution, node), None, "{execution} was received twice");
    }
    let by = [0, 1].map(|node| received.values().filter(|&&by| by == node).count());
    assert!(by.iter().all(|&count| count > 0), "received by each: {by:?}");
    assert_eq!(timeout(SOON, results.recv()).await.ok(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bell_reaches_who_waits_at_another_node() {
    let [a, b] = two_nodes().await;
    // The first look and the first ring of the listener are over.
    sleep(SOON).await;
    for n in 0..20 {
        let receiver = waiting(&b, any(1));
        sleep(Duration::from_millis(n * 7)).await;
        a.publish(batch(n, 1, 1, Priority::Normal)).await.unwrap();
        assert_eq!(timeout(SOON, receiver).await.expect("within 200 ms").unwrap().unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ring_that_came_too_early_is_followed_by_another() {
    let [a, b] = two_nodes().await;
    let receivers: Vec<_> = (0..50).map(|_| waiting(&b, any(1))).collect();
    sleep(SOON).await;
    for n in 0..50 {
        a.publish(batch(n, 1, 1, Priority::Normal)).await.unwrap();
    }
    for receiver in receivers {
        assert_eq!(timeout(SOON, receiver).await.expect("within 200 ms").unwrap().unwrap().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_local_receivers_leave_is_rung_for_others() {
    let [a, b] = two_nodes().await;
    let here = waiting(&a, any(10));
    let there = waiting(&b, any(10));
    sleep(SOON).await;
    // There is room for it in line, so nobody is told; and then the one in line is gone.
    here.abort();
    a.publish(batch(0, 10, 1, Priority::Normal)).await.unwrap();
    assert_eq!(timeout(SOON, there).await.expect("within 200 ms").unwrap().unwrap().len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_are_fair_at_each_node() {
    let nodes = two_nodes().await;
    for (n, priority) in [Priority::Critical, Priority::Low].into_iter().enumerate() {
        nodes[n].publish(batch(n as u64 * 100_000, 2_000, 1, priority)).await.unwrap();
        nodes[n].publish(batch(n as u64 * 100_000 + 50_000, 2_000, 2, priority)).await.unwrap();
    }
    // Each has heard of what the other one put there.
    sleep(SOON).await;
    let mut received = Vec::new();
    for n in 0..100 {
        received.extend(nodes[n % 2].receive(&any(10)).await.unwrap());
    }
    let share = |is_counted: &dyn Fn(&Dispatch) -> bool| {
        received.iter().filter(|item| is_counted(item)).count() as f64 / received.len() as f64
    };
    let low = share(&|item| item.priority == Priority::Low);
    assert!((0.05..0.25).contains(&low), "LOW got {low}");
    let second = share(&|item| item.tenant == TenantId(2));
    assert!((0.4..0.6).contains(&second), "the second tenant got {second}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_receivers_here_have_room_for_passes_by_the_table() {
    let options = rig::schema("node:a").await;
    let queue = open(&options).await;
    let pool = campanile_pg::Pool::new(&options).unwrap();
    let rows = || async {
        let sql = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM ready_seq_seq";
        pool.query(sql, &[]).await.unwrap()[0].get::<_, i64>(0)
    };
    let queue: Arc<dyn Queue> = queue;
    let receiver = in_line(&queue, any(10)).await;
    queue.publish(batch(0, 10, 1, Priority::Normal)).await.unwrap();
    assert_eq!(receiver.await.unwrap(), batch(0, 10, 1, Priority::Normal));
    assert_eq!(rows().await, 0, "there was room for all of them");
    let urgent = in_line(&queue, Receive { least: Priority::Critical, ..any(10) }).await;
    queue.publish(batch(10, 20, 1, Priority::Normal)).await.unwrap();
    assert_eq!(rows().await, 20, "nobody here waited for these");
    queue.publish(batch(30, 1, 1, Priority::Critical)).await.unwrap();
    assert_eq!(urgent.await.unwrap(), batch(30, 1, 1, Priority::Critical));
    assert_eq!(rows().await, 20, "nothing critical waited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_connections_are_survived() {
    let options = rig::schema("node:a").await;
    // A name that nobody else has: their connections are ended by it.
    let named = |node: &str| Options { node: format!("node:{node}-{}", options.schema), ..options.clone() };
    let [a, b] = [open(&named("a")).await, open(&named("b")).await];
    let mut sent = 0;
    let mut received = 0;
    for round in 0..5 {
        let receivers = [waiting(&a, any(100)), waiting(&b, any(100))];
        sleep(Duration::from_millis(30)).await;
        let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = $1";
        let name = campanile_pg::target::application_name(&named("a").node);
        let pool = campanile_pg::Pool::new(&options).unwrap();
        // The one that listens comes back a moment after it was lost.
        let end = async { while pool.query(sql, &[&name]).await.unwrap()[0].get::<_, i64>(0) == 0 {} };
        timeout(LONG, end).await.expect("nothing was connected");
        // What is published at the other node is received, and soon also what is published here.
        b.publish(batch(round * 100, 10, 1, Priority::Normal)).await.unwrap();
        while let Err(error) = a.publish(batch(round * 100 + 10, 10, 1, Priority::Normal)).await {
            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
            sleep(Duration::from_millis(10)).await;
        }
        sent += 20;
        for receiver in receivers {
            if received < sent {
                received += timeout(SOON * 5, receiver).await.unwrap().unwrap().unwrap_or_default().len();
            } else {
                receiver.abort();
            }
        }
        while received < sent {
            received += timeout(LONG, a.receive(&any(100))).await.unwrap().unwrap_or_default().len();
        }
    }
    assert_eq!(received, sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_database_is_gone_everybody_is_told_and_nobody_spins() {
    let options = rig::schema("node:a").await;
    let wire = rig::Wire::to(&options).await;
    let a = open(&wire.options).await;
    let b = open(&options).await;
    let receiver = waiting(&a, any(10));
    sleep(SOON).await;
    wire.cut(true);
    let unavailable = |error: campanile_model::Error| assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    unavailable(a.publish(batch(0, 1, 1, Priority::Normal)).await.unwrap_err());
    unavailable(timeout(SOON * 15, receiver).await.expect("in time").unwrap().unwrap_err());
    let began = Instant::now();
    let mut answers = 0;
    while began.elapsed() < Duration::from_secs(2) {
        unavailable(a.receive(&any(10)).await.unwrap_err());
        answers += 1;
    }
    assert!(answers <= 12, "{answers} answers in two seconds");
    wire.cut(false);
    b.publish(batch(10, 5, 1, Priority::Normal)).await.unwrap();
    let received = async {
        loop {
            if let Ok(items) = a.receive(&any(10)).await {
                return items;
            }
        }
    };
    assert_eq!(timeout(LONG, received).await.unwrap().len(), 5);
    a.publish(batch(20, 5, 1, Priority::Normal)).await.unwrap();
    assert_eq!(b.receive(&any(10)).await.unwrap().len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_to_do_costs_one_statement_in_two_seconds() {
    let wire = rig::Wire::to(&rig::schema("node:a").await).await;
    let a = open(&wire.options).await;
    let mut receivers: Vec<_> = (0..64).map(|_| waiting(&a, worker(&["mail"], 5))).collect();
    receivers.extend((0..2).map(|_| waiting(&a, any(100))));
    sleep(Duration::from_secs(1)).await;
    let before = wire.asked();
    for _ in 0..20 {
        // Workers ask again all the time.
        sleep(Duration::from_millis(300)).await;
        receivers.drain(..3).for_each(|receiver| receiver.abort());
        receivers.extend((0..3).map(|_| waiting(&a, worker(&["mail"], 5))));
    }
    let asked = wire.asked() - before;
    assert!((2..=4).contains(&asked), "{asked} statements in six seconds");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_queue_refuses_whole_batches_and_always_takes_back() {
    let options = rig::schema("node:a").await;
    let queue = TableQueue::bounded(&options, 10).await.unwrap();
    queue.publish(batch(0, 8, 1, Priority::Normal)).await.unwrap();
    let error = queue.publish(batch(100, 3, 1, Priority::Normal)).await.expect_err("too many");
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "queue_full"));
    queue.publish(pulled_batch(200, 10, 1, Priority::Normal, "mail")).await.unwrap();
    assert_eq!(queue.depth(Runner::Node).await.unwrap().waiting, 8);
    let taken = queue.receive(&any(8)).await.unwrap();
    queue.publish(batch(100, 10, 1, Priority::Normal)).await.unwrap();
    queue.release(taken).await.unwrap();
    assert_eq!(queue.depth(Runner::Node).await.unwrap(), Depth { waiting: 18, taken: 0 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_other_nodes_do_is_counted_soon() {
    let [a, b] = two_nodes().await;
    assert_eq!(a.depth(Runner::Node).await.unwrap(), Depth::default());
    b.publish(batch(0, 100, 1, Priority::Normal)).await.unwrap();
    let seen = async {
        while a.depth(Runner::Node).await.unwrap().waiting != 100 {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON * 10, seen).await.expect("counted every second");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_released_comes_first_and_in_its_order() {
    let [a, b] = two_nodes().await;
    let sent = batch(0, 30, 1, Priority::Normal);
    a.publish(sent.clone()).await.unwrap();
    let taken = a.receive(&any(20)).await.unwrap();
    assert_eq!(taken, sent[..20]);
    a.release(taken[10..].to_vec()).await.unwrap();
    a.release(taken[..10].to_vec()).await.unwrap();
    assert_eq!(timeout(LONG, b.receive(&any(30))).await.unwrap().unwrap(), sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_behind_many_others_is_not_held_up() {
    let [a, b] = two_nodes().await;
    let mut items = pulled_batch(0, 3_000, 1, Priority::Normal, "mail");
    items.extend(pulled_batch(10_000, 3, 1, Priority::Normal, "scan"));
    a.publish(items).await.unwrap();
    let got = timeout(LONG, b.receive(&worker(&["scan", "bill"], 10))).await.unwrap().unwrap();
    assert_eq!(got, pulled_batch(10_000, 3, 1, Priority::Normal, "scan"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_lanes_than_a_look_shows_are_all_served() {
    let [a, b] = two_nodes().await;
    let one = |n: u64| dispatch(n, n as u32, Priority::Normal, ["short", "long"][n as usize % 2], ActionKind::Noop);
    a.publish((0..2_500).map(one).collect()).await.unwrap();
    let mut received = 0;
    while received < 2_500 {
        received += timeout(LONG, b.receive(&any(1_000))).await.unwrap().unwrap().len();
    }
    assert_eq!(received, 2_500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_table_it_does_not_open() {
    let options = Options { schema: campanile_testkit::postgres::schema(), ..rig::schema("node:a").await };
    let Err(error) = TableQueue::open(&options).await else { panic!("there is no table") };
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_told() {
    let [a, b] = two_nodes().await;
    let sent = batch(0, 30, 1, Priority::Normal);
    a.publish(sent[..20].to_vec()).await.unwrap();
    let taken = timeout(LONG, b.receive(&any(5))).await.unwrap().unwrap();
    let ids = |items: &[Dispatch]| items.iter().map(|item| item.execution).collect::<Vec<_>>();
    let mut missing = b.missing(&ids(&sent)).await.unwrap();
    let mut expected = ids(&[taken, sent[20..].to_vec()].concat());
    missing.sort();
    expected.sort();
    assert_eq!(missing, expected);
}
