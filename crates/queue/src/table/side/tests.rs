//! What is handed over past the table, and what is not.

use super::*;
use campanile_model::job::Priority;
use campanile_model::queue::Receive;
use campanile_testkit::conformance::queue::{any, batch, pulled_batch, worker};

fn in_line(side: &mut Side, receive: &Receive) -> (Arc<Want>, u64) {
    let want = Arc::new(Want::of(receive));
    let (ticket, _) = side.stand_in_line(&want, receive.limit);
    (want, ticket)
}

fn put(side: &mut Side, items: &[Dispatch], first_seq: i64) {
    side.was_put(items.iter(), items.len(), first_seq);
}

fn critical(limit: usize) -> Receive {
    Receive { least: Priority::Critical, ..any(limit) }
}

#[test]
fn who_has_room_for_all_of_it_gets_it() {
    let mut side = Side::default();
    assert_eq!(side.hand_over(batch(0, 3, 1, Priority::Normal)).len(), 3, "nobody is there");
    let (want, ticket) = in_line(&mut side, &any(2));
    assert_eq!(side.hand_over(batch(0, 3, 1, Priority::Normal)).len(), 3, "there is no room for all of it");
    assert!(side.hand_over(batch(0, 2, 1, Priority::Normal)).is_empty());
    assert_eq!((side.depth().waiting, side.depth().taken), (0, 2));
    assert_eq!(side.leave(&want, ticket), batch(0, 2, 1, Priority::Normal));
}

#[test]
fn what_waits_in_the_table_goes_first() {
    let mut side = Side::default();
    put(&mut side, &batch(0, 5, 1, Priority::Low), 1);
    in_line(&mut side, &any(9));
    assert_eq!(
        side.hand_over(batch(10, 1, 1, Priority::High)).len(),
        1,
        "by the shares, it may be the turn of the low ones"
    );
    assert!(side.hand_over(batch(20, 1, 1, Priority::Critical)).is_empty(), "what is critical waits for nothing else");
    let mut side = Side::default();
    put(&mut side, &batch(0, 1, 1, Priority::Critical), 1);
    in_line(&mut side, &critical(9));
    assert_eq!(side.hand_over(batch(20, 1, 1, Priority::Critical)).len(), 1, "but for what is critical too");
}

#[test]
fn who_is_being_fetched_for_is_left_alone() {
    let mut side = Side::default();
    put(&mut side, &batch(0, 5, 1, Priority::Normal), 1);
    let (want, ticket) = in_line(&mut side, &any(5));
    let Next::Fetch(fetch) = side.next() else { panic!("something is known") };
    assert_eq!(side.hand_over(batch(10, 1, 1, Priority::Critical)).len(), 1);
    in_line(&mut side, &critical(9));
    assert!(side.hand_over(batch(20, 1, 1, Priority::Critical)).is_empty(), "somebody else is free");
    let rows = batch(0, 5, 1, Priority::Normal).into_iter().zip(1..).map(|(item, seq)| Row { seq, item }).collect();
    assert!(side.fetched(fetch, rows).is_none());
    assert_eq!(side.leave(&want, ticket), batch(0, 5, 1, Priority::Normal));
    assert!(matches!(side.next(), Next::Rest), "nothing has to go back");
}

#[test]
fn a_batch_goes_to_many_receivers_in_order_and_to_nobody_who_does_not_want_it() {
    let mut side = Side::default();
    let receivers = ["mail", "bill", "mail"].map(|handler| in_line(&mut side, &worker(&[handler], 1)));
    let mut items = pulled_batch(0, 2, 1, Priority::Normal, "mail");
    assert!(side.hand_over(items.clone()).is_empty());
    let [first, other, second] = receivers.map(|(want, ticket)| side.leave(&want, ticket));
    assert_eq!((first, other, second), (vec![items.remove(0)], vec![], vec![items.remove(0)]));
}
