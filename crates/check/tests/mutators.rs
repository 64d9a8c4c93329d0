//! A checker that has never failed is no evidence: every way to spoil a valid history is found, by the invariant that
//! is about it.

mod common;

use campanile_check::event::{AttemptRow, Claim, Ms};
use campanile_check::event::{
    Body, Dump, Effect, Epoch, Event, ExecutionRow, Fault, FaultPhase, Op, OpKind, Phase, Read, Record, Report,
    SkipRow, Spec,
};
use campanile_check::ids;
use campanile_check::judge::judge;
use campanile_check::limits::Limits;
use campanile_check::line;
use campanile_check::log::Log;
use campanile_check::text::Text;
use campanile_check::verdict::Valid;
use common::{CALM, Numbers, SMALL, generate};
use std::collections::{BTreeMap, HashMap};

const SEEDS: [u64; 3] = [11, 12, 13];

/// A history, and where in it something is to be spoilt.
struct Spoiler {
    records: Vec<Record>,
    numbers: Numbers,
    specs: HashMap<Text, Spec>,
    names: HashMap<Text, Text>,
    faults: Vec<(u64, u64)>,
}

/// Spoils something; none where there is nothing to spoil.
type Mutator = fn(&mut Spoiler) -> Option<()>;

/// What is spoilt, which invariant is about it, and how.
const MUTATORS: [(&str, &str, Mutator); 74] = [
    ("the sink loses a call", "I1", drop_effect),
    ("the sink did not count a call", "I1", uncount_effect),
    ("the store loses an execution", "I1", drop_execution),
    ("the store loses a job", "I1", drop_job),
    ("the store loses a run by hand", "I1", drop_manual),
    ("a fire is skipped for a reason that does not hold", "I1", false_skip),
    ("cancelled by nobody", "I1", cancelled_by_nobody),
    ("skipped for an overlap that is allowed", "I1", skipped_for_nothing),
    ("two executions of one fire", "I1", twin),
    ("a ghost calls the sink", "I2", ghost),
    ("an execution with another id", "I2", wrong_id),
    ("an instant that the schedule does not have", "I2", wrong_instant),
    ("a run while paused", "I2", run_while_paused),
    ("a run by hand that nobody asked for", "I2", manual_by_nobody),
    ("a run under an old version", "I2", old_version),
    ("a run under a version to come", "I2", future_version),
    ("the sink is told of another instant", "I2", wrong_call),
    ("two effects count", "I3", double_effect),
    ("one attempt calls twice", "I3", call_twice),
    ("an attempt after the success", "I3", effect_after_success),
    ("a call before it is due", "I4", early_effect),
    ("a start before it is due", "I4", early_start),
    ("a late start for no reason", "I4", late_start),
    ("missed for no reason", "I4", missed_for_nothing),
    ("a fire under an old epoch", "I5", old_epoch),
    ("an epoch with two owners", "I5", two_owners),
    ("an epoch goes back", "I5", epoch_goes_back),
    ("a fire for a foreign shard", "I5", wrong_shard),
    ("a report of an older attempt is accepted", "I5", zombie_accepted),
    ("a report is accepted twice", "I5", report_twice),
    ("another outcome is stored than was accepted", "I5", other_outcome),
    ("a fence goes back", "I5", fence_goes_back),
    ("a fence is given twice", "I5", fence_twice),
    ("a stale effect counts", "I5", stale_effect_counts),
    ("a start without a claim", "I6", start_without_claim),
    ("a claim that the store forgot", "I6", forgotten_claim),
    ("fired before its job was created", "I6", fired_before_creation),
    ("a cancelled one runs", "I7", resurrected),
    ("a cancel is acknowledged after the end", "I7", cancel_after_end),
    ("a cancel is refused before the end", "I7", cancel_refused),
    ("a read that no order explains", "I7", impossible_read),
    ("two runs overlap", "I9", overlap),
    ("one attempt too many", "I10", too_many_attempts),
    ("an attempt too soon", "I10", too_soon),
    ("a dead letter is lost", "I10", lost_dead_letter),
    ("a dead letter is there twice", "I10", dead_letter_twice),
    ("dead too soon", "I10", dead_too_soon),
    ("left running", "I11", left_running),
    ("a number that is wrong", "I11", wrong_count),
    ("a message that is left", "I11", message_left),
    ("a read that goes back", "I12", read_goes_back),
    ("an older version after a newer one", "I12", old_version_read),
    ("an acknowledged job is not found", "I12", job_not_found),
    ("a list with something twice", "I12", page_twice),
    ("a list that lacks something", "I12", page_lacks),
    ("another tenant is shown it", "I13", foreign_read),
    ("another tenant in an event", "I13", foreign_event),
    ("a node that does not recover", "I14", never_recovers),
    ("two jobs under one key", "I15", two_jobs),
    ("other words under one key", "I15", other_answer),
    ("another request under one key", "I15", other_request),
    ("a call that no fire explains", "I17", surplus_call),
    ("a call for the wrong job", "I17", swapped_name),
    ("a version is missing", "I18", missing_version),
    ("two versions in force at once", "I18", two_in_force),
    ("a version counts from another instant than was answered", "I18", other_instant),
    ("a change counts from before it was asked for", "I18", counts_too_early),
    ("a run under a version that was over", "I18", old_version),
    ("a run under a version that came later", "I18", future_version),
    ("a run while the job was paused", "I18", run_while_paused),
    ("a skip covers what ran", "I18", skip_over_run),
    ("a retry goes on under a newer definition", "I18", newer_definition),
    ("a run by hand under a version to come", "I18", manual_in_future_version),
    ("a start after the deletion", "I18", start_after_deletion),
];

