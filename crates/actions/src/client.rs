//! The HTTP client of everything that a node sends to where users say: webhooks and events.
//!
//! It keeps connections for reuse, and opens few where few are enough (`hosts`). No call waits for one that is slow, but for
//! 200 ms for the first answer of its own host: a thousand slow targets cost their sockets, and no time of a fast one. Names
//! are resolved by the `guard`; redirects are never followed, proxies never used, bodies never decompressed. Who sends checks the URL (`Targets::parse`) and keeps the time limit.

mod failure;
mod hosts;

use crate::guard::resolver::Resolver;
use crate::registry::Options;
use campanile_model::fault::{Bug, planted};
use campanile_model::job::Priority;
use campanile_model::limits;
use http::Method;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::warn;
use url::Url;

pub(crate) use failure::Failure;
use hosts::Hosts;
pub(crate) use hosts::Turn;

const AGENT: &str = concat!("campanile/", env!("CARGO_PKG_VERSION"));

/// The HTTP client of a node. Clones share connections and lookups.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    options: Options,
    resolver: Resolver,
    hosts: Hosts,
    /// Built when it is first needed: reading the host's certificates takes a moment, and most tests need none.
    http: OnceLock<Result<reqwest::Client, String>>,
}

impl Client {
    /// A client with these options. Connects to nothing yet.
    pub fn new(options: Options) -> Self {
        let resolver = Resolver::system(options.targets.clone());
        Self::with(options, resolver)
    }

    /// A client that asks `resolver` for addresses.
    pub(crate) fn with(options: Options, resolver: Resolver) -> Self {
        Self { inner: Arc::new(Inner { options, resolver, hosts: Hosts::default(), http: OnceLock::new() }) }
    }

    /// What it was made of.
    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Waits until a request may be sent to this origin.
    pub(crate) async fn turn(&self, origin: &str, priority: Priority) -> Turn {
        self.inner.hosts.turn(origin, priority).await
    }

    /// Requests that wait for their turn.
    pub(crate) fn waiting(&self) -> usize {
        self.inner.hosts.waiting()
    }

    /// A request to a URL that was checked.
    pub(crate) fn request(&self, method: Method, url: Url) -> Result<reqwest::RequestBuilder, Failure> {
        match self.inner.http.get_or_init(|| build(&self.inner.options, &self.inner.resolver)) {
            Ok(http) => Ok(http.request(method, url)),
            Err(error) => Err(Failure::new("client", format!("cannot send webhooks: {error}"), true)),
        }
    }
}

impl Client {
    /// Sends a request without guard or signature and answers nothing but whether it went well: for benchmarks, which measure
    /// what the client does alone.
    #[doc(hidden)]
    pub async fn post(
        &self,
        url: &str,
        headers: &[(&'static str, &'static str)],
        body: &'static str,
    ) -> Result<(), String> {
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        let mut request = self.request(Method::POST, url).map_err(|failure| failure.message)?;
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body).send().await.map_err(|error| error.to_string())?;
        answer.bytes().await.map(|_| ()).map_err(|error| error.to_string())
    }
}

impl From<Options> for Client {
    fn from(options: Options) -> Self {
        Self::new(options)
    }
}

/// The part of a URL that may be shown, since the rest can be a secret: scheme, host and a port that is not the scheme's
/// own, in lower case.
pub(crate) fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn build(options: &Options, resolver: &Resolver) -> Result<reqwest::Client, String> {
    // formbricks#7877: the URL is vetted, and where it sends us is not.
    let redirects = || match planted(Bug("redirect-followed")) {
        true => reqwest::redirect::Policy::limited(10),
        false => reqwest::redirect::Policy::none(),
    };
    let builder = || {
        reqwest::Client::builder()
            .user_agent(AGENT)
            .dns_resolver(Arc::new(resolver.clone()))
            .redirect(redirects())
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

    #[test]
    fn a_client_is_built_without_certificates_on_the_host() {
        let tls = built_in_trust().expect("built-in certificates");
        assert_eq!(tls.alpn_protocols.len(), 2);
        assert!(reqwest::Client::builder().tls_backend_preconfigured(tls).build().is_ok());
        let options = Options::default();
        assert!(build(&options, &Resolver::system(options.targets.clone())).is_ok());
    }
}
