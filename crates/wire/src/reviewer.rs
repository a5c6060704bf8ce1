//! Reviewers: who they are, whether they are there, how much they may hold.

use serde::{Deserialize, Serialize};

use crate::whole::whole_or_none;

/// `PUT /api/v1/reviewers/{reviewerId}`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewerPut {
    /// For people.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::ShortText))]
    pub name: String,
    /// For whom they review; left out for any tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Name>))]
    pub tenant_id: Option<String>,
    /// Whether reviews may be assigned to them.
    #[serde(default = "yes")]
    #[cfg_attr(feature = "openapi", schema(default = true))]
    pub available: bool,
    /// How many they may hold; left out for any number.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "whole_or_none"
    )]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10_000))]
    pub capacity: Option<u32>,
}

const fn yes() -> bool {
    true
}

/// `PUT /api/v1/reviewers/{reviewerId}/availability`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewerAvailability {
    /// Whether reviews may be assigned to them.
    pub available: bool,
}

/// `PUT /api/v1/reviewers/{reviewerId}/capacity`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReviewerCapacity {
    /// How many they may hold; null for any number.
    #[serde(deserialize_with = "whole_or_none")]
    #[cfg_attr(feature = "openapi", schema(required, minimum = 1, maximum = 10_000))]
    pub capacity: Option<u32>,
}

/// A reviewer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Reviewer {
    /// Who.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub id: String,
    /// For people.
    pub name: String,
    /// For whom they review; null for any tenant.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub tenant_id: Option<String>,
    /// Whether reviews may be assigned to them.
    pub available: bool,
    /// How many they may hold; null for any number.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub capacity: Option<u64>,
}

/// `POST /api/v1/reviewers/{reviewerId}/hand-on`: what they held is with others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct HandedOn {
    /// How many reviews.
    pub handed_on: u64,
}
