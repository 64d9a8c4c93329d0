//! Between the wire and the domain: what was sent into a draft, and what is stored into what is shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use campanile_client::wire::input::{CatchUpInput, Faults, JobInput, Pointers, ScheduleInput, Span};
use campanile_client::wire::{self, FieldProblem, json};
use campanile_engine::intake::JobDraft;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::execution::{Attempt, AttemptError, Execution, Response};
use campanile_model::job::{Job, JobState, POOL_LONG, POOL_SHORT, Priority, Window, next_fire};
use campanile_model::lifecycle::State;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::{
    DstFold, DstGap, Plan, Schedule, ScheduleError, parse_duration_ms, parse_text, preview,
};
use campanile_model::store::Skip;
use campanile_model::{TenantId, Timestamp, limits};
use serde_json::value::RawValue;
use std::str::FromStr;

/// Reads meanings, and collects what is wrong with them at the pointers of the sender.
pub struct Reader<'a> {
    pointers: &'a Pointers,
    faults: &'a mut Faults,
}

/// The draft that was sent. Where `faults` has something about a field, the draft has a harmless value in its place, so that
/// the engine can still look for faults in the others.
pub fn draft(input: &JobInput, faults: &mut Faults) -> JobDraft {
    let mut read = Reader { pointers: &input.pointers, faults };
    // Where a field was sent and is wrong, its own fault is recorded already.
    if input.name.is_none() && !read.faults.are_about(&input.pointers.sent("/name")) {
        read.refuse("/name", "name_missing", "a job needs a `name`");
    }
    let noop = || ActionSpec { kind: ActionKind::Noop, config: "{}".into() };
    JobDraft {
        name: input.name.clone().unwrap_or_else(|| "unnamed".to_owned()),
        schedule: read.schedule(&input.schedule).unwrap_or(Schedule::None),
        window: read.window(&input.schedule).unwrap_or_default(),
        allow_past: input.schedule.allow_past,
        spread_ms: read.span("/spread_ms", &input.spread, 0).unwrap_or_default(),
        action: read.action(input).unwrap_or_else(noop),
        payload: read.payload(input).into(),
        retry: read.retry(input).unwrap_or_default(),
        timeout_ms: read
            .span("/timeout_ms", &input.timeout, limits::TIMEOUT_MS_DEFAULT)
            .unwrap_or(limits::TIMEOUT_MS_DEFAULT),
        priority: read
            .word("/priority", "priority_invalid", &input.priority, &Priority::ALL, Priority::as_str)
            .flatten()
            .unwrap_or_default(),
        pool: read.pool(input).unwrap_or_else(|| POOL_SHORT.to_owned()).into(),
        catch_up: read.catch_up(&input.catch_up).unwrap_or_default(),
        tags: input.tags.clone(),
        paused: input.paused.unwrap_or_default(),
    }
}

/// The schedule that was sent with a question, or nothing where `faults` says why.
pub fn schedule(input: &ScheduleInput, pointers: &Pointers, faults: &mut Faults) -> Option<Schedule> {
    Reader { pointers, faults }.schedule(input)
}

/// The bounds that were sent with a question, or nothing where `faults` says why.
pub fn window(input: &ScheduleInput, pointers: &Pointers, faults: &mut Faults) -> Option<Window> {
    Reader { pointers, faults }.window(input)
}

/// What a schedule may call itself.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Called {
    Cron,
    Recurring,
    Every,
    At,
    After,
    None,
}

impl Called {
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "CRON" => Called::Cron,
            "RECURRING" => Called::Recurring,
            "EVERY" | "INTERVAL" => Called::Every,
            "ONE_TIME" | "ONE_SHOT" | "ONE_OFF" | "ONCE" | "AT" => Called::At,
            "DELAYED" | "DELAY" | "AFTER" => Called::After,
            "NONE" | "MANUAL" => Called::None,
            _ => return None,
        })
    }

    fn fits(self, schedule: &Schedule) -> bool {
        match schedule {
            Schedule::Cron { .. } => matches!(self, Called::Cron | Called::Recurring),
            Schedule::Every { .. } => matches!(self, Called::Every | Called::Recurring),
            // A delay is a way to say one time.
            Schedule::At { .. } => self == Called::At,
            Schedule::After { .. } => matches!(self, Called::After | Called::At),
            Schedule::None => self == Called::None,
        }
    }
}

