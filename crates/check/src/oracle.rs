//! What had to fire, and what may have: expected instants from the operations of clients alone.
//!
//! A job is in one of several *possible* configurations at any time: an acknowledged change that tells when it counted
//! from leaves one; a change that nobody answered adds another. An instant that fires in all of them *must* be there,
//! one that fires in some *may*.
//!
//! Instants are found by walking: see `cron`. What comes due just before the store is read is not required.

use crate::cron::{Cron, Fold, Gap};
use crate::event::{OpKind, Schedule, Spec};
use crate::history::{Change, FaultSpan, History, Job, MS, Nanos};
use crate::ids;
use crate::limits::Limits;
use crate::table::Table;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// How far ahead of its instant an execution may exist.
pub const LEAD_MS: i64 = 150_000;

/// The expected fires of all jobs.
#[derive(Debug, Default)]
pub struct Oracle {
    pub jobs: Table<Expected>,
    /// When the store was read, in milliseconds.
    pub read_at_ms: i64,
    spans: Vec<(Nanos, Nanos)>,
    late: Nanos,
    recover: Nanos,
}

/// The expected fires of one job, in milliseconds.
#[derive(Debug, Default, Clone)]
pub struct Expected {
    /// Fires that had to be accounted for, with what is allowed to become of them.
    pub must: BTreeMap<i64, Target>,
    /// Fires that may have run.
    pub may: BTreeSet<i64>,
    /// Instants of any of its definitions: for these something may be in the store, since it is written ahead.
    pub instants: BTreeSet<i64>,
    /// Why nothing is expected of it, where something cannot be understood.
    pub unknown: Option<String>,
}

/// A fire that had to be.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The definition in force.
    pub spec: usize,
    /// Whether a blackout covers it: then it has to be skipped.
    pub blackout: bool,
}

/// A possible configuration of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Config {
    /// Index of the change that brought the definition; none before the creation and after the deletion.
    spec: Option<usize>,
    paused: bool,
    until: Option<Nanos>,
}

/// A stretch of time with its possible configurations.
struct Stretch {
    from: Nanos,
    to: Nanos,
    configs: BTreeSet<Config>,
}

impl Oracle {
    /// Computes what is expected of every job.
    pub fn new(history: &History, limits: &Limits) -> Self {
        let read_at = history.dumped_at.unwrap_or_else(|| history.records.last().map_or(0, |last| history.at(last)));
        let (late, recover) = (limits.late_ms * MS, limits.recover_ms * MS);
        let spans = spans(&history.faults, recover);
        let mut oracle = Self { jobs: Table::default(), read_at_ms: read_at / MS, spans, late, recover };
        oracle.jobs = history.jobs.iter().map(|(id, job)| (id, oracle.expect(job, limits))).collect();
        oracle
    }

    /// By when a fire must have started, in milliseconds: soon; or, where a fault is in its way, soon after everything
    /// is well again.
    pub fn deadline_ms(&self, fire_at_ms: i64) -> i64 {
        let at = fire_at_ms * MS;
        let mut deadline = at + self.late;
        // In order of their beginning, so that one which pushes the deadline into the next one is pushed again.
        for (from, to) in &self.spans {
            if *from <= deadline && at <= *to {
                deadline = deadline.max(to.saturating_add(self.late));
            }
        }
        deadline / MS
    }

    /// Whether a fault or its aftermath lies in the way of this fire.
    pub fn is_harmed(&self, fire_at_ms: i64) -> bool {
        self.deadline_ms(fire_at_ms) > fire_at_ms + self.late / MS
    }

    /// Whether this instant lies in a fault itself.
    pub fn is_in_fault(&self, fire_at_ms: i64) -> bool {
        let at = fire_at_ms * MS;
        self.spans.iter().any(|(from, to)| *from <= at && at <= to.saturating_sub(self.recover))
    }

    fn expect(&self, job: &Job, limits: &Limits) -> Expected {
        match self.walk(job, limits) {
            Ok(expected) => expected,
            Err(why) => Expected { unknown: Some(why), ..Expected::default() },
        }
    }

