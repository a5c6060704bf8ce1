//! What is shown: lines on standard output, with colours and a live part where that is a terminal.

use std::io::{IsTerminal as _, Write as _};

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Standard output.
#[derive(Clone, Debug)]
pub(crate) struct Screen {
    colours: bool,
    live: Option<MultiProgress>,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let terminal = std::io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self {
            colours: terminal && !plain,
            live: terminal.then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stdout())),
        }
    }

    /// Writes a line, above the live part where there is one.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        let write = || writeln!(std::io::stdout().lock(), "{text}");
        match &self.live {
            Some(live) => live.suspend(write)?,
            None => write()?,
        }
        Ok(())
    }

    /// Writes a line to standard error, for people: standard output is the answer's.
    pub(crate) fn note(text: &str) {
        writeln!(std::io::stderr().lock(), "{text}").ok();
    }

    /// Whether lines can change in place.
    pub(crate) const fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// A line that changes in place, on a terminal.
    pub(crate) fn live_line(&self, prefix: String) -> Option<ProgressBar> {
        let live = self.live.as_ref()?;
        let template = "{spinner} {prefix:26} {msg}";
        let style = ProgressStyle::with_template(template)
            .unwrap_or_else(|_| ProgressStyle::default_spinner())
            .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ");
        let bar = live.add(ProgressBar::new_spinner().with_style(style).with_prefix(prefix));
        bar.enable_steady_tick(std::time::Duration::from_millis(100));
        Some(bar)
    }

    fn coloured(&self, code: &str, text: &str) -> String {
        match self.colours {
            true => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
            false => text.to_owned(),
        }
    }

    pub(crate) fn title(&self, text: &str) -> String {
        self.coloured("1", text)
    }

    pub(crate) fn faint(&self, text: &str) -> String {
        self.coloured("2", text)
    }

    pub(crate) fn good(&self, text: &str) -> String {
        self.coloured("1;32", text)
    }

    pub(crate) fn bad(&self, text: &str) -> String {
        self.coloured("1;31", text)
    }

    pub(crate) fn notable(&self, text: &str) -> String {
        self.coloured("33", text)
    }
}

/// Whether nobody reads our output any more.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
