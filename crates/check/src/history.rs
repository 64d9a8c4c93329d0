//! What happened, put together from the lines: operations with both their ends, jobs with their changes, executions
//! with all that mentions them, faults with their spans.
//!
//! There is one axis of time, in nanoseconds: the monotonic clock of the machine, moved so that it reads like the wall
//! clock. So lines can be compared with instants of the store, and a wall clock that jumps in a harmed process does not
//! disturb.

use crate::event::{
    Answer, AttemptRow, Dump, Event, ExecutionRow, Fault, FaultPhase, JobRow, Ms, Op, OpKind, Phase, Record, Skip,
    Spec, VersionRow,
};
use crate::log::Log;
use crate::table::Table;
use crate::text::Text;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Nanoseconds on the one axis.
pub type Nanos = i64;

/// A millisecond.
pub const MS: Nanos = 1_000_000;

/// Everything that is known about a run.
#[derive(Debug, Default)]
pub struct History {
    /// The lines, in order.
    pub records: Vec<Record>,
    /// What is added to the monotonic clock.
    pub base: Nanos,
    /// Operations, in the order of their invocation.
    pub ops: Vec<Operation>,
    pub jobs: Table<Job>,
    /// Executions by id, those that only one line mentions included.
    pub executions: Table<Execution>,
    /// Faults, in the order of their beginning.
    pub faults: Vec<FaultSpan>,
    /// The dump's own numbers. Its rows are with jobs and executions.
    pub dump: Dump,
    /// When the first piece of the dump was written.
    pub dumped_at: Option<Nanos>,
    /// Fires that were or may have been cancelled as such: job and instant.
    pub cancelled_fires: HashSet<(Text, Ms)>,
    /// Ids that were in the dump twice.
    pub twice: Vec<Text>,
    /// Why this recording proves nothing.
    pub useless: Vec<String>,
}

/// An operation with both its ends.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What was asked: the first line.
    pub asked: Op,
    pub invoked: Nanos,
    /// When more was known.
    pub ended: Option<Nanos>,
    /// `Info` where nothing more was heard.
    pub phase: Phase,
    pub answer: Answer,
    /// The job by id, where it is known.
    pub job: Option<Text>,
    /// The execution by id, where it is known.
    pub execution: Option<Text>,
}

/// A job, and what was done to it.
#[derive(Clone, Debug, Default)]
pub struct Job {
    pub id: Text,
    pub name: Text,
    pub tenant: Text,
    /// In the order of their effect.
    pub changes: Vec<Change>,
    /// As shown at the end.
    pub row: Option<JobRow>,
    /// Its versions as shown at the end, first one first.
    pub versions: Vec<VersionRow>,
    /// Fires that became no executions.
    pub skips: Vec<Skip>,
    /// Its executions by id.
    pub executions: Vec<Text>,
    /// Operations about it, by index.
    pub ops: Vec<usize>,
    /// Whether the creation was acknowledged.
    pub acknowledged: bool,
}

/// A change of a job: one operation, or several tries of it under one key.
#[derive(Clone, Debug)]
pub struct Change {
    pub kind: OpKind,
    /// It has no effect before.
    pub earliest: Nanos,
    /// If it has one, then by now.
    pub latest: Nanos,
    /// Whether it was acknowledged.
    pub certain: bool,
    pub spec: Option<Box<Spec>>,
    /// When a pause ends.
    pub until: Option<Nanos>,
    /// The job's version after it.
    pub version: Option<u32>,
}

/// An execution, and everything that mentions it.
#[derive(Clone, Debug, Default)]
pub struct Execution {
    /// As shown at the end.
    pub row: Option<ExecutionRow>,
    /// Lines that mention it, by index, in order.
    pub mentions: Vec<usize>,
    /// Those of them that are calls of the sink, in the order of their arrival.
    pub effects: Vec<usize>,
    /// Operations about it, by index.
    pub ops: Vec<usize>,
}

