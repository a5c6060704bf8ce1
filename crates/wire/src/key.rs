//! API keys.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Time;

/// What a key's holder may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Submits items of one tenant and looks at them.
    Producer,
    /// Processes jobs.
    Worker,
    /// Reviews items of one tenant.
    Reviewer,
    /// Leads the reviewers of one tenant.
    Lead,
    /// Another service, trusted to act for any tenant.
    Service,
    /// Runs the deployment.
    Admin,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Producer,
        Self::Worker,
        Self::Reviewer,
        Self::Lead,
        Self::Service,
        Self::Admin,
    ];

    /// Its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Worker => "worker",
            Self::Reviewer => "reviewer",
            Self::Lead => "lead",
            Self::Service => "service",
            Self::Admin => "admin",
        }
    }
}

/// `POST /api/v1/keys`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KeyCreate {
    /// What its holder may do.
    pub role: Role,
    /// The tenant whose key it is; producers, reviewers and leads need one, the others have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<crate::schema::Name>))]
    pub tenant_id: Option<String>,
    /// Who holds it, for the log. A reviewer's is their reviewerId.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Name))]
    pub subject: String,
}

/// A new key. It is shown this once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KeyCreated {
    /// The key's id.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub id: Uuid,
    /// The key itself, to be sent as `Authorization: Bearer …`. Only its hash is kept.
    #[cfg_attr(feature = "openapi", schema(example = "dk_…"))]
    pub key: String,
}

impl std::fmt::Debug for KeyCreated {
    /// Without the key: it must not find its way into a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyCreated")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// A key as it is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Key {
    /// Its id.
    #[cfg_attr(feature = "openapi", schema(value_type = crate::schema::Id))]
    pub id: Uuid,
    /// The beginning of the key, to tell it from others.
    pub prefix: String,
    /// What its holder may do.
    pub role: Role,
    /// The tenant whose key it is.
    #[cfg_attr(feature = "openapi", schema(required))]
    pub tenant_id: Option<String>,
    /// Who holds it.
    pub subject: String,
    /// When it was made.
    pub created_at: Time,
    /// When it was revoked, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Time>,
}
