//! A file that an earlier release wrote keeps what is in it, and has what that release did not know.

use super::super::rows::Texts;
use super::super::*;
use super::*;
use campanile_model::action::ActionKind;
use campanile_model::execution::AttemptOutcome;
use campanile_model::fingerprint::fingerprint;
use campanile_model::overlap::Overlap;
use campanile_model::store::JobQuery;
use std::path::Path;

/// A file of the first schema: a job for a worker, one that does nothing, and executions in four states.
fn first_schema(directory: &Path) -> Connection {
    let options = Options::new(directory.join("campanile.db"));
    let connection = open_writer(&options, "test").unwrap();
    connection.execute_batch(include_str!("../migrations/0001_start.sql")).unwrap();
    connection.pragma_update(None, "application_id", migrations::APPLICATION_ID).unwrap();
    connection.pragma_update(None, "user_version", 1).unwrap();
    for (n, kind, config) in [(1u8, ActionKind::Worker, r#"{"handler":"send"}"#), (2, ActionKind::Noop, "{}")] {
        connection
            .execute(
                "INSERT INTO jobs VALUES (?1, 1, 3, 0, 5, 'every 60000+0', 60000, NULL, NULL, 0, 2, 'short', ?2, 3, 7, 86400000, ?3,
                                          'job-' || ?3, 'every 60000 0', NULL, NULL, 5, 2, 1000, 60000, 30000, 'a', 4, ?4, 'null')",
                rusqlite::params![[n; 16], kind.code(), n, config],
            )
            .unwrap();
    }
    let states = [State::Pending, State::Running, State::Dead, State::Dead, State::Succeeded, State::Dead];
    for (n, state) in (1u8..).zip(states) {
        let job = if n < 6 { 1u8 } else { 2 };
        let action = if job == 1 { ActionKind::Worker } else { ActionKind::Noop };
        let (outcome, error) = match state {
            State::Dead if n == 6 => (Some(AttemptOutcome::WorkerLost.code()), None),
            State::Dead => (Some(AttemptOutcome::Failed.code()), Some(format!("no answer after {n} s"))),
            _ => (None, None),
        };
        connection
            .execute(
                "INSERT INTO executions VALUES (?1, 1, ?2, 3, 60000, 0, ?3, NULL, 1, ?4, 2, 'short', ?5, 70000, 50000, 60001,
                                                60000 + ?4, 'w', ?6, CASE WHEN ?7 IS NULL THEN NULL ELSE 'http' END, ?7)",
                rusqlite::params![[n; 16], [job; 16], state.code(), n, action.code(), outcome, error],
            )
            .unwrap();
    }
    connection
}

#[test]
fn a_file_of_the_first_schema_keeps_what_is_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let connection = first_schema(directory.path());
    migrations::migrate(&connection, "test").unwrap();
    let tenant = TenantId::DEFAULT;
    let jobs = jobs::list(&connection, &JobQuery { limit: 10, ..JobQuery::default() }).unwrap().items;
    assert_eq!(jobs.iter().map(|job| &*job.name).collect::<Vec<_>>(), ["job-1", "job-2"]);
    assert_eq!((&*jobs[0].target, &*jobs[1].target), ("send", ""), "a worker's target is its handler");
    assert_eq!((jobs[0].version, jobs[0].timeout_ms, jobs[0].tags[0].as_str()), (3, 30_000, "a"));
    assert_eq!((jobs[0].overlap, jobs[0].retry.total_timeout_ms, jobs[0].paused_until), (Overlap::Allow, None, None));
    assert_eq!(counters::get(&connection, counters::CHANGE_SEQ).unwrap(), 0);
    assert_eq!(
        jobs::load_changed(&connection, ChangeSeq(1), 10).unwrap().jobs.len(),
        1,
        "in the order of their writes"
    );

    let ids: Vec<_> = (1..=6).map(|n| ExecutionId::from_bytes([n; 16])).collect();
    let executions: Vec<_> = executions::get(&connection, tenant, &ids).unwrap().into_iter().flatten().collect();
    assert_eq!(executions.len(), 6);
    assert!(executions[..5].iter().all(|it| &*it.target == "send" && it.deliveries == 1));
    let counts = capacities::counts(&connection, Some(tenant)).unwrap();
    let counted: Vec<_> = counts.iter().map(|count| (count.state, count.executions)).collect();
    assert_eq!(counted, [(State::Pending, 1), (State::Running, 1), (State::Succeeded, 1), (State::Dead, 3)]);

    let groups = dead::groups(&connection, tenant, 10).unwrap();
    let kinds: Vec<_> = groups.iter().map(|group| (&*group.kind, group.count, group.sample)).collect();
    assert_eq!(kinds, [("worker_lost", 1, ids[5]), ("http", 2, ids[3])]);
    assert_eq!(executions[2].fingerprint, Some(fingerprint("send", "http", "no answer after 3 s")));
    assert_eq!(executions[0].fingerprint, None);

    // What ran goes on: it is found, ended and replayed as any other.
    let found = executions::find(&connection, ids[1], &mut Texts::default()).unwrap().unwrap();
    assert!(found.runs() && found.fence == 2);
    assert_eq!(leases::load_expired(&connection, Timestamp::from_millis(70_001), 10).unwrap().len(), 1);
    assert_eq!(reconcile::find(&connection).unwrap().len(), 0, "and nothing has drifted");
}

#[test]
fn opening_it_again_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    drop(first_schema(directory.path()));
    let dump = || {
        let connection = migrated(directory.path());
        let mut schema = connection.prepare("SELECT coalesce(sql, '') FROM sqlite_schema ORDER BY name").unwrap();
        let schema: Vec<String> = schema.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        (schema, dead::groups(&connection, TenantId::DEFAULT, 10).unwrap())
    };
    assert_eq!(dump(), dump());
}
