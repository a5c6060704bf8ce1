//! Running an operation on PostgreSQL: begin, retry, commit, and find out when the answer to a commit is lost.

use std::sync::Arc;
use std::time::{Duration, Instant};

use docket_core::random::{Random as _, SystemRandom};
use tokio_postgres::error::SqlState;

use super::PgTx;
use super::connect::{Postgres, Route, Server, ask_life};
use super::floor::BOTTOM;
use super::tx::{Commit, Mode};
use crate::error::{Error, Result};
use crate::store::Operation;
use crate::tx::{Driver, Tx};

const RETRY_FIRST: Duration = Duration::from_millis(4);
const RETRY_LONGEST: Duration = Duration::from_secs(1);

impl Postgres {
    /// Runs a writing operation until it is committed, refused, or failed beyond help.
    pub(crate) async fn run<P, T>(
        &self,
        name: &'static str,
        route: Route,
        params: &P,
        operation: &impl Operation<P, T>,
    ) -> Result<T> {
        let mut waits = Waits::new(self.patience);
        loop {
            match self.attempt(name, route, Mode::Write, params, operation).await {
                Err(error) if error.is_transient() => waits.next(name, error).await?,
                ended => return ended,
            }
        }
    }

    /// Runs a reading operation on one snapshot.
    pub(crate) async fn read<P, T>(
        &self,
        name: &'static str,
        params: &P,
        operation: &impl Operation<P, T>,
    ) -> Result<T> {
        let mut waits = Waits::new(self.patience);
        loop {
            match self
                .attempt(name, Route::General, Mode::Read, params, operation)
                .await
            {
                Err(error) if error.is_transient() => waits.next(name, error).await?,
                ended => return ended,
            }
        }
    }

    /// One try.
    async fn attempt<P, T>(
        &self,
        name: &'static str,
        route: Route,
        mode: Mode,
        params: &P,
        operation: &impl Operation<P, T>,
    ) -> Result<T> {
        let connection = self.connection(route).await?;
        let life = self.life();
        let mut tx = Tx {
            driver: Driver::Postgres(PgTx::new(connection, mode, Arc::clone(&self.floors))),
        };
        let outcome = operation(&mut tx, params).await;
        let Driver::Postgres(tx) = tx.driver else {
            return Err(Error::Closed);
        };
        match outcome {
            Err(error) => {
                tx.roll_back(&error).await;
                Err(error)
            }
            Ok(output) => match tx.commit().await? {
                Commit::Done => Ok(output),
                Commit::Unknown { xid } => {
                    let committed = self.was_committed(name, xid, life).await;
                    // What it made ready, if it did, is known to nobody.
                    self.floors.lower(None, BOTTOM);
                    match committed? {
                        true => Ok(output),
                        false => Err(Error::NoConnection {
                            reason: format!(
                                "the connection to PostgreSQL broke as {name} was committed, and nothing of it happened"
                            ),
                            transient: true,
                        }),
                    }
                }
            },
        }
    }

    /// Asks the database what became of a transaction whose commit was sent and whose answer was lost. The transaction was begun in
    /// the server's `life`. Whoever cannot be told hears that it is unknown; nothing is tried again on a guess.
    async fn was_committed(&self, name: &'static str, xid: i64, life: i64) -> Result<bool> {
        let unknown = |reason| Error::UnknownCommit {
            operation: name,
            reason,
        };
        let mut waits = Waits::new(self.patience);
        loop {
            match self.transaction_status(xid).await {
                Ok((Status::Aborted, _)) => return Ok(false),
                Ok((Status::Committed, now)) if now == life => return Ok(true),
                // Still in progress: the server has not yet noticed that we are gone, or the number is another's by now.
                Ok((Status::InProgress, _)) => {}
                // The server has crashed since: this is ours, or the other's that got our number.
                Ok((Status::Committed, _)) => {
                    return Err(unknown(
                        "the server has crashed since, or is another, and may have given the transaction's number twice",
                    ));
                }
                Ok((Status::Forgotten, _)) => {
                    return Err(unknown("the database no longer knows the transaction"));
                }
                Err(error) if error.is_transient() => {}
                Err(error) => {
                    tracing::warn!(
                        operation = name,
                        error = &error as &dyn std::error::Error,
                        "what became of a commit cannot be found out"
                    );
                    return Err(unknown("the database cannot be asked"));
                }
            }
            waits
                .next(name, unknown("the database could not tell in time"))
                .await?;
        }
    }

    /// What the server knows of a transaction, and its life.
    async fn transaction_status(&self, xid: i64) -> Result<(Status, i64)> {
        let failed = || Error::postgres("transaction_status");
        let connection = self.connection(Route::General).await?;
        let Server { life, is_standby } = ask_life(&connection).await.map_err(failed())?;
        // It has yet to hear of what happened, so neither "never given" nor "in progress" means anything there.
        if is_standby {
            return Ok((Status::InProgress, life));
        }
        let asked = connection
            .query_one("select pg_xact_status($1::bigint::text::xid8)", &[&xid])
            .await;
        let status: Option<String> = match asked {
            Ok(row) => row.try_get(0).map_err(failed())?,
            // A number that was never given: it was, and a crash has taken it back with all that was done under it.
            Err(error) if error.code() == Some(&SqlState::INVALID_PARAMETER_VALUE) => {
                return Ok((Status::Aborted, life));
            }
            Err(error) => return Err(failed()(error)),
        };
        let status = match status.as_deref() {
            Some("committed") => Status::Committed,
            Some("aborted") => Status::Aborted,
            Some(_) => Status::InProgress,
            None => Status::Forgotten,
        };
        Ok((status, life))
    }
}

/// What a server says of a transaction.
#[derive(Clone, Copy, Debug)]
enum Status {
    InProgress,
    Committed,
    Aborted,
    /// Too long ago.
    Forgotten,
}

/// Waits between tries: exponential with jitter, until the patience is used up, by waiting or by trying.
struct Waits {
    until: Instant,
    next: Duration,
}

impl Waits {
    fn new(patience: Duration) -> Self {
        Self {
            until: instant() + patience,
            next: RETRY_FIRST,
        }
    }

    /// Waits before the next try, or fails with what made the last one fail.
    async fn next(&mut self, name: &'static str, failed: Error) -> Result<()> {
        let left = self.until.saturating_duration_since(instant());
        if left.is_zero() {
            return Err(failed);
        }
        tracing::debug!(
            operation = name,
            error = &failed as &dyn std::error::Error,
            "trying again"
        );
        let half = self.next / 2;
        let jitter = SystemRandom.below(u64::try_from(half.as_micros()).unwrap_or(u64::MAX) + 1);
        tokio::time::sleep((half + Duration::from_micros(jitter)).min(left)).await;
        self.next = (self.next * 2).min(RETRY_LONGEST);
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "patience is measured in real time, whatever the clock of the rules shows"
)]
fn instant() -> Instant {
    Instant::now()
}
