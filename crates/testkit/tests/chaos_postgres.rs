//! PostgreSQL goes away under load and comes back (rules A3 and A2): restarted, crashed, its backends terminated, its connections
//! exhausted, its answers lost on the way. The engine goes on by itself, loses nothing that it has acknowledged, does nothing
//! twice, and tells callers nothing but that the database is away.
//!
//! Each test has a cluster of its own.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on, and says what it has measured"
)]

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use docket_core::random::{Random as _, SeededRandom, SystemRandom};
use docket_engine::background::{Background, Intervals};
use docket_engine::{
    BlobConfig, Claim, Complete, Engine, EngineConfig, Error, PostgresConfig, StoreConfig, Submit,
};
use docket_testkit::load::{self, Facts, Load, LoadConfig, Plain};
use docket_testkit::{Cluster, Database, World, names};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::{Client, NoTls};

/// No test takes longer; one that does hangs.
async fn within<W: Future<Output = ()>>(seconds: u64, test: W) {
    let over = tokio::time::timeout(Duration::from_secs(seconds), test).await;
    over.expect("the test is over within its time");
}

/// Opens a server on a database, by way of `url` where it is not the database's own.
async fn server(database: &Database, change: impl FnOnce(&mut PostgresConfig)) -> Engine {
    let mut postgres = PostgresConfig::new(database.url.clone().unwrap());
    change(&mut postgres);
    let mut config = EngineConfig::new(
        StoreConfig::Postgres(postgres),
        BlobConfig::Folder(database.blob_folder()),
    );
    config.random = Arc::new(SystemRandom);
    Engine::open(config).await.expect("the server opens")
}

async fn plain_client(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}

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

fn waiting_claim(wait_ms: u64) -> Claim {
    Claim {
        pipeline: names::pipeline(load::PIPELINE),
        worker: names::worker("waiting"),
        limit: 1,
        lease_ms: Some(60_000),
        wait_ms,
    }
}

async fn submit(
    engine: &Engine,
    tenant: &str,
    external_id: &str,
) -> Result<docket_engine::SubmittedItem, Error> {
    let call = Submit {
        collection: names::collection(tenant),
        items: vec![World::item(external_id)],
        idempotency_key: None,
    };
    let mut answer = engine.submit(&World::scope(tenant), call).await?;
    Ok(answer.results.pop().unwrap()?)
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

// ---------------------------------------------------------------------------------------------------------------------
// Lost answers.

/// What a proxy does to the connections through it.
#[derive(Default)]
struct Mood {
    /// Every so manieth commit is cut; 0 for none.
    every: AtomicU64,
    commits: AtomicU64,
    /// Commits that reached the server and whose answer did not reach the engine, and those that did not reach the server.
    cut_after: AtomicU64,
    cut_before: AtomicU64,
    /// Only the first kind, or only the second.
    only_after: AtomicBool,
    only_before: AtomicBool,
    /// A commit that is to be cut before the server is held back, and its connection kept.
    holds: AtomicBool,
    /// After a cut, nobody gets through any more, on whatever connection.
    closes: AtomicBool,
    closed: AtomicBool,
}

/// A proxy before PostgreSQL that can cut a connection at its commit.
struct Proxy {
    port: u16,
    mood: Arc<Mood>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn before(url: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let behind = port_of(url);
        let mood = Arc::new(Mood::default());
        let shared = Arc::clone(&mood);
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.closed.load(Ordering::SeqCst) {
                    continue;
                }
                tokio::spawn(pass(client, behind, Arc::clone(&shared)));
            }
        });
        Self { port, mood, task }
    }

    fn url(&self, url: &str) -> String {
        url.replace(&format!(":{}/", port_of(url)), &format!(":{}/", self.port))
    }
}

fn port_of(url: &str) -> u16 {
    let (_, rest) = url.rsplit_once(':').unwrap();
    rest.split('/').next().unwrap().parse().unwrap()
}

async fn pass(client: TcpStream, behind: u16, mood: Arc<Mood>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", behind)).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mute = AtomicBool::new(false);
    let answered = tokio::sync::Notify::new();
    // Whatever ends the one way ends the other: both sockets are closed.
    tokio::select! {
        () = pass_back(from_server, to_client, &mute, &answered) => {}
        _ = pass_on(from_client, to_server, &mood, &mute, &answered) => {}
    }
}

