//! No tenant ever sees, counts or changes another's data: what is not one's own is not there (rule A1).

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

use docket_core::Refusal;
use docket_core::field::MachineField;
use docket_core::id::ItemId;
use docket_engine::{Complete, Error, ItemFilter, LogPosition, Submit};
use docket_testkit::{World, names, on_both};
use serde_json::json;

fn not_found<T: std::fmt::Debug>(what: &str, operation: &str, outcome: Result<T, Error>) {
    let error = outcome.expect_err(operation);
    let refusal = error.refusal().unwrap_or_else(|| panic!("{operation}: {error}"));
    assert_eq!(refusal.code(), "not_found", "{operation}");
    assert!(
        matches!(refusal, Refusal::NotFound { what: found, .. } if found == what),
        "{operation}: {refusal}"
    );
}

/// Every operation on an item, tried by `zeta`.
async fn try_all(world: &World, id: ItemId) {
    let (engine, zeta) = (&world.engine, World::scope("zeta"));
    not_found("item", "item", engine.item(&zeta, id).await);
    not_found("item", "position", engine.position(&zeta, id).await);
    not_found("item", "explain", engine.explain(&zeta, id).await);
    not_found("item", "jobs", engine.jobs(&zeta, id).await);
    not_found(
        "item",
        "timeline",
        engine.timeline(&zeta, id, LogPosition::default(), 10).await,
    );
    not_found("item", "retry", engine.retry(&zeta, id).await);
    not_found("item", "reprocess", engine.reprocess(&zeta, id).await);
    not_found("item", "cancel", engine.cancel(&zeta, id).await);
    let corrections = vec![("total".to_owned(), json!("1"))];
    not_found(
        "item",
        "fields_correct",
        engine.fields_correct(&zeta, id, corrections).await,
    );
    not_found("item", "content", engine.content(&zeta, id).await);
}

on_both! {
    async fn another_tenants_item_is_not_there_for_any_operation_in_any_state(world: &World) {
        world.lanes(1, &["acme", "zeta"]).await;
        let file = world.upload_bytes("acme", World::file("acme"), b"secret".to_vec()).await.unwrap().id;
        let fields = vec![MachineField { name: "total".to_owned(), value: json!("9"), confidence: None, region: None }];
        let before = world.all_of("acme", file).await;
        try_all(world, file).await;
        assert_eq!(world.all_of("acme", file).await, before, "queued");
        let job = world.claim_one("w1").await;
        let before = world.all_of("acme", file).await;
        try_all(world, file).await;
        assert_eq!(world.all_of("acme", file).await, before, "processing");
        let complete = Complete { fields: Some(fields), ..Complete::new(job.id, job.token) };
        world.engine.complete(vec![complete]).await.unwrap().pop().unwrap().unwrap();
        let before = world.all_of("acme", file).await;
        try_all(world, file).await;
        assert_eq!(world.all_of("acme", file).await, before, "completed");
        world.engine.reprocess(&World::scope("acme"), file).await.unwrap();
        let job = world.claim_one("w1").await;
        let failure = docket_core::job::Failure { error: "no".to_owned(), step: None, retryable: false };
        world.engine.fail(vec![docket_engine::Fail { job: job.id, token: job.token, failure }]).await.unwrap();
        let before = world.all_of("acme", file).await;
        try_all(world, file).await;
        assert_eq!(world.all_of("acme", file).await, before, "failed");
    }

    async fn another_tenants_collection_is_not_there_for_any_operation(world: &World) {
        world.lanes(1, &["acme", "zeta"]).await;
        let own = world.submit_one("acme", "doc-1").await;
        let before = (world.all_of("acme", own.id).await, world.number("select count(*) from item").await);
        let (engine, zeta, acme) = (&world.engine, World::scope("zeta"), names::collection("acme"));
        not_found("collection", "counts", engine.counts(&zeta, &acme).await);
        let filter = ItemFilter { collection: Some(acme.clone()), status: None, external_id: None, before: None, limit: 10 };
        not_found("collection", "items", engine.items(&zeta, filter).await);
        not_found("collection", "item_by_external_id", engine.item_by_external_id(&zeta, &acme, "doc-1").await);
        let call = Submit { collection: acme.clone(), items: vec![World::item("doc-2")], idempotency_key: None };
        not_found("collection", "submit", engine.submit(&zeta, call.clone()).await);
        let call = Submit { idempotency_key: Some("k1".to_owned()), ..call };
        not_found("collection", "submit with a key", engine.submit(&zeta, call).await);
        not_found("collection", "upload", engine.upload(&zeta, World::file("acme")).await);
        let known = docket_engine::UploadRequest {
            digest: Some(docket_core::content::Digest::of_json(&json!({ "for": "doc-1" }))),
            ..World::file("acme")
        };
        not_found("collection", "upload with a digest", engine.upload(&zeta, known).await);
        assert_eq!((world.all_of("acme", own.id).await, world.number("select count(*) from item").await), before);
        assert_eq!(world.number("select count(*) from upload").await, 0);
        assert_eq!(world.number("select count(*) from idempotency").await, 0);
    }

    async fn what_does_not_exist_looks_the_same_as_what_is_anothers(world: &World) {
        world.lanes(1, &["acme", "zeta"]).await;
        let theirs = world.submit_one("acme", "doc-1").await.id;
        let nowhere: ItemId = "01900000-0000-7000-8400-000000000001".parse().unwrap();
        let said = async |id: ItemId| {
            let error = world.engine.item(&World::scope("zeta"), id).await.unwrap_err();
            error.to_string().replace(&id.to_string(), "ID")
        };
        assert_eq!(said(theirs).await, said(nowhere).await);
    }

    async fn the_same_external_id_and_content_of_two_tenants_are_two_items(world: &World) {
        world.lanes(1, &["acme", "zeta"]).await;
        let mut ids = std::collections::BTreeSet::new();
        for tenant in ["acme", "zeta"] {
            ids.insert(world.submit_one(tenant, "doc-1").await.id);
            let answer = world.submit(tenant, vec![World::nameless(json!(1))]).await.unwrap();
            let taken = answer.results[0].as_ref().unwrap();
            assert!(!taken.duplicate);
            ids.insert(taken.id);
            let file = world.upload_bytes(tenant, World::file(tenant), b"same".to_vec()).await.unwrap();
            assert!(!file.duplicate);
            ids.insert(file.id);
        }
        assert_eq!(ids.len(), 6);
        for tenant in ["acme", "zeta"] {
            let filter = ItemFilter { collection: Some(names::collection(tenant)), status: None, external_id: None, before: None, limit: 200 };
            let page = world.engine.items(&World::scope(tenant), filter).await.unwrap();
            assert_eq!(page.items.len(), 3);
            assert!(page.items.iter().all(|item| item.tenant_id == tenant));
        }
    }

    async fn an_unknown_tenant_has_nothing(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = world.submit_one("acme", "doc-1").await;
        let ghost = World::scope("ghost");
        not_found("tenant", "limits", world.engine.limits(&ghost).await);
        not_found("item", "item", world.engine.item(&ghost, item.id).await);
        let call = Submit { collection: names::collection("acme"), items: vec![World::item("x")], idempotency_key: None };
        not_found("collection", "submit", world.engine.submit(&ghost, call).await);
    }
}
