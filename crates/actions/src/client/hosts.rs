//! How many requests go to one host at the same time.
//!
//! A host that answers at once needs few connections, however much is due: the others wait for these, here, instead of
//! opening thousands that are used once. A request that is not answered soon no longer counts, so that a slow host gets as
//! many as it takes, a little later each: nobody waits for it. Critical requests wait only for each other.
//!
//! The first request to a host with TLS goes alone: whether one connection can carry all (HTTP/2) is known when it is answered.

use campanile_model::job::Priority;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

/// Requests to one host that are not slow yet.
const IN_FLIGHT_MAX: usize = 128;
/// A request that takes longer is slow.
const SLOW: Duration = Duration::from_millis(20);
/// How long others wait for a host's first answer.
const FIRST: Duration = Duration::from_millis(200);
/// A host that was not used for so long is a new one: its connections are about to be closed.
const COLD: Duration = Duration::from_secs(50);
/// Hosts that are remembered; beyond that, those that nobody uses are forgotten.
const HOSTS_MAX: usize = 1_024;

/// The hosts that requests go to.
#[derive(Default)]
pub(super) struct Hosts {
    by_origin: Mutex<HashMap<String, Arc<Host>>>,
    waiting: AtomicUsize,
}

struct Host {
    /// Those of critical requests, and those of all others.
    turns: [Arc<Semaphore>; 2],
    /// Who sends the first request has this.
    first: Arc<Semaphore>,
    is_tls: bool,
    answered_at: Mutex<Option<Instant>>,
}

/// The right to send to a host.
pub(crate) struct Turn {
    host: Arc<Host>,
    turn: OwnedSemaphorePermit,
    first: Option<OwnedSemaphorePermit>,
}

impl Hosts {
    /// Waits until a request may be sent to this origin.
    pub async fn turn(&self, origin: &str, priority: Priority) -> Turn {
        let host = self.host(origin);
        let turns = host.turns[usize::from(priority != Priority::Critical)].clone();
        let turn = match turns.clone().try_acquire_owned() {
            Ok(turn) => turn,
            Err(_) => {
                let _waiting = Waiting::among(&self.waiting);
                turns.acquire_owned().await.expect("it is never closed")
            }
        };
        let first = host.first().await;
        Turn { host, turn, first }
    }

    /// Requests that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn host(&self, origin: &str) -> Arc<Host> {
        let mut hosts = self.by_origin.lock();
        if let Some(host) = hosts.get(origin) {
            return host.clone();
        }
        if hosts.len() >= HOSTS_MAX {
            hosts.retain(|_, host| Arc::strong_count(host) > 1);
        }
        let host = Arc::new(Host {
            turns: [(); 2].map(|()| Arc::new(Semaphore::new(IN_FLIGHT_MAX))),
            first: Arc::new(Semaphore::new(1)),
            is_tls: origin.starts_with("https:"),
            answered_at: Mutex::default(),
        });
        hosts.insert(origin.to_owned(), host.clone());
        host
    }
}

impl Host {
    fn is_cold(&self) -> bool {
        self.is_tls && self.answered_at.lock().is_none_or(|at| at.elapsed() > COLD)
    }

    /// Waits while somebody else sends the first request; the right to do so, if nobody has.
    async fn first(&self) -> Option<OwnedSemaphorePermit> {
        if !self.is_cold() {
            return None;
        }
        let first = self.first.clone().acquire_owned().await.expect("it is never closed");
        self.is_cold().then_some(first)
    }

    fn answered(&self) {
        if self.is_tls {
            *self.answered_at.lock() = Some(Instant::now());
        }
    }
}

