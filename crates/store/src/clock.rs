//! Whose clock says when a change of a job counts: the store's own, read in the transaction of the change. That of a database server
//! is the server's, so that all nodes have the same.

use campanile_model::time::{Clock, Timestamp};
use std::sync::Arc;

/// A clock that somebody gave, or the store's own.
#[derive(Clone, Default)]
pub(crate) struct StoreClock(pub(crate) Option<Arc<dyn Clock>>);

impl StoreClock {
    /// What the given clock shows, if there is one.
    pub(crate) fn given(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|clock| clock.now())
    }

    /// What the given clock shows, or this machine's.
    pub(crate) fn now(&self) -> Timestamp {
        self.given().unwrap_or_else(machine_now)
    }
}

#[allow(clippy::disallowed_methods, reason = "the embedded store is the truth about when a change counts")]
fn machine_now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(since.as_millis() as i64)
}
