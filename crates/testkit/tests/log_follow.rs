//! Following the log: everything once, in order, on any server, whoever holds a transaction open (rule L4).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use docket_engine::{Engine, Entry, Follower, LogFilter, LogPosition};
use docket_testkit::{Database, World, WorldConfig, names, on_both};

async fn next(follower: &mut Follower) -> Vec<Arc<Entry>> {
    let next = tokio::time::timeout(Duration::from_secs(20), follower.next()).await;
    next.unwrap().unwrap()
}

async fn nothing(follower: &mut Follower) {
    let next = tokio::time::timeout(Duration::from_millis(700), follower.next()).await;
    assert!(next.is_err(), "nothing is to come: {next:?}");
}

fn actions(entries: &[Arc<Entry>]) -> Vec<&str> {
    entries.iter().map(|entry| entry.action.as_str()).collect()
}

async fn follow(engine: &Engine, after: Option<LogPosition>) -> Follower {
    let follower = engine
        .follow_all(&World::operator(), None, LogFilter::default(), after)
        .await;
    follower.unwrap()
}

/// Reads until this many entries were seen.
async fn take(follower: &mut Follower, n: usize) -> Vec<Arc<Entry>> {
    let mut seen = Vec::new();
    while seen.len() < n {
        seen.extend(next(follower).await);
    }
    seen
}

/// Waits until the log reaches its end: while a transaction is open, another test's among them, "now" is where that began, and what was
/// set up just before would come first.
async fn reach_the_end(world: &World) {
    let entries = world.number("select count(*) from log").await;
    let mut all = follow(&world.engine, Some(LogPosition::default())).await;
    take(&mut all, usize::try_from(entries).unwrap()).await;
}

on_both! {
    async fn a_follower_sees_what_happens_from_now_on(world: &World) {
        world.lanes(1, &["acme"]).await;
        reach_the_end(world).await;
        let mut follower = follow(&world.engine, None).await;
        assert_eq!(world.engine.followers(), 1);
        let id = world.submit_one("acme", "doc-1").await.id;
        let seen = next(&mut follower).await;
        assert_eq!((actions(&seen), seen[0].item), (vec!["item.submitted"], Some(id)));
        let job = world.claim_one("w1").await;
        world.complete(job.id, job.token).await.unwrap();
        assert_eq!(actions(&take(&mut follower, 2).await), ["job.claimed", "job.completed"]);
        nothing(&mut follower).await;
        drop(follower);
        assert_eq!(world.engine.followers(), 0);
    }

    async fn a_follower_goes_on_where_another_stopped(world: &World) {
        world.lanes(1, &["acme"]).await;
        let mut first = follow(&world.engine, Some(LogPosition::default())).await;
        let begun = next(&mut first).await.len();
        let mut expected = Vec::new();
        for round in 0..5 {
            world.submit_many("acme", &format!("r{round}"), 10).await;
            let seen = take(&mut first, 10).await;
            expected.extend(seen.iter().map(|entry| entry.position));
        }
        let after: LogPosition = expected[24].to_string().parse().unwrap();
        drop(first);
        let mut second = follow(&world.engine, Some(after)).await;
        let rest: Vec<_> = take(&mut second, 25).await.iter().map(|entry| entry.position).collect();
        assert_eq!(rest, expected[25..]);
        let mut third = follow(&world.engine, Some(LogPosition::default())).await;
        let all: Vec<_> = take(&mut third, begun + 50).await.iter().map(|entry| entry.position).collect();
        assert_eq!(all[begun..], expected);
    }

    async fn a_tenant_follows_its_own_log_and_nothing_else(world: &World) {
        world.lanes(1, &["acme", "bolt"]).await;
        world.collection("other", "acme", Some("work")).await;
        let scope = World::scope("acme");
        let only = LogFilter { collection: Some(names::collection("acme")), ..LogFilter::default() };
        reach_the_end(world).await;
        let mut all = world.engine.follow(&scope, LogFilter::default(), None).await.unwrap();
        let mut some = world.engine.follow(&scope, only, None).await.unwrap();
        world.submit_many("bolt", "b", 300).await;
        let id = world.submit_one("acme", "a").await.id;
        world.pipeline("more", docket_core::pipeline::Pipeline::default()).await;
        for follower in [&mut all, &mut some] {
            let seen = next(follower).await;
            assert_eq!((seen.len(), seen[0].item), (1, Some(id)));
            nothing(follower).await;
        }
        let foreign = LogFilter { collection: Some(names::collection("bolt")), ..LogFilter::default() };
        let refused = world.engine.follow(&scope, foreign, None).await.unwrap_err();
        assert_eq!(refused.refusal().unwrap().code(), "not_found");
    }

    async fn a_position_that_the_log_does_not_reach_is_refused(world: &World) {
        let refused = world.engine.follow_all(&World::operator(), None, LogFilter::default(), Some(LogPosition::LAST)).await;
        assert_eq!(refused.unwrap_err().refusal().unwrap().code(), "validation_failed");
    }

    async fn one_who_reads_slowly_misses_nothing(world: &World) {
        world.lanes(1, &["acme"]).await;
        reach_the_end(world).await;
        let mut slow = follow(&world.engine, None).await;
        world.submit_one("acme", "first").await;
        let mut seen = next(&mut slow).await;
        // More than the ring holds.
        for round in 0..10 {
            world.submit_many("acme", &format!("r{round}"), 1_000).await;
        }
        seen.extend(take(&mut slow, 10_000).await);
        let positions: Vec<_> = seen.iter().map(|entry| entry.position).collect();
        assert_eq!(positions.len(), 10_001);
        assert!(positions.windows(2).all(|pair| pair[0] < pair[1]));
        nothing(&mut slow).await;
    }

    async fn what_is_handed_over_at_once_is_bounded_by_bytes(world: &World) {
        world.lanes(1, &["acme"]).await;
        reach_the_end(world).await;
        let mut near = follow(&world.engine, None).await;
        let begin = near.position();
        let large = "x".repeat(200_000);
        let row = format!("(1, 'acme', 'field.corrected', 'reviewer:ann', '{large}')");
        let rows = vec![row; 12].join(", ");
        world.database.execute(&format!("insert into log (at_ms, tenant_id, action, actor, new) values {rows}")).await.unwrap();
        // One reads what the others read, one is behind and reads by itself, one looks for its own only.
        let mut far = follow(&world.engine, Some(begin)).await;
        let mut own = world.engine.follow(&World::scope("acme"), LogFilter::default(), Some(begin)).await.unwrap();
        for follower in [&mut near, &mut far, &mut own] {
            let mut seen = 0;
            while seen < 12 {
                let entries = next(follower).await;
                let large = entries.iter().filter(|entry| entry.new.is_some()).count();
                assert!(large <= 2, "{large} large entries at once");
                seen += large;
            }
            assert_eq!(seen, 12);
            nothing(follower).await;
        }
    }

    async fn an_entry_reaches_its_follower_before_the_next_look(world: &World) {
        world.lanes(1, &["acme"]).await;
        reach_the_end(world).await;
        let mut follower = follow(&world.engine, None).await;
        let mut took = Vec::new();
        for n in 0..21 {
            world.submit_one("acme", &format!("doc-{n}")).await;
            #[expect(clippy::disallowed_methods, reason = "it is real time that counts here")]
            let committed = Instant::now();
            next(&mut follower).await;
            took.push(committed.elapsed());
        }
        took.sort();
        // A follower that nobody wakes looks every 500 ms, so it would wait for 250 ms at the median.
        assert!(took[10] < Duration::from_millis(200), "{took:?}");
    }
}

