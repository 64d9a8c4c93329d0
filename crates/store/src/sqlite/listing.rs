//! Lists of history: executions, newest first, and skips.
//!
//! A page walks down one index in the order of ids and tests each row it meets, until it is full or has looked at as many
//! rows as it may; then it says where it stopped. Which index depends on what is asked for: the history of a job, the
//! dead of one fingerprint, final states other than success, what is open, or all. Whatever the index, the tests are
//! the same, so a page may be continued along another.

use super::executions;
use super::failure::Done;
use super::history;
use super::rows::{self, Columns};
use campanile_model::execution::Reason;
use campanile_model::filter::{Filter, Subject, Term, Test};
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::lifecycle::State;
use campanile_model::store::{ExecutionPage, ExecutionQuery, Skip};
use campanile_model::time::Timestamp;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Row, params};
use std::collections::HashMap;

/// Final states other than success: rare, and often asked for. They have an index of their own.
pub(super) const UNHAPPY: [State; 3] = [State::Dead, State::Cancelled, State::Skipped];
/// The state that is found by `listing/running.sql`.
pub(super) const RUNS: State = State::Running;
/// The states that are found by `listing/waiting.sql`.
pub(super) const WAITS: [State; 3] = [State::Blocked, State::Pending, State::Retrying];

/// What looking a row up costs, against walking over it.
const LOOK_UP_COST: usize = 10;

/// Lists executions, newest first; looks at no more than `rows_max` rows, and at fewer where each has to be looked up.
pub(super) fn list(connection: &Connection, query: &ExecutionQuery, rows_max: usize) -> Done<ExecutionPage> {
    let states = mask(&query.states) & query.filter.states().map_or(mask(&State::ALL), |states| exact_mask(&states));
    let range = range(query);
    if states == 0 || range.0 >= range.1 || query.limit == 0 {
        return Ok(ExecutionPage::default());
    }
    let mut page = Page::new(connection, query, states, rows_max)?;
    match path(connection, query, states, rows_max)? {
        Path::Job(job) => page.pick(|visit| history::newest_first(connection, job, range, visit))?,
        Path::Dead(fingerprint) => {
            let scan = connection.prepare_cached(include_str!("sql/listing/scan_dead.sql"))?;
            page.walk(scan, params![range.0, range.1, query.tenant.0, fingerprint as i64])?;
        }
        Path::Unhappy => {
            let scan = connection.prepare_cached(include_str!("sql/listing/scan_unhappy.sql"))?;
            page.walk(scan, params![range.0, range.1])?;
        }
        Path::Open(ids) => page.pick(|visit| {
            let inside = ids.into_iter().filter(|id| (range.0..range.1).contains(id.as_bytes()));
            for id in inside {
                if !visit(id)? {
                    break;
                }
            }
            Ok(())
        })?,
        Path::All => {
            let scan = connection.prepare_cached(include_str!("sql/listing/scan.sql"))?;
            page.walk(scan, params![range.0, range.1])?;
        }
    }
    let next = page.next();
    let items = executions::get(connection, query.tenant, &page.found)?.into_iter().flatten().collect();
    Ok(ExecutionPage { items, next })
}

/// The ids that may be on the page: from the first, before the second.
fn range(query: &ExecutionQuery) -> ([u8; 16], [u8; 16]) {
    let (from, to) = query.filter.window();
    let from = query.from.max(from).map_or([0; 16], |from| *ExecutionId::floor(from).as_bytes());
    let to = [query.to, to].into_iter().flatten().min().map(|to| *ExecutionId::floor(to).as_bytes());
    let before = query.before.map(|before| *before.as_bytes());
    (from, [to, before].into_iter().flatten().min().unwrap_or([0xff; 16]))
}

/// Where the ids come from.
enum Path {
    Job(JobId),
    Dead(u64),
    Unhappy,
    /// Newest first.
    Open(Vec<ExecutionId>),
    All,
}

fn path(connection: &Connection, query: &ExecutionQuery, states: u16, rows_max: usize) -> Done<Path> {
    if let Some(job) = query.job {
        return Ok(Path::Job(job));
    }
    if let Some(fingerprint) = query.filter.fingerprint_exact() {
        return Ok(Path::Dead(fingerprint));
    }
    if states & !mask(&UNHAPPY) == 0 {
        return Ok(Path::Unhappy);
    }
    Ok(open(connection, states, rows_max)?.map_or(Path::All, Path::Open))
}

