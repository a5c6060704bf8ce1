//! Retrying and processing again by hand (rule P9).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use docket_core::Refusal;
use docket_core::backoff::Backoff;
use docket_core::item::ItemStatus;
use docket_core::job::{Failure, JobStatus};
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_engine::background::Intervals;
use docket_engine::{Claim, ClaimedJob, Fail, StepDone};
use docket_testkit::{World, WorldConfig, names, on_both};
use serde_json::json;

async fn set_up(world: &World) {
    world.lanes(1, &["acme", "other"]).await;
    let steps = ["ocr", "extract"]
        .map(|name| StepName::new(name).unwrap())
        .to_vec();
    world
        .pipeline(
            "work",
            Pipeline {
                steps,
                ..Pipeline::default()
            },
        )
        .await;
}

async fn step(world: &World, job: &ClaimedJob, name: &str, output: &str) {
    let done = StepDone {
        job: job.id,
        token: job.token,
        name: name.into(),
        output: json!(output),
    };
    world.engine.step(done).await.unwrap();
}

async fn fail_for_good(world: &World, job: &ClaimedJob) {
    let failure = Failure {
        error: "unreadable".into(),
        step: Some("extract".into()),
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
    assert_eq!(failed.unwrap().remove(0).unwrap().status, JobStatus::Failed);
}

fn code<T: std::fmt::Debug>(result: docket_engine::Result<T>) -> &'static str {
    result
        .unwrap_err()
        .refusal()
        .map_or("not a refusal", Refusal::code)
}

