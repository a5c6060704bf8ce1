//! SIGTERM under load: what was begun is answered, and what was not answered did not happen.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use docket_testkit::Database;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::load::CLAIM;
use crate::serving::{PATIENCE, Server, doctor, now, serve_on};

const ITEMS: &str = "/api/v1/collections/docs/items";

/// Clients that keep their connections, and end with the first call that is not answered.
struct Clients {
    url: String,
    producer: String,
    worker: String,
    /// The server was told to stop.
    stopping: AtomicBool,
    told: Mutex<Told>,
}

/// What the answers said, by the items' ids.
#[derive(Default)]
struct Told {
    submitted: BTreeSet<String>,
    claimed: BTreeSet<String>,
    completed: BTreeSet<String>,
}

impl Clients {
    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One call; none where it was not taken any more. What is answered is whole.
    async fn call(&self, client: &reqwest::Client, path: &str, key: &str, body: &Value) -> Option<Value> {
        let request = client
            .post(format!("{}{path}", self.url))
            .bearer_auth(key)
            .json(body);
        match request.send().await {
            Ok(answer) => {
                assert_eq!(answer.status(), 200, "{path}");
                let bytes = answer
                    .bytes()
                    .await
                    .expect("what is begun is answered to the end");
                Some(serde_json::from_slice(&bytes).expect("the answer is whole"))
            }
            Err(error) => {
                assert!(self.stopping.load(Ordering::SeqCst), "{path}: {error:?}");
                None
            }
        }
    }

    async fn produce(self: Arc<Self>, n: usize) {
        let client = reqwest::Client::new();
        for count in 0.. {
            let items = json!({ "items": [{ "externalId": format!("{n}-{count}"), "payload": count }] });
            let Some(answer) = self.call(&client, ITEMS, &self.producer, &items).await else {
                return;
            };
            self.told()
                .submitted
                .insert(text(&answer["results"][0]["item"]["id"]));
        }
    }

    async fn work(self: Arc<Self>, n: usize) {
        let client = reqwest::Client::new();
        loop {
            let claim =
                json!({ "pipeline": "work", "workerId": format!("w{n}"), "limit": 3, "waitSeconds": 5 });
            let Some(answer) = self.call(&client, CLAIM, &self.worker, &claim).await else {
                return;
            };
            let jobs = answer["jobs"].as_array().expect("jobs").clone();
            let items: Vec<_> = jobs.iter().map(|job| text(&job["itemId"])).collect();
            self.told().claimed.extend(items.iter().cloned());
            let word = |job: &Value| json!({ "jobId": job["jobId"], "leaseToken": job["leaseToken"] });
            let jobs: Vec<_> = jobs.iter().map(word).collect();
            if jobs.is_empty() {
                continue;
            }
            let complete = json!({ "jobs": jobs });
            let path = "/internal/v1/jobs/complete";
            let Some(answer) = self.call(&client, path, &self.worker, &complete).await else {
                return;
            };
            for result in answer["results"].as_array().expect("results") {
                assert_eq!(result["ok"], json!(true), "{answer}");
            }
            self.told().completed.extend(items);
        }
    }

    /// Waits for work that never comes; how long it took to be told so once the server stops.
    async fn wait(self: Arc<Self>, n: usize) {
        let claim = json!({ "pipeline": "other", "workerId": format!("w{n}"), "waitSeconds": 60 });
        let client = reqwest::Client::new();
        let answer = self.call(&client, CLAIM, &self.worker, &claim).await;
        assert_eq!(answer.expect("who waits is answered")["jobs"], json!([]));
    }

    /// Follows the log until the server ends the stream.
    async fn follow(self: Arc<Self>) {
        let request = reqwest::Client::new().get(format!("{}/api/v1/events", self.url));
        let answer = request
            .bearer_auth(&self.producer)
            .send()
            .await
            .expect("it is answered");
        let text = answer.text().await.expect("the stream is ended in order");
        assert!(
            text.contains("event: item.submitted") && text.ends_with("\n\n"),
            "it ends with a whole event"
        );
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("an id").to_owned()
}

/// The ids of the items in a state.
async fn items(server: &Server, key: &str, status: &str) -> BTreeSet<String> {
    let (mut ids, mut cursor) = (BTreeSet::new(), String::new());
    loop {
        let path = format!("/api/v1/items?collectionId=docs&status={status}&limit=200{cursor}");
        let page = server.good("GET", &path, key, None).await;
        ids.extend(
            page["items"]
                .as_array()
                .expect("a page")
                .iter()
                .map(|item| text(&item["id"])),
        );
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return ids,
        }
    }
}

async fn drops_no_request(database: Database) {
    let server = Server::start(serve_on(&database));
    let admin = server.admin_key();
    let (producer, worker) = server.world(&admin).await;
    let pipeline = json!({ "steps": [] });
    server
        .good("PUT", "/api/v1/pipelines/other", &admin, Some(pipeline))
        .await;
    let clients = Arc::new(Clients {
        url: server.url.clone(),
        producer: producer.clone(),
        worker,
        stopping: AtomicBool::new(false),
        told: Mutex::default(),
    });
    let mut waiting = JoinSet::new();
    for n in 0..4 {
        waiting.spawn(Arc::clone(&clients).wait(n));
    }
    waiting.spawn(Arc::clone(&clients).follow());
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut busy = JoinSet::new();
    for n in 0..8 {
        busy.spawn(Arc::clone(&clients).produce(n));
    }
    for n in 0..4 {
        busy.spawn(Arc::clone(&clients).work(n));
    }
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    clients.stopping.store(true, Ordering::SeqCst);
    let begun = now();
    server.signal("-TERM");
    tokio::time::timeout(PATIENCE, waiting.join_all())
        .await
        .expect("who waits is let go");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    tokio::time::timeout(PATIENCE, busy.join_all())
        .await
        .expect("all are let go");
    let (code, logs) = server.wait();
    assert_eq!(code, Some(0), "{logs}");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());

    let server = Server::start(serve_on(&database));
    let told = std::mem::take(&mut *clients.told());
    let (queued, processing, completed) = (
        items(&server, &producer, "queued").await,
        items(&server, &producer, "processing").await,
        items(&server, &producer, "completed").await,
    );
    assert!(told.completed.len() > 50, "{} are no load", told.completed.len());
    assert_eq!(completed, told.completed, "what was completed was answered");
    let held: BTreeSet<_> = told.claimed.difference(&told.completed).cloned().collect();
    assert_eq!(processing, held, "what was given out was answered");
    let there: BTreeSet<_> = queued.into_iter().chain(processing).chain(completed).collect();
    assert_eq!(there, told.submitted, "what was taken was answered");
    server.stop();
    doctor(&database);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_drops_no_request_on_sqlite() {
    drops_no_request(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_under_load_drops_no_request_on_postgres() {
    drops_no_request(Database::postgres().await).await;
}
