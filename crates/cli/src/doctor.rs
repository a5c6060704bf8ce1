//! `docket doctor`: recounts what is counted, and says what differs.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::json;

use crate::screen::Screen;
use crate::target::{Target, TargetArgs, without_password};

/// What `docket doctor` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: TargetArgs,
    /// Answer in JSON, for programs
    #[arg(long)]
    json: bool,
}

/// The exit code for a database that differs from its counts.
const DIFFERS: u8 = 1;

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    let screen = Screen::new();
    match look(&args.target).await {
        Ok((target, differences)) => {
            if args.json {
                screen.line(
                    &json!({
                        "healthy": differences.is_empty(), "database": target.describe(),
                        "schemaVersion": docket_store::schema_version(), "differences": differences,
                    })
                    .to_string(),
                )?;
            } else {
                tell(&screen, &target, &differences)?;
            }
            Ok(match differences.is_empty() {
                true => ExitCode::SUCCESS,
                false => ExitCode::from(DIFFERS),
            })
        }
        Err(error) => {
            if args.json {
                let causes: Vec<_> = error
                    .chain()
                    .map(|cause| without_password(&cause.to_string()))
                    .collect();
                screen.line(&json!({ "healthy": null, "error": causes }).to_string())?;
            }
            Err(error)
        }
    }
}

async fn look(args: &TargetArgs) -> Result<(Target, Vec<String>)> {
    let target = args.resolve()?;
    target.check_exists()?;
    let engine = target.open_without_files().await?;
    let differences = engine.doctor().await.context("the doctor could not look")?;
    engine.close();
    Ok((target, differences))
}

fn tell(screen: &Screen, target: &Target, differences: &[String]) -> Result<()> {
    screen.line(&format!(
        "{}, schema version {}",
        target.describe(),
        docket_store::schema_version()
    ))?;
    verdict(screen, differences)
}

/// The doctor's words; the demonstration ends with them too.
pub(crate) fn verdict(screen: &Screen, differences: &[String]) -> Result<()> {
    if differences.is_empty() {
        return screen.line(&format!(
            "{} Limits, active, queued, positions and counters agree with the rows.",
            screen.good("All is well.")
        ));
    }
    let count = differences.len();
    screen.line(&screen.bad(&format!(
        "{count} {}: what is counted is not what is there.",
        if count == 1 { "difference" } else { "differences" }
    )))?;
    for difference in differences {
        screen.line(&format!("  - {difference}"))?;
    }
    screen.line(
        "Keep a copy of the database as it is, and report this: no operation of Docket leaves such a state.",
    )
}
