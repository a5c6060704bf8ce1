//! The queue from above: lists, counts, and who does how much.

use docket_core::priority::Band;
use docket_core::review::ReviewState;
use serde::{Deserialize, Serialize};

use crate::collection::Strategy;

/// Which reviews of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewsQuery {
    /// Of this collection; of all, one after the other, where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::schema::Name>))]
    pub collection_id: Option<String>,
    /// In this state; what waits, is in hands or failed where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::schema::ReviewStatus>))]
    pub status: Option<ReviewState>,
    /// In the hands of this reviewer, or decided by them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::schema::Name>))]
    pub assigned_to: Option<String>,
    /// As urgent as this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<crate::schema::Band>))]
    pub band: Option<Band>,
    /// Past their deadline, or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overdue: Option<bool>,
    /// In which order what waits is listed; the collection's own where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub sort: Option<Strategy>,
    /// At most so many entries; 50 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 200))]
    pub limit: Option<u64>,
    /// `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(max_length = 512))]
    pub cursor: Option<String>,
}

/// Which collection's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueQuery {
    /// The collection.
    #[cfg_attr(feature = "openapi", param(value_type = crate::schema::Name))]
    pub collection_id: String,
}

/// How a collection's queue stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "openapi", schema(as = ReviewStats))]
pub struct Stats {
    /// The collection.
    pub collection_id: String,
    /// Whose it is.
    pub tenant_id: String,
    /// Reviews by their state.
    pub counts: Counts,
    /// How many are still to be decided: pending and in hands.
    pub depth: u64,
    /// How long the oldest pending one has waited.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub oldest_pending_age_seconds: Option<u64>,
    /// How many that are still to be decided are past their deadline.
    pub overdue: u64,
    /// Whether there are more overdue ones than were counted: 10,000 pending and 10,000 in hands at the most.
    pub more_overdue: bool,
    /// Whether an operator has paused it: nothing is given out.
    pub paused: bool,
}

/// Reviews by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ReviewCounts))]
#[serde(rename_all = "camelCase")]
#[expect(missing_docs, reason = "named as the states are")]
pub struct Counts {
    pub pending: u64,
    pub in_review: u64,
    pub approved: u64,
    pub corrected: u64,
    pub rejected: u64,
    pub failed: u64,
}

/// Who does how much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Workload {
    /// The reviewers, by id.
    pub reviewers: Vec<WorkloadOf>,
}

/// What one reviewer does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct WorkloadOf {
    /// Who.
    pub reviewer_id: String,
    /// For people.
    pub name: String,
    /// Whether reviews may be assigned to them.
    pub available: bool,
    /// How many they may hold; null for any number.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub capacity: Option<u64>,
    /// How many they hold.
    pub in_review: u64,
    /// How many they have decided since midnight, UTC.
    pub decided_today: u64,
    /// How long they look at one, on the average of today's; null where they have decided none.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub mean_seconds: Option<f64>,
}
