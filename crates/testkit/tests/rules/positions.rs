//! Where a job stands (rule P4).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::id::{ItemId, Seq};
use docket_core::item::ItemStatus;
use docket_core::random::{Random as _, SeededRandom};
use docket_engine::{ClaimedJob, PauseTarget, Release};
use docket_testkit::{World, names, on_both};

/// Every position that the engine tells is the number of pending jobs that were submitted earlier, counted one by one.
async fn assert_positions(world: &World, tenant: &str, items: &[ItemId]) {
    let mut pending: Vec<(ItemId, Seq)> = Vec::new();
    for item in items {
        let view = world.view(tenant, *item).await;
        let told = world.engine.position(&World::scope(tenant), *item).await;
        if view.item.status == ItemStatus::Queued {
            pending.push((*item, view.job.unwrap().id.seq()));
            assert_eq!(view.position, Some(told.unwrap()));
        } else {
            assert_eq!(view.position, None);
            assert_eq!(told.unwrap_err().refusal().map(Refusal::code), Some("conflict"));
        }
    }
    for (item, seq) in &pending {
        let earlier = pending.iter().filter(|(_, other)| other < seq).count() as u64;
        let told = world.engine.position(&World::scope(tenant), *item).await.unwrap();
        assert_eq!(told.ahead, earlier, "item {item} of {}", pending.len());
    }
}

async fn release(world: &World, job: &ClaimedJob) {
    let back = Release {
        job: job.id,
        token: job.token,
    };
    world.engine.release(vec![back]).await.unwrap().remove(0).unwrap();
}

async fn ahead(world: &World, item: ItemId) -> u64 {
    world
        .engine
        .position(&World::scope("acme"), item)
        .await
        .unwrap()
        .ahead
}

