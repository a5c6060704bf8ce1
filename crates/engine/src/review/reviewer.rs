//! Reviewers: who they are, whether they are there, how much they may hold.

use docket_core::Timestamp;
use docket_core::log::Action;
use docket_core::name::{ReviewerId, TEXT_MAX, TenantId, check_text};
use docket_core::scope::{Actor, Operator, Reviewing};
use docket_core::{Refusal, Refused};
use docket_store::table::log::NewEntry;
use docket_store::table::review_unassigned;
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
        check_capacity(self.capacity)
    }
}

fn check_capacity(capacity: Option<u64>) -> Refused<()> {
    match capacity {
        Some(capacity) if capacity == 0 || capacity > CAPACITY_MAX => Err(Refusal::invalid(
            "capacity",
            format!("must be from 1 to {CAPACITY_MAX}; one who should get nothing is not available"),
        )),
        _ => Ok(()),
    }
}

/// What others than an operator may say of a reviewer.
#[derive(Clone, Copy, Debug)]
enum Change {
    Available(bool),
    Capacity(Option<u64>),
}

impl Change {
    /// Whether somebody may say it of this reviewer: who leads them may, and of oneself one may say whether one is there. A reviewer of
    /// another tenant does not exist for them.
    fn check(self, who: &Reviewing, reviewer: &Reviewer) -> Refused<()> {
        let tenant_id = reviewer.tenant_id.as_deref();
        let is_own = reviewer.id == who.reviewer().as_str();
        if !tenant_id.is_none_or(|tenant_id| who.reaches(tenant_id)) {
            return Err(Refusal::not_found("reviewer", &reviewer.id));
        }
        if who.leads(tenant_id) || (is_own && matches!(self, Self::Available(_))) {
            return Ok(());
        }
        let problem = match who.is_lead() {
            true => format!(
                "'{}' reviews for every tenant, so only an admin can change that; one whom an admin has put down for your tenant \
                 is yours to lead",
                reviewer.id
            ),
            false => "reviewers say of themselves whether they are there; the rest is said by who leads them"
                .to_owned(),
        };
        Err(Refusal::Conflict { problem })
    }

    fn apply(self, reviewer: &mut Reviewer) {
        match self {
            Self::Available(available) => reviewer.available = available,
            Self::Capacity(capacity) => reviewer.capacity = capacity,
        }
    }
}

impl Engine {
    /// Makes or changes a reviewer.
    pub async fn reviewer_put(&self, who: &Operator, settings: ReviewerSettings) -> Result<Reviewer> {
        settings.check()?;
        let params = (who.clone(), settings, self.kernel.clock.now());
        let put = self
            .kernel
            .store
            .run("reviewer_put", params, |tx, p| {
                Box::pin(reviewer_put(tx, &p.0, &p.1, p.2))
            })
            .await?;
        self.is_there(&put).await;
        Ok(put)
    }

    /// Says whether a reviewer is there: a lead of the reviewers of their tenant, a reviewer of themselves.
    pub async fn reviewer_availability(
        &self,
        who: &Reviewing,
        id: &ReviewerId,
        available: bool,
    ) -> Result<Reviewer> {
        self.reviewer_change(who, id, Change::Available(available)).await
    }

    /// Says how many reviews a reviewer may hold, none for any number: a lead of the reviewers of their tenant.
    pub async fn reviewer_capacity(
        &self,
        who: &Reviewing,
        id: &ReviewerId,
        capacity: Option<u64>,
    ) -> Result<Reviewer> {
        check_capacity(capacity)?;
        self.reviewer_change(who, id, Change::Capacity(capacity)).await
    }

    async fn reviewer_change(&self, who: &Reviewing, id: &ReviewerId, change: Change) -> Result<Reviewer> {
        let params = (who.clone(), id.clone(), change, self.kernel.clock.now());
        let put = self
            .kernel
            .store
            .run("reviewer_change", params, |tx, p| {
                Box::pin(reviewer_change(tx, &p.0, &p.1, p.2, p.3))
            })
            .await?;
        self.is_there(&put).await;
        Ok(put)
    }

    /// Reviews that wait may have found somebody: they are looked at now and not when they are due. After the commit, as a hint: without it
    /// they are looked at somewhat later.
    async fn is_there(&self, reviewer: &Reviewer) {
        if !reviewer.available {
            return;
        }
        let params = (reviewer.tenant_id.clone(), self.kernel.clock.now());
        let woken = self.kernel.store.run("unassigned_wake", params, |tx, p| {
            Box::pin(review_unassigned::wake(tx, p.0.as_deref(), p.1))
        });
        if let Err(error) = woken.await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "waiting reviews are looked at when they are due");
        }
        self.kernel.somebody_is_there.notify_one();
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
    let before = reviewer::lock(tx, settings.id.as_str()).await?;
    let row = Reviewer {
        id: settings.id.to_string(),
        name: settings.name.clone(),
        tenant_id: settings.tenant.as_ref().map(ToString::to_string),
        available: settings.available,
        capacity: settings.capacity,
        turn: before.as_ref().map_or(0, |before| before.turn),
    };
    put(tx, &who.actor, before.as_ref(), row, now).await
}

async fn reviewer_change(
    tx: &mut Tx,
    who: &Reviewing,
    id: &ReviewerId,
    change: Change,
    now: Timestamp,
) -> Result<Reviewer> {
    let before = reviewer::lock(tx, id.as_str()).await?;
    let before = before.ok_or_else(|| Refusal::not_found("reviewer", id))?;
    change.check(who, &before)?;
    let mut row = before.clone();
    change.apply(&mut row);
    if row == before {
        return Ok(before);
    }
    put(tx, who.actor(), Some(&before), row, now).await
}

/// Writes a reviewer, who is locked where they were known, and what they were before to the log.
async fn put(
    tx: &mut Tx,
    actor: &Actor,
    before: Option<&Reviewer>,
    row: Reviewer,
    now: Timestamp,
) -> Result<Reviewer> {
    reviewer::put(tx, &row, now).await?;
    let shown = |reviewer: &Reviewer| {
        json!({
            "name": reviewer.name, "tenantId": reviewer.tenant_id, "available": reviewer.available,
            "capacity": reviewer.capacity,
        })
    };
    let mut entry = NewEntry::new(Action::ReviewerPut, actor.as_str())
        .changing(before.map(shown).as_ref(), &shown(&row))
        .with(&json!({ "reviewer": row.id }));
    entry.tenant_id.clone_from(&row.tenant_id);
    log::append(tx, &entry, now).await?;
    Ok(row)
}
