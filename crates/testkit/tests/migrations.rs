//! Opening a database: by many servers at once, by one process only, and by the right version (rule A2).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use docket_engine::{Engine, EngineConfig};
use docket_testkit::{Database, World, on_both};

async fn open(database: &Database) -> docket_engine::Result<Engine> {
    Engine::open(EngineConfig::new(database.store_config(), database.blob_config())).await
}

/// Opens again after an engine was dropped: the lock is given up a moment later, when its writer thread has ended.
async fn open_again(database: &Database) -> Engine {
    for _ in 0..500 {
        match open(database).await {
            Ok(engine) => return engine,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
    panic!("the database can be opened again after its engine is gone");
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
        let another = world.beside(&docket_testkit::WorldConfig::default()).await;
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