#[test]
fn every_spoilt_history_is_found_by_its_invariant() {
    let limits = Limits { min_jobs: 100, ..Limits::default() };
    let mut missed: Vec<String> = Vec::new();
    for seed in SEEDS {
        let records = generate(seed, SMALL);
        for (what, invariant, mutator) in &MUTATORS {
            let mut spoiler = Spoiler::new(records.clone(), seed);
            if mutator(&mut spoiler).is_none() {
                missed.push(format!("seed {seed}: {what}: there was nothing to spoil"));
                continue;
            }
            let verdict = judge(Log::new(spoiler.renumbered()), &limits).verdict;
            if verdict.valid != Valid::Failed || verdict.invariants[invariant] == 0 {
                let found: BTreeMap<_, _> = verdict.invariants.iter().filter(|(_, count)| **count > 0).collect();
                missed.push(format!("seed {seed}: {what}: {:?} {:?}, not {invariant}", verdict.valid, found));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn a_recording_that_proves_nothing_is_invalid() {
    let limits = Limits { min_jobs: 100, ..Limits::default() };
    let check = |records: Vec<Record>| judge(Log::new(records), &limits).verdict;
    let whole = generate(5, SMALL);
    assert_eq!(check(whole.clone()).valid, Valid::Passed);
    let without = |is_out: fn(&Event) -> bool| {
        let mut spoiler = Spoiler::new(whole.clone(), 5);
        spoiler.records.retain(|record| !is_out(&record.event));
        check(spoiler.renumbered())
    };
    let cases = [
        ("nothing at all", check(Vec::new())),
        ("no dump", without(|event| matches!(event, Event::Dump(_)))),
        ("no faults", check(generate(5, CALM))),
        ("unverified", without(|event| is_phase(event, FaultPhase::Verified))),
        ("never healed", without(|event| is_phase(event, FaultPhase::End))),
        ("no operations", without(|event| !matches!(event, Event::Run(_) | Event::Fault(_)))),
    ];
    for (what, verdict) in cases {
        assert_eq!(verdict.valid, Valid::Invalid, "{what}: {}", verdict.summary());
        assert!(!verdict.reasons.is_empty(), "{what}");
    }
    // A line that was lost is a hole in the evidence, whatever the rest says.
    let mut torn = whole.clone();
    torn.remove(whole.len() / 2);
    assert_eq!(check(torn).valid, Valid::Invalid);
    // Too few jobs, and something that was never met.
    let few = Limits { min_jobs: 1_000_000, ..limits.clone() };
    assert_eq!(judge(Log::new(whole.clone()), &few).verdict.valid, Valid::Invalid);
    let never = Limits { sometimes: vec!["epoch_refused".into()], ..limits.clone() };
    assert_eq!(judge(Log::new(whole), &never).verdict.valid, Valid::Invalid);
}

fn is_phase(event: &Event, phase: FaultPhase) -> bool {
    matches!(event, Event::Fault(Fault { phase: found, .. }) if *found == phase)
}

impl Spoiler {
    fn new(records: Vec<Record>, seed: u64) -> Self {
        let (mut specs, mut names, mut by_name) = (HashMap::new(), HashMap::new(), HashMap::new());
        let (mut faults, mut open) = (Vec::new(), HashMap::new());
        for record in &records {
            match &record.event {
                Event::Op(op) if op.kind == OpKind::Create => {
                    if let (Some(name), Some(spec)) = (op.name, &op.spec) {
                        by_name.insert(name, Spec::clone(spec));
                    }
                    if let (Some(name), Some(job)) = (op.name, op.job) {
                        specs.insert(job, by_name[&name].clone());
                        names.insert(job, name);
                    }
                }
                Event::Fault(fault) if fault.phase == FaultPhase::Begin => {
                    open.insert(fault.fault.clone(), record.mono_ns);
                }
                Event::Fault(fault) if fault.phase == FaultPhase::End => {
                    faults.push((open[&fault.fault], record.mono_ns));
                }
                _ => {}
            }
        }
        Self { records, numbers: Numbers::new(seed ^ 0xABCD), specs, names, faults }
    }

    /// The lines in order, counted anew.
    fn renumbered(mut self) -> Vec<Record> {
        self.records.sort_by_key(|record| record.mono_ns);
        let mut seqs: HashMap<Text, u64> = HashMap::new();
        for record in &mut self.records {
            let seq = seqs.entry(record.node).or_default();
            *seq += 1;
            record.seq = *seq;
        }
        self.records
    }

    fn any(&mut self, all: &[usize]) -> Option<usize> {
        let count = all.len() as i64;
        if count == 0 { None } else { Some(all[self.numbers.below(count) as usize]) }
    }

    /// One of the lines of which this holds.
    fn line(&mut self, is_fit: impl Fn(&Record) -> bool) -> Option<usize> {
        let all: Vec<usize> = (0..self.records.len()).filter(|index| is_fit(&self.records[*index])).collect();
        self.any(&all)
    }

    fn dump(&mut self) -> &mut Dump {
        let dumps = self.records.iter_mut().filter_map(|record| match &mut record.event {
            Event::Dump(dump) => Some(dump),
            _ => None,
        });
        dumps.last().expect("a dump")
    }

    fn row(&mut self, is_fit: impl Fn(&ExecutionRow, &Spec) -> bool) -> Option<usize> {
        let specs = self.specs.clone();
        let rows = &self.dump().executions;
        let fits = |index: &usize| specs.get(&rows[*index].job_id).is_some_and(|spec| is_fit(&rows[*index], spec));
        let all: Vec<usize> = (0..rows.len()).filter(fits).collect();
        self.any(&all)
    }

    /// A row that succeeded at the first try, of a job that the sink sees and that allows overlaps.
    fn plain(&mut self) -> Option<usize> {
        self.row(is_plain)
    }

    /// The same, far from all faults.
    fn calm(&mut self, is_fit: impl Fn(&ExecutionRow, &Spec) -> bool) -> Option<usize> {
        let faults = self.faults.clone();
        self.row(|row, spec| {
            let at = common::mono((row.fire_at.0 - common::START_MS) as f64);
            let is_near = |(from, to): &(u64, u64)| from - 8_000_000_000 < at && at < to + 18_000_000_000;
            is_plain(row, spec) && is_fit(row, spec) && !faults.iter().any(is_near)
        })
    }

    /// The calls about an execution.
    fn effects(&self, id: Text) -> Vec<usize> {
        let is_about = |record: &Record| matches!(&record.event, Event::Effect(effect) if effect.execution == id);
        (0..self.records.len()).filter(|index| is_about(&self.records[*index])).collect()
    }

    fn effect(&mut self, index: usize) -> &mut Effect {
        match &mut self.records[index].event {
            Event::Effect(effect) => effect,
            other => panic!("{other:?}"),
        }
    }

    fn op(&mut self, index: usize) -> &mut Op {
        match &mut self.records[index].event {
            Event::Op(op) => op,
            other => panic!("{other:?}"),
        }
    }

    fn read(&mut self, index: usize) -> &mut Read {
        match &mut self.records[index].event {
            Event::Read(read) => read,
            other => panic!("{other:?}"),
        }
    }

    /// Writes a line like another one.
    fn add_like(&mut self, index: usize, event: Event) {
        let record = Record { event, ..self.records[index].clone() };
        self.records.push(record);
    }

    /// Removes everything that mentions an execution.
    fn forget(&mut self, id: Text) {
        self.records.retain(|record| campanile_check::history::execution_of(&record.event) != Some(id));
        self.dump().executions.retain(|row| row.id != id);
        self.recount();
    }

    /// Writes an id in another way, wherever it is.
    fn respell(&mut self, old: &str, new: &str) {
        for record in &mut self.records {
            let text = serde_json::to_string(record).expect("JSON").replace(old, new);
            *record = line::read(&text).expect("a record");
        }
    }

    /// Makes the dump's numbers fit its rows.
    fn recount(&mut self) {
        let mut counts = BTreeMap::new();
        self.dump().executions.iter().for_each(|row| *counts.entry(row.state.to_string()).or_default() += 1);
        self.dump().counts = counts;
    }
}

fn is_plain(row: &ExecutionRow, spec: &Spec) -> bool {
    let is_simple = row.kind == "SCHEDULE" && row.state == "SUCCEEDED" && row.attempts.len() == 1;
    is_simple && spec.sink && spec.overlap == "ALLOW" && spec.catch_up.mode == "ALL"
}

fn is_recurring(spec: &Spec) -> bool {
    spec.schedule.kind == "EVERY"
}

fn scheduled_id(job: Text, at: Ms) -> Text {
    let bytes = ids::parse(&job, "job_").expect("an id");
    ids::format(ids::execution(1, bytes, at.0, ids::Kind::Scheduled, b"").expect("short"), "exe_").into()
}

fn drop_effect(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let id = spoiler.dump().executions[row].id;
    let index = *spoiler.effects(id).first()?;
    spoiler.records.remove(index);
    Some(())
}

fn uncount_effect(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let id = spoiler.dump().executions[row].id;
    let index = *spoiler.effects(id).first()?;
    spoiler.effect(index).accepted = false;
    Some(())
}

fn drop_execution(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let id = spoiler.dump().executions[row].id;
    spoiler.forget(id);
    Some(())
}

fn drop_job(spoiler: &mut Spoiler) -> Option<()> {
    let count = spoiler.dump().jobs.len() as i64;
    let index = spoiler.numbers.below(count) as usize;
    spoiler.dump().jobs.remove(index);
    Some(())
}

fn drop_manual(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, _| row.kind == "MANUAL")?;
    spoiler.dump().executions.remove(row);
    spoiler.recount();
    Some(())
}

fn false_skip(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let row = spoiler.dump().executions[row].clone();
    spoiler.forget(row.id);
    let (from, to) = (row.fire_at, row.fire_at);
    let recorded_at = Ms(row.fire_at.0 + 12_000);
    let reason = "MISFIRE_DISCARDED".into();
    spoiler.dump().skips.push(SkipRow { job_id: row.job_id, from, to, reason, recorded_at });
    Some(())
}

fn cancelled_by_nobody(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let row = &mut spoiler.dump().executions[row];
    (row.state, row.reason) = ("CANCELLED".into(), Some("CANCELLED_BY_USER".into()));
    spoiler.recount();
    Some(())
}

fn skipped_for_nothing(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let row = &mut spoiler.dump().executions[row];
    (row.state, row.reason) = ("SKIPPED".into(), Some("OVERLAP_FORBIDDEN".into()));
    spoiler.recount();
    Some(())
}

fn twin(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let mut row = spoiler.dump().executions[row].clone();
    row.id = scheduled_id(row.job_id, Ms(row.fire_at.0 + 1));
    row.attempts.clear();
    (row.attempt, row.fence_token, row.started_at) = (0, 0, None);
    spoiler.dump().executions.push(row);
    spoiler.recount();
    Some(())
}

fn ghost(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(record.event, Event::Effect(_)))?;
    let mut effect = spoiler.effect(index).clone();
    effect.execution = ids::format([9; 16], "exe_").into();
    spoiler.add_like(index, Event::Effect(effect));
    Some(())
}

fn wrong_id(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let old = spoiler.dump().executions[row].id;
    let mut bytes = ids::parse(&old, "exe_")?;
    bytes[15] ^= 1;
    let new = ids::format(bytes, "exe_");
    spoiler.respell(&old, &new);
    Some(())
}

fn wrong_instant(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, spec| is_plain(row, spec) && is_recurring(spec))?;
    let old = spoiler.dump().executions[row].clone();
    let at = Ms(old.fire_at.0 - 300);
    let new = scheduled_id(old.job_id, at);
    for index in spoiler.effects(old.id) {
        spoiler.effect(index).fire_at = at;
    }
    spoiler.dump().executions[row].fire_at = at;
    spoiler.respell(&old.id, &new);
    Some(())
}

fn run_while_paused(spoiler: &mut Spoiler) -> Option<()> {
    // After the last pause nothing runs.
    let row = spoiler.row(|row, spec| is_plain(row, spec) && spec.schedule.every_ms == Some(1_000))?;
    let mut row = spoiler.dump().executions[row].clone();
    let moved = (SMALL.load_ms + common::START_MS + 8_000).div_euclid(1_000) * 1_000 - row.fire_at.0;
    let later = |at: Ms| Ms(at.0 + moved);
    row.id = scheduled_id(row.job_id, later(row.fire_at));
    (row.fire_at, row.fired_at) = (later(row.fire_at), later(row.fired_at));
    row.claimed_at = row.claimed_at.map(later);
    row.first_started_at = row.first_started_at.map(later);
    row.started_at = row.started_at.map(later);
    row.finished_at = row.finished_at.map(later);
    let attempt = &mut row.attempts[0];
    (attempt.started_at, attempt.finished_at) = (later(attempt.started_at), attempt.finished_at.map(later));
    (attempt.fence_token, row.fence_token) = (9_000_000, 9_000_000);
    let effect = Effect {
        execution: row.id,
        job_name: spoiler.names[&row.job_id],
        fire_at: row.fire_at,
        attempt: 1,
        fence: 9_000_000,
        arrived_wall_ns: common::wall((row.fire_at.0 - common::START_MS) as f64 + 20.0),
        arrived_mono_ns: common::mono((row.fire_at.0 - common::START_MS) as f64 + 20.0),
        status: 200,
        accepted: true,
        tenant: None,
        mark: None,
    };
    let index = spoiler.line(|record| matches!(record.event, Event::Effect(_)))?;
    spoiler.add_like(index, Event::Effect(effect));
    spoiler.dump().executions.push(row);
    spoiler.recount();
    Some(())
}

fn manual_by_nobody(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, spec| is_plain(row, spec) && spec.schedule.kind == "AT")?;
    spoiler.dump().executions[row].kind = "MANUAL".into();
    Some(())
}

