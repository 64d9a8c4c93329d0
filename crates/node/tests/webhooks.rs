//! Webhooks from the real binary to a real target: what a target sees, and what slow ones do to others.

mod common;

use axum::body::Body;
use common::{Reply, Server, Sink, eventually};
use hyper::service::service_fn;
use hyper::{Request, Response, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustix::process::{Resource, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer};

const SLOW: usize = 2_500;

#[test]
fn thousands_of_slow_targets_do_not_hold_up_fast_ones() {
    // The sink lives here, and needs a descriptor for each request.
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("the soft limit can be raised to the hard one");
    let sink = Sink::start();
    sink.reply("/slow", Reply::after(Duration::from_secs(25)));
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let job = |name: String, path: &str| json!({ "name": name, "schedule": { "after": "100ms" }, "action": { "type": "WEBHOOK", "url": sink.url(path) } });
    for start in (0..SLOW).step_by(500) {
        let jobs: Vec<Value> = (start..start + 500).map(|n| job(format!("slow-{n}"), "/slow")).collect();
        let answer = server.post("/v1/jobs:batch", &json!({ "jobs": jobs }));
        assert!(answer["results"].as_array().unwrap().iter().all(|r| r["status"] == 201), "{answer}");
    }
    eventually(Duration::from_secs(20), "all slow requests are under way", || sink.on("/slow").len() == SLOW);
    for n in 0..50 {
        server.post("/v1/jobs", &job(format!("fast-{n}"), "/fast"));
    }
    eventually(Duration::from_secs(20), "the fast ones are done", || sink.on("/fast").len() == 50);
    let done = || server.get("/v1/executions?state=SUCCEEDED&limit=500");
    eventually(Duration::from_secs(20), "and recorded", || done()["data"].as_array().unwrap().len() == 50);
    // Judged by order, not by time: not one of the slow ones has ended yet.
    let done = done();
    let names: Vec<&str> = done["data"].as_array().unwrap().iter().map(|e| e["job_name"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("fast-")), "{names:?}");
}

#[test]
fn a_target_decides_about_retries_and_its_job() {
    let sink = Sink::start();
    sink.replies("/flaky", &[Reply::status(503), Reply::status(429), Reply::status(200)]);
    sink.reply("/gone", Reply::status(410));
    sink.reply("/refused", Reply::status(422));
    sink.reply("/never", Reply::status(500));
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let create = |name: &str, schedule: Value| {
        server.post(
            "/v1/jobs",
            &json!({
                "name": name, "schedule": schedule, "payload": { "n": 1 },
                "action": { "type": "WEBHOOK", "url": sink.url(&format!("/{name}")) },
                "retry_policy": { "max_attempts": 4, "backoff": "FIXED", "initial_delay_ms": 50 },
            }),
        )
    };
    for name in ["flaky", "refused", "never"] {
        create(name, json!({ "after": "0s" }));
    }
    create("gone", json!({ "every": "1s" }));
    let state_of = |name: &str| server.executions(name).first().map(|e| e["state"].as_str().unwrap().to_owned());
    let ends = |name: &str, state: &str| {
        eventually(Duration::from_secs(20), name, || state_of(name).as_deref() == Some(state));
        server.executions(name)[0].clone()
    };
    assert_eq!(ends("flaky", "SUCCEEDED")["attempt"], 3);
    let refused = ends("refused", "DEAD");
    assert_eq!((&refused["attempt"], &refused["reason"]), (&json!(1), &json!("PERMANENT_FAILURE")));
    let never = ends("never", "DEAD");
    assert_eq!((&never["attempt"], &never["reason"]), (&json!(4), &json!("ATTEMPTS_EXHAUSTED")));
    let attempts = server.get(&format!("/v1/executions/{}/attempts", never["id"].as_str().unwrap()));
    assert_eq!(attempts["data"].as_array().unwrap().len(), 4);
    // Gone for good: the job is paused, and the target is left alone.
    eventually(Duration::from_secs(20), "the job is paused", || server.get("/v1/jobs/name:gone")["state"] == "PAUSED");
    assert_eq!(sink.on("/gone").len(), 1);
    let flaky = sink.on("/flaky");
    assert_eq!(flaky.iter().map(|d| d.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(flaky.windows(2).all(|pair| pair[0].fence < pair[1].fence && pair[0].execution == pair[1].execution));
    assert!(flaky.iter().all(|d| d.body == br#"{"n":1}"# && d.arrived_at_ms >= d.scheduled_at_ms));
}

/// A target with TLS and a certificate of its own authority.
struct TlsTarget {
    url: String,
    versions: Arc<Mutex<Vec<Version>>>,
    connections: Arc<AtomicUsize>,
    /// Serves as long as this is here.
    _runtime: tokio::runtime::Runtime,
}

impl TlsTarget {
    /// Speaks these protocols, and writes its certificate to a file.
    fn start(protocols: &[&str], certificate: &Path) -> Self {
        let signed = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
        std::fs::write(certificate, signed.cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(signed.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
        let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let mut config = config.with_single_cert(vec![signed.cert.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("https://localhost:{}/hook", listener.local_addr().unwrap().port());
        let (versions, connections) = (Arc::<Mutex<Vec<Version>>>::default(), Arc::<AtomicUsize>::default());
        let (seen, opened) = (versions.clone(), connections.clone());
        runtime.spawn(async move {
            let acceptor = TlsAcceptor::from(Arc::new(config));
            while let Ok((stream, _)) = listener.accept().await {
                opened.fetch_add(1, Ordering::Relaxed);
                let (acceptor, seen) = (acceptor.clone(), seen.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let answer = service_fn(|request: Request<hyper::body::Incoming>| {
                        seen.lock().unwrap().push(request.version());
                        async { Ok::<_, Infallible>(Response::new(Body::from("ok"))) }
                    });
                    let _ =
                        auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { url, versions, connections, _runtime: runtime }
    }
}

#[test]
fn a_target_with_http_2_gets_all_on_one_connection_and_others_get_http_1() {
    const CALLS: usize = 200;
    for (protocols, version) in [(&["h2", "http/1.1"][..], Version::HTTP_2), (&["http/1.1"], Version::HTTP_11)] {
        let dir = tempfile::tempdir().unwrap();
        let certificate = dir.path().join("authority.pem");
        let target = TlsTarget::start(protocols, &certificate);
        let trust = [("SSL_CERT_FILE", certificate.to_str().unwrap())];
        let server = Server::try_start_in("dev", &dir.path().join("data"), &[], &trust).expect("the server starts");
        let job = |n: usize| json!({ "name": format!("call-{n}"), "schedule": { "after": "500ms" }, "action": { "type": "WEBHOOK", "url": target.url } });
        let done = || server.get("/v1/executions?state=SUCCEEDED&limit=500")["data"].as_array().unwrap().len();
        // One first: on a busy machine its handshake may take longer than the others would wait for it.
        server.post("/v1/jobs", &job(0));
        eventually(Duration::from_secs(30), "the first call succeeds", || done() == 1);
        let jobs: Vec<Value> = (1..CALLS).map(job).collect();
        server.post("/v1/jobs:batch", &json!({ "jobs": jobs }));
        eventually(Duration::from_secs(30), "all calls succeed", || done() == CALLS);
        assert_eq!(*target.versions.lock().unwrap(), vec![version; CALLS], "{protocols:?}");
        let connections = target.connections.load(Ordering::Relaxed);
        if version == Version::HTTP_2 {
            assert!(connections <= 4, "{connections} connections for {CALLS} calls");
        }
    }
}
