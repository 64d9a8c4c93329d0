//! Real nodes in networks of their own, and everything that can be done to them: killed, stopped, restarted, cut off
//! one way or both, with a database that crashes, a clock that jumps and a disk that is slow.
//!
//! `cargo xtask chaos` runs this and has the recording judged by `campanile-check`. The order of faults comes from a
//! seed. Needs root, and the programs ip, nft, strace and faketime's library; the task installs what is missing. By
//! hand:
//!
//! ```sh
//! CAMPANILE_CHAOS_STORE=postgres CAMPANILE_CHAOS_SEED=1 CAMPANILE_CHAOS_SECONDS=60 CAMPANILE_CHAOS_DIR=/tmp/chaos \
//!     cargo test -p campanile --test chaos -- --ignored --nocapture
//! ```

#![allow(clippy::disallowed_methods, reason = "a test of the real thing lives in real time")]

mod common;

use campanile_model::random::{Random, SplitMix};
use campanile_testkit::postgres::private::PrivatePostgres;
use common::cluster::{name, view_at, wait_even};
use common::judge::{number, settle};
use common::net::{Cut, Net};
use common::record::{
    Client, Nodes, Recorder, RecordingSink, SCHEMA, cancel, change, created_at, creation, dump, from_now, run, update,
};
use common::{Server, Signal, eventually};
use serde_json::json;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nodes on PostgreSQL; the place after theirs is the database's.
const NODES: usize = 3;
const RECURRING: usize = 24;
/// Clients that create.
const CREATORS: u64 = 3;
/// How long a fault may take until it is seen to work.
const BITE_MAX: Duration = Duration::from_secs(15);
/// How long everything is well before it ends: longer than the checker lets it take to be well.
const HEALED: Duration = Duration::from_secs(16);
/// What each node is asked when all is well.
const HEALED_OPS: usize = 12;
/// Where packages put the library that makes clocks lie.
const FAKETIME: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
];

#[test]
#[ignore = "needs root and minutes: `cargo xtask chaos` runs it, and judges what it recorded"]
fn chaos() {
    let seed = number("CAMPANILE_CHAOS_SEED", 1);
    let seconds = number("CAMPANILE_CHAOS_SECONDS", 60);
    let is_embedded = std::env::var("CAMPANILE_CHAOS_STORE").is_ok_and(|store| store == "embedded");
    let dir = std::env::var_os("CAMPANILE_CHAOS_DIR")
        .map_or_else(|| std::env::temp_dir().join("campanile-chaos"), PathBuf::from);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder for the recording");
    eprintln!("seed {seed}, {seconds} s, {}", if is_embedded { "embedded" } else { "PostgreSQL" });

    let harness = Recorder::new(&dir, "harness");
    harness.write("run", json!({ "schema": SCHEMA, "seed": seed }));
    let mut site = Site::start(&dir, is_embedded, harness.clone());
    let sink = RecordingSink::start(Recorder::new(&dir, "sink"), &site.net.host());
    let load = Load::start(&dir, site.targets.clone(), &sink, seed);
    std::thread::sleep(Duration::from_secs(3));

    let random = SplitMix::new(seed);
    let until = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < until {
        site.harm(&random);
        std::thread::sleep(Duration::from_millis(300 + random.next() % 1_500));
    }
    site.tell("healed");
    let nodes = site.all();
    eventually(Duration::from_secs(60), "all nodes answer", || nodes.iter().all(|node| view_at(node.url()).is_some()));
    if !is_embedded {
        eprintln!("the shards are shared evenly after {:?}", wait_even(nodes[0], &names_of(&nodes)));
    }
    std::thread::sleep(HEALED);
    let client = load.stop(&nodes);
    let names = names_of(&nodes);
    settle(nodes[0]);
    // The depth of the queue is an estimate that is made anew at least every ten seconds, when somebody asks. If it
    // stays, the checker says so.
    let looked = Instant::now();
    while nodes[0].get("/v1/status")["queue_depth"] != 0 && looked.elapsed() < BITE_MAX {
        std::thread::sleep(Duration::from_millis(100));
    }
    dump(nodes[0], &names, &harness);
    assert!(site.faults > 0, "nothing was done to anybody");
    eprintln!("{} faults, {} jobs acknowledged; recorded in {}", site.faults, client, dir.display());
}

