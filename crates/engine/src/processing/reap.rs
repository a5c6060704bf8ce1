//! Reap: leases that ran out are settled by their pipeline's policy (rule P6), and waits that are over end (rule P7).

use std::collections::BTreeSet;
use std::sync::Arc;

use docket_core::id::PipelineKey;
use docket_core::job::{JobState, Verdict, after_stale, stale_message};
use docket_core::lane::HoldKind;
use docket_core::log::Action;
use docket_core::{Refusal, Timestamp};
use docket_store::hot::{self, Output, Settle, SettleTo};
use docket_store::table::hold::{self, Hold};
use docket_store::{Result, Tx};
use serde_json::json;

use crate::engine::{Engine, Kernel};

/// How many holds one transaction settles.
const BATCH: u64 = 500;

/// What was reaped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Stale jobs that were given up.
    pub failed: u64,
    /// Stale jobs that went back to their place.
    pub requeued: u64,
    /// Jobs whose wait for the next attempt was over.
    pub resumed: u64,
}

struct ReapBatch {
    kernel: Arc<Kernel>,
    silent_since: Option<Timestamp>,
    due_by: Timestamp,
    now: Timestamp,
}

impl Engine {
    /// Settles all that is due now. With `older_than_ms`, also leases that have not run out, but whose holder has given no sign
    /// of life for that long.
    pub async fn reap(&self, older_than_ms: Option<i64>) -> Result<Reaped> {
        if older_than_ms.is_some_and(|ms| ms < 0) {
            return Err(Refusal::invalid("olderThanSeconds", "must not be negative").into());
        }
        // Fixed at the beginning: whoever claims while this runs is not reaped by it.
        let silent_since = older_than_ms.map(|ms| self.kernel.clock.now().plus_ms(-ms));
        let (reaped, _) = self.reap_rounds(silent_since, usize::MAX).await?;
        Ok(reaped)
    }

    /// The same in so many transactions at the most; whether more is due. What becomes due meanwhile is left for the next time, so that
    /// this comes to an end.
    pub(crate) async fn reap_rounds(
        &self,
        silent_since: Option<Timestamp>,
        rounds: usize,
    ) -> Result<(Reaped, bool)> {
        let due_by = self.kernel.clock.now();
        let mut total = Reaped::default();
        for _ in 0..rounds {
            let batch = ReapBatch {
                kernel: Arc::clone(&self.kernel),
                silent_since,
                due_by,
                now: self.kernel.clock.now(),
            };
            let (reaped, found, ready) = self
                .kernel
                .store
                .run_hot("reap", batch, |tx, batch| Box::pin(reap_batch(tx, batch)))
                .await?;
            self.kernel.hint(ready);
            crate::meter::stale(&reaped);
            total.failed += reaped.failed;
            total.requeued += reaped.requeued;
            total.resumed += reaped.resumed;
            if found < BATCH {
                return Ok((total, false));
            }
        }
        Ok((total, true))
    }
}

async fn reap_batch(tx: &mut Tx, batch: &ReapBatch) -> Result<(Reaped, u64, BTreeSet<PipelineKey>)> {
    let mut holds = hold::due(tx, batch.due_by, BATCH).await?;
    if let Some(moment) = batch.silent_since {
        let silent = hold::silent_since(tx, moment, BATCH).await?;
        let known: BTreeSet<_> = holds.iter().map(|hold| (hold.lane, hold.seq)).collect();
        holds.extend(
            silent
                .into_iter()
                .filter(|hold| !known.contains(&(hold.lane, hold.seq))),
        );
    }
    let mut reaped = Reaped::default();
    let mut settles = Vec::with_capacity(holds.len());
    for held in &holds {
        settles.push(match held.kind {
            HoldKind::Leased => stale(tx, batch, held, &mut reaped).await?,
            HoldKind::Delayed | HoldKind::Front => {
                reaped.resumed += 1;
                wait_over(held)
            }
        });
    }
    let settlement = hot::settle(tx, &settles, batch.now).await?;
    let (touched, expected) = (settlement.settled.len() as u64, settles.len() as u64);
    if touched != expected {
        return Err(docket_store::Error::WrongRows {
            statement: "reap",
            touched,
            expected,
        });
    }
    Ok((reaped, holds.len() as u64, settlement.ready.into_iter().collect()))
}

async fn stale(tx: &mut Tx, batch: &ReapBatch, held: &Hold, reaped: &mut Reaped) -> Result<Settle> {
    let definition = batch
        .kernel
        .definitions
        .get(tx, held.pipeline, held.pipeline_version)
        .await?;
    let silent_ms = batch.now.since(held.until.plus_ms(-held.lease_ms));
    let message = stale_message(held.lease_ms, silent_ms);
    let (to, retry_count) = match after_stale(&definition, held.retry_count) {
        Verdict::Fail => {
            reaped.failed += 1;
            (SettleTo::Gone(JobState::Failed), None)
        }
        Verdict::Requeue { retry_count } => {
            reaped.requeued += 1;
            (SettleTo::Front, Some(retry_count))
        }
        Verdict::RetryAt { run_at, retry_count } => {
            reaped.requeued += 1;
            (SettleTo::Delayed(run_at), Some(retry_count))
        }
    };
    let details = json!({ "attempt": held.retry_count + 1, "worker": held.worker, "error": message });
    Ok(Settle {
        retry_count,
        error: Some(message),
        action: Some(Action::JobStale),
        actor: Some("docket".to_owned()),
        details: Some(details.to_string()),
        ..settle(held, to)
    })
}

fn wait_over(held: &Hold) -> Settle {
    settle(held, SettleTo::Front)
}

fn settle(held: &Hold, to: SettleTo) -> Settle {
    Settle {
        lane: held.lane,
        seq: held.seq,
        token: held.token,
        from: held.kind,
        to,
        retry_count: None,
        error: None,
        failed_step: None,
        output: Output::default(),
        action: None,
        actor: None,
        details: None,
    }
}
