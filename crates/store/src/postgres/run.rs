//! Running an operation on PostgreSQL: begin, retry, commit, and find out when the answer to a commit is lost.

use std::time::Duration;

use docket_core::random::{Random as _, SystemRandom};

use super::PgTx;
use super::connect::{Postgres, Route};
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
            let failed = match self.attempt(name, route, Mode::Write, params, operation).await {
                Ok(Some(output)) => return Ok(output),
                Ok(None) => None,
                Err(error) if error.is_transient() => Some(error),
                Err(error) => return Err(error),
            };
            waits.next(name, failed).await?;
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
                Ok(Some(output)) => return Ok(output),
                Ok(None) => waits.next(name, None).await?,
                Err(error) if error.is_transient() => waits.next(name, Some(error)).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// One try. None means that nothing was committed though nothing is wrong either: try again.
    async fn attempt<P, T>(
        &self,
        name: &'static str,
        route: Route,
        mode: Mode,
        params: &P,
        operation: &impl Operation<P, T>,
    ) -> Result<Option<T>> {
        let connection = self.connection(route).await?;
        let mut tx = Tx {
            driver: Driver::Postgres(PgTx::new(connection, mode)),
        };
        let outcome = operation(&mut tx, params).await;
        let Driver::Postgres(tx) = tx.driver else {
            return Err(Error::Closed);
        };
        match outcome {
            Err(error) => {
                tx.roll_back().await;
                Err(error)
            }
            Ok(output) => match tx.commit().await? {
                Commit::Done => Ok(Some(output)),
                Commit::Unknown { xid } => Ok(self.was_committed(name, xid).await?.then_some(output)),
            },
        }
    }

    /// Asks the database what became of a transaction whose commit was sent and whose answer was lost.
    async fn was_committed(&self, name: &'static str, xid: i64) -> Result<bool> {
        let mut waits = Waits::new(self.patience);
        loop {
            match self.transaction_status(xid).await {
                Ok(Some(status)) if status == "committed" => return Ok(true),
                Ok(Some(status)) if status == "aborted" => return Ok(false),
                // Still in progress: the server has not yet noticed that we are gone.
                Ok(Some(_)) => waits.next(name, None).await?,
                Ok(None) => return Err(Error::UnknownCommit { operation: name }),
                Err(error) if error.is_transient() => waits.next(name, Some(error)).await?,
                Err(error) => return Err(error),
            }
        }
    }

    async fn transaction_status(&self, xid: i64) -> Result<Option<String>> {
        let connection = self.connection(Route::General).await?;
        let row = connection
            .query_one("select pg_xact_status($1::bigint::text::xid8)", &[&xid])
            .await
            .map_err(Error::postgres("transaction_status"))?;
        row.try_get(0).map_err(Error::postgres("transaction_status"))
    }
}

/// Waits between tries: exponential with jitter, until the patience is used up.
struct Waits {
    left: Duration,
    next: Duration,
}

impl Waits {
    const fn new(patience: Duration) -> Self {
        Self {
            left: patience,
            next: RETRY_FIRST,
        }
    }

    async fn next(&mut self, name: &'static str, failed: Option<Error>) -> Result<()> {
        if self.left.is_zero() {
            return Err(failed.unwrap_or(Error::UnknownCommit { operation: name }));
        }
        tracing::debug!(
            operation = name,
            error = failed.as_ref().map(|e| e as &dyn std::error::Error),
            "trying again"
        );
        let half = self.next / 2;
        let jitter = SystemRandom.below(u64::try_from(half.as_micros()).unwrap_or(u64::MAX) + 1);
        let wait = (half + Duration::from_micros(jitter)).min(self.left);
        tokio::time::sleep(wait).await;
        self.left = self.left.saturating_sub(wait.max(Duration::from_millis(1)));
        self.next = (self.next * 2).min(RETRY_LONGEST);
        Ok(())
    }
}