fn old_version(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, spec| is_plain(row, spec) && row.job_version > 1)?;
    spoiler.dump().executions[row].job_version = 1;
    Some(())
}

fn future_version(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, spec| is_plain(row, spec) && is_recurring(spec) && row.job_version == 1)?;
    spoiler.dump().executions[row].job_version = 2;
    Some(())
}

fn wrong_call(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(record.event, Event::Effect(_)))?;
    spoiler.effect(index).fire_at.0 += 1_000;
    Some(())
}

fn double_effect(spoiler: &mut Spoiler) -> Option<()> {
    let is_duplicate = |record: &Record| matches!(&record.event, Event::Effect(e) if e.status == 200 && !e.accepted);
    let index = spoiler.line(is_duplicate)?;
    spoiler.effect(index).accepted = true;
    Some(())
}

fn call_twice(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Effect(effect) if effect.accepted))?;
    let mut effect = spoiler.effect(index).clone();
    effect.accepted = false;
    effect.arrived_mono_ns += 500_000;
    spoiler.add_like(index, Event::Effect(effect));
    Some(())
}

fn effect_after_success(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let id = spoiler.dump().executions[row].id;
    let index = *spoiler.effects(id).first()?;
    let mut effect = spoiler.effect(index).clone();
    (effect.attempt, effect.fence, effect.accepted) = (2, effect.fence + 500_000, false);
    effect.arrived_mono_ns += 300_000_000;
    spoiler.add_like(index, Event::Effect(effect));
    Some(())
}

