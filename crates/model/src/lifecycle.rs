//! The whole life of an execution: THE state machine. Nothing else in this codebase decides a state.
//!
//! Stores receive `sources(event)` and the target as parameters, so that no SQL file spells a rule; the fence is the other
//! half of every guard. The diagram in `docs/internals/state-machine.md` is generated from the table, and the store
//! conformance suite walks it.

use crate::execution::{Outcome, Reason};
use crate::retry::RetryPolicy;
use State::{Blocked, Cancelled, Dead, Pending, Retrying, Running, Skipped, Succeeded};

/// Where an execution is in its life.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Waits for its parents.
    Blocked,
    /// Durable; due, or soon due.
    Pending,
    /// An attempt is running under a lease.
    Running,
    /// Waits for its backoff.
    Retrying,
    /// Done.
    Succeeded,
    /// Attempts exhausted or permanent failure: the dead-letter state.
    Dead,
    /// Cancelled.
    Cancelled,
    /// Did not run, for a recorded reason.
    Skipped,
}

/// What may happen to an execution.
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// All parents are done.
    ParentsDone,
    /// A parent failed.
    ParentFailed,
    /// A runner takes it.
    Claim,
    /// The attempt succeeded.
    Succeed,
    /// The attempt failed and there will be another.
    FailRetryable,
    /// The attempt failed and there will be none.
    FailFinal,
    /// The attempt asked to be tried later; burns no attempt.
    Snooze,
    /// It must not run any more: the job changed before its instant.
    Discard,
    /// A newer version of the job fires at the same instant.
    Refire,
    /// An operator wants a dead one to run again.
    Replay,
    /// Somebody cancels it.
    Cancel,
}

/// What follows what.
pub const TRANSITIONS: &[(State, Event, State)] = &[
    (Blocked, Event::ParentsDone, Pending),
    (Blocked, Event::ParentFailed, Skipped),
    (Pending, Event::Claim, Running),
    (Retrying, Event::Claim, Running),
    (Running, Event::Succeed, Succeeded),
    (Running, Event::FailRetryable, Retrying),
    (Running, Event::FailFinal, Dead),
    (Running, Event::Snooze, Retrying),
    (Pending, Event::Discard, Skipped),
    (Retrying, Event::Discard, Skipped),
    (Skipped, Event::Refire, Pending),
    (Pending, Event::Refire, Pending),
    (Dead, Event::Replay, Pending),
    (Blocked, Event::Cancel, Cancelled),
    (Pending, Event::Cancel, Cancelled),
    (Running, Event::Cancel, Cancelled),
    (Retrying, Event::Cancel, Cancelled),
];

/// An event that the table does not allow.
#[derive(Copy, Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an execution that is {} cannot {event:?}", from.as_str())]
pub struct Illegal {
    /// The state it was in.
    pub from: State,
    /// What was tried.
    pub event: Event,
}

/// A set of states, as a bit mask: what a store binds as its guard.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct StateSet(u16);

/// The state after `event`.
pub fn apply(from: State, event: Event) -> Result<State, Illegal> {
    let mut rows = TRANSITIONS.iter();
    rows.find(|(f, e, _)| *f == from && *e == event).map(|&(_, _, to)| to).ok_or(Illegal { from, event })
}

/// The states in which `event` may happen.
pub const fn sources(event: Event) -> StateSet {
    let mut set = 0;
    let mut i = 0;
    while i < TRANSITIONS.len() {
        if TRANSITIONS[i].1 as u8 == event as u8 {
            set |= 1 << TRANSITIONS[i].0 as u16;
        }
        i += 1;
    }
    StateSet(set)
}

/// The state that `event` leads to; the same from everywhere, which a test checks.
pub const fn target(event: Event) -> State {
    let mut i = 0;
    while i < TRANSITIONS.len() {
        if TRANSITIONS[i].1 as u8 == event as u8 {
            return TRANSITIONS[i].2;
        }
        i += 1;
    }
    panic!("every event has a row in the table")
}

/// What an outcome means for the execution. The only place that decides between another attempt and the end.
///
/// `attempt` is the number of the attempt that ended, from 1. A lost lease is an outcome like any other: it burns an
/// attempt, because a target that kills its worker must not be tried for ever.
pub fn settle(outcome: &Outcome, attempt: u32, policy: &RetryPolicy) -> (Event, Option<Reason>) {
    let retryable = match outcome {
        Outcome::Succeeded { .. } => return (Event::Succeed, None),
        Outcome::Snoozed { .. } => return (Event::Snooze, None),
        Outcome::Cancelled => return (Event::Cancel, Some(Reason::CancelledByUser)),
        Outcome::Failed { retryable, .. } => *retryable,
        Outcome::TimedOut { .. } | Outcome::Lost => true,
    };
    match (retryable, attempt < policy.max_attempts) {
        (true, true) => (Event::FailRetryable, None),
        (true, false) => (Event::FailFinal, Some(Reason::AttemptsExhausted)),
        (false, _) => (Event::FailFinal, Some(Reason::PermanentFailure)),
    }
}

