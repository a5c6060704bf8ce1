//! Races for a single thing, on SQLite, on PostgreSQL and on PostgreSQL with sixteen servers: the same job, settled and cancelled at
//! the same moment (P5, P13); the same item, retried by many (P9); the same lane, paused and resumed by many (P13).

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where it cannot go on, and says what it has measured"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use docket_core::Refusal;
use docket_core::job::Failure;
use docket_core::pipeline::{OnStale, Pipeline};
use docket_core::random::{Random as _, SeededRandom};
use docket_engine::{Claim, ClaimedJob, Complete, Engine, Error, Fail, PauseTarget};
use docket_testkit::race::{Call, Scene, at_once, play};
use docket_testkit::{Database, World, everywhere, names};

everywhere! {
    of_complete_fail_reap_and_cancel_exactly_one_wins, real_time = false;
    a_job_in_the_tail_is_claimed_or_cancelled_never_both, real_time = false;
    pauses_set_and_lifted_at_once_agree_with_their_lane, real_time = false;
    an_item_retried_by_many_at_once_gets_one_job, real_time = false;
}

#[derive(Debug, PartialEq, Eq)]
enum Won {
    Yes,
    No,
    Reaped(u64),
}

async fn of_complete_fail_reap_and_cancel_exactly_one_wins(scene: Arc<Scene>) {
    const ROUNDS: usize = 48;
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
    assert_eq!(wins.len(), 4, "each of the four wins sometimes: {wins:?}");
    assert_eq!(wins.get("reap").copied().unwrap_or(0), reaped_in_all);
    assert_eq!(wins.values().sum::<u64>() as usize, ROUNDS * JOBS);
}

/// For each job somebody who completes it, who fails it and who cancels it; for every other one also a reaper.
fn contenders(scene: &Scene, jobs: &[ClaimedJob], round: usize) -> Vec<Call<(usize, &'static str, Won)>> {
    // Their ways to the hold have different lengths, and others on each database: one of them begins at once, and the others wait for a
    // time, in some rounds not at all and in some for long.
    let random = SeededRandom::new(round as u64);
    let at_most = [0, 3_000, 10_000, 40_000][round % 4];
    let late = |k: usize, contender: usize| match (round / 4 + k) % 4 == contender {
        true => Duration::ZERO,
        false => Duration::from_micros(random.below(at_most)),
    };
    let mut calls: Vec<Call<(usize, &'static str, Won)>> = Vec::new();
    for (k, job) in jobs.iter().enumerate() {
        let (id, token, item) = (job.id, job.token, job.item);
        let engines: Vec<_> = (0..4).map(|n| scene.engine(k + round + n).clone()).collect();
        let [a, b, c, d] = <[Engine; 4]>::try_from(engines).unwrap();
        let [completes, fails, cancels, reaps] = [0, 1, 2, 3].map(|contender| late(k, contender));
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
            tokio::time::sleep(cancels).await;
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
    let id = scene.plain.id(&state[0][1]);
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
    // Somebody has the hold, so that both must wait in line: first the completion, then the cancellation.
    let holder = scene.plain.begin("select 1 from hold for update").await;
    let (first, second) = (scene.engine(0).clone(), scene.engine(0).clone());
    let complete = tokio::spawn(async move {
        first
            .complete(vec![Complete::new(job.id, job.token)])
            .await
            .unwrap()
            .pop()
    });
    scene.plain.until_waiting(1).await;
    let cancel = tokio::spawn(async move { second.cancel(&World::scope("acme"), item).await });
    scene.plain.until_waiting(2).await;
    holder.commit().await;
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
}

/// A job is claimed and completed while somebody cancels it from where it still waits: one of the two has it.
async fn a_job_in_the_tail_is_claimed_or_cancelled_never_both(scene: Arc<Scene>) {
    const ROUNDS: usize = 120;
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
        // In every other round the worker begins later, else the canceller, by little or by much.
        let late = Duration::from_micros(random.below([1_000, 4_000, 20_000, 80_000][round / 2 % 4]));
        let (starts, cancels) = match round % 2 {
            0 => (late, Duration::ZERO),
            _ => (Duration::ZERO, late),
        };
        let run: Call<bool> = Box::pin(async move {
            tokio::time::sleep(starts).await;
            let Some(job) = worker.claim(claim).await.unwrap().pop() else {
                return false;
            };
            let done = Complete::new(job.id, job.token);
            won(&worker.complete(vec![done]).await.unwrap()[0]) == Won::Yes
        });
        let take_back: Call<bool> = Box::pin(async move {
            tokio::time::sleep(cancels).await;
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
    assert!(
        (1..ROUNDS).contains(&cancelled),
        "both win sometimes, but {cancelled} of {ROUNDS} were cancelled"
    );
}

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
