//! The database without Docket: what tests read and damage by plain SQL, on a connection of their own.
//!
//! Every value comes back as text, so that one query serves both databases.

use std::path::PathBuf;
use std::time::Duration;

use tokio_postgres::{NoTls, SimpleQueryMessage};

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
