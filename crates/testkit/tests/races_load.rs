//! The great race: many workers, submitters, cancellers, pausers, reapers and folders at once, on SQLite, on PostgreSQL with one
//! server that has 24 connections for the tuned operations, and on PostgreSQL with sixteen servers.
//!
//! Held here: P1 (order in a lane), P2 (never over the limit), P5 (a token is given once), A2 and A4 (several servers; counts
//! that are right at any moment).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on, and says what it has measured"
)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use docket_core::Refusal;
use docket_core::backoff::Backoff;
use docket_core::id::{ItemId, JobId, LaneKey};
use docket_core::job::Failure;
use docket_core::lease::LeaseToken;
use docket_core::pipeline::Pipeline;
use docket_core::random::{Random as _, SeededRandom};
use docket_engine::{Claim, ClaimedJob, Complete, Engine, Error, Fail, PauseTarget, Release, Submit};
use docket_testkit::race::Scene;
use docket_testkit::{World, everywhere, names};
use tokio::task::JoinSet;

everywhere! {
    nothing_is_over_the_limit_out_of_order_lost_or_doubled, real_time = true;
}

const LANES: [(&str, u32); 4] = [("one", 1), ("two", 2), ("five", 5), ("twenty", 20)];
/// Each lane has two submitters, on different servers.
const SUBMITTERS: usize = 2 * LANES.len();
const JOBS_PER_SUBMITTER: usize = 110;
const JOBS: usize = SUBMITTERS * JOBS_PER_SUBMITTER;
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
    submitted: Mutex<Vec<Submitted>>,
    settled: AtomicUsize,
    crashes: AtomicU64,
    lost: AtomicU64,
    looks: AtomicU64,
    /// The most transactions that were open at one moment.
    side_by_side: AtomicUsize,
    over: AtomicBool,
}

#[derive(Clone, Copy)]
struct Submitted {
    /// Which submitter.
    by: usize,
    tenant: &'static str,
    item: ItemId,
    job: JobId,
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
    for n in 0..SUBMITTERS {
        work.spawn(submitter(Arc::clone(&scene), Arc::clone(&seen), n));
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
        "{} completed, {} cancelled, {} crashes, {} leases lost, {} looks at the tables, most at once {:?}, \
         {} transactions side by side",
        seen.completed.lock().unwrap().len(),
        seen.cancelled.lock().unwrap().len(),
        seen.crashes.load(Ordering::SeqCst),
        seen.lost.load(Ordering::SeqCst),
        seen.looks.load(Ordering::SeqCst),
        seen.most.lock().unwrap().values().collect::<Vec<_>>(),
        seen.side_by_side.load(Ordering::SeqCst),
    );
    assert!(
        seen.side_by_side.load(Ordering::SeqCst) >= scene.servers(),
        "the servers did not race"
    );
    each_item_ended_once(&scene, &seen).await;
    each_lane_kept_its_order(&scene, &seen).await;
}

async fn submitter(scene: Arc<Scene>, seen: Arc<Seen>, by: usize) {
    let tenant = LANES[by % LANES.len()].0;
    let random = SeededRandom::new(by as u64);
    let mut sent = 0;
    while sent < JOBS_PER_SUBMITTER {
        let size = (1 + random.below(6) as usize).min(JOBS_PER_SUBMITTER - sent);
        let items = (sent..sent + size)
            .map(|k| World::item(&format!("{tenant}-{by}-{k}")))
            .collect();
        let call = Submit {
            collection: names::collection(tenant),
            items,
            idempotency_key: None,
        };
        let answer = scene
            .engine(by)
            .submit(&World::scope(tenant), call)
            .await
            .unwrap();
        for result in answer.results {
            let new = result.unwrap();
            assert!(!new.duplicate);
            let (item, job) = (new.id, new.job.unwrap());
            seen.submitted.lock().unwrap().push(Submitted {
                by,
                tenant,
                item,
                job,
            });
        }
        sent += size;
        tokio::time::sleep(Duration::from_millis(random.below(15))).await;
    }
}

async fn worker(scene: Arc<Scene>, seen: Arc<Seen>, n: usize) {
    let random = SeededRandom::new(1_000 + n as u64);
    while seen.settled.load(Ordering::SeqCst) < JOBS {
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
        let Some(Submitted {
            tenant, item, job, ..
        }) = target
        else {
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
        let open = scene.transactions_at_once().await;
        seen.side_by_side.fetch_max(open, Ordering::SeqCst);
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
    assert_eq!(submitted.len(), JOBS);
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
    for Submitted { item, job, .. } in submitted {
        let said = match (completed.get(&item), cancelled.contains(&item)) {
            (Some(1), false) => ["2", "1", "0"],
            (None, true) => ["5", "0", "1"],
            other => panic!("item {item} (job {job}) was completed and cancelled so often: {other:?}"),
        };
        assert_eq!(rows[&item.uuid().simple().to_string()][1..], said, "item {item}");
    }
    assert_eq!(scene.plain.number("select count(*) from hold").await, 0);
}

/// Jobs are numbered in the order of their submission, and in every lane first started by number: a lane is in one claim's hands at a
/// time, whatever its limit.
async fn each_lane_kept_its_order(scene: &Scene, seen: &Seen) {
    let mut last = HashMap::new();
    for Submitted { by, job, .. } in seen.submitted.lock().unwrap().iter() {
        let before = last.insert(*by, job.seq());
        assert!(before < Some(job.seq()), "numbers follow submitter {by}'s calls");
    }
    for (tenant, _) in LANES {
        let started = scene
            .plain
            .rows(&format!(
                "select l.seq from log l join lane_of o on o.lane_key = l.lane_key
                 where o.tenant_id = '{tenant}' and l.action = 'job.claimed' order by l.id"
            ))
            .await;
        let mut known = HashSet::new();
        let first: Vec<u64> = started
            .iter()
            .map(|row| row[0].parse().unwrap())
            .filter(|seq| known.insert(*seq))
            .collect();
        assert!(!first.is_empty(), "{tenant}: something was started");
        assert!(
            first.is_sorted(),
            "{tenant}: first starts are out of order: {first:?}"
        );
    }
}
