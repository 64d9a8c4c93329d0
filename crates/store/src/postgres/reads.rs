//! Reads of executions and of what hangs on them, by id or by what is due. Lists with filters are in `listing`.
//!
//! Every statement that is given ids is given the smallest and the largest of them too: only the partitions between
//! them are looked at, whichever plan the server has kept.

use super::load::Ids;
use super::rows::{self, Columns, Texts};
use crate::core::rules::time_limit_ms;
use crate::core::shards::ShardSet;
use campanile_model::action::NODE_PREFIX;
use campanile_model::execution::{Attempt, Execution, LogLine, Progress, Reason};
use campanile_model::ids::{ExecutionId, TenantId};
use campanile_model::lifecycle::{self, Event};
use campanile_model::limits::SHARDS;
use campanile_model::store::{AttemptFence, DeadGroup, Reports, RunningAttempt, Waiting, WaitingQuery};
use campanile_model::time::Timestamp;
use campanile_pg::tokio_postgres::Row;
use campanile_pg::{Done, Failure, Pool, Uuid};
use std::collections::HashMap;
use std::sync::Arc;

/// The rows that one statement of `load_waiting` reads, at least and at most.
const WAITING_ROWS: (usize, usize) = (256, 8_192);

/// Reads executions that wait. Rows of other shards are passed over here, because no index knows shards.
pub(super) async fn load_waiting(pool: &Pool, query: &WaitingQuery) -> Done<Vec<Waiting>> {
    let shards = ShardSet::filter(&query.shards);
    // As many rows as hold so many of our shards, where those of all shards are mixed.
    let share = shards.as_ref().map_or(1, |shards| usize::from(SHARDS).div_ceil(shards.iter().count().max(1)));
    let rows_max = query.limit.saturating_mul(share).clamp(WAITING_ROWS.0, WAITING_ROWS.1.max(query.limit));
    let sources = i32::from(lifecycle::sources(Event::Claim).mask());
    let (mut after_at, mut after_id) = query.after.unwrap_or((Timestamp::MIN, ExecutionId::from_bytes([0; 16])));
    let mut texts = Texts::default();
    let mut waiting = Vec::new();
    while waiting.len() < query.limit {
        let rows = if shards.is_none() { query.limit - waiting.len() } else { rows_max };
        let found = pool
            .query(
                include_str!("sql/executions/load_waiting.sql"),
                &[
                    &query.before.millis(),
                    &after_at.millis(),
                    &Uuid::from(after_id),
                    &sources,
                    &i64::try_from(rows).unwrap_or(i64::MAX),
                    &query.fired_until.millis(),
                ],
            )
            .await?;
        for row in &found {
            let mut columns = Columns::of(row);
            let one = Waiting { dispatch: rows::dispatch(&mut columns, &mut texts)?, wake_at: columns.instant()? };
            (after_at, after_id) = (one.wake_at, one.dispatch.execution);
            if shards.as_ref().is_none_or(|shards| shards.has_job(one.dispatch.job)) {
                waiting.push(one);
            }
        }
        if found.len() < rows {
            break;
        }
    }
    waiting.truncate(query.limit);
    Ok(waiting)
}

pub(super) async fn get(pool: &Pool, tenant: TenantId, ids: &[ExecutionId]) -> Done<Vec<Option<Execution>>> {
    let Some(these) = Ids::of(ids.iter().copied()) else { return Ok(Vec::new()) };
    let found = pool.query(GET, &[&these.all, &these.first, &these.last, &i64::from(tenant.0)]).await?;
    in_order(ids, found)
}

/// The statement whose rows `in_order` reads.
pub(super) const GET: &str = include_str!("sql/executions/get.sql");

/// Executions in the order of their ids as they were asked for.
pub(super) fn in_order(ids: &[ExecutionId], found: Vec<Row>) -> Done<Vec<Option<Execution>>> {
    let mut texts = Texts::default();
    let found = found.iter().map(|row| rows::execution(row, &mut texts).map(|execution| (execution.id, execution)));
    let found = found.collect::<Done<HashMap<_, _>>>()?;
    Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
}

/// Lists the attempts of an execution, first one first.
pub(super) async fn list_attempts(pool: &Pool, tenant: TenantId, execution: ExecutionId) -> Done<Vec<Attempt>> {
    let key = (Uuid::from(execution), i64::from(tenant.0));
    let found = pool.query(include_str!("sql/attempts/list.sql"), &[&key.0, &key.1]).await?;
    found.iter().map(rows::attempt).collect()
}

/// Reads the running attempts of these executions.
pub(super) async fn load_running(pool: &Pool, ids: &[ExecutionId]) -> Done<Vec<RunningAttempt>> {
    let Some(these) = Ids::of(ids.iter().copied()) else { return Ok(Vec::new()) };
    let sql = include_str!("sql/attempts/load_running.sql");
    let found = pool.query(sql, &[&these.all, &these.first, &these.last]).await?;
    let found: HashMap<_, _> = running(&found)?.into_iter().map(|attempt| (attempt.fence.execution, attempt)).collect();
    Ok(ids.iter().filter_map(|id| found.get(id).cloned()).collect())
}

