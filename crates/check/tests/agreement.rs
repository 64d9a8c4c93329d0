//! The checker's own ids and instants are those of the product, over many inputs.

mod common;

use campanile_check::cron::{Cron, Fold, Gap};
use campanile_check::ids::{self, Kind};
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::schedule::{DstFold, DstGap, HashSeed, Schedule};
use campanile_model::time::Timestamp;
use common::Numbers;

fn of<T: Copy>(numbers: &mut Numbers, all: &[T]) -> T {
    all[numbers.below(all.len() as i64) as usize]
}

#[test]
fn ids_and_shards_agree() {
    let mut numbers = Numbers::new(1);
    for round in 0..5_000i64 {
        let bytes = (u128::from(numbers.next()) << 64 | u128::from(numbers.next())).to_be_bytes();
        let (job, at) = (JobId::from_bytes(bytes), 1_700_000_000_000 + round * 977);
        let key: Vec<u8> = (0..numbers.next() % 192).map(|_| numbers.next() as u8).collect();
        let instant = Timestamp::from_millis(at);
        let scheduled = ids::execution(1, bytes, at, Kind::Scheduled, b"").expect("short enough");
        assert_eq!(&scheduled, ExecutionId::scheduled(TenantId(1), job, instant).as_bytes());
        let manual = ids::execution(1, bytes, at, Kind::Manual, &key).expect("short enough");
        assert_eq!(&manual, ExecutionId::manual(TenantId(1), job, instant, &key).as_bytes(), "{}", key.len());
        assert_eq!(ids::format(bytes, "job_"), job.to_string());
        assert_eq!(ids::parse(&job.to_string(), "job_"), Some(bytes));
        assert_eq!(ids::shard(bytes), campanile_model::shard::shard_of(job).0);
        let spread = 1 + numbers.next() % 100_000;
        assert_eq!(ids::spread_offset_ms(bytes, spread), campanile_model::job::spread_offset_ms(job, spread));
    }
    assert_eq!(ids::parse("job_ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "job_"), None);
}

const ZONES: [&str; 9] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Antarctica/Casey",
    "Pacific/Apia",
    "America/Santiago",
    "Africa/Cairo",
    "Asia/Kathmandu",
];

const EXPRESSIONS: [&str; 34] = [
    "* * * * *",
    "*/7 * * * *",
    "30 2 * * *",
    "30 1 * * *",
    "0,30 0-3 * * *",
    "0 * * * *",
    "15 */2 * * *",
    "0 12 13 * 5",
    "0 12 */2 * 5",
    "0 12 ? * 5",
    "0 0 L * *",
    "0 0 LW * *",
    "30 2 15W * *",
    "0 3 31W * *",
    "0 3 1W * *",
    "0 3 * * 1#2",
    "0 3 * * 5L",
    "0 3 * * MON-FRI",
    "0 3 * JAN,MAR,nov *",
    "5/10 2 * * *",
    "0 0 29 2 *",
    "0 23 * * 7",
    "0 1 * * 0-2",
    "0 22-23,0-2 * * *",
    "*/20 30 2 * * *",
    "15 */15 * * * *",
    "0-59/13 * 1 * * *",
    "59 59 23 * * *",
    "@daily",
    "@hourly",
    "@monthly",
    "@weekly",
    "@yearly",
    "0 2-3/1 1-7,15 * SUN",
];

#[test]
fn cron_agrees_around_clock_changes_and_elsewhere() {
    let mut numbers = Numbers::new(7);
    let gaps = [(Gap::NextValid, DstGap::NextValid), (Gap::Shift, DstGap::Shift), (Gap::Skip, DstGap::Skip)];
    let folds = [(Fold::First, DstFold::First), (Fold::Second, DstFold::Second), (Fold::Both, DstFold::Both)];
    let mut fires = 0;
    for round in 0..3_000 {
        let (zone, text) = (of(&mut numbers, &ZONES), of(&mut numbers, &EXPRESSIONS));
        let (gap, fold) = (of(&mut numbers, &gaps), of(&mut numbers, &folds));
        let cron = Cron::new(text, zone, gap.0, fold.0).expect(text);
        let (expression, zone) = (text.to_owned(), zone.to_owned());
        let schedule = Schedule::Cron { expression, zone: zone.clone(), dst_gap: gap.1, dst_fold: fold.1 };
        // From 2009 to 2037; two of three near a change of that zone's clock.
        let mut from = 1_230_768_000 + (numbers.next() % 880_000_000) as i64;
        if round % 3 != 0 {
            let tz = jiff::tz::TimeZone::get(&zone).expect("a zone");
            let at = jiff::Timestamp::from_second(from).expect("an instant");
            if let Some(change) = tz.following(at).next() {
                from = change.timestamp().as_second() - 86_400 + (numbers.next() % 7_200) as i64;
            }
        }
        let (from, to) = (from * 1_000 + 123, (from + 2 * 86_400) * 1_000);
        let seed = HashSeed { tenant: "default", job: "x" };
        let plan = schedule.resolve(seed, Timestamp::from_millis(from)).expect(text);
        let mut expected = Vec::new();
        let mut at = Timestamp::from_millis(from);
        while let Some(next) = plan.next(at).filter(|next| next.millis() <= to) {
            expected.push(next.millis());
            at = next;
        }
        fires += expected.len();
        assert_eq!(cron.between(from, to), expected, "{text} {zone} {gap:?} {fold:?} from {from}");
    }
    assert!(fires > 100_000, "{fires}");
}