    fn walk(&self, job: &Job, limits: &Limits) -> Result<Expected, String> {
        let clock = limits.clock_ms;
        let stretches = stretches(&job.changes);
        let mut expected = Expected::default();
        let mut walked: HashMap<usize, Vec<i64>> = HashMap::new();
        let until_ms = self.read_at_ms + LEAD_MS;
        for (index, change) in job.changes.iter().enumerate() {
            if let Some(spec) = &change.spec {
                let instants = instants(job, index, spec, until_ms)?;
                walked.insert(index, instants);
            }
        }
        expected.instants = walked.values().flatten().copied().collect();
        for &at_ms in &expected.instants {
            let at = at_ms * MS;
            let (low, high) = (at - clock * MS, at + clock * MS);
            let mut possible = BTreeSet::new();
            for stretch in stretches.iter().filter(|stretch| stretch.from <= high && low <= stretch.to) {
                possible.extend(stretch.configs.iter().copied());
            }
            let answers: Vec<Option<bool>> = possible
                .iter()
                .map(|config| fires(*config, at, limits, |spec| walked[&spec].binary_search(&at_ms).is_ok()))
                .collect();
            if answers.is_empty() || answers.iter().all(|answer| *answer == Some(false)) {
                continue;
            }
            expected.may.insert(at_ms);
            let sure = answers.iter().all(|answer| *answer == Some(true));
            let spec = possible.iter().find_map(|config| config.spec);
            if let (true, Some(spec)) = (sure, spec)
                && at_ms + limits.late_ms <= self.read_at_ms
                && is_countable(job, spec)
            {
                let covers =
                    |spec: &Spec| spec.blackouts.iter().any(|range| range.from.0 <= at_ms && at_ms < range.to.0);
                let blackout = job.changes[spec].spec.as_deref().is_some_and(covers);
                expected.must.insert(at_ms, Target { spec, blackout });
            }
        }
        Ok(expected)
    }
}

/// Spans in which something was wrong, up to when everything must be well again; in the order of their beginning.
fn spans(faults: &[FaultSpan], recover: Nanos) -> Vec<(Nanos, Nanos)> {
    let end = |fault: &FaultSpan| fault.to.map_or(Nanos::MAX / 2, |to| to + recover);
    let mut spans: Vec<(Nanos, Nanos)> = faults.iter().map(|fault| (fault.from, end(fault))).collect();
    spans.sort_unstable();
    spans
}

/// Whether how often a job has fired is known well enough to require anything: a limit on fires does not go on counting
/// while a job is paused or changed.
fn is_countable(job: &Job, spec: usize) -> bool {
    let has_limit = job.changes[spec].spec.as_ref().is_some_and(|spec| spec.schedule.max_fires.is_some());
    !has_limit || job.changes.iter().filter(|change| change.kind != OpKind::Delete).count() == 1
}

