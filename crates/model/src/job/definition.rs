//! What a user may say about a job: one document. Every change of it is a version of the job.
//!
//! It is written down by one codec, the same in every store (`store/src/definition.rs`). So a new field is added here, there,
//! and where it is sent and shown.

use crate::action::{ActionKind, ActionSpec};
use crate::catch_up::CatchUp;
use crate::error::FieldError;
use crate::limits;
use crate::notify::Expectation;
use crate::overlap::Overlap;
use crate::retry::RetryPolicy;
use crate::schedule::Schedule;
use crate::time::Timestamp;
use std::sync::Arc;

/// The pool of jobs that say nothing or `short`.
pub const POOL_SHORT: &str = "short";
/// The pool of jobs that say `long`.
pub const POOL_LONG: &str = "long";

/// Schedule, action and policies of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Unique among the tenant's jobs that are not deleted.
    pub name: String,
    /// What it is for, in the words of its users; empty where nobody said.
    pub description: String,
    /// When, as the user wrote it.
    pub schedule: Schedule,
    /// Bounds on the schedule.
    pub window: Window,
    /// Width within which this job's fires are moved by a fixed offset; 0 for none.
    pub spread_ms: u64,
    pub action: ActionSpec,
    /// JSON text handed to the action.
    pub payload: Arc<str>,
    /// How it is tried again.
    pub retry: RetryPolicy,
    /// Time limit of one attempt.
    pub timeout_ms: u64,
    pub priority: Priority,
    /// Which capacity executes it.
    pub pool: Arc<str>,
    /// What happens to fires that were missed.
    pub catch_up: CatchUp,
    /// What happens to runs that would overlap.
    pub overlap: Overlap,
    /// What it is expected to do.
    pub expect: Expectation,
    /// When it does not fire.
    pub blackouts: Arc<[Blackout]>,
    pub tags: Vec<String>,
}

impl Default for Definition {
    /// A job without a name that does nothing, never; with everything else as it is where nothing is said.
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            schedule: Schedule::None,
            window: Window::default(),
            spread_ms: 0,
            action: ActionSpec { kind: ActionKind::Noop, config: "{}".into() },
            payload: "null".into(),
            retry: RetryPolicy::default(),
            timeout_ms: limits::TIMEOUT_MS_DEFAULT,
            priority: Priority::default(),
            pool: POOL_SHORT.into(),
            catch_up: CatchUp::default(),
            overlap: Overlap::default(),
            expect: Expectation::default(),
            blackouts: Arc::new([]),
            tags: Vec::new(),
        }
    }
}

/// Bounds on a schedule.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub struct Window {
    /// No fire before this.
    pub starts_at: Option<Timestamp>,
    /// No fire after this.
    pub ends_at: Option<Timestamp>,
    /// No more instants of the schedule than this; a skipped one counts, one while paused does not.
    pub max_fires: Option<u32>,
}

/// A range in which a job does not fire.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct Blackout {
    /// First instant, inclusive.
    pub from: Timestamp,
    /// Last instant, exclusive.
    pub to: Timestamp,
}

impl Blackout {
    /// Whether one of `blackouts` covers `at`.
    pub fn covers(blackouts: &[Blackout], at: Timestamp) -> bool {
        Self::find(blackouts, at).is_some()
    }

    /// The first of `blackouts` that covers `at`.
    pub fn find(blackouts: &[Blackout], at: Timestamp) -> Option<Blackout> {
        blackouts.iter().copied().find(|blackout| blackout.from <= at && at < blackout.to)
    }
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Priority {
    Critical,
    High,
    /// Where nothing is said.
    #[default]
    Normal,
    /// Last, with a guaranteed share.
    Low,
}

impl Priority {
    /// All priorities, first one first.
    pub const ALL: [Priority; 4] = [Priority::Critical, Priority::High, Priority::Normal, Priority::Low];

    /// The word used in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Priority::Critical => "CRITICAL",
            Priority::High => "HIGH",
            Priority::Normal => "NORMAL",
            Priority::Low => "LOW",
        }
    }

    /// The number used in the store; never reused.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The priority with this number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(code as usize).copied()
    }
}

