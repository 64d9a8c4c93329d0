//! What the API does, beyond single requests: keys, versions, pages, dry runs, runs.

mod rig;

use http::Method;
use rig::Rig;
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_makes_a_create_happen_once() {
    let rig = Rig::manual().await;
    let body = r#"{"name":"a","action":{"type":"NOOP"},"schedule":"@daily"}"#;
    let rig = &rig;
    let send = async |body: &'static str, key: &'static str| {
        rig.ask(Method::POST, "/v1/jobs", &[JSON, ("idempotency-key", key)], body).await
    };
    let first = send(body, "k1").await;
    assert_eq!(first.status, 201, "{}", first.text);
    let again = send(r#"{ "schedule":"@daily", "name":"a", "action":{"type":"NOOP"} }"#, "\"k1\"").await;
    assert_eq!((again.status, again.header("idempotency-replayed")), (first.status, "true"));
    assert_eq!(again.text, first.text);
    assert_eq!((again.header("location"), again.header("etag")), (first.header("location"), first.header("etag")));
    let other = send(r#"{"name":"b","action":{"type":"NOOP"}}"#, "k1").await;
    assert_eq!(other.refusal(), (422, "key_reused".into()));
    let taken = send(body, "k2").await;
    assert_eq!(taken.refusal(), (409, "name_taken".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_requests_with_one_key_make_one_job() {
    let rig = std::sync::Arc::new(Rig::manual().await);
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let rig = rig.clone();
            tokio::spawn(async move {
                let body = r#"{"name":"one","action":{"type":"NOOP"}}"#;
                rig.ask(Method::POST, "/v1/jobs", &[JSON, ("idempotency-key", "k")], body).await
            })
        })
        .collect();
    let mut ids = Vec::new();
    for task in tasks {
        let answer = task.await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.text);
        ids.push(answer.json()["id"].as_str().unwrap().to_owned());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repetition_is_answered_again_though_its_first_time_changed_what_it_refers_to() {
    let rig = Rig::manual().await;
    // The instant has passed when the create is repeated.
    let body = r#"{"name":"soon","action":{"type":"NOOP"},"run_at":"2026-11-16T02:00:05Z"}"#;
    let create = async || rig.ask(Method::POST, "/v1/jobs", &[JSON, ("idempotency-key", "c")], body).await;
    let first = create().await;
    assert_eq!(first.status.as_u16(), 201, "{}", first.text);
    rig.clock.as_ref().unwrap().advance(60_000);
    let again = create().await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, "true"), "{}", again.text);
    // The version has grown by the first time.
    let pause = async || {
        let headers = [("if-match", "\"v1\""), ("idempotency-key", "p")];
        rig.ask(Method::POST, "/v1/jobs/name:soon/pause", &headers, "").await
    };
    assert_eq!(pause().await.status.as_u16(), 200);
    let again = pause().await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, "true"), "{}", again.text);
    // The job is gone by the first time.
    let delete = async || rig.ask(Method::DELETE, "/v1/jobs/name:soon", &[("idempotency-key", "d")], "").await;
    assert_eq!(delete().await.status.as_u16(), 204);
    let again = delete().await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (204, "true"), "{}", again.text);
    let without = rig.ask(Method::DELETE, "/v1/jobs/name:soon", &[], "").await;
    assert_eq!(without.status.as_u16(), 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_guard_writes_and_save_reads() {
    let rig = Rig::manual().await;
    let id = rig.create("a", "").await;
    let path = format!("/v1/jobs/{id}");
    let patch = async |version: &'static str| {
        rig.ask(Method::PATCH, &path, &[JSON, ("if-match", version)], r#"{"priority":"low"}"#).await
    };
    let changed = patch("\"v1\"").await;
    assert_eq!((changed.status.as_u16(), changed.header("etag")), (200, "\"v2\""), "{}", changed.text);
    assert_eq!(patch("\"v1\"").await.refusal(), (412, "version_mismatch".into()));
    let known = rig.ask(Method::GET, &path, &[("if-none-match", "\"v2\"")], "").await;
    assert_eq!((known.status.as_u16(), known.text.as_str()), (304, ""));
    let unknown = rig.ask(Method::GET, &path, &[("if-none-match", "\"v1\"")], "").await;
    assert_eq!(unknown.status, 200);
    let gone = rig.ask(Method::DELETE, &path, &[("if-match", "\"v1\"")], "").await;
    assert_eq!(gone.refusal(), (412, "version_mismatch".into()));
    let gone = rig.ask(Method::DELETE, &path, &[("if-match", "\"v2\"")], "").await;
    assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
    assert_eq!(rig.get(&path).await.refusal(), (404, "job_not_found".into()));
    assert_eq!(rig.get(&format!("{path}/executions")).await.status, 200, "history stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn put_by_name_creates_and_then_replaces() {
    let rig = Rig::manual().await;
    let put = |headers: Vec<(&'static str, &'static str)>, body: &'static str| {
        let rig = &rig;
        async move { rig.ask(Method::PUT, "/v1/jobs/name:deploy", &[&headers[..], &[JSON]].concat(), body).await }
    };
    let body = r#"{"action":{"type":"NOOP"},"schedule":"@hourly"}"#;
    let made = put(vec![], body).await;
    assert_eq!((made.status.as_u16(), made.header("etag")), (201, "\"v1\""), "{}", made.text);
    let replaced = put(vec![], r#"{"action":{"type":"NOOP"},"schedule":"@daily"}"#).await;
    assert_eq!((replaced.status.as_u16(), replaced.header("etag")), (200, "\"v2\""), "{}", replaced.text);
    assert_eq!(replaced.json()["id"], made.json()["id"]);
    assert_eq!(put(vec![("if-none-match", "*")], body).await.refusal(), (412, "job_exists".into()));
    // What is shown can be sent back.
    let shown = rig.get("/v1/jobs/name:deploy").await;
    let again = rig.ask(Method::PUT, "/v1/jobs/name:deploy", &[JSON], shown.text.clone()).await;
    assert_eq!(again.status, 200, "{}", again.text);
    let (mut before, mut after) = (shown.json(), again.json());
    for job in [&mut before, &mut after] {
        job["version"] = Value::Null;
        job["updated_at"] = Value::Null;
        job["effective_at"] = Value::Null;
    }
    assert_eq!(before, after);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_changes_only_what_it_names() {
    let rig = Rig::manual().await;
    let fields = r#","schedule":{"cron":"0 3 * * *","timezone":"Europe/Berlin","max_fires":9},"payload":{"a":1,"b":[2]},
        "timeout":"5m","tags":["x"],"catch_up":{"mode":"last_n","n":3},"spread":"1m","retry":{"max_retries":4}"#;
    let id = rig.create("a", fields).await;
    let path = format!("/v1/jobs/{id}");
    let patch = |body: &'static str| rig.ask(Method::PATCH, &path, &[JSON], body);
    let before = rig.get(&path).await.json();
    let after = patch(r#"{"payload":{"a":null,"c":1e400},"timeoutSec":9}"#).await;
    assert_eq!(after.status, 200, "{}", after.text);
    assert!(after.text.contains(r#""payload":{"b":[2],"c":1e400}"#), "{}", after.text);
    let rig_after = rig.get(&path).await;
    assert!(rig_after.text.contains(r#""payload":{"b":[2],"c":1e400}"#), "{}", rig_after.text);
    let fixed = patch(r#"{"payload":5}"#).await.json();
    for field in ["name", "schedule", "action", "retry_policy", "catch_up", "spread_ms", "tags", "priority", "pool"] {
        assert_eq!(fixed[field], before[field], "{field}");
    }
    assert_eq!((&fixed["timeout_ms"], &fixed["payload"], &fixed["version"]), (&json!(9000), &json!(5), &json!(3)));
    let other = patch(r#"{"schedule":{"every":"90s"},"timeout":null,"catch_up":"none"}"#).await.json();
    assert_eq!(other["schedule"], json!({"type":"EVERY","every_ms":90000,"phase_ms":0,"max_fires":9}));
    assert_eq!((&other["timeout_ms"], &other["catch_up"]["mode"]), (&json!(30000), &json!("NONE")));
    assert_eq!(patch(r#"{"name":null}"#).await.refusal(), (422, "name_missing".into()));
    assert_eq!(patch(r#"{"action":null}"#).await.refusal(), (422, "action_missing".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_version_is_shown_and_can_be_gone_back_to() {
    let rig = Rig::manual().await;
    let id = rig.create("a", r#","schedule":"every 1m","payload":{"n":1}"#).await;
    let path = format!("/v1/jobs/{id}");
    let clock = rig.clock.clone().unwrap();
    clock.advance(1_000);
    rig.ask(Method::PATCH, &path, &[JSON], r#"{"payload":{"n":2},"name":"b"}"#).await;
    clock.advance(1_000);
    rig.ask(Method::POST, &format!("{path}/pause"), &[], "").await;
    let versions = rig.get(&format!("{path}/versions")).await.json();
    let shown: Vec<_> = versions["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (&v["version"], &v["name"], &v["state"], &v["status"]))
        .collect();
    let expected = [(3, "b", "PAUSED", "PAUSED"), (2, "b", "ACTIVE", "SUPERSEDED"), (1, "a", "ACTIVE", "SUPERSEDED")]
        .map(|(version, name, state, status)| (json!(version), json!(name), json!(state), json!(status)));
    assert_eq!(shown, expected.iter().map(|v| (&v.0, &v.1, &v.2, &v.3)).collect::<Vec<_>>());
    let first = rig.get(&format!("{path}/versions/1")).await.json();
    assert_eq!(
        (&first["effective_at"], &first["ended_at"]),
        (&json!("2026-11-16T02:00:00Z"), &json!("2026-11-16T02:00:01Z"))
    );
    assert_eq!((&first["payload"], &first["next_fire_at"]), (&json!({"n":1}), &Value::Null));
    for missing in ["0", "4", "x", "99999999999"] {
        let answer = rig.get(&format!("{path}/versions/{missing}")).await;
        assert_eq!(answer.refusal(), (404, "version_not_found".into()), "{missing}");
    }
    // In pages, whose cursors are good for this job only.
    let page = rig.get(&format!("{path}/versions?limit=2")).await.json();
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = rig.get(&format!("{path}/versions?limit=2&cursor={cursor}")).await.json();
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["has_more"]), (1, &json!(false)));
    let other = rig.create("other", "").await;
    let foreign = rig.get(&format!("/v1/jobs/{other}/versions?cursor={cursor}")).await;
    assert_eq!(foreign.refusal(), (400, "cursor_invalid".into()));

    let revert = |body: &'static str, headers: Vec<(&'static str, &'static str)>| {
        let (rig, path) = (&rig, format!("{path}/revert"));
        async move { rig.ask(Method::POST, &path, &[&headers[..], &[JSON]].concat(), body).await }
    };
    assert_eq!(
        revert(r#"{"version":1}"#, vec![("if-match", "\"v2\"")]).await.refusal(),
        (412, "version_mismatch".into())
    );
    let key = vec![("idempotency-key", "back")];
    let reverted = revert(r#"{"version":1}"#, key.clone()).await;
    assert_eq!((reverted.status.as_u16(), reverted.header("etag")), (200, "\"v4\""), "{}", reverted.text);
    let job = reverted.json();
    assert_eq!((&job["name"], &job["payload"], &job["state"]), (&json!("a"), &json!({"n":1}), &json!("PAUSED")));
    let again = revert(r#"{"version":1}"#, key).await;
    assert_eq!((again.header("idempotency-replayed"), again.json()), ("true", job));
    for (body, code) in [
        (r#"{"version":4}"#, "version_current"),
        (r#"{"version":9}"#, "version_unknown"),
        (r#"{"version":0}"#, "version_invalid"),
        ("{}", "field_missing"),
        (r#"{"version":"one"}"#, "wrong_type"),
    ] {
        let answer = revert(body, vec![]).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["errors"][0]["code"]), (422, &json!(code)), "{body}");
    }
    // The name that it had may be somebody else's by now.
    rig.create("b", "").await;
    assert_eq!(revert(r#"{"version":2}"#, vec![]).await.refusal(), (409, "name_taken".into()));
    // What was deleted is still told by its id.
    rig.ask(Method::DELETE, &path, &[], "").await;
    let gone = rig.get(&format!("{path}/versions")).await.json();
    assert_eq!((&gone["data"][0]["state"], gone["data"].as_array().unwrap().len()), (&json!("DELETED"), 5));
    assert_eq!(revert(r#"{"version":1}"#, vec![]).await.refusal(), (404, "job_not_found".into()));
}

/// Each version has its whole payload: a page ends when it is large, not only when it is long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_large_versions_is_bounded_by_its_size() {
    let rig = Rig::manual().await;
    let id = rig.create("a", "").await;
    let path = format!("/v1/jobs/{id}");
    let large = "x".repeat(100_000);
    for _ in 0..60 {
        let body = format!(r#"{{"payload":"{large}"}}"#);
        assert_eq!(rig.ask(Method::PATCH, &path, &[JSON], body).await.status, 200);
    }
    let page = rig.get(&format!("{path}/versions?limit=500")).await.json();
    assert_eq!((page["data"].as_array().unwrap().len(), &page["has_more"]), (50, &json!(true)));
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = rig.get(&format!("{path}/versions?limit=500&cursor={cursor}")).await.json();
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["has_more"]), (11, &json!(false)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_says_what_it_is_for() {
    let rig = Rig::manual().await;
    let id = rig.create("a", r#","description":"Closes the books.\nAsk Ada.""#).await;
    let path = format!("/v1/jobs/{id}");
    assert_eq!(rig.get(&path).await.json()["description"], "Closes the books.\nAsk Ada.");
    let patch = async |body: String| rig.ask(Method::PATCH, &path, &[JSON], body).await;
    let longest = "é".repeat(1_024);
    assert_eq!(patch(format!(r#"{{"description":"{longest}"}}"#)).await.status, 200);
    let refused = patch(format!(r#"{{"description":"{longest}."}}"#)).await;
    let error = &refused.json()["errors"][0];
    assert_eq!((refused.status.as_u16(), &error["code"]), (422, &json!("description_too_long")), "{}", refused.text);
    assert_eq!((&error["pointer"], error["message"].is_string()), (&json!("/description"), true), "{}", refused.text);
    assert_eq!(rig.get(&path).await.json()["description"], longest, "nothing was written");
    let without = patch(r#"{"description":null}"#.into()).await;
    assert_eq!((without.status.as_u16(), without.json().get("description")), (200, None), "{}", without.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_come_back_with_their_version() {
    let rig = Rig::manual().await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let action = format!(r#","action":{{"type":"WEBHOOK","url":"http://127.0.0.1:9/","secret":"{secret}"}}"#);
    let made = rig.ask(Method::POST, "/v1/jobs", &[JSON], format!(r#"{{"name":"s"{action}}}"#)).await;
    let path = format!("/v1/jobs/{}", made.json()["id"].as_str().unwrap());
    rig.ask(Method::PATCH, &path, &[JSON], r#"{"action":{"type":"NOOP"}}"#).await;
    let shown = rig.get(&format!("{path}/versions/1")).await;
    assert!(shown.text.contains("whsec_***") && !shown.text.contains(secret), "{}", shown.text);
    let reverted = rig.ask(Method::POST, &format!("{path}/revert"), &[JSON], r#"{"version":1}"#).await;
    assert_eq!(reverted.status, 200, "{}", reverted.text);
    let key = campanile_model::store::JobKey::Name("s".into());
    let stored = rig.handle().reads().get_jobs(campanile_model::TenantId::DEFAULT, &[key]).await.unwrap();
    assert!(stored[0].as_ref().unwrap().definition.action.config.contains(secret));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pausing_and_resuming() {
    let rig = Rig::manual().await;
    let id = rig.create("a", r#","schedule":"every 1m""#).await;
    let paused = rig.post(&format!("/v1/jobs/{id}/pause"), "").await;
    let body = paused.json();
    assert_eq!((paused.status.as_u16(), &body["state"], &body["status"]), (200, &json!("PAUSED"), &json!("PAUSED")));
    assert_eq!(body["next_fire_at"], Value::Null);
    let patch = rig.ask(Method::PATCH, &format!("/v1/jobs/{id}"), &[JSON], r#"{"paused":false}"#).await;
    assert_eq!(patch.refusal(), (422, "job_paused".into()));
    rig.clock.as_ref().unwrap().advance(600_000);
    let resumed = rig.post("/api/v1/jobs/name:a/resume", "").await.json();
    assert_eq!((&resumed["state"], &resumed["next_run_at"]), (&json!("ACTIVE"), &json!("2026-11-16T02:11:00Z")));
    let skips = rig.get(&format!("/v1/jobs/{id}/skips")).await.json();
    assert_eq!(skips["data"][0]["reason"], "PAUSED", "{skips}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dry_runs_show_everything_and_store_nothing() {
    let rig = Rig::manual().await;
    let body = r#"{"name":"a","action":{"type":"NOOP"},"schedule":"0 3 * * *","timezone":"Europe/Berlin"}"#;
    let dry = rig.post("/v1/jobs?dry_run=true", body).await;
    let job = dry.json();
    assert_eq!((dry.status.as_u16(), &job["dry_run"]), (200, &json!(true)), "{}", dry.text);
    assert_eq!(job["next_fires"].as_array().unwrap().len(), 5);
    assert_eq!(job["next_fires"][0]["at"], "2026-11-17T02:00:00Z");
    let put = rig.ask(Method::PUT, "/v1/jobs/name:a?dry_run=1", &[JSON], body).await;
    assert_eq!((put.status.as_u16(), &put.json()["dry_run"]), (200, &json!(true)));
    let batch = rig.post("/v1/jobs:batch?dry_run=true", &format!("[{body}]")).await.json();
    assert_eq!((&batch["results"][0]["status"], &batch["results"][0]["job"]["dry_run"]), (&json!(200), &json!(true)));
    assert_eq!(rig.get("/v1/jobs").await.json()["data"], json!([]));

    let id = rig.create("a", r#","schedule":"@daily""#).await;
    assert_eq!(rig.post("/v1/jobs?dry_run=true", body).await.refusal(), (409, "name_taken".into()));
    for (method, tail, state) in [
        (Method::PATCH, "", "ACTIVE"),
        (Method::DELETE, "", "DELETED"),
        (Method::POST, "/pause", "PAUSED"),
        (Method::POST, "/resume", "ACTIVE"),
        (Method::POST, "/run", "ACTIVE"),
    ] {
        let answer = rig.ask(method.clone(), &format!("/v1/jobs/{id}{tail}?dry_run=true"), &[JSON], "{}").await;
        assert_eq!(
            (answer.status.as_u16(), &answer.json()["state"]),
            (200, &json!(state)),
            "{method} {tail} {}",
            answer.text
        );
    }
    let job = rig.get(&format!("/v1/jobs/{id}")).await.json();
    assert_eq!((&job["version"], &job["state"]), (&json!(1), &json!("ACTIVE")));
    assert_eq!(rig.get("/v1/executions").await.json()["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_cover_everything_once_and_cursors_are_bound_to_their_filter() {
    let rig = Rig::manual().await;
    let items: Vec<String> = (0..7)
        .map(|i| {
            format!(
                r#"{{"name":"job-{i}","action":{{"type":"NOOP"}},"tags":["{}"]}}"#,
                if i % 2 == 0 { "even" } else { "odd" }
            )
        })
        .collect();
    let batch = rig.post("/v1/jobs:batch", &format!("{{\"jobs\":[{}]}}", items.join(","))).await.json();
    assert_eq!((&batch["created"], &batch["failed"]), (&json!(7), &json!(0)), "{batch}");
    let mut names = Vec::new();
    let mut path = "/v1/jobs?limit=3".to_owned();
    loop {
        let answer = rig.get(&path).await;
        let page = answer.json();
        names.extend(page["data"].as_array().unwrap().iter().map(|job| job["name"].as_str().unwrap().to_owned()));
        if page["has_more"] == json!(false) {
            assert_eq!((answer.header("link"), page.get("next_cursor")), ("", None));
            break;
        }
        let link = answer.header("link");
        path = link.strip_prefix('<').unwrap().split('>').next().unwrap().to_owned();
        assert!(path.ends_with(&format!("cursor={}", page["next_cursor"].as_str().unwrap())), "{path}");
    }
    assert_eq!(names, (0..7).map(|i| format!("job-{i}")).collect::<Vec<_>>());
    let cursor = rig.get("/v1/jobs?limit=1&tag=even").await.json()["next_cursor"].as_str().unwrap().to_owned();
    let page = rig.get(&format!("/v1/jobs?tag=even&cursor={cursor}")).await.json();
    assert_eq!(page["data"].as_array().unwrap().len(), 3);
    for wrong in [format!("tag=odd&cursor={cursor}"), format!("cursor={cursor}"), format!("tag=even&cursor={cursor}A")]
    {
        assert_eq!(rig.get(&format!("/v1/jobs?{wrong}")).await.refusal(), (400, "cursor_invalid".into()), "{wrong}");
    }
    assert_eq!(rig.get(&format!("/v1/executions?cursor={cursor}")).await.refusal(), (400, "cursor_invalid".into()));
    let page = rig.get("/v1/jobs?name_prefix=job-3&state=active").await.json();
    assert_eq!(page["data"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_payloads_make_short_pages() {
    let rig = Rig::manual().await;
    let payload = format!(r#","payload":"{}""#, "x".repeat(250 * 1024));
    for i in 0..60 {
        rig.create(&format!("big-{i:02}"), &payload).await;
    }
    let first = rig.get("/v1/jobs?limit=500").await;
    assert!(first.text.len() < 20 << 20, "{}", first.text.len());
    let page = first.json();
    assert_eq!(page["has_more"], json!(true));
    let path = format!("/v1/jobs?limit=500&cursor={}", page["next_cursor"].as_str().unwrap());
    let rest = rig.get(&path).await.json();
    let count = page["data"].as_array().unwrap().len() + rest["data"].as_array().unwrap().len();
    assert_eq!((count, &rest["has_more"]), (60, &json!(false)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_judges_every_item_alone() {
    let rig = Rig::manual().await;
    let body = r#"[
        {"name":"a","action":{"type":"NOOP"},"idempotency_key":"i-1"},
        {"name":"b","action":{"type":"NOOP"},"schedule":"0 25 * * *"},
        {"name":"a","action":{"type":"NOOP"}},
        {"name":"c","nmae":"c","action":{"type":"NOOP"}},
        {"name":"d","target":{"handler":"h","pool":"p"}},
        5]"#;
    let batch = rig.post("/v1/jobs:batch", body).await.json();
    let statuses: Vec<_> =
        batch["results"].as_array().unwrap().iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(statuses, [201, 422, 409, 400, 201, 422], "{batch:#}");
    assert_eq!(batch["results"][1]["problem"]["errors"][0]["pointer"], "/schedule");
    assert_eq!((&batch["created"], &batch["failed"]), (&json!(2), &json!(4)));
    let again = rig.post("/v1/jobs:batch", body).await.json();
    assert_eq!((&again["results"][0]["status"], &again["results"][0]["replayed"]), (&json!(201), &json!(true)));
    assert_eq!(again["results"][0]["job"]["id"], batch["results"][0]["job"]["id"]);
    // The same item alone is the same request.
    let alone = rig.post("/v1/jobs", r#"{"name":"a","action":{"type":"NOOP"},"idempotencyKey":"i-1"}"#).await;
    assert_eq!((alone.status.as_u16(), alone.header("idempotency-replayed")), (201, "true"), "{}", alone.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn camel_case_on_request_and_never_inside_the_payload() {
    let rig = Rig::manual().await;
    rig.create("a", r#","payload":{"snake_key":{"inner_key":1}}"#).await;
    let camel = rig.get("/v1/jobs/name:a?case=camel").await.json();
    assert!(camel["jobId"].is_string() && camel.get("job_id").is_none());
    assert_eq!(camel["retryPolicy"]["maxAttempts"], 3);
    assert_eq!(camel["payload"], json!({"snake_key":{"inner_key":1}}));
    let refused = rig.get("/v1/jobs/name:x?case=camel").await.json();
    assert!(refused["requestId"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_has_its_headers() {
    let rig = Rig::manual().await;
    for path in ["/healthz", "/v1/jobs", "/nowhere", "/docs/api", "/openapi.json"] {
        let answer = rig.ask(Method::GET, path, &[("x-request-id", "mine-1")], "").await;
        assert_eq!(
            (answer.header("x-request-id"), answer.header("x-content-type-options")),
            ("mine-1", "nosniff"),
            "{path}"
        );
        assert!(!answer.header("cache-control").is_empty() && !answer.header("content-security-policy").is_empty());
    }
    let refused = rig.ask(Method::GET, "/nowhere", &[("x-request-id", "mine-2")], "").await.json();
    assert_eq!(refused["request_id"], "mine-2");
    let options = rig.ask(Method::OPTIONS, "/v1/jobs", &[], "").await;
    assert_eq!((options.status.as_u16(), options.text.as_str()), (204, ""));
    assert!(options.header("allow").contains("POST"), "{:?}", options.headers);
    let wrong = rig.ask(Method::DELETE, "/v1/jobs", &[], "").await;
    assert!(wrong.header("allow").contains("GET"), "{:?}", wrong.headers);
    assert_eq!(rig.ask(Method::HEAD, "/v1/jobs", &[], "").await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_waiting_and_cancelling() {
    let rig = Rig::real().await;
    for _ in 0..200 {
        if rig.get("/readyz").await.status == 200 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(25)).await;
    }
    let id = rig.create("now", "").await;
    let run = rig.ask(Method::POST, &format!("/v1/jobs/{id}/run"), &[("idempotency-key", "r1")], "").await;
    assert_eq!(run.status, 202, "{}", run.text);
    let execution = run.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(run.header("location"), format!("/v1/executions/{execution}"));
    let again = rig.ask(Method::POST, &format!("/v1/jobs/{id}/run"), &[("idempotency-key", "r1")], "").await;
    assert_eq!((again.header("idempotency-replayed"), &again.json()["id"]), ("true", &json!(execution)));
    let done = rig.get(&format!("/v1/executions/{execution}?wait=20s")).await.json();
    assert_eq!((&done["state"], &done["is_final"]), (&json!("SUCCEEDED"), &json!(true)), "{done}");
    let attempts = rig.get(&format!("/v1/executions/{execution}/attempts")).await.json();
    assert_eq!(attempts["data"][0]["outcome"], "SUCCEEDED", "{attempts}");
    let late = rig.post(&format!("/v1/executions/{execution}/cancel"), "").await;
    assert_eq!((late.refusal(), &late.json()["state"]), ((409, "execution_final".into()), &json!("SUCCEEDED")));

    let absent = rig.get(&format!("/v1/executions/{execution}/logs")).await.json();
    assert_eq!(absent, json!({"data": [], "has_more": false, "next_after": 0}));

    // A worker's execution waits for a worker, of which there is none.
    let body = r#"{"name":"w","target":{"handler":"h","pool":"p"}}"#;
    assert_eq!(rig.post("/v1/jobs", body).await.status, 201);
    let waiting = rig.post("/v1/jobs/execute", r#"{"name":"w"}"#).await;
    assert_eq!(waiting.status, 202, "{}", waiting.text);
    let waiting = waiting.json()["id"].as_str().unwrap().to_owned();
    let polled = rig.get(&format!("/v1/executions/{waiting}?wait=100ms")).await.json();
    assert_eq!(polled["state"], "PENDING", "{polled}");
    let cancelled = rig.post(&format!("/v1/executions/{waiting}/cancel"), "").await;
    assert_eq!((cancelled.status.as_u16(), &cancelled.json()["state"]), (202, &json!("CANCELLED")));
    let listed = rig.get("/v1/executions?state=cancelled,dead").await.json();
    assert_eq!(listed["data"][0]["id"], json!(waiting));
    let of_job = rig.get("/v1/jobs/name:now/runs").await.json();
    assert_eq!(of_job["data"].as_array().unwrap().len(), 1);
    let status = rig.get("/v1/status").await.json();
    assert_eq!((&status["ready"], &status["store"]["jobs"]), (&json!(true), &json!(2)), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_go_in_and_never_come_out() {
    let rig = Rig::manual().await;
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body =
        format!(r#"{{"name":"signed","action":{{"type":"WEBHOOK","url":"http://127.0.0.1:1/","secret":"{secret}"}}}}"#);
    let created = rig.ask(Method::POST, "/v1/jobs", &[JSON, ("idempotency-key", "s")], body).await;
    assert_eq!(created.status.as_u16(), 201, "{}", created.text);
    let patched = rig.ask(Method::PATCH, "/v1/jobs/name:signed", &[JSON], r#"{"priority":"LOW"}"#).await;
    let answers = [created, patched, rig.get("/v1/jobs/name:signed").await, rig.get("/v1/jobs").await];
    for answer in answers {
        assert!(answer.text.contains("whsec_***") && !answer.text.contains(secret), "{}", answer.text);
    }
    // A patch keeps it, and what is shown of it is not taken for a new one.
    let key = campanile_model::store::JobKey::Name("signed".into());
    let stored = rig.handle().reads().get_jobs(campanile_model::TenantId::DEFAULT, &[key]).await.unwrap();
    assert!(stored[0].as_ref().unwrap().definition.action.config.contains(secret));
    let shown = rig.get("/v1/jobs/name:signed").await.text;
    let back = rig.ask(Method::PUT, "/v1/jobs/name:signed", &[JSON], shown).await;
    assert_eq!(back.refusal(), (422, "secret_invalid".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_without_a_body_refuse_one_instead_of_ignoring_it() {
    let rig = Rig::manual().await;
    rig.create("a", "").await;
    for path in ["/v1/jobs/name:a/run", "/v1/jobs/name:a/trigger", "/v1/jobs/name:a/pause", "/v1/jobs/name:a/resume"] {
        let unknown = rig.post(path, r#"{"payload":{"x":2}}"#).await;
        assert_eq!(unknown.refusal(), (400, "field_unknown".into()), "{path}");
        assert_eq!(rig.post(path, "{bad").await.refusal(), (400, "json_invalid".into()), "{path}");
        assert_eq!(rig.post(path, "[]").await.refusal(), (400, "json_invalid".into()), "{path}");
        let text = rig.ask(Method::POST, path, &[("content-type", "text/plain")], "zzz").await;
        assert_eq!(text.status.as_u16(), 415, "{path}");
    }
    assert_eq!(rig.get("/v1/jobs/name:a").await.json()["version"], 1, "nothing happened");
    assert_eq!(rig.post("/v1/jobs/name:a/pause", "{}").await.status.as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_execution_that_nobody_can_take_says_so() {
    let rig = Rig::manual().await;
    let body = r#"{"name":"w","target":{"pool":"batch-etl","handler":"generate_invoices"}}"#;
    assert_eq!(rig.post("/v1/jobs", body).await.status.as_u16(), 201);
    let run = rig.post("/v1/jobs/name:w/run", "").await;
    assert_eq!((&run.json()["state"], &run.json()["reason"]), (&json!("PENDING"), &json!("NO_WORKER")), "{}", run.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_under_a_key_is_answered_again() {
    let rig = Rig::manual().await;
    let body = r#"{"name":"w","target":{"pool":"batch-etl","handler":"generate_invoices"}}"#;
    rig.post("/v1/jobs", body).await;
    let run = rig.post("/v1/jobs/name:w/run", "").await.json();
    let path = format!("/v1/executions/{}/cancel", run["id"].as_str().unwrap());
    let cancel = async |key: &'static str| rig.ask(Method::POST, &path, &[("idempotency-key", key)], "").await;
    let first = cancel("c").await;
    assert_eq!((first.status.as_u16(), first.header("idempotency-replayed")), (202, ""), "{}", first.text);
    let again = cancel("c").await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (202, "true"), "{}", again.text);
    assert_eq!(cancel("other").await.refusal(), (409, "execution_final".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_the_api_says_so_and_tells_how_it_is() {
    let mut rig = Rig::ready().await;
    let options = campanile_server::Options { api: false, ..rig.options.clone() };
    rig.router = campanile_server::router(rig.handle(), options);
    for path in ["/v1/jobs", "/api/v1/jobs", "/v1/jobs/name:x", "/internal/v1/executions/claim"] {
        let answer = rig.get(path).await;
        assert_eq!(answer.refusal(), (503, "no_api_role".to_owned()), "{path}");
        assert_eq!(answer.header("retry-after"), "1");
        assert_eq!((&answer.json()["retryable"], answer.json()["errors"].as_array()), (&json!(true), None));
        assert!(answer.json()["detail"].as_str().unwrap().contains("role `api`"), "{}", answer.text);
    }
    assert_eq!(rig.post("/internal/v1/executions/claim", "{}").await.refusal().1, "no_api_role");
    for path in ["/healthz", "/readyz", "/v1/status", "/v1/cluster", "/openapi.json"] {
        assert_eq!(rig.get(path).await.status, 200, "{path}");
    }
    assert_eq!(rig.get("/nothing").await.refusal(), (404, "route_not_found".to_owned()));
}
