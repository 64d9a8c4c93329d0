//! Jobs of a made-up history: created, changed, paused and deleted by a client that does not always hear the answer.

use super::{Maker, START_MS, mono, ms, runs};
use campanile_check::event::{
    Answer, CatchUp, Event, JobRow, Op, OpKind, Phase, Read, RetryPolicy, Schedule, Skip, SkipRow, Spec, VersionRow,
};
use campanile_check::ids;
use campanile_check::text::Text;

/// A job while its history is made. Times are milliseconds since the start.
pub struct Draft {
    pub id: Text,
    pub name: Text,
    pub spec: Spec,
    pub created_at: i64,
    pub version: u32,
    pub every: i64,
    pub versions: Vec<VersionRow>,
}

pub fn spec(schedule: Schedule) -> Spec {
    Spec {
        schedule,
        retry_policy: RetryPolicy {
            max_attempts: 3,
            backoff: "FIXED".into(),
            initial_delay_ms: 200,
            max_delay_ms: 3_600_000,
            total_timeout_ms: None,
        },
        catch_up: CatchUp { mode: "ALL".into(), n: None, max_age_ms: 3_600_000, drip_ms: 0 },
        overlap: "ALLOW".into(),
        timeout_ms: 30_000,
        spread_ms: 0,
        blackouts: Vec::new(),
        paused: false,
        sink: true,
        mark: Some("first".into()),
    }
}

pub fn every(every_ms: i64) -> Schedule {
    Schedule { kind: "EVERY".into(), every_ms: Some(every_ms as u64), ..Schedule::default() }
}

/// Fires until it is paused, changed or deleted.
pub fn recurring(maker: &mut Maker, number: usize) {
    let every_ms = [1_000, 2_000, 5_000, 2_000][number % 4];
    let mut spec = if number % 10 == 7 {
        let cron = Some("*/10 * * * * *".into());
        spec(Schedule { kind: "CRON".into(), cron, timezone: Some("Europe/Berlin".into()), ..Schedule::default() })
    } else {
        spec(every(every_ms))
    };
    match number % 10 {
        3 => spec.catch_up.mode = "NONE".into(),
        4 => spec.catch_up.mode = "LAST".into(),
        5 => spec.overlap = "SKIP".into(),
        6 => spec.sink = false,
        _ => {}
    }
    let every_ms = if spec.schedule.kind == "CRON" { 10_000 } else { every_ms };
    let created_at = 1_000 + maker.numbers.below(8_000);
    let mut job = create(maker, &format!("recurring-{number}"), spec, created_at, every_ms);
    let load_end = maker.load_end();
    // Changes lie well between two fires, so that it is plain what was due before them.
    let between = |at: i64| (START_MS + at).div_euclid(every_ms) * every_ms - START_MS + every_ms / 2;
    let mut fires: Vec<(i64, u32)> = Vec::new();
    let mut end = between(load_end - 3_000);
    match number % 8 {
        1 => {
            let (pause, resume) = (between(load_end / 3), between(load_end / 3 + 12_000));
            instants(&job, created_at, pause, job.version, &mut fires);
            change(maker, &mut job, OpKind::Pause, pause, None);
            change(maker, &mut job, OpKind::Resume, resume, None);
            skip(maker, &job, pause, resume, "PAUSED", resume);
            instants(&job, resume, end, job.version, &mut fires);
        }
        2 if job.spec.schedule.kind == "EVERY" => {
            let update = between(load_end / 2);
            instants(&job, created_at, update, job.version, &mut fires);
            let mut spec = job.spec.clone();
            job.every = 2 * every_ms;
            spec.schedule = every(job.every);
            spec.retry_policy.max_attempts = 4;
            spec.mark = Some("second".into());
            change(maker, &mut job, OpKind::Update, update, Some(spec));
            instants(&job, update, end, job.version, &mut fires);
        }
        3 => {
            end = between(load_end / 2);
            instants(&job, created_at, end, job.version, &mut fires);
        }
        _ => instants(&job, created_at, end, job.version, &mut fires),
    }
    runs::all(maker, &job, &fires);
    if number % 8 == 3 {
        // Long after its last fire, so that none of its attempts is waiting.
        change(maker, &mut job, OpKind::Delete, between(load_end / 2 + 25_000), None);
        skip(maker, &job, end, between(load_end / 2 + 25_000), "PAUSED", end + 10);
        pause_before_delete(maker, &job, end);
    } else {
        change(maker, &mut job, OpKind::Pause, end, None);
        show(maker, &job, "PAUSED", end);
    }
    reads(maker, &job);
    if number.is_multiple_of(6) {
        by_hand(maker, &job, number);
    }
}

