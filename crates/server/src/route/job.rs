//! The words between workers and Docket.

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use docket_core::Refused;
use docket_core::id::JobId;
use docket_core::item::check_batch;
use docket_core::job::Failure;
use docket_core::name::{PipelineName, StepName, WorkerId};
use docket_engine as engine;
use docket_wire::Results;
use docket_wire::batch::Is;
use docket_wire::job as wire;
use docket_wire::schema;
use docket_wire::time::millis;
use uuid::Uuid;

use super::batch;
use crate::caller::{As, Reaping, Working};
use crate::error::{ApiError, ApiResult};
use crate::extract::{BatchJson, Json, PathParams};
use crate::openapi::{Conflicts, Missing};
use crate::state::AppState;

fn job_id(id: Uuid) -> Refused<JobId> {
    id.to_string().parse()
}

fn lease_ms(seconds: Option<f64>) -> Refused<Option<i64>> {
    seconds.map(|seconds| millis("leaseSeconds", seconds)).transpose()
}

/// A step of a claimed job.
fn show_step(step: engine::ClaimedStep) -> wire::ClaimedStep {
    wire::ClaimedStep {
        name: step.name,
        status: match step.output {
            Some(_) => wire::StepStatus::Completed,
            None => wire::StepStatus::Pending,
        },
        output: step.output,
    }
}

fn show_job(job: engine::ClaimedJob) -> ApiResult<wire::ClaimedJob> {
    let payload = job.payload.map(|text| serde_json::from_str(&text)).transpose();
    let payload = payload.map_err(|error| {
        tracing::error!(%error, job = %job.id, "a payload cannot be read");
        ApiError::Internal
    })?;
    Ok(wire::ClaimedJob {
        job_id: job.id,
        item_id: job.item,
        item_version: job.item_version,
        tenant_id: job.tenant_id,
        collection_id: job.collection_id,
        external_id: job.external_id,
        lease_token: job.token,
        lease_expires_at: job.lease_expires_at.into(),
        attempt: job.attempt,
        payload,
        content_url: job
            .has_content
            .then(|| format!("/api/v1/items/{}/content", job.item)),
        filename: job.filename,
        media_type: job.media_type,
        steps: job.steps.into_iter().map(show_step).collect(),
    })
}

/// Claim jobs.
///
/// With `waitSeconds` the call lasts until there are some or the time is over. No jobs is an answer, not an
/// error.
#[utoipa::path(
    post, path = "/internal/v1/jobs/claim", tag = "Work", request_body = wire::Claim,
    responses((status = 200, description = "The jobs; none where there is no work.", body = wire::Claimed), Missing)
)]
pub(crate) async fn claim(
    State(state): State<AppState>,
    _caller: As<Working>,
    Json(body): Json<wire::Claim>,
) -> ApiResult<Json<wire::Claimed>> {
    let wait_ms = body
        .wait_seconds
        .map(|seconds| millis("waitSeconds", seconds))
        .transpose()?;
    let wait_ms = u64::try_from(wait_ms.unwrap_or(0)).unwrap_or(0);
    let claim = engine::Claim {
        pipeline: PipelineName::new(body.pipeline)?,
        worker: WorkerId::new(body.worker_id)?,
        limit: body.limit,
        lease_ms: lease_ms(body.lease_seconds)?,
        wait_ms,
    };
    let bound = state.config().call_timeout + Duration::from_millis(wait_ms.min(60_000));
    // What is claimed for a caller that no longer listens goes back to its place. A server that stops ends the wait only: what is
    // claimed by then is answered.
    let claimed = state.engine().claim_until(claim, state.stopping());
    let jobs = tokio::time::timeout(bound, claimed)
        .await
        .map_err(|_| ApiError::Unavailable("the call took too long"))??;
    let jobs = jobs.into_iter().map(show_job).collect::<ApiResult<_>>()?;
    Ok(Json(wire::Claimed { jobs }))
}

/// Asks the engine about jobs, in one batch.
async fn each<T, U, V>(
    entries: Vec<Refused<T>>,
    ask: impl AsyncFnOnce(Vec<T>) -> engine::Result<Vec<Refused<U>>>,
    show: impl Fn(U) -> V,
) -> ApiResult<Json<Results<V>>> {
    check_batch("jobs", entries.len())?;
    batch::each(entries, ask, show).await
}

/// Where an entry stands, for its refusals.
fn placed<T>(index: usize, entry: Refused<T>) -> Refused<T> {
    entry.map_err(|refusal| refusal.under(&format!("jobs[{index}]")))
}

/// Extend leases.
#[utoipa::path(
    post, path = "/internal/v1/jobs/heartbeat", tag = "Work", request_body = wire::Heartbeats,
    responses((status = 200, description = "The new end of each lease, in order.", body = Results<wire::Extended>))
)]
pub(crate) async fn heartbeat(
    State(state): State<AppState>,
    _caller: As<Working>,
    Json(body): Json<wire::Heartbeats>,
) -> ApiResult<Json<Results<wire::Extended>>> {
    let read = |(index, beat): (usize, wire::Heartbeat)| {
        placed(
            index,
            job_id(beat.job_id).and_then(|job| {
                Ok(engine::Heartbeat {
                    job,
                    token: beat.lease_token,
                    lease_ms: lease_ms(beat.lease_seconds)?,
                })
            }),
        )
    };
    let beats = body.jobs.into_iter().enumerate().map(read).collect();
    each(
        beats,
        async |beats| state.engine().heartbeat(beats).await,
        |until| wire::Extended {
            ok: Is,
            lease_expires_at: until.into(),
        },
    )
    .await
}

