//! Deliveries: writing the outbox, and putting back what was taken from it. What changes while one is on its way is its [`Course`]: it is read
//! under its lock, turned by the rules of the core, and put back.

use docket_core::Timestamp;
use docket_core::id::{DeliveryId, ItemId, NotificationId};
use docket_core::lease::LeaseToken;
use docket_core::notification::{Course, DeliveryState};
use docket_core::notify::OnUnknown;

use crate::error::Result;
use crate::params;
use crate::statement::Statement;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value};

/// What is read of every delivery.
macro_rules! columns {
    () => {
        "d.id, d.notification_id, d.owner, d.item_id, d.recipient, d.required, d.channel, d.destination, d.token, d.nonce,
         d.state, d.lease, d.due_ms, d.attempts, d.failures, d.began_at_ms, d.first_intent_at_ms, d.intent_at_ms, d.doubtful,
         d.receipt, d.notified_at_ms, d.evidence_at_ms, d.problem, d.created_at_ms, d.on_unknown, d.landed_by_ms,
         d.told_before_ms, d.ended_at_ms"
    };
}
pub(crate) use columns;

crate::statements! {
    INSERT = sqlite "delivery_insert" "
insert into delivery (id, key, notification_id, owner, item_id, recipient, required, channel, destination, token, headers, body,
                      due_ms, created_at_ms, on_unknown)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
    INSERT_MANY = postgres "delivery_insert_many" "
insert into delivery (id, key, notification_id, owner, item_id, recipient, required, channel, destination, token, headers, body,
                      due_ms, created_at_ms, on_unknown)
select n.id, n.key, n.notification_id, n.owner, nullif(n.item_id, '00000000-0000-0000-0000-000000000000'), n.recipient, n.required,
       n.channel, n.destination, n.token, n.headers, n.body, n.due_ms, n.created_at_ms, n.on_unknown
from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::uuid[], $6::text[], $7::bool[], $8::text[], $9::text[],
            $10::text[], $11::text[], $12::bytea[], $13::bigint[], $14::bigint[], $15::text[])
  as n (id, key, notification_id, owner, item_id, recipient, required, channel, destination, token, headers, body, due_ms,
        created_at_ms, on_unknown)";
    LOCK = selecting "delivery_lock" columns "
from delivery d where d.id = $1 for no key update";
    LOCK_MANY = selecting_postgres "delivery_lock_many" columns "
from delivery d where d.id = any ($1::uuid[]) order by d.id for no key update";
    PUT = sqlite "delivery_put" "
update delivery set state = $2, lease = $3, due_ms = $4, attempts = $5, failures = $6, began_at_ms = $7, first_intent_at_ms = $8,
  intent_at_ms = $9, doubtful = $10, receipt = $11, notified_at_ms = $12, evidence_at_ms = $13, problem = $14,
  landed_by_ms = $15, told_before_ms = $16, ended_at_ms = $17
where id = $1";
    PUT_MANY = postgres "delivery_put_many" "
update delivery d set state = n.state, lease = n.lease, due_ms = n.due_ms, attempts = n.attempts, failures = n.failures,
  began_at_ms = n.began_at_ms, first_intent_at_ms = n.first_intent_at_ms, intent_at_ms = n.intent_at_ms, doubtful = n.doubtful,
  receipt = n.receipt, notified_at_ms = n.notified_at_ms, evidence_at_ms = n.evidence_at_ms, problem = n.problem,
  landed_by_ms = n.landed_by_ms, told_before_ms = n.told_before_ms, ended_at_ms = n.ended_at_ms
from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::bool[], $11::text[], $12::bigint[], $13::bigint[], $14::text[], $15::bigint[],
            $16::bigint[], $17::bigint[])
  as n (id, state, lease, due_ms, attempts, failures, began_at_ms, first_intent_at_ms, intent_at_ms, doubtful, receipt,
        notified_at_ms, evidence_at_ms, problem, landed_by_ms, told_before_ms, ended_at_ms)
where d.id = n.id";
    REFREEZE = portable "delivery_refreeze" "
update delivery set token = $2, nonce = $3, headers = $4, body = $5 where id = $1";
    DELETE = portable "delivery_delete" "delete from delivery where id = $1";
}

/// A delivery, without what is sent.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Delivery {
    pub id: DeliveryId,
    pub notification: NotificationId,
    /// The tenant; empty for the deployment's own.
    pub owner: String,
    /// The item whose review it follows from.
    pub item: Option<ItemId>,
    pub recipient: String,
    pub required: bool,
    pub channel: String,
    /// Channel and host.
    pub destination: String,
    pub token: String,
    /// The last resend's; empty where nobody asked for one.
    pub nonce: String,
    pub course: Course,
    pub created_at: Timestamp,
    /// What becomes of it where nobody can tell; none: as the channel has it.
    pub on_unknown: Option<OnUnknown>,
}

