//! Configuration: one TOML file, sections named after crates; file < environment < flag.
//!
//! Every setting is one row of [`SETTINGS`]: its key, what it does, how it is read and shown. A value is read by the same
//! function wherever it comes from, unknown keys are refused, and all problems are reported at once. The environment
//! variable of `engine.slots` is `CAMPANILE_ENGINE_SLOTS`. Unknown variables are left alone, because container platforms
//! make up names such as `CAMPANILE_SERVER_PORT`.

mod settings;

use crate::backends;
use campanile_client::wire::input::distance;
use campanile_engine::keep::upkeep;
use campanile_model::coordinator::Roles;
use campanile_model::limits;
use campanile_model::schedule::zone_database_version;
use campanile_model::settings::{MUST_AGREE, SharedSettings};
use campanile_model::store::Retention;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

pub use settings::{SETTINGS, Setting};

/// How the keys of settings begin that should be the same on all nodes.
const SHARED: [&str; 5] = [MUST_AGREE, "engine.lease", "actions.allow_", "actions.ports", "retention."];

/// Everything that can be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the store and the secrets are.
    pub data_dir: PathBuf,
    /// The HTTP API.
    pub server: Server,
    /// The moving parts.
    pub engine: Engine,
    /// The truth.
    pub store: Store,
    /// Several nodes.
    pub cluster: Cluster,
    /// What jobs can do.
    pub actions: Actions,
    /// How long what is kept.
    pub retention: Retention,
    /// What is logged.
    pub log: Log,
}

/// The HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where it listens.
    pub listen: SocketAddr,
    /// Whether it may listen beyond this host although anybody may then do anything.
    pub insecure_no_auth: bool,
}

/// The moving parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engine {
    /// Attempts that run at the same time.
    pub slots: usize,
    /// How long running attempts get to end when the node stops.
    pub drain_ms: u64,
    /// How long a worker keeps an execution without a heartbeat.
    pub lease_ms: u64,
    /// What this node does.
    pub roles: Roles,
}

/// Several nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// Who owns the shards.
    pub mode: ClusterMode,
}

/// Who owns the shards, where there are several nodes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ClusterMode {
    /// All nodes share them evenly.
    Shards,
    /// One node owns all, and the others stand by.
    Leader,
}

/// The truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// Which one.
    pub kind: StoreKind,
    /// Threads that read.
    pub readers: usize,
    /// Page cache of the writer.
    pub cache_bytes: u64,
    /// Where the server is.
    pub url: String,
    /// The schema that holds our tables.
    pub schema: String,
    /// Connections at the same time.
    pub connections: usize,
    /// Certificates that are trusted beside the public ones.
    pub ca_file: Option<PathBuf>,
    /// Whether to talk to a server on another host without TLS.
    pub allow_plaintext: bool,
}

/// The stores that there are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// One file in the data directory.
    Sqlite,
    /// A server that any number of nodes share.
    Postgres,
}

/// What jobs can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actions {
    /// Whether webhooks may go to loopback and private networks.
    pub allow_private_targets: bool,
    /// Whether webhooks may go without TLS.
    pub allow_plain_http: bool,
    /// The only ports that webhooks may go to; empty for any.
    pub ports: Vec<u16>,
    /// How long a webhook waits for a connection.
    pub connect_timeout_ms: u64,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How it looks.
    pub format: LogFormat,
    /// What gets in: a level, or directives such as `info,campanile_engine=debug`.
    pub level: String,
}

/// How the log looks.
#[derive(Copy, Clone, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs: one object per line.
    Json,
}

