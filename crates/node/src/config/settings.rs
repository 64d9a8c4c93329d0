//! Every setting: its key, what it does, how it is read and shown. Whatever can be set is a row here.

use super::{ClusterMode, Config, LogFormat, StoreKind};
use campanile_model::coordinator::InvalidRoles;
use campanile_model::lifecycle::State;
use campanile_model::limits;
use campanile_model::schedule::{format_duration_ms, parse_duration_ms};
use campanile_model::store::Keep;

/// A shorter lease ends between two heartbeats of a healthy worker.
const LEASE_MS_MIN: u64 = 500;
/// A longer one leaves what a lost worker ran alone for too long.
const LEASE_MS_MAX: u64 = 3_600_000;
/// Longer ages are meant as `forever`.
const AGE_MS_MAX: u64 = 100 * 366 * 86_400_000;

/// One thing that can be set.
pub struct Setting {
    /// Its name in the file, with its section.
    pub key: &'static str,
    /// What it does.
    pub about: &'static str,
    pub(super) set: fn(&mut Config, &str) -> Result<(), String>,
    pub(super) get: fn(&Config) -> String,
}

/// All that can be set, in the order in which it is shown.
pub const SETTINGS: &[Setting] = &[
    Setting {
        key: "data_dir",
        about: "directory of the store and the secrets; created with mode 0700",
        set: |c, v| {
            if v.is_empty() {
                return Err("a directory is missing".into());
            }
            c.data_dir = v.into();
            Ok(())
        },
        get: |c| c.data_dir.display().to_string(),
    },
    Setting {
        key: "server.listen",
        about: "address and port of the API; port 0 takes a free one",
        set: |c, v| put(&mut c.server.listen, v, "an address and a port, such as 127.0.0.1:8080"),
        get: |c| c.server.listen.to_string(),
    },
    Setting {
        key: "server.insecure_no_auth",
        about: "listen beyond this host although there is no authentication yet",
        set: |c, v| put(&mut c.server.insecure_no_auth, v, "true or false"),
        get: |c| c.server.insecure_no_auth.to_string(),
    },
    Setting {
        key: "engine.slots",
        about: "attempts that run at the same time",
        set: |c, v| {
            put(&mut c.engine.slots, v, "a whole number")?;
            within(c.engine.slots as u64, 1, limits::SLOTS_MAX as u64)
        },
        get: |c| c.engine.slots.to_string(),
    },
    Setting {
        key: "engine.drain",
        about: "how long running attempts get to end when the node stops",
        set: |c, v| duration(&mut c.engine.drain_ms, v),
        get: |c| format_duration_ms(c.engine.drain_ms),
    },
    Setting {
        key: "engine.lease",
        about: "how long an external worker keeps an execution without a heartbeat",
        set: |c, v| {
            duration(&mut c.engine.lease_ms, v)?;
            within(c.engine.lease_ms, LEASE_MS_MIN, LEASE_MS_MAX).map_err(|_| "must be 500ms to 1h".to_owned())
        },
        get: |c| format_duration_ms(c.engine.lease_ms),
    },
    Setting {
        key: "engine.roles",
        about: "what this node does, such as api,scheduler,worker; needs a store that nodes share",
        set: |c, v| {
            c.engine.roles = v.parse().map_err(|error: InvalidRoles| error.to_string())?;
            Ok(())
        },
        get: |c| c.engine.roles.to_string(),
    },
    Setting {
        key: "store.kind",
        about: "sqlite: one file in the data directory; postgres: a server that any number of nodes share",
        set: |c, v| {
            c.store.kind = match v {
                "sqlite" => StoreKind::Sqlite,
                "postgres" => StoreKind::Postgres,
                _ => return Err(format!("`{v}` is not a store; there are sqlite and postgres")),
            };
            Ok(())
        },
        get: |c| match c.store.kind {
            StoreKind::Sqlite => "sqlite".into(),
            StoreKind::Postgres => "postgres".into(),
        },
    },
    Setting {
        key: "store.url",
        about: "where PostgreSQL is, such as postgres://user:password@host:5432/database; implies its kind",
        set: |c, v| {
            c.store.url = v.into();
            if !v.is_empty() {
                c.store.kind = StoreKind::Postgres;
            }
            Ok(())
        },
        get: |c| without_password(&c.store.url),
    },
    Setting {
        key: "store.schema",
        about: "the schema in PostgreSQL that holds the tables: several installations may share a database",
        set: |c, v| {
            c.store.schema = v.into();
            Ok(())
        },
        get: |c| c.store.schema.clone(),
    },
    Setting {
        key: "store.connections",
        about: "connections to PostgreSQL that writes and reads share, at most; a node has up to six more for other things",
        set: |c, v| {
            put(&mut c.store.connections, v, "a whole number")?;
            within(c.store.connections as u64, 2, 1_000)
        },
        get: |c| c.store.connections.to_string(),
    },
    Setting {
        key: "store.ca_file",
        about: "certificates, as PEM, that are trusted beside the public ones when PostgreSQL is asked",
        set: |c, v| {
            c.store.ca_file = Some(v).filter(|v| !v.is_empty()).map(Into::into);
            Ok(())
        },
        get: |c| c.store.ca_file.as_ref().map_or_else(String::new, |path| path.display().to_string()),
    },
    Setting {
        key: "store.allow_plaintext",
        about: "let sslmode=disable in the URL be, although PostgreSQL is on another host",
        set: |c, v| put(&mut c.store.allow_plaintext, v, "true or false"),
        get: |c| c.store.allow_plaintext.to_string(),
    },
    Setting {
        key: "cluster.mode",
        about: "shards: all scheduler nodes share the jobs; leader: one has all, and the others stand by",
        set: |c, v| {
            c.cluster.mode = match v {
                "shards" => ClusterMode::Shards,
                "leader" => ClusterMode::Leader,
                _ => return Err(format!("`{v}` is neither shards nor leader")),
            };
            Ok(())
        },
        get: |c| match c.cluster.mode {
            ClusterMode::Shards => "shards".into(),
            ClusterMode::Leader => "leader".into(),
        },
    },
    Setting {
        key: "store.readers",
        about: "threads that read the store",
        set: |c, v| {
            put(&mut c.store.readers, v, "a whole number")?;
            within(c.store.readers as u64, 1, 64)
        },
        get: |c| c.store.readers.to_string(),
    },
    Setting {
        key: "store.cache_bytes",
        about: "page cache of the store's writer",
        set: |c, v| put(&mut c.store.cache_bytes, v, "a number of bytes"),
        get: |c| c.store.cache_bytes.to_string(),
    },
    Setting {
        key: "actions.allow_private_targets",
        about: "let webhooks go to loopback and private networks",
        set: |c, v| put(&mut c.actions.allow_private_targets, v, "true or false"),
        get: |c| c.actions.allow_private_targets.to_string(),
    },
    Setting {
        key: "actions.allow_plain_http",
        about: "let webhooks go without TLS",
        set: |c, v| put(&mut c.actions.allow_plain_http, v, "true or false"),
        get: |c| c.actions.allow_plain_http.to_string(),
    },
    Setting {
        key: "actions.ports",
        about: "the only ports that webhooks may go to; empty for any",
        set: |c, v| {
            let ports = v.split([',', ' ']).filter(|port| !port.is_empty());
            let parse = |port: &str| port.parse().map_err(|_| format!("`{port}` is not a port"));
            c.actions.ports = ports.map(parse).collect::<Result<_, _>>()?;
            Ok(())
        },
        get: |c| format!("[{}]", c.actions.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ")),
    },
    Setting {
        key: "actions.connect_timeout",
        about: "how long a webhook waits for a connection",
        set: |c, v| duration(&mut c.actions.connect_timeout_ms, v),
        get: |c| format_duration_ms(c.actions.connect_timeout_ms),
    },
    Setting {
        key: "retention.succeeded",
        about: "how long after their instant executions that succeeded are kept, such as 7d; or forever",
        set: |c, v| age(&mut keep(c, State::Succeeded).age_ms, v),
        get: |c| shown_age(kept(c, State::Succeeded).age_ms),
    },
    Setting {
        key: "retention.dead",
        about: "the same for those that are dead",
        set: |c, v| age(&mut keep(c, State::Dead).age_ms, v),
        get: |c| shown_age(kept(c, State::Dead).age_ms),
    },
    Setting {
        key: "retention.cancelled",
        about: "the same for those that were cancelled",
        set: |c, v| age(&mut keep(c, State::Cancelled).age_ms, v),
        get: |c| shown_age(kept(c, State::Cancelled).age_ms),
    },
    Setting {
        key: "retention.skipped",
        about: "the same for those that were skipped",
        set: |c, v| age(&mut keep(c, State::Skipped).age_ms, v),
        get: |c| shown_age(kept(c, State::Skipped).age_ms),
    },
    Setting {
        key: "retention.max_executions.succeeded",
        about: "how many executions that succeeded are kept at most, newest first; 0 for any number",
        set: |c, v| count(&mut keep(c, State::Succeeded).count, v),
        get: |c| kept(c, State::Succeeded).count.unwrap_or(0).to_string(),
    },
    Setting {
        key: "retention.max_executions.dead",
        about: "the same for those that are dead",
        set: |c, v| count(&mut keep(c, State::Dead).count, v),
        get: |c| kept(c, State::Dead).count.unwrap_or(0).to_string(),
    },
    Setting {
        key: "retention.max_executions.cancelled",
        about: "the same for those that were cancelled",
        set: |c, v| count(&mut keep(c, State::Cancelled).count, v),
        get: |c| kept(c, State::Cancelled).count.unwrap_or(0).to_string(),
    },
    Setting {
        key: "retention.max_executions.skipped",
        about: "the same for those that were skipped",
        set: |c, v| count(&mut keep(c, State::Skipped).count, v),
        get: |c| kept(c, State::Skipped).count.unwrap_or(0).to_string(),
    },
    Setting {
        key: "retention.rollups",
        about: "how long the figures per minute are kept",
        set: |c, v| width(&mut c.retention.rollups_ms, v),
        get: |c| shown_age(Some(c.retention.rollups_ms).filter(|&ms| ms != u64::MAX)),
    },
    Setting {
        key: "retention.deliveries",
        about: "how long ended deliveries of notifications are kept",
        set: |c, v| width(&mut c.retention.deliveries_ms, v),
        get: |c| shown_age(Some(c.retention.deliveries_ms).filter(|&ms| ms != u64::MAX)),
    },
    Setting {
        key: "retention.skips",
        about: "how long skipped fires are remembered",
        set: |c, v| width(&mut c.retention.skips_ms, v),
        get: |c| shown_age(Some(c.retention.skips_ms).filter(|&ms| ms != u64::MAX)),
    },
    Setting {
        key: "retention.versions",
        about: "how long versions of jobs are kept after another one has followed them; longer, while an execution of them is kept",
        set: |c, v| width(&mut c.retention.versions_ms, v),
        get: |c| shown_age(Some(c.retention.versions_ms).filter(|&ms| ms != u64::MAX)),
    },
    Setting {
        key: "log.format",
        about: "text or json",
        set: |c, v| {
            c.log.format = <LogFormat as clap::ValueEnum>::from_str(v, true)
                .map_err(|_| format!("`{v}` is neither text nor json"))?;
            Ok(())
        },
        get: |c| match c.log.format {
            LogFormat::Text => "text".into(),
            LogFormat::Json => "json".into(),
        },
    },
    Setting {
        key: "log.level",
        about: "error, warn, info, debug or trace; or directives such as info,campanile_engine=debug",
        set: |c, v| {
            let parsed = tracing_subscriber::EnvFilter::builder().parse(v);
            parsed.map_err(|error| format!("`{v}` is not a log level: {error}"))?;
            c.log.level = v.into();
            Ok(())
        },
        get: |c| c.log.level.clone(),
    },
];

/// An address of a database as it may be shown.
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // The form of `key=value` pairs.
        let hide = |word: &str| if word.starts_with("password=") { "password=***".to_owned() } else { word.to_owned() };
        return url.split(' ').map(hide).collect::<Vec<_>>().join(" ");
    };
    let authority_end = rest.find('/').unwrap_or(rest.len());
    match rest[..authority_end].rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split_once(':').map_or_else(|| user.to_owned(), |(user, _)| format!("{user}:***"));
            format!("{scheme}://{user}@{host}{}", &rest[authority_end..])
        }
        None => url.to_owned(),
    }
}