impl Reader<'_> {
    fn refuse(&mut self, canonical: &str, code: &str, message: impl Into<String>) {
        self.faults.add(FieldProblem::new(self.pointers.sent(canonical), code, message));
    }

    fn refuse_schedule<T>(&mut self, canonical: &str, error: ScheduleError) -> Option<T> {
        let ScheduleError { message, position, hint, code } = error;
        let pointer = self.pointers.sent(canonical);
        self.faults.add(FieldProblem { pointer, code: code.to_owned(), message, hint, position });
        None
    }

    fn schedule(&mut self, input: &ScheduleInput) -> Option<Schedule> {
        let called = match input.kind.as_deref() {
            Some(word) => match Called::from_word(word) {
                Some(called) => Some(called),
                None => {
                    let fault = FieldProblem::new(
                        self.pointers.sent("/schedule/type"),
                        "schedule_type_invalid",
                        format!("there is no type of schedule `{}`", shown(word)),
                    );
                    self.faults.add(fault.hint("one of CRON, RECURRING, EVERY, ONE_TIME, DELAYED, NONE"));
                    return None;
                }
            },
            None => None,
        };
        let given: Vec<&str> = [
            ("/schedule", input.text.is_some()),
            ("/schedule/cron", input.cron.is_some()),
            ("/schedule/every", input.every.is_some()),
            ("/schedule/at", input.at.is_some()),
            ("/schedule/after", input.after.is_some()),
        ]
        .into_iter()
        .filter_map(|(pointer, is_given)| is_given.then_some(pointer))
        .collect();
        if let [first, second, ..] = given[..] {
            let (first, second) = (self.pointers.sent(first), self.pointers.sent(second));
            let message = format!("a job has one schedule, but `{first}` and `{second}` are two");
            self.faults.add(FieldProblem::new(second, "schedule_ambiguous", message));
            return None;
        }
        if input.phase.is_some() && input.every.is_none() {
            self.refuse("/schedule/phase", "phase_without_every", "a phase belongs to `every`");
            return None;
        }
        let schedule = self.one_schedule(input, called)?;
        match called {
            Some(called) if !called.fits(&schedule) => {
                let word = input.kind.as_deref().unwrap_or_default();
                let message = match schedule {
                    Schedule::None => format!("type {word} needs a schedule, and there is none"),
                    _ => format!("type {word} does not fit the schedule, which is {}", schedule_kind(&schedule)),
                };
                self.refuse("/schedule/type", "schedule_type_mismatch", message);
                None
            }
            _ => Some(schedule),
        }
    }

    fn one_schedule(&mut self, input: &ScheduleInput, called: Option<Called>) -> Option<Schedule> {
        let zone = input.timezone.as_deref().unwrap_or("UTC");
        let cron = |expression: &str| Schedule::Cron {
            expression: expression.to_owned(),
            zone: zone.to_owned(),
            dst_gap: DstGap::default(),
            dst_fold: DstFold::default(),
        };
        let schedule = match input {
            ScheduleInput { cron: Some(expression), .. } => cron(expression),
            ScheduleInput { every: Some(every), .. } => Schedule::Every {
                every_ms: self.span_of("/schedule/every", every)?,
                phase_ms: self.span("/schedule/phase", &input.phase, 0)?,
            },
            ScheduleInput { at: Some(at), .. } => Schedule::At { at: self.instant("/schedule/at", at)? },
            ScheduleInput { after: Some(after), .. } => {
                Schedule::After { delay_ms: self.span_of("/schedule/after", after)? }
            }
            ScheduleInput { text: Some(text), .. } if called == Some(Called::Cron) => cron(text),
            ScheduleInput { text: Some(text), .. }
                if called == Some(Called::After) && parse_duration_ms(text).is_ok() =>
            {
                Schedule::After { delay_ms: parse_duration_ms(text).unwrap_or_default() }
            }
            ScheduleInput { text: Some(text), .. } => match parse_text(text, zone) {
                Ok(schedule) => schedule,
                Err(error) => {
                    let canonical = if error.code.starts_with("zone") { "/schedule/timezone" } else { "/schedule" };
                    return self.refuse_schedule(canonical, error);
                }
            },
            _ => Schedule::None,
        };
        let Schedule::Cron { expression, zone, .. } = schedule else { return Some(schedule) };
        let dst_gap = self.dst::<DstGap>("/schedule/dst_gap", &input.dst_gap)?;
        let dst_fold = self.dst::<DstFold>("/schedule/dst_fold", &input.dst_fold)?;
        Some(Schedule::Cron { expression, zone, dst_gap, dst_fold })
    }

    fn dst<T: FromStr<Err = ScheduleError> + Default>(&mut self, canonical: &str, word: &Option<String>) -> Option<T> {
        match word.as_deref().map(str::parse).transpose() {
            Ok(rule) => Some(rule.unwrap_or_default()),
            Err(error) => self.refuse_schedule(canonical, error),
        }
    }

    fn window(&mut self, input: &ScheduleInput) -> Option<Window> {
        let starts_at = self.optional_instant("/starts_at", &input.starts_at);
        let ends_at = self.optional_instant("/ends_at", &input.ends_at);
        let max_fires = match input.max_fires.map(u32::try_from).transpose() {
            Ok(max_fires) => max_fires,
            Err(_) => {
                self.refuse("/max_fires", "max_fires_invalid", format!("max_fires must be at most {}", u32::MAX));
                return None;
            }
        };
        Some(Window { starts_at: starts_at?, ends_at: ends_at?, max_fires })
    }

    fn optional_instant(&mut self, canonical: &str, text: &Option<String>) -> Option<Option<Timestamp>> {
        match text {
            Some(text) => self.instant(canonical, text).map(Some),
            None => Some(None),
        }
    }

    fn instant(&mut self, canonical: &str, text: &str) -> Option<Timestamp> {
        match text.parse::<Timestamp>() {
            Ok(at) => Some(at),
            Err(error) => {
                self.refuse(canonical, "instant_invalid", error.to_string());
                None
            }
        }
    }

    fn span(&mut self, canonical: &str, span: &Option<Span>, otherwise: u64) -> Option<u64> {
        match span {
            Some(span) => self.span_of(canonical, span),
            None => Some(otherwise),
        }
    }

    fn span_of(&mut self, canonical: &str, span: &Span) -> Option<u64> {
        match span {
            Span::Ms(ms) => Some(*ms),
            Span::Text(text) => match parse_duration_ms(text) {
                Ok(ms) => Some(ms),
                Err(error) => self.refuse_schedule(canonical, error),
            },
        }
    }

    /// One of a set of words. `None` is a fault, `Some(None)` is nothing sent.
    fn word<T: Copy>(
        &mut self,
        canonical: &str,
        code: &str,
        sent: &Option<String>,
        all: &[T],
        name: impl Fn(T) -> &'static str,
    ) -> Option<Option<T>> {
        let Some(sent) = sent else { return Some(None) };
        let found = all.iter().copied().find(|&one| name(one) == sent);
        if found.is_none() {
            let names: Vec<_> = all.iter().map(|&one| name(one)).collect();
            let fault =
                FieldProblem::new(self.pointers.sent(canonical), code, format!("`{}` is not known", shown(sent)));
            self.faults.add(fault.hint(format!("one of {}", names.join(", "))));
        }
        found.map(Some)
    }

    fn action(&mut self, input: &JobInput) -> Option<ActionSpec> {
        let Some(action) = &input.action else {
            if !self.faults.are_about(&input.pointers.sent("/action")) {
                self.refuse("/action", "action_missing", "a job needs an `action` or a `target`");
            }
            return None;
        };
        let sent = Some(if action.kind == "HTTP" { "WEBHOOK".to_owned() } else { action.kind.clone() });
        let kind = self.word("/action/type", "action_unknown", &sent, &ActionKind::ALL, ActionKind::as_str)??;
        Some(ActionSpec { kind, config: action.config.as_str().into() })
    }

    fn payload(&mut self, input: &JobInput) -> String {
        let payload = input.payload.as_deref().unwrap_or("null");
        if payload.len() > limits::PAYLOAD_BYTES_MAX {
            let message =
                format!("the payload has {} bytes; the limit is {}", payload.len(), limits::PAYLOAD_BYTES_MAX);
            self.refuse("/payload", "payload_too_large", message);
            return "null".to_owned();
        }
        payload.to_owned()
    }

    fn retry(&mut self, input: &JobInput) -> Option<RetryPolicy> {
        let default = RetryPolicy::default();
        let retry = &input.retry;
        let max_attempts = match retry.max_attempts.map(u32::try_from).transpose() {
            Ok(attempts) => Some(attempts.unwrap_or(default.max_attempts)),
            Err(_) => {
                let message = format!("max_attempts must be 1 to {}", limits::ATTEMPTS_MAX);
                self.refuse("/retry_policy/max_attempts", "max_attempts_invalid", message);
                None
            }
        };
        let backoff =
            self.word("/retry_policy/backoff", "backoff_invalid", &retry.backoff, &Backoff::ALL, Backoff::as_str);
        let initial = self.span("/retry_policy/initial_delay_ms", &retry.initial_delay, default.initial_delay_ms);
        let longest = self.span("/retry_policy/max_delay_ms", &retry.max_delay, default.max_delay_ms);
        let (initial_delay_ms, mut max_delay_ms) = (initial?, longest?);
        if retry.max_delay.is_none() {
            // Where only the first delay was sent, the longest is no shorter.
            max_delay_ms = max_delay_ms.max(initial_delay_ms);
        }
        let backoff = backoff?.unwrap_or_default();
        Some(RetryPolicy { max_attempts: max_attempts?, backoff, initial_delay_ms, max_delay_ms })
    }

    fn pool(&mut self, input: &JobInput) -> Option<String> {
        let by_duration = match input.estimated_duration.as_deref() {
            None => None,
            Some("SHORT") => Some(POOL_SHORT),
            Some("LONG") => Some(POOL_LONG),
            Some(other) => {
                let message = format!("estimated_duration must be short or long, got `{}`", shown(other));
                self.refuse("/estimated_duration", "estimated_duration_invalid", message);
                return None;
            }
        };
        match (&input.pool, by_duration) {
            (Some(pool), Some(other)) if pool != other => {
                let message =
                    format!("`pool` says `{}`, estimated_duration means `{other}`; send one of them", shown(pool));
                self.refuse("/estimated_duration", "field_duplicate", message);
                None
            }
            (Some(pool), _) => Some(pool.clone()),
            (None, by_duration) => Some(by_duration.unwrap_or(POOL_SHORT).to_owned()),
        }
    }

    fn catch_up(&mut self, input: &CatchUpInput) -> Option<CatchUp> {
        let default = CatchUp::default();
        let max_age_ms = self.span("/catch_up/max_age_ms", &input.max_age, default.max_age_ms);
        let n = input.n.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let mode = match (input.mode.as_deref(), n) {
            (None, None) => default.mode,
            (Some("NONE"), None) => CatchUpMode::None,
            (Some("LAST"), None) => CatchUpMode::Last,
            (Some("ALL"), None) => CatchUpMode::All,
            (Some("LAST_N") | None, Some(n)) if (1..=limits::CATCH_UP_FIRES_MAX as u32).contains(&n) => {
                CatchUpMode::LastN(n)
            }
            (Some("LAST_N") | None, _) => {
                let message = format!("LAST_N needs `n`, 1 to {}", limits::CATCH_UP_FIRES_MAX);
                self.refuse("/catch_up/n", "catch_up_invalid", message);
                return None;
            }
            (Some("NONE" | "LAST" | "ALL"), Some(_)) => {
                self.refuse("/catch_up/n", "catch_up_invalid", "`n` belongs to the mode LAST_N");
                return None;
            }
            (Some(other), _) => {
                let message = format!("`{}` is not known: NONE, LAST, ALL or LAST_N", shown(other));
                self.refuse("/catch_up/mode", "catch_up_invalid", message);
                return None;
            }
        };
        Some(CatchUp { mode, max_age_ms: max_age_ms? })
    }
}

fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

// ---- from the domain to the wire ----

/// A job, as shown at `now`.
pub fn job(job: &Job, now: Timestamp) -> wire::Job {
    let next = shown_next_fire(job, now);
    let next_fire_at = next.map(|at| at.to_string());
    let status = match (job.state, next, &job.schedule) {
        (JobState::Paused, ..) => "PAUSED",
        (JobState::Deleted, ..) => "CANCELLED",
        (JobState::Active, Some(_), _) => "SCHEDULED",
        (JobState::Active, None, Schedule::None) => "MANUAL",
        (JobState::Active, None, _) => "COMPLETED",
    };
    let id = job.id.to_string();
    wire::Job {
        job_id: id.clone(),
        id,
        name: job.name.clone(),
        tenant: tenant_name(job.tenant),
        state: job.state.as_str().to_owned(),
        status: status.to_owned(),
        schedule: schedule_shown(&job.schedule, &job.window),
        next_run_at: next_fire_at.clone(),
        next_fire_at,
        fires_left: job.cursor.fires_left,
        action: action_shown(&job.action),
        payload: raw(job.payload.to_string()),
        retry_policy: wire::RetryPolicy {
            max_attempts: job.retry.max_attempts,
            backoff: job.retry.backoff.as_str().to_owned(),
            initial_delay_ms: job.retry.initial_delay_ms,
            max_delay_ms: job.retry.max_delay_ms,
        },
        timeout_ms: job.timeout_ms,
        priority: job.priority.as_str().to_owned(),
        pool: job.pool.to_string(),
        catch_up: catch_up_shown(job.catch_up),
        spread_ms: job.spread_ms,
        tags: job.tags.clone(),
        version: job.version,
        created_at: job.created_at.to_string(),
        updated_at: job.updated_at.to_string(),
        next_fires: None,
        dry_run: false,
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
    Some(next).filter(|&at| job.window.ends_at.is_none_or(|end| at <= end))
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
        fires.extend(preview(&job.schedule, &plan, base.saturating_add_ms(-1), 1).into_iter().map(|fire| wire::Fire {
            at: at.to_string(),
            note: match offset {
                0 => fire.note,
                ms => Some(format!(
                    "{} later than the schedule says, by its spread",
                    campanile_model::schedule::format_duration_ms(ms)
                )),
            },
            local: fire.local,
        }));
        next = next_fire(&plan, offset, at).filter(|&at| job.window.ends_at.is_none_or(|end| at <= end));
    }
    fires
}

