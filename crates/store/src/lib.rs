//! The stores of Campanile: implementations of `campanile_model::store`.
//!
//! A store owns durability and the guards of every write; it never owns a rule. Which state may follow which comes from
//! `lifecycle`, who may write from the fences, and both are bound as parameters. SQL lives in `.sql` files named by verb.
//! Each database has a folder with the same file names, so that two of them can be compared side by side.

pub mod sqlite;
pub mod postgres;
pub mod copy;

mod core;
mod states;
mod encode;
mod records;
mod prefix;
mod search;
mod step;
