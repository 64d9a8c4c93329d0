//! Texts that people type, changed at random: schedules, against the oracle where it can read them too; filters; durations
//! and instants. None panics, and what is accepted keeps the promises of its kind.

mod oracle;

use campanile_model::filter::Filter;
use campanile_model::schedule::{
    DstFold, DstGap, HashSeed, Plan, Schedule, explain, format_duration_ms, parse_duration_ms, parse_text, preview,
};
use campanile_model::time::Timestamp;
use campanile_testkit::fuzz;
use oracle::{DAY, MINUTE, Text, Zone, oracle, zones};

const WORDS: [&str; 40] = [
    "*",
    "*/5",
    "0",
    "59",
    "60",
    "1-5",
    "5-1",
    "L",
    "LW",
    "15W",
    "5#2",
    "5L",
    "?",
    "H",
    "H/15",
    "H(0-7)",
    "MON",
    "mon-fri",
    "JAN",
    "@daily",
    "@every ",
    "every ",
    "in ",
    "at ",
    "rate(",
    ")",
    "5 minutes",
    "1h30m",
    "PT1H",
    "P1M",
    "250ms",
    "2026-11-16",
    "T03:00:00Z",
    "+05:45",
    "24:00",
    "TZ=",
    "CRON_TZ=Europe/Berlin ",
    "30 2 * * *",
    " ",
    ",",
];
const SEED: HashSeed<'static> = HashSeed { tenant: "acme", job: "report" };

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millis(ms)
}

/// What holds for every plan: time goes on, and it can be stored.
fn keeps_its_promises(schedule: &Schedule, plan: &Plan) {
    assert_eq!(Plan::decode(&plan.encode()).as_ref(), Ok(plan), "{}", plan.encode());
    for start in [0, 951_825_600_000, 1_792_000_000_123, 253_402_207_199_999, i64::MAX] {
        let mut t = at(start);
        for _ in 0..3 {
            let Some(next) = plan.next(t) else { break };
            assert!(next > t, "{}: {next} is not after {t}", plan.encode());
            let first = plan.first_at_or_after(next);
            assert_eq!(first, Some(next), "{}", plan.encode());
            t = next;
        }
    }
    let from = at(1_792_000_000_000);
    assert!(!explain(schedule, plan, from).words.is_empty());
    let shown = preview(schedule, plan, from, 3);
    assert!(shown.len() <= 3);
}

#[test]
fn schedules() {
    let now = at(1_792_000_000_000);
    fuzz::run("schedule", &WORDS, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return "not text".into() };
        let (text, zone) = text.split_once('\n').unwrap_or((text, ""));
        let schedule = match parse_text(text, zone) {
            Ok(schedule) => schedule,
            Err(error) => {
                let (from, to) = error.position.unwrap_or_default();
                assert!(from <= to && to <= text.len().max(zone.len()), "{error:?} points beyond {text:?}");
                return error.code.into();
            }
        };
        match schedule.resolve(SEED, now) {
            Ok(plan) => {
                keeps_its_promises(&schedule, &plan);
                // The kind, and how often: enough to tell one sort of schedule from another.
                let gap = plan.next(now).and_then(|first| Some(plan.next(first)?.ms_since(first)));
                format!("{:?} {:?}", std::mem::discriminant(&schedule), gap.and_then(u64::checked_ilog2))
            }
            Err(error) => format!("unresolved {}", error.code),
        }
    });
}

/// The fields of an expression that the oracle reads too: numbers, lists, ranges upwards, steps.
fn for_the_oracle(expression: &str) -> Option<&str> {
    let fields: Vec<&str> = expression.split(' ').collect();
    let upwards = |item: &str| match item.split('/').next().unwrap_or(item).split_once('-') {
        Some((from, to)) => from.parse::<u32>().ok() <= to.parse().ok(),
        None => true,
    };
    let plain = fields.len() == 5
        && expression.bytes().all(|byte| byte.is_ascii_digit() || b" *,-/".contains(&byte))
        && fields.iter().flat_map(|field| field.split(',')).all(upwards);
    plain.then_some(expression)
}

