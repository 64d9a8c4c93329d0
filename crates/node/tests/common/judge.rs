//! The judge of tests with faults: what was acknowledged, what the targets saw and what the store remembers must agree.
//!
//! The sink lives in the test's process and is never harmed; it is the witness.

use super::{Delivery, Server, Sink, eventually, happens, now_ms};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

/// Questions at the same time.
const THREADS: usize = 4;

/// A job that was acknowledged.
#[derive(Clone, Debug)]
pub struct Known {
    pub id: String,
    pub name: String,
    pub due: Due,
    /// When it was created, by the server's clock.
    pub created_at_ms: i64,
}

/// When a job is due.
#[derive(Copy, Clone, Debug)]
pub enum Due {
    /// Once, in milliseconds since the Unix epoch.
    At(i64),
    /// Whenever so many milliseconds have passed since the Unix epoch.
    Every(i64),
}

impl Known {
    /// All its instants up to `end_ms`.
    pub fn instants(&self, end_ms: i64) -> Vec<i64> {
        match self.due {
            Due::At(at) => vec![at],
            Due::Every(ms) => ((self.created_at_ms / ms + 1) * ms..=end_ms).step_by(ms as usize).collect(),
        }
    }
}

/// In which order deliveries of one execution may arrive.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Each attempt's after those before: whoever lost one is gone.
    InOrder,
    /// A node that was stopped sends what it had begun when it goes on, although somebody else has done it meanwhile. Its fence
    /// tells the target.
    Zombies,
}

/// What a run was worth.
#[derive(Copy, Clone, Debug, Default)]
pub struct Verdict {
    /// Fires that were expected, and all there.
    pub fires: usize,
    pub deliveries: usize,
    /// Attempts whose node was lost.
    pub lost_attempts: usize,
    /// Deliveries that came after one with a newer fence.
    pub zombies: usize,
}

/// An instant of an answer, in milliseconds since the Unix epoch.
pub fn ms(value: &Value) -> i64 {
    let text = value.as_str().expect("an instant");
    text.parse::<campanile_model::Timestamp>().expect("RFC 3339").millis()
}

pub fn webhook(sink: &Sink, path: &str) -> Value {
    json!({ "type": "WEBHOOK", "url": sink.url(path) })
}

/// Many attempts, close together: a fault burns one.
pub fn retry() -> Value {
    json!({ "max_attempts": 500, "backoff": "FIXED", "initial_delay_ms": 20 })
}

/// Whatever was missed is run.
pub fn catch_up() -> Value {
    json!({ "mode": "all", "max_age_ms": 3_600_000 })
}

/// A number from the environment.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// Ends the load, waits until all is done, and judges.
pub fn finish(server: &Server, sink: &Sink, known: &[Known], arrival: Arrival) -> Verdict {
    finish_by(server, || sink.deliveries(), known, arrival)
}

/// The same by what these witnesses saw in the end.
pub fn finish_by(
    server: &Server,
    witnesses: impl FnOnce() -> Vec<Delivery>,
    known: &[Known],
    arrival: Arrival,
) -> Verdict {
    let end_ms = now_ms();
    // Everything that is expected gets its execution first: a pause skips what is due and has none, and a one-off that comes due
    // while the judge is at work would be run after he has looked at what the targets saw.
    in_parallel(known, |job| {
        let last_ms = job.instants(end_ms).last().copied().unwrap_or(0);
        let newest = format!("/v1/executions?limit=1&job={}", job.id);
        let has_fired =
            || server.get(&newest)["data"].as_array().unwrap().iter().any(|newest| ms(&newest["fire_at"]) >= last_ms);
        assert!(happens(Duration::from_secs(60), has_fired), "not fired at {last_ms}: {}", evidence(server, job));
        if matches!(job.due, Due::Every(_)) {
            server.post(&format!("/v1/jobs/{}/pause", job.id), &json!({}));
        }
    });
    settle(server);
    let verdict = check(server, &witnesses(), known, end_ms, arrival);
    eprintln!("{} jobs, {verdict:?}", known.len());
    verdict
}

/// What the server says about a job that did not do what it should, and the end of the server's log.
fn evidence(server: &Server, job: &Known) -> String {
    let said = ["", "/skips", "/versions", "/why"].map(|part| {
        let path = format!("/v1/jobs/{}{part}", job.id);
        format!("{path}: {:?}", server.http("GET", &path, None))
    });
    let log = server.log();
    let end: Vec<&str> = log.lines().rev().take(40).collect();
    let (now, status) = (now_ms(), server.http("GET", "/v1/status", None));
    format!("{job:?} at {now}\n{}\nstatus: {status:?}\nlog, newest first:\n{}", said.join("\n"), end.join("\n"))
}

/// Does something with each, several at a time.
fn in_parallel<T: Sync, R: Send>(items: &[T], each: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let chunks = items.chunks(items.len().div_ceil(THREADS).max(1));
    let each = &each;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            chunks.map(|chunk| scope.spawn(move || chunk.iter().map(each).collect::<Vec<R>>())).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    })
}

/// Looks in a row that must find nothing under way.
const QUIET_LOOKS: usize = 6;

/// Waits until nothing is under way any more, by several looks: between the three questions of one, an execution may go from a
/// state that was not asked for yet to one that was.
pub fn settle(server: &Server) {
    let is_empty = |state: &str| {
        let page = server.get(&format!("/v1/executions?limit=1&state={state}"));
        page["data"].as_array().unwrap().is_empty()
    };
    let mut quiet = 0;
    eventually(Duration::from_secs(120), "everything ends", || {
        let ended = ["PENDING", "RUNNING", "RETRYING"].iter().all(|state| is_empty(state));
        quiet = if ended { quiet + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(20));
        quiet >= QUIET_LOOKS
    });
}

