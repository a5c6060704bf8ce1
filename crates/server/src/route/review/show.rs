//! Reviews as the wire writes them.

use docket_core::Timestamp;
use docket_core::name::ReviewerId;
use docket_core::priority::{Parts, SlaLevel};
use docket_engine::{self as engine, EmptyReason, Recorded, ReviewEntry};
use docket_wire::review as wire;

use super::super::view::json;
use crate::error::ApiResult;

/// A review as `viewer` sees it: the token is its holder's alone.
pub(super) fn entry(entry: ReviewEntry, viewer: Option<&ReviewerId>) -> ApiResult<wire::Entry> {
    let (review, item_id) = (&entry.review, entry.review.item);
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
        priority: score(&entry.parts),
        band: entry.band,
        sla: sla(review.inputs.deadline, entry.left_ms, entry.sla),
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

/// How it stands with a deadline.
pub(super) fn sla(deadline: Timestamp, left_ms: i64, level: SlaLevel) -> wire::Sla {
    wire::Sla {
        deadline: deadline.into(),
        seconds_left: left_ms.div_euclid(1_000),
        level,
    }
}

/// A score as people read it.
pub(super) fn score(parts: &Parts) -> f64 {
    points(parts.score())
}

/// Points to two decimals.
pub(super) fn points(points: f64) -> f64 {
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
