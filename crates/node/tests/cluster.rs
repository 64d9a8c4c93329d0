//! Several real nodes on one PostgreSQL: they share the shards, take each other's over, and lose and double nothing.
//!
//! The tests measure times, so they run one after the other; each has a schema of its own and prints what it measured. The bounds
//! are those that are promised, with room for a slow machine. `CAMPANILE_CLUSTER_STOP_SECONDS` is how long a node stands still
//! (12; ten leases are 30).

#![allow(clippy::disallowed_methods, reason = "a test of the real thing lives in real time")]

mod common;

use campanile_model::Timestamp;
use campanile_testkit::postgres::private::PrivatePostgres;
use common::cluster::{
    Cluster, LEAD_MS, SHARDS, Sql, assert_epochs_grow, counter, is_even, jobs_in, lateness_ms, load, name, names,
    shards_of, urls, view, wait_even, wait_fire, wait_taken_over,
};
use common::creator::Creator;
use common::judge::{Arrival, Due, Known, finish, ms, number, webhook};
use common::{Reply, Server, Signal, Sink, eventually, now_ms};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Jobs under load; twice as many fires per second.
const JOBS: usize = 200;
/// How long the load runs before and after a fault.
const CALM: Duration = Duration::from_secs(3);
/// How long it may take until the shards of a node that was killed fire again.
const KILLED_MAX_MS: i64 = 5_000;

/// One test at a time: they measure.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sink() -> Sink {
    let sink = Sink::start();
    // Longer than the shortest interval, so that there are always some under way; but on which node is chance, see `wait_busy`.
    sink.reply("/slow", Reply::after(Duration::from_millis(400)));
    sink
}

/// The last of a sorted list, and its median.
fn worst_and_median(sorted: &[i64]) -> (i64, i64) {
    (sorted.last().copied().unwrap_or(0), sorted.get(sorted.len() / 2).copied().unwrap_or(0))
}

/// How late what was due within a span of time arrived, by the first delivery of each: the worst, in milliseconds. To be asked when
/// everything has arrived.
fn worst_lateness_ms(sink: &Sink, known: &[Known], due_ms: std::ops::Range<i64>) -> i64 {
    let everybody: HashSet<String> = known.iter().map(|job| job.name.clone()).collect();
    let late = lateness_ms(&sink.deliveries(), &everybody, due_ms);
    let (worst, median) = worst_and_median(&late);
    eprintln!("lateness of {} fires around it: median {median} ms, worst {worst} ms", late.len());
    for d in sink.deliveries().iter().filter(|d| d.arrived_at_ms - d.scheduled_at_ms == worst).take(3) {
        let created_at_ms = known.iter().find(|job| job.name == d.job_name).map_or(0, |job| job.created_at_ms);
        let after_ms = d.scheduled_at_ms - created_at_ms;
        eprintln!("  {} was due at {}, {after_ms} ms after its job was created", d.job_name, d.scheduled_at);
    }
    worst
}

#[test]
fn nodes_share_the_shards_evenly_as_they_come_and_go() {
    let _turn = turn();
    let cluster = Cluster::new();
    let nodes = cluster.nodes(3);
    let three = names(&nodes);
    eprintln!("three nodes agree {:?} after the last was ready", wait_even(&nodes[0], &three));
    nodes.iter().for_each(|node| assert!(is_even(&view(node), &three), "all see the same"));
    let before = view(&nodes[0]);

    let fourth = cluster.node();
    let four: Vec<String> = three.iter().cloned().chain([name(&fourth)]).collect();
    eprintln!("a fourth has its part {:?} after it was ready", wait_even(&nodes[1], &four));
    let joined = view(&nodes[2]);
    assert_epochs_grow(&before, &joined);
    let moved = joined.shards.iter().zip(&before.shards).filter(|(after, before)| after.owner != before.owner).count();
    assert!((SHARDS / 4..=SHARDS / 4 + 24).contains(&moved), "{moved} shards moved");
    shown(&nodes[0], &four);

    let leaving = name(&fourth);
    assert!(fourth.stop_term().success());
    eprintln!("three own everything {:?} after the fourth has left", wait_even(&nodes[0], &three));
    let left = view(&nodes[0]);
    assert_epochs_grow(&joined, &left);
    assert!(left.nodes.iter().all(|node| node.node != leaving), "{:?}", left.nodes);
}

