//! Partitions and migrations on a real PostgreSQL, as seen from outside: opening makes them, and any number may open
//! at once.

mod schema;

use campanile_model::error::Kind;
use campanile_model::ids::{ExecutionId, JobId, TenantId};
use campanile_model::store::Reads;
use campanile_model::time::Timestamp;
use campanile_pg::{Options, Pool, Uuid};
use campanile_store::postgres::PostgresStore;
use schema::Schema;

const DAY_MS: i64 = 86_400_000;
const TABLES: [&str; 6] = ["executions", "history", "attempts", "responses", "progress", "logs"];

async fn numbers(pool: &Pool, sql: &str) -> Vec<i64> {
    pool.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

async fn number(pool: &Pool, sql: &str) -> i64 {
    numbers(pool, sql).await[0]
}

async fn today(pool: &Pool) -> i64 {
    number(pool, "SELECT floor(extract(epoch FROM now()) / 86400)::int8").await
}

async fn partitions(pool: &Pool, table: &str) -> Vec<i64> {
    let sql = format!(
        "SELECT substring(c.relname FROM '_d([0-9]+)$')::int8 FROM pg_inherits JOIN pg_class AS c ON c.oid = inhrelid
         WHERE inhparent = '{table}'::regclass AND c.relname ~ '_d[0-9]+$' ORDER BY 1"
    );
    numbers(pool, &sql).await
}

/// A row in each of the tables, of an execution at this instant.
async fn put(pool: &Pool, at: i64) -> ExecutionId {
    let at = Timestamp::from_millis(at);
    let job = JobId::new(at, 0, 7);
    let id = ExecutionId::scheduled(TenantId::DEFAULT, job, at);
    for sql in [
        "INSERT INTO executions (id, tenant, job_id, job_version, fire_at, kind, state, attempt, fence, priority, pool,
                                 action, wake_at, fired_at, target, overlap, deliveries, losses, attempts_from, watched)
         VALUES ($1, 1, $1, 1, 0, 0, 4, 0, 0, 2, 'short', 0, 0, 0, '', 0, 0, 0, 0, 0)",
        "INSERT INTO history (job_id, execution_id) VALUES ($1, $1)",
        "INSERT INTO attempts (execution_id, fence, tenant, attempt, started_at, finished_at, outcome)
         VALUES ($1, 1, 1, 1, 0, 0, 0)",
        "INSERT INTO responses (execution_id, fence, tenant, status, truncated, body)
         VALUES ($1, 1, 1, 200, false, '')",
        "INSERT INTO progress (execution_id, fence, at) VALUES ($1, 1, 0)",
        "INSERT INTO logs (execution_id, seq, fence, at, level, message) VALUES ($1, 1, 1, 0, '', '')",
    ] {
        pool.execute(sql, &[&Uuid::from(id)]).await.unwrap();
    }
    id
}

#[tokio::test]
async fn rows_land_in_the_partition_of_their_day() {
    let schema = Schema::new();
    let options = schema.options();
    PostgresStore::open(&options).await.unwrap();
    let pool = Pool::new(&options).unwrap();
    let today = today(&pool).await;
    for table in TABLES {
        assert_eq!(partitions(&pool, table).await, (today - 1..=today + 7).collect::<Vec<_>>(), "{table}");
    }
    // The first and the last instant of a day, and days without partitions.
    for at in [today * DAY_MS, (today + 1) * DAY_MS - 1, (today + 7) * DAY_MS, (today + 8) * DAY_MS, 0] {
        put(&pool, at).await;
    }
    for table in TABLES {
        for (partition, rows) in [
            (format!("d{today}"), 2),
            (format!("d{}", today + 7), 1),
            ("rest".to_owned(), 2),
            (format!("d{}", today + 1), 0),
        ] {
            assert_eq!(
                number(&pool, &format!("SELECT count(*) FROM {table}_{partition}")).await,
                rows,
                "{table}_{partition}"
            );
        }
    }
}

#[tokio::test]
async fn a_new_partition_takes_its_rows_out_of_the_default_one() {
    let schema = Schema::new();
    let options = schema.options();
    PostgresStore::open(&options).await.unwrap();
    let pool = Pool::new(&options).unwrap();
    let today = today(&pool).await;
    for table in TABLES {
        pool.execute(&format!("DROP TABLE {table}_d{}", today + 3), &[]).await.unwrap();
    }
    let at = (today + 3) * DAY_MS + 5;
    let id = put(&pool, at).await;
    put(&pool, (today + 30) * DAY_MS).await;
    for table in TABLES {
        assert_eq!(number(&pool, &format!("SELECT count(*) FROM {table}_rest")).await, 2);
    }
    PostgresStore::open(&options).await.unwrap();
    for table in TABLES {
        assert_eq!(number(&pool, &format!("SELECT count(*) FROM {table}_d{}", today + 3)).await, 1, "{table}");
        assert_eq!(number(&pool, &format!("SELECT count(*) FROM {table}_rest")).await, 1, "{table}");
    }
    let found = pool.query("SELECT id FROM executions WHERE id = $1", &[&Uuid::from(id)]).await.unwrap();
    assert_eq!(found.len(), 1);
    // The new partition has the indexes of the others.
    let indexes = |partition: String| {
        let pool = pool.clone();
        async move {
            number(
                &pool,
                &format!(
                    "SELECT count(*) FROM pg_indexes WHERE schemaname = current_schema AND tablename = '{partition}'"
                ),
            )
            .await
        }
    };
    assert_eq!(indexes(format!("executions_d{}", today + 3)).await, indexes("executions_rest".into()).await);
}

