//! A small deployment: a server in this process, a data folder, keys, a tenant, a pipeline and a collection; and workers.

use std::io::Read as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use docket_access::{Access, AccessConfig};
use docket_client::Client;
use docket_client::wire::collection::{CollectionPut, ReviewPolicy};
use docket_client::wire::item::{Item, SubmitItem};
use docket_client::wire::pipeline::{Backoff, OnStale, PipelinePut};
use docket_client::wire::tenant::{TenantPut, UploadLimit};
use docket_core::access::Role;
use docket_core::scope::Operator;
use docket_engine::background::Intervals;
use docket_engine::{BlobConfig, Engine, EngineConfig, NewKey, StoreConfig};
use docket_server::{AppState, ServerConfig, router, serve};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Site {
    pub(crate) folder: TempDir,
    engine: Option<Engine>,
    address: SocketAddr,
    admin_key: String,
    worker_key: String,
    stop: Option<oneshot::Sender<()>>,
    server: Option<JoinHandle<()>>,
}

/// Keys of the deployment, made once.
async fn key(engine: &Engine, role: Role) -> String {
    let new = NewKey {
        role,
        tenant: None,
        subject: role.as_str().to_owned(),
    };
    let made = engine
        .key_create(&Operator::system(), new)
        .await
        .expect("a key can be made");
    made.key.reveal().to_owned()
}

