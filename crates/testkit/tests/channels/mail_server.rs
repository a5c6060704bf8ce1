//! A real mail server, and what it got.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use docket_notify::Secret;
use docket_notify::email::{EmailChannel, EmailConfig};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::installed;

pub(crate) const FROM: &str = "Dökét, Inc. <docket@example.com>";

/// How the server is to speak.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speech {
    Plain,
    StartTls,
    Tls,
}

/// aiosmtpd, in a process of its own; it dies with this value.
pub(crate) struct MailServer {
    pub(crate) port: u16,
    folder: TempDir,
    _child: Child,
}

impl MailServer {
    pub(crate) async fn start(speech: Speech, login: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(installed::python());
        command
            .arg(installed::beside("mail_server.py"))
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
    pub(crate) fn authority(&self) -> Vec<u8> {
        std::fs::read(self.folder.path().join("client.pem")).unwrap()
    }

    /// The mails that it has, in their order: `from`, `to`, `tls`, `login`, and the bytes.
    pub(crate) fn mails(&self) -> Vec<(Value, Vec<u8>)> {
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

/// Settings for a server at this port of this machine.
pub(crate) fn config(scheme: &str, login: &str, port: u16) -> EmailConfig {
    let url = Secret::new(format!("{scheme}://{login}localhost:{port}"));
    EmailConfig::new(&url, FROM).unwrap()
}

/// A channel that speaks plainly to this port.
pub(crate) fn plain_channel(port: u16) -> EmailChannel {
    EmailChannel::new(config("smtp", "", port)).unwrap()
}
