//! The queues of Campanile: how ready executions reach whoever runs them.
//!
//! A queue is a hint and the store is the truth. What a queue loses is published again by the reaper, what it delivers
//! twice loses its claim; so no queue here writes to a disk of its own, and none decides a state. Each implements
//! `model::queue::Queue` and passes the suite `testkit::conformance::queue`.
//!
//! - [`memory`]: inside the process; fair between tenants and priorities. What one node needs, and nothing to install.
//! - [`table`]: a table of PostgreSQL that any number of nodes share, with the same turns.
//! - [`near`]: both: in the process while a node is alone, in the table while it is not. What PostgreSQL is used with.
//!
//! What both are made of: `want` (what a receiver asks for), `waiters` (receivers in line), `turns` (who was served
//! longest ago goes first), `shares` (of the priorities).

pub mod memory;
pub mod table;
pub mod near;

mod want;
mod waiters;
mod turns;
mod shares;

pub use memory::MemoryQueue;
pub use near::NearQueue;
pub use table::TableQueue;

use campanile_model::action::Runner;
use campanile_model::queue::Dispatch;

/// The kinds of runners. What is for one never meets what is for the other.
const RUNNERS: [Runner; 2] = [Runner::Node, Runner::Worker];

/// How many of a batch are for each of them.
fn counts_of(batch: &[Dispatch]) -> [usize; 2] {
    RUNNERS.map(|runner| batch.iter().filter(|item| item.action.runner() == runner).count())
}
