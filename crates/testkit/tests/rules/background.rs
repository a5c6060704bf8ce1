//! What goes on by itself: folding, forgetting, sweeping; bounded, and harmless when done again.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on has failed"
)]

use std::time::Duration;

use docket_core::Refusal;
use docket_core::field::MachineField;
use docket_core::id::ItemId;
use docket_core::item::{ItemDetails, ItemStatus, OnConflict};
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_engine::background::{Intervals, Retained};
use docket_engine::{Complete, StepDone, Submit, SubmitItem, UploadRequest, UploadStart};
use docket_testkit::{World, WorldConfig, files_under, names, on_both};
use serde_json::json;

const HOUR_MS: i64 = 3_600_000;
const NONE: Retained = Retained {
    answers: 0,
    moments: 0,
    holes: 0,
    workers: 0,
    items: 0,
    notifications: 0,
    has_more: false,
};

/// A world that forgets finished items after an hour.
async fn forgetful(world: &World) -> World {
    let settings = WorldConfig {
        keep_finished_ms: Some(HOUR_MS),
        ..WorldConfig::default()
    };
    let world = world.beside(&settings).await;
    world.lanes(50, &["acme"]).await;
    world
}

async fn counts(world: &World) -> Vec<(ItemStatus, i64)> {
    let counts = world
        .engine
        .counts(&World::scope("acme"), &names::collection("acme"))
        .await;
    counts.unwrap().into_iter().collect()
}

async fn is_gone(world: &World, item: ItemId) -> bool {
    match world.engine.item(&World::scope("acme"), item).await {
        Ok(_) => false,
        Err(error) => error.refusal().map(Refusal::code) == Some("not_found"),
    }
}

/// Rows of everything that belongs to items.
async fn rows(world: &World) -> i64 {
    let mut rows = 0;
    for table in ["item", "item_version", "correction", "job", "job_step", "hold"] {
        rows += world.number(&format!("select count(*) from {table}")).await;
    }
    rows
}

/// A world with the bytes of `n` files whose items were forgotten.
async fn forgotten_files(world: &World, n: usize) -> World {
    let world = forgetful(world).await;
    world.collection("acme", "acme", None).await;
    for index in 0..n {
        let bytes = format!("file {index}").into_bytes();
        let taken = world.upload_bytes("acme", World::file("acme"), bytes).await;
        taken.unwrap();
    }
    world.pass_ms(HOUR_MS);
    assert_eq!(world.engine.retain().await.unwrap().items, n as u64);
    assert_eq!(unswept(&world).await, (n, n as i64));
    world
}

/// Files whose bytes are there, and rows that name bytes for the sweeper.
async fn unswept(world: &World) -> (usize, i64) {
    let rows = world.number("select count(*) from upload").await;
    (world.files(), rows)
}

/// Changes of the counters that come to nothing, `n` of them.
async fn idle_deltas(world: &World, n: usize) {
    let sql = format!(
        "insert into delta (collection_key, from_status, to_status, n)
         with recursive s (k) as (select 1 union all select k + 1 from s where k < {n})
         select (select min(collection_key) from collection), case when k % 2 = 0 then 'failed' end,
                case when k % 2 = 1 then 'failed' end, 1
         from s"
    );
    world.database.execute(&sql).await.unwrap();
}

