//! `docket collections`: sets of items of one tenant that share a review policy.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use docket_client::wire::collection::{Collection, CollectionPut, ReviewPolicy};

use crate::remote::{PageArgs, RemoteArgs, facts, or_nothing, word};

/// What `docket collections` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Make a collection, or change it
    Put {
        /// The collection
        id: String,
        /// Whose it is; that never changes
        #[arg(long)]
        tenant: String,
        /// How its items are processed; left out for items that arrive finished
        #[arg(long)]
        pipeline: Option<String>,
        /// How its items are reviewed, as JSON: '{"enabled": true, "slaHours": 24}'
        #[arg(long, value_name = "JSON")]
        review: Option<String>,
        /// Who is told about decided reviews, as JSON: '{"recipients": ["email:a@example.com"], "on": ["rejected"]}'
        #[arg(long, value_name = "JSON")]
        notify: Option<String>,
    },
    /// Show a collection
    Show {
        /// The collection
        id: String,
    },
    /// List the collections
    List(PageArgs),
}

fn words(collection: &Collection) -> String {
    let review = match collection.review.enabled {
        false => "none of its own".to_owned(),
        true => format!(
            "{} first, within {} hours",
            word(&collection.review.strategy),
            collection.review.sla_hours
        ),
    };
    facts(&[
        ("collection", collection.id.clone()),
        ("tenant", collection.tenant_id.clone()),
        ("pipeline", or_nothing(collection.pipeline.as_ref())),
        ("review", review),
        (
            "tells",
            collection
                .notify
                .as_ref()
                .map(|notify| notify.recipients.join(", "))
                .unwrap_or_default(),
        ),
    ])
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    match &args.action {
        Action::Put {
            id,
            tenant,
            pipeline,
            review,
            notify,
        } => {
            let review: Option<ReviewPolicy> = review
                .as_deref()
                .map(serde_json::from_str)
                .transpose()
                .context("--review cannot be read")?;
            let put = CollectionPut {
                tenant_id: tenant.clone(),
                pipeline: pipeline.clone(),
                review: review.unwrap_or_default(),
                notify: notify
                    .as_deref()
                    .map(serde_json::from_str)
                    .transpose()
                    .context("--notify cannot be read")?,
            };
            session.show(&session.client.collection_put(id, &put).await?, words)
        }
        Action::Show { id } => session.show(&session.client.collection(id).await?, words),
        Action::List(page) => {
            let found = page
                .gather(async |limit, cursor| session.client.collections(limit, cursor).await)
                .await?;
            session.show_page(
                &found,
                ["collection", "tenant", "pipeline", "review"],
                |collection| {
                    [
                        collection.id.clone(),
                        collection.tenant_id.clone(),
                        or_nothing(collection.pipeline.as_ref()),
                        if collection.review.enabled {
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
