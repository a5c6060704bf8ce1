//! The database without Docket: what tests read and damage by plain SQL, on a connection of their own.
//!
//! Every value comes back as text, so that one query serves both databases.

mod earlier;

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::Database;

/// The database without Docket: plain SQL on a connection of its own.
#[derive(Clone, Debug)]
pub enum Plain {
    /// The file.
    Sqlite(PathBuf),
    /// The URL.
    Postgres(String),
}

impl Plain {
    /// The way to this database.
    pub fn of(database: &Database) -> Self {
        match &database.url {
            None => Self::Sqlite(database.data_folder().join("docket.db")),
            Some(url) => Self::Postgres(url.clone()),
        }
    }

    /// Runs statements and reads the rows of the last, as text. Ids and digests are plain hexadecimal digits; null is nothing.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        match self {
            Self::Sqlite(file) => sqlite_rows(file, sql).expect("SQLite answers"),
            Self::Postgres(url) => postgres_rows(url, sql).await.expect("PostgreSQL answers"),
        }
    }

    /// The same for a single number.
    pub async fn number(&self, sql: &str) -> i64 {
        let rows = self.rows(sql).await;
        rows[0][0].parse().expect("a number")
    }

    /// Runs statements.
    pub async fn execute(&self, sql: &str) {
        match self {
            Self::Sqlite(file) => rusqlite::Connection::open(file)
                .and_then(|connection| connection.execute_batch(sql))
                .expect("SQLite answers"),
            Self::Postgres(url) => {
                postgres_rows(url, sql).await.expect("PostgreSQL answers");
            }
        }
    }

    /// Runs statements that the log's own triggers forbid, as somebody could who has the database in hand.
    pub async fn execute_unguarded(&self, sql: &str) {
        let unguarded = match self {
            Self::Sqlite(_) => {
                "drop trigger if exists log_no_update; drop trigger if exists log_no_delete; drop trigger if exists log_no_replace;
                 drop trigger if exists seal_no_update; drop trigger if exists seal_no_delete; drop trigger if exists seal_no_replace"
            }
            Self::Postgres(_) => "set session_replication_role = replica",
        };
        self.execute(&format!("{unguarded}; {sql}")).await;
    }

    /// An id or a digest as SQL names it, from its digits as [`Plain::rows`] gives them.
    pub fn id(&self, digits: &str) -> String {
        match self {
            Self::Sqlite(_) => format!("x'{digits}'"),
            Self::Postgres(_) => format!("'{digits}'"),
        }
    }

    /// Yes or no as SQL says it.
    pub fn truth(&self, yes: bool) -> &'static str {
        match (self, yes) {
            (Self::Sqlite(_), true) => "1",
            (Self::Sqlite(_), false) => "0",
            (Self::Postgres(_), true) => "true",
            (Self::Postgres(_), false) => "false",
        }
    }

    /// What an insert says before its values where it gives a row a number that the database would count.
    pub fn with_number(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "",
            Self::Postgres(_) => "overriding system value",
        }
    }

    /// Begins a transaction, runs statements in it and leaves it open. Only PostgreSQL lets others go on beside it.
    pub async fn begin(&self, sql: &str) -> Begun {
        let Self::Postgres(url) = self else {
            panic!("SQLite has one writer");
        };
        let (client, connection) = tokio_postgres::connect(url, NoTls)
            .await
            .expect("PostgreSQL answers");
        let driver = tokio::spawn(connection);
        let begun = client.batch_execute(&format!("begin; {sql}")).await;
        begun.expect("PostgreSQL takes the statements");
        Begun { client, driver }
    }

    /// Waits until so many transactions of the database wait for a lock.
    pub async fn until_waiting(&self, n: i64) {
        let sql = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
        for _ in 0..500 {
            if self.number(sql).await >= n {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("fewer than {n} wait for a lock");
    }
}

/// A transaction that somebody has left open.
#[derive(Debug)]
pub struct Begun {
    client: Client,
    driver: JoinHandle<Result<(), tokio_postgres::Error>>,
}

impl Begun {
    /// Ends it; those who waited for it go on.
    pub async fn commit(self) {
        let committed = self.client.batch_execute("commit").await;
        committed.expect("PostgreSQL commits");
        drop(self.client);
        self.driver.await.expect("the connection ends").ok();
    }
}

fn sqlite_rows(file: &std::path::Path, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|column| {
                Ok(match row.get_ref(column)? {
                    rusqlite::types::ValueRef::Null => String::new(),
                    rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                    rusqlite::types::ValueRef::Real(n) => n.to_string(),
                    rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                    rusqlite::types::ValueRef::Blob(bytes) => {
                        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
                    }
                })
            })
            .collect()
    })?;
    rows.collect()
}

async fn postgres_rows(url: &str, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let driver = tokio::spawn(connection);
    let messages = client.simple_query(sql).await?;
    drop(client);
    driver.await?.ok();
    let plain = |text: &str| match text.strip_prefix("\\x") {
        Some(hex) => hex.to_owned(),
        // A UUID has 36 characters with dashes at known places.
        None if text.len() == 36 && text.matches('-').count() == 4 => text.replace('-', ""),
        None => text.to_owned(),
    };
    Ok(messages
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(
                (0..row.len())
                    .map(|column| row.get(column).map(plain).unwrap_or_default())
                    .collect(),
            ),
            _ => None,
        })
        .collect())
}