on_both! {
    async fn a_failure_whose_worker_has_hung_up_is_tried_again_in_time(world: &World) {
        let settings = WorldConfig { real_time: true, ..WorldConfig::default() };
        let world = world.beside(&settings).await;
        world.lanes(1, &["acme"]).await;
        let backoff = Backoff { base_ms: 50, max_ms: 50 };
        world.pipeline("work", Pipeline { backoff, ..Pipeline::default() }).await;
        // The reaper looks when it is woken, or not at all.
        let intervals = Intervals { reap: Duration::from_secs(3_600), ..Intervals::default() };
        let background = world.engine.start_background(intervals).await.unwrap();
        world.submit_one("acme", "doc").await;
        let ClaimedJob { id: job, token, .. } = world.claim_one("w1").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let failure = Failure { error: "it rained".to_owned(), step: None, retryable: true };
        {
            let mut said = std::pin::pin!(world.engine.fail(vec![Fail { job, token, failure }]));
            std::future::poll_fn(|context| {
                assert!(said.as_mut().poll(context).is_pending(), "it is on its way");
                std::task::Poll::Ready(())
            })
            .await;
        }
        let claim = Claim {
            pipeline: names::pipeline("work"),
            worker: names::worker("w2"),
            limit: 1,
            lease_ms: None,
            wait_ms: 20_000,
        };
        let again = world.engine.claim(claim).await.unwrap();
        assert_eq!(again.iter().map(|job| (job.id, job.attempt)).collect::<Vec<_>>(), [(job, 2)]);
        background.stop().await;
        world.assert_healthy().await;
    }

    async fn a_retry_is_a_new_job_and_the_old_one_stays_as_it_was(world: &World) {
        set_up(world).await;
        let scope = World::scope("acme");
        let item = world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        step(world, &job, "ocr", "read").await;
        fail_for_good(world, &job).await;
        let before = format!("{:?}", world.engine.jobs(&scope, item.id).await.unwrap());
        world.pass_ms(5_000);
        let retried = world.engine.retry(&scope, item.id).await.unwrap();
        assert_ne!(retried, job.id);
        let jobs = world.engine.jobs(&scope, item.id).await.unwrap();
        assert_eq!((jobs.len(), jobs[0].id, jobs[0].retry_of), (2, retried, Some(job.id)));
        assert_eq!(format!("{:?}", &jobs[1..]), before, "the old job stays as it was");
        assert_eq!((jobs[0].status, jobs[0].attempt), (JobStatus::Pending, 1));
        assert_eq!(world.view("acme", item.id).await.item.status, ItemStatus::Queued);
        let again = world.claim_one("w2").await;
        assert_eq!((again.id, again.attempt), (retried, 1));
        assert_eq!(again.steps[0].output, Some(json!("read")), "what was finished is handed over");
        assert_eq!(again.steps[1].output, None);
        step(world, &again, "ocr", "read better").await;
        world.complete(again.id, again.token).await.unwrap();
        let jobs = world.engine.jobs(&scope, item.id).await.unwrap();
        assert_eq!(format!("{:?}", &jobs[1..]), before, "also when the new one is done");
        assert!(world.story("acme", item.id).await.contains(&"job.retried".to_owned()));
    }

    async fn only_a_failed_item_can_be_retried(world: &World) {
        set_up(world).await;
        let scope = World::scope("acme");
        let item = world.submit_one("acme", "doc").await.id;
        assert_eq!(code(world.engine.retry(&scope, item).await), "not_failed", "queued");
        let job = world.claim_one("w1").await;
        assert_eq!(code(world.engine.retry(&scope, item).await), "not_failed", "processing");
        world.fail(job.id, job.token, "later").await.unwrap();
        assert_eq!(code(world.engine.retry(&scope, item).await), "not_failed", "waits for its next attempt");
        world.pass_ms(10_000);
        world.engine.reap(None).await.unwrap();
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        let before = world.all_of("acme", item).await;
        let refused = world.engine.retry(&scope, item).await.unwrap_err();
        assert_eq!(refused.to_string(), "only a failed item can be retried; this one is completed");
        assert_eq!(world.all_of("acme", item).await, before);
        let cancelled = world.submit_one("acme", "other").await.id;
        world.engine.cancel(&scope, cancelled).await.unwrap();
        assert_eq!(code(world.engine.retry(&scope, cancelled).await), "not_failed", "cancelled");
    }

    async fn a_second_retry_finds_the_item_queued(world: &World) {
        set_up(world).await;
        let scope = World::scope("acme");
        let item = world.submit_one("acme", "doc").await.id;
        let job = world.claim_one("w1").await;
        fail_for_good(world, &job).await;
        let retries = tokio::join!(
            world.engine.retry(&scope, item),
            world.engine.retry(&scope, item),
            world.engine.retry(&scope, item)
        );
        let done = [retries.0, retries.1, retries.2];
        assert_eq!(done.iter().filter(|retry| retry.is_ok()).count(), 1);
        assert_eq!(world.engine.jobs(&scope, item).await.unwrap().len(), 2);
    }

    async fn a_retry_stands_at_the_end_of_its_lane(world: &World) {
        set_up(world).await;
        let items = world.submit_many("acme", "doc", 3).await;
        let job = world.claim_one("w1").await;
        fail_for_good(world, &job).await;
        world.engine.retry(&World::scope("acme"), items[0]).await.unwrap();
        for expected in [items[1], items[2], items[0]] {
            let job = world.claim_one("w1").await;
            assert_eq!(job.item, expected);
            world.complete(job.id, job.token).await.unwrap();
        }
    }

    async fn retries_form_a_chain(world: &World) {
        set_up(world).await;
        let scope = World::scope("acme");
        let item = world.submit_one("acme", "doc").await.id;
        let mut ids = Vec::new();
        for round in 0..4 {
            let job = world.claim_one("w1").await;
            if round == 0 {
                step(world, &job, "ocr", "read once").await;
            }
            assert_eq!(job.steps[0].output.is_some(), round > 0, "round {round}");
            ids.insert(0, job.id);
            fail_for_good(world, &job).await;
            if round < 3 {
                world.engine.retry(&scope, item).await.unwrap();
            }
        }
        let jobs = world.engine.jobs(&scope, item).await.unwrap();
        assert_eq!(jobs.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
        let links: Vec<_> = jobs.iter().map(|job| job.retry_of).collect();
        assert_eq!(links, [Some(ids[1]), Some(ids[2]), Some(ids[3]), None]);
    }

    async fn processing_again_starts_from_scratch(world: &World) {
        set_up(world).await;
        let scope = World::scope("acme");
        let item = world.submit_one("acme", "doc").await.id;
        let job = world.claim_one("w1").await;
        step(world, &job, "ocr", "read").await;
        assert_eq!(code(world.engine.reprocess(&scope, item).await), "conflict", "it runs");
        world.complete(job.id, job.token).await.unwrap();
        let anew = world.engine.reprocess(&scope, item).await.unwrap();
        assert_eq!(code(world.engine.reprocess(&scope, item).await), "conflict", "it is queued");
        let again = world.claim_one("w1").await;
        assert_eq!((again.id, again.attempt), (anew, 1));
        assert!(again.steps.iter().all(|step| step.output.is_none()), "no step is handed over");
        let jobs = world.engine.jobs(&scope, item).await.unwrap();
        assert_eq!((jobs.len(), jobs[0].retry_of), (2, None), "it is no retry");
        world.complete(again.id, again.token).await.unwrap();
        assert!(world.story("acme", item).await.contains(&"item.reprocessed".to_owned()));
    }

    async fn what_the_last_finished_job_made_stays_until_the_next_is_done(world: &World) {
        set_up(world).await;
        let scope = World::scope("acme");
        let item = world.submit_one("acme", "doc").await.id;
        let job = world.claim_one("w1").await;
        let complete = |job: &ClaimedJob, result| docket_engine::Complete {
            result: Some(json!(result)),
            ..docket_engine::Complete::new(job.id, job.token)
        };
        world.engine.complete(vec![complete(&job, "first")]).await.unwrap().remove(0).unwrap();
        world.engine.reprocess(&scope, item).await.unwrap();
        assert_eq!(world.view("acme", item).await.result.as_deref(), Some("\"first\""));
        let job = world.claim_one("w1").await;
        assert_eq!(world.view("acme", item).await.result.as_deref(), Some("\"first\""));
        world.engine.complete(vec![complete(&job, "second")]).await.unwrap().remove(0).unwrap();
        assert_eq!(world.view("acme", item).await.result.as_deref(), Some("\"second\""));
    }

    async fn a_cancelled_item_can_be_processed_again(world: &World) {
        set_up(world).await;
        let scope = World::scope("acme");
        let item = world.submit_one("acme", "doc").await.id;
        world.engine.cancel(&scope, item).await.unwrap();
        world.engine.reprocess(&scope, item).await.unwrap();
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        let counts = world.engine.counts(&scope, &names::collection("acme")).await.unwrap();
        assert_eq!(counts, [(ItemStatus::Completed, 1)].into());
    }

    async fn nobody_retries_what_belongs_to_another_tenant(world: &World) {
        set_up(world).await;
        let item = world.submit_one("acme", "doc").await.id;
        let job = world.claim_one("w1").await;
        fail_for_good(world, &job).await;
        let before = world.all_of("acme", item).await;
        let stranger = World::scope("other");
        assert_eq!(code(world.engine.retry(&stranger, item).await), "not_found");
        assert_eq!(code(world.engine.reprocess(&stranger, item).await), "not_found");
        assert_eq!(code(world.engine.cancel(&stranger, item).await), "not_found");
        assert_eq!(world.all_of("acme", item).await, before);
    }
}
