//! `docket backfill`: an existing queue moves in (rule A5), from JSON lines or from a live PostgreSQL table, by the calls of a running
//! server.
//!
//! **Invariant:** a record is taken in once, however often a run is killed, repeated or begun anew: its externalId says so, on the
//! server. The checkpoint only saves the way.
//!
//! **Invariant:** memory does not grow with the source. Lines, pages, batches and what is under way are bounded.
//!
//! Reading ([`source`]), mapping ([`mapping`]), sending ([`send`]) and accounting ([`run`]) know nothing of each other but a [`batch`].
//!
//! Deliberately absent: any access to Docket's own database, and any writing to the source.

mod batch;
mod checkpoint;
mod extended;
mod given;
mod lines;
mod mapping;
mod path;
mod reading;
mod refused;
mod run;
mod send;
mod source;
mod status;
mod sum;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use docket_client::{Client, RetryPolicy};
use docket_core::content::Digest;
use docket_store::source::{Source as Table, SourceConfig};
use serde_json::json;

use self::batch::Batcher;
use self::checkpoint::{Checkpoint, State, Task};
use self::given::MappingArgs;
use self::lines::Lines;
use self::mapping::Mapping;
use self::refused::RefusedFile;
use self::run::{Ended, Run};
use self::send::Target;
use self::source::Source;
use crate::remote::{REFUSED, RemoteArgs, Session};
use crate::target;

const SOURCE_VARIABLE: &str = "DOCKET_SOURCE_URL";
/// A server that restarts is waited for: some minutes in all.
const PATIENT: RetryPolicy = RetryPolicy {
    attempts: 14,
    base_ms: 200,
    max_ms: 30_000,
};
/// Exit code: it could not be done, or not to the end.
const FAILED: u8 = 2;

/// What `docket backfill` takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit codes: 0 everything was taken, known or skipped; 1 some records were refused; 2 it did not come to the end.\n\
    Killed or stopped, the same command goes on where it was. docs/guides/moving-in.md has examples."
)]
pub(crate) struct Args {
    #[command(flatten)]
    remote: RemoteArgs,
    /// JSON lines, also MongoDB's extended JSON as mongoexport writes it; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present = "table")]
    file: Option<PathBuf>,
    /// The collection that takes them in
    #[arg(long, value_name = "ID")]
    collection: String,
    /// Read all, map all, show the first items and the sum; ask no server and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Submit the records as new work for the collection's pipeline, within the tenant's limit, instead of for review
    #[arg(long)]
    process: bool,
    #[command(flatten)]
    table: TableArgs,
    #[command(flatten)]
    mapping: MappingArgs,
    /// How many records go in one call
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=1000))]
    batch: u16,
    /// Where the checkpoint is [default: FILE.backfill.json, or backfill-TABLE.json]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Forget the checkpoint and look at everything again; what was taken is known and not taken twice
    #[arg(long)]
    restart: bool,
    /// Keep refused records, with line and reason, in a file that can be mended and run again
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
}

/// A table instead of lines.
#[derive(Clone, Debug, clap::Args)]
struct TableArgs {
    /// The PostgreSQL database of the table [env: DOCKET_SOURCE_URL]
    #[arg(long, value_name = "URL", requires = "table")]
    postgres: Option<String>,
    /// A table or view instead of a file, as schema.table
    #[arg(long, value_name = "TABLE", conflicts_with = "file", requires = "column")]
    table: Option<String>,
    /// The column that identifies a row, by which the table is read in order
    #[arg(id = "column", long = "key-column", value_name = "COLUMN", requires = "table")]
    column: Option<String>,
    /// Which rows: a condition in SQL
    #[arg(long = "where", value_name = "CONDITION", requires = "table")]
    filter: Option<String>,
    /// No index says that the key is unique, but it is
    #[arg(long, requires = "table")]
    key_is_unique: bool,
}

pub(crate) async fn run(args: &Args) -> Result<ExitCode> {
    match backfill(args).await {
        Ok(code) => Ok(code),
        // A no to the whole run is a run that failed: 1 is for records.
        Err(error) => {
            crate::complain(&error);
            Ok(ExitCode::from(FAILED))
        }
    }
}

async fn backfill(args: &Args) -> Result<ExitCode> {
    let session = args.remote.session()?;
    let (mut source, mapping) = open(args).await?;
    let task = Task {
        server: session.client.server(),
        collection: args.collection.clone(),
        table: source.table(),
        mapping: Digest::of(format!("{mapping:?}{}", args.process).as_bytes()).to_string(),
    };
    let checkpoint = checkpoint(args, &source)?;
    let mut state = State::new(task, source.head());
    let earlier = checkpoint.as_ref().map(Checkpoint::read).transpose()?.flatten();
    if let (Some(checkpoint), Some(earlier), false) = (&checkpoint, earlier, args.restart) {
        checkpoint.check(&earlier, &state.task)?;
        let resumed = source.resume(&earlier);
        resumed.with_context(|| {
            let shown = checkpoint.path().display();
            format!(
                "the checkpoint {shown} does not fit; begin again with --restart, or name another with --state"
            )
        })?;
        state = earlier;
    }
    let target = match args.dry_run {
        true => Target::DryRun,
        false => target_of(&session, args).await?,
    };
    let begun_at = state.sum.records;
    if begun_at > 0 && !session.json {
        session
            .screen
            .line(&format!("Going on after {} records.", sum::grouped(begun_at)))?;
    }
    let refused = match &args.refused {
        Some(path) if !args.dry_run => Some(refused_file(args, path, &state)?),
        _ => None,
    };
    if let Some(checkpoint) = &checkpoint {
        state.refused = refused.as_ref().map(|file| file.kept().clone());
        checkpoint.write(&state)?;
    }
    let name = source.name().to_owned();
    let run = Run {
        source,
        batcher: Batcher::new(mapping, args.batch.into(), refused.is_some(), args.dry_run),
        target,
        state,
        checkpoint,
        refused,
    };
    let ended = run.run().await?;
    tell(&session, args, &name, ended)
}

