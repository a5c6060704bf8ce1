//! Finished steps and their output.

use docket_core::Timestamp;
use docket_core::id::{LaneKey, Seq};

use crate::error::Result;
use crate::params;
use crate::tx::Tx;

crate::statements! {
    PUT = portable "job_step_put" "
insert into job_step (lane_key, seq, name, output, started_at_ms, completed_at_ms)
values ($1, $2, $3, $4,
        coalesce((select max(s.completed_at_ms) from job_step s
                  where s.lane_key = $1 and s.seq = $2 and s.name <> $3 and s.completed_at_ms > $5), $5), $6)
on conflict (lane_key, seq, name) do update set output = excluded.output, completed_at_ms = excluded.completed_at_ms";
    OF_JOB = portable "job_steps" "
select name, output, started_at_ms, completed_at_ms from job_step where lane_key = $1 and seq = $2 order by completed_at_ms, name";
    COPY = portable "job_steps_copy" "
insert into job_step (lane_key, seq, name, output, started_at_ms, completed_at_ms)
select $3, $4, name, output, started_at_ms, completed_at_ms from job_step where lane_key = $1 and seq = $2";
}

/// A finished step.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct FinishedStep {
    pub name: String,
    pub output: String,
    /// Not known of steps from before that was noted.
    pub started_at: Option<Timestamp>,
    pub completed_at: Timestamp,
}

/// Keeps a step's output. It began with the attempt, or with the end of the step before it.
pub async fn put(
    tx: &mut Tx,
    lane: LaneKey,
    seq: Seq,
    name: &str,
    output: &str,
    attempt_started_at: Timestamp,
    now: Timestamp,
) -> Result<()> {
    let params = params![lane, seq, name, output, attempt_started_at, now];
    tx.execute_one(&PUT, params).await
}

/// The finished steps of a job.
pub async fn of_job(tx: &mut Tx, lane: LaneKey, seq: Seq) -> Result<Vec<FinishedStep>> {
    let rows = tx.rows(&OF_JOB, params![lane, seq]).await?;
    rows.into_iter()
        .map(|mut row| {
            Ok(FinishedStep {
                name: row.text(0)?,
                output: row.text(1)?,
                started_at: row.opt_time(2)?,
                completed_at: row.time(3)?,
            })
        })
        .collect()
}

/// Hands the finished steps of one job to another.
pub async fn copy(tx: &mut Tx, from: (LaneKey, Seq), to: (LaneKey, Seq)) -> Result<()> {
    tx.execute(&COPY, params![from.0, from.1, to.0, to.1])
        .await
        .map(|_| ())
}
