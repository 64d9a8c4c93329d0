//! Idempotency keys: the answer to a request is remembered in the transaction that does what the request asks for.

use campanile_model::fault::{Bug, planted};
use campanile_model::ids::TenantId;
use campanile_model::store::{Answer, CallerKey, Idempotency};
use campanile_model::time::Timestamp;

/// A key that was used before.
pub(crate) enum Used {
    /// For the same request: this was the answer.
    Same(Answer),
    Other,
}

/// What is remembered under a key.
#[derive(Clone)]
pub(crate) struct Remembered {
    pub(crate) fingerprint: u128,
    pub(crate) answer: Answer,
    pub(crate) expires_at: Timestamp,
}

impl Remembered {
    /// What a request leaves under its key.
    pub(crate) fn of(answered: &Idempotency) -> Self {
        let Idempotency { key, answer, expires_at } = answered;
        Self { fingerprint: key.fingerprint, answer: answer.clone(), expires_at: *expires_at }
    }

    /// What this means to a request under the key at `now`; nothing, once it has expired.
    pub(crate) fn judge(&self, key: &CallerKey, now: Timestamp) -> Option<Used> {
        // gofastr#198: the first one is not done yet, so the second finds nothing.
        if self.expires_at <= now || planted(Bug("key-in-flight")) {
            return None;
        }
        match self.fingerprint == key.fingerprint || planted(Bug("key-without-body")) {
            true => Some(Used::Same(self.answer.clone())),
            false => Some(Used::Other),
        }
    }
}

/// Whose keys these are.
pub(crate) fn owner(tenant: TenantId) -> TenantId {
    // nestjs-agentic#126: one room for all tenants.
    if planted(Bug("keys-of-all-tenants")) { TenantId::DEFAULT } else { tenant }
}