impl Config {
    /// Production on one host: nothing else installed, nothing reachable from outside.
    pub fn embedded() -> Self {
        Self {
            data_dir: ".campanile".into(),
            server: Server { listen: SocketAddr::from(([127, 0, 0, 1], 8080)), insecure_no_auth: false },
            engine: Engine {
                slots: limits::SLOTS_MAX,
                drain_ms: 10_000,
                lease_ms: limits::LEASE_MS,
                roles: Roles::ALL,
            },
            store: Store {
                kind: StoreKind::Sqlite,
                readers: 2,
                cache_bytes: 256 << 20,
                url: String::new(),
                schema: "campanile".into(),
                connections: 10,
                ca_file: None,
                allow_plaintext: false,
            },
            cluster: Cluster { mode: ClusterMode::Shards },
            actions: Actions {
                allow_private_targets: false,
                allow_plain_http: false,
                ports: Vec::new(),
                connect_timeout_ms: 10_000,
            },
            retention: upkeep::retention(),
            log: Log { format: LogFormat::Text, level: "info".into() },
        }
    }

    /// What should be the same on all nodes: what one node does for all must not depend on which one it is, nor what is allowed.
    pub fn shared(&self) -> SharedSettings {
        let is_shared = |key: &str| SHARED.iter().any(|shared| key.starts_with(shared));
        let settings = SETTINGS.iter().filter(|setting| is_shared(setting.key));
        let told = settings.map(|setting| (setting.key.to_owned(), (setting.get)(self)));
        told.chain([("zone database".to_owned(), zone_database_version().to_owned())]).collect()
    }

    /// A laptop: webhooks may go to it, and the log is quiet.
    pub fn dev() -> Self {
        let embedded = Self::embedded();
        Self {
            actions: Actions { allow_private_targets: true, allow_plain_http: true, ..embedded.actions },
            log: Log { level: "warn".into(), ..embedded.log },
            ..embedded
        }
    }
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody said anything.
    Default,
    /// The file.
    File(PathBuf),
    /// This variable.
    Env(String),
    /// The command line.
    Flag,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Env(name) => f.write_str(name),
            Origin::Flag => f.write_str("flag"),
        }
    }
}

/// The effective configuration, and where each value came from.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// By key; what is missing is the default.
    pub origins: BTreeMap<&'static str, Origin>,
}

