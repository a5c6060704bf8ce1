//! Files on their way in, and bytes that nobody needs any more.

use docket_core::Timestamp;
use docket_core::id::UploadId;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    INSERT = portable "upload_insert" "
insert into upload (id, tenant_id, blob_key, reserved, discarded, expires_at_ms) values ($1, $2, $3, $4, $5, $6)";
    TAKE = portable "upload_take" "
delete from upload where id = $1 and not discarded and expires_at_ms > $2 returning reserved";
    DISCARD = portable "upload_discard" "
update upload set discarded = $2, reserved = $3, expires_at_ms = $4 where id = $1 and not discarded";
    DUE = portable "upload_due" "
select id, blob_key from upload where expires_at_ms <= $1 order by expires_at_ms limit $2 for update skip locked";
    MARK = portable "upload_mark" "
update upload set discarded = $2, reserved = $3, expires_at_ms = $4 where id = $1";
    DELETE = portable "upload_delete" "delete from upload where id = $1";
}

/// Notes an upload that begins.
pub async fn insert(
    tx: &mut Tx,
    id: UploadId,
    tenant: &str,
    blob_key: &str,
    reserved: bool,
    expires_at: Timestamp,
) -> Result<()> {
    tx.execute_one(
        &INSERT,
        params![id, tenant, blob_key, reserved, false, expires_at],
    )
    .await
}

/// Notes bytes that nobody needs any more.
pub async fn insert_discarded(
    tx: &mut Tx,
    id: UploadId,
    tenant: &str,
    blob_key: &str,
    now: Timestamp,
) -> Result<()> {
    tx.execute_one(&INSERT, params![id, tenant, blob_key, false, true, now])
        .await
}

/// Ends an upload because an item takes its bytes over: whether it had a place reserved; none when it has expired.
pub async fn take(tx: &mut Tx, id: UploadId, now: Timestamp) -> Result<Option<bool>> {
    tx.row_opt(&TAKE, params![id, now])
        .await?
        .map(|mut row| row.bool(0))
        .transpose()
}

/// Gives an upload up: its place is free at once, its bytes are for the sweeper from then on.
pub async fn discard(tx: &mut Tx, id: UploadId, due_at: Timestamp) -> Result<()> {
    tx.execute(&DISCARD, params![id, true, false, due_at])
        .await
        .map(|_| ())
}

/// Uploads whose bytes may go. They are marked, so that none of them can be finished any more, and come up again at `again_at` should
/// their bytes not be gone by then.
pub async fn mark_due(
    tx: &mut Tx,
    now: Timestamp,
    again_at: Timestamp,
    limit: u64,
) -> Result<Vec<(UploadId, String)>> {
    let mut due = Vec::new();
    for mut row in tx.rows(&DUE, params![now, limit]).await? {
        let (id, blob_key) = (UploadId::from_uuid(row.uuid(0)?), row.text(1)?);
        tx.execute_one(&MARK, params![id, true, false, again_at]).await?;
        due.push((id, blob_key));
    }
    Ok(due)
}

/// Forgets an upload whose bytes are gone.
pub async fn delete(tx: &mut Tx, id: UploadId) -> Result<()> {
    tx.execute(&DELETE, params![id]).await.map(|_| ())
}
