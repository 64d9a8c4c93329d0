//! What a client sends again, how often, and what it does not.

#![allow(missing_docs, reason = "the names say it")]
#![allow(clippy::disallowed_methods, reason = "a test of the real thing lives in real time")]

use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use campanile_client::{Client, Error, WriteOptions};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A server that refuses with this status so many times, and then answers; and how often it was asked.
async fn server(refusals: usize, status: u16, retryable: bool) -> (Client, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = asked.clone();
    let answer = async move || -> Response {
        match counter.fetch_add(1, Ordering::SeqCst) < refusals {
            true => {
                let problem = json!({"title": "t", "status": status, "code": "c", "retryable": retryable});
                (StatusCode::from_u16(status).unwrap(), problem.to_string()).into_response()
            }
            false => json!({"status": "OK", "version": "1"}).to_string().into_response(),
        }
    };
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    (client, asked)
}

fn keyed() -> WriteOptions {
    WriteOptions { idempotency_key: Some("k".into()), ..WriteOptions::default() }
}

#[tokio::test]
async fn a_read_is_sent_three_times_at_most() {
    let (client, asked) = server(2, 503, true).await;
    client.health().await.expect("the third time it works");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let (client, asked) = server(usize::MAX, 503, true).await;
    let began = Instant::now();
    assert_eq!(client.health().await.unwrap_err().status(), Some(503));
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(600) && took < Duration::from_secs(3), "{took:?}");
}

#[tokio::test]
async fn what_will_not_work_later_is_sent_once() {
    for status in [404, 409, 504] {
        let (client, asked) = server(usize::MAX, status, false).await;
        assert_eq!(client.health().await.unwrap_err().status(), Some(status));
        assert_eq!(asked.load(Ordering::SeqCst), 1, "{status}");
    }
}

#[tokio::test]
async fn only_a_write_with_a_key_is_sent_again() {
    let (client, asked) = server(1, 503, true).await;
    client.delete_job("x", &WriteOptions::default()).await.unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    let (client, asked) = server(1, 503, true).await;
    client.delete_job("x", &keyed()).await.expect("the second time it works");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_server_that_comes_back_in_time_is_found() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::new(&format!("http://{address}")).unwrap();
    let asking = tokio::spawn(async move { client.health().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let answer = async || json!({"status": "OK", "version": "1"}).to_string();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    asking.await.unwrap().expect("it is found");
    let nobody = Client::new("http://127.0.0.1:1").unwrap();
    assert!(matches!(nobody.health().await, Err(Error::Unreachable { .. })));
}
