//! Idempotency keys: the same call again has the same answer and creates nothing (rule I6).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::item::{ItemStatus, OnConflict};
use docket_engine::{Submit, SubmitAnswer, SubmitItem};
use docket_testkit::{World, names, on_both};
use serde_json::json;

const DAY: i64 = 86_400_000;

fn call(tenant: &str, key: &str, items: Vec<SubmitItem>) -> Submit {
    Submit {
        collection: names::collection(tenant),
        items,
        idempotency_key: Some(key.to_owned()),
    }
}

async fn submit(world: &World, tenant: &str, key: &str, items: Vec<SubmitItem>) -> SubmitAnswer {
    let call = call(tenant, key, items);
    world.engine.submit(&World::scope(tenant), call).await.unwrap()
}

async fn items_of(world: &World, tenant: &str) -> i64 {
    let counts = world
        .engine
        .counts(&World::scope(tenant), &names::collection(tenant))
        .await;
    counts.unwrap().values().sum()
}

on_both! {
    async fn the_same_key_has_the_same_answer_and_creates_nothing(world: &World) {
        world.lanes(1, &["acme"]).await;
        let batch = || vec![World::item("doc-1"), World::nameless(json!({ "a": 1 })), World::item("doc-1")];
        let first = submit(world, "acme", "k1", batch()).await;
        assert!(!first.replayed && !first.request_differs);
        let again = submit(world, "acme", "k1", batch()).await;
        assert!(again.replayed && !again.request_differs);
        assert_eq!(again.results, first.results, "what was new stays new in the answer");
        assert_eq!(items_of(world, "acme").await, 2);
        assert_eq!(world.number("select count(*) from log where action = 'item.submitted'").await, 2);
    }

    async fn the_first_answer_comes_back_also_after_other_things_happened(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, "acme", "k1", vec![World::item("doc-1")]).await;
        let id = first.results[0].as_ref().unwrap().id;
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        let mut next = SubmitItem { payload: json!("other"), ..World::item("doc-1") };
        next.details.on_conflict = OnConflict::NewVersion;
        world.submit("acme", vec![next]).await.unwrap().results.pop().unwrap().unwrap();
        world.engine.cancel(&World::scope("acme"), id).await.unwrap();
        let before = world.all_of("acme", id).await;
        let again = submit(world, "acme", "k1", vec![World::item("doc-1")]).await;
        assert_eq!((again.results, again.replayed, again.request_differs), (first.results, true, false));
        assert_eq!(world.all_of("acme", id).await, before);
    }

    async fn the_same_key_with_another_body_says_so_and_creates_nothing(world: &World) {
        world.lanes(1, &["acme"]).await;
        world.collection("acme1", "acme", Some("work")).await;
        world.collection("other", "acme", Some("work")).await;
        let first = submit(world, "acme", "k1", vec![World::nameless(json!(12))]).await;
        let mut with_details = World::nameless(json!(12));
        with_details.details.total_amount = Some(5.0);
        let to = |collection: &str, items| Submit { collection: names::collection(collection), ..call("acme", "k1", items) };
        for other in [
            to("acme", vec![World::nameless(json!(13))]),
            to("acme", vec![with_details]),
            to("acme", vec![World::nameless(json!(12)), World::nameless(json!(12))]),
            to("other", vec![World::nameless(json!(12))]),
            // Written one after the other, its parts read the same as the first call's.
            to("acme1", vec![World::nameless(json!(2))]),
        ] {
            let what = format!("{other:?}");
            let again = world.engine.submit(&World::scope("acme"), other).await.unwrap();
            assert!(again.replayed && again.request_differs, "{what}");
            assert_eq!(again.results, first.results);
        }
        assert_eq!(world.number("select count(*) from item").await, 1);
    }

    async fn a_used_key_answers_first_also_when_the_other_body_is_all_wrong(world: &World) {
        world.lanes(1, &["acme"]).await;
        let first = submit(world, "acme", "k1", vec![World::item("doc-1")]).await;
        let again = submit(world, "acme", "k1", vec![World::nameless(json!(null))]).await;
        assert_eq!((again.results, again.replayed, again.request_differs), (first.results, true, true));
    }

    async fn a_key_belongs_to_its_tenant(world: &World) {
        world.lanes(1, &["acme", "zeta"]).await;
        let acme = submit(world, "acme", "k1", vec![World::item("doc-1")]).await;
        let zeta = submit(world, "zeta", "k1", vec![World::item("doc-1")]).await;
        assert!(!zeta.replayed);
        assert_ne!(acme.results[0].as_ref().unwrap().id, zeta.results[0].as_ref().unwrap().id);
        assert_eq!((items_of(world, "acme").await, items_of(world, "zeta").await), (1, 1));
    }

    async fn fifty_concurrent_calls_with_one_key_make_one_item(world: &World) {
        world.lanes(1, &["acme"]).await;
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let engine = world.engine.clone();
                // Nothing but the key tells that these are the same call.
                let call = call("acme", "k1", vec![World::nameless(json!({ "try": n }))]);
                tokio::spawn(async move { engine.submit(&World::scope("acme"), call).await.unwrap() })
            })
            .collect();
        let mut ids = std::collections::BTreeSet::new();
        let mut first = 0;
        for call in calls {
            let answer = call.await.unwrap();
            first += i32::from(!answer.replayed);
            assert_eq!(answer.replayed, answer.request_differs);
            ids.insert(answer.results[0].as_ref().unwrap().id);
        }
        assert_eq!((first, ids.len()), (1, 1));
        assert_eq!(items_of(world, "acme").await, 1);
        assert_eq!(world.number("select count(*) from item").await, 1);
    }

    async fn fifty_concurrent_calls_with_keys_of_their_own_all_make_theirs(world: &World) {
        world.lanes(1, &["acme"]).await;
        let calls: Vec<_> = (0..50)
            .map(|n| {
                let engine = world.engine.clone();
                let call = call("acme", &format!("k{n}"), vec![World::item(&format!("doc-{n}"))]);
                tokio::spawn(async move { engine.submit(&World::scope("acme"), call).await.unwrap() })
            })
            .collect();
        for call in calls {
            let answer = call.await.unwrap();
            assert!(!answer.replayed && answer.results[0].is_ok());
        }
        assert_eq!(items_of(world, "acme").await, 50);
    }

    async fn a_key_is_not_used_up_by_a_call_in_which_everything_was_refused(world: &World) {
        world.pipeline("work", docket_core::pipeline::Pipeline::default()).await;
        world.tenant_of_tier("acme", "free").await;
        world.collection("acme", "acme", Some("work")).await;
        world.submit_many("acme", "filler", 10).await;
        let limited = submit(world, "acme", "k1", vec![World::item("doc-1")]).await;
        assert!(matches!(limited.results[0], Err(Refusal::RateLimited { .. })));
        let wrong = submit(world, "acme", "k2", vec![World::nameless(json!(null))]).await;
        assert_eq!(wrong.results[0].as_ref().unwrap_err().code(), "validation_failed");
        let unknown = call("nowhere", "k3", vec![World::item("doc-1")]);
        world.engine.submit(&World::scope("acme"), unknown).await.unwrap_err();
        world.pass_ms(3_600_000);
        for key in ["k1", "k2", "k3"] {
            let answer = submit(world, "acme", key, vec![World::item(key)]).await;
            assert!(!answer.replayed && answer.results[0].is_ok(), "{key}: {answer:?}");
        }
    }

    async fn a_good_call_beside_a_refused_one_with_the_same_key_is_carried_out(world: &World) {
        world.lanes(1, &["acme", "busy"]).await;
        world.submit_one("acme", "taken").await;
        for round in 0..2 {
            let key = format!("k{round}");
            // Large calls keep the statements busy, so that the two that follow ride together.
            let large = async |part: &str| {
                world.submit_many("busy", &format!("{part}-{round}"), 1_000).await;
            };
            let later = async |item: SubmitItem| {
                tokio::task::yield_now().await;
                submit(world, "acme", &key, vec![item]).await
            };
            let conflict = SubmitItem { payload: json!("other"), ..World::item("taken") };
            let good = World::item(&format!("doc-{round}"));
            let ((), (), _, good) = tokio::join!(large("a"), large("b"), later(conflict), later(good));
            assert!(!good.replayed && good.results[0].is_ok(), "{good:?}");
        }
        assert_eq!(items_of(world, "acme").await, 3);
    }

    async fn what_was_committed_beside_a_call_that_waits_for_another_is_not_done_again(world: &World) {
        world.lanes(1, &["acme", "busy"]).await;
        world.submit_one("acme", "taken").await;
        // Only one item may have such a name: to submit a second one fails, and is nobody's fault.
        world.execute("create unique index cursed on item (is_file) where external_id like 'cursed-%'").await.unwrap();
        world.submit_one("acme", "cursed-0").await;
        for round in 1..4 {
            let mut upload = world.upload("acme", World::file("acme")).await.unwrap();
            upload.write(format!("the file of round {round}").into_bytes().into()).await.unwrap();
            let key = format!("k{round}");
            // Large calls keep the statements busy, so that those that follow ride together.
            let large = async |part: &str| {
                world.submit_many("busy", &format!("{part}-{round}"), 1_000).await;
            };
            let plain = async {
                tokio::task::yield_now().await;
                world.submit("acme", vec![World::nameless(json!({ "round": round }))]).await.unwrap()
            };
            let finished = async {
                tokio::task::yield_now().await;
                upload.finish().await.unwrap();
            };
            let refused = async {
                tokio::task::yield_now().await;
                let conflict = SubmitItem { payload: json!("other"), ..World::item("taken") };
                submit(world, "acme", &key, vec![conflict]).await
            };
            let waits = async {
                tokio::task::yield_now().await;
                let call = call("acme", &key, vec![World::item(&format!("cursed-{round}"))]);
                world.engine.submit(&World::scope("acme"), call).await
            };
            let ((), (), plain, (), refused, waited) =
                tokio::join!(large("a"), large("b"), plain, finished, refused, waits);
            assert!(plain.results[0].as_ref().is_ok_and(|item| !item.duplicate), "{plain:?}");
            assert!(refused.results[0].is_err() && waited.is_err(), "{refused:?} {waited:?}");
            world.pass_ms(120_000);
            while world.engine.sweep_run_once().await.unwrap().is_some() {}
            assert_eq!(world.files(), round, "no file that an item has is swept");
        }
        // What was taken before the rounds, and of each round what has no name and the file.
        assert_eq!(items_of(world, "acme").await, 2 + 3 * 2);
    }

    async fn a_partial_answer_is_kept_as_it_was(world: &World) {
        world.lanes(1, &["acme"]).await;
        let batch = || {
            let mut bad = World::item("bad");
            bad.details.confidence = Some(500.0);
            vec![World::item("doc-1"), bad]
        };
        let first = submit(world, "acme", "k1", batch()).await;
        assert!(first.results[0].is_ok() && first.results[1].is_err());
        let again = submit(world, "acme", "k1", batch()).await;
        // A number that is refused for being out of range is the same request all the same.
        assert_eq!((again.results, again.replayed, again.request_differs), (first.results, true, false));
    }

    async fn a_replayed_call_uses_no_place_of_the_limit(world: &World) {
        world.tenant_of_tier("acme", "free").await;
        world.collection("acme", "acme", None).await;
        let first = submit(world, "acme", "k1", (0..10).map(|n| World::item(&n.to_string())).collect()).await;
        let again = submit(world, "acme", "k1", (0..10).map(|n| World::item(&n.to_string())).collect()).await;
        assert_eq!(again.results, first.results);
        assert_eq!(world.engine.limits(&World::scope("acme")).await.unwrap().remaining, 0);
    }

    async fn a_key_is_forgotten_after_the_configured_time_and_not_before(world: &World) {
        world.lanes(1, &["acme"]).await;
        submit(world, "acme", "k1", vec![World::item("doc-1")]).await;
        world.pass_ms(DAY - 1);
        assert_eq!(world.engine.retain().await.unwrap().answers, 0);
        assert!(submit(world, "acme", "k1", vec![World::item("doc-1")]).await.replayed);
        world.pass_ms(1);
        assert_eq!(world.engine.retain().await.unwrap().answers, 1);
        let anew = submit(world, "acme", "k1", vec![World::item("doc-2")]).await;
        assert!(!anew.replayed && anew.results[0].is_ok());
        let counts = world.engine.counts(&World::scope("acme"), &names::collection("acme")).await.unwrap();
        assert_eq!(counts.get(&ItemStatus::Queued), Some(&2));
    }

    async fn a_key_that_is_no_key_is_refused(world: &World) {
        world.lanes(1, &["acme"]).await;
        for key in ["", "a\0b", "a\nb", &"k".repeat(513)] {
            let error = world.engine.submit(&World::scope("acme"), call("acme", key, vec![World::item("doc-1")])).await;
            assert_eq!(error.unwrap_err().refusal().unwrap().code(), "validation_failed");
        }
        assert_eq!(items_of(world, "acme").await, 0);
    }
}
