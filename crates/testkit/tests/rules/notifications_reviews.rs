//! Decided reviews notify by their collection's rule, in the transaction that decides, after the time in which a decision can be taken back
//! (rules N11 and V17).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::id::{DeliveryId, ItemId, ReviewId};
use docket_core::review::Outcome;
use docket_engine::{CollectionSettings, DeliveryFilter};
use docket_testkit::desk::{correction, decision, reviewer, said};
use docket_testkit::outbox::{Coded as _, FILE, HOOK, MAIL};
use docket_testkit::scripted::Play;
use docket_testkit::{World, names, on_both};
use serde_json::{Value, json};

fn settings(notify: &Value) -> CollectionSettings {
    CollectionSettings {
        id: names::collection("acme"),
        tenant: names::tenant("acme"),
        pipeline: None,
        review: true,
        settings: json!({ "review": { "undoSeconds": 10 }, "notify": notify }),
    }
}

/// A desk whose decisions are told by this rule, and one review of it in ann's hands.
async fn desk(world: &World, notify: Value) -> (ItemId, ReviewId) {
    world.desk("acme", json!({ "undoSeconds": 10 })).await;
    let put = world
        .engine
        .collection_put(&World::operator(), settings(&notify))
        .await;
    put.unwrap();
    let details = docket_core::item::ItemDetails {
        fields: Some(vec![
            said("total", 12.5, 80.0),
            said("name", "Ann\r\nBcc: eve@example.com", 90.0),
        ]),
        ..Default::default()
    };
    let item = world.submit_with("acme", "INV-1", details).await;
    let held = world.pop_one("acme", "ann").await;
    (item, held.review.id)
}

fn said_to(world: &World, n: usize) -> String {
    String::from_utf8(world.providers.webhook.ledger().remove(n).body).unwrap()
}

