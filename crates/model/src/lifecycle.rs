//! The whole life of an execution: THE state machine. Nothing else in this codebase decides a state.
//!
//! Stores receive `sources(event)` and the target as parameters, so that no SQL file spells a rule; the fence is the other
//! half of every guard. The diagram in `docs/internals/state-machine.md` is generated from the table, and the store
//! conformance suite walks it. Which states an index or a view of a store holds is generated from here too, into
//! `states.sql` of each store: to add a state is to change this file and to run `cargo xtask docs`.

use crate::execution::{Outcome, Reason};
use crate::limits;
use crate::retry::RetryPolicy;
use crate::time::Timestamp;
use State::{Blocked, Cancelled, Dead, Held, Pending, Retrying, Running, Skipped, Succeeded, Waiting};

/// Where an execution is in its life. States have no order; what they have in common is a [`StateSet`].
#[derive(Copy, Clone, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Waits for an earlier run of its job to end.
    Held,
    /// Waits for its parents, which may still end well.
    Waiting,
    /// A parent that it needs is dead or was skipped: a person must act.
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
    /// The attempt was given back before it started; burns no attempt.
    Release,
    /// It must wait for an earlier run of its job.
    Hold,
    /// That run is over.
    Unhold,
    /// An operator wants a dead one to run again.
    Replay,
    /// An operator gives a dead one up.
    Bury,
    /// Somebody cancels it.
    Cancel,
}

/// What follows what.
pub const TRANSITIONS: &[(State, Event, State)] = &[
    (Waiting, Event::ParentsDone, Pending),
    (Waiting, Event::ParentFailed, Blocked),
    // Somebody acted, and the parents ended well after all.
    (Blocked, Event::ParentsDone, Pending),
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
    // What waits for its turn asks for it again.
    (Held, Event::Refire, Pending),
    (Running, Event::Release, Pending),
    (Pending, Event::Hold, Held),
    (Held, Event::Unhold, Pending),
    (Held, Event::Discard, Skipped),
    (Dead, Event::Replay, Pending),
    (Dead, Event::Bury, Cancelled),
    (Held, Event::Cancel, Cancelled),
    (Waiting, Event::Cancel, Cancelled),
    (Blocked, Event::Cancel, Cancelled),
    (Pending, Event::Cancel, Cancelled),
    (Running, Event::Cancel, Cancelled),
    (Retrying, Event::Cancel, Cancelled),
];

/// The states that executions are born in, and what that takes.
pub const BIRTHS: &[(State, &str)] = &[(Pending, "fire"), (Waiting, "fire with parents")];

/// What is going on in a state.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// It is not over, and no attempt runs.
    Waits,
    /// An attempt runs, under a lease.
    Runs,
    /// Nothing more happens by itself.
    Over,
}

/// Everything that is not over and has no running attempt.
pub const WAITS: StateSet = StateSet::during(Phase::Waits);
/// Everything with a running attempt.
pub const RUNS: StateSet = StateSet::during(Phase::Runs);
/// Everything that is not over.
pub const OPEN: StateSet = WAITS.or(RUNS);
/// Everything that is over.
pub const FINAL: StateSet = StateSet::during(Phase::Over);
/// What ended well: most of what is kept.
pub const HAPPY: StateSet = StateSet::of(&[target(Event::Succeed)]);
/// What ended otherwise: rare, and often asked for.
pub const UNHAPPY: StateSet = FINAL.without(HAPPY);
/// The dead letters.
pub const DEAD: StateSet = StateSet::of(&[target(Event::FailFinal)]);

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

const _: () = assert!(State::CODES <= u16::BITS as usize, "a set has a bit for every state");

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
            set |= TRANSITIONS[i].0.bit();
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

/// What there is to know about an attempt that ended, beside its outcome.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    /// Its number, from 1.
    pub attempt: u32,
    /// Attempts before the last replay; they do not count.
    pub attempts_from: u32,
    /// Attempts that were lost with their runner before this one.
    pub losses: u32,
    /// When the first attempt started.
    pub first_started_at: Timestamp,
    /// When this one ended.
    pub finished_at: Timestamp,
    /// Why it had been asked to stop, if it had.
    pub cancel_requested: Option<Reason>,
}

/// What an outcome means for the execution.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Settled {
    /// What happens to it.
    pub event: Event,
    /// Why, where that is not plain.
    pub reason: Option<Reason>,
    /// When the next attempt may start, where there is one.
    pub wake_at: Timestamp,
    /// Attempts that count after this: a snooze and a release burn none.
    pub attempt: u32,
}

