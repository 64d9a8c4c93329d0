use super::execution::text_of;
use super::job::schedule_kind;
use super::*;
use campanile_client::wire::input::Fields;
use campanile_client::wire::json;
use campanile_model::job::{Cursor, Job, JobState};
use campanile_model::schedule::{DstFold, DstGap};
use campanile_model::{JobId, TenantId};
use std::sync::Arc;

const NOW: Timestamp = Timestamp::from_millis(1_794_794_400_000);

fn stored(schedule: Schedule) -> Job {
    let definition = Definition {
        name: "a".into(),
        description: "what it is for".into(),
        schedule,
        window: Window { starts_at: Some(NOW), ends_at: Some(NOW.saturating_add_ms(86_400_000)), max_fires: Some(7) },
        spread_ms: 0,
        action: ActionSpec {
            kind: ActionKind::Webhook,
            config: r#"{"url":"https://x.test/","body":{"n":1e400}}"#.into(),
        },
        payload: r#"{"big":123456789012345678901234567890}"#.into(),
        retry: RetryPolicy {
            max_attempts: 4,
            backoff: Backoff::Fixed,
            initial_delay_ms: 5,
            max_delay_ms: 6,
            total_timeout_ms: Some(86_400_000),
        },
        timeout_ms: 1_234,
        priority: Priority::Critical,
        pool: "batch".into(),
        catch_up: CatchUp { mode: CatchUpMode::LastN(3), max_age_ms: 9_000, drip_ms: 50 },
        overlap: Overlap::BufferOne,
        expect: Expectation { start_within_ms: Some(1), finish_within_ms: None, success_every_ms: Some(3) },
        blackouts: [Blackout { from: NOW, to: NOW.saturating_add_ms(1) }].into(),
        tags: vec!["x".into(), "y".into()],
    };
    Job {
        id: JobId::new(NOW, 1, 2),
        tenant: TenantId::DEFAULT,
        version: 3,
        state: JobState::Active,
        paused_until: Some(NOW),
        created_at: NOW,
        effective_at: NOW,
        cursor: Cursor { next_fire_at: Some(NOW), fires_left: Some(7) },
        plan: "every 60000+0".into(),
        target: "https://x.test".into(),
        definition: definition.into(),
    }
}

fn read(text: &str) -> (Draft, Vec<FieldProblem>) {
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
        for catch_up in
            [CatchUpMode::None, CatchUpMode::Last, CatchUpMode::All, CatchUpMode::LastN(9), CatchUpMode::Coalesced]
        {
            let mut before = stored(schedule.clone());
            Arc::make_mut(&mut before.definition).catch_up.mode = catch_up;
            let shown = serde_json::to_string(&job(&before, NOW)).unwrap();
            for text in [shown.clone(), json::camel(&shown)] {
                let (after, faults) = read(&text);
                assert_eq!(faults, [], "{text}");
                assert_eq!(after.definition, *before.definition);
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
    Arc::make_mut(&mut lagging.definition).window.ends_at = Some(later);
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
        assert_eq!((faults, schedule_kind(&draft.definition.schedule)), (vec![], kind), "{text}");
    }
}

#[test]
fn a_cut_body_may_end_within_a_character() {
    assert_eq!(text_of("aé".as_bytes(), false), Some("aé"));
    assert_eq!(text_of(&"aé".as_bytes()[..2], true), Some("a"));
    assert_eq!(text_of(&"aé".as_bytes()[..2], false), None);
    assert_eq!(text_of(b"\xff\xfe", true), None);
}

#[test]
fn the_pool_follows_from_how_long_it_takes() {
    let pool = |fields: &str| {
        let (draft, faults) = read(&format!(r#"{{"name":"a","action":{{"type":"NOOP"}}{fields}}}"#));
        faults.first().map_or_else(|| draft.definition.pool.to_string(), |fault| fault.code.clone())
    };
    for (fields, expected) in [
        ("", "short"),
        (r#","estimated_duration":"Long""#, "long"),
        (r#","estimatedDuration":"short""#, "short"),
        (r#","estimated_duration_ms":30000"#, "short"),
        (r#","estimated_duration_ms":30001"#, "long"),
        (r#","estimated_duration":"10m""#, "long"),
        (r#","estimated_duration_seconds":5,"pool":"short""#, "short"),
        (r#","estimated_duration":"10m","pool":"batch""#, "field_duplicate"),
        (r#","estimated_duration":"soon""#, "estimated_duration_invalid"),
        (r#","estimated_duration":30"#, "unit_missing"),
    ] {
        assert_eq!(pool(fields), expected, "{fields}");
    }
}

#[test]
fn policies_of_a_run_are_read_in_any_spelling() {
    let (draft, faults) = read(
        r#"{"name":"a","action":{"type":"NOOP"},"overlap":"buffer-one","catchUp":{"mode":"coalesced","drip":"5s"},
            "retryPolicy":{"totalTimeout":"6h"},"expect":{"startWithin":"1m","success_every_seconds":90},
            "blackouts":[{"from":"2026-12-24T00:00:00Z","to":"2026-12-27T00:00:00Z"}],"target":"shown"}"#,
    );
    assert_eq!(faults, []);
    assert_eq!(
        (draft.definition.overlap, draft.definition.catch_up.mode, draft.definition.catch_up.drip_ms),
        (Overlap::BufferOne, CatchUpMode::Coalesced, 5_000)
    );
    assert_eq!(draft.definition.retry.total_timeout_ms, Some(6 * 3_600_000));
    assert_eq!(
        (draft.definition.expect.start_within_ms, draft.definition.expect.success_every_ms),
        (Some(60_000), Some(90_000))
    );
    assert_eq!(draft.definition.blackouts.len(), 1);
    let codes = |text: &str| {
        let faults = read(&text.replacen('{', r#"{"name":"a","action":{"type":"NOOP"},"#, 1)).1;
        faults.into_iter().map(|fault| format!("{} {}", fault.pointer, fault.code)).collect::<Vec<_>>()
    };
    assert_eq!(codes(r#"{"overlap":"queue"}"#), ["/overlap overlap_invalid"]);
    assert_eq!(codes(r#"{"expect":"soon"}"#), ["/expect wrong_type"]);
    assert_eq!(codes(r#"{"expect":{"start_within":5}}"#), ["/expect/start_within unit_missing"]);
    assert_eq!(
        codes(r#"{"blackouts":[{"from":"x","to":"2026-12-27T00:00:00Z"}]}"#),
        ["/blackouts/0/from instant_invalid"]
    );
    assert_eq!(codes(r#"{"blackouts":[{"from":"x"},5,{"form":"x"}]}"#).len(), 5);
    assert_eq!(codes(r#"{"catch_up":{"mode":"coalesced","n":2}}"#), ["/catch_up/n catch_up_invalid"]);
}
