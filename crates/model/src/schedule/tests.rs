//! Known answers: the rules of clock changes, zone by zone, and the plan's stored form.

use super::*;

const SEED: HashSeed<'static> = HashSeed { tenant: "acme", job: "report" };

/// An instant; seconds may be left out.
fn at(text: &str) -> Timestamp {
    let whole = text.len() == "2026-01-01T00:00Z".len();
    if whole { text.replace('Z', ":00Z").parse().unwrap() } else { text.parse().unwrap() }
}

fn cron(expression: &str, zone: &str, gap: DstGap, fold: DstFold) -> Plan {
    let schedule =
        Schedule::Cron { expression: expression.to_owned(), zone: zone.to_owned(), dst_gap: gap, dst_fold: fold };
    schedule.resolve(SEED, at("2026-01-01T00:00:00Z")).unwrap()
}

fn default(expression: &str, zone: &str) -> Plan {
    cron(expression, zone, DstGap::default(), DstFold::default())
}

/// The rows of a table: columns between bars, comments after `#`. Written as text, since rows are what one reads.
fn rows<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        columns.try_into().unwrap_or_else(|_| panic!("not {N} columns: {line}"))
    })
}

/// The fires after `from`, as RFC 3339 without the seconds if those are zero, and without the date if it is that of the
/// fire before.
fn fires(plan: &Plan, from: &str, n: usize) -> Vec<String> {
    let mut t = at(from);
    let mut found = Vec::new();
    for _ in 0..n {
        let Some(next) = plan.next(t) else { break };
        assert!(next > t, "next({t}) = {next} of {}", plan.encode());
        let text = next.to_string().replace(":00Z", "Z");
        let same_date = t.to_string()[..11] == text[..11] && !found.is_empty();
        found.push(if same_date { text[11..].to_owned() } else { text });
        t = next;
    }
    found
}

#[test]
fn plain_expressions_in_utc() {
    let table = "
        30 3 * * *         | 2026-11-15T03:30Z        | 2026-11-16T03:30Z 2026-11-17T03:30Z
        30 3 * * *         | 2026-11-15T03:29:59.999Z | 2026-11-15T03:30Z 2026-11-16T03:30Z
        */20 * * * *       | 2026-11-15T03:41Z        | 2026-11-15T04:00Z 04:20Z
        0 0 29 2 *         | 2026-11-15T00:00Z        | 2028-02-29T00:00Z 2032-02-29T00:00Z
        0 0 29 2 *         | 2096-03-01T00:00Z        | 2104-02-29T00:00Z 2108-02-29T00:00Z
        0 0 29 2 */7       | 2088-03-01T00:00Z        | 2128-02-29T00:00Z 2156-02-29T00:00Z
        0 12 * * 5L        | 2026-11-01T00:00Z        | 2026-11-27T12:00Z 2026-12-25T12:00Z
        0 12 L * *         | 2026-11-30T12:00Z        | 2026-12-31T12:00Z 2027-01-31T12:00Z
        0 0 31 * *         | 2026-01-31T00:00Z        | 2026-03-31T00:00Z 2026-05-31T00:00Z
        0 0 1 1 *          | 2026-01-01T00:00Z        | 2027-01-01T00:00Z 2028-01-01T00:00Z
        */20 30 2 * * *    | 2026-11-15T03:41Z        | 2026-11-16T02:30Z 02:30:20Z
        30 59 23 31 12 *   | 2026-12-31T23:59:29Z     | 2026-12-31T23:59:30Z 2027-12-31T23:59:30Z
        */15 * * * * *     | 2026-11-15T03:41:45Z     | 2026-11-15T03:42Z 03:42:15Z
        0 9-17 * * MON-FRI | 2026-11-13T17:00Z        | 2026-11-16T09:00Z 10:00Z
    ";
    for [expression, from, expected] in rows(table) {
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(fires(&default(expression, "UTC"), from, 2), expected, "{expression} from {from}");
    }
}

