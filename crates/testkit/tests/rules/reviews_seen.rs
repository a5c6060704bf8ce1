//! The review queue as those see it who watch it (rules V2 to V4, V9, V15, V16).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::Refusal;
use docket_core::clock::Clock as _;
use docket_core::item::ItemDetails;
use docket_core::priority::{Band, SlaLevel};
use docket_core::review::{Outcome, ReviewState, Strategy};
use docket_core::scope::Watching;
use docket_engine::{CollectionSettings, ReviewEntry, ReviewFilter};
use docket_testkit::desk::{correction, decision, said};
use docket_testkit::{World, names, on_both};
use serde_json::json;

const HOUR_MS: i64 = 3_600_000;

fn watching(tenant: &str) -> Watching {
    Watching::of(&World::scope(tenant))
}

/// All pages of a list, three entries at a time.
async fn listed(world: &World, tenant: &str, filter: ReviewFilter) -> Vec<String> {
    let (mut names, mut from) = (Vec::new(), None);
    loop {
        let page = world
            .engine
            .reviews(&watching(tenant), filter.clone(), from, 3)
            .await;
        let page = page.unwrap();
        let name = |entry: ReviewEntry| entry.external_id.unwrap();
        names.extend(page.entries.into_iter().map(name));
        from = page.next;
        if from.is_none() {
            return names;
        }
    }
}

/// An item whose fields are this sure.
fn sure(confidence: f64) -> ItemDetails {
    ItemDetails {
        confidence: Some(confidence),
        ..ItemDetails::default()
    }
}

