//! The loop of a worker: claims what it has room for, keeps the leases alive, and delivers what came of it.
//!
//! ```no_run
//! use docket_client::worker::{Outcome, Shutdown, Worker, WorkerOptions, each};
//!
//! # async fn run() -> docket_client::Result<()> {
//! let client = docket_client::Client::new("http://127.0.0.1:7700", Some("dk_…".to_owned()))?;
//! let handler = each(|job| async move {
//!     let pages = job.claimed().payload.clone();
//!     Outcome::completed(pages)
//! });
//! Worker::new(client, WorkerOptions::new("invoices")).run(handler, Shutdown::new()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Three tasks share a book of what is held ([`hold`]): the claims, the heartbeats, and the deliveries. Each survives a server
//! that is away: claims are asked for again after growing waits, heartbeats until the lease is over, deliveries until they are
//! answered.
//!
//! **Invariant:** a job in hand always ends in an answer, a release, or a lost lease. A handler that panics or forgets has failed.
//!
//! **Invariant:** a handler is told when its lease is lost: when the server says so, or when it could not be renewed before
//! its end. What is delivered after that changes nothing, whatever it is; the token sees to it.
//!
//! Deliberately absent: claiming ahead. A job that waits in a worker is a job that no other worker can have.

mod beat;
mod deliver;
mod hold;
mod job;
mod run;

use std::future::Future;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use job::{Completion, Failure, Job, JobHandle, Outcome, Stop};
pub use run::{Summary, Worker};

/// What a worker is told to do.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// Whose jobs.
    pub pipeline: String,
    /// Who it is, for the log and for those who wonder where their job is.
    pub worker_id: String,
    /// How many calls of the handler at once.
    pub concurrency: usize,
    /// How many jobs in one call of the handler, at the most.
    pub batch: usize,
    /// How long a lease is; none for the pipeline's own.
    pub lease: Option<Duration>,
    /// How long a claim waits for work before it is asked again.
    pub wait: Duration,
    /// How long what runs may go on after the shutdown began.
    pub grace: Duration,
    /// End when there is no work, instead of waiting for more.
    pub until_empty: bool,
}

impl WorkerOptions {
    /// One job at a time.
    pub fn new(pipeline: impl Into<String>) -> Self {
        Self {
            pipeline: pipeline.into(),
            worker_id: "worker".to_owned(),
            concurrency: 1,
            batch: 1,
            lease: None,
            wait: Duration::from_secs(20),
            grace: Duration::from_secs(30),
            until_empty: false,
        }
    }
}

/// What makes something of jobs.
pub trait Handler: Send + Sync + 'static {
    /// Works on one to [`WorkerOptions::batch`] jobs and settles each of them. One that it drops has failed.
    fn handle(&self, jobs: Vec<Job>) -> impl Future<Output = ()> + Send;
}

/// A handler of single jobs, from a function.
#[derive(Debug)]
pub struct Each<F>(F);

/// A handler that gives every job to a function.
pub const fn each<F, R>(function: F) -> Each<F>
where
    F: Fn(JobHandle) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send,
{
    Each(function)
}

impl<F, R> Handler for Each<F>
where
    F: Fn(JobHandle) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send,
{
    async fn handle(&self, jobs: Vec<Job>) {
        for job in jobs {
            let outcome = (self.0)(job.handle().clone()).await;
            job.settle(outcome);
        }
    }
}

/// How a worker is told to end: in order, or at once.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    pub(crate) drain: CancellationToken,
    pub(crate) now: CancellationToken,
}

impl Shutdown {
    /// One that was not asked for yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Claim nothing more; what runs may end, within the grace.
    pub fn drain(&self) {
        self.drain.cancel();
    }

    /// Stop what runs too, and hand it back.
    pub fn now(&self) {
        self.drain.cancel();
        self.now.cancel();
    }
}
