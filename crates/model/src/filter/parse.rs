//! The fields of a filter: what each is called and what it takes.

use super::nearest::nearest;
use super::scan::{RawTerm, Value, scan, shown};
use super::{Compare, FilterError, Pattern, Term, Test, when};
use crate::execution::Reason;
use crate::ids::FireKind;
use crate::lifecycle::{State, StateSet};
use crate::schedule::parse_duration_ms;
use crate::time::Timestamp;

/// Every field, in the order of the documentation.
const FIELDS: [&str; 14] = [
    "state",
    "job",
    "handler",
    "pool",
    "tag",
    "worker",
    "error",
    "fp",
    "reason",
    "kind",
    "late",
    "duration",
    "attempt",
    "scheduled",
];

/// What people call a field elsewhere, and our name for it.
const OTHER_NAMES: [(&str, &str); 10] = [
    ("name", "job"),
    ("action", "handler"),
    ("queue", "pool"),
    ("label", "tag"),
    ("fingerprint", "fp"),
    ("trigger", "kind"),
    ("lateness", "late"),
    ("tries", "attempt"),
    ("time", "scheduled"),
    ("fire_at", "scheduled"),
];

/// Reads the terms of a filter.
pub(super) fn terms(text: &str, now: Timestamp) -> Result<Vec<Term>, FilterError> {
    let read = |raw: RawTerm<'_>| Ok(Term { negated: raw.negated, test: test(&raw, now)?, position: raw.position });
    scan(text)?.into_iter().map(read).collect()
}

fn test(raw: &RawTerm<'_>, now: Timestamp) -> Result<Test, FilterError> {
    Ok(match raw.field.to_ascii_lowercase().as_str() {
        "state" => Test::State(states(raw)?),
        "job" => Test::Job(pattern(raw)?),
        "handler" => Test::Handler(pattern(raw)?),
        "pool" => Test::Pool(literals(raw)?),
        "tag" => Test::Tag(literal(raw, one(raw)?)?),
        "worker" => Test::Worker(pattern(raw)?),
        "error" => Test::Error(pattern(raw)?),
        "fp" => Test::Fingerprint(fingerprint(one(raw)?)?),
        "reason" => Test::Reason(words(raw, &Reason::ALL, Reason::as_str)?),
        "kind" => Test::Kind(words(raw, &FireKind::ALL, FireKind::as_str)?),
        "late" => duration(raw).map(|(compare, ms)| Test::Late(compare, ms))?,
        "duration" => duration(raw).map(|(compare, ms)| Test::Duration(compare, ms))?,
        "attempt" => count(raw).map(|(compare, count)| Test::Attempt(compare, count))?,
        "scheduled" => when::window(one(raw)?, now).map(|(from, to)| Test::Scheduled(from, to))?,
        _ => return Err(unknown_field(raw)),
    })
}

fn unknown_field(raw: &RawTerm<'_>) -> FilterError {
    let error = FilterError::new(format!("unknown field {}", shown(raw.field)), raw.field_at);
    let ours = OTHER_NAMES.iter().find(|(other, _)| raw.field.eq_ignore_ascii_case(other)).map(|(_, ours)| *ours);
    match ours.or_else(|| nearest(raw.field, FIELDS.into_iter())) {
        Some(field) => error.hint(format!("did you mean `{field}`?")),
        None => error.hint(format!("the fields are {}", FIELDS.join(", "))),
    }
}

/// The value of a field that takes only one.
fn one<'a>(raw: &'a RawTerm<'_>) -> Result<&'a Value, FilterError> {
    match raw.values.as_slice() {
        [only] => Ok(only),
        values => {
            let position = (values[0].position.0, raw.position.1);
            let error = FilterError::new(format!("`{}` takes one value", raw.field), position);
            Err(error.hint("quote a comma that belongs to the value; several are for state, pool, reason and kind"))
        }
    }
}

