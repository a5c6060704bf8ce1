//! A process to be killed: opens an engine, puts load on it, and says on its standard output, line by line, what the engine
//! has acknowledged. `tests/chaos_kill.rs` starts it.
//!
//!   docket-load (--sqlite DIR | --postgres URL) --blobs DIR [--workers N] [--submitters N] [--uploaders N]
//!               [--seed N] [--prefix TEXT] [--setup]
//!
//! With --setup it makes the pipeline, the tenants and the collections of the load, and ends.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use docket_core::random::SystemRandom;
use docket_engine::background::Intervals;
use docket_engine::{BlobConfig, Engine, EngineConfig, PostgresConfig, StoreConfig};
use docket_testkit::load::{Load, LoadConfig, prepare};

struct Arguments {
    store: StoreConfig,
    blobs: PathBuf,
    load: LoadConfig,
    setup: bool,
}

fn arguments() -> anyhow::Result<Arguments> {
    let (mut store, mut blobs, mut setup) = (None, None, false);
    let mut load = LoadConfig {
        workers: 4,
        submitters: 2,
        uploaders: 0,
        prefix: "load".to_owned(),
        seed: 1,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--setup" {
            setup = true;
            continue;
        }
        let value = words.next().with_context(|| format!("{word} needs a value"))?;
        match word.as_str() {
            "--sqlite" => store = Some(StoreConfig::Sqlite(value.into())),
            "--postgres" => store = Some(StoreConfig::Postgres(PostgresConfig::new(value))),
            "--blobs" => blobs = Some(PathBuf::from(value)),
            "--workers" => load.workers = value.parse()?,
            "--submitters" => load.submitters = value.parse()?,
            "--uploaders" => load.uploaders = value.parse()?,
            "--seed" => load.seed = value.parse()?,
            "--prefix" => load.prefix = value,
            other => bail!("'{other}' is not known"),
        }
    }
    Ok(Arguments {
        store: store.context("--sqlite or --postgres is needed")?,
        blobs: blobs.context("--blobs is needed")?,
        load,
        setup,
    })
}

#[tokio::main(worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let mut config = EngineConfig::new(arguments.store, BlobConfig::Folder(arguments.blobs));
    config.random = Arc::new(SystemRandom);
    let engine = Engine::open(config).await?;
    if arguments.setup {
        return prepare(&engine).await;
    }
    let intervals = Intervals {
        reap: Duration::from_millis(100),
        fold: Duration::from_millis(50),
        seal: Duration::from_millis(200),
        sweep: Duration::from_millis(200),
        retention: Duration::from_millis(200),
        rekey: Duration::from_millis(200),
        assign: Duration::from_millis(200),
        reconcile: Duration::from_millis(200),
    };
    let _background = engine.start_background(intervals).await?;
    tokio::spawn(seal(engine.clone()));
    let sink = Arc::new(|fact: docket_testkit::load::Fact| {
        // One write a line, so that a kill cannot leave half of one in the pipe. Whoever reads may be gone.
        let line = format!("{fact}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).ok();
    });
    Load::new(engine, arguments.load, sink).run().await;
    Ok(())
}

/// Seals whatever is there without waiting for more, so that a kill often hits a block in the making.
async fn seal(engine: Engine) {
    loop {
        // What fails now, while the database is away, is done the next time.
        engine.seal().await.ok();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