/// Expression, zone, start, and the fires that follow: all with the default policy.
#[test]
fn clock_changes_with_the_default_policy() {
    let table = "
    # New York, forward at 2027-03-14 07:00Z (02:00 becomes 03:00).
    30 2 * * *      | America/New_York    | 2027-03-13T00:00Z | 2027-03-13T07:30Z 2027-03-14T07:00Z 2027-03-15T06:30Z
    30 1 * * *      | America/New_York    | 2027-03-13T12:00Z | 2027-03-14T06:30Z 2027-03-15T05:30Z
    0,30 2 * * *    | America/New_York    | 2027-03-13T12:00Z | 2027-03-14T07:00Z 2027-03-15T06:00Z 06:30Z
    0,30 2,3 * * *  | America/New_York    | 2027-03-14T06:00Z | 2027-03-14T07:00Z 07:30Z 2027-03-15T06:00Z
    0 * * * *       | America/New_York    | 2027-03-14T05:30Z | 2027-03-14T06:00Z 07:00Z 08:00Z
    */20 30 2 * * * | America/New_York    | 2027-03-14T06:00Z | 2027-03-14T07:00Z 2027-03-15T06:30Z 06:30:20Z
    */30 2 * * *    | America/New_York    | 2027-03-13T12:00Z | 2027-03-15T06:00Z 06:30Z
    # New York, back at 2026-11-01 06:00Z (02:00 becomes 01:00).
    30 1 * * *      | America/New_York    | 2026-10-31T12:00Z | 2026-11-01T05:30Z 2026-11-02T06:30Z
    30 1 * * *      | America/New_York    | 2026-11-01T06:10Z | 2026-11-02T06:30Z
    0 * * * *       | America/New_York    | 2026-11-01T04:30Z | 2026-11-01T05:00Z 06:00Z 07:00Z
    */30 1 * * *    | America/New_York    | 2026-11-01T04:30Z | 2026-11-01T05:00Z 05:30Z 06:00Z 06:30Z 2026-11-02T06:00Z
    59 1 * * *      | America/New_York    | 2026-11-01T05:59Z | 2026-11-02T06:59Z
    # Lord Howe moves by 30 minutes: forward 2026-10-03 15:30Z (02:00 becomes 02:30), back 2027-04-03 15:00Z.
    15 2 * * *      | Australia/Lord_Howe | 2026-10-03T00:00Z | 2026-10-03T15:30Z 2026-10-04T15:15Z
    45 1 * * *      | Australia/Lord_Howe | 2027-04-03T00:00Z | 2027-04-03T14:45Z 2027-04-04T15:15Z
    */15 1 * * *    | Australia/Lord_Howe | 2027-04-03T14:20Z | 2027-04-03T14:30Z 14:45Z 15:00Z 15:15Z 2027-04-04T14:30Z
    # Apia skipped 2011-12-30 as a whole: local 2011-12-29 23:59 (-10) was followed by 2011-12-31 00:00 (+14).
    0 12 * * *      | Pacific/Apia        | 2011-12-29T00:00Z | 2011-12-29T22:00Z 2011-12-30T10:00Z 22:00Z
    0 12 30 12 *    | Pacific/Apia        | 2011-12-01T00:00Z | 2011-12-30T10:00Z 2012-12-29T22:00Z
    0 0 * * *       | Pacific/Apia        | 2011-12-29T00:00Z | 2011-12-29T10:00Z 2011-12-30T10:00Z 2011-12-31T10:00Z
    0 */6 * * *     | Pacific/Apia        | 2011-12-30T00:00Z | 2011-12-30T04:00Z 10:00Z 16:00Z
    # Santiago goes forward at midnight: 2026-09-06 04:00Z (00:00 becomes 01:00).
    0 0 * * *       | America/Santiago    | 2026-09-05T00:00Z | 2026-09-05T04:00Z 2026-09-06T04:00Z 2026-09-07T03:00Z
    30 0 * * *      | America/Santiago    | 2026-09-05T12:00Z | 2026-09-06T04:00Z 2026-09-07T03:30Z
    0 1 * * *       | America/Santiago    | 2026-09-05T12:00Z | 2026-09-06T04:00Z 2026-09-07T04:00Z
    0 0 6 9 *       | America/Santiago    | 2026-01-01T00:00Z | 2026-09-06T04:00Z 2027-09-06T03:00Z
    # ... and back at midnight: 2027-04-04 03:00Z (00:00 becomes 23:00 of the day before).
    30 23 * * *     | America/Santiago    | 2027-04-03T12:00Z | 2027-04-04T02:30Z 2027-04-05T03:30Z
    30 23 3 4 *     | America/Santiago    | 2027-04-04T02:30Z | 2028-04-04T03:30Z
    # Casey moves by three hours: forward 2020-10-03 16:01Z (00:01 becomes 03:01), back 2021-03-13 13:00Z.
    30 0,1,2 * * *  | Antarctica/Casey    | 2020-10-03T12:00Z | 2020-10-03T16:01Z 2020-10-04T13:30Z
    30 22 * * *     | Antarctica/Casey    | 2021-03-13T00:00Z | 2021-03-13T11:30Z 2021-03-14T14:30Z
    30 * * * *      | Antarctica/Casey    | 2021-03-13T11:45Z | 2021-03-13T12:30Z 13:30Z 14:30Z
    # Troll moves by two hours: forward 2027-03-28 01:00Z (01:00 becomes 03:00), back 2027-10-31 01:00Z.
    30 1 * * *      | Antarctica/Troll    | 2027-03-27T12:00Z | 2027-03-28T01:00Z 23:30Z
    30 2 * * *      | Antarctica/Troll    | 2027-10-30T12:00Z | 2027-10-31T00:30Z 2027-11-01T02:30Z
    # Chatham is 45 minutes off: forward 2026-09-26 14:00Z (02:45 becomes 03:45), back 2027-04-03 14:00Z.
    0 3 * * *       | Pacific/Chatham     | 2026-09-26T00:00Z | 2026-09-26T14:00Z 2026-09-27T13:15Z
    0 3 * * *       | Pacific/Chatham     | 2027-04-03T00:00Z | 2027-04-03T13:15Z 2027-04-04T14:15Z
    # Caracas moved by half an hour: forward 2016-05-01 07:00Z (02:30 becomes 03:00).
    45 2 * * *      | America/Caracas     | 2016-04-30T12:00Z | 2016-05-01T07:00Z 2016-05-02T06:45Z
    # Cairo, Beirut and Sao Paulo: midnight gaps.
    0 0 * * *       | Africa/Cairo        | 2026-04-23T12:00Z | 2026-04-23T22:00Z 2026-04-24T21:00Z
    15 0 * * *      | Asia/Beirut         | 2026-03-28T12:00Z | 2026-03-28T22:00Z 2026-03-29T21:15Z
    0 0 4 11 *      | America/Sao_Paulo   | 2018-01-01T00:00Z | 2018-11-04T03:00Z 2019-11-04T03:00Z
    ";
    for [expression, zone, from, expected] in rows(table) {
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(fires(&default(expression, zone), from, expected.len()), expected, "{expression} {zone} {from}");
    }
}

