//! Small requests: instants near now, rates, and which dead executions are meant.

use super::Reader;
use campanile_client::wire::FieldProblem;
use campanile_client::wire::input::{Faults, Pointers, RateInput, Selection, Span};
use campanile_model::filter::{Filter, Test};
use campanile_model::schedule::{DURATION_MS_MAX, parse_duration_ms};
use campanile_model::{ExecutionId, Timestamp, limits};

/// Rates that make sense, per second.
const RATE: std::ops::RangeInclusive<f64> = 0.001..=1_000_000.0;

/// An instant as people write it: RFC 3339, a date (its midnight in UTC), `now`, or a distance from now such as `-2h`.
pub(crate) fn instant_near(text: &str, now: Timestamp) -> Result<Timestamp, String> {
    let text = text.trim();
    if text.eq_ignore_ascii_case("now") {
        return Ok(now);
    }
    if let Some(distance) = text.strip_prefix(['-', '+']) {
        let ms = parse_duration_ms(distance).map_err(|error| error.message)?;
        if ms > DURATION_MS_MAX {
            return Err(format!("`{text}` is too far from now"));
        }
        let ms = if text.starts_with('-') { -(ms as i64) } else { ms as i64 };
        return Ok(now.saturating_add_ms(ms));
    }
    let full = if text.len() == "2026-11-16".len() { format!("{text}T00:00:00Z") } else { text.to_owned() };
    full.parse::<Timestamp>().map_err(|_| {
        let shown: String = text.chars().take(64).flat_map(char::escape_debug).collect();
        format!("`{shown}` is not an instant: write 2026-11-16T02:00:00Z, now, or -2h")
    })
}

/// Which dead executions are meant.
#[derive(Debug, PartialEq)]
pub(crate) enum Chosen {
    /// These.
    Executions(Vec<ExecutionId>),
    /// All that match.
    Matching(Filter),
}

impl<'a> Reader<'a> {
    /// A reader of a small request.
    pub(crate) fn new(pointers: &'a Pointers, faults: &'a mut Faults) -> Self {
        Self { pointers, faults }
    }

    /// An instant near `now`, where one was sent.
    pub(crate) fn near(&mut self, canonical: &str, text: &Option<String>, now: Timestamp) -> Option<Timestamp> {
        match instant_near(text.as_deref()?, now) {
            Ok(at) => Some(at),
            Err(message) => {
                self.refuse(canonical, "instant_invalid", message);
                None
            }
        }
    }

    /// The end of a pause: an instant, or a duration from now.
    pub(crate) fn until(&mut self, canonical: &str, text: &Option<String>, now: Timestamp) -> Option<Timestamp> {
        match text.as_deref().map(|text| parse_duration_ms(text.trim())) {
            Some(Ok(ms)) => Some(now.saturating_add_ms(i64::try_from(ms).unwrap_or(i64::MAX)).min(Timestamp::LATEST)),
            _ => self.near(canonical, text, now),
        }
    }

    /// A duration of at most `max_ms`, where one was sent.
    pub(crate) fn duration_up_to(&mut self, canonical: &str, span: &Option<Span>, max_ms: u64) -> Option<u64> {
        let ms = self.optional_span(canonical, span)??;
        if ms > max_ms {
            self.refuse(canonical, "duration_invalid", format!("{ms} ms is more than {max_ms}"));
            return None;
        }
        Some(ms)
    }

    /// Refuses a field for this reason; its pointer becomes the sender's.
    pub(crate) fn refuse_with(&mut self, mut fault: FieldProblem) {
        fault.pointer = self.pointers.sent(&fault.pointer);
        self.faults.add(fault);
    }

    /// Refuses a request without a field that it needs.
    pub(crate) fn missing(&mut self, canonical: &str, message: &str) {
        // Where it was sent and is wrong, its own fault is recorded already.
        if !self.faults.are_about(&self.pointers.sent(canonical)) {
            self.refuse(canonical, "field_missing", message);
        }
    }

