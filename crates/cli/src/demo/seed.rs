//! The small world that `docket serve --demo` starts with: the demonstration's tenants, collections, pipeline and items, reviews of which
//! some are decided and told, and a key for each role. Seeding again adds nothing but new keys, and the keys of the time before are revoked.

use anyhow::Result;
use docket_core::access::Role;
use docket_core::scope::{Actor, Operator};
use docket_engine::{Engine, NewKey};

use super::decide::{TOLD, payments};
use super::submit::{names, submit};
use super::world::{Tenant, World, definition};

/// How long a person may take to do by hand what a worker does.
const LEASE_MS: i64 = 60_000;
const ITEMS: u32 = 8;

/// Seeds the world; what people have to know of it, line by line.
pub(crate) async fn world(engine: &Engine) -> Result<Vec<String>> {
    let world = World::new(engine.clone(), false, ITEMS);
    let who = Operator {
        actor: Actor::new("admin:demo")?,
    };
    world.build().await?;
    let mut pipeline = definition()?;
    pipeline.lease_ms = LEASE_MS;
    engine.pipeline_put(&who, world.pipeline()?, pipeline).await?;
    for (tenant, prefix, count) in [
        (world.large()?, "INV", ITEMS),
        (world.medium()?, "contract", 4),
        (world.small()?, "receipt", 6),
    ] {
        submit(&world, &tenant, &names(prefix, 1001, count), None).await?;
    }
    let reviewed = payments(&world, &who).await?;
    revoke_earlier(engine, &who).await?;
    let mut told = vec![format!("Demo: pipeline '{}', and these keys:", world.pipeline()?)];
    for role in [Role::Worker, Role::Service] {
        let key = key(engine, &who, role, None).await?;
        told.push(format!("  {role:9} {key}"));
    }
    for tenant in world.tenants()? {
        for role in [Role::Producer, Role::Reviewer, Role::Lead] {
            let key = key(engine, &who, role, Some(&tenant)).await?;
            told.push(format!(
                "  {role:9} {key}  of {}, collection {}",
                tenant.id, tenant.collection
            ));
        }
    }
    told.push(format!(
        "Demo: collection '{reviewed}' of {} has a review left, and tells {TOLD} of each decision: docket deliveries list",
        world.large()?.id
    ));
    Ok(told)
}

async fn key(engine: &Engine, who: &Operator, role: Role, tenant: Option<&Tenant>) -> Result<String> {
    let new = NewKey {
        role,
        tenant: tenant.map(|tenant| tenant.id.clone()),
        subject: "demo".to_owned(),
    };
    Ok(engine.key_create(who, new).await?.key.reveal().to_owned())
}

async fn revoke_earlier(engine: &Engine, who: &Operator) -> Result<()> {
    let mut next = None;
    loop {
        let page = engine.keys(who, next, 200).await?;
        for key in page.keys {
            if key.created_by == who.actor.as_str() && key.revoked_at.is_none() {
                engine.key_revoke(who, key.id).await?;
            }
        }
        next = page.next;
        if next.is_none() {
            return Ok(());
        }
    }
}
