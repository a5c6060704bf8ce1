//! A load that notes what it was told, and plain SQL to hold those notes against.
//!
//! Every fact is noted after the engine's answer, so each of them must survive whatever happens next (rule A3). The checks
//! read the tables by themselves: nothing that is to be checked takes part in checking it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use docket_core::Refusal;
use docket_core::backoff::Backoff;
use docket_core::content::Digest;
use docket_core::id::{ItemId, JobId};
use docket_core::item::ItemDetails;
use docket_core::job::Failure;
use docket_core::lease::LeaseToken;
use docket_core::name::StepName;
use docket_core::pipeline::Pipeline;
use docket_core::random::{Random as _, SeededRandom};
use docket_core::tenant::{TenantSettings, UploadLimit};
use docket_engine::{
    Claim, ClaimedJob, CollectionSettings, Complete, Engine, Error, Fail, Release, StepDone, Submit,
    UploadRequest, UploadStart,
};
use serde_json::json;
use tokio::task::JoinSet;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::{Database, World, names};

/// The pipeline of the load.
pub const PIPELINE: &str = "load";
/// Its tenants, each with a collection of the same name, and how many jobs each may run at once.
pub const TENANTS: [(&str, u32); 4] = [("one", 1), ("two", 2), ("five", 5), ("twenty", 20)];
/// The tenant and collection of the files.
pub const FILES: &str = "files";

/// Something that the engine said has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// An item was taken.
    Submitted(ItemId, String),
    /// A file with this digest was taken.
    Uploaded(ItemId, String),
    /// A job was given out.
    Claimed(JobId, LeaseToken),
    /// A job was completed.
    Completed(JobId, LeaseToken),
    /// An attempt failed.
    Failed(JobId, LeaseToken),
    /// A job was handed back.
    Released(JobId, LeaseToken),
    /// The engine said something that it must never say.
    Wrong(String),
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted(item, external_id) => write!(f, "submitted {item} {external_id}"),
            Self::Uploaded(item, digest) => write!(f, "uploaded {item} {digest}"),
            Self::Claimed(job, token) => write!(f, "claimed {job} {}", token.0),
            Self::Completed(job, token) => write!(f, "completed {job} {}", token.0),
            Self::Failed(job, token) => write!(f, "failed {job} {}", token.0),
            Self::Released(job, token) => write!(f, "released {job} {}", token.0),
            Self::Wrong(what) => write!(f, "wrong {}", what.replace('\n', " ")),
        }
    }
}

impl FromStr for Fact {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> anyhow::Result<Self> {
        let (word, rest) = line.split_once(' ').context("a fact has several words")?;
        if word == "wrong" {
            return Ok(Self::Wrong(rest.to_owned()));
        }
        let (id, more) = rest.split_once(' ').context("a fact has three words")?;
        let job = || -> anyhow::Result<_> { Ok((id.parse()?, LeaseToken(more.parse()?))) };
        Ok(match word {
            "submitted" => Self::Submitted(id.parse()?, more.to_owned()),
            "uploaded" => Self::Uploaded(id.parse()?, more.to_owned()),
            "claimed" => job().map(|(job, token)| Self::Claimed(job, token))?,
            "completed" => job().map(|(job, token)| Self::Completed(job, token))?,
            "failed" => job().map(|(job, token)| Self::Failed(job, token))?,
            "released" => job().map(|(job, token)| Self::Released(job, token))?,
            other => bail!("'{other}' is no fact"),
        })
    }
}

/// Takes a fact.
pub type Sink = Arc<dyn Fn(Fact) + Send + Sync>;

/// How much load.
#[derive(Clone, Debug)]
pub struct LoadConfig {
    /// Workers, each of which claims, steps and settles in a loop.
    pub workers: usize,
    /// Submitters, each of which submits small batches in a loop.
    pub submitters: usize,
    /// Uploaders, each of which sends files in a loop.
    pub uploaders: usize,
    /// Begins every externalId, and makes it unique among loads.
    pub prefix: String,
    /// The seed of all choices.
    pub seed: u64,
}

/// What a load has met besides its facts.
#[derive(Debug, Default)]
pub struct Met {
    /// Calls that failed because the database was away.
    pub transient: AtomicU64,
    /// Calls of which it could not be found out whether they happened.
    pub unknown: AtomicU64,
    /// Leases lost, as is to be expected with short ones.
    pub lost: AtomicU64,
}

/// A load under way.
pub struct Load {
    engine: Engine,
    config: LoadConfig,
    sink: Sink,
    stop: AtomicBool,
    /// What was met.
    pub met: Met,
}

