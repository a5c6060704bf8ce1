//! Following one item: the event stream says when to look, and every few seconds somebody looks anyway.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use docket_client::EventsFilter;
use docket_client::wire::item::Item;
use docket_core::item::ItemStatus;

use crate::remote::{REFUSED, Session, word};

/// How often the item is looked at without an event.
const LOOK: Duration = Duration::from_secs(5);

/// How an item stands with those who wait for it.
fn ended(status: ItemStatus) -> Option<bool> {
    match status {
        ItemStatus::Queued | ItemStatus::Processing | ItemStatus::InReview => None,
        ItemStatus::Completed | ItemStatus::Approved | ItemStatus::Corrected => Some(true),
        ItemStatus::Rejected | ItemStatus::Failed | ItemStatus::Cancelled => Some(false),
    }
}

fn line(item: &Item) -> String {
    let more = match (&item.position, &item.error, &item.job) {
        (_, Some(error), _) => error.clone(),
        (Some(position), _, _) => position.message.clone(),
        (_, _, Some(job)) => format!("attempt {}", job.attempt),
        _ => String::new(),
    };
    format!("{:<10}  {more}", word(&item.summary.status))
}

pub(super) async fn run(session: &Session, id: &str) -> Result<ExitCode> {
    let filter = EventsFilter {
        item_id: Some(id.to_owned()),
        ..EventsFilter::default()
    };
    let mut events = session.client.events(filter);
    let mut shown = String::new();
    loop {
        let item = session.client.item(id).await?;
        let now = match session.json {
            true => serde_json::to_string(&item)?,
            false => line(&item),
        };
        if now != shown {
            session.screen.line(now.trim_end())?;
            shown = now;
        }
        if let Some(well) = ended(item.summary.status) {
            return Ok(if well {
                ExitCode::SUCCESS
            } else {
                ExitCode::from(REFUSED)
            });
        }
        // A stream that is refused is no reason to stop: looking every few seconds does too.
        tokio::select! {
            event = events.next() => if event.is_err() { tokio::time::sleep(LOOK).await },
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}
