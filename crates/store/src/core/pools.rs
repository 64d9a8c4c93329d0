//! The limits of pools: whether one more of a pool may start.

use super::set::WorkingSet;
use campanile_model::execution::Reason;
use campanile_model::ids::TenantId;
use campanile_model::lifecycle::{self, Event};
use std::sync::Arc;

/// A pool that has limits.
pub(crate) struct Pool {
    pub(crate) tenant: TenantId,
    pub(crate) name: Arc<str>,
    pub(crate) paused: bool,
    /// How many may run, and how many did before this batch.
    pub(crate) slots: Option<(i64, i64)>,
}

impl Pool {
    /// Whether this is the pool of that name.
    pub(super) fn is(&self, tenant: TenantId, name: &Arc<str>) -> bool {
        self.tenant == tenant && (Arc::ptr_eq(&self.name, name) || self.name == *name)
    }

    /// Why nothing more of the pool may start now.
    pub(super) fn refuses(&self, set: &WorkingSet<'_>) -> Option<Reason> {
        let changed = || set.effects.sums.changed(self.tenant, &self.name, lifecycle::target(Event::Claim));
        match self.slots {
            _ if self.paused => Some(Reason::Paused),
            Some((slots, ran)) if ran + changed() >= slots => Some(Reason::QuotaDeferred),
            _ => None,
        }
    }
}
