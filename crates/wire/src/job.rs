//! Jobs: as people see them, and the words between a worker and Docket.

use docket_core::id::{ItemId, JobId};
use docket_core::job as core;
use docket_core::lease::LeaseToken;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::batch::Is;
use crate::field::MachineField;
use crate::time::Time;
use crate::whole::{whole, whole_or_none};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Waits.
    Pending,
    /// A worker has it.
    Processing,
    /// Done.
    Completed,
    /// Given up.
    Failed,
    /// Taken back.
    Cancelled,
}

impl From<core::JobStatus> for JobStatus {
    fn from(status: core::JobStatus) -> Self {
        match status {
            core::JobStatus::Pending => Self::Pending,
            core::JobStatus::Processing => Self::Processing,
            core::JobStatus::Completed => Self::Completed,
            core::JobStatus::Failed => Self::Failed,
            core::JobStatus::Cancelled => Self::Cancelled,
        }
    }
}

/// The state of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// To be done.
    Pending,
    /// Done; its output is kept.
    Completed,
}

/// A step of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its name.
    pub name: String,
    /// What it is.
    pub status: StepStatus,
    /// When it began: with its attempt, or with the end of the step before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
}

/// One processing run of an item. Times stay after a failure, for debugging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Job {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub id: JobId,
    /// The pipeline it runs by.
    pub pipeline: String,
    /// What it is.
    pub status: JobStatus,
    /// 1 for the first.
    pub attempt: u32,
    /// Attempts behind it.
    pub retry_count: u32,
    /// When it was made.
    pub created_at: Time,
    /// When its latest attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// What went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_step: Option<String>,
    /// The job that this one retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Id>))]
    pub retry_of: Option<JobId>,
    /// Who has or had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// When its lease ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_expires_at: Option<Time>,
    /// When it may be started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
    /// The pipeline's steps, in their order.
    pub steps: Vec<Step>,
}

/// `POST /internal/v1/jobs/claim`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Claim {
    /// Of which pipeline.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub pipeline: String,
    /// Who asks.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub worker_id: String,
    /// How many at the most.
    #[serde(default = "one", deserialize_with = "whole")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000, default = 1))]
    pub limit: u32,
    /// For how long; the pipeline's own lease where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LeaseSeconds>))]
    pub lease_seconds: Option<f64>,
    /// How long to wait for work while there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 60))]
    pub wait_seconds: Option<f64>,
}

fn lease_token<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<LeaseToken, D::Error> {
    whole(deserializer).map(LeaseToken)
}

const fn one() -> u32 {
    1
}

const fn yes() -> bool {
    true
}

/// The answer to a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Claimed {
    /// The jobs; none where there is no work.
    pub jobs: Vec<ClaimedJob>,
}

/// A job in a worker's hands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClaimedJob {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub job_id: JobId,
    /// Its item.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub item_id: ItemId,
    /// The item's version.
    pub item_version: u32,
    /// Whose it is.
    pub tenant_id: String,
    /// Its collection.
    pub collection_id: String,
    /// The caller's id.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub external_id: Option<String>,
    /// To be sent with every word about the job.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseToken))]
    pub lease_token: LeaseToken,
    /// When the lease ends, unless a heartbeat extends it.
    pub lease_expires_at: Time,
    /// 1 for the first.
    pub attempt: u32,
    /// The content, where it is JSON.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub payload: Option<Value>,
    /// Where the file is, relative to the server; the same credentials open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_url: Option<String>,
    /// The file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The file's type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// The pipeline's steps; those that an earlier attempt finished have their output.
    pub steps: Vec<ClaimedStep>,
}

/// A step of a claimed job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClaimedStep {
    /// Its name.
    pub name: String,
    /// Whether it is done.
    pub status: StepStatus,
    /// What an earlier attempt made of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// `POST /internal/v1/jobs/heartbeat`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeats {
    /// The jobs that live.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1_000))]
    pub jobs: Vec<Heartbeat>,
}

/// A sign of life for one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Heartbeat {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub job_id: Uuid,
    /// The token that its holder was given.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseToken))]
    #[serde(deserialize_with = "lease_token")]
    pub lease_token: LeaseToken,
    /// For how long from now; as long as before where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::LeaseSeconds>))]
    pub lease_seconds: Option<f64>,
}

/// A lease that was extended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Extended {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
    /// Its new end.
    pub lease_expires_at: Time,
}

/// `POST /internal/v1/jobs/{jobId}/steps/{name}`: the step is done and kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepDone {
    /// The token that the job's holder was given.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseToken))]
    #[serde(deserialize_with = "lease_token")]
    pub lease_token: LeaseToken,
    /// What came out: any JSON, at most 1 MiB.
    pub output: Value,
}

/// `POST /internal/v1/jobs/complete`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Completes {
    /// The jobs that are done.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1_000))]
    pub jobs: Vec<Complete>,
}

/// A job that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Complete {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub job_id: Uuid,
    /// The token that its holder was given.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseToken))]
    #[serde(deserialize_with = "lease_token")]
    pub lease_token: LeaseToken,
    /// What came out: any JSON, at most 1 MiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The values read; left out, the item's stay as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_items = 1_000))]
    pub fields: Option<Vec<MachineField>>,
    /// What a reviewer should see.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_payload: Option<Value>,
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
}

/// A job that was completed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Completed {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
    /// The item it was about.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub item_id: ItemId,
    /// Whether it was done already, by the same token: nothing was changed now.
    pub repeated: bool,
}

/// `POST /internal/v1/jobs/fail`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fails {
    /// The attempts that went wrong.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1_000))]
    pub jobs: Vec<Fail>,
}

/// An attempt that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fail {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub job_id: Uuid,
    /// The token that its holder was given.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseToken))]
    #[serde(deserialize_with = "lease_token")]
    pub lease_token: LeaseToken,
    /// What went wrong; what is longer than 10,000 characters is cut.
    pub error: String,
    /// The step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Name>))]
    pub step: Option<String>,
    /// Whether another attempt could help.
    #[serde(default = "yes")]
    #[cfg_attr(feature = "openapi", schema(default = true))]
    pub retryable: bool,
}

/// A job whose attempt was failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Failed {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
    /// Pending where it is tried again, failed where it is given up.
    pub status: JobStatus,
    /// When it may be started again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_at: Option<Time>,
}

/// `POST /internal/v1/jobs/release`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Releases {
    /// The jobs that are handed back, to their old place.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 1_000))]
    pub jobs: Vec<Release>,
}

/// A job that is handed back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Release {
    /// The job.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub job_id: Uuid,
    /// The token that its holder was given.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::LeaseToken))]
    #[serde(deserialize_with = "lease_token")]
    pub lease_token: LeaseToken,
}

/// A job that was handed back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Released {
    /// Always true.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::True))]
    pub ok: Is<true>,
}

/// `POST /internal/v1/jobs/reap`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reap {
    /// Also leases that have not run out, but whose holder has given no sign of life for that long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1_000_000_000))]
    pub older_than_seconds: Option<f64>,
}

/// What was reaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Reaped {
    /// Stale jobs that were given up.
    pub failed: u64,
    /// Stale jobs that went back to their place.
    pub requeued: u64,
    /// Jobs whose wait for the next attempt was over.
    pub resumed: u64,
}
