//! Claim: a worker gets jobs, and waits for them if it likes (rules P1 to P5, P10, P11).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_core::id::{ItemId, JobId, PipelineKey};
use docket_core::item::BATCH_MAX;
use docket_core::lease::{LeaseToken, check_lease_ms};
use docket_core::name::{PipelineName, WorkerId};
use docket_core::{Refusal, Timestamp};
use docket_store::hot::{ClaimRequest, Claimed};
use docket_store::table::{step, worker};
use docket_store::{Result, Tx, hot};
use serde_json::Value;

use crate::engine::{Engine, Kernel};

/// The longest wait for work.
const WAIT_MAX_MS: u64 = 60_000;
/// A worker is noted as seen this often at the most.
const SEEN_EVERY_MS: i64 = 10_000;
/// Between looks while waiting, should a hint be lost.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A worker's wish for jobs.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Of which pipeline.
    pub pipeline: PipelineName,
    /// Who asks.
    pub worker: WorkerId,
    /// How many at the most.
    pub limit: u32,
    /// For how long; none for the pipeline's own lease.
    pub lease_ms: Option<i64>,
    /// How long to wait while there are none.
    pub wait_ms: u64,
}

/// A job in a worker's hands.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names are the domain's")]
pub struct ClaimedJob {
    pub id: JobId,
    pub item: ItemId,
    pub item_version: u32,
    pub tenant_id: String,
    pub collection_id: String,
    pub external_id: Option<String>,
    pub token: LeaseToken,
    pub lease_expires_at: Timestamp,
    /// 1 for the first.
    pub attempt: u32,
    /// The item's JSON, as text.
    pub payload: Option<String>,
    /// Whether the item has a file.
    pub has_content: bool,
    pub media_type: Option<String>,
    pub filename: Option<String>,
    /// The pipeline's steps; those that an earlier attempt finished have their output.
    pub steps: Vec<ClaimedStep>,
}

/// A step of a claimed job.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedStep {
    /// Its name.
    pub name: String,
    /// What an earlier attempt made of it; none while it is to be done.
    pub output: Option<Value>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClaimCall {
    pipeline: PipelineKey,
    pub(crate) request: ClaimRequest,
}

/// When workers were last noted.
#[derive(Debug, Default)]
pub(crate) struct Sightings(Mutex<HashMap<(PipelineKey, String), Timestamp>>);

impl Sightings {
    const REMEMBERED_MAX: usize = 10_000;

    /// Whether it is time to note this worker.
    fn is_due(&self, pipeline: PipelineKey, worker: &str, now: Timestamp) -> bool {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= Self::REMEMBERED_MAX {
            seen.clear();
        }
        match seen.get(&(pipeline, worker.to_owned())) {
            Some(last) if now.since(*last) < SEEN_EVERY_MS => false,
            _ => {
                seen.insert((pipeline, worker.to_owned()), now);
                true
            }
        }
    }
}

impl Engine {
    /// Gives a worker jobs. With a wait, the call lasts until there are some or the time is over.
    pub async fn claim(&self, claim: Claim) -> Result<Vec<ClaimedJob>> {
        if claim.limit == 0 || claim.limit as usize > BATCH_MAX {
            return Err(Refusal::invalid("limit", format!("must be from 1 to {BATCH_MAX}")).into());
        }
        if let Some(lease_ms) = claim.lease_ms {
            check_lease_ms("leaseSeconds", lease_ms)?;
        }
        if claim.wait_ms > WAIT_MAX_MS {
            return Err(Refusal::invalid("waitSeconds", "must be from 0 to 60").into());
        }
        let pipeline = self.pipeline_key(&claim.pipeline).await?;
        self.note_worker(pipeline, claim.worker.as_str()).await?;
        let request = ClaimRequest {
            worker: claim.worker.as_str().to_owned(),
            limit: u64::from(claim.limit),
            lease_ms: claim.lease_ms,
        };
        let call = ClaimCall { pipeline, request };
        let claimed = self.claim_waiting(call, claim.wait_ms).await?;
        self.describe(pipeline, claimed).await
    }

