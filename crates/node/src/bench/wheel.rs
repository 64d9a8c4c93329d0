//! `bench wheel`: the timer wheel alone, in memory.

use super::machine;
use super::report::{Report, Target};
use campanile_engine::wheel::{Entry, Wheel};
use campanile_model::Timestamp;
use campanile_model::random::{Random, SplitMix};

#[allow(clippy::disallowed_methods, reason = "a benchmark measures the machine's own time")]
pub fn run(entries: usize) -> Report {
    let start = 1_800_000_000_000u64;
    let random = SplitMix::new(7);
    let hour = 3_600_000;
    let instants: Vec<i64> = (0..entries).map(|_| (start + random.next() % hour) as i64).collect();
    let before = machine::resident_bytes();
    let clock = std::time::Instant::now();
    let mut wheel = Wheel::new(Timestamp::from_millis(start as i64));
    for (slot, &at) in instants.iter().enumerate() {
        wheel.insert(Entry { at: Timestamp::from_millis(at), slot: slot as u32, generation: 0 });
    }
    let insert_ns = clock.elapsed().as_nanos() as f64 / entries as f64;
    let bytes = machine::resident_bytes().saturating_sub(before) as f64 / entries as f64;
    let mut popped = Vec::with_capacity(entries);
    let clock = std::time::Instant::now();
    for second in 0..=hour / 1_000 {
        wheel.pop(Timestamp::from_millis((start + second * 1_000) as i64), usize::MAX, &mut popped);
    }
    let pop_ns = clock.elapsed().as_nanos() as f64 / entries as f64;
    let mut seen = vec![false; entries];
    let ordered = popped.windows(2).all(|pair| pair[0].at <= pair[1].at);
    popped.iter().for_each(|entry| seen[entry.slot as usize] = true);
    assert!(ordered && wheel.is_empty() && popped.len() == entries && seen.into_iter().all(|seen| seen));
    let mut report = Report::new("wheel");
    report.verified(format!("{entries} entries popped once each, in the order of time"));
    report.row("insert", insert_ns, "ns/entry", Some(Target::AtMost(50.0)));
    report.row("pop, cascades included", pop_ns, "ns/entry", Some(Target::AtMost(50.0)));
    report.row("memory", bytes, "B/entry", None);
    report
}