async fn open(folder: &Path) -> Engine {
    // The writer thread of an engine that was closed gives the folder up in its own time.
    let mut last = String::new();
    for _ in 0..500 {
        let config = EngineConfig::new(
            StoreConfig::Sqlite(folder.to_owned()),
            BlobConfig::Folder(folder.to_owned()),
        );
        match Engine::open(config).await {
            Ok(engine) => return engine,
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the data folder cannot be opened: {last}");
}

impl Site {
    /// A running server with the pipeline `p` of steps `ocr` and `extract`, and the collection `c` of the tenant `t`.
    pub(crate) async fn new() -> Self {
        // What the server says is shown with a test that fails.
        tracing_subscriber::fmt().with_test_writer().try_init().ok();
        let folder = tempfile::tempdir().expect("there is a folder");
        let engine = open(folder.path()).await;
        let mut site = Self {
            admin_key: key(&engine, Role::Admin).await,
            worker_key: key(&engine, Role::Worker).await,
            folder,
            engine: Some(engine),
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            stop: None,
            server: None,
        };
        site.serve().await;
        let admin = site.client();
        let tenant = TenantPut {
            tier: "enterprise".to_owned(),
            uploads_per_hour: Some(UploadLimit::Unlimited),
            concurrent_jobs: Some(100),
        };
        admin
            .tenant_put("t", &tenant)
            .await
            .expect("a tenant can be made");
        site.pipeline(3).await;
        let collection = CollectionPut {
            tenant_id: "t".to_owned(),
            pipeline: Some("p".to_owned()),
            review: ReviewPolicy::default(),
            notify: None,
        };
        admin
            .collection_put("c", &collection)
            .await
            .expect("a collection can be made");
        site
    }

    /// The server's engine.
    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().expect("the database is open")
    }

    pub(crate) async fn pipeline(&self, max_attempts: u32) {
        let pipeline = PipelinePut {
            steps: vec!["ocr".to_owned(), "extract".to_owned()],
            lease_seconds: 60.0,
            on_stale: OnStale::Requeue,
            max_attempts,
            backoff: Backoff {
                base_ms: 10,
                max_ms: 50,
            },
            ..PipelinePut::default()
        };
        self.client()
            .pipeline_put("p", &pipeline)
            .await
            .expect("a pipeline can be made");
    }

    async fn serve(&mut self) {
        let listener = TcpListener::bind(self.address).await.expect("a port is free");
        self.address = listener.local_addr().expect("the port has a number");
        let engine = self.engine.clone().expect("the database is open");
        let access = Access::new(engine.clone(), AccessConfig::default()).expect("access is set up");
        let state = AppState::new(engine.clone(), access, ServerConfig::default());
        let background = engine
            .start_background(Intervals::default())
            .await
            .expect("background work begins");
        let (stop, stopped) = oneshot::channel::<()>();
        let routes = router(state.clone());
        self.server = Some(tokio::spawn(async move {
            serve(listener, state, routes, async {
                stopped.await.ok();
            })
            .await;
            background.stop().await;
        }));
        self.stop = Some(stop);
    }

    /// Ends the server and gives its database up.
    pub(crate) async fn halt(&mut self) {
        self.stop.take();
        if let Some(server) = self.server.take() {
            server.await.expect("the server ends");
        }
        if let Some(engine) = self.engine.take() {
            engine.close();
        }
    }

    /// The same server again, on the same port.
    pub(crate) async fn restart(&mut self) {
        self.engine = Some(open(self.folder.path()).await);
        self.serve().await;
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client that may do everything.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.url(), Some(self.admin_key.clone())).expect("a client can be made")
    }

    pub(crate) async fn submit(&self, payload: Value) -> String {
        let item: SubmitItem = serde_json::from_value(json!({ "payload": payload })).expect("it is an item");
        let mut results = self
            .client()
            .items_submit("c", vec![item], None)
            .await
            .expect("it is answered");
        results
            .remove(0)
            .expect("it is taken")
            .item
            .summary
            .id
            .to_string()
    }

    /// Waits until an item is in a state.
    pub(crate) async fn item_that_is(&self, id: &str, status: &str) -> Item {
        let mut last = String::new();
        for _ in 0..PATIENCE.as_millis() / 50 {
            if let Ok(item) = self.client().item(id).await {
                last = serde_json::to_string(&item).expect("an item is JSON");
                if item.summary.status.as_str() == status {
                    return item;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the item never was {status}: {last}");
    }

    fn docket(&self, key: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_docket"));
        for name in [
            "DOCKET_DATA",
            "DOCKET_DATABASE_URL",
            "DOCKET_LOG",
            "DOCKET_LOG_FORMAT",
        ] {
            command.env_remove(name);
        }
        command.env("DOCKET_URL", self.url()).env("DOCKET_KEY", key);
        command.env("DOCKET_BIN", env!("CARGO_BIN_EXE_docket"));
        command
    }

    /// Runs a command to its end: exit code, standard output, standard error.
    pub(crate) async fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = self.docket(&self.admin_key);
        command.args(args);
        said(ended(command).await)
    }

    /// The same with a worker's key.
    pub(crate) async fn run_as_worker(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = self.docket(&self.worker_key);
        command.args(args);
        said(ended(command).await)
    }

    /// Runs a worker until there is no work; its log.
    pub(crate) async fn work(&self, exec: &str, more: &[&str]) -> String {
        let mut command = self.docket(&self.worker_key);
        command
            .args(["worker", "--pipeline", "p", "--until-empty", "--exec", exec])
            .args(more);
        let (code, _, log) = said(ended(command).await);
        assert_eq!(code, 0, "{log}");
        log
    }

    /// Starts a worker that goes on until it is stopped.
    pub(crate) fn worker(&self, exec: &str, more: &[&str]) -> Running {
        let mut command = self.docket(&self.worker_key);
        command
            .args(["worker", "--pipeline", "p", "--exec", exec])
            .args(more);
        let log = tempfile::NamedTempFile::new().expect("there is a file");
        let file = log.reopen().expect("it can be opened");
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn();
        Running {
            child: child.expect("the program can be started"),
            log,
        }
    }
}

async fn ended(mut command: Command) -> Output {
    let run = tokio::task::spawn_blocking(move || command.stdin(Stdio::null()).output());
    let output = tokio::time::timeout(PATIENCE * 2, run)
        .await
        .expect("it ends in time");
    output
        .expect("it can be waited for")
        .expect("the program can be started")
}

fn said(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("the program writes UTF-8");
    let code = output.status.code().expect("the program was not killed");
    (code, text(output.stdout), text(output.stderr))
}

/// A worker at work.
pub(crate) struct Running {
    child: Child,
    log: tempfile::NamedTempFile,
}

impl Running {
    pub(crate) fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill")
            .args([signal, &id])
            .status()
            .expect("kill can be run");
        assert!(sent.success());
    }

    /// Waits for its end; its exit code, and its log.
    pub(crate) async fn end(mut self) -> (Option<i32>, String) {
        for _ in 0..PATIENCE.as_millis() / 50 {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return (status.code(), self.log());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the worker did not end: {}", self.log());
    }

    fn log(&mut self) -> String {
        let mut text = String::new();
        self.log
            .reopen()
            .expect("it can be opened")
            .read_to_string(&mut text)
            .expect("it can be read");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Waits for a file that somebody writes; what is in it.
pub(crate) async fn written(path: &Path) -> String {
    for _ in 0..PATIENCE.as_millis() / 20 {
        if let Ok(text) = std::fs::read_to_string(path)
            && text.ends_with('\n')
        {
            return text.trim().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} was never written", path.display());
}

/// Waits until a process is no more.
pub(crate) async fn gone(pid: &str) {
    for _ in 0..PATIENCE.as_millis() / 20 {
        // A killed process whose parent has not looked is a zombie: it is gone all the same.
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if state.is_empty()
            || state
                .rsplit(')')
                .next()
                .is_some_and(|rest| rest.trim().starts_with('Z'))
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("process {pid} lives on");
}
