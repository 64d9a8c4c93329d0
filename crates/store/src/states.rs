//! What the SQL of a store knows of states: views and partial indexes, in a generated file, `states.sql`. It is not a
//! migration, because it follows from `lifecycle`: a store whose file is not the binary's gets the binary's when it is
//! opened. What was run is noted in `meta`, with the number of states that it knows.

use campanile_model::error::{Error, Kind, Result};
use campanile_model::lifecycle::State;

/// The key of the note.
pub(crate) const NOTE: &str = "states";

/// The statements that make the views of a file, without the indexes. A migration may change the tables below them, so
/// they are dropped before it and made anew after it.
pub(crate) fn views(file: &str) -> &str {
    file.split_once("-- Views.\n").map_or(file, |(_, views)| views)
}

/// The statements that drop the views of a file.
pub(crate) fn drops(file: &str) -> String {
    views(file).lines().filter(|line| line.starts_with("DROP VIEW ")).collect()
}

/// What is noted when a file was run.
pub(crate) fn note(file: &str) -> String {
    format!("{}\n{file}", State::CODES)
}

/// Refuses a store in which executions may be in states that this binary does not know.
pub(crate) fn check(noted: Option<&str>, location: &str) -> Result<()> {
    let known = noted.and_then(|noted| noted.split_once('\n')).and_then(|(count, _)| count.parse::<usize>().ok());
    match known {
        Some(known) if known > State::CODES => {
            let message = format!(
                "{location} was written by a newer release: it knows {known} states, this binary knows {}; it was left \
                 untouched",
                State::CODES
            );
            Err(Error::new(Kind::Conflict, message).with_code("store_newer"))
        }
        _ => Ok(()),
    }
}