/// `cluster status` tells what there is to know.
fn shown(server: &Server, nodes: &[String]) {
    let json = server.cli(&["cluster", "status", "-o", "json"]).code(0).json();
    let listed = json["nodes"].as_array().unwrap();
    assert_eq!(listed.len(), nodes.len(), "{json}");
    for node in listed {
        assert!(nodes.iter().any(|name| node["node"] == name.as_str()), "{node}");
        assert_eq!(node["roles"], json!(["api", "scheduler", "worker"]));
        assert_eq!(node["version"], env!("CARGO_PKG_VERSION"));
        assert!(node["address"].as_str().unwrap().starts_with("127.0.0.1:"), "{node}");
        assert_eq!(node["shards"], SHARDS / nodes.len(), "{node}");
        assert!(node["clock_offset_ms"].as_i64().unwrap().abs() < 100, "one machine has one clock: {node}");
        assert!(node["silent_ms"].as_u64().unwrap() < 3_000, "{node}");
        assert!(node["lag_ms"].is_u64() && node["started_at"].is_string(), "{node}");
    }
    let table = server.cli(&["cluster", "status"]).code(0).stdout;
    assert!(table.starts_with("NODE"), "{table}");
    assert!(nodes.iter().all(|node| table.contains(node.as_str())), "{table}");
    assert!(table.contains("api,scheduler,worker") && table.contains(env!("CARGO_PKG_VERSION")), "{table}");
    let shards = server.cli(&["cluster", "status", "--shards"]).code(0).stdout;
    assert_eq!(shards.lines().count(), SHARDS + 1, "{shards}");
}

