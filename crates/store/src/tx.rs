//! The transaction that a use case works in: one concrete type over both databases.
//!
//! On PostgreSQL its methods wait for the server. On SQLite they never do: the writer thread runs a use case to its end in
//! one poll. A use case may therefore await nothing but its transaction.

use docket_core::id::PipelineKey;

use crate::error::{Error, Result};
use crate::postgres::{BOTTOM, PgTx};
use crate::sqlite::SqliteTx;
use crate::statement::Statement;
use crate::value::{Row, Value};

/// A transaction under way.
#[derive(Debug)]
pub struct Tx {
    pub(crate) driver: Driver,
}

/// Which database the transaction belongs to; only tuned operations ask.
#[derive(Debug)]
pub(crate) enum Driver {
    Sqlite(SqliteTx),
    Postgres(PgTx),
}

impl Tx {
    /// Where a claim begins to look for lanes that are ready, in the order of their turns.
    pub(crate) fn look_for_lanes(&mut self, pipeline: PipelineKey) -> i64 {
        match &mut self.driver {
            Driver::Postgres(tx) => tx.lanes.look(pipeline),
            Driver::Sqlite(_) => BOTTOM,
        }
    }

    /// The turn of the first lane that the last claim found.
    pub(crate) fn found_lanes(&mut self, lowest: i64) {
        if let Driver::Postgres(tx) = &mut self.driver {
            tx.lanes.found(lowest);
        }
    }

    /// A lane may be ready, with this turn: claims have to look there. Of any pipeline where none is named.
    pub(crate) fn lane_is_ready(&mut self, pipeline: Option<PipelineKey>, turn: i64) {
        if let Driver::Postgres(tx) = &mut self.driver {
            tx.lanes.ready(pipeline, turn);
        }
    }

    /// Runs a query and reads all its rows.
    pub(crate) async fn rows(&mut self, statement: &'static Statement, params: &[Value]) -> Result<Vec<Row>> {
        match &mut self.driver {
            Driver::Sqlite(tx) => tx.rows(statement, params),
            Driver::Postgres(tx) => tx.rows(statement, params).await,
        }
    }

    /// Runs a query that gives one row or none.
    pub(crate) async fn row_opt(
        &mut self,
        statement: &'static Statement,
        params: &[Value],
    ) -> Result<Option<Row>> {
        let mut rows = self.rows(statement, params).await?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            n => Err(Error::WrongRows {
                statement: statement.name,
                touched: n as u64,
                expected: 1,
            }),
        }
    }

    /// Runs a query that gives exactly one row.
    pub(crate) async fn row(&mut self, statement: &'static Statement, params: &[Value]) -> Result<Row> {
        self.row_opt(statement, params).await?.ok_or(Error::WrongRows {
            statement: statement.name,
            touched: 0,
            expected: 1,
        })
    }

    /// Runs a write and says how many rows it touched.
    pub(crate) async fn execute(&mut self, statement: &'static Statement, params: &[Value]) -> Result<u64> {
        match &mut self.driver {
            Driver::Sqlite(tx) => tx.execute(statement, params),
            Driver::Postgres(tx) => tx.execute(statement, params).await,
        }
    }

    /// Runs a write that must touch exactly one row.
    pub(crate) async fn execute_one(
        &mut self,
        statement: &'static Statement,
        params: &[Value],
    ) -> Result<()> {
        match self.execute(statement, params).await? {
            1 => Ok(()),
            touched => Err(Error::WrongRows {
                statement: statement.name,
                touched,
                expected: 1,
            }),
        }
    }
}
