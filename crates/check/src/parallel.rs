//! Does several things at once.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What `make` makes of each item, in the order of the items.
///
/// No more of them at once than there are processors: they go through much memory, and would push out of the caches
/// what the others are about to need.
pub fn each<T: Sync, R: Send>(items: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    // Takes one item after the other until none is left.
    let work = || {
        let mut made = Vec::new();
        loop {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(position) else { return made };
            made.push((position, make(item)));
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut made: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    made.sort_by_key(|(position, _)| *position);
    made.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1_000).collect();
        assert_eq!(each(&items, |item| item * 2), (0..1_000).map(|item| item * 2).collect::<Vec<_>>());
        assert_eq!(each(&[] as &[u64], |item| *item), [0; 0]);
    }
}
