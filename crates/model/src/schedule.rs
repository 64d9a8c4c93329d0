//! When a job fires: what the user wrote, the plan it resolves to, and every question asked of the plan.
//!
//! A [`Schedule`] is the user's text, kept with the job and shown back unchanged. [`Schedule::resolve`] turns it, once,
//! into a [`Plan`]: `H` replaced by the job's own values, `after` turned into an instant, the zone looked up. The plan
//! is what the wheel asks ([`Plan::next`]), what catch-up asks ([`Plan::last`], [`Plan::count`]) and what a column
//! stores ([`Plan::encode`]). Two jobs with the same encoded text share one plan.
//!
//! Invariants, each of them a test (the rules are in `docs`, "Time"):
//! - `next(t) > t`, always, and it depends on nothing but the plan and `t`: no clock, no state.
//! - No input panics or spins: an expression that cannot fire is refused, and every search is bounded.
//! - Nothing fires before 1970 or after 9999-12-30, where the civil calendar of the zone library ends.
//!
//! Reading order: `cron` and `item` (text into bit masks), `civil` (masks against the calendar), `next` (the search
//! across clock changes), `window` (catch-up), `zone` (names and offsets), `text` (durations and
//! the one-string forms), then `explain` and `preview`, which only describe.

mod cron;
mod item;
mod civil;
mod next;
mod window;
mod zone;
mod text;
mod changes;
mod words;
mod explain;
mod preview;

use std::fmt;
use std::str::FromStr;

use crate::fault::{Bug, planted};
use crate::time::Timestamp;
use cron::CronPlan;

pub use explain::{Explanation, explain};
pub use preview::{Preview, preview};
pub use text::{format_duration_ms, parse_duration_ms, parse_text};
pub use zone::{zone_database_version, zone_names};

/// The shortest period of `every`. Shorter ones are refused: the wheel counts in milliseconds.
pub const EVERY_MS_MIN: u64 = 1;
/// The longest period of `every` and the longest delay of `after`: a hundred years.
pub const DURATION_MS_MAX: u64 = 36_525 * 86_400_000;

/// The last second that has a civil date in every zone: 9999-12-30T22:00:00Z. Nothing fires later.
const SECOND_MAX: i64 = 253_402_207_200;
/// The first second that may fire. Transitions before 1970 are too irregular to promise anything about them.
const SECOND_MIN: i64 = 0;

/// What the user wrote; kept with the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// A cron expression, read on the wall clock of `zone`.
    Cron {
        /// Five or six fields, or one of the `@` names.
        expression: String,
        /// An IANA zone name, such as `Europe/Berlin`.
        zone: String,
        /// What happens to local times that the clock skips.
        dst_gap: DstGap,
        /// What happens to local times that the clock shows twice.
        dst_fold: DstFold,
    },
    /// A fixed period, aligned to the Unix epoch plus a phase, so that all nodes agree and a restart does not shift it.
    Every {
        /// The period in milliseconds.
        every_ms: u64,
        /// The distance of the fires from the epoch's grid; less than the period.
        phase_ms: u64,
    },
    At {
        at: Timestamp,
    },
    /// One instant, given as a delay from the acceptance of the job.
    After {
        /// The delay in milliseconds.
        delay_ms: u64,
    },
    /// Never by itself: fired by hand or by a parent.
    None,
}

/// What a fixed-time cron schedule does with a local time that does not exist (clocks go forward).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DstGap {
    /// Fires at the instant of the change: 02:30 becomes 03:00, and several skipped times collapse into one fire.
    #[default]
    NextValid,
    /// Keeps the distance from the change: 02:30 becomes 03:30.
    Shift,
    /// Does not fire.
    Skip,
}

impl DstGap {
    /// The name in texts, columns and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            DstGap::NextValid => "next_valid",
            DstGap::Shift => "shift",
            DstGap::Skip => "skip",
        }
    }
}

impl fmt::Display for DstGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DstGap {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        match text {
            "next_valid" => Ok(DstGap::NextValid),
            "shift" => Ok(DstGap::Shift),
            "skip" => Ok(DstGap::Skip),
            _ => Err(ScheduleError::new("dst_gap_invalid", format!("unknown dst_gap {}", quoted(text)))
                .hint("one of next_valid, shift, skip")),
        }
    }
}

/// What a fixed-time cron schedule does with a local time that occurs twice (clocks go back).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum DstFold {
    /// Fires in the first pass only.
    #[default]
    First,
    /// Fires in the second pass only.
    Second,
    /// Fires in both passes.
    Both,
}

