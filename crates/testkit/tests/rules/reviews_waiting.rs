//! Reviews that found nobody, and are given to whoever becomes free (rule V14).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use docket_core::item::ItemDetails;
use docket_core::name::ReviewerId;
use docket_core::review::{Outcome, ReviewState};
use docket_core::scope::Watching;
use docket_engine::background::Intervals;
use docket_engine::{PauseTarget, ReviewFilter};
use docket_testkit::desk::{decision, lead};
use docket_testkit::{World, names, on_both};
use serde_json::{Value, json};

/// A collection that assigns to these, who are not there.
async fn desk_of(world: &World, roster: &[&str], more: Value) {
    let mut policy =
        json!({ "assignment": "auto", "roster": roster, "leaseSeconds": 3_600, "strategy": "fifo" });
    if let (Value::Object(policy), Value::Object(more)) = (&mut policy, more) {
        policy.extend(more);
    }
    world.desk("acme", policy).await;
    for who in roster {
        world.reviewer(who, false, None).await;
    }
}

async fn of_state(world: &World, state: ReviewState) -> Vec<(String, Option<String>)> {
    let filter = ReviewFilter {
        state: Some(state),
        ..ReviewFilter::default()
    };
    let watching = Watching::of(&World::scope("acme"));
    let page = world.engine.reviews(&watching, filter, None, 200).await.unwrap();
    let of = |entry: docket_engine::ReviewEntry| (entry.external_id.unwrap(), entry.review.hand.assigned_to);
    let mut found: Vec<_> = page.entries.into_iter().map(of).collect();
    found.sort();
    found
}

/// In whose hands each item is, in the order of their names.
async fn hands(world: &World) -> Vec<String> {
    let held = of_state(world, ReviewState::InReview).await;
    held.into_iter()
        .map(|(name, holder)| format!("{name} {}", holder.unwrap()))
        .collect()
}

/// The items that wait.
async fn waiting(world: &World) -> Vec<String> {
    let pending = of_state(world, ReviewState::Pending).await;
    pending.into_iter().map(|(name, _)| name).collect()
}

async fn submit_each(world: &World, names: &[&str]) {
    for name in names {
        world.submit_one("acme", name).await;
        world.pass_ms(1);
    }
}

/// Gives out all that can be given now.
async fn assign(world: &World) {
    while world.engine.assigner_run_once().await.unwrap() == Some(Duration::ZERO) {}
}

/// The same, when every collection has become due.
async fn assign_later(world: &World) {
    world.pass_ms(5_000);
    assign(world).await;
}

async fn notes(world: &World) -> i64 {
    world.number("select count(*) from review_unassigned").await
}

