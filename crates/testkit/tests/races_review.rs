//! Races for reviews, on SQLite, on PostgreSQL and on PostgreSQL with sixteen servers: who pops, claims, decides, takes away and hands on
//! at the same moment (rules V5 to V7, V9, V13, V14). Exactly one wins, the others are told why, and the log tells the same story.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use docket_core::id::ReviewId;
use docket_core::name::ReviewerId;
use docket_core::review::{Outcome, ReviewState};
use docket_core::scope::Watching;
use docket_core::{Refusal, Refused};
use docket_engine::{Decided, Decision, EmptyReason, Engine, Error, Popped, Reassign};
use docket_testkit::desk::{decide_at, decision, lead, pop_from, reviewer, submit_at};
use docket_testkit::race::{Call, Scene, at_once};
use docket_testkit::{World, everywhere, names};
use serde_json::json;

everywhere! {
    reviewers_popping_at_once_get_each_review_exactly_once, real_time = false;
    nobody_is_given_what_they_passed_over_nor_kept_from_what_others_did, real_time = false;
    nobody_is_given_what_they_passed_over_with_what_was_assigned_to_them, real_time = false;
    a_claim_and_a_pop_give_a_review_to_one, real_time = false;
    a_decision_and_a_reap_end_as_one_of_them, real_time = false;
    a_decision_and_a_reassignment_end_as_one_of_them, real_time = false;
    of_two_decisions_the_first_stands, real_time = false;
    the_same_decision_said_by_many_is_made_once, real_time = false;
    arrivals_at_once_are_shared_evenly, real_time = false;
    entering_twice_at_once_makes_one_review, real_time = false;
    what_waits_is_shared_evenly_by_servers_that_assign_at_once, real_time = false;
    no_review_that_waits_is_forgotten, real_time = false;
}

const ROUNDS: usize = 20;

async fn pop(engine: &Engine, who: &str, limit: u32) -> Popped {
    pop_from(engine, "acme", who, limit).await
}

async fn decide(engine: &Engine, who: &str, decision: Decision) -> Refused<Decided> {
    decide_at(engine, "acme", who, decision).await
}

fn refusal<T>(answer: Result<T, Error>) -> Refused<T> {
    answer.map_err(|error| match error {
        Error::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    })
}

async fn state(scene: &Scene, id: ReviewId) -> ReviewState {
    let who = Watching::of(&World::scope("acme"));
    scene
        .world
        .engine
        .review(&who, id)
        .await
        .unwrap()
        .review
        .hand
        .state
}

/// The words of the log about the only item, after it came up for review.
async fn told(scene: &Scene, id: ReviewId) -> Vec<String> {
    let who = Watching::of(&World::scope("acme"));
    let item = scene.world.engine.review(&who, id).await.unwrap().review.item;
    let words = scene.world.story("acme", item).await.into_iter();
    words
        .skip_while(|action| action != "review.created")
        .skip(1)
        .collect()
}

/// Brings one new review about, and puts it into ann's hands.
async fn held_by_ann(scene: &Scene, round: usize) -> ReviewId {
    scene.world.submit_one("acme", &format!("r{round}")).await;
    scene.world.pop_one("acme", "ann").await.review.id
}

async fn submit(engine: &Engine, prefix: &str, n: usize) {
    submit_at(engine, "acme", prefix, n).await;
}

