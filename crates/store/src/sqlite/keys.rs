//! Idempotency keys: the answer to a request is remembered in the transaction that does what the request asks for.

use super::failure::Done;
use crate::core::keys::{Remembered, Used, owner};
use campanile_model::ids::TenantId;
use campanile_model::store::{Answer, CallerKey, Idempotency};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

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

    /// What is remembered under a key, as it means to a request at `now`.
    pub(super) fn find(&mut self, tenant: TenantId, key: &CallerKey, now: Timestamp) -> Done<Option<Used>> {
        let found = self.get.query_row(params![owner(tenant).0, key.scope, key.text, now.millis()], remembered);
        Ok(found.optional()?.and_then(|remembered| remembered.judge(key, now)))
    }

    /// Remembers a key; an expired one of the same name gives way.
    pub(super) fn remember(&mut self, tenant: TenantId, answered: &Idempotency) -> Done<()> {
        let Idempotency { key, answer, expires_at } = answered;
        self.put.execute(params![
            owner(tenant).0,
            key.scope,
            key.text,
            key.fingerprint.to_be_bytes(),
            answer.status,
            answer.body,
            expires_at.millis(),
        ])?;
        Ok(())
    }
}

/// What was answered under a key that has not expired at `now`, with the fingerprint of its request.
pub(super) fn recall(
    connection: &Connection,
    tenant: TenantId,
    key: &CallerKey,
    now: Timestamp,
) -> Done<Option<(u128, Answer)>> {
    let mut get = connection.prepare_cached(include_str!("sql/keys/get.sql"))?;
    let found = get.query_row(params![tenant.0, key.scope, key.text, now.millis()], remembered).optional()?;
    Ok(found.map(|Remembered { fingerprint, answer, .. }| (fingerprint, answer)))
}

fn remembered(row: &Row<'_>) -> rusqlite::Result<Remembered> {
    Ok(Remembered {
        fingerprint: u128::from_be_bytes(row.get(0)?),
        answer: Answer { status: row.get(1)?, body: row.get(2)? },
        expires_at: Timestamp::from_millis(row.get(3)?),
    })
}

/// Forgets keys that expired before `now`.
pub(super) fn forget(connection: &Connection, now: Timestamp, limit: usize) -> Done<usize> {
    let mut forget = connection.prepare_cached(include_str!("sql/keys/forget.sql"))?;
    Ok(forget.execute(params![now.millis(), limit as i64])?)
}
