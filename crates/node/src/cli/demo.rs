//! The sample jobs of `campanile dev --demo`, and the target that some of them call.
//!
//! Starting again changes nothing that is there, except the target's port and the one-off, which would be over.

use super::exit::{Code, Failure};
use super::output::Output;
use crate::clock;
use campanile_client::{Client, WriteOptions};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts the target and creates the jobs.
pub async fn start(url: &str, out: &Output) -> Result<(), Failure> {
    let target =
        start_target().await.map_err(|error| Failure::new(Code::Failed, format!("cannot start the demo: {error}")))?;
    let client = Client::new(url)?;
    let options = WriteOptions::default();
    for job in jobs(target) {
        let name = job["name"].as_str().unwrap_or_default();
        let changes = job["action"]["url"].is_string() || job["schedule"]["at"].is_string();
        let written = if changes {
            client.replace_job(&format!("name:{name}"), &job, &options).await
        } else {
            client.create_job(&job, &options).await
        };
        match written {
            Ok(_) => {}
            Err(error) if error.status() == Some(409) => {}
            Err(error) => return Err(error.into()),
        }
    }
    out.chat("Six sample jobs, all named demo-*.\n");
    Ok(())
}

fn jobs(target: SocketAddr) -> [Value; 6] {
    let soon = clock::now().saturating_add_ms(30_000);
    let tags = ["demo"];
    let brisk = |attempts: u32| json!({"max_attempts": attempts, "backoff": "EXPONENTIAL", "initial_delay": "1s", "max_delay": "10s"});
    [
        json!({"name": "demo-heartbeat", "schedule": {"every": "5s"}, "action": {"type": "NOOP"}, "tags": tags}),
        json!({"name": "demo-flaky", "schedule": {"every": "10s"}, "tags": tags, "retry_policy": brisk(5),
            "action": {"type": "WEBHOOK", "url": format!("http://{target}/flaky")}, "payload": {"hello": "from the demo"}}),
        json!({"name": "demo-every-minute", "schedule": {"cron": "*/1 * * * *"}, "tags": tags,
            "action": {"type": "WEBHOOK", "url": format!("http://{target}/ok")}}),
        json!({"name": "demo-one-off", "schedule": {"at": soon.to_string()}, "action": {"type": "NOOP"}, "tags": tags}),
        json!({"name": "demo-doomed", "schedule": {"every": "30s"}, "tags": tags, "retry_policy": brisk(2),
            "action": {"type": "WEBHOOK", "url": format!("http://{target}/broken")}}),
        json!({"name": "demo-paused", "schedule": {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Berlin"}, "paused": true,
            "action": {"type": "NOOP"}, "tags": tags}),
    ]
}

/// A tiny HTTP server on this machine: `/ok` is content, `/flaky` is busy two times of three, `/broken` always fails.
async fn start_target() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    let requests = Arc::new(AtomicU64::new(0));
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    let requests = requests.clone();
                    // Whatever is wrong with one caller is that caller's affair.
                    tokio::spawn(async move {
                        tokio::time::timeout(Duration::from_secs(10), answer(stream, &requests)).await
                    });
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    });
    Ok(address)
}

async fn answer(mut stream: TcpStream, requests: &AtomicU64) -> std::io::Result<()> {
    const HEAD_BYTES_MAX: usize = 16 * 1024;
    let mut seen = Vec::new();
    let head = loop {
        if let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
            break String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
        }
        if seen.len() > HEAD_BYTES_MAX || stream.read_buf(&mut seen).await? == 0 {
            return Ok(());
        }
    };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    let body_so_far = seen.len() - head.len() - 4;
    let left = length.unwrap_or(0).saturating_sub(body_so_far) as u64;
    tokio::io::copy(&mut (&mut stream).take(left), &mut tokio::io::sink()).await?;
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (status, text) = match path {
        "/broken" => ("500 Internal Server Error", "this target is always broken"),
        "/flaky" if !requests.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) => {
            ("503 Service Unavailable", "busy; try again")
        }
        _ => ("200 OK", "done"),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
