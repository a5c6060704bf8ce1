//! Entries: a service brings items that were finished elsewhere up for review. Brought twice, they change nothing.

use std::collections::{BTreeMap, BTreeSet};
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
use docket_store::table::review::{self, Review};
use docket_store::{Error, Result, Tx, to_its_end};

use super::enter::{enter, known};
use crate::engine::Engine;
use crate::intake::group::submit_calls;
use crate::intake::prepare::Prepared;
use crate::intake::submit::{SubmitCall, SubmitItem, SubmittedItem};

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
        // By itself: it has no limit, and those who ride together share one.
        let kernel = Arc::clone(&self.kernel);
        let mut answers = to_its_end(async move { submit_calls(&kernel, vec![call]).await }).await?;
        let unanswered = Error::Unanswered { operation: "submit" };
        let answer = answers.pop().flatten().ok_or(unanswered)??;
        let brought: Vec<Brought> = answer.results.iter().flatten().map(Brought::of).collect();
        let entered = self.entered(brought).await?;
        let mut told = BTreeSet::new();
        let mut find = |submitted: SubmittedItem| {
            let missing = || Refusal::not_found("item", &submitted.id);
            let entered = entered.get(&submitted.id).ok_or_else(missing)?.clone()?;
            // An item that is named twice in a call is created once.
            let created = entered.created && told.insert(submitted.id);
            Ok(EnteredReview { created, ..entered })
        };
        Ok(answer
            .results
            .into_iter()
            .map(|result| result.and_then(&mut find))
            .collect())
    }

    /// The reviews of items that were brought, in one transaction.
    async fn entered(&self, mut brought: Vec<Brought>) -> Result<BTreeMap<ItemId, Refused<EnteredReview>>> {
        // Of an item that is named twice in a call, the entry counts that made it.
        brought.sort_by_key(|brought| (brought.id, !brought.is_new));
        brought.dedup_by_key(|brought| brought.id);
        if brought.is_empty() {
            return Ok(BTreeMap::new());
        }
        let collections: BTreeSet<_> = brought.iter().map(|brought| brought.id.collection()).collect();
        let params = (brought, Arc::clone(&self.kernel.random), self.kernel.clock.now());
        let entered = self
            .kernel
            .store
            .run("review_entered", params, |tx, p| {
                Box::pin(async move {
                    let mut entered = BTreeMap::new();
                    // In the order of their ids, which is the order of their locks.
                    for brought in &p.0 {
                        entered.insert(brought.id, ensure(tx, *brought, p.1.as_ref(), p.2).await?);
                    }
                    Ok(entered)
                })
            })
            .await?;
        self.kernel.hint_reviews(collections);
        Ok(entered)
    }
}

/// An item that was brought.
#[derive(Clone, Copy, Debug)]
struct Brought {
    id: ItemId,
    /// Whether it, or its version, is new: its review was begun with it.
    is_new: bool,
    /// Whether it is there for the first time.
    is_first: bool,
}

impl Brought {
    const fn of(submitted: &SubmittedItem) -> Self {
        Self {
            id: submitted.id,
            is_new: !submitted.duplicate,
            is_first: !submitted.duplicate && !submitted.versioned,
        }
    }
}

/// The review of an item's present version; begun now where there is none and the item is finished.
async fn ensure(
    tx: &mut Tx,
    brought: Brought,
    random: &dyn Random,
    now: Timestamp,
) -> Result<Refused<EnteredReview>> {
    let Brought { id, is_new, is_first } = brought;
    let as_entered = |review: &Review, created| {
        Ok(EnteredReview {
            item: id,
            review: review.id,
            created,
        })
    };
    // The usual case: the item was made a moment ago, and its review with it.
    if is_first && let Some(review) = review::of_item(tx, id, 1).await? {
        return Ok(as_entered(&review, true));
    }
    item::lock(tx, id).await?;
    let gone = || Refusal::not_found("item", &id);
    let Some(found) = item::get(tx, id).await? else {
        return Ok(Err(gone()));
    };
    if let Some(review) = review::of_item(tx, id, found.version).await? {
        return Ok(as_entered(&review, is_new));
    }
    if found.status != ItemStatus::Completed {
        let problem = format!(
            "the item is {}; it comes up for review when it is completed",
            found.status
        );
        return Ok(Err(Refusal::Conflict { problem }));
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
    Ok(as_entered(&review, true))
}
