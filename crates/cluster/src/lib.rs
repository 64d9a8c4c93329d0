//! The coordinators of Campanile: which node tries to own which shard.
//!
//! Coordination is liveness and nothing else. Whatever a coordinator answers, and however wrong it is, a shard's epoch in
//! the store decides who may fire; so a mistake here delays work and never doubles it. Each coordinator implements
//! `model::coordinator::Coordinator` and passes the suite `testkit::conformance::coordinator`.
//!
//! - [`solo`]: one node that owns every shard.
//! - [`assign`]: how several share the shards, a pure function of their names.
//! - [`postgres`]: any number of nodes on one database.

pub mod solo;
pub mod assign;
pub mod postgres;

pub use postgres::PgCoordinator;
pub use solo::Solo;
