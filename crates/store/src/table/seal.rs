//! The seals: blocks of the log, each chained to the one before. This table is append-only, as the log is.

use docket_core::Timestamp;
use docket_core::log::LogPosition;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::Row;

crate::statements! {
    LAST_BEFORE = portable "seal_last_before" "
select last_tx, last_id from seal where until_ms < $1 order by until_ms desc, number desc limit 1";
    FIRST_FROM = portable "seal_first_from" "
select last_tx, last_id from seal where until_ms >= $1 order by until_ms, number limit 1";
}

fn position(row: &mut Row, column: usize) -> Result<LogPosition> {
    Ok(LogPosition {
        tx: row.int(column)?,
        id: row.int(column + 1)?,
    })
}

/// A position before which every entry is older than this moment.
pub async fn last_before(tx: &mut Tx, at: Timestamp) -> Result<Option<LogPosition>> {
    let row = tx.row_opt(&LAST_BEFORE, params![at]).await?;
    row.map(|mut row| position(&mut row, 0)).transpose()
}

/// The end of the first block that reaches this moment.
pub async fn first_from(tx: &mut Tx, at: Timestamp) -> Result<Option<LogPosition>> {
    let row = tx.row_opt(&FIRST_FROM, params![at]).await?;
    row.map(|mut row| position(&mut row, 0)).transpose()
}
