//! Races: many workers, submitters, cancellers, pausers, reapers and folders at once, on SQLite, on PostgreSQL with one server
//! that has 24 connections for the tuned operations, and on PostgreSQL with four servers.
//!
//! Held here: P1 (order in a lane), P2 (never over the limit), P5 (a token is given once), I2 (exactly ten of fifty), I5 and
//! I6 (one item, one answer), A2 and A4 (several servers; counts that are right at any moment).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on, and says what it has measured"
)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use docket_core::Refusal;
use docket_core::backoff::Backoff;
use docket_core::id::{ItemId, JobId, LaneKey};
use docket_core::item::ItemDetails;
use docket_core::job::Failure;
use docket_core::lease::LeaseToken;
use docket_core::pipeline::{OnStale, Pipeline};
use docket_core::random::{Random as _, SeededRandom};
use docket_engine::{
    Claim, ClaimedJob, Complete, Engine, Error, Fail, PauseTarget, Release, Submit, SubmitItem,
};
use docket_testkit::load::Plain;
use docket_testkit::{Database, World, WorldConfig, names};
use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// A world and its servers.
struct Scene {
    world: World,
    engines: Vec<Engine>,
    plain: Plain,
}

impl Scene {
    async fn new(database: Database, servers: usize, real_time: bool) -> Self {
        let settings = WorldConfig {
            runners: if servers == 1 { 16 } else { 4 },
            hot_connections: if servers == 1 { 24 } else { 8 },
            real_time,
            ..WorldConfig::default()
        };
        let world = World::with(database, &settings).await;
        let mut engines = vec![world.engine.clone()];
        for _ in 1..servers {
            engines.push(world.another_engine(&settings).await);
        }
        Self {
            plain: Plain::of(&world.database),
            world,
            engines,
        }
    }

    /// One of the servers.
    fn engine(&self, n: usize) -> &Engine {
        &self.engines[n % self.engines.len()]
    }
}

/// Runs a test on SQLite, on PostgreSQL, and on PostgreSQL with four servers.
macro_rules! everywhere {
    ($($(#[$meta:meta])* $name:ident, real_time = $real_time:literal;)+) => {
        mod sqlite {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::play(super::Database::sqlite(), 1, $real_time, super::$name).await;
            })+
        }

        mod postgres {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::play(super::Database::postgres().await, 1, $real_time, super::$name).await;
            })+
        }

        mod four_servers {
            $($(#[$meta])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::play(super::Database::postgres().await, 4, $real_time, super::$name).await;
            })+
        }
    };
}

everywhere! {
    nothing_is_over_the_limit_out_of_order_lost_or_doubled, real_time = true;
    of_complete_fail_reap_and_cancel_exactly_one_wins, real_time = false;
    a_job_in_the_tail_is_claimed_or_cancelled_never_both, real_time = false;
    a_free_tenant_takes_exactly_ten_of_fifty, real_time = false;
    a_free_tenant_takes_exactly_ten_of_fifty_files, real_time = false;
    the_same_external_id_from_many_at_once_is_one_item, real_time = false;
    the_same_idempotency_key_from_many_at_once_has_one_answer, real_time = false;
    pauses_set_and_lifted_at_once_agree_with_their_lane, real_time = false;
    an_item_retried_by_many_at_once_gets_one_job, real_time = false;
}

async fn play<F, W>(database: Database, servers: usize, real_time: bool, test: F)
where
    F: FnOnce(Arc<Scene>) -> W,
    W: Future<Output = ()>,
{
    let played = async {
        let scene = Arc::new(Scene::new(database, servers, real_time).await);
        test(Arc::clone(&scene)).await;
        scene.world.assert_healthy().await;
    };
    let over = tokio::time::timeout(Duration::from_secs(90), played).await;
    over.expect("the race is over within its time");
}

type Call<T> = std::pin::Pin<Box<dyn Future<Output = T> + Send>>;

/// Runs these at the same moment and gives their answers in order.
async fn at_once<T, W>(calls: Vec<W>) -> Vec<T>
where
    T: Send + 'static,
    W: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(calls.len()));
    let tasks: Vec<_> = calls
        .into_iter()
        .map(|call| {
            let barrier = Arc::clone(&barrier);
            tokio::spawn(async move {
                barrier.wait().await;
                call.await
            })
        })
        .collect();
    let mut answers = Vec::with_capacity(tasks.len());
    for task in tasks {
        answers.push(task.await.expect("a task ends well"));
    }
    answers
}

