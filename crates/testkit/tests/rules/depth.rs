//! What waits in each pipeline, as the metrics tell it; and dismissing those who wait for work.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

use std::time::Duration;

use docket_core::pipeline::Pipeline;
use docket_engine::Claim;
use docket_testkit::{World, names, on_both};

on_both! {
    async fn depths_count_what_waits_what_runs_and_tell_the_oldest(world: &World) {
        world.pipeline("idle", Pipeline::default()).await;
        world.lanes(1, &["acme", "zeta"]).await;
        let begin = world.engine.now();
        world.submit_many("acme", "a", 3).await;
        world.pass_ms(1_000);
        world.submit_many("zeta", "z", 2).await;
        let depths = world.engine.depths().await.unwrap();
        let of = |name: &str| depths.iter().find(|depth| depth.pipeline == name).expect("it is told of").clone();
        assert_eq!((of("idle").queued, of("idle").active, of("idle").oldest), (0, 0, None));
        assert_eq!((of("work").queued, of("work").active, of("work").oldest), (5, 0, Some(begin)));
        assert_eq!(world.claim("w1", 5).await.len(), 2, "one of each lane");
        world.pass_ms(1_000);
        let depths = world.engine.depths().await.unwrap();
        let work = depths.iter().find(|depth| depth.pipeline == "work").unwrap();
        assert_eq!((work.queued, work.active, work.oldest), (3, 2, Some(begin)));
    }

    async fn the_oldest_is_found_behind_a_hole_and_at_the_front(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = world.submit_one("acme", "a").await;
        world.pass_ms(1_000);
        let second = world.engine.now();
        world.submit_one("acme", "b").await;
        world.engine.cancel(&World::scope("acme"), first.id).await.unwrap();
        let oldest = async || world.engine.depths().await.unwrap()[0].oldest;
        assert_eq!(oldest().await, Some(second), "the cancelled one does not count");
        world.pass_ms(1_000);
        world.submit_one("acme", "c").await;
        let job = world.claim_one("w1").await;
        assert!(oldest().await > Some(second), "what runs does not wait");
        let release = docket_engine::Release { job: job.id, token: job.token };
        world.engine.release(vec![release]).await.unwrap();
        assert_eq!(oldest().await, Some(second), "what was handed back waits again");
    }

    async fn those_who_wait_are_dismissed_at_once_and_nobody_claims_after(world: &World) {
        world.lanes(1, &["acme"]).await;
        let claim = |worker: &str| Claim {
            pipeline: names::pipeline("work"),
            worker: names::worker(worker),
            limit: 1,
            lease_ms: None,
            wait_ms: 60_000,
        };
        let waiting: Vec<_> = (0..20)
            .map(|n| {
                let (engine, claim) = (world.engine.clone(), claim(&format!("w{n}")));
                tokio::spawn(async move { engine.claim(claim).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(200)).await;
        world.engine.stop_claims();
        for one in waiting {
            let answer = tokio::time::timeout(Duration::from_secs(5), one).await.expect("it is answered");
            assert!(answer.unwrap().unwrap().is_empty());
        }
        world.submit_one("acme", "a").await;
        assert!(world.engine.claim(claim("late")).await.unwrap().is_empty(), "nothing is given out any more");
    }
}
