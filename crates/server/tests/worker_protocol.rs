//! The worker protocol: claim, heartbeat, complete, release.

mod rig;

use rig::Rig;
use serde_json::{Value, json};

const API: &str = "/internal/v1/executions";
/// Tried again at once.
const HASTY: &str = r#","retry_policy":{"max_attempts":3,"backoff":"FIXED","initial_delay_ms":1}"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_execution_from_claim_to_success_with_a_retry_between() {
    let rig = Rig::ready().await;
    let job =
        rig.create_for_worker("j", "h", &format!(r#","payload":{{"n":123456789012345678901234567890}}{HASTY}"#)).await;
    let id = rig.run("j").await;
    let path = format!("/v1/executions/{id}");
    let waiting = rig.get(&path).await.json();
    assert_eq!((&waiting["state"], &waiting["reason"]), (&json!("PENDING"), &json!("NO_WORKER")), "{waiting}");

    let body = r#"{"workerId":"w","capacity":10,"pools":["p"],"handlers":["h"],"wait_ms":5000,"sdk":"test/1"}"#;
    let answer = rig.post(&format!("{API}/claim"), body).await;
    assert_eq!(answer.json()["directive"], "RUN", "{}", answer.text);
    assert!(answer.text.contains("123456789012345678901234567890"), "payloads keep their digits");
    let claimed = answer.json()["executions"][0].clone();
    assert_eq!((&claimed["execution_id"], &claimed["job_id"]), (&json!(id), &json!(job)));
    assert_eq!((&claimed["handler"], &claimed["pool"], &claimed["job_name"]), (&json!("h"), &json!("p"), &json!("j")));
    assert_eq!((&claimed["attempt"], &claimed["max_attempts"]), (&json!(1), &json!(3)));
    assert_eq!((&claimed["lease_ms"], &claimed["heartbeat_ms"]), (&json!(30_000), &json!(10_000)));
    let fence = claimed["fence_token"].as_u64().unwrap();

    let running = rig.get(&path).await.json();
    assert_eq!(
        (&running["state"], &running["worker"], &running["deliveries"]),
        (&json!("RUNNING"), &json!("w"), &json!(1))
    );
    for field in ["queued_at", "claimed_at", "started_at", "first_started_at", "late_ms"] {
        assert!(!running[field].is_null(), "{field}: {running}");
    }
    let parts = &running["lateness"];
    let sum: u64 = ["scheduler_ms", "queue_ms", "worker_ms"].iter().map(|part| parts[part].as_u64().unwrap()).sum();
    assert_eq!(json!(sum), running["late_ms"], "{running}");
    assert_eq!(
        (&running["handler"], &running["target"], &running["overlap"]),
        (&json!("h"), &json!("h"), &json!("ALLOW"))
    );

    let beat = json!({"worker_id": "w", "executions": [{"id": id, "fence_token": fence, "progress": 0.5, "message": "half",
        "checkpoint": {"page": 41}, "logs": ["one", {"level": "warn", "message": "two", "at": "2026-01-01T00:00:00Z"}]}]});
    let beaten = rig.post(&format!("{API}/heartbeat"), &beat.to_string()).await.json();
    assert_eq!(beaten["results"][0]["status"], "EXTENDED", "{beaten}");
    assert_eq!((&beaten["directive"], beaten["results"][0]["lease_ms"].as_u64() > Some(20_000)), (&json!("RUN"), true));
    let told = rig.get(&path).await.json();
    assert_eq!((&told["progress"]["fraction"], &told["progress"]["message"]), (&json!(0.5), &json!("half")), "{told}");
    assert_eq!(told["progress"]["checkpoint"], json!({"page": 41}));
    let logs = rig.get(&format!("{path}/logs?limit=1")).await.json();
    assert_eq!(
        (&logs["data"][0]["message"], &logs["data"][0]["level"], &logs["has_more"]),
        (&json!("one"), &json!("info"), &json!(true))
    );
    let rest = rig.get(&format!("{path}/logs?after={}", logs["next_after"])).await.json();
    assert_eq!(
        (&rest["data"][0]["level"], &rest["data"][0]["at"]),
        (&json!("warn"), &json!("2026-01-01T00:00:00Z")),
        "{rest}"
    );
    let none = rig.get(&format!("{path}/logs?after={}", rest["next_after"])).await.json();
    assert_eq!((&none["data"], &none["next_after"]), (&json!([]), &rest["next_after"]));

    let complete = async |body: Value| rig.post(&format!("{API}/{id}/complete"), &body.to_string()).await;
    let stale = complete(json!({"status": "SUCCEEDED", "fence_token": fence + 1})).await;
    assert_eq!(
        (stale.refusal(), &stale.json()["state"]),
        ((409, "stale_fence".into()), &json!("RUNNING")),
        "{}",
        stale.text
    );
    let failed = json!({"status": "FAILED", "fence_token": fence, "error": {"type": "t", "message": "m"}});
    let first = complete(failed.clone()).await;
    assert_eq!((first.status.as_u16(), &first.json()["state"]), (200, &json!("RETRYING")), "{}", first.text);
    assert!(first.json()["next_attempt_at"].is_string(), "{}", first.text);
    let again = complete(failed).await;
    assert_eq!((again.status.as_u16(), &again.json()["state"]), (200, &json!("RETRYING")), "{}", again.text);

    let second = rig.claim(1).await.remove(0);
    assert_eq!((&second["attempt"], &second["checkpoint"]), (&json!(2), &json!({"page": 41})), "{second}");
    assert!(second["fence_token"].as_u64().unwrap() > fence);
    let done =
        complete(json!({"status": "SUCCEEDED", "fence_token": second["fence_token"], "result": {"pages": 7}})).await;
    assert_eq!(
        (done.status.as_u16(), done.json()),
        (200, json!({"execution_id": id, "state": "SUCCEEDED"})),
        "{}",
        done.text
    );
    let late = complete(json!({"status": "FAILED", "fence_token": second["fence_token"]})).await;
    assert_eq!((late.refusal(), &late.json()["state"]), ((409, "stale_fence".into()), &json!("SUCCEEDED")));
    let over = rig.get(&path).await.json();
    assert_eq!(
        (&over["attempt"], &over["late_ms"], &over["deliveries"]),
        (&json!(2), &running["late_ms"], &json!(2)),
        "{over}"
    );
    assert!(over.get("lateness").is_none(), "what is known of the queue is that of the last attempt");
    let attempts = rig.get(&format!("{path}/attempts")).await.json();
    assert_eq!(
        (&attempts["data"][0]["error"]["kind"], &attempts["data"][0]["outcome"]),
        (&json!("t"), &json!("FAILED"))
    );
    assert_eq!(attempts["data"][1]["response"]["body"], r#"{"pages":7}"#, "{attempts}");
    let refused = rig.get("/v1/status").await.json()["counters"]["stale_refused"].as_u64();
    assert!(refused >= Some(2), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_judges_every_completion_alone() {
    let rig = Rig::ready().await;
    rig.create_for_worker("j", "h", HASTY).await;
    for _ in 0..3 {
        rig.run("j").await;
    }
    let mut claimed = Vec::new();
    while claimed.len() < 3 {
        claimed.extend(rig.claim(10).await);
    }
    let end = |i: usize, status: &str| json!({"id": claimed[i]["execution_id"], "status": status, "fence_token": claimed[i]["fence_token"]});
    let mut snoozed = end(1, "SNOOZED");
    snoozed["snooze_ms"] = json!(60_000);
    let mut old = end(2, "SUCCEEDED");
    old["fence_token"] = json!(1_000_000);
    let unknown = json!({"id": "exe_01J9ZC0000000000000000TEST", "status": "SUCCEEDED", "fence_token": 1});
    let good = json!({"completions": [end(0, "SUCCEEDED"), snoozed, old, unknown,
        {"id": "exec_1", "status": "SUCCEEDED", "fence_token": 1},
        {"status": "SUCCEEDED", "fence_token": 1},
        {"id": claimed[2]["execution_id"], "status": "SUCCEEDED"}]});
    let answer = rig.post(&format!("{API}/complete"), &good.to_string()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let seen = |answer: &Value| -> Vec<(u64, String)> {
        let results = answer["results"].as_array().unwrap().iter();
        let word = |result: &Value| {
            result.get("error").or(result.get("state")).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        results.map(|result| (result["status"].as_u64().unwrap(), word(result))).collect()
    };
    let expected = [
        (200, "SUCCEEDED"),
        (200, "RETRYING"),
        (409, "stale_fence"),
        (404, "execution_not_found"),
        (400, "invalid_id"),
        (422, "id_missing"),
        (422, "fence_missing"),
    ];
    assert_eq!(seen(&answer.json()), expected.map(|(status, word)| (status, word.to_owned())), "{}", answer.text);
    assert!(answer.json()["results"][1]["next_attempt_at"].is_string());

    // One that cannot be read does not take the others with it; and by the worker's name instead of a fence.
    let odd = json!({"completions": [{"id": claimed[2]["execution_id"], "status": "FINE"},
        {"id": claimed[2]["execution_id"], "status": "SUCCEEDED", "worker_id": "w", "fense": 1},
        {"id": claimed[2]["execution_id"], "status": "SUCCEEDED", "worker_id": "w"}]});
    let answer = rig.post(&format!("{API}/complete"), &odd.to_string()).await.json();
    let expected = [(422, "wrong_type"), (400, "field_unknown"), (200, "SUCCEEDED")];
    assert_eq!(seen(&answer), expected.map(|(status, word)| (status, word.to_owned())), "{answer}");
    let attempts =
        rig.get(&format!("/v1/executions/{}/attempts", claimed[1]["execution_id"].as_str().unwrap())).await.json();
    assert_eq!(attempts["data"][0]["outcome"], "SNOOZED", "{attempts}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_not_started_is_given_back() {
    let rig = Rig::ready().await;
    rig.create_for_worker("j", "h", "").await;
    let id = rig.run("j").await;
    let claimed = rig.claim(1).await.remove(0);
    let release = async |body: Value| rig.post(&format!("{API}/{id}/release"), &body.to_string()).await;
    assert_eq!(release(json!({"worker_id": "other"})).await.refusal(), (409, "stale_fence".into()));
    assert_eq!(release(json!({})).await.refusal(), (422, "fence_missing".into()));
    let released = release(json!({"worker_id": "w", "fence_token": claimed["fence_token"]})).await;
    assert_eq!((released.status.as_u16(), &released.json()["state"]), (200, &json!("PENDING")), "{}", released.text);
    let again = rig.claim(1).await.remove(0);
    assert_eq!((&again["attempt"], &again["execution_id"]), (&json!(1), &json!(id)), "no attempt was used up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_reaches_the_worker_with_its_heartbeat() {
    let rig = Rig::ready().await;
    rig.create_for_worker("j", "h", "").await;
    let id = rig.run("j").await;
    let claimed = rig.claim(1).await.remove(0);
    let asked = rig.post(&format!("/v1/executions/{id}/cancel"), r#"{"grace":"30s","note":"wrong input"}"#).await;
    assert_eq!((asked.status.as_u16(), &asked.json()["state"]), (202, &json!("RUNNING")), "{}", asked.text);
    assert!(asked.json()["cancel_requested_at"].is_string(), "{}", asked.text);
    let beats = json!({"worker_id": "w", "execution_ids": [id, "exec_1", "exe_01J9ZC0000000000000000TEST"]});
    let beaten = rig.post(&format!("{API}/heartbeat"), &beats.to_string()).await.json();
    let status: Vec<&str> =
        beaten["results"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["CANCEL", "STALE", "STALE"], "{beaten}");
    assert_eq!(beaten["results"][0]["reason"], "CANCELLED_BY_USER");
    let end = json!({"status": "CANCELLED", "fence_token": claimed["fence_token"]});
    let ended = rig.post(&format!("{API}/{id}/complete"), &end.to_string()).await;
    assert_eq!((ended.status.as_u16(), &ended.json()["state"]), (200, &json!("CANCELLED")), "{}", ended.text);
    let over = rig.get(&format!("/v1/executions/{id}")).await.json();
    assert_eq!((&over["note"], &over["reason"]), (&json!("wrong input"), &json!("CANCELLED_BY_USER")), "{over}");
    assert_eq!(rig.post(&format!("/v1/executions/{id}/cancel"), "").await.refusal(), (409, "execution_final".into()));

    // Without grace it is over at once, and its worker is told so.
    let id = rig.run("j").await;
    let claimed = rig.claim(1).await.remove(0);
    let ended = rig.post(&format!("/v1/executions/{id}/cancel"), r#"{"grace_ms":0}"#).await;
    assert_eq!((ended.status.as_u16(), &ended.json()["state"]), (202, &json!("CANCELLED")), "{}", ended.text);
    let beat = json!({"worker_id": "w", "executions": [{"id": id, "fence_token": claimed["fence_token"]}]});
    let beaten = rig.post(&format!("{API}/heartbeat"), &beat.to_string()).await.json();
    assert_eq!(beaten["results"][0]["status"], "STALE", "{beaten}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_known_and_directed() {
    let rig = Rig::ready().await;
    rig.create_for_worker("j", "h", "").await;
    let claim = async || {
        let body = r#"{"worker_id":"w","capacity":5,"pools":["p"],"handlers":["h"],"sdk":"test/1"}"#;
        rig.post(&format!("{API}/claim"), body).await.json()
    };
    assert_eq!(rig.post("/v1/workers/w/quiet", "").await.refusal(), (404, "worker_not_found".into()));
    assert_eq!(claim().await, json!({"executions": [], "directive": "RUN"}));
    let workers = rig.get("/v1/workers").await.json();
    let worker = &workers["data"][0];
    assert_eq!(
        (&worker["id"], &worker["capacity"], &worker["present"]),
        (&json!("w"), &json!(5), &json!(true)),
        "{workers}"
    );
    assert_eq!((&worker["pools"], &worker["sdk"]), (&json!(["p"]), &json!("test/1")));
    let id = rig.run("j").await;
    let waiting = rig.get(&format!("/v1/executions/{id}")).await.json();
    assert!(waiting.get("reason").is_none(), "somebody asks for it: {waiting}");
    let pool = rig.get("/v1/pools/p").await.json();
    assert_eq!(pool["workers"], 1, "{pool}");

    for (verb, directive) in [("quiet", "QUIET"), ("drain", "DRAIN")] {
        let told = rig.post(&format!("/v1/workers/w/{verb}"), "").await.json();
        assert_eq!(told["directive"], directive, "{told}");
        assert_eq!(claim().await, json!({"executions": [], "directive": directive}));
        let beaten = rig.post(&format!("{API}/heartbeat"), r#"{"worker_id":"w"}"#).await.json();
        assert_eq!(beaten, json!({"results": [], "directive": directive}));
        assert_eq!(rig.get(&format!("/v1/executions/{id}")).await.json()["reason"], "NO_WORKER");
    }
    assert_eq!(rig.post("/v1/workers/w/run", "").await.json()["directive"], "RUN");
    assert_eq!(rig.claim(1).await[0]["execution_id"], json!(id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_of_workers_are_refused_with_a_code() {
    let rig = Rig::manual().await;
    let names = |n: usize| format!("[{}]", vec!["\"n\""; n].join(","));
    let beats = |n: usize| format!("[{}]", vec!["\"x\""; n].join(","));
    let lines = format!("[{}]", vec!["\"l\""; 1_001].join(","));
    let exe = "exe_01J9ZC0000000000000000TEST";
    let rows: Vec<(&str, String, u16, &str)> = vec![
        ("claim", "".into(), 400, "json_invalid"),
        ("claim", "{".into(), 400, "json_invalid"),
        ("claim", "[]".into(), 422, "wrong_type"),
        ("claim", "{}".into(), 422, "field_missing"),
        ("claim", r#"{"worker_id":"w"}"#.into(), 422, "field_missing"),
        ("claim", r#"{"worker_id":"w","capacity":0}"#.into(), 422, "capacity_invalid"),
        ("claim", r#"{"worker_id":"w","capacity":1001}"#.into(), 422, "capacity_invalid"),
        ("claim", r#"{"worker_id":"w","capacity":-1}"#.into(), 422, "wrong_type"),
        ("claim", r#"{"worker_id":"w","capacity":1,"capcity":2}"#.into(), 400, "field_unknown"),
        ("claim", r#"{"worker_id":"w","capacity":1,"capacity":2}"#.into(), 422, "field_duplicate"),
        ("claim", r#"{"worker_id":"","capacity":1}"#.into(), 422, "worker_id_invalid"),
        ("claim", r#"{"worker_id":"node:1","capacity":1}"#.into(), 422, "worker_id_invalid"),
        ("claim", r#"{"worker_id":"a\u0000b","capacity":1}"#.into(), 422, "worker_id_invalid"),
        ("claim", format!(r#"{{"worker_id":"{}","capacity":1}}"#, "w".repeat(201)), 422, "worker_id_invalid"),
        ("claim", format!(r#"{{"worker_id":"w","capacity":1,"pools":{}}}"#, names(257)), 422, "worker_names_invalid"),
        ("claim", r#"{"worker_id":"w","capacity":1,"handlers":[""]}"#.into(), 422, "worker_names_invalid"),
        ("heartbeat", r#"{"worker_id":"node:1"}"#.into(), 422, "worker_id_invalid"),
        ("heartbeat", format!(r#"{{"worker_id":"w","execution_ids":{}}}"#, beats(1_001)), 422, "batch_too_large"),
        (
            "heartbeat",
            format!(r#"{{"worker_id":"w","executions":[{{"id":"{exe}","progress":7}}]}}"#),
            422,
            "progress_invalid",
        ),
        (
            "heartbeat",
            format!(r#"{{"worker_id":"w","executions":[{{"id":"{exe}","logs":{lines}}}]}}"#),
            422,
            "logs_too_many",
        ),
        (
            "heartbeat",
            format!(r#"{{"worker_id":"w","executions":[{{"id":"{exe}","checkpoint":"{}"}}]}}"#, "x".repeat(65_537)),
            422,
            "checkpoint_invalid",
        ),
        ("complete", "{}".into(), 422, "field_missing"),
        ("complete", r#"{"completions":{}}"#.into(), 422, "wrong_type"),
        ("complete", format!(r#"{{"completions":{}}}"#, beats(1_001)), 422, "batch_too_large"),
        ("x/complete", r#"{"status":"SUCCEEDED"}"#.into(), 400, "invalid_id"),
        ("EXE/complete", r#"{"status":"SUCCEEDED","duration_ms":34200}"#.into(), 422, "fence_missing"),
        ("EXE/complete", r#"{"status":"SUCCEEDED","fence_token":1}"#.into(), 404, "execution_not_found"),
        ("EXE/complete", r#"{"status":"SNOOZED","fence_token":1}"#.into(), 422, "snooze_invalid"),
        (
            "EXE/complete",
            r#"{"id":"exe_01J9ZC0000000000000000TES0","status":"SUCCEEDED","fence_token":1}"#.into(),
            422,
            "id_mismatch",
        ),
        ("EXE/release", r#"{"worker_id":"w"}"#.into(), 404, "execution_not_found"),
    ];
    for (path, body, status, code) in rows {
        let path = format!("{API}/{}", path.replace("EXE", exe));
        let answer = rig.post(&path, &body).await;
        let shown: String = body.chars().take(100).collect();
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{path} {shown}: {}", answer.text);
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    let query = rig.post(&format!("{API}/claim?wait=5"), r#"{"worker_id":"w","capacity":1}"#).await;
    assert_eq!(query.refusal(), (400, "parameter_unknown".into()));
}
