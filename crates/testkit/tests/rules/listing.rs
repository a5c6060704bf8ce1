//! What operators set up as it is seen and listed, whose things are, and operators' calls that are repeated (rules A1, I6 and P13).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::access::Role;
use docket_core::id::{CollectionKey, ItemId};
use docket_core::item::ItemStatus;
use docket_core::pipeline::Pipeline;
use docket_core::random::SeededRandom;
use docket_engine::{GetRange, ItemFilter, NewKey, PauseTarget, Submit};
use docket_testkit::{World, names, on_both};

fn code<T: std::fmt::Debug>(result: docket_engine::Result<T>) -> &'static str {
    result.unwrap_err().refusal().unwrap().code()
}

on_both! {
    async fn what_is_set_up_is_listed_by_name_page_by_page(world: &World) {
        world.lanes(2, &["acme", "beta", "zeta"]).await;
        world.collection("archive", "beta", None).await;
        let (who, engine) = (World::operator(), &world.engine);
        let first = engine.tenants(&who, None, 2).await.unwrap();
        assert_eq!(first.items.iter().map(|t| t.id.as_str()).collect::<Vec<_>>(), ["acme", "beta"]);
        let rest = engine.tenants(&who, first.next, 2).await.unwrap();
        assert_eq!((rest.items.len(), rest.next), (1, None));
        let own = engine.collections(&who, Some(names::tenant("beta")), None, 10).await.unwrap();
        let own: Vec<_> = own.items.iter().map(|c| (c.id.as_str(), c.pipeline.as_deref())).collect();
        assert_eq!(own, [("archive", None), ("beta", Some("work"))]);
        assert_eq!(engine.collections(&who, None, Some("archive".to_owned()), 10).await.unwrap().items.len(), 2);
        let pipelines = engine.pipelines(&who, None, 10).await.unwrap().items;
        assert_eq!((pipelines[0].name.as_str(), pipelines[0].version), ("work", 1));
        let strict = Pipeline { strict: true, ..Pipeline::default() };
        world.pipeline("work", strict.clone()).await;
        let seen = engine.pipeline_view(&who, &names::pipeline("work")).await.unwrap();
        assert_eq!((seen.version, seen.definition), (2, strict));
        for limit in [0, 201] {
            assert_eq!(code(engine.tenants(&who, None, limit).await), "validation_failed");
        }
        assert_eq!(code(engine.tenant(&who, &names::tenant("none")).await), "not_found");
        assert_eq!(code(engine.collection(&who, &names::collection("none")).await), "not_found");
        assert_eq!(code(engine.pipeline_view(&who, &names::pipeline("none")).await), "not_found");
    }

    async fn a_tenants_items_are_listed_over_its_collections_newest_first(world: &World) {
        world.lanes(2, &["acme", "zeta"]).await;
        for id in ["second", "third", "empty"] {
            world.collection(id, "acme", None).await;
        }
        let submit = |collection: &'static str, external_id: String| {
            let call = Submit {
                collection: names::collection(collection),
                items: vec![World::item(&external_id)],
                idempotency_key: None,
            };
            async move {
                let mut answer = world.engine.submit(&World::scope("acme"), call).await.unwrap();
                answer.results.remove(0).unwrap().id
            }
        };
        let mut made = Vec::new();
        for n in 0..70 {
            // Runs of one collection longer than a piece, and turns between them.
            let collection = if n < 30 { "acme" } else { ["acme", "second", "third"][n % 3] };
            made.push(submit(collection, format!("e{n}")).await);
            world.clock.advance_ms(1);
        }
        let same = submit("second", "e1".to_owned()).await;
        world.submit_one("zeta", "e1").await;
        made.push(same);
        made.reverse();
        let scope = World::scope("acme");
        let filter = |collection: Option<&str>, external_id: Option<&str>, limit| ItemFilter {
            collection: collection.map(names::collection), status: None, external_id: external_id.map(str::to_owned), before: None, limit,
        };
        let mut listed = Vec::new();
        let mut next = None;
        loop {
            let page = world.engine.items(&scope, ItemFilter { before: next, ..filter(None, None, 9) }).await.unwrap();
            listed.extend(page.items.iter().map(|item| item.id));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(listed, made);
        let ids = |page: docket_engine::ItemPage| page.items.iter().map(|item| item.id).collect::<Vec<_>>();
        let both = world.engine.items(&scope, filter(None, Some("e1"), 9)).await.unwrap();
        assert_eq!(ids(both), [same, made[made.len() - 2]]);
        let one = world.engine.items(&scope, filter(Some("second"), Some("e1"), 9)).await.unwrap();
        assert_eq!(ids(one), [same]);
        assert!(world.engine.items(&scope, filter(Some("empty"), Some("e1"), 9)).await.unwrap().items.is_empty());
        assert_eq!(code(world.engine.items(&scope, filter(Some("zeta"), None, 9)).await), "not_found");
        let status = |status| ItemFilter { status: Some(status), ..filter(None, None, 200) };
        let queued = world.engine.items(&scope, status(ItemStatus::Queued)).await.unwrap();
        let done = world.engine.items(&scope, status(ItemStatus::Completed)).await.unwrap();
        assert_eq!((queued.items.len() + done.items.len(), queued.next, done.next), (71, None, None));
    }

    async fn it_is_known_whose_things_are(world: &World) {
        world.lanes(2, &["acme", "zeta"]).await;
        let (who, engine) = (World::operator(), &world.engine);
        let item = world.submit_one("zeta", "a").await.id;
        assert_eq!(engine.item_owner(&who, item).await.unwrap().as_str(), "zeta");
        assert_eq!(engine.collection_owner(&who, &names::collection("acme")).await.unwrap().as_str(), "acme");
        let nobody = ItemId::new(docket_core::Timestamp::from_ms(1), CollectionKey(7), &SeededRandom::new(1));
        assert_eq!(code(engine.item_owner(&who, nobody).await), "not_found");
        assert_eq!(code(engine.collection_owner(&who, &names::collection("none")).await), "not_found");
    }

    async fn a_pause_under_a_key_is_set_once_and_listed_with_its_names(world: &World) {
        world.lanes(2, &["acme"]).await;
        let (who, engine) = (World::operator(), &world.engine);
        let lane = || PauseTarget::Lane(names::tenant("acme"), names::pipeline("work"));
        let key = || Some("monday".to_owned());
        let first = engine.pause_once(&who, lane(), "why", key()).await.unwrap();
        let again = engine.pause_once(&who, lane(), "why", key()).await.unwrap();
        assert_eq!((first.answer, first.replayed, again.replayed, again.request_differs), (again.answer, false, true, false));
        let other = engine.pause_once(&who, PauseTarget::All, "why", key()).await.unwrap();
        assert_eq!((other.answer, other.request_differs), (first.answer, true));
        world.pass_ms(1);
        let all = engine.pause_once(&who, PauseTarget::All, "why", None).await.unwrap().answer;
        let page = engine.pauses_page(&who, None, 1).await.unwrap();
        assert_eq!((page.items[0].pipeline.as_deref(), page.items[0].tenant_id.as_deref()), (Some("work"), Some("acme")));
        let page = engine.pauses_page(&who, page.next, 1).await.unwrap();
        assert_eq!((page.items[0].id, page.items[0].scope.as_str(), page.next), (all, "all", None));
        assert_eq!(engine.pause_view(&who, all).await.unwrap(), page.items[0]);
        engine.resume(&who, all).await.unwrap();
        assert_eq!(code(engine.pause_view(&who, all).await), "not_found");
    }

    async fn an_api_key_is_made_once_under_a_key_and_its_secret_is_not_told_again(world: &World) {
        let new = || NewKey { role: Role::Worker, tenant: None, subject: "w".to_owned() };
        let make = |key: &str| {
            let key = Some(key.to_owned());
            async move { world.engine.key_create_once(&World::operator(), new(), key).await }
        };
        let racing = [make("a"), make("a"), make("a")];
        let made = futures_util::future::join_all(racing).await;
        assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 1);
        assert_eq!(code(make("a").await), "conflict");
        make("b").await.unwrap();
        assert_eq!(world.number("select count(*) from api_key").await, 2);
    }

    async fn a_part_of_a_file_is_read_alone(world: &World) {
        world.lanes(2, &["acme", "zeta"]).await;
        let id = world.upload_bytes("acme", World::file("acme"), b"0123456789".to_vec()).await.unwrap().id;
        let engine = &world.engine;
        let item = engine.content_item(&World::scope("acme"), id).await.unwrap();
        let part = engine.content_part(item.clone(), Some(GetRange::Bounded(2..5))).await.unwrap();
        assert_eq!(part.bytes.bytes().await.unwrap(), "234");
        assert_eq!(engine.content_part(item, None).await.unwrap().bytes.bytes().await.unwrap(), "0123456789");
        assert_eq!(code(engine.content_item(&World::scope("zeta"), id).await), "not_found");
        let json = world.submit_one("acme", "a").await.id;
        assert_eq!(code(engine.content_item(&World::scope("acme"), json).await), "not_found");
    }
}
