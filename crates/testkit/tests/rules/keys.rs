//! API keys: what is stored of them, the first one, and revoking (rule A1).

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on has failed"
)]

use docket_core::access::{ApiKey, Role};
use docket_engine::{CreatedKey, NewKey, Result};
use docket_testkit::{Database, World, WorldConfig, names, on_both};

fn new_key(role: Role, tenant: Option<&str>, subject: &str) -> NewKey {
    NewKey {
        role,
        tenant: tenant.map(names::tenant),
        subject: subject.to_owned(),
    }
}

async fn create(world: &World, role: Role, tenant: Option<&str>, subject: &str) -> Result<CreatedKey> {
    let new = new_key(role, tenant, subject);
    world.engine.key_create(&World::operator(), new).await
}

on_both! {
    async fn a_key_is_found_by_its_secret_and_by_nothing_else(world: &World) {
        world.tenant("acme", 1).await;
        let made = create(world, Role::Producer, Some("acme"), "ben").await.unwrap();
        let found = world.engine.key_find(&made.key).await.unwrap().expect("it is found");
        assert_eq!((found.id, found.role, found.subject.as_str()), (made.id, Role::Producer, "ben"));
        assert_eq!((found.tenant_id.as_deref(), found.created_by.as_str()), (Some("acme"), "admin:test"));
        assert!(found.revoked_at.is_none());
        let other = ApiKey::draw(&docket_core::random::SeededRandom::new(9));
        assert!(world.engine.key_find(&other).await.unwrap().is_none());
    }

    async fn the_secret_is_stored_nowhere(world: &World) {
        let made = create(world, Role::Admin, None, "ann").await.unwrap();
        let secret = made.key.reveal();
        assert_eq!(&secret[..9], made.key.prefix());
        for (table, column) in [
            ("api_key", "prefix"), ("api_key", "subject"), ("api_key", "created_by"), ("log", "details"), ("log", "actor"),
        ] {
            let hidden = &secret[9..];
            let sql = format!("select count(*) from {table} where {column} like '%{hidden}%'");
            assert_eq!(world.number(&sql).await, 0, "{table}.{column}");
        }
        let logged = "select count(*) from log where action = 'key.created' and actor = 'admin:test'";
        assert_eq!(world.number(logged).await, 1);
    }

    async fn a_revoked_key_stays_revoked_and_listed(world: &World) {
        let made = create(world, Role::Worker, None, "w1").await.unwrap();
        let before = world.engine.keys_revoked();
        world.engine.key_revoke(&World::operator(), made.id).await.unwrap();
        assert_ne!(world.engine.keys_revoked(), before, "who remembers keys is told");
        let revoked_at = world.engine.key_find(&made.key).await.unwrap().unwrap().revoked_at;
        assert!(revoked_at.is_some());
        world.pass_ms(1_000);
        world.engine.key_revoke(&World::operator(), made.id).await.unwrap();
        let again = world.engine.key_find(&made.key).await.unwrap().unwrap().revoked_at;
        assert_eq!(again, revoked_at, "it was revoked when it was revoked first");
        assert_eq!(world.number("select count(*) from log where action = 'key.revoked'").await, 1);
        let nobody = "01900000-0000-7000-8400-000000000001".parse().unwrap();
        let refusal = world.engine.key_revoke(&World::operator(), nobody).await.unwrap_err();
        assert_eq!(refusal.refusal().unwrap().code(), "not_found");
    }

    async fn keys_are_listed_page_by_page_newest_first(world: &World) {
        let mut made = Vec::new();
        for n in 0..7 {
            world.pass_ms(1);
            made.push(create(world, Role::Worker, None, &format!("w{n}")).await.unwrap().id);
        }
        made.reverse();
        let (mut listed, mut next) = (Vec::new(), None);
        loop {
            let page = world.engine.keys(&World::operator(), next, 3).await.unwrap();
            assert!(page.keys.len() <= 3);
            listed.extend(page.keys.iter().map(|key| key.id));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        assert_eq!(listed, made);
    }

    async fn what_makes_no_caller_makes_no_key(world: &World) {
        world.tenant("acme", 1).await;
        for (role, tenant, subject, code) in [
            (Role::Producer, None, "ben", "validation_failed"),
            (Role::Worker, Some("acme"), "w1", "validation_failed"),
            (Role::Reviewer, Some("nobody"), "ann", "not_found"),
            (Role::Admin, None, "", "validation_failed"),
            (Role::Admin, None, "a b", "validation_failed"),
        ] {
            let error = create(world, role, tenant, subject).await.unwrap_err();
            assert_eq!(error.refusal().expect("a refusal").code(), code, "{role} {tenant:?} {subject}");
        }
        assert_eq!(world.number("select count(*) from api_key").await, 0);
    }

    async fn the_first_key_is_made_once(world: &World) {
        let first = world.engine.key_first(None).await.unwrap().expect("there was none");
        let found = world.engine.key_find(&first.key).await.unwrap().unwrap();
        assert_eq!((found.role, found.created_by.as_str()), (Role::Admin, "docket"));
        assert!(world.engine.key_first(None).await.unwrap().is_none());
        world.engine.key_revoke(&World::operator(), first.id).await.unwrap();
        assert!(world.engine.key_first(None).await.unwrap().is_none(), "a revoked key is no reason to make one");
    }

    async fn the_first_key_can_be_brought_and_has_to_be_strong(world: &World) {
        for weak in ["", "admin", "password-password-password-password", "dk_mistyped"] {
            let error = world.engine.key_first(Some(weak)).await.unwrap_err();
            let text = error.refusal().expect("a refusal").to_string();
            assert!(text.contains("weak") || text.contains("not whole"), "{text}");
            assert!(weak.is_empty() || !text.contains(weak), "the secret is not repeated: {text}");
        }
        let own = "5f2c0e9ab41d7788c3aa01b9e6f0d2445f2c0e9ab41d7788c3aa01b9e6f0d244";
        let first = world.engine.key_first(Some(own)).await.unwrap().expect("there was none");
        assert_eq!(first.key.reveal(), own);
        let secret = ApiKey::parse(own).unwrap();
        assert_eq!(world.engine.key_find(&secret).await.unwrap().unwrap().id, first.id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_ten_servers_that_start_at_once_one_makes_the_first_key() {
    for _ in 0..5 {
        let world = World::new(Database::postgres().await).await;
        let settings = WorldConfig {
            hot_connections: 1,
            ..WorldConfig::default()
        };
        let mut engines = vec![world.engine.clone()];
        for _ in 0..9 {
            engines.push(world.another_engine(&settings).await);
        }
        let starts: Vec<_> = engines
            .into_iter()
            .map(|engine| tokio::spawn(async move { engine.key_first(None).await }))
            .collect();
        let mut made = 0;
        for start in starts {
            made += usize::from(start.await.unwrap().unwrap().is_some());
        }
        assert_eq!(made, 1);
        assert_eq!(world.number("select count(*) from api_key").await, 1);
    }
}
