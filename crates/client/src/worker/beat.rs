//! Heartbeats: every lease that is due, in one call.

use std::sync::Arc;
use std::time::Duration;

use docket_wire::Code;

use super::hold::{Due, Holds, now};
use crate::client::Client;
use crate::retry::{RetryPolicy, backoff};

/// The most leases of a call.
const BEATS_MAX: usize = 1_000;

/// Keeps leases alive until it is dropped.
pub(crate) async fn beat(client: Client, holds: Arc<Holds>, lease: Option<Duration>) {
    // Each call is made once: a late one is worth less than the next.
    let client = client.with_retry(RetryPolicy::never());
    let mut failed = 0;
    loop {
        let Some(at) = holds.next_look() else {
            holds.changed().await;
            continue;
        };
        tokio::select! {
            () = tokio::time::sleep_until(at) => {}
            () = holds.changed() => continue,
        }
        let (due, allowed) = holds.due(now());
        for due in due.chunks(BEATS_MAX) {
            let asked = now();
            let call = client.heartbeat(due.iter().map(|due| (due.job, due.token)), lease, allowed);
            match call.await {
                Ok(answers) => {
                    failed = 0;
                    for (due, answer) in due.iter().zip(answers) {
                        note(&holds, *due, asked, answer);
                    }
                }
                Err(error) => {
                    failed += 1;
                    tracing::warn!(%error, jobs = due.len(), "leases could not be renewed; they are tried again");
                    holds.put_off(due, now(), backoff(failed, 200, 5_000, client.random()));
                }
            }
        }
        for job in holds.expire(now()) {
            tracing::warn!(%job, "the lease ended before it could be renewed");
        }
    }
}

fn note(
    holds: &Holds,
    due: Due,
    asked: tokio::time::Instant,
    answer: std::result::Result<docket_wire::job::Extended, docket_wire::EntryError>,
) {
    match answer {
        Ok(_) => holds.renewed(due, asked),
        Err(error) if error.code == Code::LeaseLost.as_str() => {
            if holds.lost(due) {
                tracing::warn!(job = %due.job, "the lease is lost");
            }
        }
        Err(error) => {
            tracing::warn!(job = %due.job, %error, "the lease could not be renewed");
            holds.put_off(&[due], now(), Duration::from_secs(1));
        }
    }
}