on_both! {
    async fn v16_a_list_goes_through_what_waits_in_order_then_what_is_held_and_what_failed(world: &World) {
        world.desk("acme", json!({ "strategy": "priority", "maxRetries": 0, "leaseSeconds": 60 })).await;
        for (name, confidence) in [("a", 90.0), ("b", 10.0), ("c", 50.0), ("d", 30.0), ("e", 70.0), ("f", 20.0)] {
            world.submit_with("acme", name, sure(confidence)).await;
            world.clock.advance_ms(1);
        }
        let all = || ReviewFilter::default();
        assert_eq!(listed(world, "acme", all()).await, ["b", "f", "d", "c", "e", "a"]);
        let fifo = ReviewFilter { sort: Some(Strategy::Fifo), ..all() };
        assert_eq!(listed(world, "acme", fifo).await, ["a", "b", "c", "d", "e", "f"]);
        world.pop_one("acme", "ann").await;
        world.clock.advance_ms(61_000);
        world.engine.review_reap(None).await.unwrap();
        world.pop_one("acme", "bob").await;
        assert_eq!(listed(world, "acme", all()).await, ["d", "c", "e", "a", "f", "b"]);
        let of = |state| ReviewFilter { state: Some(state), ..all() };
        assert_eq!(listed(world, "acme", of(ReviewState::InReview)).await, ["f"]);
        assert_eq!(listed(world, "acme", of(ReviewState::Failed)).await, ["b"]);
        let held_by = |who: &str| ReviewFilter { assigned_to: Some(who.to_owned()), ..all() };
        assert_eq!(listed(world, "acme", held_by("bob")).await, ["f"]);
        let held = world.engine.reviews(&watching("acme"), held_by("bob"), None, 1).await.unwrap();
        world.decide("acme", "bob", decision(held.entries[0].review.id, Outcome::Approved)).await.unwrap();
        assert_eq!(listed(world, "acme", of(ReviewState::Approved)).await, ["f"]);
        assert_eq!(listed(world, "acme", of(ReviewState::Rejected)).await, [""; 0]);
    }

    async fn v3_v4_bands_and_overdue_reviews_can_be_asked_for(world: &World) {
        world.desk("acme", json!({ "slaHours": 24 })).await;
        for (name, confidence, left_ms) in [("calm", 100.0, 24 * HOUR_MS), ("low", 0.0, 24 * HOUR_MS), ("late", 100.0, -HOUR_MS * 12 / 5), ("worst", 0.0, -HOUR_MS * 12 / 5)] {
            let deadline = Some(world.clock.now().plus_ms(left_ms));
            world.submit_with("acme", name, ItemDetails { deadline, ..sure(confidence) }).await;
        }
        let band = |band| ReviewFilter { band: Some(band), ..ReviewFilter::default() };
        assert_eq!(listed(world, "acme", band(Band::High)).await, ["worst"]);
        assert_eq!(listed(world, "acme", band(Band::Medium)).await, ["low"]);
        assert_eq!(listed(world, "acme", band(Band::Low)).await, ["late", "calm"]);
        let overdue = |overdue| ReviewFilter { overdue: Some(overdue), ..ReviewFilter::default() };
        assert_eq!(listed(world, "acme", overdue(true)).await, ["late", "worst"]);
        assert_eq!(listed(world, "acme", overdue(false)).await, ["low", "calm"]);
        let first = world.pop_one("acme", "ann").await;
        assert_eq!((first.external_id.as_deref(), first.sla), (Some("worst"), SlaLevel::Overdue));
        assert!((first.parts.total() - (40.0 + 30.0 * 1.1)).abs() < 1e-9);
        let told = world.engine.review_explain(&watching("acme"), first.review.id).await.unwrap();
        assert_eq!(told.entry.parts, first.parts);
        assert_eq!(told.reasons[0], "ann is looking at it.");
        assert!(told.reasons[1].starts_with("Its score is 73.0: 40.0 for confidence, 33.0 for the deadline, 0.0"));
        assert_eq!(told.reasons[2], "It is overdue; its score goes on growing.");
    }

    async fn a1_a_list_shows_no_other_tenants_reviews(world: &World) {
        for tenant in ["acme", "other"] {
            world.desk(tenant, json!({})).await;
            world.submit_one(tenant, tenant).await;
        }
        assert_eq!(listed(world, "acme", ReviewFilter::default()).await, ["acme"]);
        let theirs = ReviewFilter { collection: Some(names::collection("other")), ..ReviewFilter::default() };
        let refused = world.engine.reviews(&watching("acme"), theirs, None, 3).await.unwrap_err();
        assert!(matches!(refused.refusal().unwrap(), Refusal::NotFound { .. }));
        let id = world.pop_one("other", "ann").await.review.id;
        for refused in [
            world.engine.review(&watching("acme"), id).await.map(drop),
            world.engine.review_explain(&watching("acme"), id).await.map(drop),
            world.engine.review_stats(&watching("acme"), &names::collection("other")).await.map(drop),
            world.engine.review_workload(&watching("acme"), &names::collection("other")).await.map(drop),
        ] {
            assert!(matches!(refused.unwrap_err().refusal().unwrap(), Refusal::NotFound { .. }));
        }
        let everybody = Watching::all(&World::operator());
        let page = world.engine.reviews(&everybody, ReviewFilter::default(), None, 10).await.unwrap();
        assert_eq!(page.entries.len(), 2);
    }

    async fn a_page_goes_through_a_bounded_number_of_collections(world: &World) {
        world.desk("acme", json!({})).await;
        for n in 0..201 {
            let settings = CollectionSettings {
                id: names::collection(&format!("a-{n}")),
                tenant: names::tenant("acme"),
                pipeline: None,
                review: true,
                settings: json!({}),
            };
            world.engine.collection_put(&World::operator(), settings).await.unwrap();
        }
        world.submit_one("acme", "behind them all").await;
        let page = world.engine.reviews(&watching("acme"), ReviewFilter::default(), None, 3).await.unwrap();
        assert!(page.entries.is_empty() && page.next.is_some(), "{page:?}");
        assert_eq!(listed(world, "acme", ReviewFilter::default()).await, ["behind them all"]);
    }

    async fn v16_stats_say_what_is_in_each_state(world: &World) {
        world.desk("acme", json!({ "slaHours": 1 })).await;
        let began = world.clock.now();
        for name in ["a", "b", "c", "d"] {
            world.submit_one("acme", name).await;
            world.clock.advance_ms(1_000);
        }
        let held = world.pop("acme", "ann", 2).await.entries;
        world.decide("acme", "ann", decision(held[0].review.id, Outcome::Rejected)).await.unwrap();
        let stats = async || world.engine.review_stats(&watching("acme"), &names::collection("acme")).await.unwrap();
        let seen = stats().await;
        assert_eq!(
            [ReviewState::Pending, ReviewState::InReview, ReviewState::Rejected, ReviewState::Approved].map(|s| seen.count(s)),
            [2, 1, 1, 0]
        );
        assert_eq!((seen.overdue, seen.oldest_pending), (0, Some(began.plus_ms(2_000))));
        world.clock.advance_ms(HOUR_MS);
        assert_eq!(stats().await.overdue, 3, "what is in hands can be overdue, too");
        let all = world.engine.review_stats_all(&Watching::all(&World::operator()), None, 10).await.unwrap();
        assert_eq!(all, [stats().await]);
        let depth = world.engine.review_depth().await.unwrap();
        assert_eq!((depth.pending, depth.in_review, depth.overdue), (2, 1, 3));
        assert_eq!(depth.oldest, Some(began.plus_ms(2_000)));
    }

    async fn v15_workload_tells_what_each_reviewer_holds_and_has_done(world: &World) {
        world.desk("acme", json!({ "roster": ["ann", "bob", "cyd"] })).await;
        world.reviewer("bob", false, Some(3)).await;
        for name in ["a", "b", "c"] {
            world.submit_one("acme", name).await;
        }
        let held = world.pop("acme", "ann", 2).await.entries;
        world.clock.advance_ms(30_000);
        world.decide("acme", "ann", decision(held[0].review.id, Outcome::Approved)).await.unwrap();
        let found = world.engine.review_workload(&watching("acme"), &names::collection("acme")).await.unwrap();
        let told: Vec<_> = found
            .iter()
            .map(|w| (w.reviewer.as_str(), w.available, w.capacity, w.in_review, w.decided_today, w.mean_ms))
            .collect();
        assert_eq!(
            told,
            [
                ("ann", true, None, 1, 1, Some(30_000)),
                ("bob", false, Some(3), 0, 0, None),
                ("cyd", true, None, 0, 0, None),
            ]
        );
    }

    async fn v9_the_item_tells_how_its_review_was_decided(world: &World) {
        world.pipeline_desk("acme", json!({})).await;
        let id = world.submit_one("acme", "a").await.id;
        world.process_next(vec![said("vendor", "Acne Corp", 67.0)]).await;
        let seen = world.view("acme", id).await;
        assert_eq!(seen.review.unwrap().review.hand.state, ReviewState::Pending);
        assert!(seen.item.decided.is_none());
        let held = world.pop_one("acme", "ann").await.review;
        world.clock.advance_ms(5_000);
        world.decide("acme", "ann", correction(held.id, "vendor", "Acme Corp")).await.unwrap();
        let seen = world.view("acme", id).await;
        let decided = seen.item.decided.unwrap();
        assert_eq!((decided.state, decided.by.as_str(), decided.at), (ReviewState::Corrected, "ann", world.clock.now()));
        assert_eq!(seen.item.updated_at, decided.at);
        assert_eq!(seen.review.unwrap().review.hand.state, ReviewState::Corrected);
    }
}