/// A fault, from harm to health.
#[derive(Clone, Debug)]
pub struct FaultSpan {
    pub fault: Fault,
    pub from: Nanos,
    /// When it was over.
    pub to: Option<Nanos>,
    /// Whether it was seen to work.
    pub verified: bool,
}

impl History {
    /// Puts a log together. An operation without an answer counts as one that may have an effect for `info_ms`.
    pub fn new(log: Log, info_ms: i64) -> Self {
        let Log { records, gaps } = log;
        let witness = records.iter().find(|record| matches!(record.event, Event::Effect(_))).or(records.first());
        let base = witness.map_or(0, |record| record.wall_ns as i64 - record.mono_ns as i64);
        let mut history = Self { records, base, useless: gaps, ..Self::default() };
        history.pair_operations();
        history.span_faults();
        history.take_rows();
        history.find_jobs(info_ms);
        history.find_executions();
        history
    }

    /// When a line was written.
    pub fn at(&self, record: &Record) -> Nanos {
        self.on_axis(record.mono_ns)
    }

    /// A reading of the monotonic clock on the one axis.
    pub fn on_axis(&self, mono_ns: u64) -> Nanos {
        mono_ns as i64 + self.base
    }

    /// The lines that mention an execution.
    pub fn lines<'a>(&'a self, execution: &'a Execution) -> impl Iterator<Item = &'a Record> {
        execution.mentions.iter().map(|index| &self.records[*index])
    }

    /// The job of an execution.
    pub fn job_of(&self, execution: &Execution) -> Option<&Job> {
        self.jobs.get(execution.row.as_ref()?.job_id)
    }

    fn pair_operations(&mut self) {
        let mut open: HashMap<Text, usize> = HashMap::new();
        for record in &self.records {
            let Event::Op(op) = &record.event else { continue };
            let at = record.mono_ns as i64 + self.base;
            if op.phase == Phase::Invoke {
                if open.insert(op.op, self.ops.len()).is_some() {
                    self.useless.push(format!("operation `{}` is invoked twice", op.op));
                }
                let (job, execution) = (op.job, op.execution);
                let asked = Op::clone(op);
                let (phase, answer) = (Phase::Info, Answer::default());
                self.ops.push(Operation { asked, invoked: at, ended: None, phase, answer, job, execution });
                continue;
            }
            let Some(index) = open.get(&op.op) else {
                self.useless.push(format!("operation `{}` ends and was never invoked", op.op));
                continue;
            };
            let operation = &mut self.ops[*index];
            if operation.ended.is_some() {
                self.useless.push(format!("operation `{}` ends twice", op.op));
            }
            operation.ended = Some(at);
            operation.phase = op.phase;
            operation.answer = op.answer.clone().unwrap_or_default();
            operation.job = operation.job.or(op.job);
            operation.execution = operation.execution.or(op.execution);
        }
    }

    fn span_faults(&mut self) {
        let mut known: HashMap<String, usize> = HashMap::new();
        for record in &self.records {
            let Event::Fault(fault) = &record.event else { continue };
            let at = record.mono_ns as i64 + self.base;
            if fault.phase == FaultPhase::Begin {
                known.insert(fault.fault.clone(), self.faults.len());
                self.faults.push(FaultSpan { fault: fault.clone(), from: at, to: None, verified: false });
                continue;
            }
            match (known.get(&fault.fault), fault.phase) {
                (Some(index), FaultPhase::End) => self.faults[*index].to = Some(at),
                (Some(index), _) => self.faults[*index].verified = true,
                (None, _) => self.useless.push(format!("fault `{}` never began", fault.fault)),
            }
        }
    }

