//! Submissions of JSON items.

use axum::extract::State;
use axum::response::Response;
use docket_core::item::{ItemDetails, OnConflict};
use docket_core::name::CollectionId;
use docket_core::{Refusal, Refused};
use docket_engine::{Submit, SubmitItem, SubmittedItem};
use docket_wire::batch::Is;
use docket_wire::item as wire;
use docket_wire::schema;
use docket_wire::{Outcome, Results};

use super::view;
use crate::caller::{As, Producing};
use crate::error::{ApiResult, refused_entry};
use crate::extract::{BatchJson, Json, PathParam};
use crate::idempotency::{IdempotencyKey, marked};
use crate::openapi::{IdempotencyHeader, Missing};
use crate::state::AppState;

pub(super) fn read(item: wire::SubmitItem) -> SubmitItem {
    SubmitItem {
        payload: item.payload,
        details: ItemDetails {
            external_id: item.external_id,
            metadata: item.metadata,
            fields: item
                .fields
                .map(|fields| fields.into_iter().map(Into::into).collect()),
            display_payload: item.display_payload,
            confidence: item.confidence,
            line_item_count: item.line_item_count,
            total_amount: item.total_amount,
            deadline: item.deadline.map(Into::into),
            on_conflict: on_conflict(item.on_conflict),
        },
    }
}

pub(crate) const fn on_conflict(word: wire::OnConflict) -> OnConflict {
    match word {
        wire::OnConflict::Refuse => OnConflict::Refuse,
        wire::OnConflict::NewVersion => OnConflict::NewVersion,
    }
}

/// Submit 1 to 1,000 JSON items.
///
/// Each is taken or refused by itself, and answered in its place.
#[utoipa::path(
    post, path = "/api/v1/collections/{collectionId}/items", tag = "Intake",
    params(("collectionId" = schema::Name, Path, description = "Where to."), IdempotencyHeader), request_body = wire::Submit,
    responses((status = 200, description = "A result for each item, in order.", body = Results<wire::Submitted>), Missing)
)]
pub(crate) async fn submit(
    State(state): State<AppState>,
    caller: As<Producing>,
    PathParam(collection): PathParam<CollectionId>,
    IdempotencyKey(idempotency_key): IdempotencyKey,
    BatchJson(body): BatchJson<wire::Submit>,
) -> ApiResult<Response> {
    let scope = caller.scope_of_collection(&state, &collection).await?;
    let call = Submit {
        collection,
        items: body.items.into_iter().map(read).collect(),
        idempotency_key,
    };
    let answer = state.engine().submit(&scope, call).await?;
    let ids = answer.results.iter().flatten().map(|taken| taken.id).collect();
    let items = state.engine().items_by_id(&scope, ids).await?;
    let show = |result: Refused<SubmittedItem>| {
        let found = result.and_then(|taken| match items.get(&taken.id) {
            Some(item) => Ok((taken, item)),
            // The answer to an earlier call, whose item is no longer kept.
            None => Err(Refusal::not_found("item", &taken.id)),
        });
        Ok(match found {
            Err(refusal) => Outcome::Refused(refused_entry(&refusal)),
            Ok((taken, item)) => Outcome::Taken(wire::Submitted {
                ok: Is,
                item: wire::SubmittedItem {
                    summary: view::summary(item)?,
                    job_id: taken.job,
                },
                duplicate: taken.duplicate,
                versioned: taken.versioned,
            }),
        })
    };
    let results = answer.results.into_iter().map(show).collect::<ApiResult<_>>()?;
    Ok(marked(
        answer.replayed,
        answer.request_differs,
        Json(Results { results }),
    ))
}
