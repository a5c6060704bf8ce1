//! PostgreSQL goes away under load and comes back (rules A3 and A2): restarted, crashed, its backends terminated, its connections
//! exhausted. The engine goes on by itself, loses nothing that it has acknowledged, does nothing twice, and tells callers nothing
//! but that the database is away.
//!
//! Each test that breaks a server has a cluster of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on, and says what it has measured"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use docket_engine::background::{Background, Intervals};
use docket_engine::{Complete, Engine, PostgresConfig, StoreConfig};
use docket_store::Store;
use docket_testkit::load::{self, Facts, Load, LoadConfig};
use docket_testkit::outage::{notices, plain_client, server, submit, waiting_claim, within};
use docket_testkit::proxy::Proxy;
use docket_testkit::{Cluster, Database, Plain, World};

/// Two servers under load on one database.
struct Scene {
    database: Database,
    plain: Plain,
    servers: Vec<Engine>,
    loads: Vec<Arc<Load>>,
    facts: Facts,
    background: Vec<Background>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Scene {
    async fn start(cluster: &Cluster, change: impl Fn(&mut PostgresConfig)) -> Self {
        let database = cluster.database().await;
        let facts = Facts::default();
        let mut scene = Self {
            plain: Plain::of(&database),
            database,
            servers: Vec::new(),
            loads: Vec::new(),
            facts,
            background: Vec::new(),
            tasks: Vec::new(),
        };
        for n in 0..2 {
            let engine = server(&scene.database, &change).await;
            if n == 0 {
                load::prepare(&engine).await.unwrap();
            }
            let intervals = Intervals {
                reap: Duration::from_millis(100),
                fold: Duration::from_millis(50),
                ..Intervals::default()
            };
            scene
                .background
                .push(engine.start_background(intervals).await.unwrap());
            let config = LoadConfig {
                workers: 4,
                submitters: 2,
                uploaders: 0,
                prefix: format!("s{n}"),
                seed: n,
            };
            let load = Load::new(engine.clone(), config, scene.facts.sink());
            let running = Arc::clone(&load);
            scene.tasks.push(tokio::spawn(async move { running.run().await }));
            scene.loads.push(load);
            scene.servers.push(engine);
        }
        scene
    }

    /// Until the load has told so many facts more.
    async fn goes_on(&self, facts: usize) {
        let wanted = self.facts.all().len() + facts;
        for _ in 0..600 {
            if self.facts.all().len() >= wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "the load does not go on: {} facts instead of {wanted}",
            self.facts.all().len()
        );
    }

    /// Ends the load, works off what is left and holds the facts against the tables.
    async fn finish(self) {
        for load in &self.loads {
            load.stop();
        }
        for task in self.tasks {
            task.await.expect("the load ends well");
        }
        for background in self.background {
            background.stop().await;
        }
        load::drain(&self.servers[0], &self.plain).await;
        let facts = self.facts.all();
        let count = |of: fn(&load::Met) -> &AtomicU64| -> u64 {
            self.loads
                .iter()
                .map(|load| of(&load.met).load(Ordering::Relaxed))
                .sum()
        };
        println!(
            "{} facts; callers saw {} transient errors, {} unknown commits, {} lost leases",
            facts.len(),
            count(|met| &met.transient),
            count(|met| &met.unknown),
            count(|met| &met.lost)
        );
        load::verify(&self.plain, &facts).await;
        let found = self.servers[1].doctor().await.unwrap();
        assert!(found.is_empty(), "the doctor found:\n{}", found.join("\n"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_under_load_loses_and_doubles_nothing() {
    within(90, async {
        let cluster = Cluster::start("").await;
        let scene = Scene::start(&cluster, |_| {}).await;
        for _ in 0..3 {
            scene.goes_on(200).await;
            cluster.restart().await;
        }
        scene.goes_on(200).await;
        scene.finish().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_under_load_loses_and_doubles_nothing() {
    within(120, async {
        let cluster = Cluster::start("").await;
        let scene = Scene::start(&cluster, |_| {}).await;
        for _ in 0..4 {
            scene.goes_on(200).await;
            cluster.kill().await;
            cluster.start_again().await;
        }
        scene.goes_on(200).await;
        scene.finish().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terminated_backends_under_load_lose_and_double_nothing() {
    within(90, async {
        let cluster = Cluster::start("").await;
        let scene = Scene::start(&cluster, |_| {}).await;
        let operator = plain_client(scene.database.url.as_ref().unwrap()).await.unwrap();
        let mut terminated = 0;
        for _ in 0..30 {
            scene.goes_on(20).await;
            let rows = operator
                .query(
                    "select pg_terminate_backend(pid) from pg_stat_activity
                     where datname = current_database() and pid <> pg_backend_pid()",
                    &[],
                )
                .await
                .unwrap();
            terminated += rows.len();
        }
        println!("{terminated} backends were terminated");
        assert!(terminated > 100);
        scene.goes_on(200).await;
        scene.finish().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_connections_are_waited_for() {
    within(90, async {
        let cluster = Cluster::start("-c max_connections=24").await;
        let scene = Scene::start(&cluster, |postgres| {
            postgres.connections = 3;
            postgres.hot_connections = 3;
        })
        .await;
        scene.goes_on(100).await;
        for _ in 0..2 {
            let url = scene.database.url.clone().unwrap();
            let mut occupied = vec![plain_client(&url).await.unwrap()];
            // All the others are taken away from the servers and kept, for two seconds.
            for _ in 0..40 {
                let others = "select pg_terminate_backend(pid) from pg_stat_activity
                              where datname = current_database() and application_name = 'docket'";
                occupied[0].batch_execute(others).await.unwrap();
                while occupied.len() < 24
                    && let Ok(client) = plain_client(&url).await
                {
                    occupied.push(client);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            println!("{} of 24 connections were occupied", occupied.len());
            assert!(occupied.len() > 18);
            drop(occupied);
            scene.goes_on(200).await;
        }
        scene.finish().await;
    })
    .await;
}

/// How long a claim that waits on one server takes to get what is submitted on the other.
async fn hint_takes(waiting: &Engine, submitting: &Engine, name: &str) -> Duration {
    let engine = waiting.clone();
    let claim = tokio::spawn(async move { engine.claim(waiting_claim(20_000)).await });
    // It has looked by then, and will not look again by itself for some time.
    tokio::time::sleep(Duration::from_millis(60)).await;
    submit(submitting, "twenty", name).await.unwrap();
    let began = now();
    let jobs = claim.await.unwrap().unwrap();
    let took = began.elapsed();
    let done = jobs.iter().map(|job| Complete::new(job.id, job.token)).collect();
    waiting.complete(done).await.unwrap();
    took
}

#[expect(
    clippy::disallowed_methods,
    reason = "measures how long the test itself has waited"
)]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// A claim that waits outlives a restart and a crash; afterwards hints travel between the servers again (P11).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_claims_and_hints_outlive_the_server() {
    within(90, async {
        let cluster = Cluster::start("").await;
        let database = cluster.database().await;
        let (a, b) = (server(&database, |_| {}).await, server(&database, |_| {}).await);
        load::prepare(&a).await.unwrap();
        for crash in [false, true] {
            let engine = a.clone();
            let waiting = tokio::spawn(async move { engine.claim(waiting_claim(60_000)).await });
            tokio::time::sleep(Duration::from_millis(100)).await;
            if crash {
                cluster.kill().await;
                cluster.start_again().await;
            } else {
                cluster.restart().await;
            }
            submit(&b, "one", &format!("after-{crash}")).await.unwrap();
            let jobs = waiting.await.unwrap().expect("the claim outlives the server");
            assert_eq!(jobs.len(), 1);
            a.complete(vec![Complete::new(jobs[0].id, jobs[0].token)])
                .await
                .unwrap();
            let mut takes = Vec::new();
            for n in 0..12 {
                takes.push(hint_takes(&a, &b, &format!("hint-{crash}-{n}")).await);
            }
            println!("hints after the server came back took {takes:?}");
            // Whoever only looks every half second would need about 400 ms.
            let quick = takes.iter().filter(|took| took.as_millis() < 250).count();
            assert!(quick >= 8, "hints do not travel: {takes:?}");
        }
        let found = a.doctor().await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    })
    .await;
}

/// When the database stays away for longer than an operation is patient, everybody is told so, in about that time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_longer_than_the_patience_is_told_to_everybody() {
    within(90, async {
        let cluster = Cluster::start("").await;
        let database = cluster.database().await;
        let engine = server(&database, |postgres| postgres.patience = Duration::from_secs(1)).await;
        load::prepare(&engine).await.unwrap();
        cluster.stop().await;
        let began = now();
        let calls: Vec<_> = (0..60)
            .map(|n| {
                let engine = engine.clone();
                tokio::spawn(async move { submit(&engine, "one", &format!("doc-{n}")).await })
            })
            .collect();
        for call in calls {
            let error = call.await.unwrap().expect_err("the database is away");
            assert!(error.is_transient(), "{error:?}");
        }
        let took = began.elapsed();
        println!("everybody was told after {took:?}");
        assert!(took < Duration::from_secs(15), "{took:?}");
        cluster.start_again().await;
        submit(&engine, "one", "doc-after").await.unwrap();
        // What was refused is not there.
        let plain = Plain::of(&database);
        assert_eq!(plain.number("select count(*) from item").await, 1);
    })
    .await;
}

/// Whoever closes an engine is rid of its connections, the one for hints too, although somebody still has the engine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_engine_gives_up_all_its_connections() {
    within(60, async {
        let database = Database::postgres().await;
        let engine = server(&database, |_| {}).await;
        load::prepare(&engine).await.unwrap();
        let other = plain_client(database.url.as_deref().unwrap()).await.unwrap();
        let connected = async || {
            let count = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'docket'";
            other.query_one(count, &[]).await.unwrap().get::<_, i64>(0)
        };
        assert!(connected().await > 0);
        engine.close();
        while connected().await > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        drop(engine);
    })
    .await;
}

/// Whoever asks a standby hears of the past, and can write nothing there: no connection is made to one, wherever it is named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_named_first_is_passed_over() {
    within(90, async {
        let cluster = Cluster::start("").await;
        let database = cluster.database().await;
        let url = database.url.clone().unwrap();
        load::prepare(&server(&database, |_| {}).await).await.unwrap();
        let standby = cluster.standby().await;
        // It stays behind from now on.
        let behind = plain_client(&Cluster::listed(&[&standby], &url)).await.unwrap();
        behind
            .batch_execute("select pg_wal_replay_pause()")
            .await
            .unwrap();
        let engine = server(&database, |postgres| {
            postgres.url = Cluster::listed(&[&standby, &cluster], &url);
        })
        .await;
        let calls: Vec<_> = (0..40)
            .map(|n| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    let (tenant, _) = load::TENANTS[n % 4];
                    let item = submit(&engine, tenant, &format!("doc-{n}")).await.unwrap();
                    engine.item(&World::scope(tenant), item.id).await.unwrap();
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        let found = behind.query_one("select count(*) from item", &[]).await.unwrap();
        assert_eq!(found.get::<_, i64>(0), 0, "it is behind");
    })
    .await;
}

/// The first server is gone for good, and the standby is let to write: whoever names both goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_promoted_under_load_loses_and_doubles_nothing() {
    within(120, async {
        let cluster = Cluster::start("").await;
        let standby = cluster.standby().await;
        let mut scene = Scene::start(&cluster, |postgres| {
            postgres.url = Cluster::listed(&[&standby, &cluster], &postgres.url);
        })
        .await;
        scene.goes_on(200).await;
        // A clean stop lets the standby have all there is.
        cluster.stop().await;
        standby.promote().await;
        scene.goes_on(200).await;
        scene.plain = Plain::Postgres(Cluster::listed(&[&standby], scene.database.url.as_ref().unwrap()));
        scene.finish().await;
    })
    .await;
}

/// Over a Unix socket there is no other server to go to: what is there is looked at all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_behind_a_socket_is_refused_until_it_is_promoted() {
    within(90, async {
        let cluster = Cluster::start("").await;
        let database = cluster.database().await;
        let url = database.url.clone().unwrap();
        load::prepare(&server(&database, |_| {}).await).await.unwrap();
        let standby = cluster.standby().await;
        let config = StoreConfig::Postgres(PostgresConfig::new(standby.by_socket(&url)));
        let error = Store::open(&config).await.unwrap_err();
        assert!(error.is_transient(), "{error:?}");
        assert!(error.to_string().contains("the server is a standby"), "{error}");
        standby.promote().await;
        let engine = server(&database, |postgres| postgres.url = standby.by_socket(&url)).await;
        submit(&engine, "one", "doc").await.unwrap();
    })
    .await;
}

/// What takes a connection and says nothing is given up: hints are told again as soon as somebody answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_do_not_wait_for_ever_for_a_server_that_says_nothing() {
    within(90, async {
        let database = Database::postgres().await;
        let url = database.url.clone().unwrap();
        let proxy = Proxy::before(&url).await;
        let through = proxy.url(&url);
        let _engine = server(&database, |postgres| postgres.url = through).await;
        proxy.mood.silent.store(true, Ordering::SeqCst);
        let other = plain_client(&url).await.unwrap();
        let docket = "select pg_terminate_backend(pid) from pg_stat_activity
                      where datname = current_database() and application_name = 'docket'";
        other.batch_execute(docket).await.unwrap();
        while proxy.mood.kept.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The one for hints is among those that are kept, whoever else was.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut heard = notices(&url, "docket_hint").await;
        proxy.mood.silent.store(false, Ordering::SeqCst);
        heard.recv().await.expect("it tells that it is there again");
    })
    .await;
}

/// The same of two servers that a URL names: the second is reached although the first says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_says_nothing_does_not_keep_anybody_from_the_next() {
    within(90, async {
        let database = Database::postgres().await;
        let url = database.url.clone().unwrap();
        let proxy = Proxy::before(&url).await;
        proxy.mood.silent.store(true, Ordering::SeqCst);
        let both = url.replacen('@', &format!("@127.0.0.1:{},", proxy.port()), 1);
        let engine = server(&database, |postgres| postgres.url = both).await;
        load::prepare(&engine).await.unwrap();
        submit(&engine, "one", "doc").await.unwrap();
        assert!(proxy.mood.kept.load(Ordering::SeqCst) > 0, "it was asked first");
    })
    .await;
}
