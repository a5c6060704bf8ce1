//! What becomes of decisions, and of reviews whose item changes (rules V1, V6, V9, V17).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::id::ReviewId;
use docket_core::item::{ItemDetails, ItemStatus, OnConflict};
use docket_core::review::{Outcome, ReviewState};
use docket_engine::{Complete, SubmitItem, Undone};
use docket_testkit::desk::{correction, decision, reviewer, said};
use docket_testkit::{World, names, on_both};
use serde_json::json;

async fn undo(world: &World, who: &str, id: ReviewId) -> Result<Undone, Refusal> {
    let undone = world.engine.review_undo(&reviewer("acme", who), vec![id]).await;
    undone.unwrap().remove(0)
}

fn item_with_field(name: &str, value: &str) -> SubmitItem {
    SubmitItem {
        payload: json!({ "for": name, "value": value }),
        details: ItemDetails {
            external_id: Some(name.to_owned()),
            fields: Some(vec![said("vendor", value, 50.0)]),
            on_conflict: OnConflict::NewVersion,
            ..ItemDetails::default()
        },
    }
}

on_both! {
    async fn v1_a_completion_said_twice_begins_one_review(world: &World) {
        world.pipeline_desk("acme", json!({})).await;
        let id = world.submit_one("acme", "a").await.id;
        let job = world.claim_one("w1").await;
        let done = Complete { fields: Some(vec![said("vendor", "Acne", 50.0)]), ..Complete::new(job.id, job.token) };
        for repeated in [false, true] {
            let answer = world.engine.complete(vec![done.clone()]).await.unwrap().remove(0).unwrap();
            assert_eq!(answer.repeated, repeated);
        }
        let story = world.story("acme", id).await;
        assert_eq!(story.iter().filter(|action| *action == "review.created").count(), 1);
        assert_eq!(world.pop("acme", "ann", 5).await.entries.len(), 1);
    }

    async fn v1_items_brought_twice_come_up_once(world: &World) {
        world.desk("acme", json!({})).await;
        let bring = async |value: &str| {
            let items = vec![item_with_field("a", value)];
            let entered = world.engine.review_entries(&World::operator(), names::collection("acme"), items).await;
            entered.unwrap().remove(0).unwrap()
        };
        let first = bring("Acne").await;
        let again = bring("Acne").await;
        assert_eq!((first.created, again.created), (true, false));
        assert_eq!((first.item, first.review), (again.item, again.review));
        let held = world.pop_one("acme", "ann").await.review;
        assert_eq!(held.id, first.review);
        world.decide("acme", "ann", decision(held.id, Outcome::Approved)).await.unwrap();
        assert_eq!(bring("Acne").await.review, first.review, "decided it stays");
        assert!(world.pop("acme", "ann", 5).await.entries.is_empty());
        let next = bring("Acme").await;
        assert!(next.created && next.review != first.review);
        assert_eq!(world.pop_one("acme", "ann").await.review.item_version, 2);
    }

    async fn v1_processed_again_before_a_decision_the_same_review_comes_up_anew(world: &World) {
        world.pipeline_desk("acme", json!({ "strategy": "fifo", "slaHours": 1 })).await;
        let id = world.submit_one("acme", "a").await.id;
        world.process_next(vec![said("vendor", "Acne", 50.0)]).await;
        let held = world.pop_one("acme", "ann").await.review;
        world.pass_ms(7_200_000);
        world.engine.reprocess(&World::scope("acme"), id).await.unwrap();
        let late = world.decide("acme", "ann", decision(held.id, Outcome::Approved)).await;
        assert_eq!(late.unwrap_err().code(), "lease_lost");
        world.submit_one("acme", "b").await;
        world.process_next(vec![said("vendor", "Acme", 90.0)]).await;
        world.process_next(vec![said("vendor", "Bolt", 90.0)]).await;
        let popped = world.pop("acme", "bob", 2).await.entries;
        let again = &popped[0].review;
        assert_eq!((again.id, again.inputs.confidence), (held.id, Some(90.0)));
        assert!(again.hand.token > held.hand.token);
        assert!(popped[0].left_ms == 3_600_000, "it has its whole time again");
    }

    async fn v9_an_expired_holder_who_claims_again_has_a_new_hold(world: &World) {
        world.desk("acme", json!({ "leaseSeconds": 60 })).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        world.pass_ms(60_000);
        let with_token = |token| docket_engine::Decision { token: Some(token), ..decision(held.id, Outcome::Approved) };
        assert_eq!(world.decide("acme", "ann", with_token(held.hand.token)).await, Err(Refusal::LeaseLost));
        let claimed = world.engine.review_claim(&reviewer("acme", "ann"), held.id).await.unwrap().review;
        assert!(claimed.hand.token > held.hand.token);
        assert_eq!(claimed.hand.retry_count, 1);
        let stale = world.decide("acme", "ann", with_token(held.hand.token)).await;
        assert_eq!(stale, Err(Refusal::LeaseLost), "a token that was lost once stays lost");
        world.decide("acme", "ann", with_token(claimed.hand.token)).await.unwrap();
    }

    async fn v5_who_lost_all_they_held_may_take_again(world: &World) {
        world.desk("acme", json!({ "leaseSeconds": 60 })).await;
        world.reviewer("ann", true, Some(1)).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        world.pass_ms(60_000);
        let again = world.pop_one("acme", "ann").await.review;
        assert_eq!((again.id, again.hand.retry_count), (held.id, 1));
    }

    async fn v17_only_who_decided_takes_it_back_and_only_for_a_while(world: &World) {
        world.desk("acme", json!({ "undoSeconds": 10 })).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        assert_eq!(undo(world, "ann", held.id).await.unwrap_err().code(), "conflict", "nothing is decided");
        let decided = world.decide("acme", "ann", decision(held.id, Outcome::Rejected)).await.unwrap();
        assert_eq!(decided.undo_until, decided.decided_at.plus_ms(10_000));
        assert_eq!(undo(world, "bob", held.id).await.unwrap_err().code(), "conflict");
        world.pass_ms(10_000);
        let undone = undo(world, "ann", held.id).await.unwrap();
        assert_eq!(undo(world, "ann", held.id).await.unwrap_err().code(), "conflict", "it is open again");
        let late = docket_engine::Decision { token: Some(held.hand.token), ..decision(held.id, Outcome::Rejected) };
        assert_eq!(world.decide("acme", "ann", late).await, Err(Refusal::LeaseLost), "the old hold is over");
        let right = docket_engine::Decision { token: Some(undone.token), ..decision(held.id, Outcome::Approved) };
        world.decide("acme", "ann", right).await.unwrap();
        world.pass_ms(10_001);
        assert_eq!(undo(world, "ann", held.id).await.unwrap_err().code(), "conflict");
    }

    async fn v17_an_earlier_correction_comes_back_with_its_author(world: &World) {
        world.desk("acme", json!({ "undoSeconds": 10 })).await;
        let submit = async |value: &str| {
            let answer = world.submit("acme", vec![item_with_field("a", value)]).await.unwrap();
            answer.results.into_iter().next().unwrap().unwrap().id
        };
        let id = submit("Acne").await;
        let first = world.pop_one("acme", "ann").await.review;
        world.decide("acme", "ann", correction(first.id, "vendor", "Acme")).await.unwrap();
        world.pass_ms(60_000);
        submit("Bolt").await;
        let before = world.view("acme", id).await.fields;
        let second = world.pop_one("acme", "bob").await.review;
        world.decide("acme", "bob", correction(second.id, "vendor", "Bolt Ltd")).await.unwrap();
        undo(world, "bob", second.id).await.unwrap();
        assert_eq!(world.view("acme", id).await.fields, before);
        assert_eq!(before[0].corrected_by.as_deref(), Some("ann"));
        assert_eq!(undo(world, "ann", first.id).await.unwrap_err().code(), "conflict", "the item has a next version");
    }

    async fn v17_what_was_processed_again_since_stays_decided(world: &World) {
        world.pipeline_desk("acme", json!({ "undoSeconds": 600 })).await;
        let id = world.submit_one("acme", "a").await.id;
        world.process_next(vec![said("vendor", "Acne", 50.0)]).await;
        let held = world.pop_one("acme", "ann").await.review;
        world.decide("acme", "ann", correction(held.id, "vendor", "Acme")).await.unwrap();
        world.pass_ms(1_000);
        world.engine.reprocess(&World::scope("acme"), id).await.unwrap();
        assert_eq!(undo(world, "ann", held.id).await.unwrap_err().code(), "conflict", "while it is processed");
        world.process_next(vec![said("vendor", "Acnee", 50.0)]).await;
        assert_eq!(undo(world, "ann", held.id).await.unwrap_err().code(), "conflict", "and after");
        let view = world.view("acme", id).await;
        assert_eq!(view.item.status, ItemStatus::Corrected);
        assert_eq!((&view.fields[0].value, view.fields[0].locked), (&json!("Acme"), true));
    }

    async fn v17_taken_back_a_review_follows_the_policy_of_the_day(world: &World) {
        world.desk("acme", json!({ "slaHours": 24, "undoSeconds": 600 })).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        world.decide("acme", "ann", decision(held.id, Outcome::Approved)).await.unwrap();
        world.review_policy("acme", json!({ "slaHours": 1, "undoSeconds": 600 })).await;
        for _ in 0..2 {
            while world.engine.rekey_run_once().await.unwrap().is_some_and(|wait| wait.is_zero()) {}
            world.pass_ms(60_000);
        }
        undo(world, "ann", held.id).await.unwrap();
        world.give_back("acme", "ann", held.id, false).await.unwrap();
        let again = world.pop_one("acme", "bob").await.review;
        assert_eq!(again.inputs.deadline, again.created_at.plus_ms(3_600_000));
        assert!(again.order_key < held.order_key);
    }

    async fn v6_the_holders_own_claim_renews_it(world: &World) {
        world.desk("acme", json!({ "leaseSeconds": 60 })).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        world.pass_ms(59_999);
        let renewed = world.engine.review_claim(&reviewer("acme", "ann"), held.id).await.unwrap().review.hand;
        assert_eq!((renewed.token, renewed.until), (held.hand.token, held.hand.until.map(|until| until.plus_ms(59_999))));
        assert_eq!((renewed.state, renewed.retry_count), (ReviewState::InReview, 0));
    }
}
