//! Logs: lines on standard error, pretty where a person reads them and JSON elsewhere.

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LogFormat {
    /// For people
    Pretty,
    /// For programs: one JSON object a line
    Json,
}

/// The flags that say what is logged and how.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct LogArgs {
    /// What is logged: error, warn, info, debug, trace, or by part as info,docket_store=debug [env: DOCKET_LOG] [default: info]
    #[arg(long, value_name = "LEVELS")]
    pub(crate) log: Option<String>,
    /// How it looks [env: DOCKET_LOG_FORMAT] [default: pretty on a terminal, else json]
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
}

/// Starts logging; the first error is a level that is none.
pub(crate) fn start(levels: &str, format: Option<LogFormat>) -> Result<()> {
    let levels: Targets = levels
        .parse()
        .with_context(|| format!("'{levels}' is no log level; use error, warn, info, debug or trace"))?;
    // Other people's parts speak up from a warning on, unless they are asked to.
    let levels = match levels.default_level() {
        Some(level) if level > tracing::level_filters::LevelFilter::WARN => with_others_quiet(levels),
        _ => levels,
    };
    let terminal = std::io::stderr().is_terminal();
    let format = format.unwrap_or(if terminal {
        LogFormat::Pretty
    } else {
        LogFormat::Json
    });
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let lines = match format {
        LogFormat::Pretty => lines.with_ansi(terminal).with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(levels))
        .try_init()
        .context("logging cannot be started")
}

fn with_others_quiet(levels: Targets) -> Targets {
    let quiet = tracing::level_filters::LevelFilter::WARN;
    [
        "hyper",
        "hyper_util",
        "h2",
        "reqwest",
        "rustls",
        "tokio_postgres",
        "object_store",
        "tower_http",
    ]
    .into_iter()
    .filter(|part| !levels.iter().any(|(target, _)| target.starts_with(part)))
    .collect::<Vec<_>>()
    .into_iter()
    .fold(levels.clone(), |levels, part| levels.with_target(part, quiet))
}
