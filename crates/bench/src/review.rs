//! Reviewers at work: pops and decisions at two depths of the queue, for each strategy, and what it costs to watch it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use docket_core::item::ItemDetails;
use docket_core::name::{CollectionId, ReviewerId, TenantId};
use docket_core::random::{Random as _, SeededRandom};
use docket_core::review::{Outcome, Strategy};
use docket_core::scope::{Actor, Operator, Reviewing, Scope, Watching};
use docket_core::tenant::{TenantSettings, UploadLimit};
use docket_engine::{CollectionSettings, Decision, Engine, Pop, Submit, SubmitItem};
use serde_json::json;

use crate::Args;
use crate::measure::{Latencies, Measured, Run, measure};
use crate::report::Report;
use crate::scenario::short;
use crate::site::Site;

pub(crate) const REVIEWERS: usize = 8;
/// How many reviewers, how many reviews each of them takes and decides at once, and what latencies are of.
const SHAPES: [(usize, u32, Timed); 3] = [
    (REVIEWERS, 1, Timed::Both),
    (REVIEWERS, 10, Timed::Both),
    (1, 10, Timed::Pop),
];
const STRATEGIES: [Strategy; 3] = [Strategy::Fifo, Strategy::Priority, Strategy::Deadline];
/// Items of one call while the queue is filled.
const FILL: u64 = 500;
pub(crate) const TENANT: &str = "bench";

/// What latencies are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    /// A pop and the decisions on what it gave.
    Both,
    /// The pop alone.
    Pop,
}

/// For each depth and strategy what eight reviewers get done; the deeper queue as a part of the shallow one.
pub(crate) async fn figures(args: &Args, mut site: Site, on: &str, report: &mut Report) -> Result<()> {
    if !args.wants(&format!("{on}: reviews")) {
        return site.close().await;
    }
    prepare(&site).await?;
    site.start_background().await?;
    let depths: [u64; 2] = if args.quick {
        [10_000, 100_000]
    } else {
        [10_000, 1_000_000]
    };
    let mut filled = 0;
    for (index, depth) in depths.into_iter().enumerate() {
        // Quickly: what reviewers do most, and what has a bar.
        let (strategies, shapes): (&[_], &[_]) = match args.quick {
            true => (&[Strategy::Priority], &[SHAPES[0], SHAPES[2]]),
            false => (&STRATEGIES, &SHAPES),
        };
        for strategy in strategies.iter().copied() {
            for shape in shapes.iter().copied() {
                fill(&site, depth, &mut filled).await?;
                let name = |depth: u64| {
                    let (strategy, pending) = (strategy.as_str(), short(depth));
                    let (reviewers, batch, timed) = shape;
                    let alone = match timed {
                        Timed::Both => "",
                        Timed::Pop => ", times of the pop",
                    };
                    format!("{on}: reviews by {strategy}, {pending} pending, {reviewers}×{batch}{alone}")
                };
                let measured = decide(&site, &name(depth), strategy, shape, args.window()).await?;
                let shallow = name(depths[0]);
                let baselines: &[&str] = if index == 0 { &[] } else { &[&shallow] };
                report.add(&name(depth), &measured, None, baselines);
                if shape.2 == Timed::Pop {
                    report.wait(&name(depth), 2.0, 10.0);
                }
            }
        }
        fill(&site, depth, &mut filled).await?;
        let name = |depth: u64| format!("{on}: reviews, stats of {} pending", short(depth));
        let measured = watch(&site, &name(depth), args.window()).await?;
        let shallow = name(depths[0]);
        let baselines: &[&str] = if index == 0 { &[] } else { &[&shallow] };
        report.add(&name(depth), &measured, None, baselines);
    }
    site.close().await
}

fn collection() -> Result<CollectionId> {
    Ok(CollectionId::new(TENANT)?)
}

fn scope() -> Result<Scope> {
    Ok(Scope {
        tenant: TenantId::new(TENANT)?,
        actor: Actor::new("producer:bench")?,
    })
}

/// A tenant whose collection has its items reviewed as they arrive.
pub(crate) async fn prepare(site: &Site) -> Result<()> {
    let who = Operator::system();
    let tenant = TenantSettings {
        id: TenantId::new(TENANT)?,
        tier: "enterprise".to_owned(),
        uploads: Some(UploadLimit::Unlimited),
        concurrent_jobs: None,
    };
    site.engine.tenant_put(&who, tenant).await?;
    let settings = CollectionSettings {
        id: collection()?,
        tenant: TenantId::new(TENANT)?,
        pipeline: None,
        review: true,
        settings: json!({ "review": { "enabled": true } }),
    };
    site.engine.collection_put(&who, settings).await?;
    Ok(())
}