    /// A share in percent, where one was sent.
    pub(crate) fn percent(&mut self, canonical: &str, percent: Option<f64>) -> Option<f64> {
        let percent = percent?;
        if !(0.0..=100.0).contains(&percent) {
            self.refuse(canonical, "percent_invalid", format!("a share must be 0 to 100 percent, got {percent}"));
            return None;
        }
        Some(percent)
    }

    /// Checks a text for people.
    pub(crate) fn check_note(&mut self, canonical: &str, text: Option<&str>, bytes_max: usize) {
        if text.is_some_and(|text| text.len() > bytes_max) {
            self.refuse(canonical, "note_invalid", format!("at most {bytes_max} bytes"));
        }
    }

    /// A number within a range, where one was sent.
    pub(crate) fn within(
        &mut self,
        canonical: &str,
        code: &str,
        number: Option<u64>,
        range: std::ops::RangeInclusive<u64>,
    ) -> Option<u64> {
        let number = number?;
        if !range.contains(&number) {
            let name = canonical.trim_start_matches('/');
            self.refuse(canonical, code, format!("{name} must be {} to {}, got {number}", range.start(), range.end()));
            return None;
        }
        Some(number)
    }

    /// A rate per second, where one was sent.
    pub(crate) fn rate(&mut self, rate: &RateInput) -> Option<f64> {
        let (canonical, per_second) = match (rate.per_second, rate.text.as_deref()) {
            (None, None) => return None,
            (Some(_), Some(_)) => {
                self.refuse("/rate", "field_duplicate", "`rate` and `per_second` say the same thing; send one of them");
                return None;
            }
            (Some(per_second), None) => ("/per_second", Some(per_second)),
            (None, Some(text)) => ("/rate", parse_rate(text)),
        };
        let per_second = per_second.filter(|rate| RATE.contains(rate));
        if per_second.is_none() {
            let fault =
                FieldProblem::new(self.pointers.sent(canonical), "rate_invalid", "this is no rate that can be used");
            self.faults.add(fault.hint("such as 50/s, 10/m or 500/h; from 0.001 to 1000000 per second"));
        }
        per_second
    }

    /// Which dead executions are meant; exactly one way to say it must be used.
    pub(crate) fn chosen(&mut self, selection: &Selection, now: Timestamp) -> Option<Chosen> {
        let Selection { executions, filter, fingerprint, all } = selection;
        let ways = [!executions.is_empty(), filter.is_some(), fingerprint.is_some(), *all];
        match ways.into_iter().filter(|way| *way).count() {
            1 => {}
            0 => {
                let message = "say which: `executions`, `filter`, `fingerprint`, or `all`: true";
                self.refuse("", "selection_missing", message);
                return None;
            }
            _ => {
                let message = "send one of `executions`, `filter`, `fingerprint` and `all`";
                self.refuse("", "selection_ambiguous", message);
                return None;
            }
        }
        if !executions.is_empty() {
            return self.ids(executions).map(Chosen::Executions);
        }
        let mut chosen = Filter::default();
        if let Some(fingerprint) = fingerprint {
            chosen.terms.push(term(Test::Fingerprint(self.fingerprint("/fingerprint", fingerprint)?)));
        }
        if let Some(filter) = filter {
            chosen = self.filter("/filter", filter, now)?;
            if chosen.terms.is_empty() {
                let fault = FieldProblem::new(
                    self.pointers.sent("/filter"),
                    "selection_missing",
                    "this filter means everything",
                );
                self.faults.add(fault.hint("send `all`: true instead, if that is what you want"));
                return None;
            }
        }
        Some(Chosen::Matching(chosen))
    }

    fn filter(&mut self, canonical: &str, text: &str, now: Timestamp) -> Option<Filter> {
        match Filter::parse(text, now) {
            Ok(filter) => Some(filter),
            Err(error) => {
                let pointer = self.pointers.sent(canonical);
                self.faults.add(crate::problem::field(error.into_field(pointer)));
                None
            }
        }
    }

    fn fingerprint(&mut self, canonical: &str, text: &str) -> Option<String> {
        let digits = fingerprint_digits(text);
        if digits.is_none() {
            self.refuse(canonical, "fingerprint_invalid", "a fingerprint has 1 to 16 hexadecimal digits");
        }
        digits
    }

