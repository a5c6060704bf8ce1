//! A provider from the outside: started, told, killed.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use super::{Control, Effect, read_ledger};

/// A running provider. It dies with this value, by SIGKILL; its ledger stays.
#[derive(Debug)]
pub struct ProviderProcess {
    child: Child,
    address: String,
    ledger: PathBuf,
}

impl ProviderProcess {
    /// Starts `docket-provider` on a free port, with this ledger.
    pub async fn start(program: &str, ledger: &Path) -> Self {
        Self::start_on(program, ledger, "127.0.0.1:0").await
    }

    /// Starts it on a port that it had before.
    pub async fn start_on(program: &str, ledger: &Path, listen: &str) -> Self {
        let mut child = Command::new(program)
            .args(["--listen", listen, "--ledger"])
            .arg(ledger)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the provider starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output is piped")).lines();
        let address = lines.next_line().await.expect("the provider speaks");
        Self {
            child,
            address: address.expect("the provider says where it listens"),
            ledger: ledger.to_owned(),
        }
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The recipient of messages to it.
    pub fn recipient(&self) -> String {
        format!("webhook:http://{}/hook", self.address)
    }

    /// What `lookup_url` is set to.
    pub fn lookup_url(&self) -> String {
        format!("http://{}/lookup", self.address)
    }

    /// What it has taken.
    pub fn effects(&self) -> Vec<Effect> {
        read_ledger(&self.ledger)
    }

    /// Tells it how to behave from now on.
    pub async fn control(&self, control: &Control) {
        let body = serde_json::to_string(control).expect("a control is JSON");
        let mut stream = TcpStream::connect(&self.address)
            .await
            .expect("the provider listens");
        let length = body.len();
        let request =
            format!("POST /control HTTP/1.1\r\nHost: provider\r\nContent-Length: {length}\r\n\r\n{body}");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("the provider reads");
        let mut answer = String::new();
        stream
            .read_to_string(&mut answer)
            .await
            .expect("the provider answers");
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    /// Kills it with -9 and waits until it is gone.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it can be killed");
    }
}
