//! Counters and rollups: kept by what happens, never by counting.

use super::lives::{self, Dice, all, pages};
use super::{DUE, Fixture};
use crate::generate as g;
use campanile_model::TenantId;
use campanile_model::lifecycle::State;
use campanile_model::stats::{Rollup, StatsQuery, Tally};

fn everything() -> StatsQuery {
    let (from, to) = (g::at(-1_000_000), g::at(1_000_000));
    StatsQuery { tenant: TenantId::DEFAULT, from, to, pool: None, target: None, limit: 10_000 }
}

fn sum(rollups: &[Rollup]) -> Tally {
    let mut sum = Tally::default();
    rollups.iter().for_each(|rollup| sum.add(&rollup.tally));
    sum
}

/// Whatever happened: the sum of the rollups is what the executions say.
pub async fn rollups_add_up_to_what_happened(store: Fixture) {
    let jobs = lives::jobs(&store, 6).await;
    lives::live(&store, &jobs, g::at(0), 40, &Dice::new(3)).await;
    let executions = pages(&store, all(1_000)).await;
    let in_state = |state| executions.iter().filter(|execution| execution.state == state).count() as u64;
    let rollups = store.stats(&everything()).await.unwrap();
    let all = sum(&rollups);
    assert_eq!((all.succeeded, all.dead), (in_state(State::Succeeded), in_state(State::Dead)));
    assert_eq!(all.cancelled, in_state(State::Cancelled));
    assert!(all.failed > 0);
    // Every execution that has ended an attempt is late once; every one that ended by an attempt took its time once.
    let tried = executions.iter().filter(|execution| execution.finished_at.is_some() && execution.attempt > 0);
    let again = executions.iter().filter(|execution| execution.finished_at.is_none() && execution.attempt > 1);
    assert_eq!(all.lateness.iter().sum::<u64>(), (tried.count() + again.count()) as u64);
    assert_eq!(all.duration.iter().sum::<u64>(), all.succeeded + all.dead);
    assert!(rollups.is_sorted_by_key(|rollup| rollup.minute));
    assert!(rollups.iter().all(|rollup| rollup.minute.millis() % 60_000 == 0));
    assert_eq!(lives::counts(&store).await, lives::counted(&store).await);
    assert_eq!(store.reconcile().await.unwrap(), 0);
}

/// By time, pool, target and tenant.
pub async fn rollups_are_filtered(store: Fixture) {
    let jobs = lives::jobs(&store, 6).await;
    lives::live(&store, &jobs, g::at(0), 100, &Dice::new(5)).await;
    let all = store.stats(&everything()).await.unwrap();
    let check = async |query: StatsQuery, holds: &dyn Fn(&Rollup) -> bool| {
        let read = store.stats(&query).await.unwrap();
        let expected: Vec<Rollup> = all.iter().filter(|rollup| holds(rollup)).cloned().collect();
        assert_eq!(read, expected, "{query:?}");
        assert!(!read.is_empty() && read.len() < all.len(), "{query:?}");
    };
    let short = StatsQuery { pool: Some("short".into()), ..everything() };
    check(short, &|rollup| &*rollup.pool == "short").await;
    let target = StatsQuery { target: Some("handler-1".into()), ..everything() };
    check(target, &|rollup| &*rollup.target == "handler-1").await;
    check(StatsQuery { to: DUE, ..everything() }, &|rollup| rollup.minute < DUE).await;
    // A minute is meant as a whole.
    check(StatsQuery { from: DUE.saturating_add_ms(59_999), ..everything() }, &|rollup| rollup.minute >= DUE).await;
    assert_eq!(store.stats(&StatsQuery { limit: 3, ..everything() }).await.unwrap(), all[..3]);
    assert_eq!(store.stats(&StatsQuery { tenant: TenantId(2), ..everything() }).await.unwrap(), []);
}
