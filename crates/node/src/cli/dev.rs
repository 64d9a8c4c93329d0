//! `campanile dev`: a node on this machine to try things out. The same node as `server`, with friendlier defaults.

use super::demo;
use super::exit::Failure;
use super::output::Output;
use super::start::{self, Common};
use crate::config::Config;
use crate::node::Node;

/// A node on this machine.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  campanile dev --demo

It listens on this machine only, and webhooks may go to this machine. Ctrl-C stops it; the data stays.")]
pub struct Args {
    /// Port of the API; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Create a few sample jobs that live
    #[arg(long)]
    demo: bool,
    #[command(flatten)]
    common: Common,
}

/// Runs until it is told to stop.
pub fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let mut flags = args.common.flags();
    flags.push(("server.listen", format!("127.0.0.1:{}", args.port)));
    let config = start::configure(Config::dev(), None, flags)?.config;
    crate::log::start(&config.log);
    start::block_on(async move {
        let node = Node::start(&config).await?;
        let url = node.url();
        if args.demo {
            demo::start(&url, out).await?;
        }
        out.chat(&banner(&config, &url, args.demo));
        start::write_ready_file(args.common.ready_file.as_deref(), &url)?;
        node.run().await?;
        out.chat("stopped; the data stays");
        Ok(())
    })
}

fn banner(config: &Config, url: &str, demo: bool) -> String {
    let flag = if config.server.listen.port() == 8080 { String::new() } else { format!(" --url {url}") };
    let next = if demo {
        [
            format!("campanile{flag} job ls"),
            format!("campanile{flag} exec ls --state dead,retrying"),
            format!("campanile{flag} job run demo-heartbeat --wait"),
        ]
    } else {
        [
            format!("campanile{flag} job create hello --every 5s --noop"),
            format!("campanile{flag} exec ls --job hello"),
            format!("campanile{flag} job run hello --wait"),
        ]
    };
    format!(
        "Campanile {} is running. Ctrl-C stops it.\n\n  API   {url}\n  Docs  {url}/docs/api\n  Data  {}\n\nTry, in another terminal:\n  {}\n",
        env!("CARGO_PKG_VERSION"),
        config.data_dir.canonicalize().unwrap_or_else(|_| config.data_dir.clone()).display(),
        next.join("\n  "),
    )
}