/// Submits items until so many reviews are pending.
pub(crate) async fn fill(site: &Site, depth: u64, filled: &mut u64) -> Result<()> {
    let who = Watching::of(&scope()?);
    let stats = site.engine.review_stats(&who, &collection()?).await?;
    let pending = stats.count(docket_core::review::ReviewState::Pending);
    let missing = depth.saturating_sub(pending);
    let calls = missing.div_ceil(FILL);
    let random = SeededRandom::new(*filled);
    let mut running = tokio::task::JoinSet::new();
    for call in 0..calls {
        let first = *filled + call * FILL;
        let items = (first..first + FILL.min(missing - call * FILL))
            .map(|n| item(n, &random))
            .collect();
        let submit = Submit {
            collection: collection()?,
            items,
            idempotency_key: None,
        };
        let (engine, scope) = (site.engine.clone(), scope()?);
        if running.len() == 4 {
            joined(&mut running).await?;
        }
        running.spawn(async move { engine.submit(&scope, submit).await });
    }
    while !running.is_empty() {
        joined(&mut running).await?;
    }
    *filled += calls * FILL;
    match &site.sql {
        Some(sql) if missing > 0 => crate::baseline::settle(sql).await,
        _ => Ok(()),
    }
}

type Submitted = docket_engine::Result<docket_engine::SubmitAnswer>;

async fn joined(running: &mut tokio::task::JoinSet<Submitted>) -> Result<()> {
    let Some(answer) = running.join_next().await else {
        return Ok(());
    };
    for result in answer??.results {
        result.context("a new item is taken")?;
    }
    Ok(())
}

fn item(n: u64, random: &SeededRandom) -> SubmitItem {
    let below = |most: u64| u32::try_from(random.below(most)).unwrap_or(0);
    SubmitItem {
        payload: json!({ "document": "x".repeat(110) }),
        details: ItemDetails {
            external_id: Some(format!("review-{n}")),
            confidence: Some(f64::from(below(100))),
            line_item_count: Some(below(120)),
            total_amount: Some(f64::from(below(12_000))),
            ..ItemDetails::default()
        },
    }
}

async fn decide(
    site: &Site,
    name: &str,
    strategy: Strategy,
    (reviewers, batch, timed): (usize, u32, Timed),
    window: Duration,
) -> Result<Measured> {
    measure(name, window, |run| {
        let one = |reviewer| {
            let pop = (strategy, batch, timed);
            decide_one(site.engine.clone(), run.clone(), reviewer, pop)
        };
        (0..reviewers).map(one).collect()
    })
    .await
}

/// Pops and approves until the time is over or nothing is left.
async fn decide_one(
    engine: Engine,
    run: Run,
    reviewer: usize,
    (strategy, batch, timed): (Strategy, u32, Timed),
) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let who = Reviewing::of(&scope()?, ReviewerId::new(format!("reviewer-{reviewer}"))?);
    let pop = Pop {
        collection: collection()?,
        limit: batch,
        strategy: Some(strategy),
        lock_timeout_ms: None,
        wait_ms: 0,
    };
    while run.goes_on() {
        let began = Instant::now();
        let popped = engine
            .review_pop(&who, pop.clone(), std::future::pending())
            .await?;
        let after_pop = began.elapsed();
        if popped.entries.is_empty() {
            run.end();
            break;
        }
        let decisions = popped.entries.iter().map(|entry| {
            Ok(Decision {
                id: entry.review.id,
                generation_id: None,
                token: Some(entry.review.hand.token),
                outcome: Outcome::Approved,
                reason: None,
                corrections: Vec::new(),
            })
        });
        for result in engine.review_commit(&who, decisions.collect()).await? {
            result.context("a review that was just popped is decided")?;
        }
        latencies.add(match timed {
            Timed::Both => began.elapsed(),
            Timed::Pop => after_pop,
        });
        run.add(popped.entries.len());
    }
    Ok(latencies)
}

async fn watch(site: &Site, name: &str, window: Duration) -> Result<Measured> {
    let engine = site.engine.clone();
    measure(name, window, |run| vec![watch_one(engine, run)]).await
}

async fn watch_one(engine: Engine, run: Run) -> Result<Latencies> {
    let mut latencies = Latencies::new()?;
    let (who, id) = (Watching::of(&scope()?), collection()?);
    while run.goes_on() {
        let began = Instant::now();
        engine.review_stats(&who, &id).await?;
        latencies.add(began.elapsed());
        run.add(1);
    }
    Ok(latencies)
}
