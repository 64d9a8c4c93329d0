//! `campanile-check DIR`: judges a recorded run.
//!
//! Exit code 0: passed. 1: failed. 2: invalid, unreadable, or wrong arguments.

use campanile_check::judge::judge;
use campanile_check::limits::Limits;
use campanile_check::log::Log;
use campanile_check::plot;
use campanile_check::verdict::Valid;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: campanile-check DIR [--json FILE] [--svg FILE] [options]

Judges the recorded run in DIR (*.ndjson).

  --json FILE               writes the verdict as JSON; `-` is standard output
  --svg FILE                draws the run
  --clock-ms N              how far clocks may be apart (5)
  --late-ms N               how late the first start may be when all is well (2000)
  --recover-ms N            how long after a fault until all is well (15000)
  --info-ms N               how long an unanswered operation may have an effect (30000)
  --min-jobs N              acknowledged jobs that are needed (1000)
  --min-fires N             fires that had to be (1000)
  --min-fires-in-faults N   of these inside faults (100)
  --min-faults N            faults (1)
  --min-judged-percent N    jobs of which something had to be (50)
  --min-healed-ops N        questions to each node after the last fault (5)
  --sometimes A,B           what must have been met; see `met` in the verdict";

struct Arguments {
    folder: PathBuf,
    json: Option<PathBuf>,
    svg: Option<PathBuf>,
    limits: Limits,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    match read(&arguments).and_then(|arguments| run(&arguments)) {
        Ok(Valid::Passed) => ExitCode::SUCCESS,
        Ok(Valid::Failed) => ExitCode::from(1),
        Ok(Valid::Invalid) => ExitCode::from(2),
        Err(error) => {
            eprintln!("campanile-check: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<Valid, String> {
    let judged = judge(Log::read(&arguments.folder)?, &arguments.limits);
    let write =
        |path: &PathBuf, text: &str| std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()));
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&judged.verdict).map_err(|error| error.to_string())?;
        if path.as_os_str() == "-" {
            println!("{text}");
        } else {
            write(path, &text)?;
        }
    }
    if let Some(path) = &arguments.svg {
        write(path, &plot::svg(&judged))?;
    }
    eprintln!("{}", judged.verdict.summary());
    let valid = judged.verdict.valid;
    // The process ends now: to give back millions of pieces one by one is time for nothing.
    std::mem::forget(judged);
    Ok(valid)
}

fn read(arguments: &[String]) -> Result<Arguments, String> {
    let (mut folder, mut json, mut svg) = (None, None, None);
    let mut limits = Limits::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if !argument.starts_with("--") {
            if folder.replace(PathBuf::from(argument)).is_some() {
                return Err("one folder at a time; see --help".to_owned());
            }
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("{argument} needs a value; see --help"))?;
        let time =
            || value.parse::<i64>().ok().filter(|value| *value >= 0).ok_or_else(|| not_a_number(argument, value));
        let count = || value.parse::<usize>().map_err(|_| not_a_number(argument, value));
        match argument.as_str() {
            "--json" => json = Some(PathBuf::from(value)),
            "--svg" => svg = Some(PathBuf::from(value)),
            "--clock-ms" => limits.clock_ms = time()?,
            "--late-ms" => limits.late_ms = time()?,
            "--recover-ms" => limits.recover_ms = time()?,
            "--info-ms" => limits.info_ms = time()?,
            "--min-jobs" => limits.min_jobs = count()?,
            "--min-fires" => limits.min_fires = count()?,
            "--min-fires-in-faults" => limits.min_fires_in_faults = count()?,
            "--min-faults" => limits.min_faults = count()?,
            "--min-judged-percent" => limits.min_judged_percent = count()?,
            "--min-healed-ops" => limits.min_healed_ops = count()?,
            "--sometimes" => limits.sometimes = value.split(',').map(str::to_owned).collect(),
            other => return Err(format!("there is no option {other}; see --help")),
        }
    }
    let folder = folder.ok_or("which folder? see --help")?;
    Ok(Arguments { folder, json, svg, limits })
}

fn not_a_number(argument: &str, value: &str) -> String {
    format!("{argument}: `{value}` is not a number")
}