/// Reads running attempts whose lease is over and whose runner is no node. A node bounds its attempts by its monotonic
/// clock; the lease, an instant of the wall clock, would end early when that jumps. It counts only for runners that
/// cannot be asked whether they live.
pub(super) async fn load_expired(pool: &Pool, now: Timestamp, limit: usize) -> Done<Vec<RunningAttempt>> {
    let sql = include_str!("sql/attempts/load_expired.sql");
    running(&pool.query(sql, &[&now.millis(), &NODE_PREFIX, &(limit as i64)]).await?)
}

/// Reads running attempts of nodes that are gone. Nodes are named with their prefix or without.
pub(super) async fn load_orphans(pool: &Pool, live_nodes: &[String], limit: usize) -> Done<Vec<RunningAttempt>> {
    let sql = include_str!("sql/attempts/load_orphans.sql");
    let live = live_nodes.iter().flat_map(|node| [node.clone(), format!("{NODE_PREFIX}{node}")]);
    let live: Vec<String> = live.filter(|node| !node.contains('\0')).collect();
    running(&pool.query(sql, &[&NODE_PREFIX, &live, &(limit as i64)]).await?)
}

/// Attempts of those executions that run.
fn running(found: &[Row]) -> Done<Vec<RunningAttempt>> {
    let mut texts = Texts::default();
    let mut attempts = Vec::with_capacity(found.len());
    for row in found {
        let mut columns = Columns::of(row);
        if lifecycle::sources(Event::Succeed).contains(columns.state()?) {
            attempts.push(running_attempt(&mut columns, &mut texts)?);
        }
    }
    Ok(attempts)
}

fn running_attempt(columns: &mut Columns<'_>, texts: &mut Texts) -> Done<RunningAttempt> {
    let dispatch = rows::dispatch(columns, texts)?;
    let lease_until = columns.instant()?;
    let fence = AttemptFence { execution: dispatch.execution, attempt: dispatch.attempt, fence: columns.number()? };
    let started_at = columns.instant()?;
    let worker = texts.share(columns.text_or_none()?.unwrap_or_default());
    let (attempts_from, losses) = (columns.small()?, columns.small()?);
    let asked_at = columns.instant_or_none()?;
    let asked_for = columns.code_or_none("reason", Reason::from_code)?;
    let definition = rows::definition(columns, texts)?;
    let (retry, own_ms) = (definition.retry, definition.timeout_ms);
    let first_started_at = columns.instant_or_none()?.unwrap_or(started_at);
    Ok(RunningAttempt {
        fence,
        dispatch,
        retry,
        timeout_ms: time_limit_ms(own_ms, retry.total_timeout_ms, first_started_at, started_at),
        started_at,
        worker,
        lease_until,
        attempts_from,
        losses,
        first_started_at,
        cancel_requested: asked_at.map(|at| (at, asked_for.unwrap_or(Reason::CancelledByUser))),
    })
}

/// Lists the groups of dead executions, most recently grown first.
pub(super) async fn dead_groups(pool: &Pool, tenant: TenantId, limit: usize) -> Done<Vec<DeadGroup>> {
    let sql = include_str!("sql/dead/list.sql");
    let found = pool.query(sql, &[&i64::from(tenant.0), &(limit as i64)]).await?;
    let group = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok(DeadGroup {
            fingerprint: columns.number()?,
            target: columns.next()?,
            kind: columns.next()?,
            message: columns.next()?,
            count: columns.number()?,
            first_at: columns.instant()?,
            last_at: columns.instant()?,
            sample: columns.execution_id()?,
        })
    };
    found.iter().map(group).collect()
}

/// Reads what an execution's attempts reported.
pub(super) async fn reports(
    pool: &Pool,
    tenant: TenantId,
    execution: ExecutionId,
    after: u64,
    limit: usize,
) -> Done<Reports> {
    let logs = if limit == 0 { Vec::new() } else { list_logs(pool, tenant, execution, after, limit).await? };
    Ok(Reports { progress: progress(pool, tenant, execution).await?, logs })
}

/// Reads what the newest attempt told that told anything.
async fn progress(pool: &Pool, tenant: TenantId, execution: ExecutionId) -> Done<Option<Progress>> {
    let key = (Uuid::from(execution), i64::from(tenant.0));
    let found = pool.query(include_str!("sql/progress/get.sql"), &[&key.0, &key.1]).await?;
    let told = |row: &Row| {
        let mut columns = Columns::of(row);
        Ok::<_, Failure>(Progress {
            fraction: columns.next()?,
            message: columns.next()?,
            checkpoint: columns.text_or_none()?.map(Arc::from),
            at: columns.instant()?,
        })
    };
    found.first().map(told).transpose()
}

/// Lists what an execution's attempts logged.
async fn list_logs(
    pool: &Pool,
    tenant: TenantId,
    execution: ExecutionId,
    after: u64,
    limit: usize,
) -> Done<Vec<(u64, LogLine)>> {
    let (id, tenant) = (Uuid::from(execution), i64::from(tenant.0));
    let after = i64::try_from(after).unwrap_or(i64::MAX);
    let found = pool.query(include_str!("sql/logs/list.sql"), &[&id, &tenant, &after, &(limit as i64)]).await?;
    let line = |row: &Row| {
        let mut columns = Columns::of(row);
        let seq = columns.number()?;
        Ok((seq, LogLine { at: columns.instant()?, level: columns.next()?, message: columns.next()? }))
    };
    found.iter().map(line).collect()
}