fn early_effect(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Effect(effect) if effect.attempt == 1))?;
    let effect = spoiler.effect(index);
    let due = common::mono((effect.fire_at.0 - common::START_MS) as f64);
    effect.arrived_mono_ns = due - 40_000_000;
    Some(())
}

fn early_start(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let row = &mut spoiler.dump().executions[row];
    row.attempts[0].started_at = Ms(row.fire_at.0 - 20);
    Some(())
}

fn late_start(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.calm(|_, _| true)?;
    let row = &mut spoiler.dump().executions[row];
    row.first_started_at = Some(Ms(row.fire_at.0 + 2_500));
    Some(())
}

fn missed_for_nothing(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.calm(|_, _| true)?;
    let row = spoiler.dump().executions[row].clone();
    spoiler.forget(row.id);
    let (job_id, reason, recorded_at) = (row.job_id, "EXPIRED".into(), Ms(row.fire_at.0 + 4_000_000));
    spoiler.dump().skips.push(SkipRow { job_id, from: row.fire_at, to: row.fire_at, reason, recorded_at });
    Some(())
}

fn old_epoch(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Fire(fire) if fire.epoch > 1))?;
    if let Event::Fire(fire) = &mut spoiler.records[index].event {
        fire.epoch -= 1;
    }
    Some(())
}

