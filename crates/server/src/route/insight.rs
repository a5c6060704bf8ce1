//! Insights: what decided reviews tell of the machine, of the reviewers and of deadlines.
//!
//! Leads see their tenant's; admins name whose they want to see, by a tenant or by a collection. A reviewer sees what is their own.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use docket_core::access::Role;
use docket_core::insight::PACE_DEFAULT_HOURS;
use docket_core::name::{CollectionId, ReviewerId};
use docket_core::scope::Scope;
use docket_engine::{Error, InsightQuery, TrainingData};
use docket_wire::insight::{CalibrationInsight, CorrectionsInsight, ReviewersInsight, SlaInsight};
use docket_wire::{Time, schema};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::insight_view as view;
use crate::caller::{As, Leading, Learning, Reach, Roles};
use crate::error::ApiResult;
use crate::extract::{Json, Query};
use crate::layer::Streamed;
use crate::openapi::Missing;
use crate::state::AppState;

/// Declares what a call takes after `?`: which decisions, which all of them take, and what is its own.
macro_rules! query {
    ($(#[$doc:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Deserialize, IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(crate) struct $name {
            /// Of this tenant, for those who act for the whole deployment: they name it, or a collection.
            #[param(value_type = Option<schema::Name>)]
            tenant_id: Option<String>,
            /// Of this collection; of all of the tenant's where none is named.
            #[param(value_type = Option<schema::Name>)]
            collection_id: Option<String>,
            /// Decisions from this moment on: 30 days where nothing is said, and 366 at the most.
            #[param(value_type = Option<schema::Time>)]
            since: Option<Time>,
            /// Decisions before this moment: up to now where nothing is said.
            #[param(value_type = Option<schema::Time>)]
            until: Option<Time>,
            $($(#[$attribute])* $field: $type,)*
        }

        impl $name {
            fn asked(&self) -> Asked {
                Asked {
                    tenant_id: self.tenant_id.clone(),
                    collection_id: self.collection_id.clone(),
                    since: self.since,
                    until: self.until,
                }
            }
        }
    };
}

query! {
    /// Which decisions, and of which field.
    CorrectionsQuery {
        /// Of this field only.
        #[param(value_type = Option<schema::FieldName>)]
        field: Option<String>,
    }
}

query! {
    /// Which decisions.
    ReviewersQuery {}
}

query! {
    /// Which decisions, of which field, and which threshold.
    CalibrationQuery {
        /// Of this field only, where fields are counted.
        #[param(value_type = Option<schema::FieldName>)]
        field: Option<String>,
        /// A threshold to tell of besides the usual ones.
        #[param(minimum = 0, maximum = 100)]
        threshold: Option<f64>,
    }
}

query! {
    /// Which decisions, and how the pace is measured.
    SlaQuery {
        /// The present pace is that of the last so many hours; 24 where nothing is said.
        #[param(minimum = 1, maximum = 168)]
        pace_hours: Option<u32>,
    }
}

query! {
    /// Which decisions, of which field, and how they are written.
    TrainingQuery {
        /// Of this field only.
        #[param(value_type = Option<schema::FieldName>)]
        field: Option<String>,
        /// `jsonl` where nothing is said.
        #[param(inline)]
        format: Option<Format>,
    }
}

/// How training data is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    /// JSON, a line each.
    #[default]
    Jsonl,
}

/// Which decisions are asked about.
struct Asked {
    tenant_id: Option<String>,
    collection_id: Option<String>,
    since: Option<Time>,
    until: Option<Time>,
}

impl Asked {
    /// Whose decisions are meant, and which. Those who act for the deployment name a tenant or a collection.
    async fn read<R: Roles>(
        self,
        state: &AppState,
        caller: &As<R>,
        field: Option<String>,
    ) -> ApiResult<(Scope, InsightQuery)> {
        let collection = self.collection_id.map(CollectionId::new).transpose()?;
        let scope = match (caller.reach(), &self.tenant_id, &collection) {
            (Reach::Deployment(_), None, Some(collection)) => {
                caller.scope_of_collection(state, collection).await?
            }
            _ => caller.scope_of_tenant(self.tenant_id)?,
        };
        if let Reach::Deployment(operator) = caller.reach() {
            state.engine().tenant(&operator, &scope.tenant).await?;
        }
        let query = InsightQuery {
            collection,
            since: self.since.map(Into::into),
            until: self.until.map(Into::into),
            field,
        };
        Ok((scope, query))
    }
}

/// Which fields the machine gets wrong, and how.
///
/// Counted are the fields of approved and corrected reviews. A field that already was a person's, and that the decision left alone, is not
/// counted: the reviewer did not see the machine's value there.
#[utoipa::path(
    get, path = "/api/v1/insights/corrections", tag = "Log", params(CorrectionsQuery), operation_id = "insight_corrections",
    responses((status = 200, description = "The fields.", body = CorrectionsInsight), Missing)
)]
pub(crate) async fn corrections(
    State(state): State<AppState>,
    caller: As<Leading>,
    Query(query): Query<CorrectionsQuery>,
) -> ApiResult<Json<CorrectionsInsight>> {
    let (scope, query) = query.asked().read(&state, &caller, query.field).await?;
    let found = state.engine().insight_corrections(&scope, &query).await?;
    Ok(Json(view::corrections(found)?))
}

