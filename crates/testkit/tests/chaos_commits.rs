//! Answers to commits are lost on the way from PostgreSQL (rule A3): what became of them is found out and never guessed, and where
//! it cannot be found out, that is said.

#![expect(
    clippy::unwrap_used,
    reason = "a test stops where it cannot go on, and says what it has measured"
)]

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use docket_core::random::{Random as _, SeededRandom};
use docket_core::review::Outcome;
use docket_core::scope::Reviewing;
use docket_engine::{Claim, Complete, EmptyReason, Engine, Error, Pop};
use docket_testkit::desk::{decision, reviewer};
use docket_testkit::load;
use docket_testkit::outage::{plain_client, server, submit, waiting_claim, within};
use docket_testkit::proxy::Proxy;
use docket_testkit::{Cluster, Database, Plain, World, names};
use serde_json::json;

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

/// The same for reviewers: whoever pops is given what nobody else holds, and each decision is made once (A3, V5, V9).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_whose_answer_was_lost_is_resolved_not_guessed() {
    const REVIEWS: usize = 120;
    within(90, async {
        let database = Database::postgres().await;
        let url = database.url.clone().unwrap();
        let proxy = Proxy::before(&url).await;
        let through = proxy.url(&url);
        let world = World::new(database).await;
        world.desk("acme", json!({})).await;
        for n in 0..REVIEWS {
            world.submit_one("acme", &format!("r{n}")).await;
        }
        let engine = server(&world.database, |postgres| postgres.url = through).await;
        proxy.mood.every.store(3, Ordering::SeqCst);
        let reviewers: Vec<_> = (0..4)
            .map(|n| tokio::spawn(decide_all(engine.clone(), reviewer("acme", &format!("r{n}")))))
            .collect();
        let mut decided = 0;
        for reviewer in reviewers {
            decided += reviewer.await.unwrap();
        }
        let (after, before) = (&proxy.mood.cut_after, &proxy.mood.cut_before);
        assert!(after.load(Ordering::SeqCst) > 10 && before.load(Ordering::SeqCst) > 5);
        assert_eq!(decided, REVIEWS);
        let plain = Plain::of(&world.database);
        for action in ["review.popped", "review.approved"] {
            let entries = format!("select count(*) from log where action = '{action}'");
            assert_eq!(plain.number(&entries).await, REVIEWS as i64, "{action}");
        }
        let found = engine.doctor().await.unwrap();
        assert!(found.is_empty(), "{found:?}");
    })
    .await;
}

/// What is written last is sent last: where the database refuses it, nothing of the decision is left, and the caller hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_whose_log_cannot_be_written_is_none() {
    within(60, async {
        let world = World::new(Database::postgres().await).await;
        world.desk("acme", json!({})).await;
        world.submit_one("acme", "r").await;
        let held = world.pop_one("acme", "ann").await.review;
        let refuse = "create function refuse() returns trigger language plpgsql as
                        $$ begin raise exception 'the log is full'; end $$;
                      create trigger refuse before insert on log for each row when (new.action = 'review.approved')
                        execute function refuse()";
        let other = plain_client(world.database.url.as_deref().unwrap()).await.unwrap();
        other.batch_execute(refuse).await.unwrap();
        let decide = async || {
            let decision = Ok(decision(held.id, Outcome::Approved));
            world.engine.review_commit(&reviewer("acme", "ann"), vec![decision]).await
        };
        let error = decide().await.unwrap_err();
        assert!(format!("{error:?}").contains("the log is full"), "{error:?}");
        let plain = Plain::of(&world.database);
        let decided = "select count(*) from review where decided_at_ms is not null";
        assert_eq!(plain.number(decided).await, 0);
        world.assert_healthy().await;
        other.batch_execute("drop trigger refuse on log").await.unwrap();
        let decided = decide().await.unwrap().remove(0).unwrap();
        assert!(!decided.repeated);
        world.assert_healthy().await;
    })
    .await;
}

/// Pops one and decides it until there are none; how many.
async fn decide_all(engine: Engine, who: Reviewing) -> usize {
    let pop = Pop {
        collection: names::collection("acme"),
        limit: 1,
        strategy: None,
        lock_timeout_ms: None,
        wait_ms: 0,
    };
    let mut decided = 0;
    loop {
        let popped = engine.review_pop(&who, pop.clone(), std::future::pending());
        let popped = popped.await.unwrap();
        if popped
            .empty
            .is_some_and(|empty| empty.reason == EmptyReason::None)
        {
            return decided;
        }
        for entry in popped.entries {
            assert_eq!(
                entry.review.hand.token.0, 1,
                "it was given out before, and nobody was told"
            );
            let decision = Ok(decision(entry.review.id, Outcome::Approved));
            let results = engine.review_commit(&who, vec![decision]).await.unwrap();
            assert!(
                results.into_iter().all(|result| !result.unwrap().repeated),
                "it was decided before, and nobody was told"
            );
            decided += 1;
        }
    }
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
                    Err(Error::UnknownCommit { reason, .. }) => {
                        assert_eq!(reason, "the database could not tell in time");
                        unknown += 1;
                    }
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

/// Every commit is lost on its way to the server, for longer than anybody is patient. That is no commit of which nobody knows: it did
/// not happen, and the caller hears that it may try again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_known_to_be_lost_is_not_said_to_be_unknown() {
    within(60, async {
        let database = Database::postgres().await;
        let url = database.url.clone().unwrap();
        let proxy = Proxy::before(&url).await;
        let through = proxy.url(&url);
        let engine = server(&database, |postgres| {
            postgres.url = through;
            postgres.patience = Duration::from_secs(1);
        })
        .await;
        load::prepare(&engine).await.unwrap();
        proxy.mood.only_before.store(true, Ordering::SeqCst);
        proxy.mood.every.store(1, Ordering::SeqCst);
        let error = submit(&engine, "one", "doc").await.unwrap_err();
        assert!(
            proxy.mood.cut_before.load(Ordering::SeqCst) > 1,
            "it was tried again"
        );
        assert!(error.is_transient(), "{error:?}");
        assert!(error.to_string().contains("nothing of it happened"), "{error}");
        proxy.mood.every.store(0, Ordering::SeqCst);
        submit(&engine, "one", "doc").await.unwrap();
        let plain = Plain::of(&database);
        assert_eq!(plain.number("select count(*) from item").await, 1);
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