fn two_owners(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(record.event, Event::Epoch(_)))?;
    let Event::Epoch(epoch) = spoiler.records[index].event.clone() else { return None };
    spoiler.add_like(index, Event::Epoch(Epoch { owner: "node-9".into(), commit: None, ..epoch }));
    Some(())
}

fn epoch_goes_back(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Epoch(epoch) if epoch.epoch == 3))?;
    let Event::Epoch(newer) = spoiler.records[index].event.clone() else { return None };
    let is_older = |record: &Record| matches!(&record.event, Event::Epoch(e) if e.shard == newer.shard && e.epoch == 2);
    let older = spoiler.line(is_older)?;
    let Event::Epoch(older) = spoiler.records[older].event.clone() else { return None };
    let mut record = spoiler.records[index].clone();
    (record.mono_ns, record.event) = (record.mono_ns + 1_000, Event::Epoch(Epoch { commit: None, ..older }));
    spoiler.records.push(record);
    Some(())
}

fn wrong_shard(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(record.event, Event::Fire(_)))?;
    if let Event::Fire(fire) = &mut spoiler.records[index].event {
        fire.shard = (fire.shard + 1) % 256;
    }
    Some(())
}

fn zombie_accepted(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(record.event, Event::ReportRejected(_)))?;
    if let Event::ReportRejected(report) = spoiler.records[index].event.clone() {
        spoiler.records[index].event = Event::Report(report);
    }
    Some(())
}

fn report_twice(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(record.event, Event::Report(_)))?;
    let event = spoiler.records[index].event.clone();
    spoiler.add_like(index, event);
    Some(())
}

fn other_outcome(spoiler: &mut Spoiler) -> Option<()> {
    let is_fit = |record: &Record| matches!(&record.event, Event::Report(report) if report.outcome == "SUCCEEDED");
    let index = spoiler.line(is_fit)?;
    if let Event::Report(Report { outcome, .. }) = &mut spoiler.records[index].event {
        *outcome = "FAILED".into();
    }
    Some(())
}

fn fence_goes_back(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, _| row.attempts.len() > 1)?;
    let attempts = &mut spoiler.dump().executions[row].attempts;
    (attempts[0].fence_token, attempts[1].fence_token) = (attempts[1].fence_token, attempts[0].fence_token);
    Some(())
}

fn fence_twice(spoiler: &mut Spoiler) -> Option<()> {
    let (one, other) = (spoiler.plain()?, spoiler.plain()?);
    if one == other {
        return fence_twice(spoiler);
    }
    let fence = spoiler.dump().executions[one].fence_token;
    let row = &mut spoiler.dump().executions[other];
    (row.fence_token, row.attempts[0].fence_token) = (fence, fence);
    Some(())
}

