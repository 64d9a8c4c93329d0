//! A load that passes through every kind of write: recurring jobs, retries, dead letters, cancels, limits,
//! notifications, and a worker that pulls. Whatever is not answered is asked again under the same key until it is, of
//! whoever serves by then.

use super::judge::{Due, Known, catch_up, ms, retry, webhook};
use super::{Answer, Delivery, Reply, Sink, http_within, now_ms};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an answer may take before it is asked for again.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long anything may take to come about, faults included.
const COME_MAX: Duration = Duration::from_secs(90);
const AGAIN: Duration = Duration::from_millis(25);
/// The recurring jobs: their names, targets and periods.
const RECURRING: [(&str, &str, i64); 2] = [("steady", "/fast", 250), ("flaky", "/flaky", 500)];
/// The recurring job of the worker.
const MARKED_MS: i64 = 250;
/// One-offs of one round whose target takes few per second.
const LIMITED: usize = 4;

/// What the threads share.
#[derive(Clone)]
struct Shared {
    url: Arc<Mutex<String>>,
    /// For the operator, and for the worker.
    is_over: [Arc<AtomicBool>; 2],
    sink: Sink,
    /// Its origin has a limit.
    slow: Sink,
}

/// The load while it runs.
pub struct Script {
    shared: Shared,
    rounds: Arc<AtomicUsize>,
    operator: JoinHandle<Done>,
    worker: JoinHandle<()>,
}

/// What it has done.
#[derive(Debug, Default)]
pub struct Done {
    /// Jobs whose every fire must have succeeded once.
    pub known: Vec<Known>,
    /// Executions whose cancel was acknowledged before anybody could start them.
    pub cancelled: Vec<String>,
    /// Executions that died once, and were told about.
    pub dead: Vec<String>,
    /// Of those, the ones that were run again, and the ones that were given up.
    pub replayed: Vec<String>,
    pub discarded: Vec<String>,
}

impl Script {
    /// Starts against this server.
    pub fn start(url: &str, sink: &Sink, slow: &Sink) -> Self {
        // Fails again and again, and is tried again.
        let flaky: Vec<Reply> = (0..400).map(|n| Reply::status(if n % 3 == 0 { 500 } else { 200 })).collect();
        sink.replies("/flaky", &flaky);
        let shared = Shared {
            url: Arc::new(Mutex::new(url.to_owned())),
            is_over: Default::default(),
            sink: sink.clone(),
            slow: slow.clone(),
        };
        let rounds = Arc::new(AtomicUsize::new(0));
        let operator = std::thread::spawn({
            let (shared, rounds) = (shared.clone(), rounds.clone());
            move || Operator { shared, done: Done::default() }.run(&rounds)
        });
        let worker = std::thread::spawn({
            let shared = shared.clone();
            move || shared.work()
        });
        Self { shared, rounds, operator, worker }
    }

    /// Asks this server from now on.
    pub fn set_url(&self, url: &str) {
        *self.shared.url.lock().unwrap() = url.to_owned();
    }

    /// Waits until another round was begun and ended from here on, then ends. The worker goes on.
    pub fn finish(self) -> (Done, Worker) {
        let from = self.rounds.load(Ordering::Relaxed);
        let started = Instant::now();
        while self.rounds.load(Ordering::Relaxed) < from + 1 && !self.operator.is_finished() {
            assert!(started.elapsed() < COME_MAX, "a round of the load does not end");
            std::thread::sleep(AGAIN);
        }
        self.shared.is_over[0].store(true, Ordering::Relaxed);
        let done = self.operator.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (done, Worker { shared: self.shared, thread: Some(self.worker) })
    }
}

