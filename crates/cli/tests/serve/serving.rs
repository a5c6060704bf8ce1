//! A real server for tests: started as a person would start it, and stopped by signals.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use docket_testkit::Database;
use serde_json::{Value, json};

/// Longer than this nothing takes, however busy the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder for the time of a test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder can be made")
}

/// `docket serve` with nothing of this process's settings, on a free port.
pub(crate) fn serve() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docket"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DOCKET_")) {
        command.env_remove(name);
    }
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command
}

/// The same on a data folder.
pub(crate) fn serve_in(folder: &Path) -> Command {
    let mut command = serve();
    command.arg("--data").arg(folder);
    command
}

/// The same on a database of either kind.
pub(crate) fn serve_on(database: &Database) -> Command {
    let Some(url) = &database.url else {
        return serve_in(&database.data_folder());
    };
    let mut command = serve();
    command
        .args(["--database", url, "--data"])
        .arg(database.blob_folder());
    command
}

/// `docket doctor` finds nothing.
pub(crate) fn doctor(database: &Database) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_docket"));
    match &database.url {
        None => command.arg("doctor").arg("--data").arg(database.data_folder()),
        Some(url) => command.args(["doctor", "--database", url]),
    };
    let output = command.output().expect("the program can be started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A server that is ready.
pub(crate) struct Server {
    child: Child,
    /// Where it is.
    pub(crate) url: String,
    /// What it printed until it was ready.
    pub(crate) told: Vec<String>,
    logs: Option<JoinHandle<String>>,
}

impl Server {
    /// Starts it and waits until it says where it listens, and then answers.
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program can be started");
        let stdout = child.stdout.take().expect("it has an output");
        let mut stderr = child.stderr.take().expect("it has a log");
        let logs = std::thread::spawn(move || {
            let mut text = String::new();
            stderr.read_to_string(&mut text).ok();
            text
        });
        let (line, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for text in BufReader::new(stdout).lines().map_while(Result::ok) {
                line.send(text).ok();
            }
        });
        let first = lines.recv_timeout(PATIENCE);
        let mut server = Self {
            child,
            url: String::new(),
            told: Vec::new(),
            logs: Some(logs),
        };
        let Ok(first) = first else {
            let (code, logs) = server.wait();
            panic!("the server did not start ({code:?}):\n{logs}");
        };
        server.url = first.split_whitespace().last().expect("it says where").to_owned();
        server.told.push(first);
        // What it has to say is said in one go.
        while let Ok(text) = lines.recv_timeout(Duration::from_millis(300)) {
            server.told.push(text);
        }
        server
    }

    /// The key that it printed at its first start.
    pub(crate) fn admin_key(&self) -> String {
        self.printed_key("Admin key").expect("the admin key was printed")
    }

    /// The key in the line that begins so.
    pub(crate) fn printed_key(&self, begin: &str) -> Option<String> {
        let line = self
            .told
            .iter()
            .find(|line| line.trim_start().starts_with(begin))?;
        let key = line.split_whitespace().find(|word| word.starts_with("dk_"));
        key.map(str::to_owned)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .arg(name)
            .arg(self.child.id().to_string())
            .status();
        assert!(sent.expect("kill runs").success(), "the signal was not sent");
    }

    /// Waits for its end; its exit code and what it logged.
    pub(crate) fn wait(mut self) -> (Option<i32>, String) {
        let begun = now();
        let status = loop {
            match self.child.try_wait().expect("it can be waited for") {
                Some(status) => break status,
                None if begun.elapsed() > PATIENCE => panic!("the server did not end"),
                None => breathe(),
            }
        };
        let logs = self
            .logs
            .take()
            .map(|logs| logs.join().expect("the log was read"));
        (status.code(), logs.unwrap_or_default())
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("it can be waited for")
    }

    /// Stops it in order; what it logged.
    pub(crate) fn stop(self) -> String {
        self.signal("-TERM");
        let (code, logs) = self.wait();
        assert_eq!(code, Some(0), "{logs}");
        logs
    }

    /// Calls it.
    pub(crate) async fn call(
        &self,
        method: &str,
        path: &str,
        key: &str,
        body: Option<Value>,
    ) -> (u16, Value) {
        let method = method.parse().expect("a method");
        let client = reqwest::Client::new();
        let mut request = client.request(method, format!("{}{path}", self.url));
        if !key.is_empty() {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let response = request.send().await.expect("the server answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("the answer is whole");
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// The same, which must succeed.
    pub(crate) async fn good(&self, method: &str, path: &str, key: &str, body: Option<Value>) -> Value {
        let (status, answer) = self.call(method, path, key, body).await;
        assert!((200..300).contains(&status), "{method} {path}: {status} {answer}");
        answer
    }

    /// Makes a pipeline `work`, a tenant `acme` with its collection, and keys for a producer and a worker.
    pub(crate) async fn world(&self, admin: &str) -> (String, String) {
        let pipeline = json!({
            "steps": [], "leaseSeconds": 60, "onStale": "requeue", "maxAttempts": 3,
            "backoff": { "baseMs": 100, "maxMs": 1000 }, "strict": false, "review": false,
        });
        self.good("PUT", "/api/v1/pipelines/work", admin, Some(pipeline))
            .await;
        let tenant = json!({ "tier": "enterprise", "uploadsPerHour": "unlimited", "concurrentJobs": 1000 });
        self.good("PUT", "/api/v1/tenants/acme", admin, Some(tenant))
            .await;
        let collection = json!({ "tenantId": "acme", "pipeline": "work" });
        self.good("PUT", "/api/v1/collections/docs", admin, Some(collection))
            .await;
        let key = async |body: Value| {
            let made = self.good("POST", "/api/v1/keys", admin, Some(body)).await;
            made["key"].as_str().expect("the key is told").to_owned()
        };
        let producer = key(json!({ "role": "producer", "tenantId": "acme", "subject": "ben" })).await;
        let worker = key(json!({ "role": "worker", "subject": "w1" })).await;
        (producer, worker)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The machine's own clock: what is measured here are real processes.
#[expect(clippy::disallowed_methods, reason = "real processes take real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Runs a command that must not serve; its exit code and what it complained of.
pub(crate) fn refused(mut command: Command) -> (Option<i32>, String) {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let begun = now();
    while child.try_wait().expect("it can be waited for").is_none() {
        if begun.elapsed() > PATIENCE {
            child.kill().ok();
            panic!("it should be refused, but serves");
        }
        breathe();
    }
    let output = child.wait_with_output().expect("its output can be read");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// A moment's wait for another process.
#[expect(
    clippy::disallowed_methods,
    reason = "waits for another process, on a thread of the test's own"
)]
pub(crate) fn breathe() {
    std::thread::sleep(Duration::from_millis(10));
}
