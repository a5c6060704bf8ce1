//! Finished steps on their way to the server: from lines of standard output, and from `docket step`, which a command's own
//! commands run. That one speaks to a socket in the worker's folder, so no child needs a key, a token or the server's address.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use docket_client::worker::JobHandle;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinHandle;

use super::answer::{LINE_MAX, Line, StepLine, read_line};
use super::lines::Lines;

/// The variable with the socket's path.
pub(crate) const SOCKET_VARIABLE: &str = "DOCKET_STEP_SOCKET";
/// How many steps may wait for the server; a command that reports more waits.
const WAITING_MAX: usize = 1_024;
const CONNECTIONS_MAX: usize = 16;

/// The jobs that a process works on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    jobs: Arc<Mutex<HashMap<String, JobHandle>>>,
}

/// How far the reports have come.
#[derive(Debug, Default)]
struct Told {
    count: u64,
    /// The first step that was refused: its number, and why.
    problem: Option<(u64, String)>,
}

impl Told {
    /// What became of the first `queued` steps; nothing while that is not known.
    fn of_first(&self, queued: u64) -> Option<Result<(), String>> {
        match &self.problem {
            Some((number, problem)) if *number <= queued => Some(Err(problem.clone())),
            _ => (self.count >= queued).then_some(Ok(())),
        }
    }
}

/// Where steps are put in line.
#[derive(Debug)]
pub(crate) struct StepSender {
    to: mpsc::Sender<StepLine>,
    queued: Arc<AtomicU64>,
}

impl StepSender {
    /// Puts a step in line; waits while the line is long.
    pub(crate) async fn send(&self, line: StepLine) {
        self.queued.fetch_add(1, Ordering::SeqCst);
        // The reporter lives as long as this sender.
        self.to.send(line).await.unwrap_or_default();
    }
}

/// How it goes with the steps of a process.
#[derive(Clone, Debug)]
pub(crate) struct Reporter {
    queued: Arc<AtomicU64>,
    reported: watch::Receiver<Told>,
}

impl Reporter {
    /// Waits until every step that stands in line now, at the call, is kept; an error says which is not.
    pub(crate) fn told(&self) -> impl Future<Output = Result<(), String>> + Send + 'static {
        let queued = self.queued.load(Ordering::SeqCst);
        let mut reported = self.reported.clone();
        async move {
            match reported.wait_for(|told| told.of_first(queued).is_some()).await {
                Ok(told) => told.of_first(queued).unwrap_or(Ok(())),
                Err(_) => Err("the worker ended before a step was kept".to_owned()),
            }
        }
    }

    /// Waits for a step that is refused; for ever where none is.
    pub(crate) async fn refused(&mut self) -> String {
        let problem = match self.reported.wait_for(|told| told.problem.is_some()).await {
            Ok(told) => told.problem.as_ref().map(|(_, problem)| problem.clone()),
            Err(_) => None,
        };
        match problem {
            Some(problem) => problem,
            None => std::future::pending().await,
        }
    }
}

/// The socket's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Receipt {
    pub(crate) ok: bool,
    pub(crate) error: Option<String>,
}

impl Steps {
    pub(crate) fn of<'a>(jobs: impl IntoIterator<Item = &'a JobHandle>) -> Self {
        let steps = Self::default();
        steps.set(jobs);
        steps
    }

    /// From now on the process works on these.
    pub(crate) fn set<'a>(&self, jobs: impl IntoIterator<Item = &'a JobHandle>) {
        let jobs = jobs
            .into_iter()
            .map(|job| (job.id().to_string(), job.clone()))
            .collect();
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = jobs;
    }

    fn find(&self, id: Option<&str>) -> Result<JobHandle, String> {
        let jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match id {
            Some(id) => jobs.get(id),
            None if jobs.len() == 1 => jobs.values().next(),
            None => return Err("a step has to say whose it is: it has no jobId".to_owned()),
        };
        found
            .cloned()
            .ok_or_else(|| "a step is of no job that the command was given".to_owned())
    }

    /// Tells the server; an error says why it is not kept.
    pub(crate) async fn report(&self, line: StepLine) -> Result<(), String> {
        let job = self.find(line.job_id.as_deref())?;
        let not_kept = |problem: String| format!("step '{}' could not be kept: {problem}", line.step);
        let output = line
            .output
            .as_ref()
            .map_err(|problem| not_kept(problem.clone()))?;
        let told = job.step(&line.step, output).await;
        told.map_err(|error| not_kept(error.to_string()))
    }

    /// Reports steps in order, as they come, until nobody can send any more.
    pub(crate) fn reporter(&self) -> (StepSender, Reporter) {
        let (sender, mut lines) = mpsc::channel::<StepLine>(WAITING_MAX);
        let (told, reported) = watch::channel(Told::default());
        let steps = self.clone();
        tokio::spawn(async move {
            while let Some(line) = lines.recv().await {
                // After a refusal the rest is only taken, so that nobody waits for us.
                let result = if told.borrow().problem.is_some() {
                    Ok(())
                } else {
                    steps.report(line).await
                };
                told.send_modify(|told| {
                    told.count += 1;
                    if let Err(problem) = result {
                        told.problem = Some((told.count, problem));
                    }
                });
            }
        });
        let queued = Arc::new(AtomicU64::new(0));
        let sender = StepSender {
            to: sender,
            queued: Arc::clone(&queued),
        };
        (sender, Reporter { queued, reported })
    }

    /// Listens to `docket step` until it is dropped.
    pub(crate) fn listen(&self, path: &Path) -> Result<Listening> {
        let listener = UnixListener::bind(path)
            .with_context(|| format!("no socket can be made at {}", path.display()))?;
        let steps = self.clone();
        let task = tokio::spawn(async move {
            let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            while let Ok(slot) = Arc::clone(&slots).acquire_owned().await {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                let steps = steps.clone();
                tokio::spawn(async move {
                    if let Err(error) = steps.answer(stream).await {
                        tracing::debug!(%error, "a step's caller has gone");
                    }
                    drop(slot);
                });
            }
        });
        Ok(Listening {
            task,
            path: path.to_owned(),
        })
    }

    async fn answer(&self, stream: UnixStream) -> Result<()> {
        let (reader, mut writer) = stream.into_split();
        let line = Lines::new(reader, LINE_MAX).next().await?;
        let told = match line.map(|line| read_line(&line.bytes)) {
            Some(Line::Step(step)) => self.report(step).await,
            _ => Err("this is no step".to_owned()),
        };
        let receipt = Receipt {
            ok: told.is_ok(),
            error: told.err(),
        };
        let mut text = serde_json::to_vec(&receipt)?;
        text.push(b'\n');
        writer.write_all(&text).await?;
        Ok(())
    }
}

/// A socket that is listened to.
#[derive(Debug)]
pub(crate) struct Listening {
    task: JoinHandle<()>,
    path: PathBuf,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
        // Its folder goes with the worker; what cannot be removed now is removed then.
        std::fs::remove_file(&self.path).ok();
    }
}
