//! `campanile backup`: a copy of the embedded store in one file, whether or not a server is at work.

use super::exit::{Code, Failure};
use super::output::{Output, bytes};
use super::start;
use crate::backends::STORE_FILE;
use crate::clock;
use crate::config::{Config, StoreKind};
use campanile_model::{Error, Kind};
use campanile_store::sqlite::backup::{Summary, backup};
use serde::Serialize;
use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The files of secrets within the data directory: what signs webhooks, and what signs page cursors. A backup has them
/// beside it, under its own name and theirs.
pub const SECRETS: [&str; 2] = ["webhook-secret", "cursor-key"];

/// A copy of the embedded store in one file.
#[derive(clap::Args)]
#[command(after_help = "\
Example:
  campanile backup /backups/campanile-monday.db --data-dir /var/lib/campanile

The server may be at work: it is neither stopped nor held up. The copy is checked before it gets its
name, and readable by its owner alone. `campanile restore` puts it back.")]
pub struct Args {
    /// The file to write
    file: PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    force: bool,
    /// Also copy the secrets that sign webhooks and page cursors, to FILE.webhook-secret and FILE.cursor-key
    #[arg(long)]
    with_secrets: bool,
    #[command(flatten)]
    place: Place,
}

/// Where the installation is.
#[derive(clap::Args)]
pub struct Place {
    /// Directory of the store and the secrets [default: .campanile]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The configuration file [default: campanile.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Place {
    /// The configuration, with more settings from flags.
    pub fn configure(self, mut flags: Vec<(&'static str, String)>) -> Result<Config, Failure> {
        flags.extend(self.data_dir.map(|dir| ("data_dir", dir.display().to_string())));
        Ok(start::configure(Config::embedded(), self.config, flags)?.config)
    }

    /// The data directory of an installation with an embedded store.
    pub fn embedded(self) -> Result<PathBuf, Failure> {
        let config = self.configure(Vec::new())?;
        match config.store.kind {
            StoreKind::Sqlite => Ok(config.data_dir),
            StoreKind::Postgres => {
                Err(Failure::usage("this installation is in PostgreSQL, which has backups of its own")
                    .hint("see pg_dump and continuous archiving; for an embedded store beside it, leave store.url out"))
            }
        }
    }
}

#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    bytes: u64,
    jobs: u64,
    executions: u64,
    schema: u32,
    with_secrets: bool,
    took_ms: u64,
}

/// Makes the copy.
pub fn run(args: Args, out: &Output) -> Result<(), Failure> {
    let data_dir = args.place.embedded()?;
    let secrets = SECRETS.map(|name| (data_dir.join(name), secret_beside(&args.file, name)));
    if !args.force {
        let beside = secrets.iter().map(|(_, to)| to).filter(|_| args.with_secrets);
        if let Some(there) = [&args.file].into_iter().chain(beside).find(|file| file.exists()) {
            let message = format!("{} exists already", there.display());
            return Err(Failure::new(Code::Conflict, message).hint("choose another name, or say --force"));
        }
    }
    let began = clock::now();
    let bar = out.progress(Some(0), "copying");
    let copied = backup(&data_dir.join(STORE_FILE), &args.file, args.force, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    let Summary { bytes: size, jobs, executions, schema } = copied.map_err(failure)?;
    if args.with_secrets {
        for (from, to) in &secrets {
            let copied = std::fs::read(from).and_then(|secret| put_secret(to, &secret));
            copied.map_err(|error| Failure::new(Code::Failed, format!("cannot copy {}: {error}", from.display())))?;
        }
    }
    let took_ms = clock::now().ms_since(began);
    let with_secrets = args.with_secrets;
    let report = Report { file: &args.file, bytes: size, jobs, executions, schema, with_secrets, took_ms };
    out.print(
        &report,
        || vec![args.file.display().to_string()],
        |out| {
            out.pairs(&[
                ("backup", args.file.display().to_string()),
                ("size", bytes(size)),
                ("jobs", jobs.to_string()),
                ("executions", executions.to_string()),
                ("checked", format!("every page and index, in {:.1}s", took_ms as f64 / 1_000.0)),
            ])
        },
    )?;
    out.chat(&match with_secrets {
        true => format!("the secrets are beside it: {} and {}", secrets[0].1.display(), secrets[1].1.display()),
        false => format!(
            "secrets are not part of it: keep {} and {} too, or say --with-secrets",
            secrets[0].0.display(),
            secrets[1].0.display()
        ),
    });
    Ok(())
}

/// The file for a secret that goes with a backup.
pub fn secret_beside(file: &Path, name: &str) -> PathBuf {
    let mut beside = OsString::from(file);
    beside.push(format!(".{name}"));
    beside.into()
}

/// Writes a secret for its owner alone: aside first, so that a crash leaves no half of it.
pub fn put_secret(path: &Path, secret: &[u8]) -> std::io::Result<()> {
    let mut aside = OsString::from(path);
    aside.push(".tmp");
    let _ = std::fs::remove_file(&aside);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(&aside)?;
    file.write_all(secret)?;
    file.sync_all()?;
    std::fs::rename(&aside, path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent)?.sync_all()
}

/// What a store says about a file, with its exit code.
pub fn failure(error: Error) -> Failure {
    match (error.kind(), error.code()) {
        (Kind::NotFound, _) => {
            Failure::new(Code::NotFound, error.message()).hint("name the directory of the installation with --data-dir")
        }
        (Kind::Conflict, "data_directory_in_use") => {
            Failure::new(Code::Conflict, error.message()).hint("stop that process first")
        }
        _ => error.into(),
    }
}
