//! Against a plain model: after any calls in any order, exactly those receivers were woken that have something.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

const POOLS: [&str; 3] = ["short", "long", "gpu"];
const HANDLERS: [&str; 4] = ["mail", "bill", "scan", "sign"];
const SEEDS: u64 = 100;
const STEPS: u64 = 400;

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Dispatch>>> + Send + 'a>>;

#[test]
fn nobody_is_forgotten_and_nobody_is_woken_for_nothing() {
    for seed in 0..SEEDS {
        let queue = MemoryQueue::new();
        let mut world =
            World { queue: &queue, dice: seed, published: 0, waiting: BTreeMap::new(), receivers: Vec::new() };
        for _ in 0..STEPS {
            world.step();
            if world.below(3) == 0 {
                world.settle();
            }
        }
        let World { waiting, receivers, .. } = world;
        drop(receivers);
        let left: usize = now(queue.pools()).unwrap().iter().map(|depth| depth.waiting).sum();
        assert_eq!(left, waiting.len());
        assert_eq!(RUNNERS.map(|runner| in_line_and_called(&queue, runner)), [(0, 0); 2]);
    }
}

/// The queue, and what a plain model knows of it.
struct World<'a> {
    queue: &'a MemoryQueue,
    dice: u64,
    published: u64,
    /// Published and not received.
    waiting: BTreeMap<ExecutionId, Dispatch>,
    /// That did not answer at once.
    receivers: Vec<Receiver<'a>>,
}

struct Receiver<'a> {
    want: Receive,
    answer: Answer<'a>,
    bell: Arc<Bell>,
}

#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        assert!(!self.0.swap(true, Ordering::Relaxed), "woken twice");
    }
}

impl World<'_> {
    fn step(&mut self) {
        let somebody = self.below(self.receivers.len().max(1));
        match self.below(10) {
            0..3 => self.publish(),
            3..8 => self.receive(),
            _ if self.receivers.is_empty() => {}
            // Called or not, it may give up at any moment.
            8 => drop(self.receivers.swap_remove(somebody)),
            _ => self.look(somebody),
        }
    }

    fn publish(&mut self) {
        // Now and then more than those in line can take; mostly less, so that there is a line.
        let count = [1, 1, 1, 2, 3, 12][self.below(6)];
        let batch: Vec<_> = (0..count).map(|_| self.dispatch()).collect();
        self.waiting.extend(batch.iter().map(|item| (item.execution, item.clone())));
        now(self.queue.publish(batch)).unwrap();
    }

    fn dispatch(&mut self) -> Dispatch {
        self.published += 1;
        let action = if self.below(4) == 0 { ActionKind::Webhook } else { ActionKind::Worker };
        let (tenant, priority) = (self.below(3) as u32, Priority::ALL[self.below(4)]);
        let item = dispatch(self.published, tenant, priority, POOLS[self.below(3)], action);
        Dispatch { target: HANDLERS[self.below(4)].into(), ..item }
    }

    fn receive(&mut self) {
        let mut some = |names: &[&str], chance| -> Vec<Arc<str>> {
            let is_any = self.below(2) == 0;
            names.iter().filter(|_| !is_any && self.below(chance) == 0).map(|&name| name.into()).collect()
        };
        let (pools, except, targets) = (some(&POOLS, 2), some(&POOLS, 3), some(&HANDLERS, 3));
        let runner = RUNNERS[usize::from(self.below(4) > 0)];
        let least = Priority::ALL[3 - self.below(8).saturating_sub(4)];
        let want = Receive { runner, pools, except, targets, least, limit: 1 + self.below(4) };
        let (queue, asked, bell) = (self.queue, want.clone(), Arc::new(Bell::default()));
        let mut answer: Answer<'_> = Box::pin(async move { queue.receive(&asked).await });
        // Others have what was laid down for them, so there may be none left although the model has some.
        match poll(&mut answer, &bell) {
            Poll::Ready(items) => self.received(&want, items.unwrap()),
            Poll::Pending => self.receivers.push(Receiver { want, answer, bell }),
        }
    }

    /// Looks after one receiver: it answers if and only if it was woken.
    fn look(&mut self, i: usize) {
        let Receiver { answer, bell, .. } = &mut self.receivers[i];
        let is_woken = bell.0.load(Ordering::Relaxed);
        match poll(answer, bell) {
            Poll::Ready(items) => {
                assert!(is_woken, "something came of itself");
                let receiver = self.receivers.swap_remove(i);
                self.received(&receiver.want, items.unwrap());
            }
            Poll::Pending => assert!(!is_woken, "woken for nothing"),
        }
    }

    fn received(&mut self, want: &Receive, items: Vec<Dispatch>) {
        assert!((1..=want.limit).contains(&items.len()));
        let (back, done): (Vec<_>, Vec<_>) = items.into_iter().partition(|_| self.below(5) == 0);
        for item in back.iter().chain(&done) {
            assert!(is_wanted(want, item), "{want:?} got {item:?}");
            assert_eq!(self.waiting.remove(&item.execution).as_ref(), Some(item), "received twice or changed");
        }
        self.waiting.extend(back.iter().map(|item| (item.execution, item.clone())));
        now(self.queue.ack(want.runner, &done.iter().map(|item| item.execution).collect::<Vec<_>>())).unwrap();
        now(self.queue.release(back)).unwrap();
    }

    /// Everybody looks, until nobody is called any more. Who waits then wants nothing that waits.
    fn settle(&mut self) {
        while let Some(i) = self.receivers.iter().position(|receiver| receiver.bell.0.load(Ordering::Relaxed)) {
            self.look(i);
        }
        for Receiver { want, .. } in &self.receivers {
            let forgotten = self.waiting.values().find(|item| is_wanted(want, item));
            assert!(forgotten.is_none(), "{want:?} waits, and so does {forgotten:?}");
        }
        for runner in RUNNERS {
            let waiting = self.waiting.values().filter(|item| item.action.runner() == runner).count();
            assert_eq!(now(self.queue.depth(runner)).unwrap(), Depth { waiting, taken: 0 });
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33) as usize % end
    }
}

fn is_wanted(want: &Receive, item: &Dispatch) -> bool {
    let targets = if want.runner == Runner::Node { &[][..] } else { &want.targets };
    want.runner == item.action.runner()
        && item.priority <= want.least
        && (want.pools.is_empty() || want.pools.contains(&item.pool))
        && !want.except.contains(&item.pool)
        && (targets.is_empty() || targets.contains(&item.target))
}

fn poll(answer: &mut Answer<'_>, bell: &Arc<Bell>) -> Poll<Result<Vec<Dispatch>>> {
    answer.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(bell))))
}

/// The answer of a call that does not wait.
fn now<T>(call: impl Future<Output = T>) -> T {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("only `receive` waits"),
    }
}
