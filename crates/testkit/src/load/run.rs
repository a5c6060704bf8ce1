//! The load itself: submitters, workers and uploaders in loops, until it is stopped or its process is killed.
//!
//! While the database is away calls may fail; anything else that the engine must never say is a fact of its own.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use docket_core::Refusal;
use docket_core::item::ItemDetails;
use docket_core::job::Failure;
use docket_core::random::{Random as _, SeededRandom};
use docket_engine::{
    Claim, ClaimedJob, Complete, Engine, Error, Fail, Release, StepDone, Submit, UploadRequest, UploadStart,
};
use serde_json::json;
use tokio::task::JoinSet;

use super::{FILES, Fact, PIPELINE, Sink, TENANTS};
use crate::{World, names};

/// How much load.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Workers, each of which claims, steps and settles in a loop.
    pub workers: usize,
    /// Submitters, each of which submits small batches in a loop.
    pub submitters: usize,
    /// Uploaders, each of which sends files in a loop.
    pub uploaders: usize,
    /// Begins every externalId, and makes it unique among loads.
    pub prefix: String,
    /// The seed of all choices.
    pub seed: u64,
}

/// What a load has met besides its facts.
#[derive(Debug, Default)]
pub struct Met {
    /// Calls that failed because the database was away.
    pub transient: AtomicU64,
    /// Calls of which it could not be found out whether they happened.
    pub unknown: AtomicU64,
    /// Leases lost, as is to be expected with short ones.
    pub lost: AtomicU64,
}

/// A load under way.
pub struct Load {
    engine: Engine,
    config: LoadConfig,
    sink: Sink,
    stop: AtomicBool,
    /// What was met.
    pub met: Met,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Load {
    /// A load on this engine, which tells its facts to `sink`.
    pub fn new(engine: Engine, config: LoadConfig, sink: Sink) -> Arc<Self> {
        Arc::new(Self {
            engine,
            config,
            sink,
            stop: AtomicBool::new(false),
            met: Met::default(),
        })
    }

    /// Runs until it is stopped; what is under way then is done to its end.
    pub async fn run(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        for n in 0..self.config.submitters {
            tasks.spawn(Arc::clone(self).submitter(n));
        }
        for n in 0..self.config.workers {
            tasks.spawn(Arc::clone(self).worker(n));
        }
        for n in 0..self.config.uploaders {
            tasks.spawn(Arc::clone(self).uploader(n));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                self.wrong(format!("a task of the load ended badly: {error}"));
            }
        }
    }

