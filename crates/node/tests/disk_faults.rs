//! A bad disk under the real binary: the power is cut, syncs are slow or fail, and there is no room. Nothing
//! acknowledged is lost.
//!
//! These need root (mounts) and `strace` (syncs that fail). Where that is missing they fail and say what to do: a test
//! that did not run must not look like one that passed.

#![allow(clippy::disallowed_methods, reason = "a test of the real thing lives in real time")]

mod common;

use common::creator::Creator;
use common::judge::{Arrival, Due, Known, catch_up, finish, ms, retry, webhook};
use common::{Server, Signal, Sink, eventually, http_within};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const EVERY_MS: i64 = 250;
const RECURRING: usize = 4;
/// How often the power is cut.
const CUTS: usize = 4;
/// The machine's address must be free for webhooks to the test's own sink.
const SETTINGS: [(&str, &str); 2] =
    [("CAMPANILE_ACTIONS_ALLOW_PRIVATE_TARGETS", "true"), ("CAMPANILE_ACTIONS_ALLOW_PLAIN_HTTP", "true")];

fn start(data_dir: &Path) -> Server {
    Server::try_start_in("server", data_dir, &[], &SETTINGS).unwrap_or_else(|said| panic!("it starts: {said}"))
}

/// Some recurring jobs.
fn recurring(server: &Server, sink: &Sink) -> Vec<Known> {
    let job = |n: usize| {
        let name = format!("recurring-{n}");
        let body = json!({
            "name": name, "schedule": { "every": format!("{EVERY_MS}ms") }, "action": webhook(sink, "/fast"),
            "retry_policy": retry(), "catch_up": catch_up(),
        });
        let job = server.post("/v1/jobs", &body);
        let id = job["id"].as_str().unwrap().to_owned();
        Known { id, name, due: Due::Every(EVERY_MS), created_at_ms: ms(&job["created_at"]) }
    };
    (0..RECURRING).map(job).collect()
}

