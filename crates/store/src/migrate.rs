//! Migrations: forward only, numbered alike on both databases, applied under a lock so that many servers can start at once.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::error::{Error, Result};

struct Migration {
    number: i64,
    postgres: &'static str,
    sqlite: &'static str,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        postgres: include_str!("../migrations/postgres/0001_engine.sql"),
        sqlite: include_str!("../migrations/sqlite/0001_engine.sql"),
    },
    Migration {
        number: 2,
        postgres: include_str!("../migrations/postgres/0002_access.sql"),
        sqlite: include_str!("../migrations/sqlite/0002_access.sql"),
    },
    Migration {
        number: 3,
        postgres: include_str!("../migrations/postgres/0003_log_seals.sql"),
        sqlite: include_str!("../migrations/sqlite/0003_log_seals.sql"),
    },
    Migration {
        number: 4,
        postgres: include_str!("../migrations/postgres/0004_reviews.sql"),
        sqlite: include_str!("../migrations/sqlite/0004_reviews.sql"),
    },
    Migration {
        number: 5,
        postgres: include_str!("../migrations/postgres/0005_step_times.sql"),
        sqlite: include_str!("../migrations/sqlite/0005_step_times.sql"),
    },
    Migration {
        number: 6,
        postgres: include_str!("../migrations/postgres/0006_notifications.sql"),
        sqlite: include_str!("../migrations/sqlite/0006_notifications.sql"),
    },
    Migration {
        number: 7,
        postgres: include_str!("../migrations/postgres/0007_assignment.sql"),
        sqlite: include_str!("../migrations/sqlite/0007_assignment.sql"),
    },
    Migration {
        number: 8,
        postgres: include_str!("../migrations/postgres/0008_outbox.sql"),
        sqlite: include_str!("../migrations/sqlite/0008_outbox.sql"),
    },
    Migration {
        number: 9,
        postgres: include_str!("../migrations/postgres/0009_lane_versions.sql"),
        sqlite: include_str!("../migrations/sqlite/0009_lane_versions.sql"),
    },
    Migration {
        number: 10,
        postgres: include_str!("../migrations/postgres/0010_version_jobs.sql"),
        sqlite: include_str!("../migrations/sqlite/0010_version_jobs.sql"),
    },
];

/// Any number, as long as nobody else uses it for an advisory lock in the same database.
const LOCK: i64 = 0x0064_6f63_6b65_7401;

/// How long a migration waits for a table in line, how long it then leaves it to others, and how often it tries: about half an hour.
const LOCK_WAIT_MS: u64 = 1_000;
const LOCK_PAUSE: Duration = Duration::from_secs(2);
const LOCK_TRIES: usize = 600;

const TABLE: &str = "create table if not exists migration (number bigint primary key)";
const SQLITE_TABLE: &str = "create table if not exists migration (number integer primary key) strict";

/// The newest schema version that this Docket knows; an open database has it.
pub fn schema_version() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.number)
}

fn check_known(applied: i64) -> Result<()> {
    let known = schema_version();
    if applied > known {
        return Err(Error::Open(format!(
            "the database has schema version {applied}, this Docket knows versions up to {known}: run a newer Docket"
        )));
    }
    Ok(())
}

/// Brings a SQLite database up to date.
pub(crate) fn sqlite(connection: &mut rusqlite::Connection) -> Result<()> {
    let failed = || Error::sqlite("migrate");
    let transaction = connection
        .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)
        .map_err(failed())?;
    transaction.execute_batch(SQLITE_TABLE).map_err(failed())?;
    let applied: i64 = transaction
        .query_row("select coalesce(max(number), 0) from migration", [], |row| {
            row.get(0)
        })
        .map_err(failed())?;
    check_known(applied)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > applied) {
        transaction.execute_batch(migration.sqlite).map_err(failed())?;
        transaction
            .execute("insert into migration (number) values (?1)", [migration.number])
            .map_err(failed())?;
    }
    transaction.commit().map_err(failed())
}

/// Brings a PostgreSQL database up to date.
pub(crate) async fn postgres(client: &Client) -> Result<()> {
    let failed = || Error::postgres("migrate");
    client
        .execute("select pg_advisory_lock($1)", &[&LOCK])
        .await
        .map_err(failed())?;
    let migrated = postgres_locked(client).await;
    client
        .execute("select pg_advisory_unlock($1)", &[&LOCK])
        .await
        .map_err(failed())?;
    migrated
}

async fn postgres_locked(client: &Client) -> Result<()> {
    let failed = || Error::postgres("migrate");
    client.batch_execute(TABLE).await.map_err(failed())?;
    let applied: i64 = client
        .query_one("select coalesce(max(number), 0) from migration", &[])
        .await
        .map_err(failed())?
        .get(0);
    check_known(applied)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.number > applied) {
        apply(client, migration).await?;
    }
    carry_log_order_on(client).await
}

/// Applies one migration. A table that somebody uses for long, as a backup does, is not waited for in line, where everybody else would
/// have to wait behind this: it is tried again.
async fn apply(client: &Client, migration: &Migration) -> Result<()> {
    // One simple query is one transaction: a migration is applied whole or not at all.
    let text = format!(
        "select set_config('lock_timeout', '{LOCK_WAIT_MS}ms', true);\n{}\ninsert into migration (number) values ({});",
        migration.postgres, migration.number
    );
    for _ in 0..LOCK_TRIES {
        match client.batch_execute(&text).await {
            Ok(()) => return Ok(()),
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                tracing::warn!(
                    migration = migration.number,
                    "a table that is to be changed is in use, by a backup perhaps; trying again"
                );
                tokio::time::sleep(LOCK_PAUSE).await;
            }
            Err(error) => return Err(Error::postgres("migrate")(error)),
        }
    }
    Err(Error::Open(format!(
        "migration {} could not be applied: a table that it changes was in use all the time; end what uses it, such as a backup or a \
         transaction that somebody left open, and start again",
        migration.number
    )))
}

/// Entries are ordered by their transaction's number. In a cluster that has given out lower numbers than the log holds (it was
/// restored there from a dump), new entries would come before old ones; so they are counted from the last one on. Within one
/// snapshot no entry of the present life can have a number that was not yet given out.
async fn carry_log_order_on(client: &Client) -> Result<()> {
    let failed = || Error::postgres("log_order");
    let newest = "select greatest(coalesce((select max(tx) from log), 0), coalesce((select max(last_tx) from seal), 0)), \
                  log_base() + pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
    let row = client.query_one(newest, &[]).await.map_err(failed())?;
    let (newest, next): (i64, i64) = (
        row.try_get(0).map_err(failed())?,
        row.try_get(1).map_err(failed())?,
    );
    if newest < next {
        return Ok(());
    }
    tracing::info!(
        newest,
        next,
        "the log was written by another cluster; its order is carried on from there"
    );
    let base = format!(
        "create or replace function log_base() returns bigint language sql stable parallel safe as 'select {newest}::bigint'"
    );
    client.batch_execute(&base).await.map_err(failed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_a_gap() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.number, index as i64 + 1);
        }
    }

    #[test]
    fn a_newer_schema_is_refused_with_what_to_do() {
        let error = check_known(99).unwrap_err().to_string();
        assert!(error.contains("run a newer Docket"), "{error}");
    }

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut connection = rusqlite::Connection::open_in_memory().unwrap();
        sqlite(&mut connection).unwrap();
        sqlite(&mut connection).unwrap();
    }
}
