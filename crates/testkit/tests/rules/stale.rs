//! Stale jobs: their worker has fallen silent (rule P6).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::item::ItemStatus;
use docket_core::job::JobStatus;
use docket_core::pipeline::{OnStale, Pipeline};
use docket_engine::background::Intervals;
use docket_engine::{Heartbeat, LogPosition, Reaped};
use docket_testkit::{World, on_both};
use std::time::Duration;

const LEASE_MS: i64 = 600_000;

async fn set_up(world: &World, on_stale: OnStale, max_attempts: u32) {
    world.lanes(5, &["acme"]).await;
    world
        .pipeline(
            "work",
            Pipeline {
                on_stale,
                max_attempts,
                ..Pipeline::default()
            },
        )
        .await;
}

const fn reaped(failed: u64, requeued: u64, resumed: u64) -> Reaped {
    Reaped {
        failed,
        requeued,
        resumed,
    }
}

on_both! {
    async fn by_the_policy_fail_a_stale_job_fails_and_its_item_with_it(world: &World) {
        set_up(world, OnStale::Fail, 3).await;
        let item = world.submit_one("acme", "doc").await;
        world.claim_one("w1").await;
        world.pass_ms(LEASE_MS - 1);
        assert_eq!(world.engine.reap(None).await.unwrap(), reaped(0, 0, 0), "not a moment too early");
        world.pass_ms(1);
        assert_eq!(world.engine.reap(None).await.unwrap(), reaped(1, 0, 0));
        let view = world.view("acme", item.id).await;
        assert_eq!(view.item.status, ItemStatus::Failed);
        let job = view.job.unwrap();
        assert_eq!(job.status, JobStatus::Failed);
        assert_eq!(job.error.as_deref(), Some("Processing timed out after 10 minutes"));
        assert!(world.claim("w2", 1).await.is_empty());
    }

    async fn by_the_policy_requeue_a_stale_job_goes_back_until_its_attempts_run_out(world: &World) {
        set_up(world, OnStale::Requeue, 3).await;
        let item = world.submit_one("acme", "doc").await;
        for retry_count in 0..3 {
            let job = world.claim_one("w1").await;
            assert_eq!(job.attempt, retry_count + 1);
            let view = world.view("acme", item.id).await.job.unwrap();
            assert_eq!((view.status, view.retry_count), (JobStatus::Processing, retry_count));
            world.pass_ms(LEASE_MS);
            let last = retry_count == 2;
            let expected = if last { reaped(1, 0, 0) } else { reaped(0, 1, 0) };
            assert_eq!(world.engine.reap(None).await.unwrap(), expected);
        }
        let view = world.view("acme", item.id).await;
        assert_eq!(view.item.status, ItemStatus::Failed);
        assert_eq!(view.job.unwrap().error.as_deref(), Some("Processing timed out after 10 minutes"));
        let story = world.story("acme", item.id).await;
        assert_eq!(story.iter().filter(|action| *action == "job.stale").count(), 3);
    }

    async fn the_log_says_who_fell_silent(world: &World) {
        set_up(world, OnStale::Requeue, 3).await;
        let item = world.submit_one("acme", "doc").await;
        world.claim_one("w17").await;
        world.pass_ms(LEASE_MS);
        world.engine.reap(None).await.unwrap();
        let scope = World::scope("acme");
        let log = world.engine.timeline(&scope, item.id, LogPosition::default(), 50).await.unwrap();
        let stale = log.iter().find(|entry| entry.action == "job.stale").unwrap();
        assert_eq!(stale.actor, "docket");
        let details: serde_json::Value = serde_json::from_str(stale.details.as_deref().unwrap()).unwrap();
        assert_eq!((&details["worker"], &details["attempt"]), (&"w17".into(), &1.into()));
    }

    async fn failed_and_timed_out_attempts_count_together(world: &World) {
        set_up(world, OnStale::Requeue, 3).await;
        let item = world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.fail(job.id, job.token, "busy").await.unwrap();
        world.pass_ms(10_000);
        assert_eq!(world.engine.reap(None).await.unwrap(), reaped(0, 0, 1));
        world.claim_one("w1").await;
        world.pass_ms(LEASE_MS);
        assert_eq!(world.engine.reap(None).await.unwrap(), reaped(0, 1, 0));
        let job = world.claim_one("w1").await;
        assert_eq!(job.attempt, 3);
        world.fail(job.id, job.token, "busy").await.unwrap();
        assert_eq!(world.view("acme", item.id).await.item.status, ItemStatus::Failed);
    }

    async fn stale_jobs_are_found_at_start_up(world: &World) {
        set_up(world, OnStale::Requeue, 3).await;
        world.submit_many("acme", "doc", 3).await;
        world.claim("w1", 3).await;
        world.pass_ms(LEASE_MS);
        let hour = Duration::from_secs(3_600);
        let seldom = Intervals { reap: hour, fold: hour, seal: hour, sweep: hour, retention: hour, rekey: hour, assign: hour, reconcile: hour };
        let background = world.engine.start_background(seldom).await.unwrap();
        assert_eq!(world.claim("w2", 5).await.len(), 3, "before the first interval is over");
        background.stop().await;
    }

    async fn stale_jobs_are_found_on_schedule(world: &World) {
        set_up(world, OnStale::Requeue, 3).await;
        world.submit_many("acme", "doc", 3).await;
        assert_eq!(world.engine.reaper_run_once().await.unwrap(), None, "nothing is held");
        world.claim("w1", 2).await;
        world.pass_ms(1_000);
        world.claim("w2", 1).await;
        // It says when the next lease ends, so that nobody has to wait for the interval.
        let next = world.engine.reaper_run_once().await.unwrap();
        assert_eq!(next, Some(Duration::from_millis(599_000)));
        world.pass_ms(599_000);
        let next = world.engine.reaper_run_once().await.unwrap();
        assert_eq!(next, Some(Duration::from_millis(1_000)));
        assert_eq!(world.claim("w3", 5).await.len(), 2);
    }

    async fn on_demand_jobs_are_reaped_by_their_last_sign_of_life(world: &World) {
        set_up(world, OnStale::Requeue, 3).await;
        world.submit_many("acme", "doc", 3).await;
        let silent = world.claim_one("w1").await;
        let alive = world.claim_one("w2").await;
        world.pass_ms(60_000);
        let fresh = world.claim_one("w3").await;
        let beat = Heartbeat { job: alive.id, token: alive.token, lease_ms: None };
        world.engine.heartbeat(vec![beat]).await.unwrap().remove(0).unwrap();
        world.pass_ms(30_000);
        assert_eq!(world.engine.reap(None).await.unwrap(), reaped(0, 0, 0), "no lease has run out");
        assert_eq!(world.engine.reap(Some(90_001)).await.unwrap(), reaped(0, 0, 0));
        assert_eq!(world.engine.reap(Some(90_000)).await.unwrap(), reaped(0, 1, 0));
        assert_eq!(world.complete(silent.id, silent.token).await, Err(Refusal::LeaseLost));
        world.complete(alive.id, alive.token).await.unwrap();
        world.complete(fresh.id, fresh.token).await.unwrap();
    }

    async fn a_threshold_below_zero_is_refused(world: &World) {
        set_up(world, OnStale::Requeue, 3).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        let refused = world.engine.reap(Some(-1)).await.unwrap_err();
        assert_eq!(refused.refusal().map(Refusal::code), Some("validation_failed"));
        world.complete(job.id, job.token).await.unwrap();
    }

    async fn many_stale_jobs_are_all_reaped_in_one_go(world: &World) {
        world.lanes(2_000, &["acme", "other"]).await;
        world.submit_many("acme", "doc", 700).await;
        world.submit_many("other", "doc", 600).await;
        assert_eq!(world.claim("w1", 1_000).await.len(), 1_000);
        assert_eq!(world.claim("w1", 1_000).await.len(), 300);
        world.pass_ms(LEASE_MS);
        assert_eq!(world.engine.reap(Some(1)).await.unwrap(), reaped(0, 1_300, 0));
        assert_eq!(world.engine.reap(Some(1)).await.unwrap(), reaped(0, 0, 0));
        assert_eq!(world.claim("w2", 1_000).await.len(), 1_000);
    }

    async fn two_reapers_at_once_reap_each_job_once(world: &World) {
        set_up(world, OnStale::Requeue, 9).await;
        world.tenant("acme", 500).await;
        world.submit_many("acme", "doc", 300).await;
        assert_eq!(world.claim("w1", 300).await.len(), 300);
        world.pass_ms(LEASE_MS);
        let (a, b, c) = tokio::join!(world.engine.reap(None), world.engine.reap(None), world.engine.reap(None));
        let requeued: u64 = [a, b, c].into_iter().map(|reaped| reaped.unwrap().requeued).sum();
        assert_eq!(requeued, 300);
        let again = world.claim("w2", 500).await;
        assert!(again.len() == 300 && again.iter().all(|job| job.attempt == 2));
    }

    async fn by_the_version_it_began_with_a_stale_job_is_judged(world: &World) {
        set_up(world, OnStale::Fail, 3).await;
        world.submit_one("acme", "doc").await;
        world.claim_one("w1").await;
        world.pipeline("work", Pipeline { on_stale: OnStale::Requeue, ..Pipeline::default() }).await;
        world.pass_ms(LEASE_MS);
        assert_eq!(world.engine.reap(None).await.unwrap(), reaped(1, 0, 0));
    }
}
