//! How definitions of jobs are written down: JSON in one column, the same in every store, so that an installation can be copied
//! from one to another.
//!
//! A document has a field only where it differs from the base of its format, so that a plain job is short. What a document leaves
//! out means the same for ever, whatever the product's defaults become: another base is another format (`v`). What a later release
//! adds is passed over here, so that nodes of two releases work side by side.
//!
//! Beside it stands `firing`, which is what the wheel needs of a definition. Many jobs have the same text there, and it is
//! read once for all of them.

use crate::encode::{decode_schedule, encode_schedule};
use campanile_model::action::{ActionKind, ActionSpec};
use campanile_model::catch_up::{CatchUp, CatchUpMode};
use campanile_model::error::{Error, Kind, Result};
use campanile_model::job::{Blackout, Definition, Firing, Priority, Window};
use campanile_model::notify::Expectation;
use campanile_model::overlap::Overlap;
use campanile_model::retry::{Backoff, RetryPolicy};
use campanile_model::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::sync::Arc;

/// The format that is written.
const FORMAT: u8 = 1;

// What a document of format 1 means where it says nothing. Never changed: it says what is stored.
const CONFIG: &str = "{}";
const PAYLOAD: &str = "null";
const TIMEOUT_MS: u64 = 30_000;
const POOL: &str = "short";
const PRIORITY: Priority = Priority::Normal;
const ACTION: ActionKind = ActionKind::Noop;
const OVERLAP: Overlap = Overlap::Allow;
const CATCH_UP: CatchUp = CatchUp { mode: CatchUpMode::Last, max_age_ms: 86_400_000, drip_ms: 0 };
const RETRY: RetryPolicy = RetryPolicy {
    max_attempts: 3,
    backoff: Backoff::ExponentialWithJitter,
    initial_delay_ms: 1_000,
    max_delay_ms: 3_600_000,
    total_timeout_ms: None,
};
const EXPECT: Expectation = Expectation { start_within_ms: None, finish_within_ms: None, success_every_ms: None };

/// A definition, as it is stored.
#[derive(Serialize, Deserialize)]
struct Document<'d> {
    v: u8,
    #[serde(borrow)]
    name: Cow<'d, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    description: Option<Cow<'d, str>>,
    #[serde(borrow)]
    schedule: Cow<'d, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    starts_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_fires: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spread_ms: Option<u64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    action: Option<Cow<'d, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    config: Option<&'d RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    payload: Option<&'d RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    retry: Option<Retry<'d>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    priority: Option<Cow<'d, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pool: Option<Cow<'d, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    catch_up: Option<Missed<'d>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    overlap: Option<Cow<'d, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect: Option<Expected>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blackouts: Vec<(i64, i64)>,
    #[serde(borrow, default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<Cow<'d, str>>,
}

/// What the wheel needs of a definition, as it is stored.
#[derive(Serialize, Deserialize)]
struct Wheel<'d> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spread_ms: Option<u64>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    priority: Option<Cow<'d, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pool: Option<Cow<'d, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    action: Option<Cow<'d, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    target: Option<Cow<'d, str>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    catch_up: Option<Missed<'d>>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    overlap: Option<Cow<'d, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expect: Option<Expected>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blackouts: Vec<(i64, i64)>,
}

#[derive(Serialize, Deserialize)]
struct Retry<'d> {
    max_attempts: u32,
    #[serde(borrow)]
    backoff: Cow<'d, str>,
    initial_delay_ms: u64,
    max_delay_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total_timeout_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Missed<'d> {
    #[serde(borrow)]
    mode: Cow<'d, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    n: Option<u32>,
    max_age_ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    drip_ms: Option<u64>,
}

#[derive(Serialize, Deserialize)]
struct Expected {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    start_within_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finish_within_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    success_every_ms: Option<u64>,
}

