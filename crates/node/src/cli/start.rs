//! What `dev` and `server` share: flags, configuration, the runtime, and the file that says "ready".

use super::exit::{Code, Failure};
use crate::config::{Config, Loaded, Sources};
use std::path::{Path, PathBuf};

/// Flags of whatever starts a node.
#[derive(clap::Args)]
pub struct Common {
    /// Directory of the store and the secrets [default: .campanile]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Attempts that run at the same time
    #[arg(long, value_name = "N")]
    slots: Option<u64>,
    /// Log as text or json
    #[arg(long, value_name = "FORMAT")]
    log: Option<String>,
    /// What is logged: error, warn, info, debug, trace, or directives
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// Write the server's address to this file as soon as it fires
    #[arg(long, value_name = "FILE")]
    pub ready_file: Option<PathBuf>,
}

impl Common {
    /// The flags that were given, as settings.
    pub fn flags(&self) -> Vec<(&'static str, String)> {
        let flags = [
            ("data_dir", self.data_dir.as_ref().map(|dir| dir.display().to_string())),
            ("engine.slots", self.slots.map(|slots| slots.to_string())),
            ("log.format", self.log.clone()),
            ("log.level", self.log_level.clone()),
        ];
        flags.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// The effective configuration, or all that is wrong with it.
pub fn configure(base: Config, file: Option<PathBuf>, flags: Vec<(&'static str, String)>) -> Result<Loaded, Failure> {
    let file = file.or_else(|| std::env::var_os("CAMPANILE_CONFIG").filter(|path| !path.is_empty()).map(PathBuf::from));
    let file = file.or_else(|| Some(PathBuf::from("campanile.toml")).filter(|path| path.is_file()));
    Sources::new(base, file, flags).load().map_err(|mut problems| match problems.len() {
        1 => Failure::usage(problems.remove(0)),
        n => problems
            .into_iter()
            .fold(Failure::usage(format!("{n} things are wrong with the configuration")), Failure::detail),
    })
}

/// Runs a node's future on all cores.
pub fn block_on(node: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Code::Failed, format!("cannot start: {error}")))?;
    let result = runtime.block_on(node);
    // After an orderly stop nothing is left to wait for; after another one nobody wants to.
    runtime.shutdown_background();
    result
}

/// Says "ready" to whoever started us: the address, in one line, all at once.
pub fn write_ready_file(path: Option<&Path>, url: &str) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    let aside = path.with_extension("new");
    let written = std::fs::write(&aside, format!("{url}\n")).and_then(|()| std::fs::rename(&aside, path));
    written.map_err(|error| Failure::new(Code::Failed, format!("cannot write {}: {error}", path.display())))
}
