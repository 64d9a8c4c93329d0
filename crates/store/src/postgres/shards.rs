//! Shards: who may fire. Epochs live beside the executions and are compared in the transaction that fires.
//!
//! A fire shares the locks of its shards' rows until it ends; a take-over updates them. So a take-over waits for fires
//! that have compared before it, and those that come after it see its epoch.

use super::rows::Columns;
use crate::core::shards::ShardSet;
use campanile_model::fault::{Bug, planted};
use campanile_model::shard::{Epoch, ShardFence, ShardId};
use campanile_model::store::ShardOwner;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::{Done, Pool, Tx};

/// Bumps the epochs that are still those that were seen.
pub(super) async fn open(tx: &Tx<'_>, seen: &[ShardFence], owner: &str) -> Done<Vec<ShardFence>> {
    let mut ordered: Vec<(i64, i64)> =
        seen.iter().map(|fence| (i64::from(fence.shard.0), fence.epoch.0 as i64)).collect();
    ordered.sort_unstable();
    ordered.dedup_by_key(|(shard, _)| *shard);
    let (shards, epochs): (Vec<i64>, Vec<i64>) = ordered.into_iter().unzip();
    let found = tx.query(include_str!("sql/shards/open.sql"), &[&shards, &epochs, &owner]).await?;
    let opened = found.iter().map(|row| fence(&mut Columns::of(row))).collect::<Done<Vec<_>>>()?;
    Ok(seen.iter().filter_map(|seen| opened.iter().find(|fence| fence.shard == seen.shard)).copied().collect())
}

pub(super) async fn load(pool: &Pool) -> Done<Vec<ShardFence>> {
    let found = pool.query(include_str!("sql/shards/list.sql"), &[]).await?;
    found.iter().map(|row| fence(&mut Columns::of(row))).collect()
}

/// Reads who owns which shard.
pub(super) async fn list(pool: &Pool) -> Done<Vec<ShardOwner>> {
    let found = pool.query(include_str!("sql/shards/list_owners.sql"), &[]).await?;
    let owner = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(ShardOwner { fence: fence(&mut columns)?, owner: columns.next()? })
    };
    found.iter().map(owner).collect()
}

/// Those of `shards` for which `fences` do not hold the current epoch. Nobody takes any of them over until the transaction
/// ends.
pub(super) async fn lost(tx: &Tx<'_>, shards: &ShardSet, fences: &[ShardFence]) -> Done<Vec<ShardId>> {
    let ordered: Vec<i64> = shards.iter().map(|shard| i64::from(shard.0)).collect();
    let mut sql = std::borrow::Cow::from(include_str!("sql/shards/lock.sql"));
    if planted(Bug("epoch-not-held")) {
        // oban#1488: true when it was read; a take-over does not wait for a key share.
        sql = sql.replace("FOR SHARE", "FOR KEY SHARE").into();
    }
    let found = tx.query(&sql, &[&ordered]).await?;
    let current = found.iter().map(|row| fence(&mut Columns::of(row))).collect::<Done<Vec<_>>>()?;
    Ok(shards.lost(&current, fences))
}

fn fence(columns: &mut Columns<'_>) -> Done<ShardFence> {
    Ok(ShardFence { shard: ShardId(columns.small()?), epoch: Epoch(columns.number()?) })
}

#[cfg(test)]
mod tests {
    use super::super::{Options, PostgresStore};
    use super::*;
    use campanile_testkit::postgres;
    use std::time::Duration;

    #[tokio::test]
    async fn a_take_over_waits_for_a_fire_and_refuses_the_next() {
        let options =
            Options { schema: postgres::schema(), connections: 4, ..Options::new(postgres::url(), "node:test") };
        let store = PostgresStore::open(&options).await.unwrap();
        let pool = Pool::new(&options).unwrap();
        let shards: Vec<ShardId> = [9, 3, 200].map(ShardId).into();
        let nobody: Vec<ShardFence> = shards.iter().map(|&shard| ShardFence { shard, epoch: Epoch(0) }).collect();
        let what = (nobody, "a");
        let take = pool.write(&what, |tx, (seen, owner)| Box::pin(open(tx, seen, owner)));
        let fences = take.await.unwrap();
        assert_eq!(fences, [9, 3, 200].map(|shard| ShardFence { shard: ShardId(shard), epoch: Epoch(1) }));
        // The owner fires: it has compared its epochs, and not committed yet.
        let what = (shards.clone(), fences.clone(), pool.clone());
        let firing = pool.write(&what, |tx, (shards, fences, pool)| {
            Box::pin(async move {
                assert_eq!(lost(tx, &ShardSet::of(shards.iter().copied()), fences).await?, []);
                let taking = tokio::spawn({
                    let (pool, what) = (pool.clone(), fences.clone());
                    async move { pool.write(&what, |tx, seen| Box::pin(open(tx, seen, "b"))).await }
                });
                tokio::time::sleep(Duration::from_millis(200)).await;
                assert!(!taking.is_finished(), "whoever takes over waits");
                Ok(taking)
            })
        });
        let taken = firing.await.unwrap().await.unwrap().unwrap();
        assert!(taken.iter().all(|fence| fence.epoch == Epoch(2)), "{taken:?}");
        let judge = |fences: Vec<ShardFence>| {
            let (pool, what) = (pool.clone(), (shards.clone(), fences));
            async move {
                pool.write(&what, |tx, (shards, fences)| {
                    Box::pin(async move { lost(tx, &ShardSet::of(shards.iter().copied()), fences).await })
                })
                .await
                .unwrap()
            }
        };
        assert_eq!(judge(fences).await, [3, 9, 200].map(ShardId));
        assert_eq!(judge(taken).await, []);
        let owners = list(&pool).await.unwrap();
        assert!(owners.len() == 3 && owners.iter().all(|shard| shard.owner == "b"), "{owners:?}");
        drop(store);
        pool.execute(&format!("DROP SCHEMA {} CASCADE", options.schema), &[]).await.unwrap();
    }

    #[tokio::test]
    async fn a_fire_that_waits_for_a_take_over_sees_its_epoch() {
        let options =
            Options { schema: postgres::schema(), connections: 4, ..Options::new(postgres::url(), "node:test") };
        let store = PostgresStore::open(&options).await.unwrap();
        let pool = Pool::new(&options).unwrap();
        let shards = vec![ShardId(3), ShardId(7)];
        let nobody: Vec<ShardFence> = shards.iter().map(|&shard| ShardFence { shard, epoch: Epoch(0) }).collect();
        let fences = pool.write(&nobody, |tx, seen| Box::pin(open(tx, seen, "a"))).await.unwrap();
        let what = (shards, fences, pool.clone());
        let taking = pool.write(&what, |tx, (shards, fences, pool)| {
            Box::pin(async move {
                open(tx, &fences[..1], "b").await?;
                let firing = tokio::spawn({
                    let (pool, what) = (pool.clone(), (shards.clone(), fences.clone()));
                    async move {
                        pool.write(&what, |tx, (shards, fences)| {
                            Box::pin(async move { lost(tx, &ShardSet::of(shards.iter().copied()), fences).await })
                        })
                        .await
                    }
                });
                tokio::time::sleep(Duration::from_millis(200)).await;
                assert!(!firing.is_finished(), "whoever fires waits");
                Ok(firing)
            })
        });
        let lost = taking.await.unwrap().await.unwrap().unwrap();
        assert_eq!(lost, [ShardId(3)]);
        drop(store);
        pool.execute(&format!("DROP SCHEMA {} CASCADE", options.schema), &[]).await.unwrap();
    }
}
