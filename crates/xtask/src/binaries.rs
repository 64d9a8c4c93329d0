//! Which programs have the tests: what cargo says when it builds them.

use crate::steps;
use std::path::{Path, PathBuf};

/// Programs with tests.
pub struct Binaries(Vec<Binary>);

/// A program with tests.
pub struct Binary {
    /// Its package.
    pub package: String,
    /// The folder of its package.
    pub folder: PathBuf,
    /// `lib` or `bin` for the tests beside the code, otherwise the name of a file in `tests/`.
    pub target: String,
    /// Where it is.
    pub program: PathBuf,
}

/// Builds the tests of the whole workspace, as `cargo test --workspace` does: after that, there is nothing to build.
pub fn of_workspace() -> Result<Binaries, String> {
    build(vec!["--workspace".into()])
}

/// Builds the tests that cargo selects by these words.
pub fn build(selected: Vec<String>) -> Result<Binaries, String> {
    let mut arguments = vec!["test", "--no-run", "--message-format=json-render-diagnostics"];
    arguments.extend(selected.iter().map(String::as_str));
    let messages = steps::cargo_output(&arguments)?;
    Ok(Binaries(messages.lines().filter_map(read).collect()))
}

impl Binaries {
    /// All of them.
    pub fn all(self) -> Vec<Binary> {
        self.0
    }

    /// The program of a package with these tests.
    pub fn find(&self, package: &str, target: &str) -> Result<&Path, String> {
        let found = self.0.iter().find(|binary| binary.package == package && binary.target == target);
        found.map(|binary| &*binary.program).ok_or_else(|| format!("no tests `{target}` of {package}"))
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
    let (id, version) = package.split_once('#')?;
    // Where the folder has the name of the package, it stands for that.
    let package = match version.split_once('@') {
        Some((name, _)) => name,
        None => id.rsplit('/').next()?,
    };
    let ours = package.starts_with("campanile") || package == "xtask";
    let manifest = PathBuf::from(text("manifest_path", message)?);
    let folder = manifest.parent().filter(|_| ours)?.to_owned();
    let target = match target.starts_with("{\"kind\":[\"test\"]") {
        true => text("name", target)?,
        false if target.starts_with("{\"kind\":[\"lib\"]") => "lib".to_owned(),
        false if target.starts_with("{\"kind\":[\"bin\"]") => "bin".to_owned(),
        false => return None,
    };
    is_test.then(|| Binary { package: package.to_owned(), folder, target, program: program.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let message = |kind: &str, name: &str, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///c/crates/model#campanile-model@0.1.0","manifest_path":"/c/crates/model/Cargo.toml","target":{{"kind":["{kind}"],"crate_types":["lib"],"name":"{name}","test":true}},"profile":{{"opt_level":"1","test":true}},"features":[],"executable":{executable}}}"#
            )
        };
        let lib = read(&message("lib", "campanile_model", "\"/t/model-1\"")).unwrap();
        assert_eq!((&*lib.package, &*lib.target, &*lib.program), ("campanile-model", "lib", Path::new("/t/model-1")));
        assert_eq!(lib.folder, Path::new("/c/crates/model"));
        assert_eq!(read(&message("bin", "campanile", "\"/t/campanile-1\"")).unwrap().target, "bin");
        assert_eq!(read(&message("test", "oracle", "\"/t/oracle-1\"")).unwrap().target, "oracle");
        let own = message("bin", "xtask", "\"/t/xtask-1\"").replace("model#campanile-model@0.1.0", "xtask#0.1.0");
        assert_eq!(read(&own).unwrap().package, "xtask", "a folder with the name of its package");
        assert!(read(&message("lib", "campanile_model", "null")).is_none(), "the library itself");
        assert!(read(&message("example", "demo", "\"/t/demo\"")).is_none());
        assert!(read("   Compiling campanile-model").is_none());
    }
}
