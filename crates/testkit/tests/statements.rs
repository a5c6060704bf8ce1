//! Every statement there is can be prepared on the database it is written for, and the databases hold the same rule for "ready"
//! as the core.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;

use docket_core::lane::LaneCounts;
use docket_store::all_statements;
use docket_testkit::{Database, World, on_both};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_can_be_prepared_on_postgres() {
    let world = World::new(Database::postgres().await).await;
    let url = world.database.url.clone().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut failed = Vec::new();
    for statement in all_statements() {
        let Some(text) = statement.postgres_text() else {
            continue;
        };
        if let Err(error) = client.prepare(text).await {
            failed.push(format!("{}: {:?}", statement.name, error.as_db_error()));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_statement_can_be_prepared_on_sqlite() {
    let world = World::new(Database::sqlite()).await;
    let file = world.database.data_folder().join("docket.db");
    let connection = rusqlite::Connection::open(file).unwrap();
    let mut failed = Vec::new();
    for statement in all_statements() {
        let Some(text) = statement.sqlite_text() else {
            continue;
        };
        if let Err(error) = connection.prepare(text) {
            failed.push(format!("{}: {error}", statement.name));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn every_statement_is_for_some_database_and_opens_with_its_name() {
    assert!(all_statements().len() > 100, "the list holds them all");
    for statement in all_statements() {
        let texts = [statement.postgres_text(), statement.sqlite_text()];
        let comment = format!("/* {} */", statement.name);
        assert!(texts.iter().any(Option::is_some), "{}", statement.name);
        assert!(
            texts.iter().flatten().all(|text| text.starts_with(&comment)),
            "{}",
            statement.name
        );
    }
}

#[test]
fn on_each_database_a_name_stands_for_one_statement() {
    let (mut postgres, mut sqlite) = (BTreeSet::new(), BTreeSet::new());
    for statement in all_statements() {
        let name = statement.name;
        assert!(
            statement.postgres_text().is_none() || postgres.insert(name),
            "{name} twice on PostgreSQL"
        );
        assert!(
            statement.sqlite_text().is_none() || sqlite.insert(name),
            "{name} twice on SQLite"
        );
    }
}

#[test]
fn sqlites_texts_have_no_locks_and_no_foreign_placeholders() {
    for statement in all_statements() {
        let Some(text) = statement.sqlite_text() else {
            continue;
        };
        for foreign in [
            "for update",
            "for no key update",
            "for share",
            "skip locked",
            "::",
            "$1",
        ] {
            assert!(!text.contains(foreign), "{} has '{foreign}'", statement.name);
        }
    }
}

/// A lane in every combination of counts and switches, with its key.
fn lanes() -> Vec<(usize, LaneCounts, bool, bool)> {
    let mut lanes = Vec::new();
    for n in 0..3_usize.pow(4) * 4 {
        let digit = |place: u32| (n / 3_usize.pow(place) % 3) as u64;
        let counts = LaneCounts {
            limit: digit(0) + 1,
            active: digit(1),
            queued: digit(2),
            waiting: digit(3),
        };
        let switches = n / 81;
        lanes.push((n + 1, counts, switches & 1 == 1, switches & 2 == 2));
    }
    lanes
}

on_both! {
    async fn the_databases_and_the_core_agree_on_when_a_lane_is_ready(world: &World) {
        let rows: Vec<_> = lanes()
            .into_iter()
            .map(|(key, counts, paused, strict)| {
                let LaneCounts { limit, active, queued, waiting } = counts;
                format!("({key}, 7, {limit}, {active}, {queued}, {waiting}, {key} * 10, {paused}, {strict})")
            })
            .collect();
        assert_eq!(rows.len(), 324);
        let columns = "lane_key, pipeline_key, lim, active, queued, waiting, served, paused, strict";
        let insert = format!("insert into lane ({columns}) values {}", rows.join(", "));
        world.database.execute(&insert).await.unwrap();
        let ready: Vec<_> = lanes()
            .into_iter()
            .filter(|(_, counts, paused, strict)| counts.ready(*paused, *strict))
            .map(|(key, ..)| key.to_string())
            .collect();
        let expected = i64::try_from(ready.len()).unwrap();
        assert!((1..324).contains(&expected));
        let found = "select count(*) from lane where ready_key is not null";
        assert_eq!(world.number(found).await, expected);
        let same = format!("{found} and ready_key = served and lane_key in ({})", ready.join(", "));
        assert_eq!(world.number(&same).await, expected);
        world.database.execute("delete from lane where pipeline_key = 7").await.unwrap();
    }
}
