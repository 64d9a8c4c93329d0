//! What people send, read leniently in one place.
//!
//! Two dialects are in use, and mixtures of them: snake_case and camelCase, `action` and `target`, `max_attempts` and
//! `max_retries`, a schedule as a string, as an object, or spread over the top level. The tables in `names` have every spelling
//! and the one field it stands for; [`Fields`] applies them, and [`JobInput`] is what comes out. Keys are only
//! touched at these known levels, never inside a payload, a body or headers.
//!
//! Nothing is guessed: an unknown name is refused with the nearest known one, and a field said twice (in one spelling or
//! in two) is refused too. All faults are collected, with JSON pointers in the spelling of the sender.

mod names;
mod reader;
mod job;
mod requests;
pub mod worker;

use super::{FieldProblem, json};
use names::Form::{Action, Group, Ignored, Plain, Target};
use names::{Form, JOB, Name, QUESTION, SCHEDULE_KINDS, TARGET};
use std::collections::BTreeMap;

pub use job::{ActionInput, BlackoutInput, CatchUpInput, ExpectInput, JobInput, RetryInput, ScheduleInput};
pub use reader::Span;
pub use requests::{
    BackfillInput, CancelInput, DiscardInput, EndpointInput, PauseInput, PoolInput, RateInput, ReplayInput,
    RevertInput, Selection, TargetInput,
};

/// Faults collected at most; a request with more is wrong enough.
const FAULTS_MAX: usize = 64;

/// Fields of an action at most; none has nearly as many.
const ACTION_FIELDS_MAX: usize = 64;

/// The code of a field that does not exist.
pub const UNKNOWN_FIELD: &str = "field_unknown";

/// One value, as sent.
#[derive(Clone, Debug)]
struct Entry {
    /// JSON text.
    raw: String,
    form: Form,
}

/// The fields of a request under their one name, before they are read.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    entries: BTreeMap<&'static str, Entry>,
    pointers: Pointers,
}

/// Where each field stood in the request.
#[derive(Clone, Debug, Default)]
pub struct Pointers(BTreeMap<String, String>);

/// Faults found so far.
#[derive(Clone, Debug, Default)]
pub struct Faults(Vec<FieldProblem>);

impl Pointers {
    /// The pointer in the sender's spelling to the field that we call `pointer`.
    pub fn sent(&self, pointer: &str) -> String {
        let mut head = pointer;
        loop {
            if let Some(sent) = self.0.get(head) {
                return format!("{sent}{}", &pointer[head.len()..]);
            }
            match head.rfind('/') {
                Some(at) if at > 0 => head = &head[..at],
                _ => return pointer.to_owned(),
            }
        }
    }
}

impl Pointers {
    /// Whether the request has the field that we call `pointer`.
    pub fn knows(&self, pointer: &str) -> bool {
        self.0.contains_key(pointer)
    }
}

impl Faults {
    /// Adds one.
    pub fn add(&mut self, fault: FieldProblem) {
        if !self.is_full() {
            self.0.push(fault);
        }
    }

    /// Whether further ones would be dropped.
    fn is_full(&self) -> bool {
        self.0.len() >= FAULTS_MAX
    }

    /// All of them.
    pub fn into_vec(self) -> Vec<FieldProblem> {
        self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is one about the field at `pointer`, or within it.
    pub fn are_about(&self, pointer: &str) -> bool {
        let within = |fault: &FieldProblem| {
            fault.pointer.strip_prefix(pointer).is_some_and(|r| r.is_empty() || r.starts_with('/'))
        };
        self.0.iter().any(within)
    }
}

impl Fields {
    /// Reads the fields of a job. `text` must have passed [`json::check`].
    pub fn job(text: &str, faults: &mut Faults) -> Fields {
        Self::read(text, JOB, faults)
    }

    /// Reads the fields of a question about a schedule.
    pub fn question(text: &str, faults: &mut Faults) -> Fields {
        Self::read(text, QUESTION, faults)
    }

    fn read(text: &str, names: &'static [Name], faults: &mut Faults) -> Fields {
        let mut fields = Fields::default();
        match json::members(text) {
            Some(members) => fields.level(members, names, "", faults),
            None => faults.add(FieldProblem::new("", "wrong_type", "the body must be a JSON object")),
        }
        fields
    }

