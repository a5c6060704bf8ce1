//! Notifications, and the highest version of each subject.

use docket_core::Timestamp;
use docket_core::content::Digest;
use docket_core::id::{ItemId, NotificationId};
use docket_core::notification::NotificationStatus;

use crate::error::Result;
use crate::params;
use crate::statement::Statement;
use crate::tx::Tx;
use crate::value::{Row, Value};

/// What is read of every notification.
macro_rules! columns {
    () => {
        "n.id, n.owner, n.idempotency_key, n.request_hash, n.changelist_id, n.review_version, n.item_id, n.subject, n.body,
         n.actor, n.created_at_ms, n.expired_as"
    };
}

crate::statements! {
    INSERT = portable "notification_insert" "
insert into notification (id, owner, idempotency_key, request_hash, changelist_id, review_version, item_id, subject, body, actor,
                          created_at_ms, kept_since_ms)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11)";
    GET = selecting "notification_get" columns "from notification n where n.id = $1";
    BY_KEY = selecting "notification_by_key" columns "
from notification n where n.owner = $1 and n.idempotency_key = $2";
    OF_VERSION = selecting "notification_of_version" columns "
from notification n where n.owner = $1 and n.changelist_id = $2 and n.review_version = $3";
    DELETE = portable "notification_delete" "delete from notification where id = $1";
    RAISE = portable "notification_raise" "
insert into notification_subject (owner, changelist_id, review_version, notification_id) values ($1, $2, $3, $4)
on conflict (owner, changelist_id) do update
set review_version = excluded.review_version, notification_id = excluded.notification_id
where notification_subject.review_version < excluded.review_version
returning review_version";
    HIGHEST = portable "notification_highest" "
select review_version, notification_id from notification_subject where owner = $1 and changelist_id = $2 for no key update";
    LOWER = portable "notification_lower" "
update notification_subject set review_version = $3, notification_id = $4 where owner = $1 and changelist_id = $2";
    FORGET = portable "notification_forget" "
delete from notification_subject where owner = $1 and changelist_id = $2";
    PREVIOUS = selecting "notification_previous" columns "
from notification n where n.owner = $1 and n.changelist_id = $2 order by n.owner, n.changelist_id, n.review_version desc limit 1";
    LIST_OF_OWNER = selecting "notification_list_of_owner" columns "
from notification n where n.owner = $1 and n.id < $2 and ($3 = '' or n.changelist_id = $3)
order by n.owner desc, n.id desc limit $4";
    LIST_OF_ALL = selecting "notification_list_of_all" columns "
from notification n where n.id < $1 and ($2 = '' or n.changelist_id = $2) order by n.id desc limit $3";
}

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct Notification {
    pub id: NotificationId,
    /// The tenant; empty for the deployment's own.
    pub owner: String,
    pub idempotency_key: String,
    /// What was asked for.
    pub request: Digest,
    pub changelist_id: String,
    pub review_version: i64,
    /// The item whose review it follows from.
    pub item: Option<ItemId>,
    pub subject: String,
    pub body: String,
    pub actor: String,
    pub created_at: Timestamp,
    /// What had become of it when its words and its deliveries were forgotten; none while they are there.
    pub expired_as: Option<NotificationStatus>,
}

fn read(mut row: Row) -> Result<Notification> {
    Ok(Notification {
        id: NotificationId::from_uuid(row.uuid(0)?),
        owner: row.text(1)?,
        idempotency_key: row.text(2)?,
        request: row.digest(3)?,
        changelist_id: row.text(4)?,
        review_version: row.int(5)?,
        item: row.opt_item(6)?,
        subject: row.text(7)?,
        body: row.text(8)?,
        actor: row.text(9)?,
        created_at: row.time(10)?,
        expired_as: expired_as(&mut row)?,
    })
}

fn expired_as(row: &mut Row) -> Result<Option<NotificationStatus>> {
    let Some(word) = row.opt_text(11)? else {
        return Ok(None);
    };
    let status = NotificationStatus::from_word(&word);
    status.map(Some).ok_or_else(|| row.inconsistent(11))
}

async fn one(tx: &mut Tx, statement: &'static Statement, params: &[Value]) -> Result<Option<Notification>> {
    tx.row_opt(statement, params).await?.map(read).transpose()
}

/// Writes a notification. Fails on a key that somebody else has used in the meantime, so that the transaction is run again.
pub async fn insert(tx: &mut Tx, new: &Notification) -> Result<()> {
    let params = params![
        new.id,
        &new.owner,
        &new.idempotency_key,
        new.request,
        &new.changelist_id,
        new.review_version,
        new.item,
        &new.subject,
        &new.body,
        &new.actor,
        new.created_at,
    ];
    tx.execute_one(&INSERT, params).await
}

/// A notification.
pub async fn get(tx: &mut Tx, id: NotificationId) -> Result<Option<Notification>> {
    one(tx, &GET, params![id]).await
}

/// The one first made under this key.
pub async fn by_key(tx: &mut Tx, owner: &str, key: &str) -> Result<Option<Notification>> {
    one(tx, &BY_KEY, params![owner, key]).await
}

/// The one of this version of a subject.
pub async fn of_version(
    tx: &mut Tx,
    owner: &str,
    changelist_id: &str,
    review_version: i64,
) -> Result<Option<Notification>> {
    one(tx, &OF_VERSION, params![owner, changelist_id, review_version]).await
}

/// Raises the highest version of a subject, and holds the subject until the transaction ends; whether it was lower.
pub async fn raise(
    tx: &mut Tx,
    owner: &str,
    changelist_id: &str,
    review_version: i64,
    id: NotificationId,
) -> Result<bool> {
    let params = params![owner, changelist_id, review_version, id];
    Ok(tx.row_opt(&RAISE, params).await?.is_some())
}

/// The highest version of a subject, and its notification; held until the transaction ends.
pub async fn highest(tx: &mut Tx, owner: &str, changelist_id: &str) -> Result<Option<(i64, NotificationId)>> {
    let row = tx.row_opt(&HIGHEST, params![owner, changelist_id]).await?;
    row.map(|mut row| Ok((row.int(0)?, NotificationId::from_uuid(row.uuid(1)?))))
        .transpose()
}

/// Deletes a notification of which nothing was tried, and makes the version before it the highest again. The caller holds the subject.
pub async fn withdraw(tx: &mut Tx, gone: &Notification) -> Result<()> {
    let (owner, subject) = (&gone.owner, &gone.changelist_id);
    tx.execute_one(&DELETE, params![gone.id]).await?;
    match one(tx, &PREVIOUS, params![owner, subject]).await? {
        Some(previous) => {
            let params = params![owner, subject, previous.review_version, previous.id];
            tx.execute_one(&LOWER, params).await
        }
        None => tx.execute_one(&FORGET, params![owner, subject]).await,
    }
}

/// Notifications before this one, newest first, as far as they are wanted.
pub async fn list(
    tx: &mut Tx,
    owner: Option<&str>,
    before: NotificationId,
    changelist_id: Option<&str>,
    limit: u64,
) -> Result<Vec<Notification>> {
    let changelist_id = changelist_id.unwrap_or_default();
    let rows = match owner {
        Some(owner) => {
            tx.rows(&LIST_OF_OWNER, params![owner, before, changelist_id, limit])
                .await?
        }
        None => {
            tx.rows(&LIST_OF_ALL, params![before, changelist_id, limit])
                .await?
        }
    };
    rows.into_iter().map(read).collect()
}