/// How many reviews a day, how long each, and how they are decided, by reviewer.
///
/// A reviewer sees the own row only.
#[utoipa::path(
    get, path = "/api/v1/insights/reviewers", tag = "Log", params(ReviewersQuery), operation_id = "insight_reviewers",
    responses((status = 200, description = "The reviewers.", body = ReviewersInsight), Missing)
)]
pub(crate) async fn reviewers(
    State(state): State<AppState>,
    caller: As<Learning>,
    Query(query): Query<ReviewersQuery>,
) -> ApiResult<Json<ReviewersInsight>> {
    let only = match caller.caller().role() {
        Role::Reviewer => Some(ReviewerId::new(caller.caller().subject())?),
        _ => None,
    };
    let (scope, query) = query.asked().read(&state, &caller, None).await?;
    let engine = state.engine();
    let found = engine.insight_reviewers(&scope, &query, only.as_ref()).await?;
    Ok(Json(view::reviewers(found)))
}

/// How sure the machine was against what reviewers changed, and what an automatic approval would have let through.
#[utoipa::path(
    get, path = "/api/v1/insights/calibration", tag = "Log", params(CalibrationQuery), operation_id = "insight_calibration",
    responses((status = 200, description = "Bins and thresholds.", body = CalibrationInsight), Missing)
)]
pub(crate) async fn calibration(
    State(state): State<AppState>,
    caller: As<Leading>,
    Query(query): Query<CalibrationQuery>,
) -> ApiResult<Json<CalibrationInsight>> {
    let threshold = query.threshold;
    let (scope, query) = query.asked().read(&state, &caller, query.field).await?;
    let engine = state.engine();
    let found = engine.insight_calibration(&scope, &query, threshold).await?;
    Ok(Json(view::calibration(&found)))
}

/// How many deadlines were kept, and how many of those that wait will be missed at the present pace.
///
/// What waits is taken to be decided in the order of its deadlines, by collection: the k-th is decided `k × paceHours ÷ decisions` hours from
/// now, by the number of decisions in the last `paceHours`. Where there were none, everything that waits is missed.
#[utoipa::path(
    get, path = "/api/v1/insights/sla", tag = "Log", params(SlaQuery), operation_id = "insight_sla",
    responses((status = 200, description = "Deadlines.", body = SlaInsight), Missing)
)]
pub(crate) async fn sla(
    State(state): State<AppState>,
    caller: As<Leading>,
    Query(query): Query<SlaQuery>,
) -> ApiResult<Json<SlaInsight>> {
    let pace_hours = query.pace_hours.unwrap_or(PACE_DEFAULT_HOURS);
    let (scope, query) = query.asked().read(&state, &caller, None).await?;
    let found = state.engine().insight_sla(&scope, &query, pace_hours).await?;
    Ok(Json(view::sla(found, pace_hours)))
}

/// Corrections as training data: what the machine said beside what is right.
///
/// Each line is a `TrainingExample`. There are as many as the `corrected` of all fields of `insights/corrections`, for the same decisions.
#[utoipa::path(
    get, path = "/api/v1/insights/training-data", tag = "Log", params(TrainingQuery), operation_id = "training_data",
    responses(
        (status = 200, description = "The examples, a `TrainingExample` each line.", content((String = "application/x-ndjson"))),
        Missing
    )
)]
pub(crate) async fn training_data(
    State(state): State<AppState>,
    caller: As<Leading>,
    Query(query): Query<TrainingQuery>,
) -> ApiResult<Response> {
    let format = query.format.unwrap_or_default();
    let (scope, query) = query.asked().read(&state, &caller, query.field).await?;
    let data = state.engine().training_data(&scope, query).await?;
    let mut response = match format {
        Format::Jsonl => lines(data).into_response(),
    };
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/x-ndjson"),
    );
    let disposition = crate::disposition::write("attachment", Some("training-data.jsonl"));
    if let Ok(disposition) = HeaderValue::from_str(&disposition) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    response.extensions_mut().insert(Streamed);
    Ok(response)
}

/// A fault in the midst cuts the answer off: what is there cannot be taken for the whole.
fn lines(data: TrainingData) -> Body {
    Body::from_stream(futures_util::stream::try_unfold(data, async |mut data| {
        let next = data.next().await.map_err(super::export::told)?;
        Ok::<_, Error>(next.map(|examples| (view::lines(examples), data)))
    }))
}
