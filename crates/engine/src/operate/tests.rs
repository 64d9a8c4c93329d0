use super::*;

fn terms() -> Terms {
    Terms { per_second: None, max_open: None, canary: Some(5), stop_if_failing_percent: Some(20.0) }
}

fn progress(started: u64, succeeded: u64, failed: u64, open: usize) -> Progress {
    Progress { started, succeeded, failed, open: vec!["exe".into(); open], ..Default::default() }
}

const NOW: Timestamp = Timestamp::from_millis(1_000);

#[test]
fn the_canary_goes_first_and_must_be_over_before_the_rest() {
    assert_eq!(pace(&terms(), &progress(0, 0, 0, 0), NOW), Pace::Start(5));
    assert_eq!(pace(&terms(), &progress(5, 3, 0, 2), NOW), Pace::Wait);
    let over = Progress { canary_over: true, ..progress(5, 5, 0, 0) };
    assert_eq!(pace(&terms(), &over, NOW), Pace::Start(limits::OPERATION_OPEN_MAX));
}

#[test]
fn a_failing_canary_stops_it() {
    let Pace::End(OperationState::Stopped, message) = pace(&terms(), &progress(5, 3, 2, 0), NOW) else { panic!() };
    assert_eq!(message, "stopped: 2 of 5 failed in the canary (40 %)");
    assert_eq!(pace(&terms(), &progress(5, 3, 1, 1), NOW), Pace::Wait, "not before it is over");
}

#[test]
fn failing_later_stops_it_too_but_not_on_a_few() {
    let terms = Terms { canary: None, ..terms() };
    assert!(matches!(pace(&terms, &progress(9, 0, 9, 0), NOW), Pace::Start(_)));
    assert!(matches!(pace(&terms, &progress(20, 10, 5, 5), NOW), Pace::End(OperationState::Stopped, _)));
    assert!(matches!(pace(&terms, &progress(20, 12, 3, 5), NOW), Pace::Start(_)), "20 % is allowed");
}

#[test]
fn rate_and_concurrency_are_kept() {
    let slow = Terms { per_second: Some(2.0), ..Terms::default() };
    let credited = |credit, ms| Progress { credit, credited_ms: Some(ms), ..progress(9, 0, 0, 9) };
    assert_eq!(pace(&slow, &credited(0.0, 501), NOW), Pace::Wait);
    assert_eq!(pace(&slow, &credited(0.0, 500), NOW), Pace::Start(1));
    assert_eq!(pace(&slow, &credited(0.0, -3_600_000), NOW), Pace::Start(2), "a restart is no reason for a storm");
    let unbegun = Progress::default();
    assert_eq!(pace(&slow, &unbegun, NOW), Pace::Start(1), "the first step keeps it too");
    let narrow = Terms { max_open: Some(2), ..Terms::default() };
    assert_eq!(pace(&narrow, &progress(2, 0, 0, 2), NOW), Pace::Wait);
    assert_eq!(pace(&narrow, &progress(2, 1, 0, 1), NOW), Pace::Start(1));
}

#[test]
fn it_is_done_when_the_last_one_is_over() {
    let exhausted = |open| Progress { exhausted: true, canary_over: true, ..progress(7, 6, 1, open) };
    assert_eq!(pace(&terms(), &exhausted(1), NOW), Pace::Wait);
    let end = Pace::End(OperationState::Done, "6 succeeded, 1 failed".into());
    assert_eq!(pace(&terms(), &exhausted(0), NOW), end);
}