fn schedule_kind(schedule: &Schedule) -> &'static str {
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

fn catch_up_shown(catch_up: CatchUp) -> wire::CatchUp {
    let (mode, n) = match catch_up.mode {
        CatchUpMode::None => ("NONE", None),
        CatchUpMode::Last => ("LAST", None),
        CatchUpMode::All => ("ALL", None),
        CatchUpMode::LastN(n) => ("LAST_N", Some(n)),
    };
    wire::CatchUp { mode: mode.to_owned(), n, max_age_ms: catch_up.max_age_ms }
}

fn action_shown(action: &ActionSpec) -> Box<RawValue> {
    let fields = json::members(&action.config).unwrap_or_default().into_iter();
    let kind = ("type".to_owned(), json::string(action.kind.as_str()));
    let shown = fields.filter(|(name, _)| name != "type").map(|(name, value)| (name, value.to_owned()));
    raw(json::object(std::iter::once(kind).chain(shown)))
}

fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn tenant_name(tenant: TenantId) -> String {
    if tenant == TenantId::DEFAULT { TenantId::DEFAULT_NAME.to_owned() } else { tenant.0.to_string() }
}

/// An execution, as shown.
pub fn execution(execution: &Execution) -> wire::Execution {
    let (id, state) = (execution.id.to_string(), execution.state.as_str().to_owned());
    let fire_at = execution.fire_at.to_string();
    let duration = |from: Timestamp, to: Timestamp| to.ms_since(from);
    wire::Execution {
        execution_id: id.clone(),
        id,
        job_id: execution.job.to_string(),
        job_name: execution.job_name.clone(),
        job_version: execution.job_version,
        scheduled_at: fire_at.clone(),
        fire_at,
        kind: execution.kind.as_str().to_owned(),
        status: state.clone(),
        state,
        is_final: execution.state.is_final(),
        reason: execution.reason.map(|reason| reason.as_str().to_owned()),
        attempt: execution.attempt,
        fence_token: execution.fence,
        priority: execution.priority.as_str().to_owned(),
        pool: execution.pool.to_string(),
        action: execution.action.as_str().to_owned(),
        fired_at: execution.fired_at.to_string(),
        started_at: execution.started_at.map(|at| at.to_string()),
        finished_at: execution.finished_at.map(|at| at.to_string()),
        late_ms: execution.started_at.filter(|_| execution.attempt == 1).map(|at| duration(execution.fire_at, at)),
        duration_ms: execution.started_at.zip(execution.finished_at).map(|(from, to)| duration(from, to)),
        next_attempt_at: (execution.state == State::Retrying).then(|| execution.wake_at.to_string()),
        worker: execution.worker.clone(),
        outcome: execution.outcome.map(|outcome| outcome.as_str().to_owned()),
        error: execution.error.as_ref().map(error_shown),
    }
}

