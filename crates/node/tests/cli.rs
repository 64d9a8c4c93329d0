//! The command line as users meet it: the real binary, its output and its exit codes.

mod common;

use common::{Ran, Reply, Server, Signal, Sink, campanile, eventually, run};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn offline(args: &[&str]) -> Ran {
    run(campanile().args(args))
}

#[test]
fn preview_shows_what_clock_changes_do() {
    let ran =
        offline(&["preview", "30 2 * * *", "--tz", "America/New_York", "--from", "2027-03-13", "-n", "3"]).code(0);
    assert_eq!(
        ran.stdout,
        "\
#  LOCAL                     UTC               NOTE
1  Sat 2027-03-13 02:30 EST  2027-03-13 07:30
2  Sun 2027-03-14 03:00 EDT  2027-03-14 07:00  02:30 does not exist; dst_gap=next_valid (others: shift 03:30, skip)
3  Mon 2027-03-15 02:30 EDT  2027-03-15 06:30
"
    );
    assert_eq!(ran.stderr, "");
}

#[test]
fn preview_as_json_is_for_programs() {
    let ran = offline(&["preview", "0 0 * * *", "--from", "2026-01-01T00:00:00Z", "-n", "2", "-o", "json"]).code(0);
    assert_eq!(
        ran.json(),
        json!({"fires": [
            {"at": "2026-01-02T00:00:00Z", "local": "Fri 2026-01-02 00:00 UTC", "note": null},
            {"at": "2026-01-03T00:00:00Z", "local": "Sat 2026-01-03 00:00 UTC", "note": null},
        ]})
    );
    let fold = offline(&[
        "preview",
        "30 1 * * *",
        "--tz",
        "America/New_York",
        "--from",
        "2026-11-01T00:00:00-04:00",
        "-n",
        "2",
        "--dst-fold",
        "both",
        "-o",
        "json",
    ]);
    let fold = fold.code(0).json();
    assert_eq!(
        (&fold["fires"][0]["at"], &fold["fires"][1]["at"]),
        (&json!("2026-11-01T05:30:00Z"), &json!("2026-11-01T06:30:00Z"))
    );
    assert!(fold["fires"][1]["note"].as_str().unwrap().contains("happens twice"));
    let seconds = offline(&["preview", "every 90s", "--from", "2026-01-01", "-n", "2"]).code(0);
    assert!(seconds.stdout.contains("2026-01-01 00:01:30"), "{}", seconds.stdout);
    let none = offline(&["preview", "2020-01-01T00:00:00Z", "--from", "2026-01-01", "-o", "json"]).code(0);
    assert_eq!((none.json(), none.stderr.as_str()), (json!({"fires": []}), "no fire after that\n"));
}

#[test]
fn the_first_day_counts_and_the_first_instant_does_not() {
    let at = |from: &str| {
        let ran = offline(&["preview", "0 0 * * *", "--tz", "Europe/Berlin", "--from", from, "-n", "1", "-o", "name"]);
        ran.code(0).stdout
    };
    assert_eq!(at("2026-06-01"), "2026-05-31T22:00:00Z\n");
    assert_eq!(at("2026-06-01T00:00"), "2026-05-31T22:00:00Z\n");
    assert_eq!(at("2026-05-31T22:00:00Z"), "2026-06-01T22:00:00Z\n");
}

#[test]
fn explain_says_what_a_schedule_means() {
    let args = ["explain", "30 1 * * *", "--tz", "America/New_York", "--from", "2026-10-30"];
    let ran = offline(&args).code(0);
    for part in [
        "\"At 01:30 every day, New York time.\"\n",
        "  fields   minute 30 | hour 1 | day-of-month * | month * | day-of-week *\n",
        "  rate     1 a day, 365 a year;",
        "  ! DST    Sun 2026-11-01 01:30 happens twice; fires once, at the first (05:30Z); dst_fold=first\n",
        "  ok       Sun 2027-03-14",
    ] {
        assert!(ran.stdout.contains(part), "{part} is missing in {}", ran.stdout);
    }
    let json = offline(&[&args[..], &["-o", "json"]].concat()).code(0).json();
    assert_eq!(json["words"], "At 01:30 every day, New York time.");
    assert_eq!(json["fields"][0], json!({"name": "minute", "value": "30"}));
    let one = offline(&["explain", "H * * * *", "--name", "a", "-o", "name"]).code(0).stdout;
    let other = offline(&["explain", "H * * * *", "--name", "b", "-o", "name"]).code(0).stdout;
    assert_ne!(one, other, "H depends on the name");
}

