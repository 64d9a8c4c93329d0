//! Executions of a made-up history: fired, claimed, run, tried again, cancelled, dead, replayed.

use super::jobs::{Draft, operation, skip};
use super::{Maker, START_MS, commit, mono, ms, wall};
use campanile_check::event::{
    Answer, AttemptRow, Body, Claim, Dead, Effect, Event, ExecutionRow, Fire, Op, OpKind, Phase, Read, Report,
};
use campanile_check::ids;
use campanile_check::text::Text;

/// How an execution goes.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Fate {
    Fine,
    /// So many failures first.
    Fails(u32),
    /// Its runner is lost; the sink may have been called.
    Lost {
        called: bool,
    },
    /// Cancelled before it is due.
    CancelledBefore,
    /// Cancelled while it runs.
    CancelledRunning,
    /// Somebody tries to cancel it when it is over.
    CancelledLate,
    Dies,
    /// All attempts fail, and somebody replays it.
    Replayed,
}

/// All fires of a job: instants with the version in force.
pub fn all(maker: &mut Maker, job: &Draft, fires: &[(i64, u32)]) {
    let mut busy_until = i64::MIN;
    let bytes = ids::parse(&job.id, "job_").expect("an id");
    let shard = usize::from(ids::shard(bytes));
    let mut missed: Vec<(i64, i64)> = Vec::new();
    for (position, (at, version)) in fires.iter().enumerate() {
        let (fired, _, _) = maker.owner_at(shard, at - 250);
        if fired - at > 10_000 && job.spec.catch_up.mode != "ALL" && job.every > 0 {
            // The last missed one stands for the others, under `LAST`.
            let next = fires.get(position + 1).map(|(next, _)| maker.owner_at(shard, next - 250).0 - next);
            let is_last = next.is_none_or(|age| age <= 10_000);
            if job.spec.catch_up.mode == "NONE" || !is_last {
                missed.push((*at, fired));
                continue;
            }
        }
        let id = ids::execution(1, bytes, START_MS + at, ids::Kind::Scheduled, b"").expect("short enough");
        let id = Text::from(ids::format(id, "exe_"));
        if job.spec.overlap == "SKIP" && *at < busy_until + 20 {
            skipped(maker, job, *at, *version, id);
            continue;
        }
        busy_until = one(maker, job, *at, *version, "SCHEDULE", id);
    }
    if let (Some((first, recorded)), Some((last, _))) = (missed.first(), missed.last()) {
        let reason = if job.spec.catch_up.mode == "NONE" { "MISFIRE_DISCARDED" } else { "MISFIRE_COALESCED" };
        skip(maker, job, *first, *last, reason, *recorded);
    }
}

fn skipped(maker: &mut Maker, job: &Draft, at: i64, version: u32, id: Text) {
    let fired = (at - 250).max(job.created_at + 1);
    let mut row = row(job, at, version, "SCHEDULE", id, fired);
    (row.state, row.reason) = ("SKIPPED".into(), Some("OVERLAP_FORBIDDEN".into()));
    row.finished_at = Some(ms(at));
    fire(maker, &row, fired);
    maker.dump.executions.push(row);
}

fn row(job: &Draft, at: i64, version: u32, kind: &str, id: Text, fired: i64) -> ExecutionRow {
    ExecutionRow {
        id,
        job_id: job.id,
        job_version: version,
        fire_at: ms(at),
        kind: kind.into(),
        state: "PENDING".into(),
        reason: None,
        attempt: 0,
        fence_token: 0,
        fired_at: ms(fired),
        claimed_at: None,
        first_started_at: None,
        started_at: None,
        finished_at: None,
        outcome: None,
        attempts: Vec::new(),
    }
}

/// Writes the fire. When it was committed.
fn fire(maker: &mut Maker, row: &ExecutionRow, at: i64) -> i64 {
    let job = ids::parse(&row.job_id, "job_").expect("an id");
    let shard = ids::shard(job);
    let (fired, epoch, owner) = maker.owner_at(usize::from(shard), at);
    let event = Fire {
        execution: row.id,
        job: row.job_id,
        fire_at: row.fire_at,
        shard,
        epoch,
        commit: Some(commit(fired as f64 + 0.2)),
        tenant: Some("default".into()),
    };
    maker.line(fired as f64 + 0.4, &format!("node-{owner}"), Event::Fire(event));
    fired
}

