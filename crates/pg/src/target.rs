//! Where the database is, and on which terms we talk to it: TLS beyond this host, limits on every statement, and a name by
//! which others can end our connections when we are gone.

use campanile_model::{Error, Kind, Result};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How to reach the database.
#[derive(Clone, Debug)]
pub struct Options {
    /// `postgres://user:password@host:port/database`, or the key=value form.
    pub url: String,
    /// The schema that holds our tables: several installations may share a database.
    pub schema: String,
    /// What connections are named after: `node:` and something that no other start has.
    pub node: String,
    /// Certificates that are trusted beside the public ones, as PEM.
    pub ca_file: Option<PathBuf>,
    /// Whether to talk without TLS beyond this host.
    pub plaintext: bool,
    /// Connections that are shared, at most.
    pub connections: usize,
    /// No statement takes longer.
    pub statement_ms: u64,
    /// Nothing waits longer for a lock.
    pub lock_ms: u64,
    /// A transaction that does nothing for so long is rolled back: its owner was stopped, and must not hold others up.
    pub idle_in_transaction_ms: u64,
    /// How long to wait for a connection.
    pub connect_ms: u64,
}

impl Options {
    /// The defaults for a database.
    pub fn new(url: impl Into<String>, node: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            schema: "campanile".into(),
            node: node.into(),
            ca_file: None,
            plaintext: false,
            connections: 10,
            statement_ms: 60_000,
            lock_ms: 10_000,
            idle_in_transaction_ms: 5_000,
            connect_ms: 5_000,
        }
    }
}

/// Longest name of a schema: names of channels are made of it, and PostgreSQL cuts names at 63 bytes.
const SCHEMA_BYTES_MAX: usize = 40;

/// The half of a connection that does the talking.
pub type Driver = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// A database, and how to connect to it.
#[derive(Clone)]
pub struct Target {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
    schema: Arc<str>,
    location: Arc<str>,
}

impl Target {
    /// Reads and checks the options. Connects to nothing.
    pub fn new(options: &Options) -> Result<Self> {
        let unusable = |message: String| Error::new(Kind::Invalid, message).with_code("store_url");
        let mut config =
            parse(&options.url).map_err(|why| unusable(format!("not the address of a PostgreSQL database: {why}")))?;
        check_schema(&options.schema).map_err(&unusable)?;
        let beyond = config.get_hosts().iter().any(|host| !is_here(host))
            || config.get_hostaddrs().iter().any(|ip| !ip.is_loopback());
        match (beyond, config.get_ssl_mode()) {
            (true, SslMode::Disable) if !options.plaintext => {
                return Err(unusable(
                    "sslmode=disable beyond this host: everybody on the way could read and change what is sent; \
                     if that shall be, say store.allow_plaintext"
                        .into(),
                ));
            }
            (true, SslMode::Disable) => {}
            (true, _) => {
                config.ssl_mode(SslMode::Require);
            }
            (false, SslMode::Prefer) => {
                config.ssl_mode(SslMode::Disable);
            }
            (false, _) => {}
        }
        let settings = format!(
            "{} -c search_path={} -c statement_timeout={} -c lock_timeout={} -c idle_in_transaction_session_timeout={} \
             -c timezone=UTC -c jit=off",
            config.get_options().unwrap_or_default(),
            options.schema,
            options.statement_ms,
            options.lock_ms,
            options.idle_in_transaction_ms,
        );
        config
            .options(settings.trim())
            .application_name(application_name(&options.node))
            .connect_timeout(Duration::from_millis(options.connect_ms))
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(2))
            .keepalives_retries(3)
            .tcp_user_timeout(Duration::from_secs(15));
        let location = location(&config, &options.schema).into();
        let tls = MakeRustlsConnect::new(tls(options).map_err(unusable)?);
        Ok(Self { config, tls, schema: options.schema.as_str().into(), location })
    }

    pub fn schema(&self) -> &Arc<str> {
        &self.schema
    }

    /// Where it is, without the password.
    pub fn location(&self) -> &Arc<str> {
        &self.location
    }

    /// A connection that is not shared. The caller drives the second half, which also brings notices.
    pub async fn connect(&self) -> Result<(Client, Driver), tokio_postgres::Error> {
        self.config.connect(self.tls.clone()).await
    }

    /// The name of a channel of this installation.
    pub fn channel(&self, of: &str) -> String {
        format!("{}_{of}", self.schema)
    }

    /// The first half of the keys of this installation's advisory locks of a kind. Locks belong to the whole database.
    pub fn lock_class(&self, of: &str) -> i32 {
        // FNV-1a: small, and the same in every release.
        let bytes = self.schema.bytes().chain([0]).chain(of.bytes());
        let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        hash as i32
    }
}

