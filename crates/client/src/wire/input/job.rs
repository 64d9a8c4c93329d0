//! The fields of a request as plain values.

use super::{Entry, Faults, Fields, Form, Pointers};
use crate::wire::{FieldProblem, json};
use serde_json::Value;

/// A job, as sent: shapes are checked, meanings are not.
#[derive(Clone, Debug, Default)]
pub struct JobInput {
    /// Its name.
    pub name: Option<String>,
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
    /// `SHORT` or `LONG`, in capitals.
    pub estimated_duration: Option<String>,
    /// What happens to missed fires.
    pub catch_up: CatchUpInput,
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
}

/// A duration, as sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// A number of milliseconds.
    Ms(u64),
    /// A text such as `30s`.
    Text(String),
}

impl Fields {
    /// The fields of a job as plain values.
    pub fn into_job(mut self, faults: &mut Faults) -> JobInput {
        let mut take = Reader { fields: &mut self, faults };
        let paused = take.flag("/paused").or_else(|| take.word("/state").map(|state| state == "PAUSED"));
        JobInput {
            name: take.text("/name"),
            schedule: take.schedule(),
            action: take.action(),
            payload: take.fields.entries.remove("/payload").map(|entry| entry.raw),
            retry: RetryInput {
                max_attempts: take.attempts("/retry_policy/max_attempts"),
                backoff: take.word("/retry_policy/backoff"),
                initial_delay: take.span("/retry_policy/initial_delay_ms"),
                max_delay: take.span("/retry_policy/max_delay_ms"),
            },
            timeout: take.span("/timeout_ms"),
            priority: take.word("/priority"),
            pool: take.text("/pool"),
            estimated_duration: take.word("/estimated_duration"),
            catch_up: take.catch_up(),
            spread: take.span("/spread_ms"),
            tags: take.tags(),
            paused,
            idempotency_key: take.text("/idempotency_key"),
            pointers: {
                take.object_only("/retry_policy");
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

struct Reader<'a> {
    fields: &'a mut Fields,
    faults: &'a mut Faults,
}

impl Reader<'_> {
    /// The value of a field, unless it is absent or null.
    fn value(&mut self, canonical: &str) -> Option<(Value, Form)> {
        let Entry { raw, form } = self.fields.entries.remove(canonical)?;
        match serde_json::from_str(&raw) {
            Ok(Value::Null) => None,
            Ok(value) => Some((value, form)),
            Err(_) => {
                self.refuse(canonical, "number_invalid", "this number is out of range");
                None
            }
        }
    }

    fn refuse(&mut self, canonical: &str, code: &str, message: impl Into<String>) {
        self.faults.add(FieldProblem::new(self.fields.pointers.sent(canonical), code, message));
    }

    fn wrong_type<T>(&mut self, canonical: &str, expected: &str, got: &Value) -> Option<T> {
        self.refuse(canonical, "wrong_type", format!("expected {expected}, got {}", describe(got)));
        None
    }

    fn text(&mut self, canonical: &str) -> Option<String> {
        match self.value(canonical)?.0 {
            Value::String(text) => Some(text),
            other => self.wrong_type(canonical, "a string", &other),
        }
    }

    /// A word of a fixed set, in capitals, with `-` and blanks as `_`.
    fn word(&mut self, canonical: &str) -> Option<String> {
        self.text(canonical).map(|word| capitals(&word))
    }

    fn flag(&mut self, canonical: &str) -> Option<bool> {
        match self.value(canonical)?.0 {
            Value::Bool(flag) => Some(flag),
            other => self.wrong_type(canonical, "true or false", &other),
        }
    }

    fn count(&mut self, canonical: &str) -> Option<u64> {
        match self.value(canonical)?.0 {
            Value::Number(number) if number.as_u64().is_some() => number.as_u64(),
            other => self.wrong_type(canonical, "a whole number that is not negative", &other),
        }
    }

    fn attempts(&mut self, canonical: &str) -> Option<u64> {
        let retries = self.fields.entries.get(canonical).is_some_and(|entry| matches!(entry.form, Form::Retries));
        self.count(canonical).map(|count| count.saturating_add(u64::from(retries)))
    }

    fn span(&mut self, canonical: &str) -> Option<Span> {
        let (value, form) = self.value(canonical)?;
        match (&value, form) {
            (Value::String(text), _) => Some(Span::Text(text.clone())),
            (Value::Number(number), Form::Span(unit)) => {
                let ms = match (number.as_u64(), number.as_f64()) {
                    (Some(whole), _) => whole.checked_mul(unit),
                    // Half a second is a duration; half a millisecond is not.
                    (None, Some(part)) if unit > 1 && (0.0..1e15).contains(&part) => {
                        Some((part * unit as f64).round() as u64)
                    }
                    _ => None,
                };
                if ms.is_none() {
                    self.refuse(canonical, "duration_invalid", format!("{number} is not a duration that can be used"));
                }
                ms.map(Span::Ms)
            }
            (Value::Number(number), _) => {
                let name = self.fields.pointers.sent(canonical);
                let name = name.rsplit('/').next().unwrap_or_default().to_owned();
                let fault = FieldProblem::new(
                    self.fields.pointers.sent(canonical),
                    "unit_missing",
                    format!("{number} has no unit"),
                );
                self.faults.add(fault.hint(format!("write \"{number}s\", or send `{name}_ms` in milliseconds")));
                None
            }
            (other, _) => self.wrong_type(canonical, "a duration such as \"30s\"", other),
        }
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
        }
    }

    fn tags(&mut self) -> Vec<String> {
        let tags = match self.value("/tags") {
            Some((Value::Array(tags), _)) => tags,
            Some((other, _)) => {
                return self.wrong_type("/tags", "an array of strings", &other).unwrap_or_default();
            }
            None => return Vec::new(),
        };
        let mut texts = Vec::with_capacity(tags.len());
        for (i, tag) in tags.into_iter().enumerate() {
            match tag {
                Value::String(tag) => texts.push(tag),
                other => {
                    let _: Option<()> = self.wrong_type(&format!("/tags/{i}"), "a string", &other);
                }
            }
        }
        texts
    }

    /// Refuses a group that was sent as something else than an object.
    fn object_only(&mut self, canonical: &str) {
        if let Some((other, _)) = self.value(canonical) {
            let _: Option<()> = self.wrong_type(canonical, "an object", &other);
        }
    }
}

fn capitals(word: &str) -> String {
    word.trim().chars().map(|c| if c == '-' || c == ' ' { '_' } else { c.to_ascii_uppercase() }).collect()
}

fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            format!("\"{}\"", text.chars().take(40).flat_map(char::escape_debug).collect::<String>())
        }
        Value::Array(_) => "an array".into(),
        Value::Object(_) => "an object".into(),
    }
}
