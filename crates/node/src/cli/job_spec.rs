//! The flags that say what a job is, shared by `job create` and `job edit`, and the JSON that they make.
//!
//! JSON from the user (payload, body, files) goes to the server as it was written: it is never read into numbers here,
//! which would lose digits.

use super::exit::Failure;
use super::{duration, duration_ms, when};
use campanile_client::wire::json;
use campanile_model::overlap::Overlap;
use campanile_model::{Timestamp, limits};
use serde_json::value::RawValue;
use std::io::Read;

/// What a job is.
#[derive(clap::Args, Default)]
pub struct Spec {
    /// A cron expression of five or six fields, or @daily and its like
    #[arg(long, value_name = "EXPR", group = "when", help_heading = "When", allow_hyphen_values = true)]
    cron: Option<String>,
    /// A fixed period
    #[arg(long, value_name = "DURATION", group = "when", help_heading = "When", value_parser = duration)]
    every: Option<String>,
    /// Once, at an RFC 3339 instant
    #[arg(long, value_name = "INSTANT", group = "when", help_heading = "When")]
    at: Option<String>,
    /// Once, this long after the job was accepted
    #[arg(long, value_name = "DURATION", group = "when", help_heading = "When", value_parser = duration)]
    after: Option<String>,
    /// Only by hand
    #[arg(long, group = "when", help_heading = "When")]
    manual: bool,
    /// The zone on whose wall clock --cron is read [default: UTC]
    #[arg(long, value_name = "ZONE", help_heading = "When")]
    tz: Option<String>,
    /// Local times that the clock skips: next_valid, shift or skip
    #[arg(long, value_name = "RULE", help_heading = "When")]
    dst_gap: Option<String>,
    /// Local times that the clock shows twice: first, second or both
    #[arg(long, value_name = "RULE", help_heading = "When")]
    dst_fold: Option<String>,
    /// Let --at lie in the past; the job then fires at once
    #[arg(long, help_heading = "When")]
    allow_past: bool,
    /// No fire before this instant
    #[arg(long, value_name = "INSTANT", help_heading = "When")]
    starts_at: Option<String>,
    /// No fire after this instant
    #[arg(long, value_name = "INSTANT", help_heading = "When")]
    ends_at: Option<String>,
    /// No more fires than this
    #[arg(long, value_name = "N", help_heading = "When")]
    max_fires: Option<u32>,
    /// Move the fires by a fixed distance below this, another one for every job
    #[arg(long, value_name = "DURATION", help_heading = "When", value_parser = duration)]
    spread: Option<String>,

    /// Send an HTTP request there
    #[arg(long, value_name = "URL", group = "what", help_heading = "What")]
    webhook: Option<String>,
    /// Do nothing, successfully
    #[arg(long, group = "what", help_heading = "What")]
    noop: bool,
    /// Wait for a worker that has this handler
    #[arg(long, value_name = "NAME", group = "what", help_heading = "What")]
    handler: Option<String>,
    /// Method of the webhook [default: POST]
    #[arg(long, value_name = "METHOD", help_heading = "What")]
    method: Option<String>,
    /// A header of the webhook; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME:VALUE", help_heading = "What")]
    headers: Vec<String>,
    /// JSON to send instead of the payload
    #[arg(long, value_name = "JSON|@FILE|-", help_heading = "What", allow_hyphen_values = true)]
    body: Option<String>,
    /// JSON that is handed to whoever does it
    #[arg(long, value_name = "JSON|@FILE|-", help_heading = "What", allow_hyphen_values = true)]
    payload: Option<String>,

