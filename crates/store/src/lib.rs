//! The stores of Campanile: implementations of `campanile_model::store`.
//!
//! `core` has every rule, once. Each database has a folder with the same file names, which loads what a batch is about,
//! has the core judge it, and writes what has changed: it owns durability and locks, and never a rule. SQL lives in `.sql`
//! files named by verb.

pub mod sqlite;
pub mod postgres;
pub mod copy;

mod core;
mod states;
mod clock;
mod encode;
mod definition;
mod records;
mod prefix;
mod search;
mod step;
