//! What may follow from completions, as it is loaded. Mostly nothing is watched and nobody wants events, and then it costs a
//! look at what the writer knows.

use super::failure::Done;
use super::known;
use super::outbox;
use super::watches;
use crate::core::effects::Preload;
use crate::core::outbox::Outbox;
use crate::core::set::WorkingSet;
use crate::core::watches::Watches;
use campanile_model::store::Completion;
use rusqlite::Connection;

/// Loads what may follow from completions.
pub(super) fn preload(
    connection: &Connection,
    set: &WorkingSet<'_>,
    completions: &[Completion],
) -> Done<(Watches, Outbox)> {
    if known::ask(connection, |known| known.is_nothing())? {
        return Ok(Default::default());
    }
    let Preload { succeeding, ending, events, .. } = Preload::of(set, completions);
    Ok((watches::load(connection, &succeeding, &ending)?, outbox::load_wanting(connection, &events)?))
}