/// What is sent, as it was frozen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenRow {
    /// JSON text.
    pub headers: String,
    /// The bytes.
    pub body: Vec<u8>,
}

/// A delivery to be written.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct NewDelivery {
    pub id: DeliveryId,
    /// What it is unique by.
    pub key: String,
    pub recipient: String,
    pub required: bool,
    pub channel: String,
    pub destination: String,
    pub token: String,
    pub frozen: FrozenRow,
    pub due: Timestamp,
}

/// Whose deliveries are written, and of what.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Origin {
    pub notification: NotificationId,
    pub owner: String,
    pub item: Option<ItemId>,
    pub created_at: Timestamp,
    pub on_unknown: Option<OnUnknown>,
}

impl Delivery {
    pub(crate) fn read(row: &mut Row) -> Result<Self> {
        let state = DeliveryState::from_code(row.int(10)?).ok_or_else(|| row.inconsistent(10))?;
        let small = |row: &mut Row, column: usize| {
            u32::try_from(row.int(column)?).map_err(|_| row.inconsistent(column))
        };
        let course = Course {
            state,
            lease: LeaseToken(row.int(11)?),
            due: row.opt_time(12)?,
            attempts: small(row, 13)?,
            failures: small(row, 14)?,
            began_at: row.opt_time(15)?,
            first_intent_at: row.opt_time(16)?,
            intent_at: row.opt_time(17)?,
            doubtful: row.bool(18)?,
            receipt: row.opt_text(19)?,
            notified_at: row.opt_time(20)?,
            evidence_at: row.opt_time(21)?,
            problem: row.opt_text(22)?,
            landed_by: row.opt_time(25)?,
            told_before: row.opt_time(26)?,
            ended_at: row.opt_time(27)?,
        };
        Ok(Self {
            id: DeliveryId::from_uuid(row.uuid(0)?),
            notification: NotificationId::from_uuid(row.uuid(1)?),
            owner: row.text(2)?,
            item: row.opt_item(3)?,
            recipient: row.text(4)?,
            required: row.bool(5)?,
            channel: row.text(6)?,
            destination: row.text(7)?,
            token: row.text(8)?,
            nonce: row.text(9)?,
            course,
            created_at: row.time(23)?,
            on_unknown: policy(row, 24)?,
        })
    }
}

fn policy(row: &mut Row, column: usize) -> Result<Option<OnUnknown>> {
    match row.opt_text(column)? {
        None => Ok(None),
        Some(word) => OnUnknown::from_word(&word)
            .map(Some)
            .ok_or_else(|| row.inconsistent(column)),
    }
}

pub(super) async fn deliveries(
    tx: &mut Tx,
    statement: &'static Statement,
    params: &[Value],
) -> Result<Vec<Delivery>> {
    let rows = tx.rows(statement, params).await?;
    rows.into_iter().map(|mut row| Delivery::read(&mut row)).collect()
}

/// Writes new deliveries. Fails where one of them is there already.
pub async fn insert(tx: &mut Tx, new: &[(&Origin, &NewDelivery)]) -> Result<()> {
    if let Driver::Postgres(_) = tx.driver {
        let texts = |of: fn(&Origin, &NewDelivery) -> String| {
            Value::Texts(new.iter().map(|(o, n)| Some(of(o, n))).collect())
        };
        let params = params![
            Value::Uuids(new.iter().map(|(_, n)| n.id.uuid()).collect()),
            texts(|_, n| n.key.clone()),
            Value::Uuids(new.iter().map(|(o, _)| o.notification.uuid()).collect()),
            texts(|o, _| o.owner.clone()),
            Value::Uuids(
                new.iter()
                    .map(|(o, _)| o.item.map(ItemId::uuid).unwrap_or_default())
                    .collect()
            ),
            texts(|_, n| n.recipient.clone()),
            Value::Bools(new.iter().map(|(_, n)| n.required).collect()),
            texts(|_, n| n.channel.clone()),
            texts(|_, n| n.destination.clone()),
            texts(|_, n| n.token.clone()),
            texts(|_, n| n.frozen.headers.clone()),
            Value::Blobs(new.iter().map(|(_, n)| Some(n.frozen.body.clone())).collect()),
            Value::Ints(new.iter().map(|(_, n)| Some(n.due.ms())).collect()),
            Value::Ints(new.iter().map(|(o, _)| Some(o.created_at.ms())).collect()),
            Value::Texts(
                new.iter()
                    .map(|(o, _)| o.on_unknown.map(|policy| policy.as_str().to_owned()))
                    .collect()
            ),
        ];
        return tx.execute(&INSERT_MANY, params).await.map(drop);
    }
    for (origin, n) in new {
        let params = params![
            n.id,
            &n.key,
            origin.notification,
            &origin.owner,
            origin.item,
            &n.recipient,
            n.required,
            &n.channel,
            &n.destination,
            &n.token,
            &n.frozen.headers,
            n.frozen.body.clone(),
            n.due,
            origin.created_at,
            origin.on_unknown.map(OnUnknown::as_str),
        ];
        tx.execute_one(&INSERT, params).await?;
    }
    Ok(())
}

