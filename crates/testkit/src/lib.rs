//! Clocks, generators, invariants and conformance suites for Campanile.
//!
//! - [`clock`]: a clock that moves only when a test says so; for users' tests too.
//! - [`generate`]: jobs, fires, claims and completions by number, and arbitrary ones.
//! - [`fuzz`]: inputs that nobody thought of.
//! - [`postgres`]: where tests find it.
//! - [`conformance`]: what every implementation of a contract must do, whichever it is.

pub mod clock;
pub mod generate;
pub mod fuzz;
pub mod postgres;
pub mod conformance;

pub use clock::ManualClock;
