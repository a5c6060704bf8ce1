//! Items come in: alone, by the thousand, and what counts as the same item again (rules I1, I4 and I7).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::item::{ItemDetails, ItemStatus};
use docket_core::{Refusal, Refused};
use docket_engine::{Submit, SubmitItem, SubmittedItem};
use docket_testkit::{World, names, on_both};
use serde_json::{Value, json};

fn code<T: std::fmt::Debug>(result: &Refused<T>) -> &'static str {
    result.as_ref().unwrap_err().code()
}

async fn queued(world: &World, tenant: &str) -> i64 {
    let counts = world
        .engine
        .counts(&World::scope(tenant), &names::collection(tenant))
        .await
        .unwrap();
    counts.get(&ItemStatus::Queued).copied().unwrap_or(0)
}

async fn submit_one(world: &World, tenant: &str, item: SubmitItem) -> Refused<SubmittedItem> {
    let mut answer = world.submit(tenant, vec![item]).await.unwrap();
    assert_eq!(answer.results.len(), 1);
    answer.results.pop().unwrap()
}

/// The same content, as different programs would write it.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

on_both! {
    async fn an_item_alone_is_kept_with_all_that_came_with_it(world: &World) {
        world.lanes(1, &["acme"]).await;
        let item = SubmitItem {
            payload: json!({ "text": "Grüße, 世界 🌍", "n": 12.5 }),
            details: ItemDetails {
                external_id: Some("invoice/7".to_owned()),
                metadata: Some(json!({ "source": "scanner" })),
                confidence: Some(87.5),
                line_item_count: Some(12),
                total_amount: Some(1_234.56),
                ..ItemDetails::default()
            },
        };
        let taken = submit_one(world, "acme", item).await.unwrap();
        assert!(!taken.duplicate && !taken.versioned);
        let view = world.view("acme", taken.id).await;
        let kept = &view.item;
        assert_eq!(kept.status, ItemStatus::Queued);
        assert_eq!(kept.version, 1);
        assert_eq!(kept.external_id.as_deref(), Some("invoice/7"));
        assert_eq!(parsed(kept.payload.as_deref().unwrap()), json!({ "text": "Grüße, 世界 🌍", "n": 12.5 }));
        assert_eq!(parsed(kept.metadata.as_deref().unwrap()), json!({ "source": "scanner" }));
        assert_eq!((kept.confidence, kept.line_item_count, kept.total_amount), (Some(87.5), Some(12), Some(1_234.56)));
        assert_eq!(kept.submitted_by, "producer:acme");
        assert_eq!(view.job.unwrap().id, taken.job.unwrap());
        assert_eq!(view.position.unwrap().ahead, 0);
        let found = world.engine.item_by_external_id(&World::scope("acme"), &names::collection("acme"), "invoice/7").await;
        assert_eq!(found.unwrap(), taken.id);
    }

    async fn a_thousand_items_in_one_call_have_a_result_each_in_order(world: &World) {
        world.lanes(1, &["acme"]).await;
        let items = (0..1_000).map(|n| World::item(&format!("doc-{n}"))).collect();
        let answer = world.submit("acme", items).await.unwrap();
        assert_eq!(answer.results.len(), 1_000);
        assert_eq!(queued(world, "acme").await, 1_000);
        for n in [0, 1, 499, 999] {
            let taken = answer.results[n].as_ref().unwrap();
            let view = world.view("acme", taken.id).await;
            assert_eq!(view.item.external_id, Some(format!("doc-{n}")));
            assert_eq!(view.position.unwrap().ahead, n as u64);
        }
    }

    async fn one_bad_entry_spoils_no_other(world: &World) {
        world.lanes(1, &["acme"]).await;
        let mut items: Vec<_> = (0..5).map(|n| World::item(&format!("doc-{n}"))).collect();
        items[1].payload = Value::Null;
        items[3].details.confidence = Some(101.0);
        let answer = world.submit("acme", items).await.unwrap();
        for (n, result) in answer.results.iter().enumerate() {
            assert_eq!(result.is_ok(), n != 1 && n != 3, "entry {n}: {result:?}");
        }
        let problem = |n: usize| answer.results[n].as_ref().unwrap_err().to_string();
        assert!(problem(1).starts_with("items[1].payload:"), "{}", problem(1));
        assert!(problem(3).starts_with("items[3].confidence:"), "{}", problem(3));
        assert_eq!(queued(world, "acme").await, 3);
    }

    async fn an_item_of_a_collection_without_a_pipeline_arrives_finished(world: &World) {
        world.tenant("acme", 1).await;
        world.collection("acme", "acme", None).await;
        let taken = submit_one(world, "acme", World::item("score-1")).await.unwrap();
        assert_eq!(taken.job, None);
        assert_eq!(world.view("acme", taken.id).await.item.status, ItemStatus::Completed);
        let job = world.engine.position(&World::scope("acme"), taken.id).await;
        assert_eq!(job.unwrap_err().refusal().unwrap().code(), "conflict");
    }

    async fn the_same_json_without_an_id_is_a_duplicate_in_any_order_of_its_properties(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = World::nameless(parsed(r#"{"a":1,"b":{"x":[1,2],"y":null}}"#));
        let first = submit_one(world, "acme", first).await.unwrap();
        for text in [r#"{"a":1,"b":{"x":[1,2],"y":null}}"#, "{ \"b\": {\"y\":null, \"x\":[1,2]},\n \"a\": 1 }"] {
            let again = submit_one(world, "acme", World::nameless(parsed(text))).await.unwrap();
            assert_eq!((again.id, again.duplicate, again.job), (first.id, true, None), "{text}");
        }
        let other = World::nameless(parsed(r#"{"a":1,"b":{"x":[2,1],"y":null}}"#));
        let other = submit_one(world, "acme", other).await.unwrap();
        assert!(!other.duplicate && other.id != first.id);
        assert_eq!(queued(world, "acme").await, 2);
        assert_eq!(world.story("acme", first.id).await, ["item.submitted"]);
    }

    async fn the_same_json_under_two_external_ids_is_two_items(world: &World) {
        world.lanes(1, &["acme"]).await;
        let named = |id: &str| SubmitItem { payload: json!({ "score": 0 }), ..World::item(id) };
        let answer = world.submit("acme", vec![named("gen-1"), named("gen-2")]).await.unwrap();
        let ids: Vec<_> = answer.results.into_iter().map(|result| result.unwrap()).collect();
        assert!(ids[0].id != ids[1].id && !ids[0].duplicate && !ids[1].duplicate);
        assert_eq!(queued(world, "acme").await, 2);
    }

    async fn the_same_content_in_another_collection_is_another_item(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.collection("archive", "acme", Some("work")).await;
        let first = submit_one(world, "acme", World::nameless(json!({ "a": 1 }))).await.unwrap();
        let call = Submit {
            collection: names::collection("archive"),
            items: vec![World::nameless(json!({ "a": 1 })), World::item("doc-1")],
            idempotency_key: None,
        };
        let there = world.engine.submit(&World::scope("acme"), call).await.unwrap();
        let there: Vec<_> = there.results.into_iter().map(|result| result.unwrap()).collect();
        assert!(there[0].id != first.id && !there[0].duplicate);
        let here = submit_one(world, "acme", World::item("doc-1")).await.unwrap();
        assert!(here.id != there[1].id && !here.duplicate, "an externalId belongs to its collection");
    }

    async fn repeats_within_one_call_are_duplicates_of_its_first_entry(world: &World) {
        world.lanes(1, &["acme"]).await;
        let items = vec![
            World::nameless(json!({ "a": 1 })),
            World::item("doc-1"),
            World::nameless(json!({ "a": 1 })),
            World::item("doc-1"),
            World::nameless(json!({ "a": 2 })),
        ];
        let results = world.submit("acme", items).await.unwrap().results;
        let results: Vec<_> = results.into_iter().map(|result| result.unwrap()).collect();
        let duplicates: Vec<_> = results.iter().map(|result| result.duplicate).collect();
        assert_eq!(duplicates, [false, false, true, true, false]);
        assert_eq!((results[2].id, results[3].id), (results[0].id, results[1].id));
        assert_eq!(queued(world, "acme").await, 3);
    }

    async fn a_duplicate_of_finished_work_brings_the_finished_item_back(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit_one(world, "acme", World::nameless(json!({ "a": 1 }))).await.unwrap();
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        let before = world.all_of("acme", first.id).await;
        let again = submit_one(world, "acme", World::nameless(json!({ "a": 1 }))).await.unwrap();
        assert_eq!((again.id, again.duplicate), (first.id, true));
        assert_eq!(world.all_of("acme", first.id).await, before);
        assert!(world.claim("w1", 10).await.is_empty());
    }

    async fn fifty_concurrent_submissions_of_the_same_item_make_one(world: &World) {
        world.lanes(1, &["acme"]).await;
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let engine = world.engine.clone();
                let item = if n % 2 == 0 { World::item("doc-1") } else { World::nameless(json!({ "a": 1 })) };
                let call = Submit { collection: names::collection("acme"), items: vec![item], idempotency_key: None };
                tokio::spawn(async move { engine.submit(&World::scope("acme"), call).await.unwrap() })
            })
            .collect();
        let mut new = 0;
        let mut ids = std::collections::BTreeSet::new();
        for call in calls {
            let taken = call.await.unwrap().results.pop().unwrap().unwrap();
            new += i32::from(!taken.duplicate);
            ids.insert(taken.id);
        }
        assert_eq!((new, ids.len()), (2, 2));
        assert_eq!(queued(world, "acme").await, 2);
    }

    async fn an_unknown_collection_is_refused_and_nothing_is_stored(world: &World) {
        world.lanes(1, &["acme"]).await;
        let call = Submit { collection: names::collection("nowhere"), items: vec![World::item("doc-1")], idempotency_key: None };
        let error = world.engine.submit(&World::scope("acme"), call).await.unwrap_err();
        assert!(matches!(error.refusal(), Some(Refusal::NotFound { what, id }) if what == "collection" && id == "nowhere"), "{error}");
        assert_eq!(world.number("select count(*) from item").await, 0);
        assert_eq!(world.number("select count(*) from log where item_id is not null").await, 0);
    }

    async fn an_empty_payload_is_refused(world: &World) {
        world.lanes(1, &["acme"]).await;
        let refused = submit_one(world, "acme", World::nameless(Value::Null)).await;
        assert_eq!(code(&refused), "validation_failed");
        for small in [json!({}), json!([]), json!(""), json!(0), json!(false)] {
            assert!(submit_one(world, "acme", World::nameless(small.clone())).await.is_ok(), "{small}");
        }
        assert_eq!(queued(world, "acme").await, 5);
    }

    async fn json_of_exactly_the_largest_size_is_taken_and_one_byte_more_is_not(world: &World) {
        world.lanes(1, &["acme"]).await;
        let text = |len: usize| World::nameless(json!("x".repeat(len - 2)));
        assert!(submit_one(world, "acme", text(1 << 20)).await.is_ok());
        let refused = submit_one(world, "acme", text((1 << 20) + 1)).await;
        assert_eq!(code(&refused), "payload_too_large");
        assert_eq!(queued(world, "acme").await, 1);
    }
}
