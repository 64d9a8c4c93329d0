//! Catch-up: the last fires of a window, and how many there were.
//!
//! After an outage the engine asks what it missed. A window may be a year and the job may fire every second, so the
//! answer must not walk the window from its start: [`Plan::last`] looks back from the end in steps that grow while they
//! find little and shrink when they find too much. Its cost depends on the number of fires wanted, not on the window.

use super::{Plan, PlanKind, SECOND_MAX};
use crate::time::Timestamp;

impl Plan {
    /// The last `n` fires in the half open window `(from, to]`, oldest first.
    pub fn last(&self, n: usize, from: Timestamp, to: Timestamp) -> Vec<Timestamp> {
        // Clamped, so that the arithmetic below cannot overflow; nothing fires outside.
        let (from, to) = (from.millis().max(-1), to.millis().min(SECOND_MAX * 1000));
        if n == 0 || from >= to {
            return Vec::new();
        }
        match &self.kind {
            PlanKind::Every { every_ms, .. } => {
                let periods = i64::try_from(n).unwrap_or(i64::MAX);
                let start = to.saturating_sub(every_ms.saturating_mul(periods)).max(from);
                self.fires(start, to, n)
            }
            _ => self.last_by_looking_back(n, from, to),
        }
    }

    fn last_by_looking_back(&self, n: usize, from: i64, to: i64) -> Vec<Timestamp> {
        // Newest first while collecting.
        let mut found: Vec<Timestamp> = Vec::new();
        let mut end = to;
        let mut step_ms = i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(1000);
        while end > from && found.len() < n {
            let missing = n - found.len();
            let enough = missing.saturating_mul(2).saturating_add(8);
            let start = end.saturating_sub(step_ms).max(from);
            let fires = self.fires(start, end, enough.saturating_add(1));
            // More than enough: this step is too long, its last fires are too far from its first. One second holds at
            // most one fire of a cron schedule, so shrinking ends.
            if fires.len() > enough && step_ms > 1000 {
                step_ms = (step_ms / 8).max(1000);
                continue;
            }
            found.extend(fires.into_iter().rev().take(missing));
            end = start;
            step_ms = step_ms.saturating_mul(4);
        }
        found.reverse();
        found
    }

    /// The first fires in `(from, to]`, at most `max`.
    fn fires(&self, from: i64, to: i64, max: usize) -> Vec<Timestamp> {
        let (mut at, to) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
        let mut fires = Vec::new();
        while fires.len() < max {
            match self.next(at).filter(|next| *next <= to) {
                Some(next) => at = next,
                None => break,
            }
            fires.push(at);
        }
        fires
    }

    /// The number of fires in `(from, to]`, counting at most `max`. A cron plan is walked: the cost is that of the
    /// fires counted, so `max` bounds it.
    pub fn count(&self, from: Timestamp, to: Timestamp, max: u64) -> u64 {
        let (Some(first), true) = (self.next(from), max > 0) else {
            return 0;
        };
        if first > to {
            return 0;
        }
        if let PlanKind::Every { every_ms, .. } = self.kind {
            let last = to.millis().min(SECOND_MAX * 1000);
            return max.min((last - first.millis()) as u64 / every_ms as u64 + 1);
        }
        let (mut at, mut count) = (first, 1);
        while count < max {
            match self.next(at).filter(|next| *next <= to) {
                Some(next) => at = next,
                None => break,
            }
            count += 1;
        }
        count
    }
}
