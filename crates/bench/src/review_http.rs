//! The reviewer's loop as a reviewer's program has it: pop one and decide it, through HTTP, without a pause.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use docket_client::Client;
use docket_core::access::Role;
use docket_core::name::TenantId;
use docket_wire::collection::ReviewOutcome;
use docket_wire::review::{Decision, Pop};

use crate::Args;
use crate::measure::{Latencies, Measured, Run, measure};
use crate::report::Report;
use crate::review::{REVIEWERS, TENANT, fill, prepare};
use crate::served::Served;
use crate::site::Site;

const PENDING: u64 = 30_000;

/// Decisions a second of eight reviewers.
pub(crate) async fn figure(
    args: &Args,
    mut site: Site,
    on: &str,
    report: &mut Report,
    baselines: &[&str],
) -> Result<()> {
    let name = format!("{on}: reviews over HTTP, pop 1 + commit 1, {REVIEWERS} reviewers");
    if args.wants(&name) {
        prepare(&site).await?;
        fill(&site, PENDING, &mut 0).await?;
        site.start_background().await?;
        let measured = decide(&site, &name, args.window()).await?;
        report.add(&name, &measured, None, baselines);
    }
    site.close().await
}

async fn decide(site: &Site, name: &str, window: Duration) -> Result<Measured> {
    let served = Served::start(site).await?;
    let mut clients = Vec::with_capacity(REVIEWERS);
    for reviewer in 0..REVIEWERS {
        let tenant = Some(TenantId::new(TENANT)?);
        let subject = format!("reviewer-{reviewer}");
        clients.push(served.client(site, Role::Reviewer, tenant, &subject).await?);
    }
    let measured = measure(name, window, |run| {
        let reviewers = clients.into_iter();
        reviewers.map(|client| decide_one(client, run.clone())).collect()
    })
    .await?;
    served.stop().await?;
    Ok(measured)
}

async fn decide_one(client: Client, run: Run) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let pop = Pop {
        collection_id: TENANT.to_owned(),
        limit: 1,
        strategy: None,
        lock_timeout_seconds: None,
        wait_seconds: None,
    };
    while run.goes_on() {
        let began = Instant::now();
        let popped = client.review_pop(&pop).await?;
        let Some(entry) = popped.items.first() else {
            run.end();
            break;
        };
        let decision = Decision {
            queue_id: entry.queue_id.uuid(),
            generation_id: None,
            lease_token: entry.lease_token,
            outcome: ReviewOutcome::Approved,
            reason: None,
            corrections: Vec::new(),
        };
        for result in client.review_commit(vec![decision]).await? {
            result.context("a review that was just popped is decided")?;
        }
        latencies.add(began.elapsed());
        run.add(1);
    }
    Ok(latencies)
}
