//! JWTs made by PyJWT, with a secret, with public keys and with key sets served over HTTP (rule A1).

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

mod made;
mod set;

use std::net::IpAddr;

use docket_access::{Access, AccessConfig, Denied, JwtConfig, JwtKey};
use docket_core::access::Role;
use docket_testkit::{Database, World};
use made::{made, text};

const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Access on a new world, whose clock stands where the tokens were made for.
async fn access(key: JwtKey) -> (World, Access) {
    let world = World::new(Database::sqlite()).await;
    let access = access_of(&world, key);
    (world, access)
}

fn access_of(world: &World, key: JwtKey) -> Access {
    let jwt = JwtConfig {
        key,
        issuer: Some("https://id.example".to_owned()),
        audience: Some("docket".to_owned()),
    };
    let config = AccessConfig {
        jwt: Some(jwt),
        ..AccessConfig::default()
    };
    Access::new(world.engine.clone(), config).expect("the configuration is good")
}

fn secret() -> JwtKey {
    JwtKey::Secret(text("/secret"))
}

async fn refused(access: &Access, token: &str) -> String {
    match access.authenticate(Some(token), FROM).await {
        Err(Denied::Invalid(reason)) => reason,
        other => panic!("it should be refused, not {other:?}"),
    }
}

#[tokio::test]
async fn good_tokens_of_each_algorithm_make_callers() {
    for (key, token) in [
        (secret(), "/hs/good"),
        (secret(), "/hs/audiences"),
        (secret(), "/hs/fraction"),
        (secret(), "/hs/nbfPassed"),
        (secret(), "/hs/nbfWithinLeeway"),
        (secret(), "/hs/justExpired"),
        (JwtKey::PublicPem(text("/rsaPem").into_bytes()), "/rs/good"),
        (JwtKey::PublicPem(text("/ecPem").into_bytes()), "/es/good"),
    ] {
        let (_world, access) = access(key).await;
        let caller = access.authenticate(Some(&text(token)), FROM).await.expect(token);
        assert_eq!(
            (caller.role(), caller.subject()),
            (Role::Producer, "ben"),
            "{token}"
        );
        assert_eq!(
            caller.tenant().map(|tenant| tenant.as_str()),
            Some("acme"),
            "{token}"
        );
        assert_eq!(caller.actor().as_str(), "producer:ben");
    }
}

#[tokio::test]
async fn an_admins_token_needs_no_tenant() {
    let (_world, access) = access(secret()).await;
    let caller = access.authenticate(Some(&text("/hs/admin")), FROM).await.unwrap();
    assert_eq!((caller.role(), caller.tenant()), (Role::Admin, None));
    assert!(caller.operator().is_some() && caller.scope().is_none());
}

#[tokio::test]
async fn every_bad_token_is_refused_with_its_reason() {
    let refusals = made()["refused"].as_object().unwrap();
    assert!(refusals.len() > 25);
    for (name, case) in refusals {
        let (_world, access) = access(secret()).await;
        let reason = refused(&access, case[0].as_str().unwrap()).await;
        assert!(reason.contains(case[1].as_str().unwrap()), "{name}: {reason}");
    }
}

#[tokio::test]
async fn a_public_key_is_never_taken_for_a_secret() {
    for token in ["/rs/confused", "/rs/confusedKid"] {
        let (_world, access) = access(JwtKey::PublicPem(text("/rsaPem").into_bytes())).await;
        assert!(refused(&access, &text(token)).await.contains("RS256"), "{token}");
    }
}

#[tokio::test]
async fn the_algorithm_follows_from_the_key() {
    for (pem, token, words) in [
        ("/rsaPem", "/rs/rs512", "RS256"),
        ("/rsaPem", "/es/good", "RS256"),
        ("/rsaPem", "/hs/good", "RS256"),
        ("/rsaPem", "/rs/other", "signature"),
        ("/ecPem", "/rs/good", "ES256"),
        ("/ecPem", "/hs/good", "ES256"),
    ] {
        let (_world, access) = access(JwtKey::PublicPem(text(pem).into_bytes())).await;
        let reason = refused(&access, &text(token)).await;
        assert!(reason.contains(words), "{pem} {token}: {reason}");
    }
    let world = World::new(Database::sqlite()).await;
    let jwt = JwtConfig {
        key: JwtKey::PublicPem(text("/ecLargePem").into_bytes()),
        issuer: None,
        audience: None,
    };
    let config = AccessConfig {
        jwt: Some(jwt),
        ..AccessConfig::default()
    };
    let error = Access::new(world.engine.clone(), config).unwrap_err().to_string();
    assert!(error.contains("P-256"), "{error}");
}

#[tokio::test]
async fn a_token_ends_when_it_says_though_it_was_good_a_moment_ago() {
    let (world, access) = access(secret()).await;
    let token = text("/hs/short");
    access.authenticate(Some(&token), FROM).await.expect("it is good");
    world.pass_ms(10_500); // it ends after a second, and clocks may differ by ten
    access
        .authenticate(Some(&token), FROM)
        .await
        .expect("it is still good");
    world.pass_ms(500);
    assert!(refused(&access, &token).await.contains("expired"));
}

#[tokio::test]
async fn without_a_configured_key_no_token_is_taken() {
    let world = World::new(Database::sqlite()).await;
    let access = Access::new(world.engine.clone(), AccessConfig::default()).unwrap();
    assert!(
        refused(&access, &text("/hs/good"))
            .await
            .contains("not configured")
    );
}

#[tokio::test]
async fn who_shows_expired_tokens_is_not_taken_for_one_who_guesses() {
    let (_world, access) = access(secret()).await;
    let expired = text("/refused/expired/0");
    for _ in 0..50 {
        refused(&access, &expired).await;
    }
    access
        .authenticate(Some(&text("/hs/good")), FROM)
        .await
        .expect("it is listened to");
    let guess = text("/refused/wrong secret/0");
    let slowed = async {
        for _ in 0..50 {
            if let Err(Denied::Slowed { retry_after_s }) = access.authenticate(Some(&guess), FROM).await {
                return retry_after_s;
            }
        }
        panic!("who guesses is slowed down")
    };
    assert!((1..=30).contains(&slowed.await));
}
