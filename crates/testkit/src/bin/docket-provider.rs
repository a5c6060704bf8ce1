//! A receiver of webhooks that misbehaves on demand; see `docket_testkit::provider`.
//!
//!   docket-provider --ledger FILE [--listen 127.0.0.1:0]
//!
//! Its first line on standard output is the address that it listens on.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use docket_testkit::provider::serve;
use tokio::net::TcpListener;

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let (mut ledger, mut listen) = (None, "127.0.0.1:0".to_owned());
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--ledger" => ledger = Some(PathBuf::from(value)),
            "--listen" => listen = value,
            other => bail!("'{other}' is not known"),
        }
    }
    let ledger = ledger.context("--ledger is needed")?;
    let listener = TcpListener::bind(&listen).await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    serve(listener, &ledger).await?;
    Ok(())
}
