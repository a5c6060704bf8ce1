//! Steps: what is finished is kept, and the next attempt goes on from there (rule P8).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::job::Failure;
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_engine::{ClaimedJob, ClaimedStep, Fail, Release, StepDone};
use docket_testkit::{World, on_both};
use serde_json::{Value, json};

const LEASE_MS: i64 = 600_000;

fn pipeline(steps: &[&str]) -> Pipeline {
    let steps = steps.iter().map(|name| StepName::new(*name).unwrap()).collect();
    Pipeline {
        steps,
        ..Pipeline::default()
    }
}

/// One tenant whose pipeline has the steps `ocr`, `extract` and `check`.
async fn set_up(world: &World) {
    world.lanes(1, &["acme"]).await;
    world
        .pipeline("work", pipeline(&["ocr", "extract", "check"]))
        .await;
}

fn done(job: &ClaimedJob, name: &str, output: Value) -> StepDone {
    StepDone {
        job: job.id,
        token: job.token,
        name: name.into(),
        output,
    }
}

/// The steps as a worker is handed them: each with its output, if there is one.
fn steps(job: &ClaimedJob) -> Vec<(&str, Option<Value>)> {
    job.steps
        .iter()
        .map(|ClaimedStep { name, output }| (name.as_str(), output.clone()))
        .collect()
}

/// The step at which a worker begins.
fn first_unfinished(job: &ClaimedJob) -> Option<&str> {
    job.steps
        .iter()
        .find(|step| step.output.is_none())
        .map(|step| step.name.as_str())
}