    /// Moves the rows of the dump to their jobs and executions.
    fn take_rows(&mut self) {
        let base = self.base;
        for record in &mut self.records {
            let at = record.mono_ns as i64 + base;
            let Event::Dump(piece) = &mut record.event else { continue };
            self.dumped_at.get_or_insert(at);
            for row in std::mem::take(&mut piece.jobs) {
                let job = self.jobs.entry(row.id);
                if job.row.is_some() {
                    self.twice.push(row.id);
                }
                (job.id, job.name, job.tenant) = (row.id, row.name, row.tenant);
                job.row = Some(row);
            }
            for row in std::mem::take(&mut piece.versions) {
                let job = self.jobs.entry(row.id);
                job.id = row.id;
                job.versions.push(row);
            }
            for row in std::mem::take(&mut piece.executions) {
                let execution = self.executions.entry(row.id);
                if execution.row.is_some() {
                    self.twice.push(row.id);
                }
                execution.row = Some(with_attempts(row));
            }
            let sums = |into: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>| {
                from.iter().for_each(|(name, count)| *into.entry(name.clone()).or_default() += count);
            };
            self.dump.skips.append(&mut piece.skips);
            self.dump.dead.append(&mut piece.dead);
            self.dump.nodes.append(&mut piece.nodes);
            sums(&mut self.dump.counts, &piece.counts);
            sums(&mut self.dump.gauges, &piece.gauges);
            sums(&mut self.dump.counters, &piece.counters);
        }
    }

    fn find_jobs(&mut self, info_ms: i64) {
        // A creation that nobody acknowledged may have happened all the same: then its name is in the dump.
        self.jobs.sort();
        self.jobs.values_mut().for_each(|job| job.versions.sort_by_key(|version| version.version));
        let by_name: HashMap<Text, Text> = self.jobs.values().map(|job| (job.name, job.id)).collect();
        let acknowledged: HashMap<Text, Text> = self.ops.iter().filter_map(created).collect();
        for op in &mut self.ops {
            if let (OpKind::Create, None, Some(name)) = (op.asked.kind, op.job, op.asked.name) {
                op.job = acknowledged.get(&name).or_else(|| by_name.get(&name)).copied();
            }
        }
        let mut changes: BTreeMap<(Text, OpKind, Text), Change> = BTreeMap::new();
        for (index, op) in self.ops.iter().enumerate() {
            let Some(id) = op.job else { continue };
            let job = self.jobs.entry(id);
            job.id = id;
            job.ops.push(index);
            if op.asked.kind == OpKind::Create {
                job.tenant = op.asked.tenant;
                job.name = op.asked.name.unwrap_or_default();
                job.acknowledged |= op.phase == Phase::Ok;
            }
            let is_change = !matches!(op.asked.kind, OpKind::Cancel | OpKind::Run | OpKind::Replay | OpKind::Discard);
            if is_change && op.phase != Phase::Fail {
                // Without a key every try stands for itself.
                let key = op.asked.key.unwrap_or_else(|| format!(" {}", op.asked.op).into());
                let row = job.row.as_ref();
                let next = change(op, row, info_ms);
                changes.entry((id, op.asked.kind, key)).and_modify(|change| change.join(&next)).or_insert(next);
            }
        }
        for ((id, _, _), change) in changes {
            self.jobs.entry(id).changes.push(change);
        }
        self.jobs.values_mut().for_each(|job| job.changes.sort_by_key(|change| (change.latest, change.earliest)));
        let logged = self.records.iter().filter_map(|record| match &record.event {
            Event::Skip(skip) => Some(skip.clone()),
            _ => None,
        });
        let shown = self.dump.skips.iter().map(|row| Skip {
            job: row.job_id,
            from: row.from,
            until: row.to,
            reason: row.reason,
            recorded_at: row.recorded_at,
        });
        for skip in logged.chain(shown) {
            let job = self.jobs.entry(skip.job);
            job.id = skip.job;
            job.skips.push(skip);
        }
        self.jobs.sort();
    }

