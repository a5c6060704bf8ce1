//! The life of a review, from entering to the decision (rules V1, V5 to V13, V17).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::item::{ItemDetails, ItemStatus};
use docket_core::review::{Outcome, ReviewState};
use docket_engine::{EmptyReason, Reassign};
use docket_testkit::desk::{correction, decision, lead, reviewer, said};
use docket_testkit::{World, on_both};
use serde_json::json;

on_both! {
    async fn v1_a_completed_item_of_a_reviewing_pipeline_comes_up_once(world: &World) {
        world.pipeline_desk("acme", json!({})).await;
        let id = world.submit_one("acme", "a").await.id;
        world.process_next(vec![said("vendor", "Acne Corp", 67.0)]).await;
        assert_eq!(world.view("acme", id).await.item.status, ItemStatus::InReview);
        let entry = world.pop_one("acme", "ann").await;
        assert_eq!((entry.review.item, entry.external_id.as_deref()), (id, Some("a")));
        assert_eq!(entry.fields[0].value, json!("Acne Corp"));
        assert_eq!(entry.review.inputs.confidence, Some(67.0));
        let again = world.pop("acme", "bob", 1).await;
        assert_eq!(again.empty.unwrap().reason, EmptyReason::AllAssigned);
        let decided = world
            .decide("acme", "ann", decision(entry.review.id, Outcome::Approved))
            .await
            .unwrap();
        assert_eq!((decided.state, decided.repeated), (ReviewState::Approved, false));
        assert_eq!(world.view("acme", id).await.item.status, ItemStatus::Approved);
        assert_eq!(
            world.pop("acme", "bob", 1).await.empty.unwrap().reason,
            EmptyReason::None
        );
    }

    async fn v1_an_item_that_arrives_finished_comes_up_at_once_and_each_version_once(world: &World) {
        world.desk("acme", json!({})).await;
        let id = world.submit_one("acme", "a").await.id;
        assert!(world.submit_one("acme", "a").await.duplicate);
        let first = world.pop_one("acme", "ann").await;
        assert_eq!((first.review.item, first.review.item_version), (id, 1));
        assert!(world.pop("acme", "bob", 5).await.entries.is_empty());
        let mut next = World::item("a");
        next.payload = json!({ "other": true });
        next.details.on_conflict = docket_core::item::OnConflict::NewVersion;
        world
            .submit("acme", vec![next])
            .await
            .unwrap()
            .results
            .remove(0)
            .unwrap();
        let late = world
            .decide("acme", "ann", decision(first.review.id, Outcome::Approved))
            .await;
        assert_eq!(late, Err(Refusal::LeaseLost), "the version was replaced");
        let second = world.pop_one("acme", "bob").await;
        assert_eq!((second.review.item, second.review.item_version), (id, 2));
    }

    async fn v9_an_expired_holder_never_wins(world: &World) {
    for with_token in [false, true] {
        let tenant = if with_token { "acme" } else { "bolt" };
        world.desk(tenant, json!({ "leaseSeconds": 60 })).await;
        let id = world.submit_one(tenant, "a").await.id;
        let first = world.pop_one(tenant, "ann").await;
        world.pass_ms(60_001);
        let second = world.pop_one(tenant, "bob").await;
        assert_eq!(
            (second.review.id, second.review.hand.retry_count),
            (first.review.id, 1)
        );
        assert!(second.review.hand.token > first.review.hand.token);
        let mut late = decision(first.review.id, Outcome::Rejected);
        late.token = with_token.then_some(first.review.hand.token);
        let before = world.all_of(tenant, id).await;
        assert_eq!(world.decide(tenant, "ann", late).await, Err(Refusal::LeaseLost));
        assert_eq!(world.all_of(tenant, id).await, before, "nothing was changed");
        let mut wins = decision(second.review.id, Outcome::Approved);
        wins.token = with_token.then_some(second.review.hand.token);
        world.decide(tenant, "bob", wins).await.unwrap();
        assert_eq!(world.view(tenant, id).await.item.status, ItemStatus::Approved);
    }
    world.assert_healthy().await;
    }

    async fn v9_a_decision_said_twice_is_answered_the_same(world: &World) {
        world.desk("acme", json!({})).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        let first = world
            .decide("acme", "ann", decision(held.id, Outcome::Approved))
            .await
            .unwrap();
        let mut again = decision(held.id, Outcome::Approved);
        again.token = Some(held.hand.token);
        let again = world.decide("acme", "ann", again).await.unwrap();
        assert_eq!((again.decided_at, again.repeated), (first.decided_at, true));
        for (who, outcome) in [("ann", Outcome::Rejected), ("bob", Outcome::Approved)] {
            let late = world.decide("acme", who, decision(held.id, outcome)).await;
            let state = ReviewState::Approved;
            assert_eq!(late, Err(Refusal::AlreadyDecided { state }));
        }
    }

    async fn v10_v11_a_correction_is_never_overwritten_by_a_machine(world: &World) {
        world.pipeline_desk("acme", json!({})).await;
        let id = world.submit_one("acme", "a").await.id;
        world
            .process_next(vec![said("vendor", "Acne Corp", 67.0), said("total", 10, 99.0)])
            .await;
        let held = world.pop_one("acme", "ann").await.review;
        let unknown = world
            .decide("acme", "ann", correction(held.id, "nothing", 1))
            .await;
        assert_eq!(unknown.unwrap_err().code(), "validation_failed");
        world
            .decide("acme", "ann", correction(held.id, "vendor", "Acme Corp"))
            .await
            .unwrap();
        world.pass_ms(60_000);
        world.engine.reprocess(&World::scope("acme"), id).await.unwrap();
        assert_eq!(world.view("acme", id).await.item.status, ItemStatus::Queued);
        world
            .process_next(vec![said("vendor", "Acne Corp", 71.0), said("total", 12, 99.0)])
            .await;
        let view = world.view("acme", id).await;
        assert_eq!(
            view.item.status,
            ItemStatus::Corrected,
            "one review for each version"
        );
        let vendor = view.fields.iter().find(|field| field.name == "vendor").unwrap();
        assert_eq!((&vendor.value, vendor.locked), (&json!("Acme Corp"), true));
        assert_eq!(vendor.machine_value, Some(json!("Acne Corp")));
        assert_eq!(vendor.corrected_by.as_deref(), Some("ann"));
        assert_eq!(
            view.fields
                .iter()
                .find(|field| field.name == "total")
                .unwrap()
                .value,
            json!(12)
        );
        let story = world.story("acme", id).await;
        assert!(
            story.contains(&"field.corrected".to_owned()) && story.contains(&"field.kept_locked".to_owned())
        );
        world
            .engine
            .field_unlock(&World::scope("acme"), id, "vendor")
            .await
            .unwrap();
        let vendor = world.view("acme", id).await.fields.remove(0);
        assert_eq!((vendor.value, vendor.locked), (json!("Acme Corp"), false));
        world.engine.reprocess(&World::scope("acme"), id).await.unwrap();
        world.process_next(vec![said("vendor", "Acne", 71.0)]).await;
        assert_eq!(
            world.view("acme", id).await.fields[0].value,
            json!("Acne"),
            "unlocked, it takes the new value"
        );
    }

    async fn v6_a_claim_of_anothers_review_says_who_and_until_when(world: &World) {
        world.desk("acme", json!({ "leaseSeconds": 60 })).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        let claim = |who: &str| {
            let who = reviewer("acme", who);
            let engine = world.engine.clone();
            async move {
                engine
                    .review_claim(&who, held.id)
                    .await
                    .map_err(|error| error.refusal().unwrap().clone())
            }
        };
        let taken = claim("bob").await.unwrap_err();
        let lease_expires_at = held.hand.until.unwrap();
        assert_eq!(
            taken,
            Refusal::AlreadyClaimed {
                assigned_to: "ann".to_owned(),
                lease_expires_at
            }
        );
        world.clock.advance_ms(30_000);
        let renewed = claim("ann").await.unwrap().review.hand;
        assert_eq!(renewed.token, held.hand.token, "it is the same hold");
        assert_eq!(renewed.until.unwrap().since(lease_expires_at), 30_000);
        world.clock.advance_ms(60_000);
        let taken = claim("bob").await.unwrap().review.hand;
        assert_eq!(taken.assigned_to.as_deref(), Some("bob"));
        assert!(taken.token > renewed.token);
    }

    async fn v7_reassigned_the_old_holders_token_is_dead(world: &World) {
        world.desk("acme", json!({})).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        let to = Reassign {
            id: held.id,
            to: docket_core::name::ReviewerId::new("bob").unwrap(),
            reason: None,
        };
        let entry = world
            .engine
            .review_reassign(&lead("acme", "lea"), to)
            .await
            .unwrap();
        assert_eq!(entry.review.hand.assigned_to.as_deref(), Some("bob"));
        let late = world
            .decide("acme", "ann", decision(held.id, Outcome::Approved))
            .await;
        assert_eq!(late, Err(Refusal::LeaseLost));
        let popped = world.pop_one("acme", "bob").await.review;
        assert_eq!(popped.id, held.id, "what was assigned comes first");
        world
            .decide("acme", "bob", decision(held.id, Outcome::Approved))
            .await
            .unwrap();
    }

    async fn v12_a_skipped_review_is_not_offered_to_the_same_reviewer_again(world: &World) {
        world.desk("acme", json!({})).await;
        world.submit_one("acme", "a").await;
        let held = world.pop_one("acme", "ann").await.review;
        world.give_back("acme", "ann", held.id, true).await.unwrap();
        assert_eq!(
            world.pop("acme", "ann", 1).await.empty.unwrap().reason,
            EmptyReason::NotPermitted
        );
        let popped = world.pop_one("acme", "bob").await.review;
        assert_eq!(popped.id, held.id);
        world.give_back("acme", "bob", held.id, false).await.unwrap();
        assert_eq!(
            world.pop_one("acme", "bob").await.review.id,
            held.id,
            "only given back"
        );
        assert_eq!(
            world.give_back("acme", "ann", held.id, false).await,
            Err(Refusal::LeaseLost)
        );
    }

    async fn v13_past_the_configured_number_a_review_is_for_a_lead(world: &World) {
        world
            .desk("acme", json!({ "leaseSeconds": 60, "maxRetries": 1 }))
            .await;
        world.submit_one("acme", "a").await;
        for failed in [0, 1] {
            let id = world.pop_one("acme", "ann").await.review.id;
            world.pass_ms(60_001);
            let reaped = world.engine.review_reap(None).await.unwrap();
            assert_eq!((reaped.requeued, reaped.failed), (1 - failed, failed));
            if failed == 1 {
                assert!(
                    world
                        .engine
                        .review_claim(&reviewer("acme", "ann"), id)
                        .await
                        .is_err()
                );
                let entry = world.engine.review_claim(&lead("acme", "lea"), id).await.unwrap();
                assert_eq!(entry.review.hand.state, ReviewState::InReview);
            }
        }
    }

    async fn v17_undone_everything_is_as_before(world: &World) {
    world.desk("acme", json!({ "undoSeconds": 10 })).await;
    let details = ItemDetails {
        fields: Some(vec![said("vendor", "Acne", 50.0)]),
        ..ItemDetails::default()
    };
    let id = world.submit_with("acme", "a", details).await;
    let held = world.pop_one("acme", "ann").await.review;
    let fields = world.view("acme", id).await.fields;
    world
        .decide("acme", "ann", correction(held.id, "vendor", "Acme"))
        .await
        .unwrap();
    let undo = |who: &str| {
        let (engine, who) = (world.engine.clone(), reviewer("acme", who));
        async move { engine.review_undo(&who, vec![held.id]).await.unwrap().remove(0) }
    };
    assert_eq!(undo("bob").await.unwrap_err().code(), "conflict");
    world.pass_ms(9_000);
    let undone = undo("ann").await.unwrap();
    assert!(undone.token > held.hand.token);
    let view = world.view("acme", id).await;
    assert_eq!((view.item.status, &view.fields), (ItemStatus::InReview, &fields));
    let story = world.story("acme", id).await;
    assert!(
        story.ends_with(&[
            "review.corrected".into(),
            "field.restored".into(),
            "review.undone".into()
        ]),
        "{story:?}"
    );
    world
        .decide("acme", "ann", decision(held.id, Outcome::Approved))
        .await
        .unwrap();
    world.pass_ms(10_001);
    assert_eq!(undo("ann").await.unwrap_err().code(), "conflict");
    world.assert_healthy().await;
    }

    async fn v14_reviews_are_assigned_evenly_and_given_back_go_to_another(world: &World) {
        world
            .desk(
                "acme",
                json!({ "assignment": "auto", "roster": ["ann", "bob", "cid"], "leaseSeconds": 60 }),
            )
            .await;
        world.submit_many("acme", "x", 10).await;
        let mut hands = Vec::new();
        for who in ["ann", "bob", "cid"] {
            hands.push(world.pop("acme", who, 100).await.entries);
        }
        let mut counts: Vec<_> = hands.iter().map(Vec::len).collect();
        counts.sort_unstable();
        assert_eq!(counts, [3, 3, 4]);
        let given = hands[0][0].review.id;
        world.give_back("acme", "ann", given, false).await.unwrap();
        assert!(world.pop("acme", "ann", 100).await.entries.is_empty());
        let mut others = world.pop("acme", "bob", 100).await.entries;
        others.extend(world.pop("acme", "cid", 100).await.entries);
        assert_eq!(
            others.iter().map(|entry| entry.review.id).collect::<Vec<_>>(),
            [given]
        );
    }
}
