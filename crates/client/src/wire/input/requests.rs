//! The fields of small requests as plain values: shapes are checked, meanings are not.

use super::names::{BACKFILL, CANCEL, DISCARD, ENDPOINT, Name, PAUSE, POOL, REPLAY, REVERT, TARGET_LIMITS};
use super::reader::{Reader, Span};
use super::{Faults, Fields, Pointers};

/// How long a job is paused.
#[derive(Clone, Debug, Default)]
pub struct PauseInput {
    /// An instant or a duration.
    pub until: Option<String>,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// Which version a job goes back to.
#[derive(Clone, Debug, Default)]
pub struct RevertInput {
    /// Which.
    pub version: Option<u64>,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// What is cancelled, and how.
#[derive(Clone, Debug, Default)]
pub struct CancelInput {
    /// Which fire, where a fire is cancelled.
    pub at: Option<String>,
    /// How long it gets to stop.
    pub grace: Option<Span>,
    /// Why.
    pub note: Option<String>,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// The limits of a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolInput {
    /// Attempts at the same time.
    pub slots: Option<u64>,
    /// Whether nothing starts.
    pub paused: Option<bool>,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// The limits of a target.
#[derive(Clone, Debug, Default)]
pub struct TargetInput {
    /// Attempts at the same time.
    pub slots: Option<u64>,
    /// Starts per second.
    pub rate: RateInput,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// How fast: at most one of the two.
#[derive(Clone, Debug, Default)]
pub struct RateInput {
    /// As a number.
    pub per_second: Option<f64>,
    /// As a text such as `50/s`.
    pub text: Option<String>,
}

/// Which dead executions are meant: exactly one of these.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// These.
    pub executions: Vec<String>,
    /// All that match.
    pub filter: Option<String>,
    /// All of this group.
    pub fingerprint: Option<String>,
    /// All.
    pub all: bool,
}

/// What to replay, and how carefully.
#[derive(Clone, Debug, Default)]
pub struct ReplayInput {
    /// Which.
    pub selection: Selection,
    /// How fast.
    pub rate: RateInput,
    /// How many at the same time.
    pub max_parallel: Option<u64>,
    /// How many first.
    pub canary: Option<u64>,
    /// When to stop.
    pub stop_if_failing_percent: Option<f64>,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// What to give up.
#[derive(Clone, Debug, Default)]
pub struct DiscardInput {
    /// Which.
    pub selection: Selection,
    /// Why.
    pub reason: Option<String>,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// Which past fires to fill in.
#[derive(Clone, Debug, Default)]
pub struct BackfillInput {
    /// From when.
    pub from: Option<String>,
    /// To when.
    pub to: Option<String>,
    /// How many at the same time.
    pub max_parallel: Option<u64>,
    /// What is done again, in capitals.
    pub reprocess: Option<String>,
    /// How fast.
    pub rate: RateInput,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// Who wants to hear of what.
#[derive(Clone, Debug, Default)]
pub struct EndpointInput {
    /// Where events go.
    pub url: Option<String>,
    /// Which.
    pub events: Vec<String>,
    /// Only of this job: id, or `name:` and a name.
    pub job: Option<String>,
    /// Only of jobs with this tag.
    pub tag: Option<String>,
    /// Whether nothing is sent.
    pub paused: Option<bool>,
    /// Where each field stood.
    pub pointers: Pointers,
}

/// Reads a request. `text` must have passed [`json::check`](crate::wire::json::check).
fn read<T>(text: &str, names: &'static [Name], faults: &mut Faults, take: impl FnOnce(&mut Reader<'_>) -> T) -> T {
    let mut fields = Fields::read(text, names, faults);
    take(&mut Reader { fields: &mut fields, faults })
}

impl PauseInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, PAUSE, faults, |take| Self { until: take.text("/until"), pointers: take.pointers() })
    }
}

impl RevertInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, REVERT, faults, |take| Self { version: take.count("/version"), pointers: take.pointers() })
    }
}

impl CancelInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, CANCEL, faults, |take| Self {
            at: take.text("/at"),
            grace: take.span("/grace_ms"),
            note: take.text("/note"),
            pointers: take.pointers(),
        })
    }
}

impl PoolInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, POOL, faults, |take| Self {
            slots: take.count("/slots"),
            paused: take.flag("/paused"),
            pointers: take.pointers(),
        })
    }
}

impl TargetInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, TARGET_LIMITS, faults, |take| Self {
            slots: take.count("/slots"),
            rate: take.rate(),
            pointers: take.pointers(),
        })
    }
}