#[test]
fn refused_expressions_say_where_and_what_instead() {
    let ran = offline(&["preview", "0 25 * * *"]).code(1);
    assert_eq!(ran.stdout, "");
    assert_eq!(ran.stderr, "error: \"25\" is outside the hour field\n  0 25 * * *\n    ^^\nhint: from 0 to 23\n");
    for (args, part) in [
        (&["preview", "0 0 30 2 *"][..], "error: "),
        (&["preview", "@daily", "--tz", "Europe/Berln"], "did you mean Europe/Berlin"),
        (&["preview", "every 90s", "--tz", "Mars/Olympus"], "Mars/Olympus"),
        (&["explain", "@daily", "--dst-gap", "sometimes"], "one of next_valid, shift, skip"),
        (&["explain", ""], "an empty schedule"),
        (&["preview", "-1 * * * *", "-n", "3", "-o", "json"], "\"-1\" is not a value of the minute field"),
        (&["explain", "\u{1b}[31mred"], "error: "),
    ] {
        let ran = offline(args).code(1);
        assert!(ran.stderr.contains(part) && ran.stdout.is_empty(), "{args:?}: {ran:#?}");
        assert!(!ran.stderr.contains('\u{1b}'), "{args:?}: {ran:#?}");
    }
}

#[test]
fn a_wrong_command_line_is_one_line_a_hint_and_64() {
    for args in [
        &["job", "ls", "--bogus"][..],
        &["job", "create"],
        &["job", "create", "x", "--noop"],
        &["job", "create", "x", "--every", "5s"],
        &["job", "create", "x", "--every", "5s", "--cron", "* * * * *", "--noop"],
        &["job", "create", "x", "--every", "soon", "--noop"],
        &["job", "create", "x", "--manual", "--noop", "--payload", "{"],
        &["job", "create", "x", "--manual", "--noop", "--catch-up", "some"],
        &["job", "create", "-f", "/does/not/exist.json"],
        &["job", "create", "-f", "/dev/null", "--max-attempts", "5"],
        &["job", "edit", "x"],
        &["job", "rm", "x"],
        &["job", "run", "x", "--timeout", "5s"],
        &["frobnicate"],
        &["preview", "--timezone", "UTC", "* * * * *"],
        &["preview", "* * * * *", "-n", "0"],
        &["preview", "* * * * *", "--from", "yesterday"],
        &["job", "ls", "--url", "gopher://x"],
        &["server", "--listen", "0.0.0.0:0"],
        &["server", "--slots", "0"],
        &["server", "--store", ""],
        &["server", "--store", "mysql://root@db.example/x"],
        &["migrate", "--to", ""],
        &["migrate", "--unmark", "--to", "postgres://a@localhost/b"],
    ] {
        let ran = offline(args).code(64);
        let lines: Vec<&str> = ran.stderr.lines().collect();
        assert!(ran.stdout.is_empty() && lines[0].starts_with("error: "), "{args:?}: {ran:#?}");
        assert!(lines.len() <= 4, "{args:?}: {ran:#?}");
    }
    let help = offline(&[]);
    assert!(help.code == 64 && help.stderr.contains("Usage:"), "{help:#?}");
    let usage = offline(&["job", "create"]);
    assert!(usage.stderr.contains("hint: `campanile job create --help`"), "{usage:#?}");
    let open = offline(&["server", "--listen", "0.0.0.0:0"]);
    assert!(open.stderr.contains("no authentication") && open.stderr.contains("--insecure-no-auth"), "{open:#?}");
}

