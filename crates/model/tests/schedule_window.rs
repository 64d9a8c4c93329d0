//! Catch-up: `Plan::last` and `Plan::count` against naive enumeration with `Plan::next`.

use campanile_model::schedule::Plan;
use campanile_model::time::Timestamp;
use proptest::prelude::*;

const PLANS: [&str; 14] = [
    "cron * * * * * @UTC gap=next_valid fold=first",
    "cron * * * * * * @America/New_York gap=next_valid fold=first",
    "cron 30 2 * * * @America/New_York gap=shift fold=both",
    "cron 0 0 1 * * @Europe/Berlin gap=skip fold=second",
    "cron 0 0 29 2 * @UTC gap=skip fold=second",
    "cron 5-59/20 1-3 * * 0 @Australia/Lord_Howe gap=next_valid fold=both",
    "cron * * * * 1 * @America/Santiago gap=next_valid fold=first",
    "cron 0-59 0-59 3 1 1 * @Africa/Cairo gap=shift fold=first",
    "cron */7 12 L * * @Pacific/Apia gap=next_valid fold=first",
    "every 90000+0",
    "every 777+13",
    "every 86400000+3600000",
    "at 1800000000000",
    "none",
];

/// 2025-09-06 to 2028-11-06.
const FROM: i64 = 1_757_116_800_000;
const TO: i64 = 1_857_116_800_000;

fn naive(plan: &Plan, from: i64, to: i64) -> Vec<Timestamp> {
    let (mut at, to) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
    let mut fires = Vec::new();
    while let Some(next) = plan.next(at).filter(|next| *next <= to) {
        fires.push(next);
        at = next;
    }
    fires
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn last_and_count_agree_with_enumeration(
        index in 0..PLANS.len(),
        to in FROM..TO,
        // Lengths of all magnitudes, up to about four hours: enumeration is slow.
        bits in 0..24u32,
        part in 0.5..1.0f64,
        n in 0..40usize,
        max in 0..2000u64,
    ) {
        let plan = Plan::decode(PLANS[index]).unwrap();
        let from = to - ((1i64 << bits) as f64 * part) as i64;
        let all = naive(&plan, from, to);
        let (from, to) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
        prop_assert_eq!(plan.last(n, from, to), all[all.len().saturating_sub(n)..].to_vec());
        prop_assert_eq!(plan.count(from, to, max), max.min(all.len() as u64));
        prop_assert_eq!(plan.count(from, to, u64::MAX), all.len() as u64);
    }

    #[test]
    fn sparse_plans_over_years(index in 2..6usize, from in FROM..TO, to in FROM..TO, n in 0..2000usize) {
        let plan = Plan::decode(PLANS[index]).unwrap();
        let all = naive(&plan, from, to);
        let (from, to) = (Timestamp::from_millis(from), Timestamp::from_millis(to));
        prop_assert_eq!(plan.last(n, from, to), all[all.len().saturating_sub(n)..].to_vec());
        prop_assert_eq!(plan.count(from, to, u64::MAX), all.len() as u64);
    }
}

#[test]
fn a_year_of_an_every_second_job_is_not_walked() {
    let plan = Plan::decode("cron * * * * * * @America/New_York gap=next_valid fold=first").unwrap();
    let to = Timestamp::from_millis(TO);
    // Enumerating a thousand such years would take hours; the test ends only if the window is not walked.
    for _ in 0..1000 {
        let last = plan.last(3, Timestamp::from_millis(TO - 365 * 86_400_000), to);
        let expected = [TO - 2000, TO - 1000, TO].map(Timestamp::from_millis);
        assert_eq!(last, expected);
    }
    assert_eq!(plan.count(Timestamp::MIN, Timestamp::MAX, 1000), 1000);
    // Seconds of January only, asked in December: the dense stretch is far from the end of the window.
    let january = Plan::decode("cron * * * * 1 * @UTC gap=next_valid fold=first").unwrap();
    let december: Timestamp = "2026-12-15T00:00:00Z".parse().unwrap();
    let last = january.last(2, Timestamp::MIN, december);
    assert_eq!(last, ["2026-01-31T23:59:58Z", "2026-01-31T23:59:59Z"].map(|text| text.parse().unwrap()));
}

#[test]
fn the_ends_of_time() {
    for text in PLANS {
        let plan = Plan::decode(text).unwrap();
        assert_eq!(plan.last(3, Timestamp::MAX, Timestamp::MIN), []);
        assert_eq!(plan.count(Timestamp::MAX, Timestamp::MIN, 9), 0);
        assert_eq!(plan.last(0, Timestamp::MIN, Timestamp::MAX), []);
        let last = plan.last(2, Timestamp::MIN, Timestamp::MAX);
        assert!(last.is_sorted() && last.iter().all(|at| plan.first_at_or_after(*at) == Some(*at)), "{text}");
        assert_eq!(plan.last(usize::MAX, Timestamp::MAX, Timestamp::MIN), []);
        assert_eq!(
            plan.last(usize::MAX, Timestamp::from_millis(TO - 5000), Timestamp::from_millis(TO)).len() as u64,
            plan.count(Timestamp::from_millis(TO - 5000), Timestamp::from_millis(TO), 99),
            "{text}"
        );
    }
}