    fn find_executions(&mut self) {
        for (index, record) in self.records.iter().enumerate() {
            if let Some(id) = execution_of(&record.event) {
                let execution = self.executions.entry(id);
                execution.mentions.push(index);
                if let Event::Effect(_) = record.event {
                    execution.effects.push(index);
                }
            }
        }
        for (index, op) in self.ops.iter().enumerate() {
            if let Some(id) = op.execution {
                self.executions.entry(id).ops.push(index);
            }
        }
        let arrived = |index: &usize| match &self.records[*index].event {
            Event::Effect(effect) => effect.arrived_mono_ns,
            _ => 0,
        };
        self.executions.values_mut().for_each(|execution| execution.effects.sort_by_key(arrived));
        self.executions.sort();
        let cancels = self.ops.iter().filter(|op| op.asked.kind == OpKind::Cancel && op.phase != Phase::Fail);
        self.cancelled_fires = cancels.filter_map(|op| Some((op.job?, op.asked.fire_at?))).collect();
        for (id, execution) in self.executions.iter() {
            if let Some(row) = &execution.row
                && let Some(job) = self.jobs.get_mut(row.job_id)
            {
                job.executions.push(id);
            }
        }
    }
}

/// The execution that a line is about.
pub fn execution_of(event: &Event) -> Option<Text> {
    match event {
        Event::Op(op) => op.execution,
        Event::Read(read) => read.execution,
        Event::Fire(fire) | Event::FireRejected(fire) => Some(fire.execution),
        Event::Claim(claim) | Event::ClaimRejected(claim) => Some(claim.execution),
        Event::Start(body) | Event::End(body) => Some(body.execution),
        Event::Effect(effect) => Some(effect.execution),
        Event::Report(report) | Event::ReportRejected(report) => Some(report.execution),
        Event::Dead(dead) => Some(dead.execution),
        Event::Run(_) | Event::Page(_) | Event::Skip(_) | Event::Epoch(_) | Event::Fault(_) | Event::Dump(_) => None,
    }
}

/// Name and id of a job whose creation was acknowledged.
fn created(op: &Operation) -> Option<(Text, Text)> {
    let is_created = op.asked.kind == OpKind::Create && op.phase == Phase::Ok;
    is_created.then(|| Some((op.asked.name?, op.job?))).flatten()
}

/// What an operation did to its job, as far as is known.
fn change(op: &Operation, row: Option<&JobRow>, info_ms: i64) -> Change {
    let certain = op.phase == Phase::Ok;
    // When a job was created is shown with it, also where the answer was lost.
    let shown = row.filter(|_| op.asked.kind == OpKind::Create).map(|row| row.created_at);
    let told = op.answer.updated_at.filter(|_| certain).or(shown);
    let last = if certain { op.ended } else { None };
    let (earliest, latest) = match told {
        Some(at) => (at.0 * MS, at.0 * MS),
        None => (op.invoked, last.unwrap_or(op.invoked + info_ms * MS)),
    };
    Change {
        kind: op.asked.kind,
        earliest,
        latest,
        certain: certain || shown.is_some(),
        spec: op.asked.spec.clone(),
        until: op.asked.until.map(|until| until.0 * MS),
        version: op.answer.version.filter(|_| certain),
    }
}

impl Change {
    /// Another try under the same key: together they have one effect, at some time between the first question and the
    /// first certain answer.
    fn join(&mut self, other: &Change) {
        let exact = |change: &Change| change.certain && change.earliest == change.latest;
        match (exact(self), exact(other)) {
            (true, _) => {}
            (false, true) => (self.earliest, self.latest) = (other.earliest, other.latest),
            (false, false) => {
                self.latest = match (self.certain, other.certain) {
                    (true, true) => self.latest.min(other.latest),
                    (true, false) => self.latest,
                    (false, true) => other.latest,
                    (false, false) => self.latest.max(other.latest),
                };
                self.earliest = self.earliest.min(other.earliest);
            }
        }
        self.certain |= other.certain;
        self.version = self.version.or(other.version);
    }
}

/// A row that tells of one attempt at most may do so by its own fields.
fn with_attempts(mut row: ExecutionRow) -> ExecutionRow {
    if row.attempts.is_empty()
        && let Some(started_at) = row.started_at
    {
        let finished_at: Option<Ms> = row.finished_at.filter(|_| row.outcome.is_some());
        let (attempt, fence_token) = (row.attempt, row.fence_token);
        row.attempts.push(AttemptRow { attempt, fence_token, started_at, finished_at, outcome: row.outcome });
    }
    row
}
