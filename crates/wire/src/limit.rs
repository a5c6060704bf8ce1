//! What a tenant may still submit.

use serde::{Deserialize, Serialize};

use crate::tenant::UploadLimit;

/// `GET /api/v1/limits`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Whether a submission would be taken now.
    pub allowed: bool,
    /// Submissions in a window.
    pub limit: UploadLimit,
    /// How many more are taken now.
    pub remaining: UploadLimit,
    /// The length of the rolling window.
    #[cfg_attr(feature = "openapi", schema(example = 3600))]
    pub window_seconds: u64,
    /// Seconds until the next submission is taken, where none is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_time_seconds: Option<u64>,
}
