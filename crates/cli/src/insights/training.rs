//! Training data on its way into a file. It gets its name when it is whole: a run that breaks off leaves nothing that could be taken for it.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use docket_client::Download;
use serde_json::json;

use crate::remote::Session;

pub(super) async fn write(session: &Session, download: Download, output: &Path) -> Result<ExitCode> {
    if output.as_os_str() == "-" {
        copy(download, &mut BufWriter::new(std::io::stdout())).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let part = beside(output);
    let cannot = || format!("{} cannot be written", output.display());
    let mut file = BufWriter::new(File::create(&part).with_context(cannot)?);
    let lines = match copy(download, &mut file).await {
        Ok(lines) => lines,
        Err(error) => {
            // What is left of it is of no use to anybody.
            std::fs::remove_file(&part).ok();
            return Err(error.context(cannot()));
        }
    };
    std::fs::rename(&part, output).with_context(cannot)?;
    session.show(&json!({ "output": output, "examples": lines }), |_| {
        format!("Examples: {lines}, written to {}.", output.display())
    })
}

/// Where it is written before it is whole.
fn beside(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

/// Copies what comes; how many lines there were.
async fn copy(mut download: Download, to: &mut (impl Write + Send)) -> Result<u64> {
    let mut lines = 0;
    while let Some(piece) = download.next().await? {
        lines += piece.iter().filter(|byte| **byte == b'\n').count() as u64;
        to.write_all(&piece)?;
    }
    to.flush()?;
    Ok(lines)
}
