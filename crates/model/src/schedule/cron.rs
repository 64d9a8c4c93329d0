//! Cron text into bit masks: a strict parser that refuses with the position and a hint.
//!
//! The syntax is five fields (minute, hour, day of month, month, day of week) or six with seconds first. Each item of
//! each field becomes bits of [`Fields`], forty bytes in all, so that the search never looks at text again. Three facts
//! survive from the text itself, since the rules are about the text:
//! - whether the two day fields are joined by *and* (one of them starts with `*`, or is `?`) or by *or*;
//! - whether the schedule is *fixed-time* (neither minute nor hour starts with `*`), which decides about clock changes;
//! - a canonical spelling, numbers only and `H` replaced, which is stored and by which plans are shared.
//!
//! An expression whose dates cannot exist (`0 0 30 2 *`) is refused here. Twenty-eight consecutive years without a
//! skipped leap year contain every pair of month and weekday pattern, so looking at them is a proof.

use jiff::tz::TimeZone;

use super::item::{DAY, FIELDS, Field, HOUR, Item, MINUTE, MONTH, SECOND, WEEKDAY, invalid, parse_field};
use super::{DstFold, DstGap, HashSeed, ScheduleError, quoted, zone};
use crate::fault::{Bug, planted};

/// The longest accepted expression in bytes.
const EXPRESSION_BYTES_MAX: usize = 256;

/// A parsed expression with its zone and policy: everything that [`super::Plan::next`] depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CronPlan {
    pub fields: Fields,
    pub zone: TimeZone,
    /// Present if the zone has had one offset since 1970: the search then asks the zone nothing.
    pub constant_offset: Option<i64>,
    pub dst_gap: DstGap,
    pub dst_fold: DstFold,
    /// The canonical spelling of the fields.
    pub text: Box<str>,
}

/// The bits of an expression. Bit n stands for the value n.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Fields {
    pub seconds: u64,
    pub minutes: u64,
    pub hours: u32,
    /// Days of the month by number.
    pub days: u32,
    /// Days of the month whose nearest weekday is meant (`15W`).
    pub days_nearest: u32,
    pub months: u16,
    /// Days of the week, Sunday is bit 0.
    pub weekdays: u8,
    /// The last such day of the week in the month (`5L`).
    pub weekdays_last: u8,
    /// The k-th such day of the week in the month (`1#2`), at index k - 1.
    pub weekdays_nth: [u8; 5],
    /// `L`: the last day of the month.
    pub last_day: bool,
    /// `LW`: the last weekday of the month.
    pub last_weekday: bool,
    /// Both day fields must match, rather than either.
    pub days_and: bool,
    /// Neither the minute nor the hour starts with `*`.
    pub fixed_time: bool,
}

impl CronPlan {
    /// Parses and checks an expression. Without a seed `H` is refused, as in a stored plan.
    pub fn new(
        expression: &str,
        seed: Option<HashSeed<'_>>,
        zone: TimeZone,
        dst_gap: DstGap,
        dst_fold: DstFold,
    ) -> Result<Self, ScheduleError> {
        let (fields, text) = parse(expression, seed)?;
        let constant_offset = zone::constant_offset(&zone);
        let plan = Self { fields, zone, constant_offset, dst_gap, dst_fold, text: text.into() };
        if !plan.fields.dates_exist() {
            return Err(plan.never_fires(expression));
        }
        Ok(plan)
    }

    /// The refusal of an expression without a fire.
    pub fn never_fires(&self, expression: &str) -> ScheduleError {
        let error =
            ScheduleError::new("cron_never_fires", format!("the expression {} never fires", quoted(expression)))
                .at(0, expression.len());
        if self.fields.dates_exist() {
            let zone = zone::name(&self.zone);
            error.hint(format!("the clock of {zone} skips all its times; choose dst_gap=next_valid or shift"))
        } else {
            error.hint("no year has such a date; look at day-of-month, month and day-of-week together")
        }
    }
}

impl Fields {
    /// Whether any date matches. 2000 to 2027 hold all fourteen kinds of year.
    fn dates_exist(&self) -> bool {
        // cron-utils#310: a date that no year has is looked for all the same.
        planted(Bug("impossible-date"))
            || (2000..2028).any(|year| (1..=12).any(|month| self.month_days(year, month) != 0))
    }
}

