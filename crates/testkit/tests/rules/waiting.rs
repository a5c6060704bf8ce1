//! Waiting for work: a job that can start wakes a worker that waits (rule P11). How fast is measured by the benchmark; here the
//! bounds are generous, and yet too tight for a worker that only looks every half second.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use std::collections::HashSet;
use std::time::Duration;

use docket_core::Refusal;
use docket_core::job::Failure;
use docket_core::pipeline::Pipeline;
use docket_core::tenant::{Tier, UploadLimit};
use docket_engine::{Claim, ClaimedJob, Engine, Fail, PauseTarget, Release};
use docket_testkit::{Database, World, WorldConfig, names, on_both};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const SETTLED: Duration = Duration::from_millis(100);
const SOON: Duration = Duration::from_millis(250);
const LATE: Duration = Duration::from_secs(2);

fn wish(worker: &str, wait_ms: u64) -> Claim {
    Claim {
        pipeline: names::pipeline("work"),
        worker: names::worker(worker),
        limit: 1,
        lease_ms: None,
        wait_ms,
    }
}

fn waiting(engine: &Engine, worker: &str) -> JoinHandle<Vec<ClaimedJob>> {
    let (engine, wish) = (engine.clone(), wish(worker, 20_000));
    tokio::spawn(async move { engine.claim(wish).await.unwrap() })
}

/// A worker that waits gets a job after each event: within two seconds always, and at least once so soon that it must have been
/// woken. Looking every half second alone would take 400 ms each time.
async fn assert_wakes(engine: &Engine, mut event: impl AsyncFnMut(usize, Option<ClaimedJob>)) {
    let (mut soon, mut last) = (0, None);
    for round in 0..3 {
        let mut worker = waiting(engine, &format!("waits-{round}"));
        sleep(SETTLED).await;
        assert!(!worker.is_finished(), "there is nothing to do yet");
        event(round, last.take()).await;
        let jobs = match timeout(SOON, &mut worker).await {
            Ok(jobs) => {
                soon += 1;
                jobs.unwrap()
            }
            Err(_) => timeout(LATE, worker)
                .await
                .expect("a waiting worker is woken")
                .unwrap(),
        };
        assert_eq!(jobs.len(), 1);
        last = jobs.into_iter().next();
    }
    assert!(
        soon > 0,
        "the worker found its jobs by looking, not by being woken"
    );
}

