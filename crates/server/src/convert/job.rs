//! Jobs and schedules: what is stored into what is shown.

use campanile_client::wire::{self, json};
use campanile_model::action::ActionSpec;
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::job::{Job, JobState, Window, next_fire};
use campanile_model::notify::Expectation;
use campanile_model::retry::RetryPolicy;
use campanile_model::schedule::{Plan, Schedule, format_duration_ms, preview};
use campanile_model::store::JobVersion;
use campanile_model::{TenantId, Timestamp};
use serde_json::value::RawValue;

/// A job, as shown at `now`.
pub fn job(job: &Job, now: Timestamp) -> wire::Job {
    let definition = &*job.definition;
    let next = shown_next_fire(job, now);
    let next_fire_at = next.map(|at| at.to_string());
    let status = match (job.state, next, &definition.schedule) {
        (JobState::Paused, ..) => "PAUSED",
        (JobState::Deleted, ..) => "CANCELLED",
        (JobState::Active, Some(_), _) => "SCHEDULED",
        (JobState::Active, None, Schedule::None) => "MANUAL",
        (JobState::Active, None, _) => "COMPLETED",
    };
    let (id, effective_at) = (job.id.to_string(), job.effective_at.to_string());
    wire::Job {
        job_id: id.clone(),
        id,
        name: definition.name.clone(),
        description: Some(definition.description.clone()).filter(|text| !text.is_empty()),
        tenant: tenant_name(job.tenant),
        state: job.state.as_str().to_owned(),
        status: status.to_owned(),
        schedule: schedule_shown(&definition.schedule, &definition.window),
        next_run_at: next_fire_at.clone(),
        next_fire_at,
        fires_left: job.cursor.fires_left,
        action: action_shown(&definition.action),
        target: Some(job.target.to_string()).filter(|target| !target.is_empty()),
        payload: raw(definition.payload.to_string()),
        retry_policy: retry_shown(definition.retry),
        timeout_ms: definition.timeout_ms,
        priority: definition.priority.as_str().to_owned(),
        pool: definition.pool.to_string(),
        catch_up: catch_up_shown(definition.catch_up),
        overlap: definition.overlap.as_str().to_owned(),
        expect: expect_shown(definition.expect),
        blackouts: definition
            .blackouts
            .iter()
            .map(|b| wire::Blackout { from: b.from.to_string(), to: b.to.to_string() })
            .collect(),
        paused_until: job.paused_until.map(|until| until.to_string()),
        spread_ms: definition.spread_ms,
        tags: definition.tags.clone(),
        version: job.version,
        created_at: job.created_at.to_string(),
        updated_at: effective_at.clone(),
        effective_at,
        ended_at: None,
        next_fires: None,
        dry_run: false,
    }
}

/// A version of a job, as shown at `now`: the newest as the job itself, an earlier one as it was.
pub fn job_version(version: &JobVersion, now: Timestamp) -> wire::Job {
    let shown = job(&version.job, now);
    let Some(ended_at) = version.ended_at else { return shown };
    wire::Job {
        status: "SUPERSEDED".to_owned(),
        next_fire_at: None,
        next_run_at: None,
        fires_left: None,
        ended_at: Some(ended_at.to_string()),
        ..shown
    }
}

/// A job that is only what would be, with its next five fires.
pub fn job_preview(stored: &Job, now: Timestamp) -> wire::Job {
    let next_fires = Some(next_fires(stored, now, 5));
    wire::Job { next_fires, dry_run: true, ..job(stored, now) }
}

/// The first fire that is still to come. The stored cursor is a lower bound that lags behind what has fired.
fn shown_next_fire(job: &Job, now: Timestamp) -> Option<Timestamp> {
    let stored = job.cursor.next_fire_at.filter(|_| job.state == JobState::Active)?;
    if stored >= now {
        return Some(stored);
    }
    let plan = Plan::decode(&job.plan).ok()?;
    if plan.is_one_off() {
        // Due and on its way; the cursor says so until its execution is durable.
        return Some(stored);
    }
    if let Some(left) = job.cursor.fires_left {
        // Enough to know whether one is left, without walking through millions.
        const COUNTED_MAX: u64 = 10_000;
        let offset = job.spread_offset_ms() as i64;
        let (from, to) = (stored.saturating_add_ms(-1 - offset), now.saturating_add_ms(-offset));
        if plan.count(from, to, u64::from(left).min(COUNTED_MAX)) >= u64::from(left) {
            return None;
        }
    }
    let next = next_fire(&plan, job.spread_offset_ms(), now)?;
    Some(next).filter(|&at| job.definition.window.ends_at.is_none_or(|end| at <= end))
}

