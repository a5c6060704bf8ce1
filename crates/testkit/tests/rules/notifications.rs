//! Notifications: made once, of rising versions, and their status (rules N1 to N3, N8 and N9); what people may do with deliveries.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use docket_core::id::{DeliveryId, NotificationId};
use docket_core::notification::{DeliveryState, NotificationStatus as Status};
use docket_core::notify::ChannelKind;
use docket_core::scope::Notifying;
use docket_engine::background::Intervals;
use docket_engine::{DeliveryFilter, Entry, LogFilter, LogQuery, NewNotification, PauseTarget};
use docket_testkit::outbox::{Coded as _, FILE, HOOK, MAIL, about};
use docket_testkit::scripted::{Play, Say};
use docket_testkit::{World, on_both};
use serde_json::Value;

on_both! {
    async fn n1_the_same_key_makes_one_notification(world: &World) {
        let new = about("k1", "CL-1", 1, &[HOOK, FILE]);
        let first = world.notify(&new).await.unwrap();
        assert!(!first.duplicate && !first.noop);
        let again = world.notify(&new).await.unwrap();
        assert_eq!(again.view.notification.id, first.view.notification.id);
        assert!(again.duplicate && !again.request_differs);
        let other = NewNotification { body: "Something else.".to_owned(), ..new };
        let differs = world.notify(&other).await.unwrap();
        assert!(differs.duplicate && differs.request_differs);
        assert_eq!(differs.view.notification.body, "It is good.\n");
        assert_eq!(world.logged("notification.created").await, 1);
        assert_eq!(world.number("select count(*) from delivery").await, 2);
    }

    async fn n1_fifty_creations_at_once_with_one_key_make_one(world: &World) {
        let calls = (0..50).map(|_| {
            let engine = world.engine.clone();
            tokio::spawn(async move {
                let new = about("k1", "CL-1", 1, &[HOOK]);
                engine.notification_create(&World::notifying(), &new).await.unwrap()
            })
        });
        let mut made = Vec::new();
        for call in calls.collect::<Vec<_>>() {
            made.push(call.await.unwrap());
        }
        assert_eq!(made.iter().filter(|made| !made.duplicate).count(), 1);
        assert!(made.iter().all(|one| one.view.notification.id == made[0].view.notification.id));
        assert_eq!(world.number("select count(*) from notification").await, 1);
        assert_eq!(world.number("select count(*) from delivery").await, 1);
    }

    async fn n1_calls_that_are_written_together_are_told_that_nothing_was_sent_yet(world: &World) {
        let calls = (0..20).map(|n| {
            let engine = world.engine.clone();
            tokio::spawn(async move {
                // The same key, and others for the same version.
                let key = if n % 2 == 0 { "k1".to_owned() } else { format!("k{n}") };
                engine.notification_create(&World::notifying(), &about(&key, "CL-1", 1, &[HOOK])).await
            })
        });
        for call in calls.collect::<Vec<_>>() {
            match call.await.unwrap() {
                Ok(made) => assert_eq!((made.view.status, made.noop), (Status::Pending, false)),
                Err(refused) => assert_eq!(refused.code(), "review_version_not_higher"),
            }
        }
    }

    async fn n2_a_delivery_is_one_row_for_each_subject_recipient_and_version(world: &World) {
        world.notify(&about("k1", "CL-1", 1, &[HOOK, FILE])).await.unwrap();
        world.notify(&about("k2", "CL-1", 2, &[HOOK])).await.unwrap();
        world.notify(&about("k3", "CL-2", 1, &[HOOK])).await.unwrap();
        assert_eq!(world.number("select count(*) from delivery").await, 4);
        let twice = "insert into delivery (id, key, notification_id, owner, recipient, required, channel, destination, token, headers,
                                           body, created_at_ms)
                     select notification_id, key, notification_id, owner, recipient, required, channel, destination, token, headers,
                            body, created_at_ms from delivery";
        assert!(world.execute(twice).await.is_err(), "the database refuses a second row");
    }

    async fn n3_the_same_version_does_nothing_once_it_succeeded_and_a_rerun_needs_a_higher_one(world: &World) {
        let first = world.notify(&about("k1", "CL-1", 7, &[HOOK])).await.unwrap();
        let refused = world.notify(&about("k2", "CL-1", 7, &[HOOK])).await.unwrap_err();
        assert_eq!(refused.code(), "review_version_not_higher");
        world.dispatch().await;
        let again = world.notify(&about("k3", "CL-1", 7, &[HOOK])).await.unwrap();
        assert!(again.noop && !again.duplicate);
        assert_eq!(again.view.notification.id, first.view.notification.id);
        assert_eq!(again.view.status, Status::Succeeded);
        let lower = world.notify(&about("k4", "CL-1", 6, &[HOOK])).await.unwrap_err();
        assert_eq!(lower.code(), "review_version_not_higher");
        let higher = world.notify(&about("k5", "CL-1", 8, &[HOOK])).await.unwrap();
        assert!(!higher.noop && higher.view.notification.id != first.view.notification.id);
        world.dispatch().await;
        assert_eq!(world.providers.webhook.told(HOOK), 2);
    }

    async fn n3_of_versions_made_at_once_none_follows_a_higher_one(world: &World) {
        let calls = (0..20).map(|n| {
            let engine = world.engine.clone();
            tokio::spawn(async move {
                let new = about(&format!("k{n}"), "CL-1", n * 7 % 20, &[HOOK]);
                engine.notification_create(&World::notifying(), &new).await
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap().ok();
        }
        let filter = LogFilter { action: Some("notification.created".to_owned()), ..LogFilter::default() };
        let query = LogQuery { filter, limit: 200, ..LogQuery::default() };
        let mut entries = world.engine.log_of_all(&World::operator(), None, query).await.unwrap().entries;
        // Entries are numbered while the subject is held.
        entries.sort_by_key(|entry| entry.position.id);
        let version = |entry: &Entry| {
            let details: Value = serde_json::from_str(entry.details.as_deref().unwrap()).unwrap();
            details["reviewVersion"].as_i64().unwrap()
        };
        let versions: Vec<i64> = entries.iter().map(version).collect();
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
        assert_eq!(versions.last(), Some(&19));
        assert_eq!(world.number("select review_version from notification_subject").await, 19);
    }

    async fn n9_the_whole_succeeds_when_all_required_recipients_were_told(world: &World) {
        world.providers.file.plays([Play::Refuse]);
        world.providers.email.plays([Play::NotNow(None)]);
        let mut new = about("k1", "CL-1", 1, &[HOOK, MAIL]);
        new.optional_recipients = vec![FILE.to_owned()];
        let made = world.notify(&new).await.unwrap();
        assert_eq!(made.view.status, Status::Pending);
        let id = made.view.notification.id;
        world.dispatch().await;
        assert_eq!(world.whole(id.delivery(0)).await, Status::RetryableFailed);
        world.dispatch_after(2_000).await;
        assert_eq!(world.whole(id.delivery(0)).await, Status::Succeeded);
        let states: Vec<_> = world
            .engine
            .notification_deliveries(&World::notifying(), id)
            .await
            .unwrap()
            .into_iter()
            .map(|view| (view.delivery.recipient, view.delivery.course.state))
            .collect();
        assert_eq!(
            states,
            [
                (HOOK.to_owned(), DeliveryState::Sent),
                (MAIL.to_owned(), DeliveryState::Sent),
                (FILE.to_owned(), DeliveryState::Failed),
            ]
        );
    }

    async fn n8_transient_failures_wait_and_permanent_ones_are_for_a_person(world: &World) {
        let asked_for = Duration::from_secs(120);
        world.providers.webhook.plays([Play::NotNow(None), Play::NotNow(Some(asked_for)), Play::Refuse]);
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        let wait = |view: docket_engine::DeliveryView| view.delivery.course.due.unwrap().since(world.engine.now());
        assert!((500..=1_000).contains(&wait(world.delivery(id).await)));
        world.dispatch_after(1_000).await;
        assert_eq!(wait(world.delivery(id).await), 120_000, "Retry-After is heeded");
        world.dispatch_after(119_999).await;
        assert_eq!(world.tries(id).await.len(), 2);
        world.dispatch_after(1).await;
        let view = world.delivery(id).await;
        assert_eq!(view.delivery.course.state, DeliveryState::Failed);
        assert_eq!(view.delivery.course.problem.as_deref(), Some("550 no such recipient"));
        assert_eq!(world.tries(id).await, ["send transient", "send transient", "send permanent"]);
        assert_eq!(world.whole(id).await, Status::Failed);
        world.dispatch_after(86_400_000).await;
        assert_eq!(world.providers.webhook.ledger(), []);
    }

    async fn a_recipient_that_wants_nothing_more_is_sent_nothing_more_until_a_person_tries_it(world: &World) {
        world.providers.webhook.plays([Play::Gone]);
        let first = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        assert_eq!(world.delivery_state(first).await, "failed");
        assert_eq!(world.logged("recipient.stopped").await, 1);
        let second = world.deliver("CL-2", HOOK).await;
        world.dispatch().await;
        assert_eq!(world.delivery_state(second).await, "failed");
        assert_eq!(world.tries(second).await, Vec::<String>::new(), "it was not even tried");
        let problem = world.delivery(second).await.delivery.course.problem.unwrap();
        assert!(problem.contains("410 gone"), "{problem}");
        // Still gone, and then not.
        world.providers.webhook.plays([Play::Gone]);
        for (nonce, state) in [("n1", "failed"), ("n2", "sent")] {
            world.engine.delivery_resend(&World::notifying(), second, nonce).await.unwrap();
            world.dispatch().await;
            assert_eq!(world.delivery_state(second).await, state);
        }
        assert_eq!(world.logged("recipient.resumed").await, 1);
        let third = world.deliver("CL-3", HOOK).await;
        world.dispatch().await;
        assert_eq!(world.delivery_state(third).await, "sent");
    }

    async fn a_busy_host_holds_up_no_other(world: &World) {
        world.providers.webhook.plays(vec![Play::AcceptLater; 16]);
        let busy: Vec<String> = (0..600).map(|n| format!("{HOOK}/{n}")).collect();
        let busy: Vec<&str> = busy.iter().map(String::as_str).collect();
        world.notify(&about("k1", "CL-1", 1, &busy)).await.unwrap();
        world.pass_ms(1);
        let other = world.deliver("CL-2", "webhook:https://other.example/hook").await;
        let mut background = world.engine.start_background(Intervals::default()).await.unwrap();
        while world.delivery_state(other).await != "sent" {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.providers.webhook.ledger().len(), 17, "as many as may be on their way, and the other");
        // Who stops waits for what is on its way.
        background.stop_sending();
        assert!(tokio::time::timeout(Duration::from_millis(50), background.sent()).await.is_err());
        (0..16).for_each(|_| world.providers.webhook.go_on());
        background.sent().await;
        background.stop().await;
        assert_eq!(world.number("select count(*) from delivery where state = 4").await, 17);
        assert_eq!(world.number("select count(*) from delivery where state = 1").await, 0);
    }

    async fn a_backlog_that_has_to_wait_is_not_walked_over_to_find_the_rest(world: &World) {
        let pause = PauseTarget::Channel(ChannelKind::Email);
        let pause = world.engine.pause(&World::operator(), pause, "the mail server is moved").await.unwrap();
        for n in 0..2 {
            let mails: Vec<String> = (0..600).map(|n| format!("email:p{n}@example.com")).collect();
            let mails: Vec<&str> = mails.iter().map(String::as_str).collect();
            world.notify(&about(&format!("k{n}"), &format!("CL-{n}"), 1, &mails)).await.unwrap();
            world.pass_ms(1);
        }
        // More hosts than are taken from at once, with something due at each.
        let hosts: Vec<String> = (0..300).map(|n| format!("webhook:https://h{n}.example/hook")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        world.notify(&about("hosts", "CL-hosts", 1, &hosts)).await.unwrap();
        let found = world.engine.dispatcher_run_once().await.unwrap().found;
        assert_eq!(found, 256, "in one look, although 1,200 that may not leave are older");
        world.dispatch().await;
        assert_eq!(world.providers.webhook.ledger().len(), 300);
        world.engine.resume(&World::operator(), pause).await.unwrap();
        world.dispatch().await;
        assert_eq!(world.providers.email.ledger().len(), 1_200);
    }

    async fn n8_tries_end(world: &World) {
        world.providers.webhook.plays(vec![Play::NotNow(None); 20]);
        let id = world.deliver("CL-1", HOOK).await;
        for _ in 0..20 {
            world.dispatch_after(3_600_000).await;
        }
        assert_eq!(world.delivery_state(id).await, "failed");
        assert_eq!(world.tries(id).await.len(), 20);
    }

    async fn a_resend_is_explicit_under_another_token_and_once_for_each_nonce(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        let who = World::notifying();
        assert_eq!(
            world.engine.delivery_resend(&who, id, "again").await.unwrap_err().code(),
            "conflict",
            "it is sent by itself"
        );
        world.dispatch().await;
        let first = world.delivery(id).await.delivery;
        for _ in 0..3 {
            world.engine.delivery_resend(&who, id, "again").await.unwrap();
            world.dispatch().await;
        }
        let view = world.delivery(id).await;
        assert_ne!(view.delivery.token, first.token);
        let tokens: Vec<_> = world.providers.webhook.ledger().into_iter().map(|got| got.token).collect();
        assert_eq!(tokens, [first.token, view.delivery.token]);
        assert_eq!(world.logged("delivery.resent").await, 1);
        assert!(world.engine.delivery_resend(&who, id, "").await.is_err());
    }

    async fn n3_what_was_told_stays_told_whatever_becomes_of_a_resend(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        let first = world.delivery(id).await.delivery.course.told_at();
        assert_eq!(first, Some(world.engine.now()));
        let who = World::notifying();
        // The resend waits, is refused, is in doubt, is given up, and is taken.
        let plays = [Play::NotNow(None), Play::Refuse, Play::LoseInSilence, Play::Accept];
        for (n, (play, state)) in plays.into_iter().zip(["pending", "failed", "unknown", "sent"]).enumerate() {
            world.pass_ms(1_000);
            world.engine.delivery_resend(&who, id, &format!("n{n}")).await.unwrap();
            world.providers.webhook.plays([play]);
            for tried in [false, true] {
                if tried {
                    world.dispatch().await;
                    assert_eq!(world.delivery_state(id).await, state);
                }
                assert_eq!(world.delivery(id).await.delivery.course.told_at(), first, "{state}");
                assert_eq!(world.whole(id).await, Status::Succeeded, "{state}");
                let again = world.notify(&about(&format!("{n}{tried}"), "CL-1", 1, &[HOOK])).await.unwrap();
                assert!(again.noop, "{state}");
            }
            if state == "pending" {
                world.engine.delivery_cancel(&who, id).await.unwrap();
                assert_eq!(world.whole(id).await, Status::Succeeded);
            }
        }
        let lower = world.notify(&about("lower", "CL-1", 0, &[HOOK])).await.unwrap_err();
        assert_eq!(lower.code(), "review_version_not_higher");
        let said = format!("%\"notifiedAtMs\":{}%", first.unwrap().ms());
        let said = format!("select count(*) from log where action = 'delivery.resent' and details like '{said}'");
        assert_eq!(world.number(&said).await, 4, "each resend is on record with when they were first told");
    }

    async fn a_cancelled_delivery_is_not_sent(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        let who = World::notifying();
        world.engine.delivery_cancel(&who, id).await.unwrap();
        world.dispatch().await;
        assert_eq!(world.delivery_state(id).await, "cancelled");
        assert_eq!(world.whole(id).await, Status::Cancelled);
        assert_eq!(world.providers.webhook.ledger(), []);
        let sent = world.deliver("CL-2", HOOK).await;
        world.dispatch().await;
        assert!(world.engine.delivery_cancel(&who, sent).await.is_err());
    }

    async fn a_paused_channel_sends_nothing_and_goes_on_when_the_pause_is_lifted(world: &World) {
        let pause = PauseTarget::Channel(ChannelKind::Webhook);
        let pause = world.engine.pause(&World::operator(), pause, "receiver moves").await.unwrap();
        let (hook, file) = (world.deliver("CL-1", HOOK).await, world.deliver("CL-2", FILE).await);
        world.dispatch().await;
        assert_eq!(world.delivery_state(hook).await, "pending");
        assert_eq!(world.delivery_state(file).await, "sent");
        world.engine.resume(&World::operator(), pause).await.unwrap();
        world.dispatch().await;
        assert_eq!(world.delivery_state(hook).await, "sent");
    }

    async fn a_tenant_sees_its_own_notifications_only(world: &World) {
        let of = |tenant: &str| Notifying::of(&World::scope(tenant));
        let new = about("k1", "CL-1", 1, &[HOOK]);
        let acme = world.engine.notification_create(&of("acme"), &new).await.unwrap();
        let globex = world.engine.notification_create(&of("globex"), &new).await.unwrap();
        assert_ne!(acme.view.notification.id, globex.view.notification.id, "keys and subjects are the tenant's own");
        let id = acme.view.notification.id;
        let engine = &world.engine;
        assert!(engine.notification(&of("acme"), id).await.is_ok());
        for refused in [
            engine.notification(&of("globex"), id).await.map(drop),
            engine.notification_deliveries(&of("globex"), id).await.map(drop),
            engine.delivery(&of("globex"), id.delivery(0)).await.map(drop),
            engine.delivery_cancel(&of("globex"), id.delivery(0)).await.map(drop),
            engine.delivery_reconcile(&of("globex"), id.delivery(0)).await.map(drop),
            engine.delivery_resend(&of("globex"), id.delivery(0), "n").await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err().code(), "not_found");
        }
        let (last, any) = (NotificationId::last(), DeliveryFilter::default());
        for (who, count) in [(of("acme"), 1), (of("initech"), 0), (World::notifying(), 2)] {
            let page = engine.notifications(&who, None, last, 10).await.unwrap();
            assert_eq!(page.items.len(), count);
            let page = engine.deliveries(&who, any.clone(), DeliveryId::last(), 10).await.unwrap();
            assert_eq!(page.items.len(), count);
        }
    }

    async fn deliveries_are_listed_by_state_and_channel(world: &World) {
        world.providers.webhook.plays([Play::Refuse]);
        for n in 0..5 {
            world.deliver(&format!("CL-{n}"), HOOK).await;
        }
        world.deliver("CL-9", FILE).await;
        world.dispatch().await;
        let list = async |state: Option<DeliveryState>, channel: Option<&str>| {
            let filter = DeliveryFilter { state, channel: channel.map(str::to_owned) };
            let page = world.engine.deliveries(&World::notifying(), filter, DeliveryId::last(), 3).await.unwrap();
            (page.items.len(), page.next.is_some())
        };
        assert_eq!(list(None, None).await, (3, true));
        assert_eq!(list(Some(DeliveryState::Failed), None).await, (1, false));
        assert_eq!(list(Some(DeliveryState::Sent), Some("webhook")).await, (3, true));
        assert_eq!(list(None, Some("file")).await, (1, false));
        assert_eq!(list(None, Some("email")).await, (0, false));
    }

    async fn the_depth_of_the_outbox_is_of_what_waits_and_not_of_what_has_ended(world: &World) {
        world.providers.email.plays([Play::AcceptInSilence]);
        world.providers.webhook.plays([Play::LoseInSilence, Play::Refuse]);
        for (subject, recipient) in [("CL-1", MAIL), ("CL-2", HOOK), ("CL-3", HOOK), ("CL-4", HOOK), ("CL-5", FILE)] {
            world.deliver(subject, recipient).await;
            world.dispatch().await;
        }
        // Of the two that were lost one provider cannot be asked, and the other does not say.
        world.providers.webhook.says([Say::Nonsense]);
        world.dispatch_after(1_000).await;
        let depth = async || {
            let depth = world.engine.outbox_depth().await.unwrap();
            let unsure: Vec<_> = depth.unsure.iter().map(|(state, n)| (state.as_str(), *n)).collect();
            (unsure, depth.due, depth.oldest_due)
        };
        assert_eq!(depth().await, (vec![("unknown", 1), ("held", 1), ("reconciling", 0)], 0, None));
        let waits = world.deliver("CL-6", HOOK).await;
        let oldest = Some(world.engine.now());
        world.pass_ms(5);
        world.deliver("CL-7", HOOK).await;
        let sent = world.number("select count(*) from delivery where state in (4, 5)").await;
        assert_eq!((sent, depth().await.1, depth().await.2), (3, 2, oldest));
        world.engine.delivery_cancel(&World::notifying(), waits).await.unwrap();
        assert_eq!(depth().await.1, 1);
    }

    async fn what_cannot_be_told_is_refused_and_nothing_is_written(world: &World) {
        let good = about("k1", "CL-1", 1, &[HOOK]);
        let many: Vec<String> = (0..10_000).map(|n| format!("email:a{n}@example.com")).collect();
        for (bad, code) in [
            (NewNotification { recipients: vec![], ..good.clone() }, "validation_failed"),
            (NewNotification { recipients: many, ..good.clone() }, "validation_failed"),
            (NewNotification { recipients: vec!["pigeon:x".to_owned()], ..good.clone() }, "validation_failed"),
            (NewNotification { recipients: vec![HOOK.to_owned(), HOOK.to_owned()], ..good.clone() }, "validation_failed"),
            (NewNotification { idempotency_key: String::new(), ..good.clone() }, "validation_failed"),
            (NewNotification { changelist_id: String::new(), ..good.clone() }, "validation_failed"),
            (NewNotification { review_version: -1, ..good.clone() }, "validation_failed"),
            (NewNotification { subject: "a\r\nBcc: b".to_owned(), ..good.clone() }, "validation_failed"),
            (NewNotification { body: "x".repeat(1 << 20), ..good.clone() }, "payload_too_large"),
        ] {
            let refused = world.notify(&bad).await.unwrap_err();
            assert_eq!(refused.code(), code, "{refused}");
        }
        assert_eq!(world.number("select count(*) from notification").await, 0);
        let large = NewNotification {
            recipients: (0..1_000).map(|n| format!("email:a{n}@example.com")).collect(),
            body: "x".repeat(100_000),
            ..good
        };
        assert_eq!(world.notify(&large).await.unwrap_err().code(), "payload_too_large");
    }
}