/// All executions that are open, newest first, where only such are asked for and there are few: their indexes are in the order
/// of `wake_at`. Where there are many, the newest rows are full of them.
fn open(connection: &Connection, states: u16, rows_max: usize) -> Done<Option<Vec<ExecutionId>>> {
    let (runs, waits) = (mask(&[RUNS]), mask(&WAITS));
    if states & !(runs | waits) != 0 {
        return Ok(None);
    }
    let mut ids = Vec::new();
    for (of, sql) in [(runs, include_str!("sql/listing/running.sql")), (waits, include_str!("sql/listing/waiting.sql"))]
    {
        if states & of == 0 {
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
struct Page<'c, 'q> {
    query: &'q ExecutionQuery,
    states: u16,
    tests: Tests<'c, 'q>,
    get: CachedStatement<'c>,
    /// What is on the page, and at last the first one of the next.
    found: Vec<ExecutionId>,
    /// The row that was looked at last, and how many more may be.
    last: Option<ExecutionId>,
    rows_left: usize,
}

impl<'c, 'q> Page<'c, 'q> {
    fn new(connection: &'c Connection, query: &'q ExecutionQuery, states: u16, rows_max: usize) -> Done<Self> {
        let tests = Tests::of(connection, &query.filter)?;
        let get = connection.prepare_cached(include_str!("sql/listing/get.sql"))?;
        Ok(Self { query, states, tests, get, found: Vec::new(), last: None, rows_left: rows_max.max(1) })
    }

    /// Walks along a query that gives the rows themselves.
    fn walk(&mut self, mut scan: CachedStatement<'_>, params: impl rusqlite::Params) -> Done<()> {
        let mut rows = scan.query(params)?;
        while self.goes_on() {
            let Some(row) = rows.next()? else {
                self.last = None;
                break;
            };
            let id = ExecutionId::from_bytes(row.get(0)?);
            self.count(id, 1);
            if is_meant(self.query, self.states, &mut self.tests, row)? {
                self.found.push(id);
            }
        }
        Ok(())
    }

    /// Looks at rows whose ids somebody else gives; one that is gone was pruned.
    fn pick(&mut self, walk: impl FnOnce(&mut dyn FnMut(ExecutionId) -> Done<bool>) -> Done<()>) -> Done<()> {
        let mut ended = true;
        walk(&mut |id| {
            if !self.goes_on() {
                ended = false;
                return Ok(false);
            }
            self.count(id, LOOK_UP_COST);
            let mut rows = self.get.query([id.as_bytes()])?;
            let row = rows.next()?;
            if row.map(|row| is_meant(self.query, self.states, &mut self.tests, row)).transpose()?.unwrap_or(false) {
                self.found.push(id);
            }
            Ok(true)
        })?;
        if ended {
            self.last = None;
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        self.rows_left > 0 && self.found.len() <= self.query.limit
    }

    fn count(&mut self, id: ExecutionId, cost: usize) {
        self.last = Some(id);
        self.rows_left = self.rows_left.saturating_sub(cost);
    }

    /// Where the next page starts. `last` is set where the walk did not reach its end.
    fn next(&mut self) -> Option<ExecutionId> {
        if self.found.len() > self.query.limit {
            self.found.truncate(self.query.limit);
            return self.found.last().copied();
        }
        self.last
    }
}

/// Whether a row is asked for.
fn is_meant(query: &ExecutionQuery, states: u16, tests: &mut Tests<'_, '_>, row: &Row<'_>) -> Done<bool> {
    let mut columns = Columns::of(row);
    columns.skip(1);
    if columns.tenant()? != query.tenant {
        return Ok(false);
    }
    let (job, state) = (columns.job_id()?, columns.state()?);
    Ok(states & (1 << state.code()) != 0 && tests.pass(job, state, row)?)
}

/// The terms of a filter, by what they look at.
struct Tests<'c, 'q> {
    of_execution: Vec<&'q Term>,
    of_job: Vec<&'q Term>,
    get_job: CachedStatement<'c>,
    /// Jobs that were looked at, and whether they pass.
    jobs: HashMap<JobId, bool>,
}

impl<'c, 'q> Tests<'c, 'q> {
    fn of(connection: &'c Connection, filter: &'q Filter) -> Done<Self> {
        let asks_job = |term: &&Term| matches!(term.test, Test::Job(_) | Test::Tag(_));
        let (of_job, of_execution) = filter.terms.iter().partition(asks_job);
        let get_job = connection.prepare_cached(include_str!("sql/listing/get_job.sql"))?;
        Ok(Self { of_execution, of_job, get_job, jobs: HashMap::new() })
    }

    fn pass(&mut self, job: JobId, state: State, row: &Row<'_>) -> Done<bool> {
        if self.of_execution.is_empty() && self.of_job.is_empty() {
            return Ok(true);
        }
        let subject = subject(state, row)?;
        if !self.of_execution.iter().all(|term| term.matches(&subject)) {
            return Ok(false);
        }
        if self.of_job.is_empty() {
            return Ok(true);
        }
        if let Some(&known) = self.jobs.get(&job) {
            return Ok(known);
        }
        let found = self.get_job.query_row([job.as_bytes()], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)));
        let passes = found.optional()?.is_some_and(|(name, tags): (String, String)| {
            let tags = rows::decode_tags(&tags);
            let subject = Subject { job_name: &name, tags: &tags, ..subject };
            self.of_job.iter().all(|term| term.matches(&subject))
        });
        self.jobs.insert(job, passes);
        Ok(passes)
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

/// The mask of `states`; of all when there are none.
fn mask(states: &[State]) -> u16 {
    if states.is_empty() { exact_mask(&State::ALL) } else { exact_mask(states) }
}

fn exact_mask(states: &[State]) -> u16 {
    states.iter().fold(0, |mask, state| mask | 1 << state.code())
}

/// Lists the skips of a job, newest first.
pub(super) fn list_skips(
    connection: &Connection,
    tenant: TenantId,
    job: JobId,
    within: Option<(Timestamp, Timestamp)>,
    limit: usize,
) -> Done<Vec<Skip>> {
    let (from, to) = within.unwrap_or((Timestamp::MIN, Timestamp::MAX));
    let mut list = connection.prepare_cached(include_str!("sql/listing/skips.sql"))?;
    let mut found = list.query(params![job.as_bytes(), tenant.0, from.millis(), to.millis(), limit as i64])?;
    let mut skips = Vec::new();
    while let Some(row) = found.next()? {
        let mut columns = Columns::of(row);
        skips.push(Skip {
            tenant,
            job,
            to: columns.instant()?,
            from: columns.instant()?,
            reason: columns.code("reason", Reason::from_code)?,
            recorded_at: columns.instant()?,
        });
    }
    Ok(skips)
}
