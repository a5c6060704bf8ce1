//! Two servers on one PostgreSQL.

use std::sync::PoisonError;
use std::time::Duration;

use docket_testkit::load::{Fact, verify};
use docket_testkit::{Database, Plain};

use super::given::{in_order, once_each, overtaken};
use super::load::{Config, Load};
use crate::serving::{Server, doctor, serve_on};

const LIMITS: [usize; 10] = [1, 1, 1, 2, 2, 3, 5, 10, 20, 1];
/// The tenant whose line is long, and the one that has a single job now and then.
const BUSY: usize = 8;
const QUIET: usize = 9;
const WORKERS: usize = 8;

fn submitted(facts: &[Fact]) -> usize {
    let is_submitted = |fact: &&Fact| matches!(fact, Fact::Submitted(..));
    facts.iter().filter(is_submitted).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_on_one_postgres_share_lanes_exactly_under_load() {
    let database = Database::postgres().await;
    let servers = [
        Server::start(serve_on(&database)),
        Server::start(serve_on(&database)),
    ];
    let tenants = LIMITS
        .iter()
        .enumerate()
        .map(|(n, limit)| (format!("t{n}"), *limit));
    let config = Config {
        tenants: tenants.collect(),
        quiet: 1,
        producers: 4,
        workers: WORKERS,
        lease_seconds: 60.0,
        rough: false,
    };
    let load = Load::new(&[&servers[0], &servers[1]], &servers[0].admin_key(), config).await;
    let many: Vec<_> = (0..600).map(|n| format!("many-{n}")).collect();
    load.submit(BUSY, 0, &many).await;
    let tasks = load.start();
    let mut single = Vec::new();
    for n in 0.. {
        tokio::time::sleep(Duration::from_millis(500)).await;
        single.push(load.submit(QUIET, n, &[format!("single-{n}")]).await);
        // However slow the machine is: until it was a load.
        if n >= 7 && submitted(&load.facts.all()) > 1_000 {
            break;
        }
    }
    load.finish(tasks, &database).await;

    let facts = load.facts.all();
    verify(&Plain::of(&database), &facts).await;
    let calls = load.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert_eq!(
        once_each(&calls),
        submitted(&facts),
        "each job was given out once"
    );
    in_order(&calls);
    let overtaken = overtaken(&calls, QUIET, &single);
    let most = overtaken.iter().max().copied().unwrap_or(0);
    assert!(
        most <= 2 * WORKERS,
        "claims that came before a single job: {overtaken:?}"
    );
    for server in servers {
        let logs = server.stop();
        assert!(!logs.contains("ERROR"), "{logs}");
    }
    doctor(&database);
}
