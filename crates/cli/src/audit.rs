//! `docket audit`: takes the log out with everything that proves it, and proves such an export, offline.
//!
//! Exit codes: 0 whole, 1 not whole (the first thing that is wrong is named), 2 it could not be found out.

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, IsTerminal as _, Read as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use docket_core::content::Digest;
use docket_core::name::TenantId;
use docket_core::scope::{Actor, Operator, Scope};
use docket_core::seal::{Report, Verifier};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;

use crate::screen::Screen;
use crate::target::TargetArgs;

/// No line of an export is longer.
const LINE_MAX: u64 = 64 << 20;
const NOT_WHOLE: u8 = 1;
const WHO: &str = "docket audit";

/// What `docket audit` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Write the log with its seals, one JSON object a line
    Export(ExportArgs),
    /// Prove that an export, or the database itself, is whole; name the first entry that is not
    Verify(VerifyArgs),
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The file to write; standard output where none is given
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only what is this tenant's; other entries are hidden behind hashes
    #[arg(long, value_name = "ID")]
    tenant: Option<String>,
}

#[derive(Debug, clap::Args)]
struct VerifyArgs {
    /// The export to check; `-` is standard input. Without a file the database is checked against its own seals
    #[arg(value_name = "FILE", conflicts_with_all = ["data", "database"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
    /// The hash of a block that was noted earlier and has to be in the chain
    #[arg(long, value_name = "HASH", requires = "file")]
    head: Option<String>,
    /// Answer in JSON, for programs
    #[arg(long)]
    json: bool,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Command::Export(args) => export(args).await,
        Command::Verify(args) => match &args.file {
            Some(file) => {
                let (file, args) = (file.clone(), (args.head.clone(), args.json));
                tokio::task::spawn_blocking(move || verify_file(&file, args.0.as_deref(), args.1)).await?
            }
            None => verify_database(args).await,
        },
    }
}

/// A bar on standard error, where that is a terminal.
fn bar(total: u64, what: &'static str) -> ProgressBar {
    let target = match std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let template = "{spinner} {msg} {wide_bar} {human_pos} of {human_len}, {eta} left";
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(total), target).with_style(style);
    bar.set_message(what);
    bar
}

async fn export(args: &ExportArgs) -> Result<ExitCode> {
    let target = args.target.resolve()?;
    target.check_exists()?;
    let engine = target.open_without_files().await?;
    let mut export = match &args.tenant {
        None => {
            engine
                .audit_export(&Operator {
                    actor: Actor::new(WHO)?,
                })
                .await
        }
        Some(tenant) => {
            let (tenant, actor) = (TenantId::new(tenant.as_str())?, Actor::new(WHO)?);
            engine.audit_export_of(&Scope { tenant, actor }).await
        }
    }
    .context("the log could not be read")?;
    let mut out: Box<dyn Write + Send> = match &args.out {
        None => Box::new(BufWriter::new(std::io::stdout())),
        Some(path) => {
            let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
            Box::new(BufWriter::new(file))
        }
    };
    let bar = bar(export.entries(), "Exporting");
    while let Some(lines) = export.next().await.context("the log could not be read")? {
        bar.inc(
            lines
                .lines()
                .filter(|line| line.starts_with("{\"entry\""))
                .count() as u64,
        );
        out.write_all(lines.as_bytes())
            .context("the export could not be written")?;
    }
    out.flush().context("the export could not be written")?;
    bar.finish_and_clear();
    engine.close();
    if let Some(path) = &args.out {
        Screen::new().line(&format!(
            "Exported to {0}. Prove it with: docket audit verify {0}",
            path.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verify_file(path: &std::path::Path, head: Option<&str>, json: bool) -> Result<ExitCode> {
    let head = match head {
        None => None,
        Some(text) => match Digest::from_hex(&text.to_ascii_lowercase()) {
            Some(head) => Some(head),
            None => bail!("'{text}' is no hash of a block: it has 64 hexadecimal digits"),
        },
    };
    let (mut reader, size): (Box<dyn std::io::BufRead>, u64) = match path.as_os_str() == "-" {
        true => (Box::new(std::io::stdin().lock()), 0),
        false => {
            let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
            let size = file.metadata().map_or(0, |file| file.len());
            (Box::new(BufReader::with_capacity(1 << 20, file)), size)
        }
    };
    let bar = bar(size, "Checking");
    let (mut verifier, mut line) = (Verifier::new(head), String::new());
    let proved = loop {
        line.clear();
        let read = reader.by_ref().take(LINE_MAX).read_line(&mut line);
        let read = match read {
            // Bytes that are no text are no line of an export either.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                line = "\u{fffd}".to_owned();
                1
            }
            read => read.with_context(|| format!("{} cannot be read", path.display()))?,
        };
        if read == 0 {
            break verifier.finish();
        }
        bar.inc(read as u64);
        if let Err(fault) = verifier.take(line.trim_end_matches(['\n', '\r'])) {
            break Err(fault);
        }
    };
    bar.finish_and_clear();
    tell(proved.map_err(|fault| fault.to_string()), json)
}

async fn verify_database(args: &VerifyArgs) -> Result<ExitCode> {
    let target = args.target.resolve()?;
    target.check_exists()?;
    let engine = target.open_without_files().await?;
    let bar = bar(0, "Checking");
    let shown = bar.clone();
    let progress = move |done, total| {
        shown.set_length(total);
        shown.set_position(done);
    };
    let proved = engine
        .audit_verify(
            &Operator {
                actor: Actor::new(WHO)?,
            },
            progress,
        )
        .await
        .context("the log could not be read")?;
    bar.finish_and_clear();
    engine.close();
    tell(proved.map_err(|fault| fault.text), args.json)
}

fn tell(proved: Result<Report, String>, json: bool) -> Result<ExitCode> {
    let screen = Screen::new();
    let code = match &proved {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(NOT_WHOLE),
    };
    if json {
        let answer = match &proved {
            Ok(report) => json!({
                "whole": true, "tenantId": report.tenant, "blocks": report.blocks, "entries": report.entries,
                "shown": report.shown, "unsealed": report.unsealed, "head": report.head, "headFound": report.head_found,
            }),
            Err(fault) => json!({ "whole": false, "fault": fault }),
        };
        screen.line(&answer.to_string())?;
        return Ok(code);
    }
    let report = match proved {
        Ok(report) => report,
        Err(fault) => {
            screen.line(&format!("{} {fault}", screen.bad("Not whole.")))?;
            return Ok(code);
        }
    };
    let Report {
        blocks,
        entries,
        shown,
        unsealed,
        ..
    } = report;
    let what = match &report.tenant {
        None => {
            format!("{entries} entries in {blocks} sealed blocks: none is missing, added, changed or moved.")
        }
        Some(tenant) => format!(
            "{shown} entries of {tenant}, among {entries} in {blocks} sealed blocks: none that is shown was added, changed or moved."
        ),
    };
    screen.line(&format!("{} {what}", screen.good("Whole.")))?;
    if let Some(head) = report.head {
        screen.line(&format!("It is whole up to block {blocks}, head {head}"))?;
        screen.line(match report.head_found {
            Some(_) => "The head that was expected is in the chain.",
            None => {
                "Whether later blocks were cut off only a head that was noted elsewhere can tell (--head)."
            }
        })?;
    }
    if unsealed > 0 {
        screen.line(&format!(
            "{unsealed} more are not sealed yet, and nothing proves them."
        ))?;
    }
    Ok(code)
}
