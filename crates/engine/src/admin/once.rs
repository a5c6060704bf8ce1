//! Idempotency keys of operators' creating calls (rule I6): the same key creates nothing again.
//!
//! Kept with those of tenants, under a tenant's id that no tenant can have. The secret of an API key is not kept anywhere, so its
//! first answer cannot be given twice: whoever asks again is told which key was made.

use docket_core::content::Digest;
use docket_core::id::{KeyId, PauseId};
use docket_core::name::{TEXT_MAX, check_text};
use docket_core::scope::Operator;
use docket_core::{Refusal, Timestamp};
use docket_store::table::idempotency;
use docket_store::{Error, Result, Tx};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::key::{CreatedKey, NewKey, key_create};
use super::pause::{PauseSet, PauseTarget, pause_set};
use crate::engine::Engine;

/// No tenant has an empty id.
const OPERATORS: &str = "";

/// An answer, and whether it is the one first given to the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Once<T> {
    /// The answer.
    pub answer: T,
    /// Whether nothing was created now.
    pub replayed: bool,
    /// Whether the first call said something else.
    pub request_differs: bool,
}

impl<T> Once<T> {
    const fn new(answer: T) -> Self {
        Self {
            answer,
            replayed: false,
            request_differs: false,
        }
    }
}

/// A key with the digest of what is asked under it.
pub(super) struct Asked {
    key: String,
    digest: Digest,
}

impl Asked {
    /// Calls of different kinds do not share keys: `what` names the kind.
    fn new(what: &str, key: Option<String>, request: &str) -> Result<Option<Self>> {
        let Some(key) = key else { return Ok(None) };
        check_text("Idempotency-Key", &key, TEXT_MAX)?;
        Ok(Some(Self {
            key: format!("{what}:{key}"),
            digest: Digest::of(request.as_bytes()),
        }))
    }

    async fn first<T: DeserializeOwned>(&self, tx: &mut Tx) -> Result<Option<Once<T>>> {
        let Some((digest, text)) = idempotency::get(tx, OPERATORS, &self.key).await? else {
            return Ok(None);
        };
        let what = "a kept answer";
        Ok(Some(Once {
            answer: serde_json::from_str(&text).map_err(|source| Error::Json { what, source })?,
            replayed: true,
            request_differs: digest != self.digest,
        }))
    }

    async fn keep<T: Serialize + Sync>(&self, tx: &mut Tx, answer: &T, now: Timestamp) -> Result<()> {
        let what = "an answer to keep";
        let text = serde_json::to_string(answer).map_err(|source| Error::Json { what, source })?;
        idempotency::insert(tx, OPERATORS, &self.key, self.digest, &text, now).await
    }
}

impl Engine {
    /// [`Engine::pause`] under an idempotency key.
    pub async fn pause_once(
        &self,
        who: &Operator,
        target: PauseTarget,
        reason: &str,
        key: Option<String>,
    ) -> Result<Once<PauseId>> {
        check_text("reason", reason, TEXT_MAX)?;
        let asked = Asked::new("pause", key, &format!("{target:?}\n{reason}"))?;
        let now = self.kernel.clock.now();
        let set = PauseSet {
            who: who.clone(),
            target,
            reason: reason.to_owned(),
            id: PauseId::new(now, self.kernel.random.as_ref()),
            now,
        };
        let params = (set, asked);
        let run = self.kernel.store.run("pause_once", params, |tx, (set, asked)| {
            Box::pin(async move {
                let Some(asked) = asked else {
                    pause_set(tx, set).await?;
                    return Ok(Once::new(set.id));
                };
                if let Some(first) = asked.first(tx).await? {
                    return Ok(first);
                }
                pause_set(tx, set).await?;
                asked.keep(tx, &set.id, set.now).await?;
                Ok(Once::new(set.id))
            })
        });
        run.await
    }

    /// [`Engine::key_create`] under an idempotency key. A repeated call is a conflict that names the key first made.
    pub async fn key_create_once(
        &self,
        who: &Operator,
        new: NewKey,
        key: Option<String>,
    ) -> Result<CreatedKey> {
        let asked = Asked::new("key", key, &format!("{new:?}"))?;
        let secret = docket_core::access::ApiKey::draw(self.kernel.random.as_ref());
        let (create, created) = self.key_prepare(who, new, secret)?;
        let params = (create, asked);
        let run = self
            .kernel
            .store
            .run("key_create_once", params, |tx, (create, asked)| {
                Box::pin(async move {
                    let Some(asked) = asked else {
                        return key_create(tx, create).await.map(|_| ());
                    };
                    if let Some(first) = asked.first::<KeyId>(tx).await? {
                        let problem = format!(
                            "this Idempotency-Key has made key {}, whose secret is shown only once; revoke it and make \
                             another if the secret was lost",
                            first.answer
                        );
                        return Err(Refusal::Conflict { problem }.into());
                    }
                    key_create(tx, create).await?;
                    asked.keep(tx, &create.row.id, create.row.created_at).await
                })
            });
        run.await?;
        Ok(created)
    }
}