/// Reads an address; or why not, without anything that may be secret.
fn parse(url: &str) -> Result<Config, String> {
    if let Some((scheme, _)) = url.split_once("://")
        && !matches!(scheme, "postgres" | "postgresql")
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
    {
        return Err(format!("`{scheme}` is not postgres, as in postgres://user:password@host:5432/database"));
    }
    let read: Result<Config, tokio_postgres::Error> = url.parse().or_else(|error| match required(url) {
        Some(url) => url.parse(),
        None => Err(error),
    });
    let config = read.map_err(|error| {
        // What is wrong is in the cause; the error itself only says that something is.
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        match why.as_str() {
            why if why.contains("`sslmode`") => format!("{why}: disable, prefer, require, verify-ca or verify-full"),
            why if why.contains("`sslrootcert`") => format!("{why}: name the file in store.ca_file"),
            why => why.to_owned(),
        }
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        return Err("it names no host".into());
    }
    Ok(config)
}

/// The same address with `sslmode=require` in place of the modes that check the certificate, which we do anyway; none
/// where there is no such mode.
fn required(url: &str) -> Option<String> {
    let mut found = false;
    let mut require = |word: &str| match word {
        "sslmode=verify-full" | "sslmode=verify-ca" => {
            found = true;
            "sslmode=require".to_owned()
        }
        word => word.to_owned(),
    };
    let written = match (url.contains("://"), url.split_once('?')) {
        (true, Some((start, query))) => {
            format!("{start}?{}", query.split('&').map(&mut require).collect::<Vec<_>>().join("&"))
        }
        (true, None) => return None,
        (false, _) => url.split(' ').map(&mut require).collect::<Vec<_>>().join(" "),
    };
    found.then_some(written)
}

/// What all connections of a node are called in `pg_stat_activity`.
pub fn application_name(node: &str) -> String {
    let mut name = format!("campanile {node}");
    // PostgreSQL would cut it too, with a notice per connection. The end is what tells nodes apart.
    if name.len() > 63 {
        let from = name.len() - 53;
        let from = (from..).find(|&at| name.is_char_boundary(at)).unwrap_or(name.len());
        name = format!("campanile {}", &name[from..]);
    }
    name
}

fn check_schema(name: &str) -> Result<(), String> {
    let plain = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let starts = name.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
    if plain && starts && name.len() <= SCHEMA_BYTES_MAX && !name.starts_with("pg_") {
        return Ok(());
    }
    Err(format!("schema `{name}`: lower case letters, digits and _, at most {SCHEMA_BYTES_MAX}, not starting with pg_"))
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
        Host::Unix(_) => true,
    }
}