    async fn claim_waiting(&self, call: ClaimCall, wait_ms: u64) -> Result<Vec<Claimed>> {
        if wait_ms == 0 {
            return self.batches.claim.call(call).await;
        }
        let bell = self.kernel.waiters.bell(call.pipeline);
        let mut over = std::pin::pin!(tokio::time::sleep(Duration::from_millis(wait_ms)));
        loop {
            let rung = bell.notified();
            let claimed = self.batches.claim.call(call.clone()).await?;
            if !claimed.is_empty() {
                // There may be more: wake the next who waits.
                bell.notify_one();
                return Ok(claimed);
            }
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = &mut over => return Ok(Vec::new()),
            }
        }
    }

    async fn note_worker(&self, pipeline: PipelineKey, id: &str) -> Result<()> {
        let now = self.kernel.clock.now();
        if !self.kernel.sightings.is_due(pipeline, id, now) {
            return Ok(());
        }
        let params = (pipeline, id.to_owned(), now);
        self.kernel
            .store
            .run("worker_seen", params, |tx, p| {
                Box::pin(worker::seen(tx, p.0, &p.1, p.2))
            })
            .await
    }

    /// Adds the steps; nobody else can change them while the jobs are held.
    async fn describe(&self, pipeline: PipelineKey, claimed: Vec<Claimed>) -> Result<Vec<ClaimedJob>> {
        let known = |job: &Claimed| {
            !job.resumed
                && self
                    .kernel
                    .definitions
                    .known(pipeline, job.pipeline_version)
                    .is_some()
        };
        if claimed.iter().all(known) {
            return Ok(claimed
                .into_iter()
                .map(|job| {
                    let definition = self.kernel.definitions.known(pipeline, job.pipeline_version);
                    let steps = definition.map_or_else(Vec::new, |d| steps_of(&d, &[]));
                    claimed_job(job, steps)
                })
                .collect());
        }
        let params = (pipeline, claimed, Arc::clone(&self.kernel.definitions));
        let described = self.kernel.store.read(
            "claim_describe",
            params,
            |tx, (pipeline, claimed, definitions)| {
                Box::pin(async move {
                    let mut jobs = Vec::with_capacity(claimed.len());
                    for job in claimed {
                        let definition = definitions.get(tx, *pipeline, job.pipeline_version).await?;
                        let finished = if job.resumed {
                            step::of_job(tx, job.lane, job.seq).await?
                        } else {
                            Vec::new()
                        };
                        jobs.push(claimed_job(job.clone(), steps_of(&definition, &finished)));
                    }
                    Ok(jobs)
                })
            },
        );
        described.await
    }
}

fn steps_of(
    definition: &docket_core::pipeline::Pipeline,
    finished: &[step::FinishedStep],
) -> Vec<ClaimedStep> {
    let output_of = |name: &str| {
        let found = finished.iter().find(|step| step.name == name)?;
        // What was stored is JSON; should it not be, the text itself is the next best thing.
        Some(serde_json::from_str(&found.output).unwrap_or_else(|_| Value::String(found.output.clone())))
    };
    definition
        .steps
        .iter()
        .map(|name| ClaimedStep {
            name: name.as_str().to_owned(),
            output: output_of(name.as_str()),
        })
        .collect()
}

fn claimed_job(job: Claimed, steps: Vec<ClaimedStep>) -> ClaimedJob {
    ClaimedJob {
        id: JobId::new(job.created_at, job.lane, job.seq),
        item: job.item,
        item_version: job.item_version,
        tenant_id: job.tenant_id,
        collection_id: job.collection_id,
        external_id: job.external_id,
        token: job.token,
        lease_expires_at: job.lease_expires_at,
        attempt: job.retry_count + 1,
        payload: job.payload,
        has_content: job.has_content,
        media_type: job.media_type,
        filename: job.filename,
        steps,
    }
}

/// Runs a batch of claims in one transaction, pipeline by pipeline.
pub(crate) async fn claim_calls(kernel: &Arc<Kernel>, calls: Vec<ClaimCall>) -> Result<Vec<Vec<Claimed>>> {
    let params = (calls, kernel.clock.now());
    kernel
        .store
        .run_hot("claim", params, |tx, p| Box::pin(claim_batch(tx, &p.0, p.1)))
        .await
}

async fn claim_batch(tx: &mut Tx, calls: &[ClaimCall], now: Timestamp) -> Result<Vec<Vec<Claimed>>> {
    let mut pipelines: BTreeMap<PipelineKey, Vec<usize>> = BTreeMap::new();
    for (index, call) in calls.iter().enumerate() {
        pipelines.entry(call.pipeline).or_default().push(index);
    }
    let mut answers = vec![Vec::new(); calls.len()];
    for (pipeline, indexes) in pipelines {
        let requests: Vec<_> = indexes
            .iter()
            .map(|index| calls[*index].request.clone())
            .collect();
        for job in hot::claim(tx, pipeline, &requests, now).await? {
            answers[indexes[job.request]].push(job);
        }
    }
    Ok(answers)
}
