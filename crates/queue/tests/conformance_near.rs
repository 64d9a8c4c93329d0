//! The queue that is near while its node is alone passes the same suite as every queue, both ways, on a real PostgreSQL.

mod rig;

use campanile_model::queue::Queue;
use campanile_queue::{NearQueue, TableQueue};
use std::sync::Arc;

async fn queue(is_alone: bool) -> Arc<NearQueue> {
    let queue = NearQueue::new(TableQueue::open(&rig::schema("node:a").await).await.unwrap());
    queue.alone(is_alone);
    Arc::new(queue)
}

campanile_testkit::queue_suite!(alone, queue(true).await);
campanile_testkit::queue_suite!(among_others, queue(false).await);