/// The document of a definition.
pub(crate) fn encode(definition: &Definition) -> Result<String> {
    // All fields by name, so that none is forgotten.
    let Definition {
        name,
        description,
        schedule,
        window: Window { starts_at, ends_at, max_fires },
        spread_ms,
        action,
        payload,
        retry,
        timeout_ms,
        priority,
        pool,
        catch_up,
        overlap,
        expect,
        blackouts,
        tags,
    } = definition;
    let document = Document {
        v: FORMAT,
        name: name.into(),
        description: unless(description.as_str(), "").map(Cow::from),
        schedule: encode_schedule(schedule).into(),
        starts_at: starts_at.map(Timestamp::millis),
        ends_at: ends_at.map(Timestamp::millis),
        max_fires: *max_fires,
        spread_ms: unless(*spread_ms, 0),
        action: unless(action.kind, ACTION).map(|kind| kind.as_str().into()),
        config: json("action's config", &action.config, CONFIG)?,
        payload: json("payload", payload, PAYLOAD)?,
        retry: unless(*retry, RETRY).map(|retry| Retry {
            max_attempts: retry.max_attempts,
            backoff: retry.backoff.as_str().into(),
            initial_delay_ms: retry.initial_delay_ms,
            max_delay_ms: retry.max_delay_ms,
            total_timeout_ms: retry.total_timeout_ms,
        }),
        timeout_ms: unless(*timeout_ms, TIMEOUT_MS),
        priority: unless(*priority, PRIORITY).map(|priority| priority.as_str().into()),
        pool: unless(&**pool, POOL).map(Cow::from),
        catch_up: unless(*catch_up, CATCH_UP).map(missed),
        overlap: unless(*overlap, OVERLAP).map(|overlap| overlap.as_str().into()),
        expect: unless(*expect, EXPECT).map(expected),
        blackouts: ranges(blackouts),
        tags: tags.iter().map(Cow::from).collect(),
    };
    text(&document)
}

/// The definition of a document, with its texts as `share` has them; `None` where it cannot be read.
pub(crate) fn decode(document: &str, share: &mut impl FnMut(&str) -> Arc<str>) -> Option<Definition> {
    let document: Document<'_> = serde_json::from_str(document).ok()?;
    if document.v != FORMAT {
        return None;
    }
    let retry = match document.retry {
        None => RETRY,
        Some(retry) => RetryPolicy {
            max_attempts: retry.max_attempts,
            backoff: word(&Backoff::ALL, Backoff::as_str, &retry.backoff)?,
            initial_delay_ms: retry.initial_delay_ms,
            max_delay_ms: retry.max_delay_ms,
            total_timeout_ms: retry.total_timeout_ms,
        },
    };
    let kind = word_or(&ActionKind::ALL, ActionKind::as_str, &document.action, ACTION)?;
    Some(Definition {
        name: document.name.into_owned(),
        description: document.description.unwrap_or_default().into_owned(),
        schedule: decode_schedule(&document.schedule)?,
        window: Window {
            starts_at: document.starts_at.map(Timestamp::from_millis),
            ends_at: document.ends_at.map(Timestamp::from_millis),
            max_fires: document.max_fires,
        },
        spread_ms: document.spread_ms.unwrap_or(0),
        action: ActionSpec { kind, config: share(document.config.map_or(CONFIG, RawValue::get)) },
        payload: share(document.payload.map_or(PAYLOAD, RawValue::get)),
        retry,
        timeout_ms: document.timeout_ms.unwrap_or(TIMEOUT_MS),
        priority: word_or(&Priority::ALL, Priority::as_str, &document.priority, PRIORITY)?,
        pool: share(document.pool.as_deref().unwrap_or(POOL)),
        catch_up: caught_up(document.catch_up)?,
        overlap: word_or(&Overlap::ALL, Overlap::as_str, &document.overlap, OVERLAP)?,
        expect: document.expect.map_or(EXPECT, expectation),
        blackouts: blackouts(document.blackouts),
        tags: document.tags.into_iter().map(Cow::into_owned).collect(),
    })
}

