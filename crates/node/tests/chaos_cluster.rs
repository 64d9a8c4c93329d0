//! Three real nodes on one PostgreSQL, and random faults: nodes killed, stopped for a while and asked to stop, all of them killed at
//! once, and the database crashed. Nothing is lost, nothing is early, nothing completes twice.
//!
//! The faults come from a seed, which is printed: `CAMPANILE_CHAOS_SEED` repeats their order (not the machine's timing), and
//! `CAMPANILE_CHAOS_SECONDS` makes the run longer. Every fault is logged with its time.

#![allow(clippy::disallowed_methods, reason = "a test of the real thing lives in real time")]

mod common;

use campanile_model::random::{Random, SplitMix};
use campanile_testkit::postgres::private::PrivatePostgres;
use common::cluster::{Cluster, assert_epochs_grow, counters, load, name, names, urls, view_at, wait_even};
use common::creator::Creator;
use common::judge::{Arrival, finish, number};
use common::{Reply, Server, Signal, Sink, now_ms};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const NODES: usize = 3;
const JOBS: usize = 60;
/// How long at the end everything is well before it is judged.
const HEALED: Duration = Duration::from_secs(3);
/// How often the nodes are asked what they have counted.
const TALLY: Duration = Duration::from_millis(100);

#[test]
fn whatever_happens_nothing_is_lost_and_nothing_completes_twice() {
    let seed = number("CAMPANILE_CHAOS_SEED", now_ms() as u64);
    let seconds = number("CAMPANILE_CHAOS_SECONDS", 45);
    eprintln!("CAMPANILE_CHAOS_SEED={seed} CAMPANILE_CHAOS_SECONDS={seconds}");
    let sink = Sink::start();
    sink.reply("/slow", Reply::after(Duration::from_millis(300)));
    let postgres = PrivatePostgres::start();
    let cluster = Cluster::on(postgres.url());
    let nodes = cluster.nodes(NODES);
    wait_even(&nodes[0], &names(&nodes));
    let mut known = load(&nodes[0], &sink, JOBS);
    let creator = Creator::start(urls(&nodes), sink.clone(), seed);
    let tally = Tally::start(urls(&nodes));

    let started = Instant::now();
    let random = SplitMix::new(seed);
    let (nodes, stopped) = (nodes.into_iter().map(Some).collect(), HashMap::new());
    let mut chaos = Chaos { cluster: &cluster, postgres, nodes, stopped, random, creator, tally, started, faults: 0 };
    while started.elapsed() < Duration::from_secs(seconds) {
        chaos.pass(200 + chaos.random.next() % 1_300);
        chaos.fault();
    }
    chaos.go_on(Instant::now() + Duration::from_secs(3_600));
    chaos.tell("healed");
    let Chaos { nodes, creator, tally, faults, postgres, .. } = chaos;
    let nodes: Vec<Server> = nodes.into_iter().flatten().collect();
    let agreed = wait_even(&nodes[0], &names(&nodes));
    eprintln!("the shards are shared evenly after {agreed:?}");
    std::thread::sleep(HEALED);
    let created = creator.stop();
    eprintln!("{} one-offs; answers {:?}", created.known.len(), created.statuses);
    // What cannot be answered now, or in time, is said to be so; never that something is broken.
    assert_eq!(created.unexpected(&[0, 503, 504]), []);
    known.extend(created.known);
    let verdict = finish(&nodes[0], &sink, &known, Arrival::Zombies);
    let counted = tally.stop();
    eprintln!("{faults} faults; counted by all nodes: {counted:?}");
    let refused = counted.get("epoch_refused").unwrap_or(&0) + counted.get("stale_refused").unwrap_or(&0);
    assert!(verdict.fires as u64 > seconds * JOBS as u64, "{verdict:?}");
    assert!(refused > 0 && verdict.lost_attempts > 0, "the case was not reached: {refused} refusals, {verdict:?}");
    drop((nodes, postgres));
}

/// What is being done to the nodes.
struct Chaos<'a> {
    cluster: &'a Cluster,
    postgres: PrivatePostgres,
    /// None while one is being replaced.
    nodes: Vec<Option<Server>>,
    /// Nodes that stand still, and until when.
    stopped: HashMap<usize, Instant>,
    random: SplitMix,
    creator: Creator,
    tally: Tally,
    started: Instant,
    faults: usize,
}