fn names_of(nodes: &[&Server]) -> Vec<String> {
    nodes.iter().map(|node| name(node)).collect()
}

/// What clients do meanwhile.
struct Load {
    is_over: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<usize>>,
    recurring: Vec<String>,
    client: Client,
}

impl Load {
    fn start(dir: &Path, nodes: Nodes, sink: &RecordingSink, seed: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let client = Client::new(Recorder::new(dir, "operator"), nodes.clone(), seed);
        let recurring = (0..RECURRING).map(|n| {
            let path = ["/fast", "/fast", "/slow", "/flaky"][n % 4];
            let every_ms = [500, 1_000, 1_000][n % 3];
            let schedule = json!({ "type": "EVERY", "every_ms": every_ms, "phase_ms": 0 });
            let question = creation(&format!("recurring-{n}"), &schedule, &sink.url(&format!("{path}?0")));
            let answer = client.ask_until(&question, || false).expect("an answer");
            assert_eq!(answer.status, 201, "{answer:?}");
            answer.body["id"].as_str().expect("an id").to_owned()
        });
        let recurring: Vec<String> = recurring.collect();
        let editor = {
            let client = Client::new(Recorder::new(dir, "editor"), nodes.clone(), seed ^ 0xED17);
            let (sink, is_over, jobs) = (sink.clone(), is_over.clone(), recurring.clone());
            std::thread::spawn(move || edit(&client, &jobs, &sink, &is_over))
        };
        let creators = (0..CREATORS).map(|n| {
            let client = Client::new(Recorder::new(dir, &format!("client-{n}")), nodes.clone(), seed ^ (n + 1) << 32);
            let (sink, is_over) = (sink.clone(), is_over.clone());
            std::thread::spawn(move || create(&client, n, &sink, &is_over))
        });
        let threads = creators.chain([editor]).collect();
        Self { is_over, threads, recurring, client }
    }

    /// Ends it: what fires again and again is paused, and every node has answered. How many jobs were acknowledged.
    fn stop(self, nodes: &[&Server]) -> usize {
        self.is_over.store(true, Ordering::Relaxed);
        let created: usize = self.threads.into_iter().map(|thread| thread.join().expect("a client lives")).sum();
        for (node, job) in
            nodes.iter().flat_map(|node| self.recurring.iter().take(HEALED_OPS).map(move |job| (node, job)))
        {
            self.client.read_at(&name(node), node.url(), "job", job);
        }
        for job in &self.recurring {
            let paused = self.client.ask_until(&change("pause", job, None), || false).expect("an answer");
            assert_eq!(paused.status, 200, "{paused:?}");
        }
        created + self.recurring.len()
    }
}

/// Pauses, resumes and defines anew some of the jobs that fire again and again, close to their instants or not. Creates none.
fn edit(client: &Client, jobs: &[String], sink: &RecordingSink, is_over: &AtomicBool) -> usize {
    let over = || is_over.load(Ordering::Relaxed);
    for k in 1.. {
        if over() {
            break;
        }
        // Every third one is left alone.
        let n = client.random.next() as usize % jobs.len() / 3 * 3;
        let (job, name, key) = (&jobs[n], format!("recurring-{n}"), format!("edit-{k}"));
        let question = match client.random.next() % 4 {
            0 => change("pause", job, Some(key)),
            1 | 2 => change("resume", job, Some(key)),
            _ => {
                let schedule = json!({ "type": "EVERY", "every_ms": 500, "phase_ms": client.random.next() % 5 * 100 });
                update((job, &name), &schedule, &sink.url(&format!("/fast?{k}")), &key)
            }
        };
        drop(client.ask_until(&question, over));
        std::thread::sleep(Duration::from_millis(client.random.next() % 200));
    }
    0
}

