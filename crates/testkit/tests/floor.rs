//! Where claims on PostgreSQL begin to look: past the dead versions of lanes that an open transaction keeps alive, and never past a lane
//! that is ready.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use docket_engine::{Claim, Complete, Engine};
use docket_testkit::{Database, World, WorldConfig, names, plan};
use tokio_postgres::NoTls;

const LANES: usize = 10;
const JOBS: usize = 300;

/// Claims and completes a job of every lane, so many times.
async fn work(engine: &Engine, times: usize) {
    for _ in 0..times {
        let claim = Claim {
            pipeline: names::pipeline("work"),
            worker: names::worker("w1"),
            limit: u32::try_from(LANES).unwrap(),
            lease_ms: None,
            wait_ms: 0,
        };
        let jobs = engine.claim(claim).await.unwrap();
        assert_eq!(jobs.len(), LANES);
        let entries = jobs.iter().map(|job| Complete::new(job.id, job.token));
        let completed = engine.complete(entries.collect()).await.unwrap();
        assert!(completed.iter().all(Result::is_ok));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_transaction_does_not_make_claims_go_through_dead_versions() {
    let world = World::new(Database::postgres().await).await;
    let tenants: Vec<_> = (0..LANES).map(|n| format!("t{n}")).collect();
    let names: Vec<_> = tenants.iter().map(String::as_str).collect();
    world.lanes(2, &names).await;
    for tenant in &tenants {
        world.submit_many(tenant, "e", JOBS).await;
    }
    let url = world.database.url.clone().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("begin isolation level repeatable read; select count(*) from tier")
        .await
        .unwrap();
    let engine = world.another_engine(&WorldConfig::default()).await;
    work(&engine, 200).await;
    drop(engine);

    let before = plan::reads(&client).await["lane"].1;
    let engine = world.another_engine(&WorldConfig::default()).await;
    work(&engine, 50).await;
    drop(engine);
    let read = plan::reads(&client).await["lane"].1 - before;
    // The first claim of a server goes through all of them, about 4,000; a claim and ten completions need some 40. If each of them
    // went through the versions of its lane it would be 400,000.
    assert!(
        (1_000..12_000).contains(&read),
        "{read} versions of lanes were read"
    );
    client.batch_execute("rollback").await.unwrap();
    world.assert_healthy().await;
}

#[tokio::test]
async fn a_ready_lane_that_was_in_other_hands_is_not_forgotten() {
    let world = World::new(Database::postgres().await).await;
    world.lanes(5, &["a", "b"]).await;
    for tenant in ["a", "b"] {
        world.submit_many(tenant, "e", 10).await;
    }
    let (client, connection) = tokio_postgres::connect(world.database.url.as_deref().unwrap(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    for _ in 0..3 {
        let first = world.claim("w1", 2).await;
        assert_eq!(first.len(), 2, "a job of each, in turn");
        let next = first[0].tenant_id.as_str();
        // Whoever has the lane's row in hand, and in the end does nothing to it.
        client.batch_execute("begin").await.unwrap();
        let lock = "select 1 from lane join lane_of using (lane_key) where tenant_id = $1 for update of lane";
        assert_eq!(client.execute(lock, &[&next]).await.unwrap(), 1);
        let passed = world.claim("w1", 1).await;
        assert_ne!(passed[0].tenant_id, next);
        client.batch_execute("rollback").await.unwrap();
        let after = world.claim("w1", 1).await;
        assert_eq!(
            after[0].tenant_id, next,
            "it is the one that was served longest ago"
        );
        for job in first.iter().chain(&passed).chain(&after) {
            world.complete(job.id, job.token).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_claim_that_came_away_empty_beside_another_asks_again() {
    let world = World::new(Database::postgres().await).await;
    world.lanes(8, &["a", "b"]).await;
    for tenant in ["a", "b"] {
        world.submit_many(tenant, "e", 8).await;
    }
    let (client, connection) = tokio_postgres::connect(world.database.url.as_deref().unwrap(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let lock =
        "begin; select 1 from lane join lane_of using (lane_key) where tenant_id = 'b' for update of lane";
    client.batch_execute(lock).await.unwrap();
    let let_go = async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.batch_execute("rollback").await.unwrap();
    };
    // They ride together, and what is not in other hands is enough for one of them.
    let (one, other, ()) = tokio::join!(world.claim("w1", 8), world.claim("w2", 8), let_go);
    assert_eq!((one.len(), other.len()), (8, 8));
}
