//! Throw-away databases.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use docket_engine::{BlobConfig, PostgresConfig, StoreConfig};
use tempfile::TempDir;
use tokio_postgres::NoTls;

/// A database of its own for one test, with a folder for files.
#[derive(Clone, Debug)]
pub struct Database {
    folder: Arc<TempDir>,
    /// The URL, for PostgreSQL.
    pub url: Option<String>,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl Database {
    /// An empty folder for SQLite.
    pub fn sqlite() -> Self {
        Self {
            folder: Arc::new(tempfile::tempdir().expect("a temporary folder")),
            url: None,
        }
    }

    /// An empty database of the cluster that `scripts/with-postgres` has started.
    pub async fn postgres() -> Self {
        let cluster = std::env::var("DOCKET_TEST_POSTGRES").expect(
            "DOCKET_TEST_POSTGRES is not set: run the tests by `make test`, or one of them by \
             `scripts/with-postgres cargo test -p docket-testkit NAME`",
        );
        Self::postgres_on(&cluster).await
    }

    /// An empty database of the cluster at this URL.
    pub async fn postgres_on(cluster: &str) -> Self {
        let name = format!(
            "docket_{}_{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let (client, connection) = tokio_postgres::connect(cluster, NoTls)
            .await
            .expect("the test cluster answers");
        let driver = tokio::spawn(connection);
        client
            .batch_execute(&format!("create database {name}"))
            .await
            .expect("a database can be made");
        drop(client);
        driver
            .await
            .expect("the connection ends")
            .expect("the connection ends well");
        let (base, _) = cluster.rsplit_once('/').expect("the URL names a database");
        Self {
            url: Some(format!("{base}/{name}")),
            ..Self::sqlite()
        }
    }

    /// How a store opens it.
    pub fn store_config(&self) -> StoreConfig {
        match &self.url {
            None => StoreConfig::Sqlite(self.folder.path().join("data")),
            Some(url) => StoreConfig::Postgres(PostgresConfig::new(url)),
        }
    }

    /// Where its files go.
    pub fn blob_config(&self) -> BlobConfig {
        BlobConfig::Folder(self.blob_folder())
    }

    /// The folder of its files.
    pub fn blob_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("blobs")
    }

    /// The folder of a SQLite database.
    pub fn data_folder(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    /// Changes the database directly, past any engine; what the database said where it refused.
    pub async fn execute(&self, sql: &str) -> Result<(), String> {
        match &self.url {
            None => {
                let file = self.data_folder().join("docket.db");
                let connection = rusqlite::Connection::open(file).expect("the file opens");
                connection.execute_batch(sql).map_err(|error| error.to_string())
            }
            Some(url) => {
                let (client, connection) = tokio_postgres::connect(url, NoTls)
                    .await
                    .expect("the test cluster answers");
                let driver = tokio::spawn(connection);
                let said = client.batch_execute(sql).await;
                drop(client);
                driver.await.expect("the connection ends").ok();
                said.map_err(|error| {
                    error
                        .as_db_error()
                        .map_or_else(|| error.to_string(), |refused| refused.message().to_owned())
                })
            }
        }
    }
}
