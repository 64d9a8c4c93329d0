//! Between the wire and the domain: what was sent into a draft (here), and what is stored into what is shown (`job`,
//! `execution`).

mod schedule;
mod requests;
mod job;
mod execution;
pub(crate) mod pull;

use campanile_client::wire::FieldProblem;
use campanile_client::wire::input::{CatchUpInput, Faults, JobInput, Pointers, ScheduleInput, Span};
use campanile_engine::accept::Draft;
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::job::{Blackout, Definition, POOL_LONG, POOL_SHORT, Priority, Window};
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::schedule::{Schedule, ScheduleError, parse_duration_ms};
use campanile_model::{Timestamp, limits};

pub use execution::{attempt, execution, executions, log_entry, progress, skip};
pub(crate) use job::action_whole;
pub use job::{job, job_preview, job_version, next_fires, schedule_shown};
pub(crate) use requests::{Chosen, fingerprint_digits, instant_near, term};

/// A job that takes longer than this is long.
const LONG_MS: u64 = 30_000;

/// Reads meanings, and collects what is wrong with them at the pointers of the sender.
pub struct Reader<'a> {
    pointers: &'a Pointers,
    faults: &'a mut Faults,
}

/// The draft that was sent. Where `faults` has something about a field, the draft has a harmless value in its place, so that
/// the engine can still look for faults in the others.
pub fn draft(input: &JobInput, faults: &mut Faults) -> Draft {
    let mut read = Reader { pointers: &input.pointers, faults };
    // Where a field was sent and is wrong, its own fault is recorded already.
    if input.name.is_none() && !read.faults.are_about(&input.pointers.sent("/name")) {
        read.refuse("/name", "name_missing", "a job needs a `name`");
    }
    let noop = || ActionSpec { kind: ActionKind::Noop, config: "{}".into() };
    let definition = Definition {
        name: input.name.clone().unwrap_or_else(|| "unnamed".to_owned()),
        description: input.description.clone().unwrap_or_default(),
        schedule: read.schedule(&input.schedule).unwrap_or(Schedule::None),
        window: read.window(&input.schedule).unwrap_or_default(),
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
        overlap: read
            .word("/overlap", "overlap_invalid", &input.overlap, &Overlap::ALL, Overlap::as_str)
            .flatten()
            .unwrap_or_default(),
        expect: read.expect(input).unwrap_or_default(),
        blackouts: read.blackouts(input).into(),
        tags: input.tags.clone(),
    };
    Draft { definition, allow_past: input.schedule.allow_past, paused: input.paused.unwrap_or_default() }
}

/// The schedule that was sent with a question, or nothing where `faults` says why.
pub fn schedule(input: &ScheduleInput, pointers: &Pointers, faults: &mut Faults) -> Option<Schedule> {
    Reader { pointers, faults }.schedule(input)
}

/// The bounds that were sent with a question, or nothing where `faults` says why.
pub fn window(input: &ScheduleInput, pointers: &Pointers, faults: &mut Faults) -> Option<Window> {
    Reader { pointers, faults }.window(input)
}

