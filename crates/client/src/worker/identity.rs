//! The name of a worker that was given none.

use super::backoff::random;

/// Host, process and chance: new with every start, so that leases of a former life are not taken for our own.
pub(super) fn worker_id() -> String {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    format!("{host}-{}-{:06x}", std::process::id(), random() & 0xff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_lives_have_the_same_name() {
        assert_ne!(worker_id(), worker_id());
    }
}
