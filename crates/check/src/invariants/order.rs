//! I7: cancels, claims and completions of an execution happened in some order that explains what everybody was told.
//!
//! An execution is a register: it waits, runs, or is over. What the store did to it is one *script*, known from its
//! row: claim and end of each attempt, in order. What clients did (cancels, replays, discards, reads) lies somewhere
//! between question and answer. The search goes through the bounds of all of these in time, and keeps the set of
//! situations that are possible: how far the script is, what the state is, and which open operations have had their
//! effect. When that set is empty, no order explains the history.
//!
//! Stamps of the store are taken before the commit, so they bound a step from below only. From above it is bounded by
//! what followed: the sink's call of that attempt, or the line that a worker wrote.

use super::{Case, Violation};
use crate::event::{Event, ExecutionRow, OpKind, Phase, Read};
use crate::history::{Execution, MS, Nanos, Operation};
use std::collections::BTreeSet;

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Waiting,
    Running,
    Succeeded,
    Dead,
    Cancelled,
    Skipped,
}

/// A step of the script.
#[derive(Copy, Clone, Debug)]
enum Step {
    Claim,
    /// To one of these states.
    End(&'static [State]),
}

struct Scripted {
    step: Step,
    from: Nanos,
    /// It has certainly happened by now.
    by: Nanos,
    what: String,
}

/// What a client did.
#[derive(Copy, Clone, Debug)]
enum Act {
    /// Cancelled, and told so.
    Cancel,
    /// A running attempt was asked to stop; nothing changed.
    AskToStop,
    /// Told that it is over.
    IsOver,
    /// A dead one runs again.
    Replay,
    /// A dead one is given up.
    Discard,
    Saw(State),
}

struct Client {
    act: Act,
    from: Nanos,
    by: Nanos,
    /// It may also never have had its effect.
    optional: bool,
    what: String,
}

/// What else may happen without a trace.
struct Silent {
    skip: bool,
    refire: bool,
    replaced: bool,
}

/// A situation that is possible: how far the script is, the state, and which open acts are done.
type Situation = (usize, State, u64);

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    let read_at = case.oracle.read_at_ms * MS;
    for (id, execution, row) in case.rows() {
        let clients = clients(case, execution);
        // The script alone is judged by I5.
        if clients.is_empty() {
            continue;
        }
        let job = case.history.job_of(execution);
        let changed = job.is_some_and(|job| job.changes.iter().any(|change| change.kind != OpKind::Create));
        let silent = Silent {
            skip: row.state == "SKIPPED" || changed,
            refire: changed,
            replaced: row.reason.as_deref() == Some("OVERLAP_REPLACED"),
        };
        let script = script(case, execution, row, read_at);
        let Some(end) = state(&row.state) else { continue };
        let dump = Client {
            act: Act::Saw(end),
            from: read_at,
            by: read_at,
            optional: false,
            what: format!("the dump shows {}", row.state),
        };
        if let Err((at, what)) = explain(&script, clients, dump, &silent) {
            let message = format!("no order of events explains it: {what}");
            found.push(Violation::new("I7", at, message).of(id).in_job(row.job_id));
        }
    }
    deleted(case, found);
}

fn state(name: &str) -> Option<State> {
    Some(match name {
        "PENDING" | "HELD" | "WAITING" | "BLOCKED" | "RETRYING" => State::Waiting,
        "RUNNING" => State::Running,
        "SUCCEEDED" => State::Succeeded,
        "DEAD" => State::Dead,
        "CANCELLED" => State::Cancelled,
        "SKIPPED" => State::Skipped,
        _ => return None,
    })
}

