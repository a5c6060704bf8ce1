//! A job in a worker's hands, and what can be said of it.

use std::sync::Arc;

use docket_core::id::JobId;
use docket_core::lease::LeaseToken;
use docket_wire::field::MachineField;
use docket_wire::job::ClaimedJob;
use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::client::Client;
use crate::error::{ClientError, Result};

/// Why a handler has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The lease is lost: whatever comes of it will not count.
    LeaseLost,
    /// The worker ends, and the grace is over: the job is handed back.
    Shutdown,
}

/// What was made of a job.
#[derive(Clone, Debug, Default)]
pub struct Completion {
    /// What came out.
    pub result: Option<Value>,
    /// The values read; none leaves the item's as they are.
    pub fields: Option<Vec<MachineField>>,
    /// What a reviewer should see.
    pub display_payload: Option<Value>,
    /// How much there is to review.
    pub line_item_count: Option<u32>,
    /// What it is worth.
    pub total_amount: Option<f64>,
}

/// Why it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub error: String,
    /// In which step.
    pub step: Option<String>,
    /// Whether another attempt may do better.
    pub retryable: bool,
}

/// How an attempt ends.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Done.
    Completed(Box<Completion>),
    /// Not done, and why.
    Failed(Failure),
    /// Handed back: another worker may have it.
    Released,
}

impl Outcome {
    /// Done, with a result or without.
    pub fn completed(result: Option<Value>) -> Self {
        Self::Completed(Box::new(Completion {
            result,
            ..Completion::default()
        }))
    }

    /// Not done; another attempt may do better.
    pub fn failed(error: impl Into<String>) -> Self {
        Self::Failed(Failure {
            error: error.into(),
            step: None,
            retryable: true,
        })
    }

    /// Not done, and no attempt will do better.
    pub fn failed_for_good(error: impl Into<String>) -> Self {
        Self::Failed(Failure {
            error: error.into(),
            step: None,
            retryable: false,
        })
    }
}

/// An outcome on its way to the server.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) job: JobId,
    pub(crate) token: LeaseToken,
    pub(crate) outcome: Outcome,
    /// How often the server refused it.
    pub(crate) refused: u32,
}

/// A job, for those who work on it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JobHandle {
    claimed: Arc<ClaimedJob>,
    client: Client,
    stop: watch::Receiver<Option<Stop>>,
}

impl JobHandle {
    /// What was claimed.
    pub fn claimed(&self) -> &ClaimedJob {
        &self.claimed
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.claimed.job_id
    }

    /// The output of a step that an earlier attempt finished.
    pub fn finished(&self, step: &str) -> Option<&Value> {
        self.claimed
            .steps
            .iter()
            .find(|known| known.name == step)?
            .output
            .as_ref()
    }

    /// Reports a finished step; its output is kept from then on. While the server is away this waits for it, as long as the
    /// lease holds.
    pub async fn step(&self, name: &str, output: &Value) -> Result<()> {
        let mut stop = self.stop.clone();
        let mut failed = 0;
        loop {
            let said = self
                .client
                .step(self.id(), self.claimed.lease_token, name, output)
                .await;
            match said {
                Err(error) if error.is_passing() => {
                    failed += 1;
                    let wait = crate::retry::backoff(failed, 200, 5_000, self.client.random());
                    tokio::select! {
                        () = tokio::time::sleep(wait) => {}
                        _ = stop.wait_for(Option::is_some) => return Err(error),
                    }
                }
                said => return said,
            }
        }
    }

    /// Waits until the handler has to stop; for ever, if it never has to.
    pub async fn stopped(&self) -> Stop {
        match self.ended().await {
            Some(why) => why,
            None => std::future::pending().await,
        }
    }

    /// Waits until the handler has to stop, or until the server has taken the job's outcome; none in that case.
    pub async fn ended(&self) -> Option<Stop> {
        let mut stop = self.stop.clone();
        // The book forgets a job when its outcome is answered.
        stop.wait_for(Option::is_some).await.ok().and_then(|why| *why)
    }

    /// Whether the handler has to stop.
    pub fn must_stop(&self) -> Option<Stop> {
        *self.stop.borrow()
    }

    /// Writes the item's file to a path. None where the item has no file.
    pub async fn download(&self, to: &std::path::Path) -> Result<Option<u64>> {
        match &self.claimed.content_url {
            None => Ok(None),
            Some(url) => self.client.download(url, to).await.map(Some),
        }
    }
}

/// A job that has to be settled. Dropped, it has failed.
#[derive(Debug)]
pub struct Job {
    handle: JobHandle,
    to: Option<mpsc::UnboundedSender<Settled>>,
}

impl Job {
    pub(crate) fn new(
        claimed: ClaimedJob,
        client: Client,
        stop: watch::Receiver<Option<Stop>>,
        to: mpsc::UnboundedSender<Settled>,
    ) -> Self {
        Self {
            handle: JobHandle {
                claimed: Arc::new(claimed),
                client,
                stop,
            },
            to: Some(to),
        }
    }

    /// The job, to work with.
    pub const fn handle(&self) -> &JobHandle {
        &self.handle
    }

    /// Says what became of it. Delivered in the background, together with others.
    pub fn settle(mut self, outcome: Outcome) {
        self.say(outcome);
    }

    fn say(&mut self, outcome: Outcome) {
        let Some(to) = self.to.take() else { return };
        let settled = Settled {
            job: self.handle.id(),
            token: self.handle.claimed.lease_token,
            outcome,
            refused: 0,
        };
        if to.send(settled).is_err() {
            tracing::error!(job = %self.handle.id(), "the worker has ended; the outcome is not delivered");
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let outcome = match self.handle.must_stop() {
            Some(_) => Outcome::Released,
            None => Outcome::failed("the worker ended its work on the job without an answer"),
        };
        self.say(outcome);
    }
}

impl From<ClientError> for Outcome {
    /// A call that failed has failed the job; it may be tried again, unless the server said no.
    fn from(error: ClientError) -> Self {
        Self::Failed(Failure {
            retryable: error.is_passing(),
            error: error.to_string(),
            step: None,
        })
    }
}
