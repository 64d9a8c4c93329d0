//! Clocks, generators, invariants and conformance suites for Campanile.
//!
//! - [`clock`]: a clock that moves only when a test says so; for users' tests too.
//! - [`conformance`]: what every implementation of a contract must do, whichever it is.

pub mod clock;
pub mod conformance;

pub use clock::ManualClock;
