//! What operators do with executions, as they meet it on the command line: the real binary, its output and exit codes.

mod common;

use common::{Ran, Reply, Server, Sink, campanile, eventually, run};
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn offline(args: &[&str]) -> Ran {
    run(campanile().args(args))
}

fn start() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    (dir, server)
}

/// A job that fails for good at once, run `times`; its dead executions.
fn dead(server: &Server, sink: &Sink, name: &str, times: usize) -> Vec<String> {
    sink.reply(&format!("/{name}"), Reply::status(400));
    let url = sink.url(&format!("/{name}"));
    server.cli(&["job", "create", name, "--manual", "--webhook", &url, "--tag", "test"]).code(0);
    for _ in 0..times {
        server.cli(&["job", "run", name, "--wait", "--timeout", "20s"]).code(10);
    }
    let ids = server.cli(&["dead", "ls", "--filter", &format!("job:{name}"), "-o", "name"]).code(0).stdout;
    ids.lines().map(str::to_owned).collect()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_else(|| panic!("no {field} in {value}"))
}

/// A worker process that ends with its handle.
struct Worker(Child);

impl Worker {
    fn start(server: &Server, dir: &Path, args: &[&str], script: &str) -> Self {
        let log = std::fs::File::create(dir.join("worker.log")).unwrap();
        let child = campanile()
            .env("CAMPANILE_URL", server.url())
            .args([&["worker", "run"], args, &["--", "sh", "-c", script]].concat())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self(child)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn what_is_wrong_on_the_command_line_is_told_without_a_server() {
    for (args, part) in [
        (&["dead", "replay"][..], "required"),
        (&["dead", "replay", "--all"], "--yes"),
        (&["dead", "replay", "--filter", "state:dead"], "--yes"),
        (&["dead", "replay", "--all", "--fingerprint", "9f", "--yes"], "cannot be used with"),
        (&["dead", "replay", "--all", "--yes", "--rate", "fast"], "such as 50/s"),
        (&["dead", "replay", "--all", "--yes", "--stop-if-failing", "120%"], "such as 20%"),
        (&["dead", "replay", "--all", "--yes", "--filter", "stat:dead"], "cannot be used with"),
        (&["dead", "ls", "--filter", "stat:dead"], "state"),
        (&["dead", "discard", "--all", "--yes"], "--reason"),
        (&["dead", "discard", "--all", "--reason", "x"], "--yes"),
        (&["dead", "discard", "--all", "--yes", "--reason", " "], "--reason is empty"),
        (&["exec", "ls", "--filter", "late:>soon"], "late"),
        (&["exec", "cancel"], "required"),
        (&["exec", "cancel", "--job", "x"], "--at"),
        (&["exec", "cancel", "--job", "x", "--at", "someday"], "is not an instant"),
        (&["exec", "cancel", "--grace", "soon", "exe_x"], "such as 90s"),
        (&["backfill", "x"], "--from"),
        (&["backfill", "x", "--from", "-2h"], "--yes"),
        (&["backfill", "x", "--from", "-1h", "--to", "-2h", "--yes"], "the range is empty"),
        (&["backfill", "x", "--from", "-1h", "--reprocess", "some", "--yes"], "some"),
        (&["why", "x", "--at", "2026-11-14 02:00 Mars/Olympus"], "Mars/Olympus"),
        (&["pool", "set", "x"], "--slots"),
        (&["pool", "set", "x", "--slots", "0"], "from 1 on"),
        (&["target", "set", "x"], "required"),
        (&["target", "set", "x", "--rate", "many"], "such as 50/s"),
        (&["notify", "add", "https://example.com"], "--on"),
        (&["notify", "add", "https://example.com", "--on", "doom"], "one of succeeded"),
        (&["notify", "replay", "ntf_x", "first"], "first"),
        (&["worker", "quiet"], "required"),
        (&["worker", "run", "--pool", "x"], "required"),
        (&["job", "create", "x", "--manual", "--noop", "--overlap", "maybe"], "one of allow"),
        (&["job", "create", "x", "--manual", "--noop", "--catch-up", "most"], "coalesced"),
        (&["job", "create", "x", "--manual", "--noop", "--blackout", "2026-12-24"], "two dots"),
        (&["job", "create", "x", "--manual", "--noop", "--blackout", "2026-12-24..2026-12-20"], "ends before"),
        (&["job", "create", "x", "--manual", "--noop", "--expect-start-within", "soon"], "such as 90s"),
        (&["job", "pause", "x", "--until", "whenever"], "is not an instant"),
    ] {
        let ran = offline(args);
        assert!(ran.code == 64 && ran.stdout.is_empty() && ran.stderr.starts_with("error: "), "{args:?}: {ran:#?}");
        assert!(ran.stderr.contains(part), "{args:?}: {part} is missing in {}", ran.stderr);
    }
    let marked = offline(&["exec", "ls", "--filter", "job:x stat:dead"]).code(64).stderr;
    assert!(marked.contains("\n  job:x stat:dead\n        ^^^^"), "{marked}");
    for args in [
        &["op", "get", "op_nope"][..],
        &["op", "watch", "exe_01J9ZC0000000000000000TEST"],
        &["op", "cancel", "nope"],
        &["dead", "get", "nope"],
        &["exec", "logs", "nope"],
        &["exec", "replay", "nope"],
        &["notify", "get", "nope"],
        &["notify", "rm", "nope"],
    ] {
        let ran = offline(args).code(3);
        assert!(ran.stderr.contains("hint: `campanile "), "{args:?}: {ran:#?}");
    }
    // What is there to ask is asked of a server.
    for args in [&["dead", "groups"][..], &["pool", "ls"], &["worker", "ls"], &["notify", "ls"], &["why", "x"]] {
        offline(&[args, &["--url", "http://127.0.0.1:1"]].concat()).code(7);
    }
}

#[test]
fn every_command_has_an_example() {
    for command in [
        "why",
        "backfill",
        "dead ls",
        "dead groups",
        "dead get",
        "dead replay",
        "dead discard",
        "op ls",
        "op get",
        "op watch",
        "op cancel",
        "pool ls",
        "pool get",
        "pool set",
        "pool pause",
        "pool resume",
        "pool rm",
        "target ls",
        "target set",
        "target rm",
        "worker run",
        "worker ls",
        "worker quiet",
        "worker drain",
        "worker resume",
        "notify ls",
        "notify add",
        "notify get",
        "notify pause",
        "notify resume",
        "notify rm",
        "notify deliveries",
        "notify replay",
        "exec logs",
        "exec replay",
        "exec cancel",
    ] {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        assert!(offline(&args).code(0).stdout.contains("Example"), "{command} has no example");
    }
}

#[test]
fn dead_letters_are_grouped_replayed_and_given_up() {
    let sink = Sink::start();
    let (_dir, server) = start();
    assert_eq!(server.cli(&["dead", "ls"]).code(0).stderr, "nothing is dead\n");
    assert_eq!(server.cli(&["dead", "groups"]).code(0).stderr, "nothing is dead\n");
    let ids = dead(&server, &sink, "broken", 3);
    assert_eq!(ids.len(), 3);

    let groups = server.cli(&["dead", "groups", "-o", "json"]).code(0).json();
    let [group] = groups["data"].as_array().unwrap().as_slice() else { panic!("one group: {groups}") };
    assert_eq!((&group["count"], &group["kind"]), (&json!(3), &json!("http_400")));
    let fingerprint = text(group, "fingerprint").to_owned();
    let table = server.cli(&["dead", "groups"]).code(0).stdout;
    assert!(table.starts_with("FINGERPRINT ") && table.contains("http_400"), "{table}");
    let listed = server.cli(&["dead", "ls", "--fingerprint", &fingerprint, "-o", "name"]).code(0).stdout;
    assert_eq!(listed.lines().count(), 3);
    let got = server.cli(&["dead", "get", &ids[0]]).code(0).stdout;
    assert!(got.contains(&format!("fingerprint    {fingerprint}")) || got.contains(&fingerprint), "{got}");

    // Nothing happens without a word: a dry run, and nobody to ask.
    let plan = server.cli(&["dead", "replay", "--fingerprint", &fingerprint, "--dry-run", "-o", "json"]).code(0).json();
    assert_eq!((&plan["dry_run"], &plan["count"]), (&json!(true), &json!(3)));
    server.cli(&["dead", "replay", "--fingerprint", &fingerprint]).code(64);
    assert_eq!(sink.on("/broken").len(), 3);

    // It still fails: the canary stops it.
    let careful =
        ["--canary", "2", "--stop-if-failing", "20%", "--rate", "50/s", "--yes", "--wait", "--timeout", "30s"];
    let stopped = server.cli(&[&["dead", "replay", "--fingerprint", &fingerprint], &careful[..]].concat()).code(10);
    assert!(stopped.stderr.contains("is STOPPED: stopped: 2 of 2 failed in the canary"), "{stopped:#?}");
    assert_eq!(sink.on("/broken").len(), 5, "the third one was left alone");
    // Without a care, all fail, and that is partial.
    server.cli(&["dead", "replay", "--all", "--yes", "--wait", "--timeout", "30s"]).code(8);
    // One by one, by name.
    server.cli(&["dead", "replay", &ids[0], "--wait", "--timeout", "30s"]).code(8);

    // It is mended: two of them run again, and succeed.
    sink.reply("/broken", Reply::status(200));
    let accepted = server.cli(&["dead", "replay", &ids[0], "-o", "json"]).code(0);
    let operation = accepted.json();
    assert_eq!(operation["kind"], "REPLAY");
    let operation = text(&operation, "id").to_owned();
    assert!(accepted.stderr.contains(&format!("campanile op watch {operation}")), "{accepted:#?}");
    let watched = server.cli(&["op", "watch", &operation, "--timeout", "30s", "-o", "json"]).code(0).json();
    assert_eq!((&watched["state"], &watched["progress"]["succeeded"]), (&json!("DONE"), &json!(1)));
    assert!(server.cli(&["op", "get", &operation]).code(0).stdout.contains("state        DONE\n"));
    let listed = server.cli(&["op", "ls", "-o", "name"]).code(0).stdout;
    assert_eq!((listed.lines().next(), listed.lines().count()), (Some(operation.as_str()), 4));
    server.cli(&["op", "cancel", &operation]).code(5);
    server.cli(&["op", "get", "op_00000000000000000000000000"]).code(3);
    let again = server.cli(&["exec", "replay", &ids[1], "-o", "json"]).code(0).json();
    assert_eq!(again["id"], ids[1].as_str());
    server.cli(&["exec", "wait", &ids[1], "--timeout", "20s"]).code(0);
    server.cli(&["exec", "replay", &ids[1]]).code(5);
    let alive = server.cli(&["dead", "replay", &ids[1]]).code(5);
    assert!(alive.stderr.contains("none of them is dead"), "{alive:#?}");

    // The third one is given up, with a reason; the others cannot be.
    server.cli(&["dead", "discard", &ids[2], "--reason", "by hand"]).code(64);
    let both = ["dead", "discard", &ids[2], &ids[1], "--reason", "refunded by hand", "--yes"];
    let partly = server.cli(&both).code(8);
    assert!(partly.stderr.contains(&format!("{} is SUCCEEDED", ids[1])), "{partly:#?}");
    let got = server.cli(&["exec", "get", &ids[2]]).code(0).stdout;
    assert!(got.contains("DISCARDED_BY_USER") && got.contains("refunded by hand"), "{got}");
    assert_eq!(server.cli(&["dead", "ls", "-o", "json"]).code(0).json()["data"], json!([]));
    server.cli(&["dead", "discard", &ids[2], "--reason", "again", "--yes"]).code(5);
}

#[test]
fn a_backfill_makes_up_for_the_past() {
    let sink = Sink::start();
    let (_dir, server) = start();
    let job = ["job", "create", "report", "--cron", "0 3 * * *", "--webhook", &sink.url("/report")];
    server.cli(&[&job[..], &["--catch-up", "none"]].concat()).code(0);
    let range = ["backfill", "report", "--from", "2025-06-10", "--to", "2025-06-14"];
    server.cli(&range).code(64);
    let plan = server.cli(&[&range[..], &["--dry-run", "-o", "json"]].concat()).code(0).json();
    assert_eq!((&plan["fires"], &plan["starts"]), (&json!(4), &json!(4)));
    assert_eq!(sink.count(), 0);
    let rest = ["--max-parallel", "2", "--yes", "--wait", "--timeout", "30s", "-o", "json"];
    let done = server.cli(&[&range[..], &rest].concat()).code(0).json();
    assert_eq!((&done["kind"], &done["progress"]["succeeded"]), (&json!("BACKFILL"), &json!(4)));
    assert_eq!(sink.count(), 4);
    let due: Vec<String> = sink.deliveries().into_iter().map(|delivery| delivery.scheduled_at).collect();
    assert!(due.contains(&"2025-06-12T03:00:00Z".to_owned()), "{due:?}");

    // What has succeeded is passed over, unless it is asked for.
    let again = server.cli(&[&range[..], &["--dry-run"]].concat()).code(0);
    assert!(again.stderr.contains("4 fires: 0 start, 4 are passed over") && again.stdout.contains("DEDUPLICATED"));
    let one =
        ["backfill", "report", "--at", "2025-06-12 03:00", "--reprocess", "all", "--yes", "--wait", "--timeout", "30s"];
    server.cli(&one).code(0);
    assert_eq!(sink.count(), 5);
    server.cli(&["backfill", "nope", "--from", "-2h", "--yes"]).code(3);
    let future = server.cli(&["backfill", "report", "--from", "-2h", "--to", "+2h", "--yes"]).code(1);
    assert!(future.stderr.contains("in the past"), "{future:#?}");
}

#[test]
fn why_answers_for_what_ran_and_for_what_did_not() {
    let (_dir, server) = start();
    server.cli(&["job", "create", "daily", "--cron", "0 3 * * *", "--tz", "Asia/Kolkata", "--noop"]).code(0);
    let never = server.cli(&["why", "daily", "--at", "2026-01-01 12:34 Asia/Kolkata"]).code(0).stdout;
    assert!(never.starts_with("DID NOT RUN.  2026-01-01T07:04:00Z: NOT_DUE\n  "), "{never}");
    let next = text(&server.get("/v1/jobs/name:daily"), "next_fire_at").to_owned();
    let will = server.cli(&["why", "daily", "--at", &next]).code(0).stdout;
    assert!(will.starts_with(&format!("WILL RUN.  Fire {next}")), "{will}");

    server.cli(&["job", "create", "tick", "--every", "200ms", "--noop"]).code(0);
    eventually(SOON, "an execution", || server.executions("tick").iter().any(|e| e["state"] == "SUCCEEDED"));
    let ran = server.executions("tick").into_iter().find(|e| e["state"] == "SUCCEEDED").unwrap();
    let answer = server.cli(&["why", "tick", "--at", text(&ran, "fire_at")]).code(0).stdout;
    assert!(answer.starts_with("RAN.  Fire ") && answer.contains("\n  due "), "{answer}");
    let json = server.cli(&["why", "tick", "--at", text(&ran, "fire_at"), "-o", "json"]).code(0).json();
    assert_eq!((&json["verdict"], &json["execution"]["state"]), (&json!("RAN"), &json!("SUCCEEDED")));

    server.cli(&["job", "create", "lonely", "--manual", "--handler", "nobody", "--pool", "empty"]).code(0);
    let run = server.cli(&["job", "run", "lonely", "-o", "json"]).code(0).json();
    let waits = server.cli(&["why", "lonely", "--at", text(&run, "fire_at")]).code(0).stdout;
    assert!(waits.starts_with("WAITS.  Fire ") && waits.contains("NO_WORKER"), "{waits}");
    assert!(waits.contains("\n  fix: campanile worker run --pool empty --handler nobody"), "{waits}");
    server.cli(&["why", "nope"]).code(3);
}

#[test]
fn pools_and_targets_have_limits_and_can_be_paused() {
    let sink = Sink::start();
    let (_dir, server) = start();
    let pools = server.cli(&["pool", "ls", "-o", "name"]).code(0).stdout;
    assert!(pools.contains("short\n") && pools.contains("long\n"), "{pools}");
    let set = server.cli(&["pool", "set", "reports", "--slots", "3", "-o", "json"]).code(0).json();
    assert_eq!((&set["slots"], &set["paused"]), (&json!(3), &json!(false)));
    assert_eq!(server.cli(&["pool", "pause", "reports", "-o", "json"]).code(0).json()["paused"], true);
    let kept = server.cli(&["pool", "get", "reports", "-o", "json"]).code(0).json();
    assert_eq!((&kept["slots"], &kept["paused"]), (&json!(3), &json!(true)));

    // A paused pool keeps its work; doctor says so, and how to go on.
    let job = ["job", "create", "slow", "--manual", "--pool", "reports", "--webhook", &sink.url("/slow")];
    server.cli(&job).code(0);
    let run = server.cli(&["job", "run", "slow", "-o", "name"]).code(0).stdout;
    server.cli(&["exec", "wait", run.trim(), "--timeout", "500ms"]).code(6);
    let doctor = server.cli(&["doctor"]).code(0).stdout;
    assert!(
        doctor.contains("warn  pool reports is paused") && doctor.contains("-> campanile pool resume reports"),
        "{doctor}"
    );
    let table = server.cli(&["pool", "resume", "reports"]).code(0).stdout;
    assert!(table.starts_with("NAME ") && table.contains("ACTIVE"), "{table}");
    server.cli(&["exec", "wait", run.trim(), "--timeout", "20s"]).code(0);
    assert!(server.cli(&["pool", "rm", "reports"]).code(0).stderr.contains("forgot the limits of reports"));
    server.cli(&["pool", "rm", "reports"]).code(3);

    let origin = sink.url("");
    let target = server.cli(&["target", "set", &origin, "--slots", "8", "--rate", "30/m", "-o", "json"]).code(0).json();
    assert_eq!((&target["slots"], &target["per_second"]), (&json!(8), &json!(0.5)));
    let kept = server.cli(&["target", "set", &origin, "--rate", "none", "-o", "json"]).code(0).json();
    assert_eq!((&kept["slots"], &kept["per_second"]), (&json!(8), &Value::Null), "what is not named stays");
    assert!(server.cli(&["target", "ls"]).code(0).stdout.contains(&origin));
    server.cli(&["target", "rm", &origin]).code(0);
    server.cli(&["target", "rm", &origin]).code(3);
}

#[test]
fn workers_are_listed_and_directed_and_their_work_can_be_followed() {
    let (dir, server) = start();
    assert!(server.cli(&["worker", "ls"]).code(0).stderr.contains("campanile worker run"));
    let missing = server.cli(&["worker", "quiet", "w-1"]).code(3);
    assert!(missing.stderr.contains("hint: `campanile worker ls`"), "{missing:#?}");
    server
        .cli(&["job", "create", "talk", "--manual", "--handler", "talk", "--pool", "crew", "--timeout", "1m"])
        .code(0);
    let run = server.cli(&["job", "run", "talk", "-o", "name"]).code(0).stdout.trim().to_owned();

    // Five seconds later somebody should have started one.
    eventually(SOON, "doctor misses a worker", || {
        let doctor = server.cli(&["doctor"]).code(0).stdout;
        doctor.contains("no worker for handler talk in pool crew")
            && doctor.contains("campanile worker run --pool crew")
    });
    let script = "echo one >&2; while [ ! -e go ]; do sleep 0.1; done; echo two >&2";
    let args = ["--pool", "crew", "--id", "w-1"];
    let _worker = Worker::start(&server, dir.path(), &args, &format!("cd '{}'; {script}", dir.path().display()));
    eventually(SOON, "it runs", || server.cli(&["exec", "get", &run, "-o", "json"]).json()["state"] == "RUNNING");
    let listed = server.cli(&["worker", "ls", "-o", "json"]).code(0).json();
    assert_eq!((&listed["data"][0]["id"], &listed["data"][0]["pools"]), (&json!("w-1"), &json!(["crew"])));
    assert!(
        server.cli(&["status"]).code(0).stdout.contains("executions  RUNNING 1"),
        "{}",
        server.cli(&["status"]).stdout
    );
    let quiet = server.cli(&["worker", "quiet", "w-1", "-o", "json"]).code(0).json();
    assert_eq!(quiet["directive"], "QUIET");
    assert!(server.cli(&["worker", "ls"]).code(0).stdout.contains("QUIET"));
    assert_eq!(server.cli(&["worker", "resume", "w-1", "-o", "json"]).code(0).json()["directive"], "RUN");

    let follow = campanile()
        .env("CAMPANILE_URL", server.url())
        .args(["exec", "logs", &run, "--follow"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::fs::write(dir.path().join("go"), "").unwrap();
    server.cli(&["exec", "wait", &run, "--timeout", "30s"]).code(0);
    let followed = String::from_utf8(follow.wait_with_output().unwrap().stdout).unwrap();
    assert!(followed.contains("  one\n") && followed.ends_with("  two\n"), "{followed}");
    let logs = server.cli(&["exec", "logs", &run, "-o", "json"]).code(0).json();
    assert_eq!((&logs["data"][0]["message"], &logs["has_more"]), (&json!("one"), &json!(false)));
    let got = server.cli(&["exec", "get", &run]).code(0).stdout;
    assert!(got.contains("late by ") && got.contains("ms: scheduler ") && got.contains("claimed "), "{got}");
    assert_eq!(server.cli(&["worker", "drain", "w-1", "-o", "json"]).code(0).json()["directive"], "DRAIN");
}

#[test]
fn executions_and_fires_to_come_are_cancelled() {
    let (dir, server) = start();
    server.cli(&["job", "create", "nightly", "--cron", "0 3 * * *", "--noop"]).code(0);
    let next = text(&server.get("/v1/jobs/name:nightly"), "next_fire_at").to_owned();
    let refused = server.cli(&["exec", "cancel", "--job", "nightly", "--at", "2026-01-01 12:34"]).code(1);
    assert!(refused.stderr.contains("does not fire at"), "{refused:#?}");
    let cancel = ["exec", "cancel", "--job", "nightly", "--at", &next, "--note", "bank holiday", "-o", "json"];
    let cancelled = server.cli(&cancel).code(0).json();
    assert_eq!((&cancelled["state"], &cancelled["note"]), (&json!("CANCELLED"), &json!("bank holiday")));
    let why = server.cli(&["why", "nightly", "--at", &next]).code(0).stdout;
    assert!(why.starts_with("DID NOT RUN.") && why.contains("bank holiday"), "{why}");

    // A worker's attempt is asked to stop; without a grace it ends at once.
    server.cli(&["job", "create", "long", "--manual", "--handler", "x", "--pool", "crew", "--timeout", "5m"]).code(0);
    let _worker = Worker::start(&server, dir.path(), &["--pool", "crew", "--concurrency", "2"], "sleep 60");
    let run = || {
        let id = server.cli(&["job", "run", "long", "-o", "name"]).code(0).stdout.trim().to_owned();
        eventually(SOON, "it runs", || server.cli(&["exec", "get", &id, "-o", "json"]).json()["state"] == "RUNNING");
        id
    };
    let first = run();
    let asked = server.cli(&["exec", "cancel", &first, "--note", "enough"]).code(0);
    assert!(asked.stderr.contains("is asked to stop it"), "{asked:#?}");
    eventually(SOON, "it stopped", || {
        server.cli(&["exec", "get", &first, "-o", "json"]).json()["state"] == "CANCELLED"
    });
    let second = run();
    let ended = server.cli(&["exec", "cancel", &second, "--grace", "0", "-o", "json"]).code(0).json();
    assert_eq!(ended["state"], "CANCELLED");
    server.cli(&["exec", "cancel", &second]).code(5);
    let listed = server.cli(&["exec", "ls", "--filter", "job:long state:cancelled", "-o", "name"]).code(0).stdout;
    assert_eq!(listed.lines().count(), 2);
    let none = server.cli(&["exec", "ls", "--filter", "job:long -state:cancelled"]).code(0);
    assert_eq!(none.stderr, "no executions\n");
}

#[test]
fn others_are_told_of_what_happens() {
    let sink = Sink::start();
    let (_dir, server) = start();
    assert!(server.cli(&["notify", "ls"]).code(0).stderr.contains("nobody is told"));
    let add = ["notify", "add", &sink.url("/alerts"), "--on", "dead,recovered"];
    server.cli(&[&add[..], &["--job", "nope"]].concat()).code(3);
    let made = server.cli(&[&add[..], &["--tag", "test", "-o", "json"]].concat()).code(0).json();
    let id = text(&made, "id").to_owned();
    assert_eq!((&made["events"], &made["tag"]), (&json!(["dead", "recovered"]), &json!("test")));
    assert!(server.cli(&["notify", "get", &id]).code(0).stdout.contains("on       dead, recovered\n"));
    let refused = server.cli(&["notify", "add", "gopher://x", "--on", "dead"]).code(1);
    assert!(refused.stderr.starts_with("error: url: "), "{refused:#?}");

    // Nothing arrives while it is paused; doctor says so.
    assert_eq!(server.cli(&["notify", "pause", &id, "-o", "json"]).code(0).json()["paused"], true);
    dead(&server, &sink, "broken", 1);
    let doctor = server.cli(&["doctor"]).code(0).stdout;
    assert!(
        doctor.contains("1 notifications did not get to") && doctor.contains(&format!("campanile notify resume {id}")),
        "{doctor}"
    );
    assert!(doctor.contains("warn  1 dead executions") && doctor.contains("campanile dead groups"), "{doctor}");
    assert!(sink.on("/alerts").is_empty());
    server.cli(&["notify", "resume", &id]).code(0);
    eventually(SOON, "it is told", || sink.on("/alerts").len() == 1);
    let event: Value = serde_json::from_slice(&sink.on("/alerts")[0].body).unwrap();
    assert_eq!((&event["specversion"], &event["type"]), (&json!("1.0"), &json!("dev.campanile.execution.dead.v1")));

    eventually(SOON, "it is noted", || {
        server.cli(&["notify", "deliveries", &id, "-o", "json"]).json()["data"][0]["state"] == "DELIVERED"
    });
    let seq = server.cli(&["notify", "deliveries", &id, "-o", "name"]).code(0).stdout.trim().to_owned();
    server.cli(&["notify", "replay", &id, &seq]).code(0);
    eventually(SOON, "it is told again", || sink.on("/alerts").len() == 2);
    server.cli(&["notify", "replay", &id, "999999"]).code(3);
    assert!(server.cli(&["notify", "rm", &id]).code(0).stderr.contains("is told no more"));
    server.cli(&["notify", "rm", &id]).code(3);
}

#[test]
fn a_job_says_what_it_does_about_overlaps_misses_and_expectations() {
    let (_dir, server) = start();
    let create = [
        "job",
        "create",
        "full",
        "--every",
        "1h",
        "--noop",
        "--overlap",
        "buffer-one",
        "--catch-up",
        "coalesced",
        "--max-age",
        "6h",
        "--drip",
        "5s",
        "--total-timeout",
        "2h",
        "--expect-start-within",
        "1m",
        "--expect-finish-within",
        "10m",
        "--expect-success-every",
        "2h",
        "--blackout",
        "2026-12-24..2026-12-27",
        "--blackout",
        "2027-01-01T00:00:00Z..2027-01-02 Europe/Berlin",
        "--timeout",
        "30s",
        "-o",
        "json",
    ];
    let job = server.cli(&create).code(0).json();
    assert_eq!((&job["overlap"], &job["catch_up"]["mode"]), (&json!("BUFFER_ONE"), &json!("COALESCED")));
    assert_eq!((&job["catch_up"]["max_age_ms"], &job["catch_up"]["drip_ms"]), (&json!(21_600_000), &json!(5_000)));
    assert_eq!(job["retry_policy"]["total_timeout_ms"], 7_200_000);
    assert_eq!(
        job["expect"],
        json!({"start_within_ms": 60_000, "finish_within_ms": 600_000, "success_every_ms": 7_200_000})
    );
    assert_eq!(job["blackouts"][1], json!({"from": "2027-01-01T00:00:00Z", "to": "2027-01-01T23:00:00Z"}));
    let shown = server.cli(&["job", "get", "full"]).code(0).stdout;
    for part in ["BUFFER_ONE", "COALESCED, up to 6h old, 5s apart", "starts within 1m", "within 2h in all", "blackout"]
    {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    let edit = [
        "job",
        "edit",
        "full",
        "--overlap",
        "allow",
        "--blackout",
        "none",
        "--expect-start-within",
        "none",
        "--total-timeout",
        "none",
        "-o",
        "json",
    ];
    let edited = server.cli(&edit).code(0).json();
    assert_eq!(edited["overlap"], "ALLOW");
    assert!(edited.get("blackouts").is_none() && edited["retry_policy"].get("total_timeout_ms").is_none(), "{edited}");
    assert_eq!(edited["expect"], json!({"finish_within_ms": 600_000, "success_every_ms": 7_200_000}));

    let paused = server.cli(&["job", "pause", "full", "--until", "2h", "-o", "json"]).code(0);
    assert!(paused.stderr.contains("it does not fire until 20"), "{paused:#?}");
    assert_eq!(paused.json()["state"], "PAUSED");
    let paused = server.cli(&["job", "pause", "full", "--until", "+1s", "-o", "json"]).code(0).json();
    assert!(paused["paused_until"].is_string(), "{paused}");
    eventually(SOON, "it fires again", || server.get("/v1/jobs/name:full")["state"] == "ACTIVE");
}

#[test]
fn what_is_older_than_its_retention_is_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("campanile.toml");
    std::fs::write(&file, "[retention]\nsucceeded = '1s'\ncancelled = 'forever'\n").unwrap();
    let server = Server::try_start("server", dir.path(), &["--config", file.to_str().unwrap()]).unwrap();
    server.cli(&["job", "create", "short-lived", "--manual", "--noop"]).code(0);
    server.cli(&["job", "create", "kept", "--manual", "--handler", "nobody"]).code(0);
    let kept = server.cli(&["job", "run", "kept", "-o", "name"]).code(0).stdout;
    server.cli(&["exec", "cancel", kept.trim()]).code(0);
    server.cli(&["job", "run", "short-lived", "--wait"]).code(0);
    eventually(Duration::from_secs(40), "it is gone", || server.executions("short-lived").is_empty());
    assert_eq!(server.executions("kept").len(), 1);
}

#[test]
fn the_benchmarks_verify_what_they_measure() {
    let pull = ["bench", "pull", "--jobs", "3000", "--workers", "8", "--batch", "50", "--repeat", "1", "-o", "json"];
    let pull = offline(&pull).code(0).json();
    let verified: Vec<&str> = pull["verified"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(verified.iter().all(|fact| fact.contains("3000 expected, 0 lost, 0 doubled, 0 early")), "{pull}");
    assert!(pull["results"].as_array().unwrap().iter().any(|row| row["metric"] == "pull / drain, median"), "{pull}");
    assert!(pull["rate"].as_f64().unwrap() > 0.0 && pull["node_us"].as_f64().unwrap() > 0.0, "{pull}");
    let webhook = ["bench", "webhook", "--jobs", "2000", "--repeat", "1", "-o", "json"];
    let webhook = offline(&webhook).code(0).json();
    let verified = webhook["verified"][0].as_str().unwrap();
    assert!(verified.contains("2000 expected, 0 lost, 0 doubled, 0 early"), "{webhook}");
    for figure in ["rate", "raw_rate", "ratio", "node_us", "wal_bytes"] {
        assert!(webhook[figure].as_f64().unwrap() > 0.0, "{figure}: {webhook}");
    }
    let steady =
        ["bench", "webhook", "--jobs", "100", "--rate", "200", "--seconds", "2", "--repeat", "1", "-o", "json"];
    let steady = offline(&steady).code(0).json();
    assert!(steady["verified"][0].as_str().unwrap().contains("400 expected, 0 lost"), "{steady}");
    let history = offline(&["bench", "history", "--executions", "5000", "-o", "json"]).code(0).json();
    assert!(
        history["verified"][0].as_str().unwrap().contains("5000 executions of 10 jobs, 100 of them dead"),
        "{history}"
    );
}