/// What the store did, by its own account.
fn script(case: Case<'_>, execution: &Execution, row: &ExecutionRow, read_at: Nanos) -> Vec<Scripted> {
    let effects = case.effects(execution);
    let mut script = Vec::new();
    let mut after = row.fired_at.0 * MS - case.clock();
    for (index, attempt) in row.attempts.iter().enumerate() {
        let is_last = index + 1 == row.attempts.len();
        let (fence, number) = (attempt.fence_token, attempt.attempt);
        let (mut claim, mut end) = ((after, read_at), None);
        if let Some(claimed_at) = row.claimed_at.filter(|_| is_last && fence == row.fence_token) {
            claim.0 = claim.0.max(claimed_at.0 * MS - case.clock());
        }
        if let Some(call) = effects.iter().find(|effect| effect.fence == fence) {
            claim.1 = case.arrival(call);
        }
        if let Some(outcome) = &attempt.outcome {
            let finished = attempt.finished_at.unwrap_or(attempt.started_at).0 * MS - case.clock();
            let asked = |kind| case.was_asked(execution, kind);
            let to: &'static [State] = match (outcome.as_str(), row.state.as_str()) {
                ("SUCCEEDED", _) => &[State::Succeeded],
                ("CANCELLED", _) => &[State::Cancelled],
                (_, "DEAD") if is_last => &[State::Dead],
                // It waited for the next attempt; or it was dead, and somebody replayed it or gave it up.
                _ if asked(OpKind::Replay) || asked(OpKind::Discard) => &[State::Waiting, State::Dead],
                // One that was asked to stop is cancelled however it ends.
                (_, "CANCELLED") if is_last => &[State::Waiting, State::Cancelled],
                _ => &[State::Waiting],
            };
            end = Some((finished, read_at, to));
        }
        for record in case.history.lines(execution) {
            let at = case.history.at(record);
            match &record.event {
                Event::Claim(line) if line.fence == fence => {
                    let began = line.began_mono_ns.map(|mono| case.history.on_axis(mono));
                    claim = (began.unwrap_or(claim.0).max(claim.0), at.min(claim.1));
                }
                Event::Report(line) if line.fence == fence && !line.repeated => {
                    let began = line.began_mono_ns.map(|mono| case.history.on_axis(mono));
                    end = end.map(|(from, by, to)| (began.unwrap_or(from).max(from), at.min(by), to));
                }
                _ => {}
            }
        }
        let what = format!("claim of attempt {number}");
        script.push(Scripted { step: Step::Claim, from: claim.0, by: claim.1.max(claim.0), what });
        if let Some((from, by, to)) = end {
            let outcome = attempt.outcome.as_deref().unwrap_or_default();
            let (from, what) = (from.max(claim.0), format!("end of attempt {number} ({outcome})"));
            script.push(Scripted { step: Step::End(to), from, by: by.max(from), what });
            after = from;
        }
    }
    script
}

/// What clients did and saw.
fn clients(case: Case<'_>, execution: &Execution) -> Vec<Client> {
    let mut clients = Vec::new();
    for op in execution.ops.iter().map(|index| &case.history.ops[*index]) {
        if let Some(act) = act(op) {
            let optional = op.phase == Phase::Info;
            let unknown = op.invoked + case.limits.info_ms * MS;
            let by = op.ended.filter(|_| !optional).unwrap_or(unknown);
            clients.push(Client { act, from: op.invoked, by, optional, what: told(op) });
        }
    }
    for record in case.history.lines(execution) {
        let Event::Read(read) = &record.event else { continue };
        if let Some(seen) = saw(read) {
            let (from, by) = (case.history.on_axis(read.began_mono_ns), case.history.at(record));
            let what = format!("a read that showed {}", read.state.as_deref().unwrap_or("nothing"));
            clients.push(Client { act: Act::Saw(seen), from, by, optional: false, what });
        }
    }
    clients
}

fn act(op: &Operation) -> Option<Act> {
    let answered = op.answer.state.as_deref();
    match (op.asked.kind, op.phase) {
        (OpKind::Cancel, Phase::Ok) if answered == Some("RUNNING") => Some(Act::AskToStop),
        (OpKind::Cancel, Phase::Ok | Phase::Info) => Some(Act::Cancel),
        (OpKind::Cancel, Phase::Fail) if op.answer.status == 409 => Some(Act::IsOver),
        (OpKind::Replay, Phase::Ok | Phase::Info) => Some(Act::Replay),
        (OpKind::Discard, Phase::Ok | Phase::Info) => Some(Act::Discard),
        _ => None,
    }
}

fn told(op: &Operation) -> String {
    let kind = format!("{:?}", op.asked.kind).to_lowercase();
    match op.phase {
        Phase::Info => format!("a {kind} without an answer"),
        _ => format!("a {kind} answered with {}", op.answer.status),
    }
}

fn saw(read: &Read) -> Option<State> {
    if read.status == 200 { read.state.as_deref().and_then(state) } else { None }
}

