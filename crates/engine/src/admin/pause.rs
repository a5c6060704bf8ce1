//! Pauses (rule P13): nothing of what they cover is started; what runs goes on.

use docket_core::id::{PauseId, PipelineKey};
use docket_core::log::Action;
use docket_core::name::{CollectionId, PipelineName, TEXT_MAX, TenantId, check_text};
use docket_core::notify::ChannelKind;
use docket_core::scope::Operator;
use docket_core::{Refusal, Timestamp};
use docket_store::table::log::NewEntry;
use docket_store::table::pause::{self, Pause, PauseScope};
use docket_store::table::{collection, lane, log, pipeline};
use docket_store::{Hint, Result, Tx};
use serde_json::json;

use crate::engine::Engine;

/// What to pause.
#[derive(Clone, Debug)]
pub enum PauseTarget {
    /// Everything.
    All,
    /// All lanes of a pipeline.
    Pipeline(PipelineName),
    /// One tenant's lane within a pipeline.
    Lane(TenantId, PipelineName),
    /// The reviews of a collection.
    Collection(CollectionId),
    /// The sends of a channel.
    Channel(ChannelKind),
}

#[derive(Clone)]
pub(super) struct PauseSet {
    pub(super) who: Operator,
    pub(super) target: PauseTarget,
    pub(super) reason: String,
    pub(super) id: PauseId,
    pub(super) now: Timestamp,
}

impl Engine {
    /// Pauses; several pauses of the same thing hold until each is lifted.
    pub async fn pause(&self, who: &Operator, target: PauseTarget, reason: &str) -> Result<PauseId> {
        check_text("reason", reason, TEXT_MAX)?;
        let now = self.kernel.clock.now();
        let id = PauseId::new(now, self.kernel.random.as_ref());
        let params = PauseSet {
            who: who.clone(),
            target,
            reason: reason.to_owned(),
            id,
            now,
        };
        self.kernel
            .store
            .run("pause_set", params, |tx, p| Box::pin(pause_set(tx, p)))
            .await?;
        Ok(id)
    }

    /// Lifts a pause.
    pub async fn resume(&self, who: &Operator, id: PauseId) -> Result<()> {
        let params = (who.clone(), id, self.kernel.clock.now());
        let lifted = self
            .kernel
            .store
            .run("pause_lift", params, |tx, p| {
                Box::pin(pause_lift(tx, &p.0, p.1, p.2))
            })
            .await?;
        match lifted {
            Some(pipeline) => self.kernel.hint([pipeline]),
            None => self.kernel.store.hints().send(Hint::Anything),
        }
        Ok(())
    }

    /// The pauses there are.
    pub async fn pauses(&self) -> Result<Vec<Pause>> {
        self.kernel
            .store
            .read("pauses", (), |tx, ()| Box::pin(pause::list(tx)))
            .await
    }
}

pub(super) async fn pause_set(tx: &mut Tx, p: &PauseSet) -> Result<()> {
    let key_of = async |tx: &mut Tx, name: &PipelineName| {
        pipeline::key(tx, name.as_str())
            .await?
            .ok_or_else(|| Refusal::not_found("pipeline", name).into())
    };
    let scope = match &p.target {
        PauseTarget::All => PauseScope::All,
        PauseTarget::Pipeline(name) => PauseScope::Pipeline(key_of(tx, name).await?),
        PauseTarget::Lane(tenant, name) => {
            let key: Result<PipelineKey> = key_of(tx, name).await;
            let lane = lane::of(tx, tenant.as_str(), key?).await?;
            let lane = lane.ok_or_else(|| Refusal::not_found("lane", &format!("{tenant} in {name}")))?;
            lane::set_paused(tx, lane, true).await?;
            PauseScope::Lane(lane)
        }
        PauseTarget::Collection(id) => {
            let found = collection::get(tx, id.as_str()).await?;
            let found = found.ok_or_else(|| Refusal::not_found("collection", id))?;
            PauseScope::Collection(found.key)
        }
        PauseTarget::Channel(kind) => PauseScope::Channel(*kind),
    };
    let actor = p.who.actor.as_str();
    let row = Pause {
        id: p.id,
        scope,
        reason: p.reason.clone(),
        actor: actor.to_owned(),
        at: p.now,
    };
    pause::insert(tx, &row).await?;
    let (tenant, pipeline) = match &p.target {
        PauseTarget::All => (None, None),
        PauseTarget::Pipeline(name) => (None, Some(name)),
        PauseTarget::Lane(tenant, name) => (Some(tenant), Some(name)),
        PauseTarget::Collection(_) | PauseTarget::Channel(_) => (None, None),
    };
    let collection = match &p.target {
        PauseTarget::Collection(id) => Some(id),
        _ => None,
    };
    let channel = match &p.target {
        PauseTarget::Channel(kind) => Some(kind),
        _ => None,
    };
    let details = json!({
        "pauseId": p.id, "scope": scope.as_str(), "pipeline": pipeline, "collection": collection, "channel": channel,
        "reason": p.reason,
    });
    let mut entry = NewEntry::new(Action::PauseSet, actor).with(&details);
    entry.tenant_id = tenant.map(|tenant| tenant.as_str().to_owned());
    log::append(tx, &entry, p.now).await
}

/// Lifts a pause; the pipeline that may go on, none for all.
async fn pause_lift(tx: &mut Tx, who: &Operator, id: PauseId, now: Timestamp) -> Result<Option<PipelineKey>> {
    let lifted = pause::delete(tx, id)
        .await?
        .ok_or_else(|| Refusal::not_found("pause", &id))?;
    let details = json!({ "pauseId": id, "scope": lifted.scope.as_str() });
    log::append(
        tx,
        &NewEntry::new(Action::PauseLifted, who.actor.as_str()).with(&details),
        now,
    )
    .await?;
    match lifted.scope {
        PauseScope::All | PauseScope::Collection(_) | PauseScope::Channel(_) => Ok(None),
        PauseScope::Pipeline(pipeline) => Ok(Some(pipeline)),
        PauseScope::Lane(lane) => {
            // Locked before its pauses are counted: whoever pauses it now has to wait, and pauses it after this.
            lane::lock(tx, lane).await?;
            if pause::count_of_lane(tx, lane).await? == 0 {
                lane::set_paused(tx, lane, false).await?;
            }
            Ok(lane::get(tx, lane).await?.map(|lane| lane.pipeline))
        }
    }
}