fn stale_effect_counts(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Effect(effect) if effect.status == 409))?;
    spoiler.effect(index).accepted = true;
    Some(())
}

fn start_without_claim(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(record.event, Event::Start(_)))?;
    if let Event::Start(body) = spoiler.records[index].event.clone() {
        spoiler.add_like(index, Event::Start(Body { fence: body.fence + 700_000, ..body }));
    }
    Some(())
}

fn forgotten_claim(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, _| row.attempts.len() == 2)?;
    spoiler.dump().executions[row].attempts.remove(0);
    Some(())
}

fn fired_before_creation(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    spoiler.dump().executions[row].fired_at = Ms(common::START_MS);
    Some(())
}

fn resurrected(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler
        .row(|row, spec| row.state == "CANCELLED" && row.attempts.is_empty() && !spec.sink)
        .or_else(|| spoiler.row(|row, _| row.state == "CANCELLED" && row.attempts.is_empty()))?;
    let row = &mut spoiler.dump().executions[row];
    let started = Ms(row.fire_at.0 + 5);
    let finished = Some(Ms(row.fire_at.0 + 25));
    (row.state, row.reason, row.outcome) = ("SUCCEEDED".into(), None, Some("SUCCEEDED".into()));
    (row.attempt, row.fence_token, row.claimed_at) = (1, 8_000_000, Some(started));
    (row.first_started_at, row.started_at, row.finished_at) = (Some(started), Some(started), finished);
    row.attempts.push(AttemptRow {
        attempt: 1,
        fence_token: 8_000_000,
        started_at: started,
        finished_at: finished,
        outcome: row.outcome,
    });
    spoiler.recount();
    Some(())
}

fn cancel_after_end(spoiler: &mut Spoiler) -> Option<()> {
    let is_fit = |op: &Op| op.kind == OpKind::Cancel && op.answer.as_ref().is_some_and(|answer| answer.status == 409);
    let index = spoiler.line(|record| matches!(&record.event, Event::Op(op) if is_fit(op)))?;
    let op = spoiler.op(index);
    op.phase = Phase::Ok;
    let answer = op.answer.as_mut()?;
    (answer.status, answer.state) = (200, Some("CANCELLED".into()));
    Some(())
}

fn cancel_refused(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, _| row.state == "CANCELLED" && row.attempts.is_empty())?;
    let id = spoiler.dump().executions[row].id;
    let is_fit = |op: &Op| op.phase == Phase::Ok && op.execution == Some(id);
    let index = spoiler.line(|record| matches!(&record.event, Event::Op(op) if is_fit(op)))?;
    let op = spoiler.op(index);
    op.phase = Phase::Fail;
    let answer = op.answer.as_mut()?;
    (answer.status, answer.state) = (409, None);
    Some(())
}

fn impossible_read(spoiler: &mut Spoiler) -> Option<()> {
    let is_fit = |read: &Read| read.execution.is_some() && read.state.as_deref() == Some("SUCCEEDED");
    let index = spoiler.line(|record| matches!(&record.event, Event::Read(read) if is_fit(read)))?;
    spoiler.read(index).state = Some("DEAD".into());
    Some(())
}

fn overlap(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, spec| spec.overlap == "SKIP" && row.state == "SUCCEEDED" && row.kind == "SCHEDULE")?;
    let row = &mut spoiler.dump().executions[row];
    let end = Some(Ms(row.fire_at.0 + 30_000));
    row.finished_at = end;
    row.attempts.last_mut()?.finished_at = end;
    Some(())
}

fn too_many_attempts(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, _| row.state == "DEAD")?;
    let row = &mut spoiler.dump().executions[row];
    for _ in 0..2 {
        let mut more = row.attempts.last()?.clone();
        (more.attempt, more.fence_token) = (more.attempt + 1, more.fence_token + 6_000_000);
        more.started_at.0 += 1_000;
        more.finished_at = more.finished_at.map(|at| Ms(at.0 + 1_000));
        (row.attempt, row.fence_token) = (more.attempt, more.fence_token);
        row.attempts.push(more);
    }
    Some(())
}

fn too_soon(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, _| row.attempts.len() == 2 && row.attempts[0].outcome.as_deref() == Some("FAILED"))?;
    let attempts = &mut spoiler.dump().executions[row].attempts;
    attempts[1].started_at = Ms(attempts[0].finished_at?.0 + 20);
    Some(())
}

fn lost_dead_letter(spoiler: &mut Spoiler) -> Option<()> {
    spoiler.dump().dead.pop().map(|_| ())
}

fn dead_letter_twice(spoiler: &mut Spoiler) -> Option<()> {
    let first = spoiler.dump().dead.first().copied()?;
    spoiler.dump().dead.push(first);
    Some(())
}

