//! Events against real endpoints on loopback.

#[allow(dead_code, reason = "webhooks need more of it")]
mod sink;

use campanile_actions::webhook::Webhook;
use campanile_actions::{Client, EventSender, Options, Secret, Targets};
use campanile_model::action::Action;
use campanile_model::notify::Sender;
use campanile_testkit::ManualClock;
use campanile_testkit::conformance::action::work;
use campanile_testkit::conformance::in_time;
use sink::{Answer, OTHER_SECRET, SECRET, Sink, raw};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const EVENT: &str = r#"{"specversion":"1.0", "type":"dev.campanile.execution.dead.v1","data":{"ü":1.0}}"#;

async fn send(sender: &EventSender, url: &str) -> Result<u16, String> {
    in_time(sender.send(url, "evt_7", EVENT.into())).await
}

#[tokio::test]
async fn an_event_is_posted_as_it_is_and_signed() {
    let sink = Sink::start(|_| Answer::status(204)).await;
    let clock = ManualClock::new("2026-11-16T02:00:07.900Z".parse().unwrap());
    let secrets = [SECRET, OTHER_SECRET].map(|secret| Secret::parse(secret).unwrap()).to_vec();
    let sender = EventSender::new(Options { clock: Arc::new(clock.clone()), secrets, ..Options::dev() });
    for _ in 0..2 {
        assert_eq!(send(&sender, &sink.url("/events?a=b")).await, Ok(204));
        clock.advance(90_000);
    }
    let requests = sink.requests();
    let seconds = "2026-11-16T02:00:07Z".parse::<campanile_model::Timestamp>().unwrap().millis() / 1_000;
    for (request, sent_at) in requests.iter().zip([seconds, seconds + 90]) {
        assert_eq!((request.method.as_str(), request.uri.as_str()), ("POST", "/events?a=b"));
        assert_eq!(request.body, EVENT.as_bytes());
        for (name, value) in [
            ("content-type", "application/cloudevents+json"),
            ("content-length", &EVENT.len().to_string()),
            ("webhook-id", "evt_7"),
            ("webhook-timestamp", &sent_at.to_string()),
            ("user-agent", concat!("campanile/", env!("CARGO_PKG_VERSION"))),
        ] {
            assert_eq!(request.header(name), Some(value), "{name}");
        }
        sink::assert_signed(request, &[SECRET, OTHER_SECRET]);
    }
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].header("webhook-signature"), requests[1].header("webhook-signature"));
}

#[tokio::test]
async fn without_a_secret_there_is_no_signature() {
    let sink = Sink::start(|_| Answer::ok("")).await;
    assert_eq!(send(&EventSender::new(Options::dev()), &sink.url("/")).await, Ok(200));
    assert_eq!(sink.requests()[0].header("webhook-signature"), None);
    assert_eq!(sink.requests()[0].header("webhook-id"), Some("evt_7"));
}

#[tokio::test]
async fn every_answer_is_a_status_and_redirects_are_not_followed() {
    let canary = Sink::start(|_| Answer::ok("")).await;
    let location = canary.url("/stolen");
    let sender = EventSender::new(Options::dev());
    for status in [200, 202, 301, 302, 307, 308, 400, 410, 429, 500, 503] {
        let answer = Answer::status(status).header("location", &location);
        let sink = Sink::start(move |_| answer.clone()).await;
        assert_eq!(send(&sender, &sink.url("/")).await, Ok(status));
    }
    assert_eq!(canary.accepted.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_answer_counts_whatever_becomes_of_its_body() {
    let sender = EventSender::new(Options::dev());
    let broken = raw(|mut stream| async move {
        stream.head().await;
        stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    });
    assert_eq!(send(&sender, &broken.await).await, Ok(200));
    let endless = raw(|mut stream| async move {
        stream.head().await;
        stream.send(b"HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n").await;
        let chunk = [b"1000\r\n".as_slice(), &[b'x'; 4_096], b"\r\n"].concat();
        while stream.send(&chunk).await {}
    });
    assert_eq!(send(&sender, &endless.await).await, Ok(503));
    let stalled = raw(|mut stream| async move {
        stream.head().await;
        stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbeginning").await;
        stream.until_closed().await;
    });
    assert_eq!(send(&sender, &stalled.await).await, Ok(200));
}

#[tokio::test]
async fn no_answer_is_an_error_that_repeats_no_secret() {
    let sender = EventSender::new(Options::dev());
    let closed = raw(|_| async {}).await;
    let not_http = raw(|mut stream| async move {
        stream.send(b"SSH-2.0-OpenSSH_9.9\r\n\r\n").await;
        stream.until_closed().await;
    })
    .await;
    for url in ["http://127.0.0.1:1/", &closed, &not_http, "http://no-such-name.invalid/"] {
        let error = send(&sender, &format!("{url}secret-path?token=secret-token")).await.expect_err(url);
        assert!(error.starts_with(url.trim_end_matches('/')), "{error}");
        assert!(!error.contains("secret-"), "{error}");
    }
}

#[tokio::test]
async fn endpoints_are_guarded_as_webhooks_are() {
    let canary = Sink::start(|_| Answer::ok("")).await;
    let plain = Targets { plain_http: true, ..Targets::default() };
    let strict = EventSender::new(Options { targets: plain, ..Options::default() });
    let port = canary.address.port();
    for host in ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "2130706433", "169.254.169.254", "10.0.0.1"] {
        let url = format!("http://{host}:{port}/secret-path");
        for refused in [strict.check(&url), send(&strict, &url).await.map(drop)] {
            let error = refused.expect_err(host);
            assert!(error.contains("not allowed") && !error.contains("secret-"), "{error}");
        }
    }
    assert_eq!(canary.accepted.load(Ordering::Relaxed), 0);

    let production = EventSender::new(Options::default());
    assert_eq!(production.check("https://x.example/events"), Ok(()));
    let long = format!("https://x.example/{}", "a".repeat(5_000));
    for url in [
        "http://x.example/",
        "ftp://x.example/",
        "https://u:p@x.example/",
        "x.example",
        "",
        "https://x.example/\n",
        &long,
    ] {
        assert!(production.check(url).is_err(), "{url}");
        assert!(send(&production, url).await.is_err(), "{url}");
    }
}

#[tokio::test]
async fn a_client_and_its_connections_can_be_shared_with_webhooks() {
    let sink = Sink::start(|_| Answer::ok("kept alive")).await;
    let client = Client::new(Options::dev());
    let (sender, webhook) = (EventSender::new(client.clone()), Webhook::new(client));
    let work = work(&webhook, &format!(r#"{{"url":"{}"}}"#, sink.url("/")));
    for _ in 0..10 {
        assert_eq!(send(&sender, &sink.url("/")).await, Ok(200));
        in_time(webhook.run(&work)).await;
    }
    assert_eq!(sink.requests().len(), 20);
    assert_eq!(sink.accepted.load(Ordering::Relaxed), 1);
}
