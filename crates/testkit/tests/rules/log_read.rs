//! Reading the log by page: filters, both ways, tenants apart, and an order that survives another cluster (rules L1 and A1).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Timestamp;
use docket_engine::{Engine, EngineConfig, LogFilter, LogOrder, LogPage, LogPosition, LogQuery};
use docket_testkit::{Database, World, names, on_both};

fn query(filter: LogFilter) -> LogQuery {
    LogQuery {
        filter,
        limit: 200,
        ..LogQuery::default()
    }
}

async fn of(world: &World, tenant: &str, filter: LogFilter) -> LogPage {
    let page = world.engine.log(&World::scope(tenant), query(filter)).await;
    page.unwrap()
}

async fn of_all(world: &World, filter: LogFilter) -> LogPage {
    let page = world
        .engine
        .log_of_all(&World::operator(), None, query(filter))
        .await;
    page.unwrap()
}

fn actions(page: &LogPage) -> Vec<&str> {
    page.entries.iter().map(|entry| entry.action.as_str()).collect()
}

on_both! {
    async fn a_tenant_reads_its_own_log_and_nothing_else(world: &World) {
        world.lanes(2, &["acme", "bolt"]).await;
        world.submit_many("acme", "a", 3).await;
        world.submit_many("bolt", "b", 4).await;
        let page = of(world, "acme", LogFilter::default()).await;
        assert!(page.next.is_none());
        assert!(page.entries.iter().all(|entry| entry.tenant_id.as_deref() == Some("acme")), "{page:?}");
        assert_eq!(actions(&page), ["tenant.put", "collection.put", "item.submitted", "item.submitted", "item.submitted"]);
        let all = of_all(world, LogFilter::default()).await;
        assert!(all.entries.iter().any(|entry| entry.action == "pipeline.put" && entry.tenant_id.is_none()));
        assert_eq!(all.entries.iter().filter(|entry| entry.action == "item.submitted").count(), 7);
        assert!(all.entries.windows(2).all(|pair| pair[0].position < pair[1].position));
        let one = world.engine.log_of_all(&World::operator(), Some(names::tenant("bolt")), query(LogFilter::default())).await;
        assert_eq!(one.unwrap().entries.len(), 6);
    }

    async fn each_filter_finds_what_it_names(world: &World) {
        world.lanes(2, &["acme", "bolt"]).await;
        world.collection("other", "acme", Some("work")).await;
        let item = world.submit_one("acme", "doc-1").await.id;
        world.submit_one("acme", "doc-2").await;
        world.pass_ms(1_000);
        let since = Timestamp::from_ms(world.number("select max(at_ms) from log").await + 1_000);
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        let filters = [
            (LogFilter { item: Some(item), ..LogFilter::default() }, vec!["item.submitted", "job.claimed", "job.completed"]),
            (LogFilter { actor: Some("worker:w1".into()), ..LogFilter::default() }, vec!["job.claimed", "job.completed"]),
            (LogFilter { action: Some("item.submitted".into()), ..LogFilter::default() }, vec!["item.submitted"; 2]),
            (LogFilter { since: Some(since), ..LogFilter::default() }, vec!["job.claimed", "job.completed"]),
            (LogFilter { until: Some(since), action: Some("job.claimed".into()), ..LogFilter::default() }, vec![]),
            (LogFilter { collection: Some(names::collection("acme")), ..LogFilter::default() },
             vec!["item.submitted", "item.submitted", "job.claimed", "job.completed"]),
            (LogFilter { collection: Some(names::collection("other")), ..LogFilter::default() }, vec![]),
        ];
        for sealed in [false, true] {
            for (filter, expected) in &filters {
                let page = of(world, "acme", filter.clone()).await;
                assert_eq!(&actions(&page), expected, "{filter:?}, sealed: {sealed}");
            }
            world.seal_all().await;
        }
        let theirs = of(world, "bolt", LogFilter { item: Some(item), ..LogFilter::default() }).await;
        assert!(theirs.entries.is_empty(), "another tenant's item has no log");
        let foreign = query(LogFilter { collection: Some(names::collection("acme")), ..LogFilter::default() });
        let refused = world.engine.log(&World::scope("bolt"), foreign).await.unwrap_err();
        assert_eq!(refused.refusal().unwrap().code(), "not_found");
        let told = of(world, "acme", LogFilter { item: Some(item), ..LogFilter::default() }).await;
        assert_eq!(told.entries[1].job, Some(job.id), "an entry names its job");
    }

    async fn pages_have_no_gap_and_no_repeat_in_either_direction(world: &World) {
        world.lanes(2, &["acme", "bolt"]).await;
        for n in 0..20 {
            world.submit_many("acme", &format!("a{n}"), 3).await;
            world.submit_many("bolt", &format!("b{n}"), 2).await;
        }
        let submitted = LogFilter { action: Some("item.submitted".into()), ..LogFilter::default() };
        let whole: Vec<_> = of(world, "acme", submitted.clone()).await.entries.iter().map(|entry| entry.position).collect();
        assert_eq!(whole.len(), 60);
        for order in [LogOrder::OldestFirst, LogOrder::NewestFirst] {
            let (mut paged, mut after) = (Vec::new(), None);
            loop {
                let query = LogQuery { filter: submitted.clone(), order, after, limit: 7 };
                let page = world.engine.log(&World::scope("acme"), query).await.unwrap();
                paged.extend(page.entries.iter().map(|entry| entry.position));
                after = page.next;
                if after.is_none() { break }
            }
            if order == LogOrder::NewestFirst { paged.reverse() }
            assert_eq!(paged, whole, "{order:?}");
        }
    }

    async fn a_wrong_question_is_refused(world: &World) {
        for limit in [0, 201] {
            let wrong = LogQuery { limit, ..LogQuery::default() };
            let refused = world.engine.log(&World::scope("acme"), wrong).await.unwrap_err();
            assert_eq!(refused.refusal().unwrap().code(), "validation_failed");
        }
        let wrong = LogFilter { actor: Some("x\0y".into()), ..LogFilter::default() };
        let refused = world.engine.log(&World::scope("acme"), query(wrong)).await.unwrap_err();
        assert_eq!(refused.refusal().unwrap().code(), "validation_failed");
    }
}