/// One execution, from fire to end. When it was over.
pub fn one(maker: &mut Maker, job: &Draft, at: i64, version: u32, kind: &str, id: Text) -> i64 {
    let lead = if kind == "MANUAL" { 0 } else { 250 };
    let ahead = (at - lead).max(job.created_at + 1);
    let mut run = Running::new(row(job, at, version, kind, id, ahead));
    let fired = fire(maker, &run.row, ahead);
    run.row.fired_at = ms(fired);
    run.states[0].0 = fired as f64 + 0.4;
    let is_plain = job.every > 0 && job.spec.sink && job.spec.overlap == "ALLOW";
    let fate = match maker.numbers.below(100) {
        0..4 => Fate::Fails(1),
        4..6 => Fate::Fails(2),
        6..8 => Fate::Lost { called: maker.numbers.percent(50) },
        8 if fired < at - 200 => Fate::CancelledBefore,
        9 => Fate::CancelledRunning,
        10 => Fate::CancelledLate,
        11 if is_plain => Fate::Dies,
        12 if is_plain => Fate::Replayed,
        _ => Fate::Fine,
    };
    run.play(maker, job, fate, at.max(fired));
    let end = run.over;
    if maker.numbers.percent(8) {
        run.reads(maker);
    }
    maker.dump.executions.push(run.row);
    end
}

/// An execution on its way, and its states with the instants from which they can be seen.
struct Running {
    row: ExecutionRow,
    states: Vec<(f64, Text, u32, u64)>,
    over: i64,
    accepted: bool,
}

impl Running {
    fn new(row: ExecutionRow) -> Self {
        let states = vec![((row.fired_at.0 - START_MS) as f64 + 0.4, "PENDING".into(), 0, 0)];
        Self { row, states, over: 0, accepted: false }
    }

    fn play(&mut self, maker: &mut Maker, job: &Draft, fate: Fate, due: i64) {
        let start = due + 2 + maker.numbers.below(15);
        match fate {
            Fate::Fine | Fate::CancelledLate => {
                let end = self.attempt(maker, job, start, "SUCCEEDED", true);
                self.end(end, "SUCCEEDED", None);
                if fate == Fate::CancelledLate {
                    self.cancel(maker, end as f64 + 60.0, Phase::Fail, 409);
                }
            }
            Fate::Fails(times) => {
                let mut at = start;
                for _ in 0..times {
                    at = self.attempt(maker, job, at, "FAILED", true) + 205 + maker.numbers.below(30);
                }
                let end = self.attempt(maker, job, at, "SUCCEEDED", true);
                self.end(end, "SUCCEEDED", None);
            }
            Fate::Lost { called } => {
                let lost = self.attempt(maker, job, start, "WORKER_LOST", called);
                let fence = self.row.fence_token;
                let end = self.attempt(maker, job, lost + 215, "SUCCEEDED", true);
                self.end(end, "SUCCEEDED", None);
                if job.spec.sink && !called {
                    // It had begun, stood still, and goes on when it is over.
                    self.call(maker, job, end as f64 + 30.0, fence, 1, "ZOMBIE");
                }
            }
            Fate::CancelledBefore => {
                self.cancel(maker, due as f64 - 150.0, Phase::Ok, 200);
                self.states.push((due as f64 - 146.0, "CANCELLED".into(), 0, 0));
                self.end(due - 146, "CANCELLED", Some("CANCELLED_BY_USER"));
            }
            Fate::CancelledRunning => {
                let end = self.attempt(maker, job, start, "CANCELLED", true);
                self.cancel(maker, end as f64 - 2.0, Phase::Ok, 200);
                self.end(end, "CANCELLED", Some("CANCELLED_BY_USER"));
            }
            Fate::Dies | Fate::Replayed => self.die(maker, job, fate, start),
        }
    }

    fn die(&mut self, maker: &mut Maker, job: &Draft, fate: Fate, start: i64) {
        let mut at = start;
        // The first version of every job allows three; the definition here is the last one.
        let tries = if self.row.job_version == 1 { 3 } else { job.spec.retry_policy.max_attempts };
        for _ in 0..tries {
            at = self.attempt(maker, job, at, "FAILED", true) + 220;
        }
        let died = at - 220;
        self.states.last_mut().expect("an end").1 = "DEAD".into();
        let (execution, reason) = (self.row.id, "ATTEMPTS_EXHAUSTED".into());
        let dead = Event::Dead(Dead { execution, attempt: tries, reason });
        maker.line(died as f64 + 1.5, "node-0", dead);
        if fate == Fate::Dies {
            maker.dump.dead.push(self.row.id);
            self.end(died, "DEAD", Some("ATTEMPTS_EXHAUSTED"));
            return;
        }
        let asked = died as f64 + 400.0;
        let id = self.row.id;
        let answer = Answer { status: 200, state: Some("PENDING".into()), ..Answer::default() };
        operation(maker, OpKind::Replay, asked, Phase::Ok, |op: &mut Op| op.execution = Some(id), answer);
        self.states.push((asked + 4.0, "PENDING".into(), tries, self.row.fence_token));
        let end = self.attempt(maker, job, died + 420, "SUCCEEDED", true);
        self.end(end, "SUCCEEDED", None);
    }

