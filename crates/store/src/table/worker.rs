//! Workers that were seen.

use docket_core::Timestamp;
use docket_core::id::PipelineKey;

use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    SEEN = portable "worker_seen" "
insert into worker (pipeline_key, worker_id, seen_at_ms) values ($1, $2, $3)
on conflict (pipeline_key, worker_id) do update set seen_at_ms = excluded.seen_at_ms
  where worker.seen_at_ms < excluded.seen_at_ms";
    LATEST = portable "worker_latest" "select max(seen_at_ms) from worker where pipeline_key = $1";
    SWEEP = split "worker_sweep"
        "delete from worker where ctid = any (array(
           select ctid from worker where seen_at_ms <= $1 limit $2 for update skip locked))"
        "delete from worker where (pipeline_key, worker_id) in (
           select pipeline_key, worker_id from worker where seen_at_ms <= $1 limit $2)";
}

/// Notes that a worker asked for jobs of a pipeline.
pub async fn seen(tx: &mut Tx, pipeline: PipelineKey, worker: &str, now: Timestamp) -> Result<()> {
    tx.execute(&SEEN, params![pipeline, worker, now])
        .await
        .map(|_| ())
}

/// When any worker was last seen.
pub async fn latest(tx: &mut Tx, pipeline: PipelineKey) -> Result<Option<Timestamp>> {
    tx.row(&LATEST, params![pipeline]).await?.opt_time(0)
}

/// Forgets workers not seen since.
pub async fn sweep(tx: &mut Tx, until: Timestamp, limit: u64) -> Result<u64> {
    tx.execute(&SWEEP, params![until, limit]).await
}
