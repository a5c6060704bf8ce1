//! Order within a lane and the number of its jobs that run (rules P1 and P2).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use docket_core::job::Failure;
use docket_core::pipeline::Pipeline;
use docket_core::tenant::{TenantSettings, Tier, UploadLimit};
use docket_engine::{ClaimedJob, Fail, Release, Submit};
use docket_testkit::{World, names, on_both};

/// The externalIds of claimed jobs, in the order of the answer.
fn ids(jobs: &[ClaimedJob]) -> Vec<String> {
    jobs.iter().map(|job| job.external_id.clone().unwrap()).collect()
}

/// What a worker gets that asks for one job at a time until there is none.
async fn claim_singly(world: &World) -> Vec<ClaimedJob> {
    let mut jobs = Vec::new();
    while let Some(job) = world.claim("w1", 1).await.pop() {
        jobs.push(job);
    }
    jobs
}

async fn release(world: &World, job: &ClaimedJob) {
    let released = world
        .engine
        .release(vec![Release {
            job: job.id,
            token: job.token,
        }])
        .await;
    released.unwrap().pop().unwrap().unwrap();
}

async fn fail_for_good(world: &World, job: &ClaimedJob) {
    let failure = Failure {
        error: "no".into(),
        step: None,
        retryable: false,
    };
    let failed = world
        .engine
        .fail(vec![Fail {
            job: job.id,
            token: job.token,
            failure,
        }])
        .await;
    failed.unwrap().pop().unwrap().unwrap();
}

