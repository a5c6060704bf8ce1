//! Reviews as the wire writes them.

use docket_core::Timestamp;
use docket_core::name::ReviewerId;
use docket_core::review::ReviewState;
use docket_engine::{
    self as engine, EmptyReason, Recorded, ReviewEntry, ReviewExplanation, ReviewStats, Workload,
};
use docket_wire::review as wire;
use docket_wire::time::seconds;

use super::super::view::json;
use crate::error::ApiResult;

/// A review as `viewer` sees it: the token is its holder's alone.
pub(crate) fn entry(entry: ReviewEntry, viewer: Option<&ReviewerId>) -> ApiResult<wire::Entry> {
    let (review, item_id, sla) = (&entry.review, entry.review.item, sla(&entry));
    let hand = &review.hand;
    let is_own = viewer.is_some_and(|viewer| hand.is_held_by(viewer));
    Ok(wire::Entry {
        queue_id: review.id,
        item_id,
        generation_id: entry.external_id.unwrap_or_else(|| item_id.to_string()),
        tenant_id: entry.tenant_id,
        collection_id: entry.collection_id,
        version: review.item_version,
        status: hand.state,
        priority: points(entry.parts.score()),
        band: entry.band,
        sla,
        assigned_to: hand.assigned_to.clone(),
        assigned_at: hand.assigned_at.map(Into::into),
        lease_token: is_own.then_some(hand.token),
        lease_expires_at: hand.until.map(Into::into),
        retry_count: hand.retry_count,
        created_at: review.created_at.into(),
        decided_by: hand.decided_by.clone(),
        decided_at: hand.decided_at.map(Into::into),
        reason: Recorded::of(review).and_then(|recorded| recorded.reason),
        display_payload: json("displayPayload", entry.display_payload)?,
        content_url: entry
            .has_content
            .then(|| format!("/api/v1/items/{item_id}/content")),
        filename: entry.filename,
        media_type: entry.media_type,
        fields: entry.fields.into_iter().map(Into::into).collect(),
    })
}

/// What an item's producer sees of its review.
pub(crate) fn item_review(entry: &ReviewEntry) -> wire::ItemReview {
    let hand = &entry.review.hand;
    wire::ItemReview {
        queue_id: entry.review.id,
        status: hand.state,
        priority: points(entry.parts.score()),
        band: entry.band,
        sla: sla(entry),
        assigned_to: hand.assigned_to.clone(),
        decided_at: hand.decided_at.map(Into::into),
        reason: Recorded::of(&entry.review).and_then(|recorded| recorded.reason),
    }
}

/// Why a review stands where it stands.
pub(super) fn explanation(explained: ReviewExplanation) -> wire::Explanation {
    let (entry, parts) = (&explained.entry, &explained.entry.parts);
    wire::Explanation {
        queue_id: entry.review.id,
        status: entry.review.hand.state,
        priority: points(parts.score()),
        band: entry.band,
        parts: wire::Parts {
            confidence: points(parts.confidence),
            deadline: points(parts.deadline),
            complexity: points(parts.complexity),
            value: points(parts.value),
        },
        weights: explained.rule.weights.into(),
        sla: sla(entry),
        reasons: explained.reasons,
    }
}

/// How a queue stands.
pub(super) fn stats(stats: &ReviewStats) -> wire::Stats {
    let count = |state| stats.count(state);
    let counts = wire::Counts {
        pending: count(ReviewState::Pending),
        in_review: count(ReviewState::InReview),
        approved: count(ReviewState::Approved),
        corrected: count(ReviewState::Corrected),
        rejected: count(ReviewState::Rejected),
        failed: count(ReviewState::Failed),
    };
    let age_ms = |since: Timestamp| stats.at.since(since).max(0);
    wire::Stats {
        collection_id: stats.collection_id.clone(),
        tenant_id: stats.tenant_id.clone(),
        depth: counts.pending + counts.in_review,
        counts,
        oldest_pending_age_seconds: stats
            .oldest_pending
            .map(|since| age_ms(since).unsigned_abs() / 1_000),
        overdue: stats.overdue,
        more_overdue: stats.more_overdue,
        paused: stats.is_paused,
    }
}

/// What a reviewer does.
pub(super) fn workload(work: Workload) -> wire::WorkloadOf {
    wire::WorkloadOf {
        reviewer_id: work.reviewer,
        name: work.name,
        available: work.available,
        capacity: work.capacity,
        in_review: work.in_review,
        decided_today: work.decided_today,
        mean_seconds: work.mean_ms.map(seconds),
    }
}

fn sla(entry: &ReviewEntry) -> wire::Sla {
    wire::Sla {
        deadline: entry.review.inputs.deadline.into(),
        seconds_left: entry.left_ms.div_euclid(1_000),
        level: entry.sla,
    }
}

/// Points as people read them: to two decimals.
fn points(points: f64) -> f64 {
    (points * 100.0).round() / 100.0
}

/// Why there is nothing to give.
pub(super) fn empty(empty: engine::Empty) -> wire::Empty {
    wire::Empty {
        reason: match empty.reason {
            EmptyReason::None => wire::EmptyReason::None,
            EmptyReason::AllAssigned => wire::EmptyReason::AllAssigned,
            EmptyReason::Paused => wire::EmptyReason::Paused,
            EmptyReason::NotPermitted => wire::EmptyReason::NotPermitted,
        },
        detail: empty.detail,
        pending: empty.pending,
        in_review: empty.in_review,
        next_lease_ends_at: empty.next_lease_ends_at.map(Into::into),
    }
}
