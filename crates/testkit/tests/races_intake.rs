//! Races of submissions, on SQLite, on PostgreSQL and on PostgreSQL with sixteen servers.
//!
//! Held here: I2 (exactly ten of fifty), I5 and I6 (one item, one answer).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use docket_core::Refusal;
use docket_core::item::ItemDetails;
use docket_engine::{Error, Submit, SubmitItem};
use docket_testkit::race::{Scene, at_once};
use docket_testkit::{World, everywhere, names};
use serde_json::json;

everywhere! {
    a_free_tenant_takes_exactly_ten_of_fifty, real_time = false;
    a_free_tenant_takes_exactly_ten_of_fifty_files, real_time = false;
    the_same_external_id_from_many_at_once_is_one_item, real_time = false;
    the_same_idempotency_key_from_many_at_once_has_one_answer, real_time = false;
    a_key_that_was_used_for_the_last_place_is_known_to_who_waited_for_it, real_time = false;
}

async fn a_free_tenant_takes_exactly_ten_of_fifty(scene: Arc<Scene>) {
    scene.world.tenant_of_tier("free", "free").await;
    scene.world.collection("free", "free", None).await;
    let calls = (0..50)
        .map(|n| {
            let engine = scene.engine(n).clone();
            async move {
                let call = Submit {
                    collection: names::collection("free"),
                    items: vec![World::item(&format!("doc-{n}"))],
                    idempotency_key: None,
                };
                engine.submit(&World::scope("free"), call).await.unwrap().results[0].clone()
            }
        })
        .collect();
    let said = at_once(calls).await;
    let taken = said.iter().filter(|result| result.is_ok()).count();
    assert_eq!(taken, 10);
    for refusal in said.into_iter().filter_map(Result::err) {
        assert!(
            matches!(refusal, Refusal::RateLimited { limit: 10, .. }),
            "{refusal:?}"
        );
    }
    assert_eq!(scene.plain.number("select count(*) from item").await, 10);
    assert_eq!(
        scene
            .plain
            .number("select intake_next from tenant where id = 'free'")
            .await,
        10
    );
}

async fn a_free_tenant_takes_exactly_ten_of_fifty_files(scene: Arc<Scene>) {
    scene.world.tenant_of_tier("free", "free").await;
    scene.world.collection("free", "free", None).await;
    let calls = (0..50)
        .map(|n| {
            let engine = scene.engine(n).clone();
            async move {
                let request = docket_engine::UploadRequest {
                    collection: names::collection("free"),
                    filename: None,
                    media_type: "text/plain".to_owned(),
                    digest: None,
                    size: None,
                    details: ItemDetails::default(),
                    idempotency_key: None,
                };
                match engine.upload(&World::scope("free"), request).await {
                    Ok(docket_engine::UploadStart::Ready(mut upload)) => {
                        upload
                            .write(format!("file {n}").into_bytes().into())
                            .await
                            .unwrap();
                        upload.finish().await.unwrap();
                        true
                    }
                    Err(Error::Refused(Refusal::RateLimited { limit: 10, .. })) => false,
                    other => panic!("{other:?}"),
                }
            }
        })
        .collect();
    let taken = at_once(calls).await.into_iter().filter(|taken| *taken).count();
    assert_eq!(taken, 10);
    assert_eq!(scene.plain.number("select count(*) from item").await, 10);
    assert_eq!(scene.plain.number("select count(*) from upload").await, 0);
}

async fn the_same_external_id_from_many_at_once_is_one_item(scene: Arc<Scene>) {
    scene.world.lanes(5, &["acme"]).await;
    for round in 0..6 {
        let calls = (0..32)
            .map(|n| {
                let engine = scene.engine(n).clone();
                // Each call has one of its own beside the one that all want.
                let items = vec![
                    World::item(&format!("own-{round}-{n}")),
                    World::item(&format!("shared-{round}")),
                ];
                async move {
                    let call = Submit {
                        collection: names::collection("acme"),
                        items,
                        idempotency_key: None,
                    };
                    engine.submit(&World::scope("acme"), call).await.unwrap().results
                }
            })
            .collect();
        let said = at_once(calls).await;
        let shared: Vec<_> = said.iter().map(|results| results[1].clone().unwrap()).collect();
        assert!(shared.iter().all(|item| item.id == shared[0].id));
        assert_eq!(shared.iter().filter(|item| !item.duplicate).count(), 1);
        assert!(said.iter().all(|results| !results[0].as_ref().unwrap().duplicate));
    }
    assert_eq!(scene.plain.number("select count(*) from item").await, 6 * 33);
    assert_eq!(
        scene
            .plain
            .number("select count(*) from log where action = 'item.submitted'")
            .await,
        6 * 33
    );
}

async fn the_same_idempotency_key_from_many_at_once_has_one_answer(scene: Arc<Scene>) {
    scene.world.lanes(5, &["acme"]).await;
    let calls = (0..32)
        .map(|n| {
            let engine = scene.engine(n).clone();
            async move {
                let call = Submit {
                    collection: names::collection("acme"),
                    items: vec![SubmitItem {
                        payload: json!({ "n": 1 }),
                        details: ItemDetails::default(),
                    }],
                    idempotency_key: Some("key".to_owned()),
                };
                engine.submit(&World::scope("acme"), call).await.unwrap()
            }
        })
        .collect();
    let said = at_once(calls).await;
    assert_eq!(said.iter().filter(|answer| !answer.replayed).count(), 1);
    assert!(said.iter().all(|answer| answer.results == said[0].results));
    assert!(said.iter().all(|answer| !answer.request_differs));
    assert_eq!(scene.plain.number("select count(*) from item").await, 1);
}

/// Two calls with the same key and different words, and one place left: one of them has it, and the other hears of that.
async fn a_key_that_was_used_for_the_last_place_is_known_to_who_waited_for_it(scene: Arc<Scene>) {
    for round in 0..12 {
        let tenant = format!("free-{round}");
        scene.world.tenant_of_tier(&tenant, "free").await;
        scene.world.collection(&tenant, &tenant, None).await;
        scene.world.submit_many(&tenant, "filler", 9).await;
        let calls = (0..4)
            .map(|n| {
                let (engine, tenant) = (scene.engine(round + n).clone(), tenant.clone());
                async move {
                    let call = Submit {
                        collection: names::collection(&tenant),
                        items: vec![World::item(&format!("doc-{n}"))],
                        idempotency_key: Some("key".to_owned()),
                    };
                    engine.submit(&World::scope(&tenant), call).await.unwrap()
                }
            })
            .collect();
        let said = at_once(calls).await;
        let (first, rest): (Vec<_>, Vec<_>) = said.into_iter().partition(|answer| !answer.replayed);
        assert_eq!(first.len(), 1, "{first:?}");
        assert!(first[0].results[0].is_ok());
        for answer in rest {
            assert!(
                answer.request_differs && answer.results == first[0].results,
                "{answer:?}"
            );
        }
    }
}
