//! Locks on PostgreSQL: who waits for whom, that nobody waits for ever, and that nobody goes hungry.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use docket_core::field::MachineField;
use docket_core::item::OnConflict;
use docket_core::review::Outcome;
use docket_engine::{Claim, Complete, Engine, Submit, SubmitItem};
use docket_testkit::desk::{decision, pop_from, reviewer};
use docket_testkit::{Database, World, WorldConfig, names};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

async fn submit(engine: &Engine, items: Vec<SubmitItem>) {
    let call = Submit {
        collection: names::collection("acme"),
        items,
        idempotency_key: None,
    };
    let answer = engine.submit(&World::scope("acme"), call).await.unwrap();
    assert!(answer.results.iter().all(Result::is_ok));
}

fn claim(limit: u32) -> Claim {
    Claim {
        pipeline: names::pipeline("work"),
        worker: names::worker("w1"),
        limit,
        lease_ms: None,
        wait_ms: 0,
    }
}

/// A claim passes over lanes that others have locked. Where large submissions follow each other the lane is never free, and it has to
/// come through all the same (P11).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_comes_through_between_large_submissions() {
    const CALLS: usize = 12;
    let world = World::new(Database::postgres().await).await;
    world.lanes(1_000, &["acme"]).await;
    world.submit_one("acme", "first").await;
    let going = Arc::new(AtomicUsize::new(3));
    let mut submitters = JoinSet::new();
    for n in 0..3 {
        let engine = world.another_engine(&WorldConfig::default()).await;
        let going = Arc::clone(&going);
        submitters.spawn(async move {
            for call in 0..CALLS {
                let items = (0..1_000).map(|k| World::item(&format!("{n}-{call}-{k}")));
                submit(&engine, items.collect()).await;
            }
            going.fetch_sub(1, Ordering::SeqCst);
        });
    }
    let (mut got, mut empty) = (0, 0);
    while going.load(Ordering::SeqCst) == 3 {
        match world.engine.claim(claim(1)).await.unwrap().len() {
            0 => empty += 1,
            n => got += n,
        }
    }
    while let Some(ended) = submitters.join_next().await {
        ended.unwrap();
    }
    println!("{got} claims came through, {empty} did not");
    // Without standing in line it is two, and some eighty that are told that there is nothing.
    assert!(
        got > 0 && got > 4 * empty,
        "there was work all the time, but of {} claims only {got} had some",
        got + empty
    );
    world.assert_healthy().await;
}

/// Items, holds and lanes are locked in one order, also by a batch in which next versions stand between new items.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_with_next_versions_and_completions_do_not_lock_each_other_out() {
    const ITEMS: usize = 60;
    const ROUNDS: usize = 12;
    let world = World::new(Database::postgres().await).await;
    world.lanes(1_000, &["acme"]).await;
    world.submit_many("acme", "doc", ITEMS).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut workers = JoinSet::new();
    for _ in 0..3 {
        let engine = world.another_engine(&WorldConfig::default()).await;
        let over = Arc::clone(&over);
        workers.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                for job in engine.claim(claim(10)).await.unwrap() {
                    // One that has a next version by now has lost its lease.
                    drop(
                        engine
                            .complete(vec![Complete::new(job.id, job.token)])
                            .await
                            .unwrap(),
                    );
                }
            }
        });
    }
    let mut submitters = JoinSet::new();
    for n in 0..3 {
        let engine = world.another_engine(&WorldConfig::default()).await;
        submitters.spawn(async move {
            for round in 0..ROUNDS {
                let mut items: Vec<_> = (0..ITEMS)
                    .flat_map(|k| [next(k, n, round), World::item(&format!("new-{n}-{round}-{k}"))])
                    .collect();
                // In another order each time.
                items.rotate_left((n * 37 + round * 11) % (2 * ITEMS));
                if (n + round) % 2 == 1 {
                    items.reverse();
                }
                submit(&engine, items).await;
            }
        });
    }
    while let Some(ended) = submitters.join_next().await {
        ended.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    while let Some(ended) = workers.join_next().await {
        ended.unwrap();
    }
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(world.number(deadlocks).await, 0);
    world.assert_healthy().await;
}

