//! One field of a cron expression: its bounds and names, and the items it may hold.
//!
//! An item is `*`, `*/n`, `a`, `a-b`, `a-b/n` or `a/n`; in the day fields also `L`, `LW`, `nW`, `d#k` and `dL`; and in
//! every field `H`, `H(a-b)` and either with `/n`, which stand for values chosen by a hash of the job. Everything else
//! is refused, with the position of the wrong bytes and with what to write instead: a schedule that means something
//! other than its author thinks is worse than a refusal.

use xxhash_rust::xxh3::xxh3_64;

use super::{HashSeed, ScheduleError, quoted};
use crate::fault::{Bug, planted};

pub(super) const SECOND: &str = "second";
pub(super) const MINUTE: &str = "minute";
pub(super) const HOUR: &str = "hour";
pub(super) const DAY: &str = "day-of-month";
pub(super) const MONTH: &str = "month";
pub(super) const WEEKDAY: &str = "day-of-week";

const MONTHS: [&str; 12] = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// One of the six fields. Its name also enters the hash of `H`, so that the fields differ.
pub(super) struct Field {
    pub name: &'static str,
    pub min: u8,
    pub max: u8,
    /// The largest value that `H` picks: day 28 exists in every month, and 7 repeats Sunday.
    hash_max: u8,
    names: &'static [&'static str],
}

/// All fields in the order of a six-field expression.
pub(super) const FIELDS: [Field; 6] = [
    Field::new(SECOND, 0, 59, 59, &[]),
    Field::new(MINUTE, 0, 59, 59, &[]),
    Field::new(HOUR, 0, 23, 23, &[]),
    Field::new(DAY, 1, 31, 28, &[]),
    Field::new(MONTH, 1, 12, 12, &MONTHS),
    Field::new(WEEKDAY, 0, 7, 6, &WEEKDAYS),
];

impl Field {
    const fn new(name: &'static str, min: u8, max: u8, hash_max: u8, names: &'static [&'static str]) -> Self {
        Self { name, min, max, hash_max, names }
    }

    pub fn is_day(&self) -> bool {
        matches!(self.name, DAY | WEEKDAY)
    }
}

/// One item of a list, `H` already replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Every { step: u8 },
    Range { from: u8, to: u8, step: u8 },
    LastDay,
    LastWeekday,
    Nearest(u8),
    Nth { weekday: u8, nth: u8 },
    LastOf(u8),
}

/// A refusal with the wrong bytes.
pub(super) fn invalid(message: impl Into<String>, start: usize, end: usize) -> ScheduleError {
    ScheduleError::new("cron_invalid", message).at(start, end)
}

/// The items of one field.
pub(super) fn parse_field(
    field: &Field,
    start: usize,
    word: &str,
    seed: Option<HashSeed<'_>>,
) -> Result<Vec<Item>, ScheduleError> {
    if word == "?" && field.is_day() {
        return Ok(vec![Item::Every { step: 1 }]);
    }
    let mut items = Vec::new();
    let mut at = start;
    for text in word.split(',') {
        let reader = ItemReader { field, text, start: at };
        items.push(reader.read(seed)?);
        at += text.len() + 1;
    }
    Ok(items)
}

/// Reads one item; knows where it stands, for the refusals.
struct ItemReader<'a> {
    field: &'a Field,
    text: &'a str,
    start: usize,
}

impl<'a> ItemReader<'a> {
    fn read(&self, seed: Option<HashSeed<'_>>) -> Result<Item, ScheduleError> {
        if self.text.is_empty() {
            let message = format!("an empty item in the {} field", self.field.name);
            return Err(invalid(message, self.start, self.start).hint("a comma stands between two items"));
        }
        if let Some(item) = self.read_special()? {
            return Ok(item);
        }
        let (base, step) = match self.text.split_once('/') {
            Some((base, step)) => (base, Some(self.step(step, base.len() + 1)?)),
            None => (self.text, None),
        };
        if base == "*" {
            return Ok(Item::Every { step: step.unwrap_or(1) });
        }
        if let Some(range) = base.strip_prefix(['H', 'h']) {
            return self.hashed(range, step, seed);
        }
        let item = match base.split_once('-') {
            Some((from, to)) if !from.is_empty() => {
                let (a, b) = (self.value(from, 0)?, self.value(to, from.len() + 1)?);
                if a > b {
                    return Err(self.wraps(from, to, a, b));
                }
                (a, b)
            }
            _ => {
                let value = self.value(base, 0)?;
                (value, if step.is_some() { self.field.max } else { value })
            }
        };
        Ok(Item::Range { from: item.0, to: item.1, step: step.unwrap_or(1) })
    }

