//! The doctor finds every kind of damage (rule A4): each count is spoilt by hand, on both databases, and named in the answer.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test stops where it cannot go on"
)]

use std::time::Duration;

use docket_engine::{PauseTarget, Release};
use docket_testkit::{Database, Plain, World, names};
use serde_json::json;

/// A world in which every count is above zero: jobs leased, delayed, put back, queued, cancelled and completed.
async fn lively(database: Database) -> World {
    let world = World::new(database).await;
    world.lanes(4, &["acme"]).await;
    world.tenant_of_tier("free", "free").await;
    world.collection("free", "free", Some("work")).await;
    world.submit_many("free", "limited", 3).await;
    let ids = world.submit_many("acme", "doc", 12).await;
    let mut jobs = world.claim("w1", 4).await;
    jobs.retain(|job| job.tenant_id == "acme");
    let (done, failed, back) = (jobs.remove(0), jobs.remove(0), jobs.remove(0));
    world.complete(done.id, done.token).await.unwrap();
    world.fail(failed.id, failed.token, "it rained").await.unwrap();
    let release = Release {
        job: back.id,
        token: back.token,
    };
    world.engine.release(vec![release]).await.unwrap()[0]
        .clone()
        .unwrap();
    world.engine.fold_run_once().await.unwrap();
    // One is leased, one waits in front, two are gone from the middle of the tail, and that is not folded.
    for id in [ids[8], ids[10]] {
        world.engine.cancel(&World::scope("acme"), id).await.unwrap();
    }
    world.assert_healthy().await;
    world
}

/// Spoils something, and expects the doctor to say so in these words; then mends it, and expects silence.
async fn finds(world: &World, spoil: &str, mend: &str, words: &[&str]) {
    let plain = Plain::of(&world.database);
    plain.rows(spoil).await;
    let found = world.engine.doctor().await.unwrap();
    assert!(!found.is_empty(), "nothing was found after: {spoil}");
    for word in words {
        assert!(
            found.iter().any(|sentence| sentence.contains(word)),
            "no sentence says '{word}' after: {spoil}\n{found:#?}"
        );
    }
    plain.rows(mend).await;
    let left = world.engine.doctor().await.unwrap();
    assert!(left.is_empty(), "after the mending: {left:#?}");
}

async fn every_count(world: &World) {
    let acme = "lane_key in (select lane_key from lane_of where tenant_id = 'acme')";
    let lane = "the lane of 'acme' in 'work': active";
    for count in ["active", "queued", "waiting"] {
        for (by, back) in [("+ 1", "- 1"), ("+ 7", "- 7")] {
            let change = |by| format!("update lane set {count} = {count} {by} where {acme}");
            finds(world, &change(by), &change(back), &[lane]).await;
        }
    }
    let positions = "the lane of 'acme' in 'work': positions";
    let head = |by| format!("update lane set head_seq = head_seq {by} where {acme}");
    finds(world, &head("+ 1"), &head("- 1"), &[lane, "has left the tail"]).await;
    finds(world, &head("- 1"), &head("+ 1"), &[lane, "still in the tail"]).await;
    let next = |by| format!("update lane set next_seq = next_seq {by} where {acme}");
    finds(world, &next("+ 1"), &next("- 1"), &[positions]).await;

    let may_run = "the lane of 'acme' in 'work': it may run";
    let lim = |by| format!("update lane set lim = lim {by} where {acme}");
    finds(world, &lim("+ 1"), &lim("- 1"), &[may_run]).await;
    finds(
        world,
        "update tenant set concurrent_jobs = 9 where id = 'acme'",
        "update tenant set concurrent_jobs = 4 where id = 'acme'",
        &[may_run],
    )
    .await;
    for flag in ["paused", "strict"] {
        let change = format!("update lane set {flag} = not {flag} where {acme}");
        let says = format!("the lane of 'acme' in 'work': {flag} or not");
        finds(world, &change, &change, &[&says]).await;
    }
    let counter = |by| format!("update counter set value = value {by} where status = 'completed'");
    finds(world, &counter("+ 1"), &counter("- 1"), &["count as completed"]).await;
    finds(
        world,
        "insert into counter (collection_key, status, value) values (7, 'failed', 2)",
        "delete from counter where collection_key = 7",
        &["collection 7, which does not exist: 2 items count as failed, but there are 0"],
    )
    .await;
    finds(
        world,
        "insert into delta (collection_key, to_status, n) values (7, 'queued', 1)",
        "delete from delta where collection_key = 7",
        &["collection 7, which does not exist: 1 items count as queued"],
    )
    .await;
}

