//! Where records come from: lines, or the rows of a table. Either is read beside the sending, at most a few batches ahead.

use anyhow::{Context as _, Result, bail};
use docket_store::source::Source as Table;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::batch::{Batch, Batcher, Position};
use super::checkpoint::State;
use super::lines::{Head, Lines};

/// Rows that are asked for at once.
const PAGE_ROWS: i64 = 500;

/// Where records come from.
pub(super) enum Source {
    Lines(Box<Lines>),
    Table {
        table: Box<Table>,
        after: Option<String>,
    },
}

impl Source {
    /// What it is, in words.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Lines(lines) => lines.name(),
            Self::Table { table, .. } => &table.described,
        }
    }

    /// The name by which a table is known again.
    pub(super) fn table(&self) -> Option<String> {
        match self {
            Self::Lines(_) => None,
            Self::Table { table, .. } => Some(table.described.clone()),
        }
    }

    /// The beginning by which a file is known again.
    pub(super) fn head(&self) -> Option<Head> {
        match self {
            Self::Lines(lines) => Some(lines.head().clone()),
            Self::Table { .. } => None,
        }
    }

    /// Whether a later run can go on where this one stops.
    pub(super) const fn is_resumable(&self) -> bool {
        match self {
            Self::Lines(lines) => lines.is_resumable(),
            Self::Table { .. } => true,
        }
    }

    /// How much there is, where that is known: bytes of a file, or rows.
    pub(super) fn total(&self) -> Option<u64> {
        match self {
            Self::Lines(lines) => lines.size,
            Self::Table { table, .. } => table.rows,
        }
    }

    /// Goes on where an earlier run has stopped.
    pub(super) fn resume(&mut self, state: &State) -> Result<()> {
        match (self, &state.position) {
            (_, None) => Ok(()),
            (Self::Lines(lines), Some(Position::Line(last))) => {
                let head = state
                    .head
                    .as_ref()
                    .context("the checkpoint does not say of which file it is")?;
                lines.resume(head, last)
            }
            (Self::Table { after, .. }, Some(Position::Key(key))) => {
                *after = Some(key.clone());
                Ok(())
            }
            _ => bail!("the checkpoint is of another kind of source"),
        }
    }

    /// Reads everything into batches. It ends when nobody takes them any more.
    pub(super) fn read(self, batcher: Batcher, batches: mpsc::Sender<Batch>) -> JoinHandle<Result<()>> {
        match self {
            Self::Lines(lines) => on_thread(move || read_lines(*lines, batcher, &batches)),
            Self::Table { table, after } => tokio::spawn(read_table(table, after, batcher, batches)),
        }
    }
}

/// Reads on a thread of its own, for which nobody waits at the end: standard input may never say anything more.
fn on_thread(read: impl FnOnce() -> Result<()> + Send + 'static) -> JoinHandle<Result<()>> {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || ended.send(read()).ok());
    tokio::spawn(async { end.await.context("the reading broke off")? })
}

fn read_lines(mut lines: Lines, mut batcher: Batcher, batches: &mpsc::Sender<Batch>) -> Result<()> {
    while let Some(line) = lines
        .next()
        .with_context(|| format!("{} cannot be read on", lines.name()))?
    {
        // A last line that is not whole has a batch of its own, behind which nobody goes on.
        if line.is_open {
            let rest = batcher.rest();
            if !rest.is_empty() && batches.blocking_send(rest).is_err() {
                return Ok(());
            }
        }
        batcher.line(&line);
        if let Some(batch) = batcher.full()
            && batches.blocking_send(batch).is_err()
        {
            return Ok(());
        }
    }
    let rest = batcher.rest();
    if !rest.is_empty() {
        // Nobody may be there to take it, which is their choice.
        batches.blocking_send(rest).ok();
    }
    Ok(())
}

async fn read_table(
    mut table: Box<Table>,
    mut after: Option<String>,
    mut batcher: Batcher,
    batches: mpsc::Sender<Batch>,
) -> Result<()> {
    loop {
        let rows = table.page(after.as_deref(), PAGE_ROWS).await?;
        let Some(last) = rows.last() else { break };
        after = Some(last.key.clone());
        for row in rows {
            batcher.row(row.key, &row.record);
            if let Some(batch) = batcher.full()
                && batches.send(batch).await.is_err()
            {
                return Ok(());
            }
        }
    }
    let rest = batcher.rest();
    if !rest.is_empty() {
        batches.send(rest).await.ok();
    }
    Ok(())
}
