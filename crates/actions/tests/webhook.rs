//! Webhooks against real targets on loopback.

mod sink;

use campanile_actions::webhook::Webhook;
use campanile_actions::{Options, Secret};
use campanile_model::action::{Action, Work};
use campanile_model::execution::{Outcome, Response};
use campanile_model::{Clock, Timestamp, limits};
use campanile_testkit::ManualClock;
use campanile_testkit::conformance::action::work;
use campanile_testkit::conformance::in_time;
use sink::{Answer, OTHER_SECRET, SECRET, Sink, raw};
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn webhook() -> Webhook {
    Webhook::new(Options::dev())
}

fn attempt(webhook: &Webhook, config: &str) -> Work {
    let canonical = webhook.validate(config).unwrap_or_else(|errors| panic!("{config}: {errors:?}"));
    work(webhook, &canonical)
}

async fn run(webhook: &Webhook, config: &str) -> Outcome {
    in_time(webhook.run(&attempt(webhook, config))).await
}

/// Sends one webhook to a target that answers so.
async fn outcome_of(answer: Answer) -> Outcome {
    let sink = Sink::start(move |_| answer.clone()).await;
    run(&webhook(), &format!(r#"{{"url":"{}"}}"#, sink.url("/"))).await
}

#[track_caller]
fn failed(outcome: Outcome) -> (String, bool, Option<u64>, bool, Option<Response>) {
    match outcome {
        Outcome::Failed { error, retryable, retry_after_ms, pause_job, response } => {
            assert!(!error.message.is_empty());
            (error.kind, retryable, retry_after_ms, pause_job, response)
        }
        other => panic!("expected a failure, got {other:?}"),
    }
}

#[tokio::test]
async fn a_request_carries_everything_a_target_needs() {
    let sink = Sink::start(|_| Answer::ok("done")).await;
    let clock = ManualClock::new("2026-11-16T02:00:07.900Z".parse().unwrap());
    let webhook = Webhook::new(Options { clock: Arc::new(clock.clone()), ..Options::dev() });
    let config = format!(r#"{{"url":"{}","headers":{{"Authorization":"Bearer t","X-Own":"1"}}}}"#, sink.url("/h?a=b"));
    let mut work = attempt(&webhook, &config);
    Arc::make_mut(&mut work.definition).name = "Rückläufer\r\nX-Evil: 1".into();
    Arc::make_mut(&mut work.definition).payload = r#"{"n": 1.0}"#.into();
    work.covers_from = Some("2026-11-15T02:00:00Z".parse().unwrap());
    let outcome = in_time(webhook.run(&work)).await;
    let expected = Response { status: 200, body: b"done".to_vec(), truncated: false };
    assert_eq!(outcome, Outcome::Succeeded { response: Some(expected) });

    let requests = sink.requests();
    let [request] = &requests[..] else { panic!("{} requests", requests.len()) };
    assert_eq!((request.method.as_str(), request.uri.as_str()), ("POST", "/h?a=b"));
    assert_eq!(request.body, br#"{"n": 1.0}"#);
    let id = work.execution.to_string();
    for (name, value) in [
        ("webhook-id", id.as_str()),
        ("webhook-timestamp", &(clock.now().millis() / 1_000).to_string()),
        ("x-execution-id", &id),
        ("idempotency-key", &id),
        ("x-fence-token", "1187"),
        ("x-job-id", &work.job.to_string()),
        ("x-job-name", "R%C3%BCckl%C3%A4ufer%0D%0AX-Evil: 1"),
        ("x-attempt", "2"),
        ("x-max-attempts", "5"),
        ("x-scheduled-at", &work.fire_at.to_string()),
        ("x-covers-from", "2026-11-15T02:00:00Z"),
        ("x-deadline-ms", "5000"),
        ("content-type", "application/json"),
        ("content-length", "10"),
        ("user-agent", concat!("campanile/", env!("CARGO_PKG_VERSION"))),
        ("authorization", "Bearer t"),
        ("x-own", "1"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    for name in ["webhook-signature", "x-evil", "referer", "cookie", "accept-encoding"] {
        assert_eq!(request.header(name), None, "{name}");
    }
}

#[tokio::test]
async fn signatures_verify_over_the_bytes_that_arrived() {
    let sink = Sink::start(|_| Answer::ok("")).await;
    let defaults = vec![Secret::parse(OTHER_SECRET).unwrap()];
    let webhook = Webhook::new(Options { secrets: defaults, ..Options::dev() });
    let url = sink.url("/");
    for (config, secrets) in [
        (format!(r#"{{"url":"{url}","secret":"{SECRET}","body":{{"ü": [1,  2]}}}}"#), vec![SECRET]),
        (format!(r#"{{"url":"{url}","secret":["{SECRET}","{OTHER_SECRET}"]}}"#), vec![SECRET, OTHER_SECRET]),
        (format!(r#"{{"url":"{url}"}}"#), vec![OTHER_SECRET]),
        (format!(r#"{{"url":"{url}","method":"GET"}}"#), vec![OTHER_SECRET]),
    ] {
        assert!(matches!(run(&webhook, &config).await, Outcome::Succeeded { .. }));
        let request = sink.requests().pop().unwrap();
        sink::assert_signed(&request, &secrets);
    }
}

#[tokio::test]
async fn a_retry_keeps_the_id_and_changes_the_timestamp() {
    let sink = Sink::start(|_| Answer::ok("")).await;
    let clock = ManualClock::default();
    let webhook = Webhook::new(Options { clock: Arc::new(clock.clone()), ..Options::dev() });
    let work = attempt(&webhook, &format!(r#"{{"url":"{}","secret":"{SECRET}"}}"#, sink.url("/")));
    for _ in 0..2 {
        webhook.run(&work).await;
        clock.advance(90_000);
    }
    let requests = sink.requests();
    assert_eq!(requests[0].header("webhook-id"), requests[1].header("webhook-id"));
    let seconds = |n: usize| requests[n].header("webhook-timestamp").unwrap().parse::<i64>().unwrap();
    assert_eq!(seconds(1) - seconds(0), 90);
    assert_ne!(requests[0].header("webhook-signature"), requests[1].header("webhook-signature"));
}

#[tokio::test]
async fn methods_without_a_body_send_none() {
    let sink = Sink::start(|_| Answer::ok("x")).await;
    for (method, sends) in
        [("POST", true), ("PUT", true), ("PATCH", true), ("GET", false), ("HEAD", false), ("DELETE", false)]
    {
        let config = format!(r#"{{"url":"{}","method":"{method}"}}"#, sink.url("/"));
        assert!(matches!(run(&webhook(), &config).await, Outcome::Succeeded { .. }), "{method}");
        let request = sink.requests().pop().unwrap();
        assert_eq!(request.header("x-covers-from"), None, "it stands for no other fire");
        assert_eq!(request.method, method);
        assert_eq!(!request.body.is_empty(), sends, "{method}");
        assert_eq!(request.header("content-type").is_some(), sends, "{method}");
    }
}

#[tokio::test]
async fn answers_are_settled() {
    let (kind, retryable, _, pause, response) = failed(outcome_of(Answer::status(404)).await);
    assert_eq!((kind.as_str(), retryable, pause), ("http_404", false, false));
    assert_eq!(response.map(|r| r.status), Some(404));
    let (kind, retryable, _, pause, _) = failed(outcome_of(Answer::status(410)).await);
    assert_eq!((kind.as_str(), retryable, pause), ("http_410", false, true));
    let (_, retryable, after, ..) = failed(outcome_of(Answer::status(503).header("retry-after", "17")).await);
    assert_eq!((retryable, after), (true, Some(17_000)));
    let (_, retryable, ..) = failed(outcome_of(Answer::status(422).header("x-retryable", "true")).await);
    assert!(retryable);
    assert!(matches!(outcome_of(Answer::status(204)).await, Outcome::Succeeded { .. }));
}

#[tokio::test]
async fn retry_after_as_a_date_is_measured_by_our_clock() {
    let sink = Sink::start(|_| Answer::status(429).header("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")).await;
    let clock = ManualClock::new(Timestamp::from_millis(784_111_777_000 - 2_500));
    let webhook = Webhook::new(Options { clock: Arc::new(clock), ..Options::dev() });
    let (_, retryable, after, ..) = failed(run(&webhook, &format!(r#"{{"url":"{}"}}"#, sink.url("/"))).await);
    assert_eq!((retryable, after), (true, Some(2_500)));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let canary = Sink::start(|_| Answer::ok("")).await;
    let location = canary.url("/stolen");
    for status in [301, 302, 303, 307, 308] {
        let (kind, retryable, ..) = failed(outcome_of(Answer::status(status).header("location", &location)).await);
        assert_eq!((kind, retryable), (format!("http_{status}"), false));
    }
    assert_eq!(canary.accepted.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_target_that_never_answers_times_out() {
    let sink = Sink::start(|_| Answer::never()).await;
    let webhook = webhook();
    let mut work = attempt(&webhook, &format!(r#"{{"url":"{}"}}"#, sink.url("/")));
    work.timeout_ms = 50;
    let Outcome::TimedOut { error } = in_time(webhook.run(&work)).await else { panic!("no timeout") };
    assert_eq!(error.kind, "timeout");
    assert!(error.message.contains("50 ms"), "{}", error.message);
}

#[tokio::test]
async fn a_body_that_never_ends_in_time_times_out_but_a_refusal_stands() {
    let stalled = |status: &str| {
        let head = format!("HTTP/1.1 {status}\r\nretry-after: 3\r\ncontent-length: 100\r\n\r\nbeginning");
        raw(move |mut stream| {
            let head = head.clone();
            async move {
                stream.send(head.as_bytes()).await;
                stream.until_closed().await;
            }
        })
    };
    let webhook = webhook();
    let mut work = attempt(&webhook, &format!(r#"{{"url":"{}"}}"#, stalled("200 OK").await));
    work.timeout_ms = 100;
    assert!(matches!(in_time(webhook.run(&work)).await, Outcome::TimedOut { .. }));
    let mut work = attempt(&webhook, &format!(r#"{{"url":"{}"}}"#, stalled("503 Busy").await));
    work.timeout_ms = 100;
    let (kind, retryable, after, _, response) = failed(in_time(webhook.run(&work)).await);
    assert_eq!((kind.as_str(), retryable, after), ("http_503", true, Some(3_000)));
    assert_eq!(response, Some(Response { status: 503, body: b"beginning".to_vec(), truncated: true }));
}

#[tokio::test]
async fn of_a_body_without_end_only_the_limit_is_read() {
    let url = raw(|mut stream| async move {
        stream.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let chunk = [b"1000\r\n".as_slice(), &[b'x'; 4_096], b"\r\n"].concat();
        while stream.send(&chunk).await {}
    })
    .await;
    let outcome = run(&webhook(), &format!(r#"{{"url":"{url}"}}"#)).await;
    let Outcome::Succeeded { response: Some(response) } = outcome else { panic!("{outcome:?}") };
    assert_eq!((response.body.len(), response.truncated), (limits::RESPONSE_BYTES_MAX, true));

    for (length, truncated) in [(limits::RESPONSE_BYTES_MAX, false), (limits::RESPONSE_BYTES_MAX + 1, true)] {
        let outcome = outcome_of(Answer::ok(&"y".repeat(length))).await;
        let Outcome::Succeeded { response: Some(response) } = outcome else { panic!("{outcome:?}") };
        assert_eq!((response.body.len(), response.truncated), (limits::RESPONSE_BYTES_MAX, truncated));
    }
}

#[tokio::test]
async fn headers_without_end_are_cut_off() {
    let url = raw(|mut stream| async move {
        stream.send(b"HTTP/1.1 200 OK\r\n").await;
        while stream.send(b"x-filler: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n").await {}
    })
    .await;
    let (kind, retryable, ..) = failed(run(&webhook(), &format!(r#"{{"url":"{url}"}}"#)).await);
    assert_eq!((kind.as_str(), retryable), ("protocol", true));
}

#[tokio::test]
async fn what_breaks_on_the_way_has_its_kind() {
    let closed = raw(|_| async {}).await;
    let broken = raw(|mut stream| async move {
        stream.head().await;
        stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    })
    .await;
    let not_http = raw(|mut stream| async move {
        stream.send(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await;
        stream.until_closed().await;
    })
    .await;
    let not_tls = closed.replace("http://", "https://");
    let plain = Sink::start(|_| Answer::ok("")).await.url("/").replace("http://", "https://");
    for (url, expected) in [
        ("http://127.0.0.1:1/secret-path?token=secret-token".to_owned(), "connect"),
        (format!("{closed}secret-path?token=secret-token"), "reset"),
        (format!("{broken}secret-path?token=secret-token"), "reset"),
        (format!("{not_http}secret-path?token=secret-token"), "protocol"),
        (format!("{not_tls}secret-path?token=secret-token"), "reset"),
        (format!("{plain}secret-path?token=secret-token"), "tls"),
        ("http://no-such-name.invalid/secret-path?token=secret-token".to_owned(), "dns"),
    ] {
        let outcome =
            run(&webhook(), &format!(r#"{{"url":"{url}","headers":{{"authorization":"secret-token"}}}}"#)).await;
        assert!(!format!("{outcome:?}").contains("secret-"), "{outcome:?}");
        let Outcome::Failed { error, retryable, response, .. } = outcome else { panic!("{url}: {outcome:?}") };
        assert_eq!((error.kind.as_str(), retryable), (expected, true), "{url}: {}", error.message);
        assert_eq!(response, None);
    }
}

#[tokio::test]
async fn private_targets_see_no_packet_in_production() {
    let canary = Sink::start(|_| Answer::ok("")).await;
    let strict = Webhook::new(Options {
        targets: campanile_actions::Targets { private: false, plain_http: true, ports: Vec::new() },
        ..Options::default()
    });
    let port = canary.address.port();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "0", "localhost."] {
        let config = format!(r#"{{"url":"http://{host}:{port}/"}}"#);
        let errors = strict.validate(&config).expect_err("accepted");
        assert_eq!(errors[0].pointer, "/action/url");
        // A job from before the rule, or from a laptop's export.
        let (kind, retryable, ..) = failed(strict.run(&work(&strict, &config)).await);
        assert!(kind.starts_with("target_") && !retryable, "{kind}");
    }
    // A name that only the resolver can judge: the host's own name, which is some private or loopback address here.
    let own_name = std::fs::read_to_string("/etc/hostname").unwrap_or_default();
    if let Ok(mut addresses) = tokio::net::lookup_host((own_name.trim(), 0)).await
        && addresses.all(|a| campanile_actions::guard::classify(a.ip()) != campanile_actions::guard::Verdict::Public)
    {
        let config = format!(r#"{{"url":"http://{}:{port}/"}}"#, own_name.trim());
        let (kind, retryable, ..) = failed(run(&strict, &config).await);
        assert!(kind.starts_with("target_") && !retryable, "{kind}");
    }
    assert_eq!(canary.accepted.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn names_are_resolved_by_the_guard() {
    let sink = Sink::start(|_| Answer::ok("")).await;
    let config = format!(r#"{{"url":"http://localhost:{}/"}}"#, sink.address.port());
    assert!(matches!(run(&webhook(), &config).await, Outcome::Succeeded { .. }));
    assert_eq!(sink.requests()[0].header("host"), Some(format!("localhost:{}", sink.address.port()).as_str()));
}

#[tokio::test]
async fn connections_are_reused() {
    let sink = Sink::start(|_| Answer::ok("kept alive")).await;
    let webhook = webhook();
    let work = attempt(&webhook, &format!(r#"{{"url":"{}"}}"#, sink.url("/")));
    for _ in 0..50 {
        assert!(matches!(in_time(webhook.run(&work)).await, Outcome::Succeeded { .. }));
    }
    assert_eq!(sink.requests().len(), 50);
    assert_eq!(sink.accepted.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn nothing_in_a_job_can_add_a_header_or_a_request() {
    let url = raw_echo().await;
    let webhook = webhook();
    let evil = ["\r\n", "\n", "\r", "\0", "\u{85}", "\u{2028}", "%0d%0a", "ü", "\u{10ffff}", "\t", " "];
    for inside in evil {
        let text = format!("a{inside}X-Evil: 1{inside}{inside}GET /evil HTTP/1.1{inside}");
        // As a header, a job that gets past validation must still be one request with one more header.
        let header = serde_json::json!({ "url": url, "headers": { "x-own": text } }).to_string();
        let name = serde_json::json!({ "url": url, "headers": { (text.clone()): "v" } }).to_string();
        let path = serde_json::json!({ "url": format!("{url}{text}") }).to_string();
        for config in [header, name, path] {
            let mut work = work(&webhook, &config);
            Arc::make_mut(&mut work.definition).name = text.clone();
            Arc::make_mut(&mut work.definition).payload = serde_json::json!(text).to_string().into();
            if let Outcome::Succeeded { response: Some(response) } = in_time(webhook.run(&work)).await {
                let seen = String::from_utf8(response.body).expect("ASCII");
                let head = seen.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase();
                assert!(!head.lines().any(|line| line.starts_with("x-evil")), "{seen}");
                assert_eq!(head.matches(" http/1.1\r\n").count(), 1, "{seen}");
            }
        }
    }
}

/// A target that answers with the head of the request as it came over the wire.
async fn raw_echo() -> String {
    raw(|mut stream| async move {
        let head = stream.head().await;
        let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{head}", head.len());
        stream.send(answer.as_bytes()).await;
        stream.until_closed().await;
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_slow_targets_do_not_hold_up_a_fast_one() {
    const SLOW: usize = 2_000;
    let slow = Sink::start(|_| Answer::when_released()).await;
    let fast = Sink::start(|_| Answer::ok("fast")).await;
    let webhook = Arc::new(webhook());
    let (done, mut finished) = tokio::sync::mpsc::unbounded_channel();
    let send = |url: String, name: &'static str| {
        let (webhook, done) = (Arc::clone(&webhook), done.clone());
        let mut work = attempt(&webhook, &format!(r#"{{"url":"{url}"}}"#));
        work.timeout_ms = 60_000;
        tokio::spawn(async move {
            let outcome = webhook.run(&work).await;
            done.send((name, matches!(outcome, Outcome::Succeeded { .. }))).unwrap();
        });
    };
    for _ in 0..SLOW {
        send(slow.url("/"), "slow");
    }
    in_time(slow.wait_for_requests(SLOW)).await;
    send(fast.url("/"), "fast");
    assert_eq!(in_time(finished.recv()).await, Some(("fast", true)), "the fast one comes first");
    slow.release();
    for _ in 0..SLOW {
        assert_eq!(in_time(finished.recv()).await, Some(("slow", true)));
    }
}