/// The rolling window of submissions: numbers given twice, numbers given to nobody, moments out of their order.
async fn every_window(world: &World) {
    let next = |by| format!("update tenant set intake_next = intake_next {by} where id = 'free'");
    finds(world, &next("- 3"), &next("+ 3"), &["tenant 'free': its next"]).await;
    let counted = "tenant 'free': 10 submissions count against its limit, but only 3 are on record";
    finds(world, &next("+ 7"), &next("- 7"), &[counted]).await;
    let moment = "insert into intake_slot (tenant_id, at_ms, first)
                  select tenant_id, at_ms + 1, first from intake_slot where tenant_id = 'free'";
    let forgotten = "delete from intake_slot where at_ms > (select min(at_ms) from intake_slot)";
    finds(world, moment, forgotten, &["is remembered from before"]).await;
}

/// Rows that went missing, kept aside so that they can be put back.
async fn every_row(world: &World) {
    let lost = |table: &str, which: &str| {
        (
            format!("create table aside as select * from {table} where {which}"),
            format!("delete from {table} where {which}"),
            format!("insert into {table} select * from aside"),
        )
    };
    let plain = Plain::of(&world.database);
    for (table, which, words) in [
        ("hold", "kind = 1", vec!["active", "has left the tail"]),
        ("hold", "kind = 2", vec!["waiting", "has left the tail"]),
        ("hold", "kind = 3", vec!["queued", "has left the tail"]),
        ("hole", "1 = 1", vec!["positions"]),
        ("delta", "1 = 1", vec![]),
        ("counter", "status = 'queued'", vec!["count as queued"]),
        ("job", "state = 0", vec!["positions", "is held, but is not alive"]),
        ("item", "1 = 1", vec!["is not its item's latest", "count as"]),
    ] {
        let (aside, delete, back) = lost(table, which);
        plain.rows(&aside).await;
        let count = plain.number("select count(*) from aside").await;
        assert!(count > 0, "there are rows of {table} where {which}");
        finds(world, &delete, &back, &words).await;
        plain.rows("drop table aside").await;
    }
    finds(
        world,
        "update job set state = 3 where state = 0",
        "update job set state = 0 where state = 3",
        &["is held, but is not alive", "count as"],
    )
    .await;
    finds(
        world,
        "update item set job_seq = job_seq + 1000",
        "update item set job_seq = job_seq - 1000",
        &["is not its item's latest"],
    )
    .await;
}

/// A pause without its flag, and the flag of a lane that a pause has.
async fn a_pause(world: &World) {
    let target = PauseTarget::Lane(names::tenant("acme"), names::pipeline("work"));
    let id = world
        .engine
        .pause(&World::operator(), target, "test")
        .await
        .unwrap();
    world.assert_healthy().await;
    let plain = Plain::of(&world.database);
    plain.rows("create table aside as select * from pause").await;
    finds(
        world,
        "delete from pause",
        "insert into pause select * from aside",
        &["paused or not"],
    )
    .await;
    plain.rows("drop table aside").await;
    world.engine.resume(&World::operator(), id).await.unwrap();
    world.assert_healthy().await;
}

/// A lane without its row, and a row without its tenant.
async fn a_lane(world: &World) {
    finds(
        world,
        "update lane_of set lane_key = lane_key + 1000000 where tenant_id = 'free'",
        "update lane_of set lane_key = lane_key - 1000000 where tenant_id = 'free'",
        &["but there are 0 of it", "which is nobody's"],
    )
    .await;
}

/// A review that waits to be assigned in a collection that nobody looks at.
async fn a_note(world: &World) {
    world.desk("shop", json!({ "assignment": "auto" })).await;
    world.submit_one("shop", "waits").await;
    finds(
        world,
        "delete from review_unassigned",
        "insert into review_unassigned select collection_key, tenant_id, 0 from collection where id = 'shop'",
        &["collection 'shop': reviews wait"],
    )
    .await;
}

async fn the_doctor_names_each_kind_of_damage(database: Database) {
    let checks = async {
        let world = lively(database).await;
        every_count(&world).await;
        every_window(&world).await;
        every_row(&world).await;
        a_pause(&world).await;
        a_lane(&world).await;
        a_note(&world).await;
    };
    let over = tokio::time::timeout(Duration::from_secs(60), checks).await;
    over.expect("the doctor is done within a minute");
}

#[tokio::test]
async fn the_doctor_names_each_kind_of_damage_on_sqlite() {
    the_doctor_names_each_kind_of_damage(Database::sqlite()).await;
}

#[tokio::test]
async fn the_doctor_names_each_kind_of_damage_on_postgres() {
    the_doctor_names_each_kind_of_damage(Database::postgres().await).await;
}

/// Looking changes nothing: damage stays until a person mends it.
#[tokio::test]
async fn the_doctor_heals_nothing() {
    let world = lively(Database::sqlite()).await;
    let plain = Plain::of(&world.database);
    plain.rows("update lane set queued = queued + 1").await;
    let first = world.engine.doctor().await.unwrap();
    assert_eq!(first, world.engine.doctor().await.unwrap());
    assert!(!first.is_empty());
    plain.rows("update lane set queued = queued - 1").await;
    world.assert_healthy().await;
}
