//! The end of attempts: what `core::complete` judges by is loaded, and what it decides is written.

use super::claims::Starting;
use super::counters;
use super::effects;
use super::failure::Done;
use super::load;
use super::write::write;
use crate::core::complete::{self, jobs_to_judge, may_start, unclaimed};
use campanile_model::store::{Applied, ChangeSeq, Completion, Verdicts};
use rusqlite::Connection;

pub(super) fn complete(connection: &Connection, completions: &[Completion]) -> Done<Verdicts<Applied>> {
    let unclaimed = unclaimed(completions)?;
    let mut set = load::load(connection, completions.iter().map(Completion::execution))?;
    let starting = Starting::of(unclaimed.iter().filter_map(|claim| may_start(&set, claim)));
    if !unclaimed.is_empty() {
        set.last_change = Some(ChangeSeq(counters::get(connection, counters::LAST_CHANGE)?));
    }
    let jobs = jobs_to_judge(&set, &unclaimed);
    load::load_versions(connection, &mut set, jobs)?;
    load::load_starts(connection, &mut set, &starting.pools)?;
    (set.effects.watches, set.effects.outbox) = effects::preload(connection, &set, completions)?;
    let logging = completions.iter().filter(|completion| !completion.logs.is_empty());
    set.reports = load::load_reports(connection, logging.map(Completion::execution))?;
    let verdicts = complete::complete(&mut set, completions)?;
    write(connection, set, verdicts)
}
