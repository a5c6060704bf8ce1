//! An item's next version (rule I5): what it was is kept, its present job is taken back, and the new version is processed from
//! the start.

use std::collections::BTreeSet;

use docket_core::Timestamp;
use docket_core::id::{CollectionKey, ItemId, LaneKey, PipelineKey};
use docket_core::item::ItemStatus;
use docket_core::log::Action;
use docket_core::random::Random;
use docket_store::hot::NewItem;
use docket_store::table::job::Cause;
use docket_store::table::log::NewEntry;
use docket_store::table::{counter, hold, item, lane, log, review};
use docket_store::{Result, Tx};
use serde_json::json;

use crate::processing::cancel::cancel_job;
use crate::processing::correct::{Said, weigh_corrections};
use crate::processing::enqueue::{Enqueue, enqueue};
use crate::review::enter::{Enter, enter, fields_of};
use crate::review::withdraw::withdraw;

/// What became of a next version.
pub(crate) enum Versioned {
    /// The item was forgotten in the meantime.
    Gone,
    /// The item is that already.
    Same,
    /// It is the next version now; pipelines of which something can start, and collections in which a review is pending.
    Done(Vec<PipelineKey>, BTreeSet<CollectionKey>),
}

/// Locks what next versions of these items change, and the lanes in which the rest of their batch begins, in the order in which
/// everybody takes them: items, holds, lanes, reviews. One version after the other they would be taken in any order.
pub(crate) async fn lock_for_versions(
    tx: &mut Tx,
    mut items: Vec<ItemId>,
    lanes: impl Iterator<Item = LaneKey> + Send,
) -> Result<()> {
    if items.is_empty() {
        return Ok(());
    }
    items.sort_unstable();
    items.dedup();
    let (mut jobs, mut versions) = (Vec::new(), Vec::new());
    for id in items {
        if item::lock(tx, id).await?
            && let Some(found) = item::get(tx, id).await?
        {
            jobs.extend(found.job);
            versions.push((id, found.version));
        }
    }
    hold::lock_many(tx, &jobs).await?;
    let lanes: BTreeSet<_> = lanes.chain(jobs.iter().map(|(lane, _)| *lane)).collect();
    for key in lanes {
        lane::lock(tx, key).await?;
    }
    hold::lock_now(tx, &jobs).await?;
    let mut reviews = Vec::new();
    for (id, version) in versions {
        reviews.extend(review::of_item(tx, id, version).await?.map(|review| review.id));
    }
    review::lock(tx, &reviews).await?;
    Ok(())
}

/// Makes the item what `row` says.
pub(crate) async fn next_version(
    tx: &mut Tx,
    id: ItemId,
    row: &NewItem,
    random: &dyn Random,
    now: Timestamp,
) -> Result<Versioned> {
    item::lock(tx, id).await?;
    let Some(before) = item::get(tx, id).await? else {
        return Ok(Versioned::Gone);
    };
    if before.content_hash == row.content_hash {
        return Ok(Versioned::Same);
    }
    let mut ready = cancel_job(tx, &before, &row.submitted_by, now)
        .await?
        .unwrap_or_default();
    let was_in_review = withdraw(tx, &before, &row.submitted_by, "the item has a next version", now).await?;
    let counted = match was_in_review {
        // Its job may have ended, and its decision may have been taken back, since `before` was read.
        true => ItemStatus::InReview,
        false => item::get(tx, id).await?.map_or(before.status, |item| item.status),
    };
    item::next_version(tx, id, row, now).await?;
    let version = before.version + 1;
    let entry = NewEntry::new(Action::ItemVersioned, &row.submitted_by)
        .of_item(&before.tenant_id, id)
        .with(&json!({
            "version": version, "contentHash": row.content_hash.to_string(),
            "previousContentHash": before.content_hash.to_string(),
        }));
    log::append(tx, &entry, now).await?;
    if let Some(lane) = row.lane {
        let job = Enqueue {
            lane,
            item: id,
            item_version: version,
            cause: Cause::NextVersion,
            prior: before.job,
        };
        ready.extend(enqueue(tx, &job, now).await?.ready);
    }
    let after = item::get(tx, id).await?.map(|item| item.status);
    counter::add(tx, id.collection(), Some(counted), after, 1).await?;
    let fields = fields_of(row.fields.as_deref())?;
    let said = Said {
        item: id,
        fields: &fields,
        job: None,
    };
    let corrections = weigh_corrections(tx, &[said], now).await?;
    let mut entries = Vec::new();
    if row.to_review {
        entries.push(Enter::of_new(row, version)?.under(corrections));
    }
    let pending = enter(tx, &entries, random, now).await?;
    Ok(Versioned::Done(ready, pending))
}