/// Creates one-offs, and a job to be run by hand; cancels some, runs some, reads some. How many were acknowledged.
fn create(client: &Client, n: u64, sink: &RecordingSink, is_over: &AtomicBool) -> usize {
    let over = || is_over.load(Ordering::Relaxed);
    let by_hand = creation(&format!("by-hand-{n}"), &json!({ "type": "NONE" }), &sink.url("/fast"));
    let by_hand =
        client.ask_until(&by_hand, || false).expect("an answer").body["id"].as_str().expect("an id").to_owned();
    let mut acknowledged = 1;
    for k in 0.. {
        if over() {
            break;
        }
        let at_ms = from_now(200 + (client.random.next() % 2_500) as i64);
        let question = creation(&format!("one-off-{n}-{k}"), &json!({ "type": "AT", "at": at_ms }), &sink.url("/fast"));
        let Some(answer) = client.ask_until(&question, over) else { break };
        assert_eq!(answer.status, 201, "{answer:?}");
        acknowledged += 1;
        let job = answer.body["id"].as_str().expect("an id").to_owned();
        match client.random.next() % 20 {
            // One that was in the past is due at once.
            0 => {
                drop(client.ask_until(&cancel(&job, at_ms.max(created_at(&answer)), &format!("cancel-{n}-{k}")), over))
            }
            1 => {
                let ran = client.ask_until(&run(&by_hand, &format!("run-{n}-{k}")), over);
                if let Some(id) = ran.as_ref().and_then(|answer| answer.body["id"].as_str()) {
                    client.read("execution", id);
                }
            }
            2..6 => drop(client.read("job", &job)),
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(client.random.next() % 50));
    }
    acknowledged
}

/// The nodes, their database and their network.
struct Site {
    // Dropped in this order: the network last.
    nodes: Vec<Option<Server>>,
    postgres: Option<PrivatePostgres>,
    net: Net,
    dir: PathBuf,
    targets: Nodes,
    harness: Arc<Recorder>,
    /// The library that makes the first node's clock lie.
    faketime: Option<&'static str>,
    starts: usize,
    faults: usize,
    started: Instant,
    /// Epochs that were seen, so that each is told once.
    epochs: HashSet<(u16, u64)>,
    /// What comes next: every kind once before any comes again.
    deck: Vec<Kind>,
}

/// What can be done.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Kind {
    Kill(usize),
    Restart(usize),
    Stop(usize),
    /// A node and the database, or the clients where there is none.
    Cut(usize, Ways),
    Crash,
    Clock(i64),
    SlowSync,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Ways {
    Both,
    Out,
    In,
}

/// What must be undone.
struct Harm {
    kind: Kind,
    id: String,
    cut: Option<Cut>,
    strace: Option<Child>,
}

impl Site {
    fn start(dir: &Path, is_embedded: bool, harness: Arc<Recorder>) -> Self {
        let count = if is_embedded { 1 } else { NODES };
        let net = Net::new(count + 1);
        let place = net.place(count);
        let postgres = (!is_embedded).then(|| PrivatePostgres::start_at(&place.words, &place.address));
        let faketime = FAKETIME.into_iter().find(|path| Path::new(path).exists()).filter(|_| !is_embedded);
        assert!(is_embedded || faketime.is_some(), "the library of faketime is in none of {FAKETIME:?}: install it");
        let mut site = Self {
            nodes: (0..count).map(|_| None).collect(),
            postgres,
            net,
            dir: dir.to_owned(),
            targets: Arc::default(),
            harness,
            faketime,
            starts: 0,
            faults: 0,
            started: Instant::now(),
            epochs: HashSet::new(),
            deck: Vec::new(),
        };
        std::fs::write(site.clock_file(), "+0").expect("a clock");
        (0..count).for_each(|n| site.node(n));
        if !is_embedded {
            wait_even(site.all()[0], &names_of(&site.all()));
        }
        site
    }

    fn tell(&self, what: &str) {
        eprintln!("{:7.2} s  {what}", self.started.elapsed().as_secs_f64());
    }

    fn all(&self) -> Vec<&Server> {
        self.nodes.iter().flatten().collect()
    }

