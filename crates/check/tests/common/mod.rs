//! A valid history from a seed: what a healthy Campanile would leave behind, with faults, retries, cancels and
//! fail-overs.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod jobs;
pub mod runs;

use campanile_check::event::{Dump, Event, Fault, FaultPhase, Page, Record, Run, SCHEMA};
use campanile_check::event::{Epoch, Listed, Ms};
use campanile_check::ids;
use campanile_check::text::Text;
use std::collections::{BTreeMap, HashSet};

/// The first instant of a run, in milliseconds.
pub const START_MS: i64 = 1_794_800_000_000;
const MONO_START_NS: u64 = 5_000_000_000_000;
pub const NODES: usize = 3;

/// How large a history is.
#[derive(Copy, Clone, Debug)]
pub struct Size {
    pub recurring: usize,
    pub one_offs: usize,
    /// How long there is load.
    pub load_ms: i64,
}

pub const SMALL: Size = Size { recurring: 40, one_offs: 160, load_ms: 120_000 };
/// Too short for a fault.
pub const CALM: Size = Size { recurring: 40, one_offs: 160, load_ms: 44_000 };
pub const LARGE: Size = Size { recurring: 300, one_offs: 3_000, load_ms: 150_000 };

/// A small source of numbers.
pub struct Numbers(u64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        value ^ (value >> 31)
    }

    /// From 0 to below `end`.
    pub fn below(&mut self, end: i64) -> i64 {
        (self.next() % end as u64) as i64
    }

    pub fn percent(&mut self, share: i64) -> bool {
        self.below(100) < share
    }
}

/// A fault of the run: who is gone from when to when, in milliseconds since the start.
#[derive(Clone, Debug)]
pub struct Harm {
    /// None for all nodes.
    pub node: Option<usize>,
    pub from: i64,
    pub to: i64,
    /// When others fire for it.
    pub taken_over: i64,
}

/// A history in the making. Times are milliseconds since the start.
pub struct Maker {
    pub numbers: Numbers,
    pub lines: Vec<(f64, Text, Event)>,
    pub harms: Vec<Harm>,
    /// By shard: from when, epoch, owner.
    pub owners: Vec<Vec<(i64, u64, usize)>>,
    pub dump: Dump,
    pub fence: u64,
    pub ops: u64,
    pub size: Size,
}

pub fn generate(seed: u64, size: Size) -> Vec<Record> {
    let mut maker = Maker::new(seed, size);
    maker.line(0.0, "harness", Event::Run(Run { schema: SCHEMA, seed, note: "made up".into() }));
    maker.plan_harms();
    maker.write_epochs();
    for number in 0..size.recurring {
        jobs::recurring(&mut maker, number);
    }
    for number in 0..size.one_offs {
        jobs::one_off(&mut maker, number);
    }
    maker.lists();
    maker.finish();
    maker.records()
}

impl Maker {
    fn new(seed: u64, size: Size) -> Self {
        Self {
            numbers: Numbers::new(seed),
            lines: Vec::new(),
            harms: Vec::new(),
            owners: vec![Vec::new(); ids::SHARDS as usize],
            dump: Dump::default(),
            fence: 1_000,
            ops: 0,
            size,
        }
    }

    pub fn line(&mut self, at: f64, node: &str, event: Event) {
        self.lines.push((at, node.into(), event));
    }

    /// The end of all load.
    pub fn load_end(&self) -> i64 {
        self.size.load_ms
    }

    /// When the store is read.
    pub fn read_at(&self) -> i64 {
        self.size.load_ms + 40_000
    }

    /// One node at a time, some for longer than their lease; and once all of them, for so long that fires are missed.
    fn plan_harms(&mut self) {
        let mut at = 25_000;
        let mut number = 0;
        while at + 20_000 < self.size.load_ms {
            let node = (number != 1).then_some(number % NODES);
            let long = if node.is_none() { 16_000 } else { 5_000 + self.numbers.below(4_000) };
            let taken_over = if node.is_none() { at + long + 600 } else { at + 3_000 };
            self.harms.push(Harm { node, from: at, to: at + long, taken_over });
            let fault = |phase| {
                let (kind, target) = match node {
                    Some(node) => ("stop", format!("node-{node}")),
                    None => ("kill_all", String::new()),
                };
                Event::Fault(Fault { phase, fault: format!("f{number}"), kind: kind.to_owned(), target })
            };
            self.line(at as f64, "harness", fault(FaultPhase::Begin));
            self.line(at as f64 + 40.0, "harness", fault(FaultPhase::Verified));
            self.line((at + long) as f64, "harness", fault(FaultPhase::End));
            at += long + 6_000 + self.numbers.below(5_000);
            number += 1;
        }
    }

