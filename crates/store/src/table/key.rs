//! API keys. Looked up by the hash of their secret, which is all that is known of it here.

use docket_core::Timestamp;
use docket_core::access::Role;
use docket_core::content::Digest;
use docket_core::id::KeyId;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;
use crate::value::Row;

crate::statements! {
    INSERT = portable "key_insert" "
insert into api_key (id, prefix, hash, role, tenant_id, subject, created_at_ms, created_by)
values ($1, $2, $3, $4, $5, $6, $7, $8)";
    FIND = portable "key_find" "
select id, prefix, role, tenant_id, subject, created_at_ms, created_by, revoked_at_ms from api_key where hash = $1";
    GET = portable "key_get" "
select id, prefix, role, tenant_id, subject, created_at_ms, created_by, revoked_at_ms from api_key
where id = $1 for no key update";
    LIST = portable "key_list" "
select id, prefix, role, tenant_id, subject, created_at_ms, created_by, revoked_at_ms from api_key
where id < $1 order by id desc limit $2";
    ANY = portable "key_any" "select id from api_key limit 1";
    REVOKE = portable "key_revoke" "
update api_key set revoked_at_ms = $2, revoked_by = $3 where id = $1 and revoked_at_ms is null";
}

/// A key, without its secret.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its id.
    pub id: KeyId,
    /// How its secret begins.
    pub prefix: String,
    /// What its holder may do.
    pub role: Role,
    /// Whom its holder acts for; none for the deployment.
    pub tenant_id: Option<String>,
    /// Who its holder is.
    pub subject: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// By whom.
    pub created_by: String,
    /// Since when it is no longer taken.
    pub revoked_at: Option<Timestamp>,
}

fn read(mut row: Row) -> Result<Key> {
    Ok(Key {
        id: KeyId::from_uuid(row.uuid(0)?),
        prefix: row.text(1)?,
        role: Role::parse(&row.text(2)?).map_err(|_| row.inconsistent(2))?,
        tenant_id: row.opt_text(3)?,
        subject: row.text(4)?,
        created_at: row.time(5)?,
        created_by: row.text(6)?,
        revoked_at: row.opt_time(7)?,
    })
}

/// Writes a key.
pub async fn insert(tx: &mut Tx, key: &Key, hash: Digest) -> Result<()> {
    let params = params![
        key.id,
        &key.prefix,
        hash,
        key.role.as_str(),
        key.tenant_id.as_ref(),
        &key.subject,
        key.created_at,
        &key.created_by
    ];
    tx.execute_one(&INSERT, params).await
}

/// The key whose secret has this hash.
pub async fn find(tx: &mut Tx, hash: Digest) -> Result<Option<Key>> {
    tx.row_opt(&FIND, params![hash]).await?.map(read).transpose()
}

/// A key, locked.
pub async fn lock(tx: &mut Tx, id: KeyId) -> Result<Option<Key>> {
    tx.row_opt(&GET, params![id]).await?.map(read).transpose()
}

/// The keys made before this one, newest first.
pub async fn list(tx: &mut Tx, before: KeyId, limit: u64) -> Result<Vec<Key>> {
    let rows = tx.rows(&LIST, params![before, limit]).await?;
    rows.into_iter().map(read).collect()
}

/// Whether there is a key or ever was one.
pub async fn any(tx: &mut Tx) -> Result<bool> {
    Ok(tx.row_opt(&ANY, &[]).await?.is_some())
}

/// Revokes a key that is not revoked yet.
pub async fn revoke(tx: &mut Tx, id: KeyId, by: &str, now: Timestamp) -> Result<()> {
    tx.execute_one(&REVOKE, params![id, now, by]).await
}
