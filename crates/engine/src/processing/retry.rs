//! Retry and reprocess: one more job for an item whose last one has ended (rules P9 and V11).

use docket_core::id::{ItemId, JobId, PipelineKey};
use docket_core::item::ItemStatus;
use docket_core::log::Action;
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::job::Cause;
use docket_store::table::log::NewEntry;
use docket_store::table::{collection, counter, item, log, step};
use docket_store::{Result, Tx};
use serde_json::json;

use super::enqueue::{Enqueue, enqueue};
use crate::engine::Engine;
use crate::once::{Asked, Once};
use crate::review::withdraw::withdraw;
use crate::view::item::item_of_tenant;

struct Again {
    scope: Scope,
    item: ItemId,
    cause: Cause,
    asked: Option<Asked>,
    now: Timestamp,
}

impl Engine {
    /// Tries a failed item again: a new job, linked to the old one, which begins at the first step that was not finished.
    pub async fn retry(&self, scope: &Scope, item: ItemId) -> Result<JobId> {
        Ok(self.retry_once(scope, item, None).await?.answer)
    }

    /// [`Engine::retry`] under an idempotency key.
    pub async fn retry_once(&self, scope: &Scope, item: ItemId, key: Option<String>) -> Result<Once<JobId>> {
        self.again(scope, item, Cause::Retried, key).await
    }

    /// Processes an item anew, from the first step. What people corrected stays.
    pub async fn reprocess(&self, scope: &Scope, item: ItemId) -> Result<JobId> {
        Ok(self.reprocess_once(scope, item, None).await?.answer)
    }

    /// [`Engine::reprocess`] under an idempotency key.
    pub async fn reprocess_once(
        &self,
        scope: &Scope,
        item: ItemId,
        key: Option<String>,
    ) -> Result<Once<JobId>> {
        self.again(scope, item, Cause::Reprocessed, key).await
    }

    async fn again(
        &self,
        scope: &Scope,
        item: ItemId,
        cause: Cause,
        key: Option<String>,
    ) -> Result<Once<JobId>> {
        let what = match cause {
            Cause::Retried => "retry",
            _ => "reprocess",
        };
        let params = Again {
            scope: scope.clone(),
            item,
            cause,
            asked: Asked::new(scope.tenant.as_str(), what, key, &item.to_string())?,
            now: self.kernel.clock.now(),
        };
        let (job, ready) = self
            .kernel
            .store
            .run("again", params, |tx, p| Box::pin(again_once(tx, p)))
            .await?;
        self.kernel.hint(ready);
        Ok(job)
    }
}

async fn again_once(tx: &mut Tx, p: &Again) -> Result<(Once<JobId>, Option<PipelineKey>)> {
    // Before the key is looked up: whoever waited here finds the answer that the other one has kept.
    item::lock(tx, p.item).await?;
    if let Some(asked) = &p.asked
        && let Some(first) = asked.first(tx).await?
    {
        return Ok((first, None));
    }
    let (job, ready) = again(tx, p).await?;
    if let Some(asked) = &p.asked {
        asked.keep(tx, &job, p.now).await?;
    }
    Ok((Once::new(job), ready))
}

async fn again(tx: &mut Tx, p: &Again) -> Result<(JobId, Option<PipelineKey>)> {
    let found = item_of_tenant(tx, &p.scope, p.item).await?;
    let status = found.status;
    match p.cause {
        Cause::Retried if status != ItemStatus::Failed => return Err(Refusal::NotFailed { status }.into()),
        _ if matches!(status, ItemStatus::Queued | ItemStatus::Processing) => {
            let problem = format!("the item is {status}; it can be processed again when that has ended");
            return Err(Refusal::Conflict { problem }.into());
        }
        _ => {}
    }
    let owner = collection::get(tx, &found.collection_id).await?;
    let lane = owner
        .and_then(|collection| collection.lane)
        .ok_or_else(|| Refusal::Conflict {
            problem: format!(
                "collection '{}' has no pipeline that could process the item",
                found.collection_id
            ),
        })?;
    let why = "the item is processed again";
    // With the review's row locked, no decision and no undo comes in between any more.
    let status = match withdraw(tx, &found, p.scope.actor.as_str(), why, p.now).await? {
        true => ItemStatus::InReview,
        false => item::get(tx, p.item).await?.map_or(status, |item| item.status),
    };
    let new = Enqueue {
        lane,
        item: p.item,
        item_version: found.version,
        cause: p.cause,
        prior: found.job,
    };
    let enqueued = enqueue(tx, &new, p.now).await?;
    if let (Cause::Retried, Some(prior)) = (p.cause, found.job)
        && prior.0 == lane
    {
        step::copy(tx, prior, (lane, enqueued.job.seq())).await?;
    }
    counter::add(tx, p.item.collection(), Some(status), Some(ItemStatus::Queued), 1).await?;
    let action = match p.cause {
        Cause::Retried => Action::JobRetried,
        _ => Action::ItemReprocessed,
    };
    let entry = NewEntry::new(action, p.scope.actor.as_str())
        .of_item(&found.tenant_id, p.item)
        .of_job(enqueued.job)
        .with(&json!({ "jobId": enqueued.job, "status": status.as_str() }));
    log::append(tx, &entry, p.now).await?;
    Ok((enqueued.job, enqueued.ready))
}
