//! Which programs have the tests: what cargo says when it builds them.

use super::rows::{Catcher, Row, ZOO, package_in};
use crate::steps;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Programs with tests.
pub struct Binaries(Vec<Binary>);

struct Binary {
    package: String,
    target: String,
    program: PathBuf,
}

/// Builds the tests that these rows name. The packages are always the same, so that what they have in common is built
/// once whichever bug is asked for; the test kit is among them, because it asks for the bugs.
pub fn of_rows(rows: &[&Row]) -> Result<Binaries, String> {
    let packages: BTreeSet<&str> = ZOO.iter().map(|row| row.package).chain(["testkit"]).collect();
    let mut selected: Vec<String> =
        packages.iter().map(|package| format!("--package={}", package_in(package))).collect();
    let targets: BTreeSet<&str> = rows.iter().flat_map(|row| row.catchers()).map(|test| test.target).collect();
    selected.extend(targets.iter().map(|target| match *target {
        "lib" => "--lib".to_owned(),
        file => format!("--test={file}"),
    }));
    build(selected)
}

/// Builds the tests of the whole workspace, as `cargo test --workspace` does: after that, there is nothing to build.
pub fn of_workspace() -> Result<Binaries, String> {
    build(vec!["--workspace".into()])
}

fn build(selected: Vec<String>) -> Result<Binaries, String> {
    let mut arguments = vec!["test", "--no-run", "--message-format=json-render-diagnostics"];
    arguments.extend(selected.iter().map(String::as_str));
    let messages = steps::cargo_output(&arguments)?;
    Ok(Binaries(messages.lines().filter_map(read).collect()))
}

impl Binaries {
    /// The program with this test.
    pub fn find(&self, test: &Catcher) -> Result<&Path, String> {
        let found =
            self.0.iter().find(|binary| binary.package == package_in(test.package) && binary.target == test.target);
        found.map(|binary| &*binary.program).ok_or_else(|| format!("no tests `{}` of {}", test.target, test.package))
    }
}

/// A message of cargo about a program with tests. Only what we need of it is read, by the order in which cargo writes it.
fn read(message: &str) -> Option<Binary> {
    let text = |name: &str, from: &str| {
        let (_, rest) = from.split_once(&format!("\"{name}\":\""))?;
        rest.split_once('"').map(|(text, _)| text.to_owned())
    };
    let (_, target) = message.split_once("\"target\":")?;
    let program = text("executable", message)?;
    // Of the profile; an example has one without.
    let is_test = message.contains("\"test\":true},\"features\"");
    let package = text("package_id", message)?;
    let (_, package) = package.split_once('#')?;
    let (package, _) = package.split_once('@').filter(|(package, _)| package.starts_with("campanile"))?;
    let target = match target.starts_with("{\"kind\":[\"test\"]") {
        true => text("name", target)?,
        false if target.starts_with("{\"kind\":[\"lib\"]") => "lib".to_owned(),
        false => return None,
    };
    is_test.then(|| Binary { package: package.to_owned(), target, program: program.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let message = |kind: &str, name: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///c/crates/model#campanile-model@0.1.0","manifest_path":"/c/Cargo.toml","target":{{"kind":["{kind}"],"crate_types":["lib"],"name":"{name}","test":true}},"profile":{{"opt_level":"1","test":true}},"features":[],"executable":{executable}}}"#
            )
        };
        let lib = read(&message("lib", "campanile_model", "\"/t/model-1\"")).unwrap();
        assert_eq!((&*lib.package, &*lib.target, &*lib.program), ("campanile-model", "lib", Path::new("/t/model-1")));
        assert_eq!(read(&message("test", "oracle", "\"/t/oracle-1\"")).unwrap().target, "oracle");
        assert!(read(&message("lib", "campanile_model", "null")).is_none(), "the library itself");
        assert!(read(&message("example", "demo", "\"/t/demo\"")).is_none());
        assert!(read("   Compiling campanile-model").is_none());
    }
}
