//! What decided reviews tell (rule L3), against numbers computed by hand.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::field::MachineField;
use docket_core::id::ReviewId;
use docket_core::insight::Kept;
use docket_core::item::{ItemDetails, OnConflict};
use docket_core::name::ReviewerId;
use docket_core::review::Outcome;
use docket_core::{Clock as _, Timestamp};
use docket_engine::{CorrectionsInsight, Decision, InsightQuery, SlaOfCollection, TrainingExample};
use docket_testkit::desk::{correction, decision, reviewer, said};
use docket_testkit::{World, WorldConfig, names, on_both};
use serde_json::{Value, json};

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Reads an item with these fields, looks at it for so long, and decides.
async fn decide(
    world: &World,
    who: &str,
    item: &str,
    fields: Vec<MachineField>,
    active_ms: i64,
    what: fn(ReviewId) -> Decision,
) -> Decision {
    let details = ItemDetails {
        fields: Some(fields),
        ..ItemDetails::default()
    };
    world.submit_with("acme", item, details).await;
    let id = world.pop_one("acme", who).await.review.id;
    world.pass_ms(active_ms);
    let decision = what(id);
    world.decide("acme", who, decision.clone()).await.unwrap();
    decision
}

fn approve(id: ReviewId) -> Decision {
    decision(id, Outcome::Approved)
}

fn reject(id: ReviewId) -> Decision {
    decision(id, Outcome::Rejected)
}

fn vendor_is_acme(id: ReviewId) -> Decision {
    correction(id, "vendor", "Acme")
}

async fn corrections(world: &World, query: InsightQuery) -> CorrectionsInsight {
    let scope = World::scope("acme");
    world.engine.insight_corrections(&scope, &query).await.unwrap()
}

/// The fields of corrections: name, extracted, corrected.
fn counts(found: &CorrectionsInsight) -> Vec<(&str, u64, u64)> {
    let fields = found.fields.iter();
    fields
        .map(|field| (field.field.as_str(), field.extracted, field.corrected))
        .collect()
}

async fn training_data(world: &World, tenant: &str, query: InsightQuery) -> Vec<TrainingExample> {
    let scope = World::scope(tenant);
    let mut data = world.engine.training_data(&scope, query).await.unwrap();
    let mut all = Vec::new();
    while let Some(examples) = data.next().await.unwrap() {
        all.extend(examples);
    }
    all
}

fn values(examples: &[TrainingExample]) -> Vec<(&Value, &Value, Option<&Value>, i64)> {
    let examples = examples.iter();
    examples
        .map(|e| {
            (
                &e.machine_value,
                &e.human_value,
                e.previous_value.as_ref(),
                e.version,
            )
        })
        .collect()
}

async fn sla(world: &World, pace_hours: u32) -> SlaOfCollection {
    let query = InsightQuery {
        collection: Some(names::collection("acme")),
        ..InsightQuery::default()
    };
    let scope = World::scope("acme");
    let found = world.engine.insight_sla(&scope, &query, pace_hours).await;
    found.unwrap().collections.pop().unwrap()
}

