//! Tiers and tenants.

use docket_core::log::Action;
use docket_core::scope::Operator;
use docket_core::tenant::{TenantSettings, Tier};
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::tenant::{self, Tenant};
use docket_store::table::{lane, log};
use docket_store::{Hint, Result, Tx};
use serde_json::json;

use crate::engine::Engine;

impl Engine {
    /// Makes or changes a tier; the lanes of its tenants follow at once.
    pub async fn tier_put(&self, who: &Operator, tier: Tier) -> Result<()> {
        tier.check()?;
        let params = (who.clone(), tier, self.kernel.clock.now());
        self.kernel
            .store
            .run("tier_put", params, |tx, p| {
                Box::pin(tier_put(tx, &p.0, &p.1, p.2))
            })
            .await?;
        // A limit that was raised may let lanes of any pipeline start something.
        self.kernel.store.hints().send(Hint::Anything);
        Ok(())
    }

    /// The tiers there are.
    pub async fn tiers(&self) -> Result<Vec<Tier>> {
        self.kernel
            .store
            .read("tiers", (), |tx, ()| Box::pin(tenant::tiers(tx)))
            .await
    }

    /// Writes the standard tiers into a database that has none.
    pub(crate) async fn tiers_seed(&self) -> Result<()> {
        let now = self.kernel.clock.now();
        self.kernel
            .store
            .run("tiers_seed", now, |tx, now| Box::pin(tiers_seed(tx, *now)))
            .await
    }

    /// Makes or changes a tenant; its lanes follow at once.
    pub async fn tenant_put(&self, who: &Operator, settings: TenantSettings) -> Result<()> {
        settings.check()?;
        let params = (who.clone(), settings, self.kernel.clock.now());
        let ready = self
            .kernel
            .store
            .run("tenant_put", params, |tx, p| {
                Box::pin(tenant_put(tx, &p.0, &p.1, p.2))
            })
            .await?;
        self.kernel.hint(ready);
        Ok(())
    }
}

async fn tiers_seed(tx: &mut Tx, now: Timestamp) -> Result<()> {
    if !tenant::tiers(tx).await?.is_empty() {
        return Ok(());
    }
    for tier in Tier::standard() {
        tier_put(tx, &Operator::system(), &tier, now).await?;
    }
    Ok(())
}

async fn tier_put(tx: &mut Tx, who: &Operator, tier: &Tier, now: Timestamp) -> Result<()> {
    tenant::lock_set_up(tx).await?;
    let before = tenant::tiers(tx)
        .await?
        .into_iter()
        .find(|known| known.name == tier.name);
    tenant::tier_put(tx, tier).await?;
    lane::set_limit_of_tier(tx, &tier.name, tier.concurrent_jobs).await?;
    let shown = |tier: &Tier| json!({ "uploads": tier.uploads, "concurrentJobs": tier.concurrent_jobs });
    let entry = NewEntry::new(Action::TierPut, who.actor.as_str())
        .changing(before.as_ref().map(shown).as_ref(), &shown(tier))
        .with(&json!({ "tier": tier.name }));
    log::append(tx, &entry, now).await
}

async fn tenant_put(
    tx: &mut Tx,
    who: &Operator,
    settings: &TenantSettings,
    now: Timestamp,
) -> Result<Vec<docket_core::id::PipelineKey>> {
    tenant::lock_set_up(tx).await?;
    if !tenant::tiers(tx)
        .await?
        .iter()
        .any(|tier| tier.name == settings.tier)
    {
        return Err(Refusal::invalid("tier", format!("there is no tier '{}'", settings.tier)).into());
    }
    let id = settings.id.as_str();
    let before = tenant::get(tx, id).await?;
    tenant::put(tx, settings, now).await?;
    let stored = tenant::get(tx, id)
        .await?
        .ok_or_else(|| Refusal::not_found("tenant", id))?;
    lane::set_limit(tx, id, stored.concurrent_jobs).await?;
    // What was said; what is left out is the tier's.
    let details = json!({
        "tier": settings.tier, "uploads": settings.uploads, "concurrentJobs": settings.concurrent_jobs,
    });
    let shown = |tenant: &Tenant| json!({ "tier": tenant.tier, "uploads": tenant.uploads, "concurrentJobs": tenant.concurrent_jobs });
    let mut entry = NewEntry::new(Action::TenantPut, who.actor.as_str())
        .changing(before.as_ref().map(shown).as_ref(), &shown(&stored))
        .with(&details);
    entry.tenant_id = Some(id.to_owned());
    log::append(tx, &entry, now).await?;
    lane::ready_of_tenant(tx, id).await
}
