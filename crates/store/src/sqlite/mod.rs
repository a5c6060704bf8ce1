//! SQLite: one file, one writer thread, readers beside it.

mod open;
mod readers;
#[cfg(test)]
mod tests;
mod wal;
mod writer;

pub(crate) use open::Folder;
pub(crate) use readers::Readers;
pub(crate) use writer::Writer;

use rusqlite::{Connection, params_from_iter};

use crate::error::{Error, Result};
use crate::statement::Statement;
use crate::value::{Row, Value};

/// A connection within its transaction.
#[derive(Debug)]
pub(crate) struct SqliteTx {
    pub(crate) connection: Connection,
}

impl SqliteTx {
    pub(crate) fn rows(&mut self, statement: &'static Statement, params: &[Value]) -> Result<Vec<Row>> {
        let failed = || Error::sqlite(statement.name);
        let mut prepared = self
            .connection
            .prepare_cached(text_of(statement)?)
            .map_err(failed())?;
        let columns = prepared.column_count();
        let mut found = prepared.query(params_from_iter(params)).map_err(failed())?;
        let mut rows = Vec::new();
        while let Some(row) = found.next().map_err(failed())? {
            let values = (0..columns)
                .map(|column| row.get_ref(column).map(Value::from))
                .collect::<rusqlite::Result<_>>()
                .map_err(failed())?;
            rows.push(Row {
                statement: statement.name,
                values,
            });
        }
        Ok(rows)
    }

    pub(crate) fn execute(&mut self, statement: &'static Statement, params: &[Value]) -> Result<u64> {
        let failed = || Error::sqlite(statement.name);
        let mut prepared = self
            .connection
            .prepare_cached(text_of(statement)?)
            .map_err(failed())?;
        let touched = prepared.execute(params_from_iter(params)).map_err(failed())?;
        Ok(touched as u64)
    }

    /// Runs one of the fixed words: begin, commit, savepoint and their like.
    pub(crate) fn command(&self, word: &'static str) -> Result<()> {
        let mut prepared = self
            .connection
            .prepare_cached(word)
            .map_err(Error::sqlite(word))?;
        prepared.execute([]).map(|_| ()).map_err(Error::sqlite(word))
    }
}

fn text_of(statement: &'static Statement) -> Result<&'static str> {
    statement
        .sqlite_text()
        .ok_or_else(|| Error::Open(format!("{} is not for SQLite", statement.name)))
}
