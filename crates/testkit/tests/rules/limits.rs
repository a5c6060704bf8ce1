//! The rolling hour: how much a tenant may submit, exactly, also under concurrency (rule I2).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::tenant::{TenantSettings, Tier, UploadLimit};
use docket_engine::{Submit, SubmitItem};
use docket_testkit::{Database, World, WorldConfig, names, on_both};
use serde_json::json;

const HOUR: i64 = 3_600_000;
const MINUTE: i64 = 60_000;

async fn tenant(world: &World, tier: &str, uploads: Option<UploadLimit>) {
    let settings = TenantSettings {
        id: names::tenant("acme"),
        tier: tier.to_owned(),
        uploads,
        concurrent_jobs: None,
    };
    world
        .engine
        .tenant_put(&World::operator(), settings)
        .await
        .unwrap();
}

/// A tenant `acme` of this tier, with its collection.
async fn acme(world: &World, tier: &str) {
    world
        .pipeline("work", docket_core::pipeline::Pipeline::default())
        .await;
    tenant(world, tier, None).await;
    world.collection("acme", "acme", Some("work")).await;
}

fn items(prefix: &str, n: usize) -> Vec<SubmitItem> {
    (0..n)
        .map(|index| World::item(&format!("{prefix}-{index}")))
        .collect()
}

/// Submits so many; how many were taken, and the wait that the others were told.
async fn submit(world: &World, prefix: &str, n: usize) -> (usize, Vec<i64>) {
    let answer = world.submit("acme", items(prefix, n)).await.unwrap();
    let waits = answer.results.iter().filter_map(|result| match result {
        Ok(_) => None,
        Err(Refusal::RateLimited { wait_ms, .. }) => Some(*wait_ms),
        Err(other) => panic!("{other}"),
    });
    let waits: Vec<_> = waits.collect();
    (answer.results.len() - waits.len(), waits)
}

/// What is left, and the wait.
async fn left(world: &World) -> (u64, i64) {
    let allowance = world.engine.limits(&World::scope("acme")).await.unwrap();
    (allowance.remaining, allowance.wait_ms)
}

/// Fifty calls at once, spread over these engines; how many were taken.
async fn fifty_at_once(engines: &[docket_engine::Engine]) -> usize {
    let calls: Vec<_> = (0..50)
        .map(|n| {
            let engine = engines[n % engines.len()].clone();
            let call = Submit {
                collection: names::collection("acme"),
                items: items(&format!("call-{n}"), 1),
                idempotency_key: None,
            };
            tokio::spawn(async move { engine.submit(&World::scope("acme"), call).await.unwrap() })
        })
        .collect();
    let mut taken = 0;
    for call in calls {
        match call.await.unwrap().results.pop().unwrap() {
            Ok(_) => taken += 1,
            Err(refusal) => assert_eq!(refusal.code(), "rate_limited"),
        }
    }
    taken
}

