//! What operators set up, and that it counts at once: tiers, tenants, collections, pipelines, pauses (rules A2, A4, P2 and P13).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::item::{ItemStatus, OnConflict};
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_core::tenant::{TenantSettings, Tier, UploadLimit};
use docket_engine::{CollectionSettings, PauseScope, PauseTarget, SubmitItem};
use docket_testkit::{World, WorldConfig, names, on_both};
use serde_json::json;

fn with_steps(steps: &[&str]) -> Pipeline {
    let steps = steps.iter().map(|step| StepName::new(*step).unwrap()).collect();
    Pipeline {
        steps,
        ..Pipeline::default()
    }
}

fn tier(name: &str, concurrent_jobs: u32) -> Tier {
    Tier {
        name: name.to_owned(),
        uploads: UploadLimit::PerHour(500),
        concurrent_jobs,
    }
}

fn settings(id: &str, tier: &str, concurrent_jobs: Option<u32>) -> TenantSettings {
    TenantSettings {
        id: names::tenant(id),
        tier: tier.to_owned(),
        uploads: None,
        concurrent_jobs,
    }
}

async fn entries(world: &World, action: &str) -> i64 {
    let sql = format!("select count(*) from log where action = '{action}' and actor = 'admin:test'");
    world.number(&sql).await
}