/// The `@` names and what they stand for.
const NAMED: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// An expression as bits and in canonical spelling.
pub(super) fn parse(expression: &str, seed: Option<HashSeed<'_>>) -> Result<(Fields, String), ScheduleError> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        let message = format!("a cron expression of {} bytes", expression.len());
        return Err(invalid(message, 0, expression.len()).hint("at most 256 bytes"));
    }
    let mut words = words(expression);
    if planted(Bug("seconds-misread")) {
        // django-absurd#40: the seconds are read as minutes, and the last field is nobody's.
        words.truncate(5);
    }
    if let Some(&(start, word)) = words.first().filter(|(_, word)| word.starts_with('@')) {
        return parse_named(start, word, words.get(1));
    }
    let fields = match words.len() {
        5 => &FIELDS[1..],
        6 => &FIELDS[..],
        count => return Err(wrong_count(expression, &words, count)),
    };
    let mut bits = Fields { seconds: 1, fixed_time: true, ..Fields::default() };
    let mut spelled = Vec::with_capacity(6);
    for (field, &(start, word)) in fields.iter().zip(&words) {
        let items = parse_field(field, start, word, seed)?;
        bits.set(field, word, &items);
        spelled.push(spell(field, &items));
    }
    // `0` seconds of a six-field expression are what five fields mean: one spelling, one plan.
    if spelled.len() == 6 && bits.seconds == 1 {
        spelled.remove(0);
    }
    Ok((bits, spelled.join(" ")))
}

fn parse_named(start: usize, word: &str, next: Option<&(usize, &str)>) -> Result<(Fields, String), ScheduleError> {
    let end = start + word.len();
    if let Some(&(start, word)) = next {
        return Err(invalid(format!("{} after a named schedule", quoted(word)), start, start + word.len()));
    }
    let lower = word.to_ascii_lowercase();
    match NAMED.iter().find(|(name, _)| *name == lower) {
        Some((_, expression)) => parse(expression, None),
        None if lower == "@reboot" => Err(invalid("@reboot is not a time", start, end)
            .hint("a scheduler outlives reboots; start the job from the machine's own init")),
        None if lower == "@every" => Err(invalid("@every without a duration", start, end).hint("such as @every 90s")),
        None => Err(invalid(format!("unknown name {}", quoted(word)), start, end)
            .hint("one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, @every 90s")),
    }
}

/// The blank-separated words with their byte positions.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::with_capacity(6);
    let mut start = 0;
    for part in text.split([' ', '\t']) {
        if !part.is_empty() {
            words.push((start, part));
        }
        start += part.len() + 1;
    }
    words
}

fn wrong_count(expression: &str, words: &[(usize, &str)], count: usize) -> ScheduleError {
    let message = format!("{count} fields, but a cron expression has 5, or 6 with seconds first");
    match words.get(6) {
        Some(&(start, _)) if count == 7 => {
            invalid(message, start, expression.len()).hint("there is no field for years; leave the last one out")
        }
        Some(&(start, _)) => invalid(message, start, expression.len()),
        None => {
            invalid(message, 0, expression.len()).hint("minute hour day-of-month month day-of-week, as in 30 3 * * 1")
        }
    }
}

impl Fields {
    fn set(&mut self, field: &Field, word: &str, items: &[Item]) {
        let star = word.starts_with('*') || word == "?";
        let mut bits = 0u64;
        for item in items {
            match *item {
                Item::Every { step } => bits |= range_bits(field.min, field.max, step),
                Item::Range { from, to, step } => bits |= range_bits(from, to, step),
                Item::LastDay => self.last_day = true,
                Item::LastWeekday => self.last_weekday = true,
                Item::Nearest(day) => self.days_nearest |= 1 << day,
                Item::Nth { weekday, nth } => self.weekdays_nth[usize::from(nth - 1)] |= 1 << weekday,
                Item::LastOf(weekday) => self.weekdays_last |= 1 << weekday,
            }
        }
        match field.name {
            SECOND => self.seconds = bits,
            MINUTE => self.minutes = bits,
            HOUR => self.hours = bits as u32,
            DAY => self.days = bits as u32,
            MONTH => self.months = bits as u16,
            // 7 is Sunday too.
            _ => self.weekdays = (bits | bits >> 7) as u8 & 0x7f,
        }
        self.days_and |= field.is_day() && star;
        self.fixed_time &= !(star && matches!(field.name, MINUTE | HOUR));
    }
}

fn range_bits(from: u8, to: u8, step: u8) -> u64 {
    (from..=to).step_by(usize::from(step.max(1))).fold(0, |bits, value| bits | 1 << value)
}

