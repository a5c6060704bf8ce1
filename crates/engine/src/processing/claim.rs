//! Claim: a worker gets jobs, and waits for them if it likes (rules P1 to P5, P10, P11).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_core::id::{ItemId, JobId, PipelineKey};
use docket_core::item::BATCH_MAX;
use docket_core::lease::{LeaseToken, check_lease_ms};
use docket_core::name::{PipelineName, WorkerId};
use docket_core::{Refusal, Timestamp};
use docket_store::hot::{ClaimRequest, Claimed, Claims};
use docket_store::table::{step, worker};
use docket_store::{Error, Result, Tx, hot};
use serde_json::Value;

use super::release::{Release, release_jobs};
use crate::engine::{Engine, Kernel};
use crate::wait::Awaited;

/// The longest wait for work.
const WAIT_MAX_MS: u64 = 60_000;
/// A worker is noted as seen this often at the most.
const SEEN_EVERY_MS: i64 = 10_000;
/// How often a claim asks again when others are at work on every ready lane at that very moment, and after how long.
const CONTENDED_MAX: usize = 24;
const CONTENDED_WAIT: Duration = Duration::from_millis(1);
/// Every so many times it stands in line for a lane instead, and waits there for as long as those before it may take.
const IN_LINE_EVERY: usize = 8;

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
        self.claim_until(claim, std::future::pending()).await
    }

    /// The same, and the wait is over at the latest when `stop` resolves. A call that is dropped instead may have claimed already, and
    /// what it has is put back when its process is perhaps about to end; this one hands it over.
    pub async fn claim_until(
        &self,
        claim: Claim,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Vec<ClaimedJob>> {
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
        if self.kernel.waiters.are_dismissed() {
            return Ok(Vec::new());
        }
        self.note_worker(pipeline, claim.worker.as_str()).await?;
        let request = ClaimRequest {
            worker: claim.worker.as_str().to_owned(),
            limit: u64::from(claim.limit),
            lease_ms: claim.lease_ms,
        };
        let call = ClaimCall { pipeline, request };
        let delivery = self.claim_waiting(call, claim.wait_ms, stop).await?;
        let jobs = self.describe(pipeline, &delivery.jobs).await?;
        delivery.accept();
        crate::meter::claimed(claim.pipeline.as_str(), jobs.len());
        Ok(jobs)
    }

    /// Gives out no more jobs here: whoever waits is answered at once, with nothing, and so is everybody who asks from now on.
    /// Part of shutting down; what was given out can still be completed.
    pub fn stop_claims(&self) {
        self.kernel.waiters.dismiss();
    }

    async fn claim_now(&self, call: &ClaimCall) -> Result<Delivery> {
        for tried in 1..=CONTENDED_MAX {
            let delivery = match tried % IN_LINE_EVERY {
                0 => self.batches.claim_in_line.call(call.clone()).await?,
                _ => self.batches.claim.call(call.clone()).await?,
            };
            if !delivery.contended {
                return Ok(delivery);
            }
            tokio::time::sleep(CONTENDED_WAIT).await;
        }
        self.batches.claim.call(call.clone()).await
    }

    async fn claim_waiting(
        &self,
        call: ClaimCall,
        wait_ms: u64,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<Delivery> {
        if wait_ms == 0 {
            return self.claim_now(&call).await;
        }
        let bell = self.kernel.waiters.bell(Awaited::Job(call.pipeline));
        let mut over = std::pin::pin!(tokio::time::sleep(Duration::from_millis(wait_ms)));
        let mut stop = std::pin::pin!(stop);
        loop {
            let rung = bell.notified();
            // Whoever was woken and cannot claim wakes the next.
            let delivery = self.claim_now(&call).await.inspect_err(|_| bell.notify_one())?;
            if !delivery.jobs.is_empty() {
                // There may be more: wake the next who waits.
                bell.notify_one();
                return Ok(delivery);
            }
            tokio::select! {
                () = rung => {}
                () = &mut over => return Ok(delivery),
                () = &mut stop => return Ok(delivery),
                () = self.kernel.waiters.dismissed() => return Ok(delivery),
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
    async fn describe(&self, pipeline: PipelineKey, claimed: &[Claimed]) -> Result<Vec<ClaimedJob>> {
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
                .iter()
                .map(|job| {
                    let definition = self.kernel.definitions.known(pipeline, job.pipeline_version);
                    let steps = definition.map_or_else(Vec::new, |d| steps_of(&d, &[]));
                    claimed_job(job, steps)
                })
                .collect());
        }
        let params = (pipeline, claimed.to_vec(), Arc::clone(&self.kernel.definitions));
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
                        jobs.push(claimed_job(job, steps_of(&definition, &finished)));
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

fn claimed_job(job: &Claimed, steps: Vec<ClaimedStep>) -> ClaimedJob {
    ClaimedJob {
        id: JobId::new(job.created_at, job.lane, job.seq),
        item: job.item,
        item_version: job.item_version,
        tenant_id: job.tenant_id.clone(),
        collection_id: job.collection_id.clone(),
        external_id: job.external_id.clone(),
        token: job.token,
        lease_expires_at: job.lease_expires_at,
        attempt: job.retry_count + 1,
        payload: job.payload.clone(),
        has_content: job.has_content,
        media_type: job.media_type.clone(),
        filename: job.filename.clone(),
        steps,
    }
}

/// Jobs on their way to the one who asked. If nobody takes them, because the caller has gone in the meantime, they are handed back at
/// once instead of waiting for their leases to run out.
pub(crate) struct Delivery {
    jobs: Vec<Claimed>,
    contended: bool,
    kernel: Arc<Kernel>,
}

impl Delivery {
    /// The caller has them.
    fn accept(mut self) {
        self.jobs.clear();
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let jobs: Vec<_> = std::mem::take(&mut self.jobs)
            .iter()
            .map(|job| Release {
                job: JobId::new(job.created_at, job.lane, job.seq),
                token: job.token,
            })
            .collect();
        if jobs.is_empty() {
            return;
        }
        let kernel = Arc::clone(&self.kernel);
        // Without a runtime the process is ending; the leases will run out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                if let Err(error) = release_jobs(&kernel, jobs).await {
                    tracing::warn!(
                        error = &error as &dyn std::error::Error,
                        "jobs that nobody took were not handed back"
                    );
                }
            });
        }
    }
}

