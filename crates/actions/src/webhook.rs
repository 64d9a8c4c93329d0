//! The action that sends an HTTP request, signed by Standard Webhooks.
//!
//! One attempt is one request: it is built (`request`), sent to where the `guard` lets it, and its answer settled
//! (`response`), or else the lack of one (`failure`). The attempt's time limit covers all of it: lookup, connection,
//! headers and body.
//!
//! A request that was sent may have had its effect even if its answer is lost, so every attempt of an execution carries
//! the same `webhook-id` and `Idempotency-Key`, and a fence token that grows.
//!
//! All webhooks share one client. It keeps connections for reuse, and nothing in it is held while a target is slow: a
//! thousand slow targets cost their sockets, and no time of a fast one. Redirects are never followed, proxies never used,
//! bodies never decompressed; of an answer no more than `limits::RESPONSE_BYTES_MAX` bytes are read.

pub mod sign;
mod config;
mod request;
mod response;
mod failure;

use crate::guard::resolver::Resolver;
use crate::registry::Options;
use campanile_model::action::{Action, ActionKind, Work};
use campanile_model::execution::{AttemptError, Outcome, Response};
use campanile_model::{FieldError, limits};
use config::Target;
use response::Wishes;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::warn;

/// The action that sends an HTTP request.
pub struct Webhook {
    options: Options,
    /// Built when it is first needed: reading the host's certificates takes a moment, and most tests need none.
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl Webhook {
    /// A webhook action with these options. Connects to nothing yet.
    pub fn new(options: Options) -> Self {
        Self { options, client: OnceLock::new() }
    }

    async fn send(&self, target: &Target, work: &Work) -> Outcome {
        let origin = target.origin();
        let client = match self.client.get_or_init(|| {
            let resolver = Resolver::system(self.options.targets.clone());
            build_client(&self.options, resolver)
        }) {
            Ok(client) => client,
            Err(error) => return failure::failed("client", format!("cannot send webhooks: {error}"), true),
        };
        let request = request::build(target, work, self.options.clock.now(), &self.options.secrets);
        let mut builder = client.request(target.method.clone(), target.url.clone()).headers(request.headers);
        if let Some(body) = request.body {
            builder = builder.body(body);
        }
        let time_limit = Duration::from_millis(work.timeout_ms.min(limits::TIMEOUT_MS_MAX));
        let deadline = tokio::time::Instant::now() + time_limit;
        let mut answer = match tokio::time::timeout_at(deadline, builder.send()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return failure::settle(&origin, error),
            Err(_) => return timed_out(work, &format!("{origin} did not answer")),
        };
        let status = answer.status();
        let wishes = Wishes::read(answer.headers(), self.options.clock.now());
        let mut response = Response { status: status.as_u16(), body: Vec::new(), truncated: false };
        let read = tokio::time::timeout_at(deadline, read_body(&mut answer, &mut response)).await;
        match read {
            Ok(Ok(())) => {}
            // A refusal stands without the rest of its body.
            _ if !status.is_success() => response.truncated = true,
            Ok(Err(error)) => return failure::settle(&origin, error),
            Err(_) => {
                return timed_out(work, &format!("{origin} answered {status}, but did not finish its body"));
            }
        }
        response::settle(&origin, wishes, response)
    }
}

#[async_trait::async_trait]
impl Action for Webhook {
    fn kind(&self) -> ActionKind {
        ActionKind::Webhook
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Target::parse(config, &self.options.targets).map(|target| target.canonical())
    }

    async fn run(&self, work: &Work) -> Outcome {
        match Target::parse(&work.action.config, &self.options.targets) {
            Ok(target) => self.send(&target, work).await,
            // It was accepted once; since then the rules of this installation have become stricter.
            Err(errors) => {
                let what: Vec<_> = errors.iter().map(|error| format!("{}: {}", error.pointer, error.message)).collect();
                failure::failed(errors.first().map_or("action_invalid", |error| error.code), what.join("; "), false)
            }
        }
    }
}

/// Reads a body up to the limit. What lies beyond is left unread, and the connection with it.
async fn read_body(answer: &mut reqwest::Response, response: &mut Response) -> reqwest::Result<()> {
    while let Some(chunk) = answer.chunk().await? {
        let room = limits::RESPONSE_BYTES_MAX - response.body.len();
        response.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            response.truncated = true;
            return Ok(());
        }
    }
    Ok(())
}

fn timed_out(work: &Work, what: &str) -> Outcome {
    let message = format!("{what} within {} ms", work.timeout_ms);
    Outcome::TimedOut { error: AttemptError { kind: "timeout".into(), message } }
}

fn build_client(options: &Options, resolver: Resolver) -> Result<reqwest::Client, String> {
    let builder = || {
        reqwest::Client::builder()
            .dns_resolver(Arc::new(resolver.clone()))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .connect_timeout(Duration::from_millis(options.connect_timeout_ms))
            .pool_max_idle_per_host(options.idle_connections_max)
            .pool_idle_timeout(Duration::from_secs(60))
            .tcp_nodelay(true)
            .http1_max_headers(100)
            .http2_max_header_list_size(limits::HEADER_BYTES_MAX as u32)
    };
    builder().tls_backend_rustls().build().or_else(|error| {
        // A host (or a container from scratch) without certificates of its own: even plain HTTP would fail.
        warn!(%error, "no certificates on this host; webhooks trust the built-in ones");
        builder().tls_backend_preconfigured(built_in_trust()?).build().map_err(|error| error.to_string())
    })
}

/// TLS that trusts the certificate authorities built into this program.
fn built_in_trust() -> Result<rustls::ClientConfig, String> {
    let roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Targets;
    use futures_util::FutureExt;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_client_is_built_without_certificates_on_the_host() {
        let tls = built_in_trust().expect("built-in certificates");
        assert_eq!(tls.alpn_protocols.len(), 2);
        assert!(reqwest::Client::builder().tls_backend_preconfigured(tls).build().is_ok());
        let options = Options::default();
        assert!(build_client(&options, Resolver::system(options.targets.clone())).is_ok());
    }

    #[tokio::test]
    async fn a_name_that_turns_to_a_private_address_is_refused_without_a_packet() {
        let canary = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = canary.local_addr().unwrap();
        // Alone, or hidden behind a public address that would be tried first.
        let asked = AtomicUsize::new(0);
        let resolver = Resolver::with(Targets { plain_http: true, ..Targets::default() }, move |_| {
            let hidden = asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            let public = SocketAddr::from(([203, 0, 114, 1], 0));
            async move { Ok(if hidden { vec![public, address] } else { vec![address] }) }.boxed()
        });
        let webhook =
            Webhook::new(Options { targets: Targets { plain_http: true, ..Targets::default() }, ..Options::default() });
        let client = build_client(&webhook.options, resolver);
        webhook.client.set(client).expect("not built yet");
        for n in 0..100 {
            let config = format!(r#"{{"url":"http://{n}.rebind.example:{}/"}}"#, address.port());
            let work = campanile_testkit::conformance::action::work(&webhook, &config);
            let outcome = webhook.run(&work).await;
            let Outcome::Failed { error, retryable: false, .. } = outcome else { panic!("{outcome:?}") };
            assert_eq!(error.kind, "target_private", "{}", error.message);
        }
        assert!(canary.accept().now_or_never().is_none(), "somebody connected");
    }
}
