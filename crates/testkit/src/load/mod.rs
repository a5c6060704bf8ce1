//! A load that notes what it was told, and plain SQL to hold those notes against.
//!
//! Every fact is noted after the engine's answer, so each of them must survive whatever happens next (rule A3). The checks
//! read the tables by themselves: nothing that is to be checked takes part in checking it.

mod fact;
mod run;
mod verify;

use std::time::Duration;

use anyhow::anyhow;
use docket_core::backoff::Backoff;
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_core::tenant::{TenantSettings, UploadLimit};
use docket_engine::{Claim, CollectionSettings, Complete, Engine};
use serde_json::json;

pub use self::fact::{Fact, Facts, Sink};
pub use self::run::{Load, LoadConfig, Met};
pub use self::verify::{verify, verify_files};
use crate::{Plain, World, names};

/// The pipeline of the load.
pub const PIPELINE: &str = "load";
/// Its tenants, each with a collection of the same name, and how many jobs each may run at once.
pub const TENANTS: [(&str, u32); 4] = [("one", 1), ("two", 2), ("five", 5), ("twenty", 20)];
/// The tenant and collection of the files.
pub const FILES: &str = "files";

/// Makes the pipeline, the tenants and the collections of the load.
pub async fn prepare(engine: &Engine) -> anyhow::Result<()> {
    let who = World::operator();
    let steps = ["read", "write"].map(|name| StepName::new(name).map_err(|e| anyhow!("{e}")));
    let definition = Pipeline {
        steps: steps.into_iter().collect::<anyhow::Result<_>>()?,
        lease_ms: 500,
        max_attempts: 100,
        backoff: Backoff {
            base_ms: 5,
            max_ms: 40,
        },
        ..Pipeline::default()
    };
    engine
        .pipeline_put(&who, names::pipeline(PIPELINE), definition)
        .await?;
    for (tenant, concurrent_jobs) in TENANTS.into_iter().chain([(FILES, 4)]) {
        limit(engine, tenant, concurrent_jobs).await?;
        let collection = CollectionSettings {
            id: names::collection(tenant),
            tenant: names::tenant(tenant),
            pipeline: Some(names::pipeline(PIPELINE)),
            review: false,
            settings: json!({}),
        };
        engine.collection_put(&who, collection).await?;
    }
    Ok(())
}

async fn limit(engine: &Engine, tenant: &str, concurrent_jobs: u32) -> anyhow::Result<()> {
    let settings = TenantSettings {
        id: names::tenant(tenant),
        tier: "free".to_owned(),
        uploads: Some(UploadLimit::Unlimited),
        concurrent_jobs: Some(concurrent_jobs),
    };
    engine.tenant_put(&World::operator(), settings).await?;
    Ok(())
}

/// Works off all that is left, within a minute.
pub async fn drain(engine: &Engine, plain: &Plain) {
    for (tenant, _) in TENANTS.into_iter().chain([(FILES, 0)]) {
        limit(engine, tenant, 1_000).await.expect("the limit is taken");
    }
    let work = async {
        while plain.number("select count(*) from job where state = 0").await > 0 {
            engine.reap(None).await.expect("the reaper runs");
            let claim = Claim {
                pipeline: names::pipeline(PIPELINE),
                worker: names::worker("drain"),
                limit: 500,
                lease_ms: Some(60_000),
                wait_ms: 50,
            };
            let jobs = engine.claim(claim).await.expect("the claim is taken");
            if jobs.is_empty() {
                continue;
            }
            let done = jobs.iter().map(|job| Complete::new(job.id, job.token)).collect();
            for result in engine.complete(done).await.expect("the call is taken") {
                assert!(!result.expect("the lease is held").repeated);
            }
        }
    };
    let over = tokio::time::timeout(Duration::from_secs(60), work).await;
    over.expect("what is left can be worked off in a minute");
}
