//! The wheel against a `BTreeMap`, which is slow and plainly right.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Op {
    Insert(i64),
    Advance(i64, usize),
    Back(i64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let distance = prop_oneof![
        4 => 0i64..100,
        4 => 0i64..10_000,
        2 => 0i64..10_000_000,
        1 => 0i64..100_000_000_000,
        1 => -5_000i64..0,
    ];
    let op = prop_oneof![
        6 => distance.clone().prop_map(Op::Insert),
        4 => (distance.clone(), 1usize..20).prop_map(|(d, max)| Op::Advance(d.abs(), max)),
        1 => (0i64..5_000).prop_map(Op::Back),
    ];
    prop::collection::vec(op, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_sorted_map(start in 0i64..4_000_000_000_000, ops in ops()) {
        let mut wheel = Wheel::new(Timestamp::from_millis(start));
        let mut model: BTreeMap<(Timestamp, u32), ()> = BTreeMap::new();
        let mut now = start;
        for (i, op) in ops.into_iter().enumerate() {
            match op {
                Op::Insert(d) => {
                    let entry = Entry { at: Timestamp::from_millis(now + d), slot: i as u32, generation: 0 };
                    wheel.insert(entry);
                    model.insert((entry.at, entry.slot), ());
                }
                Op::Back(d) => now = (now - d).max(0),
                Op::Advance(d, max) => {
                    now += d;
                    let until = Timestamp::from_millis(now);
                    let due = model.range(..=(until, u32::MAX)).count();
                    prop_assert!(wheel.count_until(until) >= due);
                    let mut popped = Vec::new();
                    wheel.pop(until, max, &mut popped);
                    prop_assert_eq!(popped.len(), due.min(max), "pops all that is due, up to the limit");
                    for entry in &popped {
                        prop_assert!(entry.at <= until, "never early");
                        prop_assert!(model.remove(&(entry.at, entry.slot)).is_some(), "never twice");
                    }
                }
            }
            prop_assert_eq!(wheel.len(), model.len());
            let first = model.keys().next().map(|key| key.0);
            match (wheel.next_at(), first) {
                (Some(next), Some(first)) => prop_assert!(next <= first),
                (next, first) => prop_assert_eq!(next.is_none(), first.is_none()),
            }
        }
        let mut rest = Vec::new();
        wheel.pop(Timestamp::MAX, usize::MAX, &mut rest);
        let mut rest: Vec<_> = rest.into_iter().map(|e| (e.at, e.slot)).collect();
        rest.sort();
        prop_assert_eq!(rest, model.into_keys().collect::<Vec<_>>());
        prop_assert!(wheel.is_empty());
    }
}

#[test]
fn pops_in_the_order_of_time() {
    let mut wheel = Wheel::new(Timestamp::from_millis(0));
    for at in [5_000_000, 3, 70, 4_097, 3, 262_145] {
        wheel.insert(Entry { at: Timestamp::from_millis(at), slot: 0, generation: 0 });
    }
    let mut out = Vec::new();
    wheel.pop(Timestamp::from_millis(6_000_000), usize::MAX, &mut out);
    assert_eq!(out.iter().map(|e| e.at.millis()).collect::<Vec<_>>(), [3, 3, 70, 4_097, 262_145, 5_000_000]);
}

#[test]
fn an_hour_and_five_seconds_is_not_five_seconds() {
    let mut wheel = Wheel::new(Timestamp::from_millis(1_000));
    wheel.insert(Entry { at: Timestamp::from_millis(1_000 + 3_605_000), slot: 0, generation: 0 });
    let mut out = Vec::new();
    wheel.pop(Timestamp::from_millis(1_000 + 3_604_999), usize::MAX, &mut out);
    assert_eq!(out, []);
    wheel.pop(Timestamp::from_millis(1_000 + 3_605_000), usize::MAX, &mut out);
    assert_eq!(out.len(), 1);
}

#[test]
fn retain_sweeps_old_generations_out() {
    let mut wheel = Wheel::new(Timestamp::from_millis(0));
    for slot in 0..1_000 {
        wheel.insert(Entry { at: Timestamp::from_millis(i64::from(slot) * 977), slot, generation: slot % 2 });
    }
    wheel.retain(|entry| entry.generation == 1);
    assert_eq!(wheel.len(), 500);
    let mut out = Vec::new();
    wheel.pop(Timestamp::MAX, usize::MAX, &mut out);
    assert_eq!(out.len(), 500);
}

#[test]
fn an_entry_has_sixteen_bytes() {
    assert_eq!(size_of::<Entry>(), 16);
}
