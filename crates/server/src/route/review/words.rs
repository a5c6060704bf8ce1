//! What reviewers say, whoever says it for them: the one implementation behind the external and the internal calls.

use std::time::Duration;

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use docket_core::id::ReviewId;
use docket_core::name::CollectionId;
use docket_core::review::{FieldCorrection, REVIEWS_MAX};
use docket_core::scope::Reviewing;
use docket_core::{Refusal, Refused};
use docket_engine as engine;
use docket_wire::Results;
use docket_wire::batch::Is;
use docket_wire::review as wire;
use docket_wire::time::millis;
use tokio::sync::oneshot;
use tracing::Instrument as _;
use uuid::Uuid;

use super::super::batch;
use super::show;
use crate::entry::Entry;
use crate::error::{ApiError, ApiResult, seconds_up};
use crate::extract::Json;
use crate::state::AppState;

/// When to ask again where no lease is about to end, and at the latest where one is.
const RETRY_EMPTY_S: u64 = 10;
const RETRY_EMPTY_MAX_S: u64 = 60;

/// A review's id; what is no id of ours names nothing.
fn review_id(id: Uuid) -> Refused<ReviewId> {
    id.to_string().parse()
}

/// The reviews that a call names. The engine counts those that it is asked about; those that name nothing count as well.
fn review_ids(ids: Vec<Uuid>) -> Refused<Vec<Refused<ReviewId>>> {
    match ids.len() {
        0..=REVIEWS_MAX => Ok(ids.into_iter().map(review_id).collect()),
        many => Err(Refusal::invalid(
            "queueIds",
            format!("needs from 1 to {REVIEWS_MAX} entries, has {many}"),
        )),
    }
}

