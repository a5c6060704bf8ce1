//! Answers kept for repeated calls.

use std::collections::HashMap;

use docket_core::Timestamp;
use docket_core::content::Digest;

use crate::error::Result;
use crate::params;
use crate::postgres::Query;
use crate::tx::{Driver, Tx};
use crate::value::{Row, Value};

crate::statements! {
    GET = portable "idempotency_get" "
select request_hash, response from idempotency where tenant_id = $1 and key = $2";
    GET_MANY = postgres "idempotency_get_many" "
select q.tenant_id, q.key, i.request_hash, i.response from unnest($1::text[], $2::text[]) as q (tenant_id, key)
cross join lateral (
  select i.request_hash, i.response from idempotency i where i.tenant_id = q.tenant_id and i.key = q.key limit 1) i";
    INSERT = portable "idempotency_insert" "
insert into idempotency (tenant_id, key, request_hash, response, created_at_ms) values ($1, $2, $3, $4, $5)";
    SWEEP = split "idempotency_sweep"
        "delete from idempotency where ctid = any (array(
           select ctid from idempotency where created_at_ms <= $1 limit $2 for update skip locked))"
        "delete from idempotency where (tenant_id, key) in (
           select tenant_id, key from idempotency where created_at_ms <= $1 limit $2)";
}

/// The digest of what was asked under a key, and the answer first given to it.
pub type Kept = (Digest, String);

/// Asks for the answers that these keys of tenants have.
pub(super) fn asking(keys: &[(String, String)]) -> Query {
    let (tenants, keys) = keys.iter().cloned().map(|(t, key)| (Some(t), Some(key))).unzip();
    (&GET_MANY, vec![Value::Texts(tenants), Value::Texts(keys)])
}

pub(super) fn read_all(rows: Vec<Row>) -> Result<HashMap<(String, String), Kept>> {
    rows.into_iter()
        .map(|mut row| Ok(((row.text(0)?, row.text(1)?), (row.digest(2)?, row.text(3)?))))
        .collect()
}

/// The answer first given to this key, and the digest of what was asked.
pub async fn get(tx: &mut Tx, tenant: &str, key: &str) -> Result<Option<Kept>> {
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
    let params = params![tenant, key, request, response, now];
    if let Driver::Postgres(tx) = &mut tx.driver {
        // It touches its row or fails.
        tx.execute_later((&INSERT, params.to_vec()));
        return Ok(());
    }
    tx.execute_one(&INSERT, params).await
}

/// Forgets answers as old as this.
pub async fn sweep(tx: &mut Tx, until: Timestamp, limit: u64) -> Result<u64> {
    tx.execute(&SWEEP, params![until, limit]).await
}