/// What a job may have been when.
fn stretches(changes: &[Change]) -> Vec<Stretch> {
    // A change counts from somewhere between its two bounds: between them both is possible.
    let mut bounds: Vec<Nanos> = changes.iter().flat_map(|change| [change.earliest, change.latest]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let nothing = Config { spec: None, paused: false, until: None };
    let mut configs = BTreeSet::from([nothing]);
    let mut stretches = Vec::new();
    for (position, from) in bounds.iter().enumerate() {
        let to = bounds.get(position + 1).copied().unwrap_or(Nanos::MAX);
        // What began and is not over yet may have happened or not, in any order.
        let open: Vec<usize> = (0..changes.len())
            .filter(|index| changes[*index].earliest <= *from && *from < changes[*index].latest)
            .collect();
        for (index, change) in changes.iter().enumerate().filter(|(_, change)| change.latest == *from) {
            let applied: BTreeSet<Config> = configs.iter().map(|config| apply(*config, changes, index)).collect();
            if change.certain {
                configs = applied;
            } else {
                configs.extend(applied);
            }
        }
        close(&mut configs, changes, &open);
        stretches.push(Stretch { from: *from, to, configs: configs.clone() });
    }
    stretches
}

/// Adds everything that open changes may make of these.
fn close(configs: &mut BTreeSet<Config>, changes: &[Change], open: &[usize]) {
    loop {
        let more: Vec<Config> = configs
            .iter()
            .flat_map(|config| open.iter().map(|index| apply(*config, changes, *index)))
            .filter(|config| !configs.contains(config))
            .collect();
        if more.is_empty() {
            return;
        }
        configs.extend(more);
    }
}

/// What a change makes of a configuration.
fn apply(config: Config, changes: &[Change], index: usize) -> Config {
    let change = &changes[index];
    if config.spec.is_none() && change.kind != OpKind::Create {
        return config;
    }
    match change.kind {
        OpKind::Create if config.spec.is_some() => config,
        OpKind::Create => {
            let paused = change.spec.as_ref().is_some_and(|spec| spec.paused);
            Config { spec: Some(index), paused, until: None }
        }
        OpKind::Update => Config { spec: Some(index), ..config },
        OpKind::Pause => Config { paused: true, until: change.until, ..config },
        OpKind::Resume => Config { paused: false, until: None, ..config },
        OpKind::Delete => Config { spec: None, paused: false, until: None },
        OpKind::Cancel | OpKind::Run | OpKind::Replay | OpKind::Discard => config,
    }
}

/// Whether a configuration fires at an instant; none where its pause ends just then.
fn fires(config: Config, at: Nanos, limits: &Limits, is_instant: impl Fn(usize) -> bool) -> Option<bool> {
    if !config.spec.is_some_and(is_instant) {
        return Some(false);
    }
    match (config.paused, config.until) {
        (false, _) => Some(true),
        (true, None) => Some(false),
        (true, Some(until)) if (until - at).abs() <= limits.clock_ms * MS => None,
        (true, Some(until)) => Some(at > until),
    }
}

/// All instants of the definition that a change brought, from that change on.
fn instants(job: &Job, index: usize, spec: &Spec, until_ms: i64) -> Result<Vec<i64>, String> {
    let change = &job.changes[index];
    // An unchanged schedule keeps the instant that it was accepted with.
    let accepted = job.changes.iter().position(|earlier| {
        let same = |older: &Spec| older.schedule == spec.schedule;
        earlier.spec.as_deref().is_some_and(same)
    });
    let accepted_ms = job.changes[accepted.unwrap_or(index)].latest.div_euclid(MS);
    let from_ms = change.earliest.div_euclid(MS);
    let Schedule { starts_at, ends_at, max_fires, .. } = spec.schedule;
    let bytes = ids::parse(&job.id, "job_").unwrap_or_default();
    let offset = ids::spread_offset_ms(bytes, spec.spread_ms) as i64;
    let after_ms = from_ms.max(starts_at.map_or(i64::MIN, |start| start.0 - 1));
    let until_ms = until_ms.min(ends_at.map_or(i64::MAX, |end| end.0));
    let found = raw_instants(&spec.schedule, after_ms - offset, until_ms - offset, accepted_ms)?;
    let moved = found.into_iter().map(|at| at + offset);
    Ok(moved.take(max_fires.map_or(usize::MAX, |max| max as usize)).collect())
}

/// The instants after `after_ms` up to `until_ms`, as the schedule alone says.
fn raw_instants(schedule: &Schedule, after_ms: i64, until_ms: i64, accepted_ms: i64) -> Result<Vec<i64>, String> {
    let missing = |what: &str| format!("a schedule of type {} without `{what}`", schedule.kind);
    match schedule.kind.as_str() {
        "NONE" => Ok(Vec::new()),
        "EVERY" => {
            let every = schedule.every_ms.filter(|every| *every > 0).ok_or_else(|| missing("every_ms"))? as i64;
            let phase = schedule.phase_ms.unwrap_or(0) as i64;
            let first = ((after_ms - phase).div_euclid(every) + 1) * every + phase;
            Ok((first..=until_ms).step_by(every as usize).collect())
        }
        // One in the past means at once.
        "AT" => Ok(vec![schedule.at.ok_or_else(|| missing("at"))?.0.max(accepted_ms)]),
        "AFTER" => Ok(vec![accepted_ms + schedule.after_ms.ok_or_else(|| missing("after_ms"))? as i64]),
        "CRON" => {
            let gap = match schedule.dst_gap.as_deref().unwrap_or("NEXT_VALID") {
                "NEXT_VALID" => Gap::NextValid,
                "SHIFT" => Gap::Shift,
                "SKIP" => Gap::Skip,
                other => return Err(format!("dst_gap `{other}`")),
            };
            let fold = match schedule.dst_fold.as_deref().unwrap_or("FIRST") {
                "FIRST" => Fold::First,
                "SECOND" => Fold::Second,
                "BOTH" => Fold::Both,
                other => return Err(format!("dst_fold `{other}`")),
            };
            let text = schedule.cron.as_deref().ok_or_else(|| missing("cron"))?;
            let zone = schedule.timezone.as_deref().unwrap_or("UTC");
            Ok(Cron::new(text, zone, gap, fold)?.between(after_ms, until_ms))
        }
        other => Err(format!("a schedule of type `{other}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{CatchUp, Ms, RetryPolicy};

    fn spec(schedule: Schedule) -> Spec {
        let backoff = "FIXED".into();
        Spec {
            schedule,
            retry_policy: RetryPolicy {
                max_attempts: 3,
                backoff,
                initial_delay_ms: 1,
                max_delay_ms: 1,
                total_timeout_ms: None,
            },
            catch_up: CatchUp { mode: "ALL".into(), n: None, max_age_ms: 1, drip_ms: 0 },
            overlap: "ALLOW".into(),
            timeout_ms: 1,
            spread_ms: 0,
            blackouts: Vec::new(),
            paused: false,
            sink: true,
            mark: None,
        }
    }

    fn every(every_ms: u64) -> Schedule {
        Schedule { kind: "EVERY".into(), every_ms: Some(every_ms), ..Schedule::default() }
    }

    /// A change between two instants, in milliseconds.
    fn change(kind: OpKind, earliest: i64, latest: i64, certain: bool, spec: Option<Spec>) -> Change {
        let (earliest, latest, spec) = (earliest * MS, latest * MS, spec.map(Box::new));
        Change { kind, earliest, latest, certain, spec, until: None, version: None }
    }

    /// What is expected of a job by 20 seconds, in seconds.
    fn expect(changes: Vec<Change>) -> (Vec<i64>, Vec<i64>) {
        let limits = Limits::default();
        let oracle = Oracle { read_at_ms: 20_000, late: 2_000 * MS, ..Oracle::default() };
        let job = Job { id: crate::ids::format([1; 16], "job_").into(), changes, ..Job::default() };
        let expected = oracle.expect(&job, &limits);
        assert_eq!(expected.unknown, None);
        let seconds = |at: &i64| at / 1_000;
        let may = expected.may.iter().filter(|at| **at <= 18_000).map(seconds).collect();
        (expected.must.keys().map(seconds).collect(), may)
    }

    fn created(schedule: Schedule) -> Change {
        change(OpKind::Create, 500, 500, true, Some(spec(schedule)))
    }

    #[test]
    fn what_is_acknowledged_leaves_one_possibility() {
        let all: Vec<i64> = (1..=18).collect();
        assert_eq!(expect(vec![created(every(1_000))]), (all.clone(), all));
        let pause = change(OpKind::Pause, 5_500, 5_500, true, None);
        let resume = change(OpKind::Resume, 8_500, 8_500, true, None);
        let left: Vec<i64> = (1..=5).chain(9..=18).collect();
        assert_eq!(expect(vec![created(every(1_000)), pause, resume]), (left.clone(), left));
        let deleted = change(OpKind::Delete, 3_500, 3_500, true, None);
        assert_eq!(expect(vec![created(every(1_000)), deleted]).1, [1, 2, 3]);
    }

    #[test]
    fn what_is_not_answered_adds_one_until_something_certain_overrides_it() {
        let all: Vec<i64> = (1..=18).collect();
        let pause = change(OpKind::Pause, 5_500, 9_000, false, None);
        let (must, may) = expect(vec![created(every(1_000)), pause.clone()]);
        assert_eq!((must, may), ((1..=5).collect(), all.clone()));
        let resume = change(OpKind::Resume, 12_500, 12_500, true, None);
        let (must, may) = expect(vec![created(every(1_000)), pause, resume]);
        assert_eq!((must, may), ((1..=5).chain(13..=18).collect(), all));
    }

    #[test]
    fn what_fires_under_both_definitions_must_be() {
        let update = change(OpKind::Update, 4_500, 9_500, false, Some(spec(every(2_000))));
        let (must, may) = expect(vec![created(every(1_000)), update]);
        assert_eq!(must, [1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 18]);
        assert_eq!(may.len(), 18);
    }

    #[test]
    fn a_pause_with_an_end_is_over_by_itself() {
        let pause = Change { until: Some(8_500 * MS), ..change(OpKind::Pause, 5_500, 5_500, true, None) };
        let (must, _) = expect(vec![created(every(1_000)), pause]);
        assert_eq!(must, (1..=5).chain(9..=18).collect::<Vec<i64>>());
    }

    #[test]
    fn bounds_and_one_offs() {
        let bounded = Schedule { starts_at: Some(Ms(4_000)), ends_at: Some(Ms(9_000)), ..every(1_000) };
        assert_eq!(expect(vec![created(bounded)]).0, [4, 5, 6, 7, 8, 9]);
        let limited = Schedule { max_fires: Some(3), ..every(1_000) };
        assert_eq!(expect(vec![created(limited)]).0, [1, 2, 3]);
        let at = |at| Schedule { kind: "AT".into(), at: Some(Ms(at)), ..Schedule::default() };
        assert_eq!(expect(vec![created(at(7_000))]).0, [7]);
        // One in the past means at once, which is half a second here.
        assert_eq!(expect(vec![created(at(100))]).0, [0]);
        let after = Schedule { kind: "AFTER".into(), after_ms: Some(2_500), ..Schedule::default() };
        assert_eq!(expect(vec![created(after)]).0, [3]);
    }

    #[test]
    fn a_fault_moves_deadlines_and_the_next_one_moves_them_again() {
        let mut oracle = Oracle { late: 1_000 * MS, recover: 500 * MS, ..Oracle::default() };
        oracle.spans = vec![(5_000 * MS, 7_500 * MS), (8_000 * MS, 9_500 * MS)];
        assert_eq!(oracle.deadline_ms(1_000), 2_000);
        assert_eq!(oracle.deadline_ms(4_500), 10_500);
        assert_eq!(oracle.deadline_ms(7_600), 10_500);
        assert_eq!(oracle.deadline_ms(12_000), 13_000);
        assert!(oracle.is_in_fault(6_000) && !oracle.is_in_fault(7_200) && oracle.is_harmed(7_200));
    }
}
