//! Leases: whose word counts, and that a word said twice counts once (rules P5 and P10).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use docket_core::Refusal;
use docket_core::id::{JobId, Seq};
use docket_core::item::ItemStatus;
use docket_core::job::{Failure, JobStatus};
use docket_core::lease::LeaseToken;
use docket_core::name::StepName;
use docket_core::pipeline::{OnStale, Pipeline};
use docket_engine::{Claim, ClaimedJob, Complete, Fail, Heartbeat, Release, StepDone};
use docket_testkit::{World, names, on_both};
use serde_json::json;

const LEASE_MS: i64 = 600_000;

fn two_steps() -> Pipeline {
    let steps = ["ocr", "extract"].map(|name| StepName::new(name).unwrap());
    Pipeline {
        steps: steps.to_vec(),
        ..Pipeline::default()
    }
}

fn failure(retryable: bool) -> Failure {
    Failure {
        error: "the scan is blank".into(),
        step: None,
        retryable,
    }
}

fn beat(job: &ClaimedJob) -> Heartbeat {
    Heartbeat {
        job: job.id,
        token: job.token,
        lease_ms: None,
    }
}

fn done(job: &ClaimedJob, step: &str) -> StepDone {
    StepDone {
        job: job.id,
        token: job.token,
        name: step.into(),
        output: json!({"text": "from the dead"}),
    }
}

/// Everything that a worker can say of a job is `lease_lost` and changes nothing, not even the database.
async fn assert_silenced(world: &World, tenant: &str, job: &ClaimedJob) {
    let before = world.all_of(tenant, job.item).await;
    let entries = world.number("select count(*) from log").await;
    let mut codes = Vec::new();
    let beats = world.engine.heartbeat(vec![beat(job)]).await.unwrap();
    codes.extend(beats.into_iter().map(|result| result.unwrap_err()));
    let step = world.engine.step(done(job, "ocr")).await.unwrap_err();
    codes.push(step.refusal().expect("a refusal").clone());
    let complete = Complete {
        result: Some(json!("no")),
        ..Complete::new(job.id, job.token)
    };
    let completed = world.engine.complete(vec![complete]).await.unwrap();
    codes.extend(completed.into_iter().map(|result| result.unwrap_err()));
    for retryable in [true, false] {
        let fail = Fail {
            job: job.id,
            token: job.token,
            failure: failure(retryable),
        };
        let failed = world.engine.fail(vec![fail]).await.unwrap();
        codes.extend(failed.into_iter().map(|result| result.unwrap_err()));
    }
    let released = world
        .engine
        .release(vec![Release {
            job: job.id,
            token: job.token,
        }])
        .await
        .unwrap();
    codes.extend(released.into_iter().map(|result| result.unwrap_err()));
    assert_eq!(codes, vec![Refusal::LeaseLost; 6]);
    assert!(codes.iter().all(|refusal| refusal.code() == "lease_lost"));
    assert_eq!(world.all_of(tenant, job.item).await, before, "nothing may change");
    assert_eq!(
        world.number("select count(*) from log").await,
        entries,
        "nor be told"
    );
}

