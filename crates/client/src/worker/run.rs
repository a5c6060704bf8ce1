//! Claims, and how a worker begins and ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docket_wire::job::{Claim, ClaimedJob};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::beat::beat;
use super::deliver::{Deliveries, Tally};
use super::hold::{Holds, now};
use super::job::{Job, Outcome, Settled};
use super::{Handler, Shutdown, WorkerOptions};
use crate::client::Client;
use crate::error::{ClientError, Result};
use crate::retry::{RetryPolicy, backoff};

/// The most jobs of a claim.
const CLAIM_MAX: usize = 1_000;
/// How long an answer to a claim that is under way is waited for when the worker ends.
const LAST_CLAIM: Duration = Duration::from_millis(500);
/// How long handlers that were told to stop are waited for, and how long the last outcomes.
const STOPPING: Duration = Duration::from_secs(15);
const DELIVERING: Duration = Duration::from_secs(15);

/// How the jobs of a worker ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Done.
    pub completed: u64,
    /// Failed, for good or to be tried again.
    pub failed: u64,
    /// Handed back.
    pub released: u64,
    /// Ended without counting: the lease was lost, or the outcome could not be delivered.
    pub lost: u64,
}

/// A worker of one pipeline.
#[derive(Debug)]
pub struct Worker {
    client: Client,
    options: WorkerOptions,
}

/// What the parts of a running worker share.
struct Running<H> {
    client: Client,
    options: WorkerOptions,
    handler: Arc<H>,
    holds: Arc<Holds>,
    slots: Arc<Semaphore>,
    outcomes: mpsc::UnboundedSender<Settled>,
    handlers: JoinSet<()>,
}

impl Worker {
    /// A worker that will ask this server.
    pub fn new(client: Client, options: WorkerOptions) -> Self {
        Self { client, options }
    }

    /// Works until the shutdown, or until the server refuses it. What runs is brought to its end in both cases.
    pub async fn run(self, handler: impl Handler, shutdown: Shutdown) -> Result<Summary> {
        let (outcomes, settled) = mpsc::unbounded_channel();
        let (holds, tally) = (Arc::new(Holds::default()), Arc::new(Tally::default()));
        let beats = tokio::spawn(beat(self.client.clone(), Arc::clone(&holds), self.options.lease));
        let deliveries = Deliveries::new(&self.client, Arc::clone(&holds), Arc::clone(&tally));
        let mut deliveries = tokio::spawn(deliveries.run(settled));
        let mut running = Running {
            client: self.client.with_retry(RetryPolicy::never()),
            slots: Arc::new(Semaphore::new(self.options.concurrency.max(1))),
            options: self.options,
            handler: Arc::new(handler),
            holds: Arc::clone(&holds),
            outcomes,
            handlers: JoinSet::new(),
        };
        let ended = running.claim_all(&shutdown).await;
        running.wind_up(&shutdown).await;
        drop(running);
        // Every sender is gone: the deliveries end with the last outcome.
        let undelivered = tokio::time::timeout(DELIVERING, &mut deliveries).await.is_err();
        if undelivered {
            deliveries.abort();
            tracing::error!(
                "outcomes could not be delivered before the worker ended; their leases will run out"
            );
        }
        beats.abort();
        let lost = tally.lost.load(Ordering::Relaxed) + if undelivered { holds.count() as u64 } else { 0 };
        ended.map(|()| Summary {
            completed: tally.completed.load(Ordering::Relaxed),
            failed: tally.failed.load(Ordering::Relaxed),
            released: tally.released.load(Ordering::Relaxed),
            lost,
        })
    }
}