#[test]
fn a_job_fires_wherever_it_is_owned_and_runs_anywhere() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    let nodes = cluster.nodes(3);
    wait_even(&nodes[0], &names(&nodes));
    let mut late = Vec::new();
    let mut workers: BTreeMap<String, usize> = BTreeMap::new();
    let create = |n: usize, after_ms: i64| {
        let job = json!({
            "name": format!("one-{n}"), "schedule": { "after": format!("{after_ms}ms") }, "action": webhook(&sink, "/fast"),
        });
        let created = nodes[0].post("/v1/jobs", &job);
        // Acknowledged by one, known to all.
        let path = format!("/v1/jobs/{}", created["id"].as_str().unwrap());
        nodes.iter().for_each(|node| assert_eq!(node.get(&path)["id"], created["id"]));
        ms(&created["created_at"]) + after_ms
    };
    // Those that are due at once show how soon another node hears of a job.
    let due: Vec<i64> = (0..40).map(|n| create(n, if n % 2 == 0 { 50 } else { 700 })).collect();
    sink.wait_for(due.len(), Duration::from_secs(10));
    for (n, due_ms) in due.into_iter().enumerate() {
        let name = format!("one-{n}");
        let delivery = sink.deliveries().into_iter().find(|d| d.job_name == name).expect("delivered");
        assert_eq!(delivery.scheduled_at_ms, due_ms);
        late.push(delivery.arrived_at_ms - due_ms);
        let executions = || nodes.iter().map(|node| node.executions(&name)).collect::<Vec<_>>();
        eventually(Duration::from_secs(5), "all nodes tell of its success", || {
            executions().iter().all(|seen| seen.len() == 1 && seen[0]["state"] == "SUCCEEDED")
        });
        let seen = executions();
        assert!(seen.iter().all(|other| other == &seen[0]), "{seen:?}");
        *workers.entry(seen[0][0]["worker"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    late.sort_unstable();
    let (worst, median) = worst_and_median(&late);
    eprintln!("lateness of new jobs: median {median} ms, worst {worst} ms; run by {workers:?}");
    assert!(worst < 1_000, "{late:?}");
    assert!(workers.len() > 1, "one node ran everything: {workers:?}");
}

#[test]
fn shards_of_a_killed_node_fire_again_within_seconds() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    let mut nodes = cluster.nodes(3);
    wait_even(&nodes[0], &names(&nodes));
    let known = load(&nodes[0], &sink, JOBS);
    std::thread::sleep(CALM);
    let victim = nodes.remove(2);
    let (before, victim_name) = (view(&nodes[0]), name(&victim));
    let jobs = jobs_in(&known, &shards_of(&before, &victim_name));
    let sql = cluster.sql();
    wait_busy(&sql, &victim_name);
    let killed_at_ms = now_ms();
    victim.kill_9();
    let held = held_by(&sql, &victim_name);
    let owned = wait_taken_over(&nodes[0], &victim_name);
    let after = view(&nodes[0]);
    assert_epochs_grow(&before, &after);
    // Later than what it had made durable ahead of its time.
    let fired_ms = wait_fire(&sink, &jobs, killed_at_ms, killed_at_ms + LEAD_MS + 50);
    eprintln!("kill -9: all shards owned after {owned:?}, the first fire of them arrived after {fired_ms} ms");
    assert!(owned.as_millis() < KILLED_MAX_MS as u128, "{owned:?}");
    assert!(fired_ms < KILLED_MAX_MS, "{fired_ms} ms");
    std::thread::sleep(CALM);
    let verdict = finish(&nodes[0], &sink, &known, Arrival::InOrder);
    assert!(verdict.fires > 1_000, "{verdict:?}");
    assert!(held > 0 && verdict.lost_attempts >= held, "it held {held} attempts: {verdict:?}");
    // Also what it had taken to run, of whichever shard.
    let worst_ms = worst_lateness_ms(&sink, &known, killed_at_ms - 1_000..killed_at_ms + 4_000);
    assert!(worst_ms < KILLED_MAX_MS, "{worst_ms} ms");
}

#[test]
fn a_node_that_is_asked_to_stop_hands_over_at_once() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    let mut nodes = cluster.nodes(3);
    wait_even(&nodes[0], &names(&nodes));
    let known = load(&nodes[0], &sink, JOBS);
    std::thread::sleep(CALM);
    let leaving = nodes.remove(1);
    let (before, leaving_name) = (view(&nodes[0]), name(&leaving));
    let asked_at_ms = now_ms();
    let (handed_over, stopped) = std::thread::scope(|scope| {
        let asked = Instant::now();
        let stopping = scope.spawn(move || (leaving.stop_term(), asked.elapsed()));
        let handed_over = wait_taken_over(&nodes[0], &leaving_name);
        let (status, stopped) = stopping.join().expect("no panic");
        assert!(status.success(), "{status:?}");
        (handed_over, stopped)
    });
    assert_epochs_grow(&before, &view(&nodes[0]));
    eprintln!("SIGTERM: shards have new owners after {handed_over:?}, the process ended after {stopped:?}");
    assert!(handed_over < Duration::from_secs(1), "{handed_over:?}");
    std::thread::sleep(CALM);
    let verdict = finish(&nodes[0], &sink, &known, Arrival::InOrder);
    assert_eq!(verdict.lost_attempts, 0, "what ran had its time: {verdict:?}");
    let worst_ms = worst_lateness_ms(&sink, &known, asked_at_ms - 1_000..asked_at_ms + 3_000);
    assert!(worst_ms < 1_500, "{worst_ms} ms");
}

