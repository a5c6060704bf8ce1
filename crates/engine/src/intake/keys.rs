//! Idempotency keys of submissions (rule I6): what is asked under a key, and the answer that it got first.

use std::collections::HashMap;

use docket_core::Refused;
use docket_core::name::CollectionId;
use docket_store::Result;
use docket_store::table::idempotency::Kept;

use super::submit::{SubmitAnswer, SubmitCall, SubmitItem, SubmittedItem};
use crate::once::Once;

/// What a call asks. Its parts stand on lines of their own, and none of them holds a line's end: two calls that differ never
/// read the same.
pub(crate) fn text_of(collection: &CollectionId, items: &[SubmitItem]) -> String {
    let mut text = collection.as_str().to_owned();
    for item in items {
        text.push_str(&format!("\n{}\n{:?}", item.payload, item.details));
    }
    text
}

/// The first answer to this call's key, where one is among those that were kept.
pub(crate) fn replay(
    kept: &HashMap<(String, String), Kept>,
    call: &SubmitCall,
) -> Result<Option<SubmitAnswer>> {
    let Some(asked) = &call.key else {
        return Ok(None);
    };
    let Some(kept) = kept.get(&asked.name()) else {
        return Ok(None);
    };
    Ok(Some(answer_of(asked.replay(kept)?)))
}

/// A first answer, as the answer to this call.
pub(crate) fn answer_of(first: Once<Vec<Refused<SubmittedItem>>>) -> SubmitAnswer {
    SubmitAnswer {
        results: first.answer,
        replayed: first.replayed,
        request_differs: first.request_differs,
    }
}

/// Whether an answer is kept under its key: one in which everything was refused leaves the key unused.
pub(crate) fn is_kept(answer: &SubmitAnswer) -> bool {
    answer.results.iter().any(Result::is_ok)
}
