//! A PostgreSQL cluster for one test alone, to be restarted, crashed, starved, and followed by a standby.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Database;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A cluster of its own; it is destroyed with this value.
#[derive(Debug)]
pub struct Cluster {
    folder: PathBuf,
    /// `postgres://postgres@127.0.0.1:PORT/postgres`.
    pub url: String,
}

impl Cluster {
    /// Makes and starts a cluster with these further settings, such as `-c max_connections=20`.
    pub async fn start(settings: &str) -> Self {
        let settings = format!("-c shared_buffers=64MB {settings}");
        Self::made("start", None, Some(settings)).await
    }

    /// Makes and starts a standby of this cluster, which follows it until it is promoted.
    pub async fn standby(&self) -> Self {
        Self::made("standby", Some(self.folder.clone()), None).await
    }

    async fn made(word: &'static str, of: Option<PathBuf>, settings: Option<String>) -> Self {
        let base = std::env::var("DOCKET_TEST_CLUSTERS").expect(
            "DOCKET_TEST_CLUSTERS is not set: run the tests by `make test`, or one of them by \
             `scripts/with-postgres cargo test -p docket-testkit NAME`",
        );
        let name = format!(
            "chaos-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let folder = PathBuf::from(base).join(name);
        let at = folder.clone();
        let started = tokio::task::spawn_blocking(move || {
            let more: Vec<&Path> = of.iter().map(PathBuf::as_path).collect();
            command(word, &at, &more, settings.as_deref())
        });
        let started = started.await.expect("the script is run");
        let url = started.expect("the cluster starts");
        Self { folder, url }
    }

    /// Lets a standby write.
    pub async fn promote(&self) {
        self.run("promote").await;
    }

    /// A URL of this server's by way of its Unix socket, for the database of another URL.
    pub fn by_socket(&self, url: &str) -> String {
        let (_, name) = url.rsplit_once('/').unwrap();
        let folder = self.folder.display().to_string().replace('/', "%2F");
        let (_, port) = self.place().rsplit_once(':').unwrap();
        format!("postgres://postgres@{folder}:{port}/{name}")
    }

    /// A URL that names these servers in this order, for the database of another URL.
    pub fn listed(servers: &[&Self], url: &str) -> String {
        let (_, name) = url.rsplit_once('/').unwrap();
        let places: Vec<&str> = servers.iter().map(|server| server.place()).collect();
        format!("postgres://postgres@{}/{name}", places.join(","))
    }

    /// Host and port.
    fn place(&self) -> &str {
        let (_, rest) = self.url.rsplit_once('@').unwrap();
        rest.split('/').next().unwrap()
    }

    /// A clean stop, and a start at the same place.
    pub async fn restart(&self) {
        self.run("restart").await;
    }

    /// A clean stop.
    pub async fn stop(&self) {
        self.run("stop").await;
    }

    /// A crash: every process is killed with -9.
    pub async fn kill(&self) {
        self.run("kill").await;
    }

    /// A start at the same place, with the settings from before.
    pub async fn start_again(&self) {
        self.run("start").await;
    }

    /// An empty database of the cluster.
    pub async fn database(&self) -> Database {
        Database::postgres_on(&self.url).await
    }

    async fn run(&self, word: &'static str) {
        let folder = self.folder.clone();
        let ran = tokio::task::spawn_blocking(move || command(word, &folder, &[], None)).await;
        if let Err(problem) = ran.expect("the script is run") {
            panic!("pg-cluster {word}: {problem}");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What cannot be removed now is removed by scripts/with-postgres.
        command("destroy", &self.folder, &[], None).ok();
    }
}

fn command(word: &str, folder: &Path, more: &[&Path], settings: Option<&str>) -> Result<String, String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/pg-cluster");
    let mut command = Command::new(script);
    command.arg(word).arg(folder).args(more).stdin(Stdio::null());
    match settings {
        Some(settings) => command.env("PG_EXTRA", settings),
        None => command.env_remove("PG_EXTRA"),
    };
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}
