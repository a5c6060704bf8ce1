//! Notifications that came to their end long ago: their words and deliveries are forgotten, and what is left of them keeps the promises of
//! their keys and versions (rules N1 to N3).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use docket_core::id::{DeliveryId, NotificationId};
use docket_core::notification::NotificationStatus as Status;
use docket_core::notify::ChannelKind;
use docket_engine::{DeliveryFilter, NewNotification, PauseTarget};
use docket_testkit::outbox::{Coded as _, FILE, HOOK, MAIL, about};
use docket_testkit::scripted::Play;
use docket_testkit::{World, WorldConfig, on_both};

const HOUR_MS: i64 = 3_600_000;

/// A world that forgets after an hour what is finished.
async fn forgetful(world: &World) -> World {
    let settings = WorldConfig {
        keep_finished_ms: Some(HOUR_MS),
        ..WorldConfig::default()
    };
    world.beside(&settings).await
}

/// How many notifications one run of the retention forgets.
async fn forget(world: &World) -> u64 {
    world.engine.retain().await.unwrap().notifications
}

async fn rows(world: &World, table: &str) -> i64 {
    world.number(&format!("select count(*) from {table}")).await
}

on_both! {
    async fn what_came_to_its_end_is_forgotten_after_its_time_and_the_log_stays(world: &World) {
        let world = &forgetful(world).await;
        let made = world.notify(&about("k1", "CL-1", 1, &[HOOK, MAIL, FILE])).await.unwrap();
        let id = made.view.notification.id;
        world.providers.email.plays([Play::Refuse]);
        world.dispatch().await;
        world.engine.delivery_cancel(&World::notifying(), id.delivery(1)).await.unwrap();
        let entries = rows(world, "log").await;
        world.pass_ms(HOUR_MS - 1);
        assert_eq!(forget(world).await, 0, "not yet");
        world.pass_ms(1);
        assert_eq!(forget(world).await, 1);
        assert_eq!(forget(world).await, 0, "once");
        assert_eq!((rows(world, "delivery").await, rows(world, "delivery_attempt").await), (0, 0));
        assert_eq!(world.number("select count(*) from notification where subject <> '' or body <> ''").await, 0);
        assert_eq!(rows(world, "log").await, entries + 1);
        assert_eq!(world.logged("notification.expired").await, 1);
        let who = World::notifying();
        let left = world.engine.notification(&who, id).await.unwrap();
        assert_eq!((left.status, left.notification.expired_as), (Status::Failed, Some(Status::Failed)));
        assert!(world.engine.notification_deliveries(&who, id).await.unwrap().is_empty());
        assert_eq!(world.engine.delivery(&who, id.delivery(0)).await.unwrap_err().code(), "not_found");
        assert_eq!(world.engine.delivery_resend(&who, id.delivery(0), "n").await.unwrap_err().code(), "not_found");
        world.assert_healthy().await;
    }

    async fn by_default_nothing_is_forgotten(world: &World) {
        let id = world.deliver("CL-1", HOOK).await;
        world.dispatch().await;
        world.pass_ms(10_000 * HOUR_MS);
        assert_eq!(forget(world).await, 0);
        assert_eq!(world.delivery_state(id).await, "sent");
    }

    async fn n1_a_key_of_what_is_forgotten_makes_no_second_notification(world: &World) {
        let world = &forgetful(world).await;
        let new = about("k1", "CL-1", 1, &[HOOK]);
        let first = world.notify(&new).await.unwrap().view.notification.id;
        world.notify(&about("k2", "CL-1", 2, &[HOOK])).await.unwrap();
        world.dispatch().await;
        world.pass_ms(HOUR_MS);
        assert_eq!(forget(world).await, 2);
        let again = world.notify(&new).await.unwrap();
        assert_eq!((again.view.notification.id, again.view.status), (first, Status::Succeeded));
        assert!(again.duplicate && !again.request_differs);
        for other in [
            NewNotification { body: "Something else.".to_owned(), ..new.clone() },
            about("k1", "CL-9", 9, &[MAIL]),
        ] {
            let differs = world.notify(&other).await.unwrap();
            assert!(differs.duplicate && differs.request_differs);
            assert_eq!(differs.view.notification.id, first);
        }
        world.dispatch().await;
        assert_eq!((world.providers.webhook.told(HOOK), rows(world, "delivery").await), (2, 0));
    }

    async fn n3_versions_rise_over_what_is_forgotten(world: &World) {
        let world = &forgetful(world).await;
        let first = world.notify(&about("k7", "CL-1", 7, &[HOOK])).await.unwrap().view.notification.id;
        world.providers.file.plays([Play::Refuse]);
        let failed = world.notify(&about("f7", "CL-2", 7, &[FILE])).await.unwrap().view.notification.id;
        world.dispatch().await;
        world.engine.delivery_cancel(&World::notifying(), failed.delivery(0)).await.unwrap();
        world.pass_ms(HOUR_MS);
        assert_eq!(forget(world).await, 2);
        let again = world.notify(&about("again", "CL-1", 7, &[HOOK])).await.unwrap();
        assert!(again.noop && again.view.notification.id == first, "it succeeded, and that is still known");
        for (key, subject, version) in [("lower", "CL-1", 6), ("failed", "CL-2", 7), ("lower failed", "CL-2", 6)] {
            let refused = world.notify(&about(key, subject, version, &[HOOK])).await.unwrap_err();
            assert_eq!(refused.code(), "review_version_not_higher", "{key}");
        }
        let higher = world.notify(&about("k8", "CL-1", 8, &[HOOK])).await.unwrap();
        assert!(!higher.noop && !higher.duplicate);
        world.dispatch().await;
        assert_eq!(world.providers.webhook.told(HOOK), 2);
        world.assert_healthy().await;
    }

    async fn nothing_that_waits_is_forgotten_however_old_it_is(world: &World) {
        let world = &forgetful(world).await;
        let who = World::notifying();
        world.providers.email.plays([Play::AcceptInSilence]);
        let held = world.deliver("CL-held", MAIL).await;
        let told = world.notify(&about("k1", "CL-part", 1, &[HOOK, FILE])).await.unwrap().view.notification.id;
        let resent = world.deliver("CL-resent", FILE).await;
        let unproven = world.deliver("CL-unproven", HOOK).await;
        world.dispatch().await;
        world.providers.webhook.plays([Play::Refuse]);
        let failed = world.deliver("CL-failed", HOOK).await;
        world.dispatch().await;
        world.dispatch_after(60_000).await;
        assert_eq!(world.delivery_state(held).await, "held");
        let pause = PauseTarget::Channel(ChannelKind::File);
        world.engine.pause(&World::operator(), pause, "the disk is full").await.unwrap();
        world.engine.delivery_resend(&who, told.delivery(1), "once-more").await.unwrap();
        world.engine.delivery_resend(&who, resent, "once-more").await.unwrap();
        let unmark = format!("update delivery set evidence_at_ms = null where token = '{}'", world.delivery(unproven).await.delivery.token);
        world.execute(&unmark).await.unwrap();
        let waiting = world.deliver("CL-waits", FILE).await;
        for _ in 0..5 {
            world.dispatch_after(HOUR_MS).await;
            assert_eq!(forget(world).await, 0);
        }
        assert_eq!(rows(world, "delivery").await, 7);
        assert_eq!(world.delivery_state(failed).await, "failed");
        let of = async |id: DeliveryId| world.delivery_state(id).await;
        assert_eq!((of(held).await, of(waiting).await, of(resent).await, of(told.delivery(0)).await), ("held", "pending", "pending", "sent"));
        // A person has their say, and then its time begins.
        world.engine.delivery_cancel(&who, held).await.unwrap();
        world.pass_ms(HOUR_MS - 1);
        assert_eq!(forget(world).await, 0);
        world.pass_ms(HOUR_MS);
        assert_eq!(forget(world).await, 1);
        assert_eq!(world.engine.delivery(&who, held).await.unwrap_err().code(), "not_found");
        world.engine.reconciler_run_once().await.unwrap();
        world.dispatch().await;
    }

    async fn forgetting_is_bounded_and_nothing_stands_in_its_way(world: &World) {
        let world = &forgetful(world).await;
        let many: Vec<String> = (0..400).map(|n| format!("{FILE}{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        // The oldest wait for a person, more of them than are looked at in one run.
        for n in 0..3 {
            world.notify(&about(&format!("h{n}"), &format!("HELD-{n}"), 1, &many)).await.unwrap();
        }
        let until = world.engine.now().ms();
        world.execute("update delivery set state = 3, due_ms = null, doubtful = (1 = 1)").await.unwrap();
        world.pass_ms(1);
        for n in 0..3 {
            world.notify(&about(&format!("k{n}"), &format!("CL-{n}"), 1, &many)).await.unwrap();
        }
        let cancel = format!("update delivery set state = 7, due_ms = null, ended_at_ms = {until} where state = 0");
        world.execute(&cancel).await.unwrap();
        world.pass_ms(HOUR_MS);
        let mut runs = Vec::new();
        for _ in 0..4 {
            let run = world.engine.retain().await.unwrap();
            runs.push((run.notifications, run.has_more));
        }
        assert_eq!(runs, [(0, true), (1, true), (2, true), (0, false)], "800 at most are looked at at once");
        assert_eq!(rows(world, "delivery").await, 1_200);
    }

    async fn whoever_asks_while_it_is_forgotten_gets_the_same_answer(world: &World) {
        let world = &forgetful(world).await;
        let new = about("k1", "CL-1", 1, &[HOOK]);
        let id: NotificationId = world.notify(&new).await.unwrap().view.notification.id;
        world.dispatch().await;
        world.pass_ms(HOUR_MS);
        let asking = (0..40).map(|n| {
            let (engine, new) = (world.engine.clone(), new.clone());
            tokio::spawn(async move {
                let who = World::notifying();
                if n % 10 == 5 {
                    engine.retain().await.unwrap();
                }
                let key = if n % 2 == 0 { "k1".to_owned() } else { format!("k1-{n}") };
                let made = engine.notification_create(&who, &NewNotification { idempotency_key: key, ..new }).await.unwrap();
                let seen = engine.notification(&who, made.view.notification.id).await.unwrap();
                (made, seen.status)
            })
        });
        for asked in asking.collect::<Vec<_>>() {
            let (made, seen) = asked.await.unwrap();
            assert_eq!((made.view.notification.id, made.view.status, seen), (id, Status::Succeeded, Status::Succeeded));
            assert!(made.duplicate || made.noop);
        }
        assert_eq!(world.logged("notification.expired").await, 1);
        let any = world.engine.deliveries(&World::notifying(), DeliveryFilter::default(), DeliveryId::last(), 10).await.unwrap();
        assert!(any.items.is_empty());
    }
}
