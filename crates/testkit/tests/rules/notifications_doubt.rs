//! What may have been sent: looked up, never blindly resent (rules N4 to N7), with the rows of the failure matrix by name.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::notification::{DeliveryState, NotificationStatus as Status};
use docket_core::notify::{ChannelKind, OnUnknown};
use docket_engine::PauseTarget;
use docket_notify::{Abilities, Channel as _};
use docket_testkit::outbox::{Coded as _, FILE, HOOK, MAIL};
use docket_testkit::scripted::{Play, Say};
use docket_testkit::{World, WorldConfig, on_both};

/// As if the server had died after its send: the intent is there, and neither the mark nor the outcome.
async fn lose_the_mark(world: &World) {
    let until = world.engine.now().plus_ms(60_000).ms();
    let sql = format!(
        "update delivery set state = 1, receipt = null, notified_at_ms = null, evidence_at_ms = null, due_ms = {until}"
    );
    world.execute(&sql).await.unwrap();
    world.execute("delete from delivery_attempt").await.unwrap();
}

on_both! {
    async fn n4_the_intent_is_committed_with_the_frozen_message_before_anything_is_sent(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        let frozen = world.delivery(id).await.delivery;
        world.dispatch().await;
        let view = world.delivery(id).await;
        let course = view.delivery.course;
        assert!(course.intent_at.is_some() && course.intent_at <= course.notified_at);
        let got = world.providers.webhook.ledger().remove(0);
        assert_eq!(got.token, frozen.token);
        assert_eq!(got.body, b"CL-1 is reviewed\nIt is good.\n");
        assert_eq!(course.receipt.unwrap(), format!("receipt-of-{}", frozen.token));
        let story = "select count(*) from log s join log t on t.id > s.id
                     where s.action = 'delivery.sending' and t.action = 'delivery.sent'";
        assert_eq!(world.number(story).await, 1);
    }

    async fn n4_every_try_sends_the_same_bytes_under_the_same_token(world: &World) {
        world.providers.file.plays([Play::AcceptInSilence]);
        let id = world.deliver("CL-1", FILE).await;
        world.dispatch().await;
        world.execute("update notification set body = 'Another one.'").await.unwrap();
        world.dispatch_after(2_000).await;
        assert_eq!(world.delivery_state(id).await, "sent");
        assert_eq!((world.providers.file.ledger().len(), world.providers.file.repeats()), (1, 1));
    }

    async fn matrix_sent_but_the_write_failed(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        lose_the_mark(world).await;
        world.dispatch().await;
        assert_eq!(world.delivery_state(id).await, "sending", "the lease still lasts");
        world.dispatch_after(60_000).await;
        let view = world.delivery(id).await;
        assert_eq!(view.delivery.course.state, DeliveryState::Sent);
        assert!(view.delivery.course.notified_at.is_some() && view.delivery.course.evidence_at.is_some());
        assert_eq!(world.providers.webhook.told(HOOK), 1, "it was not sent again");
        assert_eq!(world.providers.webhook.lookups(), 1);
        assert_eq!(world.logged("delivery.unknown").await, 1);
        assert_eq!(world.logged("delivery.reconciled").await, 1);
        assert_eq!(world.whole(id).await, Status::Succeeded);
    }

    async fn matrix_marked_but_never_sent(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        let now = world.engine.now().ms();
        let mark = format!("update delivery set state = 4, due_ms = null, notified_at_ms = {now}, receipt = 'made up'");
        world.execute(&mark).await.unwrap();
        world.engine.reconciler_run_once().await.unwrap();
        assert_eq!(world.delivery_state(id).await, "reconciling");
        assert_eq!(world.logged("delivery.reconciling").await, 1, "with an alert");
        assert_eq!(world.whole(id).await, Status::InProgress);
        world.dispatch().await;
        assert_eq!(world.delivery_state(id).await, "sent");
        assert_eq!(world.tries(id).await, ["lookup absent", "send accepted"]);
        assert_eq!(world.providers.webhook.told(HOOK), 1, "cleared, requeued and sent");
        world.engine.reconciler_run_once().await.unwrap();
        assert_eq!(world.delivery_state(id).await, "sent", "now there is evidence");
    }

    async fn n5_an_intent_that_was_never_sent_is_asked_about_and_then_sent(world: &World) {
        world.providers.webhook.plays([Play::LoseInSilence]);
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        assert_eq!(world.delivery_state(id).await, "unknown");
        assert_eq!(world.whole(id).await, Status::InProgress);
        world.dispatch_after(2_000).await;
        assert_eq!(world.tries(id).await, ["send unknown", "lookup absent", "send accepted"]);
        assert_eq!(world.providers.webhook.told(HOOK), 1);
    }

    async fn n5_a_send_that_got_through_in_silence_is_found_and_not_repeated(world: &World) {
        world.providers.webhook.plays([Play::AcceptInSilence]);
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        world.dispatch_after(2_000).await;
        assert_eq!(world.tries(id).await, ["send unknown", "lookup found"]);
        assert_eq!(world.delivery_state(id).await, "sent");
        assert_eq!(world.providers.webhook.told(HOOK), 1);
    }

    async fn n5_the_providers_lag_is_waited_for(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        lose_the_mark(world).await;
        // A lease that ended sooner than the provider can tell.
        world.execute(&format!("update delivery set due_ms = {}", world.engine.now().ms())).await.unwrap();
        world.dispatch().await;
        assert_eq!((world.delivery_state(id).await, world.providers.webhook.lookups()), ("unknown", 0));
        world.dispatch_after(1_000).await;
        assert_eq!((world.delivery_state(id).await, world.providers.webhook.lookups()), ("sent", 1));
    }

    async fn n5_an_id_without_a_moment_is_asked_about(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        world.execute("update delivery set receipt = 'seen somewhere'").await.unwrap();
        world.dispatch().await;
        assert_eq!(world.tries(id).await, ["lookup absent", "send accepted"]);
        assert_eq!(world.delivery_state(id).await, "sent");
    }

    async fn n6_what_nobody_can_tell_is_held_for_a_person(world: &World) {
        world.providers.email.plays([Play::AcceptInSilence, Play::LoseInSilence]);
        let (taken, lost) = (world.deliver("CL-1", MAIL).await, world.deliver("CL-2", MAIL).await);
        world.dispatch().await;
        world.dispatch_after(86_400_000).await;
        for id in [taken, lost] {
            assert_eq!(world.delivery_state(id).await, "held");
            assert_eq!(world.whole(id).await, Status::RetryableFailed);
        }
        assert_eq!(world.logged("delivery.held").await, 2);
        assert_eq!(world.providers.email.told(MAIL), 1);
        let who = World::notifying();
        world.engine.delivery_cancel(&who, taken).await.unwrap();
        world.engine.delivery_resend(&who, lost, "n1").await.unwrap();
        world.dispatch().await;
        assert_eq!(world.delivery_state(lost).await, "sent");
        assert_eq!(world.providers.email.told(MAIL), 2);
    }

    async fn n6_by_policy_it_is_resent_and_the_log_says_so(world: &World) {
        let can = Abilities { on_unknown: OnUnknown::Resend, ..world.providers.email.abilities() };
        world.providers.email.can(can);
        world.providers.email.plays([Play::AcceptInSilence]);
        let id = world.deliver("CL-1", MAIL).await;
        world.dispatch().await;
        world.dispatch_after(2_000).await;
        assert_eq!(world.delivery_state(id).await, "sent");
        assert_eq!(world.providers.email.told(MAIL), 2, "that is the risk of the policy");
        let said = "select count(*) from log where action = 'delivery.sending' and details like '%\"mayRepeat\":true%'";
        assert_eq!(world.number(said).await, 1, "and it is not silent");
    }

    async fn n7_what_cannot_be_asked_is_not_asked_and_not_sent_again_by_asking(world: &World) {
        let can = Abilities { on_unknown: OnUnknown::Resend, ..world.providers.email.abilities() };
        world.providers.email.can(can);
        let id = world.deliver("CL-1", MAIL).await;
        world.dispatch().await;
        let refused = world.engine.delivery_reconcile(&World::notifying(), id).await.unwrap_err();
        assert_eq!(refused.code(), "conflict");
        // Marked by nobody's word: a person has to say, whatever the policy for lost answers is.
        world.execute("update delivery set evidence_at_ms = null").await.unwrap();
        world.engine.reconciler_run_once().await.unwrap();
        world.dispatch().await;
        assert_eq!(world.delivery_state(id).await, "held");
        assert_eq!(world.providers.email.told(MAIL), 1);
    }

    async fn n6_a_provider_that_takes_a_token_once_is_sent_it_again_within_its_time_only(world: &World) {
        world.providers.file.plays([Play::AcceptInSilence, Play::Accept, Play::AcceptInSilence]);
        let soon = world.deliver("CL-1", FILE).await;
        world.dispatch().await;
        world.dispatch_after(2_000).await;
        assert_eq!(world.tries(soon).await, ["send unknown", "send accepted"]);
        let late = world.deliver("CL-2", FILE).await;
        world.dispatch().await;
        let pause = PauseTarget::Channel(ChannelKind::File);
        let pause = world.engine.pause(&World::operator(), pause, "disk full").await.unwrap();
        world.dispatch_after(3_600_000).await;
        world.engine.resume(&World::operator(), pause).await.unwrap();
        world.dispatch().await;
        assert_eq!(world.delivery_state(late).await, "held");
        assert_eq!((world.providers.file.ledger().len(), world.providers.file.repeats()), (2, 1));
    }

    async fn n7_an_operator_can_have_any_delivery_looked_up(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        let who = World::notifying();
        world.pass_ms(5_000);
        world.engine.delivery_reconcile(&who, id).await.unwrap();
        world.dispatch().await;
        assert_eq!(world.tries(id).await, ["send accepted", "lookup found"]);
        // The provider lost it after all.
        world.providers.webhook.forget();
        world.engine.delivery_reconcile(&who, id).await.unwrap();
        world.dispatch().await;
        assert_eq!(world.tries(id).await[2..], ["lookup absent", "send accepted"]);
        assert_eq!(world.providers.webhook.told(HOOK), 1);
        assert_eq!(world.delivery_state(id).await, "sent");
    }

    async fn n7_a_provider_that_does_not_answer_is_asked_again_and_then_a_person(world: &World) {
        world.providers.webhook.plays([Play::AcceptInSilence]);
        world.providers.webhook.says(vec![Say::Nonsense; 2]);
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        for _ in 0..4 {
            world.dispatch_after(10_000).await;
        }
        assert_eq!(
            world.tries(id).await,
            ["send unknown", "lookup unknown", "lookup unknown", "lookup found"]
        );
        world.providers.webhook.plays([Play::AcceptInSilence]);
        world.providers.webhook.says(vec![Say::Nonsense; 100]);
        let id = world.deliver("CL-2", HOOK).await;
        for _ in 0..60 {
            world.dispatch_after(3_600_000).await;
        }
        assert_eq!(world.delivery_state(id).await, "held");
    }

    async fn n8_nothing_in_doubt_is_failed_before_the_provider_was_asked(world: &World) {
        world.providers.file.plays([Play::AcceptInSilence, Play::Refuse, Play::Refuse]);
        let id = world.deliver("CL-1", FILE).await;
        world.dispatch().await;
        world.dispatch_after(2_000).await;
        assert_eq!(world.delivery_state(id).await, "held", "the first may have got through, and nobody can be asked");
        assert_eq!(world.tries(id).await, ["send unknown", "send permanent"]);
        assert_eq!(world.providers.file.told(FILE), 1);
        let can = Abilities { on_unknown: OnUnknown::Resend, ..world.providers.email.abilities() };
        world.providers.email.can(can);
        world.providers.email.plays([Play::AcceptInSilence, Play::Refuse, Play::Refuse]);
        let id = world.deliver("CL-2", MAIL).await;
        world.dispatch().await;
        world.dispatch_after(2_000).await;
        assert_eq!((world.delivery_state(id).await, world.tries(id).await.len()), ("held", 2));
    }

    async fn a_send_that_outlives_its_lease_is_in_doubt_and_its_late_word_counts_for_nothing(world: &World) {
        let settings = WorldConfig { delivery_lease_ms: 200, real_time: true, ..WorldConfig::default() };
        let other = world.beside(&settings).await;
        other.providers.webhook.plays([Play::AcceptAndHang]);
        let id = other.deliver("CL-1", HOOK).await;
        other.engine.dispatcher_run_once().await.unwrap();
        assert_eq!(other.tries(id).await, ["send unknown"]);
        assert_eq!(other.delivery_state(id).await, "unknown");
        assert_eq!(other.providers.webhook.told(HOOK), 1);
        other.assert_healthy().await;
    }

    async fn the_late_word_of_one_who_lost_the_hold_counts_for_nothing(world: &World) {
        let provider = &world.providers.webhook;
        provider.plays([Play::AcceptInSilence]);
        provider.says([Say::NothingLater, Say::TruthLater]);
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        let mut asking = Vec::new();
        for n in 1..=2 {
            // The first asks and falls silent; when its hold is over, another one asks.
            world.pass_ms(61_000);
            let engine = world.engine.clone();
            asking.push(tokio::spawn(async move { engine.dispatcher_run_once().await.unwrap() }));
            while provider.lookups() < n {
                tokio::task::yield_now().await;
            }
        }
        provider.go_on();
        asking.remove(0).await.unwrap();
        assert_eq!(world.delivery_state(id).await, "unknown", "what the first says comes too late");
        assert_eq!(world.tries(id).await, ["send unknown"]);
        provider.go_on();
        asking.remove(0).await.unwrap();
        world.dispatch().await;
        assert_eq!(world.tries(id).await, ["send unknown", "lookup found"]);
        assert_eq!(provider.told(HOOK), 1);
    }

    async fn alerts_are_told_where_that_is_configured_and_raise_no_further_ones(world: &World) {
        let settings = WorldConfig { alerts: vec![MAIL.to_owned()], ..WorldConfig::default() };
        let other = world.beside(&settings).await;
        other.providers.webhook.plays([Play::Refuse]);
        other.providers.email.plays([Play::Refuse]);
        other.deliver("CL-1", HOOK).await;
        other.dispatch().await;
        other.dispatch_after(60_000).await;
        assert_eq!(other.number("select count(*) from notification").await, 2);
        let told = "select count(*) from notification where changelist_id like 'alert:%'";
        assert_eq!(other.number(told).await, 1);
        other.assert_healthy().await;
    }
}
