//! Producers and workers that speak HTTP with one server or several, and note what they were told.
//!
//! A call that gets no answer is made again, on any server, until it gets one: submissions with the same idempotency key,
//! completions with the same token. So nothing that was asked for stays unknown.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use docket_core::id::JobId;
use docket_core::lease::LeaseToken;
use docket_core::random::{Random as _, SeededRandom};
use docket_testkit::load::{Fact, Facts};
use docket_testkit::{Database, Plain};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::given::Call;
use crate::serving::{PATIENCE, Server, now};

pub(crate) const CLAIM: &str = "/internal/v1/jobs/claim";
const PIPELINE: &str = "work";

/// What kind of load.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// Tenants, each with a collection of its name, and how many of its jobs may run at once.
    pub(crate) tenants: Vec<(String, usize)>,
    /// How many of them, the last ones, have nothing from producers.
    pub(crate) quiet: usize,
    pub(crate) producers: usize,
    pub(crate) workers: usize,
    pub(crate) lease_seconds: f64,
    /// Some jobs fail or are handed back, and leases may be lost; otherwise every job is claimed once and completed.
    pub(crate) rough: bool,
}

pub(crate) struct Tenant {
    pub(crate) name: String,
    pub(crate) limit: usize,
    key: String,
    /// Jobs that workers have in hand.
    held: AtomicUsize,
}

/// A load under way.
pub(crate) struct Load {
    config: Config,
    urls: Vec<Mutex<String>>,
    client: reqwest::Client,
    pub(crate) tenants: Vec<Tenant>,
    worker_key: String,
    producing: AtomicBool,
    working: AtomicBool,
    pub(crate) facts: Facts,
    /// Every claim that was answered with jobs.
    pub(crate) calls: Mutex<Vec<Call>>,
    /// Calls that had to be made again.
    pub(crate) repeated: AtomicUsize,
}

impl Load {
    /// Makes the pipeline, the tenants, the collections and the keys.
    pub(crate) async fn new(servers: &[&Server], admin: &str, config: Config) -> Arc<Self> {
        let server = servers[0];
        let pipeline = json!({
            "steps": [], "leaseSeconds": config.lease_seconds, "onStale": "requeue", "maxAttempts": 100,
            "backoff": { "baseMs": 5, "maxMs": 40 }, "strict": false, "review": false,
        });
        let put = async |path: String, body: Value| server.good("PUT", &path, admin, Some(body)).await;
        put(format!("/api/v1/pipelines/{PIPELINE}"), pipeline).await;
        let key = async |body: Value| {
            let made = server.good("POST", "/api/v1/keys", admin, Some(body)).await;
            made["key"].as_str().expect("the key is told").to_owned()
        };
        let mut tenants = Vec::new();
        for (name, limit) in &config.tenants {
            let tenant = json!({ "tier": "free", "uploadsPerHour": "unlimited", "concurrentJobs": limit });
            put(format!("/api/v1/tenants/{name}"), tenant).await;
            let collection = json!({ "tenantId": name, "pipeline": PIPELINE });
            put(format!("/api/v1/collections/{name}"), collection).await;
            tenants.push(Tenant {
                name: name.clone(),
                limit: *limit,
                key: key(json!({ "role": "producer", "tenantId": name, "subject": "p" })).await,
                held: AtomicUsize::new(0),
            });
        }
        let client = reqwest::Client::builder().timeout(PATIENCE).build();
        Arc::new(Self {
            config,
            urls: servers
                .iter()
                .map(|server| Mutex::new(server.url.clone()))
                .collect(),
            client: client.expect("a client can be made"),
            tenants,
            worker_key: key(json!({ "role": "worker", "subject": "w" })).await,
            producing: AtomicBool::new(true),
            working: AtomicBool::new(true),
            facts: Facts::default(),
            calls: Mutex::default(),
            repeated: AtomicUsize::new(0),
        })
    }

