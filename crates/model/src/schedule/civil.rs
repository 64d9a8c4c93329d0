//! Bit masks against the calendar: the next matching civil second, without any zone.
//!
//! A civil second is a reading of the wall clock, counted from 1970-01-01 00:00:00 as though it were UTC. The search
//! goes month by month: the two day fields of a month become one mask of up to 31 bits by a few shifts, so a month
//! without a match costs some nanoseconds, and a time of day is found with three looks at a mask.
//!
//! Every search is bounded by `HORIZON_YEARS`: a possible date recurs within 40 years, so there is nothing to find
//! beyond, and no expression can make the search spin.

use super::cron::Fields;

pub(super) const DAY_SECONDS: i64 = 86_400;
/// Possible dates recur within 40 years (a leap day on a given weekday, across 2100); one more for the partial year.
pub(super) const HORIZON_YEARS: i64 = 41;

impl Fields {
    /// The first matching civil second in `from..to`.
    pub fn search(&self, from: i64, to: i64) -> Option<i64> {
        let found = self.search_from(from)?;
        (found < to).then_some(found)
    }

    fn search_from(&self, from: i64) -> Option<i64> {
        let day_number = from.div_euclid(DAY_SECONDS);
        let (mut year, mut month, day) = date(day_number);
        // The number of the day before the first of the month, so that adding a day of the month gives its number.
        let mut month_base = day_number - i64::from(day);
        let mut days = self.days_of(month_base, year, month);
        if days & 1 << day != 0
            && let Some(time) = self.time_at_or_after(from.rem_euclid(DAY_SECONDS))
        {
            return Some(day_number * DAY_SECONDS + time);
        }
        // Only later days of this month; shifted in 64 bits because day 31 leaves nothing.
        days &= (u64::MAX << (day + 1)) as u32;
        for _ in 0..=HORIZON_YEARS * 12 {
            if days != 0 {
                let number = month_base + i64::from(days.trailing_zeros());
                return Some(number * DAY_SECONDS + self.first_time());
            }
            month_base += i64::from(month_length(year, month));
            (year, month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
            days = self.days_of(month_base, year, month);
        }
        None
    }

    /// Whether a civil second matches.
    pub fn matches(&self, civil: i64) -> bool {
        self.search(civil, civil + 1).is_some()
    }

    /// The matching days of a month as bits 1 to 31.
    pub fn month_days(&self, year: i64, month: u8) -> u32 {
        self.days_of(day_number(year, month, 1) - 1, year, month)
    }

    fn days_of(&self, month_base: i64, year: i64, month: u8) -> u32 {
        if self.months & 1 << month == 0 {
            return 0;
        }
        let length = month_length(year, month);
        let all = (2u32 << (length - 1)).wrapping_sub(1) << 1;
        let first_weekday = (month_base + 5).rem_euclid(7) as u32;
        let by_day = self.days | self.special_days(length, first_weekday);
        let by_weekday = self.weekday_days(length, first_weekday);
        all & if self.days_and { by_day & by_weekday } else { by_day | by_weekday }
    }

    /// `L`, `LW` and `nW`.
    fn special_days(&self, length: u32, first_weekday: u32) -> u32 {
        if !self.last_day && !self.last_weekday && self.days_nearest == 0 {
            return 0;
        }
        let mut days = 0;
        if self.last_day {
            days |= 1 << length;
        }
        if self.last_weekday {
            days |= 1 << nearest_weekday(length, length, first_weekday);
        }
        // A month without day n has no nW, just as it has no n.
        for day in (1..=length).filter(|day| self.days_nearest & 1 << day != 0) {
            days |= 1 << nearest_weekday(day, length, first_weekday);
        }
        days
    }

    /// Plain days of the week, `d#k` and `dL`.
    fn weekday_days(&self, length: u32, first_weekday: u32) -> u32 {
        /// Repeats seven bits five times.
        const WEEKS: u64 = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28;
        // Seven bits by weekday become seven bits by day, bit 1 standing for the first of the month.
        let week = |weekdays: u8| {
            let weekdays = u64::from(weekdays);
            ((weekdays >> first_weekday | weekdays << (7 - first_weekday)) & 0x7f) << 1
        };
        let mut days = week(self.weekdays) * WEEKS;
        if self.weekdays_nth != [0; 5] {
            for (index, weekdays) in self.weekdays_nth.iter().enumerate() {
                days |= week(*weekdays) << (7 * index);
            }
        }
        if self.weekdays_last != 0 {
            days |= (week(self.weekdays_last) * WEEKS) & (0x7f << (length - 6));
        }
        days as u32
    }

    /// The first matching second of a day.
    pub fn first_time(&self) -> i64 {
        let (hour, minute) = (self.hours.trailing_zeros(), self.minutes.trailing_zeros());
        i64::from((hour * 60 + minute) * 60 + self.seconds.trailing_zeros())
    }

    fn time_at_or_after(&self, time: i64) -> Option<i64> {
        let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
        if self.hours & 1 << hour != 0 {
            if self.minutes & 1 << minute != 0
                && let Some(second) = bit_at_or_after(self.seconds, second)
            {
                return Some((hour * 60 + minute) * 60 + second);
            }
            if let Some(minute) = bit_at_or_after(self.minutes, minute + 1) {
                return Some((hour * 60 + minute) * 60 + i64::from(self.seconds.trailing_zeros()));
            }
        }
        let hour = bit_at_or_after(u64::from(self.hours), hour + 1)?;
        Some((hour * 60 + i64::from(self.minutes.trailing_zeros())) * 60 + i64::from(self.seconds.trailing_zeros()))
    }
}

/// The lowest set bit from `index` (at most 63) on.
fn bit_at_or_after(bits: u64, index: i64) -> Option<i64> {
    let rest = bits & u64::MAX << index;
    (rest != 0).then(|| i64::from(rest.trailing_zeros()))
}

/// The weekday (Monday to Friday) nearest to a day, without leaving the month.
fn nearest_weekday(day: u32, length: u32, first_weekday: u32) -> u32 {
    match (first_weekday + day - 1) % 7 {
        6 if day == 1 => 3,
        6 => day - 1,
        0 if day == length => day - 2,
        0 => day + 1,
        _ => day,
    }
}

/// The day of the week of a day number, Sunday is 0.
pub(super) fn weekday(day_number: i64) -> u8 {
    (day_number + 4).rem_euclid(7) as u8
}

pub(super) fn month_length(year: i64, month: u8) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Year, month and day of a day number (days since 1970-01-01). Howard Hinnant's `civil_from_days`.
pub(super) fn date(day_number: i64) -> (i64, u8, u32) {
    let shifted = day_number + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u8, day as u32)
}

