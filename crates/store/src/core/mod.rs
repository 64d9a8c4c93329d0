//! The judge of all stores: every decision about executions and jobs, written once, as pure functions over records.
//!
//! A backend loads and locks what a batch is about into a `WorkingSet`, calls one verb of this module, and writes what
//! the set says has changed; all in one transaction. It decides nothing. So what the conformance suites, the simulation
//! and the planted bugs show about a rule, they show about every store.
//!
//! Nothing here knows a database, a clock or a lock: instants come with the batch, and what must not change meanwhile is
//! locked by whoever has loaded it.
//!
//! Reading order: `record` and `set` (what is judged), `change` and `effects` (what follows from every change of state, with
//! `sums`, `watches`, `outbox` and `event`), then the verbs in the order of the path: `jobs`, `fire`, `claim` (with `pools`
//! and `overlap`), `lease`, `complete`, `cancel`, `dead`; then `keys`, `shards`, `skips`, `retention` and small `rules`.

pub(crate) mod record;
pub(crate) mod set;
pub(crate) mod change;
pub(crate) mod effects;
pub(crate) mod sums;
pub(crate) mod watches;
pub(crate) mod outbox;
pub(crate) mod event;
pub(crate) mod jobs;
pub(crate) mod fire;
pub(crate) mod claim;
pub(crate) mod pools;
pub(crate) mod overlap;
pub(crate) mod lease;
pub(crate) mod complete;
pub(crate) mod cancel;
pub(crate) mod dead;
pub(crate) mod reports;
pub(crate) mod keys;
pub(crate) mod shards;
pub(crate) mod skips;
pub(crate) mod retention;
pub(crate) mod rules;
#[cfg(test)]
mod tests;

pub(crate) use campanile_model::error::Result;
use campanile_model::error::{Error, Kind};

/// Something that a backend must have loaded, or that every release has written, is not there.
fn missing(what: &str) -> Error {
    Error::new(Kind::Corrupt, format!("cannot read the stored {what}"))
}