/// A job that was paused, and then deleted.
fn pause_before_delete(maker: &mut Maker, job: &Draft, at: i64) {
    let answer = Answer { status: 200, version: Some(2), updated_at: Some(ms(at)), ..Answer::default() };
    operation(maker, OpKind::Pause, at as f64, Phase::Ok, |op| op.job = Some(job.id), answer);
}

pub fn one_off(maker: &mut Maker, number: usize) {
    let created_at = 1_000 + maker.numbers.below(maker.load_end() - 12_000);
    let at = created_at + 500 + maker.numbers.below(5_000);
    let schedule = Schedule { kind: "AT".into(), at: Some(ms(at)), ..Schedule::default() };
    let job = create(maker, &format!("one-off-{number}"), spec(schedule), created_at, 0);
    runs::all(maker, &job, &[(at, 1)]);
    show(maker, &job, "ACTIVE", created_at);
    if number.is_multiple_of(9) {
        reads(maker, &job);
    }
}

/// Creates a job; now and then the first answer is lost, and the second one is that of the first.
fn create(maker: &mut Maker, name: &str, spec: Spec, at: i64, every: i64) -> Draft {
    let random = u128::from(maker.numbers.next()) << 64 | u128::from(maker.numbers.next());
    let mut bytes = random.to_be_bytes();
    bytes[..6].copy_from_slice(&(START_MS + at).to_be_bytes()[2..]);
    let id = Text::from(ids::format(bytes, "job_"));
    let answer = Answer {
        status: 201,
        version: Some(1),
        created_at: Some(ms(at)),
        updated_at: Some(ms(at)),
        body_hash: Some(format!("b-{name}").into()),
        ..Answer::default()
    };
    let lost = maker.numbers.percent(5);
    let asked = |op: &mut Op| {
        op.name = Some(name.into());
        op.spec = Some(Box::new(spec.clone()));
        op.key = Some(format!("key-{name}").into());
        op.request_hash = Some(format!("r-{name}").into());
    };
    let before = at as f64 - 3.0;
    if lost {
        operation(maker, OpKind::Create, before, Phase::Info, asked, Answer::default());
    }
    let told = Answer { replayed: lost, ..answer };
    let begin = if lost { at as f64 + 40.0 } else { before };
    let index = operation(maker, OpKind::Create, begin, Phase::Ok, asked, told);
    if let Event::Op(op) = &mut maker.lines[index].2 {
        op.job = Some(id);
    }
    let mut job = Draft { id, name: name.into(), spec, created_at: at, version: 1, every, versions: Vec::new() };
    note_version(&mut job, "ACTIVE", at);
    job
}

/// Writes both ends of an operation, 8 ms apart. The index of the second.
pub fn operation(
    maker: &mut Maker,
    kind: OpKind,
    begin: f64,
    phase: Phase,
    asked: impl Fn(&mut Op),
    answer: Answer,
) -> usize {
    maker.ops += 1;
    let mut op = Op {
        op: format!("op-{}", maker.ops).into(),
        phase: Phase::Invoke,
        kind,
        tenant: "default".into(),
        via: None,
        job: None,
        name: None,
        execution: None,
        fire_at: None,
        spec: None,
        until: None,
        key: None,
        request_hash: None,
        answer: None,
    };
    asked(&mut op);
    maker.line(begin, "client", Event::Op(Box::new(op.clone())));
    op.phase = phase;
    op.spec = None;
    op.answer = Some(answer);
    maker.line(begin + 8.0, "client", Event::Op(Box::new(op)));
    maker.lines.len() - 1
}

fn change(maker: &mut Maker, job: &mut Draft, kind: OpKind, at: i64, spec: Option<Spec>) {
    job.version += 1;
    let answer = Answer { status: 200, version: Some(job.version), updated_at: Some(ms(at)), ..Answer::default() };
    let id = job.id;
    let asked = |op: &mut Op| {
        op.job = Some(id);
        op.spec = spec.clone().map(Box::new);
    };
    operation(maker, kind, at as f64 - 4.0, Phase::Ok, asked, answer);
    if let Some(spec) = spec {
        job.spec = spec;
    }
    let state = match kind {
        OpKind::Pause => "PAUSED",
        OpKind::Delete => "DELETED",
        _ => "ACTIVE",
    };
    note_version(job, state, at);
}