async fn reviewers_popping_at_once_get_each_review_exactly_once(scene: Arc<Scene>) {
    const REVIEWS: usize = 5_000;
    const REVIEWERS: usize = 32;
    scene.world.desk("acme", json!({})).await;
    for batch in 0..REVIEWS / 500 {
        submit(scene.engine(batch), &format!("b{batch}"), 500).await;
    }
    let calls = (0..REVIEWERS).map(|k| {
        let (engine, who) = (scene.engine(k).clone(), format!("reviewer-{k}"));
        async move {
            let mut got = Vec::new();
            loop {
                let popped = pop(&engine, &who, 1 + (k as u32 % 20)).await;
                match popped.empty {
                    Some(empty) if empty.reason == EmptyReason::None => return got,
                    Some(_) => tokio::task::yield_now().await,
                    None => {}
                }
                let ids: Vec<_> = popped.entries.iter().map(|entry| entry.review.id).collect();
                if !ids.is_empty() {
                    let decisions = ids
                        .iter()
                        .map(|id| Ok(decision(*id, Outcome::Approved)))
                        .collect();
                    let results = engine
                        .review_commit(&reviewer("acme", &who), decisions)
                        .await
                        .unwrap();
                    assert!(
                        results
                            .iter()
                            .all(|result| result.as_ref().is_ok_and(|decided| !decided.repeated))
                    );
                }
                got.extend(ids);
            }
        }
    });
    let mut times: HashMap<ReviewId, usize> = HashMap::new();
    for id in at_once(calls.collect()).await.into_iter().flatten() {
        *times.entry(id).or_default() += 1;
    }
    assert_eq!(times.len(), REVIEWS);
    assert!(times.values().all(|n| *n == 1), "a review was in two hands");
    let who = Watching::of(&World::scope("acme"));
    let stats = scene
        .world
        .engine
        .review_stats(&who, &names::collection("acme"))
        .await
        .unwrap();
    assert_eq!(
        stats.counts,
        BTreeMap::from([(ReviewState::Approved, REVIEWS as u64)])
    );
}

/// All have passed over the first review, and each over another one of those behind it (V5, V12).
async fn nobody_is_given_what_they_passed_over_nor_kept_from_what_others_did(scene: Arc<Scene>) {
    const REVIEWERS: usize = 8;
    scene.world.desk("acme", json!({ "strategy": "fifo" })).await;
    submit(scene.engine(0), "r", 2 * REVIEWERS).await;
    let name = |k: usize| format!("reviewer-{k}");
    let mut order: Vec<ReviewId> = Vec::new();
    for k in 0..REVIEWERS {
        let popped = pop(scene.engine(0), &name(k), 2 * REVIEWERS as u32).await;
        order = popped.entries.iter().map(|entry| entry.review.id).collect();
        for (place, id) in order.iter().enumerate() {
            let is_passed_over = place == 0 || place == k + 1;
            let given_back = scene.world.give_back("acme", &name(k), *id, is_passed_over).await;
            given_back.unwrap();
        }
    }
    let calls = (0..REVIEWERS).map(|k| {
        let (engine, who) = (scene.engine(k).clone(), name(k));
        async move { pop(&engine, &who, 1).await.entries.remove(0).review.id }
    });
    let given = at_once(calls.collect()).await;
    for (k, id) in given.iter().enumerate() {
        let place = order.iter().position(|other| other == id).unwrap();
        assert!(place != 0 && place != k + 1, "{} has passed over it", name(k));
        // Whoever comes last may find only the one that they passed over: then the next behind it is theirs.
        assert!(place <= REVIEWERS + 1, "{} was given one at {place}", name(k));
        assert_eq!(
            given.iter().filter(|other| *other == id).count(),
            1,
            "given twice"
        );
    }
    let newcomer = pop(scene.engine(0), "newcomer", 1).await;
    assert_eq!(
        newcomer.entries[0].review.id, order[0],
        "nobody else has taken it"
    );
}

/// Whoever has reviews that were assigned to them opens those first, and gets the rest by themselves, also beside others (V5, V12, V14).
async fn nobody_is_given_what_they_passed_over_with_what_was_assigned_to_them(scene: Arc<Scene>) {
    const REVIEWERS: [&str; 8] = ["a", "b", "c", "d", "e", "ann", "g", "h"];
    scene.world.desk("acme", json!({ "strategy": "fifo" })).await;
    submit(scene.engine(0), "r", 100).await;
    let all = pop(scene.engine(0), "ann", 100).await.entries;
    let all: Vec<ReviewId> = all.into_iter().map(|entry| entry.review.id).collect();
    let (passed_over, others) = all.split_at(80);
    for id in &all {
        let given_back = scene
            .world
            .give_back("acme", "ann", *id, passed_over.contains(id));
        given_back.await.unwrap();
    }
    for (round, id) in others.iter().copied().take(5).enumerate() {
        let (to, reason) = (ReviewerId::new("ann").unwrap(), None);
        let to_ann = Reassign { id, to, reason };
        let assigned = scene
            .engine(0)
            .review_reassign(&lead("acme", "lea"), to_ann)
            .await;
        assigned.unwrap();
        let calls = REVIEWERS.iter().enumerate().map(|(k, who)| {
            let engine = scene.engine(round + k).clone();
            // The others want more together than is picked before it is known who has what.
            let limit = if *who == "ann" { 2 } else { 12 };
            async move { (pop(&engine, who, limit).await.entries, who) }
        });
        for (entries, who) in at_once(calls.collect()).await {
            for id in entries.into_iter().map(|entry| entry.review.id) {
                assert!(
                    *who != "ann" || !passed_over.contains(&id),
                    "she has passed over it"
                );
                scene.world.give_back("acme", who, id, false).await.unwrap();
            }
        }
    }
}

