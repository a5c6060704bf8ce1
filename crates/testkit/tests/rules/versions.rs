//! The caller's own id, and what the same id with other content means (rule I5).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::item::{ItemStatus, OnConflict};
use docket_core::job::JobStatus;
use docket_core::{Refusal, Refused};
use docket_engine::{Heartbeat, Release, StepDone, SubmitItem, SubmittedItem};
use docket_testkit::{World, names, on_both};
use serde_json::{Value, json};

fn item(external_id: &str, payload: Value) -> SubmitItem {
    SubmitItem {
        payload,
        ..World::item(external_id)
    }
}

fn version(external_id: &str, payload: Value) -> SubmitItem {
    let mut item = item(external_id, payload);
    item.details.on_conflict = OnConflict::NewVersion;
    item
}

async fn submit(world: &World, item: SubmitItem) -> Refused<SubmittedItem> {
    world
        .submit("acme", vec![item])
        .await
        .unwrap()
        .results
        .pop()
        .unwrap()
}

async fn counts(world: &World) -> Vec<(ItemStatus, i64)> {
    let counts = world
        .engine
        .counts(&World::scope("acme"), &names::collection("acme"))
        .await;
    counts.unwrap().into_iter().collect()
}

on_both! {
    async fn the_same_id_with_the_same_content_is_a_duplicate(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, item("doc-1", json!({ "a": 1 }))).await.unwrap();
        for again in [item("doc-1", json!({ "a": 1 })), version("doc-1", json!({ "a": 1 }))] {
            let again = submit(world, again).await.unwrap();
            assert_eq!((again.id, again.duplicate, again.versioned, again.job), (first.id, true, false, None));
        }
        assert_eq!(world.story("acme", first.id).await, ["item.submitted"]);
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 1)]);
    }

    async fn the_same_id_with_other_content_is_a_conflict(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, item("doc-1", json!(1))).await.unwrap();
        let before = world.all_of("acme", first.id).await;
        let refused = submit(world, item("doc-1", json!(2))).await.unwrap_err();
        assert_eq!(refused, Refusal::ExternalIdConflict { external_id: "doc-1".to_owned() });
        assert_eq!(refused.code(), "external_id_conflict");
        assert_eq!(world.all_of("acme", first.id).await, before);
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 1)]);
    }

    async fn a_next_version_takes_the_pending_job_back_and_queues_a_new_one(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, item("doc-1", json!("old"))).await.unwrap();
        let behind = world.submit_one("acme", "doc-2").await;
        let second = submit(world, version("doc-1", json!("new"))).await.unwrap();
        assert_eq!((second.id, second.duplicate, second.versioned), (first.id, false, true));
        assert_ne!(second.job, first.job);
        let view = world.view("acme", first.id).await;
        assert_eq!((view.item.version, view.item.payload.as_deref()), (2, Some("\"new\"")));
        assert_eq!(view.item.status, ItemStatus::Queued);
        assert_eq!(view.position.unwrap().ahead, 1, "it goes to the end of its lane");
        let jobs = world.engine.jobs(&World::scope("acme"), first.id).await.unwrap();
        let jobs: Vec<_> = jobs.iter().map(|job| (Some(job.id), job.status, job.retry_of)).collect();
        assert_eq!(jobs, [(second.job, JobStatus::Pending, None), (first.job, JobStatus::Cancelled, None)]);
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 2)]);
        assert_eq!(world.story("acme", first.id).await, ["item.submitted", "job.cancelled", "item.versioned"]);
        let job = world.claim_one("w1").await;
        assert_eq!(job.item, behind.id);
        world.complete(job.id, job.token).await.unwrap();
        let job = world.claim_one("w1").await;
        assert_eq!((job.item, job.item_version, job.payload.as_deref()), (first.id, 2, Some("\"new\"")));
        world.complete(job.id, job.token).await.unwrap();
        assert!(world.claim("w1", 10).await.is_empty());
        assert_eq!(counts(world).await, [(ItemStatus::Completed, 2)]);
    }

    async fn a_worker_on_the_old_version_finds_its_lease_lost(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, item("doc-1", json!("old"))).await.unwrap();
        let old = world.claim_one("w1").await;
        submit(world, version("doc-1", json!("new"))).await.unwrap();
        let new = world.claim_one("w2").await;
        assert_eq!((new.item, new.item_version), (first.id, 2), "its place in the lane is free at once");
        let before = world.all_of("acme", first.id).await;
        assert_eq!(world.complete(old.id, old.token).await, Err(Refusal::LeaseLost));
        assert_eq!(world.fail(old.id, old.token, "late").await, Err(Refusal::LeaseLost));
        let beat = Heartbeat { job: old.id, token: old.token, lease_ms: None };
        assert_eq!(world.engine.heartbeat(vec![beat]).await.unwrap(), [Err(Refusal::LeaseLost)]);
        let release = Release { job: old.id, token: old.token };
        assert_eq!(world.engine.release(vec![release]).await.unwrap(), [Err(Refusal::LeaseLost)]);
        let step = StepDone { job: old.id, token: old.token, name: "ocr".to_owned(), output: json!(1) };
        assert_eq!(world.engine.step(step).await.unwrap_err().refusal(), Some(&Refusal::LeaseLost));
        assert_eq!(world.all_of("acme", first.id).await, before);
        world.complete(new.id, new.token).await.unwrap();
        assert_eq!(counts(world).await, [(ItemStatus::Completed, 1)]);
    }

    async fn a_next_version_of_finished_and_failed_work_is_processed_anew(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, item("doc-1", json!(1))).await.unwrap();
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        submit(world, version("doc-1", json!(2))).await.unwrap();
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 1)]);
        let job = world.claim_one("w1").await;
        let failure = docket_core::job::Failure { error: "no".to_owned(), step: None, retryable: false };
        world.engine.fail(vec![docket_engine::Fail { job: job.id, token: job.token, failure }]).await.unwrap();
        assert_eq!(counts(world).await, [(ItemStatus::Failed, 1)]);
        submit(world, version("doc-1", json!(3))).await.unwrap();
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 1)]);
        assert_eq!(world.claim_one("w1").await.item_version, 3);
        let story = world.story("acme", first.id).await;
        assert!(!story.contains(&"job.cancelled".to_owned()), "what had ended stays as it was: {story:?}");
    }

    async fn a_job_that_waits_for_its_next_attempt_is_taken_back_by_a_next_version(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, item("doc-1", json!(1))).await.unwrap();
        let job = world.claim_one("w1").await;
        world.fail(job.id, job.token, "no text").await.unwrap();
        submit(world, version("doc-1", json!(2))).await.unwrap();
        let job = world.claim_one("w1").await;
        assert_eq!((job.item, job.item_version, job.attempt), (first.id, 2, 1));
        world.pass_ms(3_600_000);
        world.complete(job.id, job.token).await.unwrap();
        world.engine.reap(None).await.unwrap();
        assert!(world.claim("w1", 10).await.is_empty());
    }

    async fn the_content_of_every_earlier_version_is_kept(world: &World) {
        world.lanes(1, &["acme"]).await;
        let mut first = item("doc-1", json!("one"));
        first.details.metadata = Some(json!({ "by": "scanner" }));
        submit(world, first).await.unwrap();
        submit(world, version("doc-1", json!("two"))).await.unwrap();
        submit(world, version("doc-1", json!("three"))).await.unwrap();
        let kept = async |number: i64, payload: &str, metadata: &str| {
            let sql = format!("select count(*) from item_version where version = {number} and payload = '\"{payload}\"' and {metadata}");
            world.number(&sql).await
        };
        assert_eq!(kept(1, "one", "metadata = '{\"by\":\"scanner\"}'").await, 1);
        assert_eq!(kept(2, "two", "metadata is null").await, 1);
        assert_eq!(world.number("select count(*) from item_version").await, 2);
    }

    async fn an_earlier_versions_content_comes_back_as_a_version_of_its_own(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, item("doc-1", json!("one"))).await.unwrap();
        submit(world, version("doc-1", json!("two"))).await.unwrap();
        let third = submit(world, version("doc-1", json!("one"))).await.unwrap();
        assert!(third.versioned && third.id == first.id);
        assert_eq!(world.view("acme", first.id).await.item.version, 3);
    }

    async fn two_versions_within_one_call_are_taken_in_their_order(world: &World) {
        world.lanes(1, &["acme"]).await;
        let items = vec![
            version("doc-1", json!("one")),
            version("doc-1", json!("two")),
            version("doc-1", json!("two")),
            item("doc-1", json!("three")),
            version("doc-2", json!("other")),
        ];
        let results = world.submit("acme", items).await.unwrap().results;
        let seen: Vec<_> = results
            .iter()
            .map(|result| result.as_ref().map(|item| (item.duplicate, item.versioned)).map_err(Refusal::code))
            .collect();
        assert_eq!(seen, [
            Ok((false, false)),
            Ok((false, true)),
            Ok((true, false)),
            Err("external_id_conflict"),
            Ok((false, false)),
        ]);
        let id = results[0].as_ref().unwrap().id;
        assert_eq!(results[1].as_ref().unwrap().id, id);
        let view = world.view("acme", id).await;
        assert_eq!((view.item.version, view.item.payload.as_deref()), (2, Some("\"two\"")));
        assert_eq!(view.job.unwrap().id, results[1].as_ref().unwrap().job.unwrap());
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 2)]);
        let claimed = world.claim("w1", 10).await;
        assert_eq!(claimed.len(), 1);
        assert_eq!(claimed[0].external_id.as_deref(), Some("doc-1"), "jobs are numbered in the order of the entries");
        assert_eq!(claimed[0].item_version, 2);
    }

    async fn twenty_versions_sent_at_once_leave_one_job_and_all_contents(world: &World) {
        world.lanes(1, &["acme"]).await;
        let calls: Vec<_> = (0..20)
            .map(|n| {
                let engine = world.engine.clone();
                let call = docket_engine::Submit {
                    collection: names::collection("acme"),
                    items: vec![version("doc-1", json!(n))],
                    idempotency_key: None,
                };
                tokio::spawn(async move { engine.submit(&World::scope("acme"), call).await.unwrap() })
            })
            .collect();
        let mut ids = std::collections::BTreeSet::new();
        for call in calls {
            ids.insert(call.await.unwrap().results.pop().unwrap().unwrap().id);
        }
        assert_eq!(ids.len(), 1);
        let view = world.view("acme", *ids.first().unwrap()).await;
        assert_eq!(view.item.version, 20);
        assert_eq!(world.number("select count(*) from item_version").await, 19);
        assert_eq!(counts(world).await, [(ItemStatus::Queued, 1)]);
        assert_eq!(world.claim("w1", 10).await.len(), 1);
    }
}
