//! What happened, from rollups; and how many executions there are, from counters. Neither counts rows.

use crate::App;
use crate::problem::Refusal;
use crate::request::{Answer, Head, json};
use axum::extract::State;
use campanile_client::wire::{self, Count, Counts, Problem, Quantiles, Stats, StatsStep};
use campanile_model::lifecycle::State as ExecutionState;
use campanile_model::stats::{BUCKETS, Rollup, StatsQuery, Tally};
use campanile_model::{Timestamp, limits};
use http::StatusCode;
use std::time::Duration;

/// Width of a rollup, and of the narrowest step.
const MINUTE_MS: u64 = 60_000;
/// Widest step.
const STEP_MAX: Duration = Duration::from_secs(366 * 86_400);
/// The range where the caller sets none.
const RANGE_MS_DEFAULT: i64 = 3_600_000;
/// Steps in one answer.
const STEPS_MAX: u64 = 1_500;

/// What happened
///
/// Per step of whole minutes: executions by outcome, and upper bounds of how late they started and how long they ran.
#[utoipa::path(get, path = "/v1/stats", tag = "Stats", operation_id = "getStats",
    params(
        ("from" = Option<String>, Query, description = "From this: RFC 3339, a date, `now`, or `-2h`; an hour before `to` where nothing is said"),
        ("to" = Option<String>, Query, description = "Before this; now where nothing is said"),
        ("step" = Option<String>, Query, description = "Width of a step, such as `5m`; a minute where nothing is said"),
        ("pool" = Option<String>, Query, description = "Only of this pool"),
        ("handler" = Option<String>, Query, description = "Only of this handler, or done to this target")),
    responses(
        (status = 200, description = "The steps", body = Stats),
        (status = 400, description = "A parameter is wrong", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn stats(State(app): State<App>, head: Head) -> Answer {
    let params = head.params(&["from", "to", "step", "pool", "handler"])?;
    let now = app.engine.now();
    let to = params.near("to", now)?.unwrap_or(now);
    let from = params.near("from", now)?.unwrap_or(to.saturating_add_ms(-RANGE_MS_DEFAULT));
    let step_ms = params.duration("step", STEP_MAX)?.map_or(MINUTE_MS, |step| step.as_millis() as u64);
    let steps = Steps::new(from, to, step_ms)?;
    let query = StatsQuery {
        tenant: app.tenant(),
        from: steps.from,
        to: steps.to,
        pool: params.get("pool").map(str::to_owned),
        target: params.get("handler").map(str::to_owned),
        limit: limits::SCAN_ROWS_MAX,
    };
    let rollups = app.reads.stats(&query).await?;
    if rollups.len() >= query.limit {
        let detail = "too much happened in this range: make it shorter, or name a `pool` or `handler`";
        return Err(Refusal::bad_request("parameter_invalid", detail));
    }
    Ok(json(StatusCode::OK, &steps.sum(&rollups)))
}

/// How many executions there are
///
/// By pool and state, as counted by the writes themselves.
#[utoipa::path(get, path = "/v1/counts", tag = "Stats", operation_id = "getCounts",
    responses((status = 200, description = "The counts", body = Counts)))]
pub(super) async fn counts(State(app): State<App>, head: Head) -> Answer {
    head.params(&[])?;
    let mut counts = app.reads.counts(Some(app.tenant())).await?;
    counts.retain(|count| count.executions > 0);
    let place = |state| ExecutionState::ALL.iter().position(|it| *it == state);
    counts.sort_by(|a, b| (&a.pool, place(a.state)).cmp(&(&b.pool, place(b.state))));
    let data = counts.into_iter().map(|count| Count {
        pool: count.pool.to_string(),
        state: count.state.as_str().to_owned(),
        executions: count.executions,
    });
    Ok(json(StatusCode::OK, &Counts { data: data.collect() }))
}

/// A range in equal steps, the first of which starts on a minute.
#[derive(Debug)]
struct Steps {
    from: Timestamp,
    to: Timestamp,
    step_ms: u64,
    count: u64,
}

impl Steps {
    fn new(from: Timestamp, to: Timestamp, step_ms: u64) -> Result<Self, Refusal> {
        let refused = |detail: String| Err(Refusal::bad_request("parameter_invalid", detail));
        if step_ms == 0 || !step_ms.is_multiple_of(MINUTE_MS) {
            return refused("`step` must be whole minutes".into());
        }
        if from >= to {
            return refused(format!("the range is empty: from {from} to {to}"));
        }
        let from = Timestamp::from_millis(from.millis() - from.millis().rem_euclid(MINUTE_MS as i64));
        let count = to.ms_since(from).div_ceil(step_ms);
        if count > STEPS_MAX {
            return refused(format!("{count} steps are more than {STEPS_MAX}: make `step` wider"));
        }
        let to = from.saturating_add_ms((count * step_ms) as i64);
        Ok(Self { from, to, step_ms, count })
    }

