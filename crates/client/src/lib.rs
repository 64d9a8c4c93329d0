//! Wire types of the HTTP API, and a client for it.
//!
//! This crate owns everything that has a JSON shape on the network: [`wire`] holds the request and response types (the
//! only serde for HTTP in the project) and the one lenient parser of what people send ([`wire::input`]). It knows
//! nothing of our other crates, so that users can depend on it alone.
//!
//! Reading order: [`wire`], [`Error`], then one file per resource with a method of [`Client`] per endpoint, and last
//! [`worker`], which runs functions of yours as the handlers of jobs.

#![warn(missing_docs)]

pub mod wire;
mod error;
mod http;
mod jobs;
mod executions;
mod schedules;
mod status;
mod dead;
mod operations;
mod pools;
mod fleet;
mod endpoints;
mod why;
mod pull;
pub mod worker;

pub use dead::DeadFilter;
pub use error::Error;
pub use executions::ExecutionFilter;
pub use http::{Client, WriteOptions};
pub use jobs::JobFilter;

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;
