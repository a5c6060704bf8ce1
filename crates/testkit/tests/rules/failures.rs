//! Failures: what is kept of them, when they are tried again, and whom that holds up (rule P7).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;

use docket_core::Refusal;
use docket_core::backoff::Backoff;
use docket_core::id::JobId;
use docket_core::item::ItemStatus;
use docket_core::job::{ERROR_MAX, Failure, JobStatus};
use docket_core::lease::LeaseToken;
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_engine::background::Intervals;
use docket_engine::{Claim, ClaimedJob, Fail};
use docket_testkit::{World, WorldConfig, names, on_both};

fn failing(job: &ClaimedJob, error: &str, step: Option<&str>, retryable: bool) -> Fail {
    let failure = Failure {
        error: error.into(),
        step: step.map(str::to_owned),
        retryable,
    };
    Fail {
        job: job.id,
        token: job.token,
        failure,
    }
}

fn two_steps() -> Pipeline {
    let steps = ["ocr", "extract"].map(|name| StepName::new(name).unwrap());
    Pipeline {
        steps: steps.to_vec(),
        ..Pipeline::default()
    }
}

fn ids(jobs: &[ClaimedJob]) -> Vec<&str> {
    jobs.iter()
        .map(|job| job.external_id.as_deref().unwrap())
        .collect()
}

async fn seen(world: &World, job: &ClaimedJob) -> (ItemStatus, Option<String>, Option<String>, u32) {
    let view = world.view("acme", job.item).await;
    let job = view.job.unwrap();
    (view.item.status, job.error, job.failed_step, job.retry_count)
}