impl ReplayInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, REPLAY, faults, |take| Self {
            selection: take.selection(),
            rate: take.rate(),
            max_parallel: take.count("/max_parallel"),
            canary: take.count("/canary"),
            stop_if_failing_percent: take.percent("/stop_if_failing_percent"),
            pointers: take.pointers(),
        })
    }
}

impl DiscardInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, DISCARD, faults, |take| Self {
            selection: take.selection(),
            reason: take.text("/reason"),
            pointers: take.pointers(),
        })
    }
}

impl BackfillInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, BACKFILL, faults, |take| Self {
            from: take.text("/from"),
            to: take.text("/to"),
            max_parallel: take.count("/max_parallel"),
            reprocess: take.word("/reprocess"),
            rate: take.rate(),
            pointers: take.pointers(),
        })
    }
}

impl EndpointInput {
    /// Reads it.
    pub fn read(text: &str, faults: &mut Faults) -> Self {
        read(text, ENDPOINT, faults, |take| Self {
            url: take.text("/url"),
            events: take.texts("/events"),
            job: take.text("/job"),
            tag: take.text("/tag"),
            paused: take.flag("/paused"),
            pointers: take.pointers(),
        })
    }
}

impl Reader<'_> {
    fn pointers(&mut self) -> Pointers {
        std::mem::take(&mut self.fields.pointers)
    }

    fn rate(&mut self) -> RateInput {
        RateInput { per_second: self.number("/per_second"), text: self.text("/rate") }
    }

    fn selection(&mut self) -> Selection {
        Selection {
            executions: self.texts("/executions"),
            filter: self.text("/filter"),
            fingerprint: self.text("/fingerprint"),
            all: self.flag("/all").unwrap_or_default(),
        }
    }

    /// A number, or a text such as `20%`.
    fn percent(&mut self, canonical: &str) -> Option<f64> {
        use serde_json::Value;
        match self.value(canonical)?.0 {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => {
                let percent = text.trim().trim_end_matches('%').trim_end().parse().ok();
                if percent.is_none() {
                    self.refuse(canonical, "percent_invalid", "expected a number of percent, such as 20 or \"20%\"");
                }
                percent
            }
            other => self.wrong_type(canonical, "a number of percent", &other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(faults: Faults) -> Vec<(String, String)> {
        faults.into_vec().into_iter().map(|fault| (fault.pointer, fault.code)).collect()
    }

    #[test]
    fn replays_are_read_in_both_dialects() {
        for text in [
            r#"{"filter":"state:dead","rate":"50/s","canary":10,"stop_if_failing_percent":20,"max_parallel":5}"#,
            r#"{"filter":"state:dead","rate":"50/s","canary":10,"stopIfFailing":"20%","maxParallel":5}"#,
        ] {
            let mut faults = Faults::default();
            let replay = ReplayInput::read(text, &mut faults);
            assert!(faults.is_empty(), "{text}");
            assert_eq!(replay.selection.filter.as_deref(), Some("state:dead"));
            assert_eq!(
                (replay.rate.text.as_deref(), replay.canary, replay.max_parallel),
                (Some("50/s"), Some(10), Some(5))
            );
            assert_eq!(replay.stop_if_failing_percent, Some(20.0));
        }
    }

    #[test]
    fn faults_stand_where_the_sender_wrote_them() {
        let mut faults = Faults::default();
        ReplayInput::read(r#"{"fitler":"x","executionIds":["a",5],"maxParallel":-1,"all":"yes"}"#, &mut faults);
        let expected = [
            ("/fitler", "field_unknown"),
            ("/executionIds/1", "wrong_type"),
            ("/all", "wrong_type"),
            ("/maxParallel", "wrong_type"),
        ];
        assert_eq!(codes(faults), expected.map(|(pointer, code)| (pointer.to_owned(), code.to_owned())));
        let mut faults = Faults::default();
        CancelInput::read(r#"{"grace":5,"note":"a","reason":"b"}"#, &mut faults);
        assert_eq!(
            codes(faults).into_iter().map(|(_, code)| code).collect::<Vec<_>>(),
            ["field_duplicate", "unit_missing"]
        );
    }

    #[test]
    fn what_is_shown_of_limits_can_be_sent_back() {
        let mut faults = Faults::default();
        let pool = crate::wire::Pool { name: "p".into(), slots: Some(3), paused: true, ..Default::default() };
        let read = PoolInput::read(&serde_json::to_string(&pool).unwrap(), &mut faults);
        assert_eq!((read.slots, read.paused), (Some(3), Some(true)));
        let target = crate::wire::Target { name: "t".into(), per_second: Some(2.5), ..Default::default() };
        let read = TargetInput::read(&serde_json::to_string(&target).unwrap(), &mut faults);
        assert_eq!(read.rate.per_second, Some(2.5));
        assert!(faults.is_empty());
    }
}
