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
    Stat::read("/proc/self/stat").own_ms
}

/// Processor time of all processes of this name so far, with those of their children that have ended, in milliseconds.
pub fn cpu_ms_of(name: &str) -> u64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats = processes.map(|process| Stat::read(&format!("{}/stat", process.path().display())));
    stats.filter(|stat| stat.name == name).map(|stat| stat.own_ms + stat.children_ms).sum()
}

/// Bytes that this process has had written to disk so far.
pub fn written_bytes() -> u64 {
    line("/proc/self/io", "write_bytes:").and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// What the kernel knows of a process.
struct Stat {
    name: String,
    own_ms: u64,
    /// Of children that have ended.
    children_ms: u64,
}

impl Stat {
    fn read(path: &str) -> Self {
        let stat = read(path);
        // After the command name, which is in parentheses, user and system time are the 12th and 13th fields, those of
        // children that have ended the next two, in hundredths of a second.
        let (head, rest) = stat.rsplit_once(')').unwrap_or_default();
        let name = head.split_once('(').map_or("", |(_, name)| name).to_owned();
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let ms = |i: usize| fields.get(i).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0) * 10;
        Self { name, own_ms: ms(11) + ms(12), children_ms: ms(13) + ms(14) }
    }
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
