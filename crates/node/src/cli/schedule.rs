//! What `explain` and `preview` share: a schedule typed on the command line, and a job's schedule as the server shows it.

use super::exit::Failure;
use crate::clock;
use campanile_client::wire;
use campanile_model::job::{next_fire, spread_offset_ms};
use campanile_model::schedule::{
    DstFold, DstGap, HashSeed, Plan, Schedule, ScheduleError, explain, format_duration_ms, parse_text, preview,
};
use campanile_model::{JobId, TenantId, Timestamp};

/// A schedule, and from when to look at it.
#[derive(clap::Args)]
pub struct Question {
    /// `30 3 * * *`, `@daily`, `every 90s`, `in 10m`, or an RFC 3339 instant
    #[arg(value_name = "EXPR")]
    expr: String,
    /// The zone on whose wall clock a cron expression is read
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    tz: String,
    /// From when: an instant (fires after it), or a date or local time in the zone (that moment included) [default: now]
    #[arg(long, value_name = "WHEN")]
    from: Option<String>,
    /// Local times that the clock skips: next_valid, shift or skip
    #[arg(long, value_name = "RULE")]
    dst_gap: Option<String>,
    /// Local times that the clock shows twice: first, second or both
    #[arg(long, value_name = "RULE")]
    dst_fold: Option<String>,
    /// The name of the job, which decides what `H` stands for
    #[arg(long, default_value = "preview")]
    name: String,
    /// The tenant of the job, which decides too
    #[arg(long, default_value = TenantId::DEFAULT_NAME)]
    tenant: String,
}

/// A question that makes sense.
pub struct Asked {
    /// What was typed.
    pub schedule: Schedule,
    /// What it resolves to.
    pub plan: Plan,
    /// From when.
    pub from: Timestamp,
}

impl Question {
    /// Reads everything, or says what is wrong with it.
    pub fn read(&self) -> Result<Asked, Failure> {
        let refused = |error: ScheduleError| match error.code {
            code if code.starts_with("zone") => Failure::schedule(&self.tz, &error),
            "dst_gap_invalid" | "dst_fold_invalid" => Failure::schedule("", &error),
            _ => Failure::schedule(&self.expr, &error),
        };
        let mut schedule = parse_text(&self.expr, &self.tz).map_err(refused)?;
        // A zone that does not exist is wrong even where the schedule has no use for it.
        let zone = self.zone().map_err(refused)?;
        if let Schedule::Cron { dst_gap, dst_fold, .. } = &mut schedule {
            if let Some(text) = &self.dst_gap {
                *dst_gap = text.to_ascii_lowercase().parse::<DstGap>().map_err(refused)?;
            }
            if let Some(text) = &self.dst_fold {
                *dst_fold = text.to_ascii_lowercase().parse::<DstFold>().map_err(refused)?;
            }
        }
        let from = match &self.from {
            Some(text) => instant(text, &zone)?,
            None => clock::now(),
        };
        let seed = HashSeed { tenant: &self.tenant, job: &self.name };
        let plan = schedule.resolve(seed, from).map_err(refused)?;
        Ok(Asked { schedule, plan, from })
    }

    fn zone(&self) -> Result<jiff::tz::TimeZone, ScheduleError> {
        let Schedule::Cron { zone, .. } = parse_text("@daily", &self.tz)? else {
            return Ok(jiff::tz::TimeZone::UTC);
        };
        Ok(jiff::tz::TimeZone::get(&zone).unwrap_or(jiff::tz::TimeZone::UTC))
    }
}

/// An RFC 3339 instant; or a date or wall-clock time in `zone`, which is then included.
fn instant(text: &str, zone: &jiff::tz::TimeZone) -> Result<Timestamp, Failure> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    let civil = text
        .parse::<jiff::civil::DateTime>()
        .or_else(|_| text.parse::<jiff::civil::Date>().map(|date| date.at(0, 0, 0, 0)));
    let at = civil.and_then(|civil| zone.to_zoned(civil));
    match at {
        // An offset that was not understood must not be taken for local time.
        Ok(at) if !text.contains(['Z', 'z', '[', '+']) => {
            Ok(Timestamp::from_millis(at.timestamp().as_millisecond()).saturating_add_ms(-1))
        }
        _ => Err(Failure::usage(format!("--from: `{text}` is neither an instant nor a date"))
            .hint("such as 2026-11-16T02:00:00Z, 2026-11-16 or 2026-11-16T02:00")),
    }
}

