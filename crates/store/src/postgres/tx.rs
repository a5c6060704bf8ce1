//! A transaction on PostgreSQL.
//!
//! It begins with its first statement, in the same flight, and learns its own number (xid) as soon as it has written
//! something. With that number the outcome of a commit whose answer was lost can be asked for on another connection.

use deadpool_postgres::Object;
use futures_util::{TryFutureExt as _, try_join};
use tokio_postgres::types::ToSql;

use crate::error::{Error, Result, is_lost};
use crate::statement::Statement;
use crate::value::{Row, Value};

const XID: &str = "select pg_current_xact_id_if_assigned()::text::bigint";

/// What a transaction is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    Write,
    Read,
}

impl Mode {
    const fn begin(self) -> &'static str {
        match self {
            Self::Write => "begin isolation level read committed read write",
            Self::Read => "begin isolation level repeatable read read only",
        }
    }
}

/// How a commit ended.
pub(super) enum Commit {
    Done,
    /// The connection broke before the answer came.
    Unknown {
        xid: i64,
    },
}

/// A connection within its transaction.
#[derive(Debug)]
pub(crate) struct PgTx {
    connection: Option<Object>,
    mode: Mode,
    begun: bool,
    xid: Option<i64>,
}

impl PgTx {
    pub(super) const fn new(connection: Object, mode: Mode) -> Self {
        Self {
            connection: Some(connection),
            mode,
            begun: false,
            xid: None,
        }
    }

    pub(crate) async fn rows(&mut self, statement: &'static Statement, params: &[Value]) -> Result<Vec<Row>> {
        let found = self.query(statement, params).await?;
        found
            .iter()
            .map(|row| {
                let values = (0..row.len())
                    .map(|column| row.try_get(column))
                    .collect::<Result<_, _>>()
                    .map_err(Error::postgres(statement.name))?;
                Ok(Row {
                    statement: statement.name,
                    values,
                })
            })
            .collect()
    }

    async fn query(
        &mut self,
        statement: &'static Statement,
        params: &[Value],
    ) -> Result<Vec<tokio_postgres::Row>> {
        let failed = || Error::postgres(statement.name);
        let text = text_of(statement)?;
        let connection = self.connection.as_ref().ok_or(Error::Closed)?;
        let prepared = connection.prepare_cached(text).await.map_err(failed())?;
        let xid_prepared = connection.prepare_cached(XID).await.map_err(failed())?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
        let begun = std::mem::replace(&mut self.begun, true);
        // Futures of one connection are sent in the order in which they are first polled: all of this is one flight.
        let begin = async {
            if begun {
                Ok(())
            } else {
                connection.batch_execute(self.mode.begin()).await
            }
        };
        let main = connection.query(&prepared, &params);
        let xid = async {
            match (self.mode, self.xid) {
                (Mode::Write, None) if statement.may_write() => {
                    connection
                        .query_one(&xid_prepared, &[])
                        .and_then(|row| async move { row.try_get(0) })
                        .await
                }
                (_, known) => Ok(known),
            }
        };
        let ((), found, xid) = try_join!(begin, main, xid).map_err(failed())?;
        self.xid = xid;
        Ok(found)
    }

    pub(crate) async fn execute(&mut self, statement: &'static Statement, params: &[Value]) -> Result<u64> {
        let failed = || Error::postgres(statement.name);
        if !self.begun || self.xid.is_none() {
            return self.execute_first(statement, params).await;
        }
        let connection = self.connection.as_ref().ok_or(Error::Closed)?;
        let prepared = connection
            .prepare_cached(text_of(statement)?)
            .await
            .map_err(failed())?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
        connection.execute(&prepared, &params).await.map_err(failed())
    }

    async fn execute_first(&mut self, statement: &'static Statement, params: &[Value]) -> Result<u64> {
        let failed = || Error::postgres(statement.name);
        let connection = self.connection.as_ref().ok_or(Error::Closed)?;
        let prepared = connection
            .prepare_cached(text_of(statement)?)
            .await
            .map_err(failed())?;
        let xid_prepared = connection.prepare_cached(XID).await.map_err(failed())?;
        let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|value| value as _).collect();
        let begun = std::mem::replace(&mut self.begun, true);
        let begin = async {
            if begun {
                Ok(())
            } else {
                connection.batch_execute(self.mode.begin()).await
            }
        };
        let xid = connection
            .query_one(&xid_prepared, &[])
            .and_then(|row| async move { row.try_get(0) });
        let ((), touched, xid) =
            try_join!(begin, connection.execute(&prepared, &params), xid).map_err(failed())?;
        self.xid = xid;
        Ok(touched)
    }

    /// Commits. The connection goes back to the pool, or is dropped when it broke.
    pub(super) async fn commit(mut self) -> Result<Commit> {
        if !self.begun {
            return Ok(Commit::Done);
        }
        let connection = self.connection.as_ref().ok_or(Error::Closed)?;
        match connection.batch_execute("commit").await {
            Ok(()) => {
                self.begun = false;
                Ok(Commit::Done)
            }
            Err(error) if is_lost(&error) => match self.xid {
                Some(xid) => Ok(Commit::Unknown { xid }),
                // Nothing was written, so nothing can be lost.
                None => Ok(Commit::Done),
            },
            Err(error) => Err(Error::Postgres {
                statement: "commit",
                source: error,
            }),
        }
    }

    /// Rolls back what was done; a connection that cannot even do that is dropped.
    pub(super) async fn roll_back(mut self) {
        if !self.begun {
            return;
        }
        if let Some(connection) = &self.connection
            && connection.batch_execute("rollback").await.is_ok()
        {
            self.begun = false;
        }
    }
}

impl Drop for PgTx {
    /// A transaction that was neither committed nor rolled back (its future was dropped, or its connection broke) must not go
    /// back to the pool: closing the connection makes the server roll it back.
    fn drop(&mut self) {
        if self.begun
            && let Some(connection) = self.connection.take()
        {
            drop(Object::take(connection));
        }
    }
}

fn text_of(statement: &'static Statement) -> Result<&'static str> {
    statement
        .postgres_text()
        .ok_or_else(|| Error::Open(format!("{} is not for PostgreSQL", statement.name)))
}
