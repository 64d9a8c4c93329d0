//! The HTTP side of the client: one place that sends, and one that reads answers.

use crate::wire::Problem;
use crate::worker::backoff::jittered;
use crate::{Error, Result};
use reqwest::{Method, Request, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Largest answer that is read; a page of jobs with the largest payloads fits.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long an answer may take, beyond what a long poll waits for.
const TIMEOUT: Duration = Duration::from_secs(35);

/// Pauses before a request is sent again, each up to half shorter, so that clients do not come back all at once.
const PAUSES: [Duration; 2] = [Duration::from_millis(300), Duration::from_millis(900)];
/// No request is sent again later than this after its first time.
const REPEAT_MAX: Duration = Duration::from_secs(2);
const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// A client of one server. Cheap to clone; clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
}

/// What goes with a write beside its body.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Makes the write happen once, however often it is sent. With one, the client itself sends it up to three times
    /// while no server answers, or one says that it may work later.
    pub idempotency_key: Option<String>,
    /// Only if the job is in this version.
    pub if_match: Option<u32>,
    /// Only check, and show what would be.
    pub dry_run: bool,
}

impl WriteOptions {
    /// Nothing but a look at what would be.
    pub fn preview() -> Self {
        Self { dry_run: true, ..Self::default() }
    }
}

impl Client {
    /// A client of the server at `base_url`, such as `http://127.0.0.1:8080`.
    pub fn new(base_url: &str) -> Result<Self> {
        let base = Url::parse(base_url.trim_end_matches('/'))
            .map_err(|error| Error::Request(format!("`{base_url}` is not a URL: {error}")))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            return Err(Error::Request(format!("`{base_url}` is not an http or https URL")));
        }
        let http = reqwest::Client::builder()
            .user_agent(concat!("campanile/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_secs(5))
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| Error::Request(format!("cannot build an HTTP client: {}", chain(&error))))?;
        Ok(Self { http, base })
    }

    /// The server's address.
    pub fn base_url(&self) -> &str {
        self.base.as_str()
    }

    /// A request to `path`, whose segments are escaped, without a query.
    pub(crate) fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.ask(method, path, &[])
    }

    /// A request to `path` with those parameters that have a value.
    pub(crate) fn ask(&self, method: Method, path: &[&str], query: &[(&str, Option<&str>)]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        self.http.request(method, url).timeout(TIMEOUT)
    }

    /// A write: the request with its options and body.
    pub(crate) fn write<B: Serialize + ?Sized>(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&B>,
        options: &WriteOptions,
    ) -> RequestBuilder {
        let mut request = self.ask(method, path, &[("dry_run", options.dry_run.then_some("true"))]);
        if let Some(key) = &options.idempotency_key {
            request = request.header(IDEMPOTENCY_KEY, key);
        }
        if let Some(version) = options.if_match {
            request = request.header("if-match", format!("\"v{version}\""));
        }
        match body {
            Some(body) => request.json(body),
            None => request,
        }
    }

    /// Sends, and reads the answer as `T`.
    pub(crate) async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T> {
        let (url, status, body) = self.exchange(request).await?;
        serde_json::from_slice(&body).map_err(|error| Error::Unexpected { url, status, message: error.to_string() })
    }

    /// Sends, and reads nothing of a good answer.
    pub(crate) async fn send_for_nothing(&self, request: RequestBuilder) -> Result<()> {
        self.exchange(request).await.map(|_| ())
    }

    /// Sends; reads, and writes that happen once, a few times, so that a node that just goes or comes is not noticed.
    async fn exchange(&self, request: RequestBuilder) -> Result<(String, u16, Vec<u8>)> {
        let request = request.build().map_err(|error| Error::Request(chain(&error)))?;
        let may_be_repeated = request.method().is_safe() || request.headers().contains_key(IDEMPOTENCY_KEY);
        let began = tokio::time::Instant::now();
        let mut pauses = PAUSES.into_iter().filter(|_| may_be_repeated);
        // Only a body that is a stream cannot be sent twice, and none of ours is.
        while let Some((pause, again)) = pauses.next().zip(request.try_clone()) {
            let answer = self.exchange_once(again).await;
            let pause = jittered(pause, 50);
            // Whoever has waited for long already is told now.
            if !matches!(&answer, Err(error) if error.is_retryable()) || began.elapsed() + pause > REPEAT_MAX {
                return answer;
            }
            tokio::time::sleep(pause).await;
        }
        self.exchange_once(request).await
    }

    async fn exchange_once(&self, request: Request) -> Result<(String, u16, Vec<u8>)> {
        let url = request.url().to_string();
        let unreachable =
            |error: reqwest::Error| Error::Unreachable { url: url.clone(), message: chain(&error.without_url()) };
        let mut response = self.http.execute(request).await.map_err(unreachable)?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(unexpected(&url, &response, "the answer is too large"));
            }
            body.extend_from_slice(&chunk);
        }
        let status = response.status();
        if status.is_success() {
            return Ok((url, status.as_u16(), body));
        }
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) => Err(Error::Refused(Box::new(problem))),
            Err(_) => {
                let text: String = String::from_utf8_lossy(&body).chars().take(200).collect();
                Err(unexpected(&url, &response, text.trim()))
            }
        }
    }
}

fn unexpected(url: &str, response: &Response, message: &str) -> Error {
    Error::Unexpected { url: url.to_owned(), status: response.status().as_u16(), message: message.to_owned() }
}

/// The message of an error and of what caused it, which is where the network's own words are.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}