fn spell(field: &Field, items: &[Item]) -> String {
    let spelled: Vec<String> = items
        .iter()
        .map(|item| match *item {
            Item::Every { step: 1 } => "*".to_owned(),
            Item::Every { step } => format!("*/{step}"),
            Item::Range { from, to, .. } if from == to && field.name == WEEKDAY => (from % 7).to_string(),
            Item::Range { from, to, .. } if from == to => from.to_string(),
            Item::Range { from, to, step: 1 } => format!("{from}-{to}"),
            Item::Range { from, to, step } => format!("{from}-{to}/{step}"),
            Item::LastDay => "L".to_owned(),
            Item::LastWeekday => "LW".to_owned(),
            Item::Nearest(day) => format!("{day}W"),
            Item::Nth { weekday, nth } => format!("{weekday}#{nth}"),
            Item::LastOf(weekday) => format!("{weekday}L"),
        })
        .collect();
    spelled.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(expression: &str) -> Result<String, ScheduleError> {
        parse(expression, Some(HashSeed { tenant: "acme", job: "report" })).map(|(_, text)| text)
    }

    #[test]
    fn accepted() {
        for (expression, expected) in [
            ("* * * * *", "* * * * *"),
            ("  5\t4 *  * * ", "5 4 * * *"),
            ("05 04 01 01 00", "5 4 1 1 0"),
            ("*/15 0-23/2 1,15 * 1-5", "*/15 0-23/2 1,15 * 1-5"),
            ("5/10 * * * *", "5-59/10 * * * *"),
            ("0 0 * JAN,feb-Apr sun,Mon", "0 0 * 1,2-4 0,1"),
            ("0 0 * * 5-7", "0 0 * * 5-7"),
            ("0 0 * * FRI/1", "0 0 * * 5-7"),
            ("0 0 ? * 7", "0 0 * * 0"),
            ("0 0 1 * ?", "0 0 1 * *"),
            ("0 0 l,lw,1w * *", "0 0 L,LW,1W * *"),
            ("0 0 * * 7#5,6L,satL", "0 0 * * 0#5,6L,6L"),
            ("0 0 0 * * *", "0 0 * * *"),
            ("30 0 0 * * *", "30 0 0 * * *"),
            ("*/59 */23 */31 */12 */7", "*/59 */23 */31 */12 */7"),
            ("22-22 * * * *", "22 * * * *"),
            ("@hourly", "0 * * * *"),
            (" @Yearly\t", "0 0 1 1 *"),
            ("@annually", "0 0 1 1 *"),
            ("@monthly", "0 0 1 * *"),
            ("@daily", "0 0 * * *"),
            ("@midnight", "0 0 * * *"),
        ] {
            assert_eq!(canonical(expression).as_deref(), Ok(expected), "{expression}");
            assert_eq!(canonical(expected).as_deref(), Ok(expected), "{expected}");
        }
    }

    /// Expression, the bytes that are wrong, and a word of the hint.
    #[test]
    fn refused_with_position_and_hint() {
        for (expression, wrong, hint) in [
            ("", "", "minute hour"),
            ("* * * *", "* * * *", "minute hour"),
            ("0 0 1 1 * 2027 9", "9", "years"),
            ("0 0 0 1 1 * 2027", "2027", "years"),
            ("0 22-2 * * *", "22-2", "22-23,0-2"),
            ("0 23-1 * * *", "23-1", "23,0-1"),
            ("0 0 * * SAT-SUN", "SAT-SUN", "6-7"),
            ("0 0 * * FRI-MON", "FRI-MON", "5-6,0-1"),
            ("0 0 * * 7-2", "7-2", "0-2"),
            ("0 0 * NOV-FEB *", "NOV-FEB", "11-12,1-2"),
            ("+5 * * * *", "+5", "without a sign"),
            ("-5 * * * *", "-5", "without a sign"),
            ("5- * * * *", "", "0 to 59"),
            ("1-2-3 * * * *", "2-3", "0 to 59"),
            ("0 0 * * Monday", "Monday", "write MON"),
            ("0 0 * January *", "January", "write JAN"),
            ("0 0 * MON *", "MON", "day-of-week"),
            ("0 0 * * JAN", "JAN", "month"),
            ("MON 0 * * *", "MON", "day-of-week"),
            ("60 * * * *", "60", "0 to 59"),
            ("0 24 * * *", "24", "0 to 23"),
            ("0 0 0 * *", "0", "1 to 31"),
            ("0 0 32 * *", "32", "1 to 31"),
            ("0 0 1 13 *", "13", "1 to 12"),
            ("0 0 1 1 8", "8", "0 to 7"),
            ("007 * * * *", "007", "0 to 59"),
            ("99999999999999999999 * * * *", "99999999999999999999", "0 to 59"),
            ("*/0 * * * *", "0", "1 to 59"),
            ("*/60 * * * *", "60", "1 to 59"),
            ("* */24 * * *", "24", "1 to 23"),
            ("*/ * * * *", "", "1 to 59"),
            ("*/-5 * * * *", "-5", "1 to 59"),
            ("*/5/5 * * * *", "5/5", "1 to 59"),
            ("1,,2 * * * *", "", "comma"),
            (", * * * *", "", "comma"),
            ("5, * * * *", "", "comma"),
            ("** * * * *", "**", "0 to 59"),
            ("*5 * * * *", "*5", "0 to 59"),
            ("? * * * *", "?", "write *"),
            ("0 0 ?/2 * *", "?", "alone"),
            ("L * * * *", "L", "day-of-month"),
            ("0 0 L-3 * *", "L-3", "last day"),
            ("0 0 WL * *", "WL", "1 to 31"),
            ("0 0 1-5W * *", "5W", "1 to 31"),
            ("0 0 0W * *", "0", "1 to 31"),
            ("0 0 W * *", "W", "1 to 31"),
            ("0 0 1#2 * *", "1#2", "day-of-week"),
            ("0 0 * * L", "L", "FRIL"),
            ("0 0 * * 8L", "8", "0 to 7"),
            ("0 0 * * 1#0", "1#0", "#1 to #5"),
            ("0 0 * * 1#6", "1#6", "#1 to #5"),
            ("0 0 * * 1#", "1#", "#1 to #5"),
            ("0 0 * * 1#+1", "1#+1", "#1 to #5"),
            ("0 0 * * #1", "", "SUN"),
            ("0 0 * * 15W", "15W", "0 to 7"),
            ("H(5) * * * *", "H(5)", "H(a-b)"),
            ("H(9-5) * * * *", "H(9-5)", "H(5-9)"),
            ("H(0-60) * * * *", "60", "0 to 59"),
            ("Hx * * * *", "Hx", "H(a-b)"),
            ("H/0 * * * *", "0", "1 to 59"),
            ("@reboot", "@reboot", "init"),
            ("@every", "@every", "90s"),
            ("@fortnightly", "@fortnightly", "@daily"),
            ("@daily 5", "5", ""),
            ("1.5 * * * *", "1.5", "0 to 59"),
            ("a * * * *", "a", "0 to 59"),
            ("\u{ff11} * * * *", "\u{ff11}", "0 to 59"),
            ("5\n4 * * *", "5\n4 * * *", "minute hour"),
            ("0\u{a0}0 * * * *", "0\u{a0}0", "0 to 59"),
        ] {
            let error = parse(expression, Some(HashSeed { tenant: "acme", job: "report" })).unwrap_err();
            assert_eq!(error.code, "cron_invalid");
            let (start, end) = error.position.unwrap();
            assert_eq!(expression.get(start..end), Some(wrong), "{expression:?}: {error:?}");
            assert!(error.hint.as_deref().unwrap_or("").contains(hint), "{expression:?}: {error:?}");
        }
        let long = format!("{} * * * *", "1,".repeat(200));
        assert!(parse(&long, None).unwrap_err().message.contains("bytes"));
    }

    #[test]
    fn the_text_decides_the_rules() {
        let rules = |expression| {
            let (fields, _) = parse(expression, Some(HashSeed { tenant: "a", job: "b" })).unwrap();
            (fields.days_and, fields.fixed_time)
        };
        assert_eq!(rules("0 0 1 * 1"), (false, true));
        assert_eq!(rules("0 0 */2 * 1"), (true, true));
        assert_eq!(rules("0 0 1 * *,1"), (true, true));
        assert_eq!(rules("0 0 1 * 1,*"), (false, true));
        assert_eq!(rules("0 0 ? * 1"), (true, true));
        assert_eq!(rules("0 0 H * H"), (false, true));
        assert_eq!(rules("* 0 1 * 1"), (false, false));
        assert_eq!(rules("0 */2 1 * 1"), (false, false));
        assert_eq!(rules("0-59 0-23 1 * 1"), (false, true));
        assert_eq!(rules("H/5 H 1 * 1"), (false, true));
        assert_eq!(rules("* 0 0 1 * 1"), (false, true));
    }

    #[test]
    fn a_schedule_is_small() {
        assert!(size_of::<Fields>() <= 48, "{}", size_of::<Fields>());
    }
}
