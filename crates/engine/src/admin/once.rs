//! Operators' creating calls under an idempotency key (rule I6).
//!
//! The secret of an API key is not kept anywhere, so its first answer cannot be given twice: whoever asks again is told which key
//! was made.

use docket_core::Refusal;
use docket_core::id::{KeyId, PauseId};
use docket_core::name::{TEXT_MAX, check_text};
use docket_core::scope::Operator;
use docket_store::Result;

use super::key::{CreatedKey, NewKey, key_create};
use super::pause::{PauseSet, PauseTarget, pause_set};
use crate::engine::Engine;
use crate::once::{Asked, Once};

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
        let asked = Asked::new(Asked::OPERATORS, "pause", key, &format!("{target:?}\n{reason}"))?;
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
        let asked = Asked::new(Asked::OPERATORS, "key", key, &format!("{new:?}"))?;
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
