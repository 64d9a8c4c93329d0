//! Where tests find PostgreSQL: the real one, in a schema of their own.

pub mod private;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The variable that names the server: a URL of a database in which tests may make and drop schemas.
pub const VARIABLE: &str = "CAMPANILE_TEST_POSTGRES";

/// How the schemas of tests start. `cargo xtask test` drops what is left of them.
pub const SCHEMA_PREFIX: &str = "campanile_test_";

/// The database for tests. A test that needs it fails where there is none.
pub fn url() -> String {
    match std::env::var(VARIABLE) {
        Ok(url) if !url.is_empty() => url,
        _ => panic!(
            "this test needs PostgreSQL: run it by `cargo xtask test`, which starts one, or set {VARIABLE} to \
             postgres://user@host:port/database (`cargo xtask postgres` runs one and says where)"
        ),
    }
}

/// A name that no other test has.
pub fn schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    #[allow(clippy::disallowed_methods, reason = "names must differ between runs")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{SCHEMA_PREFIX}{now:x}_{:x}_{next:x}", std::process::id())
}
