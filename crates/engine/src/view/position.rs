//! Where a job stands (rule P4).

use docket_core::id::{ItemId, LaneKey, Seq};
use docket_core::item::ItemStatus;
use docket_core::lane::HoldKind;
use docket_core::position::{PlaceCounts, Position, estimate_ms};
use docket_core::scope::Scope;
use docket_core::{Refusal, Timestamp};
use docket_store::table::{hold, job, lane, pause};
use docket_store::{Result, Tx};

use super::item::item_of_tenant;
use crate::engine::Engine;

impl Engine {
    /// The place of an item that waits.
    pub async fn position(&self, scope: &Scope, id: ItemId) -> Result<Position> {
        let params = (scope.clone(), id, self.kernel.clock.now());
        let find = self
            .kernel
            .store
            .read("position", params, |tx, (scope, id, now)| {
                Box::pin(async move {
                    let found = item_of_tenant(tx, scope, *id).await?;
                    let place = match (found.status, found.job) {
                        (ItemStatus::Queued, Some((lane, seq))) => position_of(tx, lane, seq, *now).await?,
                        _ => None,
                    };
                    let problem = format!("the item is {}; only what is queued has a place", found.status);
                    place.ok_or_else(|| Refusal::Conflict { problem }.into())
                })
            });
        find.await
    }
}

/// The place of a pending job, counted without looking at the jobs before it.
pub(crate) async fn position_of(
    tx: &mut Tx,
    lane: LaneKey,
    seq: Seq,
    now: Timestamp,
) -> Result<Option<Position>> {
    let Some(row) = lane::get(tx, lane).await? else {
        return Ok(None);
    };
    let held = hold::get(tx, lane, seq).await?;
    let delayed = held.filter(|held| held.kind == HoldKind::Delayed);
    let rest_of_wait_ms = delayed.map_or(0, |held| held.until.since(now).max(0));
    let counts = PlaceCounts {
        seq: seq.0,
        head: row.head.0,
        held_before: lane::waiting_before(tx, lane, seq).await?,
        holes_before: lane::holes_before(tx, lane, row.head, seq).await?,
    };
    let ahead = counts.ahead();
    let runs = job::recent_runs(tx, lane, row.head).await?;
    let eta_ms = estimate_ms(ahead, row.counts.active, row.counts.limit, &runs);
    // Nobody knows how long a pause lasts; a wait for the next attempt is known to the millisecond.
    let eta_ms = match pause::that_hold(tx, row.pipeline, lane).await?.is_empty() {
        true => eta_ms.map(|eta_ms| eta_ms.max(rest_of_wait_ms)),
        false => None,
    };
    Ok(Some(Position { ahead, eta_ms }))
}
