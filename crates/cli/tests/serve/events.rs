//! The live log of real servers (L4): every entry once and in order, across restarts and servers, whoever else does not read.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::serving::{PATIENCE, Server, now, serve_on};
use docket_testkit::{Database, Plain};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Where the servers are, and who asks.
struct Site {
    urls: Mutex<Vec<String>>,
    admin: String,
    producer: String,
    worker: String,
    stop: AtomicBool,
}

impl Site {
    async fn new(servers: &[&Server]) -> Arc<Self> {
        let admin = servers[0].admin_key();
        let (producer, worker) = servers[0].world(&admin).await;
        Arc::new(Self {
            urls: Mutex::new(servers.iter().map(|server| server.url.clone()).collect()),
            admin,
            producer,
            worker,
            stop: AtomicBool::new(false),
        })
    }

    fn url(&self, server: usize) -> String {
        let urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        urls[server % urls.len()].clone()
    }

    fn moved(&self, server: usize, url: &str) {
        let mut urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        url.clone_into(&mut urls[server]);
    }

    /// One call; none where the server is away.
    async fn call(&self, server: usize, key: &str, path: &str, body: &Value) -> Option<Value> {
        let request = reqwest::Client::new().post(format!("{}{path}", self.url(server)));
        let answer = request.bearer_auth(key).json(body).send().await.ok()?;
        assert_eq!(answer.status(), 200, "{path}");
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    }