    /// Ends the load.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    fn wrong(&self, what: String) {
        (self.sink)(Fact::Wrong(what));
    }

    fn random(&self, kind: u64, n: usize) -> SeededRandom {
        SeededRandom::new(self.config.seed ^ (kind << 56) ^ ((n as u64) << 48))
    }

    /// Notes a call that failed. While a database is away that may happen; anything else may not.
    async fn failed(&self, call: &str, error: &Error) {
        match error {
            Error::UnknownCommit { .. } => self.met.unknown.fetch_add(1, Ordering::Relaxed),
            Error::Refused(Refusal::LeaseLost) => self.met.lost.fetch_add(1, Ordering::Relaxed),
            error if error.is_transient() => self.met.transient.fetch_add(1, Ordering::Relaxed),
            error => {
                self.wrong(format!("{call} failed: {error:?}"));
                0
            }
        };
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    async fn submitter(self: Arc<Self>, n: usize) {
        let random = self.random(1, n);
        let mut count = 0_u64;
        while self.goes_on() {
            let (tenant, _) = TENANTS[random.below(4) as usize];
            let size = 1 + random.below(5);
            let externals: Vec<_> = (0..size)
                .map(|k| format!("{}-{n}-{}", self.config.prefix, count + k))
                .collect();
            count += size;
            let call = Submit {
                collection: names::collection(tenant),
                items: externals.iter().map(|id| World::item(id)).collect(),
                idempotency_key: None,
            };
            match self.engine.submit(&World::scope(tenant), call).await {
                Err(error) => self.failed("submit", &error).await,
                Ok(answer) => {
                    for (external_id, result) in externals.into_iter().zip(answer.results) {
                        match result {
                            Ok(item) if !item.duplicate && item.job.is_some() => {
                                (self.sink)(Fact::Submitted(item.id, external_id));
                            }
                            other => self.wrong(format!("{external_id} is new, yet: {other:?}")),
                        }
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(2 + random.below(10))).await;
        }
    }

    async fn worker(self: Arc<Self>, n: usize) {
        let random = self.random(2, n);
        let worker = names::worker(&format!("{}-{n}", self.config.prefix));
        while self.goes_on() {
            let claim = Claim {
                pipeline: names::pipeline(PIPELINE),
                worker: worker.clone(),
                limit: 1 + u32::try_from(random.below(8)).unwrap_or(0),
                lease_ms: Some(i64::try_from(200 + random.below(600)).unwrap_or(500)),
                wait_ms: 50,
            };
            match self.engine.claim(claim).await {
                Err(error) => self.failed("claim", &error).await,
                Ok(jobs) => self.work(jobs, &random).await,
            }
        }
    }

    /// Works on what was claimed: most is completed in one call; some fails, is handed back, or is left lying as by a crash.
    async fn work(&self, jobs: Vec<ClaimedJob>, random: &SeededRandom) {
        for job in &jobs {
            (self.sink)(Fact::Claimed(job.id, job.token));
        }
        let mut done = Vec::new();
        for job in jobs {
            let next = job.steps.iter().find(|step| step.output.is_none());
            if let (Some(step), 0) = (next, random.below(4)) {
                let step = StepDone {
                    job: job.id,
                    token: job.token,
                    name: step.name.clone(),
                    output: json!({ "by": job.token.0 }),
                };
                if let Err(error) = self.engine.step(step).await {
                    self.failed("step", &error).await;
                }
            }
            match random.below(100) {
                0..6 => self.fail(&job).await,
                6..12 => self.release(&job).await,
                12..15 => {}
                _ => done.push(Complete::new(job.id, job.token)),
            }
        }
        if !done.is_empty() {
            self.complete(done).await;
        }
    }

    async fn fail(&self, job: &ClaimedJob) {
        let failure = Failure {
            error: "it rained".to_owned(),
            step: None,
            retryable: true,
        };
        let (job, token) = (job.id, job.token);
        match self.engine.fail(vec![Fail { job, token, failure }]).await {
            Err(error) => self.failed("fail", &error).await,
            Ok(results) => self.settled("fail", results, |_| Some(Fact::Failed(job, token))),
        }
    }

    async fn release(&self, job: &ClaimedJob) {
        let (job, token) = (job.id, job.token);
        match self.engine.release(vec![Release { job, token }]).await {
            Err(error) => self.failed("release", &error).await,
            Ok(results) => self.settled("release", results, |()| Some(Fact::Released(job, token))),
        }
    }

    async fn complete(&self, done: Vec<Complete>) {
        let mut jobs: Vec<_> = done.iter().map(|done| (done.job, done.token)).collect();
        jobs.reverse();
        match self.engine.complete(done).await {
            Err(error) => self.failed("complete", &error).await,
            Ok(results) => {
                for result in results {
                    let Some((job, token)) = jobs.pop() else { return };
                    self.settled("complete", vec![result], |completed| {
                        (!completed.repeated).then_some(Fact::Completed(job, token))
                    });
                }
            }
        }
    }

    fn settled<T: fmt::Debug + Copy>(
        &self,
        call: &str,
        results: Vec<docket_core::Refused<T>>,
        fact: impl Fn(T) -> Option<Fact>,
    ) {
        for result in results {
            match result {
                Ok(said) => match fact(said) {
                    Some(fact) => (self.sink)(fact),
                    None => self.wrong(format!("{call} was answered {said:?}")),
                },
                Err(Refusal::LeaseLost) => drop(self.met.lost.fetch_add(1, Ordering::Relaxed)),
                Err(refusal) => self.wrong(format!("{call} was refused: {refusal:?}")),
            }
        }
    }

    async fn uploader(self: Arc<Self>, n: usize) {
        let random = self.random(3, n);
        let mut count = 0_u64;
        while self.goes_on() {
            count += 1;
            match self
                .upload(&format!("{}-file-{n}-{count}", self.config.prefix), &random)
                .await
            {
                Ok(fact) => (self.sink)(fact),
                Err(error) => self.failed("upload", &error).await,
            }
        }
    }

    /// Sends a file of bytes that no other has, in pieces: small enough for one write, or large enough for several.
    async fn upload(&self, name: &str, random: &SeededRandom) -> Result<Fact, Error> {
        let request = UploadRequest {
            collection: names::collection(FILES),
            filename: Some(name.to_owned()),
            media_type: "application/octet-stream".to_owned(),
            digest: None,
            size: None,
            details: ItemDetails {
                external_id: Some(name.to_owned()),
                ..ItemDetails::default()
            },
            idempotency_key: None,
        };
        let UploadStart::Ready(mut upload) = self.engine.upload(&World::scope(FILES), request).await? else {
            return Ok(Fact::Wrong(format!(
                "the bytes of {name} cannot be there already"
            )));
        };
        let mut piece = name.as_bytes().to_vec();
        piece.resize(256 << 10, b'.');
        let pieces = if random.below(2) == 0 { 1 } else { 45 };
        let mut hasher = docket_core::content::Hasher::default();
        for _ in 0..pieces {
            hasher.update(&piece);
            upload.write(piece.clone().into()).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let item = upload.finish().await?;
        if item.duplicate {
            return Ok(Fact::Wrong(format!("{name} is new, yet: {item:?}")));
        }
        Ok(Fact::Uploaded(item.id, hasher.finish().to_string()))
    }
}
