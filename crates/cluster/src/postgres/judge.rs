//! Who is dead: a pure judgement of what the beats of one session brought.
//!
//! A member is dead when it was silent for longer than its lease, or when the lock that its session holds is gone:
//! then the server has closed the session, because the process ended. The second is quicker, but a session also ends
//! with a broken connection, so its owner gets a moment to connect again.
//!
//! Whoever was cut off knows nothing about the others: a server that restarts or stands still for a while makes all
//! of them silent. So silence counts only while our own beats were answered, and locks only when nobody has to come
//! back. And nobody is silent because the database's clock was set: we must have seen for a while ourselves that
//! nothing comes.

use super::{BEAT_MS, FENCE_MS, LEASE_MS};
use std::collections::BTreeMap;

/// How long a member may be without its lock.
pub const UNLOCKED_MS: u64 = 500;
/// How long a first session trusts no missing lock: the server may have restarted just before it, and the others are still
/// on their way back.
pub const FIRST_MS: u64 = 1_500;

/// Another member, as a beat saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen<'a> {
    pub node: &'a str,
    /// When it wrote its row, by the database's clock.
    pub seen_at: i64,
    /// How long ago that is, by the same clock.
    pub silent_ms: u64,
    /// Whether its session holds its lock.
    pub is_locked: bool,
}

/// What one session knows about the others. Instants are by the monotonic clock.
#[derive(Debug)]
pub struct Judge {
    /// Since when our beats are answered without a gap.
    hears_since: u64,
    heard_at: u64,
    /// Locks that are missing count from then on.
    trusts_locks_from: u64,
    known: BTreeMap<String, Known>,
}

/// What is known about one of them.
#[derive(Copy, Clone, Debug)]
struct Known {
    seen_at: i64,
    /// Since when its row is like that.
    silent_since: u64,
    /// Since when its lock is missing.
    unlocked_since: Option<u64>,
}

impl Judge {
    /// At the start of a session; `is_again` when there was one before, which the server may have ended together with
    /// all others.
    pub fn new(now_ms: u64, is_again: bool) -> Self {
        let trusts_locks_from = now_ms + if is_again { LEASE_MS } else { FIRST_MS };
        Self { hears_since: now_ms, heard_at: now_ms, trusts_locks_from, known: BTreeMap::new() }
    }

