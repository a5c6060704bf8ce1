//! TLS to PostgreSQL: by what the URL says, to a server with a certificate that is made here.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::time::Duration;

use docket_engine::{Engine, EngineConfig, PostgresConfig, StoreConfig};
use docket_testkit::{Cluster, Database, Plain};

/// An authority, and a certificate by it for `localhost`. The server makes them itself: its key has to be its own.
const CERTIFICATE: &str = "cat >/dev/null; umask 077; new='openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'; \
     $new -x509 -subj /CN=authority -keyout ca.key -out ca.crt && $new -subj /CN=localhost -keyout server.key -out server.csr \
     && echo subjectAltName=DNS:localhost > server.ext \
     && openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext -out server.crt";

/// Turns TLS on, and keeps the authority's certificate here.
async fn turn_on(database: &Database, authority: &Path) {
    let make = format!("copy (select 1) to program $make$({CERTIFICATE}) >openssl.log 2>&1$make$");
    database.execute(&make).await.unwrap();
    let plain = Plain::of(database);
    let certificate = plain.rows("select pg_read_file('ca.crt')").await;
    std::fs::write(authority, &certificate[0][0]).unwrap();
    database.execute("alter system set ssl = on").await.unwrap();
    plain.rows("select pg_reload_conf()").await;
}

async fn open(database: &Database, url: &str) -> Result<Engine, String> {
    let mut postgres = PostgresConfig::new(url);
    (postgres.connections, postgres.hot_connections) = (2, 2);
    let config = EngineConfig::new(StoreConfig::Postgres(postgres), database.blob_config());
    Engine::open(config).await.map_err(|error| error.to_string())
}

/// Opens with these words in the URL; whether the connections are safe, or why there are none.
async fn safe(database: &Database, host: &str, query: &str) -> Result<bool, String> {
    let url = database.url.as_ref().unwrap().replace("127.0.0.1", host);
    let engine = open(database, &format!("{url}?application_name=safe&{query}")).await?;
    let plain = Plain::of(database);
    let safe = "select count(*) filter (where ssl), count(*) filter (where not ssl) \
                from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'safe'";
    let counts = plain.rows(safe).await;
    engine.close();
    drop(engine);
    let gone = "select count(*) from pg_stat_activity where application_name = 'safe'";
    while plain.number(gone).await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let number = |n: usize| counts[0][n].parse::<i64>().unwrap();
    match (number(0), number(1)) {
        (1.., 0) => Ok(true),
        (0, 1..) => Ok(false),
        mixed => panic!("some connections are safe and some are not: {mixed:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_url_says_how_the_database_is_spoken_to() {
    let patience = Duration::from_secs(180);
    tokio::time::timeout(patience, every_mode()).await.unwrap();
}

async fn every_mode() {
    let cluster = Cluster::start("").await;
    let database = cluster.database().await;
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("ca.crt");
    assert_eq!(safe(&database, "127.0.0.1", "sslmode=prefer").await, Ok(false));
    let refused = safe(&database, "127.0.0.1", "sslmode=require").await.unwrap_err();
    assert!(refused.contains("does not support TLS"), "{refused}");

    turn_on(&database, &authority).await;
    // The server reads its settings again in its own time.
    while safe(&database, "127.0.0.1", "sslmode=require").await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let authority = format!("sslrootcert={}", authority.display());
    for (host, query, expected) in [
        ("127.0.0.1", "sslmode=disable".to_owned(), Ok(false)),
        ("127.0.0.1", "sslmode=prefer".to_owned(), Ok(true)),
        ("127.0.0.1", format!("sslmode=require&{authority}"), Ok(true)),
        ("localhost", format!("sslmode=verify-full&{authority}"), Ok(true)),
        ("127.0.0.1", format!("sslmode=verify-ca&{authority}"), Ok(true)),
        (
            "127.0.0.1",
            format!("sslmode=verify-full&{authority}"),
            Err("not valid for name"),
        ),
        (
            "localhost",
            "sslmode=verify-full&sslrootcert=system".to_owned(),
            Err("UnknownIssuer"),
        ),
        ("localhost", "sslmode=verify-ca".to_owned(), Err("UnknownIssuer")),
    ] {
        match (safe(&database, host, &query).await, expected) {
            (Err(problem), Err(words)) => assert!(problem.contains(words), "{query}: {problem}"),
            (Ok(is), Ok(expected)) => assert_eq!(is, expected, "{query}"),
            (found, expected) => panic!("{host} {query}: {found:?} instead of {expected:?}"),
        }
    }
}