on_both! {
    async fn a_job_killed_in_its_second_step_goes_on_there(world: &World) {
        set_up(world).await;
        let item = world.submit_one("acme", "doc").await;
        let first = world.claim_one("w1").await;
        assert_eq!(first_unfinished(&first), Some("ocr"));
        world.engine.step(done(&first, "ocr", json!({"text": "ACNE CORP"}))).await.unwrap();
        // In the second step the worker is killed: its lease runs out, and somebody else gets the job.
        world.pass_ms(LEASE_MS);
        assert_eq!(world.engine.reap(None).await.unwrap().requeued, 1);
        let second = world.claim_one("w2").await;
        assert_eq!((second.id, second.attempt), (first.id, 2));
        assert_eq!(first_unfinished(&second), Some("extract"));
        let expected = [("ocr", Some(json!({"text": "ACNE CORP"}))), ("extract", None), ("check", None)];
        assert_eq!(steps(&second), expected);
        world.engine.step(done(&second, "extract", json!([1, 2]))).await.unwrap();
        world.engine.step(done(&second, "check", json!(null))).await.unwrap();
        world.complete(second.id, second.token).await.unwrap();
        let story = world.story("acme", item.id).await;
        assert_eq!(story[..4], ["item.submitted", "job.claimed", "job.step_completed", "job.stale"]);
        assert_eq!(story[4..7], ["job.claimed", "job.step_completed", "job.step_completed"]);
    }

    async fn a_step_tells_when_it_began_and_when_it_was_done(world: &World) {
        set_up(world).await;
        let item = world.submit_one("acme", "doc").await;
        let begin = world.engine.now();
        let at = |steps: &[docket_engine::StepView]| {
            let since = |at: Option<docket_core::Timestamp>| at.map(|at| at.since(begin));
            steps.iter().map(|step| (since(step.started_at), since(step.completed_at))).collect::<Vec<_>>()
        };
        let steps = async || at(&world.engine.jobs(&World::scope("acme"), item.id).await.unwrap()[0].steps);
        assert_eq!(steps().await, [(None, None); 3], "nobody has begun");
        world.pass_ms(1_000);
        let first = world.claim_one("w1").await;
        world.pass_ms(100);
        world.engine.step(done(&first, "ocr", json!(1))).await.unwrap();
        let ocr = (Some(1_000), Some(1_100));
        assert_eq!(steps().await, [ocr, (Some(1_100), None), (None, None)]);
        world.pass_ms(50);
        let failure = Failure { error: "torn page".into(), step: Some("extract".into()), retryable: true };
        world.engine.fail(vec![Fail { job: first.id, token: first.token, failure }]).await.unwrap();
        world.pass_ms(600_000 - 1_150);
        world.engine.reap(None).await.unwrap();
        let second = world.claim_one("w2").await;
        world.pass_ms(10);
        assert_eq!(steps().await, [ocr, (Some(600_000), None), (None, None)], "the second attempt begins later");
        world.engine.step(done(&second, "extract", json!(2))).await.unwrap();
        world.pass_ms(10);
        let failure = Failure { error: "no total".into(), step: Some("check".into()), retryable: false };
        world.engine.fail(vec![Fail { job: second.id, token: second.token, failure }]).await.unwrap();
        let extract = (Some(600_000), Some(600_010));
        assert_eq!(steps().await, [ocr, extract, (Some(600_010), None)], "times stay after a failure");
    }

    async fn a_job_that_failed_in_its_second_step_goes_on_there(world: &World) {
        set_up(world).await;
        let item = world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.engine.step(done(&job, "ocr", json!("read"))).await.unwrap();
        let failure = Failure { error: "model away".into(), step: Some("extract".into()), retryable: true };
        let fail = Fail { job: job.id, token: job.token, failure };
        world.engine.fail(vec![fail]).await.unwrap().remove(0).unwrap();
        let view = world.view("acme", item.id).await.job.unwrap();
        assert_eq!(view.error.as_deref(), Some("Step 2 failed: model away"));
        assert_eq!(view.failed_step.as_deref(), Some("extract"));
        world.pass_ms(10_000);
        world.engine.reap(None).await.unwrap();
        let next = world.claim_one("w1").await;
        assert_eq!((next.attempt, first_unfinished(&next)), (2, Some("extract")));
        assert_eq!(next.steps[0].output, Some(json!("read")));
    }

    async fn a_released_job_keeps_its_finished_steps(world: &World) {
        set_up(world).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.engine.step(done(&job, "ocr", json!(7))).await.unwrap();
        let released = world.engine.release(vec![Release { job: job.id, token: job.token }]).await;
        released.unwrap().remove(0).unwrap();
        let next = world.claim_one("w2").await;
        assert_eq!((next.attempt, &steps(&next)[..2]), (1, &[("ocr", Some(json!(7))), ("extract", None)][..]));
    }

    async fn a_finished_step_is_kept_at_once(world: &World) {
        set_up(world).await;
        let item = world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.pass_ms(1_234);
        world.engine.step(done(&job, "ocr", json!({}))).await.unwrap();
        let view = world.view("acme", item.id).await.job.unwrap();
        let finished: Vec<_> = view.steps.iter().map(|step| step.completed_at.is_some()).collect();
        assert_eq!(finished, [true, false, false]);
        let after = view.steps[0].completed_at.unwrap().since(view.started_at.unwrap());
        assert_eq!(after, 1_234);
    }

    async fn a_step_done_again_counts_as_it_was_last(world: &World) {
        set_up(world).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        for output in [json!("first"), json!({"second": [1, "é", null]})] {
            world.engine.step(done(&job, "ocr", output)).await.unwrap();
        }
        world.pass_ms(LEASE_MS);
        world.engine.reap(None).await.unwrap();
        let next = world.claim_one("w1").await;
        assert_eq!(next.steps[0].output, Some(json!({"second": [1, "é", null]})));
    }

    async fn an_unknown_step_is_refused_and_nothing_kept(world: &World) {
        set_up(world).await;
        let item = world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        let before = world.all_of("acme", item.id).await;
        let too_large = json!("x".repeat(2 << 20));
        for (name, output, code) in [
            ("translate", json!(1), "validation_failed"),
            ("", json!(1), "validation_failed"),
            ("OCR", json!(1), "validation_failed"),
            ("ocr", json!("a\0b"), "validation_failed"),
            ("ocr", too_large, "payload_too_large"),
        ] {
            let refused = world.engine.step(done(&job, name, output)).await.unwrap_err();
            assert_eq!(refused.refusal().map(Refusal::code), Some(code), "{name}");
        }
        assert_eq!(world.all_of("acme", item.id).await, before);
        assert_eq!(world.number("select count(*) from job_step").await, 0);
    }

    async fn an_attempt_ends_by_the_steps_it_began_with(world: &World) {
        set_up(world).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.engine.step(done(&job, "ocr", json!("read"))).await.unwrap();
        world.pipeline("work", pipeline(&["ocr", "classify", "extract"])).await;
        // The attempt under way knows nothing of the new step, and still has the old ones.
        assert!(world.engine.step(done(&job, "classify", json!(1))).await.is_err());
        world.engine.step(done(&job, "check", json!("old"))).await.unwrap();
        world.pass_ms(LEASE_MS);
        world.engine.reap(None).await.unwrap();
        let next = world.claim_one("w1").await;
        let expected = [("ocr", Some(json!("read"))), ("classify", None), ("extract", None)];
        assert_eq!(steps(&next), expected);
        world.engine.step(done(&next, "classify", json!("invoice"))).await.unwrap();
        world.complete(next.id, next.token).await.unwrap();
    }

    async fn one_jobs_steps_are_not_anothers(world: &World) {
        world.lanes(5, &["acme", "other"]).await;
        world.pipeline("work", pipeline(&["ocr"])).await;
        world.submit_many("acme", "doc", 2).await;
        world.submit_one("other", "doc").await;
        let jobs = world.claim("w1", 3).await;
        world.engine.step(done(&jobs[0], "ocr", json!(0))).await.unwrap();
        world.pass_ms(LEASE_MS);
        world.engine.reap(None).await.unwrap();
        for job in world.claim("w1", 3).await {
            let expected = (job.id == jobs[0].id).then(|| json!(0));
            assert_eq!(job.steps[0].output, expected);
        }
    }
}