impl fmt::Debug for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Load")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Makes the pipeline, the tenants and the collections of the load.
pub async fn prepare(engine: &Engine) -> anyhow::Result<()> {
    let who = World::operator();
    let steps = ["read", "write"].map(|name| StepName::new(name).map_err(|e| anyhow!("{e}")));
    let definition = Pipeline {
        steps: steps.into_iter().collect::<anyhow::Result<_>>()?,
        lease_ms: 500,
        max_attempts: 100,
        backoff: Backoff {
            base_ms: 5,
            max_ms: 40,
        },
        ..Pipeline::default()
    };
    engine
        .pipeline_put(&who, names::pipeline(PIPELINE), definition)
        .await?;
    for (tenant, concurrent_jobs) in TENANTS.into_iter().chain([(FILES, 4)]) {
        limit(engine, tenant, concurrent_jobs).await?;
        let collection = CollectionSettings {
            id: names::collection(tenant),
            tenant: names::tenant(tenant),
            pipeline: Some(names::pipeline(PIPELINE)),
            review: false,
            settings: json!({}),
        };
        engine.collection_put(&who, collection).await?;
    }
    Ok(())
}

async fn limit(engine: &Engine, tenant: &str, concurrent_jobs: u32) -> anyhow::Result<()> {
    let settings = TenantSettings {
        id: names::tenant(tenant),
        tier: "free".to_owned(),
        uploads: Some(UploadLimit::Unlimited),
        concurrent_jobs: Some(concurrent_jobs),
    };
    engine.tenant_put(&World::operator(), settings).await?;
    Ok(())
}

impl Load {
    /// A load on this engine, which tells its facts to `sink`.
    pub fn new(engine: Engine, config: LoadConfig, sink: Sink) -> Arc<Self> {
        Arc::new(Self {
            engine,
            config,
            sink,
            stop: AtomicBool::new(false),
            met: Met::default(),
        })
    }

