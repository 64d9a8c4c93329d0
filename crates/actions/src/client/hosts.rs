//! How many requests go to one host at the same time.
//!
//! A host that answers at once needs few connections, however much is due: the others wait for these, here, instead of
//! opening thousands that are used once. A request that is not answered soon no longer counts, so that a slow host gets as
//! many as it takes, a little later each: nobody waits for it.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests to one host that are not slow yet.
const IN_FLIGHT_MAX: usize = 128;
/// A request that takes longer is slow.
const SLOW: Duration = Duration::from_millis(20);
/// Hosts that are remembered; beyond that, those that nobody uses are forgotten.
const HOSTS_MAX: usize = 1_024;

/// The hosts that requests go to.
#[derive(Default)]
pub(super) struct Hosts {
    by_origin: Mutex<HashMap<String, Arc<Semaphore>>>,
    waiting: AtomicUsize,
}

/// The right to send to a host.
pub(crate) struct Turn(OwnedSemaphorePermit);

impl Hosts {
    /// Waits until a request may be sent to this origin.
    pub async fn turn(&self, origin: &str) -> Turn {
        let host = self.host(origin);
        if let Ok(permit) = host.clone().try_acquire_owned() {
            return Turn(permit);
        }
        let _waiting = Waiting::among(&self.waiting);
        Turn(host.acquire_owned().await.expect("it is never closed"))
    }

    /// Requests that wait for their turn.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn host(&self, origin: &str) -> Arc<Semaphore> {
        let mut hosts = self.by_origin.lock();
        if let Some(host) = hosts.get(origin) {
            return host.clone();
        }
        if hosts.len() >= HOSTS_MAX {
            hosts.retain(|_, host| host.available_permits() < IN_FLIGHT_MAX || Arc::strong_count(host) > 1);
        }
        let host = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        hosts.insert(origin.to_owned(), host.clone());
        host
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
        let mut request = std::pin::pin!(request);
        tokio::select! {
            biased;
            answer = &mut request => return answer,
            () = tokio::time::sleep(SLOW) => drop(self.0),
        }
        request.await
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
            turns.push(hosts.turn("http://a").await);
        }
        let mut next = std::pin::pin!(hosts.turn("http://a"));
        assert!(next.as_mut().now_or_never().is_none());
        assert_eq!(hosts.waiting(), 1);
        assert!(hosts.turn("http://b").now_or_never().is_some(), "another host has its own");
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
            tokio::spawn(async move { hosts.turn("http://a").await.spend(tokio::time::sleep(hour)).await });
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
    async fn one_that_gives_up_waits_no_more() {
        let hosts = Hosts::default();
        let turns = futures_util::future::join_all((0..IN_FLIGHT_MAX).map(|_| hosts.turn("http://a"))).await;
        assert!(tokio::time::timeout(SLOW, hosts.turn("http://a")).await.is_err());
        assert_eq!((turns.len(), hosts.waiting()), (IN_FLIGHT_MAX, 0));
    }

    #[tokio::test]
    async fn a_flood_of_hosts_is_not_remembered_for_ever() {
        let hosts = Hosts::default();
        for n in 0..HOSTS_MAX + 10 {
            hosts.turn(&format!("http://{n}")).await;
        }
        assert!(hosts.by_origin.lock().len() <= HOSTS_MAX);
    }
}