on_both! {
    async fn a_claim_whose_caller_has_gone_is_handed_back(world: &World) {
        world.lanes(1, &["acme"]).await;
        let claim = |wait_ms| Claim {
            pipeline: names::pipeline("work"),
            worker: names::worker("w"),
            limit: 1,
            lease_ms: None,
            wait_ms,
        };
        for round in 0..30 {
            let engine = world.engine.clone();
            let gone = tokio::spawn({
                let claim = claim(10_000);
                async move { engine.claim(claim).await }
            });
            tokio::task::yield_now().await;
            world.submit_one("acme", &format!("doc-{round}")).await;
            tokio::time::sleep(std::time::Duration::from_micros(150 * round)).await;
            gone.abort();
            let jobs = match gone.await {
                // It was faster than its end: the caller has the job.
                Ok(jobs) => jobs.unwrap(),
                // The lease would last ten minutes of a clock that stands still: only a job that was handed back comes again.
                Err(_) => world.engine.claim(claim(10_000)).await.unwrap(),
            };
            let job = jobs.first().unwrap_or_else(|| panic!("round {round}: the job is with nobody"));
            world.complete(job.id, job.token).await.unwrap();
        }
    }

    async fn a_submission_wakes_a_waiting_worker(world: &World) {
        world.lanes(10, &["acme"]).await;
        assert_wakes(&world.engine, async |round, _| {
            world.submit_one("acme", &format!("doc-{round}")).await;
        })
        .await;
    }

    async fn a_finished_job_frees_its_lane_and_wakes_a_waiting_worker(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_many("acme", "doc", 5).await;
        let mut running = Some(world.claim_one("w1").await);
        assert_wakes(&world.engine, async |_, last| {
            let job = last.or(running.take()).unwrap();
            world.complete(job.id, job.token).await.unwrap();
        })
        .await;
    }

    async fn a_failed_a_released_and_a_cancelled_job_wake_a_waiting_worker(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_many("acme", "doc", 5).await;
        let mut running = Some(world.claim_one("w1").await);
        assert_wakes(&world.engine, async |round, last| {
            let job = last.or(running.take()).unwrap();
            match round {
                0 => {
                    let failure = Failure { error: "no".into(), step: None, retryable: false };
                    let fail = Fail { job: job.id, token: job.token, failure };
                    world.engine.fail(vec![fail]).await.unwrap().remove(0).unwrap();
                }
                1 => {
                    let back = Release { job: job.id, token: job.token };
                    world.engine.release(vec![back]).await.unwrap().remove(0).unwrap();
                }
                _ => world.engine.cancel(&World::scope("acme"), job.item).await.unwrap(),
            }
        })
        .await;
    }

    async fn a_lifted_pause_wakes_a_waiting_worker(world: &World) {
        world.lanes(10, &["acme"]).await;
        world.submit_many("acme", "doc", 3).await;
        let who = World::operator();
        let targets = [
            PauseTarget::Lane(names::tenant("acme"), names::pipeline("work")),
            PauseTarget::Pipeline(names::pipeline("work")),
            PauseTarget::All,
        ];
        for target in targets {
            let id = world.engine.pause(&who, target, "a moment").await.unwrap();
            let worker = waiting(&world.engine, "w1");
            sleep(SETTLED).await;
            assert!(!worker.is_finished(), "paused");
            world.engine.resume(&who, id).await.unwrap();
            let jobs = timeout(LATE, worker).await.expect("a waiting worker is woken").unwrap();
            assert_eq!(jobs.len(), 1);
        }
    }

    async fn a_raised_limit_wakes_a_waiting_worker(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_many("acme", "doc", 9).await;
        world.claim_one("w1").await;
        assert_wakes(&world.engine, async |round, _| {
            world.tenant("acme", 2 + u32::try_from(round).unwrap()).await;
        })
        .await;
    }

    async fn a_raised_tier_wakes_a_waiting_worker(world: &World) {
        world.pipeline("work", Pipeline::default()).await;
        world.tenant_of_tier("acme", "free").await;
        world.collection("acme", "acme", Some("work")).await;
        world.submit_many("acme", "doc", 9).await;
        world.claim_one("w1").await;
        assert_wakes(&world.engine, async |round, _| {
            let concurrent_jobs = 2 + u32::try_from(round).unwrap();
            let free = Tier { name: "free".into(), uploads: UploadLimit::PerHour(10), concurrent_jobs };
            world.engine.tier_put(&World::operator(), free).await.unwrap();
        })
        .await;
    }

    async fn a_reaped_job_and_one_processed_again_wake_a_waiting_worker(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_one("acme", "doc").await;
        let mut running = Some(world.claim_one("w1").await);
        assert_wakes(&world.engine, async |round, last| {
            let job = last.or(running.take()).unwrap();
            if round == 0 {
                world.pass_ms(600_000);
                world.engine.reap(None).await.unwrap();
            } else {
                world.complete(job.id, job.token).await.unwrap();
                world.engine.reprocess(&World::scope("acme"), job.item).await.unwrap();
            }
        })
        .await;
    }

    async fn twenty_workers_that_wait_get_one_of_twenty_jobs_each(world: &World) {
        world.lanes(20, &["acme"]).await;
        let workers: Vec<_> = (0..20).map(|n| waiting(&world.engine, &format!("w{n}"))).collect();
        sleep(SETTLED).await;
        world.submit_many("acme", "doc", 20).await;
        let mut jobs = HashSet::new();
        for worker in workers {
            let claimed = timeout(LATE * 3, worker).await.expect("every worker is woken").unwrap();
            assert_eq!(claimed.len(), 1);
            jobs.insert(claimed[0].id);
        }
        assert_eq!(jobs.len(), 20, "no job is in two hands");
    }

    async fn a_wait_that_is_over_brings_nothing(world: &World) {
        world.lanes(1, &["acme"]).await;
        let none = timeout(LATE, world.engine.claim(wish("w1", 300))).await.expect("the wait ends");
        assert!(none.unwrap().is_empty());
        let refused = world.engine.claim(wish("w1", 60_001)).await.unwrap_err();
        assert_eq!(refused.refusal().map(Refusal::code), Some("validation_failed"));
    }

    async fn work_of_another_pipeline_is_not_for_a_worker_that_waits(world: &World) {
        world.lanes(5, &["acme"]).await;
        world.pipeline("other", Pipeline::default()).await;
        let other = Claim { pipeline: names::pipeline("other"), ..wish("w1", 700) };
        let engine = world.engine.clone();
        let worker = tokio::spawn(async move { engine.claim(other).await.unwrap() });
        sleep(SETTLED).await;
        world.submit_one("acme", "doc").await;
        assert!(timeout(LATE, worker).await.expect("the wait ends").unwrap().is_empty());
        world.claim_one("w2").await;
    }
}

/// Two servers on one database, which only PostgreSQL can have: what one does wakes the workers of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_waits_at_another_server_is_woken() {
    let world = World::new(Database::postgres().await).await;
    world.lanes(1, &["acme"]).await;
    let elsewhere = world.another_engine(&WorldConfig::default()).await;
    // The listener of the new server has to be there first.
    sleep(SETTLED * 3).await;
    world.submit_one("acme", "first").await;
    let mut running = Some(world.claim_one("w1").await);
    assert_wakes(&elsewhere, async |round, last| {
        let job = last.or(running.take()).unwrap();
        if round == 1 {
            // A submission into a lane that is free.
            world.complete(job.id, job.token).await.unwrap();
            world.submit_one("acme", &format!("doc-{round}")).await;
        } else {
            // A job that ends, with the next one queued behind it.
            world.submit_one("acme", &format!("doc-{round}")).await;
            world.complete(job.id, job.token).await.unwrap();
        }
    })
    .await;
    world.assert_healthy().await;
}
