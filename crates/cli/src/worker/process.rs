//! A command at work: its pipes are emptied at all times, by tasks of their own, so that neither side can wait for the other.

use std::ffi::OsString;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use docket_client::worker::Stop;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::answer::{LINE_MAX, Line, read_line};
use super::child::{self, DRAIN, Group};
use super::end::End;
use super::lines::{Lines, RawLine};
use super::logged::Logged;
use super::steps::{Listening, Reporter, SOCKET_VARIABLE, Steps};

/// How many lines of standard output may wait to be looked at.
const LINES_MAX: usize = 64;

/// What bounds a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long it may take.
    pub(crate) timeout: Option<Duration>,
    /// How long it has to end after it was asked to.
    pub(crate) kill_after: Duration,
}

/// A started command.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) group: Group,
    pub(crate) stdin: Option<ChildStdin>,
    /// The lines of standard output that are no steps.
    pub(crate) lines: mpsc::Receiver<RawLine>,
    pub(crate) logged: Arc<Logged>,
    pub(crate) steps: Steps,
    pub(crate) reporter: Reporter,
    reader: JoinHandle<()>,
    errors: JoinHandle<()>,
    _socket: Option<Listening>,
}

impl Process {
    /// Starts a command. Steps that it reports, by lines or by its socket in `folder`, go to the server at once.
    pub(crate) fn start(
        command: &str,
        folder: &Path,
        mut variables: Vec<(&'static str, OsString)>,
        steps: Steps,
        logged: Logged,
    ) -> Result<Self> {
        let path = folder.join(format!("steps-{}.sock", socket_number()));
        let socket = match steps.listen(&path) {
            Ok(socket) => {
                variables.push((SOCKET_VARIABLE, path.into()));
                Some(socket)
            }
            Err(error) => {
                tracing::warn!("`docket step` will not work: {error:#}");
                None
            }
        };
        let (group, pipes) = child::start(command, &variables).context("the command cannot be started")?;
        let logged = Arc::new(logged);
        let (to_lines, lines) = mpsc::channel(LINES_MAX);
        let (to_steps, reporter) = steps.reporter();
        let reader = tokio::spawn(async move {
            let mut stdout = Lines::new(pipes.stdout, LINE_MAX);
            while let Ok(Some(line)) = stdout.next().await {
                let step = if line.is_cut {
                    Line::Other
                } else {
                    read_line(&line.bytes)
                };
                // Where nobody listens any more the rest is read all the same: the command must not hang on us.
                match step {
                    Line::Step(step) => to_steps.send(step).await,
                    Line::Other => to_lines.send(line).await.unwrap_or_default(),
                }
            }
        });
        let errors = {
            let logged = Arc::clone(&logged);
            tokio::spawn(async move { logged.pump(pipes.stderr).await })
        };
        Ok(Self {
            group,
            stdin: Some(pipes.stdin),
            lines,
            logged,
            steps,
            reporter,
            reader,
            errors,
            _socket: socket,
        })
    }

    /// Waits for the end of a command, or brings it about, while `lines` are given to `take`. Afterwards nothing of it is left, and
    /// everything that it said has been seen.
    pub(crate) async fn finish(
        &mut self,
        limits: Limits,
        stop: impl Future<Output = Stop>,
        mut take: impl FnMut(RawLine),
    ) -> End {
        let timeout = async {
            match limits.timeout {
                Some(limit) => {
                    tokio::time::sleep(limit).await;
                    limit
                }
                None => std::future::pending().await,
            }
        };
        tokio::pin!(stop, timeout);
        let mut reporter = self.reporter.clone();
        let mut end = loop {
            tokio::select! {
                status = self.group.wait() => break status.map_or_else(End::Unknown, End::Exited),
                why = &mut stop => break End::Stopped(why),
                limit = &mut timeout => break End::TimedOut(limit),
                problem = reporter.refused() => break End::StepRefused(problem),
                Some(line) = self.lines.recv() => take(line),
            }
        };
        match &end {
            End::Exited(_) => self.group.kill(),
            _ => self.group.end(limits.kill_after).await,
        }
        self.drain(&mut take).await;
        // The last steps may still wait for the server; they belong before the answer.
        if matches!(end, End::Exited(_)) {
            tokio::select! {
                told = self.reporter.told() => if let Err(problem) = told { end = End::StepRefused(problem) },
                why = &mut stop => end = End::Stopped(why),
            }
        }
        end
    }

    /// Reads what is left in the pipes. A process that has left the group may hold them open; it is not waited for.
    async fn drain(&mut self, take: &mut impl FnMut(RawLine)) {
        let rest = async {
            while let Some(line) = self.lines.recv().await {
                take(line);
            }
            (&mut self.errors).await.ok();
        };
        if tokio::time::timeout(DRAIN, rest).await.is_err() {
            tracing::warn!(
                "a process that the command left behind holds its output open; it is not waited for"
            );
        }
        self.reader.abort();
        self.errors.abort();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.reader.abort();
        self.errors.abort();
    }
}

/// Sockets of one worker are numbered: several processes may share a folder.
fn socket_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
