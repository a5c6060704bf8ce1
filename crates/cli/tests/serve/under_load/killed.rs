//! A server that is killed in the midst of it: nothing acknowledged is lost, nothing happens twice.

use std::sync::Arc;
use std::time::Duration;

use docket_testkit::load::{Fact, verify};
use docket_testkit::{Database, Plain};

use super::load::{Config, Load};
use crate::serving::{Server, doctor, serve_on};

fn config() -> Config {
    Config {
        tenants: [1, 2, 5, 20].map(|limit| (format!("t{limit}"), limit)).to_vec(),
        quiet: 0,
        producers: 4,
        workers: 8,
        lease_seconds: 1.0,
        rough: true,
    }
}

async fn a_while() {
    tokio::time::sleep(Duration::from_millis(1_500)).await;
}

/// Everything that was acknowledged is there, once; and there is nothing that nobody asked for.
async fn check(load: &Arc<Load>, database: &Database) {
    let facts = load.facts.all();
    let plain = Plain::of(database);
    verify(&plain, &facts).await;
    let count = |of: fn(&Fact) -> bool| facts.iter().filter(|fact| of(fact)).count();
    let submitted = count(|fact| matches!(fact, Fact::Submitted(..)));
    let items = plain.number("select count(*) from item").await;
    assert_eq!(
        i64::try_from(submitted).ok(),
        Some(items),
        "all was asked until it was answered"
    );
    assert!(submitted > 200, "{submitted} items are no load");
    assert!(
        load.repeated.load(std::sync::atomic::Ordering::Relaxed) > 0,
        "nobody noticed the kill"
    );
    doctor(database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_in_mid_load_loses_nothing_and_the_other_goes_on() {
    let database = Database::postgres().await;
    let mut killed = Server::start(serve_on(&database));
    let other = Server::start(serve_on(&database));
    let admin = killed.admin_key();
    let load = Load::new(&[&killed, &other], &admin, config()).await;
    let tasks = load.start();
    a_while().await;
    killed.signal("-KILL");
    let before = load.facts.all().len();
    a_while().await;
    assert!(load.facts.all().len() > before + 20, "the other goes on");
    killed = Server::start(serve_on(&database));
    load.moved(0, &killed.url);
    a_while().await;
    load.finish(tasks, &database).await;
    killed.stop();
    other.stop();
    check(&load, &database).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_on_sqlite_killed_in_mid_load_and_started_again_loses_nothing() {
    let database = Database::sqlite();
    let mut server = Server::start(serve_on(&database));
    let admin = server.admin_key();
    let load = Load::new(&[&server], &admin, config()).await;
    let tasks = load.start();
    for _ in 0..2 {
        a_while().await;
        server.signal("-KILL");
        drop(server);
        server = Server::start(serve_on(&database));
        load.moved(0, &server.url);
    }
    a_while().await;
    load.finish(tasks, &database).await;
    server.stop();
    check(&load, &database).await;
}