impl Chaos<'_> {
    fn tell(&self, what: &str) {
        eprintln!("{:7.2} s  {what}", self.started.elapsed().as_secs_f64());
    }

    /// Lets time pass. Those who stand still go on when theirs is over.
    fn pass(&mut self, ms: u64) {
        let until = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < until {
            self.go_on(Instant::now());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn go_on(&mut self, now: Instant) {
        let over: Vec<usize> = self.stopped.iter().filter(|(_, until)| **until <= now).map(|(n, _)| *n).collect();
        for n in over {
            self.stopped.remove(&n);
            self.signal(n, Signal::CONT);
            self.tell(&format!("node {n} goes on"));
        }
    }

    fn signal(&self, n: usize, signal: Signal) {
        self.nodes[n].as_ref().expect("it is there").signal(signal);
    }

    /// Takes a node out of its place, after asking what it has counted.
    fn take(&mut self, n: usize) -> Server {
        let node = self.nodes[n].take().expect("it is there");
        if !self.stopped.contains_key(&n) {
            self.tally.note(node.url());
        }
        node
    }

    fn fault(&mut self) {
        self.faults += 1;
        let victim = self.random.next() as usize % NODES;
        match self.random.next() % 100 {
            0..35 => self.kill(victim),
            35..65 => self.stop(victim),
            65..80 => self.ask_to_stop(victim),
            80..92 => self.crash_postgres(),
            _ => self.kill_all(),
        }
    }

    fn kill(&mut self, n: usize) {
        self.tell(&format!("kill -9 of node {n}"));
        let old = self.take(n);
        self.stopped.remove(&n);
        old.kill_9();
        let pause_ms = self.random.next() % 1_500;
        self.pass(pause_ms);
        self.start(n);
    }

    fn stop(&mut self, n: usize) {
        if self.stopped.contains_key(&n) {
            return;
        }
        let ms = 1_000 + self.random.next() % 7_000;
        self.tell(&format!("node {n} stands still for {ms} ms"));
        self.signal(n, Signal::STOP);
        self.stopped.insert(n, Instant::now() + Duration::from_millis(ms));
    }

    fn ask_to_stop(&mut self, n: usize) {
        self.tell(&format!("node {n} is asked to stop"));
        if self.stopped.remove(&n).is_some() {
            self.signal(n, Signal::CONT);
        }
        let old = self.take(n);
        let status = old.stop_term();
        // One that was stopped and buried before may have lost what it wanted to flush, and says so; it ends in any case.
        self.tell(&format!("node {n} ended: {status}"));
        self.start(n);
    }

    fn crash_postgres(&mut self) {
        let pause_ms = self.random.next() % 2_000;
        self.tell(&format!("PostgreSQL crashes and is away for {pause_ms} ms"));
        self.postgres.restart_immediate(Duration::from_millis(pause_ms));
        self.tell("PostgreSQL is back");
    }

    fn kill_all(&mut self) {
        self.tell("kill -9 of all nodes");
        let old: Vec<Server> = (0..NODES).map(|n| self.take(n)).collect();
        self.stopped.clear();
        old.into_iter().for_each(Server::kill_9);
        let pause_ms = self.random.next() % 1_500;
        std::thread::sleep(Duration::from_millis(pause_ms));
        self.nodes = self.cluster.nodes(NODES).into_iter().map(Some).collect();
        self.renew();
        self.tell("all nodes are back");
    }

    /// Starts a node in this place.
    fn start(&mut self, n: usize) {
        let node = self.cluster.node();
        self.tell(&format!("node {n} is now {}", name(&node)));
        self.nodes[n] = Some(node);
        self.renew();
    }

    fn renew(&self) {
        let urls = urls(self.nodes.iter().flatten());
        self.creator.set_urls(urls.clone());
        self.tally.set_urls(urls);
    }
}

type Counts = BTreeMap<String, u64>;

/// Asks the nodes again and again what they have counted, so that it is known when they are killed; and sees epochs grow.
struct Tally {
    urls: Arc<Mutex<Vec<String>>>,
    /// By address, which is another for every start.
    counts: Arc<Mutex<HashMap<String, Counts>>>,
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Tally {
    fn start(urls: Vec<String>) -> Self {
        let (urls, counts) = (Arc::new(Mutex::new(urls)), Arc::default());
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (urls, counts, stop) = (urls.clone(), Arc::clone(&counts), stop.clone());
            move || {
                let mut seen = None;
                while !stop.load(Ordering::Relaxed) {
                    let now: Vec<String> = urls.lock().unwrap().clone();
                    for url in &now {
                        note(&counts, url);
                    }
                    if let Some(next) = now.iter().find_map(|url| view_at(url)) {
                        if let Some(before) = &seen {
                            assert_epochs_grow(before, &next);
                        }
                        seen = Some(next);
                    }
                    std::thread::sleep(TALLY);
                }
            }
        });
        Self { urls, counts, stop, thread }
    }

    fn set_urls(&self, urls: Vec<String>) {
        *self.urls.lock().unwrap() = urls;
    }

    /// Asks this node now: it is about to end.
    fn note(&self, url: &str) {
        note(&self.counts, url);
    }

    /// The sums over all nodes that ever were.
    fn stop(self) -> Counts {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the tally lives: epochs only grow");
        let mut sums = Counts::new();
        for (name, count) in self.counts.lock().unwrap().values().flatten() {
            *sums.entry(name.clone()).or_default() += count;
        }
        sums.retain(|_, sum| *sum > 0);
        sums
    }
}

fn note(counts: &Mutex<HashMap<String, Counts>>, url: &str) {
    let told = counters(url);
    if !told.is_empty() {
        counts.lock().unwrap().insert(url.to_owned(), told);
    }
}