on_both! {
    async fn a_new_database_has_the_standard_tiers(world: &World) {
        let tiers: Vec<_> = world.engine.tiers().await.unwrap().into_iter()
            .map(|tier| (tier.name, tier.uploads, tier.concurrent_jobs)).collect();
        let expected = [("enterprise", 1_000, 20), ("free", 10, 1), ("pro", 200, 5), ("starter", 50, 2)];
        assert_eq!(tiers, expected.map(|(name, uploads, jobs)| (name.to_owned(), UploadLimit::PerHour(uploads), jobs)));
        assert_eq!(world.number("select count(*) from log where action = 'tier.put' and actor = 'docket'").await, 4);
    }

    async fn a_changed_tier_limits_the_lanes_of_its_tenants_at_once(world: &World) {
        world.pipeline("work", Pipeline::default()).await;
        world.engine.tier_put(&World::operator(), tier("gold", 2)).await.unwrap();
        for (id, own) in [("acme", None), ("zeta", Some(3))] {
            world.engine.tenant_put(&World::operator(), settings(id, "gold", own)).await.unwrap();
            world.collection(id, id, Some("work")).await;
            world.submit_many(id, "doc", 10).await;
        }
        let running = world.claim("w1", 100).await;
        let of = |jobs: &[docket_engine::ClaimedJob], id: &str| jobs.iter().filter(|job| job.tenant_id == id).count();
        assert_eq!((of(&running, "acme"), of(&running, "zeta")), (2, 3));
        world.engine.tier_put(&World::operator(), tier("gold", 4)).await.unwrap();
        let more = world.claim("w1", 100).await;
        assert_eq!((of(&more, "acme"), of(&more, "zeta")), (2, 0), "a tenant's own number stands");
        world.engine.tier_put(&World::operator(), tier("gold", 1)).await.unwrap();
        for job in running.iter().chain(&more).filter(|job| job.tenant_id == "acme").take(3) {
            world.complete(job.id, job.token).await.unwrap();
            assert_eq!(of(&world.claim("w1", 100).await, "acme"), 0, "what runs goes on, and counts");
        }
        world.assert_healthy().await;
    }

    async fn a_changed_tenant_limits_its_lanes_at_once(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_many("acme", "doc", 10).await;
        assert_eq!(world.claim("w1", 100).await.len(), 1);
        for (change, more) in [
            (settings("acme", "starter", None), 1),
            (settings("acme", "pro", None), 3),
            (settings("acme", "pro", Some(6)), 1),
            (settings("acme", "free", None), 0),
        ] {
            world.engine.tenant_put(&World::operator(), change.clone()).await.unwrap();
            // The tiers that are in question here take no submissions, so their hourly limit does not matter.
            assert_eq!(world.claim("w1", 100).await.len(), more, "{change:?}");
        }
    }

    async fn a_worker_that_waits_has_the_job_when_a_tenant_may_run_more(world: &World) {
        world.pipeline("work", Pipeline::default()).await;
        world.engine.tier_put(&World::operator(), tier("gold", 1)).await.unwrap();
        world.engine.tenant_put(&World::operator(), settings("acme", "gold", None)).await.unwrap();
        world.collection("acme", "acme", Some("work")).await;
        world.submit_many("acme", "doc", 3).await;
        world.claim_one("w1").await;
        let waiting = |worker: &str| {
            let engine = world.engine.clone();
            let claim = docket_engine::Claim {
                pipeline: names::pipeline("work"),
                worker: names::worker(worker),
                limit: 1,
                lease_ms: None,
                wait_ms: 20_000,
            };
            tokio::spawn(async move { engine.claim(claim).await.unwrap() })
        };
        let second = waiting("w2");
        world.engine.tier_put(&World::operator(), tier("gold", 2)).await.unwrap();
        assert_eq!(second.await.unwrap().len(), 1);
        let third = waiting("w3");
        world.engine.tenant_put(&World::operator(), settings("acme", "gold", Some(3))).await.unwrap();
        assert_eq!(third.await.unwrap().len(), 1);
    }

    async fn runs_of_versions_before_one_that_nothing_processes_are_told_and_forgotten_with_the_rest(world: &World) {
        let hour = 3_600_000;
        let world = &world.beside(&WorldConfig { keep_finished_ms: Some(hour), ..WorldConfig::default() }).await;
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc").await.id;
        let next = |payload: &str| {
            let mut next = SubmitItem { payload: json!(payload), ..World::item("doc") };
            next.details.on_conflict = OnConflict::NewVersion;
            next
        };
        let work = async || {
            let job = world.claim_one("w1").await;
            world.complete(job.id, job.token).await.unwrap();
            job.id
        };
        let first = work().await;
        world.submit("acme", vec![next("two")]).await.unwrap().results.remove(0).unwrap();
        let second = work().await;
        world.collection("acme", "acme", None).await;
        world.submit("acme", vec![next("three")]).await.unwrap().results.remove(0).unwrap();
        let told = async || {
            let jobs = world.engine.jobs(&World::scope("acme"), item).await.unwrap();
            jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
        };
        assert_eq!(told().await, [second, first]);
        world.collection("acme", "acme", Some("work")).await;
        world.submit("acme", vec![next("four")]).await.unwrap().results.remove(0).unwrap();
        let fourth = work().await;
        assert_eq!(told().await, [fourth, second, first]);
        world.pass_ms(2 * hour);
        assert_eq!(world.engine.retain().await.unwrap().items, 1);
        assert_eq!(world.number("select count(*) from job").await, 0);
        assert_eq!(world.number("select count(*) from item_version").await, 0);
    }

    async fn a_collection_that_changes_its_pipeline_sends_new_items_there_and_leaves_old_jobs(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("other", Pipeline::default()).await;
        let old = world.submit_one("acme", "old").await;
        world.collection("acme", "acme", Some("other")).await;
        let new = world.submit_one("acme", "new").await;
        let there = world.claim_of("other", "w1", 10).await;
        assert_eq!(there.iter().map(|job| job.item).collect::<Vec<_>>(), [new.id]);
        let here = world.claim("w1", 10).await;
        assert_eq!(here.iter().map(|job| job.item).collect::<Vec<_>>(), [old.id]);
        for job in here.iter().chain(&there) {
            world.complete(job.id, job.token).await.unwrap();
        }
        let again = world.engine.reprocess(&World::scope("acme"), old.id).await.unwrap();
        let there = world.claim_of("other", "w1", 10).await;
        assert_eq!(there.iter().map(|job| job.id).collect::<Vec<_>>(), [again], "the next run goes where items go now");
        world.collection("acme", "acme", None).await;
        let finished = world.submit_one("acme", "finished").await;
        assert_eq!(world.view("acme", finished.id).await.item.status, ItemStatus::Completed);
        let refused = world.engine.reprocess(&World::scope("acme"), finished.id).await.unwrap_err();
        assert_eq!(refused.refusal().unwrap().code(), "conflict");
        let jobs = world.engine.jobs(&World::scope("acme"), old.id).await.unwrap();
        assert_eq!(jobs.iter().map(|job| job.pipeline.as_str()).collect::<Vec<_>>(), ["other", "work"]);
    }

    async fn collections_of_one_pipeline_share_the_lane_of_their_tenant(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.collection("second", "acme", Some("work")).await;
        let first = world.submit_one("acme", "doc-1").await;
        let call = docket_engine::Submit { collection: names::collection("second"), items: vec![World::item("doc-1")], idempotency_key: None };
        world.engine.submit(&World::scope("acme"), call).await.unwrap();
        let running = world.claim("w1", 10).await;
        assert_eq!(running.iter().map(|job| job.item).collect::<Vec<_>>(), [first.id], "one at a time for the tenant");
    }

    async fn saying_the_same_pipeline_again_makes_no_new_version(world: &World) {
        let (who, name) = (World::operator(), names::pipeline("work"));
        let put = async |definition: Pipeline| world.engine.pipeline_put(&who, name.clone(), definition).await.unwrap();
        assert_eq!(put(with_steps(&["ocr"])).await, 1);
        assert_eq!(put(with_steps(&["ocr"])).await, 1);
        assert_eq!(put(with_steps(&["ocr", "extract"])).await, 2);
        assert_eq!(put(with_steps(&["ocr", "extract"])).await, 2);
        assert_eq!(put(with_steps(&["ocr"])).await, 3);
        assert_eq!(world.engine.pipeline(&name).await.unwrap(), with_steps(&["ocr"]));
        assert_eq!(entries(world, "pipeline.put").await, 3);
    }

    async fn pauses_are_listed_with_their_reasons_until_they_are_lifted(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_one("acme", "doc-1").await;
        let who = World::operator();
        let lane = PauseTarget::Lane(names::tenant("acme"), names::pipeline("work"));
        let mut ids = Vec::new();
        for (target, reason) in [
            (lane.clone(), "customer asked"),
            (PauseTarget::Pipeline(names::pipeline("work")), "bad model"),
            (PauseTarget::All, "upgrade"),
            (lane, "twice"),
        ] {
            world.pass_ms(1);
            ids.push(world.engine.pause(&who, target, reason).await.unwrap());
        }
        let listed = world.engine.pauses().await.unwrap();
        let words: Vec<_> = listed.iter().map(|pause| (pause.scope.as_str(), pause.reason.as_str(), pause.actor.as_str())).collect();
        assert_eq!(words, [
            ("lane", "customer asked", "admin:test"),
            ("pipeline", "bad model", "admin:test"),
            ("all", "upgrade", "admin:test"),
            ("lane", "twice", "admin:test"),
        ]);
        assert!(matches!(listed[2].scope, PauseScope::All));
        assert_eq!(listed.iter().map(|pause| pause.id).collect::<Vec<_>>(), ids);
        for id in ids {
            assert!(world.claim("w1", 1).await.is_empty());
            world.engine.resume(&who, id).await.unwrap();
        }
        assert_eq!(world.claim("w1", 1).await.len(), 1);
        assert!(world.engine.pauses().await.unwrap().is_empty());
        assert_eq!((entries(world, "pause.set").await, entries(world, "pause.lifted").await), (4, 4));
    }

    async fn a_pause_of_what_is_not_there_is_refused(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.pipeline("unused", Pipeline::default()).await;
        let who = World::operator();
        let set = async |target: PauseTarget, reason: &str| {
            let error = world.engine.pause(&who, target, reason).await.unwrap_err();
            error.refusal().unwrap().code()
        };
        assert_eq!(set(PauseTarget::Pipeline(names::pipeline("nowhere")), "x").await, "not_found");
        assert_eq!(set(PauseTarget::Lane(names::tenant("ghost"), names::pipeline("work")), "x").await, "not_found");
        assert_eq!(set(PauseTarget::Lane(names::tenant("acme"), names::pipeline("unused")), "x").await, "not_found");
        assert_eq!(set(PauseTarget::All, "").await, "validation_failed");
        assert_eq!(set(PauseTarget::All, "a\0b").await, "validation_failed");
        let id = world.engine.pause(&who, PauseTarget::All, "x").await.unwrap();
        world.engine.resume(&who, id).await.unwrap();
        assert_eq!(world.engine.resume(&who, id).await.unwrap_err().refusal().unwrap().code(), "not_found");
        assert!(world.engine.pauses().await.unwrap().is_empty());
    }

    async fn a_collection_stays_with_its_tenant(world: &World) {
        world.lanes(1, &["acme", "zeta"]).await;
        let put = async |id: &str, tenant: &str, pipeline: &str| {
            let settings = CollectionSettings {
                id: names::collection(id),
                tenant: names::tenant(tenant),
                pipeline: Some(names::pipeline(pipeline)),
                review: false,
                settings: json!({}),
            };
            let error = world.engine.collection_put(&World::operator(), settings).await.unwrap_err();
            error.refusal().unwrap().code()
        };
        let before = entries(world, "collection.put").await;
        assert_eq!(put("acme", "zeta", "work").await, "conflict");
        assert_eq!(put("new", "ghost", "work").await, "not_found");
        assert_eq!(put("new", "acme", "nowhere").await, "not_found");
        assert_eq!(entries(world, "collection.put").await, before);
        assert_eq!(world.number("select count(*) from collection").await, 2);
        world.submit_one("acme", "doc-1").await;
    }

    async fn the_same_set_up_by_many_at_once_is_made_once(world: &World) {
        world.tenant_of_tier("acme", "pro").await;
        let put = |n: usize| {
            let engine = world.engine.clone();
            tokio::spawn(async move {
                let who = World::operator();
                for round in 0..4 {
                    let (pipeline, collection) = (format!("p{round}"), format!("c{round}"));
                    engine.pipeline_put(&who, names::pipeline(&pipeline), with_steps(&["ocr"])).await?;
                    engine.tenant_put(&who, settings(&format!("t{}", n % 2), "pro", None)).await?;
                    let settings = CollectionSettings {
                        id: names::collection(&collection),
                        tenant: names::tenant("acme"),
                        pipeline: Some(names::pipeline(&pipeline)),
                        review: false,
                        settings: json!({}),
                    };
                    engine.collection_put(&who, settings).await?;
                }
                Ok::<_, docket_engine::Error>(())
            })
        };
        for task in (0..8).map(put).collect::<Vec<_>>() {
            task.await.unwrap().unwrap();
        }
        assert_eq!(world.number("select count(*) from collection").await, 4);
        assert_eq!(world.number("select count(*) from pipeline").await, 4);
        assert_eq!(world.number("select count(*) from pipeline_version").await, 4);
        assert_eq!(world.number("select count(*) from lane").await, 4);
        assert_eq!(entries(world, "pipeline.put").await, 4);
    }

    async fn lanes_made_while_limits_change_have_the_limit_of_their_tenant(world: &World) {
        world.tenant_of_tier("acme", "free").await;
        world.engine.tier_put(&World::operator(), tier("gold", 7)).await.unwrap();
        for n in 0..20 {
            world.pipeline(&format!("p{n}"), Pipeline::default()).await;
        }
        let spawn = |part: usize| {
            let engine = world.engine.clone();
            tokio::spawn(async move {
                let who = World::operator();
                for n in 0..20_u32 {
                    match part {
                        0 => engine.tenant_put(&who, settings("acme", ["gold", "free"][n as usize % 2], None)).await.unwrap(),
                        1 => engine.tier_put(&who, tier("gold", 7 + n)).await.unwrap(),
                        _ => {
                            let settings = CollectionSettings {
                                id: names::collection(&format!("c{n}")),
                                tenant: names::tenant("acme"),
                                pipeline: Some(names::pipeline(&format!("p{n}"))),
                                review: false,
                                settings: json!({}),
                            };
                            engine.collection_put(&who, settings).await.unwrap();
                        }
                    }
                }
            })
        };
        for task in (0..3).map(spawn).collect::<Vec<_>>() {
            task.await.unwrap();
        }
        // The doctor compares each lane with its tenant.
        world.assert_healthy().await;
    }
}
