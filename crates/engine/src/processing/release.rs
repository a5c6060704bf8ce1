//! Release: a worker hands back what it has not started, to its old place; no attempt is counted.

use docket_core::id::{JobId, PipelineKey};
use docket_core::item::check_batch;
use docket_core::lane::HoldKind;
use docket_core::lease::LeaseToken;
use docket_core::log::Action;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::hot::{self, Output, Settle, SettleTo};
use docket_store::{Result, Tx};

use crate::engine::{Engine, Kernel};

/// A job that is handed back.
#[derive(Clone, Copy, Debug)]
pub struct Release {
    /// The job.
    pub job: JobId,
    /// The token that its holder was given.
    pub token: LeaseToken,
}

impl Engine {
    /// Hands jobs back.
    pub async fn release(&self, jobs: Vec<Release>) -> Result<Vec<Refused<()>>> {
        check_batch("jobs", jobs.len())?;
        release_jobs(&self.kernel, jobs).await
    }
}

/// Hands jobs back, however many.
pub(crate) async fn release_jobs(kernel: &Kernel, jobs: Vec<Release>) -> Result<Vec<Refused<()>>> {
    let params = (jobs, kernel.clock.now());
    let (results, ready) = kernel
        .store
        .run_hot("release", params, |tx, p| Box::pin(release_batch(tx, &p.0, p.1)))
        .await?;
    kernel.hint(ready);
    Ok(results)
}

async fn release_batch(
    tx: &mut Tx,
    jobs: &[Release],
    now: Timestamp,
) -> Result<(Vec<Refused<()>>, Vec<PipelineKey>)> {
    let settle = |release: &Release| Settle {
        lane: release.job.lane(),
        seq: release.job.seq(),
        token: release.token,
        from: HoldKind::Leased,
        to: SettleTo::Front,
        retry_count: None,
        error: None,
        failed_step: None,
        output: Output::default(),
        action: Some(Action::JobReleased),
        actor: None,
        details: None,
    };
    let settles: Vec<_> = jobs.iter().map(settle).collect();
    let settlement = hot::settle(tx, &settles, now).await?;
    let mut results = vec![Err(Refusal::LeaseLost); jobs.len()];
    for done in settlement.settled {
        results[done.index] = Ok(());
    }
    Ok((results, settlement.ready))
}
