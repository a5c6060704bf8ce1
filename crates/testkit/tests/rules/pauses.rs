//! Pausing, resuming and cancelling (rule P13).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::item::ItemStatus;
use docket_core::pipeline::Pipeline;
use docket_engine::{ClaimedJob, Heartbeat, PauseScope, PauseTarget, Release, Submit};
use docket_testkit::{World, names, on_both};

fn ids(jobs: &[ClaimedJob]) -> Vec<&str> {
    jobs.iter()
        .map(|job| job.external_id.as_deref().unwrap())
        .collect()
}

fn lane(tenant: &str, pipeline: &str) -> PauseTarget {
    PauseTarget::Lane(names::tenant(tenant), names::pipeline(pipeline))
}

/// Tenants `a` and `b` with two jobs each in the pipelines `work` and `other`.
async fn set_up(world: &World) {
    world.lanes(5, &["a", "b"]).await;
    world.pipeline("other", Pipeline::default()).await;
    for tenant in ["a", "b"] {
        let collection = format!("{tenant}-other");
        world.collection(&collection, tenant, Some("other")).await;
        world.submit_many(tenant, tenant, 2).await;
        let items = (0..2)
            .map(|n| World::item(&format!("{tenant}-other-{n}")))
            .collect();
        let call = Submit {
            collection: names::collection(&collection),
            items,
            idempotency_key: None,
        };
        world.engine.submit(&World::scope(tenant), call).await.unwrap();
    }
}

async fn pause(world: &World, target: PauseTarget) -> docket_core::id::PauseId {
    world
        .engine
        .pause(&World::operator(), target, "maintenance")
        .await
        .unwrap()
}

async fn resume(world: &World, id: docket_core::id::PauseId) {
    world.engine.resume(&World::operator(), id).await.unwrap();
}

async fn status(world: &World, tenant: &str, item: docket_core::id::ItemId) -> ItemStatus {
    world.view(tenant, item).await.item.status
}

