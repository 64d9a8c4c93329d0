//! Words, rules and contracts of Campanile: what a job is, when it fires, which state an execution may move to.
//!
//! This crate never does I/O (but for `fault`, in tests), never reads a clock, never draws a random number and knows no async runtime: every rule is
//! a pure function of its arguments, so that each can be tested alone. The contracts that the rest of the system is
//! built on (`Store`, `Queue`, `Coordinator`, `Action`, `Clock`) live here too, and every other crate points at this one.
//!
//! The story of a job, in reading order: a *job* is accepted and gets an id; its *schedule* says when it *fires*; each
//! fire becomes an *execution* with an id derived from (job, instant); an execution is tried in *attempts*, each with
//! a growing *fence*; the *lifecycle* table says what may follow what; and what came too late falls under *catch-up*.

pub mod ids;
pub mod time;
pub mod random;
pub mod limits;
pub mod error;
pub mod schedule;
pub mod job;
pub mod shard;
pub mod execution;
pub mod lifecycle;
pub mod retry;
pub mod overlap;
pub mod capacity;
pub mod operation;
pub mod notify;
pub mod stats;
pub mod catch_up;
pub mod filter;
pub mod fingerprint;
pub mod store;
pub mod queue;
pub mod settings;
pub mod coordinator;
pub mod action;
pub mod fault;

pub use error::{Error, FieldError, Kind, Result};
pub use ids::{EndpointId, ExecutionId, JobId, OperationId, TenantId};
pub use time::{Clock, Timestamp};