    /// `L`, `LW`, `nW`, `d#k` and `dL`, in the field where each has a meaning.
    fn read_special(&self) -> Result<Option<Item>, ScheduleError> {
        let upper = self.text.to_ascii_uppercase();
        if self.field.name == DAY {
            if upper == "L" {
                return Ok(Some(Item::LastDay));
            }
            if upper == "LW" {
                return Ok(Some(Item::LastWeekday));
            }
            if upper.starts_with('L') {
                return Err(self.refuse("is not a day").hint("L is the last day, LW the last weekday"));
            }
            if let Some(day) = upper.strip_suffix('W').filter(|day| is_number(day)) {
                return Ok(Some(Item::Nearest(self.value(day, 0)?)));
            }
        }
        if self.field.name == WEEKDAY {
            if let Some((weekday, nth)) = self.text.split_once('#') {
                let day = self.value(weekday, 0)? % 7;
                let Some(nth) = nth.parse().ok().filter(|k| (1..=5).contains(k) && is_number(nth)) else {
                    return Err(self.refuse("does not name a week").hint("from #1 to #5, as in MON#2"));
                };
                return Ok(Some(Item::Nth { weekday: day, nth }));
            }
            if upper == "L" {
                return Err(self.refuse("lacks the day").hint("write 5L or FRIL for the last Friday of the month"));
            }
            if let Some(weekday) = upper.strip_suffix('L').filter(|day| is_number(day) || WEEKDAYS.contains(day)) {
                return Ok(Some(Item::LastOf(self.value(weekday, 0)? % 7)));
            }
        }
        Ok(None)
    }

    fn refuse(&self, what: &str) -> ScheduleError {
        let message = format!("{} {what} in the {} field", quoted(self.text), self.field.name);
        invalid(message, self.start, self.start + self.text.len())
    }

    /// A number or a name of the field, at an offset of the item.
    fn value(&self, text: &str, offset: usize) -> Result<u8, ScheduleError> {
        let field = self.field;
        let (start, end) = (self.start + offset, self.start + offset + text.len());
        if is_number(text) {
            let value: u16 = text.parse().unwrap_or(u16::MAX);
            if text.len() <= 2 && (u16::from(field.min)..=u16::from(field.max)).contains(&value) {
                return Ok(value as u8);
            }
            let message = format!("{} is outside the {} field", quoted(text), field.name);
            return Err(invalid(message, start, end).hint(format!("from {} to {}", field.min, field.max)));
        }
        let upper = text.to_ascii_uppercase();
        if let Some(index) = field.names.iter().position(|name| *name == upper) {
            return Ok(index as u8 + field.min);
        }
        Err(invalid(format!("{} is not a value of the {} field", quoted(text), field.name), start, end)
            .hint(value_hint(field, text, &upper)))
    }

    fn step(&self, text: &str, offset: usize) -> Result<u8, ScheduleError> {
        let (start, end) = (self.start + offset, self.start + offset + text.len());
        let (name, max) = (self.field.name, self.field.max);
        // glide-mq#56: every zero minutes.
        let first = u8::from(!planted(Bug("step-of-zero")));
        match text.parse::<u8>() {
            Ok(step) if is_number(text) && text.len() <= 2 && (first..=max).contains(&step) => Ok(step),
            _ => {
                let message = format!("{} is not a step of the {name} field", quoted(text));
                Err(invalid(message, start, end).hint(format!("a number from 1 to {max}")))
            }
        }
    }