    /// Tries in all; 1 for no retry
    #[arg(long, value_name = "N", help_heading = "How", value_parser = clap::value_parser!(u32).range(1..=limits::ATTEMPTS_MAX as i64))]
    max_attempts: Option<u32>,
    /// How delays grow: fixed, exponential or exponential_with_jitter
    #[arg(long, value_name = "KIND", help_heading = "How")]
    backoff: Option<String>,
    /// Delay after the first attempt
    #[arg(long, value_name = "DURATION", help_heading = "How", value_parser = duration)]
    initial_delay: Option<String>,
    /// Longest delay between attempts
    #[arg(long, value_name = "DURATION", help_heading = "How", value_parser = duration)]
    max_delay: Option<String>,
    /// Time limit of one attempt
    #[arg(long, value_name = "DURATION", help_heading = "How", value_parser = duration_ms)]
    timeout: Option<u64>,
    /// critical, high, normal or low
    #[arg(long, help_heading = "How")]
    priority: Option<String>,
    /// The capacity that executes it
    #[arg(long, help_heading = "How")]
    pool: Option<String>,
    /// Time limit of all attempts together, from the first start; `none` for no limit
    #[arg(long, value_name = "DURATION|none", help_heading = "How", value_parser = duration_or_none)]
    total_timeout: Option<String>,
    /// How long it runs: short, long, or a duration; chooses the pool where --pool does not
    #[arg(long, value_name = "DURATION", help_heading = "How")]
    estimated_duration: Option<String>,
    /// What a run does about another one that is not over: allow, skip, buffer_one, buffer_all, cancel_other or terminate_other
    #[arg(long, value_name = "POLICY", help_heading = "How", value_parser = overlap)]
    overlap: Option<String>,
    /// Missed fires that run: none, last, all, last_n:5 or coalesced
    #[arg(long, value_name = "MODE", help_heading = "How", value_parser = catch_up)]
    catch_up: Option<CatchUp>,
    /// Missed fires older than this do not run
    #[arg(long, value_name = "DURATION", help_heading = "How", alias = "catch-up-max-age", value_parser = duration)]
    max_age: Option<String>,
    /// At least this long between the starts of missed fires
    #[arg(long, value_name = "DURATION", help_heading = "How", value_parser = duration)]
    drip: Option<String>,
    /// Do not fire in this range; may be repeated; `none` for no such range
    #[arg(long = "blackout", value_name = "FROM..TO|none", help_heading = "When", value_parser = blackout)]
    blackouts: Vec<Blackout>,
    /// Tell those who want to hear of `late` when a run has not started so long after it was due; `none` for no telling
    #[arg(long, value_name = "DURATION|none", help_heading = "Expected", value_parser = duration_or_none)]
    expect_start_within: Option<String>,
    /// The same when a run is not over so long after it was due
    #[arg(long, value_name = "DURATION|none", help_heading = "Expected", value_parser = duration_or_none)]
    expect_finish_within: Option<String>,
    /// The same when there was no success for so long
    #[arg(long, value_name = "DURATION|none", help_heading = "Expected", value_parser = duration_or_none)]
    expect_success_every: Option<String>,
    /// What the job is for, in your words; an empty text takes it away
    #[arg(long, value_name = "TEXT", help_heading = "How", allow_hyphen_values = true)]
    description: Option<String>,
    /// A label; may be repeated
    #[arg(long = "tag", value_name = "TAG", help_heading = "How")]
    tags: Vec<String>,
}

/// A mode of catch-up, and how many for `last_n`.
#[derive(Clone, Debug)]
struct CatchUp {
    mode: String,
    n: Option<u32>,
}

fn catch_up(text: &str) -> Result<CatchUp, String> {
    let (mode, n) = match text.split_once(':') {
        Some((mode, n)) => (mode, Some(n.parse().map_err(|_| format!("`{n}` is not a number"))?)),
        None => (text, None),
    };
    let mode = mode.to_ascii_uppercase().replace('-', "_");
    match (mode.as_str(), n) {
        ("NONE" | "LAST" | "ALL" | "COALESCED", None) | ("LAST_N", Some(_)) => Ok(CatchUp { mode, n }),
        _ => Err("one of none, last, all, last_n:5 or coalesced".into()),
    }
}

fn overlap(text: &str) -> Result<String, String> {
    let word = text.to_ascii_uppercase().replace('-', "_");
    if Overlap::ALL.iter().any(|policy| policy.as_str() == word) {
        return Ok(word);
    }
    let known: Vec<String> = Overlap::ALL.iter().map(|policy| policy.as_str().to_ascii_lowercase()).collect();
    Err(format!("one of {}", known.join(", ")))
}

