//! Every setting: its key, what it does, how it is read and shown. Whatever can be set is a row here.

use super::{Config, LogFormat, StoreKind};
use campanile_model::limits;
use campanile_model::schedule::{format_duration_ms, parse_duration_ms};

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
        key: "store.kind",
        about: "sqlite: one file in the data directory",
        set: |c, v| match v {
            "sqlite" => {
                c.store.kind = StoreKind::Sqlite;
                Ok(())
            }
            _ => Err(format!("`{v}` is not a store; this release has sqlite")),
        },
        get: |c| match c.store.kind {
            StoreKind::Sqlite => "sqlite".into(),
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

fn put<T: std::str::FromStr>(slot: &mut T, value: &str, expected: &str) -> Result<(), String> {
    *slot = value.parse().map_err(|_| format!("`{value}` is not {expected}"))?;
    Ok(())
}

fn duration(slot: &mut u64, value: &str) -> Result<(), String> {
    *slot = parse_duration_ms(value).map_err(|error| format!("`{value}` is not a duration such as 10s: {error}"))?;
    Ok(())
}

fn within(value: u64, min: u64, max: u64) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("must be {min} to {max}, got {value}")) }
}