    fn clock_file(&self) -> PathBuf {
        self.dir.join("clock")
    }

    /// Starts a node in its place. One that cannot reach its database yet tries again.
    fn node(&mut self, n: usize) {
        self.starts += 1;
        // Embedded, it comes back to its own file; on PostgreSQL a node keeps nothing.
        let store = self.postgres.as_ref().map(|postgres| format!("{}?sslmode=disable", postgres.url()));
        let data = if store.is_some() { format!("node-{n}-{}", self.starts) } else { "node".into() };
        let clock = self.clock_file();
        let mut environment = vec![
            ("CAMPANILE_ACTIONS_ALLOW_PRIVATE_TARGETS", "true"),
            ("CAMPANILE_ACTIONS_ALLOW_PLAIN_HTTP", "true"),
            ("CAMPANILE_SERVER_INSECURE_NO_AUTH", "true"),
            ("CAMPANILE_STORE_ALLOW_PLAINTEXT", "true"),
        ];
        if let Some(library) = self.faketime.filter(|_| n == 0) {
            environment.extend([
                ("LD_PRELOAD", library),
                ("FAKETIME_TIMESTAMP_FILE", clock.to_str().expect("a path of ours")),
                ("FAKETIME_CACHE_DURATION", "1"),
                ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
                ("FAKETIME_DONT_RESET", "1"),
            ]);
        }
        let args: Vec<&str> = store.iter().flat_map(|url| ["--store", url]).collect();
        let server = Server::try_start_at(&self.net.place(n), "server", &self.dir.join(data), &args, &environment);
        let server = server.unwrap_or_else(|said| panic!("node {n} does not start: {said}"));
        self.tell(&format!("node {n} is process {}", server.pid()));
        self.nodes[n] = Some(server);
        self.renew();
    }

    /// Tells the clients whom to ask, and the recording who owns what.
    fn renew(&mut self) {
        let asked: Vec<(String, String)> =
            self.all().iter().map(|node| (node.data_dir().display().to_string(), node.url().to_owned())).collect();
        let known: Vec<(String, String)> = self.targets.lock().unwrap().clone();
        let mut targets = Vec::new();
        for (_, url) in asked {
            // Names are asked for once: a node that stands still cannot tell its own.
            let old = known.iter().find(|(_, known)| *known == url).map(|(name, _)| name.clone());
            let told = || common::http_within(Duration::from_secs(2), "GET", &format!("{url}/v1/status"), &[], None);
            let name = old.or_else(|| told().body["node"].as_str().map(str::to_owned));
            targets.extend(name.map(|name| (name, url)));
        }
        *self.targets.lock().unwrap() = targets;
    }

    fn note_epochs(&mut self) {
        let seen = self.all().iter().find_map(|node| view_at(node.url()));
        for shard in seen.into_iter().flat_map(|view| view.shards) {
            if self.epochs.insert((shard.shard, shard.epoch)) {
                let fields = json!({ "shard": shard.shard, "epoch": shard.epoch, "owner": shard.owner });
                self.harness.write("epoch", fields);
            }
        }
    }

    /// One fault, or two at a time; then everything is put right again.
    fn harm(&mut self, random: &SplitMix) {
        let mut kinds = vec![self.choose(random)];
        if random.next().is_multiple_of(3) {
            let second = self.choose(random);
            if !clash(kinds[0], second) {
                kinds.push(second);
            }
        }
        let mut harms: Vec<Harm> = kinds.into_iter().map(|kind| self.begin(kind)).collect();
        std::thread::sleep(Duration::from_millis(500 + random.next() % 4_000));
        // The network and the database first: nodes need them to start.
        harms.sort_by_key(|harm| matches!(harm.kind, Kind::Kill(_) | Kind::Restart(_)));
        harms.into_iter().for_each(|harm| self.end(harm));
        if self.postgres.is_some() {
            self.note_epochs();
        }
    }

