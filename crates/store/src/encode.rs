//! How the stores write down what has no column type of its own: schedules, tags, histograms. The same in every store, so that an
//! installation can be copied from one to another. Whole definitions are in `definition`.

use crate::core::set::IdMap;
use crate::definition::{decode, decode_firing};
use campanile_model::job::{Definition, Firing};
use campanile_model::schedule::Schedule;
use campanile_model::stats::BUCKETS;
use campanile_model::time::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Texts that many rows share (plans, pools, configs): each is allocated once per query.
#[derive(Default)]
pub(crate) struct Texts {
    /// By their hash. Of two with the same one, which will not be met, the first is shared.
    known: IdMap<u64, Arc<str>>,
    /// The ones asked for last: neighbours mostly share theirs.
    last: [Option<Arc<str>>; 4],
    turn: usize,
    /// What the wheel needs of definitions, by its text.
    firings: HashMap<Arc<str>, Arc<Firing>>,
    /// The one asked for last.
    last_firing: Option<(Arc<str>, Arc<Firing>)>,
}

impl Texts {
    /// More different ones than this are not worth remembering.
    const COUNT_MAX: usize = 4_096;
    /// Longer ones are hardly shared, and cost to hash.
    const BYTES_MAX: usize = 256;

    pub(crate) fn share(&mut self, text: &str) -> Arc<str> {
        if text.len() > Self::BYTES_MAX {
            return text.into();
        }
        if let Some(last) = self.last.iter().flatten().find(|last| ***last == *text) {
            return last.clone();
        }
        let hash = xxh3_64(text.as_bytes());
        let shared: Arc<str> = match self.known.get(&hash).filter(|known| ***known == *text) {
            Some(known) => known.clone(),
            None => {
                let new: Arc<str> = text.into();
                if self.known.len() < Self::COUNT_MAX {
                    self.known.entry(hash).or_insert_with(|| new.clone());
                }
                new
            }
        };
        self.last[self.turn % self.last.len()] = Some(shared.clone());
        self.turn += 1;
        shared
    }

    /// A definition, if its document can be read.
    pub(crate) fn definition(&mut self, document: &str) -> Option<Arc<Definition>> {
        decode(document, &mut |text| self.share(text)).map(Arc::new)
    }

    /// What the wheel needs of a definition, if its text can be read: once for all jobs that have the same.
    pub(crate) fn firing(&mut self, text: &str) -> Option<Arc<Firing>> {
        if let Some((_, firing)) = self.last_firing.as_ref().filter(|(last, _)| **last == *text) {
            return Some(firing.clone());
        }
        let last = match self.firings.get_key_value(text) {
            Some((text, firing)) => (text.clone(), firing.clone()),
            None => {
                let firing = Arc::new(decode_firing(text, &mut |text| self.share(text))?);
                let new: (Arc<str>, Arc<Firing>) = (text.into(), firing);
                if self.firings.len() < Self::COUNT_MAX {
                    self.firings.insert(new.0.clone(), new.1.clone());
                }
                new
            }
        };
        Some(self.last_firing.insert(last).1.clone())
    }
}

/// The counts of a histogram, as a rollup stores them: 32 bits each, little-endian, without zeros at the end.
pub(crate) fn encode_histogram(counts: &[u64; BUCKETS]) -> Vec<u8> {
    let used = counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
    let narrow = |count: &u64| u32::try_from(*count).unwrap_or(u32::MAX).to_le_bytes();
    counts[..used].iter().flat_map(narrow).collect()
}

pub(crate) fn decode_histogram(bytes: &[u8]) -> [u64; BUCKETS] {
    let mut counts = [0; BUCKETS];
    for (count, bytes) in counts.iter_mut().zip(bytes.as_chunks().0) {
        *count = u64::from(u32::from_le_bytes(*bytes));
    }
    counts
}

/// Tags have no control characters, so a line each.
pub(crate) fn encode_tags(tags: &[String]) -> String {
    tags.join("\n")
}

pub(crate) fn decode_tags(text: &str) -> Vec<String> {
    text.split('\n').filter(|tag| !tag.is_empty()).map(str::to_owned).collect()
}

/// What the user wrote, on one line: the kind, then its fields; the expression is last because it may contain anything.
pub(crate) fn encode_schedule(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Cron { expression, zone, dst_gap, dst_fold } => {
            format!("cron {} {} {zone} {expression}", dst_gap.as_str(), dst_fold.as_str())
        }
        Schedule::Every { every_ms, phase_ms } => format!("every {every_ms} {phase_ms}"),
        Schedule::At { at } => format!("at {}", at.millis()),
        Schedule::After { delay_ms } => format!("after {delay_ms}"),
        Schedule::None => "none".into(),
    }
}

pub(crate) fn decode_schedule(text: &str) -> Option<Schedule> {
    let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match kind {
        "cron" => {
            let mut fields = rest.splitn(4, ' ');
            Schedule::Cron {
                dst_gap: fields.next()?.parse().ok()?,
                dst_fold: fields.next()?.parse().ok()?,
                zone: fields.next()?.into(),
                expression: fields.next()?.into(),
            }
        }
        "every" => {
            let (every, phase) = rest.split_once(' ')?;
            Schedule::Every { every_ms: every.parse().ok()?, phase_ms: phase.parse().ok()? }
        }
        "at" => Schedule::At { at: Timestamp::from_millis(rest.parse().ok()?) },
        "after" => Schedule::After { delay_ms: rest.parse().ok()? },
        "none" => Schedule::None,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_model::schedule::{DstFold, DstGap};

    #[test]
    fn schedules_come_back_as_they_were_written() {
        let schedules = [
            Schedule::Cron {
                expression: "  0 3 * *\t* ".into(),
                zone: "Europe/Berlin".into(),
                dst_gap: DstGap::Shift,
                dst_fold: DstFold::Both,
            },
            Schedule::Cron {
                expression: String::new(),
                zone: String::new(),
                dst_gap: DstGap::NextValid,
                dst_fold: DstFold::First,
            },
            Schedule::Every { every_ms: 1_000, phase_ms: 7 },
            Schedule::At { at: Timestamp::from_millis(-5) },
            Schedule::After { delay_ms: u64::MAX },
            Schedule::None,
        ];
        for schedule in schedules {
            assert_eq!(decode_schedule(&encode_schedule(&schedule)), Some(schedule));
        }
        for text in ["", "cron", "cron a b c", "every 1", "at x", "weekly"] {
            assert_eq!(decode_schedule(text), None, "{text}");
        }
    }

    #[test]
    fn histograms_come_back_as_they_were_written() {
        let mut counts = [0; BUCKETS];
        assert_eq!(encode_histogram(&counts), [0u8; 0]);
        (counts[0], counts[7]) = (3, 1 << 20);
        assert_eq!(encode_histogram(&counts).len(), 32);
        assert_eq!(decode_histogram(&encode_histogram(&counts)), counts);
        counts[BUCKETS - 1] = u64::MAX;
        assert_eq!(decode_histogram(&encode_histogram(&counts))[BUCKETS - 1], u64::from(u32::MAX));
    }

    #[test]
    fn tags_come_back_in_their_order() {
        for tags in [vec![], vec!["a".to_owned()], vec!["b c".to_owned(), "a".to_owned()]] {
            assert_eq!(decode_tags(&encode_tags(&tags)), tags);
        }
    }
}
