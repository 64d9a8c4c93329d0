//! Whether both sides hold the same: every table is read as a whole on both, at the same time, and added up.
//!
//! A row's checksum is that of its bytes, all columns included, so a job's cursor counts like its name. Sums do not
//! depend on the order of rows. They are kept in buckets by key: where two sums differ, only the rows of a few buckets
//! are read again to say which rows those are.

use super::tables::Resolved;
use super::{Doing, Progress, tuples, with};
use crate::sqlite::source::Source;
use campanile_model::error::{Error, Kind, Result};
use campanile_pg::Pool;
use futures_util::StreamExt;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const BUCKETS: usize = 4_096;
/// Buckets that are looked into, and rows that are named.
const NAMED: (usize, usize) = (4, 5);

/// A table on both sides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compared {
    pub table: &'static str,
    /// Rows of the source and of the target.
    pub rows: (u64, u64),
    /// Checksums of the source and of the target.
    pub checksums: (u64, u64),
    /// Some of the rows that differ, for people.
    pub differences: Vec<String>,
}

impl Compared {
    /// Whether both sides hold the same.
    pub fn is_same(&self) -> bool {
        self.rows.0 == self.rows.1 && self.checksums.0 == self.checksums.1 && self.differences.is_empty()
    }
}

/// What the rows of one side add up to.
struct Sums {
    rows: u64,
    buckets: Vec<u64>,
}

impl Sums {
    fn new() -> Self {
        Self { rows: 0, buckets: vec![0; BUCKETS] }
    }

    fn add(&mut self, row: &[u8], key_columns: usize) {
        self.rows += 1;
        let sum = &mut self.buckets[bucket(tuples::key(row, key_columns))];
        *sum = sum.wrapping_add(xxh3_64(row));
    }

    fn total(&self) -> u64 {
        self.buckets.iter().fold(0, |total, sum| total.wrapping_add(*sum))
    }
}

fn bucket(key: &[u8]) -> usize {
    xxh3_64(key) as usize % BUCKETS
}

pub(super) async fn compare(
    source: &Arc<Mutex<Source>>,
    pool: &Pool,
    tables: &[Arc<Resolved>],
    told: &mut (dyn FnMut(Progress) + Send),
) -> Result<Vec<Compared>> {
    let mut compared = Vec::new();
    for table in tables {
        let count = table.table.count();
        let total = with(source, move |source| source.number(&count)).await? as u64;
        told(Progress { table: table.table.name, doing: Doing::Comparing, done: 0, total });
        compared.push(compare_table(source, pool, table).await?);
        told(Progress { table: table.table.name, doing: Doing::Comparing, done: total, total });
    }
    Ok(compared)
}

async fn compare_table(source: &Arc<Mutex<Source>>, pool: &Pool, table: &Arc<Resolved>) -> Result<Compared> {
    let keys = table.table.key.len();
    let ours = fold_source(source, table, Sums::new(), move |sums, row| sums.add(row, keys));
    let theirs = fold_target(pool, table, Sums::new(), move |sums, row| sums.add(row, keys));
    let (ours, theirs) = futures_util::try_join!(ours, theirs)?;
    let apart: Vec<usize> = (0..BUCKETS).filter(|&at| ours.buckets[at] != theirs.buckets[at]).collect();
    let differences = if apart.is_empty() { Vec::new() } else { name(source, pool, table, apart).await? };
    Ok(Compared {
        table: table.table.name,
        rows: (ours.rows, theirs.rows),
        checksums: (ours.total(), theirs.total()),
        differences,
    })
}

/// Names some of the rows in buckets whose sums differ.
async fn name(
    source: &Arc<Mutex<Source>>,
    pool: &Pool,
    table: &Arc<Resolved>,
    mut apart: Vec<usize>,
) -> Result<Vec<String>> {
    type Found = BTreeMap<Vec<u8>, u64>;
    apart.truncate(NAMED.0);
    let keys = table.table.key.len();
    let collect = move |found: &mut Found, row: &[u8]| {
        let key = tuples::key(row, keys);
        if apart.contains(&bucket(key)) {
            // Rows that the target has twice must not look like one.
            let sum = found.entry(key.to_vec()).or_default();
            *sum = sum.wrapping_add(xxh3_64(row));
        }
    };
    let ours = fold_source(source, table, Found::new(), collect.clone());
    let theirs = fold_target(pool, table, Found::new(), collect);
    let (ours, theirs) = futures_util::try_join!(ours, theirs)?;
    let missing = ours.keys().filter(|key| !theirs.contains_key(*key)).map(|key| ("is missing", key));
    let added = theirs.keys().filter(|key| !ours.contains_key(*key)).map(|key| ("is only there", key));
    let changed = ours.iter().filter(|(key, sum)| theirs.get(*key).is_some_and(|other| other != *sum));
    let all = missing.chain(added).chain(changed.map(|(key, _)| ("differs", key)));
    Ok(all.take(NAMED.1).map(|(how, key)| format!("{} {how}", tuples::show(key, table))).collect())
}

async fn fold_source<T: Send + 'static>(
    source: &Arc<Mutex<Source>>,
    table: &Arc<Resolved>,
    mut folded: T,
    add: impl Fn(&mut T, &[u8]) + Send + 'static,
) -> Result<T> {
    let table = table.clone();
    with(source, move |source| {
        let mut rows = tuples::Rows::default();
        source.read(&table.select(0), |row| {
            rows.clear();
            add(&mut folded, rows.push(row, &table)?);
            Ok(())
        })?;
        Ok(folded)
    })
    .await
}

async fn fold_target<T>(pool: &Pool, table: &Resolved, mut folded: T, add: impl Fn(&mut T, &[u8])) -> Result<T> {
    let lost = |error| campanile_pg::failure::classify(&error, pool.target().location());
    let client = pool.get().await?;
    let mut stream = std::pin::pin!(client.copy_out(&table.copy_out()).await.map_err(lost)?);
    let mut cutter = tuples::Cutter::default();
    while let Some(bytes) = stream.next().await {
        cutter.feed(&bytes.map_err(lost)?, |row| add(&mut folded, row))?;
    }
    if !cutter.is_whole() {
        return Err(Error::new(Kind::Unavailable, format!("{} ended in the middle of a row", table.table.name)));
    }
    Ok(folded)
}