    /// The next of the deck, which is shuffled again when it is used up.
    fn choose(&mut self, random: &SplitMix) -> Kind {
        if self.deck.is_empty() {
            let node = || random.next() as usize % self.nodes.len();
            let mut deck = vec![Kind::Kill(node()), Kind::Kill(node()), Kind::Stop(node()), Kind::Stop(node())];
            deck.extend([Kind::Restart(node()), Kind::SlowSync]);
            deck.extend([Ways::Both, Ways::Out, Ways::In].map(|ways| Kind::Cut(node(), ways)));
            if self.postgres.is_some() {
                let ms = [2_000, 60_000, 3_600_000][random.next() as usize % 3];
                deck.extend([Kind::Crash, Kind::Clock(ms), Kind::Clock(-ms)]);
            }
            for last in (1..deck.len()).rev() {
                deck.swap(last, random.next() as usize % (last + 1));
            }
            self.deck = deck;
        }
        self.deck.pop().expect("it was filled")
    }

    /// Does it, and sees that it works.
    fn begin(&mut self, kind: Kind) -> Harm {
        self.faults += 1;
        let id = format!("{}", self.faults);
        self.tell(&format!("fault {id}: {kind:?}"));
        let mut harm = Harm { kind, id, cut: None, strace: None };
        self.write(&harm, "begin");
        match kind {
            Kind::Kill(n) => {
                self.nodes[n].take().expect("it is there").kill_9();
                self.renew();
            }
            Kind::Restart(n) => {
                let node = self.nodes[n].take().expect("it is there");
                // Clients keep asking it while it drains.
                let ended = node.stop_term();
                self.tell(&format!("node {n} ended: {ended}"));
                self.renew();
            }
            Kind::Stop(n) => {
                let node = self.nodes[n].as_ref().expect("it is there");
                node.signal(Signal::STOP);
                let stat = format!("/proc/{}/stat", node.pid());
                eventually(BITE_MAX, "it stands still", || {
                    std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
                });
            }
            Kind::Cut(n, ways) => {
                let (here, there) = (self.net.address(n), self.other_side());
                let (out, into) = ((here.as_str(), there.as_str()), (there.as_str(), here.as_str()));
                let cut = match ways {
                    Ways::Both => self.net.cut(&harm.id, &[out, into]),
                    Ways::Out => self.net.cut(&harm.id, &[out]),
                    Ways::In => self.net.cut(&harm.id, &[into]),
                };
                eventually(BITE_MAX, "packets are dropped", || self.net.dropped(&cut) > 0);
                harm.cut = Some(cut);
            }
            Kind::Crash => {
                let postgres = self.postgres.as_mut().expect("it is there");
                postgres.stop_immediate();
                assert!(postgres.pid().is_none_or(|pid| !Path::new(&format!("/proc/{pid}")).exists()), "it still runs");
            }
            Kind::Clock(jump_ms) => self.jump(jump_ms),
            Kind::SlowSync => harm.strace = Some(self.slow_syncs(&harm.id)),
        }
        self.write(&harm, "verified");
        harm
    }

    /// Undoes it.
    fn end(&mut self, harm: Harm) {
        match harm.kind {
            Kind::Kill(n) | Kind::Restart(n) => self.node(n),
            Kind::Stop(n) => self.nodes[n].as_ref().expect("it is there").signal(Signal::CONT),
            Kind::Cut(..) => self.net.heal(harm.cut.as_ref().expect("it was cut")),
            Kind::Crash => self.postgres.as_mut().expect("it is there").restart_immediate(Duration::ZERO),
            Kind::Clock(_) => self.jump(0),
            Kind::SlowSync => {}
        }
        if let Some(mut strace) = harm.strace.as_ref().map(Child::id).zip(harm.strace) {
            // Asked to end, it lets go; killed, it would leave whom it traces stopped.
            common::net::must(&["kill", "-INT", &strace.0.to_string()]);
            let _ = strace.1.wait();
        }
        self.write(&Harm { kind: harm.kind, id: harm.id.clone(), cut: None, strace: None }, "end");
        self.tell(&format!("fault {} is over", harm.id));
    }