impl Reader<'_> {
    pub(crate) fn refuse(&mut self, canonical: &str, code: &str, message: impl Into<String>) {
        self.faults.add(FieldProblem::new(self.pointers.sent(canonical), code, message));
    }

    fn refuse_schedule<T>(&mut self, canonical: &str, error: ScheduleError) -> Option<T> {
        let ScheduleError { message, position, hint, code } = error;
        let pointer = self.pointers.sent(canonical);
        self.faults.add(FieldProblem { pointer, code: code.to_owned(), message, hint, position });
        None
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

    /// `None` is a fault, `Some(None)` is nothing sent.
    fn optional_span(&mut self, canonical: &str, span: &Option<Span>) -> Option<Option<u64>> {
        match span {
            Some(span) => self.span_of(canonical, span).map(Some),
            None => Some(None),
        }
    }

    fn span_of(&mut self, canonical: &str, span: &Span) -> Option<u64> {
        duration_ms(span).map_or_else(|error| self.refuse_schedule(canonical, error), Some)
    }

    /// One of a set of words. `None` is a fault, `Some(None)` is nothing sent.
    pub(crate) fn word<T: Copy>(
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
        let total = self.optional_span("/retry_policy/total_timeout_ms", &retry.total_timeout);
        let (initial_delay_ms, mut max_delay_ms) = (initial?, longest?);
        if retry.max_delay.is_none() {
            // Where only the first delay was sent, the longest is no shorter.
            max_delay_ms = max_delay_ms.max(initial_delay_ms);
        }
        let backoff = backoff?.unwrap_or_default();
        let (max_attempts, total_timeout_ms) = (max_attempts?, total?);
        Some(RetryPolicy { max_attempts, backoff, initial_delay_ms, max_delay_ms, total_timeout_ms })
    }

    fn pool(&mut self, input: &JobInput) -> Option<String> {
        let by_duration = match &input.estimated_duration {
            None => None,
            Some(Span::Text(word)) if word.trim().eq_ignore_ascii_case("short") => Some(POOL_SHORT),
            Some(Span::Text(word)) if word.trim().eq_ignore_ascii_case("long") => Some(POOL_LONG),
            Some(span) => match duration_ms(span) {
                Ok(ms) if ms > LONG_MS => Some(POOL_LONG),
                Ok(_) => Some(POOL_SHORT),
                Err(error) => {
                    let message = format!("estimated_duration must be short, long or a duration: {}", error.message);
                    self.refuse("/estimated_duration", "estimated_duration_invalid", message);
                    return None;
                }
            },
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
        let drip_ms = self.span("/catch_up/drip_ms", &input.drip, default.drip_ms);
        let n = input.n.map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        let mode = match (input.mode.as_deref(), n) {
            (None, None) => default.mode,
            (Some("NONE"), None) => CatchUpMode::None,
            (Some("LAST"), None) => CatchUpMode::Last,
            (Some("ALL"), None) => CatchUpMode::All,
            (Some("COALESCED" | "COALESCE"), None) => CatchUpMode::Coalesced,
            (Some("LAST_N") | None, Some(n)) if (1..=limits::CATCH_UP_FIRES_MAX as u32).contains(&n) => {
                CatchUpMode::LastN(n)
            }
            (Some("LAST_N") | None, _) => {
                let message = format!("LAST_N needs `n`, 1 to {}", limits::CATCH_UP_FIRES_MAX);
                self.refuse("/catch_up/n", "catch_up_invalid", message);
                return None;
            }
            (Some("NONE" | "LAST" | "ALL" | "COALESCED" | "COALESCE"), Some(_)) => {
                self.refuse("/catch_up/n", "catch_up_invalid", "`n` belongs to the mode LAST_N");
                return None;
            }
            (Some(other), _) => {
                let message = format!("`{}` is not known: NONE, LAST, ALL, LAST_N or COALESCED", shown(other));
                self.refuse("/catch_up/mode", "catch_up_invalid", message);
                return None;
            }
        };
        Some(CatchUp { mode, max_age_ms: max_age_ms?, drip_ms: drip_ms? })
    }

    fn expect(&mut self, input: &JobInput) -> Option<Expectation> {
        let start = self.optional_span("/expect/start_within_ms", &input.expect.start_within);
        let finish = self.optional_span("/expect/finish_within_ms", &input.expect.finish_within);
        let success = self.optional_span("/expect/success_every_ms", &input.expect.success_every);
        Some(Expectation { start_within_ms: start?, finish_within_ms: finish?, success_every_ms: success? })
    }

    fn blackouts(&mut self, input: &JobInput) -> Vec<Blackout> {
        let mut blackouts = Vec::with_capacity(input.blackouts.len());
        // Beyond the limit they are only counted, by the engine.
        for (i, blackout) in input.blackouts.iter().enumerate().take(limits::BLACKOUTS_MAX + 1) {
            let from = self.instant(&format!("/blackouts/{i}/from"), &blackout.from);
            let to = self.instant(&format!("/blackouts/{i}/to"), &blackout.to);
            blackouts.extend(from.zip(to).map(|(from, to)| Blackout { from, to }));
        }
        blackouts
    }
}

fn duration_ms(span: &Span) -> Result<u64, ScheduleError> {
    match span {
        Span::Ms(ms) => Ok(*ms),
        Span::Text(text) => parse_duration_ms(text),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(64).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests;