/// The schedule of a job in words; empty where it cannot be told.
pub fn words(job: &wire::Job) -> String {
    let Some((schedule, plan)) = resolved(job) else { return String::new() };
    let words = explain(&schedule, &plan, clock::now()).words;
    match offset_ms(job) {
        // What a dry run shows of the distance is not what the real job will get.
        _ if job.dry_run && job.spread_ms > 0 => {
            format!("{words} Later by less than {}.", format_duration_ms(job.spread_ms))
        }
        0 => words,
        offset => format!("{words} Later by {}, its part of the spread.", format_duration_ms(offset)),
    }
}

/// By how much the spread moves the fires of a job.
fn offset_ms(job: &wire::Job) -> u64 {
    job.id.parse::<JobId>().map_or(0, |id| spread_offset_ms(id, job.spread_ms))
}

/// The schedule of a job as short as it can be said.
pub fn brief(schedule: &wire::Schedule) -> String {
    match schedule {
        wire::Schedule { cron: Some(cron), timezone, .. } => match timezone.as_deref() {
            None | Some("UTC") => cron.clone(),
            Some(zone) => format!("{cron} {zone}"),
        },
        wire::Schedule { every_ms: Some(every), .. } => format!("every {}", format_duration_ms(*every)),
        wire::Schedule { at: Some(at), .. } => format!("at {at}"),
        wire::Schedule { after_ms: Some(after), .. } => format!("once, after {}", format_duration_ms(*after)),
        _ => "by hand".into(),
    }
}

/// The next fires of a job, at most `n`: the instant, and the wall clock of its zone.
pub fn next_fires(job: &wire::Job, n: usize) -> Vec<(Timestamp, String)> {
    let Some(first) = job.next_fire_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok()) else {
        return Vec::new();
    };
    let Some((schedule, plan)) = resolved(job) else { return Vec::new() };
    let offset = offset_ms(job);
    let ends_at = job.schedule.ends_at.as_deref().and_then(|at| at.parse::<Timestamp>().ok());
    let n = n.min(job.fires_left.map_or(n, |left| left as usize));
    let mut fires = vec![first];
    while fires.len() < n {
        match next_fire(&plan, offset, fires[fires.len() - 1]) {
            Some(next) if ends_at.is_none_or(|end| next <= end) => fires.push(next),
            _ => break,
        }
    }
    let local = |at: Timestamp| {
        // Fires that a spread has moved are not on the schedule's own clock.
        let seen = preview(&schedule, &plan, at.saturating_add_ms(-1), 1).pop();
        seen.filter(|fire| fire.at == at && !fire.local.ends_with(" UTC")).map(|fire| fire.local).unwrap_or_default()
    };
    fires.into_iter().map(|at| (at, local(at))).collect()
}

/// A job's schedule as the rules know it. `None` if the server knows a kind that we do not.
fn resolved(job: &wire::Job) -> Option<(Schedule, Plan)> {
    let wire = &job.schedule;
    let schedule = match wire.kind.as_str() {
        "CRON" => Schedule::Cron {
            expression: wire.cron.clone()?,
            zone: wire.timezone.clone().unwrap_or_else(|| "UTC".into()),
            dst_gap: wire.dst_gap.as_deref().unwrap_or("next_valid").to_ascii_lowercase().parse().ok()?,
            dst_fold: wire.dst_fold.as_deref().unwrap_or("first").to_ascii_lowercase().parse().ok()?,
        },
        "EVERY" => Schedule::Every { every_ms: wire.every_ms?, phase_ms: wire.phase_ms.unwrap_or(0) },
        "AT" => Schedule::At { at: wire.at.as_deref()?.parse().ok()? },
        // The delay counted from acceptance; what is left of it is an instant, or nothing.
        "AFTER" => Schedule::At { at: job.next_fire_at.as_deref()?.parse().ok()? },
        "NONE" => Schedule::None,
        _ => return None,
    };
    let seed = HashSeed { tenant: &job.tenant, job: &job.name };
    let plan = schedule.resolve(seed, clock::now()).ok()?;
    Some((schedule, plan))
}
