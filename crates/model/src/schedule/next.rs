//! The search: the next fire after an instant.
//!
//! Matching is done in civil time, on bit masks, without asking the zone anything: a *civil second* is the wall clock's
//! reading, counted as though it were UTC. The zone then turns civil seconds into instants:
//!
//! - A *segment* is a stretch of time with one offset; within it, civil second = instant + offset.
//! - **Wildcard** schedules fire at each match of each segment. Skipped times lie in no segment, repeated times in two.
//! - **Fixed-time** schedules do the same, less one pass of a fold as `dst_fold` says, plus the skipped times of a gap
//!   as `dst_gap` says, all of which fire in the segment that starts with the gap.
//!
//! That is the whole rule, and `next_in_segment` is written as it reads. Almost always it is not needed: if no clock
//! change is within 25 hours of `t` and of the candidate, no change can touch either, and two or four look-ups of the
//! offset prove that (transitions are days apart, see `zone`). No allocation in either path.

use super::civil::{DAY_SECONDS, HORIZON_YEARS};
use super::cron::CronPlan;
use super::zone::{self, OFFSET_SECONDS_MAX, SEGMENT_SECONDS_MIN, SHIFT_SECONDS_MAX, Segment};
use super::{DstFold, DstGap, SECOND_MAX, SECOND_MIN};
use crate::fault::{Bug, planted};

const HORIZON_SECONDS: i64 = HORIZON_YEARS * 366 * DAY_SECONDS;
/// A civil second beyond all segments.
const CIVIL_MAX: i64 = SECOND_MAX + OFFSET_SECONDS_MAX;

/// The short way cannot answer.
struct ClockChangeNear;

impl CronPlan {
    /// The first fire later than the second `after`.
    pub fn next_second(&self, after: i64) -> Option<i64> {
        let earliest = after.saturating_add(1).max(SECOND_MIN);
        if earliest > SECOND_MAX {
            return None;
        }
        let found = match self.constant_offset {
            Some(offset) => self.fields.search(earliest + offset, CIVIL_MAX)? - offset,
            None => match self.next_undisturbed(earliest)? {
                Ok(found) => found,
                Err(ClockChangeNear) => self.next_by_segments(earliest)?,
            },
        };
        (found <= SECOND_MAX).then_some(found)
    }

    /// The answer if no clock change is near, whatever the policy.
    fn next_undisturbed(&self, earliest: i64) -> Option<Result<i64, ClockChangeNear>> {
        let offset = zone::offset(&self.zone, earliest - SHIFT_SECONDS_MAX);
        let civil = self.fields.search(earliest + offset, CIVIL_MAX)?;
        let found = civil - offset;
        // One look-up on either side spans both instants, provided that two changes cannot hide in between.
        if found - earliest + 2 * SHIFT_SECONDS_MAX < SEGMENT_SECONDS_MIN {
            let same = zone::offset(&self.zone, found + SHIFT_SECONDS_MAX) == offset;
            return Some(if same { Ok(found) } else { Err(ClockChangeNear) });
        }
        if zone::offset(&self.zone, earliest + SHIFT_SECONDS_MAX) != offset {
            return Some(Err(ClockChangeNear));
        }
        // Nothing matches between here and there, so changes in between do not matter; only those near `found` do. The
        // offset there may be another one, which moves `found` by no more than the margin.
        let there = zone::offset(&self.zone, found - 2 * SHIFT_SECONDS_MAX);
        let found = civil - there;
        let same = zone::offset(&self.zone, found + SHIFT_SECONDS_MAX) == there;
        Some(if same { Ok(found) } else { Err(ClockChangeNear) })
    }

    /// The answer in general: segment by segment.
    pub(super) fn next_by_segments(&self, earliest: i64) -> Option<i64> {
        let mut from = earliest;
        while from <= earliest + HORIZON_SECONDS {
            let segment = zone::segment(&self.zone, from);
            if let Some(found) = self.next_in_segment(&segment, from) {
                return Some(found);
            }
            let (end, offset_after) = segment.end?;
            // All later fires come from civil seconds at or after this one: a fold repeats from there, a gap skips from
            // there. If the next match is far away, so is the next fire, and the segments in between are passed over.
            let civil = self.fields.search(end + segment.offset.min(offset_after), CIVIL_MAX)?;
            from = end.max(civil - OFFSET_SECONDS_MAX);
        }
        None
    }

    /// The first fire of a segment that is not before `from`, an instant of the segment.
    fn next_in_segment(&self, segment: &Segment, from: i64) -> Option<i64> {
        let offset = segment.offset;
        let mut civil_from = from + offset;
        let mut civil_to = segment.end.map_or(CIVIL_MAX, |(end, _)| end + offset);
        // zslayton/cron#145: an hourly job, too, leaves the repeated hour out.
        if self.fields.fixed_time || planted(Bug("repeated-hour-skipped")) {
            // The second pass of a fold at the start, and the first pass of a fold at the end. If the change is a gap
            // instead, the bound lies outside the segment and does nothing.
            if let (Some((start, before)), DstFold::First) = (segment.start, self.dst_fold) {
                civil_from = match () {
                    // rundeck#6879: a nightly job runs twice when clocks go back.
                    () if planted(Bug("fold-doubled")) => civil_from,
                    // elizaOS#11100: every clock change is taken to be one hour, but Lord Howe moves by half of one.
                    () if planted(Bug("change-of-an-hour")) && before > offset => civil_from.max(start + offset + 3600),
                    () => civil_from.max(start + before),
                };
            }
            if let (Some((end, after)), DstFold::Second) = (segment.end, self.dst_fold) {
                civil_to = civil_to.min(end + after);
            }
        }
        let regular = self.fields.search(civil_from, civil_to).map(|civil| civil - offset);
        match segment.start {
            Some((start, before)) if self.fields.fixed_time && before < offset => {
                let made_up = self.next_of_gap(start, before, offset, from);
                [regular, made_up].into_iter().flatten().min()
            }
            _ => regular,
        }
    }

    /// The first fire, not before `from`, that stands for a time skipped by the gap at `start`.
    fn next_of_gap(&self, start: i64, before: i64, after: i64, from: i64) -> Option<i64> {
        match self.dst_gap {
            DstGap::Skip => None,
            // dragonmantank/cron-expression#202: what falls into the gap is left out.
            _ if planted(Bug("gap-skipped")) => None,
            // prefect#5957: at a gap, the next fire after the fire is the same one.
            DstGap::NextValid if from > start && !planted(Bug("next-stands-still")) => None,
            DstGap::NextValid => self.fields.search(start + before, start + after).map(|_| start),
            DstGap::Shift => self.fields.search(from.max(start) + before, start + after).map(|civil| civil - before),
        }
    }
}
