//! TLS to a real server: used where it is asked for, and only with a certificate that we can check.
//!
//! The keys in `tls/` belong to an authority that was thrown away, and open nothing but this test.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use campanile_pg::{Options, Pool};
use campanile_testkit::postgres::private::PrivatePostgres;
use std::path::PathBuf;

/// A file beside this test.
fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tls").join(name)
}

/// Puts a file into the server's data directory, as the server.
async fn place(pool: &Pool, name: &str) {
    let content = STANDARD.encode(std::fs::read(file(name)).unwrap());
    let sql = format!("COPY (SELECT '{content}') TO PROGRAM 'umask 077 && base64 -d > {name}'");
    pool.execute(&sql, &[]).await.unwrap();
}

#[tokio::test]
async fn a_server_is_talked_to_by_tls_and_its_certificate_is_checked() {
    let server = PrivatePostgres::start();
    let options = |url: &str| Options { schema: "public".into(), ..Options::new(url, "node:tls") };
    let plain = Pool::new(&options(server.url())).unwrap();
    for name in ["server.pem", "server.key"] {
        place(&plain, name).await;
    }
    for sql in [
        "ALTER SYSTEM SET ssl_cert_file = 'server.pem'",
        "ALTER SYSTEM SET ssl_key_file = 'server.key'",
        "ALTER SYSTEM SET ssl = on",
        "SELECT pg_reload_conf()",
    ] {
        plain.execute(sql, &[]).await.unwrap();
    }
    let by_name = server.url().replace("127.0.0.1", "localhost") + "?sslmode=require";
    let trusting = Options { ca_file: Some(file("ca.pem")), ..options(&by_name) };
    let is_tls = async |pool: &Pool| {
        let rows = pool.query("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).await?;
        Ok::<bool, campanile_model::Error>(rows[0].get(0))
    };
    // It takes the server a moment to read its settings again.
    let trusted = Pool::new(&trusting).unwrap();
    let mut answer = is_tls(&trusted).await;
    for _ in 0..100 {
        if answer.is_ok() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        answer = is_tls(&trusted).await;
    }
    assert!(answer.unwrap());
    assert!(!is_tls(&plain).await.unwrap(), "on this host nobody asked for it");
    let stranger = Pool::new(&options(&by_name)).unwrap();
    let refused = is_tls(&stranger).await.unwrap_err();
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
    let by_number = Options { url: server.url().to_owned() + "?sslmode=require", ..trusting };
    let refused = is_tls(&Pool::new(&by_number).unwrap()).await.unwrap_err();
    assert!(refused.to_string().contains("127.0.0.1") || refused.to_string().contains("NotValidForName"), "{refused}");
}