// ---------------------------------------------------------------------------------------------------------------------
// The great race.

const LANES: [(&str, u32); 4] = [("one", 1), ("two", 2), ("five", 5), ("twenty", 20)];
const JOBS_PER_LANE: usize = 220;
const WORKERS: usize = 20;

/// Jobs between the answer to their claim and the call that settles them.
#[derive(Default)]
struct Running {
    lanes: HashMap<LaneKey, HashSet<JobId>>,
    /// Items that somebody has begun to cancel: from then on their holders may have lost them without knowing.
    doubtful: HashSet<ItemId>,
}

/// What the test knows from the engine's answers alone.
#[derive(Default)]
struct Seen {
    running: Mutex<Running>,
    most: Mutex<HashMap<LaneKey, usize>>,
    given: Mutex<HashSet<(JobId, LeaseToken)>>,
    completed: Mutex<HashMap<ItemId, u32>>,
    cancelled: Mutex<HashSet<ItemId>>,
    submitted: Mutex<Vec<(&'static str, ItemId, JobId)>>,
    settled: AtomicUsize,
    crashes: AtomicU64,
    lost: AtomicU64,
    looks: AtomicU64,
    over: AtomicBool,
}

impl Seen {
    fn goes_on(&self) -> bool {
        !self.over.load(Ordering::SeqCst)
    }

    fn begins(&self, job: &ClaimedJob) {
        assert!(
            self.given.lock().unwrap().insert((job.id, job.token)),
            "job {} was given out twice with token {:?}",
            job.id,
            job.token
        );
        let mut running = self.running.lock().unwrap();
        if running.doubtful.contains(&job.item) {
            return;
        }
        let lane = running.lanes.entry(job.id.lane()).or_default();
        assert!(lane.insert(job.id), "job {} has two holders", job.id);
        let limit = LANES.iter().find(|(name, _)| *name == job.tenant_id).unwrap().1;
        assert!(
            lane.len() <= limit as usize,
            "lane {} runs {} jobs, {limit} are allowed",
            job.tenant_id,
            lane.len()
        );
        let (mut most, n) = (self.most.lock().unwrap(), lane.len());
        let most = most.entry(job.id.lane()).or_default();
        *most = n.max(*most);
    }

    fn ends(&self, job: &ClaimedJob) {
        self.forget(job.id);
    }