/// From the server to the engine; a mute proxy swallows the answer and tells that there was one.
async fn pass_back(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mute: &AtomicBool,
    answered: &tokio::sync::Notify,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        if mute.load(Ordering::SeqCst) {
            answered.notify_one();
        } else if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

/// From the engine to the server, message by message, until the end or a cut.
async fn pass_on(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mood: &Mood,
    mute: &AtomicBool,
    answered: &tokio::sync::Notify,
) -> Option<()> {
    // The first message has a length and no type.
    let mut kind = None;
    loop {
        let length = from.read_u32().await.ok()?;
        let mut body = vec![0; length as usize - 4];
        from.read_exact(&mut body).await.ok()?;
        let cut = (kind == Some(b'Q') && body == *b"commit\0")
            .then(|| mood.cut())
            .flatten();
        if cut.is_none() && mood.closed.load(Ordering::SeqCst) {
            return None;
        }
        if cut == Some(Cut::Before) {
            mood.cut_before.fetch_add(1, Ordering::SeqCst);
            if mood.holds.load(Ordering::SeqCst) {
                // Until the server breaks the connection: it does not even learn that the commit is lost.
                std::future::pending::<()>().await;
            }
            return None;
        }
        if cut == Some(Cut::After) {
            mute.store(true, Ordering::SeqCst);
        }
        let mut message = Vec::with_capacity(length as usize + 1);
        message.extend(kind);
        message.extend(length.to_be_bytes());
        message.extend(body);
        to.write_all(&message).await.ok()?;
        if cut == Some(Cut::After) {
            // Often the server has answered when the connection breaks, and sometimes it is still at work.
            if mood.cut_after.fetch_add(1, Ordering::SeqCst) % 4 != 3 {
                answered.notified().await;
            }
            return None;
        }
        kind = Some(from.read_u8().await.ok()?);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    Before,
    After,
}

impl Mood {
    /// Whether this commit is cut, and how.
    fn cut(&self) -> Option<Cut> {
        let every = self.every.load(Ordering::SeqCst);
        let n = self.commits.fetch_add(1, Ordering::SeqCst);
        if every == 0 || !n.is_multiple_of(every) || self.closed.load(Ordering::SeqCst) {
            return None;
        }
        if self.closes.load(Ordering::SeqCst) {
            self.closed.store(true, Ordering::SeqCst);
        }
        let before = match (
            self.only_before.load(Ordering::SeqCst),
            self.only_after.load(Ordering::SeqCst),
        ) {
            (true, _) => true,
            (_, true) => false,
            _ => (n / every) % 3 == 2,
        };
        Some(if before { Cut::Before } else { Cut::After })
    }
}

/// Every third commit is cut, before it reaches the server or after: each answer agrees with the tables (A3).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_resolved_not_guessed() {
    within(90, async {
        let database = Database::postgres().await;
        let url = database.url.clone().unwrap();
        let proxy = Proxy::before(&url).await;
        let through = proxy.url(&url);
        let engine = server(&database, |postgres| postgres.url = through).await;
        load::prepare(&engine).await.unwrap();
        proxy.mood.every.store(3, Ordering::SeqCst);
        let submitters: Vec<_> = (0..4)
            .map(|n| {
                let engine = engine.clone();
                tokio::spawn(async move {
                    let random = SeededRandom::new(n);
                    let mut taken = BTreeMap::new();
                    for k in 0..50 {
                        let name = format!("doc-{n}-{k}");
                        let (tenant, _) = load::TENANTS[random.below(4) as usize];
                        let item = submit(&engine, tenant, &name).await.unwrap();
                        assert!(!item.duplicate, "{name} is new, yet the answer is {item:?}");
                        taken.insert(name, item.id.uuid().simple().to_string());
                    }
                    taken
                })
            })
            .collect();
        let mut taken = BTreeMap::new();
        for submitter in submitters {
            taken.extend(submitter.await.unwrap());
        }
        // Claims and completions are answered as rightly: each job is given out once and completed once.
        let facts = claim_and_complete_all(&engine, taken.len()).await;
        let (after, before) = (&proxy.mood.cut_after, &proxy.mood.cut_before);
        println!(
            "{} commits lost their answer, {} were lost",
            after.load(Ordering::SeqCst),
            before.load(Ordering::SeqCst)
        );
        assert!(after.load(Ordering::SeqCst) > 30 && before.load(Ordering::SeqCst) > 15);
        let plain = Plain::of(&database);
        let there: BTreeMap<_, _> = plain
            .rows("select external_id, id from item")
            .await
            .into_iter()
            .map(|row| (row[0].clone(), row[1].clone()))
            .collect();
        assert_eq!(there, taken);
        assert_eq!(facts, taken.len());
        load::verify(&plain, &[]).await;
        let found = engine.doctor().await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    })
    .await;
}

async fn claim_and_complete_all(engine: &Engine, jobs: usize) -> usize {
    let mut done = 0;
    for _ in 0..2_000 {
        if done == jobs {
            break;
        }
        let claim = Claim {
            limit: 3,
            ..waiting_claim(100)
        };
        let claimed = engine.claim(claim).await.unwrap();
        for job in &claimed {
            assert_eq!(
                job.token.0, 1,
                "job {} was given out before, and nobody was told",
                job.id
            );
        }
        if claimed.is_empty() {
            continue;
        }
        let calls = claimed
            .iter()
            .map(|job| Complete::new(job.id, job.token))
            .collect();
        for result in engine.complete(calls).await.unwrap() {
            assert!(
                !result.unwrap().repeated,
                "a job was completed, and nobody was told"
            );
            done += 1;
        }
    }
    done
}

/// The answer is lost, and the database then stays away for longer than anybody waits: the caller hears that nobody knows, and
/// nothing is tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_cannot_be_asked_for_is_said_to_be_unknown() {
    within(60, async {
        for before in [false, true] {
            let database = Database::postgres().await;
            let url = database.url.clone().unwrap();
            let proxy = Proxy::before(&url).await;
            let through = proxy.url(&url);
            let engine = server(&database, |postgres| {
                postgres.url = through;
                postgres.patience = Duration::from_millis(700);
            })
            .await;
            load::prepare(&engine).await.unwrap();
            submit(&engine, "one", "warm").await.unwrap();
            proxy.mood.only_before.store(before, Ordering::SeqCst);
            proxy.mood.only_after.store(!before, Ordering::SeqCst);
            proxy.mood.closes.store(true, Ordering::SeqCst);
            proxy.mood.every.store(1, Ordering::SeqCst);
            // Whoever rides in the transaction that is cut hears that it is unknown; the others cannot even begin.
            let calls: Vec<_> = (0..6)
                .map(|n| {
                    let engine = engine.clone();
                    tokio::spawn(async move { submit(&engine, "one", &format!("doc-{n}")).await })
                })
                .collect();
            let (mut unknown, mut away) = (0, 0);
            for call in calls {
                match call.await.unwrap() {
                    Err(Error::UnknownCommit { .. }) => unknown += 1,
                    Err(error) if error.is_transient() => away += 1,
                    other => panic!("the database cannot be reached, yet: {other:?}"),
                }
            }
            println!("{unknown} are unknown, {away} could not begin");
            assert!(unknown >= 1, "one commit lost its answer");
            // The way is free again: those that are there are there once, and nothing comes after.
            proxy.mood.every.store(0, Ordering::SeqCst);
            proxy.mood.closed.store(false, Ordering::SeqCst);
            submit(&engine, "one", "after").await.unwrap();
            let plain = Plain::of(&database);
            let there = plain
                .number("select count(*) from item where external_id like 'doc-%'")
                .await;
            assert!(
                if before { there == 0 } else { there == unknown },
                "{there} of {unknown}"
            );
            let found = engine.doctor().await.unwrap();
            assert!(found.is_empty(), "{found:?}");
        }
    })
    .await;
}

