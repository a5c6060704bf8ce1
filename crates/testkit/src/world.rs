//! A small world: an engine on a throw-away database, with a clock that the test turns.

use std::sync::Arc;

use docket_core::Timestamp;
use docket_core::clock::ManualClock;
use docket_core::id::{ItemId, JobId};
use docket_core::item::ItemDetails;
use docket_core::job::Failure;
use docket_core::lease::LeaseToken;
use docket_core::name::{CollectionId, PipelineName, TenantId, WorkerId};
use docket_core::pipeline::Pipeline;
use docket_core::random::SeededRandom;
use docket_core::scope::{Actor, Operator, Scope};
use docket_core::tenant::{TenantSettings, UploadLimit};
use docket_engine::{
    Claim, ClaimedJob, CollectionSettings, Complete, Completed, Engine, EngineConfig, Fail, Failed, ItemView,
    Result, Submit, SubmitAnswer, SubmitItem, SubmittedItem, Upload, UploadRequest, UploadStart,
};
use serde_json::{Value, json};

use crate::Database;
use crate::scripted::Providers;

/// When the clock of a new world begins: 2026-09-21, noon.
const BEGIN: Timestamp = Timestamp::from_ms(1_790_000_000_000);

/// The largest file that a world takes.
pub const FILE_MAX: u64 = 24 << 20;

/// Checked names, short to write.
pub mod names {
    use super::{CollectionId, PipelineName, TenantId, WorkerId};

    /// A tenant.
    pub fn tenant(id: &str) -> TenantId {
        TenantId::new(id).unwrap()
    }

    /// A collection.
    pub fn collection(id: &str) -> CollectionId {
        CollectionId::new(id).unwrap()
    }

    /// A pipeline.
    pub fn pipeline(name: &str) -> PipelineName {
        PipelineName::new(name).unwrap()
    }

    /// A worker.
    pub fn worker(id: &str) -> WorkerId {
        WorkerId::new(id).unwrap()
    }
}

/// How a world is opened.
#[derive(Clone, Debug)]
pub struct WorldConfig {
    /// Statements of each tuned operation that run side by side.
    pub runners: usize,
    /// Connections for the tuned operations.
    pub hot_connections: usize,
    /// Whether time really passes.
    pub real_time: bool,
    /// The seed of keys and jitter.
    pub seed: u64,
    /// How long finished items and notifications are kept; none for ever.
    pub keep_finished_ms: Option<i64>,
    /// Who takes messages.
    pub providers: Providers,
    /// How long a send is its server's.
    pub delivery_lease_ms: i64,
    /// Who hears of what a person has to look at.
    pub alerts: Vec<String>,
}

impl Default for WorldConfig {
    fn default() -> Self {
        Self {
            runners: 2,
            hot_connections: 6,
            real_time: false,
            seed: 42,
            keep_finished_ms: None,
            providers: Providers::default(),
            delivery_lease_ms: 60_000,
            alerts: Vec::new(),
        }
    }
}

/// An engine with its database and its clock.
#[derive(Debug)]
pub struct World {
    /// The engine.
    pub engine: Engine,
    /// Its clock, unless time really passes.
    pub clock: Arc<ManualClock>,
    /// Its database.
    pub database: Database,
    /// Who takes its messages.
    pub providers: Providers,
}

impl World {
    /// A world on this database.
    pub async fn new(database: Database) -> Self {
        Self::with(database, &WorldConfig::default()).await
    }

    /// The same, by these settings.
    pub async fn with(database: Database, settings: &WorldConfig) -> Self {
        let clock = Arc::new(ManualClock::new(BEGIN));
        let engine = Self::open_engine(&database, settings, &clock).await;
        Self {
            engine,
            clock,
            database,
            providers: settings.providers.clone(),
        }
    }

    /// Another world, on a new database of the same kind.
    pub async fn beside(&self, settings: &WorldConfig) -> Self {
        let database = match self.database.url {
            None => Database::sqlite(),
            Some(_) => Database::postgres().await,
        };
        Self::with(database, settings).await
    }

