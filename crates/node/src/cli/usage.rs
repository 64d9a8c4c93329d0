//! A wrong command line: one line, a hint, and exit code 64 (2 stays free for "there are differences").

use super::exit::Failure;
use clap::error::ErrorKind;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// Reports what clap has to say.
pub fn report(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // A reader that leaves in the middle of the help has read enough.
            let _ = write!(std::io::stdout(), "{}", error.render());
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            eprint!("{}", error.render());
            ExitCode::from(64)
        }
        _ => failure(&error.render().to_string()).report(),
    }
}

/// A wrong expression such as `-1 * * * *` should be refused as an expression, not as an unknown option. No option has
/// blanks in it, so what has them is one; behind `--` it is safe.
pub fn protect_expression(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    let asks = args.get(1).is_some_and(|command| command == "explain" || command == "preview");
    let is_expression = |arg: &OsString| arg.to_str().is_some_and(|arg| arg.starts_with('-') && arg.contains(' '));
    if let Some(at) = args.iter().position(is_expression).filter(|_| asks && !args.contains(&OsString::from("--"))) {
        let expression = args.remove(at);
        args.extend(["--".into(), expression]);
    }
    args
}

/// clap's several paragraphs as one line and hints.
fn failure(rendered: &str) -> Failure {
    let mut message = Vec::new();
    let mut hints = Vec::new();
    let mut command = "campanile".to_owned();
    for line in rendered.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            let words = usage.split(' ').take_while(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
            command = words.collect::<Vec<_>>().join(" ");
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            hints.push(tip.to_owned());
        } else if hints.is_empty() && !line.starts_with("For more information") {
            message.push(line.strip_prefix("error: ").unwrap_or(line).to_owned());
        }
    }
    let failure = Failure::usage(message.join(" "));
    hints.into_iter().fold(failure, Failure::hint).hint(format!("`{command} --help` shows what there is"))
}
