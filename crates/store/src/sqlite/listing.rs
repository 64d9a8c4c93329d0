//! Lists of executions, newest first. What they have in common in all stores is in `crate::search`.

use super::executions;
use super::failure::Done;
use super::history;
use super::rows::{self, Columns};
use crate::search::{LOOK_UP_COST, Meant, Page, Path, Search};
use campanile_model::execution::Reason;
use campanile_model::filter::Subject;
use campanile_model::ids::{ExecutionId, FireKind};
use campanile_model::lifecycle::State;
use campanile_model::store::{ExecutionPage, ExecutionQuery};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};

/// Lists executions, newest first; looks at no more than `rows_max` rows, and at fewer where each has to be looked up.
pub(super) fn list(connection: &Connection, query: &ExecutionQuery, rows_max: usize) -> Done<ExecutionPage> {
    let Some(search) = Search::of(query) else { return Ok(ExecutionPage::default()) };
    let (range, path) = (search.range, search.path());
    let mut walk = Walk::new(connection, search, rows_max)?;
    let open = match path {
        Path::Open { runs, waits } => open(connection, runs, waits, rows_max)?,
        _ => None,
    };
    match (path, open) {
        (Path::Job(job), _) => walk.pick(|visit| history::newest_first(connection, job, range, visit))?,
        (Path::Dead(fingerprint), _) => {
            let scan = connection.prepare_cached(include_str!("sql/listing/scan_dead.sql"))?;
            walk.along(scan, params![range.0, range.1, query.tenant.0, fingerprint as i64])?;
        }
        (Path::Unhappy, _) => {
            let scan = connection.prepare_cached(include_str!("sql/listing/scan_unhappy.sql"))?;
            walk.along(scan, params![range.0, range.1])?;
        }
        (Path::Open { .. }, Some(ids)) => walk.pick(|visit| {
            let inside = ids.into_iter().filter(|id| (range.0..range.1).contains(id.as_bytes()));
            for id in inside {
                if !visit(id)? {
                    break;
                }
            }
            Ok(())
        })?,
        (Path::Open { .. } | Path::All, _) => {
            let scan = connection.prepare_cached(include_str!("sql/listing/scan.sql"))?;
            walk.along(scan, params![range.0, range.1])?;
        }
    }
    let (found, next) = walk.page.close();
    let items = executions::get(connection, query.tenant, &found)?.into_iter().flatten().collect();
    Ok(ExecutionPage { items, next })
}

/// All executions that run, wait, or both, newest first; none where there are more than may be looked at.
fn open(connection: &Connection, runs: bool, waits: bool, rows_max: usize) -> Done<Option<Vec<ExecutionId>>> {
    let mut ids = Vec::new();
    for (wanted, sql) in
        [(runs, include_str!("sql/listing/running.sql")), (waits, include_str!("sql/listing/waiting.sql"))]
    {
        if !wanted {
            continue;
        }
        let mut list = connection.prepare_cached(sql)?;
        let mut found = list.query([rows_max as i64 + 1])?;
        while let Some(row) = found.next()? {
            ids.push(Columns::of(row).execution_id()?);
        }
        if ids.len() > rows_max {
            return Ok(None);
        }
    }
    ids.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Some(ids))
}

/// A page while it fills.
struct Walk<'c, 'q> {
    search: Search<'q>,
    page: Page,
    get: CachedStatement<'c>,
    get_job: CachedStatement<'c>,
}

impl<'c, 'q> Walk<'c, 'q> {
    fn new(connection: &'c Connection, search: Search<'q>, rows_max: usize) -> Done<Self> {
        let page = Page::new(search.query.limit, rows_max);
        let get = connection.prepare_cached(include_str!("sql/listing/get.sql"))?;
        let get_job = connection.prepare_cached(include_str!("sql/listing/get_job.sql"))?;
        Ok(Self { search, page, get, get_job })
    }

    /// Walks along a query that gives the rows themselves.
    fn along(&mut self, mut scan: CachedStatement<'_>, params: impl rusqlite::Params) -> Done<()> {
        let mut rows = scan.query(params)?;
        while self.page.goes_on() {
            let Some(row) = rows.next()? else {
                self.page.end();
                break;
            };
            let id = ExecutionId::from_bytes(row.get(0)?);
            self.page.count(id, 1);
            if is_meant(&mut self.search, &mut self.get_job, row)? {
                self.page.keep(id);
            }
        }
        Ok(())
    }

    /// Looks at rows whose ids somebody else gives; one that is gone was pruned.
    fn pick(&mut self, walk: impl FnOnce(&mut dyn FnMut(ExecutionId) -> Done<bool>) -> Done<()>) -> Done<()> {
        let mut ended = true;
        walk(&mut |id| {
            if !self.page.goes_on() {
                ended = false;
                return Ok(false);
            }
            self.page.count(id, LOOK_UP_COST);
            let mut rows = self.get.query([id.as_bytes()])?;
            if let Some(row) = rows.next()?
                && is_meant(&mut self.search, &mut self.get_job, row)?
            {
                self.page.keep(id);
            }
            Ok(true)
        })?;
        if ended {
            self.page.end();
        }
        Ok(())
    }
}

/// Whether a row is asked for.
fn is_meant(search: &mut Search<'_>, get_job: &mut CachedStatement<'_>, row: &Row<'_>) -> Done<bool> {
    let mut columns = Columns::of(row);
    columns.skip(1);
    let (tenant, job, state) = (columns.tenant()?, columns.job_id()?, columns.state()?);
    match search.judge((tenant, job, state), || subject(state, row))? {
        Meant::Yes => Ok(true),
        Meant::No => Ok(false),
        Meant::IfItsJobIs => {
            let found = get_job.query_row([job.as_bytes()], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)));
            let found = found.optional()?.map(|(name, tags): (_, String)| (name, rows::decode_tags(&tags)));
            Ok(search.learn(job, found.as_ref().map(|(name, tags)| (&**name, &**tags))))
        }
    }
}

/// What a filter looks at in a row of the `listing` queries, its job left out.
fn subject<'r>(state: State, row: &'r Row<'_>) -> Done<Subject<'r>> {
    let mut columns = Columns::of(row);
    columns.skip(4);
    let reason = columns.code_or_none("reason", Reason::from_code)?;
    let kind = columns.code("fire kind", FireKind::from_code)?;
    let (fire_at, attempt) = (columns.instant()?, columns.next()?);
    let (pool, handler) = (columns.text()?, columns.text()?);
    let (worker, error_kind) = (columns.text_or_none()?, columns.text_or_none()?);
    let fingerprint = columns.next::<Option<i64>>()?.map(|bits| bits as u64);
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
