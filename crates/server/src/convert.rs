//! Between the wire and the domain: what was sent into a draft (here), and what is stored into what is shown (`show`).

mod show;

use campanile_client::wire::FieldProblem;
use campanile_client::wire::input::{CatchUpInput, Faults, JobInput, Pointers, ScheduleInput, Span};
use campanile_engine::intake::JobDraft;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::job::{POOL_LONG, POOL_SHORT, Priority, Window};
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::{DstFold, DstGap, Schedule, ScheduleError, parse_duration_ms, parse_text};
use campanile_model::{Timestamp, limits};
use std::str::FromStr;

pub(crate) use show::action_whole;
use show::schedule_kind;
pub use show::{attempt, execution, job, job_preview, next_fires, schedule_shown, skip};

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

#[cfg(test)]
mod tests;
