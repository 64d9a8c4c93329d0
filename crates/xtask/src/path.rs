//! The engine's folder is the path: its steps are numbered alike in `lib.rs`, in the heads of their files and in ARCHITECTURE.md, and
//! none uses a step before it, but where work is pulled. What is shared uses no step at all; what starts and forwards (`TOP`) may use everything.

use crate::{read, root};
use std::path::Path;

/// Where the steps are.
const FOLDER: &str = "crates/engine/src";
/// What holds all parts together.
const TOP: [&str; 4] = ["lib", "service", "handle", "status"];

/// Who asks the step before it, because there work is pulled and not pushed: whoever has room to run asks what may start.
const PULLS: [(&str, &str); 1] = [("run", "admit")];

/// A module of the engine that is a step.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    number: usize,
    name: String,
}

/// Checks all of it.
pub fn check() -> Result<(), String> {
    let lib = read(&format!("{FOLDER}/lib.rs"))?;
    let (steps, mut faults) = steps(&lib);
    let map = read("ARCHITECTURE.md")?;
    for step in &steps {
        let head = read(&format!("{FOLDER}/{}.rs", step.name))?;
        faults.extend(head_fault(step, &head));
        faults.extend(map_fault(step, &map));
    }
    for module in modules(&lib).filter(|module| !TOP.contains(module)) {
        for (file, text) in sources(module)? {
            faults.extend(use_faults(&steps, module, &text).into_iter().map(|fault| format!("{file}: {fault}")));
        }
    }
    if faults.is_empty() {
        eprintln!("{} steps of the path, numbered alike, and none uses one before it", steps.len());
        return Ok(());
    }
    faults.iter().for_each(|fault| eprintln!("{fault}"));
    Err(format!("{} faults in the path", faults.len()))
}

/// The modules that `lib.rs` names.
fn modules(lib: &str) -> impl Iterator<Item = &str> {
    lib.lines().filter_map(|line| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';')
    })
}

/// The steps that `lib.rs` names, and what is wrong with their numbers.
fn steps(lib: &str) -> (Vec<Step>, Vec<String>) {
    let (mut steps, mut faults) = (Vec::new(), Vec::new());
    let mut titled = None;
    for line in lib.lines() {
        if let Some(rest) = line.strip_prefix("/// Step ") {
            titled = title(rest);
        } else if let (Some(step), Some(module)) = (titled.take_if(|_| line.contains("mod ")), modules(line).next()) {
            if step.name != module || step.number != steps.len() + 1 {
                faults.push(format!(
                    "lib.rs: step {}, {}, is module {} of the path, `{module}`",
                    step.number,
                    step.name,
                    steps.len() + 1
                ));
            }
            steps.push(step);
        }
    }
    (steps, faults)
}

/// `3, load: ...` is step 3, `load`.
fn title(text: &str) -> Option<Step> {
    let (number, rest) = text.split_once(", ")?;
    let (name, _) = rest.split_once(':')?;
    Some(Step { number: number.parse().ok()?, name: name.to_owned() })
}

fn head_fault(step: &Step, text: &str) -> Option<String> {
    let said = text.strip_prefix("//! Step ").and_then(title);
    (said.as_ref() != Some(step))
        .then(|| format!("{}.rs: it does not begin with `//! Step {}, {}:`", step.name, step.number, step.name))
}

fn map_fault(step: &Step, map: &str) -> Option<String> {
    let row = format!("| {} | {} |", step.number, step.name);
    (!map.lines().any(|line| line.starts_with(&row))).then(|| format!("ARCHITECTURE.md: no row begins with `{row}`"))
}