/// The next `n` fires of a job.
pub fn next_fires(job: &Job, now: Timestamp, n: usize) -> Vec<wire::Fire> {
    let Ok(plan) = Plan::decode(&job.plan) else { return Vec::new() };
    let offset = job.spread_offset_ms();
    let n = job.cursor.fires_left.map_or(n, |left| n.min(left as usize));
    let mut fires = Vec::new();
    let mut next = shown_next_fire(job, now);
    while let Some(at) = next.filter(|_| fires.len() < n) {
        let base = at.saturating_add_ms(-(offset as i64));
        fires.extend(preview(&job.definition.schedule, &plan, base.saturating_add_ms(-1), 1).into_iter().map(|fire| {
            wire::Fire {
                at: at.to_string(),
                note: match offset {
                    0 => fire.note,
                    ms => Some(format!("{} later than the schedule says, by its spread", format_duration_ms(ms))),
                },
                local: fire.local,
            }
        }));
        next = next_fire(&plan, offset, at).filter(|&at| job.definition.window.ends_at.is_none_or(|end| at <= end));
    }
    fires
}

/// The word for a kind of schedule.
pub(super) fn schedule_kind(schedule: &Schedule) -> &'static str {
    match schedule {
        Schedule::Cron { .. } => "CRON",
        Schedule::Every { .. } => "EVERY",
        Schedule::At { .. } => "AT",
        Schedule::After { .. } => "AFTER",
        Schedule::None => "NONE",
    }
}

/// A schedule and its bounds, as shown.
pub fn schedule_shown(schedule: &Schedule, window: &Window) -> wire::Schedule {
    let mut shown = wire::Schedule {
        kind: schedule_kind(schedule).to_owned(),
        starts_at: window.starts_at.map(|at| at.to_string()),
        ends_at: window.ends_at.map(|at| at.to_string()),
        max_fires: window.max_fires,
        ..wire::Schedule::default()
    };
    match schedule {
        Schedule::Cron { expression, zone, dst_gap, dst_fold } => {
            shown.cron = Some(expression.clone());
            shown.timezone = Some(zone.clone());
            shown.dst_gap = Some(dst_gap.as_str().to_ascii_uppercase());
            shown.dst_fold = Some(dst_fold.as_str().to_ascii_uppercase());
        }
        Schedule::Every { every_ms, phase_ms } => {
            shown.every_ms = Some(*every_ms);
            shown.phase_ms = Some(*phase_ms);
        }
        Schedule::At { at } => shown.at = Some(at.to_string()),
        Schedule::After { delay_ms } => shown.after_ms = Some(*delay_ms),
        Schedule::None => {}
    }
    shown
}

fn retry_shown(retry: RetryPolicy) -> wire::RetryPolicy {
    wire::RetryPolicy {
        max_attempts: retry.max_attempts,
        backoff: retry.backoff.as_str().to_owned(),
        initial_delay_ms: retry.initial_delay_ms,
        max_delay_ms: retry.max_delay_ms,
        total_timeout_ms: retry.total_timeout_ms,
    }
}

fn catch_up_shown(catch_up: CatchUp) -> wire::CatchUp {
    let (mode, n) = match catch_up.mode {
        CatchUpMode::None => ("NONE", None),
        CatchUpMode::Last => ("LAST", None),
        CatchUpMode::All => ("ALL", None),
        CatchUpMode::LastN(n) => ("LAST_N", Some(n)),
        CatchUpMode::Coalesced => ("COALESCED", None),
    };
    wire::CatchUp { mode: mode.to_owned(), n, max_age_ms: catch_up.max_age_ms, drip_ms: catch_up.drip_ms }
}

fn expect_shown(expect: Expectation) -> Option<wire::Expect> {
    let Expectation { start_within_ms, finish_within_ms, success_every_ms } = expect;
    (expect != Expectation::default()).then_some(wire::Expect { start_within_ms, finish_within_ms, success_every_ms })
}

/// An action as anybody may see it: its secrets are there, and not readable.
fn action_shown(action: &ActionSpec) -> Box<RawValue> {
    action_with(action, |name, value| match name {
        "secret" if value.starts_with('[') => format!("[{}]", json::string(SECRET_SHOWN)),
        "secret" => json::string(SECRET_SHOWN),
        _ => value.to_owned(),
    })
}

/// What is shown of a secret. It is none itself, so sending it back is refused rather than taken for a new one.
const SECRET_SHOWN: &str = "whsec_***";

/// An action with everything in it, for our own use.
pub(crate) fn action_whole(action: &ActionSpec) -> Box<RawValue> {
    action_with(action, |_, value| value.to_owned())
}

fn action_with(action: &ActionSpec, show: impl Fn(&str, &str) -> String) -> Box<RawValue> {
    let fields = json::members(&action.config).unwrap_or_default().into_iter();
    let kind = ("type".to_owned(), json::string(action.kind.as_str()));
    let shown = fields.filter(|(name, _)| name != "type").map(|(name, value)| {
        let value = show(&name, value);
        (name, value)
    });
    raw(json::object(std::iter::once(kind).chain(shown)))
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn tenant_name(tenant: TenantId) -> String {
    if tenant == TenantId::DEFAULT { TenantId::DEFAULT_NAME.to_owned() } else { tenant.0.to_string() }
}
