//! Lists of executions, newest first. What they have in common in all stores is in `crate::search`.
//!
//! Rows are read in slices, each of which starts where the one before it ended, and larger ones the less they find. All
//! of a page is read in one snapshot: what is on it matches, and is shown as it was when it matched.

use super::load::Ids;
use super::reads;
use super::rows::{self, Columns};
use crate::search::{LOOK_UP_COST, Meant, Page, Path, Search};
use campanile_model::execution::Reason;
use campanile_model::filter::Subject;
use campanile_model::ids::{ExecutionId, FireKind, JobId};
use campanile_model::lifecycle::State;
use campanile_model::store::{ExecutionPage, ExecutionQuery};
use campanile_pg::tokio_postgres::Row;
use campanile_pg::tokio_postgres::types::ToSql;
use campanile_pg::{Done, Pool, Tx, Uuid};
use std::collections::HashSet;

/// Rows of a slice: at first, as many as fit on the page and some more; never more than the second.
const SLICE_ROWS: (usize, usize) = (64, 4_096);

/// Lists executions, newest first; looks at no more than `rows_max` rows, and at fewer where each has to be looked up.
pub(super) async fn list(pool: &Pool, query: &ExecutionQuery, rows_max: usize) -> Done<ExecutionPage> {
    let what = (query, rows_max);
    Ok(pool.write(&what, |tx, (query, rows_max)| Box::pin(list_in(tx, query, *rows_max))).await?)
}

async fn list_in(tx: &Tx<'_>, query: &ExecutionQuery, rows_max: usize) -> Done<ExecutionPage> {
    let Some(search) = Search::of(query) else { return Ok(ExecutionPage::default()) };
    tx.batch(SNAPSHOT).await?;
    let path = search.path();
    let mut walk = Walk { tx, page: Page::new(query.limit, rows_max), search };
    let (tenant, scan) = (i64::from(query.tenant.0), include_str!("sql/listing/scan.sql"));
    match path {
        Path::Job(job) => {
            let job = Uuid::from(job);
            // From its list to the rows, one by one: a join in the order of ids would read through all executions that are newer.
            tx.batch(ONE_BY_ONE).await?;
            walk.along(include_str!("sql/listing/scan_job.sql"), &[&job]).await?;
        }
        Path::Dead(fingerprint) => {
            let fingerprint = fingerprint as i64;
            walk.along(include_str!("sql/listing/scan_dead.sql"), &[&tenant, &fingerprint]).await?;
        }
        Path::Unhappy => walk.along(include_str!("sql/listing/scan_unhappy.sql"), &[]).await?,
        Path::Open { runs, waits } => match walk.open(runs, waits, rows_max).await? {
            Some(ids) => walk.pick(&ids).await?,
            None => walk.along(scan, &[]).await?,
        },
        Path::All => walk.along(scan, &[]).await?,
    }
    let (found, next) = walk.page.close();
    let Some(ids) = Ids::of(found.iter().copied()) else { return Ok(ExecutionPage { items: Vec::new(), next }) };
    let items = tx.query(reads::GET, &[&ids.all, &ids.first, &ids.last, &tenant]).await?;
    Ok(ExecutionPage { items: reads::in_order(&found, items)?.into_iter().flatten().collect(), next })
}

/// Has the rest of a transaction look rows up, and join nothing in bulk.
pub(super) const ONE_BY_ONE: &str = "SET LOCAL enable_mergejoin = off; SET LOCAL enable_hashjoin = off";
/// What a transaction begins with whose statements all read the same instant.
pub(super) const SNAPSHOT: &str = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY";

/// A page while it fills.
struct Walk<'c, 'q> {
    tx: &'c Tx<'c>,
    search: Search<'q>,
    page: Page,
}

impl Walk<'_, '_> {
    /// Walks along a statement that gives rows from the newest on: within $1 and $2, at most $3 of them.
    async fn along(&mut self, sql: &str, of: &[&(dyn ToSql + Sync)]) -> Done<()> {
        let (from, mut to) = (Uuid(self.search.range.0), Uuid(self.search.range.1));
        let mut rows = self.search.query.limit.saturating_add(1).clamp(SLICE_ROWS.0, SLICE_ROWS.1);
        loop {
            let limit = rows as i64;
            let mut params: Vec<&(dyn ToSql + Sync)> = vec![&from, &to, &limit];
            params.extend(of);
            let found = self.tx.query(sql, &params).await?;
            if !self.look(&found, 1).await? {
                return Ok(());
            }
            let Some(last) = found.last().filter(|_| found.len() == rows) else {
                self.page.end();
                return Ok(());
            };
            to = last.try_get(0)?;
            rows = (rows * 4).min(SLICE_ROWS.1);
        }
    }

