//! `campanile server`: a node for production.

use super::exit::Failure;
use super::output::Output;
use super::start::{self, Common};
use crate::config::Config;
use crate::node::Node;
use std::path::PathBuf;

/// A node for production.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  campanile server --data-dir /var/lib/campanile --log json
  campanile server --store postgres://campanile@db.example/campanile --roles api,scheduler

Settings come from the file, then CAMPANILE_* variables, then flags; `campanile config show` tells.")]
pub struct Args {
    /// The configuration file [default: campanile.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port of the API [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Where PostgreSQL is, which any number of nodes share; without it, one file in the data directory
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// What this node does: some of api,scheduler,worker [default: all]
    #[arg(long, value_name = "ROLES")]
    roles: Option<String>,
    /// Listen beyond this host although there is no authentication yet: anybody who reaches it can do anything
    #[arg(long)]
    insecure_no_auth: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs until it is told to stop.
pub fn run(args: Args, _out: &Output) -> Result<(), Failure> {
    let mut flags = args.common.flags();
    flags.extend(args.listen.map(|listen| ("server.listen", listen)));
    flags.extend(args.store.map(|url| ("store.url", url)));
    flags.extend(args.roles.map(|roles| ("engine.roles", roles)));
    if args.insecure_no_auth {
        flags.push(("server.insecure_no_auth", "true".into()));
    }
    let config = start::configure(Config::embedded(), args.config, flags)?.config;
    crate::log::start(&config.log);
    start::block_on(async move {
        let node = Node::start(&config).await?;
        let url = node.url();
        if !config.server.listen.ip().is_loopback() {
            tracing::warn!(%url, "listening beyond this host without authentication");
        }
        tracing::info!(version = env!("CARGO_PKG_VERSION"), %url, data_dir = %config.data_dir.display(), "ready");
        start::write_ready_file(args.common.ready_file.as_deref(), &url)?;
        node.run().await?;
        tracing::info!("stopped");
        Ok(())
    })
}