#[test]
fn a_client_that_hangs_does_not_hold_the_hand_over_up() {
    let _turn = turn();
    let cluster = Cluster::new();
    let nodes = cluster.nodes(2);
    wait_even(&nodes[0], &names(&nodes));
    let leaving = name(&nodes[0]);
    let mut client = TcpStream::connect(nodes[0].url().trim_start_matches("http://")).unwrap();
    let head = "POST /v1/jobs HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\
                expect: 100-continue\r\n\r\n";
    client.write_all(head.as_bytes()).unwrap();
    // The node asks for the body once it reads it. A connection that nobody has read from is closed when the node
    // stops, and that would be right.
    let mut go_on = [0; "HTTP/1.1 100 Continue\r\n\r\n".len()];
    client.read_exact(&mut go_on).unwrap();
    assert!(go_on.starts_with(b"HTTP/1.1 100"), "{}", String::from_utf8_lossy(&go_on));
    client.write_all(b"{").unwrap();
    nodes[0].signal(Signal::TERM);
    let took = wait_taken_over(&nodes[1], &leaving);
    eprintln!("taken over {took:?} after the signal, with a request that never ends");
    // It still waits for the rest of the request: the API has not drained.
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let answer = client.read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(answer, Err(ErrorKind::WouldBlock), "the node is still there");
}

#[test]
fn a_node_that_stood_still_is_refused_and_joins_again() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    let nodes = cluster.nodes(3);
    let all = names(&nodes);
    wait_even(&nodes[0], &all);
    let known = load(&nodes[0], &sink, JOBS);
    std::thread::sleep(CALM);
    let (victim, before) = (&nodes[2], view(&nodes[0]));
    let jobs = jobs_in(&known, &shards_of(&before, &all[2]));
    let sql = cluster.sql();
    wait_busy(&sql, &all[2]);
    let stopped_at_ms = now_ms();
    victim.signal(Signal::STOP);
    let held = held_by(&sql, &all[2]);
    let owned = wait_taken_over(&nodes[0], &all[2]);
    let fired_ms = wait_fire(&sink, &jobs, stopped_at_ms, stopped_at_ms + LEAD_MS + 50);
    // While it stands still, not when it comes back: somebody else tries again what it had begun.
    eventually(Duration::from_secs(5), "its attempts are lost", || running_on(&sql, &all[2]) == 0);
    let lost_ms = now_ms() - stopped_at_ms;
    let stop_ms = number("CAMPANILE_CLUSTER_STOP_SECONDS", 12) * 1_000;
    let stood_ms = (now_ms() - stopped_at_ms) as u64;
    std::thread::sleep(Duration::from_millis(stop_ms.saturating_sub(stood_ms)));
    victim.signal(Signal::CONT);
    let back = wait_even(&nodes[0], &all);
    assert_epochs_grow(&before, &view(&nodes[0]));
    eprintln!(
        "SIGSTOP: all shards owned after {owned:?}, the first fire of them arrived after {fired_ms} ms; \
         its {held} attempts were lost after {lost_ms} ms; it had its part again {back:?} after it went on"
    );
    assert!(owned.as_millis() < KILLED_MAX_MS as u128, "{owned:?}");
    assert!(fired_ms < KILLED_MAX_MS, "{fired_ms} ms");
    std::thread::sleep(CALM);
    assert_refused(&nodes, 2);
    let verdict = finish(&nodes[0], &sink, &known, Arrival::Zombies);
    assert!(held > 0 && verdict.lost_attempts >= held, "it held {held} attempts: {verdict:?}");
    worst_lateness_ms(&sink, &known, stopped_at_ms - 1_000..stopped_at_ms + 4_000);
}

/// Waits until a node runs attempts that go on for a while: a burst runs where it is received, so a node may well have none.
fn wait_busy(sql: &Sql, node: &str) {
    eventually(Duration::from_secs(10), "the node runs something slow", || {
        let now = now_ms();
        // Older than any quick one gets, and with enough left of what a slow one takes.
        let slow = format!(
            "SELECT count(*) FROM executions WHERE state = 2 AND worker = '{node}' AND started_at BETWEEN {} AND {}",
            now - 200,
            now - 50
        );
        sql.run(&slow)[0][0] != "0"
    });
}

/// How many attempts a node has that was just killed or stopped: it cannot end them any more.
fn held_by(sql: &Sql, node: &str) -> usize {
    // What the server had received of it by then is done; and nobody is declared dead so soon.
    std::thread::sleep(Duration::from_millis(100));
    running_on(sql, node)
}