/// A module's files, with their texts.
fn sources(module: &str) -> Result<Vec<(String, String)>, String> {
    let mut files = vec![format!("{FOLDER}/{module}.rs")];
    let folder = format!("{FOLDER}/{module}");
    if Path::new(&root()).join(&folder).is_dir() {
        let entries =
            std::fs::read_dir(root().join(&folder)).map_err(|error| format!("cannot list {folder}: {error}"))?;
        for entry in entries {
            let name = entry.map_err(|error| format!("cannot list {folder}: {error}"))?.file_name();
            files.extend(name.to_str().filter(|name| name.ends_with(".rs")).map(|name| format!("{folder}/{name}")));
        }
    }
    files.sort();
    files.into_iter().map(|file| read(&file).map(|text| (file, text))).collect()
}

/// The steps that a module uses and must not.
fn use_faults(steps: &[Step], module: &str, text: &str) -> Vec<String> {
    let number = |name: &str| steps.iter().find(|step| step.name == name).map(|step| step.number);
    let mut faults = Vec::new();
    for used in used(text) {
        match (number(module), number(used)) {
            (Some(own), Some(other)) if other < own && !PULLS.contains(&(module, used)) => {
                faults.push(format!("`{module}` uses the step `{used}`, which is before it"))
            }
            (None, Some(_)) => faults.push(format!("`{module}` is shared, and uses the step `{used}`")),
            _ if TOP.contains(&used) => {
                faults.push(format!("`{module}` uses `{used}`, which holds the parts together"))
            }
            _ => {}
        }
    }
    faults.dedup();
    faults
}

/// The modules that a text names after `crate::`, also in braces.
fn used(text: &str) -> Vec<&str> {
    let mut used = Vec::new();
    for rest in text.split("crate::").skip(1) {
        let Some(braced) = rest.strip_prefix('{') else {
            used.push(word(rest));
            continue;
        };
        let (mut depth, mut begins) = (0, true);
        for (at, c) in braced.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                c if begins && !c.is_whitespace() => {
                    used.push(word(&braced[at..]));
                    begins = false;
                }
                _ => {}
            }
        }
    }
    used
}

/// The word that a text begins with.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "/// Step 1, accept: a request.\npub mod accept;\n/// Step 2, load: jobs.\npub mod load;\n/// Shared.\nmod held;\n";

    #[test]
    fn steps_are_read_and_their_numbers_compared() {
        let (steps, faults) = steps(LIB);
        assert_eq!(faults, [""; 0]);
        assert_eq!(
            steps.iter().map(|step| (step.number, &*step.name)).collect::<Vec<_>>(),
            [(1, "accept"), (2, "load")]
        );
        assert_eq!(modules(LIB).collect::<Vec<_>>(), ["accept", "load", "held"]);
        assert_eq!(super::steps(&LIB.replace("Step 2", "Step 3")).1.len(), 1);
        assert_eq!(super::steps(&LIB.replace("2, load", "2, fire")).1.len(), 1);
        assert_eq!(head_fault(&steps[1], "//! Step 2, load: jobs.\n"), None);
        assert!(head_fault(&steps[1], "//! Step 3, load: jobs.\n").is_some());
        assert_eq!(map_fault(&steps[0], "x\n| 1 | accept | here |\n"), None);
        assert!(map_fault(&steps[0], "| 2 | accept | here |\n").is_some());
    }

    #[test]
    fn what_a_step_must_not_use_is_found() {
        let steps = steps(LIB).0;
        assert_eq!(used("use crate::{a, b::{c, d}, e};\ncrate::f::g(x)"), ["a", "b", "e", "f"]);
        assert_eq!(use_faults(&steps, "load", "use crate::held::Held;\nuse crate::load::x;"), [""; 0]);
        assert_eq!(use_faults(&steps, "accept", "use crate::load;"), [""; 0], "a later one");
        assert_eq!(use_faults(&steps, "load", "use crate::{held, accept};").len(), 1);
        assert_eq!(use_faults(&steps, "held", "use crate::load::Load;").len(), 1);
        assert_eq!(use_faults(&steps, "load", "crate::handle::Handle").len(), 1);
    }
}
