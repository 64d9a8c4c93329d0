//! Windows of time: `-24h..now`, `2026-11-16..2026-11-17`, `2026-11-16T02:00:00Z..`, `..+5m`, `-24h`.
//!
//! An end is an RFC 3339 instant, a date (its midnight in UTC), `now`, or a distance from now. One end alone makes a
//! window between it and now. The start belongs to the window and the end does not, so that two windows can touch.

use super::FilterError;
use super::scan::{Value, shown};
use crate::schedule::{DURATION_MS_MAX, parse_duration_ms};
use crate::time::Timestamp;

const HINT: &str = "such as -24h..now, 2026-11-16..2026-11-17, 2026-11-16T02:00:00Z.., or -24h";
/// Nothing is due before 1970.
const EARLIEST: Timestamp = Timestamp::from_millis(0);

/// Reads a window, of which one end may be open.
pub(super) fn window(value: &Value, now: Timestamp) -> Result<(Option<Timestamp>, Option<Timestamp>), FilterError> {
    let now = now.clamp(EARLIEST, Timestamp::LATEST);
    let Some((from, to)) = value.text.split_once("..") else {
        let at = instant(value, 0, &value.text, now)?;
        return ordered(value, Some(at.min(now)), Some(at.max(now)));
    };
    let end = |at: usize, text: &str| (!text.is_empty()).then(|| instant(value, at, text, now)).transpose();
    ordered(value, end(0, from)?, end(from.len() + 2, to)?)
}

fn ordered(
    value: &Value,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
) -> Result<(Option<Timestamp>, Option<Timestamp>), FilterError> {
    match (from, to) {
        (None, None) => Err(FilterError::new("both ends of the window are open", value.position).hint(HINT)),
        (Some(from), Some(to)) if from >= to => {
            let message = format!("the window is empty: from {from} to {to}");
            Err(FilterError::new(message, value.position).hint("the earlier end first"))
        }
        window => Ok(window),
    }
}

/// One end of a window, which stands at byte `at` of the value.
fn instant(value: &Value, at: usize, text: &str, now: Timestamp) -> Result<Timestamp, FilterError> {
    let position = value.within(at, at + text.len());
    if text.eq_ignore_ascii_case("now") {
        return Ok(now);
    }
    if let Some(distance) = text.strip_prefix(['-', '+']) {
        let ms = parse_duration_ms(distance).map_err(|error| FilterError {
            message: error.message,
            position: value.within(at + 1, at + text.len()),
            hint: error.hint,
        })?;
        if ms > DURATION_MS_MAX {
            return Err(
                FilterError::new(format!("{} is too far from now", shown(text)), position).hint("at most 100 years")
            );
        }
        let ms = if text.starts_with('-') { -(ms as i64) } else { ms as i64 };
        return Ok(now.saturating_add_ms(ms).clamp(EARLIEST, Timestamp::LATEST));
    }
    // A date gets the rest of an instant, so that one reader judges both.
    let full = if text.len() == "2026-11-16".len() { format!("{text}T00:00:00Z") } else { text.to_owned() };
    match full.parse::<Timestamp>() {
        Ok(found) => Ok(found.max(EARLIEST)),
        Err(_) => {
            let error = FilterError::new(format!("{} is not an instant", shown(text)), position);
            Err(match parse_duration_ms(text) {
                Ok(_) => error.hint(format!("-{text} for the past, +{text} for the future")),
                Err(_) => error.hint(HINT),
            })
        }
    }
}
