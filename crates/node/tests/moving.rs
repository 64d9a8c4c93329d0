//! Backups, restores, and the move to PostgreSQL, as an operator does them: with the real binary.

mod common;

use common::{Ran, Reply, Server, Sink, campanile, eventually, run};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn offline(args: &[&str]) -> Ran {
    run(campanile().args(args))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// Jobs of several kinds: ended well, dead, retried, paused, to come, deleted; and who wants to hear of it.
fn fill(server: &Server, sink: &Sink) {
    sink.reply("/fail", Reply::status(500));
    server.cli(&["notify", "add", &sink.url("/events"), "--on", "dead,recovered"]).code(0);
    for (name, args) in [
        ("often", &["--every", "1s", "--noop"][..]),
        ("later", &["--cron", "0 3 * * *", "--tz", "Europe/Berlin", "--noop", "--tag", "a"]),
        ("by-hand", &["--manual", "--noop", "--payload", "{\"text\":\"ü 日本\"}"]),
        ("gone", &["--manual", "--noop"]),
        ("still", &["--every", "1h", "--noop"]),
    ] {
        server.cli(&[&["job", "create", name], args].concat()).code(0);
    }
    let url = sink.url("/fail");
    let fails = ["--manual", "--webhook", &url, "--max-attempts", "2", "--initial-delay", "100ms"];
    server.cli(&[&["job", "create", "fails"], &fails[..]].concat()).code(0);
    server.cli(&["job", "run", "by-hand", "--wait"]).code(0);
    server.cli(&["job", "run", "gone", "--wait"]).code(0);
    server.cli(&["job", "rm", "gone", "--yes"]).code(0);
    server.cli(&["job", "pause", "still"]).code(0);
    server.cli(&["job", "run", "fails"]).code(0);
    eventually(SOON, "a dead execution", || {
        server.executions("fails").iter().any(|execution| execution["state"] == "DEAD")
    });
    eventually(SOON, "a fire", || !server.executions("often").is_empty());
}

/// What an installation holds, as far as it does not change by itself.
fn holdings(server: &Server) -> Value {
    let listed = server.cli(&["job", "ls", "--all", "-o", "name"]).code(0).stdout;
    let mut names: Vec<&str> = listed.lines().filter(|name| !name.starts_with("load-")).collect();
    names.sort_unstable();
    let executions = |job: &str| -> Vec<Value> {
        let all = server.executions(job);
        all.iter().map(|e| json!([e["id"], e["state"], e["attempt"], e["finished_at"]])).collect()
    };
    json!({
        "jobs": names,
        "by-hand": executions("by-hand"),
        "fails": executions("fails"),
        "groups": server.cli(&["dead", "ls", "-o", "json"]).code(0).json(),
    })
}

#[test]
fn a_backup_under_load_serves_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let (data, other) = (dir.path().join("data"), dir.path().join("other"));
    let file = dir.path().join("monday.db");
    let sink = Sink::start();
    let server = Arc::new(Server::start(&data, &[]));
    fill(&server, &sink);
    let before = holdings(&server);

    let stop = Arc::new(AtomicBool::new(false));
    let load = std::thread::spawn({
        let (server, stop) = (server.clone(), stop.clone());
        move || {
            let mut made = 0;
            while !stop.load(Ordering::Relaxed) {
                let job = json!({"name": format!("load-{made}"), "action": {"type": "NOOP"}});
                server.post("/v1/jobs", &job);
                made += 1;
            }
            made
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    let backup = ["backup", text(&file), "--data-dir", text(&data), "-o", "json"];
    let ran = offline(&backup).code(0);
    stop.store(true, Ordering::Relaxed);
    let made: i64 = load.join().unwrap();
    assert!(made > 0);
    assert!(ran.stderr.contains("secrets are not part of it"), "{ran:#?}");
    let told = ran.json();
    let jobs = told["jobs"].as_i64().unwrap();
    assert!(jobs >= 5 && jobs <= 5 + made, "{told}");
    assert_eq!(told["bytes"].as_u64().unwrap(), std::fs::metadata(&file).unwrap().len());

    // Neither is written over, nor replaced under a server.
    let again = offline(&backup).code(5);
    assert!(again.stderr.contains("--force"), "{again:#?}");
    let with_secrets = [&backup[..4], &["--force", "--with-secrets"]].concat();
    let ran = offline(&with_secrets).code(0);
    assert!(ran.stderr.contains("monday.db.webhook-secret and "), "{ran:#?}");
    let in_use = offline(&["restore", text(&file), "--data-dir", text(&data), "--force"]).code(5);
    assert!(in_use.stderr.contains("in use by process"), "{in_use:#?}");
    drop(server);
    let exists = offline(&["restore", text(&file), "--data-dir", text(&data)]).code(5);
    assert!(exists.stderr.contains("--force"), "{exists:#?}");

    offline(&["restore", text(&file), "--data-dir", text(&other), "--with-secrets"]).code(0);
    for name in ["webhook-secret", "cursor-key"] {
        let secret = |dir: &Path| std::fs::read(dir.join(name)).unwrap();
        assert_eq!(secret(&other), secret(&data), "{name}");
    }
    let restored = Server::start(&other, &[]);
    assert_eq!(holdings(&restored), before);
    let fired = restored.executions("often").len();
    eventually(SOON, "it fires again", || restored.executions("often").len() > fired);

    let replaced = offline(&["restore", text(&file), "--data-dir", text(&data), "--force"]).code(0);
    assert!(replaced.stdout.contains("campanile.db.before-restore"), "{replaced:#?}");
    assert!(data.join("campanile.db.before-restore").is_file());
    for (args, code) in [
        (&["restore", "/does/not/exist", "--data-dir", text(dir.path())][..], 3),
        (&["backup", text(&dir.path().join("x")), "--data-dir", "/does/not/exist"], 3),
        (&["backup", text(&data.join("campanile.db")), "--force", "--data-dir", text(&data)], 64),
    ] {
        assert!(offline(args).code(code).stderr.starts_with("error: "));
    }
}

fn port(url: &str) -> &str {
    url.rsplit(':').next().and_then(|rest| rest.split('/').next()).expect("a port")
}

/// A schema of a test, dropped in the end.
struct Schema(String);

impl Schema {
    fn sql(&self, sql: &str) -> u64 {
        let options = campanile_store::postgres::Options {
            schema: self.0.clone(),
            ..campanile_store::postgres::Options::new(campanile_testkit::postgres::url(), "node:test")
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let target = campanile_pg::Target::new(&options).unwrap();
            let (client, connection) = target.connect().await.unwrap();
            tokio::spawn(connection);
            client.execute(sql, &[]).await.unwrap()
        })
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        self.sql(&format!("DROP SCHEMA IF EXISTS {} CASCADE", self.0));
    }
}

#[test]
fn an_installation_moves_to_postgresql_and_goes_on_there() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let sink = Sink::start();
    let (url, schema) = (campanile_testkit::postgres::url(), Schema(campanile_testkit::postgres::schema()));
    let server = Server::start(&data, &[]);
    fill(&server, &sink);
    let migrate = ["migrate", "--to", &url, "--schema", &schema.0, "--data-dir", text(&data)];
    let json = |extra: &[&str]| offline(&[&migrate[..], &["-o", "json"], extra].concat());

    let in_use = offline(&migrate).code(5);
    assert!(in_use.stderr.contains("in use by process"), "{in_use:#?}");
    let planned = json(&["--dry-run"]).code(0);
    assert!(planned.stderr.contains("nothing was done"), "{planned:#?}");
    let before = holdings(&server);
    assert!(server.stop_term().success());

    let first = json(&[]).code(0).json();
    assert_eq!((&first["verified"], first["written"].as_u64().unwrap() > 0), (&json!(true), true), "{first:#}");
    let second = json(&[]).code(0).json();
    assert_eq!((&second["verified"], &second["written"]), (&json!(true), &json!(0)), "{second:#}");
    assert_eq!(first["tables"], second["tables"]);
    let shown = offline(&migrate).code(0);
    assert!(shown.stdout.contains("verified: 0 rows written"), "{shown:#?}");
    assert!(shown.stderr.contains("never again"), "{shown:#?}");

    // What was moved does not fire a second time, unless somebody says so.
    let refused = Server::try_start("dev", &data, &[]).err().expect("it was moved");
    assert!(refused.contains(&format!("was moved to postgres://127.0.0.1:{}", port(&url))), "{refused}");
    assert!(refused.contains(&format!("schema {} at 20", schema.0)), "{refused}");
    assert!(refused.contains("campanile migrate --unmark"), "{refused}");
    let unmark = ["migrate", "--unmark", "--data-dir", text(&data)];
    assert!(offline(&unmark).code(0).stdout.contains("servers start on"));
    assert!(offline(&unmark).code(0).stdout.contains("was not marked"));
    offline(&migrate).code(0);

    // One row that is not as it was.
    let move_later = |by: &str| {
        let of = "WHERE job_id = (SELECT id FROM jobs WHERE name = 'later')";
        format!("UPDATE cursors SET next_fire_at = next_fire_at {by} {of}")
    };
    assert_eq!(schema.sql(&move_later("+ 1")), 1);
    let wrong = offline(&migrate).code(1);
    assert!(wrong.stderr.contains("1 of 24 tables differ") && wrong.stderr.contains("cursors: job_id="), "{wrong:#?}");
    assert!(wrong.stdout.contains("NOT verified"), "{wrong:#?}");
    assert_eq!(schema.sql(&move_later("- 1")), 1);
    offline(&migrate).code(0);

    // Webhooks stay signed by the same secret.
    let secret = std::fs::read_to_string(data.join("webhook-secret")).unwrap();
    let kept = format!("SELECT 1 FROM meta WHERE key = 'webhook_secret' AND value = '{}'", secret.trim());
    assert_eq!(schema.sql(&kept), 1);

    let config = dir.path().join("campanile.toml");
    std::fs::write(&config, format!("[store]\nurl = \"{url}\"\nschema = \"{}\"\n", schema.0)).unwrap();
    let new = dir.path().join("new");
    let moved = Server::try_start("server", &new, &["--config", text(&config)]).expect("it starts on PostgreSQL");
    assert_eq!(holdings(&moved), before);
    let fired = moved.executions("often").len();
    eventually(SOON, "it fires again", || moved.executions("often").len() > fired);
    moved.cli(&["job", "run", "by-hand", "--wait"]).code(0);
    assert!(moved.stop_term().success());
    let used = offline(&migrate).code(5);
    assert!(used.stderr.contains("has used it since"), "{used:#?}");
}
