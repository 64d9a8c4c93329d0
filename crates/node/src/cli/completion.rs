//! `campanile completion`: a script for a shell.

use super::exit::Failure;
use super::output::Output;
use clap::CommandFactory;
use clap_complete::Shell;

/// A script for a shell.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  campanile completion bash > ~/.local/share/bash-completion/completions/campanile")]
pub struct Args {
    /// bash, zsh, fish, powershell or elvish
    shell: Shell,
}

/// Prints the script.
pub fn run(args: &Args, out: &Output) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::Cli::command(), "campanile", &mut script);
    out.text(&String::from_utf8_lossy(&script))
}
