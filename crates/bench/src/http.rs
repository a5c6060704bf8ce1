//! What HTTP costs: the same claiming and completing through a server and its client, beside the engine directly, in one process.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use docket_client::Client;
use docket_core::access::Role;
use docket_wire::job::{Claim, ClaimedJob, Complete};

use crate::Args;
use crate::measure::{Latencies, Measured, Run, measure};
use crate::report::Report;
use crate::seed::{Seed, fill};
use crate::served::Served;
use crate::site::{PIPELINE, Site};
use crate::work;

/// As many connections as the figures are about.
const CONNECTIONS: usize = 16;
const LANES: u32 = 1_000;

/// For each batch size the engine's figure, and HTTP's as a part of it.
pub(crate) async fn figures(args: &Args, mut site: Site, on: &str, report: &mut Report) -> Result<()> {
    const ASKED: &str = "over HTTP";
    if !args.wants(&format!("{on}: claim+complete {ASKED}")) {
        return site.close().await;
    }
    site.start_background().await?;
    let shapes: &[_] = match args.quick {
        true => &[(10, Some(40.0))],
        false => &[(1, None), (10, Some(40.0)), (100, Some(15.0))],
    };
    for (batch, cost_at_most) in shapes.iter().copied() {
        let jobs = if args.quick { 60_000 } else { 200_000 };
        let seed = || Seed {
            lanes: LANES,
            limit: 5,
            jobs,
        };
        let direct = format!("{on}: claim+complete on the engine, {CONNECTIONS}×{batch}");
        fill(&site, seed()).await?;
        let measured = work::drain(&site, &direct, CONNECTIONS, batch, args.window()).await?;
        report.add(&direct, &measured, None, &[]);
        fill(&site, seed()).await?;
        let name = format!("{on}: claim+complete {ASKED}, {CONNECTIONS}×{batch}");
        let measured = drain(&site, &name, batch, args.window()).await?;
        report.add(&name, &measured, None, &[&direct]);
        if let Some(at_most) = cost_at_most {
            report.cost(&name, &direct, at_most);
        }
    }
    site.close().await
}

async fn drain(site: &Site, name: &str, batch: u32, window: Duration) -> Result<Measured> {
    let served = Served::start(site).await?;
    let client = served.client(site, Role::Worker, None, "bench").await?;
    let measured = measure(name, window, |run| {
        (0..CONNECTIONS)
            .map(|worker| drain_one(client.clone(), run.clone(), worker, batch))
            .collect()
    })
    .await?;
    drop(client);
    served.stop().await?;
    Ok(measured)
}

async fn drain_one(client: Client, run: Run, worker: usize, batch: u32) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let claim = Claim {
        pipeline: PIPELINE.to_owned(),
        worker_id: format!("w{worker}"),
        limit: batch,
        lease_seconds: None,
        wait_seconds: None,
    };
    let mut empty = 0;
    while run.goes_on() {
        let began = Instant::now();
        let jobs = client.claim(&claim).await?;
        if jobs.is_empty() {
            empty += 1;
            if empty > 200 {
                run.end();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        empty = 0;
        latencies.add(began.elapsed());
        let done = jobs.iter().map(completed).collect();
        for result in client.complete(done).await? {
            result.context("a job that was just claimed is completed")?;
        }
        run.add(jobs.len());
    }
    Ok(latencies)
}

fn completed(job: &ClaimedJob) -> Complete {
    Complete {
        job_id: job.job_id.uuid(),
        lease_token: job.lease_token,
        result: None,
        fields: None,
        display_payload: None,
        line_item_count: None,
        total_amount: None,
    }
}