#[tokio::test]
async fn many_may_open_an_installation_at_once() {
    let schema = Schema::new();
    let options = Options { connections: 2, ..schema.options() };
    let opening: Vec<_> = (0..6)
        .map(|n| {
            let options = Options { node: format!("node:test-{n}"), ..options.clone() };
            tokio::spawn(async move { PostgresStore::open(&options).await.map(|_| ()) })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
    let pool = Pool::new(&options).unwrap();
    assert_eq!(numbers(&pool, "SELECT number FROM schema_migrations ORDER BY 1").await, [1]);
    // Who held a table for long has left partitions to the next look.
    PostgresStore::open(&options).await.unwrap();
    for table in TABLES {
        assert_eq!(partitions(&pool, table).await.len(), 9, "{table}");
    }
}

#[tokio::test]
async fn partitions_are_made_while_others_write() {
    let schema = Schema::new();
    let options = schema.options();
    PostgresStore::open(&options).await.unwrap();
    let pool = Pool::new(&options).unwrap();
    let today = today(&pool).await;
    for table in TABLES {
        pool.execute(&format!("DROP TABLE {table}_d{}", today + 1), &[]).await.unwrap();
    }
    // Into the day that is being made, all the time.
    let writing = tokio::spawn({
        let pool = pool.clone();
        async move {
            for n in 0..200 {
                put(&pool, (today + 1) * DAY_MS + n).await;
            }
        }
    });
    PostgresStore::open(&options).await.unwrap();
    writing.await.unwrap();
    for table in TABLES {
        assert_eq!(number(&pool, &format!("SELECT count(*) FROM {table}")).await, 200, "{table}");
        assert_eq!(number(&pool, &format!("SELECT count(*) FROM {table}_d{}", today + 1)).await, 200, "{table}");
        assert_eq!(number(&pool, &format!("SELECT count(*) FROM {table}_rest")).await, 0, "{table}");
    }
}

#[tokio::test]
async fn a_node_starts_although_somebody_holds_a_table_for_long() {
    let schema = Schema::new();
    let options = schema.options();
    PostgresStore::open(&options).await.unwrap();
    let pool = Pool::new(&options).unwrap();
    let today = today(&pool).await;
    pool.execute(&format!("DROP TABLE logs_d{}", today + 7), &[]).await.unwrap();
    let mut holder = pool.get().await.unwrap();
    let held = holder.transaction().await.unwrap();
    held.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0; LOCK TABLE logs_rest IN ACCESS SHARE MODE")
        .await
        .unwrap();
    let store = PostgresStore::open(&options).await.unwrap();
    assert_eq!(partitions(&pool, "logs").await.len(), 8);
    put(&pool, (today + 7) * DAY_MS).await;
    assert_eq!(number(&pool, "SELECT count(*) FROM logs_rest").await, 1);
    held.rollback().await.unwrap();
    drop(store);
    PostgresStore::open(&options).await.unwrap();
    assert_eq!(partitions(&pool, "logs").await.len(), 9);
    assert_eq!(number(&pool, "SELECT count(*) FROM logs_rest").await, 0);
}

#[tokio::test]
async fn what_is_not_ours_or_newer_is_left_untouched() {
    let schema = Schema::new();
    let options = schema.options();
    let pool = Pool::new(&options).unwrap();
    let refused = || async {
        let error = PostgresStore::open(&options).await.map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), Kind::Conflict, "{error}");
        error.code()
    };
    let schema = &options.schema;
    // One that is empty is taken; whoever may not make schemas was given it.
    pool.execute(&format!("CREATE SCHEMA {schema}"), &[]).await.unwrap();
    pool.execute(&format!("CREATE TABLE {schema}.accounts (id int8)"), &[]).await.unwrap();
    assert_eq!(refused().await, "store_foreign");
    // Another tool's table of that name does not make it ours.
    pool.execute(&format!("CREATE TABLE {schema}.schema_migrations (version int8, dirty bool)"), &[]).await.unwrap();
    assert_eq!(refused().await, "store_foreign");
    pool.execute(&format!("DROP TABLE {schema}.accounts"), &[]).await.unwrap();
    pool.execute(&format!("DROP TABLE {schema}.schema_migrations"), &[]).await.unwrap();
    let store = PostgresStore::open(&options).await.unwrap();
    let status = store.status().await.unwrap();
    assert_eq!((status.kind.as_str(), status.schema, status.jobs), ("postgres", 1, 0));
    assert!(status.bytes > 0 && status.location.ends_with(&format!("schema {schema}")), "{status:?}");
    pool.execute("INSERT INTO schema_migrations (number) VALUES (99)", &[]).await.unwrap();
    assert_eq!(refused().await, "store_newer");
}
