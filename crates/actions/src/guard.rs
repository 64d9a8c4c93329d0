//! Where webhooks and events may go: the guard against requests that an attacker makes us send into our own network (SSRF).
//!
//! A URL comes from a user, a name's addresses from whoever owns the name. So three things are checked:
//!
//! 1. The *URL*, when a job is written and again before every request (`Targets::parse`): scheme, port, no credentials,
//!    and addresses written into it, which skip the resolver. The `url` crate has already normalised the other spellings
//!    of IPv4 addresses (`2130706433`, `0x7f.1`, `0177.0.0.1`, full-width digits).
//! 2. The *addresses of a name*, in the [`resolver`] that the HTTP client itself uses: it hands out vetted addresses only,
//!    and none at all if one of them is not allowed. There is no second lookup that could answer differently
//!    (rebinding).
//! 3. *Redirects* are never followed and proxies never used (`client`), so that nothing goes around the first two.
//!
//! Link-local addresses, where clouds keep the metadata service with its credentials, are refused even where private
//! networks are allowed. So are addresses that merely wrap such an address in IPv6.

pub mod resolver;

use campanile_model::fault::{Bug, planted};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use url::{Host, Url};

/// Longest URL, in bytes.
pub(crate) const URL_BYTES_MAX: usize = 4_096;

/// Where webhooks may go. The default is HTTPS to public addresses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Targets {
    /// Whether loopback and private networks are allowed.
    pub private: bool,
    /// Whether HTTP without TLS is allowed.
    pub plain_http: bool,
    /// The only ports allowed; empty for any.
    pub ports: Vec<u16>,
}

/// What an address is.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Public,
    /// In a network of our own (and what it is called); allowed by `Targets::private`.
    Private(&'static str),
    /// Nothing that a webhook has business with (and what it is called); never allowed.
    Forbidden(&'static str),
}

/// Why a target is refused.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// Stable machine-readable code, such as `target_private`.
    pub code: &'static str,
    /// For people; names the host and no more of the URL.
    pub message: String,
    /// What to do about it.
    pub hint: &'static str,
}

/// How a URL is written.
pub(crate) const HINT_URL: &str = "write it whole, such as https://example.com/hook";
const HINT_PRIVATE: &str = "an operator can allow private targets in the configuration of the webhook action";
const HINT_FORBIDDEN: &str = "use an address that is reachable from the internet";

impl Targets {
    /// For a laptop: plain HTTP, loopback and private networks are allowed too.
    pub fn dev() -> Self {
        Self { private: true, plain_http: true, ports: Vec::new() }
    }

    /// Reads a URL and checks everything about it that needs no lookup.
    pub fn parse(&self, text: &str) -> Result<Url, Refused> {
        let invalid = |message: String, hint| Refused { code: "url_invalid", message, hint };
        if text.len() > URL_BYTES_MAX {
            let message = format!("the URL has {} bytes; the limit is {URL_BYTES_MAX}", text.len());
            return Err(invalid(message, "use a shorter one"));
        }
        // The parser would drop these without a word, and turn two lines into one URL that nobody wrote.
        if text.contains(|c: char| c.is_control()) || text.trim() != text {
            return Err(invalid("the URL has control characters or blanks around it".into(), "remove them"));
        }
        let url = Url::parse(text).map_err(|error| invalid(format!("not a URL: {error}"), HINT_URL))?;
        self.check(&url)?;
        Ok(url)
    }

