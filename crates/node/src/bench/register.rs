//! `bench register`: accepting jobs. In bulk through `accept` (checked, resolved, durable), and one by one over
//! HTTP, each durable before its answer.

use super::lab::{self, Lab, Place, text};
use super::report::{Report, Target};
use campanile_engine::Handle;
use campanile_engine::accept::{Create, Draft};
use campanile_engine::jobs::Accepted;
use campanile_model::TenantId;
use campanile_model::job::Definition;
use campanile_model::schedule::{DstFold, DstGap, Schedule};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Jobs in one bulk call, as in a batch request.
const BULK: usize = 1_000;

pub async fn run(place: Place, jobs: usize, singles: usize, connections: usize) -> Result<Report, String> {
    let lab = Lab::new(&place)?;
    let store = lab.store().await?;
    let (service, _, _) = lab::engine(&lab, store.clone()).await?;
    let handle = service.handle();
    let (bulk_s, ()) = lab::seconds(bulk(&handle, jobs)).await?;
    let address = crate::node::serve_for_bench(handle.clone()).await.map_err(text)?;
    let latencies = parking_lot::Mutex::new(Vec::with_capacity(singles));
    let next = AtomicUsize::new(0);
    let (single_s, ()) = lab::seconds(async {
        let clients = (0..connections.max(1)).map(|_| client(address, singles, &next, &latencies));
        futures_util::future::try_join_all(clients).await.map(|_| ())
    })
    .await?;
    let status = store.status().await.map_err(text)?;
    if status.jobs != (jobs + singles) as u64 {
        return Err(format!("{} jobs were acknowledged and the store has {}", jobs + singles, status.jobs));
    }
    service.stop().await.map_err(text)?;
    let mut latencies = latencies.into_inner();
    latencies.sort_unstable();
    let mut report = Report::new("register");
    report.verified(format!("all {} acknowledged jobs are in the store", jobs + singles));
    let least = if place.is_shared() { 60_000.0 } else { 100_000.0 };
    report.row("bulk", jobs as f64 / bulk_s, "jobs/s", Some(Target::AtLeast(least)));
    report.row(
        format!("one by one over HTTP, {connections} connections"),
        singles as f64 / single_s,
        "jobs/s",
        Some(Target::AtLeast(5_000.0)),
    );
    report.row("one by one, latency p50", lab::quantile(&latencies, 0.5) / 1e3, "ms", None);
    report.row("one by one, latency p99", lab::quantile(&latencies, 0.99) / 1e3, "ms", None);
    Ok(report)
}

async fn bulk(handle: &Handle, jobs: usize) -> Result<(), String> {
    let bar = lab::progress("registering", jobs);
    let bar = &bar;
    let starts: Vec<usize> = (0..jobs).step_by(BULK).collect();
    let calls = stream::iter(starts).map(|start| async move {
        let creates: Vec<Create> =
            (start..(start + BULK).min(jobs)).map(|n| Create { draft: draft(n), keyed: None }).collect();
        let count = creates.len();
        for verdict in handle.create(TenantId::DEFAULT, creates).await {
            match verdict.map_err(text)? {
                Accepted::Job(_) => {}
                Accepted::Replayed(_) => return Err("a job was taken for a repetition".to_owned()),
            }
        }
        bar.inc(count as u64);
        Ok(())
    });
    calls.buffer_unordered(16).try_collect::<()>().await?;
    bar.finish_and_clear();
    Ok(())
}

fn draft(n: usize) -> Draft {
    let expression = format!("{} {} * * *", n % 60, n / 60 % 24);
    let definition = Definition {
        name: format!("bulk-{n:09}"),
        schedule: Schedule::Cron {
            expression,
            zone: "Europe/Berlin".into(),
            dst_gap: DstGap::default(),
            dst_fold: DstFold::default(),
        },
        payload: "{\"n\":1}".into(),
        ..Definition::default()
    };
    Draft { definition, allow_past: false, paused: false }
}

/// One connection that creates jobs until `total` are taken. Speaks HTTP by hand, so that the server is what is measured.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures the machine's own time")]
async fn client(
    address: std::net::SocketAddr,
    total: usize,
    next: &AtomicUsize,
    latencies: &parking_lot::Mutex<Vec<u64>>,
) -> Result<(), String> {
    let mut stream = TcpStream::connect(address).await.map_err(text)?;
    stream.set_nodelay(true).map_err(text)?;
    let mut buffer = vec![0u8; 16 * 1024];
    loop {
        let n = next.fetch_add(1, Ordering::Relaxed);
        if n >= total {
            return Ok(());
        }
        let body = format!(
            r#"{{"name":"single-{n:09}","schedule":{{"cron":"{} 3 * * *","timezone":"Europe/Berlin"}},"action":{{"type":"NOOP"}},"payload":{{"n":{n}}}}}"#,
            n % 60
        );
        let request = format!(
            "POST /v1/jobs HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let start = std::time::Instant::now();
        stream.write_all(request.as_bytes()).await.map_err(text)?;
        let mut filled = 0;
        let status = loop {
            let read = stream.read(&mut buffer[filled..]).await.map_err(text)?;
            if read == 0 {
                return Err("the server closed a connection".into());
            }
            filled += read;
            if let Some(status) = complete_response(&buffer[..filled]) {
                break status;
            }
        };
        if status != 201 {
            return Err(format!("a create was answered {status}: {}", String::from_utf8_lossy(&buffer[..filled])));
        }
        latencies.lock().push(start.elapsed().as_micros() as u64);
    }
}

/// The status, once the whole response is there.
fn complete_response(bytes: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    })?;
    let status = head.get(9..12)?.parse().ok()?;
    (body.len() >= length).then_some(status)
}
