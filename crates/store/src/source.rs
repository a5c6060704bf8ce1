//! A table of somebody else's database, read page by page in the order of a key: for those who move in.
//!
//! **Invariant:** nothing is written there, and nothing is held open between two pages: each page is one statement of a session that
//! can only read. A page is whole in memory before anything is done with it, and bounded by rows and by bytes.
//!
//! Names are taken apart and quoted by the database itself. Rows come as JSON by the database's own rules, so that every type there
//! is has a form.

use std::pin::pin;
use std::time::Duration;

use docket_core::random::Random as _;
use docket_core::random::SystemRandom;
use futures_util::TryStreamExt as _;
use tokio_postgres::{Client, Config, NoTls};

use crate::error::{Error, Result, chain};
use crate::postgres::connect::{parse, with_options};

/// A page ends with the row that goes beyond this.
const PAGE_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How often a page is asked for when the database is away for a moment.
const ATTEMPTS: u32 = 6;
const RETRY_BASE_MS: u64 = 250;

/// Only reading; times in UTC; no statement for ever.
const OPTIONS: &str = "-c default_transaction_read_only=on -c timezone=UTC -c datestyle=ISO -c statement_timeout=300s \
     -c idle_in_transaction_session_timeout=60s -c jit=off";

/// What is known of a table and its key: names as the database quotes them. The key's type is the one without a length (`bpchar`):
/// `character` is one of length 1, to which a longer key would be cut.
const DESCRIBE: &str = "/* source_describe */
    select quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.reltuples::float8, current_database()::text,
           a.attname::text, quote_ident(a.attname), format_type(a.atttypid, -1), a.attnotnull,
           exists (select 1 from pg_index i where i.indrelid = c.oid and i.indisunique and i.indisvalid and i.indpred is null
                   and i.indnkeyatts = 1 and i.indkey[0] = a.attnum)
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    left join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
         and a.attname in ($2::text, lower($2::text))
    where c.oid = to_regclass($1::text)
    order by (a.attname = $2::text) desc
    limit 1";

/// Which table, and in which order.
#[derive(Clone)]
pub struct SourceConfig {
    /// The database, as `postgres://user@host:5432/name`.
    pub url: String,
    /// The table or view, as SQL names it.
    pub table: String,
    /// The column that identifies a row.
    pub key: String,
    /// Which rows: an SQL condition of the owner's.
    pub filter: Option<String>,
    /// Whether the caller vouches for the key, of which no index says that it is unique.
    pub key_is_unique: bool,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRow {
    /// Its key, as text.
    pub key: String,
    /// The row as a JSON object.
    pub record: String,
}

/// A table to be read.
pub struct Source {
    config: Config,
    client: Option<Client>,
    first: String,
    next: String,
    /// The key's name as records have it.
    pub key: String,
    /// The table, its database and where that is, in words.
    pub described: String,
    /// About how many rows the table has, where the database has counted.
    pub rows: Option<u64>,
}

impl Source {
    /// Looks at the table and its key.
    pub async fn open(source: &SourceConfig) -> Result<Self> {
        let config = with_options(&parse(&source.url)?, OPTIONS);
        let client = connect(&config).await?;
        let found = client
            .query_opt(DESCRIBE, &[&source.table, &source.key])
            .await
            .map_err(Error::postgres("source_describe"))?;
        let missing = || Error::Open(format!("there is no table {} that can be seen", source.table));
        let row = found.ok_or_else(missing)?;
        let text = |column| -> Result<Option<String>> {
            row.try_get(column).map_err(Error::postgres("source_describe"))
        };
        let table = text(0)?.unwrap_or_default();
        let (Some(key), Some(quoted), Some(kind)) = (text(3)?, text(4)?, text(5)?) else {
            return Err(Error::Open(format!(
                "the table {table} has no column '{}'",
                source.key
            )));
        };
        let flag = |column| {
            row.try_get::<_, bool>(column)
                .map_err(Error::postgres("source_describe"))
        };
        let (not_null, unique) = (flag(6)?, flag(7)?);
        if !unique && !source.key_is_unique {
            return Err(Error::Open(format!(
                "no index says that {quoted} of {table} is unique, so rows could be missed; name another key, or vouch for this \
                 one with --key-is-unique"
            )));
        }
        let condition = source.filter.as_ref().map(|filter| format!("(\n{filter}\n)"));
        if !not_null {
            refuse_nulls(&client, &table, &quoted, condition.as_deref()).await?;
        }
        let described = format!(
            "table {table} by {quoted}{} in database {} at {}",
            source
                .filter
                .as_ref()
                .map(|filter| format!(" where {filter}"))
                .unwrap_or_default(),
            text(2)?.unwrap_or_default(),
            place(&config)
        );
        let count: f64 = row.try_get(1).map_err(Error::postgres("source_describe"))?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "an estimate"
        )]
        let rows = (count >= 1.0 && condition.is_none()).then_some(count as u64);
        let after = format!("docket_row.{quoted} > cast($2::text as {kind})");
        Ok(Self {
            first: page_statement(&table, &quoted, condition.iter().cloned()),
            next: page_statement(&table, &quoted, condition.iter().cloned().chain([after])),
            config,
            client: Some(client),
            key,
            described,
            rows,
        })
    }

    /// The rows after this key, in its order: at most `limit`, and fewer where they are large. None are left where none come.
    /// A database that is away for a moment is asked again.
    pub async fn page(&mut self, after: Option<&str>, limit: i64) -> Result<Vec<SourceRow>> {
        let mut attempt = 1;
        loop {
            let error = match self.page_once(after, limit).await {
                Ok(rows) => return Ok(rows),
                Err(error) => error,
            };
            self.client = None;
            if attempt >= ATTEMPTS || !error.is_transient() {
                return Err(error);
            }
            let wait_ms = (RETRY_BASE_MS << attempt) + SystemRandom.below(RETRY_BASE_MS);
            tracing::warn!(error = chain(&error), wait_ms, "the source is asked again");
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            attempt += 1;
        }
    }

    async fn page_once(&mut self, after: Option<&str>, limit: i64) -> Result<Vec<SourceRow>> {
        let client = match self.client.take() {
            Some(client) => self.client.insert(client),
            None => self.client.insert(connect(&self.config).await?),
        };
        let failed = Error::postgres("source_page");
        let asked = match after {
            None => {
                client
                    .query_raw(
                        &self.first,
                        [&limit as &(dyn tokio_postgres::types::ToSql + Sync)],
                    )
                    .await
            }
            Some(after) => {
                client
                    .query_raw(
                        &self.next,
                        [&limit as &(dyn tokio_postgres::types::ToSql + Sync), &after],
                    )
                    .await
            }
        };
        let mut stream = pin!(asked.map_err(failed)?);
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(row) = stream.try_next().await.map_err(Error::postgres("source_page"))? {
            let text = |column| {
                row.try_get::<_, String>(column)
                    .map_err(Error::postgres("source_page"))
            };
            let row = SourceRow {
                key: text(0)?,
                record: text(1)?,
            };
            bytes += row.record.len();
            rows.push(row);
            if bytes > PAGE_BYTES_MAX {
                break;
            }
        }
        Ok(rows)
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Source")
            .field("described", &self.described)
            .finish_non_exhaustive()
    }
}