    /// Another engine on the same database, as another server would be; only PostgreSQL can have one.
    pub async fn another_engine(&self, settings: &WorldConfig) -> Engine {
        Self::open_engine(&self.database, settings, &self.clock).await
    }

    async fn open_engine(database: &Database, settings: &WorldConfig, clock: &Arc<ManualClock>) -> Engine {
        let mut store = database.store_config();
        if let docket_engine::StoreConfig::Postgres(postgres) = &mut store {
            postgres.hot_connections = settings.hot_connections;
        }
        let mut config = EngineConfig::new(store, database.blob_config());
        if !settings.real_time {
            config.clock = Some(Arc::clone(clock) as _);
        }
        // Two engines with one seed would draw the same keys.
        static OPENED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let opened = OPENED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        config.random = Arc::new(SeededRandom::new(settings.seed ^ (opened << 32)));
        config.runners = settings.runners;
        config.file_max = FILE_MAX;
        config.keep_finished_ms = settings.keep_finished_ms;
        config.outbox = settings.providers.outbox();
        config.outbox.lease_ms = settings.delivery_lease_ms;
        config.outbox.alerts.clone_from(&settings.alerts);
        Engine::open(config).await.expect("the engine opens")
    }

    /// The doctor must find nothing.
    pub async fn assert_healthy(&self) {
        let found = self.engine.doctor().await.expect("the doctor can look");
        assert!(found.is_empty(), "the doctor found:\n{}", found.join("\n"));
    }

    /// Somebody who runs the deployment.
    pub fn operator() -> Operator {
        Operator {
            actor: Actor::new("admin:test").unwrap(),
        }
    }

    /// Somebody of this tenant.
    pub fn scope(tenant: &str) -> Scope {
        Scope {
            tenant: names::tenant(tenant),
            actor: Actor::new(format!("producer:{tenant}")).unwrap(),
        }
    }

    /// Makes a tenant that may submit what it likes and run so many jobs at once.
    pub async fn tenant(&self, id: &str, concurrent_jobs: u32) {
        let settings = TenantSettings {
            id: names::tenant(id),
            tier: "free".to_owned(),
            uploads: Some(UploadLimit::Unlimited),
            concurrent_jobs: Some(concurrent_jobs),
        };
        self.engine
            .tenant_put(&Self::operator(), settings)
            .await
            .expect("the tenant is taken");
    }

    /// Makes a tenant with the limits of its tier.
    pub async fn tenant_of_tier(&self, id: &str, tier: &str) {
        let settings = TenantSettings {
            id: names::tenant(id),
            tier: tier.to_owned(),
            uploads: None,
            concurrent_jobs: None,
        };
        self.engine
            .tenant_put(&Self::operator(), settings)
            .await
            .expect("the tenant is taken");
    }

    /// Makes or changes a pipeline.
    pub async fn pipeline(&self, name: &str, definition: Pipeline) {
        let who = Self::operator();
        self.engine
            .pipeline_put(&who, names::pipeline(name), definition)
            .await
            .expect("the pipeline is taken");
    }

    /// Makes or changes a collection.
    pub async fn collection(&self, id: &str, tenant: &str, pipeline: Option<&str>) {
        let settings = CollectionSettings {
            id: names::collection(id),
            tenant: names::tenant(tenant),
            pipeline: pipeline.map(names::pipeline),
            review: false,
            settings: json!({}),
        };
        self.engine
            .collection_put(&Self::operator(), settings)
            .await
            .expect("the collection is taken");
    }

    /// Makes pipeline `work`, and for each of these a tenant with a lane of this limit and a collection of the tenant's name.
    pub async fn lanes(&self, limit: u32, tenants: &[&str]) {
        self.pipeline("work", Pipeline::default()).await;
        for tenant in tenants {
            self.tenant(tenant, limit).await;
            self.collection(tenant, tenant, Some("work")).await;
        }
    }

