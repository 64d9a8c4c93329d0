//! The table for readers: `docs/internals/bug-zoo.md`.

use super::rows::{Catcher, LATER, ZOO, package_in};
use crate::docs::head;

/// The page.
pub fn page() -> String {
    let mut page = head("The bug zoo", "crates/xtask/src/zoo/rows.rs");
    page.push_str(INTRODUCTION);
    page.push_str("| Bug | Where it was seen | What it does | Caught by | Command |\n|---|---|---|---|---|\n");
    for row in ZOO {
        let tests: Vec<String> = row.catchers().iter().map(caught_by).collect();
        page.push_str(&format!(
            "| `{bug}` | {} | {} | {} | `cargo xtask zoo {bug}` |\n",
            row.seen,
            row.does,
            tests.join("; "),
            bug = row.bug,
        ));
    }
    page.push_str(&format!("\n{} rows.\n\n## Not yet\n\n{NOT_YET}", ZOO.len()));
    page.push_str("| Bug | What it does | When |\n|---|---|---|\n");
    for (bug, does, when) in LATER {
        page.push_str(&format!("| {bug} | {does} | {when} |\n"));
    }
    page
}

fn caught_by(test: &Catcher) -> String {
    let tests = if test.target == "lib" { String::new() } else { format!(", tests `{}`", test.target) };
    format!("`{}`{tests}: `{}`", package_in(test.package), test.test)
}

const INTRODUCTION: &str = "\
A test that has never failed proves little. So bugs that other schedulers have had, and mistakes that the usual sketches
of such a system make (S1 to S14), are planted here again, each where it would really live, and each is caught by a test
that is named beside it. `cargo xtask zoo` runs them all: every test twice, without the bug (it must pass) and with it (it must
fail, by its own judgement and not by running out of time). `cargo xtask test` does so too; there the run without the bug is the one that all tests have.

Rules that all stores share stand once, in `store/src/core`; a bug of such a rule is caught through every store.

A bug is one `if` in the source, `planted(Bug(\"name\"))`, with the story beside it. In the product `planted` is a constant
`false`, and nothing is left of it; test builds have the feature `faults`, which the test kit asks for, and choose a bug by
the variable `CAMPANILE_BUG`. So any other test can be tried against any bug:

```sh
CAMPANILE_BUG=wheel-modulo cargo test -p campanile-engine
```

Where it was seen is a project and the number of an issue or a change in its tracker. `cargo xtask docs` writes this page
from the table that is run.

";

const NOT_YET: &str = "\
These concern what Campanile does not have yet. They belong to it from the first day.

";

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_is_the_table() {
        let committed = crate::read("docs/internals/bug-zoo.md").unwrap();
        assert_eq!(committed, super::page(), "run `cargo xtask docs`");
    }
}
