//! What a worker says of its work: lines on standard error, pretty where a person reads them and JSON elsewhere.

use std::io::IsTerminal as _;

use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

const LEVEL_VARIABLE: &str = "DOCKET_LOG";
const FORMAT_VARIABLE: &str = "DOCKET_LOG_FORMAT";

/// Begins to log. Later calls change nothing.
pub(super) fn begin() {
    let levels = std::env::var(LEVEL_VARIABLE)
        .ok()
        .and_then(|levels| levels.parse::<Targets>().ok());
    let usual = || {
        Targets::new()
            .with_default(tracing::Level::WARN)
            .with_target("docket", tracing::Level::INFO)
    };
    let terminal = std::io::stderr().is_terminal();
    let is_json = match std::env::var(FORMAT_VARIABLE).as_deref() {
        Ok("json") => true,
        Ok("pretty") => false,
        _ => !terminal,
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_target(false);
    let lines = match is_json {
        true => lines.json().flatten_event(true).with_current_span(false).boxed(),
        false => lines.with_ansi(terminal).boxed(),
    };
    let begun = tracing_subscriber::registry()
        .with(lines.with_filter(levels.unwrap_or_else(usual)))
        .try_init();
    // Somebody logs already, and that is all we want.
    drop(begun);
}
