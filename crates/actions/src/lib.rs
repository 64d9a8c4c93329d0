//! What a Campanile job can do.
//!
//! One file per action; each implements `model::action::Action` and passes the suite `testkit::conformance::action`. An
//! action gets one attempt and says what came of it. Whether that is tried again is decided by `model::lifecycle` and
//! written by the engine: nothing here knows a store or a queue.
//!
//! In reading order:
//! - [`registry`]: all of them, as the engine and the API get them; and their [`Options`].
//! - [`noop`] does nothing, at once. [`worker`] is what external workers pull, of which a node only knows the name.
//! - [`webhook`] sends a signed HTTP request. [`events`] sends the same way, though it is no action: it tells endpoints what
//!   became of jobs.
//! - [`client`] is what both send with; [`guard`] decides where it may go.

pub mod registry;
pub mod noop;
pub mod worker;
pub mod webhook;
pub mod events;
pub mod client;
pub mod guard;
mod config;

pub use client::Client;
pub use events::EventSender;
pub use guard::Targets;
pub use registry::{Options, standard};
pub use webhook::sign::Secret;
