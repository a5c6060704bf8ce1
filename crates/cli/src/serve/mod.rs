//! `docket serve`: the server, from its configuration to its clean end.
//!
//! The order at the start: the address first, so that a port in use is told before anything is changed; then the database, what
//! the file says of tiers and pipelines, the first key, what is stale; then requests. At the end the other way round.

mod crash;
mod metrics;
mod outbox;
pub(crate) mod stop;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::routing::get;
use docket_access::{Access, AccessConfig};
use docket_core::access::{ApiKey, Role};
use docket_core::scope::Operator;
use docket_engine::background::{Background, Intervals};
use docket_engine::{Engine, EngineConfig, NewKey};
use docket_server::{AppState, ServerConfig};
use tokio::net::TcpListener;

use crate::config::{Config, ConfigArgs};
use crate::demo;
use crate::logs::LogArgs;
use crate::screen::Screen;
use crate::target::variable;
use metrics::Metrics;

const ADMIN_KEY: &str = "DOCKET_ADMIN_KEY";

/// What `docket serve` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigArgs,
    #[command(flatten)]
    logs: LogArgs,
    /// Seed a small world to try things with, and print a key for each role
    #[arg(long)]
    demo: bool,
    /// Make another admin key and print it, for when the first one was lost
    #[arg(long)]
    new_admin_key: bool,
    /// End as by kill -9 at a moment of a delivery; for tests
    #[arg(long, hide = true, value_name = "POINT:N")]
    crash_at: Option<crash::CrashAt>,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let config = Config::load(&args.config, &variable)?;
    let _logs = args
        .logs
        .start(config.file.log.as_deref(), config.file.log_format)?;
    let listener = bind(&config.listen).await?;
    let address = listener.local_addr().context("the socket has no address")?;
    let recorder = metrics::install()?;
    let engine = open(&config, args.crash_at).await?;
    configure(&engine, &config).await?;

    let access = AccessConfig {
        jwt: config.jwt.clone(),
        ..AccessConfig::default()
    };
    let access = Access::new(engine.clone(), access).context("the configuration cannot be used")?;
    let intervals = Intervals {
        reap: Duration::from_secs(u64::from(config.file.reaper.interval_seconds.max(1))),
        ..Intervals::default()
    };
    let background = engine
        .start_background(intervals)
        .await
        .context("what is stale could not be reaped")?;

    let stopping = stop::on_signal()?;
    // Keys come last, and are printed whatever follows: a key that was made and not shown is lost.
    let screen = Screen::new();
    let mut told = vec![
        format!("Docket listens on http://{address}"),
        format!("Database: {}", config.target.describe()),
    ];
    told.extend(keys(&engine, args.new_admin_key).await?);
    let demo = match args.demo {
        true => demo::seed::world(&engine).await,
        false => Ok(Vec::new()),
    };
    told.extend(demo.as_deref().unwrap_or_default().iter().cloned());
    if let Err(error) = screen.line(&told.join("\n")) {
        // Whoever started it may only have wanted to know where it listens.
        tracing::warn!(
            error = &*error as &dyn std::error::Error,
            "nobody reads what the server prints; an admin key that nobody saw is replaced with --new-admin-key"
        );
    }
    demo.context("the demonstration's world cannot be made")?;

    let metrics = Metrics::new(recorder, engine.clone());
    let server = ServerConfig {
        shutdown_timeout: stop::REQUESTS,
        proxies: config.file.proxies()?,
        unreviewed: config.file.compat.unreviewed,
        observe: Some(Arc::new(metrics::observe)),
        ..ServerConfig::default()
    };
    let state = AppState::new(engine.clone(), access, server);
    let routes = docket_server::router(state.clone())
        .merge(Router::new().route("/metrics", get(metrics::scrape).with_state(metrics)));
    tracing::info!(%address, database = config.target.describe(), channels = ?config.channels.kinds(), "serving");
    let told_to_stop = async {
        stop::stopped(stopping).await;
        engine.stop_claims();
        background.stop_sending();
    };
    docket_server::serve(listener, state, routes, told_to_stop).await;
    wind_down(background).await;
    engine.close();
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}

/// Waits for what goes on in the background, within bounds.
async fn wind_down(mut background: Background) {
    background.stop_sending();
    if tokio::time::timeout(stop::SENDS, background.sent())
        .await
        .is_err()
    {
        tracing::warn!(
            "messages were still on their way and are in doubt now; their providers will be asked"
        );
    }
    if tokio::time::timeout(stop::BACKGROUND, background.stop())
        .await
        .is_err()
    {
        tracing::warn!("background work did not end in time and is given up");
    }
}

async fn bind(listen: &str) -> Result<TcpListener> {
    TcpListener::bind(listen).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => anyhow::anyhow!(
            "{listen} is in use: another program, perhaps another Docket, listens there; choose another address with --listen"
        ),
        _ => anyhow::Error::new(error).context(format!("nothing can listen on {listen}")),
    })
}

async fn open(config: &Config, crash_at: Option<crash::CrashAt>) -> Result<Engine> {
    let mut engine = EngineConfig::new(config.target.store(), config.blobs.clone());
    let file = &config.file;
    if let Some(bytes) = file.files.max_bytes {
        engine.file_max = bytes;
    }
    if let Some(seconds) = file.files.upload_seconds {
        engine.upload_ms = i64::from(seconds) * 1_000;
    }
    if let Some(hours) = file.retention.idempotency_hours {
        engine.idempotency_ms = i64::from(hours) * 3_600_000;
    }
    engine.keep_finished_ms = file
        .retention
        .finished_days
        .map(|days| i64::from(days) * 86_400_000);
    engine.outbox = outbox::outbox(config, crash_at)?;
    let opened = Engine::open(engine).await;
    opened.with_context(|| format!("the database cannot be opened: {}", config.target.describe()))
}

/// Writes the tiers and pipelines of the file; what is so already stays as it is.
async fn configure(engine: &Engine, config: &Config) -> Result<()> {
    let who = Operator::system();
    let known = engine.tiers().await?;
    for tier in config.file.tiers()? {
        if !known.contains(&tier) {
            engine.tier_put(&who, tier).await?;
        }
    }
    for (name, definition) in config.file.pipelines()? {
        engine.pipeline_put(&who, name, definition).await?;
    }
    Ok(())
}

/// Makes the keys that have to be made, and says what people have to know of them.
async fn keys(engine: &Engine, another: bool) -> Result<Vec<String>> {
    let given = variable(ADMIN_KEY);
    let first = engine
        .key_first(given.as_deref())
        .await
        .with_context(|| format!("{ADMIN_KEY} cannot be the first admin key"));
    let mut told = match (first?, &given) {
        (Some(made), None) => vec![format!("Admin key (shown only this once): {}", made.key.reveal())],
        (Some(_), Some(_)) => vec![format!("Admin key: the one in {ADMIN_KEY}")],
        (None, None) => Vec::new(),
        (None, Some(given)) => {
            let known = engine.key_find(&ApiKey::parse(given)?).await?;
            if known.is_none_or(|key| key.revoked_at.is_some()) {
                tracing::warn!(
                    "{ADMIN_KEY} is not a good key of this database: it is only taken at the very first start"
                );
            }
            Vec::new()
        }
    };
    if another {
        let new = NewKey {
            role: Role::Admin,
            tenant: None,
            subject: "recovered".to_owned(),
        };
        let made = engine.key_create(&Operator::system(), new).await?;
        told.push(format!(
            "New admin key (shown only this once): {}",
            made.key.reveal()
        ));
    }
    Ok(told)
}