impl Definition {
    /// Checks the bounds that do not depend on a backend. The schedule is checked by `Schedule::resolve`, the action's
    /// config by its `Action::validate`.
    pub fn check(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let mut check = |ok: bool, pointer: &str, code: &'static str, message: String| {
            if !ok {
                errors.push(FieldError::new(pointer, code, message));
            }
        };
        check(is_name(&self.name), "/name", "name_invalid", name_rule("a job's name"));
        check(
            self.description.len() <= limits::DESCRIPTION_BYTES_MAX,
            "/description",
            "description_too_long",
            format!(
                "the description has {} bytes; the limit is {}",
                self.description.len(),
                limits::DESCRIPTION_BYTES_MAX
            ),
        );
        check(is_name(&self.pool), "/pool", "pool_invalid", name_rule("a pool's name"));
        check(
            self.payload.len() <= limits::PAYLOAD_BYTES_MAX,
            "/payload",
            "payload_too_large",
            format!("the payload has {} bytes; the limit is {}", self.payload.len(), limits::PAYLOAD_BYTES_MAX),
        );
        check(
            (1..=limits::ATTEMPTS_MAX).contains(&self.retry.max_attempts),
            "/retry_policy/max_attempts",
            "max_attempts_invalid",
            format!("max_attempts must be 1 to {}, got {}", limits::ATTEMPTS_MAX, self.retry.max_attempts),
        );
        check(
            self.retry.max_delay_ms <= limits::BACKOFF_MS_MAX,
            "/retry_policy/max_delay_ms",
            "max_delay_invalid",
            format!(
                "max_delay_ms must be at most {} (7 days), got {}",
                limits::BACKOFF_MS_MAX,
                self.retry.max_delay_ms
            ),
        );
        check(
            self.retry.initial_delay_ms <= self.retry.max_delay_ms,
            "/retry_policy/initial_delay_ms",
            "initial_delay_invalid",
            format!(
                "initial_delay_ms ({}) must not exceed max_delay_ms ({})",
                self.retry.initial_delay_ms, self.retry.max_delay_ms
            ),
        );
        check(
            (1..=limits::TIMEOUT_MS_MAX).contains(&self.timeout_ms),
            "/timeout_ms",
            "timeout_invalid",
            format!("timeout_ms must be 1 to {} (a day), got {}", limits::TIMEOUT_MS_MAX, self.timeout_ms),
        );
        let total_ms = self.retry.total_timeout_ms;
        check(
            total_ms.is_none_or(|total| total >= self.timeout_ms && total <= limits::BACKOFF_MS_MAX),
            "/retry_policy/total_timeout_ms",
            "total_timeout_invalid",
            format!("total_timeout_ms must be at least timeout_ms ({}) and at most 7 days", self.timeout_ms),
        );
        check(
            self.catch_up.drip_ms == 0
                || (limits::DRIP_MS_MIN..=limits::BACKOFF_MS_MAX).contains(&self.catch_up.drip_ms),
            "/catch_up/drip_ms",
            "drip_invalid",
            format!("drip_ms must be 0 or {} to {} (7 days)", limits::DRIP_MS_MIN, limits::BACKOFF_MS_MAX),
        );
        check(
            self.blackouts.len() <= limits::BLACKOUTS_MAX,
            "/blackouts",
            "blackouts_too_many",
            format!("a job has at most {} blackouts, got {}", limits::BLACKOUTS_MAX, self.blackouts.len()),
        );
        for (i, blackout) in self.blackouts.iter().enumerate() {
            check(
                blackout.from < blackout.to,
                &format!("/blackouts/{i}"),
                "blackout_invalid",
                format!("a blackout ends after it starts, got {} to {}", blackout.from, blackout.to),
            );
        }
        let Expectation { start_within_ms, finish_within_ms, success_every_ms } = self.expect;
        for (name, width) in [
            ("start_within_ms", start_within_ms),
            ("finish_within_ms", finish_within_ms),
            ("success_every_ms", success_every_ms),
        ] {
            check(
                width.is_none_or(|ms| (1..=400 * 86_400_000).contains(&ms)),
                &format!("/expect/{name}"),
                "expectation_invalid",
                format!("{name} must be 1 ms to 400 days"),
            );
        }
        check(
            self.spread_ms <= limits::SPREAD_MS_MAX,
            "/spread_ms",
            "spread_invalid",
            format!("spread_ms must be at most {} (an hour), got {}", limits::SPREAD_MS_MAX, self.spread_ms),
        );
        check(
            self.tags.len() <= limits::TAGS_MAX,
            "/tags",
            "tags_too_many",
            format!("a job has at most {} tags, got {}", limits::TAGS_MAX, self.tags.len()),
        );
        for (i, tag) in self.tags.iter().enumerate() {
            check(
                !tag.is_empty() && tag.len() <= limits::TAG_BYTES_MAX && !tag.contains(char::is_control),
                &format!("/tags/{i}"),
                "tag_invalid",
                format!("a tag has 1 to {} bytes and no control characters", limits::TAG_BYTES_MAX),
            );
        }
        if let (Some(start), Some(end)) = (self.window.starts_at, self.window.ends_at) {
            check(start <= end, "/ends_at", "window_empty", format!("ends_at ({end}) lies before starts_at ({start})"));
        }
        check(
            self.window.max_fires != Some(0),
            "/max_fires",
            "max_fires_invalid",
            "max_fires must be at least 1; leave it out for no limit".into(),
        );
        errors
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= limits::NAME_BYTES_MAX
        && !name.contains(|c: char| c.is_control() || c == '/' || c == ':')
        && name.trim() == name
}

fn name_rule(what: &str) -> String {
    format!(
        "{what} has 1 to {} bytes, no blank at either end, and none of `/`, `:` or control characters",
        limits::NAME_BYTES_MAX
    )
}