/// How many attempts a node runs, as the store has it.
fn running_on(sql: &Sql, node: &str) -> usize {
    let count = format!("SELECT count(*) FROM executions WHERE state = 2 AND worker = '{node}'");
    sql.run(&count)[0][0].parse().expect("a number")
}

/// What a node wanted to write after it had lost everything was refused, and somebody counted that; or nothing could be written
/// at all, because its sessions had been ended.
fn assert_refused(nodes: &[Server], victim: usize) {
    let names = ["epoch_refused", "stale_refused", "store_errors"];
    let [epochs, stale, errors] = names.map(|name| counter(&nodes[victim], name));
    let buried = nodes.iter().enumerate().any(|(n, node)| n != victim && node.log().contains("a node is dead"));
    eprintln!("the node counts {epochs} fires and {stale} outcomes refused, {errors} errors; declared dead: {buried}");
    assert!(epochs + stale > 0 || (buried && errors > 0), "nothing was refused: {}", nodes[victim].log());
}

#[test]
fn a_node_that_stood_still_within_a_fire_holds_nobody_up() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    let nodes = cluster.nodes(3);
    let all = names(&nodes);
    wait_even(&nodes[0], &all);
    let known = load(&nodes[0], &sink, JOBS);
    std::thread::sleep(CALM);
    let (victim, before) = (&nodes[2], view(&nodes[0]));
    let jobs = jobs_in(&known, &shards_of(&before, &all[2]));
    let (holder, watcher) = (cluster.sql(), cluster.sql());
    // Fires wait for this lock after they have locked their epochs.
    holder.run("BEGIN; LOCK TABLE executions IN EXCLUSIVE MODE");
    let firing = wait_within_fire(&watcher, &all[2]);
    victim.signal(Signal::STOP);
    let stopped_at_ms = now_ms();
    holder.run("COMMIT");
    eventually(Duration::from_secs(3), "the server has done its part of the fire", || {
        let state = watcher.run(&format!("SELECT state FROM pg_stat_activity WHERE pid = {firing}"));
        state.first().is_some_and(|row| row[0] == "idle in transaction")
    });
    let owned = wait_taken_over(&nodes[0], &all[2]);
    let fired_ms = wait_fire(&sink, &jobs, stopped_at_ms, stopped_at_ms + LEAD_MS + 50);
    eprintln!("stopped within a fire: all shards owned after {owned:?}, the first fire arrived after {fired_ms} ms");
    let open = watcher.run(&format!("SELECT state FROM pg_stat_activity WHERE pid = {firing}"));
    assert!(open.is_empty(), "its transaction is still open: {open:?}");
    assert!(owned < Duration::from_secs(8) && fired_ms < 8_000, "{owned:?}, {fired_ms} ms");
    std::thread::sleep(CALM);
    victim.signal(Signal::CONT);
    wait_even(&nodes[0], &all);
    assert_epochs_grow(&before, &view(&nodes[0]));
    std::thread::sleep(CALM);
    assert_refused(&nodes, 2);
    finish(&nodes[0], &sink, &known, Arrival::Zombies);
    worst_lateness_ms(&sink, &known, stopped_at_ms - 1_000..stopped_at_ms + 4_000);
}

/// Waits until a session of this node is held up within a fire. Its process id.
fn wait_within_fire(sql: &Sql, node: &str) -> String {
    // The end of the name is what tells nodes apart; PostgreSQL cuts long ones.
    let end: String = node.chars().skip(node.chars().count().saturating_sub(20)).collect();
    let sessions = format!(
        "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'campanile %{end}' \
         AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO executions%'"
    );
    let mut found = None;
    eventually(Duration::from_secs(5), "a fire waits for the lock", || {
        found = sql.run(&sessions).first().map(|row| row[0].clone());
        found.is_some()
    });
    found.expect("found")
}