    /// One attempt: claim, call, report. When it was over. It starts when a node is there, and none goes away while it
    /// runs.
    fn attempt(&mut self, maker: &mut Maker, job: &Draft, at: i64, outcome: &str, called: bool) -> i64 {
        let (node, at) = maker.healthy(at);
        let name = format!("node-{node}");
        maker.fence += 1;
        let (fence, number) = (maker.fence, self.row.attempt + 1);
        let execution = self.row.id;
        let long = match outcome {
            "WORKER_LOST" => 800 + maker.numbers.below(900),
            _ if job.spec.overlap == "SKIP" && maker.numbers.percent(30) => 1_300,
            _ => 8 + maker.numbers.below(40),
        };
        let (started, finished) = (at + 2, at + 2 + long);
        let claim = Claim { execution, attempt: number, fence, began_mono_ns: Some(mono(at as f64)), tenant: None };
        maker.line(at as f64 + 1.0, &name, Event::Claim(claim));
        self.states.push((at as f64 + 0.5, "RUNNING".into(), number, fence));
        let body = Body { execution, attempt: number, fence };
        if job.spec.sink && called {
            maker.line(started as f64 + 0.5, &format!("body-{node}"), Event::Start(body.clone()));
            self.call(maker, job, started as f64 + 1.5, fence, number, outcome);
            if outcome != "WORKER_LOST" {
                maker.line(finished as f64 - 0.5, &format!("body-{node}"), Event::End(body));
            }
        }
        if !matches!(outcome, "WORKER_LOST" | "CANCELLED") {
            let report = Report {
                execution,
                attempt: number,
                fence,
                outcome: outcome.into(),
                began_mono_ns: Some(mono(finished as f64)),
                repeated: false,
            };
            maker.line(finished as f64 + 2.0, &name, Event::Report(report));
        }
        let after = match outcome {
            "SUCCEEDED" | "CANCELLED" => outcome,
            _ => "RETRYING",
        };
        self.states.push((finished as f64 + 1.0, after.into(), number, fence));
        let row = &mut self.row;
        (row.attempt, row.fence_token, row.claimed_at) = (number, fence, Some(ms(at)));
        row.first_started_at = row.first_started_at.or(Some(ms(started)));
        (row.started_at, row.outcome) = (Some(ms(started)), Some(outcome.into()));
        row.attempts.push(AttemptRow {
            attempt: number,
            fence_token: fence,
            started_at: ms(started),
            finished_at: Some(ms(finished)),
            outcome: Some(outcome.into()),
        });
        if outcome == "WORKER_LOST" {
            // It comes back too late, and is refused.
            let report = Report {
                execution,
                attempt: number,
                fence,
                outcome: "SUCCEEDED".into(),
                began_mono_ns: None,
                repeated: false,
            };
            maker.line(finished as f64 + 600.0, &name, Event::ReportRejected(report));
        }
        finished
    }

    fn call(&mut self, maker: &mut Maker, job: &Draft, at: f64, fence: u64, attempt: u32, outcome: &str) {
        let status = match outcome {
            "FAILED" => 500,
            "ZOMBIE" => 409,
            _ => 200,
        };
        // Whatever a job is changed to, its first version has the first definition.
        let mark = if self.row.job_version == 1 { Some("first".into()) } else { job.spec.mark };
        let accepted = status == 200 && !self.accepted;
        self.accepted |= accepted;
        let effect = Effect {
            execution: self.row.id,
            job_name: job.name,
            fire_at: self.row.fire_at,
            attempt,
            fence,
            arrived_wall_ns: wall(at),
            arrived_mono_ns: mono(at),
            status,
            accepted,
            tenant: Some("default".into()),
            mark,
        };
        maker.line(at + 0.5, "sink", Event::Effect(effect));
    }

    fn cancel(&mut self, maker: &mut Maker, at: f64, phase: Phase, status: u16) {
        let id = self.row.id;
        let state = if phase == Phase::Ok { Some("CANCELLED".into()) } else { None };
        let answer = Answer { status, state, ..Answer::default() };
        operation(maker, OpKind::Cancel, at, phase, |op: &mut Op| op.execution = Some(id), answer);
    }

    fn end(&mut self, at: i64, state: &str, reason: Option<&str>) {
        (self.row.state, self.row.reason) = (state.into(), reason.map(Text::new));
        self.row.finished_at = Some(ms(at));
        self.over = at;
    }

    /// Clients look at it: each state for a moment, well inside of it.
    fn reads(&self, maker: &mut Maker) {
        for (position, (from, state, attempt, fence)) in self.states.iter().enumerate() {
            let until = self.states.get(position + 1).map_or(from + 500.0, |(next, _, _, _)| *next);
            let began = from + (until - from) / 3.0;
            let read = Read {
                began_mono_ns: mono(began),
                tenant: "default".into(),
                via: None,
                job: None,
                execution: Some(self.row.id),
                status: 200,
                state: Some(*state),
                version: None,
                attempt: Some(*attempt),
                fence: Some(*fence),
            };
            maker.line(began + (until - from) / 3.0, "client", Event::Read(Box::new(read)));
        }
    }
}
