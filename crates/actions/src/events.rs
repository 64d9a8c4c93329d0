//! The sender of events: posts CloudEvents envelopes to endpoints, signed by Standard Webhooks.
//!
//! Whether an answer is good enough, and when the next try is, is decided by who keeps the outbox: here every answer is
//! a status. Endpoints come from users as much as the URLs of webhooks do, so they get the same client and the same guard,
//! asked again before every try.

use crate::client::{self, Client, Failure};
use crate::webhook::sign::stamp;
use campanile_model::notify::Sender;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time limit of a try: lookup, connection and the head of the answer.
const TIME_LIMIT: Duration = Duration::from_secs(15);
/// How long, within that, we read an answer's body that nobody wants.
const DRAIN: Duration = Duration::from_secs(1);
/// How much of it.
const DRAIN_BYTES_MAX: usize = 64 * 1_024;

/// The sender of events.
pub struct EventSender {
    client: Client,
    time_limit: Duration,
}

impl EventSender {
    /// A sender, from [`Options`](crate::Options) or from a client that others use too. Connects to nothing yet.
    pub fn new(client: impl Into<Client>) -> Self {
        Self { client: client.into(), time_limit: TIME_LIMIT }
    }
}

#[async_trait::async_trait]
impl Sender for EventSender {
    fn check(&self, url: &str) -> Result<(), String> {
        match self.client.options().targets.parse(url) {
            Ok(_) => Ok(()),
            Err(why) => Err(format!("{}; {}", why.message, why.hint)),
        }
    }

    async fn send(&self, url: &str, id: &str, body: String) -> Result<u16, String> {
        let options = self.client.options();
        let url = options.targets.parse(url).map_err(|why| why.message)?;
        let origin = client::origin(&url);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/cloudevents+json"));
        stamp(&mut headers, &options.secrets, id, options.clock.now(), body.as_bytes());
        let request = self.client.request(Method::POST, url).map_err(|failure| failure.message)?;

        let deadline = Instant::now() + self.time_limit;
        match timeout_at(deadline, request.headers(headers).body(body).send()).await {
            Ok(Ok(answer)) => {
                let status = answer.status().as_u16();
                // However this ends, there was an answer.
                let _ = timeout_at(deadline.min(Instant::now() + DRAIN), drain(answer)).await;
                Ok(status)
            }
            Ok(Err(error)) => Err(Failure::of(&origin, error).message),
            Err(_) => Err(format!("{origin} did not answer within {} ms", self.time_limit.as_millis())),
        }
    }
}

/// Reads a small body to its end, so that the connection can be used again.
async fn drain(mut answer: reqwest::Response) {
    let mut bytes = 0;
    while bytes <= DRAIN_BYTES_MAX
        && let Ok(Some(chunk)) = answer.chunk().await
    {
        bytes += chunk.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::Targets;
    use crate::guard::resolver::Resolver;
    use crate::registry::Options;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn an_endpoint_that_never_answers_is_given_up() {
        // Connections wait in its backlog.
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let sender = EventSender { time_limit: Duration::from_millis(50), ..EventSender::new(Options::dev()) };
        let error = sender.send(&format!("http://{address}/secret"), "evt_1", "{}".into()).await;
        assert_eq!(error, Err(format!("http://{address} did not answer within 50 ms")));
    }

    #[tokio::test]
    async fn a_name_that_turns_to_a_private_address_is_refused_without_a_packet() {
        let canary = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = canary.local_addr().unwrap();
        let targets = Targets { plain_http: true, ..Targets::default() };
        let resolver = Resolver::with(targets.clone(), move |_| async move { Ok(vec![address]) }.boxed());
        let sender = EventSender::new(Client::with(Options { targets, ..Options::default() }, resolver));
        let url = format!("http://rebind.example:{}/secret", address.port());
        assert_eq!(sender.check(&url), Ok(()));
        let error = sender.send(&url, "evt_1", "{}".into()).await.expect_err("sent");
        assert!(error.contains("not allowed") && !error.contains("secret"), "{error}");
        assert!(canary.accept().now_or_never().is_none(), "somebody connected");
    }
}