/// Keep what a finished step made.
///
/// The next attempt, should there be one, begins after it.
#[utoipa::path(
    post, path = "/internal/v1/jobs/{jobId}/steps/{name}", tag = "Work",
    params(
        ("jobId" = schema::Id, Path, description = "The job."),
        ("name" = schema::Name, Path, description = "The step.")
    ),
    request_body = wire::StepDone,
    responses((status = 204, description = "It is kept."), Missing, Conflicts)
)]
pub(crate) async fn step(
    State(state): State<AppState>,
    _caller: As<Working>,
    PathParams(job, name): PathParams<JobId, StepName>,
    Json(body): Json<wire::StepDone>,
) -> ApiResult<StatusCode> {
    let done = engine::StepDone {
        job,
        token: body.lease_token,
        name: name.as_str().to_owned(),
        output: body.output,
    };
    state.engine().step(done).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Complete jobs.
///
/// One that cannot be completed touches no other. Said again with the same token, it stands.
#[utoipa::path(
    post, path = "/internal/v1/jobs/complete", tag = "Work", request_body = wire::Completes,
    responses((status = 200, description = "A result for each job, in order.", body = Results<wire::Completed>))
)]
pub(crate) async fn complete(
    State(state): State<AppState>,
    _caller: As<Working>,
    BatchJson(body): BatchJson<wire::Completes>,
) -> ApiResult<Json<Results<wire::Completed>>> {
    let read = |(index, done): (usize, wire::Complete)| {
        placed(
            index,
            job_id(done.job_id).map(|job| engine::Complete {
                job,
                token: done.lease_token,
                result: done.result,
                fields: done
                    .fields
                    .map(|fields| fields.into_iter().map(Into::into).collect()),
                display_payload: done.display_payload,
                line_item_count: done.line_item_count,
                total_amount: done.total_amount,
            }),
        )
    };
    let jobs = body.jobs.into_iter().enumerate().map(read).collect();
    each(
        jobs,
        async |jobs| state.engine().complete(jobs).await,
        |done| wire::Completed {
            ok: Is,
            item_id: done.item,
            repeated: done.repeated,
        },
    )
    .await
}

/// Say of attempts that they went wrong.
///
/// A retryable one is tried again after a wait, until the attempts run out.
#[utoipa::path(
    post, path = "/internal/v1/jobs/fail", tag = "Work", request_body = wire::Fails,
    responses((status = 200, description = "What becomes of each job, in order.", body = Results<wire::Failed>))
)]
pub(crate) async fn fail(
    State(state): State<AppState>,
    _caller: As<Working>,
    BatchJson(body): BatchJson<wire::Fails>,
) -> ApiResult<Json<Results<wire::Failed>>> {
    let read = |(index, fail): (usize, wire::Fail)| {
        placed(
            index,
            job_id(fail.job_id).map(|job| engine::Fail {
                job,
                token: fail.lease_token,
                failure: Failure {
                    error: fail.error,
                    step: fail.step,
                    retryable: fail.retryable,
                },
            }),
        )
    };
    let jobs = body.jobs.into_iter().enumerate().map(read).collect();
    each(
        jobs,
        async |jobs| state.engine().fail(jobs).await,
        |failed| wire::Failed {
            ok: Is,
            status: failed.status.into(),
            run_at: failed.run_at.map(Into::into),
        },
    )
    .await
}

/// Hand back jobs that were not started, to their old place.
#[utoipa::path(
    post, path = "/internal/v1/jobs/release", tag = "Work", request_body = wire::Releases,
    responses((status = 200, description = "A result for each job, in order.", body = Results<wire::Released>))
)]
pub(crate) async fn release(
    State(state): State<AppState>,
    _caller: As<Working>,
    Json(body): Json<wire::Releases>,
) -> ApiResult<Json<Results<wire::Released>>> {
    let read = |(index, release): (usize, wire::Release)| {
        placed(
            index,
            job_id(release.job_id).map(|job| engine::Release {
                job,
                token: release.lease_token,
            }),
        )
    };
    let jobs = body.jobs.into_iter().enumerate().map(read).collect();
    each(
        jobs,
        async |jobs| state.engine().release(jobs).await,
        |()| wire::Released::default(),
    )
    .await
}

/// Settle jobs whose leases have run out.
///
/// With `olderThanSeconds`, also those whose worker has given no sign of life for that long.
#[utoipa::path(
    post, path = "/internal/v1/jobs/reap", tag = "Work", request_body = wire::Reap,
    responses((status = 200, description = "What was reaped.", body = wire::Reaped))
)]
pub(crate) async fn reap(
    State(state): State<AppState>,
    _caller: As<Reaping>,
    Json(body): Json<wire::Reap>,
) -> ApiResult<Json<wire::Reaped>> {
    let path = "olderThanSeconds";
    let older_than_ms = body.older_than_seconds.map(|s| millis(path, s)).transpose()?;
    let reaped = state.engine().reap(older_than_ms).await?;
    Ok(Json(wire::Reaped {
        failed: reaped.failed,
        requeued: reaped.requeued,
        resumed: reaped.resumed,
    }))
}
