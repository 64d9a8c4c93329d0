//! Claims: what `core::claim` judges by is loaded, and what it decides is written.

use super::failure::Done;
use super::load;
use super::write::write;
use crate::core::claim::{self, startable};
use crate::core::record::Record;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::store::{Claim, Claimed, Verdicts};
use rusqlite::Connection;
use std::sync::Arc;

pub(super) fn claim(connection: &Connection, claims: &[Claim]) -> Done<Verdicts<Claimed>> {
    let mut set = load::load(connection, claims.iter().map(|claim| claim.execution))?;
    let starting = Starting::of(claims.iter().filter_map(|claim| startable(&set, claim)));
    load::load_definitions(connection, &mut set, starting.versions)?;
    load::load_starts(connection, &mut set, &starting.pools)?;
    load::load_first_starts(connection, &mut set, starting.replayed)?;
    load::load_checkpoints(connection, &mut set, starting.tried)?;
    let verdicts = claim::claim(&mut set, claims)?;
    write(connection, set, verdicts)
}

/// What must be loaded for those that may start.
#[derive(Default)]
pub(super) struct Starting {
    versions: Vec<(JobId, u32)>,
    /// One for each that may start.
    pub(super) pools: Vec<(TenantId, Arc<str>)>,
    /// Executions that were replayed, and how many attempts they had before.
    replayed: Vec<(ExecutionId, u32)>,
    /// Executions that were handed out before.
    tried: Vec<ExecutionId>,
}

impl Starting {
    pub(super) fn of<'r>(records: impl Iterator<Item = &'r Record>) -> Self {
        let mut starting = Self::default();
        for record in records {
            let of = &record.of;
            starting.versions.push((of.job, record.job_version));
            starting.pools.push((of.tenant, of.pool.clone()));
            if record.attempts_from > 0 {
                starting.replayed.push((of.id, record.attempts_from));
            }
            if record.deliveries > 0 {
                starting.tried.push(of.id);
            }
        }
        starting
    }
}