on_both! {
    async fn a_worker_presumed_dead_changes_nothing(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        world.submit_one("acme", "doc").await;
        let dead = world.claim_one("w1").await;
        world.pass_ms(LEASE_MS);
        assert_eq!(world.engine.reap(None).await.unwrap().requeued, 1);
        assert_silenced(world, "acme", &dead).await;
        let living = world.claim_one("w2").await;
        assert_eq!(living.id, dead.id);
        assert_silenced(world, "acme", &dead).await;
        world.complete(living.id, living.token).await.unwrap();
        assert_silenced(world, "acme", &dead).await;
    }

    async fn a_worker_that_has_claimed_again_cannot_speak_for_its_old_attempt(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        world.submit_one("acme", "doc").await;
        let first = world.claim_one("w1").await;
        world.pass_ms(LEASE_MS);
        world.engine.reap(None).await.unwrap();
        let second = world.claim_one("w1").await;
        assert_eq!(first.id, second.id);
        assert_silenced(world, "acme", &first).await;
        world.engine.step(done(&second, "ocr")).await.unwrap();
        world.complete(second.id, second.token).await.unwrap();
    }

    async fn a_worker_whose_job_was_given_up_cannot_speak_for_it(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", Pipeline { on_stale: OnStale::Fail, ..two_steps() }).await;
        world.submit_one("acme", "doc").await;
        let dead = world.claim_one("w1").await;
        world.pass_ms(LEASE_MS);
        assert_eq!(world.engine.reap(None).await.unwrap().failed, 1);
        assert_silenced(world, "acme", &dead).await;
    }

    async fn a_worker_that_gave_its_job_back_cannot_speak_for_it(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        let item = world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.engine.release(vec![Release { job: job.id, token: job.token }]).await.unwrap().remove(0).unwrap();
        assert_silenced(world, "acme", &job).await;
        let again = world.claim_one("w1").await;
        assert_eq!((again.attempt, again.token > job.token), (1, true), "no attempt is counted");
        world.engine.cancel(&World::scope("acme"), item.id).await.unwrap();
        assert_silenced(world, "acme", &again).await;
    }

    async fn the_token_rises_with_every_hold(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", Pipeline { max_attempts: 10, ..Pipeline::default() }).await;
        world.submit_one("acme", "doc").await;
        let mut last = LeaseToken(0);
        for round in 0..6 {
            let job = world.claim_one("w1").await;
            assert!(job.token > last, "round {round}");
            last = job.token;
            match round % 3 {
                0 => drop(world.fail(job.id, job.token, "no").await.unwrap()),
                1 => drop(world.engine.release(vec![Release { job: job.id, token: job.token }]).await.unwrap()),
                _ => {}
            }
            world.pass_ms(LEASE_MS);
            world.engine.reap(None).await.unwrap();
        }
    }

    async fn a_token_that_was_never_given_or_a_job_that_never_was_is_a_lost_lease(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        let token = LeaseToken(job.token.0 + 1);
        assert_silenced(world, "acme", &ClaimedJob { token, ..job.clone() }).await;
        assert_silenced(world, "acme", &ClaimedJob { token: LeaseToken(i64::MAX), ..job.clone() }).await;
        let id = JobId::new(job.id.created_at(), job.id.lane(), Seq(4_000));
        assert_silenced(world, "acme", &ClaimedJob { id, ..job.clone() }).await;
        world.complete(job.id, job.token).await.unwrap();
    }

    async fn a_heartbeat_extends_the_lease(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        for _ in 0..5 {
            world.pass_ms(LEASE_MS - 1);
            let end = world.engine.heartbeat(vec![beat(&job)]).await.unwrap().remove(0).unwrap();
            assert_eq!(end.since(job.lease_expires_at) % (LEASE_MS - 1), 0);
            assert_eq!(world.view("acme", item.id).await.job.unwrap().lease_expires_at, Some(end));
            assert_eq!(world.engine.reap(None).await.unwrap(), Default::default());
        }
        let shorter = Heartbeat { lease_ms: Some(5_000), ..beat(&job) };
        let end = world.engine.heartbeat(vec![shorter]).await.unwrap().remove(0).unwrap();
        world.pass_ms(4_999);
        assert_eq!(world.engine.heartbeat(vec![beat(&job)]).await.unwrap(), [Ok(end.plus_ms(4_999))]);
        world.pass_ms(5_000);
        assert_eq!(world.engine.reap(None).await.unwrap().requeued, 1);
    }

    async fn a_heartbeat_said_twice_is_heard_twice(world: &World) {
        world.lanes(5, &["acme"]).await;
        world.submit_many("acme", "doc", 2).await;
        let jobs = world.claim("w1", 2).await;
        world.pass_ms(1_000);
        let lost = Heartbeat { token: LeaseToken(99), ..beat(&jobs[0]) };
        let calls = vec![beat(&jobs[0]), lost, beat(&jobs[0]), beat(&jobs[1])];
        let ends = world.engine.heartbeat(calls).await.unwrap();
        let end = Ok(jobs[0].lease_expires_at.plus_ms(1_000));
        assert_eq!(ends, [end.clone(), Err(Refusal::LeaseLost), end.clone(), end]);
    }

    async fn a_claim_can_ask_for_a_lease_of_its_own(world: &World) {
        world.lanes(5, &["acme"]).await;
        world.submit_many("acme", "doc", 2).await;
        let ask = async |lease_ms| {
            let claim = Claim {
                pipeline: names::pipeline("work"),
                worker: names::worker("w1"),
                limit: 1,
                lease_ms: Some(lease_ms),
                wait_ms: 0,
            };
            world.engine.claim(claim).await
        };
        let job = ask(30_000).await.unwrap().remove(0);
        let view = world.view("acme", job.item).await.job.unwrap();
        assert_eq!(job.lease_expires_at.since(view.started_at.unwrap()), 30_000);
        for nonsense in [0, -1, 9, i64::MAX] {
            let refused = ask(nonsense).await.unwrap_err();
            assert_eq!(refused.refusal().map(Refusal::code), Some("validation_failed"), "{nonsense}");
        }
        world.pass_ms(30_000);
        assert_eq!(world.engine.reap(None).await.unwrap().requeued, 1);
    }

    async fn completing_again_answers_the_same_and_writes_nothing(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        let complete = |result: &str| Complete { result: Some(json!(result)), ..Complete::new(job.id, job.token) };
        let first = world.engine.complete(vec![complete("first")]).await.unwrap().remove(0).unwrap();
        assert_eq!((first.item, first.repeated), (job.item, false));
        let before = world.all_of("acme", job.item).await;
        for said in ["first", "something else"] {
            world.pass_ms(1_000);
            let again = world.engine.complete(vec![complete(said)]).await.unwrap().remove(0).unwrap();
            assert_eq!((again.item, again.repeated), (job.item, true));
        }
        assert_eq!(world.all_of("acme", job.item).await, before);
        assert_eq!(world.view("acme", job.item).await.result.as_deref(), Some("\"first\""));
    }

    async fn failing_again_answers_the_same_and_writes_nothing(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", Pipeline { max_attempts: 2, ..Pipeline::default() }).await;
        world.submit_one("acme", "doc").await;
        for (attempt, status) in [(1, JobStatus::Pending), (2, JobStatus::Failed)] {
            let job = world.claim_one("w1").await;
            assert_eq!(job.attempt, attempt);
            let first = world.fail(job.id, job.token, "no luck").await.unwrap();
            assert_eq!(first.status, status);
            let before = world.all_of("acme", job.item).await;
            let again = world.fail(job.id, job.token, "no luck").await.unwrap();
            assert_eq!(again, first);
            assert_eq!(world.all_of("acme", job.item).await, before);
            assert_eq!(world.complete(job.id, job.token).await, Err(Refusal::LeaseLost));
            world.pass_ms(10_000);
            world.engine.reap(None).await.unwrap();
        }
    }

    async fn a_lease_that_ran_out_unnoticed_is_still_its_holders(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("work", two_steps()).await;
        let item = world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.pass_ms(10 * LEASE_MS);
        assert!(world.claim("w2", 5).await.is_empty(), "nobody else can have it before it is reaped");
        world.engine.step(done(&job, "ocr")).await.unwrap();
        world.complete(job.id, job.token).await.unwrap();
        assert_eq!(world.engine.reap(None).await.unwrap(), Default::default());
        assert_eq!(world.view("acme", item.id).await.item.status, ItemStatus::Completed);
    }

    async fn a_thousand_jobs_are_claimed_and_completed_at_once(world: &World) {
        world.lanes(2_000, &["acme"]).await;
        world.submit_many("acme", "doc", 1_000).await;
        let jobs = world.claim("w1", 1_000).await;
        assert_eq!(jobs.len(), 1_000);
        let complete = |(n, job): (usize, &ClaimedJob)| Complete {
            result: Some(json!({ "n": n })),
            ..Complete::new(job.id, job.token)
        };
        let completes = jobs.iter().enumerate().map(complete).collect();
        let results = world.engine.complete(completes).await.unwrap();
        for (job, result) in jobs.iter().zip(&results) {
            let completed = result.as_ref().unwrap();
            assert_eq!((completed.item, completed.repeated), (job.item, false));
        }
        for n in [0, 499, 999] {
            let view = world.view("acme", jobs[n].item).await;
            assert_eq!(view.result, Some(json!({ "n": n }).to_string()));
        }
        let counts = world.engine.counts(&World::scope("acme"), &names::collection("acme")).await.unwrap();
        assert_eq!(counts, [(ItemStatus::Completed, 1_000)].into());
    }

    async fn one_bad_answer_of_a_batch_touches_no_other(world: &World) {
        world.lanes(10, &["acme"]).await;
        world.submit_many("acme", "doc", 5).await;
        let jobs = world.claim("w1", 5).await;
        let good = |n: usize| Complete::new(jobs[n].id, jobs[n].token);
        let calls = vec![
            good(0),
            Complete { token: LeaseToken(7), ..good(1) },
            Complete { total_amount: Some(f64::NAN), ..good(2) },
            good(0),
            good(3),
            Complete { result: Some(json!("x".repeat(2 << 20))), ..good(4) },
        ];
        let results = world.engine.complete(calls).await.unwrap();
        let codes: Vec<_> = results.iter().map(|r| r.as_ref().map_or_else(Refusal::code, |_| "done")).collect();
        let expected =
            ["done", "lease_lost", "validation_failed", "validation_failed", "done", "payload_too_large"];
        assert_eq!(codes, expected);
        let said = results[3].as_ref().unwrap_err().to_string();
        assert_eq!(said, "jobs[3]: names the same job as jobs[0]");
        for (n, status) in [(0, "completed"), (1, "processing"), (2, "processing"), (3, "completed")] {
            assert_eq!(world.view("acme", jobs[n].item).await.item.status.as_str(), status, "doc-{n}");
        }
    }

    async fn a_batch_of_none_or_of_too_many_is_refused(world: &World) {
        world.lanes(10, &["acme"]).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        for n in [0, 1_001] {
            let completes = vec![Complete::new(job.id, job.token); n];
            let beats = vec![beat(&job); n];
            let fails = vec![Fail { job: job.id, token: job.token, failure: failure(true) }; n];
            let releases = vec![Release { job: job.id, token: job.token }; n];
            let errors = [
                world.engine.complete(completes).await.unwrap_err(),
                world.engine.heartbeat(beats).await.unwrap_err(),
                world.engine.fail(fails).await.unwrap_err(),
                world.engine.release(releases).await.unwrap_err(),
            ];
            let codes = errors.map(|error| error.refusal().map(Refusal::code));
            assert_eq!(codes, [Some("validation_failed"); 4], "{n} entries");
        }
        world.complete(job.id, job.token).await.unwrap();
    }
}
