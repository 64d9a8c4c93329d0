//! Idempotency keys: the answer to a request is remembered in the transaction that does what the request asks for.

use super::rows::{Columns, storable};
pub(super) use crate::core::keys::owner;
use crate::core::keys::{Remembered, Used};
use campanile_model::ids::TenantId;
use campanile_model::store::{Answer, CallerKey, Idempotency};
use campanile_model::time::Timestamp;
use campanile_pg::{Done, Failure, Pool, Tx};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Finds which of these keys were used before and have not expired at `now`: one answer per key. Nobody else finds or
/// remembers them until the transaction ends.
pub(super) async fn find(tx: &Tx<'_>, keys: &[(TenantId, &CallerKey)], now: Timestamp) -> Done<Vec<Option<Used>>> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let names = Names::of(keys);
    tx.query(include_str!("sql/keys/lock.sql"), &[&names.tenants, &names.scopes, &names.keys]).await?;
    let found = stored(tx, keys).await?;
    Ok(keys.iter().zip(found).map(|((_, key), found)| found?.judge(key, now)).collect())
}

/// What is remembered under these keys, expired or not: one answer per key. For writers who follow each other anyway.
pub(super) async fn stored(tx: &Tx<'_>, keys: &[(TenantId, &CallerKey)]) -> Done<Vec<Option<Remembered>>> {
    let mut remembered = vec![None; keys.len()];
    if keys.is_empty() {
        return Ok(remembered);
    }
    let names = Names::of(keys);
    let found = tx.query(include_str!("sql/keys/find.sql"), &[&names.tenants, &names.scopes, &names.keys]).await?;
    for row in &found {
        let mut columns = Columns::of(row);
        let turn: usize = columns.small()?;
        let (fingerprint, answer) = answered(&mut columns)?;
        remembered[turn] = Some(Remembered { fingerprint, answer, expires_at: columns.instant()? });
    }
    Ok(remembered)
}

/// Remembers answers; expired ones under the same key give way, and the last one under a key counts.
pub(super) async fn remember(tx: &Tx<'_>, answered: &[(TenantId, &Idempotency)]) -> Done<()> {
    let name = |&(tenant, answered): &(TenantId, &'_ Idempotency)| {
        let CallerKey { scope, text, .. } = &answered.key;
        (tenant, scope.clone(), text.clone())
    };
    let last: BTreeMap<_, _> = answered.iter().map(|one| (name(one), *one)).collect();
    if last.is_empty() {
        return Ok(());
    }
    let last: Vec<(TenantId, &Idempotency)> = last.into_values().collect();
    let keys: Vec<(TenantId, &CallerKey)> = last.iter().map(|(tenant, answered)| (*tenant, &answered.key)).collect();
    let names = Names::of(&keys);
    let fingerprints: Vec<Vec<u8>> = keys.iter().map(|(_, key)| key.fingerprint.to_be_bytes().into()).collect();
    let statuses: Vec<i64> = last.iter().map(|(_, answered)| i64::from(answered.answer.status)).collect();
    let bodies: Vec<Cow<'_, str>> = last.iter().map(|(_, answered)| storable(&answered.answer.body)).collect();
    let expiries: Vec<i64> = last.iter().map(|(_, answered)| answered.expires_at.millis()).collect();
    let sql = include_str!("sql/keys/put.sql");
    let values: [&(dyn campanile_pg::tokio_postgres::types::ToSql + Sync); 7] =
        [&names.tenants, &names.scopes, &names.keys, &fingerprints, &statuses, &bodies, &expiries];
    tx.execute(sql, &values).await?;
    Ok(())
}

/// What was answered under a key that has not expired at `now`, with the fingerprint of its request.
pub(super) async fn recall(
    pool: &Pool,
    tenant: TenantId,
    key: &CallerKey,
    now: Timestamp,
) -> Done<Option<(u128, Answer)>> {
    let (tenant, now) = (i64::from(tenant.0), now.millis());
    let (scope, text) = (storable(&key.scope), storable(&key.text));
    let found = pool.query(include_str!("sql/keys/get.sql"), &[&tenant, &scope, &text, &now]).await?;
    found.first().map(|row| answered(&mut Columns::of(row))).transpose()
}

/// Forgets keys that expired before `now`.
pub(super) async fn forget(pool: &Pool, now: Timestamp, limit: usize) -> Done<usize> {
    let forgotten = pool.execute(include_str!("sql/keys/forget.sql"), &[&now.millis(), &(limit as i64)]).await?;
    Ok(forgotten as usize)
}

fn answered(columns: &mut Columns<'_>) -> Done<(u128, Answer)> {
    let fingerprint: &[u8] = columns.next()?;
    let fingerprint = fingerprint.try_into().map_err(|_| Failure::corrupt("fingerprint"))?;
    Ok((u128::from_be_bytes(fingerprint), Answer { status: columns.small()?, body: columns.next()? }))
}

struct Names<'k> {
    tenants: Vec<i64>,
    scopes: Vec<Cow<'k, str>>,
    keys: Vec<Cow<'k, str>>,
}

impl<'k> Names<'k> {
    fn of(keys: &[(TenantId, &'k CallerKey)]) -> Self {
        Self {
            tenants: keys.iter().map(|(tenant, _)| i64::from(owner(*tenant).0)).collect(),
            scopes: keys.iter().map(|(_, key)| storable(&key.scope)).collect(),
            keys: keys.iter().map(|(_, key)| storable(&key.text)).collect(),
        }
    }
}
