//! Logs: lines on standard error, pretty where a person reads them and JSON elsewhere.

#[cfg(feature = "otlp")]
mod otlp;

use std::io::IsTerminal as _;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry};

use crate::target::variable;

/// What is logged where nothing else is said.
const LEVELS: &str = "info";

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

impl LogArgs {
    /// Starts logging. Flags win over the environment, the environment over what the file says.
    pub(crate) fn start(&self, levels: Option<&str>, format: Option<LogFormat>) -> Result<Logs> {
        let said = self.log.clone().or_else(|| variable("DOCKET_LOG"));
        let levels = said.as_deref().or(levels).unwrap_or(LEVELS);
        let format = match (self.log_format, variable("DOCKET_LOG_FORMAT")) {
            (Some(format), _) => Some(format),
            (None, Some(word)) => match <LogFormat as clap::ValueEnum>::from_str(&word, true) {
                Ok(format) => Some(format),
                Err(_) => bail!("DOCKET_LOG_FORMAT is '{word}'; use pretty or json"),
            },
            (None, None) => format,
        };
        start(levels, format)
    }
}

type BoxedLayer = Box<dyn tracing_subscriber::Layer<Registry> + Send + Sync>;

/// Logging under way; what is left to be sent is sent when it is dropped.
pub(crate) struct Logs {
    #[cfg(feature = "otlp")]
    _traces: Option<otlp::Traces>,
}

fn start(levels: &str, format: Option<LogFormat>) -> Result<Logs> {
    let levels = parse(levels)?;
    // Other people's parts speak up from a warning on, unless they are asked to.
    let levels = match levels.default_level() {
        Some(level) if level > LevelFilter::WARN => with_others_quiet(&levels),
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
    #[cfg_attr(
        not(feature = "otlp"),
        expect(unused_mut, reason = "traces are one more layer")
    )]
    let mut layers: Vec<BoxedLayer> = vec![lines.with_filter(levels.clone()).boxed()];
    #[cfg(feature = "otlp")]
    let traces = otlp::layer(levels)?.map(|(layer, traces)| {
        layers.push(layer);
        traces
    });
    tracing_subscriber::registry()
        .with(layers)
        .try_init()
        .context("logging cannot be started")?;
    Ok(Logs {
        #[cfg(feature = "otlp")]
        _traces: traces,
    })
}

/// Reads levels. The library would take a bare word for the name of a part, of which all is logged; here it has to be a level.
fn parse(levels: &str) -> Result<Targets> {
    let problem = || format!("'{levels}' is no log level; use error, warn, info, debug or trace");
    for part in levels.split(',').filter(|part| !part.contains('=')) {
        ensure!(!part.trim().is_empty(), problem());
        part.trim().parse::<LevelFilter>().with_context(problem)?;
    }
    levels.parse().with_context(problem)
}

fn with_others_quiet(levels: &Targets) -> Targets {
    let quiet = LevelFilter::WARN;
    [
        "hyper",
        "hyper_util",
        "h2",
        "reqwest",
        "rustls",
        "object_store",
        "tower_http",
    ]
    .into_iter()
    .filter(|part| !levels.iter().any(|(target, _)| target.starts_with(part)))
    .collect::<Vec<_>>()
    .into_iter()
    .fold(levels.clone(), |levels, part| levels.with_target(part, quiet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_levels_and_parts_have_one() {
        for (levels, good) in [
            ("info", true),
            ("off", true),
            ("info,docket_store=debug", true),
            ("docket_engine=trace", true),
            ("loud", false),
            ("info,docket_store", false),
            ("docket_store=loud", false),
            ("", false),
        ] {
            assert_eq!(parse(levels).is_ok(), good, "{levels}");
        }
    }

    #[test]
    fn other_peoples_parts_are_quiet_unless_they_are_asked() {
        let levels = with_others_quiet(&parse("debug,hyper=trace").unwrap());
        assert!(!levels.would_enable("reqwest::connect", &tracing::Level::DEBUG));
        assert!(levels.would_enable("hyper::proto", &tracing::Level::TRACE));
        assert!(levels.would_enable("docket_engine", &tracing::Level::DEBUG));
    }
}
