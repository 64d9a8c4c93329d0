//! How fast the table is, and whether it stays so while rows that were taken pile up in it. Not run by default:
//! `cargo test --release -p campanile-queue --test table_rate -- --ignored --nocapture`.

mod rig;

use campanile_model::action::ActionKind;
use campanile_model::job::Priority;
use campanile_model::queue::{Dispatch, Queue, Receive};
use campanile_queue::TableQueue;
use campanile_testkit::conformance::queue::{any, dispatch, pulled, worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::time::Instant;

const ROWS: usize = 200_000;
const BATCH: usize = 1_000;

fn rows(is_for_workers: bool) -> Vec<Dispatch> {
    let row = |n: u64| {
        let (tenant, priority) = (n as u32 % 10, Priority::ALL[n as usize % 4]);
        match is_for_workers {
            true => pulled(n, tenant, priority, ["mail", "bill", "scan"][n as usize % 3]),
            false => dispatch(n, tenant, priority, "short", ActionKind::Webhook),
        }
    };
    (0..ROWS as u64).map(row).collect()
}

async fn rate(is_for_workers: bool, want: Receive) {
    let options = rig::schema("node:a").await;
    let queue = Arc::new(TableQueue::open(&options).await.unwrap());
    println!("{}:", if is_for_workers { "for workers" } else { "for nodes" });
    for round in 0..3 {
        let items = rows(is_for_workers);
        let began = Instant::now();
        let publisher = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move {
                for part in items.chunks(BATCH) {
                    queue.publish(part.to_vec()).await.unwrap();
                }
                ROWS as f64 / began.elapsed().as_secs_f64()
            }
        });
        let received = Arc::new(AtomicUsize::new(0));
        let quarter = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let receivers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, received, want) = (Arc::clone(&queue), Arc::clone(&received), want.clone());
                let quarter = Arc::clone(&quarter);
                tokio::spawn(async move {
                    loop {
                        let items = queue.receive(&want).await.unwrap();
                        let ids: Vec<_> = items.iter().map(|item| item.execution).collect();
                        queue.ack(want.runner, &ids).await.unwrap();
                        let before = received.fetch_add(ids.len(), Ordering::Relaxed);
                        if before * 4 / ROWS < (before + ids.len()) * 4 / ROWS {
                            quarter.lock().push(began.elapsed().as_millis());
                        }
                    }
                })
            })
            .collect();
        let published = publisher.await.unwrap();
        while received.load(Ordering::Relaxed) < ROWS {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let both = ROWS as f64 / began.elapsed().as_secs_f64();
        receivers.iter().for_each(|receiver| receiver.abort());
        println!(
            "  round {round}: published {published:.0}/s, through {both:.0}/s, quarters at {:?} ms",
            quarter.lock()
        );
    }
    let items = rows(is_for_workers);
    let began = Instant::now();
    for part in items.chunks(BATCH) {
        queue.publish(part.to_vec()).await.unwrap();
    }
    println!("  only published: {:.0}/s", ROWS as f64 / began.elapsed().as_secs_f64());
    let began = Instant::now();
    let (mut received, mut calls) = (0, 0);
    while received < ROWS {
        received += queue.receive(&want).await.unwrap().len();
        calls += 1;
    }
    println!("  only received: {:.0}/s in {calls} calls", ROWS as f64 / began.elapsed().as_secs_f64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn rates() {
    rate(false, any(BATCH)).await;
    rate(true, worker(&["mail", "bill", "scan"], BATCH)).await;
}
