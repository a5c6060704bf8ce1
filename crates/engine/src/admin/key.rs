//! API keys (rule A1). A secret is shown once, to whoever makes the key; what is stored is its hash.
//!
//! Deliberately absent: when a key was last used. Telling it would turn every look-up into a write.

use std::sync::atomic::Ordering;

use docket_core::access::{ApiKey, Caller, Role};
use docket_core::content::Digest;
use docket_core::id::KeyId;
use docket_core::log::Action;
use docket_core::name::TenantId;
use docket_core::scope::Operator;
use docket_core::{Refusal, Timestamp};
use docket_store::table::key::{self, Key};
use docket_store::table::log::NewEntry;
use docket_store::table::{log, tenant};
use docket_store::{Result, Tx};
use serde_json::json;

use crate::engine::Engine;

/// The most keys on a page.
const PAGE_MAX: u64 = 200;

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What its holder may do.
    pub role: Role,
    /// Whom its holder acts for; none for workers, services and admins.
    pub tenant: Option<TenantId>,
    /// Who its holder is; of a reviewer the reviewerId.
    pub subject: String,
}

/// A key that was made.
#[derive(Clone, Debug)]
pub struct CreatedKey {
    /// Its id, by which it is revoked.
    pub id: KeyId,
    /// The secret, which nobody can tell again.
    pub key: ApiKey,
}

/// A page of keys.
#[derive(Clone, Debug)]
pub struct KeyPage {
    /// The keys, newest first.
    pub keys: Vec<Key>,
    /// Where the next page begins; none at the end.
    pub next: Option<KeyId>,
}

pub(super) struct KeyCreate {
    who: Operator,
    pub(super) row: Key,
    hash: Digest,
    /// Only where there is no key and never was one.
    first: bool,
}

impl Engine {
    /// Makes a key.
    pub async fn key_create(&self, who: &Operator, new: NewKey) -> Result<CreatedKey> {
        let secret = ApiKey::draw(self.kernel.random.as_ref());
        let (params, created) = self.key_prepare(who, new, secret)?;
        self.kernel
            .store
            .run("key_create", params, |tx, p| Box::pin(key_create(tx, p)))
            .await?;
        Ok(created)
    }

    /// Makes the first admin key, where there is no key and never was one; of many servers that start at once one makes it. The
    /// secret is `given`, which has to be strong, or drawn.
    pub async fn key_first(&self, given: Option<&str>) -> Result<Option<CreatedKey>> {
        let secret = match given {
            Some(given) => ApiKey::parse(given)?,
            None => ApiKey::draw(self.kernel.random.as_ref()),
        };
        let new = NewKey {
            role: Role::Admin,
            tenant: None,
            subject: "first".to_owned(),
        };
        let (mut params, created) = self.key_prepare(&Operator::system(), new, secret)?;
        params.first = true;
        let made = self
            .kernel
            .store
            .run("key_first", params, |tx, p| Box::pin(key_create(tx, p)));
        Ok(made.await?.then_some(created))
    }

    pub(super) fn key_prepare(
        &self,
        who: &Operator,
        new: NewKey,
        secret: ApiKey,
    ) -> Result<(KeyCreate, CreatedKey)> {
        // What makes no caller makes no key.
        let caller = Caller::new(new.role, new.tenant, new.subject)?;
        let now = self.kernel.clock.now();
        let id = KeyId::new(now, self.kernel.random.as_ref());
        let row = Key {
            id,
            prefix: secret.prefix().to_owned(),
            role: caller.role(),
            tenant_id: caller.tenant().map(|tenant| tenant.as_str().to_owned()),
            subject: caller.subject().to_owned(),
            created_at: now,
            created_by: who.actor.as_str().to_owned(),
            revoked_at: None,
        };
        let params = KeyCreate {
            who: who.clone(),
            row,
            hash: secret.hash(),
            first: false,
        };
        Ok((params, CreatedKey { id, key: secret }))
    }

    /// The keys there are, revoked ones among them, newest first; `before` is the last page's `next`.
    pub async fn keys(&self, _who: &Operator, before: Option<KeyId>, limit: u64) -> Result<KeyPage> {
        let limit = limit.clamp(1, PAGE_MAX);
        let params = (before.unwrap_or(KeyId::last()), limit + 1);
        let found = self
            .kernel
            .store
            .read("keys", params, |tx, p| Box::pin(key::list(tx, p.0, p.1)));
        let mut keys = found.await?;
        let more = keys.len() as u64 > limit;
        keys.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let next = keys.last().filter(|_| more).map(|key| key.id);
        Ok(KeyPage { keys, next })
    }

    /// The key with this secret, revoked or not.
    pub async fn key_find(&self, secret: &ApiKey) -> Result<Option<Key>> {
        self.kernel
            .store
            .read("key_find", secret.hash(), |tx, hash| {
                Box::pin(key::find(tx, *hash))
            })
            .await
    }

    /// Revokes a key; one that is revoked stays so.
    pub async fn key_revoke(&self, who: &Operator, id: KeyId) -> Result<()> {
        let params = (who.clone(), id, self.kernel.clock.now());
        let revoked = self
            .kernel
            .store
            .run("key_revoke", params, |tx, p| {
                Box::pin(key_revoke(tx, &p.0, p.1, p.2))
            })
            .await;
        // Also when the answer was lost: it may have happened.
        self.kernel.keys_revoked.fetch_add(1, Ordering::SeqCst);
        revoked
    }

    /// A number that changes whenever a key is revoked on this server. What was learned of a key before it changed is to be
    /// asked again; on other servers it has to be asked again from time to time.
    pub fn keys_revoked(&self) -> u64 {
        self.kernel.keys_revoked.load(Ordering::SeqCst)
    }

    /// The present moment, by the clock that all servers on this database agree on.
    pub fn now(&self) -> Timestamp {
        self.kernel.clock.now()
    }
}

/// Writes a key; false where it was to be the first and is not.
pub(super) async fn key_create(tx: &mut Tx, p: &KeyCreate) -> Result<bool> {
    if p.first {
        // Those who start at the same time wait here for the one that makes it, and then see it.
        tenant::lock_set_up(tx).await?;
        if key::any(tx).await? {
            return Ok(false);
        }
    }
    if let Some(id) = &p.row.tenant_id {
        tenant::get(tx, id)
            .await?
            .ok_or_else(|| Refusal::not_found("tenant", id))?;
    }
    key::insert(tx, &p.row, p.hash).await?;
    let details = json!({
        "keyId": p.row.id, "prefix": p.row.prefix, "role": p.row.role, "subject": p.row.subject,
    });
    let mut entry = NewEntry::new(Action::KeyCreated, p.who.actor.as_str()).with(&details);
    entry.tenant_id.clone_from(&p.row.tenant_id);
    log::append(tx, &entry, p.row.created_at).await?;
    Ok(true)
}

async fn key_revoke(tx: &mut Tx, who: &Operator, id: KeyId, now: Timestamp) -> Result<()> {
    let known = key::lock(tx, id)
        .await?
        .ok_or_else(|| Refusal::not_found("key", &id))?;
    if known.revoked_at.is_some() {
        return Ok(());
    }
    key::revoke(tx, id, who.actor.as_str(), now).await?;
    let details =
        json!({ "keyId": id, "prefix": known.prefix, "role": known.role, "subject": known.subject });
    let mut entry = NewEntry::new(Action::KeyRevoked, who.actor.as_str()).with(&details);
    entry.tenant_id = known.tenant_id;
    log::append(tx, &entry, now).await
}