impl State {
    /// All states, in the order of their codes.
    pub const ALL: [State; 8] = [Blocked, Pending, Running, Retrying, Succeeded, Dead, Cancelled, Skipped];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Blocked => "BLOCKED",
            Pending => "PENDING",
            Running => "RUNNING",
            Retrying => "RETRYING",
            Succeeded => "SUCCEEDED",
            Dead => "DEAD",
            Cancelled => "CANCELLED",
            Skipped => "SKIPPED",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The state with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }

    /// Whether nothing more happens by itself. Every state from `Succeeded` on.
    pub const fn is_final(self) -> bool {
        matches!(self, Succeeded | Dead | Cancelled | Skipped)
    }
}

impl Event {
    /// All events.
    pub const ALL: [Event; 11] = [
        Event::ParentsDone,
        Event::ParentFailed,
        Event::Claim,
        Event::Succeed,
        Event::FailRetryable,
        Event::FailFinal,
        Event::Snooze,
        Event::Discard,
        Event::Refire,
        Event::Replay,
        Event::Cancel,
    ];
}

impl StateSet {
    /// The mask: bit n stands for the state with code n.
    pub const fn mask(self) -> u16 {
        self.0
    }

    /// Whether `state` is in the set.
    pub const fn contains(self, state: State) -> bool {
        self.0 & (1 << state as u16) != 0
    }
}

/// The table as a Mermaid diagram, for the documentation.
pub fn diagram() -> String {
    let mut text = String::from("stateDiagram-v2\n    [*] --> Pending: fire\n    [*] --> Blocked: fire with parents\n");
    for (from, event, to) in TRANSITIONS {
        text.push_str(&format!("    {from:?} --> {to:?}: {event:?}\n"));
    }
    for state in State::ALL.into_iter().filter(|s| s.is_final()) {
        text.push_str(&format!("    {state:?} --> [*]\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::AttemptError;

    #[test]
    fn every_pair_is_in_the_table_or_illegal() {
        for from in State::ALL {
            for event in Event::ALL {
                let row = TRANSITIONS.iter().find(|(f, e, _)| *f == from && *e == event);
                assert_eq!(apply(from, event).ok(), row.map(|r| r.2), "{from:?} {event:?}");
                assert_eq!(sources(event).contains(from), row.is_some(), "{from:?} {event:?}");
                if let Some((_, _, to)) = row {
                    assert_eq!(target(event), *to, "{event:?} leads to one state");
                }
            }
        }
    }

    #[test]
    fn no_pair_stands_twice() {
        for (i, a) in TRANSITIONS.iter().enumerate() {
            assert!(TRANSITIONS[i + 1..].iter().all(|b| (a.0, a.1) != (b.0, b.1)), "{a:?}");
        }
    }

    #[test]
    fn final_states_are_left_only_by_a_recorded_decision() {
        for (from, event, _) in TRANSITIONS {
            assert!(!from.is_final() || matches!(event, Event::Replay | Event::Refire), "{from:?} {event:?}");
        }
        assert!(State::ALL.iter().all(|s| s.is_final() == (s.code() >= Succeeded.code())));
    }

    #[test]
    fn all_states_can_be_reached() {
        let mut reached = vec![Pending, Blocked];
        while let Some(to) =
            TRANSITIONS.iter().find(|(f, _, t)| reached.contains(f) && !reached.contains(t)).map(|(_, _, t)| *t)
        {
            reached.push(to);
        }
        assert_eq!(reached.len(), State::ALL.len());
    }

    #[test]
    fn settle_retries_until_the_policy_is_exhausted() {
        let policy = RetryPolicy { max_attempts: 3, ..RetryPolicy::default() };
        let failed = |retryable| Outcome::Failed {
            error: AttemptError { kind: "x".into(), message: String::new() },
            retryable,
            retry_after_ms: None,
            pause_job: false,
            response: None,
        };
        let timed_out = Outcome::TimedOut { error: AttemptError { kind: "timeout".into(), message: String::new() } };
        for outcome in [failed(true), Outcome::Lost, timed_out] {
            assert_eq!(settle(&outcome, 1, &policy), (Event::FailRetryable, None));
            assert_eq!(settle(&outcome, 2, &policy), (Event::FailRetryable, None));
            assert_eq!(settle(&outcome, 3, &policy), (Event::FailFinal, Some(Reason::AttemptsExhausted)));
            assert_eq!(settle(&outcome, u32::MAX, &policy), (Event::FailFinal, Some(Reason::AttemptsExhausted)));
        }
        assert_eq!(settle(&failed(false), 1, &policy), (Event::FailFinal, Some(Reason::PermanentFailure)));
        assert_eq!(settle(&Outcome::Succeeded { response: None }, 9, &policy), (Event::Succeed, None));
        assert_eq!(settle(&Outcome::Snoozed { for_ms: 1 }, 9, &policy), (Event::Snooze, None));
        assert_eq!(settle(&Outcome::Cancelled, 1, &policy), (Event::Cancel, Some(Reason::CancelledByUser)));
    }
}
