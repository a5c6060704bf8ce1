//! Cancel: what waits is taken out of its lane or its review queue; whoever has it loses the lease (rule P13).

use docket_core::id::{ItemId, LaneKey, PipelineKey, Seq};
use docket_core::item::ItemStatus;
use docket_core::job::JobState;
use docket_core::log::Action;
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::hot::{self, Output, Settle, SettleTo};
use docket_store::table::hold::{self, Hold};
use docket_store::table::item::{self, Item};
use docket_store::table::log::NewEntry;
use docket_store::table::{counter, job, lane, log};
use docket_store::{Result, Tx};

use crate::engine::Engine;
use crate::review::withdraw::withdraw;
use crate::view::item::item_of_tenant;

impl Engine {
    /// Takes an item back that waits, is being processed or is in review; whoever has it finds the lease lost.
    pub async fn cancel(&self, scope: &Scope, item: ItemId) -> Result<()> {
        let params = (scope.clone(), item, self.kernel.clock.now());
        let ready = self
            .kernel
            .store
            .run_hot("cancel", params, |tx, p| Box::pin(cancel(tx, &p.0, p.1, p.2)))
            .await?;
        self.kernel.hint(ready);
        Ok(())
    }
}

async fn cancel(tx: &mut Tx, scope: &Scope, id: ItemId, now: Timestamp) -> Result<Vec<PipelineKey>> {
    item::lock(tx, id).await?;
    let found = item_of_tenant(tx, scope, id).await?;
    let ready = match found.status {
        ItemStatus::Queued | ItemStatus::Processing => {
            let cancelled = cancel_job(tx, &found, scope.actor.as_str(), now).await?;
            cancelled.ok_or_else(|| Refusal::Conflict {
                problem: "the item's job has ended in the meantime".to_owned(),
            })?
        }
        ItemStatus::InReview => {
            cancel_review(tx, &found, scope, now).await?;
            Vec::new()
        }
        status => {
            let problem = format!(
                "the item is {status}; only what is queued, processing or in review can be cancelled"
            );
            return Err(Refusal::Conflict { problem }.into());
        }
    };
    let entry = NewEntry::new(Action::ItemCancelled, scope.actor.as_str()).of_item(&found.tenant_id, id);
    log::append(tx, &entry, now).await?;
    Ok(ready)
}

async fn cancel_review(tx: &mut Tx, item: &Item, scope: &Scope, now: Timestamp) -> Result<()> {
    if !withdraw(tx, item, scope.actor.as_str(), "the item was cancelled", now).await? {
        let problem = "the item's review was decided in the meantime".to_owned();
        return Err(Refusal::Conflict { problem }.into());
    }
    let after = item::get(tx, item.id).await?.map(|item| item.status);
    counter::add(tx, item.id.collection(), Some(item.status), after, 1).await
}

/// Cancels an item's job if it is alive. The caller has locked the item. Returns pipelines of which something can start now; none
/// where no job was alive.
pub(crate) async fn cancel_job(
    tx: &mut Tx,
    item: &Item,
    actor: &str,
    now: Timestamp,
) -> Result<Option<Vec<PipelineKey>>> {
    let Some((lane, seq)) = item.job else {
        return Ok(None);
    };
    if let Some(held) = hold::lock(tx, lane, seq).await? {
        return cancel_held(tx, &held, actor, now).await.map(Some);
    }
    if !is_alive(tx, lane, seq).await? {
        return Ok(None);
    }
    // Not held: in the tail, or claimed a moment ago. With its lane locked it stays what it is.
    lane::lock(tx, lane).await?;
    if let Some(held) = hold::lock_now(tx, &[(lane, seq)]).await?.pop() {
        return cancel_held(tx, &held, actor, now).await.map(Some);
    }
    // Claimed and finished while the lane's lock was waited for.
    if !is_alive(tx, lane, seq).await? {
        return Ok(None);
    }
    cancel_in_tail(tx, item, (lane, seq), actor, now).await?;
    Ok(Some(Vec::new()))
}

async fn is_alive(tx: &mut Tx, lane: LaneKey, seq: Seq) -> Result<bool> {
    let row = job::get(tx, lane, seq).await?;
    Ok(row.is_some_and(|job| job.state == JobState::Live))
}

async fn cancel_held(tx: &mut Tx, held: &Hold, actor: &str, now: Timestamp) -> Result<Vec<PipelineKey>> {
    let settle = Settle {
        lane: held.lane,
        seq: held.seq,
        token: held.token,
        from: held.kind,
        to: SettleTo::Gone(JobState::Cancelled),
        retry_count: None,
        error: None,
        failed_step: None,
        output: Output::default(),
        action: Some(Action::JobCancelled),
        actor: Some(actor.to_owned()),
        details: None,
    };
    Ok(hot::settle(tx, &[settle], now).await?.ready)
}

async fn cancel_in_tail(
    tx: &mut Tx,
    item: &Item,
    (lane, seq): (LaneKey, Seq),
    actor: &str,
    now: Timestamp,
) -> Result<()> {
    job::cancel(tx, lane, seq, now).await?;
    lane::remove_from_tail(tx, lane, seq).await?;
    counter::add(
        tx,
        item.id.collection(),
        Some(ItemStatus::Queued),
        Some(ItemStatus::Cancelled),
        1,
    )
    .await?;
    let mut entry = NewEntry::new(Action::JobCancelled, actor).of_item(&item.tenant_id, item.id);
    entry.job = Some((lane, seq));
    log::append(tx, &entry, now).await
}