    /// Runs until it is stopped; what is under way then is done to its end.
    pub async fn run(self: &Arc<Self>) {
        let mut tasks = JoinSet::new();
        for n in 0..self.config.submitters {
            tasks.spawn(Arc::clone(self).submitter(n));
        }
        for n in 0..self.config.workers {
            tasks.spawn(Arc::clone(self).worker(n));
        }
        for n in 0..self.config.uploaders {
            tasks.spawn(Arc::clone(self).uploader(n));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                self.wrong(format!("a task of the load ended badly: {error}"));
            }
        }
    }

    /// Ends the load.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    fn wrong(&self, what: String) {
        (self.sink)(Fact::Wrong(what));
    }

    fn random(&self, kind: u64, n: usize) -> SeededRandom {
        SeededRandom::new(self.config.seed ^ (kind << 56) ^ ((n as u64) << 48))
    }

    /// Notes a call that failed. While a database is away that may happen; anything else may not.
    async fn failed(&self, call: &str, error: &Error) {
        match error {
            Error::UnknownCommit { .. } => self.met.unknown.fetch_add(1, Ordering::Relaxed),
            Error::Refused(Refusal::LeaseLost) => self.met.lost.fetch_add(1, Ordering::Relaxed),
            error if error.is_transient() => self.met.transient.fetch_add(1, Ordering::Relaxed),
            error => {
                self.wrong(format!("{call} failed: {error:?}"));
                0
            }
        };
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    async fn submitter(self: Arc<Self>, n: usize) {
        let random = self.random(1, n);
        let mut count = 0_u64;
        while self.goes_on() {
            let (tenant, _) = TENANTS[random.below(4) as usize];
            let size = 1 + random.below(5);
            let externals: Vec<_> = (0..size)
                .map(|k| format!("{}-{n}-{}", self.config.prefix, count + k))
                .collect();
            count += size;
            let call = Submit {
                collection: names::collection(tenant),
                items: externals.iter().map(|id| World::item(id)).collect(),
                idempotency_key: None,
            };
            match self.engine.submit(&World::scope(tenant), call).await {
                Err(error) => self.failed("submit", &error).await,
                Ok(answer) => {
                    for (external_id, result) in externals.into_iter().zip(answer.results) {
                        match result {
                            Ok(item) if !item.duplicate && item.job.is_some() => {
                                (self.sink)(Fact::Submitted(item.id, external_id));
                            }
                            other => self.wrong(format!("{external_id} is new, yet: {other:?}")),
                        }
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(2 + random.below(10))).await;
        }
    }

    async fn worker(self: Arc<Self>, n: usize) {
        let random = self.random(2, n);
        let worker = names::worker(&format!("{}-{n}", self.config.prefix));
        while self.goes_on() {
            let claim = Claim {
                pipeline: names::pipeline(PIPELINE),
                worker: worker.clone(),
                limit: 1 + u32::try_from(random.below(8)).unwrap_or(0),
                lease_ms: Some(i64::try_from(200 + random.below(600)).unwrap_or(500)),
                wait_ms: 50,
            };
            match self.engine.claim(claim).await {
                Err(error) => self.failed("claim", &error).await,
                Ok(jobs) => self.work(jobs, &random).await,
            }
        }
    }

    /// Works on what was claimed: most is completed in one call; some fails, is handed back, or is left lying as by a crash.
    async fn work(&self, jobs: Vec<ClaimedJob>, random: &SeededRandom) {
        for job in &jobs {
            (self.sink)(Fact::Claimed(job.id, job.token));
        }
        let mut done = Vec::new();
        for job in jobs {
            let next = job.steps.iter().find(|step| step.output.is_none());
            if let (Some(step), 0) = (next, random.below(4)) {
                let step = StepDone {
                    job: job.id,
                    token: job.token,
                    name: step.name.clone(),
                    output: json!({ "by": job.token.0 }),
                };
                if let Err(error) = self.engine.step(step).await {
                    self.failed("step", &error).await;
                }
            }
            match random.below(100) {
                0..6 => self.fail(&job).await,
                6..12 => self.release(&job).await,
                12..15 => {}
                _ => done.push(Complete::new(job.id, job.token)),
            }
        }
        if !done.is_empty() {
            self.complete(done).await;
        }
    }

    async fn fail(&self, job: &ClaimedJob) {
        let failure = Failure {
            error: "it rained".to_owned(),
            step: None,
            retryable: true,
        };
        let (job, token) = (job.id, job.token);
        match self.engine.fail(vec![Fail { job, token, failure }]).await {
            Err(error) => self.failed("fail", &error).await,
            Ok(results) => self.settled("fail", results, |_| Some(Fact::Failed(job, token))),
        }
    }

    async fn release(&self, job: &ClaimedJob) {
        let (job, token) = (job.id, job.token);
        match self.engine.release(vec![Release { job, token }]).await {
            Err(error) => self.failed("release", &error).await,
            Ok(results) => self.settled("release", results, |()| Some(Fact::Released(job, token))),
        }
    }

    async fn complete(&self, done: Vec<Complete>) {
        let mut jobs: Vec<_> = done.iter().map(|done| (done.job, done.token)).collect();
        jobs.reverse();
        match self.engine.complete(done).await {
            Err(error) => self.failed("complete", &error).await,
            Ok(results) => {
                for result in results {
                    let Some((job, token)) = jobs.pop() else { return };
                    self.settled("complete", vec![result], |completed| {
                        (!completed.repeated).then_some(Fact::Completed(job, token))
                    });
                }
            }
        }
    }

    fn settled<T: fmt::Debug + Copy>(
        &self,
        call: &str,
        results: Vec<docket_core::Refused<T>>,
        fact: impl Fn(T) -> Option<Fact>,
    ) {
        for result in results {
            match result {
                Ok(said) => match fact(said) {
                    Some(fact) => (self.sink)(fact),
                    None => self.wrong(format!("{call} was answered {said:?}")),
                },
                Err(Refusal::LeaseLost) => drop(self.met.lost.fetch_add(1, Ordering::Relaxed)),
                Err(refusal) => self.wrong(format!("{call} was refused: {refusal:?}")),
            }
        }
    }

    async fn uploader(self: Arc<Self>, n: usize) {
        let random = self.random(3, n);
        let mut count = 0_u64;
        while self.goes_on() {
            count += 1;
            match self
                .upload(&format!("{}-file-{n}-{count}", self.config.prefix), &random)
                .await
            {
                Ok(fact) => (self.sink)(fact),
                Err(error) => self.failed("upload", &error).await,
            }
        }
    }

    /// Sends a file of bytes that no other has, in pieces: small enough for one write, or large enough for several.
    async fn upload(&self, name: &str, random: &SeededRandom) -> Result<Fact, Error> {
        let request = UploadRequest {
            collection: names::collection(FILES),
            filename: Some(name.to_owned()),
            media_type: "application/octet-stream".to_owned(),
            digest: None,
            size: None,
            details: ItemDetails {
                external_id: Some(name.to_owned()),
                ..ItemDetails::default()
            },
        };
        let UploadStart::Ready(mut upload) = self.engine.upload(&World::scope(FILES), request).await? else {
            return Ok(Fact::Wrong(format!(
                "the bytes of {name} cannot be there already"
            )));
        };
        let mut piece = name.as_bytes().to_vec();
        piece.resize(256 << 10, b'.');
        let pieces = if random.below(2) == 0 { 1 } else { 45 };
        let mut hasher = docket_core::content::Hasher::default();
        for _ in 0..pieces {
            hasher.update(&piece);
            upload.write(piece.clone().into()).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let item = upload.finish().await?;
        if item.duplicate {
            return Ok(Fact::Wrong(format!("{name} is new, yet: {item:?}")));
        }
        Ok(Fact::Uploaded(item.id, hasher.finish().to_string()))
    }
}

/// Facts gathered in memory.
#[derive(Clone, Debug, Default)]
pub struct Facts(Arc<Mutex<Vec<Fact>>>);

impl Facts {
    /// Where facts go.
    pub fn sink(&self) -> Sink {
        let facts = self.clone();
        Arc::new(move |fact| facts.add(fact))
    }

    /// Adds one.
    pub fn add(&self, fact: Fact) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(fact);
    }

    /// All so far.
    pub fn all(&self) -> Vec<Fact> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Works off all that is left, within a minute.
pub async fn drain(engine: &Engine, plain: &Plain) {
    for (tenant, _) in TENANTS.into_iter().chain([(FILES, 0)]) {
        limit(engine, tenant, 1_000).await.expect("the limit is taken");
    }
    let work = async {
        while plain.number("select count(*) from job where state = 0").await > 0 {
            engine.reap(None).await.expect("the reaper runs");
            let claim = Claim {
                pipeline: names::pipeline(PIPELINE),
                worker: names::worker("drain"),
                limit: 500,
                lease_ms: Some(60_000),
                wait_ms: 50,
            };
            let jobs = engine.claim(claim).await.expect("the claim is taken");
            if jobs.is_empty() {
                continue;
            }
            let done = jobs.iter().map(|job| Complete::new(job.id, job.token)).collect();
            for result in engine.complete(done).await.expect("the call is taken") {
                assert!(!result.expect("the lease is held").repeated);
            }
        }
    };
    let over = tokio::time::timeout(Duration::from_secs(60), work).await;
    over.expect("what is left can be worked off in a minute");
}

/// Holds the facts against the tables, once everything was worked off: all that was acknowledged is there, nothing is
/// there twice, nothing was given out twice with one token, and nothing ran to completion twice.
pub async fn verify(plain: &Plain, facts: &[Fact]) {
    let wrong: Vec<_> = facts
        .iter()
        .filter(|fact| matches!(fact, Fact::Wrong(_)))
        .collect();
    assert!(
        wrong.is_empty(),
        "the engine said what it must never say: {wrong:#?}"
    );

    let items: BTreeMap<String, String> = plain
        .rows("select external_id, id from item")
        .await
        .into_iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    assert_eq!(
        items.len() as i64,
        plain.number("select count(*) from item").await
    );
    let jobs: BTreeMap<(String, String), (String, String)> = plain
        .rows("select lane_key, seq, state, token from job")
        .await
        .into_iter()
        .map(|row| ((row[0].clone(), row[1].clone()), (row[2].clone(), row[3].clone())))
        .collect();
    let mut given = HashSet::new();
    for fact in facts {
        match fact {
            Fact::Submitted(item, external_id) => {
                let there = items.get(external_id);
                assert_eq!(there, Some(&item.uuid().simple().to_string()), "{fact}");
            }
            Fact::Completed(job, token) => {
                let key = (job.lane().0.to_string(), job.seq().0.to_string());
                let there = jobs.get(&key);
                assert_eq!(there, Some(&("2".to_owned(), token.0.to_string())), "{fact}");
            }
            Fact::Claimed(job, token) => assert!(given.insert((*job, *token)), "given out twice: {fact}"),
            Fact::Uploaded(..) | Fact::Failed(..) | Fact::Released(..) | Fact::Wrong(_) => {}
        }
    }
    verify_log(plain).await;
}

/// The log says of each item once that it was submitted, and of each job once that it was completed.
async fn verify_log(plain: &Plain) {
    for (what, sql) in [
        (
            "jobs that did not end as completed",
            "select lane_key, seq, state from job where state <> 2",
        ),
        (
            "items without exactly one entry of their submission",
            "select i.id, count(l.id) from item i left join log l on l.item_id = i.id and l.action = 'item.submitted'
             group by i.id having count(l.id) <> 1",
        ),
        (
            "items that were not completed exactly once",
            "select i.id, count(l.id) from item i left join log l on l.item_id = i.id and l.action = 'job.completed'
             group by i.id having count(l.id) <> 1",
        ),
        (
            "entries of items that are not there",
            "select l.item_id, l.action from log l left join item i on i.id = l.item_id
             where l.item_id is not null and i.id is null",
        ),
        ("holds of jobs that have ended", "select lane_key, seq, kind from hold"),
    ] {
        let found = plain.rows(sql).await;
        assert!(found.is_empty(), "{what}: {found:?}");
    }
}

/// Files and items: every item of a file has its bytes, and there are no other bytes.
pub async fn verify_files(plain: &Plain, folder: &std::path::Path, facts: &[Fact]) {
    let rows = plain
        .rows("select blob_key, content_hash, id from item where blob_key is not null")
        .await;
    let named: BTreeSet<PathBuf> = rows.iter().map(|row| folder.join(&row[0])).collect();
    let found: BTreeSet<PathBuf> = files_under(folder).into_iter().collect();
    let (without, orphans): (Vec<_>, Vec<_>) = (
        named.difference(&found).collect(),
        found.difference(&named).collect(),
    );
    assert!(without.is_empty(), "items without bytes: {without:?}");
    assert!(orphans.is_empty(), "bytes without an item: {orphans:?}");
    let mut digests = BTreeMap::new();
    for row in &rows {
        let bytes = std::fs::read(folder.join(&row[0])).expect("the file can be read");
        assert_eq!(Digest::of(&bytes).to_string(), row[1], "the bytes of {}", row[0]);
        digests.insert(row[2].clone(), row[1].clone());
    }
    for fact in facts {
        if let Fact::Uploaded(item, digest) = fact {
            let there = digests.get(&item.uuid().simple().to_string());
            assert_eq!(there, Some(digest), "{fact}");
        }
    }
}

fn files_under(folder: &std::path::Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .flat_map(|entry| {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                files_under(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

/// The database without Docket: plain SQL on a connection of its own.
#[derive(Clone, Debug)]
pub enum Plain {
    /// The file.
    Sqlite(PathBuf),
    /// The URL.
    Postgres(String),
}

impl Plain {
    /// The way to this database.
    pub fn of(database: &Database) -> Self {
        match &database.url {
            None => Self::Sqlite(database.data_folder().join("docket.db")),
            Some(url) => Self::Postgres(url.clone()),
        }
    }

    /// Runs statements and reads the rows of the last, as text. Ids and digests are plain hexadecimal digits; null is nothing.
    pub async fn rows(&self, sql: &str) -> Vec<Vec<String>> {
        match self {
            Self::Sqlite(file) => sqlite_rows(file, sql).expect("SQLite answers"),
            Self::Postgres(url) => postgres_rows(url, sql).await.expect("PostgreSQL answers"),
        }
    }

    /// The same for a single number.
    pub async fn number(&self, sql: &str) -> i64 {
        let rows = self.rows(sql).await;
        rows[0][0].parse().expect("a number")
    }
}

fn sqlite_rows(file: &std::path::Path, sql: &str) -> rusqlite::Result<Vec<Vec<String>>> {
    let connection = rusqlite::Connection::open(file)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    let mut statement = connection.prepare(sql)?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|column| {
                Ok(match row.get_ref(column)? {
                    rusqlite::types::ValueRef::Null => String::new(),
                    rusqlite::types::ValueRef::Integer(n) => n.to_string(),
                    rusqlite::types::ValueRef::Real(n) => n.to_string(),
                    rusqlite::types::ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
                    rusqlite::types::ValueRef::Blob(bytes) => {
                        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
                    }
                })
            })
            .collect()
    })?;
    rows.collect()
}

async fn postgres_rows(url: &str, sql: &str) -> anyhow::Result<Vec<Vec<String>>> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    let driver = tokio::spawn(connection);
    let messages = client.simple_query(sql).await?;
    drop(client);
    driver.await?.ok();
    let plain = |text: &str| match text.strip_prefix("\\x") {
        Some(hex) => hex.to_owned(),
        // A UUID has 36 characters with dashes at known places.
        None if text.len() == 36 && text.matches('-').count() == 4 => text.replace('-', ""),
        None => text.to_owned(),
    };
    Ok(messages
        .into_iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(
                (0..row.len())
                    .map(|column| row.get(column).map(plain).unwrap_or_default())
                    .collect(),
            ),
            _ => None,
        })
        .collect())
}
