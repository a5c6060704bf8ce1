//! Submit: writes new items, their jobs, their log entries and counts.
//!
//! Contract: jobs of one call get rising numbers in their lanes in the order of the entries. An entry whose externalId or content is
//! taken already is left out of the answer; nothing of it is stored.

use docket_core::Timestamp;
use docket_core::content::Digest;
use docket_core::id::{CollectionKey, ItemId, LaneKey, PipelineKey, Seq};

use crate::error::Result;
use crate::tx::{Driver, Tx};

/// An item to be written. Texts of JSON are checked already.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct NewItem {
    pub collection: CollectionKey,
    pub id: ItemId,
    /// None for an item that nobody processes.
    pub lane: Option<LaneKey>,
    pub external_id: Option<String>,
    pub content_hash: Digest,
    /// The digest, where the content identifies the item.
    pub content_key: Option<Digest>,
    pub is_file: bool,
    pub filename: Option<String>,
    pub media_type: Option<String>,
    pub size: u64,
    pub blob_key: Option<String>,
    pub payload: Option<String>,
    pub metadata: Option<String>,
    pub fields: Option<String>,
    pub display_payload: Option<String>,
    pub confidence: Option<f64>,
    pub line_item_count: Option<i64>,
    pub total_amount: Option<f64>,
    pub deadline: Option<Timestamp>,
    pub to_review: bool,
    pub submitted_by: String,
}

/// What was written, and what may happen next.
#[derive(Clone, Debug, Default)]
pub struct Submission {
    /// The items that are new, with the places of their jobs.
    pub inserted: Vec<(ItemId, Option<Seq>)>,
    /// Pipelines of which a lane can start a job now.
    pub ready: Vec<PipelineKey>,
}

/// Writes those of the items that are new.
pub async fn submit(tx: &mut Tx, items: &[NewItem], now: Timestamp) -> Result<Submission> {
    if items.is_empty() {
        return Ok(Submission::default());
    }
    match tx.driver {
        Driver::Postgres(_) => super::postgres::submit::submit(tx, items, now).await,
        Driver::Sqlite(_) => super::sqlite::submit::submit(tx, items, now).await,
    }
}
