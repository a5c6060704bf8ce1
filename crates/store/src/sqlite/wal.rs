//! Keeps the write-ahead log short.
//!
//! SQLite copies the log into the database by itself, but begins it anew only in a moment in which nobody reads from it. Readers that take
//! turns leave no such moment, and the log grows for as long as they do. So where it has become much longer than it should, the writer
//! makes such a moment between two groups: it lets the readers come to their end, for a short time, and begins the log anew.

use std::path::PathBuf;
use std::time::Duration;

use super::SqliteTx;
use super::open::BUSY_TIMEOUT;
use crate::error::{Error, Result};

/// How often the length is reached at which SQLite copies the log by itself, before something is done about it.
const LONGER_THAN_IT_SHOULD: u64 = 2;
/// It is looked at after every so many groups: to ask for a file's length costs a small group some of its time.
const LOOK_EVERY: u32 = 16;
/// How long the writer waits for readers. One that reads for longer keeps the log as it is.
const WAIT: Duration = Duration::from_millis(100);

/// The write-ahead log.
#[derive(Debug)]
pub(super) struct Wal {
    file: PathBuf,
    /// Longer than this it should not become.
    bytes_max: u64,
    /// The length at which something is tried the next time.
    due: u64,
    /// How many groups were committed since somebody looked.
    groups: u32,
}

impl Wal {
    /// Of this file, with the threshold of the writer's connection.
    pub(super) fn new(file: PathBuf, writer: &SqliteTx) -> Result<Self> {
        let number = |pragma| -> Result<u64> {
            let asked = writer
                .connection
                .pragma_query_value(None, pragma, |row| row.get(0));
            let number: i64 = asked.map_err(Error::sqlite("pragma"))?;
            Ok(number.unsigned_abs())
        };
        let bytes_max = LONGER_THAN_IT_SHOULD * number("wal_autocheckpoint")? * number("page_size")?;
        Ok(Self {
            file,
            bytes_max,
            due: bytes_max,
            groups: 0,
        })
    }

    /// Begins the log anew where it has become too long. Where a reader is in the way, that is tried again when the log has grown by as
    /// much once more: nobody is held up in vain after every group.
    pub(super) fn keep_short(&mut self, writer: &SqliteTx) {
        self.groups += 1;
        if self.groups < LOOK_EVERY {
            return;
        }
        self.groups = 0;
        if self.length() <= self.due {
            return;
        }
        if let Err(error) = begin_anew(writer) {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "the write-ahead log could not be begun anew"
            );
        }
        let left = self.length();
        self.due = match left > self.bytes_max {
            true => left + self.bytes_max,
            false => self.bytes_max,
        };
    }

    fn length(&self) -> u64 {
        std::fs::metadata(&self.file).map_or(0, |file| file.len())
    }
}

fn begin_anew(writer: &SqliteTx) -> Result<()> {
    let (connection, failed) = (&writer.connection, || Error::sqlite("checkpoint"));
    connection.busy_timeout(WAIT).map_err(failed())?;
    // Its row says how far it came. A reader that was in the way is no error.
    let done = connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()));
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failed())?;
    done.map_err(failed())
}
