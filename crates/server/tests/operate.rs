//! What operators do: pools, targets, dead letters, operations, backfills, why, notifications, stats.

mod rig;

use http::Method;
use rig::Rig;
use serde_json::{Value, json};

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pools_have_limits_a_depth_and_a_pause() {
    let rig = Rig::ready().await;
    let pools = rig.get("/v1/pools").await.json();
    let names: Vec<&str> =
        pools["data"].as_array().unwrap().iter().map(|pool| pool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["long", "short"]);
    assert_eq!(rig.get("/v1/pools/p").await.refusal(), (404, "pool_not_found".into()));
    assert_eq!(rig.delete("/v1/pools/p").await.refusal(), (404, "pool_not_found".into()));

    rig.create_for_worker("j", "h", "").await;
    rig.run("j").await;
    let deep = rig.until("/v1/pools/p", |answer| answer.status == 200 && answer.json()["queued"] == 1).await.json();
    assert_eq!((&deep["waiting"], &deep["running"], &deep["paused"]), (&json!(1), &json!(0), &json!(false)), "{deep}");
    assert!(deep["oldest_waiting_at"].is_string() && deep["oldest_waiting_ms"].is_u64(), "{deep}");

    let paused = rig.post("/v1/pools/p/pause", "").await.json();
    assert_eq!(paused["paused"], true, "{paused}");
    let body = r#"{"worker_id":"w","capacity":1,"pools":["p"]}"#;
    let claimed = rig.post("/internal/v1/executions/claim", body).await.json();
    assert_eq!(claimed["executions"], json!([]), "nothing starts");
    let limited = rig.put("/v1/pools/p", r#"{"slots":2}"#).await.json();
    assert_eq!((&limited["slots"], &limited["paused"]), (&json!(2), &json!(true)), "it stays paused: {limited}");
    let same = rig.put("/v1/pools/p", &limited.to_string()).await;
    assert_eq!(same.status, 200, "what is shown can be sent back: {}", same.text);
    let resumed = rig.post("/v1/pools/p/resume", "").await.json();
    assert_eq!((&resumed["slots"], &resumed["paused"]), (&json!(2), &json!(false)), "{resumed}");
    assert_eq!(rig.claim(1).await.len(), 1);
    assert_eq!(rig.get("/v1/pools/p").await.json()["running"], 1);
    assert_eq!(rig.delete("/v1/pools/p").await.status, 204);
    assert_eq!(rig.get("/v1/pools/p").await.json().get("slots"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn targets_have_limits_under_their_names() {
    let rig = Rig::manual().await;
    assert_eq!(rig.get("/v1/targets").await.json()["data"], json!([]));
    let put = rig.put("/v1/targets/https:%2F%2Fexample.com:8443", r#"{"slots":4,"perSecond":2.5}"#).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let target = put.json();
    assert_eq!(
        (&target["name"], &target["slots"], &target["per_second"]),
        (&json!("https://example.com:8443"), &json!(4), &json!(2.5))
    );
    assert_eq!(rig.put("/v1/targets/h", r#"{"rate":"30/m"}"#).await.json()["per_second"], 0.5);
    let listed = rig.get("/v1/targets").await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 2, "{listed}");
    assert_eq!(rig.delete("/v1/targets/https%3A%2F%2Fexample.com%3A8443").await.status, 204);
    assert_eq!(rig.delete("/v1/targets/nobody").await.refusal(), (404, "target_not_found".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_are_grouped_listed_replayed_and_discarded() {
    let rig = Rig::ready().await;
    rig.create_for_worker("a", "mail", r#","tags":["team=x"]"#).await;
    rig.create_for_worker("b", "bill", "").await;
    let one = rig.kill("a", "TimeoutError", "no answer after 31 s").await;
    let two = rig.kill("a", "TimeoutError", "no answer after 30 s").await;
    let three = rig.kill("b", "ValueError", "bad input").await;

    let groups = rig.get("/v1/dead/groups").await.json();
    let groups = groups["data"].as_array().unwrap();
    let of = |target: &str| groups.iter().find(|group| group["target"] == target).unwrap();
    assert_eq!(
        (&of("mail")["count"], &of("bill")["count"], &of("mail")["kind"]),
        (&json!(2), &json!(1), &json!("TimeoutError"))
    );
    let fp = of("mail")["fingerprint"].as_str().unwrap();
    let ids = async |path: &str| -> Vec<String> {
        let answer = rig.get(path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        let data = answer.json()["data"].as_array().unwrap().clone();
        data.iter().map(|execution| execution["id"].as_str().unwrap().to_owned()).collect()
    };
    let sorted = |mut ids: Vec<String>| {
        ids.sort();
        ids
    };
    let mail = sorted(vec![one.clone(), two.clone()]);
    assert_eq!(sorted(ids(&format!("/v1/dead?fp={fp}")).await), mail);
    assert_eq!(sorted(ids(&format!("/v1/dead?fp={}", &fp[..4])).await), mail);
    for filter in ["handler=mail", "tag=team%3Dx", "job=name:a", "q=error:Timeout*", "q=job:a+-job:b", "q=tag:team%3Dx"]
    {
        assert_eq!(sorted(ids(&format!("/v1/dead?{filter}")).await), mail, "{filter}");
    }
    assert_eq!(
        ids("/v1/executions?state=dead&pool=p&from=-1h&to=%2B1h&q=handler:bill").await,
        std::slice::from_ref(&three)
    );
    assert_eq!(ids("/v1/dead?pool=short").await, [] as [&str; 0]);
    assert_eq!(ids("/v1/dead?from=-3h&to=-2h").await, [] as [&str; 0]);
    let newest = ids("/v1/dead?limit=1").await;
    let page = rig.get("/v1/dead?limit=1").await.json();
    let next = ids(&format!("/v1/dead?limit=2&cursor={}", page["next_cursor"].as_str().unwrap())).await;
    assert_eq!(sorted([newest, next].concat()), sorted(vec![one.clone(), two.clone(), three.clone()]));
    let shown = rig.get(&format!("/v1/executions/{one}")).await.json();
    assert_eq!((&shown["fingerprint"], &shown["reason"]), (&json!(fp), &json!("PERMANENT_FAILURE")), "{shown}");

    // One at once.
    let dry = rig.post(&format!("/v1/executions/{three}/replay?dry_run=true"), "").await;
    assert_eq!((dry.status.as_u16(), &dry.json()["state"]), (200, &json!("DEAD")), "{}", dry.text);
    let replayed = rig.post(&format!("/v1/executions/{three}/replay"), "").await;
    assert_eq!((replayed.status.as_u16(), &replayed.json()["state"]), (202, &json!("PENDING")), "{}", replayed.text);
    let again = rig.post(&format!("/v1/executions/{three}/replay"), "").await;
    assert_eq!((again.refusal(), &again.json()["state"]), ((409, "execution_not_dead".into()), &json!("PENDING")));
    let claimed = rig.claim(1).await.remove(0);
    assert_eq!((&claimed["execution_id"], &claimed["attempt"]), (&json!(three), &json!(2)), "attempts go on");
    let end = json!({"status": "SUCCEEDED", "fence_token": claimed["fence_token"]});
    rig.post(&format!("/internal/v1/executions/{three}/complete"), &end.to_string()).await;

    // A group, as an operation.
    let plan = rig.post("/v1/dead/replay?dry_run=true", &json!({"fingerprint": fp}).to_string()).await;
    assert_eq!(
        (plan.status.as_u16(), &plan.json()["count"], &plan.json()["more"]),
        (200, &json!(2), &json!(false)),
        "{}",
        plan.text
    );
    assert_eq!(plan.json()["samples"].as_array().unwrap().len(), 2);
    let body = json!({"filter": format!("fp:{fp}"), "rate": "1000/s", "canary": 1, "stop_if_failing_percent": 50});
    let accepted = rig.post("/v1/dead/replay", &body.to_string()).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let operation = accepted.json();
    let path = format!("/v1/operations/{}", operation["id"].as_str().unwrap());
    assert_eq!(accepted.header("location"), path);
    assert_eq!(
        (&operation["kind"], &operation["state"], &operation["progress"]["total"]),
        (&json!("REPLAY"), &json!("RUNNING"), &json!(2))
    );
    assert_eq!(
        (&operation["spec"]["filter"], &operation["spec"]["per_second"]),
        (&json!(format!("fp:{fp}")), &json!(1000.0))
    );
    for _ in 0..2 {
        let claimed = rig.claim(1).await.remove(0);
        let end = json!({"status": "SUCCEEDED", "fence_token": claimed["fence_token"]});
        let id = claimed["execution_id"].as_str().unwrap();
        rig.post(&format!("/internal/v1/executions/{id}/complete"), &end.to_string()).await;
    }
    let done = rig.until(&path, |answer| answer.json()["is_final"] == true).await.json();
    assert_eq!((&done["state"], &done["progress"]["succeeded"]), (&json!("DONE"), &json!(2)), "{done}");
    assert_eq!(rig.get("/v1/operations").await.json()["data"][0]["id"], operation["id"]);
    assert_eq!(rig.post(&format!("{path}/cancel"), "").await.refusal(), (409, "operation_final".into()));

    // Given up, with a reason.
    let four = rig.kill("b", "ValueError", "bad input").await;
    let dry = rig.post("/v1/dead/discard?dry_run=1", r#"{"all":true,"reason":"x"}"#).await;
    assert_eq!(dry.json()["count"], 1, "{}", dry.text);
    let body = json!({"executions": [four, one, "exe_01J9ZC0000000000000000TEST"], "reason": "fixed by hand"});
    let discarded = rig.post("/v1/dead/discard", &body.to_string()).await.json();
    assert_eq!(discarded["discarded"], 1, "{discarded}");
    assert_eq!(
        (&discarded["refused"][0]["code"], &discarded["refused"][0]["state"]),
        (&json!("execution_not_dead"), &json!("SUCCEEDED"))
    );
    assert_eq!(discarded["refused"][1]["code"], "execution_not_found");
    let buried = rig.get(&format!("/v1/executions/{four}")).await.json();
    assert_eq!(
        (&buried["state"], &buried["note"], &buried["reason"]),
        (&json!("CANCELLED"), &json!("fixed by hand"), &json!("DISCARDED_BY_USER"))
    );
    rig.kill("b", "ValueError", "bad input").await;
    let all = rig.post("/v1/dead/discard", r#"{"filter":"handler:bill","reason":"old"}"#).await.json();
    assert_eq!(all, json!({"discarded": 1, "refused": []}));
    assert_eq!(rig.get("/v1/dead/groups").await.json()["data"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backfill_is_planned_run_and_not_repeated() {
    let rig = Rig::ready().await;
    let id = rig.create("b", r#","schedule":"every 1h""#).await;
    let path = format!("/v1/jobs/{id}/backfill");
    let now = rig.handle().now();
    let hours_ago = |hours: i64| now.saturating_add_ms(-hours * 3_600_000).to_string();
    let range = json!({"from": hours_ago(5), "to": hours_ago(2)});
    let plan = rig.post(&format!("{path}?dry_run=true"), &range.to_string()).await;
    assert_eq!(plan.status, 200, "{}", plan.text);
    let plan = plan.json();
    assert_eq!((&plan["fires"], &plan["starts"], &plan["dry_run"]), (&json!(3), &json!(3), &json!(true)), "{plan}");
    assert_eq!((&plan["samples"][0]["starts"], plan["samples"][0].get("state")), (&json!(true), None));
    let accepted = rig.post("/v1/jobs/name:b/backfill", &range.to_string()).await;
    assert_eq!(accepted.status, 202, "{}", accepted.text);
    let operation = accepted.json();
    assert_eq!(
        (&operation["spec"]["job_id"], &operation["spec"]["max_parallel"], &operation["spec"]["reprocess"]),
        (&json!(id), &json!(1), &json!("NONE"))
    );
    let done = rig.until(accepted.header("location"), |answer| answer.json()["is_final"] == true).await.json();
    assert_eq!((&done["state"], &done["progress"]["succeeded"]), (&json!("DONE"), &json!(3)), "{done}");
    let listed = rig.get(&format!("/v1/jobs/{id}/executions?q=kind:backfill")).await.json();
    assert_eq!(listed["data"].as_array().unwrap().len(), 3, "{listed}");
    let again = rig.post(&format!("{path}?dry_run=true"), &range.to_string()).await.json();
    assert_eq!(again["starts"], 0, "{again}");
    assert_eq!(
        (&again["samples"][0]["state"], &again["samples"][0]["reason"]),
        (&json!("SUCCEEDED"), &json!("DEDUPLICATED"))
    );
    let redo = rig
        .post(&format!("{path}?dry_run=true"), r#"{"from":"-5h","to":"-2h","reprocess":"all","maxParallel":3}"#)
        .await
        .json();
    assert_eq!(redo["starts"], redo["fires"], "{redo}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_answers_for_any_instant() {
    let rig = Rig::manual().await;
    let id = rig.create("w", r#","schedule":"every 1h""#).await;
    let why = async |at: &str| rig.get(&format!("/v1/jobs/{id}/why?at={at}")).await.json();
    let coming = why("2026-11-16T04:00:00Z").await;
    assert_eq!((&coming["verdict"], &coming["reason"]), (&json!("WILL_RUN"), &json!("NOT_DUE")), "{coming}");
    assert_eq!(
        (&coming["previous_fire_at"], &coming["next_fire_at"]),
        (&json!("2026-11-16T03:00:00Z"), &json!("2026-11-16T05:00:00Z"))
    );
    let between = why("2026-11-16T04:30:00Z").await;
    assert_eq!((&between["verdict"], &between["reason"]), (&json!("DID_NOT_RUN"), &json!("NOT_DUE")), "{between}");
    assert_eq!(why("-30d").await["reason"], "NOT_DUE", "before it was created");
    assert!(rig.get(&format!("/v1/jobs/{id}/why")).await.status == 200, "now");

    // A fire that has not come can be cancelled, once.
    let path = format!("/v1/jobs/{id}/fires/cancel");
    let cancelled = rig.post(&path, r#"{"at":"2026-11-16T04:00:00Z","note":"holiday"}"#).await;
    assert_eq!(
        (cancelled.status.as_u16(), &cancelled.json()["state"]),
        (202, &json!("CANCELLED")),
        "{}",
        cancelled.text
    );
    assert_eq!(cancelled.json()["fire_at"], "2026-11-16T04:00:00Z");
    let again = rig.post(&path, r#"{"at":"2026-11-16T04:00:00Z"}"#).await;
    assert_eq!((again.refusal(), &again.json()["state"]), ((409, "execution_final".into()), &json!("CANCELLED")));
    let asked = why("2026-11-16T04:00:00Z").await;
    assert_eq!((&asked["verdict"], &asked["reason"]), (&json!("DID_NOT_RUN"), &json!("CANCELLED_BY_USER")), "{asked}");
    assert_eq!(asked["execution"]["note"], "holiday");
    let wrong = rig.post(&path, r#"{"at":"2026-11-16T04:00:01Z"}"#).await;
    assert_eq!((wrong.refusal(), &wrong.json()["errors"][0]["pointer"]), ((422, "not_a_fire".into()), &json!("/at")));

    rig.post(&format!("/v1/jobs/{id}/pause"), "").await;
    let paused = why("2026-11-16T05:00:00Z").await;
    assert_eq!(
        (&paused["reason"], &paused["fixes"][0]),
        (&json!("PAUSED"), &json!("campanile job resume w")),
        "{paused}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_may_have_an_end() {
    let rig = Rig::manual().await;
    let id = rig.create("a", r#","schedule":"every 1h""#).await;
    let path = format!("/v1/jobs/{id}/pause");
    let dry = rig.post(&format!("{path}?dry_run=true"), r#"{"until":"2h"}"#).await.json();
    assert_eq!((&dry["paused_until"], &dry["state"]), (&json!("2026-11-16T04:00:00Z"), &json!("PAUSED")), "{dry}");
    let paused = rig.post(&path, r#"{"until":"90m"}"#).await.json();
    assert_eq!(
        (&paused["paused_until"], &paused["state"]),
        (&json!("2026-11-16T03:30:00Z"), &json!("PAUSED")),
        "{paused}"
    );
    let other = rig.post(&path, r#"{"until":"2026-11-17T00:00:00Z"}"#).await.json();
    assert_eq!(other["paused_until"], "2026-11-17T00:00:00Z");
    assert_eq!(
        rig.post(&path, r#"{"until":"2020-01-01T00:00:00Z"}"#).await.refusal(),
        (422, "until_in_the_past".into())
    );
    assert_eq!(rig.post(&path, r#"{"until":"someday"}"#).await.refusal(), (422, "instant_invalid".into()));
    assert_eq!(rig.post(&path, r#"{"util":"2h"}"#).await.refusal(), (400, "field_unknown".into()));
    let resumed = rig.post(&format!("/v1/jobs/{id}/resume"), "").await.json();
    assert_eq!(resumed.get("paused_until"), None, "{resumed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_come_out_as_they_went_in_and_can_be_patched() {
    let rig = Rig::manual().await;
    let fields = r#","schedule":"every 1h","overlap":"buffer_one","catch_up":{"mode":"coalesced","max_age":"6h","drip":"5s"},
        "retry":{"total_timeout":"2h"},"expect":{"start_within":"1m","finish_within_ms":7200000,"success_every":"25h"},
        "blackouts":[{"from":"2026-12-24T00:00:00Z","to":"2026-12-27T00:00:00Z"}],"estimated_duration":"5m""#;
    let id = rig.create("a", fields).await;
    let path = format!("/v1/jobs/{id}");
    let job = rig.get(&path).await.json();
    assert_eq!((&job["overlap"], &job["pool"]), (&json!("BUFFER_ONE"), &json!("long")), "{job}");
    assert_eq!(job["catch_up"], json!({"mode": "COALESCED", "max_age_ms": 21_600_000, "drip_ms": 5_000}));
    assert_eq!(job["retry_policy"]["total_timeout_ms"], 7_200_000);
    assert_eq!(
        job["expect"],
        json!({"start_within_ms": 60_000, "finish_within_ms": 7_200_000, "success_every_ms": 90_000_000})
    );
    assert_eq!(job["blackouts"], json!([{"from": "2026-12-24T00:00:00Z", "to": "2026-12-27T00:00:00Z"}]));
    let back = rig.put(&path, &job.to_string()).await;
    assert_eq!(back.status, 200, "what is shown can be sent back: {}", back.text);
    for field in ["overlap", "catch_up", "retry_policy", "expect", "blackouts", "pool", "schedule"] {
        assert_eq!(back.json()[field], job[field], "{field}");
    }
    let patch = async |body: &'static str| rig.ask(Method::PATCH, &path, &[JSON], body).await;
    let patched =
        patch(r#"{"expect":{"start_within":null},"overlap":"skip","retry":{"totalTimeoutMs":null}}"#).await.json();
    assert_eq!(
        (&patched["overlap"], patched["retry_policy"].get("total_timeout_ms")),
        (&json!("SKIP"), None),
        "{patched}"
    );
    assert_eq!(patched["expect"], json!({"finish_within_ms": 7_200_000, "success_every_ms": 90_000_000}));
    assert_eq!(patched["catch_up"]["mode"], "COALESCED");
    let bare = patch(r#"{"expect":null,"blackouts":null,"overlap":null}"#).await.json();
    assert_eq!((&bare["overlap"], bare.get("expect"), bare.get("blackouts")), (&json!("ALLOW"), None, None), "{bare}");

    rig.create_for_worker("w", "send_mail", "").await;
    assert_eq!(rig.get("/v1/jobs/name:w").await.json()["target"], "send_mail");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_hear_of_events() {
    let rig = Rig::ready().await;
    let id = rig.create("a", "").await;
    // Nobody listens there.
    let body = r#"{"url":"http://127.0.0.1:1/hook","events":["execution.SUCCEEDED","dead","dead"],"job":"name:a"}"#;
    let made = rig.post("/v1/webhook-endpoints", body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let endpoint = made.json();
    let path = format!("/v1/webhook-endpoints/{}", endpoint["id"].as_str().unwrap());
    assert_eq!(made.header("location"), path);
    assert_eq!(
        (&endpoint["events"], &endpoint["job_id"], &endpoint["paused"]),
        (&json!(["succeeded", "dead"]), &json!(id), &json!(false))
    );
    assert_eq!(rig.get("/v1/webhook-endpoints").await.json()["data"], json!([endpoint]));
    rig.run("a").await;
    let is_tried = |answer: &rig::Answer| answer.json()["data"][0]["tries"].as_u64() >= Some(1);
    let deliveries = rig.until(&format!("{path}/deliveries"), is_tried).await.json();
    let delivery = &deliveries["data"][0];
    assert_eq!(
        (&delivery["event"], &delivery["state"], &delivery["job_id"]),
        (&json!("succeeded"), &json!("WAITING"), &json!(id)),
        "{delivery}"
    );
    assert!(
        delivery["error"].is_string() && delivery["next_at"].is_string() && delivery["data"].is_object(),
        "{delivery}"
    );
    let paused = rig.post(&format!("{path}/pause"), "").await.json();
    assert_eq!(paused["paused"], true);
    let again = rig.post(&format!("{path}/deliveries/{}/replay", delivery["seq"]), "").await;
    assert_eq!((again.status.as_u16(), &again.json()["tries"]), (202, &json!(0)), "{}", again.text);
    assert_eq!(
        rig.post(&format!("{path}/deliveries/999999/replay"), "").await.refusal(),
        (404, "delivery_not_found".into())
    );
    rig.run("a").await;
    rig.until(&format!("{path}/deliveries"), |answer| answer.json()["data"].as_array().unwrap().len() == 2).await;
    let first = rig.get(&format!("{path}/deliveries?limit=1")).await.json();
    assert_eq!(first["has_more"], true);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = rig.get(&format!("{path}/deliveries?limit=1&cursor={cursor}")).await.json();
    assert_eq!((&second["data"][0]["seq"], &second["has_more"]), (&delivery["seq"], &json!(false)), "{second}");
    assert_eq!(rig.get(&format!("/v1/operations?cursor={cursor}")).await.refusal(), (400, "cursor_invalid".into()));

    let replaced = rig.put(&path, r#"{"url":"http://127.0.0.1:2/","events":["late"],"tag":"x"}"#).await.json();
    assert_eq!(
        (&replaced["events"], replaced.get("job_id"), &replaced["paused"]),
        (&json!(["late"]), None, &json!(true)),
        "{replaced}"
    );
    assert_eq!(rig.put(&path, &replaced.to_string()).await.json(), replaced, "what is shown can be sent back");
    assert_eq!(rig.post(&format!("{path}/resume"), "").await.json()["paused"], false);
    assert_eq!(rig.delete(&path).await.status, 204);
    for gone in [rig.get(&path).await, rig.delete(&path).await, rig.get(&format!("{path}/deliveries")).await] {
        assert_eq!(gone.refusal(), (404, "endpoint_not_found".into()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_come_from_counters() {
    let rig = Rig::ready().await;
    rig.create("a", "").await;
    let id = rig.run("a").await;
    rig.get(&format!("/v1/executions/{id}?wait=10s")).await;
    let counts = rig.get("/v1/counts").await.json();
    assert_eq!(counts["data"], json!([{"pool": "short", "state": "SUCCEEDED", "executions": 1}]));
    let stats = rig.get("/v1/stats?from=-10m&to=%2B2m&step=2m&pool=short").await.json();
    assert_eq!(
        (&stats["total"]["succeeded"], &stats["total"]["dead"], &stats["step_ms"]),
        (&json!(1), &json!(0), &json!(120_000)),
        "{stats}"
    );
    assert_eq!(stats["total"]["lateness"]["count"], 1, "{stats}");
    let steps = stats["steps"].as_array().unwrap();
    assert!((6..=7).contains(&steps.len()), "{stats}");
    assert_eq!(steps.iter().map(|step| step["succeeded"].as_u64().unwrap()).sum::<u64>(), 1);
    assert_eq!(rig.get("/v1/stats?pool=nobody").await.json()["total"]["succeeded"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_are_refused_with_the_place_and_a_hint() {
    let rig = Rig::manual().await;
    let answer = rig.get("/v1/executions?q=state:dead+jbo:x").await;
    assert_eq!(answer.refusal(), (422, "filter_invalid".into()), "{}", answer.text);
    let error = answer.json()["errors"][0].clone();
    assert_eq!((&error["pointer"], &error["position"]), (&json!("/q"), &json!([11, 14])), "{error}");
    assert_eq!(error["hint"], "did you mean `job`?");
    let body = rig.post("/v1/dead/replay", r#"{"filter":"late:soon"}"#).await.json();
    assert_eq!(
        (&body["errors"][0]["pointer"], body["errors"][0]["position"].is_array()),
        (&json!("/filter"), true),
        "{body}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_of_operators_are_refused_with_a_code() {
    let rig = Rig::manual().await;
    rig.create("a", r#","schedule":"every 1h""#).await;
    let many: Vec<String> = (0..1_001).map(|_| "\"exe_01J9ZC0000000000000000TEST\"".to_owned()).collect();
    let many = format!(r#"{{"executions":[{}]}}"#, many.join(","));
    let rows: Vec<(Method, &str, &str, u16, &str)> = vec![
        (Method::GET, "/v1/executions?fp=xyz", "", 400, "parameter_invalid"),
        (Method::GET, "/v1/executions?from=yesterday", "", 400, "parameter_invalid"),
        (Method::GET, "/v1/executions?from=-1h&scheduled_after=2026-01-01T00:00:00Z", "", 400, "parameter_duplicate"),
        (Method::GET, "/v1/jobs/name:a/executions?job=name:a", "", 400, "parameter_duplicate"),
        (Method::GET, "/v1/dead?state=dead", "", 400, "parameter_duplicate"),
        (Method::GET, "/v1/dead?cursor=abc", "", 400, "cursor_invalid"),
        (Method::GET, "/v1/executions/exe_01J9ZC0000000000000000TEST/logs", "", 404, "execution_not_found"),
        (Method::GET, "/v1/executions/exe_01J9ZC0000000000000000TEST/logs?after=x", "", 400, "parameter_invalid"),
        (Method::POST, "/v1/executions/exe_01J9ZC0000000000000000TEST/replay", "", 404, "execution_not_found"),
        (
            Method::POST,
            "/v1/executions/exe_01J9ZC0000000000000000TEST/cancel",
            r#"{"grace_ms":-1}"#,
            422,
            "duration_invalid",
        ),
        (
            Method::POST,
            "/v1/executions/exe_01J9ZC0000000000000000TEST/cancel",
            r#"{"grace":"48h"}"#,
            422,
            "duration_invalid",
        ),
        (Method::POST, "/v1/executions/exe_01J9ZC0000000000000000TEST/cancel", r#"{"at":"now"}"#, 400, "field_unknown"),
        (Method::POST, "/v1/jobs/name:a/fires/cancel", "{}", 422, "instant_invalid"),
        (Method::POST, "/v1/jobs/name:a/fires/cancel", r#"{"at":"soon"}"#, 422, "instant_invalid"),
        (Method::POST, "/v1/jobs/name:x/fires/cancel", r#"{"at":"2026-11-16T03:00:00Z"}"#, 404, "job_not_found"),
        (Method::GET, "/v1/jobs/name:a/why?at=2h", "", 400, "parameter_invalid"),
        (Method::GET, "/v1/jobs/name:x/why", "", 404, "job_not_found"),
        (Method::POST, "/v1/jobs/name:a/backfill", "{}", 422, "field_missing"),
        (Method::POST, "/v1/jobs/name:a/backfill", r#"{"from":"x"}"#, 422, "instant_invalid"),
        (Method::POST, "/v1/jobs/name:a/backfill", r#"{"from":"now","to":"-1h"}"#, 422, "range_invalid"),
        (Method::POST, "/v1/jobs/name:a/backfill", r#"{"from":"-1h","to":"+1h"}"#, 422, "range_invalid"),
        (Method::POST, "/v1/jobs/name:a/backfill", r#"{"from":"-1h","reprocess":"some"}"#, 422, "reprocess_invalid"),
        (Method::POST, "/v1/jobs/name:a/backfill", r#"{"from":"-1h","max_parallel":0}"#, 422, "max_parallel_invalid"),
        (Method::POST, "/v1/jobs/name:a/backfill", r#"{"from":"-1h","rate":"fast"}"#, 422, "rate_invalid"),
        (Method::POST, "/v1/dead/replay", "{}", 422, "selection_missing"),
        (Method::POST, "/v1/dead/replay", r#"{"all":false}"#, 422, "selection_missing"),
        (Method::POST, "/v1/dead/replay", r#"{"filter":""}"#, 422, "selection_missing"),
        (Method::POST, "/v1/dead/replay", r#"{"executions":[]}"#, 422, "selection_missing"),
        (Method::POST, "/v1/dead/replay", r#"{"filter":"job:a","all":true}"#, 422, "selection_ambiguous"),
        (Method::POST, "/v1/dead/replay", r#"{"executions":["x"]}"#, 422, "id_invalid"),
        (Method::POST, "/v1/dead/replay", &many, 422, "batch_too_large"),
        (Method::POST, "/v1/dead/replay", r#"{"fingerprint":"-"}"#, 422, "fingerprint_invalid"),
        (Method::POST, "/v1/dead/replay", r#"{"all":true,"rate":"5/s","per_second":5}"#, 422, "field_duplicate"),
        (Method::POST, "/v1/dead/replay", r#"{"all":true,"per_second":0}"#, 422, "rate_invalid"),
        (Method::POST, "/v1/dead/replay", r#"{"all":true,"canary":0}"#, 422, "canary_invalid"),
        (Method::POST, "/v1/dead/replay", r#"{"all":true,"stop_if_failing":"most"}"#, 422, "percent_invalid"),
        (Method::POST, "/v1/dead/replay", r#"{"all":true,"stop_if_failing_percent":101}"#, 422, "percent_invalid"),
        (Method::POST, "/v1/dead/replay", r#"{"all":true,"reason":"x"}"#, 400, "field_unknown"),
        (Method::POST, "/v1/dead/discard", r#"{"all":true}"#, 422, "reason_missing"),
        (Method::POST, "/v1/dead/discard", r#"{"all":true,"reason":"  "}"#, 422, "reason_missing"),
        (Method::POST, "/v1/dead/discard", r#"{"reason":"x"}"#, 422, "selection_missing"),
        (Method::GET, "/v1/operations/x", "", 400, "invalid_id"),
        (Method::GET, "/v1/operations/op_01J9ZC0000000000000000TEST", "", 404, "operation_not_found"),
        (Method::POST, "/v1/operations/op_01J9ZC0000000000000000TEST/cancel", "", 404, "operation_not_found"),
        (Method::PUT, "/v1/pools/p", r#"{"slots":0}"#, 422, "slots_invalid"),
        (Method::PUT, "/v1/pools/p", r#"{"slots":4294967296}"#, 422, "slots_invalid"),
        (Method::PUT, "/v1/pools/p", r#"{"slot":1}"#, 400, "field_unknown"),
        (Method::PUT, "/v1/pools/a%2Fb", "{}", 422, "pool_invalid"),
        (Method::PUT, "/v1/pools/%20p", "{}", 422, "pool_invalid"),
        (Method::POST, "/v1/pools/a:b/pause", "", 422, "pool_invalid"),
        (Method::PUT, "/v1/targets/a%20b", "{}", 422, "target_invalid"),
        (Method::PUT, "/v1/targets/h", r#"{"per_second":-1}"#, 422, "rate_invalid"),
        (Method::PUT, "/v1/targets/h", r#"{"per_second":"1"}"#, 422, "wrong_type"),
        (Method::POST, "/v1/webhook-endpoints", "{}", 422, "field_missing"),
        (Method::POST, "/v1/webhook-endpoints", r#"{"url":"http://127.0.0.1:1/","events":[]}"#, 422, "field_missing"),
        (
            Method::POST,
            "/v1/webhook-endpoints",
            r#"{"url":"http://127.0.0.1:1/","events":["born"]}"#,
            422,
            "event_invalid",
        ),
        (Method::POST, "/v1/webhook-endpoints", r#"{"url":"ftp://x/","events":["dead"]}"#, 422, "url_invalid"),
        (
            Method::POST,
            "/v1/webhook-endpoints",
            r#"{"url":"http://127.0.0.1:1/","events":["dead"],"tag":""}"#,
            422,
            "tag_invalid",
        ),
        (
            Method::POST,
            "/v1/webhook-endpoints",
            r#"{"url":"http://127.0.0.1:1/","events":["dead"],"job":"name:x"}"#,
            404,
            "job_not_found",
        ),
        (Method::PUT, "/v1/webhook-endpoints/ntf_01J9ZC0000000000000000TEST", "{}", 404, "endpoint_not_found"),
        (Method::GET, "/v1/webhook-endpoints/42", "", 400, "invalid_id"),
        (Method::GET, "/v1/stats?step=90s", "", 400, "parameter_invalid"),
        (Method::GET, "/v1/stats?step=0s", "", 400, "parameter_invalid"),
        (Method::GET, "/v1/stats?from=-365d", "", 400, "parameter_invalid"),
        (Method::GET, "/v1/stats?from=now&to=-1h", "", 400, "parameter_invalid"),
        (Method::GET, "/v1/counts?pool=x", "", 400, "parameter_unknown"),
        (Method::POST, "/v1/workers/nobody/drain", "", 404, "worker_not_found"),
    ];
    for (method, path, body, status, code) in rows {
        let headers: &[(&str, &str)] = if body.is_empty() { &[] } else { &[JSON] };
        let answer = rig.ask(method.clone(), path, headers, body.to_owned()).await;
        let shown: String = body.chars().take(100).collect();
        assert_eq!(answer.refusal(), (status, code.to_owned()), "{method} {path} {shown}: {}", answer.text);
        assert_eq!(answer.header("content-type"), "application/problem+json", "{path}");
    }
    let nothing: [&str; 2] = ["/v1/operations", "/v1/webhook-endpoints"];
    for path in nothing {
        assert_eq!(rig.get(path).await.json()["data"], Value::Array(vec![]), "something was written to {path}");
    }
}