    /// All executions that run, wait, or both, newest first; none where there are more than may be looked at.
    async fn open(&self, runs: bool, waits: bool, rows_max: usize) -> Done<Option<Vec<ExecutionId>>> {
        let (from, to) = (Uuid(self.search.range.0), Uuid(self.search.range.1));
        let mut ids = Vec::new();
        for (wanted, sql) in
            [(runs, include_str!("sql/listing/running.sql")), (waits, include_str!("sql/listing/waiting.sql"))]
        {
            if !wanted {
                continue;
            }
            for row in self.tx.query(sql, &[&from, &to, &(rows_max as i64 + 1)]).await? {
                ids.push(Columns::of(&row).execution_id()?);
            }
            if ids.len() > rows_max {
                return Ok(None);
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Some(ids))
    }

    /// Looks at rows by their ids, which are in order.
    async fn pick(&mut self, ids: &[ExecutionId]) -> Done<()> {
        for slice in ids.chunks(SLICE_ROWS.0.max(self.search.query.limit.min(SLICE_ROWS.1))) {
            let Some(ids) = Ids::of(slice.iter().copied()) else { break };
            let found = self.tx.query(include_str!("sql/listing/get.sql"), &[&ids.all, &ids.first, &ids.last]).await?;
            if !self.look(&found, LOOK_UP_COST).await? {
                return Ok(());
            }
        }
        self.page.end();
        Ok(())
    }

    /// Looks at rows, each of which costs so much. Says whether the page goes on.
    async fn look(&mut self, rows: &[Row], cost: usize) -> Done<bool> {
        self.learn(rows).await?;
        for row in rows {
            if !self.page.goes_on() {
                return Ok(false);
            }
            let id = Columns::of(row).execution_id()?;
            self.page.count(id, cost);
            if judge(&self.search, row)?.1 == Meant::Yes {
                self.page.keep(id);
            }
        }
        Ok(self.page.goes_on())
    }

    /// Looks at the jobs on which it depends whether rows are asked for.
    async fn learn(&mut self, rows: &[Row]) -> Done<()> {
        let mut unknown = HashSet::new();
        for row in rows {
            let (job, meant) = judge(&self.search, row)?;
            if meant == Meant::IfItsJobIs {
                unknown.insert(job);
            }
        }
        if unknown.is_empty() {
            return Ok(());
        }
        let ids: Vec<Uuid> = unknown.iter().map(|&job| job.into()).collect();
        for row in self.tx.query(include_str!("sql/listing/get_jobs.sql"), &[&ids]).await? {
            let mut columns = Columns::of(&row);
            let (job, name, tags) = (columns.job_id()?, columns.text()?, rows::decode_tags(columns.text()?));
            self.search.learn(job, Some((name, &tags)));
            unknown.remove(&job);
        }
        for job in unknown {
            self.search.learn(job, None);
        }
        Ok(())
    }
}

/// Whether a row is asked for, and the job that this may depend on.
fn judge(search: &Search<'_>, row: &Row) -> Done<(JobId, Meant)> {
    let mut columns = Columns::of(row);
    columns.skip(1);
    let (tenant, job, state) = (columns.tenant()?, columns.job_id()?, columns.state()?);
    Ok((job, search.judge((tenant, job, state), || subject(state, &mut columns))?))
}

/// What a filter looks at in a row of the `listing` statements, its job left out.
fn subject<'r>(state: State, columns: &mut Columns<'r>) -> Done<Subject<'r>> {
    let reason = columns.code_or_none("reason", Reason::from_code)?;
    let kind = columns.code("fire kind", FireKind::from_code)?;
    let (fire_at, attempt) = (columns.instant()?, columns.small()?);
    let (pool, handler) = (columns.text()?, columns.text()?);
    let (worker, error_kind) = (columns.text_or_none()?, columns.text_or_none()?);
    let fingerprint = columns.number_or_none()?;
    let first_started_at = columns.instant_or_none()?;
    let (started_at, finished_at) = (columns.instant_or_none()?, columns.instant_or_none()?);
    Ok(Subject {
        state,
        job_name: "",
        handler,
        pool,
        tags: &[],
        worker,
        error_kind,
        fingerprint,
        reason,
        kind,
        late_ms: first_started_at.or(started_at).map(|at| at.ms_since(fire_at)),
        duration_ms: started_at.zip(finished_at).map(|(from, to)| to.ms_since(from)),
        attempt,
        fire_at,
    })
}