on_both! {
    async fn each_tier_takes_its_number_in_an_hour_and_no_more(world: &World) {
        for (tier, limit) in [("free", 10), ("starter", 50), ("pro", 200), ("enterprise", 1_000)] {
            let id = format!("tenant-{tier}");
            world.tenant_of_tier(&id, tier).await;
            world.collection(&id, &id, None).await;
            for chunk in [limit, 5] {
                let before = world.engine.limits(&World::scope(&id)).await.unwrap();
                assert_eq!(before.limit, Some(limit as u64));
                let results = world.submit(&id, items(&chunk.to_string(), chunk)).await.unwrap().results;
                let taken = results.iter().filter(|result| result.is_ok()).count();
                assert_eq!(taken, chunk.min(usize::try_from(before.remaining).unwrap()), "{tier}");
            }
            assert_eq!(world.engine.limits(&World::scope(&id)).await.unwrap().remaining, 0);
        }
    }

    async fn a_tenants_own_number_stands_before_its_tiers(world: &World) {
        acme(world, "free").await;
        tenant(world, "free", Some(UploadLimit::PerHour(12))).await;
        assert_eq!(submit(world, "a", 20).await.0, 12);
        tenant(world, "enterprise", Some(UploadLimit::PerHour(13))).await;
        assert_eq!(submit(world, "b", 20).await.0, 1);
        tenant(world, "enterprise", Some(UploadLimit::PerHour(0))).await;
        world.pass_ms(2 * HOUR);
        assert_eq!(submit(world, "c", 3).await.0, 0, "a limit of nothing lets nothing in");
    }

    async fn a_tenant_without_a_limit_submits_what_it_likes(world: &World) {
        acme(world, "free").await;
        tenant(world, "free", Some(UploadLimit::Unlimited)).await;
        assert_eq!(submit(world, "a", 1_000).await.0, 1_000);
        assert_eq!(submit(world, "b", 1_000).await.0, 1_000);
        let allowance = world.engine.limits(&World::scope("acme")).await.unwrap();
        assert_eq!((allowance.limit, allowance.wait_ms), (None, 0));
    }

    async fn a_place_is_free_again_exactly_when_its_hour_has_passed(world: &World) {
        acme(world, "free").await;
        assert_eq!(submit(world, "a", 4).await.0, 4);
        world.pass_ms(10 * MINUTE);
        assert_eq!(submit(world, "b", 6).await.0, 6);
        assert_eq!(left(world).await, (0, 50 * MINUTE));
        assert_eq!(submit(world, "c", 1).await, (0, vec![50 * MINUTE]));
        world.pass_ms(50 * MINUTE - 1);
        assert_eq!(submit(world, "c", 1).await, (0, vec![1]));
        world.pass_ms(1);
        assert_eq!(left(world).await, (4, 0));
        assert_eq!(submit(world, "c", 5).await, (4, vec![10 * MINUTE]));
        world.pass_ms(10 * MINUTE);
        assert_eq!(left(world).await, (6, 0));
        assert_eq!(submit(world, "d", 7).await, (6, vec![50 * MINUTE]));
    }

    async fn a_clock_that_runs_backwards_does_not_open_the_window(world: &World) {
        acme(world, "free").await;
        assert_eq!(submit(world, "a", 5).await.0, 5);
        world.pass_ms(-2 * HOUR);
        assert_eq!(submit(world, "b", 6).await.0, 5);
        assert_eq!(submit(world, "c", 1).await.0, 0);
        world.pass_ms(2 * HOUR);
        assert_eq!(submit(world, "c", 1).await.0, 0, "what was taken meanwhile counts as of the latest moment");
        world.engine.retain().await.unwrap();
        world.pass_ms(HOUR - 1);
        assert_eq!(submit(world, "c", 1).await.0, 0);
        world.pass_ms(1);
        assert_eq!(submit(world, "c", 11).await.0, 10);
    }

    async fn exactly_10_of_50_concurrent_submissions_of_a_free_tenant_are_taken(world: &World) {
        acme(world, "free").await;
        assert_eq!(fifty_at_once(std::slice::from_ref(&world.engine)).await, 10);
        assert_eq!(left(world).await, (0, HOUR));
        assert_eq!(world.number("select count(*) from item").await, 10);
        assert_eq!(world.number("select count(*) from log where action = 'item.submitted'").await, 10);
    }

    async fn a_batch_over_the_limit_is_taken_in_part_and_the_rest_told_how_long_to_wait(world: &World) {
        acme(world, "free").await;
        let answer = world.submit("acme", items("a", 15)).await.unwrap();
        for (n, result) in answer.results.iter().enumerate() {
            match result {
                Ok(_) => assert!(n < 10, "entry {n} is over the limit"),
                Err(refusal) => {
                    assert!(n >= 10, "entry {n} is within the limit");
                    assert_eq!(*refusal, Refusal::RateLimited { limit: 10, wait_ms: HOUR });
                    assert_eq!(refusal.to_string(), "Upload limit reached. Please try again later.");
                }
            }
        }
        assert_eq!(world.number("select count(*) from item").await, 10);
    }

    async fn duplicates_and_refused_entries_use_no_place(world: &World) {
        acme(world, "free").await;
        assert_eq!(submit(world, "a", 5).await.0, 5);
        for _ in 0..3 {
            assert_eq!(submit(world, "a", 5).await.0, 5);
        }
        assert_eq!(left(world).await.0, 5);
        let mut bad = World::item("bad");
        bad.details.confidence = Some(-1.0);
        let conflict = SubmitItem { payload: json!("other"), ..World::item("a-0") };
        let answer = world.submit("acme", vec![bad, conflict]).await.unwrap();
        assert!(answer.results.iter().all(Result::is_err));
        assert_eq!(left(world).await.0, 5);
        assert_eq!(submit(world, "b", 5).await.0, 5);
        assert_eq!(submit(world, "a", 5).await.0, 5, "what is there already comes back at the limit too");
    }

    async fn an_items_next_version_uses_a_place(world: &World) {
        acme(world, "free").await;
        let version = |n: usize| {
            let mut item = SubmitItem { payload: json!(n), ..World::item("doc-1") };
            item.details.on_conflict = docket_core::item::OnConflict::NewVersion;
            item
        };
        let answer = world.submit("acme", (0..12).map(version).collect()).await.unwrap();
        assert_eq!(answer.results.iter().filter(|result| result.is_ok()).count(), 10);
        assert_eq!(left(world).await.0, 0);
    }

    async fn another_tier_changes_what_is_left_at_once(world: &World) {
        acme(world, "starter").await;
        assert_eq!(submit(world, "a", 15).await.0, 15);
        tenant(world, "free", None).await;
        assert_eq!(left(world).await, (0, HOUR));
        assert_eq!(submit(world, "b", 1).await, (0, vec![HOUR]));
        tenant(world, "pro", None).await;
        assert_eq!(left(world).await, (185, 0));
        let tier = Tier { name: "pro".to_owned(), uploads: UploadLimit::PerHour(20), concurrent_jobs: 5 };
        world.engine.tier_put(&World::operator(), tier).await.unwrap();
        assert_eq!(left(world).await, (5, 0));
        assert_eq!(submit(world, "b", 6).await.0, 5);
    }

    async fn a_tenant_far_over_a_lowered_limit_is_told_when_a_place_is_really_free(world: &World) {
        acme(world, "starter").await;
        assert_eq!(submit(world, "a", 5).await.0, 5);
        world.pass_ms(10 * MINUTE);
        assert_eq!(submit(world, "b", 10).await.0, 10);
        tenant(world, "free", None).await;
        // After 50 minutes the first five have left, and ten of ten are still used.
        assert_eq!(left(world).await, (0, HOUR));
        assert_eq!(submit(world, "c", 1).await, (0, vec![HOUR]));
        world.pass_ms(50 * MINUTE);
        assert_eq!(submit(world, "c", 1).await, (0, vec![10 * MINUTE]));
        world.pass_ms(10 * MINUTE);
        assert_eq!(submit(world, "c", 1).await.0, 1);
    }

    async fn the_limits_of_tenants_do_not_touch(world: &World) {
        acme(world, "free").await;
        world.tenant_of_tier("zeta", "free").await;
        world.collection("zeta", "zeta", Some("work")).await;
        assert_eq!(submit(world, "a", 11).await.0, 10);
        assert_eq!(world.engine.limits(&World::scope("zeta")).await.unwrap().remaining, 10);
        world.collection("acme-2", "acme", Some("work")).await;
        let call = Submit { collection: names::collection("acme-2"), items: items("z", 1), idempotency_key: None };
        let answer = world.engine.submit(&World::scope("acme"), call).await.unwrap();
        assert_eq!(answer.results[0].as_ref().unwrap_err().code(), "rate_limited", "a limit covers all collections");
    }

    async fn forgetting_old_moments_changes_no_limit(world: &World) {
        acme(world, "free").await;
        assert_eq!(submit(world, "a", 6).await.0, 6);
        world.pass_ms(HOUR / 2);
        assert_eq!(submit(world, "b", 2).await.0, 2);
        world.pass_ms(HOUR / 2);
        assert_eq!(left(world).await, (8, 0));
        assert_eq!(world.engine.retain().await.unwrap().moments, 1);
        assert_eq!(left(world).await, (8, 0));
        assert_eq!(submit(world, "c", 9).await, (8, vec![HOUR / 2]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_10_of_50_are_taken_also_by_two_servers() {
    let world = World::new(Database::postgres().await).await;
    acme(&world, "free").await;
    let other = world.another_engine(&WorldConfig::default()).await;
    assert_eq!(fifty_at_once(&[world.engine.clone(), other]).await, 10);
    world.assert_healthy().await;
}