/// The worker, which is needed until everything has ended.
pub struct Worker {
    shared: Shared,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.is_over[1].store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn ask_once(&self, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> Answer {
        let url = format!("{}{path}", self.url.lock().unwrap());
        let key = key.map(|key| ("idempotency-key", key));
        http_within(ANSWER_MAX, method, &url, key.as_slice(), body)
    }

    /// Asks until there is an answer that decides.
    fn ask(&self, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> Answer {
        let started = Instant::now();
        loop {
            let answer = self.ask_once(method, path, key, body);
            if !matches!(answer.status, 0 | 503 | 504) {
                return answer;
            }
            assert!(started.elapsed() < COME_MAX, "{method} {path} is not answered: {answer:?}");
            std::thread::sleep(AGAIN);
        }
    }

    /// The same, and it must have been done.
    fn done(&self, method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> Value {
        let answer = self.ask(method, path, key, body);
        assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
        answer.body
    }

    /// Waits until a question is answered so.
    fn wait(&self, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let answer = self.ask("GET", path, None, None);
            if answer.status == 200 && is_so(&answer.body) {
                return answer.body;
            }
            assert!(started.elapsed() < COME_MAX, "not within {COME_MAX:?}: {what}: {answer:?}");
            std::thread::sleep(AGAIN);
        }
    }

    /// A worker: claims, gives the first claim back, leaves a mark, beats, completes.
    fn work(&self) {
        let mut claims = 0;
        while !self.is_over[1].load(Ordering::Relaxed) {
            let ask = json!({
                "worker_id": "hand", "capacity": 4, "pools": ["hands"], "handlers": ["mark"], "wait_ms": 300,
            });
            let answer = self.ask_once("POST", "/internal/v1/executions/claim", None, Some(&ask));
            let Some(claimed) = answer.body["executions"].as_array().cloned() else {
                std::thread::sleep(AGAIN);
                continue;
            };
            for execution in claimed {
                claims += 1;
                self.carry_out(&execution, claims % 5 == 1);
            }
        }
    }

    fn carry_out(&self, execution: &Value, gives_back: bool) {
        let text = |name: &str| execution[name].as_str().expect("text").to_owned();
        let (id, fence) = (text("execution_id"), execution["fence_token"].as_u64().expect("a fence"));
        let who = json!({ "worker_id": "hand", "fence_token": fence });
        if gives_back {
            // One that is too late is refused; that is for the lease to settle.
            self.ask("POST", &format!("/internal/v1/executions/{id}/release"), None, Some(&who));
            return;
        }
        let beat = json!({ "worker_id": "hand", "executions": [{ "id": id, "fence_token": fence, "progress": 0.5 }] });
        let beaten = self.ask("POST", "/internal/v1/executions/heartbeat", None, Some(&beat));
        if beaten.body["results"][0]["status"] != "EXTENDED" {
            return;
        }
        self.sink.note(Delivery {
            path: "/mark".into(),
            execution: id.clone(),
            job_name: text("job_name"),
            attempt: execution["attempt"].as_u64().expect("an attempt") as u32,
            fence,
            scheduled_at: text("scheduled_at"),
            scheduled_at_ms: ms(&execution["scheduled_at"]),
            arrived_at_ms: now_ms(),
            body: Vec::new(),
        });
        let completion = json!({ "status": "SUCCEEDED", "fence_token": fence });
        self.ask("POST", &format!("/internal/v1/executions/{id}/complete"), None, Some(&completion));
    }
}

/// Whoever makes jobs and looks after them.
struct Operator {
    shared: Shared,
    done: Done,
}

impl Operator {
    fn run(mut self, rounds: &AtomicUsize) -> Done {
        let events = json!({ "url": self.shared.sink.url("/events"), "events": ["dead", "late", "recovered"] });
        let endpoint = self.shared.done("POST", "/v1/webhook-endpoints", None, Some(&events));
        let endpoint = endpoint["id"].as_str().expect("an id").to_owned();
        self.shared.done("PUT", "/v1/pools/hands", None, Some(&json!({ "slots": 4 })));
        let origin = self.shared.slow.url("").replace("://", "%3A%2F%2F");
        self.shared.done("PUT", &format!("/v1/targets/{origin}"), None, Some(&json!({ "per_second": 4 })));
        for (name, path, every_ms) in RECURRING {
            let action = webhook(&self.shared.sink, path);
            self.create(name, json!({ "every": format!("{every_ms}ms") }), action, Some(every_ms));
        }
        let mark = json!({ "type": "WORKER", "handler": "mark" });
        self.create("marked", json!({ "every": format!("{MARKED_MS}ms") }), mark, Some(MARKED_MS));
        for round in 0.. {
            self.round(round, &endpoint);
            rounds.fetch_add(1, Ordering::Relaxed);
            if self.shared.is_over[0].load(Ordering::Relaxed) {
                break;
            }
        }
        self.done
    }

    /// Creates a job all of whose fires must succeed.
    fn create(&mut self, name: &str, schedule: Value, action: Value, every_ms: Option<i64>) {
        let pool = if action["type"] == "WORKER" { "hands" } else { "short" };
        let body = json!({
            "name": name, "schedule": schedule, "action": action, "retry_policy": retry(), "catch_up": catch_up(),
            "pool": pool,
        });
        let job = self.shared.done("POST", "/v1/jobs", Some(name), Some(&body));
        let created_at_ms = ms(&job["created_at"]);
        let due = every_ms.map_or_else(|| Due::At(ms(&schedule["at"]).max(created_at_ms)), Due::Every);
        let id = job["id"].as_str().expect("an id").to_owned();
        self.done.known.push(Known { id, name: name.to_owned(), due, created_at_ms });
    }

    /// One of each.
    fn round(&mut self, round: usize, endpoint: &str) {
        let at = |ms: i64| campanile_model::Timestamp::from_millis(now_ms() + ms).to_string();
        for n in 0..LIMITED {
            let schedule = json!({ "at": at(100), "allow_past": true });
            let action = webhook(&self.shared.slow, "/limited");
            self.create(&format!("limited-{round}-{n}"), schedule, action, None);
        }
        self.cancel(round);
        let first = self.die(&format!("doomed-{round}"));
        let second = self.die(&format!("given-up-{round}"));
        self.told(endpoint, &first);
        self.shared.sink.reply(&format!("/doomed-{round}"), Reply::status(200));
        let replay = json!({ "executions": [first] });
        // A second try may find that nothing is dead any more.
        self.shared.ask("POST", "/v1/dead/replay", None, Some(&replay));
        let execution = format!("/v1/executions/{first}");
        self.shared.wait(&execution, "it succeeds", |execution| execution["state"] == "SUCCEEDED");
        self.done.replayed.push(first.clone());
        let discard = json!({ "executions": [second], "reason": "nobody misses it" });
        // The answer to a second try may be that it is dead no more; what counts is what is there at the end.
        self.shared.done("POST", "/v1/dead/discard", None, Some(&discard));
        self.done.discarded.push(second.clone());
        self.done.dead.extend([first, second]);
        self.extras(round);
    }

    /// A run that nobody takes is cancelled; it is late by then.
    fn cancel(&mut self, round: usize) {
        let name = format!("parked-{round}");
        let body = json!({
            "name": name, "schedule": { "after": "1ms" }, "action": { "type": "WORKER", "handler": "nobody" },
            "pool": "hands", "expect": { "start_within": "200ms" },
        });
        self.shared.done("POST", "/v1/jobs", Some(&name), Some(&body));
        let id = self.execution_of(&name, "PENDING");
        std::thread::sleep(Duration::from_millis(300));
        let cancel = format!("/v1/executions/{id}/cancel");
        let answer = self.shared.ask("POST", &cancel, Some(&name), Some(&json!({})));
        assert!((200..300).contains(&answer.status), "{cancel}: {answer:?}");
        self.done.cancelled.push(id);
    }

    /// A job that fails once and for all. Its execution.
    fn die(&mut self, name: &str) -> String {
        let path = format!("/{name}");
        self.shared.sink.reply(&path, Reply::status(500));
        let body = json!({
            "name": name, "schedule": { "after": "1ms" }, "action": webhook(&self.shared.sink, &path),
            // A crash must not use its only attempt up before it was refused.
            "retry_policy": { "max_attempts": 3, "backoff": "FIXED", "initial_delay_ms": 10 },
        });
        self.shared.done("POST", "/v1/jobs", Some(name), Some(&body));
        self.execution_of(name, "DEAD")
    }

    /// The one execution of a job, when it is in this state.
    fn execution_of(&self, name: &str, state: &str) -> String {
        let path = format!("/v1/executions?limit=1&job=name:{name}");
        let page = self.shared.wait(&path, &format!("{name} is {state}"), |page| page["data"][0]["state"] == state);
        page["data"][0]["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until the endpoint was told of a death, and has it told again.
    fn told(&self, endpoint: &str, execution: &str) {
        let path = format!("/v1/webhook-endpoints/{endpoint}/deliveries");
        let of_it = |page: &Value| {
            let told = page["data"].as_array().into_iter().flatten();
            let mut told = told.filter(|d| d["execution_id"] == execution && d["state"] == "DELIVERED");
            told.find(|d| d["event"] == "dead").cloned()
        };
        let page = self.shared.wait(&path, "it is told", |page| of_it(page).is_some());
        let seq = of_it(&page).expect("found")["seq"].as_u64().expect("a number");
        let again = format!("{path}/{seq}/replay");
        let answer = self.shared.ask("POST", &again, None, None);
        assert!((200..300).contains(&answer.status), "{again}: {answer:?}");
    }

    /// Limits and endpoints come and go. A second try may find them gone.
    fn extras(&self, round: usize) {
        let pool = format!("/v1/pools/extra-{round}");
        self.shared.done("PUT", &pool, None, Some(&json!({ "slots": 1 })));
        let gone = self.shared.ask("DELETE", &pool, None, None).status;
        assert!(matches!(gone, 204 | 404), "{pool}: {gone}");
        let other = json!({ "url": self.shared.sink.url("/other"), "events": ["dead"] });
        let made = self.shared.done("POST", "/v1/webhook-endpoints", None, Some(&other));
        let made = format!("/v1/webhook-endpoints/{}", made["id"].as_str().expect("an id"));
        let gone = self.shared.ask("DELETE", &made, None, None).status;
        assert!(matches!(gone, 204 | 404), "{made}: {gone}");
    }
}
