//! A server that stands still: nobody waits for it for ever, and its connection is not given to anybody else.

use campanile_model::Kind;
use campanile_pg::{Options, Pool};
use campanile_testkit::postgres::private::PrivatePostgres;
use std::process::Command;

/// Sends a signal to one of the server's processes.
fn signal(name: &str, pid: i32) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

async fn pid(pool: &Pool) -> i32 {
    pool.query("SELECT pg_backend_pid()", &[]).await.unwrap()[0].get(0)
}

#[tokio::test]
async fn a_connection_that_stands_still_is_thrown_away() {
    let server = PrivatePostgres::start();
    let options = Options { connections: 1, statement_ms: 100, ..Options::new(server.url(), "node:test") };
    let pool = Pool::new(&options).unwrap();

    let first = pid(&pool).await;
    signal("STOP", first);
    let error = pool.query("SELECT 1", &[]).await.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "store_unreachable"), "{error}");
    let second = pid(&pool).await;
    assert_ne!(second, first, "the only place in the pool is free again, for another");

    // In a transaction that has not come to its commit: nothing of it happened.
    let stop_within = async |pid: &i32| {
        pool.write(pid, |tx, pid| {
            Box::pin(async move {
                signal("STOP", *pid);
                tx.batch("SELECT 1").await
            })
        })
        .await
    };
    let written = stop_within(&second).await;
    let error = written.unwrap_err();
    assert_eq!((error.kind(), error.code()), (Kind::Unavailable, "store_unreachable"), "{error}");
    assert_ne!(pid(&pool).await, second);
    // So that the server can end.
    [first, second].into_iter().for_each(|pid| signal("CONT", pid));
}