    /// One of the servers is somewhere else now.
    pub(crate) fn moved(&self, server: usize, url: &str) {
        url.clone_into(&mut self.urls[server].lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Starts producers and workers.
    pub(crate) fn start(self: &Arc<Self>) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for n in 0..self.config.producers {
            tasks.spawn(Arc::clone(self).producer(n));
        }
        for n in 0..self.config.workers {
            tasks.spawn(Arc::clone(self).worker(n));
        }
        tasks
    }

    /// Lets no more come, and works off all that is there.
    pub(crate) async fn finish(&self, tasks: JoinSet<()>, database: &Database) {
        self.producing.store(false, Ordering::SeqCst);
        let plain = Plain::of(database);
        let begun = now();
        while plain.number("select count(*) from job where state = 0").await > 0 {
            assert!(begun.elapsed() < PATIENCE, "what is left is not worked off");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.working.store(false, Ordering::SeqCst);
        tasks.join_all().await;
    }

    fn wrong(&self, what: String) {
        self.facts.add(Fact::Wrong(what));
    }

    fn url(&self, server: usize) -> String {
        let url = &self.urls[server % self.urls.len()];
        url.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a call until it is answered, on one server after the other; the answer, and how often it was asked.
    async fn ask(&self, server: u64, key: &str, path: &str, once: Option<&str>, body: &Value) -> Value {
        let mut server = usize::try_from(server).unwrap_or(0);
        let begun = now();
        loop {
            assert!(begun.elapsed() < PATIENCE, "{path} is never answered");
            let mut request = self.client.post(format!("{}{path}", self.url(server)));
            if let Some(once) = once {
                request = request.header("idempotency-key", once);
            }
            let answer = async {
                let answer = request.bearer_auth(key).json(body).send().await?;
                let status = answer.status().as_u16();
                Ok::<_, reqwest::Error>((status, answer.bytes().await?))
            };
            match answer.await {
                Ok((200, body)) => return serde_json::from_slice(&body).expect("an answer is whole"),
                Ok((503, _)) => {}
                Ok((status, body)) => {
                    self.wrong(format!("{path}: {status} {}", String::from_utf8_lossy(&body)));
                    return Value::Null;
                }
                Err(error) if !self.config.rough => self.wrong(format!("{path}: {error:?}")),
                Err(_) => {}
            }
            self.repeated.fetch_add(1, Ordering::Relaxed);
            server += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn producer(self: Arc<Self>, n: usize) {
        let random = SeededRandom::new(1_000 + n as u64);
        let mut count = 0;
        while self.producing.load(Ordering::SeqCst) {
            let tenants = self.tenants.len() - self.config.quiet;
            let tenant = usize::try_from(random.below(tenants as u64)).expect("it is small");
            let size = 1 + random.below(5);
            let ids: Vec<_> = (count..count + size).map(|k| format!("{n}-{k}")).collect();
            count += size;
            self.submit(tenant, random.next_u64() % 8, &ids).await;
            tokio::time::sleep(Duration::from_millis(2 + random.below(15))).await;
        }
    }

    /// Submits items to a tenant through a server; when that was answered.
    pub(crate) async fn submit(&self, tenant: usize, server: u64, ids: &[String]) -> Instant {
        let tenant = &self.tenants[tenant];
        let item = |id: &String| json!({ "externalId": id, "payload": { "for": id } });
        let items: Vec<_> = ids.iter().map(item).collect();
        let path = format!("/api/v1/collections/{}/items", tenant.name);
        let once = format!("submit-{}", ids[0]);
        let body = json!({ "items": items });
        let answer = self.ask(server, &tenant.key, &path, Some(&once), &body).await;
        let told = now();
        let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
        if results.len() != ids.len() {
            self.wrong(format!("{} items were answered so: {answer}", ids.len()));
        }
        for (id, result) in ids.iter().zip(results) {
            let item = result["item"]["id"].as_str().and_then(|id| id.parse().ok());
            match item {
                Some(item) if result["duplicate"] == json!(false) => {
                    self.facts.add(Fact::Submitted(item, id.clone()));
                }
                _ => self.wrong(format!("{id} is new, yet: {result}")),
            }
        }
        told
    }

    async fn worker(self: Arc<Self>, n: usize) {
        let random = SeededRandom::new(2_000 + n as u64);
        while self.working.load(Ordering::SeqCst) {
            let claim = json!({
                "pipeline": PIPELINE, "workerId": format!("w{n}"), "limit": 1 + random.below(8), "waitSeconds": 0.3,
            });
            let asked = now();
            let answer = self
                .ask(random.next_u64() % 8, &self.worker_key, CLAIM, None, &claim)
                .await;
            let call = self.given(asked, &answer);
            if call.jobs.is_empty() {
                continue;
            }
            self.calls
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(call.clone());
            tokio::time::sleep(Duration::from_millis(random.below(12))).await;
            self.settle(&call, &random).await;
        }
    }

    /// Notes what was given out, and that no lane has more than it may.
    fn given(&self, asked: Instant, answer: &Value) -> Call {
        let mut call = Call {
            asked,
            told: now(),
            jobs: Vec::new(),
        };
        for job in answer["jobs"].as_array().map_or(&[][..], Vec::as_slice) {
            let id: JobId = job["jobId"]
                .as_str()
                .and_then(|id| id.parse().ok())
                .expect("a job has an id");
            let token = LeaseToken(job["leaseToken"].as_i64().expect("a job has a token"));
            let tenant = self
                .tenants
                .iter()
                .position(|tenant| job["tenantId"] == json!(tenant.name));
            let tenant = tenant.expect("the tenant is known");
            self.facts.add(Fact::Claimed(id, token));
            let held = self.tenants[tenant].held.fetch_add(1, Ordering::SeqCst) + 1;
            if held > self.tenants[tenant].limit && !self.config.rough {
                self.wrong(format!(
                    "{held} jobs of {} run at once",
                    self.tenants[tenant].name
                ));
            }
            call.jobs.push((tenant, id, token));
        }
        call
    }

    /// Completes the jobs; of a rough load some fail or go back.
    async fn settle(&self, call: &Call, random: &SeededRandom) {
        let mut words: [Vec<_>; 3] = Default::default();
        for (tenant, job, token) in &call.jobs {
            // Given up before the server is asked: what the server counts is never less than what is counted here.
            self.tenants[*tenant].held.fetch_sub(1, Ordering::SeqCst);
            let fate = if self.config.rough { random.below(20) } else { 2 };
            words[usize::try_from(fate.min(2)).unwrap_or(2)].push((*job, *token));
        }
        for (word, jobs) in ["fail", "release", "complete"].into_iter().zip(words) {
            if !jobs.is_empty() {
                self.say(word, &jobs, random.next_u64() % 8).await;
            }
        }
    }

    async fn say(&self, word: &str, jobs: &[(JobId, LeaseToken)], server: u64) {
        let one = |(job, token): &(JobId, LeaseToken)| {
            let mut one = json!({ "jobId": job.to_string(), "leaseToken": token.0 });
            if word == "fail" {
                one["error"] = json!("it rained");
            }
            one
        };
        let body = json!({ "jobs": jobs.iter().map(one).collect::<Vec<_>>() });
        let path = format!("/internal/v1/jobs/{word}");
        let answer = self.ask(server, &self.worker_key, &path, None, &body).await;
        let results = answer["results"].as_array().map_or(&[][..], Vec::as_slice);
        if results.len() != jobs.len() {
            self.wrong(format!("{word} of {} jobs was answered so: {answer}", jobs.len()));
        }
        for ((job, token), result) in jobs.iter().zip(results) {
            match (result["ok"].as_bool(), result["error"]["code"].as_str()) {
                (Some(true), _) if word == "complete" => self.facts.add(Fact::Completed(*job, *token)),
                (Some(true), _) => {}
                (_, Some("lease_lost")) if self.config.rough => {}
                _ => self.wrong(format!("{word} of {job}: {result}")),
            }
        }
    }
}
