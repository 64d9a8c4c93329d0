//! What a planner may take from a filter to choose an index.
//!
//! These are bounds, not the filter: whatever they let through is still given to [`Filter::matches`].

use super::{Filter, Test};
use crate::lifecycle::State;
use crate::time::Timestamp;

impl Filter {
    /// The window that everything meant was due in: at or after the first, before the second. Where two terms exclude
    /// each other, the first is not before the second.
    pub fn window(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let (mut start, mut end) = (None, None);
        for test in self.wanted() {
            if let Test::Scheduled(from, to) = test {
                // `None` is less than any instant, which is right for a start but not for an end.
                start = start.max(*from);
                end = [end, *to].into_iter().flatten().min();
            }
        }
        (start, end)
    }

    /// The states that everything meant is in, as [`State::ALL`] has them; `None` where the filter does not say, and
    /// empty where it contradicts itself.
    pub fn states(&self) -> Option<Vec<State>> {
        let sets = self.terms.iter().filter_map(|term| match &term.test {
            Test::State(states) => Some((term.negated, states)),
            _ => None,
        });
        let sets: Vec<(bool, &Vec<State>)> = sets.collect();
        let allowed = |state: &State| sets.iter().all(|(negated, states)| states.contains(state) != *negated);
        (!sets.is_empty()).then(|| State::ALL.into_iter().filter(allowed).collect())
    }

    /// The names of the jobs that everything meant belongs to; `None` where the filter names none in full, and empty where
    /// it contradicts itself.
    pub fn jobs_exact(&self) -> Option<Vec<&str>> {
        let name = self.wanted().find_map(|test| match test {
            Test::Job(pattern) => pattern.as_exact(),
            _ => None,
        })?;
        let allowed = self.terms.iter().all(|term| match &term.test {
            Test::Job(pattern) => pattern.matches(name) != term.negated,
            _ => true,
        });
        Some(if allowed { vec![name] } else { Vec::new() })
    }

    /// The fingerprint that everything meant has, where the filter gives all its sixteen digits.
    pub fn fingerprint_exact(&self) -> Option<u64> {
        self.wanted().find_map(|test| match test {
            Test::Fingerprint(digits) if digits.len() == 16 => u64::from_str_radix(digits, 16).ok(),
            _ => None,
        })
    }

    /// The tests that must hold.
    fn wanted(&self) -> impl Iterator<Item = &Test> {
        self.terms.iter().filter(|term| !term.negated).map(|term| &term.test)
    }
}
