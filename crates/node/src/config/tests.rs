use super::*;
use campanile_model::lifecycle::State;

fn sources(toml: &str, env: &[(&str, &str)], flags: &[(&'static str, &str)]) -> (tempfile::TempDir, Sources) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("campanile.toml");
    std::fs::write(&path, toml).unwrap();
    let own = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    let flags = flags.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
    (dir, Sources { base: Config::embedded(), file: Some(path), env: env.iter().map(own).collect(), flags })
}

#[test]
fn flags_beat_the_environment_which_beats_the_file() {
    let toml = "data_dir = '/a'\n[engine]\nslots = 5\ndrain = '3s'\n[actions]\nports = [443, 8443]\n";
    let env = [("CAMPANILE_ENGINE_SLOTS", "6"), ("CAMPANILE_DATA_DIR", "/b"), ("CAMPANILE_SERVER_PORT", "tcp://x")];
    let (_dir, sources) = sources(toml, &env, &[("engine.slots", "7")]);
    let loaded = sources.load().unwrap();
    assert_eq!(
        loaded.config.engine,
        Engine { slots: 7, drain_ms: 3_000, lease_ms: 30_000, ..Config::embedded().engine }
    );
    assert_eq!(loaded.config.data_dir, Path::new("/b"));
    assert_eq!(loaded.config.actions.ports, [443, 8443]);
    let origin = |key| loaded.rows().find(|(s, ..)| s.key == key).unwrap().2;
    assert_eq!(origin("engine.slots"), Origin::Flag);
    assert_eq!(origin("data_dir"), Origin::Env("CAMPANILE_DATA_DIR".into()));
    assert!(matches!(origin("engine.drain"), Origin::File(_)));
    assert_eq!(origin("log.level"), Origin::Default);
}

#[test]
fn all_problems_are_reported_at_once() {
    let toml = "[engine]\nslot = 5\ndrain = 'soon'\n[server]\nlisten = '0.0.0.0:80'\n[store]\nkind = 'access'\n";
    let (_dir, sources) = sources(toml, &[("CAMPANILE_LOG_FORMAT", "xml")], &[("engine.slots", "0")]);
    let problems = sources.load().unwrap_err().join("\n");
    for part in ["did you mean `engine.slots`?", "engine.drain", "access", "xml", "must be 1 to", "no authentication"] {
        assert!(problems.contains(part), "{part} is missing in\n{problems}");
    }
}

#[test]
fn every_setting_reads_what_it_shows() {
    for base in [Config::embedded(), Config::dev()] {
        let mut read = Config::embedded();
        for setting in SETTINGS {
            let shown = (setting.get)(&base);
            let shown = shown.trim_matches(['[', ']']);
            (setting.set)(&mut read, shown).unwrap_or_else(|e| panic!("{}: {e}", setting.key));
        }
        assert_eq!(read, base);
    }
}

#[test]
fn a_file_that_is_not_toml_is_a_problem_and_not_a_panic() {
    let (dir, sources) = sources("[engine]\nslots = = 5\n", &[], &[]);
    let problems = sources.load().unwrap_err();
    let [problem] = problems.as_slice() else { panic!("{problems:?}") };
    let place = format!("{}: line 2, column 9: ", dir.path().join("campanile.toml").display());
    assert!(problem.starts_with(&place) && !problem.contains('\n'), "{problem}");
}

#[test]
fn an_empty_address_of_a_store_is_not_the_embedded_store() {
    let toml = "[store]\nurl = 'postgres://a@localhost/b'\n";
    for (toml, env, flags, origin) in [
        ("", &[][..], &[("store.url", "")][..], "flag: store.url: is empty"),
        ("", &[("CAMPANILE_STORE_URL", " ")], &[], "CAMPANILE_STORE_URL: store.url: is empty"),
        ("[store]\nurl = ''\n", &[], &[], "campanile.toml: store.url: is empty"),
        (toml, &[("CAMPANILE_STORE_URL", "")], &[], "CAMPANILE_STORE_URL: store.url: is empty"),
    ] {
        let (_dir, sources) = sources(toml, env, flags);
        let problems = sources.load().unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(origin), "{origin}: {problems:?}");
    }
    let env = [("CAMPANILE_STORE_URL", "")];
    let (_dir, sources) = sources("", &env, &[("store.url", "postgres://a@localhost/b")]);
    assert_eq!(sources.load().unwrap().config.store.kind, StoreKind::Postgres, "the flag wins");
}

#[test]
fn what_cannot_be_a_database_is_told_before_anything_starts() {
    for (key, value, part) in [
        ("store.url", "mysql://a@db.example/b", "`mysql` is not postgres"),
        ("store.url", "postgres://a@db.example/b?foo=bar", "unknown option `foo`"),
        ("store.url", "postgres://a@db.example/b?sslmode=disable", "store.allow_plaintext"),
        ("store.schema", "A-B", "schema `A-B`"),
        ("store.ca_file", "/does/not/exist.pem", "/does/not/exist.pem"),
    ] {
        let flags = [("store.url", "postgres://a@db.example/b"), (key, value)];
        let (_dir, sources) = sources("", &[], &flags);
        let problems = sources.load().unwrap_err();
        assert!(problems.len() == 1 && problems[0].contains(part), "{value}: {problems:?}");
    }
}

#[test]
fn retention_is_by_age_and_by_count_for_each_state() {
    let toml = "[retention]\nsucceeded = '3d'\ndead = 'forever'\nskipped = 0\nskips = 'forever'\nversions = '400d'\nrollups = '1d'\n\
                [retention.max_executions]\nsucceeded = 1000\ncancelled = 0\n";
    let (_dir, sources) = sources(toml, &[("CAMPANILE_RETENTION_DELIVERIES", "12h")], &[]);
    let loaded = sources.load().unwrap();
    let retention = &loaded.config.retention;
    let keep = |state| *retention.states.iter().find(|keep| keep.state == state).unwrap();
    assert_eq!((keep(State::Succeeded).age_ms, keep(State::Succeeded).count), (Some(3 * 86_400_000), Some(1_000)));
    assert_eq!((keep(State::Dead).age_ms, keep(State::Dead).count), (None, Some(limits::KEPT_MAX)));
    assert_eq!((keep(State::Skipped).age_ms, keep(State::Cancelled).count), (None, None));
    let widths = (retention.skips_ms, retention.rollups_ms, retention.deliveries_ms, retention.versions_ms);
    assert_eq!(widths, (u64::MAX, 86_400_000, 12 * 3_600_000, 400 * 86_400_000));
    let shown = |key| loaded.rows().find(|(setting, ..)| setting.key == key).unwrap().1;
    assert_eq!(
        (shown("retention.dead").as_str(), shown("retention.max_executions.cancelled").as_str()),
        ("forever", "0")
    );

    let (_dir, sources) = self::sources("[retention]\nsucceeded = 'soon'\ndead = '0s'\nfailed = '7d'\n", &[], &[]);
    let problems = sources.load().unwrap_err().join("\n");
    for part in ["retention.succeeded", "`forever` for no end", "there is no setting `retention.failed`"] {
        assert!(problems.contains(part), "{part} is missing in\n{problems}");
    }
}

/// Files that nobody thought of: refused in whole lines, or read and then shown and read again to the same effect.
#[test]
fn any_file_is_read_or_refused() {
    let words: Vec<&str> =
        SETTINGS.iter().flat_map(|setting| setting.key.split('.')).chain(["[", "]", "=", "'", "\n"]).collect();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("campanile.toml");
    campanile_testkit::fuzz::run("config", &words, |input| {
        std::fs::write(&path, input).unwrap();
        let load = |file, flags| Sources { base: Config::embedded(), file, env: BTreeMap::new(), flags }.load();
        match load(Some(path.clone()), Vec::new()) {
            Ok(loaded) => {
                let shown = loaded.rows().filter(|(.., origin)| *origin != Origin::Default);
                // A list is shown with brackets, and typed without. A text may have some of its own.
                let typed = |key: &str, value: String| match key {
                    "actions.ports" => value.trim_start_matches('[').trim_end_matches(']').to_owned(),
                    _ => value,
                };
                let flags: Vec<_> = shown.map(|(setting, value, _)| (setting.key, typed(setting.key, value))).collect();
                let set: Vec<&str> = flags.iter().map(|(key, _)| *key).collect();
                let outcome = set.join(" ");
                // A password is not shown, and so not read again; nor is an empty list typed.
                let no_ports = set.contains(&"actions.ports") && loaded.config.actions.ports.is_empty();
                if !set.contains(&"store.url") && !no_ports {
                    assert_eq!(load(None, flags).map(|again| again.config), Ok(loaded.config));
                }
                outcome
            }
            Err(problems) => {
                assert!(!problems.is_empty() && problems.iter().all(|problem| !problem.trim().is_empty()));
                problems[0].chars().rev().filter(|c| c.is_ascii_lowercase()).take(10).collect()
            }
        }
    });
}