    fn level(&mut self, members: Vec<(String, &str)>, names: &'static [Name], at: &str, faults: &mut Faults) {
        for (key, raw) in members {
            if faults.is_full() {
                return;
            }
            let pointer = format!("{at}/{}", escape(&key));
            let snake = snake_key(&key);
            let Some(&(_, canonical, form)) = names.iter().find(|(name, ..)| *name == snake) else {
                faults.add(unknown(&pointer, &key, names.iter().map(|(name, ..)| *name)));
                continue;
            };
            match form {
                Ignored => {}
                Group(inner) => match json::members(raw) {
                    Some(members) => {
                        self.pointers.0.entry(canonical.to_owned()).or_insert_with(|| pointer.clone());
                        self.level(members, inner, &pointer, faults);
                    }
                    None => self.put(canonical, raw, Plain, pointer, faults),
                },
                Action => self.action(raw, pointer, faults),
                Target => self.target(raw, pointer, faults),
                _ => self.put(canonical, raw, form, pointer, faults),
            }
        }
    }

    fn put(&mut self, canonical: &'static str, raw: &str, form: Form, pointer: String, faults: &mut Faults) {
        if self.entries.contains_key(canonical) {
            let first = self.pointers.sent(canonical);
            let message = if first == pointer {
                "this field occurs twice".to_owned()
            } else {
                format!("`{}` and `{}` say the same thing; send one of them", tail(&first), tail(&pointer))
            };
            faults.add(FieldProblem::new(pointer, "field_duplicate", message));
            return;
        }
        if canonical == "/schedule" {
            // A schedule in one text: whatever is wrong with it is wrong there.
            for kind in SCHEDULE_KINDS {
                self.pointers.0.insert(kind.to_owned(), pointer.clone());
            }
        }
        self.entries.insert(canonical, Entry { raw: json::compact(raw), form });
        self.pointers.0.insert(canonical.to_owned(), pointer);
    }

    /// An action: its type in capitals first, then its own fields under their snake_case names, values untouched.
    fn action(&mut self, raw: &str, pointer: String, faults: &mut Faults) {
        let Some(members) = json::members(raw) else {
            self.put("/action", raw, Plain, pointer, faults);
            return;
        };
        if members.len() > ACTION_FIELDS_MAX {
            let message = format!("an action has at most {ACTION_FIELDS_MAX} fields, got {}", members.len());
            faults.add(FieldProblem::new(pointer.clone(), "action_invalid", message));
            self.pointers.0.insert("/action".into(), pointer);
            return;
        }
        let mut kind = None;
        let mut config: Vec<(String, String)> = Vec::new();
        for (key, value) in members {
            let (snake, sent) = (snake_key(&key), format!("{pointer}/{}", escape(&key)));
            match snake.as_str() {
                "type" | "kind" if kind.is_none() => {
                    self.pointers.0.insert("/action/type".into(), sent.clone());
                    kind = Some(json::compact(value));
                }
                "pool" => self.put("/pool", value, Plain, sent, faults),
                _ if config.iter().any(|(name, _)| *name == snake) || snake == "type" || snake == "kind" => {
                    faults.add(FieldProblem::new(sent, "field_duplicate", "this field occurs twice"));
                }
                _ => {
                    self.pointers.0.insert(format!("/action/{}", escape(&snake)), sent);
                    config.push((snake, json::compact(value)));
                }
            }
        }
        let has = |name: &str| config.iter().any(|(key, _)| key == name);
        let kind = match kind {
            Some(kind) => kind,
            None if has("url") => "\"WEBHOOK\"".into(),
            None if has("handler") => "\"WORKER\"".into(),
            None => "null".into(),
        };
        config.insert(0, ("type".into(), kind));
        self.put("/action", &json::object(config.into_iter()), Plain, pointer, faults);
    }