on_both! {
    async fn v14_who_becomes_available_is_given_what_waits(world: &World) {
        desk_of(world, &["ann", "bob"], json!({})).await;
        submit_each(world, &["a", "b", "c"]).await;
        assign_later(world).await;
        assert_eq!(waiting(world).await, ["a", "b", "c"], "nobody is there");
        world.reviewer("bob", true, None).await;
        assign(world).await;
        assert_eq!(hands(world).await, ["a bob", "b bob", "c bob"], "at once, without a pop");
        assert_eq!(notes(world).await, 0, "nothing is looked at any more");
        submit_each(world, &["d"]).await;
        assert_eq!(hands(world).await.len(), 4);
    }

    async fn v14_a_lead_or_the_reviewer_says_who_is_there(world: &World) {
        world.desk("acme", json!({ "assignment": "auto", "strategy": "fifo" })).await;
        world.reviewer_of(Some("acme"), "ann", false, Some(1)).await;
        submit_each(world, &["a", "b"]).await;
        let ann = ReviewerId::new("ann").unwrap();
        let own = docket_testkit::desk::reviewer("acme", "ann");
        world.engine.reviewer_availability(&own, &ann, true).await.unwrap();
        assign(world).await;
        assert_eq!((hands(world).await, waiting(world).await), (vec!["a ann".to_owned()], vec!["b".to_owned()]));
        world.engine.reviewer_capacity(&lead("acme", "lea"), &ann, Some(2)).await.unwrap();
        assign(world).await;
        assert_eq!(hands(world).await, ["a ann", "b ann"]);
    }

    async fn v14_who_has_decided_is_given_the_next(world: &World) {
        desk_of(world, &["ann"], json!({ "strategy": "priority" })).await;
        world.reviewer("ann", true, Some(1)).await;
        for (name, confidence) in [("first", 50.0), ("calm", 90.0), ("unsure", 10.0)] {
            let details = ItemDetails { confidence: Some(confidence), ..ItemDetails::default() };
            world.submit_with("acme", name, details).await;
        }
        for (name, next) in [("first", "unsure"), ("unsure", "calm")] {
            assign_later(world).await;
            assert_eq!(hands(world).await, [format!("{name} ann")], "she may hold one");
            let held = world.pop_one("acme", "ann").await.review;
            world.decide("acme", "ann", decision(held.id, Outcome::Approved)).await.unwrap();
            world.pass_ms(1_000);
            assign(world).await;
            assert_eq!(hands(world).await, [format!("{next} ann")], "the most urgent, a second later");
        }
        assert_eq!(notes(world).await, 0);
    }

    async fn v14_what_waits_goes_to_who_holds_the_fewest_in_turn(world: &World) {
        desk_of(world, &["ann", "bob", "cid"], json!({})).await;
        world.reviewer("ann", true, None).await;
        submit_each(world, &["a", "b"]).await;
        world.reviewer("ann", false, None).await;
        submit_each(world, &["c", "d", "e", "f", "g", "h"]).await;
        for who in ["ann", "bob", "cid"] {
            world.reviewer(who, true, None).await;
        }
        assign(world).await;
        assert_eq!(hands(world).await,
            ["a ann", "b ann", "c bob", "d cid", "e bob", "f cid", "g ann", "h bob"], "ann holds two; then in turn");
    }

    async fn v14_given_back_or_run_out_it_waits_for_another(world: &World) {
        desk_of(world, &["ann", "bob"], json!({ "leaseSeconds": 60 })).await;
        world.reviewer("ann", true, None).await;
        submit_each(world, &["a", "b", "c"]).await;
        let held = world.pop_one("acme", "ann").await.review;
        world.give_back("acme", "ann", held.id, false).await.unwrap();
        world.pop_one("acme", "ann").await;
        world.pass_ms(60_000);
        world.engine.review_reap(None).await.unwrap();
        submit_each(world, &["d"]).await;
        assign_later(world).await;
        assert_eq!((hands(world).await, waiting(world).await.len()), (vec!["d ann".to_owned()], 3), "ann does not get them again");
        world.reviewer("bob", true, None).await;
        assign(world).await;
        assert_eq!(hands(world).await, ["a bob", "b bob", "c bob", "d ann"]);
        // Of two, who gave it back last is passed by.
        let held = world.pop_one("acme", "bob").await.review;
        world.reviewer("ann", false, None).await;
        world.give_back("acme", "bob", held.id, false).await.unwrap();
        world.reviewer("ann", true, None).await;
        assign_later(world).await;
        assert_eq!(hands(world).await, ["a ann", "b bob", "c bob", "d ann"]);
    }

    async fn v14_handed_on_it_waits_also_for_who_was_not_there(world: &World) {
        desk_of(world, &["ann"], json!({})).await;
        world.reviewer("ann", true, None).await;
        submit_each(world, &["a", "b"]).await;
        let (lea, ann) = (lead("acme", "lea"), ReviewerId::new("ann").unwrap());
        world.reviewer("ann", false, None).await;
        assert_eq!(world.engine.review_hand_on(&lea, &ann).await.unwrap(), 2);
        assign_later(world).await;
        assert_eq!(waiting(world).await, ["a", "b"]);
        world.reviewer("ann", true, None).await;
        assign(world).await;
        assert_eq!(hands(world).await, ["a ann", "b ann"], "she is back, and nobody else has come");
        assert_eq!(world.engine.review_hand_on(&lea, &ann).await.unwrap(), 2);
        assign_later(world).await;
        assert_eq!(waiting(world).await, ["a", "b"], "taken from one who is there, they do not go back to her");
    }

    async fn v14_what_all_have_passed_over_holds_up_nothing(world: &World) {
        desk_of(world, &["ann"], json!({})).await;
        world.reviewer("ann", true, None).await;
        submit_each(world, &["a", "b"]).await;
        for entry in world.pop("acme", "ann", 2).await.entries {
            world.give_back("acme", "ann", entry.review.id, true).await.unwrap();
        }
        world.reviewer("ann", false, None).await;
        submit_each(world, &["c"]).await;
        world.reviewer("ann", true, None).await;
        assign_later(world).await;
        assert_eq!((hands(world).await, waiting(world).await), (vec!["c ann".to_owned()], vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(notes(world).await, 1, "somebody else may come");
        let next = world.engine.assigner_run_once().await.unwrap();
        assert_eq!(next, Some(Duration::from_secs(5)), "but it is not looked at all the time");
    }

    async fn v14_while_it_is_paused_nothing_that_waits_is_given(world: &World) {
        desk_of(world, &["ann"], json!({})).await;
        submit_each(world, &["a"]).await;
        let target = PauseTarget::Collection(names::collection("acme"));
        let pause = world.engine.pause(&World::operator(), target, "audit").await.unwrap();
        world.reviewer("ann", true, None).await;
        assign_later(world).await;
        assert_eq!(waiting(world).await, ["a"]);
        world.engine.resume(&World::operator(), pause).await.unwrap();
        assign_later(world).await;
        assert_eq!(hands(world).await, ["a ann"]);
    }

    async fn v14_a_collection_that_begins_to_assign_gives_out_what_waits(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo" })).await;
        world.reviewer("ann", true, None).await;
        submit_each(world, &["a", "b"]).await;
        let held = world.pop_one("acme", "ann").await.review;
        world.give_back("acme", "ann", held.id, false).await.unwrap();
        assert_eq!(notes(world).await, 0, "where reviewers take them, nothing is noted");
        world.review_policy("acme", json!({ "assignment": "auto", "roster": ["bob"] })).await;
        assign(world).await;
        assert_eq!(hands(world).await, ["a bob", "b bob"]);
        world.reviewer("bob", false, None).await;
        submit_each(world, &["c"]).await;
        world.review_policy("acme", json!({})).await;
        assign_later(world).await;
        assert_eq!((notes(world).await, waiting(world).await), (0, vec!["c".to_owned()]), "and one that ends gives out nothing");
    }

    async fn v14_a_collection_that_was_changed_is_looked_at_until_all_that_was_on_its_way_is_there(world: &World) {
        world.desk("acme", json!({ "strategy": "fifo" })).await;
        world.reviewer("bob", true, None).await;
        submit_each(world, &["a"]).await;
        world.review_policy("acme", json!({ "assignment": "auto", "roster": ["bob"] })).await;
        assign(world).await;
        assert_eq!((hands(world).await, notes(world).await), (vec!["a bob".to_owned()], 1), "another may be entering, as it was before");
        world.pass_ms(180_000);
        assign(world).await;
        assert_eq!(notes(world).await, 0);
    }

    async fn v14_a_transaction_assigns_a_bounded_piece(world: &World) {
        desk_of(world, &["ann"], json!({})).await;
        world.submit_many("acme", "doc", 150).await;
        world.reviewer("ann", true, Some(150)).await;
        let held = "select count(*) from review where state = 1";
        for (given, wait) in [(100, Duration::ZERO), (150, Duration::ZERO)] {
            assert_eq!(world.engine.assigner_run_once().await.unwrap(), Some(wait));
            assert_eq!(world.number(held).await, given);
        }
        assign(world).await;
        assert_eq!(notes(world).await, 0);
        assert_eq!(world.engine.assigner_run_once().await.unwrap(), None, "nothing is to be done");
    }

    async fn v14_who_may_hold_any_number_is_not_given_all_that_waits(world: &World) {
        desk_of(world, &["ann", "bob"], json!({})).await;
        world.submit_many("acme", "doc", 50).await;
        world.reviewer("ann", true, None).await;
        assign(world).await;
        let held = "select count(*) from review where state = 1";
        assert_eq!((world.number(held).await, waiting(world).await.len()), (20, 30), "the rest is for whoever comes");
        world.reviewer("bob", true, None).await;
        assign_later(world).await;
        assert_eq!((world.number(held).await, waiting(world).await.len()), (40, 10));
    }

    async fn v14_the_background_gives_what_waits_as_soon_as_somebody_is_there(world: &World) {
        desk_of(world, &["ann"], json!({})).await;
        let hour = Duration::from_secs(3_600);
        let seldom = Intervals { reap: hour, fold: hour, seal: hour, sweep: hour, retention: hour, rekey: hour, assign: hour, reconcile: hour };
        let background = world.engine.start_background(seldom).await.unwrap();
        submit_each(world, &["a"]).await;
        world.reviewer("ann", true, None).await;
        let patience = async {
            while hands(world).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), patience).await.unwrap();
        background.stop().await;
    }
}
