//! The program itself, as it is installed: how soon a new server is ready, and how much memory it takes while nothing happens.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::Args;
use crate::report::{Bar, Fact, Report};

/// After so long nothing of the start is left to do.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// A server that is not ready by then will not be.
const PATIENCE: Duration = Duration::from_secs(30);
const MIB: f64 = 1024.0;

/// A server that runs, until it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The program, where it was built beside this one.
fn docket() -> Option<PathBuf> {
    let own = std::env::current_exe().ok()?;
    let path = own.with_file_name("docket");
    path.exists().then_some(path)
}

pub(crate) async fn facts(args: &Args, report: &mut Report) -> Result<()> {
    if !args.wants("sqlite: server") {
        return Ok(());
    }
    let Some(docket) = docket() else {
        println!(
            "The program `docket` was not built beside this one (make bench does): its start is not measured."
        );
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let began = Instant::now();
    let mut command = Command::new(docket);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("DOCKET_")) {
        command.env_remove(name);
    }
    let child = command
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data"])
        .arg(folder.path())
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("the server cannot be started")?;
    let mut server = Server(child);
    let mut line = String::new();
    let stdout = server.0.stdout.as_mut().context("it has an output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let url = line
        .split_whitespace()
        .last()
        .context("it says where it listens")?;
    ready(url, began).await?;
    report.fact(Fact {
        name: "sqlite: server, from its first start to ready".to_owned(),
        value: began.elapsed().as_secs_f64() * 1000.0,
        unit: "ms",
        bar: Bar::AtMost(1000.0),
    });
    tokio::time::sleep(IDLE_AFTER).await;
    if let Some(resident) = resident_mib(server.0.id()) {
        report.fact(Fact {
            name: "sqlite: server, resident while idle".to_owned(),
            value: resident,
            unit: "MiB",
            bar: Bar::AtMost(60.0),
        });
    }
    Ok(())
}

/// Waits until the server says that it can serve.
async fn ready(url: &str, began: Instant) -> Result<()> {
    let address = url.strip_prefix("http://").context("a server's address")?;
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    loop {
        if asked(address, &request)
            .await
            .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        {
            return Ok(());
        }
        anyhow::ensure!(began.elapsed() < PATIENCE, "the server is not ready");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn asked(address: &str, request: &str) -> Result<String> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// What a process has in memory; none where the system does not tell.
fn resident_mib(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / MIB)
}
