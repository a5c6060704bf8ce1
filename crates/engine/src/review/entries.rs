//! Entries: a service brings items that were finished elsewhere up for review. Brought twice, they change nothing.

use std::sync::Arc;

use docket_core::id::{ItemId, ReviewId};
use docket_core::item::{Content, ItemStatus, check_batch};
use docket_core::name::CollectionId;
use docket_core::random::Random;
use docket_core::scope::{Operator, Scope};
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::table::correction;
use docket_store::table::counter::Counted;
use docket_store::table::item;
use docket_store::table::record::{Move, record};
use docket_store::table::review;
use docket_store::{Result, Tx};

use super::enter::{enter, known};
use crate::engine::Engine;
use crate::intake::group::submit_calls;
use crate::intake::prepare::Prepared;
use crate::intake::submit::{SubmitCall, SubmitItem};

/// An item that was brought up for review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnteredReview {
    /// The item.
    pub item: ItemId,
    /// Its review.
    pub review: ReviewId,
    /// Whether this call began the review.
    pub created: bool,
}

impl Engine {
    /// Brings items of a collection up for review: new ones as they are given, known ones in their present version. No limit of uploads
    /// applies, and no pipeline processes them.
    pub async fn review_entries(
        &self,
        who: &Operator,
        collection: CollectionId,
        items: Vec<SubmitItem>,
    ) -> Result<Vec<Refused<EnteredReview>>> {
        check_batch("entries", items.len())?;
        let tenant = self.collection_owner(who, &collection).await?;
        let scope = Scope {
            tenant,
            actor: who.actor.clone(),
        };
        let prepare = |(index, item): (usize, SubmitItem)| {
            Prepared::new(Content::Json(item.payload), item.details, scope.actor.as_str())
                .map_err(|refusal| refusal.under(&format!("entries[{index}]")))
        };
        let call = SubmitCall {
            items: items.into_iter().enumerate().map(prepare).collect(),
            scope,
            collection,
            key: None,
            upload: None,
            is_finished: true,
        };
        let mut answers = submit_calls(&self.kernel, vec![call]).await?;
        let answer = answers.pop().unwrap_or_else(|| Err(Refusal::LeaseLost))?;
        let mut results = Vec::with_capacity(answer.results.len());
        for result in answer.results {
            results.push(match result {
                Ok(submitted) => self.entered(submitted.id, !submitted.duplicate).await?,
                Err(refusal) => Err(refusal),
            });
        }
        Ok(results)
    }

    async fn entered(&self, id: ItemId, is_new: bool) -> Result<Refused<EnteredReview>> {
        let params = (
            id,
            is_new,
            Arc::clone(&self.kernel.random),
            self.kernel.clock.now(),
        );
        let entered = self
            .kernel
            .store
            .run("review_entered", params, |tx, p| {
                Box::pin(ensure(tx, p.0, p.1, p.2.as_ref(), p.3))
            })
            .await;
        match entered {
            Ok(entered) => {
                self.kernel.hint_reviews([id.collection()]);
                Ok(Ok(entered))
            }
            Err(docket_store::Error::Refused(refusal)) => Ok(Err(refusal)),
            Err(error) => Err(error),
        }
    }
}

/// The review of an item's present version; begun now where there is none and the item is finished.
async fn ensure(
    tx: &mut Tx,
    id: ItemId,
    is_new: bool,
    random: &dyn Random,
    now: Timestamp,
) -> Result<EnteredReview> {
    item::lock(tx, id).await?;
    let gone = || Refusal::not_found("item", &id);
    let found = item::get(tx, id).await?.ok_or_else(gone)?;
    if let Some(review) = review::of_item(tx, id, found.version).await? {
        return Ok(EnteredReview {
            item: id,
            review: review.id,
            created: is_new,
        });
    }
    if found.status != ItemStatus::Completed {
        let problem = format!(
            "the item is {}; it comes up for review when it is completed",
            found.status
        );
        return Err(Refusal::Conflict { problem }.into());
    }
    let corrections = correction::of_items(tx, &[id]).await?;
    let entries: Vec<_> = known(tx, &[id])
        .await?
        .into_values()
        .map(|entry| entry.under(corrections.clone()))
        .collect();
    enter(tx, &entries, random, now).await?;
    let moved = Move {
        collection: id.collection(),
        from: Some(Counted::Item(found.status)),
        to: Some(Counted::Item(ItemStatus::InReview)),
    };
    record(tx, &[], &[moved], now).await?;
    let review = review::of_item(tx, id, found.version).await?.ok_or_else(gone)?;
    Ok(EnteredReview {
        item: id,
        review: review.id,
        created: true,
    })
}