/// These deliveries as far as they are there, locked; in any order.
pub async fn lock(tx: &mut Tx, ids: &[DeliveryId]) -> Result<Vec<Delivery>> {
    if let Driver::Postgres(_) = tx.driver {
        let ids = Value::Uuids(ids.iter().map(|id| id.uuid()).collect());
        return deliveries(tx, &LOCK_MANY, params![ids]).await;
    }
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(deliveries(tx, &LOCK, params![*id]).await?);
    }
    Ok(found)
}

/// Writes back the courses of deliveries that the caller has locked.
pub async fn put(tx: &mut Tx, changed: &[&Delivery]) -> Result<()> {
    if changed.is_empty() {
        return Ok(());
    }
    if let Driver::Postgres(_) = tx.driver {
        let ints =
            |of: fn(&Course) -> Option<i64>| Value::Ints(changed.iter().map(|d| of(&d.course)).collect());
        let texts = |of: fn(&Course) -> &Option<String>| {
            Value::Texts(changed.iter().map(|d| of(&d.course).clone()).collect())
        };
        let params = params![
            Value::Uuids(changed.iter().map(|d| d.id.uuid()).collect()),
            ints(|c| Some(c.state.code())),
            ints(|c| Some(c.lease.0)),
            ints(|c| c.due.map(Timestamp::ms)),
            ints(|c| Some(i64::from(c.attempts))),
            ints(|c| Some(i64::from(c.failures))),
            ints(|c| c.began_at.map(Timestamp::ms)),
            ints(|c| c.first_intent_at.map(Timestamp::ms)),
            ints(|c| c.intent_at.map(Timestamp::ms)),
            Value::Bools(changed.iter().map(|d| d.course.doubtful).collect()),
            texts(|c| &c.receipt),
            ints(|c| c.notified_at.map(Timestamp::ms)),
            ints(|c| c.evidence_at.map(Timestamp::ms)),
            texts(|c| &c.problem),
            ints(|c| c.landed_by.map(Timestamp::ms)),
            ints(|c| c.told_before.map(Timestamp::ms)),
            ints(|c| c.ended_at.map(Timestamp::ms)),
        ];
        let touched = tx.execute(&PUT_MANY, params).await?;
        return check_touched(touched, changed.len());
    }
    for delivery in changed {
        let c = &delivery.course;
        let params = params![
            delivery.id,
            c.state.code(),
            c.lease.0,
            c.due,
            c.attempts,
            c.failures,
            c.began_at,
            c.first_intent_at,
            c.intent_at,
            c.doubtful,
            c.receipt.as_ref(),
            c.notified_at,
            c.evidence_at,
            c.problem.as_ref(),
            c.landed_by,
            c.told_before,
            c.ended_at,
        ];
        tx.execute_one(&PUT, params).await?;
    }
    Ok(())
}

fn check_touched(touched: u64, expected: usize) -> Result<()> {
    match touched == expected as u64 {
        true => Ok(()),
        false => Err(crate::error::Error::WrongRows {
            statement: PUT_MANY.name,
            touched,
            expected: expected as u64,
        }),
    }
}

/// Gives a delivery another token, and what is sent with it.
pub async fn refreeze(
    tx: &mut Tx,
    id: DeliveryId,
    token: &str,
    nonce: &str,
    frozen: &FrozenRow,
) -> Result<()> {
    let params = params![id, token, nonce, &frozen.headers, frozen.body.clone()];
    tx.execute_one(&REFREEZE, params).await
}

/// Deletes a delivery that nobody has tried to send.
pub async fn delete(tx: &mut Tx, id: DeliveryId) -> Result<()> {
    tx.execute_one(&DELETE, params![id]).await
}