#[test]
fn help_version_and_completions_go_to_stdout() {
    for args in [&["--help"][..], &["help"], &["job", "create", "--help"], &["exec", "ls", "-h"], &["--version"]] {
        let ran = offline(args).code(0);
        assert!(!ran.stdout.is_empty() && ran.stderr.is_empty(), "{args:?}: {ran:#?}");
    }
    for command in [
        "dev",
        "server",
        "job create",
        "job ls",
        "job get",
        "job edit",
        "job pause",
        "job resume",
        "job run",
        "job rm",
        "exec ls",
        "exec get",
        "exec cancel",
        "exec wait",
        "explain",
        "preview",
        "config show",
        "completion",
        "bench",
    ] {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let ran = offline(&args).code(0);
        assert!(ran.stdout.contains("Example"), "{command} has no example");
    }
    for shell in ["bash", "zsh", "fish", "powershell"] {
        assert!(offline(&["completion", shell]).code(0).stdout.contains("campanile"));
    }
}

#[test]
fn a_server_that_is_not_there_is_7() {
    let ran = offline(&["job", "ls", "--url", "http://127.0.0.1:1"]).code(7);
    assert!(ran.stderr.starts_with("error: cannot reach http://127.0.0.1:1: "), "{ran:#?}");
    assert!(ran.stderr.contains("hint: start a server with `campanile dev`"), "{ran:#?}");
    // Doctor did its work: one of its checks failed.
    let ran = offline(&["doctor", "--url", "http://127.0.0.1:1"]).code(1);
    assert!(ran.stdout.starts_with("fail  cannot reach"), "{ran:#?}");
}

#[test]
fn the_configuration_tells_where_each_value_came_from() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("campanile.toml"), "[engine]\nslots = 7\n").unwrap();
    let ran = run(campanile()
        .current_dir(dir.path())
        .env("CAMPANILE_LOG_LEVEL", "debug")
        .args(["config", "show", "-o", "json"]));
    let rows = ran.code(0).json();
    let row = |key: &str| rows.as_array().unwrap().iter().find(|row| row["key"] == key).unwrap().clone();
    assert_eq!(
        (&row("engine.slots")["value"], &row("engine.slots")["origin"]),
        (&json!("7"), &json!("campanile.toml"))
    );
    assert_eq!(row("log.level")["origin"], "CAMPANILE_LOG_LEVEL");
    assert_eq!(row("server.listen")["value"], "127.0.0.1:8080");
    std::fs::write(dir.path().join("campanile.toml"), "[engine]\nslot = 7\ndrain = 'soon'\n").unwrap();
    let ran = run(campanile().current_dir(dir.path()).args(["server"])).code(64);
    assert!(ran.stderr.contains("did you mean `engine.slots`?") && ran.stderr.contains("engine.drain"), "{ran:#?}");
}