fn dead_too_soon(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, _| row.state == "DEAD")?;
    let row = &mut spoiler.dump().executions[row];
    let gone = row.attempts.pop()?;
    let last = row.attempts.last()?;
    (row.attempt, row.fence_token) = (last.attempt, last.fence_token);
    let id = row.id;
    let is_gone = |event: &Event| match event {
        Event::Claim(Claim { execution, fence, .. }) => *execution == id && *fence == gone.fence_token,
        Event::Effect(effect) => effect.execution == id && effect.fence == gone.fence_token,
        Event::Report(report) => report.execution == id && report.fence == gone.fence_token,
        Event::Start(body) | Event::End(body) => body.execution == id && body.fence == gone.fence_token,
        _ => false,
    };
    spoiler.records.retain(|record| !is_gone(&record.event));
    Some(())
}

fn left_running(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let row = &mut spoiler.dump().executions[row];
    row.state = "RUNNING".into();
    row.outcome = None;
    let attempt = row.attempts.last_mut()?;
    (attempt.outcome, attempt.finished_at) = (None, None);
    Some(())
}

fn wrong_count(spoiler: &mut Spoiler) -> Option<()> {
    *spoiler.dump().counts.get_mut("SUCCEEDED")? += 1;
    Some(())
}

fn message_left(spoiler: &mut Spoiler) -> Option<()> {
    *spoiler.dump().gauges.get_mut("queue_depth")? = 1;
    Some(())
}

fn read_goes_back(spoiler: &mut Spoiler) -> Option<()> {
    let is_fit = |read: &Read| read.execution.is_some() && read.fence.is_some_and(|fence| fence > 0);
    let is_end = |read: &Read| is_fit(read) && read.state.as_deref() == Some("SUCCEEDED");
    let index = spoiler.line(|record| matches!(&record.event, Event::Read(read) if is_end(read)))?;
    let read = spoiler.read(index);
    (read.state, read.attempt, read.fence) = (Some("PENDING".into()), Some(0), Some(0));
    Some(())
}

fn old_version_read(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Read(read) if read.version > Some(1)))?;
    spoiler.read(index).version = Some(1);
    Some(())
}

fn job_not_found(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Read(read) if read.job.is_some()))?;
    let read = spoiler.read(index);
    (read.status, read.state, read.version) = (404, None, None);
    Some(())
}

fn page_twice(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Page(page) if !page.ids.is_empty()))?;
    if let Event::Page(page) = &mut spoiler.records[index].event {
        page.ids.push(page.ids[0]);
    }
    Some(())
}

fn page_lacks(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Page(page) if !page.ids.is_empty()))?;
    if let Event::Page(page) = &mut spoiler.records[index].event {
        page.ids.remove(0);
    }
    Some(())
}

fn foreign_read(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(&record.event, Event::Read(read) if read.job.is_some()))?;
    spoiler.read(index).tenant = "other".into();
    Some(())
}

fn foreign_event(spoiler: &mut Spoiler) -> Option<()> {
    let index = spoiler.line(|record| matches!(record.event, Event::Effect(_)))?;
    spoiler.effect(index).tenant = Some("other".into());
    Some(())
}

fn never_recovers(spoiler: &mut Spoiler) -> Option<()> {
    let indexes: Vec<usize> = (0..spoiler.records.len())
        .filter(|index| matches!(&spoiler.records[*index].event, Event::Read(read) if read.via.as_deref() == Some("node-1")))
        .collect();
    for index in indexes {
        let read = spoiler.read(index);
        (read.status, read.state, read.version) = (503, None, None);
    }
    Some(())
}

fn two_jobs(spoiler: &mut Spoiler) -> Option<()> {
    // The answer that was lost told of another job.
    let is_fit = |op: &Op| op.kind == OpKind::Create && op.phase == Phase::Info;
    let index = spoiler.line(|record| matches!(&record.event, Event::Op(op) if is_fit(op)))?;
    let key = spoiler.op(index).key;
    let is_second = |op: &Op| op.key == key && op.phase == Phase::Ok;
    let second = spoiler.line(|record| matches!(&record.event, Event::Op(op) if is_second(op)))?;
    let answer = spoiler.op(second).answer.clone();
    let op = spoiler.op(index);
    (op.phase, op.answer, op.job) = (Phase::Ok, answer, Some(ids::format([3; 16], "job_").into()));
    Some(())
}

fn other_answer(spoiler: &mut Spoiler) -> Option<()> {
    let run = replayed_run(spoiler)?;
    let op = spoiler.op(run);
    op.answer.as_mut()?.status = 200;
    Some(())
}

fn other_request(spoiler: &mut Spoiler) -> Option<()> {
    let run = replayed_run(spoiler)?;
    let name = spoiler.op(run).op;
    for index in 0..spoiler.records.len() {
        if let Event::Op(op) = &mut spoiler.records[index].event
            && op.op == name
        {
            op.request_hash = Some("another".into());
        }
    }
    Some(())
}

/// The second answer to a run by hand.
fn replayed_run(spoiler: &mut Spoiler) -> Option<usize> {
    let is_replayed = |op: &Op| op.kind == OpKind::Run && op.answer.as_ref().is_some_and(|answer| answer.replayed);
    spoiler.line(|record| matches!(&record.event, Event::Op(op) if is_replayed(op)))
}