/// The database as a new cluster would have it after a restore: the log holds numbers that its own transactions have not reached.
async fn restored() -> (World, LogPosition) {
    let world = World::new(Database::postgres().await).await;
    world.lanes(1, &["acme"]).await;
    world.submit_one("acme", "before").await;
    let far = "insert into log (tx, at_ms, tenant_id, action, actor) values (9000000000, 1, 'acme', 'item.submitted', 'old')";
    world.execute(far).await.unwrap();
    let World {
        database,
        clock,
        engine,
        providers,
    } = world;
    drop(engine);
    let engine = Engine::open(EngineConfig {
        clock: Some(clock.clone() as _),
        ..EngineConfig::new(database.store_config(), database.blob_config())
    });
    let world = World {
        engine: engine.await.unwrap(),
        clock,
        database,
        providers,
    };
    (
        world,
        LogPosition {
            tx: 9_000_000_000,
            id: i64::MAX,
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_entries_come_after_old_ones_in_another_cluster() {
    let (world, old) = restored().await;
    let mut follower = world
        .engine
        .follow(&World::scope("acme"), LogFilter::default(), None)
        .await
        .unwrap();
    assert!(follower.position() <= old, "the old entry lies below the horizon");
    let item = world.submit_one("acme", "after").await.id;
    let page = of(
        &world,
        "acme",
        LogFilter {
            item: Some(item),
            ..LogFilter::default()
        },
    )
    .await;
    assert!(page.entries[0].position > old, "{page:?}");
    let seen = tokio::time::timeout(std::time::Duration::from_secs(10), follower.next())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(seen[0].item, Some(item));
    // Opened again, and by several at once, the order is carried on only once.
    for _ in 0..2 {
        let base = world.number("select log_base()").await;
        let another = world
            .another_engine(&docket_testkit::WorldConfig::default())
            .await;
        drop(another);
        assert_eq!(world.number("select log_base()").await, base);
    }
}