/// What the wheel needs, as text.
pub(crate) fn encode_firing(firing: &Firing) -> Result<String> {
    let Firing { ends_at, spread_ms, priority, pool, action, target, catch_up, overlap, expect, blackouts } = firing;
    text(&Wheel {
        ends_at: ends_at.map(Timestamp::millis),
        spread_ms: unless(*spread_ms, 0),
        priority: unless(*priority, PRIORITY).map(|priority| priority.as_str().into()),
        pool: unless(&**pool, POOL).map(Cow::from),
        action: unless(*action, ACTION).map(|kind| kind.as_str().into()),
        target: unless(&**target, "").map(Cow::from),
        catch_up: unless(*catch_up, CATCH_UP).map(missed),
        overlap: unless(*overlap, OVERLAP).map(|overlap| overlap.as_str().into()),
        expect: unless(*expect, EXPECT).map(expected),
        blackouts: ranges(blackouts),
    })
}

/// The same back; `None` where it cannot be read.
pub(crate) fn decode_firing(text: &str, share: &mut impl FnMut(&str) -> Arc<str>) -> Option<Firing> {
    let wheel: Wheel<'_> = serde_json::from_str(text).ok()?;
    Some(Firing {
        ends_at: wheel.ends_at.map(Timestamp::from_millis),
        spread_ms: wheel.spread_ms.unwrap_or(0),
        priority: word_or(&Priority::ALL, Priority::as_str, &wheel.priority, PRIORITY)?,
        pool: share(wheel.pool.as_deref().unwrap_or(POOL)),
        action: word_or(&ActionKind::ALL, ActionKind::as_str, &wheel.action, ACTION)?,
        target: share(wheel.target.as_deref().unwrap_or("")),
        catch_up: caught_up(wheel.catch_up)?,
        overlap: word_or(&Overlap::ALL, Overlap::as_str, &wheel.overlap, OVERLAP)?,
        expect: wheel.expect.map_or(EXPECT, expectation),
        blackouts: blackouts(wheel.blackouts),
    })
}

fn text(document: &impl Serialize) -> Result<String> {
    serde_json::to_string(document).map_err(|error| Error::new(Kind::Bug, format!("cannot write a job down: {error}")))
}

/// A value that is written because it is not the base's.
fn unless<T: PartialEq>(value: T, base: T) -> Option<T> {
    (value != base).then_some(value)
}

/// JSON that stands in a document as it is.
fn json<'d>(what: &str, text: &'d str, base: &str) -> Result<Option<&'d RawValue>> {
    if text == base {
        return Ok(None);
    }
    let refused = |error| Error::new(Kind::Bug, format!("the {what} of a job is not JSON: {error}"));
    serde_json::from_str(text).map(Some).map_err(refused)
}

/// The value of a word.
fn word<T: Copy>(all: &[T], as_str: fn(T) -> &'static str, word: &str) -> Option<T> {
    all.iter().copied().find(|&value| as_str(value) == word)
}

/// The value of a word, or the base's where there is none.
fn word_or<T: Copy>(all: &[T], as_str: fn(T) -> &'static str, text: &Option<Cow<'_, str>>, base: T) -> Option<T> {
    text.as_deref().map_or(Some(base), |text| word(all, as_str, text))
}

fn missed(catch_up: CatchUp) -> Missed<'static> {
    let (mode, n) = match catch_up.mode {
        CatchUpMode::None => ("NONE", None),
        CatchUpMode::Last => ("LAST", None),
        CatchUpMode::All => ("ALL", None),
        CatchUpMode::LastN(n) => ("LAST_N", Some(n)),
        CatchUpMode::Coalesced => ("COALESCED", None),
    };
    Missed { mode: mode.into(), n, max_age_ms: catch_up.max_age_ms, drip_ms: unless(catch_up.drip_ms, 0) }
}

fn caught_up(missed: Option<Missed<'_>>) -> Option<CatchUp> {
    let Some(Missed { mode, n, max_age_ms, drip_ms }) = missed else { return Some(CATCH_UP) };
    let mode = match (&*mode, n) {
        ("NONE", None) => CatchUpMode::None,
        ("LAST", None) => CatchUpMode::Last,
        ("ALL", None) => CatchUpMode::All,
        ("LAST_N", Some(n)) => CatchUpMode::LastN(n),
        ("COALESCED", None) => CatchUpMode::Coalesced,
        _ => return None,
    };
    Some(CatchUp { mode, max_age_ms, drip_ms: drip_ms.unwrap_or(0) })
}

