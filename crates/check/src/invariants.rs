//! What must hold of every history; one file per group. The numbers are those of the table in
//! `docs/internals/checker.md`.
//!
//! I8 (graphs of jobs) and I16 (audit) are not here: the product has neither yet.

mod complete;
mod effects;
mod timing;
mod fences;
mod order;
mod overlap;
mod retries;
mod quiet;
mod reads;
mod tenants;
mod healing;
mod keys;
mod matching;
mod versions;

use crate::event::{Effect, Event, ExecutionRow, OpKind, Phase, Spec};
use crate::history::{Execution, History, Job, MS, Nanos};
use crate::limits::Limits;
use crate::oracle::Oracle;
use crate::parallel;
use crate::text::Text;
use serde::Serialize;

#[derive(Copy, Clone)]
pub struct Case<'a> {
    pub history: &'a History,
    pub oracle: &'a Oracle,
    pub limits: &'a Limits,
}

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Violation {
    /// Which invariant, such as `I3`.
    pub invariant: &'static str,
    pub message: String,
    /// The execution it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Text>,
    /// The job it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Text>,
    /// When, in nanoseconds since the Unix epoch.
    pub at_ns: Nanos,
}

type Check = fn(Case<'_>, &mut Vec<Violation>);

/// All invariants that exist by now, with their checks.
pub const ALL: [(&str, Check); 16] = [
    ("I1", complete::complete),
    ("I2", complete::sound),
    ("I3", effects::once),
    ("I4", timing::check),
    ("I5", fences::check),
    ("I6", effects::causality),
    ("I7", order::check),
    ("I9", overlap::check),
    ("I10", retries::check),
    ("I11", quiet::check),
    ("I12", reads::check),
    ("I13", tenants::check),
    ("I14", healing::check),
    ("I15", keys::check),
    ("I17", matching::check),
    ("I18", versions::check),
];

/// Checks everything. The earliest violation comes first; of those at one time, that of the first invariant.
pub fn check(case: Case<'_>) -> Vec<Violation> {
    // They only read, and know nothing of each other.
    let found = parallel::each(&ALL, |(_, check)| {
        let mut found = Vec::new();
        check(case, &mut found);
        found
    });
    let mut found = found.concat();
    found.sort_by_key(|violation| violation.at_ns);
    found
}

/// How many questions each node was asked after the last fault; nothing where there was none.
pub fn asked_after_healing(case: Case<'_>) -> Vec<(&str, usize)> {
    let Some(healed) = healing::healed_at(case) else { return Vec::new() };
    healing::answers_after(case, healed).into_iter().map(|(node, answers)| (node, answers.len())).collect()
}

impl Violation {
    fn new(invariant: &'static str, at_ns: Nanos, message: String) -> Self {
        Self { invariant, message, execution: None, job: None, at_ns }
    }

    fn of(mut self, execution: Text) -> Self {
        self.execution = Some(execution);
        self
    }

    fn in_job(mut self, job: Text) -> Self {
        self.job = Some(job);
        self
    }
}

impl<'a> Case<'a> {
    /// Executions that the store showed, with their rows.
    fn rows(self) -> impl Iterator<Item = (Text, &'a Execution, &'a ExecutionRow)> {
        self.history.executions.iter().filter_map(|(id, execution)| Some((id, execution, execution.row.as_ref()?)))
    }

    /// The calls of the sink about an execution, in the order of their arrival.
    fn effects(self, execution: &'a Execution) -> Vec<&'a Effect> {
        let lines = execution.effects.iter().map(|index| &self.history.records[*index]);
        lines
            .filter_map(|record| match &record.event {
                Event::Effect(effect) => Some(effect),
                _ => None,
            })
            .collect()
    }

    /// When a call arrived.
    fn arrival(self, effect: &Effect) -> Nanos {
        self.history.on_axis(effect.arrived_mono_ns)
    }

    /// Whether somebody asked for this about an execution, and it was or may have been done.
    fn was_asked(self, execution: &Execution, kind: OpKind) -> bool {
        execution
            .ops
            .iter()
            .map(|index| &self.history.ops[*index])
            .any(|op| op.asked.kind == kind && op.phase != Phase::Fail)
    }

    /// How far clocks may be apart.
    fn clock(self) -> Nanos {
        self.limits.clock_ms * MS
    }
}

impl Job {
    /// All definitions that it had or may have had.
    fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.changes.iter().filter_map(|change| change.spec.as_deref())
    }

    /// Whether every attempt of it calls the sink.
    fn is_seen(&self) -> bool {
        self.specs().next().is_some() && self.specs().all(|spec| spec.sink)
    }

    /// Whether its runs never wait for each other nor for a drip.
    fn is_prompt(&self) -> bool {
        self.specs().all(|spec| spec.overlap == "ALLOW" && spec.catch_up.drip_ms == 0)
    }
}

fn is_final(state: &str) -> bool {
    matches!(state, "SUCCEEDED" | "DEAD" | "CANCELLED" | "SKIPPED")
}

fn is_success(status: u16) -> bool {
    (200..300).contains(&status)
}
