//! Sending a batch to the server, and what it says of each entry.

use anyhow::{Result, bail};
use docket_client::Client;
use docket_client::wire::item::SubmitItem;
use docket_client::wire::{Code, EntryError};
use serde_json::Value;

use super::batch::{Batch, Entry};
use super::refused::RefusedRecord;

/// How many items of a dry run are shown.
const SHOWN: usize = 3;

/// Where batches go.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// Nowhere: what would be sent is looked at.
    DryRun,
    /// Up for review, as items that were finished elsewhere.
    Review { client: Client, collection: String },
    /// To the collection's pipeline, as new work.
    Pipeline { client: Client, collection: String },
}

/// A batch that was dealt with.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) batch: Batch,
    pub(super) taken: u64,
    pub(super) known: u64,
    /// What would have been sent, in a dry run.
    pub(super) shown: Vec<Value>,
}

/// What the server said of an entry.
#[derive(Clone, Debug)]
enum Answer {
    Taken,
    Known,
    Refused { code: String, detail: String },
}

impl Answer {
    fn of<T>(answer: std::result::Result<T, EntryError>, is_known: impl FnOnce(T) -> bool) -> Self {
        match answer.map(is_known) {
            Ok(true) => Self::Known,
            Ok(false) => Self::Taken,
            Err(EntryError { code, detail, .. }) => Self::Refused { code, detail },
        }
    }
}

impl Target {
    /// Deals with a batch. What is refused joins what was refused before.
    pub(super) async fn send(&self, mut batch: Batch) -> Result<Sent> {
        let entries = std::mem::take(&mut batch.entries);
        let mut sent = Sent {
            batch,
            taken: 0,
            known: 0,
            shown: Vec::new(),
        };
        if entries.is_empty() {
            return Ok(sent);
        }
        let (items, origins): (Vec<SubmitItem>, Vec<_>) = entries
            .into_iter()
            .map(|Entry { item, which, record }| (item, (which, record)))
            .unzip();
        let expected = items.len();
        let answers = match self {
            Self::DryRun => {
                let shown = items.iter().take(SHOWN);
                sent.shown = shown
                    .map(serde_json::to_value)
                    .collect::<serde_json::Result<_>>()?;
                vec![Answer::Taken; expected]
            }
            Self::Review { client, collection } => enter(client, collection, items).await?,
            Self::Pipeline { client, collection } => submit(client, collection, items).await?,
        };
        if answers.len() != expected {
            bail!("the server answered for {} entries of {expected}", answers.len());
        }
        for (answer, (which, record)) in answers.into_iter().zip(origins) {
            match answer {
                Answer::Known => sent.known += 1,
                Answer::Taken => sent.taken += 1,
                Answer::Refused { code, detail } => sent.batch.refused.push(RefusedRecord {
                    which,
                    kind: code,
                    reason: detail,
                    record,
                }),
            }
        }
        sent.batch.refused.sort_by(|a, b| a.which.cmp(&b.which));
        Ok(sent)
    }
}

async fn submit(client: &Client, collection: &str, items: Vec<SubmitItem>) -> Result<Vec<Answer>> {
    let answers = client.items_submit(collection, items, None).await?;
    let limited = answers
        .iter()
        .filter_map(|answer| answer.as_ref().err())
        .find(|error| error.code == "rate_limited");
    if let Some(error) = limited {
        let wait = error
            .wait_time_seconds
            .map(|wait| format!(" in {wait} seconds"))
            .unwrap_or_default();
        bail!(
            "the tenant's limit of submissions is reached; run it again{wait}, or lift the limit: \
             docket tenants put ID --tier TIER --uploads-per-hour unlimited"
        );
    }
    let answers = answers.into_iter();
    Ok(answers
        .map(|answer| Answer::of(answer, |taken| taken.duplicate))
        .collect())
}

async fn enter(client: &Client, collection: &str, items: Vec<SubmitItem>) -> Result<Vec<Answer>> {
    let answers = client.review_entries(collection, items).await;
    let answers = answers.map_err(|error| match error.code() {
        Some(Code::Forbidden) => anyhow::Error::new(error)
            .context("it takes a key of the role service to bring items up for review; --process submits them as new work"),
        _ => error.into(),
    })?;
    let answers = answers.into_iter();
    Ok(answers
        .map(|answer| Answer::of(answer, |entered| !entered.created))
        .collect())
}
