//! `docket worker`: a worker in any language is one shell line. Claims jobs, gives each to a command, and tells the server what
//! came of it; leases, retries, outages and the end are taken care of here.
//!
//! Deliberately absent: rules. What an exit code and an answer mean is in [`end`] and [`answer`]; all else is the worker loop
//! of `docket-client`.

mod answer;
mod batch;
mod child;
mod end;
pub(crate) mod lines;
mod logged;
mod once;
mod process;
pub(crate) mod step;
mod steps;
mod stream;
mod workplace;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use docket_client::worker::{Handler, Job, Shutdown, Summary, Worker, WorkerOptions};
use docket_core::random::{Random as _, SystemRandom};
use tokio::signal::unix::{SignalKind, signal};

use crate::logs::LogArgs;
use crate::remote::ServerArgs;
use once::Exec;
use process::Limits;
use stream::Pool;

/// How a command is fed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// A process for each job, or for each batch
    Once,
    /// One long-lived process for each slot that speaks JSON lines
    Stream,
}

/// What `docket worker` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    logs: LogArgs,
    /// The pipeline whose jobs are worked on
    #[arg(long, value_name = "NAME")]
    pipeline: String,
    /// The command, run by `sh -c`: the job comes as JSON on its standard input, its last JSON on standard output is the result
    #[arg(long, value_name = "CMD")]
    exec: String,
    /// How many commands run at once
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// How many jobs a command is given at once, as JSON lines; it answers each with a line that has its jobId
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    batch: Option<u16>,
    /// How the command is fed
    #[arg(long, value_enum, default_value_t = Mode::Once)]
    mode: Mode,
    /// How long a lease is; it is renewed at a third of that [default: the pipeline's own]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    lease_seconds: Option<Duration>,
    /// Who this worker is, in the log and in explanations [default: the machine's name and a random number]
    #[arg(long, value_name = "ID")]
    worker_id: Option<String>,
    /// How long a command may take for its job or its batch [default: as long as it likes]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout_seconds: Option<Duration>,
    /// How long what runs may go on after SIGTERM or SIGINT; what is not done then is stopped and handed back
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    grace_seconds: Duration,
    /// How long a command has to end after SIGTERM before it is killed
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    kill_after_seconds: Duration,
    /// End when there is no work left
    #[arg(long)]
    until_empty: bool,
    /// Where files are put for commands [default: the system's folder for such files]
    #[arg(long, value_name = "DIR")]
    temp: Option<PathBuf>,
}

/// Reads a number of seconds, with a fraction where one likes.
fn seconds(text: &str) -> Result<Duration, String> {
    const MAX: f64 = 604_800.0;
    match text.parse::<f64>() {
        Ok(number) if (0.0..=MAX).contains(&number) => Ok(Duration::from_secs_f64(number)),
        _ => Err("a number of seconds from 0 to 604800 (a week)".to_owned()),
    }
}

/// What jobs are given to.
#[derive(Debug)]
enum Command {
    Once(Exec),
    Batch(Exec),
    Stream(Exec, Arc<Pool>),
}

impl Handler for Command {
    async fn handle(&self, jobs: Vec<Job>) {
        match self {
            Self::Batch(exec) => exec.batch(jobs).await,
            Self::Once(exec) => {
                for job in jobs {
                    let outcome = exec.once(job.handle()).await;
                    job.settle(outcome);
                }
            }
            Self::Stream(exec, pool) => {
                for job in jobs {
                    exec.stream(pool, job).await;
                }
            }
        }
    }
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    if args.batch.is_some() && args.mode == Mode::Stream {
        bail!("--batch and --mode stream exclude each other: a stream is given one job after the other");
    }
    let _logs = args.logs.start(None, None)?;
    let client = args.server.client()?;
    let folder = match &args.temp {
        Some(root) => tempfile::Builder::new().prefix("docket-worker-").tempdir_in(root),
        None => tempfile::Builder::new().prefix("docket-worker-").tempdir(),
    };
    let folder = folder.context("no folder can be made for the commands' files; name one with --temp")?;
    let exec = Exec {
        command: args.exec.clone(),
        folder: folder.path().to_owned(),
        limits: Limits {
            timeout: args.timeout_seconds,
            kill_after: args.kill_after_seconds,
        },
    };
    let pool = Arc::new(Pool::default());
    let command = match (args.mode, args.batch) {
        (Mode::Stream, _) => Command::Stream(exec, Arc::clone(&pool)),
        (Mode::Once, Some(_)) => Command::Batch(exec),
        (Mode::Once, None) => Command::Once(exec),
    };
    let shutdown = Shutdown::new();
    let signals = tokio::spawn(heed_signals(shutdown.clone())?);
    let options = options(args);
    tracing::info!(
        worker = options.worker_id,
        pipeline = options.pipeline,
        concurrency = options.concurrency,
        server = client.server(),
        "working"
    );
    let ended = Worker::new(client, options).run(command, shutdown).await;
    pool.close(args.kill_after_seconds).await;
    signals.abort();
    let summary = ended.with_context(|| format!("the worker of '{}' was refused", args.pipeline))?;
    tell(summary);
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Args) -> WorkerOptions {
    WorkerOptions {
        worker_id: args.worker_id.clone().unwrap_or_else(own_name),
        concurrency: args.concurrency.into(),
        batch: args.batch.unwrap_or(1).into(),
        lease: args.lease_seconds,
        grace: args.grace_seconds,
        until_empty: args.until_empty,
        ..WorkerOptions::new(args.pipeline.clone())
    }
}

/// The machine's name with a random number: several workers on one machine are told apart.
fn own_name() -> String {
    let uname = rustix::system::uname();
    let machine = uname.nodename().to_string_lossy();
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let machine: String = machine.chars().filter(is_plain).take(64).collect();
    format!("{machine}-{:06x}", SystemRandom.below(1 << 24))
}

fn tell(summary: Summary) {
    let Summary {
        completed,
        failed,
        released,
        lost,
    } = summary;
    tracing::info!(completed, failed, released, lost, "the worker has ended");
}

/// The first signal begins an orderly end, the second ends at once.
fn heed_signals(shutdown: Shutdown) -> Result<impl Future<Output = ()> + Send + 'static> {
    let failed = "the program cannot listen to signals";
    let mut term = signal(SignalKind::terminate()).context(failed)?;
    let mut int = signal(SignalKind::interrupt()).context(failed)?;
    Ok(async move {
        let mut count = 0;
        loop {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            count += 1;
            if count == 1 {
                tracing::info!("asked to end: nothing more is claimed; a second signal stops what runs");
                shutdown.drain();
            } else {
                shutdown.now();
            }
        }
    })
}
