//! The fields of a job, and of a question about a schedule, as plain values.

use super::reader::{Reader, Span, capitals};
use super::{Faults, Fields, Form, Pointers, unknown};
use crate::wire::json;
use serde_json::Value;

/// A job, as sent: shapes are checked, meanings are not.
#[derive(Clone, Debug, Default)]
pub struct JobInput {
    /// Its name.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// When.
    pub schedule: ScheduleInput,
    /// What is done.
    pub action: Option<ActionInput>,
    /// JSON text without blanks.
    pub payload: Option<String>,
    /// How it is tried again.
    pub retry: RetryInput,
    /// Time limit of an attempt.
    pub timeout: Option<Span>,
    /// Who goes first, in capitals.
    pub priority: Option<String>,
    /// Which capacity executes it.
    pub pool: Option<String>,
    /// How long it takes: a duration, or the words `short` and `long` as a text.
    pub estimated_duration: Option<Span>,
    /// What happens to missed fires.
    pub catch_up: CatchUpInput,
    /// What happens to runs that would overlap, in capitals.
    pub overlap: Option<String>,
    /// What it is expected to do.
    pub expect: ExpectInput,
    /// When it does not fire.
    pub blackouts: Vec<BlackoutInput>,
    /// Width within which fires are moved.
    pub spread: Option<Span>,
    /// Labels.
    pub tags: Vec<String>,
    /// Whether it is paused.
    pub paused: Option<bool>,
    /// The item's own key, in a batch.
    pub idempotency_key: Option<String>,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// When, as sent.
#[derive(Clone, Debug, Default)]
pub struct ScheduleInput {
    /// What kind the sender says it is, in capitals.
    pub kind: Option<String>,
    /// The whole schedule as one text.
    pub text: Option<String>,
    /// A cron expression.
    pub cron: Option<String>,
    /// Its zone.
    pub timezone: Option<String>,
    /// Its rule for gaps, in lower case.
    pub dst_gap: Option<String>,
    /// Its rule for folds, in lower case.
    pub dst_fold: Option<String>,
    /// A period.
    pub every: Option<Span>,
    /// Its phase.
    pub phase: Option<Span>,
    /// An instant, RFC 3339.
    pub at: Option<String>,
    /// Whether it may be past.
    pub allow_past: bool,
    /// A delay.
    pub after: Option<Span>,
    /// No fire before this instant.
    pub starts_at: Option<String>,
    /// No fire after this instant.
    pub ends_at: Option<String>,
    /// No more fires than this.
    pub max_fires: Option<u64>,
}

/// What is done, as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActionInput {
    /// Its type, in capitals.
    pub kind: String,
    /// JSON text of an object: the fields of that type.
    pub config: String,
}

/// How it is tried again, as sent.
#[derive(Clone, Debug, Default)]
pub struct RetryInput {
    /// Tries in all.
    pub max_attempts: Option<u64>,
    /// How the delay grows, in capitals.
    pub backoff: Option<String>,
    /// Delay after the first attempt.
    pub initial_delay: Option<Span>,
    /// Longest delay.
    pub max_delay: Option<Span>,
    /// All attempts and the waits between them together.
    pub total_timeout: Option<Span>,
}

/// What happens to missed fires, as sent.
#[derive(Clone, Debug, Default)]
pub struct CatchUpInput {
    /// Which of them run, in capitals.
    pub mode: Option<String>,
    /// How many.
    pub n: Option<u64>,
    /// Those older than this do not.
    pub max_age: Option<Span>,
    /// At least this long between their starts.
    pub drip: Option<Span>,
}

/// What a job is expected to do, as sent.
#[derive(Clone, Debug, Default)]
pub struct ExpectInput {
    /// From due to the first start.
    pub start_within: Option<Span>,
    /// From due to the end.
    pub finish_within: Option<Span>,
    /// At least one success in every such period.
    pub success_every: Option<Span>,
}

/// A range in which a job does not fire, as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlackoutInput {
    /// First instant, RFC 3339.
    pub from: String,
    /// Last instant, exclusive.
    pub to: String,
}

impl Fields {
    /// The fields of a job as plain values.
    pub fn into_job(mut self, faults: &mut Faults) -> JobInput {
        let mut take = Reader { fields: &mut self, faults };
        let paused = take.flag("/paused").or_else(|| take.word("/state").map(|state| state == "PAUSED"));
        JobInput {
            name: take.text("/name"),
            description: take.text("/description"),
            schedule: take.schedule(),
            action: take.action(),
            payload: take.fields.entries.remove("/payload").map(|entry| entry.raw),
            retry: RetryInput {
                max_attempts: take.attempts("/retry_policy/max_attempts"),
                backoff: take.word("/retry_policy/backoff"),
                initial_delay: take.span("/retry_policy/initial_delay_ms"),
                max_delay: take.span("/retry_policy/max_delay_ms"),
                total_timeout: take.span("/retry_policy/total_timeout_ms"),
            },
            timeout: take.span("/timeout_ms"),
            priority: take.word("/priority"),
            pool: take.text("/pool"),
            estimated_duration: take.span("/estimated_duration"),
            catch_up: take.catch_up(),
            overlap: take.word("/overlap"),
            expect: ExpectInput {
                start_within: take.span("/expect/start_within_ms"),
                finish_within: take.span("/expect/finish_within_ms"),
                success_every: take.span("/expect/success_every_ms"),
            },
            blackouts: take.blackouts(),
            spread: take.span("/spread_ms"),
            tags: take.texts("/tags"),
            paused,
            idempotency_key: take.text("/idempotency_key"),
            pointers: {
                take.object_only("/retry_policy");
                take.object_only("/expect");
                std::mem::take(&mut self.pointers)
            },
        }
    }

