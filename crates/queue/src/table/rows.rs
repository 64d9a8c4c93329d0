//! Executions as rows of the table.

use super::known::{Lane, Quota};
use campanile_model::action::{ActionKind, Runner};
use campanile_model::job::Priority;
use campanile_model::queue::Dispatch;
use campanile_model::store::ChangeSeq;
use campanile_model::{TenantId, Timestamp};
use campanile_pg::Uuid;
use campanile_pg::tokio_postgres;
use campanile_pg::tokio_postgres::types::ToSql;
use std::collections::HashSet;
use std::sync::Arc;

/// The number that stands for a kind of runner.
pub(super) fn runner_code(runner: Runner) -> i16 {
    match runner {
        Runner::Node => 0,
        Runner::Worker => 1,
    }
}

/// What is put into the table, column by column.
pub(super) struct Columns<'a> {
    runner: Vec<i16>,
    pool: Vec<&'a str>,
    priority: Vec<i16>,
    tenant: Vec<i64>,
    execution: Vec<Uuid>,
    job: Vec<Uuid>,
    fire_at: Vec<i64>,
    job_version: Vec<i64>,
    attempt: Vec<i64>,
    action: Vec<i16>,
    target: Vec<&'a str>,
    queued_at: Vec<Option<i64>>,
}

impl<'a> Columns<'a> {
    pub fn of(batch: &'a [Dispatch]) -> Self {
        Self {
            runner: batch.iter().map(|item| runner_code(item.action.runner())).collect(),
            pool: batch.iter().map(|item| &*item.pool).collect(),
            priority: batch.iter().map(|item| i16::from(item.priority.code())).collect(),
            tenant: batch.iter().map(|item| i64::from(item.tenant.0)).collect(),
            execution: batch.iter().map(|item| item.execution.into()).collect(),
            job: batch.iter().map(|item| item.job.into()).collect(),
            fire_at: batch.iter().map(|item| item.fire_at.millis()).collect(),
            job_version: batch.iter().map(|item| i64::from(item.job_version)).collect(),
            attempt: batch.iter().map(|item| i64::from(item.attempt)).collect(),
            action: batch.iter().map(|item| i16::from(item.action.code())).collect(),
            target: batch.iter().map(|item| &*item.target).collect(),
            queued_at: batch.iter().map(|item| item.queued_at.map(Timestamp::millis)).collect(),
        }
    }

    pub fn params(&self) -> [&(dyn ToSql + Sync); 12] {
        [
            &self.runner,
            &self.pool,
            &self.priority,
            &self.tenant,
            &self.execution,
            &self.job,
            &self.fire_at,
            &self.job_version,
            &self.attempt,
            &self.action,
            &self.target,
            &self.queued_at,
        ]
    }
}

/// From which lanes how many are taken, column by column.
pub(super) struct QuotaColumns<'a> {
    pool: Vec<&'a str>,
    priority: Vec<i16>,
    tenant: Vec<i64>,
    from_seq: Vec<i64>,
    count: Vec<i64>,
    target: Vec<&'a str>,
}

impl<'a> QuotaColumns<'a> {
    pub fn of(quotas: &'a [Quota]) -> Self {
        Self {
            pool: quotas.iter().map(|quota| &*quota.lane.pool).collect(),
            priority: quotas.iter().map(|quota| i16::from(quota.lane.level)).collect(),
            tenant: quotas.iter().map(|quota| i64::from(quota.lane.tenant.0)).collect(),
            from_seq: quotas.iter().map(|quota| quota.from_seq).collect(),
            count: quotas.iter().map(|quota| quota.count as i64).collect(),
            target: quotas.iter().map(|quota| &*quota.lane.target).collect(),
        }
    }

    pub fn params(&self, runner: Runner) -> Vec<&(dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&self.pool, &self.priority, &self.tenant, &self.from_seq, &self.count];
        if runner == Runner::Worker {
            params.push(&self.target);
        }
        params
    }
}

/// A row that was taken.
pub(super) struct Row {
    pub seq: i64,
    pub item: Dispatch,
}

/// The rows that were taken, in the order of their numbers. One that cannot be read is left to the reaper: a newer
/// release may have put it there.
pub(super) fn read(rows: &[tokio_postgres::Row]) -> Vec<Row> {
    let mut names = Interned::default();
    let mut taken: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        match read_one(row, &mut names) {
            Some(row) => taken.push(row),
            None => tracing::warn!("cannot read a row of the queue; its execution will be published again"),
        }
    }
    taken.sort_unstable_by_key(|row| row.seq);
    taken
}

fn read_one(row: &tokio_postgres::Row, names: &mut Interned) -> Option<Row> {
    let item = Dispatch {
        execution: row.get::<_, Uuid>(4).into(),
        job: row.get::<_, Uuid>(5).into(),
        fire_at: Timestamp::from_millis(row.get(6)),
        pool: names.get(row.get(1)),
        tenant: TenantId(u32::try_from(row.get::<_, i64>(3)).ok()?),
        job_version: u32::try_from(row.get::<_, i64>(7)).ok()?,
        attempt: u32::try_from(row.get::<_, i64>(8)).ok()?,
        priority: Priority::from_code(u8::try_from(row.get::<_, i16>(2)).ok()?)?,
        action: ActionKind::from_code(u8::try_from(row.get::<_, i16>(9)).ok()?)?,
        target: names.get(row.get(10)),
        queued_at: row.get::<_, Option<i64>>(11).map(Timestamp::from_millis),
        as_of: ChangeSeq::default(),
    };
    Some(Row { seq: row.get(0), item })
}

/// A lane that a look at the table found, with its first number: the columns after the first.
pub(super) fn read_lane(row: &tokio_postgres::Row) -> Option<(Lane, i64)> {
    let priority = Priority::from_code(u8::try_from(row.get::<_, i16>(2)).ok()?)?;
    let tenant = TenantId(u32::try_from(row.get::<_, i64>(4)).ok()?);
    let lane = Lane {
        pool: row.get::<_, &str>(1).into(),
        level: priority.code(),
        target: row.get::<_, &str>(3).into(),
        tenant,
    };
    Some((lane, row.get(5)))
}

/// Names that many rows share.
#[derive(Default)]
struct Interned(HashSet<Arc<str>>);

impl Interned {
    fn get(&mut self, name: &str) -> Arc<str> {
        if let Some(name) = self.0.get(name) {
            return Arc::clone(name);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }
}
