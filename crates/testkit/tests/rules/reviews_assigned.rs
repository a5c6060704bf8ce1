//! Reviews that find their reviewers by themselves (rules V14 and V15).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;

use docket_core::item::ItemDetails;
use docket_core::name::ReviewerId;
use docket_core::review::{Outcome, ReviewState};
use docket_core::scope::Watching;
use docket_engine::{EmptyReason, Reassign, ReviewFilter};
use docket_testkit::desk::{decision, lead};
use docket_testkit::{World, names, on_both};
use serde_json::{Value, json};

fn watching() -> Watching {
    Watching::of(&World::scope("acme"))
}

/// A collection that assigns to these.
async fn desk_of(world: &World, roster: &[&str], more: Value) {
    let mut policy =
        json!({ "assignment": "auto", "roster": roster, "leaseSeconds": 60, "strategy": "fifo" });
    if let (Value::Object(policy), Value::Object(more)) = (&mut policy, more) {
        policy.extend(more);
    }
    world.desk("acme", policy).await;
}

/// In whose hands each item is, in the order of their names.
async fn hands(world: &World) -> Vec<(String, String)> {
    let held = ReviewFilter {
        state: Some(ReviewState::InReview),
        ..ReviewFilter::default()
    };
    let page = world.engine.reviews(&watching(), held, None, 200).await.unwrap();
    let of = |entry: docket_engine::ReviewEntry| {
        (entry.external_id.unwrap(), entry.review.hand.assigned_to.unwrap())
    };
    let mut hands: Vec<_> = page.entries.into_iter().map(of).collect();
    hands.sort();
    hands
}

async fn holders(world: &World) -> Vec<String> {
    hands(world).await.into_iter().map(|(_, holder)| holder).collect()
}

/// How many each reviewer holds, as the workload tells it.
async fn workload(world: &World) -> BTreeMap<String, u64> {
    let told = world
        .engine
        .review_workload(&watching(), &names::collection("acme"))
        .await;
    told.unwrap()
        .into_iter()
        .map(|row| (row.reviewer, row.in_review))
        .collect()
}

async fn submit_each(world: &World, names: &[&str]) {
    for name in names {
        world.submit_one("acme", name).await;
        world.pass_ms(1);
    }
}

async fn hand_on(world: &World, from: &str) -> u64 {
    let from = ReviewerId::new(from).unwrap();
    world
        .engine
        .review_hand_on(&lead("acme", "lea"), &from)
        .await
        .unwrap()
}