/// Every acknowledged job exists; every expected fire has its one execution, which succeeded once; none was early.
pub fn check(server: &Server, deliveries: &[Delivery], known: &[Known], end_ms: i64, arrival: Arrival) -> Verdict {
    // Never early, by the witness's clock, which is the server's: they share a machine.
    let early: Vec<&Delivery> = deliveries.iter().filter(|d| d.arrived_at_ms < d.scheduled_at_ms).collect();
    assert!(early.is_empty(), "early: {early:?}");
    let mut by_execution: BTreeMap<&str, Vec<&Delivery>> = BTreeMap::new();
    deliveries.iter().for_each(|d| by_execution.entry(&d.execution).or_default().push(d));
    let zombies = by_execution.iter().map(|(execution, tries)| check_tries(execution, tries, arrival)).sum();
    let checked = in_parallel(known, |job| check_job(server, &by_execution, job, end_ms));
    let fires = checked.iter().map(|(fires, _)| fires).sum();
    let lost_attempts = checked.iter().map(|(_, lost)| lost).sum();
    Verdict { fires, deliveries: deliveries.len(), lost_attempts, zombies }
}

/// The fires of one job, and how many attempts of them were lost.
fn check_job(
    server: &Server,
    by_execution: &BTreeMap<&str, Vec<&Delivery>>,
    job: &Known,
    end_ms: i64,
) -> (usize, usize) {
    let found = server.http("GET", &format!("/v1/jobs/{}", job.id), None);
    assert_eq!(found.status, 200, "an acknowledged job is gone: {job:?}");
    let executions = server.executions(&job.name);
    let mut by_instant: HashMap<i64, &Value> = HashMap::new();
    for execution in &executions {
        assert!(by_instant.insert(ms(&execution["fire_at"]), execution).is_none(), "two for one fire: {execution}");
    }
    let instants = job.instants(end_ms);
    let mut lost_attempts = 0;
    for at in &instants {
        let execution = by_instant.get(at).unwrap_or_else(|| {
            let (row, skips) = (&found.body, server.get(&format!("/v1/jobs/{}/skips", job.id)));
            let known: Vec<&Value> = executions.iter().map(|execution| &execution["fire_at"]).collect();
            panic!("{job:?}: no execution for {at}, but {known:?}; job {row}; skips {skips}")
        });
        assert_eq!(execution["state"], "SUCCEEDED", "{execution}");
        let id = execution["id"].as_str().unwrap();
        let tries = by_execution.get(id).map_or(&[][..], Vec::as_slice);
        lost_attempts += check_attempts(server, execution, id, tries);
    }
    (instants.len(), lost_attempts)
}

/// Attempts and fences of one execution grow together, and no attempt is delivered twice. How many arrived after a newer one.
fn check_tries(execution: &str, tries: &[&Delivery], arrival: Arrival) -> usize {
    let order: Vec<(u64, u32)> = tries.iter().map(|d| (d.fence, d.attempt)).collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    let grows = sorted.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 < pair[1].1);
    assert!(grows, "{execution}: fences and attempts {order:?}");
    let mut newest = 0;
    let is_late = |fence: u64| {
        newest = newest.max(fence);
        fence < newest
    };
    let late = order.iter().map(|(fence, _)| *fence).map(is_late).filter(|late| *late).count();
    assert!(late == 0 || arrival == Arrival::Zombies, "{execution}: fences and attempts arrived as {order:?}");
    late
}

/// One completion was accepted, that of the last attempt, and its target saw that attempt. How many attempts were lost.
fn check_attempts(server: &Server, execution: &Value, id: &str, tries: &[&Delivery]) -> usize {
    let accepted_fence = execution["fence_token"].as_u64().unwrap();
    assert!(tries.iter().any(|d| d.fence == accepted_fence), "{id} succeeded and its target saw nothing: {tries:?}");
    assert!(tries.iter().all(|d| d.fence <= accepted_fence), "{id}: an attempt after the accepted one: {tries:?}");
    if execution["attempt"] == 1 {
        assert_eq!(tries.len(), 1, "{id}: delivered under a fence that nobody had: {tries:?}");
        return 0;
    }
    let attempts = server.get(&format!("/v1/executions/{id}/attempts"));
    let attempts = attempts["data"].as_array().unwrap();
    let outcomes: Vec<&str> = attempts.iter().map(|a| a["outcome"].as_str().unwrap_or("-")).collect();
    let fences: Vec<u64> = attempts.iter().map(|a| a["fence_token"].as_u64().unwrap()).collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{id}: {fences:?}");
    assert_eq!(fences.last(), Some(&accepted_fence), "{id}: {attempts:?}");
    let accepted = outcomes.iter().filter(|outcome| **outcome == "SUCCEEDED").count();
    assert_eq!(accepted, 1, "{id}: {outcomes:?}");
    assert_eq!(outcomes.last(), Some(&"SUCCEEDED"), "{id}: {outcomes:?}");
    let known: HashSet<u64> = fences.into_iter().collect();
    assert!(tries.iter().all(|d| known.contains(&d.fence)), "{id}: delivered under a fence that nobody had: {tries:?}");
    outcomes.iter().filter(|outcome| **outcome == "WORKER_LOST").count()
}