/// The values of a field that takes some of our own words; a hyphen is as good as an underscore.
fn words<T: Copy + PartialEq>(
    raw: &RawTerm<'_>,
    known: &[T],
    word: fn(T) -> &'static str,
) -> Result<Vec<T>, FilterError> {
    let mut found = Vec::with_capacity(raw.values.len());
    for value in &raw.values {
        let written = value.text.replace('-', "_");
        let Some(&item) = known.iter().find(|item| word(**item).eq_ignore_ascii_case(&written)) else {
            let error = FilterError::new(format!("unknown {} {}", raw.field, shown(&value.text)), value.position);
            let all = known.iter().map(|item| word(*item));
            return Err(match nearest(&written, all.clone()) {
                Some(word) => error.hint(format!("did you mean `{word}`?")),
                None => error.hint(format!("one of {}", all.collect::<Vec<_>>().join(", "))),
            });
        };
        push_new(&mut found, item);
    }
    Ok(found)
}

/// States by their words, and what else people mean by them.
fn states(raw: &RawTerm<'_>) -> Result<Vec<State>, FilterError> {
    let mut found = Vec::with_capacity(raw.values.len());
    for state in words(raw, &State::ALL, State::as_str)? {
        push_new(&mut found, state);
        State::meant_by(state.as_str())
            .into_iter()
            .flat_map(StateSet::iter)
            .for_each(|meant| push_new(&mut found, meant));
    }
    Ok(found)
}

fn push_new<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

fn pattern(raw: &RawTerm<'_>) -> Result<Pattern, FilterError> {
    one(raw).map(|value| Pattern::with_stars(&value.text, &value.stars))
}

fn literals(raw: &RawTerm<'_>) -> Result<Vec<String>, FilterError> {
    let mut found = Vec::with_capacity(raw.values.len());
    for value in &raw.values {
        push_new(&mut found, literal(raw, value)?);
    }
    Ok(found)
}

/// A value in which a wildcard would be lost, and is therefore refused.
fn literal(raw: &RawTerm<'_>, value: &Value) -> Result<String, FilterError> {
    if value.stars.is_empty() {
        return Ok(value.text.clone());
    }
    let error = FilterError::new(format!("`{}` takes no wildcard", raw.field), value.position);
    Err(error.hint("quote a star that belongs to the value; wildcards are for job, handler, worker and error"))
}

fn fingerprint(value: &Value) -> Result<String, FilterError> {
    if value.text.len() > 16 || !value.text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let message = format!("{} is not the start of a fingerprint", shown(&value.text));
        return Err(FilterError::new(message, value.position).hint("1 to 16 hexadecimal digits, such as fp:9f3a"));
    }
    Ok(value.text.to_ascii_lowercase())
}

/// A comparison with a duration. A sign is demanded: equal to the millisecond is never what `late:5s` means.
fn duration(raw: &RawTerm<'_>) -> Result<(Compare, u64), FilterError> {
    let value = one(raw)?;
    let (compare, text) = comparison(&value.text);
    let at = value.text.len() - text.len();
    let ms = parse_duration_ms(text).map_err(|error| {
        let (from, to) = error.position.unwrap_or((0, text.len()));
        FilterError { message: error.message, position: value.within(at + from, at + to), hint: error.hint }
    })?;
    let Some(compare) = compare else {
        let error = FilterError::new(format!("more or less than {}?", shown(text)), value.position);
        return Err(error.hint(format!("{0}:>{1} or {0}:<{1}", raw.field, text.trim())));
    };
    Ok((compare, ms))
}

/// A comparison with a number; without a sign, equality.
fn count(raw: &RawTerm<'_>) -> Result<(Compare, u32), FilterError> {
    let value = one(raw)?;
    let (compare, text) = comparison(&value.text);
    // The standard reader takes a plus as well.
    let digits = Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(count) = digits.and_then(|digits| digits.parse().ok()) else {
        let position = value.within(value.text.len() - text.len(), value.text.len());
        let error = FilterError::new(format!("{} is not a number of attempts", shown(text)), position);
        return Err(error.hint("such as attempt:>=3"));
    };
    Ok((compare.unwrap_or(Compare::Eq), count))
}

/// The sign at the start of a value, and what follows it.
fn comparison(text: &str) -> (Option<Compare>, &str) {
    // The longer signs first: `<` is the start of `<=`.
    for compare in [Compare::Le, Compare::Ge, Compare::Lt, Compare::Gt, Compare::Eq] {
        if let Some(rest) = text.strip_prefix(compare.as_str()) {
            return (Some(compare), rest);
        }
    }
    (None, text)
}
