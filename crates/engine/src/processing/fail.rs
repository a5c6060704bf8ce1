//! Fail: an attempt went wrong (rule P7).

use std::collections::HashMap;
use std::sync::Arc;

use docket_core::id::{JobId, PipelineKey};
use docket_core::item::check_batch;
use docket_core::job::{Failure, JobState, JobStatus, Verdict, after_failure};
use docket_core::lane::HoldKind;
use docket_core::lease::LeaseToken;
use docket_core::log::Action;
use docket_core::{Refusal, Refused, Timestamp};
use docket_store::hot::{self, Output, Settle, SettleTo};
use docket_store::table::hold::{self, Hold};
use docket_store::table::{job, lane};
use docket_store::{Result, Tx, to_its_end};
use serde_json::json;

use crate::engine::{Engine, Kernel};

/// What a worker says of an attempt that went wrong.
#[derive(Clone, Debug)]
pub struct Fail {
    /// The job.
    pub job: JobId,
    /// The token that its holder was given.
    pub token: LeaseToken,
    /// What went wrong.
    pub failure: Failure,
}

/// What becomes of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Pending where it is tried again, failed where it is given up.
    pub status: JobStatus,
    /// When it may be started again.
    pub run_at: Option<Timestamp>,
}

struct FailBatch {
    jobs: Vec<Fail>,
    kernel: Arc<Kernel>,
    now: Timestamp,
}

impl Engine {
    /// Fails attempts; one that cannot be failed touches no other.
    pub async fn fail(&self, jobs: Vec<Fail>) -> Result<Vec<Refused<Failed>>> {
        check_batch("jobs", jobs.len())?;
        // To its end also when the worker hangs up: nobody else wakes the reaper for the wait that begins here.
        to_its_end(fail_jobs(Arc::clone(&self.kernel), jobs)).await
    }
}

async fn fail_jobs(kernel: Arc<Kernel>, jobs: Vec<Fail>) -> Result<Vec<Refused<Failed>>> {
    let batch = FailBatch {
        jobs,
        now: kernel.clock.now(),
        kernel: Arc::clone(&kernel),
    };
    let (results, ready) = kernel
        .store
        .run_hot("fail", batch, |tx, batch| Box::pin(fail_batch(tx, batch)))
        .await?;
    kernel.hint(ready);
    let retried =
        |result: &&Refused<Failed>| matches!(result, Ok(failed) if failed.status == JobStatus::Pending);
    let retried = results.iter().filter(retried).count();
    crate::meter::failed(retried, false);
    crate::meter::failed(
        results.iter().filter(|result| result.is_ok()).count() - retried,
        true,
    );
    crate::meter::lost("fail", &results);
    if results
        .iter()
        .any(|result| matches!(result, Ok(failed) if failed.run_at.is_some()))
    {
        kernel.wait_began.notify_one();
    }
    Ok(results)
}

async fn fail_batch(tx: &mut Tx, batch: &FailBatch) -> Result<(Vec<Refused<Failed>>, Vec<PipelineKey>)> {
    let places: Vec<_> = batch
        .jobs
        .iter()
        .map(|fail| (fail.job.lane(), fail.job.seq()))
        .collect();
    let holds = hold::lock_many(tx, &places).await?;
    let holds: HashMap<_, _> = holds
        .into_iter()
        .map(|hold| ((hold.lane, hold.seq), hold))
        .collect();
    let mut results = Vec::with_capacity(batch.jobs.len());
    let mut settles = Vec::new();
    // What this call has said of a hold stands: the same job named twice is settled once, and answered twice.
    let mut decided: HashMap<_, Failed> = HashMap::new();
    for (index, fail) in batch.jobs.iter().enumerate() {
        let place = (fail.job.lane(), fail.job.seq());
        let result = match holds.get(&place) {
            Some(held) if held.token != fail.token => Err(Refusal::LeaseLost),
            Some(_) if decided.contains_key(&place) => Ok(decided[&place]),
            Some(held) if held.kind == HoldKind::Leased => match decide(tx, batch, fail, held).await? {
                Ok((settle, failed)) => {
                    settles.push(settle);
                    decided.insert(place, failed);
                    Ok(failed)
                }
                Err(refusal) => Err(refusal.under(&format!("jobs[{index}]"))),
            },
            // Said before by the same holder: the answer is the same.
            Some(held) if held.kind == HoldKind::Delayed => Ok(Failed {
                status: JobStatus::Pending,
                run_at: Some(held.until),
            }),
            Some(_) => Err(Refusal::LeaseLost),
            None => repeated(tx, batch, fail).await?,
        };
        results.push(result);
    }
    let expected = settles.len() as u64;
    let settlement = hot::settle(tx, &settles, batch.now).await?;
    let touched = settlement.settled.len() as u64;
    if touched != expected {
        return Err(docket_store::Error::WrongRows {
            statement: "fail",
            touched,
            expected,
        });
    }
    Ok((results, settlement.ready))
}

