//! Connections: accepting them, and bounding what each may cost.
//!
//! HTTP/1.1 and HTTP/2 (with prior knowledge) share a port: the first bytes tell which it is. A client gets
//! `head_timeout_ms` to show them, and again for the head of every request, so that slow or silent clients hold a
//! connection for seconds only. There are at most `connections_max`; when all are taken, further ones wait in the
//! kernel's queue. Stopping ends idle connections and whatever only waits at once, and gives requests `drain_ms`.

use crate::Options;
use axum::Router;
use campanile_model::limits;
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// How an HTTP/2 connection begins.
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Requests at the same time on one HTTP/2 connection.
const H2_STREAMS_MAX: u32 = 128;
/// Streams that a client resets before we looked at them, beyond which it is an attack.
const H2_RESETS_MAX: usize = 32;
/// Header lines of a request.
const HEADER_LINES_MAX: usize = 100;
/// What is read of a request's head before it is refused without a word. More than `HEADER_BYTES_MAX`, so that heads that
/// are merely too large get a proper answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Serves `router` on `listener` until `stop` completes; returns when the last request has ended, or after `drain_ms`.
pub async fn serve(listener: TcpListener, router: Router, options: &Options, stop: impl Future<Output = ()>) {
    let connections = Arc::new(Semaphore::new(options.connections_max));
    let graceful = GracefulShutdown::new();
    let protocols = Arc::new(Protocols::new(options));
    tokio::pin!(stop);
    loop {
        let permit = tokio::select! {
            biased;
            () = &mut stop => break,
            permit = connections.clone().acquire_owned() => permit.expect("the semaphore is never closed"),
        };
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, or the client left: neither is a reason to stop, nor to spin.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let (protocols, router, watcher) = (protocols.clone(), router.clone(), graceful.watcher());
        tokio::spawn(async move {
            protocols.serve(stream, router, watcher).await;
            drop(permit);
        });
    }
    drop(listener);
    options.stopping.begin();
    if tokio::time::timeout(Duration::from_millis(options.drain_ms), graceful.shutdown()).await.is_err() {
        tracing::warn!("requests did not end in time; their connections are dropped");
    }
}

struct Protocols {
    http1: http1::Builder,
    http2: http2::Builder<TokioExecutor>,
    head_timeout: Duration,
}

impl Protocols {
    fn new(options: &Options) -> Self {
        let head_timeout = Duration::from_millis(options.head_timeout_ms);
        let mut http1 = http1::Builder::new();
        http1
            .timer(TokioTimer::new())
            .header_read_timeout(head_timeout)
            .max_buf_size(HEAD_BYTES_MAX)
            .max_headers(HEADER_LINES_MAX);
        let mut http2 = http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(H2_STREAMS_MAX)
            .max_pending_accept_reset_streams(H2_RESETS_MAX)
            .max_header_list_size(limits::HEADER_BYTES_MAX as u32)
            .max_send_buf_size(256 * 1024)
            .keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        Self { http1, http2, head_timeout }
    }

    async fn serve(&self, stream: TcpStream, router: Router, watcher: Watcher) {
        let _ = stream.set_nodelay(true);
        let Ok(Some(is_h2)) = tokio::time::timeout(self.head_timeout, speaks_h2(&stream)).await else { return };
        let (io, service) = (TokioIo::new(stream), TowerToHyperService::new(router));
        let ended = if is_h2 {
            watcher.watch(self.http2.serve_connection(io, service)).await
        } else {
            watcher.watch(self.http1.serve_connection(io, service)).await
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// Whether the client speaks HTTP/2; `None` when it left. Looks at the first bytes without taking them.
async fn speaks_h2(stream: &TcpStream) -> Option<bool> {
    let mut seen = [0u8; 24];
    loop {
        let count = stream.peek(&mut seen).await.ok()?;
        match count {
            0 => return None,
            _ if seen[..count] != H2_PREFACE[..count] => return Some(false),
            _ if count == H2_PREFACE.len() => return Some(true),
            // A part of the preface: `peek` answers at once while there is anything, so wait by the clock.
            _ => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}
