//! Servers that die on the way of a message: after the intent, after the provider took it, before the mark. The provider's own ledger is
//! compared with the rows: everybody is told once, and nobody is called told who was not (rules N4, N5 and A3).
//!
//! `DOCKET_OUTBOX_ROUNDS` sets how many servers die; each round is made from its number and `DOCKET_OUTBOX_SEED`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use docket_core::random::{Random as _, SeededRandom};
use docket_testkit::Database;
use docket_testkit::provider::{read_ledger, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::serving::{PATIENCE, Server, doctor, now, serve_on};

const POINTS: [&str; 3] = ["after_intent", "after_accepted", "before_mark"];
/// Messages of a round.
const MESSAGES: usize = 6;
const ADMIN: &str = "DOCKET_ADMIN_KEY";

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(usual)
}

/// A provider in this process, and the settings of servers that send to it.
struct Receiver {
    address: String,
    ledger: PathBuf,
    settings: PathBuf,
}

impl Receiver {
    async fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it has an address").to_string();
        let (ledger, settings) = (folder.join("ledger.jsonl"), folder.join("docket.toml"));
        let text = format!(
            "[channels.webhook]\nsecret = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nallow_private = true\n\
             lookup_url = \"http://{address}/lookup\"\nlookup_lag_seconds = 0\n\n[outbox]\nlease_seconds = 2\n"
        );
        std::fs::write(&settings, text).expect("the settings can be written");
        let kept = ledger.clone();
        tokio::spawn(async move { serve(listener, &kept).await.expect("the provider serves") });
        Self {
            address,
            ledger,
            settings,
        }
    }

    /// How often each token was taken.
    fn taken(&self) -> BTreeMap<String, usize> {
        let mut taken = BTreeMap::new();
        for effect in read_ledger(&self.ledger) {
            *taken.entry(effect.token).or_default() += 1;
        }
        taken
    }
}

/// A world whose servers die.
struct World {
    database: Database,
    receiver: Receiver,
    key: String,
    client: reqwest::Client,
    /// The notifications that were asked for.
    asked: Vec<Value>,
}

impl World {
    fn command(&self) -> Command {
        let mut command = serve_on(&self.database);
        command
            .arg("--config")
            .arg(&self.receiver.settings)
            .env(ADMIN, &self.key);
        command
    }

    /// Calls a server that may be dying; none where it did not answer.
    async fn call(&self, url: &str, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let method = method.parse().expect("a method");
        let mut request = self
            .client
            .request(method, format!("{url}{path}"))
            .bearer_auth(&self.key)
            .timeout(Duration::from_secs(10));
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.ok()?;
        assert!(response.status().is_success(), "{path}: {}", response.status());
        response.json().await.ok()
    }

    /// Asks for the messages of a round, of a server that may die over it.
    async fn ask(&mut self, round: u64, url: &str) {
        for n in 0..MESSAGES {
            let name = format!("r{round}-{n}");
            let to = format!("webhook:http://{}/{name}", self.receiver.address);
            let body = json!({
                "idempotencyKey": name, "changelistId": name, "reviewVersion": 1, "recipients": [to], "subject": "Told",
                "body": "once\n",
            });
            self.call(url, "POST", "/api/v1/notifications", Some(&body)).await;
            self.asked.push(body);
        }
    }

    /// Asks again for everything that was asked for, and waits until all of it has succeeded.
    async fn settle(&self, url: &str) {
        let begun = now();
        for body in &self.asked {
            loop {
                let answer = self.call(url, "POST", "/api/v1/notifications", Some(body)).await;
                if answer.is_some_and(|answer| answer["status"] == "succeeded") {
                    break;
                }
                assert!(
                    begun.elapsed() < PATIENCE * 4,
                    "{} is not told",
                    body["changelistId"]
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }

    /// Every delivery is sent, and the provider took each exactly once.
    async fn compare(&self, url: &str) {
        let taken = self.receiver.taken();
        let mut tokens = BTreeSet::new();
        let mut cursor = String::new();
        loop {
            let path = format!("/api/v1/deliveries?limit=200{cursor}");
            let page = self
                .call(url, "GET", &path, None)
                .await
                .expect("the server answers");
            for delivery in page["items"].as_array().expect("a list") {
                assert_eq!(delivery["status"], "sent", "{delivery}");
                let token = delivery["token"].as_str().expect("a token").to_owned();
                assert_eq!(taken.get(&token), Some(&1), "told once: {delivery}");
                tokens.insert(token);
            }
            match page["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(tokens.len(), self.asked.len(), "a row for each");
        assert_eq!(
            taken.keys().cloned().collect::<BTreeSet<_>>(),
            tokens,
            "and nothing else was sent"
        );
    }
}

/// Runs the rounds: in each a server dies on the way of a message, beside another one or alone.
async fn rounds(database: Database, beside: bool) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let (count, seed) = (number("DOCKET_OUTBOX_ROUNDS", 5), number("DOCKET_OUTBOX_SEED", 1));
    let random = SeededRandom::new(seed);
    let mut world = World {
        receiver: Receiver::start(folder.path()).await,
        database,
        key: docket_core::access::ApiKey::draw(&random).reveal().to_owned(),
        client: reqwest::Client::new(),
        asked: Vec::new(),
    };
    let companion = beside.then(|| Server::start(world.command()));
    for round in 0..count {
        let point = POINTS[usize::try_from(round % 3).expect("a small number")];
        let at = format!("{point}:{}", 1 + random.below(MESSAGES as u64));
        let mut command = world.command();
        command.args(["--crash-at", &at]);
        let doomed = Server::start(command);
        let url = doomed.url.clone();
        world.ask(round, &url).await;
        if companion.is_none() {
            // Where nobody else works it has until its own death, or until there is nothing left to do.
            let begun = now();
            while world.receiver.taken().len() < world.asked.len() && begun.elapsed() < Duration::from_secs(3)
            {
                if world.call(&url, "GET", "/healthz", None).await.is_none() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            drop(doomed);
            let next = Server::start(world.command());
            world.settle(&next.url).await;
            world.compare(&next.url).await;
            drop(next);
        } else if let Some(companion) = &companion {
            world.settle(&companion.url).await;
            world.compare(&companion.url).await;
            drop(doomed);
        }
    }
    drop(companion);
    doctor(&world.database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_on_the_way_of_a_message_tells_everybody_once_on_sqlite() {
    rounds(Database::sqlite(), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_servers_that_dies_on_the_way_of_a_message_tells_everybody_once() {
    rounds(Database::postgres().await, true).await;
}
