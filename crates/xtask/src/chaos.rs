//! `cargo xtask chaos`: real nodes, real faults, and the checker's verdict about what was recorded.
//!
//! The harness is a test of the binary (`crates/node/tests/chaos.rs`), because it needs a build with faults; the judge
//! is `campanile-check`. Here they are only run one after the other.

use crate::steps::{cargo, cargo_command, perform};
use crate::{root, tools};
use std::time::{SystemTime, UNIX_EPOCH};

/// What a run of a minute must have had at least, so that it proves something: jobs, fires, and fires while something
/// was wrong.
const LEAST_PER_MINUTE: [(&str, u64); 3] = [("--min-jobs", 300), ("--min-fires", 600), ("--min-fires-in-faults", 100)];
/// A first start may be this late when all is well: the machine has more to do than to run the nodes.
const LATE_MS: &str = "5000";

/// What is asked for.
struct Order {
    seed: u64,
    seconds: u64,
    is_embedded: bool,
}

/// Runs one, as the arguments say.
pub fn run(words: &[&str]) -> Result<(), String> {
    let order = read(words)?;
    tools::get()?;
    let store = if order.is_embedded { "embedded" } else { "postgres" };
    let folder = root().join(format!("target/chaos/{store}-{}", order.seed));
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let mut harness = cargo_command(&["test", "-p", "campanile", "--test", "chaos", "--", "--ignored", "--nocapture"]);
    harness.env("CAMPANILE_CHAOS_SEED", order.seed.to_string());
    harness.env("CAMPANILE_CHAOS_SECONDS", order.seconds.to_string());
    harness.env("CAMPANILE_CHAOS_STORE", store).env("CAMPANILE_CHAOS_DIR", &folder);
    let again = format!("cargo xtask chaos --seed {} --seconds {} --{store}", order.seed, order.seconds);
    perform(&mut harness).map_err(|error| format!("{error}; again: {again}"))?;
    let folder = folder.display().to_string();
    let (json, svg) = (format!("{folder}/verdict.json"), format!("{folder}/run.svg"));
    let mut words = vec!["run", "-q", "-p", "campanile-check", "--", &folder, "--json", &json, "--svg", &svg];
    words.extend(["--late-ms", LATE_MS]);
    let least = LEAST_PER_MINUTE.map(|(name, least)| (name, (least * order.seconds / 60).max(50).to_string()));
    words.extend(least.iter().flat_map(|(name, least)| [*name, least.as_str()]));
    cargo(&words).map_err(|error| format!("{error}; the verdict is in {json}; again: {again}"))?;
    eprintln!("the recording, the verdict and a picture are in {folder}");
    Ok(())
}

fn read(words: &[&str]) -> Result<Order, String> {
    #[allow(clippy::disallowed_methods, reason = "another seed for every run")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut order = Order { seed: now, seconds: 60, is_embedded: false };
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let mut number = || rest.next().and_then(|text| text.parse().ok()).ok_or(format!("{word} needs a number"));
        match *word {
            "--seed" => order.seed = number()?,
            "--minutes" => order.seconds = number()? * 60,
            "--seconds" => order.seconds = number()?,
            "--embedded" => order.is_embedded = true,
            "--postgres" => order.is_embedded = false,
            other => return Err(format!("there is no option {other}")),
        }
    }
    Ok(order)
}
