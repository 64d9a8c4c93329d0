//! Programs that are run and must end.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Runs a program until it ends, or is killed with all that it has started for taking too long; what it says is in `log`.
#[allow(clippy::disallowed_methods, reason = "real programs take real time")]
pub fn for_end(command: &mut Command, log: &Path, longest: Duration) -> Result<Option<ExitStatus>, String> {
    let failed = |error: std::io::Error| format!("cannot run it: {error}");
    let file = File::create(log).map_err(failed)?;
    command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
    let mut child = command.process_group(0).spawn().map_err(failed)?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Ok(Some(status));
        }
        if begun.elapsed() > longest {
            let group = format!("-{}", child.id());
            Command::new("kill").args(["-KILL", "--", &group]).status().map_err(failed)?;
            child.wait().map_err(failed)?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