on_both! {
    async fn an_estimate_knows_of_waits_and_does_not_guess_at_pauses(world: &World) {
        world.lanes(1, &["acme"]).await;
        let items = world.submit_many("acme", "doc", 3).await;
        let done = world.claim_one("w1").await;
        world.pass_ms(2_000);
        world.complete(done.id, done.token).await.unwrap();
        let failed = world.claim_one("w1").await;
        let run_at = world.fail(failed.id, failed.token, "no").await.unwrap().run_at.unwrap();
        let wait_ms = run_at.since(docket_core::Clock::now(world.clock.as_ref()));
        let eta = async |item| world.engine.position(&World::scope("acme"), item).await.unwrap().eta_ms;
        assert!(wait_ms > 0);
        assert_eq!(eta(items[1]).await, Some(wait_ms), "its next attempt is not sooner");
        assert_eq!(eta(items[2]).await, Some(2_000), "it has one before it, and no wait of its own");
        let target = PauseTarget::Lane(names::tenant("acme"), names::pipeline("work"));
        let pause = world.engine.pause(&World::operator(), target, "test").await.unwrap();
        assert_eq!((eta(items[1]).await, eta(items[2]).await), (None, None));
        world.engine.resume(&World::operator(), pause).await.unwrap();
        assert!(eta(items[2]).await.is_some());
    }

    async fn the_position_is_the_number_of_pending_jobs_submitted_earlier(world: &World) {
        world.lanes(2, &["acme", "other"]).await;
        world.submit_many("other", "noise", 5).await;
        let items = world.submit_many("acme", "doc", 5).await;
        for (n, item) in items.iter().enumerate() {
            assert_eq!(ahead(world, *item).await, n as u64);
        }
        let jobs: Vec<_> = world.claim("w1", 4).await.into_iter().filter(|job| job.tenant_id == "acme").collect();
        assert_eq!(jobs.len(), 2, "what runs is not ahead of anybody");
        assert_eq!((ahead(world, items[2]).await, ahead(world, items[4]).await), (0, 2));
        release(world, &jobs[0]).await;
        assert_eq!((ahead(world, items[0]).await, ahead(world, items[2]).await), (0, 1), "put back: ahead again");
        world.fail(jobs[1].id, jobs[1].token, "later").await.unwrap();
        assert_eq!((ahead(world, items[1]).await, ahead(world, items[4]).await), (1, 4), "waiting: ahead, too");
        world.engine.cancel(&World::scope("acme"), items[3]).await.unwrap();
        assert_eq!(ahead(world, items[4]).await, 3, "cancelled: gone");
        assert_positions(world, "acme", &items).await;
    }

    async fn positions_are_said_in_words(world: &World) {
        world.lanes(1, &["acme"]).await;
        let items = world.submit_many("acme", "doc", 4).await;
        let mut words = Vec::new();
        for item in items {
            words.push(world.engine.position(&World::scope("acme"), item).await.unwrap().message());
        }
        let expected = [
            "Processing... (next in line)",
            "Processing... (1 document ahead)",
            "Processing... (2 documents ahead)",
            "Processing... (3 documents ahead)",
        ];
        assert_eq!(words, expected);
    }

    async fn positions_stay_exact_whatever_happens_to_the_lane(world: &World) {
        world.lanes(4, &["acme"]).await;
        let random = SeededRandom::new(20_260_921);
        let mut items = world.submit_many("acme", "begin", 12).await;
        let mut held: Vec<ClaimedJob> = Vec::new();
        for round in 0..60 {
            let chosen = random.below(held.len() as u64) as usize;
            match random.below(9) {
                0 | 1 => held.extend(world.claim("w1", 2).await),
                2 => items.push(world.submit_one("acme", &format!("doc-{round}")).await.id),
                3 => {
                    let item = items[random.below(items.len() as u64) as usize];
                    // What has ended cannot be cancelled; that is fine here.
                    world.engine.cancel(&World::scope("acme"), item).await.ok();
                    held.retain(|job| job.item != item);
                }
                4 => {
                    world.pass_ms(700);
                    world.engine.reap(None).await.unwrap();
                }
                5 => {
                    let item = items[random.below(items.len() as u64) as usize];
                    world.engine.reprocess(&World::scope("acme"), item).await.ok();
                }
                _ if held.is_empty() => {}
                6 => release(world, &held.swap_remove(chosen)).await,
                7 => {
                    let job = held.swap_remove(chosen);
                    world.fail(job.id, job.token, "later").await.unwrap();
                }
                _ => {
                    let job = held.swap_remove(chosen);
                    world.complete(job.id, job.token).await.unwrap();
                }
            }
            if round % 4 == 3 {
                assert_positions(world, "acme", &items).await;
            }
        }
        world.engine.retain().await.unwrap();
        assert_positions(world, "acme", &items).await;
    }

    async fn repeated_submissions_leave_positions_exact(world: &World) {
        world.lanes(1, &["acme"]).await;
        let submit = || world.submit("acme", (0..20).map(|n| World::item(&format!("doc-{n}"))).collect());
        let answers = tokio::join!(submit(), submit(), submit(), submit(), submit(), submit());
        let results = answers.0.unwrap().results;
        let items: Vec<_> = results.into_iter().map(|result| result.unwrap().id).collect();
        assert_positions(world, "acme", &items).await;
        let late = world.submit_one("acme", "late").await.id;
        assert_eq!(ahead(world, late).await, 20);
    }

    async fn the_time_left_is_estimated_from_the_lanes_recent_pace(world: &World) {
        world.lanes(1, &["acme"]).await;
        let items = world.submit_many("acme", "doc", 8).await;
        let eta = async |n: usize| {
            let position = world.engine.position(&World::scope("acme"), items[n]).await.unwrap();
            position.eta_ms
        };
        assert_eq!(eta(7).await, None, "nothing is known yet");
        for run_ms in [1_000, 2_000, 3_000] {
            let job = world.claim_one("w1").await;
            world.pass_ms(run_ms);
            world.complete(job.id, job.token).await.unwrap();
        }
        assert_eq!(eta(3).await, Some(0), "it can start at once");
        world.claim_one("w1").await;
        // One runs, half done on average, at a mean of two seconds.
        assert_eq!((eta(4).await, eta(5).await, eta(7).await), (Some(1_000), Some(3_000), Some(7_000)));
    }

    async fn only_its_tenant_sees_a_position(world: &World) {
        world.lanes(1, &["acme", "other"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        let refused = world.engine.position(&World::scope("other"), item).await.unwrap_err();
        assert_eq!(refused.refusal().map(Refusal::code), Some("not_found"));
    }
}
