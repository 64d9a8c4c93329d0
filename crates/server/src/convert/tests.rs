use super::show::text_of;
use super::*;
use campanile_client::wire::input::Fields;
use campanile_client::wire::json;
use campanile_model::job::{Cursor, Job, JobState};
use campanile_model::{JobId, TenantId};

const NOW: Timestamp = Timestamp::from_millis(1_794_794_400_000);

fn stored(schedule: Schedule) -> Job {
    Job {
        id: JobId::new(NOW, 1, 2),
        tenant: TenantId::DEFAULT,
        name: "a".into(),
        schedule,
        plan: "every 60000+0".into(),
        window: Window { starts_at: Some(NOW), ends_at: Some(NOW.saturating_add_ms(86_400_000)), max_fires: Some(7) },
        spread_ms: 0,
        action: ActionSpec {
            kind: ActionKind::Webhook,
            config: r#"{"url":"https://x.test/","body":{"n":1e400}}"#.into(),
        },
        payload: r#"{"big":123456789012345678901234567890}"#.into(),
        retry: RetryPolicy { max_attempts: 4, backoff: Backoff::Fixed, initial_delay_ms: 5, max_delay_ms: 6 },
        timeout_ms: 1_234,
        priority: Priority::Critical,
        pool: "batch".into(),
        catch_up: CatchUp { mode: CatchUpMode::LastN(3), max_age_ms: 9_000 },
        tags: vec!["x".into(), "y".into()],
        state: JobState::Active,
        version: 3,
        created_at: NOW,
        updated_at: NOW,
        cursor: Cursor { next_fire_at: Some(NOW), fires_left: Some(7) },
    }
}

fn read(text: &str) -> (JobDraft, Vec<FieldProblem>) {
    let mut faults = Faults::default();
    let input = Fields::job(text, &mut faults).into_job(&mut faults);
    (draft(&input, &mut faults), faults.into_vec())
}

#[test]
fn what_is_shown_can_be_sent_back() {
    let cron = Schedule::Cron {
        expression: "H 3 * * *".into(),
        zone: "Europe/Berlin".into(),
        dst_gap: DstGap::Skip,
        dst_fold: DstFold::Both,
    };
    let every = Schedule::Every { every_ms: 90_000, phase_ms: 7 };
    for schedule in [cron, every, Schedule::At { at: NOW }, Schedule::After { delay_ms: 5 }, Schedule::None] {
        for catch_up in [CatchUpMode::None, CatchUpMode::Last, CatchUpMode::All, CatchUpMode::LastN(9)] {
            let mut before = stored(schedule.clone());
            before.catch_up.mode = catch_up;
            let shown = serde_json::to_string(&job(&before, NOW)).unwrap();
            for text in [shown.clone(), json::camel(&shown)] {
                let (after, faults) = read(&text);
                assert_eq!(faults, [], "{text}");
                assert_eq!(after.name, before.name);
                assert_eq!(after.schedule, before.schedule);
                assert_eq!(after.window, before.window);
                assert_eq!(after.action, before.action);
                assert_eq!(after.payload, before.payload);
                assert_eq!(after.retry, before.retry);
                assert_eq!((after.timeout_ms, after.spread_ms), (before.timeout_ms, before.spread_ms));
                assert_eq!((after.priority, after.pool), (before.priority, before.pool.clone()));
                assert_eq!(after.catch_up, before.catch_up);
                assert_eq!(after.tags, before.tags);
                assert!(!after.paused);
            }
        }
    }
}

#[test]
fn a_lagging_cursor_does_not_show_fires_of_the_past() {
    let mut lagging = stored(Schedule::Every { every_ms: 60_000, phase_ms: 0 });
    let later = NOW.saturating_add_ms(150_000);
    let next = |job: &Job| super::job(job, later).next_fire_at;
    assert_eq!(next(&lagging).as_deref(), Some("2026-11-16T02:03:00Z"));
    lagging.cursor.fires_left = Some(2);
    assert_eq!(next(&lagging), None, "both fires are past");
    lagging.cursor.fires_left = None;
    lagging.window.ends_at = Some(later);
    assert_eq!((next(&lagging), super::job(&lagging, later).status.as_str()), (None, "COMPLETED"));
    lagging.state = JobState::Paused;
    assert_eq!(super::job(&lagging, later).status, "PAUSED");
}

#[test]
fn words_for_kinds_of_schedules_are_checked() {
    for (text, kind) in [
        (r#"{"type":"CRON","schedule":"@daily"}"#, "CRON"),
        (r#"{"type":"recurring","schedule":"every 5m"}"#, "EVERY"),
        (r#"{"type":"ONE_TIME","schedule":"2030-01-01T00:00:00Z"}"#, "AT"),
        (r#"{"type":"one-shot","runAt":"2030-01-01T00:00:00Z"}"#, "AT"),
        (r#"{"type":"DELAYED","schedule":"10m"}"#, "AFTER"),
        (r#"{"type":"DELAYED","delaySeconds":600}"#, "AFTER"),
        (r#"{"type":"MANUAL"}"#, "NONE"),
        (r#"{"schedule":{"type":"EVERY","every":"5m"}}"#, "EVERY"),
    ] {
        let (draft, faults) = read(&text.replacen('{', r#"{"name":"a","action":{"type":"NOOP"},"#, 1));
        assert_eq!((faults, schedule_kind(&draft.schedule)), (vec![], kind), "{text}");
    }
}

#[test]
fn a_cut_body_may_end_within_a_character() {
    assert_eq!(text_of("aé".as_bytes(), false), Some("aé"));
    assert_eq!(text_of(&"aé".as_bytes()[..2], true), Some("a"));
    assert_eq!(text_of(&"aé".as_bytes()[..2], false), None);
    assert_eq!(text_of(b"\xff\xfe", true), None);
}