    /// Submits items to the collection that has the tenant's name.
    pub async fn submit(&self, tenant: &str, items: Vec<SubmitItem>) -> Result<SubmitAnswer> {
        let call = Submit {
            collection: names::collection(tenant),
            items,
            idempotency_key: None,
        };
        self.engine.submit(&Self::scope(tenant), call).await
    }

    /// Submits one item with this externalId, which must be taken.
    pub async fn submit_one(&self, tenant: &str, external_id: &str) -> SubmittedItem {
        let mut answer = self
            .submit(tenant, vec![Self::item(external_id)])
            .await
            .expect("the call is taken");
        answer.results.pop().unwrap().expect("the item is taken")
    }

    /// Submits `n` items named `prefix-0` and on, all of which must be taken.
    pub async fn submit_many(&self, tenant: &str, prefix: &str, n: usize) -> Vec<ItemId> {
        let mut ids = Vec::with_capacity(n);
        for chunk in (0..n).collect::<Vec<_>>().chunks(1_000) {
            let items = chunk
                .iter()
                .map(|index| Self::item(&format!("{prefix}-{index}")))
                .collect();
            let answer = self.submit(tenant, items).await.expect("the call is taken");
            ids.extend(
                answer
                    .results
                    .into_iter()
                    .map(|result| result.expect("the item is taken").id),
            );
        }
        ids
    }

    /// An item with this externalId and some payload.
    pub fn item(external_id: &str) -> SubmitItem {
        SubmitItem {
            payload: json!({ "for": external_id }),
            details: ItemDetails {
                external_id: Some(external_id.to_owned()),
                ..ItemDetails::default()
            },
        }
    }

    /// An item without an id of its own.
    pub fn nameless(payload: Value) -> SubmitItem {
        SubmitItem {
            payload,
            details: ItemDetails::default(),
        }
    }

    /// Claims up to `limit` jobs of pipeline `work`.
    pub async fn claim(&self, worker: &str, limit: u32) -> Vec<ClaimedJob> {
        self.claim_of("work", worker, limit).await
    }

    /// Claims up to `limit` jobs of a pipeline.
    pub async fn claim_of(&self, pipeline: &str, worker: &str, limit: u32) -> Vec<ClaimedJob> {
        let claim = Claim {
            pipeline: names::pipeline(pipeline),
            worker: names::worker(worker),
            limit,
            lease_ms: None,
            wait_ms: 0,
        };
        self.engine.claim(claim).await.expect("the claim is taken")
    }

    /// Claims exactly one job of pipeline `work`.
    pub async fn claim_one(&self, worker: &str) -> ClaimedJob {
        let mut jobs = self.claim(worker, 1).await;
        jobs.pop().expect("there is a job to claim")
    }

    /// Completes one job.
    pub async fn complete(&self, job: JobId, token: LeaseToken) -> docket_core::Refused<Completed> {
        let mut results = self
            .engine
            .complete(vec![Complete::new(job, token)])
            .await
            .expect("the call is taken");
        results.pop().unwrap()
    }

    /// Fails one job.
    pub async fn fail(&self, job: JobId, token: LeaseToken, error: &str) -> docket_core::Refused<Failed> {
        let failure = Failure {
            error: error.to_owned(),
            step: None,
            retryable: true,
        };
        let mut results = self
            .engine
            .fail(vec![Fail { job, token, failure }])
            .await
            .expect("the call is taken");
        results.pop().unwrap()
    }

    /// Lets time pass.
    pub fn pass_ms(&self, ms: i64) {
        self.clock.advance_ms(ms);
    }

    /// The actions in an item's log, oldest first.
    pub async fn story(&self, tenant: &str, item: ItemId) -> Vec<String> {
        let (scope, begin) = (Self::scope(tenant), docket_engine::LogPosition::default());
        let entries = self.engine.timeline(&scope, item, begin, 200).await;
        entries
            .expect("the item has a story")
            .into_iter()
            .map(|entry| entry.action)
            .collect()
    }