on_both! {
    async fn jobs_start_in_the_order_of_their_submission(world: &World) {
        world.lanes(20, &["acme"]).await;
        for n in 0..4 {
            world.submit_one("acme", &format!("single-{n}")).await;
        }
        world.submit_many("acme", "batch", 4).await;
        world.submit_one("acme", "last").await;
        let expected = [
            "single-0", "single-1", "single-2", "single-3", "batch-0", "batch-1", "batch-2", "batch-3", "last",
        ];
        assert_eq!(ids(&claim_singly(world).await), expected);
    }

    async fn a_batch_is_claimed_in_the_order_of_its_submission(world: &World) {
        world.lanes(100, &["acme"]).await;
        let submitted = world.submit_many("acme", "doc", 60).await;
        let first: Vec<_> = world.claim("w1", 40).await.iter().map(|job| job.item).collect();
        let rest: Vec<_> = world.claim("w1", 40).await.iter().map(|job| job.item).collect();
        assert_eq!((first.len(), rest.len()), (40, 20));
        assert_eq!([first, rest].concat(), submitted);
    }

    async fn a_job_that_was_put_back_starts_in_its_old_place(world: &World) {
        world.lanes(3, &["acme"]).await;
        world.submit_many("acme", "doc", 7).await;
        let jobs = world.claim("w1", 10).await;
        assert_eq!(ids(&jobs), ["doc-0", "doc-1", "doc-2"]);
        // In another order than they came: the place counts, not the moment.
        release(world, &jobs[2]).await;
        release(world, &jobs[1]).await;
        world.fail(jobs[0].id, jobs[0].token, "try again").await.unwrap();
        let again = world.claim("w1", 10).await;
        assert_eq!(ids(&again), ["doc-1", "doc-2", "doc-3"], "the one that waits holds nobody up");
        world.pass_ms(10_000);
        assert_eq!(world.engine.reap(None).await.unwrap().resumed, 1);
        for job in &again {
            world.complete(job.id, job.token).await.unwrap();
        }
        assert_eq!(ids(&world.claim("w1", 10).await), ["doc-0", "doc-4", "doc-5"]);
    }

    async fn a_job_whose_worker_died_starts_in_its_old_place(world: &World) {
        world.lanes(2, &["acme"]).await;
        world.submit_many("acme", "doc", 4).await;
        let jobs = world.claim("w1", 2).await;
        world.complete(jobs[0].id, jobs[0].token).await.unwrap();
        let next = world.claim_one("w2").await;
        assert_eq!(next.external_id.as_deref(), Some("doc-2"));
        world.pass_ms(600_000);
        assert_eq!(world.engine.reap(None).await.unwrap().requeued, 2);
        assert_eq!(ids(&claim_singly(world).await), ["doc-1", "doc-2"]);
    }

    async fn a_tenant_runs_as_many_jobs_as_its_tier_allows(world: &World) {
        world.pipeline("work", Pipeline::default()).await;
        for (tier, limit) in [("free", 1), ("starter", 2), ("pro", 5), ("enterprise", 20)] {
            world.tenant_of_tier(tier, tier).await;
            world.collection(tier, tier, Some("work")).await;
            world.submit_many(tier, tier, limit + 3).await;
        }
        let mut running = BTreeMap::new();
        for job in world.claim("w1", 500).await {
            *running.entry(job.tenant_id).or_insert(0) += 1;
        }
        let expected = [("enterprise", 20), ("free", 1), ("pro", 5), ("starter", 2)];
        assert_eq!(running, expected.map(|(tier, n)| (tier.to_owned(), n)).into());
        assert!(world.claim("w2", 500).await.is_empty(), "every lane is full");
    }

    async fn a_tenants_own_number_stands_before_its_tiers(world: &World) {
        world.lanes(3, &["acme"]).await;
        world.submit_many("acme", "doc", 10).await;
        let jobs = claim_singly(world).await;
        assert_eq!(jobs.len(), 3, "its tier alone would allow one");
        world.tenant("acme", 1).await;
        for job in jobs {
            world.complete(job.id, job.token).await.unwrap();
        }
        assert_eq!(claim_singly(world).await.len(), 1);
    }

    async fn every_way_to_end_a_job_frees_its_place(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_many("acme", "doc", 7).await;
        let next = async |expected: &str| {
            let job = world.claim_one("w1").await;
            assert_eq!(job.external_id.as_deref(), Some(expected));
            assert!(world.claim("w2", 5).await.is_empty(), "one at a time");
            job
        };
        let job = next("doc-0").await;
        world.complete(job.id, job.token).await.unwrap();
        let job = next("doc-1").await;
        fail_for_good(world, &job).await;
        let job = next("doc-2").await;
        world.engine.cancel(&World::scope("acme"), job.item).await.unwrap();
        let job = next("doc-3").await;
        release(world, &job).await;
        let job = next("doc-3").await;
        world.fail(job.id, job.token, "later").await.unwrap();
        let job = next("doc-4").await;
        world.pass_ms(600_000);
        world.engine.reap(None).await.unwrap();
        // Both the one that waited and the one whose worker fell silent are back, in their order.
        let job_3 = next("doc-3").await;
        world.complete(job_3.id, job_3.token).await.unwrap();
        assert_eq!(next("doc-4").await.id, job.id);
    }

    async fn a_lowered_limit_starts_nothing_until_the_lane_is_below_it(world: &World) {
        world.lanes(5, &["acme"]).await;
        world.submit_many("acme", "doc", 10).await;
        let jobs = world.claim("w1", 10).await;
        assert_eq!(jobs.len(), 5);
        world.tenant("acme", 2).await;
        for job in &jobs[..3] {
            assert!(world.claim("w1", 10).await.is_empty());
            world.complete(job.id, job.token).await.unwrap();
        }
        assert!(world.claim("w1", 10).await.is_empty(), "two run, two may");
        world.complete(jobs[3].id, jobs[3].token).await.unwrap();
        assert_eq!(ids(&world.claim("w1", 10).await), ["doc-5"]);
    }

    async fn a_raised_limit_lets_more_start_at_once(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_many("acme", "doc", 6).await;
        assert_eq!(world.claim("w1", 10).await.len(), 1);
        world.tenant("acme", 4).await;
        assert_eq!(ids(&world.claim("w1", 10).await), ["doc-1", "doc-2", "doc-3"]);
    }

    async fn a_changed_tier_changes_the_lanes_of_its_tenants(world: &World) {
        world.lanes(1, &["own"]).await;
        world.tenant_of_tier("acme", "free").await;
        world.collection("acme", "acme", Some("work")).await;
        world.submit_many("own", "own", 3).await;
        world.submit_many("acme", "doc", 3).await;
        let free = Tier { name: "free".into(), uploads: UploadLimit::PerHour(10), concurrent_jobs: 2 };
        world.engine.tier_put(&World::operator(), free).await.unwrap();
        let mut running = ids(&world.claim("w1", 10).await);
        running.sort();
        assert_eq!(running, ["doc-0", "doc-1", "own-0"], "a tenant with its own number keeps it");
        let pro = TenantSettings {
            id: names::tenant("acme"),
            tier: "pro".into(),
            uploads: None,
            concurrent_jobs: None,
        };
        world.engine.tenant_put(&World::operator(), pro).await.unwrap();
        assert_eq!(ids(&world.claim("w1", 10).await), ["doc-2"]);
    }

    async fn the_limit_holds_for_each_pipeline_by_itself(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("other", Pipeline::default()).await;
        world.collection("acme-other", "acme", Some("other")).await;
        world.submit_many("acme", "doc", 2).await;
        let call = Submit {
            collection: names::collection("acme-other"),
            items: vec![World::item("other-0"), World::item("other-1")],
            idempotency_key: None,
        };
        world.engine.submit(&World::scope("acme"), call).await.unwrap();
        assert_eq!(ids(&world.claim("w1", 5).await), ["doc-0"]);
        assert_eq!(ids(&world.claim_of("other", "w1", 5).await), ["other-0"]);
        assert!(world.claim("w1", 5).await.is_empty());
    }

    async fn two_collections_of_a_tenant_share_its_lane(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.collection("more", "acme", Some("work")).await;
        world.submit_one("acme", "first").await;
        let call = Submit {
            collection: names::collection("more"),
            items: vec![World::item("second")],
            idempotency_key: None,
        };
        world.engine.submit(&World::scope("acme"), call).await.unwrap();
        world.submit_one("acme", "third").await;
        for expected in ["first", "second", "third"] {
            let jobs = world.claim("w1", 5).await;
            assert_eq!(ids(&jobs), [expected]);
            world.complete(jobs[0].id, jobs[0].token).await.unwrap();
        }
    }
}
