//! Fuzzing in a test: inputs of a corpus are changed at random and given to a check, which panics where a promise is broken.
//!
//! A corpus is a folder of files, `fuzz/corpus/<target>`. First every file is checked as it is, then changed ones for a while.
//! The check says in a few words what became of an input; one that leads to something new is kept, so that changes build on
//! changes. An input that breaks a promise is written into the corpus, where it stays as a test.
//!
//! `CAMPANILE_FUZZ_SECONDS` makes it longer, and `CAMPANILE_FUZZ_SEED` repeats a run.

use campanile_model::random::{Random, SplitMix};
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// How long changed inputs are checked, in seconds.
const SECONDS: u64 = 2;
/// Changes of one input.
const CHANGES_MAX: u64 = 6;
/// Longest input, in bytes.
const INPUT_BYTES_MAX: usize = 16 * 1024;
/// Inputs kept because they led to something new.
const KEPT_MAX: usize = 4_096;
const TOKENS: [&[u8]; 32] = [
    b"0",
    b"-1",
    b"1",
    b"9",
    b"60",
    b"99999999999",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"1e309",
    b"0.1",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"",
    b"\\u0000",
    b"\\ud800",
    b"\0",
    b" ",
    b"\t",
    b"\r\n",
    b"%00",
    b"%ff",
    "\u{202e}".as_bytes(),
    "\u{1f980}".as_bytes(),
    "\u{130}".as_bytes(),
    b"\xff\xfe",
    b"*",
    b",",
    b":",
    b"/",
    b"..",
];

/// Checks the corpus of `target`, and inputs made from it. `words` are what its language is made of. The check answers
/// what became of the input.
#[allow(clippy::disallowed_methods, reason = "a budget in real time")]
pub fn run(target: &str, words: &[&str], mut check: impl FnMut(&[u8]) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let corpus = read(&folder);
    assert!(!corpus.is_empty(), "{target} has no corpus in {}", folder.display());
    let seed = number("CAMPANILE_FUZZ_SEED").unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_nanos() as u64)
    });
    let seconds = number("CAMPANILE_FUZZ_SECONDS").unwrap_or(SECONDS);
    eprintln!("{target}: CAMPANILE_FUZZ_SEED={seed} CAMPANILE_FUZZ_SECONDS={seconds}");
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for (path, input) in corpus {
        let outcome = guarded(&mut check, &input).unwrap_or_else(|()| panic!("{} breaks a promise", path.display()));
        seen.insert(outcome);
        kept.push(input);
    }
    let mut change = Change { random: SplitMix::new(seed), words };
    let (began, mut count) = (Instant::now(), 0u64);
    while began.elapsed() < Duration::from_secs(seconds) {
        let input = change.of(&kept);
        count += 1;
        match guarded(&mut check, &input) {
            Ok(outcome) => {
                if seen.insert(outcome) && kept.len() < KEPT_MAX {
                    kept.push(input);
                }
            }
            Err(()) => {
                let path = folder.join(format!("found-{:016x}", xxh3_64(&input)));
                let written = std::fs::write(&path, &input);
                panic!("{target}: an input breaks a promise; {written:?} as {}", path.display());
            }
        }
    }
    eprintln!("{target}: {count} inputs, {} ways they can go", seen.len());
}

/// The files of a folder, in order.
fn read(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    paths.sort();
    paths.into_iter().filter_map(|path| Some((path.clone(), std::fs::read(path).ok()?))).collect()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs the check; a panic is said by its own words, and is an error here.
fn guarded(check: &mut impl FnMut(&[u8]) -> String, input: &[u8]) -> Result<String, ()> {
    std::panic::catch_unwind(AssertUnwindSafe(|| check(input))).map_err(|_| {
        eprintln!("the input was: {}", String::from_utf8_lossy(input).escape_debug());
    })
}

/// How inputs are changed.
struct Change<'a> {
    random: SplitMix,
    words: &'a [&'a str],
}

impl Change<'_> {
    fn below(&self, end: usize) -> usize {
        (self.random.next() % end.max(1) as u64) as usize
    }

    /// One of these, changed a few times.
    fn of(&mut self, kept: &[Vec<u8>]) -> Vec<u8> {
        let mut input = kept[self.below(kept.len())].clone();
        for _ in 0..=self.random.next() % CHANGES_MAX {
            self.once(&mut input, kept);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn once(&self, input: &mut Vec<u8>, kept: &[Vec<u8>]) {
        let at = self.below(input.len() + 1);
        let until = at + self.below((input.len() - at).min(16) + 1);
        match self.random.next() % 10 {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.random.next() as u8,
            2 => drop(input.drain(at..until)),
            3 => {
                let piece = input[at..until].to_vec();
                let copies = 1 + self.below(4);
                input.splice(at..at, piece.repeat(copies));
            }
            4..=6 => {
                let word = self.word();
                // In the place of something, or between.
                let until = if self.random.next().is_multiple_of(2) { at } else { until };
                input.splice(at..until, word);
            }
            7 => {
                let other = &kept[self.below(kept.len())];
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            8 => self.renumber(input, at),
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte =
                        if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
                }
            }
        }
    }

    fn word(&self) -> Vec<u8> {
        let n = self.below(self.words.len() * 2 + TOKENS.len());
        match self.words.get(n / 2) {
            Some(word) => word.as_bytes().to_vec(),
            None => TOKENS[n % TOKENS.len()].to_vec(),
        }
    }

    /// Another number in the place of the next one.
    fn renumber(&self, input: &mut Vec<u8>, at: usize) {
        let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) else { return };
        let digits = input[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = match self.random.next() % 4 {
            0 => self.random.next() % 10,
            1 => self.random.next() % 70,
            2 => 1 << (self.random.next() % 64),
            _ => self.random.next(),
        };
        input.splice(start..start + digits, number.to_string().into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_a_promise_is_found() {
        let change = &mut Change { random: SplitMix::new(1), words: &["bang"] };
        let kept = [b"hello".to_vec()];
        let quiet = |input: &[u8]| if input.windows(4).any(|word| word == b"bang") { Err(()) } else { Ok(()) };
        let found = (0..1_000).any(|_| quiet(&change.of(&kept)).is_err());
        assert!(found, "the words are used");
        let lengths: HashSet<usize> = (0..1_000).map(|_| change.of(&kept).len()).collect();
        assert!(lengths.len() > 10, "inputs grow and shrink: {lengths:?}");
    }
}