#[test]
fn clock_changes_with_the_other_policies() {
    let table = "
    30 2 * * *      | America/New_York | shift first       | 2027-03-14T00:00Z | 2027-03-14T07:30Z 2027-03-15T06:30Z
    30 2 * * *      | America/New_York | skip first        | 2027-03-14T00:00Z | 2027-03-15T06:30Z
    # Shifted times run among the regular ones, and a coincidence is one fire.
    15,45 2,3 * * * | America/New_York | shift first | 2027-03-14T00:00Z | 2027-03-14T07:15Z 07:45Z 2027-03-15T06:15Z
    10 2,3 * * *    | America/New_York | shift first       | 2027-03-14T07:05Z | 2027-03-14T07:10Z 2027-03-15T06:10Z
    0,40 2-3 * * *  | America/New_York | next_valid first  | 2027-03-14T06:59:59Z | 2027-03-14T07:00Z 07:40Z
    20 2 * * *      | America/New_York | shift first       | 2027-03-14T07:19:59Z | 2027-03-14T07:20Z 2027-03-15T06:20Z
    20 2 * * *      | America/New_York | shift first       | 2027-03-14T07:20Z | 2027-03-15T06:20Z
    20 2-3 1-31 * * | America/New_York | skip first        | 2027-03-14T00:00Z | 2027-03-14T07:20Z 2027-03-15T06:20Z
    30 1 * * *      | America/New_York | next_valid second | 2026-11-01T00:00Z | 2026-11-01T06:30Z 2026-11-02T06:30Z
    30 1 * * *      | America/New_York | skip both | 2026-11-01T00:00Z | 2026-11-01T05:30Z 06:30Z 2026-11-02T06:30Z
    30 0-2 * * *    | America/New_York | next_valid second | 2026-11-01T04:00Z | 2026-11-01T04:30Z 06:30Z 07:30Z
    0,30 1 * * *    | America/New_York | skip both | 2026-11-01T05:30Z | 2026-11-01T06:00Z 06:30Z 2026-11-02T06:00Z
    30 1 * * *      | America/New_York | next_valid second | 2026-11-01T05:45Z | 2026-11-01T06:30Z
    0 12 * * *      | Pacific/Apia     | shift first       | 2011-12-29T23:00Z | 2011-12-30T22:00Z 2011-12-31T22:00Z
    0 12 * * *      | Pacific/Apia     | skip first        | 2011-12-29T23:00Z | 2011-12-30T22:00Z 2011-12-31T22:00Z
    0 12 30 * *     | Pacific/Apia     | shift first       | 2011-12-01T00:00Z | 2011-12-30T22:00Z 2012-01-29T22:00Z
    0 12 30 * *     | Pacific/Apia     | skip first        | 2011-12-01T00:00Z | 2012-01-29T22:00Z
    # Wildcard schedules have no use for either policy.
    */30 1 * * *    | America/New_York | skip second       | 2026-11-01T04:30Z | 2026-11-01T05:00Z 05:30Z 06:00Z 06:30Z
    */30 2 * * *    | America/New_York | shift both        | 2027-03-14T00:00Z | 2027-03-15T06:00Z
    ";
    for [expression, zone, policy, from, expected] in rows(table) {
        let (gap, fold) = policy.split_once(' ').unwrap();
        let plan = cron(expression, zone, gap.parse().unwrap(), fold.trim().parse().unwrap());
        let expected: Vec<&str> = expected.split(' ').collect();
        assert_eq!(fires(&plan, from, expected.len()), expected, "{} from {from}", plan.encode());
    }
}

