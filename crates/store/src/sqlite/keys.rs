//! Idempotency keys: the answer to a request is remembered in the transaction that does what the request asks for.

use super::failure::Done;
use campanile_model::fault::{Bug, planted};
use campanile_model::ids::TenantId;
use campanile_model::store::{Answer, Idempotency};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

/// A key that was used before.
pub(super) enum Used {
    /// For the same request: this was the answer.
    Same(Answer),
    /// For another request.
    Other,
}

/// The statements that find and remember keys.
pub(super) struct Keys<'c> {
    get: CachedStatement<'c>,
    put: CachedStatement<'c>,
}

impl<'c> Keys<'c> {
    pub(super) fn prepare(connection: &'c Connection) -> Done<Self> {
        Ok(Self {
            get: connection.prepare_cached(include_str!("sql/keys/get.sql"))?,
            put: connection.prepare_cached(include_str!("sql/keys/put.sql"))?,
        })
    }

    /// Looks for a key that has not expired at `now`.
    pub(super) fn find(&mut self, tenant: TenantId, key: &Idempotency, now: Timestamp) -> Done<Option<Used>> {
        if planted(Bug("key-in-flight")) {
            // gofastr#198: the first one is not done yet, so the second finds nothing.
            return Ok(None);
        }
        let tenant = shared(tenant);
        let found = self.get.query_row(params![tenant.0, key.scope, key.key, now.millis()], remembered);
        Ok(found.optional()?.map(|(fingerprint, answer)| {
            match fingerprint == key.fingerprint || planted(Bug("key-without-body")) {
                true => Used::Same(answer),
                false => Used::Other,
            }
        }))
    }

    /// Remembers a key; an expired one of the same name gives way.
    pub(super) fn remember(&mut self, tenant: TenantId, key: &Idempotency) -> Done<()> {
        self.put.execute(params![
            shared(tenant).0,
            key.scope,
            key.key,
            key.fingerprint.to_be_bytes(),
            key.answer.status,
            key.answer.body,
            key.expires_at.millis(),
        ])?;
        Ok(())
    }
}

/// Whose keys these are: nestjs-agentic#126 had one room for all tenants.
fn shared(tenant: TenantId) -> TenantId {
    if planted(Bug("keys-of-all-tenants")) { TenantId::DEFAULT } else { tenant }
}

/// What was answered under a key that has not expired at `now`, with the fingerprint of its request.
pub(super) fn recall(
    connection: &Connection,
    tenant: TenantId,
    scope: &str,
    key: &str,
    now: Timestamp,
) -> Done<Option<(u128, Answer)>> {
    let mut get = connection.prepare_cached(include_str!("sql/keys/get.sql"))?;
    Ok(get.query_row(params![tenant.0, scope, key, now.millis()], remembered).optional()?)
}

fn remembered(row: &Row<'_>) -> rusqlite::Result<(u128, Answer)> {
    Ok((u128::from_be_bytes(row.get(0)?), Answer { status: row.get(1)?, body: row.get(2)? }))
}

/// Forgets keys that expired before `now`.
pub(super) fn forget(connection: &Connection, now: Timestamp, limit: usize) -> Done<usize> {
    let mut forget = connection.prepare_cached(include_str!("sql/keys/forget.sql"))?;
    Ok(forget.execute(params![now.millis(), limit as i64])?)
}