/// Where values come from, weakest first.
pub struct Sources {
    /// What holds where nothing is said.
    pub base: Config,
    /// The file.
    pub file: Option<PathBuf>,
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// Key and value of the flags that were given.
    pub flags: Vec<(&'static str, String)>,
}

impl Sources {
    /// These defaults, this file, this process's environment, and these flags.
    pub fn new(base: Config, file: Option<PathBuf>, flags: Vec<(&'static str, String)>) -> Self {
        // A variable that is not text cannot be one of ours.
        let env = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        Self { base, file, env: env.collect(), flags }
    }

    /// The effective configuration, or everything that is wrong with it.
    pub fn load(self) -> Result<Loaded, Vec<String>> {
        let mut problems = Vec::new();
        let mut loaded = Loaded { config: self.base, origins: BTreeMap::new() };
        if let Some(path) = &self.file {
            for (key, value) in read_file(path, &mut problems) {
                loaded.apply(&key, &value, Origin::File(path.clone()), &mut problems);
            }
        }
        for setting in SETTINGS {
            let name = env_name(setting.key);
            if let Some(value) = self.env.get(&name) {
                loaded.apply(setting.key, value, Origin::Env(name), &mut problems);
            }
        }
        for (key, value) in &self.flags {
            loaded.apply(key, value, Origin::Flag, &mut problems);
        }
        let server = &loaded.config.server;
        if !server.listen.ip().is_loopback() && !server.insecure_no_auth {
            problems.push(format!(
                "server.listen: {} is reachable from other hosts, and there is no authentication yet: whoever reaches it \
                 can do anything; listen on 127.0.0.1, or say --insecure-no-auth",
                server.listen
            ));
        }
        let store = &loaded.config.store;
        match (store.kind, store.url.trim().is_empty(), loaded.origins.get("store.url")) {
            // Most likely a variable that is not set. Whoever wrote it meant another store than the embedded one.
            (_, true, Some(origin)) => problems.push(format!(
                "{origin}: store.url: is empty; such as postgres://user:password@host:5432/database, or leave it out \
                 for the embedded store"
            )),
            (StoreKind::Postgres, true, None) => {
                problems.push("store.url: missing; such as postgres://user:password@host:5432/database".into());
            }
            (StoreKind::Sqlite, false, _) => {
                problems.push("store.kind: sqlite has no store.url; leave one of them out".into());
            }
            // Before anything listens or is written.
            (StoreKind::Postgres, false, _) => {
                problems
                    .extend(backends::check(&loaded.config).err().map(|error| format!("store: {}", error.message())));
            }
            (StoreKind::Sqlite, true, None) => {}
        }
        if store.kind == StoreKind::Sqlite && loaded.config.engine.roles != Roles::ALL {
            problems.push("engine.roles: the embedded store serves one node, which has all roles".into());
        }
        if problems.is_empty() { Ok(loaded) } else { Err(problems) }
    }
}

impl Loaded {
    fn apply(&mut self, key: &str, value: &str, origin: Origin, problems: &mut Vec<String>) {
        let Some(setting) = SETTINGS.iter().find(|setting| setting.key == key) else {
            let known: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
            let hint = nearest(key, &known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            problems.push(format!("{origin}: there is no setting `{key}`{hint}"));
            return;
        };
        match (setting.set)(&mut self.config, value) {
            Ok(()) => {
                self.origins.insert(setting.key, origin);
            }
            Err(problem) => problems.push(format!("{origin}: {key}: {problem}")),
        }
    }

    /// Every setting with its value and where it came from.
    pub fn rows(&self) -> impl Iterator<Item = (&'static Setting, String, Origin)> + '_ {
        SETTINGS.iter().map(|setting| {
            let origin = self.origins.get(setting.key).cloned().unwrap_or(Origin::Default);
            (setting, (setting.get)(&self.config), origin)
        })
    }
}

/// The variable of a setting.
pub fn env_name(key: &str) -> String {
    format!("CAMPANILE_{}", key.replace('.', "_").to_uppercase())
}

/// The keys and values of a file, flat.
fn read_file(path: &Path, problems: &mut Vec<String>) -> Vec<(String, String)> {
    let shown = path.display();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            problems.push(format!("cannot read {shown}: {error}"));
            return Vec::new();
        }
    };
    let table: toml::Table = match text.parse() {
        Ok(table) => table,
        Err(error) => {
            problems.push(format!("{shown}: {}", where_and_what(&text, &error)));
            return Vec::new();
        }
    };
    let mut values = Vec::new();
    flatten("", table, &mut values, &mut |key, problem| problems.push(format!("{shown}: {key}: {problem}")));
    values
}

/// What is wrong with a file, in one line.
fn where_and_what(text: &str, error: &toml::de::Error) -> String {
    let what = error.message().lines().collect::<Vec<_>>().join(", ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return what };
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {}, column {column}: {what}", before.matches('\n').count() + 1)
}

fn flatten(prefix: &str, table: toml::Table, into: &mut Vec<(String, String)>, fault: &mut impl FnMut(&str, &str)) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match value {
            toml::Value::Table(inner) => flatten(&format!("{key}."), inner, into, fault),
            toml::Value::Array(items) => {
                let texts: Option<Vec<String>> = items.iter().map(scalar).collect();
                match texts {
                    Some(texts) => into.push((key, texts.join(","))),
                    None => fault(&key, "expected plain values"),
                }
            }
            other => match scalar(&other) {
                Some(text) => into.push((key, text)),
                None => fault(&key, "expected a plain value"),
            },
        }
    }
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(flag) => Some(flag.to_string()),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => None,
    }
}

/// The known name that differs least from `name`, if it differs little.
fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let by_distance = known.iter().map(|key| (distance(name, key).min(distance(&last(name), &last(key)) + 1), *key));
    by_distance.min().filter(|(distance, _)| *distance <= 3).map(|(_, key)| key)
}

#[cfg(test)]
mod tests;
