//! No text panics, and whatever is accepted survives its stored form.

use campanile_model::schedule::{
    DstFold, DstGap, HashSeed, Plan, Schedule, ScheduleError, explain, format_duration_ms, parse_duration_ms,
    parse_text, preview,
};
use campanile_model::time::Timestamp;
use proptest::prelude::*;

const SEED: HashSeed<'static> = HashSeed { tenant: "acme", job: "report" };

fn check_refusal(text: &str, error: &ScheduleError) {
    assert!(!error.message.is_empty() && !error.code.is_empty());
    if let Some((start, end)) = error.position {
        assert!(text.get(start..end).is_some(), "{text:?}: {start}..{end} of {error:?}");
    }
}

/// Everything that a text may go through.
fn check(text: &str, zone: &str) {
    let from = Timestamp::from_millis(1_790_000_000_123);
    if let Err(error) = parse_duration_ms(text) {
        check_refusal(text, &error);
    }
    if let Ok(plan) = Plan::decode(text) {
        assert_eq!(Plan::decode(&plan.encode()).as_ref(), Ok(&plan));
    }
    let direct = Schedule::Cron {
        expression: text.to_owned(),
        zone: "UTC".to_owned(),
        dst_gap: DstGap::Shift,
        dst_fold: DstFold::Both,
    };
    if let Err(error) = direct.resolve(SEED, from) {
        check_refusal(text, &error);
    }
    let schedule = match parse_text(text, zone) {
        Ok(schedule) => schedule,
        Err(error) => return check_refusal(text, &error),
    };
    let Ok(plan) = schedule.resolve(SEED, from) else { return };
    let encoded = plan.encode();
    assert!(!encoded.contains('\n') && encoded.is_ascii(), "{encoded}");
    let decoded = Plan::decode(&encoded).unwrap_or_else(|error| panic!("{text:?} became {encoded:?}: {error:?}"));
    assert_eq!(decoded, plan);
    assert_eq!(decoded.encode(), encoded);
    let previews = preview(&schedule, &plan, from, 3);
    assert!(previews.windows(2).all(|pair| pair[0].at < pair[1].at));
    assert!(!explain(&schedule, &plan, from).words.is_empty());
}

const SPECIAL_ITEMS: [&str; 12] =
    ["L", "LW", "15W", "5L", "?", "H", "H/7", "H(1-5)", "H(2-9)/3", "MON", "jan", "FRI-7"];
const HEADS: [&str; 10] = ["every ", "@every ", "in ", "rate(", "at ", "P", "cron ", "every", "at", ""];

fn item() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("*".to_owned()),
        2 => (0..64u8).prop_map(|a| a.to_string()),
        1 => (1..70u8).prop_map(|n| format!("*/{n}")),
        1 => (0..32u8, 0..32u8).prop_map(|(a, b)| format!("{a}-{b}")),
        1 => (0..32u8, 0..32u8, 0..9u8).prop_map(|(a, b, n)| format!("{a}-{b}/{n}")),
        1 => (0..9u8, 0..7u8).prop_map(|(d, k)| format!("{d}#{k}")),
        2 => prop::sample::select(&SPECIAL_ITEMS[..]).prop_map(str::to_owned),
    ]
}

fn field() -> impl Strategy<Value = String> {
    prop::collection::vec(item(), 1..4).prop_map(|items| items.join(","))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text(text in any::<String>()) {
        check(&text, "UTC");
    }

    #[test]
    fn text_of_the_alphabet(text in "[0-9*/,@ \tLWH#?()a-zA-Z:.+-]{0,40}") {
        check(&text, "Europe/Berlin");
    }

    #[test]
    fn nearly_cron(fields in prop::collection::vec(field(), 4..8)) {
        check(&fields.join(" "), "America/New_York");
    }

    #[test]
    fn nearly_other_forms(
        head in prop::sample::select(&HEADS[..]),
        tail in "[0-9]{0,21}(ms|s|m|h|d|w|T|H|M| minutes)?[0-9:TZ.+ )-]{0,20}",
    ) {
        check(&format!("{head}{tail}"), "UTC");
    }

    #[test]
    fn instants(
        date in "[12][0-9]{3}-[01][0-9]-[0-3][0-9]",
        time in "[Tt ][0-2][0-9]:[0-6][0-9]:[0-6][0-9]",
        rest in "(\\.[0-9]{1,10})?(Z|[+-][0-9]{2}:[0-9]{2})?",
    ) {
        let text = format!("{date}{time}{rest}");
        check(&text, "UTC");
        if text[17..].starts_with("60") {
            prop_assert!(parse_text(&text, "UTC").is_err());
        }
    }

    #[test]
    fn zones(zone in "[A-Za-z_/+0-9]{0,30}") {
        check("30 2 * * *", &zone);
    }

    #[test]
    fn durations_round_trip(ms in any::<u64>(), shift in 0..64u32) {
        let ms = ms >> shift;
        prop_assert_eq!(parse_duration_ms(&format_duration_ms(ms)), Ok(ms));
    }

    #[test]
    fn next_is_later_everywhere(fields in prop::collection::vec(field(), 5..7), after in any::<i64>()) {
        let schedule = Schedule::Cron {
            expression: fields.join(" "),
            zone: "America/New_York".to_owned(),
            dst_gap: DstGap::Shift,
            dst_fold: DstFold::Both,
        };
        if let Ok(plan) = schedule.resolve(SEED, Timestamp::from_millis(0)) {
            // Half of the instants are anywhere, half in the range that has fires.
            for after in [after, after.rem_euclid(253_402_207_200_000)] {
                let after = Timestamp::from_millis(after);
                prop_assert!(plan.next(after).is_none_or(|next| next > after));
            }
        }
    }
}
