//! Idempotency keys (rule I6): the same key returns the first answer and creates nothing.

use docket_core::Timestamp;
use docket_core::content::Digest;
use docket_core::name::{TEXT_MAX, check_text};
use docket_store::table::idempotency::{self, Kept};
use docket_store::{Error, Result, Tx};
use serde::Serialize;
use serde::de::DeserializeOwned;

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
    pub(crate) const fn new(answer: T) -> Self {
        Self {
            answer,
            replayed: false,
            request_differs: false,
        }
    }
}

/// A key with the digest of what is asked under it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    owner: String,
    pub(crate) key: String,
    pub(crate) digest: Digest,
}

impl Asked {
    /// Whose keys those of operators are: no tenant has an empty id.
    pub(crate) const OPERATORS: &str = "";

    /// Tenants don't share keys, and neither do calls of different kinds: `what` names the kind.
    pub(crate) fn new(owner: &str, what: &str, key: Option<String>, request: &str) -> Result<Option<Self>> {
        let Some(key) = key else { return Ok(None) };
        check_text("Idempotency-Key", &key, TEXT_MAX)?;
        Ok(Some(Self {
            owner: owner.to_owned(),
            key: format!("{what}:{key}"),
            digest: Digest::of(request.as_bytes()),
        }))
    }

    /// The answer first given to this key.
    pub(crate) async fn first<T: DeserializeOwned>(&self, tx: &mut Tx) -> Result<Option<Once<T>>> {
        let kept = idempotency::get(tx, &self.owner, &self.key).await?;
        kept.map(|kept| self.replay(&kept)).transpose()
    }

    /// What was kept for this key, as the answer that it is.
    pub(crate) fn replay<T: DeserializeOwned>(&self, (digest, text): &Kept) -> Result<Once<T>> {
        let what = "a kept answer";
        Ok(Once {
            answer: serde_json::from_str(text).map_err(|source| Error::Json { what, source })?,
            replayed: true,
            request_differs: *digest != self.digest,
        })
    }

    /// Whose key it is, and the key.
    pub(crate) fn name(&self) -> (String, String) {
        (self.owner.clone(), self.key.clone())
    }

    /// Keeps the answer, for whoever asks again.
    pub(crate) async fn keep<T: Serialize + Sync>(
        &self,
        tx: &mut Tx,
        answer: &T,
        now: Timestamp,
    ) -> Result<()> {
        let what = "an answer to keep";
        let text = serde_json::to_string(answer).map_err(|source| Error::Json { what, source })?;
        idempotency::insert(tx, &self.owner, &self.key, self.digest, &text, now).await
    }
}
