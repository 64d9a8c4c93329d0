//! URLs that nobody thought of: none gets past the guard that an independent look at the address would refuse.

use campanile_actions::guard::{Targets, Verdict, classify};
use campanile_testkit::fuzz;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const WORDS: [&str; 40] = [
    "https://",
    "http://",
    "//",
    "\\",
    "@",
    ":443",
    ":0",
    ":8443",
    ":65536",
    "127.0.0.1",
    "127.1",
    "0x7f.1",
    "2130706433",
    "0177.0.0.1",
    "[::1]",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1%25eth0]",
    "[fd00:ec2::254]",
    "169.254.169.254",
    "localhost",
    "localhost.",
    "metadata.google.internal",
    "example.com",
    "10.0.0.1",
    "100.64.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "255.255.255.255",
    "[2001::1]",
    "[fec0::1]",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
    "\u{3002}",
    "%2e",
    "?",
    "#",
    "/hook",
];

/// Whether an address is on the internet: written down from the registries once more, as ranges, sharing nothing with the guard.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(u32::from(address)),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: u32) -> bool {
    let special: [(&str, u32); 20] = [
        ("0.0.0.0", 8),
        ("10.0.0.0", 8),
        ("100.64.0.0", 10),
        ("127.0.0.0", 8),
        ("169.254.0.0", 16),
        ("172.16.0.0", 12),
        ("192.0.0.0", 24),
        ("192.0.2.0", 24),
        ("192.88.99.0", 24),
        ("192.168.0.0", 16),
        ("198.18.0.0", 15),
        ("198.51.100.0", 24),
        ("203.0.113.0", 24),
        ("224.0.0.0", 4),
        ("240.0.0.0", 4),
        ("255.255.255.255", 32),
        ("168.63.129.16", 32),
        ("100.100.100.200", 32),
        ("192.0.0.192", 32),
        ("169.254.169.254", 32),
    ];
    !special.iter().any(|(network, bits)| {
        let network = u32::from(network.parse::<Ipv4Addr>().unwrap());
        address >> (32 - bits) == network >> (32 - bits)
    })
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let number = u128::from(address);
    let within = |network: &str, bits: u32| {
        number >> (128 - bits) == u128::from(network.parse::<Ipv6Addr>().unwrap()) >> (128 - bits)
    };
    // Those that carry an IPv4 address which decides.
    for wrapper in ["::ffff:0:0", "::ffff:0:0:0", "64:ff9b::"] {
        if within(wrapper, 96) {
            return is_public_v4(number as u32);
        }
    }
    let special = [("2001::", 23), ("2002::", 16), ("2001:db8::", 32), ("3fff::", 20)];
    within("2000::", 3) && !special.iter().any(|(network, bits)| within(network, *bits))
}

#[test]
fn urls() {
    let (strict, dev) = (Targets::default(), Targets::dev());
    fuzz::run("url", &WORDS, |input| {
        let Ok(text) = std::str::from_utf8(input) else { return "not text".into() };
        let lenient = dev.parse(text);
        let url = match strict.parse(text) {
            Ok(url) => url,
            Err(refused) => {
                assert!(!refused.message.is_empty() && !refused.hint.is_empty());
                return format!("{} {}", refused.code, lenient.is_ok());
            }
        };
        assert!(lenient.is_ok(), "{text:?} is refused where more is allowed");
        assert_eq!((url.scheme(), url.username(), url.password()), ("https", "", None), "{text:?}");
        let address = match url.host() {
            Some(url::Host::Ipv4(address)) => Some(IpAddr::from(address)),
            Some(url::Host::Ipv6(address)) => Some(IpAddr::from(address)),
            Some(url::Host::Domain(name)) => {
                let bare = name.trim_end_matches('.').to_ascii_lowercase();
                assert!(bare != "localhost" && !bare.ends_with(".localhost"), "{text:?} is this host");
                // A name that the system's resolver would take for an address.
                name.trim_end_matches('.').parse().ok()
            }
            None => panic!("{text:?} has no host"),
        };
        if let Some(address) = address {
            assert!(is_public(address), "{text:?} leads to {address}");
        }
        // What was accepted is read the same way again.
        assert_eq!(strict.parse(url.as_str()).as_ref(), Ok(&url));
        format!("{:?} {} {:?}", address.map(|address| address.is_ipv4()), url.path().len().min(3), url.port())
    });
}

#[test]
fn addresses() {
    fuzz::run("address", &[], |input| {
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(input).for_each(|(to, from)| *to = *from);
        let v6 = IpAddr::from(bytes);
        let v4 = IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]);
        for address in [v4, v6] {
            let public = classify(address) == Verdict::Public;
            assert_eq!(public, is_public(address), "{address}: {:?}", classify(address));
        }
        format!("{:?} {:?}", classify(v4), classify(v6))
    });
}
