//! Whether what several callers saw of one execution can have happened one after the other.
//!
//! A history is a list of calls, each with the moment it was sent, the moment its answer came, and the answer. It is
//! *linearizable* when the calls can be put in an order in which every answer is the one that the lifecycle gives at that
//! place, and in which no call comes before one that was answered before it was sent. The search is by brute force:
//! histories of one execution are short, and hardly any two calls overlap.

use campanile_model::lifecycle::{self, Event, State};
use campanile_model::store::{Applied, CancelVerdict};
use std::collections::HashSet;

/// One call and its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// When it was sent.
    pub sent: u64,
    /// When it was answered.
    pub answered: u64,
    /// What was asked and answered.
    pub what: What,
}

/// What was asked, and the answer.
#[derive(Clone, Debug)]
pub enum What {
    /// A claim after so many attempts: a fence, or the state that forbade it.
    Claim {
        /// Attempts so far, as the claimer believed.
        attempt: u32,
        /// Whether it was a node's.
        node: bool,
        /// The fence, or the state.
        answer: Result<u64, State>,
    },
    /// A cancel; with time to stop, or at once.
    Cancel {
        /// Whether an external worker was given time.
        grace: bool,
        /// The answer; of `Asked`, the instant does not matter.
        answer: CancelVerdict,
    },
    /// The end of an attempt.
    Complete { fence: u64, event: Event, answer: Applied },
    /// A look at it.
    Read {
        /// The state it was in.
        state: State,
        attempt: u32,
        /// The fence of the newest one.
        fence: u64,
    },
}

/// An execution as the lifecycle has it.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
struct Model {
    state: State,
    attempt: u32,
    fence: u64,
    node: bool,
    /// Whether its attempt was asked to stop.
    asked: bool,
}

impl Model {
    /// The model after a call, if that answers as it did.
    fn after(self, what: &What) -> Option<Model> {
        let legal = |event| lifecycle::apply(self.state, event).ok();
        match what {
            What::Claim { attempt, node, answer } => {
                let next = legal(Event::Claim).filter(|_| self.attempt == *attempt);
                match (next, answer) {
                    // Fences grow.
                    (Some(state), Ok(fence)) if *fence > self.fence => {
                        Some(Model { state, attempt: attempt + 1, fence: *fence, node: *node, asked: false })
                    }
                    (None, Err(state)) if *state == self.state => Some(self),
                    _ => None,
                }
            }
            What::Cancel { grace, answer } => {
                let asks = self.state == State::Running && !self.node && *grace;
                match (legal(Event::Cancel), answer) {
                    (Some(_), CancelVerdict::Asked { .. }) if asks => Some(Model { asked: true, ..self }),
                    (Some(state), CancelVerdict::Done) if !asks => Some(Model { state, ..self }),
                    (None, CancelVerdict::Stale { state }) if *state == self.state => Some(self),
                    _ => None,
                }
            }
            What::Complete { fence, event, answer } => {
                let current = self.state == State::Running && self.fence == *fence;
                // What was asked to stop is not tried again: whoever says otherwise has not seen it.
                let next = legal(*event).filter(|state| current && (state.is_final() || !self.asked));
                match (next, answer) {
                    (Some(state), Applied::Done) => Some(Model { state, ..self }),
                    (None, Applied::Stale { state }) if *state == self.state => Some(self),
                    _ => None,
                }
            }
            What::Read { state, attempt, fence } => {
                ((self.state, self.attempt, self.fence) == (*state, *attempt, *fence)).then_some(self)
            }
        }
    }
}

/// Whether a history of an execution that was pending is linearizable.
pub fn linearizable(calls: &[Call]) -> bool {
    assert!(calls.len() <= 64, "a history of {} calls", calls.len());
    let start = Model { state: State::Pending, attempt: 0, fence: 0, node: false, asked: false };
    let mut seen = HashSet::new();
    let mut open = vec![(0u64, start)];
    while let Some((done, model)) = open.pop() {
        if done.count_ones() as usize == calls.len() {
            return true;
        }
        if !seen.insert((done, model)) {
            continue;
        }
        let left = || (0..calls.len()).filter(|i| done & 1 << i == 0);
        // Whatever comes next was sent before anything that is left was answered.
        let first_answer = left().map(|i| calls[i].answered).min().unwrap_or(u64::MAX);
        for i in left().filter(|&i| calls[i].sent < first_answer) {
            if let Some(model) = model.after(&calls[i].what) {
                open.push((done | 1 << i, model));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(sent: u64, answered: u64, what: What) -> Call {
        Call { sent, answered, what }
    }

    fn claim(answer: Result<u64, State>) -> What {
        What::Claim { attempt: 0, node: true, answer }
    }

    fn cancel(answer: CancelVerdict) -> What {
        What::Cancel { grace: false, answer }
    }

    fn succeed(fence: u64, answer: Applied) -> What {
        What::Complete { fence, event: Event::Succeed, answer }
    }

    const CANCELLED: Applied = Applied::Stale { state: State::Cancelled };

    #[test]
    fn what_can_have_happened_is_accepted() {
        // One after the other.
        assert!(linearizable(&[call(1, 2, claim(Ok(7))), call(3, 4, succeed(7, Applied::Done))]));
        // At the same time: either may be first.
        for (claimed, cancelled) in [(Ok(7), CancelVerdict::Done), (Err(State::Cancelled), CancelVerdict::Done)] {
            assert!(linearizable(&[call(1, 4, claim(claimed)), call(2, 3, cancel(cancelled))]));
        }
        let read = What::Read { state: State::Cancelled, attempt: 1, fence: 7 };
        let history = [
            call(1, 2, claim(Ok(7))),
            call(3, 6, cancel(CancelVerdict::Done)),
            call(4, 5, succeed(7, CANCELLED)),
            call(7, 8, read),
        ];
        assert!(linearizable(&history));
    }

    #[test]
    fn what_cannot_have_happened_is_refused() {
        // A cancel that was answered before the claim was sent, and a start all the same.
        assert!(!linearizable(&[call(1, 2, cancel(CancelVerdict::Done)), call(3, 4, claim(Ok(7)))]));
        // Two winners.
        assert!(!linearizable(&[call(1, 4, claim(Ok(7))), call(2, 3, claim(Ok(8)))]));
        let twice = [succeed(7, Applied::Done), succeed(7, Applied::Done)].map(|what| call(3, 4, what));
        assert!(!linearizable(&[&[call(1, 2, claim(Ok(7)))][..], &twice].concat()));
        // A completion that was answered, and a cancel after it that happened.
        let late =
            [call(1, 2, claim(Ok(7))), call(3, 4, succeed(7, Applied::Done)), call(5, 6, cancel(CancelVerdict::Done))];
        assert!(!linearizable(&late));
        // A fence that does not grow, and one of nobody.
        let again = What::Claim { attempt: 1, node: true, answer: Ok(7) };
        let failed = What::Complete { fence: 7, event: Event::FailRetryable, answer: Applied::Done };
        assert!(!linearizable(&[call(1, 2, claim(Ok(7))), call(3, 4, failed), call(5, 6, again)]));
        assert!(!linearizable(&[call(1, 2, claim(Ok(7))), call(3, 4, succeed(6, Applied::Done))]));
        // An answer that tells of a state that never was.
        assert!(!linearizable(&[call(1, 2, claim(Err(State::Dead)))]));
        // In the end it is something else.
        let read = What::Read { state: State::Cancelled, attempt: 1, fence: 7 };
        assert!(!linearizable(&[call(1, 2, claim(Ok(7))), call(3, 4, read)]));
    }
}
