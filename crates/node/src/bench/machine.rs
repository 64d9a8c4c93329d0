//! The machine that a figure was measured on.

use std::fs;

/// Name and value of each fact.
pub fn facts() -> Vec<(&'static str, String)> {
    vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("build", if cfg!(debug_assertions) { "debug (figures mean little)" } else { "release" }.to_owned()),
        ("cpu", cpu()),
        ("cores", std::thread::available_parallelism().map_or(0, usize::from).to_string()),
        ("memory", memory()),
        ("kernel", read("/proc/sys/kernel/osrelease").trim().to_owned()),
        ("load", read("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" ")),
    ]
}

/// Memory of this process that is in RAM, in bytes.
pub fn resident_bytes() -> u64 {
    let kib =
        line("/proc/self/status", "VmRSS:").and_then(|rest| rest.trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Processor time of this process so far, in milliseconds.
pub fn cpu_ms() -> u64 {
    let stat = read("/proc/self/stat");
    // After the command name, which is in parentheses, user and system time are the 12th and 13th fields, in hundredths.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10
}

fn cpu() -> String {
    line("/proc/cpuinfo", "model name")
        .map_or_else(|| std::env::consts::ARCH.to_owned(), |v| v.trim_start_matches([':', ' ', '\t']).to_owned())
}

fn memory() -> String {
    let kib = line("/proc/meminfo", "MemTotal:").and_then(|v| v.trim_end_matches(" kB").trim().parse::<u64>().ok());
    kib.map_or_else(|| "unknown".into(), |kib| format!("{:.1} GiB", kib as f64 / 1_048_576.0))
}

fn line(path: &str, prefix: &str) -> Option<String> {
    read(path).lines().find_map(|line| line.strip_prefix(prefix)).map(|rest| rest.trim().to_owned())
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