on_both! {
    async fn folding_changes_nothing_that_is_counted(world: &World) {
        world.lanes(50, &["acme"]).await;
        let items = world.submit_many("acme", "doc", 30).await;
        let jobs = world.claim("w1", 20).await;
        for job in &jobs[..12] {
            world.complete(job.id, job.token).await.unwrap();
        }
        world.engine.cancel(&World::scope("acme"), items[25]).await.unwrap();
        let before = counts(world).await;
        let expected = [(ItemStatus::Queued, 17), (ItemStatus::Completed, 12), (ItemStatus::Cancelled, 1)];
        assert_eq!(before, expected);
        for _ in 0..3 {
            assert_eq!(world.engine.fold_run_once().await.unwrap(), None);
            assert_eq!(counts(world).await, before);
        }
        assert_eq!(world.number("select count(*) from delta").await, 0);
        world.submit_one("acme", "one more").await;
        assert_eq!(counts(world).await[0], (ItemStatus::Queued, 18));
    }

    async fn several_folders_at_once_fold_each_change_once(world: &World) {
        world.lanes(50, &["acme"]).await;
        world.submit_many("acme", "doc", 25).await;
        idle_deltas(world, 20_000).await;
        let fold = || world.engine.fold_run_once();
        let submits = async {
            for n in 0..20 {
                world.submit_one("acme", &format!("meanwhile-{n}")).await;
                assert_eq!(counts(world).await.first().map(|count| count.1), Some(26 + n), "exact at any moment");
            }
        };
        let (a, b, c, d, ()) = tokio::join!(fold(), fold(), fold(), fold(), submits);
        for folded in [a, b, c, d] {
            folded.unwrap();
        }
        world.engine.fold_run_once().await.unwrap();
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 45)]);
        assert_eq!(world.number("select count(*) from delta").await, 0);
    }

    async fn one_run_of_the_folder_is_bounded(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_one("acme", "doc").await;
        idle_deltas(world, 104_000).await;
        assert_eq!(world.engine.fold_run_once().await.unwrap(), Some(Duration::ZERO), "there is more");
        let left = world.number("select count(*) from delta").await;
        assert!((1..=5_000).contains(&left), "{left} are left for the next run");
        assert_eq!(world.engine.fold_run_once().await.unwrap(), None);
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 1)]);
    }

    async fn finished_items_are_forgotten_after_their_time_and_nothing_else(world: &World) {
        let world = &forgetful(world).await;
        let items = world.submit_many("acme", "doc", 6).await;
        let jobs = world.claim("w1", 4).await;
        world.complete(jobs[0].id, jobs[0].token).await.unwrap();
        let failure = docket_core::job::Failure { error: "no".into(), step: None, retryable: false };
        let fail = docket_engine::Fail { job: jobs[1].id, token: jobs[1].token, failure };
        world.engine.fail(vec![fail]).await.unwrap().remove(0).unwrap();
        world.engine.cancel(&World::scope("acme"), items[5]).await.unwrap();
        world.fail(jobs[3].id, jobs[3].token, "later").await.unwrap();
        let entries = world.number("select count(*) from log").await;
        world.pass_ms(HOUR_MS - 1);
        assert_eq!(world.engine.retain().await.unwrap().items, 0, "not yet");
        world.pass_ms(1);
        assert_eq!(world.engine.retain().await.unwrap().items, 3);
        let gone: Vec<_> = [is_gone(world, items[0]).await, is_gone(world, items[1]).await, is_gone(world, items[5]).await].into();
        assert_eq!(gone, [true; 3]);
        let mut left = Vec::new();
        for item in &items[2..5] {
            left.push(world.view("acme", *item).await.item.status);
        }
        assert_eq!(left, [ItemStatus::Processing, ItemStatus::Queued, ItemStatus::Queued]);
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 3)]);
        assert_eq!(world.number("select count(*) from log").await, entries + 3, "the log stays, and tells of it");
        assert_eq!(world.number("select count(*) from log where action = 'item.expired'").await, 3);
        assert_eq!(world.engine.retain().await.unwrap().items, 0);
        world.assert_healthy().await;
    }

    async fn with_an_item_everything_that_belongs_to_it_is_forgotten(world: &World) {
        let world = &forgetful(world).await;
        let steps = vec![StepName::new("ocr").unwrap()];
        world.pipeline("work", Pipeline { steps, ..Pipeline::default() }).await;
        let scope = World::scope("acme");
        let item = world.submit_one("acme", "doc").await.id;
        for round in 0..3 {
            let job = world.claim_one("w1").await;
            let done = StepDone { job: job.id, token: job.token, name: "ocr".into(), output: json!(round) };
            world.engine.step(done).await.unwrap();
            let field = MachineField { name: "a".into(), value: json!(1), confidence: None, region: None };
            let complete = Complete { fields: Some(vec![field]), ..Complete::new(job.id, job.token) };
            world.engine.complete(vec![complete]).await.unwrap().remove(0).unwrap();
            match round {
                0 => drop(world.engine.reprocess(&scope, item).await.unwrap()),
                1 => {
                    let on_conflict = OnConflict::NewVersion;
                    let details = ItemDetails { external_id: Some("doc".into()), on_conflict, ..Default::default() };
                    let next = SubmitItem { payload: json!("version two"), details };
                    assert!(world.submit("acme", vec![next]).await.unwrap().results[0].as_ref().unwrap().versioned);
                }
                _ => world.engine.fields_correct(&scope, item, vec![("a".into(), json!(2))]).await.unwrap(),
            }
        }
        assert_eq!(rows(world).await, 1 + 1 + 1 + 3 + 3);
        world.pass_ms(2 * HOUR_MS);
        assert_eq!(world.engine.retain().await.unwrap().items, 1);
        assert_eq!(rows(world).await, 0);
        assert_eq!(counts(world).await, []);
        world.submit_one("acme", "doc").await;
        world.assert_healthy().await;
    }

    async fn with_a_file_its_bytes_are_forgotten(world: &World) {
        let world = &forgetful(world).await;
        let request = UploadRequest {
            collection: names::collection("acme"),
            filename: Some("scan.pdf".into()),
            media_type: "application/pdf".into(),
            digest: None,
            size: None,
            details: ItemDetails::default(),
            idempotency_key: None,
        };
        let UploadStart::Ready(mut upload) = world.engine.upload(&World::scope("acme"), request).await.unwrap() else {
            panic!("the bytes are wanted");
        };
        upload.write(bytes::Bytes::from_static(b"%PDF-1.7 and so on")).await.unwrap();
        let item = upload.finish().await.unwrap().id;
        let files = || files_under(&world.database.blob_folder()).len();
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        world.engine.sweep_run_once().await.unwrap();
        assert_eq!(files(), 1, "the item still needs them");
        world.pass_ms(HOUR_MS);
        assert_eq!(world.engine.retain().await.unwrap().items, 1);
        assert!(is_gone(world, item).await);
        for _ in 0..2 {
            world.engine.sweep_run_once().await.unwrap();
            assert_eq!(files(), 0);
        }
        assert_eq!(world.number("select count(*) from upload").await, 0);
        world.assert_healthy().await;
    }

    async fn one_run_of_the_sweeper_is_bounded(world: &World) {
        let world = &forgotten_files(world, 150).await;
        assert_eq!(world.engine.sweep_run_once().await.unwrap(), Some(Duration::ZERO), "there is more");
        assert_eq!(unswept(world).await, (50, 50));
        assert_eq!(world.engine.sweep_run_once().await.unwrap(), None);
        assert_eq!(unswept(world).await, (0, 0));
    }

    async fn two_sweepers_at_once_sweep_each_file_once(world: &World) {
        let world = &forgotten_files(world, 200).await;
        let sweep = || world.engine.sweep_run_once();
        let (a, b) = tokio::join!(sweep(), sweep());
        // Each has taken as many as it may, so the two have taken different ones.
        assert_eq!([a.unwrap(), b.unwrap()], [Some(Duration::ZERO); 2]);
        assert_eq!(unswept(world).await, (0, 0));
        assert_eq!(world.engine.sweep_run_once().await.unwrap(), None);
    }

    async fn one_run_of_the_reaper_is_bounded(world: &World) {
        world.lanes(100_000, &["acme"]).await;
        world.submit_many("acme", "doc", 10_001).await;
        for _ in 0..11 {
            world.claim("w1", 1_000).await;
        }
        let leased = "select count(*) from hold where kind = 1";
        assert_eq!(world.number(leased).await, 10_001);
        world.pass_ms(600_000);
        let soon = world.engine.reaper_run_once().await.unwrap();
        assert!(soon.is_some_and(|rest| rest < Duration::from_secs(1)), "there is more, and it rests {soon:?}");
        assert_eq!(world.number(leased).await, 1);
        assert_eq!(world.engine.reaper_run_once().await.unwrap(), None);
        assert_eq!(world.number(leased).await, 0);
    }

    async fn one_run_of_the_reaper_is_bounded_for_reviews_too(world: &World) {
        world.desk("acme", json!({})).await;
        world.submit_many("acme", "doc", 10_001).await;
        for _ in 0..51 {
            world.pop("acme", "ann", 200).await;
        }
        let held = "select count(*) from review where state = 1";
        assert_eq!(world.number(held).await, 10_001);
        world.pass_ms(24 * HOUR_MS);
        let soon = world.engine.reaper_run_once().await.unwrap();
        assert!(soon.is_some_and(|rest| rest < Duration::from_secs(1)), "there is more, and it rests {soon:?}");
        assert_eq!(world.number(held).await, 1);
        assert_eq!(world.engine.reaper_run_once().await.unwrap(), None);
        assert_eq!(world.number(held).await, 0);
    }

    async fn what_waits_for_a_review_is_not_forgotten(world: &World) {
        let world = &forgetful(world).await;
        world.pipeline("work", Pipeline { review: true, ..Pipeline::default() }).await;
        let item = world.submit_one("acme", "doc").await.id;
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        world.pass_ms(100 * HOUR_MS);
        assert_eq!(world.engine.retain().await.unwrap().items, 0);
        assert_eq!(world.view("acme", item).await.item.status, ItemStatus::InReview);
        world.assert_healthy().await;
    }

    async fn items_that_arrived_finished_are_forgotten_too(world: &World) {
        let world = &forgetful(world).await;
        world.collection("finished", "acme", None).await;
        let call = Submit {
            collection: names::collection("finished"),
            items: vec![World::item("score-1"), World::item("score-2")],
            idempotency_key: None,
        };
        world.engine.submit(&World::scope("acme"), call).await.unwrap();
        world.pass_ms(HOUR_MS - 1);
        assert_eq!(world.engine.retain().await.unwrap().items, 0);
        world.pass_ms(1);
        assert_eq!(world.engine.retain().await.unwrap().items, 2);
        assert_eq!(rows(world).await, 0);
        world.assert_healthy().await;
    }

    async fn without_a_setting_items_are_kept_for_ever(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.submit_one("acme", "doc").await;
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        world.pass_ms(100_000 * HOUR_MS);
        assert_eq!(world.engine.retain().await.unwrap().items, 0);
    }

    async fn one_run_of_the_retention_is_bounded(world: &World) {
        let world = &forgetful(world).await;
        world.tenant("acme", 1_000).await;
        world.submit_many("acme", "doc", 700).await;
        let jobs = world.claim("w1", 700).await;
        let completes = jobs.iter().map(|job| Complete::new(job.id, job.token)).collect();
        world.engine.complete(completes).await.unwrap();
        world.pass_ms(HOUR_MS);
        assert_eq!(world.engine.retention_run_once().await.unwrap(), Some(Duration::ZERO), "there is more");
        assert_eq!(world.number("select count(*) from item").await, 200);
        assert_eq!(world.engine.retention_run_once().await.unwrap(), None);
        assert_eq!(rows(world).await, 0);
        world.assert_healthy().await;
    }

    async fn two_at_once_forget_each_item_once(world: &World) {
        let world = &forgetful(world).await;
        world.submit_many("acme", "doc", 40).await;
        let jobs = world.claim("w1", 50).await;
        let completes = jobs.iter().map(|job| Complete::new(job.id, job.token)).collect();
        world.engine.complete(completes).await.unwrap();
        world.pass_ms(HOUR_MS);
        let (a, b, c) = tokio::join!(world.engine.retain(), world.engine.retain(), world.engine.retain());
        let forgotten: u64 = [a, b, c].into_iter().map(|retained| retained.unwrap().items).sum();
        assert_eq!(forgotten, 40);
        assert_eq!(world.number("select count(*) from log where action = 'item.expired'").await, 40);
        world.assert_healthy().await;
    }

    async fn numbers_workers_answers_and_moments_are_swept_when_nobody_needs_them(world: &World) {
        world.pipeline("work", Pipeline::default()).await;
        world.tenant_of_tier("acme", "pro").await;
        world.collection("acme", "acme", Some("work")).await;
        let call = Submit {
            collection: names::collection("acme"),
            items: (0..4).map(|n| World::item(&format!("doc-{n}"))).collect(),
            idempotency_key: Some("key".into()),
        };
        let answer = world.engine.submit(&World::scope("acme"), call).await.unwrap();
        let item = answer.results[1].as_ref().unwrap().id;
        world.engine.cancel(&World::scope("acme"), item).await.unwrap();
        assert_eq!(world.engine.retain().await.unwrap(), NONE, "the lane has not passed the hole yet");
        world.claim("w1", 5).await;
        world.pass_ms(HOUR_MS + 1);
        assert_eq!(world.engine.retain().await.unwrap(), Retained { holes: 1, moments: 1, ..NONE });
        world.pass_ms(24 * HOUR_MS);
        assert_eq!(world.engine.retain().await.unwrap(), Retained { answers: 1, ..NONE });
        world.pass_ms(7 * 24 * HOUR_MS);
        assert_eq!(world.engine.retain().await.unwrap(), Retained { workers: 1, ..NONE });
        assert_eq!(world.engine.retain().await.unwrap(), NONE);
    }

    async fn with_nothing_to_do_nothing_is_done(world: &World) {
        for _ in 0..2 {
            assert_eq!(world.engine.fold_run_once().await.unwrap(), None);
            assert_eq!(world.engine.sweep_run_once().await.unwrap(), None);
            assert_eq!(world.engine.retention_run_once().await.unwrap(), None);
            assert_eq!(world.engine.reaper_run_once().await.unwrap(), None);
            assert_eq!(world.engine.retain().await.unwrap(), NONE);
        }
    }

    async fn the_background_works_by_itself_until_it_is_stopped(world: &World) {
        world.lanes(5, &["acme"]).await;
        let often = Duration::from_millis(10);
        let intervals = Intervals { reap: often, fold: often, seal: often, sweep: often, retention: often, rekey: often, assign: often, reconcile: often };
        let background = world.engine.start_background(intervals).await.unwrap();
        world.submit_many("acme", "doc", 5).await;
        let jobs = world.claim("w1", 2).await;
        world.pass_ms(600_000);
        let patience = async {
            while world.number("select count(*) from delta").await > 0
                || world.view("acme", jobs[0].item).await.item.status != ItemStatus::Queued
            {
                tokio::time::sleep(often).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(5), patience).await.expect("it folds and reaps by itself");
        tokio::time::timeout(Duration::from_secs(5), background.stop()).await.expect("it ends");
        world.submit_one("acme", "after").await;
        tokio::time::sleep(5 * often).await;
        assert_eq!(world.number("select count(*) from delta").await, 1, "stopped means stopped");
    }

    async fn the_background_ends_when_it_is_dropped(world: &World) {
        world.lanes(5, &["acme"]).await;
        let often = Duration::from_millis(10);
        let intervals = Intervals { reap: often, fold: often, seal: often, sweep: often, retention: often, rekey: often, assign: often, reconcile: often };
        drop(world.engine.start_background(intervals).await.unwrap());
        tokio::time::sleep(5 * often).await;
        world.submit_one("acme", "after").await;
        tokio::time::sleep(5 * often).await;
        assert_eq!(world.number("select count(*) from delta").await, 1);
    }
}
