//! API keys as callers present them: what is remembered, revoking, and those who guess (rule A1).

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

use std::net::IpAddr;

use docket_access::{Access, AccessConfig, Denied};
use docket_core::access::{ApiKey, Role};
use docket_core::random::SeededRandom;
use docket_engine::{CreatedKey, NewKey};
use docket_testkit::{Database, World, WorldConfig, names, on_both};

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn access(world: &World) -> Access {
    Access::new(world.engine.clone(), AccessConfig::default()).unwrap()
}

async fn key(world: &World, role: Role, tenant: Option<&str>, subject: &str) -> CreatedKey {
    let new = NewKey {
        role,
        tenant: tenant.map(names::tenant),
        subject: subject.to_owned(),
    };
    world
        .engine
        .key_create(&World::operator(), new)
        .await
        .expect("the key is made")
}

fn guess(n: u64) -> String {
    ApiKey::draw(&SeededRandom::new(1_000_000 + n))
        .reveal()
        .to_owned()
}

/// Fails from this address until it is slowed down.
async fn fail_until_slowed(access: &Access, from: IpAddr) -> u64 {
    for n in 0..50 {
        match access.authenticate(Some(&guess(n)), from).await {
            Err(Denied::Invalid(_)) => {}
            Err(Denied::Slowed { retry_after_s }) => return retry_after_s,
            other => panic!("a guess is refused, not {other:?}"),
        }
    }
    panic!("who guesses is slowed down")
}

on_both! {
    async fn a_key_makes_the_caller_that_it_was_made_for(world: &World) {
        world.tenant("acme", 1).await;
        let access = access(world);
        for (role, tenant) in [
            (Role::Producer, Some("acme")), (Role::Reviewer, Some("acme")), (Role::Lead, Some("acme")),
            (Role::Worker, None), (Role::Service, None), (Role::Admin, None),
        ] {
            let made = key(world, role, tenant, "ben").await;
            let caller = access.authenticate(Some(made.key.reveal()), FROM).await.expect("it is good");
            assert_eq!((caller.role(), caller.subject()), (role, "ben"));
            assert_eq!(caller.tenant().map(|tenant| tenant.as_str()), tenant);
        }
    }

    async fn a_revoked_key_is_refused_at_once_by_the_server_that_revoked_it(world: &World) {
        let access = access(world);
        let made = key(world, Role::Worker, None, "w1").await;
        for _ in 0..3 {
            access.authenticate(Some(made.key.reveal()), FROM).await.expect("it is good");
        }
        world.engine.key_revoke(&World::operator(), made.id).await.unwrap();
        let denied = access.authenticate(Some(made.key.reveal()), FROM).await.unwrap_err();
        assert!(matches!(&denied, Denied::Invalid(reason) if reason.contains("revoked")), "{denied}");
    }

    async fn a_key_that_is_in_use_is_looked_up_every_few_seconds(world: &World) {
        let access = access(world);
        let made = key(world, Role::Worker, None, "w1").await;
        access.authenticate(Some(made.key.reveal()), FROM).await.expect("it is good");
        // As another server would revoke it.
        world.execute("update api_key set revoked_at_ms = 1").await.unwrap();
        world.pass_ms(2_999);
        access.authenticate(Some(made.key.reveal()), FROM).await.expect("it is remembered");
        world.pass_ms(1);
        assert!(access.authenticate(Some(made.key.reveal()), FROM).await.is_err());
    }

    async fn what_is_no_key_is_refused_with_its_reason(world: &World) {
        let access = access(world);
        let made = key(world, Role::Worker, None, "w1").await;
        let secret = made.key.reveal();
        assert_eq!(access.authenticate(None, FROM).await, Err(Denied::Missing));
        assert_eq!(access.authenticate(Some(""), FROM).await, Err(Denied::Missing));
        let long = "x".repeat(100_000);
        for (credential, words) in [
            (guess(1).as_str(), "no such key"),
            (&secret[..secret.len() - 1], "not whole"),
            ("hunter2", "weak"),
            ("dk_\0", "letters"),
            (&long, "longer"),
            ("a.b.c", "not configured"),
        ] {
            match access.authenticate(Some(credential), FROM).await {
                Err(Denied::Invalid(reason)) => {
                    assert!(reason.contains(words), "{reason}");
                    assert!(!reason.contains(credential), "{reason}");
                }
                other => panic!("{words}: {other:?}"),
            }
        }
    }

    async fn who_guesses_is_slowed_down_and_nobody_else_is(world: &World) {
        let access = access(world);
        let (busy, fresh) = (key(world, Role::Worker, None, "w1").await, key(world, Role::Worker, None, "w2").await);
        let from: IpAddr = "198.51.100.7".parse().unwrap();
        access.authenticate(Some(busy.key.reveal()), from).await.expect("it is good");
        assert!(fail_until_slowed(&access, from).await <= 30);
        world.pass_ms(500);
        access.authenticate(Some(busy.key.reveal()), from).await.expect("who was good is listened to");
        access.authenticate(Some(fresh.key.reveal()), FROM).await.expect("from elsewhere all is well");
        world.pass_ms(30_000);
        access.authenticate(Some(busy.key.reveal()), from).await.expect("also when it is looked up again");
        access.authenticate(Some(fresh.key.reveal()), from).await.expect("after a while everybody is listened to");
    }

    async fn guesses_from_one_ipv6_network_count_together(world: &World) {
        let access = access(world);
        for n in 0..30_u16 {
            let from = IpAddr::from([0x2001, 0xdb8, 0, 1, n, n, n, n]);
            access.authenticate(Some(&guess(n.into())), from).await.unwrap_err();
        }
        let outcome = access.authenticate(Some(&guess(99)), IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9])).await;
        assert!(matches!(outcome, Err(Denied::Slowed { .. })), "{outcome:?}");
        let outcome = access.authenticate(Some(&guess(99)), IpAddr::from([0x2001, 0xdb8, 0, 2, 9, 9, 9, 9])).await;
        assert!(matches!(outcome, Err(Denied::Invalid(_))), "{outcome:?}");
    }

    async fn a_database_that_is_away_is_nobodys_fault(world: &World) {
        let elsewhere = world.beside(&WorldConfig::default()).await;
        let access = access(&elsewhere);
        let made = key(&elsewhere, Role::Worker, None, "w1").await;
        elsewhere.engine.close();
        for _ in 0..30 {
            assert_eq!(access.authenticate(Some(made.key.reveal()), FROM).await, Err(Denied::Unavailable));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_is_refused_by_other_servers_within_seconds() {
    let world = World::new(Database::postgres().await).await;
    let other = world.another_engine(&WorldConfig::default()).await;
    let there = Access::new(other, AccessConfig::default()).unwrap();
    let made = key(&world, Role::Worker, None, "w1").await;
    there
        .authenticate(Some(made.key.reveal()), FROM)
        .await
        .expect("it is good");
    world
        .engine
        .key_revoke(&World::operator(), made.id)
        .await
        .unwrap();
    world.pass_ms(3_000);
    assert!(there.authenticate(Some(made.key.reveal()), FROM).await.is_err());
}
