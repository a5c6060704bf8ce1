//! What the tasks of a scenario do.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use docket_core::item::ItemDetails;
use docket_core::name::{CollectionId, PipelineName, TenantId, WorkerId};
use docket_core::scope::{Actor, Scope};
use docket_engine::{Claim, ClaimedJob, Complete, Engine, Submit, SubmitItem};
use serde_json::json;

use crate::measure::{Latencies, Measured, Run, measure};
use crate::seed::names;
use crate::site::{PIPELINE, Site};

/// A claim of `limit` jobs.
pub(crate) fn claim(worker: usize, limit: u32, wait_ms: u64) -> Result<Claim> {
    Ok(Claim {
        pipeline: PipelineName::new(PIPELINE)?,
        worker: WorkerId::new(format!("w{worker}"))?,
        limit,
        lease_ms: None,
        wait_ms,
    })
}

async fn complete(engine: &Engine, jobs: &[ClaimedJob]) -> Result<()> {
    let done = jobs.iter().map(|job| Complete::new(job.id, job.token)).collect();
    for result in engine.complete(done).await? {
        result.context("a job that was just claimed is completed")?;
    }
    Ok(())
}

/// `workers` claim and complete in batches until the time is over or nothing is left; latencies are of the claim.
pub(crate) async fn drain(
    site: &Site,
    name: &str,
    workers: usize,
    batch: u32,
    window: Duration,
) -> Result<Measured> {
    measure(name, window, |run| {
        (0..workers)
            .map(|worker| drain_one(site.engine.clone(), run.clone(), worker, batch, u64::MAX))
            .collect()
    })
    .await
}

/// The same for so many jobs, however long that takes.
pub(crate) async fn drain_some(
    site: &Site,
    name: &str,
    (workers, batch): (usize, u32),
    jobs: u64,
) -> Result<Measured> {
    measure(name, Duration::from_secs(120), |run| {
        (0..workers)
            .map(|worker| drain_one(site.engine.clone(), run.clone(), worker, batch, jobs))
            .collect()
    })
    .await
}

async fn drain_one(engine: Engine, run: Run, worker: usize, batch: u32, most: u64) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let claim = claim(worker, batch, 0)?;
    let mut empty = 0;
    while run.goes_on() {
        let began = Instant::now();
        let jobs = engine.claim(claim.clone()).await?;
        if jobs.is_empty() {
            // All lanes may be locked or full for a moment; empty for long means drained.
            empty += 1;
            if empty > 200 {
                run.end();
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            continue;
        }
        empty = 0;
        latencies.add(began.elapsed());
        complete(&engine, &jobs).await?;
        if run.add(jobs.len()) >= most {
            run.end();
        }
    }
    Ok(latencies)
}

/// Somebody of the tenant of a lane.
pub(crate) fn scope(lane: u32) -> Result<Scope> {
    let (_, tenant) = names(lane);
    Ok(Scope {
        tenant: TenantId::new(tenant)?,
        actor: Actor::new("producer:bench")?,
    })
}

/// A call with `batch` new items for a lane.
pub(crate) fn submit_call(lane: u32, prefix: &str, from: u64, batch: u32) -> Result<Submit> {
    let item = |n| SubmitItem {
        payload: json!({ "document": "x".repeat(110) }),
        details: ItemDetails {
            external_id: Some(format!("{prefix}-{n}")),
            ..ItemDetails::default()
        },
    };
    Ok(Submit {
        collection: CollectionId::new(names(lane).0)?,
        items: (from..from + u64::from(batch)).map(item).collect(),
        idempotency_key: None,
    })
}

/// `clients` submit in batches, each to the lanes in turn.
pub(crate) async fn submit(
    site: &Site,
    name: &str,
    clients: usize,
    batch: u32,
    lanes: u32,
    window: Duration,
) -> Result<Measured> {
    measure(name, window, |run| {
        (0..clients)
            .map(|client| {
                let prefix = format!("{}-{client}", name.replace(' ', ""));
                submit_one(site.engine.clone(), run.clone(), prefix, client, batch, lanes)
            })
            .collect()
    })
    .await
}

async fn submit_one(
    engine: Engine,
    run: Run,
    prefix: String,
    client: usize,
    batch: u32,
    lanes: u32,
) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let mut sent = 0;
    let mut lane = u32::try_from(client)?;
    while run.goes_on() {
        lane = lane % lanes + 1;
        let call = submit_call(lane, &prefix, sent, batch)?;
        let began = Instant::now();
        let answer = engine.submit(&scope(lane)?, call).await?;
        latencies.add(began.elapsed());
        for result in answer.results {
            anyhow::ensure!(
                !result.context("a new item is taken")?.duplicate,
                "an item is new"
            );
        }
        sent += u64::from(batch);
        run.add(batch as usize);
    }
    Ok(latencies)
}

/// `clients` each submit one item, claim one job and complete it, over and over; latencies are of the whole.
pub(crate) async fn lifecycle(
    site: &Site,
    name: &str,
    clients: usize,
    lanes: u32,
    window: Duration,
) -> Result<Measured> {
    measure(name, window, |run| {
        (0..clients)
            .map(|client| lifecycle_one(site.engine.clone(), run.clone(), client, lanes))
            .collect()
    })
    .await
}

async fn lifecycle_one(engine: Engine, run: Run, client: usize, lanes: u32) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let claim = claim(client, 1, 0)?;
    let prefix = format!("l-{client}");
    let mut lane = u32::try_from(client)?;
    for n in 0.. {
        if !run.goes_on() {
            break;
        }
        lane = lane % lanes + 1;
        let began = Instant::now();
        engine
            .submit(&scope(lane)?, submit_call(lane, &prefix, n, 1)?)
            .await?;
        let jobs = engine.claim(claim.clone()).await?;
        if !jobs.is_empty() {
            complete(&engine, &jobs).await?;
        }
        latencies.add(began.elapsed());
        run.add(jobs.len());
    }
    Ok(latencies)
}

/// One worker waits on an idle queue; the time from a submit's call to the job in its hands.
pub(crate) async fn pick_up(site: &Site, name: &str, waiter: &Engine, window: Duration) -> Result<Measured> {
    let (producer, waiter) = (site.engine.clone(), waiter.clone());
    measure(name, window, |run| {
        vec![pick_up_one(producer, waiter, run, name.replace(' ', ""))]
    })
    .await
}

async fn pick_up_one(producer: Engine, waiter: Engine, run: Run, prefix: String) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let claim = claim(0, 1, 10_000)?;
    for n in 0.. {
        if !run.goes_on() {
            break;
        }
        let waiting = tokio::spawn({
            let (waiter, claim) = (waiter.clone(), claim.clone());
            async move { waiter.claim(claim).await.map(|jobs| (jobs, Instant::now())) }
        });
        // The worker is surely waiting before the work comes.
        tokio::time::sleep(Duration::from_millis(10)).await;
        let began = Instant::now();
        producer
            .submit(&scope(1)?, submit_call(1, &prefix, n, 1)?)
            .await?;
        let (jobs, at) = waiting.await??;
        latencies.add(at.duration_since(began));
        complete(&waiter, &jobs).await?;
        run.add(jobs.len());
    }
    Ok(latencies)
}