fn expected(expect: Expectation) -> Expected {
    let Expectation { start_within_ms, finish_within_ms, success_every_ms } = expect;
    Expected { start_within_ms, finish_within_ms, success_every_ms }
}

fn expectation(expected: Expected) -> Expectation {
    let Expected { start_within_ms, finish_within_ms, success_every_ms } = expected;
    Expectation { start_within_ms, finish_within_ms, success_every_ms }
}

fn ranges(blackouts: &[Blackout]) -> Vec<(i64, i64)> {
    blackouts.iter().map(|blackout| (blackout.from.millis(), blackout.to.millis())).collect()
}

fn blackouts(ranges: Vec<(i64, i64)>) -> Arc<[Blackout]> {
    let instant = Timestamp::from_millis;
    ranges.into_iter().map(|(from, to)| Blackout { from: instant(from), to: instant(to) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::schedule::Schedule;
    use campanile_testkit::generate as g;
    use proptest::prelude::*;

    fn plain() -> impl FnMut(&str) -> Arc<str> {
        |text| text.into()
    }

    proptest! {
        #[test]
        fn what_is_written_comes_back(job in g::any_job()) {
            let document = encode(&job.definition).unwrap();
            prop_assert_eq!(&decode(&document, &mut plain()), &Some((*job.definition).clone()));
            let firing = encode_firing(&job.firing()).unwrap();
            prop_assert_eq!(decode_firing(&firing, &mut plain()), Some(job.firing()));
        }
    }

    /// What is stored is for ever: these texts must mean the same in every release.
    #[test]
    fn documents_of_earlier_releases_can_be_read() {
        let short = r#"{"v":1,"name":"a","schedule":"every 60000 0"}"#;
        let schedule = Schedule::Every { every_ms: 60_000, phase_ms: 0 };
        let plain_job = Definition { name: "a".into(), schedule, ..Definition::default() };
        assert_eq!(decode(short, &mut plain()), Some(plain_job.clone()));
        assert_eq!(encode(&plain_job).unwrap(), short);
        assert_eq!(decode_firing("{}", &mut plain()).map(|firing| encode_firing(&firing).unwrap()), Some("{}".into()));
        let long = concat!(
            r#"{"v":1,"name":"b","description":"why","schedule":"at 5","starts_at":-1,"ends_at":9,"max_fires":2,"spread_ms":3,"#,
            r#""action":"WEBHOOK","config":{"url":"https://example.com"},"payload":[1e400],"retry":{"max_attempts":1,"#,
            r#""backoff":"FIXED","initial_delay_ms":4,"max_delay_ms":5,"total_timeout_ms":6},"timeout_ms":7,"#,
            r#""priority":"LOW","pool":"p","catch_up":{"mode":"LAST_N","n":8,"max_age_ms":9,"drip_ms":10},"#,
            r#""overlap":"SKIP","expect":{"start_within_ms":11},"blackouts":[[1,2]],"tags":["x"]}"#,
        );
        let read = decode(long, &mut plain()).unwrap();
        assert_eq!(&*read.payload, "[1e400]", "numbers keep their digits");
        assert_eq!(encode(&read).unwrap(), long);
    }

    #[test]
    fn what_a_later_release_adds_is_passed_over() {
        let later = r#"{"v":1,"name":"a","schedule":"none","colour":"red","expect":{"smile":true}}"#;
        assert_eq!(decode(later, &mut plain()).map(|read| read.name), Some("a".into()));
        assert!(decode_firing(r#"{"colour":"red"}"#, &mut plain()).is_some());
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for document in [
            "",
            "{}",
            r#"{"v":2,"name":"a","schedule":"none"}"#,
            r#"{"v":1,"name":"a","schedule":"weekly"}"#,
            r#"{"v":1,"name":"a","schedule":"none","overlap":"MAYBE"}"#,
        ] {
            assert_eq!(decode(document, &mut plain()), None, "{document}");
        }
        let broken = Definition { payload: "{".into(), ..Definition::default() };
        assert!(encode(&broken).is_err());
    }
}
