//! Insights: what decided reviews tell of the machine, of the reviewers and of deadlines.

use docket_core::id::{ItemId, ReviewId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Time;

/// What was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LookedAt {
    /// Decisions from this moment on.
    pub since: Time,
    /// Decisions before this moment.
    pub until: Time,
    /// How many decided reviews were looked at.
    pub reviews: u64,
    /// Whether there are more than one call looks at; the answer is about those only.
    pub capped: bool,
}

/// A change that reviewers made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CommonChange {
    /// What the machine said.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub old: Value,
    /// What the reviewer said.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub new: Value,
    /// How often.
    pub count: u64,
}

/// What became of one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct FieldCorrections {
    /// The field.
    pub field: String,
    /// How often a reviewer decided on what the machine had read.
    pub extracted: u64,
    /// How often that was changed.
    pub corrected: u64,
    /// The one over the other, from 0 to 1.
    pub rate: f64,
    /// The commonest changes, ten at the most.
    pub changes: Vec<CommonChange>,
    /// Changes that are not among those.
    pub other_changes: u64,
    /// Whether the changes are counted exactly; where not, each was there at least so often.
    pub changes_exact: bool,
}

/// Corrections by field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CorrectionsInsight {
    /// What was looked at.
    pub looked_at: LookedAt,
    /// Reviews that were rejected: they say nothing of single fields.
    pub rejected: u64,
    /// The fields, those corrected most often first.
    pub fields: Vec<FieldCorrections>,
    /// How often fields came up that are not told, because there are too many.
    pub left_out: u64,
}

/// The decisions of a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct DecisionsOfDay {
    /// The day, in UTC.
    #[cfg_attr(feature = "openapi", schema(example = "2026-09-21"))]
    pub day: String,
    /// How many.
    pub decisions: u64,
}

/// What one reviewer decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReviewerDecisions {
    /// Who.
    pub reviewer_id: String,
    /// All decisions.
    pub decisions: u64,
    /// Decisions a day, over the days on which there were any.
    pub decisions_per_day: f64,
    /// As they are.
    pub approved: u64,
    /// With corrections.
    pub corrected: u64,
    /// No.
    pub rejected: u64,
    /// The share of decisions that were corrections, from 0 to 1.
    pub correction_rate: f64,
    /// The share of decisions that were rejections, from 0 to 1.
    pub rejection_rate: f64,
    /// How long a review was looked at before its decision, on average.
    pub mean_seconds: f64,
    /// The same, of the one in the middle.
    pub median_seconds: f64,
    /// How far off that may be: 0 where it is exact.
    pub median_within_seconds: f64,
    /// The days on which there were any.
    pub days: Vec<DecisionsOfDay>,
}

/// What reviewers decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ReviewersInsight {
    /// What was looked at.
    pub looked_at: LookedAt,
    /// Those who decided most first.
    pub reviewers: Vec<ReviewerDecisions>,
    /// Decisions of reviewers who are not told of, because there are too many.
    pub left_out: u64,
}

/// Fields of which the machine was about as sure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ConfidenceBin {
    /// From this confidence on.
    pub from: f64,
    /// Below this one; the last has 100 too.
    pub to: f64,
    /// Fields that reviewers decided on.
    pub fields: u64,
    /// Of those, how many were changed.
    pub changed: u64,
    /// The one over the other, from 0 to 1; null where there are none.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub changed_share: Option<f64>,
    /// How sure the machine was on average; null where there are none.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub mean_confidence: Option<f64>,
}

/// What would have gone through unseen, had everything of at least this confidence been approved without a reviewer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct AutoApproval {
    /// The confidence from which on nobody would have looked.
    pub threshold: f64,
    /// Reviews that nobody would have seen.
    pub reviews: u64,
    /// Their share of all reviews with a confidence; null where there are none.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub review_share: Option<f64>,
    /// Of those, how many a reviewer corrected or rejected.
    pub let_through: u64,
    /// The one over the other; null where there are none.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub let_through_share: Option<f64>,
    /// Of what was let through, how many were corrected.
    pub corrected: u64,
    /// Of what was let through, how many were rejected.
    pub rejected: u64,
    /// Fields of at least this confidence, whatever their review's.
    pub fields: u64,
    /// Of those, how many were changed.
    pub changed_fields: u64,
}

/// Confidence against decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CalibrationInsight {
    /// What was looked at.
    pub looked_at: LookedAt,
    /// Fields by confidence, from the lowest.
    pub bins: Vec<ConfidenceBin>,
    /// Fields of which the machine did not say how sure it was.
    pub fields_without_confidence: u64,
    /// Reviews without a confidence; no threshold concerns them.
    pub reviews_without_confidence: u64,
    /// What thresholds would have let through, from the lowest.
    pub thresholds: Vec<AutoApproval>,
}

/// What waits, and what will become of it at the present pace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// Pending reviews, and those assigned to somebody who has not looked at them yet.
    pub reviews: u64,
    /// Of those, how many are past their deadline.
    pub overdue: u64,
    /// Of those, how many will be decided after it; the overdue ones among them.
    pub will_miss: u64,
    /// Whether more wait than were looked at, which these numbers are about.
    pub capped: bool,
}

/// How it stands with the deadlines of a collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct CollectionSla {
    /// The collection.
    pub collection_id: String,
    /// Decided up to the deadline.
    pub met: u64,
    /// Decided after it.
    pub missed: u64,
    /// The share that was met; null where nothing was decided.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub met_share: Option<f64>,
    /// Decisions in an hour, at present.
    pub decisions_per_hour: f64,
    /// In somebody's hands.
    pub in_review: u64,
    /// What waits.
    pub waiting: Waiting,
}

/// How it stands with deadlines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct SlaInsight {
    /// What was looked at.
    pub looked_at: LookedAt,
    /// Over how many hours the present pace is measured.
    pub pace_hours: u32,
    /// Decided up to the deadline, in all collections.
    pub met: u64,
    /// Decided after it.
    pub missed: u64,
    /// The share that was met; null where nothing was decided.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub met_share: Option<f64>,
    /// What waits, in all collections.
    pub waiting: Waiting,
    /// Each collection of which there is anything to tell, by id.
    pub collections: Vec<CollectionSla>,
}

/// A field that the machine got wrong: one line of the training data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TrainingExample {
    /// The item.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub item_id: ItemId,
    /// The caller's id of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_id: Option<String>,
    /// Its collection.
    pub collection_id: String,
    /// The version that was reviewed.
    pub version: i64,
    /// The review.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub queue_id: ReviewId,
    /// The field.
    pub field: String,
    /// What the machine said.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub machine_value: Value,
    /// What is right.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub human_value: Value,
    /// What the field said before the decision, where that was an earlier correction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_value: Option<Value>,
    /// How sure the machine was; null where it did not say.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub confidence: Option<f64>,
    /// Who decided.
    pub decided_by: String,
    /// When.
    pub decided_at: Time,
}
