//! Submit: what a call says, and what it is answered. The calls of a moment are carried out together, in [`run`](super::run).

use std::sync::Arc;

use docket_core::id::{ItemId, JobId, UploadId};
use docket_core::item::{Content, ItemDetails, check_batch};
use docket_core::name::CollectionId;
use docket_core::scope::Scope;
use docket_core::{Refused, Timestamp};
use docket_store::{Result, Weight};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::keys;
use super::prepare::Prepared;
use crate::engine::Engine;
use crate::once::Asked;

/// A call that submits JSON items.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Where to.
    pub collection: CollectionId,
    /// 1 to 1,000 items.
    pub items: Vec<SubmitItem>,
    /// The same key again returns the first answer (rule I6).
    pub idempotency_key: Option<String>,
}

/// One item of a call.
#[derive(Clone, Debug)]
pub struct SubmitItem {
    /// The content.
    pub payload: Value,
    /// What comes with it.
    pub details: ItemDetails,
}

/// An item that was taken, or was there already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubmittedItem {
    /// The item.
    pub id: ItemId,
    /// Its job, where this call made one.
    pub job: Option<JobId>,
    /// Whether it was there already: nothing was queued.
    pub duplicate: bool,
    /// Whether it is a new version of an item that was there.
    pub versioned: bool,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmitAnswer {
    /// One for each item, in order.
    pub results: Vec<Refused<SubmittedItem>>,
    /// Whether this is the answer to an earlier call with the same idempotency key.
    pub replayed: bool,
    /// Whether that call said something else.
    pub request_differs: bool,
}

/// A call on its way to the database.
#[derive(Clone, Debug)]
pub(crate) struct SubmitCall {
    pub(crate) scope: Scope,
    pub(crate) collection: CollectionId,
    /// Shared with the batch that it rides in.
    pub(crate) items: Arc<[Refused<Prepared>]>,
    pub(crate) key: Option<Asked>,
    /// The upload whose bytes the item takes over, and when it expires.
    pub(crate) upload: Option<(UploadId, Timestamp)>,
    /// Whether the items were finished elsewhere: no limit, no pipeline, and a review follows.
    pub(crate) is_finished: bool,
}

impl SubmitCall {
    /// What it brings into a batch.
    pub(crate) fn weight(&self) -> Weight {
        Weight {
            entries: self.items.len(),
            bytes: self.items.iter().flatten().map(Prepared::bytes).sum(),
        }
    }
}

/// What became of a call: its answer, or a refusal of it as a whole.
pub(crate) type CallAnswer = Refused<SubmitAnswer>;

impl Engine {
    /// Submits items. Each entry is taken or refused by itself.
    pub async fn submit(&self, scope: &Scope, call: Submit) -> Result<SubmitAnswer> {
        check_batch("items", call.items.len())?;
        let asked = call
            .idempotency_key
            .is_some()
            .then(|| keys::text_of(&call.collection, &call.items));
        let key = Asked::new(
            scope.tenant.as_str(),
            "submit",
            call.idempotency_key,
            &asked.unwrap_or_default(),
        )?;
        let prepare = |(index, item): (usize, SubmitItem)| {
            Prepared::new(Content::Json(item.payload), item.details, scope.actor.as_str())
                .map_err(|refusal| refusal.under(&format!("items[{index}]")))
        };
        let items: Arc<[_]> = call.items.into_iter().enumerate().map(prepare).collect();
        if key.is_none() && items.iter().all(Result::is_err) {
            // Nothing to do, and no key whose first answer would have to be looked up: no transaction.
            let refusals = items.iter().filter_map(|item| item.as_ref().err());
            let results = refusals.cloned().map(Err).collect();
            return Ok(SubmitAnswer {
                results,
                replayed: false,
                request_differs: false,
            });
        }
        let call = SubmitCall {
            scope: scope.clone(),
            collection: call.collection,
            items,
            key,
            upload: None,
            is_finished: false,
        };
        Ok(self.submit_call(call).await??)
    }

    /// Has a call carried out with others. One that waited for another call with the same key, in which everything was refused, is made
    /// again, until it is the first of those that are left.
    pub(crate) async fn submit_call(&self, call: SubmitCall) -> Result<CallAnswer> {
        loop {
            if let Some(answer) = self.batches.submit.call(call.clone()).await? {
                return Ok(answer);
            }
        }
    }
}
