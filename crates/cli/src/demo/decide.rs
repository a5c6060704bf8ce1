//! A collection that people review and that tells of each decision. Some are decided already, so that there are deliveries to look at, and
//! one is left for whoever tries it.

use anyhow::{Context as _, Result};
use docket_core::field::MachineField;
use docket_core::item::ItemDetails;
use docket_core::name::{CollectionId, ReviewerId};
use docket_core::review::{FieldCorrection, Outcome};
use docket_core::scope::{Actor, Operator, Reviewing, Scope};
use docket_engine::{CollectionSettings, Decision, Pop, ReviewEntry, Submit, SubmitItem};
use serde_json::json;

use super::world::{Tenant, World};

/// Who is told of the decisions.
pub(super) const TOLD: &str = "file:bookkeeping";
const VENDORS: [&str; 4] = ["Acme Corp", "Acne Corp", "Nobody & Sons", "Paper Mill"];
const MISREAD: &str = VENDORS[1];
const UNKNOWN: &str = VENDORS[2];
const DECIDED: u32 = 3;

/// Makes the collection and its items, and decides most of them. Nothing is decided twice.
pub(super) async fn payments(world: &World, who: &Operator) -> Result<CollectionId> {
    let tenant = Tenant {
        collection: CollectionId::new("payments")?,
        ..world.large()?
    };
    let settings = CollectionSettings {
        id: tenant.collection.clone(),
        tenant: tenant.id.clone(),
        pipeline: None,
        review: true,
        settings: json!({
            "review": { "undoSeconds": 0 },
            "notify": { "recipients": [TOLD], "on": ["approved", "corrected", "rejected"] },
        }),
    };
    world.engine.collection_put(who, settings).await?;
    let call = Submit {
        collection: tenant.collection.clone(),
        items: (1..).zip(VENDORS).map(payment).collect(),
        idempotency_key: None,
    };
    let answer = world.engine.submit(&tenant.scope()?, call).await?;
    let taken = answer.results.into_iter().collect::<Result<Vec<_>, _>>()?;
    if taken.iter().all(|item| !item.duplicate) {
        decide(world, &tenant).await?;
    }
    Ok(tenant.collection)
}

fn payment((number, vendor): (u32, &str)) -> SubmitItem {
    let field = MachineField {
        name: "vendor".to_owned(),
        value: json!(vendor),
        confidence: Some(71.0),
        region: None,
    };
    SubmitItem {
        payload: json!({ "vendor": vendor, "number": number }),
        details: ItemDetails {
            external_id: Some(format!("PAY-{number}")),
            fields: Some(vec![field]),
            ..ItemDetails::default()
        },
    }
}

async fn decide(world: &World, tenant: &Tenant) -> Result<()> {
    let scope = Scope {
        tenant: tenant.id.clone(),
        actor: Actor::new("reviewer:ann")?,
    };
    let ann = Reviewing::of(&scope, ReviewerId::new("ann")?);
    let pop = Pop {
        collection: tenant.collection.clone(),
        limit: DECIDED,
        strategy: None,
        lock_timeout_ms: None,
        wait_ms: 0,
    };
    let popped = world.engine.review_pop(&ann, pop, std::future::pending()).await?;
    let decisions = popped.entries.iter().map(|entry| Ok(decision(entry))).collect();
    for decided in world.engine.review_commit(&ann, decisions).await? {
        decided.context("a payment cannot be decided")?;
    }
    Ok(())
}

/// What Ann makes of it: one vendor was misread, one is not known.
fn decision(entry: &ReviewEntry) -> Decision {
    let vendor = entry.fields.iter().find_map(|field| field.value.as_str());
    let (outcome, reason, right) = match vendor {
        Some(MISREAD) => (Outcome::Corrected, None, Some("Acme Corp")),
        Some(UNKNOWN) => (Outcome::Rejected, Some("nobody knows this vendor"), None),
        _ => (Outcome::Approved, None, None),
    };
    let correction = |value: &str| FieldCorrection {
        field: "vendor".to_owned(),
        value: json!(value),
    };
    Decision {
        id: entry.review.id,
        generation_id: None,
        token: None,
        outcome,
        reason: reason.map(str::to_owned),
        corrections: right.map(correction).into_iter().collect(),
    }
}
