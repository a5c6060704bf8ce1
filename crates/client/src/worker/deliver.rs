//! Deliveries: what came of jobs is told to the server in batches, without a timer: what arrives while a call is under way rides
//! in the next.
//!
//! Completing and failing are answered the same when they are said twice with the same token, and a lease that is gone is
//! answered `lease_lost`; so every call here may be repeated until it is answered. While the server is away outcomes wait;
//! they are as many as jobs are held, which is bounded.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use docket_wire::job::{Complete, Fail, Release};
use docket_wire::{Code, EntryError};
use tokio::sync::mpsc::UnboundedReceiver;

use super::hold::Holds;
use super::job::{Completion, Failure, Outcome, Settled};
use crate::client::Client;
use crate::error::{ClientError, Result};
use crate::retry::{RetryPolicy, backoff};

/// The most outcomes of a call, and about how many bytes of results.
const BATCH_MAX: usize = 1_000;
const BATCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// An outcome that was refused so often is given up: the lease will run out.
const REFUSED_MAX: u32 = 2;

/// How jobs ended.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) completed: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) released: AtomicU64,
    pub(crate) lost: AtomicU64,
}

/// Delivers outcomes until there are none to come.
pub(crate) struct Deliveries {
    client: Client,
    holds: Arc<Holds>,
    tally: Arc<Tally>,
    waiting: VecDeque<Settled>,
    /// How many ride in a call; one at a time after a call was refused as a whole.
    batch_max: usize,
}

/// One kind of outcome, taken out of the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Complete,
    Fail,
    Release,
}

impl Kind {
    const fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Completed(_) => Self::Complete,
            Outcome::Failed(_) => Self::Fail,
            Outcome::Released => Self::Release,
        }
    }
}

impl Deliveries {
    pub(crate) fn new(client: &Client, holds: Arc<Holds>, tally: Arc<Tally>) -> Self {
        Self {
            // The loop below repeats by itself, for as long as it takes.
            client: client.with_retry(RetryPolicy::never()),
            holds,
            tally,
            waiting: VecDeque::new(),
            batch_max: BATCH_MAX,
        }
    }

    /// Delivers until every sender is gone and everything is answered.
    pub(crate) async fn run(mut self, mut from: UnboundedReceiver<Settled>) {
        let mut failed = 0;
        loop {
            if self.waiting.is_empty() {
                match from.recv().await {
                    None => return,
                    Some(settled) => self.enter(settled),
                }
            }
            while let Ok(settled) = from.try_recv() {
                self.enter(settled);
            }
            match self.deliver().await {
                Ok(()) => failed = 0,
                Err(error) => {
                    failed += 1;
                    let waiting = self.waiting.len();
                    tracing::warn!(%error, waiting, "outcomes could not be delivered; they are tried again");
                    tokio::time::sleep(backoff(failed, 200, 5_000, self.client.random())).await;
                }
            }
        }
    }

    fn enter(&mut self, settled: Settled) {
        self.holds.settling(settled.job);
        self.waiting.push_back(settled);
    }

    /// Delivers the outcomes of one kind that stand in front. An error has put them back.
    async fn deliver(&mut self) -> Result<()> {
        let Some(first) = self.waiting.front() else {
            return Ok(());
        };
        let kind = Kind::of(&first.outcome);
        let batch = self.take(kind);
        let answers = match kind {
            Kind::Complete => {
                let jobs = batch.iter().filter_map(complete).collect();
                self.client.complete(jobs).await.map(plain)
            }
            Kind::Fail => {
                let jobs = batch.iter().filter_map(fail).collect();
                self.client.fail(jobs).await.map(plain)
            }
            Kind::Release => {
                let jobs = batch.iter().map(release).collect();
                self.client.release(jobs).await.map(plain)
            }
        };
        match answers {
            Ok(answers) if answers.len() == batch.len() => {
                self.batch_max = (self.batch_max * 2).min(BATCH_MAX);
                for (settled, answer) in batch.into_iter().zip(answers) {
                    self.answered(settled, &answer);
                }
                Ok(())
            }
            Ok(_) => {
                self.put_back(batch);
                Err(self.client.unreadable("another number of results than jobs"))
            }
            Err(error) => self.refused(batch, error),
        }
    }