#[test]
fn postgres_comes_back_from_a_crash_and_so_does_everything() {
    let _turn = turn();
    let mut postgres = PrivatePostgres::start();
    let (sink, cluster) = (sink(), Cluster::on(postgres.url()));
    let nodes = cluster.nodes(3);
    let all = names(&nodes);
    wait_even(&nodes[0], &all);
    let mut known = load(&nodes[0], &sink, JOBS);
    let creator = Creator::start(urls(&nodes), sink.clone(), now_ms() as u64);
    let everybody: HashSet<String> = known.iter().map(|job| job.name.clone()).collect();
    for pause in [Duration::ZERO, Duration::from_millis(1_500)] {
        std::thread::sleep(CALM);
        postgres.restart_immediate(pause);
        let back_at_ms = now_ms();
        // Later than what was durable, and perhaps on its way, before.
        let fired_ms = wait_fire(&sink, &everybody, back_at_ms, back_at_ms - 100);
        let agreed = wait_even(&nodes[0], &all);
        eprintln!(
            "PostgreSQL, killed and away for {pause:?}: the first fire arrived {fired_ms} ms after its return; \
             the shards were shared evenly {agreed:?} later"
        );
        assert!(fired_ms < 3_000, "{fired_ms} ms");
    }
    std::thread::sleep(CALM);
    let created = creator.stop();
    eprintln!("{} one-offs; answers {:?}", created.known.len(), created.statuses);
    // It is away: that is said, and never that something is broken.
    assert_eq!(created.unexpected(&[0, 503, 504]), []);
    // In the log it is said when it goes and when it is back, and not for every call.
    for log in nodes.iter().map(Server::log) {
        let said = |words: &str| log.matches(words).count();
        assert!((1..=6).contains(&said("call failed, retrying")), "{log}");
        assert!((1..=6).contains(&said("calls are answered again")), "{log}");
    }
    known.extend(created.known);
    let verdict = finish(&nodes[0], &sink, &known, Arrival::InOrder);
    assert!(verdict.fires > 2_000, "{verdict:?}");
    worst_lateness_ms(&sink, &known, 0..i64::MAX);
}

#[test]
fn all_nodes_killed_at_once_lose_nothing() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    let nodes = cluster.nodes(3);
    wait_even(&nodes[0], &names(&nodes));
    let mut known = load(&nodes[0], &sink, JOBS);
    let creator = Creator::start(urls(&nodes), sink.clone(), now_ms() as u64);
    std::thread::sleep(CALM);
    let before = view(&nodes[0]);
    nodes.into_iter().for_each(Server::kill_9);
    let killed = Instant::now();
    let nodes = cluster.nodes(3);
    let ready = killed.elapsed();
    creator.set_urls(urls(&nodes));
    wait_even(&nodes[0], &names(&nodes));
    eprintln!("all killed: three new ones fire after {ready:?}, share evenly after {:?}", killed.elapsed());
    assert_epochs_grow(&before, &view(&nodes[0]));
    std::thread::sleep(CALM);
    known.extend(creator.stop().known);
    let verdict = finish(&nodes[0], &sink, &known, Arrival::InOrder);
    assert!(verdict.fires > 1_000 && verdict.lost_attempts > 0, "{verdict:?}");
    worst_lateness_ms(&sink, &known, 0..i64::MAX);
}

#[test]
fn what_a_node_keeps_to_itself_while_it_is_alone_outlives_it_and_is_shared() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    // Few slots and a slow target: what is due at once takes a node 12 s.
    let node = || cluster.try_node_in(&[], &[("CAMPANILE_ENGINE_SLOTS", "20")]).expect("a node starts");
    let sql = cluster.sql();
    let in_table = || sql.run("SELECT count(*) FROM ready")[0][0].parse::<u64>().unwrap();
    let waiting = |server: &Server| server.get("/v1/status")["queue_depth"].as_u64().unwrap();
    let first = node();
    wait_even(&first, &[name(&first)]);
    let known = one_offs(&first, &sink, 600);
    sink.wait_for(40, Duration::from_secs(20));
    assert!(waiting(&first) > 300 && in_table() == 0, "{} wait, {} in the table", waiting(&first), in_table());
    first.kill_9();

    let second = node();
    eventually(Duration::from_secs(10), "what waited is there again", || waiting(&second) > 200);
    let third = node();
    let done_by = |node: &Server| {
        let done = format!("SELECT count(*) FROM executions WHERE worker = '{}' AND finished_at > 0", name(node));
        sql.run(&done)[0][0].parse::<u64>().unwrap()
    };
    eventually(Duration::from_secs(20), "the third node has its part", || done_by(&third) > 50);
    let verdict = finish(&third, &sink, &known, Arrival::InOrder);
    eprintln!("the second node did {}, the third {}", done_by(&second), done_by(&third));
    assert_eq!(verdict.fires, 600, "{verdict:?}");
}

