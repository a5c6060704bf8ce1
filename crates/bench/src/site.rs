//! A site: an engine on a throw-away database of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use docket_core::pipeline::Pipeline;
use docket_core::scope::Operator;
use docket_engine::background::{Background, Intervals};
use docket_engine::{BlobConfig, Engine, EngineConfig, PostgresConfig, StoreConfig};
use docket_notify::Channels;
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

use crate::Args;
use crate::outbox::Sink;

/// The one pipeline of every scenario.
pub(crate) const PIPELINE: &str = "bench";

static NEXT: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Site {
    pub(crate) engine: Engine,
    pub(crate) folder: TempDir,
    /// A plain connection beside the engine, on PostgreSQL.
    pub(crate) sql: Option<Client>,
    pub(crate) url: Option<String>,
    /// Who takes its messages.
    pub(crate) sink: Arc<Sink>,
    background: Option<Background>,
    cluster: Option<(String, String)>,
}

/// A plain connection.
pub(crate) async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls)
        .await
        .context("PostgreSQL does not answer")?;
    tokio::spawn(connection);
    Ok(client)
}

/// Makes an empty database of the cluster; its URL and name.
pub(crate) async fn create_database(cluster: &str) -> Result<(String, String)> {
    let name = format!(
        "bench_{}_{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    connect(cluster)
        .await?
        .batch_execute(&format!("create database {name}"))
        .await?;
    let (base, _) = cluster.rsplit_once('/').context("the URL names no database")?;
    Ok((format!("{base}/{name}"), name))
}

/// Drops a database of the cluster.
pub(crate) async fn drop_database(cluster: &str, name: &str) -> Result<()> {
    connect(cluster)
        .await?
        .batch_execute(&format!("drop database if exists {name} with (force)"))
        .await?;
    Ok(())
}

impl Site {
    pub(crate) async fn postgres(args: &Args, cluster: &str) -> Result<Self> {
        let (url, name) = create_database(cluster).await?;
        let mut config = PostgresConfig::new(&url);
        config.hot_connections = args.runners * 3;
        let sql = Some(connect(&url).await?);
        let mut site = Self::open(args, StoreConfig::Postgres(config)).await?;
        (site.sql, site.url, site.cluster) = (sql, Some(url), Some((cluster.to_owned(), name)));
        Ok(site)
    }

    pub(crate) async fn sqlite(args: &Args) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut site = Self::open(args, StoreConfig::Sqlite(folder.path().join("data"))).await?;
        site.folder = folder;
        Ok(site)
    }

    async fn open(args: &Args, store: StoreConfig) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut config = EngineConfig::new(store, BlobConfig::Folder(folder.path().join("blobs")));
        config.runners = args.runners;
        let sink = Sink::start().await?;
        config.outbox.channels = Channels::new([Sink::channel()?]);
        let engine = Engine::open(config).await?;
        let definition = Pipeline {
            lease_ms: 600_000,
            ..Pipeline::default()
        };
        engine
            .pipeline_put(&Operator::system(), PIPELINE.to_owned().try_into()?, definition)
            .await?;
        Ok(Self {
            engine,
            folder,
            sql: None,
            url: None,
            sink,
            background: None,
            cluster: None,
        })
    }

    /// Another server on the same database; SQLite has none.
    pub(crate) async fn another_engine(&self, args: &Args) -> Result<Option<Engine>> {
        let Some(url) = &self.url else { return Ok(None) };
        let blobs = BlobConfig::Folder(self.folder.path().join("blobs"));
        let mut config = EngineConfig::new(StoreConfig::Postgres(PostgresConfig::new(url)), blobs);
        config.runners = args.runners;
        Ok(Some(Engine::open(config).await?))
    }

    /// Starts the background work, as a server has it.
    pub(crate) async fn start_background(&mut self) -> Result<()> {
        let intervals = Intervals {
            fold: Duration::from_millis(500),
            ..Intervals::default()
        };
        self.background = Some(self.engine.start_background(intervals).await?);
        Ok(())
    }

    /// The bytes of WAL written so far.
    pub(crate) async fn wal(&self) -> Result<Option<u64>> {
        let Some(sql) = &self.sql else { return Ok(None) };
        let row = sql
            .query_one("select (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint", &[])
            .await?;
        Ok(u64::try_from(row.get::<_, i64>(0)).ok())
    }

    /// Ends the scenario: the doctor must find nothing.
    pub(crate) async fn close(mut self) -> Result<()> {
        if let Some(background) = self.background.take() {
            background.stop().await;
        }
        let found = self.engine.doctor().await?;
        ensure!(
            found.is_empty(),
            "the doctor found after the load:\n{}",
            found.join("\n")
        );
        self.engine.close();
        drop(self.sql.take());
        if let Some((cluster, name)) = &self.cluster {
            drop_database(cluster, name).await?;
        }
        Ok(())
    }
}