async fn a_claim_and_a_pop_give_a_review_to_one(scene: Arc<Scene>) {
    scene.world.desk("acme", json!({})).await;
    for round in 0..ROUNDS {
        scene.world.submit_one("acme", &format!("r{round}")).await;
        let who = Watching::of(&World::scope("acme"));
        let page = scene
            .world
            .engine
            .reviews(&who, docket_engine::ReviewFilter::default(), None, 1)
            .await;
        let id = page.unwrap().entries[0].review.id;
        let (claimer, popper) = (scene.engine(round).clone(), scene.engine(round + 1).clone());
        let calls: Vec<Call<Option<Refused<String>>>> = vec![
            Box::pin(async move {
                let claimed = claimer.review_claim(&reviewer("acme", "ann"), id).await;
                Some(refusal(claimed).map(|_| "review.claimed".to_owned()))
            }),
            Box::pin(async move {
                let popped = pop(&popper, "bob", 1).await;
                let reason = popped.empty.map(|empty| empty.reason);
                assert!(reason.is_none_or(|reason| reason == EmptyReason::AllAssigned));
                reason.is_none().then(|| Ok("review.popped".to_owned()))
            }),
        ];
        let answers = at_once(calls).await;
        let won: Vec<_> = answers
            .iter()
            .flatten()
            .filter_map(|answer| answer.as_ref().ok())
            .collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        let holder = if won[0] == "review.claimed" { "ann" } else { "bob" };
        if let Some(Err(refused)) = &answers[0] {
            assert!(matches!(refused, Refusal::AlreadyClaimed { assigned_to, .. } if assigned_to == "bob"));
        }
        assert_eq!(told(&scene, id).await, [won[0].as_str()]);
        decide(scene.engine(round), holder, decision(id, Outcome::Approved))
            .await
            .unwrap();
    }
}

async fn a_decision_and_a_reap_end_as_one_of_them(scene: Arc<Scene>) {
    scene.world.desk("acme", json!({})).await;
    for round in 0..ROUNDS {
        let id = held_by_ann(&scene, round).await;
        let (decider, reaper) = (scene.engine(round).clone(), scene.engine(round + 1).clone());
        let calls: Vec<Call<Refused<u64>>> = vec![
            Box::pin(async move {
                let decided = decide(&decider, "ann", decision(id, Outcome::Approved)).await;
                decided.map(|_| 1)
            }),
            Box::pin(async move {
                // Whoever gave no sign of life for no time at all: everybody.
                Ok(reaper.review_reap(Some(0)).await.unwrap().requeued)
            }),
        ];
        let answers = at_once(calls).await;
        let reaped = *answers[1].as_ref().unwrap();
        match &answers[0] {
            Ok(_) => {
                assert_eq!((reaped, state(&scene, id).await), (0, ReviewState::Approved));
                assert_eq!(told(&scene, id).await, ["review.popped", "review.approved"]);
            }
            Err(refused) => {
                assert_eq!((refused, reaped), (&Refusal::LeaseLost, 1));
                assert_eq!(state(&scene, id).await, ReviewState::Pending);
                assert_eq!(told(&scene, id).await, ["review.popped", "review.reaped"]);
                let again = scene.world.pop_one("acme", "bob").await.review;
                decide(scene.engine(round), "bob", decision(again.id, Outcome::Approved))
                    .await
                    .unwrap();
            }
        }
    }
}

