//! A client that creates one-off jobs for as long as it lives, and remembers which were acknowledged.
//!
//! Whatever is not answered it asks again under the same key, of any node, until it is.

use super::judge::{Due, Known, catch_up, ms, retry, webhook};
use super::{Sink, http_within, now_ms};
use campanile_model::random::{Random, SplitMix};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How long an answer may take before another node is asked.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// Between two jobs, at most.
const PAUSE_MS: u64 = 12;
/// Between two questions about the same job.
const AGAIN: Duration = Duration::from_millis(10);

pub struct Creator {
    urls: Arc<Mutex<Vec<String>>>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<Created>,
}

/// What a creator has done.
#[derive(Debug, Default)]
pub struct Created {
    pub known: Vec<Known>,
    /// How often which status was answered; 0 where there was no answer.
    pub statuses: BTreeMap<u16, usize>,
}

impl Created {
    /// The statuses that this client should not have met, with how often it did.
    pub fn unexpected(&self, retried: &[u16]) -> Vec<(u16, usize)> {
        let fine = |status: u16| (200..300).contains(&status) || retried.contains(&status);
        self.statuses.iter().map(|(status, count)| (*status, *count)).filter(|(status, _)| !fine(*status)).collect()
    }
}

impl Creator {
    /// Starts to create, at these servers in turn.
    pub fn start(urls: Vec<String>, sink: Sink, seed: u64) -> Self {
        Self::start_slow(urls, sink, seed, PAUSE_MS)
    }

    /// The same with longer pauses between two jobs.
    pub fn start_slow(urls: Vec<String>, sink: Sink, seed: u64, pause_ms: u64) -> Self {
        let (urls, stop) = (Arc::new(Mutex::new(urls)), Arc::new(AtomicBool::new(false)));
        let thread = std::thread::spawn({
            let (urls, stop) = (urls.clone(), stop.clone());
            move || {
                let mut work = Work { urls, sink, random: SplitMix::new(!seed), created: Created::default() };
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    work.create(&format!("one-off-{n}"), &stop);
                    std::thread::sleep(Duration::from_millis(work.random.next() % pause_ms));
                }
                work.created
            }
        });
        Self { urls, stop, thread }
    }

    /// Asks these from now on.
    pub fn set_urls(&self, urls: Vec<String>) {
        *self.urls.lock().unwrap() = urls;
    }

    /// Ends it. What was not acknowledged by then is forgotten.
    pub fn stop(self) -> Created {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the creator lives")
    }
}

struct Work {
    urls: Arc<Mutex<Vec<String>>>,
    sink: Sink,
    random: SplitMix,
    created: Created,
}

impl Work {
    /// Creates one job, due soon, and looks whether it is there.
    fn create(&mut self, name: &str, stop: &AtomicBool) {
        let at_ms = now_ms() + 20 + (self.random.next() % 1_500) as i64;
        let at = campanile_model::Timestamp::from_millis(at_ms).to_string();
        let body = json!({
            "name": name, "schedule": { "at": at, "allow_past": true }, "action": webhook(&self.sink, "/fast"),
            "retry_policy": retry(), "catch_up": catch_up(),
        });
        while !stop.load(Ordering::Relaxed) {
            let key = [("idempotency-key", name)];
            let answer = http_within(ANSWER_MAX, "POST", &self.url("/v1/jobs"), &key, Some(&body));
            *self.created.statuses.entry(answer.status).or_default() += 1;
            if answer.status == 201 {
                let id = answer.body["id"].as_str().unwrap().to_owned();
                // An instant that had passed when it was accepted means at once.
                let created_at_ms = ms(&answer.body["created_at"]);
                let due = Due::At(at_ms.max(created_at_ms));
                self.read(&id);
                self.created.known.push(Known { id, name: name.to_owned(), due, created_at_ms });
                return;
            }
            std::thread::sleep(AGAIN);
        }
    }

    /// Reads a job that was acknowledged, from any node.
    fn read(&mut self, id: &str) {
        let answer = http_within(ANSWER_MAX, "GET", &self.url(&format!("/v1/jobs/{id}")), &[], None);
        *self.created.statuses.entry(answer.status).or_default() += 1;
    }

    /// A path of any of the servers.
    fn url(&self, path: &str) -> String {
        loop {
            let urls = self.urls.lock().unwrap();
            if !urls.is_empty() {
                return format!("{}{path}", urls[self.random.next() as usize % urls.len()]);
            }
            drop(urls);
            std::thread::sleep(AGAIN);
        }
    }
}