/// What an outcome means for the execution. The only place that decides between another attempt and the end.
///
/// A lost lease is an outcome like any other: it burns an attempt, because a target that kills its worker must not be tried
/// for ever; and after `limits::LOSSES_MAX` of them that is what its work counts as, whatever the policy says.
/// One that was asked to stop is not tried again, however it ended. `seed` is the jitter's randomness.
pub fn settle(outcome: &Outcome, ended: Ended, policy: &RetryPolicy, seed: u64) -> Settled {
    let end = |event, reason| Settled { event, reason, wake_at: ended.finished_at, attempt: ended.attempt };
    let unburned = |event, wait_ms: u64| Settled {
        event,
        reason: None,
        wake_at: ended.finished_at.saturating_add_ms(wait_ms.min(limits::BACKOFF_MS_MAX) as i64),
        attempt: ended.attempt.saturating_sub(1),
    };
    let cancelled = end(Event::Cancel, Some(ended.cancel_requested.unwrap_or(Reason::CancelledByUser)));
    let (retryable, retry_after_ms) = match outcome {
        Outcome::Succeeded { .. } => return end(Event::Succeed, None),
        Outcome::Cancelled => return cancelled,
        _ if ended.cancel_requested.is_some() => return cancelled,
        Outcome::Snoozed { for_ms } => return unburned(Event::Snooze, *for_ms),
        Outcome::Released => return unburned(Event::Release, 0),
        Outcome::Failed { retryable, retry_after_ms, .. } => (*retryable, retry_after_ms.unwrap_or(0)),
        Outcome::Lost if ended.losses + 1 >= limits::LOSSES_MAX => return end(Event::FailFinal, Some(Reason::Poison)),
        Outcome::TimedOut { .. } | Outcome::Lost => (true, 0),
    };
    let tries = ended.attempt - ended.attempts_from.min(ended.attempt);
    if !retryable {
        return end(Event::FailFinal, Some(Reason::PermanentFailure));
    }
    if tries >= policy.max_attempts {
        return end(Event::FailFinal, Some(Reason::AttemptsExhausted));
    }
    // The target's wish may lengthen the wait, never shorten it.
    let wait_ms = policy.delay_ms(tries.max(1), seed).max(retry_after_ms).min(limits::BACKOFF_MS_MAX);
    let wake_at = ended.finished_at.saturating_add_ms(wait_ms as i64);
    if policy.total_timeout_ms.is_some_and(|total| wake_at.ms_since(ended.first_started_at) >= total) {
        return end(Event::FailFinal, Some(Reason::TotalTimeout));
    }
    Settled { event: Event::FailRetryable, reason: None, wake_at, attempt: ended.attempt }
}

impl State {
    /// All states, in the order in which people read them.
    pub const ALL: [State; 10] =
        [Held, Waiting, Blocked, Pending, Running, Retrying, Succeeded, Dead, Cancelled, Skipped];

    /// How many codes are taken: each is less. For arrays that have a place per state.
    pub const CODES: usize = Self::ALL.len();

    /// The row of each state: its number in stores, which is never used again and says nothing else; its word in the API; and
    /// what goes on in it.
    const fn row(self) -> (u8, &'static str, Phase) {
        match self {
            Held => (0, "HELD", Phase::Waits),
            Pending => (1, "PENDING", Phase::Waits),
            Running => (2, "RUNNING", Phase::Runs),
            Retrying => (3, "RETRYING", Phase::Waits),
            Succeeded => (4, "SUCCEEDED", Phase::Over),
            Dead => (5, "DEAD", Phase::Over),
            Cancelled => (6, "CANCELLED", Phase::Over),
            Skipped => (7, "SKIPPED", Phase::Over),
            Waiting => (8, "WAITING", Phase::Waits),
            Blocked => (9, "BLOCKED", Phase::Waits),
        }
    }

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        self.row().1
    }

    /// The number used in the store; never reused, and not to be compared by size.
    pub const fn code(self) -> u8 {
        self.row().0
    }

    /// The state with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        const BY_CODE: [State; State::CODES] = {
            let mut states = State::ALL;
            let mut i = 0;
            while i < State::CODES {
                states[State::ALL[i].code() as usize] = State::ALL[i];
                i += 1;
            }
            states
        };
        BY_CODE.get(usize::from(code)).copied()
    }

    /// What somebody who writes `word` looks for. What waits for an earlier run was called blocked once, and people who
    /// look for what is stuck mean both.
    pub fn meant_by(word: &str) -> Option<StateSet> {
        let state = Self::ALL.into_iter().find(|state| state.as_str().eq_ignore_ascii_case(word))?;
        Some(if state == Blocked { StateSet::of(&[Blocked, Held]) } else { StateSet::of(&[state]) })
    }

    /// Whether nothing more happens by itself.
    pub const fn is_final(self) -> bool {
        FINAL.contains(self)
    }

    const fn bit(self) -> u16 {
        1 << self.code()
    }
}