/// A failure that was said before, in the same words and by the same token, stands. The words tell it from a job that was given
/// up because its worker fell silent: that worker is not to think it was heard.
async fn repeated(tx: &mut Tx, batch: &FailBatch, fail: &Fail) -> Result<Refused<Failed>> {
    let done = job::get(tx, fail.job.lane(), fail.job.seq()).await?;
    let same = done.filter(|job| job.state == JobState::Failed && job.token == fail.token);
    let Some((job, version)) = same.and_then(|job| job.pipeline_version.map(|version| (job, version))) else {
        return Ok(Err(Refusal::LeaseLost));
    };
    let Some(lane) = lane::get(tx, job.lane).await? else {
        return Ok(Err(Refusal::LeaseLost));
    };
    let definitions = &batch.kernel.definitions;
    let definition = definitions.get(tx, lane.pipeline, version).await?;
    if fail.failure.message(&definition).ok() != job.error {
        return Ok(Err(Refusal::LeaseLost));
    }
    Ok(Ok(Failed {
        status: JobStatus::Failed,
        run_at: None,
    }))
}

async fn decide(
    tx: &mut Tx,
    batch: &FailBatch,
    fail: &Fail,
    held: &Hold,
) -> Result<Refused<(Settle, Failed)>> {
    let kernel = &batch.kernel;
    let definition = kernel
        .definitions
        .get(tx, held.pipeline, held.pipeline_version)
        .await?;
    let message = match fail.failure.message(&definition) {
        Ok(message) => message,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let retryable = fail.failure.retryable;
    let verdict = after_failure(
        &definition,
        held.retry_count,
        retryable,
        batch.now,
        kernel.random.as_ref(),
    );
    let (to, retry_count, failed) = match verdict {
        Verdict::Fail => (
            SettleTo::Gone(JobState::Failed),
            None,
            Failed {
                status: JobStatus::Failed,
                run_at: None,
            },
        ),
        Verdict::RetryAt { run_at, retry_count } => {
            let failed = Failed {
                status: JobStatus::Pending,
                run_at: Some(run_at),
            };
            (SettleTo::Delayed(run_at), Some(retry_count), failed)
        }
        Verdict::Requeue { retry_count } => (
            SettleTo::Front,
            Some(retry_count),
            Failed {
                status: JobStatus::Pending,
                run_at: None,
            },
        ),
    };
    let details = json!({
        "attempt": held.retry_count + 1, "error": message, "retryable": retryable, "runAt": failed.run_at,
    });
    let settle = Settle {
        lane: held.lane,
        seq: held.seq,
        token: held.token,
        from: HoldKind::Leased,
        to,
        retry_count,
        error: Some(message),
        failed_step: fail.failure.step.clone(),
        output: Output::default(),
        action: Some(Action::JobFailed),
        actor: None,
        details: Some(details.to_string()),
    };
    Ok(Ok((settle, failed)))
}
