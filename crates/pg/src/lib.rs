//! How Campanile talks to PostgreSQL: one place that knows connections, so that the store, the queue and the coordinator
//! know only their SQL.
//!
//! Reading order: [`target`] (where the database is, and on which terms we talk to it), [`pool`] (connections that are
//! shared, and transactions whose outcome is always found out), [`listen`] (doorbells), [`values`] (our types as columns),
//! [`failure`] (its errors as ours).

pub mod target;
pub mod pool;
pub mod listen;
pub mod values;
pub mod failure;

pub use failure::{Done, Failure};
pub use listen::Listener;
pub use pool::{Pool, Tx, statements};
pub use target::{Options, Target};
pub use tokio_postgres;
pub use values::{Uuid, WrittenBy};
