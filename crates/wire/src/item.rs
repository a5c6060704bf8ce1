//! Items: what is submitted, and what people and programs see of it.

use docket_core::id::{ItemId, JobId};
use docket_core::item::ItemStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::batch::Is;
use crate::field::{Field, MachineField};
use crate::job::Job;
use crate::review::ItemReview;
use crate::time::Time;
use crate::whole::whole_or_none;

/// What an item consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A file; its bytes are at `/content`.
    File,
    /// JSON; it is the payload.
    Json,
}

/// What to do when the externalId exists with other content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnConflict {
    /// Refuse it.
    #[default]
    Refuse,
    /// Make it the item's next version.
    NewVersion,
}

/// One item of a submission.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubmitItem {
    /// The caller's id, unique in the collection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::ShortText>))]
    pub external_id: Option<String>,
    /// The content: any JSON, at most 1 MiB.
    pub payload: Value,
    /// The caller's own notes, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Value>,
    /// Values known already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 1_000))]
    pub fields: Option<Vec<MachineField>>,
    /// What a reviewer should see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_payload: Option<Value>,
    /// How sure the machine is on the whole, 0 to 100; the mean of the fields' where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub confidence: Option<f64>,
    /// How much there is to review.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "whole_or_none"
    )]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 4_294_967_295_u32))]
    pub line_item_count: Option<u32>,
    /// What it is worth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0))]
    pub total_amount: Option<f64>,
    /// When the review should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Time>,
    /// What to do when the externalId exists with other content.
    #[serde(default)]
    pub on_conflict: OnConflict,
}

/// `POST /api/v1/collections/{collectionId}/items`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Submit {
    /// 1 to 1,000 items; each is taken or refused by itself.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1_000))]
    pub items: Vec<SubmitItem>,
}

/// A submitted item that was taken, or was there already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Submitted {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
    /// The item.
    pub item: SubmittedItem,
    /// Whether it was there already: nothing was queued, and nothing counted.
    pub duplicate: bool,
    /// Whether it is a new version of an item that was there.
    pub versioned: bool,
}

/// What a submission says of its item; `GET /api/v1/items/{id}` tells the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SubmittedItem {
    /// What a list says of it.
    #[serde(flatten)]
    pub summary: ItemSummary,
    /// Its job, where this call made one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Id>))]
    pub job_id: Option<JobId>,
}

/// An item as it is listed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemSummary {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub id: ItemId,
    /// Whose it is.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub tenant_id: String,
    /// Its collection.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub collection_id: String,
    /// The caller's id.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub external_id: Option<String>,
    /// What it consists of.
    pub kind: Kind,
    /// The file's name.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub filename: Option<String>,
    /// The file's type.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub media_type: Option<String>,
    /// The content's size in bytes.
    pub size: u64,
    /// The SHA-256 of the content, in hexadecimal digits.
    #[cfg_attr(feature = "openapi", schema(pattern = "^[0-9a-f]{64}$"))]
    pub content_hash: String,
    /// What it is.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ItemStatus))]
    pub status: ItemStatus,
    /// 1 for the first.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub version: i64,
    /// The caller's own notes and, once its review is decided, `reviewOutcome`.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>, required))]
    pub metadata: Option<Value>,
    /// When it was submitted.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
}

/// An item with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Item {
    /// What a list says of it.
    #[serde(flatten)]
    pub summary: ItemSummary,
    /// The content, where it is JSON.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub payload: Option<Value>,
    /// What the latest finished job of its present version made.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub result: Option<Value>,
    /// What machines read, with what people made of it.
    pub fields: Vec<Field>,
    /// Its place, while it waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// Its latest job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
    /// The review of its present version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub review: Option<ItemReview>,
    /// Why it failed, where it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `POST /api/v1/collections/{collectionId}/documents`: the item that was made, or was there already.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Uploaded {
    /// The item.
    #[serde(flatten)]
    pub item: Item,
    /// Whether it was there already: nothing was queued, and nothing counted.
    pub duplicate: bool,
}

/// Where an item stands in its lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Position {
    /// Pending jobs of the lane that were submitted earlier.
    pub ahead: u64,
    /// The same for people: "Processing... (3 documents ahead)".
    #[cfg_attr(feature = "openapi", schema(example = "Processing... (3 documents ahead)"))]
    pub message: String,
    /// About how long until it starts, where the lane has a recent pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

impl From<docket_core::position::Position> for Position {
    fn from(position: docket_core::position::Position) -> Self {
        Self {
            ahead: position.ahead,
            message: position.message(),
            eta_seconds: position
                .eta_ms
                .map(|ms| u64::try_from(ms.max(0)).unwrap_or(0).div_ceil(1_000)),
        }
    }
}

/// `GET /api/v1/items/{id}/explain`: why it is not running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// What the item is.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ItemStatus))]
    pub status: ItemStatus,
    /// Each reason as a sentence, the weightiest first; for people.
    pub reasons: Vec<String>,
    /// Its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// The jobs that hold its lane, where that is full.
    pub holders: Vec<Holder>,
    /// The pauses that cover it.
    pub pauses: Vec<PauseThatHolds>,
    /// When its next attempt may start, where it waits for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// When a worker last asked for jobs of its pipeline; left out where none ever has, or none is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_seen_at: Option<Time>,
}

/// A pause that covers an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct PauseThatHolds {
    /// What it stops.
    pub scope: crate::pause::PauseScope,
    /// Why.
    pub reason: String,
    /// Who set it.
    pub actor: String,
    /// When.
    pub at: Time,
}

/// A job that holds a place in the lane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub job_id: JobId,
    /// Its worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// Since when.
    pub started_at: Time,
    /// When its lease ends.
    pub lease_expires_at: Time,
}

/// `POST /api/v1/items/{id}/retry` and `/reprocess`: the new job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Enqueued {
    /// The item.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub item_id: ItemId,
    /// Its new job.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub job_id: JobId,
}