/// Takes reviews, and waits for them where that is asked for.
pub(super) async fn pop(state: &AppState, who: &Reviewing, body: wire::Pop) -> ApiResult<Response> {
    let ms = |path: &str, seconds: Option<f64>| seconds.map(|seconds| millis(path, seconds)).transpose();
    let wait_ms = ms("waitSeconds", body.wait_seconds)?.unwrap_or(0);
    let wait_ms = u64::try_from(wait_ms).unwrap_or(0);
    let pop = engine::Pop {
        collection: CollectionId::new(body.collection_id)?,
        limit: body.limit,
        strategy: body.strategy.map(Into::into),
        lock_timeout_ms: ms("lockTimeoutSeconds", body.lock_timeout_seconds)?,
        wait_ms,
    };
    let bound = state.config().call_timeout + Duration::from_millis(wait_ms.min(60_000));
    let popped = tokio::time::timeout(bound, pop_heard(state, who, pop))
        .await
        .map_err(|_| ApiError::Unavailable("the call took too long"))??;
    let retry_after = popped.empty.as_ref().map(|empty| retry_after(state, empty));
    let show = |entry| show::entry(entry, Some(who.reviewer()));
    let answer = wire::Popped {
        items: popped.entries.into_iter().map(show).collect::<ApiResult<_>>()?,
        empty: popped.empty.map(show::empty),
    };
    let mut response = Json(answer).into_response();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// When there may be something: when the next lease ends, within reason.
fn retry_after(state: &AppState, empty: &engine::Empty) -> u64 {
    let left = |ends: docket_core::Timestamp| seconds_up(ends.since(state.engine().now()));
    empty
        .next_lease_ends_at
        .map_or(RETRY_EMPTY_S, |ends| left(ends).clamp(1, RETRY_EMPTY_MAX_S))
}

/// Pops for a caller who may go away meanwhile. What nobody is there to take goes back at once, not when its lease has run out.
async fn pop_heard(state: &AppState, who: &Reviewing, pop: engine::Pop) -> ApiResult<engine::Popped> {
    let (mut heard, answer) = oneshot::channel();
    let (state, who) = (state.clone(), who.clone());
    let popping = async move {
        let stop = async {
            tokio::select! {
                () = state.stopping() => {}
                () = heard.closed() => {}
            }
        };
        let popped = state.engine().review_pop(&who, pop, stop).await;
        if let Err(Ok(unheard)) = heard.send(popped) {
            give_back(&state, &who, &unheard).await;
        }
    };
    tokio::spawn(popping.in_current_span());
    Ok(answer.await.map_err(|_| ApiError::Internal)??)
}

async fn give_back(state: &AppState, who: &Reviewing, popped: &engine::Popped) {
    if popped.entries.is_empty() {
        return;
    }
    let release = engine::ReviewRelease {
        ids: popped.entries.iter().map(|entry| entry.review.id).collect(),
        skip: false,
        reason: Some("whoever asked for it was gone".to_owned()),
    };
    if let Err(error) = state.engine().review_release(who, release).await {
        tracing::warn!(%error, "reviews that nobody was there to take come back when their leases end");
    }
}

fn decision(decision: wire::Decision) -> Refused<engine::Decision> {
    let correction = |correction: wire::FieldCorrection| FieldCorrection {
        field: correction.field,
        value: correction.value,
    };
    Ok(engine::Decision {
        id: review_id(decision.queue_id)?,
        generation_id: decision.generation_id,
        token: decision.lease_token,
        outcome: decision.outcome.into(),
        reason: decision.reason,
        corrections: decision.corrections.into_iter().map(correction).collect(),
    })
}

/// Decides on reviews, each by itself.
pub(super) async fn commit(
    state: &AppState,
    who: &Reviewing,
    decisions: Vec<Entry<wire::Decision>>,
) -> ApiResult<Json<Results<wire::Decided>>> {
    let read = |entry: Entry<wire::Decision>| entry.0.and_then(decision);
    let decisions = decisions.into_iter().map(read).collect();
    let answers = state.engine().review_commit(who, decisions).await?;
    let show = |decided: engine::Decided| wire::Decided {
        ok: Is,
        queue_id: decided.id,
        item_id: decided.item,
        status: decided.state,
        decided_at: decided.decided_at.into(),
        undo_until: decided.undo_until.into(),
        repeated: decided.repeated,
    };
    let results = answers.into_iter().map(|answer| batch::outcome(answer, show));
    Ok(Json(Results {
        results: results.collect(),
    }))
}

/// Gives reviews back.
pub(super) async fn release(
    state: &AppState,
    who: &Reviewing,
    body: wire::Release,
) -> ApiResult<Json<Results<wire::PutBack>>> {
    let (skip, reason) = (body.skip, body.reason);
    let ask = async |ids| {
        let release = engine::ReviewRelease { ids, skip, reason };
        state.engine().review_release(who, release).await
    };
    batch::each(review_ids(body.queue_ids)?, ask, |()| wire::PutBack::default()).await
}

/// Keeps reviews.
pub(super) async fn heartbeat(
    state: &AppState,
    who: &Reviewing,
    body: wire::Reviews,
) -> ApiResult<Json<Results<wire::Kept>>> {
    let ask = async |ids| state.engine().review_heartbeat(who, ids).await;
    batch::each(review_ids(body.queue_ids)?, ask, |until| wire::Kept {
        ok: Is,
        lease_expires_at: until.into(),
    })
    .await
}

/// Takes decisions back.
pub(super) async fn undo(
    state: &AppState,
    who: &Reviewing,
    body: wire::Reviews,
) -> ApiResult<Json<Results<wire::TakenBack>>> {
    let ask = async |ids| state.engine().review_undo(who, ids).await;
    batch::each(review_ids(body.queue_ids)?, ask, |undone| wire::TakenBack {
        ok: Is,
        queue_id: undone.id,
        lease_token: undone.token,
        lease_expires_at: undone.lease_expires_at.map(Into::into),
    })
    .await
}

/// Takes a certain review.
pub(super) async fn claim(state: &AppState, who: &Reviewing, id: ReviewId) -> ApiResult<Json<wire::Entry>> {
    let entry = state.engine().review_claim(who, id).await?;
    show::entry(entry, Some(who.reviewer())).map(Json)
}
