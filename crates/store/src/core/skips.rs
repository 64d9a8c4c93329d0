//! Skips never cover an instant that ran.
//!
//! A skip is a range, and may be written over instants whose executions are there, or were: by an owner that begins at a cursor which
//! lags, for a pause during which something was filled in, for a blackout once more. So what ran is cut out where skips are read, and
//! the rows stay as they were written. As long as an execution is kept, it tells that it ran. When it is pruned, and a skip covers its
//! instant or the end of a pause may yet write one, the instant stays behind, in `pruned_runs`, for as long as that holds.

use campanile_model::fault::{Bug, planted};
use campanile_model::ids::FireKind;
use campanile_model::lifecycle::State;
use campanile_model::store::{Skip, Skips};
use campanile_model::time::Timestamp;
use std::cmp::Reverse;

/// Executions of a job that are looked at to cut its skips.
pub(crate) const LOOKS_MAX: usize = campanile_model::limits::SCAN_ROWS_MAX;

/// Whether the instant of an execution is not skipped: it ran, or may still. A run by hand is at no instant of the schedule.
pub(crate) fn stands(kind: FireKind, state: State, deliveries: u64) -> bool {
    kind != FireKind::Manual && (deliveries > 0 || !state.is_final())
}

/// Whether an execution that is pruned leaves its instant behind, where a skip covers that or may yet.
pub(crate) fn stays_behind(kind: FireKind, state: State, deliveries: u64) -> bool {
    stands(kind, state, deliveries) && !planted(Bug("pruned-is-skipped"))
}

/// What is left of a skip when the instants in it are cut out that ran.
pub(crate) fn cut(skip: &Skip, mut ran: Vec<Timestamp>) -> Vec<Skip> {
    ran.sort_unstable();
    let mut pieces = Vec::with_capacity(ran.len() + 1);
    let mut from = skip.from;
    for at in ran.into_iter().filter(|&at| skip.from <= at && at <= skip.to) {
        if from < at {
            pieces.push(Skip { from, to: at.saturating_add_ms(-1), ..skip.clone() });
        }
        from = at.saturating_add_ms(1);
    }
    if from <= skip.to {
        pieces.push(Skip { from, ..skip.clone() });
    }
    pieces
}

/// The instants that tell about skips: those of a range, and all that the skips found in it cover.
pub(crate) fn reach(skips: &[Skip], (from, to): (Timestamp, Timestamp)) -> (Timestamp, Timestamp) {
    skips.iter().fold((from, to), |(from, to), skip| (from.min(skip.from), to.max(skip.to)))
}

/// The skips of a job as they are shown: without the instants that ran, of those within a range at most `limit`, newest first. `kept`
/// are the instants whose executions tell, `pruned` those that stayed behind, in any order and perhaps twice.
pub(crate) fn shown(
    skips: Vec<Skip>,
    (kept, mut pruned): (Vec<Timestamp>, Vec<Timestamp>),
    (from, to): (Timestamp, Timestamp),
    limit: usize,
) -> Skips {
    pruned.sort_unstable_by_key(|at| Reverse(*at));
    pruned.dedup();
    let ran: Vec<Timestamp> = kept.into_iter().chain(pruned.iter().copied()).collect();
    pruned.retain(|at| from <= *at && *at <= to);
    if ran.is_empty() || planted(Bug("skip-over-what-ran")) {
        return Skips { items: skips, pruned };
    }
    let mut items: Vec<Skip> = skips.iter().flat_map(|skip| cut(skip, ran.clone())).collect();
    items.retain(|skip| from <= skip.to && skip.from <= to);
    items.sort_by_key(|skip| Reverse((skip.to, skip.from)));
    items.truncate(limit);
    Skips { items, pruned }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::execution::Reason;
    use campanile_model::ids::{JobId, TenantId};

    fn t(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn skip(from: i64, to: i64) -> Skip {
        let (tenant, job) = (TenantId::DEFAULT, JobId::from_bytes([1; 16]));
        Skip { tenant, job, from: t(from), to: t(to), reason: Reason::Paused, recorded_at: t(30) }
    }

    fn ranges(skips: &[Skip]) -> Vec<(i64, i64)> {
        skips.iter().map(|skip| (skip.from.millis(), skip.to.millis())).collect()
    }

    fn in_range(at: Timestamp, (from, to): (Timestamp, Timestamp)) -> bool {
        from <= at && at <= to
    }

    #[test]
    fn what_ran_is_cut_out_of_a_skip() {
        let left = |ran: &[i64]| ranges(&cut(&skip(10, 20), ran.iter().copied().map(t).collect()));
        assert_eq!(left(&[]), [(10, 20)]);
        assert_eq!(left(&[15]), [(10, 14), (16, 20)]);
        assert_eq!(left(&[20, 10]), [(11, 19)]);
        assert_eq!(left(&[15, 16, 15, 9, 21]), [(10, 14), (17, 20)]);
        assert_eq!(left(&(10..=20).collect::<Vec<_>>()), []);
    }

    #[test]
    fn what_ran_or_may_still_run_is_not_skipped() {
        assert!(stands(FireKind::Schedule, State::Succeeded, 1));
        assert!(stands(FireKind::Backfill, State::Dead, 3));
        assert!(stands(FireKind::Schedule, State::Pending, 0));
        assert!(!stands(FireKind::Schedule, State::Skipped, 0));
        assert!(!stands(FireKind::Manual, State::Succeeded, 1));
    }

    #[test]
    fn what_is_shown_lies_in_the_range_that_was_asked_for() {
        let all = || vec![skip(10, 20), skip(30, 40)];
        let shown = |ran: &[i64], range: (i64, i64), limit| {
            let ran: Vec<Timestamp> = ran.iter().copied().map(t).collect();
            let range = (t(range.0), t(range.1));
            let kept = shown(all(), (ran.clone(), Vec::new()), range, limit);
            let pruned = shown(all(), (Vec::new(), ran.clone()), range, limit);
            assert_eq!(kept.items, pruned.items, "whatever tells that they ran");
            assert_eq!(
                (kept.pruned, pruned.pruned.len()),
                (vec![], ran.iter().filter(|at| in_range(**at, range)).count())
            );
            ranges(&pruned.items)
        };
        assert_eq!(shown(&[15, 35], (0, 99), 9), [(36, 40), (30, 34), (16, 20), (10, 14)]);
        assert_eq!(shown(&[15, 35], (0, 99), 3), [(36, 40), (30, 34), (16, 20)]);
        assert_eq!(shown(&[15], (15, 15), 9), [], "it ran");
        assert_eq!(shown(&[15], (16, 30), 9), [(30, 40), (16, 20)]);
    }
}