fn put<T: std::str::FromStr>(slot: &mut T, value: &str, expected: &str) -> Result<(), String> {
    *slot = value.parse().map_err(|_| format!("`{value}` is not {expected}"))?;
    Ok(())
}

fn duration(slot: &mut u64, value: &str) -> Result<(), String> {
    *slot = parse_duration_ms(value).map_err(|error| format!("`{value}` is not a duration such as 10s: {error}"))?;
    Ok(())
}

/// How long executions in a state are kept, to be changed.
fn keep(config: &mut Config, state: State) -> &mut Keep {
    let states = &mut config.retention.states;
    let found = states.iter().position(|keep| keep.state == state);
    let at = found.unwrap_or_else(|| {
        states.push(Keep { state, age_ms: None, count: None });
        states.len() - 1
    });
    &mut states[at]
}

fn kept(config: &Config, state: State) -> Keep {
    let found = config.retention.states.iter().find(|keep| keep.state == state);
    found.copied().unwrap_or(Keep { state, age_ms: None, count: None })
}

/// An age, `None` for no end. Nothing is kept for no time at all, so 0 means that there is no end either.
fn age(slot: &mut Option<u64>, value: &str) -> Result<(), String> {
    if matches!(value, "0" | "forever") {
        *slot = None;
        return Ok(());
    }
    let ms = parse_duration_ms(value)
        .map_err(|error| format!("`{value}` is neither an age such as 7d nor `forever`: {error}"))?;
    within(ms, 1, AGE_MS_MAX).map_err(|_| "must be 1ms to 100 years; `forever` for no end".to_owned())?;
    *slot = Some(ms);
    Ok(())
}

/// The same where the component knows no `None`.
fn width(slot: &mut u64, value: &str) -> Result<(), String> {
    let mut read = None;
    age(&mut read, value)?;
    *slot = read.unwrap_or(u64::MAX);
    Ok(())
}

fn shown_age(age_ms: Option<u64>) -> String {
    age_ms.map_or_else(|| "forever".into(), format_duration_ms)
}

/// A number of executions, `None` for any.
fn count(slot: &mut Option<u64>, value: &str) -> Result<(), String> {
    let mut read = 0u64;
    put(&mut read, value, "a whole number")?;
    *slot = Some(read).filter(|&count| count > 0);
    Ok(())
}

fn within(value: u64, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("must be {min} to {max}, got {value}")) }
}