    fn sum(&self, rollups: &[Rollup]) -> Stats {
        let mut tallies = vec![Tally::default(); self.count as usize];
        let mut total = Tally::default();
        for rollup in rollups.iter().filter(|rollup| rollup.minute >= self.from) {
            if let Some(tally) = tallies.get_mut((rollup.minute.ms_since(self.from) / self.step_ms) as usize) {
                tally.add(&rollup.tally);
                total.add(&rollup.tally);
            }
        }
        let start = |i: usize| self.from.saturating_add_ms((i as u64 * self.step_ms) as i64).to_string();
        let steps = tallies.iter().enumerate().map(|(i, tally)| StatsStep { at: start(i), tally: shown(tally) });
        Stats {
            from: self.from.to_string(),
            to: self.to.to_string(),
            step_ms: self.step_ms,
            total: shown(&total),
            steps: steps.collect(),
        }
    }
}

fn shown(tally: &Tally) -> wire::Tally {
    wire::Tally {
        succeeded: tally.succeeded,
        failed: tally.failed,
        dead: tally.dead,
        cancelled: tally.cancelled,
        skipped: tally.skipped,
        lateness: quantiles(&tally.lateness),
        duration: quantiles(&tally.duration),
    }
}

fn quantiles(buckets: &[u64; BUCKETS]) -> Option<Quantiles> {
    let count: u64 = buckets.iter().sum();
    let bound = |percent: u64| {
        // The smallest rank that covers the share; whole numbers, so that 99 of 100 is 99.
        let rank = (count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = buckets.iter().position(|held| {
            seen += held;
            seen >= rank
        });
        upper_ms(bucket.unwrap_or(BUCKETS - 1))
    };
    (count > 0).then(|| Quantiles { p50_ms: bound(50), p99_ms: bound(99), count })
}

/// The largest value in a bucket; of the open one, the smallest.
fn upper_ms(bucket: usize) -> u64 {
    match bucket {
        0 => 0,
        open if open == BUCKETS - 1 => 1 << (BUCKETS - 2),
        bucket => (1 << bucket) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::TenantId;
    use campanile_model::stats::bucket;

    const T: i64 = 1_794_794_400_000;

    fn rollup(minute: i64, succeeded: u64, late_ms: u64) -> Rollup {
        let mut tally = Tally { succeeded, ..Tally::default() };
        tally.lateness[bucket(late_ms)] = succeeded;
        let minute = Timestamp::from_millis(T + minute * 60_000);
        Rollup { minute, tenant: TenantId::DEFAULT, pool: "short".into(), target: "".into(), tally }
    }

    #[test]
    fn rollups_are_summed_per_step_and_gaps_are_there() {
        let from = Timestamp::from_millis(T + 30_000);
        let steps = Steps::new(from, Timestamp::from_millis(T + 9 * 60_000), 5 * 60_000).unwrap();
        let stats = steps.sum(&[rollup(0, 2, 0), rollup(4, 3, 100), rollup(5, 1, 1)]);
        assert_eq!((stats.from.as_str(), stats.to.as_str()), ("2026-11-16T02:00:00Z", "2026-11-16T02:10:00Z"));
        assert_eq!(stats.steps.iter().map(|step| step.tally.succeeded).collect::<Vec<_>>(), [5, 1]);
        assert_eq!(stats.steps[0].tally.lateness, Some(Quantiles { p50_ms: 127, p99_ms: 127, count: 5 }));
        assert_eq!((stats.total.succeeded, stats.total.duration), (6, None));
    }

    #[test]
    fn bounds_of_quantiles_hold_for_every_value() {
        for ms in [0, 1, 2, 3, 7, 8, 1_000, 4_194_303] {
            assert!(upper_ms(bucket(ms)) >= ms, "{ms}");
        }
        assert_eq!(upper_ms(bucket(u64::MAX)), 4_194_304);
        let mut buckets = [0; BUCKETS];
        (buckets[1], buckets[10]) = (99, 1);
        assert_eq!(quantiles(&buckets), Some(Quantiles { p50_ms: 1, p99_ms: 1, count: 100 }));
        buckets[10] = 2;
        assert_eq!(quantiles(&buckets).unwrap().p99_ms, 1_023);
        assert_eq!(quantiles(&[0; BUCKETS]), None);
    }

    #[test]
    fn ranges_are_bounded() {
        let steps = |to: i64, step_ms| Steps::new(Timestamp::from_millis(T), Timestamp::from_millis(T + to), step_ms);
        assert!(steps(1_500 * 60_000, 60_000).is_ok());
        for (to, step_ms) in [(1_501 * 60_000, 60_000), (0, 60_000), (-1, 60_000), (60_000, 0), (60_000, 61_000)] {
            assert_eq!(steps(to, step_ms).unwrap_err().code(), "parameter_invalid", "{to} {step_ms}");
        }
    }
}