#[test]
fn never_firing_expressions_are_refused() {
    let resolve = |expression: &str, gap| {
        let schedule = Schedule::Cron {
            expression: expression.to_owned(),
            zone: "America/New_York".to_owned(),
            dst_gap: gap,
            dst_fold: DstFold::First,
        };
        schedule.resolve(SEED, at("2026-01-01T00:00:00Z"))
    };
    for expression in
        ["0 0 30 2 *", "0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 2 *", "0 0 31W 2 *", "0 0 31 2 */7", "0 0 30 2 ?"]
    {
        let error = resolve(expression, DstGap::NextValid).unwrap_err();
        assert_eq!((error.code, error.position), ("cron_never_fires", Some((0, expression.len()))), "{expression}");
    }
    // Either day field may match, so the Mondays of February remain; and leap days exist.
    for expression in ["0 0 30 2 MON", "0 0 31 2 1#5", "0 0 29 2 *", "0 0 L 2 *", "0 0 29W 2 *", "0 0 29 2 */7"] {
        assert!(resolve(expression, DstGap::NextValid).is_ok(), "{expression}");
    }
    // The second Sunday of March at 02:30 is always skipped in New York.
    assert!(resolve("30 2 * 3 SUN#2", DstGap::NextValid).is_ok());
    let error = resolve("30 2 * 3 SUN#2", DstGap::Skip).unwrap_err();
    assert_eq!(error.code, "cron_never_fires");
    assert!(error.hint.unwrap().contains("dst_gap"));
}

