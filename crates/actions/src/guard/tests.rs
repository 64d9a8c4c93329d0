//! Tables of addresses and URLs.

use super::*;

#[derive(Copy, Clone, PartialEq, Debug)]
enum Expected {
    Public,
    Private,
    Forbidden,
}
use Expected::{Forbidden, Private, Public};

#[test]
fn every_address_has_its_verdict() {
    let table = [
        // Public, and the neighbours of what is not.
        ("1.1.1.1", Public),
        ("8.8.8.8", Public),
        ("9.255.255.255", Public),
        ("11.0.0.0", Public),
        ("93.184.216.34", Public),
        ("100.63.255.255", Public),
        ("100.128.0.0", Public),
        ("126.255.255.255", Public),
        ("128.0.0.0", Public),
        ("169.253.255.255", Public),
        ("169.255.0.0", Public),
        ("172.15.255.255", Public),
        ("172.32.0.0", Public),
        ("191.255.255.255", Public),
        ("192.0.1.0", Public),
        ("192.88.98.255", Public),
        ("192.167.255.255", Public),
        ("192.169.0.0", Public),
        ("198.17.255.255", Public),
        ("198.20.0.0", Public),
        ("223.255.255.255", Public),
        ("2606:4700::1111", Public),
        ("2a00:1450:4001:830::200e", Public),
        ("2001:4860:4860::8888", Public),
        ("2001:200::1", Public),
        ("2003::1", Public),
        ("3ffe::1", Public),
        // Networks of our own.
        ("10.0.0.0", Private),
        ("10.255.255.255", Private),
        ("100.64.0.0", Private),
        ("100.127.255.255", Private),
        ("127.0.0.1", Private),
        ("127.255.255.254", Private),
        ("172.16.0.1", Private),
        ("172.31.255.255", Private),
        ("192.168.0.0", Private),
        ("192.168.255.255", Private),
        ("198.18.0.1", Private),
        ("198.19.255.255", Private),
        ("::1", Private),
        ("fc00::", Private),
        ("fd12:3456:789a::1", Private),
        ("fdff:ffff::", Private),
        // Never.
        ("0.0.0.0", Forbidden),
        ("0.1.2.3", Forbidden),
        ("0.255.255.255", Forbidden),
        ("100.100.100.200", Forbidden),
        ("168.63.129.16", Forbidden),
        ("169.254.0.0", Forbidden),
        ("169.254.169.254", Forbidden),
        ("169.254.170.2", Forbidden),
        ("169.254.255.255", Forbidden),
        ("192.0.0.1", Forbidden),
        ("192.0.0.192", Forbidden),
        ("192.0.2.1", Forbidden),
        ("192.88.99.1", Forbidden),
        ("198.51.100.7", Forbidden),
        ("203.0.113.9", Forbidden),
        ("224.0.0.1", Forbidden),
        ("239.255.255.255", Forbidden),
        ("240.0.0.1", Forbidden),
        ("255.255.255.255", Forbidden),
        ("::", Forbidden),
        ("::2", Forbidden),
        ("100::1", Forbidden),
        ("2001:2::1", Forbidden),
        ("2001:10::1", Forbidden),
        ("2001:20::1", Forbidden),
        ("2001:1ff::1", Forbidden),
        ("2001:db8::1", Forbidden),
        ("3fff::1", Forbidden),
        ("3fff:fff::1", Forbidden),
        ("5f00::1", Forbidden),
        ("4000::1", Forbidden),
        ("8000::1", Forbidden),
        ("fb00::1", Forbidden),
        ("fd00:ec2::254", Forbidden),
        ("fd00:ec2::23", Forbidden),
        ("fd20:ce::254", Forbidden),
        ("fe00::1", Forbidden),
        ("fe80::1", Forbidden),
        ("fe80::a9fe:a9fe", Forbidden),
        ("febf:ffff::1", Forbidden),
        ("fec0::1", Forbidden),
        ("feff::1", Forbidden),
        ("ff02::1", Forbidden),
        ("ff0e::1", Forbidden),
        // An IPv4 address within.
        ("::ffff:8.8.8.8", Public),
        ("::ffff:127.0.0.1", Private),
        ("::ffff:10.0.0.1", Private),
        ("::ffff:169.254.169.254", Forbidden),
        ("::ffff:0.0.0.0", Forbidden),
        ("::ffff:224.0.0.1", Forbidden),
        ("::ffff:0:8.8.8.8", Public),
        ("::ffff:0:127.0.0.1", Private),
        ("::ffff:0:169.254.169.254", Forbidden),
        ("64:ff9b::8.8.8.8", Public),
        ("64:ff9b::127.0.0.1", Private),
        ("64:ff9b::10.0.0.1", Private),
        ("64:ff9b::169.254.169.254", Forbidden),
        ("64:ff9b:1::8.8.8.8", Forbidden),
        ("64:ff9b:1::a9fe:a9fe", Forbidden),
        ("64:ff9b:0:1::8.8.8.8", Forbidden),
        ("::8.8.8.8", Forbidden),
        ("::127.0.0.1", Forbidden),
        ("::169.254.169.254", Forbidden),
        ("::10.0.0.1", Forbidden),
        ("2002:7f00:1::", Forbidden),
        ("2002:a9fe:a9fe::1", Forbidden),
        ("2002:808:808::1", Forbidden),
        ("2001::1", Forbidden),
        ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Forbidden),
    ];
    for (text, expected) in table {
        let verdict = match classify(text.parse().expect("an address")) {
            Verdict::Public => Public,
            Verdict::Private(_) => Private,
            Verdict::Forbidden(_) => Forbidden,
        };
        assert_eq!(verdict, expected, "{text}");
    }
}

