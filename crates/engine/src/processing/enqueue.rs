//! One more job for an item that is there already.

use docket_core::Timestamp;
use docket_core::id::{ItemId, JobId, LaneKey, PipelineKey, Seq};
use docket_store::table::job::{Cause, NewJob};
use docket_store::table::{item, job, lane};
use docket_store::{Result, Tx};

pub(crate) struct Enqueue {
    pub(crate) lane: LaneKey,
    pub(crate) item: ItemId,
    pub(crate) item_version: i64,
    pub(crate) cause: Cause,
    pub(crate) prior: Option<(LaneKey, Seq)>,
}

pub(crate) struct Enqueued {
    pub(crate) job: JobId,
    /// The pipeline of which something can start now.
    pub(crate) ready: Option<PipelineKey>,
}

/// Puts a new job at the end of its lane and makes it the item's latest. Counts and log are the caller's.
pub(crate) async fn enqueue(tx: &mut Tx, new: &Enqueue, now: Timestamp) -> Result<Enqueued> {
    let (seq, ready) = lane::append(tx, new.lane).await?;
    let row = NewJob {
        lane: new.lane,
        seq,
        item: new.item,
        item_version: new.item_version,
        cause: new.cause,
        prior: new.prior,
    };
    job::insert(tx, &row, now).await?;
    item::set_job(tx, new.item, (new.lane, seq), now).await?;
    Ok(Enqueued {
        job: JobId::new(now, new.lane, seq),
        ready,
    })
}