    fn wraps(&self, from: &str, to: &str, a: u8, b: u8) -> ScheduleError {
        let field = self.field;
        let error = invalid(
            format!("{}-{} runs backwards in the {} field", from, to, field.name),
            self.start,
            self.start + from.len() + 1 + to.len(),
        );
        let part = |from: u8, to: u8| {
            if from == to { from.to_string() } else { format!("{from}-{to}") }
        };
        if field.name != WEEKDAY {
            return error.hint(format!("write {},{}", part(a, field.max), part(field.min, b)));
        }
        match (a, b) {
            (a, 0) => error.hint(format!("write {}: 7 is Sunday too", part(a, 7))),
            (7, b) => error.hint(format!("write {}: 0 is Sunday too", part(0, b))),
            (a, b) => error.hint(format!("write {},{}", part(a, 6), part(0, b))),
        }
    }

    /// `H`, `H(a-b)`, each with or without `/n`.
    fn hashed(&self, range: &str, step: Option<u8>, seed: Option<HashSeed<'_>>) -> Result<Item, ScheduleError> {
        let field = self.field;
        let (from, to) = if range.is_empty() {
            (field.min, field.hash_max)
        } else {
            let inner = range.strip_prefix('(').and_then(|range| range.strip_suffix(')'));
            let Some((from, to)) = inner.and_then(|inner| inner.split_once('-')) else {
                return Err(self.refuse("is not a value").hint("H, H(a-b) or H/n"));
            };
            let (a, b) = (self.value(from, 2)?, self.value(to, 3 + from.len())?);
            if a > b {
                return Err(self.refuse("runs backwards").hint(format!("write H({b}-{a})")));
            }
            (a, b)
        };
        let Some(seed) = seed else {
            return Err(self.refuse("needs a job to hash"));
        };
        let width = to - from + 1;
        let hash = seed_hash(seed, field.name);
        Ok(match step {
            None => {
                let value = from + (hash % u64::from(width)) as u8;
                Item::Range { from: value, to: value, step: 1 }
            }
            // The start is hashed and the step kept: every job runs equally often, each at its own phase.
            Some(step) => {
                let first = from + (hash % u64::from(step.min(width))) as u8;
                let last = first + (to - first) / step * step;
                Item::Range { from: first, to: last, step }
            }
        })
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The hash behind `H`. Its bytes must never change: they decide when existing jobs fire.
fn seed_hash(seed: HashSeed<'_>, field: &str) -> u64 {
    let mut bytes = Vec::with_capacity(seed.tenant.len() + seed.job.len() + field.len() + 2);
    for part in [seed.tenant, seed.job, field] {
        bytes.extend_from_slice(part.as_bytes());
        bytes.push(0);
    }
    xxh3_64(&bytes)
}

/// What to write instead of something that is no value.
fn value_hint(field: &Field, text: &str, upper: &str) -> String {
    let numbers = format!("a number from {} to {}", field.min, field.max);
    if text.starts_with(['+', '-']) {
        return format!("{numbers}, without a sign");
    }
    let long = |names: &[&'static str]| names.iter().copied().find(|name| upper.len() > 3 && upper.starts_with(name));
    if let Some(name) = long(field.names) {
        return format!("write {name}");
    }
    for (names, owner) in [(&MONTHS[..], MONTH), (&WEEKDAYS[..], WEEKDAY)] {
        if owner != field.name && names.contains(&upper) {
            return format!("{numbers}; {upper} belongs in the {owner} field");
        }
    }
    match upper {
        "?" if !field.is_day() => "? is for the two day fields; write *".to_owned(),
        "?" => "? stands alone in its field".to_owned(),
        "L" | "LW" => "L and LW are for the day-of-month field".to_owned(),
        _ if upper.contains('#') => "d#k is for the day-of-week field".to_owned(),
        _ => match field.names.first().zip(field.names.last()) {
            Some((first, last)) => format!("{numbers} or a name from {first} to {last}"),
            None => numbers,
        },
    }
}
