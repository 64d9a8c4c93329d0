//! `campanile restore`: makes a backup the embedded store, while no server is at work.

use super::backup::{Place, SECRETS, failure, put_secret, secret_beside};
use super::exit::{Code, Failure};
use super::output::{Output, bytes};
use crate::backends::STORE_FILE;
use crate::secrets;
use campanile_store::sqlite::backup::{Restored, restore};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A backup becomes the embedded store.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  campanile restore /backups/campanile-monday.db --data-dir /var/lib/campanile

Stop the server first. What fired between the backup and now is not known any more: jobs go on by
their catch-up policies, and what they did since then they may do again.")]
pub struct Args {
    /// The backup
    file: PathBuf,
    /// Replace the database that is there, and keep it as campanile.db.before-restore
    #[arg(long)]
    force: bool,
    /// Also put back the secrets that sign webhooks and page cursors, from FILE.webhook-secret and FILE.cursor-key
    #[arg(long)]
    with_secrets: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Serialize)]
struct Report<'a> {
    database: &'a Path,
    bytes: u64,
    jobs: u64,
    executions: u64,
    schema: u32,
    kept: Option<&'a Path>,
}

/// Puts the backup back.
pub fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let data_dir = args.place.embedded()?;
    let secrets = if args.with_secrets { read_secrets(&args.file, &data_dir, args.force)? } else { Vec::new() };
    let unusable =
        |error| Failure::new(Code::Failed, format!("cannot use data directory {}: {error}", data_dir.display()));
    secrets::create_data_dir(&data_dir).map_err(unusable)?;
    let database = data_dir.join(STORE_FILE);
    if database.exists() && !args.force {
        let message = format!("{} exists already", database.display());
        return Err(
            Failure::new(Code::Conflict, message).hint("say --force to replace it; it is kept beside the new one")
        );
    }
    let bar = out.progress(Some(0), "restoring");
    let restored = restore(&args.file, &database, args.force, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let Restored { summary, kept } = restored.map_err(failure)?;
    for (to, secret) in &secrets {
        put_secret(to, secret).map_err(unusable)?;
    }
    let report = Report {
        database: &database,
        bytes: summary.bytes,
        jobs: summary.jobs,
        executions: summary.executions,
        schema: summary.schema,
        kept: kept.as_deref(),
    };
    out.print(
        &report,
        || vec![database.display().to_string()],
        |out| {
            let mut pairs = vec![
                ("restored", database.display().to_string()),
                ("size", bytes(summary.bytes)),
                ("jobs", summary.jobs.to_string()),
                ("executions", summary.executions.to_string()),
            ];
            pairs.extend(kept.as_ref().map(|kept| ("before", kept.display().to_string())));
            out.pairs(&pairs)
        },
    )?;
    for name in SECRETS.into_iter().filter(|name| !data_dir.join(name).exists()) {
        out.chat(&format!("there is no {name}: the next start makes up a new one, unless you put the old one back"));
    }
    Ok(())
}

/// The secrets that go with a backup, each with its place, if they can take the place of what is there. Backups of
/// earlier releases have no `cursor-key`.
fn read_secrets(file: &Path, data_dir: &Path, force: bool) -> Result<Vec<(PathBuf, Vec<u8>)>, Failure> {
    let mut secrets = Vec::new();
    for name in SECRETS {
        let (from, to) = (secret_beside(file, name), data_dir.join(name));
        let secret = match std::fs::read(&from) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && name == "cursor-key" => continue,
            read => read.map_err(|error| Failure::new(Code::NotFound, format!("{}: {error}", from.display())))?,
        };
        match std::fs::read(&to) {
            Ok(there) if there != secret && !force => {
                let message = format!("{} exists already, and is another one", to.display());
                return Err(Failure::new(Code::Conflict, message).hint("say --force to replace it"));
            }
            _ => secrets.push((to, secret)),
        }
    }
    Ok(secrets)
}
