//! What a connection may cost: over real sockets.

mod rig;

use rig::Rig;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Server {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    rig: Rig,
}

async fn server(change: impl FnOnce(&mut campanile_server::Options)) -> Server {
    let rig = Rig::real().await;
    let mut options = rig.options.clone();
    change(&mut options);
    let router = campanile_server::router(rig.handle(), options.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        campanile_server::serve(listener, router, &options, async {
            let _ = stopped.await;
        })
        .await;
    });
    Server { address, stop: Some(stop), task, rig }
}

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends bytes, and reads until the server closes.
    async fn exchange(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect().await;
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer))
            .await
            .expect("the server closes");
        String::from_utf8_lossy(&answer).into_owned()
    }
}

fn head(method: &str, path: &str, headers: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_are_bounded() {
    let server = server(|_| {}).await;
    let fine = server.exchange(head("GET", "/healthz", "").as_bytes()).await;
    assert!(fine.starts_with("HTTP/1.1 200"), "{fine}");
    let large = server.exchange(head("GET", "/healthz", &format!("x-a: {}\r\n", "a".repeat(20_000))).as_bytes()).await;
    assert!(large.starts_with("HTTP/1.1 431") && large.contains("headers_too_large"), "{large}");
    let huge = server.exchange(head("GET", "/healthz", &format!("x-a: {}\r\n", "a".repeat(1 << 20))).as_bytes()).await;
    assert!(huge.is_empty() || huge.starts_with("HTTP/1.1 431"), "{huge}");
    let many = server.exchange(head("GET", "/healthz", &"x-a: b\r\n".repeat(150)).as_bytes()).await;
    assert!(many.starts_with("HTTP/1.1 431"), "{many}");
    let junk = server.exchange(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello over TLS?\r\n\r\n").await;
    assert!(junk.is_empty() || junk.starts_with("HTTP/1.1 400"), "{junk}");
    let smuggled = head("POST", "/v1/jobs", "content-length: 5\r\ncontent-length: 6\r\n");
    let smuggled = server.exchange(smuggled.as_bytes()).await;
    assert!(smuggled.starts_with("HTTP/1.1 400"), "{smuggled}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_that_declares_too_much_is_refused_before_it_is_sent() {
    let server = server(|_| {}).await;
    let request = head(
        "POST",
        "/v1/jobs",
        "content-type: application/json\r\ncontent-length: 99999999999\r\nexpect: 100-continue\r\n",
    );
    let answer = server.exchange(request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chunked_body_ends_at_the_limit() {
    let server = server(|_| {}).await;
    let mut request =
        head("POST", "/v1/jobs", "content-type: application/json\r\ntransfer-encoding: chunked\r\n").into_bytes();
    for _ in 0..40 {
        request.extend_from_slice(b"8000\r\n");
        request.extend_from_slice(&[b' '; 0x8000]);
        request.extend_from_slice(b"\r\n");
    }
    let mut stream = server.connect().await;
    let _ = stream.write_all(&request).await;
    let mut answer = [0u8; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_clients_lose_their_connection() {
    let server = server(|options| {
        options.head_timeout_ms = 200;
        options.body_timeout_ms = 300;
    })
    .await;
    // Silent, half a preface, half a head: closed without a word, or with 408.
    for bytes in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"GET / HTT", b"GET / HTTP/1.1\r\nhost: x\r\n"] {
        let answer = server.exchange(bytes).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{bytes:?}: {answer}");
    }
    // A body that does not come.
    let request = head("POST", "/v1/jobs", "content-type: application/json\r\ncontent-length: 50\r\n") + "{";
    let answer = server.exchange(request.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 408") && answer.contains("body_timeout"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_connections_do_not_lock_others_out() {
    let server = server(|options| {
        options.head_timeout_ms = 300;
        options.connections_max = 20;
    })
    .await;
    let mut silent = Vec::new();
    for _ in 0..60 {
        silent.push(server.connect().await);
    }
    let answer = server.exchange(head("GET", "/healthz", "").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_goes_on_when_its_client_leaves() {
    let server = server(|_| {}).await;
    let body = r#"{"name":"orphan","action":{"type":"NOOP"}}"#;
    let request = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = server.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    // Long enough for the request to arrive, hardly enough for its commit; either way the job must come to be.
    tokio::time::sleep(Duration::from_millis(5)).await;
    drop(stream);
    for _ in 0..200 {
        if server.rig.get("/v1/jobs/name:orphan").await.status == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("the job was lost with its client");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_speaks_to_the_server_and_both_protocols_work() {
    let mut server = server(|_| {}).await;
    let client = campanile_client::Client::new(&format!("http://{}", server.address)).unwrap();
    let spec = campanile_client::wire::JobSpec {
        name: "from a client/with odd chars".replace('/', "-"),
        action: campanile_client::wire::Action { kind: "NOOP".into(), ..Default::default() },
        ..Default::default()
    };
    let job = client.create_job(&spec, &Default::default()).await.unwrap();
    let same = client.get_job(&format!("name:{}", job.name)).await.unwrap();
    assert_eq!((same.id, same.version), (job.id.clone(), 1));
    let error = client.get_job("job_01J9ZC0000000000000000TEST").await.unwrap_err();
    assert_eq!((error.status(), error.problem().unwrap().code.as_str()), (Some(404), "job_not_found"));
    let options = campanile_client::WriteOptions { if_match: Some(9), ..Default::default() };
    assert_eq!(client.pause_job(&job.id, &options).await.unwrap_err().status(), Some(412));
    let page = client.list_jobs(&campanile_client::JobFilter { limit: Some(1), ..Default::default() }).await.unwrap();
    assert_eq!((page.data.len(), page.has_more), (1, false));
    client.delete_job(&job.id, &Default::default()).await.unwrap();

    // HTTP/2 with prior knowledge: the server's first frame is SETTINGS.
    let mut stream = server.connect().await;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut frame = [0u8; 9];
    stream.read_exact(&mut frame).await.unwrap();
    assert_eq!(frame[3], 4);
    drop(stream);

    server.stop.take().unwrap().send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(15), &mut server.task).await.expect("it stops").unwrap();
    assert!(client.status().await.unwrap_err().is_unreachable());
}

fn claim(wait_ms: u64) -> String {
    let body = format!(r#"{{"worker_id":"w","capacity":1,"wait_ms":{wait_ms}}}"#);
    let length = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    head("POST", "/internal/v1/executions/claim", &length) + &body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_waits_longer_than_other_requests_may_take() {
    let server = server(|options| options.handler_timeout_ms = 100).await;
    let began = tokio::time::Instant::now();
    let answer = server.exchange(claim(1_000).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""executions":[]"#), "{answer}");
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_wait_leave_room_for_others() {
    let server = server(|options| options.connections_max = 4).await;
    let mut waiting = Vec::new();
    for _ in 0..2 {
        let mut stream = server.connect().await;
        stream.write_all(claim(60_000).as_bytes()).await.unwrap();
        waiting.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let began = tokio::time::Instant::now();
    let third = server.exchange(claim(60_000).as_bytes()).await;
    assert!(third.starts_with("HTTP/1.1 200"), "{third}");
    let other = server.exchange(head("GET", "/v1/jobs", "").as_bytes()).await;
    assert!(other.starts_with("HTTP/1.1 200"), "{other}");
    assert!(began.elapsed() < Duration::from_secs(5), "answered at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_wait_end_with_the_server_at_once() {
    let mut server = server(|_| {}).await;
    let mut stream = server.connect().await;
    stream.write_all(claim(60_000).as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    server.stop.take().unwrap().send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(5), &mut server.task).await.expect("it does not wait for them").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_hangs_up_has_taken_nothing() {
    let server = server(|_| {}).await;
    let rig = &server.rig;
    rig.until("/readyz", |answer| answer.status == 200).await;
    rig.create_for_worker("j", "h", "").await;
    let mut stream = server.connect().await;
    stream.write_all(claim(60_000).as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(stream);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let id = rig.run("j").await;
    let claimed = rig.claim(1).await;
    assert_eq!(claimed[0]["execution_id"], serde_json::json!(id), "somebody else got it, at its first attempt");
    assert_eq!(claimed[0]["attempt"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_worker_sdk_speaks_to_the_server() {
    use campanile_client::worker::{Ctx, Outcome, Worker};
    let server = server(|_| {}).await;
    let rig = &server.rig;
    rig.until("/readyz", |answer| answer.status == 200).await;
    let retry = r#","retry_policy":{"backoff":"FIXED","initial_delay_ms":1},"payload":{"n":20}"#;
    rig.create_for_worker("j", "count", retry).await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(rig.run("j").await);
    }
    async fn count(payload: serde_json::Value, ctx: Ctx) -> Result<u64, Outcome> {
        let n = payload["n"].as_u64().ok_or_else(|| Outcome::permanent("no n"))?;
        match ctx.last_checkpoint::<u64>()? {
            Some(seven) => Ok(n + seven),
            None => {
                ctx.log("warn", "first");
                ctx.checkpoint(7)?;
                Err(Outcome::retry("half way"))
            }
        }
    }
    let client = campanile_client::Client::new(&format!("http://{}", server.address)).unwrap();
    let worker = Worker::new(client).worker_id("sdk").pools(["p"]).handler("count", count).concurrency(8);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(worker.run_until(async {
        let _ = stopped.await;
    }));
    let all = |answer: &rig::Answer| {
        let counts = answer.json()["data"].as_array().unwrap().clone();
        counts.iter().any(|count| count["state"] == "SUCCEEDED" && count["executions"] == 20)
    };
    rig.until("/v1/counts", all).await;
    for id in ids {
        let attempts = rig.get(&format!("/v1/executions/{id}/attempts")).await.json();
        let last = attempts["data"].as_array().unwrap().last().unwrap().clone();
        assert_eq!((&last["attempt"], &last["response"]["body"]), (&2.into(), &"27".into()), "{attempts}");
        let logs = rig.get(&format!("/v1/executions/{id}/logs")).await.json();
        assert_eq!(logs["data"][0]["message"], "first", "{logs}");
    }
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(10), task).await.expect("it ends").unwrap().unwrap();
}
