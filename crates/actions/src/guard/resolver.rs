//! The resolver of the HTTP client: hands out vetted addresses only.
//!
//! Lookups are shared: a thousand executions for one name ask once, and use the answer for some seconds. Names are looked
//! up by the system, on threads; a bound keeps slow names from taking all of them.

use super::{Refused, Targets};
use campanile_model::fault::{Bug, planted};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long an answer is used.
const KEEP: Duration = Duration::from_secs(5);
/// Names remembered; beyond that, old answers are dropped.
const NAMES_MAX: usize = 4_096;
/// Lookups at the same time; half of the runtime's threads for what blocks.
const LOOKUPS_MAX: usize = 256;

/// Why a name has no address for us.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LookupError {
    /// It has none, or nobody could say.
    #[error("{0}")]
    Failed(String),
    /// It has one that is not allowed.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// What a name's lookup found.
pub type Answer = Result<Arc<[SocketAddr]>, LookupError>;

/// Something that finds the addresses of a name: the system, or what a test says.
pub type Lookup = dyn Fn(String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> + Send + Sync;

/// The resolver of the HTTP client.
#[derive(Clone)]
pub struct Resolver {
    inner: Arc<Inner>,
}

struct Inner {
    targets: Targets,
    lookup: Box<Lookup>,
    permits: Semaphore,
    known: Mutex<HashMap<String, Known>>,
}

struct Known {
    answer: Shared<BoxFuture<'static, Answer>>,
    /// Nothing while the lookup runs or after it failed.
    until: Arc<Mutex<Option<Instant>>>,
}

impl Resolver {
    /// A resolver that asks the system.
    pub fn system(targets: Targets) -> Self {
        Self::with(targets, |name| {
            async move { tokio::net::lookup_host((name, 0)).await.map(Iterator::collect) }.boxed()
        })
    }

    /// A resolver that asks `lookup`.
    pub fn with(
        targets: Targets,
        lookup: impl Fn(String) -> BoxFuture<'static, std::io::Result<Vec<SocketAddr>>> + Send + Sync + 'static,
    ) -> Self {
        let permits = Semaphore::new(LOOKUPS_MAX);
        let inner = Inner { targets, lookup: Box::new(lookup), permits, known: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// The addresses of a name, all of them allowed.
    pub async fn addresses(&self, name: &str) -> Answer {
        let answer = {
            let mut known = self.inner.known.lock();
            match known.get(name) {
                Some(entry) if entry.is_usable() => entry.answer.clone(),
                _ => {
                    if known.len() >= NAMES_MAX {
                        known.retain(|_, entry| entry.is_usable());
                    }
                    let entry = Inner::ask(&self.inner, name);
                    let answer = entry.answer.clone();
                    if known.len() < NAMES_MAX {
                        known.insert(name.to_owned(), entry);
                    }
                    answer
                }
            }
        };
        answer.await
    }
}

impl Inner {
    fn ask(inner: &Arc<Inner>, name: &str) -> Known {
        let until = Arc::new(Mutex::new(None));
        // A task of its own: it ends, and gives its permit back, even if everybody who asked has run out of time.
        let task = tokio::spawn({
            let (inner, name, until) = (Arc::clone(inner), name.to_owned(), Arc::clone(&until));
            async move {
                let found = inner.find(&name).await;
                if found.is_ok() {
                    *until.lock() = Some(Instant::now() + KEEP);
                }
                found
            }
        });
        let answer = task.map(|ended| ended.unwrap_or_else(|error| Err(LookupError::Failed(error.to_string()))));
        Known { answer: answer.boxed().shared(), until }
    }

    async fn find(&self, name: &str) -> Answer {
        let _permit = self.permits.acquire().await.map_err(|error| LookupError::Failed(error.to_string()))?;
        let found = (self.lookup)(name.to_owned()).await.map_err(|error| LookupError::Failed(error.to_string()))?;
        if found.is_empty() {
            return Err(LookupError::Failed("the name has no address".into()));
        }
        // One bad address spoils the name: an honest target has no reason to mix them, and an attacker has.
        // mlflow#24179: the name was looked up when the URL was checked, and is looked up again to connect.
        for address in found.iter().filter(|_| !planted(Bug("rebinding"))) {
            self.targets.check_address(name, address.ip())?;
        }
        Ok(found.into())
    }
}

impl Known {
    /// Whether a lookup runs that can be joined, or its answer is fresh.
    fn is_usable(&self) -> bool {
        match *self.until.lock() {
            Some(until) => Instant::now() < until,
            None => self.answer.peek().is_none(),
        }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let vetted: Vec<SocketAddr> = resolver.addresses(name.as_str()).await?.to_vec();
            let vetted: Addrs = Box::new(vetted.into_iter());
            Ok(vetted)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn answering(addresses: &[&str], targets: Targets) -> (Resolver, Arc<AtomicUsize>) {
        let addresses: Vec<SocketAddr> =
            addresses.iter().map(|a| SocketAddr::new(a.parse().expect("an address"), 0)).collect();
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let resolver = Resolver::with(targets, move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            let addresses = addresses.clone();
            async move {
                tokio::task::yield_now().await;
                Ok(addresses)
            }
            .boxed()
        });
        (resolver, asked)
    }

    #[tokio::test]
    async fn one_bad_address_spoils_the_name() {
        for bad in ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:127.0.0.1", "fe80::1", "64:ff9b::a00:1"]
        {
            for list in [vec![bad], vec!["93.184.216.34", bad], vec![bad, "2606:4700::1111"]] {
                let (resolver, _) = answering(&list, Targets::default());
                let answer = resolver.addresses("rebind.example").await;
                assert!(matches!(answer, Err(LookupError::Refused(_))), "{list:?}: {answer:?}");
            }
        }
    }

    #[tokio::test]
    async fn metadata_is_refused_even_where_private_is_allowed() {
        for bad in ["169.254.169.254", "fd00:ec2::254", "::ffff:169.254.169.254", "100.100.100.200"] {
            let (resolver, _) = answering(&[bad], Targets::dev());
            assert!(matches!(resolver.addresses("x.example").await, Err(LookupError::Refused(_))), "{bad}");
        }
        let (resolver, _) = answering(&["127.0.0.1", "::1", "10.0.0.1"], Targets::dev());
        assert_eq!(resolver.addresses("x.example").await.expect("allowed").len(), 3);
    }

    #[tokio::test]
    async fn lookups_of_one_name_are_shared_and_failures_are_asked_again() {
        let (resolver, asked) = answering(&["93.184.216.34"], Targets::default());
        let all = futures_util::future::join_all((0..1_000).map(|_| resolver.addresses("a.example"))).await;
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let (resolver, asked) = answering(&["127.0.0.1"], Targets::default());
        for _ in 0..3 {
            assert!(resolver.addresses("b.example").await.is_err());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        let (resolver, _) = answering(&[], Targets::default());
        assert!(matches!(resolver.addresses("c.example").await, Err(LookupError::Failed(_))));
    }

    #[tokio::test]
    async fn a_flood_of_names_is_not_remembered_for_ever() {
        let (resolver, _) = answering(&["93.184.216.34"], Targets::default());
        for n in 0..NAMES_MAX + 100 {
            resolver.addresses(&format!("{n}.example")).await.expect("allowed");
        }
        assert!(resolver.inner.known.lock().len() <= NAMES_MAX);
    }

    #[tokio::test]
    async fn a_lookup_whose_first_asker_gave_up_goes_on_for_the_next() {
        let (resolver, asked) = answering(&["93.184.216.34"], Targets::default());
        {
            let mut first = std::pin::pin!(resolver.addresses("a.example"));
            assert!(futures_util::poll!(first.as_mut()).is_pending());
        }
        assert!(resolver.addresses("a.example").await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}