fn surplus_call(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, spec| is_plain(row, spec) && spec.schedule.kind == "AT")?;
    let id = spoiler.dump().executions[row].id;
    let index = *spoiler.effects(id).first()?;
    for number in 0..2u8 {
        let mut effect = spoiler.effect(index).clone();
        effect.execution = ids::format([7 + number; 16], "exe_").into();
        spoiler.add_like(index, Event::Effect(effect));
    }
    Some(())
}

fn swapped_name(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.calm(|_, spec| spec.schedule.kind == "AT")?;
    let id = spoiler.dump().executions[row].id;
    let index = *spoiler.effects(id).first()?;
    spoiler.effect(index).job_name = "somebody-else".into();
    Some(())
}

/// A version in the middle of the life of a job that has several: its place in the dump.
fn version_between(spoiler: &mut Spoiler) -> Option<usize> {
    let versions = &spoiler.dump().versions;
    let is_between = |index: &usize| versions[*index].version > 1 && versions[*index].ended_at.is_some();
    let all: Vec<usize> = (0..versions.len()).filter(is_between).collect();
    spoiler.any(&all)
}

fn missing_version(spoiler: &mut Spoiler) -> Option<()> {
    let version = version_between(spoiler)?;
    spoiler.dump().versions.remove(version);
    Some(())
}

fn two_in_force(spoiler: &mut Spoiler) -> Option<()> {
    let version = version_between(spoiler)?;
    spoiler.dump().versions[version].ended_at.as_mut()?.0 += 700;
    Some(())
}

/// Moves the beginning of a version, which the one before it ends at.
fn move_version(spoiler: &mut Spoiler, by_ms: i64) -> Option<(Text, u32)> {
    let version = version_between(spoiler)?;
    let versions = &mut spoiler.dump().versions;
    let (job, number) = (versions[version].id, versions[version].version);
    versions[version].effective_at.0 += by_ms;
    let old = versions.iter_mut().find(|old| old.id == job && old.version + 1 == number)?;
    old.ended_at.as_mut()?.0 += by_ms;
    Some((job, number))
}

fn other_instant(spoiler: &mut Spoiler) -> Option<()> {
    move_version(spoiler, 1).map(drop)
}

fn counts_too_early(spoiler: &mut Spoiler) -> Option<()> {
    let (job, number) = move_version(spoiler, -100)?;
    let is_its = |op: &Op| op.job == Some(job) && op.answer.as_ref().is_some_and(|told| told.version == Some(number));
    let index = spoiler.line(|record| matches!(&record.event, Event::Op(op) if is_its(op)))?;
    spoiler.op(index).answer.as_mut()?.updated_at.as_mut()?.0 -= 100;
    Some(())
}

fn skip_over_run(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.plain()?;
    let (job_id, at) = (spoiler.dump().executions[row].job_id, spoiler.dump().executions[row].fire_at);
    let (from, to, recorded_at) = (Ms(at.0 - 100), Ms(at.0 + 100), Ms(at.0 + 12_000));
    let reason = "PAUSED".into();
    spoiler.dump().skips.push(SkipRow { job_id, from, to, reason, recorded_at });
    Some(())
}

fn newer_definition(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, spec| row.kind == "SCHEDULE" && row.attempts.len() == 2 && spec.sink)?;
    let id = spoiler.dump().executions[row].id;
    let last = spoiler
        .effects(id)
        .into_iter()
        .find(|index| matches!(&spoiler.records[*index].event, Event::Effect(effect) if effect.attempt == 2))?;
    spoiler.effect(last).mark = Some("third".into());
    Some(())
}

fn manual_in_future_version(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.row(|row, _| row.kind == "MANUAL")?;
    let job = spoiler.dump().executions[row].job_id;
    let newest =
        spoiler.dump().versions.iter().filter(|version| version.id == job).map(|version| version.version).max()?;
    spoiler.dump().executions[row].job_version = newest;
    (newest > 1).then_some(())
}

fn start_after_deletion(spoiler: &mut Spoiler) -> Option<()> {
    let row = spoiler.calm(|_, spec| is_recurring(spec))?;
    let row = spoiler.dump().executions[row].clone();
    let index = spoiler
        .line(|record| matches!(&record.event, Event::Op(op) if op.kind == OpKind::Delete && op.phase == Phase::Ok))?;
    let mut deletion = spoiler.op(index).clone();
    (deletion.op, deletion.job) = ("op-of-the-deletion".into(), Some(row.job_id));
    let asked = Op { phase: Phase::Invoke, answer: None, ..deletion.clone() };
    let before = (row.fire_at.0 - common::START_MS) as f64 - 300.0;
    for (event, at) in [(asked, before), (deletion, before + 5.0)] {
        spoiler.add_like(index, Event::Op(Box::new(event)));
        let line = spoiler.records.last_mut()?;
        (line.mono_ns, line.wall_ns) = (common::mono(at), common::wall(at));
    }
    Some(())
}
