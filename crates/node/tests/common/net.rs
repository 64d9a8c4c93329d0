//! Networks of their own for nodes and their database, which all go through one router: there packets are dropped
//! without a word, one way or both.
//!
//! Needs root, `ip` and `nft`. Everything is taken down when this is dropped.

use super::Place;
use std::process::{Command, Stdio};

/// A network with one address for each place, and one for this process.
pub struct Net {
    /// Before all names.
    tag: String,
    /// The first two numbers of all addresses.
    prefix: String,
    count: usize,
}

/// Packets that are dropped.
#[derive(Clone, Debug)]
pub struct Cut {
    /// Its own chain in the router.
    chain: String,
}

impl Net {
    /// Sets it up for so many places.
    pub fn new(count: usize) -> Self {
        let id = std::process::id();
        let net = Self { tag: format!("cam{}", id % 100_000), prefix: format!("10.{}", 100 + id % 100), count };
        let router = net.router();
        net.ip(&["netns", "add", &router]);
        net.ip(&["-n", &router, "link", "set", "lo", "up"]);
        // Ours is the first link; this process stays in its own network.
        let (ours, theirs) = (format!("{}h", net.tag), format!("{}rh", net.tag));
        net.ip(&["link", "add", &ours, "type", "veth", "peer", "name", &theirs, "netns", &router]);
        net.ip(&["addr", "add", &format!("{}/24", net.host()), "dev", &ours]);
        net.ip(&["link", "set", &ours, "up"]);
        net.ip(&["-n", &router, "addr", "add", &format!("{}.0.254/24", net.prefix), "dev", &theirs]);
        net.ip(&["-n", &router, "link", "set", &theirs, "up"]);
        let (all, via) = (format!("{}.0.0/16", net.prefix), format!("{}.0.254", net.prefix));
        net.ip(&["route", "add", &all, "via", &via]);
        (0..count).for_each(|n| net.add(n));
        must(&["ip", "netns", "exec", &router, "sysctl", "-qw", "net.ipv4.ip_forward=1"]);
        net.nft("add table inet chaos");
        net
    }

    fn add(&self, n: usize) {
        let (name, router) = (self.name(n), self.router());
        let (inside, outside) = (format!("{}n{n}", self.tag), format!("{}r{n}", self.tag));
        self.ip(&["netns", "add", &name]);
        self.ip(&["link", "add", &inside, "netns", &name, "type", "veth", "peer", "name", &outside, "netns", &router]);
        self.ip(&["-n", &name, "addr", "add", &format!("{}/24", self.address(n)), "dev", &inside]);
        self.ip(&["-n", &name, "link", "set", &inside, "up"]);
        self.ip(&["-n", &name, "link", "set", "lo", "up"]);
        let gateway = format!("{}.{}.254", self.prefix, n + 1);
        self.ip(&["-n", &router, "addr", "add", &format!("{gateway}/24"), "dev", &outside]);
        self.ip(&["-n", &router, "link", "set", &outside, "up"]);
        self.ip(&["-n", &name, "route", "add", "default", "via", &gateway]);
    }

    /// The address of this process.
    pub fn host(&self) -> String {
        format!("{}.0.1", self.prefix)
    }

    /// The address of a place.
    pub fn address(&self, n: usize) -> String {
        format!("{}.{}.1", self.prefix, n + 1)
    }

    /// A place, for servers.
    pub fn place(&self, n: usize) -> Place {
        Place { address: self.address(n), words: ["ip", "netns", "exec", &self.name(n)].map(str::to_owned).to_vec() }
    }

    /// From now on, what goes from one address to another is dropped: connections that are open, too.
    pub fn cut(&self, name: &str, ways: &[(&str, &str)]) -> Cut {
        let chain = format!("c{name}");
        self.nft(&format!("add chain inet chaos {chain} {{ type filter hook forward priority 0 ; }}"));
        for (from, to) in ways {
            self.nft(&format!("add rule inet chaos {chain} ip saddr {from} ip daddr {to} counter drop"));
        }
        Cut { chain }
    }

    /// How many packets were dropped.
    pub fn dropped(&self, cut: &Cut) -> u64 {
        let listed = self.nft(&format!("list chain inet chaos {}", cut.chain));
        let counts =
            listed.split("packets ").skip(1).filter_map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
        counts.sum()
    }

    /// Lets everything through again.
    pub fn heal(&self, cut: &Cut) {
        self.nft(&format!("delete chain inet chaos {}", cut.chain));
    }

    fn name(&self, n: usize) -> String {
        format!("{}-{n}", self.tag)
    }

    fn router(&self) -> String {
        format!("{}-router", self.tag)
    }

    fn ip(&self, words: &[&str]) {
        must(&[&["ip"], words].concat());
    }

    fn nft(&self, order: &str) -> String {
        must(&["ip", "netns", "exec", &self.router(), "nft", order])
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let names = (0..self.count).map(|n| self.name(n)).chain([self.router()]);
        names.for_each(|name| drop(Command::new("ip").args(["netns", "del", &name]).stderr(Stdio::null()).status()));
        // The link to us goes with the router.
    }
}

/// Runs a command that must succeed, and answers what it wrote.
#[track_caller]
pub fn must(words: &[&str]) -> String {
    let ended = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
    let shown = words.join(" ");
    let ended = ended.unwrap_or_else(|error| {
        panic!("cannot run `{shown}`: {error}. This needs root, ip and nft: `cargo xtask chaos` installs them")
    });
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "`{shown}` failed (this needs root on Linux): {said}");
    String::from_utf8_lossy(&ended.stdout).into_owned()
}