    fn write_epochs(&mut self) {
        for shard in 0..ids::SHARDS as usize {
            let mut owner = shard % NODES;
            self.owners[shard].push((-1_000, 1, owner));
            for harm in self.harms.clone() {
                if harm.node.is_none_or(|node| node == owner) {
                    owner = (owner + 1) % NODES;
                    let epoch = self.owners[shard].len() as u64 + 1;
                    self.owners[shard].push((harm.taken_over, epoch, owner));
                }
            }
            for (at, epoch, owner) in self.owners[shard].clone() {
                let commit = Some(commit(at as f64));
                let owner = format!("node-{owner}");
                let event = Event::Epoch(Epoch { shard: shard as u16, epoch, owner: owner.as_str().into(), commit });
                self.line(at as f64 + 0.5, &owner, event);
            }
        }
    }

    /// When a fire that is due can be committed, by whom, and under which epoch: a moment ahead, or when the shard has
    /// an owner again.
    pub fn owner_at(&self, shard: usize, at: i64) -> (i64, u64, usize) {
        let (_, epoch, owner) = *self.owners[shard].iter().rev().find(|(from, _, _)| *from <= at).expect("opened");
        match self.harms.iter().find(|harm| self.is_away(harm, owner, at)) {
            None => (at, epoch, owner),
            Some(harm) => {
                let at = harm.taken_over + 100;
                let (_, epoch, owner) =
                    *self.owners[shard].iter().rev().find(|(from, _, _)| *from <= at).expect("opened");
                (at, epoch, owner)
            }
        }
    }

    fn is_away(&self, harm: &Harm, node: usize, at: i64) -> bool {
        harm.node.is_none_or(|gone| gone == node) && harm.from <= at && at < harm.taken_over.max(harm.to)
    }

    /// A node that is there now and for a while.
    pub fn healthy(&mut self, at: i64) -> (usize, i64) {
        let first = self.numbers.below(NODES as i64) as usize;
        let is_there = |maker: &Self, node: usize, at: i64| {
            !maker
                .harms
                .iter()
                .any(|harm| harm.node.is_none_or(|gone| gone == node) && harm.from - 50 <= at && at < harm.to + 200)
        };
        let mut at = at;
        loop {
            for step in 0..NODES {
                let node = (first + step) % NODES;
                if is_there(self, node, at) {
                    return (node, at);
                }
            }
            at += 100;
        }
    }

    /// Walks through the list of all jobs now and then.
    fn lists(&mut self) {
        for walk in 0..4 {
            let at = 20_000.0 + 30_000.0 * walk as f64;
            let (mut ids, mut known): (Vec<Text>, HashSet<Text>) = (Vec::new(), HashSet::new());
            for (_, _, event) in self.lines.iter().filter(|(written, _, _)| *written < at) {
                if let Event::Op(op) = event
                    && op.kind == campanile_check::event::OpKind::Create
                    && op.phase == campanile_check::event::Phase::Ok
                {
                    ids.extend(op.job.filter(|id| known.insert(*id)));
                }
            }
            let half = ids.len() / 2;
            for (number, part) in [&ids[..half], &ids[half..]].into_iter().enumerate() {
                let began = at + 20.0 * number as f64;
                let (list, of, last) = (format!("walk-{walk}").into(), Listed::Jobs, number == 1);
                let page = Page {
                    list,
                    began_mono_ns: mono(began),
                    tenant: "default".into(),
                    of,
                    everything: true,
                    ids: part.to_vec(),
                    last,
                };
                self.line(began + 9.0, "client", Event::Page(page));
            }
        }
    }

    fn finish(&mut self) {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        self.dump.executions.iter().for_each(|row| *counts.entry(row.state.to_string()).or_default() += 1);
        self.dump.counts = counts;
        self.dump.gauges = BTreeMap::from([("queue_depth".into(), 0), ("outbox".into(), 0)]);
        self.dump.nodes = (0..NODES).map(|node| format!("node-{node}").into()).collect();
        let dump = std::mem::take(&mut self.dump);
        self.line(self.read_at() as f64, "harness", Event::Dump(Box::new(dump)));
    }

    /// The lines of each process in their order, numbered.
    fn records(mut self) -> Vec<Record> {
        self.lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut seqs: BTreeMap<Text, u64> = BTreeMap::new();
        let lines = std::mem::take(&mut self.lines);
        lines
            .into_iter()
            .map(|(at, node, event)| {
                let seq = seqs.entry(node).or_default();
                *seq += 1;
                Record { mono_ns: mono(at), wall_ns: wall(at), node, seq: *seq, event }
            })
            .collect()
    }
}

/// The monotonic clock at an instant of the run.
pub fn mono(at: f64) -> u64 {
    (MONO_START_NS as i64 + (at * 1e6) as i64) as u64
}

/// The wall clock at an instant of the run.
pub fn wall(at: f64) -> u64 {
    (START_MS * 1_000_000 + (at * 1e6) as i64) as u64
}

/// An instant of the run, as the store tells it.
pub fn ms(at: i64) -> Ms {
    Ms(START_MS + at)
}

/// The place of a commit among all.
pub fn commit(at: f64) -> u64 {
    (10_000_000_000.0 + at * 1e3) as u64
}
