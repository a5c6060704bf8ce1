//! `docket pipelines`: how items are processed.

use std::process::ExitCode;

use anyhow::Result;
use docket_client::wire::pipeline::{OnStale, Pipeline, PipelinePut};

use crate::remote::{PageArgs, RemoteArgs, facts, word};

/// What `docket pipelines` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a pipeline, or its next version; what is left out has its usual value
    Put(Put),
    /// Show a pipeline
    Show {
        /// The pipeline
        name: String,
    },
    /// List the pipelines
    List(PageArgs),
}

#[derive(Debug, clap::Args)]
struct Put {
    /// The pipeline
    name: String,
    /// The named steps, in their order: ocr,extract
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    steps: Vec<String>,
    /// How long a worker holds a job without a sign of life
    #[arg(long, value_name = "SECONDS")]
    lease_seconds: Option<f64>,
    /// What becomes of a job whose lease ran out: fail or requeue
    #[arg(long, value_parser = on_stale)]
    on_stale: Option<OnStale>,
    /// How often a job is tried, the first time included
    #[arg(long, value_name = "N")]
    max_attempts: Option<u32>,
    /// The wait after the first failure; it doubles from there
    #[arg(long, value_name = "MS")]
    backoff_base_ms: Option<i64>,
    /// The longest wait
    #[arg(long, value_name = "MS")]
    backoff_max_ms: Option<i64>,
    /// A job that waits for its next attempt holds up its lane
    #[arg(long)]
    strict: bool,
    /// A review follows
    #[arg(long)]
    review: bool,
}

fn on_stale(text: &str) -> Result<OnStale, String> {
    match text {
        "fail" => Ok(OnStale::Fail),
        "requeue" => Ok(OnStale::Requeue),
        _ => Err("fail or requeue".to_owned()),
    }
}

impl Put {
    fn pipeline(&self) -> PipelinePut {
        let usual = PipelinePut::default();
        let mut backoff = usual.backoff;
        backoff.base_ms = self.backoff_base_ms.unwrap_or(backoff.base_ms);
        backoff.max_ms = self.backoff_max_ms.unwrap_or(backoff.max_ms.max(backoff.base_ms));
        PipelinePut {
            steps: self.steps.clone(),
            lease_seconds: self.lease_seconds.unwrap_or(usual.lease_seconds),
            on_stale: self.on_stale.unwrap_or(usual.on_stale),
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            backoff,
            strict: self.strict,
            review: self.review,
        }
    }
}

fn words(pipeline: &Pipeline) -> String {
    let yes = |is: bool| if is { "yes".to_owned() } else { "no".to_owned() };
    facts(&[
        (
            "pipeline",
            format!("{} (version {})", pipeline.name, pipeline.version),
        ),
        ("steps", pipeline.steps.join(", ")),
        ("lease", format!("{} seconds", pipeline.lease_seconds)),
        ("when stale", word(&pipeline.on_stale)),
        ("attempts", pipeline.max_attempts.to_string()),
        (
            "waits",
            format!("{} to {} ms", pipeline.backoff.base_ms, pipeline.backoff.max_ms),
        ),
        ("strict", yes(pipeline.strict)),
        ("review", yes(pipeline.review)),
    ])
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    match &args.action {
        Action::Put(put) => session.show(
            &session.client.pipeline_put(&put.name, &put.pipeline()).await?,
            words,
        ),
        Action::Show { name } => session.show(&session.client.pipeline(name).await?, words),
        Action::List(page) => {
            let found = page
                .gather(async |limit, cursor| session.client.pipelines(limit, cursor).await)
                .await?;
            session.show_page(
                &found,
                ["pipeline", "version", "steps", "lease", "attempts", "review"],
                |pipeline| {
                    [
                        pipeline.name.clone(),
                        pipeline.version.to_string(),
                        pipeline.steps.join(", "),
                        format!("{} s", pipeline.lease_seconds),
                        pipeline.max_attempts.to_string(),
                        if pipeline.review {
                            "yes".to_owned()
                        } else {
                            String::new()
                        },
                    ]
                },
            )
        }
    }
}