impl DstFold {
    /// The name in texts, columns and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            DstFold::First => "first",
            DstFold::Second => "second",
            DstFold::Both => "both",
        }
    }
}

impl fmt::Display for DstFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DstFold {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        match text {
            "first" => Ok(DstFold::First),
            "second" => Ok(DstFold::Second),
            "both" => Ok(DstFold::Both),
            _ => Err(ScheduleError::new("dst_fold_invalid", format!("unknown dst_fold {}", quoted(text)))
                .hint("one of first, second, both")),
        }
    }
}

/// What `H` hashes: tenant and job name. The same two names give the same values for ever.
#[derive(Clone, Copy, Debug)]
pub struct HashSeed<'a> {
    /// The tenant of the job.
    pub tenant: &'a str,
    /// The name of the job.
    pub job: &'a str,
}

/// A refusal: what is wrong, where, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ScheduleError {
    /// What is wrong, in lower case, naming the thing.
    pub message: String,
    /// The bytes of the given text that are wrong, as start and end (exclusive), where there are such bytes. Both are
    /// character boundaries of the text.
    pub position: Option<(usize, usize)>,
    /// What to write instead.
    pub hint: Option<String>,
    /// A stable word for programs, such as `cron_invalid`, `cron_never_fires`, `zone_unknown`, `every_invalid`.
    pub code: &'static str,
}

impl ScheduleError {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { message: message.into(), position: None, hint: None, code }
    }

    fn at(mut self, start: usize, end: usize) -> Self {
        self.position = Some((start, end));
        self
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The user's text as it appears in a message: quoted, control characters escaped, and cut to a readable length.
fn quoted(text: &str) -> String {
    const CHARS_MAX: usize = 40;
    let shown: String = text.chars().take(CHARS_MAX).flat_map(char::escape_debug).collect();
    let dots = if text.chars().nth(CHARS_MAX).is_some() { "..." } else { "" };
    format!("\"{shown}{dots}\"")
}

/// The resolved form of a [`Schedule`]: the one the wheel asks.
///
/// It is immutable and cheap to share behind an `Arc`; jobs with the same [`encode`](Plan::encode) text share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    kind: PlanKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PlanKind {
    Cron(Box<CronPlan>),
    Every { every_ms: i64, phase_ms: i64 },
    At(Timestamp),
    None,
}

impl Schedule {
    /// Checks the schedule and resolves it for one job. `accepted_at` is the origin of [`Schedule::After`]; an
    /// [`Schedule::At`] in the past is not refused here, since that depends on the job's `allow_past`.
    pub fn resolve(&self, seed: HashSeed<'_>, accepted_at: Timestamp) -> Result<Plan, ScheduleError> {
        let kind = match self {
            Schedule::Cron { expression, zone, dst_gap, dst_fold } => {
                if let Some(every) = text::every_alias(expression) {
                    return every?.resolve(seed, accepted_at);
                }
                let zone = zone::find(zone)?;
                let plan = CronPlan::new(expression, Some(seed), zone, *dst_gap, *dst_fold)?;
                // With dst_gap=skip, all the times of an expression may lie in gaps, though its dates are possible.
                if plan.next_second(seconds_floor(accepted_at).min(SECOND_MAX / 2)).is_none() {
                    return Err(plan.never_fires(expression));
                }
                PlanKind::Cron(Box::new(plan))
            }
            Schedule::Every { every_ms, phase_ms } => every_kind(*every_ms, *phase_ms)?,
            Schedule::At { at } => at_kind(*at)?,
            Schedule::After { delay_ms } => {
                if *delay_ms > DURATION_MS_MAX {
                    return Err(ScheduleError::new("delay_invalid", "a delay of more than 100 years"));
                }
                at_kind(accepted_at.saturating_add_ms(*delay_ms as i64))?
            }
            Schedule::None => PlanKind::None,
        };
        Ok(Plan { kind })
    }
}

fn every_kind(every_ms: u64, phase_ms: u64) -> Result<PlanKind, ScheduleError> {
    if every_ms < EVERY_MS_MIN {
        return Err(ScheduleError::new("every_invalid", "a period of zero").hint("the shortest period is 1ms"));
    }
    if every_ms > DURATION_MS_MAX {
        return Err(ScheduleError::new("every_invalid", "a period of more than 100 years"));
    }
    if phase_ms >= every_ms {
        let message = format!("phase {phase_ms} ms is not less than the period {every_ms} ms");
        return Err(ScheduleError::new("every_invalid", message).hint(format!("write {}", phase_ms % every_ms)));
    }
    Ok(PlanKind::Every { every_ms: every_ms as i64, phase_ms: phase_ms as i64 })
}

