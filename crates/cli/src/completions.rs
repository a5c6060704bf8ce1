//! `docket completions SHELL`: what a shell needs to complete our commands and flags.

use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory as _;
use clap_complete::Shell;

/// What `docket completions` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "docket", &mut script);
    crate::screen::Screen::new().line(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}
