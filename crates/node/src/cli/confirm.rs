//! Asking a person before something that has effects on many things, or that cannot be undone.

use super::exit::{Code, Failure};
use std::io::{BufRead, IsTerminal, Write};

/// Asks a person; without one, `--yes` is the answer. `what` is what would happen: "this deletes".
pub async fn confirm(question: &str, what: &str) -> Result<(), Failure> {
    possible(what)?;
    ask(question).await
}

/// Whether there is a person to ask, before anything else is done.
pub fn possible(what: &str) -> Result<(), Failure> {
    if std::io::stdin().is_terminal() && std::io::stderr().is_terminal() {
        return Ok(());
    }
    Err(Failure::usage(format!("{what}, and there is nobody to ask")).hint("say --yes"))
}

/// Asks a person who is there. Ctrl-C is an answer too, so nothing waits for the terminal but a thread of its own.
pub async fn ask(question: &str) -> Result<(), Failure> {
    let _ = write!(std::io::stderr(), "{question} [y/N] ");
    let read = tokio::task::spawn_blocking(|| {
        let mut answer = String::new();
        let _ = std::io::stdin().lock().read_line(&mut answer);
        answer
    });
    match read.await.unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::new(Code::Failed, "nothing was done")),
    }
}
