//! Finding deliveries: of a notification, in lists, and those that something has to be done about.

use docket_core::Timestamp;
use docket_core::id::{DeliveryId, NotificationId};
use docket_core::notification::DeliveryState;

use super::delivery::{Delivery, columns, deliveries};
use crate::error::Result;
use crate::params;
use crate::tx::{Driver, Tx};

/// More deliveries than this no notification has.
const PLACES: usize = 1_024;
/// Deliveries of one kind are counted as far as this.
const COUNT_MAX: u64 = 100_000;

crate::statements! {
    GET = selecting "delivery_get" columns "from delivery d where d.id = $1";
    OF_NOTIFICATION = selecting "delivery_of_notification" columns "
from delivery d where d.id >= $1 and d.id <= $2 and d.notification_id = $3 order by d.id";
    LOCK_OF_NOTIFICATION = selecting "delivery_lock_of_notification" columns "
from delivery d where d.id >= $1 and d.id <= $2 and d.notification_id = $3 order by d.id for no key update";
    LIST_OF_OWNER = selecting "delivery_list_of_owner" columns "
from delivery d where d.owner = $1 and d.id < $2 and ($3 = -1 or d.state = $3) and ($4 = '' or d.channel = $4)
order by d.owner desc, d.id desc limit $5";
    LIST_OF_ALL = selecting "delivery_list_of_all" columns "
from delivery d where d.id < $1 and ($2 = -1 or d.state = $2) and ($3 = '' or d.channel = $3) order by d.id desc limit $4";
    LIST_FOR_PEOPLE_POSTGRES = selecting_postgres "delivery_list_for_people" columns "
from delivery d where d.state in (2, 3, 5, 6) and d.state >= $1 and (d.state, d.id) < ($1, $2) and ($3 = '' or d.channel = $3)
  and ($4 = 0 or d.owner = $5)
order by d.state desc, d.id desc limit $6";
    LIST_FOR_PEOPLE_SQLITE = selecting_sqlite "delivery_list_for_people" columns "
from delivery d where d.state in (2, 3, 5, 6) and d.state = $1 and d.id < $2 and ($3 = '' or d.channel = $3)
  and ($4 = 0 or d.owner = $5)
order by d.state desc, d.id desc limit $6";
    NEXT_DUE = portable "delivery_next_due" "
select due_ms from delivery where due_ms > $1 order by due_ms limit 1";
    WITHOUT_EVIDENCE = selecting "delivery_without_evidence" columns "
from delivery d where d.state = 4 and d.evidence_at_ms is null order by d.id limit $1 for no key update skip locked";
    UNSURE = portable "delivery_unsure" "
select (select count(*) from (select id from delivery where state in (2, 3, 5, 6) and state = 2 limit $1) x),
       (select count(*) from (select id from delivery where state in (2, 3, 5, 6) and state = 3 limit $1) x),
       (select count(*) from (select id from delivery where state in (2, 3, 5, 6) and state = 6 limit $1) x)";
    WAITING = portable "delivery_waiting" "
select count(*), min(due_ms) from (select due_ms from delivery where due_ms <= $1 order by due_ms limit $2) x";
}

/// A delivery.
pub async fn get(tx: &mut Tx, id: DeliveryId) -> Result<Option<Delivery>> {
    Ok(deliveries(tx, &GET, params![id]).await?.pop())
}

/// Between which ids the deliveries of a notification lie, perhaps with others.
pub(super) fn places(id: NotificationId) -> (DeliveryId, DeliveryId) {
    (id.delivery(0), id.delivery(PLACES - 1))
}

/// A notification's deliveries, in the order in which its recipients were named.
pub async fn of_notification(tx: &mut Tx, id: NotificationId) -> Result<Vec<Delivery>> {
    let (first, last) = places(id);
    deliveries(tx, &OF_NOTIFICATION, params![first, last, id]).await
}

/// The same, locked.
pub async fn lock_of_notification(tx: &mut Tx, id: NotificationId) -> Result<Vec<Delivery>> {
    let (first, last) = places(id);
    deliveries(tx, &LOCK_OF_NOTIFICATION, params![first, last, id]).await
}

/// Deliveries before this one, newest first, as far as they are wanted.
pub async fn list(
    tx: &mut Tx,
    owner: Option<&str>,
    before: DeliveryId,
    state: Option<DeliveryState>,
    channel: Option<&str>,
    limit: u64,
) -> Result<Vec<Delivery>> {
    let channel = channel.unwrap_or_default();
    // What waits for people lies together, however many others there are. (To PostgreSQL the state is told as
    // a range, lest it take the order for one of ids alone and walk over all of them.)
    if let Some(state) = state.filter(|state| state.is_for_people()) {
        let params = params![
            state.code(),
            before,
            channel,
            i64::from(owner.is_some()),
            owner.unwrap_or_default(),
            limit
        ];
        let statement = match tx.driver {
            Driver::Postgres(_) => &LIST_FOR_PEOPLE_POSTGRES,
            Driver::Sqlite(_) => &LIST_FOR_PEOPLE_SQLITE,
        };
        return deliveries(tx, statement, params).await;
    }
    let state = state.map_or(-1, DeliveryState::code);
    match owner {
        Some(owner) => {
            let params = params![owner, before, state, channel, limit];
            deliveries(tx, &LIST_OF_OWNER, params).await
        }
        None => deliveries(tx, &LIST_OF_ALL, params![before, state, channel, limit]).await,
    }
}

/// When the next delivery falls due after this moment.
pub async fn next_due(tx: &mut Tx, after: Timestamp) -> Result<Option<Timestamp>> {
    tx.row_opt(&NEXT_DUE, params![after])
        .await?
        .map(|mut row| row.time(0))
        .transpose()
}

/// Deliveries that count as sent although no provider said so, locked.
pub async fn without_evidence(tx: &mut Tx, limit: u64) -> Result<Vec<Delivery>> {
    deliveries(tx, &WITHOUT_EVIDENCE, params![limit]).await
}

/// How many deliveries are in each of the states in which a provider or a person has to say, up to a bound each.
pub async fn unsure(tx: &mut Tx) -> Result<Vec<(DeliveryState, u64)>> {
    let mut row = tx.row(&UNSURE, params![COUNT_MAX]).await?;
    let states = DeliveryState::UNSURE.into_iter().enumerate();
    states
        .map(|(column, state)| Ok((state, row.count(column)?)))
        .collect()
}

/// How many deliveries are due, up to a bound, and since when.
pub async fn waiting(tx: &mut Tx, now: Timestamp) -> Result<(u64, Option<Timestamp>)> {
    let mut row = tx.row(&WAITING, params![now, COUNT_MAX]).await?;
    Ok((row.count(0)?, row.opt_time(1)?))
}
