//! Names in pages that must exist: relative links with their anchors, and files in code spans.
//!
//! A span counts as the name of a file when it has a `/` and ends like a file of this repository. It may be written
//! from the top, or from `crates/`. Fenced blocks are examples, and are left alone.

use crate::root;
use std::path::{Path, PathBuf};

/// Folders without pages of ours.
const SKIPPED: [&str; 4] = ["target", ".git", ".campanile", "node_modules"];
/// How the names of our files end.
const ENDINGS: [&str; 6] = [".rs", ".sql", ".md", ".toml", ".yaml", ".json"];

/// Checks all pages.
pub fn check() -> Result<(), String> {
    let root = root();
    let mut pages = Vec::new();
    find_pages(&root, &mut pages).map_err(|error| format!("cannot list the pages: {error}"))?;
    pages.sort();
    let mut faults = Vec::new();
    for page in &pages {
        let text = std::fs::read_to_string(page).map_err(|error| format!("cannot read {}: {error}", page.display()))?;
        let name = page.strip_prefix(&root).unwrap_or(page).display();
        faults.extend(faults_of(&root, page, &text).into_iter().map(|fault| format!("{name}: {fault}")));
    }
    if faults.is_empty() {
        eprintln!("{} pages, every link and file named in them exists", pages.len());
        return Ok(());
    }
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    Err(format!("{} names in pages lead nowhere", faults.len()))
}

fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        if entry.file_type()?.is_dir() {
            if !SKIPPED.iter().any(|skipped| name == *skipped) {
                find_pages(&path, pages)?;
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    Ok(())
}

fn faults_of(root: &Path, page: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in prose(text) {
        for link in links(line) {
            if let Some(fault) = link_fault(page, link) {
                faults.push(format!("line {number}: {fault}"));
            }
        }
        for name in spans(line).into_iter().filter(|span| is_file_name(span)) {
            if !root.join(name).exists() && !root.join("crates").join(name).exists() {
                faults.push(format!("line {number}: there is no file `{name}`"));
            }
        }
    }
    faults
}

/// The numbered lines outside of fenced blocks.
fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            lines.push((number, line));
        }
    }
    lines
}

/// The targets of `[words](target)`.
fn links(line: &str) -> Vec<&str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target).collect()
}

/// What stands between backticks.
fn spans(line: &str) -> Vec<&str> {
    line.split('`').skip(1).step_by(2).collect()
}

fn is_file_name(span: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    span.contains('/')
        && !span.starts_with('/')
        && span.chars().all(plain)
        && (ENDINGS.iter().any(|ending| span.ends_with(ending))
            || span.starts_with("crates/")
            || span.starts_with("docs/"))
}

fn link_fault(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { page.to_owned() } else { page.parent()?.join(path) };
    if !target.exists() {
        return Some(format!("the link to {link} leads nowhere"));
    }
    if anchor.is_empty() {
        return None;
    }
    let text = std::fs::read_to_string(&target).unwrap_or_default();
    let found = prose(&text).into_iter().filter_map(|(_, line)| anchor_of(line)).any(|known| known == anchor);
    (!found).then(|| format!("the link to {link} names a heading that is not there"))
}

/// The anchor of a heading, as hosts of Markdown make it.
fn anchor_of(line: &str) -> Option<String> {
    let words = line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))?;
    let kept = words.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    Some(kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_spans_are_found() {
        let line = "see [a](b.md#c) and [d](https://e), `crates/x.rs` or `two words`";
        assert_eq!(links(line), ["b.md#c", "https://e"]);
        assert_eq!(spans(line), ["crates/x.rs", "two words"]);
        assert!(is_file_name("engine/src/fire.rs") && is_file_name("crates/model") && !is_file_name("/v1/jobs.json"));
        assert!(!is_file_name("fire.rs") && !is_file_name("docs/**.md"));
    }

    #[test]
    fn what_leads_nowhere_is_reported() {
        let root = root();
        let page = root.join("crates/xtask/page.md");
        let text =
            "[x](src/main.rs) [y](nowhere.md) `xtask/src/links.rs` `xtask/src/gone.rs`\n```\n[z](gone.md)\n```\n";
        let faults = faults_of(&root, &page, text);
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("nowhere.md") && faults[1].contains("gone.rs"), "{faults:?}");
    }

    #[test]
    fn headings_have_anchors() {
        assert_eq!(anchor_of("## If the disk is full, then...").as_deref(), Some("if-the-disk-is-full-then"));
        assert_eq!(anchor_of("#hashtag"), None);
        assert_eq!(anchor_of("text"), None);
    }
}