/// The whole row is named with `.*`: without it, a column that is called as the row is here would be taken instead.
fn page_statement(table: &str, key: &str, conditions: impl Iterator<Item = String>) -> String {
    let conditions: Vec<String> = conditions.collect();
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!("where {}", conditions.join(" and ")),
    };
    format!(
        "/* source_page */ select docket_row.{key}::text, row_to_json(docket_row.*)::text from {table} docket_row {filter} \
         order by docket_row.{key} limit $1::bigint"
    )
}

/// A row without a key has no place in the order, and would be missed.
async fn refuse_nulls(client: &Client, table: &str, key: &str, condition: Option<&str>) -> Result<()> {
    let filter = condition
        .map(|condition| format!("and {condition}"))
        .unwrap_or_default();
    let statement = format!(
        "/* source_nulls */ select exists (select 1 from {table} docket_row where docket_row.{key} is null {filter})"
    );
    let row = client.query_one(&statement, &[]).await;
    let row = row.map_err(Error::postgres("source_nulls"))?;
    if row
        .try_get::<_, bool>(0)
        .map_err(Error::postgres("source_nulls"))?
    {
        return Err(Error::Open(format!(
            "some rows of {table} have no {key}, and would be missed; name another key, or leave them out with --where"
        )));
    }
    Ok(())
}

async fn connect(config: &Config) -> Result<Client> {
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.map_err(|error| {
        let transient = crate::error::is_transient(&error) || error.code().is_none();
        Error::no_connection(&error, transient)
    })?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(error = chain(&error), "the connection to the source ended");
        }
    });
    Ok(client)
}

/// Where a database is, without who asks.
fn place(config: &Config) -> String {
    let hosts = config.get_hosts().iter().map(|host| match host {
        tokio_postgres::config::Host::Tcp(name) => name.clone(),
        tokio_postgres::config::Host::Unix(path) => path.display().to_string(),
    });
    let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
    let hosts: Vec<String> = hosts.collect();
    match ports.is_empty() {
        true => hosts.join(","),
        false => format!("{}:{}", hosts.join(","), ports.join(",")),
    }
}