/// An attempt, as shown.
pub fn attempt(attempt: &Attempt) -> wire::Attempt {
    wire::Attempt {
        attempt: attempt.number,
        fence_token: attempt.fence,
        worker: attempt.worker.clone(),
        started_at: attempt.started_at.to_string(),
        finished_at: attempt.finished_at.map(|at| at.to_string()),
        duration_ms: attempt.finished_at.map(|at| at.ms_since(attempt.started_at)),
        outcome: attempt.outcome.map(|outcome| outcome.as_str().to_owned()),
        error: attempt.error.as_ref().map(error_shown),
        response: attempt.response.as_ref().map(response_shown),
    }
}

fn error_shown(error: &AttemptError) -> wire::AttemptError {
    wire::AttemptError { kind: error.kind.clone(), message: error.message.clone() }
}

fn response_shown(response: &Response) -> wire::Response {
    let (body, encoding) = match text_of(&response.body, response.truncated) {
        Some(text) => (text.to_owned(), "TEXT"),
        None => (STANDARD.encode(&response.body), "BASE64"),
    };
    let (status, truncated) = (response.status, response.truncated);
    wire::Response { status, body, body_encoding: encoding.to_owned(), truncated }
}

/// The body as text, if it is. One that was cut may end within a character.
fn text_of(body: &[u8], truncated: bool) -> Option<&str> {
    match std::str::from_utf8(body) {
        Ok(text) => Some(text),
        Err(error) if truncated && error.error_len().is_none() => {
            std::str::from_utf8(&body[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// A skip, as shown.
pub fn skip(skip: &Skip) -> wire::Skip {
    wire::Skip {
        job_id: skip.job.to_string(),
        from: skip.from.to_string(),
        to: skip.to.to_string(),
        reason: skip.reason.as_str().to_owned(),
        recorded_at: skip.recorded_at.to_string(),
    }
}

#[cfg(test)]
mod tests;
