//! `campanile config show`: the effective configuration, and where each value came from.

use super::exit::Failure;
use super::output::Output;
use super::start::configure;
use crate::config::{Config, env_name};
use serde::Serialize;
use std::path::PathBuf;

/// What to do with the configuration.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Show every setting, its value, and where it came from
    #[command(after_help = "Example:\n  campanile config show --config /etc/campanile.toml")]
    Show {
        /// The configuration file [default: campanile.toml, if there is one]
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// The defaults of `campanile dev`
        #[arg(long)]
        dev: bool,
    },
}

#[derive(Serialize)]
struct Row {
    key: &'static str,
    value: String,
    origin: String,
    env: String,
    about: &'static str,
}

/// Shows it.
pub fn run(command: Command, out: &Output) -> Result<(), Failure> {
    let Command::Show { config, dev } = command;
    let base = if dev { Config::dev() } else { Config::embedded() };
    let loaded = configure(base, config, Vec::new())?;
    let rows: Vec<Row> = loaded
        .rows()
        .map(|(setting, value, origin)| Row {
            key: setting.key,
            value,
            origin: origin.to_string(),
            env: env_name(setting.key),
            about: setting.about,
        })
        .collect();
    let names = || rows.iter().map(|row| row.key.to_owned()).collect();
    out.print(&rows, names, |out| {
        let cells =
            rows.iter().map(|row| vec![row.key.into(), row.value.clone(), row.origin.clone(), row.about.into()]);
        out.table(&["SETTING", "VALUE", "ORIGIN", "ABOUT"], cells)
    })
}