    /// Checks everything about a URL that needs no lookup.
    pub fn check(&self, url: &Url) -> Result<(), Refused> {
        let refused = |code, message: String, hint| Err(Refused { code, message, hint });
        match url.scheme() {
            "https" => {}
            "http" if self.plain_http => {}
            "http" => {
                return refused("url_scheme", "webhooks go over https".into(), "write https:// instead of http://");
            }
            other => {
                let message = format!("webhooks go over https, not `{}`", crate::config::shorten(other));
                return refused("url_scheme", message, "write https:// and a host");
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            let hint = "send them in a header, such as `authorization`";
            return refused("url_credentials", "a URL must not carry a user name or password".into(), hint);
        }
        let port = url.port_or_known_default().unwrap_or(0);
        if port == 0 || !(self.ports.is_empty() || self.ports.contains(&port)) {
            return refused(
                "url_port",
                format!("port {port} is not allowed for webhooks"),
                "use one of the allowed ports",
            );
        }
        match url.host() {
            None | Some(Host::Domain("")) => {
                refused("url_host", "a URL needs a host".into(), "write https:// and a host")
            }
            Some(Host::Ipv4(address)) => self.check_address(&address.to_string(), address.into()),
            Some(Host::Ipv6(address)) => self.check_address(&format!("[{address}]"), address.into()),
            Some(Host::Domain(name)) => self.check_name(name),
        }
    }

    /// Checks one address of `host`.
    pub fn check_address(&self, host: &str, address: IpAddr) -> Result<(), Refused> {
        let at =
            if host.trim_matches(['[', ']']) == address.to_string() { String::new() } else { format!(" at {address}") };
        let host = crate::config::shorten(host);
        match classify(address) {
            Verdict::Public => Ok(()),
            // n8n#28035: the guard is there, and off unless somebody turns it on.
            Verdict::Private(_) if self.private || planted(Bug("guard-off-by-default")) => Ok(()),
            Verdict::Private(what) => Err(Refused {
                code: "target_private",
                message: format!("the target {host}{at} is not allowed: {what}"),
                hint: HINT_PRIVATE,
            }),
            Verdict::Forbidden(what) => Err(Refused {
                code: "target_forbidden",
                message: format!("the target {host}{at} is not allowed: {what}"),
                hint: HINT_FORBIDDEN,
            }),
        }
    }

    /// Names whose addresses are known without asking; all others are left to the resolver.
    fn check_name(&self, name: &str) -> Result<(), Refused> {
        let plain = name.strip_suffix('.').unwrap_or(name);
        let shown = crate::config::shorten(name);
        if plain.is_empty() || plain.ends_with('.') {
            let message = format!("`{shown}` is not a host name");
            return Err(Refused { code: "url_host", message, hint: "write https:// and a host" });
        }
        if METADATA_NAMES.contains(&plain) {
            let message = format!("the target {shown} is not allowed: a cloud's metadata service");
            return Err(Refused { code: "target_forbidden", message, hint: HINT_FORBIDDEN });
        }
        if !self.private && (plain == "localhost" || plain.ends_with(".localhost")) {
            let message = format!("the target {shown} is not allowed: this host itself");
            return Err(Refused { code: "target_private", message, hint: HINT_PRIVATE });
        }
        Ok(())
    }
}

/// Names of metadata services, so that a job is refused when it is written and not only when it runs.
const METADATA_NAMES: [&str; 4] =
    ["metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"];

/// What an address is, by the IANA special-purpose registries and what clouds do besides.
pub fn classify(address: IpAddr) -> Verdict {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

fn classify_v4(address: Ipv4Addr) -> Verdict {
    use Verdict::{Forbidden, Private, Public};
    match address.octets() {
        // OmniRoute#3281: whoever may reach private networks may read the cloud's credentials.
        [169, 254, ..] if planted(Bug("metadata-is-private")) => Private("a link-local address"),
        [100, 100, 100, 200] | [168, 63, 129, 16] => Forbidden("a cloud's metadata service"),
        [0, ..] => Forbidden("an address of no host"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Private("a private network"),
        [100, 64..=127, ..] => Private("a carrier's private network"),
        [127, ..] => Private("this host itself"),
        [169, 254, ..] => Forbidden("a link-local address, where clouds keep their metadata service"),
        [192, 0, 0, _] => Forbidden("reserved for protocols"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Forbidden("reserved for documentation"),
        [192, 88, 99, _] => Forbidden("a tunnel's address"),
        [198, 18..=19, ..] => Private("a network for benchmarks"),
        [224..=239, ..] => Forbidden("a multicast address"),
        [240..=255, ..] => Forbidden("a reserved address"),
        _ => Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> Verdict {
    use Verdict::{Forbidden, Private, Public};
    let segments = address.segments();
    let embedded = || {
        let [.., a, b, c, d] = address.octets();
        classify_v4(Ipv4Addr::new(a, b, c, d))
    };
    match segments {
        // sim#4467: an IPv4 address in the clothes of IPv6.
        [0, 0, 0, 0, 0, 0xffff, ..] if planted(Bug("mapped-address")) => Public,
        // plunk#449: 6to4 and Teredo carry one as well.
        [0x2001, 0, ..] | [0x2002, ..] if planted(Bug("tunnel-address")) => Public,
        [0, 0, 0, 0, 0, 0, 0, 0] => Forbidden("an address of no host"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Private("this host itself"),
        // Where the packets go is decided by the IPv4 address within: mapped, translated, NAT64.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(),
        [0x64, 0xff9b, 1, ..] => Forbidden("a translator's own network"),
        // IPv4-compatible, Teredo and 6to4 wrap an IPv4 address as well, and nothing uses them any more.
        [0, 0, 0, 0, 0, 0, ..] | [0x2001, 0, ..] | [0x2002, ..] => Forbidden("a tunnel's address"),
        [0x2001, 0..=0x1ff, ..] => Forbidden("reserved for protocols"),
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => Forbidden("reserved for documentation"),
        // The metadata services of EC2 and of Google's cloud.
        [0xfd00, 0xec2, ..] | [0xfd20, 0xce, ..] => Forbidden("a cloud's metadata service"),
        [0xfc00..=0xfdff, ..] => Private("a private network"),
        [0xfe80..=0xfebf, ..] => Forbidden("a link-local address"),
        [0xfec0..=0xfeff, ..] => Forbidden("a site-local address"),
        [0xff00..=0xffff, ..] => Forbidden("a multicast address"),
        [0x2000..=0x3fff, ..] => Public,
        _ => Forbidden("a reserved address"),
    }
}

#[cfg(test)]
mod tests;