    /// An item with all that belongs to it.
    pub async fn view(&self, tenant: &str, item: ItemId) -> ItemView {
        let view = self.engine.item(&Self::scope(tenant), item).await;
        view.expect("the item is there")
    }

    /// All that people can see of an item, as text: what is the same before and after was not changed.
    pub async fn all_of(&self, tenant: &str, item: ItemId) -> String {
        let (scope, begin) = (Self::scope(tenant), docket_engine::LogPosition::default());
        let view = self.view(tenant, item).await;
        let jobs = self.engine.jobs(&scope, item).await.expect("its jobs are there");
        let log = self.engine.timeline(&scope, item, begin, 200).await;
        format!("{view:#?}\n{jobs:#?}\n{:#?}", log.expect("the item has a story"))
    }

    /// A number of the database itself, for what the engine does not show: one row, one column, `bigint`.
    pub async fn number(&self, sql: &str) -> i64 {
        match &self.database.url {
            None => {
                let file = self.database.data_folder().join("docket.db");
                let connection = rusqlite::Connection::open(file).expect("the file opens");
                connection
                    .query_row(sql, [], |row| row.get(0))
                    .expect("SQLite answers")
            }
            Some(url) => {
                let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls)
                    .await
                    .expect("PostgreSQL answers");
                let driver = tokio::spawn(connection);
                let number = client.query_one(sql, &[]).await.expect("PostgreSQL answers");
                drop(client);
                driver.await.expect("the connection ends").ok();
                number.get(0)
            }
        }
    }

    /// Changes the database itself, past the engine; what the database said where it refused.
    pub async fn execute(&self, sql: &str) -> std::result::Result<(), String> {
        self.database.execute(sql).await
    }

    /// Seals the whole log as one block or more. Transactions of other tests in the same cluster, which hold the seal up, are waited for.
    pub async fn seal_all(&self) -> u64 {
        let mut sealed = 0;
        let left =
            "select (select count(*) from log) - coalesce((select max(before + entries) from seal), 0)";
        while self.number(left).await > 0 {
            // In one block, if that can be: the horizon has to lie behind the last entry first.
            let (who, query) = (
                Self::operator(),
                docket_engine::LogQuery {
                    order: docket_engine::LogOrder::NewestFirst,
                    limit: 1,
                    ..docket_engine::LogQuery::default()
                },
            );
            let page = self.engine.log_of_all(&who, None, query).await;
            let page = page.expect("the log can be read");
            if page
                .entries
                .iter()
                .all(|newest| newest.position <= page.follow_from)
            {
                sealed += self.engine.seal().await.expect("the log can be sealed");
            }
        }
        sealed
    }

    /// A file to be uploaded to the collection that has the tenant's name.
    pub fn file(tenant: &str) -> UploadRequest {
        UploadRequest {
            collection: names::collection(tenant),
            filename: Some("scan.pdf".to_owned()),
            media_type: "application/pdf".to_owned(),
            digest: None,
            size: None,
            details: ItemDetails::default(),
            idempotency_key: None,
        }
    }

    /// Begins an upload whose bytes are wanted.
    pub async fn upload(&self, tenant: &str, request: UploadRequest) -> Result<Box<Upload>> {
        match self.engine.upload(&Self::scope(tenant), request).await? {
            UploadStart::Ready(upload) => Ok(upload),
            other => panic!("the bytes should be wanted, not {other:?}"),
        }
    }

    /// Uploads a file with these bytes.
    pub async fn upload_bytes(
        &self,
        tenant: &str,
        request: UploadRequest,
        bytes: Vec<u8>,
    ) -> Result<SubmittedItem> {
        let mut upload = self.upload(tenant, request).await?;
        upload.write(bytes.into()).await?;
        upload.finish().await
    }

    /// How many files lie in the folder of files, unfinished ones among them.
    pub fn files(&self) -> usize {
        crate::files_under(&self.database.blob_folder()).len()
    }
}
