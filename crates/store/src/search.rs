//! Lists of executions, as far as they are the same in every store: which index a page walks along, which of the rows
//! that it meets are asked for, and where it ends.
//!
//! A page walks down one index in the order of ids and tests each row it meets, until it is full or has looked at as
//! many rows as it may; then it says where it stopped. Whatever the index, the tests are the same, so a page may be
//! continued along another.

use campanile_model::fault::{Bug, planted};
use campanile_model::filter::{Subject, Term, Test};
use campanile_model::ids::{ExecutionId, FireKind, JobId, TenantId};
use campanile_model::lifecycle::{OPEN, RUNS, State, StateSet, UNHAPPY, WAITS};
use campanile_model::store::ExecutionQuery;
use campanile_model::time::Timestamp;
use std::collections::HashMap;

/// What looking a row up costs, against walking over it.
pub(crate) const LOOK_UP_COST: usize = 10;

/// Along which index the ids come.
pub(crate) enum Path {
    /// The history of a job.
    Job(JobId),
    /// The dead of one fingerprint.
    Dead(u64),
    /// Final states other than success.
    Unhappy,
    /// What runs, what waits, or both, where that is little: its indexes are in another order. Otherwise all: the
    /// newest rows are full of it then.
    Open {
        runs: bool,
        waits: bool,
    },
    All,
}

/// What is asked for.
pub(crate) struct Search<'q> {
    pub(crate) query: &'q ExecutionQuery,
    /// The ids that may be on the page: from the first, before the second.
    pub(crate) range: ([u8; 16], [u8; 16]),
    states: StateSet,
    of_execution: Vec<&'q Term>,
    of_job: Vec<&'q Term>,
    /// Jobs that were looked at, and whether they pass.
    jobs: HashMap<JobId, bool>,
}

/// Whether a row is asked for.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Meant {
    Yes,
    No,
    /// As far as can be said before its job was looked at, by `Search::learn`.
    IfItsJobIs,
}

impl<'q> Search<'q> {
    /// `None` when nothing can be found.
    pub(crate) fn of(query: &'q ExecutionQuery) -> Option<Self> {
        let asked = if query.states.is_empty() { StateSet::ALL } else { StateSet::of(&query.states) };
        let states = asked.and(query.filter.states().map_or(StateSet::ALL, |states| StateSet::of(&states)));
        let range = range(query);
        if states.is_empty() || range.0 >= range.1 || query.limit == 0 {
            return None;
        }
        let asks_job = |term: &&Term| matches!(term.test, Test::Job(_) | Test::Tag(_));
        let (of_job, of_execution) = query.filter.terms.iter().partition(asks_job);
        Some(Self { query, range, states, of_execution, of_job, jobs: HashMap::new() })
    }

    /// The cheapest way to what is asked for.
    pub(crate) fn path(&self) -> Path {
        let only = |states: StateSet| self.states.without(states).is_empty();
        let some = |states: StateSet| !self.states.and(states).is_empty();
        if let Some(job) = self.query.job {
            Path::Job(job)
        } else if let Some(fingerprint) = self.query.filter.fingerprint_exact() {
            Path::Dead(fingerprint)
        } else if only(UNHAPPY) {
            Path::Unhappy
        } else if only(OPEN) {
            Path::Open { runs: some(RUNS), waits: some(WAITS) }
        } else {
            Path::All
        }
    }

    /// Judges a row. What a filter looks at is only read where there is a filter.
    pub(crate) fn judge<'r, E>(
        &self,
        (tenant, job, state): (TenantId, JobId, State),
        subject: impl FnOnce() -> Result<Subject<'r>, E>,
    ) -> Result<Meant, E> {
        if tenant != self.query.tenant || !self.states.contains(state) {
            return Ok(Meant::No);
        }
        if !self.of_execution.is_empty() {
            let subject = subject()?;
            if !self.of_execution.iter().all(|term| term.matches(&subject)) {
                return Ok(Meant::No);
            }
        }
        Ok(match self.jobs.get(&job) {
            _ if self.of_job.is_empty() => Meant::Yes,
            Some(true) => Meant::Yes,
            Some(false) => Meant::No,
            None => Meant::IfItsJobIs,
        })
    }

    /// Judges a job by its name and tags; one that is not there is not asked for.
    pub(crate) fn learn(&mut self, job: JobId, found: Option<(&str, &[String])>) -> bool {
        let passes = found.is_some_and(|(job_name, tags)| {
            let subject = Subject { job_name, tags, ..NOTHING };
            self.of_job.iter().all(|term| term.matches(&subject))
        });
        self.jobs.insert(job, passes);
        passes
    }
}

/// What those terms see that ask for a job.
const NOTHING: Subject<'static> = Subject {
    state: State::Pending,
    job_name: "",
    handler: "",
    pool: "",
    tags: &[],
    worker: None,
    error_kind: None,
    fingerprint: None,
    reason: None,
    kind: FireKind::Schedule,
    late_ms: None,
    duration_ms: None,
    attempt: 0,
    fire_at: Timestamp::MIN,
};

/// A page while it fills.
pub(crate) struct Page {
    /// What is on the page, and at last the first one of the next.
    found: Vec<ExecutionId>,
    limit: usize,
    /// The row that was looked at last, and how many more may be.
    last: Option<ExecutionId>,
    rows_left: usize,
}

impl Page {
    pub(crate) fn new(limit: usize, rows_max: usize) -> Self {
        Self { found: Vec::new(), limit, last: None, rows_left: rows_max.max(1) }
    }

    /// Whether another row is to be looked at.
    pub(crate) fn goes_on(&self) -> bool {
        self.rows_left > 0 && self.found.len() <= self.limit
    }

    /// A row was looked at, which cost so much.
    pub(crate) fn count(&mut self, id: ExecutionId, cost: usize) {
        self.last = Some(id);
        self.rows_left = self.rows_left.saturating_sub(cost);
    }

    /// It belongs to the page.
    pub(crate) fn keep(&mut self, id: ExecutionId) {
        self.found.push(id);
    }

    /// There are no more rows.
    pub(crate) fn end(&mut self) {
        self.last = None;
    }

    /// What is on the page, and where the next one starts.
    pub(crate) fn close(mut self) -> (Vec<ExecutionId>, Option<ExecutionId>) {
        let more = self.found.len() > self.limit;
        self.found.truncate(self.limit);
        let next = if more { self.found.last().copied() } else { self.last };
        (self.found, next)
    }
}

fn range(query: &ExecutionQuery) -> ([u8; 16], [u8; 16]) {
    let (from, to) = query.filter.window();
    let from = query.from.max(from).map_or([0; 16], |from| *ExecutionId::floor(from).as_bytes());
    let to = [query.to, to].into_iter().flatten().min().map(|to| *ExecutionId::floor(to).as_bytes());
    let mut before = query.before.map(|before| *before.as_bytes());
    if planted(Bug("page-by-instant")) {
        // superplane#6627: the next page starts at another instant, and the rest of this one is on no page.
        before.iter_mut().for_each(|before| before[6..].fill(0));
    }
    (from, [to, before].into_iter().flatten().min().unwrap_or([0xff; 16]))
}
