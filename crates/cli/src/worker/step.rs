//! `docket step NAME`: reports a finished step from inside a command that a worker runs.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use docket_client::wire::json as wire_json;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;

use super::answer::LINE_MAX;
use super::lines::Lines;
use super::steps::{Receipt, SOCKET_VARIABLE};

/// What `docket step` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The step's name, as the pipeline has it
    name: String,
    /// What came out of it, as JSON; `-` reads it from standard input [default: null]
    #[arg(long, value_name = "JSON")]
    output: Option<String>,
    /// The job, in a batch [default: the one the command was given]
    #[arg(long, value_name = "ID", env = "DOCKET_JOB")]
    job: Option<String>,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let Some(path) = std::env::var_os(SOCKET_VARIABLE) else {
        bail!(
            "there is no worker to tell: `docket step` works inside of a command that `docket worker` runs"
        );
    };
    let output: Value = match args.output.as_deref() {
        None => Value::Null,
        Some("-") => {
            let mut text = String::new();
            let limit = u64::try_from(LINE_MAX)?;
            std::io::stdin().lock().take(limit).read_to_string(&mut text)?;
            wire_json::read(text.as_bytes())
                .context("what was read from standard input is no JSON that can be kept")?
        }
        Some(text) => wire_json::read(text.as_bytes())
            .context("--output is no JSON that can be kept; a text needs its own quotes: '\"done\"'")?,
    };
    let mut line = json!({ "step": args.name, "output": output });
    if let Some(job) = &args.job {
        line["jobId"] = json!(job);
    }
    let mut stream = UnixStream::connect(&path)
        .await
        .context("the worker does not answer")?;
    let mut text = serde_json::to_vec(&line)?;
    text.push(b'\n');
    stream
        .write_all(&text)
        .await
        .context("the worker does not listen")?;
    let answer = Lines::new(stream, LINE_MAX)
        .next()
        .await?
        .context("the worker hung up")?;
    let receipt: Receipt =
        serde_json::from_slice(&answer.bytes).context("the worker answered what is no receipt")?;
    match receipt.error {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => bail!(error),
    }
}