/// A range without fires; `None` says that there is none.
#[derive(Clone, Debug)]
struct Blackout(Option<(Timestamp, Timestamp)>);

fn blackout(text: &str) -> Result<Blackout, String> {
    if text == NONE {
        return Ok(Blackout(None));
    }
    let Some((from, to)) = text.split_once("..") else {
        return Err("two instants with two dots between them, such as 2026-12-24..2026-12-27".into());
    };
    let (from, to) = (when::instant(from)?, when::instant(to)?);
    if from < to { Ok(Blackout(Some((from, to)))) } else { Err("it ends before it starts".into()) }
}

/// What takes a bound away.
const NONE: &str = "none";

fn duration_or_none(text: &str) -> Result<String, String> {
    if text == NONE { Ok(text.to_owned()) } else { duration(text) }
}

/// Members of a JSON object: name and JSON text.
#[derive(Default)]
pub struct Members(Vec<(String, String)>);

impl Members {
    fn text(&mut self, name: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.raw(name, json::string(value));
        }
    }

    /// A text, or null where it says that there is none.
    fn text_or_null(&mut self, name: &str, value: Option<&String>) {
        match value {
            Some(value) if value == NONE => self.raw(name, "null"),
            value => self.text(name, value),
        }
    }

    fn raw(&mut self, name: &str, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    fn number(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.raw(name, value.to_string());
        }
    }

    fn object(&mut self, name: &str, members: Members) {
        if !members.0.is_empty() {
            self.raw(name, members.into_json());
        }
    }

    /// Sets the name of the job.
    pub fn name(&mut self, name: &str) {
        self.0.insert(0, ("name".into(), json::string(name)));
    }

    /// The text of the object.
    pub fn into_json(self) -> String {
        json::object(self.0.into_iter())
    }

    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Spec {
    /// What was said, for a new job. Says what is missing.
    pub fn create(&self) -> Result<Members, Failure> {
        if !self.has_schedule() && !self.manual {
            return Err(Failure::usage("when should it fire? nothing was said")
                .hint("one of --cron EXPR, --every 90s, --at INSTANT, --after 10m, --manual"));
        }
        if self.webhook.is_none() && !self.noop && self.handler.is_none() {
            return Err(Failure::usage("what should it do? nothing was said")
                .hint("one of --webhook URL, --noop, --handler NAME"));
        }
        self.members()
    }

    /// What was said, as a merge patch of a job.
    pub fn patch(&self) -> Result<Members, Failure> {
        let mut members = self.members()?;
        if self.manual {
            members.raw("schedule", "null");
        }
        Ok(members)
    }

    /// With a file that says everything, flags that say something would be lost.
    pub fn refuse_beside_file(&self) -> Result<(), Failure> {
        if self.patch()?.is_empty() {
            return Ok(());
        }
        Err(Failure::usage("the file says what the job is; flags cannot say it too").hint("put it into the file"))
    }

    fn has_schedule(&self) -> bool {
        self.cron.is_some() || self.every.is_some() || self.at.is_some() || self.after.is_some()
    }

    fn members(&self) -> Result<Members, Failure> {
        let mut job = Members::default();
        if !self.manual {
            job.object("schedule", self.schedule());
        }
        job.object("action", self.action()?);
        if let Some(payload) = &self.payload {
            job.raw("payload", read_json("--payload", payload)?);
        }
        let mut retry = Members::default();
        retry.number("max_attempts", self.max_attempts);
        retry.text("backoff", self.backoff.as_ref());
        retry.text("initial_delay", self.initial_delay.as_ref());
        retry.text("max_delay", self.max_delay.as_ref());
        retry.text_or_null("total_timeout", self.total_timeout.as_ref());
        job.object("retry_policy", retry);
        job.number("timeout_ms", self.timeout);
        job.text("priority", self.priority.as_ref());
        job.text("pool", self.pool.as_ref());
        job.text("description", self.description.as_ref());
        job.text("estimated_duration", self.estimated_duration.as_ref());
        job.text("overlap", self.overlap.as_ref());
        let mut catch_up = Members::default();
        if let Some(CatchUp { mode, n }) = &self.catch_up {
            catch_up.text("mode", Some(mode));
            catch_up.number("n", *n);
        }
        catch_up.text("max_age", self.max_age.as_ref());
        catch_up.text("drip", self.drip.as_ref());
        job.object("catch_up", catch_up);
        let mut expect = Members::default();
        expect.text_or_null("start_within", self.expect_start_within.as_ref());
        expect.text_or_null("finish_within", self.expect_finish_within.as_ref());
        expect.text_or_null("success_every", self.expect_success_every.as_ref());
        job.object("expect", expect);
        if !self.blackouts.is_empty() {
            let ranges = self.blackouts.iter().filter_map(|blackout| blackout.0);
            let objects = ranges.map(|(from, to)| format!("{{\"from\":\"{from}\",\"to\":\"{to}\"}}"));
            job.raw("blackouts", format!("[{}]", objects.collect::<Vec<_>>().join(",")));
        }
        job.text("spread", self.spread.as_ref());
        if !self.tags.is_empty() {
            let tags: Vec<String> = self.tags.iter().map(|tag| json::string(tag)).collect();
            job.raw("tags", format!("[{}]", tags.join(",")));
        }
        Ok(job)
    }

    fn schedule(&self) -> Members {
        let mut schedule = Members::default();
        schedule.text("cron", self.cron.as_ref());
        schedule.text("timezone", self.tz.as_ref());
        schedule.text("dst_gap", self.dst_gap.as_ref());
        schedule.text("dst_fold", self.dst_fold.as_ref());
        schedule.text("every", self.every.as_ref());
        schedule.text("at", self.at.as_ref());
        if self.allow_past {
            schedule.raw("allow_past", "true");
        }
        schedule.text("after", self.after.as_ref());
        schedule.text("starts_at", self.starts_at.as_ref());
        schedule.text("ends_at", self.ends_at.as_ref());
        schedule.number("max_fires", self.max_fires);
        schedule
    }

    fn action(&self) -> Result<Members, Failure> {
        let mut action = Members::default();
        let kind = match (&self.webhook, &self.handler, self.noop) {
            (Some(_), ..) => Some("WEBHOOK"),
            (_, Some(_), _) => Some("WORKER"),
            (.., true) => Some("NOOP"),
            _ => None,
        };
        if let Some(kind) = kind {
            action.raw("type", json::string(kind));
        }
        action.text("url", self.webhook.as_ref());
        action.text("handler", self.handler.as_ref());
        action.text("method", self.method.as_ref());
        let mut headers = Members::default();
        for header in &self.headers {
            let Some((name, value)) = header.split_once(':') else {
                let hint = "such as -H 'authorization: Bearer abc'";
                return Err(Failure::usage(format!("-H `{header}` has no colon")).hint(hint));
            };
            headers.raw(name.trim(), json::string(value.trim()));
        }
        action.object("headers", headers);
        if let Some(body) = &self.body {
            action.raw("body", read_json("--body", body)?);
        }
        Ok(action)
    }
}

/// JSON from a flag: itself, `@` and a file, or `-` for stdin. Checked, and otherwise untouched.
fn read_json(flag: &str, given: &str) -> Result<String, Failure> {
    let text = match given.strip_prefix('@') {
        Some(path) => read_file(path)?,
        None if given == "-" => read_file("-")?,
        None => given.to_owned(),
    };
    match serde_json::from_str::<&RawValue>(text.trim()) {
        Ok(raw) => Ok(raw.get().to_owned()),
        Err(error) => Err(Failure::usage(format!("{flag} is not JSON: {error}"))
            .hint(format!("a string needs its own quotes: {flag} '\"text\"'"))),
    }
}

/// A file, or stdin for `-`.
pub fn read_file(path: &str) -> Result<String, Failure> {
    let read = if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))
}

/// JSON text as a request's body.
pub fn raw(text: String) -> Result<Box<RawValue>, Failure> {
    RawValue::from_string(text).map_err(|error| Failure::usage(format!("this is not JSON: {error}")))
}