on_both! {
    async fn n6_a_collection_has_its_own_policy_for_what_nobody_can_tell(world: &World) {
        let rule = json!({ "recipients": [MAIL], "on": ["approved"], "onUnknown": "resend" });
        let (_, review) = desk(world, rule).await;
        world.providers.email.plays([Play::AcceptInSilence, Play::Accept, Play::AcceptInSilence]);
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        world.dispatch_after(10_001).await;
        world.dispatch_after(60_000).await;
        assert_eq!(world.providers.email.told(MAIL), 2, "sent again, as the collection has it");
        let held = world.deliver("CL-1", MAIL).await;
        world.dispatch().await;
        world.dispatch_after(60_000).await;
        assert_eq!(world.delivery_state(held).await, "held", "as the channel has it");
    }

    async fn n11_a_decision_makes_its_notification_and_sends_it_when_it_can_no_longer_be_taken_back(world: &World) {
        let rule = json!({ "recipients": [HOOK, FILE], "on": ["approved"] });
        let (item, review) = desk(world, rule).await;
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        assert_eq!(world.number("select count(*) from notification where review_version = 1").await, 1);
        world.dispatch_after(10_000).await;
        assert_eq!(world.providers.webhook.ledger(), [], "it can still be taken back");
        world.dispatch_after(1).await;
        assert_eq!(said_to(world, 0), "INV-1 was approved\nINV-1 in acme was approved by ann.\n");
        assert_eq!(world.providers.file.ledger().len(), 1);
        let story = world.story("acme", item).await;
        for action in ["notification.created", "delivery.sending", "delivery.sent"] {
            assert!(story.iter().any(|known| known == action), "{action} is in {story:?}");
        }
    }

    async fn n11_only_the_outcomes_of_the_rule_are_told(world: &World) {
        let (_, review) = desk(world, json!({ "recipients": [HOOK], "on": ["rejected"] })).await;
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        world.dispatch_after(60_000).await;
        assert_eq!(world.number("select count(*) from notification").await, 0);
    }

    async fn n11_the_rules_templates_have_the_items_fields_and_break_out_of_nothing(world: &World) {
        let rule = json!({
            "recipients": [HOOK], "on": ["corrected"], "subject": "{{ item.fields.name }} {{ outcome }}",
            "body": "{{ item.fields.total }}{% for c in corrections %} {{ c.field }}: {{ c.old }} -> {{ c.new }}{% endfor %}",
        });
        let (_, review) = desk(world, rule).await;
        world.decide("acme", "ann", correction(review, "total", 99)).await.unwrap();
        world.dispatch_after(10_001).await;
        assert_eq!(said_to(world, 0), "Ann Bcc: eve@example.com corrected\n99 total: 12.5 -> 99");
    }

    async fn n11_a_subject_of_fields_that_an_item_does_not_have_gives_way_to_the_standard_one(world: &World) {
        let rule = json!({ "recipients": [HOOK], "on": ["approved"], "subject": " {{ item.fields.title }} " });
        let (_, review) = desk(world, rule).await;
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        world.dispatch_after(10_001).await;
        assert!(said_to(world, 0).starts_with("INV-1 was approved\n"), "{}", said_to(world, 0));
    }

    async fn v17_an_undone_decision_tells_nobody_and_the_next_one_does(world: &World) {
        let (item, review) = desk(world, json!({ "recipients": [HOOK], "on": ["approved", "rejected"] })).await;
        world.decide("acme", "ann", decision(review, Outcome::Rejected)).await.unwrap();
        world.pass_ms(5_000);
        let undone = world.engine.review_undo(&reviewer("acme", "ann"), vec![review]).await.unwrap();
        undone.into_iter().next().unwrap().unwrap();
        world.dispatch_after(60_000).await;
        assert_eq!(world.providers.webhook.ledger(), []);
        assert_eq!(world.number("select count(*) from delivery").await, 0);
        let story = world.story("acme", item).await;
        assert!(story.iter().any(|action| action == "notification.withdrawn"), "{story:?}");
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        world.dispatch_after(10_001).await;
        assert!(said_to(world, 0).starts_with("INV-1 was approved"));
        assert_eq!(world.providers.webhook.told(HOOK), 1);
    }

    async fn v17_a_decision_that_is_being_told_stands(world: &World) {
        let (_, review) = desk(world, json!({ "recipients": [HOOK], "on": ["approved"] })).await;
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        // Another server's clock is a little ahead.
        world.execute("update delivery set due_ms = 0").await.unwrap();
        world.dispatch().await;
        let undone = world.engine.review_undo(&reviewer("acme", "ann"), vec![review]).await.unwrap();
        assert_eq!(undone[0].as_ref().unwrap_err().code(), "conflict");
        assert_eq!(world.providers.webhook.told(HOOK), 1);
    }

    async fn v17_an_undo_that_comes_too_late_leaves_the_correction_as_it_is(world: &World) {
        let (item, review) = desk(world, json!({ "recipients": [HOOK], "on": ["corrected"] })).await;
        world.decide("acme", "ann", correction(review, "total", 15.0)).await.unwrap();
        world.execute("update delivery set due_ms = 0").await.unwrap();
        world.dispatch().await;
        let undone = world.engine.review_undo(&reviewer("acme", "ann"), vec![review]).await.unwrap();
        assert_eq!(undone[0].as_ref().unwrap_err().code(), "conflict");
        let fields = world.view("acme", item).await.fields;
        let total = fields.iter().find(|field| field.name == "total").unwrap();
        assert_eq!((&total.value, total.locked), (&json!(15.0), true));
    }

    async fn v17_a_decision_whose_message_was_cancelled_can_still_be_taken_back(world: &World) {
        let (_, review) = desk(world, json!({ "recipients": [HOOK, FILE], "on": ["approved"] })).await;
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        let who = World::notifying();
        let page = world.engine.deliveries(&who, DeliveryFilter::default(), DeliveryId::last(), 1).await.unwrap();
        world.engine.delivery_cancel(&who, page.items[0].delivery.id).await.unwrap();
        let undone = world.engine.review_undo(&reviewer("acme", "ann"), vec![review]).await.unwrap();
        assert!(undone[0].is_ok(), "{undone:?}");
        assert_eq!(world.number("select count(*) from delivery").await, 0);
    }

    async fn n11_a_rule_that_cannot_be_kept_is_logged_and_holds_no_decision_up(world: &World) {
        let (item, review) = desk(world, json!({ "recipients": [HOOK], "on": ["approved"] })).await;
        let broken = "update collection set settings = replace(settings, 'webhook:', 'pigeon:')";
        world.execute(broken).await.unwrap();
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        let story = world.story("acme", item).await;
        assert!(story.iter().any(|action| action == "notification.refused"), "{story:?}");
        world.dispatch_after(60_000).await;
        assert_eq!(world.number("select count(*) from notification").await, 0);
    }

    async fn n11_a_rule_is_checked_when_it_is_put(world: &World) {
        world.tenant("acme", 1).await;
        let endless = "{% for a in 'xxxxxxxxxxxxxxxx' * 999 %}{% for b in 'xxxxxxxxxxxxxxxx' * 999 %}{{ a }}{% endfor %}{% endfor %}";
        for bad in [
            json!({ "recipients": [], "on": ["approved"] }),
            json!({ "recipients": ["pigeon:x"], "on": ["approved"] }),
            json!({ "recipients": [HOOK], "on": [] }),
            json!({ "recipients": [HOOK], "on": ["perhaps"] }),
            json!({ "recipients": [HOOK], "on": ["approved"], "body": "{{ item.id" }),
            json!({ "recipients": [HOOK], "on": ["approved"], "body": endless }),
            json!({ "recipients": [HOOK], "on": ["approved"], "subject": "{% include 'x' %}" }),
        ] {
            let refused = world.engine.collection_put(&World::operator(), settings(&bad)).await;
            assert_eq!(refused.unwrap_err().code(), "validation_failed", "{bad}");
        }
    }

    async fn n11_the_next_version_of_an_item_is_told_as_a_version_of_its_own(world: &World) {
        let (item, review) = desk(world, json!({ "recipients": [HOOK], "on": ["approved"] })).await;
        world.decide("acme", "ann", decision(review, Outcome::Approved)).await.unwrap();
        world.dispatch_after(10_001).await;
        let mut next = World::item("INV-1");
        next.details.on_conflict = docket_core::item::OnConflict::NewVersion;
        next.payload = json!({ "for": "INV-1", "again": true });
        world.submit("acme", vec![next]).await.unwrap().results.pop().unwrap().unwrap();
        let held = world.pop_one("acme", "ann").await;
        world.decide("acme", "ann", decision(held.review.id, Outcome::Approved)).await.unwrap();
        world.dispatch_after(10_001).await;
        assert_eq!(world.providers.webhook.told(HOOK), 2);
        let subject = format!("select count(*) from notification where changelist_id = '{item}'");
        assert_eq!(world.number(&subject).await, 2);
    }
}
