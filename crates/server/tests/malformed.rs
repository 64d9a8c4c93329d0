//! Bad input gets its status and code, and leaves nothing behind.

mod rig;

use http::Method;
use rig::Rig;

struct Row<'a> {
    what: &'a str,
    method: Method,
    path: String,
    headers: Vec<(&'a str, String)>,
    body: Vec<u8>,
    expected: (u16, &'a str),
}

fn post<'a>(what: &'a str, body: impl Into<Vec<u8>>, status: u16, code: &'a str) -> Row<'a> {
    let headers = vec![("content-type", "application/json".to_owned())];
    Row { what, method: Method::POST, path: "/v1/jobs".into(), headers, body: body.into(), expected: (status, code) }
}

/// A job with these further fields.
fn job<'a>(what: &'a str, fields: &str, status: u16, code: &'a str) -> Row<'a> {
    let body = format!("{{\"name\":\"bad\",\"action\":{{\"type\":\"NOOP\"}},{fields}}}");
    post(what, body, status, code)
}

fn get<'a>(what: &'a str, path: &str, status: u16, code: &'a str) -> Row<'a> {
    Row { what, method: Method::GET, path: path.into(), headers: vec![], body: vec![], expected: (status, code) }
}

impl<'a> Row<'a> {
    fn at(mut self, method: Method, path: &str) -> Self {
        (self.method, self.path) = (method, path.into());
        self
    }

    fn with(mut self, name: &'a str, value: &str) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }
}

const GOOD: &str = r#"{"name":"bad","action":{"type":"NOOP"}}"#;

fn bodies() -> Vec<Row<'static>> {
    let deep = |open: &str, close: &str, n: usize| {
        format!("{{\"name\":\"bad\",\"payload\":{}{}}}", open.repeat(n), close.repeat(n))
    };
    let keys: Vec<String> = (0..40_000).map(|i| format!("\"k{i}\":1")).collect();
    let million: Vec<String> = (0..1_000_000).map(|i| format!("\"k{i}\":1")).collect();
    let huge = format!("{{\"name\":\"bad\",\"payload\":\"{}\"}}", "x".repeat(600 * 1024));
    vec![
        post("no body", "", 400, "json_invalid"),
        post("not JSON", "hello", 400, "json_invalid"),
        post("half of JSON", "{\"name\":", 400, "json_invalid"),
        post("two values", "{} {}", 400, "json_invalid"),
        post("NaN", r#"{"name":"bad","timeout_ms":NaN}"#, 400, "json_invalid"),
        post("byte order mark", "\u{feff}{}", 400, "json_invalid"),
        post("not UTF-8", b"{\"name\":\"\xff\xfe\"}".to_vec(), 400, "utf8_invalid"),
        post("lone surrogate", br#"{"name":"\ud800","action":{"type":"NOOP"}}"#.to_vec(), 400, "json_invalid"),
        post("an array", "[]", 422, "wrong_type"),
        post("a number", "5", 422, "wrong_type"),
        post("null", "null", 422, "wrong_type"),
        post("depth 100 000", deep("[", "]", 100_000), 400, "json_too_deep"),
        post("depth 100 000, never closed", "[".repeat(100_000), 400, "json_too_deep"),
        post("depth 100 000 of objects", deep("{\"a\":", "", 80_000), 400, "json_too_deep"),
        post("40 000 keys", format!("{{{}}}", keys.join(",")), 400, "field_unknown"),
        post(
            "40 000 keys in an action",
            format!("{{\"name\":\"bad\",\"action\":{{{}}}}}", keys.join(",")),
            422,
            "action_invalid",
        ),
        post("a million keys", format!("{{{}}}", million.join(",")), 413, "body_too_large"),
        post("600 KiB", huge, 413, "body_too_large"),
        job("payload of 300 KiB", &format!("\"payload\":\"{}\"", "x".repeat(300 * 1024)), 413, "payload_too_large"),
        post("form", GOOD, 415, "content_type_unsupported").with("content-type", "application/x-www-form-urlencoded"),
        post("text", GOOD, 415, "content_type_unsupported").with("content-type", "text/plain"),
        post("latin 1", GOOD, 415, "content_type_unsupported").with("content-type", "application/json; charset=latin1"),
        post("gzip", GOOD, 415, "encoding_unsupported").with("content-encoding", "gzip"),
        post("zstd", GOOD, 415, "encoding_unsupported").with("content-encoding", "zstd"),
        post("batch of 9 MiB", vec![b' '; 9 << 20], 413, "body_too_large").at(Method::POST, "/v1/jobs:batch"),
        post("batch of 1001", format!("[{}]", vec!["{}"; 1001].join(",")), 422, "batch_too_large")
            .at(Method::POST, "/v1/jobs:batch"),
        post("batch without jobs", "{}", 422, "jobs_missing").at(Method::POST, "/v1/jobs:batch"),
        post("batch with more", r#"{"jobs":[],"atomic":true}"#, 400, "field_unknown")
            .at(Method::POST, "/v1/jobs:batch"),
        post("batch of no array", r#"{"jobs":{}}"#, 422, "wrong_type").at(Method::POST, "/v1/jobs:batch"),
    ]
}

fn fields() -> Vec<Row<'static>> {
    let tags = |n: usize| format!("\"tags\":[{}]", vec!["\"t\""; n].join(","));
    let blackout = r#"{"from":"2030-01-01T00:00:00Z","to":"2030-01-02T00:00:00Z"}"#;
    let blackouts = |n: usize| format!("\"blackouts\":[{}]", vec![blackout; n].join(","));
    vec![
        post("no name", r#"{"action":{"type":"NOOP"}}"#, 422, "name_missing"),
        post("name is null", r#"{"name":null,"action":{"type":"NOOP"}}"#, 422, "name_missing"),
        post("action is null", r#"{"name":"bad","action":null}"#, 422, "wrong_type"),
        post("no action", r#"{"name":"bad"}"#, 422, "action_missing"),
        post("name is a number", r#"{"name":5,"action":{"type":"NOOP"}}"#, 422, "wrong_type"),
        post("name is empty", r#"{"name":"","action":{"type":"NOOP"}}"#, 422, "name_invalid"),
        post("name has a slash", r#"{"name":"a/b","action":{"type":"NOOP"}}"#, 422, "name_invalid"),
        post("name has a NUL", r#"{"name":"a\u0000b","action":{"type":"NOOP"}}"#, 422, "name_invalid"),
        post(
            "name is long",
            format!("{{\"name\":\"{}\",\"action\":{{\"type\":\"NOOP\"}}}}", "n".repeat(201)),
            422,
            "name_invalid",
        ),
        post("action is unknown", r#"{"name":"bad","action":{"type":"SHELL"}}"#, 422, "action_unknown"),
        post("action has no type", r#"{"name":"bad","action":{}}"#, 422, "action_type_missing"),
        post("action is a text", r#"{"name":"bad","action":"NOOP"}"#, 422, "wrong_type"),
        post(
            "action has an unknown field",
            r#"{"name":"bad","action":{"type":"NOOP","url":"x"}}"#,
            400,
            "field_unknown",
        ),
        job("action and target", r#""target":{"handler":"h"}"#, 422, "field_duplicate"),
        job("unknown field", r#""scheduel":"@daily""#, 400, "field_unknown"),
        job("a field twice", r#""pool":"a","pool":"b""#, 422, "field_duplicate"),
        job("a field in two spellings", r#""timeout":"1s","timeoutSec":1"#, 422, "field_duplicate"),
        job("attempts and retries", r#""retry":{"max_attempts":2,"max_retries":1}"#, 422, "field_duplicate"),
        job("65 tags", &tags(65), 422, "tags_too_many"),
        job("an empty tag", r#""tags":[""]"#, 422, "tag_invalid"),
        job("tags is a text", r#""tags":"a""#, 422, "wrong_type"),
        job("unknown priority", r#""priority":"URGENT""#, 422, "priority_invalid"),
        job("unknown backoff", r#""retry":{"backoff":"LINEAR"}"#, 422, "backoff_invalid"),
        job("no attempts", r#""max_attempts":0"#, 422, "max_attempts_invalid"),
        job("2^63 attempts", r#""max_attempts":9223372036854775808"#, 422, "max_attempts_invalid"),
        job("negative attempts", r#""max_attempts":-1"#, 422, "wrong_type"),
        job("half an attempt", r#""max_attempts":1.5"#, 422, "wrong_type"),
        job("timeout 0", r#""timeout_ms":0"#, 422, "timeout_invalid"),
        job("negative timeout", r#""timeout_ms":-5"#, 422, "duration_invalid"),
        job("timeout beyond 64 bits", r#""timeoutSec":99999999999999999999"#, 422, "duration_invalid"),
        job("timeout beyond floats", r#""timeout_ms":1e999"#, 422, "number_invalid"),
        job("timeout of a year", r#""timeout":"365d""#, 422, "timeout_invalid"),
        job("timeout without a unit", r#""timeout":30"#, 422, "unit_missing"),
        job("timeout in words", r#""timeout":"soon""#, 422, "duration_invalid"),
        job("timeout that overflows", r#""timeout":"99999999999999999999h""#, 422, "duration_invalid"),
        job("spread of a day", r#""spread":"24h""#, 422, "spread_invalid"),
        job("last_n without n", r#""catch_up":"last_n""#, 422, "catch_up_invalid"),
        job("unknown catch-up", r#""catch_up":"some""#, 422, "catch_up_invalid"),
        job("coalesced with n", r#""catch_up":{"mode":"coalesced","n":2}"#, 422, "catch_up_invalid"),
        job("drip of 1 ms", r#""catch_up":{"mode":"all","drip_ms":1}"#, 422, "drip_invalid"),
        job("unknown overlap", r#""overlap":"QUEUE""#, 422, "overlap_invalid"),
        job("overlap is a flag", r#""overlap":true"#, 422, "wrong_type"),
        job(
            "total timeout below timeout",
            r#""timeout":"1m","retry":{"total_timeout":"30s"}"#,
            422,
            "total_timeout_invalid",
        ),
        job("expect is a text", r#""expect":"success""#, 422, "wrong_type"),
        job("expect has an unknown field", r#""expect":{"finish_by":"1h"}"#, 400, "field_unknown"),
        job("expect 0", r#""expect":{"start_within_ms":0}"#, 422, "expectation_invalid"),
        job("blackouts is an object", r#""blackouts":{}"#, 422, "wrong_type"),
        job("blackout without an end", r#""blackouts":[{"from":"2030-01-01T00:00:00Z"}]"#, 422, "blackout_invalid"),
        job(
            "blackout with more",
            r#""blackouts":[{"from":"2030-01-01T00:00:00Z","to":"2030-01-02T00:00:00Z","why":"x"}]"#,
            400,
            "field_unknown",
        ),
        job(
            "blackout that ends first",
            r#""blackouts":[{"from":"2030-01-02T00:00:00Z","to":"2030-01-01T00:00:00Z"}]"#,
            422,
            "blackout_invalid",
        ),
        job("101 blackouts", &blackouts(101), 422, "blackouts_too_many"),
        job("5000 blackouts", &blackouts(5_000), 422, "blackouts_too_many"),
        job("duration in words", r#""estimated_duration":"soon""#, 422, "estimated_duration_invalid"),
        job("duration without a unit", r#""estimated_duration":45"#, 422, "unit_missing"),
        job("pool and duration", r#""pool":"x","estimated_duration":"long""#, 422, "field_duplicate"),
        job("bad key in the body", r#""idempotency_key":"\u00e9""#, 400, "idempotency_key_invalid"),
    ]
}

fn schedules() -> Vec<Row<'static>> {
    let long = format!("\"schedule\":\"{} * * * *\"", "0,".repeat(400));
    vec![
        job("cron of 4 fields", r#""schedule":{"cron":"* * * *"}"#, 422, "cron_invalid"),
        job("cron out of range", r#""schedule":{"cron":"0 25 * * *"}"#, 422, "cron_invalid"),
        job("cron as one text", r#""schedule":"0 25 * * *""#, 422, "cron_invalid"),
        job("cron too long", &long, 422, "cron_invalid"),
        job("cron that never fires", r#""schedule":"0 0 30 2 *""#, 422, "cron_never_fires"),
        job("cron is a number", r#""schedule":{"cron":5}"#, 422, "wrong_type"),
        job("unknown zone", r#""schedule":"@daily","timezone":"Mars/Olympus""#, 422, "zone_unknown"),
        job("zone with dots", r#""schedule":"@daily","timezone":"../../etc/passwd""#, 422, "zone_unknown"),
        job("unknown dst_gap", r#""schedule":{"cron":"@daily","dst_gap":"jump"}"#, 422, "dst_gap_invalid"),
        job("two schedules", r#""schedule":{"cron":"@daily","every":"5m"}"#, 422, "schedule_ambiguous"),
        job("every 0", r#""schedule":{"every_ms":0}"#, 422, "every_invalid"),
        job("every negative", r#""schedule":{"every":"-5s"}"#, 422, "duration_invalid"),
        job("phase alone", r#""schedule":{"phase":"5s"}"#, 422, "phase_without_every"),
        job("at in the past", r#""run_at":"2020-01-01T00:00:00Z""#, 422, "at_in_the_past"),
        job("at without a zone", r#""run_at":"2030-01-01T00:00:00""#, 422, "instant_invalid"),
        job("at is a leap second", r#""run_at":"2016-12-31T23:59:60Z""#, 422, "instant_invalid"),
        job("at is a number", r#""run_at":1794794400"#, 422, "wrong_type"),
        job("after 1000 years", r#""delay":"365000d""#, 422, "delay_invalid"),
        job(
            "ends before it starts",
            r#""schedule":{"cron":"@daily","starts_at":"2030-01-02T00:00:00Z","ends_at":"2030-01-01T00:00:00Z"}"#,
            422,
            "window_empty",
        ),
        job("no fires", r#""schedule":{"cron":"@daily","max_fires":0}"#, 422, "max_fires_invalid"),
        job("type does not fit", r#""type":"ONE_TIME","schedule":"@daily""#, 422, "schedule_type_mismatch"),
        job("type without schedule", r#""type":"CRON""#, 422, "schedule_type_mismatch"),
        job("unknown type", r#""type":"SOMETIMES","schedule":"@daily""#, 422, "schedule_type_invalid"),
        job("schedule is a number", r#""schedule":5"#, 422, "wrong_type"),
        post("question without schedule", "{}", 422, "schedule_missing").at(Method::POST, "/v1/schedules:preview"),
        post("question of 1001", r#"{"schedule":"@daily","count":1001}"#, 422, "count_invalid")
            .at(Method::POST, "/v1/schedules:preview"),
        post("question with junk", r#"{"schedule":"@daily","cuont":1}"#, 400, "field_unknown")
            .at(Method::POST, "/v1/schedules:explain"),
        post("question from junk", r#"{"schedule":"@daily","from":"now"}"#, 422, "instant_invalid")
            .at(Method::POST, "/v1/schedules:explain"),
    ]
}

fn heads() -> Vec<Row<'static>> {
    const ID: &str = "/v1/jobs/job_01J9ZC0000000000000000TEST";
    let junk: Vec<(&str, String)> = vec![("x-junk", "j".repeat(20 * 1024))];
    vec![
        get("nothing there", "/v1/nothing", 404, "route_not_found"),
        get("no job", ID, 404, "job_not_found"),
        get("no name", "/v1/jobs/name:nobody", 404, "job_not_found"),
        get("no execution", "/v1/executions/exe_01J9ZC0000000000000000TEST", 404, "execution_not_found"),
        get("bad id", "/v1/jobs/42", 400, "invalid_id"),
        get("bad id of another kind", "/v1/jobs/exe_01J9ZC0000000000000000TEST", 400, "invalid_id"),
        get("bad id with dots", "/v1/jobs/..%2f..%2fetc", 400, "invalid_id"),
        get("bad id, not UTF-8", "/v1/jobs/%ff", 400, "path_invalid"),
        get("bad execution id", "/v1/executions/job_1", 400, "invalid_id"),
        get("name that is empty", "/v1/jobs/name:", 400, "invalid_id"),
        get("limit 0", "/v1/jobs?limit=0", 400, "limit_invalid"),
        get("limit 501", "/v1/jobs?limit=501", 400, "limit_invalid"),
        get("limit abc", "/v1/jobs?limit=abc", 400, "limit_invalid"),
        get("limit empty", "/v1/executions?limit=", 400, "limit_invalid"),
        get("limit negative", "/v1/executions?limit=-1", 400, "limit_invalid"),
        get("bad cursor", "/v1/jobs?cursor=abc", 400, "cursor_invalid"),
        get(
            "bad cursor of executions",
            "/v1/executions?cursor=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            400,
            "cursor_invalid",
        ),
        get("unknown parameter", "/v1/jobs?limt=5", 400, "parameter_unknown"),
        get("a parameter twice", "/v1/jobs?limit=5&limit=6", 400, "parameter_duplicate"),
        get("unknown state", "/v1/jobs?state=SLEEPING", 400, "parameter_invalid"),
        get("unknown execution state", "/v1/executions?state=PENDING,ASLEEP", 400, "parameter_invalid"),
        get("bad instant", "/v1/executions?scheduled_after=yesterday", 400, "parameter_invalid"),
        get("bad wait", "/v1/executions/exe_01J9ZC0000000000000000TEST?wait=long", 400, "parameter_invalid"),
        get("bad case", "/v1/jobs?case=kebab", 400, "parameter_invalid"),
        get("executions of no job", "/v1/executions?job=name:nobody", 404, "job_not_found"),
        get("long address", &format!("/v1/jobs?tag={}", "t".repeat(9_000)), 414, "uri_too_long"),
        Row { headers: junk, ..get("large headers", "/v1/jobs", 431, "headers_too_large") },
        post("bad dry_run", GOOD, 400, "parameter_invalid").at(Method::POST, "/v1/jobs?dry_run=maybe"),
        post("long key", GOOD, 400, "idempotency_key_invalid").with("idempotency-key", &"k".repeat(256)),
        post("empty key", GOOD, 400, "idempotency_key_invalid").with("idempotency-key", ""),
        post("bad If-Match", GOOD, 400, "if_match_invalid").at(Method::PUT, ID).with("if-match", "7"),
        post("If-Match without a job", GOOD, 412, "job_not_found")
            .at(Method::PUT, "/v1/jobs/name:bad")
            .with("if-match", "*"),
        post("another name", GOOD, 422, "name_mismatch").at(Method::PUT, "/v1/jobs/name:other"),
        post("put without a job", GOOD, 404, "job_not_found").at(Method::PUT, ID),
        post("patch without a job", "{}", 404, "job_not_found").at(Method::PATCH, ID),
        post("wrong method", GOOD, 405, "method_not_allowed").at(Method::DELETE, "/v1/jobs"),
        post("execute nothing", "{}", 422, "job_missing").at(Method::POST, "/v1/jobs/execute"),
        post("execute two", r#"{"job_id":"a","name":"b"}"#, 422, "field_duplicate")
            .at(Method::POST, "/v1/jobs/execute"),
    ]
}

async fn check(rows: Vec<Row<'_>>) {
    let rig = Rig::manual().await;
    let mut wrong = Vec::new();
    for row in rows {
        let headers: Vec<(&str, &str)> = row.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = rig.ask(row.method.clone(), &row.path, &headers, row.body).await;
        let (status, code) = answer.refusal();
        if (status, code.as_str()) != row.expected {
            wrong.push(format!("{}: expected {:?}, got {status} {}", row.what, row.expected, answer.text));
        }
        if answer.header("content-type") != "application/problem+json"
            || !answer.header("x-request-id").starts_with("req_")
        {
            wrong.push(format!("{}: headers {:?}", row.what, answer.headers));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(rig.get("/v1/jobs").await.json()["data"], serde_json::json!([]), "something was written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_bodies() {
    check(bodies()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_fields() {
    check(fields()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_schedules() {
    check(schedules()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn malformed_heads() {
    check(heads()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_faults_come_at_once_where_the_sender_wrote_them() {
    let rig = Rig::manual().await;
    let body = r#"{"name":"a/b","schedule":"0 25 * * *","target":{"handler":"h"},"timeoutSec":999999,
        "retryPolicy":{"maxAttempts":5000},"tags":[""]}"#;
    let answer = rig.post("/v1/jobs", body).await;
    let problem = answer.json();
    let errors = problem["errors"].as_array().unwrap();
    let mut pointers: Vec<&str> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
    pointers.sort_unstable();
    assert_eq!(pointers, ["/name", "/retryPolicy/maxAttempts", "/schedule", "/tags/0", "/timeoutSec"], "{problem:#}");
    let cron = errors.iter().find(|error| error["pointer"] == "/schedule").unwrap();
    assert_eq!(cron["position"], serde_json::json!([2, 4]));
}
