//! The seals: blocks of the log, each chained to the one before. This table is append-only, as the log is.

use docket_core::Timestamp;
use docket_core::log::LogPosition;
use docket_core::seal::{Block, Secret};

use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::Row;

crate::statements! {
    LATEST = portable "seal_latest" "
select number, first_tx, first_id, last_tx, last_id, before, entries, root, previous, hash, sealed_at_ms, secret, marks, until_ms
from seal where number > 0 order by number desc limit 1";
    AFTER = portable "seal_after" "
select number, first_tx, first_id, last_tx, last_id, before, entries, root, previous, hash, sealed_at_ms, secret, marks, until_ms
from seal where number > $1 order by number limit $2";
    APPEND = split "seal_append" "
insert into seal (number, first_tx, first_id, last_tx, last_id, before, entries, root, previous, hash, sealed_at_ms, secret,
                  marks, until_ms)
select $1::bigint, $2::bigint, $3::bigint, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::bytea, $9::bytea, $10::bytea,
       $11::bigint, $12::bytea, $13::bytea, $14::bigint
where $1::bigint = (select coalesce(max(number), 0) + 1 from seal)
on conflict do nothing" "
insert into seal (number, first_tx, first_id, last_tx, last_id, before, entries, root, previous, hash, sealed_at_ms, secret,
                  marks, until_ms)
select $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14
where $1 = (select coalesce(max(number), 0) + 1 from seal)";
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

/// A block with what stays in the database.
#[derive(Clone, Debug)]
pub struct Seal {
    /// The block.
    pub block: Block,
    /// What the salts of its entries are derived from.
    pub secret: Secret,
    /// The beginning of each entry's hash.
    pub marks: Vec<u8>,
    /// The latest time of any entry up to its end.
    pub until: Timestamp,
}

impl Seal {
    fn read(mut row: Row) -> Result<Self> {
        let block = Block {
            number: row.count(0)?,
            first: position(&mut row, 1)?,
            last: position(&mut row, 3)?,
            before: row.count(5)?,
            entries: row.count(6)?,
            root: row.digest(7)?,
            previous: row.digest(8)?,
            hash: row.digest(9)?,
            sealed_at_ms: row.int(10)?,
        };
        let secret = Secret::try_from(row.blob(11)?).map_err(|_| row.inconsistent(11))?;
        Ok(Self {
            block,
            secret,
            marks: row.blob(12)?,
            until: row.time(13)?,
        })
    }
}

/// The newest seal.
pub async fn latest(tx: &mut Tx) -> Result<Option<Seal>> {
    let row = tx.row_opt(&LATEST, params![]).await?;
    row.map(Seal::read).transpose()
}

/// The seals after a number, oldest first.
pub async fn after(tx: &mut Tx, number: u64, limit: u64) -> Result<Vec<Seal>> {
    let rows = tx.rows(&AFTER, params![number, limit]).await?;
    rows.into_iter().map(Seal::read).collect()
}

/// Appends a seal where it follows on the newest; whether it did, or somebody else's was there first.
pub async fn append(tx: &mut Tx, seal: &Seal) -> Result<bool> {
    let block = &seal.block;
    let params = params![
        block.number,
        block.first.tx,
        block.first.id,
        block.last.tx,
        block.last.id,
        block.before,
        block.entries,
        block.root,
        block.previous,
        block.hash,
        block.sealed_at_ms,
        seal.secret.to_vec(),
        seal.marks.clone(),
        seal.until,
    ];
    Ok(tx.execute(&APPEND, params).await? == 1)
}
