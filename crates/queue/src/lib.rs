//! The queues of Campanile: how ready executions reach whoever runs them.
//!
//! A queue is a hint and the store is the truth. What a queue loses is published again by the reaper, what it delivers
//! twice loses its claim; so no queue here writes to a disk of its own, and none decides a state. Each implements
//! `model::queue::Queue` and passes the suite `testkit::conformance::queue`.
//!
//! - [`memory`]: inside the process; fair between tenants and priorities. What one node needs, and nothing to install.

pub mod memory;

pub use memory::MemoryQueue;
