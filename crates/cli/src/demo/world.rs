//! The small world of the demonstration: its tenants, their collections and the pipeline between them.

use std::time::Duration;

use anyhow::Result;
use docket_core::backoff::Backoff;
use docket_core::name::{CollectionId, PipelineName, StepName, TenantId};
use docket_core::pipeline::{OnStale, Pipeline};
use docket_core::random::{Random as _, SystemRandom};
use docket_core::scope::{Actor, Operator, Scope};
use docket_core::tenant::TenantSettings;
use docket_engine::{CollectionSettings, Engine};
use serde_json::json;

/// The item whose first worker dies.
pub(super) const DIES: &str = "INV-1003";
/// The item that fails in its second step at first.
pub(super) const FAILS: &str = "INV-1002";
pub(super) const LEASE_MS: i64 = 1_000;
/// How long the steps take while there is little to do.
const STEP: Duration = Duration::from_millis(260);
/// From this many items on the steps are shorter, so that the whole stays short.
const LEISURE: u32 = 24;

/// A tenant with its collection.
#[derive(Clone, Debug)]
pub(super) struct Tenant {
    pub(super) id: TenantId,
    pub(super) tier: &'static str,
    pub(super) collection: CollectionId,
}

impl Tenant {
    pub(super) fn scope(&self) -> Result<Scope> {
        Ok(Scope {
            tenant: self.id.clone(),
            actor: Actor::new(format!("producer:{}", self.id))?,
        })
    }
}

/// The world.
#[derive(Debug)]
pub(super) struct World {
    pub(super) engine: Engine,
    pub(super) items: u32,
    tag: String,
}

impl World {
    pub(super) fn new(engine: Engine, tagged: bool, items: u32) -> Self {
        let tag = match tagged {
            true => format!("-{:04x}", SystemRandom.below(0x1_0000)),
            false => String::new(),
        };
        Self { engine, items, tag }
    }

    fn tenant(&self, id: &str, tier: &'static str, collection: &str) -> Result<Tenant> {
        Ok(Tenant {
            id: TenantId::new(format!("{id}{}", self.tag))?,
            tier,
            collection: CollectionId::new(format!("{collection}{}", self.tag))?,
        })
    }

    /// The largest tenant: a batch of JSON items.
    pub(super) fn large(&self) -> Result<Tenant> {
        self.tenant("acme", "pro", "invoices")
    }

    /// Files, one of them twice.
    pub(super) fn medium(&self) -> Result<Tenant> {
        self.tenant("studio", "starter", "contracts")
    }

    /// More than its tier allows, and one job at a time.
    pub(super) fn small(&self) -> Result<Tenant> {
        self.tenant("corner-shop", "free", "receipts")
    }

    pub(super) fn tenants(&self) -> Result<[Tenant; 3]> {
        Ok([self.large()?, self.medium()?, self.small()?])
    }

    pub(super) fn pipeline(&self) -> Result<PipelineName> {
        Ok(PipelineName::new(format!("documents{}", self.tag))?)
    }

    /// How long one step of the simulated work takes.
    pub(super) fn step_takes(&self) -> Duration {
        STEP * LEISURE / self.items.max(LEISURE)
    }

    /// Makes pipeline, tenants and collections.
    pub(super) async fn build(&self) -> Result<()> {
        let who = Operator {
            actor: Actor::new("admin:demo")?,
        };
        self.engine
            .pipeline_put(&who, self.pipeline()?, definition()?)
            .await?;
        for tenant in self.tenants()? {
            let settings = TenantSettings {
                id: tenant.id.clone(),
                tier: tenant.tier.to_owned(),
                uploads: None,
                concurrent_jobs: None,
            };
            self.engine.tenant_put(&who, settings).await?;
            let settings = CollectionSettings {
                id: tenant.collection,
                tenant: tenant.id,
                pipeline: Some(self.pipeline()?),
                review: false,
                settings: json!({}),
            };
            self.engine.collection_put(&who, settings).await?;
        }
        Ok(())
    }
}

pub(super) fn definition() -> Result<Pipeline> {
    Ok(Pipeline {
        steps: vec![StepName::new("ocr")?, StepName::new("extract")?],
        lease_ms: LEASE_MS,
        on_stale: OnStale::Requeue,
        max_attempts: 3,
        backoff: Backoff {
            base_ms: 400,
            max_ms: 2_000,
        },
        strict: false,
        review: false,
    })
}
