//! What is accepted, what is refused, and where it says so.

use super::*;
use crate::guard::URL_BYTES_MAX;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn canonical(config: &str) -> String {
    Target::parse(config, &Targets::default()).unwrap_or_else(|errors| panic!("{config}: {errors:?}")).canonical()
}

fn faults(config: &str) -> Vec<(String, &'static str)> {
    let errors = Target::parse(config, &Targets::default()).expect_err(config);
    errors.into_iter().map(|error| (error.pointer, error.code)).collect()
}

#[test]
fn the_canonical_form_has_a_fixed_order() {
    assert_eq!(canonical(r#"{"url":"https://x.example"}"#), r#"{"url":"https://x.example/","method":"POST"}"#);
    let config = format!(
        r#"{{ "secret":"{SECRET}", "body":{{"b": 1.0, "a":12345678901234567890123}},
              "headers":{{"X-B":"2","Authorization":"Bearer \"t\""}}, "method":"put", "type":"WEBHOOK",
              "url":"HTTPS://X.example:443/a b" }}"#
    );
    let expected = format!(
        r#"{{"url":"https://x.example/a%20b","method":"PUT","headers":{{"authorization":"Bearer \"t\"","x-b":"2"}},"body":{{"b": 1.0, "a":12345678901234567890123}},"secret":"{SECRET}"}}"#
    );
    assert_eq!(canonical(&config), expected);
    assert_eq!(canonical(&expected), expected);
    let two = format!(r#"{{"url":"https://x.example/","method":"POST","secret":["{SECRET}","{SECRET}"]}}"#);
    assert_eq!(canonical(&two), two);
    assert_eq!(
        canonical(r#"{"url":"https://x.example","headers":null,"body":null,"secret":null,"method":null}"#),
        r#"{"url":"https://x.example/","method":"POST"}"#
    );
}

#[test]
fn the_target_is_the_origin_of_the_url() {
    for (url, expected) in [
        ("HTTPS://X.Example:443/a?b#c", "https://x.example"),
        ("https://x.example:8443/", "https://x.example:8443"),
        ("http://X.EXAMPLE:80", "http://x.example"),
        ("http://x.example:443/", "http://x.example:443"),
        ("https://Bücher.example/", "https://xn--bcher-kva.example"),
        ("https://[2606:4700:0::1111]/", "https://[2606:4700::1111]"),
        // Refused by now, but counted as before.
        ("http://10.0.0.1/", "http://10.0.0.1"),
    ] {
        assert_eq!(target(&format!(r#"{{"url":"{url}"}}"#)).as_deref(), Some(expected));
    }
    for junk in ["", "{", "{}", "[]", r#"{"url":7}"#, r#"{"url":"nonsense"}"#, r#"{"url":"https://"}"#] {
        assert_eq!(target(junk), None, "{junk}");
    }
}

#[test]
fn a_long_target_is_cut_and_stays_itself() {
    let host = |bytes: usize, end: char| {
        let host = "a".repeat(bytes - "https://".len() - 1);
        target(&format!(r#"{{"url":"https://{host}{end}/"}}"#)).expect("a URL")
    };
    assert_eq!(host(limits::NAME_BYTES_MAX, 'x'), format!("https://{}x", "a".repeat(limits::NAME_BYTES_MAX - 9)));
    let (x, y) = (host(limits::NAME_BYTES_MAX + 1, 'x'), host(limits::NAME_BYTES_MAX + 1, 'y'));
    assert_eq!((x.len(), y.len()), (limits::NAME_BYTES_MAX, limits::NAME_BYTES_MAX));
    assert_ne!(x, y);
    // By sha256sum: it is stored, so it must be the same in the next release.
    assert_eq!(x, format!("https://{}~bc6a0f203ff8ecc9", "a".repeat(175)));
    assert_eq!(host(4_000, 'x').len(), limits::NAME_BYTES_MAX);
}

#[test]
fn faults_are_found_all_at_once_with_their_pointers() {
    let config = r#"{"url":"http://127.0.0.1","method":"TRACE","headers":{"Host":"x","a b":"y","c":"z\r\nd: e"},
                     "secret":"hunter2","body":{}}"#;
    let mut found = faults(config);
    found.sort();
    let expected = [
        ("/action/headers/Host", "header_reserved"),
        ("/action/headers/a b", "header_name_invalid"),
        ("/action/headers/c", "header_value_invalid"),
        ("/action/method", "method_invalid"),
        ("/action/secret", "secret_invalid"),
        ("/action/url", "url_scheme"),
    ];
    assert_eq!(found, expected.map(|(pointer, code)| (pointer.to_owned(), code)));
}

#[test]
fn single_faults() {
    for (config, pointer, code) in [
        ("{}", "/action/url", "url_missing"),
        (r#"{"url":7}"#, "/action/url", "url_invalid"),
        (r#"{"url":"nonsense"}"#, "/action/url", "url_invalid"),
        (r#"{"url":" https://x.example"}"#, "/action/url", "url_invalid"),
        (r#"{"url":"https://x.example/\r\nHost: y"}"#, "/action/url", "url_invalid"),
        (r#"{"url":"https://x.example/\t"}"#, "/action/url", "url_invalid"),
        (r#"{"url":"https://10.0.0.1/"}"#, "/action/url", "target_private"),
        (r#"{"url":"https://x.example","methd":"GET"}"#, "/action/methd", "field_unknown"),
        (r#"{"url":"https://x.example","method":1}"#, "/action/method", "method_invalid"),
        (r#"{"url":"https://x.example","method":"GET","body":1}"#, "/action/body", "body_unused"),
        (r#"{"url":"https://x.example","method":"DELETE","body":1}"#, "/action/body", "body_unused"),
        (r#"{"url":"https://x.example","headers":[]}"#, "/action/headers", "headers_invalid"),
        (r#"{"url":"https://x.example","headers":{"a":1}}"#, "/action/headers", "headers_invalid"),
        (r#"{"url":"https://x.example","headers":{"a":"1","A":"2"}}"#, "/action/headers/a", "header_twice"),
        (r#"{"url":"https://x.example","headers":{"":"1"}}"#, "/action/headers/", "header_name_invalid"),
        (
            r#"{"url":"https://x.example","headers":{"a/b~c\u0000":"1"}}"#,
            "/action/headers/a~1b~0c\0",
            "header_name_invalid",
        ),
        (r#"{"url":"https://x.example","headers":{"a":"ü"}}"#, "/action/headers/a", "header_value_invalid"),
        (r#"{"url":"https://x.example","headers":{"a":"b\nc"}}"#, "/action/headers/a", "header_value_invalid"),
        (r#"{"url":"https://x.example","secret":[]}"#, "/action/secret", "secret_invalid"),
        (r#"{"url":"https://x.example","secret":{"x":1}}"#, "/action/secret", "secret_invalid"),
        (r#"{"url":"https://x.example","secret":["x"]}"#, "/action/secret/0", "secret_invalid"),
    ] {
        assert_eq!(faults(config), [(pointer.to_owned(), code)], "{config}");
    }
}

#[test]
fn bounds_are_kept() {
    let url = format!(r#"{{"url":"https://x.example/{}"}}"#, "a".repeat(URL_BYTES_MAX));
    assert_eq!(faults(&url)[0].1, "url_invalid");
    let many: Vec<_> = (0..=HEADERS_MAX).map(|n| format!(r#""h{n}":"v""#)).collect();
    let many = format!(r#"{{"url":"https://x.example","headers":{{{}}}}}"#, many.join(","));
    assert_eq!(faults(&many)[0].1, "headers_invalid");
    let wide = format!(r#"{{"url":"https://x.example","headers":{{"a":"{}"}}}}"#, "v".repeat(limits::HEADER_BYTES_MAX));
    assert_eq!(faults(&wide)[0].1, "headers_invalid");
    let large = format!(r#"{{"url":"https://x.example","body":"{}"}}"#, "b".repeat(limits::PAYLOAD_BYTES_MAX));
    assert_eq!(faults(&large)[0].1, "body_too_large");
    let deep = format!(r#"{{"url":"https://x.example","body":{}{}}}"#, "[".repeat(1_000), "]".repeat(1_000));
    assert_eq!(faults(&deep)[0].1, "body_invalid");
}

#[test]
fn our_headers_and_those_of_the_protocol_cannot_be_set() {
    for name in [
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Upgrade",
        "TE",
        "Trailer",
        "Keep-Alive",
        "Proxy-Authorization",
        "proxy-connection",
        "Cookie",
        "webhook-id",
        "Webhook-Signature",
        "WEBHOOK-ANYTHING",
        "X-Execution-Id",
        "X-Fence-Token",
        "X-Job-Id",
        "X-Job-Name",
        "X-Attempt",
        "X-Max-Attempts",
        "X-Scheduled-At",
        "X-Covers-From",
        "X-Deadline-Ms",
        "Idempotency-Key",
        "Expect",
        "X-Callback-Url",
    ] {
        let config = format!(r#"{{"url":"https://x.example","headers":{{"{name}":"x"}}}}"#);
        assert_eq!(faults(&config), [(format!("/action/headers/{name}"), "header_reserved")]);
    }
    canonical(
        r#"{"url":"https://x.example","headers":{"Authorization":"Bearer x","Content-Type":"text/plain","X-Own":""}}"#,
    );
}

#[test]
fn no_error_repeats_a_secret() {
    for config in [
        r#"{"url":"https://user:hunter2@x.example/hunter2?hunter2","secret":"hunter2","headers":{"host":"hunter2"}}"#,
        r#"{"url":"https://10.0.0.1/hunter2?hunter2#hunter2","secret":["hunter2"],"headers":{"a":"hunter2\n"}}"#,
    ] {
        let errors = Target::parse(config, &Targets::default()).expect_err("refused");
        assert!(!format!("{errors:?}").contains("hunter2"), "{errors:?}");
    }
    let target =
        Target::parse(&format!(r#"{{"url":"https://x.example/p?q","secret":"{SECRET}"}}"#), &Targets::default());
    assert_eq!(target.expect("valid").origin(), "https://x.example");
}
