//! The table that the store's migrations make is the one that the queue wants.

use campanile_model::action::Runner;
use campanile_model::job::Priority;
use campanile_model::queue::{Depth, Queue};
use campanile_pg::Options;
use campanile_queue::TableQueue;
use campanile_store::postgres::PostgresStore;
use campanile_testkit::conformance::queue::{any, batch};
use campanile_testkit::postgres;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_store_makes_the_table() {
    let options = Options { schema: postgres::schema(), ..Options::new(postgres::url(), "node:a") };
    PostgresStore::open(&options).await.unwrap();
    let queue = TableQueue::open(&options).await.unwrap();
    let sent = batch(0, 10, 1, Priority::Normal);
    queue.publish(sent.clone()).await.unwrap();
    assert_eq!(queue.receive(&any(10)).await.unwrap(), sent);
    assert_eq!(queue.depth(Runner::Node).await.unwrap(), Depth { waiting: 0, taken: 10 });
}