#[test]
fn every_is_aligned_to_the_epoch() {
    let every = |every_ms, phase_ms| Schedule::Every { every_ms, phase_ms }.resolve(SEED, Timestamp::from_millis(77));
    let plan = every(90_000, 0).unwrap();
    let next = |t| plan.next(Timestamp::from_millis(t)).map(Timestamp::millis);
    assert_eq!((next(0), next(89_999), next(90_000)), (Some(90_000), Some(90_000), Some(180_000)));
    assert_eq!((next(-1), next(-1_000_000), next(i64::MIN)), (Some(0), Some(0), Some(0)));
    assert_eq!((next(i64::MAX), next(SECOND_MAX * 1000)), (None, None));
    assert_eq!(plan.first_at_or_after(Timestamp::from_millis(90_000)), Some(Timestamp::from_millis(90_000)));
    let phased = every(1000, 250).unwrap();
    assert_eq!(phased.next(Timestamp::from_millis(250)), Some(Timestamp::from_millis(1250)));
    assert_eq!(phased.next(Timestamp::from_millis(0)), Some(Timestamp::from_millis(250)));
    for (every_ms, phase_ms) in [(0, 0), (1000, 1000), (u64::MAX, 0), (DURATION_MS_MAX + 1, 0)] {
        assert_eq!(every(every_ms, phase_ms).unwrap_err().code, "every_invalid");
    }
}

#[test]
fn one_off_schedules() {
    let t = at("2026-11-16T03:00:00Z");
    let plan = Schedule::At { at: t }.resolve(SEED, t).unwrap();
    assert_eq!((plan.next(t), plan.first_at_or_after(t), plan.is_one_off()), (None, Some(t), true));
    let after = Schedule::After { delay_ms: 1500 }.resolve(SEED, t).unwrap();
    assert_eq!(after.encode(), format!("at {}", t.millis() + 1500));
    assert_eq!(Schedule::After { delay_ms: u64::MAX }.resolve(SEED, t).unwrap_err().code, "delay_invalid");
    assert_eq!(Schedule::After { delay_ms: 1 }.resolve(SEED, Timestamp::MAX).unwrap_err().code, "at_invalid");
    assert_eq!(Schedule::At { at: Timestamp::MIN }.resolve(SEED, t).unwrap_err().code, "at_invalid");
    let none = Schedule::None.resolve(SEED, t).unwrap();
    assert_eq!((none.next(Timestamp::MIN), none.is_one_off()), (None, false));
}

#[test]
fn plans_round_trip_through_their_text() {
    for (expression, zone, gap, fold, expected) in [
        (
            "41 3 * * *",
            "Europe/Berlin",
            "next_valid",
            "first",
            "cron 41 3 * * * @Europe/Berlin gap=next_valid fold=first",
        ),
        ("0 5\t4 ? jan mon-FRI", "utc", "shift", "second", "cron 5 4 * 1 1-5 @UTC gap=shift fold=second"),
        ("30 5 4 L,15w * 7", "UTC", "skip", "both", "cron 30 5 4 L,15W * 0 @UTC gap=skip fold=both"),
        (
            "5/20 */1 LW */5 5L,1#2,friL",
            "UTC",
            "skip",
            "first",
            "cron 5-59/20 * LW */5 5L,1#2,5L @UTC gap=skip fold=first",
        ),
        ("@weekly", "UTC", "skip", "first", "cron 0 0 * * 0 @UTC gap=skip fold=first"),
        ("@every 90s", "UTC", "skip", "first", "every 90000+0"),
    ] {
        let plan = cron(expression, zone, gap.parse().unwrap(), fold.parse().unwrap());
        assert_eq!(plan.encode(), expected);
        assert_eq!(Plan::decode(expected).unwrap(), plan);
    }
    for text in ["every 90000+0", "every 1000+999", "at 1794794400000", "none"] {
        assert_eq!(Plan::decode(text).unwrap().encode(), text);
    }
    for text in [
        "",
        " ",
        "nonee",
        "none ",
        "at",
        "at x",
        "at 99999999999999999999",
        "at 9223372036854775807",
        "every 5",
        "every 0+0",
        "every 5+5",
        "every -1+0",
        "cron",
        "cron * * * * *",
        "cron H * * * * @UTC gap=skip fold=first",
        "cron * * * * * @Nowhere gap=skip fold=first",
        "cron * * * * * @UTC gap= fold=first",
        "cron 0 0 30 2 * @UTC gap=skip fold=first",
        "cron * * * * * @UTC fold=first gap=skip",
    ] {
        assert!(Plan::decode(text).is_err(), "{text}");
    }
}