    /// The names of those who are dead, and when to look again at those who may be.
    pub fn judge(&mut self, now_ms: u64, others: &[Seen<'_>]) -> (Vec<String>, Option<u64>) {
        if now_ms.saturating_sub(self.heard_at) >= FENCE_MS {
            (self.hears_since, self.known) = (now_ms, BTreeMap::new());
        }
        self.heard_at = now_ms;
        let before = std::mem::take(&mut self.known);
        let (mut dead, mut again_at) = (Vec::new(), None);
        for other in others {
            let known = Known::next(before.get(other.node), other, now_ms);
            self.known.insert(other.node.to_owned(), known);
            let dead_at = self.dead_at(other, known, now_ms);
            if dead_at <= now_ms {
                dead.push(other.node.to_owned());
            } else if known.unlocked_since.is_some() || other.silent_ms > BEAT_MS * 3 / 2 {
                again_at = Some(again_at.map_or(dead_at, |at: u64| at.min(dead_at)));
            }
        }
        (dead, again_at)
    }

    /// When it will be dead if nothing changes.
    fn dead_at(&self, other: &Seen<'_>, known: Known, now_ms: u64) -> u64 {
        let left_ms = (LEASE_MS + 1).saturating_sub(other.silent_ms);
        let of_silence = (now_ms + left_ms).max(self.hears_since + LEASE_MS + 1).max(known.silent_since + FENCE_MS);
        // Should the database's clock have been set back, this is what is left.
        let of_silence = of_silence.min(known.silent_since + LEASE_MS + BEAT_MS);
        let of_lock = known.unlocked_since.map(|since| (since + UNLOCKED_MS).max(self.trusts_locks_from));
        of_lock.map_or(of_silence, |of_lock| of_lock.min(of_silence))
    }
}

impl Known {
    fn next(before: Option<&Known>, other: &Seen<'_>, now_ms: u64) -> Self {
        let same = before.filter(|known| known.seen_at == other.seen_at);
        let unlocked_since = before.and_then(|known| known.unlocked_since).unwrap_or(now_ms);
        Self {
            seen_at: other.seen_at,
            silent_since: same.map_or(now_ms, |known| known.silent_since),
            unlocked_since: (!other.is_locked).then_some(unlocked_since),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The database's clock shows the same as ours, unless it was set.
    fn row(seen_at: i64, now: i64, is_locked: bool) -> [Seen<'static>; 1] {
        [Seen { node: "b", seen_at, silent_ms: u64::try_from(now - seen_at).unwrap_or(0), is_locked }]
    }

    /// Beats every 500 ms over a row that was written at `seen_at`; when it is dead, if before `until`.
    fn dies_at(judge: &mut Judge, seen_at: i64, set_ms: i64, is_locked: bool, until: u64) -> Option<u64> {
        let mut now = judge.heard_at;
        while now < until {
            let (dead, again_at) = judge.judge(now, &row(seen_at, now as i64 + set_ms, is_locked));
            if dead == ["b"] {
                return Some(now);
            }
            now = (now + 500).min(again_at.unwrap_or(u64::MAX));
        }
        None
    }

    #[test]
    fn a_member_dies_of_silence_when_its_lease_is_over() {
        let mut judge = Judge::new(0, false);
        assert_eq!(dies_at(&mut judge, 700, 0, true, 10_000), Some(700 + LEASE_MS + 1));
    }

    #[test]
    fn who_was_away_gives_the_others_a_lease() {
        let mut judge = Judge::new(0, false);
        assert_eq!(dies_at(&mut judge, -60_000, 0, true, 10_000), Some(LEASE_MS + 1));
        // The server stood still.
        let now = judge.heard_at + FENCE_MS;
        assert_eq!(judge.judge(now, &row(-60_000, now as i64, true)).0, [""; 0]);
        assert_eq!(dies_at(&mut judge, -60_000, 0, true, 20_000), Some(now + LEASE_MS + 1));
    }

    #[test]
    fn nobody_dies_because_the_clock_of_the_database_was_set() {
        let mut judge = Judge::new(0, false);
        let fresh = |now: i64| row(now, now, true);
        (0..=5_000).step_by(500).for_each(|now| assert_eq!(judge.judge(now as u64, &fresh(now)), (vec![], None)));
        // An hour ahead: its next beat comes in time.
        assert_eq!(dies_at(&mut judge, 5_000, 3_600_000, true, 5_900), None);
        assert_eq!(dies_at(&mut judge, 3_605_900, 3_600_000, true, 7_000), None);
        // Two hours back: its silence cannot be told by that clock, and is noticed all the same.
        let since = judge.heard_at;
        assert_eq!(dies_at(&mut judge, 3_607_000, -3_600_000, true, 20_000), Some(since + LEASE_MS + BEAT_MS));
    }

    #[test]
    fn a_member_dies_without_its_lock() {
        let mut judge = Judge::new(0, false);
        let (lost, now) = (FIRST_MS + 100, |ms: u64| row(1_590, ms as i64, false));
        assert_eq!(judge.judge(lost, &now(lost)), (vec![], Some(lost + UNLOCKED_MS)));
        assert_eq!(judge.judge(lost + UNLOCKED_MS, &now(lost + UNLOCKED_MS)).0, ["b"]);
    }

    #[test]
    fn who_comes_first_after_an_outage_buries_nobody() {
        let mut judge = Judge::new(0, false);
        assert_eq!(dies_at(&mut judge, -200, 0, false, 10_000), Some(FIRST_MS));
    }

    #[test]
    fn who_locks_again_in_time_lives() {
        let mut judge = Judge::new(0, false);
        judge.judge(2_000, &row(1_990, 2_000, false));
        assert_eq!(judge.judge(2_200, &row(2_190, 2_200, true)), (vec![], None));
        assert_eq!(judge.judge(2_000 + UNLOCKED_MS, &row(2_490, 2_500, false)).0, [""; 0], "counted anew");
    }

    #[test]
    fn after_an_outage_everybody_gets_the_time_to_come_back() {
        let mut judge = Judge::new(1_000, true);
        assert_eq!(dies_at(&mut judge, -20_000, 0, false, 10_000), Some(1_000 + LEASE_MS));
    }
}