impl Event {
    /// All events.
    pub const ALL: [Event; 15] = [
        Event::ParentsDone,
        Event::ParentFailed,
        Event::Claim,
        Event::Succeed,
        Event::FailRetryable,
        Event::FailFinal,
        Event::Snooze,
        Event::Discard,
        Event::Refire,
        Event::Release,
        Event::Hold,
        Event::Unhold,
        Event::Replay,
        Event::Bury,
        Event::Cancel,
    ];
}

impl StateSet {
    /// All states.
    pub const ALL: StateSet = StateSet::of(&State::ALL);

    /// The set of these.
    pub const fn of(states: &[State]) -> Self {
        let (mut set, mut i) = (0, 0);
        while i < states.len() {
            set |= states[i].bit();
            i += 1;
        }
        Self(set)
    }

    const fn during(phase: Phase) -> Self {
        let (mut set, mut i) = (0, 0);
        while i < State::ALL.len() {
            if State::ALL[i].row().2 as u8 == phase as u8 {
                set |= State::ALL[i].bit();
            }
            i += 1;
        }
        Self(set)
    }

    /// What is in either.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// What is only in the first.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The mask: bit n stands for the state with code n.
    pub const fn mask(self) -> u16 {
        self.0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `state` is in the set.
    pub const fn contains(self, state: State) -> bool {
        self.0 & state.bit() != 0
    }

    /// The states, in the order in which people read them.
    pub fn iter(self) -> impl Iterator<Item = State> {
        State::ALL.into_iter().filter(move |state| self.contains(*state))
    }
}

impl FromIterator<State> for StateSet {
    fn from_iter<I: IntoIterator<Item = State>>(states: I) -> Self {
        states.into_iter().fold(StateSet(0), |set, state| set.or(StateSet::of(&[state])))
    }
}

/// The table as a Mermaid diagram, for the documentation.
pub fn diagram() -> String {
    let mut text = String::from("stateDiagram-v2\n");
    for (state, how) in BIRTHS {
        text.push_str(&format!("    [*] --> {state:?}: {how}\n"));
    }
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
            assert!(
                !from.is_final() || matches!(event, Event::Replay | Event::Bury | Event::Refire),
                "{from:?} {event:?}"
            );
        }
    }

    #[test]
    fn every_state_has_a_number_and_a_word_of_its_own() {
        for state in State::ALL {
            assert_eq!(State::from_code(state.code()), Some(state));
            let same = |other: &&State| other.code() == state.code() || other.as_str() == state.as_str();
            assert_eq!(State::ALL.iter().filter(same).count(), 1, "{state:?}");
        }
        assert_eq!(State::from_code(State::CODES as u8), None);
    }

    #[test]
    fn every_state_waits_runs_or_is_over() {
        for state in State::ALL {
            let is = [WAITS, RUNS, FINAL].map(|set| set.contains(state));
            assert_eq!(is.iter().filter(|is| **is).count(), 1, "{state:?}");
            assert_eq!(OPEN.contains(state), !state.is_final(), "{state:?}");
            assert_eq!(RUNS.contains(state), sources(Event::Succeed).contains(state), "{state:?}");
            assert!(!sources(Event::Claim).contains(state) || WAITS.contains(state), "{state:?}");
        }
        assert_eq!(DEAD, sources(Event::Replay));
        assert!(UNHAPPY.contains(Dead) && !UNHAPPY.contains(Succeeded));
    }

    #[test]
    fn who_looks_for_blocked_finds_what_is_held_too() {
        for state in State::ALL.into_iter().filter(|state| *state != Blocked) {
            assert_eq!(State::meant_by(&state.as_str().to_lowercase()), Some(StateSet::of(&[state])));
        }
        assert_eq!(State::meant_by("Blocked"), Some(StateSet::of(&[Held, Blocked])));
        assert_eq!(State::meant_by("lost"), None);
    }

    #[test]
    fn all_states_can_be_reached() {
        let mut reached: Vec<State> = BIRTHS.iter().map(|(state, _)| *state).collect();
        while let Some(to) =
            TRANSITIONS.iter().find(|(f, _, t)| reached.contains(f) && !reached.contains(t)).map(|(_, _, t)| *t)
        {
            reached.push(to);
        }
        assert_eq!(reached.len(), State::ALL.len());
    }

    fn failed(retryable: bool, retry_after_ms: Option<u64>) -> Outcome {
        let error = AttemptError { kind: "x".into(), message: String::new() };
        Outcome::Failed { error, retryable, retry_after_ms, pause_job: false, response: None }
    }

    const T: Timestamp = Timestamp::from_millis(50_000);

    fn ended(attempt: u32) -> Ended {
        Ended {
            attempt,
            attempts_from: 0,
            losses: 0,
            first_started_at: Timestamp::from_millis(10_000),
            finished_at: T,
            cancel_requested: None,
        }
    }

    fn policy() -> RetryPolicy {
        let backoff = crate::retry::Backoff::Exponential;
        RetryPolicy { max_attempts: 3, backoff, initial_delay_ms: 100, max_delay_ms: 1_000, total_timeout_ms: None }
    }

    fn check(outcome: &Outcome, ended: Ended, policy: &RetryPolicy) -> (Event, Option<Reason>) {
        let settled = settle(outcome, ended, policy, 0);
        (settled.event, settled.reason)
    }

    #[test]
    fn settle_retries_until_the_policy_is_exhausted() {
        let timed_out = Outcome::TimedOut { error: AttemptError { kind: "timeout".into(), message: String::new() } };
        let (again, over) = ((Event::FailRetryable, None), (Event::FailFinal, Some(Reason::AttemptsExhausted)));
        for outcome in [failed(true, None), Outcome::Lost, timed_out] {
            assert_eq!(check(&outcome, ended(1), &policy()), again);
            assert_eq!(check(&outcome, ended(2), &policy()), again);
            assert_eq!(check(&outcome, ended(3), &policy()), over);
            assert_eq!(check(&outcome, ended(u32::MAX), &policy()), over);
        }
        let permanent = check(&failed(false, None), ended(1), &policy());
        assert_eq!(permanent, (Event::FailFinal, Some(Reason::PermanentFailure)));
        assert_eq!(check(&Outcome::Succeeded { response: None }, ended(9), &policy()), (Event::Succeed, None));
    }

    #[test]
    fn a_replay_starts_the_policy_anew() {
        let replayed = Ended { attempts_from: 3, ..ended(4) };
        let settled = settle(&failed(true, None), replayed, &policy(), 0);
        assert_eq!((settled.event, settled.wake_at.ms_since(T)), (Event::FailRetryable, 100));
        assert_eq!(check(&failed(true, None), Ended { attempts_from: 3, ..ended(6) }, &policy()).0, Event::FailFinal);
    }

    #[test]
    fn backoff_grows_and_the_target_may_lengthen_it() {
        let wait = |outcome, attempt| settle(&outcome, ended(attempt), &policy(), 0).wake_at.ms_since(T);
        assert_eq!(wait(failed(true, None), 1), 100);
        assert_eq!(wait(failed(true, None), 2), 200);
        assert_eq!(wait(failed(true, Some(5_000)), 1), 5_000);
        assert_eq!(wait(failed(true, Some(1)), 1), 100);
        assert_eq!(wait(failed(true, Some(u64::MAX)), 1), limits::BACKOFF_MS_MAX);
    }

    #[test]
    fn snoozed_and_released_burn_no_attempt() {
        let snoozed = settle(&Outcome::Snoozed { for_ms: 7 }, ended(9), &policy(), 0);
        assert_eq!((snoozed.event, snoozed.attempt, snoozed.wake_at.ms_since(T)), (Event::Snooze, 8, 7));
        let released = settle(&Outcome::Released, ended(1), &policy(), 0);
        assert_eq!((released.event, released.attempt, released.wake_at), (Event::Release, 0, T));
    }

    #[test]
    fn lost_too_often_is_poison_whatever_the_policy_says() {
        let patient = RetryPolicy { max_attempts: 1_000, ..policy() };
        let lost = |losses| check(&Outcome::Lost, Ended { losses, ..ended(losses + 1) }, &patient);
        assert_eq!(lost(limits::LOSSES_MAX - 2), (Event::FailRetryable, None));
        assert_eq!(lost(limits::LOSSES_MAX - 1), (Event::FailFinal, Some(Reason::Poison)));
    }

    #[test]
    fn no_attempt_starts_after_the_total_time_limit() {
        // 40 s have passed since the first start.
        let total = |ms| RetryPolicy { total_timeout_ms: Some(ms), ..policy() };
        assert_eq!(check(&failed(true, None), ended(1), &total(40_101)), (Event::FailRetryable, None));
        let over = (Event::FailFinal, Some(Reason::TotalTimeout));
        assert_eq!(check(&failed(true, None), ended(1), &total(40_100)), over);
    }

    #[test]
    fn what_was_asked_to_stop_is_not_tried_again_but_may_have_succeeded() {
        let asked = Ended { cancel_requested: Some(Reason::OverlapReplaced), ..ended(1) };
        let cancelled = (Event::Cancel, Some(Reason::OverlapReplaced));
        for outcome in [failed(true, None), Outcome::Lost, Outcome::Snoozed { for_ms: 1 }, Outcome::Cancelled] {
            assert_eq!(check(&outcome, asked, &policy()), cancelled);
        }
        assert_eq!(check(&Outcome::Succeeded { response: None }, asked, &policy()).0, Event::Succeed);
        assert_eq!(check(&Outcome::Cancelled, ended(1), &policy()), (Event::Cancel, Some(Reason::CancelledByUser)));
    }
}