/// The source, and where things are in its records.
async fn open(args: &Args) -> Result<(Source, Mapping)> {
    let (Some(table), Some(column)) = (&args.table.table, &args.table.column) else {
        let path = args
            .file
            .as_deref()
            .context("name a file of JSON lines, or a table with --table")?;
        let mapping = args.mapping.read(path::Path::of_name("_id"))?;
        return Ok((Source::Lines(Box::new(Lines::open(path)?)), mapping));
    };
    let url = args
        .table
        .postgres
        .clone()
        .or_else(|| target::variable(SOURCE_VARIABLE));
    let Some(url) = url else {
        bail!(
            "name the table's database with --postgres, or in {SOURCE_VARIABLE}, as postgres://user@host:5432/name"
        );
    };
    target::check_url(&url)?;
    let config = SourceConfig {
        url,
        table: table.clone(),
        key: column.clone(),
        filter: args.table.filter.clone(),
        key_is_unique: args.table.key_is_unique,
    };
    // What is wrong with the mapping is said before anybody connects.
    args.mapping.read(path::Path::of_name(column))?;
    let table = Table::open(&config).await?;
    let mapping = args.mapping.read(path::Path::of_name(&table.key))?;
    let table = Box::new(table);
    Ok((Source::Table { table, after: None }, mapping))
}

/// Where the checkpoint is; none for a dry run, and none for what cannot be gone on with.
fn checkpoint(args: &Args, source: &Source) -> Result<Option<Checkpoint>> {
    if !source.is_resumable() {
        if args.state.is_some() {
            bail!(
                "{} cannot be gone on with, so there is no checkpoint; run it again as it is, nothing is taken twice",
                source.name()
            );
        }
        return Ok(None);
    }
    if args.dry_run {
        return Ok(None);
    }
    let path = match (&args.state, &args.file, &args.table.table) {
        (Some(path), _, _) => path.clone(),
        (None, Some(file), _) => beside(file),
        (None, None, Some(table)) => {
            let plain = |character: char| {
                if character.is_alphanumeric() || character == '.' {
                    character
                } else {
                    '_'
                }
            };
            PathBuf::from(format!(
                "backfill-{}.json",
                table.chars().map(plain).collect::<String>()
            ))
        }
        (None, None, None) => return Ok(None),
    };
    Ok(Some(Checkpoint::new(path)))
}

fn refused_file(args: &Args, path: &Path, state: &State) -> Result<RefusedFile> {
    let same = |file: &Path| file.canonicalize().ok() == path.canonicalize().ok() && path.exists();
    if args.file.as_deref().is_some_and(same) {
        bail!(
            "--refused {} is the file that is read; name another",
            path.display()
        );
    }
    RefusedFile::open(path, state.refused.as_ref(), args.restart)
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".backfill.json");
    PathBuf::from(name)
}

/// Where the items go. A server, key or collection that is wrong is told of at once; later the server is waited for.
async fn target_of(session: &Session, args: &Args) -> Result<Target> {
    let found = session.client.collection(&args.collection).await;
    found.with_context(|| format!("collection {} cannot be filled", args.collection))?;
    let client: Client = session.client.with_retry(PATIENT);
    let collection = args.collection.clone();
    Ok(match args.process {
        true => Target::Pipeline { client, collection },
        false => Target::Review { client, collection },
    })
}

/// Tells what came of it; the exit code.
fn tell(session: &Session, args: &Args, name: &str, ended: Ended) -> Result<ExitCode> {
    let sum = &ended.state.sum;
    let is_over = ended.failed.is_none() && !ended.interrupted;
    if session.json {
        let mut answer = json!({ "source": name, "collection": args.collection, "dryRun": args.dry_run, "finished": is_over, "summary": sum.json() });
        if args.dry_run {
            answer["items"] = json!(ended.shown);
        }
        session.screen.line(&answer.to_string())?;
    } else {
        words(session, args, name, &ended)?;
    }
    if let Some(error) = ended.failed {
        crate::complain(
            &error.context("the run did not come to its end; the same command goes on where it was"),
        );
    } else if ended.interrupted {
        crate::screen::Screen::note("docket: stopped; the same command goes on where it was");
    }
    Ok(match (is_over, sum.refused()) {
        (false, _) => ExitCode::from(FAILED),
        (true, 0) => ExitCode::SUCCESS,
        (true, _) => ExitCode::from(REFUSED),
    })
}

fn words(session: &Session, args: &Args, name: &str, ended: &Ended) -> Result<()> {
    let screen = &session.screen;
    for item in &ended.shown {
        screen.line(&serde_json::to_string_pretty(item)?)?;
    }
    let taken = match (args.dry_run, args.process) {
        (true, _) => "would be sent",
        (false, true) => "taken, for the pipeline",
        (false, false) => "taken, for review",
    };
    let title = match args.dry_run {
        true => format!(
            "{name} into collection {} (dry run, nothing was sent)",
            args.collection
        ),
        false => format!("{name} into collection {}", args.collection),
    };
    screen.line(&screen.title(&title))?;
    screen.line(ended.state.sum.table(taken).trim_end())?;
    for line in ended.told.lines(args.refused.is_some()) {
        screen.line(&line)?;
    }
    // Nobody's machine is that unsure of everything.
    if ended.largest_confidence > 0.0 && ended.largest_confidence <= 1.0 {
        screen.line(
            "Every confidence is between 0 and 1 of 100. If they are fractions, say --confidence-max 1.",
        )?;
    }
    Ok(())
}
