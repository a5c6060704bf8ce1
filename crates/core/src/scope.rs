//! Who asks. A tenant's operations take a [`Scope`], which names the tenant; operations over all tenants take
//! an [`Operator`]. Neither can be made from the other by accident, so a tenant can't be forgotten in a query.

use crate::name::{ReviewerId, TenantId};
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

/// Somebody who reviews: one of a tenant's people, one for whom a service speaks that has authenticated them, or an operator.
#[derive(Clone, Debug)]
pub struct Reviewing {
    reviewer: ReviewerId,
    tenant: Option<TenantId>,
    actor: Actor,
    is_lead: bool,
}

impl Reviewing {
    /// A reviewer of the tenant.
    pub fn of(scope: &Scope, reviewer: ReviewerId) -> Self {
        Self {
            reviewer,
            tenant: Some(scope.tenant.clone()),
            actor: scope.actor.clone(),
            is_lead: false,
        }
    }

    /// Somebody who leads the tenant's reviewers, and may review as well.
    pub fn lead(scope: &Scope, reviewer: ReviewerId) -> Self {
        Self {
            is_lead: true,
            ..Self::of(scope, reviewer)
        }
    }

    /// One for whom a service speaks. The log names the reviewer.
    pub fn by_service(_: &Operator, reviewer: ReviewerId) -> Self {
        Self {
            actor: Actor(format!("reviewer:{reviewer}")),
            reviewer,
            tenant: None,
            is_lead: false,
        }
    }

    /// Somebody who runs the deployment: what the leads of every tenant may, they may.
    pub fn by_operator(operator: &Operator, reviewer: ReviewerId) -> Self {
        Self {
            reviewer,
            tenant: None,
            actor: operator.actor.clone(),
            is_lead: true,
        }
    }

    /// The tenant whose reviews they see; none for every one's.
    pub const fn tenant(&self) -> Option<&TenantId> {
        self.tenant.as_ref()
    }

    /// Who it is.
    pub const fn reviewer(&self) -> &ReviewerId {
        &self.reviewer
    }

    /// For the log.
    pub const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Whether they may do what leads may.
    pub const fn is_lead(&self) -> bool {
        self.is_lead
    }

    /// Whether a tenant's data is theirs to see.
    pub fn reaches(&self, tenant_id: &str) -> bool {
        self.tenant
            .as_ref()
            .is_none_or(|tenant| tenant.as_str() == tenant_id)
    }

    /// Whether they lead the reviewers of this tenant; none are those who review for every tenant, whom no tenant's lead leads.
    pub fn leads(&self, tenant_id: Option<&str>) -> bool {
        let is_own = |tenant: &TenantId| tenant_id == Some(tenant.as_str());
        self.is_lead && self.tenant.as_ref().is_none_or(is_own)
    }
}

/// Somebody who looks at queues without touching them: one of a tenant's people, or an operator, who sees them all.
#[derive(Clone, Debug)]
pub struct Watching {
    tenant: Option<TenantId>,
}

impl Watching {
    /// One of the tenant's people.
    pub fn of(scope: &Scope) -> Self {
        Self {
            tenant: Some(scope.tenant.clone()),
        }
    }

    /// An operator.
    pub const fn all(_: &Operator) -> Self {
        Self { tenant: None }
    }

    /// The one tenant whose data is theirs to see; none for everybody's.
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_ref().map(TenantId::as_str)
    }

    /// Whether a tenant's data is theirs to see.
    pub fn reaches(&self, tenant_id: &str) -> bool {
        self.tenant().is_none_or(|tenant| tenant == tenant_id)
    }
}

/// Somebody who has others told, and looks after what became of it: for one tenant, or for the deployment.
#[derive(Clone, Debug)]
pub struct Notifying {
    tenant: Option<TenantId>,
    actor: Actor,
}

impl Notifying {
    /// Somebody of the tenant.
    pub fn of(scope: &Scope) -> Self {
        Self {
            tenant: Some(scope.tenant.clone()),
            actor: scope.actor.clone(),
        }
    }

    /// Somebody of the deployment.
    pub fn deployment(operator: &Operator) -> Self {
        Self {
            tenant: None,
            actor: operator.actor.clone(),
        }
    }

    /// For the log.
    pub const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// Whose notifications they make: the tenant's, or, as an empty name, the deployment's own.
    pub fn owner(&self) -> &str {
        self.tenant.as_ref().map_or("", TenantId::as_str)
    }

    /// Whose notifications they see: one owner's, or all.
    pub fn sees(&self) -> Option<&str> {
        self.tenant.as_ref().map(TenantId::as_str)
    }

    /// Whether an owner's notifications are theirs to see.
    pub fn reaches(&self, owner: &str) -> bool {
        self.sees().is_none_or(|own| own == owner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lead_leads_the_reviewers_of_their_tenant_and_of_no_other() {
        let ann = || ReviewerId::new("ann").unwrap();
        let acme = Scope {
            tenant: TenantId::new("acme").unwrap(),
            actor: Actor::system(),
        };
        let operator = Operator::system();
        for (who, own, others, everybodys) in [
            (Reviewing::lead(&acme, ann()), true, false, false),
            (Reviewing::of(&acme, ann()), false, false, false),
            (Reviewing::by_service(&operator, ann()), false, false, false),
            (Reviewing::by_operator(&operator, ann()), true, true, true),
        ] {
            let leads = (who.leads(Some("acme")), who.leads(Some("zeta")), who.leads(None));
            assert_eq!(leads, (own, others, everybodys), "{who:?}");
        }
    }
}