#[test]
fn hashed_values_are_stable_and_spread() {
    // Golden values: a change here moves the fires of existing jobs.
    let plan = default("H H(1-5) H H H", "UTC");
    assert_eq!(plan.encode(), default("H H(1-5) H H H", "UTC").encode());
    assert_eq!(plan.encode(), GOLDEN_HASH);
    let minute = |job: &str| {
        let schedule = Schedule::Cron {
            expression: "H H/6 * * *".to_owned(),
            zone: "UTC".to_owned(),
            dst_gap: DstGap::NextValid,
            dst_fold: DstFold::First,
        };
        schedule.resolve(HashSeed { tenant: "acme", job }, at("2026-01-01T00:00:00Z")).unwrap()
    };
    let mut minutes = std::collections::BTreeSet::new();
    for i in 0..600 {
        let plan = minute(&format!("job-{i}"));
        assert_eq!(plan.count(at("2026-01-01T00:00:00Z"), at("2026-01-02T00:00:00Z"), 99), 4);
        minutes.insert(plan.next(at("2026-01-01T00:00:00Z")).unwrap().millis() / 60_000 % 60);
    }
    assert!(minutes.len() > 50, "only {} of 60 minutes are used", minutes.len());
}

const GOLDEN_HASH: &str = "cron 4 2 1 10 2 @UTC gap=next_valid fold=first";

#[test]
fn the_ends_of_time_do_not_panic() {
    for zone in ["UTC", "America/New_York", "Pacific/Apia", "Pacific/Kiritimati", "Asia/Tokyo", "Africa/Casablanca"] {
        for gap in [DstGap::NextValid, DstGap::Shift, DstGap::Skip] {
            for expression in ["* * * * * *", "0 0 29 2 *", "30 2 * * *", "59 59 23 31 12 *"] {
                let plan = cron(expression, zone, gap, DstFold::Both);
                let first = plan.next(Timestamp::MIN).unwrap();
                assert!(first.millis() >= 0 && first < at("1973-01-01T00:00:00Z"), "{} {first}", plan.encode());
                assert_eq!(plan.next(Timestamp::MAX), None);
                assert_eq!(plan.next(at("9999-12-30T22:00:00Z")), None);
                for t in
                    ["9999-12-30T21:59:58Z", "9999-12-29T00:00:00Z", "9998-01-01T00:00:00Z", "9960-03-01T00:00:00Z"]
                {
                    assert!(plan.next(at(t)).is_none_or(|next| next > at(t)));
                }
            }
        }
    }
}

#[test]
fn the_short_way_and_the_long_way_agree() {
    for zone in ["America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Santiago"] {
        for (gap, fold) in
            [(DstGap::NextValid, DstFold::First), (DstGap::Shift, DstFold::Both), (DstGap::Skip, DstFold::Second)]
        {
            for expression in ["30 2 * * *", "*/7 * * * *", "0 0 1 * *", "15 1 * * 0", "0 0 29 2 *", "59 23 L 3,10 *"] {
                let plan = cron(expression, zone, gap, fold);
                let PlanKind::Cron(cron) = &plan.kind else { panic!("not cron") };
                let mut t = 1_767_225_600;
                while t < 1_767_225_600 + 2 * 366 * 86_400 {
                    assert_eq!(cron.next_second(t), cron.next_by_segments(t + 1), "{} at {t}", plan.encode());
                    t += 40_009;
                }
            }
        }
    }
}
