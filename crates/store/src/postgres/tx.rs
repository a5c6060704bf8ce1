//! A transaction on PostgreSQL.
//!
//! It begins with its first statement, in the same flight, and learns its own number (xid) as soon as it has written
//! something. With that number the outcome of a commit whose answer was lost can be asked for on another connection.
//! Writes whose answer nobody needs at once wait for the next flight, for on a busy machine the way there and back costs more than
//! most statements.

use std::sync::Arc;
use std::task::Poll;

use deadpool_postgres::Object;
use futures_util::future::join_all;
use futures_util::{TryFutureExt as _, join, poll};
use tokio_postgres::types::ToSql;

use super::floor::{Floors, LaneNotes};
use crate::error::{BEGIN, Error, Result};
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

/// A statement with its parameters.
pub(crate) type Query = (&'static Statement, Vec<Value>);

/// A connection within its transaction.
#[derive(Debug)]
pub(crate) struct PgTx {
    connection: Option<Object>,
    mode: Mode,
    begun: bool,
    /// Whether one of its statements has failed.
    failed: bool,
    xid: Option<i64>,
    /// Writes that are sent along with the next statement.
    deferred: Vec<Query>,
    /// What it finds out of lanes.
    pub(crate) lanes: Box<LaneNotes>,
}

impl PgTx {
    pub(super) fn new(connection: Object, mode: Mode, floors: Arc<Floors>) -> Self {
        Self {
            connection: Some(connection),
            mode,
            begun: false,
            failed: false,
            xid: None,
            deferred: Vec::new(),
            lanes: Box::new(LaneNotes::new(floors)),
        }
    }

    pub(crate) async fn rows(&mut self, statement: &'static Statement, params: &[Value]) -> Result<Vec<Row>> {
        let mut found = self.fly(&[(statement, params)], None).await?.found;
        Ok(found.pop().unwrap_or_default())
    }

    /// The rows of each of some queries, in one flight.
    pub(crate) async fn rows_of(&mut self, queries: &[Query]) -> Result<std::vec::IntoIter<Vec<Row>>> {
        let queries: Vec<_> = queries
            .iter()
            .map(|(statement, params)| (*statement, &**params))
            .collect();
        Ok(self.fly(&queries, None).await?.found.into_iter())
    }

    pub(crate) async fn execute(&mut self, statement: &'static Statement, params: &[Value]) -> Result<u64> {
        Ok(self.fly(&[], Some((statement, params))).await?.touched)
    }

    /// Leaves a write for the next flight, before whatever that one asks for. That may be the commit's, so how many rows it touched is
    /// for the statement itself to check.
    pub(crate) fn execute_later(&mut self, write: Query) {
        self.deferred.push(write);
    }

    /// Sends what was deferred, the queries and the write, and waits for all the answers: one way there and back, however much it is.
    async fn fly(
        &mut self,
        queries: &[(&'static Statement, &[Value])],
        write: Option<(&'static Statement, &[Value])>,
    ) -> Result<Landed> {
        let landed = self.try_fly(queries, write).await;
        self.failed |= landed.is_err();
        landed
    }

    /// The first flight begins the transaction, and the first that may write learns its number.
    async fn try_fly(
        &mut self,
        queries: &[(&'static Statement, &[Value])],
        write: Option<(&'static Statement, &[Value])>,
    ) -> Result<Landed> {
        let deferred = std::mem::take(&mut self.deferred);
        let connection = self.connection.as_ref().ok_or(Error::Closed)?;
        let earlier = bind(connection, &deferred).await?;
        let mut asked = Vec::with_capacity(queries.len());
        for (statement, params) in queries {
            asked.push(Bound::new(connection, statement, params).await?);
        }
        let last = match write {
            Some((statement, params)) => Some(Bound::new(connection, statement, params).await?),
            None => None,
        };
        let may_write = !earlier.is_empty()
            || last.is_some()
            || queries.iter().any(|(statement, _)| statement.may_write());
        let learns = may_write && self.xid.is_none() && matches!(self.mode, Mode::Write);
        let begins = prepare(connection, BEGIN, self.mode.begin()).await?;
        let numbered = prepare(connection, "xid", XID).await?;
        let begun = std::mem::replace(&mut self.begun, true);
        // Futures of one connection are sent in the order in which they are first polled: all of this is one flight.
        let begin = async {
            match begun {
                true => Ok(()),
                false => connection.execute(&begins, &[]).await.map(drop),
            }
            .map_err(Error::postgres(BEGIN))
        };
        let earlier = join_all(earlier.iter().map(|bound| bound.execute(connection)));
        let found = join_all(asked.iter().map(|bound| bound.query(connection)));
        let touched = async {
            match &last {
                Some(bound) => bound.execute(connection).await,
                None => Ok(0),
            }
        };
        let xid = async {
            match learns {
                true => connection
                    .query_one(&numbered, &[])
                    .and_then(|row| async move { row.try_get(0) })
                    .await
                    .map_err(Error::postgres("xid")),
                false => Ok(self.xid),
            }
        };
        let (begun, earlier, found, touched, xid) = join!(begin, earlier, found, touched, xid);
        // What fails first is why the rest does.
        begun?;
        in_order(earlier)?;
        let (found, touched) = (in_order(found)?, touched?);
        self.xid = xid?;
        Ok(Landed { found, touched })
    }

    /// Commits. The connection goes back to the pool, or is dropped when it broke.
    pub(super) async fn commit(mut self) -> Result<Commit> {
        let ended = self.try_commit().await;
        if let Err(error) = &ended {
            self.roll_back(error).await;
        }
        ended
    }

    async fn try_commit(&mut self) -> Result<Commit> {
        // What becomes of a commit whose answer is lost is asked for by the transaction's number: it has to be known before.
        if !self.deferred.is_empty() && self.xid.is_none() {
            self.fly(&[], None).await?;
        }
        // The server would answer the commit by rolling back, and the driver does not tell the one from the other.
        if self.failed {
            return Err(Error::Open(
                "the operation went on after one of its statements had failed: nothing was committed"
                    .to_owned(),
            ));
        }
        if !self.begun {
            return Ok(Commit::Done);
        }
        let deferred = std::mem::take(&mut self.deferred);
        match self.commit_with(&deferred).await? {
            Ok(()) => {
                self.begun = false;
                self.lanes.hold_true();
                Ok(Commit::Done)
            }
            Err(error) if error.is_lost() => match self.xid {
                Some(xid) => Ok(Commit::Unknown { xid }),
                // Nothing was written, so nothing can be lost.
                None => Ok(Commit::Done),
            },
            Err(error) => Err(error),
        }
    }

    /// Sends these writes and the commit, in one flight; what became of them once all are on their way. Where a write fails the server answers
    /// the commit by rolling back; where one cannot even be sent the server would know of no failure, so then the commit is not sent either.
    async fn commit_with(&self, writes: &[Query]) -> Result<Result<()>> {
        let connection = self.connection.as_ref().ok_or(Error::Closed)?;
        let commits = prepare(connection, "commit", "commit").await?;
        let bound = bind(connection, writes).await?;
        let mut sent = Vec::with_capacity(bound.len());
        for write in &bound {
            let mut write = Box::pin(write.execute(connection));
            // Polled once it is sent, or has failed.
            match poll!(&mut write) {
                Poll::Ready(Ok(_)) => {}
                Poll::Ready(Err(error)) => {
                    // One before it may be why.
                    in_order(join_all(sent).await)?;
                    return Err(error);
                }
                Poll::Pending => sent.push(write),
            }
        }
        let commit = connection.execute(&commits, &[]);
        let (written, committed) = join!(join_all(sent), commit);
        Ok(in_order(written)
            .and(committed.map_err(Error::postgres("commit")))
            .map(drop))
    }

    /// Rolls back what was done, because of this; a connection that cannot even do that is dropped, and so is one to a standby.
    pub(super) async fn roll_back(mut self, why: &Error) {
        if !self.begun || why.is_of_a_standby() {
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

/// What a flight brought back.
struct Landed {
    /// The rows of each query.
    found: Vec<Vec<Row>>,
    /// How many rows the write touched.
    touched: u64,
}

/// All the answers, or the first of them that is an error.
fn in_order<T>(answers: Vec<Result<T>>) -> Result<Vec<T>> {
    answers.into_iter().collect()
}

async fn prepare(connection: &Object, name: &'static str, text: &str) -> Result<tokio_postgres::Statement> {
    let prepared = connection.prepare_cached(text).await;
    prepared.map_err(Error::postgres(name))
}

async fn bind<'a>(connection: &Object, writes: &'a [Query]) -> Result<Vec<Bound<'a>>> {
    let mut bound = Vec::with_capacity(writes.len());
    for (statement, params) in writes {
        bound.push(Bound::new(connection, statement, params).await?);
    }
    Ok(bound)
}

/// A statement that is ready to be sent.
struct Bound<'a> {
    name: &'static str,
    prepared: tokio_postgres::Statement,
    params: Vec<&'a (dyn ToSql + Sync)>,
}

impl<'a> Bound<'a> {
    async fn new(connection: &Object, statement: &'static Statement, params: &'a [Value]) -> Result<Self> {
        let name = statement.name;
        let text = statement
            .postgres_text()
            .ok_or_else(|| Error::Open(format!("{name} is not for PostgreSQL")))?;
        Ok(Self {
            name,
            prepared: prepare(connection, name, text).await?,
            params: params.iter().map(|value| value as _).collect(),
        })
    }

    async fn query(&self, connection: &Object) -> Result<Vec<Row>> {
        let found = connection.query(&self.prepared, &self.params).await;
        let found = found.map_err(Error::postgres(self.name))?;
        let values = |row: &tokio_postgres::Row| {
            (0..row.len())
                .map(|column| row.try_get(column))
                .collect::<Result<_, _>>()
                .map_err(Error::postgres(self.name))
        };
        found
            .iter()
            .map(|row| {
                Ok(Row {
                    statement: self.name,
                    values: values(row)?,
                })
            })
            .collect()
    }

    async fn execute(&self, connection: &Object) -> Result<u64> {
        let touched = connection.execute(&self.prepared, &self.params).await;
        touched.map_err(Error::postgres(self.name))
    }
}
