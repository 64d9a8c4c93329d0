//! Shares and turns are those of `memory`, without knowing how much waits.

use super::*;
use campanile_model::action::Runner;
use campanile_model::queue::Receive;

fn lane(pool: &str, level: u8, target: &str, tenant: u32) -> Lane {
    Lane { pool: pool.into(), level, target: target.into(), tenant: TenantId(tenant) }
}

fn want(pools: &[&str], targets: &[&str]) -> Want {
    let names = |names: &[&str]| names.iter().map(|&name| name.into()).collect();
    let (pools, targets) = (names(pools), names(targets));
    Want::of(&Receive {
        runner: Runner::Worker,
        pools,
        except: vec!["closed".into()],
        targets,
        least: Priority::Low,
        limit: 1,
    })
}

fn known(lanes: &[Lane]) -> Known {
    let mut known = Known::default();
    lanes.iter().for_each(|lane| known.put(lane, 1));
    known
}

/// Takes `count` of `asked` from a lane, as planned now.
fn take(known: &mut Known, lane: &Lane, asked: usize, count: usize, last_seq: i64) {
    let since = known.stamp();
    let quota = Quota { lane: lane.clone(), from_seq: 0, count: asked };
    known.taken(&quota, Taken { count, last_seq }, since);
}

#[test]
fn priorities_get_exactly_their_shares() {
    let mut known = known(&[0, 1, 2, 3].map(|level| lane("short", level, "", 1)));
    let mut order = String::new();
    for limit in [1, 5, 9] {
        let planned = known.plan(&want(&[], &[]), limit);
        assert_eq!(planned.len(), limit);
        order.extend(planned.iter().map(|lane| ["C", "H", "N", "L"][usize::from(lane.level)]));
    }
    assert_eq!(order, "CHCNCHCLCHCNCHC");
}

#[test]
fn targets_and_tenants_take_turns_that_outlast_a_batch() {
    let lanes = ["mail", "bill", "scan"].map(|target| [1, 2].map(|tenant| lane("short", 2, target, tenant)));
    let mut known = known(&lanes.concat());
    let mut order = String::new();
    for limit in [1, 2, 3, 7, 3] {
        for lane in known.plan(&want(&[], &["scan", "mail"]), limit) {
            order += &format!("{}{} ", &lane.target[..1], lane.tenant.0);
        }
    }
    assert_eq!(order, "m1 s1 m1 s1 m1 s1 m1 s1 m2 s2 m2 s2 m2 s2 m2 s2 ");
    let next = known.plan(&want(&[], &[]), 4);
    assert_eq!(next.iter().map(|lane| &*lane.target).collect::<Vec<_>>(), ["bill", "mail", "scan", "bill"]);
}

#[test]
fn pools_share_a_batch_evenly_and_closed_ones_have_no_part() {
    let mut known = known(&["a", "b", "c", "closed"].map(|pool| lane(pool, 2, "", 1)));
    let mut counts = Vec::new();
    for limit in [4, 4, 1, 1] {
        let planned = known.plan(&want(&[], &[]), limit);
        counts.push(["a", "b", "c"].map(|pool| planned.iter().filter(|lane| &*lane.pool == pool).count()));
    }
    assert_eq!(counts, [[2, 1, 1], [1, 2, 1], [0, 0, 1], [1, 0, 0]]);
    assert!(!known.has(&want(&["closed"], &[])) && !known.has(&want(&["other"], &[])));
    assert_eq!(known.plan(&want(&["closed"], &[]), 5), []);
}

#[test]
fn a_lane_that_gave_less_than_asked_is_forgotten() {
    let lanes = [lane("short", 0, "mail", 1), lane("short", 0, "mail", 2), lane("long", 3, "bill", 1)];
    let mut known = known(&lanes);
    take(&mut known, &lanes[0], 5, 5, 9);
    assert_eq!(known.plan(&want(&["short"], &[]), 8).iter().filter(|&lane| *lane == lanes[0]).count(), 4);
    take(&mut known, &lanes[0], 5, 4, 13);
    assert!(known.plan(&want(&["short"], &[]), 8).iter().all(|lane| *lane == lanes[1]));
    take(&mut known, &lanes[1], 1, 0, 0);
    assert!(!known.has(&want(&["short"], &[])) && known.has(&want(&[], &["bill"])));
    take(&mut known, &lanes[2], 1, 0, 0);
    assert!(known.is_empty());
}

#[test]
fn what_is_heard_of_meanwhile_is_not_forgotten() {
    let one = lane("short", 0, "", 1);
    let mut known = known(std::slice::from_ref(&one));
    let since = known.stamp();
    let quota = Quota { lane: one.clone(), from_seq: 1, count: 5 };
    known.put(&one, 7);
    known.taken(&quota, Taken { count: 0, last_seq: 0 }, since);
    assert!(known.has(&want(&[], &[])), "put while it was fetched from");
    known.found(Vec::new(), true, since);
    assert!(known.has(&want(&[], &[])), "put after the look began");
    known.found(Vec::new(), false, known.stamp());
    assert!(known.has(&want(&[], &[])), "the look did not show everything");
    known.found(Vec::new(), true, known.stamp());
    assert!(known.is_empty());
}

#[test]
fn reading_starts_behind_what_was_taken_and_never_behind_what_was_put() {
    let one = lane("short", 0, "", 1);
    let mut known = known(std::slice::from_ref(&one));
    let plan = |known: &mut Known| (known.quotas([&one].into_iter())[0].from_seq, known.stamp());
    let took = |known: &mut Known, count, last_seq, since| {
        known.taken(&Quota { lane: one.clone(), from_seq: 0, count: 2 }, Taken { count, last_seq }, since);
    };
    let (from_seq, since) = plan(&mut known);
    assert_eq!(from_seq, 1);
    took(&mut known, 2, 9, since);
    let (from_seq, since) = plan(&mut known);
    assert_eq!(from_seq, 10);
    known.put(&one, 4);
    took(&mut known, 2, 12, since);
    let (from_seq, since) = plan(&mut known);
    assert_eq!(from_seq, 4, "another publisher was slower");
    known.put(&one, 30);
    took(&mut known, 2, 14, since);
    let (from_seq, since) = plan(&mut known);
    assert_eq!(from_seq, 15, "however much is put meanwhile");
    known.put(&one, 40);
    took(&mut known, 0, 0, since);
    let (from_seq, since) = plan(&mut known);
    assert_eq!(from_seq, 40, "there is nothing before");
    known.found(vec![(one.clone(), 20)], true, since);
    took(&mut known, 2, 41, since);
    let (from_seq, since) = plan(&mut known);
    assert_eq!(from_seq, 20, "found by a look");
    known.put(&one, -3);
    known.found(vec![(one.clone(), 50)], true, since);
    assert_eq!(plan(&mut known).0, -3, "released since the look began");
    let since = known.stamp();
    known.found(vec![(one.clone(), 50)], true, since);
    assert_eq!(plan(&mut known).0, 50);
}

#[test]
fn plans_of_several_receivers_are_one_quota_per_lane() {
    let lanes = [lane("short", 0, "", 1), lane("short", 0, "", 2)];
    let mut known = known(&lanes);
    let mut planned = known.plan(&want(&[], &[]), 6);
    planned.extend(known.plan(&want(&[], &[]), 6));
    let mut counts: Vec<_> = known.quotas(planned.iter()).iter().map(|q| (q.lane.tenant.0, q.count)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(1, 8), (2, 4)]);
}