on_both! {
    async fn v14_ties_go_in_turn(world: &World) {
        desk_of(world, &["ann", "bob", "cid"], json!({})).await;
        submit_each(world, &["a", "b", "c", "d", "e", "f", "g"]).await;
        assert_eq!(holders(world).await, ["ann", "bob", "cid", "ann", "bob", "cid", "ann"]);
        // All hold none again: the turn goes on behind ann, and does not begin with her.
        for who in ["ann", "bob", "cid"] {
            for entry in world.pop("acme", who, 10).await.entries {
                world.decide("acme", who, decision(entry.review.id, Outcome::Approved)).await.unwrap();
            }
        }
        submit_each(world, &["h", "i", "j"]).await;
        assert_eq!(holders(world).await, ["bob", "cid", "ann"]);
    }

    async fn v14_who_holds_the_fewest_is_next(world: &World) {
        desk_of(world, &["ann", "bob", "cid"], json!({})).await;
        submit_each(world, &["a", "b", "c", "d", "e", "f"]).await;
        for entry in world.pop("acme", "bob", 10).await.entries {
            world.decide("acme", "bob", decision(entry.review.id, Outcome::Approved)).await.unwrap();
        }
        submit_each(world, &["g", "h", "i", "j"]).await;
        let assigned = hands(world).await;
        let new: Vec<_> = assigned.iter().filter(|(name, _)| name.as_str() > "f").map(|(_, who)| who.as_str()).collect();
        assert_eq!(new, ["bob", "bob", "ann", "cid"], "bob until he holds as many as they; then in turn");
    }

    async fn v14_assigned_it_is_in_hands_but_nobody_looks_at_it_yet(world: &World) {
        desk_of(world, &["ann"], json!({})).await;
        submit_each(world, &["a"]).await;
        let filter = ReviewFilter { assigned_to: Some("ann".to_owned()), ..ReviewFilter::default() };
        let entry = world.engine.reviews(&watching(), filter, None, 1).await.unwrap().entries.pop().unwrap();
        let hand = &entry.review.hand;
        assert_eq!((hand.state, hand.token.0, hand.opened_at), (ReviewState::InReview, 1, None));
        let popped = world.pop_one("acme", "ann").await.review;
        assert_eq!((popped.id, popped.hand.token.0), (entry.review.id, 1), "the hold is the same");
        assert!(popped.hand.opened_at.is_some());
    }

    async fn v14_given_back_or_passed_over_it_goes_to_another(world: &World) {
        desk_of(world, &["ann", "bob", "cid"], json!({})).await;
        submit_each(world, &["a"]).await;
        let mut seen = vec![holders(world).await.remove(0)];
        for skip in [true, true] {
            let holder = seen.last().unwrap().clone();
            let held = world.pop_one("acme", &holder).await.review;
            world.give_back("acme", &holder, held.id, skip).await.unwrap();
            seen.push(holders(world).await.remove(0));
        }
        assert_eq!(seen, ["ann", "bob", "cid"]);
        let held = world.pop_one("acme", "cid").await.review;
        world.give_back("acme", "cid", held.id, true).await.unwrap();
        assert!(hands(world).await.is_empty(), "all have passed it over");
        for who in ["ann", "bob", "cid"] {
            assert_eq!(world.pop("acme", who, 1).await.empty.unwrap().reason, EmptyReason::NotPermitted);
        }
    }

    async fn v13_v14_run_out_it_goes_to_another(world: &World) {
        desk_of(world, &["ann", "bob"], json!({ "maxRetries": 0 })).await;
        submit_each(world, &["a"]).await;
        for (count, holder) in [(1, "bob"), (2, "ann"), (3, "bob")] {
            world.pass_ms(60_000);
            let reaped = world.engine.review_reap(None).await.unwrap();
            assert_eq!((reaped.requeued, reaped.failed), (1, 0), "nobody looked at it, so it does not fail");
            assert_eq!(holders(world).await, [holder]);
            let page = world.engine.reviews(&watching(), ReviewFilter::default(), None, 1).await.unwrap();
            assert_eq!(page.entries[0].review.hand.retry_count, count);
        }
        world.pop_one("acme", "bob").await;
        world.pass_ms(60_000);
        let reaped = world.engine.review_reap(None).await.unwrap();
        assert_eq!((reaped.requeued, reaped.failed), (0, 1), "bob looked at it");
    }

    async fn v14_while_nobody_is_available_a_review_waits_for_whoever_comes(world: &World) {
        desk_of(world, &["ann", "bob"], json!({})).await;
        for who in ["ann", "bob"] {
            world.reviewer(who, false, None).await;
        }
        submit_each(world, &["a"]).await;
        assert!(hands(world).await.is_empty());
        world.reviewer("bob", true, None).await;
        submit_each(world, &["b"]).await;
        assert_eq!(hands(world).await, [("b".to_owned(), "bob".to_owned())]);
        let popped = world.pop("acme", "bob", 10).await.entries;
        let names: Vec<_> = popped.into_iter().map(|entry| entry.external_id.unwrap()).collect();
        assert_eq!(names, ["b", "a"], "what was assigned first, and then what waits");
    }

    async fn v14_nobody_gets_more_than_they_may_hold(world: &World) {
        desk_of(world, &["ann", "bob"], json!({})).await;
        world.reviewer("ann", true, Some(1)).await;
        world.reviewer("bob", true, Some(2)).await;
        submit_each(world, &["a", "b", "c", "d", "e"]).await;
        assert_eq!(holders(world).await, ["ann", "bob", "bob"]);
        let held = world.pop("acme", "ann", 5).await.entries;
        assert_eq!(held.len(), 1, "what is hers, and no more");
        let full = world.pop("acme", "ann", 5).await.empty.unwrap();
        assert_eq!((full.reason, full.pending), (EmptyReason::NotPermitted, 2));
        world.decide("acme", "ann", decision(held[0].review.id, Outcome::Approved)).await.unwrap();
        assert_eq!(world.pop("acme", "ann", 5).await.entries.len(), 1);
        assert_eq!(workload(world).await, BTreeMap::from([("ann".to_owned(), 1), ("bob".to_owned(), 2)]));
    }

    async fn v14_only_who_is_on_the_roster_gets_reviews(world: &World) {
        for who in ["ann", "bob", "cid"] {
            world.reviewer(who, true, None).await;
        }
        desk_of(world, &["ann", "cid"], json!({})).await;
        submit_each(world, &["a", "b", "c", "d"]).await;
        assert_eq!(holders(world).await, ["ann", "cid", "ann", "cid"]);
        assert_eq!(world.pop("acme", "bob", 1).await.empty.unwrap().reason, EmptyReason::NotPermitted);
        world.review_policy("acme", json!({ "assignment": "auto" })).await;
        submit_each(world, &["e"]).await;
        assert_eq!(holders(world).await[4], "bob", "without a roster all who are known take part");
    }

    async fn v14_who_is_not_there_any_more_hands_on_what_they_hold(world: &World) {
        desk_of(world, &["ann", "bob", "cid"], json!({})).await;
        submit_each(world, &["a", "b", "c", "d", "e", "f"]).await;
        let held = world.pop("acme", "ann", 1).await.entries.remove(0).review;
        world.reviewer("ann", false, None).await;
        assert_eq!(hand_on(world, "ann").await, 2);
        assert_eq!(workload(world).await, [("ann", 0), ("bob", 3), ("cid", 3)].map(|(who, n)| (who.to_owned(), n)).into());
        let late = world.decide("acme", "ann", decision(held.id, Outcome::Approved)).await;
        assert_eq!(late.unwrap_err().code(), "lease_lost");
        submit_each(world, &["g", "h"]).await;
        assert_eq!(workload(world).await["ann"], 0);
        assert_eq!(hand_on(world, "ann").await, 0);
    }

    async fn v14_handed_on_where_reviewers_take_them_reviews_wait(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo" })).await;
        submit_each(world, &["a", "b"]).await;
        world.pop("acme", "ann", 2).await;
        assert_eq!(hand_on(world, "ann").await, 2);
        let again = world.pop("acme", "bob", 2).await.entries;
        let told: Vec<_> = again.iter().map(|entry| (entry.review.hand.token.0, entry.review.hand.retry_count)).collect();
        assert_eq!(told, [(2, 0), (2, 0)], "handed on is not run out");
    }

    async fn v7_v14_a_lead_can_give_it_to_somebody_else(world: &World) {
        desk_of(world, &["ann", "bob"], json!({})).await;
        submit_each(world, &["a", "b"]).await;
        let held = world.pop_one("acme", "ann").await;
        let to = |to: &str| Reassign { id: held.review.id, to: ReviewerId::new(to).unwrap(), reason: None };
        let refused = world.engine.review_reassign(&lead("acme", "lea"), to("cid")).await.unwrap_err();
        assert_eq!(refused.refusal().unwrap().code(), "validation_failed");
        world.engine.review_reassign(&lead("acme", "lea"), to("bob")).await.unwrap();
        assert_eq!(holders(world).await, ["bob", "bob"]);
        let popped = world.pop("acme", "bob", 5).await.entries;
        assert_eq!(popped.len(), 2);
    }

    async fn v14_pop_takes_what_was_assigned_first_and_the_most_urgent_of_it(world: &World) {
        desk_of(world, &["ann"], json!({ "strategy": "priority" })).await;
        for (name, confidence) in [("calm", 90.0), ("unsure", 10.0), ("middling", 50.0)] {
            let details = ItemDetails { confidence: Some(confidence), ..ItemDetails::default() };
            world.submit_with("acme", name, details).await;
        }
        world.reviewer("ann", false, None).await;
        let details = ItemDetails { confidence: Some(0.0), ..ItemDetails::default() };
        world.submit_with("acme", "waiting", details).await;
        let popped = world.pop("acme", "ann", 10).await.entries;
        let names: Vec<_> = popped.into_iter().map(|entry| entry.external_id.unwrap()).collect();
        assert_eq!(names, ["unsure", "middling", "calm", "waiting"]);
    }

    async fn v14_who_decides_twice_as_fast_gets_twice_as_many(world: &World) {
        desk_of(world, &["fast", "slow"], json!({ "leaseSeconds": 3_600 })).await;
        let mut done = BTreeMap::from([("fast", 0), ("slow", 0)]);
        for tick in 0..180 {
            world.submit_one("acme", &format!("item {tick}")).await;
            // The desk takes in as much as both decide together: three in two ticks.
            if tick % 2 == 0 {
                world.submit_one("acme", &format!("other {tick}")).await;
            }
            for (who, every) in [("fast", 1), ("slow", 2)] {
                if tick % every == 0 && let Some(entry) = world.pop("acme", who, 1).await.entries.pop() {
                    world.decide("acme", who, decision(entry.review.id, Outcome::Approved)).await.unwrap();
                    *done.get_mut(who).unwrap() += 1;
                }
            }
            world.pass_ms(1_000);
        }
        let (fast, slow): (i32, i32) = (done["fast"], done["slow"]);
        assert!((fast - 2 * slow).abs() <= 20, "fast decided {fast}, slow {slow}");
        let held = workload(world).await;
        assert!(held["fast"].abs_diff(held["slow"]) <= 2, "{held:?}");
    }
}