/// A program that must succeed; root is what is missing most of the time.
#[track_caller]
fn must(program: &str, arguments: &[&str]) -> String {
    let ended = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let ended = ended.unwrap_or_else(|error| {
        panic!("this test needs `{program}` ({error}): install it, or run `cargo xtask test`, which does")
    });
    let said = String::from_utf8_lossy(&ended.stderr);
    let shown = arguments.join(" ");
    assert!(ended.status.success(), "this test must run as root on Linux: `{program} {shown}` failed: {said}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}

/// A file system of its own in a file, mounted until it is dropped.
struct Disk {
    image: PathBuf,
    at: PathBuf,
}

impl Disk {
    /// A new one of this size.
    fn new(dir: &Path, name: &str, size: &str) -> Self {
        let image = dir.join(format!("{name}.img"));
        must("truncate", &["-s", size, text(&image)]);
        must("mkfs.ext4", &["-q", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", text(&image)]);
        Self::mount(image, dir.join(name))
    }

    fn mount(image: PathBuf, at: PathBuf) -> Self {
        std::fs::create_dir_all(&at).unwrap();
        must("mount", &["-o", "loop", text(&image), text(&at)]);
        Self { image, at }
    }

    /// How many blocks the kernel has written to the device so far.
    fn writes(&self) -> String {
        let device = must("findmnt", &["-n", "-o", "SOURCE", text(&self.at)]);
        let device = device.trim().trim_start_matches("/dev/");
        let stat = std::fs::read_to_string(format!("/sys/block/{device}/stat")).unwrap();
        stat.split_whitespace().nth(4).unwrap().to_owned()
    }

    /// What would be on the platter if the power went now. The copy is one instant only if nothing is written
    /// meanwhile.
    fn cut(&self, to: &Path) {
        for _ in 0..50 {
            let before = self.writes();
            must("cp", &["--sparse=always", text(&self.image), text(to)]);
            if self.writes() == before {
                return;
            }
        }
        panic!("the kernel never stops writing");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", text(&self.at)]).status();
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path of ours")
}

/// The server stands still while the image is copied, so that the copy is what one instant would leave: what was
/// synced, and of the rest what the kernel had happened to write.
#[test]
fn what_was_acknowledged_before_the_power_went_is_there_after() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let disk = Disk::new(dir.path(), "disk", "192M");
    let server = start(&disk.at.join("data"));
    let mut known = recurring(&server, &sink);
    // Jobs and runs that are acknowledged one after the other, as fast as they are answered.
    let mut acknowledged: Vec<(String, String)> = Vec::new();
    for cut in 0..CUTS {
        let until = Instant::now() + Duration::from_millis(700);
        while Instant::now() < until {
            let body = json!({ "name": format!("kept-{}", acknowledged.len()), "action": { "type": "NOOP" } });
            let job = server.post("/v1/jobs", &body)["id"].as_str().unwrap().to_owned();
            let run = server.post(&format!("/v1/jobs/{job}/run"), &json!({}));
            acknowledged.push((job, run["id"].as_str().unwrap().to_owned()));
        }
        // The witness that the cut is one: nobody has synced this.
        std::fs::write(disk.at.join(format!("unsynced-{cut}")), "never synced").unwrap();
        server.signal(Signal::STOP);
        let image = dir.path().join(format!("cut-{cut}.img"));
        disk.cut(&image);
        server.signal(Signal::CONT);
        recover(Disk::mount(image, dir.path().join(format!("cut-{cut}"))), cut, &acknowledged);
    }
    assert!(acknowledged.len() > 50, "{} jobs: nothing happened", acknowledged.len());
    eprintln!("{CUTS} cuts, {} jobs and as many runs acknowledged", acknowledged.len());
    // The one that went on was not harmed either.
    known.retain(|job| job.name.starts_with("recurring"));
    finish(&server, &sink, &known, Arrival::InOrder);
}

/// Starts on what the cut has left, and looks for everything that was acknowledged before it.
fn recover(disk: Disk, cut: usize, acknowledged: &[(String, String)]) {
    let unsynced = std::fs::read_to_string(disk.at.join(format!("unsynced-{cut}"))).unwrap_or_default();
    assert!(unsynced.is_empty(), "what nobody synced has survived: this was no power cut");
    let file = rusqlite::Connection::open(disk.at.join("data/campanile.db")).expect("the file opens");
    let checked: String = file.query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("it can be read");
    assert_eq!(checked, "ok", "cut {cut}");
    drop(file);
    // Without our settings it may call nobody here: its jobs are those of the one that lives on.
    let server = Server::try_start_in("server", &disk.at.join("data"), &[], &[]);
    let server = server.unwrap_or_else(|said| panic!("it starts after cut {cut}: {said}"));
    for (job, run) in acknowledged {
        let found = server.http("GET", &format!("/v1/jobs/{job}"), None).status;
        assert_eq!(found, 200, "cut {cut}: an acknowledged job is gone: {job}");
        let found = server.http("GET", &format!("/v1/executions/{run}"), None).status;
        assert_eq!(found, 200, "cut {cut}: an acknowledged run is gone: {run}");
    }
    server.kill_9();
    let image = disk.image.clone();
    drop(disk);
    let _ = std::fs::remove_file(image);
}

/// `strace`, which makes system calls of a process fail until it is dropped.
struct Strace(Child);

impl Strace {
    fn inject(server: &Server, what: &str) -> Self {
        let pid = server.pid().to_string();
        let log = server.data_dir().join("strace");
        let mut strace = Command::new("strace");
        strace.args(["-f", "-q", "-p", &pid, "-o", text(&log), "-e", "trace=fsync,fdatasync"]);
        strace.args(["-e", &format!("inject=fsync,fdatasync:{what}")]);
        let child = strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut child = child.unwrap_or_else(|error| {
            panic!("this test needs `strace` ({error}): install it, or run `cargo xtask test`, which does")
        });
        // The fault is real once a call was seen to be hit.
        eventually(Duration::from_secs(20), "strace harms the server (needs root)", || {
            assert!(child.try_wait().unwrap().is_none(), "strace cannot attach: this test must run as root");
            std::fs::read_to_string(&log).is_ok_and(|seen| seen.contains("(INJECTED)") || seen.contains("(DELAYED)"))
        });
        Self(child)
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // It detaches when it is asked to end; killed, it would leave the server stopped.
        let _ = Command::new("kill").args(["-INT", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

/// Runs a load over some time with a fault in the middle, and judges.
fn under(fault: impl FnOnce(&Server)) {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let server = start(&dir.path().join("data"));
    let mut known = recurring(&server, &sink);
    let creator = Creator::start_slow(vec![server.url().to_owned()], sink.clone(), 1, 40);
    std::thread::sleep(Duration::from_millis(500));
    fault(&server);
    std::thread::sleep(Duration::from_millis(1_000));
    let created = creator.stop();
    assert_eq!(created.unexpected(&[0, 503, 504, 507]), []);
    assert!(created.known.len() > 10, "nothing happened: {created:?}");
    known.extend(created.known);
    finish(&server, &sink, &known, Arrival::InOrder);
    // What came through is on the disk, whoever reads it.
    let data_dir = server.data_dir().to_owned();
    server.kill_9();
    let again = start(&data_dir);
    known.iter().for_each(|job| drop(again.get(&format!("/v1/jobs/{}", job.id))));
}

#[test]
fn slow_syncs_cost_time_and_nothing_else() {
    under(|server| {
        let strace = Strace::inject(server, "delay_enter=200000");
        std::thread::sleep(Duration::from_secs(3));
        let asked = Instant::now();
        let body = json!({ "name": "slow", "action": { "type": "NOOP" } });
        server.post("/v1/jobs", &body);
        assert!(asked.elapsed() >= Duration::from_millis(200), "answered before its sync: {:?}", asked.elapsed());
        drop(strace);
    });
}

#[test]
fn failing_syncs_are_told_and_survived() {
    under(|server| {
        let strace = Strace::inject(server, "error=EIO");
        let body = json!({ "name": "unlucky", "action": { "type": "NOOP" } });
        let answer =
            http_within(Duration::from_secs(5), "POST", &format!("{}/v1/jobs", server.url()), &[], Some(&body));
        assert!(answer.status >= 500 || answer.status == 0, "acknowledged without a sync: {answer:?}");
        std::thread::sleep(Duration::from_secs(2));
        assert!(server.log().contains("a write failed"), "the log says nothing: {}", server.log());
        drop(strace);
        let status = server.get("/v1/status");
        assert!(status["counters"]["store_errors"].as_u64() > Some(0), "the status says nothing: {status}");
    });
}

/// The log lies on the same disk, as it often does: it is full, too. And the disk is so small that the store's own log would
/// fill it again if it did not start over.
#[test]
fn a_full_disk_is_told_and_survived() {
    let dir = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let disk = Disk::new(dir.path(), "small", "20M");
    let server = start(&disk.at.join("data"));
    let mut known = recurring(&server, &sink);
    let creator = Creator::start_slow(vec![server.url().to_owned()], sink.clone(), 1, 20);
    std::thread::sleep(Duration::from_millis(500));
    // Nothing is left: the next write that needs a block gets none.
    let ballast = disk.at.join("ballast");
    let fill = |size: &str| {
        drop(
            Command::new("dd")
                .args(["if=/dev/zero", &format!("bs={size}"), "conv=notrunc", "oflag=append"])
                .arg(format!("of={}", text(&ballast)))
                .output(),
        )
    };
    fill("64k");
    let refused = || {
        // What is left in blocks that were given before is used up, too.
        fill("1k");
        let body = json!({ "name": "late", "action": { "type": "NOOP" }, "payload": "x".repeat(200_000) });
        http_within(Duration::from_secs(5), "POST", &format!("{}/v1/jobs", server.url()), &[], Some(&body))
    };
    eventually(Duration::from_secs(30), "the disk is full", || refused().status == 503);
    std::thread::sleep(Duration::from_secs(1));
    let health = http_within(Duration::from_secs(5), "GET", &format!("{}/healthz", server.url()), &[], None);
    assert_eq!(health.status, 200, "a full disk ends the process: {health:?}");
    std::fs::remove_file(&ballast).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let status = server.get("/v1/status");
    assert!(status["counters"]["store_errors"].as_u64() > Some(0), "the status says nothing: {status}");
    let created = creator.stop();
    assert_eq!(created.unexpected(&[0, 503, 504, 507]), []);
    known.extend(created.known);
    finish(&server, &sink, &known, Arrival::InOrder);
}
