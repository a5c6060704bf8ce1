//! Submitting: files one by one, JSON lines in batches, with a progress bar and a sum at the end.
//!
//! With `--idempotency-key` the whole run can be repeated: what was submitted is answered for and not submitted again.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use docket_client::wire::item::{SubmitItem, Submitted};
use docket_client::wire::json as wire_json;
use docket_client::wire::{Code, EntryError};
use docket_client::{ClientError, Upload};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::remote::{REFUSED, Session};
use crate::worker::lines::Lines;

/// The longest line of JSON: a payload of 1 MiB with all that goes with it.
const LINE_MAX: usize = 8 * 1024 * 1024;
/// How many refusals are told to people.
const TOLD_MAX: usize = 10;
/// A batch is sent when it has so many bytes, though it may have room for more entries.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The same for what their values take in memory: the server takes four times as much.
const BATCH_VALUES_MAX: usize = 64 << 20;

/// What `docket items submit` takes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The collection
    collection: String,
    /// Files, each an item
    files: Vec<PathBuf>,
    /// JSON lines, each an item as the API takes it: {"payload": …, "externalId": …}; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "files")]
    jsonl: Option<PathBuf>,
    /// Each JSON line is the payload itself
    #[arg(long, requires = "jsonl")]
    payload: bool,
    /// How many JSON items go in one call
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=1000))]
    batch: u16,
    /// The files' type [default: by their names]
    #[arg(long, value_name = "TYPE")]
    media_type: Option<String>,
    /// Makes the run repeatable: the same key, the same order and the same batches submit nothing twice
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,
}

/// What became of everything.
#[derive(Debug, Default)]
struct Sum {
    submitted: u64,
    duplicates: u64,
    refused: u64,
    told: Vec<String>,
    limit_reached: bool,
}

pub(super) async fn run(session: &Session, args: &Args) -> Result<ExitCode> {
    let mut sum = Sum::default();
    match &args.jsonl {
        Some(path) => submit_lines(session, args, path, &mut sum).await?,
        None if args.files.is_empty() => bail!("name files to submit, or JSON lines with --jsonl FILE"),
        None => submit_files(session, args, &mut sum).await?,
    }
    if session.json {
        let Sum {
            submitted,
            duplicates,
            refused,
            ..
        } = sum;
        session.screen.line(
            &json!({ "summary": { "submitted": submitted, "duplicates": duplicates, "refused": refused } })
                .to_string(),
        )?;
    } else {
        session.screen.line(&format!(
            "{} submitted, {} known already, {} refused.",
            sum.submitted, sum.duplicates, sum.refused
        ))?;
        for line in &sum.told {
            session.screen.line(&format!("  - {line}"))?;
        }
        if sum.refused > sum.told.len() as u64 {
            session
                .screen
                .line(&format!("  … and {} more", sum.refused - sum.told.len() as u64))?;
        }
    }
    Ok(match sum.refused {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(REFUSED),
    })
}

/// A bar on standard error, where that is a terminal.
fn bar(total: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style)
}

impl Sum {
    fn taken(&mut self, duplicate: bool) {
        match duplicate {
            true => self.duplicates += 1,
            false => self.submitted += 1,
        }
    }

    fn refused(&mut self, which: &str, code: &str, detail: &str) {
        self.refused += 1;
        self.limit_reached |= code == "rate_limited";
        if self.told.len() < TOLD_MAX {
            self.told.push(format!("{which}: {detail}"));
        }
    }
}

async fn submit_files(session: &Session, args: &Args, sum: &mut Sum) -> Result<()> {
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |about| about.len());
    let progress = bar(
        args.files.iter().map(size).sum(),
        "{bar:30} {bytes}/{total_bytes} {msg}",
    );
    for (index, path) in args.files.iter().enumerate() {
        let shown = path.display().to_string();
        progress.set_message(shown.clone());
        let mut upload = Upload::new(path);
        upload.media_type = args
            .media_type
            .clone()
            .or_else(|| media_type(path).map(str::to_owned));
        upload.idempotency_key = args
            .idempotency_key
            .as_ref()
            .map(|key| format!("{key}-{}", index + 1));
        let counted = progress.clone();
        let sent = move |bytes| counted.inc(bytes);
        match session.client.upload(&args.collection, &upload, sent).await {
            Ok(uploaded) => {
                sum.taken(uploaded.duplicate);
                if session.json {
                    session
                        .screen
                        .line(&json!({ "file": shown, "ok": true, "answer": uploaded }).to_string())?;
                }
            }
            Err(error) => refuse_file(session, sum, &shown, error)?,
        }
        if sum.limit_reached {
            let left = args.files.len() - index - 1;
            sum.refused += left as u64;
            break;
        }
    }
    progress.finish_and_clear();
    Ok(())
}

/// A file that was refused spoils no other; a server that is away does.
fn refuse_file(session: &Session, sum: &mut Sum, shown: &str, error: ClientError) -> Result<()> {
    let (code, detail) = match &error {
        ClientError::Problem(problem) if problem.status < 500 && ![401, 403].contains(&problem.status) => {
            (problem.code.clone(), problem.to_string())
        }
        ClientError::File { source, .. } => ("file".to_owned(), format!("{error} ({source})")),
        _ => return Err(error).with_context(|| format!("{shown} could not be submitted")),
    };
    if session.json {
        let error = json!({ "code": code, "detail": detail });
        session
            .screen
            .line(&json!({ "file": shown, "ok": false, "error": error }).to_string())?;
    }
    sum.refused(shown, &code, &detail);
    Ok(())
}

