//! What may be forgotten: items and notifications that are finished for long, and numbers that no lane needs.

use docket_core::Timestamp;
use docket_core::id::{ItemId, NotificationId};
use docket_core::notification::NotificationStatus;

use super::{delivery_find, item};
use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    SWEEP_HOLES = split "holes_sweep"
        "delete from hole where ctid = any (array(
           select h.ctid from hole h join lane l on l.lane_key = h.lane_key
           where h.seq < l.head_seq limit $1 for update of h skip locked))"
        "delete from hole where (lane_key, seq) in (
           select h.lane_key, h.seq from hole h join lane l on l.lane_key = h.lane_key
           where h.seq < l.head_seq limit $1)";
    FINISHED = split "items_finished"
        "select i.id from collection c join item i on i.collection_key = c.collection_key and i.id < $3
         left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
         left join review r on r.collection_key = i.collection_key and r.item_id = i.id and r.item_version = i.version
         where ((j.state in (2, 3, 5) and (j.state <> 2 or not j.to_review or r.state in (2, 3, 4, 6)) and j.finished_at_ms <= $1)
             or (i.lane_key is null and (not i.to_review or r.state in (2, 3, 4, 6)) and i.updated_at_ms <= $1))
           and (r.state is null or r.state in (2, 3, 4, 6)) and (r.decided_at_ms is null or r.decided_at_ms <= $1)
         limit $2 for update of i skip locked"
        "select i.id from collection c join item i on i.collection_key = c.collection_key and i.id < $3
         left join job j on j.lane_key = i.lane_key and j.seq = i.job_seq
         left join review r on r.collection_key = i.collection_key and r.item_id = i.id and r.item_version = i.version
         where ((j.state in (2, 3, 5) and (j.state <> 2 or not j.to_review or r.state in (2, 3, 4, 6)) and j.finished_at_ms <= $1)
             or (i.lane_key is null and (not i.to_review or r.state in (2, 3, 4, 6)) and i.updated_at_ms <= $1))
           and (r.state is null or r.state in (2, 3, 4, 6)) and (r.decided_at_ms is null or r.decided_at_ms <= $1)
         limit $2";
    VERSIONS_BLOBS = portable "item_version_blobs" "
select blob_key from item_version where collection_key = $1 and item_id = $2 and blob_key is not null";
    DELETE_VERSIONS = portable "item_versions_delete" "
delete from item_version where collection_key = $1 and item_id = $2";
    DELETE_CORRECTIONS = portable "corrections_delete" "
delete from correction where collection_key = $1 and item_id = $2";
    DELETE_STEPS = portable "job_steps_delete" "delete from job_step where lane_key = $1 and seq = $2";
    DELETE_JOB = portable "job_delete" "
delete from job where lane_key = $1 and seq = $2 and state <> 0 returning prior_lane_key, prior_seq";
    DELETE_ITEM = portable "item_delete" "delete from item where collection_key = $1 and id = $2";
    KEPT_NOTIFICATIONS = portable "notifications_kept" "
select id, owner, item_id, changelist_id, review_version from notification where kept_since_ms <= $1
order by kept_since_ms limit $2 for no key update skip locked";
    KEEP_NOTIFICATION = portable "notification_keep" "update notification set kept_since_ms = $2 where id = $1";
    EXPIRE_NOTIFICATION = portable "notification_expire" "
update notification set kept_since_ms = null, expired_as = $2, subject = '', body = '' where id = $1";
    DELETE_ATTEMPTS = portable "delivery_attempts_delete" "
delete from delivery_attempt where delivery_id in (
  select id from delivery where id >= $1 and id <= $2 and notification_id = $3)";
    DELETE_DELIVERIES = portable "deliveries_delete" "
delete from delivery where id >= $1 and id <= $2 and notification_id = $3";
}

