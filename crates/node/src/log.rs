//! The log of a node: on stderr, as text for people or as JSON for programs.

use crate::config::{Log, LogFormat};
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// What a library says about connections that broke, in its own words; we say it in ours. Named in the setting, it is
/// heard.
const QUIET: &str = "deadpool=error";

fn filter(level: &str) -> EnvFilter {
    // The later of two directives about the same wins.
    EnvFilter::try_new(format!("{QUIET},{level}")).unwrap_or_else(|_| EnvFilter::new(format!("{QUIET},info")))
}

/// Starts logging. Called once, before anything can be logged.
pub fn start(log: &Log) {
    let filter = filter(&log.level);
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_library_does_not_speak_for_us_unless_it_is_asked() {
        let said = |level: &str| {
            let lines = Lines::default();
            let writer = lines.clone();
            let log = tracing_subscriber::fmt().with_env_filter(filter(level)).with_writer(move || writer.clone());
            tracing::subscriber::with_default(log.finish(), || {
                tracing::warn!(target: "deadpool.postgres", "theirs");
                tracing::warn!("ours");
            });
            let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            (text.contains("theirs"), text.contains("ours"))
        };
        for level in ["info", "warn", "debug", "info,campanile_engine=debug"] {
            assert_eq!(said(level), (false, true), "{level}");
        }
        assert_eq!(said("info,deadpool=warn"), (true, true));
        assert_eq!(said("error"), (false, false));
    }
}