    /// A call failed as a whole.
    fn refused(&mut self, batch: Vec<Settled>, error: ClientError) -> Result<()> {
        let is_about_content = match &error {
            ClientError::Problem(problem) => matches!(problem.status, 400 | 413 | 422),
            _ => false,
        };
        match (is_about_content, batch.len()) {
            // Everything else may pass: the server is away, or somebody mends the key.
            (false, _) => {
                self.put_back(batch);
                Err(error)
            }
            (true, 1) => {
                let answer = Err(EntryError::new(Code::ValidationFailed, error.to_string()));
                for settled in batch {
                    self.answered(settled, &answer);
                }
                Ok(())
            }
            // One of them spoils the call; alone it is found.
            (true, _) => {
                self.batch_max = 1;
                self.put_back(batch);
                Ok(())
            }
        }
    }

    fn take(&mut self, kind: Kind) -> Vec<Settled> {
        let (mut batch, mut rest, mut bytes) = (Vec::new(), VecDeque::new(), 0);
        for settled in std::mem::take(&mut self.waiting) {
            let size = size(&settled.outcome);
            let has_room =
                batch.is_empty() || (batch.len() < self.batch_max && bytes + size <= BATCH_BYTES_MAX);
            if Kind::of(&settled.outcome) == kind && has_room {
                bytes += size;
                batch.push(settled);
            } else {
                rest.push_back(settled);
            }
        }
        self.waiting = rest;
        batch
    }

    fn put_back(&mut self, batch: Vec<Settled>) {
        for settled in batch.into_iter().rev() {
            self.waiting.push_front(settled);
        }
    }

    fn answered(&mut self, mut settled: Settled, answer: &std::result::Result<(), EntryError>) {
        let job = settled.job;
        let counter = match (&settled.outcome, answer) {
            (_, Err(error)) if error.code == Code::LeaseLost.as_str() => {
                // A release that is said twice is answered so too, and then all is well.
                if !matches!(settled.outcome, Outcome::Released) {
                    tracing::warn!(%job, "the lease was lost; the outcome does not count");
                }
                &self.tally.lost
            }
            (_, Err(error)) => {
                tracing::error!(%job, %error, "the server refused the outcome");
                settled.refused += 1;
                if settled.refused <= REFUSED_MAX {
                    settled.outcome = instead(&settled, error);
                    self.waiting.push_back(settled);
                    return;
                }
                &self.tally.lost
            }
            (Outcome::Completed(_), Ok(())) => &self.tally.completed,
            (Outcome::Failed(_), Ok(())) => &self.tally.failed,
            (Outcome::Released, Ok(())) => &self.tally.released,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%job, "settled");
        self.holds.forget(job, settled.token);
    }
}

/// What is said of a job whose outcome the server does not take: that it failed so. The same result would be refused again.
fn instead(settled: &Settled, error: &EntryError) -> Outcome {
    match &settled.outcome {
        Outcome::Completed(_) | Outcome::Released => Outcome::failed_for_good(format!(
            "the server refused what the worker answered: {}",
            error.detail
        )),
        Outcome::Failed(failure) => Outcome::Failed(Failure {
            error: failure.error.replace('\0', "\u{fffd}"),
            step: None,
            retryable: failure.retryable,
        }),
    }
}

fn plain<T>(answers: Vec<std::result::Result<T, EntryError>>) -> Vec<std::result::Result<(), EntryError>> {
    answers.into_iter().map(|answer| answer.map(drop)).collect()
}

fn complete(settled: &Settled) -> Option<Complete> {
    let Outcome::Completed(completion) = &settled.outcome else {
        return None;
    };
    let Completion {
        result,
        fields,
        display_payload,
        line_item_count,
        total_amount,
    } = (**completion).clone();
    Some(Complete {
        job_id: settled.job.uuid(),
        lease_token: settled.token,
        result,
        fields,
        display_payload,
        line_item_count,
        total_amount,
    })
}

fn fail(settled: &Settled) -> Option<Fail> {
    let Outcome::Failed(failure) = &settled.outcome else {
        return None;
    };
    Some(Fail {
        job_id: settled.job.uuid(),
        lease_token: settled.token,
        error: failure.error.clone(),
        step: failure.step.clone(),
        retryable: failure.retryable,
    })
}

fn release(settled: &Settled) -> Release {
    Release {
        job_id: settled.job.uuid(),
        lease_token: settled.token,
    }
}

/// About how many bytes an outcome has on the wire.
fn size(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Completed(completion) => {
            let json =
                |value: &Option<serde_json::Value>| value.as_ref().map_or(0, |value| value.to_string().len());
            let fields = completion.fields.as_ref().map_or(0, |fields| {
                fields
                    .iter()
                    .map(|field| field.name.len() + field.value.to_string().len() + 128)
                    .sum()
            });
            256 + json(&completion.result) + json(&completion.display_payload) + fields
        }
        Outcome::Failed(failure) => 256 + failure.error.len(),
        Outcome::Released => 128,
    }
}
