//! `docket jobs`: a worker's words by hand, for trying things out and for mending them. Real workers use `docket worker`.

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use docket_client::wire::EntryError;
use docket_client::wire::job::{Claim, Complete, Fail, Reap};
use docket_client::wire::json as wire_json;
use docket_core::id::JobId;
use docket_core::lease::LeaseToken;
use serde::Serialize;

use crate::remote::{REFUSED, RemoteArgs, Session, moment, or_nothing, table, word};

/// What `docket jobs` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Claim jobs; nobody renews their leases
    Claim {
        /// The pipeline
        pipeline: String,
        /// Who asks
        #[arg(long, default_value = "by-hand")]
        worker_id: String,
        /// At most so many
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// For how long
        #[arg(long, value_name = "SECONDS")]
        lease_seconds: Option<f64>,
        /// How long to wait for work
        #[arg(long, value_name = "SECONDS")]
        wait_seconds: Option<f64>,
    },
    /// Complete a claimed job
    Complete {
        /// The job
        job: String,
        /// The token that its claim gave
        token: i64,
        /// What came out, as JSON
        #[arg(long, value_name = "JSON")]
        result: Option<String>,
    },
    /// Fail a claimed job
    Fail {
        /// The job
        job: String,
        /// The token that its claim gave
        token: i64,
        /// What went wrong
        #[arg(long)]
        error: String,
        /// In which step
        #[arg(long)]
        step: Option<String>,
        /// No other attempt would do better
        #[arg(long)]
        not_retryable: bool,
    },
    /// Find stale jobs now, instead of when their time has come
    Reap {
        /// Also those whose holder has given no sign of life for so long
        #[arg(long, value_name = "SECONDS")]
        older_than_seconds: Option<f64>,
    },
}

fn job_id(text: &str) -> Result<JobId> {
    text.parse().with_context(|| format!("'{text}' is no job's id"))
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    match &args.action {
        Action::Claim {
            pipeline,
            worker_id,
            limit,
            lease_seconds,
            wait_seconds,
        } => {
            let claim = Claim {
                pipeline: pipeline.clone(),
                worker_id: worker_id.clone(),
                limit: *limit,
                lease_seconds: *lease_seconds,
                wait_seconds: *wait_seconds,
            };
            claimed(&session, &claim).await
        }
        Action::Complete { job, token, result } => {
            let result = result
                .as_deref()
                .map(|text| wire_json::read(text.as_bytes()))
                .transpose()
                .context("--result is no JSON that can be kept")?;
            let complete = Complete {
                job_id: job_id(job)?.uuid(),
                lease_token: LeaseToken(*token),
                result,
                fields: None,
                display_payload: None,
                line_item_count: None,
                total_amount: None,
            };
            one(&session, session.client.complete(vec![complete]).await?, |_| {
                format!("Job {job} is completed.")
            })
        }
        Action::Fail {
            job,
            token,
            error,
            step,
            not_retryable,
        } => {
            let fail = Fail {
                job_id: job_id(job)?.uuid(),
                lease_token: LeaseToken(*token),
                error: error.clone(),
                step: step.clone(),
                retryable: !not_retryable,
            };
            one(
                &session,
                session.client.fail(vec![fail]).await?,
                |failed| match failed.run_at {
                    Some(at) => format!("Job {job} is tried again, not before {}.", moment(at)),
                    None => format!("Job {job} is now {}.", word(&failed.status)),
                },
            )
        }
        Action::Reap { older_than_seconds } => reap(&session, *older_than_seconds).await,
    }
}

async fn reap(session: &Session, older_than_seconds: Option<f64>) -> Result<ExitCode> {
    let reaped = session.client.reap(&Reap { older_than_seconds }).await?;
    session.show(&reaped, |reaped| {
        format!("{} failed, {} put back.", reaped.failed, reaped.requeued)
    })
}

async fn claimed(session: &Session, claim: &Claim) -> Result<ExitCode> {
    let jobs = session.client.claim(claim).await?;
    let is_empty = jobs.is_empty();
    session.show(&serde_json::json!({ "jobs": jobs }), |_| match is_empty {
        true => format!("There is no work in '{}' that can start now.", claim.pipeline),
        false => table(
            ["job", "token", "item", "external id", "attempt", "lease until"],
            jobs.iter().map(|job| {
                [
                    job.job_id.to_string(),
                    job.lease_token.0.to_string(),
                    job.item_id.to_string(),
                    or_nothing(job.external_id.as_ref()),
                    job.attempt.to_string(),
                    moment(job.lease_expires_at),
                ]
            }),
        ),
    })
}

/// Shows the one answer of a call about one job.
fn one<T: Serialize>(
    session: &Session,
    answers: Vec<Result<T, EntryError>>,
    words: impl FnOnce(&T) -> String,
) -> Result<ExitCode> {
    match answers.into_iter().next() {
        None => bail!("the server answered for no job"),
        Some(Ok(answer)) => session.show(&answer, words),
        Some(Err(error)) => {
            session.show(&error, |error| format!("Refused: {error}"))?;
            Ok(ExitCode::from(REFUSED))
        }
    }
}