fn location(config: &Config, schema: &str) -> String {
    let host = config.get_hosts().first().map_or_else(String::new, |host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("postgres://{host}:{port}/{database} schema {schema}")
}

fn tls(options: &Options) -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    if let Some(path) = &options.ca_file {
        let shown = path.display();
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let before = roots.len();
        for certificate in certificates {
            let certificate = certificate.map_err(|error| format!("cannot read {shown}: {error}"))?;
            roots.add(certificate).map_err(|error| format!("{shown}: {error}"))?;
        }
        if roots.len() == before {
            return Err(format!("{shown} has no certificate in it"));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(config.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str, plaintext: bool) -> Result<Target> {
        Target::new(&Options { plaintext, ..Options::new(url, "node:a-1-00000000") })
    }

    #[test]
    fn beyond_this_host_there_is_tls() {
        let mode = |url: &str| target(url, false).map(|target| target.config.get_ssl_mode());
        assert_eq!(mode("postgres://a@localhost/b").unwrap(), SslMode::Disable);
        assert_eq!(mode("postgres://a@127.0.0.1/b?sslmode=require").unwrap(), SslMode::Require);
        assert_eq!(mode("postgres://a@db.example/b").unwrap(), SslMode::Require);
        assert_eq!(mode("host=/run/postgresql user=a").unwrap(), SslMode::Disable);
        assert_eq!(mode("postgres://a@db.example/b?sslmode=disable").unwrap_err().code(), "store_url");
        assert!(target("postgres://a@db.example/b?sslmode=disable", true).is_ok());
        assert!(mode("postgres://a@localhost,db.example/b?sslmode=disable").is_err(), "one of several is beyond");
    }

    #[test]
    fn modes_that_check_the_certificate_are_what_we_do_anyway() {
        let mode = |url: &str| target(url, false).unwrap().config.get_ssl_mode();
        for checked in ["verify-full", "verify-ca"] {
            assert_eq!(
                mode(&format!("postgres://a@db.example/b?connect_timeout=3&sslmode={checked}")),
                SslMode::Require
            );
            assert_eq!(mode(&format!("postgres://a@localhost/b?sslmode={checked}")), SslMode::Require);
            assert_eq!(mode(&format!("host=db.example user=a sslmode={checked}")), SslMode::Require);
        }
    }

    #[test]
    fn what_is_wrong_with_an_address_is_said() {
        for (url, why) in [
            ("mysql://a:secret@db.example/b", "`mysql` is not postgres"),
            ("postgres://a:secret@db.example/b?foo=bar", "unknown option `foo`"),
            ("postgres://a:secret@db.example/b?sslmode=strict", "disable, prefer, require, verify-ca or verify-full"),
            ("postgres://a:secret@db.example/b?sslrootcert=/x", "store.ca_file"),
            ("postgres://a:secret@db.example:port/b", "`port`"),
            ("postgres:///b", "no host"),
            ("user=a password=secret", "no host"),
            ("postgres://a:secret@db.example/b?sslmode=disable", "store.allow_plaintext"),
        ] {
            let refused = target(url, false).map(|_| ()).unwrap_err();
            assert!(refused.message().contains(why) && !refused.message().contains("secret"), "{url}: {refused}");
        }
    }

    #[test]
    fn a_file_of_certificates_has_some() {
        let options =
            Options { ca_file: Some("/dev/null".into()), ..Options::new("postgres://a@localhost/b", "node:a") };
        let refused = Target::new(&options).map(|_| ()).unwrap_err();
        assert!(refused.message().contains("no certificate"), "{refused}");
    }

    #[test]
    fn nobody_learns_the_password() {
        let target = target("postgres://a:secret@localhost:6000/b", false).unwrap();
        assert_eq!(&**target.location(), "postgres://localhost:6000/b schema campanile");
    }

    #[test]
    fn schemas_are_plain_names() {
        for bad in ["", "A", "a-b", "1a", "a;drop", "pg_x", "a b", "ä"] {
            assert!(check_schema(bad).is_err(), "{bad}");
        }
        assert!(check_schema("campanile_2").is_ok());
    }

    #[test]
    fn long_names_keep_their_end() {
        let name = application_name(&format!("node:{}-1-00c0ffee", "h".repeat(80)));
        assert!(name.len() <= 63 && name.ends_with("-1-00c0ffee"), "{name}");
        assert_eq!(application_name("node:a"), "campanile node:a");
    }
}