#[test]
fn a_reader_that_leaves_ends_the_command_quietly() {
    let args = ["preview", "* * * * *", "-n", "1000", "-o", "json"];
    let mut child = campanile().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::with_capacity(8, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_job_from_creation_to_deletion() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);

    let created = server
        .cli(&[
            "job",
            "create",
            "hello",
            "--every",
            "1h",
            "--noop",
            "--tag",
            "a",
            "--payload",
            "{\"n\": 123456789012345678901}",
        ])
        .code(0);
    assert!(
        created.stderr.starts_with("created hello (job_") && created.stderr.matches("  next  ").count() == 3,
        "{created:#?}"
    );
    assert!(created.stdout.starts_with("NAME ") && created.stdout.contains("every 1h"), "{created:#?}");
    let again = server.cli(&["job", "create", "hello", "--every", "1h", "--noop"]).code(5);
    assert!(again.stderr.starts_with("error: the name `hello` is taken") && again.stdout.is_empty(), "{again:#?}");

    let job = server.cli(&["job", "get", "hello", "-o", "json"]).code(0);
    assert!(job.stdout.contains("123456789012345678901"), "numbers keep their digits: {}", job.stdout);
    let id = job.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(server.cli(&["job", "get", &id, "-o", "name"]).code(0).stdout, "hello\n");
    assert_eq!(server.cli(&["job", "get", "name:hello", "-o", "json"]).code(0).json(), job.json());
    let yaml = server.cli(&["job", "get", "hello", "-o", "yaml"]).code(0).stdout;
    assert!(yaml.contains("\nname: hello\n") && yaml.contains("\nschedule:\n  type: EVERY\n"), "{yaml}");
    let table = server.cli(&["job", "get", "hello"]).code(0).stdout;
    assert!(table.contains("schedule  every 1h\n") && !table.contains('\u{1b}'), "{table}");
    let lost = server.cli(&["job", "get", "nope"]).code(3);
    assert_eq!(lost.stderr, "error: no job is named `nope`\nhint: `campanile job ls` lists the jobs\n");

    let edited = server
        .cli(&[
            "job",
            "edit",
            "hello",
            "--cron",
            "0 3 * * *",
            "--tz",
            "Europe/Berlin",
            "--if-version",
            "1",
            "-o",
            "json",
        ])
        .code(0);
    let edited = edited.json();
    assert_eq!((&edited["version"], &edited["schedule"]["timezone"]), (&json!(2), &json!("Europe/Berlin")));
    assert_eq!(edited["tags"], json!(["a"]), "what was not named stays");
    server.cli(&["job", "edit", "hello", "--every", "1h", "--if-version", "1"]).code(5);
    let refused = server.cli(&["job", "edit", "hello", "--cron", "0 25 * * *"]).code(1);
    assert!(refused.stderr.contains("  0 25 * * *\n    ^^\n"), "{refused:#?}");
    let dry = server.cli(&["job", "edit", "hello", "--manual", "--dry-run", "-o", "json"]).code(0).json();
    assert_eq!(dry["schedule"]["type"], "NONE");
    assert_eq!(server.cli(&["job", "get", "hello", "-o", "json"]).json()["version"], 2);

    assert_eq!(server.cli(&["job", "pause", "hello", "-o", "json"]).code(0).json()["state"], "PAUSED");
    assert_eq!(server.cli(&["job", "ls", "--state", "paused", "-o", "name"]).code(0).stdout, "hello\n");
    assert_eq!(server.cli(&["job", "resume", &id, "-o", "json"]).code(0).json()["state"], "ACTIVE");
    let partial = server.cli(&["job", "pause", "hello", "nope"]).code(8);
    assert!(partial.stderr.contains("error: 1 of 2 failed\n  nope: no job is named `nope`"), "{partial:#?}");

    server.cli(&["job", "rm", "hello"]).code(64);
    let removed = server.cli(&["job", "rm", "hello", "--yes"]).code(0);
    assert_eq!((removed.stdout.as_str(), removed.stderr.as_str()), ("", "deleted hello\n"));
    server.cli(&["job", "get", "hello"]).code(3);
    let empty = server.cli(&["job", "ls"]).code(0);
    assert_eq!(empty.stderr, "no jobs\n");
    assert_eq!(server.cli(&["job", "ls", "-o", "json"]).json()["data"], json!([]));
    assert!(server.stop_term().success());
}

