//! A review as its reviewer sees it: the item, what the machine says, and how urgent it is.

use std::collections::HashMap;

use docket_core::Timestamp;
use docket_core::field::{Correction, Field, MachineField, overlay};
use docket_core::id::ItemId;
use docket_core::priority::{Band, Parts, SlaLevel};
use docket_store::table::review::Review;
use docket_store::table::review_content::ReviewContent;
use docket_store::table::{item, together};
use docket_store::{Error, Result, Tx};

use super::Collections;
use crate::view::item::{fields_of, runs};

/// A review with what is needed to decide it.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct ReviewEntry {
    pub review: Review,
    pub tenant_id: String,
    pub collection_id: String,
    pub external_id: Option<String>,
    /// What a reviewer should see, as JSON text.
    pub display_payload: Option<String>,
    /// Whether the item has a file.
    pub has_content: bool,
    pub media_type: Option<String>,
    pub filename: Option<String>,
    pub fields: Vec<Field>,
    /// What its priority is made of, at the moment of reading.
    pub parts: Parts,
    pub band: Band,
    pub sla: SlaLevel,
    /// Until the deadline; negative when it is past.
    pub left_ms: i64,
}

/// Reviews as their reviewers see them, in the order given. Those whose item is gone are left out.
pub(crate) async fn entries_of(
    tx: &mut Tx,
    reviews: Vec<Review>,
    collections: &mut Collections,
    now: Timestamp,
) -> Result<Vec<ReviewEntry>> {
    entries_knowing(tx, reviews, HashMap::new(), collections, now).await
}

/// The same, where the contents of some are known, which nobody has corrected.
pub(super) async fn entries_knowing(
    tx: &mut Tx,
    reviews: Vec<Review>,
    mut contents: HashMap<ItemId, ReviewContent>,
    collections: &mut Collections,
    now: Timestamp,
) -> Result<Vec<ReviewEntry>> {
    let items = reviews.iter().map(|review| review.item);
    let unknown: Vec<ItemId> = items.filter(|item| !contents.contains_key(item)).collect();
    let mut corrections: HashMap<ItemId, Vec<Correction>> = HashMap::new();
    if !unknown.is_empty() {
        let (seen, corrected) = together::contents_and_corrections(tx, &unknown).await?;
        contents.extend(seen.into_iter().map(|content| (content.id, content)));
        for (item, correction) in corrected {
            corrections.entry(item).or_default().push(correction);
        }
    }
    let mut entries = Vec::with_capacity(reviews.len());
    for review in reviews {
        let Some(mut content) = contents.remove(&review.item) else {
            continue;
        };
        let fields = fields(
            tx,
            &mut content,
            corrections.remove(&review.item).unwrap_or_default(),
        )
        .await?;
        let owner = collections.of(tx, &review).await?;
        let parts = owner.policy.rule().parts(&review.inputs, now);
        let left_ms = review.inputs.deadline.since(now);
        entries.push(ReviewEntry {
            tenant_id: owner.collection.tenant_id.clone(),
            collection_id: owner.collection.id.clone(),
            external_id: content.external_id,
            display_payload: content.display_payload,
            has_content: content.is_file,
            media_type: content.media_type,
            filename: content.filename,
            fields,
            parts,
            band: Band::of(parts.score()),
            sla: SlaLevel::of(left_ms),
            left_ms,
            review,
        });
    }
    Ok(entries)
}

async fn fields(
    tx: &mut Tx,
    content: &mut ReviewContent,
    corrections: Vec<Correction>,
) -> Result<Vec<Field>> {
    if let Some(latest) = content.look_further
        && let Some(found) = item::get(tx, content.id).await?
    {
        let runs = runs(tx, Some(latest)).await?;
        let own = runs.iter().filter(|run| run.item_version == found.version);
        let shown = own.filter_map(|run| run.display_payload.clone()).next();
        content.display_payload = shown.or_else(|| content.display_payload.take());
        return fields_of(tx, &found).await;
    }
    let machine: Vec<MachineField> = match &content.fields {
        None => Vec::new(),
        Some(text) => serde_json::from_str(text).map_err(|source| Error::Json {
            what: "fields",
            source,
        })?,
    };
    Ok(overlay(machine, corrections))
}