/// One-offs that are due at the same instant, soon, with a slow target.
fn one_offs(server: &Server, sink: &Sink, count: usize) -> Vec<Known> {
    let at_ms = now_ms() + 3_000;
    let at = Timestamp::from_millis(at_ms).to_string();
    let job = |n| json!({ "name": format!("once-{n}"), "schedule": { "at": at }, "action": webhook(sink, "/slow") });
    let jobs: Vec<Value> = (0..count).map(job).collect();
    let answer = server.post("/v1/jobs:batch", &json!({ "jobs": jobs }));
    let known = answer["results"].as_array().expect("results").iter().map(|item| {
        assert_eq!(item["status"], 201, "{item}");
        let text = |field: &str| item["job"][field].as_str().unwrap().to_owned();
        let created_at_ms = ms(&item["job"]["created_at"]);
        Known { id: text("id"), name: text("name"), due: Due::At(at_ms), created_at_ms }
    });
    known.collect()
}

#[test]
fn every_role_can_be_a_node_of_its_own() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    let [api, scheduler, worker] = ["api", "scheduler", "worker"].map(|role| cluster.node_with(&["--roles", role]));
    wait_even(&api, &[name(&scheduler)]);
    for node in [&scheduler, &worker] {
        let refused = node.http("GET", "/v1/jobs", None);
        assert_eq!((refused.status, &refused.body["code"]), (503, &json!("no_api_role")));
        assert_eq!(node.http("POST", "/v1/jobs", Some(&json!({}))).status, 503);
        assert_eq!(node.http("GET", "/healthz", None).status, 200);
        assert_eq!(node.http("GET", "/readyz", None).status, 200);
        assert_eq!(node.get("/v1/status")["ready"], true);
    }
    let seen = view(&api);
    let roles: BTreeMap<&str, (&[String], u64)> =
        seen.nodes.iter().map(|node| (node.node.as_str(), (&node.roles[..], node.shards))).collect();
    let [api_name, scheduler_name, worker_name] = [&api, &scheduler, &worker].map(name);
    assert_eq!(roles[&*api_name], (&["api".to_owned()][..], 0));
    assert_eq!(roles[&*scheduler_name], (&["scheduler".to_owned()][..], SHARDS as u64));
    assert_eq!(roles[&*worker_name], (&["worker".to_owned()][..], 0));

    let mut known = load(&api, &sink, 20);
    let once = api.post(
        "/v1/jobs",
        &json!({ "name": "once", "schedule": { "after": "300ms" }, "action": webhook(&sink, "/fast") }),
    );
    let created_at_ms = ms(&once["created_at"]);
    let id = once["id"].as_str().unwrap().to_owned();
    known.push(Known { id, name: "once".into(), due: Due::At(created_at_ms + 300), created_at_ms });
    let by_hand = api.post("/v1/jobs/name:once/run", &json!({}));
    std::thread::sleep(CALM);
    let verdict = finish(&api, &sink, &known, Arrival::InOrder);
    assert!(verdict.fires > 80, "{verdict:?}");
    let executions: Vec<Value> = known.iter().flat_map(|job| api.executions(&job.name)).collect();
    let workers: HashSet<&str> = executions.iter().filter_map(|execution| execution["worker"].as_str()).collect();
    assert_eq!(workers, HashSet::from([&*worker_name]));
    assert!(executions.iter().any(|execution| execution["id"] == by_hand["id"]), "{by_hand}");

    let healthy = api.cli(&["doctor"]).code(0).stdout;
    assert!(healthy.contains("ready as api; firing is not its part"), "{healthy}");
    assert!(healthy.contains("3 nodes; schedulers own all jobs"), "{healthy}");
    let aside = scheduler.cli(&["doctor"]).code(0).stdout;
    assert!(aside.contains("this node does not have the role api"), "{aside}");
    assert!(scheduler.stop_term().success());
    let sick = api.cli(&["doctor"]).code(1).stdout;
    assert!(sick.contains("fail  no scheduler node is alive") && !sick.contains("it fires"), "{sick}");
    let status = api.cli(&["cluster", "status"]).code(0).stderr;
    assert!(status.contains("no scheduler node is alive") && !status.contains("takes them over"), "{status}");
}