on_both! {
    async fn a_failure_keeps_its_message_and_its_step(world: &World) {
        world.lanes(5, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        world.submit_many("acme", "doc", 2).await;
        let jobs = world.claim("w1", 2).await;
        let fails = vec![
            failing(&jobs[0], "no table found", Some("extract"), false),
            failing(&jobs[1], "out of memory", None, true),
        ];
        let results = world.engine.fail(fails).await.unwrap();
        assert_eq!(results[0].as_ref().unwrap().status, JobStatus::Failed);
        assert_eq!(results[1].as_ref().unwrap().status, JobStatus::Pending);
        let message = Some("Step 2 failed: no table found".to_owned());
        assert_eq!(seen(world, &jobs[0]).await, (ItemStatus::Failed, message, Some("extract".into()), 0));
        let message = Some("out of memory".to_owned());
        assert_eq!(seen(world, &jobs[1]).await, (ItemStatus::Queued, message, None, 1));
        let story = world.all_of("acme", jobs[0].item).await;
        assert!(story.contains("Step 2 failed: no table found") && story.contains("worker:w1"));
    }

    async fn a_job_that_is_done_has_no_error_any_more(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.engine.fail(vec![failing(&job, "not yet", Some("ocr"), true)]).await.unwrap().remove(0).unwrap();
        world.pass_ms(10_000);
        world.engine.reap(None).await.unwrap();
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        assert_eq!(seen(world, &job).await, (ItemStatus::Completed, None, None, 1));
    }

    async fn a_retryable_failure_waits_longer_every_time_within_its_bounds(world: &World) {
        world.lanes(1, &["acme"]).await;
        let backoff = Backoff { base_ms: 1_000, max_ms: 5_000 };
        world.pipeline("work", Pipeline { max_attempts: 6, backoff, ..Pipeline::default() }).await;
        world.submit_one("acme", "doc").await;
        for (attempt, full) in [(1, 1_000), (2, 2_000), (3, 4_000), (4, 5_000), (5, 5_000)] {
            let job = world.claim_one("w1").await;
            assert_eq!(job.attempt, attempt);
            let before = world.view("acme", job.item).await.job.unwrap().started_at.unwrap();
            let failed = world.fail(job.id, job.token, "busy").await.unwrap();
            let wait = failed.run_at.unwrap().since(before);
            assert!((full / 2..=full).contains(&wait), "attempt {attempt} waits {wait} of {full}");
            assert_eq!(world.view("acme", job.item).await.job.unwrap().run_at, failed.run_at);
            world.pass_ms(wait - 1);
            assert_eq!(world.engine.reap(None).await.unwrap(), Default::default(), "not yet");
            assert!(world.claim("w1", 1).await.is_empty());
            world.pass_ms(1);
            assert_eq!(world.engine.reap(None).await.unwrap().resumed, 1);
        }
        let job = world.claim_one("w1").await;
        assert_eq!(world.fail(job.id, job.token, "busy").await.unwrap().status, JobStatus::Failed);
    }

    async fn jobs_that_fail_together_do_not_come_back_together(world: &World) {
        world.lanes(100, &["acme"]).await;
        let backoff = Backoff { base_ms: 60_000, max_ms: 60_000 };
        world.pipeline("work", Pipeline { backoff, ..Pipeline::default() }).await;
        world.submit_many("acme", "doc", 100).await;
        let jobs = world.claim("w1", 100).await;
        let now = docket_core::clock::Clock::now(world.clock.as_ref());
        let fails = jobs.iter().map(|job| failing(job, "busy", None, true)).collect();
        let failed = world.engine.fail(fails).await.unwrap().into_iter();
        let waits: BTreeSet<i64> = failed.map(|failed| failed.unwrap().run_at.unwrap().since(now)).collect();
        assert!(waits.iter().all(|wait| (30_000..=60_000).contains(wait)), "{waits:?}");
        // Of 30,001 moments two of a hundred may fall together, not many.
        assert!(waits.len() > 90, "{} moments for 100 jobs", waits.len());
    }

    async fn attempts_run_out(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", Pipeline { max_attempts: 3, ..Pipeline::default() }).await;
        let item = world.submit_one("acme", "doc").await;
        for attempt in 1..=3 {
            let job = world.claim_one("w1").await;
            assert_eq!(job.attempt, attempt);
            world.fail(job.id, job.token, &format!("try {attempt}")).await.unwrap();
            world.pass_ms(600_000);
            world.engine.reap(None).await.unwrap();
        }
        assert!(world.claim("w1", 1).await.is_empty());
        let view = world.view("acme", item.id).await;
        assert_eq!(view.item.status, ItemStatus::Failed);
        let job = view.job.unwrap();
        assert_eq!((job.status, job.error.as_deref(), job.attempt), (JobStatus::Failed, Some("try 3"), 3));
        let story = world.story("acme", item.id).await;
        assert_eq!(story.iter().filter(|action| *action == "job.failed").count(), 3);
    }

    async fn what_cannot_be_retried_fails_at_once(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", Pipeline { max_attempts: 100, ..Pipeline::default() }).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        let failed = world.engine.fail(vec![failing(&job, "not a PDF", None, false)]).await.unwrap().remove(0);
        assert_eq!(failed.as_ref().map(|failed| (failed.status, failed.run_at)), Ok((JobStatus::Failed, None)));
        world.pass_ms(86_400_000);
        world.engine.reap(None).await.unwrap();
        assert!(world.claim("w1", 1).await.is_empty());
    }

    async fn one_jobs_wait_does_not_hold_up_its_lane(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_many("acme", "doc", 4).await;
        for expected in ["doc-0", "doc-1", "doc-2"] {
            let job = world.claim_one("w1").await;
            assert_eq!(ids(std::slice::from_ref(&job)), [expected]);
            world.fail(job.id, job.token, "later").await.unwrap();
        }
        world.pass_ms(1_000);
        assert_eq!(world.engine.reap(None).await.unwrap().resumed, 3);
        for expected in ["doc-0", "doc-1", "doc-2", "doc-3"] {
            let job = world.claim_one("w1").await;
            assert_eq!(ids(std::slice::from_ref(&job)), [expected]);
            world.complete(job.id, job.token).await.unwrap();
        }
    }

    async fn in_a_strict_pipeline_nothing_starts_while_a_job_waits(world: &World) {
        world.lanes(2, &["acme", "other"]).await;
        world.pipeline("work", Pipeline { strict: true, ..Pipeline::default() }).await;
        world.submit_many("acme", "doc", 5).await;
        world.submit_one("other", "free").await;
        let jobs = world.claim("w1", 3).await;
        assert_eq!(jobs.len(), 3, "two of acme, one of the other");
        let acme: Vec<_> = jobs.iter().filter(|job| job.tenant_id == "acme").collect();
        world.fail(acme[0].id, acme[0].token, "later").await.unwrap();
        assert!(world.claim("w1", 5).await.is_empty(), "there is room for one, but an earlier one waits");
        // What runs goes on and ends, and still nothing later starts.
        world.complete(acme[1].id, acme[1].token).await.unwrap();
        assert!(world.claim("w1", 5).await.is_empty());
        world.submit_one("other", "free-2").await;
        assert_eq!(ids(&world.claim("w1", 5).await), ["free-2"], "other lanes are not held up");
        world.pass_ms(1_000);
        assert_eq!(world.engine.reap(None).await.unwrap().resumed, 1);
        assert_eq!(ids(&world.claim("w1", 5).await), ["doc-0", "doc-2"]);
    }

    async fn a_strict_lane_goes_on_when_what_waited_is_cancelled(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", Pipeline { strict: true, ..Pipeline::default() }).await;
        world.submit_many("acme", "doc", 2).await;
        let job = world.claim_one("w1").await;
        world.fail(job.id, job.token, "later").await.unwrap();
        assert!(world.claim("w1", 1).await.is_empty());
        world.engine.cancel(&World::scope("acme"), job.item).await.unwrap();
        assert_eq!(ids(&world.claim("w1", 1).await), ["doc-1"]);
    }

    async fn a_pipeline_that_is_no_longer_strict_lets_its_lanes_go_on(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", Pipeline { strict: true, ..Pipeline::default() }).await;
        world.submit_many("acme", "doc", 3).await;
        let job = world.claim_one("w1").await;
        world.fail(job.id, job.token, "later").await.unwrap();
        assert!(world.claim("w1", 1).await.is_empty());
        world.pipeline("work", Pipeline::default()).await;
        assert_eq!(ids(&world.claim("w1", 1).await), ["doc-1"]);
    }

    async fn one_bad_failure_of_a_batch_touches_no_other(world: &World) {
        world.lanes(10, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        world.submit_many("acme", "doc", 4).await;
        let jobs = world.claim("w1", 4).await;
        let never = JobId::new(jobs[0].id.created_at(), jobs[0].id.lane(), docket_core::id::Seq(999));
        let fails = vec![
            failing(&jobs[0], "unknown step", Some("translate"), true),
            failing(&jobs[1], "good", Some("ocr"), false),
            Fail { token: LeaseToken(50), ..failing(&jobs[2], "lost", None, true) },
            Fail { job: never, ..failing(&jobs[2], "never was", None, true) },
            failing(&jobs[3], "with a \0", None, true),
            failing(&jobs[1], "twice", None, true),
        ];
        let results = world.engine.fail(fails).await.unwrap();
        let codes: Vec<_> = results.iter().map(|r| r.as_ref().map_or_else(Refusal::code, |_| "failed")).collect();
        let expected =
            ["validation_failed", "failed", "lease_lost", "lease_lost", "validation_failed", "failed"];
        assert_eq!(codes, expected);
        let kept = world.view("acme", jobs[1].item).await.job.unwrap();
        assert_eq!(kept.error.as_deref(), Some("Step 1 failed: good"), "named twice: the first word stands");
        for (n, status) in [(0, "processing"), (1, "failed"), (2, "processing"), (3, "processing")] {
            assert_eq!(world.view("acme", jobs[n].item).await.item.status.as_str(), status, "doc-{n}");
        }
    }

    async fn a_message_of_any_length_is_taken_and_cut(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.fail(job.id, job.token, &"é".repeat(ERROR_MAX + 500)).await.unwrap();
        let error = world.view("acme", job.item).await.job.unwrap().error.unwrap();
        assert_eq!(error.chars().count(), ERROR_MAX);
    }

    async fn a_short_wait_ends_in_time_although_the_reaper_looks_seldom(world: &World) {
        let real = world.beside(&WorldConfig { real_time: true, ..WorldConfig::default() }).await;
        real.lanes(1, &["acme"]).await;
        let backoff = Backoff { base_ms: 100, max_ms: 100 };
        real.pipeline("work", Pipeline { backoff, ..Pipeline::default() }).await;
        let background = real.engine.start_background(Intervals::default()).await.unwrap();
        real.submit_one("acme", "doc").await;
        let job = real.claim_one("w1").await;
        // By now every part of the background has run and sleeps for its interval, many seconds.
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        real.fail(job.id, job.token, "a hiccup").await.unwrap();
        let claim = Claim {
            pipeline: names::pipeline("work"),
            worker: names::worker("w1"),
            limit: 1,
            lease_ms: None,
            wait_ms: 3_000,
        };
        assert_eq!(real.engine.claim(claim).await.unwrap().len(), 1, "it waits for a tenth of a second");
        background.stop().await;
        real.assert_healthy().await;
    }

    async fn a_step_that_failed_earlier_is_not_blamed_for_a_later_failure(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        let fail = failing(&job, "blurred", Some("ocr"), true);
        world.engine.fail(vec![fail]).await.unwrap().remove(0).unwrap();
        world.pass_ms(10_000);
        world.engine.reap(None).await.unwrap();
        let job = world.claim_one("w1").await;
        world.fail(job.id, job.token, "out of memory").await.unwrap();
        assert_eq!(seen(world, &job).await, (ItemStatus::Queued, Some("out of memory".into()), None, 2));
    }
}
