//! Who asks. A tenant's operations take a [`Scope`], which names the tenant; operations over all tenants take
//! an [`Operator`]. Neither can be made from the other by accident, so a tenant can't be forgotten in a query.

use crate::name::TenantId;
use crate::refusal::Refused;

/// Who does something, for the log: `worker:w7`, `key:01a…`, `reviewer:ann`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Actor(String);

impl Actor {
    /// An actor of this description.
    pub fn new(text: impl Into<String>) -> Refused<Self> {
        let text = text.into();
        crate::name::check_text("actor", &text, crate::name::TEXT_MAX)?;
        Ok(Self(text))
    }

    /// Docket itself: the reaper and its like.
    pub fn system() -> Self {
        Self("docket".to_owned())
    }

    /// The description.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Somebody who acts for one tenant.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Whose data is meant; nobody else's is seen.
    pub tenant: TenantId,
    /// Who asks.
    pub actor: Actor,
}

/// Somebody who acts for the whole deployment: an admin, a service, Docket itself.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Who asks.
    pub actor: Actor,
}

impl Operator {
    /// Docket itself.
    pub fn system() -> Self {
        Self {
            actor: Actor::system(),
        }
    }
}