    /// Submits, claims and completes until it is told to stop.
    async fn happen(self: Arc<Self>, n: usize) {
        for count in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let items: Vec<_> = (0..3)
                .map(|k| json!({ "externalId": format!("{n}-{count}-{k}"), "payload": k }))
                .collect();
            let path = "/api/v1/collections/docs/items";
            self.call(count, &self.producer, path, &json!({ "items": items }))
                .await;
            let claim = json!({ "pipeline": "work", "workerId": format!("w{n}"), "limit": 3 });
            let claimed = self
                .call(count + 1, &self.worker, "/internal/v1/jobs/claim", &claim)
                .await;
            let jobs = claimed.and_then(|claimed| claimed["jobs"].as_array().cloned());
            let done = |job: &Value| json!({ "jobId": job["jobId"], "leaseToken": job["leaseToken"] });
            let jobs: Vec<_> = jobs.unwrap_or_default().iter().map(done).collect();
            if !jobs.is_empty() {
                let body = json!({ "jobs": jobs });
                self.call(count, &self.worker, "/internal/v1/jobs/complete", &body)
                    .await;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn busy(self: &Arc<Self>) -> JoinSet<()> {
        (0..4).map(|n| Arc::clone(self).happen(n)).collect()
    }

    /// The whole log as its export has it. Other tests on the same cluster may hold the newest entries back for a moment.
    async fn export(&self, database: &Database) -> Vec<(String, String)> {
        let begun = now();
        loop {
            let entries = self.exported().await;
            let count = Plain::of(database).number("select count(*) from log").await;
            if i64::try_from(entries.len()) == Ok(count) {
                return entries;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{} of {count} entries are exported",
                entries.len()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What an export has: places and actions, in order.
    async fn exported(&self) -> Vec<(String, String)> {
        let request = reqwest::Client::new().get(format!("{}/api/v1/audit/export", self.url(0)));
        let answer = request
            .bearer_auth(&self.admin)
            .send()
            .await
            .expect("it is answered");
        let text = answer.text().await.expect("the export is whole");
        let record = |line: &str| {
            let line: Value = serde_json::from_str(line).expect("a line is JSON");
            let record = [&line["entry"]["record"], &line["entry"], &line["unsealed"]]
                .into_iter()
                .find(|record| record["position"].is_string())?
                .clone();
            let text = |name: &str| record[name].as_str().expect("it is text").to_owned();
            Some((text("position"), text("action")))
        };
        text.lines().filter_map(record).collect()
    }
}

/// Reads the log from its begin, as any program would by the standard.
#[derive(Default)]
struct Reader {
    seen: Mutex<Vec<(String, String)>>,
    connected: AtomicUsize,
}

impl Reader {
    /// Reads until it is given up; after `hop` events it goes to the next server.
    async fn read(self: Arc<Self>, site: Arc<Site>, hop: usize) {
        let mut last = "0-0".to_owned();
        for server in 0.. {
            self.stream(&site, server, hop, &mut last).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stream(&self, site: &Site, server: usize, hop: usize, last: &mut String) {
        let request = reqwest::Client::new().get(format!("{}/api/v1/events", site.url(server)));
        let request = request
            .bearer_auth(&site.admin)
            .header("last-event-id", last.as_str());
        let Ok(mut answer) = request.send().await else {
            return;
        };
        assert_eq!(answer.status(), 200);
        self.connected.fetch_add(1, Ordering::SeqCst);
        let (mut text, mut count) = (String::new(), 0);
        while let Ok(Some(bytes)) = answer.chunk().await {
            text.push_str(std::str::from_utf8(&bytes).expect("it is ASCII here"));
            while let Some((event, rest)) = text.split_once("\n\n") {
                let line = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
                if let Some(id) = line("id: ") {
                    id.clone_into(last);
                }
                if let (Some(id), Some(name)) = (line("id: "), line("event: ")) {
                    let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
                    seen.push((id.to_owned(), name.to_owned()));
                    count += 1;
                }
                text = rest.to_owned();
                if count == hop {
                    return;
                }
            }
        }
    }

    /// It has seen what the export has, each entry once.
    async fn has_seen(&self, whole: &[(String, String)], task: JoinHandle<()>) {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let begun = now();
        while seen().last() != whole.last() && begun.elapsed() < PATIENCE {
            assert!(!task.is_finished(), "the reader goes on");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        task.abort();
        let seen = seen();
        let differs = seen.iter().zip(whole).position(|(seen, entry)| seen != entry);
        assert_eq!(differs, None, "{:?}", differs.map(|at| (&seen[at], &whole[at])));
        assert_eq!(seen.len(), whole.len());
    }
}

async fn a_while() {
    tokio::time::sleep(Duration::from_millis(700)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_resumes_across_restarts_with_no_gap_and_no_repeat() {
    let database = Database::sqlite();
    let mut server = Server::start(serve_on(&database));
    let site = Site::new(&[&server]).await;
    let reader = Arc::new(Reader::default());
    let reading = tokio::spawn(Arc::clone(&reader).read(Arc::clone(&site), usize::MAX));
    let busy = site.busy();
    for signal in ["-TERM", "-KILL", "-TERM"] {
        a_while().await;
        server.signal(signal);
        server.wait();
        server = Server::start(serve_on(&database));
        site.moved(0, &server.url);
    }
    a_while().await;
    site.stop.store(true, Ordering::SeqCst);
    busy.join_all().await;
    let whole = site.export(&database).await;
    assert!(whole.len() > 300, "{} entries are few", whole.len());
    reader.has_seen(&whole, reading).await;
    assert!(reader.connected.load(Ordering::SeqCst) >= 4);
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_resumes_on_another_server_with_no_gap_and_no_repeat() {
    let database = Database::postgres().await;
    let servers = [
        Server::start(serve_on(&database)),
        Server::start(serve_on(&database)),
    ];
    let site = Site::new(&[&servers[0], &servers[1]]).await;
    let readers: [Arc<Reader>; 2] = Default::default();
    let reading: Vec<_> = readers
        .iter()
        .zip([40, usize::MAX])
        .map(|(reader, hop)| tokio::spawn(Arc::clone(reader).read(Arc::clone(&site), hop)))
        .collect();
    let busy = site.busy();
    for _ in 0..4 {
        a_while().await;
    }
    // However slow the machine is: until there is something to see.
    while Plain::of(&database).number("select count(*) from log").await <= 300 {
        a_while().await;
    }
    site.stop.store(true, Ordering::SeqCst);
    busy.join_all().await;
    let whole = site.export(&database).await;
    for (reader, reading) in readers.iter().zip(reading) {
        reader.has_seen(&whole, reading).await;
    }
    assert!(
        readers[0].connected.load(Ordering::SeqCst) > 5,
        "it has changed servers"
    );
    for server in servers {
        server.stop();
    }
}

/// Asks for the whole log and reads none of it.
async fn asleep(server: &Server, key: &str) -> TcpStream {
    let address = server.url.strip_prefix("http://").expect("a URL");
    let socket = TcpSocket::new_v4().expect("a socket can be made");
    socket.set_recv_buffer_size(4_096).expect("it can be small");
    let mut stream = socket
        .connect(address.parse().expect("an address"))
        .await
        .expect("the server accepts");
    let head = format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\nlast-event-id: 0-0\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.expect("it is taken");
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_do_not_read_slow_nobody_down() {
    let database = Database::sqlite();
    let server = Server::start(serve_on(&database));
    let admin = server.admin_key();
    let (producer, _) = server.world(&admin).await;
    // More than the network holds for somebody who does not read.
    let roster: Vec<_> = (0..1_000).map(|n| format!("{n}-{}", "x".repeat(100))).collect();
    let review = json!({ "enabled": false, "roster": roster });
    let collection = json!({ "tenantId": "acme", "pipeline": "work", "review": review });
    for _ in 0..60 {
        let path = "/api/v1/collections/docs";
        server.good("PUT", path, &admin, Some(collection.clone())).await;
    }
    let mut sleepers = Vec::new();
    for _ in 0..10 {
        sleepers.push(asleep(&server, &admin).await);
    }
    // Until nothing goes out to them any more.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let mut slowest = Duration::ZERO;
    for n in 0..50 {
        let items = json!({ "items": [{ "externalId": format!("x{n}"), "payload": n }] });
        let begun = now();
        let path = "/api/v1/collections/docs/items";
        server.good("POST", path, &producer, Some(items)).await;
        slowest = slowest.max(begun.elapsed());
    }
    assert!(slowest < Duration::from_secs(20), "a submission took {slowest:?}");
    // One that reads sees it all meanwhile.
    let site = Site {
        urls: Mutex::new(vec![server.url.clone()]),
        admin: admin.clone(),
        producer: producer.clone(),
        worker: String::new(),
        stop: AtomicBool::new(true),
    };
    let whole = site.export(&database).await;
    let reader = Arc::new(Reader::default());
    let reading = tokio::spawn(Arc::clone(&reader).read(Arc::new(site), usize::MAX));
    reader.has_seen(&whole, reading).await;
    let begun = now();
    server.stop();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}
