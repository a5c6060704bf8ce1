//! Taking from the outbox what is due: the oldest first; and, where many of the oldest are for hosts that have no room, by host, so that
//! nobody walks over a host's backlog to find what lies behind it.

use docket_core::Timestamp;

use super::delivery::{Delivery, FrozenRow, columns};
use crate::error::Result;
use crate::params;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value};

/// The same with what is sent, and whether the recipient wants it.
macro_rules! frozen_columns {
    () => {
        concat!(columns!(), ", d.headers, d.body, s.words")
    };
}

crate::statements! {
    TAKE_POSTGRES = selecting_postgres "delivery_take" frozen_columns "
from delivery d left join stopped_recipient s on s.owner = d.owner and s.recipient = d.recipient
where d.due_ms <= $1 and d.channel = any ($2::text[]) and d.destination <> all ($3::text[])
order by d.due_ms limit $4 for no key update of d skip locked";
    TAKE_SQLITE = selecting_sqlite "delivery_take" frozen_columns "
from delivery d left join stopped_recipient s on s.owner = d.owner and s.recipient = d.recipient
where d.due_ms <= $1 and d.channel in (select value from json_each($2))
  and d.destination not in (select value from json_each($3))
order by d.due_ms limit $4";
    TAKE_OF_HOST_POSTGRES = selecting_postgres "delivery_take_of_host" frozen_columns "
from delivery d left join stopped_recipient s on s.owner = d.owner and s.recipient = d.recipient
where d.destination = $1 and d.due_ms <= $2 order by d.due_ms limit $3 for no key update of d skip locked";
    TAKE_OF_HOST_SQLITE = selecting_sqlite "delivery_take_of_host" frozen_columns "
from delivery d left join stopped_recipient s on s.owner = d.owner and s.recipient = d.recipient
where d.destination = $1 and d.due_ms <= $2 order by d.due_ms limit $3";
    HORIZON = portable "delivery_horizon" "
select due_ms from delivery where due_ms <= $1 order by due_ms limit 1 offset $2";
    HOSTS = portable "delivery_hosts" "
with recursive host (destination, n) as (
  select min(destination), cast(1 as bigint) from delivery where due_ms is not null and destination > $1
  union all
  select (select min(d.destination) from delivery d where d.due_ms is not null and d.destination > x.destination), x.n + 1
  from host x where x.destination is not null and x.n < $2)
select x.destination, exists (select 1 from delivery d where d.destination = x.destination and d.due_ms <= $3)
from host x where x.destination is not null";
}

/// A delivery that is due.
#[derive(Clone, Debug)]
pub struct DueDelivery {
    /// The delivery.
    pub delivery: Delivery,
    /// What is sent.
    pub frozen: FrozenRow,
    /// What the recipient said, where it wants nothing more.
    pub stopped: Option<String>,
}

fn read(mut row: Row) -> Result<DueDelivery> {
    let frozen = FrozenRow {
        headers: row.text(28)?,
        body: row.blob(29)?,
    };
    Ok(DueDelivery {
        stopped: row.opt_text(30)?,
        delivery: Delivery::read(&mut row)?,
        frozen,
    })
}

/// The deliveries that are due by these channels, those to busy destinations left out, locked; those that somebody else has locked are
/// left out too.
pub async fn take(
    tx: &mut Tx,
    channels: &[String],
    busy: &[String],
    limit: u64,
    now: Timestamp,
) -> Result<Vec<DueDelivery>> {
    let texts = |list: &[String]| Value::Texts(list.iter().cloned().map(Some).collect());
    let statement = match tx.driver {
        Driver::Postgres(_) => &TAKE_POSTGRES,
        Driver::Sqlite(_) => &TAKE_SQLITE,
    };
    let rows = tx
        .rows(statement, params![now, texts(channels), texts(busy), limit])
        .await?;
    rows.into_iter().map(read).collect()
}

/// The moment at which the delivery fell due that so many others stand before; none where there are fewer.
pub async fn horizon(tx: &mut Tx, now: Timestamp, others: u64) -> Result<Option<Timestamp>> {
    let row = tx.row_opt(&HORIZON, params![now, others]).await?;
    row.map(|mut row| row.time(0)).transpose()
}

/// The destinations of what is on its way, after this one in the order of their names, and whether anything is due there. It costs a look
/// or two for each, however long their backlogs are.
pub async fn hosts(tx: &mut Tx, after: &str, limit: u64, now: Timestamp) -> Result<Vec<(String, bool)>> {
    let rows = tx.rows(&HOSTS, params![after, limit, now]).await?;
    rows.into_iter()
        .map(|mut row| Ok((row.text(0)?, row.bool(1)?)))
        .collect()
}

/// What is due at this destination, locked, as [`take`] does.
pub async fn take_of_host(
    tx: &mut Tx,
    destination: &str,
    limit: u64,
    now: Timestamp,
) -> Result<Vec<DueDelivery>> {
    let statement = match tx.driver {
        Driver::Postgres(_) => &TAKE_OF_HOST_POSTGRES,
        Driver::Sqlite(_) => &TAKE_OF_HOST_SQLITE,
    };
    let rows = tx.rows(statement, params![destination, now, limit]).await?;
    rows.into_iter().map(read).collect()
}