fn at_kind(at: Timestamp) -> Result<PlanKind, ScheduleError> {
    if at.millis() < SECOND_MIN * 1000 || at.millis() > SECOND_MAX * 1000 {
        return Err(ScheduleError::new("at_invalid", "an instant outside the years 1970 to 9999"));
    }
    Ok(PlanKind::At(at))
}

/// The whole second at or before an instant.
fn seconds_floor(t: Timestamp) -> i64 {
    t.millis().div_euclid(1000)
}

fn from_seconds(second: i64) -> Timestamp {
    Timestamp::from_millis(second.saturating_mul(1000))
}

impl Plan {
    /// The first fire strictly later than `after`; `None` when there is none any more.
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match &self.kind {
            PlanKind::Cron(plan) => plan.next_second(seconds_floor(after)).map(from_seconds),
            PlanKind::Every { every_ms, phase_ms } => {
                if planted(Bug("restart-shifts-the-phase")) {
                    // hertzbeat#4328: counted from whenever the schedule was looked at.
                    return Some(after.saturating_add_ms(*every_ms));
                }
                let since = after.millis().checked_sub(*phase_ms).unwrap_or(i64::MIN);
                // Before the first fire the count of periods is negative; nothing fires before 1970.
                let index = since.div_euclid(*every_ms).saturating_add(1).max(0);
                let at = index.checked_mul(*every_ms)?.checked_add(*phase_ms)?;
                (at <= SECOND_MAX * 1000).then_some(Timestamp::from_millis(at))
            }
            PlanKind::At(at) => (*at > after).then_some(*at),
            PlanKind::None => None,
        }
    }

    /// The first fire at `t` or later.
    pub fn first_at_or_after(&self, t: Timestamp) -> Option<Timestamp> {
        self.next(t.saturating_add_ms(-1))
    }

    /// The plan of a one-off at another instant; any other plan as it is.
    pub(crate) fn moved_to(&self, at: Timestamp) -> Plan {
        match self.kind {
            PlanKind::At(_) => Plan { kind: at_kind(at).unwrap_or(self.kind.clone()) },
            _ => self.clone(),
        }
    }

    /// Whether the plan fires at most once.
    pub fn is_one_off(&self) -> bool {
        matches!(self.kind, PlanKind::At(_))
    }

    /// The canonical one-line text: stored in a column, and the key by which plans are shared. Equal plans have equal
    /// texts, and [`decode`](Plan::decode) returns the same plan.
    pub fn encode(&self) -> String {
        match &self.kind {
            PlanKind::Cron(plan) => {
                let (zone, gap, fold) = (zone::name(&plan.zone), plan.dst_gap, plan.dst_fold);
                format!("cron {} @{zone} gap={gap} fold={fold}", plan.text)
            }
            PlanKind::Every { every_ms, phase_ms } => format!("every {every_ms}+{phase_ms}"),
            PlanKind::At(at) => format!("at {}", at.millis()),
            PlanKind::None => "none".to_owned(),
        }
    }

    /// Reads what [`encode`](Plan::encode) wrote.
    pub fn decode(text: &str) -> Result<Plan, ScheduleError> {
        let invalid = || ScheduleError::new("plan_invalid", format!("not an encoded plan: {}", quoted(text)));
        let kind = match text.split_once(' ') {
            None if text == "none" => PlanKind::None,
            Some(("at", at)) => at_kind(Timestamp::from_millis(at.parse().map_err(|_| invalid())?))?,
            Some(("every", rest)) => {
                let (every, phase) = rest.split_once('+').ok_or_else(invalid)?;
                every_kind(every.parse().map_err(|_| invalid())?, phase.parse().map_err(|_| invalid())?)?
            }
            Some(("cron", rest)) => {
                let (rest, fold) = rest.rsplit_once(" fold=").ok_or_else(invalid)?;
                let (rest, gap) = rest.rsplit_once(" gap=").ok_or_else(invalid)?;
                let (expression, zone) = rest.rsplit_once(" @").ok_or_else(invalid)?;
                let zone = zone::find(zone)?;
                PlanKind::Cron(Box::new(CronPlan::new(expression, None, zone, gap.parse()?, fold.parse()?)?))
            }
            _ => return Err(invalid()),
        };
        Ok(Plan { kind })
    }
}

#[cfg(test)]
mod tests;