#[test]
fn the_versions_of_a_job_are_listed_compared_and_gone_back_to() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let big = "123456789012345678901";
    server
        .cli(&["job", "create", "report", "--every", "1h", "--noop", "--payload", &format!("{{\"n\":{big}}}")])
        .code(0);
    let nothing = server.cli(&["job", "diff", "report"]).code(64);
    assert_eq!(nothing.stderr, "error: the job has one version, and nothing to compare it with\n");
    server.cli(&["job", "edit", "report", "--payload", "{\"n\":2}", "--tag", "a"]).code(0);
    server.cli(&["job", "pause", "report"]).code(0);

    let history = server.cli(&["job", "history", "report"]).code(0).stdout;
    let rows: Vec<Vec<&str>> = history.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["VERSION", "SINCE", "UNTIL", "STATE", "CHANGED"], "{history}");
    let words: Vec<(&str, &str, String)> = rows[1..].iter().map(|row| (row[0], row[3], row[4..].join(" "))).collect();
    let said = |what: &str| what.to_owned();
    assert_eq!(
        words,
        [("v3", "PAUSED", said("paused")), ("v2", "ACTIVE", said("payload, tags")), ("v1", "ACTIVE", said("created"))]
    );
    assert_eq!((rows[1][2], rows[2][2]), ("now", rows[1][1]), "each ends where the next one begins: {history}");
    assert_eq!(server.cli(&["job", "history", "report", "--limit", "1", "-o", "name"]).code(0).stdout, "3\n");

    let diff = server.cli(&["job", "diff", "report", "1", "2"]).code(0).stdout;
    let expected = format!("version 1 -> 2\n- /payload/n  {big}\n+ /payload/n  2\n- /tags  []\n+ /tags  [\"a\"]\n");
    assert_eq!(diff, expected);
    let newest = server.cli(&["job", "diff", "report", "-o", "json"]).code(0).json();
    assert_eq!((&newest["from"], &newest["to"]), (&json!(2), &json!(3)));
    assert_eq!(newest["changes"], json!([{ "path": "/state", "from": "ACTIVE", "to": "PAUSED" }]));
    let lost = server.cli(&["job", "diff", "report", "9"]).code(3);
    assert!(lost.stderr.contains("has no version 9") && lost.stdout.is_empty(), "{lost:#?}");

    let dry = server.cli(&["job", "revert", "report", "--to", "1", "--dry-run"]).code(0);
    assert!(dry.stderr.starts_with("would revert to version 1: report"), "{dry:#?}");
    assert_eq!(server.cli(&["job", "get", "report", "-o", "json"]).json()["version"], 3);
    server.cli(&["job", "revert", "report", "--to", "1", "--if-version", "2"]).code(5);
    let reverted = server.cli(&["job", "revert", "report", "--to", "1", "-o", "json"]).code(0);
    assert!(reverted.stderr.starts_with("reverted to version 1: report"), "{reverted:#?}");
    assert!(reverted.stdout.contains(big), "numbers keep their digits: {}", reverted.stdout);
    let job = reverted.json();
    assert_eq!((&job["version"], &job["state"], &job["tags"]), (&json!(4), &json!("PAUSED"), &json!([])));
    let unknown = server.cli(&["job", "revert", "report", "--to", "9"]).code(1);
    assert!(unknown.stderr.starts_with("error: "), "{unknown:#?}");

    server.cli(&["job", "edit", "report", "--description", "Closes the books.\nAsk \u{1b}[31mAda."]).code(0);
    let shown = server.cli(&["job", "get", "report"]).code(0).stdout;
    assert!(shown.contains("\ndescription  Closes the books.") && !shown.contains('\u{1b}'), "{shown}");
    assert_eq!(server.cli(&["job", "diff", "report", "-o", "name"]).code(0).stdout, "/description\n");
    server.cli(&["job", "edit", "report", "--description", ""]).code(0);
    assert!(!server.cli(&["job", "get", "report"]).code(0).stdout.contains("description"));
    assert!(server.stop_term().success());
}

