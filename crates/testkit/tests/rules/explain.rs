//! Why is it not running? Each reason by itself, and several together (rule P14).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::id::ItemId;
use docket_core::item::ItemStatus;
use docket_core::pipeline::Pipeline;
use docket_engine::{Explanation, PauseTarget};
use docket_testkit::{World, names, on_both};

async fn explain(world: &World, item: ItemId) -> Explanation {
    world.engine.explain(&World::scope("acme"), item).await.unwrap()
}

/// A worker asks, so that one was seen; there is nothing for it.
async fn a_worker_asks(world: &World) {
    assert!(world.claim("w0", 1).await.is_empty());
}

on_both! {
    async fn nothing_holds_what_the_next_worker_gets(world: &World) {
        world.lanes(1, &["acme"]).await;
        a_worker_asks(world).await;
        let item = world.submit_one("acme", "doc").await.id;
        let explanation = explain(world, item).await;
        assert_eq!(explanation.status, ItemStatus::Queued);
        assert_eq!(explanation.reasons, ["Nothing holds it: it starts when a worker asks and it is its lane's turn"]);
        assert_eq!(explanation.position.map(|position| position.ahead), Some(0));
        assert!(explanation.worker_seen_at.is_some() && explanation.holders.is_empty());
    }

    async fn it_says_that_no_worker_has_ever_asked(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        let explanation = explain(world, item).await;
        assert_eq!(explanation.reasons, ["No worker has ever asked for jobs of its pipeline"]);
        assert_eq!(explanation.worker_seen_at, None);
    }

    async fn it_says_since_when_no_worker_has_asked(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("other", Pipeline::default()).await;
        a_worker_asks(world).await;
        let item = world.submit_one("acme", "doc").await.id;
        world.pass_ms(5 * 60_000 + 7_000);
        world.claim_of("other", "w0", 1).await;
        let explanation = explain(world, item).await;
        assert_eq!(explanation.reasons, ["No worker has asked for jobs of its pipeline for 5 minutes"]);
        let since = explanation.worker_seen_at.unwrap();
        assert_eq!(item.created_at(), since);
    }

    async fn it_names_the_jobs_that_hold_the_lane(world: &World) {
        world.lanes(2, &["acme"]).await;
        let items = world.submit_many("acme", "doc", 4).await;
        let first = world.claim_one("w1").await;
        world.pass_ms(500);
        let second = world.claim_one("w2").await;
        let explanation = explain(world, items[2]).await;
        assert_eq!(explanation.reasons, ["The lane is full: 2 of 2 jobs run"]);
        let holders: Vec<_> = explanation.holders.iter().map(|h| (h.job, h.worker.as_deref().unwrap())).collect();
        assert_eq!(holders, [(first.id, "w1"), (second.id, "w2")]);
        assert_eq!(explanation.holders[1].since.since(explanation.holders[0].since), 500);
        assert_eq!(explanation.holders[0].lease_expires_at, first.lease_expires_at);
        let reasons = explain(world, items[3]).await.reasons;
        assert_eq!(reasons, ["The lane is full: 2 of 2 jobs run", "1 job of the lane is before it"]);
    }

    async fn it_says_how_many_are_before_it(world: &World) {
        world.lanes(5, &["acme"]).await;
        a_worker_asks(world).await;
        let items = world.submit_many("acme", "doc", 4).await;
        let explanation = explain(world, items[3]).await;
        assert_eq!(explanation.reasons, ["3 jobs of the lane are before it"]);
        assert_eq!(explanation.position.map(|position| position.ahead), Some(3));
    }

    async fn it_names_every_pause_with_who_and_why(world: &World) {
        world.lanes(5, &["acme", "other"]).await;
        a_worker_asks(world).await;
        let item = world.submit_one("acme", "doc").await.id;
        let lane = |tenant| PauseTarget::Lane(names::tenant(tenant), names::pipeline("work"));
        let targets = [
            (PauseTarget::All, "a fire"),
            (PauseTarget::Pipeline(names::pipeline("work")), "a new model"),
            (lane("acme"), "an unpaid bill"),
            (lane("other"), "nothing to do with it"),
        ];
        for (target, reason) in targets {
            world.engine.pause(&World::operator(), target, reason).await.unwrap();
            world.pass_ms(1);
        }
        let explanation = explain(world, item).await;
        let expected = [
            "Everything is paused by admin:test: a fire",
            "The pipeline is paused by admin:test: a new model",
            "The lane is paused by admin:test: an unpaid bill",
        ];
        assert_eq!(explanation.reasons, expected);
        assert_eq!(explanation.pauses.len(), 3);
    }

    async fn it_says_until_when_a_failed_attempt_waits(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        let job = world.claim_one("w1").await;
        let failed = world.fail(job.id, job.token, "busy").await.unwrap();
        let explanation = explain(world, item).await;
        assert_eq!(explanation.run_at, failed.run_at);
        let expected = "It waits 1 second for its next attempt after 1 that failed";
        assert_eq!(explanation.reasons, [expected]);
    }

    async fn it_says_that_a_strict_lane_waits_for_an_earlier_job(world: &World) {
        world.lanes(2, &["acme"]).await;
        world.pipeline("work", Pipeline { strict: true, ..Pipeline::default() }).await;
        let items = world.submit_many("acme", "doc", 2).await;
        let job = world.claim_one("w1").await;
        world.fail(job.id, job.token, "busy").await.unwrap();
        let expected = [
            "The pipeline is strict, and another job of the lane waits for its next attempt",
            "1 job of the lane is before it",
        ];
        assert_eq!(explain(world, items[1]).await.reasons, expected);
        assert!(explain(world, items[0]).await.reasons[0].starts_with("It waits"));
    }

    async fn it_tells_what_is_not_waiting_at_all(world: &World) {
        world.lanes(5, &["acme"]).await;
        let items = world.submit_many("acme", "doc", 4).await;
        let jobs = world.claim("w1", 3).await;
        world.complete(jobs[1].id, jobs[1].token).await.unwrap();
        world.engine.cancel(&World::scope("acme"), items[3]).await.unwrap();
        for _ in 0..3 {
            if let Some(job) = world.claim("w1", 1).await.pop() {
                world.fail(job.id, job.token, "broken").await.unwrap();
            }
            world.pass_ms(60_000);
            world.engine.reap(None).await.unwrap();
        }
        let job = &jobs[2];
        let failure = docket_core::job::Failure { error: "broken".into(), step: None, retryable: false };
        let fail = docket_engine::Fail { job: job.id, token: job.token, failure };
        world.engine.fail(vec![fail]).await.unwrap().remove(0).unwrap();
        let expected = ["It is running", "It is completed", "It has failed: broken", "It is cancelled"];
        for (item, reason) in items.iter().zip(expected) {
            let explanation = explain(world, *item).await;
            assert_eq!(explanation.reasons, [reason]);
            assert_eq!(explanation.position, None);
        }
    }

    async fn several_reasons_are_told_together(world: &World) {
        world.lanes(1, &["acme"]).await;
        let items = world.submit_many("acme", "doc", 3).await;
        world.claim_one("w1").await;
        let target = PauseTarget::Lane(names::tenant("acme"), names::pipeline("work"));
        world.engine.pause(&World::operator(), target, "an audit").await.unwrap();
        world.pass_ms(2 * 60_000);
        let expected = [
            "The lane is paused by admin:test: an audit",
            "The lane is full: 1 of 1 jobs run",
            "1 job of the lane is before it",
            "No worker has asked for jobs of its pipeline for 2 minutes",
        ];
        assert_eq!(explain(world, items[2]).await.reasons, expected);
    }

    async fn only_its_tenant_is_told(world: &World) {
        world.lanes(1, &["acme", "other"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        let refused = world.engine.explain(&World::scope("other"), item).await.unwrap_err();
        assert_eq!(refused.refusal().map(Refusal::code), Some("not_found"));
    }
}
