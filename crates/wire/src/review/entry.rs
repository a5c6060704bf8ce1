//! A review as people see it.

use docket_core::id::{ItemId, ReviewId};
use docket_core::lease::LeaseToken;
use docket_core::priority::{Band, SlaLevel};
use docket_core::review::ReviewState;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field::Field;
use crate::time::Time;

/// A review, with what is needed to decide it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ReviewEntry))]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The review.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub queue_id: ReviewId,
    /// The item that it is about.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub item_id: ItemId,
    /// The item as its producer knows it: its externalId, else its id.
    pub generation_id: String,
    /// Whose it is.
    pub tenant_id: String,
    /// The item's collection.
    pub collection_id: String,
    /// The item's version.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub version: i64,
    /// What the review is.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ReviewStatus))]
    pub status: ReviewState,
    /// How urgent it is, 0 to 100, at the moment of the answer.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub priority: f64,
    /// The same in a word.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Band))]
    pub band: Band,
    /// When it should be decided.
    pub sla: Sla,
    /// Who holds it, or held it when it was decided or given up.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub assigned_to: Option<String>,
    /// Since when.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub assigned_at: Option<Time>,
    /// To be sent with the decision; only its holder is told.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LeaseToken>, required))]
    pub lease_token: Option<LeaseToken>,
    /// When the holder loses it, without a sign of life.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub lease_expires_at: Option<Time>,
    /// How often it came back unfinished.
    pub retry_count: u32,
    /// When it began.
    pub created_at: Time,
    /// Who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Time>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What a reviewer should see.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub display_payload: Option<Value>,
    /// Where the file is, relative to the server; the same credentials open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_url: Option<String>,
    /// The file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The file's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// What machines read, with what people made of it.
    pub fields: Vec<Field>,
}

/// What an item's producer sees of its review.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ItemReview {
    /// The review.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub queue_id: ReviewId,
    /// What it is.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ReviewStatus))]
    pub status: ReviewState,
    /// How urgent it is, 0 to 100, at the moment of the answer.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub priority: f64,
    /// The same in a word.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Band))]
    pub band: Band,
    /// When it should be decided.
    pub sla: Sla,
    /// Who holds it, or held it when it was decided or given up.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub assigned_to: Option<String>,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Time>,
    /// Why it was decided so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How it stands with a deadline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Sla {
    /// When the review should be decided.
    pub deadline: Time,
    /// Until then, from the moment of the answer; negative when it is past.
    pub seconds_left: i64,
    /// The same in a word: over 6 hours left, 2 to 6, under 2, past.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::SlaLevel))]
    pub level: SlaLevel,
}

/// The four parts of a priority, in points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = PriorityParts))]
#[serde(rename_all = "camelCase")]
pub struct Parts {
    /// How unsure the machine is.
    pub confidence: f64,
    /// How near the deadline is; it grows with time, also past the deadline.
    pub deadline: f64,
    /// How much there is to review.
    pub complexity: f64,
    /// What it is worth.
    pub value: f64,
}

/// `GET /api/v1/review-queue/{queueId}/explain`: why a review stands where it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ReviewExplanation))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The review.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub queue_id: ReviewId,
    /// What it is.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ReviewStatus))]
    pub status: ReviewState,
    /// How urgent it is: the sum of its parts, within 0 and 100.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 100))]
    pub priority: f64,
    /// The same in a word.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Band))]
    pub band: Band,
    /// What the priority is made of.
    pub parts: Parts,
    /// How much each part counts in its collection.
    pub weights: crate::collection::Weights,
    /// When it should be decided.
    pub sla: Sla,
    /// Each reason as a sentence, the weightiest first; for people.
    pub reasons: Vec<String>,
}