/// Follows from a position, giving up and beginning anew after a few batches, until told to stop and nothing more comes.
async fn follow_with_breaks(engines: Vec<Engine>, done: Arc<AtomicBool>) -> Vec<LogPosition> {
    let (mut seen, mut after) = (Vec::new(), LogPosition::default());
    for turn in 0.. {
        let mut follower = follow(&engines[turn % engines.len()], Some(after)).await;
        for _ in 0..5 {
            let patience = Duration::from_millis(1_500);
            match tokio::time::timeout(patience, follower.next()).await {
                Ok(entries) => {
                    let entries = entries.unwrap();
                    seen.extend(entries.iter().map(|entry| entry.position));
                    after = *seen.last().unwrap();
                }
                Err(_) if done.load(Ordering::SeqCst) => return seen,
                Err(_) => {}
            }
        }
    }
    unreachable!("it ends when nothing more comes")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn followers_of_two_servers_see_every_entry_once_under_load() {
    let settings = WorldConfig {
        runners: 4,
        real_time: true,
        ..WorldConfig::default()
    };
    let world = World::with(Database::postgres().await, &settings).await;
    let another = world.another_engine(&settings).await;
    world.lanes(20, &["acme", "bolt", "core"]).await;
    let done = Arc::new(AtomicBool::new(false));
    let engines = vec![world.engine.clone(), another.clone()];
    let steady = tokio::spawn(follow_with_breaks(vec![another.clone()], Arc::clone(&done)));
    let moving = tokio::spawn(follow_with_breaks(engines.clone(), Arc::clone(&done)));
    let holder = hold_open(world.database.url.clone().unwrap());
    let writers: Vec<_> = ["acme", "bolt", "core"]
        .into_iter()
        .enumerate()
        .map(|(n, tenant)| tokio::spawn(work(engines[n % 2].clone(), tenant)))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    holder.await.unwrap();
    done.store(true, Ordering::SeqCst);
    let all = docket_testkit::Plain::of(&world.database)
        .rows("select tx, id from log order by tx, id")
        .await;
    let all: Vec<_> = all.iter().map(|row| format!("{}-{}", row[0], row[1])).collect();
    assert!(all.len() > 1_500, "{}", all.len());
    for (name, follower) in [("steady", steady), ("moving", moving)] {
        let seen: Vec<_> = follower.await.unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(seen.len(), all.len(), "{name}");
        assert_eq!(seen, all, "{name}");
    }
}

/// Somebody's transactions that are open for long, one after another, and that write to the log at their end.
fn hold_open(url: String) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls)
            .await
            .unwrap();
        tokio::spawn(connection);
        for _ in 0..6 {
            client
                .batch_execute("begin; select pg_current_xact_id()")
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            let late = "insert into log (at_ms, tenant_id, action, actor) values (1, 'acme', 'item.submitted', 'late'); commit";
            client.batch_execute(late).await.unwrap();
        }
    })
}

/// Submits, claims and completes.
async fn work(engine: Engine, tenant: &'static str) {
    for round in 0..25 {
        let items = (0..8)
            .map(|n| World::item(&format!("{tenant}-{round}-{n}")))
            .collect();
        let call = docket_engine::Submit {
            collection: names::collection(tenant),
            items,
            idempotency_key: None,
        };
        engine.submit(&World::scope(tenant), call).await.unwrap();
        let claim = docket_engine::Claim {
            pipeline: names::pipeline("work"),
            worker: names::worker(tenant),
            limit: 8,
            lease_ms: None,
            wait_ms: 0,
        };
        let jobs = engine.claim(claim).await.unwrap();
        let ended = jobs
            .iter()
            .map(|job| docket_engine::Complete::new(job.id, job.token))
            .collect();
        engine.complete(ended).await.unwrap();
    }
}