    /// A target: a worker's handler, and the pool that it is in.
    fn target(&mut self, raw: &str, pointer: String, faults: &mut Faults) {
        if raw.trim_start().starts_with('"') {
            // Whom a job is done to, as it is shown: it follows from the action.
            return;
        }
        let Some(members) = json::members(raw) else {
            self.put("/action", raw, Plain, pointer, faults);
            return;
        };
        let mut action = vec![("type".to_owned(), "\"WORKER\"".to_owned())];
        for (key, value) in members {
            let (snake, sent) = (snake_key(&key), format!("{pointer}/{}", escape(&key)));
            match snake.as_str() {
                "pool" => self.put("/pool", value, Plain, sent, faults),
                "handler" if action.len() == 1 => {
                    self.pointers.0.insert("/action/handler".into(), sent);
                    action.push((snake, json::compact(value)));
                }
                "handler" => faults.add(FieldProblem::new(sent, "field_duplicate", "this field occurs twice")),
                _ => faults.add(unknown(&sent, &key, TARGET.iter().copied())),
            }
        }
        self.put("/action", &json::object(action.into_iter()), Plain, pointer, faults);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Names the job, where the request does not.
    pub fn name_or(&mut self, name: &str) {
        self.entries.entry("/name").or_insert_with(|| Entry { raw: json::string(name), form: Plain });
    }

    /// Applies a merge patch (RFC 7396), whose fields were read like those of a job. Two liberties, since the literal
    /// result would be refused: another kind of schedule takes the place of the old one, and so does another type of
    /// action.
    pub fn patch(&mut self, patch: Fields) {
        for (canonical, entry) in patch.entries {
            let old = self.entries.get(canonical).map(|old| old.raw.clone());
            let raw = match (canonical, old) {
                _ if entry.raw == "null" => {
                    let below = format!("{canonical}/");
                    self.entries.retain(|key, _| *key != canonical && !key.starts_with(&below));
                    if canonical == "/schedule" {
                        self.entries.retain(|key, _| !["/starts_at", "/ends_at", "/max_fires"].contains(key));
                    }
                    continue;
                }
                ("/action", Some(old)) if action_type(&old) == action_type(&entry.raw) => {
                    json::merge_patch(&old, &entry.raw)
                }
                ("/action", Some(old)) if action_type(&entry.raw).is_none() => {
                    json::merge_patch(&old, &drop_type(&entry.raw))
                }
                ("/payload", Some(old)) => json::merge_patch(&old, &entry.raw),
                ("/payload", None) => json::merge_patch("null", &entry.raw),
                _ => entry.raw,
            };
            if SCHEDULE_KINDS.contains(&canonical) || canonical == "/schedule" {
                self.entries.remove("/schedule");
                self.entries.remove("/schedule/type");
                self.entries.retain(|key, _| !SCHEDULE_KINDS.contains(key) || *key == canonical);
                if canonical != "/schedule/every" {
                    self.entries.remove("/schedule/phase");
                }
            }
            if canonical == "/catch_up" {
                self.entries.retain(|key, _| !key.starts_with("/catch_up/"));
            }
            if canonical == "/paused" {
                self.entries.remove("/state");
            }
            if canonical == "/state" {
                self.entries.remove("/paused");
            }
            if canonical == "/estimated_duration" {
                self.entries.remove("/pool");
            }
            self.entries.insert(canonical, Entry { raw, form: entry.form });
        }
        self.pointers = patch.pointers;
    }
}

fn action_type(raw: &str) -> Option<String> {
    let kind = json::members(raw)?.into_iter().find(|(key, _)| key == "type")?.1;
    serde_json::from_str::<String>(kind).ok().map(|kind| kind.to_ascii_uppercase())
}

fn drop_type(raw: &str) -> String {
    let members = json::members(raw).unwrap_or_default();
    json::object(members.into_iter().filter(|(key, _)| key != "type").map(|(key, value)| (key, value.to_owned())))
}

/// `maxAttempts` and `max-attempts` as `max_attempts`.
fn snake_key(key: &str) -> String {
    if key.len() > 64 {
        return key.to_owned();
    }
    if !key.contains(|c: char| c.is_ascii_lowercase()) {
        return key.to_ascii_lowercase();
    }
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        match c {
            'A'..='Z' => {
                if !out.is_empty() && !out.ends_with('_') {
                    out.push('_');
                }
                out.push(c.to_ascii_lowercase());
            }
            '-' => out.push('_'),
            _ => out.push(c),
        }
    }
    out
}

/// A key within a JSON pointer, cut to a readable length.
fn escape(key: &str) -> String {
    let cut: String = key.chars().take(64).collect();
    cut.replace('~', "~0").replace('/', "~1")
}

fn tail(pointer: &str) -> &str {
    pointer.trim_start_matches('/')
}

fn unknown(pointer: &str, key: &str, known: impl Iterator<Item = &'static str>) -> FieldProblem {
    let shown: String = key.chars().take(64).flat_map(char::escape_debug).collect();
    let fault = FieldProblem::new(pointer, UNKNOWN_FIELD, format!("there is no field `{shown}`"));
    match nearest(&snake_key(key), known) {
        Some(name) => fault.hint(format!("did you mean `{name}`?")),
        None => fault,
    }
}

/// The known name that is nearest to what was written, if one is near.
pub fn nearest<'a>(written: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if written.len() > 64 {
        return None;
    }
    let scored = known.map(|name| (distance(written, name), name));
    scored.min_by_key(|(score, _)| *score).filter(|(score, name)| *score <= 1 + name.len() / 4).map(|(_, name)| name)
}

/// Edits from one word to the other.
pub fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
