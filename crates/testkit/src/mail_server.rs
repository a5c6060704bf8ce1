//! A real mail server, as a process of its own, and what it got: every mail is on disk before the server says that it has it.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::installed;

/// How the server is to speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speech {
    /// In the clear.
    Plain,
    /// Encrypted after STARTTLS.
    StartTls,
    /// Encrypted from the first byte.
    Tls,
}

/// aiosmtpd, in a process of its own; it dies with this value.
#[derive(Debug)]
pub struct MailServer {
    /// Where it listens.
    pub port: u16,
    folder: TempDir,
    _child: Child,
}

impl MailServer {
    /// Starts it on a free port; with a login (`user:password`) it takes mail from nobody else.
    pub async fn start(speech: Speech, login: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(installed::python());
        command
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/mail_server.py"))
            .arg(folder.path().join("mails"));
        if speech != Speech::Plain {
            make_certificate(folder.path()).await;
            command.arg("--certificate").arg(folder.path());
            command.arg(match speech {
                Speech::Tls => "--tls",
                _ => "--starttls",
            });
        }
        if let Some(login) = login {
            command.args(["--login", login]);
        }
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port = lines
            .next_line()
            .await
            .unwrap()
            .expect("the server says its port");
        Self {
            port: port.parse().unwrap(),
            folder,
            _child: child,
        }
    }

    /// The certificate that its own is signed by.
    pub fn authority(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("client.pem")).unwrap()
    }

    /// The mails that it has, in their order: `from`, `to`, `tls`, `login`, and the bytes.
    pub fn mails(&self) -> Vec<(Value, Vec<u8>)> {
        let path = |n: usize| -> PathBuf { self.folder.path().join(format!("mails/{n}.json")) };
        let mail = |path: PathBuf| {
            let mail: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            let data = BASE64_STANDARD.decode(mail["data"].as_str().unwrap()).unwrap();
            (mail, data)
        };
        (1..)
            .map(path)
            .take_while(|path| path.exists())
            .map(mail)
            .collect()
    }
}

async fn make_certificate(folder: &Path) {
    let mut command = Command::new(installed::python());
    command.args(["-m", "trustme", "--quiet", "--identities", "localhost", "--dir"]);
    let made = command.arg(folder).status().await.unwrap();
    assert!(made.success(), "trustme makes a certificate");
}
