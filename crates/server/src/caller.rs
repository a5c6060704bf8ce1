//! Who may call, by type: a handler that takes [`As`] can be called by those roles only, and a [`Scope`] or an [`Operator`] comes
//! from nothing else. A test calls every route of the OpenAPI document without credentials and with each role.

use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header;
use axum::http::request::Parts;
use docket_core::Refusal;
use docket_core::access::{Caller, Role};
use docket_core::id::ItemId;
use docket_core::name::{CollectionId, ReviewerId, TenantId};
use docket_core::scope::{Operator, Reviewing, Scope, Watching};

use crate::error::{ApiError, ApiResult};
use crate::extract::one_header;
use crate::state::AppState;

/// Those who may do something.
pub trait Roles: Send + Sync + 'static {
    /// Who they are.
    const ROLES: &'static [Role];
}

macro_rules! roles {
    ($($(#[$doc:meta])* $name:ident: $($role:ident)+;)+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            pub struct $name;

            impl Roles for $name {
                const ROLES: &'static [Role] = &[$(Role::$role),+];
            }
        )+
    };
}

roles! {
    /// Run the deployment.
    Administering: Admin;
    /// Submit a tenant's items, try them again and take them back.
    Producing: Producer Service Admin;
    /// Look at a tenant's items.
    Seeing: Producer Reviewer Lead Service Admin;
    /// Read a tenant's files: also those who process them.
    Fetching: Producer Reviewer Lead Worker Service Admin;
    /// Process jobs.
    Working: Worker Service;
    /// Have people told, and look after what became of it.
    Notifiers: Lead Service Admin;
    /// Look after jobs and reviews whose holders fell silent.
    Reaping: Service Admin;
    /// Decide on a tenant's reviews.
    Deciding: Reviewer Lead;
    /// See to it who has which review, and learn from what was decided.
    Leading: Lead Admin;
    /// Say whether reviewers are there, where reviewers say it of themselves.
    Staffing: Reviewer Lead Admin;
    /// Learn from decisions, where reviewers see their own.
    Learning: Reviewer Lead Admin;
    /// Look at the review queue.
    Overseeing: Reviewer Lead Service Admin;
    /// Speak for reviewers whom they have authenticated.
    Speaking: Service;
}

/// Somebody with one of these roles.
#[derive(Debug)]
pub struct As<R: Roles> {
    caller: Caller,
    roles: PhantomData<R>,
}

/// Who runs the deployment.
pub type Admin = As<Administering>;

impl<R: Roles> FromRequestParts<AppState> for As<R> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> ApiResult<Self> {
        let from = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let from = from.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |info| info.0.ip());
        let from = state.config().proxies.client(from, &parts.headers);
        let credential = one_header(&parts.headers, &header::AUTHORIZATION)?.and_then(docket_access::bearer);
        let caller = state.access().authenticate(credential, from).await?;
        let (has, needs) = (caller.role(), R::ROLES);
        if !needs.contains(&has) {
            return Err(ApiError::Role { has, needs });
        }
        let roles = PhantomData;
        Ok(Self { caller, roles })
    }
}

impl<R: Roles> As<R> {
    /// The caller.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The item's tenant: the caller's own, for those who act for one (whether the item is theirs is seen by the engine), or the
    /// one whose item it is.
    pub async fn scope_of_item(&self, state: &AppState, item: ItemId) -> ApiResult<Scope> {
        match self.reach() {
            Reach::Tenant(scope) => Ok(scope),
            Reach::Deployment(operator) => {
                let tenant = state.engine().item_owner(&operator, item).await?;
                Ok(scope(tenant, operator))
            }
        }
    }

    /// The collection's tenant, likewise.
    pub async fn scope_of_collection(&self, state: &AppState, id: &CollectionId) -> ApiResult<Scope> {
        match self.reach() {
            Reach::Tenant(scope) => Ok(scope),
            Reach::Deployment(operator) => {
                let tenant = state.engine().collection_owner(&operator, id).await?;
                Ok(scope(tenant, operator))
            }
        }
    }

    /// The tenant that is named: those who act for one need not name it and cannot name another's; the others have to.
    pub fn scope_of_tenant(&self, named: Option<String>) -> ApiResult<Scope> {
        let named = named.map(TenantId::new).transpose()?;
        match (self.reach(), named) {
            (Reach::Tenant(own), Some(other)) if own.tenant != other => {
                Err(Refusal::not_found("tenant", &other).into())
            }
            (Reach::Tenant(own), _) => Ok(own),
            (Reach::Deployment(operator), Some(tenant)) => Ok(scope(tenant, operator)),
            (Reach::Deployment(_), None) => {
                let problem = "is needed: you act for the whole deployment, so say for whom you ask";
                Err(ApiError::malformed("tenantId", problem))
            }
        }
    }

    /// The caller as somebody who looks at queues.
    pub fn watching(&self) -> Watching {
        match self.reach() {
            Reach::Tenant(scope) => Watching::of(&scope),
            Reach::Deployment(operator) => Watching::all(&operator),
        }
    }

    /// What the caller's data is.
    pub fn reach(&self) -> Reach {
        let actor = self.caller.actor();
        match self.caller.tenant().cloned() {
            Some(tenant) => Reach::Tenant(Scope { tenant, actor }),
            None => Reach::Deployment(Operator { actor }),
        }
    }
}

/// Whose data a caller reaches.
#[derive(Clone, Debug)]
pub enum Reach {
    /// One tenant's.
    Tenant(Scope),
    /// All.
    Deployment(Operator),
}

impl<R: Roles> As<R> {
    /// The caller as somebody who reviews; their subject is who they are.
    pub fn reviewing(&self) -> ApiResult<Reviewing> {
        let reviewer = ReviewerId::new(self.caller.subject())?;
        Ok(match (self.reach(), self.caller.role()) {
            (Reach::Tenant(scope), Role::Lead) => Reviewing::lead(&scope, reviewer),
            (Reach::Tenant(scope), _) => Reviewing::of(&scope, reviewer),
            (Reach::Deployment(operator), _) => Reviewing::by_operator(&operator, reviewer),
        })
    }
}

impl As<Overseeing> {
    /// The caller as a reviewer, where they are one of a tenant's people.
    pub fn reviewer(&self) -> Option<ReviewerId> {
        self.caller.tenant()?;
        ReviewerId::new(self.caller.subject()).ok()
    }
}

impl As<Speaking> {
    /// The reviewer for whom the caller speaks.
    pub fn speaking_for(&self, reviewer_id: String) -> ApiResult<Reviewing> {
        Ok(Reviewing::by_service(
            &self.service(),
            ReviewerId::new(reviewer_id)?,
        ))
    }

    /// The service itself; it never acts for a tenant.
    pub fn service(&self) -> Operator {
        Operator {
            actor: self.caller.actor(),
        }
    }
}

impl As<Administering> {
    /// The operator; an admin never acts for a tenant.
    pub fn operator(&self) -> Operator {
        Operator {
            actor: self.caller.actor(),
        }
    }
}

fn scope(tenant: TenantId, operator: Operator) -> Scope {
    Scope {
        tenant,
        actor: operator.actor,
    }
}