/// The version that the job has now, which ends the one before it.
fn note_version(job: &mut Draft, state: &str, at: i64) {
    if let Some(old) = job.versions.last_mut() {
        old.ended_at = Some(ms(at));
    }
    let (id, version, state) = (job.id, job.version, Text::new(state));
    job.versions.push(VersionRow { id, version, state, effective_at: ms(at), ended_at: None, paused_until: None });
}

/// The instants after one time up to another, with the version in force.
fn instants(job: &Draft, after: i64, until: i64, version: u32, fires: &mut Vec<(i64, u32)>) {
    let mut at = (START_MS + after).div_euclid(job.every) * job.every + job.every - START_MS;
    while at < until {
        fires.push((at, version));
        at += job.every;
    }
}

pub fn skip(maker: &mut Maker, job: &Draft, from: i64, until: i64, reason: &str, recorded_at: i64) {
    let (from, until, recorded_at) = (ms(from), ms(until), ms(recorded_at));
    let (id, reason) = (job.id, Text::new(reason));
    let row = SkipRow { job_id: id, from, to: until, reason, recorded_at };
    maker.dump.skips.push(row);
    let at = (recorded_at.0 - START_MS) as f64 + 1.0;
    maker.line(at, "node-0", Event::Skip(Skip { job: id, from, until, reason, recorded_at }));
}

fn show(maker: &mut Maker, job: &Draft, state: &str, updated_at: i64) {
    maker.dump.versions.extend(job.versions.iter().cloned());
    maker.dump.jobs.push(JobRow {
        id: job.id,
        name: job.name,
        tenant: "default".into(),
        state: state.into(),
        version: job.version,
        created_at: ms(job.created_at),
        updated_at: ms(updated_at),
    });
}

/// Reads of the job: right after it was created, and by every node when all is well again.
fn reads(maker: &mut Maker, job: &Draft) {
    let read = |maker: &mut Maker, at: f64, version: u32, node: usize| {
        let read = Read {
            began_mono_ns: mono(at),
            tenant: "default".into(),
            via: Some(format!("node-{node}").into()),
            job: Some(job.id),
            execution: None,
            status: 200,
            state: Some("ACTIVE".into()),
            version: Some(version),
            attempt: None,
            fence: None,
        };
        maker.line(at + 3.0, "client", Event::Read(Box::new(read)));
    };
    read(maker, job.created_at as f64 + 100.0, 1, 0);
    let is_deleted = maker.dump.jobs.last().is_none_or(|row| row.id != job.id);
    if !is_deleted {
        for node in 0..super::NODES {
            read(maker, maker.load_end() as f64 + 2_000.0 + 100.0 * node as f64, job.version, node);
            read(maker, maker.load_end() as f64 + 9_000.0 + 100.0 * node as f64, job.version, node);
        }
    }
}

/// Runs it by hand, under a key, and asks again.
fn by_hand(maker: &mut Maker, job: &Draft, number: usize) {
    let at = 15_000 + maker.numbers.below(5_000);
    let key = format!("run-{number}");
    let bytes = ids::parse(&job.id, "job_").expect("an id");
    let hash = ids::execution(1, bytes, START_MS + at, ids::Kind::Manual, key.as_bytes());
    let id = Text::from(ids::format(hash.expect("short enough"), "exe_"));
    let answer = Answer { status: 202, fire_at: Some(ms(at)), ..Answer::default() };
    let asked = |op: &mut Op| {
        op.job = Some(job.id);
        op.key = Some(key.as_str().into());
        op.request_hash = Some("run".into());
    };
    for (begin, replayed) in [(at as f64 - 4.0, false), (at as f64 + 300.0, true)] {
        let told = Answer { replayed, ..answer.clone() };
        let index = operation(maker, OpKind::Run, begin, Phase::Ok, asked, told);
        if let Event::Op(op) = &mut maker.lines[index].2 {
            op.execution = Some(id);
        }
    }
    runs::one(maker, job, at, 1, "MANUAL", id);
}
