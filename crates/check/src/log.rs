//! Reads a folder of recorded files into one sequence.

use crate::event::{Event, Record, SCHEMA};
use crate::line;
use crate::parallel;
use crate::text::Text;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// How much is read at once.
const BUFFER: usize = 1 << 20;

/// What was read: all lines in the order of the machine's monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub records: Vec<Record>,
    /// What makes a recording useless: lines that are missing.
    pub gaps: Vec<String>,
}

impl Log {
    /// Reads all `*.ndjson` files of a folder. The error names file and line.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let shown = |path: &Path| path.display().to_string();
        let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", shown(folder)))?;
        let mut paths: Vec<PathBuf> = Vec::new();
        for entry in entries {
            let path = entry.map_err(|error| format!("{}: {error}", shown(folder)))?.path();
            if path.extension().is_some_and(|extension| extension == "ndjson") {
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(format!("{}: no *.ndjson file in it", shown(folder)));
        }
        paths.sort();
        let mut records = Vec::new();
        for read in parallel::each(&paths, |path| read_file(path).map_err(|error| format!("{}: {error}", shown(path))))
        {
            records.append(&mut read?);
        }
        Ok(Self::new(records))
    }

    /// A log of lines that are already read.
    pub fn new(mut records: Vec<Record>) -> Self {
        let gaps = gaps(&records);
        records.sort_by_key(|record| (record.mono_ns, record.node, record.seq));
        Self { records, gaps }
    }
}

fn read_file(path: &Path) -> Result<Vec<Record>, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut reader = BufReader::with_capacity(BUFFER, file);
    let (mut records, mut line) = (Vec::new(), Vec::new());
    for number in 1.. {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(|error| error.to_string())? == 0 {
            break;
        }
        // A process that was killed may leave half a line at the end, and only there.
        if line.last() != Some(&b'\n') {
            break;
        }
        let text = std::str::from_utf8(&line).map_err(|error| format!("line {number}: {error}"))?;
        let record = line::read(text).map_err(|error| format!("line {number}: {error}"))?;
        if let Event::Run(run) = &record.event
            && run.schema != SCHEMA
        {
            return Err(format!("line {number}: schema {}, but this checker reads {SCHEMA}", run.schema));
        }
        records.push(record);
    }
    Ok(records)
}

/// Every process counts its lines from 1; what is missing was lost, and with it perhaps the evidence.
fn gaps(records: &[Record]) -> Vec<String> {
    let mut last: HashMap<Text, u64> = HashMap::new();
    let mut gaps = Vec::new();
    for record in records {
        let seq = last.entry(record.node).or_default();
        if record.seq != *seq + 1 {
            gaps.push(format!("`{}`: line {} follows line {seq}", record.node, record.seq));
        }
        *seq = record.seq;
    }
    gaps
}
