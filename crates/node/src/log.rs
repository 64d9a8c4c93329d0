//! The log of a node: on stderr, as text for people or as JSON for programs.

use crate::config::{Log, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging. Called once, before anything can be logged.
pub fn start(log: &Log) {
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(ansi);
    // A line that cannot be written, as when the log lies on a full disk, is lost. To complain about it on the same
    // stderr would panic, and end the process.
    let builder = builder.log_internal_errors(false);
    // A second start (in a test) keeps the first log.
    let _ = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
}