#[test]
fn cron_against_the_oracle() {
    let zones = zones();
    let mut compared = 0;
    fuzz::run("cron", &WORDS, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return "not text".into() };
        let Some(expression) = for_the_oracle(text) else { return "not for the oracle".into() };
        let Some(last) = text.bytes().last() else { return "empty".into() };
        let n = text.len() * 31 + last as usize;
        let zone = &zones[n % zones.len()];
        let gap = [DstGap::NextValid, DstGap::Shift, DstGap::Skip][n % 3];
        let fold = [DstFold::First, DstFold::Second, DstFold::Both][n / 3 % 3];
        let schedule =
            Schedule::Cron { expression: expression.into(), zone: zone.name.clone(), dst_gap: gap, dst_fold: fold };
        let plan = match schedule.resolve(SEED, at(oracle::YEAR_1973 * 1_000)) {
            Ok(plan) => plan,
            Err(error) => return error.code.into(),
        };
        compared += 1;
        compare(zone, &plan, &Text::read(expression), (gap, fold), n);
        format!("{} {}", fold as u8, plan.encode().len())
    });
    assert!(compared > 0, "nothing was compared");
}

/// All fires of two days, around a change of the clock if the zone has one.
fn compare(zone: &Zone, plan: &Plan, text: &Text, (gap, fold): (DstGap, DstFold), n: usize) {
    let change = zone.changes.get(n % zone.changes.len().max(1));
    let from = (change.map_or(1_792_000_000, |change| change.0) - DAY) / MINUTE * MINUTE;
    let to = from + 2 * DAY;
    let expected: Vec<i64> = oracle(zone, text, gap, fold, from, to).into_iter().collect();
    let mut found = Vec::new();
    let mut t = at((from - 1) * 1_000);
    while let Some(next) = plan.next(t).filter(|next| next.millis() <= to * 1_000) {
        found.push(next.millis() / 1_000);
        t = next;
    }
    assert_eq!(found, expected, "{} from {from} to {to}", plan.encode());
}

#[test]
fn filters() {
    let words = [
        "state:",
        "DEAD",
        "-",
        "job:",
        "nightly-*",
        "tag:",
        "late>",
        "late:>=",
        "5m",
        "attempt:>3",
        "scheduled:",
        "last 24h",
        "today",
        "..",
        "reason:",
        "kind:",
        "fp:",
        "error:",
        "\"",
        "OR",
        "(",
        ")",
        "duration<",
        "worker:",
        "pool:short,long",
    ];
    let now = at(1_792_000_000_000);
    fuzz::run("filter", &words, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return "not text".into() };
        match Filter::parse(text, now) {
            Ok(filter) => {
                let shown = filter.to_string();
                let again = Filter::parse(&shown, now).unwrap_or_else(|error| panic!("{error}: {shown:?} of {text:?}"));
                let meant = |filter: &Filter| -> Vec<_> {
                    filter.terms.iter().map(|term| (term.negated, term.test.clone())).collect()
                };
                assert_eq!(meant(&again), meant(&filter), "{shown:?} of {text:?}");
                let kinds: Vec<_> = filter.terms.iter().map(|term| std::mem::discriminant(&term.test)).collect();
                format!("{kinds:?}")
            }
            Err(error) => {
                let (from, to) = error.position;
                assert!(from <= to && to <= text.len(), "{error:?} points beyond {text:?}");
                assert!(
                    text.is_char_boundary(from) && text.is_char_boundary(to),
                    "{error:?} cuts a letter of {text:?}"
                );
                error.message.chars().filter(|c| c.is_ascii_lowercase()).take(12).collect()
            }
        }
    });
}

#[test]
fn durations_and_instants() {
    fuzz::run("time", &WORDS, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return "not text".into() };
        let duration = parse_duration_ms(text).map(|ms| {
            let shown = format_duration_ms(ms);
            assert_eq!(parse_duration_ms(&shown), Ok(ms), "{shown:?} of {text:?}");
            ms.checked_ilog2()
        });
        let instant = text.parse::<Timestamp>().map(|t| {
            assert_eq!(t.to_string().parse::<Timestamp>().ok(), Some(t), "{t} of {text:?}");
            t.millis().checked_ilog2()
        });
        format!("{:?} {:?}", duration.map_err(|error| error.code), instant.is_ok())
    });
}
