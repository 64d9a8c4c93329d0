//! The table passes the same suite as every queue, on a real PostgreSQL.

mod rig;

use campanile_queue::TableQueue;
use std::sync::Arc;

campanile_testkit::queue_suite!(table, Arc::new(TableQueue::open(&rig::schema("node:a").await).await.unwrap()));