on_both! {
    async fn a_paused_lane_starts_nothing_and_the_others_go_on(world: &World) {
        set_up(world).await;
        let id = pause(world, lane("a", "work")).await;
        assert_eq!(ids(&world.claim("w1", 10).await), ["b-0", "b-1"]);
        assert_eq!(world.claim_of("other", "w1", 10).await.len(), 4, "its tenant's other lane goes on");
        resume(world, id).await;
        assert_eq!(ids(&world.claim("w1", 10).await), ["a-0", "a-1"]);
    }

    async fn a_paused_pipeline_starts_nothing_and_the_others_go_on(world: &World) {
        set_up(world).await;
        let id = pause(world, PauseTarget::Pipeline(names::pipeline("work"))).await;
        assert!(world.claim("w1", 10).await.is_empty());
        assert_eq!(world.claim_of("other", "w1", 10).await.len(), 4);
        resume(world, id).await;
        assert_eq!(world.claim("w1", 10).await.len(), 4);
    }

    async fn when_everything_is_paused_nothing_starts(world: &World) {
        set_up(world).await;
        let id = pause(world, PauseTarget::All).await;
        assert!(world.claim("w1", 10).await.is_empty());
        assert!(world.claim_of("other", "w1", 10).await.is_empty());
        resume(world, id).await;
        assert_eq!(world.claim("w1", 10).await.len(), 4);
        assert_eq!(world.claim_of("other", "w1", 10).await.len(), 4);
    }

    async fn pauses_hold_until_each_of_them_is_lifted(world: &World) {
        set_up(world).await;
        let pauses = [
            pause(world, lane("a", "work")).await,
            pause(world, PauseTarget::All).await,
            pause(world, lane("a", "work")).await,
            pause(world, PauseTarget::Pipeline(names::pipeline("work"))).await,
        ];
        for id in pauses {
            let jobs = world.claim("w1", 10).await;
            assert!(jobs.iter().all(|job| job.tenant_id != "a"), "a pause still holds");
            resume(world, id).await;
        }
        assert_eq!(world.claim("w1", 10).await.len(), 4);
        assert!(world.engine.pauses().await.unwrap().is_empty());
    }

    async fn what_runs_goes_on_through_a_pause(world: &World) {
        world.lanes(3, &["a"]).await;
        world.submit_many("a", "doc", 5).await;
        let jobs = world.claim("w1", 3).await;
        let pauses = [pause(world, lane("a", "work")).await, pause(world, PauseTarget::All).await];
        let beat = Heartbeat { job: jobs[0].id, token: jobs[0].token, lease_ms: None };
        world.engine.heartbeat(vec![beat]).await.unwrap().remove(0).unwrap();
        world.complete(jobs[0].id, jobs[0].token).await.unwrap();
        world.fail(jobs[1].id, jobs[1].token, "later").await.unwrap();
        let back = Release { job: jobs[2].id, token: jobs[2].token };
        world.engine.release(vec![back]).await.unwrap().remove(0).unwrap();
        world.pass_ms(600_000);
        assert_eq!(world.engine.reap(None).await.unwrap().resumed, 1);
        assert!(world.claim("w1", 10).await.is_empty());
        for id in pauses {
            resume(world, id).await;
        }
        assert_eq!(ids(&world.claim("w1", 10).await), ["doc-1", "doc-2", "doc-3"]);
    }

    async fn a_paused_lane_still_takes_submissions(world: &World) {
        world.lanes(5, &["a"]).await;
        let id = pause(world, lane("a", "work")).await;
        world.submit_many("a", "doc", 3).await;
        assert!(world.claim("w1", 10).await.is_empty());
        resume(world, id).await;
        assert_eq!(ids(&world.claim("w1", 10).await), ["doc-0", "doc-1", "doc-2"]);
    }

    async fn pauses_are_listed_with_who_and_why(world: &World) {
        set_up(world).await;
        let id = world.engine.pause(&World::operator(), PauseTarget::All, "the model is down").await.unwrap();
        world.pass_ms(1);
        pause(world, lane("a", "work")).await;
        let found = world.engine.pauses().await.unwrap();
        let first = &found[0];
        assert_eq!((first.id, first.scope, found.len()), (id, PauseScope::All, 2));
        assert_eq!((first.reason.as_str(), first.actor.as_str()), ("the model is down", "admin:test"));
        assert!(matches!(found[1].scope, PauseScope::Lane(_)));
    }

    async fn a_pause_of_nothing_is_refused(world: &World) {
        set_up(world).await;
        let who = World::operator();
        for (target, reason, code) in [
            (PauseTarget::Pipeline(names::pipeline("nope")), "x", "not_found"),
            (lane("a", "nope"), "x", "not_found"),
            (lane("nobody", "work"), "x", "not_found"),
            (PauseTarget::All, "", "validation_failed"),
        ] {
            let refused = world.engine.pause(&who, target, reason).await.unwrap_err();
            assert_eq!(refused.refusal().map(Refusal::code), Some(code));
        }
        let id = pause(world, PauseTarget::All).await;
        resume(world, id).await;
        let again = world.engine.resume(&who, id).await.unwrap_err();
        assert_eq!(again.refusal().map(Refusal::code), Some("not_found"));
        assert_eq!(world.claim("w1", 10).await.len(), 4);
    }

    async fn a_cancelled_job_never_starts(world: &World) {
        world.lanes(1, &["a"]).await;
        let items = world.submit_many("a", "doc", 4).await;
        for n in [1, 3] {
            world.engine.cancel(&World::scope("a"), items[n]).await.unwrap();
        }
        for expected in ["doc-0", "doc-2"] {
            let jobs = world.claim("w1", 5).await;
            assert_eq!(ids(&jobs), [expected]);
            world.complete(jobs[0].id, jobs[0].token).await.unwrap();
        }
        assert!(world.claim("w1", 5).await.is_empty());
        assert_eq!(status(world, "a", items[1]).await, ItemStatus::Cancelled);
        let story = world.story("a", items[1]).await;
        assert_eq!(story, ["item.submitted", "job.cancelled", "item.cancelled"]);
        let counts = world.engine.counts(&World::scope("a"), &names::collection("a")).await.unwrap();
        assert_eq!(counts, [(ItemStatus::Completed, 2), (ItemStatus::Cancelled, 2)].into());
    }

    async fn what_was_put_back_or_waits_can_be_cancelled(world: &World) {
        world.lanes(2, &["a"]).await;
        let items = world.submit_many("a", "doc", 3).await;
        let jobs = world.claim("w1", 2).await;
        let back = Release { job: jobs[0].id, token: jobs[0].token };
        world.engine.release(vec![back]).await.unwrap().remove(0).unwrap();
        world.fail(jobs[1].id, jobs[1].token, "later").await.unwrap();
        for item in &items[..2] {
            world.engine.cancel(&World::scope("a"), *item).await.unwrap();
            assert_eq!(status(world, "a", *item).await, ItemStatus::Cancelled);
        }
        world.pass_ms(600_000);
        assert_eq!(world.engine.reap(None).await.unwrap(), Default::default());
        assert_eq!(ids(&world.claim("w1", 5).await), ["doc-2"]);
    }

    async fn a_worker_whose_job_is_cancelled_finds_its_lease_lost(world: &World) {
        world.lanes(1, &["a"]).await;
        let items = world.submit_many("a", "doc", 2).await;
        let job = world.claim_one("w1").await;
        world.engine.cancel(&World::scope("a"), items[0]).await.unwrap();
        let before = world.all_of("a", items[0]).await;
        let beat = Heartbeat { job: job.id, token: job.token, lease_ms: None };
        assert_eq!(world.engine.heartbeat(vec![beat]).await.unwrap(), [Err(Refusal::LeaseLost)]);
        assert_eq!(world.complete(job.id, job.token).await, Err(Refusal::LeaseLost));
        assert_eq!(world.fail(job.id, job.token, "x").await, Err(Refusal::LeaseLost));
        assert_eq!(world.all_of("a", items[0]).await, before);
        assert_eq!(status(world, "a", items[0]).await, ItemStatus::Cancelled);
        assert_eq!(ids(&world.claim("w1", 5).await), ["doc-1"], "its place is free at once");
    }

    async fn what_has_ended_cannot_be_cancelled(world: &World) {
        world.lanes(1, &["a"]).await;
        let items = world.submit_many("a", "doc", 2).await;
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        world.engine.cancel(&World::scope("a"), items[1]).await.unwrap();
        for item in items {
            let before = world.all_of("a", item).await;
            let refused = world.engine.cancel(&World::scope("a"), item).await.unwrap_err();
            assert_eq!(refused.refusal().map(Refusal::code), Some("conflict"));
            assert_eq!(world.all_of("a", item).await, before);
        }
    }
}