/// Counts somebody who waits, until it waits no more or has given up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Turn {
    /// Does the request. The next one has its turn when it is done, or has become slow.
    pub async fn spend<T>(self, request: impl Future<Output = T>) -> T {
        let Self { host, turn, first } = self;
        let mut request = std::pin::pin!(request);
        let patience = if first.is_some() { FIRST } else { SLOW };
        let answer = tokio::select! {
            biased;
            answer = &mut request => Some(answer),
            () = tokio::time::sleep(patience) => None,
        };
        // Also when there is no answer yet: the others have waited long enough.
        host.answered();
        drop((turn, first));
        match answer {
            Some(answer) => answer,
            None => request.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn requests_beyond_the_bound_wait_for_their_turn() {
        let hosts = Hosts::default();
        let mut turns = Vec::new();
        for _ in 0..IN_FLIGHT_MAX {
            turns.push(hosts.turn("http://a", Priority::Normal).await);
        }
        let mut next = std::pin::pin!(hosts.turn("http://a", Priority::Normal));
        assert!(next.as_mut().now_or_never().is_none());
        assert_eq!(hosts.waiting(), 1);
        assert!(hosts.turn("http://b", Priority::Low).now_or_never().is_some(), "another host has its own");
        let critical = hosts.turn("http://a", Priority::Critical);
        assert!(critical.now_or_never().is_some(), "critical requests wait only for each other");
        drop(turns.pop());
        assert!(next.now_or_never().is_some());
        assert_eq!(hosts.waiting(), 0);
    }

    #[tokio::test]
    async fn a_slow_host_gets_as_many_as_it_takes() {
        let hosts = Arc::new(Hosts::default());
        let hour = Duration::from_secs(3_600);
        for _ in 0..10 * IN_FLIGHT_MAX {
            let hosts = hosts.clone();
            tokio::spawn(async move {
                hosts.turn("http://a", Priority::Normal).await.spend(tokio::time::sleep(hour)).await
            });
        }
        while hosts.waiting() == 0 {
            tokio::task::yield_now().await;
        }
        // Those that wait become fewer by one bound whenever so many have become slow.
        while hosts.waiting() > 0 {
            tokio::time::sleep(SLOW).await;
        }
    }

    #[tokio::test]
    async fn the_first_request_with_tls_goes_alone() {
        let hosts = Hosts::default();
        let turn = || hosts.turn("https://a", Priority::Normal);
        let first = turn().await;
        let mut second = std::pin::pin!(turn());
        assert!(second.as_mut().now_or_never().is_none());
        first.spend(std::future::ready(())).await;
        second.await.spend(std::future::ready(())).await;
        assert!(turn().now_or_never().is_some_and(|turn| turn.first.is_none()), "now it is known");
    }

    #[tokio::test]
    async fn nobody_waits_long_for_the_first_answer_and_a_host_that_rested_is_new_again() {
        let hosts = Hosts::default();
        let turn = || hosts.turn("https://a", Priority::Normal);
        drop(turn().await);
        assert!(turn().await.first.is_some(), "one that gave up was not the first");
        let (began, hour) = (Instant::now(), Duration::from_secs(3_600));
        let hanging = turn().await.spend(tokio::time::sleep(hour));
        let others = async {
            for _ in 0..3 {
                turn().await.spend(std::future::ready(())).await;
            }
            began.elapsed()
        };
        tokio::select! {
            biased;
            () = hanging => panic!("it does not answer"),
            waited = others => assert!(waited >= FIRST && waited < hour, "{waited:?}"),
        }
        let host = hosts.host("https://a");
        assert!(!host.is_cold());
        *host.answered_at.lock() = Instant::now().checked_sub(COLD * 2);
        assert!(turn().await.first.is_some());
    }

    #[tokio::test]
    async fn one_that_gives_up_waits_no_more() {
        let hosts = Hosts::default();
        let turns =
            futures_util::future::join_all((0..IN_FLIGHT_MAX).map(|_| hosts.turn("http://a", Priority::Normal))).await;
        assert!(tokio::time::timeout(SLOW, hosts.turn("http://a", Priority::Normal)).await.is_err());
        assert_eq!((turns.len(), hosts.waiting()), (IN_FLIGHT_MAX, 0));
    }

    #[tokio::test]
    async fn a_flood_of_hosts_is_not_remembered_for_ever() {
        let hosts = Hosts::default();
        for n in 0..HOSTS_MAX + 10 {
            hosts.turn(&format!("http://{n}"), Priority::Normal).await;
        }
        assert!(hosts.by_origin.lock().len() <= HOSTS_MAX);
    }
}