#[test]
fn executions_are_listed_awaited_and_cancelled() {
    let (dir, sink) = (tempfile::tempdir().unwrap(), Sink::start());
    let server = Server::start(dir.path(), &[]);
    sink.reply("/broken", Reply::status(500));
    sink.reply("/slow", Reply::after(Duration::from_secs(30)));
    for (name, path) in [("good", "/ok"), ("bad", "/broken"), ("slow", "/slow")] {
        let retry = ["--max-attempts", "2", "--backoff", "fixed", "--initial-delay", "50ms"];
        let args = ["job", "create", name, "--manual", "--webhook", &sink.url(path), "--payload", "[1]"];
        server.cli(&[&args[..], &retry].concat()).code(0);
    }

    let good = server.cli(&["job", "run", "good", "--wait", "-o", "json"]).code(0).json();
    assert_eq!((&good["state"], &good["kind"]), (&json!("SUCCEEDED"), &json!("MANUAL")));
    let delivery = &sink.on("/ok")[0];
    assert_eq!(
        (delivery.execution.as_str(), delivery.attempt, delivery.body.as_slice()),
        (good["id"].as_str().unwrap(), 1, &b"[1]"[..])
    );
    assert!(delivery.arrived_at_ms >= delivery.scheduled_at_ms && delivery.fence > 0, "{delivery:?}");

    let bad = server.cli(&["job", "run", "bad", "--wait", "--timeout", "20s"]).code(10);
    assert!(bad.stderr.contains("ended DEAD: "), "{bad:#?}");
    let id =
        server.cli(&["exec", "ls", "--job", "bad", "--state", "dead", "-o", "name"]).code(0).stdout.trim().to_owned();
    let got = server.cli(&["exec", "get", &id]).code(0).stdout;
    assert!(got.contains("DEAD (ATTEMPTS_EXHAUSTED)") && got.matches("http_500").count() == 2, "{got}");
    let got = server.cli(&["exec", "get", &id, "-o", "json"]).code(0).json();
    assert_eq!((got["attempts"].as_array().unwrap().len(), &got["state"]), (2, &json!("DEAD")));
    server.cli(&["exec", "wait", &id]).code(10);
    server.cli(&["exec", "cancel", &id]).code(5);

    let slow = server.cli(&["job", "run", "slow", "-o", "name", "-q"]).code(0);
    assert_eq!(slow.stderr, "");
    let slow = slow.stdout.trim();
    let late = server.cli(&["exec", "wait", slow, "--timeout", "300ms"]).code(6);
    assert!(late.stderr.contains("is still"), "{late:#?}");
    let mut waiting = campanile().env("CAMPANILE_URL", server.url()).args(["exec", "wait", slow]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    let pid = rustix::process::Pid::from_raw(waiting.id() as i32).unwrap();
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    let cancelled = server.cli(&["exec", "cancel", slow, "-o", "json"]).code(0).json();
    assert_eq!(cancelled["state"], "CANCELLED");
    server.cli(&["exec", "wait", slow]).code(10);

    let listed = server.cli(&["exec", "ls", "--since", "1h", "-o", "json"]).code(0).json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 3);
    let table = server.cli(&["exec", "ls", "--limit", "2"]).code(0);
    assert_eq!(table.stdout.lines().count(), 3, "{table:#?}");
    assert!(table.stderr.contains("there are more"), "{table:#?}");
    server.cli(&["exec", "get", "exe_nope"]).code(3);
    server.cli(&["exec", "get", "exe_00000000000000000000000000"]).code(3);
    server.cli(&["exec", "ls", "--job", "nope"]).code(3);
    server.cli(&["job", "run", "nope"]).code(3);
    let keyed = ["job", "run", "good", "--idempotency-key", "k", "-o", "name"];
    assert_eq!(server.cli(&keyed).code(0).stdout, server.cli(&keyed).code(0).stdout, "one key, one execution");
}

