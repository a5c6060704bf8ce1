//! Lanes are independent and served in turn (rule P3).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeSet, HashSet};

use docket_core::pipeline::Pipeline;
use docket_engine::{ClaimedJob, Release, Submit};
use docket_testkit::{World, names, on_both};

fn ids(jobs: &[ClaimedJob]) -> Vec<String> {
    jobs.iter().map(|job| job.external_id.clone().unwrap()).collect()
}

async fn claim_singly(world: &World, pipeline: &str, n: usize) -> Vec<ClaimedJob> {
    let mut jobs = Vec::new();
    for _ in 0..n {
        jobs.extend(world.claim_of(pipeline, "w1", 1).await);
    }
    jobs
}

async fn submit_to(world: &World, tenant: &str, collection: &str, n: usize) {
    let items = (0..n)
        .map(|index| World::item(&format!("{tenant}-{index}")))
        .collect();
    let call = Submit {
        collection: names::collection(collection),
        items,
        idempotency_key: None,
    };
    let answer = world.engine.submit(&World::scope(tenant), call).await.unwrap();
    assert!(answer.results.iter().all(Result::is_ok));
}

/// The lanes of a pipeline in a motley state: other limits, other lengths, some that run, some put back.
async fn motley(world: &World, pipeline: &str) {
    world.pipeline(pipeline, Pipeline::default()).await;
    let lanes = [
        ("a", 1, 5),
        ("b", 3, 2),
        ("c", 10, 9),
        ("d", 2, 1),
        ("e", 4, 12),
        ("f", 1, 1),
    ];
    for (tenant, limit, jobs) in lanes {
        let collection = format!("{pipeline}-{tenant}");
        world.tenant(tenant, limit).await;
        world.collection(&collection, tenant, Some(pipeline)).await;
        submit_to(world, tenant, &collection, jobs).await;
    }
    let jobs = claim_singly(world, pipeline, 8).await;
    for index in [1, 4, 2] {
        let back = Release {
            job: jobs[index].id,
            token: jobs[index].token,
        };
        world
            .engine
            .release(vec![back])
            .await
            .unwrap()
            .pop()
            .unwrap()
            .unwrap();
    }
}

on_both! {
    async fn the_lane_served_longest_ago_goes_first(world: &World) {
        world.lanes(10, &["a", "b", "c"]).await;
        for tenant in ["c", "a", "b"] {
            world.submit_many(tenant, tenant, 3).await;
        }
        let jobs = ids(&claim_singly(world, "work", 10).await);
        assert_eq!(jobs, ["a-0", "b-0", "c-0", "a-1", "b-1", "c-1", "a-2", "b-2", "c-2"]);
    }

    async fn a_lane_that_was_empty_for_a_while_keeps_its_turn(world: &World) {
        world.lanes(10, &["a", "b", "c"]).await;
        for tenant in ["a", "b", "c"] {
            world.submit_one(tenant, &format!("{tenant}-early")).await;
        }
        claim_singly(world, "work", 3).await;
        // Whoever comes back first, the one served longest ago goes first.
        for tenant in ["c", "b", "a"] {
            world.submit_one(tenant, &format!("{tenant}-late")).await;
        }
        assert_eq!(ids(&claim_singly(world, "work", 3).await), ["a-late", "b-late", "c-late"]);
    }

    async fn a_batch_claim_takes_what_single_claims_in_a_row_would(world: &World) {
        for n in [1, 2, 5, 6, 7, 13, 40] {
            let (singly, at_once) = (format!("singly-{n}"), format!("at-once-{n}"));
            motley(world, &singly).await;
            motley(world, &at_once).await;
            let mut expected = ids(&claim_singly(world, &singly, n).await);
            let mut found = ids(&world.claim_of(&at_once, "w1", u32::try_from(n).unwrap()).await);
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "{n} jobs");
            // The lanes have had their turns in the same order, too.
            let next = ids(&claim_singly(world, &at_once, 6).await);
            assert_eq!(next, ids(&claim_singly(world, &singly, 6).await), "after {n} jobs");
        }
    }

    async fn a_full_lane_holds_up_no_other(world: &World) {
        world.lanes(1, &["whale", "minnow"]).await;
        world.submit_many("whale", "whale", 50).await;
        assert_eq!(ids(&world.claim("w1", 10).await), ["whale-0"]);
        for n in 0..5 {
            world.submit_one("minnow", &format!("minnow-{n}")).await;
            let jobs = world.claim("w1", 10).await;
            assert_eq!(ids(&jobs), [format!("minnow-{n}")]);
            world.complete(jobs[0].id, jobs[0].token).await.unwrap();
        }
    }

    async fn a_hundred_thousand_jobs_of_one_tenant_delay_nobody(world: &World) {
        world.lanes(1_000, &["whale"]).await;
        world.submit_many("whale", "whale", 100_000).await;
        world.claim("w1", 10).await;
        let small: Vec<String> = (0..50).map(|n| format!("small-{n}")).collect();
        for tenant in &small {
            world.tenant(tenant, 1).await;
            world.collection(tenant, tenant, Some("work")).await;
            world.submit_one(tenant, "only").await;
        }
        let started: HashSet<String> =
            claim_singly(world, "work", 51).await.into_iter().map(|job| job.tenant_id).collect();
        let missing: Vec<_> = small.iter().filter(|tenant| !started.contains(*tenant)).collect();
        assert!(missing.is_empty(), "not started within 51 claims: {missing:?}");
        assert!(started.contains("whale"), "nor is the whale left out");

        // Somebody who was never served goes before the whale's next.
        world.tenant("newcomer", 1).await;
        world.collection("newcomer", "newcomer", Some("work")).await;
        claim_singly(world, "work", 3).await;
        world.submit_one("newcomer", "new").await;
        assert_eq!(world.claim_one("w1").await.tenant_id, "newcomer");
        assert_eq!(world.claim_one("w1").await.tenant_id, "whale");
    }

    async fn lanes_of_other_pipelines_are_left_alone(world: &World) {
        world.lanes(5, &["a", "b"]).await;
        world.pipeline("other", Pipeline::default()).await;
        for tenant in ["a", "b"] {
            let collection = format!("{tenant}-other");
            world.collection(&collection, tenant, Some("other")).await;
            world.submit_many(tenant, "work", 4).await;
            submit_to(world, tenant, &collection, 2).await;
        }
        let tenants = async |pipeline: &str, n: usize| {
            let jobs = claim_singly(world, pipeline, n).await;
            jobs.into_iter().map(|job| job.tenant_id).collect::<Vec<_>>()
        };
        assert_eq!(tenants("work", 3).await, ["a", "b", "a"]);
        // Served there, and yet as if never served here.
        assert_eq!(tenants("other", 3).await, ["a", "b", "a"]);
        assert_eq!(tenants("work", 3).await, ["b", "a", "b"]);
    }

    async fn a_large_batch_takes_from_every_lane(world: &World) {
        let tenants: Vec<String> = (0..30).map(|n| format!("t{n:02}")).collect();
        let names: Vec<&str> = tenants.iter().map(String::as_str).collect();
        world.lanes(50, &names).await;
        for tenant in &tenants {
            world.submit_many(tenant, tenant, 10).await;
        }
        let first: BTreeSet<String> = world.claim("w1", 30).await.into_iter().map(|job| job.tenant_id).collect();
        assert_eq!(first.len(), 30, "one of each");
        let rest = world.claim("w1", 1_000).await;
        let all: HashSet<_> = rest.iter().map(|job| job.id).collect();
        assert_eq!((rest.len(), all.len()), (270, 270));
    }
}
