//! One command for several jobs: a line of JSON each on its standard input, an answer each on its standard output, told by
//! `jobId`. An answer counts at once, whatever becomes of the others.

use std::collections::HashMap;

use anyhow::Result;
use docket_client::worker::{Job, JobHandle, Outcome, Stop};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::task::JoinSet;

use super::answer::{Given, read_answer, read_named};
use super::end::outcome_of;
use super::lines::RawLine;
use super::logged::Logged;
use super::once::Exec;
use super::process::Process;
use super::steps::Steps;
use super::workplace::Workplace;

/// The jobs that have no answer yet.
type Open = HashMap<String, Job>;

impl Exec {
    /// Runs the command for jobs, and settles each of them.
    pub(crate) async fn batch(&self, jobs: Vec<Job>) {
        let mut open = Open::new();
        let (mut places, mut input) = (Vec::new(), Vec::new());
        for job in jobs {
            let made = tokio::select! {
                made = self.prepare(job.handle()) => made,
                _ = job.handle().stopped() => {
                    job.settle(Outcome::Released);
                    continue;
                }
            };
            match made {
                Ok((place, line)) => {
                    places.push(place);
                    input.extend(line);
                    input.push(b'\n');
                    open.insert(job.handle().id().to_string(), job);
                }
                Err(error) => job.settle(Outcome::failed(format!("{error:#}"))),
            }
        }
        if open.is_empty() {
            return;
        }
        if let Err(error) = self.run_batch(&mut open, input).await {
            for (_, job) in open.drain() {
                job.settle(Outcome::failed(format!("{error:#}")));
            }
        }
    }

    async fn prepare(&self, job: &JobHandle) -> Result<(Workplace, Vec<u8>)> {
        let place = Workplace::make(job, &self.folder).await?;
        let line = serde_json::to_vec(&place.document(job)?)?;
        Ok((place, line))
    }

    async fn run_batch(&self, open: &mut Open, input: Vec<u8>) -> Result<()> {
        let handles: Vec<JobHandle> = open.values().map(|job| job.handle().clone()).collect();
        let logged = Logged::new(format!("batch of {}", handles.len()));
        let steps = Steps::of(&handles);
        let mut process = Process::start(&self.command, &self.folder, Vec::new(), steps, logged)?;
        let feeding = process.stdin.take().map(|mut stdin| {
            tokio::spawn(async move {
                stdin.write_all(&input).await.ok();
            })
        });
        let (logged, reporter) = (std::sync::Arc::clone(&process.logged), process.reporter.clone());
        let mut answers = JoinSet::new();
        let end = process
            .finish(self.limits, all_stopped(&handles), |line| {
                match take_answer(open, &line) {
                    Some((job, answer)) => drop(answers.spawn(settle_after(reporter.told(), job, answer))),
                    None => logged.other_output(&line.bytes),
                }
            })
            .await;
        if let Some(feeding) = feeding {
            feeding.abort();
        }
        let last = process.logged.last();
        for (_, job) in open.drain() {
            let outcome = match (&end, job.handle().must_stop()) {
                (_, Some(_)) | (super::end::End::Stopped(_), _) => Outcome::Released,
                (super::end::End::Exited(status), _) if status.success() => {
                    Outcome::failed("the command ended without an answer for this job")
                }
                _ => end.failure(None, last.clone()),
            };
            job.settle(outcome);
        }
        answers.join_all().await;
        Ok(())
    }
}

/// The job that a line answers for, and what the line says of it.
fn take_answer(open: &mut Open, line: &RawLine) -> Option<(Job, Given)> {
    if line.is_cut {
        return None;
    }
    let (id, answer) = read_named(&line.bytes)?;
    Some((open.remove(&id?)?, answer))
}

/// Settles a job by its answer. The steps that the command reported before it belong before it.
async fn settle_after(told: impl Future<Output = Result<(), String>>, job: Job, answer: Given) {
    let outcome = tokio::select! {
        told = told => match told {
            Ok(()) => answered(answer),
            Err(problem) => Outcome::failed_for_good(problem),
        },
        _ = job.handle().stopped() => Outcome::Released,
    };
    job.settle(outcome);
}

/// What a named answer says. One that holds nothing but the name is a success without a result.
pub(crate) fn answered(answer: Given) -> Outcome {
    let is_empty = |answer: &Value| answer.as_object().is_some_and(serde_json::Map::is_empty);
    if answer.as_ref().is_ok_and(is_empty) {
        return Outcome::completed(None);
    }
    match answer.and_then(read_answer) {
        Ok(answer) => outcome_of(answer),
        Err(problem) => Outcome::failed(problem),
    }
}

/// Waits until there is no job left that is worth going on for: one lost lease does not end the work on the others. A command that
/// has answered for all its jobs is left to end by itself.
async fn all_stopped(jobs: &[JobHandle]) -> Stop {
    let mut ends: FuturesUnordered<_> = jobs.iter().map(JobHandle::ended).collect();
    let mut lost = None;
    while let Some(end) = ends.next().await {
        match end {
            Some(Stop::Shutdown) => return Stop::Shutdown,
            Some(Stop::LeaseLost) => lost = end,
            None => {}
        }
    }
    match lost {
        Some(why) => why,
        None => std::future::pending().await,
    }
}
