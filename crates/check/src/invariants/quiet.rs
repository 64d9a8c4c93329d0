//! I11: when all is done, nothing is left: no execution under way, no message on its way, and the numbers agree with
//! the rows.

use super::{Case, Violation, is_final};
use crate::history::MS;
use std::collections::BTreeMap;

pub fn check(case: Case<'_>, found: &mut Vec<Violation>) {
    let read_at = case.oracle.read_at_ms;
    let mut tally: BTreeMap<&str, u64> = BTreeMap::new();
    for (id, _, row) in case.rows() {
        *tally.entry(&row.state).or_default() += 1;
        // What comes due while the store is read may be under way.
        if !is_final(&row.state) && row.fire_at.0 + case.limits.late_ms <= read_at {
            let message = format!("is {} in the end, {} ms after it was due", row.state, read_at - row.fire_at.0);
            found.push(Violation::new("I11", row.fire_at.0 * MS, message).of(id).in_job(row.job_id));
        }
        if is_final(&row.state) && row.attempts.iter().any(|attempt| attempt.outcome.is_none()) {
            let message = format!("is {}, and one of its attempts has no outcome", row.state);
            found.push(Violation::new("I11", row.fire_at.0 * MS, message).of(id).in_job(row.job_id));
        }
    }
    let mut fail = |message: String| found.push(Violation::new("I11", read_at * MS, message));
    let counts = &case.history.dump.counts;
    for state in ["SUCCEEDED", "DEAD", "CANCELLED", "SKIPPED"] {
        let (rows, told) = (tally.get(state).copied().unwrap_or(0), counts.get(state).copied().unwrap_or(0));
        if !counts.is_empty() && rows != told {
            fail(format!("{rows} executions are {state}, and {told} are counted"));
        }
    }
    for (name, value) in &case.history.dump.gauges {
        if *value != 0 {
            fail(format!("{name} is {value} in the end"));
        }
    }
}
