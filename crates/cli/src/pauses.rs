//! `docket pause`, `docket resume`, `docket pauses`: nothing of what is paused is started; what runs goes on.

use std::process::ExitCode;

use anyhow::{Result, bail};
use docket_client::wire::pause::{Pause, PauseScope, PauseSet};

use crate::remote::{RemoteArgs, moment, or_nothing, word};

/// What `docket pause` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct PauseArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// Everything
    #[arg(long, conflicts_with_all = ["pipeline", "tenant", "collection", "channel"])]
    all: bool,
    /// A pipeline; with --tenant that tenant's lane in it
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// One tenant's lane
    #[arg(long, value_name = "TENANT", requires = "pipeline")]
    tenant: Option<String>,
    /// The reviews of a collection
    #[arg(long, value_name = "COLLECTION", conflicts_with = "pipeline")]
    collection: Option<String>,
    /// The sends of a channel: email, webhook or file
    #[arg(long, value_name = "CHANNEL", conflicts_with_all = ["pipeline", "collection"])]
    channel: Option<String>,
    /// Why, for those who wonder
    #[arg(long)]
    reason: String,
}

/// What `docket resume` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    /// The pause's id, as `docket pauses` shows it
    id: String,
}

/// What `docket pauses` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    remote: RemoteArgs,
}

fn covers(pause: &Pause) -> String {
    match (&pause.pipeline, &pause.tenant_id) {
        (Some(pipeline), Some(tenant)) => format!("{tenant} in {pipeline}"),
        (Some(pipeline), None) => pipeline.clone(),
        (None, _) => or_nothing(pause.collection_id.as_ref().or(pause.channel.as_ref())),
    }
}

pub(crate) async fn pause(args: &PauseArgs) -> Result<ExitCode> {
    let (scope, id) = match (&args.collection, &args.pipeline, &args.tenant) {
        (Some(collection), ..) => (PauseScope::Collection, Some(collection.clone())),
        (None, Some(pipeline), None) => (PauseScope::Pipeline, Some(pipeline.clone())),
        (None, Some(pipeline), Some(_)) => (PauseScope::Lane, Some(pipeline.clone())),
        (None, None, _) if args.channel.is_some() => (PauseScope::Channel, args.channel.clone()),
        (None, None, _) if args.all => (PauseScope::All, None),
        (None, None, _) => bail!(
            "say what to pause: --all, --pipeline NAME, --pipeline NAME --tenant TENANT, --collection COLLECTION, \
             or --channel CHANNEL"
        ),
    };
    let set = PauseSet {
        scope,
        id,
        tenant_id: args.tenant.clone(),
        reason: args.reason.clone(),
    };
    let session = args.remote.session()?;
    let pause = session.client.pause(&set).await?;
    session.show(&pause, |pause| {
        format!(
            "Paused: {} {}\nLift it with: docket resume {}",
            word(&pause.scope),
            covers(pause),
            pause.id
        )
    })
}

pub(crate) async fn resume(args: &ResumeArgs) -> Result<ExitCode> {
    let session = args.remote.session()?;
    session.client.resume(&args.id).await?;
    session.show(&serde_json::json!({ "pauseId": args.id, "lifted": true }), |_| {
        format!("Pause {} is lifted.", args.id)
    })
}

pub(crate) async fn list(args: &ListArgs) -> Result<ExitCode> {
    let session = args.remote.session()?;
    let pauses = session.client.pauses().await?;
    session.show_page(
        &pauses,
        ["id", "scope", "what", "reason", "by", "since"],
        |pause| {
            [
                pause.id.to_string(),
                word(&pause.scope),
                covers(pause),
                pause.reason.clone(),
                pause.actor.clone(),
                moment(pause.at),
            ]
        },
    )
}
