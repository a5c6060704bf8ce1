//! One long-lived command for each slot: a line of JSON for each job in, a line for each answer out, one job at a time.
//!
//! A process that dies takes only the job in hand with it, which fails and may be tried again; the next job gets a new process.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use docket_client::worker::{Job, JobHandle, Outcome};
use futures_util::FutureExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;

use super::answer::{Given, read_named};
use super::batch::answered;
use super::end::End;
use super::lines::RawLine;
use super::logged::Logged;
use super::once::Exec;
use super::process::Process;
use super::steps::Steps;
use super::workplace::Workplace;

/// The processes that wait for work.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Process>>,
}

impl Pool {
    fn take(&self) -> Option<Process> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(mut process) = idle.pop() {
            // One that died while it waited is of no use; its group is killed as it is dropped.
            if process.group.wait().now_or_never().is_none() {
                return Some(process);
            }
            process.group.kill();
        }
        None
    }

    fn give_back(&self, process: Process) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(process);
    }

    /// Ends the processes: their input ends, and they have a while to end with it.
    pub(crate) async fn close(&self, patience: Duration) {
        let idle = std::mem::take(&mut *self.idle.lock().unwrap_or_else(PoisonError::into_inner));
        let ends = idle.into_iter().map(|mut process| async move {
            drop(process.stdin.take());
            if tokio::time::timeout(patience, process.group.wait())
                .await
                .is_err()
            {
                process.group.end(Duration::ZERO).await;
            }
            process.group.kill();
        });
        futures_util::future::join_all(ends).await;
    }
}

/// How an exchange with a process ended.
enum Exchange {
    /// It answered, and can be given more.
    Answered(Outcome),
    /// It is no good any more.
    Ended(Outcome),
}

/// What a process said.
enum Said {
    /// An answer, after it had read all of the job or before.
    Answer { answer: Given, was_read: bool },
    /// None; why it was given up, or nothing where its output has ended.
    Nothing(Option<End>),
}

impl Exec {
    /// Gives a job to a waiting process, or to a new one, and settles it.
    pub(crate) async fn stream(&self, pool: &Pool, job: Job) {
        let handle = job.handle().clone();
        let outcome = match self.exchange(pool, &handle).await {
            Ok(outcome) => outcome,
            Err(error) => Outcome::failed(format!("{error:#}")),
        };
        job.settle(outcome);
    }

    async fn exchange(&self, pool: &Pool, job: &JobHandle) -> Result<Outcome> {
        let place = tokio::select! {
            place = Workplace::make(job, &self.folder) => place?,
            _ = job.stopped() => return Ok(Outcome::Released),
        };
        let mut line = serde_json::to_vec(&place.document(job)?)?;
        line.push(b'\n');
        let mut process = match pool.take() {
            Some(process) => process,
            None => Process::start(
                &self.command,
                &self.folder,
                Vec::new(),
                Steps::default(),
                Logged::new(""),
            )?,
        };
        process.steps.set([job]);
        process.logged.begin(job.id().to_string());
        match self.ask(&mut process, job, &line).await {
            Exchange::Answered(outcome) => {
                process.steps.set([]);
                pool.give_back(process);
                Ok(outcome)
            }
            Exchange::Ended(outcome) => Ok(outcome),
        }
    }

    async fn ask(&self, process: &mut Process, job: &JobHandle, line: &[u8]) -> Exchange {
        let Some(mut stdin) = process.stdin.take() else {
            return Exchange::Ended(Outcome::failed("the command takes no input"));
        };
        match self.converse(process, &mut stdin, job, line).await {
            Said::Answer { answer, was_read } => {
                // The steps that it reported belong before its answer.
                let told = tokio::select! {
                    told = process.reporter.told() => told,
                    _ = job.stopped() => return Exchange::Ended(Outcome::Released),
                };
                match told {
                    Err(problem) => Exchange::Ended(Outcome::failed_for_good(problem)),
                    Ok(()) if was_read => {
                        process.stdin = Some(stdin);
                        Exchange::Answered(answered(answer))
                    }
                    // The rest of this job would be the beginning of the next.
                    Ok(()) => Exchange::Ended(answered(answer)),
                }
            }
            Said::Nothing(end) => {
                drop(stdin);
                Exchange::Ended(self.unanswered(process, job, end).await)
            }
        }
    }

    /// Gives a process a job and listens to what it says, until it answers or there is a reason to give it up.
    async fn converse(
        &self,
        process: &mut Process,
        stdin: &mut ChildStdin,
        job: &JobHandle,
        line: &[u8],
    ) -> Said {
        let mut reporter = process.reporter.clone();
        let timeout = async {
            match self.limits.timeout {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let feeding = async {
            stdin.write_all(line).await.ok();
            stdin.flush().await.ok();
        };
        tokio::pin!(timeout, feeding);
        let mut was_read = false;
        loop {
            tokio::select! {
                biased;
                () = &mut feeding, if !was_read => was_read = true,
                line = process.lines.recv() => match line {
                    None => return Said::Nothing(None),
                    Some(line) => match named(job, &line) {
                        Some(answer) => return Said::Answer { answer, was_read },
                        None => process.logged.other_output(&line.bytes),
                    },
                },
                why = job.stopped() => return Said::Nothing(Some(End::Stopped(why))),
                problem = reporter.refused() => return Said::Nothing(Some(End::StepRefused(problem))),
                () = &mut timeout => return Said::Nothing(self.limits.timeout.map(End::TimedOut)),
            }
        }
    }

    /// What becomes of a job whose process gave no answer: it was given up, or its output has ended.
    async fn unanswered(&self, process: &mut Process, job: &JobHandle, end: Option<End>) -> Outcome {
        let end = match end {
            Some(end) => {
                process.group.end(self.limits.kill_after).await;
                end
            }
            None => {
                // It has ended, or it will at once.
                let mut limits = self.limits;
                limits.timeout = Some(limits.kill_after);
                process.finish(limits, job.stopped(), |_| {}).await
            }
        };
        match end {
            End::Stopped(_) => Outcome::Released,
            End::Exited(status) if status.success() => {
                Outcome::failed("the command ended without an answer for this job")
            }
            end => end.failure(None, process.logged.last()),
        }
    }
}

/// The answer for this job in a line: an object that names it, or names none.
fn named(job: &JobHandle, line: &RawLine) -> Option<Given> {
    if line.is_cut {
        return None;
    }
    let (id, answer) = read_named(&line.bytes)?;
    id.is_none_or(|id| id == job.id().to_string()).then_some(answer)
}
