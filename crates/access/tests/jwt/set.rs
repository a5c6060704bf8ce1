//! Key sets served over HTTP: rotation, outages and answers that are no key sets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use docket_access::{Access, Denied, JwtKey};
use docket_testkit::{Database, World};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::made::{made, text};
use crate::{FROM, access_of, refused};

/// A provider: what it answers, and how often it was asked.
struct Provider {
    answer: Mutex<String>,
    asked: AtomicUsize,
    url: String,
}

impl Provider {
    async fn start(answer: String) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}/jwks.json", listener.local_addr().unwrap());
        let provider = Arc::new(Self {
            answer: Mutex::new(answer),
            asked: AtomicUsize::new(0),
            url,
        });
        let serving = Arc::clone(&provider);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        provider
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => request.push(byte),
                Err(_) => return,
            }
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answer.lock().unwrap().clone();
        if answer == "hang" {
            tokio::time::sleep(Duration::from_secs(60)).await;
        }
        stream.write_all(answer.as_bytes()).await.ok();
    }

    fn answers(&self, answer: String) {
        *self.answer.lock().unwrap() = answer;
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn ok(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn set(name: &str) -> String {
    ok(&made()[name].to_string())
}

fn broken() -> String {
    "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned()
}

async fn start(answer: String) -> (Arc<Provider>, World, Access) {
    let provider = Provider::start(answer).await;
    let world = World::new(Database::sqlite()).await;
    let access = access_of(&world, JwtKey::JwksUrl(provider.url.clone()));
    (provider, world, access)
}

async fn is_good(access: &Access, token: &str) -> bool {
    access.authenticate(Some(&text(token)), FROM).await.is_ok()
}

#[tokio::test]
async fn keys_of_a_set_are_found_by_their_id_and_fetched_once() {
    let (provider, _world, access) = start(set("jwks")).await;
    assert_eq!(provider.asked(), 0, "nothing is fetched before it is needed");
    assert!(is_good(&access, "/rs/one").await);
    assert!(is_good(&access, "/es/two").await);
    assert_eq!(provider.asked(), 1);
    let reason = refused(&access, &text("/rs/otherAsOne")).await;
    assert!(reason.contains("signature"), "{reason}");
    let reason = refused(&access, &text("/rs/confusedKid")).await;
    assert!(reason.contains("RS256"), "{reason}");
    let reason = refused(&access, &text("/rs/good")).await;
    assert!(
        reason.contains("kid"),
        "of two keys one has to be named: {reason}"
    );
}

#[tokio::test]
async fn a_token_without_an_id_is_checked_by_the_only_key_of_a_set() {
    let (_provider, _world, access) = start(set("jwksOne")).await;
    assert!(is_good(&access, "/rs/good").await);
}

#[tokio::test]
async fn a_new_key_is_found_when_the_first_token_names_it() {
    let (provider, world, access) = start(set("jwks")).await;
    assert!(is_good(&access, "/rs/one").await);
    provider.answers(set("jwksRotated"));
    world.pass_ms(11_000);
    assert!(is_good(&access, "/rs/three").await);
    assert_eq!(provider.asked(), 2);
    let reason = refused(&access, &text("/rs/one")).await;
    assert!(
        reason.contains("kid"),
        "the key that was taken out is no longer good: {reason}"
    );
}

#[tokio::test]
async fn a_key_that_was_taken_out_goes_with_the_next_look_though_no_token_asks_for_another() {
    let (provider, world, access) = start(set("jwks")).await;
    assert!(is_good(&access, "/rs/one").await);
    provider.answers(set("jwksRotated"));
    world.pass_ms(301_000);
    assert!(is_good(&access, "/rs/one").await, "nobody waits for the provider");
    for _ in 0..200 {
        if provider.asked() == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    world.pass_ms(5_000);
    assert!(refused(&access, &text("/rs/one")).await.contains("kid"));
}

#[tokio::test]
async fn made_up_key_ids_do_not_make_docket_ask_again_and_again() {
    let (provider, world, access) = start(set("jwks")).await;
    for _ in 0..5 {
        assert!(refused(&access, &text("/rs/unknownKid")).await.contains("kid"));
    }
    assert_eq!(provider.asked(), 1);
    world.pass_ms(11_000);
    refused(&access, &text("/rs/unknownKid")).await;
    assert_eq!(provider.asked(), 2);
}

#[tokio::test]
async fn the_last_good_set_stays_while_the_provider_is_away() {
    let (provider, world, access) = start(set("jwks")).await;
    assert!(is_good(&access, "/rs/one").await);
    provider.answers(broken());
    world.pass_ms(301_000);
    assert!(is_good(&access, "/rs/one").await);
    world.pass_ms(11_000);
    let answer = access.authenticate(Some(&text("/rs/three")), FROM).await;
    assert_eq!(answer, Err(Denied::Unavailable), "the key may be a new one");
    assert!(is_good(&access, "/rs/one").await);
    provider.answers(set("jwksRotated"));
    world.pass_ms(11_000);
    assert!(is_good(&access, "/rs/three").await, "it is back");
}

#[tokio::test]
async fn what_is_no_key_set_is_unavailable_and_lets_nobody_in() {
    let elsewhere = Provider::start(set("jwks")).await;
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        elsewhere.url
    );
    let secret = r#"{"keys":[{"kty":"oct","kid":"one","k":"c2VjcmV0"}]}"#;
    for answer in [
        broken(),
        redirect,
        ok("<html>"),
        ok("{}"),
        ok(r#"{"keys":[]}"#),
        ok(secret),
        ok(&format!("{{\"keys\":[],\"pad\":\"{}\"}}", "x".repeat(300_000))),
        String::new(),
    ] {
        let (_provider, _world, access) = start(answer.clone()).await;
        let outcome = access.authenticate(Some(&text("/rs/one")), FROM).await;
        assert_eq!(
            outcome,
            Err(Denied::Unavailable),
            "{}",
            answer.chars().take(80).collect::<String>()
        );
    }
    assert_eq!(elsewhere.asked(), 0, "no redirect is followed");
}

#[tokio::test]
async fn a_provider_that_hangs_is_given_up_and_many_wait_for_one_fetch() {
    let (provider, _world, access) = start("hang".to_owned()).await;
    let token = text("/rs/one");
    let waiting: Vec<_> = (0..20)
        .map(|_| {
            let (access, token) = (access.clone(), token.clone());
            tokio::spawn(async move { access.authenticate(Some(&token), FROM).await })
        })
        .collect();
    for one in waiting {
        let outcome = tokio::time::timeout(Duration::from_secs(15), one)
            .await
            .expect("it is given up");
        assert_eq!(outcome.unwrap(), Err(Denied::Unavailable));
    }
    assert_eq!(provider.asked(), 1);
}
