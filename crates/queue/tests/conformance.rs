//! Every queue passes the same suite.

use campanile_queue::MemoryQueue;
use std::sync::Arc;

campanile_testkit::queue_suite!(memory, Arc::new(MemoryQueue::new()));