/// Forgets cancelled numbers that their lane has passed.
pub async fn sweep_holes(tx: &mut Tx, limit: u64) -> Result<u64> {
    tx.execute(&SWEEP_HOLES, params![limit]).await
}

/// Items whose last job ended before `until`, or that arrived finished before it, with no review that is still open, and none decided
/// since; locked.
pub async fn finished(tx: &mut Tx, until: Timestamp, limit: u64) -> Result<Vec<ItemId>> {
    // What was submitted later cannot have ended before: the ids, which begin with the time, bound the look.
    tx.rows(&FINISHED, params![until, limit, ItemId::first_after(until)])
        .await?
        .into_iter()
        .map(|mut row| row.item(0))
        .collect()
}

/// The keys of the bytes of an item's earlier versions.
pub async fn version_blobs(tx: &mut Tx, item: ItemId) -> Result<Vec<String>> {
    let rows = tx.rows(&VERSIONS_BLOBS, params![item.collection(), item]).await?;
    rows.into_iter().map(|mut row| row.text(0)).collect()
}

/// Deletes an item with all its jobs; the log stays.
pub async fn delete(
    tx: &mut Tx,
    item: ItemId,
    latest: Option<(docket_core::id::LaneKey, docket_core::id::Seq)>,
) -> Result<()> {
    let key = params![item.collection(), item];
    // Each job leads to the one before it; where a version has none, what was before it is remembered with the versions.
    let earlier = item::earlier_jobs(tx, item).await?;
    let earlier = earlier.into_iter().map(|(_, job)| job);
    for first in latest.into_iter().chain(earlier) {
        let mut next = Some(first);
        while let Some((lane, seq)) = next {
            tx.execute(&DELETE_STEPS, params![lane, seq]).await?;
            let row = tx.row_opt(&DELETE_JOB, params![lane, seq]).await?;
            next = match row {
                Some(mut row) => row.opt_lane(0)?.zip(row.opt_seq(1)?),
                None => None,
            };
        }
    }
    tx.execute(&DELETE_VERSIONS, key).await?;
    tx.execute(&DELETE_CORRECTIONS, key).await?;
    tx.execute_one(&DELETE_ITEM, key).await
}

/// A notification whose words and deliveries are kept.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct KeptNotification {
    pub id: NotificationId,
    /// The tenant; empty for the deployment's own.
    pub owner: String,
    /// The item whose review it follows from.
    pub item: Option<ItemId>,
    pub changelist_id: String,
    pub review_version: i64,
}

/// Notifications whose time of being kept is counted from no later than `until`, the oldest first, locked; those that somebody else has
/// locked are left out.
pub async fn kept_notifications(tx: &mut Tx, until: Timestamp, limit: u64) -> Result<Vec<KeptNotification>> {
    tx.rows(&KEPT_NOTIFICATIONS, params![until, limit])
        .await?
        .into_iter()
        .map(|mut row| {
            Ok(KeptNotification {
                id: NotificationId::from_uuid(row.uuid(0)?),
                owner: row.text(1)?,
                item: row.opt_item(2)?,
                changelist_id: row.text(3)?,
                review_version: row.int(4)?,
            })
        })
        .collect()
}

/// Counts the time of a notification from this moment on.
pub async fn keep_notification(tx: &mut Tx, id: NotificationId, since: Timestamp) -> Result<()> {
    tx.execute_one(&KEEP_NOTIFICATION, params![id, since]).await
}

/// Deletes a notification's words, its deliveries and their attempts. Its row stays and answers for its key and its version; so does the
/// log.
pub async fn expire_notification(tx: &mut Tx, id: NotificationId, status: NotificationStatus) -> Result<()> {
    let (first, last) = delivery_find::places(id);
    tx.execute(&DELETE_ATTEMPTS, params![first, last, id]).await?;
    tx.execute(&DELETE_DELIVERIES, params![first, last, id]).await?;
    tx.execute_one(&EXPIRE_NOTIFICATION, params![id, status.as_str()])
        .await
}
