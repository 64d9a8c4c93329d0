//! A worker that is told to end by signals. Alone in its process, since signals are for all of it.

#![allow(missing_docs, reason = "the names say it")]

mod fake;

use campanile_client::worker::{Ctx, Outcome, Worker};
use fake::{Fake, execution};
use rustix::process::{Signal, getpid, kill_process};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn one_signal_ends_it_in_order_and_two_without_the_wait() {
    let (fake, client) = Fake::start().await;
    let worker = |grace| {
        Worker::new(client.clone()).grace(Duration::from_secs(grace)).handler("h", |_: Value, ctx: Ctx| async move {
            ctx.cancelled().await;
            Err::<(), _>(Outcome::Cancelled)
        })
    };
    let idle = tokio::spawn(worker(600).run());
    fake.until("it waits for work", |book| book.polling == 1).await;
    kill_process(getpid(), Signal::TERM).unwrap();
    assert_eq!(idle.await.unwrap().unwrap().claimed, 0);

    fake.with(|book| book.queue.push_back(execution("e1", "h", json!(null))));
    let busy = tokio::spawn(worker(600).run());
    fake.until("it runs", |book| !book.beats.is_empty()).await;
    // Signals that come at once count as one.
    while !busy.is_finished() {
        kill_process(getpid(), Signal::INT).unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let counts = busy.await.unwrap().unwrap();
    assert_eq!((counts.claimed, counts.completed), (1, 1));
    fake.with(|book| assert_eq!(book.completions[0].complete.error.as_ref().unwrap().kind, "worker_stopped"));
}