/// Runs a batch of claims in one transaction, pipeline by pipeline.
pub(crate) async fn claim_calls(kernel: &Arc<Kernel>, calls: Vec<ClaimCall>) -> Result<Vec<Delivery>> {
    // Each try takes the time anew: a lease that waited for the database is not half over when it is given out.
    let params = (calls, Arc::clone(&kernel.clock));
    let claim = kernel.store.run_batch("claim", params, |tx, p| {
        Box::pin(claim_batch(tx, &p.0, p.1.now()))
    });
    Ok(deliver(kernel, claim.await?))
}

/// Runs a batch of claims that came away empty although lanes are ready: waits for the first lane of the first one's pipeline, which
/// others are at work on, and then claims for all.
pub(crate) async fn claim_calls_in_line(
    kernel: &Arc<Kernel>,
    calls: Vec<ClaimCall>,
) -> Result<Vec<Delivery>> {
    let count = calls.len();
    let params = (calls, Arc::clone(&kernel.clock));
    let claim = kernel.store.run_batch("claim_in_line", params, |tx, p| {
        Box::pin(async move {
            if let Some(first) = p.0.first() {
                hot::stand_in_line(tx, first.pipeline).await?;
            }
            claim_batch(tx, &p.0, p.1.now()).await
        })
    });
    let contended = Claims {
        contended: true,
        ..Claims::default()
    };
    match claim.await {
        Err(Error::Refused(_)) => Ok(deliver(kernel, vec![contended; count])),
        claims => Ok(deliver(kernel, claims?)),
    }
}

/// Puts what was claimed on its way.
fn deliver(kernel: &Arc<Kernel>, claims: Vec<Claims>) -> Vec<Delivery> {
    if let Some(first) = claims
        .iter()
        .flat_map(|claims| &claims.jobs)
        .map(|job| job.lease_expires_at)
        .min()
    {
        kernel.lease_ends(first);
    }
    let deliver = |Claims { jobs, contended }| Delivery {
        jobs,
        contended,
        kernel: Arc::clone(kernel),
    };
    claims.into_iter().map(deliver).collect()
}

async fn claim_batch(tx: &mut Tx, calls: &[ClaimCall], now: Timestamp) -> Result<Vec<Claims>> {
    let mut pipelines: BTreeMap<PipelineKey, Vec<usize>> = BTreeMap::new();
    for (index, call) in calls.iter().enumerate() {
        pipelines.entry(call.pipeline).or_default().push(index);
    }
    let mut answers = vec![Claims::default(); calls.len()];
    for (pipeline, indexes) in pipelines {
        let requests: Vec<_> = indexes
            .iter()
            .map(|index| calls[*index].request.clone())
            .collect();
        let claims = hot::claim(tx, pipeline, &requests, now).await?;
        for job in claims.jobs {
            answers[indexes[job.request]].jobs.push(job);
        }
        for index in indexes {
            let answer = &mut answers[index];
            answer.contended = claims.contended && answer.jobs.is_empty();
        }
    }
    Ok(answers)
}
