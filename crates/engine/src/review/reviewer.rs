//! Reviewers: who they are, whether they are there, how much they may hold.

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_core::name::{ReviewerId, TEXT_MAX, TenantId, check_text};
use docket_core::scope::Operator;
use docket_core::{Refusal, Refused};
use docket_store::table::log::NewEntry;
use docket_store::table::reviewer::{self, Reviewer};
use docket_store::table::{log, tenant};
use docket_store::{Result, Tx};
use serde_json::json;

use crate::engine::Engine;

/// The most that anybody may be allowed to hold.
const CAPACITY_MAX: u64 = 10_000;

/// What an operator says of a reviewer.
#[derive(Clone, Debug)]
pub struct ReviewerSettings {
    /// Who.
    pub id: ReviewerId,
    /// For people.
    pub name: String,
    /// For whom they review; none for any tenant.
    pub tenant: Option<TenantId>,
    /// Whether reviews may be assigned to them.
    pub available: bool,
    /// How many they may hold; none for any number.
    pub capacity: Option<u64>,
}

impl ReviewerSettings {
    fn check(&self) -> Refused<()> {
        check_text("name", &self.name, TEXT_MAX)?;
        match self.capacity {
            Some(capacity) if capacity == 0 || capacity > CAPACITY_MAX => Err(Refusal::invalid(
                "capacity",
                format!("must be from 1 to {CAPACITY_MAX}; one who should get nothing is not available"),
            )),
            _ => Ok(()),
        }
    }
}

impl Engine {
    /// Makes or changes a reviewer.
    pub async fn reviewer_put(&self, who: &Operator, settings: ReviewerSettings) -> Result<Reviewer> {
        settings.check()?;
        let params = (who.clone(), settings, self.kernel.clock.now());
        self.kernel
            .store
            .run("reviewer_put", params, |tx, p| {
                Box::pin(reviewer_put(tx, &p.0, &p.1, p.2))
            })
            .await
    }

    /// A reviewer.
    pub async fn reviewer(&self, _: &Operator, id: &ReviewerId) -> Result<Reviewer> {
        let found = self
            .kernel
            .store
            .read("reviewer", id.clone(), |tx, id| {
                Box::pin(reviewer::get(tx, id.as_str()))
            })
            .await?;
        found.ok_or_else(|| Refusal::not_found("reviewer", id).into())
    }

    /// Reviewers after this one, by id.
    pub async fn reviewers(&self, _: &Operator, after: &str, limit: u64) -> Result<Vec<Reviewer>> {
        let params = (after.to_owned(), limit.clamp(1, 201));
        self.kernel
            .store
            .read("reviewers", params, |tx, p| {
                Box::pin(reviewer::list(tx, &p.0, p.1))
            })
            .await
    }
}

async fn reviewer_put(
    tx: &mut Tx,
    who: &Operator,
    settings: &ReviewerSettings,
    now: Timestamp,
) -> Result<Reviewer> {
    if let Some(tenant) = &settings.tenant
        && tenant::get(tx, tenant.as_str()).await?.is_none()
    {
        return Err(Refusal::not_found("tenant", tenant).into());
    }
    let before = reviewer::get(tx, settings.id.as_str()).await?;
    let row = Reviewer {
        id: settings.id.to_string(),
        name: settings.name.clone(),
        tenant_id: settings.tenant.as_ref().map(ToString::to_string),
        available: settings.available,
        capacity: settings.capacity,
        turn: before.as_ref().map_or(0, |before| before.turn),
    };
    reviewer::put(tx, &row, now).await?;
    let shown = |reviewer: &Reviewer| {
        json!({
            "name": reviewer.name, "tenantId": reviewer.tenant_id, "available": reviewer.available,
            "capacity": reviewer.capacity,
        })
    };
    let mut entry =
        NewEntry::new(Action::ReviewerPut, who.actor.as_str()).with(&json!({ "reviewer": row.id }));
    entry.old = before.as_ref().map(|before| shown(before).to_string());
    entry.new = Some(shown(&row).to_string());
    entry.tenant_id.clone_from(&row.tenant_id);
    log::append(tx, &entry, now).await?;
    Ok(row)
}