async fn a_decision_and_a_reassignment_end_as_one_of_them(scene: Arc<Scene>) {
    scene.world.desk("acme", json!({})).await;
    for round in 0..ROUNDS {
        let id = held_by_ann(&scene, round).await;
        let (decider, leader) = (scene.engine(round).clone(), scene.engine(round + 1).clone());
        let calls: Vec<Call<Refused<()>>> = vec![
            Box::pin(async move {
                let decided = decide(&decider, "ann", decision(id, Outcome::Rejected)).await;
                decided.map(drop)
            }),
            Box::pin(async move {
                let to = Reassign {
                    id,
                    to: ReviewerId::new("bob").unwrap(),
                    reason: None,
                };
                refusal(leader.review_reassign(&lead("acme", "lea"), to).await).map(drop)
            }),
        ];
        let answers = at_once(calls).await;
        match (&answers[0], &answers[1]) {
            (Ok(()), Err(refused)) => {
                let state = ReviewState::Rejected;
                assert_eq!(refused, &Refusal::AlreadyDecided { state });
                assert_eq!(told(&scene, id).await, ["review.popped", "review.rejected"]);
            }
            (Err(refused), Ok(())) => {
                assert_eq!(refused, &Refusal::LeaseLost);
                assert_eq!(told(&scene, id).await, ["review.popped", "review.reassigned"]);
                decide(scene.engine(round), "bob", decision(id, Outcome::Approved))
                    .await
                    .unwrap();
            }
            both => panic!("{both:?}"),
        }
    }
}

async fn of_two_decisions_the_first_stands(scene: Arc<Scene>) {
    scene.world.desk("acme", json!({})).await;
    for round in 0..ROUNDS {
        let id = held_by_ann(&scene, round).await;
        let calls = [Outcome::Approved, Outcome::Rejected].into_iter().enumerate();
        let calls = calls.map(|(k, outcome)| {
            let engine = scene.engine(round + k).clone();
            async move { decide(&engine, "ann", decision(id, outcome)).await }
        });
        let answers = at_once(calls.collect()).await;
        let state = state(&scene, id).await;
        let won: Vec<_> = answers.iter().flatten().collect();
        assert_eq!((won.len(), won[0].state), (1, state), "{answers:?}");
        let lost: Vec<_> = answers
            .iter()
            .filter_map(|answer| answer.as_ref().err())
            .collect();
        assert_eq!(lost, [&Refusal::AlreadyDecided { state }]);
        assert_eq!(
            told(&scene, id).await,
            ["review.popped".to_owned(), format!("review.{state}")]
        );
    }
}

async fn the_same_decision_said_by_many_is_made_once(scene: Arc<Scene>) {
    scene.world.desk("acme", json!({})).await;
    for round in 0..ROUNDS {
        let id = held_by_ann(&scene, round).await;
        let calls = (0..8).map(|k| {
            let engine = scene.engine(round + k).clone();
            async move {
                decide(&engine, "ann", decision(id, Outcome::Approved))
                    .await
                    .unwrap()
            }
        });
        let answers = at_once(calls.collect()).await;
        let first = answers.iter().filter(|decided| !decided.repeated).count();
        assert_eq!(first, 1, "{answers:?}");
        assert!(
            answers
                .iter()
                .all(|decided| decided.decided_at == answers[0].decided_at)
        );
        assert_eq!(told(&scene, id).await, ["review.popped", "review.approved"]);
    }
}

async fn arrivals_at_once_are_shared_evenly(scene: Arc<Scene>) {
    const ARRIVALS: usize = 1_000;
    let policy = json!({ "assignment": "auto", "roster": ["ann", "bob", "cyd"] });
    scene.world.desk("acme", policy).await;
    let calls = (0..50).map(|k| {
        let engine = scene.engine(k).clone();
        async move {
            for part in 0..ARRIVALS / 50 {
                submit(&engine, &format!("c{k}-{part}"), 1).await;
            }
        }
    });
    at_once(calls.collect()).await;
    let who = Watching::of(&World::scope("acme"));
    let workload = scene
        .world
        .engine
        .review_workload(&who, &names::collection("acme"))
        .await
        .unwrap();
    let mut shares: Vec<_> = workload.iter().map(|reviewer| reviewer.in_review).collect();
    shares.sort_unstable();
    assert_eq!(shares, [333, 333, 334]);
}

