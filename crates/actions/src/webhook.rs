//! The action that sends an HTTP request, signed by Standard Webhooks.
//!
//! One attempt is one request: it is built (`request`), sent by the `client` to where the `guard` lets it, and its answer
//! settled (`response`), or else the lack of one. The attempt's time limit covers all of it: lookup, connection, headers
//! and body; but not the wait until the request may be sent, while others go to the same host. Of an answer no more than `limits::RESPONSE_BYTES_MAX` bytes are read.
//!
//! A request that was sent may have had its effect even if its answer is lost, so every attempt of an execution carries
//! the same `webhook-id` and `Idempotency-Key`, and a fence token that grows.

pub mod sign;
mod config;
mod request;
mod response;

use crate::client::{Client, Failure};
use campanile_model::action::{Action, ActionKind, Work};
use campanile_model::execution::{AttemptError, Outcome, Response};
use campanile_model::{FieldError, limits};
use config::Target;
use response::Wishes;
use std::time::Duration;

/// The action that sends an HTTP request.
pub struct Webhook {
    client: Client,
}

impl Webhook {
    /// A webhook action, from [`Options`](crate::Options) or from a client that others use too. Connects to nothing yet.
    pub fn new(client: impl Into<Client>) -> Self {
        Self { client: client.into() }
    }

    async fn send(&self, target: &Target, work: &Work) -> Outcome {
        let origin = target.origin();
        let turn = self.client.turn(&origin, work.definition.priority).await;
        turn.spend(self.exchange(target, &origin, work)).await
    }

    async fn exchange(&self, target: &Target, origin: &str, work: &Work) -> Outcome {
        let options = self.client.options();
        let request = request::build(target, work, options.clock.now(), &options.secrets);
        let mut builder = match self.client.request(target.method.clone(), target.url.clone()) {
            Ok(builder) => builder.headers(request.headers),
            Err(failure) => return failed(failure),
        };
        if let Some(body) = request.body {
            builder = builder.body(body);
        }
        let time_limit = Duration::from_millis(work.timeout_ms.min(limits::TIMEOUT_MS_MAX));
        let deadline = tokio::time::Instant::now() + time_limit;
        let mut answer = match tokio::time::timeout_at(deadline, builder.send()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return failed(Failure::of(origin, error)),
            Err(_) => return timed_out(work, &format!("{origin} did not answer")),
        };
        let status = answer.status();
        let wishes = Wishes::read(answer.headers(), options.clock.now());
        let mut response = Response { status: status.as_u16(), body: Vec::new(), truncated: false };
        let read = tokio::time::timeout_at(deadline, read_body(&mut answer, &mut response)).await;
        match read {
            Ok(Ok(())) => {}
            // A refusal stands without the rest of its body.
            _ if !status.is_success() => response.truncated = true,
            Ok(Err(error)) => return failed(Failure::of(origin, error)),
            Err(_) => {
                return timed_out(work, &format!("{origin} answered {status}, but did not finish its body"));
            }
        }
        response::settle(origin, wishes, response)
    }
}

#[async_trait::async_trait]
impl Action for Webhook {
    fn kind(&self) -> ActionKind {
        ActionKind::Webhook
    }

    fn validate(&self, config: &str) -> Result<String, Vec<FieldError>> {
        Target::parse(config, &self.client.options().targets).map(|target| target.canonical())
    }

    fn target(&self, config: &str) -> String {
        config::target(config).unwrap_or_default()
    }

    fn waiting(&self) -> usize {
        self.client.waiting()
    }

    async fn run(&self, work: &Work) -> Outcome {
        match Target::parse(&work.definition.action.config, &self.client.options().targets) {
            Ok(target) => self.send(&target, work).await,
            // It was accepted once; since then the rules of this installation have become stricter.
            Err(errors) => {
                let what: Vec<_> = errors.iter().map(|error| format!("{}: {}", error.pointer, error.message)).collect();
                let kind = errors.first().map_or("action_invalid", |error| error.code);
                failed(Failure::new(kind, what.join("; "), false))
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

fn failed(failure: Failure) -> Outcome {
    let Failure { kind, message, retryable } = failure;
    let error = AttemptError { kind: kind.into(), message };
    Outcome::Failed { error, retryable, retry_after_ms: None, pause_job: false, response: None }
}

fn timed_out(work: &Work, what: &str) -> Outcome {
    let message = format!("{what} within {} ms", work.timeout_ms);
    Outcome::TimedOut { error: AttemptError { kind: "timeout".into(), message } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::guard::Targets;
    use crate::guard::resolver::Resolver;
    use futures_util::FutureExt;
    use std::net::SocketAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_name_that_turns_to_a_private_address_is_refused_without_a_packet() {
        let canary = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = canary.local_addr().unwrap();
        // Alone, or hidden behind a public address that would be tried first.
        let asked = AtomicUsize::new(0);
        let targets = Targets { plain_http: true, ..Targets::default() };
        let resolver = Resolver::with(targets.clone(), move |_| {
            let hidden = asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
            let public = SocketAddr::from(([203, 0, 114, 1], 0));
            async move { Ok(if hidden { vec![public, address] } else { vec![address] }) }.boxed()
        });
        let webhook = Webhook::new(Client::with(Options { targets, ..Options::default() }, resolver));
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