/// One batch on its way.
#[derive(Default)]
struct Batch {
    items: Vec<SubmitItem>,
    lines: Vec<u64>,
    bytes: usize,
    values: usize,
    number: u64,
}

async fn submit_lines(session: &Session, args: &Args, path: &Path, sum: &mut Sum) -> Result<()> {
    let is_standard_input = path.as_os_str() == "-";
    let path = if is_standard_input {
        Path::new("/dev/stdin")
    } else {
        path
    };
    let opened = tokio::fs::File::open(path).await;
    let from = opened.with_context(|| format!("{} cannot be read", path.display()))?;
    let total = std::fs::metadata(path).map_or(0, |about| about.len());
    let progress = bar(total, "{bar:30} {bytes}/{total_bytes} {msg}");
    let (mut lines, mut batch, mut number) = (Lines::new(from, LINE_MAX), Batch::default(), 0);
    while let Some(line) = lines.next().await.context("the lines cannot be read")? {
        number += 1;
        progress.inc(line.bytes.len() as u64 + 1);
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        match read_item(&line.bytes, args.payload) {
            _ if line.is_cut => sum.refused(
                &format!("line {number}"),
                "payload_too_large",
                "the line is too long",
            ),
            Err(error) => {
                let detail = error.to_string();
                tell_line(session, number, &Err(local_refusal(&detail)))?;
                sum.refused(&format!("line {number}"), "validation_failed", &detail);
            }
            Ok(item) => {
                batch.items.push(item);
                batch.lines.push(number);
                batch.bytes += line.bytes.len();
                batch.values += wire_json::weigh(&line.bytes, usize::MAX).unwrap_or(0);
            }
        }
        if batch.items.len() >= args.batch.into()
            || batch.bytes >= BATCH_BYTES_MAX
            || batch.values >= BATCH_VALUES_MAX
        {
            send(session, args, &mut batch, sum).await?;
            progress.set_message(format!("{} submitted", sum.submitted));
            if sum.limit_reached {
                progress.finish_and_clear();
                bail!(
                    "the limit is reached; stopped after line {number}, with {} items submitted and {} known already",
                    sum.submitted,
                    sum.duplicates
                );
            }
        }
    }
    send(session, args, &mut batch, sum).await?;
    progress.finish_and_clear();
    Ok(())
}

fn local_refusal(detail: &str) -> EntryError {
    EntryError::new(Code::ValidationFailed, detail)
}

fn read_item(line: &[u8], is_payload: bool) -> serde_json::Result<SubmitItem> {
    match is_payload {
        false => wire_json::read(line),
        true => {
            let payload: Value = wire_json::read(line)?;
            serde_json::from_value(json!({ "payload": payload }))
        }
    }
}

async fn send(session: &Session, args: &Args, batch: &mut Batch, sum: &mut Sum) -> Result<()> {
    if batch.items.is_empty() {
        return Ok(());
    }
    batch.number += 1;
    let (items, lines) = (std::mem::take(&mut batch.items), std::mem::take(&mut batch.lines));
    (batch.bytes, batch.values) = (0, 0);
    let key = args
        .idempotency_key
        .as_ref()
        .map(|key| format!("{key}-{}", batch.number));
    let sent = session
        .client
        .items_submit(&args.collection, items, key.as_deref())
        .await;
    let results = sent.with_context(|| {
        let taken = sum.submitted + sum.duplicates;
        format!(
            "stopped at line {}; {taken} items before it were taken",
            lines.first().unwrap_or(&0)
        )
    })?;
    for (number, result) in lines.iter().zip(results) {
        tell_line(session, *number, &result)?;
        match result {
            Ok(taken) => sum.taken(taken.duplicate),
            Err(error) => sum.refused(&format!("line {number}"), &error.code, &error.detail),
        }
    }
    Ok(())
}

fn tell_line(session: &Session, number: u64, result: &Result<Submitted, EntryError>) -> Result<()> {
    if !session.json {
        return Ok(());
    }
    let line = match result {
        Ok(taken) => json!({ "line": number, "ok": true, "item": taken.item, "duplicate": taken.duplicate }),
        Err(error) => json!({ "line": number, "ok": false, "error": error }),
    };
    session.screen.line(&line.to_string())
}

/// The type of a file, by the end of its name.
fn media_type(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    Some(match ending.as_str() {
        "csv" => "text/csv",
        "docx" => "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "eml" => "message/rfc822",
        "gif" => "image/gif",
        "html" | "htm" => "text/html",
        "jpg" | "jpeg" => "image/jpeg",
        "json" => "application/json",
        "md" => "text/markdown",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "tif" | "tiff" => "image/tiff",
        "txt" => "text/plain",
        "wav" => "audio/wav",
        "webp" => "image/webp",
        "xlsx" => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "xml" => "application/xml",
        "zip" => "application/zip",
        _ => return None,
    })
}