fn next(k: usize, n: usize, round: usize) -> SubmitItem {
    let mut item = SubmitItem {
        payload: json!({ "by": n, "round": round }),
        ..World::item(&format!("doc-{k}"))
    };
    item.details.on_conflict = OnConflict::NewVersion;
    item
}

/// Reviewers who decide on many reviews at once, and batches that take those reviews back because their items have a next version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_with_next_versions_and_decisions_do_not_lock_each_other_out() {
    const ITEMS: usize = 40;
    const ROUNDS: usize = 15;
    let world = World::new(Database::postgres().await).await;
    world.desk("acme", json!({})).await;
    world.submit_many("acme", "doc", ITEMS).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut reviewers = JoinSet::new();
    for n in 0..3 {
        let engine = world.another_engine(&WorldConfig::default()).await;
        let over = Arc::clone(&over);
        reviewers.spawn(async move {
            let name = format!("r{n}");
            let who = reviewer("acme", &name);
            let mut decided = 0;
            while !over.load(Ordering::SeqCst) {
                let popped = pop_from(&engine, "acme", &name, 30).await;
                let ids = popped.entries.iter().map(|entry| entry.review.id);
                let decisions: Vec<_> = ids.map(|id| Ok(decision(id, Outcome::Approved))).collect();
                if decisions.is_empty() {
                    tokio::task::yield_now().await;
                    continue;
                }
                // Some of them were taken back by now.
                let said = engine.review_commit(&who, decisions).await.unwrap();
                decided += said.iter().filter(|result| result.is_ok()).count();
            }
            decided
        });
    }
    let mut submitters = JoinSet::new();
    for n in 0..2 {
        let engine = world.another_engine(&WorldConfig::default()).await;
        submitters.spawn(async move {
            for round in 0..ROUNDS {
                let mut items: Vec<_> = (0..ITEMS).map(|k| next(k, n, round)).collect();
                items.rotate_left((n * 17 + round * 7) % ITEMS);
                items.reverse();
                submit(&engine, items).await;
            }
        });
    }
    while let Some(ended) = submitters.join_next().await {
        ended.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    let mut decided = 0;
    while let Some(ended) = reviewers.join_next().await {
        decided += ended.unwrap();
    }
    assert!(decided > 0, "reviewers came to decide");
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    assert_eq!(world.number(deadlocks).await, 0);
    world.assert_healthy().await;
}

/// A machine's value takes the place of a correction that is not locked; one that a person locks in that very moment stays (V11).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_that_is_locked_while_its_job_is_completed_is_kept() {
    let world = World::new(Database::postgres().await).await;
    world.lanes(1, &["acme"]).await;
    let (who, item) = (World::scope("acme"), world.submit_one("acme", "doc").await.id);
    let said = |value: i64| MachineField {
        name: "total".to_owned(),
        value: json!(value),
        confidence: None,
        region: None,
    };
    let complete = async |value: i64| {
        let job = world.claim_one("w1").await;
        Complete {
            fields: Some(vec![said(value)]),
            ..Complete::new(job.id, job.token)
        }
    };
    let first = vec![complete(1).await];
    world.engine.complete(first).await.unwrap().remove(0).unwrap();
    let corrections = vec![("total".to_owned(), json!(2))];
    world
        .engine
        .fields_correct(&who, item, corrections)
        .await
        .unwrap();
    world.engine.field_unlock(&who, item, "total").await.unwrap();
    world.engine.reprocess(&who, item).await.unwrap();

    let (person, connection) = tokio_postgres::connect(world.database.url.as_deref().unwrap(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    person
        .batch_execute("begin; select 1 from correction for update")
        .await
        .unwrap();
    let (engine, second) = (world.engine.clone(), vec![complete(3).await]);
    let completing = tokio::spawn(async move { engine.complete(second).await });
    let waits = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    while world.number(waits).await == 0 {
        assert!(!completing.is_finished(), "it has to wait for the person");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    person
        .batch_execute("update correction set value = '4', locked = true; commit")
        .await
        .unwrap();
    completing.await.unwrap().unwrap().remove(0).unwrap();
    let view = world.view("acme", item).await;
    let field = &view.fields[0];
    assert_eq!((&field.value, field.locked), (&json!(4), true));
    assert_eq!(field.machine_value, Some(json!(3)));
    world.assert_healthy().await;
}
