//! `docket items`: submit them, find them, see what became of them.

mod submit;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use docket_client::ItemsFilter;
use docket_client::wire::item::{Enqueued, Explanation, Item};
use docket_client::wire::job::{Job, StepStatus};
use docket_client::wire::log::LogEntry;
use docket_client::wire::review::ItemReview;
use serde_json::json;

use crate::remote::{PageArgs, RemoteArgs, Session, facts, moment, or_nothing, table, word};

/// What `docket items` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Submit files, or JSON lines
    Submit(submit::Args),
    /// List items
    List(List),
    /// Show an item with all that belongs to it
    Show {
        /// The item
        id: String,
    },
    /// Run a failed item again
    Retry {
        /// The item
        id: String,
    },
    /// Run a finished item again
    Reprocess {
        /// The item
        id: String,
    },
    /// Take an item back
    Cancel {
        /// The item
        id: String,
    },
    /// Let machines change a field again that a person had corrected
    Unlock {
        /// The item
        id: String,
        /// The field
        field: String,
    },
    /// Say why an item is not running
    Explain {
        /// The item
        id: String,
    },
    /// Show what happened to an item
    Timeline {
        /// The item
        id: String,
        #[command(flatten)]
        page: PageArgs,
    },
    /// Follow an item until it has ended: exit code 0 where it ended well, 1 where not
    Watch {
        /// The item
        id: String,
    },
}

#[derive(Debug, clap::Args)]
struct List {
    /// Of one tenant, for those who may see several
    #[arg(long)]
    tenant: Option<String>,
    /// Of one collection
    #[arg(long)]
    collection: Option<String>,
    /// In one state: queued, processing, in_review, approved, corrected, rejected, completed, failed, cancelled
    #[arg(long)]
    status: Option<String>,
    /// With this id of the caller's
    #[arg(long)]
    external_id: Option<String>,
    #[command(flatten)]
    page: PageArgs,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    let client = &session.client;
    match &args.action {
        Action::Submit(submit) => submit::run(&session, submit).await,
        Action::List(filter) => list(&session, filter).await,
        Action::Show { id } => session.show(&client.item(id).await?, words),
        Action::Retry { id } => session.show(&client.item_retry(id).await?, enqueued),
        Action::Reprocess { id } => session.show(&client.item_reprocess(id).await?, enqueued),
        Action::Cancel { id } => {
            client.item_cancel(id).await?;
            session.show(&json!({ "itemId": id, "cancelled": true }), |_| {
                format!("Item {id} is cancelled.")
            })
        }
        Action::Unlock { id, field } => {
            client.field_unlock(id, field).await?;
            session.show(&json!({ "itemId": id, "field": field, "locked": false }), |_| {
                format!("Field {field} is not locked: it keeps its value until a machine next reads it.")
            })
        }
        Action::Explain { id } => session.show(&client.item_explain(id).await?, explained),
        Action::Timeline { id, page } => {
            let fetch = async |limit, cursor: Option<&str>| client.item_timeline(id, limit, cursor).await;
            let entries = page.gather(fetch).await?;
            session.show_page(&entries, ["when", "what", "by", "field", "more"], entry_row)
        }
        Action::Watch { id } => watch::run(&session, id).await,
    }
}

async fn list(session: &Session, list: &List) -> Result<ExitCode> {
    let fetch = async |limit, cursor: Option<&str>| {
        let filter = ItemsFilter {
            tenant_id: list.tenant.clone(),
            collection_id: list.collection.clone(),
            status: list.status.clone(),
            external_id: list.external_id.clone(),
            limit,
            cursor: cursor.map(str::to_owned),
        };
        session.client.items(&filter).await
    };
    let items = list.page.gather(fetch).await?;
    session.show_page(
        &items,
        ["id", "collection", "external id", "file", "status", "submitted"],
        |item| {
            [
                item.id.to_string(),
                item.collection_id.clone(),
                or_nothing(item.external_id.as_ref()),
                or_nothing(item.filename.as_ref()),
                word(&item.status),
                moment(item.created_at),
            ]
        },
    )
}

fn enqueued(enqueued: &Enqueued) -> String {
    format!(
        "Item {} runs again, as job {}.",
        enqueued.item_id, enqueued.job_id
    )
}

fn explained(explanation: &Explanation) -> String {
    let mut text = format!("The item is {}.\n", word(&explanation.status));
    for reason in &explanation.reasons {
        text.push_str(&format!("  - {reason}\n"));
    }
    text
}

fn entry_row(entry: &LogEntry) -> [String; 5] {
    let change = match (&entry.old, &entry.new) {
        (None, None) => String::new(),
        (old, new) => format!("{} → {}", or_nothing(old.as_ref()), or_nothing(new.as_ref())),
    };
    let details = or_nothing(entry.details.as_ref());
    [
        moment(entry.at),
        entry.action.clone(),
        entry.actor.clone(),
        or_nothing(entry.field.as_ref()),
        [change, details]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" "),
    ]
}

fn job_facts(job: &Job) -> Vec<(&'static str, String)> {
    let done = job
        .steps
        .iter()
        .filter(|step| step.status == StepStatus::Completed)
        .count();
    let steps = match job.steps.len() {
        0 => String::new(),
        all => format!("{done} of {all} done"),
    };
    vec![
        (
            "job",
            format!("{} ({}, attempt {})", job.id, word(&job.status), job.attempt),
        ),
        ("pipeline", job.pipeline.clone()),
        ("worker", or_nothing(job.worker_id.as_ref())),
        ("steps", steps),
        ("next attempt", or_nothing(job.run_at.map(moment))),
        ("lease until", or_nothing(job.lease_expires_at.map(moment))),
    ]
}

fn review(review: &ItemReview) -> String {
    let status = review.status.as_str().replace('_', " ");
    match &review.assigned_to {
        Some(who) => format!("{} ({status}, with {who})", review.queue_id),
        None => format!("{} ({status})", review.queue_id),
    }
}

fn words(item: &Item) -> String {
    let summary = &item.summary;
    let mut shown = vec![
        ("item", summary.id.to_string()),
        ("status", word(&summary.status)),
        ("tenant", summary.tenant_id.clone()),
        ("collection", summary.collection_id.clone()),
        ("external id", or_nothing(summary.external_id.as_ref())),
        ("file", or_nothing(summary.filename.as_ref())),
        ("type", or_nothing(summary.media_type.as_ref())),
        ("size", format!("{} bytes", summary.size)),
        ("version", summary.version.to_string()),
        ("submitted", moment(summary.created_at)),
        ("changed", moment(summary.updated_at)),
        (
            "position",
            or_nothing(item.position.as_ref().map(|position| &position.message)),
        ),
        ("error", or_nothing(item.error.as_ref())),
        ("review", item.review.as_ref().map(review).unwrap_or_default()),
        ("result", or_nothing(item.result.as_ref())),
    ];
    if let Some(job) = &item.job {
        shown.extend(job_facts(job));
    }
    let mut text = facts(&shown);
    if !item.fields.is_empty() {
        text.push_str(&table(
            ["field", "value", "confidence", "by"],
            item.fields.iter().map(|field| {
                [
                    field.name.clone(),
                    field.value.to_string(),
                    or_nothing(field.confidence),
                    field.corrected_by.clone().unwrap_or_else(|| "machine".to_owned()),
                ]
            }),
        ));
    }
    text
}