#[test]
fn nodes_with_different_settings_are_told_of_it_and_another_mode_is_refused() {
    let _turn = turn();
    let cluster = Cluster::new();
    let first = cluster.node();
    let other = cluster.try_node_in(&[], &[("CAMPANILE_ENGINE_LEASE", "1m")]).expect("a node starts");
    let log = other.log();
    assert!(log.contains("another node has another setting") && log.contains("engine.lease"), "{log}");
    let status = first.cli(&["cluster", "status"]).code(0);
    assert!(status.stderr.contains("nodes differ in engine.lease: `1m` on "), "{}", status.stderr);
    let doctor = first.cli(&["doctor"]);
    assert!(doctor.stdout.contains("nodes differ in engine.lease"), "{}", doctor.stdout);
    // Two ways to share the shards would take them from each other for ever.
    let refused = cluster.try_node_in(&[], &[("CAMPANILE_CLUSTER_MODE", "leader")]).err().expect("it must not start");
    assert!(refused.contains("cluster.mode is `leader` here and `shards` on"), "{refused}");
    let nodes = first.get("/v1/cluster")["nodes"].as_array().map(Vec::len);
    assert_eq!(nodes, Some(2), "and it has left");
    // Who was killed counts for a while; then nobody is in the way.
    first.kill_9();
    other.kill_9();
    let mode = [("CAMPANILE_CLUSTER_MODE", "leader")];
    eventually(Duration::from_secs(30), "the other mode", || cluster.try_node_in(&[], &mode).is_ok());
}

/// Nodes of version N and N+1 side by side are the same binary here: what this shows is that a client notices nothing while one
/// node after the other is replaced. That releases understand each other's rows is the business of the store's migrations.
#[test]
fn a_rolling_restart_is_noticed_by_nobody() {
    let _turn = turn();
    let (sink, cluster) = (sink(), Cluster::new());
    let mut nodes = cluster.nodes(3);
    wait_even(&nodes[0], &names(&nodes));
    let mut known = load(&nodes[0], &sink, JOBS / 4);
    let started_at_ms = now_ms();
    let creator = Creator::start(urls(&nodes), sink.clone(), now_ms() as u64);
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        let old = nodes.remove(0);
        let asked = Instant::now();
        assert!(old.stop_term().success());
        let stopped = asked.elapsed();
        nodes.push(cluster.node());
        creator.set_urls(urls(&nodes));
        eprintln!("stopped in {stopped:?}, replaced after {:?}", asked.elapsed());
        wait_even(&nodes[0], &names(&nodes));
        std::thread::sleep(Duration::from_secs(1));
    }
    let created = creator.stop();
    eprintln!("{} one-offs; answers {:?}", created.known.len(), created.statuses);
    assert_eq!(created.unexpected(&[0, 503]), []);
    assert!(created.known.len() > 100, "{}", created.known.len());
    known.extend(created.known);
    let verdict = finish(&nodes[0], &sink, &known, Arrival::InOrder);
    assert_eq!(verdict.lost_attempts, 0, "{verdict:?}");
    let worst_ms = worst_lateness_ms(&sink, &known, started_at_ms..i64::MAX);
    assert!(worst_ms < 1_000, "{worst_ms} ms");
}
