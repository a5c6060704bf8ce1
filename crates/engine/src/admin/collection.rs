//! Collections.

use std::sync::Arc;

use docket_core::id::{CollectionKey, LaneKey, draw_key};
use docket_core::log::Action;
use docket_core::name::{CollectionId, PipelineName, TenantId};
use docket_core::notification::NotifyRule;
use docket_core::random::Random;
use docket_core::review::ReviewPolicy;
use docket_core::scope::Operator;
use docket_core::{Refusal, Timestamp};
use docket_store::table::collection::{self, Collection};
use docket_store::table::log::NewEntry;
use docket_store::table::review_unassigned;
use docket_store::table::{lane, log, pipeline, tenant};
use docket_store::{Result, Tx};
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::notification::follow::check_rule;
use crate::review::rekey::{begin, changes_order};
use crate::review::{Reviewed, settings_of};

/// What an operator says of a collection.
#[derive(Clone, Debug)]
pub struct CollectionSettings {
    /// The collection.
    pub id: CollectionId,
    /// Whose it is; that never changes.
    pub tenant: TenantId,
    /// How its items are processed; none for items that arrive finished.
    pub pipeline: Option<PipelineName>,
    /// Whether items that arrive finished are reviewed. Where there is a pipeline, that decides.
    pub review: bool,
    /// The rest of its policy, kept as it is.
    pub settings: Value,
}

struct CollectionPut {
    who: Operator,
    settings: CollectionSettings,
    random: Arc<dyn Random>,
    now: Timestamp,
}

impl Engine {
    /// Makes or changes a collection. Items submitted from then on follow what it says.
    pub async fn collection_put(&self, who: &Operator, settings: CollectionSettings) -> Result<()> {
        docket_core::content::check_json("settings", &settings.settings, docket_core::item::JSON_MAX)?;
        let policy = ReviewPolicy::of_settings(&settings.settings)?;
        policy.check().map_err(|refusal| refusal.under("review"))?;
        if let Some(rule) = NotifyRule::of_settings(&settings.settings)? {
            let outbox = &self.kernel.config.outbox;
            check_rule(outbox, &rule).map_err(|refusal| refusal.under("notify"))?;
        }
        let params = CollectionPut {
            who: who.clone(),
            settings,
            random: Arc::clone(&self.kernel.random),
            now: self.kernel.clock.now(),
        };
        self.kernel
            .store
            .run("collection_put", params, |tx, p| Box::pin(collection_put(tx, p)))
            .await
    }
}

async fn collection_put(tx: &mut Tx, p: &CollectionPut) -> Result<()> {
    let (id, tenant_id) = (p.settings.id.as_str(), p.settings.tenant.as_str());
    tenant::lock_set_up(tx).await?;
    let known = collection::get(tx, id).await?;
    if known.as_ref().is_some_and(|known| known.tenant_id != tenant_id) {
        let problem = format!("collection '{id}' belongs to another tenant");
        return Err(Refusal::Conflict { problem }.into());
    }
    let owner = tenant::get(tx, tenant_id)
        .await?
        .ok_or_else(|| Refusal::not_found("tenant", tenant_id))?;
    let (pipeline, lane) = match &p.settings.pipeline {
        None => (None, None),
        Some(name) => {
            let (key, version) = pipeline::lock(tx, name.as_str())
                .await?
                .ok_or_else(|| Refusal::not_found("pipeline", name.as_str()))?;
            let strict = pipeline::version(tx, key, version).await?.strict;
            let lane = match lane::of(tx, tenant_id, key).await? {
                Some(lane) => lane,
                None => {
                    let lane = LaneKey(draw_key(p.random.as_ref()));
                    lane::insert(tx, lane, tenant_id, key, owner.concurrent_jobs, strict).await?;
                    lane
                }
            };
            (Some(key), Some(lane))
        }
    };
    let row = Collection {
        key: known
            .as_ref()
            .map_or_else(|| CollectionKey(draw_key(p.random.as_ref())), |known| known.key),
        id: id.to_owned(),
        tenant_id: tenant_id.to_owned(),
        pipeline,
        lane,
        to_review: p.settings.review,
        settings: p.settings.settings.to_string(),
        uploads: owner.uploads,
        review_policy: known.as_ref().map_or(1, |known| known.review_policy),
        is_paused: known.as_ref().is_some_and(|known| known.is_paused),
    };
    let before = match &known {
        None => None,
        Some(known) => Some(shown(tx, known).await?),
    };
    let after = shown(tx, &row).await?;
    match known {
        None => collection::insert(tx, &row, p.now).await?,
        Some(known) => collection_change(tx, known, row, p.now).await?,
    }
    let mut entry = NewEntry::new(Action::CollectionPut, p.who.actor.as_str())
        .changing(before.as_ref(), &after)
        .with(&json!({ "collection": id }));
    entry.tenant_id = Some(tenant_id.to_owned());
    log::append(tx, &entry, p.now).await
}

/// A collection as the log tells of it.
async fn shown(tx: &mut Tx, row: &Collection) -> Result<Value> {
    let pipeline = match row.pipeline {
        None => None,
        Some(key) => Some(pipeline::name(tx, key).await?.0),
    };
    Ok(json!({ "pipeline": pipeline, "review": row.to_review, "settings": settings_of(row)? }))
}

/// Changes a collection; where that changes the order of its reviews, they are ordered anew in the background.
async fn collection_change(
    tx: &mut Tx,
    known: Collection,
    mut row: Collection,
    now: Timestamp,
) -> Result<()> {
    let (before, after) = (Reviewed::of(known)?, Reviewed::of(row.clone())?);
    let is_reordered = changes_order(&before.policy, &after.policy);
    row.review_policy += i64::from(is_reordered);
    collection::update(tx, &row, now).await?;
    if after.assigns() {
        // What waits may be given to others now.
        review_unassigned::mark(tx, row.key, &row.tenant_id, now).await?;
    }
    if is_reordered {
        begin(tx, &Reviewed::of(row)?, now).await?;
    }
    Ok(())
}