    fn forget(&self, job: JobId) {
        let mut running = self.running.lock().unwrap();
        if let Some(lane) = running.lanes.get_mut(&job.lane()) {
            lane.remove(&job);
        }
    }
}

/// Many of everything at once, until every job is completed or cancelled (P1, P2, P5, P13, A2, A4).
async fn nothing_is_over_the_limit_out_of_order_lost_or_doubled(scene: Arc<Scene>) {
    let definition = Pipeline {
        max_attempts: 100,
        backoff: Backoff {
            base_ms: 2,
            max_ms: 20,
        },
        ..Pipeline::default()
    };
    scene.world.pipeline("work", definition).await;
    for (tenant, limit) in LANES {
        scene.world.tenant(tenant, limit).await;
        scene.world.collection(tenant, tenant, Some("work")).await;
    }
    let seen = Arc::new(Seen::default());
    let mut work = JoinSet::new();
    let mut rest = JoinSet::new();
    for (n, (tenant, _)) in LANES.into_iter().enumerate() {
        work.spawn(submitter(Arc::clone(&scene), Arc::clone(&seen), tenant, n));
    }
    for n in 0..WORKERS {
        work.spawn(worker(Arc::clone(&scene), Arc::clone(&seen), n));
    }
    for n in 0..2 {
        rest.spawn(canceller(Arc::clone(&scene), Arc::clone(&seen), n));
        rest.spawn(pauser(Arc::clone(&scene), Arc::clone(&seen), n));
        rest.spawn(reaper(Arc::clone(&scene), Arc::clone(&seen), n));
    }
    rest.spawn(folder(Arc::clone(&scene), Arc::clone(&seen)));
    rest.spawn(sampler(Arc::clone(&scene), Arc::clone(&seen)));
    rest.spawn(doctor(Arc::clone(&scene), Arc::clone(&seen)));
    while let Some(ended) = work.join_next().await {
        ended.expect("a worker or submitter ends well");
    }
    seen.over.store(true, Ordering::SeqCst);
    while let Some(ended) = rest.join_next().await {
        ended.expect("the others end well");
    }
    println!(
        "{} completed, {} cancelled, {} crashes, {} leases lost, {} looks at the tables, most at once {:?}",
        seen.completed.lock().unwrap().len(),
        seen.cancelled.lock().unwrap().len(),
        seen.crashes.load(Ordering::SeqCst),
        seen.lost.load(Ordering::SeqCst),
        seen.looks.load(Ordering::SeqCst),
        seen.most.lock().unwrap().values().collect::<Vec<_>>(),
    );
    each_item_ended_once(&scene, &seen).await;
    each_lane_kept_its_order(&scene, &seen).await;
}

async fn submitter(scene: Arc<Scene>, seen: Arc<Seen>, tenant: &'static str, n: usize) {
    let random = SeededRandom::new(n as u64);
    let mut sent = 0;
    while sent < JOBS_PER_LANE {
        let size = (1 + random.below(6) as usize).min(JOBS_PER_LANE - sent);
        let items = (sent..sent + size)
            .map(|k| World::item(&format!("{tenant}-{k}")))
            .collect();
        let call = Submit {
            collection: names::collection(tenant),
            items,
            idempotency_key: None,
        };
        let answer = scene.engine(n).submit(&World::scope(tenant), call).await.unwrap();
        for result in answer.results {
            let item = result.unwrap();
            assert!(!item.duplicate);
            seen.submitted
                .lock()
                .unwrap()
                .push((tenant, item.id, item.job.unwrap()));
        }
        sent += size;
        tokio::time::sleep(Duration::from_millis(random.below(15))).await;
    }
}

async fn worker(scene: Arc<Scene>, seen: Arc<Seen>, n: usize) {
    let random = SeededRandom::new(1_000 + n as u64);
    let all = LANES.len() * JOBS_PER_LANE;
    while seen.settled.load(Ordering::SeqCst) < all {
        // A worker that will crash asks for a short lease: nobody who lives is overtaken by the reaper.
        let crashes = random.below(12) == 0;
        let claim = Claim {
            pipeline: names::pipeline("work"),
            worker: names::worker(&format!("w{n}")),
            limit: 1 + u32::try_from(random.below(6)).unwrap(),
            lease_ms: Some(if crashes { 40 } else { 60_000 }),
            wait_ms: 20,
        };
        let engine = scene.engine(n);
        let jobs = engine.claim(claim).await.unwrap();
        if crashes {
            for job in &jobs {
                let first = seen.given.lock().unwrap().insert((job.id, job.token));
                assert!(first, "job {} was given out twice with one token", job.id);
            }
            seen.crashes.fetch_add(jobs.len() as u64, Ordering::SeqCst);
            continue;
        }
        jobs.iter().for_each(|job| seen.begins(job));
        tokio::time::sleep(Duration::from_millis(random.below(6))).await;
        let mut done = Vec::new();
        for job in jobs {
            match random.below(10) {
                0 => fail(engine, &seen, &job).await,
                1 => release(engine, &seen, &job).await,
                _ => done.push(job),
            }
        }
        complete(engine, &seen, done).await;
    }
}

async fn fail(engine: &Engine, seen: &Seen, job: &ClaimedJob) {
    seen.ends(job);
    let failure = Failure {
        error: "it rained".to_owned(),
        step: None,
        retryable: true,
    };
    let (job, token) = (job.id, job.token);
    let result = engine.fail(vec![Fail { job, token, failure }]).await.unwrap();
    match &result[0] {
        Ok(_) => {}
        Err(Refusal::LeaseLost) => drop(seen.lost.fetch_add(1, Ordering::SeqCst)),
        other => panic!("{other:?}"),
    }
}

async fn release(engine: &Engine, seen: &Seen, job: &ClaimedJob) {
    seen.ends(job);
    let (job, token) = (job.id, job.token);
    match &engine.release(vec![Release { job, token }]).await.unwrap()[0] {
        Ok(()) => {}
        Err(Refusal::LeaseLost) => drop(seen.lost.fetch_add(1, Ordering::SeqCst)),
        other => panic!("{other:?}"),
    }
}

async fn complete(engine: &Engine, seen: &Seen, jobs: Vec<ClaimedJob>) {
    if jobs.is_empty() {
        return;
    }
    jobs.iter().for_each(|job| seen.ends(job));
    let calls = jobs.iter().map(|job| Complete::new(job.id, job.token)).collect();
    for (job, result) in jobs.iter().zip(engine.complete(calls).await.unwrap()) {
        match result {
            Ok(completed) => {
                assert!(!completed.repeated, "job {} was completed before", job.id);
                assert_eq!(completed.item, job.item);
                *seen.completed.lock().unwrap().entry(job.item).or_default() += 1;
                seen.settled.fetch_add(1, Ordering::SeqCst);
            }
            Err(Refusal::LeaseLost) => drop(seen.lost.fetch_add(1, Ordering::SeqCst)),
            other => panic!("{other:?}"),
        }
    }
}

async fn canceller(scene: Arc<Scene>, seen: Arc<Seen>, n: usize) {
    let random = SeededRandom::new(2_000 + n as u64);
    while seen.goes_on() {
        tokio::time::sleep(Duration::from_millis(15 + random.below(20))).await;
        let target = {
            let submitted = seen.submitted.lock().unwrap();
            let count = submitted.len() as u64;
            // The latest wait, those before them run: both are of interest.
            let back = random.below(count.clamp(1, 60));
            submitted.iter().rev().nth(back as usize).copied()
        };
        let Some((tenant, item, job)) = target else {
            continue;
        };
        seen.running.lock().unwrap().doubtful.insert(item);
        seen.forget(job);
        match scene.engine(n).cancel(&World::scope(tenant), item).await {
            Ok(()) => {
                assert!(
                    seen.cancelled.lock().unwrap().insert(item),
                    "cancelled twice: {item}"
                );
                seen.settled.fetch_add(1, Ordering::SeqCst);
            }
            Err(Error::Refused(Refusal::Conflict { .. })) => {}
            Err(other) => panic!("{other:?}"),
        }
    }
}

async fn pauser(scene: Arc<Scene>, seen: Arc<Seen>, n: usize) {
    let random = SeededRandom::new(3_000 + n as u64);
    let who = World::operator();
    while seen.goes_on() {
        tokio::time::sleep(Duration::from_millis(20 + random.below(20))).await;
        let target = match random.below(6) {
            0 => PauseTarget::All,
            1 => PauseTarget::Pipeline(names::pipeline("work")),
            _ => PauseTarget::Lane(names::tenant("five"), names::pipeline("work")),
        };
        let id = scene.engine(n).pause(&who, target, "a break").await.unwrap();
        tokio::time::sleep(Duration::from_millis(random.below(15))).await;
        scene.engine(n + 1).resume(&who, id).await.unwrap();
    }
}

async fn reaper(scene: Arc<Scene>, seen: Arc<Seen>, n: usize) {
    while seen.goes_on() {
        let reaped = scene.engine(n).reap(None).await.unwrap();
        assert_eq!(reaped.failed, 0, "a hundred attempts are enough");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn folder(scene: Arc<Scene>, seen: Arc<Seen>) {
    let mut n = 0;
    while seen.goes_on() {
        n += 1;
        scene.engine(n).fold_run_once().await.unwrap();
        scene.engine(n).retain().await.unwrap();
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
}

/// Looks at the tables themselves, each time in one snapshot.
async fn sampler(scene: Arc<Scene>, seen: Arc<Seen>) {
    let sql = "select l.lane_key, l.lim, count(h.seq) from lane l left join hold h on h.lane_key = l.lane_key and h.kind = 1
               group by l.lane_key, l.lim having count(h.seq) > l.lim";
    while seen.goes_on() {
        let over = scene.plain.rows(sql).await;
        assert!(over.is_empty(), "lanes over their limit: {over:?}");
        seen.looks.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
}

async fn doctor(scene: Arc<Scene>, seen: Arc<Seen>) {
    while seen.goes_on() {
        let found = scene.engine(1).doctor().await.unwrap();
        assert!(
            found.is_empty(),
            "under load the doctor found:\n{}",
            found.join("\n")
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn each_item_ended_once(scene: &Scene, seen: &Seen) {
    let submitted = seen.submitted.lock().unwrap().clone();
    assert_eq!(submitted.len(), LANES.len() * JOBS_PER_LANE);
    let (completed, cancelled) = (
        seen.completed.lock().unwrap().clone(),
        seen.cancelled.lock().unwrap().clone(),
    );
    let rows = scene
        .plain
        .rows("select item_id, state, (select count(*) from log l where l.item_id = j.item_id and l.action = 'job.completed'),
               (select count(*) from log l where l.item_id = j.item_id and l.action = 'item.cancelled') from job j")
        .await;
    assert_eq!(rows.len(), submitted.len());
    let rows: BTreeMap<_, _> = rows.into_iter().map(|row| (row[0].clone(), row)).collect();
    for (_, item, job) in submitted {
        let said = match (completed.get(&item), cancelled.contains(&item)) {
            (Some(1), false) => ["2", "1", "0"],
            (None, true) => ["5", "0", "1"],
            other => panic!("item {item} (job {job}) was completed and cancelled so often: {other:?}"),
        };
        assert_eq!(rows[&item.uuid().simple().to_string()][1..], said, "item {item}");
    }
    assert_eq!(scene.plain.number("select count(*) from hold").await, 0);
}

/// Jobs are numbered in the order of their submission, and in a lane that runs one at a time they are first started by number.
async fn each_lane_kept_its_order(scene: &Scene, seen: &Seen) {
    let mut last = HashMap::new();
    for (tenant, _, job) in seen.submitted.lock().unwrap().iter() {
        let before = last.insert(*tenant, job.seq());
        assert!(before < Some(job.seq()), "{tenant}: numbers follow submissions");
    }
    let started = scene
        .plain
        .rows(
            "select l.seq from log l join lane_of o on o.lane_key = l.lane_key
               where o.tenant_id = 'one' and l.action = 'job.claimed' order by l.id",
        )
        .await;
    let mut known = HashSet::new();
    let first: Vec<u64> = started
        .iter()
        .map(|row| row[0].parse().unwrap())
        .filter(|seq| known.insert(*seq))
        .collect();
    assert!(first.is_sorted(), "first starts are out of order: {first:?}");
}

// ---------------------------------------------------------------------------------------------------------------------
// The same job, at the same moment.

#[derive(Debug, PartialEq, Eq)]
enum Won {
    Yes,
    No,
    Reaped(u64),
}

async fn of_complete_fail_reap_and_cancel_exactly_one_wins(scene: Arc<Scene>) {
    const ROUNDS: usize = 25;
    const JOBS: usize = 4;
    let definition = Pipeline {
        on_stale: OnStale::Fail,
        lease_ms: 1_000,
        max_attempts: 1,
        ..Pipeline::default()
    };
    scene.world.lanes(100, &["acme"]).await;
    scene.world.pipeline("work", definition).await;
    let (mut wins, mut reaped_in_all) = (BTreeMap::new(), 0);
    for round in 0..ROUNDS {
        scene.world.submit_many("acme", &format!("r{round}"), JOBS).await;
        let jobs = scene.world.claim("w", 100).await;
        assert_eq!(jobs.len(), JOBS);
        scene.world.pass_ms(1_001);
        let calls = contenders(&scene, &jobs, round);
        let mut winners: Vec<Vec<&str>> = vec![Vec::new(); JOBS];
        for (k, what, won) in at_once(calls).await {
            match won {
                Won::Yes => winners[k].push(what),
                Won::No => {}
                Won::Reaped(n) => reaped_in_all += n,
            }
        }
        for (job, winners) in jobs.iter().zip(winners) {
            let ended = ended_as(&scene, job).await;
            let winner = *winners.first().unwrap_or(&"reap");
            assert!(winners.len() <= 1, "job {} was won by {winners:?}", job.id);
            assert_eq!(ended, [expected(winner)], "job {} was won by {winner}", job.id);
            *wins.entry(winner).or_insert(0_u64) += 1;
        }
    }
    println!("wins: {wins:?}");
    assert_eq!(wins.get("reap").copied().unwrap_or(0), reaped_in_all);
    assert_eq!(wins.values().sum::<u64>() as usize, ROUNDS * JOBS);
}

/// For each job somebody who completes it, who fails it and who cancels it; for every other one also a reaper.
fn contenders(scene: &Scene, jobs: &[ClaimedJob], round: usize) -> Vec<Call<(usize, &'static str, Won)>> {
    // On PostgreSQL to cancel takes the longest way to the hold: the others wait a little, some less and some more.
    let random = SeededRandom::new(round as u64);
    let at_most = match &scene.plain {
        Plain::Sqlite(_) => 0,
        Plain::Postgres(_) => 9_000,
    };
    let late = || Duration::from_micros(random.below(at_most));
    let mut calls: Vec<Call<(usize, &'static str, Won)>> = Vec::new();
    for (k, job) in jobs.iter().enumerate() {
        let (id, token, item) = (job.id, job.token, job.item);
        let engines: Vec<_> = (0..4).map(|n| scene.engine(k + round + n).clone()).collect();
        let [a, b, c, d] = <[Engine; 4]>::try_from(engines).unwrap();
        let (completes, fails, reaps) = (late(), late(), late());
        calls.push(Box::pin(async move {
            tokio::time::sleep(completes).await;
            let said = a.complete(vec![Complete::new(id, token)]).await.unwrap();
            (k, "complete", won(&said[0]))
        }));
        calls.push(Box::pin(async move {
            tokio::time::sleep(fails).await;
            let failure = Failure {
                error: "no".to_owned(),
                step: None,
                retryable: false,
            };
            let fail = Fail {
                job: id,
                token,
                failure,
            };
            (k, "fail", won(&b.fail(vec![fail]).await.unwrap()[0]))
        }));
        calls.push(Box::pin(async move {
            match c.cancel(&World::scope("acme"), item).await {
                Ok(()) => (k, "cancel", Won::Yes),
                Err(Error::Refused(Refusal::Conflict { .. })) => (k, "cancel", Won::No),
                Err(other) => panic!("{other:?}"),
            }
        }));
        if k % 2 == 0 {
            calls.push(Box::pin(async move {
                tokio::time::sleep(reaps).await;
                (k, "reap", Won::Reaped(d.reap(None).await.unwrap().failed))
            }));
        }
    }
    calls
}

fn won<T>(said: &docket_core::Refused<T>) -> Won {
    match said {
        Ok(_) => Won::Yes,
        Err(Refusal::LeaseLost) => Won::No,
        Err(other) => panic!("{other:?}"),
    }
}

/// The state that the row has, and the words of the log, for each winner.
fn expected(winner: &str) -> String {
    match winner {
        "complete" => "2 job.completed".to_owned(),
        "fail" => "3 job.failed".to_owned(),
        "cancel" => "5 item.cancelled job.cancelled".to_owned(),
        _ => "3 job.stale".to_owned(),
    }
}

async fn ended_as(scene: &Scene, job: &ClaimedJob) -> Vec<String> {
    let (lane, seq) = (job.id.lane().0, job.id.seq().0);
    let state = scene
        .plain
        .rows(&format!(
            "select state, item_id from job where lane_key = {lane} and seq = {seq}"
        ))
        .await;
    let id = match &scene.plain {
        Plain::Sqlite(_) => format!("x'{}'", state[0][1]),
        Plain::Postgres(_) => format!("'{}'", state[0][1]),
    };
    let log = scene
        .plain
        .rows(&format!(
            "select action from log where item_id = {id} and action not in ('item.submitted', 'job.claimed') order by action"
        ))
        .await;
    let words: Vec<_> = log.into_iter().map(|row| row[0].clone()).collect();
    vec![format!("{} {}", state[0][0], words.join(" "))]
}

/// A cancellation that has to wait for a completion comes too late, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_that_comes_second_is_refused() {
    play(Database::postgres().await, 1, false, second_cancellation).await;
}

async fn second_cancellation(scene: Arc<Scene>) {
    scene.world.lanes(5, &["acme"]).await;
    let item = scene.world.submit_one("acme", "doc").await.id;
    let job = scene.world.claim_one("w").await;
    let url = scene.world.database.url.clone().unwrap();
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
        .await
        .unwrap();
    let driver = tokio::spawn(connection);
    // Somebody has the hold, so that both must wait in line: first the completion, then the cancellation.
    client
        .batch_execute("begin; select 1 from hold for update")
        .await
        .unwrap();
    let (first, second) = (scene.engine(0).clone(), scene.engine(0).clone());
    let complete = tokio::spawn(async move {
        first
            .complete(vec![Complete::new(job.id, job.token)])
            .await
            .unwrap()
            .pop()
    });
    waits_for_a_lock(&scene.plain, 1).await;
    let cancel = tokio::spawn(async move { second.cancel(&World::scope("acme"), item).await });
    waits_for_a_lock(&scene.plain, 2).await;
    client.batch_execute("commit").await.unwrap();
    assert!(complete.await.unwrap().unwrap().is_ok());
    let said = cancel.await.unwrap();
    assert!(
        matches!(said, Err(Error::Refused(Refusal::Conflict { .. }))),
        "the job was completed, yet its cancellation was answered {said:?}"
    );
    assert_eq!(
        scene.world.story("acme", item).await,
        ["item.submitted", "job.claimed", "job.completed"]
    );
    drop(client);
    driver.await.unwrap().ok();
}

/// Until so many of the database's transactions wait for a lock.
async fn waits_for_a_lock(plain: &Plain, n: i64) {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'";
    for _ in 0..500 {
        if plain.number(sql).await >= n {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nobody waits");
}

/// A job is claimed and completed while somebody cancels it from where it still waits: one of the two has it.
async fn a_job_in_the_tail_is_claimed_or_cancelled_never_both(scene: Arc<Scene>) {
    const ROUNDS: usize = 60;
    scene.world.lanes(100, &["acme"]).await;
    let random = SeededRandom::new(7);
    let mut cancelled = 0;
    for round in 0..ROUNDS {
        let item = scene.world.submit_one("acme", &format!("r{round}")).await.id;
        let (worker, canceller) = (scene.engine(round).clone(), scene.engine(round + 1).clone());
        let claim = Claim {
            pipeline: names::pipeline("work"),
            worker: names::worker("w"),
            limit: 1,
            lease_ms: None,
            wait_ms: 0,
        };
        let run: Call<bool> = Box::pin(async move {
            let Some(job) = worker.claim(claim).await.unwrap().pop() else {
                return false;
            };
            let done = Complete::new(job.id, job.token);
            won(&worker.complete(vec![done]).await.unwrap()[0]) == Won::Yes
        });
        let late = Duration::from_micros(random.below(6_000));
        let take_back: Call<bool> = Box::pin(async move {
            tokio::time::sleep(late).await;
            match canceller.cancel(&World::scope("acme"), item).await {
                Ok(()) => true,
                Err(Error::Refused(Refusal::Conflict { .. })) => false,
                Err(other) => panic!("{other:?}"),
            }
        });
        let said = at_once(vec![run, take_back]).await;
        assert!(said[0] != said[1], "completed and cancelled: {said:?}");
        cancelled += usize::from(said[1]);
        let state = scene
            .plain
            .number("select state from job order by seq desc limit 1")
            .await;
        assert_eq!(state, if said[1] { 5 } else { 2 });
    }
    println!("{cancelled} of {ROUNDS} were cancelled");
}

// ---------------------------------------------------------------------------------------------------------------------
// Intake.

async fn a_free_tenant_takes_exactly_ten_of_fifty(scene: Arc<Scene>) {
    scene.world.tenant_of_tier("free", "free").await;
    scene.world.collection("free", "free", None).await;
    let calls = (0..50)
        .map(|n| {
            let engine = scene.engine(n).clone();
            async move {
                let call = Submit {
                    collection: names::collection("free"),
                    items: vec![World::item(&format!("doc-{n}"))],
                    idempotency_key: None,
                };
                engine.submit(&World::scope("free"), call).await.unwrap().results[0].clone()
            }
        })
        .collect();
    let said = at_once(calls).await;
    let taken = said.iter().filter(|result| result.is_ok()).count();
    assert_eq!(taken, 10);
    for refusal in said.into_iter().filter_map(Result::err) {
        assert!(
            matches!(refusal, Refusal::RateLimited { limit: 10, .. }),
            "{refusal:?}"
        );
    }
    assert_eq!(scene.plain.number("select count(*) from item").await, 10);
    assert_eq!(
        scene
            .plain
            .number("select intake_next from tenant where id = 'free'")
            .await,
        10
    );
}

async fn a_free_tenant_takes_exactly_ten_of_fifty_files(scene: Arc<Scene>) {
    scene.world.tenant_of_tier("free", "free").await;
    scene.world.collection("free", "free", None).await;
    let calls = (0..50)
        .map(|n| {
            let engine = scene.engine(n).clone();
            async move {
                let request = docket_engine::UploadRequest {
                    collection: names::collection("free"),
                    filename: None,
                    media_type: "text/plain".to_owned(),
                    digest: None,
                    size: None,
                    details: ItemDetails::default(),
                };
                match engine.upload(&World::scope("free"), request).await {
                    Ok(docket_engine::UploadStart::Ready(mut upload)) => {
                        upload
                            .write(format!("file {n}").into_bytes().into())
                            .await
                            .unwrap();
                        upload.finish().await.unwrap();
                        true
                    }
                    Err(Error::Refused(Refusal::RateLimited { limit: 10, .. })) => false,
                    other => panic!("{other:?}"),
                }
            }
        })
        .collect();
    let taken = at_once(calls).await.into_iter().filter(|taken| *taken).count();
    assert_eq!(taken, 10);
    assert_eq!(scene.plain.number("select count(*) from item").await, 10);
    assert_eq!(scene.plain.number("select count(*) from upload").await, 0);
}

async fn the_same_external_id_from_many_at_once_is_one_item(scene: Arc<Scene>) {
    scene.world.lanes(5, &["acme"]).await;
    for round in 0..6 {
        let calls = (0..32)
            .map(|n| {
                let engine = scene.engine(n).clone();
                // Each call has one of its own beside the one that all want.
                let items = vec![
                    World::item(&format!("own-{round}-{n}")),
                    World::item(&format!("shared-{round}")),
                ];
                async move {
                    let call = Submit {
                        collection: names::collection("acme"),
                        items,
                        idempotency_key: None,
                    };
                    engine.submit(&World::scope("acme"), call).await.unwrap().results
                }
            })
            .collect();
        let said = at_once(calls).await;
        let shared: Vec<_> = said.iter().map(|results| results[1].clone().unwrap()).collect();
        assert!(shared.iter().all(|item| item.id == shared[0].id));
        assert_eq!(shared.iter().filter(|item| !item.duplicate).count(), 1);
        assert!(said.iter().all(|results| !results[0].as_ref().unwrap().duplicate));
    }
    assert_eq!(scene.plain.number("select count(*) from item").await, 6 * 33);
    assert_eq!(
        scene
            .plain
            .number("select count(*) from log where action = 'item.submitted'")
            .await,
        6 * 33
    );
}

async fn the_same_idempotency_key_from_many_at_once_has_one_answer(scene: Arc<Scene>) {
    scene.world.lanes(5, &["acme"]).await;
    let calls = (0..32)
        .map(|n| {
            let engine = scene.engine(n).clone();
            async move {
                let call = Submit {
                    collection: names::collection("acme"),
                    items: vec![SubmitItem {
                        payload: json!({ "n": 1 }),
                        details: ItemDetails::default(),
                    }],
                    idempotency_key: Some("key".to_owned()),
                };
                engine.submit(&World::scope("acme"), call).await.unwrap()
            }
        })
        .collect();
    let said = at_once(calls).await;
    assert_eq!(said.iter().filter(|answer| !answer.replayed).count(), 1);
    assert!(said.iter().all(|answer| answer.results == said[0].results));
    assert!(said.iter().all(|answer| !answer.request_differs));
    assert_eq!(scene.plain.number("select count(*) from item").await, 1);
}

// ---------------------------------------------------------------------------------------------------------------------
// Operators.

async fn pauses_set_and_lifted_at_once_agree_with_their_lane(scene: Arc<Scene>) {
    scene.world.lanes(1, &["acme"]).await;
    let calls = (0..8)
        .map(|n| {
            let scene = Arc::clone(&scene);
            async move {
                let who = World::operator();
                for round in 0..12 {
                    let target = PauseTarget::Lane(names::tenant("acme"), names::pipeline("work"));
                    let id = scene.engine(n).pause(&who, target, "test").await.unwrap();
                    scene.engine(n + round).resume(&who, id).await.unwrap();
                    let found = scene.engine(n).doctor().await.unwrap();
                    assert!(found.is_empty(), "{found:?}");
                }
            }
        })
        .collect();
    at_once(calls).await;
    assert!(scene.world.engine.pauses().await.unwrap().is_empty());
    scene.world.submit_one("acme", "doc").await;
    scene.world.claim_one("w").await;
}

async fn an_item_retried_by_many_at_once_gets_one_job(scene: Arc<Scene>) {
    let definition = Pipeline {
        max_attempts: 1,
        ..Pipeline::default()
    };
    scene.world.lanes(1, &["acme"]).await;
    scene.world.pipeline("work", definition).await;
    let item = scene.world.submit_one("acme", "doc").await.id;
    for round in 1..=5 {
        let job = scene.world.claim_one("w").await;
        scene.world.fail(job.id, job.token, "no").await.unwrap();
        let calls = (0..16)
            .map(|n| {
                let engine = scene.engine(n).clone();
                async move { engine.retry(&World::scope("acme"), item).await }
            })
            .collect();
        let said = at_once(calls).await;
        assert_eq!(said.iter().filter(|result| result.is_ok()).count(), 1);
        for error in said.into_iter().filter_map(Result::err) {
            assert!(
                matches!(error.refusal(), Some(Refusal::NotFailed { .. })),
                "{error:?}"
            );
        }
        assert_eq!(scene.plain.number("select count(*) from job").await, round + 1);
    }
}
