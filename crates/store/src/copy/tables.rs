//! What is copied: the tables with their keys, and the columns that both sides have.

use super::tuples::Type;
use crate::sqlite::source::Source;
use campanile_model::error::{Error, Kind, Result};
use campanile_model::ids::ExecutionId;
use campanile_model::time::Timestamp;
use campanile_pg::Pool;
use std::collections::HashMap;
use std::sync::Arc;

/// A table of both sides.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// What tells its rows apart, in the source at least.
    pub(super) key: &'static [&'static str],
    /// Which rows are copied, as SQL for both sides.
    only: &'static str,
}

impl Table {
    const fn new(name: &'static str, key: &'static [&'static str]) -> Self {
        Self { name, key, only: "true" }
    }

    /// SQL that counts the rows.
    pub(super) fn count(&self) -> String {
        format!("SELECT count(*) FROM \"{}\" WHERE {}", self.name, self.only)
    }
}

/// Everything but `meta`, which has facts of its own on each side, and the tail of the source's history. Shards come last: a target that has them has the rest.
pub(super) const TABLES: &[Table] = &[
    Table::new("tenants", &["id"]),
    // The target has a sequence for fences.
    Table { only: "name <> 'fence'", ..Table::new("counters", &["name"]) },
    Table::new("jobs", &["id"]),
    // Of the source's jobs.
    Table::new("cursors", &["job_id"]),
    Table::new("job_versions", &["job_id", "version"]),
    Table::new("executions", &["id"]),
    // Of the source's executions.
    Table::new("history", &["execution_id"]),
    Table::new("attempts", &["execution_id", "fence"]),
    Table::new("responses", &["execution_id", "fence"]),
    Table::new("progress", &["execution_id"]),
    Table::new("logs", &["execution_id", "seq"]),
    Table::new("skips", &["job_id", "to_at", "from_at", "reason"]),
    Table::new("pruned_runs", &["job_id", "fire_at"]),
    Table::new("idempotency", &["tenant", "scope", "key"]),
    Table::new("counts", &["tenant", "pool", "state"]),
    Table::new("rollups", &["minute", "tenant", "pool", "target"]),
    Table::new("dead_groups", &["tenant", "fingerprint"]),
    Table::new("overlaps", &["job_id", "execution_id"]),
    Table::new("records", &["kind", "tenant", "id"]),
    Table::new("outbox", &["seq"]),
    Table::new("watches", &["execution_id", "kind"]),
    Table::new("success_watches", &["job_id"]),
    Table::new("failing", &["job_id"]),
    Table::new("shards", &["shard"]),
];

/// The columns that only the target has: the shard follows from the job's id.
const SHARDS: [(&str, &str); 2] = [("jobs", "shard"), ("cursors", "shard")];
/// The columns that only the source has: the target has them in `cursors`.
const CURSORS: [(&str, &str); 2] = [("jobs", "next_fire_at"), ("jobs", "fires_left")];

/// A column of the target, and what it holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
    /// Whether the source has it; otherwise it follows from the key.
    pub(super) stored: bool,
}

/// A table whose columns are known. Those of the key come first.
#[derive(Debug)]
pub(super) struct Resolved {
    pub(super) table: &'static Table,
    pub(super) columns: Vec<Column>,
    copy_in: String,
}

impl Resolved {
    fn new(table: &'static Table, columns: Vec<Column>) -> Self {
        let names: Vec<String> = columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
        let copy_in = format!("COPY \"{}\" ({}) FROM STDIN (FORMAT binary)", table.name, names.join(", "));
        Self { table, columns, copy_in }
    }

    /// SQL that reads the source in the order of the key, after the first `start` rows.
    pub(super) fn select(&self, start: u64) -> String {
        let name = |column: &Column| if column.stored { format!("\"{}\"", column.name) } else { "NULL".into() };
        let (names, key): (Vec<_>, Vec<_>) =
            (self.columns.iter().map(name).collect(), self.table.key.iter().map(|key| format!("\"{key}\"")).collect());
        let Table { name, only, .. } = self.table;
        let order = format!("ORDER BY {} LIMIT -1 OFFSET {start}", key.join(", "));
        format!("SELECT {} FROM \"{name}\" WHERE {only} {order}", names.join(", "))
    }

    /// SQL that takes rows into the target.
    pub(super) fn copy_in(&self) -> &str {
        &self.copy_in
    }

    /// SQL that reads the target.
    pub(super) fn copy_out(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|column| format!("\"{}\"", column.name)).collect();
        let Table { name, only, .. } = self.table;
        format!("COPY (SELECT {} FROM \"{name}\" WHERE {only}) TO STDOUT (FORMAT binary)", names.join(", "))
    }
}

/// The columns of the source's tables.
pub(super) fn columns(source: &Source) -> Result<HashMap<&'static str, Vec<String>>> {
    TABLES.iter().map(|table| Ok((table.name, source.columns(table.name)?))).collect()
}

/// Finds out the columns of every table. They must be the same on both sides, or rows would lose something on the way.
pub(super) async fn resolve(pool: &Pool, sources: HashMap<&str, Vec<String>>) -> Result<Vec<Arc<Resolved>>> {
    let mut resolved = Vec::new();
    for table in TABLES {
        let rows = pool.query(include_str!("sql/columns.sql"), &[&&**pool.target().schema(), &table.name]).await?;
        let source = sources.get(table.name).map(Vec::as_slice).unwrap_or_default();
        let mut columns = Vec::new();
        for row in &rows {
            let (name, kind): (String, String) = (row.get(0), row.get(1));
            let kind = Type::named(&kind).ok_or_else(|| differ(table, &format!("`{name}` is of type {kind}")))?;
            let stored = source.contains(&name);
            if !stored && !SHARDS.contains(&(table.name, &name)) {
                return Err(differ(table, &format!("only the target has `{name}`")));
            }
            columns.push(Column { name, kind, stored });
        }
        let is_lost = |name: &&String| {
            columns.iter().all(|column| column.name != **name) && !CURSORS.contains(&(table.name, name.as_str()))
        };
        if let Some(lost) = source.iter().find(is_lost) {
            return Err(differ(table, &format!("only the source has `{lost}`")));
        }
        let place = |column: &Column| table.key.iter().position(|key| *key == column.name).unwrap_or(usize::MAX);
        columns.sort_by_key(place);
        resolved.push(Arc::new(Resolved::new(table, columns)));
    }
    Ok(resolved)
}

fn differ(table: &Table, how: &str) -> Error {
    Error::new(Kind::Bug, format!("the two stores have different tables `{}`: {how}", table.name))
}

/// The days of the executions, the newest first: days since the Unix epoch. Each is found by one look.
pub(super) fn days(source: &Source) -> Result<Vec<i64>> {
    /// Older ones are hardly worth a partition of their own.
    const DAYS_MAX: usize = 100;
    const DAY_MS: i64 = 86_400_000;
    let mut days = Vec::new();
    let mut before = String::new();
    while days.len() < DAYS_MAX {
        let sql = format!("SELECT hex(substr(max(id), 1, 6)) FROM executions {before}");
        let mut found = None;
        source.read(&sql, |row| {
            let hex: Option<String> = row.get(0).ok();
            found = hex.and_then(|hex| i64::from_str_radix(&hex, 16).ok());
            Ok(())
        })?;
        let Some(millis) = found else { break };
        let day = millis / DAY_MS;
        days.push(day);
        let floor = ExecutionId::floor(Timestamp::from_millis(day * DAY_MS));
        let hex: String = floor.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        before = format!("WHERE id < x'{hex}'");
    }
    Ok(days)
}
