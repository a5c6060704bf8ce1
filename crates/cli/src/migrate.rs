//! `docket migrate`: brings the schema up to date. Every command that opens a database does so too; this one does nothing
//! else, for those who like to upgrade the schema first and start the servers afterwards.

use std::process::ExitCode;

use anyhow::Result;

use crate::screen::Screen;
use crate::target::TargetArgs;

/// What `docket migrate` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let target = args.target.resolve()?;
    let engine = target.open_without_files().await?;
    engine.close();
    Screen::new().line(&format!(
        "{} has schema version {}, the newest that this Docket knows.",
        target.describe(),
        docket_store::schema_version()
    ))?;
    Ok(ExitCode::SUCCESS)
}