/// What parsing and checking a URL says: its code, or `ok`.
fn check(text: &str, targets: &Targets) -> &'static str {
    match Url::parse(text) {
        Err(_) => "unparsable",
        Ok(url) => targets.check(&url).map_or_else(|refused| refused.code, |()| "ok"),
    }
}

#[test]
fn every_url_has_its_verdict() {
    // (URL, in production, on a laptop)
    let table = [
        ("https://example.com/hook?x=1#y", "ok", "ok"),
        ("https://example.com:8443/", "ok", "ok"),
        ("https://example.com./", "ok", "ok"),
        ("https://bücher.example/", "ok", "ok"),
        ("https://1.1.1.1/", "ok", "ok"),
        ("https://[2606:4700::1111]/", "ok", "ok"),
        ("HTTPS://EXAMPLE.COM/", "ok", "ok"),
        ("https://127.0.0.1.nip.io/", "ok", "ok"), // Left to the resolver.
        ("http://example.com/", "url_scheme", "ok"),
        ("ftp://example.com/", "url_scheme", "url_scheme"),
        ("file:///etc/passwd", "url_scheme", "url_scheme"),
        ("gopher://127.0.0.1:6379/_x", "url_scheme", "url_scheme"),
        ("data:text/plain,x", "url_scheme", "url_scheme"),
        ("javascript:alert(1)", "url_scheme", "url_scheme"),
        ("ws://example.com/", "url_scheme", "url_scheme"),
        ("unix:/run/x.sock", "url_scheme", "url_scheme"),
        ("", "unparsable", "unparsable"),
        ("example.com", "unparsable", "unparsable"),
        ("//example.com/", "unparsable", "unparsable"),
        ("https://", "unparsable", "unparsable"),
        ("https://exa mple.com/", "unparsable", "unparsable"),
        ("https://example.com:99999/", "unparsable", "unparsable"),
        ("https://example.com:0/", "url_port", "url_port"),
        ("https://user@example.com/", "url_credentials", "url_credentials"),
        ("https://user:pass@example.com/", "url_credentials", "url_credentials"),
        ("https://:pass@example.com/", "url_credentials", "url_credentials"),
        ("https://example.com@127.0.0.1/", "url_credentials", "url_credentials"),
        ("https://example.com%2f@127.0.0.1/", "url_credentials", "url_credentials"),
        ("https://localhost/", "target_private", "ok"),
        ("https://localhost./", "target_private", "ok"),
        ("https://LOCALHOST/", "target_private", "ok"),
        ("https://a.localhost/", "target_private", "ok"),
        ("https://ｌｏｃａｌｈｏｓｔ/", "target_private", "ok"),
        ("https://127.0.0.1/", "target_private", "ok"),
        ("https://127.0.0.1./", "target_private", "ok"),
        ("https://127.1/", "target_private", "ok"),
        ("https://2130706433/", "target_private", "ok"),
        ("https://017700000001/", "target_private", "ok"),
        ("https://0x7f000001/", "target_private", "ok"),
        ("https://0x7f.1/", "target_private", "ok"),
        ("https://0177.0.0.1/", "target_private", "ok"),
        ("https://0177.0.0x0.01/", "target_private", "ok"),
        ("https://１２７.０.０.１/", "target_private", "ok"),
        ("https://127。0。0。1/", "target_private", "ok"),
        ("https://%31%32%37.0.0.1/", "target_private", "ok"),
        ("https://10.0.0.1/", "target_private", "ok"),
        ("https://0xa.1/", "target_private", "ok"),
        ("https://172.16.0.1/", "target_private", "ok"),
        ("https://192.168.1.1/", "target_private", "ok"),
        ("https://192.168.257/", "target_private", "ok"),
        ("https://[::1]/", "target_private", "ok"),
        ("https://[0:0:0:0:0:0:0:1]/", "target_private", "ok"),
        ("https://[::ffff:127.0.0.1]/", "target_private", "ok"),
        ("https://[::ffff:7f00:1]/", "target_private", "ok"),
        ("https://[64:ff9b::127.0.0.1]/", "target_private", "ok"),
        ("https://[fd12::1]/", "target_private", "ok"),
        ("https://256.256.256.256/", "unparsable", "unparsable"),
        ("https://4294967296/", "unparsable", "unparsable"),
        ("https://127.0.0.1.1/", "unparsable", "unparsable"),
        ("https://0/", "target_forbidden", "target_forbidden"),
        ("https://0.0.0.0/", "target_forbidden", "target_forbidden"),
        ("https://[::]/", "target_forbidden", "target_forbidden"),
        ("https://[::127.0.0.1]/", "target_forbidden", "target_forbidden"),
        ("https://169.254.169.254/latest/meta-data/", "target_forbidden", "target_forbidden"),
        ("https://2852039166/", "target_forbidden", "target_forbidden"),
        ("https://0xa9fea9fe/", "target_forbidden", "target_forbidden"),
        ("https://0251.0376.0251.0376/", "target_forbidden", "target_forbidden"),
        ("https://169.254.43518/", "target_forbidden", "target_forbidden"),
        ("https://169.254.169.254./", "target_forbidden", "target_forbidden"),
        ("https://[::ffff:169.254.169.254]/", "target_forbidden", "target_forbidden"),
        ("https://[::ffff:a9fe:a9fe]/", "target_forbidden", "target_forbidden"),
        ("https://[fd00:ec2::254]/", "target_forbidden", "target_forbidden"),
        ("https://[fe80::1]/", "target_forbidden", "target_forbidden"),
        ("https://[fe80::1%25eth0]/", "unparsable", "unparsable"),
        ("https://[fe80::1%eth0]/", "unparsable", "unparsable"),
        ("https://[2002:7f00:1::]/", "target_forbidden", "target_forbidden"),
        ("https://metadata.google.internal/", "target_forbidden", "target_forbidden"),
        ("https://METADATA.google.internal./", "target_forbidden", "target_forbidden"),
        ("https://255.255.255.255/", "target_forbidden", "target_forbidden"),
        ("https://./", "url_host", "url_host"),
        ("https://localhost../", "url_host", "url_host"),
        // The parser takes a backslash for a slash; what counts is that we and the client read the same host.
        ("https://example.com\\@127.0.0.1/", "ok", "ok"),
        ("https:\\\\127.0.0.1\\", "target_private", "ok"),
        ("https:127.0.0.1", "target_private", "ok"),
        ("https:///127.0.0.1/", "target_private", "ok"),
    ];
    for (text, production, laptop) in table {
        assert_eq!(check(text, &Targets::default()), production, "{text} in production");
        assert_eq!(check(text, &Targets::dev()), laptop, "{text} on a laptop");
    }
}

#[test]
fn ports_can_be_limited() {
    let targets = Targets { ports: vec![443, 8443], ..Targets::default() };
    assert_eq!(check("https://example.com/", &targets), "ok");
    assert_eq!(check("https://example.com:8443/", &targets), "ok");
    assert_eq!(check("https://example.com:22/", &targets), "url_port");
}

#[test]
fn a_refusal_names_the_host_and_no_more() {
    let url = Url::parse("https://10.0.0.1/secret-path?token=secret").expect("a URL");
    let refused = Targets::default().check(&url).expect_err("refused");
    assert_eq!(refused.to_string(), "the target 10.0.0.1 is not allowed: a private network");
    let refused = Targets::default().check_address("evil.example", "10.0.0.1".parse().expect("an address"));
    assert_eq!(
        refused.expect_err("refused").to_string(),
        "the target evil.example at 10.0.0.1 is not allowed: a private network"
    );
}
