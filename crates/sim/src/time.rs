//! Simulated time: it stands still while anything can run, and then goes on to the first sleeper.
//!
//! The runtime has one thread and no timer of its own. When no task can run, it is about to park; the hook there moves
//! time on instead. So an hour costs what is done in it, and who wakes first is decided by instant and order of going
//! to sleep.

use campanile_model::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio::runtime::Builder;

/// When every simulation starts.
pub const START: Timestamp = Timestamp::from_millis(1_794_794_400_000);

#[derive(Default)]
pub struct Time {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    now_ms: u64,
    sleeps: u64,
    /// By (when it wakes, which one).
    sleepers: BTreeMap<(u64, u64), Waker>,
    /// That of the future that runs on this time.
    main: Option<Waker>,
}

impl Time {
    /// Milliseconds since the start.
    pub fn ms(&self) -> u64 {
        self.state.lock().now_ms
    }

    /// The true wall clock.
    pub fn now(&self) -> Timestamp {
        START.saturating_add_ms(self.ms() as i64)
    }

    /// Waits; at least until nothing else can run.
    pub fn sleep(self: &Arc<Self>, ms: u64) -> Sleep {
        Sleep { time: self.clone(), at: self.ms().saturating_add(ms), key: None }
    }

    /// Moves on to the first sleepers, and wakes them. It also wakes the main future: a sleeper whose task waits for something else
    /// just now wakes nobody, and then the thread would park with the others asleep.
    fn advance(&self) {
        let (woken, main) = {
            let mut state = self.state.lock();
            let &(at, _) = state.sleepers.keys().next().expect("somebody sleeps: or nothing would ever happen again");
            state.now_ms = state.now_ms.max(at);
            let later = state.sleepers.split_off(&(at + 1, 0));
            (std::mem::replace(&mut state.sleepers, later), state.main.clone())
        };
        woken.into_values().chain(main).for_each(Waker::wake);
    }

    /// Runs a future, and whatever it spawns, on this time. What is left when it ends is dropped.
    pub fn run<F: Future>(self: &Arc<Self>, future: F) -> F::Output {
        let time = self.clone();
        let runtime = Builder::new_current_thread().on_thread_park(move || time.advance()).build();
        let mut future = std::pin::pin!(future);
        let main = std::future::poll_fn(|context| {
            self.state.lock().main = Some(context.waker().clone());
            future.as_mut().poll(context)
        });
        runtime.expect("a runtime without drivers starts").block_on(main)
    }
}

pub struct Sleep {
    time: Arc<Time>,
    at: u64,
    key: Option<(u64, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let time = self.time.clone();
        let mut state = time.state.lock();
        let key = match self.key {
            Some(key) if !state.sleepers.contains_key(&key) => return Poll::Ready(()),
            Some(key) => key,
            None => {
                state.sleeps += 1;
                (self.at, state.sleeps)
            }
        };
        state.sleepers.insert(key, cx.waker().clone());
        self.key = Some(key);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.time.state.lock().sleepers.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream::{FuturesUnordered, StreamExt};

    #[test]
    fn an_hour_passes_at_once_and_in_order() {
        let time = Arc::new(Time::default());
        let woken = Arc::new(Mutex::new(Vec::new()));
        time.run(async {
            for ms in [3_600_000, 5, 5, 0] {
                let (time, woken) = (time.clone(), woken.clone());
                tokio::spawn(async move {
                    time.sleep(ms).await;
                    woken.lock().push((ms, time.ms()));
                });
            }
            time.sleep(3_600_001).await;
        });
        assert_eq!(*woken.lock(), [(0, 0), (5, 5), (5, 5), (3_600_000, 3_600_000)]);
    }

    #[test]
    fn a_sleeper_that_nobody_polls_holds_nobody_up() {
        let time = Arc::new(Time::default());
        time.run(async {
            let mut set = FuturesUnordered::from_iter([time.sleep(10), time.sleep(12)]);
            tokio::select! {
                biased;
                _ = set.next() => panic!("the shorter one is first"),
                () = time.sleep(1) => {}
            }
            // The first one wakes this future, which does not look at the set; the second one wakes nobody.
            time.sleep(20).await;
        });
        assert_eq!(time.ms(), 21);
    }

    #[test]
    fn a_dropped_sleeper_is_forgotten() {
        let time = Arc::new(Time::default());
        time.run(async {
            tokio::select! {
                biased;
                () = time.sleep(100) => panic!("the shorter one is first"),
                () = time.sleep(10) => {}
            }
            time.sleep(1).await;
        });
        assert_eq!(time.ms(), 11);
    }
}