    fn ids(&mut self, texts: &[String]) -> Option<Vec<ExecutionId>> {
        if texts.len() > limits::PULL_ITEMS_MAX {
            let message = format!("at most {} executions, got {}; use a filter", limits::PULL_ITEMS_MAX, texts.len());
            self.refuse("/executions", "batch_too_large", message);
            return None;
        }
        let mut ids = Vec::with_capacity(texts.len());
        for (i, text) in texts.iter().enumerate() {
            match text.parse() {
                Ok(id) => ids.push(id),
                Err(error) => self.refuse(&format!("/executions/{i}"), "id_invalid", format!("{error}")),
            }
        }
        (ids.len() == texts.len()).then_some(ids)
    }
}

/// The digits of a fingerprint or of its start, as filters have them.
pub(crate) fn fingerprint_digits(text: &str) -> Option<String> {
    let digits = text.trim();
    let fits = (1..=16).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    fits.then(|| digits.to_ascii_lowercase())
}

/// A term that must hold, which was written nowhere.
pub(crate) fn term(test: Test) -> campanile_model::filter::Term {
    campanile_model::filter::Term { negated: false, test, position: (0, 0) }
}

/// `50/s`, `10/m`, `500/h`, or a number per second.
fn parse_rate(text: &str) -> Option<f64> {
    let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
    let number: f64 = number.trim().parse().ok()?;
    let seconds = match unit.trim() {
        "s" | "sec" | "second" => 1.0,
        "m" | "min" | "minute" => 60.0,
        "h" | "hour" => 3_600.0,
        _ => return None,
    };
    Some(number / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use campanile_client::wire::input::ReplayInput;

    const NOW: Timestamp = Timestamp::from_millis(1_794_794_400_000);

    #[test]
    fn instants_near_now() {
        let at = |text| instant_near(text, NOW).map(|at| at.to_string()).unwrap_or_else(|_| "?".into());
        assert_eq!(at("now"), "2026-11-16T02:00:00Z");
        assert_eq!(at("-2h"), "2026-11-16T00:00:00Z");
        assert_eq!(at("+90s"), "2026-11-16T02:01:30Z");
        assert_eq!(at("2026-11-10"), "2026-11-10T00:00:00Z");
        assert_eq!(at("2026-11-10T01:02:03+01:00"), "2026-11-10T00:02:03Z");
        for bad in ["", "2h", "yesterday", "-", "-999999999999999d", "2026-13-40"] {
            assert_eq!(at(bad), "?", "{bad}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(parse_rate("50/s"), Some(50.0));
        assert_eq!(parse_rate("30/m"), Some(0.5));
        assert_eq!(parse_rate("2.5"), Some(2.5));
        assert_eq!(parse_rate("50/y"), None);
        assert_eq!(parse_rate("fast"), None);
    }

    #[test]
    fn a_selection_says_one_thing() {
        let code = |text: &str| {
            let mut faults = Faults::default();
            let input = ReplayInput::read(text, &mut faults);
            let chosen = Reader::new(&input.pointers, &mut faults).chosen(&input.selection, NOW);
            match faults.into_vec().pop() {
                Some(fault) => fault.code,
                None => format!("{:?}", chosen.is_some()),
            }
        };
        assert_eq!(code(r#"{"all":true}"#), "true");
        assert_eq!(code(r#"{"fingerprint":"9F3a"}"#), "true");
        assert_eq!(code(r#"{"filter":"job:a"}"#), "true");
        assert_eq!(code("{}"), "selection_missing");
        assert_eq!(code(r#"{"filter":" "}"#), "selection_missing");
        assert_eq!(code(r#"{"all":true,"filter":"job:a"}"#), "selection_ambiguous");
        assert_eq!(code(r#"{"fingerprint":"xyz"}"#), "fingerprint_invalid");
        assert_eq!(code(r#"{"filter":"jbo:a"}"#), "filter_invalid");
        assert_eq!(code(r#"{"executions":["x"]}"#), "id_invalid");
    }
}
