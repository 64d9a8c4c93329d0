//! From a recording to a verdict: what was expected, what must hold, and whether enough happened to tell.

use crate::event::{Event, OpKind, Phase};
use crate::history::{History, MS};
use crate::invariants::{self, Case, Violation};
use crate::limits::Limits;
use crate::log::Log;
use crate::oracle::Oracle;
use crate::text::Text;
use crate::verdict::{Counts, Verdict};
use std::collections::{BTreeMap, HashMap};

/// A recording that was judged.
pub struct Judged {
    pub history: History,
    pub oracle: Oracle,
    /// What is wrong, the earliest first.
    pub violations: Vec<Violation>,
    pub verdict: Verdict,
}

pub fn judge(log: Log, limits: &Limits) -> Judged {
    let history = History::new(log, limits.info_ms);
    let oracle = Oracle::new(&history, limits);
    let case = Case { history: &history, oracle: &oracle, limits };
    let violations = invariants::check(case);
    let counts = count(case);
    let met = met(&history);
    let useless = useless(case);
    let mut too_little = too_little(case, &counts);
    let unmet = limits.sometimes.iter().filter(|name| met.get(name.as_str()).is_none_or(|count| *count == 0));
    too_little.extend(unmet.map(|name| format!("`{name}` was never met")));
    let verdict = Verdict::new(case, &violations, counts, met, useless, too_little);
    Judged { history, oracle, violations, verdict }
}

fn count(case: Case<'_>) -> Counts {
    let Case { history, oracle, .. } = case;
    let rows = || history.executions.values().filter_map(|execution| execution.row.as_ref());
    let must = || oracle.jobs.values().flat_map(|expected| expected.must.keys());
    Counts {
        events: history.records.len(),
        ops: history.ops.len(),
        jobs: history.jobs.values().filter(|job| job.acknowledged).count(),
        jobs_judged: history
            .jobs
            .iter()
            .filter(|(id, job)| job.acknowledged && !oracle.jobs[*id].must.is_empty())
            .count(),
        fires: must().count(),
        fires_in_faults: must().filter(|at| oracle.is_in_fault(**at)).count(),
        executions: rows().count(),
        attempts: rows().map(|row| row.attempts.len()).sum(),
        effects: history.records.iter().filter(|record| matches!(record.event, Event::Effect(_))).count(),
        faults: history.faults.len(),
    }
}

/// What was met, and how often. `--sometimes` takes these names.
fn met(history: &History) -> BTreeMap<&'static str, usize> {
    let mut met: BTreeMap<&'static str, usize> = BTreeMap::new();
    let mut add = |name: &'static str, count: usize| *met.entry(name).or_default() += count;
    let mut newest: HashMap<Text, u64> = HashMap::new();
    let mut epochs: HashMap<u16, u64> = HashMap::new();
    for record in &history.records {
        match &record.event {
            Event::Effect(effect) => {
                let fence = newest.entry(effect.execution).or_default();
                add("zombie", usize::from(effect.fence < *fence));
                add("duplicate", usize::from((200..300).contains(&effect.status) && !effect.accepted));
                *fence = effect.fence.max(*fence);
            }
            Event::ReportRejected(_) | Event::ClaimRejected(_) => add("refused", 1),
            Event::FireRejected(_) => add("epoch_refused", 1),
            Event::Epoch(epoch) => {
                let before = epochs.insert(epoch.shard, epoch.epoch);
                add("takeover", usize::from(before.is_some_and(|before| before < epoch.epoch)));
            }
            _ => {}
        }
    }
    let counter = |name: &str| history.dump.counters.get(name).copied().unwrap_or(0) as usize;
    add("refused", counter("stale_refused"));
    add("epoch_refused", counter("epoch_refused"));
    for op in &history.ops {
        add("unknown", usize::from(op.phase == Phase::Info));
        add("cancel", usize::from(op.asked.kind == OpKind::Cancel && op.phase == Phase::Ok));
        add("cancel_too_late", usize::from(op.asked.kind == OpKind::Cancel && op.answer.status == 409));
        add("key_replayed", usize::from(op.answer.replayed));
    }
    for row in history.executions.values().filter_map(|execution| execution.row.as_ref()) {
        let lost = row.attempts.iter().filter(|attempt| attempt.outcome.as_deref() == Some("WORKER_LOST"));
        add("lost", lost.count());
        add("retry", usize::from(row.attempts.len() > 1));
        add("dead", usize::from(row.state == "DEAD"));
    }
    add("skip", history.jobs.values().map(|job| job.skips.len()).sum());
    met
}

/// Why nothing can be said at all.
fn useless(case: Case<'_>) -> Vec<String> {
    let Case { history, oracle, limits } = case;
    let mut why = history.useless.clone();
    match history.dumped_at {
        None => why.push("there is no dump of the store".to_owned()),
        Some(at) => {
            let healed = history.faults.iter().filter_map(|fault| fault.to).max();
            let early = healed.map(|healed| (at - healed) / MS).filter(|after| *after < limits.recover_ms);
            if let Some(after) = early {
                let allowed = limits.recover_ms;
                why.push(format!(
                    "the store was read {after} ms after the last fault, and {allowed} ms are allowed to recover"
                ));
            }
        }
    }
    for fault in &history.faults {
        let (name, kind) = (&fault.fault.fault, &fault.fault.kind);
        if fault.to.is_none() {
            why.push(format!("fault `{name}` ({kind}) never ended"));
        }
        if !fault.verified {
            why.push(format!("fault `{name}` ({kind}) was not verified"));
        }
    }
    for (id, expected) in oracle.jobs.iter() {
        if let Some(unknown) = &expected.unknown {
            why.push(format!("{id}: {unknown}"));
        }
    }
    why
}

/// Why a run without a violation has shown nothing.
fn too_little(case: Case<'_>, counts: &Counts) -> Vec<String> {
    let limits = case.limits;
    let mut why = Vec::new();
    let mut least = |what: &str, is: usize, least: usize| {
        if is < least {
            why.push(format!("{is} {what}, and at least {least} are needed"));
        }
    };
    least("acknowledged jobs", counts.jobs, limits.min_jobs);
    least("fires that had to be", counts.fires, limits.min_fires);
    least("fires inside faults", counts.fires_in_faults, limits.min_fires_in_faults);
    least("faults", counts.faults, limits.min_faults);
    least("effects", counts.effects, 1);
    let judged = counts.jobs * limits.min_judged_percent / 100;
    least("jobs of which something had to be", counts.jobs_judged, judged);
    for (node, asked) in invariants::asked_after_healing(case) {
        least(&format!("questions to node `{node}` after the last fault"), asked, limits.min_healed_ops);
    }
    why
}