impl<H: Handler> Running<H> {
    /// Claims and starts until the shutdown, or until the server says no.
    async fn claim_all(&mut self, shutdown: &Shutdown) -> Result<()> {
        let mut failed = 0;
        loop {
            let slots = Arc::clone(&self.slots);
            let first = tokio::select! {
                biased;
                () = shutdown.drain.cancelled() => return Ok(()),
                slot = slots.acquire_owned() => slot.map_err(|_| ClientError::Settings("no slots".to_owned()))?,
            };
            self.reap_handlers();
            let permits = self.permits(first);
            let room = permits.len() * self.options.batch.max(1);
            let asked = now();
            let answer = self.claim(room.min(CLAIM_MAX), shutdown).await;
            match answer {
                None => return Ok(()),
                Some(Ok((jobs, _))) if jobs.is_empty() && self.is_empty() => return Ok(()),
                Some(Ok((jobs, server_ms))) => {
                    failed = 0;
                    self.start(jobs, permits, asked, server_ms);
                }
                Some(Err(error)) if error.is_passing() => {
                    failed += 1;
                    let wait = backoff(failed, 200, 10_000, self.client.random());
                    tracing::warn!(%error, wait_ms = wait.as_millis(), "no work can be claimed; asked again later");
                    drop(permits);
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        () = shutdown.drain.cancelled() => return Ok(()),
                    }
                }
                Some(Err(error)) => return Err(error),
            }
        }
    }

    /// Every slot that is free now, as long as a claim can fill them.
    fn permits(&self, first: OwnedSemaphorePermit) -> Vec<OwnedSemaphorePermit> {
        let mut permits = vec![first];
        while permits.len() * self.options.batch.max(1) < CLAIM_MAX
            && let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned()
        {
            permits.push(permit);
        }
        permits
    }

    /// Asks for jobs. None where the shutdown came first; jobs that arrive then are handed back.
    async fn claim(
        &self,
        limit: usize,
        shutdown: &Shutdown,
    ) -> Option<Result<(Vec<ClaimedJob>, Option<i64>)>> {
        let wait = match (self.options.until_empty, self.is_empty()) {
            (true, true) => Duration::ZERO,
            // What runs may free a lane for more.
            (true, false) => Duration::from_secs(1),
            (false, _) => self.options.wait,
        };
        let claim = Claim {
            pipeline: self.options.pipeline.clone(),
            worker_id: self.options.worker_id.clone(),
            limit: u32::try_from(limit).unwrap_or(u32::MAX),
            lease_seconds: self.options.lease.map(|lease| lease.as_secs_f64()),
            wait_seconds: (!wait.is_zero()).then_some(wait.as_secs_f64()),
        };
        let answer = self.client.claim_at(&claim);
        tokio::pin!(answer);
        tokio::select! {
            answer = &mut answer => return Some(answer),
            () = shutdown.drain.cancelled() => {}
        }
        // The server may be answering this very moment. What it has given is handed back by us; what it gives after we hung
        // up, by itself.
        if let Ok(Ok((jobs, server_ms))) = tokio::time::timeout(LAST_CLAIM, answer).await {
            for job in jobs {
                self.enter(job, now(), server_ms).settle(Outcome::Released);
            }
        }
        None
    }

    fn enter(&self, claimed: ClaimedJob, asked: Instant, server_ms: Option<i64>) -> Job {
        let lease = self
            .options
            .lease
            .unwrap_or_else(|| lease_of(&claimed, server_ms));
        let stop = self
            .holds
            .enter(claimed.job_id, claimed.lease_token, lease, asked);
        Job::new(claimed, self.client.clone(), stop, self.outcomes.clone())
    }

    /// Gives jobs to handlers: as even as the slots allow, no more in one call than the batch.
    fn start(
        &mut self,
        jobs: Vec<ClaimedJob>,
        permits: Vec<OwnedSemaphorePermit>,
        asked: Instant,
        server_ms: Option<i64>,
    ) {
        let mut jobs = jobs.into_iter();
        for permit in permits {
            let batch: Vec<Job> = jobs
                .by_ref()
                .take(self.options.batch.max(1))
                .map(|job| self.enter(job, asked, server_ms))
                .collect();
            if batch.is_empty() {
                break;
            }
            let handler = Arc::clone(&self.handler);
            self.handlers.spawn(async move {
                handler.handle(batch).await;
                drop(permit);
            });
        }
        // A server that gives more than was asked for gets the rest back.
        for job in jobs {
            self.enter(job, asked, server_ms).settle(Outcome::Released);
        }
    }

    /// Whether the worker is to end when there is no work, and has none in hand that could make room for more.
    fn is_empty(&self) -> bool {
        self.options.until_empty && self.holds.count() == 0
    }

    fn reap_handlers(&mut self) {
        while let Some(ended) = self.handlers.try_join_next() {
            note_end(ended);
        }
    }

    /// Waits for what runs, within the grace; then tells it to stop, and waits for that.
    async fn wind_up(&mut self, shutdown: &Shutdown) {
        self.reap_handlers();
        let count = self.handlers.len();
        if count > 0 {
            tracing::info!(running = count, "claiming has ended; what runs is waited for");
        }
        let grace = if self.options.until_empty && !shutdown.drain.is_cancelled() {
            // Nobody is in a hurry.
            Duration::from_secs(u32::MAX.into())
        } else {
            self.options.grace
        };
        let in_time = tokio::select! {
            () = join_all(&mut self.handlers) => true,
            () = tokio::time::sleep(grace) => false,
            () = shutdown.now.cancelled() => false,
        };
        if in_time {
            return;
        }
        tracing::warn!(
            running = self.handlers.len(),
            "what still runs is stopped and handed back"
        );
        self.holds.stop_all();
        if tokio::time::timeout(STOPPING, join_all(&mut self.handlers))
            .await
            .is_err()
        {
            tracing::error!(
                running = self.handlers.len(),
                "handlers did not stop; they are dropped"
            );
            self.handlers.shutdown().await;
        }
    }
}

async fn join_all(handlers: &mut JoinSet<()>) {
    while let Some(ended) = handlers.join_next().await {
        note_end(ended);
    }
}

fn note_end(ended: std::result::Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a handler panicked; its jobs have failed");
    }
}

/// How long the lease is: its end by the server's clock, less the server's time when it answered. That time has no
/// fractions of a second, so one second is taken off to be sure.
fn lease_of(claimed: &ClaimedJob, server_ms: Option<i64>) -> Duration {
    const UNKNOWN: Duration = Duration::from_secs(10);
    const LEAST: Duration = Duration::from_millis(200);
    let Some(server_ms) = server_ms else {
        return UNKNOWN;
    };
    let ends_ms = claimed.lease_expires_at.timestamp().ms();
    let left_ms = u64::try_from(ends_ms.saturating_sub(server_ms).saturating_sub(1_000)).unwrap_or(0);
    Duration::from_millis(left_ms).max(LEAST)
}