on_both! {
    async fn l3_corrections_are_counted_by_field_with_their_commonest_changes(world: &World) {
        world.desk("acme", json!({ "undoSeconds": 10 })).await;
        let read = |vendor: &str| vec![said("vendor", vendor, 60.0), said("total", 12, 99.0)];
        for item in ["a", "b"] {
            decide(world, "ann", item, read("Acne"), 1_000, vendor_is_acme).await;
        }
        decide(world, "ann", "c", read("Akme"), 1_000, vendor_is_acme).await;
        decide(world, "bob", "d", read("Acme"), 1_000, approve).await;
        decide(world, "bob", "e", read("Bolt"), 1_000, reject).await;
        let found = corrections(world, InsightQuery::default()).await;
        assert_eq!(counts(&found), [("vendor", 4, 3), ("total", 4, 0)]);
        assert_eq!((found.looked_at.reviews, found.rejected, found.looked_at.is_capped), (5, 1, false));
        let vendor = &found.fields[0];
        let changes: Vec<_> = vendor.changes.iter().map(|c| (c.key.0.as_str(), c.key.1.as_str(), c.count)).collect();
        assert_eq!(changes, [(r#""Acne""#, r#""Acme""#, 2), (r#""Akme""#, r#""Acme""#, 1)]);
        assert_eq!((vendor.rate(), vendor.other_changes(), vendor.is_exact), (Some(0.75), 0, true));
        let total = InsightQuery { field: Some("total".to_owned()), ..InsightQuery::default() };
        assert_eq!(counts(&corrections(world, total).await), [("total", 4, 0)]);
        let examples = training_data(world, "acme", InsightQuery::default()).await;
        assert_eq!(examples.len(), 3, "as many as were corrected");
        let first = &examples[0];
        assert_eq!((first.external_id.as_deref(), first.field.as_str()), (Some("a"), "vendor"));
        assert_eq!((first.confidence, first.decided_by.as_str()), (Some(60.0), "ann"));
        assert_eq!(values(&examples)[0], (&json!("Acne"), &json!("Acme"), None, 1));
    }

    async fn l3_a_decision_that_was_taken_back_does_not_count(world: &World) {
        world.desk("acme", json!({ "undoSeconds": 10 })).await;
        let fields = vec![said("vendor", "Acne", 60.0)];
        let taken_back = decide(world, "ann", "a", fields, 5_000, vendor_is_acme).await;
        assert_eq!(counts(&corrections(world, InsightQuery::default()).await), [("vendor", 1, 1)]);
        let undone = world.engine.review_undo(&reviewer("acme", "ann"), vec![taken_back.id]).await;
        undone.unwrap().remove(0).unwrap();
        let none = corrections(world, InsightQuery::default()).await;
        assert_eq!((counts(&none), none.looked_at.reviews), (vec![], 0));
        assert!(training_data(world, "acme", InsightQuery::default()).await.is_empty());
        assert_eq!(sla(world, 24).await.kept, Kept::default());
        world.decide("acme", "ann", decision(taken_back.id, Outcome::Approved)).await.unwrap();
        let found = corrections(world, InsightQuery::default()).await;
        assert_eq!((counts(&found), found.looked_at.reviews), (vec![("vendor", 1, 0)], 1));
    }

    async fn l3_a_field_that_is_a_persons_tells_nothing_of_the_machine(world: &World) {
        world.desk("acme", json!({})).await;
        let read = |vendor: &str| vec![said("vendor", vendor, 60.0), said("total", 12, 99.0)];
        decide(world, "ann", "a", read("Acne"), 1_000, vendor_is_acme).await;
        // The next version: the machine says the same again, and what reviewers see is Ann's value.
        let next = |vendor: &str| ItemDetails {
            on_conflict: OnConflict::NewVersion,
            fields: Some(read(vendor)),
            ..ItemDetails::default()
        };
        let again = async |version: u32, vendor: &str| {
            let mut item = World::item("a");
            item.payload = json!({ "version": version });
            item.details = ItemDetails { external_id: Some("a".to_owned()), ..next(vendor) };
            world.submit("acme", vec![item]).await.unwrap().results.remove(0).unwrap();
            world.pop_one("acme", "bob").await.review.id
        };
        let id = again(2, "Acne").await;
        world.decide("acme", "bob", decision(id, Outcome::Approved)).await.unwrap();
        assert_eq!(counts(&corrections(world, InsightQuery::default()).await), [("vendor", 1, 1), ("total", 2, 0)]);
        // Where such a field is corrected once more, the machine's value is what was wrong, not Ann's.
        let id = again(3, "Acn").await;
        world.decide("acme", "bob", correction(id, "vendor", "Acme Inc")).await.unwrap();
        assert_eq!(counts(&corrections(world, InsightQuery::default()).await), [("vendor", 2, 2), ("total", 3, 0)]);
        let examples = training_data(world, "acme", InsightQuery::default()).await;
        assert_eq!(values(&examples), [
            (&json!("Acne"), &json!("Acme"), None, 1),
            (&json!("Acn"), &json!("Acme Inc"), Some(&json!("Acme")), 3),
        ]);
        // And where a person gives it back the value that the machine reads, the machine was right.
        let id = again(4, "Acme GmbH").await;
        world.decide("acme", "bob", correction(id, "vendor", "Acme GmbH")).await.unwrap();
        assert_eq!(counts(&corrections(world, InsightQuery::default()).await), [("vendor", 3, 2), ("total", 4, 0)]);
        assert_eq!(training_data(world, "acme", InsightQuery::default()).await.len(), 2);
    }

    async fn l3_a_locked_field_of_an_item_that_is_processed_again_is_not_counted(world: &World) {
        world.pipeline_desk("acme", json!({})).await;
        let read = || vec![said("vendor", "Acne", 60.0), said("total", 12, 99.0)];
        let id = world.submit_one("acme", "a").await.id;
        world.process_next(read()).await;
        let held = world.pop_one("acme", "ann").await.review;
        world.decide("acme", "ann", correction(held.id, "vendor", "Acme")).await.unwrap();
        let mut next = World::item("a");
        next.payload = json!({ "version": 2 });
        next.details.on_conflict = OnConflict::NewVersion;
        world.submit("acme", vec![next]).await.unwrap().results.remove(0).unwrap();
        assert_eq!(world.process_next(read()).await, id);
        let held = world.pop_one("acme", "ann").await.review;
        world.decide("acme", "ann", decision(held.id, Outcome::Approved)).await.unwrap();
        assert_eq!(counts(&corrections(world, InsightQuery::default()).await), [("vendor", 1, 1), ("total", 2, 0)]);
    }

    async fn l3_reviewers_are_told_with_their_days_times_and_rates(world: &World) {
        world.desk("acme", json!({ "leaseSeconds": 3_600 })).await;
        // The world begins at 14:13 UTC.
        for (item, active_ms, what) in [
            ("a", 10_000, approve as fn(ReviewId) -> Decision),
            ("b", 30_000, vendor_is_acme),
            ("c", 20_000, reject),
        ] {
            decide(world, "ann", item, vec![said("vendor", "Acne", 60.0)], active_ms, what).await;
        }
        decide(world, "bob", "d", vec![], 7_000, approve).await;
        world.pass_ms(2 * DAY_MS);
        decide(world, "ann", "e", vec![], 60_000, approve).await;
        let scope = World::scope("acme");
        let found = world.engine.insight_reviewers(&scope, &InsightQuery::default(), None).await.unwrap();
        assert_eq!((found.looked_at.reviews, found.left_out), (5, 0));
        let (id, ann) = &found.reviewers[0];
        assert_eq!((id.as_str(), ann.approved, ann.corrected, ann.rejected), ("ann", 2, 1, 1));
        let days: Vec<_> = ann.days.iter().map(|(day, count)| (day.ms() % DAY_MS, *count)).collect();
        assert_eq!(days, [(0, 3), (0, 1)]);
        assert_eq!((ann.decisions_a_day(), ann.correction_rate(), ann.rejection_rate()), (Some(2.0), Some(0.25), Some(0.25)));
        assert_eq!((ann.active.mean_ms(), ann.active.median_ms()), (Some(30_000.0), Some(25_000.0)));
        assert_eq!((found.reviewers[1].0.as_str(), found.reviewers[1].1.decisions()), ("bob", 1));
        let bob = ReviewerId::new("bob").unwrap();
        let own = world.engine.insight_reviewers(&scope, &InsightQuery::default(), Some(&bob)).await.unwrap();
        assert_eq!((own.reviewers.len(), own.looked_at.reviews), (1, 1), "nothing of the others");
        assert_eq!(own.reviewers[0].1.active.median_ms(), Some(7_000.0));
    }

    async fn l3_confidence_is_set_against_what_reviewers_changed(world: &World) {
        world.desk("acme", json!({})).await;
        for (item, vendor, total, what) in [
            ("a", 96.0, 98.0, approve as fn(ReviewId) -> Decision), // 97 on average
            ("b", 92.0, 99.0, vendor_is_acme),                      // 95.5
            ("c", 91.0, 99.0, reject),                              // 95
            ("d", 40.0, 90.0, vendor_is_acme),                      // 65
        ] {
            let fields = vec![said("vendor", "Acne", vendor), said("total", 12, total)];
            decide(world, "ann", item, fields, 1_000, what).await;
        }
        decide(world, "ann", "e", vec![], 1_000, approve).await;
        let scope = World::scope("acme");
        let ask = async |field: Option<&str>| {
            let query = InsightQuery { field: field.map(str::to_owned), ..InsightQuery::default() };
            world.engine.insight_calibration(&scope, &query, Some(97.0)).await.unwrap().calibration
        };
        let all = ask(None).await;
        let bins: Vec<_> = all.bins.iter().map(|bin| (bin.fields, bin.changed)).collect();
        assert_eq!(bins, [(0, 0), (0, 0), (0, 0), (0, 0), (1, 1), (0, 0), (0, 0), (0, 0), (0, 0), (5, 1)]);
        assert_eq!((all.reviews, all.reviews_without, all.fields_without), (4, 1, 0));
        let at = |at: f64| *all.thresholds.iter().find(|threshold| threshold.at == at).unwrap();
        assert_eq!((at(97.0).reviews, at(97.0).let_through()), (1, 0));
        assert_eq!((at(95.0).reviews, at(95.0).corrected, at(95.0).rejected), (3, 1, 1));
        assert_eq!((at(60.0).reviews, at(60.0).let_through()), (4, 3));
        assert_eq!((at(90.0).fields, at(90.0).changed), (5, 1));
        let vendor = ask(Some("vendor")).await;
        assert_eq!((vendor.bins[9].fields, vendor.bins[9].changed, vendor.bins[4].changed), (2, 1, 1));
    }

    async fn l3_deadlines_are_kept_or_missed_and_what_waits_is_forecast_at_the_present_pace(world: &World) {
        world.desk("acme", json!({ "slaHours": 1, "leaseSeconds": 36_000, "strategy": "deadline" })).await;
        decide(world, "ann", "a", vec![], 30 * MINUTE_MS, approve).await;
        decide(world, "ann", "b", vec![], HOUR_MS, approve).await;
        decide(world, "ann", "c", vec![], HOUR_MS + 1, approve).await;
        let found = sla(world, 24).await;
        assert_eq!(found.kept, Kept { met: 2, missed: 1 });
        assert_eq!((found.pace.decided, found.forecast.waiting), (3, 0));
        // Three in three hours: one is decided each hour, the k-th of those that wait in k hours.
        world.pass_ms(HOUR_MS / 2 - 1);
        let now = world.clock.now();
        for (item, left_ms) in [("x", -1), ("y", 3 * HOUR_MS), ("w", 2 * HOUR_MS), ("z", 3 * HOUR_MS)] {
            let details = ItemDetails { deadline: Some(now.plus_ms(left_ms)), ..ItemDetails::default() };
            world.submit_with("acme", item, details).await;
        }
        let found = sla(world, 3).await;
        assert_eq!((found.pace.decided, found.pace.per_hour()), (3, 1.0));
        // In order: x (overdue, so missed), w (in two hours, just in time), y or z (in three), the other (in four, too late).
        assert_eq!((found.forecast.waiting, found.forecast.overdue, found.forecast.will_miss), (4, 1, 2));
        // Who looks further back sees a slower pace: three in 24 hours, so one in eight.
        assert_eq!(sla(world, 24).await.forecast.will_miss, 4);
        // One that is being looked at waits no more.
        let held = world.pop_one("acme", "ann").await;
        assert_eq!(held.external_id.as_deref(), Some("x"));
        let found = sla(world, 3).await;
        assert_eq!((found.forecast.waiting, found.forecast.will_miss, found.in_review), (3, 0, 1));
        world.pass_ms(3 * HOUR_MS + 1);
        assert_eq!(sla(world, 1).await.forecast.will_miss, 3, "nobody decides anything");
    }

    async fn l3_what_is_assigned_and_not_looked_at_yet_still_waits(world: &World) {
        let policy = json!({ "assignment": "auto", "roster": ["ann"], "slaHours": 1, "leaseSeconds": 36_000 });
        world.desk("acme", policy).await;
        world.submit_many("acme", "x", 3).await;
        let found = sla(world, 24).await;
        assert_eq!((found.forecast.waiting, found.forecast.will_miss, found.in_review), (3, 3, 3));
        world.pop("acme", "ann", 2).await;
        let found = sla(world, 24).await;
        assert_eq!((found.forecast.waiting, found.in_review), (1, 3));
    }

    async fn l3_a_period_bounds_what_is_looked_at(world: &World) {
        world.desk("acme", json!({})).await;
        let begin = world.clock.now();
        decide(world, "ann", "a", vec![said("vendor", "Acne", 60.0)], 1_000, vendor_is_acme).await;
        world.pass_ms(40 * DAY_MS);
        decide(world, "ann", "b", vec![said("vendor", "Akme", 60.0)], 1_000, vendor_is_acme).await;
        let between = |since: Option<Timestamp>, until: Option<Timestamp>| InsightQuery { since, until, ..InsightQuery::default() };
        let first = begin.plus_ms(1_000);
        for (query, reviews) in [
            (between(None, None), 1),
            (between(Some(begin), None), 2),
            (between(Some(first), None), 2),
            (between(Some(first.plus_ms(1)), None), 1),
            (between(Some(begin), Some(first)), 0),
            (between(Some(begin), Some(first.plus_ms(1))), 1),
            (between(None, Some(begin.plus_ms(5 * DAY_MS))), 1),
        ] {
            assert_eq!(corrections(world, query.clone()).await.looked_at.reviews, reviews, "{query:?}");
            assert_eq!(training_data(world, "acme", query).await.len() as u64, reviews);
        }
        let scope = World::scope("acme");
        for query in [between(Some(first), Some(first)), between(Some(first.plus_ms(-400 * DAY_MS)), None)] {
            let refused = world.engine.insight_corrections(&scope, &query).await.unwrap_err();
            assert_eq!(refused.refusal().unwrap().code(), "validation_failed");
        }
    }

    async fn l3_a_tenant_learns_of_all_its_collections_and_of_no_others(world: &World) {
        world.desk("acme", json!({})).await;
        world.desk("bolt", json!({})).await;
        decide(world, "ann", "a", vec![said("vendor", "Acne", 60.0)], 1_000, vendor_is_acme).await;
        let mut second = docket_engine::CollectionSettings {
            id: names::collection("acme-2"),
            tenant: names::tenant("acme"),
            pipeline: None,
            review: true,
            settings: json!({}),
        };
        world.engine.collection_put(&World::operator(), second.clone()).await.unwrap();
        second.id = names::collection("acme-3");
        world.engine.collection_put(&World::operator(), second).await.unwrap();
        let sla = async |tenant: &str, collection: Option<&str>| {
            let query = InsightQuery { collection: collection.map(names::collection), ..InsightQuery::default() };
            let found = world.engine.insight_sla(&World::scope(tenant), &query, 24).await?;
            let ids: Vec<_> = found.collections.into_iter().map(|of| of.collection_id).collect();
            Ok::<_, docket_engine::Error>((ids, found.looked_at.reviews))
        };
        assert_eq!(sla("acme", None).await.unwrap(), (vec!["acme".to_owned()], 1), "of the others there is nothing to tell");
        assert_eq!(sla("acme", Some("acme-2")).await.unwrap(), (vec!["acme-2".to_owned()], 0));
        assert_eq!(sla("bolt", None).await.unwrap(), (vec![], 0));
        assert_eq!(sla("bolt", Some("acme")).await.unwrap_err().refusal().unwrap().code(), "not_found");
        assert!(training_data(world, "bolt", InsightQuery::default()).await.is_empty());
    }

    async fn l3_what_is_forgotten_is_not_told_any_more(world: &World) {
        let settings = WorldConfig { keep_finished_ms: Some(DAY_MS), ..WorldConfig::default() };
        let world = &world.beside(&settings).await;
        world.desk("acme", json!({})).await;
        decide(world, "ann", "a", vec![said("vendor", "Acne", 60.0)], 1_000, vendor_is_acme).await;
        world.pass_ms(DAY_MS + 1);
        assert_eq!(training_data(world, "acme", InsightQuery::default()).await.len(), 1);
        world.engine.retain().await.unwrap();
        assert_eq!(corrections(world, InsightQuery::default()).await.looked_at.reviews, 0);
        assert!(training_data(world, "acme", InsightQuery::default()).await.is_empty());
    }

    async fn l3_many_decisions_of_one_moment_are_each_read_once(world: &World) {
        world.desk("acme", json!({})).await;
        world.submit_many("acme", "x", 1_200).await;
        let mut decided = 0;
        loop {
            let popped = world.pop("acme", "ann", 200).await.entries;
            if popped.is_empty() {
                break;
            }
            decided += popped.len() as u64;
            let decisions = popped.iter().map(|entry| Ok(decision(entry.review.id, Outcome::Approved))).collect();
            world.engine.review_commit(&reviewer("acme", "ann"), decisions).await.unwrap();
        }
        assert_eq!(decided, 1_200);
        assert_eq!(corrections(world, InsightQuery::default()).await.looked_at.reviews, 1_200);
        let scope = World::scope("acme");
        let found = world.engine.insight_reviewers(&scope, &InsightQuery::default(), None).await.unwrap();
        assert_eq!(found.reviewers[0].1.approved, 1_200);
    }
}
