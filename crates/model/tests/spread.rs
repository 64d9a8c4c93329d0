//! Jobs of one schedule do not all fire in the same moment, if they may be spread.

use campanile_model::job::spread_offset_ms;
use campanile_model::{JobId, Timestamp};
use std::collections::BTreeSet;

#[test]
fn jobs_are_spread_over_the_whole_width() {
    let at = Timestamp::from_millis(1_794_794_400_000);
    let minute = |n: u64| spread_offset_ms(JobId::new(at, 0, n), 3_600_000) / 60_000;
    let minutes: BTreeSet<u64> = (0..1_000).map(minute).collect();
    assert_eq!(minutes.len(), 60, "a thousand jobs of an hour");
    assert_eq!(spread_offset_ms(JobId::new(at, 0, 1), 0), 0);
}