    /// The fields of a question: its schedule, `name`, `from` and `count`.
    pub fn into_question(
        mut self,
        faults: &mut Faults,
    ) -> (ScheduleInput, Option<String>, Option<String>, Option<u64>, Pointers) {
        let mut take = Reader { fields: &mut self, faults };
        let question = (take.schedule(), take.text("/name"), take.text("/from"), take.count("/count"));
        (question.0, question.1, question.2, question.3, self.pointers)
    }
}

impl Reader<'_> {
    fn attempts(&mut self, canonical: &str) -> Option<u64> {
        let retries = self.fields.entries.get(canonical).is_some_and(|entry| matches!(entry.form, Form::Retries));
        self.count(canonical).map(|count| count.saturating_add(u64::from(retries)))
    }

    fn schedule(&mut self) -> ScheduleInput {
        ScheduleInput {
            kind: self.word("/schedule/type"),
            text: match self.value("/schedule") {
                Some((Value::String(text), _)) => Some(text),
                Some((other, _)) => self.wrong_type("/schedule", "a string or an object", &other),
                None => None,
            },
            cron: self.text("/schedule/cron"),
            timezone: self.text("/schedule/timezone"),
            dst_gap: self.word("/schedule/dst_gap").map(|word| word.to_ascii_lowercase()),
            dst_fold: self.word("/schedule/dst_fold").map(|word| word.to_ascii_lowercase()),
            every: self.span("/schedule/every"),
            phase: self.span("/schedule/phase"),
            at: self.text("/schedule/at"),
            allow_past: self.flag("/schedule/allow_past").unwrap_or_default(),
            after: self.span("/schedule/after"),
            starts_at: self.text("/starts_at"),
            ends_at: self.text("/ends_at"),
            max_fires: self.count("/max_fires"),
        }
    }

    fn action(&mut self) -> Option<ActionInput> {
        let raw = self.fields.entries.remove("/action")?.raw;
        let Some(members) = json::members(&raw) else {
            let value = serde_json::from_str(&raw).unwrap_or_default();
            return self.wrong_type("/action", "an object such as {\"type\": \"WEBHOOK\", \"url\": ...}", &value);
        };
        let mut kind = Value::Null;
        let mut config = Vec::with_capacity(members.len());
        for (key, value) in members {
            match key.as_str() {
                "type" => kind = serde_json::from_str(value).unwrap_or_default(),
                _ => config.push((key, value.to_owned())),
            }
        }
        match kind {
            Value::String(kind) => {
                Some(ActionInput { kind: capitals(&kind), config: json::object(config.into_iter()) })
            }
            Value::Null => {
                self.refuse("/action", "action_type_missing", "the action has no `type`: WEBHOOK, WORKER or NOOP");
                None
            }
            other => self.wrong_type("/action/type", "a string", &other),
        }
    }

    fn catch_up(&mut self) -> CatchUpInput {
        // The whole policy as one word, or a switch as other schedulers have it.
        let whole = match self.value("/catch_up") {
            Some((Value::String(word), _)) => Some(capitals(&word)),
            Some((Value::Bool(all), _)) => Some(if all { "ALL" } else { "NONE" }.to_owned()),
            Some((other, _)) => self.wrong_type("/catch_up", "a string or an object", &other),
            None => None,
        };
        CatchUpInput {
            mode: whole.or_else(|| self.word("/catch_up/mode")),
            n: self.count("/catch_up/n"),
            max_age: self.span("/catch_up/max_age_ms"),
            drip: self.span("/catch_up/drip_ms"),
        }
    }

    fn blackouts(&mut self) -> Vec<BlackoutInput> {
        let items = match self.value("/blackouts") {
            Some((Value::Array(items), _)) => items,
            Some((other, _)) => {
                return self.wrong_type("/blackouts", "an array of objects", &other).unwrap_or_default();
            }
            None => return Vec::new(),
        };
        items.into_iter().enumerate().filter_map(|(i, item)| self.blackout(i, item)).collect()
    }

    fn blackout(&mut self, i: usize, item: Value) -> Option<BlackoutInput> {
        const NAMES: [&str; 2] = ["from", "to"];
        let at = format!("/blackouts/{i}");
        let Value::Object(mut members) = item else {
            return self.wrong_type(&at, "an object with `from` and `to`", &item);
        };
        let mut ends = NAMES.map(|name| match members.remove(name) {
            Some(Value::String(text)) => Some(text),
            Some(other) => self.wrong_type(&format!("{at}/{name}"), "a string", &other),
            None => {
                self.refuse(&at, "blackout_invalid", format!("a blackout needs `{name}`"));
                None
            }
        });
        if let Some(odd) = members.keys().next() {
            let sent = self.fields.pointers.sent(&at);
            self.faults.add(unknown(&sent, odd, NAMES.into_iter()));
        }
        Some(BlackoutInput { from: ends[0].take()?, to: ends[1].take()? })
    }
}
