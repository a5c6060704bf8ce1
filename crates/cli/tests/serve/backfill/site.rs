//! A server with a collection for those who move in, and the program that moves them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use docket_testkit::{Database, Plain};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::serving::{PATIENCE, Server, doctor, now, serve_on};

/// A server, its database, and a folder for files.
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) database: Database,
    pub(crate) key: String,
    pub(crate) admin: String,
    folder: TempDir,
}

/// What a run said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) shown: String,
    pub(crate) complaints: String,
}

impl Said {
    /// The answer of a run with `--json`.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.shown).unwrap_or_else(|_| panic!("it answers in JSON: {self:?}"))
    }

    /// The numbers of a run with `--json`.
    pub(crate) fn summary(&self) -> Value {
        self.json()["summary"].clone()
    }

    pub(crate) fn shows(&self, text: &str) {
        assert!(
            self.shown.contains(text),
            "{text:?} is not in:\n{}\n{}",
            self.shown,
            self.complaints
        );
    }

    pub(crate) fn complains(&self, text: &str) {
        assert!(
            self.complaints.contains(text),
            "{text:?} is not in:\n{}",
            self.complaints
        );
    }
}

impl Site {
    /// A tenant whose limit is small, so that it shows that none applies; a collection with reviews and one with a pipeline.
    pub(crate) async fn new(database: Database) -> Self {
        let server = Server::start(serve_on(&database));
        let admin = server.admin_key();
        server.world(&admin).await;
        let tenant = json!({ "tier": "free" });
        server
            .good("PUT", "/api/v1/tenants/acme", &admin, Some(tenant))
            .await;
        let reviewed = json!({ "tenantId": "acme", "review": { "enabled": true } });
        server
            .good("PUT", "/api/v1/collections/invoices", &admin, Some(reviewed))
            .await;
        let service = json!({ "role": "service", "subject": "mover" });
        let made = server.good("POST", "/api/v1/keys", &admin, Some(service)).await;
        Self {
            key: made["key"].as_str().expect("the key is told").to_owned(),
            admin,
            server,
            database,
            folder: tempfile::tempdir().expect("a folder can be made"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of lines.
    pub(crate) fn file(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).expect("the file can be written");
        path
    }

    /// `docket backfill` into the collection with reviews, in the folder of this site.
    pub(crate) fn backfill(&self) -> Command {
        let mut command = backfill_at(&self.server.url, self.folder.path());
        command
            .env("DOCKET_KEY", &self.key)
            .args(["--collection", "invoices"]);
        command
    }

    /// How many items there are, and how many different ids they have.
    pub(crate) async fn items(&self) -> (i64, i64) {
        let plain = Plain::of(&self.database);
        (
            plain.number("select count(*) from item").await,
            plain.number("select count(distinct external_id) from item").await,
        )
    }

    /// How many reviews wait.
    pub(crate) async fn pending(&self) -> i64 {
        Plain::of(&self.database)
            .number("select count(*) from review where state = 0")
            .await
    }

    /// The item with this id of the caller's.
    pub(crate) async fn item(&self, external_id: &str) -> Value {
        let path = format!("/api/v1/items?tenantId=acme&externalId={external_id}");
        let found = self.server.good("GET", &path, &self.admin, None).await;
        let id = found["items"][0]["id"]
            .as_str()
            .unwrap_or_else(|| panic!("{external_id} is not there: {found}"));
        self.server
            .good("GET", &format!("/api/v1/items/{id}"), &self.admin, None)
            .await
    }

    /// The server stops in order, and everything adds up.
    pub(crate) fn close(self) {
        self.server.stop();
        doctor(&self.database);
    }
}

/// `docket backfill` with nothing of this process's settings.
pub(crate) fn backfill_at(url: &str, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docket"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DOCKET_")) {
        command.env_remove(name);
    }
    command.arg("backfill").env("DOCKET_URL", url).current_dir(folder);
    command
}

/// Runs it to its end.
pub(crate) fn run(command: &mut Command) -> Said {
    let output = command.output().expect("the program can be started");
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    Said {
        code: output.status.code().expect("nobody killed it"),
        shown: text(output.stdout),
        complaints: text(output.stderr),
    }
}

/// Starts it, and kills it with -9 once its checkpoint has come past so many records; how far it had come. It may be through by then.
pub(crate) async fn kill_after(command: &mut Command, checkpoint: &Path, records: u64) -> u64 {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = Killed(child.expect("the program can be started"));
    let begun = now();
    while records_of(checkpoint) <= records {
        if child.0.try_wait().expect("it can be asked").is_some() {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "it does not get on");
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
    drop(child);
    records_of(checkpoint)
}

/// A process that does not outlive its handle.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn records_of(checkpoint: &Path) -> u64 {
    let Ok(text) = std::fs::read(checkpoint) else {
        return 0;
    };
    let state: Value = serde_json::from_slice(&text).expect("a checkpoint is always whole");
    state["sum"]["records"].as_u64().expect("it counts records")
}