    fn write(&self, harm: &Harm, phase: &str) {
        let (kind, target) = match harm.kind {
            Kind::Kill(n) => ("kill", format!("node {n}")),
            Kind::Restart(n) => ("restart", format!("node {n}")),
            Kind::Stop(n) => ("stop", format!("node {n}")),
            Kind::Cut(n, ways) => ("partition", format!("node {n}, {ways:?}")),
            Kind::Crash => ("crash", "database".into()),
            Kind::Clock(jump_ms) => ("clock", format!("node 0, {jump_ms} ms")),
            Kind::SlowSync => ("slow-sync", self.slow_target().into()),
        };
        self.harness.write("fault", json!({ "phase": phase, "fault": harm.id, "kind": kind, "target": target }));
    }

    /// Whom nodes are cut off from: their database, or where there is none the world.
    fn other_side(&self) -> String {
        if self.postgres.is_some() { self.net.address(self.nodes.len()) } else { self.net.host() }
    }

    /// Makes the first node's clock wrong by so much, and waits until the node knows.
    fn jump(&self, by_ms: i64) {
        std::fs::write(self.clock_file(), format!("{:+}", by_ms as f64 / 1_000.0)).expect("a clock");
        let Some(node) = &self.nodes[0] else { return };
        let me = self.targets.lock().unwrap().iter().find(|(_, url)| url == node.url()).map(|(name, _)| name.clone());
        eventually(BITE_MAX, "the clock is wrong", || {
            let told =
                common::http_within(Duration::from_secs(2), "GET", &format!("{}/v1/cluster", node.url()), &[], None);
            let members = told.body["nodes"].as_array().cloned().unwrap_or_default();
            let mine = members.iter().find(|member| member["node"].as_str() == me.as_deref());
            let offset_ms = mine.and_then(|member| member["clock_offset_ms"].as_i64());
            offset_ms.is_some_and(|offset| (offset - by_ms).abs() < 500)
        });
    }

    fn slow_target(&self) -> &'static str {
        if self.postgres.is_some() { "database" } else { "node 0" }
    }

    /// Every sync takes a fifth of a second longer.
    fn slow_syncs(&self, id: &str) -> Child {
        let pids = match &self.postgres {
            Some(postgres) => {
                let pid = postgres.pid().expect("it runs").to_string();
                let children = common::net::must(&["pgrep", "-P", &pid]);
                [&pid[..], children.trim()].join("\n").replace('\n', ",")
            }
            None => self.nodes[0].as_ref().expect("it is there").pid().to_string(),
        };
        let log = self.dir.join(format!("strace-{id}"));
        let mut strace = Command::new("strace");
        strace.args(["-f", "-q", "-p", &pids, "-e", "trace=fsync,fdatasync", "-o"]).arg(&log);
        strace.args(["-e", "inject=fsync,fdatasync:delay_enter=200000"]);
        let strace = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let strace = strace.expect("strace runs: `cargo xtask chaos` installs it");
        eventually(BITE_MAX, "syncs are slow", || {
            std::fs::read_to_string(&log).is_ok_and(|seen| seen.contains("(DELAYED)"))
        });
        strace
    }
}

/// Whether two faults cannot be told apart, or not be undone, at the same time.
fn clash(a: Kind, b: Kind) -> bool {
    let node = |kind: Kind| match kind {
        Kind::Kill(n) | Kind::Restart(n) | Kind::Stop(n) | Kind::Cut(n, _) => Some(n),
        Kind::Clock(_) => Some(0),
        Kind::Crash | Kind::SlowSync => None,
    };
    let of_store = |kind: Kind| matches!(kind, Kind::Crash | Kind::SlowSync);
    // A clock is known by what the database says, and packets are dropped only while somebody sends.
    let needs_store = |kind: Kind| matches!(kind, Kind::Clock(_) | Kind::Cut(..));
    (node(a).is_some() && node(a) == node(b))
        || (of_store(a) && of_store(b))
        || (a == Kind::Crash && needs_store(b))
        || (b == Kind::Crash && needs_store(a))
        || matches!(
            (a, b),
            (Kind::SlowSync, Kind::Kill(_) | Kind::Restart(_)) | (Kind::Kill(_) | Kind::Restart(_), Kind::SlowSync)
        )
}