/// The inverse of [`date`]. Howard Hinnant's `days_from_civil`.
pub(super) fn day_number(year: i64, month: u8, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = (i64::from(month) + 9) % 12;
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::cron::parse;

    #[test]
    fn dates_agree_with_the_library() {
        let mut day = jiff::civil::date(1969, 12, 1);
        for number in -31..120_000 {
            let expected = (i64::from(day.year()), day.month() as u8, day.day() as u32);
            assert_eq!(date(number), expected);
            assert_eq!(day_number(expected.0, expected.1, expected.2), number);
            assert_eq!(weekday(number), day.weekday().to_sunday_zero_offset() as u8);
            assert_eq!(month_length(expected.0, expected.1), day.days_in_month() as u32);
            day = day.tomorrow().unwrap();
        }
    }

    /// The days of a month that an expression's date part matches.
    fn days(date_part: &str, year: i64, month: u8) -> Vec<u32> {
        let (fields, _) = parse(&format!("0 0 {date_part}"), None).unwrap();
        let days = fields.month_days(year, month);
        (1..=31).filter(|day| days & 1 << day != 0).collect()
    }

    #[test]
    fn days_of_a_month() {
        // November 2026 starts on a Sunday, August 2026 on a Saturday and ends on a Monday, May 2026 ends on a Sunday.
        for (date_part, (year, month), expected) in [
            ("L * *", (2026, 11), vec![30]),
            ("L * *", (2024, 2), vec![29]),
            ("L * *", (2100, 2), vec![28]),
            ("LW * *", (2026, 5), vec![29]),
            ("LW * *", (2026, 2), vec![27]),
            ("LW * *", (2026, 11), vec![30]),
            ("1W * *", (2026, 8), vec![3]),
            ("1W * *", (2026, 11), vec![2]),
            ("15W * *", (2026, 11), vec![16]),
            ("14W * *", (2026, 11), vec![13]),
            ("31W * *", (2026, 5), vec![29]),
            ("31W * *", (2026, 11), vec![]),
            ("30W * *", (2026, 5), vec![29]),
            ("* * 1#1", (2026, 11), vec![2]),
            ("* * SUN#5", (2026, 11), vec![29]),
            ("* * MON#5", (2026, 11), vec![30]),
            ("* * TUE#5", (2026, 11), vec![]),
            ("* * 7#1", (2026, 11), vec![1]),
            ("* * 5L", (2026, 11), vec![27]),
            ("* * 7L", (2026, 11), vec![29]),
            ("* * MONL,1#1", (2026, 11), vec![2, 30]),
            ("* * SATL", (2026, 2), vec![28]),
            ("* * 0", (2026, 11), vec![1, 8, 15, 22, 29]),
            ("* * 7", (2026, 11), vec![1, 8, 15, 22, 29]),
            ("13 * FRI", (2026, 11), vec![6, 13, 20, 27]),
            ("13 * 5", (2026, 10), vec![2, 9, 13, 16, 23, 30]),
            ("*/10 * FRI", (2026, 12), vec![11]),
            ("10-16 * */2", (2026, 11), vec![10, 12, 14, 15]),
            ("? * 1", (2026, 11), vec![2, 9, 16, 23, 30]),
            ("31 * ?", (2026, 12), vec![31]),
            ("L,15 * *", (2026, 12), vec![15, 31]),
        ] {
            assert_eq!(days(date_part, year, month), expected, "{date_part} in {year}-{month}");
        }
    }
}