/// Looks for an order. The error tells when the last possibility was gone, and with what.
fn explain(
    script: &[Scripted],
    mut clients: Vec<Client>,
    dump: Client,
    silent: &Silent,
) -> Result<(), (Nanos, String)> {
    clients.push(dump);
    // In time: what becomes possible before what must have happened.
    let mut moments: Vec<(Nanos, u8, usize)> = Vec::new();
    for (index, client) in clients.iter().enumerate() {
        moments.push((client.from, 0, index));
        moments.push((client.by, 2, index));
    }
    for (index, step) in script.iter().enumerate() {
        moments.push((step.from, 1, index));
        moments.push((step.by, 3, index));
    }
    moments.sort_unstable();
    let (mut allowed, mut open): (usize, Vec<Option<usize>>) = (0, Vec::new());
    let mut possible: BTreeSet<Situation> = BTreeSet::from([(0, State::Waiting, 0)]);
    for (at, what, index) in moments {
        match what {
            0 => match open.iter().position(Option::is_none) {
                Some(free) => open[free] = Some(index),
                None if open.len() < 64 => open.push(Some(index)),
                // More than 64 at once is not judged.
                None => return Ok(()),
            },
            1 => allowed = allowed.max(index + 1),
            2 => {
                possible = reach(possible, script, allowed, &clients, &open, silent);
                let Some(slot) = open.iter().position(|open| *open == Some(index)) else { continue };
                let bit = 1 << slot;
                let optional = clients[index].optional;
                possible.retain(|(_, _, done)| optional || done & bit != 0);
                possible = possible.into_iter().map(|(p, state, done)| (p, state, done & !bit)).collect();
                open[slot] = None;
                if possible.is_empty() {
                    return Err((at, clients[index].what.clone()));
                }
            }
            _ => {
                possible = reach(possible, script, allowed, &clients, &open, silent);
                possible.retain(|(position, _, _)| *position > index);
                if possible.is_empty() {
                    return Err((at, script[index].what.clone()));
                }
            }
        }
    }
    Ok(())
}

/// Everything that can follow.
fn reach(
    start: BTreeSet<Situation>,
    script: &[Scripted],
    allowed: usize,
    clients: &[Client],
    open: &[Option<usize>],
    silent: &Silent,
) -> BTreeSet<Situation> {
    let mut all = start.clone();
    let mut fresh: Vec<Situation> = start.into_iter().collect();
    while let Some((position, state, done)) = fresh.pop() {
        let mut next: Vec<Situation> = Vec::new();
        if position < allowed.min(script.len()) {
            next.extend(take(script[position].step, state).iter().map(|to| (position + 1, *to, done)));
        }
        for (slot, client) in open.iter().enumerate() {
            let bit = 1 << slot;
            if let Some(client) = client.filter(|_| done & bit == 0)
                && let Some(to) = allow(clients[client].act, state)
            {
                next.push((position, to, done | bit));
            }
        }
        match state {
            State::Waiting if silent.skip => next.push((position, State::Skipped, done)),
            State::Skipped if silent.refire => next.push((position, State::Waiting, done)),
            _ => {}
        }
        if silent.replaced && matches!(state, State::Waiting | State::Running) {
            next.push((position, State::Cancelled, done));
        }
        for situation in next {
            if all.insert(situation) {
                fresh.push(situation);
            }
        }
    }
    all
}

/// What a step of the script can make of a state; nothing where it cannot happen in it.
fn take(step: Step, state: State) -> &'static [State] {
    match (step, state) {
        (Step::Claim, State::Waiting) => &[State::Running],
        (Step::End(to), State::Running) => to,
        // A cancel has ended it already.
        (Step::End(to), State::Cancelled) if to.contains(&State::Cancelled) => &[State::Cancelled],
        _ => &[],
    }
}

/// What a client's act makes of a state; none where its answer does not fit.
fn allow(act: Act, state: State) -> Option<State> {
    let is_over = !matches!(state, State::Waiting | State::Running);
    match act {
        Act::Cancel if !is_over => Some(State::Cancelled),
        // The same answer is given again to whoever has cancelled it before.
        Act::Cancel if state == State::Cancelled => Some(State::Cancelled),
        Act::AskToStop if state == State::Running => Some(state),
        Act::IsOver if is_over => Some(state),
        Act::Replay if state == State::Dead => Some(State::Waiting),
        Act::Discard if state == State::Dead => Some(State::Cancelled),
        Act::Saw(seen) if seen == state => Some(state),
        _ => None,
    }
}

/// After an acknowledged deletion no attempt of the job is claimed any more.
fn deleted(case: Case<'_>, found: &mut Vec<Violation>) {
    let ended = |kind| {
        let ops = case.history.ops.iter().filter(move |op| op.asked.kind == kind && op.phase == Phase::Ok);
        ops.filter_map(|op| Some((op.job?, op.ended?)))
    };
    for (job, ended) in ended(OpKind::Delete) {
        let Some(job) = case.history.jobs.get(job) else { continue };
        for &id in &job.executions {
            let Some(row) = case.history.executions.get(id).and_then(|execution| execution.row.as_ref()) else {
                continue;
            };
            let claimed = row.claimed_at.filter(|_| !row.attempts.is_empty()).map(|at| at.0 * MS);
            if let Some(at) = claimed.filter(|at| *at > ended + case.clock()) {
                let message = "an attempt was claimed after its job's deletion was acknowledged".to_owned();
                found.push(Violation::new("I7", at, message).of(id).in_job(job.id));
            }
        }
    }
}
