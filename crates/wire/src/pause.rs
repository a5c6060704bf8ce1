//! Pauses: nothing of what they cover is started; what runs goes on.

use docket_core::id::PauseId;
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// What a pause stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PauseScope {
    /// Everything.
    All,
    /// All lanes of a pipeline.
    Pipeline,
    /// One tenant's lane within a pipeline.
    Lane,
    /// The reviews of a collection.
    Collection,
    /// The sends of a channel.
    Channel,
}

/// `POST /api/v1/pauses`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseSet {
    /// What to stop.
    pub scope: PauseScope,
    /// The pipeline's name, for a pipeline or a lane; the collection's, for a collection; the channel's, for a channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Name>))]
    pub id: Option<String>,
    /// The tenant, for a lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Name>))]
    pub tenant_id: Option<String>,
    /// Why, for those who wonder.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ShortText))]
    pub reason: String,
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// Its id: lifting it needs no more.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub id: PauseId,
    /// What it stops.
    pub scope: PauseScope,
    /// The pipeline's name, for a pipeline or a lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    /// The tenant, for a lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant_id: Option<String>,
    /// The collection, where it stops the reviews of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection_id: Option<String>,
    /// The channel, where it stops the sends of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Why.
    pub reason: String,
    /// Who set it.
    pub actor: String,
    /// When.
    pub at: Time,
}
