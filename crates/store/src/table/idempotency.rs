//! Answers kept for repeated calls.

use docket_core::Timestamp;
use docket_core::content::Digest;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    GET = portable "idempotency_get" "
select request_hash, response from idempotency where tenant_id = $1 and key = $2";
    INSERT = portable "idempotency_insert" "
insert into idempotency (tenant_id, key, request_hash, response, created_at_ms) values ($1, $2, $3, $4, $5)";
    SWEEP = split "idempotency_sweep"
        "delete from idempotency where ctid = any (array(
           select ctid from idempotency where created_at_ms <= $1 limit $2 for update skip locked))"
        "delete from idempotency where (tenant_id, key) in (
           select tenant_id, key from idempotency where created_at_ms <= $1 limit $2)";
}

/// The answer first given to this key, and the digest of what was asked.
pub async fn get(tx: &mut Tx, tenant: &str, key: &str) -> Result<Option<(Digest, String)>> {
    let row = tx.row_opt(&GET, params![tenant, key]).await?;
    row.map(|mut row| Ok((row.digest(0)?, row.text(1)?))).transpose()
}

/// Keeps an answer. Fails on a key that somebody else has used in the meantime, so that the transaction is run again.
pub async fn insert(
    tx: &mut Tx,
    tenant: &str,
    key: &str,
    request: Digest,
    response: &str,
    now: Timestamp,
) -> Result<()> {
    tx.execute_one(&INSERT, params![tenant, key, request, response, now])
        .await
}

/// Forgets answers as old as this.
pub async fn sweep(tx: &mut Tx, until: Timestamp, limit: u64) -> Result<u64> {
    tx.execute(&SWEEP, params![until, limit]).await
}
