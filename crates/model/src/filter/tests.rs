use super::*;
use proptest::prelude::*;

/// 2026-11-16T02:00:00.123Z
const NOW: Timestamp = Timestamp::from_millis(1_794_794_400_123);
const HOUR_MS: i64 = 3_600_000;

fn parse(text: &str) -> Filter {
    Filter::parse(text, NOW).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

/// The only test of a filter of one term.
fn test_of(text: &str) -> Test {
    let mut filter = parse(text);
    assert_eq!(filter.terms.len(), 1, "{text}");
    filter.terms.remove(0).test
}

fn tests_of(filter: &Filter) -> Vec<(bool, Test)> {
    filter.terms.iter().map(|term| (term.negated, term.test.clone())).collect()
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// A dead execution with everything in it.
fn subject(tags: &[String]) -> Subject<'_> {
    Subject {
        state: State::Dead,
        job_name: "nightly-invoices",
        handler: "send_email",
        pool: "batch",
        tags,
        worker: Some("w-42"),
        error_kind: Some("TimeoutError"),
        fingerprint: Some(0x9f3a_0000_0000_00ff),
        reason: Some(Reason::AttemptsExhausted),
        kind: FireKind::Manual,
        late_ms: Some(5_000),
        duration_ms: Some(90_000),
        attempt: 3,
        fire_at: NOW.saturating_add_ms(-HOUR_MS),
    }
}

#[track_caller]
fn check_matches(text: &str, expected: bool) {
    let tags = ["team=billing".to_owned(), "eu, west".to_owned()];
    assert_eq!(parse(text).matches(&subject(&tags)), expected, "{text}");
}

/// `wrong` is the part of the text at fault.
#[track_caller]
fn check_error(text: &str, wrong: &str, message: &str, hint: &str) {
    let error = Filter::parse(text, NOW).expect_err(text);
    let (from, to) = error.position;
    assert_eq!(text.get(from..to), Some(wrong), "{text}: {error:?}");
    assert_eq!(error.message, message, "{text}");
    let found = error.hint.unwrap_or_default();
    assert!(found.contains(hint), "{text}: {found}");
}

#[test]
fn every_field_is_read() {
    let pattern = Pattern::glob;
    for (text, test) in [
        ("state:dead", Test::State(vec![State::Dead])),
        ("state:DEAD,Retrying,dead", Test::State(vec![State::Dead, State::Retrying])),
        ("job:nightly-*", Test::Job(pattern("nightly-*"))),
        ("handler:send_email", Test::Handler(pattern("send_email"))),
        ("pool:batch", Test::Pool(vec!["batch".into()])),
        ("pool:batch,short", Test::Pool(vec!["batch".into(), "short".into()])),
        ("tag:team=billing", Test::Tag("team=billing".into())),
        ("tag:a:b", Test::Tag("a:b".into())),
        ("worker:w-42", Test::Worker(pattern("w-42"))),
        ("error:TimeoutError", Test::Error(pattern("TimeoutError"))),
        ("fp:9F3a", Test::Fingerprint("9f3a".into())),
        ("reason:ATTEMPTS_EXHAUSTED", Test::Reason(vec![Reason::AttemptsExhausted])),
        ("reason:stale-version,expired", Test::Reason(vec![Reason::StaleVersion, Reason::Expired])),
        ("kind:manual", Test::Kind(vec![FireKind::Manual])),
        ("late:>5s", Test::Late(Compare::Gt, 5_000)),
        ("late:<=250ms", Test::Late(Compare::Le, 250)),
        ("duration:>1m", Test::Duration(Compare::Gt, 60_000)),
        ("duration:>=1h30m", Test::Duration(Compare::Ge, 5_400_000)),
        ("duration:\"< 1h 30m\"", Test::Duration(Compare::Lt, 5_400_000)),
        ("duration:=0s", Test::Duration(Compare::Eq, 0)),
        ("attempt:>=3", Test::Attempt(Compare::Ge, 3)),
        ("attempt:3", Test::Attempt(Compare::Eq, 3)),
        ("attempt:<4294967295", Test::Attempt(Compare::Lt, u32::MAX)),
        ("State:dead", Test::State(vec![State::Dead])),
        ("state:held", Test::State(vec![State::Held])),
        ("state:blocked", Test::State(vec![State::Blocked, State::Held])),
    ] {
        assert_eq!(test_of(text), test, "{text}");
    }
}

#[test]
fn every_word_of_ours_is_a_value() {
    for state in State::ALL {
        let Test::State(meant) = test_of(&format!("state:{}", state.as_str())) else { panic!("{state:?}") };
        assert_eq!(Some(meant.into_iter().collect()), State::meant_by(state.as_str()));
    }
    for reason in Reason::ALL {
        assert_eq!(test_of(&format!("reason:{}", reason.as_str())), Test::Reason(vec![reason]));
    }
    for kind in FireKind::ALL {
        assert_eq!(test_of(&format!("kind:{}", kind.as_str())), Test::Kind(vec![kind]));
    }
}

#[test]
fn windows() {
    let hours = |count: i64| Some(NOW.saturating_add_ms(count * HOUR_MS));
    let day = |text: &str| Some(at(&format!("{text}T00:00:00Z")));
    for (text, from, to) in [
        ("-24h..now", hours(-24), Some(NOW)),
        ("-24h..NOW", hours(-24), Some(NOW)),
        ("-2d..-1d", hours(-48), hours(-24)),
        ("-1h30m..+30m", Some(NOW.saturating_add_ms(-HOUR_MS * 3 / 2)), Some(NOW.saturating_add_ms(HOUR_MS / 2))),
        ("-24h..", hours(-24), None),
        ("..now", None, Some(NOW)),
        ("..+5m", None, Some(NOW.saturating_add_ms(300_000))),
        ("-24h", hours(-24), Some(NOW)),
        ("+2h", Some(NOW), hours(2)),
        ("2026-11-15", day("2026-11-15"), Some(NOW)),
        ("2026-11-15..2026-11-16", day("2026-11-15"), day("2026-11-16")),
        ("2026-11-15T02:00:00Z..now", Some(at("2026-11-15T02:00:00Z")), Some(NOW)),
        ("2026-11-15T02:00:00.5+01:00..", Some(at("2026-11-15T01:00:00.5Z")), None),
        ("..\"2026-11-15T02:00:00Z\"", None, Some(at("2026-11-15T02:00:00Z"))),
        ("-100w..", hours(-100 * 7 * 24), None),
        ("1969-07-20..", Some(Timestamp::from_millis(0)), None),
    ] {
        assert_eq!(test_of(&format!("scheduled:{text}")), Test::Scheduled(from, to), "{text}");
    }
}

#[test]
fn the_filters_of_the_documentation() {
    let text = "state:dead job:nightly-* handler:send_email pool:batch tag:team=billing worker:w-42 error:TimeoutError \
                fp:9f3a late:>=5s duration:>1m attempt:>=3 scheduled:-24h..now reason:attempts_exhausted kind:manual";
    assert_eq!(parse(text).terms.len(), 14);
    check_matches(text, true);
    for term in text.split_ascii_whitespace() {
        check_matches(term, true);
        check_matches(&format!("-{term}"), false);
    }
    assert_eq!(parse("").terms, []);
    assert_eq!(parse(" \t\n").terms, []);
    check_matches("", true);
}

#[test]
fn matching() {
    for text in [
        "state:retrying,dead",
        "-state:running",
        "job:*",
        "job:*invoices",
        "job:n*ly*s",
        "job:\"nightly-\"*",
        "tag:\"eu, west\"",
        "fp:9",
        "fp:9f3a0000000000ff",
        "late:=5s",
        "late:<=5s",
        "-late:>5s",
        "duration:<2m",
        "attempt:<4",
        "scheduled:-1h..now",
        "-scheduled:-30m..now",
        "state:dead -job:daily-* -pool:short",
    ] {
        check_matches(text, true);
    }
    for text in [
        "state:retrying",
        "job:nightly",
        "job:Nightly-*",
        "job:\"nightly-*\"",
        "job:nightly-*invoices-*",
        "tag:team",
        "tag:billing",
        "fp:9f3b",
        "fp:0",
        "late:>5s",
        "attempt:4",
        "scheduled:-24h..-1h",
        "scheduled:..-1h",
        "state:dead -job:nightly-*",
        "kind:schedule",
    ] {
        check_matches(text, false);
    }
}

#[test]
fn what_an_execution_lacks_passes_only_the_negation() {
    let mut bare = subject(&[]);
    (bare.worker, bare.error_kind, bare.fingerprint, bare.reason) = (None, None, None, None);
    (bare.late_ms, bare.duration_ms) = (None, None);
    for text in ["worker:*", "error:*", "fp:0", "reason:paused", "late:>=0s", "duration:<9d", "tag:x"] {
        assert!(!parse(text).matches(&bare), "{text}");
        assert!(parse(&format!("-{text}")).matches(&bare), "{text}");
    }
}

#[test]
fn quotes_make_text_literal() {
    for (text, exact) in [
        ("job:\"a b\"", "a b"),
        ("job:a\" \"b", "a b"),
        ("job:\"a,b\"", "a,b"),
        ("job:\"a*b\"", "a*b"),
        ("job:\"say \\\"hi\\\" \\\\o/\"", "say \"hi\" \\o/"),
        ("job:C:\\temp", "C:\\temp"),
        ("job:-x", "-x"),
        ("job:\"état\u{a0}2\"", "état\u{a0}2"),
    ] {
        let Test::Job(pattern) = test_of(text) else { panic!("{text}") };
        assert_eq!(pattern.as_exact(), Some(exact), "{text}");
    }
    assert_eq!(test_of("pool:\"a,b\",c"), Test::Pool(vec!["a,b".into(), "c".into()]));
    let Test::Job(pattern) = test_of("job:\"a *\"*") else { panic!() };
    assert_eq!(pattern.as_prefix(), Some("a *"));
}

#[test]
fn patterns() {
    for (pattern, fitting, other) in [
        ("a", &["a"][..], &["", "aa", "b"][..]),
        ("a*", &["a", "ab"], &["", "ba"]),
        ("*a", &["a", "ba", "aa"], &["", "ab"]),
        ("*", &["", "a"], &[]),
        ("**", &["", "a"], &[]),
        ("a*a", &["aa", "aba"], &["a", "ab"]),
        ("*ab*b", &["abb", "ababb", "xabxb"], &["ab", "ba"]),
        ("a**b*c", &["abc", "axbxc", "abcbc"], &["acb", "ab"]),
        ("é*è", &["éè", "é…è"], &["é"]),
    ] {
        let found = Pattern::glob(pattern);
        fitting.iter().for_each(|text| assert!(found.matches(text), "{pattern} {text}"));
        other.iter().for_each(|text| assert!(!found.matches(text), "{pattern} {text}"));
    }
    assert_eq!(Pattern::glob("a*").as_prefix(), Some("a"));
    assert_eq!(Pattern::glob("*").as_prefix(), Some(""));
    assert_eq!(Pattern::glob("*a").as_prefix(), None);
    assert_eq!(Pattern::glob("a").as_prefix(), None);
    assert_eq!(Pattern::glob("a").as_exact(), Some("a"));
    assert_eq!(Pattern::glob("a*").as_exact(), None);
    assert_eq!(Pattern::exact("a*").as_exact(), Some("a*"));
    assert_eq!(Pattern::glob("a**b").pieces(), ["a", "b"]);
}

#[test]
fn comparisons() {
    for (compare, less, equal, greater) in [
        (Compare::Lt, true, false, false),
        (Compare::Le, true, true, false),
        (Compare::Eq, false, true, false),
        (Compare::Ge, false, true, true),
        (Compare::Gt, false, false, true),
    ] {
        assert_eq!((compare.test(1, 2), compare.test(2, 2), compare.test(3, 2)), (less, equal, greater));
    }
}

#[test]
fn positions_are_those_of_the_term() {
    let text = "  state:dead\t-job:\"é é\"  fp:1";
    let parts: Vec<&str> = parse(text).terms.iter().map(|term| &text[term.position.0..term.position.1]).collect();
    assert_eq!(parts, ["state:dead", "-job:\"é é\"", "fp:1"]);
    assert_eq!(parse(text).terms.iter().map(|term| term.negated).collect::<Vec<_>>(), [false, true, false]);
}

#[test]
fn unknown_names_get_the_nearest() {
    check_error("state:dead jbo:x", "jbo", "unknown field `jbo`", "did you mean `job`?");
    check_error("-status:dead", "status", "unknown field `status`", "did you mean `state`?");
    check_error("sched:-1h", "sched", "unknown field `sched`", "did you mean `scheduled`?");
    check_error("attempts:3", "attempts", "unknown field `attempts`", "did you mean `attempt`?");
    check_error("Fingerprint:9f", "Fingerprint", "unknown field `Fingerprint`", "did you mean `fp`?");
    check_error("queue:x", "queue", "unknown field `queue`", "did you mean `pool`?");
    check_error("--job:x", "-job", "unknown field `-job`", "did you mean `job`?");
    check_error("quux:x", "quux", "unknown field `quux`", "the fields are state, job, ");
    check_error("state:dead,runing", "runing", "unknown state `runing`", "did you mean `RUNNING`?");
    check_error("state:fail", "fail", "unknown state `fail`", "one of HELD, WAITING, ");
    check_error("reason:atempts-exhausted", "atempts-exhausted", "unknown reason `atempts-exhausted`", "EXHAUSTED`?");
    check_error("reason:stale", "stale", "unknown reason `stale`", "did you mean `STALE_VERSION`?");
    check_error("kind:manuel", "manuel", "unknown kind `manuel`", "did you mean `MANUAL`?");
    check_error("state:*", "*", "unknown state `*`", "one of ");
}

#[test]
fn malformed_terms_are_refused_where_they_are_wrong() {
    check_error("nightly", "nightly", "`nightly` is not of the form field:value", "such as");
    check_error("a -x\"y z\"", "a", "`a` is not of the form field:value", "such as");
    check_error("- state:dead", "-", "`-` is not of the form field:value", "such as");
    check_error(":dead", ":dead", "`:dead` is not of the form field:value", "such as");
    check_error("\"job:x\"", "\"job:x\"", "`\\\"job:x\\\"` is not of the form field:value", "such as");
    check_error("state: dead", "", "a value is missing after `state:`", "no blank");
    check_error("state:dead, running", "", "a value is missing after `state,`", "no blank");
    check_error("job:\"\"", "\"\"", "a value is missing after `job:`", "");
    check_error("job:\"a b", "\"a b", "the quote is not closed", "");
    check_error("job:\"a\\", "\"a\\", "the quote is not closed", "");
    check_error("job:\"a\\né\"", "\\n", "unknown escape `\\\\n`", "backslash");
    check_error("job:a,b fp:1", "a,b", "`job` takes one value", "quote a comma");
    check_error("tag:team=*", "team=*", "`tag` takes no wildcard", "quote a star");
    check_error("pool:a,b*", "b*", "`pool` takes no wildcard", "quote a star");
}

#[test]
fn malformed_values_are_refused_where_they_are_wrong() {
    let fingerprint = |text: &str| format!("`{text}` is not the start of a fingerprint");
    check_error("fp:xyz", "xyz", &fingerprint("xyz"), "hexadecimal");
    check_error("fp:01234567890123456", "01234567890123456", &fingerprint("01234567890123456"), "1 to 16");
    check_error("late:5s", "5s", "more or less than `5s`?", "late:>5s or late:<5s");
    check_error("late:>5", "", "a unit is missing in the duration \"5\"", "ms, s, m");
    check_error("late:>=5x", "x", "unknown unit \"x\" in the duration \"5x\"", "ms, s, m");
    check_error("late:\">=5x\"", "\">=5x\"", "unknown unit \"x\" in the duration \"5x\"", "ms, s, m");
    check_error("duration:>", "", "an empty duration", "such as 90s");
    check_error("attempt:>=x", "x", "`x` is not a number of attempts", "attempt:>=3");
    check_error("attempt:+3", "+3", "`+3` is not a number of attempts", "attempt:>=3");
    check_error("attempt:>4294967296", "4294967296", "`4294967296` is not a number of attempts", "");
    check_error("scheduled:..", "..", "both ends of the window are open", "such as");
    let empty = "the window is empty: from 2026-11-16T02:00:00.123Z to 2026-11-16T01:00:00.123Z";
    check_error("scheduled:now..-1h", "now..-1h", empty, "the earlier end first");
    check_error("scheduled:24h..now", "24h", "`24h` is not an instant", "-24h for the past");
    check_error("scheduled:-1x..now", "1x", "unknown unit \"x\" in the duration \"1x\"", "");
    check_error("scheduled:now..soon", "soon", "`soon` is not an instant", "such as");
    check_error("scheduled:-101000d", "-101000d", "`-101000d` is too far from now", "100 years");
    for text in ["2026-13-01", "2026-11-16T02:00", "2026-11-16T02:00:60Z", "9999-12-31", "20261116T0"] {
        check_error(&format!("scheduled:{text}"), text, &format!("`{text}` is not an instant"), "such as");
    }
}

#[test]
fn limits() {
    let long = format!("job:{}é", "x".repeat(TEXT_BYTES_MAX - 5));
    check_error(&long, "é", "the filter has 2001 bytes; the limit is 2000", "");
    assert!(Filter::parse(&"fp:1 ".repeat(TERMS_MAX), NOW).is_ok());
    let many = format!("{}fp:2", "fp:1 ".repeat(TERMS_MAX));
    check_error(&many, "fp:2", "a filter has at most 32 terms", "");
    let grows = format!("job:{} scheduled:-1h", "x".repeat(TEXT_BYTES_MAX - 40));
    check_error(&grows, &grows, "the filter is longer than 2000 bytes with its times written out", "");
}

#[test]
fn the_canonical_text() {
    for (text, canonical) in [
        ("", ""),
        ("  STATE:Dead,RETRYING   -kind:Manual ", "state:dead,retrying -kind:manual"),
        ("reason:expired late:>90s attempt:3", "reason:EXPIRED late:>1m30s attempt:=3"),
        ("job:\"plain\" job:\"a b\"* job:\"*\" job:a\\b", "job:plain job:\"a b\"* job:\"*\" job:a\\b"),
        ("tag:\"say \\\"hi\\\"\\\\\"", "tag:\"say \\\"hi\\\"\\\\\""),
        ("pool:\"a,b\",c", "pool:\"a,b\",c"),
        ("scheduled:-1h", "scheduled:2026-11-16T01:00:00.123Z..2026-11-16T02:00:00.123Z"),
        ("scheduled:..2026-11-16 fp:9F", "scheduled:..2026-11-16T00:00:00Z fp:9f"),
    ] {
        assert_eq!(parse(text).to_string(), canonical);
        assert_eq!(parse(canonical).to_string(), canonical);
    }
}

#[test]
fn planners_get_bounds() {
    let filter = parse("scheduled:-24h.. scheduled:-2d..-1h scheduled:..now -scheduled:-9h..-8h");
    let hours = |count: i64| Some(NOW.saturating_add_ms(count * HOUR_MS));
    assert_eq!(filter.window(), (hours(-24), hours(-1)));
    assert_eq!(parse("scheduled:..now").window(), (None, Some(NOW)));
    assert_eq!(parse("-scheduled:..now").window(), (None, None));

    assert_eq!(parse("job:x").states(), None);
    assert_eq!(parse("state:retrying,dead state:dead,pending").states(), Some(vec![State::Dead]));
    assert_eq!(parse("state:retrying,dead").states(), Some(vec![State::Retrying, State::Dead]));
    assert_eq!(parse("state:retrying,dead -state:dead").states(), Some(vec![State::Retrying]));
    assert_eq!(parse("state:dead state:pending").states(), Some(vec![]));
    let left = parse("-state:dead").states().unwrap();
    assert!(left.len() == State::ALL.len() - 1 && !left.contains(&State::Dead));

    assert_eq!(parse("job:a*").jobs_exact(), None);
    assert_eq!(parse("-job:a").jobs_exact(), None);
    assert_eq!(parse("job:a* job:ab").jobs_exact(), Some(vec!["ab"]));
    assert_eq!(parse("job:a job:b").jobs_exact(), Some(vec![]));
    assert_eq!(parse("job:a -job:*").jobs_exact(), Some(vec![]));

    assert_eq!(parse("fp:9f3a").fingerprint_exact(), None);
    assert_eq!(parse("-fp:9f3a0000000000ff").fingerprint_exact(), None);
    assert_eq!(parse("fp:9 fp:9f3a0000000000ff").fingerprint_exact(), Some(0x9f3a_0000_0000_00ff));
}

#[test]
fn errors_become_field_errors() {
    let field = Filter::parse("jbo:x", NOW).unwrap_err().into_field("/filter");
    assert_eq!((field.pointer.as_str(), field.code, field.position), ("/filter", "filter_invalid", Some((0, 3))));
    assert_eq!(field.hint.as_deref(), Some("did you mean `job`?"));
}

#[test]
fn tests_made_by_hand_do_not_panic() {
    for digits in ["", "xyz", "00000000000000000", "é"] {
        assert!(!Test::Fingerprint(digits.into()).holds(&subject(&[])), "{digits}");
    }
}

/// What holds of every text: no panic, an error that points into the text, and a canonical form that reads back.
fn check_any(text: &str) -> Result<(), TestCaseError> {
    match Filter::parse(text, NOW) {
        Err(error) => {
            let (from, to) = error.position;
            prop_assert!(text.get(from..to).is_some(), "{text:?}: {error:?}");
        }
        Ok(filter) => {
            let again = Filter::parse(&filter.to_string(), NOW.saturating_add_ms(86_400_000));
            let again = again.map_err(|error| TestCaseError::fail(format!("{filter}: {error:?}")))?;
            prop_assert_eq!(tests_of(&again), tests_of(&filter));
            prop_assert_eq!(again.to_string(), filter.to_string());
            for term in &filter.terms {
                prop_assert!(text.get(term.position.0..term.position.1).is_some());
            }
            filter.matches(&subject(&[]));
        }
    }
    Ok(())
}

/// A term that is valid more often than not.
fn term() -> impl Strategy<Value = String> {
    let name = prop_oneof![
        "[a-z*_=\\\\-]{1,8}",
        "\"[a-z *,:é]{1,8}\"",
        "[a-z*]{0,3}\"( |\\\\\"|\\\\\\\\|\\*|,){1,3}\"[a-z*]{0,3}"
    ];
    let named = ("(job|handler|pool|tag|worker|error):", name).prop_map(|(field, name)| field + &name);
    let other = prop_oneof![
        "state:(dead|PENDING|Running)(,(dead|skipped)){0,2}",
        "kind:(manual|schedule)",
        "reason:(paused|EXPIRED|job-deleted)",
        "fp:[0-9a-fA-F]{1,17}",
        "(late|duration):(<|<=|=|>=|>)?[0-9]{1,9}(ms|s|m|h|d|w)",
        "attempt:(<|<=|=|>=|>)?[0-9]{1,10}",
        "scheduled:([+-][0-9]{1,3}(m|h|d)|now|2026-1[0-3]-[0-3][0-9]|2026-11-16T0[0-9]:00:00(Z|[+]01:00))?(\\.\\.)?(now|[+][1-9]d|2027-01-01)?",
    ];
    ("-?", prop_oneof![named, other]).prop_map(|(sign, term)| sign + &term)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text(text in any::<String>()) {
        check_any(&text)?;
    }

    #[test]
    fn text_of_the_alphabet(text in "[a-z0-9:\"\\\\,*<>=. +-]{0,60}") {
        check_any(&text)?;
    }

    #[test]
    fn one_term(term in term()) {
        check_any(&term)?;
    }

    #[test]
    fn several_terms(terms in prop::collection::vec(term(), 0..6), blank in "[ \t\n]{1,3}") {
        check_any(&terms.join(&blank))?;
    }

    #[test]
    fn patterns_agree_with_a_slow_oracle(pattern in "[ab*]{0,7}", text in "[ab]{0,8}") {
        prop_assert_eq!(Pattern::glob(&pattern).matches(&text), fits(pattern.as_bytes(), text.as_bytes()));
    }

    #[test]
    fn any_name_can_be_quoted(name in "\\PC{1,20}") {
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        prop_assert_eq!(test_of(&format!("job:\"{quoted}\"")), Test::Job(Pattern::exact(name)));
    }
}

/// Whether text fits a pattern, by trying everything.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skipped| fits(rest, &text[skipped..])),
        Some((byte, rest)) => text.first() == Some(byte) && fits(rest, &text[1..]),
    }
}