/// After a crash the server may give a transaction's number once more, if nothing of the first had reached the disk. That the
/// second was committed proves nothing about the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_given_twice_after_a_crash_proves_nothing() {
    within(90, async {
        // Nothing is written but by commits, so that what is not committed is lost for sure.
        let cluster = Cluster::start("-c wal_writer_delay=10s -c bgwriter_delay=10s -c autovacuum=off").await;
        let database = cluster.database().await;
        let url = database.url.clone().unwrap();
        let proxy = Proxy::before(&url).await;
        let through = proxy.url(&url);
        let engine = server(&database, |postgres| postgres.url = through).await;
        load::prepare(&engine).await.unwrap();
        submit(&engine, "one", "warm").await.unwrap();
        proxy.mood.only_before.store(true, Ordering::SeqCst);
        proxy.mood.holds.store(true, Ordering::SeqCst);
        proxy.mood.closes.store(true, Ordering::SeqCst);
        proxy.mood.every.store(1, Ordering::SeqCst);
        let calling = engine.clone();
        let call = tokio::spawn(async move { submit(&calling, "one", "doc").await });
        while proxy.mood.cut_before.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        cluster.kill().await;
        cluster.start_again().await;
        // Others use the server before the engine can ask.
        let other = plain_client(&url).await.unwrap();
        other.batch_execute("create table other (n int)").await.unwrap();
        for n in 0..200 {
            other
                .execute("insert into other values ($1)", &[&n])
                .await
                .unwrap();
        }
        proxy.mood.every.store(0, Ordering::SeqCst);
        proxy.mood.closed.store(false, Ordering::SeqCst);
        let said = call.await.unwrap();
        let plain = Plain::of(&database);
        let there = plain
            .number("select count(*) from item where external_id = 'doc'")
            .await;
        match &said {
            Ok(item) => assert_eq!(there, 1, "acknowledged as {item:?}, and not there"),
            Err(Error::UnknownCommit { .. }) => {}
            Err(other) => panic!("{other:?}"),
        }
    })
    .await;
}