async fn entering_twice_at_once_makes_one_review(scene: Arc<Scene>) {
    scene.world.desk("acme", json!({})).await;
    for round in 0..ROUNDS {
        let calls = (0..6).map(|k| {
            let engine = scene.engine(round + k).clone();
            async move { submit(&engine, &format!("same-{round}"), 1).await }
        });
        at_once(calls.collect()).await;
    }
    let who = Watching::of(&World::scope("acme"));
    let collection = names::collection("acme");
    let stats = scene.engine(0).review_stats(&who, &collection).await.unwrap();
    assert_eq!(stats.count(ReviewState::Pending), ROUNDS as u64);
}

/// Gives out all that can be given now.
async fn assign(engine: &Engine) {
    while engine.assigner_run_once().await.unwrap() == Some(Duration::ZERO) {}
}

async fn what_waits_is_shared_evenly_by_servers_that_assign_at_once(scene: Arc<Scene>) {
    const TEAM: [&str; 3] = ["ann", "bob", "cyd"];
    let policy = json!({ "assignment": "auto", "roster": TEAM });
    scene.world.desk("acme", policy).await;
    for who in TEAM {
        scene.world.reviewer(who, false, None).await;
    }
    submit(scene.engine(0), "waiting", 400).await;
    for who in TEAM {
        scene.world.reviewer(who, true, Some(150)).await;
    }
    let arrivals = (0..10).map(|k| -> Call<()> {
        let engine = scene.engine(k).clone();
        Box::pin(async move { submit(&engine, &format!("new-{k}"), 10).await })
    });
    let assigners = (0..4).map(|k| -> Call<()> {
        let engine = scene.engine(k).clone();
        Box::pin(async move { assign(&engine).await })
    });
    at_once(arrivals.chain(assigners).collect()).await;
    scene.world.pass_ms(5_000);
    assign(scene.engine(0)).await;
    for who in TEAM {
        let held = format!("select count(*) from review where state = 1 and assigned_to = '{who}'");
        assert_eq!(
            scene.world.number(&held).await,
            150,
            "{who} holds as many as they may"
        );
    }
    let pending = "select count(*) from review where state = 0";
    assert_eq!(scene.world.number(pending).await, 50);
    let told = "select count(*) from log where action = 'review.assigned'";
    assert_eq!(scene.world.number(told).await, 450, "each was given once");
}

async fn no_review_that_waits_is_forgotten(scene: Arc<Scene>) {
    let policy = json!({ "assignment": "auto", "roster": ["ann"], "leaseSeconds": 86_400 });
    scene.world.desk("acme", policy).await;
    scene.world.reviewer("ann", true, Some(1)).await;
    scene.world.submit_one("acme", "first").await;
    for round in 0..ROUNDS {
        let held = scene.world.pop_one("acme", "ann").await.review.id;
        let (submitter, decider) = (scene.engine(round).clone(), scene.engine(round + 1).clone());
        let mut calls: Vec<Call<()>> = vec![
            Box::pin(async move { submit(&submitter, &format!("r{round}"), 1).await }),
            Box::pin(async move {
                let decided = decide(&decider, "ann", decision(held, Outcome::Approved)).await;
                decided.unwrap();
            }),
        ];
        for k in 0..2 {
            let engine = scene.engine(round + 2 + k).clone();
            calls.push(Box::pin(async move { assign(&engine).await }));
        }
        at_once(calls).await;
        // She has room for the new one, whatever came first; if it waits, that is known.
        scene.world.pass_ms(5_000);
        assign(scene.engine(round)).await;
        let held = "select count(*) from review where state = 1";
        let pending = "select count(*) from review where state = 0";
        let found = (scene.world.number(held).await, scene.world.number(pending).await);
        assert_eq!(found, (1, 0), "round {round}");
    }
}
