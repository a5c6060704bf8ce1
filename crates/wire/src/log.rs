//! The log: what happened, to what, by whom.

use docket_core::id::{ItemId, JobId};
use docket_core::log::LogPosition;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::time::Time;

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// Its place in the log; what `Last-Event-ID` and `cursor` take.
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "1234-56"))]
    pub id: LogPosition,
    /// When.
    pub at: Time,
    /// What, as `noun.verb`.
    #[cfg_attr(feature = "openapi", schema(example = "item.submitted"))]
    pub action: String,
    /// By whom.
    pub actor: String,
    /// Of which tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// Of which item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Id>))]
    pub item_id: Option<ItemId>,
    /// Of which job, for as long as that is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Id>))]
    pub job_id: Option<JobId>,
    /// Of which field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
    /// What is needed to explain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}