#[test]
fn many_jobs_come_from_a_file_and_go_over_many_pages() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let create = |jobs: &serde_json::Value| {
        let mut child = campanile()
            .env("CAMPANILE_URL", server.url())
            .args(["job", "create", "-f", "-", "-q"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(jobs.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap().status.code().unwrap()
    };
    let job = |name: String| json!({"name": name, "action": {"type": "NOOP"}});
    let jobs: Vec<_> = (0..1_203).map(|n| job(format!("j{n:04}"))).collect();
    assert_eq!(create(&json!(jobs)), 0);
    assert_eq!(create(&json!([job("j0000".into()), job("new".into())])), 8);
    assert_eq!(create(&json!([job("j0000".into())])), 1);
    assert_eq!(create(&job("one".into())), 0);
    let all = server.cli(&["job", "ls", "--all", "-o", "name"]).code(0).stdout;
    assert_eq!(all.lines().count(), 1_205);
    let some = server.cli(&["job", "ls", "--limit", "700", "--prefix", "j", "-o", "json"]).code(0).json();
    assert_eq!((some["data"].as_array().unwrap().len(), &some["has_more"]), (700, &json!(true)));
}

#[test]
fn the_server_says_how_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let status = server.cli(&["status", "-o", "json"]).code(0).json();
    assert_eq!((&status["ready"], &status["store"]["kind"]), (&json!(true), &json!("sqlite")));
    assert!(server.cli(&["status"]).code(0).stdout.contains("ready     yes\n"));
    let doctor = server.cli(&["doctor"]).code(0).stdout;
    assert!(doctor.lines().all(|line| line.starts_with("ok ") || line.starts_with("warn ")), "{doctor}");
    let checks = server.cli(&["doctor", "-o", "json"]).code(0).json();
    assert!(checks["checks"].as_array().unwrap().iter().all(|check| check["level"] != "FAIL"), "{checks}");
    // Another one on the same directory is refused, and says who has it.
    let refused = Server::try_start("server", dir.path(), &[]).err().expect("two processes on one directory");
    assert!(refused.contains("in use by process") && refused.contains("--data-dir"), "{refused}");
    // How a process ended is shown as the standard library shows it.
    assert!(refused.contains("ExitStatus(unix_wait_status(1280))"), "a conflict is 5: {refused}");
    assert_eq!(server.cli(&["status", "-o", "json"]).code(0).json()["node"], status["node"]);
}

#[test]
fn only_dev_lets_webhooks_go_to_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::try_start("server", dir.path(), &["--log", "json"]).unwrap();
    let refused = server.cli(&["job", "create", "x", "--manual", "--webhook", "https://127.0.0.1/x"]).code(1);
    assert!(refused.stderr.contains("this host itself"), "{refused:#?}");
    assert!(server.stop_term().success());
    let log = std::fs::read_to_string(dir.path().join("log")).unwrap();
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
    assert!(log.contains("\"ready\"") && log.contains("\"stopped\""), "{log}");
}

#[test]
fn jobs_survive_a_kill_and_the_demo_lives() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--demo"]);
    assert_eq!(server.cli(&["job", "ls", "--tag", "demo", "-o", "name"]).code(0).stdout.lines().count(), 6);
    server.cli(&["job", "create", "mine", "--every", "200ms", "--noop"]).code(0);
    eventually(SOON, "an execution", || server.executions("mine").iter().any(|e| e["state"] == "SUCCEEDED"));
    let before = server.executions("mine").len();
    server.kill_9();
    let server = Server::start(dir.path(), &["--demo"]);
    assert_eq!(server.cli(&["job", "ls", "-o", "name"]).code(0).stdout.lines().count(), 7);
    eventually(SOON, "more executions", || server.executions("mine").len() > before);
    eventually(SOON, "a webhook of the demo", || {
        server.executions("demo-flaky").iter().any(|e| e["state"] == "SUCCEEDED")
    });
    assert!(server.stop_term().success());
}

#[test]
fn a_second_signal_does_not_wait() {
    let (dir, sink) = (tempfile::tempdir().unwrap(), Sink::start());
    let mut server = Server::start(dir.path(), &[]);
    sink.reply("/slow", Reply::after(Duration::from_secs(60)));
    server.cli(&["job", "create", "slow", "--manual", "--webhook", &sink.url("/slow"), "--timeout", "2m"]).code(0);
    server.cli(&["job", "run", "slow"]).code(0);
    sink.wait_for(1, SOON);
    server.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.is_alive(), "it waits for what runs: {}", server.log());
    server.signal(Signal::INT);
    eventually(Duration::from_secs(5), "the end", || !server.is_alive());
}
