//! Idempotency keys (rule I6): what was asked under a key, and the answer that it got first.

use docket_core::content::Digest;
use docket_core::name::CollectionId;
use docket_store::table::idempotency;
use docket_store::{Error, Result, Tx};

use super::submit::{CallAnswer, SubmitAnswer, SubmitCall, SubmitItem};

/// The digest of a call. Its parts stand on lines of their own, and none of them holds a line's end: two calls that differ never
/// read the same.
pub(crate) fn digest_of(collection: &CollectionId, items: &[SubmitItem]) -> Digest {
    let mut text = collection.as_str().to_owned();
    for item in items {
        text.push_str(&format!("\n{}\n{:?}", item.payload, item.details));
    }
    Digest::of(text.as_bytes())
}

/// The first answer to this call's key, where there is one.
pub(crate) async fn replay(tx: &mut Tx, call: &SubmitCall) -> Result<Option<SubmitAnswer>> {
    let Some((key, digest)) = &call.key else {
        return Ok(None);
    };
    let Some((asked, answer)) = idempotency::get(tx, call.scope.tenant.as_str(), key).await? else {
        return Ok(None);
    };
    let results = serde_json::from_str(&answer).map_err(|source| Error::Json {
        what: "a kept answer",
        source,
    })?;
    Ok(Some(SubmitAnswer {
        results,
        replayed: true,
        request_differs: asked != *digest,
    }))
}

/// Whether an answer is kept under its key: one in which everything was refused leaves the key unused.
pub(crate) fn is_kept(answer: &CallAnswer) -> bool {
    answer
        .as_ref()
        .is_ok_and(|answer| answer.results.iter().any(Result::is_ok))
}
