//! Opening a database: by many servers at once, by one process only, by the right version, and after an earlier one (rule A2).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::time::Duration;

use docket_core::id::{DeliveryId, ItemId, ReviewId};
use docket_core::item::OnConflict;
use docket_core::job::Failure;
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_core::review::Outcome;
use docket_engine::{
    ClaimedJob, Engine, EngineConfig, Fail, Release, StepDone, Submit, SubmitAnswer, SubmitItem,
};
use docket_testkit::desk::{decision, said};
use docket_testkit::outbox::HOOK;
use docket_testkit::scripted::Play;
use docket_testkit::{Database, Plain, World, WorldConfig, names, on_both};
use serde_json::json;

async fn open(database: &Database) -> docket_engine::Result<Engine> {
    Engine::open(EngineConfig::new(database.store_config(), database.blob_config())).await
}

/// Opens again after an engine was dropped: the lock is given up a moment later, when its writer thread has ended.
async fn open_again(database: &Database) -> Engine {
    open_until(async || open(database).await).await
}

async fn open_until(open: impl AsyncFn() -> docket_engine::Result<Engine>) -> Engine {
    let mut said = None;
    for _ in 0..500 {
        match open().await {
            Ok(engine) => return engine,
            Err(error) => said = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the database cannot be opened again after its engine is gone: {said:?}");
}

/// Reviews came with the fourth migration, notifications with the sixth.
const REVIEWS: usize = 4;
const NOTIFICATIONS: usize = 6;

/// What a database held when its Docket was stopped.
struct Before {
    items: Vec<ItemId>,
    leased: ClaimedJob,
    answer: SubmitAnswer,
    held: Option<ReviewId>,
    deliveries: Vec<DeliveryId>,
}

fn keyed() -> Submit {
    Submit {
        collection: names::collection("keyed"),
        items: vec![World::item("once")],
        idempotency_key: Some("key".to_owned()),
    }
}

/// What a database of this version could hold.
async fn furnish(world: &World, version: usize) -> Before {
    let (items, leased) = furnish_lane(world).await;
    end_in_other_ways(world, &items).await;
    world.tenant_of_tier("keyed", "free").await;
    world.collection("keyed", "keyed", None).await;
    let answer = world.engine.submit(&World::scope("keyed"), keyed()).await;
    // As many as a free tenant may submit.
    world.submit_many("keyed", "more", 9).await;
    let held = match version >= REVIEWS {
        true => Some(furnish_reviews(world).await),
        false => None,
    };
    let deliveries = match version >= NOTIFICATIONS {
        true => furnish_notifications(world).await,
        false => Vec::new(),
    };
    Before {
        items,
        leased,
        answer: answer.unwrap(),
        held,
        deliveries,
    }
}

/// Nine items: the first is done, the second waits for its next attempt, the third is being worked on. Their counts are folded.
async fn furnish_lane(world: &World) -> (Vec<ItemId>, ClaimedJob) {
    let definition = Pipeline {
        steps: vec![StepName::new("ocr").unwrap()],
        ..Pipeline::default()
    };
    world.lanes(3, &["acme"]).await;
    world.pipeline("work", definition).await;
    let items = world.submit_many("acme", "doc", 9).await;
    assert_eq!(
        world.process_next(vec![said("vendor", "Acne", 50.0)]).await,
        items[0]
    );
    let waits = world.claim_one("w1").await;
    world.fail(waits.id, waits.token, "busy").await.unwrap();
    let leased = world.claim_one("w1").await;
    let ocr = StepDone {
        job: leased.id,
        token: leased.token,
        name: "ocr".to_owned(),
        output: json!("text"),
    };
    world.engine.step(ocr).await.unwrap();
    world.engine.fold_run_once().await.unwrap();
    (items, leased)
}

/// Of the others the fourth is put back, the fifth has failed, the seventh is cancelled and the ninth has a next version; the first is
/// corrected. Their counts are not folded yet.
async fn end_in_other_ways(world: &World, items: &[ItemId]) {
    let jobs = world.claim("w1", 2).await;
    let back = Release {
        job: jobs[0].id,
        token: jobs[0].token,
    };
    let released = world.engine.release(vec![back]).await;
    released.unwrap().remove(0).unwrap();
    let failure = Failure {
        error: "unreadable".to_owned(),
        step: None,
        retryable: false,
    };
    let fail = Fail {
        job: jobs[1].id,
        token: jobs[1].token,
        failure,
    };
    world.engine.fail(vec![fail]).await.unwrap().remove(0).unwrap();
    let scope = World::scope("acme");
    world.engine.cancel(&scope, items[6]).await.unwrap();
    let mut next = SubmitItem {
        payload: json!("other"),
        ..World::item("doc-8")
    };
    next.details.on_conflict = OnConflict::NewVersion;
    let answer = world.submit("acme", vec![next]).await.unwrap();
    assert!(answer.results[0].as_ref().unwrap().versioned);
    let corrected = vec![("vendor".to_owned(), json!("Acme"))];
    let corrected = world.engine.fields_correct(&scope, items[0], corrected);
    corrected.await.unwrap();
}

/// Of three reviews one is decided, one is in hands, and one waits until ann has room for it.
async fn furnish_reviews(world: &World) -> ReviewId {
    let policy = json!({ "assignment": "auto", "roster": ["ann"], "leaseSeconds": 86_400 });
    world.desk("desk", policy).await;
    world.reviewer("ann", true, Some(1)).await;
    world.submit_many("desk", "review", 2).await;
    let first = world.pop_one("desk", "ann").await.review.id;
    let approved = decision(first, Outcome::Approved);
    world.decide("desk", "ann", approved).await.unwrap();
    let held = world.pop_one("desk", "ann").await.review.id;
    world.submit_one("desk", "waits").await;
    held
}

/// One that was sent, one that was refused, and one that is still to be sent.
async fn furnish_notifications(world: &World) -> Vec<DeliveryId> {
    let sent = world.deliver("CL-1", HOOK).await;
    world.dispatch().await;
    world.providers.webhook.plays([Play::Refuse]);
    let refused = world.deliver("CL-2", HOOK).await;
    world.dispatch().await;
    vec![sent, refused, world.deliver("CL-3", HOOK).await]
}

/// Everything goes on where it was.
async fn goes_on(world: &World, before: &Before) {
    the_lane_goes_on(world, before).await;
    let again = world.engine.submit(&World::scope("keyed"), keyed()).await;
    let again = again.unwrap();
    assert!(again.replayed && again.results == before.answer.results);
    let eleventh = world.submit("keyed", vec![World::item("eleventh")]).await;
    let refused = eleventh.unwrap().results.remove(0).unwrap_err();
    assert_eq!(refused.code(), "rate_limited");
    if let Some(held) = before.held {
        let rejected = decision(held, Outcome::Rejected);
        world.decide("desk", "ann", rejected).await.unwrap();
        world.engine.assigner_run_once().await.unwrap();
        let given = "select count(*) from review where state = 1 and assigned_to = 'ann'";
        assert_eq!(world.number(given).await, 1, "what waited is given to her");
    }
    if let [told, refused, waiting] = before.deliveries[..] {
        world.dispatch().await;
        assert_eq!(world.providers.webhook.told(HOOK), 2, "each was told once");
        for (delivery, state) in [(told, "sent"), (refused, "failed"), (waiting, "sent")] {
            assert_eq!(world.delivery_state(delivery).await, state);
        }
        let kept = "select count(*) from notification where kept_since_ms is null";
        assert_eq!(world.number(kept).await, 0, "their time is counted");
    }
    world.seal_all().await;
    let verified = world.engine.audit_verify(&World::operator(), |_, _| {}).await;
    verified.unwrap().unwrap();
}

async fn the_lane_goes_on(world: &World, before: &Before) {
    let scope = World::scope("acme");
    let jobs = world.claim("w2", 2).await;
    let names: Vec<_> = jobs.iter().map(|job| job.external_id.as_deref()).collect();
    assert_eq!(
        names,
        [Some("doc-3"), Some("doc-5")],
        "what was put back is first"
    );
    for job in jobs.iter().chain([&before.leased]) {
        world.complete(job.id, job.token).await.unwrap();
    }
    world.pass_ms(10_000);
    assert_eq!(world.engine.reap(None).await.unwrap().resumed, 1);
    world.submit_one("acme", "new").await;
    world.engine.retry(&scope, before.items[4]).await.unwrap();
    let mut order = Vec::new();
    while let Some(job) = world.claim("w2", 1).await.pop() {
        world.complete(job.id, job.token).await.unwrap();
        order.push((job.external_id.unwrap(), job.item_version));
    }
    let expected = [("doc-1", 1), ("doc-7", 1), ("doc-8", 2), ("new", 1), ("doc-4", 1)];
    assert_eq!(order, expected.map(|(id, version)| (id.to_owned(), version)));
    for (item, runs) in [(1, 1), (4, 2), (8, 2)] {
        let jobs = world.engine.jobs(&scope, before.items[item]).await.unwrap();
        assert_eq!(jobs.len(), runs, "doc-{item} leads back to what was before");
    }
    let view = world.view("acme", before.items[0]).await;
    assert_eq!(view.fields[0].value, json!("Acme"), "what a person said stays");
}

async fn a_newer_schema_is_refused(database: Database) {
    drop(open(&database).await.unwrap());
    drop(open_again(&database).await);
    database
        .execute("insert into migration (number) values (99)")
        .await
        .unwrap();
    for _ in 0..500 {
        let said = open(&database).await.unwrap_err().to_string();
        if !said.contains("in use") {
            assert!(
                said.contains("schema version 99") && said.contains("run a newer Docket"),
                "{said}"
            );
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the lock is given up");
}

on_both! {
    async fn a_database_keeps_what_it_has_when_it_is_opened_again(world: &World) {
        let another = world.beside(&WorldConfig::default()).await;
        another.lanes(1, &["acme"]).await;
        let item = another.submit_one("acme", "doc-1").await;
        let (before, database) = (another.all_of("acme", item.id).await, another.database.clone());
        drop(another);
        let engine = open_again(&database).await;
        let again = World { engine, clock: world.clock.clone(), database, providers: world.providers.clone() };
        assert_eq!(again.all_of("acme", item.id).await, before);
        assert_eq!(again.number("select count(*) from migration").await, world.number("select count(*) from migration").await);
        assert_eq!(again.number("select count(*) from log where action = 'tier.put'").await, 4, "tiers are seeded once");
        again.assert_healthy().await;
    }

    async fn a_database_of_each_earlier_version_goes_on_where_it_was(world: &World) {
        let newest = Plain::of(&world.database).migrations();
        for version in 1..newest {
            let world = world.beside(&WorldConfig::default()).await;
            let before = furnish(&world, version).await;
            world.assert_healthy().await;
            let World { engine, clock, database, providers } = world;
            engine.close();
            drop(engine);
            let plain = Plain::of(&database);
            plain.back_to(version).await;
            assert_eq!(plain.number("select max(number) from migration").await, i64::try_from(version).unwrap());
            let engine = open_until(async || {
                let mut config = EngineConfig::new(database.store_config(), database.blob_config());
                config.clock = Some(Arc::clone(&clock) as _);
                config.outbox = providers.outbox();
                Engine::open(config).await
            }).await;
            let world = World { engine, clock, database, providers };
            world.assert_healthy().await;
            assert_eq!(world.number("select count(*) from migration").await, i64::try_from(newest).unwrap());
            goes_on(&world, &before).await;
            world.assert_healthy().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_servers_can_start_at_once_on_an_empty_database() {
    let database = Database::postgres().await;
    let engines: Vec<_> = (0..10)
        .map(|_| {
            let database = database.clone();
            tokio::spawn(async move {
                let mut config = EngineConfig::new(database.store_config(), database.blob_config());
                if let docket_engine::StoreConfig::Postgres(postgres) = &mut config.store {
                    // Ten servers share what the cluster gives.
                    (postgres.connections, postgres.hot_connections) = (2, 2);
                }
                Engine::open(config).await
            })
        })
        .collect();
    let mut opened = Vec::new();
    for engine in engines {
        opened.push(engine.await.unwrap().unwrap());
    }
    for engine in &opened {
        assert_eq!(engine.tiers().await.unwrap().len(), 4);
        assert_eq!(engine.doctor().await.unwrap(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_second_engine_on_the_same_folder_is_refused_and_told_what_to_do() {
    let database = Database::sqlite();
    let first = open(&database).await.unwrap();
    let clone = first.clone();
    let said = open(&database).await.unwrap_err().to_string();
    for part in [
        "in use by another Docket",
        "stop that one first",
        "another folder",
        "PostgreSQL",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(
        said.contains(&database.data_folder().display().to_string()),
        "{said}"
    );
    drop(first);
    let said = open(&database).await.unwrap_err().to_string();
    assert!(said.contains("in use"), "a clone still uses it: {said}");
    drop(clone);
    let third = open_again(&database).await;
    assert_eq!(third.tiers().await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_newer_schema_is_refused_on_sqlite() {
    a_newer_schema_is_refused(Database::sqlite()).await;
}

#[tokio::test]
async fn a_newer_schema_is_refused_on_postgres() {
    a_newer_schema_is_refused(Database::postgres().await).await;
}

/// A backup reads for long. A migration that changes one of its tables does not stand in line for that, for then everybody else would stand
/// behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_has_to_wait_for_a_backup_holds_nobody_up() {
    let database = Database::postgres().await;
    let engine = open(&database).await.unwrap();
    engine.close();
    drop(engine);
    let plain = Plain::of(&database);
    plain.back_to(plain.migrations() - 1).await;
    let (backup, connection) =
        tokio_postgres::connect(database.url.as_deref().unwrap(), tokio_postgres::NoTls)
            .await
            .unwrap();
    tokio::spawn(connection);
    backup
        .batch_execute("begin; select count(*) from item_version")
        .await
        .unwrap();
    let opening = tokio::spawn({
        let database = database.clone();
        async move { open(&database).await }
    });
    plain.until_waiting(1).await;
    let write = "delete from item_version where version = 0";
    tokio::time::timeout(Duration::from_secs(30), plain.rows(write))
        .await
        .unwrap();
    assert!(!opening.is_finished(), "the backup goes on");
    backup.batch_execute("commit").await.unwrap();
    opening.await.unwrap().unwrap();
}
